// SPDX-License-Identifier: Apache-2.0
/* The golden values were computed by a program of its own (Python) from the steps in model/schedule.h. */
#include "model/schedule.h"

#include "base/cleanup.h"
#include "model/record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void splitmix64_gives_the_published_numbers(void **state)
{
	struct splitmix64 s = { 42 };
	assert_true(splitmix64_next(&s) == 0xbdd732262feb6e95u);
	assert_true(splitmix64_next(&s) == 0x28efe333b266f103u);
	assert_true(splitmix64_next(&s) == 0x47526757130f9f52u);
}

static void unit_stays_below_one(void **state)
{
	struct splitmix64 s = { 7 };
	for (int i = 0; i < 100000; i++) {
		double u = splitmix64_unit(&s);
		assert_true(u >= 0 && u < 1);
	}
}

static void logarithm_and_exponential_are_those_of_the_library_but_for_the_last_bits(void **state)
{
	for (int i = 1; i < 20000; i++) {
		double y = i / 9973.0, x = -i / 41.0;
		assert_true(fabs(sched_ln(y) - log(y)) <= 4e-16 * fmax(1, fabs(log(y))));
		assert_true(fabs(sched_exp(x) - exp(x)) <= 1e-15 * exp(x));
	}
	assert_true(fabs(sched_ln(0x1p-53) - log(0x1p-53)) < 1e-14);
	assert_true(sched_ln(1) >= 0 && sched_ln(1) <= 0);
	assert_true(sched_exp(-1e6) <= 0);
}

// --- arrivals ------------------------------------------------------------------------------------------

static struct arrivals start(enum arrival kind, uint64_t seed, double rate, double rate_end,
                             double burstiness, double duration_s)
{
	struct plan_arrival a = {
		.kind = kind, .seed = seed, .rate_end_rps = rate_end, .burstiness = burstiness
	};
	struct arrivals s;
	arrivals_init(&s, &a, rate, duration_s);
	return s;
}

static void first_arrivals_are_those_that_a_stranger_computes(void **state)
{
	static const struct {
		enum arrival kind;
		uint64_t seed;
		double rate, rate_end, burstiness, duration_s;
		uint64_t want_ns[5];
	} rows[] = {
		{ ARRIVAL_POISSON,
		  42,
		  10,
		  0,
		  1,
		  0,
		  { 135311060, 152735732, 185392039, 227580565, 231457784 } },
		{ ARRIVAL_GAMMA,
		  42,
		  10,
		  0,
		  0.5,
		  0,
		  { 153473698, 171809094, 180853504, 280147727, 388737605 } },
		{ ARRIVAL_GAMMA, 42, 10, 0, 4, 0, { 117347809, 204238670, 270006001, 387826210, 607043632 } },
		{ ARRIVAL_RAMP,
		  42,
		  1,
		  20,
		  1,
		  60,
		  { 1145390153, 1271412932, 1498420338, 1776252459, 1801004892 } },
		{ ARRIVAL_RAMP, 7, 20, 1, 1, 60, { 24705695, 25552573, 141216327, 185054656, 215264732 } },
	};
	for (size_t i = 0; i < LEN(rows); i++) {
		struct arrivals s = start(rows[i].kind, rows[i].seed, rows[i].rate, rows[i].rate_end,
		                          rows[i].burstiness, rows[i].duration_s);
		for (size_t k = 0; k < 5; k++)
			assert_int_equal(arrivals_next_ns(&s), rows[i].want_ns[k]);
	}
}

static void constant_arrivals_do_not_drift(void **state)
{
	struct arrivals s = start(ARRIVAL_CONSTANT, 1, 3, 0, 1, 0);
	assert_int_equal(arrivals_next_ns(&s), 0);
	assert_int_equal(arrivals_next_ns(&s), 333333333);
	assert_int_equal(arrivals_next_ns(&s), 666666667);
	assert_int_equal(arrivals_next_ns(&s), 1000000000);
	for (int k = 4; k < 3000; k++)
		arrivals_next_ns(&s);
	assert_int_equal(arrivals_next_ns(&s), 1000000000000);
}

static void a_tiny_rate_ends_the_schedule_instead_of_wrapping(void **state)
{
	static const enum arrival kinds[] = { ARRIVAL_CONSTANT, ARRIVAL_POISSON, ARRIVAL_GAMMA };
	for (size_t i = 0; i < LEN(kinds); i++) {
		struct arrivals s = start(kinds[i], 1, 1e-12, 0, 0.5, 0);
		arrivals_next_ns(&s);
		assert_true(arrivals_next_ns(&s) == UINT64_MAX);
	}
}

/* Mean b x scale, variance b x scale^2; the bounds are five standard errors of 10^5 draws. */
static void gamma_gaps_have_the_mean_and_variance_of_their_shape(void **state)
{
	static const double shapes[] = { 0.25, 0.5, 1, 2, 10 };
	enum { N = 100000 };
	for (size_t i = 0; i < LEN(shapes); i++) {
		struct arrivals s = start(ARRIVAL_GAMMA, 11, 5, 0, shapes[i], 0);
		double before = 0, sum = 0, squares = 0;
		for (int k = 0; k < N; k++) {
			arrivals_next_ns(&s);
			double gap = (s.next_s - before) * 5; /* mean 1, variance 1 / b */
			before = s.next_s;
			sum += gap;
			squares += gap * gap;
		}
		double mean = sum / N, var = squares / N - mean * mean, want = 1 / shapes[i];
		double kurtosis = 3 + 6 / shapes[i];
		assert_true(fabs(mean - 1) < 5 * sqrt(want / N));
		assert_true(fabs(var - want) < 5 * want * sqrt((kurtosis - 1) / N));
	}
}

/* Of a ramp from 10 to 30 over 1000 s, 7500 are due in the first half and 12500 in the second; the bounds
 * are five standard deviations. */
static void a_ramp_has_its_share_in_each_half(void **state)
{
	static const double rates[][2] = { { 10, 30 }, { 30, 10 }, { 20, 20 } };
	for (size_t i = 0; i < LEN(rates); i++) {
		double a = rates[i][0], b = rates[i][1], middle = (a + b) / 2;
		double want[2] = { 500 * (a + middle) / 2, 500 * (middle + b) / 2 }, got[2] = { 0 };
		struct arrivals s = start(ARRIVAL_RAMP, 3, a, b, 1, 1000);
		uint64_t due, last = 0;
		while ((due = arrivals_next_ns(&s)) != UINT64_MAX) {
			assert_true(due >= last && due < 1000000000000);
			last = due;
			got[due >= 500000000000]++;
		}
		for (int h = 0; h < 2; h++)
			assert_true(fabs(got[h] - want[h]) < 5 * sqrt(want[h]));
	}
}

// --- the schedule of a cell ----------------------------------------------------------------------------

static char name_w[] = "w", name_a[] = "a", name_b[] = "b", name_c[] = "c";

static struct plan_workload workload(enum arrival kind)
{
	return (struct plan_workload){
		.name = name_w,
		.arrival = { .kind = kind, .seed = 42, .burstiness = 1, .speed = 1, .rate_rps = 10 },
		.warmup_requests = 3,
	};
}

static struct cell cell_of(const struct plan_workload *wl, uint64_t requests, double duration_s)
{
	return (struct cell){ .id = "w/x",
		              .wl = wl,
		              .prompt_tok = wl->n_mix ? 0 : 512,
		              .output_tok = wl->n_mix ? 0 : 64,
		              .concurrency = 4,
		              .rate_rps = wl->arrival.rate_rps,
		              .requests = requests,
		              .duration_s = duration_s };
}

static struct sched *make(const struct cell *cell, const struct trace *trace, bool warmup)
{
	struct err err = { 0 };
	struct sched *s = NULL;
	if (sched_make(&s, cell, trace, warmup, &err))
		fail_msg("%s", err.msg);
	return s;
}

static struct sched_item item(const struct sched *s, uint64_t k)
{
	struct sched_item i;
	assert_true(sched_item_at(s, k, &i));
	assert_int_equal(i.k, k);
	return i;
}

static void a_closed_loop_has_as_many_as_asked_and_no_times(void **state)
{
	struct plan_workload wl = workload(ARRIVAL_CLOSED);
	struct cell c = cell_of(&wl, 5, 0);
	auto_sched s = make(&c, NULL, false);
	struct sched_item i;
	assert_int_equal(sched_count(s), 5);
	i = item(s, 4);
	assert_true(i.due_ns == REC_NONE && i.conv == REC_NONE && i.turn == REC_NONE && i.part == REC_NONE);
	assert_int_equal(i.prompt_tok, 512);
	assert_int_equal(i.output_tok, 64);
	assert_false(i.canary);
	assert_false(sched_item_at(s, 5, &i));
}

static void a_closed_loop_by_time_has_no_last_one(void **state)
{
	struct plan_workload wl = workload(ARRIVAL_CLOSED);
	struct cell c = cell_of(&wl, 0, 3);
	auto_sched s = make(&c, NULL, false);
	assert_true(sched_count(s) == UINT64_MAX);
	item(s, UINT64_C(1) << 60);
}

static void an_open_loop_ends_by_its_number_or_its_time(void **state)
{
	struct plan_workload wl = workload(ARRIVAL_CONSTANT);
	static const struct {
		uint64_t requests;
		double duration_s;
		uint64_t want;
	} rows[] = { { 25, 0, 25 }, { 0, 2, 20 }, { 25, 2, 20 }, { 7, 2, 7 }, { 0, 1e-9, 1 } };
	for (size_t i = 0; i < LEN(rows); i++) {
		struct cell c = cell_of(&wl, rows[i].requests, rows[i].duration_s);
		auto_sched s = make(&c, NULL, false);
		assert_int_equal(sched_count(s), rows[i].want);
		assert_int_equal(item(s, rows[i].want - 1).due_ns, (rows[i].want - 1) * 100000000);
	}
}

static void the_rate_is_the_cells(void **state)
{
	double rates[] = { 5, 20 };
	struct plan_workload wl = workload(ARRIVAL_CONSTANT);
	wl.arrival.n_rates = 2;
	wl.arrival.rates_rps = rates;
	struct cell c = cell_of(&wl, 4, 0);
	c.rate_rps = 20;
	auto_sched s = make(&c, NULL, false);
	assert_int_equal(item(s, 3).due_ns, 150000000);
}

static void any_order_gives_the_same_items(void **state)
{
	struct plan_mix_part mix[] = { { name_a, 1, 100, 30 },
		                       { name_b, 2, 200, 40 },
		                       { name_c, 1, 300, 50 } };
	struct plan_workload wl = workload(ARRIVAL_POISSON);
	wl.mix = mix;
	wl.n_mix = 3;
	wl.canary_share = 0.25;
	struct cell c = cell_of(&wl, 400, 0);
	auto_sched up = make(&c, NULL, false);
	auto_sched down = make(&c, NULL, false);
	for (uint64_t k = 400; k-- > 0;) {
		struct sched_item a = item(up, 399 - k), b = item(up, k), d = item(down, k);
		assert_int_equal(a.k, 399 - k);
		assert_true(b.due_ns == d.due_ns && b.part == d.part && b.canary == d.canary);
	}
}

static void parts_and_canaries_are_those_that_a_stranger_draws(void **state)
{
	static const uint64_t load[] = { 0, 2, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0 };
	static const uint64_t warm[] = { 1, 1, 1, 0, 2, 0, 2, 2, 1, 2, 0, 1 };
	static const uint64_t canaries[] = { 1, 4, 12, 15, 21 };
	struct plan_mix_part mix[] = { { name_a, 1, 100, 30 },
		                       { name_b, 2, 200, 40 },
		                       { name_c, 1, 300, 50 } };
	struct plan_workload wl = workload(ARRIVAL_CLOSED);
	wl.mix = mix;
	wl.n_mix = 3;
	wl.canary_share = 0.25;
	wl.warmup_requests = 12;
	struct cell c = cell_of(&wl, 24, 0);
	auto_sched s = make(&c, NULL, false);
	auto_sched w = make(&c, NULL, true);
	for (uint64_t k = 0; k < 12; k++) {
		struct sched_item i = item(s, k);
		assert_int_equal(i.part, load[k]);
		assert_int_equal(i.prompt_tok, mix[load[k]].prompt_tok);
		assert_int_equal(i.output_tok, mix[load[k]].output_tok);
		assert_int_equal(item(w, k).part, warm[k]);
		assert_false(item(w, k).canary);
	}
	for (uint64_t k = 0, n = 0; k < 24; k++) {
		bool want = n < LEN(canaries) && canaries[n] == k;
		assert_int_equal(item(s, k).canary, want);
		n += want;
	}
}

static void a_mix_and_canaries_keep_their_shares(void **state)
{
	enum { N = 100000 };
	struct plan_mix_part mix[] = { { name_a, 0.5, 1, 30 }, { name_b, 2, 1, 30 }, { name_c, 7.5, 1, 30 } };
	struct plan_workload wl = workload(ARRIVAL_CLOSED);
	wl.mix = mix;
	wl.n_mix = 3;
	wl.canary_share = 0.1;
	struct cell c = cell_of(&wl, N, 0);
	auto_sched s = make(&c, NULL, false);
	double n[3] = { 0 }, canaries = 0, both = 0;
	for (uint64_t k = 0; k < N; k++) {
		struct sched_item i = item(s, k);
		n[i.part]++;
		canaries += i.canary;
		both += i.canary && i.part == 2;
	}
	for (int i = 0; i < 3; i++) {
		double share = mix[i].weight / 10;
		assert_true(fabs(n[i] / N - share) < 5 * sqrt(share * (1 - share) / N));
	}
	assert_true(fabs(canaries / N - 0.1) < 5 * sqrt(0.09 / N));
	assert_true(fabs(both / N - 0.075) < 5 * sqrt(0.075 * 0.925 / N)); /* independent draws */
}

static void an_answer_too_short_for_a_nonce_is_no_canary(void **state)
{
	struct plan_workload wl = workload(ARRIVAL_CLOSED);
	wl.canary_share = 1;
	struct cell c = cell_of(&wl, 10, 0);
	c.output_tok = 23;
	auto_sched shorter = make(&c, NULL, false);
	assert_false(item(shorter, 3).canary);
	c.output_tok = 24;
	assert_true(item(shorter, 3).canary);
}

static void turns_of_a_conversation_follow_each_other(void **state)
{
	struct plan_mix_part mix[] = { { name_a, 1, 100, 30 }, { name_b, 1, 200, 40 } };
	struct plan_workload wl = workload(ARRIVAL_CONSTANT);
	wl.conversation = (struct plan_conversation){ .turns = 3, .turn_prompt_tok = 32 };
	wl.mix = mix;
	wl.n_mix = 2;
	wl.canary_share = 1.0 / 3;
	struct cell c = cell_of(&wl, 30, 0);
	auto_sched s = make(&c, NULL, false);
	uint64_t n_first = 0;
	assert_int_equal(sched_count(s), 30);
	for (uint64_t k = 0; k < 30; k++) {
		struct sched_item i = item(s, k), first = item(s, k - k % 3);
		assert_int_equal(i.conv, k / 3);
		assert_int_equal(i.turn, k % 3);
		assert_int_equal(i.part, first.part);
		assert_int_equal(i.output_tok, mix[i.part].output_tok);
		assert_int_equal(i.canary, i.turn == 2); /* so that no later turn holds its nonce */
		if (i.turn == 0) {
			assert_int_equal(i.due_ns, i.conv * 100000000);
			assert_int_equal(i.prompt_tok, mix[i.part].prompt_tok);
		} else {
			assert_true(i.due_ns == REC_NONE && i.prompt_tok == REC_NONE);
		}
		n_first += i.part == 0;
	}
	assert_true(n_first > 0 && n_first < 30);
	auto_sched w = make(&c, NULL, true);
	assert_int_equal(sched_count(w), 3);
	assert_true(item(w, 2).conv == REC_NONE && item(w, 2).due_ns == REC_NONE);
}

static struct trace three_rows(void)
{
	static uint64_t hashes[] = { 9, 8, 7 };
	static struct trace_row rows[] = { { 0, 100, 10, 0, 2 },
		                           { 1500000000, 200, 30, 2, 1 },
		                           { 3000000000, 300, 50, 3, 0 } };
	return (struct trace){ .n = 3, .rows = rows, .n_hashes = 3, .hashes = hashes };
}

static void a_trace_gives_times_lengths_and_hashes(void **state)
{
	struct trace t = three_rows();
	struct plan_workload wl = workload(ARRIVAL_TRACE);
	wl.arrival.speed = 2;
	wl.arrival.rate_rps = 0;
	wl.warmup_requests = 5;
	struct cell c = cell_of(&wl, 0, 0);
	auto_sched s = make(&c, &t, false);
	assert_int_equal(sched_count(s), 3);
	struct sched_item i = item(s, 1);
	assert_int_equal(i.due_ns, 750000000);
	assert_int_equal(i.prompt_tok, 200);
	assert_int_equal(i.output_tok, 30);
	assert_int_equal(i.n_hashes, 1);
	assert_int_equal(i.hashes[0], 7);
	auto_sched w = make(&c, &t, true);
	assert_int_equal(sched_count(w), 5);
	assert_int_equal(item(w, 4).prompt_tok, 200);
	assert_int_equal(item(w, 0).n_hashes, 0);
	c.requests = 2;
	auto_sched two = make(&c, &t, false);
	assert_int_equal(sched_count(two), 2);
	c.requests = 0;
	c.duration_s = 1.5; /* rows before the end, at the speed of the replay */
	auto_sched by_time = make(&c, &t, false);
	assert_int_equal(sched_count(by_time), 2);
}

static void refuses_what_it_cannot_make(void **state)
{
	struct plan_workload open = workload(ARRIVAL_CONSTANT), trace = workload(ARRIVAL_TRACE);
	open.arrival.rate_rps = 1e6;
	struct cell too_many = cell_of(&open, 0, 21), no_trace = cell_of(&trace, 0, 0);
	struct sched *s = NULL;
	struct err err = { 0 };
	assert_int_equal(sched_make(&s, &too_many, NULL, false, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_non_null(strstr(err.msg, "more than 20000000 requests"));
	assert_int_equal(sched_make(&s, &no_trace, NULL, false, &err), -1);
	assert_non_null(strstr(err.msg, "no trace"));
	assert_null(s);
}

static void a_line_has_null_for_what_is_not_known(void **state)
{
	auto_buf b = BUF_INIT(1000);
	struct sched_item i = { .k = 3,
		                .due_ns = REC_NONE,
		                .prompt_tok = REC_NONE,
		                .output_tok = 64,
		                .conv = 1,
		                .turn = 1,
		                .part = REC_NONE,
		                .canary = true };
	sched_line(&b, "chat/512in/64out/2turns/c8", "load", &i);
	assert_string_equal(b.p,
	                    "{\"cell\":\"chat/512in/64out/2turns/c8\",\"kind\":\"load\",\"k\":3,"
	                    "\"due_ns\":null,\"prompt_tok\":null,\"output_tok\":64,\"conv\":1,\"turn\":1,"
	                    "\"part\":null,\"canary\":true}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splitmix64_gives_the_published_numbers),
		cmocka_unit_test(unit_stays_below_one),
		cmocka_unit_test(logarithm_and_exponential_are_those_of_the_library_but_for_the_last_bits),
		cmocka_unit_test(first_arrivals_are_those_that_a_stranger_computes),
		cmocka_unit_test(constant_arrivals_do_not_drift),
		cmocka_unit_test(a_tiny_rate_ends_the_schedule_instead_of_wrapping),
		cmocka_unit_test(gamma_gaps_have_the_mean_and_variance_of_their_shape),
		cmocka_unit_test(a_ramp_has_its_share_in_each_half),
		cmocka_unit_test(a_closed_loop_has_as_many_as_asked_and_no_times),
		cmocka_unit_test(a_closed_loop_by_time_has_no_last_one),
		cmocka_unit_test(an_open_loop_ends_by_its_number_or_its_time),
		cmocka_unit_test(the_rate_is_the_cells),
		cmocka_unit_test(any_order_gives_the_same_items),
		cmocka_unit_test(parts_and_canaries_are_those_that_a_stranger_draws),
		cmocka_unit_test(a_mix_and_canaries_keep_their_shares),
		cmocka_unit_test(an_answer_too_short_for_a_nonce_is_no_canary),
		cmocka_unit_test(turns_of_a_conversation_follow_each_other),
		cmocka_unit_test(a_trace_gives_times_lengths_and_hashes),
		cmocka_unit_test(refuses_what_it_cannot_make),
		cmocka_unit_test(a_line_has_null_for_what_is_not_known),
	};
	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
