// SPDX-License-Identifier: Apache-2.0
// What happened when: memory with the phases of the run, and the requests that failed.
#include "report/report_parts.h"

#include "report/format.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BINS 96
#define FAILURES_SHOWN 25
#define BUCKETS 500

enum { W = 1000, LEFT = 66, RIGHT = 984 };

static const struct time_unit {
	double ns;
	const char *name;
} time_units[] = { { 1e9, "s" }, { 60e9, "min" }, { 3600e9, "h" } };

static const struct time_unit *unit_for(double end_ns)
{
	return &time_units[end_ns > 7200e9 ? 2 : end_ns > 300e9 ? 1 : 0];
}

static void add_time_axis(struct buf *b, const struct axis *x, double py)
{
	const struct time_unit *u = unit_for(x->hi);
	struct axis scaled = *x;
	double ticks[TICKS_MAX];
	scaled.lo /= u->ns;
	scaled.hi /= u->ns;
	size_t n = axis_ticks(&scaled, 9, ticks);
	svg_segment(b, "axis", LEFT, py, RIGHT, py);
	for (size_t i = 0; i < n; i++) {
		char label[FMT_BYTES + 8];
		double px = axis_px(&scaled, ticks[i]);
		snprintf(label, sizeof label, "%s%s%s", fmt_num(ticks[i]).s, i + 1 == n ? " " : "",
		         i + 1 == n ? u->name : "");
		svg_segment(b, "axis", px, py, px, py + 5);
		svg_text(b, "", px, py + 20, "middle", label);
	}
}

static void add_phases(struct buf *b, const struct evidence *ev, const struct axis *x, double top,
                       double bottom)
{
	double free_from = 0;
	for (size_t i = 0; i < ev->n_phases; i++) {
		const struct ev_phase *p = &ev->phases[i];
		double from = axis_px(x, (double)p->begin_ns);
		double to = axis_px(x, p->end_ns == REC_NONE ? x->hi : (double)p->end_ns);
		buf_addf(
			b,
			"<rect class=\"band%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
			i % 2 ? " odd" : "", from, top, fmax(0, to - from), bottom - top);
		esc_n(b, p->name, 40);
		buf_adds(b, "</title></rect>\n");
		double wide = 7.0 * (double)strnlen(p->name, 32);
		if (to - from > wide && from >= free_from) {
			svg_text(b, "", from + 4, top - 6, "start", p->name);
			free_from = from + wide;
		}
	}
}

/* --- memory --------------------------------------------------------------------------------------------- */

struct series {
	const char *name, *says, *cls;
	size_t n;
	struct point *p; /* owned */
	double peak;
};

static struct series series_of(const struct evidence *ev, const char *name, const char *says, const char *cls)
{
	struct series s = { .name = name, .says = says, .cls = cls, .peak = (double)NAN };
	size_t n = 0;
	for (size_t i = 0; i < ev->n_readings; i++)
		n += !strcmp(ev->readings[i].name, name);
	s.p = n ? malloc(n * sizeof *s.p) : NULL;
	if (!s.p)
		return s;
	for (size_t i = 0; i < ev->n_readings; i++) {
		const struct ev_reading *r = &ev->readings[i];
		if (strcmp(r->name, name))
			continue;
		bool known = isfinite(r->value) && r->value >= 0;
		s.p[s.n++] = (struct point){ (double)r->t_ns, known ? r->value : (double)NAN };
		if (known && !(s.peak >= r->value))
			s.peak = r->value;
	}
	s.n = thin_points(s.p, s.n, BUCKETS);
	return s;
}

struct byte_limit {
	const struct crit_result *r;
	double bytes;
};

static struct byte_limit memory_limit(const struct verdict *v)
{
	for (size_t i = 0; i < v->n_criteria; i++) {
		const struct crit_result *r = &v->criteria[i];
		const struct unit *u = unit_find(r->crit->limit_unit);
		if (r->metric && !strcmp(r->metric->name, "engine_pss_peak") && u && u->dim == DIM_BYTES)
			return (struct byte_limit){ r, r->crit->limit * u->to_base };
	}
	return (struct byte_limit){ NULL, 0 };
}

static void add_bytes_axis(struct buf *b, const struct axis *y)
{
	double unit = 1, ticks[TICKS_MAX];
	while (y->hi / unit >= 2000)
		unit *= 1024;
	struct axis scaled = *y;
	scaled.hi /= unit;
	size_t n = axis_ticks(&scaled, 5, ticks);
	for (size_t i = 0; i < n; i++) {
		double py = axis_px(&scaled, ticks[i]);
		svg_segment(b, "grid", LEFT, py, RIGHT, py);
		svg_text(b, "", LEFT - 8, py + 4, "end", ticks[i] > 0 ? fmt_bytes(ticks[i] * unit).s : "0");
	}
}

static void add_memory_chart(struct buf *b, const struct verdict *v, const struct series *all, size_t n_all)
{
	enum { H = 320, TOP = 34, BOTTOM = 278 };
	struct byte_limit limit = memory_limit(v);
	double high = limit.bytes;
	for (size_t i = 0; i < n_all; i++)
		high = all[i].peak > high ? all[i].peak : high;
	struct axis x = { 0, (double)run_end_ns(v->ev), LEFT, RIGHT, false };
	struct axis y = { 0, high > 0 ? high * 1.08 : 1, BOTTOM, TOP, false };
	svg_open(b, W, H, "Memory of the engine over the run, with the phases of the run");
	add_phases(b, v->ev, &x, TOP, BOTTOM);
	add_bytes_axis(b, &y);
	add_time_axis(b, &x, BOTTOM);
	for (size_t i = n_all; i-- > 0;)
		svg_line(b, all[i].cls, &x, &y, all[i].p, all[i].n, false);
	if (limit.r) {
		double py = axis_px(&y, limit.bytes);
		char label[FMT_BYTES + 16];
		snprintf(label, sizeof label, "limit %s", fmt_bytes(limit.bytes).s);
		svg_segment(b, "limit", LEFT, py, RIGHT, py);
		svg_text(b, "limit-text", RIGHT - 4, py + 15, "end", label);
	}
	buf_adds(b, "</svg></figure>\n<div class=\"legend\">");
	for (size_t i = 0; i < n_all; i++)
		if (all[i].n)
			buf_addf(b,
			         "<span><svg viewBox=\"0 0 26 10\"><path class=\"%s\" d=\"M0 "
			         "5H26\"/></svg>%s, peak %s</span>",
			         all[i].cls, all[i].says, fmt_bytes(all[i].peak).s);
	buf_adds(b, "</div>\n");
}

static void add_phase_peaks(struct buf *b, const struct verdict *v)
{
	bool any = false;
	for (size_t i = 0; i < v->n_memory; i++) {
		const struct memory_result *m = &v->memory[i];
		if (!m->phase || strcmp(m->name, "engine_pss_bytes") || !m->n)
			continue;
		if (!any)
			buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th>Phase</th><th "
			            "class=\"n\">Engine memory (PSS), "
			            "peak</th><th class=\"n\">at its end</th><th class=\"n\">Readings</th>"
			            "<th class=\"n\">unknown</th></tr></thead><tbody>\n");
		any = true;
		buf_adds(b, "<tr>");
		td_text(b, m->phase);
		td_num(b, fmt_bytes(m->n ? m->peak : (double)NAN).s);
		td_num(b, fmt_bytes(m->n ? m->last : (double)NAN).s);
		td_num(b, fmt_count(m->n).s);
		td_num(b, fmt_count(m->n_unknown).s);
		buf_adds(b, "</tr>\n");
	}
	if (any)
		buf_adds(b, "</tbody></table></div>\n");
}

void part_memory(struct buf *b, const struct verdict *v)
{
	struct series all[] = { series_of(v->ev, "engine_pss_bytes", "engine, proportional set (PSS)",
		                          "data"),
		                series_of(v->ev, "engine_rss_bytes", "engine, resident set (RSS)", "data2") };
	section_open(b, "memory", "Memory over time", NULL);
	if (isfinite(all[0].peak) || isfinite(all[1].peak))
		add_memory_chart(b, v, all, ARRAY_LEN(all));
	else
		note(b, "No memory reading of the engine is known.");
	add_phase_peaks(b, v);
	section_close(b);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		free(all[i].p);
}

/* --- failures --------------------------------------------------------------------------------------------
 */

static bool is_failed(const struct record *r)
{
	return r->kind == REC_LOAD && r->outcome != OUTCOME_OK && r->outcome != OUTCOME_CANCELLED;
}

static uint64_t when(const struct record *r)
{
	return r->end_ns != REC_NONE ? r->end_ns : r->due_ns != REC_NONE ? r->due_ns : 0;
}

struct bins {
	uint64_t ok[BINS], bad[BINS], n_ok, n_bad, most;
};

static struct bins bins_of(const struct evidence *ev, double end)
{
	struct bins s = { 0 };
	for (size_t i = 0; i < ev->n_records; i++) {
		const struct record *r = &ev->records[i];
		if (r->kind != REC_LOAD || r->outcome == OUTCOME_CANCELLED)
			continue;
		double share = (double)when(r) / end * BINS;
		size_t k = share < BINS ? (size_t)share : BINS - 1;
		uint64_t *bin = is_failed(r) ? &s.bad[k] : &s.ok[k];
		++*bin;
		s.n_bad += is_failed(r);
		s.n_ok += !is_failed(r);
		s.most = *bin > s.most ? *bin : s.most;
	}
	return s;
}

static void add_bars(struct buf *b, const struct bins *s, const struct axis *x, double zero, double height)
{
	double wide = (RIGHT - LEFT) / (double)BINS;
	for (size_t i = 0; i < BINS; i++) {
		double px = x->px_lo + wide * (double)i, up = height * (double)s->ok[i] / (double)s->most;
		double down = height * (double)s->bad[i] / (double)s->most;
		if (s->ok[i])
			buf_addf(b,
			         "<rect class=\"bar-ok\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			         "height=\"%.1f\"/>\n",
			         px + .6, zero - up, wide - 1.2, up);
		if (s->bad[i])
			buf_addf(b,
			         "<rect class=\"bar-bad\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			         "height=\"%.1f\"/>\n",
			         px + .6, zero + 1, wide - 1.2, fmax(2.5, down));
	}
}

static void add_error_chart(struct buf *b, const struct evidence *ev)
{
	enum { H = 232, TOP = 26, ZERO = 122, BOTTOM = 198 };
	struct axis x = { 0, (double)run_end_ns(ev), LEFT, RIGHT, false };
	struct bins s = bins_of(ev, x.hi);
	char label[200];
	if (!s.most)
		return;
	double tall = s.n_bad ? BOTTOM - ZERO - 4 : BOTTOM - TOP - 18;
	double zero = s.n_bad ? ZERO : BOTTOM;
	snprintf(label, sizeof label, "Requests over the run: %s completed, %s failed", fmt_count(s.n_ok).s,
	         fmt_count(s.n_bad).s);
	svg_open(b, W, H, label);
	add_phases(b, ev, &x, TOP, BOTTOM);
	add_bars(b, &s, &x, zero, tall);
	svg_segment(b, "axis", LEFT, zero, RIGHT, zero);
	svg_text(b, "", LEFT - 8, zero - tall + 4, "end", fmt_count(s.most).s);
	svg_text(b, "", LEFT - 8, zero + 4, "end", "0");
	if (s.n_bad)
		svg_text(b, "", LEFT - 8, zero + tall, "end", fmt_count(s.most).s);
	add_time_axis(b, &x, BOTTOM);
	buf_addf(b,
	         "</svg></figure>\n<div class=\"legend\"><span><svg viewBox=\"0 0 26 10\"><rect "
	         "class=\"bar-ok\" "
	         "x=\"8\" width=\"10\" height=\"10\"/></svg>completed in each %s</span>",
	         fmt_ns((uint64_t)llround(x.hi / BINS)).s);
	if (s.n_bad)
		buf_adds(b, "<span><svg viewBox=\"0 0 26 10\"><rect class=\"bar-bad\" x=\"8\" width=\"10\" "
		            "height=\"10\"/></svg>failed, downwards</span>");
	buf_adds(b, "</div>\n");
}

static void add_outcomes(struct buf *b, const struct verdict *v)
{
	uint64_t n[N_OUTCOMES] = { 0 }, all = 0;
	for (size_t i = 0; i < v->n_cells; i++)
		for (size_t k = 0; k < N_OUTCOMES; k++)
			n[k] += v->cells[i].n_outcome[k];
	for (size_t k = 0; k < N_OUTCOMES; k++)
		all += n[k];
	buf_addf(b, "<p class=\"lead\">%s load requests", fmt_count(all).s);
	for (size_t k = 0; k < N_OUTCOMES; k++) {
		if (!n[k])
			continue;
		buf_addf(b, " · %s ", fmt_count(n[k]).s);
		for (const char *w = outcome_words[k]; *w; w++)
			buf_addc(b, *w == '_' ? ' ' : *w);
	}
	buf_adds(b, "</p>\n");
}

static void add_failures(struct buf *b, const struct evidence *ev)
{
	size_t shown = 0, all = 0;
	for (size_t i = 0; i < ev->n_records; i++) {
		const struct record *r = &ev->records[i];
		if (!is_failed(r) || ++all > FAILURES_SHOWN)
			continue;
		if (!shown++)
			buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th class=\"n\">Ended at</th>"
			            "<th "
			            "class=\"n\">Request</th><th>Cell</th><th>Outcome</th><th>Detail</th></"
			            "tr></thead>"
			            "<tbody>\n");
		buf_adds(b, "<tr>");
		td_num(b, fmt_ns(when(r)).s);
		td_num(b, fmt_count(r->i).s);
		td_text(b, r->cell);
		td_text(b, outcome_words[r->outcome]);
		td_text(b, r->detail[0] ? r->detail : "–");
		buf_adds(b, "</tr>\n");
	}
	if (shown)
		buf_adds(b, "</tbody></table></div>\n");
	if (all > FAILURES_SHOWN)
		buf_addf(b, "<p class=\"note\">The first %d of %zu; all are in requests.jsonl.</p>\n",
		         FAILURES_SHOWN, all);
	if (!all && ev->n_records)
		note(b, "No load request failed.");
}

void part_errors(struct buf *b, const struct verdict *v)
{
	section_open(b, "errors", "Requests and failures over time", NULL);
	if (!v->ev->n_records)
		note(b, "No request was recorded.");
	else
		add_outcomes(b, v);
	add_error_chart(b, v->ev);
	add_failures(b, v->ev);
	section_close(b);
}
