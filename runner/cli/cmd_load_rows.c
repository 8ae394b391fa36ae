/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_load.h"

#include <string.h>

int load_rows_init(struct load_rows *r, struct err *err)
{
	*r = (struct load_rows){ .gaps = gaps_new() };
	return r->gaps ? 0 : err_set(err, ERR_ENV, "load: no memory");
}

void load_rows_done(struct load_rows *r)
{
	gaps_free(r->gaps);
	free(r->v);
	*r = (struct load_rows){ 0 };
}

static bool failed(enum outcome o)
{
	return o != OUTCOME_OK && o != OUTCOME_CANCELLED;
}

static void count_failure(struct load_rows *r, const struct record *rec)
{
	size_t i = 0;
	while (i < r->n_failures &&
	       (r->failures[i].outcome != rec->outcome || r->failures[i].http != rec->http))
		i++;
	if (i == LOAD_FAILURES_MAX)
		i--;
	struct load_failure *f = &r->failures[i];
	if (i == r->n_failures) {
		*f = (struct load_failure){ .outcome = rec->outcome, .http = rec->http };
		memcpy(f->detail, rec->detail, sizeof(f->detail));
		r->n_failures++;
	}
	f->n++;
}

static int take_gaps(struct load_rows *r, struct load_row *row, const uint8_t *tokens, size_t len)
{
	uint64_t gap;
	size_t at = leb128_get(tokens, len, &gap), used; /* the first is the time to the first token */
	for (; at && (used = leb128_get(tokens + at, len - at, &gap)); at += used) {
		if (row->outcome == OUTCOME_OK && gaps_add(r->gaps, gap))
			return -1;
		if (row->max_gap_ns == REC_NONE || gap > row->max_gap_ns)
			row->max_gap_ns = gap;
	}
	return 0;
}

static uint64_t shifted(uint64_t ns, uint64_t shift_ns)
{
	return ns == REC_NONE ? REC_NONE : ns + shift_ns;
}

int load_rows_take(struct load_rows *r, const struct record *rec, const uint8_t *tokens, size_t len,
                   uint64_t shift_ns)
{
	if (r->n == r->cap) {
		size_t want = r->cap ? r->cap * 2 : 256;
		struct load_row *grown = realloc(r->v, want * sizeof(*grown));
		if (!grown)
			return -1;
		r->v = grown;
		r->cap = want;
	}
	struct load_row *row = &r->v[r->n];
	*row = (struct load_row){
		.k = rec->k,
		.due_ns = shifted(rec->due_ns, shift_ns),
		.first_sent_ns =
			shifted(rec->first_sent_ns != REC_NONE ? rec->first_sent_ns : rec->sent_ns, shift_ns),
		.sent_ns = shifted(rec->sent_ns, shift_ns),
		.first_token_ns = shifted(rec->first_token_ns, shift_ns),
		.last_token_ns = shifted(rec->last_token_ns, shift_ns),
		.end_ns = shifted(rec->end_ns, shift_ns),
		.usage_prompt_tok = rec->usage_prompt_tok,
		.usage_output_tok = rec->usage_output_tok,
		.usage_cached_tok = rec->usage_cached_tok,
		.prompt_tok = rec->prompt_tok,
		.want_output_tok = rec->want_output_tok,
		.tok_n = rec->tok_n,
		.attempts = rec->attempts,
		.conv = rec->conv,
		.turn = rec->turn,
		.max_gap_ns = REC_NONE,
		.n_reads = rec->reads,
		.outcome = rec->outcome,
	};
	if (take_gaps(r, row, tokens, len))
		return -1;
	if (failed(rec->outcome))
		count_failure(r, rec);
	r->n++;
	return 0;
}
