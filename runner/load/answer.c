/* SPDX-License-Identifier: Apache-2.0 */
#include "load/answer.h"

#include "load/scan.h"
#include "load/scrub.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_FIRST_BYTES 1024
#define LEB128_BYTES_MAX 10
#define DETAIL_CHARS 120

/* llama.cpp repeats the prompt in its last event, SGLang the text and its ids in each. */
static size_t event_bytes_max(enum wire wire)
{
	return wire == WIRE_LLAMACPP || wire == WIRE_SGLANG ? 8 * SSE_EVENT_BYTES_MAX : SSE_EVENT_BYTES_MAX;
}

void answer_init(struct answer *a, const struct proto *proto, const char *secret)
{
	memset(a, 0, sizeof *a);
	sse_init(&a->sse, event_bytes_max(proto->wire));
	nd_init(&a->lines, ND_LINE_BYTES_MAX);
	buf_init(&a->body, ANSWER_WHOLE_BYTES_MAX);
	wire_init(&a->wire, proto->wire);
	a->needs_done = proto->needs_done || wire_marks_end(proto->wire);
	a->no_finish_reason = proto->no_finish_reason;
	a->secret = secret && secret[0] ? secret : NULL;
}

void answer_done(struct answer *a)
{
	sse_done(&a->sse);
	nd_done(&a->lines);
	buf_done(&a->body);
	free(a->tokens);
	a->tokens = NULL;
}

void answer_start(struct answer *a, struct record *rec)
{
	a->rec = rec;
	sse_reset(&a->sse);
	nd_reset(&a->lines);
	buf_clear(&a->body);
	wire_init(&a->wire, a->wire.kind);
	a->tokens_len = 0;
	a->read_no = REC_NONE;
	a->events_in_read = 0;
	a->too_long = a->no_memory = false;
	a->n_json_errors = 0;
	a->head_len = 0;
	a->whole_read = false;
	a->content_type[0] = '\0';
	rec->tok_n = rec->tok_bytes = rec->bytes = rec->reads = rec->max_events_per_read = 0;
	rec->text_chars = rec->bad_chars = rec->max_same_run = rec->warnings = 0;
}

static bool tokens_room(struct answer *a)
{
	if (a->tokens_cap - a->tokens_len >= LEB128_BYTES_MAX)
		return true;
	size_t cap = a->tokens_cap ? a->tokens_cap * 2 : TOKENS_FIRST_BYTES;
	uint8_t *p = cap <= ANSWER_TOKENS_BYTES_MAX ? realloc(a->tokens, cap) : NULL;
	if (!p) {
		a->no_memory = true;
		return false;
	}
	a->tokens = p;
	a->tokens_cap = cap;
	return true;
}

static void take_token(struct answer *a, uint64_t now_ns, uint64_t read_no, bool content)
{
	struct record *r = a->rec;
	uint64_t before = r->tok_n ? r->last_token_ns : r->sent_ns;
	if (!tokens_room(a))
		return;
	a->tokens_len += leb128_put(a->tokens + a->tokens_len, now_ns > before ? now_ns - before : 0);
	r->tok_n++;
	r->last_token_ns = now_ns;
	if (r->first_token_ns == REC_NONE)
		r->first_token_ns = now_ns;
	if (content && r->first_content_ns == REC_NONE)
		r->first_content_ns = now_ns;
	if (a->read_no != read_no) {
		a->read_no = read_no;
		a->events_in_read = 0;
		r->reads++;
	}
	if (++a->events_in_read > r->max_events_per_read)
		r->max_events_per_read = a->events_in_read;
}

static void take_event(struct answer *a, const struct sse_event *ev, uint64_t now_ns, uint64_t read_no)
{
	struct wire_news news = wire_event(&a->wire, ev->data, ev->len, ev->type, ev->error_field);
	if (a->on_event)
		a->on_event(a->on_event_ctx, ev, now_ns, news.token);
	if (news.token)
		take_token(a, now_ns, read_no, news.content);
}

static bool uses_lines(const struct answer *a)
{
	return a->wire.kind == WIRE_OLLAMA;
}

static bool read_lines(struct answer *a, uint64_t now_ns, uint64_t read_no, const char *bytes, size_t len)
{
	struct sse_event ev = { .type = "" };
	enum nd_step step;
	nd_feed(&a->lines, bytes, len);
	while ((step = nd_next(&a->lines, &ev.data, &ev.len)) == ND_LINE)
		take_event(a, &ev, now_ns, read_no);
	return step != ND_LONG;
}

static bool read_events(struct answer *a, uint64_t now_ns, uint64_t read_no, const char *bytes, size_t len)
{
	struct sse_event ev;
	enum sse_step step;
	sse_feed(&a->sse, bytes, len);
	while ((step = sse_next(&a->sse, &ev)) == SSE_EVENT)
		take_event(a, &ev, now_ns, read_no);
	return step != SSE_LONG;
}

int answer_body(struct answer *a, uint64_t now_ns, uint64_t read_no, const char *bytes, size_t len)
{
	a->rec->bytes += len;
	a->last_rx_ns = now_ns;
	a->last_read_no = read_no;
	if (a->head_len < sizeof a->head) {
		size_t room = sizeof a->head - a->head_len, n = len < room ? len : room;
		memcpy(a->head + a->head_len, bytes, n);
		a->head_len += n;
	}
	if (a->rec->http != 200)
		return 0;
	if (a->whole)
		a->too_long = buf_add(&a->body, bytes, len) < 0;
	else if (uses_lines(a))
		a->too_long = !read_lines(a, now_ns, read_no, bytes, len);
	else
		a->too_long = !read_events(a, now_ns, read_no, bytes, len);
	return a->too_long || a->no_memory ? -1 : 0;
}

bool answer_whole(const struct answer *a)
{
	return a->wire.done && (a->wire.finish[0] || a->no_finish_reason) && a->rec->tok_n &&
	       !a->wire.has_error && a->rec->http == 200;
}

/* --- the end ------------------------------------------------------------------------------------------- */

/* Valid UTF-8 that steers a terminal or turns the text round: C1 controls, line ends, marks of direction. */
static bool steers(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;
	if (len == 2)
		return u[0] == 0xC2 && u[1] < 0xA0;
	if (len != 3 || u[0] != 0xE2)
		return false;
	return (u[1] == 0x80 && (u[2] == 0x8E || u[2] == 0x8F || (u[2] >= 0xA8 && u[2] <= 0xAE))) ||
	       (u[1] == 0x81 && u[2] >= 0xA6 && u[2] <= 0xA9);
}

/* Printable UTF-8 on one line; what is none becomes '?'. Returns bytes written, without the NUL. */
static size_t clean(char *out, size_t size, const char *p, size_t len, size_t max_chars)
{
	size_t n = 0;
	for (size_t at = 0, chars = 0; at < len && chars < max_chars; chars++) {
		size_t c = utf8_len(p + at, len - at);
		bool shown = c > 1 && !steers(p + at, c);
		if (n + (shown ? c : 1) >= size)
			break;
		unsigned char u = (unsigned char)p[at];
		if (shown)
			memmove(out + n, p + at, c);
		else
			out[n] = (u == '\n' || u == '\r' || u == '\t') ? ' '
			         : (c != 1 || u < 0x20 || u == 0x7F)   ? '?'
			                                               : (char)u;
		n += shown ? c : 1;
		at += c ? c : 1;
	}
	out[n] = '\0';
	return n;
}

static void detail(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void detail(struct answer *a, const char *fmt, ...)
{
	char text[ANSWER_HEAD_BYTES + 512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	scrub(text, a->secret);
	clean(a->rec->detail, sizeof a->rec->detail, text, strlen(text), DETAIL_CHARS + 30);
}

static void detail_head(struct answer *a)
{
	char text[ANSWER_HEAD_BYTES + 1];
	clean(text, sizeof text, a->head, a->head_len, ANSWER_HEAD_BYTES);
	scrub(text, a->secret);
	size_t n = clean(text, sizeof text, text, strlen(text), DETAIL_CHARS);
	while (n && text[n - 1] == ' ')
		text[--n] = '\0';
	detail(a, "%d%s%s", a->rec->http, n ? ": " : ", no body", text);
}

static void detail_error(struct answer *a)
{
	const struct wire_error *e = &a->wire.error;
	detail(a, "%s%s%s%s%s", e->type, e->type[0] && e->code[0] ? " " : "", e->code,
	       e->message[0] && (e->type[0] || e->code[0]) ? ": " : "", e->message);
}

/* A 200 whose body is no stream at all: one JSON text (often an error), or something else. Of the text only
 * the error is taken: it was no stream, so it has no tokens. */
static enum outcome body_without_events(struct answer *a)
{
	const char *type = a->content_type[0] ? a->content_type : "unknown type";
	struct wire_reader whole = { 0 };
	wire_init(&whole, a->wire.kind);
	if (a->rec->bytes <= sizeof a->head)
		wire_event(&whole, a->head, a->head_len, "foreign", false);
	if (whole.has_error) {
		a->wire.has_error = true;
		a->wire.error_is_text = whole.error_is_text;
		a->wire.error = whole.error;
		detail_error(a);
		return OUTCOME_STREAM_ERROR;
	}
	detail(a, "no event in %" PRIu64 " bytes of %s", a->rec->bytes, type);
	return OUTCOME_CORRUPT;
}

static uint64_t n_events(const struct answer *a)
{
	return uses_lines(a) ? a->lines.n_lines : a->sse.n_events;
}

static bool inside_event(const struct answer *a)
{
	const char *line;
	size_t len;
	return uses_lines(a) ? nd_rest(&a->lines, &line, &len) : sse_inside_event(&a->sse);
}

static bool rest_is_no_object(const struct answer *a)
{
	const char *line;
	size_t len;
	if (!nd_rest(&a->lines, &line, &len))
		return false;
	while (len && (*line == ' ' || *line == '\t' || *line == '\r')) {
		line++;
		len--;
	}
	return *line != '{';
}

static bool lacks_finish(const struct answer *a)
{
	return a->wire.finish[0] == '\0' && !a->no_finish_reason;
}

static bool is_no_stream(const struct answer *a)
{
	size_t at = 0;
	if (uses_lines(a))
		return a->lines.n_lines == 0 && rest_is_no_object(a);
	while (at < a->head_len && strchr(" \t\r\n", a->head[at]) && a->head[at])
		at++;
	bool looks = at < a->head_len && a->head[at] && strchr("{[<", a->head[at]);
	return a->sse.n_events == 0 && !a->sse.has_data && (looks || a->sse.n_unknown_fields);
}

static enum outcome end_of_body(struct answer *a)
{
	const struct wire_reader *w = &a->wire;
	if (is_no_stream(a))
		return body_without_events(a);
	if (!w->done && inside_event(a)) {
		detail(a, "ended inside an event");
		return OUTCOME_TRUNCATED;
	}
	if (n_events(a) == 0) {
		detail(a, "no event");
		return OUTCOME_EMPTY;
	}
	if (a->needs_done && !w->done) {
		detail(a, "ended without the end mark, after %" PRIu64 " token events", a->rec->tok_n);
		return OUTCOME_TRUNCATED;
	}
	if (a->rec->tok_n == 0) {
		detail(a, "ended without a token, finish reason '%s'", w->finish);
		return OUTCOME_EMPTY;
	}
	if (lacks_finish(a)) {
		detail(a, "ended without a finish reason");
		return OUTCOME_TRUNCATED;
	}
	return OUTCOME_OK;
}

static enum outcome end_of_whole(struct answer *a)
{
	const struct wire_reader *w = &a->wire;
	if (a->rec->bytes == 0) {
		detail(a, "empty body");
		return OUTCOME_EMPTY;
	}
	if (!a->whole_read) {
		detail(a, "%" PRIu64 " bytes of %s are not one JSON object", a->rec->bytes,
		       a->content_type[0] ? a->content_type : "unknown type");
		return OUTCOME_CORRUPT;
	}
	if (w->text_chars == 0) {
		detail(a, "no text, finish reason '%s'", w->finish);
		return OUTCOME_EMPTY;
	}
	if (wire_marks_end(w->kind) && !w->done) {
		detail(a, "without the end mark");
		return OUTCOME_TRUNCATED;
	}
	if (lacks_finish(a)) {
		detail(a, "without a finish reason");
		return OUTCOME_TRUNCATED;
	}
	return OUTCOME_OK;
}

static enum outcome end_of_transport(struct answer *a, enum transport how, const char *why)
{
	switch (how) {
	case TRANSPORT_COMPLETE:
		return a->whole ? end_of_whole(a) : end_of_body(a);
	case TRANSPORT_CUT:
		detail(a, "%s", why);
		return OUTCOME_TRUNCATED;
	case TRANSPORT_RESET:
		detail(a, "%s", why);
		return OUTCOME_RESET;
	case TRANSPORT_TIMEOUT:
		detail(a, "%s", why);
		return OUTCOME_TIMEOUT;
	case TRANSPORT_STALLED:
		detail(a, "%s", why);
		return OUTCOME_STALLED;
	case TRANSPORT_BAD:
		detail(a, "%s", why);
		return OUTCOME_CORRUPT;
	case TRANSPORT_CANCELLED:
		break;
	}
	detail(a, "%s", why);
	return OUTCOME_CANCELLED;
}

static void detail_bound(struct answer *a)
{
	if (!a->too_long)
		detail(a, "more token events than %zu bytes hold", a->tokens_len);
	else if (a->whole)
		detail(a, "a body over %zu bytes", a->body.max_bytes);
	else
		detail(a, "a line or event over %zu bytes",
		       uses_lines(a) ? a->lines.max_line_bytes : a->sse.max_event_bytes);
}

/* What the server said outweighs how the connection ended; what it said first outweighs what followed. */
static enum outcome decide(struct answer *a, enum transport how, const char *why)
{
	const struct wire_reader *w = &a->wire;
	if (how == TRANSPORT_CANCELLED)
		return end_of_transport(a, how, why);
	if (a->rec->http != 0 && a->rec->http != 200) {
		detail_head(a);
		return OUTCOME_HTTP_STATUS;
	}
	if (w->has_error) {
		detail_error(a);
		return OUTCOME_STREAM_ERROR;
	}
	if (a->too_long || a->no_memory) {
		detail_bound(a);
		return OUTCOME_CORRUPT;
	}
	if (w->n_malformed) {
		detail(a, "%" PRIu64 " of %" PRIu64 " events are no JSON object", w->n_malformed,
		       n_events(a));
		return OUTCOME_CORRUPT;
	}
	return end_of_transport(a, how, why);
}

static bool is_object(const char *p, size_t len)
{
	struct scan s;
	scan_init(&s, p, len);
	if (scan_peek(&s) != '{')
		return false;
	scan_skip(&s);
	return scan_end(&s);
}

/* The last line needs no LF: when it is whole without one, it counts. */
static void take_last_line(struct answer *a)
{
	struct sse_event ev = { .type = "" };
	if (a->too_long || !nd_rest(&a->lines, &ev.data, &ev.len) || !is_object(ev.data, ev.len))
		return;
	a->lines.n_lines++;
	take_event(a, &ev, a->last_rx_ns, a->last_read_no);
	buf_clear(&a->lines.line);
}

static void read_what_is_left(struct answer *a)
{
	if (a->rec->http != 200)
		return;
	if (a->whole)
		a->whole_read = !a->too_long && a->body.len && wire_whole(&a->wire, a->body.p, a->body.len);
	else if (uses_lines(a))
		take_last_line(a);
}

void answer_end(struct answer *a, enum transport how, const char *why)
{
	struct record *r = a->rec;
	read_what_is_left(a);
	wire_end(&a->wire);
	r->outcome = decide(a, how, why);
	const struct wire_reader *w = &a->wire;
	memcpy(r->finish, w->finish, sizeof r->finish);
	scrub(r->finish, a->secret);
	r->usage_prompt_tok = w->usage.prompt_tok;
	r->usage_output_tok = w->usage.output_tok;
	r->usage_cached_tok = w->usage.cached_tok;
	r->usage_reasoning_tok = w->usage.reasoning_tok;
	r->tok_bytes = a->tokens_len;
	r->text_chars = w->text_chars;
	r->bad_chars = w->bad_chars;
	r->max_same_run = w->max_same_run;
	r->warnings += wire_warnings(w) + a->sse.n_unknown_fields +
	               (w->done && !a->whole && inside_event(a) ? 1 : 0);
}
