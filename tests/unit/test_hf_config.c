/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/json_in.h"
#include "pin/hf_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct hf_config parse(const char *text, const char *side_text)
{
	auto_json doc = NULL;
	auto_json side = NULL;
	struct hf_config c = { 0 };
	struct err err = { 0 };
	if (json_parse(&doc, text, strlen(text), "config.json", JSON_ENGINE, NULL, &err) ||
	    (side_text && json_parse(&side, side_text, strlen(side_text), "side", JSON_ENGINE, NULL, &err)) ||
	    hf_config_parse(&c, doc, side, side ? "quantize_config.json" : NULL, &err))
		fail_msg("%s", err.msg);
	return c;
}

/* Depth of meaning is in the fixtures of kinds model-config and kv-size; here is what they cannot show. */
static void nothing_told_is_nothing_known(void **state)
{
	struct hf_config c = parse("{}", NULL);
	assert_int_equal(c.n_layers, HF_NONE);
	assert_int_equal(c.head_dim, HF_NONE);
	assert_int_equal(c.weight_bytes, HF_NONE);
	assert_int_equal(c.kv.n_layers, 0);
	assert_true(c.kv_unknown[0] != '\0');
	assert_int_equal(c.tied, -1);
	assert_int_equal(c.problems.n_errors, 0);
	hf_config_done(&c);
}

static void hostile_numbers_are_not_taken(void **state)
{
	static const char *const texts[] = {
		"{\"num_hidden_layers\":1e300,\"hidden_size\":-4,\"num_attention_heads\":0}",
		"{\"num_hidden_layers\":4,\"hidden_size\":9007199254740991,\"num_attention_heads\":1}",
		"{\"num_hidden_layers\":100000000,\"hidden_size\":64,\"num_attention_heads\":1}",
		"{\"num_hidden_layers\":4,\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_"
		"heads\":0}",
		"{\"num_hidden_layers\":4,\"kv_lora_rank\":9007199254740991,\"qk_rope_head_dim\":"
		"9007199254740991}",
		"{\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":2,\"layer_types\":[1,2]"
		"}",
		"{\"num_hidden_layers\":2,\"layer_types\":[]}",
		"{\"num_hidden_layers\":2,\"block_types\":[]}",
		"{\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"sliding_window\":5,"
		"\"model_type\":\"nobody\",\"sliding_window_pattern\":\"\"}",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct hf_config c = parse(texts[i], NULL);
		if (c.kv.n_layers)
			fail_msg("%s: is taken", texts[i]);
		hf_config_done(&c);
	}
}

static void names_contradictions(void **state)
{
	static const char config[] =
		"{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}}";
	static const struct {
		const char *side;
		size_t n;
	} cases[] = { { "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}", 0 },
		      { "{\"quant_method\":\"awq\",\"bits\":8,\"group_size\":128}", 1 },
		      { "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64}", 1 },
		      { "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128}", 1 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct hf_config c = parse(config, cases[i].side);
		assert_int_equal(c.problems.n_errors, cases[i].n);
		assert_string_equal(c.quant.method, "awq");
		assert_int_equal(c.quant.weight_bits, 4); /* config.json's word counts */
		hf_config_done(&c);
	}
}

static void kv_width_does_not_follow_the_weights(void **state)
{
	char words[40];
	struct hf_config c = parse("{\"torch_dtype\":\"torch.bfloat16\",\"quantization_config\":"
	                           "{\"quant_method\":\"fp8\"}}",
	                           NULL);
	hf_kv_dtype_words(words, sizeof(words), &c);
	assert_string_equal(words, "as the model (16 bit)");
	hf_config_done(&c);
	c = parse("{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\","
	          "\"kv_cache_quant_algo\":\"FP8\"}}",
	          NULL);
	hf_kv_dtype_words(words, sizeof(words), &c);
	assert_string_equal(words, "fp8");
	hf_config_done(&c);
}

static void patterns_of_modules_take_no_time(void **state)
{
	auto_buf text = BUF_INIT(1 << 20);
	buf_adds(&text,
	         "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":64,\"num_hidden_"
	         "layers\":500,"
	         "\"num_attention_heads\":4,\"vocab_size\":10,\"torch_dtype\":\"float16\",\"quantization_"
	         "config\":"
	         "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64,\"modules_to_not_convert\":[");
	for (int i = 0; i < 100; i++)
		buf_addf(&text, "%s\"*m*o*d*e*l*l*a*y*e*r*s*p*r*o*j*x%d\"", i ? "," : "", i);
	buf_adds(&text, "]}}");
	struct hf_config c = parse(text.p, NULL);
	assert_int_equal(c.quant.n_ignored, 100);
	assert_int_not_equal(c.weight_bytes, HF_NONE);
	hf_config_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_told_is_nothing_known),
		cmocka_unit_test(hostile_numbers_are_not_taken),
		cmocka_unit_test(names_contradictions),
		cmocka_unit_test(kv_width_does_not_follow_the_weights),
		cmocka_unit_test(patterns_of_modules_take_no_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
