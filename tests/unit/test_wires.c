/* SPDX-License-Identifier: Apache-2.0 */
/* The same rules on every wire: what a good answer is, and that each way to fail has its own outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "load/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
#define D "data: "
#define E "\n\n"

/* Pieces of each wire's stream; an answer is begin, middle, last, end, in that order. */
static const struct wire_row {
	const char *name;
	enum api api;
	const char *begin;   /* brings a token, "Hel" */
	const char *middle;  /* brings a token, "lo" */
	const char *last;    /* the finish reason and counts; no token */
	const char *end;     /* the end mark, when it is an event of its own */
	const char *nothing; /* a stream without a token, up to the finish reason */
	const char *error;   /* an error as the wire tells it */
	const char *finish;
	uint64_t prompt_tok, output_tok, cached_tok;
} wires[] = {
	{ "chat", API_CHAT,
	  D "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}" E,
	  D "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}" E,
	  D "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_"
	    "tokens\":7,"
	    "\"completion_tokens\":2}}" E,
	  D "[DONE]" E, D "{\"choices\":[{\"delta\":{\"role\":\"assistant\"},\"finish_reason\":\"stop\"}]}" E,
	  D "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\",\"code\":500}}" E, "stop", 7, 2,
	  REC_NONE },
	{ "completions", API_COMPLETIONS, D "{\"choices\":[{\"text\":\"Hel\",\"finish_reason\":null}]}" E,
	  D "{\"choices\":[{\"text\":\"lo\",\"finish_reason\":null}]}" E,
	  D "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":7,"
	    "\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":3}}}" E,
	  D "[DONE]" E, D "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}" E,
	  D "{\"error\":{\"message\":\"no memory\"}}" E, "length", 7, 2, 3 },
	{ "llamacpp", API_LLAMACPP, D "{\"content\":\"Hel\",\"stop\":false}" E,
	  D "{\"content\":\"lo\",\"stop\":false}" E,
	  D "{\"content\":\"\",\"stop\":true,\"stop_type\":\"eos\",\"tokens_predicted\":2,\"tokens_"
	    "evaluated\":7,"
	    "\"timings\":{\"cache_n\":3,\"prompt_n\":4,\"predicted_n\":2}}" E,
	  "", D "{\"content\":\"\",\"stop\":true,\"stop_type\":\"eos\"}" E,
	  D "{\"error\":{\"message\":\"no memory\",\"code\":500}}" E, "eos", 7, 2, 3 },
	{ "tgi", API_TGI,
	  "data:{\"index\":1,\"token\":{\"id\":5,\"text\":\"Hel\",\"logprob\":-0.1,\"special\":false},"
	  "\"generated_text\":null,"
	  "\"details\":null}" E,
	  "data:{\"index\":2,\"token\":{\"special\":false,\"id\":6,\"text\":\"lo\",\"logprob\":-0.1},"
	  "\"generated_text\":null,\"details\":null}" E,
	  "data:{\"index\":3,\"token\":{\"id\":2,\"text\":\"</s>\",\"logprob\":-0.1,\"special\":true},"
	  "\"generated_text\":\"Hello\",\"details\":{\"finish_reason\":\"eos_token\",\"generated_tokens\":2,"
	  "\"seed\":null,"
	  "\"input_length\":7}}" E,
	  "",
	  "data:{\"index\":1,\"token\":{\"id\":2,\"text\":\"</"
	  "s>\",\"special\":true},\"generated_text\":\"\",\"details\":{"
	  "\"finish_reason\":\"eos_token\",\"generated_tokens\":1}}" E,
	  "data:{\"error\":\"Request failed during generation: no memory\",\"error_type\":\"generation\"}" E,
	  "eos_token", 7, 2, REC_NONE },
	{ "ollama", API_OLLAMA,
	  "{\"model\":\"m\",\"created_at\":\"t\",\"message\":{\"role\":\"assistant\",\"content\":\"Hel\"},"
	  "\"done\":false}\n",
	  "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"lo\"},\"done\":false}"
	  "\r\n\r\n\n",
	  "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done_reason\":\"stop\","
	  "\"done\":true,"
	  "\"total_duration\":1,\"prompt_eval_count\":7,\"eval_count\":2}\n",
	  "", "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
	  "{\"error\":\"no memory\"}\n", "stop", 7, 2, REC_NONE },
	{ "sglang", API_SGLANG,
	  D "{\"text\":\"Hel\",\"output_ids\":[5],\"meta_info\":{\"id\":\"a\",\"finish_reason\":null,"
	    "\"prompt_tokens\":7,"
	    "\"completion_tokens\":1,\"cached_tokens\":3}}" E,
	  D "{\"text\":\"Hello\",\"output_ids\":[5,6],\"meta_info\":{\"id\":\"a\",\"finish_reason\":null,"
	    "\"prompt_tokens\":7,\"completion_tokens\":2,\"cached_tokens\":3}}" E,
	  D "{\"text\":\"Hello\",\"output_ids\":[5,6],\"meta_info\":{\"id\":\"a\",\"finish_reason\":{"
	    "\"type\":\"length\","
	    "\"length\":2},\"prompt_tokens\":7,\"completion_tokens\":2,\"cached_tokens\":3}}" E,
	  D "[DONE]" E,
	  D "{\"text\":\"\",\"meta_info\":{\"finish_reason\":{\"type\":\"length\",\"length\":0}}}" E,
	  D "{\"error\":{\"message\":\"no memory\",\"type\":\"invalid_request_error\",\"code\":400}}" E,
	  "length", 7, 2, 3 },
	{ "triton", API_TRITON,
	  D "{\"model_name\":\"ensemble\",\"model_version\":\"1\",\"sequence_end\":false,\"text_output\":"
	    "\"Hel\"}" E,
	  D "{\"model_name\":\"ensemble\",\"model_version\":\"1\",\"sequence_end\":false,\"text_output\":"
	    "\"lo\"}" E,
	  D "{\"model_name\":\"ensemble\",\"model_version\":\"1\",\"sequence_end\":false,\"text_output\":"
	    "\"\"}" E,
	  "", D "{\"model_name\":\"ensemble\",\"text_output\":\"\"}" E, D "{\"error\":\"no memory\"}" E, "",
	  REC_NONE, REC_NONE, REC_NONE },
};

struct fixture {
	struct answer a;
	struct record rec;
	struct buf text[N_CHANNELS];
};

static void begin(struct fixture *f, const struct proto *p, bool whole)
{
	memset(f, 0, sizeof *f);
	answer_init(&f->a, p, "sk-secret-1");
	f->a.whole = whole;
	for (int i = 0; i < N_CHANNELS; i++) {
		buf_init(&f->text[i], 1 << 20);
		buf_adds(&f->text[i], "");
		f->a.wire.text[i].keep = &f->text[i];
	}
	record_init(&f->rec);
	f->rec.sent_ns = 0;
	f->rec.http = 200;
	answer_start(&f->a, &f->rec);
}

static void done(struct fixture *f)
{
	answer_done(&f->a);
	for (int i = 0; i < N_CHANNELS; i++)
		buf_done(&f->text[i]);
}

/* `step` bytes a read; each of its own memory, so that reading past it is seen. */
static void feed(struct fixture *f, const char *text, size_t len, size_t step)
{
	for (size_t at = 0, no = 0; at < len; no++) {
		size_t n = len - at < step ? len - at : step;
		char *piece = malloc(n);
		assert_non_null(piece);
		memcpy(piece, text + at, n);
		int rc = answer_body(&f->a, no + 1, no, piece, n);
		free(piece);
		if (rc < 0)
			break;
		at += n;
	}
	answer_end(&f->a, TRANSPORT_COMPLETE, "");
}

struct told {
	enum outcome outcome;
	const char *text;
	uint64_t tok_n, warnings;
};

static void read_as(const struct wire_row *w, bool whole, const char *body, const struct told *want)
{
	static const size_t steps[] = { SIZE_MAX, 1, 3, 64 };
	const struct proto *p = proto_of(ENGINE_ATTACH, w->api);
	for (size_t i = 0; i < LEN(steps); i++) {
		struct fixture f;
		begin(&f, p, whole);
		feed(&f, body, strlen(body), steps[i]);
		if (f.rec.outcome != want->outcome)
			fail_msg("%s by %zu: want %s, got %s (%s) for %s", w->name, steps[i],
			         outcome_words[want->outcome], outcome_words[f.rec.outcome], f.rec.detail,
			         body);
		if (strcmp(f.text[0].p, want->text) != 0 || f.rec.tok_n != want->tok_n ||
		    f.rec.warnings != want->warnings)
			fail_msg("%s by %zu: got '%s', %zu token events, %zu warnings for %s", w->name,
			         steps[i], f.text[0].p, (size_t)f.rec.tok_n, (size_t)f.rec.warnings, body);
		if (want->outcome != OUTCOME_OK)
			assert_true(f.rec.detail[0]);
		done(&f);
	}
}

#define ROW(...)                                                                                             \
	&(const struct told)                                                                                 \
	{                                                                                                    \
		__VA_ARGS__                                                                                  \
	}

static void join(char out[4096], const char *a, const char *b, const char *c, const char *d, const char *e)
{
	const char *all[] = { a, b, c, d, e };
	out[0] = '\0';
	for (size_t i = 0; i < LEN(all); i++) {
		assert_true(strlen(out) + strlen(all[i]) < 4096);
		strcat(out, all[i]);
	}
}

static void a_good_answer_is_ok_with_its_text_and_counts(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		struct fixture f;
		join(body, w->begin, w->middle, w->last, w->end, "");
		read_as(w, false, body, ROW(OUTCOME_OK, "Hello", 2, 0));
		begin(&f, proto_of(ENGINE_ATTACH, w->api), false);
		feed(&f, body, strlen(body), 1);
		assert_string_equal(f.rec.finish, w->finish);
		assert_int_equal(f.rec.usage_prompt_tok, w->prompt_tok);
		assert_int_equal(f.rec.usage_output_tok, w->output_tok);
		assert_int_equal(f.rec.usage_cached_tok, w->cached_tok);
		assert_int_equal(f.rec.text_chars, 5);
		done(&f);
	}
}

/* Triton has no end mark: its stream may end behind any event. */
static void without_its_end_mark_an_answer_is_truncated(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		join(body, w->begin, w->middle, w->end[0] ? w->last : "", "", "");
		read_as(w, false, body,
		        ROW(w->api == API_TRITON ? OUTCOME_OK : OUTCOME_TRUNCATED, "Hello", 2, 0));
	}
}

static void an_error_inside_the_stream_is_a_stream_error(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		join(body, w->begin, w->error, w->end, "", "");
		read_as(w, false, body, ROW(OUTCOME_STREAM_ERROR, "Hel", 1, 0));
		read_as(w, false, w->error, ROW(OUTCOME_STREAM_ERROR, "", 0, 0));
		struct fixture f;
		begin(&f, proto_of(ENGINE_ATTACH, w->api), false);
		feed(&f, body, strlen(body), 7);
		assert_non_null(strstr(f.rec.detail, "no memory"));
		done(&f);
	}
}

static void an_event_cut_in_the_middle_is_truncated(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		join(body, w->begin, w->middle, "", "", "");
		body[strlen(w->begin) + strlen(w->middle) / 2] = '\0';
		read_as(w, false, body, ROW(OUTCOME_TRUNCATED, "Hel", 1, 0));
	}
}

static void an_answer_without_a_token_is_empty(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		join(body, w->nothing, w->end, "", "", "");
		read_as(w, false, body, ROW(OUTCOME_EMPTY, "", 0, 0));
		read_as(w, false, "", ROW(OUTCOME_EMPTY, "", 0, 0));
	}
}

static void bytes_behind_the_end_mark_are_a_warning(void **state)
{
	char body[4096];
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		if (w->api == API_TRITON)
			continue; /* no end mark, so nothing is behind it */
		join(body, w->begin, w->middle, w->last, w->end, w->middle);
		read_as(w, false, body, ROW(OUTCOME_OK, "Hello", 2, 1));
		join(body, w->begin, w->middle, w->last, w->end, "data: {\"ch");
		read_as(w, false, body, ROW(OUTCOME_OK, "Hello", 2, 1));
	}
}

static void an_event_that_is_no_json_is_corrupt(void **state)
{
	char body[4096];
	static const char *const bad[] = { "{\"a\":}", "[1]", "nonsense", "{} {}", "{\"a\":\"\xff\"}" };
	for (size_t i = 0; i < LEN(wires); i++) {
		const struct wire_row *w = &wires[i];
		bool lines = w->api == API_OLLAMA;
		for (size_t k = 0; k < LEN(bad); k++) {
			join(body, w->begin, lines ? "" : D, bad[k], lines ? "\n" : E, w->last);
			strcat(body, w->end);
			struct fixture f;
			begin(&f, proto_of(ENGINE_ATTACH, w->api), false);
			feed(&f, body, strlen(body), 5);
			assert_int_equal(f.rec.outcome, OUTCOME_CORRUPT);
			done(&f);
		}
	}
}

/* --- answers that are not streamed ---------------------------------------------------------------------- */

static const struct whole_row {
	size_t wire; /* in `wires` */
	const char *body;
	const char *no_text;
	uint64_t prompt_tok, output_tok;
} wholes[] = {
	{ 0,
	  "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_"
	  "reason\":"
	  "\"stop\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}",
	  "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}", 7, 2 },
	{ 1,
	  "{\"choices\":[{\"text\":\"Hello\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":7,"
	  "\"completion_tokens\":2}}\n",
	  "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}", 7, 2 },
	{ 2,
	  "{\"content\":\"Hello\",\"stop\":true,\"stop_type\":\"eos\",\"tokens_predicted\":2,\"tokens_"
	  "evaluated\":7}",
	  "{\"content\":\"\",\"stop\":true,\"stop_type\":\"eos\"}", 7, 2 },
	{ 3,
	  "{\"generated_text\":\"Hello\",\"details\":{\"finish_reason\":\"eos_token\",\"generated_tokens\":2,"
	  "\"prefill\":[],"
	  "\"tokens\":[{\"id\":5,\"text\":\"Hel\",\"special\":false},{\"id\":6,\"text\":\"lo\",\"special\":"
	  "false}]}}",
	  "{\"generated_text\":\"\",\"details\":{\"finish_reason\":\"eos_token\"}}", REC_NONE, 2 },
	{ 4,
	  "{\"message\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"done\":true,\"done_reason\":"
	  "\"stop\","
	  "\"prompt_eval_count\":7,\"eval_count\":2}",
	  "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}", 7, 2 },
	{ 4,
	  "{\"response\":\"Hello\",\"done\":true,\"done_reason\":\"length\",\"prompt_eval_count\":7,\"eval_"
	  "count\":2}",
	  "{\"response\":\"\",\"done\":true,\"done_reason\":\"length\"}", 7, 2 },
	{ 5,
	  "{\"text\":\"Hello\",\"output_ids\":[5,6],\"meta_info\":{\"finish_reason\":{\"type\":\"stop\"},"
	  "\"prompt_tokens\":7,\"completion_tokens\":2}}",
	  "{\"text\":\"\",\"meta_info\":{\"finish_reason\":{\"type\":\"stop\"}}}", 7, 2 },
	{ 6, "{\"model_name\":\"m\",\"text_output\":\"Hello\"}",
	  "{\"model_name\":\"m\",\"text_output\":\"\"}", REC_NONE, REC_NONE },
};

static void a_whole_answer_has_text_and_counts_but_no_token_times(void **state)
{
	for (size_t i = 0; i < LEN(wholes); i++) {
		const struct whole_row *r = &wholes[i];
		const struct wire_row *w = &wires[r->wire];
		struct fixture f;
		read_as(w, true, r->body, ROW(OUTCOME_OK, "Hello", 0, 0));
		begin(&f, proto_of(ENGINE_ATTACH, w->api), true);
		feed(&f, r->body, strlen(r->body), 9);
		assert_int_equal(f.rec.first_token_ns, REC_NONE);
		assert_int_equal(f.rec.first_content_ns, REC_NONE);
		assert_int_equal(f.rec.last_token_ns, REC_NONE);
		assert_int_equal(f.rec.tok_bytes, 0);
		assert_int_equal(f.rec.usage_prompt_tok, r->prompt_tok);
		assert_int_equal(f.rec.usage_output_tok, r->output_tok);
		assert_true(f.rec.finish[0] || w->api == API_TRITON);
		assert_int_equal(f.rec.text_chars, 5);
		assert_int_equal(f.rec.bytes, strlen(r->body));
		done(&f);
	}
}

static void a_whole_answer_fails_in_ways_of_its_own(void **state)
{
	for (size_t i = 0; i < LEN(wholes); i++) {
		const struct whole_row *r = &wholes[i];
		const struct wire_row *w = &wires[r->wire];
		char body[4096];
		read_as(w, true, r->no_text, ROW(OUTCOME_EMPTY, "", 0, 0));
		read_as(w, true, "", ROW(OUTCOME_EMPTY, "", 0, 0));
		read_as(w, true, "{\"error\":\"no memory\"}", ROW(OUTCOME_STREAM_ERROR, "", 0, 0));
		read_as(w, true, "{\"error\":{\"message\":\"no memory\",\"code\":500}}",
		        ROW(OUTCOME_STREAM_ERROR, "", 0, 0));
		read_as(w, true, "<html>gateway</html>", ROW(OUTCOME_CORRUPT, "", 0, 0));
		join(body, r->body, " {", "", "", "");
		read_as(w, true, body, ROW(OUTCOME_CORRUPT, "", 0, 0));
		join(body, r->body, "", "", "", "");
		body[strlen(body) / 2] = '\0';
		read_as(w, true, body, ROW(OUTCOME_CORRUPT, "", 0, 0));
	}
}

static void a_whole_answer_needs_what_its_wire_ends_with(void **state)
{
	static const struct {
		size_t wire;
		const char *body;
	} rows[] = {
		{ 0, "{\"choices\":[{\"message\":{\"content\":\"Hello\"},\"finish_reason\":null}]}" },
		{ 1, "{\"choices\":[{\"text\":\"Hello\"}]}" },
		{ 2, "{\"content\":\"Hello\",\"stop\":false}" },
		{ 3, "{\"generated_text\":\"Hello\"}" },
		{ 4, "{\"message\":{\"content\":\"Hello\"},\"done\":false,\"done_reason\":\"stop\"}" },
		{ 4, "{\"message\":{\"content\":\"Hello\"},\"done\":true}" },
		{ 5, "{\"text\":\"Hello\",\"meta_info\":{\"finish_reason\":null}}" },
	};
	for (size_t i = 0; i < LEN(rows); i++)
		read_as(&wires[rows[i].wire], true, rows[i].body, ROW(OUTCOME_TRUNCATED, "Hello", 0, 0));
}

static void a_body_over_the_bound_is_corrupt(void **state)
{
	static char block[1 << 16];
	memset(block, ' ', sizeof block);
	struct fixture f;
	begin(&f, proto_of(ENGINE_ATTACH, API_CHAT), true);
	int rc = 0;
	size_t n = 0;
	for (; rc == 0 && n < 2 * ANSWER_WHOLE_BYTES_MAX; n += sizeof block)
		rc = answer_body(&f.a, 1, n, block, sizeof block);
	assert_int_equal(rc, -1);
	assert_true(n <= ANSWER_WHOLE_BYTES_MAX + sizeof block);
	answer_end(&f.a, TRANSPORT_BAD, "stopped");
	assert_int_equal(f.rec.outcome, OUTCOME_CORRUPT);
	done(&f);
}

/* --- peculiarities ---------------------------------------------------------------------------------------
 */

static void ollama_reads_thinking_tools_and_a_last_line_without_its_end(void **state)
{
	struct fixture f;
	const char *body =
		"{\"message\":{\"thinking\":\"hm\",\"content\":\"\"},\"done\":false}\n"
		"{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
		"{\"a\": 1,\"b\":\"\\u00e9\"}}}]},\"done\":false}\r\n"
		"{\"response\":\"x\",\"done\":true,\"done_reason\":\"stop\"}";
	for (size_t step = 1; step < 200; step += 33) {
		begin(&f, proto_of(ENGINE_OLLAMA, API_OLLAMA), false);
		feed(&f, body, strlen(body), step);
		assert_int_equal(f.rec.outcome, OUTCOME_OK);
		assert_string_equal(f.text[CHANNEL_REASONING].p, "hm");
		assert_string_equal(f.text[CHANNEL_TOOL].p, "{\"a\": 1,\"b\":\"\\u00e9\"}");
		assert_string_equal(f.text[CHANNEL_CONTENT].p, "x");
		assert_int_equal(f.rec.tok_n, 3);
		done(&f);
	}
}

static void a_mark_of_the_end_is_needed_beside_the_reason(void **state)
{
	struct fixture f;
	read_as(&wires[4], false, "{\"response\":\"a\",\"done\":false,\"done_reason\":\"stop\"}\n",
	        ROW(OUTCOME_TRUNCATED, "a", 1, 0));
	read_as(&wires[4], false, "{\"response\":\"a\"}\n[DONE]\n", ROW(OUTCOME_CORRUPT, "a", 1, 0));
	const char *tgi = "data:{\"token\":{\"text\":\"a\"},\"generated_text\":\"a\",\"details\":null}" E;
	begin(&f, proto_of(ENGINE_TGI, API_TGI), false);
	feed(&f, tgi, strlen(tgi), 8);
	assert_true(f.a.wire.done);
	assert_int_equal(f.rec.outcome, OUTCOME_TRUNCATED);
	done(&f);
}

static void a_line_over_the_bound_is_corrupt_however_it_is_cut(void **state)
{
	enum { OVER = ND_LINE_BYTES_MAX + 10 };
	char *body = malloc(OVER + 1);
	assert_non_null(body);
	memset(body, 'x', OVER);
	body[OVER] = '\n';
	static const size_t steps[] = { SIZE_MAX, 4096, 1000 };
	for (size_t i = 0; i < LEN(steps); i++) {
		struct fixture f;
		begin(&f, proto_of(ENGINE_OLLAMA, API_OLLAMA), false);
		feed(&f, body, OVER + 1, steps[i]);
		assert_true(f.a.too_long);
		assert_int_equal(f.rec.outcome, OUTCOME_CORRUPT);
		done(&f);
	}
	free(body);
}

static void sglang_text(const char *const *texts, const char *metas, const char *want, uint64_t tok_n,
                        uint64_t warnings)
{
	struct fixture f;
	char ev[1024];
	begin(&f, proto_of(ENGINE_SGLANG, API_SGLANG), false);
	for (size_t i = 0; texts[i]; i++) {
		bool last = !texts[i + 1];
		int n = snprintf(ev, sizeof ev,
		                 D "{\"text\":\"%s\",\"meta_info\":{\"finish_reason\":%s}%s}" E, texts[i],
		                 last ? "{\"type\":\"stop\"}" : "null", metas ? metas : "");
		answer_body(&f.a, i + 1, i, ev, (size_t)n);
	}
	answer_body(&f.a, 99, 99, D "[DONE]" E, 14);
	answer_end(&f.a, TRANSPORT_COMPLETE, "");
	assert_int_equal(f.rec.outcome, OUTCOME_OK);
	assert_string_equal(f.text[0].p, want);
	assert_int_equal(f.rec.tok_n, tok_n);
	assert_int_equal(f.rec.warnings, warnings);
	done(&f);
}

static void sglang_text_is_told_apart_as_cumulative_or_not(void **state)
{
	static const char *const grows[] = { "a", "ab", "ab", "abc", NULL };
	static const char *const parts[] = { "ab", "c", "ab", "d", "", NULL };
	static const char *const escapes[] = { "\\n", "\\n\\\"", "\\n\\\"\\u00e9", "\\n\\\"\\u00e9\xc3\xa9",
		                               NULL };
	static const char *const shorter[] = { "ab", "abcd", "abc", NULL };
	static const char *const seems[] = { "a", "ab", "x", "yz", NULL };
	sglang_text(grows, NULL, "abc", 3, 0);
	sglang_text(parts, NULL, "abcabd", 4, 0);
	sglang_text(escapes, NULL, "\n\"\xc3\xa9\xc3\xa9", 4, 0);
	sglang_text(shorter, NULL, "abcd", 2, 1);
	sglang_text(seems, NULL, "abxyz", 4, 1);
}

/* Text that changed is cut only where characters and escapes end. */
static void sglang_text_that_changed_is_cut_between_characters(void **state)
{
	static const struct {
		const char *first, *second, *want;
	} rows[] = {
		{ "ab", "a\\nc", "abc" },
		{ "ab", "a\\u00e9c", "abc" },
		{ "abcdef", "\\u00e9c", "abcdefc" },
		{ "ab", "a\xc3\xa9z", "abz" },
		{ "ab", "\\\\z", "abz" },
		{ "abc", "\\\\\\nz", "abcz" },
		{ "abc", "\\\\uz", "abcz" },
		{ "abcdefg", "\\u00e9c", "abcdefg" },
	};
	for (size_t i = 0; i < LEN(rows); i++) {
		struct fixture f;
		char ev[512];
		int n = snprintf(
			ev, sizeof ev,
			D "{\"text\":\"%s\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":1}}" E D
			  "{\"text\":\"%s\",\"output_ids\":[1,2],\"meta_info\":{\"completion_tokens\":2,"
			  "\"finish_reason\":\"stop\"}}" E D "[DONE]" E,
			rows[i].first, rows[i].second);
		begin(&f, proto_of(ENGINE_SGLANG, API_SGLANG), false);
		feed(&f, ev, (size_t)n, 11);
		if (strcmp(f.text[0].p, rows[i].want) != 0 || f.rec.warnings != 1)
			fail_msg("row %zu: got '%s', %zu warnings", i, f.text[0].p, (size_t)f.rec.warnings);
		done(&f);
	}
}

static void sglang_ids_say_that_equal_parts_are_new_text(void **state)
{
	struct fixture f;
	begin(&f, proto_of(ENGINE_SGLANG, API_SGLANG), false);
	for (unsigned i = 1; i <= 4; i++) {
		char ev[256];
		int n = snprintf(ev, sizeof ev,
		                 D "{\"text\":\"!\",\"output_ids\":[7],\"meta_info\":{\"finish_reason\":%s,"
		                   "\"completion_tokens\":%u}}" E,
		                 i == 4 ? "{\"type\":\"length\",\"length\":4}" : "null", i);
		answer_body(&f.a, i, i, ev, (size_t)n);
	}
	answer_body(&f.a, 9, 9, D "[DONE]" E, 14);
	answer_end(&f.a, TRANSPORT_COMPLETE, "");
	assert_int_equal(f.rec.outcome, OUTCOME_OK);
	assert_string_equal(f.text[0].p, "!!!!");
	assert_int_equal(f.rec.tok_n, 4);
	done(&f);
}

/* 128k tokens of text with their ids in each event, as a server with a long context sends them. */
static void long_cumulative_text_is_read_and_its_events_are_bounded(void **state)
{
	enum { TOKENS = 131072 };
	struct fixture f;
	struct buf ev;
	buf_init(&ev, 1u << 26);
	for (int twice = 0; twice < 2; twice++) {
		begin(&f, proto_of(ENGINE_SGLANG, API_SGLANG), false);
		for (size_t n = TOKENS; n <= TOKENS + 2; n++) {
			buf_clear(&ev);
			buf_adds(&ev, D "{\"output_ids\":[1");
			for (size_t i = 1; i < n * (1 + 9 * (size_t)twice); i++)
				buf_adds(&ev, ",100001");
			buf_adds(&ev, "],\"text\":\"");
			for (size_t i = 0; i < n; i++)
				buf_adds(&ev, "word");
			buf_addf(&ev, "\",\"meta_info\":{\"finish_reason\":%s,\"completion_tokens\":%zu}}" E,
			         n == TOKENS + 2 ? "\"length\"" : "null", n);
			if (answer_body(&f.a, n, n, ev.p, ev.len) < 0)
				break;
		}
		answer_body(&f.a, 9e9, 9, D "[DONE]" E, 14);
		answer_end(&f.a, TRANSPORT_COMPLETE, "");
		assert_int_equal(f.rec.outcome, twice ? OUTCOME_CORRUPT : OUTCOME_OK);
		if (!twice) {
			assert_int_equal(f.rec.tok_n, 3);
			assert_int_equal(f.rec.text_chars, 4 * (TOKENS + 2));
		}
		done(&f);
	}
	buf_done(&ev);
}

static void sglang_abort_is_an_error_with_its_message(void **state)
{
	const char *body =
		D "{\"text\":\"a\",\"meta_info\":{\"finish_reason\":{\"type\":\"abort\",\"message\":\"out of "
		  "pages\",\"status_code\":503,\"err_type\":\"Busy\"}}}" E D "[DONE]" E;
	struct fixture f;
	begin(&f, proto_of(ENGINE_SGLANG, API_SGLANG), false);
	feed(&f, body, strlen(body), 4);
	assert_int_equal(f.rec.outcome, OUTCOME_STREAM_ERROR);
	assert_string_equal(f.rec.detail, "Busy 503: out of pages");
	done(&f);
}

static void triton_takes_the_first_of_a_batch_and_the_reason_where_told(void **state)
{
	const char *body = D "{\"text_output\":[\"a\",\"other\"],\"finish_reason\":\"None\"}" E D
			     "{\"text_output\":[\"b\"],\"finish_reason\":\"length\"}" E;
	struct fixture f;
	begin(&f, proto_of(ENGINE_TRTLLM, API_TRITON), false);
	feed(&f, body, strlen(body), 4);
	assert_int_equal(f.rec.outcome, OUTCOME_OK);
	assert_string_equal(f.text[0].p, "ab");
	assert_int_equal(f.rec.warnings, 0);
	assert_string_equal(f.rec.finish, "length");
	assert_int_equal(f.a.wire.n_other_choice, 1);
	done(&f);
}

/* A stream of n events costs what its bytes cost: ten times the events may not cost a hundred times as much.
 */
static double seconds_of(enum api api, size_t n)
{
	struct buf b;
	struct fixture f;
	buf_init(&b, 1u << 28);
	for (size_t i = 0; i < n; i++)
		buf_adds(&b, api == API_OLLAMA ? "{\"response\":\"a\"}\n" : D "{\"text_output\":\"a\"}" E);
	begin(&f, proto_of(ENGINE_ATTACH, api), false);
	clock_t from = clock();
	answer_body(&f.a, 1, 0, b.p, b.len);
	double s = (double)(clock() - from) / CLOCKS_PER_SEC;
	answer_end(&f.a, TRANSPORT_COMPLETE, "");
	assert_int_equal(f.rec.tok_n, n);
	assert_int_equal(f.rec.max_events_per_read, n);
	done(&f);
	buf_done(&b);
	return s;
}

static void a_million_events_in_one_read_cost_what_their_bytes_cost(void **state)
{
	static const enum api apis[] = { API_OLLAMA, API_TRITON };
	for (size_t i = 0; i < LEN(apis); i++) {
		double small = seconds_of(apis[i], 100000), large = seconds_of(apis[i], 1000000);
		assert_true(large < 50 * small + .5);
	}
}

static void deep_nesting_and_huge_numbers_are_bounded(void **state)
{
	static char body[1 << 18];
	for (size_t i = 0; i < LEN(wires); i++) {
		struct fixture f;
		bool lines = wires[i].api == API_OLLAMA;
		size_t n = (size_t)snprintf(body, sizeof body, "%s{\"error_type\":", lines ? "" : D);
		memset(body + n, '[', 100000);
		memcpy(body + n + 100000, "\n\n", 3);
		begin(&f, proto_of(ENGINE_ATTACH, wires[i].api), false);
		feed(&f, body, strlen(body), SIZE_MAX);
		assert_int_equal(f.rec.outcome, OUTCOME_CORRUPT);
		done(&f);
	}
	const char *huge =
		"{\"response\":\"a\",\"eval_count\":99999999999999999999999999,\"prompt_eval_count\":1e3}\n"
		"{\"done\":true,\"done_reason\":\"stop\"}\n";
	read_as(&wires[4], false, huge, ROW(OUTCOME_OK, "a", 1, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_answer_is_ok_with_its_text_and_counts),
		cmocka_unit_test(without_its_end_mark_an_answer_is_truncated),
		cmocka_unit_test(an_error_inside_the_stream_is_a_stream_error),
		cmocka_unit_test(an_event_cut_in_the_middle_is_truncated),
		cmocka_unit_test(an_answer_without_a_token_is_empty),
		cmocka_unit_test(bytes_behind_the_end_mark_are_a_warning),
		cmocka_unit_test(an_event_that_is_no_json_is_corrupt),
		cmocka_unit_test(a_whole_answer_has_text_and_counts_but_no_token_times),
		cmocka_unit_test(a_whole_answer_fails_in_ways_of_its_own),
		cmocka_unit_test(a_whole_answer_needs_what_its_wire_ends_with),
		cmocka_unit_test(a_body_over_the_bound_is_corrupt),
		cmocka_unit_test(ollama_reads_thinking_tools_and_a_last_line_without_its_end),
		cmocka_unit_test(a_mark_of_the_end_is_needed_beside_the_reason),
		cmocka_unit_test(a_line_over_the_bound_is_corrupt_however_it_is_cut),
		cmocka_unit_test(sglang_text_is_told_apart_as_cumulative_or_not),
		cmocka_unit_test(sglang_text_that_changed_is_cut_between_characters),
		cmocka_unit_test(sglang_ids_say_that_equal_parts_are_new_text),
		cmocka_unit_test(long_cumulative_text_is_read_and_its_events_are_bounded),
		cmocka_unit_test(sglang_abort_is_an_error_with_its_message),
		cmocka_unit_test(triton_takes_the_first_of_a_batch_and_the_reason_where_told),
		cmocka_unit_test(a_million_events_in_one_read_cost_what_their_bytes_cost),
		cmocka_unit_test(deep_nesting_and_huge_numbers_are_bounded),
	};
	return cmocka_run_group_tests_name("wires", tests, NULL, NULL);
}
