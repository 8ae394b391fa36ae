/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations and retries: who sends what when, and what the one record says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUICK "--ttft-ms 3 --itl-us 500 --slots 64 -c 262144 "

static const char *program;

static struct drive_cell *new_cell(const char *args, uint64_t n, uint64_t concurrency, uint64_t turns)
{
	struct drive_cell *c = drive_cell_new(program, args, n, concurrency, turns);
	if (!c)
		fail_msg("%s: does not serve", args);
	return c;
}

/* Every request that was scheduled has one record, and its body was given back once. */
static void run(struct drive_cell *c)
{
	struct drive *d = c->d;
	if (drive_run(d) < 0)
		fail_msg("%s", d->err.msg);
	assert_int_equal(d->n, d->res.scheduled);
	assert_int_equal(d->n, d->res.done);
	for (size_t k = 0; k < d->max; k++)
		assert_true(d->seen[k] <= 1);
	assert_int_equal(d->n_early_done, 0);
	assert_true(d->n_done_calls >= d->n);
}

/* --- conversations ------------------------------------------------------------------------------------- */

static void check_turns(const struct drive *d, uint64_t n_conv, bool same_slot)
{
	for (uint64_t k = 0; k < n_conv * d->turns; k++) {
		const struct record *r = drive_row(d, k), *before = k % d->turns ? drive_row(d, k - 1) : NULL;
		assert_non_null(r);
		assert_int_equal(r->outcome, OUTCOME_OK);
		assert_int_equal(r->conv, k / d->turns);
		assert_int_equal(r->turn, k % d->turns);
		if (!before)
			continue;
		assert_int_equal(r->due_ns, before->end_ns + d->spec.follow_pause_ns);
		assert_true(r->sent_ns >= r->due_ns);
		if (same_slot)
			assert_int_equal(r->slot, before->slot);
	}
}

static void a_conversation_goes_on_in_its_slot(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 6, 2, 3);
	c->d->spec.follow_pause_ns = 15 * NS_PER_MS;
	run(c);
	assert_int_equal(c->d->n, 18);
	check_turns(c->d, 6, true);
	/* and no other conversation gets in between */
	for (uint64_t k = 0; k < 18; k++) {
		const struct record *r = drive_row(c->d, k);
		for (size_t i = 0; i < c->d->n && r->turn; i++) {
			const struct record *o = &c->d->rows[i], *before = drive_row(c->d, k - 1);
			if (o->slot == r->slot && o->conv != r->conv)
				assert_true(o->sent_ns < before->sent_ns || o->sent_ns >= r->end_ns);
		}
	}
	assert_string_equal(c->d->res.stopped_by, "complete");
	assert_int_equal(c->d->n_done_calls, 18);
	drive_cell_free(c);
}

static void a_schedule_goes_on_beside_its_conversations(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 8, 0, 3);
	c->d->spec.arrival = ARRIVAL_CONSTANT;
	c->d->step_ns = 10 * NS_PER_MS;
	c->d->spec.follow_pause_ns = 60 * NS_PER_MS;
	run(c);
	assert_int_equal(c->d->n, 24);
	check_turns(c->d, 8, false);
	for (uint64_t conv = 0; conv < 8; conv++)
		assert_int_equal(drive_row(c->d, conv * 3)->due_ns,
		                 c->d->res.start_ns + conv * 10 * NS_PER_MS);
	/* a conversation's pause keeps its slot: the next ones come due meanwhile */
	assert_true(drive_row(c->d, 9)->sent_ns < drive_row(c->d, 1)->sent_ns);
	drive_cell_free(c);
}

static void a_failed_turn_ends_its_conversation(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http500:at=2", 3, 1, 3);
	run(c);
	assert_int_equal(c->d->n, 8);
	assert_int_equal(drive_count(c->d, OUTCOME_HTTP_STATUS), 1);
	assert_null(drive_row(c->d, 2));
	assert_int_equal(drive_row(c->d, 1)->outcome, OUTCOME_HTTP_STATUS);
	assert_string_equal(c->d->res.stopped_by, "complete");
	drive_cell_free(c);
}

static void behind_the_time_no_turn_is_sent(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 1000, 2, 100);
	c->d->spec.duration_ns = 400 * NS_PER_MS;
	c->d->spec.follow_pause_ns = 20 * NS_PER_MS;
	run(c);
	assert_string_equal(c->d->res.stopped_by, "duration");
	for (size_t i = 0; i < c->d->n; i++)
		assert_true(c->d->rows[i].due_ns < c->d->res.start_ns + 400 * NS_PER_MS);
	assert_true(c->d->n >= 4);
	/* each slot had one conversation, and what was asked for and not sent was given back */
	for (size_t i = 0; i < c->d->n; i++)
		assert_true(c->d->rows[i].conv < 2);
	drive_cell_free(c);
}

static void a_loop_that_is_held_up_at_the_end_sends_nothing_behind_it(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 1000, 6, 100);
	c->d->spec.duration_ns = 300 * NS_PER_MS;
	c->d->spec.follow_pause_ns = 5 * NS_PER_MS;
	c->d->follow_sleep_us = 7000;
	run(c);
	assert_string_equal(c->d->res.stopped_by, "duration");
	for (size_t i = 0; i < c->d->n; i++)
		assert_true(c->d->rows[i].due_ns < c->d->res.start_ns + 300 * NS_PER_MS);
	drive_cell_free(c);
}

static void drained_conversations_send_no_more(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 4, 4, 50);
	c->d->spec.follow_pause_ns = 10 * NS_PER_MS;
	c->d->drain_at = 20;
	run(c);
	assert_string_equal(c->d->res.stopped_by, "interrupt");
	assert_true(c->d->n >= 20 && c->d->n <= 24);
	assert_int_equal(drive_count(c->d, OUTCOME_OK), c->d->n);
	drive_cell_free(c);
}

/* --- retries ------------------------------------------------------------------------------------------- */

/* A kept connection that breaks before any answer is sent on anew by the transport: no try of its own. */
static const struct retry_case {
	const char *name, *args;
	struct load_retry retry;
	size_t n_ok, n_retries; /* of 8 requests, one after the other */
	enum outcome else_is;
} retries[] = {
	{ "not asked", "--fault http503:every=2", { 0 }, 4, 0, OUTCOME_HTTP_STATUS },
	{ "503", "--fault http503:every=2", { .max = 1, .on_status = true }, 8, 7, OUTCOME_OK },
	{ "429", "--fault http429:at=1,4", { .max = 1, .on_status = true }, 8, 2, OUTCOME_OK },
	{ "500 is none",
	  "--fault http500:every=2",
	  { .max = 3, .on_status = true },
	  4,
	  0,
	  OUTCOME_HTTP_STATUS },
	{ "asked for another",
	  "--fault http503:every=2",
	  { .max = 3, .on_reset = true },
	  4,
	  0,
	  OUTCOME_HTTP_STATUS },
	{ "all sends fail",
	  "--fault http503:from=1",
	  { .max = 2, .on_status = true },
	  0,
	  16,
	  OUTCOME_HTTP_STATUS },
	{ "reset in the head", "--fault rst-head:at=2,5", { .max = 2, .on_reset = true }, 8, 2, OUTCOME_OK },
	{ "reset before a token",
	  "--fault rst:at=1:tok=0",
	  { .max = 1, .on_reset = true },
	  8,
	  1,
	  OUTCOME_OK },
	{ "reset behind a token",
	  "--fault rst:at=1,3:tok=2",
	  { .max = 1, .on_reset = true },
	  6,
	  0,
	  OUTCOME_RESET },
	{ "cut before a token", "--fault cut:at=1:tok=0", { .max = 1, .on_reset = true }, 8, 1, OUTCOME_OK },
	{ "cut behind a token",
	  "--fault cut:at=4:tok=2",
	  { .max = 1, .on_reset = true },
	  7,
	  0,
	  OUTCOME_TRUNCATED },
};

static void only_what_was_asked_for_is_sent_again(void **state)
{
	for (size_t i = 0; i < sizeof retries / sizeof *retries; i++) {
		const struct retry_case *t = &retries[i];
		char args[256];
		snprintf(args, sizeof args, QUICK "%s", t->args);
		struct drive_cell *c = new_cell(args, 8, 1, 0);
		uint64_t extra = 0;
		c->d->spec.retry = t->retry;
		c->d->spec.retry.backoff_ns = 5 * NS_PER_MS;
		run(c);
		for (size_t j = 0; j < c->d->n; j++) {
			const struct record *r = &c->d->rows[j];
			extra += r->attempts - 1;
			assert_true(r->attempts >= 1 && r->first_sent_ns >= r->due_ns);
			assert_true(r->sent_ns >= r->first_sent_ns + (r->attempts - 1) * 5 * NS_PER_MS);
			if (r->attempts == 1)
				assert_int_equal(r->sent_ns, r->first_sent_ns);
			if (r->outcome != OUTCOME_OK && r->outcome != t->else_is)
				fail_msg("%s: %s: %s", t->name, outcome_words[r->outcome], r->detail);
		}
		if (drive_count(c->d, OUTCOME_OK) != t->n_ok || extra != t->n_retries ||
		    c->d->res.n_retries != t->n_retries)
			fail_msg("%s: %zu ok, %d sent again, the result says %d", t->name,
			         drive_count(c->d, OUTCOME_OK), (int)extra, (int)c->d->res.n_retries);
		drive_cell_free(c);
	}
}

static void pauses_grow_with_each_try(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http503:from=1", 1, 1, 0);
	c->d->spec.retry = (struct load_retry){ .max = 3, .on_status = true, .backoff_ns = 40 * NS_PER_MS };
	run(c);
	const struct record *r = drive_row(c->d, 0);
	assert_int_equal(r->attempts, 4);
	assert_true(r->sent_ns - r->first_sent_ns >= (1 + 2 + 3) * 40 * NS_PER_MS);
	drive_cell_free(c);
}

static void the_server_says_when(void **state)
{
	for (int libcurl = 0; libcurl < 2; libcurl++) {
		struct drive_cell *c = new_cell(QUICK "--retry-after-s 1 --fault http429:at=1", 2, 1, 0);
		c->d->spec.retry =
			(struct load_retry){ .max = 1, .on_status = true, .backoff_ns = NS_PER_MS };
		c->d->spec.use_libcurl = libcurl;
		run(c);
		const struct record *r = drive_row(c->d, 0);
		assert_int_equal(drive_count(c->d, OUTCOME_OK), 2);
		assert_true(r->sent_ns - r->first_sent_ns >= NS_PER_S);
		assert_int_equal(drive_row(c->d, 1)->attempts, 1);
		/* the pause that was asked for is no lag of ours */
		assert_true(c->d->res.send_lag_max_ns < NS_PER_S);
		drive_cell_free(c);
	}
}

static void no_retry_comes_behind_the_deadline(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http503:from=1", 1, 1, 0);
	c->d->spec.retry = (struct load_retry){ .max = 10, .on_status = true, .backoff_ns = 300 * NS_PER_MS };
	c->d->spec.deadline_ns = 1500 * NS_PER_MS;
	run(c);
	const struct record *r = drive_row(c->d, 0);
	assert_int_equal(r->outcome, OUTCOME_HTTP_STATUS);
	assert_true(r->attempts >= 2 && r->attempts <= 3);
	assert_true(r->end_ns - r->first_sent_ns <= 1500 * NS_PER_MS);
	drive_cell_free(c);
}

static void no_retry_comes_behind_the_time(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http503:from=1", 10000, 2, 0);
	c->d->spec.retry = (struct load_retry){ .max = 10, .on_status = true, .backoff_ns = 70 * NS_PER_MS };
	c->d->spec.duration_ns = 300 * NS_PER_MS;
	run(c);
	assert_int_equal(drive_count(c->d, OUTCOME_HTTP_STATUS), c->d->n);
	for (size_t i = 0; i < c->d->n; i++) {
		const struct record *r = &c->d->rows[i];
		assert_true(r->due_ns < c->d->res.start_ns + 300 * NS_PER_MS);
		assert_true(r->attempts <= 3); /* 70 + 140 + 210 ms are too much */
	}
	drive_cell_free(c);
}

static void the_deadline_counts_from_the_first_send(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http503:at=1 --fault stall:at=2:tok=1", 1, 1, 0);
	c->d->spec.retry = (struct load_retry){ .max = 1, .on_status = true, .backoff_ns = 500 * NS_PER_MS };
	c->d->spec.deadline_ns = 1000 * NS_PER_MS;
	run(c);
	const struct record *r = drive_row(c->d, 0);
	assert_int_equal(r->attempts, 2);
	assert_int_equal(r->outcome, OUTCOME_TIMEOUT);
	assert_true(r->end_ns - r->first_sent_ns >= 1000 * NS_PER_MS);
	assert_true(r->end_ns - r->sent_ns < 1000 * NS_PER_MS);
	drive_cell_free(c);
}

static void a_late_first_byte_is_sent_again(void **state)
{
	struct drive_cell *c = new_cell(
		"--ttft-ms 5 --itl-us 500 --slow-ms 3000 --slots 8 --fault stall:at=1:tok=0", 3, 1, 0);
	c->d->spec.retry = (struct load_retry){ .max = 1, .on_timeout = true, .backoff_ns = NS_PER_MS };
	c->d->spec.first_byte_timeout_ns = 500 * NS_PER_MS;
	run(c);
	const struct record *r = drive_row(c->d, 0);
	assert_int_equal(r->outcome, OUTCOME_OK);
	assert_int_equal(r->attempts, 2);
	drive_cell_free(c);
}

static void a_refused_connection_is_tried_again(void **state)
{
	struct drive_cell *c = new_cell(QUICK, 2, 1, 0);
	c->d->spec.url = "http://127.0.0.1:1";
	c->d->spec.retry = (struct load_retry){ .max = 2, .on_reset = true, .backoff_ns = NS_PER_MS };
	run(c);
	assert_int_equal(drive_count(c->d, OUTCOME_RESET), 2);
	assert_int_equal(drive_row(c->d, 1)->attempts, 3);
	assert_int_equal(c->d->res.n_retries, 4);
	drive_cell_free(c);
}

static void *abort_soon(void *flag)
{
	usleep(400 * 1000);
	__atomic_store_n((bool *)flag, true, __ATOMIC_RELAXED);
	return NULL;
}

static void what_waits_for_a_retry_keeps_its_answer_at_the_end(void **state)
{
	struct drive_cell *c = new_cell(QUICK "--fault http503:from=1", 3, 3, 0);
	pthread_t t;
	c->d->spec.retry = (struct load_retry){ .max = 1, .on_status = true, .backoff_ns = 30 * NS_PER_S };
	assert_int_equal(pthread_create(&t, NULL, abort_soon, &c->d->abort), 0);
	run(c);
	pthread_join(t, NULL);
	assert_string_equal(c->d->res.stopped_by, "interrupt");
	assert_int_equal(drive_count(c->d, OUTCOME_HTTP_STATUS), 3);
	assert_int_equal(c->d->res.max_in_flight, 3);
	assert_true(c->d->res.wall_ns < 20 * NS_PER_S);
	drive_cell_free(c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_conversation_goes_on_in_its_slot),
		cmocka_unit_test(a_schedule_goes_on_beside_its_conversations),
		cmocka_unit_test(a_failed_turn_ends_its_conversation),
		cmocka_unit_test(behind_the_time_no_turn_is_sent),
		cmocka_unit_test(a_loop_that_is_held_up_at_the_end_sends_nothing_behind_it),
		cmocka_unit_test(drained_conversations_send_no_more),
		cmocka_unit_test(only_what_was_asked_for_is_sent_again),
		cmocka_unit_test(pauses_grow_with_each_try),
		cmocka_unit_test(the_server_says_when),
		cmocka_unit_test(no_retry_comes_behind_the_deadline),
		cmocka_unit_test(no_retry_comes_behind_the_time),
		cmocka_unit_test(the_deadline_counts_from_the_first_send),
		cmocka_unit_test(a_late_first_byte_is_sent_again),
		cmocka_unit_test(a_refused_connection_is_tried_again),
		cmocka_unit_test(what_waits_for_a_retry_keeps_its_answer_at_the_end),
	};
	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
