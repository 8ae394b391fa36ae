/* SPDX-License-Identifier: Apache-2.0 */
/* The load engine: drives one cell against a URL and a proto table. libcurl multi (curl_multi_socket_action)
 * on epoll with our own timerfd for due times. Nothing in the hot path allocates, logs or builds a JSON tree
 * per token. Knows no engine and no run directory: records leave through `sink`, a buffer the caller drains.
 */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include "base/err.h"
#include "model/cell.h"
#include "model/proto.h"
#include "model/record.h"

/* Where finished records go. Called once a request, after its end. `tokens` are its LEB128 bytes; the sink
 * sets rec->i, rec->tok_off. `text` is the answer (all channels' content only; NULL unless keep_text).
 * Nonzero = the record could not be kept (disk full): the cell stops. */
struct load_sink {
	int (*take)(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len, const char *text,
	            size_t text_len);
	void *ctx;
};

struct load_request {
	const char *body; /* ready bytes; borrowed */
	size_t body_len;
	uint64_t prompt_tok;
	uint64_t want_output_tok;
};

/* Gives the body of the k-th request of the cell (k from 0); bodies are prepared before the cell starts. */
struct load_source {
	const struct load_request *(*get)(void *ctx, uint64_t k);
	void *ctx;
};

struct load_progress {                                        /* read by the caller's tick, same thread */
	uint64_t scheduled, done, failed, in_flight, planned; /* planned 0 = by duration */
	uint64_t tokens;
	uint64_t ttft_p50_ns, ttft_p99_ns, ttft_max_ns; /* of this cell so far, REC_NONE = none */
	uint64_t elapsed_ns;
};

struct load_spec {
	const char *url;    /* base URL, no slash at the end */
	const char *bearer; /* secret or NULL */
	const char *ca_file;
	const struct proto *proto;
	const char *cell_id; /* copied into each record */
	enum rec_kind kind;
	uint64_t start; /* engine start number */
	enum arrival arrival;
	uint64_t concurrency; /* closed loop: N; open loop: most in flight, 0 = unbounded (then bounded by
	                         fds; said) */
	uint64_t n_requests;  /* 0 = by duration */
	uint64_t duration_ns;
	double rate_rps;
	uint64_t seed;
	uint64_t think_ns;
	uint64_t connect_timeout_ns, first_byte_timeout_ns, stall_timeout_ns, deadline_ns; /* 0 = none */
	uint64_t origin_ns; /* CLOCK_MONOTONIC of the run's start: record times are relative to it */
	bool keep_text;
	struct load_source source;
	struct load_sink sink;
	const bool *drain; /* true: schedule no more, let what is in flight end */
	const bool *abort; /* true: end now; in-flight requests become OUTCOME_CANCELLED */
	int watch_fd; /* pidfd of the engine, -1 = none: when readable, in-flight requests get 2 s to end,
	                 then stop */
	void (*tick)(void *ctx,
	             const struct load_progress *p); /* from the reactor, at most 4 Hz; may be NULL */
	void *tick_ctx;
};

struct load_result { /* lags: REC_NONE = no sample; ticks: both 0 = not known */
	uint64_t scheduled, done, wall_ns;
	/* "complete" "duration" "interrupt" "engine_died" "disk_full"; static. A timed cell sends no more
	 * after its time and lets what is in flight end (within its own limits): to cut the slow ones would
	 * hide them. */
	const char *stopped_by;
	uint64_t send_lag_p50_ns, send_lag_p99_ns, send_lag_max_ns;
	uint64_t loop_lag_p50_ns, loop_lag_p99_ns, loop_lag_max_ns,
		loop_lag_n;                               /* epoll_wait's due time against its return */
	uint64_t client_cpu_ns, steal_ticks, total_ticks; /* /proc/stat over the cell */
	uint64_t max_in_flight;
};

/* Runs the cell to its end. -1 only for the tool's own errors (no epoll, bad URL …); what servers do is in
 * the records. */
warn_unused int load_run(struct load_result *out, const struct load_spec *spec, struct err *err);

#endif
