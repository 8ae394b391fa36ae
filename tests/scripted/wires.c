/* SPDX-License-Identifier: Apache-2.0 */
/* The event forms of other engines: TGI, Ollama (NDJSON), SGLang's own, Triton's generate extension. */
#include "conn.h"

#include <string.h>

static struct span tokens_text(const struct request *r, uint64_t from, uint64_t to)
{
	size_t start = from ? r->tok_end[from - 1] : 0, end = to ? r->tok_end[to - 1] : 0;
	return (struct span){ r->text.p + start, end - start };
}

static void add_name(struct sb *b, const char *key, const struct request *r)
{
	const char *model = r->model ? r->model : opt.alias;
	sb_addf(b, "\"%s\":", key);
	sb_json(b, model, strlen(model));
}

/* --- TGI --- */

static void tgi_details(struct sb *b, const struct request *r)
{
	sb_addf(b, "{\"finish_reason\":\"%s\",\"generated_tokens\":%llu,\"seed\":null,\"input_length\":%llu}",
	        strcmp(r->finish, "stop") ? "length" : "eos_token",
	        (unsigned long long)(r->k + has(r, F_WRONG_USAGE)), (unsigned long long)r->prompt_tok);
}

/* The last token's event is the end as well. */
static void tgi_event(struct sb *b, const struct request *r, uint64_t from, uint64_t to, bool last)
{
	struct span text = tokens_text(r, from, to);
	sb_addf(b, "data:{\"index\":%llu,\"token\":{\"id\":%u,\"text\":", (unsigned long long)to,
	        piece_id(text.p, text.len));
	sb_json(b, text.p, text.len);
	sb_adds(b, ",\"logprob\":-0.25,\"special\":false},\"generated_text\":");
	if (last) {
		sb_json(b, r->text.p, r->text.len);
		sb_adds(b, ",\"details\":");
		tgi_details(b, r);
	} else {
		sb_adds(b, "null,\"details\":null");
	}
	sb_adds(b, "}\n\n");
}

static void tgi_whole(struct sb *b, const struct request *r)
{
	sb_adds(b, "{\"generated_text\":");
	sb_json(b, r->text.p, r->text.len);
	sb_adds(b, ",\"details\":");
	tgi_details(b, r);
	sb_adds(b, "}");
}

/* --- Ollama --- */

static void ollama_line(struct sb *b, const struct request *r, struct span text, bool done)
{
	sb_adds(b, "{");
	add_name(b, "model", r);
	sb_adds(b, ",\"created_at\":\"2026-01-01T00:00:00.000000001Z\",");
	sb_adds(b,
	        r->api == API_OLLAMA ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":");
	sb_json(b, text.p, text.len);
	sb_adds(b, r->api == API_OLLAMA ? "}," : ",");
	if (!done) {
		sb_adds(b, "\"done\":false}\n");
		return;
	}
	uint64_t first = r->k ? r->tok_ns[0] - r->start_ns : 0;
	uint64_t rest = r->k ? r->tok_ns[r->k - 1] - r->tok_ns[0] : 0;
	sb_addf(b,
	        "\"done_reason\":\"%s\",\"done\":true,\"total_duration\":%llu,\"load_duration\":0,"
	        "\"prompt_eval_count\":%llu,\"prompt_eval_duration\":%llu,\"eval_count\":%llu,"
	        "\"eval_duration\":%llu}\n",
	        r->finish, (unsigned long long)(first + rest), (unsigned long long)r->prompt_tok,
	        (unsigned long long)first, (unsigned long long)(r->k + has(r, F_WRONG_USAGE)),
	        (unsigned long long)rest);
}

/* --- SGLang --- */

static void sglang_object(struct sb *b, const struct request *r, uint64_t to, bool done)
{
	struct span text = tokens_text(r, 0, to);
	sb_adds(b, "{\"text\":");
	sb_json(b, text.p, text.len);
	sb_addf(b,
	        ",\"output_ids\":[],\"meta_info\":{\"id\":\"%llu\",\"prompt_tokens\":%llu,"
	        "\"weight_version\":\"default\",\"completion_tokens\":%llu,\"cached_tokens\":0,",
	        (unsigned long long)r->n, (unsigned long long)r->prompt_tok,
	        (unsigned long long)(to + (done && has(r, F_WRONG_USAGE))));
	if (!done)
		sb_adds(b, "\"finish_reason\":null}}");
	else if (strcmp(r->finish, "stop"))
		sb_addf(b, "\"finish_reason\":{\"type\":\"length\",\"length\":%llu},\"e2e_latency\":0.5}}",
		        (unsigned long long)to);
	else
		sb_adds(b, "\"finish_reason\":{\"type\":\"stop\",\"matched\":2},\"e2e_latency\":0.5}}");
}

static void sglang_event(struct sb *b, const struct request *r, uint64_t to, bool done)
{
	sb_adds(b, "data: ");
	sglang_object(b, r, to, done);
	sb_adds(b, "\n\n");
}

/* --- Triton --- */

static void triton_object(struct sb *b, const struct request *r, struct span text)
{
	sb_adds(b, "{");
	add_name(b, "model_name", r);
	sb_adds(b,
	        ",\"model_version\":\"1\",\"sequence_end\":false,\"sequence_id\":0,\"sequence_start\":false,"
	        "\"text_output\":");
	sb_json(b, text.p, text.len);
	sb_adds(b, "}");
}

/* --- by wire --- */

const char *wire_content_type(const struct request *r)
{
	return r->api == API_OLLAMA || r->api == API_OLLAMA_GEN ? "application/x-ndjson"
	                                                        : "text/event-stream";
}

void wire_tokens(struct sb *b, const struct request *r, uint64_t from, uint64_t to)
{
	bool last = to == r->n_out;
	struct span text = tokens_text(r, from, to);
	struct request now = *r;
	now.k = to;
	switch ((int)r->api) {
	case API_TGI:
		tgi_event(b, &now, from, to, last);
		break;
	case API_OLLAMA:
	case API_OLLAMA_GEN:
		ollama_line(b, r, text, false);
		break;
	case API_SGLANG:
		sglang_event(b, r, to, last);
		break;
	default:
		sb_adds(b, "data: ");
		triton_object(b, r, text);
		sb_adds(b, "\n\n");
	}
}

void wire_finish(struct sb *b, const struct request *r)
{
	if (r->api == API_OLLAMA || r->api == API_OLLAMA_GEN)
		ollama_line(b, r, literal(""), true);
	else if (r->api == API_SGLANG && r->n_out == 0)
		sglang_event(b, r, 0, true);
}

void wire_error(struct sb *b, const struct request *r)
{
	switch ((int)r->api) {
	case API_TGI:
		sb_adds(b, "data:{\"error\":\"scripted failure\",\"error_type\":\"generation\"}\n\n");
		break;
	case API_OLLAMA:
	case API_OLLAMA_GEN:
		sb_adds(b, "{\"error\":\"scripted failure\"}\n");
		break;
	case API_TRITON:
		sb_adds(b, "data: {\"error\":\"scripted failure\"}\n\n");
		break;
	default:
		sb_adds(b, "data: {\"error\":{\"code\":500,\"message\":\"scripted failure\","
		           "\"type\":\"server_error\"}}\n\n");
	}
}

void wire_whole(struct sb *b, const struct request *r)
{
	switch ((int)r->api) {
	case API_TGI:
		tgi_whole(b, r);
		break;
	case API_OLLAMA:
	case API_OLLAMA_GEN:
		ollama_line(b, r, whole(&r->text), true);
		break;
	case API_SGLANG:
		sglang_object(b, r, r->n_out, true);
		break;
	default:
		triton_object(b, r, whole(&r->text));
	}
}
