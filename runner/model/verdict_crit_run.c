/* SPDX-License-Identifier: Apache-2.0 */
/* Criteria of the kinds count, peak, time and ratio. Work done > 0 is part of every pass. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"
#include "model/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- counts -----------------------------------------------------------------------------------------------
 */

static void count_controls(struct judge *j, struct crit_result *r)
{
	const struct evidence *ev = j->ev;
	const char *why = NULL, *which = NULL;
	for (size_t i = 0; i < j->v->n_controls; i++) {
		const struct control_result *c = &j->v->controls[i];
		r->n += c->n;
		r->t += c->n - c->n_passed;
		if (!why && c->first_failure[0]) {
			why = c->first_failure;
			which = c->control->id;
		}
	}
	if (!ev->plan->n_controls) {
		crit_say(r, STATE_NOT_TESTED, "the plan has no controls");
		return;
	}
	if (r->n)
		crit_compare(r, (double)r->t);
	if (r->state == STATE_FAIL && why)
		crit_say(r, STATE_FAIL,
		         "%" PRIu64 " of %" PRIu64 " answers not as expected; first %.70s: %.300s", r->t,
		         r->n, which, why);
	const char *gap = r->state == STATE_FAIL ? NULL : controls_gap(j);
	if (!r->n || gap)
		crit_say(r, STATE_INCONCLUSIVE, "%s", gap ? gap : "no control answer was judged");
}

static void count_foreign(struct judge *j, struct crit_result *r)
{
	bool asked = false;
	uint64_t canaries = 0;
	for (size_t i = 0; i < j->ev->plan->n_workloads; i++)
		asked |= j->ev->plan->workloads[i].canary_share > 0;
	for (size_t i = 0; i < j->v->n_cells; i++)
		canaries += j->v->cells[i].canaries.n;
	r->n = j->v->n_texts;
	r->t = j->v->n_foreign;
	if (!asked && !r->t) {
		crit_say(r, STATE_NOT_TESTED, "the plan asks for no canaries");
		return;
	}
	crit_compare(r, (double)r->t);
	if (!canaries && r->state == STATE_PASS)
		crit_say(r, STATE_INCONCLUSIVE, "no canary was sent");
}

static void count_completed(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	for (size_t i = 0; i < pick->n; i++) {
		r->n += j->v->cells[pick->cells[i]].n_completed;
		r->n_failed += cell_failures(&j->v->cells[pick->cells[i]]);
	}
	crit_compare(r, (double)r->n);
	if (!r->n && r->state == STATE_PASS)
		crit_say(r, STATE_INCONCLUSIVE, "no request completed");
}

static void count_length_mismatch(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		if (!c->cell->wl->force_output)
			continue;
		r->n += c->n_completed;
		r->t += c->n_length_mismatch;
		if (c->n_completed && c->output_tok == REC_NONE) {
			crit_say(r, STATE_NOT_TESTED,
			         "not measurable in %.120s: some answers came without a token count by the "
			         "server",
			         c->cell->id);
			return;
		}
	}
	if (r->n)
		crit_compare(r, (double)r->t);
	else
		crit_say(r, STATE_INCONCLUSIVE, "no request with a forced length completed");
}

void judge_count(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	const char *name = r->metric->name;
	if (strcmp(name, "controls_failed") == 0) {
		count_controls(j, r);
	} else if (strcmp(name, "foreign_nonces") == 0) {
		count_foreign(j, r);
	} else if (strcmp(name, "completed_requests") == 0) {
		count_completed(j, r, pick);
	} else if (strcmp(name, "output_length_mismatch") == 0) {
		count_length_mismatch(j, r, pick);
	} else if (strcmp(name, "engine_exits") == 0) {
		r->n = j->ev->n_starts;
		r->t = engine_deaths(j->ev);
		crit_compare(r, (double)r->t);
		if (r->state == STATE_PASS && strcmp(j->ev->status, "complete") != 0)
			crit_say(r, STATE_INCONCLUSIVE, "the run did not reach its end");
	} else {
		crit_say(r, STATE_NOT_TESTED, "this count is not computed yet");
	}
}

/* --- peaks ------------------------------------------------------------------------------------------------
 */

static const char *series_of_peak(const char *metric)
{
	static const struct {
		const char *metric, *series;
	} table[] = { { "engine_pss_peak", "engine_pss_bytes" },
		      { "engine_rss_peak", "engine_rss_bytes" },
		      { "host_used_peak", "host_used_bytes" } };
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].metric, metric) == 0)
			return table[i].series;
	return NULL;
}

void judge_peak(struct judge *j, struct crit_result *r)
{
	uint64_t known = 0, unknown = 0, under_load = 0;
	const char *series = series_of_peak(r->metric->name);
	if (!series) {
		crit_say(r, STATE_NOT_TESTED, "this series is not read yet");
		return;
	}
	double peak = telemetry_peak(j->ev, series, &known, &unknown, &under_load);
	r->n = known;
	if (!known) {
		crit_say(r, STATE_NOT_TESTED, "no reading of %s is known (%" PRIu64 " unknown)", series,
		         unknown);
		return;
	}
	if (!under_load) {
		r->value = crit_figure(r, peak);
		crit_say(r, STATE_NOT_TESTED, "no reading of %s is known while there was load", series);
		return;
	}
	crit_compare(r, peak);
	r->worst = r->value;
	if (r->state == STATE_PASS && strcmp(j->ev->status, "complete") != 0)
		crit_say(r, STATE_INCONCLUSIVE, "the run did not reach its end");
}

/* --- times ------------------------------------------------------------------------------------------------
 */

static const struct ev_start *start_before(const struct evidence *ev, uint64_t number)
{
	const struct ev_start *best = NULL;
	for (size_t i = 0; i < ev->n_starts; i++)
		if (ev->starts[i].number < number && (!best || ev->starts[i].number > best->number))
			best = &ev->starts[i];
	return best;
}

static uint64_t start_time(const struct evidence *ev, const struct ev_start *s)
{
	const struct ev_start *before = strcmp(s->why, "restart") == 0 ? start_before(ev, s->number) : NULL;
	uint64_t from = before && before->killed_ns != REC_NONE ? before->killed_ns : s->spawn_ns;
	return span_ns(from, s->first_completion_ns);
}

const char *time_of_starts(const struct evidence *ev, const char *why, uint64_t *n, bool *failed,
                           double *out_ns)
{
	double longest = (double)NAN;
	for (size_t i = 0; i < ev->n_starts; i++) {
		const struct ev_start *s = &ev->starts[i];
		if (strcmp(s->why, why) != 0)
			continue;
		++*n;
		if (s->first_completion_ns == REC_NONE) {
			*failed = true;
			return s->not_ready[0] ? s->not_ready : "the engine did not get ready";
		}
		uint64_t ns = start_time(ev, s);
		if (ns == REC_NONE)
			return "the engine was running already: nothing was spawned";
		longest = isnan(longest) || (double)ns > longest ? (double)ns : longest;
	}
	if (isnan(longest))
		return "the run has no such start";
	*out_ns = longest;
	return NULL;
}

static const char *why_of_metric(const char *metric)
{
	static const struct {
		const char *metric, *why;
	} table[] = { { "cold_start", "first" },
		      { "second_cold_start", "second_cold" },
		      { "restart", "restart" },
		      { "rollback", "rollback" } };
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].metric, metric) == 0)
			return table[i].why;
	return NULL;
}

void judge_time(struct judge *j, struct crit_result *r)
{
	const struct evidence *ev = j->ev;
	const char *why = why_of_metric(r->metric->name), *missing;
	bool failed = false, ratio = r->metric->kind == METRIC_RATIO;
	double value = (double)NAN, first = (double)NAN;
	if (ratio) {
		missing = time_of_starts(ev, "second_cold", &r->n, &failed, &value);
		if (!missing)
			missing = time_of_starts(ev, "first", &r->n, &failed, &first);
		value = first > 0 ? value / first : (double)NAN;
	} else if (why) {
		missing = time_of_starts(ev, why, &r->n, &failed, &value);
	} else {
		missing = "this time is not measured yet";
	}
	if (missing && ev->interrupted)
		crit_say(r, STATE_INCONCLUSIVE, "interrupted before it was measured");
	else if (missing)
		crit_say(r, failed ? STATE_FAIL : STATE_NOT_TESTED, "%.400s", missing);
	else
		crit_compare(r, value);
	r->worst = r->value;
}
