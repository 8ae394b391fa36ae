/* SPDX-License-Identifier: Apache-2.0 */
/* What the phases of a run share. Only trial/ sees this. */
#ifndef TRIAL_TRIAL_PARTS_H
#define TRIAL_TRIAL_PARTS_H

#include "base/json_out.h"
#include "engine/engine.h"
#include "model/cell.h"
#include "model/surface.h"
#include "model/trace.h"
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
	bool *cell_ran;       /* by cell: its load was begun */
	struct trace *traces; /* by workload; empty but for trace replay */
	struct stop_rule *stop_rule;
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
enum api critical_api(const struct plan *p);
void blank_engine_log(struct trial *t);
void ui_line(const struct trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool stopped(const struct trial *t); /* Ctrl-C was pressed */

/* trial_load.c */
struct ticker {
	const struct trial *t;
	const char *cell;
};
void trial_tick(void *ctx, const struct load_progress *p);
uint64_t ns_of_s(double s);
/* Everything of a load_spec that comes from the trial and not from one cell. */
struct load_spec trial_load_spec(const struct trial *t, const char *cell_id, enum rec_kind kind);
bool is_driven(const struct cell *cell);
const struct trace *trace_of(const struct trial *t, const struct cell *cell); /* NULL = no trace replay */

/* trial_traces.c */
int read_traces(struct trial *t, struct err *err);
void free_traces(struct trial *t);

/* trial_cell.c */
int run_cell(struct trial *t, const struct cell *cell, struct err *err);
/* `n_planned` of the schedule, UINT64_MAX = no end. Without path, source and sink. */
struct load_spec cell_load_spec(const struct trial *t, const struct cell *cell, enum rec_kind kind,
                                uint64_t n_planned);
/* ERR_ENV when this machine has not the descriptors and ports that a cell needs. */
int check_limits(struct trial *t, struct err *err);

/* trial_stop.c */
struct stop_rule *stop_rule_new(void);
void stop_rule_free(struct stop_rule *s);
void stop_rule_begin(struct stop_rule *s, const struct cell *cell);
void stop_rule_take(struct stop_rule *s, const struct cell *cell, const struct record *rec);
void stop_rule_end(struct stop_rule *s, const struct cell *cell);
/* Why this cell is not to be run; NULL = it is. */
const char *stop_rule_leaves_out(const struct stop_rule *s, const struct cell *cell);

/* trial_answers.c: answers_add copies and may wait; a line that cannot be written fails a later call, at
 * last answers_close (which accepts NULL). */
struct answers;
int answers_open(struct answers **out, struct trial *t, const struct cell *cell, const struct sched *sched,
                 script_set scripts, struct err *err);
int answers_add(struct answers *a, const struct record *rec, const char *text, size_t len);
int answers_close(struct answers *a);

/* trial_blank.c: the candidate's secrets, overwritten with as many '*'; text[len] has to be 0 */
void blank_answer(char *text, size_t len, const struct engine_run *engine);
void blank_identity(struct engine_identity *id, const struct engine_run *engine);

/* trial_metrics.c */
void keep_engine_metrics(struct trial *t, const struct cell *cell, const char *when);

/* trial_calibrate.c: "before" or "after"; failures are events */
void calibrate_loads(struct trial *t, const char *when);
const char *load_name(const struct cell *cell); /* "c8", within the cell's id */

/* trial_pin.c, for lock_make as well */
char *model_path(const char *plan_dir, const struct plan_file *f);
int pin_model_files(struct lock_file **list, size_t *n, const struct plan *p, const char *plan_dir,
                    bool cache, const bool *stop, struct err *err);
int pin_engine_program(struct lock_candidate *c, const struct plan_candidate *cand, const char *plan_dir,
                       bool cache, struct err *err);
int pin_engine_running(struct lock_candidate *c, pid_t pid, const struct plan *p, const char *plan_dir,
                       bool cache, struct err *err);

#endif
