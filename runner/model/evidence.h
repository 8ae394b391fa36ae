/* SPDX-License-Identifier: Apache-2.0 */
/* The run directory as bytes in memory, and what it says. `store` fills a member_set from a folder or from a
 * verified bundle; everything after that (verdict, reports, verify) works on it alone, so that all of them
 * see the same bytes. A file that is missing, cut or unreadable in parts is told in `missing` and never
 * fatal: a run that was killed still has a report. */
#ifndef MODEL_EVIDENCE_H
#define MODEL_EVIDENCE_H

#include "model/cell.h"
#include "model/plan.h"
#include "model/record.h"
#include "model/schedule.h"

struct member {
	char *name; /* "requests.jsonl" */
	const uint8_t *data;
	size_t len;
	void *owned; /* freed with the set; NULL = mapped or borrowed */
	size_t map_len;
};
struct member_set {
	size_t n;
	struct member *list;
};
const struct member *member_find(const struct member_set *s, const char *name);
/* Takes ownership of `owned` (malloc'd) when not NULL. */
int member_add(struct member_set *s, const char *name, const void *data, size_t len, void *owned);
void member_set_done(struct member_set *s); /* unmaps and frees */

/* --- events.jsonl: the journal. One object a line: {"seq":N,"t_ns":N,"ev":"…",…}. Kinds and members:
 * run_begin    run_id, wall (RFC 3339 anchor of t_ns 0), candidate, attempt, previous_attempt_sha256 (null),
 *              version, binary_sha256, clock_source, labels[] ("scripted engine", …: such a run is never
 * accepted) phase_begin  phase                  phase_end  phase, ok, reason (null when ok) engine_spawn
 * start, why ("first"|"second_cold"|"restart"), pid, argv_sha256 engine_ready start, why, spawn_ns,
 * health_ns, first_completion_ns; engine_not_ready the same with `message`; engine_killed start (by us, for
 * the restart test) engine_exit  start, status, signal, expected (we asked for it) cell_begin
 * cell, planned (0 = by duration)       cell_end  cell, scheduled, done, stopped_by
 *              ("complete"|"duration"|"interrupt"|"engine_died"|"error"), wall_ns
 * soundness    cell, send_lag_p50_ns …_p99_ns …_max_ns, loop_lag_p50_ns …_p99_ns …_max_ns, loop_lag_n,
 *              client_cpu_ns, wall_ns, steal_ticks, total_ticks, max_in_flight, start_ns, runq_wait_ns,
 *              threads, retries
 * calibration  load, when, the members of struct calibration (load/calibrate.h)
 * not_tested   what, reason           difference what, locked, found           disk_full where
 * label        label: as those of run_begin, found out later
 * interrupt    signal                 error      class, message                run_end status ("complete"|…)
 * ------------------------------------------------------------------------------------------------------- */

struct ev_start {
	uint64_t number;
	char why[16];
	uint64_t spawn_ns, health_ns, first_completion_ns; /* REC_NONE = did not happen */
	uint64_t killed_ns;  /* we killed it for the restart test; REC_NONE = we did not */
	char not_ready[256]; /* why it never got ready; "" = not told */
	bool exited;
	bool exit_expected;
	int exit_status, exit_signal;
};

/* schedule.jsonl, one block of it: what of one cell and kind was planned. Made again from the plan and found
 * equal; of a trace, which is not in the evidence, as it stands in the file. */
struct ev_schedule {
	bool there;
	uint64_t n;               /* lines */
	struct sched *made;       /* owned; NULL = of a trace, or it could not be made again */
	struct sched_item *items; /* owned; of a trace */
	size_t n_items, cap_items;
};
/* false: there is no such line, or it is not known. */
bool ev_schedule_at(const struct ev_schedule *s, uint64_t k, struct sched_item *out);

/* The engine's /metrics page, engine_metrics.jsonl: {"t_ns","cell","when","status","page"} */
struct ev_page {
	bool there;       /* asked for */
	uint64_t status;  /* REC_NONE = no answer */
	const char *text; /* NULL unless 200 */
	size_t len;
};

struct ev_cell_state {
	const struct cell *cell; /* points into evidence.cells */
	bool begun, ended;
	uint64_t planned, scheduled, done, load_wall_ns; /* as the begin and the end tell */
	char stopped_by[16];
	bool has_soundness;
	uint64_t send_lag_p50_ns, send_lag_p99_ns, send_lag_max_ns;
	uint64_t loop_lag_p50_ns, loop_lag_p99_ns, loop_lag_max_ns,
		loop_lag_n; /* REC_NONE when n is 0 or not told */
	uint64_t client_cpu_ns, wall_ns, steal_ticks, total_ticks, max_in_flight;
	uint64_t start_ns, runq_wait_ns, threads, retries;
	struct ev_schedule load, warmup;
	struct ev_page before, after;
	const char *left_out; /* why the run left it out; NULL = it did not */
};

/* The instrument against a server with known times; one for each load and time. All but the first three
 * counts REC_NONE = no sample. */
struct ev_calibration {
	char load[CELL_ID_BYTES]; /* last component of cell ids: "c8" */
	bool after;               /* the load phase; else before it */
	uint64_t n_requests, n_failed, n_gaps;
	uint64_t ttft_error_p50_ns, ttft_error_p99_ns, ttft_error_max_ns;
	uint64_t itl_error_p50_ns, itl_error_p99_ns, itl_error_max_ns;
	uint64_t send_lag_p50_ns, send_lag_p99_ns, send_lag_max_ns;
	uint64_t loop_lag_p99_ns, client_cpu_ns, wall_ns, n_tokens, max_in_flight, server_late_p99_ns;
};
const char *ev_load_of_cell(const struct cell *c); /* "c8" of "chat/32in/16out/c8" */

/* answers.jsonl, a line each: {"i","cell","k","chars","distinct","max_run","zlib_share","rep4_share",
 * "foreign_share","special","nonce","expected","text"}; ascending by i */
struct ev_answer {
	uint64_t i; /* record.i */
	size_t cell;
	uint64_t k;
	uint64_t chars, distinct, max_run, special;   /* REC_NONE = not computed */
	double zlib_share, rep4_share, foreign_share; /* NAN = not computed */
	const char *nonce, *expected, *text;          /* NULL = null */
	size_t text_len;
};

struct ev_phase {
	char name[32];
	uint64_t begin_ns, end_ns; /* end REC_NONE = did not end */
	bool ok;
	char reason[256];
};

/* controls.jsonl, a line each:
 * {"i","id","round","rep","start","request","outcome","finish","output_tok","text"} */
struct ev_control {
	char id[80];
	char round[32];               /* "before" "between" "after" "second_cold" "restart" */
	uint64_t rep, start, request; /* request = record.i */
	enum outcome outcome;
	uint64_t output_tok; /* REC_NONE = not told */
	char *text;          /* whole answer, UTF-8 */
	size_t text_len;
};

/* telemetry.jsonl, a line each: {"t_ns","name","value","source","phase"}; value null = unknown */
struct ev_reading {
	uint64_t t_ns;
	const char *name; /* interned: "engine_pss_bytes" "engine_rss_bytes" "host_available_bytes" … */
	const char *source;
	const char *phase;
	double value; /* NAN = unknown */
};

struct evidence {
	struct plan *plan;
	struct cJSON *lock, *facts; /* NULL when missing */
	size_t n_cells;
	struct cell *cells;
	struct ev_cell_state *cell_states; /* one for each cell, same order */
	size_t n_records;
	struct record *records;
	const uint8_t *tokens; /* tokens.bin */
	size_t tokens_len;
	size_t n_answers;
	struct ev_answer *answers;
	size_t n_calibrations;
	struct ev_calibration *calibrations;
	size_t n_controls;
	struct ev_control *controls;
	size_t n_readings;
	struct ev_reading *readings;
	size_t n_starts;
	struct ev_start *starts;
	size_t n_phases;
	struct ev_phase *phases;
	char run_id[64], wall[40], candidate[128], status[32], version[32];
	uint64_t attempt;
	char previous_attempt_sha256[65];
	char binary_sha256[65], clock_source[64]; /* "" = not told */
	bool interrupted, disk_full, engine_never_ready;
	size_t n_labels;
	char **labels; /* why this run can never be accepted: "scripted engine" … */
	size_t n_differences;
	char **differences; /* world not as locked, each in one line */
	size_t n_missing;
	char **missing; /* what is missing, cut or unreadable, each in one line */
	size_t n_not_tested;
	char **not_tested;
	char error[512];        /* the tool's own error that ended the run; "" = none */
	int error_class;        /* enum err_class; 0 = none */
	char evidence_root[65]; /* filled by whoever holds the members (store/bundle.h); "" = not known */
	uint64_t end_ns;        /* last t_ns seen anywhere */
	void *arena;            /* interned strings */
};

/* plan.json must parse (else -1: there is nothing to report on); everything else may be missing. `set` must
 * outlive the evidence. */
warn_unused int evidence_load(struct evidence *out, const struct member_set *set, struct err *err);
void evidence_done(struct evidence *e);

/* By record.i; NULL = none. */
const struct record *ev_record(const struct evidence *e, uint64_t i);
const struct ev_answer *ev_answer_of(const struct evidence *e, uint64_t i);

/* Token arrival times of one record, absolute ns. Never runs past the record's bytes.
 * `struct tok_iter it = tok_begin(e, r); uint64_t t; while (tok_next(&it, &t)) …` */
struct tok_iter {
	const uint8_t *p, *end;
	uint64_t at_ns;
};
struct tok_iter tok_begin(const struct evidence *e, const struct record *r);
bool tok_next(struct tok_iter *it, uint64_t *at_ns);

#endif
