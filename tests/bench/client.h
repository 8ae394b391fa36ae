/* SPDX-License-Identifier: Apache-2.0 */
/* The clients that are measured side by side: each runs the same job against the same server and tells what
 * it cost and, where asked, when each token came. */
#ifndef TESTS_BENCH_CLIENT_H
#define TESTS_BENCH_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct job {
	const char *host; /* 127.0.0.1 */
	int port;
	char url[64];
	uint64_t streams, requests, tokens; /* tokens: of an answer */
	uint64_t step_us; /* bare readers: between the first sends of two streams; load_run has its own, 200
	                     us */
	double rate_rps;  /* over 0: open loop */
	bool preconnect, busy_poll, use_libcurl;
	bool kernel_stamps; /* raw: the kernel's receive stamps instead of a clock behind recv */
	bool keyed;  /* request k has a prompt of k+1 words, by which the server's account is found again */
	FILE *times; /* NULL = not asked for */
};

struct cost { /* UINT64_MAX = no sample */
	uint64_t cpu_ns, wall_ns, n_events, n_done, n_failed, max_in_flight;
	uint64_t send_lag_p50_ns, send_lag_p99_ns, send_lag_max_ns, loop_lag_p99_ns;
};

/* The body of request k; NUL-terminated, never freed. */
const char *job_body(const struct job *j, uint64_t k);
/* One line "k sent t0 t1 …" (ns, CLOCK_MONOTONIC). */
void job_times(const struct job *j, uint64_t k, uint64_t sent_ns, const uint64_t *at_ns, uint64_t n);
/* A timerfd that is ready when the n-th stream is due to open; -1 when all open at once. */
int job_opening(const struct job *j);
void job_open_at(const struct job *j, int timer, uint64_t start_ns, uint64_t n);
void die(const char *what) __attribute__((noreturn));

struct cost client_raw(const struct job *j);
struct cost client_curl(const struct job *j);
struct cost client_load(const struct job *j);
struct cost client_timer(const struct job *j);

#endif
