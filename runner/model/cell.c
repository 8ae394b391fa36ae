/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cell.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t rates_of(const struct plan_workload *w)
{
	return w->arrival.n_rates ? w->arrival.n_rates : 1;
}

size_t cells_of_workload(const struct plan_workload *w)
{
	return w->n_prompt_tok * rates_of(w) * w->n_concurrency;
}

static void add(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct cell *c, const char *fmt, ...)
{
	size_t used = strlen(c->id);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->id + used, sizeof(c->id) - used, fmt, ap);
	va_end(ap);
}

static void add_lengths(struct cell *c)
{
	if (c->wl->arrival.kind == ARRIVAL_TRACE)
		return;
	if (c->wl->n_mix)
		add(c, "mix/");
	else
		add(c, "%" PRIu64 "in/%" PRIu64 "out/", c->prompt_tok, c->output_tok);
	if (c->wl->conversation.turns)
		add(c, "%" PRIu64 "turns/", c->wl->conversation.turns);
}

static void add_load(struct cell *c)
{
	const struct plan_arrival *a = &c->wl->arrival;

	if (a->kind == ARRIVAL_CLOSED) {
		add(c, "c%" PRIu64, c->concurrency);
		return;
	}
	add(c, "%s", arrival_words[a->kind]);
	if (a->kind == ARRIVAL_TRACE) {
		if (a->speed < 1 || a->speed > 1)
			add(c, "-x%.9g", a->speed);
	} else {
		add(c, "%.9g", c->rate_rps);
	}
	if (a->kind == ARRIVAL_RAMP)
		add(c, "-%.9g", a->rate_end_rps);
	if (a->kind == ARRIVAL_GAMMA)
		add(c, "-b%.9g", a->burstiness);
	if (c->wl->n_concurrency > 1) /* several bounds on the same arrivals are different cells */
		add(c, "-c%" PRIu64, c->concurrency);
}

static bool is_critical(const struct cell *c)
{
	const struct plan_workload *w = c->wl;

	return w->critical && c->prompt_tok == w->critical_prompt_tok &&
	       c->concurrency == w->critical_concurrency &&
	       (w->arrival.n_rates == 0 ||
	        (c->rate_rps >= w->critical_rate_rps && c->rate_rps <= w->critical_rate_rps));
}

static struct cell make_cell(const struct plan_workload *w, size_t context, size_t rate, size_t load)
{
	struct cell c = { .wl = w,
		          .prompt_tok = w->prompt_tok[context],
		          .output_tok = w->output_tok,
		          .concurrency = w->concurrency[load],
		          .rate_rps = w->arrival.n_rates ? w->arrival.rates_rps[rate] : w->arrival.rate_rps,
		          .duration_s = w->duration_s };

	c.critical = is_critical(&c);
	c.requests = c.critical ? w->requests : w->other_requests;
	add(&c, "%s/", w->name);
	add_lengths(&c);
	add_load(&c);
	return c;
}

static size_t add_workload(struct cell *cells, const struct plan_workload *w)
{
	size_t k = 0;

	for (size_t a = 0; a < w->n_prompt_tok; a++)
		for (size_t r = 0; r < rates_of(w); r++)
			for (size_t b = 0; b < w->n_concurrency; b++)
				cells[k++] = make_cell(w, a, r, b);
	return k;
}

struct cell *cells_of_plan(const struct plan *p, size_t *n)
{
	size_t total = 0, k = 0;

	for (size_t i = 0; i < p->n_workloads; i++)
		total += cells_of_workload(&p->workloads[i]);
	struct cell *cells = calloc(total ? total : 1, sizeof(*cells));
	if (!cells)
		return NULL;
	for (size_t i = 0; i < p->n_workloads; i++)
		k += add_workload(cells + k, &p->workloads[i]);
	*n = total;
	return cells;
}
