/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a completion, each at its due time, with the faults on the way. */
#include "conn.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- events --- */

static void add_tail(struct sb *b, const struct request *r, const char *object)
{
	const char *model = r->model ? r->model : opt.alias;
	sb_adds(b, ",\"created\":1700000000,\"model\":");
	sb_json(b, model, strlen(model));
	sb_addf(b, ",\"system_fingerprint\":\"scripted-1\",\"object\":\"%s\",\"id\":\"chatcmpl-%llu\"",
	        object, (unsigned long long)r->n);
}

static void add_usage(struct sb *b, const struct request *r)
{
	unsigned long long in = r->prompt_tok, out = r->k + has(r, F_WRONG_USAGE);
	sb_addf(b,
	        ",\"usage\":{\"completion_tokens\":%llu,\"prompt_tokens\":%llu,\"total_tokens\":%llu,"
	        "\"prompt_tokens_details\":{\"cached_tokens\":0}}",
	        out, in, in + out);
}

static void add_timings(struct sb *b, const struct request *r)
{
	double first = r->k ? (double)(r->tok_ns[0] - r->start_ns) / 1e6 : 0;
	double rest = r->k ? (double)(r->tok_ns[r->k - 1] - r->tok_ns[0]) / 1e6 : 0;
	sb_addf(b,
	        ",\"timings\":{\"cache_n\":0,\"prompt_n\":%llu,\"prompt_ms\":%.3f,\"predicted_n\":%llu,"
	        "\"predicted_ms\":%.3f}",
	        (unsigned long long)r->prompt_tok, first, (unsigned long long)r->k, rest);
}

static void event_role(struct sb *b, const struct request *r)
{
	if (r->api != API_CHAT)
		return;
	sb_adds(b,
	        "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":\"assistant\","
	        "\"content\":null}}]");
	add_tail(b, r, "chat.completion.chunk");
	sb_adds(b, "}\n\n");
}

/* The text of tokens from..to-1 in one event. */
static void event_tokens(struct sb *b, const struct request *r, uint64_t from, uint64_t to)
{
	if (r->api >= API_TGI) {
		wire_tokens(b, r, from, to);
		return;
	}
	size_t start = from ? r->tok_end[from - 1] : 0;
	const char *text = r->text.p + start;
	size_t len = r->tok_end[to - 1] - start;
	static const char *const before[] = {
		[API_CHAT] =
			"data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":",
		[API_TEXT] =
			"data: {\"choices\":[{\"index\":0,\"logprobs\":null,\"finish_reason\":null,\"text\":",
		[API_NATIVE] = "data: {\"index\":0,\"content\":",
	};
	sb_adds(b, before[r->api]);
	sb_json(b, text, len);
	if (r->api == API_NATIVE) {
		sb_adds(b, ",\"tokens\":[");
		for (uint64_t i = from; i < to; i++) {
			size_t at = i ? r->tok_end[i - 1] : 0;
			sb_addf(b, "%s%u", i > from ? "," : "", piece_id(r->text.p + at, r->tok_end[i] - at));
		}
		sb_addf(b,
		        "],\"stop\":false,\"id_slot\":0,\"tokens_predicted\":%llu,\"tokens_evaluated\":%llu",
		        (unsigned long long)to, (unsigned long long)r->prompt_tok);
	} else {
		sb_adds(b, r->api == API_CHAT ? "}}]" : "}]");
		add_tail(b, r, r->api == API_CHAT ? "chat.completion.chunk" : "text_completion");
	}
	sb_adds(b, "}\n\n");
}

static void event_native_end(struct sb *b, const struct request *r, struct span content)
{
	sb_adds(b, "\"index\":0,\"content\":");
	sb_json(b, content.p, content.len);
	sb_addf(b,
	        ",\"tokens\":[],\"id_slot\":0,\"stop\":true,\"tokens_predicted\":%llu,"
	        "\"tokens_evaluated\":%llu,\"truncated\":false,\"stop_type\":\"%s\",\"stopping_word\":\"\"",
	        (unsigned long long)r->k, (unsigned long long)r->prompt_tok,
	        strcmp(r->finish, "stop") ? "limit" : "eos");
	add_timings(b, r);
}

static void event_finish(struct sb *b, const struct request *r)
{
	if (r->api >= API_TGI) {
		wire_finish(b, r);
		return;
	}
	if (r->api == API_NATIVE) {
		sb_adds(b, "data: {");
		event_native_end(b, r, literal(""));
		sb_adds(b, "}\n\n");
		return;
	}
	if (r->api == API_TEXT) {
		sb_addf(b,
		        "data: "
		        "{\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"%s\"}"
		        "]",
		        r->finish);
		add_tail(b, r, "text_completion");
		add_usage(b, r);
		add_timings(b, r);
		sb_adds(b, "}\n\n");
		return;
	}
	sb_addf(b, "data: {\"choices\":[{\"finish_reason\":\"%s\",\"index\":0,\"delta\":{}}]", r->finish);
	add_tail(b, r, "chat.completion.chunk");
	if (!r->usage)
		add_timings(b, r);
	sb_adds(b, "}\n\n");
	if (!r->usage)
		return;
	sb_adds(b, "data: {\"choices\":[]");
	add_tail(b, r, "chat.completion.chunk");
	add_usage(b, r);
	add_timings(b, r);
	sb_adds(b, "}\n\n");
}

/* --- steps --- */

static void send_chunk(struct conn *c, struct span data)
{
	struct sb b = { 0 };
	sb_addf(&b, "%zx\r\n", data.len);
	sb_add(&b, data.p, data.len);
	sb_adds(&b, "\r\n");
	conn_send(c, b.p, b.len);
	free(b.p);
}

static void send_headers(struct conn *c, bool half)
{
	static const char first[] = "HTTP/1.1 200 OK\r\nServer: scripted\r\n";
	struct request *r = &c->rq;
	struct sb b = { 0 };
	if (r->headers == 0)
		sb_adds(&b, first);
	if (!half && r->headers < 2) {
		sb_adds(&b, "Content-Type: ");
		sb_adds(&b, wire_content_type(r));
		sb_adds(&b, "\r\nTransfer-Encoding: chunked\r\n");
		sb_adds(&b, c->close_after ? "Connection: close\r\n\r\n" : "\r\n");
		r->headers_ns = now_ns();
	}
	r->headers = half ? 1 : 2;
	conn_send(c, b.p, b.len);
	free(b.p);
}

static uint64_t token_due(const struct request *r, uint64_t k)
{
	uint64_t jitter =
		opt.jitter_ns ? mix64(opt.seed * 1000003 + r->n * 7919 + k) % (opt.jitter_ns + 1) : 0;
	uint64_t spike = has(r, F_SPIKE) && k >= r->fault->tok ? opt.slow_ns : 0;
	return r->first_due_ns + k * opt.itl_ns + jitter + spike;
}

static uint64_t group_of(const struct request *r)
{
	uint64_t left = r->n_out - r->k;
	uint64_t g = has(r, F_MULTI_TOK) || has(r, F_MULTI_EVENT) ? opt.group : 1;
	return g < left ? g : left;
}

static bool breaks(const struct request *r)
{
	return r->fault && (r->k >= r->fault->tok || r->k == r->n_out);
}

static void schedule(struct conn *c)
{
	struct request *r = &c->rq;
	if (c->dead)
		return;
	if (r->k < r->n_out && r->stream) {
		conn_due(c, token_due(r, r->k + group_of(r) - 1));
		return;
	}
	r->phase = PH_END;
	uint64_t due = token_due(r, r->n_out ? r->n_out - 1 : 0);
	conn_due(c, strcmp(r->finish, "stop") || !r->stream ? due : due + opt.itl_ns);
}

void request_start(struct conn *c)
{
	struct request *r = &c->rq;
	r->start_ns = now_ns();
	queued_ns += r->start_ns - r->recv_ns;
	n_queue_times++;
	r->first_due_ns = r->start_ns + opt.ttft_ns + r->prompt_tok * opt.per_prompt_tok_ns;
	if (has(r, F_SLOW_HEADERS))
		r->first_due_ns += opt.slow_ns;
	if (fault_of_kind(F_HANG_COMPLETION))
		return;
	if (r->fault && wild_fault(r->fault->kind)) {
		wild_answer(c);
		return;
	}
	bool early = opt.early_headers || has(r, F_ROLE_EARLY) || has(r, F_SLOW_HEADERS);
	r->phase = PH_TOKENS;
	if (r->stream && early) {
		r->phase = PH_EARLY;
		conn_due(c, r->start_ns);
		return;
	}
	schedule(c);
}

static void send_role(struct conn *c)
{
	struct sb b = { 0 };
	if (c->dead)
		return;
	event_role(&b, &c->rq);
	c->rq.role_ns = now_ns();
	if (b.len)
		send_chunk(c, whole(&b));
	free(b.p);
}

static void step_early(struct conn *c)
{
	send_headers(c, has(&c->rq, F_SLOW_HEADERS));
	if (c->rq.headers == 2)
		send_role(c);
	c->rq.phase = PH_TOKENS;
	schedule(c);
}

static void write_truth(const struct request *r);

static bool ends_with_done(const struct request *r)
{
	return r->api == API_CHAT || r->api == API_TEXT || r->api == API_SGLANG;
}

/* The faults that end an answer before its end. True when the answer is over. */
static bool break_off(struct conn *c)
{
	struct request *r = &c->rq;
	struct sb error = { 0 };
	switch ((int)r->fault->kind) {
	case F_CUT:
		conn_drop(c, false);
		return true;
	case F_RST:
		conn_drop(c, true);
		return true;
	case F_STALL:
		return true;
	case F_DIE:
		write_truth(r);
		fputs("GGML_ASSERT(scripted) failed\n", stderr);
		_exit(1);
	case F_RESTART:
		serve_restart();
		return true;
	case F_KILL9:
		write_truth(r);
		kill(getpid(), SIGKILL);
		return true;
	case F_ERROR_IN_STREAM:
		if (r->headers < 2)
			send_headers(c, false);
		wire_error(&error, r);
		send_chunk(c, whole(&error));
		free(error.p);
		if (ends_with_done(r))
			send_chunk(c, literal("data: [DONE]\n\n"));
		conn_send(c, "0\r\n\r\n", 5);
		request_finished(c);
		return true;
	default:
		return false;
	}
}

static void step_tokens(struct conn *c)
{
	struct request *r = &c->rq;
	uint64_t to = r->k + group_of(r), from = r->k;
	struct sb b = { 0 };
	if (r->headers < 2)
		send_headers(c, false);
	if (c->dead) /* a failed write drops the connection and clears the request */
		return;
	if (has(r, F_COMMENTS))
		sb_adds(&b, ":\n\n");
	if (r->role_ns == 0)
		event_role(&b, r);
	if (has(r, F_BAD_JSON) && from == r->fault->tok)
		sb_adds(&b, "data: {\"choices\":[{\"delta\":{\"content\":\"cut\n\n");
	if (has(r, F_MULTI_EVENT))
		for (uint64_t i = from; i < to; i++)
			event_tokens(&b, r, i, i + 1);
	else
		event_tokens(&b, r, from, to);
	uint64_t due = token_due(r, to - 1), now = now_ns();
	for (; r->k < to; r->k++)
		r->tok_ns[r->k] = now;
	if (now - due > r->max_late_ns)
		r->max_late_ns = now - due;
	if (r->role_ns == 0)
		r->role_ns = now;
	send_chunk(c, whole(&b));
	free(b.p);
	schedule(c);
}

void answer_at_once(struct request *r, struct sb *body, struct sb *end)
{
	uint64_t now = now_ns();
	event_role(body, r);
	for (; r->k < r->n_out; r->k++) {
		event_tokens(body, r, r->k, r->k + 1);
		r->tok_ns[r->k] = now;
	}
	event_finish(end, r);
	if (ends_with_done(r))
		sb_adds(end, "data: [DONE]\n\n");
	sb_add(body, end->p, end->len);
	r->end_ns = now;
}

static void end_stream(struct conn *c)
{
	struct request *r = &c->rq;
	struct sb b = { 0 };
	if (r->headers < 2)
		send_headers(c, false);
	if (c->dead)
		return;
	if (r->role_ns == 0)
		event_role(&b, r);
	event_finish(&b, r);
	if (b.len)
		send_chunk(c, whole(&b));
	free(b.p);
	if (ends_with_done(r) && !has(r, F_NO_DONE))
		send_chunk(c, literal("data: [DONE]\n\n"));
	conn_send(c, "0\r\n\r\n", 5);
	r->end_ns = now_ns();
	request_finished(c);
}

static void end_whole(struct conn *c)
{
	struct request *r = &c->rq;
	struct sb b = { 0 };
	uint64_t now = now_ns();
	for (; r->k < r->n_out; r->k++)
		r->tok_ns[r->k] = now;
	r->end_ns = now;
	if (r->api >= API_TGI) {
		wire_whole(&b, r);
		reply_json(c, 200, &b);
		return;
	}
	sb_adds(&b, r->api == API_NATIVE ? "{" : "{\"choices\":[{\"index\":0,");
	if (r->api == API_NATIVE) {
		event_native_end(&b, r, whole(&r->text));
	} else {
		sb_addf(&b, "\"finish_reason\":\"%s\",", r->finish);
		sb_adds(&b, r->api == API_CHAT ? "\"message\":{\"role\":\"assistant\",\"content\":"
		                               : "\"text\":");
		sb_json(&b, r->text.p, r->text.len);
		sb_adds(&b, r->api == API_CHAT ? "}}]" : "}]");
		add_tail(&b, r, r->api == API_CHAT ? "chat.completion" : "text_completion");
		add_usage(&b, r);
		add_timings(&b, r);
	}
	sb_adds(&b, "}");
	reply_json(c, 200, &b);
}

void request_step(struct conn *c)
{
	struct request *r = &c->rq;
	if (r->phase == PH_EARLY)
		step_early(c);
	else if (breaks(r) && break_off(c))
		return;
	else if (r->phase == PH_TOKENS)
		step_tokens(c);
	else if (r->stream)
		end_stream(c);
	else
		end_whole(c);
}

/* --- what was really sent --- */

static void write_truth(const struct request *r)
{
	FILE *f = opt.truth;
	const char *const paths[] = {
		"/v1/chat/completions", "/v1/completions", "/completion", "/generate_stream", "/api/chat",
		"/api/generate",        "/generate",       "/v2/models"
	};
	if (!f || !r->prompt)
		return;
	fprintf(f,
	        "{\"n\":%llu,\"path\":\"%s\",\"stream\":%s,\"status\":%d,\"prompt_tok\":%llu,\"output_tok\":%"
	        "llu,"
	        "\"recv_ns\":%llu,\"start_ns\":%llu,\"first_due_ns\":%llu,\"headers_ns\":%llu,\"role_ns\":%"
	        "llu,"
	        "\"end_ns\":%llu,\"max_late_ns\":%llu,\"fault\":%s,\"finish\":\"%s\",\"tok_ns\":[",
	        (unsigned long long)r->n, paths[r->api], r->stream ? "true" : "false", r->status,
	        (unsigned long long)r->prompt_tok, (unsigned long long)r->k, (unsigned long long)r->recv_ns,
	        (unsigned long long)r->start_ns, (unsigned long long)r->first_due_ns,
	        (unsigned long long)r->headers_ns, (unsigned long long)r->role_ns,
	        (unsigned long long)r->end_ns, (unsigned long long)r->max_late_ns,
	        r->fault ? "true" : "false", r->finish ? r->finish : "");
	for (uint64_t i = 0; i < r->k; i++)
		fprintf(f, "%s%llu", i ? "," : "", (unsigned long long)r->tok_ns[i]);
	fputs("]}\n", f);
	fflush(f);
}

void request_clear(struct request *r)
{
	write_truth(r);
	n_prompt_tok += r->prompt_tok;
	n_output_tok += r->k;
	free(r->model);
	free(r->prompt);
	free(r->text.p);
	free(r->tok_end);
	free(r->tok_ns);
	*r = (struct request){ 0 };
}
