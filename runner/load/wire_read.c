/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over an event. Of equal keys the last counts, so text is noted as slices and dropped again when
 * its container comes a second time. */
#include "load/wire_int.h"
#include "model/record.h"

#include <string.h>

static const struct wire_usage no_usage = { REC_NONE, REC_NONE, REC_NONE, REC_NONE };

static inline bool is_key(const struct jstr *key, const struct key *k)
{
	if (__builtin_expect(key->esc, 0))
		return jstr_is(key, k->name);
	return key->len == k->len && key->p[0] == k->name[0] && memcmp(key->p, k->name, k->len) == 0;
}

int key_of(struct event_fields *f, const struct jstr *key, const struct key *table, uint32_t *seen)
{
	for (int i = 0; table[i].name; i++) {
		if (is_key(key, &table[i])) {
			f->n_duplicate_keys += *seen >> i & 1;
			*seen |= 1u << i;
			return i;
		}
	}
	return -1;
}

void read_count(struct scan *s, struct event_fields *f, uint64_t *out)
{
	bool null = scan_peek(s) == 'n';
	*out = REC_NONE;
	if (!scan_u64(s, out) && !null)
		f->n_odd_numbers++;
}

bool enter_object(struct scan *s)
{
	if (scan_peek(s) != '{') {
		scan_skip(s);
		return false;
	}
	scan_enter(s);
	return true;
}

void add_piece(struct event_fields *f, enum channel channel, struct jstr text)
{
	if (!text.p || text.len == 0)
		return;
	if (f->n_pieces == PIECES_MAX) {
		f->too_many = true;
		return;
	}
	f->pieces[f->n_pieces++] = (struct piece){ channel, text };
}

void read_content(struct scan *s, struct event_fields *f, enum channel channel)
{
	static const struct key keys[] = { K("text"), K_END };
	struct jstr text = { 0 }, key;
	if (scan_peek(s) != '[') {
		if (scan_str(s, &text))
			add_piece(f, channel, text);
		return;
	}
	scan_enter(s);
	while (scan_element(s)) {
		uint32_t seen = 0;
		if (scan_peek(s) != '{') {
			scan_skip(s);
			continue;
		}
		text = (struct jstr){ 0 };
		scan_enter(s);
		while (scan_member(s, &key)) {
			if (key_of(f, &key, keys, &seen) == 0)
				scan_str(s, &text);
			else
				scan_skip(s);
		}
		add_piece(f, channel, text);
	}
}

/* {"name":…,"arguments":"…"} */
static void read_function(struct scan *s, struct event_fields *f)
{
	static const struct key keys[] = { K("arguments"), K_END };
	struct jstr args = { 0 }, key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		if (key_of(f, &key, keys, &seen) == 0)
			scan_str(s, &args);
		else
			scan_skip(s);
	}
	add_piece(f, CHANNEL_TOOL, args);
}

static void read_tool_calls(struct scan *s, struct event_fields *f)
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
		if (scan_peek(s) != '{') {
			scan_skip(s);
			continue;
		}
		scan_enter(s);
		while (scan_member(s, &key)) {
			if (key_of(f, &key, keys, &seen) == 0) {
				f->n_pieces = mark;
				read_function(s, f);
			} else {
				scan_skip(s);
			}
		}
	}
}

/* Takes back the pieces [from, to). */
static void drop_between(struct event_fields *f, size_t from, size_t to)
{
	memmove(f->pieces + from, f->pieces + to, (f->n_pieces - to) * sizeof f->pieces[0]);
	f->n_pieces -= to - from;
}

void drop_channel(struct event_fields *f, enum channel channel)
{
	size_t n = 0;
	for (size_t i = 0; i < f->n_pieces; i++) {
		if (f->pieces[i].channel != channel)
			f->pieces[n++] = f->pieces[i];
	}
	f->n_pieces = n;
}

/* Servers that know two names of the reasoning channel send the same text under both: one of them counts. */
static void read_delta(struct scan *s, struct event_fields *f)
{
	enum { CONTENT, REASONING_CONTENT, REASONING, TOOL_CALLS, FUNCTION_CALL, REFUSAL, N };
	static const struct key keys[] = {
		K("content"),       K("reasoning_content"), K("reasoning"), K("tool_calls"),
		K("function_call"), K("refusal"),           K_END
	};
	static const enum channel channel_of[N] = { CHANNEL_CONTENT, CHANNEL_REASONING, CHANNEL_REASONING,
		                                    CHANNEL_TOOL,    CHANNEL_TOOL,      CHANNEL_CONTENT };
	struct {
		size_t at, n;
	} got[N] = { 0 };
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		int k = key_of(f, &key, keys, &seen);
		if (k < 0) {
			scan_skip(s);
			continue;
		}
		int same = k == REASONING ? REASONING_CONTENT : k == REASONING_CONTENT ? REASONING : k;
		size_t mark = f->n_pieces;
		if (k == TOOL_CALLS)
			read_tool_calls(s, f);
		else if (k == FUNCTION_CALL)
			read_function(s, f);
		else
			read_content(s, f, channel_of[k]);
		int old = got[k].n ? k : f->n_pieces > mark ? same : k;
		size_t at = got[old].at, n = got[old].n;
		if (n) {
			drop_between(f, at, at + n);
			mark -= n;
			for (int i = 0; i < N; i++)
				got[i].at -= got[i].at > at ? n : 0;
			got[old].n = 0;
		}
		got[k].at = mark;
		got[k].n = f->n_pieces - mark;
	}
}

static void read_usage(struct scan *s, struct event_fields *f);

static void read_choice(struct scan *s, struct event_fields *f)
{
	enum { INDEX, DELTA, TEXT, FINISH, USAGE, ERROR, MESSAGE };
	static const struct key keys[] = { K("index"), K("delta"), K("text"),    K("finish_reason"),
		                           K("usage"), K("error"), K("message"), K_END };
	struct jstr key, finish = { 0 };
	uint64_t index = 0;
	uint32_t seen = 0;
	size_t mark = f->n_pieces;
	scan_enter(s);
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case INDEX:
			if (!scan_u64(s, &index))
				f->n_odd_numbers++;
			break;
		case DELTA:
		case MESSAGE:
			f->n_pieces = mark;
			read_delta(s, f);
			break;
		case TEXT:
			f->n_pieces = mark;
			read_content(s, f, CHANNEL_CONTENT);
			break;
		case FINISH:
			finish = (struct jstr){ 0 };
			scan_str(s, &finish);
			break;
		case USAGE:
			read_usage(s, f);
			break;
		case ERROR:
			read_error(s, f);
			break;
		default:
			scan_skip(s);
		}
	}
	if (index != 0) {
		f->n_other_choice += f->n_pieces > mark;
		f->n_pieces = mark;
	} else if (finish.p && finish.len) {
		f->finish = finish;
	}
}

static void read_choices(struct scan *s, struct event_fields *f)
{
	f->n_pieces = 0;
	f->n_other_choice = 0;
	f->finish = (struct jstr){ 0 };
	f->has_choices = true;
	if (scan_peek(s) != '[') {
		scan_skip(s);
		return;
	}
	scan_enter(s);
	while (scan_element(s)) {
		if (scan_peek(s) == '{')
			read_choice(s, f);
		else
			scan_skip(s);
	}
}

/* {"cached_tokens": n} or {"reasoning_tokens": n} of the details objects */
static void read_detail(struct scan *s, struct event_fields *f, const char *name, uint64_t *out)
{
	const struct key keys[] = { { name, strlen(name) }, K_END };
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		if (key_of(f, &key, keys, &seen) == 0)
			read_count(s, f, out);
		else
			scan_skip(s);
	}
}

static void read_usage(struct scan *s, struct event_fields *f)
{
	enum { PROMPT, INPUT, COMPLETION, OUTPUT, PROMPT_DETAILS, COMPLETION_DETAILS, REASONING };
	static const struct key keys[] = { K("prompt_tokens"),         K("input_tokens"),
		                           K("completion_tokens"),     K("output_tokens"),
		                           K("prompt_tokens_details"), K("completion_tokens_details"),
		                           K("reasoning_tokens"),      K_END };
	struct wire_usage u = no_usage;
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case PROMPT:
		case INPUT:
			read_count(s, f, &u.prompt_tok);
			break;
		case COMPLETION:
		case OUTPUT:
			read_count(s, f, &u.output_tok);
			break;
		case PROMPT_DETAILS:
			read_detail(s, f, "cached_tokens", &u.cached_tok);
			break;
		case COMPLETION_DETAILS:
			read_detail(s, f, "reasoning_tokens", &u.reasoning_tok);
			break;
		case REASONING:
			read_count(s, f, &u.reasoning_tok);
			break;
		default:
			scan_skip(s);
		}
	}
	f->usage = u;
}

static void read_timings(struct scan *s, struct event_fields *f)
{
	enum { CACHE_N, PROMPT_N, PREDICTED_N };
	static const struct key keys[] = { K("cache_n"), K("prompt_n"), K("predicted_n"), K_END };
	uint64_t cache = REC_NONE, prompt = REC_NONE, predicted = REC_NONE;
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		switch (key_of(f, &key, keys, &seen)) {
		case CACHE_N:
			read_count(s, f, &cache);
			break;
		case PROMPT_N:
			read_count(s, f, &prompt);
			break;
		case PREDICTED_N:
			read_count(s, f, &predicted);
			break;
		default:
			scan_skip(s);
		}
	}
	f->timings.cached_tok = cache;
	if (f->timings.output_tok == REC_NONE)
		f->timings.output_tok = predicted;
	if (f->timings.prompt_tok == REC_NONE && prompt != REC_NONE && cache != REC_NONE)
		f->timings.prompt_tok = prompt + cache;
}

void read_code(struct scan *s, struct jstr *word, uint64_t *number, bool *has_number)
{
	*word = (struct jstr){ 0 };
	*has_number = false;
	if (scan_peek(s) == '"')
		scan_str(s, word);
	else
		*has_number = scan_u64(s, number);
}

void read_error(struct scan *s, struct event_fields *f)
{
	enum { MESSAGE, TYPE, CODE };
	static const struct key keys[] = { K("message"), K("type"), K("code"), K_END };
	struct error_fields e = { 0 };
	struct jstr key;
	uint32_t seen = 0;
	char c = scan_peek(s);
	if (c == '"') {
		e.is_text = scan_str(s, &e.text) && e.text.len;
	} else if (c == '{') {
		e.is_object = true;
		scan_enter(s);
		while (scan_member(s, &key)) {
			switch (key_of(f, &key, keys, &seen)) {
			case MESSAGE:
				scan_str(s, &e.message);
				break;
			case TYPE:
				scan_str(s, &e.type);
				break;
			case CODE:
				read_code(s, &e.code, &e.code_number, &e.has_code_number);
				break;
			default:
				scan_skip(s);
			}
		}
	} else {
		scan_skip(s);
		return;
	}
	f->error = e;
}

enum top {
	CHOICES,
	USAGE,
	ERROR,
	OBJECT,
	TYPE,
	MESSAGE,
	CODE,
	ERROR_TYPE,
	TIMINGS,
	CONTENT,
	STOP,
	STOP_TYPE,
	STOPPED_LIMIT,
	TOKENS_PREDICTED,
	TOKENS_EVALUATED,
	X_GROQ
};
static const struct key top_keys[] = {
	K("choices"), K("usage"),     K("error"),         K("object"),           K("type"),
	K("message"), K("code"),      K("error_type"),    K("timings"),          K("content"),
	K("stop"),    K("stop_type"), K("stopped_limit"), K("tokens_predicted"), K("tokens_evaluated"),
	K("x_groq"),  K_END
};

static void read_nested_usage(struct scan *s, struct event_fields *f)
{
	static const struct key keys[] = { K("usage"), K_END };
	struct jstr key;
	uint32_t seen = 0;
	if (!enter_object(s))
		return;
	while (scan_member(s, &key)) {
		if (key_of(f, &key, keys, &seen) == 0)
			read_usage(s, f);
		else
			scan_skip(s);
	}
}

static void read_top(struct scan *s, struct event_fields *f, const struct jstr *key, uint32_t *seen)
{
	switch (key_of(f, key, top_keys, seen)) {
	case CHOICES:
		read_choices(s, f);
		break;
	case USAGE:
		read_usage(s, f);
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
	case ERROR_TYPE:
		scan_str(s, &f->error_type);
		break;
	case TIMINGS:
		read_timings(s, f);
		break;
	case CONTENT:
		if (f->has_choices) {
			scan_skip(s);
			break;
		}
		f->n_pieces = 0;
		read_content(s, f, CHANNEL_CONTENT);
		break;
	case STOP:
		scan_bool(s, &f->stop);
		break;
	case STOP_TYPE:
		scan_str(s, &f->stop_type);
		break;
	case STOPPED_LIMIT:
		scan_bool(s, &f->stopped_limit);
		break;
	case TOKENS_PREDICTED:
		read_count(s, f, &f->timings.output_tok);
		break;
	case TOKENS_EVALUATED:
		read_count(s, f, &f->timings.prompt_tok);
		break;
	case X_GROQ:
		read_nested_usage(s, f);
		break;
	default:
		scan_skip(s);
	}
}

bool wire_read(struct event_fields *f, enum wire kind, bool whole, const char *data, size_t len)
{
	static top_reader *const readers[N_WIRES] = {
		[WIRE_OPENAI_CHAT] = read_top,   [WIRE_OPENAI_COMPLETIONS] = read_top,
		[WIRE_LLAMACPP] = read_top,      [WIRE_TGI] = read_top_tgi,
		[WIRE_OLLAMA] = read_top_ollama, [WIRE_SGLANG] = read_top_sglang,
		[WIRE_TRITON] = read_top_triton
	};
	top_reader *reader = whole && kind == WIRE_TGI ? read_top_tgi_whole : readers[kind];
	struct scan s;
	struct jstr key;
	uint32_t seen = 0;
	memset(f, 0, offsetof(struct event_fields, pieces));
	memset((char *)f + offsetof(struct event_fields, too_many), 0,
	       sizeof *f - offsetof(struct event_fields, too_many));
	f->usage = f->timings = no_usage;
	f->n_ids = REC_NONE;
	scan_init(&s, data, len);
	if (scan_peek(&s) != '{')
		return false;
	scan_enter(&s);
	while (scan_member(&s, &key))
		reader(&s, f, &key, &seen);
	if (f->choice != 0) {
		f->n_other_choice += f->n_pieces != 0;
		f->n_pieces = 0;
		f->finish = (struct jstr){ 0 };
	}
	return scan_end(&s) && !f->too_many;
}
