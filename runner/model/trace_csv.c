/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as CSV (RFC 4180). */
#include "model/trace_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COLUMNS_MAX 256
#define FIELD_BYTES_MAX 80

enum column { COL_TIME, COL_PROMPT, COL_OUTPUT, N_COLUMNS, COL_OTHER = N_COLUMNS };
enum time_form { TIME_UNKNOWN, TIME_MS, TIME_S, TIME_CALENDAR };

struct csv {
	struct trace_reader *r;
	enum time_form form;
	size_t n_columns;
	unsigned char what[COLUMNS_MAX];
};

/* The last column was ended by: */
enum ended { BY_COMMA, BY_LINE };

static const char *const column_says[] = { "the time (timestamp or timestamp_ms)",
	                                   "the prompt (input_length)", "the answer (output_length)" };

// --- fields --------------------------------------------------------------------------------------------

struct field {
	char text[FIELD_BYTES_MAX + 1]; /* without blanks around it; what is longer is cut and told */
	size_t len;
	bool cut;
	enum ended ended;
};

static void put(struct field *f, char c)
{
	if (f->len == FIELD_BYTES_MAX)
		f->cut = true;
	else
		f->text[f->len++] = c;
}

static void trim(struct field *f)
{
	size_t from = 0;

	while (f->len && isspace((unsigned char)f->text[f->len - 1]))
		f->len--;
	while (from < f->len && isspace((unsigned char)f->text[from]))
		from++;
	f->len -= from;
	memmove(f->text, f->text + from, f->len);
	f->text[f->len] = '\0';
}

static int read_quoted(struct csv *c, struct field *f, size_t *lines)
{
	struct trace_reader *r = c->r;

	for (r->at++; r->at < r->len; r->at++) {
		char ch = r->text[r->at];
		if (ch == '"' && r->at + 1 < r->len && r->text[r->at + 1] == '"')
			r->at++;
		else if (ch == '"') {
			r->at++;
			return 0;
		}
		*lines += ch == '\n';
		put(f, ch);
	}
	return trace_bad(r, "a quoted field that does not end");
}

/* One field and the comma or line end behind it. `lines` counts line breaks in quotes. */
static int read_field(struct csv *c, struct field *f, size_t *lines)
{
	struct trace_reader *r = c->r;

	f->len = 0;
	f->cut = false;
	f->ended = BY_LINE;
	if (r->at < r->len && r->text[r->at] == '"') {
		if (read_quoted(c, f, lines))
			return -1;
	} else {
		for (; r->at < r->len && !memchr(",\n", r->text[r->at], 2); r->at++)
			put(f, r->text[r->at]);
	}
	if (r->at < r->len && r->text[r->at] == '\r')
		r->at++;
	if (r->at < r->len && !memchr(",\n", r->text[r->at], 2))
		return trace_bad(r, "text behind a quoted field");
	if (r->at < r->len)
		f->ended = r->text[r->at++] == ',' ? BY_COMMA : BY_LINE;
	trim(f);
	return 0;
}

// --- header --------------------------------------------------------------------------------------------

static enum column column_of(const char *name, enum time_form *form)
{
	static const struct {
		const char *name;
		enum column column;
		enum time_form form;
	} known[] = {
		{ "timestamp_ms", COL_TIME, TIME_MS },
		{ "timestamp", COL_TIME, TIME_UNKNOWN },
		{ "arrived_at", COL_TIME, TIME_UNKNOWN },
		{ "input_length", COL_PROMPT, TIME_UNKNOWN },
		{ "ContextTokens", COL_PROMPT, TIME_UNKNOWN },
		{ "num_prefill_tokens", COL_PROMPT, TIME_UNKNOWN },
		{ "Request tokens", COL_PROMPT, TIME_UNKNOWN },
		{ "output_length", COL_OUTPUT, TIME_UNKNOWN },
		{ "GeneratedTokens", COL_OUTPUT, TIME_UNKNOWN },
		{ "num_decode_tokens", COL_OUTPUT, TIME_UNKNOWN },
		{ "Response tokens", COL_OUTPUT, TIME_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasecmp(known[i].name, name) == 0) {
			if (known[i].column == COL_TIME)
				*form = known[i].form;
			return known[i].column;
		}
	return COL_OTHER;
}

static int read_header(struct csv *c)
{
	struct trace_reader *r = c->r;
	struct field f;
	size_t lines = 0, found[N_COLUMNS + 1] = { 0 };

	r->line = 1;
	do {
		if (c->n_columns == COLUMNS_MAX)
			return trace_bad(r, "more than %d columns", COLUMNS_MAX);
		if (read_field(c, &f, &lines))
			return -1;
		enum column what = f.cut ? COL_OTHER : column_of(f.text, &c->form);
		if (found[what]++ && what != COL_OTHER)
			return trace_bad(r, "a second column for %s", column_says[what]);
		c->what[c->n_columns++] = (unsigned char)what;
	} while (f.ended == BY_COMMA);
	for (int what = 0; what < N_COLUMNS; what++)
		if (!found[what])
			return trace_bad(r, "neither JSON lines nor CSV with a column for %s",
			                 column_says[what]);
	r->line += 1 + lines;
	return 0;
}

// --- values --------------------------------------------------------------------------------------------

static bool number_of(const char *text, double *out)
{
	char *end;

	if (!*text || strspn(text, "0123456789.eE+-") != strlen(text))
		return false;
	*out = strtod(text, &end);
	return *end == '\0';
}

static bool digits(const char **s, size_t n, int64_t lo, int64_t hi, int64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < n; i++, (*s)++) {
		if (!isdigit((unsigned char)**s))
			return false;
		*out = *out * 10 + (**s - '0');
	}
	return *out >= lo && *out <= hi;
}

static bool one_of(const char **s, const char *set)
{
	return **s && strchr(set, *(*s)++);
}

/* Days since 1970-01-01 of the Gregorian calendar, counted in years that begin in March. */
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
	if (m <= 2)
		y--;
	int64_t day_of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static bool zone_of(const char **s, int64_t *offset_s)
{
	int64_t h, m, sign = **s == '-' ? -1 : 1;

	*offset_s = 0;
	if (**s == 'Z' || **s == 'z') {
		(*s)++;
		return true;
	}
	if (**s != '+' && **s != '-')
		return **s == '\0';
	(*s)++;
	if (!digits(s, 2, 0, 23, &h) || !one_of(s, ":") || !digits(s, 2, 0, 59, &m))
		return false;
	*offset_s = sign * (h * 3600 + m * 60);
	return true;
}

static bool calendar_of(const char *s, int64_t *out)
{
	int64_t y, mo, d, h, mi, sec, ns = 0, offset_s;

	if (!digits(&s, 4, 1970, 2199, &y) || !one_of(&s, "-") || !digits(&s, 2, 1, 12, &mo) ||
	    !one_of(&s, "-") || !digits(&s, 2, 1, 31, &d) || !one_of(&s, " Tt") ||
	    !digits(&s, 2, 0, 23, &h) || !one_of(&s, ":") || !digits(&s, 2, 0, 59, &mi) || !one_of(&s, ":") ||
	    !digits(&s, 2, 0, 60, &sec))
		return false;
	if (*s == '.') {
		int64_t scale = 100000000;
		for (s++; isdigit((unsigned char)*s); s++, scale /= 10)
			ns += (*s - '0') * scale;
	}
	if (!zone_of(&s, &offset_s) || *s)
		return false;
	*out = (days_of(y, mo, d) * 86400 + h * 3600 + mi * 60 + sec - offset_s) * INT64_C(1000000000) + ns;
	return true;
}

static int time_of(struct csv *c, const struct field *f, int64_t *out)
{
	double number;
	bool is_number = number_of(f->text, &number);

	if (c->form == TIME_UNKNOWN)
		c->form = is_number ? TIME_S : TIME_CALENDAR;
	if (!f->cut && c->form == TIME_CALENDAR && calendar_of(f->text, out))
		return 0;
	if (!f->cut && c->form != TIME_CALENDAR && is_number &&
	    trace_ns_of(number, c->form == TIME_MS ? 1000000 : 1000000000, out))
		return 0;
	return trace_bad(c->r, "time: want %s, got \"%.40s\"",
	                 c->form == TIME_MS  ? "milliseconds"
	                 : c->form == TIME_S ? "seconds"
	                                     : "a number or YYYY-MM-DD HH:MM:SS.fff",
	                 f->text);
}

static int tok_of(struct csv *c, const char *what, const struct field *f, uint64_t *out)
{
	double number;

	if (f->cut || !number_of(f->text, &number))
		return trace_bad(c->r, "%s: want a whole number, got \"%.40s\"", what, f->text);
	return trace_tok_of(c->r, what, number, out);
}

static int read_row(struct csv *c)
{
	struct trace_reader *r = c->r;
	struct field f, got[N_COLUMNS];
	size_t n = 0, lines = 0;
	int64_t at_ns;
	uint64_t prompt_tok, output_tok;

	do {
		if (read_field(c, &f, &lines))
			return -1;
		if (n < c->n_columns && c->what[n] != COL_OTHER)
			got[c->what[n]] = f;
		n++;
	} while (f.ended == BY_COMMA);
	if (n == 1 && f.len == 0) { /* an empty line */
		r->line += 1 + lines;
		return 0;
	}
	if (n != c->n_columns)
		return trace_bad(r, "%zu fields, the header has %zu", n, c->n_columns);
	if (time_of(c, &got[COL_TIME], &at_ns) || tok_of(c, "prompt", &got[COL_PROMPT], &prompt_tok) ||
	    tok_of(c, "answer", &got[COL_OUTPUT], &output_tok) ||
	    trace_add_row(r, at_ns, prompt_tok, output_tok))
		return -1;
	r->line += 1 + lines;
	return 0;
}

int trace_read_csv(struct trace_reader *r)
{
	struct csv c = { .r = r };

	if (read_header(&c))
		return -1;
	while (r->at < r->len)
		if (read_row(&c))
			return -1;
	return 0;
}
