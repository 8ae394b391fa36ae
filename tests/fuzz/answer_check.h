/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the targets that read answers: any bytes as a body, cut into reads in two ways; the record must
 * be the same, its text valid UTF-8, and its arrivals must add up. */
#ifndef TESTS_FUZZ_ANSWER_CHECK_H
#define TESTS_FUZZ_ANSWER_CHECK_H

#include "fuzz.h"
#include "load/answer.h"
#include "load/scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct answer ans;
	struct record rec;
	struct buf text[N_CHANNELS];
};

struct reading_as {
	const struct proto *proto;
	int http;
	bool whole;  /* not streamed */
	bool forget; /* every event is read in full, none by what stood around the last one's text */
	size_t step; /* bytes a read */
};

static inline void forget_frame(void *ctx, const struct sse_event *ev, uint64_t now_ns, bool token)
{
	((struct reading *)ctx)->ans.wire.frame.head_len = 0;
}

static inline void read_body(struct reading *r, const char *p, size_t len, const struct reading_as *as)
{
	memset(r, 0, sizeof *r);
	answer_init(&r->ans, as->proto, "data");
	r->ans.whole = as->whole;
	for (int i = 0; i < N_CHANNELS; i++) {
		buf_init(&r->text[i], 1 << 22);
		r->ans.wire.text[i].keep = &r->text[i];
	}
	record_init(&r->rec);
	r->rec.sent_ns = 100;
	r->rec.http = as->http;
	answer_start(&r->ans, &r->rec);
	if (as->forget) {
		r->ans.on_event = forget_frame;
		r->ans.on_event_ctx = r;
	}
	for (size_t at = 0, no = 0; at < len; no++) {
		size_t n = len - at < as->step ? len - at : as->step;
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

static inline void check_reading(const struct reading *r, const struct reading_as *as)
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
	assert(!as->whole || n == 0);
	if (r->rec.outcome == OUTCOME_OK) {
		assert(r->rec.http == 200 && (n || (as->whole && r->rec.text_chars)));
		assert(r->rec.finish[0] || as->proto->no_finish_reason);
	}
	assert(r->rec.outcome == OUTCOME_OK || r->rec.outcome == OUTCOME_STREAM_ERROR || r->rec.detail[0]);
	assert(!strstr(r->rec.detail, "data"));
	assert(r->rec.max_same_run <= r->rec.text_chars && r->rec.bad_chars <= r->rec.text_chars);
}

static inline void check_same(const struct reading *a, const struct reading *b)
{
	for (int i = 0; i < N_CHANNELS; i++) {
		assert(a->text[i].len == b->text[i].len);
		assert(a->text[i].len == 0 || memcmp(a->text[i].p, b->text[i].p, a->text[i].len) == 0);
	}
	assert(a->rec.outcome == b->rec.outcome && a->rec.tok_n == b->rec.tok_n);
	assert(strcmp(a->rec.detail, b->rec.detail) == 0 && strcmp(a->rec.finish, b->rec.finish) == 0);
	assert(a->rec.warnings == b->rec.warnings && a->ans.sse.n_comments == b->ans.sse.n_comments);
	assert(a->ans.lines.n_lines == b->ans.lines.n_lines && a->ans.lines.n_blank == b->ans.lines.n_blank);
	assert(a->rec.usage_output_tok == b->rec.usage_output_tok && a->rec.text_chars == b->rec.text_chars);
	assert(a->rec.usage_prompt_tok == b->rec.usage_prompt_tok);
	assert(strcmp(a->ans.sse.last_id, b->ans.sse.last_id) == 0);
}

static inline void reading_done(struct reading *r)
{
	answer_done(&r->ans);
	for (int i = 0; i < N_CHANNELS; i++)
		buf_done(&r->text[i]);
}

static inline void read_both_ways(const char *p, size_t len, struct reading_as as, size_t step)
{
	static struct reading at_once, cut;
	as.step = len ? len : 1;
	read_body(&at_once, p, len, &as);
	check_reading(&at_once, &as);
	as.step = step ? step : 1;
	as.forget = true;
	read_body(&cut, p, len, &as);
	check_reading(&cut, &as);
	if (!at_once.ans.too_long && !cut.ans.too_long)
		check_same(&at_once, &cut);
	reading_done(&at_once);
	reading_done(&cut);
}

#endif
