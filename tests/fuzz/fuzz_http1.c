/* SPDX-License-Identifier: Apache-2.0 */
/* http1: any bytes as what comes over a connection (first byte: how many a read). However they are cut, the
 * steps and the body must be the same; body and rest never exceed what came; a refusal says why. Then the
 * body through each content coding. */
#include "fuzz.h"
#include "load/http1.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct message {
	enum http1_step step;
	enum http1_end end;
	bool keeps;
	size_t used;
	struct http1_head head;
	struct buf body, trailers;
};

static void on_trailer(void *ctx, const char *line, size_t len)
{
	assert(len && line[len - 1] == '\n');
	buf_add(ctx, line, len);
}

static void read_in_steps(struct message *m, const uint8_t *p, size_t len, size_t step_bytes)
{
	struct http1 h;
	memset(m, 0, sizeof *m);
	buf_init(&m->body, len + 1);
	buf_init(&m->trailers, len + 1);
	http1_init(&h);
	http1_start(&h);
	h.on_trailer = on_trailer;
	h.on_trailer_ctx = &m->trailers;
	while (m->used < len && m->step == HTTP1_MORE) {
		size_t n = len - m->used < step_bytes ? len - m->used : step_bytes, n_body, n_used;
		char *piece = malloc(n), *body; /* of its own, so that a step past its end is seen */
		assert(piece);
		memcpy(piece, p + m->used, n);
		m->step = http1_feed(&h, piece, n, &body, &n_body, &n_used);
		assert(n_used <= n && n_body <= n_used && body >= piece && body + n_body <= piece + n);
		assert(m->step != HTTP1_MORE || n_used == n);
		if (n_body)
			buf_add(&m->body, body, n_body);
		free(piece);
		m->used += n_used;
	}
	m->head = h.head;
	m->keeps = http1_keeps(&h);
	m->end = m->step == HTTP1_MORE ? http1_closed(&h) : HTTP1_END_OK;
	assert((m->step == HTTP1_BAD) == (h.head.why[0] != '\0'));
	assert(!m->keeps || m->step == HTTP1_DONE);
	assert(m->step != HTTP1_DONE || (h.head.ended && h.head.status >= 200));
	assert(!m->body.failed && !m->trailers.failed);
	http1_done(&h);
}

static void same(const struct message *a, const struct message *b)
{
	assert(a->step == b->step && a->end == b->end && a->keeps == b->keeps);
	assert(a->body.len == b->body.len &&
	       (!a->body.len || memcmp(a->body.p, b->body.p, a->body.len) == 0));
	assert(a->trailers.len == b->trailers.len);
	assert(a->head.status == b->head.status && strcmp(a->head.content_type, b->head.content_type) == 0);
	assert(a->step != HTTP1_DONE || a->used == b->used);
}

struct unpacked {
	size_t len;
	uint64_t sum;
};

static int take(void *ctx, const char *bytes, size_t len)
{
	struct unpacked *u = ctx;
	for (size_t i = 0; i < len; i++)
		u->sum = u->sum * 31 + (unsigned char)bytes[i];
	u->len += len;
	return u->len > 1u << 20; /* that is enough */
}

static int undo(struct unpacked *u, enum http1_coding coding, const struct buf *body, size_t step_bytes)
{
	struct http1_inflate *z = http1_inflate_new(coding);
	int rc = 0;
	*u = (struct unpacked){ 0, 0 };
	for (size_t at = 0; z && rc == 0 && at < body->len; at += step_bytes) {
		size_t n = body->len - at < step_bytes ? body->len - at : step_bytes;
		rc = http1_inflate_feed(z, body->p + at, n, take, u);
	}
	http1_inflate_free(z);
	return rc;
}

static void unpack(const struct buf *body, size_t step_bytes)
{
	static const enum http1_coding codings[] = { HTTP1_GZIP, HTTP1_DEFLATE, HTTP1_BROTLI };
	for (size_t i = 0; i < sizeof codings / sizeof codings[0]; i++) {
		struct unpacked whole, cut;
		int a = undo(&whole, codings[i], body, body->len ? body->len : 1);
		int b = undo(&cut, codings[i], body, step_bytes);
		assert(a == b);
		assert(a != 0 || (whole.len == cut.len && whole.sum == cut.sum));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message whole, cut;
	if (size < 1)
		return 0;
	size_t len = size - 1, step = data[0] ? data[0] : 1;
	read_in_steps(&whole, data + 1, len, len ? len : 1);
	read_in_steps(&cut, data + 1, len, step);
	same(&whole, &cut);
	unpack(&whole.body, step);
	buf_done(&whole.body);
	buf_done(&whole.trailers);
	buf_done(&cut.body);
	buf_done(&cut.trailers);
	return 0;
}
