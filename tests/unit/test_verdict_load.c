/* SPDX-License-Identifier: Apache-2.0 */
/* What a verdict says of the load itself: canaries, conversations, delivered load, calibration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../golden/made_run.h"
#include "model/engine_metrics.h"
#include "model/verdict.h"

#define CRIT(metric, statistic, cmp, value, unit, more)                                                      \
	"{\"id\": \"x\", \"sentence\": \"As x says\", \"metric\": \"" metric                                 \
	"\", \"statistic\": \"" statistic "\", \"comparator\": \"" cmp "\", \"limit\": {\"value\": " value   \
	", \"unit\": \"" unit "\"}" more "}"
#define P90 CRIT("ttft", "p90", "<=", "250", "ms", "")
#define TALK ", \"where\": {\"workload\": \"talk\"}"
#define OPEN ", \"where\": {\"workload\": \"open\", \"rate_rps\": 4}"
#define OPEN_NEXT ", \"where\": {\"workload\": \"open\", \"rate_rps\": 8}"
#define MORE .requests = 60, .n = 60, .more = true

static const struct expect {
	const char *name;
	struct made_run run;
	enum crit_state state; /* of the first criterion */
	uint64_t n, t;
	const char *reason; /* part of its reason */
} table[] = {
	{ "a_foreign_nonce_fails_the_count",
	  { MORE, .criteria = CRIT("foreign_nonces", "count", "==", "0", "count", ""),
	    .with = { .leak = true } },
	  STATE_FAIL,
	  20,
	  2,
	  "2 count breaks" },
	{ "no_foreign_nonce_passes",
	  { MORE, .criteria = CRIT("foreign_nonces", "count", "==", "0", "count", "") },
	  STATE_PASS,
	  18,
	  0,
	  NULL },
	{ "a_canary_without_its_nonce_failed",
	  { MORE, .criteria = CRIT("canary_failed_share", "share", "==", "0", "%", TALK),
	    .with = { .deaf = true } },
	  STATE_FAIL,
	  16,
	  1,
	  NULL },
	{ "canaries_that_know_their_nonce_pass",
	  { MORE, .criteria = CRIT("canary_failed_share", "share", "<=", "20", "%", TALK) },
	  STATE_PASS,
	  16,
	  0,
	  "0 of 16 canaries failed" },
	{ "a_text_in_a_circle_is_suspicious",
	  { MORE, .criteria = CRIT("suspicious_answer_share", "share", "<=", "10", "%", TALK),
	    .with = { .repeats = true } },
	  STATE_PASS,
	  80,
	  2,
	  "look corrupt" },
	{ "turns_never_asked_count_as_failed",
	  { MORE, .criteria = CRIT("failed_share", "share", "<=", "10", "%", TALK), .with = { .cut = true } },
	  STATE_PASS,
	  80,
	  2,
	  NULL },
	{ "turns_never_asked_are_over_every_limit",
	  { MORE, .criteria = CRIT("e2e", "p90", "<=", "900", "ms", TALK), .with = { .cut = true } },
	  STATE_PASS,
	  80,
	  2,
	  "failed ones included" },
	{ "requests_that_were_sent_again_are_counted",
	  { MORE, .criteria = CRIT("retried_share", "share", "<=", "10", "%", TALK) },
	  STATE_PASS,
	  80,
	  2,
	  "sent again" },
	{ "the_cache_is_told_by_the_engine",
	  { MORE, .criteria = CRIT("prefix_cache_hit_share", "share", ">=", "59.9", "%", TALK) },
	  STATE_PASS,
	  80,
	  0,
	  "60 %" },
	{ "an_untold_cache_is_not_tested",
	  { MORE, .criteria = CRIT("prefix_cache_hit_share", "share", ">=", "1", "%", OPEN) },
	  STATE_NOT_TESTED,
	  70,
	  0,
	  "neither the engine's metrics" },
	{ "delivered_load_passes",
	  { MORE, .criteria = CRIT("delivered_share", "value", ">=", "0.99", "share", TALK) },
	  STATE_PASS,
	  80,
	  0,
	  NULL },
	{ "a_rate_that_was_not_delivered_makes_the_cell_invalid",
	  { MORE, .criteria = CRIT("request_s", "value", ">=", "1", "requests/s", OPEN),
	    .plan_extra = ", \"instrument\": {\"max_send_lag_ms\": 1000}", .with = { .slow_send = true } },
	  STATE_INVALID,
	  0,
	  0,
	  "less load than planned" },
	{ "requests_that_leave_late_make_the_cell_invalid",
	  { MORE, .criteria = CRIT("e2e", "p90", "<=", "900", "ms", OPEN), .with = { .slow_send = true } },
	  STATE_INVALID,
	  0,
	  0,
	  "requests left late" },
	{ "spacing_is_that_of_the_sends",
	  { MORE, .criteria = CRIT("spacing_error", "p90", "<=", "1.9", "ms", OPEN),
	    .plan_extra = ", \"instrument\": {\"max_send_lag_ms\": 1000, \"min_delivered_share\": 0.5}",
	    .with = { .slow_send = true } },
	  STATE_FAIL,
	  69,
	  69,
	  "69 of 69 distances" },
	{ "no_success_fails_a_latency",
	  { MORE, .criteria = CRIT("e2e", "p90", "<=", "900", "ms", OPEN), .with = { .all_fail = true } },
	  STATE_FAIL,
	  70,
	  70,
	  "no request completed" },
	{ "no_success_fails_a_rate",
	  { MORE, .criteria = CRIT("request_s", "value", ">=", "0.1", "requests/s", OPEN),
	    .with = { .all_fail = true } },
	  STATE_FAIL,
	  0,
	  0,
	  "most of them by http_status" },
	{ "a_rate_that_was_left_out_is_not_tested",
	  { MORE, .criteria = CRIT("e2e", "p90", "<=", "900", "ms", OPEN_NEXT) },
	  STATE_NOT_TESTED,
	  0,
	  0,
	  "over-saturated at" },
	{ "without_calibration_a_cell_is_invalid",
	  { .requests = 60, .n = 60, .criteria = P90, .no_calibration = true },
	  STATE_INVALID,
	  0,
	  0,
	  "calibration before and after" },
	{ "a_plan_without_calibration_needs_none",
	  { .requests = 60,
	    .n = 60,
	    .criteria = P90,
	    .no_calibration = true,
	    .plan_extra = ", \"instrument\": {\"calibration_s\": 0}" },
	  STATE_PASS,
	  60,
	  0,
	  NULL },
	{ "a_calibration_over_its_bound_makes_cells_invalid",
	  { .requests = 60, .n = 60, .criteria = P90, .ttft_error_ns = 11 * MAKER_MS },
	  STATE_INVALID,
	  0,
	  0,
	  "the calibration was 11.000 ms off" },
	{ "a_limit_near_the_gap_error_is_invalid",
	  { .requests = 60,
	    .n = 60,
	    .criteria = CRIT("itl", "p50", "<=", "20", "ms", ""),
	    .itl_error_ns = 3 * MAKER_MS },
	  STATE_INVALID,
	  0,
	  0,
	  "less than 10 times" },
	{ "waiting_for_a_cpu_makes_cells_invalid",
	  { .requests = 60, .n = 60, .criteria = P90, .soundness = { .runq_wait_ns = 5 * NS_PER_S } },
	  STATE_INVALID,
	  0,
	  0,
	  "waited for a CPU" },
	{ "threads_share_the_time_they_wait",
	  { .requests = 60,
	    .n = 60,
	    .criteria = P90,
	    .soundness = { .runq_wait_ns = 5 * NS_PER_S, .threads = 4 } },
	  STATE_PASS,
	  60,
	  0,
	  NULL },
	{ "answers_in_bursts_have_no_gaps",
	  { .requests = 60, .n = 60, .criteria = CRIT("itl", "p50", "<=", "20", "ms", ""), .reads = 2 },
	  STATE_NOT_TESTED,
	  0,
	  0,
	  "in at most 2 reads" },
	{ "a_whole_answer_has_an_end",
	  { .requests = 60,
	    .n = 60,
	    .criteria = CRIT("e2e", "p90", "<=", "900", "ms", ""),
	    .filler =
	            "{\"id\": \"filler\", \"sentence\": \"s\", \"metric\": \"request_s\", \"statistic\": "
	            "\"value\", \"comparator\": \">=\", \"limit\": {\"value\": 1, \"unit\": \"requests/s\"}}",
	    .chat_extra = ", \"stream\": false" },
	  STATE_PASS,
	  60,
	  0,
	  NULL },
};

struct judged {
	struct maker m;
	struct member_set set;
	struct evidence ev;
	struct verdict v;
};

static void judge(struct judged *j, const struct made_run *run)
{
	struct err err = { 0 };
	make_run(&j->m, run);
	maker_members(&j->m, &j->set);
	if (evidence_load(&j->ev, &j->set, &err))
		fail_msg("evidence_load: %s", err.msg);
	if (j->ev.n_missing)
		fail_msg("the made run is not clean: %s", j->ev.missing[0]);
	assert_int_equal(verdict_compute(&j->v, &j->ev, &err), 0);
}

static void judged_done(struct judged *j)
{
	verdict_done(&j->v);
	evidence_done(&j->ev);
	member_set_done(&j->set);
	maker_done(&j->m);
}

static void judges_as_the_table_says(void **state)
{
	const struct expect *x = *state;
	struct judged j;
	judge(&j, &x->run);
	const struct crit_result *r = &j.v.criteria[0];
	bool same = r->state == x->state && r->n == x->n && r->t == x->t &&
	            (!x->reason || strstr(r->reason, x->reason));
	if (!same)
		print_error("want %s n %" PRIu64 " t %" PRIu64 " \"%s\"; got %s n %" PRIu64 " t %" PRIu64
		            " \"%s\"\n",
		            state_words[x->state], x->n, x->t, x->reason ? x->reason : "",
		            state_words[r->state], r->n, r->t, r->reason);
	assert_true(same);
	judged_done(&j);
}

static const struct made_run leaking = { MORE, .criteria = P90, .with = { .leak = true } };

static void a_foreign_nonce_rejects_whatever_the_criteria_say(void **state)
{
	struct judged j;
	judge(&j, &leaking);
	assert_int_equal(j.v.criteria[0].state, STATE_PASS);
	assert_int_equal(j.v.run, VERDICT_REJECTED);
	assert_memory_equal(j.v.reasons[0], "security: ", 10);
	for (size_t k = 0; k < N_CLASSES; k++)
		assert_true(!j.v.classes[k].present || j.v.classes[k].verdict == VERDICT_REJECTED);
	judged_done(&j);
}

static void each_turn_and_part_stands_for_itself(void **state)
{
	static const struct made_run run = { MORE, .criteria = P90, .with = { .cut = true } };
	struct judged j;
	judge(&j, &run);
	const struct cell_result *c = &j.v.cells[1];
	assert_int_equal(c->n_turns, 2);
	assert_int_equal(c->n_parts, 2);
	assert_int_equal(c->n_unasked, 1);
	assert_int_equal(c->turns[0].n, 40);
	assert_int_equal(c->turns[1].n, 40);
	assert_int_equal(c->turns[1].n_failed, 1);
	assert_true(c->turns[0].ttft_p50_ns < c->turns[1].ttft_p50_ns);
	assert_int_equal(c->turns[1].ttft_p99_ns, REC_NONE);
	assert_int_equal(c->parts[0].n + c->parts[1].n, 80);
	assert_string_equal(c->parts[0].name, "short");
	judged_done(&j);
}

static void a_whole_answer_has_no_first_token(void **state)
{
	struct judged j;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, "a_whole_answer_has_an_end") == 0)
			judge(&j, &table[i].run);
	const struct cell_result *c = &j.v.cells[0];
	assert_int_equal(c->ttft.n + c->ttft.n_failed + c->itl.n + c->tpot.n, 0);
	assert_true(isnan(c->prefill_tok_s) && isnan(c->decode_tok_s) && !c->itl_measurable);
	assert_int_equal(c->e2e.n, 60);
	judged_done(&j);
}

static void a_page_gives_what_it_has_and_nothing_else(void **state)
{
	static const struct {
		const char *before, *after;
		double hits, queue_ms;
	} rows[] = {
		{ "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 10\n",
		  "vllm:prefix_cache_queries_total 300\nvllm:prefix_cache_hits_total 60\n", .25, -1 },
		{ "",
		  "sglang:prompt_tokens_total{s=\"a\"} 65\nsglang:prompt_tokens_total{s=\"b\"} 35\n"
		  "sglang:cached_tokens_total 20\nsglang:queue_time_seconds_sum 0.5\n"
		  "sglang:queue_time_seconds_count 10\n",
		  .2, 50 },
		{ "llamacpp:prompt_tokens_total 5\nllamacpp:prompt_tokens_cached_total 5\n",
		  "llamacpp:prompt_tokens_total 35\nllamacpp:prompt_tokens_cached_total 15\n", .25, -1 },
		/* restarted in between, nothing asked, no number, more hits than queries, not there */
		{ "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 10\n",
		  "vllm:prefix_cache_queries_total 30\nvllm:prefix_cache_hits_total 6\n", -1, -1 },
		{ "vllm:prefix_cache_queries_total 9\nvllm:prefix_cache_hits_total 1\n",
		  "vllm:prefix_cache_queries_total 9\nvllm:prefix_cache_hits_total 1\n", -1, -1 },
		{ "", "vllm:prefix_cache_queries_total NaN\nvllm:prefix_cache_hits_total 1\n", -1, -1 },
		{ "", "vllm:prefix_cache_queries_total 1\nvllm:prefix_cache_hits_total 5\n", -1, -1 },
		{ "", "sglang:cache_hit_rate 0.9\n", -1, -1 },
		{ "rubbish {", "\xff\xfe vllm:prefix_cache_hits_total", -1, -1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct engine_figures f = engine_figures_between(rows[i].before, strlen(rows[i].before),
		                                                 rows[i].after, strlen(rows[i].after));
		double hits = isnan(f.prefix_cache_hit_share) ? -1 : f.prefix_cache_hit_share,
		       queue = isnan(f.queue_time_mean_ms) ? -1 : f.queue_time_mean_ms;
		if (fabs(hits - rows[i].hits) > 1e-12 || fabs(queue - rows[i].queue_ms) > 1e-9)
			fail_msg("row %zu: hits %g, queue %g", i, hits, queue);
	}
}

int main(void)
{
	static struct CMUnitTest tests[ARRAY_LEN(table) + 4];
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct expect *row = malloc(sizeof(*row));
		memcpy(row, &table[i], sizeof(*row));
		tests[i] = (struct CMUnitTest){ .name = table[i].name,
			                        .test_func = judges_as_the_table_says,
			                        .initial_state = row };
	}
	const struct CMUnitTest others[] = {
		cmocka_unit_test(a_foreign_nonce_rejects_whatever_the_criteria_say),
		cmocka_unit_test(each_turn_and_part_stands_for_itself),
		cmocka_unit_test(a_whole_answer_has_no_first_token),
		cmocka_unit_test(a_page_gives_what_it_has_and_nothing_else),
	};
	memcpy(tests + ARRAY_LEN(table), others, sizeof(others));
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		free(tests[i].initial_state);
	return rc;
}
