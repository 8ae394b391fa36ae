/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of rule set 1. Everything a verdict compares is exact: integers n (requests judged), t (of them
 * over the limit), ranks, and binomial tail probabilities of a share given as num/den. Distribution-free, no
 * bootstrap: a bootstrap of p99 from fewer than 1000 requests has no data beyond the sample maximum.
 *
 * Tails are sums of one binomial mass (Loader 2000, saddle-point form) times exact term ratios: relative
 * error below 1e-9 up to n = 10^7 and a few thousand additions at most near the mean. A probability counts as
 * "at most alpha" when it is within a factor 1 + 1e-12 of it, so that exact ties (n 2, t 0, median, c .75) do
 * not hang on the last bit.
 *
 * Notation: p = num/den is the share that must be in time, q = 1 - p the share allowed over the limit,
 * c the confidence (0 < c < 1), one-sided unless said otherwise. Nothing here allocates or fails; an answer
 * that does not exist is STAT_NONE or NAN, never 0. */
#ifndef MODEL_STATS_H
#define MODEL_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAT_NONE UINT64_MAX

/* P(Bin(n, q) <= t) and P(Bin(n, q) >= t) for q in [0, 1]. t > n is allowed (1 and 0). */
double stat_binom_le(uint64_t n, uint64_t t, double q);
double stat_binom_ge(uint64_t n, uint64_t t, double q);

/* --- the tail gate: "at least num/den of requests are in time" -----------------------------------------
 * PASS iff P(Bin(n,q) <= t) <= 1-c, FAIL iff P(Bin(n,q) >= t) <= 1-c, else INCONCLUSIVE: exact one-sided
 * Clopper-Pearson; the same inequality as MLPerf LoadGen's Server early stopping with d = 0. */
enum tail { TAIL_PASS, TAIL_FAIL, TAIL_INCONCLUSIVE };
struct tail_detail {
	double p_pass;   /* P(Bin(n,q) <= t) */
	double p_fail;   /* P(Bin(n,q) >= t) */
	uint64_t n_more; /* inconclusive: requests still needed if all are in time; else 0; STAT_NONE = no
	                    number of requests would do */
};
/* `d` may be NULL. t > n counts as n. */
enum tail stat_tail_gate(uint64_t n, uint64_t t, unsigned num, unsigned den, double confidence,
                         struct tail_detail *d);
/* The same for a share that must stay at or below `limit` (0..1): x of n, bound by Clopper-Pearson. With
 * limit 0 one hit fails and no n passes: "none at all" is a count, not a share. */
enum tail stat_share_gate(uint64_t n, uint64_t x, double limit, double confidence, struct tail_detail *d);

/* Smallest n that passes with t over the limit (p .99 c .95: 299 473 628 …). STAT_NONE past 2^52. */
uint64_t stat_n_min(uint64_t t, unsigned num, unsigned den, double confidence);
/* Largest t that passes at n; STAT_NONE when not even 0 does. */
uint64_t stat_allowed_t(uint64_t n, unsigned num, unsigned den, double confidence);
/* Smallest t that fails at n; STAT_NONE when not even n does. */
uint64_t stat_fail_from(uint64_t n, unsigned num, unsigned den, double confidence);

/* 1-based order-statistic ranks of the one-sided confidence bounds of the num/den quantile: the quantile is
 * <= X_(upper) and >= X_(lower), each with confidence c. STAT_NONE = not estimable from n values. */
uint64_t stat_rank_upper(uint64_t n, unsigned num, unsigned den, double confidence);
uint64_t stat_rank_lower(uint64_t n, unsigned num, unsigned den, double confidence);
/* Two-sided interval of the median (n 50, c .95: 18, 33). false = not estimable. */
bool stat_median_ranks(uint64_t n, double confidence, uint64_t *lower, uint64_t *upper);

/* Looking K times: each look uses 1 - (1-c)/K (Bonferroni), K being in the plan. looks 0 counts as 1. */
double stat_look_confidence(double confidence, uint64_t looks);

/* --- shares -------------------------------------------------------------------------------------------- */
/* One-sided Clopper-Pearson bounds of x/n. n = 0: upper 1, lower 0. */
double stat_cp_upper(uint64_t n, uint64_t x, double confidence);
double stat_cp_lower(uint64_t n, uint64_t x, double confidence);
void stat_cp_two_sided(uint64_t n, uint64_t x, double confidence, double *lower, double *upper);
/* Wilson's two-sided interval: for display only, never a gate. n = 0: NAN. */
void stat_wilson(uint64_t n, uint64_t x, double confidence, double *lower, double *upper);
/* Quantile of the standard normal; p in (0, 1), else NAN. */
double stat_normal_quantile(double p);
double stat_normal_upper(double z); /* P(Z >= z) */

/* --- displayed quantiles and dependence ------------------------------------------------------------------
 * Nearest rank: X_(ceil(n num/den)), 1-based, at least 1; STAT_NONE for n = 0. (On 1..100 p99 is 99;
 * LoadGen's sorted[n p] gives 100, linear interpolation 99.01.) */
uint64_t stat_nearest_rank(uint64_t n, unsigned num, unsigned den);
/* n / (1 + 2 sum rho_k) up to the first non-positive autocorrelation, at most n, lags up to 2000 (200 for
 * 10^6 values: at most 2*10^8 products); a series without variance counts as n independent values. `x` in the
 * order of measurement. */
double stat_n_eff(const double *x, size_t n);
/* rho_k itself; NAN without variance or for k >= n. */
double stat_autocorrelation(const double *x, size_t n, size_t k);
/* n and t for a gate on dependent requests: floor(n_eff) of them, t scaled and rounded up (never below
 * what the share of t says). With n_eff >= n/2 both stay as they are and false is returned. */
bool stat_scale_to_n_eff(uint64_t n, uint64_t t, double n_eff, uint64_t *n_out, uint64_t *t_out);

/* --- trend (leaks): Mann-Kendall and Sen --------------------------------------------------------------- */
#define STAT_TREND_MAX 2000 /* values; thin a longer series first: all pairs are compared */
struct stat_trend {
	int64_t s;
	double var, z, p_up;             /* continuity-corrected; one-sided p for a rising trend */
	double slope;                    /* Sen: median of pairwise slopes, unit of x per unit of t */
	double slope_lower, slope_upper; /* two-sided at `confidence` */
	uint64_t rank_lower, rank_upper, n_pairs;
};
/* t strictly ascending. false (out untouched) for n < 3, n > STAT_TREND_MAX, or without memory. */
bool stat_trend(const double *t, const double *x, size_t n, double confidence, struct stat_trend *out);

#endif
