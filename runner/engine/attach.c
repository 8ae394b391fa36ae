/* SPDX-License-Identifier: Apache-2.0 */
/* A server that already runs. What it is, it says itself: the OpenAI list of models, llama.cpp's /props,
 * vLLM's and Ollama's versions, TGI's /info, SGLang's and Triton's own words; any of them may be missing. */
#include "engine/ask.h"

#include "base/clock.h"

#include <string.h>

#define BODY_BYTES (64u << 20)

/* vLLM and SGLang; llama.cpp's own form was tried before and refused. */
static int other_tokenize(struct cJSON **out, struct http_client *c, bool chat, bool special,
                          const char *text, struct err *err)
{
	auto_buf body = BUF_INIT(BODY_BYTES);
	struct json_out o;
	jo_init(&o, &body, 0);
	jo_obj(&o, NULL);
	if (chat) {
		ask_messages(&o, text);
		jo_bool(&o, "add_generation_prompt", true);
	} else {
		jo_str(&o, "prompt", text);
		jo_bool(&o, "add_special_tokens", special);
	}
	jo_end(&o);
	if (body.failed)
		return err_set(err, ERR_ENV, "/tokenize: the text is too long");
	return ask_ok(out, c, "/tokenize", body.p, err);
}

/* TGI: a list of tokens, special ones too. */
static int tgi_tokenize(struct cJSON **out, struct http_client *c, const char *text, struct err *err)
{
	auto_buf body = BUF_INIT(BODY_BYTES);
	struct json_out o;
	jo_init(&o, &body, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "inputs", text);
	jo_end(&o);
	if (body.failed)
		return err_set(err, ERR_ENV, "/tokenize: the text is too long");
	return ask_ok(out, c, "/tokenize", body.p, err);
}

static int no_tokenizer(struct err *err)
{
	return err_wrap(err, "the attached server offers no tokenizer that is known here");
}

static int count_tgi(struct http_client *c, const char *prompt, uint64_t *n, struct err *err)
{
	auto_json answer = NULL;
	if (tgi_tokenize(&answer, c, prompt, err))
		return no_tokenizer(err);
	if (!cJSON_IsArray(answer))
		return ask_error(err, "/tokenize", 200, NULL);
	*n = (uint64_t)cJSON_GetArraySize(answer);
	return 0;
}

static int count_tokens(struct http_client *c, enum api api, const char *prompt, uint64_t *n, struct err *err)
{
	auto_json answer = NULL;
	struct err not_llamacpp;
	if (!llamacpp_count_tokens(c, api, prompt, n, &not_llamacpp))
		return 0;
	if (api == API_TGI)
		return count_tgi(c, prompt, n, err);
	if (other_tokenize(&answer, c, api_is_chat(api), true, prompt, err))
		return no_tokenizer(err);
	const struct cJSON *tokens = json_get(answer, "tokens");
	uint64_t count;
	if (json_u64(answer, "count", &count))
		*n = count;
	else if (cJSON_IsArray(tokens))
		*n = (uint64_t)cJSON_GetArraySize(tokens);
	else
		return ask_error(err, "/tokenize", 200, NULL);
	return 0;
}

static int tokenize(struct http_client *c, const char *text, uint32_t **ids, size_t *n, struct err *err)
{
	auto_json answer = NULL;
	struct err not_llamacpp;
	if (!llamacpp_tokenize(c, text, ids, n, &not_llamacpp))
		return 0;
	if (other_tokenize(&answer, c, false, false, text, err))
		return no_tokenizer(err);
	return ask_ids(ids, n, json_get(answer, "tokens"), "/tokenize", err);
}

static struct cJSON *ask_maybe(struct http_client *c, const char *path)
{
	struct cJSON *json = NULL;
	struct err none;
	return ask_ok(&json, c, path, NULL, &none) ? NULL : json;
}

static void take(char **slot, char *value)
{
	if (*slot)
		free(value);
	else
		*slot = value;
}

/* What each place tells beyond the two of identity_from_*. */
static void take_words(struct engine_identity *id, const struct cJSON *answer)
{
	const struct cJSON *models = json_get(answer, "models");
	take(&id->version, ask_copy(answer, "version"));
	take(&id->commit, ask_copy(answer, "sha"));
	take(&id->model_path, ask_copy(answer, "model_path"));
	take(&id->model_name, ask_copy(answer, "model_id"));
	take(&id->model_name, ask_copy(cJSON_IsArray(models) ? models->child : NULL, "name"));
}

static int identity(struct http_client *c, struct engine_identity *out, struct err *err)
{
	static const struct {
		const char *path, *key;
	} places[] = {
		{ "/props", "props" },
		{ "/v1/models", "v1_models" },
		{ "/version", "version" },
		{ "/info", "info" },
		{ "/api/version", "api_version" },
		{ "/api/tags", "api_tags" },
		{ "/get_model_info", "model_info" },
		{ "/v2", "v2" },
	};
	struct engine_identity id = { .raw = cJSON_CreateObject() };
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct cJSON *answer = ask_maybe(c, places[i].path);
		if (!answer)
			continue;
		if (i == 0)
			identity_from_props(&id, answer);
		else if (i == 1)
			identity_from_models(&id, answer);
		else
			take_words(&id, answer);
		cJSON_AddItemToObject(id.raw, places[i].key, answer);
	}
	if (!id.raw || !id.raw->child) {
		engine_identity_done(&id);
		return err_set(err, ERR_ENV,
		               "it answers at none of the places where a server tells what it is");
	}
	*out = id;
	return 0;
}

const struct engine_ops engine_attach = {
	.kind = ENGINE_ATTACH,
	.health_path = "/health",
	.metrics_path = "/metrics",
	.has_tokenizer = true,
	.count_tokens = count_tokens,
	.tokenize = tokenize,
	.identity = identity,
};
