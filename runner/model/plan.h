/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: what is to be tried on which candidates and what decides. Read once, then only read. The JSON
 * form is plans/schema/plan-1.schema.json and proofmark-plan(5); field names here are those of the file.
 * Sections that no phase executes yet are kept as they stand (`raw`), accepted, and come out `not_tested`
 * with the reason. Strings are owned by the plan; NULL means "not given". */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "base/json_in.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_BYTES_MAX (4u << 20)
#define PLAN_SCHEMA_VERSION 1
#define RULES_CURRENT 1 /* the statistics rule set (statistics.md 1-4); every released one stays built in */

enum backend { BACKEND_CUDA, BACKEND_ROCM, BACKEND_VULKAN, BACKEND_CPU };
enum engine_kind {
	ENGINE_LLAMACPP,
	ENGINE_ATTACH,
	ENGINE_SCRIPTED, /* these run today */
	ENGINE_VLLM,
	ENGINE_SGLANG,
	ENGINE_TGI,
	ENGINE_TRTLLM,
	ENGINE_OLLAMA,
	ENGINE_TORCHJOB,
};
enum launch_kind { LAUNCH_PROCESS, LAUNCH_CONTAINER, LAUNCH_ATTACH };
enum wl_class { CLASS_INTERACTIVE, CLASS_BATCH, CLASS_TRAINING, CLASS_SERVING, CLASS_COMPACT, N_CLASSES };
enum api {
	API_CHAT,
	API_COMPLETIONS,
	API_LLAMACPP,
	API_TGI,    /* POST /generate_stream, without streaming /generate */
	API_OLLAMA, /* POST /api/chat, NDJSON */
	API_SGLANG, /* POST /generate */
	API_TRITON, /* POST /v2/models/{model}/generate_stream, without streaming /generate */
	N_APIS
}; /* the first three: POST /v1/chat/completions, /v1/completions, /completion */
enum arrival {
	ARRIVAL_CLOSED,
	ARRIVAL_CONSTANT,
	ARRIVAL_POISSON,
	ARRIVAL_TRACE,
	ARRIVAL_GAMMA, /* gaps of a gamma distribution with shape `burstiness` and mean 1/rate */
	ARRIVAL_RAMP,  /* Poisson whose rate goes in a straight line from rate_rps to rate_end_rps over
	                  duration_s */
};
enum severity { SEVERITY_MUST, SEVERITY_SHOULD, SEVERITY_INFO };
enum comparator { CMP_LE, CMP_LT, CMP_GE, CMP_GT, CMP_EQ };

struct plan_file {
	char *path; /* as written: absolute, or relative to the plan's folder; ${NAME} is not expanded */
	char *sha256;
};

struct plan_env {
	char *name;
	char *value;     /* a literal, checked not to look like a secret; NULL when it comes from outside */
	char *from_env;  /* name of a variable of proofmark's own environment */
	char *from_file; /* path of a file whose first line is the value */
};

struct plan_launch {
	enum launch_kind kind;
	char *program; /* process: argv[0], looked up on PATH when it has no slash, else relative to the plan
	                */
	char *cwd;     /* process: NULL = the run directory */
	char *url;     /* attach: http(s)://host:port[/prefix] */
	char *api_key_env; /* name of the variable that holds the bearer key; never the key */
	char *api_key_file;
	char *ca_file;
	char *image;       /* container: immutable reference name@sha256:… */
	struct cJSON *raw; /* the whole object, for parts executed later */
};

struct plan_candidate {
	char *name;
	enum backend backend;
	char *arch; /* "sm_90", "gfx942", "x86-64"; NULL when not given */
	enum engine_kind engine;
	char *engine_version; /* NULL = not stated */
	char *engine_commit;  /* 40 or 64 hex digits, or NULL */
	struct plan_launch launch;
	size_t n_args;
	char **args; /* {port}, {host}, {model} (first model file) and {alias} are replaced at launch */
	size_t n_env;
	struct plan_env *env;
	char *engine_cpus;         /* "0" or "0,2-3": CPUs of the engine; NULL = not bound */
	char *client_cpus;         /* CPUs of the load client; NULL = not bound */
	uint64_t ready_deadline_s; /* default 600 */
	struct cJSON *previous; /* release for the rollback rehearsal, or NULL (borrowed from the document) */
	struct cJSON *support;  /* support statements, or NULL (borrowed) */
};

struct plan_arrival {
	enum arrival kind;
	double rate_rps;     /* open loop */
	uint64_t seed;       /* open loop; default 1 */
	double think_s;      /* closed loop: pause between an answer and the next request; default 0 */
	double rate_end_rps; /* ramp */
	double burstiness;   /* gamma: shape; 1 = Poisson, below 1 burstier, above 1 more even; default 1 */
	size_t n_rates;      /* stepped sweep: one cell a rate, ascending; 0 = rate_rps alone */
	double *rates_rps;
	bool stop_when_saturated; /* cells of the sweep behind the first over-saturated one are not run
	                             (model/saturation.h); also over the concurrencies of a closed loop */
	char *trace;              /* path of the trace file (model/trace.h) */
	double speed;             /* trace: times are divided by this; default 1 */
};

struct plan_sampling {
	double temperature; /* default 0 */
	uint64_t seed;      /* default 1 */
	double top_p;       /* <0 = not sent */
	int64_t top_k;      /* <0 = not sent */
};

struct plan_mix_part {
	char *name;
	double weight; /* above 0; share = weight / sum */
	uint64_t prompt_tok, output_tok;
};

struct plan_conversation {
	uint64_t turns;           /* 0 = no conversations, else 2 or more; `requests` counts turns */
	uint64_t turn_prompt_tok; /* new user tokens of each turn behind the first (not exact: the template's
	                             own come on top); default 32 */
	double think_s;           /* pause between an answer and the next turn; default 0 */
};

struct plan_retry {
	uint64_t max;                         /* sends behind the first; 0 = no retries (the default) */
	bool on_status, on_reset, on_timeout; /* 429 and 503; connection refused, reset or cut before the
	                                         first token; connect and first-byte deadlines */
	double backoff_s; /* before the n-th retry: n x this, or the server's Retry-After when that is longer
	                     (at most 60 s); default 0.5 */
};

struct plan_workload {
	char *name;
	enum wl_class cls;
	enum api api;               /* default chat */
	char *corpus;               /* text file the prompts are cut from, or NULL: built-in word list */
	double shared_prefix_share; /* 0..1 of each prompt that is the same in all; default 0 = unique
	                               prefixes */
	size_t n_prompt_tok;
	uint64_t *prompt_tok; /* context lengths in tokens, ascending */
	uint64_t output_tok;
	bool force_output;    /* default true: ignore_eos, so that every answer has output_tok tokens */
	size_t n_concurrency; /* closed loop; open loop: one entry = the most in flight (0 = unbounded) */
	uint64_t *concurrency;
	struct plan_arrival arrival;
	uint64_t requests;        /* per cell, critical cell; 0 = by duration */
	uint64_t other_requests;  /* per cell that is not the critical one; default = requests */
	double duration_s;        /* 0 = by requests */
	uint64_t warmup_requests; /* per cell, before it, sampling as in the measurement; default 2 */
	double connect_timeout_s, first_byte_timeout_s, stall_timeout_s,
		deadline_s; /* defaults 5, 60, 60, 300 */
	bool critical;      /* the performance-critical load: exactly one workload */
	uint64_t critical_prompt_tok,
		critical_concurrency; /* the one cell that gates; default: the largest of each */
	double critical_rate_rps;     /* with arrival.rates_rps only, else 0 */
	uint64_t looks;               /* K of statistics.md 2; default 1 */
	struct plan_sampling sampling;
	bool stream; /* default true; false: one JSON answer, of which only the end can be timed */
	size_t n_mix;
	struct plan_mix_part *mix; /* then prompt_tok and output_tok are not given: n_prompt_tok is 1 and
	                              prompt_tok[0] and output_tok are 0 */
	struct plan_conversation conversation;
	double canary_share; /* 0..1 of the requests that carry a nonce and a question with a known answer;
	                        default 0 */
	bool text_counters;  /* default true: the corruption counters of each answer are kept */
	struct plan_retry retry;
};

struct plan_control {
	char *id;
	char *prompt;           /* one user message; or */
	struct cJSON *messages; /* borrowed from the document */
	enum api api;
	uint64_t max_tok; /* default 64 */
	struct plan_sampling sampling;
	/* expectations; each is optional, at least one is given */
	size_t n_must_match, n_must_not_match;
	char **must_match, **must_not_match; /* PCRE2, UTF, match limit bounded */
	char *exact;
	bool json; /* answer must parse as one JSON text (a ```-fence around it is taken off) */
	int64_t min_tok, answer_max_tok; /* <0 = not asked */
	bool same_as_reference;          /* every repetition in this run gives the text of the first one */
};

struct plan_recovery {
	bool restart, second_cold_start, rollback; /* asked for */
	double restart_limit_s, second_cold_start_limit_s,
		rollback_limit_s; /* 0 = measured, no limit of its own */
};

struct plan_instrument {
	double max_send_lag_ms;    /* p99 of sent − due; default 10 */
	double max_loop_lag_ms;    /* p99 of event-loop lag; default 10 */
	double max_client_cpu_pct; /* own CPU share of one core while loading; default 90 */
	double max_steal_pct;      /* CPU steal over the load; default 10 */
	double max_runq_wait_pct;  /* time runnable but not on a CPU / wall time, client; default 20 */
	double max_ttft_error_ms, max_itl_error_ms; /* p99 of the calibration; default 10 each */
	double min_delivered_share;                 /* of the planned concurrency or rate; default 0.99 */
	double calibration_s; /* length of each calibration, before and after the load; 0 = none; default 2 */
	uint64_t client_threads; /* default 1 */
	bool busy_poll;          /* the client spins instead of sleeping; default false */
};

struct plan_where {
	char *workload;       /* NULL = the critical workload where the metric needs a cell */
	uint64_t prompt_tok;  /* 0 = the critical cell's */
	uint64_t concurrency; /* 0 = the critical cell's */
	double rate_rps;      /* of a sweep; 0 = the critical cell's */
	bool all_cells;       /* "cells": "all": every cell of the workload, pooled */
};

struct plan_criterion {
	char *id;       /* stable: [a-z0-9][a-z0-9._-]{0,63} */
	char *sentence; /* plain words: the title in every report */
	char *metric;   /* a name of model/metric.h's table */
	struct plan_where where;
	char *statistic; /* p50 p90 p95 p99 p999 median(=p50) mean min max share count value */
	enum comparator cmp;
	double limit; /* in limit_unit */
	char *limit_unit;
	double confidence; /* 0.5..0.9999; default 0.95 */
	enum severity severity;
};

struct plan_waiver {
	char *criterion, *reason, *owner, *expires; /* RFC 3339 date */
};

struct plan {
	struct cJSON *doc; /* the parsed document; everything "borrowed" points into it */
	char sha256[65];   /* of the file's bytes */
	char *id, *title, *owner;
	char *valid_from, *valid_until, *not_before, *challenge; /* RFC 3339 / free text; NULL when absent */
	uint64_t rules;
	struct {
		char *id, *revision, *format, *quantization, *dtype;
		uint64_t context_tok;
		size_t n_files;
		struct plan_file *files;
	} model;
	size_t n_candidates, n_workloads, n_controls, n_criteria, n_waivers;
	struct plan_candidate *candidates;
	struct plan_workload *workloads;
	struct plan_control *controls;
	uint64_t control_repeats; /* times each control runs per round (before, between, after); default 1 */
	struct plan_recovery recovery;
	struct plan_instrument instrument;
	uint64_t telemetry_period_ms; /* default 200 */
	struct plan_criterion *criteria;
	struct plan_waiver *waivers;
	struct cJSON *telemetry, *power, *cost; /* borrowed; NULL when absent */
};

/* Text -> plan. Syntax errors: -1, ERR_PLAN with line and column. Everything else goes to `problems` in one
 * go (shape, meaning, lint); with n_errors > 0 it returns -1 with ERR_PLAN and a summary line, and *out
 * untouched. `name` is the file's name for messages. Reads no file, no clock, no socket. */
warn_unused int plan_parse(struct plan **out, const char *text, size_t len, const char *name,
                           struct problems *problems, struct err *err);
void plan_free(struct plan *p);

const struct plan_candidate *plan_candidate_find(const struct plan *p,
                                                 const char *name); /* NULL = not there */
const struct plan_workload *plan_critical(const struct plan *p);

/* Words of the enums as in the file; NULL-ended arrays in enum order. */
extern const char *const backend_words[],
	*const engine_kind_words[],
		*const launch_kind_words[],
			*const class_words[],
				*const api_words[],
					*const arrival_words[],
						*const severity_words[],
							*const comparator_words[]; /* "<=" "<" ">=" ">" "=="
                                                                                    */

static inline void cleanup_plan(struct plan **p)
{
	plan_free(*p);
}
#define auto_plan __attribute__((cleanup(cleanup_plan))) struct plan *

#endif
