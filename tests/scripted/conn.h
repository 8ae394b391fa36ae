/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and the request it carries; shared by serve.c (sockets, timer) and answer.c (what is said). */
#ifndef SCRIPTED_CONN_H
#define SCRIPTED_CONN_H

#include "scripted.h"

enum api { API_CHAT, API_TEXT, API_NATIVE, API_TGI, API_OLLAMA, API_OLLAMA_GEN, API_SGLANG, API_TRITON };
enum phase { PH_EARLY, PH_TOKENS, PH_END };

struct request {
	uint64_t n; /* number among the requests that faults count; 0 = not counted */
	enum api api;
	enum phase phase;
	bool stream, usage, ignore_eos, in_slot;
	int headers; /* 0 none, 1 half, 2 all sent */
	int status;
	char *model, *prompt;
	uint64_t prompt_tok, n_out, k, max_tok;
	const char *finish;
	const struct fault *fault;
	struct sb text;   /* the whole answer */
	size_t *tok_end;  /* end of token i in `text` */
	uint64_t *tok_ns; /* when token i was handed to the socket */
	uint64_t recv_ns, start_ns, headers_ns, role_ns, end_ns, first_due_ns, max_late_ns;
};

struct conn {
	int fd;
	bool busy, close_after, dead, want_out;
	uint64_t accept_ns, due_ns;
	size_t heap_at; /* 0 = no timer */
	struct sb in, out;
	size_t out_off;
	struct request rq;
	struct conn *next; /* in the slot queue, or among the dead */
	struct conn *prev_live, *next_live;
};

/* serve.c */
void conn_send(struct conn *c, const void *data, size_t len); /* at once when the socket takes it */
void conn_due(struct conn *c, uint64_t due_ns);               /* NO_DUE = no timer */
void conn_drop(struct conn *c, bool reset);
void request_finished(struct conn *c); /* frees the slot, goes on with the next request */
bool slot_take(struct conn *c);        /* false: queued, request_start comes later */
void serve_restart(void);              /* also ends the request that asked for it */
extern uint64_t slots_used, slots_queued;

static inline struct span whole(const struct sb *b)
{
	return (struct span){ b->p, b->len };
}

static inline struct span literal(const char *s)
{
	return (struct span){ s, __builtin_strlen(s) };
}

static inline bool has(const struct request *r, enum fault_kind kind)
{
	return r->fault && r->fault->kind == kind;
}

/* answer.c */
struct http_in {
	char method[8], path[200];
	struct span body;
	bool authorised, close;
};
void answer(struct conn *c, const struct http_in *in);
void reply(struct conn *c, int status, const char *type, struct span body);
void reply_json(struct conn *c, int status, struct sb *body); /* frees the body */
extern uint64_t n_prompt_tok, n_output_tok, queued_ns, n_queue_times;

/* stream.c */
void request_start(struct conn *c);
void request_step(struct conn *c);     /* its due time has come */
void request_clear(struct request *r); /* writes the truth line of an unfinished request too */

/* One answer in one go: all of it, and its part behind the last token. Marks all tokens as sent. */
void answer_at_once(struct request *r, struct sb *body, struct sb *end);

/* wires.c: engines that do not speak as llama-server; only for r->api >= API_TGI */
void wire_tokens(struct sb *b, const struct request *r, uint64_t from, uint64_t to);
void wire_finish(struct sb *b, const struct request *r);
void wire_error(struct sb *b, const struct request *r);
void wire_whole(struct sb *b, const struct request *r);
const char *wire_content_type(const struct request *r);

/* wild.c */
bool wild_fault(enum fault_kind kind);
void wild_answer(struct conn *c); /* a child takes the connection */

#endif
