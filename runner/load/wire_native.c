/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of the engines' own wires. As in wire_read.c, of equal keys the last counts. */
#include "load/wire_int.h"
#include "model/record.h"

#include <string.h>

/* --- TGI: /generate_stream and /generate --------------------------------------------------------------- */

/* {"id":…,"text":"…","logprob":…,"special":false}; special tokens (end of sequence) are no text of the
 * answer. */
static void tgi_token(struct scan *s, struct event_fields *f)
{
	enum { TEXT, SPECIAL };
	static const struct key keys[] = { K("text"), K("special"), K_END };
	struct jstr text = { 0 }, key;
	bool special = false;
	uint32_t seen = 0;
	f->n_pieces = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case TEXT:
			scan_str(s, &text);
			break;
		case SPECIAL:
			scan_bool(s, &special);
			break;
		default:
			scan_skip(s);
		}
	}
	if (!special)
		add_piece(f, CHANNEL_CONTENT, text);
}

static void tgi_details(struct scan *s, struct event_fields *f)
{
	enum { FINISH, GENERATED, INPUT };
	static const struct key keys[] = { K("finish_reason"), K("generated_tokens"), K("input_length"),
		                           K_END };
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	f->stop = true;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case FINISH:
			scan_str(s, &f->finish);
			break;
		case GENERATED:
			read_count(s, f, &f->usage.output_tok);
			break;
		case INPUT:
			read_count(s, f, &f->usage.prompt_tok);
			break;
		default:
			scan_skip(s);
		}
	}
}

static void tgi_top(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen,
                    bool whole)
{
	enum { TOKEN, TEXT, DETAILS, ERROR, ERROR_TYPE };
	static const struct key keys[] = { K("token"), K("generated_text"), K("details"),
		                           K("error"), K("error_type"),     K_END };
	struct jstr text = { 0 };
	switch (key_of(f, key, keys, seen)) {
	case TOKEN:
		if (whole)
			scan_skip(s);
		else
			tgi_token(s, f);
		break;
	case TEXT:
		f->stop |= scan_str(s, &text);
		if (whole) {
			f->n_pieces = 0;
			add_piece(f, CHANNEL_CONTENT, text);
		}
		break;
	case DETAILS:
		tgi_details(s, f);
		break;
	case ERROR:
		read_error(s, f);
		break;
	case ERROR_TYPE:
		scan_str(s, &f->error_type);
		break;
	default:
		scan_skip(s);
	}
}

void read_top_tgi(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	tgi_top(s, f, key, seen, false);
}

void read_top_tgi_whole(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	tgi_top(s, f, key, seen, true);
}

/* --- Ollama: /api/chat and /api/generate --------------------------------------------------------------- */

/* {"name":…,"arguments":{…}}: the arguments come as an object, and whole; its text stands for them. */
static void ollama_function(struct scan *s, struct event_fields *f)
{
	static const struct key keys[] = { K("arguments"), K_END };
	struct jstr args = { 0 }, key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		if (key_of(f, &key, keys, &seen) != 0) {
			scan_skip(s);
		} else if (scan_peek(s) == '{') {
			const char *from = s->p;
			scan_skip(s);
			args = (struct jstr){ .p = from, .len = (size_t)(s->p - from) };
		} else {
			scan_str(s, &args);
		}
	}
	if (!s->bad)
		add_piece(f, CHANNEL_TOOL, args);
}

static void ollama_tool_calls(struct scan *s, struct event_fields *f)
{
	static const struct key keys[] = { K("function"), K_END };
	struct jstr key;
	if (scan_peek(s) != '[') {
		scan_skip(s);
		return;
	}
	scan_enter(s);
	while (scan_element(s)) {
		uint32_t seen = 0;
		size_t mark = f->n_pieces;
		if (!enter_object(s))
			continue;
		while (scan_member(s, &key)) {
			if (key_of(f, &key, keys, &seen) == 0) {
				f->n_pieces = mark;
				ollama_function(s, f);
			} else {
				scan_skip(s);
			}
		}
	}
}

static void ollama_text(struct scan *s, struct event_fields *f, enum channel channel)
{
	drop_channel(f, channel);
	read_content(s, f, channel);
}

static void ollama_message(struct scan *s, struct event_fields *f)
{
	enum { CONTENT, THINKING, TOOL_CALLS };
	static const struct key keys[] = { K("content"), K("thinking"), K("tool_calls"), K_END };
	struct jstr key;
	uint32_t seen = 0;
	f->n_pieces = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case CONTENT:
			ollama_text(s, f, CHANNEL_CONTENT);
			break;
		case THINKING:
			ollama_text(s, f, CHANNEL_REASONING);
			break;
		case TOOL_CALLS:
			drop_channel(f, CHANNEL_TOOL);
			ollama_tool_calls(s, f);
			break;
		default:
			scan_skip(s);
		}
	}
}

void read_top_ollama(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	enum { MESSAGE, RESPONSE, THINKING, DONE, REASON, PROMPT_COUNT, EVAL_COUNT, ERROR };
	static const struct key keys[] = { K("message"),    K("response"),    K("thinking"),
		                           K("done"),       K("done_reason"), K("prompt_eval_count"),
		                           K("eval_count"), K("error"),       K_END };
	switch (key_of(f, key, keys, seen)) {
	case MESSAGE:
		ollama_message(s, f);
		break;
	case RESPONSE:
		ollama_text(s, f, CHANNEL_CONTENT);
		break;
	case THINKING:
		ollama_text(s, f, CHANNEL_REASONING);
		break;
	case DONE:
		f->stop = false;
		scan_bool(s, &f->stop);
		break;
	case REASON:
		f->finish = (struct jstr){ 0 };
		scan_str(s, &f->finish);
		break;
	case PROMPT_COUNT:
		read_count(s, f, &f->usage.prompt_tok);
		break;
	case EVAL_COUNT:
		read_count(s, f, &f->usage.output_tok);
		break;
	case ERROR:
		read_error(s, f);
		break;
	default:
		scan_skip(s);
	}
}

/* --- SGLang: /generate --------------------------------------------------------------------------------- */

/* null, "stop", or {"type":"stop"|"length"|"abort","message":…,"err_type":…,"status_code":…} */
static void sglang_finish(struct scan *s, struct event_fields *f)
{
	enum { TYPE, MESSAGE, ERR_TYPE, STATUS };
	static const struct key keys[] = { K("type"), K("message"), K("err_type"), K("status_code"), K_END };
	struct error_fields e = { .is_object = true };
	struct jstr key, type = { 0 };
	uint32_t seen = 0;
	f->finish = (struct jstr){ 0 };
	if (scan_peek(s) == '"') {
		scan_str(s, &f->finish);
		return;
	}
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case TYPE:
			scan_str(s, &type);
			break;
		case MESSAGE:
			scan_str(s, &e.message);
			break;
		case ERR_TYPE:
			scan_str(s, &e.type);
			break;
		case STATUS:
			read_code(s, &e.code, &e.code_number, &e.has_code_number);
			break;
		default:
			scan_skip(s);
		}
	}
	f->finish = type;
	if (jstr_is(&type, "abort") && e.message.p && e.message.len)
		f->error = e;
}

static void sglang_meta(struct scan *s, struct event_fields *f)
{
	enum { FINISH, PROMPT, COMPLETION, CACHED, REASONING };
	static const struct key keys[] = { K("finish_reason"), K("prompt_tokens"),    K("completion_tokens"),
		                           K("cached_tokens"), K("reasoning_tokens"), K_END };
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case FINISH:
			sglang_finish(s, f);
			break;
		case PROMPT:
			read_count(s, f, &f->usage.prompt_tok);
			break;
		case COMPLETION:
			read_count(s, f, &f->usage.output_tok);
			break;
		case CACHED:
			read_count(s, f, &f->usage.cached_tok);
			break;
		case REASONING:
			read_count(s, f, &f->usage.reasoning_tok);
			break;
		default:
			scan_skip(s);
		}
	}
}

static void count_ids(struct scan *s, struct event_fields *f)
{
	f->n_ids = REC_NONE;
	if (scan_peek(s) != '[') {
		scan_skip(s);
		return;
	}
	f->n_ids = 0;
	scan_enter(s);
	for (; scan_element(s); f->n_ids++)
		scan_skip(s);
}

void read_top_sglang(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	enum { TEXT, IDS, META, INDEX, ERROR, OBJECT, TYPE, MESSAGE, CODE };
	static const struct key keys[] = { K("text"),  K("output_ids"), K("meta_info"),
		                           K("index"), K("error"),      K("object"),
		                           K("type"),  K("message"),    K("code"),
		                           K_END };
	switch (key_of(f, key, keys, seen)) {
	case TEXT:
		f->n_pieces = 0;
		read_content(s, f, CHANNEL_CONTENT);
		break;
	case IDS:
		count_ids(s, f);
		break;
	case META:
		sglang_meta(s, f);
		break;
	case INDEX:
		f->choice = 0;
		if (!scan_u64(s, &f->choice))
			f->n_odd_numbers++;
		break;
	case ERROR:
		read_error(s, f);
		break;
	case OBJECT:
		scan_str(s, &f->object);
		break;
	case TYPE:
		scan_str(s, &f->type);
		break;
	case MESSAGE:
		scan_str(s, &f->message);
		break;
	case CODE:
		read_code(s, &f->code, &f->code_number, &f->has_code_number);
		break;
	default:
		scan_skip(s);
	}
}

/* --- Triton: generate_stream and generate -------------------------------------------------------------- */

/* "…", or one string for each answer of a batch, of which the first is ours. */
static void triton_text(struct scan *s, struct event_fields *f)
{
	struct jstr text = { 0 };
	f->n_pieces = 0;
	f->n_other_choice = 0;
	if (scan_peek(s) != '[') {
		if (scan_str(s, &text))
			add_piece(f, CHANNEL_CONTENT, text);
		return;
	}
	scan_enter(s);
	for (size_t i = 0; scan_element(s); i++) {
		text = (struct jstr){ 0 };
		if (scan_str(s, &text) && i == 0)
			add_piece(f, CHANNEL_CONTENT, text);
		else
			f->n_other_choice += text.len != 0;
	}
}

/* Some backends tell the reason when asked to; "None" in the events before the last one. */
static void triton_finish(struct scan *s, struct event_fields *f)
{
	struct jstr finish = { 0 };
	scan_str(s, &finish);
	f->finish = jstr_is(&finish, "None") ? (struct jstr){ 0 } : finish;
}

void read_top_triton(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	enum { TEXT, FINISH, ERROR };
	static const struct key keys[] = { K("text_output"), K("finish_reason"), K("error"), K_END };
	switch (key_of(f, key, keys, seen)) {
	case TEXT:
		triton_text(s, f);
		break;
	case FINISH:
		triton_finish(s, f);
		break;
	case ERROR:
		read_error(s, f);
		break;
	default:
		scan_skip(s);
	}
}
