/* SPDX-License-Identifier: Apache-2.0 */
/* Sets as llama.cpp's gguf-split writes them: file names count from 1, split.no from 0, split.tensors.count
 * is of the whole set, and only the first part has the metadata of the model. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "pin/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUFFIX_BYTES = 20 }; /* "-00001-of-00003.gguf" */

struct split_name {
	bool is_part;
	unsigned no, count; /* from 1 */
	size_t prefix_len;
};

static bool five_digits(const char *p, unsigned *out)
{
	unsigned v = 0;
	for (int i = 0; i < 5; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = 10 * v + (unsigned)(p[i] - '0');
	}
	*out = v;
	return true;
}

static struct split_name split_name_of(const char *file)
{
	struct split_name s = { 0 };
	size_t len = strlen(file);
	if (len <= SUFFIX_BYTES)
		return s;
	const char *p = file + len - SUFFIX_BYTES;
	if (p[0] != '-' || memcmp(p + 6, "-of-", 4) != 0 || strcmp(p + 15, ".gguf") != 0 ||
	    !five_digits(p + 1, &s.no) || !five_digits(p + 10, &s.count))
		return s;
	s.is_part = true;
	s.prefix_len = len - SUFFIX_BYTES;
	return s;
}

static void wrong(struct gguf_set *s, const char *file, const char *what)
{
	problem_add(&s->problems, PROBLEM_ERROR, file, "%s", what);
}

/* --- one part ------------------------------------------------------------------------------------------ */

static bool split_number(const struct gguf_part *p, const char *key, uint64_t *out)
{
	return gguf_number(gguf_find(&p->head, key), out);
}

static void check_part(struct gguf_set *s, size_t i)
{
	struct gguf_part *p = &s->parts[i];
	uint64_t no, count;
	if (!split_number(p, "split.count", &count) || !split_number(p, "split.no", &no)) {
		wrong(s, p->file,
		      "is named as a part of a set, but its header has no split.no and split.count");
		return;
	}
	if (no != i)
		problem_add(&s->problems, PROBLEM_ERROR, p->file,
		            "split.no is %" PRIu64 ", its name says %zu", no, i);
	if (count != s->n_parts)
		problem_add(&s->problems, PROBLEM_ERROR, p->file,
		            "split.count is %" PRIu64 ", its name says %zu", count, s->n_parts);
	if (s->parts[0].is_read && (p->head.version != s->parts[0].head.version ||
	                            p->head.big_endian != s->parts[0].head.big_endian))
		wrong(s, p->file, "is of another version or byte order than the first part");
}

static void read_part(struct gguf_set *s, size_t i)
{
	struct gguf_part *p = &s->parts[i];
	struct err err = { 0 };
	if (!p->is_read && access(p->path, F_OK)) {
		p->is_missing = true;
		s->n_missing++;
		wrong(s, p->file, "is missing: fetch the whole set");
		return;
	}
	if (!p->is_read && gguf_read(&p->head, p->path, &err)) {
		problem_add(&s->problems, PROBLEM_ERROR, p->file, "%s", err.msg);
		return;
	}
	p->is_read = true;
	if (s->n_parts > 1)
		check_part(s, i);
	if (p->head.trailing_bytes)
		problem_add(&s->problems, PROBLEM_WARNING, p->file,
		            "%" PRIu64 " bytes behind the last tensor", p->head.trailing_bytes);
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_names(struct gguf_set *s)
{
	size_t n = 0;
	auto_free char **names = calloc((size_t)s->n_tensors + 1, sizeof(*names));
	if (!names)
		return;
	for (size_t i = 0; i < s->n_parts; i++)
		for (size_t k = 0; k < s->parts[i].head.n_tensors; k++)
			names[n++] = s->parts[i].head.tensors[k].name;
	qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 1; i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			problem_add(&s->problems, PROBLEM_ERROR, "", "tensor %s is in two parts", names[i]);
}

static void check_count(struct gguf_set *s)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		uint64_t told;
		const struct gguf_part *p = &s->parts[i];
		if (!p->is_read || !split_number(p, "split.tensors.count", &told))
			continue;
		if (told != s->n_tensors)
			problem_add(&s->problems, PROBLEM_ERROR, p->file,
			            "split.tensors.count is %" PRIu64 ", the parts hold %" PRIu64, told,
			            s->n_tensors);
	}
}

static void sum(struct gguf_set *s)
{
	bool whole = true;
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct gguf_part *p = &s->parts[i];
		whole = whole && p->is_read;
		s->n_tensors += p->head.n_tensors;
		s->n_elements += p->head.n_elements; /* cannot overflow: below the sum of file sizes */
		s->tensor_bytes += p->head.tensor_bytes;
		s->file_bytes += p->head.file_bytes;
	}
	if (s->n_parts < 2)
		return;
	check_names(s);
	if (whole)
		check_count(s);
	if (s->parts[0].is_read && !gguf_text(&s->parts[0].head, "general.architecture"))
		wrong(s, s->parts[0].file, "the first part has no general.architecture");
}

static int name_parts(struct gguf_set *s, const char *dir, const char *file, const struct split_name *n)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		struct gguf_part *p = &s->parts[i];
		p->file = n->is_part ? str_fmt("%.*s-%05zu-of-%05u.gguf", (int)n->prefix_len, file, i + 1,
		                               n->count)
		                     : strdup(file);
		p->path = p->file ? fs_join(dir, p->file) : NULL;
		if (!p->path)
			return -1;
	}
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool gguf_same_set(const char *file, const char *other)
{
	struct split_name a = split_name_of(file), b = split_name_of(other);
	return a.is_part && b.is_part && a.count == b.count && a.prefix_len == b.prefix_len &&
	       memcmp(file, other, a.prefix_len) == 0;
}

static int read_set(struct gguf_set *s, struct gguf *given, const char *path, struct err *err)
{
	const char *file = base_name(path);
	struct split_name n = split_name_of(file);
	uint64_t told = 0;
	if (n.is_part && (n.no < 1 || n.no > n.count || n.count > GGUF_PARTS_MAX))
		return err_set(err, ERR_PLAN, "%s: the numbers in its name make no set of at most %d parts",
		               path, GGUF_PARTS_MAX);
	/* A plain file with such a name. */
	bool split = gguf_number(gguf_find(given, "split.count"), &told) && told > 1;
	if (n.is_part && n.count == 1 && !split)
		n = (struct split_name){ 0 };
	s->n_parts = n.is_part ? n.count : 1;
	s->parts = calloc(s->n_parts, sizeof(*s->parts));
	auto_free char *dir = fs_dirname(path);
	if (!s->parts || !dir || name_parts(s, dir, file, &n))
		return err_set(err, ERR_ENV, "%s: no memory", path);
	struct gguf_part *mine = &s->parts[n.is_part ? n.no - 1 : 0];
	mine->head = *given;
	mine->is_read = true;
	*given = (struct gguf){ 0 };
	if (split && !n.is_part)
		problem_add(&s->problems, PROBLEM_ERROR, file,
		            "is one of %" PRIu64 " parts, but not named NAME-00001-of-%05" PRIu64
		            ".gguf: no engine finds the others",
		            told, told);
	for (size_t i = 0; i < s->n_parts; i++)
		read_part(s, i);
	sum(s);
	return 0;
}

int gguf_set_read(struct gguf_set *out, const char *path, struct err *err)
{
	struct gguf_set s = { 0 };
	struct gguf given = { 0 };
	if (gguf_read(&given, path, err))
		return -1;
	int rc = read_set(&s, &given, path, err);
	gguf_done(&given);
	if (rc) {
		gguf_set_done(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void gguf_set_done(struct gguf_set *s)
{
	for (size_t i = 0; s->parts && i < s->n_parts; i++) {
		free(s->parts[i].file);
		free(s->parts[i].path);
		gguf_done(&s->parts[i].head);
	}
	free(s->parts);
	problems_done(&s->problems);
	*s = (struct gguf_set){ 0 };
}
