// SPDX-License-Identifier: Apache-2.0
// Worked values of rule set 1: each was computed by another program (exact binomials in Python).
#include "model/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void near(double got, double want, double tolerance, const char *what)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%s: got %.12g, want %.12g", what, got, want);
}

static void near_rel(double got, double want, double tolerance, const char *what)
{
	near(got, want, fabs(want) * tolerance, what);
}

static const struct {
	unsigned num, den;
	double confidence;
	uint64_t n[6];
} n_min_rows[] = {
	{ 99, 100, .95, { 299, 473, 628, 773, 913, 1049 } },
	{ 99, 100, .99, { 459, 662, 838, 1001, 1157, 1307 } },
	{ 95, 100, .95, { 59, 93, 124, 153, 181, 208 } },
	{ 95, 100, .99, { 90, 130, 165, 198, 229, 259 } },
	{ 90, 100, .95, { 29, 46, 61, 76, 89, 103 } },
	{ 90, 100, .99, { 44, 64, 81, 97, 113, 127 } },
	{ 999, 1000, .95, { 2995, 4742, 6294, 7752, 9151, 10511 } },
	{ 97, 100, .99, { 152, 219, 277, 332, 383, 433 } },
	{ 50, 100, .95, { 5, 8, 11, 13, 16, 18 } },
};

static void n_min_is_the_smallest_n_that_passes(void **state)
{
	for (size_t i = 0; i < LEN(n_min_rows); i++) {
		for (uint64_t t = 0; t < 6; t++) {
			unsigned num = n_min_rows[i].num, den = n_min_rows[i].den;
			double c = n_min_rows[i].confidence;
			uint64_t n = n_min_rows[i].n[t];
			assert_int_equal(stat_n_min(t, num, den, c), n);
			assert_int_equal(stat_tail_gate(n, t, num, den, c, NULL), TAIL_PASS);
			assert_int_equal(stat_tail_gate(n - 1, t, num, den, c, NULL), TAIL_INCONCLUSIVE);
		}
	}
}

static void binomial_tails_agree_to_all_printed_digits(void **state)
{
	near(stat_binom_le(299, 0, .01), .0495362566, 5e-11, "299, 0");
	near(stat_binom_le(298, 0, .01), .0500366229, 5e-11, "298, 0");
	near(stat_binom_le(64, 1, .1), .0095631497, 5e-11, "64, 1");
	near(stat_binom_le(63, 1, .1), .0104801641, 5e-11, "63, 1");
	near(stat_binom_le(662, 1, .01), .0099139856, 5e-11, "662, 1");
	near(stat_binom_le(661, 1, .01), .0100009677, 5e-11, "661, 1");
}

// Reference: exact rational arithmetic of 50 digits (Python fractions, mpmath).
static const struct {
	uint64_t n, t;
	double q;
	bool upper;
	double want;
} tail_rows[] = {
#include "stats_tails.inc"
};

static void binomial_tails_hold_1e9_relative_up_to_ten_million(void **state)
{
	for (size_t i = 0; i < LEN(tail_rows); i++) {
		double got = tail_rows[i].upper
		                     ? stat_binom_ge(tail_rows[i].n, tail_rows[i].t, tail_rows[i].q)
		                     : stat_binom_le(tail_rows[i].n, tail_rows[i].t, tail_rows[i].q);
		char what[64];
		snprintf(what, sizeof what, "row %zu", i);
		near_rel(got, tail_rows[i].want, 1e-9, what);
	}
}

static void binomial_edges_are_exact(void **state)
{
	near(stat_binom_le(0, 0, .3), 1, 0, "no trial");
	near(stat_binom_ge(0, 0, .3), 1, 0, "no trial, upper");
	near(stat_binom_ge(10, 0, .3), 1, 0, "at least none");
	near(stat_binom_ge(10, 11, .3), 0, 0, "more than all");
	near(stat_binom_le(10, 0, 0), 1, 0, "share 0");
	near(stat_binom_le(10, 9, 1), 0, 0, "share 1");
	near(stat_binom_ge(10, 10, 1), 1, 0, "share 1, all");
	near(stat_binom_ge(10, 1, 0), 0, 0, "share 0, one");
}

static void both_tails_and_the_mass_add_up(void **state)
{
	for (uint64_t n = 1; n < 60; n++)
		for (uint64_t t = 0; t < n; t++)
			near(stat_binom_le(n, t, .07) + stat_binom_ge(n, t + 1, .07), 1, 1e-12, "sum");
}

static void allowed_t_at_p99(void **state)
{
	static const struct {
		uint64_t n, t;
		double c;
	} rows[] = { { 299, 0, .95 },   { 500, 1, .95 },   { 1000, 4, .95 },   { 2000, 12, .95 },
		     { 3000, 20, .95 }, { 5000, 38, .95 }, { 10000, 83, .95 }, { 459, 0, .99 },
		     { 1000, 2, .99 },  { 2000, 9, .99 },  { 3000, 17, .99 },  { 5000, 33, .99 },
		     { 10000, 77, .99 } };
	for (size_t i = 0; i < LEN(rows); i++)
		assert_int_equal(stat_allowed_t(rows[i].n, 99, 100, rows[i].c), rows[i].t);
	assert_true(stat_allowed_t(298, 99, 100, .95) == STAT_NONE);
	assert_true(stat_allowed_t(0, 99, 100, .95) == STAT_NONE);
}

static void fails_from_t(void **state)
{
	static const struct {
		uint64_t n, t;
		unsigned num;
	} rows[] = {
		{ 100, 4, 99 },   { 300, 7, 99 },   { 500, 10, 99 }, { 1000, 16, 99 }, { 2000, 29, 99 },
		{ 3000, 40, 99 }, { 5000, 63, 99 }, { 100, 10, 95 }, { 300, 22, 95 },  { 1000, 63, 95 }
	};
	for (size_t i = 0; i < LEN(rows); i++) {
		assert_int_equal(stat_fail_from(rows[i].n, rows[i].num, 100, .95), rows[i].t);
		assert_int_equal(stat_tail_gate(rows[i].n, rows[i].t, rows[i].num, 100, .95, NULL),
		                 TAIL_FAIL);
		assert_int_not_equal(stat_tail_gate(rows[i].n, rows[i].t - 1, rows[i].num, 100, .95, NULL),
		                     TAIL_FAIL);
	}
}

static void three_way_decisions_with_what_is_missing(void **state)
{
	struct tail_detail d;
	assert_int_equal(stat_tail_gate(1000, 3, 99, 100, .95, &d), TAIL_PASS);
	near(d.p_pass, .010073, 5e-7, "1000, 3");
	assert_int_equal(d.n_more, 0);
	assert_int_equal(stat_tail_gate(1000, 3, 99, 100, .99, &d), TAIL_INCONCLUSIVE);
	assert_int_equal(stat_tail_gate(1000, 5, 99, 100, .95, &d), TAIL_INCONCLUSIVE);
	near(d.p_pass, .066140, 5e-7, "1000, 5");
	assert_int_equal(d.n_more, 49);
	assert_int_equal(stat_tail_gate(300, 7, 99, 100, .95, &d), TAIL_FAIL);
	near(d.p_fail, .032751, 5e-7, "300, 7");
	assert_int_equal(d.n_more, 0);
	assert_int_equal(stat_tail_gate(300, 6, 99, 100, .95, &d), TAIL_INCONCLUSIVE);
	near(d.p_fail, .082904, 5e-7, "300, 6");
	assert_int_equal(stat_tail_gate(100, 0, 99, 100, .95, &d), TAIL_INCONCLUSIVE);
	assert_int_equal(d.n_more, 199);
}

static void nothing_measured_is_inconclusive_never_a_pass(void **state)
{
	struct tail_detail d;
	assert_int_equal(stat_tail_gate(0, 0, 99, 100, .95, &d), TAIL_INCONCLUSIVE);
	assert_int_equal(d.n_more, 299);
	assert_int_equal(stat_share_gate(0, 0, .01, .95, &d), TAIL_INCONCLUSIVE);
	assert_int_equal(d.n_more, 299);
}

static void more_over_than_requests_counts_as_all_over(void **state)
{
	assert_int_equal(stat_tail_gate(50, 70, 99, 100, .95, NULL), TAIL_FAIL);
}

static void an_exact_tie_passes(void **state)
{
	assert_int_equal(stat_n_min(0, 1, 2, .75), 2); // 1/4 against 1 - .75
	assert_int_equal(stat_n_min(0, 1, 2, .875), 3);
	assert_int_equal(stat_tail_gate(2, 2, 1, 2, .75, NULL), TAIL_FAIL);
}

static void order_statistic_ranks(void **state)
{
	static const struct {
		uint64_t n;
		unsigned num;
		double c;
		uint64_t lower, upper;
	} rows[] = { { 299, 99, .95, 293, 299 },    { 500, 99, .95, 491, 499 },
		     { 1000, 99, .95, 985, 996 },   { 2000, 99, .95, 1972, 1988 },
		     { 5000, 99, .95, 4938, 4962 }, { 459, 99, .99, 449, 459 },
		     { 1000, 99, .99, 982, 998 },   { 5000, 99, .99, 4933, 4967 },
		     { 100, 95, .95, 91, 99 },      { 1000, 95, .95, 938, 962 } };
	for (size_t i = 0; i < LEN(rows); i++) {
		assert_int_equal(stat_rank_lower(rows[i].n, rows[i].num, 100, rows[i].c), rows[i].lower);
		assert_int_equal(stat_rank_upper(rows[i].n, rows[i].num, 100, rows[i].c), rows[i].upper);
	}
	assert_true(stat_rank_upper(298, 99, 100, .95) == STAT_NONE);
}

static void median_ranks_two_sided(void **state)
{
	static const uint64_t rows[][3] = { { 50, 18, 33 }, { 100, 40, 61 }, { 1000, 469, 532 } };
	for (size_t i = 0; i < LEN(rows); i++) {
		uint64_t lower, upper;
		assert_true(stat_median_ranks(rows[i][0], .95, &lower, &upper));
		assert_int_equal(lower, rows[i][1]);
		assert_int_equal(upper, rows[i][2]);
	}
	uint64_t lower, upper;
	assert_false(stat_median_ranks(5, .95, &lower, &upper));
}

// The bound that a report shows and the decision are one rule: X_(k) <= limit exactly where t passes.
static void the_rank_and_the_gate_agree_for_every_t(void **state)
{
	for (uint64_t n = 1; n < 700; n += 7) {
		uint64_t rank = stat_rank_upper(n, 95, 100, .95);
		for (uint64_t t = 0; t <= n; t++) {
			bool pass = stat_tail_gate(n, t, 95, 100, .95, NULL) == TAIL_PASS;
			assert_int_equal(pass, rank != STAT_NONE && n - t >= rank);
		}
	}
}

static void power_for_a_true_over_limit_rate(void **state)
{
	static const struct {
		uint64_t n;
		double power[3];
	} rows[] = { { 299, { .741, .550, .223 } },
		     { 473, { .918, .756, .315 } },
		     { 1000, { .996, .948, .440 } },
		     { 2000, { 1, 1, .792 } },
		     { 3000, { 1, 1, .918 } } };
	static const double rates[] = { .001, .002, .005 };
	for (size_t i = 0; i < LEN(rows); i++)
		for (size_t k = 0; k < 3; k++)
			near(stat_binom_le(rows[i].n, stat_allowed_t(rows[i].n, 99, 100, .95), rates[k]),
			     rows[i].power[k], .0006, "power");
}

// Chance that a system exactly at the limit passes at some look: the reason for the looks correction.
static double passes_at_some_look(uint64_t n_last, uint64_t step, double confidence)
{
	double *p = calloc(n_last + 2, sizeof *p), passed = 0;
	assert_non_null(p);
	p[0] = 1;
	for (uint64_t n = 1; n <= n_last; n++) {
		for (uint64_t t = n; t; t--)
			p[t] = p[t] * .99 + p[t - 1] * .01;
		p[0] *= .99;
		uint64_t allowed = n % step ? STAT_NONE : stat_allowed_t(n, 99, 100, confidence);
		for (uint64_t t = 0; allowed != STAT_NONE && t <= allowed; t++) {
			passed += p[t];
			p[t] = 0;
		}
	}
	free(p);
	return passed;
}

static void looking_until_it_passes_inflates_the_error(void **state)
{
	near(passes_at_some_look(5000, 1, .99), .0599, 5e-5, ".99 every request");
	near(passes_at_some_look(5000, 1, .95), .2322, 5e-5, ".95 every request");
	near(passes_at_some_look(5000, 500, .99), .0300, 5e-5, ".99 every 500");
}

static void looks_correction(void **state)
{
	static const struct {
		uint64_t looks;
		double c;
		uint64_t n;
	} rows[] = { { 1, .95, 299 }, { 3, .9833, 408 }, { 5, .99, 459 }, { 10, .995, 528 } };
	for (size_t i = 0; i < LEN(rows); i++) {
		double c = stat_look_confidence(.95, rows[i].looks);
		near(c, rows[i].c, 5e-5, "confidence");
		assert_int_equal(stat_n_min(0, 99, 100, c), rows[i].n);
	}
	near(stat_look_confidence(.95, 0), .95, 1e-15, "no look named");
}

static void clopper_pearson_upper(void **state)
{
	static const struct {
		uint64_t x, n;
		double upper;
	} rows[] = { { 0, 100, .029513050 },  { 0, 300, .009936082 },  { 1, 300, .015714555 },
		     { 0, 1000, .002991250 }, { 2, 1000, .006282285 }, { 5, 1000, .010484077 },
		     { 0, 3000, .000998079 }, { 3, 3000, .002582505 } };
	for (size_t i = 0; i < LEN(rows); i++)
		near(stat_cp_upper(rows[i].n, rows[i].x, .95), rows[i].upper, 6e-10, "upper");
	near_rel(stat_cp_upper(300, 0, .95), 1 - pow(.05, 1. / 300), 1e-12, "closed form");
	near(stat_cp_upper(0, 0, .95), 1, 0, "nothing measured");
	near(stat_cp_upper(7, 7, .95), 1, 0, "all");
	near_rel(stat_cp_lower(7, 7, .95), pow(.05, 1. / 7), 1e-12, "all, lower");
	near(stat_cp_lower(7, 0, .95), 0, 0, "none, lower");
}

static void clopper_pearson_two_sided_and_wilson(void **state)
{
	double lower, upper;
	stat_cp_two_sided(1000, 2, .95, &lower, &upper);
	near(lower, .000242301, 6e-10, "lower");
	near(upper, .007205839, 6e-10, "upper");
	stat_wilson(300, 3, .95, &lower, &upper);
	near(lower, .003406618, 6e-10, "wilson lower");
	near(upper, .028983493, 6e-10, "wilson upper");
	stat_wilson(0, 0, .95, &lower, &upper);
	assert_true(isnan(lower) && isnan(upper));
}

static void share_gate_agrees_with_its_bound(void **state)
{
	for (uint64_t n = 10; n < 2000; n += 97)
		for (uint64_t x = 0; x < 12 && x <= n; x++)
			assert_int_equal(stat_share_gate(n, x, .01, .95, NULL) == TAIL_PASS,
			                 stat_cp_upper(n, x, .95) <= .01);
}

static void a_share_limit_of_zero_never_passes_and_one_hit_fails(void **state)
{
	struct tail_detail d;
	assert_int_equal(stat_share_gate(1000, 0, 0, .95, &d), TAIL_INCONCLUSIVE);
	assert_true(d.n_more == STAT_NONE);
	assert_int_equal(stat_share_gate(1000, 1, 0, .95, NULL), TAIL_FAIL);
}

static void nearest_rank_is_what_is_displayed(void **state)
{
	assert_int_equal(stat_nearest_rank(100, 99, 100), 99);
	assert_int_equal(stat_nearest_rank(50, 99, 100), 50); // 48 x 100 ms, 900, 2500: p99 = 2500
	assert_int_equal(stat_nearest_rank(1, 50, 100), 1);
	assert_int_equal(stat_nearest_rank(4, 50, 100), 2);
	assert_int_equal(stat_nearest_rank(1000, 999, 1000), 999);
	assert_true(stat_nearest_rank(0, 99, 100) == STAT_NONE);
	assert_true(stat_nearest_rank(UINT64_MAX - 5, 99, 100) < UINT64_MAX - 5);
}

static void dependent_values_count_for_less(void **state)
{
	static const double x[] = { 10, 12, 11, 13, 15, 14, 16, 18, 17, 15,
		                    13, 12, 11, 10, 12, 14, 15, 16, 14, 12 };
	near(stat_autocorrelation(x, LEN(x), 1), .664141, 5e-7, "lag 1");
	near(stat_autocorrelation(x, LEN(x), 2), .277778, 5e-7, "lag 2");
	near(stat_autocorrelation(x, LEN(x), 3), -.103535, 5e-7, "lag 3");
	near(stat_n_eff(x, LEN(x)), 6.935201, 5e-7, "n_eff");
	uint64_t n, t;
	assert_true(stat_scale_to_n_eff(20, 1, 6.935201, &n, &t));
	assert_int_equal(n, 6);
	assert_int_equal(t, 1);
	assert_false(stat_scale_to_n_eff(20, 1, 10, &n, &t));
	assert_int_equal(n, 20);
	static const double flat[] = { 5, 5, 5, 5 };
	near(stat_n_eff(flat, 4), 4, 0, "no variance");
	double odd[99]; /* their mean is off by a last bit, which is no variance */
	for (size_t i = 0; i < LEN(odd); i++)
		odd[i] = 66600000.2;
	near(stat_n_eff(odd, LEN(odd)), 99, 0, "equal values with a rounded mean");
	near(stat_n_eff(flat, 1), 1, 0, "one value");
	near(stat_n_eff(NULL, 0), 0, 0, "no value");
}

static void an_ar1_series_of_half_has_a_third_of_its_n(void **state)
{
	size_t n = 200000;
	double *x = malloc(n * sizeof *x), last = 0;
	assert_non_null(x);
	uint64_t s = 1;
	for (size_t i = 0; i < n; i++) {
		s = s * 6364136223846793005u + 1442695040888963407u;
		last = x[i] = .5 * last + (double)(s >> 40) / (1 << 24) - .5;
	}
	near_rel(stat_n_eff(x, n), (double)n / 3, .05, "n/3");
	free(x);
}

static void a_rising_series_is_a_leak_and_a_flat_one_is_not(void **state)
{
	static const double t[] = { 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110 };
	static const double up[] = { 5180.2, 5262.0, 5371.5, 5442.9, 5561.3, 5638.8,
		                     5757.1, 5829.6, 5931.0, 6033.4, 6118.7, 6240.5 };
	static const double flat[] = { 5180.2, 5192.4, 5176.9, 5188.0, 5181.5, 5190.7,
		                       5178.8, 5186.1, 5191.3, 5179.6, 5184.9, 5187.2 };
	struct stat_trend r;
	assert_true(stat_trend(t, up, 12, .95, &r));
	assert_int_equal(r.s, 66);
	near(r.var, 212.6667, 5e-5, "var");
	near(r.z, 4.457216, 5e-7, "z");
	near_rel(r.p_up, 4.152e-06, 5e-4, "p");
	near(r.slope, 9.5815, 5e-5, "slope");
	near(r.slope_lower, 9.34, .005, "slope lower");
	near(r.slope_upper, 9.79, .005, "slope upper");
	assert_int_equal(r.rank_lower, 19);
	assert_int_equal(r.rank_upper, 48);
	assert_true(stat_trend(t, flat, 12, .95, &r));
	assert_int_equal(r.s, 4);
	near(r.z, .205718, 5e-7, "flat z");
	near(r.slope, .027083, 5e-7, "flat slope");
	near(r.slope_lower, -.105, 5e-4, "flat lower");
	near(r.slope_upper, .1525, 5e-5, "flat upper");
	assert_false(stat_trend(t, flat, 2, .95, &r));
}

static void a_million_requests_are_judged_in_milliseconds(void **state)
{
	struct timespec a, b;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	struct tail_detail d;
	for (uint64_t t = 9500; t < 10500; t += 100)
		stat_tail_gate(1000000, t, 99, 100, .95, &d);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	assert_true(s < 1); // ten of them; sanitizers included
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(n_min_is_the_smallest_n_that_passes),
		cmocka_unit_test(binomial_tails_agree_to_all_printed_digits),
		cmocka_unit_test(binomial_tails_hold_1e9_relative_up_to_ten_million),
		cmocka_unit_test(binomial_edges_are_exact),
		cmocka_unit_test(both_tails_and_the_mass_add_up),
		cmocka_unit_test(allowed_t_at_p99),
		cmocka_unit_test(fails_from_t),
		cmocka_unit_test(three_way_decisions_with_what_is_missing),
		cmocka_unit_test(nothing_measured_is_inconclusive_never_a_pass),
		cmocka_unit_test(more_over_than_requests_counts_as_all_over),
		cmocka_unit_test(an_exact_tie_passes),
		cmocka_unit_test(order_statistic_ranks),
		cmocka_unit_test(median_ranks_two_sided),
		cmocka_unit_test(the_rank_and_the_gate_agree_for_every_t),
		cmocka_unit_test(power_for_a_true_over_limit_rate),
		cmocka_unit_test(looking_until_it_passes_inflates_the_error),
		cmocka_unit_test(looks_correction),
		cmocka_unit_test(clopper_pearson_upper),
		cmocka_unit_test(clopper_pearson_two_sided_and_wilson),
		cmocka_unit_test(share_gate_agrees_with_its_bound),
		cmocka_unit_test(a_share_limit_of_zero_never_passes_and_one_hit_fails),
		cmocka_unit_test(nearest_rank_is_what_is_displayed),
		cmocka_unit_test(dependent_values_count_for_less),
		cmocka_unit_test(an_ar1_series_of_half_has_a_third_of_its_n),
		cmocka_unit_test(a_rising_series_is_a_leak_and_a_flat_one_is_not),
		cmocka_unit_test(a_million_requests_are_judged_in_milliseconds),
	};
	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
