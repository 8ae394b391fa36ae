// SPDX-License-Identifier: Apache-2.0
#include "model/proto.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct plan_sampling greedy = { .temperature = 0, .seed = 1, .top_p = -1, .top_k = -1 };
static const struct plan_sampling warm = { .temperature = .7, .seed = 9, .top_p = .9, .top_k = 40 };
static const uint32_t ids[] = { 1, 32000, 7 };

static const struct {
	enum engine_kind engine;
	enum api api;
	struct proto_request request;
	const char *body;
} rows[] = {
	{ ENGINE_LLAMACPP,
	  API_CHAT,
	  { .model = "m",
	    .prompt = "Say \"hi\"\n",
	    .max_tok = 16,
	    .force_output = true,
	    .sampling = &greedy },
	  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Say "
	  "\\\"hi\\\"\\n\"}],\"max_tokens\":16,"
	  "\"temperature\":0,\"seed\":1,\"ignore_eos\":true,\"cache_prompt\":false,\"stream\":true,"
	  "\"stream_options\":{\"include_usage\":true}}" },
	{ ENGINE_LLAMACPP,
	  API_LLAMACPP,
	  { .prompt_ids = ids, .n_prompt_ids = 3, .max_tok = 4, .force_output = true, .sampling = &greedy },
	  "{\"prompt\":[1,32000,7],\"n_predict\":4,\"temperature\":0,\"seed\":1,\"ignore_eos\":true,"
	  "\"cache_prompt\":false,\"stream\":true}" },
	{ ENGINE_VLLM,
	  API_COMPLETIONS,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &warm },
	  "{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":8,\"temperature\":0.7,\"seed\":9,\"top_p\":0.9,"
	  "\"top_k\":40,"
	  "\"ignore_eos\":true,\"min_tokens\":8,\"stream\":true,\"stream_options\":{\"include_usage\":true}"
	  "}" },
	{ ENGINE_SGLANG,
	  API_CHAT,
	  { .messages = "[{\"role\":\"system\",\"content\":\"s\"}]", .max_tok = 8, .sampling = &greedy },
	  "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}],\"max_tokens\":8,\"temperature\":0,"
	  "\"seed\":1,"
	  "\"stream\":true,\"stream_options\":{\"include_usage\":true}}" },
	{ ENGINE_ATTACH,
	  API_CHAT,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &greedy },
	  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":8,"
	  "\"temperature\":0,"
	  "\"seed\":1,\"stream\":true,\"stream_options\":{\"include_usage\":true}}" },
	{ ENGINE_VLLM,
	  API_CHAT,
	  { .model = "m", .prompt = "x", .max_tok = 8, .whole = true, .sampling = &greedy },
	  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":8,"
	  "\"temperature\":0,\"seed\":1,\"stream\":false}" },
	{ ENGINE_TGI,
	  API_TGI,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &greedy },
	  "{\"inputs\":\"x\",\"parameters\":{\"max_new_tokens\":8,\"details\":true,\"do_sample\":false,"
	  "\"seed\":1}}" },
	{ ENGINE_ATTACH,
	  API_TGI,
	  { .prompt = "x", .max_tok = 8, .whole = true, .sampling = &warm },
	  "{\"inputs\":\"x\",\"parameters\":{\"max_new_tokens\":8,\"details\":true,\"do_sample\":true,"
	  "\"temperature\":0.7,\"seed\":9,\"top_p\":0.9,\"top_k\":40}}" },
	{ ENGINE_OLLAMA,
	  API_OLLAMA,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &warm },
	  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,"
	  "\"truncate\":false,"
	  "\"options\":{\"num_predict\":8,\"temperature\":0.7,\"seed\":9,\"top_p\":0.9,\"top_k\":40}}" },
	{ ENGINE_SGLANG,
	  API_SGLANG,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &greedy },
	  "{\"text\":\"x\",\"sampling_params\":{\"max_new_tokens\":8,\"temperature\":0,\"ignore_eos\":true},"
	  "\"stream\":true}" },
	{ ENGINE_SGLANG,
	  API_SGLANG,
	  { .prompt_ids = ids, .n_prompt_ids = 3, .max_tok = 8, .whole = true },
	  "{\"input_ids\":[1,32000,7],\"sampling_params\":{\"max_new_tokens\":8},\"stream\":false}" },
	{ ENGINE_TRTLLM,
	  API_TRITON,
	  { .model = "m", .prompt = "x", .max_tok = 8, .force_output = true, .sampling = &greedy },
	  "{\"text_input\":\"x\",\"max_tokens\":8,\"temperature\":0,\"seed\":1,\"min_tokens\":8,"
	  "\"exclude_input_in_output\":true,\"bad_words\":\"\",\"stop_words\":\"\",\"stream\":true}" },
};

static void bodies_are_the_same_bytes_every_time(void **state)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct proto *p = proto_of(rows[i].engine, rows[i].api);
		assert_non_null(p);
		for (int twice = 0; twice < 2; twice++) {
			auto_buf b = BUF_INIT(4096);
			assert_int_equal(proto_body(&b, p, &rows[i].request), 0);
			assert_string_equal(b.p, rows[i].body);
		}
	}
}

static void only_wires_that_send_it_wait_for_done(void **state)
{
	assert_true(proto_of(ENGINE_LLAMACPP, API_CHAT)->needs_done);
	assert_false(proto_of(ENGINE_LLAMACPP, API_LLAMACPP)->needs_done);
	assert_false(proto_of(ENGINE_TGI, API_TGI)->needs_done);
	assert_false(proto_of(ENGINE_OLLAMA, API_OLLAMA)->needs_done);
	assert_true(proto_of(ENGINE_SGLANG, API_SGLANG)->needs_done);
	assert_true(proto_of(ENGINE_TRTLLM, API_TRITON)->no_finish_reason);
	assert_string_equal(proto_of(ENGINE_LLAMACPP, API_LLAMACPP)->path, "/completion");
	assert_string_equal(proto_of(ENGINE_SCRIPTED, API_COMPLETIONS)->path, "/v1/completions");
}

static void each_engine_has_the_endpoints_it_serves(void **state)
{
	static const struct {
		enum engine_kind engine;
		const char *has; /* in the order of enum api */
	} all[] = {
		{ ENGINE_LLAMACPP, "yyy----" }, { ENGINE_ATTACH, "yyyyyyy" }, { ENGINE_SCRIPTED, "yyyyyyy" },
		{ ENGINE_VLLM, "yy-----" },     { ENGINE_SGLANG, "yy---y-" }, { ENGINE_TGI, "y--y---" },
		{ ENGINE_TRTLLM, "yy----y" },   { ENGINE_OLLAMA, "yy--y--" }, { ENGINE_TORCHJOB, "-------" },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		for (int api = 0; api < N_APIS; api++)
			assert_int_equal(proto_of(all[i].engine, (enum api)api) != NULL,
			                 all[i].has[api] == 'y');
	}
}

static void a_path_holds_the_model_as_one_segment(void **state)
{
	static const struct {
		enum api api;
		const char *model;
		bool whole;
		const char *path; /* NULL = there is none */
	} paths[] = {
		{ API_CHAT, NULL, false, "/v1/chat/completions" },
		{ API_CHAT, "m", true, "/v1/chat/completions" },
		{ API_TGI, NULL, false, "/generate_stream" },
		{ API_TGI, NULL, true, "/generate" },
		{ API_SGLANG, NULL, true, "/generate" },
		{ API_OLLAMA, "m", false, "/api/chat" },
		{ API_TRITON, "ensemble", false, "/v2/models/ensemble/generate_stream" },
		{ API_TRITON, "a/b c%", true, "/v2/models/a%2Fb%20c%25/generate" },
		{ API_TRITON, NULL, false, NULL },
		{ API_TRITON, "", false, NULL },
		{ API_TRITON, "..", false, NULL },
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		auto_buf b = BUF_INIT(4096);
		int rc =
			proto_path(&b, proto_of(ENGINE_ATTACH, paths[i].api), paths[i].model, paths[i].whole);
		assert_int_equal(rc, paths[i].path ? 0 : -1);
		if (paths[i].path)
			assert_string_equal(b.p, paths[i].path);
	}
}

static void token_ids_go_only_where_they_are_taken(void **state)
{
	static const enum api text_only[] = { API_CHAT, API_TGI, API_OLLAMA, API_TRITON };
	struct proto_request r = { .prompt_ids = ids, .n_prompt_ids = 3, .max_tok = 1 };
	for (size_t i = 0; i < sizeof text_only / sizeof *text_only; i++) {
		auto_buf b = BUF_INIT(4096);
		assert_int_equal(proto_body(&b, proto_of(ENGINE_ATTACH, text_only[i]), &r), -1);
		assert_int_equal(b.len, 0);
	}
}

static void an_engine_without_the_endpoint_has_no_proto(void **state)
{
	assert_null(proto_of(ENGINE_VLLM, API_LLAMACPP));
	assert_null(proto_of(ENGINE_TORCHJOB, API_CHAT));
}

static void a_body_over_its_maximum_is_told(void **state)
{
	auto_buf b = BUF_INIT(20);
	struct proto_request r = { .prompt = "a prompt that does not fit", .max_tok = 1 };
	assert_int_equal(proto_body(&b, proto_of(ENGINE_ATTACH, API_CHAT), &r), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_the_same_bytes_every_time),
		cmocka_unit_test(only_wires_that_send_it_wait_for_done),
		cmocka_unit_test(each_engine_has_the_endpoints_it_serves),
		cmocka_unit_test(a_path_holds_the_model_as_one_segment),
		cmocka_unit_test(token_ids_go_only_where_they_are_taken),
		cmocka_unit_test(an_engine_without_the_endpoint_has_no_proto),
		cmocka_unit_test(a_body_over_its_maximum_is_told),
	};
	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
