/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server does: every scheduled request ends in exactly one record with one outcome, and the traps
 * that other clients fall into are told as they are. Against the scripted engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine.h"
#include "load/load.h"
#include "model/metrics_calc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 512
#define EVERY 3

static const char *program;

struct rows {
	size_t n;
	struct record row[REQUESTS_MAX];
	unsigned seen[REQUESTS_MAX];
	char bodies[REQUESTS_MAX][256];
	struct load_request requests[REQUESTS_MAX];
	double rate_rps; /* 0 = closed loop */
	const char *prompt;
	uint64_t output_tok;
};

static const struct load_request *get(void *ctx, uint64_t g)
{
	struct rows *r = ctx;
	struct load_request *q = &r->requests[g];
	if (g >= REQUESTS_MAX)
		return NULL;
	int n = snprintf(r->bodies[g], sizeof r->bodies[g],
	                 "{\"prompt\":\"%s %d\",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":true,"
	                 "\"stream_options\":{\"include_usage\":true}}",
	                 r->prompt ? r->prompt : "one two", (int)g, (int)r->output_tok);
	*q = (struct load_request){
		.body = r->bodies[g],
		.body_len = (size_t)n,
		.prompt_tok = 3,
		.want_output_tok = r->output_tok,
		.k = g,
		.conv = REC_NONE,
		.turn = REC_NONE,
		.part = REC_NONE,
		.due_ns = r->rate_rps > 0 ? (uint64_t)((double)g / r->rate_rps * 1e9) : REC_NONE,
	};
	return q;
}

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len, const char *text,
                size_t text_len)
{
	struct rows *r = ctx;
	assert_true(r->n < REQUESTS_MAX && rec->k < REQUESTS_MAX);
	r->seen[rec->k]++;
	r->row[r->n++] = *rec;
	return 0;
}

static struct load_spec spec_of(const struct engine *e, struct rows *rows, uint64_t n, uint64_t concurrency)
{
	static const struct proto proto = { .wire = WIRE_OPENAI_COMPLETIONS,
		                            .path = "/v1/completions",
		                            .needs_done = true };
	return (struct load_spec){
		.url = e->url,
		.proto = &proto,
		.cell_id = "faults",
		.arrival = rows->rate_rps > 0 ? ARRIVAL_CONSTANT : ARRIVAL_CLOSED,
		.concurrency = concurrency,
		.n_requests = n,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 8 * NS_PER_S,
		.stall_timeout_ns = 5 * NS_PER_S,
		.deadline_ns = 20 * NS_PER_S,
		.source = { .get = get, .ctx = rows },
		.sink = { take, rows },
		.watch_fd = -1,
	};
}

/* Runs n requests; each must have come exactly once. */
static struct load_result run(const char *args, struct rows *rows, uint64_t n, uint64_t concurrency,
                              bool libcurl, const struct load_retry *retry)
{
	struct engine e;
	struct err err = { 0 };
	struct load_result result = { 0 };
	assert_int_equal(engine_start(&e, program, args), 0);
	struct load_spec spec = spec_of(&e, rows, n, concurrency);
	spec.use_libcurl = libcurl;
	if (retry)
		spec.retry = *retry;
	if (load_run(&result, &spec, &err) < 0)
		fail_msg("%s: %s", args, err.msg);
	engine_stop(&e);
	engine_free(&e);
	assert_int_equal(rows->n, n);
	for (uint64_t k = 0; k < n; k++)
		assert_int_equal(rows->seen[k], 1);
	return result;
}

/* --- every fault, one outcome -------------------------------------------------------------------------- */

static const struct fault_case {
	const char *fault; /* with its options */
	enum outcome want;
	bool warns;
} cases[] = {
	{ "http500", OUTCOME_HTTP_STATUS, false },
	{ "http429", OUTCOME_HTTP_STATUS, false },
	{ "error-in-stream", OUTCOME_STREAM_ERROR, false },
	{ "error-in-stream:tok=0", OUTCOME_STREAM_ERROR, false },
	{ "cut", OUTCOME_TRUNCATED, false },
	{ "cut:tok=0", OUTCOME_RESET, false },
	{ "rst", OUTCOME_RESET, false },
	{ "rst:tok=0", OUTCOME_RESET, false },
	{ "rst-head", OUTCOME_RESET, false },
	{ "no-done", OUTCOME_TRUNCATED, false },
	{ "empty", OUTCOME_EMPTY, false },
	{ "slow-headers", OUTCOME_OK, false },
	{ "bad-json", OUTCOME_CORRUPT, false },
	{ "bad-utf8", OUTCOME_CORRUPT, false },
	{ "comments", OUTCOME_OK, false },
	{ "multi-event", OUTCOME_OK, false },
	{ "drip", OUTCOME_OK, false },
	{ "half-close", OUTCOME_TRUNCATED, false },
	{ "long-length", OUTCOME_TRUNCATED, false },
	{ "short-length", OUTCOME_TRUNCATED, false },
	{ "trailers", OUTCOME_OK, false },
	{ "gzip", OUTCOME_OK, false },
	{ "interim", OUTCOME_OK, false },
	{ "huge-event", OUTCOME_CORRUPT, false },
	{ "tiny-events", OUTCOME_OK, false },
	{ "nul", OUTCOME_CORRUPT, false },
	{ "garbage", OUTCOME_CORRUPT, false },
	{ "endless-head", OUTCOME_CORRUPT, false },
	{ "until-close", OUTCOME_OK, false },
	{ "bad-chunk", OUTCOME_CORRUPT, false },
	{ "after-done", OUTCOME_OK, true },
	{ "stay-open", OUTCOME_OK, true },
};

static void each_fault_has_its_one_outcome(bool libcurl)
{
	unsigned wrong = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rows *rows = calloc(1, sizeof *rows);
		char args[512];
		rows->output_tok = 8;
		snprintf(args, sizeof args,
		         "--ttft-ms 2 --itl-us 500 --slow-ms 900 --tiny-events 20000 --huge-mib 64 --slots 8 "
		         "--fault %s:every=%d",
		         cases[i].fault, EVERY);
		run(args, rows, 4 * EVERY, 3, libcurl, NULL);
		size_t hit = 0;
		for (size_t j = 0; j < rows->n; j++) {
			const struct record *r = &rows->row[j];
			if (r->outcome == cases[i].want && (!cases[i].warns || r->warnings))
				hit++;
			else if (r->outcome != OUTCOME_OK || r->tok_n != 8) {
				print_error("%s%s: %s (%s), %d tokens\n", cases[i].fault,
				            libcurl ? " through libcurl" : "", outcome_words[r->outcome],
				            r->detail, (int)r->tok_n);
				wrong++;
			}
		}
		size_t want = cases[i].want == OUTCOME_OK && !cases[i].warns ? rows->n : 4;
		if (hit != want) {
			print_error("%s%s: %zu of %zu requests ended as %s\n", cases[i].fault,
			            libcurl ? " through libcurl" : "", hit, want,
			            outcome_words[cases[i].want]);
			wrong++;
		}
		free(rows);
	}
	assert_int_equal(wrong, 0);
}

static void each_fault_on_the_plain_path(void **state)
{
	each_fault_has_its_one_outcome(false);
}

static void each_fault_through_libcurl(void **state)
{
	each_fault_has_its_one_outcome(true);
}

static void a_million_tiny_events_are_counted(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	rows->output_tok = 8;
	run("--ttft-ms 2 --itl-us 500 --fault tiny-events", rows, 1, 1, false, NULL);
	assert_int_equal(rows->row[0].outcome, OUTCOME_OK);
	assert_int_equal(rows->row[0].tok_n, 1000000);
	free(rows);
}

static void a_server_that_starts_anew_loses_no_request(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	size_t n_ok = 0, n_reset = 0;
	rows->output_tok = 16;
	run("--ttft-ms 5 --itl-us 2000 --slots 16 --slow-ms 200 --fault restart:at=20", rows, 120, 8, false,
	    NULL);
	for (size_t i = 0; i < rows->n; i++) {
		n_ok += rows->row[i].outcome == OUTCOME_OK;
		n_reset += rows->row[i].outcome == OUTCOME_RESET;
	}
	assert_int_equal(n_ok + n_reset, 120);
	assert_true(n_reset >= 1 && n_ok >= 12);
	free(rows);
}

static void a_retry_is_one_record_with_its_attempts(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	const struct load_retry retry = { .max = 2, .on_status = true, .backoff_ns = 10 * NS_PER_MS };
	size_t n_again = 0;
	rows->output_tok = 4;
	struct load_result res =
		run("--ttft-ms 2 --itl-us 500 --fault http503:every=5", rows, 20, 1, false, &retry);
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = &rows->row[i];
		assert_int_equal(r->outcome, OUTCOME_OK);
		n_again += r->attempts - 1;
		if (r->attempts > 1) {
			assert_true(r->sent_ns >= r->first_sent_ns + 10 * NS_PER_MS);
		} else {
			assert_int_equal(r->sent_ns, r->first_sent_ns);
		}
	}
	assert_true(n_again >= 4);
	assert_int_equal(res.n_retries, n_again);
	free(rows);
}

/* --- traps -----------------------------------------------------------------------------------------------
 */

static void an_error_event_inside_a_200_stream_is_a_failure(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	size_t n_error = 0;
	uint64_t tokens = 0;
	rows->output_tok = 32;
	run("--ttft-ms 2 --itl-us 200 --slots 8 --fault error-in-stream:every=4:tok=16", rows, 32, 8, false,
	    NULL);
	for (size_t i = 0; i < rows->n; i++) {
		n_error += rows->row[i].outcome == OUTCOME_STREAM_ERROR;
		tokens += rows->row[i].tok_n;
	}
	assert_int_equal(n_error, 8);
	assert_int_equal(tokens, 24 * 32 + 8 * 16);
	free(rows);
}

static void a_role_event_is_no_first_token(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	rows->output_tok = 4;
	run("--ttft-ms 300 --itl-us 1000 --early-headers", rows, 4, 4, false, NULL);
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = &rows->row[i];
		assert_true(r->first_token_ns - r->sent_ns >= 300 * NS_PER_MS);
		assert_true(r->first_byte_ns - r->sent_ns < 250 * NS_PER_MS);
	}
	free(rows);
}

static void four_tokens_an_event_are_no_gap_of_four(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	rows->output_tok = 32;
	run("--ttft-ms 2 --itl-us 5000 --slots 8 --group 4 --fault multi-tok", rows, 8, 8, false, NULL);
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = &rows->row[i];
		assert_int_equal(r->tok_n, 8);
		assert_int_equal(r->usage_output_tok, 32);
		/* from the 4th token to the 32nd: 28 gaps of 5 ms, over 31 */
		double tpot = tpot_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
		assert_true(tpot > 3.5e6 && tpot < 9e6);
	}
	free(rows);
}

static void an_open_loop_sends_what_was_asked(void **state)
{
	struct rows *rows = calloc(1, sizeof *rows);
	uint64_t first = UINT64_MAX, last = 0;
	rows->output_tok = 1;
	rows->rate_rps = 200;
	run("--ttft-ms 1 --itl-us 100 --slots 256", rows, 400, 0, false, NULL);
	for (size_t i = 0; i < rows->n; i++) {
		first = rows->row[i].first_sent_ns < first ? rows->row[i].first_sent_ns : first;
		last = rows->row[i].first_sent_ns > last ? rows->row[i].first_sent_ns : last;
	}
	double rate = 399e9 / (double)(last - first);
	assert_true(rate > 198 && rate < 202);
	free(rows);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_on_the_plain_path),
		cmocka_unit_test(each_fault_through_libcurl),
		cmocka_unit_test(a_million_tiny_events_are_counted),
		cmocka_unit_test(a_server_that_starts_anew_loses_no_request),
		cmocka_unit_test(a_retry_is_one_record_with_its_attempts),
		cmocka_unit_test(an_error_event_inside_a_200_stream_is_a_failure),
		cmocka_unit_test(a_role_event_is_no_first_token),
		cmocka_unit_test(four_tokens_an_event_are_no_gap_of_four),
		cmocka_unit_test(an_open_loop_sends_what_was_asked),
	};
	if (argc < 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
