/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by wire.c (what an event means), wire_read.c (where the fields of OpenAI's and llama.cpp's events
 * stand) and wire_native.c (those of TGI, Ollama, SGLang and Triton). */
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
	bool stop, has_choices;           /* `stop`: the end mark of llama.cpp, TGI and Ollama */
	struct jstr stop_type;
	bool stopped_limit;
	uint64_t choice; /* SGLang: which of several answers the event belongs to */
	uint64_t n_ids;  /* SGLang: length of output_ids, REC_NONE = absent */
	uint64_t n_duplicate_keys, n_odd_numbers;
};

/* False when the bytes are not one JSON object. `whole`: an answer that is not streamed. */
bool wire_read(struct event_fields *f, enum wire kind, bool whole, const char *data, size_t len);

/* SGLang: leaves of the text what earlier events did not hold (see struct wire_growth). */
void wire_cut_seen(struct wire_reader *w, struct event_fields *f);

/* One member of the object at the top, whose key was read; the value is taken or passed over. */
typedef void top_reader(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen);
top_reader read_top_tgi, read_top_tgi_whole, read_top_ollama, read_top_sglang, read_top_triton;

/* --- parts that the readers share ---------------------------------------------------------------------- */

struct key {
	const char *name;
	size_t len;
};
#define K(text)                                                                                              \
	{                                                                                                    \
		text, sizeof(text) - 1                                                                       \
	}
#define K_END                                                                                                \
	{                                                                                                    \
		NULL, 0                                                                                      \
	}

/* Index of `key` in a table, -1 for others. `*seen` finds keys given twice. */
int key_of(struct event_fields *f, const struct jstr *key, const struct key *table, uint32_t *seen);
/* A count, REC_NONE for null; anything else is odd and unknown. */
void read_count(struct scan *s, struct event_fields *f, uint64_t *out);
void add_piece(struct event_fields *f, enum channel channel, struct jstr text);
/* A string, or (the multi-part form) an array of objects with a string `text`. */
void read_content(struct scan *s, struct event_fields *f, enum channel channel);
void read_error(struct scan *s, struct event_fields *f);
void read_code(struct scan *s, struct jstr *word, uint64_t *number, bool *has_number);
/* True when an object begins, which is then entered; another value is passed over. */
bool enter_object(struct scan *s);
/* Takes back the pieces of one channel. */
void drop_channel(struct event_fields *f, enum channel channel);

#endif
