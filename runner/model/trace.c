/* SPDX-License-Identifier: Apache-2.0 */
#include "model/trace.h"

#include "base/clock.h"
#include "base/json_in.h"
#include "model/trace_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (1u << 20)
#define SPAN_NS (TRACE_DAYS_MAX * INT64_C(86400) * INT64_C(1000000000))

int trace_bad(struct trace_reader *r, const char *fmt, ...)
{
	char says[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(says, sizeof(says), fmt, ap);
	va_end(ap);
	return err_set(r->err, ERR_PLAN, "%s:%zu: %s", r->name, r->line, says);
}

// --- rows ----------------------------------------------------------------------------------------------

bool trace_ns_of(double number, int64_t unit_ns, int64_t *out)
{
	if (!(number >= 0 && number <= 1e13) || number * (double)unit_ns > 9e18)
		return false;
	double whole = floor(number);
	*out = (int64_t)whole * unit_ns + (int64_t)round((number - whole) * (double)unit_ns);
	return true;
}

int trace_tok_of(struct trace_reader *r, const char *what, double number, uint64_t *out)
{
	if (!(number >= 1 && number <= TRACE_TOK_MAX && floor(number) >= number))
		return trace_bad(r, "%s: want a whole number from 1 to %d, got %.15g", what, TRACE_TOK_MAX,
		                 number);
	*out = (uint64_t)number;
	return 0;
}

/* Room for `more` elements of `size` bytes. */
static int grow(struct trace_reader *r, void *list, size_t n, size_t more, size_t *cap, size_t size)
{
	void **p = list;

	if (n + more <= *cap)
		return 0;
	size_t want = *cap ? *cap * 2 : 1024;
	while (want < n + more)
		want *= 2;
	void *bigger = realloc(*p, want * size);
	if (!bigger)
		return err_set(r->err, ERR_ENV, "%s: no memory for the trace", r->name);
	*p = bigger;
	*cap = want;
	return 0;
}

int trace_add_row(struct trace_reader *r, int64_t at_ns, uint64_t prompt_tok, uint64_t output_tok)
{
	struct trace *t = &r->t;

	if (t->n == TRACE_ROWS_MAX)
		return trace_bad(r, "more than %d rows", TRACE_ROWS_MAX);
	if (t->n == 0)
		r->first_ns = at_ns;
	int64_t after = at_ns - r->first_ns;
	if (after < -SPAN_NS || after > SPAN_NS)
		return trace_bad(r, "lies more than %d days from the first row", TRACE_DAYS_MAX);
	if (grow(r, &t->rows, t->n, 1, &r->rows_cap, sizeof(*t->rows)))
		return -1;
	/* never below 0 while the earliest row is not known */
	t->rows[t->n++] = (struct trace_row){ .at_ns = (uint64_t)(after + SPAN_NS),
		                              .prompt_tok = prompt_tok,
		                              .output_tok = output_tok,
		                              .hash_at = t->n_hashes };
	return 0;
}

static void merge(struct trace_row *out, const struct trace_row *a, size_t n_a, const struct trace_row *b,
                  size_t n_b)
{
	while (n_a || n_b) {
		bool from_a = n_a && (!n_b || a->at_ns <= b->at_ns);
		*out++ = from_a ? *a++ : *b++;
		n_a -= from_a;
		n_b -= !from_a;
	}
}

/* Merge sort from below: rows of equal time keep their order. */
static int sort_rows(struct trace_reader *r)
{
	struct trace *t = &r->t;
	struct trace_row *from = t->rows, *to = calloc(t->n, sizeof(*to));

	if (!to)
		return err_set(r->err, ERR_ENV, "%s: no memory for the trace", r->name);
	for (size_t width = 1; width < t->n; width *= 2) {
		for (size_t i = 0; i < t->n; i += 2 * width) {
			size_t left = t->n - i, n_a = left < width ? left : width;
			size_t n_b = left - n_a < width ? left - n_a : width;
			merge(to + i, from + i, n_a, from + i + n_a, n_b);
		}
		struct trace_row *swap = from;
		from = to;
		to = swap;
	}
	t->rows = from;
	free(to);
	return 0;
}

static int finish(struct trace_reader *r)
{
	struct trace *t = &r->t;

	if (t->n == 0)
		return trace_bad(r, "the trace has no row");
	for (size_t i = 1; i < t->n; i++)
		t->sorted_by_us |= t->rows[i].at_ns < t->rows[i - 1].at_ns;
	if (t->sorted_by_us && sort_rows(r))
		return -1;
	uint64_t first = t->rows[0].at_ns;
	for (size_t i = 0; i < t->n; i++)
		t->rows[i].at_ns -= first;
	return 0;
}

// --- JSON lines ----------------------------------------------------------------------------------------

static int read_hashes(struct trace_reader *r, const struct cJSON *array, uint64_t prompt_tok)
{
	size_t n = 0, most = (size_t)((prompt_tok + TRACE_BLOCK_TOK - 1) / TRACE_BLOCK_TOK);
	struct trace *t = &r->t;
	const struct cJSON *e;

	if (!array || cJSON_IsNull(array))
		return 0;
	if (!cJSON_IsArray(array))
		return trace_bad(r, "hash_ids: want a list of whole numbers");
	if (grow(r, &t->hashes, t->n_hashes, most, &r->hashes_cap, sizeof(*t->hashes)))
		return -1;
	cJSON_ArrayForEach(e, array)
	{
		double v = e->valuedouble;
		if (!cJSON_IsNumber(e) || !(v >= 0 && v <= 9007199254740991.0 && floor(v) >= v))
			return trace_bad(r, "hash_ids: want whole numbers from 0 to 9007199254740991");
		if (n++ == most)
			return trace_bad(r, "hash_ids: more than one for each %d of %llu prompt tokens",
			                 TRACE_BLOCK_TOK, (unsigned long long)prompt_tok);
		if (t->n_hashes == TRACE_HASHES_MAX)
			return trace_bad(r, "more than %d hash_ids in the trace", TRACE_HASHES_MAX);
		t->hashes[t->n_hashes++] = (uint64_t)v;
	}
	t->rows[t->n - 1].n_hash = n;
	return 0;
}

static int member(struct trace_reader *r, const struct cJSON *o, const char *key, double *out)
{
	const struct cJSON *v = json_get(o, key);

	if (!v)
		return trace_bad(r, "key '%s' is missing", key);
	if (!cJSON_IsNumber(v))
		return trace_bad(r, "%s: want a number", key);
	*out = v->valuedouble;
	return 0;
}

static int read_object(struct trace_reader *r, const struct cJSON *o)
{
	const char *time = json_get(o, "timestamp_ms") ? "timestamp_ms" : "timestamp";
	double ms, in, out;
	int64_t at_ns;
	uint64_t prompt_tok = 0, output_tok = 0;

	if (!cJSON_IsObject(o))
		return trace_bad(r, "want a JSON object");
	if (member(r, o, time, &ms) || member(r, o, "input_length", &in) ||
	    member(r, o, "output_length", &out))
		return -1;
	if (!trace_ns_of(ms, 1000000, &at_ns))
		return trace_bad(r, "%s: want ms from 0 to 10^13, got %.15g", time, ms);
	if (trace_tok_of(r, "input_length", in, &prompt_tok) ||
	    trace_tok_of(r, "output_length", out, &output_tok) ||
	    trace_add_row(r, at_ns, prompt_tok, output_tok))
		return -1;
	return read_hashes(r, json_get(o, "hash_ids"), prompt_tok);
}

static bool is_blank(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
			return false;
	return true;
}

static int read_json_line(struct trace_reader *r, const char *line, size_t len)
{
	auto_json doc = NULL;
	struct err why = { 0 };

	if (len > LINE_BYTES_MAX)
		return trace_bad(r, "a line of more than %u bytes", LINE_BYTES_MAX);
	if (json_parse(&doc, line, len, "", JSON_STRICT, NULL, &why)) {
		const char *column = strstr(why.msg, "column "); /* the line that it tells is always 1 */
		return trace_bad(r, "%s", column ? column : why.msg);
	}
	return read_object(r, doc);
}

static int read_json_lines(struct trace_reader *r)
{
	while (r->at < r->len) {
		const char *line = r->text + r->at, *end = memchr(line, '\n', r->len - r->at);
		size_t len = end ? (size_t)(end - line) : r->len - r->at;
		r->line++;
		r->at += len + (end != NULL);
		if (!is_blank(line, len) && read_json_line(r, line, len))
			return -1;
	}
	return 0;
}

// --- whole ---------------------------------------------------------------------------------------------

static bool is_json(const struct trace_reader *r)
{
	size_t at = r->at;

	while (at < r->len && memchr(" \t\r\n", r->text[at], 4))
		at++;
	return at < r->len && r->text[at] == '{';
}

int trace_parse(struct trace *out, const char *text, size_t len, const char *name, struct err *err)
{
	struct trace_reader r = { .text = text, .len = len, .name = name, .err = err };

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		r.at = 3;
	int rc = is_json(&r) ? read_json_lines(&r) : trace_read_csv(&r);
	if (rc == 0)
		rc = finish(&r);
	if (rc) {
		trace_done(&r.t);
		return -1;
	}
	*out = r.t;
	return 0;
}

void trace_done(struct trace *t)
{
	free(t->rows);
	free(t->hashes);
	*t = (struct trace){ 0 };
}
