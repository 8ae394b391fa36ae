/* SPDX-License-Identifier: Apache-2.0 */
/* hf_config: any JSON as config.json, and as a side file. */
#include "base/json_in.h"
#include "fuzz.h"
#include "pin/hf_config.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json doc = NULL;
	struct hf_config c = { 0 };
	struct err err = { 0 };
	const struct kv_width w = { 32, 34 };
	uint64_t n;
	char words[40];
	if (json_parse(&doc, (const char *)data, size, "fuzz", JSON_ENGINE, NULL, &err))
		return 0;
	if (hf_config_parse(&c, doc, doc, "quantize_config.json", &err))
		return 0;
	assert(c.kv.n_layers || c.kv_unknown[0]);
	assert(c.kv.n_layers <= KV_LAYERS_MAX);
	hf_kv_dtype_words(words, sizeof(words), &c);
	if (c.kv.n_layers)
		(void)kv_bytes(&n, &c.kv, 131072, w, w, 3);
	hf_config_done(&c);
	return 0;
}
