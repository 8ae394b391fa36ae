/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by wire.c (what an event means) and wire_read.c (where its fields stand). */
#ifndef LOAD_WIRE_INT_H
#define LOAD_WIRE_INT_H

#include "load/scan.h"
#include "load/wire.h"

#define PIECES_MAX 64 /* pieces of text in one event; more is no stream we know */

struct piece {
	enum channel channel;
	struct jstr text;
};

struct error_fields {
	bool is_object, is_text;
	struct jstr message, type, code, text;
	uint64_t code_number;
	bool has_code_number;
};

/* The fields of one event, as slices of its bytes; nothing is taken over before the whole text was read. */
struct event_fields {
	size_t n_pieces;
	struct piece pieces[PIECES_MAX];
	bool too_many;
	uint64_t n_other_choice;
	struct jstr finish;
	struct error_fields error;         /* "error": {…} or "error": "…" */
	struct jstr object, type, message; /* at the top, for {"object":"error", …} */
	struct jstr error_type, code;      /* at the top, beside "error": "…" */
	uint64_t code_number;
	bool has_code_number;
	struct wire_usage usage, timings; /* REC_NONE = not in this event */
	bool stop, has_choices;           /* llama.cpp native: the end mark */
	struct jstr stop_type;
	bool stopped_limit;
	uint64_t n_duplicate_keys, n_odd_numbers;
};

/* False when the bytes are not one JSON object. */
bool wire_read(struct event_fields *f, const char *data, size_t len);

#endif
