/* SPDX-License-Identifier: Apache-2.0 */
/* The load engine: drives one cell against a URL and a proto table, on epoll with our own timerfd for due
 * times; plain HTTP/1.1 by a path of our own, the rest by libcurl. Nothing in the hot path allocates, logs or
 * builds a JSON tree per token. Knows no engine and no run directory: records leave through `sink`, a buffer
 * the caller drains.
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
	uint64_t k;                /* the rest is copied into the record, except due_ns */
	uint64_t conv, turn, part; /* REC_NONE = none */
	uint64_t due_ns; /* open loop: ns after the cell's start, never before the one got before it; closed
	                    loop: REC_NONE */
};

/* Gives the g-th request that does not wait for another one (g from 0): for conversations their first turns.
 * Bodies are prepared before the cell starts. NULL = the schedule ends here. With several threads the calls
 * come one at a time (a lock around all three), each g once, but not in order. What it gives is borrowed
 * until `done`. */
struct load_source {
	const struct load_request *(*get)(void *ctx, uint64_t g);
	/* Conversations: the next turn behind a request that ended, NULL = there is none. Sent
	 * follow_pause_ns after that end, by the same slot; not at all behind the cell's time. `text` as in
	 * load_sink. NULL function = no conversations. */
	const struct load_request *(*follow)(void *ctx, const struct load_request *ended,
	                                     const struct record *rec, const char *text, size_t text_len);
	/* The request is needed no longer: its record went to the sink (several threads: is kept for it), or
	 * it will never be sent. NULL function = nobody wants to know. */
	void (*done)(void *ctx, const struct load_request *ended);
	void *ctx;
};

struct load_retry { /* as struct plan_retry, ns */
	uint64_t max;
	bool on_status, on_reset, on_timeout;
	uint64_t backoff_ns;
};

struct load_progress {                                        /* read by the caller's tick, same thread */
	uint64_t scheduled, done, failed, in_flight, planned; /* planned 0 = by duration */
	uint64_t tokens;
	uint64_t ttft_p50_ns, ttft_p99_ns, ttft_max_ns; /* of this cell so far, REC_NONE = none */
	uint64_t elapsed_ns;
};

struct load_spec {
	const char *url;    /* base URL, no slash at the end; "unix:///run/x.sock" = HTTP over that socket */
	const char *path;   /* behind the base URL; NULL = the proto's */
	const char *bearer; /* secret or NULL */
	const char *ca_file;
	const struct proto *proto;
	const char *cell_id; /* copied into each record */
	enum rec_kind kind;
	uint64_t start; /* engine start number */
	enum arrival arrival;
	uint64_t concurrency; /* closed loop: N; open loop: most in flight, 0 = unbounded (then bounded by
	                         fds; said) */
	uint64_t n_requests;  /* calls of source.get; 0 = by duration (or until it gives NULL) */
	uint64_t n_planned;   /* for progress: records in all, follow-ups too; 0 = n_requests */
	uint64_t duration_ns;
	uint64_t think_ns; /* closed loop */
	uint64_t follow_pause_ns;
	struct load_retry retry;
	bool whole_answer;    /* not streamed: one JSON text */
	unsigned threads;     /* 0 and 1: in the caller's thread. n: n threads (never more than streams or
	                         requests), thread i with slots i, i + n, … Open loop: it sends every n-th g;
	                         closed loop: the next g is the first free slot's, whosever it is. Records go to
	                         the sink after the cell, ordered by (end_ns, k), from the caller's thread */
	bool busy_poll;       /* spins on the clock instead of sleeping */
	bool use_libcurl;     /* also where the plain HTTP/1.1 path would do */
	bool preconnect;      /* closed loop: all connections are opened before time 0 */
	uint64_t start_at_ns; /* CLOCK_MONOTONIC time at which the cell's time 0 lies; 0 = now. For shards
	                         that begin together */
	uint64_t connect_timeout_ns, first_byte_timeout_ns, stall_timeout_ns; /* of each send; 0 = none */
	uint64_t deadline_ns; /* from the first send to the end; 0 = none */
	uint64_t origin_ns;   /* CLOCK_MONOTONIC of the run's start: record times are relative to it */
	bool keep_text;
	struct load_source source;
	struct load_sink sink;
	const bool *drain; /* true: schedule no more, let what is in flight end */
	const bool *abort; /* true: end now; in-flight requests become OUTCOME_CANCELLED, those that wait to
	                      be sent again keep the outcome they had */
	int watch_fd; /* pidfd of the engine, -1 = none: when readable, in-flight requests get 2 s to end,
	                 then stop */
	void (*tick)(void *ctx,
	             const struct load_progress *p); /* in the caller's thread, at most 4 Hz, and once when
	                                                the cell has ended; may be NULL */
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
		loop_lag_n;                /* epoll_wait's due time against its return */
	uint64_t client_cpu_ns;            /* of all our threads, without what busy_poll spun in vain */
	uint64_t steal_ticks, total_ticks; /* /proc/stat over the cell */
	uint64_t max_in_flight; /* requests without a record, also those that wait to be sent again; several
	                           threads: the sum of each one's most */
	uint64_t start_ns;      /* time 0 of the schedule, on the record's time line */
	uint64_t runq_wait_ns;  /* of all our threads: runnable, but not on a CPU (schedstat); REC_NONE =
	                           unknown */
	uint64_t n_retries;     /* sends behind the first of a request */
	unsigned threads;       /* that there were */
};

/* Runs the cell to its end. -1 only for the tool's own errors (no epoll, bad URL …); what servers do is in
 * the records. */
warn_unused int load_run(struct load_result *out, const struct load_spec *spec, struct err *err);

#endif
