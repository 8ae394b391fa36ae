/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ask.h"

#include "base/clock.h"

#include <string.h>

int ask(struct cJSON **out, int *status, struct http_client *c, const char *path, const char *body,
        uint64_t deadline_ns, struct err *err)
{
	auto_buf answer = BUF_INIT(ASK_BYTES);
	struct cJSON *json = NULL;
	struct err no_json;
	if (http_call(c, path, body, deadline_ns, ASK_BYTES, status, &answer, err))
		return -1;
	if (json_parse(&json, answer.p ? answer.p : "", answer.len, path, JSON_ENGINE, NULL, &no_json))
		json = NULL;
	*out = json;
	return 0;
}

const char *ask_message(const struct cJSON *answer)
{
	const struct cJSON *error = json_get(answer, "error");
	const char *text = json_str(error, "message");
	if (!text)
		text = json_str(answer, "error");
	if (!text)
		text = json_str(answer, "message");
	return text ? text : json_str(answer, "detail");
}

int ask_error(struct err *err, const char *path, int status, const struct cJSON *answer)
{
	const char *text = ask_message(answer);
	if (status == 200)
		return err_set(err, ERR_ENV, "%s: the server's answer is not the JSON that was asked for",
		               path);
	return err_set(err, ERR_ENV, "%s: HTTP %d%s%.300s", path, status, text ? ": " : "", text ? text : "");
}

int ask_ok(struct cJSON **out, struct http_client *c, const char *path, const char *body, struct err *err)
{
	auto_json json = NULL;
	int status = 0;
	if (ask(&json, &status, c, path, body, clock_now_ns() + ASK_NS, err))
		return -1;
	if (status != 200 || !json)
		return ask_error(err, path, status, json);
	*out = steal_ptr(&json);
	return 0;
}

char *ask_copy(const struct cJSON *obj, const char *key)
{
	const char *text = json_str(obj, key);
	return text && *text ? strdup(text) : NULL;
}

int ask_ids(uint32_t **ids, size_t *n, const struct cJSON *tokens, const char *path, struct err *err)
{
	if (!cJSON_IsArray(tokens))
		return ask_error(err, path, 200, NULL);
	size_t len = 0;
	auto_free uint32_t *list = calloc((size_t)cJSON_GetArraySize(tokens) + 1, sizeof(list[0]));
	if (!list)
		return err_set(err, ERR_ENV, "%s: out of memory", path);
	for (const struct cJSON *t = tokens->child; t; t = t->next) {
		double id = cJSON_IsNumber(t) ? t->valuedouble : -1;
		if (!(id >= 0 && id <= UINT32_MAX) || (double)(uint32_t)id < id)
			return err_set(err, ERR_ENV, "%s: token %zu of the answer is no token id", path, len);
		list[len++] = (uint32_t)id;
	}
	*ids = steal_ptr(&list);
	*n = len;
	return 0;
}

void ask_messages(struct json_out *o, const char *prompt)
{
	jo_arr(o, "messages");
	jo_obj(o, NULL);
	jo_str(o, "role", "user");
	jo_str(o, "content", prompt);
	jo_end(o);
	jo_end_arr(o);
}
