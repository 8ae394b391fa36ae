/* SPDX-License-Identifier: Apache-2.0 */
/* What the phases of a run share. Only trial/ sees this. */
#ifndef TRIAL_TRIAL_PARTS_H
#define TRIAL_TRIAL_PARTS_H

#include "engine/engine.h"
#include "model/cell.h"
#include "pin/pin_model.h"
#include "store/rundir.h"
#include "telemetry/sampler.h"
#include "trial/prompts.h"
#include "trial/trial.h"

struct trial {
	const struct trial_spec *spec;
	struct trial_facts *facts;
	uint64_t origin_ns;
	int64_t wall_ns;
	struct rundir *dir;
	struct sampler *sampler;
	char *plan_dir;
	char *model_file; /* first model file, resolved; NULL = none */
	char *own_cpus;   /* CPUs we were started on */
	const struct engine_ops *ops;
	struct engine_run *engine; /* NULL = not running */
	struct engine_times first_times;
	uint64_t start; /* number of the engine start, from 1 */
	struct engine_identity identity;
	struct prompts *prompts;
	struct prompts_spec prompts_spec;
	struct lock_candidate found; /* engine files as found in this run */
	char **argv;                 /* of the first start */
	size_t n_argv;
	uint64_t n_control_answers; /* lines of controls.jsonl so far */
	const char *phase;
	bool nothing_runs; /* this engine or launch is not driven yet: everything is not_tested */
	size_t n_cells;
	struct cell *cells;
};

/* A phase: 0, or -1 with err = why the run goes straight to stop. */
int phase_pin(struct trial *t, struct err *err);
int phase_probe(struct trial *t, struct err *err);
int phase_preflight(struct trial *t, struct err *err);
int phase_start(struct trial *t, struct err *err);
int phase_warm(struct trial *t, struct err *err);
int phase_controls_before(struct trial *t, struct err *err);
int phase_load(struct trial *t, struct err *err);
int phase_controls_after(struct trial *t, struct err *err);
int phase_recover(struct trial *t, struct err *err);
int phase_stop(struct trial *t, struct err *err);

/* Shared steps. */
int start_engine(struct trial *t, const char *why, struct err *err);
/* `killed_by_us`: its end was our doing, although we did not ask it to stop. */
void stop_engine(struct trial *t, bool killed_by_us);
int run_controls(struct trial *t, const char *round, struct err *err);
int pin_started_engine(struct trial *t, struct err *err);
int write_facts(struct trial *t, struct err *err);
void say_not_tested(struct trial *t, const char *what, const char *reason);
void blank_engine_log(struct trial *t);
void ui_line(const struct trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool stopped(const struct trial *t); /* Ctrl-C was pressed */

/* trial_pin.c, for lock_make as well */
char *model_path(const char *plan_dir, const struct plan_file *f);
int pin_model_files(struct lock_file **list, size_t *n, const struct plan *p, const char *plan_dir,
                    bool cache, const bool *stop, struct err *err);
int pin_engine_program(struct lock_candidate *c, const struct plan_candidate *cand, const char *plan_dir,
                       bool cache, struct err *err);
int pin_engine_running(struct lock_candidate *c, pid_t pid, const struct plan *p, const char *plan_dir,
                       bool cache, struct err *err);

#endif
