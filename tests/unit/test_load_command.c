/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of `proofmark load`: gaps, bounds, goodput, exit codes, shards' files. */
#include "base/clock.h"
#include "cli/cmd_load.h"
#include "model/schedule.h"
#include "model/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- texts ------------------------------------------------------------------------------------------------
 */

static const struct {
	const char *text;
	uint64_t ns; /* REC_NONE = refused */
} durations[] = {
	{ "800ms", 800 * NS_PER_MS },
	{ "1.5s", 1500 * NS_PER_MS },
	{ "250us", 250 * NS_PER_US },
	{ "30", 30 * NS_PER_S },
	{ "2m", 120 * NS_PER_S },
	{ "2min", 120 * NS_PER_S },
	{ "1h", 3600 * NS_PER_S },
	{ ".5s", 500 * NS_PER_MS },
	{ "0", 0 },
	{ "", REC_NONE },
	{ "s", REC_NONE },
	{ "-1s", REC_NONE },
	{ " 1s", REC_NONE },
	{ "1 s", REC_NONE },
	{ "0x10s", REC_NONE },
	{ "1e3s", REC_NONE },
	{ "inf", REC_NONE },
	{ "nan", REC_NONE },
	{ "721h", REC_NONE },
	{ "1ss", REC_NONE },
};

static void reads_times_with_their_units_and_nothing_else(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		struct err err = { 0 };
		uint64_t ns = 42;
		int rc = load_duration(&ns, durations[i].text, "--x", &err);
		if (rc != (durations[i].ns == REC_NONE ? -1 : 0))
			fail_msg("\"%s\": %s", durations[i].text, err.msg);
		assert_int_equal(ns, rc ? 42 : durations[i].ns);
	}
}

/* --- gaps -------------------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Enough of them to go through the file: 3 bytes each, 16 MiB stay in memory. */
static void order_statistics_of_gaps_are_those_of_sorting(void **state)
{
	enum { N = 6000000 };
	struct splitmix64 rng = { 7 };
	struct gaps *g = gaps_new();
	uint64_t *v = malloc(N * sizeof(*v)), sum = 0,
		 ranks[] = { 1, N / 2, N - N / 100, N, 0, N + 1, STAT_NONE }, at[ARRAY_LEN(ranks)];
	assert_true(g && v);
	for (size_t i = 0; i < N; i++) {
		v[i] = splitmix64_next(&rng) % 20000000 + (i % 1000 == 0 ? 5 * NS_PER_S : 0);
		sum += v[i];
		assert_int_equal(gaps_add(g, v[i]), 0);
	}
	double head[3], sum_ns = 0;
	assert_int_equal(gaps_head(g, head, 3, &sum_ns), 0);
	for (size_t i = 0; i < 3; i++)
		assert_true((uint64_t)head[i] == v[i]);
	assert_true(fabs(sum_ns - (double)sum) <= 1e-9 * (double)sum);
	assert_int_equal(gaps_at(g, ranks, ARRAY_LEN(ranks), at), 0);
	qsort(v, N, sizeof(*v), by_value);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(at[i], v[ranks[i] - 1]);
	for (size_t i = 4; i < ARRAY_LEN(ranks); i++)
		assert_true(at[i] == REC_NONE);
	assert_int_equal(gaps_n(g), N);
	gaps_free(g);
	free(v);
}

static void a_gap_beyond_all_bounds_is_still_the_longest(void **state)
{
	struct gaps *g = gaps_new();
	uint64_t ranks[] = { 1, 2, 3 }, at[3];
	gaps_add(g, UINT64_MAX);
	gaps_add(g, 0);
	gaps_add(g, 5);
	assert_int_equal(gaps_at(g, ranks, 3, at), 0);
	assert_int_equal(at[0], 0);
	assert_int_equal(at[1], 5);
	assert_true(at[2] > 3600 * NS_PER_S);
	gaps_free(g);
}

/* --- summary ----------------------------------------------------------------------------------------------
 */

struct scene {
	struct load_opts o;
	struct buf doc;
	struct plan *plan;
	struct cell *cells;
	struct load_rows rows;
	struct load_part part;
	struct load_slo slo;
	struct load_sum sum;
};

static void scene_open(struct scene *s)
{
	struct err err = { 0 };
	size_t n = 0;
	*s = (struct scene){ .o = { .arrival = ARRIVAL_CLOSED,
		                    .concurrency = 1,
		                    .requests = 1000,
		                    .prompt_tok = 8,
		                    .output_tok = 3,
		                    .connect_s = 1,
		                    .first_byte_s = 1,
		                    .stall_s = 1,
		                    .deadline_s = 9,
		                    .max_lag_ms = 10,
		                    .threads = 1,
		                    .stream = true,
		                    .force_output = true } };
	buf_init(&s->doc, PLAN_BYTES_MAX);
	if (load_plan_make(&s->plan, &s->doc, &s->o, &err) || load_rows_init(&s->rows, &err))
		fail_msg("%s", err.msg);
	s->cells = cells_of_plan(s->plan, &n);
	assert_int_equal(n, 1);
	for (size_t i = 0; i < N_SLOS; i++)
		s->slo.limit_ns[i] = REC_NONE;
	s->slo.required_share = (double)NAN;
	s->part.r = (struct load_result){ .stopped_by = "complete",
		                          .threads = 1,
		                          .wall_ns = NS_PER_S,
		                          .send_lag_p99_ns = 1000,
		                          .loop_lag_p99_ns = 1000,
		                          .runq_wait_ns = 0 };
}

/* One request every 100 ms: TTFT as given, two gaps, E2E = TTFT + both. */
static void add_row(struct scene *s, uint64_t ttft_ms, uint64_t gap_ms, enum outcome outcome)
{
	struct record r;
	uint8_t tokens[30];
	size_t len = 0;
	uint64_t due = s->rows.n * 100 * NS_PER_MS, gap = gap_ms * NS_PER_MS;
	record_init(&r);
	r.k = s->rows.n;
	r.due_ns = r.sent_ns = r.first_sent_ns = due;
	r.outcome = outcome;
	r.http = outcome == OUTCOME_HTTP_STATUS ? 503 : 200;
	r.end_ns = due + 100 * NS_PER_MS;
	r.want_output_tok = 3;
	r.prompt_tok = 8;
	r.attempts = 1;
	if (outcome == OUTCOME_OK) {
		r.first_token_ns = due + ttft_ms * NS_PER_MS;
		r.last_token_ns = r.first_token_ns + 2 * gap;
		r.tok_n = r.reads = 3;
		r.usage_prompt_tok = 8;
		r.usage_output_tok = 3;
		len += leb128_put(tokens, ttft_ms * NS_PER_MS);
		len += leb128_put(tokens + len, gap);
		len += leb128_put(tokens + len, gap);
	} else {
		snprintf(r.detail, sizeof(r.detail), "detail %d", (int)s->rows.n);
	}
	assert_int_equal(load_rows_take(&s->rows, &r, tokens, len, 0), 0);
}

static void scene_sum(struct scene *s)
{
	struct err err = { 0 };
	s->sum = (struct load_sum){ .plan = s->plan,
		                    .cell = s->cells,
		                    .engine_word = "plain",
		                    .exact = true,
		                    .slo = &s->slo,
		                    .n_parts = 1,
		                    .parts = &s->part,
		                    .n_shards = 1 };
	if (load_sum_make(&s->sum, &s->rows, &err))
		fail_msg("%s", err.msg);
}

static void scene_done(struct scene *s)
{
	load_rows_done(&s->rows);
	plan_free(s->plan);
	buf_done(&s->doc);
	free(s->cells);
}

/* statistics: rank of the upper bound of p99 at 95 %: 299 of 299, none of 298; failed ones stand at the end.
 */
static void a_bound_is_an_order_statistic_or_is_not_there(void **state)
{
	static const struct {
		size_t n_ok, n_failed;
		bool p99_bound, p99;
	} cases[] = { { 298, 0, false, true },
		      { 299, 0, true, true },
		      { 299, 1, false, true },
		      { 50, 5, false, false } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct scene s;
		scene_open(&s);
		for (size_t k = 0; k < cases[i].n_ok; k++)
			add_row(&s, 1 + k * 7 % 40, 1, OUTCOME_OK);
		for (size_t k = 0; k < cases[i].n_failed; k++)
			add_row(&s, 0, 0, OUTCOME_RESET);
		scene_sum(&s);
		const struct load_dist *d = &s.sum.dist[FIG_TTFT];
		assert_int_equal(d->n, cases[i].n_ok);
		assert_int_equal(d->n_failed, cases[i].n_failed);
		assert_int_equal(d->upper_ns[LOAD_P99] != REC_NONE, cases[i].p99_bound);
		assert_int_equal(d->value_ns[LOAD_P99] != REC_NONE, cases[i].p99);
		assert_int_equal(d->max_ns, 40 * NS_PER_MS);
		assert_int_equal(s.sum.dist[FIG_ITL].n, 2 * cases[i].n_ok);
		assert_int_equal(s.sum.dist[FIG_ITL].n_failed, 2 * cases[i].n_failed);
		scene_done(&s);
	}
}

static void goodput_is_the_share_that_meets_every_limit(void **state)
{
	static const struct {
		uint64_t ttft_ms, itl_ms, tpot_ms, e2e_ms; /* 0 = not asked */
		uint64_t n_good;
	} cases[] = { { 10, 0, 0, 0, 20 }, { 9, 0, 0, 0, 0 },   { 0, 2, 0, 0, 15 },
		      { 0, 0, 2, 0, 15 },  { 0, 0, 0, 14, 15 }, { 10, 40, 40, 90, 20 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const uint64_t ms[N_SLOS] = { cases[i].ttft_ms, cases[i].itl_ms, cases[i].tpot_ms,
			                      cases[i].e2e_ms };
		struct scene s;
		scene_open(&s);
		for (size_t k = 0; k < 20; k++)
			add_row(&s, 10, k % 4 ? 2 : 40, OUTCOME_OK);
		for (size_t k = 0; k < 5; k++)
			add_row(&s, 0, 0, OUTCOME_STALLED);
		s.slo.any = true;
		for (size_t k = 0; k < N_SLOS; k++)
			s.slo.limit_ns[k] = ms[k] ? ms[k] * NS_PER_MS : REC_NONE;
		scene_sum(&s);
		assert_int_equal(s.sum.goodput.state, GOODPUT_JUDGED);
		assert_int_equal(s.sum.goodput.n, 25);
		assert_int_equal(s.sum.goodput.n_good, cases[i].n_good);
		assert_true(fabs(s.sum.goodput.share_lower - stat_cp_lower(25, cases[i].n_good, .95)) <
		            1e-12);
		scene_done(&s);
	}
}

static void the_worst_thing_decides_the_exit_code(void **state)
{
	static const struct {
		size_t n_ok, n_failed;
		bool lagging, interrupted;
		uint64_t e2e_ms;
		double required;
		int code;
	} cases[] = {
		{ 60, 0, false, false, 0, 0, 0 },    { 60, 1, false, false, 0, 0, 1 },
		{ 0, 3, false, false, 0, 0, 1 },     { 0, 0, false, false, 0, 0, 1 },
		{ 60, 0, true, false, 0, 0, 4 },     { 60, 1, true, false, 0, 0, 1 },
		{ 60, 1, true, true, 0, 0, 130 },    { 60, 0, false, false, 90, .95, 0 },
		{ 10, 0, false, false, 90, .95, 3 }, { 60, 0, false, false, 5, .95, 1 },
		{ 60, 0, true, false, 5, .95, 4 },   { 10, 0, false, false, 90, 1, 0 },
		{ 10, 0, false, false, 5, 1, 1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct scene s;
		scene_open(&s);
		for (size_t k = 0; k < cases[i].n_ok; k++)
			add_row(&s, 50, 25, OUTCOME_OK);
		for (size_t k = 0; k < cases[i].n_failed; k++)
			add_row(&s, 0, 0, OUTCOME_HTTP_STATUS);
		if (cases[i].lagging)
			s.part.r.send_lag_p99_ns = 11 * NS_PER_MS;
		if (cases[i].e2e_ms) {
			s.slo.any = true;
			s.slo.limit_ns[SLO_E2E] = cases[i].e2e_ms * NS_PER_MS + 10 * NS_PER_MS;
			s.slo.required_share = cases[i].required;
		}
		scene_sum(&s);
		s.sum.interrupted = cases[i].interrupted;
		if (load_exit_code(&s.sum) != cases[i].code)
			fail_msg("case %zu: exit %d", i, load_exit_code(&s.sum));
		scene_done(&s);
	}
}

static void failures_are_kept_by_kind_with_the_first_reason(void **state)
{
	struct scene s;
	scene_open(&s);
	add_row(&s, 1, 1, OUTCOME_OK);
	add_row(&s, 0, 0, OUTCOME_HTTP_STATUS);
	add_row(&s, 0, 0, OUTCOME_RESET);
	add_row(&s, 0, 0, OUTCOME_HTTP_STATUS);
	scene_sum(&s);
	assert_int_equal(s.sum.n_failures, 2);
	assert_int_equal(s.sum.failures[0].n, 2);
	assert_int_equal(s.sum.failures[0].http, 503);
	assert_string_equal(s.sum.failures[0].detail, "detail 1");
	assert_string_equal(s.sum.failures[1].detail, "detail 2");
	assert_int_equal(s.sum.n_failed, 3);
	scene_done(&s);
}

/* --- shards -----------------------------------------------------------------------------------------------
 */

static void a_shard_reads_back_as_it_was_written(void **state)
{
	struct scene s;
	struct err err = { 0 };
	struct load_shard back;
	char url[] = "http://h", model[] = "m";
	auto_buf text = BUF_INIT(1u << 20), again = BUF_INIT(1u << 20);
	scene_open(&s);
	struct load_shard sh = { .part = s.part,
		                 .n_shards = 3,
		                 .origin_wall_ns = 1790000000123456789,
		                 .exact = true,
		                 .engine_word = "vllm",
		                 .url = url,
		                 .model = model,
		                 .plan = s.doc,
		                 .slo = s.slo };
	sh.part.shard = 2;
	sh.part.offset_known = true;
	sh.part.offset_ns = -1234567;
	sh.part.r.send_lag_max_ns = REC_NONE;
	sh.part.calibrated = true;
	sh.part.cal.itl_error_p99_ns = 77;
	sh.slo.limit_ns[SLO_ITL] = 5;
	load_shard_write(&text, &sh);
	if (load_shard_read(&back, text.p, text.len, "shard.json", &err))
		fail_msg("%s", err.msg);
	assert_true(back.origin_wall_ns == sh.origin_wall_ns && back.part.offset_ns == -1234567);
	assert_true(back.part.r.send_lag_max_ns == REC_NONE && back.part.cal.itl_error_p99_ns == 77);
	assert_true(back.slo.any && back.slo.limit_ns[SLO_ITL] == 5 &&
	            back.slo.limit_ns[SLO_TTFT] == REC_NONE);
	load_shard_write(&again, &back);
	struct load_shard twice;
	if (load_shard_read(&twice, again.p, again.len, "again", &err))
		fail_msg("%s", err.msg);
	assert_string_equal(back.plan.p, twice.plan.p);
	load_shard_done(&back);
	load_shard_done(&twice);
	for (size_t cut = 0; cut < text.len; cut += 7) /* half a file is no shard, and no crash */
		if (load_shard_read(&back, text.p, cut, "cut", &err) == 0)
			load_shard_done(&back);
	scene_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_times_with_their_units_and_nothing_else),
		cmocka_unit_test(order_statistics_of_gaps_are_those_of_sorting),
		cmocka_unit_test(a_gap_beyond_all_bounds_is_still_the_longest),
		cmocka_unit_test(a_bound_is_an_order_statistic_or_is_not_there),
		cmocka_unit_test(goodput_is_the_share_that_meets_every_limit),
		cmocka_unit_test(the_worst_thing_decides_the_exit_code),
		cmocka_unit_test(failures_are_kept_by_kind_with_the_first_reason),
		cmocka_unit_test(a_shard_reads_back_as_it_was_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
