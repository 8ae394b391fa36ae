/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a mix and the turns of the conversations of a cell, each for itself: shown, never judged. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"

#include <stdlib.h>

static void quantiles(struct judge *j, size_t cell, enum latency what, const struct row_filter *which,
                      uint64_t *p50_ns, uint64_t *p99_ns)
{
	struct series s = { 0 };
	series_add(&s, j, what, cell, which);
	sort_u64(s.v, s.n);
	*p50_ns = series_quantile(&s, 50, 100);
	*p99_ns = series_quantile(&s, 99, 100);
	free(s.v);
}

static void count(struct judge *j, size_t cell, const struct row_filter *which, struct group_result *g)
{
	const struct cell_rows *c = &j->rows[cell];
	for (size_t i = 0; i < c->n; i++) {
		const struct record *r = c->rows[i];
		if (r->outcome == OUTCOME_CANCELLED || (which->part != REC_NONE && which->part != r->part) ||
		    (which->turn != REC_NONE && which->turn != r->turn))
			continue;
		g->n++;
		g->n_failed += outcome_failed(r->outcome);
	}
	for (size_t i = 0; i < c->n_ends; i++) {
		const struct record *r = c->ends[i];
		uint64_t behind = turns_behind(&j->ev->cells[cell], r);
		if (which->part != REC_NONE && which->part != r->part)
			continue;
		if (which->turn != REC_NONE)
			behind = which->turn > r->turn;
		g->n += behind;
		g->n_failed += behind;
	}
}

static struct group_result *groups(struct judge *j, size_t cell, size_t n, bool parts)
{
	const struct plan_workload *wl = j->ev->cells[cell].wl;
	struct group_result *list = calloc(n + 1, sizeof(*list));
	j->no_memory |= !list;
	for (size_t i = 0; i < n && !j->no_memory; i++) {
		struct group_result *g = &list[i];
		struct row_filter which = { parts ? i : REC_NONE, parts ? REC_NONE : i };
		g->name = parts ? wl->mix[i].name : NULL;
		g->turn = i;
		count(j, cell, &which, g);
		quantiles(j, cell, LAT_TTFT, &which, &g->ttft_p50_ns, &g->ttft_p99_ns);
		quantiles(j, cell, LAT_ITL, &which, &g->itl_p50_ns, &g->itl_p99_ns);
		quantiles(j, cell, LAT_E2E, &which, &g->e2e_p50_ns, &g->e2e_p99_ns);
	}
	return list;
}

void judge_parts_and_turns(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	c->n_parts = c->cell->wl->n_mix;
	c->n_turns = c->cell->wl->conversation.turns;
	c->parts = groups(j, cell, c->n_parts, true);
	c->turns = groups(j, cell, c->n_turns, false);
	if (j->no_memory)
		c->n_parts = c->n_turns = 0;
}
