/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"
#include "model/cell.h"

static struct plan *load(const char *path)
{
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	auto_problems problems = { 0 };
	struct err err = { 0 };
	struct plan *p = NULL;

	assert_int_equal(fs_read(&text, path, PLAN_BYTES_MAX, &err), 0);
	if (plan_parse(&p, text.p, text.len, path, &problems, &err))
		fail_msg("%s", err.msg);
	return p;
}

static void cells_come_in_one_order_with_stable_ids(void **state)
{
	static const struct {
		const char *id;
		uint64_t requests;
		bool critical;
	} want[] = {
		{ "chat/32in/16out/c1", 120, true },       { "chat/32in/16out/c2", 6, false },
		{ "chat/128in/16out/c1", 6, false },       { "chat/128in/16out/c2", 6, false },
		{ "open/64in/8out/poisson2.5", 0, false },
	};
	auto_plan p = load("fixtures/plans/base.json");
	size_t n = 0;
	auto_free struct cell *cells = cells_of_plan(p, &n);

	(void)state;
	assert_int_equal(n, ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(cells[i].id, want[i].id);
		assert_int_equal(cells[i].requests, want[i].requests);
		assert_int_equal(cells[i].critical, want[i].critical);
	}
	assert_ptr_equal(cells[4].wl, &p->workloads[1]);
	assert_int_equal(cells[4].concurrency, 0);
	assert_true(cells[4].duration_s > 29);
}

static void ids_fit_at_the_longest(void **state)
{
	char name[65];
	uint64_t prompt = 100000000, load_n[2] = { 65535, 65536 };
	struct plan_workload w = { .name = name,
		                   .n_prompt_tok = 1,
		                   .prompt_tok = &prompt,
		                   .n_concurrency = 2,
		                   .concurrency = load_n,
		                   .output_tok = 100000000,
		                   .arrival = { .kind = ARRIVAL_POISSON, .rate_rps = 0.000123456789 } };
	struct plan p = { .n_workloads = 1, .workloads = &w };
	size_t n = 0;

	(void)state;
	memset(name, 'n', 64);
	name[64] = '\0';
	auto_free struct cell *cells = cells_of_plan(&p, &n);
	assert_int_equal(n, 2);
	assert_non_null(strstr(cells[0].id, "poisson0.000123456789-c65535"));
	assert_string_not_equal(cells[0].id, cells[1].id);
}

static void a_training_workload_has_no_cells(void **state)
{
	auto_plan p = load("plans/examples/training.json");
	size_t n = 7;
	auto_free struct cell *cells = cells_of_plan(p, &n);

	(void)state;
	assert_non_null(cells);
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells_come_in_one_order_with_stable_ids),
		cmocka_unit_test(ids_fit_at_the_longest),
		cmocka_unit_test(a_training_workload_has_no_cells),
	};
	return cmocka_run_group_tests_name("cell", tests, NULL, NULL);
}
