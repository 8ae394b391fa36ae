/* SPDX-License-Identifier: Apache-2.0 */
/* One answer, from its bytes to its record: what the load engine knows of a request once the transport has
 * delivered something. Pure: no socket, no clock; times are given, in ns of the record's time line. The same
 * code reads recorded streams in tests, so what is tested is what measures.
 */
#ifndef LOAD_ANSWER_H
#define LOAD_ANSWER_H

#include "base/buf.h"
#include "load/ndjson.h"
#include "load/sse.h"
#include "load/wire.h"
#include "model/record.h"

#define ANSWER_HEAD_BYTES 2048
#define ANSWER_WHOLE_BYTES_MAX (16u << 20)  /* body of an answer that is not streamed; past it: corrupt */
#define ANSWER_TOKENS_BYTES_MAX (64u << 20) /* of LEB128; past it the answer is corrupt */

enum transport { /* how the HTTP message ended */
	         TRANSPORT_COMPLETE,
	         TRANSPORT_CUT,     /* closed inside the body */
	         TRANSPORT_RESET,   /* no connection, or broken */
	         TRANSPORT_TIMEOUT, /* a deadline of ours */
	         TRANSPORT_STALLED,
	         TRANSPORT_BAD, /* not HTTP, transfer or content coding that cannot be undone, over a bound */
	         TRANSPORT_CANCELLED,
};

struct answer {
	struct record *rec; /* borrowed */
	struct sse sse;
	struct ndjson lines; /* instead of `sse` for Ollama */
	struct wire_reader wire;
	bool needs_done, no_finish_reason;
	/* One JSON text is expected, no stream; set after answer_init, before answer_start. Such an answer
	 * has no token times, its record none of first_token_ns, first_content_ns and last_token_ns and a
	 * tok_n of 0. */
	bool whole;
	struct buf body;                   /* of a whole answer; owned, used again */
	bool whole_read;                   /* … is one JSON object */
	uint64_t last_rx_ns, last_read_no; /* of the last bytes of the body */
	const char *secret;                /* never let into `detail`; NULL = none */
	uint8_t *tokens;                   /* LEB128 of arrivals; owned, used again */
	size_t tokens_len, tokens_cap;
	uint64_t read_no; /* of the read that brought the last token event */
	uint64_t events_in_read;
	bool too_long, no_memory;
	uint64_t n_json_errors;
	size_t head_len; /* first bytes of the body, for answers that are no stream */
	char head[ANSWER_HEAD_BYTES];
	char content_type[64];
	/* Called for each event before it is read; for tests. NULL = none. */
	void (*on_event)(void *ctx, const struct sse_event *ev, uint64_t now_ns, bool token);
	void *on_event_ctx;
};

void answer_init(struct answer *a, const struct proto *proto, const char *secret);
void answer_done(struct answer *a);
/* A new request. `rec` was initialised and has sent_ns; the answer fills the rest up to answer_end. */
void answer_start(struct answer *a, struct record *rec);
/* Bytes of the body, transfer and content coding undone. Pieces with the same `read_no` came in one read, at
 * `now_ns`. -1: nothing that follows could be used, stop the transfer. */
int answer_body(struct answer *a, uint64_t now_ns, uint64_t read_no, const char *bytes, size_t len);
/* Everything needed was seen: only the end of the HTTP message is missing. */
bool answer_whole(const struct answer *a);
/* Decides the one outcome. `why` explains the transport ("" when it is complete). */
void answer_end(struct answer *a, enum transport how, const char *why);

#endif
