// SPDX-License-Identifier: Apache-2.0
// All criteria in the plan's sentences: those that are not met first.
#include "report/report_parts.h"

#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct group {
	const char *title;
	enum crit_state states[4];
	size_t n_states;
	bool waived;
} groups[] = {
	{ "Not met", { STATE_FAIL }, 1, false },
	{ "Not met, covered by a waiver", { STATE_FAIL }, 1, true },
	{ "Could not be measured, or not soundly", { STATE_INVALID, STATE_ERROR, STATE_BLOCKED }, 3, false },
	{ "Not decided", { STATE_INCONCLUSIVE }, 1, false },
	{ "Not tested", { STATE_NOT_TESTED }, 1, false },
	{ "Met", { STATE_PASS }, 1, false },
	{ "Not applicable", { STATE_NOT_APPLICABLE }, 1, false },
};

static bool in_group(const struct crit_result *r, const struct group *g)
{
	bool waived = r->state == STATE_FAIL && r->waiver;
	for (size_t i = 0; i < g->n_states; i++)
		if (r->state == g->states[i] && waived == g->waived)
			return true;
	return false;
}

// "p99" is said, the only figure a count has is not.
static const char *statistic_says(const char *statistic)
{
	static const char *const silent[] = { "value", "count", "share" };
	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		if (!strcmp(statistic, silent[i]))
			return "";
	return statistic;
}

static void add_fine(struct buf *b, const struct crit_result *r)
{
	const char *statistic = r->crit->statistic ? statistic_says(r->crit->statistic) : "";
	buf_adds(b, "<span class=\"fine\">");
	esc_n(b, r->crit->id, 80);
	buf_adds(b, " · ");
	esc_n(b, r->crit->metric, 60);
	if (*statistic) {
		buf_adds(b, " ");
		esc_n(b, statistic, 20);
	}
	buf_adds(b, " · ");
	esc_n(b, r->where[0] ? r->where : "run", 160);
	if (r->crit->severity != SEVERITY_MUST)
		buf_addf(b, " · %s, does not decide", severity_words[r->crit->severity]);
	if (r->rule && r->rule[0] && strcmp(r->rule, "none")) {
		buf_adds(b, " · ");
		esc_n(b, r->rule, 120);
		if (!isnan(r->p_pass) || r->bound.known)
			buf_addf(b, ", %s %%", fmt_num(r->crit->confidence * 100).s);
	}
	if (r->n_eff > 0 && r->n_eff < (double)r->n * .95)
		buf_addf(b, " · n_eff %s", fmt_num(r->n_eff).s);
	buf_adds(b, "</span>");
}

static struct fmt heading(enum crit_state state, bool waived)
{
	struct fmt f;
	snprintf(f.s, sizeof f.s, "%s", state_says(state));
	if (!waived && f.s[0] >= 'a' && f.s[0] <= 'z')
		f.s[0] = (char)(f.s[0] - 'a' + 'A');
	return f;
}

static void add_waiver(struct buf *b, const struct plan_waiver *w)
{
	buf_adds(b, "<span class=\"reason\">Waived by ");
	esc_n(b, w->owner, 120);
	buf_adds(b, " until ");
	esc_n(b, w->expires, 40);
	buf_adds(b, ": ");
	esc_n(b, w->reason, 400);
	buf_adds(b, "</span>");
}

static void add_n(struct buf *b, const struct crit_result *r)
{
	if (!r->n) {
		td_num(b, "–");
		return;
	}
	buf_adds(b, "<td class=\"n\">");
	buf_adds(b, fmt_count(r->n).s);
	bool counted = r->metric && (r->metric->kind == METRIC_LATENCY || r->metric->kind == METRIC_SHARE);
	if (counted && !(r->metric->kind == METRIC_LATENCY && isnan(r->p_pass)))
		buf_addf(b, "<small>%s %s</small>", fmt_count(r->t).s,
		         r->metric->kind == METRIC_SHARE                    ? "failed"
		         : r->crit->cmp == CMP_GE || r->crit->cmp == CMP_GT ? "under"
		                                                            : "over");
	if (r->n_more && r->state == STATE_INCONCLUSIVE)
		buf_addf(b, "<small>%s more needed</small>", fmt_count(r->n_more).s);
	buf_adds(b, "</td>");
}

static void add_row(struct buf *b, const struct crit_result *r)
{
	bool waived = r->state == STATE_FAIL && r->waiver;
	buf_addf(b, "<tr><td class=\"mark %s\">", state_class(r->state, waived));
	add_icon(b, state_icon(r->state, waived));
	buf_adds(b, "</td><td class=\"say\"><span class=\"sentence\">");
	esc_n(b, r->crit->sentence ? r->crit->sentence : r->crit->id, 600);
	buf_addf(b, "</span><span class=\"reason\"><b class=\"%s\">%s%s.</b> ", state_class(r->state, waived),
	         waived ? "Waived " : "", heading(r->state, waived).s);
	esc_n(b, r->reason, 600);
	buf_adds(b, "</span>");
	if (waived)
		add_waiver(b, r->waiver);
	add_fine(b, r);
	buf_adds(b, "</td><td class=\"n\"><span class=\"value\">");
	bool among_failed = !r->value.known && r->n_failed && r->metric && r->metric->kind == METRIC_LATENCY;
	esc(b, among_failed ? "no value" : fmt_figure(&r->value).s);
	buf_adds(b, "</span>");
	if (among_failed)
		buf_adds(b, "<small>failed requests reach it</small>");
	if (r->worst.known) {
		buf_adds(b, "<small>worst ");
		esc(b, fmt_figure(&r->worst).s);
		buf_adds(b, "</small>");
	}
	buf_adds(b, "</td>");
	bool tail = r->metric && r->metric->kind == METRIC_LATENCY && !isnan(r->p_pass);
	td_num(b, !r->bound.known && tail ? "not estimable" : fmt_figure(&r->bound).s);
	td_num(b, fmt_limit(r).s);
	add_n(b, r);
	buf_adds(b, "</tr>\n");
}

static void add_group(struct buf *b, const struct verdict *v, const struct group *g)
{
	size_t n = 0;
	for (size_t i = 0; i < v->n_criteria; i++)
		n += in_group(&v->criteria[i], g);
	if (!n)
		return;
	buf_addf(b,
	         "<tr class=\"group\"><th colspan=\"6\" class=\"%s\" scope=\"rowgroup\">%s (%zu)</th></tr>\n",
	         state_class(g->states[0], g->waived), g->title, n);
	for (size_t i = 0; i < v->n_criteria; i++)
		if (in_group(&v->criteria[i], g))
			add_row(b, &v->criteria[i]);
}

void part_criteria(struct buf *b, const struct verdict *v)
{
	section_open(b, "criteria", "Criteria",
	             "As fixed in the plan before the run. The bound is the confidence bound on the side of "
	             "the limit; "
	             "failed requests count as over every limit.");
	if (!v->n_criteria) {
		note(b, "The plan has no criteria, so nothing can be accepted.");
		section_close(b);
		return;
	}
	buf_adds(b, "<div class=\"scroll\"><table class=\"criteria\"><thead><tr><th></th><th>Criterion</th>"
	            "<th class=\"n\">Measured</th><th class=\"n\">Bound</th><th class=\"n\">Limit</th>"
	            "<th class=\"n\">n</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		add_group(b, v, &groups[i]);
	buf_adds(b, "</tbody></table></div>\n");
	section_close(b);
}
