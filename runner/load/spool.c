/* SPDX-License-Identifier: Apache-2.0 */
#include "load/spool.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES (1u << 20)
#define WRITE_BYTES (256u << 10) /* a write that does not hold up the loop */

struct item { /* a record, its tokens, its text, one behind the other from `at` on */
	uint64_t end_ns, k, at;
	size_t tokens_len, text_len;
	bool has_text;
};

struct spool {
	size_t n_chunks, max_chunks;
	char **chunks;
	uint64_t len; /* bytes put so far; from memory_bytes on they are in the file */
	uint64_t memory_bytes;
	int fd; /* -1 = not needed yet */
	char *write_buf;
	size_t write_len;
	uint64_t file_len; /* without write_buf */
	size_t n_items, max_items;
	struct item *items;
};

struct spool *spool_new(size_t memory_bytes)
{
	struct spool *sp = calloc(1, sizeof *sp);
	if (!sp)
		return NULL;
	sp->fd = -1;
	sp->max_chunks = (memory_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	sp->memory_bytes = (uint64_t)sp->max_chunks * CHUNK_BYTES;
	sp->chunks = calloc(sp->max_chunks + 1, sizeof *sp->chunks);
	if (!sp->chunks) {
		free(sp);
		return NULL;
	}
	return sp;
}

void spool_free(struct spool *sp)
{
	if (!sp)
		return;
	for (size_t i = 0; i < sp->n_chunks; i++)
		free(sp->chunks[i]);
	free(sp->chunks);
	free(sp->write_buf);
	free(sp->items);
	if (sp->fd >= 0)
		close(sp->fd);
	free(sp);
}

/* --- in ------------------------------------------------------------------------------------------------ */

static int open_file(struct spool *sp)
{
	const char *dir = getenv("TMPDIR");
	char name[4096];
	if (!dir || !*dir)
		dir = P_tmpdir;
	sp->write_buf = malloc(WRITE_BYTES);
	if (!sp->write_buf)
		return -1;
	sp->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (sp->fd >= 0)
		return 0;
	if (snprintf(name, sizeof name, "%s/proofmark-XXXXXX", dir) >= (int)sizeof name)
		return -1;
	sp->fd = mkostemp(name, O_CLOEXEC);
	if (sp->fd >= 0)
		unlink(name);
	return sp->fd >= 0 ? 0 : -1;
}

static int flush(struct spool *sp)
{
	if (sp->write_len && fs_write_all(sp->fd, sp->write_buf, sp->write_len) < 0)
		return -1;
	sp->file_len += sp->write_len;
	sp->write_len = 0;
	return 0;
}

static int put_in_file(struct spool *sp, const char *bytes, size_t len)
{
	if (sp->fd < 0 && open_file(sp) < 0)
		return -1;
	while (len) {
		size_t n = WRITE_BYTES - sp->write_len;
		n = n < len ? n : len;
		memcpy(sp->write_buf + sp->write_len, bytes, n);
		sp->write_len += n;
		bytes += n;
		len -= n;
		if (sp->write_len == WRITE_BYTES && flush(sp) < 0)
			return -1;
	}
	return 0;
}

static int put_bytes(struct spool *sp, const void *data, size_t len)
{
	const char *bytes = data;
	while (len && sp->len < sp->memory_bytes) {
		size_t chunk = (size_t)(sp->len / CHUNK_BYTES), at = (size_t)(sp->len % CHUNK_BYTES);
		size_t n = CHUNK_BYTES - at < len ? CHUNK_BYTES - at : len;
		if (chunk == sp->n_chunks) {
			if (!(sp->chunks[chunk] = malloc(CHUNK_BYTES)))
				return -1;
			sp->n_chunks++;
		}
		memcpy(sp->chunks[chunk] + at, bytes, n);
		sp->len += n;
		bytes += n;
		len -= n;
	}
	if (len && put_in_file(sp, bytes, len) < 0)
		return -1;
	sp->len += len;
	return 0;
}

static struct item *new_item(struct spool *sp)
{
	if (sp->n_items == sp->max_items) {
		size_t max = sp->max_items ? 2 * sp->max_items : 1024;
		struct item *more = realloc(sp->items, max * sizeof *more);
		if (!more)
			return NULL;
		sp->items = more;
		sp->max_items = max;
	}
	return &sp->items[sp->n_items];
}

int spool_put(struct spool *sp, const struct record *rec, const uint8_t *tokens, size_t tokens_len,
              const char *text, size_t text_len)
{
	struct item *it = new_item(sp);
	if (!it)
		return -1;
	*it = (struct item){ rec->end_ns, rec->k, sp->len, tokens_len, text ? text_len : 0, text != NULL };
	if (put_bytes(sp, rec, sizeof *rec) < 0 || put_bytes(sp, tokens, tokens_len) < 0 ||
	    put_bytes(sp, text, it->text_len) < 0)
		return -1;
	sp->n_items++;
	return 0;
}

/* --- out ----------------------------------------------------------------------------------------------- */

static int get_bytes(const struct spool *sp, uint64_t at, char *out, size_t len)
{
	while (len && at < sp->memory_bytes) {
		size_t from = (size_t)(at % CHUNK_BYTES);
		size_t n = CHUNK_BYTES - from < len ? CHUNK_BYTES - from : len;
		memcpy(out, sp->chunks[at / CHUNK_BYTES] + from, n);
		at += n;
		out += n;
		len -= n;
	}
	while (len) {
		ssize_t n = pread(sp->fd, out, len, (off_t)(at - sp->memory_bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (uint64_t)n;
		out += n;
		len -= (size_t)n;
	}
	return 0;
}

struct place {
	const struct item *item;
	const struct spool *sp;
};

static int by_end(const void *a, const void *b)
{
	const struct item *x = ((const struct place *)a)->item, *y = ((const struct place *)b)->item;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (x->k > y->k) - (x->k < y->k);
}

static int give(const struct place *p, const struct load_sink *sink, char **bytes, size_t *cap)
{
	const struct item *it = p->item;
	size_t len = it->tokens_len + it->text_len + 1;
	struct record rec;
	if (len > *cap) {
		char *more = realloc(*bytes, len);
		if (!more)
			return -1;
		*bytes = more;
		*cap = len;
	}
	if (get_bytes(p->sp, it->at, (char *)&rec, sizeof rec) < 0 ||
	    get_bytes(p->sp, it->at + sizeof rec, *bytes, len - 1) < 0)
		return -1;
	char *text = *bytes + it->tokens_len;
	text[it->text_len] = '\0';
	return sink->take(sink->ctx, &rec, (const uint8_t *)*bytes, it->tokens_len,
	                  it->has_text ? text : NULL, it->text_len) == 0
	               ? 0
	               : -1;
}

int spool_merge(struct spool *const *all, size_t n, const struct load_sink *sink)
{
	size_t total = 0, at = 0, cap = 0;
	auto_free char *bytes = NULL;
	for (size_t i = 0; i < n; i++) {
		total += all[i]->n_items;
		if (flush(all[i]) < 0)
			return -1;
	}
	auto_free struct place *order = calloc(total + 1, sizeof *order);
	if (!order)
		return -1;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < all[i]->n_items; j++)
			order[at++] = (struct place){ &all[i]->items[j], all[i] };
	qsort(order, total, sizeof *order, by_end);
	for (size_t i = 0; i < total; i++)
		if (give(&order[i], sink, &bytes, &cap) < 0)
			return -1;
	return 0;
}
