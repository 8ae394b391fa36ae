/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static size_t contexts_times_loads(const struct plan_workload *w)
{
	return w->n_prompt_tok * w->n_concurrency;
}

static void name_cell(struct cell *c, const struct plan_workload *w)
{
	int at = snprintf(c->id, sizeof(c->id), "%s/%" PRIu64 "in/%" PRIu64 "out/", w->name, c->prompt_tok,
	                  c->output_tok);
	char *end = c->id + at;
	size_t room = sizeof(c->id) - (size_t)at;

	if (w->arrival.kind == ARRIVAL_CLOSED)
		snprintf(end, room, "c%" PRIu64, c->concurrency);
	else if (w->arrival.kind == ARRIVAL_TRACE)
		snprintf(end, room, "trace");
	else if (w->n_concurrency > 1) /* several bounds on the same arrivals are different cells */
		snprintf(end, room, "%s%.9g-c%" PRIu64, arrival_words[w->arrival.kind], w->arrival.rate_rps,
		         c->concurrency);
	else
		snprintf(end, room, "%s%.9g", arrival_words[w->arrival.kind], w->arrival.rate_rps);
}

static void fill_cell(struct cell *c, const struct plan_workload *w, uint64_t prompt_tok,
                      uint64_t concurrency)
{
	*c = (struct cell){ .wl = w,
		            .prompt_tok = prompt_tok,
		            .output_tok = w->output_tok,
		            .concurrency = concurrency,
		            .duration_s = w->duration_s };
	c->critical =
		w->critical && prompt_tok == w->critical_prompt_tok && concurrency == w->critical_concurrency;
	c->requests = c->critical ? w->requests : w->other_requests;
	name_cell(c, w);
}

struct cell *cells_of_plan(const struct plan *p, size_t *n)
{
	size_t total = 0, k = 0;

	for (size_t i = 0; i < p->n_workloads; i++)
		total += contexts_times_loads(&p->workloads[i]);
	struct cell *cells = calloc(total ? total : 1, sizeof(*cells));
	if (!cells)
		return NULL;
	for (size_t i = 0; i < p->n_workloads; i++) {
		const struct plan_workload *w = &p->workloads[i];
		for (size_t a = 0; a < w->n_prompt_tok; a++)
			for (size_t b = 0; b < w->n_concurrency; b++)
				fill_cell(&cells[k++], w, w->prompt_tok[a], w->concurrency[b]);
	}
	*n = total;
	return cells;
}
