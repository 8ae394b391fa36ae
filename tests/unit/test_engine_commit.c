/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json_out.h"
#include "pin/engine_commit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID40 "abcdef1234567890abcdef1234567890abcdef12"

static void reads_what_engines_tell_of_themselves(void **state)
{
	static const struct {
		enum told_engine engine;
		const char *text, *version, *commit;
		uint64_t build; /* 0 = not told */
		bool dirty;
	} cases[] = {
		{ TOLD_LLAMA_CPP, "version: 4567 (abcdef12)\nbuilt with cc", "", "abcdef12", 4567, false },
		{ TOLD_LLAMA_CPP, "warning: x\nversion: 4567 (ABCDEF12)", "", "abcdef12", 4567, false },
		{ TOLD_LLAMA_CPP, "b4567-abcdef12", "", "abcdef12", 4567, false },
		{ TOLD_LLAMA_CPP, "b4567-abcdef12-dirty", "", "abcdef12", 4567, true },
		{ TOLD_LLAMA_CPP, "{\"build_info\":\"b4567-abcdef12\",\"n\":1}", "", "abcdef12", 4567,
		  false },
		{ TOLD_LLAMA_CPP, "{\"system_fingerprint\":\"b4567-abcdef12\"}", "", "abcdef12", 4567,
		  false },
		{ TOLD_LLAMA_CPP, "{\"build_commit\":\"abcdef12\",\"build_number\":4567}", "", "abcdef12",
		  4567, false },
		{ TOLD_LLAMA_CPP, "{\"build_info\":\"b0-unknown\"}", "", "", 0, false },
		{ TOLD_LLAMA_CPP, "version: 0.6.0-dev (build 0, commit unknown)\n", "0.6.0-dev", "", 0,
		  false },
		{ TOLD_LLAMA_CPP, "version: 0.1.0-dev (build 1, commit 7e4c0a9)", "0.1.0-dev", "7e4c0a9", 1,
		  false },
		{ TOLD_LLAMA_CPP, "main: build: 4567 (abcdef12) with cc", "", "abcdef12", 4567, false },
		{ TOLD_LLAMA_CPP, "b4567-abc", "", "", 4567, false },
		{ TOLD_VLLM, "{\"version\":\"0.8.5.dev123+gabcdef123\"}", "0.8.5.dev123+gabcdef123",
		  "abcdef123", 0, false },
		{ TOLD_VLLM, "0.8.5.dev123+gabcdef123.d20250501", "0.8.5.dev123+gabcdef123.d20250501",
		  "abcdef123", 0, true },
		{ TOLD_VLLM, "INFO 05-01 12:00:00 x.py:1] hello\n0.8.5.dev1+gabcdef123.cu124\n",
		  "0.8.5.dev1+gabcdef123.cu124", "abcdef123", 0, false },
		{ TOLD_VLLM, "{\"version\":\"0.32.0\"}", "0.32.0", "", 0, false },
		{ TOLD_VLLM, "{\"version\":\"0.32.0+cu124\"}", "0.32.0+cu124", "", 0, false },
		{ TOLD_SGLANG, "{\"model_path\":\"/m\",\"version\":\"0.5.3\"}", "0.5.3", "", 0, false },
		{ TOLD_OLLAMA, "{\"version\":\"0.6.2\"}", "0.6.2", "", 0, false },
		{ TOLD_OLLAMA, "{\"version\":\"0.6.2-12-gabcdef1-dirty\"}", "0.6.2-12-gabcdef1-dirty",
		  "abcdef1", 0, true },
		{ TOLD_OLLAMA, "ollama version is 0.6.2", "0.6.2", "", 0, false },
		{ TOLD_TGI,
		  "{\"version\":\"3.3.6-dev0\",\"sha\":\"" ID40 "\",\"docker_label\":\"sha-abcdef1\"}",
		  "3.3.6-dev0", ID40, 0, false },
		{ TOLD_TGI, "{\"version\":\"3.3.6\",\"sha\":null,\"docker_label\":\"sha-abcdef1-rocm\"}",
		  "3.3.6", "abcdef1", 0, false },
		{ TOLD_TGI, "{\"version\":\"3.3.6\",\"sha\":\"" ID40 "\",\"docker_label\":\"sha-1111111\"}",
		  "3.3.6", "", 0, false },
		{ TOLD_TGI, "Target: x\nCommit sha: " ID40 "\nDocker label: sha-abcdef1\n", "", ID40, 0,
		  false },
		{ TOLD_TENSORRT_LLM, "{\"version\":\"1.0.0rc3\"}", "1.0.0rc3", "", 0, false },
		{ TOLD_TENSORRT_LLM, "[TensorRT-LLM] TensorRT-LLM version: 0.20.0\n0.20.0\n", "0.20.0", "", 0,
		  false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_told t;
		print_message("%s\n", cases[i].text);
		assert_true(engine_told_parse(&t, cases[i].engine, cases[i].text, strlen(cases[i].text)));
		assert_string_equal(t.version, cases[i].version);
		assert_string_equal(t.commit, cases[i].commit);
		assert_int_equal(t.has_build, cases[i].build != 0);
		if (t.has_build)
			assert_int_equal(t.build, cases[i].build);
		assert_int_equal(t.dirty, cases[i].dirty);
	}
}

static void refuses_what_tells_nothing(void **state)
{
	static const struct {
		enum told_engine engine;
		const char *text;
	} cases[] = {
		{ TOLD_LLAMA_CPP, "" },
		{ TOLD_LLAMA_CPP, "{" },
		{ TOLD_LLAMA_CPP, "{\"build_info\":7}" },
		{ TOLD_LLAMA_CPP, "version: (abcdef12)" },
		{ TOLD_LLAMA_CPP, "base-abcdef1" },
		{ TOLD_VLLM, "{\"detail\":\"Not Found\"}" },
		{ TOLD_VLLM, "{\"version\":\"0.8.5; rm -r\"}" },
		{ TOLD_VLLM, "no numbers here" },
		{ TOLD_TGI, "{\"version\":null}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_told t = { .version = "untouched" };
		assert_false(engine_told_parse(&t, cases[i].engine, cases[i].text, strlen(cases[i].text)));
		assert_string_equal(t.version, "untouched");
	}
	struct engine_told t;
	assert_false(engine_told_parse(&t, TOLD_VLLM, "0.1.2\0x", 7));
	assert_false(engine_told_parse(&t, TOLD_VLLM, NULL, 0));
}

static void every_cut_of_an_answer_is_survived(void **state)
{
	static const char text[] = "main: build: 4567 (abcdef12) b1-abcdefabcdef version: "
				   "0.8.5-3-gabcdef1-dirty FETCH_HEAD=" ID40;
	for (int e = 0; e < TOLD_N; e++)
		for (size_t from = 0; from < sizeof(text); from++)
			for (size_t len = 0; from + len < sizeof(text); len++) {
				struct engine_told t = { 0 };
				auto_free char *copy = malloc(len + 1);
				memcpy(copy, text + from, len);
				engine_told_parse(&t, (enum told_engine)e, copy, len);
				engine_told_nested(&t, copy, len);
			}
}

static void the_engine_inside_is_told_by_ollama_s_own_files(void **state)
{
	static const struct {
		const char *text, *commit;
		uint64_t build;
		bool ok;
	} cases[] = {
		{ "UPSTREAM=https://x\nFETCH_HEAD=" ID40 "\n", ID40, 0, true },
		{ "int LLAMA_BUILD_NUMBER = 0;\nchar const *LLAMA_COMMIT = \"" ID40 "\";", ID40, 0, true },
		{ "b7437", "", 7437, true },
		{ "b0-unknown", "", 0, false },
		{ "FETCH_HEAD=main", "", 0, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_told t = { .engine = TOLD_OLLAMA };
		assert_int_equal(engine_told_nested(&t, cases[i].text, strlen(cases[i].text)), cases[i].ok);
		assert_string_equal(t.nested_commit, cases[i].commit);
		assert_int_equal(t.has_nested_build, cases[i].build != 0);
		assert_int_equal(t.nested_build, cases[i].build);
	}
}

static void a_pin_is_compared_with_what_is_told(void **state)
{
	static const struct {
		const char *version, *commit;
		bool dirty;
		struct engine_pin pin;
		enum engine_match match;
		const char *reason;
	} cases[] = {
		{ "", "abcdef1", false, { ID40, NULL }, ENGINE_SAME, "prefix" },
		{ "", ID40, false, { ID40, NULL }, ENGINE_SAME, "prefix" },
		{ "", "abcdef1", true, { ID40, NULL }, ENGINE_DIFFERENT, "changes" },
		{ "", "abcdef2", false, { ID40, NULL }, ENGINE_DIFFERENT, "the pin is" },
		{ "", "bcdef12", false, { ID40, NULL }, ENGINE_DIFFERENT, "the pin is" },
		{ "", ID40 "3", false, { ID40, NULL }, ENGINE_DIFFERENT, "the pin is" },
		{ "", "", false, { ID40, NULL }, ENGINE_NOT_TOLD, "no commit" },
		{ "", "abcdef1", false, { "abcdef1", NULL }, ENGINE_NOT_TOLD, "no full commit" },
		{ "1.0", "", false, { ID40, "1.0" }, ENGINE_NOT_TOLD, "no commit" },
		{ "1.1", "", false, { ID40, "1.0" }, ENGINE_DIFFERENT, "version 1.1" },
		{ "1.1", "abcdef1", false, { ID40, "1.0" }, ENGINE_DIFFERENT, "version 1.1" },
		{ "1.0", "abcdef2", false, { ID40, "1.0" }, ENGINE_DIFFERENT, "commit abcdef2" },
		{ "1.0", "", false, { NULL, "v1.0" }, ENGINE_SAME, "as pinned" },
		{ "1.0+cu124", "", false, { NULL, "1.0" }, ENGINE_SAME, "as pinned" },
		{ "1.0+cu124", "", false, { NULL, "1.0+cu128" }, ENGINE_DIFFERENT, "1.0+cu124" },
		{ "1.0", "", false, { NULL, "1.0+cu124" }, ENGINE_DIFFERENT, "1.0" },
		{ "1.01", "", false, { NULL, "1.0" }, ENGINE_DIFFERENT, "1.01" },
		{ "", "", false, { NULL, "1.0" }, ENGINE_NOT_TOLD, "no version" },
		{ "1.0", "abcdef1", false, { NULL, NULL }, ENGINE_NOT_TOLD, "neither" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_told t = { .dirty = cases[i].dirty };
		struct engine_compared c;
		snprintf(t.version, sizeof(t.version), "%s", cases[i].version);
		snprintf(t.commit, sizeof(t.commit), "%s", cases[i].commit);
		engine_told_compare(&c, &t, &cases[i].pin);
		print_message("%s\n", c.reason);
		assert_int_equal(c.match, cases[i].match);
		assert_non_null(strstr(c.reason, cases[i].reason));
	}
}

static void a_commit_of_six_digits_is_not_told_and_said_so(void **state)
{
	struct engine_told t;
	struct engine_compared c;
	assert_true(engine_told_parse(&t, TOLD_LLAMA_CPP, "b12-abcdef", 10));
	engine_told_compare(&c, &t, &(struct engine_pin){ ID40, NULL });
	assert_int_equal(c.match, ENGINE_NOT_TOLD);
	assert_non_null(strstr(c.reason, "fewer than 7"));
}

static void json_has_null_for_what_is_not_told(void **state)
{
	struct engine_told t;
	auto_buf b = BUF_INIT(4096);
	struct json_out o;
	assert_true(engine_told_parse(&t, TOLD_OLLAMA, "0.6.2", 5));
	jo_init(&o, &b, 0);
	engine_told_json(&o, NULL, &t);
	assert_string_equal(b.p,
	                    "{\"engine\":\"ollama\",\"version\":\"0.6.2\",\"commit\":null,\"label\":null,"
	                    "\"build\":null,\"dirty\":null,\"fault\":null,\"nested\":null}");
	buf_clear(&b);
	assert_true(engine_told_nested(&t, "b7437", 5));
	jo_init(&o, &b, 0);
	engine_told_json(&o, NULL, &t);
	assert_non_null(strstr(b.p, "\"nested\":{\"engine\":\"llama.cpp\",\"commit\":null,\"build\":7437}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_engines_tell_of_themselves),
		cmocka_unit_test(refuses_what_tells_nothing),
		cmocka_unit_test(every_cut_of_an_answer_is_survived),
		cmocka_unit_test(the_engine_inside_is_told_by_ollama_s_own_files),
		cmocka_unit_test(a_pin_is_compared_with_what_is_told),
		cmocka_unit_test(a_commit_of_six_digits_is_not_told_and_said_so),
		cmocka_unit_test(json_has_null_for_what_is_not_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
