// SPDX-License-Identifier: Apache-2.0
// Cells: latency by context and concurrency, requests and speeds. Prefill and decode are never put together.
#include "report/report_parts.h"

#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MAX 64

struct grid {
	const struct plan_workload *wl;
	size_t n_ctx, n_loads;
	uint64_t ctx[SIDE_MAX];
	const struct cell *loads[SIDE_MAX]; /* first cell of each load */
	uint64_t low, high;                 /* of the medians shown; high 0 = none */
};

static void add_unique(uint64_t *list, size_t *n, uint64_t v)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i] == v)
			return;
	if (*n < SIDE_MAX)
		list[(*n)++] = v;
}

static bool same_load(const struct cell *a, const struct cell *b)
{
	return !strcmp(ev_load_of_cell(a), ev_load_of_cell(b));
}

static void add_load(struct grid *g, const struct cell *c)
{
	for (size_t i = 0; i < g->n_loads; i++)
		if (same_load(g->loads[i], c))
			return;
	if (g->n_loads < SIDE_MAX)
		g->loads[g->n_loads++] = c;
}

static const struct cell_result *cell_at(const struct verdict *v, const struct grid *g, uint64_t ctx,
                                         const struct cell *load)
{
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell *c = v->cells[i].cell;
		if (c->wl == g->wl && c->prompt_tok == ctx && same_load(c, load))
			return &v->cells[i];
	}
	return NULL;
}

static const struct dist *dist_of(const struct cell_result *c, bool itl)
{
	return itl ? &c->itl : &c->ttft;
}

static bool shown(const struct cell_result *c, bool itl)
{
	return c && c->n_scheduled && dist_of(c, itl)->p50_ns != REC_NONE && (!itl || c->itl_measurable);
}

static struct grid grid_of(const struct verdict *v, const struct plan_workload *wl, bool itl)
{
	struct grid g = { .wl = wl, .low = UINT64_MAX };
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		if (c->cell->wl != wl)
			continue;
		add_unique(g.ctx, &g.n_ctx, c->cell->prompt_tok);
		add_load(&g, c->cell);
		if (!shown(c, itl))
			continue;
		uint64_t p50 = dist_of(c, itl)->p50_ns;
		g.low = p50 < g.low ? p50 : g.low;
		g.high = p50 > g.high ? p50 : g.high;
	}
	return g;
}

// Darker = slower, on a logarithmic scale from the quickest to the slowest cell of this table.
static double heat(const struct grid *g, uint64_t p50)
{
	if (g->high <= g->low || !g->low)
		return .06;
	return .05 + .30 * log((double)p50 / (double)g->low) / log((double)g->high / (double)g->low);
}

static void add_heat_cell(struct buf *b, const struct grid *g, const struct cell_result *c, bool itl)
{
	if (!shown(c, itl)) {
		const char *why = !c                      ? "–"
		                  : !c->n_scheduled       ? "not run"
		                  : itl && c->n_completed ? "not measurable"
		                                          : "no value";
		buf_addf(b, "<td><small>%s</small></td>", why);
		return;
	}
	const struct dist *d = dist_of(c, itl);
	buf_addf(b, "<td class=\"%s\" style=\"background:rgba(var(--heat),%.3f)\"><b>%s</b>",
	         c->cell->critical ? "crit" : "", heat(g, d->p50_ns), fmt_ns(d->p50_ns).s);
	uint64_t error_ns = itl ? c->instrument.itl_error_ns : c->instrument.ttft_error_ns;
	buf_addf(b, "<small>%s %s</small><small>± %s</small><small>n %s</small></td>", itl ? "p99" : "p90",
	         fmt_ns_or(itl ? d->p99_ns : d->p90_ns, "no value: failures").s, fmt_ns(error_ns).s,
	         fmt_count(d->n + d->n_failed).s);
}

static void add_load_head(struct buf *b, const struct cell *c)
{
	buf_adds(b, "<th scope=\"col\">");
	if (!cell_is_open_loop(c))
		buf_addf(b, "%s at once", fmt_count(c->concurrency).s);
	else if (c->rate_rps > 0 && cell_can_saturate(c))
		buf_addf(b, "%s at %s/s", arrival_words[c->wl->arrival.kind], fmt_num(c->rate_rps).s);
	else
		esc_n(b, ev_load_of_cell(c), 60);
	buf_adds(b, "</th>");
}

static void add_heat(struct buf *b, const struct verdict *v, const struct plan_workload *wl, bool itl)
{
	struct grid g = grid_of(v, wl, itl);
	buf_addf(b,
	         "<div class=\"keep\"><h3>%s</h3><div class=\"scroll\"><table "
	         "class=\"heat\"><thead><tr><th></th>",
	         itl ? "ITL, median (p99 below)" : "TTFT, median (p90 below)");
	for (size_t k = 0; k < g.n_loads; k++)
		add_load_head(b, g.loads[k]);
	buf_adds(b, "</tr></thead><tbody>\n");
	for (size_t i = 0; i < g.n_ctx; i++) {
		if (g.ctx[i])
			buf_addf(b, "<tr><th scope=\"row\">%s tokens in</th>", fmt_count(g.ctx[i]).s);
		else
			buf_addf(b, "<tr><th scope=\"row\">%s</th>", wl->n_mix ? "mix" : "trace");
		for (size_t k = 0; k < g.n_loads; k++)
			add_heat_cell(b, &g, cell_at(v, &g, g.ctx[i], g.loads[k]), itl);
		buf_adds(b, "</tr>\n");
	}
	buf_adds(b, "</tbody></table></div></div>\n");
}

void part_grid(struct buf *b, const struct verdict *v)
{
	const struct plan *p = v->ev->plan;
	if (!v->n_cells)
		return;
	section_open(b, "grid", "Latency by context and concurrency",
	             "Only the outlined critical cell decides the purchase unless a criterion says "
	             "otherwise; the others "
	             "show how the system behaves around it. Darker is slower within one table.");
	for (size_t i = 0; i < p->n_workloads; i++) {
		const struct plan_workload *wl = &p->workloads[i];
		if (p->n_workloads > 1) {
			buf_adds(b, "<h3>Workload <b>");
			esc_n(b, wl->name, 120);
			buf_addf(b, "</b>, %s</h3>", class_words[wl->cls]);
		}
		buf_adds(b, "<div class=\"two\">\n");
		add_heat(b, v, wl, false);
		add_heat(b, v, wl, true);
		buf_adds(b, "</div>\n");
	}
	note(b,
	     "± is the instrument's own error (p99). ITL is the gap between two token events; the first "
	     "token makes "
	     "none. It is not measurable where the server puts several tokens into one event or holds them "
	     "back; TPOT is "
	     "then the figure to read.");
	section_close(b);
}

static void add_cell_row(struct buf *b, const struct cell_result *c)
{
	char text[160];
	buf_adds(b, "<tr><th scope=\"row\">");
	esc(b, c->cell->id);
	if (c->cell->critical)
		buf_adds(b, "<small>critical</small>");
	if (c->n_scheduled && !c->valid) {
		buf_adds(b, "<small class=\"invalid\">invalid: ");
		esc_n(b, c->invalid_reason, 200);
		buf_adds(b, "</small>");
	}
	buf_adds(b, "</th>");
	snprintf(text, sizeof text, "%s / %s", fmt_count(c->n_completed).s, fmt_count(c->n_scheduled).s);
	td_num(b, text);
	td_num(b, c->n_scheduled ? fmt_count(c->n_failed).s : "–");
	td_num(b, fmt_rate(c->prefill_tok_s, "tok/s").s);
	td_num(b, fmt_rate(c->decode_tok_s, "tok/s").s);
	td_num(b, fmt_rate(c->output_tok_s, "tok/s").s);
	td_num(b, fmt_rate(c->request_s, "/s").s);
	td_num(b, fmt_ns(c->tpot.p50_ns).s);
	td_num(b, fmt_ns(c->e2e.p50_ns).s);
	buf_adds(b, "</tr>\n");
}

void part_cells(struct buf *b, const struct verdict *v)
{
	if (!v->n_cells)
		return;
	section_open(b, "cells", "Requests and speeds",
	             "Prefill is prompt tokens over the time to the first token from sending; decode is "
	             "output tokens "
	             "after the first over the time they took, per request. They are different work and "
	             "never added.");
	buf_adds(b,
	         "<div class=\"scroll\"><table><thead><tr><th>Cell</th><th class=\"n\">Completed</th>"
	         "<th class=\"n\">Failed</th><th class=\"n\">Prefill</th><th class=\"n\">Decode</th>"
	         "<th class=\"n\">Output, all</th><th class=\"n\">Requests</th><th class=\"n\">TPOT p50</th>"
	         "<th class=\"n\">End to end p50</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_cells; i++)
		add_cell_row(b, &v->cells[i]);
	buf_adds(b, "</tbody></table></div>\n");
	section_close(b);
}
