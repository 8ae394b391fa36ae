/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one request, as the load engine fills it and as a line of requests.jsonl holds it. All times
 * are ns since the run's start (design.md); REC_NONE means "did not happen" and is null in the file, never 0.
 * Token arrivals: tokens.bin holds, for each request, `tok_n` unsigned LEB128 numbers from byte `tok_off` on:
 * the first is the first token event's time minus sent_ns, each next the gap to the one before (0 is a real
 * gap: two events in one read). A token event is an event that carries generated text of any channel
 * (content, reasoning, tool-call arguments); role-only, empty and usage-only events are none. */
#ifndef MODEL_RECORD_H
#define MODEL_RECORD_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define REC_NONE UINT64_MAX

enum outcome {
	OUTCOME_OK,           /* finish reason seen, end mark seen, no error object, at least one token */
	OUTCOME_HTTP_STATUS,  /* status other than 200; `http` says which */
	OUTCOME_STREAM_ERROR, /* error object inside a 200 stream */
	OUTCOME_TIMEOUT,      /* connect, first byte or total deadline; `detail` says which */
	OUTCOME_STALLED,      /* no byte for stall_timeout_s after the first */
	OUTCOME_RESET,        /* connection refused, reset or TLS failure */
	OUTCOME_TRUNCATED,    /* ended without the end mark, inside a chunk or inside an event */
	OUTCOME_EMPTY,        /* clean end, no token */
	OUTCOME_CORRUPT,      /* event that is no JSON, bytes that are no UTF-8, over the limits */
	OUTCOME_CANCELLED,    /* ended by us (Ctrl-C, end of a timed cell): not counted as failed, not as
	                         completed */
	N_OUTCOMES
};
extern const char
	*const outcome_words[]; /* "ok" "http_status" "stream_error" "timeout" … NULL-ended, enum order */

enum rec_kind { REC_LOAD, REC_WARMUP, REC_CONTROL, REC_PROBE };
extern const char *const rec_kind_words[]; /* "load" "warmup" "control" "probe" */

#define REC_DETAIL_BYTES 160

struct record {
	uint64_t i;     /* running number in the file, from 0 */
	uint64_t k;     /* number in the cell's schedule, from 0; controls 0 */
	char cell[160]; /* cell id; controls: "control/<id>" */
	enum rec_kind kind;
	uint64_t start;      /* number of the engine start that served it, from 1 */
	uint64_t slot;       /* closed loop: which of the N; open loop 0 */
	uint64_t conv, turn; /* conversation and turn in it, both from 0; REC_NONE = a request of its own */
	uint64_t part;       /* index into the workload's mix; REC_NONE = no mix */
	uint64_t attempts;   /* sends in all, 1 = no retry; what follows tells of the last one, due_ns of the
	                        first */
	uint64_t first_sent_ns; /* as sent_ns, of the first attempt */
	uint64_t due_ns;  /* scheduled send time; closed loop: when the slot became free (plus think time), at
	                     first slot x 0.2 ms */
	uint64_t sent_ns; /* first byte handed to the connection logic */
	uint64_t conn_ns; /* connection established; REC_NONE when one was re-used */
	uint64_t first_byte_ns, first_token_ns, first_content_ns, last_token_ns, end_ns;
	int http; /* 0 = no status line */
	enum outcome outcome;
	char finish[24];     /* finish reason as the server named it; "" = none */
	uint64_t prompt_tok; /* planned length */
	uint64_t want_output_tok;
	uint64_t usage_prompt_tok, usage_output_tok, usage_cached_tok,
		usage_reasoning_tok; /* REC_NONE = not told */
	uint64_t tok_n;              /* token events */
	uint64_t tok_off, tok_bytes; /* in tokens.bin */
	uint64_t bytes;              /* of the body */
	uint64_t reads; /* reads that brought at least one token event; fewer than tok_n = several events a
	                   read */
	uint64_t max_events_per_read;
	uint64_t text_chars;   /* Unicode characters of all channels */
	uint64_t bad_chars;    /* U+FFFD and control characters other than \n \r \t in them */
	uint64_t max_same_run; /* longest run of one character */
	uint64_t warnings;     /* odd but readable: lone surrogate halves, unknown fields named error … */
	char detail[REC_DETAIL_BYTES]; /* why, for outcomes other than ok; no secret ever */
};

void record_init(struct record *r); /* all times and counts unknown */
/* One line, keys in the order above, newline at the end. */
void record_write(struct buf *out, const struct record *r);
/* One line without its newline. ERR_PLAN with `name`:line on anything that record_write would not have
 * written. */
warn_unused int record_read(struct record *r, const char *line, size_t len, const char *name,
                            uint64_t line_no, struct err *err);

/* Unsigned LEB128. Encode returns bytes written (1..10); decode returns bytes used, 0 when cut or over 64
 * bit. */
size_t leb128_put(uint8_t *out, uint64_t v);
size_t leb128_get(const uint8_t *in, size_t len, uint64_t *v);

#endif
