// SPDX-License-Identifier: Apache-2.0
#include "model/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct record example(void)
{
	struct record r;
	record_init(&r);
	strcpy(r.cell, "chat/32in/16out/c1");
	r.i = 7;
	r.kind = REC_LOAD;
	r.start = 1;
	r.k = 3;
	r.part = 1;
	r.attempts = 2;
	r.first_sent_ns = 110;
	r.due_ns = 100;
	r.sent_ns = 120;
	r.first_byte_ns = 900;
	r.first_token_ns = 950;
	r.first_content_ns = 950;
	r.last_token_ns = 9000;
	r.end_ns = 9100;
	r.http = 200;
	r.outcome = OUTCOME_OK;
	strcpy(r.finish, "length");
	r.prompt_tok = 32;
	r.want_output_tok = 16;
	r.usage_prompt_tok = 32;
	r.usage_output_tok = 16;
	r.tok_n = 16;
	r.tok_off = 1u << 20;
	r.tok_bytes = 33;
	r.bytes = 4096;
	r.reads = 16;
	r.max_events_per_read = 1;
	r.text_chars = 60;
	r.max_same_run = 2;
	return r;
}

static const char example_line[] =
	"{\"i\":7,\"k\":3,\"cell\":\"chat/32in/16out/"
	"c1\",\"kind\":\"load\",\"start\":1,\"slot\":0,\"conv\":null,\"turn\":null,\"part\":1,\"attempts\":2,"
	"\"first_sent_ns\":110,\"due_ns\":100,\"sent_ns\":120,"
	"\"conn_ns\":null,\"first_byte_ns\":900,\"first_token_ns\":950,\"first_content_ns\":950,"
	"\"last_token_ns\":9000,\"end_ns\":9100,\"http\":200,\"outcome\":\"ok\",\"finish\":\"length\","
	"\"prompt_tok\":32,\"want_output_tok\":16,\"usage_prompt_tok\":32,\"usage_output_tok\":16,"
	"\"usage_cached_tok\":null,\"usage_reasoning_tok\":null,\"tok_n\":16,\"tok_off\":1048576,\"tok_"
	"bytes\":33,"
	"\"bytes\":4096,\"reads\":16,\"max_events_per_read\":1,\"text_chars\":60,\"bad_chars\":0,\"max_same_"
	"run\":2,"
	"\"warnings\":0,\"detail\":null}";

static int read_line(struct record *r, const char *line, size_t len, struct err *err)
{
	return record_read(r, line, len, "requests.jsonl", 3, err);
}

static void assert_same(const struct record *a, const struct record *b)
{
	auto_buf x = BUF_INIT(16384), y = BUF_INIT(16384);
	record_write(&x, a);
	record_write(&y, b);
	assert_string_equal(x.p, y.p);
	assert_int_equal(a->outcome, b->outcome);
	assert_string_equal(a->detail, b->detail);
	assert_string_equal(a->cell, b->cell);
}

static void a_line_is_written_in_one_form(void **state)
{
	auto_buf b = BUF_INIT(16384);
	struct record r = example();
	record_write(&b, &r);
	assert_int_equal(b.len, sizeof example_line);
	assert_memory_equal(b.p, example_line, sizeof example_line - 1);
	assert_int_equal(b.p[b.len - 1], '\n');
}

static void unknown_is_null_never_zero(void **state)
{
	auto_buf b = BUF_INIT(16384);
	struct record r;
	record_init(&r);
	record_write(&b, &r);
	assert_non_null(strstr(b.p, "\"first_token_ns\":null"));
	assert_non_null(strstr(b.p, "\"usage_output_tok\":null"));
	assert_non_null(strstr(b.p, "\"http\":null"));
	assert_non_null(strstr(b.p, "\"finish\":null"));
}

static void reading_inverts_writing(void **state)
{
	static const char *const texts[] = { "", "a", "quote \" back \\ line\nbell\x07 del\x7f",
		                             "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" };
	for (size_t i = 0; i < 4; i++) {
		for (int k = 0; k < N_OUTCOMES; k++) {
			struct record r = example(), back;
			struct err err;
			strcpy(r.detail, texts[i]);
			r.outcome = (enum outcome)k;
			r.kind = (enum rec_kind)(k % 4);
			r.end_ns = (UINT64_C(1) << 53) - 1;
			r.http = k ? 503 : 0;
			auto_buf b = BUF_INIT(16384);
			record_write(&b, &r);
			assert_int_equal(read_line(&back, b.p, b.len - 1, &err), 0);
			assert_same(&r, &back);
		}
	}
}

static void the_longest_texts_come_back(void **state)
{
	struct record r = example(), back;
	struct err err;
	memset(r.detail, '\x01', sizeof r.detail - 1);
	r.detail[sizeof r.detail - 1] = 0;
	memset(r.cell, 'c', sizeof r.cell - 1);
	memset(r.finish, 'f', sizeof r.finish - 1);
	auto_buf b = BUF_INIT(16384);
	record_write(&b, &r);
	assert_int_equal(read_line(&back, b.p, b.len - 1, &err), 0);
	assert_same(&r, &back);
}

static void refuses(const char *from, const char *to)
{
	char line[4096];
	const char *at = strstr(example_line, from);
	assert_non_null(at);
	size_t before = (size_t)(at - example_line);
	memcpy(line, example_line, before);
	strcpy(line + before, to);
	strcat(line, at + strlen(from));
	struct record r = example(), untouched = r;
	struct err err = { 0 };
	if (read_line(&r, line, strlen(line), &err) == 0)
		fail_msg("read %s", line);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_non_null(strstr(err.msg, "requests.jsonl:3: "));
	assert_memory_equal(&r, &untouched, sizeof r);
}

static void refuses_anything_that_writing_would_not_give(void **state)
{
	refuses("{\"i\":7", "{ \"i\":7");
	refuses("\"i\":7", "\"i\":07");
	refuses("\"i\":7", "\"i\":-7");
	refuses("\"i\":7", "\"i\":7.0");
	refuses("\"i\":7", "\"i\":null");
	refuses("\"i\":7", "\"i\":18446744073709551616");
	refuses("\"due_ns\":100", "\"due_ns\":18446744073709551615");
	refuses("\"due_ns\":100", "\"due_ns\":9007199254740992");
	refuses("\"i\":7,", "");
	refuses("\"i\":7,", "\"i\":7,\"i\":7,");
	refuses("\"load\"", "\"Load\"");
	refuses("\"ok\"", "\"fine\"");
	refuses("\"ok\"", "null");
	refuses("\"length\"", "\"\"");
	refuses("\"length\"", "\"l\\u0065ngth\"");
	refuses("\"length\"", "\"length\\u0000\"");
	refuses("\"length\"", "\"len\xff\"");
	refuses("\"length\"", "\"a finish reason longer than its field\"");
	refuses("\"http\":200", "\"http\":0");
	refuses("\"http\":200", "\"http\":1000");
	refuses("null}", "null}}");
	refuses("null}", "null} ");
	refuses("\"detail\":null}", "\"detail\":null,\"more\":1}");
}

static void refuses_every_cut_line(void **state)
{
	for (size_t n = 0; n + 1 < sizeof example_line; n++) {
		struct record r;
		struct err err;
		assert_int_equal(read_line(&r, example_line, n, &err), -1);
	}
}

static void leb128_inverts_itself(void **state)
{
	static const uint64_t values[] = { 0,     1,     127,        128,        300,
		                           16383, 16384, UINT32_MAX, 1ull << 56, UINT64_MAX };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		uint8_t bytes[10];
		uint64_t back;
		size_t n = leb128_put(bytes, values[i]);
		assert_int_equal(leb128_get(bytes, n, &back), n);
		assert_true(back == values[i]);
		assert_int_equal(leb128_get(bytes, n - 1, &back), 0);
	}
}

static void leb128_refuses_over_64_bit_and_longer_forms(void **state)
{
	uint64_t v = 5;
	const uint8_t over[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02 };
	const uint8_t endless[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0 };
	const uint8_t padded[] = { 0x81, 0x00 };
	assert_int_equal(leb128_get(over, sizeof over, &v), 0);
	assert_int_equal(leb128_get(endless, sizeof endless, &v), 0);
	assert_int_equal(leb128_get(padded, sizeof padded, &v), 0);
	assert_int_equal(leb128_get(padded, 0, &v), 0);
	assert_int_equal(v, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_written_in_one_form),
		cmocka_unit_test(unknown_is_null_never_zero),
		cmocka_unit_test(reading_inverts_writing),
		cmocka_unit_test(the_longest_texts_come_back),
		cmocka_unit_test(refuses_anything_that_writing_would_not_give),
		cmocka_unit_test(refuses_every_cut_line),
		cmocka_unit_test(leb128_inverts_itself),
		cmocka_unit_test(leb128_refuses_over_64_bit_and_longer_forms),
	};
	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
