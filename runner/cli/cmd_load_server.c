/* SPDX-License-Identifier: Apache-2.0 */
/* What the server is, by one question. */
#include "base/clock.h"
#include "cli/cmd_load.h"
#include "engine/engine.h"
#include "load/scrub.h"

#include <math.h>
#include <string.h>

#define ANSWER_BYTES (4u << 20)
#define ASK_S 10.0

/* `owned_by` in the list of models is the server's own name for itself. */
static enum engine_kind engine_named(const char *owner)
{
	static const struct {
		const char *owner;
		enum engine_kind engine;
	} table[] = { { "llamacpp", ENGINE_LLAMACPP }, { "vllm", ENGINE_VLLM },
		      { "sglang", ENGINE_SGLANG },     { "tensorrt_llm", ENGINE_TRTLLM },
		      { "library", ENGINE_OLLAMA },    { "scripted", ENGINE_SCRIPTED } };
	for (size_t i = 0; owner && i < ARRAY_LEN(table); i++)
		if (strcmp(owner, table[i].owner) == 0)
			return table[i].engine;
	return ENGINE_ATTACH;
}

/* NULL when the name repeats the key: it would stand in every request and in the records. */
static char *model_named(const char *id, const char *key)
{
	auto_free char *shown = strdup(id);
	if (shown)
		scrub(shown, key);
	return shown && strcmp(shown, id) == 0 ? strdup(id) : NULL;
}

static void take_models(struct load_server *s, const struct load_opts *o, const struct buf *answer)
{
	struct err none = { 0 };
	auto_json list = NULL;
	if (!answer->p || json_parse(&list, answer->p, answer->len, "/v1/models", JSON_ENGINE, NULL, &none))
		return;
	const struct cJSON *data = json_get(list, "data"), *first = cJSON_IsArray(data) ? data->child : NULL;
	const char *id = json_str(first, "id");
	if (!s->model && id && *id)
		s->model = model_named(id, o->key);
	if (!o->engine_known)
		s->engine = engine_named(json_str(first, "owned_by"));
}

int load_server_open(struct load_server *out, const struct load_opts *o, struct err *err)
{
	struct load_server s = { .engine = o->engine };
	struct http_spec spec = { .base_url = o->url, .bearer = o->key, .ca_file = o->ca_file };
	auto_buf answer = BUF_INIT(ANSWER_BYTES);
	uint64_t until_ns = clock_now_ns() + (uint64_t)(fmin(o->first_byte_s, ASK_S) * 1e9);
	int status = 0;
	if (http_open(&s.http, &spec, err))
		return -1;
	s.model = o->model ? strdup(o->model) : NULL;
	if (http_call(s.http, "/v1/models", NULL, until_ns, ANSWER_BYTES, &status, &answer, err)) {
		load_server_done(&s);
		return err_wrap(err, "no server answers");
	}
	if (status == 200)
		take_models(&s, o, &answer);
	if (!proto_of(s.engine, o->api)) /* it names an engine and speaks more than we know of it */
		s.engine = ENGINE_ATTACH;
	*out = s;
	return 0;
}

void load_server_done(struct load_server *s)
{
	http_close(s->http);
	free(s->model);
}
