/* SPDX-License-Identifier: Apache-2.0 */
#include "model/verdict.h"
#include "model/verdict_parts.h"

#include <stdlib.h>

const char *const state_words[] = { "pass",    "fail",       "inconclusive",   "invalid", "error",
	                            "blocked", "not_tested", "not_applicable", NULL };
_Static_assert(ARRAY_LEN(state_words) == N_STATES + 1, "a word for each state");

const char *const verdict_words[] = {
	"interrupted",           "rejected", "invalid", "blocked", "error", "inconclusive",
	"accepted_with_waivers", "accepted", NULL
};
_Static_assert(ARRAY_LEN(verdict_words) == N_VERDICTS + 1, "a word for each verdict");

int verdict_exit_code(enum run_verdict v)
{
	static const int codes[N_VERDICTS] = {
		[VERDICT_INTERRUPTED] = 130,
		[VERDICT_REJECTED] = 1,
		[VERDICT_INVALID] = 4,
		[VERDICT_BLOCKED] = 5,
		[VERDICT_ERROR] = 5,
		[VERDICT_INCONCLUSIVE] = 3,
		[VERDICT_ACCEPTED_WITH_WAIVERS] = 0,
		[VERDICT_ACCEPTED] = 0,
	};
	return (unsigned)v < N_VERDICTS ? codes[v] : 70;
}

static void judge_all(struct judge *j)
{
	struct verdict *v = j->v;
	judge_rows(j);
	for (size_t i = 0; i < v->n_cells && !j->no_memory; i++)
		judge_cell(j, i);
	if (!j->no_memory)
		judge_canaries(j);
	if (!j->no_memory)
		judge_memory(j);
	if (!j->no_memory)
		judge_controls(j);
	for (size_t i = 0; i < v->n_criteria && !j->no_memory; i++) {
		v->criteria[i].crit = &j->ev->plan->criteria[i];
		judge_criterion(j, &v->criteria[i]);
	}
	if (!j->no_memory)
		judge_run(j);
	judge_rows_done(j);
}

int verdict_compute(struct verdict *out, const struct evidence *ev, struct err *err)
{
	struct verdict v = { .ev = ev, .run = VERDICT_ERROR };
	v.cells = calloc(ev->n_cells + 1, sizeof(*v.cells));
	v.criteria = calloc(ev->plan->n_criteria + 1, sizeof(*v.criteria));
	struct judge j = { .ev = ev, .v = &v, .no_memory = !v.cells || !v.criteria };
	if (!j.no_memory) {
		v.n_cells = ev->n_cells;
		v.n_criteria = ev->plan->n_criteria;
		judge_all(&j);
	}
	if (j.no_memory) {
		verdict_done(&v);
		return err_set(err, ERR_ENV, "no memory to compute the verdict");
	}
	*out = v;
	return 0;
}

void verdict_done(struct verdict *v)
{
	for (size_t i = 0; i < v->n_cells; i++) {
		struct cell_result *c = &v->cells[i];
		free(c->ttft.sorted);
		free(c->ttft_content.sorted);
		free(c->ttft_sent.sorted);
		free(c->itl.sorted);
		free(c->tpot.sorted);
		free(c->e2e.sorted);
		free(c->send_lag.sorted);
		free(c->spacing.sorted);
		free(c->parts);
		free(c->turns);
	}
	free(v->cells);
	free(v->criteria);
	free(v->controls);
	free(v->memory);
	*v = (struct verdict){ 0 };
}
