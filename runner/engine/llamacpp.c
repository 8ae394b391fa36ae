/* SPDX-License-Identifier: Apache-2.0 */
/* llama.cpp's server. Its chat endpoint applies the template and then tokenizes with special tokens added and
 * parsed; /apply-template and /tokenize with both flags give the same count as usage.prompt_tokens later. */
#include "engine/ask.h"

#include <string.h>

#define BODY_BYTES (64u << 20)

static int post_text(struct cJSON **out, struct http_client *c, const char *text, bool special,
                     struct err *err)
{
	auto_buf body = BUF_INIT(BODY_BYTES);
	struct json_out o;
	jo_init(&o, &body, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "content", text);
	jo_bool(&o, "add_special", special);
	jo_bool(&o, "parse_special", special);
	jo_end(&o);
	if (body.failed)
		return err_set(err, ERR_ENV, "/tokenize: the text is too long");
	return ask_ok(out, c, "/tokenize", body.p, err);
}

static int apply_template(char **out, struct http_client *c, const char *prompt, struct err *err)
{
	auto_buf body = BUF_INIT(BODY_BYTES);
	auto_json answer = NULL;
	struct json_out o;
	jo_init(&o, &body, 0);
	jo_obj(&o, NULL);
	ask_messages(&o, prompt);
	jo_end(&o);
	if (body.failed)
		return err_set(err, ERR_ENV, "/apply-template: the prompt is too long");
	if (ask_ok(&answer, c, "/apply-template", body.p, err))
		return -1;
	char *text = ask_copy(answer, "prompt");
	if (!text)
		return ask_error(err, "/apply-template", 200, NULL);
	*out = text;
	return 0;
}

int llamacpp_count_tokens(struct http_client *c, enum api api, const char *prompt, uint64_t *n,
                          struct err *err)
{
	auto_free char *text = NULL;
	auto_json answer = NULL;
	if (api_is_chat(api) && apply_template(&text, c, prompt, err))
		return -1;
	if (post_text(&answer, c, text ? text : prompt, true, err))
		return -1;
	const struct cJSON *tokens = json_get(answer, "tokens");
	if (!cJSON_IsArray(tokens))
		return ask_error(err, "/tokenize", 200, NULL);
	*n = (uint64_t)cJSON_GetArraySize(tokens);
	return 0;
}

int llamacpp_tokenize(struct http_client *c, const char *text, uint32_t **ids, size_t *n, struct err *err)
{
	auto_json answer = NULL;
	if (post_text(&answer, c, text, false, err))
		return -1;
	return ask_ids(ids, n, json_get(answer, "tokens"), "/tokenize", err);
}

static void take(char **slot, char *value)
{
	if (*slot)
		free(value);
	else
		*slot = value;
}

/* build_info is "b6123-1a2b3c4", or "b0-unknown" where the build did not know. */
static void split_build(struct engine_identity *id)
{
	const char *dash = id->build ? strchr(id->build, '-') : NULL;
	if (!dash || !strcmp(dash + 1, "unknown"))
		return;
	if (!id->version)
		id->version = strndup(id->build, (size_t)(dash - id->build));
	if (!id->commit)
		id->commit = strdup(dash + 1);
}

void identity_from_props(struct engine_identity *id, const struct cJSON *props)
{
	take(&id->build, ask_copy(props, "build_info"));
	split_build(id);
	take(&id->model_path, ask_copy(props, "model_path"));
	take(&id->model_name, ask_copy(props, "model_alias"));
	json_u64(props, "total_slots", &id->slots);
	json_u64(json_get(props, "default_generation_settings"), "n_ctx", &id->context_tok);
}

void identity_from_models(struct engine_identity *id, const struct cJSON *models)
{
	const struct cJSON *data = json_get(models, "data");
	const struct cJSON *first = cJSON_IsArray(data) ? data->child : NULL;
	take(&id->model_name, ask_copy(first, "id"));
	take(&id->model_path, ask_copy(first, "root")); /* vLLM, SGLang */
	if (id->context_tok == 0 && !json_u64(first, "max_model_len", &id->context_tok))
		json_u64(json_get(first, "meta"), "n_ctx", &id->context_tok);
}

int llamacpp_identity(struct http_client *c, struct engine_identity *out, struct err *err)
{
	struct engine_identity id = { 0 };
	struct cJSON *props = NULL, *models = NULL;
	struct err none;
	if (ask_ok(&props, c, "/props", NULL, err))
		return -1;
	if (ask_ok(&models, c, "/v1/models", NULL, &none))
		models = NULL;
	identity_from_props(&id, props);
	identity_from_models(&id, models);
	id.raw = cJSON_CreateObject();
	cJSON_AddItemToObject(id.raw, "props", props);
	if (models)
		cJSON_AddItemToObject(id.raw, "v1_models", models);
	*out = id;
	return 0;
}

const struct engine_ops engine_llamacpp = {
	.kind = ENGINE_LLAMACPP,
	.health_path = "/health",
	.metrics_path = "/metrics",
	.default_program = "llama-server",
	.has_tokenizer = true,
	.count_tokens = llamacpp_count_tokens,
	.tokenize = llamacpp_tokenize,
	.identity = llamacpp_identity,
};
