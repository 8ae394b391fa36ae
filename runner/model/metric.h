/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics a criterion can name: one table that plan check, verdict, reports and man page share. */
#ifndef MODEL_METRIC_H
#define MODEL_METRIC_H

#include <stdbool.h>
#include <stddef.h>

enum metric_kind {
	METRIC_LATENCY, /* one value a request, ns; quantile gates by exact binomial bounds */
	METRIC_RATE,    /* one value a cell (tok/s, requests/s, share of the cell); compared as it is */
	METRIC_SHARE,   /* x of n requests; Clopper-Pearson bound */
	METRIC_COUNT,   /* whole number over the run */
	METRIC_PEAK,    /* worst value of a telemetry series */
	METRIC_TIME,    /* one duration of the run: starts, restart */
	METRIC_RATIO,   /* quotient of two such durations */
	METRIC_LATER,   /* accepted in plans; no phase measures it yet: not_tested */
};

enum unit_dim {
	DIM_TIME,
	DIM_TOK_RATE,
	DIM_REQ_RATE,
	DIM_SHARE,
	DIM_COUNT,
	DIM_BYTES,
	DIM_RATIO,
	DIM_POWER,
	DIM_ENERGY_PER_TOK,
	DIM_BYTE_RATE
};

struct metric {
	const char *name;
	const char *formula; /* name and number of the formula, "ttft/1": proofmark-bundle(5) */
	enum metric_kind kind;
	enum unit_dim dim;
	bool needs_cell; /* bound to one cell (workload × prompt_tok × concurrency) */
	bool functional; /* gates performance criteria: if it is not passed, those are judged but cannot carry
	                    the verdict */
	bool higher_is_better;      /* comparators that make sense are >= > */
	const char *statistics[12]; /* allowed ones, NULL-ended */
	const char *says;           /* definition in one sentence, with its formula */
	const char *later;          /* METRIC_LATER: why it is not tested */
};

/* NULL-name-ended. ttft ttft_content itl tpot e2e send_lag spacing_error · output_tok_s request_s
 * prefill_tok_s decode_tok_s delivered_share prefix_cache_hit_share · failed_share canary_failed_share
 * suspicious_answer_share retried_share · controls_failed completed_requests output_length_mismatch
 * engine_exits foreign_nonces · engine_pss_peak engine_rss_peak host_used_peak · cold_start second_cold_start
 * restart rollback · second_to_first_cold_start · (later) device_memory_peak device_power_mean
 * wall_power_mean energy_per_output_tok leak_slope scaling_efficiency train_step train_tok_s
 * train_loss_deviation train_bad_steps train_resume */
extern const struct metric metrics[];
const struct metric *metric_find(const char *name); /* NULL = none */

struct unit {
	const char *name; /* "ms" */
	enum unit_dim dim;
	double to_base; /* base: ns, tok/s, 1/s, share 0..1, count, bytes, ratio, W, J/tok, B/s */
};
extern const struct unit units[]; /* NULL-name-ended */
const struct unit *unit_find(const char *name);

/* "p99" -> 99/100, "p999" -> 999/1000, "median"/"p50" -> 50/100. false when `statistic` is not a quantile. */
bool statistic_quantile(const char *statistic, unsigned *num, unsigned *den);

#endif
