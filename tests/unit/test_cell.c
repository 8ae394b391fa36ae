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

/* One workload of base.json changed by what is merged into it. */
static struct plan *with(size_t workload, const char *change)
{
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	auto_problems problems = { 0 };
	auto_json doc = NULL;
	auto_json more = cJSON_Parse(change);
	struct err err = { 0 };
	struct plan *p = NULL;

	assert_non_null(more);
	assert_int_equal(fs_read(&text, "fixtures/plans/base.json", PLAN_BYTES_MAX, &err), 0);
	assert_int_equal(json_parse(&doc, text.p, text.len, "base", JSON_STRICT, NULL, &err), 0);
	struct cJSON *w = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "workloads"), (int)workload);
	while (more->child) {
		struct cJSON *m = cJSON_DetachItemViaPointer(more, more->child);
		cJSON_DeleteItemFromObject(w, m->string);
		if (cJSON_IsNull(m))
			cJSON_Delete(m);
		else
			cJSON_AddItemToObject(w, m->string, m);
	}
	auto_free char *changed = cJSON_PrintUnformatted(doc);
	if (plan_parse(&p, changed, strlen(changed), "t", &problems, &err))
		fail_msg("%s", err.msg);
	return p;
}

static void ids_tell_lengths_and_last_the_load(void **state)
{
	static const struct {
		const char *change, *ids[4];
	} rows[] = {
		{ "{\"arrival\": {\"kind\": \"constant\", \"rate_rps\": 2}}",
		  { "open/64in/8out/constant2" } },
		{ "{\"arrival\": {\"kind\": \"gamma\", \"rate_rps\": 2.5, \"burstiness\": 0.5}}",
		  { "open/64in/8out/gamma2.5-b0.5" } },
		{ "{\"arrival\": {\"kind\": \"ramp\", \"rate_rps\": 1, \"rate_end_rps\": 20}}",
		  { "open/64in/8out/ramp1-20" } },
		{ "{\"arrival\": {\"kind\": \"poisson\", \"rates_rps\": [4, 1, 2.5]}}",
		  { "open/64in/8out/poisson1", "open/64in/8out/poisson2.5", "open/64in/8out/poisson4" } },
		{ "{\"arrival\": {\"kind\": \"trace\", \"trace\": \"t\"}, \"prompt_tok\": null, "
		  "\"output_tok\": null}",
		  { "open/trace" } },
		{ "{\"arrival\": {\"kind\": \"trace\", \"trace\": \"t\", \"speed\": 2}, \"prompt_tok\": "
		  "null, "
		  "\"output_tok\": null}",
		  { "open/trace-x2" } },
		{ "{\"conversation\": {\"turns\": 4}}", { "open/64in/8out/4turns/poisson2.5" } },
		{ "{\"mix\": [{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 9, \"output_tok\": 9}, "
		  "{\"name\": \"b\", "
		  "\"weight\": 1, \"prompt_tok\": 5, \"output_tok\": 9}], \"prompt_tok\": null, "
		  "\"output_tok\": null, "
		  "\"arrival\": null, \"concurrency\": [8, 2], \"conversation\": {\"turns\": 2}}",
		  { "open/mix/2turns/c2", "open/mix/2turns/c8" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_plan p = with(1, rows[i].change);
		size_t n = 0, want = 0;
		auto_free struct cell *cells = cells_of_plan(p, &n);
		for (; want < 4 && rows[i].ids[want]; want++)
			assert_string_equal(cells[4 + want].id, rows[i].ids[want]);
		assert_int_equal(n, 4 + want);
		assert_int_equal(cells_of_workload(&p->workloads[1]), want);
	}
}

static void a_sweep_has_a_cell_a_rate_and_one_is_critical(void **state)
{
	auto_plan p = with(
		0, "{\"arrival\": {\"kind\": \"poisson\", \"rates_rps\": [2, 1, 4]}, \"concurrency\": [9], "
		   "\"critical_concurrency\": null, \"critical_rate_rps\": 2}");
	size_t n = 0;
	auto_free struct cell *cells = cells_of_plan(p, &n);
	static const double rates[] = { 1, 2, 4 };

	(void)state;
	assert_int_equal(n, 7);
	for (size_t i = 0; i < 6; i++) {
		assert_true(cells[i].rate_rps >= rates[i % 3] && cells[i].rate_rps <= rates[i % 3]);
		assert_int_equal(cells[i].critical, i == 1);
		assert_int_equal(cells[i].requests, i == 1 ? 120 : 6);
		assert_int_equal(cells[i].concurrency, 9);
	}
	assert_true(cells[6].rate_rps >= 2.5 && cells[6].rate_rps <= 2.5);
}

static void the_critical_cell_of_a_mix_is_that_of_its_load(void **state)
{
	auto_plan p =
		with(0, "{\"mix\": [{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 9, \"output_tok\": 9}, "
	                "{\"name\": "
	                "\"b\", \"weight\": 1, \"prompt_tok\": 5, \"output_tok\": 9}], \"prompt_tok\": null, "
	                "\"output_tok\": null, \"critical_prompt_tok\": null}");
	size_t n = 0;
	auto_free struct cell *cells = cells_of_plan(p, &n);

	(void)state;
	assert_int_equal(n, 3);
	assert_true(cells[0].critical && !cells[1].critical);
	assert_int_equal(cells[0].prompt_tok, 0);
	assert_int_equal(cells[0].output_tok, 0);
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
		cmocka_unit_test(ids_tell_lengths_and_last_the_load),
		cmocka_unit_test(a_sweep_has_a_cell_a_rate_and_one_is_critical),
		cmocka_unit_test(the_critical_cell_of_a_mix_is_that_of_its_load),
		cmocka_unit_test(a_training_workload_has_no_cells),
	};
	return cmocka_run_group_tests_name("cell", tests, NULL, NULL);
}
