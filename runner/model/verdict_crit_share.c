/* SPDX-License-Identifier: Apache-2.0 */
/* Criteria of the kinds share and rate. Work done > 0 is part of every pass, and a cell without a success is
 * a fail, not an unknown. */
#include "model/verdict_parts.h"

#include "model/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct cell_result *cell_without_success(const struct judge *j, const struct cell_pick *pick)
{
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		if (!c->n_completed && cell_failures(c))
			return c;
	}
	return NULL;
}

void say_no_success(struct crit_result *r, const struct cell_result *c)
{
	size_t most = OUTCOME_HTTP_STATUS;
	for (size_t k = 0; k < N_OUTCOMES; k++)
		if (outcome_failed((enum outcome)k) && c->n_outcome[k] > c->n_outcome[most])
			most = k;
	r->n = r->t = r->n_failed = cell_failures(c);
	crit_say(r, STATE_FAIL, "no request completed in %.120s: %" PRIu64 " failed, most of them by %s",
	         c->cell->id, cell_failures(c), outcome_words[most]);
}

/* --- share ------------------------------------------------------------------------------------------------
 */

struct share { /* x of n in one cell */
	uint64_t x, n;
};

static struct share failed_of(const struct cell_result *c)
{
	return (struct share){ cell_failures(c), c->n_completed + cell_failures(c) };
}

static struct share canaries_of(const struct cell_result *c)
{
	return (struct share){ c->canaries.n_failed, c->canaries.n };
}

static struct share suspicious_of(const struct cell_result *c)
{
	return (struct share){ c->answers.n_suspicious, c->answers.n_counted };
}

static struct share retried_of(const struct cell_result *c)
{
	return (struct share){ c->n_retried, c->n_completed + c->n_failed };
}

static const struct share_metric {
	const char *metric;
	struct share (*of)(const struct cell_result *c);
	const char *things, *bad, *still;
} shares[] = {
	{ "failed_share", failed_of, "requests", "failed", "fails" },
	{ "canary_failed_share", canaries_of, "canaries", "failed", "fails" },
	{ "suspicious_answer_share", suspicious_of, "answers", "look corrupt", "looks so" },
	{ "retried_share", retried_of, "requests", "were sent again", "is" },
};

static const struct share_metric *share_named(const char *metric)
{
	for (size_t i = 0; i < ARRAY_LEN(shares); i++)
		if (strcmp(shares[i].metric, metric) == 0)
			return &shares[i];
	return NULL;
}

static void say_share(struct crit_result *r, const struct share_metric *m, enum tail tail,
                      const struct tail_detail *d)
{
	char head[200];
	snprintf(head, sizeof(head), "%" PRIu64 " of %" PRIu64 " %s %s, %s %.6g %s at %g %%", r->t, r->n,
	         m->things, m->bad, comparator_upper(r->crit->cmp) ? "at most" : "at least", r->bound.value,
	         r->bound.unit, r->crit->confidence * 100);
	if (tail == TAIL_PASS)
		crit_say(r, STATE_PASS, "%s", head);
	else if (tail == TAIL_FAIL)
		crit_say(r, STATE_FAIL,
		         "%s: a system just at the limit would show so many with probability %.3g", head,
		         d->p_fail);
	else if (r->n_more)
		crit_say(r, STATE_INCONCLUSIVE,
		         "%s: too few to tell, %" PRIu64 " more needed if none of them %s", head, r->n_more,
		         m->still);
	else
		crit_say(r, STATE_INCONCLUSIVE, "%s: no number of further %s would tell", head, m->things);
}

static void gate_share(struct judge *j, struct crit_result *r, const struct cell_pick *pick,
                       const struct share_metric *m)
{
	struct tail_detail d;
	bool upper = comparator_upper(r->crit->cmp);
	double limit = crit_limit_base(r),
	       c = stat_look_confidence(r->crit->confidence, j->v->cells[pick->cells[0]].cell->wl->looks);
	enum tail tail = upper ? stat_share_gate(r->n, r->t, limit, c, &d)
	                       : stat_share_gate(r->n, r->n - r->t, 1 - limit, c, &d);
	r->rule = "Clopper-Pearson, one-sided";
	r->p_pass = d.p_pass;
	r->p_fail = d.p_fail;
	r->n_more = tail == TAIL_INCONCLUSIVE && d.n_more != STAT_NONE ? d.n_more : 0;
	r->value = crit_figure(r, (double)r->t / (double)r->n);
	r->bound = crit_figure(r, upper ? stat_cp_upper(r->n, r->t, c) : stat_cp_lower(r->n, r->t, c));
	say_share(r, m, tail, &d);
}

/* False (and said) when the plan did not ask for what this share is of. */
static bool share_asked(struct crit_result *r, const struct plan_workload *wl)
{
	if (strcmp(r->metric->name, "canary_failed_share") == 0 && !(wl->canary_share > 0))
		crit_say(r, STATE_NOT_TESTED, "the plan asks for no canaries here");
	else if (strcmp(r->metric->name, "suspicious_answer_share") == 0 && !wl->text_counters)
		crit_say(r, STATE_NOT_TESTED, "the plan asks for no counters of the text here");
	else
		return true;
	return false;
}

void judge_share(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	const struct share_metric *m = share_named(r->metric->name);
	uint64_t completed = 0;
	if (!m) {
		crit_say(r, STATE_NOT_TESTED, "this share is not computed yet");
		return;
	}
	if (!share_asked(r, j->v->cells[pick->cells[0]].cell->wl))
		return;
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *cell = &j->v->cells[pick->cells[i]];
		struct share s = m->of(cell);
		completed += cell->n_completed;
		r->n += s.n;
		r->t += s.x;
	}
	r->n_failed = m->of == failed_of ? r->t : 0;
	if (!r->n) {
		crit_say(r, STATE_INCONCLUSIVE, "no %s were there to judge", m->things);
		return;
	}
	if (r->crit->cmp == CMP_EQ)
		crit_compare(r, (double)r->t / (double)r->n);
	else
		gate_share(j, r, pick, m);
	if (!completed && r->state == STATE_PASS)
		crit_say(r, STATE_INCONCLUSIVE, "no request completed");
}

/* --- rates ------------------------------------------------------------------------------------------------
 */

static double rate_of(const struct cell_result *c, const char *metric)
{
	const struct {
		const char *name;
		double value;
	} table[] = { { "output_tok_s", c->output_tok_s },
		      { "request_s", c->request_s },
		      { "prefill_tok_s", c->prefill_tok_s },
		      { "decode_tok_s", c->decode_tok_s },
		      { "delivered_share", c->delivered.share },
		      { "prefix_cache_hit_share", c->prefix_cache_hit_share } };
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, metric) == 0)
			return table[i].value;
	return (double)NAN;
}

static const char *why_unknown(const struct cell_result *c, const char *metric)
{
	if (strcmp(metric, "delivered_share") == 0)
		return c->cell->wl->arrival.think_s > 0 || c->cell->wl->conversation.think_s > 0
		               ? "streams that think have no concurrency to hold"
		               : "too few requests, or all at one time";
	if (!c->n_completed)
		return "no request completed";
	if (strcmp(metric, "prefix_cache_hit_share") == 0)
		return "neither the engine's metrics nor the usage of every answer tell it";
	bool needs_stream = strcmp(metric, "prefill_tok_s") == 0 || strcmp(metric, "decode_tok_s") == 0;
	if (needs_stream && !c->cell->wl->stream)
		return "the answer was not streamed";
	return "some answers came without a token count by the server";
}

/* Several cells are not averaged: the worst one decides. */
void judge_rate(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	double worst = (double)NAN;
	bool of_load = strcmp(r->metric->name, "delivered_share") == 0;
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		double v = rate_of(c, r->metric->name);
		bool no_success = !c->n_completed && cell_failures(c);
		r->n += c->n_completed;
		r->n_failed += cell_failures(c);
		if (isnan(v) || (no_success && !of_load)) {
			uint64_t n = r->n, n_failed = r->n_failed;
			if (no_success)
				say_no_success(r, c);
			else
				crit_say(r, STATE_NOT_TESTED, "not measurable in %.120s: %s", c->cell->id,
				         why_unknown(c, r->metric->name));
			r->n = n;
			r->n_failed = n_failed;
			r->t = 0;
			return;
		}
		if (isnan(worst) || (comparator_upper(r->crit->cmp) ? v > worst : v < worst))
			worst = v;
	}
	crit_compare(r, worst);
	r->worst = r->value;
}
