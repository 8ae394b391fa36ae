/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire.h"

#include "load/wire_int.h"
#include "model/record.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define REPLACEMENT 0xFFFD

static const struct wire_usage no_usage = { REC_NONE, REC_NONE, REC_NONE, REC_NONE };

void wire_init(struct wire_reader *w, enum wire kind)
{
	struct buf *keep[N_CHANNELS];
	for (int i = 0; i < N_CHANNELS; i++)
		keep[i] = w->text[i].keep;
	memset(w, 0, offsetof(struct wire_reader, frame.bytes));
	w->kind = kind;
	w->usage = w->timings = no_usage;
	for (int i = 0; i < N_CHANNELS; i++)
		w->text[i] = (struct wire_text){ .last = -1, .keep = keep[i] };
}

/* --- text ---------------------------------------------------------------------------------------------- */

static bool is_control(int32_t cp)
{
	return (cp < 0x20 && cp != '\n' && cp != '\r' && cp != '\t') || (cp >= 0x7F && cp < 0xA0);
}

static void count_char(struct wire_reader *w, struct wire_text *t, int32_t cp)
{
	w->text_chars++;
	w->bad_chars += cp == REPLACEMENT || is_control(cp);
	t->run = cp == t->last ? t->run + 1 : 1;
	t->last = cp;
	if (t->run > w->max_same_run)
		w->max_same_run = t->run;
}

static void put_char(struct wire_reader *w, struct wire_text *t, int32_t cp)
{
	char out[4];
	count_char(w, t, cp);
	if (t->keep)
		buf_add(t->keep, out, utf8_put(out, (uint32_t)cp));
}

static void end_held(struct wire_reader *w, struct wire_text *t)
{
	if (!t->held)
		return;
	t->held = 0;
	w->n_lone_halves++;
	put_char(w, t, REPLACEMENT);
}

static void put_unit(struct wire_reader *w, struct wire_text *t, int32_t cp)
{
	if (cp >= 0xDC00 && cp <= 0xDFFF && t->held) {
		cp = 0x10000 + (int32_t)((t->held - 0xD800) << 10) + (cp - 0xDC00);
		t->held = 0;
		w->n_joined_halves++;
		put_char(w, t, cp);
		return;
	}
	end_held(w, t);
	if (cp >= 0xD800 && cp <= 0xDBFF) {
		t->held = (uint32_t)cp;
	} else if (cp >= 0xDC00 && cp <= 0xDFFF) {
		w->n_lone_halves++;
		put_char(w, t, REPLACEMENT);
	} else {
		put_char(w, t, cp);
	}
}

static void put_text(struct wire_reader *w, struct wire_text *t, const struct jstr *s)
{
	size_t at = 0;
	int32_t cp;
	if (s->esc) {
		while ((cp = jstr_next(s, &at)) >= 0)
			put_unit(w, t, cp);
		return;
	}
	if (s->len)
		end_held(w, t);
	while ((cp = jstr_next(s, &at)) >= 0)
		count_char(w, t, cp);
	if (t->keep)
		buf_add(t->keep, s->p, s->len);
}

/* --- errors -------------------------------------------------------------------------------------------- */

static void copy_code(char out[32], const struct jstr *word, bool has_number, uint64_t number)
{
	if (has_number)
		snprintf(out, 32, "%llu", (unsigned long long)number);
	else
		jstr_copy(word, out, 32);
}

static bool is_fatal_finish(const char *finish)
{
	return strcmp(finish, "error") == 0 || strcmp(finish, "abort") == 0;
}

/* An event that is an error as a whole: named so, or of the form {"object":"error",…} or {"type":"error",…}.
 */
static bool top_is_error(const struct event_fields *f, bool named)
{
	return named || jstr_is(&f->object, "error") || (jstr_is(&f->type, "error") && !f->has_choices);
}

/* The first error counts; what follows is its consequence. */
static void take_error(struct wire_reader *w, const struct event_fields *f, bool named)
{
	const struct error_fields *e = &f->error;
	bool top = top_is_error(f, named);
	if (w->has_error || !(e->is_object || e->is_text || top))
		return;
	w->has_error = true;
	w->error_is_text = e->is_text;
	if (e->is_object) {
		jstr_copy(&e->message, w->error.message, sizeof w->error.message);
		jstr_copy(&e->type, w->error.type, sizeof w->error.type);
		copy_code(w->error.code, &e->code, e->has_code_number, e->code_number);
		return;
	}
	jstr_copy(e->is_text ? &e->text : &f->message, w->error.message, sizeof w->error.message);
	jstr_copy(f->error_type.p ? &f->error_type : &f->type, w->error.type, sizeof w->error.type);
	copy_code(w->error.code, &f->code, f->has_code_number, f->code_number);
}

/* An event named an error whose data is no JSON: the data is the message. */
static void take_plain_error(struct wire_reader *w, const char *data, size_t len)
{
	size_t n = 0;
	if (w->has_error)
		return;
	w->has_error = w->error_is_text = true;
	for (size_t at = 0; at < len && n + 4 < sizeof w->error.message;) {
		size_t c = utf8_len(data + at, len - at);
		if (c > 1)
			memcpy(w->error.message + n, data + at, c);
		else
			w->error.message[n] = c == 1 && data[at] >= 0x20 && data[at] != 0x7F ? data[at] : '?';
		n += c ? c : 1;
		at += c ? c : 1;
	}
	w->error.message[n] = '\0';
}

/* --- one event ----------------------------------------------------------------------------------------- */

static void merge(struct wire_usage *to, const struct wire_usage *from)
{
	if (from->prompt_tok != REC_NONE)
		to->prompt_tok = from->prompt_tok;
	if (from->output_tok != REC_NONE)
		to->output_tok = from->output_tok;
	if (from->cached_tok != REC_NONE)
		to->cached_tok = from->cached_tok;
	if (from->reasoning_tok != REC_NONE)
		to->reasoning_tok = from->reasoning_tok;
}

static void take_finish(struct wire_reader *w, const struct jstr *finish)
{
	char word[sizeof w->finish];
	if (!finish->p || finish->len == 0)
		return;
	jstr_copy(finish, word, sizeof word);
	w->n_finish_changes += w->finish[0] && strcmp(w->finish, word) != 0;
	memcpy(w->finish, word, sizeof word);
}

bool wire_marks_end(enum wire kind)
{
	return kind == WIRE_LLAMACPP || kind == WIRE_TGI || kind == WIRE_OLLAMA;
}

/* llama.cpp's reason stands in stop_type, in older versions in one of several flags. */
static void take_stop(struct wire_reader *w, const struct event_fields *f)
{
	static const struct jstr limit = { "limit", 5, false }, stop = { "stop", 4, false };
	if (!f->stop || !wire_marks_end(w->kind))
		return;
	w->done = true;
	if (w->kind != WIRE_LLAMACPP)
		return;
	bool named = f->stop_type.p && f->stop_type.len && !jstr_is(&f->stop_type, "none");
	take_finish(w, named ? &f->stop_type : f->stopped_limit ? &limit : &stop);
}

static bool is_done_mark(const char *data, size_t len)
{
	while (len && (*data == ' ' || *data == '\t')) {
		data++;
		len--;
	}
	while (len && (data[len - 1] == ' ' || data[len - 1] == '\t'))
		len--;
	return len == 6 && memcmp(data, "[DONE]", 6) == 0;
}

static bool is_message(const char *type)
{
	return type[0] == '\0' || strcmp(type, "message") == 0;
}

static struct wire_news take_unreadable(struct wire_reader *w, const char *data, size_t len, const char *type,
                                        bool named)
{
	if (named) {
		take_plain_error(w, data, len);
		return (struct wire_news){ 0 };
	}
	if (!is_message(type)) {
		w->n_foreign_events++;
		return (struct wire_news){ 0 };
	}
	w->n_malformed++;
	return (struct wire_news){ .malformed = true };
}

static struct wire_news take_text(struct wire_reader *w, enum channel channel, const struct jstr *text)
{
	put_text(w, &w->text[channel], text);
	return (struct wire_news){ .token = true, .content = channel == CHANNEL_CONTENT };
}

/* --- the frame ----------------------------------------------------------------------------------------- */

static bool tells_nothing(const struct wire_usage *u)
{
	return (u->prompt_tok & u->output_tok & u->cached_tok & u->reasoning_tok) == REC_NONE;
}

static void keep_frame(struct wire_reader *w, const struct event_fields *f, const char *data, size_t len)
{
	const struct jstr *text = &f->pieces[0].text;
	struct wire_frame *fr = &w->frame;
	fr->head_len = 0;
	if (f->n_pieces != 1 || f->n_other_choice || f->finish.p || f->stop || f->n_duplicate_keys ||
	    f->n_odd_numbers || w->has_error || !tells_nothing(&f->usage) || !tells_nothing(&f->timings) ||
	    len - text->len > sizeof fr->bytes || w->kind == WIRE_SGLANG || text->p[-1] != '"')
		return;
	fr->channel = f->pieces[0].channel;
	fr->head_len = (size_t)(text->p - data);
	fr->tail_len = len - fr->head_len - text->len;
	memcpy(fr->bytes, data, fr->head_len);
	memcpy(fr->bytes + fr->head_len, text->p + text->len, fr->tail_len);
}

static bool fits_frame(const struct wire_frame *fr, const char *data, size_t len, struct jstr *text)
{
	if (fr->head_len == 0 || len <= fr->head_len + fr->tail_len ||
	    memcmp(data, fr->bytes, fr->head_len) != 0 ||
	    memcmp(data + len - fr->tail_len, fr->bytes + fr->head_len, fr->tail_len) != 0)
		return false;
	struct scan s = { .p = data + fr->head_len - 1, .end = data + len };
	return scan_string_here(&s, text) && text->len == len - fr->head_len - fr->tail_len;
}

/* --- the parts of an event -----------------------------------------------------------------------------
 */

static struct wire_news take_pieces(struct wire_reader *w, const struct event_fields *f)
{
	struct wire_news news = { 0 };
	w->n_other_choice += f->n_other_choice;
	for (size_t i = 0; i < f->n_pieces; i++) {
		news.content |= take_text(w, f->pieces[i].channel, &f->pieces[i].text).content;
		news.token = true;
	}
	return news;
}

static void take_ends(struct wire_reader *w, const struct event_fields *f)
{
	take_finish(w, &f->finish);
	take_stop(w, f);
	if (is_fatal_finish(w->finish) && !w->has_error) {
		w->has_error = true;
		snprintf(w->error.message, sizeof w->error.message, "finish reason %s", w->finish);
	}
}

/* --- one event, whole ---------------------------------------------------------------------------------- */

struct wire_news wire_event(struct wire_reader *w, const char *data, size_t len, const char *type,
                            bool error_field)
{
	struct event_fields f;
	struct wire_news news = { 0 };
	bool named = error_field || (type[0] && strcmp(type, "error") == 0), after = w->done;
	struct jstr text;
	if (!named && !after && fits_frame(&w->frame, data, len, &text))
		return take_text(w, w->frame.channel, &text);
	w->n_after_done += after;
	if (w->kind != WIRE_OLLAMA && !named && is_done_mark(data, len)) {
		w->done = true;
		return news;
	}
	bool readable = wire_read(&f, w->kind, false, data, len);
	w->n_duplicate_keys += f.n_duplicate_keys;
	w->n_odd_numbers += f.n_odd_numbers;
	if (!readable)
		return take_unreadable(w, data, len, type, named);
	take_error(w, &f, named);
	merge(&w->usage, &f.usage);
	merge(&w->timings, &f.timings);
	if (after)
		return news;
	if (w->kind == WIRE_SGLANG)
		wire_cut_seen(w, &f);
	news = take_pieces(w, &f);
	if (!named)
		keep_frame(w, &f, data, len);
	take_ends(w, &f);
	return news;
}

bool wire_whole(struct wire_reader *w, const char *data, size_t len)
{
	struct event_fields f;
	bool readable = wire_read(&f, w->kind, true, data, len);
	w->n_duplicate_keys += f.n_duplicate_keys;
	w->n_odd_numbers += f.n_odd_numbers;
	if (!readable)
		return false;
	take_error(w, &f, false);
	merge(&w->usage, &f.usage);
	merge(&w->timings, &f.timings);
	take_pieces(w, &f);
	take_ends(w, &f);
	return true;
}

void wire_end(struct wire_reader *w)
{
	for (int i = 0; i < N_CHANNELS; i++)
		end_held(w, &w->text[i]);
	struct wire_usage u = w->timings;
	merge(&u, &w->usage);
	if (u.reasoning_tok != REC_NONE && u.output_tok != REC_NONE && u.reasoning_tok > u.output_tok) {
		u.reasoning_tok = REC_NONE; /* a part cannot exceed the whole: not a figure to keep */
		w->n_odd_numbers++;
	}
	w->usage = u;
}

uint64_t wire_warnings(const struct wire_reader *w)
{
	return w->n_duplicate_keys + w->n_lone_halves + w->n_odd_numbers + w->n_foreign_events +
	       w->n_finish_changes + w->n_after_done + w->n_rewrites;
}
