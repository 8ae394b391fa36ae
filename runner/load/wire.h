/* SPDX-License-Identifier: Apache-2.0 */
/* What one event of a generation stream says: OpenAI chat and completions, the engines' own wires (llama.cpp,
 * TGI, Ollama, SGLang, Triton), and the error forms of all of them. Choice 0 is the answer; other choices are
 * counted, nothing more. Text goes through one place that joins surrogate halves cut over two deltas and
 * keeps the counters of a record. Nothing here allocates, except into the text buffers a caller lends.
 *
 * End marks: [DONE] of OpenAI and SGLang; "stop": true of llama.cpp; generated_text or details of TGI;
 * "done": true of Ollama; Triton has none.
 */
#ifndef LOAD_WIRE_H
#define LOAD_WIRE_H

#include "base/buf.h"
#include "model/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum channel { CHANNEL_CONTENT, CHANNEL_REASONING, CHANNEL_TOOL, N_CHANNELS };

struct wire_text {        /* one channel of the answer so far */
	uint32_t held;    /* high surrogate half at the end of a delta, 0 = none */
	int32_t last;     /* last character, -1 = none */
	uint64_t run;     /* how often it came in a row */
	struct buf *keep; /* borrowed; NULL = text is counted only */
};

struct wire_usage { /* REC_NONE = not told */
	uint64_t prompt_tok, output_tok, cached_tok, reasoning_tok;
};

struct wire_error {
	char type[64];
	char code[32]; /* "500", or a word */
	char message[1024];
};

/* Events of one stream differ mostly in one string. What stood around it in the last event, when that event
 * said nothing but text: the next one with the same bytes there says the same, with another text. */
#define WIRE_FRAME_BYTES 768
struct wire_frame {
	size_t head_len, tail_len; /* up to and from the quotes, these included; 0 = none */
	enum channel channel;
	char bytes[WIRE_FRAME_BYTES];
};

/* SGLang's `text` holds, by the server's options, all text so far or only what is new. Told apart at the
 * second event with text: by output_ids, which are then as many as completion_tokens or fewer, and where ids
 * are missing by whether the text begins with the one before. Of text that grows only its length and its last
 * bytes are kept: looking at the new part costs what the new part is long. */
#define WIRE_GROWTH_TAIL 64
struct wire_growth {
	enum { GROWTH_UNKNOWN, GROWTH_CUMULATIVE, GROWTH_GUESSED, GROWTH_INCREMENTAL } form;
	size_t len, tail_len; /* bytes as they stand in the event; 0 = no text yet */
	char tail[WIRE_GROWTH_TAIL];
};

struct wire_reader {
	enum wire kind;
	struct wire_text text[N_CHANNELS];
	struct wire_usage usage;   /* as `usage` objects told */
	struct wire_usage timings; /* as llama.cpp's counters told, for where usage is missing */
	char finish[24];
	bool done; /* the end mark came */
	bool has_error, error_is_text;
	struct wire_error error;
	uint64_t n_malformed;    /* events that are no JSON object */
	uint64_t n_other_choice; /* deltas with text of choices other than 0 */
	uint64_t n_after_done;   /* events behind the end mark */
	uint64_t n_duplicate_keys, n_lone_halves, n_joined_halves, n_odd_numbers, n_foreign_events,
		n_finish_changes;
	uint64_t n_rewrites; /* cumulative text that did not go on where it was: shorter, or changed */
	uint64_t text_chars, bad_chars, max_same_run;
	struct wire_growth growth;
	struct wire_frame frame;
};

struct wire_news {    /* what the event brought */
	bool token;   /* generated text of any channel */
	bool content; /* … of the content channel */
	bool malformed;
};

void wire_init(struct wire_reader *w, enum wire kind);
/* `type` is the event's name ("" = none), `error_field` as in struct sse_event. */
struct wire_news wire_event(struct wire_reader *w, const char *data, size_t len, const char *type,
                            bool error_field);
/* The whole body of an answer that is not streamed, one JSON object; false when it is none. Everything is
 * taken over as from events. */
bool wire_whole(struct wire_reader *w, const char *data, size_t len);
/* The wire's end mark is a member of its events (llama.cpp, TGI, Ollama). */
bool wire_marks_end(enum wire kind);
/* End of the stream: halves still held become U+FFFD; usage is made one. */
void wire_end(struct wire_reader *w);
uint64_t wire_warnings(const struct wire_reader *w);

#endif
