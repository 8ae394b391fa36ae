/* SPDX-License-Identifier: Apache-2.0 */
/* A server that already runs. What it is, it says itself: the OpenAI list of models, and where they answer
 * llama.cpp's /props and vLLM's /version. */
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

static int no_tokenizer(struct err *err)
{
	return err_wrap(err, "the attached server offers no tokenizer that is known here");
}

static int count_tokens(struct http_client *c, enum api api, const char *prompt, uint64_t *n, struct err *err)
{
	auto_json answer = NULL;
	struct err not_llamacpp;
	if (!llamacpp_count_tokens(c, api, prompt, n, &not_llamacpp))
		return 0;
	if (other_tokenize(&answer, c, api == API_CHAT, true, prompt, err))
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

static int identity(struct http_client *c, struct engine_identity *out, struct err *err)
{
	struct engine_identity id = { 0 };
	struct cJSON *models = NULL, *props, *version;
	if (ask_ok(&models, c, "/v1/models", NULL, err))
		return -1;
	props = ask_maybe(c, "/props");
	version = ask_maybe(c, "/version");
	identity_from_props(&id, props);
	identity_from_models(&id, models);
	if (!id.version)
		id.version = ask_copy(version, "version");
	id.raw = cJSON_CreateObject();
	cJSON_AddItemToObject(id.raw, "v1_models", models);
	if (props)
		cJSON_AddItemToObject(id.raw, "props", props);
	if (version)
		cJSON_AddItemToObject(id.raw, "version", version);
	*out = id;
	return 0;
}

const struct engine_ops engine_attach = {
	.kind = ENGINE_ATTACH,
	.health_path = "/health",
	.has_tokenizer = true,
	.count_tokens = count_tokens,
	.tokenize = tokenize,
	.identity = identity,
};
