/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and how the request for a completion is read. */
#include "conn.h"

#include <stdlib.h>
#include <string.h>

uint64_t n_prompt_tok, n_output_tok, queued_ns, n_queue_times;
static uint64_t n_counted;
static uint64_t n_cache_asked, n_cache_hit; /* tokens; a cache that knows the prompt before, no more */
static char *cached_prompt;
static char last_prompt[256]; /* tail of an earlier prompt, for nonce-leak */

void reply(struct conn *c, int status, const char *type, struct span body)
{
	struct sb b = { 0 };
	sb_addf(&b, "HTTP/1.1 %d %s\r\nServer: scripted\r\nContent-Type: %s\r\nContent-Length: %zu\r\n",
	        status, status == 200 ? "OK" : "Error", type, body.len);
	if (opt.retry_after_s && (status == 429 || status == 503))
		sb_addf(&b, "Retry-After: %llu\r\n", (unsigned long long)opt.retry_after_s);
	sb_adds(&b, c->close_after || status >= 400 ? "Connection: close\r\n\r\n" : "\r\n");
	sb_add(&b, body.p, body.len);
	c->close_after |= status >= 400;
	c->rq.status = status;
	conn_send(c, b.p, b.len);
	free(b.p);
	request_finished(c);
}

void reply_json(struct conn *c, int status, struct sb *body)
{
	reply(c, status, "application/json; charset=utf-8", whole(body));
	free(body->p);
}

static void reply_error(struct conn *c, int status, const char *type, const char *message)
{
	struct sb b = { 0 };
	sb_adds(&b, "{\"error\":{\"message\":");
	sb_json(&b, message, strlen(message));
	sb_addf(&b, ",\"type\":\"%s\",\"code\":%d}}", type, status);
	reply_json(c, status, &b);
}

/* --- small endpoints --- */

static uint64_t slot_ctx(void)
{
	return opt.ctx_tok / opt.slots;
}

static void get_health(struct conn *c, const struct http_in *in)
{
	reply(c, 200, "application/json; charset=utf-8", literal("{\"status\":\"ok\"}"));
}

static void get_props(struct conn *c, const struct http_in *in)
{
	struct sb b = { 0 };
	sb_addf(&b, "{\"default_generation_settings\":{\"n_ctx\":%llu},\"total_slots\":%llu,\"model_alias\":",
	        (unsigned long long)slot_ctx(), (unsigned long long)opt.slots);
	sb_json(&b, opt.alias, strlen(opt.alias));
	sb_adds(&b, ",\"model_path\":");
	sb_json(&b, opt.model, strlen(opt.model));
	sb_adds(&b, ",\"chat_template\":\"<|role|>\\ncontent\\n\",\"build_info\":\"scripted-1\"}");
	reply_json(c, 200, &b);
}

static void get_models(struct conn *c, const struct http_in *in)
{
	struct sb b = { 0 };
	sb_adds(&b, "{\"object\":\"list\",\"data\":[{\"id\":");
	sb_json(&b, opt.alias, strlen(opt.alias));
	sb_addf(&b, ",\"object\":\"model\",\"owned_by\":\"scripted\",\"meta\":{\"n_ctx\":%llu}}]}",
	        (unsigned long long)slot_ctx());
	reply_json(c, 200, &b);
}

static void get_metrics(struct conn *c, const struct http_in *in)
{
	struct sb b = { 0 };
	if (!opt.metrics) {
		reply_error(c, 501, "not_supported_error", "This server does not support metrics endpoint.");
		return;
	}
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = { { "prompt_tokens_total", n_prompt_tok },
		     { "tokens_predicted_total", n_output_tok },
		     { "requests_processing", slots_used },
		     { "requests_deferred", slots_queued } };
	for (size_t i = 0; i < 4; i++)
		sb_addf(&b, "# TYPE llamacpp:%s gauge\nllamacpp:%s %llu\n", rows[i].name, rows[i].name,
		        (unsigned long long)rows[i].value);
	sb_addf(&b,
	        "# TYPE vllm:prefix_cache_queries counter\n"
	        "vllm:prefix_cache_queries_total{model_name=\"scripted\"} %llu\n"
	        "# TYPE vllm:prefix_cache_hits counter\n"
	        "vllm:prefix_cache_hits_total{model_name=\"scripted\"} %llu\n",
	        (unsigned long long)n_cache_asked, (unsigned long long)n_cache_hit);
	sb_addf(&b,
	        "# TYPE vllm:request_queue_time_seconds histogram\n"
	        "vllm:request_queue_time_seconds_sum %.6f\nvllm:request_queue_time_seconds_count %llu\n",
	        (double)queued_ns / 1e9, (unsigned long long)n_queue_times);
	reply(c, 200, "text/plain; version=0.0.4", whole(&b));
	free(b.p);
}

static bool apply_template(struct sb *out, struct span messages);

/* vLLM's form asks with "prompt" or "messages" and wants a count; TGI's with "inputs" and wants a list. */
static bool tokenize_as_others(struct conn *c, struct span body)
{
	struct span prompt = json_member(body, "prompt"), messages = json_member(body, "messages"),
		    inputs = json_member(body, "inputs");
	struct sb text = { 0 }, b = { 0 };
	size_t len = 0;
	if (!prompt.p && !messages.p && !inputs.p)
		return false;
	char *plain = json_text(prompt.p ? prompt : inputs, &len);
	sb_adds(&text, plain ? plain : "");
	if (messages.p)
		apply_template(&text, messages);
	free(plain);
	sb_adds(&b, inputs.p ? "[" : "{\"tokens\":[");
	size_t n = 0;
	for (size_t at = 0, next; at < text.len; at = next, n++) {
		next = next_piece(text.p, text.len, at);
		sb_addf(&b, inputs.p ? "%s{\"id\":%u}" : "%s%u", n ? "," : "",
		        piece_id(text.p + at, next - at));
	}
	sb_adds(&b, "]");
	if (!inputs.p)
		sb_addf(&b, ",\"count\":%zu,\"max_model_len\":%llu}", n, (unsigned long long)slot_ctx());
	free(text.p);
	reply_json(c, 200, &b);
	return true;
}

static void post_tokenize(struct conn *c, const struct http_in *in)
{
	struct sb b = { 0 };
	if (tokenize_as_others(c, in->body))
		return;
	size_t len = 0;
	char *text = json_text(json_member(in->body, "content"), &len);
	bool pieces = json_true(json_member(in->body, "with_pieces"));
	const char *comma = "";
	sb_adds(&b, "{\"tokens\":[");
	if (opt.bos && json_true(json_member(in->body, "add_special"))) {
		sb_addf(&b, pieces ? "{\"id\":%u,\"piece\":\"<s>\"}" : "%u", BOS_ID);
		comma = ",";
	}
	for (size_t at = 0, next; at < len; at = next, comma = ",") {
		next = next_piece(text, len, at);
		sb_addf(&b, pieces ? "%s{\"id\":%u,\"piece\":" : "%s%u", comma,
		        piece_id(text + at, next - at));
		if (pieces) {
			sb_json(&b, text + at, next - at);
			sb_adds(&b, "}");
		}
	}
	sb_adds(&b, "]}");
	free(text);
	reply_json(c, 200, &b);
}

static void add_pieces_of(struct sb *text, struct span ids)
{
	for (struct span id; json_elem(&ids, &id);) {
		size_t len = 0;
		uint32_t n = (uint32_t)json_number(id, 0);
		const char *piece = piece_of(n, &len);
		if (piece)
			sb_add(text, piece, len);
		else if (n != BOS_ID)
			sb_addf(text, " <%u>", n);
	}
}

static void post_detokenize(struct conn *c, const struct http_in *in)
{
	struct sb text = { 0 }, b = { 0 };
	sb_adds(&text, "");
	add_pieces_of(&text, json_member(in->body, "tokens"));
	sb_adds(&b, "{\"content\":");
	sb_json(&b, text.p, text.len);
	sb_adds(&b, "}");
	free(text.p);
	reply_json(c, 200, &b);
}

/* A message's content: a string, or parts with "text". */
static void add_content(struct sb *out, struct span content)
{
	size_t len;
	char *text = json_text(content, &len);
	if (text)
		sb_add(out, text, len);
	free(text);
	if (!content.p || content.p[0] != '[')
		return;
	for (struct span part; json_elem(&content, &part);)
		add_content(out, json_member(part, "text"));
}

static bool apply_template(struct sb *out, struct span messages)
{
	bool any = false;
	for (struct span m; json_elem(&messages, &m); any = true) {
		char *role = json_text(json_member(m, "role"), NULL);
		sb_adds(out, "<|");
		sb_adds(out, role ? role : "user");
		sb_adds(out, "|>\n");
		add_content(out, json_member(m, "content"));
		sb_adds(out, "\n");
		free(role);
	}
	sb_adds(out, "<|assistant|>\n");
	return any;
}

static void post_template(struct conn *c, const struct http_in *in)
{
	struct sb prompt = { 0 }, b = { 0 };
	apply_template(&prompt, json_member(in->body, "messages"));
	sb_adds(&b, "{\"prompt\":");
	sb_json(&b, prompt.p, prompt.len);
	sb_adds(&b, "}");
	free(prompt.p);
	reply_json(c, 200, &b);
}

/* --- a completion is read --- */

static const char *prompt_key(enum api api)
{
	return api == API_TGI      ? "inputs"
	       : api == API_SGLANG ? "text"
	       : api == API_TRITON ? "text_input"
	                           : "prompt";
}

static bool read_prompt(struct request *r, struct span body)
{
	struct sb text = { 0 };
	struct span prompt = json_member(body, prompt_key(r->api)), rest = prompt, first;
	bool ok, ids = false;
	sb_adds(&text, "");
	if (r->api == API_CHAT || r->api == API_OLLAMA) {
		ok = apply_template(&text, json_member(body, "messages"));
	} else {
		add_content(&text, prompt);
		ids = json_elem(&rest, &first) && first.len && strchr("0123456789", first.p[0]);
		if (ids)
			add_pieces_of(&text, prompt);
		else if (prompt.p && prompt.p[0] == '[' && first.len)
			add_content(&text, first);
		ok = prompt.p != NULL;
	}
	r->prompt = text.p;
	r->prompt_tok = count_pieces(text.p, text.len) + (opt.bos && !ids);
	return ok;
}

/* Where each engine wants its settings. */
static struct span settings(enum api api, struct span body)
{
	const char *key = api == API_TGI                               ? "parameters"
	                  : api == API_OLLAMA || api == API_OLLAMA_GEN ? "options"
	                  : api == API_SGLANG                          ? "sampling_params"
	                                                               : NULL;
	return key ? json_member(body, key) : body;
}

static uint64_t read_max_tok(struct span body)
{
	static const char *const names[] = { "max_completion_tokens", "max_tokens", "n_predict",
		                             "max_new_tokens", "num_predict" };
	for (size_t i = 0; i < 5; i++) {
		double v = json_number(json_member(body, names[i]), -1);
		if (v >= 0)
			return (uint64_t)v;
	}
	return UINT64_MAX;
}

static uint64_t text_key(const struct request *r, struct span body)
{
	double hot = json_number(json_member(settings(r->api, body), "temperature"), 0);
	double seed = json_number(json_member(settings(r->api, body), "seed"), 0);
	return hash64(r->prompt, strlen(r->prompt), hot > 0 ? (uint64_t)seed + 1 : 0);
}

static void set_length(struct request *r, const char *answer)
{
	uint64_t natural = answer ? count_pieces(answer, strlen(answer)) : opt.natural_tok;
	uint64_t room = slot_ctx() > r->prompt_tok ? slot_ctx() - r->prompt_tok : 0;
	if (r->max_tok == UINT64_MAX && r->ignore_eos)
		r->max_tok = room;
	r->n_out = r->ignore_eos || natural >= r->max_tok ? r->max_tok : natural;
	r->finish = !r->ignore_eos && natural < r->max_tok ? "stop" : "length";
	if (r->n_out > room) {
		r->n_out = room;
		r->finish = "length";
	}
}

/* The whole answer and where each of its tokens ends. */
static void write_text(struct request *r, const char *answer, uint64_t key)
{
	size_t at = 0, len = answer ? strlen(answer) : 0;
	const char *leak = has(r, F_NONCE_LEAK) ? last_prompt : NULL;
	if (leak) {
		answer = leak;
		len = strlen(leak);
	}
	if (has(r, F_EMPTY))
		r->n_out = 0;
	if (has(r, F_WRONG_LENGTH)) {
		r->n_out /= 2;
		r->finish = "stop";
	}
	r->tok_end = calloc(r->n_out + 1, sizeof(r->tok_end[0]));
	r->tok_ns = calloc(r->n_out + 1, sizeof(r->tok_ns[0]));
	if (!r->tok_end || !r->tok_ns)
		abort();
	sb_adds(&r->text, "");
	for (uint64_t i = 0; i < r->n_out; i++) {
		size_t next = next_piece(answer, len, at);
		if (has(r, F_CORRUPT_TEXT))
			sb_adds(&r->text, "!!!!");
		else if (has(r, F_BAD_UTF8) && i == r->fault->tok)
			sb_adds(&r->text, " \xff\xfe\xc3");
		else if (at < len)
			sb_add(&r->text, answer + at, next - at);
		else
			add_word(&r->text, key, i);
		at = next;
		r->tok_end[i] = r->text.len;
	}
}

/* Chat prompts end in the template's own words: those are not worth leaking. */
static void keep_tail(const char *prompt)
{
	const char *end = strstr(prompt, "\n<|assistant|>");
	size_t len = end ? (size_t)(end - prompt) : strlen(prompt), n = len < 200 ? len : 200;
	memcpy(last_prompt, prompt + len - n, n);
	last_prompt[n] = '\0';
}

static bool wants_stream(enum api api, const struct http_in *in)
{
	struct span asked = json_member(in->body, "stream");
	if (api == API_TGI || api == API_TRITON)
		return strstr(in->path, "generate_stream") != NULL;
	if (api == API_OLLAMA || api == API_OLLAMA_GEN)
		return !asked.p || json_true(asked);
	return json_true(asked);
}

/* A prompt that holds a code word (PMK and 13 of A-Z2-7) gets an answer that begins with it. */
static char *answer_with_code(const char *prompt)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
	const char *known = answer_for(prompt), *at = prompt;
	struct sb b = { 0 };
	while ((at = strstr(at, "PMK"))) {
		if (strspn(at + 3, letters) >= 13)
			break;
		at += 3;
	}
	if (!at)
		return known ? strdup(known) : NULL;
	sb_add(&b, at, 16);
	if (known)
		sb_addf(&b, " %.500s", known);
	return b.p;
}

static void count_cache(const struct request *r)
{
	size_t n = 0;
	while (cached_prompt && cached_prompt[n] && cached_prompt[n] == r->prompt[n])
		n++;
	n_cache_asked += r->prompt_tok;
	n_cache_hit += count_pieces(r->prompt, n);
	free(cached_prompt);
	cached_prompt = strdup(r->prompt);
}

static void post_completion(struct conn *c, const struct http_in *in, enum api api)
{
	struct request *r = &c->rq;
	r->api = api;
	if (!json_valid_shape(in->body)) {
		reply_error(c, 400, "invalid_request_error", "parse error: not a JSON object");
		return;
	}
	r->stream = wants_stream(api, in);
	r->usage = json_true(json_member(json_member(in->body, "stream_options"), "include_usage"));
	r->ignore_eos = json_true(json_member(settings(api, in->body), "ignore_eos"));
	r->max_tok = read_max_tok(settings(api, in->body));
	r->model = json_text(json_member(in->body, "model"), NULL);
	if (!read_prompt(r, in->body)) {
		reply_error(c, 400, "invalid_request_error", "'messages' or 'prompt' is missing");
		return;
	}
	if (r->prompt_tok >= slot_ctx()) {
		reply_error(c, 400, "exceed_context_size_error",
		            "request exceeds the available context size");
		return;
	}
	if (r->stream || opt.fault_all) {
		r->n = ++n_counted;
		r->fault = fault_for(r->n, r->prompt);
	}
	if (has(r, F_HTTP)) {
		reply_error(c, r->fault->http, r->fault->http == 503 ? "unavailable_error" : "server_error",
		            "scripted failure");
		return;
	}
	count_cache(r);
	char *answer = answer_with_code(r->prompt);
	set_length(r, answer);
	write_text(r, answer, text_key(r, in->body));
	free(answer);
	keep_tail(r->prompt);
	if (slot_take(c))
		request_start(c);
}

static void post_chat(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_CHAT);
}

static void post_text(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_TEXT);
}

static void post_native(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_NATIVE);
}

static void post_tgi(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_TGI);
}

/* TGI and SGLang share a path and differ in what they are asked with. */
static void post_generate(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, json_member(in->body, "inputs").p ? API_TGI : API_SGLANG);
}

static void post_ollama(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_OLLAMA);
}

static void post_ollama_gen(struct conn *c, const struct http_in *in)
{
	post_completion(c, in, API_OLLAMA_GEN);
}

static bool is_triton(const struct http_in *in)
{
	const char *last = strrchr(in->path, '/');
	return !strcmp(in->method, "POST") && !strncmp(in->path, "/v2/models/", 11) &&
	       (!strcmp(last, "/generate_stream") || !strcmp(last, "/generate"));
}

static const struct {
	const char *method, *path;
	void (*fn)(struct conn *c, const struct http_in *in);
} routes[] = {
	{ "GET", "/health", get_health },
	{ "GET", "/v1/health", get_health },
	{ "GET", "/props", get_props },
	{ "GET", "/v1/models", get_models },
	{ "GET", "/metrics", get_metrics },
	{ "POST", "/tokenize", post_tokenize },
	{ "POST", "/detokenize", post_detokenize },
	{ "POST", "/apply-template", post_template },
	{ "POST", "/v1/chat/completions", post_chat },
	{ "POST", "/chat/completions", post_chat },
	{ "POST", "/v1/completions", post_text },
	{ "POST", "/completion", post_native },
	{ "POST", "/generate_stream", post_tgi },
	{ "POST", "/generate", post_generate },
	{ "POST", "/api/chat", post_ollama },
	{ "POST", "/api/generate", post_ollama_gen },
	{ "GET", "/api/version", get_health },
	{ "GET", "/info", get_health },
};

void answer(struct conn *c, const struct http_in *in)
{
	if (!strcmp(in->path, "/health") && fault_of_kind(F_HANG_HEALTH))
		return;
	if (fault_of_kind(F_NEVER_READY) || c->rq.recv_ns < ready_at_ns) {
		reply_error(c, 503, "unavailable_error", "Loading model");
		return;
	}
	if (!in->authorised && strcmp(in->path, "/health") != 0) {
		reply_error(c, 401, "authentication_error", "Invalid API Key");
		return;
	}
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (!strcmp(routes[i].path, in->path) && !strcmp(routes[i].method, in->method)) {
			routes[i].fn(c, in);
			return;
		}
	if (is_triton(in)) {
		post_completion(c, in, API_TRITON);
		return;
	}
	reply_error(c, 404, "not_found_error", "File Not Found");
}
