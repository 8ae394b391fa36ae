/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of verdict_*.c share; nobody else includes it. */
#ifndef MODEL_VERDICT_PARTS_H
#define MODEL_VERDICT_PARTS_H

#include "base/json_out.h"
#include "model/verdict.h"

enum latency {
	LAT_TTFT,
	LAT_TTFT_CONTENT,
	LAT_TTFT_SENT,
	LAT_ITL,
	LAT_TPOT,
	LAT_E2E,
	LAT_SEND_LAG,
	LAT_SPACING, /* of two rows */
};

struct cell_rows { /* load records of one cell in the order they were due */
	size_t n;
	const struct record **rows;
	size_t n_ends;
	const struct record **ends; /* failed rows with turns behind them that were never asked */
};

struct judge {
	const struct evidence *ev;
	struct verdict *v;
	struct cell_rows *rows; /* one for each cell */
	bool no_memory;
};

/* Values of one latency in the order of measurement. */
struct series {
	uint64_t *v; /* owned (free) */
	size_t n, cap;
	uint64_t n_failed;  /* requests (itl: their planned gaps) without a value: over every limit */
	uint64_t n_unknown; /* completed requests whose value cannot be known (no usage) */
};

/* Which rows: REC_NONE = of every part, of every turn. */
struct row_filter {
	uint64_t part, turn;
};
#define EVERY_ROW ((struct row_filter){ REC_NONE, REC_NONE })

bool outcome_failed(enum outcome o);          /* neither completed nor cancelled by us */
bool latency_needs_stream(enum latency what); /* cannot be told from an answer that came as a whole */
uint64_t turns_behind(const struct cell *c, const struct record *r); /* of its conversation */
/* Adds the values of one cell. */
void series_add(struct series *s, struct judge *j, enum latency what, size_t cell,
                const struct row_filter *which);
void dist_fill(struct dist *d, struct judge *j, enum latency what, size_t cell);
/* Nearest rank among values (ascending) and failed ones, these at the top; REC_NONE = unknown. */
uint64_t series_quantile(const struct series *s, unsigned num, unsigned den);
void judge_rows(struct judge *j); /* fills j->rows */
void judge_rows_done(struct judge *j);
void judge_cell(struct judge *j, size_t cell); /* fills v->cells[cell]; the rest of it: */
void judge_delivered(struct judge *j, size_t cell);
void judge_buffered(struct judge *j, size_t cell);
void judge_cache_and_queue(struct judge *j, size_t cell);
void judge_parts_and_turns(struct judge *j, size_t cell);
void judge_soundness(struct judge *j, size_t cell);
void judge_canaries(struct judge *j); /* of all cells */

enum whole {
	CELL_WHOLE,
	CELL_NOT_RUN,
	CELL_STOPPED, /* Ctrl-C, or requests cancelled by us */
	CELL_DIED,    /* the engine died under load */
	CELL_CUT,     /* the run was cut off, the disk was full, our own error */
};
enum whole cell_whole(const struct judge *j, size_t cell);

/* The cells a criterion speaks of; indices into v->cells. */
struct cell_pick {
	size_t n;
	size_t *cells; /* owned (free) */
};
struct cell_pick cells_of_criterion(struct judge *j, const struct plan_criterion *c, const struct metric *m);
/* The workload a criterion is bound to, or NULL: the whole run. */
const struct plan_workload *workload_of_criterion(const struct evidence *ev, const struct plan_criterion *c,
                                                  const struct metric *m);

uint64_t engine_deaths(const struct evidence *ev);   /* exits nobody asked for, of engines that were ready */
bool nothing_was_started(const struct evidence *ev); /* a whole run that tried no engine */
void judge_criterion(struct judge *j, struct crit_result *r);
/* By kind; state and reason are always set. `limit` is in base units, `to_base` turns figures back. */
void judge_latency(struct judge *j, struct crit_result *r, const struct cell_pick *pick);
/* The first picked cell in which something failed and nothing was completed; NULL = none. */
const struct cell_result *cell_without_success(const struct judge *j, const struct cell_pick *pick);
void say_no_success(struct crit_result *r, const struct cell_result *c);
void judge_share(struct judge *j, struct crit_result *r, const struct cell_pick *pick);
void judge_rate(struct judge *j, struct crit_result *r, const struct cell_pick *pick);
void judge_count(struct judge *j, struct crit_result *r, const struct cell_pick *pick);
void judge_peak(struct judge *j, struct crit_result *r);
void judge_time(struct judge *j, struct crit_result *r);

void crit_say(struct crit_result *r, enum crit_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Simple comparison of a figure in base units; NAN never holds. Sets value, state and a plain reason. */
void crit_compare(struct crit_result *r, double value_base);
struct figure crit_figure(const struct crit_result *r, double value_base); /* in the limit's unit */
double crit_limit_base(const struct crit_result *r);
bool comparator_holds(double value, enum comparator cmp, double limit);
bool comparator_upper(enum comparator cmp); /* <= < : small is good */

/* Peak of a telemetry series over the whole run, NAN when no reading is known. */
double telemetry_peak(const struct evidence *ev, const char *name, uint64_t *n_known, uint64_t *n_unknown,
                      uint64_t *n_under_load);
/* Longest of the starts made for this reason ("first" "second_cold" "restart" "rollback"), from spawn
 * (restart: from the kill before it) to first completion. NULL when it was measured, else why it was not;
 * `failed`: it was tried. Adds to *n the starts tried. */
const char *time_of_starts(const struct evidence *ev, const char *why, uint64_t *n, bool *failed,
                           double *out_ns);
void judge_memory(struct judge *j);
void judge_controls(struct judge *j);
/* NULL, or which answers are missing so that "none failed" says nothing. */
const char *controls_gap(const struct judge *j);
void judge_run(struct judge *j); /* run verdict, classes, reasons */

/* verdict.json: figures of 9 digits; NAN, REC_NONE and "" are null. */
void verdict_put_num(struct json_out *o, const char *key, double value);
void verdict_put_text(struct json_out *o, const char *key, const char *text);
void verdict_put_cell(struct json_out *o, const struct cell_result *c);

#endif
