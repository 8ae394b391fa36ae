/* SPDX-License-Identifier: Apache-2.0 */
/* The null engine: a process of our own that computes nothing. It answers each POST with a stream of OpenAI
 * completions events whose tokens are due at fixed times, and writes down in shared memory when it really
 * handed each of them to the kernel. What a client reports minus these times is the client's own error.
 *
 * HTTP/1.1 with keep-alive on a free port of 127.0.0.1. The path holds a random word and each request may
 * come once, so what else connects to the port is refused and leaves no note. One epoll loop; per token one
 * clock read and one send from a constant text: it shares the machine with what it calibrates.
 */
#ifndef LOAD_NULL_ENGINE_H
#define LOAD_NULL_ENGINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NULL_ENGINE_TOK_MAX 4000000u   /* n_requests x output_tok */
#define NULL_ENGINE_BODY_BYTES_MIN 32u /* a body begins with a whole tag */
#define NULL_ENGINE_BODY_BYTES_MAX (64u << 20)

struct null_engine;

struct null_engine_spec {
	uint64_t ttft_ns;    /* from the request's last byte to its first token */
	uint64_t itl_ns;     /* from one token's due time to the next one's */
	uint64_t output_tok; /* of each answer, at least 1 */
	uint64_t n_requests; /* at least 1; numbers 0..n-1, each answered once */
	uint64_t body_bytes; /* of each request: a body of another length is refused */
	uint64_t max_conns;  /* connections at a time */
	const char *cpus;    /* CPU list; NULL = those this process was started with */
};

/* ERR_ENV: no port, no process, no memory, CPUs refused. ERR_PLAN: bad CPU list. It also ends when the thread
 * that started it does. */
warn_unused int null_engine_start(struct null_engine **out, const struct null_engine_spec *spec,
                                  struct err *err);
const char *null_engine_url(const struct null_engine *ne);  /* "http://127.0.0.1:PORT"; borrowed */
const char *null_engine_path(const struct null_engine *ne); /* "/…/v1/completions"; borrowed */
int null_engine_pidfd(const struct null_engine *ne); /* borrowed; readable when it ended; -1 = stopped */

/* Ends and reaps it; its notes stay. Safe to call again, and with NULL. */
void null_engine_stop(struct null_engine *ne);
bool null_engine_died(const struct null_engine *ne);       /* before it was stopped; known once stopped */
uint64_t null_engine_cpu_ns(const struct null_engine *ne); /* user and system, known once stopped */
void null_engine_free(struct null_engine *ne);             /* stops it first */

/* Notes of request k (below n_requests), CLOCK_MONOTONIC; 0 = did not happen. Whole once stopped. */
uint64_t null_engine_arrival_ns(const struct null_engine *ne, uint64_t k);     /* its last byte was read */
const uint64_t *null_engine_sent_ns(const struct null_engine *ne, uint64_t k); /* output_tok times */
/* When token i was to be sent: arrival + ttft + i x itl. Meaningless without an arrival. */
uint64_t null_engine_due_ns(const struct null_engine *ne, uint64_t k, uint64_t i);

/* Bodies of requests lie over each other on one tape, so that thousands of long ones cost the memory of one:
 * body k is the body_bytes bytes from null_engine_body(tape, k) on, and begins with the tag that says k.
 * malloc'd; NULL without memory. */
char *null_engine_tape(uint64_t n_requests, uint64_t body_bytes);
const char *null_engine_body(const char *tape, uint64_t k);

#endif
