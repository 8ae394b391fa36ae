/* SPDX-License-Identifier: Apache-2.0 */
/* A record against itself: what the load engine cannot have written is told, and such a run is never
 * accepted. */
#include "model/evidence_parts.h"

#include <inttypes.h>

struct tok_iter tok_begin(const struct evidence *e, const struct record *r)
{
	struct tok_iter it = { .at_ns = r->sent_ns };
	if (e->tokens && r->sent_ns != REC_NONE && r->tok_off <= e->tokens_len &&
	    r->tok_bytes <= e->tokens_len - r->tok_off) {
		it.p = e->tokens + r->tok_off;
		it.end = it.p + r->tok_bytes;
	}
	return it;
}

bool tok_next(struct tok_iter *it, uint64_t *at_ns)
{
	uint64_t gap_ns;
	if (it->p == it->end)
		return false;
	size_t used = leb128_get(it->p, (size_t)(it->end - it->p), &gap_ns);
	if (!used || __builtin_add_overflow(it->at_ns, gap_ns, &it->at_ns)) {
		it->end = it->p;
		return false;
	}
	it->p += used;
	*at_ns = it->at_ns;
	return true;
}

/* NULL, or which two times are out of order. Times that did not happen are passed over. */
static const char *times_out_of_order(const struct record *r)
{
	const struct {
		uint64_t ns;
		const char *says;
	} line[] = {
		{ r->due_ns, "due" },
		{ r->first_sent_ns, "sent before due" },
		{ r->sent_ns, "sent before the first attempt" },
		{ r->first_byte_ns, "first byte before sent" },
		{ r->first_token_ns, "first token before first byte" },
		{ r->last_token_ns, "last token before first" },
		{ r->end_ns, "end before the last token" },
	};
	uint64_t last = 0;
	for (size_t i = 0; i < ARRAY_LEN(line); i++) {
		if (line[i].ns == REC_NONE)
			continue;
		if (line[i].ns < last)
			return line[i].says;
		last = line[i].ns;
	}
	if (r->conn_ns != REC_NONE && (r->sent_ns == REC_NONE || r->conn_ns < r->sent_ns))
		return "connected before sent";
	if (r->first_content_ns != REC_NONE &&
	    (r->first_token_ns == REC_NONE || r->first_content_ns < r->first_token_ns ||
	     r->first_content_ns > r->last_token_ns))
		return "first content outside the tokens";
	return NULL;
}

static const struct plan_workload *workload_of(struct ev_loader *l, const struct record *r)
{
	size_t cell = r->kind == REC_LOAD || r->kind == REC_WARMUP ? ev_cell(l, r->cell) : l->e->n_cells;
	return cell < l->e->n_cells ? l->e->cells[cell].wl : NULL;
}

static const char *outcome_contradicts(struct ev_loader *l, const struct record *r)
{
	const struct plan_workload *wl = workload_of(l, r);
	bool tokens = r->tok_n > 0;
	if (r->due_ns == REC_NONE || r->end_ns == REC_NONE)
		return "no due or end time";
	if (tokens != (r->first_token_ns != REC_NONE) || tokens != (r->last_token_ns != REC_NONE))
		return "token times without tokens, or tokens without times";
	if (tokens && (r->sent_ns == REC_NONE || r->first_byte_ns == REC_NONE))
		return "tokens before anything was sent or read";
	if (r->outcome == OUTCOME_OK && ((!tokens && (!wl || wl->stream)) || r->http != 200))
		return "ok without a token or without status 200";
	if (r->outcome == OUTCOME_EMPTY && tokens)
		return "empty with tokens";
	if (r->outcome == OUTCOME_HTTP_STATUS && r->http == 200)
		return "status 200 given as a wrong status";
	if (r->usage_output_tok != REC_NONE && r->usage_output_tok > 1000000000u)
		return "more output tokens than any request can have";
	if (r->usage_prompt_tok != REC_NONE && r->usage_prompt_tok > 1000000000u)
		return "more prompt tokens than any request can have";
	return NULL;
}

static uint64_t attempts_allowed(struct ev_loader *l, const struct record *r)
{
	const struct plan_workload *wl = workload_of(l, r);
	return wl ? wl->retry.max + 1 : 1;
}

static const char *attempts_contradict(struct ev_loader *l, const struct record *r)
{
	if (!r->attempts || r->attempts > attempts_allowed(l, r))
		return "attempts that the plan does not allow";
	if (r->sent_ns != REC_NONE && r->first_sent_ns == REC_NONE)
		return "sent, but never first sent";
	if (r->attempts == 1 && r->sent_ns != r->first_sent_ns)
		return "one attempt, sent at two times";
	if ((r->conv == REC_NONE) != (r->turn == REC_NONE))
		return "conversation without turn, or turn without conversation";
	return NULL;
}

static const char *tokens_contradict(const struct ev_loader *l, const struct record *r)
{
	uint64_t n = 0, first = REC_NONE, at = REC_NONE;
	struct tok_iter it = tok_begin(l->e, r);
	if (!r->tok_bytes)
		return r->tok_n ? "tokens without bytes in tokens.bin" : NULL;
	if (!it.p)
		return "its tokens are not in tokens.bin";
	while (tok_next(&it, &at))
		if (n++ == 0)
			first = at;
	if (n != r->tok_n || it.p != l->e->tokens + r->tok_off + r->tok_bytes)
		return "tokens.bin holds another count of tokens";
	if (first != r->first_token_ns || at != r->last_token_ns)
		return "tokens.bin gives other times";
	return NULL;
}

void ev_check_record(struct ev_loader *l, struct record *r, uint64_t *tokens_used)
{
	const char *why = times_out_of_order(r);
	if (!why)
		why = outcome_contradicts(l, r);
	if (!why)
		why = attempts_contradict(l, r);
	if (!why)
		why = tokens_contradict(l, r);
	if (!why && r->tok_bytes && r->tok_off != *tokens_used)
		why = "its tokens do not follow those of the record before";
	if (why)
		ev_miss(l, "inconsistent record %" PRIu64 ": %s", r->i, why);
	if (!tok_begin(l->e, r).p) {
		r->tok_off = 0;
		r->tok_bytes = 0;
	} else if (r->tok_off + r->tok_bytes > *tokens_used) {
		*tokens_used = r->tok_off + r->tok_bytes;
	}
}
