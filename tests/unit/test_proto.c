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

static void only_openai_wires_wait_for_done(void **state)
{
	assert_true(proto_of(ENGINE_LLAMACPP, API_CHAT)->needs_done);
	assert_false(proto_of(ENGINE_LLAMACPP, API_LLAMACPP)->needs_done);
	assert_string_equal(proto_of(ENGINE_LLAMACPP, API_LLAMACPP)->path, "/completion");
	assert_string_equal(proto_of(ENGINE_SCRIPTED, API_COMPLETIONS)->path, "/v1/completions");
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
		cmocka_unit_test(only_openai_wires_wait_for_done),
		cmocka_unit_test(an_engine_without_the_endpoint_has_no_proto),
		cmocka_unit_test(a_body_over_its_maximum_is_told),
	};
	return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
