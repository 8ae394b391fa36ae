/* SPDX-License-Identifier: Apache-2.0 */
/* What the lengths of a workload mean: contexts, mixes, conversations, and what canaries need. */
#include "model/canary.h"
#include "model/plan_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ERROR(at, ...) problem_add(out, PROBLEM_ERROR, at, __VA_ARGS__)

/* The last turn of a conversation holds all that was said before it. */
static void lint_fits(const struct plan *p, const struct plan_workload *w, uint64_t prompt_tok,
                      uint64_t output_tok, const char *at, struct problems *out)
{
	const struct plan_conversation *c = &w->conversation;
	uint64_t most = p->model.context_tok,
		 turns = prompt_tok + c->turns * (c->turn_prompt_tok + output_tok);

	if (prompt_tok + output_tok > most)
		ERROR(at,
		      "%" PRIu64 " prompt + %" PRIu64 " output tokens are more than the context of %" PRIu64
		      " (/model/context_tok)",
		      prompt_tok, output_tok, most);
	else if (c->turns && turns > most)
		ERROR(at,
		      "%" PRIu64 " prompt + %" PRIu64 " turns x (%" PRIu64 " prompt + %" PRIu64
		      " output) tokens are more than the context of %" PRIu64 " (/model/context_tok)",
		      prompt_tok, c->turns, c->turn_prompt_tok, output_tok, most);
}

static void lint_room_for_canary(const struct plan_workload *w, uint64_t output_tok, const char *at,
                                 struct problems *out)
{
	if (w->canary_share > 0 && output_tok > 0 && output_tok < CANARY_OUTPUT_TOK_MIN)
		ERROR(at,
		      "'canary_share': %" PRIu64
		      " output tokens cannot hold a nonce and an answer, want %d or "
		      "more",
		      output_tok, CANARY_OUTPUT_TOK_MIN);
}

static void lint_mix(const struct plan *p, const struct plan_workload *w, const char *at,
                     struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	for (size_t i = 0; i < w->n_mix; i++) {
		const struct plan_mix_part *m = &w->mix[i];
		snprintf(deep, sizeof(deep), "%s/mix/%zu", at, i);
		for (size_t j = 0; j < i; j++)
			if (strcmp(m->name, w->mix[j].name) == 0)
				ERROR(deep, "name \"%s\" is taken by %s/mix/%zu", m->name, at, j);
		lint_fits(p, w, m->prompt_tok, m->output_tok, deep, out);
		lint_room_for_canary(w, m->output_tok, deep, out);
	}
}

static void lint_fixed(const struct plan *p, const struct plan_workload *w, const char *at,
                       struct problems *out)
{
	if (w->n_prompt_tok == 0)
		ERROR(at, "key 'prompt_tok' is missing (want a list of context lengths such as [512, 8192])");
	if (w->output_tok == 0)
		ERROR(at, "key 'output_tok' is missing (want the length of an answer in tokens)");
	if (w->n_prompt_tok == 0 || w->output_tok == 0)
		return;
	lint_fits(p, w, w->prompt_tok[w->n_prompt_tok - 1], w->output_tok, at, out);
	lint_room_for_canary(w, w->output_tok, at, out);
}

static void lint_conversation(const struct plan_workload *w, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/conversation", at);
	if (w->conversation.turns && w->arrival.kind == ARRIVAL_TRACE)
		ERROR(deep,
		      "a trace gives each request its time and length: conversations want another arrival");
	if (w->conversation.turns && w->canary_share * (double)w->conversation.turns > 1)
		ERROR(at,
		      "'canary_share' %g: only the last of %" PRIu64
		      " turns can be a canary, want at most %.4g",
		      w->canary_share, w->conversation.turns, 1 / (double)w->conversation.turns);
}

void plan_lint_lengths(const struct plan *p, const struct plan_workload *w, const char *at,
                       const struct cJSON *o, struct problems *out)
{
	bool trace = w->arrival.kind == ARRIVAL_TRACE, fixed = json_get(o, "prompt_tok") || w->output_tok;

	if (w->n_mix && fixed)
		ERROR(at, "'mix' gives the lengths: take 'prompt_tok' and 'output_tok' away");
	if (trace && fixed)
		ERROR(at, "a trace gives the lengths: take 'prompt_tok' and 'output_tok' away");
	if (trace && w->n_mix)
		ERROR(at, "a trace gives the lengths: take 'mix' away");
	if (w->n_mix)
		lint_mix(p, w, at, out);
	else if (!trace)
		lint_fixed(p, w, at, out);
	lint_conversation(w, at, out);
}
