/* SPDX-License-Identifier: Apache-2.0 */
/* One criterion: which cells, whether it can be judged at all, then by kind. */
#include "model/verdict_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void crit_say(struct crit_result *r, enum crit_state state, const char *fmt, ...)
{
	char text[sizeof(r->reason)];
	struct err clean;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* one clean line: names from the plan may stand in it */
	(void)err_set(&clean, ERR_NONE, "%s", text);
	size_t len = strnlen(clean.msg, sizeof(r->reason) - 1);
	while (len && ((unsigned char)clean.msg[len] & 0xc0) == 0x80)
		len--;
	memcpy(r->reason, clean.msg, len);
	r->reason[len] = '\0';
	r->state = state;
}

/* --- limits and comparisons -------------------------------------------------------------------------------
 */

double crit_limit_base(const struct crit_result *r)
{
	const struct unit *u = unit_find(r->crit->limit_unit);
	return u ? r->crit->limit * u->to_base : (double)NAN;
}

struct figure crit_figure(const struct crit_result *r, double value_base)
{
	const struct unit *u = unit_find(r->crit->limit_unit);
	if (!u || !isfinite(value_base))
		return (struct figure){ .unit = u ? u->name : NULL };
	return (struct figure){ .known = true, .value = value_base / u->to_base, .unit = u->name };
}

bool comparator_upper(enum comparator cmp)
{
	return cmp == CMP_LE || cmp == CMP_LT;
}

bool comparator_holds(double value, enum comparator cmp, double limit)
{
	switch (cmp) {
	case CMP_LE:
		return value <= limit;
	case CMP_LT:
		return value < limit;
	case CMP_GE:
		return value >= limit;
	case CMP_GT:
		return value > limit;
	case CMP_EQ:
		return value <= limit && value >= limit;
	}
	return false;
}

void crit_compare(struct crit_result *r, double value_base)
{
	double limit = crit_limit_base(r);
	r->value = crit_figure(r, value_base);
	r->rule = "plain comparison";
	if (!r->value.known || isnan(limit)) {
		crit_say(r, STATE_NOT_TESTED, "the figure is not known");
		return;
	}
	bool holds = comparator_holds(value_base, r->crit->cmp, limit);
	crit_say(r, holds ? STATE_PASS : STATE_FAIL, "%.6g %s %s the limit of %s %.6g %s", r->value.value,
	         r->value.unit, holds ? "keeps" : "breaks", comparator_words[r->crit->cmp], r->crit->limit,
	         r->value.unit);
}

/* --- where ------------------------------------------------------------------------------------------------
 */

static const struct plan_workload *workload_named(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_workloads; i++)
		if (strcmp(p->workloads[i].name, name) == 0)
			return &p->workloads[i];
	return NULL;
}

const struct plan_workload *workload_of_criterion(const struct evidence *ev, const struct plan_criterion *c,
                                                  const struct metric *m)
{
	if (!m || !m->needs_cell)
		return NULL;
	return c->where.workload ? workload_named(ev->plan, c->where.workload) : plan_critical(ev->plan);
}

static uint64_t largest(const uint64_t *v, size_t n)
{
	uint64_t max = 0;
	for (size_t i = 0; i < n; i++)
		max = v[i] > max ? v[i] : max;
	return max;
}

static bool cell_matches(const struct cell *c, const struct plan_where *w)
{
	const struct plan_workload *wl = c->wl;
	if (w->all_cells)
		return true;
	uint64_t prompt = w->prompt_tok             ? w->prompt_tok
	                  : wl->critical_prompt_tok ? wl->critical_prompt_tok
	                                            : largest(wl->prompt_tok, wl->n_prompt_tok),
		 conc = w->concurrency             ? w->concurrency
	                : wl->critical_concurrency ? wl->critical_concurrency
	                                           : largest(wl->concurrency, wl->n_concurrency);
	double rate = w->rate_rps > 0 ? w->rate_rps : wl->critical_rate_rps;
	bool rate_matches = !wl->arrival.n_rates || (c->rate_rps >= rate && c->rate_rps <= rate);
	return c->prompt_tok == prompt && c->concurrency == conc && rate_matches;
}

struct cell_pick cells_of_criterion(struct judge *j, const struct plan_criterion *c, const struct metric *m)
{
	const struct evidence *ev = j->ev;
	const struct plan_workload *wl = workload_of_criterion(ev, c, m);
	struct cell_pick pick = { .cells = calloc(ev->n_cells + 1, sizeof(size_t)) };
	if (!pick.cells) {
		j->no_memory = true;
		return pick;
	}
	for (size_t i = 0; i < ev->n_cells; i++) {
		const struct cell *cell = &ev->cells[i];
		if (!m->needs_cell || (cell->wl == wl && cell_matches(cell, &c->where)))
			pick.cells[pick.n++] = i;
	}
	return pick;
}

static void name_where(struct crit_result *r, const struct evidence *ev, const struct cell_pick *pick)
{
	const struct plan_workload *wl = workload_of_criterion(ev, r->crit, r->metric);
	if (r->metric && r->metric->needs_cell && pick->n == 1)
		snprintf(r->where, sizeof(r->where), "%s", ev->cells[pick->cells[0]].id);
	else if (wl)
		snprintf(r->where, sizeof(r->where), "all cells of %.120s", wl->name);
	else
		snprintf(r->where, sizeof(r->where), "run");
}

/* --- can it be judged -------------------------------------------------------------------------------------
 */

uint64_t engine_deaths(const struct evidence *ev)
{
	uint64_t n = 0;
	for (size_t i = 0; i < ev->n_starts; i++)
		n += ev->starts[i].exited && !ev->starts[i].exit_expected &&
		     ev->starts[i].first_completion_ns != REC_NONE;
	return n;
}

static void say_not_run(struct judge *j, struct crit_result *r, const struct cell *c, const char *left_out)
{
	const struct evidence *ev = j->ev;
	const char *cell = c->id;
	if (c->wl->cls == CLASS_TRAINING)
		crit_say(r, STATE_NOT_TESTED, "cell %s was not run: training jobs are not executed yet",
		         cell);
	else if (left_out)
		crit_say(r, STATE_NOT_TESTED, "cell %s was not run: %s", cell, left_out);
	else if (engine_deaths(ev))
		crit_say(r, STATE_NOT_TESTED, "cell %s was not run: the engine died before it", cell);
	else if (ev->interrupted)
		crit_say(r, STATE_INCONCLUSIVE, "cell %s was not run: interrupted before it", cell);
	else if (strcmp(ev->status, "complete") == 0)
		crit_say(r, STATE_INVALID, "the run has no cell %s", cell);
	else
		crit_say(r, STATE_ERROR, "cell %s was not run: the run ended before it", cell);
}

/* False (and said) when a picked cell cannot carry a judgement. Cells that broke off are judged, and
 * corrected afterwards. */
static bool cells_can_be_judged(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	if (!pick->n) {
		crit_say(r, STATE_INVALID, "the plan has no such cell");
		return false;
	}
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		enum whole whole = cell_whole(j, pick->cells[i]);
		if (whole == CELL_NOT_RUN) {
			say_not_run(j, r, c->cell, c->st->left_out);
			return false;
		}
		if (!c->valid && whole == CELL_WHOLE) {
			crit_say(r, STATE_INVALID, "%.100s: %.300s", c->cell->id, c->invalid_reason);
			return false;
		}
	}
	return true;
}

/* A cell that broke off can show a fail, never a pass. */
static void correct_for_broken_cells(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		switch (cell_whole(j, pick->cells[i])) {
		case CELL_DIED:
			crit_say(r, STATE_FAIL,
			         "the engine died under load in cell %.120s: %" PRIu64 " of %" PRIu64
			         " requests completed",
			         c->cell->id, c->n_completed,
			         c->cell->requests ? c->cell->requests : c->n_scheduled);
			return;
		case CELL_STOPPED:
			if (r->state != STATE_FAIL)
				crit_say(r, STATE_INCONCLUSIVE,
				         "cell %.120s was stopped before its end (%" PRIu64
				         " completed, %" PRIu64 " cancelled)",
				         c->cell->id, c->n_completed, c->n_cancelled);
			break;
		case CELL_CUT:
			if (r->state != STATE_FAIL)
				crit_say(r, STATE_ERROR, "cell %.120s was cut off (%s)", c->cell->id,
				         c->st->stopped_by[0] ? c->st->stopped_by : "no end in the journal");
			break;
		case CELL_NOT_RUN:
		case CELL_WHOLE:
			break;
		}
	}
}

static bool by_cells(const struct metric *m)
{
	return m->needs_cell || strcmp(m->name, "completed_requests") == 0 ||
	       strcmp(m->name, "output_length_mismatch") == 0;
}

static void judge_by_kind(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	switch (r->metric->kind) {
	case METRIC_LATENCY:
		judge_latency(j, r, pick);
		break;
	case METRIC_RATE:
		judge_rate(j, r, pick);
		break;
	case METRIC_SHARE:
		judge_share(j, r, pick);
		break;
	case METRIC_COUNT:
		judge_count(j, r, pick);
		break;
	case METRIC_PEAK:
		judge_peak(j, r);
		break;
	case METRIC_TIME:
	case METRIC_RATIO:
		judge_time(j, r);
		break;
	case METRIC_LATER:
		break;
	}
}

bool nothing_was_started(const struct evidence *ev)
{
	return !ev->n_starts && !ev->error[0] && strcmp(ev->status, "complete") == 0;
}

/* False (and said) when nothing of this run can be judged by this criterion. */
static bool run_can_be_judged(struct judge *j, struct crit_result *r)
{
	const struct evidence *ev = j->ev;
	const struct unit *u = unit_find(r->crit->limit_unit);
	if (!r->metric)
		crit_say(r, STATE_NOT_TESTED, "no metric of that name: %.64s", r->crit->metric);
	else if (r->metric->kind == METRIC_LATER)
		crit_say(r, STATE_NOT_TESTED, "%s", r->metric->later);
	else if (!u || u->dim != r->metric->dim || !isfinite(r->crit->limit))
		crit_say(r, STATE_NOT_TESTED, "the limit has no unit of this metric");
	else if (ev->n_differences)
		crit_say(r, STATE_BLOCKED, "not as locked: %.400s", ev->differences[0]);
	else if (ev->engine_never_ready && ev->interrupted)
		crit_say(r, STATE_INCONCLUSIVE, "interrupted before the engine was ready");
	else if (nothing_was_started(ev))
		crit_say(r, STATE_NOT_TESTED, "no engine was started%s%.400s", ev->n_not_tested ? ": " : "",
		         ev->n_not_tested ? ev->not_tested[0] : "");
	else if (ev->engine_never_ready)
		crit_say(r, STATE_ERROR, "the engine never got ready%s%.400s", ev->error[0] ? ": " : "",
		         ev->error);
	else if (!ev->n_starts)
		crit_say(r, STATE_ERROR, "the journal tells of no engine");
	else
		return true;
	return false;
}

void judge_criterion(struct judge *j, struct crit_result *r)
{
	struct cell_pick pick = { 0 };
	r->metric = metric_find(r->crit->metric);
	r->p_pass = r->p_fail = (double)NAN;
	r->rule = "none";
	r->limit = crit_figure(r, crit_limit_base(r));
	r->value.unit = r->bound.unit = r->worst.unit = r->limit.unit;
	if (r->metric)
		pick = cells_of_criterion(j, r->crit, r->metric);
	if (!j->no_memory)
		name_where(r, j->ev, &pick);
	if (!j->no_memory && run_can_be_judged(j, r) &&
	    (!by_cells(r->metric) || cells_can_be_judged(j, r, &pick))) {
		judge_by_kind(j, r, &pick);
		if (by_cells(r->metric))
			correct_for_broken_cells(j, r, &pick);
	}
	free(pick.cells);
}
