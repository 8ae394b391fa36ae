/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "load/answer.h"
#include "load/scan.h"

#include <stdlib.h>
#include <string.h>

static const struct proto chat = { .wire = WIRE_OPENAI_CHAT, .path = "/", .needs_done = true };
static const struct proto native = { .wire = WIRE_LLAMACPP, .path = "/" };

struct fixture {
	struct answer a;
	struct record rec;
	struct buf text[N_CHANNELS];
};

static void begin(struct fixture *f, const struct proto *p, int http)
{
	memset(f, 0, sizeof *f);
	answer_init(&f->a, p, "sk-secret-1");
	for (int i = 0; i < N_CHANNELS; i++) {
		buf_init(&f->text[i], 1 << 20);
		buf_adds(&f->text[i], "");
		f->a.wire.text[i].keep = &f->text[i];
	}
	record_init(&f->rec);
	f->rec.sent_ns = 0;
	f->rec.http = http;
	answer_start(&f->a, &f->rec);
}

static void end(struct fixture *f)
{
	answer_done(&f->a);
	for (int i = 0; i < N_CHANNELS; i++)
		buf_done(&f->text[i]);
}

/* Each line of `events` is one data line; byte by byte, so that nothing rests on where reads end. */
static void read_events(struct fixture *f, const struct proto *p, const char *events)
{
	uint64_t read_no = 0;
	begin(f, p, 200);
	for (const char *l = events; *l;) {
		const char *e = strchr(l, '\n');
		size_t n = e ? (size_t)(e - l) : strlen(l);
		answer_body(&f->a, 10 * (read_no + 1), read_no, "data: ", 6);
		for (size_t i = 0; i < n; i++)
			answer_body(&f->a, 10 * (read_no + 1), read_no, l + i, 1);
		answer_body(&f->a, 10 * (read_no + 1), read_no, "\n\n", 2);
		read_no++;
		l += n + (e ? 1 : 0);
	}
	answer_end(&f->a, TRANSPORT_COMPLETE, "");
}

#define D(delta) "{\"choices\":[{\"index\":0,\"delta\":{" delta "},\"finish_reason\":null}]}\n"
#define FIN "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n"
#define DONE "[DONE]\n"

static const struct {
	const char *rule, *events;
	enum outcome want;
	uint64_t tok_n;
	const char *text, *reasoning, *tool;
	uint64_t warnings;
} texts[] = {
	{ "plain", D("\"content\":\"a\"") FIN DONE, OUTCOME_OK, 1, "a", "", "", 0 },
	{ "role_null_and_empty_are_no_tokens",
	  D("\"role\":\"assistant\",\"content\":null") D("\"content\":\"\"") D("\"content\":\"x\"") FIN DONE,
	  OUTCOME_OK, 1, "x", "", "", 0 },
	{ "both_names_of_reasoning", D("\"reasoning_content\":\"a\"") D("\"reasoning\":\"b\"") FIN DONE,
	  OUTCOME_OK, 2, "", "ab", "", 0 },
	{ "the_same_reasoning_under_two_names_counts_once",
	  D("\"reasoning_content\":\"a\",\"reasoning\":\"a\"") FIN DONE, OUTCOME_OK, 1, "", "a", "", 0 },
	{ "a_null_name_does_not_hide_the_other", D("\"reasoning\":\"a\",\"reasoning_content\":null") FIN DONE,
	  OUTCOME_OK, 1, "", "a", "", 0 },
	{ "tool_arguments_are_tokens_names_are_none",
	  D("\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]")
	          D("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]") FIN DONE,
	  OUTCOME_OK, 1, "", "", "{\"a\"", 0 },
	{ "several_choices_of_one_index_in_an_event",
	  "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}},{\"index\":0,\"delta\":{\"content\":"
	  "\"b\"}}]}\n" FIN DONE,
	  OUTCOME_OK, 1, "ab", "", "", 0 },
	{ "other_choices_are_not_the_answer",
	  "{\"choices\":[{\"delta\":{\"content\":\"b\"},\"index\":1,\"finish_reason\":\"length\"}]}\n" D(
		  "\"content\":\"a\"") FIN DONE,
	  OUTCOME_OK, 1, "a", "", "", 0 },
	{ "text_of_completions",
	  "{\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"length\"}]}\n" DONE, OUTCOME_OK, 1,
	  "a", "", "", 0 },
	{ "content_in_parts", D("\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"}]") FIN DONE,
	  OUTCOME_OK, 1, "ab", "", "", 0 },
	{ "the_last_of_equal_keys_counts", D("\"content\":\"a\",\"content\":\"b\"") FIN DONE, OUTCOME_OK, 1,
	  "b", "", "", 1 },
	{ "the_last_of_equal_keys_counts_also_null", D("\"content\":\"a\",\"content\":null") FIN DONE,
	  OUTCOME_EMPTY, 0, "", "", "", 1 },
	{ "the_last_of_equal_choices_counts",
	  "{\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"choices\":[{\"delta\":{\"content\":\"b\"}}]}"
	  "\n" FIN DONE,
	  OUTCOME_OK, 1, "b", "", "", 1 },
	{ "keys_are_read_through_escapes", D("\"con\\u0074ent\":\"a\"") FIN DONE, OUTCOME_OK, 1, "a", "", "",
	  0 },
	{ "escapes", D("\"content\":\"\\\"\\\\\\/\\n\\t\\u00e9\\ud83d\\ude00\"") FIN DONE, OUTCOME_OK, 1,
	  "\"\\/\n\t\xC3\xA9\xF0\x9F\x98\x80", "", "", 0 },
	{ "a_pair_cut_over_deltas_is_joined",
	  D("\"content\":\"\\ud83d\"") D("\"content\":\"\\ude00\"") FIN DONE, OUTCOME_OK, 2,
	  "\xF0\x9F\x98\x80", "", "", 0 },
	{ "a_half_waits_only_in_its_channel",
	  D("\"content\":\"\\ud83d\"") D("\"reasoning\":\"r\"") D("\"content\":\"\\ude00\"") FIN DONE,
	  OUTCOME_OK, 3, "\xF0\x9F\x98\x80", "r", "", 0 },
	{ "lone_halves_become_fffd", D("\"content\":\"a\\ud83d\"") D("\"content\":\"b\\ude00\"") FIN DONE,
	  OUTCOME_OK, 2,
	  "a\xEF\xBF\xBD"
	  "b\xEF\xBF\xBD",
	  "", "", 2 },
	{ "a_half_at_the_end_becomes_fffd", D("\"content\":\"a\\ud83d\"") FIN DONE, OUTCOME_OK, 1,
	  "a\xEF\xBF\xBD", "", "", 1 },
	{ "spaces_everywhere", " { \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ] } \n" FIN DONE,
	  OUTCOME_OK, 1, "a", "", "", 0 },
	{ "finish_together_with_text",
	  "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n" DONE, OUTCOME_OK,
	  1, "a", "", "", 0 },
	{ "no_end_mark_is_truncated", D("\"content\":\"a\"") FIN, OUTCOME_TRUNCATED, 1, "a", "", "", 0 },
	{ "end_mark_without_finish_is_truncated", D("\"content\":\"a\"") DONE, OUTCOME_TRUNCATED, 1, "a", "",
	  "", 0 },
	{ "no_token_is_empty", FIN DONE, OUTCOME_EMPTY, 0, "", "", "", 0 },
	{ "nothing_is_empty", "", OUTCOME_EMPTY, 0, "", "", "", 0 },
	{ "text_behind_the_end_mark_is_no_answer", D("\"content\":\"a\"") FIN DONE D("\"content\":\"b\""),
	  OUTCOME_OK, 1, "a", "", "", 1 },
	{ "usage_only_is_no_token",
	  D("\"content\":\"a\"") FIN "{\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n" DONE,
	  OUTCOME_OK, 1, "a", "", "", 0 },
	{ "cut_json_is_corrupt", "{\"choices\":[{\"delta\":{\"content\":\"a\n" FIN DONE, OUTCOME_CORRUPT, 0,
	  "", "", "", 0 },
	{ "bad_utf8_is_corrupt", D("\"content\":\"\xC3\x28\"") FIN DONE, OUTCOME_CORRUPT, 0, "", "", "", 0 },
	{ "an_encoded_half_is_corrupt", D("\"content\":\"\xED\xA0\xBD\"") FIN DONE, OUTCOME_CORRUPT, 0, "",
	  "", "", 0 },
	{ "two_values_in_an_event_are_corrupt", "{}{}\n" FIN DONE, OUTCOME_CORRUPT, 0, "", "", "", 0 },
	{ "an_array_is_corrupt", "[1]\n" FIN DONE, OUTCOME_CORRUPT, 0, "", "", "", 0 },
	{ "a_bare_word_is_corrupt", "hello\n" FIN DONE, OUTCOME_CORRUPT, 0, "", "", "", 0 },
	{ "abort_is_no_success",
	  "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"abort\"}]}\n" DONE,
	  OUTCOME_STREAM_ERROR, 1, "a", "", "", 0 },
};

static void what_an_answer_says(void **state)
{
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct fixture f;
		read_events(&f, &chat, texts[i].events);
		if (f.rec.outcome != texts[i].want || f.rec.tok_n != texts[i].tok_n ||
		    f.rec.warnings != texts[i].warnings ||
		    strcmp(f.text[CHANNEL_CONTENT].p, texts[i].text) != 0 ||
		    strcmp(f.text[CHANNEL_REASONING].p, texts[i].reasoning) != 0 ||
		    strcmp(f.text[CHANNEL_TOOL].p, texts[i].tool) != 0)
			fail_msg("%s: %s (%s), %d tokens, %d warnings, '%s' '%s' '%s'", texts[i].rule,
			         outcome_words[f.rec.outcome], f.rec.detail, (int)f.rec.tok_n,
			         (int)f.rec.warnings, f.text[0].p, f.text[1].p, f.text[2].p);
		end(&f);
	}
}

static const struct {
	const char *rule, *event, *type, *code, *detail;
} errors[] = {
	{ "object", "{\"error\":{\"message\":\"m\",\"type\":\"t\",\"code\":500}}", "t", "500", "t 500: m" },
	{ "string_with_type_beside", "{\"error\":\"m\",\"error_type\":\"v\"}", "v", "", "v: m" },
	{ "string_alone", "{\"error\":\"m\"}", "", "", "m" },
	{ "code_as_a_word", "{\"error\":{\"message\":\"m\",\"code\":\"c\"}}", "", "c", "c: m" },
	{ "named_by_object", "{\"object\":\"error\",\"message\":\"m\",\"type\":\"t\",\"code\":400}", "t",
	  "400", "t 400: m" },
	{ "named_by_type", "{\"type\":\"error\",\"error\":{\"type\":\"o\",\"message\":\"m\"}}", "o", "",
	  "o: m" },
	{ "within_a_choice", "{\"choices\":[{\"index\":0,\"error\":{\"message\":\"m\",\"code\":502}}]}", "",
	  "502", "502: m" },
	{ "beside_choices", "{\"choices\":[],\"error\":{\"message\":\"m\"}}", "", "", "m" },
	{ "empty_object", "{\"error\":{}}", "", "", "" },
	{ "the_key_is_not_repeated", "{\"error\":\"bad key sk-secret-1 here\"}", "", "", "bad key *** here" },
};

static void errors_inside_a_stream(void **state)
{
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		struct fixture f;
		auto_buf all = BUF_INIT(10000);
		buf_addf(&all, D("\"content\":\"a\"") "%s\n" DONE, errors[i].event);
		read_events(&f, &chat, all.p);
		const struct wire_error *e = &f.a.wire.error;
		if (f.rec.outcome != OUTCOME_STREAM_ERROR || strcmp(e->type, errors[i].type) != 0 ||
		    strcmp(e->code, errors[i].code) != 0 || strcmp(f.rec.detail, errors[i].detail) != 0)
			fail_msg("%s: %s type '%s' code '%s' detail '%s'", errors[i].rule,
			         outcome_words[f.rec.outcome], e->type, e->code, f.rec.detail);
		end(&f);
	}
}

static void no_error_is_none(void **state)
{
	static const char *const t[] = { "{\"choices\":[],\"error\":null}\n",
		                         "{\"choices\":[],\"error\":\"\"}\n",
		                         "{\"choices\":[],\"error\":false}\n" };
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct fixture f;
		auto_buf all = BUF_INIT(10000);
		buf_addf(&all, D("\"content\":\"a\"") "%s" FIN DONE, t[i]);
		read_events(&f, &chat, all.p);
		assert_int_equal(f.rec.outcome, OUTCOME_OK);
		end(&f);
	}
}

/* Events with names and fields of their own, as raw stream bytes. */
static const struct {
	const char *rule, *raw;
	enum outcome want;
	const char *detail;
} raws[] = {
	{ "error_field", "error: {\"code\":400,\"message\":\"m\",\"type\":\"t\"}\n\ndata: [DONE]\n\n",
	  OUTCOME_STREAM_ERROR, "t 400: m" },
	{ "error_event", "event: error\ndata: {\"message\":\"m\"}\n\n", OUTCOME_STREAM_ERROR, "m" },
	{ "error_event_of_plain_text", "event: error\ndata: out of memory\n\n", OUTCOME_STREAM_ERROR,
	  "out of memory" },
	{ "ping_event_of_plain_text",
	  "event: ping\ndata: hello\n\ndata: "
	  "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"
	  "data: [DONE]\n\n",
	  OUTCOME_OK, "" },
	{ "json_body_with_error", "{\"error\":{\"message\":\"m\",\"type\":\"t\"}}", OUTCOME_STREAM_ERROR,
	  "t: m" },
	{ "json_body", "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
	  OUTCOME_CORRUPT, "no event in 64 bytes of unknown type" },
	{ "html_body", "<html>\n</html>\n", OUTCOME_CORRUPT, "no event in 15 bytes of unknown type" },
	{ "only_comments", ": ping\n\n: ping\n\n", OUTCOME_EMPTY, "no event" },
	{ "cut_inside_an_event", "data: {\"choices\":[]}\n\ndata: {\"cho", OUTCOME_TRUNCATED,
	  "ended inside an event" },
	{ "cut_before_the_blank_line", "data: [DONE]\n", OUTCOME_TRUNCATED, "ended inside an event" },
	{ "nul_byte", "data: {\"a\":\"\x01\"}\n\n", OUTCOME_CORRUPT, "1 of 1 events are no JSON object" },
};

static void raw_streams(void **state)
{
	for (size_t i = 0; i < sizeof raws / sizeof raws[0]; i++) {
		struct fixture f;
		begin(&f, &chat, 200);
		answer_body(&f.a, 5, 0, raws[i].raw, strlen(raws[i].raw));
		answer_end(&f.a, TRANSPORT_COMPLETE, "");
		if (f.rec.outcome != raws[i].want || strcmp(f.rec.detail, raws[i].detail) != 0)
			fail_msg("%s: %s '%s'", raws[i].rule, outcome_words[f.rec.outcome], f.rec.detail);
		end(&f);
	}
}

static void a_status_keeps_the_start_of_its_body(void **state)
{
	struct fixture f;
	char body[3000];
	memset(body, 'x', sizeof body);
	memcpy(body, "key sk-secret-1 \n\x01", 18);
	begin(&f, &chat, 503);
	answer_body(&f.a, 5, 0, body, sizeof body);
	answer_end(&f.a, TRANSPORT_COMPLETE, "");
	assert_int_equal(f.rec.outcome, OUTCOME_HTTP_STATUS);
	assert_memory_equal(f.rec.detail, "503: key ***  ?xxx", 18);
	assert_int_equal(strlen(f.rec.detail), 5 + 120);
	assert_int_equal(f.rec.tok_n, 0);
	end(&f);
}

static const struct {
	const char *rule, *events;
	uint64_t prompt, output, cached, reasoning;
} usages[] = {
	{ "openai",
	  "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,"
	  "\"prompt_tokens_details\":{\"cached_tokens\":2},"
	  "\"completion_tokens_details\":{\"reasoning_tokens\":4}}}\n",
	  3, 5, 2, 4 },
	{ "reasoning_tokens_at_the_top", "{\"usage\":{\"completion_tokens\":5,\"reasoning_tokens\":0}}\n",
	  REC_NONE, 5, REC_NONE, 0 },
	{ "null_tells_nothing", "{\"usage\":{\"prompt_tokens\":3}}\n{\"usage\":null}\n", 3, REC_NONE,
	  REC_NONE, REC_NONE },
	{ "the_last_running_count_holds",
	  "{\"usage\":{\"completion_tokens\":1}}\n{\"usage\":{\"completion_tokens\":2}}\n", REC_NONE, 2,
	  REC_NONE, REC_NONE },
	{ "within_a_choice",
	  "{\"choices\":[{\"index\":0,\"delta\":{},\"usage\":{\"completion_tokens\":7}}]}\n", REC_NONE, 7,
	  REC_NONE, REC_NONE },
	{ "other_names", "{\"usage\":{\"input_tokens\":3,\"output_tokens\":5}}\n", 3, 5, REC_NONE, REC_NONE },
	{ "timings_where_usage_is_missing",
	  "{\"choices\":[],\"timings\":{\"cache_n\":25,\"prompt_n\":5,\"predicted_n\":8}}\n", 30, 8, 25,
	  REC_NONE },
	{ "usage_outweighs_timings",
	  "{\"usage\":{\"prompt_tokens\":31,\"completion_tokens\":9},\"timings\":{\"cache_n\":25,\"prompt_"
	  "n\":5,\"predicted_n\":8}}\n",
	  31, 9, 25, REC_NONE },
	{ "a_part_above_the_whole_is_unknown",
	  "{\"usage\":{\"completion_tokens\":5,\"reasoning_tokens\":9}}\n", REC_NONE, 5, REC_NONE, REC_NONE },
	{ "no_fraction_no_minus_no_text",
	  "{\"usage\":{\"prompt_tokens\":3.5,\"completion_tokens\":-1,\"reasoning_tokens\":\"7\"}}\n",
	  REC_NONE, REC_NONE, REC_NONE, REC_NONE },
	{ "no_number_past_2_53", "{\"usage\":{\"completion_tokens\":99999999999999999999999}}\n", REC_NONE,
	  REC_NONE, REC_NONE, REC_NONE },
	{ "behind_the_end_mark", "[DONE]\n{\"usage\":{\"completion_tokens\":5}}\n", REC_NONE, 5, REC_NONE,
	  REC_NONE },
};

static void usage_in_all_places(void **state)
{
	for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++) {
		struct fixture f;
		read_events(&f, &chat, usages[i].events);
		if (f.rec.usage_prompt_tok != usages[i].prompt ||
		    f.rec.usage_output_tok != usages[i].output ||
		    f.rec.usage_cached_tok != usages[i].cached ||
		    f.rec.usage_reasoning_tok != usages[i].reasoning)
			fail_msg("%s: %lld %lld %lld %lld", usages[i].rule, (long long)f.rec.usage_prompt_tok,
			         (long long)f.rec.usage_output_tok, (long long)f.rec.usage_cached_tok,
			         (long long)f.rec.usage_reasoning_tok);
		end(&f);
	}
}

#define PROGRESS                                                                                             \
	"{\"index\":0,\"content\":\"\",\"tokens\":[0],\"stop\":false,\"prompt_progress\":{\"total\":6}}\n"

static void the_native_form_of_llamacpp(void **state)
{
	struct fixture f;
	read_events(&f, &native,
	            PROGRESS "{\"index\":0,\"content\":\" a\",\"tokens\":[5],\"stop\":false}\n"
	                     "{\"content\":\"b\",\"tokens\":[6],\"stop\":false}\n"
	                     "{\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"limit\","
	                     "\"tokens_predicted\":2,\"tokens_evaluated\":6,"
	                     "\"timings\":{\"cache_n\":1,\"prompt_n\":5,\"predicted_n\":2}}\n");
	assert_int_equal(f.rec.outcome, OUTCOME_OK);
	assert_int_equal(f.rec.tok_n, 2);
	assert_string_equal(f.text[0].p, " ab");
	assert_string_equal(f.rec.finish, "limit");
	assert_int_equal(f.rec.usage_prompt_tok, 6);
	assert_int_equal(f.rec.usage_output_tok, 2);
	assert_int_equal(f.rec.usage_cached_tok, 1);
	assert_int_equal(f.rec.first_token_ns, 20);
	end(&f);
	read_events(&f, &native, "{\"content\":\"b\",\"stop\":false}\n");
	assert_int_equal(f.rec.outcome, OUTCOME_TRUNCATED);
	end(&f);
}

static void counters_of_the_text(void **state)
{
	struct fixture f;
	read_events(&f, &chat,
	            D("\"content\":\"ab!!\"") D("\"content\":\"!!\\u0000\xEF\xBF\xBD\\n\"")
	                    D("\"reasoning\":\"!\\u0085\"") FIN DONE);
	assert_int_equal(f.rec.text_chars, 11);
	assert_int_equal(f.rec.bad_chars, 3);
	assert_int_equal(f.rec.max_same_run, 4); /* over deltas, not over channels */
	end(&f);
}

static void arrivals_are_gaps_from_the_send(void **state)
{
	static const char *const events[] = { D("\"content\":\"a\""), D("\"content\":\"b\""),
		                              D("\"content\":\"c\"") };
	static const uint64_t at_ns[] = { 1000, 1000, 301000 }, read_no[] = { 0, 0, 1 };
	struct fixture f;
	uint64_t v, want[] = { 900, 0, 300000 };
	begin(&f, &chat, 200);
	f.rec.sent_ns = 100;
	for (int i = 0; i < 3; i++) {
		auto_buf raw = BUF_INIT(1000);
		buf_addf(&raw, "data: %s\n", events[i]);
		answer_body(&f.a, at_ns[i], read_no[i], raw.p, raw.len);
	}
	answer_end(&f.a, TRANSPORT_CUT, "closed");
	assert_int_equal(f.rec.outcome, OUTCOME_TRUNCATED);
	assert_int_equal(f.rec.reads, 2);
	assert_int_equal(f.rec.max_events_per_read, 2);
	assert_int_equal(f.rec.first_token_ns, 1000);
	assert_int_equal(f.rec.last_token_ns, 301000);
	size_t at = 0;
	for (int i = 0; i < 3; i++) {
		at += leb128_get(f.a.tokens + at, f.a.tokens_len - at, &v);
		assert_int_equal(v, want[i]);
	}
	assert_int_equal(at, f.rec.tok_bytes);
	end(&f);
}

static const struct {
	const char *text;
	bool good;
} json[] = {
	{ "{}", true },
	{ "[]", true },
	{ "{\"a\":[1,-0.5e+3,true,false,null,\"\"]}", true },
	{ "{\"a\":01}", false },
	{ "{\"a\":1.}", false },
	{ "{\"a\":.5}", false },
	{ "{\"a\":1e}", false },
	{ "{\"a\":+1}", false },
	{ "{\"a\":NaN}", false },
	{ "{,}", false },
	{ "[1,]", false },
	{ "[1 2]", false },
	{ "{\"a\" 1}", false },
	{ "{\"a\":1,}", false },
	{ "{a:1}", false },
	{ "{'a':1}", false },
	{ "{\"a\":tru}", false },
	{ "{\"a\":\"\\x\"}", false },
	{ "{\"a\":\"\\u12g4\"}", false },
	{ "{\"a\":\"\t\"}", false },
	{ "{\"a\":1}x", false },
	{ "{\"a\":1", false },
	{ "\"", false },
	{ "{\"a\":\"\\", false },
	{ "", false },
	{ " ", false },
	{ "[[[[[]]]]]", true },
};

static void scan_holds_to_the_grammar(void **state)
{
	for (size_t i = 0; i < sizeof json / sizeof json[0]; i++) {
		struct scan s;
		size_t n = strlen(json[i].text);
		char *copy = malloc(n ? n : 1);
		assert_non_null(copy);
		memcpy(copy, json[i].text, n);
		scan_init(&s, copy, n);
		scan_skip(&s);
		if (scan_end(&s) != json[i].good)
			fail_msg("%s: %s", json[i].text, json[i].good ? "refused" : "taken");
		free(copy);
	}
}

static void depth_is_bounded(void **state)
{
	for (int depth = SCAN_DEPTH_MAX - 1; depth <= SCAN_DEPTH_MAX + 1; depth++) {
		char text[2 * (SCAN_DEPTH_MAX + 1)];
		struct scan s;
		memset(text, '[', (size_t)depth);
		memset(text + depth, ']', (size_t)depth);
		scan_init(&s, text, 2 * (size_t)depth);
		scan_skip(&s);
		assert_int_equal(scan_end(&s), depth <= SCAN_DEPTH_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_answer_says),
		cmocka_unit_test(errors_inside_a_stream),
		cmocka_unit_test(no_error_is_none),
		cmocka_unit_test(raw_streams),
		cmocka_unit_test(a_status_keeps_the_start_of_its_body),
		cmocka_unit_test(usage_in_all_places),
		cmocka_unit_test(the_native_form_of_llamacpp),
		cmocka_unit_test(counters_of_the_text),
		cmocka_unit_test(arrivals_are_gaps_from_the_send),
		cmocka_unit_test(scan_holds_to_the_grammar),
		cmocka_unit_test(depth_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
