/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/json_in.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(struct cJSON **out, const char *text, size_t len, enum json_mode mode, struct problems *p,
                 struct err *err)
{
	auto_free char *exact = malloc(len + 1); /* no NUL behind it: reading past the end shows */
	assert_non_null(exact);
	memcpy(exact, text, len);
	exact[len] = 'x';
	return json_parse(out, exact, len, "t.json", mode, p, err);
}

struct refused {
	const char *text;
	size_t len; /* 0 = strlen */
	const char *says;
};

static const struct refused refused_texts[] = {
	{ "{\"a\": NaN}", 0, "line 1, column 7: want a value, found 'NaN' (JSON has neither NaN" },
	{ "{\"a\":-Infinity}", 0, "'-Infinity' (JSON has neither" },
	{ "[1,\n 2,\n]", 0, "line 2, column 3: trailing comma before ']'" },
	{ "{\"a\":1,}", 0, "trailing comma before '}'" },
	{ "{'a':1}", 0, "double quotes" },
	{ "{\"a\":1} // x", 0, "no comments" },
	{ "[1 /* x */]", 0, "no comments" },
	{ "[01]", 0, "leading zero" },
	{ "[-01]", 0, "leading zero" },
	{ "[+1]", 0, "'+'" },
	{ "[.5]", 0, "'.'" },
	{ "[5.]", 0, "digit behind the decimal point" },
	{ "[5e]", 0, "digit in the exponent" },
	{ "[-]", 0, "want a digit, found ']'" },
	{ "[0xff]", 0, "not hexadecimal" },
	{ "[1e999]", 0, "past the range" },
	{ "[\"a\tb\"]", 0,
	  "line 1, column 4: want an escape such as \\n or \\u001f, found control byte 0x09" },
	{ "[\"a\nb\"]", 0, "0x0a" },
	{ "[\"\\x41\"]", 0, "backslash" },
	{ "[\"\\u12g4\"]", 0, "four hex digits" },
	{ "[\"\\", 0, "end of the text" },
	{ "[\"\\ud83d\"]", 0, "surrogate" },
	{ "[\"\\ude00\\ud83d\"]", 0, "surrogate" },
	{ "[\"abc", 0, "column 2: a string starts here and never ends" },
	{ "{\"a\":1} {\"b\":2}", 0, "found '{'" },
	{ "{\"a\":1}x", 0, "found 'x'" },
	{ "{\"a\":1}\0", 8, "a NUL byte" },
	{ "[\"a\0b\"]", 7, "a NUL byte" },
	{ "", 0, "empty" },
	{ " \n ", 0, "only white space" },
	{ "\xef\xbb\xbf", 0, "only white space" },
	{ "[1,2", 0, "found the end of the text" },
	{ "{\"a\"", 0, "want ':'" },
	{ "{\"a\":", 0, "want a value, found the end" },
	{ "{\"a\" 1}", 0, "want ':' behind a key, found '1'" },
	{ "{a:1}", 0, "found 'a'" },
	{ "[1}", 0, "want ',' or ']'" },
	{ "{\"a\":1]", 0, "want ',' or '}'" },
	{ "[,1]", 0, "found ','" },
	{ "[1,,2]", 0, "found ','" },
	{ "[True]", 0, "lower case" },
	{ "[None]", 0, "unknown is null" },
	{ "[truex]", 0, "found 'x'" },
	{ "[nul]", 0, "found 'nul'" },
	{ "[\xc2\xa0"
	  "1]",
	  0, "U+00A0, a no-break space" },
	{ "[\"\xff\"]", 0, "0xff, which is not UTF-8" },
	{ "[\"\xc0\xaf\"]", 0, "not UTF-8" },
	{ "[\"\xed\xa0\x80\"]", 0, "not UTF-8" },
	{ "[\"\xf4\x90\x80\x80\"]", 0, "not UTF-8" },
	{ "[\"\xe2\x82\"]", 0, "not UTF-8" },
	{ "\xff\xfe[\0]\0", 6, "UTF-16" },
	{ "[\0001\0]\0", 6, "UTF-16" },
	{ "\0[\0001\0]", 6, "UTF-16" },
	{ "<!doctype html><p>502", 0, "HTML" },
	{ "\n<html>", 0, "HTML" },
	{ "{\"a\":1,\n<<<<<<< HEAD\n\"b\":2\n", 0, "conflict mark on line 2" },
	{ "{\"a\":1\n=======\n", 0, "conflict mark on line 2" },
	{ "{\"a\\u0000b\":1}", 0, "a key holds \\u0000" },
	{ "[\"\xf0\x9f\x9a\x80\",x]", 0, "column 6" }, /* columns count characters */
	{ "[1,\r\n2,\r3,\n!]", 0, "line 4, column 1" },
};

static void refuses_what_is_not_json_and_says_where(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(refused_texts); i++) {
		const struct refused *r = &refused_texts[i];
		struct cJSON *tree = NULL;
		struct err err = { 0 };
		enum json_mode modes[] = { JSON_STRICT, JSON_ENGINE };
		bool lone = strstr(r->says, "surrogate") != NULL;
		for (size_t m = 0; m < (lone ? 1 : 2); m++) {
			int rc = parse(&tree, r->text, r->len ? r->len : strlen(r->text), modes[m], NULL,
			               &err);
			if (rc == 0 || !strstr(err.msg, r->says))
				print_error("%s: want \"%s\", got \"%s\"\n", r->text, r->says, err.msg);
			assert_int_equal(rc, -1);
			assert_null(tree);
			assert_int_equal(err.cls, ERR_PLAN);
			assert_non_null(strstr(err.msg, "t.json: line "));
			assert_non_null(strstr(err.msg, r->says));
		}
	}
}

static void reads_what_is_json(void **state)
{
	static const struct {
		const char *text, *printed;
	} cases[] = {
		{ "42", "42" },
		{ " \t\r\n[ ] ", "[]" },
		{ "{}", "{}" },
		{ "{\"\":1}", "{\"\":1}" },
		{ "[-0,0.5,1e2,1E-2,-1.25e+1]", "[0,0.5,100,0.01,-12.5]" },
		{ "[true,false,null,\"\"]", "[true,false,null,\"\"]" },
		{ "{\"a\":[{\"b\":[]},{}],\"c\":\"\\/\\\"\\\\\\b\\f\\n\\r\\t\"}",
		  "{\"a\":[{\"b\":[]},{}],\"c\":\"/\\\"\\\\\\b\\f\\n\\r\\t\"}" },
		{ "[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude80\\uD834\\uDD1E\"]",
		  "[\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80\xf0\x9d\x84\x9e\"]" },
		{ "{\"a\":{\"x\":1},\"b\":{\"x\":2}}", "{\"a\":{\"x\":1},\"b\":{\"x\":2}}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json tree = NULL;
		struct err err = { 0 };
		if (parse(&tree, cases[i].text, strlen(cases[i].text), JSON_STRICT, NULL, &err))
			fail_msg("%s: %s", cases[i].text, err.msg);
		auto_free char *printed = cJSON_PrintUnformatted(tree);
		if (strcmp(printed, "[-0,0.5,100,0.01,-12.5]") != 0)
			assert_string_equal(printed, cases[i].printed);
	}
}

static void keeps_a_nul_in_a_value(void **state)
{
	auto_json tree = NULL;
	struct err err = { 0 };
	static const char text[] = "{\"a\":\"x\\u0000y\",\"b\":\"xyz\"}";
	assert_int_equal(parse(&tree, text, strlen(text), JSON_STRICT, NULL, &err), 0);
	const struct cJSON *a = json_get(tree, "a");
	assert_int_equal(json_string_len(a), 3);
	assert_memory_equal(a->valuestring, "x\0y", 4);
	assert_int_equal(json_string_len(json_get(tree, "b")), 3);
	struct cJSON *made = cJSON_CreateString("four");
	assert_int_equal(json_string_len(made), 4);
	cJSON_Delete(made);
	assert_int_equal(json_string_len(NULL), 0);
}

static void refuses_a_key_given_twice_and_tells_each_path(void **state)
{
	static const char text[] = "{\"v\":1,\"l\":[{\"q\":1},{\"e/r\":0.1,\"e\\/r\":0.9}],\"v\":2,\"v\":3}";
	struct cJSON *tree = NULL;
	struct err err = { 0 };
	auto_problems p = { 0 };
	assert_int_equal(parse(&tree, text, strlen(text), JSON_STRICT, &p, &err), -1);
	assert_null(tree);
	assert_non_null(
		strstr(err.msg, "line 1, column 32: key twice after unescaping: /l/1/e~1r (and 2 more)"));
	assert_int_equal(p.n_errors, 3);
	assert_string_equal(p.list[0].pointer, "/l/1/e~1r");
	assert_string_equal(p.list[1].pointer, "/v");
	assert_string_equal(p.list[2].pointer, "/v");
	assert_null(strstr(p.list[1].text, "unescaping"));
	static const char escaped[] = "{\"model\":\"a\",\"m\\u006fdel\":\"b\"}";
	assert_int_equal(parse(&tree, escaped, strlen(escaped), JSON_STRICT, NULL, &err), -1);
	assert_non_null(strstr(err.msg, "key twice after unescaping: /model"));
}

static void takes_the_last_of_equal_keys_from_an_engine(void **state)
{
	static const char text[] =
		"{\"v\":{\"a\":[1]},\"w\":1,\"v\":{\"a\":[2]},\"v\":{\"a\":[3],\"a\":[4]}}";
	auto_json tree = NULL;
	struct err err = { 0 };
	auto_problems p = { 0 };
	assert_int_equal(parse(&tree, text, strlen(text), JSON_ENGINE, &p, &err), 0);
	auto_free char *printed = cJSON_PrintUnformatted(tree);
	assert_string_equal(printed, "{\"w\":1,\"v\":{\"a\":[4]}}");
	assert_int_equal(p.n_errors, 0);
	assert_int_equal(p.n_warnings, 3);
}

static void replaces_half_a_pair_from_an_engine(void **state)
{
	static const char text[] = "[\"a\\ud83d b\\ude00\\ud83d\\ude80\"]";
	auto_json tree = NULL;
	struct err err = { 0 };
	auto_problems p = { 0 };
	assert_int_equal(parse(&tree, text, strlen(text), JSON_ENGINE, &p, &err), 0);
	assert_string_equal(tree->child->valuestring, "a\xef\xbf\xbd b\xef\xbf\xbd\xf0\x9f\x9a\x80");
	assert_int_equal(p.n_warnings, 1);
}

static void warns_of_a_byte_order_mark_and_of_names_that_differ_in_case(void **state)
{
	static const char text[] = "\xef\xbb\xbf{\"limits\":1,\"Limits\":2}";
	auto_json tree = NULL;
	struct err err = { 0 };
	auto_problems p = { 0 };
	assert_int_equal(parse(&tree, text, strlen(text), JSON_STRICT, &p, &err), 0);
	assert_int_equal(p.n_warnings, 2);
	assert_non_null(strstr(p.list[0].text, "byte order mark"));
	assert_string_equal(p.list[1].pointer, "/Limits");
	double v;
	assert_true(json_num(tree, "Limits", &v) && v > 1.5);
	assert_true(json_num(tree, "limits", &v) && v < 1.5);
	assert_false(json_num(tree, "LIMITS", &v));
}

/* NULL when all went well, else what did not. */
static void *deep_texts(void *arg)
{
	struct err err = { 0 };
	static char units[][8] = { "[", "{\"a\":", "[{\"a\":" };
	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		auto_buf b = BUF_INIT(1 << 24);
		for (size_t i = 0; i < 100000; i++)
			buf_adds(&b, units[u]);
		struct cJSON *tree = NULL;
		if (json_parse(&tree, b.p, b.len, "deep", JSON_STRICT, NULL, &err) != -1 ||
		    !strstr(err.msg, "deeper than 512"))
			return units[u];
	}
	auto_buf b = BUF_INIT(1 << 24);
	for (size_t i = 0; i < JSON_DEPTH_MAX; i++)
		buf_addc(&b, '[');
	for (size_t i = 0; i < JSON_DEPTH_MAX; i++)
		buf_addc(&b, ']');
	auto_json tree = NULL;
	return json_parse(&tree, b.p, b.len, "deep", JSON_STRICT, NULL, &err) ? arg : NULL;
}

static void holds_the_depth_limit_on_a_small_stack(void **state)
{
	pthread_attr_t attr;
	pthread_t t;
	void *bad = NULL;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
	assert_int_equal(pthread_create(&t, &attr, deep_texts, &bad), 0);
	assert_int_equal(pthread_join(t, &bad), 0);
	pthread_attr_destroy(&attr);
	assert_ptr_equal(bad, NULL);
}

/* Quadratic work on this much would take minutes. */
static void reads_many_keys_in_linear_time(void **state)
{
	enum { N = 200000 };
	auto_buf b = BUF_INIT(64 << 20), twice = BUF_INIT(64 << 20);
	buf_addc(&b, '{');
	buf_addc(&twice, '{');
	for (unsigned i = 0; i < N; i++) {
		buf_addf(&b, "%s\"key%u\":%u", i ? "," : "", i, i);
		buf_addf(&twice, "%s\"k%u\":%u", i ? "," : "", i % 3, i);
	}
	buf_addc(&b, '}');
	buf_addc(&twice, '}');
	auto_json tree = NULL;
	struct err err = { 0 };
	auto_problems p = { 0 };
	assert_int_equal(json_parse(&tree, b.p, b.len, "many", JSON_STRICT, &p, &err), 0);
	assert_int_equal(cJSON_GetArraySize(tree), N);
	cJSON_Delete(steal_ptr(&tree));
	assert_int_equal(json_parse(&tree, twice.p, twice.len, "many", JSON_STRICT, &p, &err), -1);
	assert_int_equal(p.n_errors, p.n); /* nothing past the limit was built */
	assert_int_equal(json_parse(&tree, twice.p, twice.len, "many", JSON_ENGINE, NULL, &err), 0);
	assert_int_equal(cJSON_GetArraySize(tree), 3);
}

static void looks_up_whole_numbers_only_when_exact(void **state)
{
	static const char text[] =
		"{\"a\":9007199254740991,\"b\":9007199254740992,\"c\":1.5,\"d\":-3,\"e\":\"7\","
		"\"f\":null,\"g\":1e3}";
	auto_json tree = NULL;
	struct err err = { 0 };
	int64_t i = 0;
	uint64_t u = 0;
	bool b;
	assert_int_equal(parse(&tree, text, strlen(text), JSON_STRICT, NULL, &err), 0);
	assert_true(json_i64(tree, "a", &i) && i == 9007199254740991);
	assert_false(json_i64(tree, "b", &i));
	assert_false(json_i64(tree, "c", &i));
	assert_true(json_i64(tree, "d", &i) && i == -3);
	assert_false(json_u64(tree, "d", &u));
	assert_false(json_i64(tree, "e", &i));
	assert_false(json_i64(tree, "f", &i));
	assert_true(json_u64(tree, "g", &u) && u == 1000);
	assert_false(json_bool(tree, "a", &b));
	assert_null(json_str(tree, "a"));
	assert_null(json_get(NULL, "a"));
	assert_null(json_get(json_get(tree, "a"), "a"));
}

static void survives_every_cut_of_a_document(void **state)
{
	static const char text[] =
		"{\"a\":[1,-2.5e3,\"\\u00e9\\ud83d\\ude80\xc3\xa9\",true],\"b\":{\"c\":null}}";
	for (size_t n = 0; n < strlen(text); n++) {
		struct cJSON *tree = NULL;
		struct err err = { 0 };
		assert_int_equal(parse(&tree, text, n, JSON_STRICT, NULL, &err), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_is_not_json_and_says_where),
		cmocka_unit_test(reads_what_is_json),
		cmocka_unit_test(keeps_a_nul_in_a_value),
		cmocka_unit_test(refuses_a_key_given_twice_and_tells_each_path),
		cmocka_unit_test(takes_the_last_of_equal_keys_from_an_engine),
		cmocka_unit_test(replaces_half_a_pair_from_an_engine),
		cmocka_unit_test(warns_of_a_byte_order_mark_and_of_names_that_differ_in_case),
		cmocka_unit_test(holds_the_depth_limit_on_a_small_stack),
		cmocka_unit_test(reads_many_keys_in_linear_time),
		cmocka_unit_test(looks_up_whole_numbers_only_when_exact),
		cmocka_unit_test(survives_every_cut_of_a_document),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
