/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict, computed from the evidence and nothing else. */
#ifndef MODEL_VERDICT_H
#define MODEL_VERDICT_H

#include "model/evidence.h"
#include "model/metric.h"
#include "model/saturation.h"

enum crit_state {
	STATE_PASS,
	STATE_FAIL,
	STATE_INCONCLUSIVE,
	STATE_INVALID,
	STATE_ERROR,
	STATE_BLOCKED,
	STATE_NOT_TESTED,
	STATE_NOT_APPLICABLE,
	N_STATES
};
extern const char *const state_words[]; /* "pass" "fail" … NULL-ended, enum order */

enum run_verdict { /* worst first */
	           VERDICT_INTERRUPTED,
	           VERDICT_REJECTED,
	           VERDICT_INVALID,
	           VERDICT_BLOCKED,
	           VERDICT_ERROR,
	           VERDICT_INCONCLUSIVE,
	           VERDICT_ACCEPTED_WITH_WAIVERS,
	           VERDICT_ACCEPTED,
	           N_VERDICTS
};
extern const char *const verdict_words[];
int verdict_exit_code(enum run_verdict v); /* design.md: 130 1 4 5 5 3 0 0 */

/* A quantity that may be unknown. Integers where the rule compares integers (ns, counts); `known` false =
 * null. */
struct figure {
	bool known;
	double value;     /* in `unit` */
	const char *unit; /* "ms" "share" "tok/s" … static string */
};

struct crit_result {
	const struct plan_criterion *crit;
	const struct metric *metric; /* NULL when the plan names none we know (not_tested) */
	char where[CELL_ID_BYTES];   /* cell id, "all cells of …", or "run" */
	enum crit_state state;
	char reason[512];      /* one sentence, always set: why this state */
	struct figure value;   /* the statistic as displayed (nearest rank for quantiles) */
	struct figure bound;   /* its confidence bound on the side of the limit */
	struct figure worst;   /* worst observed value */
	struct figure limit;   /* limit in the plan's unit */
	uint64_t n, t;         /* requests judged; of them over the limit (failed ones count as over) */
	uint64_t n_failed;     /* of n: failed requests */
	uint64_t n_more;       /* requests still needed if all are in time; 0 = none or not that kind */
	double n_eff;          /* statistics.md 4; 0 = not computed */
	const char *rule;      /* "exact binomial, one-sided" …; static */
	double p_pass, p_fail; /* tail probabilities the decision compared; NAN = none */
	const struct plan_waiver *waiver; /* valid one that covers a fail, else NULL */
};

struct dist {              /* of one latency metric in one cell; values in ns */
	uint64_t n;        /* completed requests (or gaps) with a value */
	uint64_t n_failed; /* requests without one */
	double mean_ns;
	uint64_t min_ns, p50_ns, p90_ns, p95_ns, p99_ns, max_ns; /* nearest rank; REC_NONE = unknown */
	uint64_t p50_ub_ns, p90_ub_ns, p95_ub_ns,
		p99_ub_ns; /* 95 % one-sided upper bounds, failures as over; REC_NONE = not estimable */
	uint64_t *sorted;  /* owned; all values ascending */
};

enum invalid_cause { /* why a cell is invalid: what to change about the client follows from it */
	             INVALID_NONE,
	             INVALID_NOT_RECORDED,
	             INVALID_SEND_LAG,
	             INVALID_LOOP_LAG,
	             INVALID_CPU,
	             INVALID_STEAL,
	             INVALID_RUNQ,
	             INVALID_CALIBRATION,    /* its errors are over the plan's bounds */
	             INVALID_NO_CALIBRATION, /* asked for, and not there */
	             INVALID_LIGHT,          /* fewer streams than planned */
	             INVALID_DELIVERED,      /* less concurrency or rate than planned */
};

struct group_result {     /* one part of a mix, or one turn of the conversations; ns, REC_NONE = unknown */
	const char *name; /* of a part; NULL = a turn */
	uint64_t turn;
	uint64_t n, n_failed; /* without cancelled rows, with unasked turns */
	uint64_t ttft_p50_ns, ttft_p99_ns, itl_p50_ns, itl_p99_ns, e2e_p50_ns, e2e_p99_ns;
};

struct instrument_result { /* NAN and REC_NONE = unknown */
	uint64_t n_calibrations;
	uint64_t cal_ttft_p50_ns, cal_ttft_p99_ns, cal_itl_p50_ns, cal_itl_p99_ns; /* the worse of them */
	uint64_t ttft_error_ns,
		itl_error_ns; /* of TTFT and E2E, of ITL and TPOT: with the lags of the load */
	double client_cpu_pct, steal_pct, runq_wait_pct; /* of one CPU a thread */
};

struct cell_result {
	const struct cell *cell;
	const struct ev_cell_state *st;
	uint64_t n_scheduled, n_completed, n_failed, n_cancelled;
	uint64_t n_unasked;            /* turns behind a failed one: failed, without a row */
	uint64_t n_retries, n_retried; /* sends behind the first; requests that had some */
	uint64_t n_outcome[N_OUTCOMES];
	struct dist ttft, ttft_content, ttft_sent, itl, tpot, e2e, send_lag,
		spacing;       /* ttft from due; ttft_sent from sent */
	bool itl_measurable;   /* events per output token >= .8, statistics and field-reports 3 */
	double events_per_tok; /* NAN = unknown */
	double output_tok_s, request_s, prefill_tok_s, decode_tok_s; /* NAN = unknown */
	uint64_t output_tok, prompt_tok, cached_tok; /* sums by usage; REC_NONE = some request told none */
	uint64_t n_length_mismatch;                  /* usage output != planned, where output is forced */
	uint64_t n_prompt_mismatch;                  /* usage prompt != planned */
	uint64_t window_ns;                          /* first due .. last end */
	uint64_t loop_error_ns; /* the instrument's own error here: max(send lag p99, loop lag p99) */
	struct {
		double planned, value, share; /* NAN = unknown */
		const char *unit;             /* "requests" in flight, or "requests/s" */
	} delivered;
	struct saturation_result saturation; /* unknown unless cell_can_saturate */
	struct {
		uint64_t n;   /* answers of 8 token events or more */
		double share; /* of them in at most 2 reads; NAN = none */
		bool yes;
	} buffered;
	struct {
		uint64_t n, n_failed, n_foreign;
	} canaries;
	struct {
		uint64_t n_counted, n_suspicious, n_foreign_script;
	} answers;
	double prefix_cache_hit_share, queue_time_mean_ms; /* NAN = unknown */
	const char *prefix_cache_source;                   /* "engine metrics" "usage"; NULL = unknown */
	size_t n_parts, n_turns;
	struct group_result *parts, *turns; /* owned */
	struct instrument_result instrument;
	bool valid;
	enum invalid_cause cause;
	char invalid_reason[256];
};
bool cell_is_open_loop(const struct cell *c);
bool cell_can_saturate(const struct cell *c); /* an open loop of one rate */
/* Rows and turns without a whole answer. */
uint64_t cell_failures(const struct cell_result *c);

struct control_result {
	const struct plan_control *control;
	uint64_t n, n_passed, n_unclear; /* unclear: request failed, so the answer could not be judged: counts
	                                    as not passed */
	char first_failure[512];
};

struct memory_result {
	const char *name;  /* telemetry name */
	const char *phase; /* NULL = whole run */
	uint64_t n, n_unknown;
	double peak, last;
};

struct verdict {
	enum run_verdict run;
	char reasons[8][256]; /* why not better, in order; n_reasons */
	size_t n_reasons;
	struct {
		bool present;
		enum run_verdict verdict;
	} classes[N_CLASSES];
	size_t n_criteria;
	struct crit_result *criteria; /* plan order */
	size_t n_cells;
	struct cell_result *cells;
	size_t n_controls;
	struct control_result *controls;
	size_t n_memory;
	struct memory_result *memory;
	uint64_t n_foreign, n_texts; /* foreign nonces; texts looked at */
	const struct evidence *ev;
};

warn_unused int verdict_compute(struct verdict *out, const struct evidence *ev, struct err *err);
void verdict_done(struct verdict *v);
/* verdict.json: canonical (fixed key order, indent 1), so equal verdicts are equal bytes. */
int verdict_write(struct buf *out, const struct verdict *v);

#endif
