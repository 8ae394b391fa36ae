/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of our own tests (tests/scripted): it speaks as llama-server does, and the label keeps a run on
 * it from ever being accepted. */
#include "engine/ask.h"

const struct engine_ops engine_scripted = {
	.kind = ENGINE_SCRIPTED,
	.label = "scripted engine",
	.health_path = "/health",
	.metrics_path = "/metrics",
	.default_program = "scripted-engine",
	.has_tokenizer = true,
	.count_tokens = llamacpp_count_tokens,
	.tokenize = llamacpp_tokenize,
	.identity = llamacpp_identity,
};
