/* SPDX-License-Identifier: Apache-2.0 */
/* How to talk to a server: which path, how a request body looks, how its stream is read. Pure data and text.
 * The load engine knows a URL and one of these, never an engine. */
#ifndef MODEL_PROTO_H
#define MODEL_PROTO_H

#include "base/buf.h"
#include "model/plan.h"

enum wire { WIRE_OPENAI_CHAT, WIRE_OPENAI_COMPLETIONS, WIRE_LLAMACPP };

struct proto {
	enum wire wire;
	const char *path;      /* "/v1/chat/completions" */
	bool needs_done;       /* the stream ends with [DONE]; without it the answer is truncated */
	bool ignore_eos;       /* server takes "ignore_eos": true */
	bool min_tokens;       /* server takes "min_tokens" */
	bool cache_prompt_off; /* server takes "cache_prompt": false */
};
const struct proto *proto_of(enum engine_kind engine,
                             enum api api); /* NULL: that engine has no such endpoint */

struct proto_request {
	const char *model;          /* model name to send, NULL = leave out */
	const char *prompt;         /* one user message (chat) or plain prompt (completions, native) */
	const char *messages;       /* ready JSON array instead of `prompt` (chat), or NULL */
	const uint32_t *prompt_ids; /* token ids instead of `prompt` (completions, native), or NULL */
	size_t n_prompt_ids;
	uint64_t max_tok;
	bool force_output; /* exactly max_tok where the server can */
	const struct plan_sampling *sampling;
};
/* One streaming request body, always the same bytes for the same input. */
int proto_body(struct buf *out, const struct proto *p, const struct proto_request *r);

#endif
