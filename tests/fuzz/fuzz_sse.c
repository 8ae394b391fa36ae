/* SPDX-License-Identifier: Apache-2.0 */
/* sse, scan, wire and answer: any bytes as the body of a 200 (or, first byte odd, of a 500; second bit: the
 * native form). However the bytes are cut into reads, and with and without
 * the short cut for events that look like the one before, the record must be the same, its text valid UTF-8,
 * and its arrivals must add up. */
#include "fuzz.h"
#include "load/answer.h"
#include "load/scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct proto protos[] = {
	{ .wire = WIRE_OPENAI_CHAT, .path = "/", .needs_done = true },
	{ .wire = WIRE_LLAMACPP, .path = "/" },
};

struct reading {
	struct answer ans;
	struct record rec;
	struct buf text[N_CHANNELS];
};

/* Every event read in full, none by what stood around the last one's text. */
static void forget_frame(void *ctx, const struct sse_event *ev, uint64_t now_ns, bool token)
{
	((struct reading *)ctx)->ans.wire.frame.head_len = 0;
}

static void read_in_steps(struct reading *r, const char *p, size_t len, unsigned how, size_t step)
{
	memset(r, 0, sizeof *r);
	answer_init(&r->ans, &protos[how >> 1 & 1], "data");
	for (int i = 0; i < N_CHANNELS; i++) {
		buf_init(&r->text[i], 1 << 22);
		r->ans.wire.text[i].keep = &r->text[i];
	}
	record_init(&r->rec);
	r->rec.sent_ns = 100;
	r->rec.http = how & 1 ? 500 : 200;
	answer_start(&r->ans, &r->rec);
	if (how & 4) {
		r->ans.on_event = forget_frame;
		r->ans.on_event_ctx = r;
	}
	for (size_t at = 0, no = 0; at < len; no++) {
		size_t n = len - at < step ? len - at : step;
		char *piece = malloc(n); /* of its own, so that a read past its end is seen */
		assert(piece);
		memcpy(piece, p + at, n);
		int rc = answer_body(&r->ans, 100 + 7 * no, no, piece, n);
		free(piece);
		at += n;
		if (rc < 0)
			break;
	}
	answer_end(&r->ans, TRANSPORT_COMPLETE, "");
}

static void check(const struct reading *r)
{
	uint64_t sum = r->rec.sent_ns, n = 0, v;
	for (int i = 0; i < N_CHANNELS; i++) {
		for (size_t at = 0, c; at < r->text[i].len; at += c) {
			c = utf8_len(r->text[i].p + at, r->text[i].len - at);
			assert(c);
		}
	}
	for (size_t at = 0, used; at < r->ans.tokens_len; at += used, n++) {
		used = leb128_get(r->ans.tokens + at, r->ans.tokens_len - at, &v);
		assert(used);
		sum += v;
	}
	assert(n == r->rec.tok_n && r->rec.tok_bytes == r->ans.tokens_len);
	assert(n == 0 || sum == r->rec.last_token_ns);
	assert((n == 0) == (r->rec.first_token_ns == REC_NONE));
	assert(r->rec.outcome != OUTCOME_OK || (n && r->rec.finish[0] && r->rec.http == 200));
	assert(r->rec.outcome == OUTCOME_OK || r->rec.outcome == OUTCOME_STREAM_ERROR || r->rec.detail[0]);
	assert(!strstr(r->rec.detail, "data"));
	assert(r->rec.max_same_run <= r->rec.text_chars && r->rec.bad_chars <= r->rec.text_chars);
}

static void same(const struct reading *a, const struct reading *b)
{
	for (int i = 0; i < N_CHANNELS; i++) {
		assert(a->text[i].len == b->text[i].len);
		assert(a->text[i].len == 0 || memcmp(a->text[i].p, b->text[i].p, a->text[i].len) == 0);
	}
	assert(a->rec.outcome == b->rec.outcome && a->rec.tok_n == b->rec.tok_n);
	assert(strcmp(a->rec.detail, b->rec.detail) == 0 && strcmp(a->rec.finish, b->rec.finish) == 0);
	assert(a->rec.warnings == b->rec.warnings && a->ans.sse.n_comments == b->ans.sse.n_comments);
	assert(a->rec.usage_output_tok == b->rec.usage_output_tok);
	assert(strcmp(a->ans.sse.last_id, b->ans.sse.last_id) == 0);
}

static void done(struct reading *r)
{
	answer_done(&r->ans);
	for (int i = 0; i < N_CHANNELS; i++)
		buf_done(&r->text[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct reading whole, cut;
	if (size < 2)
		return 0;
	const char *p = (const char *)data + 2;
	size_t len = size - 2, step = data[1] ? data[1] : 1;
	read_in_steps(&whole, p, len, data[0] & 3u, len ? len : 1);
	read_in_steps(&cut, p, len, data[0] | 4u, step);
	check(&whole);
	check(&cut);
	if (!whole.ans.too_long && !cut.ans.too_long)
		same(&whole, &cut);
	done(&whole);
	done(&cut);
	return 0;
}
