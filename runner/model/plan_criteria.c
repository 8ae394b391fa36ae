/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of the criteria: does the metric exist, is there a cell to judge, has the limit the right unit, and
 * can enough requests be there for the statistic that is asked. */
#include "model/metric.h"
#include "model/plan_parts.h"
#include "model/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ERROR(at, ...) problem_add(out, PROBLEM_ERROR, at, __VA_ARGS__)
#define WARN(at, ...) problem_add(out, PROBLEM_WARNING, at, __VA_ARGS__)

struct judged {
	const struct plan_workload *wl; /* NULL = none named and no critical one */
	bool exists;                    /* the cell is one of the plan's */
	bool critical;                  /* it is, or holds, the critical cell */
	bool by_duration;
	uint64_t n;         /* requests planned; for itl the gaps in their answers */
	const char *things; /* "requests", "gaps" or "canaries" */
};

/* --- names and words ---------------------------------------------------------------------------------------
 */

static void say_metrics(const char *got, const char *at, struct problems *out)
{
	const char *names[64];
	size_t n = 0;

	for (const struct metric *m = metrics; m->name && n < ARRAY_LEN(names) - 1; m++)
		names[n++] = m->name;
	names[n] = NULL;
	const char *near = near_match(got, names);
	if (near)
		ERROR(at, "no metric has the name \"%.64s\" (did you mean \"%s\"?)", got, near);
	else
		ERROR(at, "no metric has the name \"%.64s\"; proofmark-plan(5) lists them", got);
}

static void lint_statistic(const struct plan_criterion *c, const struct metric *m, const char *at,
                           struct problems *out)
{
	char list[256] = "", deep[PLAN_POINTER_BYTES];
	size_t used = 0;

	for (size_t i = 0; m->statistics[i]; i++) {
		if (strcmp(m->statistics[i], c->statistic) == 0)
			return;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
		                         m->statistics[i]);
	}
	snprintf(deep, sizeof(deep), "%s/statistic", at);
	const char *near = near_match(c->statistic, m->statistics);
	ERROR(deep, "\"%.32s\" is no statistic of \"%s\": want one of %s%s%s%s", c->statistic, m->name, list,
	      near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

static void lint_unit(const struct plan_criterion *c, const struct metric *m, const char *at,
                      struct problems *out)
{
	char list[128] = "", deep[PLAN_POINTER_BYTES];
	size_t used = 0;
	const struct unit *u = c->limit_unit ? unit_find(c->limit_unit) : NULL;

	if (u && u->dim == m->dim)
		return;
	for (const struct unit *k = units; k->name; k++)
		if (k->dim == m->dim)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
			                         k->name);
	snprintf(deep, sizeof(deep), "%s/limit%s", at, c->limit_unit ? "/unit" : "");
	if (!c->limit_unit)
		ERROR(deep, "a limit without 'unit' is no limit: want one of %s", list);
	else
		ERROR(deep, "\"%.32s\" is no unit of \"%s\": want one of %s", c->limit_unit, m->name, list);
}

static void lint_limit(const struct plan_criterion *c, const struct metric *m, const char *at,
                       struct problems *out)
{
	bool upper = c->cmp == CMP_LE || c->cmp == CMP_LT, lower = c->cmp == CMP_GE || c->cmp == CMP_GT;
	const struct unit *u = c->limit_unit ? unit_find(c->limit_unit) : NULL;
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/limit/value", at);
	if ((m->higher_is_better && upper) || (!m->higher_is_better && lower))
		WARN(at, "'comparator' \"%s\" is against the direction of \"%s\" (%s is better)",
		     comparator_words[c->cmp], m->name, m->higher_is_better ? "more" : "less");
	if (c->cmp == CMP_EQ && m->dim != DIM_COUNT)
		WARN(at, "'comparator' \"==\" on a measured figure is hardly ever met");
	if (c->limit < 0 && m->dim != DIM_BYTE_RATE)
		ERROR(deep, "%g is below 0: \"%s\" never is", c->limit, m->name);
	else if (c->limit <= 0 && upper && m->dim != DIM_COUNT && m->dim != DIM_SHARE &&
	         m->dim != DIM_BYTE_RATE)
		ERROR(deep, "%g can never be reached by \"%s\"", c->limit, m->name);
	if (c->limit <= 0 && c->cmp == CMP_LT && m->dim == DIM_COUNT)
		ERROR(deep, "a count below 0 can never be reached: want \"<=\"");
	if (u && m->dim == DIM_SHARE && c->limit * u->to_base > 1)
		ERROR(deep, "%g %s is more than the whole", c->limit, u->name);
}

/* --- the cell
 * ------------------------------------------------------------------------------------------------ */

static const struct plan_workload *workload_named(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_workloads; i++)
		if (strcmp(p->workloads[i].name, name) == 0)
			return &p->workloads[i];
	return NULL;
}

static void say_workloads(const struct plan *p, const char *got, const char *at, struct problems *out)
{
	const char *names[65];
	char list[512] = "", deep[PLAN_POINTER_BYTES];
	size_t n = 0, used = 0;

	for (; n < p->n_workloads && n < 64; n++) {
		names[n] = p->workloads[n].name;
		if (used + 72 < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s\"%s\"", n ? ", " : "",
			                         names[n]);
	}
	names[n] = NULL;
	const char *near = near_match(got, names);
	snprintf(deep, sizeof(deep), "%s/where/workload", at);
	ERROR(deep, "no workload has the name \"%.64s\": want one of %s%s%s%s", got, list,
	      near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

/* The shortest answer of the workload, so that no more gaps are counted than there are. */
static uint64_t least_output_tok(const struct plan_workload *w)
{
	uint64_t least = w->output_tok;

	for (size_t i = 0; i < w->n_mix; i++)
		if (least == 0 || w->mix[i].output_tok < least)
			least = w->mix[i].output_tok;
	return least;
}

static void take_cell(struct judged *j, const struct cell *cell)
{
	j->exists = true;
	j->critical |= cell->critical;
	j->by_duration |= cell->requests == 0 || cell->wl->arrival.kind == ARRIVAL_TRACE;
	j->n += cell->requests;
}

static bool is_rate(const struct cell *cell, double rate_rps)
{
	return rate_rps <= 0 || (cell->rate_rps >= rate_rps && cell->rate_rps <= rate_rps);
}

static bool is_judged(const struct cell *cell, const struct plan_where *w)
{
	const struct plan_workload *wl = cell->wl;

	return w->all_cells ||
	       (cell->prompt_tok == (w->prompt_tok ? w->prompt_tok : wl->critical_prompt_tok) &&
	        cell->concurrency == (w->concurrency ? w->concurrency : wl->critical_concurrency) &&
	        is_rate(cell, w->rate_rps > 0 ? w->rate_rps : wl->critical_rate_rps));
}

/* The cells a criterion is about; the same defaults as the verdict's. */
static struct judged find_judged(const struct plan *p, const struct plan_criterion *c,
                                 const struct cell *cells, size_t n_cells)
{
	struct judged j = { .things = "requests",
		            .wl = c->where.workload ? workload_named(p, c->where.workload)
		                                    : plan_critical(p) };

	if (!j.wl)
		return j;
	for (size_t i = 0; i < n_cells; i++)
		if (cells[i].wl == j.wl && is_judged(&cells[i], &c->where))
			take_cell(&j, &cells[i]);
	if (strcmp(c->metric, "itl") == 0) {
		j.things = "gaps";
		j.n *= least_output_tok(j.wl) ? least_output_tok(j.wl) - 1 : 0;
	}
	if (strcmp(c->metric, "canary_failed_share") == 0 && j.wl->canary_share > 0) {
		j.things = "canaries"; /* so many on average */
		j.n = (uint64_t)((double)j.n * j.wl->canary_share);
	}
	if (j.wl->cls == CLASS_TRAINING) {
		j.exists = true;
		j.critical = j.wl->critical;
	}
	return j;
}

static void say_no_cell(const struct plan_where *w, const struct plan_workload *wl, const char *at,
                        struct problems *out)
{
	uint64_t prompt_tok = w->prompt_tok ? w->prompt_tok : wl->critical_prompt_tok;
	uint64_t concurrency = w->concurrency ? w->concurrency : wl->critical_concurrency;
	char rate[48] = "";

	if (w->rate_rps > 0)
		snprintf(rate, sizeof(rate), " and rate_rps %.9g", w->rate_rps);
	if (w->prompt_tok && (wl->n_mix || wl->arrival.kind == ARRIVAL_TRACE))
		ERROR(at,
		      "workload \"%s\" has no cell with a prompt_tok of its own: its %s gives the lengths",
		      wl->name, wl->n_mix ? "mix" : "trace");
	else
		ERROR(at,
		      "workload \"%s\" has no cell with prompt_tok %" PRIu64 " and concurrency %" PRIu64
		      "%s: take them from its lists",
		      wl->name, prompt_tok, concurrency, rate);
}

static void lint_where(const struct plan *p, const struct plan_criterion *c, const struct metric *m,
                       const struct judged *j, const char *at, struct problems *out)
{
	const struct plan_where *w = &c->where;
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/where", at);
	if (w->workload && !j->wl) {
		say_workloads(p, w->workload, at, out);
		return;
	}
	if (w->all_cells && (w->prompt_tok || w->concurrency || w->rate_rps > 0))
		ERROR(deep,
		      "\"cells\": \"all\" and one 'prompt_tok', 'concurrency' or 'rate_rps' contradict each "
		      "other");
	else if (m->needs_cell && j->wl && j->wl->cls == CLASS_TRAINING)
		ERROR(deep, "\"%s\" is about requests, and workload \"%s\" sends none", m->name, j->wl->name);
	else if (m->needs_cell && j->wl && !j->exists)
		say_no_cell(w, j->wl, deep, out);
	else if (!m->needs_cell && m->kind != METRIC_LATER &&
	         (w->workload || w->prompt_tok || w->concurrency || w->rate_rps > 0 || w->all_cells))
		WARN(deep, "\"%s\" is a figure of the whole run: 'where' changes nothing", m->name);
}

/* --- enough requests
 * ------------------------------------------------------------------------------------------ */

static void lint_quantile_n(const struct plan_criterion *c, const struct judged *j, const char *at,
                            struct problems *out)
{
	unsigned num, den;
	char looks[48] = "";

	if (!statistic_quantile(c->statistic, &num, &den))
		return;
	double confidence = stat_look_confidence(c->confidence, j->wl->looks);
	uint64_t need = stat_n_min(0, num, den, confidence);
	if (j->wl->looks > 1)
		snprintf(looks, sizeof(looks), " with %" PRIu64 " looks", j->wl->looks);
	if (j->by_duration)
		WARN(at,
		     "%s at confidence %g%s needs %" PRIu64
		     " %s; a cell that runs by 'duration_s' or a trace may end with fewer",
		     c->statistic, c->confidence, looks, need, j->things);
	else if (j->n < need)
		ERROR(at,
		      "%s at confidence %g%s needs %" PRIu64
		      " %s even when all are in time, the plan gives %" PRIu64,
		      c->statistic, c->confidence, looks, need, j->things, j->n);
}

/* Smallest n at which 0 of n shows a share of at most `limit`; STAT_NONE = more than 10^7. */
static uint64_t share_n_min(double limit, double confidence)
{
	uint64_t lo = 0, hi = 10000000;

	if (stat_share_gate(hi, 0, limit, confidence, NULL) != TAIL_PASS)
		return STAT_NONE;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (stat_share_gate(mid, 0, limit, confidence, NULL) == TAIL_PASS)
			hi = mid;
		else
			lo = mid;
	}
	return hi;
}

static void lint_share_n(const struct plan_criterion *c, const struct judged *j, const char *at,
                         struct problems *out)
{
	const struct unit *u = c->limit_unit ? unit_find(c->limit_unit) : NULL;

	if (!u || u->dim != DIM_SHARE || (c->cmp != CMP_LE && c->cmp != CMP_LT) || j->by_duration)
		return;
	double limit = c->limit * u->to_base, confidence = stat_look_confidence(c->confidence, j->wl->looks);
	if (limit < 0 || limit > 1)
		return;
	if (limit <= 0) {
		ERROR(at,
		      "no number of requests shows a share of 0: want a limit above 0 (%" PRIu64
		      " %s without a failure show %.3g)",
		      j->n, j->things, stat_cp_upper(j->n, 0, confidence));
		return;
	}
	uint64_t need = share_n_min(limit, confidence);
	if (need == STAT_NONE)
		ERROR(at, "a share of %g cannot be shown with any number of requests that a cell may have",
		      limit);
	else if (j->n < need)
		ERROR(at,
		      "a share of at most %g at confidence %g needs %" PRIu64
		      " %s even without a failure, the plan sends %" PRIu64,
		      limit, c->confidence, need, j->things, j->n);
}

/* --- one criterion, and all of them
 * ---------------------------------------------------------------------------- */

static bool has_canaries(const struct plan *p)
{
	for (size_t i = 0; i < p->n_workloads; i++)
		if (p->workloads[i].canary_share > 0)
			return true;
	return false;
}

static void lint_sources(const struct plan *p, const struct metric *m, const char *at, struct problems *out)
{
	if (m->kind == METRIC_LATER)
		WARN(at, "\"%s\" comes out not_tested: %s", m->name, m->later);
	if (strcmp(m->name, "controls_failed") == 0 && p->n_controls == 0)
		ERROR(at, "\"controls_failed\" without controls: nothing would be counted");
	if (strcmp(m->name, "foreign_nonces") == 0 && !has_canaries(p))
		ERROR(at, "\"foreign_nonces\" and no workload with 'canary_share': nothing would be counted");
	if (strcmp(m->name, "restart") == 0 && !p->recovery.restart)
		ERROR(at, "\"restart\" is not measured: want 'restart' in /recovery");
	if (strcmp(m->name, "rollback") == 0 && !p->recovery.rollback)
		ERROR(at, "\"rollback\" is not measured: want 'rollback' in /recovery");
	if (strstr(m->name, "second") && !p->recovery.second_cold_start)
		ERROR(at, "\"%s\" is not measured: want 'second_cold_start' in /recovery", m->name);
}

/* Metrics that a workload has only with a setting of its own. */
static void lint_ability(const struct plan_workload *w, const struct metric *m, const char *at,
                         struct problems *out)
{
	static const char *const streamed[] = { "ttft",          "ttft_content", "itl", "tpot",
		                                "prefill_tok_s", "decode_tok_s", NULL };
	bool open = w->arrival.kind != ARRIVAL_CLOSED;

	for (size_t i = 0; !w->stream && streamed[i]; i++)
		if (strcmp(m->name, streamed[i]) == 0)
			ERROR(at,
			      "\"%s\" of workload \"%s\" is not measurable: 'stream' is false, only the end "
			      "of "
			      "an answer has a time",
			      m->name, w->name);
	if (strcmp(m->name, "canary_failed_share") == 0 && w->canary_share <= 0)
		ERROR(at, "\"%s\" of workload \"%s\", which has no 'canary_share': nothing would be counted",
		      m->name, w->name);
	if (strcmp(m->name, "suspicious_answer_share") == 0 && !w->text_counters)
		ERROR(at,
		      "\"%s\" of workload \"%s\", whose 'text_counters' is false: nothing would be counted",
		      m->name, w->name);
	if (strcmp(m->name, "spacing_error") == 0 && !open)
		ERROR(at, "\"%s\" of workload \"%s\": a closed loop has no spacing of its own", m->name,
		      w->name);
	if (strcmp(m->name, "retried_share") == 0 && w->retry.max == 0)
		WARN(at, "\"%s\" of workload \"%s\", which has no 'retry': always 0", m->name, w->name);
}

static bool judges_critical(const struct metric *m, const struct judged *j)
{
	bool trains = j->wl && j->wl->cls == CLASS_TRAINING && m->kind == METRIC_LATER;

	return (m->needs_cell || trains) && !m->functional && j->exists && j->critical;
}

/* True when it judges the critical cell's performance. */
static bool lint_criterion(const struct plan *p, size_t i, const struct cell *cells, size_t n_cells,
                           struct problems *out)
{
	const struct plan_criterion *c = &p->criteria[i];
	const struct metric *m = metric_find(c->metric);
	char at[64], deep[80];

	snprintf(at, sizeof(at), "/criteria/%zu", i);
	for (size_t k = 0; k < i; k++)
		if (strcmp(c->id, p->criteria[k].id) == 0)
			ERROR(at, "id \"%s\" is taken by /criteria/%zu", c->id, k);
	if (!m) {
		snprintf(deep, sizeof(deep), "%s/metric", at);
		say_metrics(c->metric, deep, out);
		return false;
	}
	struct judged j = find_judged(p, c, cells, n_cells);
	lint_statistic(c, m, at, out);
	lint_unit(c, m, at, out);
	lint_limit(c, m, at, out);
	lint_where(p, c, m, &j, at, out);
	if (m->kind == METRIC_LATENCY && j.exists && j.wl->cls != CLASS_TRAINING)
		lint_quantile_n(c, &j, at, out);
	if (m->kind == METRIC_SHARE && j.exists && j.wl->cls != CLASS_TRAINING)
		lint_share_n(c, &j, at, out);
	lint_sources(p, m, at, out);
	if (m->needs_cell && j.wl && j.wl->cls != CLASS_TRAINING)
		lint_ability(j.wl, m, at, out);
	return judges_critical(m, &j) && c->severity == SEVERITY_MUST;
}

static bool judges_memory(const struct plan *p)
{
	for (size_t i = 0; i < p->n_criteria; i++) {
		const struct metric *m = metric_find(p->criteria[i].metric);
		if (m && m->dim == DIM_BYTES)
			return true;
	}
	return false;
}

void plan_lint_criteria(const struct plan *p, struct problems *out)
{
	size_t n_cells = 0;
	bool critical = false;
	auto_free struct cell *cells = cells_of_plan(p, &n_cells);

	if (!cells) {
		ERROR("/workloads", "no memory for the list of cells");
		return;
	}
	for (size_t i = 0; i < p->n_criteria; i++)
		critical |= lint_criterion(p, i, cells, n_cells, out);
	if (!critical && plan_critical(p))
		ERROR("/criteria",
		      "no criterion of severity \"must\" judges the speed or latency of the critical cell of "
		      "workload \"%s\"",
		      plan_critical(p)->name);
	if (!judges_memory(p))
		WARN("/criteria", "no criterion on memory: want one at the longest request and the highest "
		                  "concurrency");
}
