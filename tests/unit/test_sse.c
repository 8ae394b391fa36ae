/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "load/sse.h"

#include <stdlib.h>
#include <string.h>

#define BOM "\xEF\xBB\xBF"

struct sse_case {
	const char *rule;
	const char *in;
	size_t len;
	const char *want; /* events, each as [type|data]; E: in front for the error field */
	uint64_t comments, empty;
	const char *id;
	bool inside;
};

#define IN(text) text, sizeof(text) - 1

static const struct sse_case cases[] = {
	{ "lf", IN("data: a\n\n"), "[|a]", 0, 0, "", false },
	{ "crlf", IN("data: a\r\n\r\n"), "[|a]", 0, 0, "", false },
	{ "cr", IN("data: a\r\rdata: b\r\r"), "[|a][|b]", 0, 0, "", false },
	{ "mixed_ends", IN("data: a\n\r\ndata: b\r\n\ndata: c\r\r"), "[|a][|b][|c]", 0, 0, "", false },
	{ "crlf_between_data_lines_is_one_end", IN("data: A\r\ndata: B\r\n\r\n"), "[|A\nB]", 0, 0, "",
	  false },
	{ "no_space_after_colon", IN("data:a\n\n"), "[|a]", 0, 0, "", false },
	{ "one_space_only_is_taken_off", IN("data:  a \n\n"), "[| a ]", 0, 0, "", false },
	{ "bare_data_line_is_an_empty_event", IN("data\n\ndata:\n\n"), "", 0, 2, "", false },
	{ "two_empty_data_lines_are_a_newline", IN("data\ndata\n\n"), "[|\n]", 0, 0, "", false },
	{ "comments_are_counted", IN(":\n\n: x\n:y\r\ndata: a\n: in between\n\n"), "[|a]", 4, 0, "", false },
	{ "event_names_the_event_once", IN("event: e\ndata: a\n\ndata: b\n\n"), "[e|a][|b]", 0, 0, "",
	  false },
	{ "event_without_data_is_none_and_forgotten", IN("event: ping\n\ndata: a\n\n"), "[|a]", 0, 0, "",
	  false },
	{ "id_is_kept", IN("id: 17\ndata: a\n\nid: 18\n\n"), "[|a]", 0, 0, "18", false },
	{ "id_with_nul_is_ignored", IN("id: 1\n\nid: 2\0003\n\n"), "", 0, 0, "1", false },
	{ "id_of_a_cut_event_is_ignored", IN("id: 1\n\nid: 2\n"), "", 0, 0, "1", false },
	{ "unknown_field_is_ignored", IN("foo: x\ndatax: y\ndata: a\n\n"), "[|a]", 0, 0, "", false },
	{ "field_names_are_case_sensitive", IN("Data: x\n\n"), "", 0, 0, "", false },
	{ "error_field_is_kept", IN("error: {\"code\":1}\n\n"), "E:[|{\"code\":1}]", 0, 0, "", false },
	{ "bom_is_taken_off_once", IN(BOM "data: a\n\n" BOM "data: b\n\n"), "[|a]", 0, 0, "", false },
	{ "half_a_bom_belongs_to_the_line",
	  IN("\xEF\xBB"
	     "data: a\n\ndata: b\n\n"),
	  "[|b]", 0, 0, "", false },
	{ "unicode_line_ends_are_none",
	  IN("data: a\xC2\x85"
	     "b\xE2\x80\xA8"
	     "c\n\n"),
	  "[|a\xC2\x85"
	  "b\xE2\x80\xA8"
	  "c]",
	  0, 0, "", false },
	{ "nul_and_any_byte_pass", IN("data: a\000b\xFF\n\n"), "[|a\\0b\xFF]", 0, 0, "", false },
	{ "no_blank_line_no_event", IN("data: a\n"), "", 0, 0, "", true },
	{ "line_begun_is_inside", IN("data: a\n\nda"), "[|a]", 0, 0, "", true },
	{ "comment_begun_is_not_inside", IN("data: a\n\n: pi"), "[|a]", 0, 0, "", false },
	{ "blank_lines_alone_are_nothing", IN("\n\n\r\n\r\r\n"), "", 0, 0, "", false },
	{ "empty_stream", IN(""), "", 0, 0, "", false },
	{ "retry_is_no_event", IN("retry: 3000\n\n"), "", 0, 0, "", false },
};

static void collect(struct sse *s, struct buf *got)
{
	struct sse_event ev;
	while (sse_next(s, &ev) == SSE_EVENT) {
		buf_addf(got, "%s[%s|", ev.error_field ? "E:" : "", ev.type);
		for (size_t i = 0; i < ev.len; i++) {
			if (ev.data[i])
				buf_addc(got, ev.data[i]);
			else
				buf_adds(got, "\\0");
		}
		buf_addc(got, ']');
	}
}

/* Feeds pieces of `step` bytes, each in memory of its own. */
static void feed_in_steps(struct sse *s, const char *in, size_t len, size_t step, struct buf *got)
{
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;
		char *piece = malloc(n);
		assert_non_null(piece);
		memcpy(piece, in + at, n);
		sse_feed(s, piece, n);
		collect(s, got);
		free(piece);
	}
}

static void every_case_in_every_cut(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct sse_case *c = &cases[i];
		for (size_t step = 1; step <= c->len + 1; step++) {
			struct sse s;
			auto_buf got = BUF_INIT(10000);
			buf_adds(&got, "");
			sse_init(&s, 1000);
			feed_in_steps(&s, c->in, c->len, step, &got);
			if (strcmp(got.p, c->want) != 0)
				fail_msg("%s, step %zu: got %s, want %s", c->rule, step, got.p, c->want);
			if (s.n_comments != c->comments || s.n_empty_events != c->empty ||
			    strcmp(s.last_id, c->id) != 0 || sse_inside_event(&s) != c->inside)
				fail_msg("%s, step %zu: comments %d empty %d id '%s' inside %d", c->rule,
				         step, (int)s.n_comments, (int)s.n_empty_events, s.last_id,
				         sse_inside_event(&s));
			sse_done(&s);
		}
	}
}

static void every_pair_of_cuts_gives_the_same(void **state)
{
	static const char in[] =
		BOM ": c\r\ndata: one\r\ndata: two\r\n\r\nid: 7\rdata: x\r\revent: e\ndata:y\n\n";
	static const char want[] = "[|one\ntwo][|x][e|y]";
	size_t len = sizeof in - 1;
	for (size_t a = 0; a <= len; a++) {
		for (size_t b = a; b <= len; b++) {
			struct sse s;
			auto_buf got = BUF_INIT(10000);
			sse_init(&s, 1000);
			sse_feed(&s, in, a);
			collect(&s, &got);
			sse_feed(&s, in + a, b - a);
			collect(&s, &got);
			sse_feed(&s, in + b, len - b);
			collect(&s, &got);
			assert_string_equal(got.p, want);
			assert_string_equal(s.last_id, "7");
			assert_true(s.had_bom);
			sse_done(&s);
		}
	}
}

static void cr_cr_gives_the_event_without_the_next_byte(void **state)
{
	struct sse s;
	struct sse_event ev;
	sse_init(&s, 1000);
	sse_feed(&s, "data: one\r", 10);
	assert_int_equal(sse_next(&s, &ev), SSE_MORE);
	sse_feed(&s, "\r", 1);
	assert_int_equal(sse_next(&s, &ev), SSE_EVENT);
	assert_memory_equal(ev.data, "one", 3);
	assert_int_equal(sse_next(&s, &ev), SSE_MORE);
	sse_feed(&s, "\n", 1); /* belongs to the CR before it */
	assert_int_equal(sse_next(&s, &ev), SSE_MORE);
	assert_int_equal(s.n_empty_events, 0);
	sse_done(&s);
}

static void event_in_one_read_is_not_copied(void **state)
{
	static const char in[] = "data: {\"a\":1}\n\n";
	struct sse s;
	struct sse_event ev;
	sse_init(&s, 1000);
	sse_feed(&s, in, sizeof in - 1);
	assert_int_equal(sse_next(&s, &ev), SSE_EVENT);
	assert_ptr_equal(ev.data, in + 6);
	assert_int_equal(s.acc.cap, 0);
	assert_int_equal(s.line.cap, 0);
	sse_done(&s);
}

static enum sse_step feed_long(size_t max, const char *head, size_t n_fill, size_t step, const char *tail)
{
	struct sse s;
	struct sse_event ev;
	enum sse_step got = SSE_MORE;
	char *fill = malloc(step);
	assert_non_null(fill);
	memset(fill, 'x', step);
	sse_init(&s, max);
	sse_feed(&s, head, strlen(head));
	got = sse_next(&s, &ev);
	for (size_t at = 0; at < n_fill && got == SSE_MORE; at += step) {
		sse_feed(&s, fill, step);
		got = sse_next(&s, &ev);
	}
	if (got == SSE_MORE) {
		sse_feed(&s, tail, strlen(tail));
		got = sse_next(&s, &ev);
	}
	assert_true(s.line.cap <= 2 * max + 64 && s.acc.cap <= 2 * max + 64);
	sse_done(&s);
	free(fill);
	return got;
}

static void lines_and_events_are_bounded(void **state)
{
	assert_int_equal(feed_long(4096, "data: ", 4000, 100, "\n\n"), SSE_EVENT);
	assert_int_equal(feed_long(4096, "data: ", 1 << 20, 100, "\n\n"), SSE_LONG);
	assert_int_equal(feed_long(4096, ": ", 1 << 20, 100, "\n\n"), SSE_LONG);
	assert_int_equal(feed_long(4096, "data: a\ndata: ", 5000, 100, "\n\n"), SSE_LONG);
}

static void an_event_of_many_lines_is_bounded(void **state)
{
	struct sse s;
	struct sse_event ev;
	enum sse_step got = SSE_MORE;
	sse_init(&s, 4096);
	for (int i = 0; i < 5000 && got == SSE_MORE; i++) {
		sse_feed(&s, "data: ab\n", 9);
		got = sse_next(&s, &ev);
	}
	assert_int_equal(got, SSE_LONG);
	assert_int_equal(sse_next(&s, &ev), SSE_LONG);
	sse_reset(&s);
	sse_feed(&s, "data: a\n\n", 9);
	assert_int_equal(sse_next(&s, &ev), SSE_EVENT);
	sse_done(&s);
}

static void retry_takes_digits_only(void **state)
{
	static const struct {
		const char *in;
		uint64_t want;
	} t[] = { { "retry: 3000\n\n", 3000 },
		  { "retry: 3s\n\n", UINT64_MAX },
		  { "retry:\n\n", UINT64_MAX },
		  { "retry: -1\n\n", UINT64_MAX },
		  { "retry: 99999999999999999999\n\n", UINT64_MAX } };
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct sse s;
		struct sse_event ev;
		sse_init(&s, 1000);
		sse_feed(&s, t[i].in, strlen(t[i].in));
		assert_int_equal(sse_next(&s, &ev), SSE_MORE);
		assert_true(s.retry_ms == t[i].want);
		sse_done(&s);
	}
}

static void a_million_tiny_events_in_one_read(void **state)
{
	enum { N = 1000000, UNIT = 8 };
	char *in = malloc((size_t)N * UNIT);
	struct sse s;
	struct sse_event ev;
	size_t n = 0;
	assert_non_null(in);
	for (size_t i = 0; i < N; i++)
		memcpy(in + i * UNIT, i & 1 ? "data:x\n\n" : "data:x\r\r", UNIT);
	sse_init(&s, 1000);
	sse_feed(&s, in, (size_t)N * UNIT);
	while (sse_next(&s, &ev) == SSE_EVENT)
		n++;
	assert_int_equal(n, N);
	sse_done(&s);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case_in_every_cut),
		cmocka_unit_test(every_pair_of_cuts_gives_the_same),
		cmocka_unit_test(cr_cr_gives_the_event_without_the_next_byte),
		cmocka_unit_test(event_in_one_read_is_not_copied),
		cmocka_unit_test(lines_and_events_are_bounded),
		cmocka_unit_test(an_event_of_many_lines_is_bounded),
		cmocka_unit_test(retry_takes_digits_only),
		cmocka_unit_test(a_million_tiny_events_in_one_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
