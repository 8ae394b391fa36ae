/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of `proofmark load`: the load engine without a plan of the user's. Options become a plan document
 * (cmd_load_plan.c), which is read as every plan is; one cell of it is driven (cmd_load_run.c), its rows are
 * kept small (cmd_load_rows.c) and summed up (cmd_load_sum.c), and one summary makes the table, the JSON text
 * and the exit code. */
#ifndef CLI_CMD_LOAD_H
#define CLI_CMD_LOAD_H

#include "base/json_out.h"
#include "cli/opt.h"
#include "load/calibrate.h"
#include "load/load.h"
#include "model/cell.h"

#define LOAD_MIX_MAX 16
#define LOAD_CONFIDENCE 0.95
#define LOAD_SHARDS_MAX 64

/* --- options (cmd_load_opts.c) ---------------------------------------------------------------------------
 */

enum slo { SLO_TTFT, SLO_ITL, SLO_TPOT, SLO_E2E, N_SLOS };
extern const char *const slo_words[]; /* "ttft" "itl" "tpot" "e2e" */

struct load_slo {
	bool any;
	uint64_t limit_ns[N_SLOS]; /* REC_NONE = not asked. ttft and e2e count from the schedule; itl is the
	                              longest gap of a request, tpot its mean time a token */
	double required_share;     /* --require-slo; NAN = not asked */
};

struct load_opts {
	char *url; /* owned, no slash at the end */
	enum api api;
	bool engine_known;       /* --engine other than auto */
	enum engine_kind engine; /* ENGINE_ATTACH = "plain": no member beyond the standard */
	const char *model;       /* NULL = the server's first */
	enum arrival arrival;
	double rate_rps, burstiness, speed;
	const char *trace;
	uint64_t concurrency; /* open loop: most in flight, 0 = no bound */
	uint64_t requests;    /* 0 = by duration */
	double duration_s;    /* 0 = by requests */
	size_t n_mix;         /* 0 = prompt_tok */
	struct {
		uint64_t prompt_tok;
		double weight;
	} mix[LOAD_MIX_MAX];
	uint64_t prompt_tok, output_tok, turns, warmup, seed, threads;
	double shared_prefix_share;
	double connect_s, first_byte_s, stall_s, deadline_s;
	double max_lag_ms;
	bool force_output, stream, busy_poll, calibrate;
	const char *ca_file;
	char *key; /* owned, secret; NULL = none */
	struct load_slo slo;
	bool json, quiet;
	const char *records;
	uint64_t shard, n_shards; /* 0 of 1 = the whole */
	bool starts_at;
	int64_t start_at_wall_ns;
	const char *sync;
	uint64_t max_offset_ns;
};
extern const struct opt load_opt_table[];
/* ERR_USAGE: one line that names the option. Reads the key. */
warn_unused int load_opts_read(struct load_opts *out, const struct parsed *p, struct err *err);
/* What --merge takes besides folders: --json, --max-offset, --slo, --require-slo. */
bool load_opts_merge(const struct parsed *p);
warn_unused int load_opts_read_merge(struct load_opts *out, const struct parsed *p, struct err *err);
void load_opts_done(struct load_opts *o);
/* "800ms" "1.5s" "250us" "2m" "1h", a bare number is seconds. */
warn_unused int load_duration(uint64_t *ns, const char *text, const char *option, struct err *err);
/* "ttft=800ms,itl=60ms" */
warn_unused int load_slo_read(struct load_slo *out, const char *text, struct err *err);

/* --- the plan (cmd_load_plan.c) --------------------------------------------------------------------------
 */

/* The whole load, not the shard's part of it. */
warn_unused int load_plan_make(struct plan **out, struct buf *doc, const struct load_opts *o,
                               struct err *err);

/* --- rows (cmd_load_rows.c) ------------------------------------------------------------------------------
 */

struct load_row { /* times in ns on one clock for all shards */
	uint64_t k, due_ns, first_sent_ns, sent_ns, first_token_ns, last_token_ns, end_ns;
	uint64_t usage_prompt_tok, usage_output_tok, usage_cached_tok, prompt_tok, want_output_tok;
	uint64_t tok_n, attempts, conv, turn;
	uint64_t max_gap_ns; /* REC_NONE = fewer than two token events */
	uint64_t n_reads;    /* that brought token events */
	enum outcome outcome;
};

#define LOAD_FAILURES_MAX 12
struct load_failure {
	enum outcome outcome;
	int http;
	uint64_t n;
	char detail[REC_DETAIL_BYTES]; /* of the first */
};

struct load_rows {
	size_t n, cap;
	struct load_row *v;
	struct gaps *gaps; /* of completed answers */
	size_t n_failures; /* kinds; what is over the maximum counts in the last one */
	struct load_failure failures[LOAD_FAILURES_MAX];
};
warn_unused int load_rows_init(struct load_rows *r, struct err *err);
void load_rows_done(struct load_rows *r);
/* `shift_ns` is added to all times. -1: no memory or disk. */
int load_rows_take(struct load_rows *r, const struct record *rec, const uint8_t *tokens, size_t len,
                   uint64_t shift_ns);

/* Gaps between tokens: as many as there are tokens, so they lie in memory as LEB128 up to a bound and behind
 * it in a file without a name. */
struct gaps *gaps_new(void);
void gaps_free(struct gaps *g);
int gaps_add(struct gaps *g, uint64_t gap_ns);
uint64_t gaps_n(const struct gaps *g);
/* Exact order statistics without sorting: out[i] = the value of 1-based rank ranks[i] (REC_NONE for a rank
 * that is not there), n at most GAPS_RANKS_MAX, in 3 passes of 16 bits each. Also sum and the first `n_head`
 * values, in the order of adding. -1: no memory, or the file cannot be read. */
#define GAPS_RANKS_MAX 8
int gaps_at(struct gaps *g, const uint64_t *ranks, size_t n, uint64_t *out);
int gaps_head(struct gaps *g, double *out, size_t n_head, double *sum_ns);

/* --- summary (cmd_load_sum.c, cmd_load_dist.c) -----------------------------------------------------------
 */

enum load_figure { FIG_TTFT, FIG_TTFT_SENT, FIG_ITL, FIG_TPOT, FIG_E2E, N_FIGURES };
extern const char *const load_figure_words[]; /* "ttft" "ttft_sent" "itl" "tpot" "e2e" */
enum { LOAD_P50, LOAD_P90, LOAD_P99, N_LOAD_QUANTILES };

struct load_dist {            /* REC_NONE = no such value */
	const char *why;      /* NULL, or why it cannot be measured; then nothing else counts */
	uint64_t n, n_failed; /* values; requests (ITL: planned gaps) without one, over every limit */
	double n_eff;         /* of n + n_failed, for the bounds */
	double mean_ns;
	uint64_t value_ns[N_LOAD_QUANTILES]; /* failed ones at the far end */
	uint64_t upper_ns[N_LOAD_QUANTILES]; /* one-sided 95 % upper bound, exact binomial */
	uint64_t max_ns;
};

struct load_part { /* one process that sent */
	struct load_result r;
	bool calibrated;
	struct calibration cal;
	char cal_why[256]; /* "" or why there is none */
	uint64_t shard;
	int64_t offset_ns; /* added to its clock gives shard 0's */
	uint64_t uncertainty_ns;
	bool offset_known;
	int64_t wall_step_ns; /* the wall clock against the monotonic one over the load */
	char host[65], boot_id[65];
};

enum goodput { GOODPUT_NONE, GOODPUT_UNKNOWN, GOODPUT_JUDGED };
struct load_goodput {
	enum goodput state;
	const char *why; /* unknown */
	uint64_t n, n_good;
	double share, share_lower, rps;
	int gate; /* --require-slo: enum tail, -1 = not asked */
	uint64_t n_more;
};

#define LOAD_REASON_BYTES 200
#define LOAD_REASONS_MAX 16
struct load_sum {
	const struct plan *plan;
	const struct cell *cell;
	const char *engine_word, *model;
	bool exact; /* prompt lengths are tokens of the server's own */
	bool interrupted;
	uint64_t n_rows, n_outcome[N_OUTCOMES], n_ok, n_failed, n_cancelled;
	uint64_t n_unasked; /* turns behind a failed one: failed too, without a row */
	uint64_t n_retries;
	uint64_t window_ns;                          /* first due to last end */
	uint64_t output_tok, prompt_tok, cached_tok; /* of completed ones, by usage; REC_NONE = not told */
	double events_per_tok, output_tok_mean, prompt_tok_mean;
	double buffered_share; /* of completed answers with 8 token events or more: those that came in at most
	                          2 reads; NAN = there are none */
	uint64_t n_usage_told, n_length_mismatch, n_prompt_mismatch;
	double requests_rps, output_tok_s, prompt_tok_s, events_s;
	struct load_dist dist[N_FIGURES];
	struct load_goodput goodput;
	const struct load_slo *slo;
	bool delivered_known;
	double delivered_planned, delivered_value, delivered_share;
	const char *delivered_unit;
	size_t n_parts;
	const struct load_part *parts;
	uint64_t n_shards;
	bool client_bound; /* among them: the client was the limit, or may have been */
	size_t n_reasons;  /* why the measurement is not sound */
	char reasons[LOAD_REASONS_MAX][LOAD_REASON_BYTES];
	size_t n_failures;
	const struct load_failure *failures;
};

/* Everything of *s that is not computed here (plan … slo, parts) is set before. Sorts the rows. */
warn_unused int load_sum_make(struct load_sum *s, struct load_rows *rows, struct err *err);
warn_unused int load_dists_make(struct load_sum *s, const struct load_rows *rows, struct err *err);
/* cmd_load_sound.c */
void load_sum_sound(struct load_sum *s, const struct load_rows *rows);
void load_sum_invalid(struct load_sum *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Worst first: interrupted 130, failed requests or none that succeeded or the SLO missed 1, not sound 4, SLO
 * not decided 3, else 0. */
int load_exit_code(const struct load_sum *s);
double load_cpu_pct(const struct load_part *p); /* of one core for each thread; NAN = unknown */
double load_steal_pct(const struct load_part *p);
double load_runq_pct(const struct load_part *p);

/* cmd_load_table.c, cmd_load_json.c */
void load_table(FILE *f, const struct load_sum *s, const char *url);
warn_unused int load_json(struct buf *out, const struct load_sum *s, const char *url, struct err *err);

/* --- running (cmd_load_run.c, cmd_load_server.c) ---------------------------------------------------------
 */

struct load_server {
	struct http_client *http;
	char *model; /* owned; NULL = none to send */
	enum engine_kind engine;
};
/* ERR_ENV when nobody answers. */
warn_unused int load_server_open(struct load_server *out, const struct load_opts *o, struct err *err);
void load_server_done(struct load_server *s);

/* Returns the exit code, or -1 with err. */
int load_drive(const struct load_opts *o, struct err *err);

/* --- shards (cmd_load_sync.c, cmd_load_shard.c, cmd_load_merge.c) ----------------------------------------
 */

#define SYNC_EXCHANGES 20
struct load_clock {
	bool known;
	int64_t offset_ns; /* ours + this = shard 0's */
	uint64_t uncertainty_ns;
	uint64_t n_exchanges;
};
/* Shard 0 answers the others, until all have asked; the others ask. */
warn_unused int load_sync(struct load_clock *out, const struct load_opts *o, const bool *stop,
                          struct err *err);
/* shard.json: what --merge needs besides the records. */
struct load_shard {
	struct load_part part;
	uint64_t n_shards;
	int64_t origin_wall_ns; /* wall clock at time 0 of the records */
	bool exact, interrupted;
	char engine_word[24];
	char *url, *model; /* owned */
	struct buf plan;   /* the document, the same for all shards */
	struct load_slo slo;
};
void load_shard_write(struct buf *out, const struct load_shard *s);
warn_unused int load_shard_read(struct load_shard *out, const char *text, size_t len, const char *name,
                                struct err *err);
void load_shard_done(struct load_shard *s);
int load_merge(const struct load_opts *o, const struct parsed *p, struct err *err);

#endif
