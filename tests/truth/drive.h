/* SPDX-License-Identifier: Apache-2.0 */
/* A cell against the scripted engine, its requests and its records. Each record's k must come once. */
#ifndef TESTS_TRUTH_DRIVE_H
#define TESTS_TRUTH_DRIVE_H

#include "base/clock.h"
#include "engine.h"
#include "load/load.h"

#define DRIVE_BODY_BYTES 256

struct drive {
	struct load_spec spec; /* may be changed before drive_run */
	struct load_result res;
	struct err err;
	uint64_t output_tok;
	uint64_t step_ns;         /* open loop: between due times */
	uint64_t turns;           /* of a conversation; 0 = none */
	unsigned follow_sleep_us; /* holds up the loop with each follow-up */
	size_t max;               /* room for records: requests with their turns */
	struct drive_request {
		struct load_request rq;
		char body[DRIVE_BODY_BYTES];
		bool is_done;
	} * requests; /* by k */
	size_t n;
	struct record *rows;
	unsigned *seen; /* records by k */
	bool drain, abort;
	size_t drain_at; /* sets `drain` when so many records came; 0 = never */
	size_t n_follow_calls, n_done_calls, n_early_done;
	size_t n_ticks;
	struct load_progress last_tick;
	size_t n_unordered; /* records that came before one with a smaller end_ns */
};

/* `n` calls of get; conversations have `turns` requests each. */
struct drive *drive_new(const struct engine *e, uint64_t n, uint64_t concurrency, uint64_t turns);
void drive_free(struct drive *d);
struct drive_cell { /* with the engine that it is driven against */
	struct engine engine;
	struct drive *d;
};
/* Starts the engine; NULL when it does not serve. */
struct drive_cell *drive_cell_new(const char *program, const char *args, uint64_t n, uint64_t concurrency,
                                  uint64_t turns);
void drive_cell_free(struct drive_cell *c);
int drive_run(struct drive *d); /* as load_run */
size_t drive_count(const struct drive *d, enum outcome o);
/* The record of that k, NULL = none or several. */
const struct record *drive_row(const struct drive *d, uint64_t k);

#endif
