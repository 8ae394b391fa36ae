/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/gguf_parts.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_BYTES_MAX = 64 };

static int bad_tensor(struct gguf_bytes *r, const struct gguf_tensor *t, const char *what)
{
	return err_set(r->err, ERR_PLAN, "%s: tensor %s: %s", r->name, t->name ? t->name : "?", what);
}

static int measure(struct gguf_tensor *t, struct gguf_bytes *r)
{
	uint32_t per_block, block_bytes;
	if (!gguf_type_block(t->type, &per_block, &block_bytes))
		return err_set(r->err, ERR_PLAN, "%s: tensor %s: type %" PRIu32 " is not known", r->name,
		               t->name, t->type);
	t->n_elements = 1;
	for (uint32_t i = 0; i < t->n_dims; i++)
		if (t->dims[i] > INT64_MAX ||
		    __builtin_mul_overflow(t->n_elements, t->dims[i], &t->n_elements) ||
		    t->n_elements > INT64_MAX)
			return bad_tensor(r, t, "its dimensions overflow");
	if (t->dims[0] % per_block)
		return bad_tensor(r, t, "its rows are no whole blocks of its type");
	if (__builtin_mul_overflow(t->n_elements / per_block, block_bytes, &t->bytes))
		return bad_tensor(r, t, "its size overflows");
	return 0;
}

static int take_tensor(struct gguf_tensor *t, struct gguf_bytes *r)
{
	uint64_t n_dims, type;
	if (gguf_take_text(r, &t->name, NAME_BYTES_MAX) || gguf_take_uint(r, 4, &n_dims))
		return -1;
	if (n_dims > GGUF_DIMS_MAX)
		return bad_tensor(r, t, "more than 4 dimensions");
	t->n_dims = (uint32_t)n_dims;
	for (size_t i = 0; i < GGUF_DIMS_MAX; i++)
		t->dims[i] = 1;
	for (uint32_t i = 0; i < t->n_dims; i++)
		if (gguf_take_uint(r, 8, &t->dims[i]))
			return -1;
	if (gguf_take_uint(r, 4, &type) || gguf_take_uint(r, 8, &t->offset))
		return -1;
	t->type = (uint32_t)type;
	return measure(t, r);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_names(const struct gguf *g, struct gguf_bytes *r)
{
	auto_free char **names = calloc(g->n_tensors + 1, sizeof(*names));
	if (!names)
		return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
	for (size_t i = 0; i < g->n_tensors; i++)
		names[i] = g->tensors[i].name;
	qsort(names, g->n_tensors, sizeof(*names), by_text);
	for (size_t i = 1; i < g->n_tensors; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return err_set(r->err, ERR_PLAN, "%s: tensor %s: the name is given twice", r->name,
			               names[i]);
	return 0;
}

int gguf_read_tensors(struct gguf *g, struct gguf_bytes *r, uint64_t n)
{
	size_t room = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (gguf_grow(&g->tensors, g->n_tensors, &room, sizeof(*g->tensors)))
			return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
		struct gguf_tensor *t = &g->tensors[g->n_tensors];
		memset(t, 0, sizeof(*t));
		if (take_tensor(t, r)) {
			free(t->name);
			return -1;
		}
		g->n_tensors++;
	}
	return check_names(g, r);
}

static bool pad(uint64_t *n, uint64_t alignment)
{
	if (__builtin_add_overflow(*n, alignment - 1, n))
		return false;
	*n &= ~(alignment - 1);
	return true;
}

static int wrong_offset(struct gguf_bytes *r, const struct gguf_tensor *t, uint64_t want)
{
	return err_set(r->err, ERR_PLAN,
	               "%s: tensor %s: its data begins at %" PRIu64 ", not at %" PRIu64
	               " where the one before ends: they %s",
	               r->name, t->name, t->offset, want, t->offset < want ? "overlap" : "leave a gap");
}

int gguf_check_layout(struct gguf *g, struct gguf_bytes *r)
{
	uint64_t at = 0, end = 0;
	g->data_offset = g->header_bytes;
	if (!pad(&g->data_offset, g->alignment_bytes))
		return gguf_damaged(r, "its padding overflows");
	for (size_t i = 0; i < g->n_tensors; i++) {
		const struct gguf_tensor *t = &g->tensors[i];
		if (t->offset != at)
			return wrong_offset(r, t, at);
		if (__builtin_add_overflow(at, t->bytes, &end) ||
		    __builtin_add_overflow(g->n_elements, t->n_elements, &g->n_elements))
			return bad_tensor(r, t, "the sizes overflow");
		at = end;
		g->tensor_bytes += t->bytes;
		if (!pad(&at, g->alignment_bytes))
			return bad_tensor(r, t, "the sizes overflow");
	}
	if (g->n_tensors == 0)
		return 0;
	if (__builtin_add_overflow(g->data_offset, end, &end) || end > g->file_bytes)
		return err_set(r->err, ERR_PLAN,
		               "%s: the file is shorter than its header says (%" PRIu64
		               " bytes): interrupted download",
		               r->name, g->file_bytes);
	uint64_t padded = g->data_offset + at;
	g->trailing_bytes = g->file_bytes > padded ? g->file_bytes - padded : 0;
	return 0;
}
