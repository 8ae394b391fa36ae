/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/gguf.h"

#include "base/cleanup.h"
#include "pin/gguf_parts.h"
#include "pin/lfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEPT_ARRAY_MAX 4096 /* per-layer lists; vocabularies are longer */
#define KEPT_TEXT_MAX (64u << 10)
#define KEY_BYTES_MAX 65535
enum { START_BYTES = 24, VALUE_BYTES_MIN = 8 + 4 + 1, TENSOR_BYTES_MIN = 8 + 4 + 4 + 8 };

static const uint8_t type_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* --- values -------------------------------------------------------------------------------------------- */

int gguf_grow(void *list_ptr, size_t n, size_t *room, size_t elem_bytes)
{
	void **list = list_ptr;
	if (n < *room)
		return 0;
	size_t more = *room ? *room + *room / 2 : 16;
	void *p = realloc(*list, more * elem_bytes);
	if (!p)
		return -1;
	*list = p;
	*room = more;
	return 0;
}

static bool is_whole(enum gguf_type t)
{
	return t != GGUF_F32 && t != GGUF_F64 && t != GGUF_STRING && t != GGUF_ARRAY;
}

static uint64_t sign_extended(enum gguf_type t, uint64_t v)
{
	if (t == GGUF_I8)
		return (uint64_t)(int64_t)(int8_t)v;
	if (t == GGUF_I16)
		return (uint64_t)(int64_t)(int16_t)v;
	return t == GGUF_I32 ? (uint64_t)(int64_t)(int32_t)v : v;
}

static int skip_text(struct gguf_bytes *r)
{
	uint64_t len;
	return gguf_take_uint(r, 8, &len) || gguf_skip(r, len) ? -1 : 0;
}

static int take_list(struct gguf_bytes *r, struct gguf_value *v)
{
	v->list = calloc((size_t)v->n + 1, sizeof(*v->list));
	if (!v->list)
		return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
	for (uint64_t i = 0; i < v->n; i++) {
		if (gguf_take_uint(r, type_bytes[v->type], &v->list[i]))
			return -1;
		v->list[i] = sign_extended(v->type, v->list[i]);
	}
	v->n_kept = (size_t)v->n;
	return 0;
}

static int take_array(struct gguf_bytes *r, struct gguf_value *v)
{
	uint64_t type;
	if (gguf_take_uint(r, 4, &type) || gguf_take_uint(r, 8, &v->n))
		return -1;
	if (type == GGUF_ARRAY)
		return gguf_damaged(r, "an array of arrays");
	if (type > GGUF_F64)
		return gguf_damaged(r, "unknown type of an array");
	v->type = (enum gguf_type)type;
	v->is_array = true;
	if (v->n > gguf_left(r) / (type == GGUF_STRING ? 8 : type_bytes[type]))
		return gguf_damaged(r, "an array is longer than the file");
	if (type == GGUF_STRING) {
		for (uint64_t i = 0; i < v->n; i++)
			if (skip_text(r))
				return -1;
		return 0;
	}
	if (is_whole(v->type) && v->n <= KEPT_ARRAY_MAX)
		return take_list(r, v);
	return gguf_skip(r, v->n * type_bytes[type]);
}

static int take_text_value(struct gguf_bytes *r, struct gguf_value *v)
{
	if (gguf_take_uint(r, 8, &v->text_bytes))
		return -1;
	if (v->text_bytes > gguf_left(r))
		return gguf_damaged(r, "a text is longer than the file");
	if (v->text_bytes > KEPT_TEXT_MAX)
		return gguf_skip(r, v->text_bytes);
	v->text = calloc(1, (size_t)v->text_bytes + 1);
	if (!v->text)
		return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
	return gguf_take(r, v->text, (size_t)v->text_bytes);
}

static int take_scalar(struct gguf_bytes *r, struct gguf_value *v)
{
	uint64_t bits;
	uint32_t low;
	float f;
	if (gguf_take_uint(r, type_bytes[v->type], &bits))
		return -1;
	low = (uint32_t)bits;
	memcpy(&f, &low, sizeof(f));
	if (v->type == GGUF_F32)
		v->real = (double)f;
	else if (v->type == GGUF_F64)
		memcpy(&v->real, &bits, sizeof(v->real));
	else
		v->number = sign_extended(v->type, bits);
	return 0;
}

static int take_value(struct gguf_bytes *r, struct gguf_value *v)
{
	uint64_t type;
	if (gguf_take_text(r, &v->key, KEY_BYTES_MAX) || gguf_take_uint(r, 4, &type))
		return -1;
	if (type > GGUF_F64)
		return gguf_damaged(r, "unknown type of a value");
	v->type = (enum gguf_type)type;
	v->n = 1;
	if (type == GGUF_STRING)
		return take_text_value(r, v);
	return type == GGUF_ARRAY ? take_array(r, v) : take_scalar(r, v);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static int read_values(struct gguf *g, struct gguf_bytes *r, uint64_t n)
{
	size_t room = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (gguf_grow(&g->values, g->n_values, &room, sizeof(*g->values)))
			return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
		struct gguf_value *v = &g->values[g->n_values];
		memset(v, 0, sizeof(*v));
		if (take_value(r, v)) {
			free(v->key);
			free(v->text);
			free(v->list);
			return -1;
		}
		g->n_values++;
	}
	if (g->n_values)
		qsort(g->values, g->n_values, sizeof(*g->values), by_key);
	for (size_t i = 1; i < g->n_values; i++)
		if (by_key(&g->values[i - 1], &g->values[i]) == 0)
			return err_set(r->err, ERR_PLAN,
			               "%s: GGUF header damaged: the key %.100s is given twice", r->name,
			               g->values[i].key);
	return 0;
}

/* --- the start ----------------------------------------------------------------------------------------- */

static int bad_magic(struct gguf_bytes *r, const uint8_t m[4])
{
	static const char *const old[][2] = { { "tjgg", "GGJT" }, { "ggjt", "GGJT" }, { "fmgg", "GGMF" },
		                              { "ggmf", "GGMF" }, { "lmgg", "GGML" }, { "ggml", "GGML" },
		                              { "algg", "GGLA" }, { "ggla", "GGLA" } };
	for (size_t i = 0; i < ARRAY_LEN(old); i++)
		if (memcmp(m, old[i][0], 4) == 0)
			return err_set(r->err, ERR_PLAN,
			               "%s: is no GGUF file: an old %s file, from before GGUF: convert the "
			               "model again",
			               r->name, old[i][1]);
	if (memcmp(m, "FUGG", 4) == 0)
		return err_set(r->err, ERR_PLAN,
		               "%s: is no GGUF file: bad magic \"FUGG\" (a mark for big-endian files that "
		               "was proposed and not adopted; those start with \"GGUF\" too)",
		               r->name);
	return err_set(r->err, ERR_PLAN,
	               "%s: is no GGUF file: bad magic %02x %02x %02x %02x (want 47 47 55 46, \"GGUF\")",
	               r->name, m[0], m[1], m[2], m[3]);
}

/* The version is small: one that is not was written in the other byte order. */
static int take_version(struct gguf *g, struct gguf_bytes *r)
{
	uint64_t version;
	if (gguf_take_uint(r, 4, &version))
		return -1;
	if (version != 0 && (version & 0xffff) == 0) {
		r->big_endian = true;
		version = __builtin_bswap32((uint32_t)version);
	}
	if (version == 0)
		return err_set(r->err, ERR_PLAN, "%s: bad version: 0 (want 2 or 3)", r->name);
	if (version == 1)
		return err_set(r->err, ERR_PLAN,
		               "%s: GGUF version 1 is not supported (want 2 or 3): convert the model again",
		               r->name);
	if (version > 3)
		return err_set(r->err, ERR_PLAN, "%s: unknown GGUF version %" PRIu64 " (want 2 or 3)",
		               r->name, version);
	g->version = (uint32_t)version;
	g->big_endian = r->big_endian;
	return 0;
}

static int take_start(struct gguf *g, struct gguf_bytes *r, uint64_t *n_tensors, uint64_t *n_values)
{
	uint8_t magic[4];
	if (weights_not_a_stand_in(r->fd, r->size, r->name, r->err))
		return -1;
	if (r->size < 4)
		return err_set(r->err, ERR_PLAN, "%s: is no GGUF file: only %" PRIu64 " bytes", r->name,
		               r->size);
	if (gguf_take(r, magic, 4))
		return -1;
	if (memcmp(magic, "GGUF", 4) != 0)
		return bad_magic(r, magic);
	if (take_version(g, r) || gguf_take_uint(r, 8, n_tensors) || gguf_take_uint(r, 8, n_values))
		return -1;
	if (*n_values > gguf_left(r) / VALUE_BYTES_MIN || *n_tensors > gguf_left(r) / TENSOR_BYTES_MIN)
		return err_set(r->err, ERR_PLAN,
		               "%s: GGUF header damaged: it counts %" PRIu64 " tensors and %" PRIu64
		               " values, more than the file can hold",
		               r->name, *n_tensors, *n_values);
	return 0;
}

static int take_alignment(struct gguf *g, struct gguf_bytes *r)
{
	const struct gguf_value *v = gguf_find(g, "general.alignment");
	g->alignment_bytes = 32;
	if (!v)
		return 0;
	if (v->is_array || v->type != GGUF_U32 || v->number == 0 || (v->number & (v->number - 1)))
		return err_set(r->err, ERR_PLAN,
		               "%s: GGUF header damaged: general.alignment is no power of two (32 bits)",
		               r->name);
	g->alignment_bytes = v->number;
	return 0;
}

static int read_header(struct gguf *g, struct gguf_bytes *r)
{
	uint64_t n_tensors, n_values;
	if (take_start(g, r, &n_tensors, &n_values) || read_values(g, r, n_values) || take_alignment(g, r) ||
	    gguf_read_tensors(g, r, n_tensors))
		return -1;
	g->header_bytes = r->at;
	return gguf_check_layout(g, r);
}

int gguf_read(struct gguf *out, const char *path, struct err *err)
{
	struct stat st;
	struct gguf g = { 0 };
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s: is not a regular file", path);
	auto_free struct gguf_bytes *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	r->fd = fd;
	r->name = path;
	r->err = err;
	r->size = g.file_bytes = (uint64_t)st.st_size;
	if (read_header(&g, r)) {
		gguf_done(&g);
		return -1;
	}
	*out = g;
	return 0;
}

void gguf_done(struct gguf *g)
{
	for (size_t i = 0; i < g->n_values; i++) {
		free(g->values[i].key);
		free(g->values[i].text);
		free(g->values[i].list);
	}
	for (size_t i = 0; i < g->n_tensors; i++)
		free(g->tensors[i].name);
	free(g->values);
	free(g->tensors);
	*g = (struct gguf){ 0 };
}

/* --- look-ups ------------------------------------------------------------------------------------------ */

static int key_order(const void *key, const void *value)
{
	return strcmp(key, ((const struct gguf_value *)value)->key);
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	return g->n_values ? bsearch(key, g->values, g->n_values, sizeof(*g->values), key_order) : NULL;
}

const struct gguf_value *gguf_find_arch(const struct gguf *g, const char *key)
{
	char full[256];
	const char *arch = gguf_text(g, "general.architecture");
	if (!arch || snprintf(full, sizeof(full), "%s.%s", arch, key) >= (int)sizeof(full))
		return NULL;
	return gguf_find(g, full);
}

const char *gguf_text(const struct gguf *g, const char *key)
{
	const struct gguf_value *v = gguf_find(g, key);
	return v && !v->is_array ? v->text : NULL;
}

bool gguf_number(const struct gguf_value *v, uint64_t *out)
{
	if (!v || v->is_array || !is_whole(v->type))
		return false;
	bool is_signed =
		v->type == GGUF_I8 || v->type == GGUF_I16 || v->type == GGUF_I32 || v->type == GGUF_I64;
	if (is_signed && (int64_t)v->number < 0)
		return false;
	*out = v->number;
	return true;
}
