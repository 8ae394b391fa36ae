// SPDX-License-Identifier: Apache-2.0
// TTFT of the critical cell: every value as a step, limits, and each quantile with its upper bound.
#include "report/report_parts.h"

#include "report/format.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 2000
#define LIMITS_MAX 4

enum { W = 1000, H = 360, LEFT = 56, RIGHT = 976, TOP = 58, BOTTOM = 306 };

struct limits {
	size_t n;
	struct {
		const struct crit_result *r;
		double ns;
	} list[LIMITS_MAX];
};

static struct limits limits_of(const struct verdict *v, const char *cell)
{
	struct limits l = { 0 };
	for (size_t i = 0; i < v->n_criteria && l.n < LIMITS_MAX; i++) {
		const struct crit_result *r = &v->criteria[i];
		const struct unit *u = unit_find(r->crit->limit_unit);
		if (!r->metric || strcmp(r->metric->name, "ttft") || strcmp(r->where, cell) || !u ||
		    u->dim != DIM_TIME)
			continue;
		l.list[l.n].r = r;
		l.list[l.n++].ns = r->crit->limit * u->to_base;
	}
	return l;
}

// Values over the picture's right edge do not exist: it ends at the largest value, bound or limit.
static struct axis time_axis(const struct dist *d, const struct limits *l)
{
	double high = (double)d->max_ns, low = fmax(1e3, (double)d->min_ns);
	for (size_t i = 0; i < l->n; i++)
		high = fmax(high, l->list[i].ns);
	struct axis x = { .px_lo = LEFT, .px_hi = RIGHT };
	x.log = high > 6 * (double)d->p50_ns;
	x.lo = x.log ? low * .8 : 0;
	x.hi = fmax(high * (x.log ? 1.25 : 1.06), x.lo * 1.5 + 1);
	return x;
}

static struct point *steps_of(const struct dist *d, size_t *n_out)
{
	size_t every = d->n / STEPS_MAX + 1, n = 0;
	double all = (double)(d->n + d->n_failed);
	struct point *p = malloc((d->n / every + 4) * sizeof *p);
	if (!p)
		return NULL;
	p[n++] = (struct point){ (double)d->sorted[0], 0 };
	for (uint64_t i = 0; i < d->n; i += every)
		p[n++] = (struct point){ (double)d->sorted[i], (double)(i + 1) / all };
	p[n++] = (struct point){ (double)d->sorted[d->n - 1], (double)d->n / all };
	*n_out = n;
	return p;
}

static void add_axes(struct buf *b, const struct axis *x, const struct axis *y)
{
	static const double shares[] = { 0, .25, .5, .75, .9, 1 };
	double ticks[TICKS_MAX];
	for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
		char label[16];
		double py = axis_px(y, shares[i]);
		snprintf(label, sizeof label, "%.0f %%", shares[i] * 100);
		svg_segment(b, i ? "grid" : "axis", LEFT, py, RIGHT, py);
		svg_text(b, "", LEFT - 8, py + 4, "end", label);
	}
	size_t n = axis_ticks(x, 8, ticks);
	for (size_t i = 0; i < n; i++) {
		double px = axis_px(x, ticks[i]);
		svg_segment(b, "axis", px, BOTTOM, px, BOTTOM + 5);
		svg_text(b, "", px, BOTTOM + 20, "middle",
		         ticks[i] > 0 ? fmt_ns((uint64_t)llround(ticks[i])).s : "0");
	}
	svg_text(b, "", RIGHT, BOTTOM + 42, "end",
	         x->log ? "time to first token from the scheduled send time, logarithmic"
	                : "time to first token from the scheduled send time");
}

static void add_limits(struct buf *b, const struct axis *x, const struct limits *l)
{
	for (size_t i = 0; i < l->n; i++) {
		char label[120];
		double px = axis_px(x, l->list[i].ns), py = TOP - 14 - 15 * (double)i;
		bool right = px > (LEFT + RIGHT) / 2.0;
		snprintf(label, sizeof label, "%.16s %s", l->list[i].r->crit->statistic,
		         fmt_limit(l->list[i].r).s);
		svg_segment(b, "limit", px, py + 4, px, BOTTOM);
		svg_text(b, "limit-text", px + (right ? -6 : 6), py + 8, right ? "end" : "start", label);
	}
}

static void add_quantiles(struct buf *b, const struct axis *x, const struct axis *y, const struct dist *d)
{
	const struct {
		double share;
		uint64_t value, upper;
		const char *name;
	} rows[] = { { .5, d->p50_ns, d->p50_ub_ns, "p50" },
		     { .9, d->p90_ns, d->p90_ub_ns, "p90" },
		     { .95, d->p95_ns, d->p95_ub_ns, "p95" },
		     { .99, d->p99_ns, d->p99_ub_ns, "p99" } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].value == REC_NONE)
			continue;
		double px = axis_px(x, (double)rows[i].value), py = axis_px(y, rows[i].share), end = px;
		if (rows[i].upper != REC_NONE) {
			end = axis_px(x, (double)rows[i].upper);
			svg_segment(b, "bound", px, py, end, py);
			svg_segment(b, "bound", end, py - 5, end, py + 5);
		}
		buf_addf(b, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\"/>\n", px, py);
		if (i == 0 || i == 1)
			svg_text(b, "strong", px - 9, py - 7, "end", rows[i].name);
	}
}

static void add_table(struct buf *b, const struct dist *d)
{
	const struct {
		const char *name;
		uint64_t value, upper;
	} rows[] = { { "p50", d->p50_ns, d->p50_ub_ns },
		     { "p90", d->p90_ns, d->p90_ub_ns },
		     { "p95", d->p95_ns, d->p95_ub_ns },
		     { "p99", d->p99_ns, d->p99_ub_ns } };
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th></th><th class=\"n\">min</th>");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		buf_addf(b, "<th class=\"n\">%s</th>", rows[i].name);
	buf_adds(
		b,
		"<th class=\"n\">max</th><th class=\"n\">mean</th></tr></thead><tbody><tr><th>Measured</th>");
	td_num(b, fmt_ns(d->min_ns).s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		td_num(b, fmt_ns(rows[i].value).s);
	td_num(b, fmt_ns(d->max_ns).s);
	td_num(b,
	       isfinite(d->mean_ns) && d->mean_ns >= 0 ? fmt_ns((uint64_t)llround(d->mean_ns)).s : "unknown");
	buf_adds(b, "</tr><tr><th>Upper bound, 95 %</th><td></td>");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		td_num(b, fmt_ns_or(rows[i].upper, "not estimable").s);
	buf_adds(b, "<td></td><td></td></tr></tbody></table></div>\n");
}

static void add_chart(struct buf *b, const struct verdict *v, const struct cell_result *c)
{
	const struct dist *d = &c->ttft;
	struct limits limits = limits_of(v, c->cell->id);
	struct axis x = time_axis(d, &limits), y = { .lo = 0, .hi = 1, .px_lo = BOTTOM, .px_hi = TOP };
	size_t n = 0;
	auto_free struct point *steps = steps_of(d, &n);
	char label[300];
	if (!steps) {
		b->failed = true;
		return;
	}
	snprintf(label, sizeof label,
	         "Share of requests whose first token came within a time: median %s, p90 %s, largest %s",
	         fmt_ns(d->p50_ns).s, fmt_ns(d->p90_ns).s, fmt_ns(d->max_ns).s);
	svg_open(b, W, H, label);
	add_axes(b, &x, &y);
	svg_line(b, "data", &x, &y, steps, n, true);
	add_limits(b, &x, &limits);
	add_quantiles(b, &x, &y, d);
	buf_adds(
		b,
		"</svg></figure>\n<div class=\"legend\"><span><svg viewBox=\"0 0 26 10\"><path "
		"class=\"data\" "
		"d=\"M0 8H9V5H17V2H26\"/></svg>share of all requests at or below</span>"
		"<span><svg viewBox=\"0 0 26 10\"><line class=\"bound\" x1=\"4\" y1=\"5\" x2=\"24\" "
		"y2=\"5\"/>"
		"<line class=\"bound\" x1=\"24\" y1=\"1\" x2=\"24\" y2=\"9\"/><circle class=\"dot\" cx=\"4\" "
		"cy=\"5\" r=\"3.5\"/></svg>quantile and its 95 % upper bound</span>");
	if (limits.n)
		buf_adds(b,
		         "<span><svg viewBox=\"0 0 26 10\"><line class=\"limit\" x1=\"0\" y1=\"5\" x2=\"26\" "
		         "y2=\"5\"/></svg>limit in the plan</span>");
	buf_adds(b, "</div>\n");
}

void part_ttft(struct buf *b, const struct verdict *v)
{
	const struct cell_result *c = critical_cell(v);
	section_open(b, "ttft", "Time to first token in the critical cell", NULL);
	if (!c) {
		note(b, "The plan names no critical cell.");
	} else if (!c->ttft.n || !c->ttft.sorted) {
		note(b, "No request of the critical cell gave a first token, so there is no distribution.");
	} else {
		buf_adds(b, "<p class=\"lead\"><b>");
		esc(b, c->cell->id);
		buf_addf(b, "</b>, n %s", fmt_count(c->ttft.n + c->ttft.n_failed).s);
		if (c->ttft.n_failed)
			buf_addf(b, ", of them %s failed: the line ends below 100 %%",
			         fmt_count(c->ttft.n_failed).s);
		buf_adds(b, ".</p>\n");
		add_chart(b, v, c);
		add_table(b, &c->ttft);
	}
	section_close(b);
}
