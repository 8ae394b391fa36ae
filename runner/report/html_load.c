// SPDX-License-Identifier: Apache-2.0
// What the load did beyond latency: retries, over-saturation, bursts, cache and queue; turns and parts;
// canaries.
#include "report/report_parts.h"

#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct fmt share_or_unknown(double share)
{
	struct figure f = { isfinite(share), share, "share" };
	if (f.known)
		return fmt_figure(&f);
	return (struct fmt){ "unknown" };
}

// --- behaviour -----------------------------------------------------------------------------------------

static const char *saturation_says(const struct cell_result *c)
{
	if (!cell_can_saturate(c->cell))
		return "–";
	return c->saturation.state == SATURATION_YES  ? "over-saturated"
	       : c->saturation.state == SATURATION_NO ? "no"
	                                              : "unknown";
}

static void add_behaviour(struct buf *b, const struct cell_result *c)
{
	char text[2 * FMT_BYTES];
	buf_adds(b, "<tr><th scope=\"row\">");
	esc(b, c->cell->id);
	buf_adds(b, "</th>");
	td_num(b, fmt_count(c->n_retried).s);
	td_num(b, c->cell->wl->force_output ? fmt_count(c->n_length_mismatch).s : "–");
	td_num(b, c->cell->wl->conversation.turns ? fmt_count(c->n_unasked).s : "–");
	td_text(b, saturation_says(c));
	td_text(b, c->buffered.yes ? "in bursts" : c->buffered.n ? "as they come" : "unknown");
	snprintf(text, sizeof text, "%s", share_or_unknown(c->prefix_cache_hit_share).s);
	td_num(b, text);
	td_text(b, c->prefix_cache_source ? c->prefix_cache_source : "–");
	td_num(b, isfinite(c->queue_time_mean_ms) ? fmt_ns((uint64_t)(c->queue_time_mean_ms * 1e6 + .5)).s
	                                          : "unknown");
	buf_adds(b, "</tr>\n");
}

static void add_behaviour_notes(struct buf *b, const struct verdict *v)
{
	bool saturated = false, buffered = false, unequal = false;
	for (size_t i = 0; i < v->n_cells; i++) {
		saturated |= v->cells[i].saturation.state == SATURATION_YES;
		buffered |= v->cells[i].buffered.yes;
	}
	for (size_t i = 0; i < v->n_cells; i++)
		unequal |= v->cells[i].n_length_mismatch > 0;
	if (unequal)
		note(b, "Other length: answers that the plan wanted of one length and that ended before or "
		        "after it. "
		        "Their end-to-end times and tokens per second are not those of the load that was "
		        "planned.");
	if (saturated)
		note(b,
		     "Over-saturated: requests came faster than they were served, so what waits grew as long "
		     "as the "
		     "load lasted. Latencies of such a cell are figures of the length of the test, not of "
		     "the "
		     "server.");
	if (buffered)
		note(b, "In bursts: most answers came in one or two reads, so the server or a proxy holds "
		        "tokens "
		        "back. "
		        "First-token times and gaps are then those of the buffer.");
}

void part_load(struct buf *b, const struct verdict *v)
{
	bool any = false;
	for (size_t i = 0; i < v->n_cells; i++)
		any |= v->cells[i].n_scheduled > 0;
	if (!any)
		return;
	section_open(b, "load", "How the load went", NULL);
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th>Cell</th><th class=\"n\">Sent again</th>"
	            "<th class=\"n\">Other length</th>"
	            "<th class=\"n\">Turns never asked</th><th>Over-saturated</th><th>Tokens arrive</th>"
	            "<th class=\"n\">Prefix cache hits</th><th>Told by</th>"
	            "<th class=\"n\">Queue time, mean</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_cells; i++)
		if (v->cells[i].n_scheduled)
			add_behaviour(b, &v->cells[i]);
	buf_adds(b, "</tbody></table></div>\n");
	add_behaviour_notes(b, v);
	section_close(b);
}

// --- turns and parts -----------------------------------------------------------------------------------

static void add_group(struct buf *b, const struct cell_result *c, const struct group_result *g)
{
	buf_adds(b, "<tr><th scope=\"row\">");
	if (g->name)
		esc_n(b, g->name, 80);
	else
		buf_addf(b, "turn %" PRIu64, g->turn + 1);
	buf_adds(b, "</th>");
	td_num(b, fmt_count(g->n).s);
	td_num(b, fmt_count(g->n_failed).s);
	const char *none = g->n_failed ? "no value: failures" : "unknown";
	td_num(b, fmt_ns_or(g->ttft_p50_ns, none).s);
	td_num(b, fmt_ns_or(g->ttft_p99_ns, none).s);
	td_num(b, c->itl_measurable ? fmt_ns_or(g->itl_p50_ns, none).s : "not measurable");
	td_num(b, c->itl_measurable ? fmt_ns_or(g->itl_p99_ns, none).s : "not measurable");
	td_num(b, fmt_ns_or(g->e2e_p50_ns, none).s);
	td_num(b, fmt_ns_or(g->e2e_p99_ns, none).s);
	buf_adds(b, "</tr>\n");
}

static void add_groups(struct buf *b, const struct cell_result *c, const char *what,
                       const struct group_result *list, size_t n)
{
	if (!n)
		return;
	buf_adds(b, "<div class=\"keep\"><h3>");
	esc(b, c->cell->id);
	buf_addf(b,
	         "</h3><div class=\"scroll\"><table><thead><tr><th>%s</th><th class=\"n\">n</th>"
	         "<th class=\"n\">Failed</th><th class=\"n\">TTFT p50</th><th class=\"n\">p99</th>"
	         "<th class=\"n\">ITL p50</th><th class=\"n\">p99</th><th class=\"n\">End to end p50</th>"
	         "<th class=\"n\">p99</th></tr></thead><tbody>\n",
	         what);
	for (size_t i = 0; i < n; i++)
		add_group(b, c, &list[i]);
	buf_adds(b, "</tbody></table></div></div>\n");
}

void part_groups(struct buf *b, const struct verdict *v)
{
	bool any = false;
	for (size_t i = 0; i < v->n_cells; i++)
		any |= v->cells[i].n_scheduled && (v->cells[i].n_parts || v->cells[i].n_turns);
	if (!any)
		return;
	section_open(
		b, "groups", "Turns and parts",
		"Each turn of the conversations and each part of a mix by itself. A turn behind a failed "
		"one is never "
		"asked and counts as failed. Shown, not judged.");
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		if (!c->n_scheduled)
			continue;
		add_groups(b, c, "Turn", c->turns, c->n_turns);
		add_groups(b, c, "Part", c->parts, c->n_parts);
	}
	section_close(b);
}

// --- canaries ------------------------------------------------------------------------------------------

static void add_canaries(struct buf *b, const struct cell_result *c)
{
	buf_adds(b, "<tr><th scope=\"row\">");
	esc(b, c->cell->id);
	buf_adds(b, "</th>");
	td_num(b, fmt_count(c->canaries.n).s);
	td_num(b, c->canaries.n ? fmt_count(c->canaries.n_failed).s : "–");
	td_num(b, fmt_count(c->canaries.n_foreign).s);
	td_num(b, fmt_count(c->answers.n_counted).s);
	td_num(b, c->answers.n_counted ? fmt_count(c->answers.n_suspicious).s : "–");
	td_num(b, c->answers.n_counted ? fmt_count(c->answers.n_foreign_script).s : "–");
	buf_adds(b, "</tr>\n");
}

void part_canaries(struct buf *b, const struct verdict *v)
{
	bool any = v->n_foreign > 0;
	for (size_t i = 0; i < v->n_cells; i++)
		any |= v->cells[i].canaries.n || v->cells[i].answers.n_counted;
	if (!any)
		return;
	section_open(b, "canaries", "Canaries and texts",
	             "A canary repeats a secret of its own and answers a question with a known answer, under "
	             "load. The "
	             "secret of another request in an answer is a leak between requests.");
	if (v->n_foreign)
		buf_addf(b,
		         "<ul class=\"why\"><li><b>Security:</b> secrets of other requests were found %s "
		         "times in the %s "
		         "texts looked at.</li></ul>\n",
		         fmt_count(v->n_foreign).s, fmt_count(v->n_texts).s);
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th>Cell</th><th class=\"n\">Canaries</th>"
	            "<th class=\"n\">Failed</th><th class=\"n\">Secrets of others</th>"
	            "<th class=\"n\">Texts counted</th><th class=\"n\">Look corrupt</th>"
	            "<th class=\"n\">Foreign script</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_cells; i++)
		if (v->cells[i].n_scheduled)
			add_canaries(b, &v->cells[i]);
	buf_adds(b, "</tbody></table></div>\n");
	note(b, "Looks corrupt: one character 24 times in a row, few different characters, a text that "
	        "compresses to a "
	        "fifth, repeated phrases or special tokens. On free text these are counters: tables and code "
	        "look "
	        "alike.");
	section_close(b);
}
