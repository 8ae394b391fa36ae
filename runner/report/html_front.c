// SPDX-License-Identifier: Apache-2.0
// The first page: what came out, why, the figures that matter, every criterion, and of what run.
#include "report/report_parts.h"

#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *cls, *icon, *word, *says;
} banners[N_VERDICTS] = {
	[VERDICT_INTERRUPTED] = { "open", "i-blocked", "Interrupted",
	                          "The run was stopped before its end. What was recorded is shown; it "
	                          "decides nothing." },
	[VERDICT_REJECTED] = { "fail", "i-fail", "Rejected",
	                       "At least one condition that was fixed before the run is not met." },
	[VERDICT_INVALID] = { "invalid", "i-invalid", "Invalid measurement",
	                      "The measurement itself is not sound, so it says nothing about the system. "
	                      "What "
	                      "to change stands under “The instrument”." },
	[VERDICT_BLOCKED] = { "invalid", "i-blocked", "Blocked",
	                      "The machine or its software is not what was locked, so the trial was not "
	                      "judged." },
	[VERDICT_ERROR] = { "invalid", "i-invalid", "Error", "The trial could not be carried out." },
	[VERDICT_INCONCLUSIVE] = { "open", "i-open", "Inconclusive",
	                           "There is not enough evidence to accept or to reject." },
	[VERDICT_ACCEPTED_WITH_WAIVERS] = { "pass", "i-waived", "Accepted with waivers",
	                                    "Every condition is met or covered by a waiver that is still "
	                                    "valid." },
	[VERDICT_ACCEPTED] = { "pass", "i-pass", "Accepted",
	                       "Every condition that was fixed before the run is met." },
};

static void add_tally(struct buf *b, const struct verdict *v)
{
	static const enum crit_state order[] = { STATE_FAIL,    STATE_INVALID,       STATE_ERROR,
		                                 STATE_BLOCKED, STATE_INCONCLUSIVE,  STATE_NOT_TESTED,
		                                 STATE_PASS,    STATE_NOT_APPLICABLE };
	size_t said = 0;
	buf_addf(b, "%zu %s", v->n_criteria, v->n_criteria == 1 ? "criterion: " : "criteria: ");
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		size_t n = 0;
		for (size_t k = 0; k < v->n_criteria; k++)
			n += v->criteria[k].state == order[i];
		if (n)
			buf_addf(b, "%s%zu %s", said++ ? ", " : "", n, state_says(order[i]));
	}
	buf_adds(b, said ? "." : "none judged.");
}

static void add_banner(struct buf *b, const struct verdict *v)
{
	enum run_verdict run = (unsigned)v->run < N_VERDICTS ? v->run : VERDICT_ERROR;
	buf_addf(b, "<div class=\"verdict %s\" role=\"status\">", banners[run].cls);
	add_icon(b, banners[run].icon);
	buf_addf(b, "<div><b>%s</b><span>%s ", banners[run].word, banners[run].says);
	add_tally(b, v);
	buf_adds(b, "</span></div></div>\n");
	if (v->n_reasons) {
		buf_adds(b, "<ul class=\"why\">");
		for (size_t i = 0; i < v->n_reasons; i++) {
			buf_adds(b, "<li>");
			esc(b, v->reasons[i]);
			buf_adds(b, "</li>");
		}
		buf_adds(b, "</ul>\n");
	}
}

static void add_classes(struct buf *b, const struct verdict *v)
{
	buf_adds(b, "<div class=\"classes\"><span>By workload class</span>");
	for (size_t i = 0; i < N_CLASSES; i++) {
		if (!v->classes[i].present || (unsigned)v->classes[i].verdict >= N_VERDICTS)
			continue;
		buf_addf(b, "<span class=\"%s\">", banners[v->classes[i].verdict].cls);
		add_icon(b, banners[v->classes[i].verdict].icon);
		buf_addf(b, " %s: %s</span>", class_words[i], verdict_says(v->classes[i].verdict));
	}
	buf_adds(b, "</div>\n");
}

static void add_figure(struct buf *b, const char *name, const char *value, const char *fmt_small,
                       const char *small)
{
	buf_addf(b, "<div><dt>%s</dt><dd>", name);
	esc(b, value);
	buf_adds(b, "<small>");
	buf_adds(b, fmt_small);
	esc(b, small);
	buf_adds(b, "</small></dd></div>\n");
}

static void add_memory_figure(struct buf *b, const struct verdict *v)
{
	for (size_t i = 0; i < v->n_memory; i++) {
		const struct memory_result *m = &v->memory[i];
		if (m->phase || strcmp(m->name, "engine_pss_bytes"))
			continue;
		add_figure(b, "Memory, peak", fmt_bytes(m->peak).s, "engine, n ", fmt_count(m->n).s);
		return;
	}
}

static struct fmt quantile(const struct dist *d, uint64_t ns)
{
	return fmt_ns_or(ns, d->n_failed ? "no value" : "unknown");
}

static void add_latency_figure(struct buf *b, const char *name, const struct dist *d, uint64_t p50_ns,
                               const char *high_name, uint64_t high_ns, uint64_t error_ns)
{
	char small[2 * FMT_BYTES + 8];
	snprintf(small, sizeof small, "%s, ± %s", quantile(d, high_ns).s, fmt_ns(error_ns).s);
	add_figure(b, name, quantile(d, p50_ns).s, high_name, small);
}

static void add_figures(struct buf *b, const struct verdict *v)
{
	const struct cell_result *c = critical_cell(v);
	if (!c || !c->n_scheduled)
		return;
	char n[2 * FMT_BYTES + 32];
	snprintf(n, sizeof n, "%s of %s requests", fmt_count(c->n_completed).s, fmt_count(c->n_scheduled).s);
	buf_adds(b, "<dl class=\"figures\">\n");
	add_figure(b, "Completed", fmt_share(c->n_completed, c->n_scheduled).s, "", n);
	if (!c->cell->wl->stream)
		add_latency_figure(b, "End to end, median", &c->e2e, c->e2e.p50_ns, "p90 ", c->e2e.p90_ns,
		                   c->instrument.ttft_error_ns);
	else
		add_latency_figure(b, "TTFT, median", &c->ttft, c->ttft.p50_ns, "p90 ", c->ttft.p90_ns,
		                   c->instrument.ttft_error_ns);
	if (c->itl_measurable)
		add_latency_figure(b, "ITL, median", &c->itl, c->itl.p50_ns, "p99 ", c->itl.p99_ns,
		                   c->instrument.itl_error_ns);
	else if (c->cell->wl->stream)
		add_latency_figure(b, "TPOT, median", &c->tpot, c->tpot.p50_ns, "p90 ", c->tpot.p90_ns,
		                   c->instrument.itl_error_ns);
	add_figure(b, "Prefill", fmt_rate(c->prefill_tok_s, "tok/s").s, "n ", fmt_count(c->n_completed).s);
	add_figure(b, "Decode", fmt_rate(c->decode_tok_s, "tok/s").s, "per request, n ",
	           fmt_count(c->n_completed).s);
	add_memory_figure(b, v);
	buf_adds(b, "</dl>\n<p class=\"note\">Figures of the critical cell <b>");
	esc(b, c->cell->id);
	buf_adds(b, "</b>");
	if (c->cell->prompt_tok)
		buf_addf(b, ": %" PRIu64 " tokens in, %" PRIu64 " out", c->cell->prompt_tok,
		         c->cell->output_tok);
	buf_adds(b, ". Latency counts from the scheduled send time; ± is the instrument's own error.</p>\n");
}

static void add_sub(struct buf *b, const struct evidence *ev)
{
	const struct plan *p = ev->plan;
	const struct plan_candidate *c = plan_candidate_find(p, ev->candidate);
	buf_adds(b, "<p class=\"sub\">Candidate <b>");
	esc_n(b, ev->candidate[0] ? ev->candidate : "not told", 200);
	buf_adds(b, "</b>");
	if (c) {
		buf_addf(b, " · %s on %s", engine_kind_words[c->engine], backend_words[c->backend]);
		if (c->arch) {
			buf_adds(b, " ");
			esc_n(b, c->arch, 60);
		}
	}
	buf_adds(b, " · model ");
	esc_n(b, p->model.id ? p->model.id : "not told", 200);
	buf_adds(b, " · ");
	esc_n(b, ev->wall[0] ? ev->wall : "date not told", 40);
	buf_adds(b, "</p>\n");
}

void part_front(struct buf *b, const struct verdict *v)
{
	const struct plan *p = v->ev->plan;
	buf_adds(b, "<div class=\"front\">\n<div class=\"eyebrow\">proofmark acceptance report</div>\n<h1>");
	esc_n(b, p->title ? p->title : p->id, 400);
	buf_adds(b, "</h1>\n");
	add_sub(b, v->ev);
	add_banner(b, v);
	add_classes(b, v);
	add_figures(b, v);
	part_criteria(b, v);
	part_identity(b, v);
	buf_adds(b, "</div>\n");
}

static void add_id(struct buf *b, const char *key, const char *value, const char *cls)
{
	bool told = value && *value;
	buf_addf(b, "<div class=\"%s\"><dt>%s</dt><dd>", told ? cls : "", key);
	esc_n(b, told ? value : "not told", 400);
	buf_adds(b, "</dd></div>\n");
}

void part_identity(struct buf *b, const struct verdict *v)
{
	const struct evidence *ev = v->ev;
	const struct plan *p = ev->plan;
	char attempt[200], rules[24];
	snprintf(attempt, sizeof attempt, "%" PRIu64 "%s", ev->attempt,
	         ev->previous_attempt_sha256[0] ? ", chained to the one before"
	                                        : ", no earlier one is named");
	snprintf(rules, sizeof rules, "%" PRIu64, p->rules);
	section_open(b, "identity", "What this report is about", NULL);
	buf_adds(b, "<dl class=\"ids\">\n");
	add_id(b, "Plan", p->id, "");
	add_id(b, "Plan owner", p->owner, "");
	add_id(b, "Run", ev->run_id, "mono");
	add_id(b, "Attempt", ev->attempt ? attempt : NULL, "");
	add_id(b, "Statistics rules", rules, "");
	add_id(b, "Buyer's challenge", p->challenge ? p->challenge : "none in the plan", "");
	add_id(b, "Plan file, SHA-256", p->sha256, "wide mono");
	add_id(b, "Evidence root", ev->evidence_root[0] ? ev->evidence_root : NULL, "wide mono");
	buf_adds(b, "</dl>\n");
	section_close(b);
}
