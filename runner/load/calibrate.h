/* SPDX-License-Identifier: Apache-2.0 */
/* The instrument's own error: the same schedule against the null engine, a process of our own on this
 * machine that sends tokens at known times and writes down when. What the client says minus what was true is
 * what the client adds. */
#ifndef LOAD_CALIBRATE_H
#define LOAD_CALIBRATE_H

#include "load/load.h"

struct calibration_spec {
	enum arrival arrival; /* of the cell: closed or open */
	uint64_t concurrency; /* closed loop */
	/* open loop: due times of the cell's first requests, ns after the start, ascending; borrowed */
	const uint64_t *due_ns;
	size_t n_due;
	uint64_t duration_ns;
	uint64_t body_bytes; /* of a request, as in the cell; 32 to 64 Mi are used */
	/* What the null engine does: first token, gap, tokens an answer. Answers are shortened (ttft to half
	 * of duration_ns, then tokens) so that each takes duration_ns at most. */
	uint64_t ttft_ns, itl_ns, output_tok;
	const char *server_cpus; /* CPU list for the null engine, NULL = not bound */
	unsigned threads;
	bool busy_poll;
	const bool *abort; /* as in load_spec; may be NULL */
};

struct calibration { /* errors = reported - true, ns; REC_NONE = no sample */
	uint64_t n_requests, n_failed, n_gaps;
	uint64_t ttft_error_p50_ns, ttft_error_p99_ns, ttft_error_max_ns; /* first token: receive - send */
	uint64_t itl_error_p50_ns, itl_error_p99_ns, itl_error_max_ns;    /* |reported gap - true gap| */
	uint64_t send_lag_p50_ns, send_lag_p99_ns, send_lag_max_ns;
	uint64_t loop_lag_p99_ns;
	uint64_t client_cpu_ns, wall_ns, n_tokens, max_in_flight;
	uint64_t server_late_p99_ns; /* the null engine's own lateness against its plan: not part of the
	                                errors */
};

/* Takes duration_ns and up to one answer more. At most 4,000,000 tokens and 262,144 requests: past that
 * answers are shorter, then requests fewer. An open loop whose first due time lies behind duration_ns sends
 * that one request at once. Quantiles are nearest rank over all samples; requests that failed add those of
 * the tokens they got. With `abort` set: what was measured till then, requests under way counted as failed.
 * ERR_ENV when the null engine cannot be started (no port, no process) or ends early; it is gone on return.
 */
warn_unused int calibrate(struct calibration *out, const struct calibration_spec *spec, struct err *err);

#endif
