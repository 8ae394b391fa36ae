/* SPDX-License-Identifier: Apache-2.0 */
/* A run: the phases in order, everything they see written to the run directory. A phase that fails skips to
 * stop; the run is still there to be reported and sealed. Nothing here judges. */
#ifndef TRIAL_TRIAL_H
#define TRIAL_TRIAL_H

#include "base/err.h"
#include "load/load.h"
#include "model/lock.h"
#include "model/plan.h"

struct trial_ui { /* each may be NULL */
	void (*phase)(void *ctx, const char *phase);
	void (*load)(void *ctx, const char *cell, const struct load_progress *p);
	void (*line)(void *ctx, const char *text);
	void *ctx;
};

struct trial_spec {
	const struct plan *plan;
	const struct plan_candidate *cand;
	const char *plan_path;
	const char *plan_text;
	size_t plan_len;
	const struct lock *lock;
	const char *lock_text;
	size_t lock_len;
	const char *run_dir;
	const char *attempts_path; /* chained list of attempts beside the lock; NULL = none kept */
	bool no_cache;             /* hash every file anew */
	const bool *drain;         /* first Ctrl-C */
	const bool *abort;         /* second */
	struct trial_ui ui;
};

struct trial_facts { /* what sealing wants to know */
	char run_id[40];
	char started[40], finished[40];
	uint64_t attempt;
	char previous_attempt_sha256[65]; /* "" = first */
};

/* 0 when the run directory holds a run, however it went; -1 when there is none to report on. */
warn_unused int trial_run(struct trial_facts *facts, const struct trial_spec *spec, struct err *err);

/* What `lock` freezes for one candidate; also what a run compares. Starts the engine once when `start` is
 * set, to learn the files that its processes have mapped. */
struct lock_spec {
	const struct plan *plan;
	const struct plan_candidate *only; /* NULL = all candidates */
	const char *plan_path;
	bool start, no_cache;
	const bool *stop;
	int log_fd; /* output of the engines started */
	void (*line)(void *ctx, const char *text);
	void *ctx;
};
warn_unused int lock_make(struct lock *out, const struct lock_spec *spec, struct err *err);

/* SHA-256 of the running proofmark binary; "" when it cannot be read. */
void own_binary_sha256(char hex[65]);

#endif
