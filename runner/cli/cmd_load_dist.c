/* SPDX-License-Identifier: Apache-2.0 */
/* The distributions of a load: formulas and bounds as in verdicts (proofmark-bundle(5)). */
#include "cli/cmd_load.h"
#include "model/metrics_calc.h"
#include "model/stats.h"

#include <math.h>
#include <string.h>

#define N_EFF_VALUES_MAX 200000 /* more tell no more about how values depend on each other */
#define N_RANKS (2 * N_LOAD_QUANTILES + 1)

const char *const load_figure_words[] = { "ttft", "ttft_sent", "itl", "tpot", "e2e", NULL };
static const unsigned percents[N_LOAD_QUANTILES] = { 50, 90, 99 };

static bool failed(const struct load_row *r)
{
	return r->outcome != OUTCOME_OK && r->outcome != OUTCOME_CANCELLED;
}

static uint64_t figure_of(const struct load_row *r, enum load_figure what)
{
	switch (what) {
	case FIG_TTFT:
		return span_ns(r->due_ns, r->first_token_ns);
	case FIG_TTFT_SENT:
		return span_ns(r->sent_ns, r->first_token_ns);
	case FIG_TPOT:
		return tpot_whole_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
	case FIG_E2E:
		return e2e_ns(r->due_ns, r->last_token_ns, r->end_ns);
	case FIG_ITL:
	case N_FIGURES:
		break;
	}
	return REC_NONE;
}

/* --- bounds -----------------------------------------------------------------------------------------------
 */

/* Ranks of the values, of their upper bounds, and of the largest; STAT_NONE = not there. Failed ones stand
 * behind all values. Values that depend on each other count for fewer: the same share of them, rounded up. */
static void ranks_of(const struct load_dist *d, uint64_t ranks[N_RANKS])
{
	uint64_t n = d->n + d->n_failed, n_used = n, t_used;
	stat_scale_to_n_eff(n, d->n_failed, d->n_eff, &n_used, &t_used);
	for (size_t i = 0; i < N_LOAD_QUANTILES; i++) {
		uint64_t upper = stat_rank_upper(n_used, percents[i], 100, LOAD_CONFIDENCE);
		if (upper != STAT_NONE && n_used != n)
			upper = (uint64_t)ceil((double)upper * (double)n / (double)n_used);
		ranks[i] = stat_nearest_rank(n, percents[i], 100);
		ranks[N_LOAD_QUANTILES + i] = upper;
	}
	ranks[N_RANKS - 1] = d->n ? d->n : STAT_NONE;
}

static void take_ranked(struct load_dist *d, const uint64_t at[N_RANKS])
{
	for (size_t i = 0; i < N_LOAD_QUANTILES; i++) {
		d->value_ns[i] = at[i];
		d->upper_ns[i] = at[N_LOAD_QUANTILES + i];
	}
	d->max_ns = at[N_RANKS - 1];
}

static double n_eff_of(const double *v, size_t n, uint64_t n_all)
{
	return n < 2 ? (double)n_all : stat_n_eff(v, n) / (double)n * (double)n_all;
}

/* --- of requests -------------------------------------------------------------------------------------------
 */

static int requests_dist(struct load_dist *d, const struct load_sum *s, const struct load_rows *rows,
                         enum load_figure what)
{
	auto_free uint64_t *v = malloc((rows->n + 1) * sizeof(*v));
	auto_free double *x = malloc((rows->n + 1) * sizeof(*x));
	uint64_t ranks[N_RANKS], at[N_RANKS];
	size_t n = 0, n_unknown = 0;
	if (!v || !x)
		return -1;
	d->n_failed = s->n_unasked;
	for (size_t i = 0; i < rows->n; i++) {
		const struct load_row *r = &rows->v[i];
		if (r->outcome == OUTCOME_CANCELLED)
			continue;
		if (failed(r)) {
			d->n_failed++;
			continue;
		}
		if (what == FIG_TPOT && r->usage_output_tok <= 1)
			continue; /* one token has no time per further token */
		uint64_t ns = figure_of(r, what);
		n_unknown += ns == REC_NONE;
		if (ns != REC_NONE)
			v[n++] = ns;
	}
	if (n_unknown) {
		d->why = what == FIG_TPOT ? "answers came without a token count by the server"
		                          : "answers came without that time";
		return 0;
	}
	d->n = n;
	for (size_t i = 0; i < n; i++)
		x[i] = (double)v[i];
	d->n_eff = n_eff_of(x, n < N_EFF_VALUES_MAX ? n : N_EFF_VALUES_MAX, n + d->n_failed);
	d->mean_ns = n ? mean_u64(v, n) : (double)NAN;
	sort_u64(v, n);
	ranks_of(d, ranks);
	for (size_t i = 0; i < N_RANKS; i++)
		at[i] = ranks[i] >= 1 && ranks[i] <= n ? v[ranks[i] - 1] : REC_NONE;
	take_ranked(d, at);
	return 0;
}

/* --- of gaps
 * ------------------------------------------------------------------------------------------------ */

static const char *why_no_gaps(const struct load_sum *s)
{
	if (!s->cell->wl->stream)
		return "the answer was not streamed";
	if (s->n_ok && isnan(s->events_per_tok))
		return "the server told no output token counts";
	if (s->n_ok && s->events_per_tok < 0.8)
		return "several tokens come in one event";
	if (s->buffered_share > 0.5)
		return "answers come in one or two reads: something buffers them";
	return NULL;
}

/* A failed request counts with every gap it was to have. */
static uint64_t planned_gaps(const struct load_row *r)
{
	return r->want_output_tok > 1 && r->want_output_tok < 100000000u ? r->want_output_tok - 1 : 1;
}

static int gaps_dist(struct load_dist *d, const struct load_sum *s, const struct load_rows *rows)
{
	uint64_t ranks[N_RANKS], at[N_RANKS], n = gaps_n(rows->gaps);
	size_t n_head = n < N_EFF_VALUES_MAX ? (size_t)n : N_EFF_VALUES_MAX;
	auto_free double *head = malloc((n_head + 1) * sizeof(*head));
	double sum = 0;
	if ((d->why = why_no_gaps(s)))
		return 0;
	if (!head || gaps_head(rows->gaps, head, n_head, &sum))
		return -1;
	d->n = n;
	for (size_t i = 0; i < rows->n; i++)
		d->n_failed += failed(&rows->v[i]) ? planned_gaps(&rows->v[i]) : 0;
	d->n_failed += s->n_unasked;
	d->n_eff = n_eff_of(head, n_head, n + d->n_failed);
	d->mean_ns = n ? sum / (double)n : (double)NAN;
	ranks_of(d, ranks);
	if (gaps_at(rows->gaps, ranks, N_RANKS, at))
		return -1;
	take_ranked(d, at);
	return 0;
}

int load_dists_make(struct load_sum *s, const struct load_rows *rows, struct err *err)
{
	for (int i = 0; i < N_FIGURES; i++) {
		struct load_dist *d = &s->dist[i];
		*d = (struct load_dist){ .mean_ns = (double)NAN, .n_eff = (double)NAN, .max_ns = REC_NONE };
		memset(d->value_ns, 0xff, sizeof(d->value_ns));
		memset(d->upper_ns, 0xff, sizeof(d->upper_ns));
		if (i != FIG_ITL && i != FIG_E2E && !s->cell->wl->stream)
			d->why = "the answer was not streamed";
		else if (i == FIG_ITL ? gaps_dist(d, s, rows)
		                      : requests_dist(d, s, rows, (enum load_figure)i))
			return err_set(err, ERR_ENV, "load: no memory for the summary");
	}
	return 0;
}
