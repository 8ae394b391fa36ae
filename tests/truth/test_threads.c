/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads drive a cell as one does: the same requests, none lost, in the order of their ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUICK "--ttft-ms 3 --itl-us 500 --slots 5000 -c 20000000 "

static const char *program;
static const unsigned counts[] = { 1, 2, 4 };
#define N_COUNTS (sizeof counts / sizeof *counts)

static struct drive_cell *new_trial(const char *args, uint64_t n, uint64_t concurrency, uint64_t turns,
                                    unsigned threads)
{
	struct drive_cell *t = drive_cell_new(program, args, n, concurrency, turns);
	if (!t)
		fail_msg("%s: does not serve", args);
	t->d->spec.threads = threads;
	return t;
}

static void run(struct drive_cell *t)
{
	struct drive *d = t->d;
	if (drive_run(d) < 0)
		fail_msg("%s", d->err.msg);
	assert_int_equal(d->n, d->res.scheduled);
	assert_int_equal(d->n, d->res.done);
	for (size_t k = 0; k < d->max; k++)
		assert_true(d->seen[k] <= 1);
	assert_int_equal(d->n_early_done, 0);
	assert_int_equal(d->n_unordered, 0);
	assert_int_equal(d->last_tick.done, d->n);
	assert_int_equal(d->last_tick.in_flight, 0);
}

static void a_closed_loop_loses_nothing(void **state)
{
	for (size_t i = 0; i < 2 * N_COUNTS; i++) {
		struct drive_cell *t = new_trial(QUICK, 200, 10, 0, counts[i % N_COUNTS]);
		unsigned slots = 0;
		t->d->spec.use_libcurl = i >= N_COUNTS;
		t->d->spec.preconnect = i % 2;
		run(t);
		assert_int_equal(drive_count(t->d, OUTCOME_OK), 200);
		for (size_t j = 0; j < t->d->n; j++)
			slots |= 1u << t->d->rows[j].slot;
		assert_int_equal(slots, (1u << 10) - 1); /* slots 0..9, each of one thread */
		assert_int_equal(t->d->res.threads, counts[i % N_COUNTS]);
		assert_int_equal(t->d->res.max_in_flight, 10);
		drive_cell_free(t);
	}
}

static void an_open_loop_has_the_same_due_times(void **state)
{
	for (size_t i = 0; i < N_COUNTS; i++) {
		struct drive_cell *t = new_trial(QUICK, 150, 0, 0, counts[i]);
		t->d->spec.arrival = ARRIVAL_CONSTANT;
		t->d->step_ns = 2 * NS_PER_MS;
		run(t);
		assert_int_equal(t->d->n, 150);
		for (uint64_t k = 0; k < 150; k++) {
			const struct record *r = drive_row(t->d, k);
			assert_non_null(r);
			assert_int_equal(r->outcome, OUTCOME_OK);
			assert_int_equal(r->due_ns, t->d->res.start_ns + k * 2 * NS_PER_MS);
			assert_int_equal(r->slot, 0);
		}
		drive_cell_free(t);
	}
}

static void an_open_loop_by_time_ends_with_the_same_request(void **state)
{
	for (size_t i = 0; i < N_COUNTS; i++) {
		struct drive_cell *t = new_trial(QUICK, 400, 0, 0, counts[i]);
		t->d->spec.arrival = ARRIVAL_CONSTANT;
		t->d->spec.n_requests = 0;
		t->d->spec.duration_ns = 301 * NS_PER_MS;
		t->d->step_ns = 5 * NS_PER_MS;
		run(t);
		assert_int_equal(t->d->n, 61);
		assert_string_equal(t->d->res.stopped_by, "duration");
		for (uint64_t k = 0; k < 61; k++)
			assert_non_null(drive_row(t->d, k));
		drive_cell_free(t);
	}
}

static void a_closed_loop_by_time_leaves_no_hole(void **state)
{
	struct drive_cell *t = new_trial(QUICK, 20000, 8, 0, 3);
	t->d->spec.n_requests = 0;
	t->d->spec.duration_ns = 300 * NS_PER_MS;
	run(t);
	assert_string_equal(t->d->res.stopped_by, "duration");
	assert_true(t->d->n >= 8);
	for (uint64_t k = 0; k < t->d->n; k++)
		assert_non_null(drive_row(t->d, k));
	drive_cell_free(t);
}

static void conversations_stay_with_their_thread(void **state)
{
	for (size_t i = 0; i < N_COUNTS; i++) {
		struct drive_cell *t = new_trial(QUICK, 12, 6, 4, counts[i]);
		t->d->spec.busy_poll = counts[i] == 2;
		run(t);
		assert_int_equal(drive_count(t->d, OUTCOME_OK), 48);
		for (uint64_t k = 0; k < 48; k++) {
			const struct record *r = drive_row(t->d, k);
			assert_non_null(r);
			if (k % 4) {
				assert_int_equal(r->slot, drive_row(t->d, k - 1)->slot);
				assert_true(r->due_ns >= drive_row(t->d, k - 1)->end_ns);
			}
		}
		assert_int_equal(t->d->n_done_calls, 48);
		assert_int_equal(t->d->n_follow_calls, 48);
		drive_cell_free(t);
	}
}

static void retries_are_counted_over_all_threads(void **state)
{
	struct drive_cell *t = new_trial(QUICK "--fault http503:every=4", 100, 8, 0, 4);
	t->d->spec.retry = (struct load_retry){ .max = 8, .on_status = true, .backoff_ns = NS_PER_MS };
	uint64_t extra = 0;
	run(t);
	assert_int_equal(drive_count(t->d, OUTCOME_OK), 100);
	for (size_t i = 0; i < t->d->n; i++)
		extra += t->d->rows[i].attempts - 1;
	assert_true(extra >= 25);
	assert_int_equal(t->d->res.n_retries, extra);
	drive_cell_free(t);
}

static void more_threads_than_streams_are_fewer_threads(void **state)
{
	struct drive_cell *t = new_trial(QUICK, 9, 3, 0, 8);
	run(t);
	assert_int_equal(t->d->n, 9);
	assert_int_equal(t->d->res.threads, 3);
	drive_cell_free(t);
}

static void *set_soon(void *flag)
{
	usleep(400 * 1000);
	__atomic_store_n((bool *)flag, true, __ATOMIC_RELAXED);
	return NULL;
}

static void abort_ends_all_threads(void **state)
{
	struct drive_cell *t = new_trial("--ttft-ms 20000 --slots 64 -c 262144", 100, 12, 0, 4);
	pthread_t th;
	assert_int_equal(pthread_create(&th, NULL, set_soon, &t->d->abort), 0);
	run(t);
	pthread_join(th, NULL);
	assert_string_equal(t->d->res.stopped_by, "interrupt");
	assert_int_equal(t->d->n, 12);
	assert_int_equal(drive_count(t->d, OUTCOME_CANCELLED), 12);
	assert_true(t->d->res.wall_ns < 15 * NS_PER_S);
	drive_cell_free(t);
}

static void drain_lets_all_threads_end_what_they_have(void **state)
{
	struct drive_cell *t = new_trial(QUICK, 100000, 12, 0, 4);
	pthread_t th;
	assert_int_equal(pthread_create(&th, NULL, set_soon, &t->d->drain), 0);
	run(t);
	pthread_join(th, NULL);
	assert_string_equal(t->d->res.stopped_by, "interrupt");
	assert_true(t->d->n >= 12 && t->d->n < 100000);
	assert_int_equal(drive_count(t->d, OUTCOME_OK), t->d->n);
	drive_cell_free(t);
}

static void the_end_of_the_engine_ends_all_threads(void **state)
{
	struct drive_cell *t = new_trial(QUICK, 1000, 8, 0, 4);
	int p[2];
	assert_int_equal(pipe(p), 0);
	close(p[1]); /* readable at once, as a pidfd of an ended process */
	t->d->spec.watch_fd = p[0];
	run(t);
	close(p[0]);
	assert_string_equal(t->d->res.stopped_by, "engine_died");
	assert_true(t->d->n < 1000);
	drive_cell_free(t);
}

static int refuse(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                  size_t text_len)
{
	return -1;
}

static void a_sink_that_fails_is_told(void **state)
{
	struct drive_cell *t = new_trial(QUICK, 20, 4, 0, 2);
	t->d->spec.sink.take = refuse;
	assert_int_equal(drive_run(t->d), 0);
	assert_string_equal(t->d->res.stopped_by, "disk_full");
	drive_cell_free(t);
}

static void a_common_start_is_kept(void **state)
{
	for (size_t i = 0; i < N_COUNTS; i++) {
		struct drive_cell *t = new_trial(QUICK, 8, 0, 0, counts[i]);
		t->d->spec.arrival = ARRIVAL_CONSTANT;
		t->d->step_ns = 5 * NS_PER_MS;
		t->d->spec.start_at_ns = clock_now_ns() + 300 * NS_PER_MS;
		run(t);
		uint64_t start = t->d->spec.start_at_ns - t->d->spec.origin_ns;
		assert_int_equal(t->d->res.start_ns, start);
		assert_int_equal(drive_row(t->d, 0)->due_ns, start);
		assert_true(drive_row(t->d, 0)->sent_ns >= start);
		drive_cell_free(t);
	}
}

static void progress_is_summed_over_threads(void **state)
{
	struct drive_cell *t = new_trial("--ttft-ms 400 --itl-us 500 --slots 64 -c 262144", 16, 8, 0, 2);
	run(t);
	assert_true(t->d->n_ticks >= 2);
	assert_true(t->d->n_ticks <= 3 + 4 * t->d->res.wall_ns / NS_PER_S);
	assert_int_equal(t->d->last_tick.scheduled, 16);
	assert_int_equal(t->d->last_tick.tokens, 16 * 4);
	assert_true(t->d->last_tick.ttft_p50_ns >= 396 * NS_PER_MS);
	assert_true(t->d->res.client_cpu_ns > 0);
	drive_cell_free(t);
}

static void thousands_of_streams_lose_nothing(void **state)
{
	struct drive_cell *t =
		new_trial("--ttft-ms 1500 --itl-us 50000 --slots 5000 -c 20000000", 4096, 4096, 0, 2);
	t->d->spec.connect_timeout_ns = 30 * NS_PER_S;
	run(t);
	if (drive_count(t->d, OUTCOME_OK) != 4096)
		fail_msg("%zu ok; one is: %s", drive_count(t->d, OUTCOME_OK), t->d->rows[0].detail);
	assert_int_equal(t->d->res.scheduled, 4096);
	drive_cell_free(t);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_closed_loop_loses_nothing),
		cmocka_unit_test(an_open_loop_has_the_same_due_times),
		cmocka_unit_test(an_open_loop_by_time_ends_with_the_same_request),
		cmocka_unit_test(a_closed_loop_by_time_leaves_no_hole),
		cmocka_unit_test(conversations_stay_with_their_thread),
		cmocka_unit_test(retries_are_counted_over_all_threads),
		cmocka_unit_test(more_threads_than_streams_are_fewer_threads),
		cmocka_unit_test(abort_ends_all_threads),
		cmocka_unit_test(drain_lets_all_threads_end_what_they_have),
		cmocka_unit_test(the_end_of_the_engine_ends_all_threads),
		cmocka_unit_test(a_sink_that_fails_is_told),
		cmocka_unit_test(a_common_start_is_kept),
		cmocka_unit_test(progress_is_summed_over_threads),
		cmocka_unit_test(thousands_of_streams_lose_nothing),
	};
	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
