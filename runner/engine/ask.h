/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a server with a JSON answer; what the adapters share. */
#ifndef ENGINE_ASK_H
#define ENGINE_ASK_H

#include "base/json_out.h"
#include "engine/engine.h"

#define ASK_NS (30ull * 1000000000ull) /* for one question */
#define ASK_BYTES (16u << 20)

/* GET, or POST when `body` is given. Any HTTP status is an answer; *out is NULL when its text is no JSON. */
warn_unused int ask(struct cJSON **out, int *status, struct http_client *c, const char *path,
                    const char *body, uint64_t deadline_ns, struct err *err);
/* As `ask`, but only 200 with JSON will do; else ERR_ENV with the server's own words. */
warn_unused int ask_ok(struct cJSON **out, struct http_client *c, const char *path, const char *body,
                       struct err *err);
/* ERR_ENV: "/tokenize: HTTP 400: the server's message". Returns -1. */
int ask_error(struct err *err, const char *path, int status, const struct cJSON *answer);
/* The server's own words in an error answer, borrowed; NULL = none. */
const char *ask_message(const struct cJSON *answer);

/* malloc'd copy of a string member; NULL when absent. */
char *ask_copy(const struct cJSON *obj, const char *key);
/* ids and count of a JSON array of token ids. ERR_ENV when something else is in it. */
warn_unused int ask_ids(uint32_t **ids, size_t *n, const struct cJSON *tokens, const char *path,
                        struct err *err);
/* The server puts its chat template around the prompt. */
static inline bool api_is_chat(enum api api)
{
	return api == API_CHAT || api == API_OLLAMA;
}
/* [{"role":"user","content":prompt}] */
void ask_messages(struct json_out *o, const char *prompt);

/* llama.cpp's tokenizer and identity, used by every adapter whose server has them. */
warn_unused int llamacpp_count_tokens(struct http_client *c, enum api api, const char *prompt, uint64_t *n,
                                      struct err *err);
warn_unused int llamacpp_tokenize(struct http_client *c, const char *text, uint32_t **ids, size_t *n,
                                  struct err *err);
warn_unused int llamacpp_identity(struct http_client *c, struct engine_identity *out, struct err *err);
/* Fills what /props and /v1/models tell; either may be NULL. */
void identity_from_props(struct engine_identity *id, const struct cJSON *props);
void identity_from_models(struct engine_identity *id, const struct cJSON *models);

extern const struct engine_ops engine_llamacpp, engine_attach, engine_scripted;

#endif
