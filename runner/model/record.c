// SPDX-License-Identifier: Apache-2.0
// One const table gives order, name and type of every field, for writing and for reading.
#include "model/record.h"

#include "base/json_out.h"

#include <stddef.h>
#include <string.h>

const char *const outcome_words[] = { "ok",    "http_status", "stream_error", "timeout", "stalled",
	                              "reset", "truncated",   "empty",        "corrupt", "cancelled",
	                              NULL };
const char *const rec_kind_words[] = { "load", "warmup", "control", "probe", NULL };

enum field_type {
	F_U64,      // always there
	F_U64_NULL, // REC_NONE is null
	F_HTTP,     // int, 0 is null
	F_OUTCOME,
	F_KIND,
	F_TEXT, // "" is null
};

static const struct field {
	const char *key;
	enum field_type type;
	size_t offset, size;
} fields[] = {
#define FIELD(name, type)                                                                                    \
	{                                                                                                    \
#name, type, offsetof(struct record, name), sizeof(((struct record *)0)->name)               \
	}
	FIELD(i, F_U64),
	FIELD(k, F_U64),
	FIELD(cell, F_TEXT),
	FIELD(kind, F_KIND),
	FIELD(start, F_U64),
	FIELD(slot, F_U64),
	FIELD(conv, F_U64_NULL),
	FIELD(turn, F_U64_NULL),
	FIELD(part, F_U64_NULL),
	FIELD(attempts, F_U64),
	FIELD(first_sent_ns, F_U64_NULL),
	FIELD(due_ns, F_U64_NULL),
	FIELD(sent_ns, F_U64_NULL),
	FIELD(conn_ns, F_U64_NULL),
	FIELD(first_byte_ns, F_U64_NULL),
	FIELD(first_token_ns, F_U64_NULL),
	FIELD(first_content_ns, F_U64_NULL),
	FIELD(last_token_ns, F_U64_NULL),
	FIELD(end_ns, F_U64_NULL),
	FIELD(http, F_HTTP),
	FIELD(outcome, F_OUTCOME),
	FIELD(finish, F_TEXT),
	FIELD(prompt_tok, F_U64_NULL),
	FIELD(want_output_tok, F_U64_NULL),
	FIELD(usage_prompt_tok, F_U64_NULL),
	FIELD(usage_output_tok, F_U64_NULL),
	FIELD(usage_cached_tok, F_U64_NULL),
	FIELD(usage_reasoning_tok, F_U64_NULL),
	FIELD(tok_n, F_U64),
	FIELD(tok_off, F_U64),
	FIELD(tok_bytes, F_U64),
	FIELD(bytes, F_U64),
	FIELD(reads, F_U64),
	FIELD(max_events_per_read, F_U64),
	FIELD(text_chars, F_U64),
	FIELD(bad_chars, F_U64),
	FIELD(max_same_run, F_U64),
	FIELD(warnings, F_U64),
	FIELD(detail, F_TEXT),
#undef FIELD
};
#define N_FIELDS (sizeof fields / sizeof *fields)

void record_init(struct record *r)
{
	memset(r, 0, sizeof *r);
	for (size_t i = 0; i < N_FIELDS; i++)
		if (fields[i].type == F_U64_NULL)
			memcpy((char *)r + fields[i].offset, &(uint64_t){ REC_NONE }, sizeof(uint64_t));
}

static uint64_t u64_at(const struct record *r, const struct field *f)
{
	uint64_t v;
	memcpy(&v, (const char *)r + f->offset, sizeof v);
	return v;
}

static void write_field(struct json_out *o, const struct record *r, const struct field *f)
{
	const char *at = (const char *)r + f->offset;
	switch (f->type) {
	case F_U64:
		jo_u64(o, f->key, u64_at(r, f));
		break;
	case F_U64_NULL:
		if (u64_at(r, f) == REC_NONE)
			jo_null(o, f->key);
		else
			jo_u64(o, f->key, u64_at(r, f));
		break;
	case F_HTTP:
		if (r->http)
			jo_i64(o, f->key, r->http);
		else
			jo_null(o, f->key);
		break;
	case F_OUTCOME:
		jo_str(o, f->key, outcome_words[r->outcome]);
		break;
	case F_KIND:
		jo_str(o, f->key, rec_kind_words[r->kind]);
		break;
	case F_TEXT:
		if (*at)
			jo_strn(o, f->key, at, strnlen(at, f->size));
		else
			jo_null(o, f->key);
		break;
	}
}

void record_write(struct buf *out, const struct record *r)
{
	struct json_out o;
	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	for (size_t i = 0; i < N_FIELDS; i++)
		write_field(&o, r, &fields[i]);
	jo_end(&o);
	buf_addc(out, '\n');
}

struct scan {
	const char *p, *end;
};

static bool skip(struct scan *s, const char *text)
{
	size_t n = strlen(text);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n))
		return false;
	s->p += n;
	return true;
}

static bool take_u64(struct scan *s, uint64_t *out)
{
	const char *start = s->p;
	uint64_t v = 0;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v))
			return false;
	*out = v;
	/* beyond 2^53 other readers of JSON see another number */
	return v < UINT64_C(1) << 53 && s->p > start && (*start != '0' || s->p == start + 1);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One character behind a backslash; only the escapes that json_out writes.
static bool take_escape(struct scan *s, char *c)
{
	if (s->p >= s->end)
		return false;
	char e = *s->p++;
	if (e == '"' || e == '\\' || e == 'n') {
		*c = e == 'n' ? '\n' : e;
		return true;
	}
	if (e != 'u' || s->end - s->p < 4 || s->p[0] != '0' || s->p[1] != '0')
		return false;
	int high = hex_digit(s->p[2]), low = hex_digit(s->p[3]);
	s->p += 4;
	*c = (char)(high * 16 + low);
	return high >= 0 && high < 8 && low >= 0 && *c;
}

static bool take_text(struct scan *s, char *out, size_t size)
{
	size_t n = 0;
	if (!skip(s, "\""))
		return false;
	while (s->p < s->end && *s->p != '"') {
		char c = *s->p++;
		if ((c == '\\' && !take_escape(s, &c)) || !c || n + 1 >= size)
			return false;
		out[n++] = c;
	}
	out[n] = 0;
	return n && skip(s, "\"");
}

static bool take_word(struct scan *s, const char *const *words, int *which)
{
	char word[32];
	if (!take_text(s, word, sizeof word))
		return false;
	for (int i = 0; words[i]; i++) {
		if (!strcmp(words[i], word)) {
			*which = i;
			return true;
		}
	}
	return false;
}

static bool take_field(struct scan *s, struct record *r, const struct field *f)
{
	char *at = (char *)r + f->offset;
	uint64_t v = REC_NONE;
	int which = 0;
	switch (f->type) {
	case F_U64:
		if (!take_u64(s, &v))
			return false;
		memcpy(at, &v, sizeof v);
		return true;
	case F_U64_NULL:
		if (!skip(s, "null") && (!take_u64(s, &v) || v == REC_NONE))
			return false;
		memcpy(at, &v, sizeof v);
		return true;
	case F_HTTP:
		if (skip(s, "null"))
			return true;
		if (!take_u64(s, &v) || !v || v > 999)
			return false;
		r->http = (int)v;
		return true;
	case F_OUTCOME:
		if (!take_word(s, outcome_words, &which))
			return false;
		r->outcome = (enum outcome)which;
		return true;
	case F_KIND:
		if (!take_word(s, rec_kind_words, &which))
			return false;
		r->kind = (enum rec_kind)which;
		return true;
	case F_TEXT:
		return skip(s, "null") || take_text(s, at, f->size);
	}
	return false;
}

// What was read, written again, must be the same bytes: bad UTF-8, needless escapes and blanks fall here.
static bool same_bytes(const struct record *r, const char *line, size_t len)
{
	auto_buf again = BUF_INIT(16384);
	record_write(&again, r);
	return !again.failed && again.len == len + 1 && !memcmp(again.p, line, len);
}

int record_read(struct record *r, const char *line, size_t len, const char *name, uint64_t line_no,
                struct err *err)
{
	struct scan s = { line, line + len };
	struct record got;
	record_init(&got);
	for (size_t i = 0; i < N_FIELDS; i++) {
		const struct field *f = &fields[i];
		if (!skip(&s, i ? "," : "{") || !skip(&s, "\"") || !skip(&s, f->key) || !skip(&s, "\":"))
			return err_set(err, ERR_PLAN, "%s:%llu: byte %zu: want member \"%s\"", name,
			               (unsigned long long)line_no, (size_t)(s.p - line), f->key);
		if (!take_field(&s, &got, f))
			return err_set(err, ERR_PLAN,
			               "%s:%llu: byte %zu: \"%s\" does not hold a value of its kind", name,
			               (unsigned long long)line_no, (size_t)(s.p - line), f->key);
	}
	if (!skip(&s, "}") || s.p != s.end)
		return err_set(err, ERR_PLAN, "%s:%llu: byte %zu: want the end of the record", name,
		               (unsigned long long)line_no, (size_t)(s.p - line));
	if (!same_bytes(&got, line, len))
		return err_set(err, ERR_PLAN, "%s:%llu: not in the one form that a record has", name,
		               (unsigned long long)line_no);
	*r = got;
	return 0;
}

size_t leb128_put(uint8_t *out, uint64_t v)
{
	size_t n = 0;
	do {
		out[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	return n;
}

size_t leb128_get(const uint8_t *in, size_t len, uint64_t *v)
{
	uint64_t got = 0;
	for (size_t i = 0; i < len && i < 10; i++) {
		if (i == 9 && in[i] > 1)
			return 0;
		got |= (uint64_t)(in[i] & 0x7f) << (7 * i);
		if (!(in[i] & 0x80)) {
			if (i && !in[i])
				return 0; // a longer form of a shorter number
			*v = got;
			return i + 1;
		}
	}
	return 0;
}
