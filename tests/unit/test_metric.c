/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/metric.h"

static void every_metric_has_a_definition_a_unit_and_statistics(void **state)
{
	(void)state;
	for (const struct metric *m = metrics; m->name; m++) {
		bool has_unit = false;
		for (const struct unit *u = units; u->name; u++)
			has_unit |= u->dim == m->dim;
		assert_true(has_unit);
		assert_non_null(m->says);
		assert_non_null(m->statistics[0]);
		assert_ptr_equal(metric_find(m->name), m); /* no name twice */
		assert_int_equal(m->kind == METRIC_LATER, m->later != NULL);
	}
}

static void every_unit_has_one_name_and_a_size(void **state)
{
	(void)state;
	for (const struct unit *u = units; u->name; u++) {
		assert_ptr_equal(unit_find(u->name), u);
		assert_true(u->to_base > 0);
	}
}

static void metrics_of_the_contract_are_there(void **state)
{
	static const char *const names[] = {
		"ttft",
		"ttft_content",
		"itl",
		"tpot",
		"e2e",
		"send_lag",
		"output_tok_s",
		"request_s",
		"prefill_tok_s",
		"decode_tok_s",
		"failed_share",
		"controls_failed",
		"completed_requests",
		"output_length_mismatch",
		"engine_exits",
		"engine_pss_peak",
		"engine_rss_peak",
		"host_used_peak",
		"cold_start",
		"second_cold_start",
		"restart",
		"rollback",
		"second_to_first_cold_start",
		"device_memory_peak",
		"device_power_mean",
		"wall_power_mean",
		"energy_per_output_tok",
		"leak_slope",
		"prefix_cache_hit_share",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_non_null(metric_find(names[i]));
}

static void unknown_names_find_nothing(void **state)
{
	(void)state;
	assert_null(metric_find("TTFT"));
	assert_null(metric_find(""));
	assert_null(metric_find(NULL));
	assert_null(unit_find("sec"));
	assert_null(unit_find(NULL));
}

static void units_convert_to_their_base(void **state)
{
	static const struct {
		const char *unit;
		double base;
	} table[] = { { "ms", 1e6 },           { "min", 6e10 }, { "%", 0.01 },
		      { "GiB", 1073741824.0 }, { "GB", 1e9 },   { "kWh/Mtok", 3.6 } };
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		double got = unit_find(table[i].unit)->to_base;
		assert_true(got >= table[i].base && got <= table[i].base);
	}
}

static void quantiles_are_exact_fractions(void **state)
{
	static const struct {
		const char *word;
		unsigned num, den;
	} table[] = { { "p50", 50, 100 }, { "median", 50, 100 }, { "p90", 90, 100 },
		      { "p95", 95, 100 }, { "p99", 99, 100 },    { "p999", 999, 1000 } };
	unsigned num = 1, den = 2;
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_true(statistic_quantile(table[i].word, &num, &den));
		assert_int_equal(num, table[i].num);
		assert_int_equal(den, table[i].den);
	}
	num = 1;
	den = 2;
	assert_false(statistic_quantile("mean", &num, &den));
	assert_false(statistic_quantile("p9", &num, &den));
	assert_false(statistic_quantile(NULL, &num, &den));
	assert_int_equal(num, 1);
	assert_int_equal(den, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_metric_has_a_definition_a_unit_and_statistics),
		cmocka_unit_test(every_unit_has_one_name_and_a_size),
		cmocka_unit_test(metrics_of_the_contract_are_there),
		cmocka_unit_test(unknown_names_find_nothing),
		cmocka_unit_test(units_convert_to_their_base),
		cmocka_unit_test(quantiles_are_exact_fractions),
	};
	return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}
