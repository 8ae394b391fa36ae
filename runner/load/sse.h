/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events by bytes (WHATWG HTML, "event stream interpretation"). Lines end at LF, CR or CRLF, also
 * when the two come in different reads; a blank line gives the event out at once. Bytes are never decoded
 * before a line is whole. An event that lies in one read is given out where it lies, without a copy; buffers
 * grow once and are used again.
 *
 *   sse_feed(&s, bytes, len);
 *   while (sse_next(&s, &ev) == SSE_EVENT) …      `bytes` must stay until sse_next says SSE_MORE
 */
#ifndef LOAD_SSE_H
#define LOAD_SSE_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSE_EVENT_BYTES_MAX (1u << 20) /* default bound of one line and of one event's data */
#define SSE_ID_BYTES 128
#define SSE_TYPE_BYTES 32

enum sse_step {
	SSE_MORE,  /* feed again */
	SSE_EVENT, /* *ev is filled; valid until the next call of sse_next or sse_feed */
	SSE_LONG,  /* a line or an event is over the bound: the stream cannot be read on */
};

struct sse_event {
	const char *data; /* all data lines joined by \n; not NUL-terminated; never empty */
	size_t len;
	const char *type; /* the `event` field, "" when none; cut at SSE_TYPE_BYTES - 1 */
	bool error_field; /* came by a field named `error` (old llama.cpp builds), which the standard ignores
	                   */
};

struct sse {
	const char *p, *end; /* what is left of the read */
	const char *lf, *cr; /* next ends of line at or behind p; before p = not looked for yet */
	unsigned bom;        /* bytes of a byte order mark matched; 4 = decided */
	bool skip_lf;        /* the last line ended at CR: an LF that follows belongs to it */
	bool too_long;
	struct buf line; /* a line whose end has not come */
	struct buf acc;  /* data of the event under way, when it does not lie in one piece */
	const char *data;
	size_t data_len;
	bool has_data, in_acc, error_field;
	bool id_new;
	char type[SSE_TYPE_BYTES], type_out[SSE_TYPE_BYTES];
	char id_next[SSE_ID_BYTES];

	/* what was seen so far, to read */
	char last_id[SSE_ID_BYTES]; /* cut at its size */
	bool had_bom;
	uint64_t retry_ms; /* UINT64_MAX = none */
	uint64_t n_events, n_empty_events, n_comments, n_unknown_fields;
	size_t max_event_bytes; /* the bound */
};

void sse_init(struct sse *s, size_t max_event_bytes);
void sse_done(struct sse *s);
void sse_reset(struct sse *s); /* a new stream; keeps the buffers */
void sse_feed(struct sse *s, const char *bytes, size_t len);
enum sse_step sse_next(struct sse *s, struct sse_event *ev);
/* True when the stream, ending here, would cut an event: a line begun or data without its blank line. */
bool sse_inside_event(const struct sse *s);

#endif
