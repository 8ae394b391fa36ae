// SPDX-License-Identifier: Apache-2.0
// The instrument: what it adds by itself, what it delivered, and what to change where it was the limit.
#include "report/report_parts.h"

#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct fmt pct(double v)
{
	struct fmt f;
	if (isfinite(v))
		snprintf(f.s, sizeof f.s, "%.3g %%", v);
	else
		snprintf(f.s, sizeof f.s, "unknown");
	return f;
}

static void td_error(struct buf *b, uint64_t ns)
{
	char text[FMT_BYTES + 8];
	snprintf(text, sizeof text, ns == REC_NONE ? "%s" : "± %s", fmt_ns(ns).s);
	td_num(b, text);
}

static void td_delivered(struct buf *b, const struct cell_result *c)
{
	char text[3 * FMT_BYTES];
	if (!isfinite(c->delivered.share)) {
		td_num(b, "unknown");
		return;
	}
	snprintf(text, sizeof text, "%s of %s%s", fmt_num(c->delivered.value).s,
	         fmt_num(c->delivered.planned).s, cell_is_open_loop(c->cell) ? "/s" : "");
	td_num(b, text);
}

static void add_row(struct buf *b, const struct cell_result *c)
{
	const struct ev_cell_state *s = c->st;
	buf_adds(b, "<tr><th scope=\"row\">");
	esc(b, c->cell->id);
	buf_adds(b, "</th>");
	if (!s || !s->has_soundness) {
		buf_adds(b, "<td colspan=\"9\">not recorded</td></tr>\n");
		return;
	}
	td_error(b, c->instrument.ttft_error_ns);
	td_error(b, c->instrument.itl_error_ns);
	td_num(b, fmt_ns(s->send_lag_p99_ns).s);
	td_num(b, fmt_ns(s->send_lag_max_ns).s);
	td_num(b, fmt_ns(s->loop_lag_p99_ns).s);
	td_num(b, pct(c->instrument.client_cpu_pct).s);
	td_num(b, pct(c->instrument.runq_wait_pct).s);
	td_num(b, pct(c->instrument.steal_pct).s);
	td_delivered(b, c);
	buf_adds(b, "</tr>\n");
}

static void add_invalid(struct buf *b, const struct verdict *v)
{
	bool open = false;
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		if (c->valid || !c->n_scheduled || !advice_for(c->cause))
			continue;
		buf_adds(b, open ? "" : "<ul class=\"why\">");
		open = true;
		buf_adds(b, "<li><b>");
		esc(b, c->cell->id);
		buf_adds(b, "</b> is invalid: ");
		esc_n(b, c->invalid_reason, 250);
		buf_addf(b, ". What to change: %s.</li>", advice_for(c->cause));
	}
	buf_adds(b, open ? "</ul>\n" : "");
}

static void add_calibration(struct buf *b, const struct ev_calibration *c)
{
	buf_adds(b, "<tr><th scope=\"row\">");
	esc_n(b, c->load, 80);
	buf_addf(b, ", %s the load</th>", c->after ? "after" : "before");
	td_num(b, fmt_count(c->n_requests).s);
	td_num(b, fmt_count(c->n_failed).s);
	td_num(b, fmt_ns(c->ttft_error_p50_ns).s);
	td_num(b, fmt_ns(c->ttft_error_p99_ns).s);
	td_num(b, fmt_ns(c->ttft_error_max_ns).s);
	td_num(b, fmt_ns(c->itl_error_p50_ns).s);
	td_num(b, fmt_ns(c->itl_error_p99_ns).s);
	td_num(b, fmt_ns(c->itl_error_max_ns).s);
	td_num(b, fmt_ns(c->send_lag_p99_ns).s);
	bool known = c->client_cpu_ns != REC_NONE && c->wall_ns != REC_NONE && c->wall_ns;
	td_num(b, pct(known ? 100.0 * (double)c->client_cpu_ns / (double)c->wall_ns : (double)NAN).s);
	buf_adds(b, "</tr>\n");
}

static void add_calibrations(struct buf *b, const struct evidence *ev)
{
	if (!ev->n_calibrations) {
		note(b,
		     ev->plan->instrument.calibration_s > 0
		             ? "No calibration was recorded: what the client adds by itself is known by its "
		               "lags alone."
		             : "The plan asks for no calibration: what the client adds by itself is known by "
		               "its lags alone.");
		return;
	}
	buf_adds(b, "<div class=\"keep\"><h3>Calibration</h3><div "
	            "class=\"scroll\"><table><thead><tr><th>Load</th>"
	            "<th class=\"n\">Requests</th><th class=\"n\">Failed</th>"
	            "<th class=\"n\">TTFT error p50</th><th class=\"n\">p99</th><th class=\"n\">max</th>"
	            "<th class=\"n\">Gap error p50</th><th class=\"n\">p99</th><th class=\"n\">max</th>"
	            "<th class=\"n\">Send lag p99</th><th class=\"n\">Client CPU</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < ev->n_calibrations; i++)
		add_calibration(b, &ev->calibrations[i]);
	buf_adds(b, "</tbody></table></div></div>\n");
	note(b, "The same load against a server of proofmark's own on this machine, whose token times are "
	        "known: the error is what the client says minus what was true.");
}

void part_instrument(struct buf *b, const struct verdict *v)
{
	if (!v->n_cells)
		return;
	section_open(
		b, "instrument", "The instrument",
		"What the load client adds by itself, and whether it delivered what was planned. The error "
		"bars are "
		"p99 figures: the worse of calibration and lags. A limit under 10 times the error, or a "
		"client past the "
		"plan's bounds, makes a criterion invalid, not failed.");
	add_invalid(b, v);
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th>Cell</th><th class=\"n\">TTFT error</th>"
	            "<th class=\"n\">Gap error</th><th class=\"n\">Send lag p99</th>"
	            "<th class=\"n\">max</th><th class=\"n\">Loop lag p99</th>"
	            "<th class=\"n\">Client CPU</th><th class=\"n\">CPU wait</th>"
	            "<th class=\"n\">Steal</th><th class=\"n\">Delivered</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_cells; i++)
		add_row(b, &v->cells[i]);
	buf_adds(b, "</tbody></table></div>\n");
	add_calibrations(b, v->ev);
	buf_adds(b, "<p class=\"note\">Clock source: ");
	esc_n(b, v->ev->clock_source[0] ? v->ev->clock_source : "not told", 64);
	buf_adds(b, ". Client CPU and CPU wait (ready to run, but on no CPU) are of one core a thread. "
	            "Delivered is the mean concurrency of a "
	            "closed loop, or the rate of an open one, from the send times of its requests.</p>\n");
	section_close(b);
}
