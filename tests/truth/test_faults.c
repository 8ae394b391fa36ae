/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server does: every scheduled request ends in exactly one record with one outcome, and the traps
 * that other clients fall into are told as they are. Against the scripted engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive.h"
#include "model/metrics_calc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY 3

static const char *program;

/* Runs n requests at `rate_rps` (0 = closed loop); each must have come exactly once. */
static struct drive_cell *run(const char *args, uint64_t n, uint64_t concurrency, uint64_t output_tok,
                              double rate_rps, bool libcurl, const struct load_retry *retry)
{
	struct drive_cell *c = drive_cell_new(program, args, n, concurrency, 0);
	if (!c)
		fail_msg("%s: does not serve", args);
	struct drive *d = c->d;
	d->output_tok = output_tok;
	d->spec.first_byte_timeout_ns = 8 * NS_PER_S;
	d->spec.stall_timeout_ns = 5 * NS_PER_S;
	d->spec.deadline_ns = 20 * NS_PER_S;
	d->spec.use_libcurl = libcurl;
	if (rate_rps > 0) {
		d->spec.arrival = ARRIVAL_CONSTANT;
		d->step_ns = (uint64_t)(1e9 / rate_rps);
	}
	if (retry)
		d->spec.retry = *retry;
	if (drive_run(d) < 0)
		fail_msg("%s: %s", args, d->err.msg);
	assert_int_equal(d->n, n);
	for (uint64_t k = 0; k < n; k++)
		assert_int_equal(d->seen[k], 1);
	return c;
}

/* --- every fault, one outcome -------------------------------------------------------------------------- */

static const struct fault_case {
	const char *fault; /* with its options */
	enum outcome want;
	bool warns;
	bool or_sent_again; /* no byte of an answer: on a kept connection once more, with a warning */
} cases[] = {
	{ "http500", OUTCOME_HTTP_STATUS, false, false },
	{ "http429", OUTCOME_HTTP_STATUS, false, false },
	{ "error-in-stream", OUTCOME_STREAM_ERROR, false, false },
	{ "error-in-stream:tok=0", OUTCOME_STREAM_ERROR, false, false },
	{ "cut", OUTCOME_TRUNCATED, false, false },
	{ "cut:tok=0", OUTCOME_RESET, false, true },
	{ "rst", OUTCOME_RESET, false, false },
	{ "rst:tok=0", OUTCOME_RESET, false, true },
	{ "rst-head", OUTCOME_RESET, false, false },
	{ "no-done", OUTCOME_TRUNCATED, false, false },
	{ "empty", OUTCOME_EMPTY, false, false },
	{ "slow-headers", OUTCOME_OK, false, false },
	{ "bad-json", OUTCOME_CORRUPT, false, false },
	{ "bad-utf8", OUTCOME_CORRUPT, false, false },
	{ "comments", OUTCOME_OK, false, false },
	{ "multi-event", OUTCOME_OK, false, false },
	{ "drip", OUTCOME_OK, false, false },
	{ "half-close", OUTCOME_TRUNCATED, false, false },
	{ "long-length", OUTCOME_TRUNCATED, false, false },
	{ "short-length", OUTCOME_TRUNCATED, false, false },
	{ "trailers", OUTCOME_OK, false, false },
	{ "gzip", OUTCOME_OK, false, false },
	{ "interim", OUTCOME_OK, false, false },
	{ "huge-event", OUTCOME_CORRUPT, false, false },
	{ "tiny-events", OUTCOME_OK, false, false },
	{ "nul", OUTCOME_CORRUPT, false, false },
	{ "garbage", OUTCOME_CORRUPT, false, false },
	{ "endless-head", OUTCOME_CORRUPT, false, false },
	{ "until-close", OUTCOME_OK, false, false },
	{ "bad-chunk", OUTCOME_CORRUPT, false, false },
	{ "after-done", OUTCOME_OK, true, false },
	{ "stay-open", OUTCOME_OK, true, false },
};

static void each_fault_has_its_one_outcome(bool libcurl)
{
	unsigned wrong = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char args[512];
		snprintf(args, sizeof args,
		         "--ttft-ms 2 --itl-us 500 --slow-ms 900 --tiny-events 20000 --huge-mib 64 --slots 8 "
		         "--fault %s:every=%d",
		         cases[i].fault, EVERY);
		struct drive_cell *c = run(args, 4 * EVERY, 3, 8, 0, libcurl, NULL);
		const struct drive *d = c->d;
		size_t hit = 0;
		for (size_t j = 0; j < d->n; j++) {
			const struct record *r = &d->rows[j];
			bool hits = r->outcome == cases[i].want && (!cases[i].warns || r->warnings);
			if (cases[i].or_sent_again) /* the second time may be cut off as well */
				hit += hits + r->warnings;
			else
				hit += hits;
			if (hits)
				continue;
			if (r->outcome != OUTCOME_OK || r->tok_n != 8) {
				print_error("%s%s: %s (%s), %d tokens\n", cases[i].fault,
				            libcurl ? " through libcurl" : "", outcome_words[r->outcome],
				            r->detail, (int)r->tok_n);
				wrong++;
			}
		}
		size_t want = cases[i].want == OUTCOME_OK && !cases[i].warns ? d->n : 4;
		/* what is sent again is one more request that the server counts by */
		if (cases[i].or_sent_again ? hit < want : hit != want) {
			print_error("%s%s: %zu of %zu requests ended as %s\n", cases[i].fault,
			            libcurl ? " through libcurl" : "", hit, want,
			            outcome_words[cases[i].want]);
			wrong++;
		}
		drive_cell_free(c);
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
	struct drive_cell *c = run("--ttft-ms 2 --itl-us 500 --fault tiny-events", 1, 1, 8, 0, false, NULL);
	const struct drive *d = c->d;
	assert_int_equal(d->rows[0].outcome, OUTCOME_OK);
	assert_int_equal(d->rows[0].tok_n, 1000000);
	drive_cell_free(c);
}

static void a_server_that_starts_anew_loses_no_request(void **state)
{
	size_t n_ok = 0, n_reset = 0;
	struct drive_cell *c = run("--ttft-ms 5 --itl-us 2000 --slots 16 --slow-ms 200 --fault restart:at=20",
	                           120, 8, 16, 0, false, NULL);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		n_ok += d->rows[i].outcome == OUTCOME_OK;
		n_reset += d->rows[i].outcome == OUTCOME_RESET;
	}
	assert_int_equal(n_ok + n_reset, 120);
	assert_true(n_reset >= 1 && n_ok >= 12);
	drive_cell_free(c);
}

static void a_retry_is_one_record_with_its_attempts(void **state)
{
	const struct load_retry retry = { .max = 2, .on_status = true, .backoff_ns = 10 * NS_PER_MS };
	size_t n_again = 0;
	struct drive_cell *c =
		run("--ttft-ms 2 --itl-us 500 --fault http503:every=5", 20, 1, 4, 0, false, &retry);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		const struct record *r = &d->rows[i];
		assert_int_equal(r->outcome, OUTCOME_OK);
		n_again += r->attempts - 1;
		if (r->attempts > 1) {
			assert_true(r->sent_ns >= r->first_sent_ns + 10 * NS_PER_MS);
		} else {
			assert_int_equal(r->sent_ns, r->first_sent_ns);
		}
	}
	assert_true(n_again >= 4);
	assert_int_equal(d->res.n_retries, n_again);
	drive_cell_free(c);
}

/* --- traps -----------------------------------------------------------------------------------------------
 */

static void an_error_event_inside_a_200_stream_is_a_failure(void **state)
{
	size_t n_error = 0;
	uint64_t tokens = 0;
	struct drive_cell *c =
		run("--ttft-ms 2 --itl-us 200 --slots 8 --fault error-in-stream:every=4:tok=16", 32, 8, 32, 0,
	            false, NULL);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		n_error += d->rows[i].outcome == OUTCOME_STREAM_ERROR;
		tokens += d->rows[i].tok_n;
	}
	assert_int_equal(n_error, 8);
	assert_int_equal(tokens, 24 * 32 + 8 * 16);
	drive_cell_free(c);
}

static void a_role_event_is_no_first_token(void **state)
{
	struct drive_cell *c = run("--ttft-ms 300 --itl-us 1000 --early-headers", 4, 4, 4, 0, false, NULL);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		const struct record *r = &d->rows[i];
		assert_true(r->first_token_ns - r->sent_ns >= 300 * NS_PER_MS);
		assert_true(r->first_byte_ns - r->sent_ns < 250 * NS_PER_MS);
	}
	drive_cell_free(c);
}

static void four_tokens_an_event_are_no_gap_of_four(void **state)
{
	struct drive_cell *c = run("--ttft-ms 2 --itl-us 5000 --slots 8 --group 4 --fault multi-tok", 8, 8,
	                           32, 0, false, NULL);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		const struct record *r = &d->rows[i];
		assert_int_equal(r->tok_n, 8);
		assert_int_equal(r->usage_output_tok, 32);
		/* from the 4th token to the 32nd: 28 gaps of 5 ms, over 31 */
		double tpot = tpot_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
		assert_true(tpot > 3.5e6 && tpot < 9e6);
	}
	drive_cell_free(c);
}

static void an_open_loop_sends_what_was_asked(void **state)
{
	uint64_t first = UINT64_MAX, last = 0;
	struct drive_cell *c = run("--ttft-ms 1 --itl-us 100 --slots 256", 400, 0, 1, 200, false, NULL);
	const struct drive *d = c->d;
	for (size_t i = 0; i < d->n; i++) {
		first = d->rows[i].first_sent_ns < first ? d->rows[i].first_sent_ns : first;
		last = d->rows[i].first_sent_ns > last ? d->rows[i].first_sent_ns : last;
	}
	double rate = 399e9 / (double)(last - first);
	assert_true(rate > 198 && rate < 202);
	drive_cell_free(c);
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
