/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/gguf.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_BYTES_MAX (256u << 20) /* tokenizer lists of large vocabularies are some 10 MiB */
#define STEPS_MAX 20000000u
enum { WINDOW_BYTES = 1 << 16, NESTED_ARRAYS_MAX = 4, KEY_BYTES = 256, TEXT_BYTES = 256 };

enum value_type {
	T_U8,
	T_I8,
	T_U16,
	T_I16,
	T_U32,
	T_I32,
	T_F32,
	T_BOOL,
	T_STRING,
	T_ARRAY,
	T_U64,
	T_I64,
	T_F64
};
static const uint8_t type_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* llama.cpp's file types, by number. */
static const char *const file_types[] = {
	"F32",    "F16",    "Q4_0",   "Q4_1",    NULL,     NULL,     NULL,     "Q8_0",   "Q5_0",  "Q5_1",
	"Q2_K",   "Q3_K_S", "Q3_K_M", "Q3_K_L",  "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS",
	"IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S", "IQ2_M",
	"IQ4_XS", "IQ1_M",  "BF16",   NULL,      NULL,     NULL,     "TQ1_0",  "TQ2_0",  "MXFP4",
};

struct reader {
	int fd;
	const char *name;
	struct err *err;
	uint64_t at, size; /* of the next byte, of the file */
	uint64_t window_at;
	size_t window_len;
	unsigned steps;
	uint32_t version;
	bool big_endian;
	uint8_t window[WINDOW_BYTES];
};

struct text {
	char s[TEXT_BYTES];
	uint64_t len; /* whole length; s holds its start, NUL-terminated */
};

static int damaged(struct reader *r, const char *what)
{
	return err_set(r->err, ERR_PLAN, "%s: GGUF header damaged at byte %" PRIu64 ": %s", r->name, r->at,
	               what);
}

static int fill(struct reader *r)
{
	ssize_t n;
	do
		n = pread(r->fd, r->window, WINDOW_BYTES, (off_t)r->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(r->err, ERR_ENV, errno, "%s: cannot read", r->name);
	r->window_at = r->at;
	r->window_len = (size_t)n;
	return 0;
}

static int skip(struct reader *r, uint64_t n)
{
	if (n > r->size - r->at)
		return damaged(r, "it ends too early");
	if (r->at + n > HEADER_BYTES_MAX || ++r->steps > STEPS_MAX)
		return damaged(r, "it is larger than any real one");
	r->at += n;
	return 0;
}

static int take(struct reader *r, void *out, size_t n)
{
	uint64_t from = r->at;
	if (skip(r, n))
		return -1;
	if (from < r->window_at || from + n > r->window_at + r->window_len) {
		r->at = from;
		if (fill(r))
			return -1;
		if (r->window_len < n)
			return damaged(r, "it ends too early");
		r->at = from + n;
	}
	memcpy(out, r->window + (from - r->window_at), n);
	return 0;
}

static int take_uint(struct reader *r, size_t n, uint64_t *out)
{
	uint8_t b[8];
	uint64_t v = 0;
	if (take(r, b, n))
		return -1;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | b[r->big_endian ? i : n - 1 - i];
	*out = v;
	return 0;
}

/* Version 1 had 32-bit counts. */
static int take_count(struct reader *r, uint64_t *out)
{
	return take_uint(r, r->version == 1 ? 4 : 8, out);
}

static int take_text(struct reader *r, struct text *out)
{
	if (take_count(r, &out->len))
		return -1;
	size_t n = out->len < TEXT_BYTES - 1 ? (size_t)out->len : TEXT_BYTES - 1;
	if (take(r, out->s, n) || skip(r, out->len - n))
		return -1;
	out->s[n] = '\0';
	return 0;
}

static int skip_text(struct reader *r)
{
	uint64_t len;
	return take_count(r, &len) || skip(r, len) ? -1 : 0;
}

/* Arrays may nest; more than a few levels is an attack. */
static int skip_array(struct reader *r)
{
	uint64_t type, n;
	for (unsigned level = 0; level < NESTED_ARRAYS_MAX; level++) {
		if (take_uint(r, 4, &type) || take_count(r, &n))
			return -1;
		if (type > T_F64)
			return damaged(r, "unknown type of an array");
		if (type != T_ARRAY) {
			if (type_bytes[type])
				return n > r->size ? damaged(r, "an array is longer than the file")
				                   : skip(r, n * type_bytes[type]);
			for (uint64_t i = 0; i < n; i++)
				if (skip_text(r))
					return -1;
			return 0;
		}
		if (n != 1)
			return damaged(r, "arrays of several arrays are not read");
	}
	return damaged(r, "arrays nested too deep");
}

static int skip_value(struct reader *r, uint64_t type)
{
	if (type == T_STRING)
		return skip_text(r);
	if (type == T_ARRAY)
		return skip_array(r);
	if (type > T_F64)
		return damaged(r, "unknown type of a value");
	return skip(r, type_bytes[type]);
}

static bool is_unsigned_type(uint64_t type)
{
	return type == T_U8 || type == T_U16 || type == T_U32 || type == T_U64 || type == T_I32;
}

/* The value when it is a whole number, *has = false and skipped else. */
static int take_whole(struct reader *r, uint64_t type, uint64_t *out, bool *has)
{
	*has = is_unsigned_type(type);
	if (!*has)
		return skip_value(r, type);
	if (take_uint(r, type_bytes[type], out))
		return -1;
	if (type == T_I32 && *out > INT32_MAX)
		*has = false;
	return 0;
}

static int take_text_value(struct reader *r, uint64_t type, char *out, size_t size)
{
	struct text t;
	if (type != T_STRING)
		return skip_value(r, type);
	if (take_text(r, &t))
		return -1;
	size_t n = strnlen(t.s, size - 1); /* longer ones are cut */
	memcpy(out, t.s, n);
	out[n] = '\0';
	return 0;
}

static void name_file_type(struct gguf_info *g, uint64_t number)
{
	if (number < ARRAY_LEN(file_types) && file_types[number])
		snprintf(g->file_type, sizeof(g->file_type), "%s", file_types[number]);
	else
		snprintf(g->file_type, sizeof(g->file_type), "type %" PRIu32, (uint32_t)number);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

static int take_member(struct reader *r, struct gguf_info *g)
{
	struct text key;
	uint64_t type, number = 0;
	bool has = false;
	if (take_text(r, &key) || take_uint(r, 4, &type))
		return -1;
	if (strcmp(key.s, "general.architecture") == 0)
		return take_text_value(r, type, g->architecture, sizeof(g->architecture));
	if (strcmp(key.s, "general.name") == 0)
		return take_text_value(r, type, g->name, sizeof(g->name));
	if (strcmp(key.s, "general.file_type") == 0) {
		if (take_whole(r, type, &number, &has))
			return -1;
		if (has)
			name_file_type(g, number);
		return 0;
	}
	if (strcmp(key.s, "split.count") == 0)
		return take_whole(r, type, &g->split_count, &g->has_split);
	if (ends_with(key.s, ".context_length") && !strchr(key.s, '/')) {
		size_t n = strlen(g->architecture);
		bool ours = n == 0 || (strncmp(key.s, g->architecture, n) == 0 && key.s[n] == '.');
		if (ours)
			return take_whole(r, type, &g->context_tok, &g->has_context);
	}
	return skip_value(r, type);
}

static int take_start(struct reader *r, struct gguf_info *g)
{
	char magic[4];
	uint64_t version;
	if (r->size < 24 || take(r, magic, 4) || memcmp(magic, "GGUF", 4) != 0)
		return err_set(r->err, ERR_PLAN, "%s: is no GGUF file (it does not start with \"GGUF\")",
		               r->name);
	if (take_uint(r, 4, &version))
		return -1;
	/* The version is small: one that is not was written in the other byte order. */
	if ((version & 0xffff) == 0) {
		r->big_endian = true;
		version = __builtin_bswap32((uint32_t)version);
	}
	if (version < 1 || version > 3)
		return err_set(r->err, ERR_PLAN, "%s: GGUF version %" PRIu64 " is not known (want 1 to 3)",
		               r->name, version);
	r->version = (uint32_t)version;
	g->version = r->version;
	g->big_endian = r->big_endian;
	return take_count(r, &g->n_tensors) || take_count(r, &g->n_metadata) ? -1 : 0;
}

static int read_header(struct reader *r, struct gguf_info *g)
{
	if (take_start(r, g))
		return -1;
	for (uint64_t i = 0; i < g->n_metadata; i++)
		if (take_member(r, g))
			return -1;
	return 0;
}

int gguf_read(struct gguf_info *out, const char *path, struct err *err)
{
	struct stat st;
	struct gguf_info g = { 0 };
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s: is not a regular file", path);
	auto_free struct reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	r->fd = fd;
	r->name = path;
	r->err = err;
	r->size = (uint64_t)st.st_size;
	if (read_header(r, &g))
		return -1;
	*out = g;
	return 0;
}
