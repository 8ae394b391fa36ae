// SPDX-License-Identifier: Apache-2.0
#include "model/trace.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define J(t, in, out) "{\"timestamp\": " t ", \"input_length\": " in ", \"output_length\": " out "}"
#define HEAD "timestamp,input_length,output_length\n"

static void reads_every_form_of_the_same_three_rows(void **state)
{
	static const char *const texts[] = {
		J("27482", "6955", "52") "\n" J("27482.5", "100", "1") "\n" J("30535", "6472", "26") "\n",
		"\xef\xbb\xbf" J("0", "6955", "52") "\r\n\r\n" J("0.5", "100", "1") "\n" J("3053", "6472",
		                                                                           "26"),
		"{\"timestamp_ms\":5,\"timestamp\":\"x\",\"input_length\":6955,\"output_length\":52,\"hash_"
		"ids\":null}\n"
		"{\"timestamp_ms\":5.5,\"input_length\":100,\"output_length\":1,\"chat_id\":7}\n"
		"{\"timestamp_ms\":3058,\"input_length\":6472,\"output_length\":26}\n",
		HEAD "10,6955,52\n10.0005,100,1\n13.053,6472,26\n",
		HEAD "1e1,6955,52\r\n10.0005,100.0,1\r\n\r\n13.053,6472,26",
		"\xef\xbb\xbf"
		"TIMESTAMP,ContextTokens,GeneratedTokens\n"
		"2023-11-16 18:15:46.6805900,6955,52\n2023-11-16 18:15:46.6810900,100,1\n"
		"2023-11-16 18:15:49.7335900,6472,26\n",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n"
		"2024-02-29T23:59:59.5+00:00,6955,52\n2024-03-01T01:59:59.5005+02:00,100,1\n"
		"2024-03-01T00:00:02.553Z,6472,26\n",
		"Model,timestamp_ms,num_prefill_tokens,num_decode_tokens\n"
		"\"a, \"\"b\"\"\nc\",10,6955,52\n\"\",\"10.5\",100,1\nx,3063,6472,26\n",
		"Timestamp,Model,Request tokens,Response tokens\n5,m, 6955 "
		",52\n5.0005,m,100,1\n8.053,m,6472,26\n",
		"arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,6955,52\n0.0005,100,1\n3.053,6472,26\n",
	};
	static const struct trace_row want[] = { { 0, 6955, 52, 0, 0 },
		                                 { 500000, 100, 1, 0, 0 },
		                                 { 3053000000, 6472, 26, 0, 0 } };
	for (size_t i = 0; i < LEN(texts); i++) {
		auto_trace t = { 0 };
		struct err err = { 0 };
		if (trace_parse(&t, texts[i], strlen(texts[i]), "t", &err))
			fail_msg("text %zu: %s", i, err.msg);
		assert_int_equal(t.n, 3);
		assert_false(t.sorted_by_us);
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(t.rows[k].at_ns, want[k].at_ns);
			assert_int_equal(t.rows[k].prompt_tok, want[k].prompt_tok);
			assert_int_equal(t.rows[k].output_tok, want[k].output_tok);
		}
	}
}

static void keeps_the_hashes_of_each_row(void **state)
{
	static const char text[] =
		"{\"timestamp\":0,\"input_length\":1025,\"output_length\":5,\"hash_ids\":[46,47,2353]}\n"
		"{\"timestamp\":1,\"input_length\":1,\"output_length\":5,\"hash_ids\":[]}\n"
		"{\"timestamp\":2,\"input_length\":600,\"output_length\":5,\"hash_ids\":[46,9007199254740991]"
		"}\n";
	auto_trace t = { 0 };
	struct err err = { 0 };
	assert_int_equal(trace_parse(&t, text, strlen(text), "t", &err), 0);
	assert_int_equal(t.n_hashes, 5);
	assert_int_equal(t.rows[0].n_hash, 3);
	assert_int_equal(t.rows[1].n_hash, 0);
	assert_int_equal(t.rows[2].hash_at, 3);
	assert_int_equal(t.hashes[t.rows[2].hash_at + 1], 9007199254740991);
}

static void sorts_by_time_and_says_so(void **state)
{
	auto_buf b = BUF_INIT(1u << 20);
	auto_trace t = { 0 };
	struct err err = { 0 };
	buf_adds(&b, HEAD);
	for (int i = 0; i < 1000; i++) /* each time three times, not in order */
		buf_addf(&b, "%d,%d,1\n", (i * 7 % 1000) / 3, i + 1);
	assert_int_equal(trace_parse(&t, b.p, b.len, "t", &err), 0);
	assert_true(t.sorted_by_us);
	assert_int_equal(t.n, 1000);
	for (size_t i = 1; i < t.n; i++) {
		assert_true(t.rows[i].at_ns >= t.rows[i - 1].at_ns);
		if (t.rows[i].at_ns == t.rows[i - 1].at_ns)
			assert_true(t.rows[i].prompt_tok > t.rows[i - 1].prompt_tok);
	}
	assert_int_equal(t.rows[0].at_ns, 0);
}

static void every_fault_names_its_line(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "t:1: neither JSON lines nor CSV with a column for the time" },
		{ " \n\n", "t:1: neither" },
		{ "{}", "t:1: key 'timestamp' is missing" },
		{ J("1", "1", "1") "\n[1]\n", "t:2: want a JSON object" },
		{ J("1", "1", "1") "\n\n{\"timestamp\": 1,\n", "t:3: column " },
		{ J("1", "1", "1") "\n" J("1", "0", "1"), "t:2: input_length: want a whole number from 1" },
		{ J("1", "1", "1") "\n" J("1", "1", "0"), "t:2: output_length" },
		{ J("1", "10000001", "1"), "t:1: input_length" },
		{ J("1", "1.5", "1"), "got 1.5" },
		{ J("1", "\"7\"", "1"), "t:1: input_length: want a number" },
		{ J("-1", "1", "1"), "t:1: timestamp: want ms" },
		{ J("1e300", "1", "1"), "t:1: timestamp: want ms" },
		{ J("0", "1", "1") "\n" J("4e10", "1", "1"), "t:2: lies more than 366 days" },
		{ "{\"timestamp\":0,\"input_length\":512,\"output_length\":5,\"hash_ids\":[1,2]}",
		  "more than one" },
		{ "{\"timestamp\":0,\"input_length\":512,\"output_length\":5,\"hash_ids\":[-1]}",
		  "whole numbers" },
		{ "{\"timestamp\":0,\"input_length\":512,\"output_length\":5,\"hash_ids\":7}",
		  "want a list" },
		{ "timestamp,input_length\n1,2\n",
		  "t:1: neither JSON lines nor CSV with a column for the answer" },
		{ "timestamp,input_length,ContextTokens,output_length\n",
		  "t:1: a second column for the prompt" },
		{ HEAD, "t:2: the trace has no row" },
		{ HEAD "1,2,3\n1,2\n", "t:3: 2 fields, the header has 3" },
		{ HEAD "1,2,3\n1,2,3,4\n", "t:3: 4 fields" },
		{ HEAD "1,0,3\n", "t:2: prompt: want a whole number from 1" },
		{ HEAD "1,3,-3\n", "t:2: answer: want" },
		{ HEAD "1,x,3\n", "t:2: prompt: want a whole number, got \"x\"" },
		{ HEAD "1,,3\n", "got \"\"" },
		{ HEAD "nan,3,3\n", "t:2: time" },
		{ HEAD "-5,3,3\n", "t:2: time" },
		{ HEAD "1,2,3\n2023-11-16 18:15:46,2,3\n", "t:3: time: want seconds" },
		{ HEAD "2023-11-16 18:15:46,2,3\n5,2,3\n", "t:3: time: want a number or" },
		{ HEAD "2023-13-16 18:15:46,2,3\n", "t:2: time" },
		{ HEAD "2023-11-16 18:15:46.5 x,2,3\n", "t:2: time" },
		{ HEAD "\"1,2,3\n", "t:2: a quoted field that does not end" },
		{ HEAD "\"1\"x,2,3\n", "t:2: text behind a quoted field" },
		{ "timestamp,note,input_length,output_length\n1,\"a\nb\",2,3\n1,x,0,3\n", "t:4: prompt" },
	};
	for (size_t i = 0; i < LEN(rows); i++) {
		struct trace t = { .n = 99 };
		struct err err = { 0 };
		assert_int_equal(trace_parse(&t, rows[i].text, strlen(rows[i].text), "t", &err), -1);
		assert_int_equal(err.cls, ERR_PLAN);
		if (!strstr(err.msg, rows[i].says))
			fail_msg("row %zu: \"%s\", want \"%s\"", i, err.msg, rows[i].says);
		assert_int_equal(t.n, 99);
	}
}

static void refuses_a_row_too_many(void **state)
{
	auto_buf b = BUF_INIT(64u << 20);
	struct trace t = { 0 };
	struct err err = { 0 };
	buf_adds(&b, HEAD);
	for (int i = 0; i <= TRACE_ROWS_MAX; i++)
		buf_add(&b, "1,2,3\n", 6);
	assert_false(b.failed);
	assert_int_equal(trace_parse(&t, b.p, b.len, "t", &err), -1);
	assert_non_null(strstr(err.msg, "t:5000002: more than 5000000 rows"));
	assert_int_equal(trace_parse(&t, b.p, b.len - 6, "t", &err), 0);
	assert_int_equal(t.n, TRACE_ROWS_MAX);
	trace_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_form_of_the_same_three_rows),
		cmocka_unit_test(keeps_the_hashes_of_each_row),
		cmocka_unit_test(sorts_by_time_and_says_so),
		cmocka_unit_test(every_fault_names_its_line),
		cmocka_unit_test(refuses_a_row_too_many),
	};
	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
