/* SPDX-License-Identifier: Apache-2.0 */
/* How to talk to a server: which path, how a request body looks, how its stream is read. Pure data and text.
 * The load engine knows a URL and one of these, never an engine. */
#ifndef MODEL_PROTO_H
#define MODEL_PROTO_H

#include "base/buf.h"
#include "model/plan.h"

enum wire {
	WIRE_OPENAI_CHAT,
	WIRE_OPENAI_COMPLETIONS,
	WIRE_LLAMACPP,
	WIRE_TGI,
	WIRE_OLLAMA, /* NDJSON */
	WIRE_SGLANG,
	WIRE_TRITON, /* Triton's generate extension, as TensorRT-LLM and other backends are served */
	N_WIRES
};

struct proto {
	enum wire wire;
	const char *path;       /* "/v1/chat/completions"; may hold {model}: proto_path */
	const char *whole_path; /* for an answer that is not streamed; NULL = the same */
	bool needs_done; /* the stream ends with [DONE]; without it the answer is truncated. End marks that
	                    are members of an event (llama.cpp, TGI, Ollama) are known to load/wire.h */
	bool ignore_eos; /* server takes "ignore_eos": true */
	bool min_tokens; /* server takes "min_tokens" */
	bool cache_prompt_off; /* server takes "cache_prompt": false */
	bool no_finish_reason; /* the wire names none, nor an end mark: a clean end of the HTTP message ends
	                          the answer (Triton) */
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
	bool whole;        /* not streamed */
	const struct plan_sampling *sampling;
};
/* The path for this request; 0, -1 without memory. `model` NULL where the path needs one: -1. */
int proto_path(struct buf *out, const struct proto *p, const char *model, bool whole);
/* One request body, always the same bytes for the same input. -1 without memory, over the maximum of `out`,
 * or where the wire cannot say what is asked: token ids to a server that takes text only (TGI, Ollama,
 * Triton). An exact length cannot be forced on TGI, Ollama and Triton (max_tok is then the most); SGLang's
 * native seed differs between versions and is not sent. Ollama is told not to cut a prompt that is too long.
 */
int proto_body(struct buf *out, const struct proto *p, const struct proto_request *r);

#endif
