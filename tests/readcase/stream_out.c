/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_out.h"

#include "base/hash.h"
#include "load/scan.h"

#include <string.h>

static void on_event(void *ctx, const struct sse_event *ev, uint64_t now_ns, bool token)
{
	struct reading *r = ctx;
	struct json_out o;
	if (r->first_event_read == REC_NONE)
		r->first_event_read = r->read_no;
	r->error_by_field |= ev->error_field;
	r->error_by_event |= strcmp(ev->type, "error") == 0;
	if (r->n_kept++ >= KEPT_EVENTS)
		return;
	if (r->events.len)
		buf_addc(&r->events, ',');
	jo_init(&o, &r->events, 0);
	jo_strn(&o, NULL, ev->data, ev->len);
}

void reading_init(struct reading *r, const struct proto *proto)
{
	reading_init_whole(r, proto, false);
}

void reading_init_whole(struct reading *r, const struct proto *proto, bool whole)
{
	memset(r, 0, sizeof *r);
	answer_init(&r->ans, proto, NULL);
	r->ans.whole = whole;
	r->ans.on_event = on_event;
	r->ans.on_event_ctx = r;
	r->first_event_read = REC_NONE;
	buf_init(&r->events, 4 * KEPT_BYTES);
	for (int i = 0; i < N_CHANNELS; i++) {
		buf_init(&r->text[i], KEPT_BYTES);
		buf_adds(&r->text[i], "");
		r->ans.wire.text[i].keep = &r->text[i];
	}
	record_init(&r->rec);
	r->rec.sent_ns = 0;
	r->rec.http = 200;
	answer_start(&r->ans, &r->rec);
}

void reading_done(struct reading *r)
{
	answer_done(&r->ans);
	buf_done(&r->events);
	for (int i = 0; i < N_CHANNELS; i++)
		buf_done(&r->text[i]);
}

static bool holds(const char *bytes, size_t len, const char *word)
{
	return memmem(bytes, len, word, strlen(word)) != NULL;
}

static bool is_lines(const char *bytes, size_t len)
{
	while (len && strchr(" \t\r\n", *bytes) && *bytes) {
		bytes++;
		len--;
	}
	return len && *bytes == '{' && (holds(bytes, len, "\"done\"") || holds(bytes, len, "\"error\""));
}

const struct proto *reading_proto(const char *bytes, size_t len)
{
	enum api api = API_CHAT;
	if (holds(bytes, len, "\"choices\""))
		api = API_CHAT;
	else if (is_lines(bytes, len) || holds(bytes, len, "application/x-ndjson"))
		api = API_OLLAMA;
	else if (holds(bytes, len, "\"meta_info\""))
		api = API_SGLANG;
	else if (holds(bytes, len, "\"text_output\""))
		api = API_TRITON;
	else if (holds(bytes, len, "\"generated_text\"") || holds(bytes, len, "\"error_type\""))
		api = API_TGI;
	else if (!holds(bytes, len, "[DONE]") && holds(bytes, len, "\"content\"") &&
	         holds(bytes, len, "\"stop\""))
		api = API_LLAMACPP;
	return proto_of(ENGINE_ATTACH, api);
}

void put_hex(struct json_out *o, const char *key, const char *bytes, size_t len)
{
	char *hex = malloc(2 * len + 1);
	if (hex)
		hex_encode((const uint8_t *)bytes, len, hex);
	jo_str(o, key, hex);
	free(hex);
}

void put_sha256(struct json_out *o, const char *key, const char *bytes, size_t len)
{
	char text[7 + SHA256_HEX_BYTES] = "sha256:";
	sha256_hex_of(bytes, len, text + 7);
	jo_str(o, key, text);
}

static void put_ms(struct json_out *o, const char *key, bool timed, uint64_t ns)
{
	if (!timed || ns == REC_NONE)
		jo_null(o, key);
	else
		jo_num(o, key, (double)ns / 1e6);
}

static void put_count(struct json_out *o, const char *key, uint64_t n)
{
	if (n == REC_NONE)
		jo_null(o, key);
	else
		jo_u64(o, key, n);
}

static void put_text_or_null(struct json_out *o, const char *key, const char *text)
{
	jo_str(o, key, text[0] ? text : NULL);
}

/* Gaps from the encoded arrivals, as a stranger reads them. */
static void put_gaps(struct json_out *o, const struct reading *r, bool timed)
{
	uint64_t v, zero = 0;
	size_t at = 0, n = 0;
	jo_arr(o, "gaps_ms");
	for (; at < r->ans.tokens_len; n++) {
		size_t used = leb128_get(r->ans.tokens + at, r->ans.tokens_len - at, &v);
		if (!used)
			break;
		at += used;
		if (n == 0 || !timed)
			continue;
		jo_num(o, NULL, (double)v / 1e6);
		zero += v == 0;
	}
	jo_end_arr(o);
	put_count(o, "zero_gaps", timed ? zero : REC_NONE);
}

static void put_error(struct json_out *o, const struct reading *r)
{
	const struct wire_error *e = &r->ans.wire.error;
	if (!r->ans.wire.has_error)
		return;
	put_text_or_null(o, "error_type", e->type);
	put_text_or_null(o, "error_message", e->message);
	jo_bool(o, "error_is_a_string", r->ans.wire.error_is_text);
	jo_str(o, "found_in",
	       r->error_by_field   ? "unknown field 'error'"
	       : r->error_by_event ? "event 'error'"
	                           : "data");
	char *end;
	unsigned long code = strtoul(e->code, &end, 10);
	if (e->code[0] && *end == '\0')
		jo_u64(o, "code", code);
	else
		put_text_or_null(o, "code", e->code);
}

static void put_usage(struct json_out *o, const struct record *rec)
{
	jo_obj(o, "usage");
	put_count(o, "prompt_tokens", rec->usage_prompt_tok);
	put_count(o, "completion_tokens", rec->usage_output_tok);
	put_count(o, "cached_tokens", rec->usage_cached_tok);
	put_count(o, "reasoning_tokens", rec->usage_reasoning_tok);
	jo_end(o);
	put_count(o, "prompt_tokens", rec->usage_prompt_tok);
	put_count(o, "output_tokens", rec->usage_output_tok);
	put_count(o, "completion_tokens", rec->usage_output_tok);
	put_count(o, "cached_tokens", rec->usage_cached_tok);
	put_count(o, "reasoning_tokens", rec->usage_reasoning_tok);
}

static void put_stream(struct json_out *o, const struct reading *r)
{
	const struct sse *s = &r->ans.sse;
	const struct wire_reader *w = &r->ans.wire;
	jo_arr(o, "events");
	if (r->events.len)
		jo_raw(o, NULL, r->events.p, r->events.len);
	jo_end_arr(o);
	jo_u64(o, "n_events", s->n_events + r->ans.lines.n_lines);
	jo_u64(o, "blank_lines", r->ans.lines.n_blank);
	put_count(o, "event_one_known_at_read", r->first_event_read);
	jo_u64(o, "comments", s->n_comments);
	jo_u64(o, "empty_data_events", s->n_empty_events);
	jo_u64(o, "unknown_fields", s->n_unknown_fields);
	put_text_or_null(o, "last_event_id", s->last_id);
	put_count(o, "retry_ms", s->retry_ms);
	jo_bool(o, "byte_order_mark", s->had_bom);
	jo_u64(o, "json_errors", w->n_malformed);
	jo_u64(o, "json_errors_allowed", w->n_malformed);
	jo_u64(o, "duplicate_keys", w->n_duplicate_keys);
	jo_u64(o, "events_after_done", w->n_after_done);
	jo_u64(o, "other_choice_deltas", w->n_other_choice);
	jo_u64(o, "text_rewrites", w->n_rewrites);
	jo_u64(o, "pairs_joined_over_deltas", w->n_joined_halves);
	jo_u64(o, "lone_halves_replaced", w->n_lone_halves);
}

static bool is_utf8(const struct buf *b)
{
	for (size_t at = 0, n; at < b->len; at += n) {
		n = utf8_len(b->p + at, b->len - at);
		if (!n)
			return false;
	}
	return true;
}

static void put_texts(struct json_out *o, const struct reading *r)
{
	const struct buf *t = r->text;
	jo_strn(o, "text", t[CHANNEL_CONTENT].p, t[CHANNEL_CONTENT].len);
	jo_strn(o, "partial_text", t[CHANNEL_CONTENT].p, t[CHANNEL_CONTENT].len);
	put_hex(o, "text_utf8_hex", t[CHANNEL_CONTENT].p, t[CHANNEL_CONTENT].len);
	jo_strn(o, "reasoning_text", t[CHANNEL_REASONING].p, t[CHANNEL_REASONING].len);
	jo_strn(o, "tool_arguments", t[CHANNEL_TOOL].p, t[CHANNEL_TOOL].len);
	jo_bool(o, "stored_text_is_valid_utf8",
	        is_utf8(&t[CHANNEL_CONTENT]) && is_utf8(&t[CHANNEL_REASONING]));
	jo_u64(o, "text_chars", r->rec.text_chars);
	jo_u64(o, "bad_chars", r->rec.bad_chars);
	jo_u64(o, "max_same_run", r->rec.max_same_run);
}

void reading_put(struct json_out *o, const struct reading *r, bool timed)
{
	const struct record *rec = &r->rec;
	bool ok = rec->outcome == OUTCOME_OK;
	jo_str(o, "status", rec->outcome == OUTCOME_STREAM_ERROR ? "error" : outcome_words[rec->outcome]);
	jo_str(o, "outcome", outcome_words[rec->outcome]);
	if (rec->detail[0])
		jo_str(o, "reason", rec->detail);
	jo_bool(o, "counts_as_success", ok);
	jo_u64(o, "warnings", rec->warnings);
	put_texts(o, r);
	put_text_or_null(o, "finish_reason", rec->finish);
	jo_bool(o, "done_seen", r->ans.wire.done);
	jo_u64(o, "token_events", rec->tok_n);
	jo_u64(o, "reads_with_tokens", rec->reads);
	jo_u64(o, "max_events_per_read", rec->max_events_per_read);
	put_ms(o, "ttft_ms", timed, rec->first_token_ns);
	put_ms(o, "ttft_content_ms", timed, rec->first_content_ns);
	put_ms(o, "last_token_ms", timed, rec->last_token_ns);
	put_gaps(o, r, timed);
	put_usage(o, rec);
	put_error(o, r);
	put_stream(o, r);
}
