// SPDX-License-Identifier: Apache-2.0
#include "model/proto.h"

#include "base/json_out.h"

#include <string.h>

enum dialect {
	DIALECT_PLAIN,
	DIALECT_LLAMACPP,
	DIALECT_VLLM,
	DIALECT_SGLANG,
	DIALECT_TGI,
	DIALECT_TRTLLM,
	DIALECT_OLLAMA,
	DIALECT_SCRIPTED,
	N_DIALECTS
};

#define CHAT .wire = WIRE_OPENAI_CHAT, .path = "/v1/chat/completions", .needs_done = true
#define COMPLETIONS .wire = WIRE_OPENAI_COMPLETIONS, .path = "/v1/completions", .needs_done = true
#define LLAMACPP .wire = WIRE_LLAMACPP, .path = "/completion", .ignore_eos = true, .cache_prompt_off = true
#define TGI .wire = WIRE_TGI, .path = "/generate_stream", .whole_path = "/generate"
#define OLLAMA .wire = WIRE_OLLAMA, .path = "/api/chat"
#define SGLANG .wire = WIRE_SGLANG, .path = "/generate", .needs_done = true, .ignore_eos = true
#define TRITON                                                                                               \
	.wire = WIRE_TRITON, .path = "/v2/models/{model}/generate_stream",                                   \
	.whole_path = "/v2/models/{model}/generate", .no_finish_reason = true

static const struct proto protos[N_DIALECTS][N_APIS] = {
	// Some servers refuse a body with members they do not know, so none of the extensions.
	[DIALECT_PLAIN] = { [API_CHAT] = { CHAT },
	                    [API_COMPLETIONS] = { COMPLETIONS },
	                    [API_LLAMACPP] = { LLAMACPP },
	                    [API_TGI] = { TGI },
	                    [API_OLLAMA] = { OLLAMA },
	                    [API_SGLANG] = { SGLANG },
	                    [API_TRITON] = { TRITON } },
	[DIALECT_LLAMACPP] = { [API_CHAT] = { CHAT, .ignore_eos = true, .cache_prompt_off = true },
	                       [API_COMPLETIONS] = { COMPLETIONS, .ignore_eos = true,
	                                             .cache_prompt_off = true },
	                       [API_LLAMACPP] = { LLAMACPP } },
	[DIALECT_VLLM] = { [API_CHAT] = { CHAT, .ignore_eos = true, .min_tokens = true },
	                   [API_COMPLETIONS] = { COMPLETIONS, .ignore_eos = true, .min_tokens = true } },
	[DIALECT_SGLANG] = { [API_CHAT] = { CHAT, .ignore_eos = true, .min_tokens = true },
	                     [API_COMPLETIONS] = { COMPLETIONS, .ignore_eos = true, .min_tokens = true },
	                     [API_SGLANG] = { SGLANG } },
	[DIALECT_TGI] = { [API_CHAT] = { CHAT }, [API_TGI] = { TGI } },
	[DIALECT_TRTLLM] = { [API_CHAT] = { CHAT, .ignore_eos = true, .min_tokens = true },
	                     [API_COMPLETIONS] = { COMPLETIONS, .ignore_eos = true, .min_tokens = true },
	                     [API_TRITON] = { TRITON, .min_tokens = true } },
	[DIALECT_OLLAMA] = { [API_CHAT] = { CHAT },
	                     [API_COMPLETIONS] = { COMPLETIONS },
	                     [API_OLLAMA] = { OLLAMA } },
	[DIALECT_SCRIPTED] = { [API_CHAT] = { CHAT, .ignore_eos = true, .cache_prompt_off = true },
	                       [API_COMPLETIONS] = { COMPLETIONS, .ignore_eos = true,
	                                             .cache_prompt_off = true },
	                       [API_LLAMACPP] = { LLAMACPP },
	                       [API_TGI] = { TGI },
	                       [API_OLLAMA] = { OLLAMA },
	                       [API_SGLANG] = { SGLANG },
	                       [API_TRITON] = { TRITON } },
};

const struct proto *proto_of(enum engine_kind engine, enum api api)
{
	static const struct {
		enum engine_kind engine;
		enum dialect dialect;
	} rows[] = {
		{ ENGINE_LLAMACPP, DIALECT_LLAMACPP }, { ENGINE_SCRIPTED, DIALECT_SCRIPTED },
		{ ENGINE_ATTACH, DIALECT_PLAIN },      { ENGINE_VLLM, DIALECT_VLLM },
		{ ENGINE_SGLANG, DIALECT_SGLANG },     { ENGINE_TGI, DIALECT_TGI },
		{ ENGINE_TRTLLM, DIALECT_TRTLLM },     { ENGINE_OLLAMA, DIALECT_OLLAMA },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct proto *p = &protos[rows[i].dialect][api];
		if (rows[i].engine == engine)
			return p->path ? p : NULL;
	}
	return NULL;
}

// --- paths ---------------------------------------------------------------------------------------------

// A model name in a path is one segment: everything but the unreserved characters of RFC 3986 is encoded.
static void add_segment(struct buf *out, const char *name)
{
	for (const unsigned char *u = (const unsigned char *)name; *u; u++) {
		bool plain = (*u >= '0' && *u <= '9') || (*u >= 'A' && *u <= 'Z') ||
		             (*u >= 'a' && *u <= 'z') || strchr("-._~", *u);
		if (plain)
			buf_addc(out, (char)*u);
		else
			buf_addf(out, "%%%02X", *u);
	}
}

int proto_path(struct buf *out, const struct proto *p, const char *model, bool whole)
{
	static const char mark[] = "{model}";
	const char *path = whole && p->whole_path ? p->whole_path : p->path, *at = strstr(path, mark);
	if (!at)
		return buf_adds(out, path);
	if (!model || !model[0] || strcmp(model, ".") == 0 || strcmp(model, "..") == 0)
		return -1;
	buf_add(out, path, (size_t)(at - path));
	add_segment(out, model);
	return buf_adds(out, at + sizeof mark - 1);
}

// --- bodies --------------------------------------------------------------------------------------------

static void add_ids(struct json_out *o, const char *key, const struct proto_request *r)
{
	jo_arr(o, key);
	for (size_t i = 0; i < r->n_prompt_ids; i++)
		jo_u64(o, NULL, r->prompt_ids[i]);
	jo_end_arr(o);
}

static void add_text(struct json_out *o, const char *key, const struct proto_request *r)
{
	jo_str(o, key, r->prompt ? r->prompt : "");
}

static void add_prompt(struct json_out *o, const struct proto_request *r)
{
	if (r->prompt_ids)
		add_ids(o, "prompt", r);
	else
		add_text(o, "prompt", r);
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
	add_text(o, "content", r);
	jo_end(o);
	jo_end_arr(o);
}

static void add_top(struct json_out *o, const struct plan_sampling *s)
{
	if (s->top_p >= 0)
		jo_num(o, "top_p", s->top_p);
	if (s->top_k >= 0)
		jo_i64(o, "top_k", s->top_k);
}

static void add_sampling(struct json_out *o, const struct plan_sampling *s, const char *seed)
{
	jo_num(o, "temperature", s->temperature);
	if (seed)
		jo_u64(o, seed, s->seed);
	add_top(o, s);
}

static void openai_body(struct json_out *o, const struct proto *p, const struct proto_request *r)
{
	if (r->model)
		jo_str(o, "model", r->model);
	if (p->wire == WIRE_OPENAI_CHAT)
		add_messages(o, r);
	else
		add_prompt(o, r);
	jo_u64(o, p->wire == WIRE_LLAMACPP ? "n_predict" : "max_tokens", r->max_tok);
	if (r->sampling)
		add_sampling(o, r->sampling, "seed");
	if (r->force_output && p->ignore_eos)
		jo_bool(o, "ignore_eos", true);
	if (r->force_output && p->min_tokens)
		jo_u64(o, "min_tokens", r->max_tok);
	if (p->cache_prompt_off)
		jo_bool(o, "cache_prompt", false);
	jo_bool(o, "stream", !r->whole);
	if (p->wire != WIRE_LLAMACPP && !r->whole) {
		jo_obj(o, "stream_options");
		jo_bool(o, "include_usage", true);
		jo_end(o);
	}
}

// TGI refuses a temperature of 0, a top_p of 1 and a top_k of 0: what they stand for is said by leaving out.
static void tgi_body(struct json_out *o, const struct proto_request *r)
{
	const struct plan_sampling *s = r->sampling;
	add_text(o, "inputs", r);
	jo_obj(o, "parameters");
	jo_u64(o, "max_new_tokens", r->max_tok);
	jo_bool(o, "details", true);
	if (s) {
		jo_bool(o, "do_sample", s->temperature > 0);
		if (s->temperature > 0)
			jo_num(o, "temperature", s->temperature);
		jo_u64(o, "seed", s->seed);
		if (s->top_p >= 0 && s->top_p < 1)
			jo_num(o, "top_p", s->top_p);
		if (s->top_k > 0)
			jo_i64(o, "top_k", s->top_k);
	}
	jo_end(o);
}

static void ollama_body(struct json_out *o, const struct proto_request *r)
{
	if (r->model)
		jo_str(o, "model", r->model);
	add_messages(o, r);
	jo_bool(o, "stream", !r->whole);
	jo_bool(o, "truncate", false);
	jo_obj(o, "options");
	jo_u64(o, "num_predict", r->max_tok);
	if (r->sampling)
		add_sampling(o, r->sampling, "seed");
	jo_end(o);
}

static void sglang_body(struct json_out *o, const struct proto *p, const struct proto_request *r)
{
	if (r->prompt_ids)
		add_ids(o, "input_ids", r);
	else
		add_text(o, "text", r);
	jo_obj(o, "sampling_params");
	jo_u64(o, "max_new_tokens", r->max_tok);
	if (r->sampling)
		add_sampling(o, r->sampling, NULL);
	if (r->force_output && p->ignore_eos)
		jo_bool(o, "ignore_eos", true);
	jo_end(o);
	jo_bool(o, "stream", !r->whole);
}

// Members that a model does not know are passed to it as parameters, so none of them is refused; bad_words
// and stop_words had to be there in the first versions of the TensorRT-LLM backend.
static void triton_body(struct json_out *o, const struct proto *p, const struct proto_request *r)
{
	add_text(o, "text_input", r);
	jo_u64(o, "max_tokens", r->max_tok);
	if (r->sampling)
		add_sampling(o, r->sampling, "seed");
	if (r->force_output && p->min_tokens)
		jo_u64(o, "min_tokens", r->max_tok);
	jo_bool(o, "exclude_input_in_output", true);
	jo_str(o, "bad_words", "");
	jo_str(o, "stop_words", "");
	jo_bool(o, "stream", !r->whole);
}

static bool takes_ids(enum wire wire)
{
	return wire == WIRE_OPENAI_COMPLETIONS || wire == WIRE_LLAMACPP || wire == WIRE_SGLANG;
}

int proto_body(struct buf *out, const struct proto *p, const struct proto_request *r)
{
	struct json_out o;
	if (r->prompt_ids && !takes_ids(p->wire))
		return -1;
	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	switch (p->wire) {
	case WIRE_TGI:
		tgi_body(&o, r);
		break;
	case WIRE_OLLAMA:
		ollama_body(&o, r);
		break;
	case WIRE_SGLANG:
		sglang_body(&o, p, r);
		break;
	case WIRE_TRITON:
		triton_body(&o, p, r);
		break;
	case WIRE_OPENAI_CHAT:
	case WIRE_OPENAI_COMPLETIONS:
	case WIRE_LLAMACPP:
	case N_WIRES:
		openai_body(&o, p, r);
	}
	jo_end(&o);
	return out->failed ? -1 : 0;
}
