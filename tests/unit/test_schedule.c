// SPDX-License-Identifier: Apache-2.0
#include "model/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void poisson_arrivals_of_seed_42(void **state)
{
	static const uint64_t want_ns[] = { 135311060, 152735732, 185392039, 227580565, 231457784 };
	struct schedule s;
	schedule_init(&s, ARRIVAL_POISSON, 10, 42);
	for (size_t i = 0; i < 5; i++) {
		uint64_t got = schedule_next_ns(&s);
		assert_true(got >= want_ns[i] - 1 && got <= want_ns[i] + 1);
	}
}

static void constant_arrivals_do_not_drift(void **state)
{
	struct schedule s;
	schedule_init(&s, ARRIVAL_CONSTANT, 3, 1);
	assert_int_equal(schedule_next_ns(&s), 0);
	assert_int_equal(schedule_next_ns(&s), 333333333);
	assert_int_equal(schedule_next_ns(&s), 666666667);
	assert_int_equal(schedule_next_ns(&s), 1000000000);
	for (int k = 4; k < 3000; k++)
		schedule_next_ns(&s);
	assert_int_equal(schedule_next_ns(&s), 1000000000000);
}

static void a_tiny_rate_ends_the_schedule_instead_of_wrapping(void **state)
{
	struct schedule s;
	schedule_init(&s, ARRIVAL_CONSTANT, 1e-12, 1);
	schedule_next_ns(&s);
	assert_true(schedule_next_ns(&s) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splitmix64_gives_the_published_numbers),
		cmocka_unit_test(unit_stays_below_one),
		cmocka_unit_test(poisson_arrivals_of_seed_42),
		cmocka_unit_test(constant_arrivals_do_not_drift),
		cmocka_unit_test(a_tiny_rate_ends_the_schedule_instead_of_wrapping),
	};
	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
