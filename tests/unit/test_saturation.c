// SPDX-License-Identifier: Apache-2.0
/* Rows of a made queue: Poisson arrivals, k servers with exponential service times, first come first served.
 */
#include "model/saturation.h"

#include "model/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define N_MAX 20000
#define N_SERVERS 8
#define SEEDS 20

static struct record rows[N_MAX];
static const struct record *list[N_MAX];

static struct saturation_result judge(size_t n)
{
	for (size_t i = 0; i < n; i++) /* not in order */
		list[(i * 7919) % n] = &rows[i];
	return saturation_of(list, n);
}

static uint64_t ns(double s)
{
	return (uint64_t)(s * 1e9);
}

static void put(size_t i, double due_s, double first_s, double end_s)
{
	record_init(&rows[i]);
	rows[i].kind = REC_LOAD;
	rows[i].outcome = OUTCOME_OK;
	rows[i].due_ns = ns(due_s);
	rows[i].first_token_ns = ns(first_s);
	rows[i].end_ns = ns(end_s);
}

static double exponential(struct splitmix64 *s, double mean)
{
	return -log1p(-splitmix64_unit(s)) * mean;
}

/* Rate 1 request a second a server is served; `load` times that comes. */
static void make_queue(size_t n, double load, uint64_t seed)
{
	struct splitmix64 s = { seed };
	double free_at[N_SERVERS] = { 0 }, due = 5;
	for (size_t i = 0; i < n; i++) {
		size_t best = 0;
		due += exponential(&s, 1 / (load * N_SERVERS));
		for (size_t k = 1; k < N_SERVERS; k++)
			if (free_at[k] < free_at[best])
				best = k;
		double begin = fmax(due, free_at[best]);
		free_at[best] = begin + exponential(&s, 1);
		put(i, due, begin + 0.05 * (free_at[best] - begin), free_at[best]);
	}
}

static void a_queue_below_its_capacity_is_not_saturated(void **state)
{
	static const double loads[] = { 0.2, 0.5, 0.7, 0.8 };
	for (size_t l = 0; l < sizeof(loads) / sizeof(loads[0]); l++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			make_queue(4000, loads[l], seed);
			struct saturation_result r = judge(4000);
			assert_int_equal(r.state, SATURATION_NO);
			assert_int_equal(r.n_parts, 20);
		}
}

static void a_queue_above_its_capacity_is_saturated(void **state)
{
	static const double loads[] = { 1.2, 1.5, 3 };
	for (size_t l = 0; l < sizeof(loads) / sizeof(loads[0]); l++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			make_queue(4000, loads[l], seed);
			struct saturation_result r = judge(4000);
			double slope = N_SERVERS * (loads[l] - 1);
			assert_int_equal(r.state, SATURATION_YES);
			assert_true(r.p_in_flight < 0.01 && r.p_ttft < 0.01 && r.in_flight_growth > 0.5);
			assert_true(r.in_flight_slope_per_s > slope * 0.5 &&
			            r.in_flight_slope_per_s < slope * 1.5);
			assert_true(r.ttft_slope_ms_per_s > 0);
		}
}

static void few_requests_or_parts_are_not_known(void **state)
{
	make_queue(4000, 3, 1);
	assert_int_equal(judge(59).state, SATURATION_UNKNOWN);
	assert_true(isnan(judge(59).p_in_flight));
	assert_int_equal(judge(60).state, SATURATION_YES);
	assert_int_equal(judge(0).state, SATURATION_UNKNOWN);
	for (size_t i = 0; i < 100; i++) /* seven bursts */
		put(i, (double)(i % 7), (double)(i % 7) + 1, (double)(i % 7) + 2);
	assert_int_equal(judge(100).n_parts, 7);
	assert_int_equal(judge(100).state, SATURATION_UNKNOWN);
	for (size_t i = 0; i < 100; i++) /* all at once */
		put(i, 1, 2, 3);
	assert_int_equal(judge(100).state, SATURATION_UNKNOWN);
}

static void a_constant_number_in_flight_is_not_saturated(void **state)
{
	struct splitmix64 s = { 3 };
	double free_at[16] = { 0 };
	for (size_t i = 0; i < 2000; i++) {
		double *slot = &free_at[i % 16], due = *slot;
		*slot += 0.5 + splitmix64_unit(&s) * 0.1;
		put(i, due, due + 0.1 + splitmix64_unit(&s) * 0.01, *slot);
	}
	assert_int_equal(judge(2000).state, SATURATION_NO);
}

/* Slow until 10 % of the time has gone, then as ever; and the other way round the number only fills up. */
static void a_transient_at_the_start_is_not_saturated(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct splitmix64 s = { seed };
		for (size_t i = 0; i < 2000; i++) {
			double due = (double)i * 0.05, slow = i < 200 ? 3 : 1, fill = i < 200 ? 0.3 : 1;
			double took = slow + exponential(&s, 0.5);
			put(i, due, due + took * 0.3 * fill, due + took * fill);
		}
		assert_int_equal(judge(2000).state, SATURATION_NO);
	}
}

static void a_small_steady_rise_is_not_saturated(void **state)
{
	for (size_t i = 0; i < 2000; i++) { /* e2e grows by a quarter: significant, but no queue */
		double due = (double)i * 0.05, took = 2 + 0.5 * (double)i / 2000;
		put(i, due, due + took / 4, due + took);
	}
	struct saturation_result r = judge(2000);
	assert_true(r.p_in_flight < 0.01 && r.p_ttft < 0.01 && r.in_flight_growth < 0.5);
	assert_int_equal(r.state, SATURATION_NO);
}

static void timeouts_count_and_quick_refusals_do_not(void **state)
{
	make_queue(2000, 2, 5);
	for (size_t i = 0; i < 2000; i++)
		if (rows[i].first_token_ns - rows[i].due_ns > ns(20)) {
			rows[i].outcome = OUTCOME_TIMEOUT;
			rows[i].first_token_ns = REC_NONE;
			rows[i].end_ns = rows[i].due_ns + ns(20);
		}
	assert_int_equal(judge(2000).n_parts, 20);
	for (size_t i = 0; i < 2000; i++) {
		rows[i].outcome = OUTCOME_HTTP_STATUS;
		rows[i].first_token_ns = REC_NONE;
		rows[i].end_ns = rows[i].due_ns + 1000000;
	}
	struct saturation_result r = judge(2000);
	assert_int_equal(r.n_parts, 0);
	assert_int_equal(r.state, SATURATION_UNKNOWN);
}

static void answers_that_are_not_streamed_count_with_their_end(void **state)
{
	make_queue(2000, 2, 5);
	for (size_t i = 0; i < 2000; i++)
		rows[i].first_token_ns = REC_NONE;
	assert_int_equal(judge(2000).state, SATURATION_YES);
}

static void what_never_ended_is_in_flight_to_the_end(void **state)
{
	for (size_t i = 0; i < 200; i++) {
		put(i, (double)i, (double)i + 1, (double)i + 2);
		rows[i].end_ns = REC_NONE;
	}
	struct saturation_result r = judge(200);
	assert_true(r.in_flight_slope_per_s > 0.9 && r.in_flight_slope_per_s < 1.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_below_its_capacity_is_not_saturated),
		cmocka_unit_test(a_queue_above_its_capacity_is_saturated),
		cmocka_unit_test(few_requests_or_parts_are_not_known),
		cmocka_unit_test(a_constant_number_in_flight_is_not_saturated),
		cmocka_unit_test(a_transient_at_the_start_is_not_saturated),
		cmocka_unit_test(a_small_steady_rise_is_not_saturated),
		cmocka_unit_test(timeouts_count_and_quick_refusals_do_not),
		cmocka_unit_test(answers_that_are_not_streamed_count_with_their_end),
		cmocka_unit_test(what_never_ended_is_in_flight_to_the_end),
	};
	return cmocka_run_group_tests_name("saturation", tests, NULL, NULL);
}
