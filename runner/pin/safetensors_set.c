/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/json_in.h"
#include "pin/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX_BYTES_MAX (64u << 20)
#define FILES_MAX 20000u
static const char index_end[] = ".safetensors.index.json";

/* --- names --------------------------------------------------------------------------------------------- */

static int add_name(struct st_names *l, const char *name)
{
	if (l->n == l->room) {
		size_t room = l->room ? l->room + l->room / 2 : 16;
		char **p = realloc(l->list, room * sizeof(*p));
		if (!p)
			return -1;
		l->list = p;
		l->room = room;
	}
	l->list[l->n] = strdup(name);
	return l->list[l->n] ? (l->n++, 0) : -1;
}

static void names_done(struct st_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i]);
	free(l->list);
	*l = (struct st_names){ 0 };
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_unique(struct st_names *l)
{
	size_t kept = 0;
	if (l->n == 0)
		return;
	qsort(l->list, l->n, sizeof(*l->list), by_text);
	for (size_t i = 1; i < l->n; i++) {
		if (strcmp(l->list[kept], l->list[i]) == 0)
			free(l->list[i]);
		else
			l->list[++kept] = l->list[i];
	}
	l->n = kept + 1;
}

static bool has_name(const struct st_names *l, const char *name)
{
	return l->n && bsearch(&name, l->list, l->n, sizeof(*l->list), by_text);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

/* --- the folder ---------------------------------------------------------------------------------------- */

static int list_folder(struct st_names *weights, char **index, const char *dir, struct err *err)
{
	size_t seen = 0;
	DIR *d = opendir(dir);
	if (!d)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", dir);
	int rc = 0;
	for (struct dirent *e; rc == 0 && (e = readdir(d));) {
		if (++seen > FILES_MAX)
			rc = err_set(err, ERR_PLAN, "%s: more than %u files", dir, FILES_MAX);
		else if (ends_with(e->d_name, ".safetensors") && add_name(weights, e->d_name))
			rc = err_set(err, ERR_ENV, "%s: no memory", dir);
		/* model.safetensors.index.json before any other, then the first by name */
		if (rc || !ends_with(e->d_name, index_end))
			continue;
		bool is_usual = strcmp(e->d_name, "model.safetensors.index.json") == 0;
		if (*index && strcmp(*index, "model.safetensors.index.json") == 0)
			continue;
		if (!*index || is_usual || strcmp(e->d_name, *index) < 0) {
			free(*index);
			*index = strdup(e->d_name);
		}
	}
	closedir(d);
	sort_unique(weights);
	return rc;
}

/* Below the folder, by name alone: "sub/model.safetensors" is, "../x" and "/x" are not. */
static bool is_inside(const char *file)
{
	if (file[0] == '/' || file[0] == '\0')
		return false;
	for (const char *p = file; *p;) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (*p == '/' && *++p == '\0')
			return false;
	}
	return true;
}

/* --- the index ----------------------------------------------------------------------------------------- */

struct mapping {
	const char *tensor, *file; /* of the document */
};

struct index {
	struct cJSON *doc;
	size_t n;
	struct mapping *list; /* sorted by tensor */
};

static int by_tensor(const void *a, const void *b)
{
	return strcmp(((const struct mapping *)a)->tensor, ((const struct mapping *)b)->tensor);
}

static int take_map(struct index *x, const struct cJSON *map, struct err *err)
{
	const struct cJSON *c;
	size_t n = 0;
	cJSON_ArrayForEach(c, map) n++;
	x->list = calloc(n + 1, sizeof(*x->list));
	if (!x->list)
		return err_set(err, ERR_ENV, "no memory");
	cJSON_ArrayForEach(c, map)
	{
		if (!cJSON_IsString(c) || strlen(c->valuestring) != json_string_len(c))
			return err_set(err, ERR_PLAN, "/weight_map/%.100s: want the name of a file",
			               c->string);
		x->list[x->n++] = (struct mapping){ c->string, c->valuestring };
	}
	qsort(x->list, x->n, sizeof(*x->list), by_tensor);
	return 0;
}

static int read_index(struct index *x, struct st_set *s, const char *dir, const char *file, struct err *err)
{
	auto_buf text = BUF_INIT(INDEX_BYTES_MAX);
	auto_free char *path = fs_join(dir, file);
	if (!path)
		return err_set(err, ERR_ENV, "no memory");
	if (fs_read(&text, path, INDEX_BYTES_MAX, err) ||
	    json_parse(&x->doc, text.p ? text.p : "", text.len, file, JSON_STRICT, NULL, err))
		return -1;
	const struct cJSON *map = json_get(x->doc, "weight_map");
	if (!cJSON_IsObject(map))
		return err_set(err, ERR_PLAN, "no object weight_map");
	if (!json_u64(json_get(x->doc, "metadata"), "total_size", &s->index_total_bytes))
		s->index_total_bytes = UINT64_MAX;
	return take_map(x, map, err);
}

static void index_done(struct index *x)
{
	cJSON_Delete(x->doc);
	free(x->list);
}

static const struct mapping *find_mapping(const struct index *x, const char *tensor)
{
	struct mapping key = { tensor, NULL };
	return x->n ? bsearch(&key, x->list, x->n, sizeof(*x->list), by_tensor) : NULL;
}

/* --- shards -------------------------------------------------------------------------------------------- */

static int add_shards(struct st_set *s, const struct st_names *files, const char *dir, struct err *err)
{
	s->shards = calloc(files->n + 1, sizeof(*s->shards));
	if (!s->shards)
		return err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; i < files->n; i++) {
		struct err why = { 0 };
		struct stat st;
		auto_free char *path = fs_join(dir, files->list[i]);
		if (!path)
			return err_set(err, ERR_ENV, "no memory");
		if (stat(path, &st) && errno == ENOENT) {
			if (add_name(&s->missing_files, files->list[i]))
				return err_set(err, ERR_ENV, "no memory");
			problem_add(&s->problems, PROBLEM_ERROR, files->list[i],
			            "is missing: the index names it");
			continue;
		}
		struct st_shard *sh = &s->shards[s->n_shards++];
		sh->file = strdup(files->list[i]);
		if (!sh->file)
			return err_set(err, ERR_ENV, "no memory");
		if (safetensors_read(&sh->head, path, &why)) {
			problem_add(&s->problems, PROBLEM_ERROR, sh->file, "%s", why.msg);
			continue;
		}
		sh->is_read = true;
		s->n_tensors += sh->head.n_tensors;
		s->n_elements += sh->head.n_elements; /* bounded by the sizes of real files */
		s->tensor_bytes += sh->head.tensor_bytes;
		s->file_bytes += sh->head.file_bytes;
	}
	return 0;
}

static const struct st_shard *find_shard(const struct st_set *s, const char *file)
{
	for (size_t lo = 0, hi = s->n_shards; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;
		int d = strcmp(file, s->shards[mid].file);
		if (d == 0)
			return &s->shards[mid];
		if (d < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static int check_mapped(struct st_set *s, const struct index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		const struct st_shard *sh = find_shard(s, x->list[i].file);
		if (!sh || !sh->is_read || safetensors_find(&sh->head, x->list[i].tensor))
			continue;
		if (add_name(&s->misplaced_tensors, x->list[i].tensor))
			return -1;
		problem_add(&s->problems, PROBLEM_ERROR, sh->file,
		            "holds no tensor %s, which the index places in it", x->list[i].tensor);
	}
	return 0;
}

static int check_held(struct st_set *s, const struct index *x)
{
	for (size_t i = 0; i < s->n_shards; i++) {
		const struct st_shard *sh = &s->shards[i];
		for (size_t k = 0; k < sh->head.n_tensors; k++) {
			const char *name = sh->head.tensors[k].name;
			const struct mapping *m = find_mapping(x, name);
			if (m && strcmp(m->file, sh->file) == 0)
				continue;
			if (!m && add_name(&s->unindexed_tensors, name))
				return -1;
			problem_add(&s->problems, m ? PROBLEM_ERROR : PROBLEM_WARNING, sh->file,
			            m ? "holds tensor %s, which the index places elsewhere"
			              : "holds tensor %s, which the index does not name",
			            name);
		}
	}
	return 0;
}

static int sort_files(struct st_set *s, struct st_names *wanted, const struct index *x,
                      const struct st_names *present)
{
	for (size_t i = 0; i < x->n; i++)
		if (add_name(is_inside(x->list[i].file) ? wanted : &s->outside_files, x->list[i].file))
			return -1;
	sort_unique(wanted);
	sort_unique(&s->outside_files);
	for (size_t i = 0; i < s->outside_files.n; i++)
		problem_add(&s->problems, PROBLEM_ERROR, s->outside_files.list[i],
		            "lies outside of the folder: not opened");
	for (size_t i = 0; i < present->n; i++)
		if (!has_name(wanted, present->list[i])) {
			if (add_name(&s->unindexed_files, present->list[i]))
				return -1;
			problem_add(&s->problems, PROBLEM_WARNING, present->list[i],
			            "is not in the index: not counted, but some loaders take it");
		}
	return 0;
}

static int read_indexed(struct st_set *s, const char *dir, const char *file, const struct st_names *present,
                        struct err *err)
{
	struct index x = { 0 };
	struct st_names wanted = { 0 };
	int rc = read_index(&x, s, dir, file, err);
	if (rc)
		err_wrap(err, "%s", file);
	else if (sort_files(s, &wanted, &x, present))
		rc = err_set(err, ERR_ENV, "%s: no memory", dir);
	else if (add_shards(s, &wanted, dir, err))
		rc = -1;
	else if (check_mapped(s, &x) || check_held(s, &x))
		rc = err_set(err, ERR_ENV, "%s: no memory", dir);
	if (rc == 0 && s->index_total_bytes != UINT64_MAX && s->index_total_bytes != s->tensor_bytes)
		problem_add(&s->problems, PROBLEM_ERROR, file,
		            "total_size is %" PRIu64 ", the shards that are there hold %" PRIu64,
		            s->index_total_bytes, s->tensor_bytes);
	names_done(&wanted);
	index_done(&x);
	return rc;
}

/* --- without an index ---------------------------------------------------------------------------------- */

/* "model-00002-of-00003.safetensors" */
static bool is_numbered(const char *file, unsigned *no, unsigned *count)
{
	size_t n = strlen(file);
	const char *p = n > 27 ? file + n - 27 : NULL;
	return p && p[0] == '-' && memcmp(p + 6, "-of-", 4) == 0 && strspn(p + 1, "0123456789") == 5 &&
	       strspn(p + 10, "0123456789") == 5 && sscanf(p, "-%5u-of-%5u", no, count) == 2;
}

static int check_numbers(struct st_set *s, const struct st_names *files)
{
	unsigned no, count = 0, told;
	if (!files->n || !is_numbered(files->list[0], &no, &count) || count > FILES_MAX)
		return 0;
	problem_add(&s->problems, PROBLEM_WARNING, "", "the shards have no index: tensors cannot be checked");
	size_t prefix = strlen(files->list[0]) - 27;
	for (unsigned k = 1; k <= count; k++) {
		auto_free char *want =
			str_fmt("%.*s-%05u-of-%05u.safetensors", (int)prefix, files->list[0], k, count);
		if (!want)
			return -1;
		if (has_name(files, want))
			continue;
		if (add_name(&s->missing_files, want))
			return -1;
		problem_add(&s->problems, PROBLEM_ERROR, want, "is missing: the others are numbered so");
	}
	for (size_t i = 0; i < files->n; i++)
		if (!is_numbered(files->list[i], &no, &told) || told != count)
			problem_add(&s->problems, PROBLEM_ERROR, files->list[i],
			            "does not belong to the other shards, and loaders take it too");
	return 0;
}

static int check_repeats(struct st_set *s)
{
	struct st_names all = { 0 };
	int rc = 0;
	for (size_t i = 0; i < s->n_shards && rc == 0; i++)
		for (size_t k = 0; k < s->shards[i].head.n_tensors && rc == 0; k++)
			rc = add_name(&all, s->shards[i].head.tensors[k].name);
	if (all.n)
		qsort(all.list, all.n, sizeof(*all.list), by_text);
	for (size_t i = 1; i < all.n; i++)
		if (strcmp(all.list[i - 1], all.list[i]) == 0)
			problem_add(&s->problems, PROBLEM_ERROR, "", "tensor %s is in two files",
			            all.list[i]);
	names_done(&all);
	return rc;
}

static int read_unindexed(struct st_set *s, const char *dir, const struct st_names *present, struct err *err)
{
	static const char single[] = "model.safetensors";
	struct st_names one = { 0 };
	const struct st_names *files = present;
	s->index_total_bytes = UINT64_MAX;
	if (present->n > 1 && has_name(present, single)) {
		if (add_name(&one, single))
			return err_set(err, ERR_ENV, "%s: no memory", dir);
		files = &one;
		for (size_t i = 0; i < present->n; i++)
			if (strcmp(present->list[i], single) != 0) {
				if (add_name(&s->unindexed_files, present->list[i]))
					return err_set(err, ERR_ENV, "%s: no memory", dir);
				problem_add(&s->problems, PROBLEM_WARNING, present->list[i],
				            "lies beside model.safetensors: not counted, but some loaders "
				            "take it");
			}
	}
	int rc = add_shards(s, files, dir, err);
	if (rc == 0 && (check_numbers(s, files) || check_repeats(s)))
		rc = err_set(err, ERR_ENV, "%s: no memory", dir);
	names_done(&one);
	return rc;
}

int st_set_read(struct st_set *out, const char *dir, struct err *err)
{
	struct st_set s = { 0 };
	struct st_names present = { 0 };
	auto_free char *index = NULL;
	int rc = list_folder(&present, &index, dir, err);
	s.has_index = index != NULL;
	if (rc == 0 && !index && present.n == 0)
		rc = err_set(err, ERR_PLAN, "%s: holds no *.safetensors file", dir);
	else if (rc == 0)
		rc = index ? read_indexed(&s, dir, index, &present, err)
		           : read_unindexed(&s, dir, &present, err);
	names_done(&present);
	sort_unique(&s.missing_files);
	if (rc) {
		st_set_done(&s);
		return -1;
	}
	*out = s;
	return 0;
}

int st_set_of_file(struct st_set *out, const char *path, struct err *err)
{
	struct safetensors head = { 0 };
	if (safetensors_read(&head, path, err))
		return -1;
	const char *slash = strrchr(path, '/');
	struct st_set s = { .n_shards = 1, .index_total_bytes = UINT64_MAX };
	s.shards = calloc(1, sizeof(*s.shards));
	char *file = strdup(slash ? slash + 1 : path);
	if (!s.shards || !file) {
		free(file);
		free(s.shards);
		safetensors_done(&head);
		return err_set(err, ERR_ENV, "%s: no memory", path);
	}
	s.shards[0] = (struct st_shard){ file, true, head };
	s.n_tensors = head.n_tensors;
	s.n_elements = head.n_elements;
	s.tensor_bytes = head.tensor_bytes;
	s.file_bytes = head.file_bytes;
	*out = s;
	return 0;
}

void st_set_done(struct st_set *s)
{
	for (size_t i = 0; s->shards && i < s->n_shards; i++) {
		free(s->shards[i].file);
		safetensors_done(&s->shards[i].head);
	}
	free(s->shards);
	names_done(&s->missing_files);
	names_done(&s->misplaced_tensors);
	names_done(&s->outside_files);
	names_done(&s->unindexed_files);
	names_done(&s->unindexed_tensors);
	problems_done(&s->problems);
	*s = (struct st_set){ 0 };
}
