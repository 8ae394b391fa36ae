/* SPDX-License-Identifier: Apache-2.0 */
/* Latency criteria. Quantiles by exact binomial bounds (statistics.md 1, 2, 4): a failed request is over
 * every limit, requests that depend on each other count for fewer. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"
#include "model/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool latency_named(const char *metric, enum latency *out)
{
	static const struct {
		const char *name;
		enum latency what;
	} table[] = { { "ttft", LAT_TTFT },           { "ttft_content", LAT_TTFT_CONTENT },
		      { "ttft_sent", LAT_TTFT_SENT }, { "itl", LAT_ITL },
		      { "tpot", LAT_TPOT },           { "e2e", LAT_E2E },
		      { "send_lag", LAT_SEND_LAG },   { "spacing_error", LAT_SPACING } };
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, metric) == 0) {
			*out = table[i].what;
			return true;
		}
	return false;
}

/* What the gate works on: `n` values of which `t` break the limit; values ascending in `sorted`. */
struct sample {
	const struct crit_result *r;
	uint64_t n, t; /* all, over */
	uint64_t n_failed;
	const uint64_t *sorted;
	uint64_t n_values;
	bool upper; /* small is good */
};

static bool value_over(uint64_t v, enum comparator cmp, uint64_t limit_ns)
{
	switch (cmp) {
	case CMP_LE:
		return v > limit_ns;
	case CMP_LT:
		return v >= limit_ns;
	case CMP_GE:
		return v < limit_ns;
	case CMP_GT:
		return v <= limit_ns;
	case CMP_EQ:
		return v != limit_ns;
	}
	return true;
}

/* 1-based rank among all, the failed ones at the bad end. */
static uint64_t value_at_rank(const struct sample *s, uint64_t rank)
{
	if (rank == STAT_NONE || rank < 1 || rank > s->n)
		return REC_NONE;
	if (!s->upper)
		return rank > s->n_failed ? s->sorted[rank - s->n_failed - 1] : REC_NONE;
	return rank <= s->n_values ? s->sorted[rank - 1] : REC_NONE;
}

static struct figure ns_figure(const struct crit_result *r, uint64_t ns)
{
	return crit_figure(r, ns == REC_NONE ? (double)NAN : (double)ns);
}

/* Rank of the bound when `n_used` independent requests stand for n: the same share of them, rounded to the
 * safe side. */
static uint64_t bound_rank(const struct sample *s, uint64_t n_used, unsigned num, unsigned den,
                           double confidence)
{
	uint64_t rank = s->upper ? stat_rank_upper(n_used, num, den, confidence)
	                         : stat_rank_lower(n_used, num, den, confidence);
	if (rank == STAT_NONE || n_used == s->n)
		return rank;
	double scaled = (double)rank * (double)s->n / (double)n_used;
	return (uint64_t)(s->upper ? ceil(scaled) : floor(scaled));
}

static void say_dependence(struct crit_result *r, uint64_t n_used, uint64_t t_used, char *out,
                           size_t out_bytes)
{
	*out = '\0';
	if (n_used != r->n)
		snprintf(out, out_bytes,
		         "; requests depend on each other (n_eff %.1f of %" PRIu64 "), judged as %" PRIu64
		         " of %" PRIu64,
		         r->n_eff, r->n, t_used, n_used);
}

static void say_quantile(struct crit_result *r, enum tail tail, const struct tail_detail *d, uint64_t n_used,
                         uint64_t t_used, const char *what)
{
	char depend[160], head[160];
	const char *side = comparator_upper(r->crit->cmp) ? "over" : "under";
	say_dependence(r, n_used, t_used, depend, sizeof(depend));
	snprintf(head, sizeof(head), "%" PRIu64 " of %" PRIu64 " %s %s %.6g %s", r->t, r->n, what, side,
	         r->crit->limit, r->limit.unit);
	switch (tail) {
	case TAIL_PASS:
		crit_say(r, STATE_PASS,
		         "%s%s: a system just at the limit would show so few with probability %.3g%s", head,
		         r->n_failed ? ", failed ones included" : "", d->p_pass, depend);
		break;
	case TAIL_FAIL:
		crit_say(r, STATE_FAIL,
		         "%s%s: a system just at the limit would show so many with probability %.3g%s", head,
		         r->n_failed ? ", failed ones included" : "", d->p_fail, depend);
		break;
	case TAIL_INCONCLUSIVE:
		if (r->n_more)
			crit_say(r, STATE_INCONCLUSIVE,
			         "%s: too few to tell, %" PRIu64 " more needed if all are in time%s", head,
			         r->n_more, depend);
		else
			crit_say(r, STATE_INCONCLUSIVE, "%s: no number of further requests would tell%s",
			         head, depend);
		break;
	}
}

static uint64_t more_requests(const struct tail_detail *d, uint64_t n, uint64_t n_used)
{
	if (d->n_more == STAT_NONE || !n_used)
		return 0;
	return n_used == n ? d->n_more : (uint64_t)ceil((double)d->n_more * (double)n / (double)n_used);
}

static void judge_quantile(struct crit_result *r, struct sample *s, unsigned num, unsigned den, double n_eff,
                           uint64_t looks, const char *what)
{
	double confidence = stat_look_confidence(r->crit->confidence, looks);
	uint64_t n_used = s->n, t_used = s->t;
	struct tail_detail d;
	r->n_eff = n_eff;
	stat_scale_to_n_eff(s->n, s->t, n_eff, &n_used, &t_used);
	unsigned in_time = s->upper ? num : den - num;
	enum tail tail = stat_tail_gate(n_used, t_used, in_time, den, confidence, &d);
	r->rule = n_used == s->n ? "exact binomial, one-sided" : "exact binomial, one-sided, n_eff";
	r->p_pass = d.p_pass;
	r->p_fail = d.p_fail;
	r->n_more = tail == TAIL_INCONCLUSIVE ? more_requests(&d, s->n, n_used) : 0;
	r->value = ns_figure(r, value_at_rank(s, stat_nearest_rank(s->n, num, den)));
	r->bound = ns_figure(r, value_at_rank(s, bound_rank(s, n_used, num, den, confidence)));
	say_quantile(r, tail, &d, n_used, t_used, what);
}

static void judge_plain(struct crit_result *r, const struct sample *s)
{
	const char *statistic = r->crit->statistic;
	unsigned num, den;
	double value = (double)NAN;
	if (statistic_quantile(statistic, &num, &den)) {
		uint64_t ns = value_at_rank(s, stat_nearest_rank(s->n, num, den));
		value = ns == REC_NONE ? (double)NAN : (double)ns;
	} else if (strcmp(statistic, "mean") == 0)
		value = mean_u64(s->sorted, s->n_values);
	else if (strcmp(statistic, "min") == 0)
		value = (double)s->sorted[0];
	else if (strcmp(statistic, "max") == 0)
		value = (double)s->sorted[s->n_values - 1];
	crit_compare(r, value);
	if (s->n_failed && r->state == STATE_PASS)
		crit_say(r, STATE_FAIL, "%" PRIu64 " of %" PRIu64 " failed and have no value", s->n_failed,
		         s->n);
}

/* What is better than the limit by this factor counts as just so good: how the good values wander says
 * nothing about passing the limit. In simulated AR(1) sources just at their limit (correlation .5 to .97) it
 * leaves the share of wrong passes near that of the bare series; a factor of 2 would not. */
#define FAR_FROM_LIMIT 5

static double toward_limit(uint64_t value_ns, uint64_t limit_ns, bool upper)
{
	double v = (double)value_ns, limit = (double)limit_ns;
	return upper ? fmax(v, limit / FAR_FROM_LIMIT) : fmin(v, limit * FAR_FROM_LIMIT);
}

/* Dependence is told by the series of values; the failed ones are taken to depend alike. */
static double n_eff_of(struct judge *j, const struct series *s, uint64_t n, uint64_t limit_ns, bool upper)
{
	if (s->n < 2)
		return (double)n;
	double *x = malloc(s->n * sizeof(*x));
	if (!x) {
		j->no_memory = true;
		return 0;
	}
	for (size_t i = 0; i < s->n; i++)
		x[i] = toward_limit(s->v[i], limit_ns, upper);
	double n_eff = stat_n_eff(x, s->n) / (double)s->n * (double)n;
	free(x);
	return n_eff;
}

static bool tells_of_client(enum latency what)
{
	return what == LAT_SEND_LAG || what == LAT_SPACING;
}

/* False (and said) when this latency does not exist in this cell. */
static bool exists(struct judge *j, struct crit_result *r, const struct cell_pick *pick, enum latency what)
{
	for (size_t i = 0; i < pick->n; i++) {
		const struct cell *c = j->v->cells[pick->cells[i]].cell;
		if (latency_needs_stream(what) && !c->wl->stream)
			crit_say(r, STATE_NOT_TESTED, "not measurable: the answer was not streamed");
		else if (what == LAT_SPACING && !cell_is_open_loop(c))
			crit_say(r, STATE_NOT_TESTED, "a closed loop has no spacing of its own");
		else
			continue;
		return false;
	}
	return true;
}

/* False (and said) when the instrument is too coarse for this limit. */
static bool fine_enough(struct judge *j, struct crit_result *r, const struct cell_pick *pick,
                        enum latency what)
{
	double limit = crit_limit_base(r);
	for (size_t i = 0; i < pick->n && !tells_of_client(what); i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		uint64_t error_ns = what == LAT_ITL || what == LAT_TPOT ? c->instrument.itl_error_ns
		                                                        : c->instrument.ttft_error_ns;
		if (error_ns == REC_NONE || limit >= 10.0 * (double)error_ns)
			continue;
		crit_say(r, STATE_INVALID,
		         "the limit %.6g %s is less than 10 times the instrument's own error here (%.6g ms)",
		         r->crit->limit, r->limit.unit, (double)error_ns / 1e6);
		return false;
	}
	return true;
}

static bool measurable(struct judge *j, struct crit_result *r, const struct cell_pick *pick,
                       enum latency what, const struct series *s)
{
	for (size_t i = 0; i < pick->n && what == LAT_ITL; i++) {
		const struct cell_result *c = &j->v->cells[pick->cells[i]];
		if (c->itl_measurable || !c->n_completed)
			continue;
		if (c->buffered.yes)
			crit_say(r, STATE_NOT_TESTED,
			         "not measurable: %.3g of the answers came in at most 2 reads, so the server "
			         "or "
			         "a proxy holds the tokens back",
			         c->buffered.share);
		else if (isnan(c->events_per_tok))
			crit_say(r, STATE_NOT_TESTED,
			         "not measurable: the server told no output token counts");
		else
			crit_say(r, STATE_NOT_TESTED,
			         "not measurable: %.3g events an output token, so several tokens come in one "
			         "event",
			         c->events_per_tok);
		return false;
	}
	if (s->n_unknown) {
		crit_say(r, STATE_NOT_TESTED,
		         "not measurable: %" PRIu64 " answers came without a token count by the server",
		         s->n_unknown);
		return false;
	}
	return true;
}

static void judge_series(struct judge *j, struct crit_result *r, const struct cell_pick *pick,
                         enum latency what, struct series *s)
{
	unsigned num, den;
	uint64_t limit_ns = (uint64_t)llround(fmin(fmax(crit_limit_base(r), 0), 9e18));
	double n_eff = n_eff_of(j, s, s->n + s->n_failed, limit_ns, comparator_upper(r->crit->cmp));
	sort_u64(s->v, s->n);
	struct sample sample = { .r = r,
		                 .n = s->n + s->n_failed,
		                 .t = s->n_failed,
		                 .n_failed = s->n_failed,
		                 .sorted = s->v,
		                 .n_values = s->n,
		                 .upper = comparator_upper(r->crit->cmp) };
	for (size_t i = 0; i < s->n; i++)
		sample.t += value_over(s->v[i], r->crit->cmp, limit_ns);
	r->n = sample.n;
	r->t = sample.t;
	r->n_failed = s->n_failed;
	if (s->n)
		r->worst = ns_figure(r, sample.upper ? s->v[s->n - 1] : s->v[0]);
	const char *things = what == LAT_ITL ? "gaps" : what == LAT_SPACING ? "distances" : "requests";
	if (!sample.n) {
		crit_say(r, STATE_INCONCLUSIVE, "no %s were measured", things);
		return;
	}
	if (!s->n) {
		crit_say(r, STATE_FAIL, "none of %" PRIu64 " requests gave a value", sample.n);
		return;
	}
	if (statistic_quantile(r->crit->statistic, &num, &den) && r->crit->cmp != CMP_EQ)
		judge_quantile(r, &sample, num, den, n_eff, j->v->cells[pick->cells[0]].cell->wl->looks,
		               things);
	else
		judge_plain(r, &sample);
}

void judge_latency(struct judge *j, struct crit_result *r, const struct cell_pick *pick)
{
	enum latency what;
	struct series s = { 0 };
	if (!latency_named(r->metric->name, &what)) {
		crit_say(r, STATE_NOT_TESTED, "this latency is not computed yet");
		return;
	}
	if (!exists(j, r, pick, what))
		return;
	const struct cell_result *none = tells_of_client(what) ? NULL : cell_without_success(j, pick);
	if (none) {
		say_no_success(r, none);
		return;
	}
	if (!fine_enough(j, r, pick, what))
		return;
	for (size_t i = 0; i < pick->n; i++)
		series_add(&s, j, what, pick->cells[i], &EVERY_ROW);
	if (!j->no_memory && measurable(j, r, pick, what, &s))
		judge_series(j, r, pick, what, &s);
	free(s.v);
}
