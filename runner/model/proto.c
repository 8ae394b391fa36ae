// SPDX-License-Identifier: Apache-2.0
#include "model/proto.h"

#include "base/json_out.h"

#include <string.h>

enum dialect { DIALECT_PLAIN, DIALECT_LLAMACPP, DIALECT_VLLM, N_DIALECTS };

static const struct proto protos[N_DIALECTS][3] = {
	// Some servers refuse a body with members they do not know, so none of the extensions.
	[DIALECT_PLAIN] = { [API_CHAT] = { WIRE_OPENAI_CHAT, "/v1/chat/completions", true, false, false,
	                                   false },
	                    [API_COMPLETIONS] = { WIRE_OPENAI_COMPLETIONS, "/v1/completions", true, false,
	                                          false, false },
	                    [API_LLAMACPP] = { WIRE_LLAMACPP, "/completion", false, true, false, true } },
	[DIALECT_LLAMACPP] = { [API_CHAT] = { WIRE_OPENAI_CHAT, "/v1/chat/completions", true, true, false,
	                                      true },
	                       [API_COMPLETIONS] = { WIRE_OPENAI_COMPLETIONS, "/v1/completions", true, true,
	                                             false, true },
	                       [API_LLAMACPP] = { WIRE_LLAMACPP, "/completion", false, true, false, true } },
	[DIALECT_VLLM] = { [API_CHAT] = { WIRE_OPENAI_CHAT, "/v1/chat/completions", true, true, true, false },
	                   [API_COMPLETIONS] = { WIRE_OPENAI_COMPLETIONS, "/v1/completions", true, true, true,
	                                         false } },
};

const struct proto *proto_of(enum engine_kind engine, enum api api)
{
	static const struct {
		enum engine_kind engine;
		enum dialect dialect;
	} rows[] = {
		{ ENGINE_LLAMACPP, DIALECT_LLAMACPP }, { ENGINE_SCRIPTED, DIALECT_LLAMACPP },
		{ ENGINE_ATTACH, DIALECT_PLAIN },      { ENGINE_VLLM, DIALECT_VLLM },
		{ ENGINE_SGLANG, DIALECT_VLLM },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct proto *p = &protos[rows[i].dialect][api];
		if (rows[i].engine == engine)
			return p->path ? p : NULL;
	}
	return NULL;
}

static void add_prompt(struct json_out *o, const struct proto_request *r)
{
	if (!r->prompt_ids) {
		jo_str(o, "prompt", r->prompt ? r->prompt : "");
		return;
	}
	jo_arr(o, "prompt");
	for (size_t i = 0; i < r->n_prompt_ids; i++)
		jo_u64(o, NULL, r->prompt_ids[i]);
	jo_end_arr(o);
}

static void add_messages(struct json_out *o, const struct proto_request *r)
{
	if (r->messages) {
		jo_raw(o, "messages", r->messages, strlen(r->messages));
		return;
	}
	jo_arr(o, "messages");
	jo_obj(o, NULL);
	jo_str(o, "role", "user");
	jo_str(o, "content", r->prompt ? r->prompt : "");
	jo_end(o);
	jo_end_arr(o);
}

static void add_sampling(struct json_out *o, const struct plan_sampling *s)
{
	jo_num(o, "temperature", s->temperature);
	jo_u64(o, "seed", s->seed);
	if (s->top_p >= 0)
		jo_num(o, "top_p", s->top_p);
	if (s->top_k >= 0)
		jo_i64(o, "top_k", s->top_k);
}

int proto_body(struct buf *out, const struct proto *p, const struct proto_request *r)
{
	struct json_out o;
	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	if (r->model)
		jo_str(&o, "model", r->model);
	if (p->wire == WIRE_OPENAI_CHAT)
		add_messages(&o, r);
	else
		add_prompt(&o, r);
	jo_u64(&o, p->wire == WIRE_LLAMACPP ? "n_predict" : "max_tokens", r->max_tok);
	if (r->sampling)
		add_sampling(&o, r->sampling);
	if (r->force_output && p->ignore_eos)
		jo_bool(&o, "ignore_eos", true);
	if (r->force_output && p->min_tokens)
		jo_u64(&o, "min_tokens", r->max_tok);
	if (p->cache_prompt_off)
		jo_bool(&o, "cache_prompt", false);
	jo_bool(&o, "stream", true);
	if (p->wire != WIRE_LLAMACPP) {
		jo_obj(&o, "stream_options");
		jo_bool(&o, "include_usage", true);
		jo_end(&o);
	}
	jo_end(&o);
	return out->failed ? -1 : 0;
}
