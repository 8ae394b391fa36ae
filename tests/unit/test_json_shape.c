/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const classes[] = { "interactive", "batch", "training", NULL };
static const struct jfield file_fields[] = {
	{ "sha256", J_STR, .required = true, .pattern = "[0-9a-f]{64}",
	  .pattern_says = "64 lower-case hex digits" },
	{ "path", J_STR, .required = true, .min_len = 1, .max_len = 20 },
	{ 0 },
};
static const struct jshape file_shape = { "a file", file_fields, NULL };
static const struct jfield file_elem = { .type = J_OBJ, .shape = &file_shape };
static const struct jfield text_elem = { .type = J_STR };
static const struct jfield count_elem = { .type = J_INT, .min = 1, .max = 100 };
static const struct jfield top_fields[] = {
	{ "class", J_STR, .required = true, .words = classes },
	{ "files", J_ARR, .elem = &file_elem, .min_len = 1, .max_len = 2 },
	{ "env", J_MAP, .elem = &text_elem, .pattern = "[A-Z_]+", .pattern_says = "a name in capitals",
	  .max_len = 3 },
	{ "counts", J_ARR, .elem = &count_elem, .unique = true },
	{ "rate_rps", J_NUM, .exclusive_min = true },
	{ "share", J_NUM, .min = 0, .max = 1 },
	{ "offset", J_INT, .min = -5, .max = 0 },
	{ "pause", J_INT, .min = 2 },
	{ "seed", J_INT, .nullable = true },
	{ .key = "critical", .type = J_BOOL },
	{ .key = "any", .type = J_ANY },
	{ .key = "by_id", .type = J_STR },
	{ .key = "by_url", .type = J_STR },
	{ 0 },
};
static const char *const one_of[] = { "by_id", "by_url", NULL };
static const struct jshape top = { "the plan", top_fields, one_of };

#define OK_REST "\"class\":\"batch\",\"by_id\":\"x\""

static void check(struct problems *p, const char *text)
{
	auto_json doc = NULL;
	struct err err = { 0 };
	if (json_parse(&doc, text, strlen(text), "t", JSON_STRICT, NULL, &err))
		fail_msg("%s: %s", text, err.msg);
	jshape_check(doc, &top, p);
}

static void accepts_what_fits(void **state)
{
	static const char *const texts[] = {
		"{" OK_REST "}",
		"{\"$schema\":\"u\",\"note\":[1]," OK_REST "}",
		"{" OK_REST ",\"files\":[{\"note\":{},\"path\":\"p\",\"sha256\":"
		"\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}]}",
		"{" OK_REST ",\"env\":{\"A_B\":\"\"},\"counts\":[1,100,2.0],\"rate_rps\":0.001,\"share\":1}",
		"{" OK_REST
		",\"offset\":-5,\"pause\":1e9,\"seed\":null,\"critical\":false,\"any\":{\"x\":[]}}",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_problems p = { 0 };
		check(&p, texts[i]);
		if (p.n)
			fail_msg("%s: %s: %s", texts[i], p.list[0].pointer, p.list[0].text);
	}
}

static void tells_each_problem_with_its_pointer(void **state)
{
	static const struct {
		const char *text, *pointer, *says;
	} cases[] = {
		{ "[]", "", "want an object, got an array" },
		{ "{\"by_id\":\"x\"}", "", "key 'class' is missing" },
		{ "{\"class\":\"batch\"}", "", "exactly one of the keys 'by_id', 'by_url', got 0" },
		{ "{" OK_REST ",\"by_url\":\"\"}", "", "got 2 of them" },
		{ "{\"class\":\"bacth\",\"by_id\":\"\"}", "/class",
		  "want one of interactive, batch, training; got \"bacth\" (did you mean \"batch\"?)" },
		{ "{\"class\":\"Batch\",\"by_id\":\"\"}", "/class", "did you mean \"batch\"?" },
		{ "{" OK_REST ",\"rate_rsp\":1}", "/rate_rsp",
		  "unknown key 'rate_rsp' (did you mean 'rate_rps'?)" },
		{ "{" OK_REST ",\"Share\":1}", "/Share", "names are compared exactly: 'share' is known" },
		{ "{" OK_REST ",\"zzzzzzzz\":1}", "/zzzzzzzz", "unknown key 'zzzzzzzz' in the plan" },
		{ "{" OK_REST ",\"$schema\":1}", "/$schema", "want a string" },
		{ "{" OK_REST ",\"files\":[{\"$schema\":\"\",\"path\":\"p\",\"sha256\":"
		  "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}]}",
		  "/files/0/$schema", "unknown key" },
		{ "{" OK_REST ",\"rate_rps\":0}", "/rate_rps", "want a number above 0, got 0" },
		{ "{" OK_REST ",\"rate_rps\":-3}", "/rate_rps", "want a number above 0, got -3" },
		{ "{" OK_REST ",\"rate_rps\":\"secret\"}", "/rate_rps", "want a number, got a string" },
		{ "{" OK_REST ",\"share\":1.01}", "/share", "want a number from 0 to 1, got 1.01" },
		{ "{" OK_REST ",\"offset\":1}", "/offset", "want a whole number from -5 to 0, got 1" },
		{ "{" OK_REST ",\"offset\":-0.5}", "/offset", "got -0.5" },
		{ "{" OK_REST ",\"pause\":1}", "/pause", "want a whole number of at least 2, got 1" },
		{ "{" OK_REST ",\"pause\":1e16}", "/pause", "got 10000000000000000" },
		{ "{" OK_REST ",\"pause\":null}", "/pause", "want a whole number, got null" },
		{ "{" OK_REST ",\"seed\":\"x\"}", "/seed", "want a whole number or null, got a string" },
		{ "{" OK_REST ",\"critical\":0}", "/critical", "want true or false, got 0" },
		{ "{" OK_REST ",\"counts\":[3,7,3]}", "/counts", "3 stands here twice" },
		{ "{" OK_REST ",\"counts\":[3,0]}", "/counts/1", "from 1 to 100, got 0" },
		{ "{" OK_REST ",\"files\":[]}", "/files", "want at least 1 element, got 0" },
		{ "{" OK_REST ",\"files\":[1]}", "/files/0", "want an object, got 1" },
		{ "{" OK_REST ",\"env\":{\"A\":1}}", "/env/A", "want a string, got 1" },
		{ "{" OK_REST ",\"env\":{\"a/b~\":\"\"}}", "/env/a~1b~0", "want a name in capitals" },
		{ "{" OK_REST ",\"env\":{\"A\":\"\",\"B\":\"\",\"C\":\"\",\"D\":\"\"}}", "/env",
		  "want at most 3 members, got 4" },
		{ "{\"class\":\"batch\",\"by_id\":\"a\\u0000b\"}", "/by_id", "\\u0000" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_problems p = { 0 };
		check(&p, cases[i].text);
		if (p.n != 1 || strcmp(p.list[0].pointer, cases[i].pointer) != 0 ||
		    !strstr(p.list[0].text, cases[i].says))
			fail_msg("%s: %zu problems, first %s: %s", cases[i].text, p.n,
			         p.n ? p.list[0].pointer : "", p.n ? p.list[0].text : "");
	}
}

static void tells_all_problems_in_one_go(void **state)
{
	auto_problems p = { 0 };
	check(&p, "{\"class\":3,\"rate_rps\":-1,\"x\":0,\"files\":[{\"path\":\"\"},{},{}]}");
	/* class, rate, x, one_of; file 0: path empty, sha256 missing; files 1 and 2: two missing each; 3
	 * files */
	assert_int_equal(p.n_errors, 11);
}

static void shows_only_the_start_of_a_value_that_may_be_a_secret(void **state)
{
	auto_problems p = { 0 };
	check(&p, "{" OK_REST ",\"files\":[{\"path\":\"p\",\"sha256\":\"hf_verysecrettoken\"}]}");
	assert_int_equal(p.n, 1);
	assert_string_equal(p.list[0].text, "want 64 lower-case hex digits, got \"hf_v…\" (18 bytes)");
}

static void finds_the_near_word(void **state)
{
	static const char *const words[] = { "ttft_ms", "itl_ms", "e2e_ms", "rate", NULL };
	static const struct {
		const char *got, *near;
	} cases[] = {
		{ "ttft_sm", "ttft_ms" },
		{ "tfft_ms", "ttft_ms" },
		{ "TTFT_MS", "ttft_ms" },
		{ "itlms", "itl_ms" },
		{ "raet", "rate" },
		{ "power", NULL },
		{ "", NULL },
		{ "xyz", NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *near = near_match(cases[i].got, words);
		if (!cases[i].near)
			assert_null(near);
		else
			assert_string_equal(near ? near : "(none)", cases[i].near);
	}
	char wide[5000];
	memset(wide, 'a', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	assert_null(near_match(wide, words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_what_fits),
		cmocka_unit_test(tells_each_problem_with_its_pointer),
		cmocka_unit_test(tells_all_problems_in_one_go),
		cmocka_unit_test(shows_only_the_start_of_a_value_that_may_be_a_secret),
		cmocka_unit_test(finds_the_near_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
