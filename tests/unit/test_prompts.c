/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a cell against a tokenizer of our own: a word is a token, long ones of the corpus are two, and
 * the template takes seven. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/json_in.h"
#include "model/canary.h"
#include "trial/prompts.h"

#include <string.h>

#define TEMPLATE_TOK 7

static unsigned n_asked;
static bool odd_pairs; /* "the" behind "a" is no token: words do not keep their count */

static uint64_t tokens_of(const char *text)
{
	uint64_t n = 0;
	const char *before = "";
	for (const char *s = text; *(s += strspn(s, " \n"));) {
		size_t len = strcspn(s, " \n");
		n += 1 + (len > 12) + (odd_pairs && before[0] == s[0]);
		before = s;
		s += len;
	}
	return n;
}

static int count_tokens(struct http_client *c, enum api api, const char *prompt, uint64_t *n, struct err *err)
{
	n_asked++;
	*n = tokens_of(prompt) + (api == API_CHAT ? TEMPLATE_TOK : 0);
	return 0;
}

static const struct engine_ops ops = { .kind = ENGINE_SCRIPTED, .count_tokens = count_tokens };

/* --- one cell ---------------------------------------------------------------------------------------------
 */

struct fixture {
	struct plan plan;
	struct plan_workload wl;
	struct plan_candidate cand;
	struct cell cell;
	struct trace trace;
	struct prompts *prompts;
	struct sched *sched;
	struct cell_bodies *bodies;
};

static void fixture_init(struct fixture *f)
{
	static uint64_t one_length, one_load;
	*f = (struct fixture){ 0 };
	odd_pairs = false;
	f->wl = (struct plan_workload){
		.name = (char *)(uintptr_t) "chat",
		.api = API_CHAT,
		.critical = true,
		.stream = true,
		.n_prompt_tok = 1,
		.prompt_tok = &one_length,
		.output_tok = 32,
		.n_concurrency = 1,
		.concurrency = &one_load,
		.requests = 60,
		.warmup_requests = 2,
		.sampling = { .top_p = -1, .top_k = -1 },
		.arrival = { .kind = ARRIVAL_CLOSED, .seed = 3, .speed = 1 },
	};
	f->cand.engine = ENGINE_SCRIPTED;
	f->cell = (struct cell){ .id = "chat/100in/32out/c4",
		                 .prompt_tok = 100,
		                 .output_tok = 32,
		                 .concurrency = 4,
		                 .requests = 60 };
}

static int try_open(struct fixture *f, bool warmup, struct err *err)
{
	f->plan.n_workloads = 1;
	f->plan.workloads = &f->wl;
	f->cell.wl = &f->wl;
	struct prompts_spec spec = { .plan = &f->plan, .cand = &f->cand, .ops = &ops, .plan_dir = "." };
	const struct trace *trace = f->trace.n ? &f->trace : NULL;
	assert_int_equal(prompts_open(&f->prompts, &spec, err), 0);
	assert_int_equal(sched_make(&f->sched, &f->cell, trace, warmup, err), 0);
	struct cell_bodies_spec b = { f->prompts, &f->cell, f->sched, trace, warmup };
	n_asked = 0;
	return cell_bodies_open(&f->bodies, &b, err);
}

static void fixture_open(struct fixture *f, bool warmup)
{
	struct err err = { 0 };
	if (try_open(f, warmup, &err) || cell_bodies_begin(f->bodies, &err))
		fail_msg("%s", err.msg);
}

static void fixture_done(struct fixture *f)
{
	struct err err = { 0 };
	if (f->bodies && cell_bodies_end(f->bodies, &err))
		fail_msg("%s", err.msg);
	cell_bodies_free(f->bodies);
	sched_free(f->sched);
	prompts_free(f->prompts);
}

/* Text of message `i` of a chat's body, or the prompt of another wire; malloc'd. */
static char *said(const struct load_request *rq, int i)
{
	auto_json doc = NULL;
	struct err err = { 0 };
	if (json_parse(&doc, rq->body, rq->body_len, "body", JSON_STRICT, NULL, &err))
		fail_msg("%s", err.msg);
	const struct cJSON *messages = json_get(doc, "messages");
	const char *text =
		messages ? json_str(cJSON_GetArrayItem(messages, i), "content") : json_str(doc, "prompt");
	assert_non_null(text);
	return strdup(text);
}

static uint64_t length_of(const struct load_request *rq)
{
	auto_free char *text = said(rq, 0);
	return tokens_of(text) + TEMPLATE_TOK;
}

static const struct load_request *get(struct fixture *f, uint64_t g)
{
	const struct load_request *rq = cell_bodies_get(f->bodies, g);
	assert_non_null(rq);
	return rq;
}

/* --- lengths ----------------------------------------------------------------------------------------------
 */

static void all_have_their_length(struct fixture *f)
{
	fixture_open(f, false);
	for (uint64_t g = 0; g < 60; g++) {
		struct sched_item i;
		const struct load_request *rq = get(f, g);
		assert_true(sched_item_at(f->sched, g, &i));
		assert_int_equal(rq->prompt_tok, i.prompt_tok);
		assert_int_equal(rq->want_output_tok, i.output_tok);
		assert_int_equal(length_of(rq), i.prompt_tok);
		cell_bodies_done(f->bodies, rq);
	}
	fixture_done(f);
}

static void prompts_have_the_planned_length_and_differ_from_the_first_word_on(void **state)
{
	struct fixture f;
	fixture_init(&f);
	all_have_their_length(&f);
	fixture_init(&f);
	fixture_open(&f, false);
	auto_free char *a = said(get(&f, 0), 0), *b = said(get(&f, 1), 0);
	assert_true(strncmp(a, b, 40) != 0);
	fixture_done(&f);
}

static void words_that_do_not_keep_their_count_are_fitted_each(void **state)
{
	struct fixture f;
	fixture_init(&f);
	odd_pairs = true;
	all_have_their_length(&f);
	odd_pairs = false;
}

static void parts_of_a_mix_have_their_own_lengths(void **state)
{
	struct plan_mix_part parts[] = { { .weight = 3, .prompt_tok = 40, .output_tok = 8 },
		                         { .weight = 1, .prompt_tok = 900, .output_tok = 64 } };
	struct fixture f;
	fixture_init(&f);
	f.wl.n_mix = 2;
	f.wl.mix = parts;
	f.cell.prompt_tok = f.cell.output_tok = 0;
	all_have_their_length(&f);
}

static void canaries_are_in_the_text_and_the_length_is_exact(void **state)
{
	struct fixture f;
	fixture_init(&f);
	f.wl.canary_share = 0.5;
	all_have_their_length(&f);
	fixture_init(&f);
	f.wl.canary_share = 0.5;
	fixture_open(&f, false);
	unsigned n = 0;
	for (uint64_t g = 0; g < 60; g++) {
		struct sched_item i;
		char nonce[CANARY_NONCE_BYTES];
		auto_free char *text = said(get(&f, g), 0);
		assert_true(sched_item_at(f.sched, g, &i));
		canary_nonce(nonce, f.cell.id, "load", g, 3);
		assert_int_equal(strstr(text, nonce) != NULL, i.canary);
		n += i.canary;
	}
	assert_true(n > 10 && n < 50);
	fixture_done(&f);
}

static void length_without_room_for_the_fixed_text_is_a_plan_error(void **state)
{
	struct fixture f;
	struct err err = { 0 };
	fixture_init(&f);
	f.cell.prompt_tok = TEMPLATE_TOK;
	assert_int_equal(try_open(&f, false, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	f.bodies = NULL;
	fixture_done(&f);
	fixture_init(&f);
	f.cell.prompt_tok = 12;
	f.wl.canary_share = 1;
	assert_int_equal(try_open(&f, false, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	f.bodies = NULL;
	fixture_done(&f);
}

static void corpus_prompts_are_fitted_one_by_one(void **state)
{
	char path[] = "/tmp/test_prompts_XXXXXX";
	auto_fd fd = mkstemp(path);
	auto_buf text = BUF_INIT(1u << 20);
	for (int i = 0; i < 400; i++)
		buf_addf(&text, i % 3 ? "w%d\n" : "averyverylongword%d ", i);
	assert_int_equal(fs_write_all(fd, text.p, text.len), 0);
	struct fixture f;
	fixture_init(&f);
	f.wl.corpus = path;
	all_have_their_length(&f);
	unlink(path);
}

/* --- traces -----------------------------------------------------------------------------------------------
 */

static void same_words(const char *a, const char *b, uint64_t n, bool same)
{
	const char *p = a, *q = b;
	for (uint64_t i = 0; i < n && *p && *q; i++) {
		p += strcspn(p, " ");
		q += strcspn(q, " ");
		p += strspn(p, " ");
		q += strspn(q, " ");
	}
	assert_int_equal(p - a == q - b && strncmp(a, b, (size_t)(p - a)) == 0, same);
}

static void equal_hashes_are_equal_text_and_the_rest_is_unique(void **state)
{
	uint64_t hashes[] = { 7, 8, 9, 7, 8, 9, 7, 5, 9, 6 };
	struct trace_row rows[] = {
		{ .at_ns = 0, .prompt_tok = 1200, .output_tok = 4, .hash_at = 0, .n_hash = 3 },
		{ .at_ns = 10, .prompt_tok = 1200, .output_tok = 4, .hash_at = 3, .n_hash = 3 },
		{ .at_ns = 20, .prompt_tok = 1536, .output_tok = 4, .hash_at = 6, .n_hash = 3 },
		{ .at_ns = 30, .prompt_tok = 60, .output_tok = 4, .hash_at = 9, .n_hash = 1 },
	};
	struct fixture f;
	fixture_init(&f);
	f.trace = (struct trace){ .n = 4, .rows = rows, .n_hashes = 10, .hashes = hashes };
	f.wl.arrival.kind = ARRIVAL_TRACE;
	f.cell.requests = 0;
	fixture_open(&f, false);
	auto_free char *a = said(get(&f, 0), 0), *b = said(get(&f, 1), 0);
	const struct load_request *third = get(&f, 2), *last = get(&f, 3);
	auto_free char *c = said(third, 0);
	assert_int_equal(tokens_of(a) + TEMPLATE_TOK, 1200);
	assert_int_equal(length_of(third), 1536);
	assert_int_equal(length_of(last), 60);
	assert_int_equal(third->due_ns, 20);
	same_words(a, b, 1024 - TEMPLATE_TOK, true); /* two blocks */
	same_words(a, b, 1030, false);               /* the partial third one */
	same_words(a, c, 512 - TEMPLATE_TOK, true);  /* the first block */
	same_words(a, c, 512, false);
	fixture_done(&f);
}

static void thousands_of_lengths_need_few_questions(void **state)
{
	enum { N = 3000 };
	struct trace_row *rows = calloc(N, sizeof(*rows));
	struct fixture f;
	fixture_init(&f);
	for (size_t i = 0; i < N; i++)
		rows[i] = (struct trace_row){ .at_ns = i, .prompt_tok = 20 + i * 7 % N, .output_tok = 4 };
	f.trace = (struct trace){ .n = N, .rows = rows };
	f.wl.arrival.kind = ARRIVAL_TRACE;
	f.cell.requests = 0;
	fixture_open(&f, false);
	assert_true(n_asked < 200);
	for (size_t i = 0; i < N; i += 97)
		assert_int_equal(length_of(get(&f, i)), rows[i].prompt_tok);
	fixture_done(&f);
	free(rows);
}

/* --- conversations ----------------------------------------------------------------------------------------
 */

static void later_turns_carry_what_was_said(void **state)
{
	struct fixture f;
	struct record ok = { .outcome = OUTCOME_OK }, bad = { .outcome = OUTCOME_RESET };
	static const char answer[] = "two\n\"words\"";
	fixture_init(&f);
	f.wl.conversation = (struct plan_conversation){ .turns = 3, .turn_prompt_tok = 9 };
	fixture_open(&f, false);
	const struct load_request *r0 = get(&f, 1);
	assert_int_equal(r0->k, 3);
	assert_int_equal(r0->conv, 1);
	assert_int_equal(length_of(r0), 100);
	const struct load_request *r1 = cell_bodies_follow(f.bodies, r0, &ok, answer, strlen(answer));
	auto_free char *first = said(r0, 0);
	cell_bodies_done(f.bodies, r0);
	const struct load_request *r2 = cell_bodies_follow(f.bodies, r1, &ok, "again", 5);
	auto_free char *user0 = said(r2, 0), *said0 = said(r2, 1), *user1 = said(r2, 2), *said1 = said(r2, 3),
		       *user2 = said(r2, 4);
	assert_string_equal(user0, first);
	assert_string_equal(said0, answer);
	assert_string_equal(said1, "again");
	assert_int_equal(tokens_of(user1), 9);
	assert_string_not_equal(user1, user2);
	assert_int_equal(r2->k, 5);
	assert_int_equal(r2->turn, 2);
	assert_true(r2->prompt_tok == REC_NONE);
	assert_null(cell_bodies_follow(f.bodies, r2, &ok, "x", 1)); /* the last turn */
	cell_bodies_done(f.bodies, r1);
	cell_bodies_done(f.bodies, r2);
	const struct load_request *other = get(&f, 0);
	assert_null(cell_bodies_follow(f.bodies, other, &bad, "x", 1));
	fixture_done(&f);
}

static void plain_text_apis_carry_one_text(void **state)
{
	struct fixture f;
	struct record ok = { .outcome = OUTCOME_OK };
	fixture_init(&f);
	f.wl.api = API_COMPLETIONS;
	f.wl.conversation = (struct plan_conversation){ .turns = 2, .turn_prompt_tok = 3 };
	fixture_open(&f, false);
	const struct load_request *r0 = get(&f, 0);
	auto_free char *before = said(r0, 0);
	assert_int_equal(tokens_of(before), 100);
	const struct load_request *r1 = cell_bodies_follow(f.bodies, r0, &ok, " a \"b\"", 6);
	auto_free char *after = said(r1, 0);
	assert_int_equal(strncmp(after, before, strlen(before)), 0);
	assert_int_equal(strncmp(after + strlen(before), " a \"b\" ", 7), 0);
	assert_int_equal(tokens_of(after), 100 + 2 + 3);
	fixture_done(&f);
}

/* --- the source -------------------------------------------------------------------------------------------
 */

struct lines {
	size_t n;
	char last[256];
	uint64_t k[64];
};

static int put_line(void *ctx, const char *line, size_t len)
{
	struct lines *l = ctx;
	const char *k = strstr(line, "\"k\":");
	l->k[l->n++ % 64] = strtoull(k + 4, NULL, 10);
	snprintf(l->last, sizeof(l->last), "%.*s", (int)len, line);
	return 0;
}

static void bodies_come_in_any_order_and_without_end(void **state)
{
	enum { N = 5000, MUL = 1201 }; /* far beyond what was made before the cell */
	struct fixture f;
	fixture_init(&f);
	f.cell.requests = 0;
	f.cell.duration_s = 1;
	fixture_open(&f, false);
	for (uint64_t j = 0; j < N; j++) {
		uint64_t g = j * MUL % N;
		const struct load_request *rq = get(&f, g);
		assert_int_equal(rq->k, g);
		cell_bodies_done(f.bodies, rq);
	}
	assert_int_equal(cell_bodies_begun(f.bodies), N);
	assert_null(cell_bodies_get(f.bodies, 17)); /* each only once */
	fixture_done(&f);
}

static void only_what_was_sent_is_listed_in_order(void **state)
{
	struct fixture f;
	struct record ok = { .outcome = OUTCOME_OK };
	struct lines lines = { 0 };
	struct err err = { 0 };
	fixture_init(&f);
	f.wl.conversation = (struct plan_conversation){ .turns = 2, .turn_prompt_tok = 3 };
	fixture_open(&f, false);
	const struct load_request *a = get(&f, 1), *b = get(&f, 0), *later;
	later = cell_bodies_follow(f.bodies, a, &ok, "yes", 3);
	assert_int_equal(cell_bodies_sent(f.bodies, a->k), 0);
	assert_int_equal(cell_bodies_sent(f.bodies, later->k), 0);
	cell_bodies_done(f.bodies, a);
	cell_bodies_done(f.bodies, later);
	assert_non_null(
		cell_bodies_follow(f.bodies, b, &ok, "yes", 3)); /* made, never sent, never given back */
	assert_int_equal(cell_bodies_sent(f.bodies, b->k), 0);
	assert_int_equal(cell_bodies_end(f.bodies, &err), 0);
	assert_int_equal(cell_bodies_list(f.bodies, put_line, &lines), 0);
	assert_int_equal(lines.n, 3);
	assert_int_equal(lines.k[0], 0);
	assert_int_equal(lines.k[1], 2);
	assert_int_equal(lines.k[2], 3);
	fixture_done(&f);
}

static void the_same_plan_gives_the_same_bytes_and_warm_up_others(void **state)
{
	struct fixture f, g, w;
	fixture_init(&f);
	fixture_init(&g);
	fixture_init(&w);
	f.wl.shared_prefix_share = g.wl.shared_prefix_share = 0.5;
	fixture_open(&f, false);
	fixture_open(&g, false);
	fixture_open(&w, true);
	for (uint64_t k = 0; k < 2; k++) {
		const struct load_request *x = get(&f, k), *y = get(&g, k), *z = get(&w, k);
		assert_int_equal(x->body_len, y->body_len);
		assert_memory_equal(x->body, y->body, x->body_len);
		auto_free char *a = said(x, 0), *b = said(z, 0);
		assert_string_not_equal(a, b);
	}
	auto_free char *p = said(get(&f, 2), 0), *q = said(get(&f, 3), 0);
	same_words(p, q, 46, true); /* half of 92 words, behind the first */
	same_words(p, q, 60, false);
	fixture_done(&f);
	fixture_done(&g);
	fixture_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prompts_have_the_planned_length_and_differ_from_the_first_word_on),
		cmocka_unit_test(words_that_do_not_keep_their_count_are_fitted_each),
		cmocka_unit_test(parts_of_a_mix_have_their_own_lengths),
		cmocka_unit_test(canaries_are_in_the_text_and_the_length_is_exact),
		cmocka_unit_test(length_without_room_for_the_fixed_text_is_a_plan_error),
		cmocka_unit_test(corpus_prompts_are_fitted_one_by_one),
		cmocka_unit_test(equal_hashes_are_equal_text_and_the_rest_is_unique),
		cmocka_unit_test(thousands_of_lengths_need_few_questions),
		cmocka_unit_test(later_turns_carry_what_was_said),
		cmocka_unit_test(plain_text_apis_carry_one_text),
		cmocka_unit_test(bodies_come_in_any_order_and_without_end),
		cmocka_unit_test(only_what_was_sent_is_listed_in_order),
		cmocka_unit_test(the_same_plan_gives_the_same_bytes_and_warm_up_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
