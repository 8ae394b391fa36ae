// SPDX-License-Identifier: Apache-2.0
#include "model/check.h"

#include "base/cleanup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *repeat(const char *s, size_t times)
{
	size_t n = strlen(s);
	char *out = malloc(n * times + 1);
	assert_non_null(out);
	for (size_t i = 0; i < times; i++)
		memcpy(out + i * n, s, n);
	out[n * times] = 0;
	return out;
}

static struct surface measure(const char *text, const char *prompt)
{
	struct surface s;
	assert_int_equal(surface_measure(&s, text, strlen(text), scripts_of(prompt, strlen(prompt))), 0);
	return s;
}

static void surface_of_worked_examples(void **state)
{
	static const struct {
		const char *piece;
		size_t times;
		uint64_t chars, max_run, distinct;
		double zlib;
		uint32_t marks;
	} rows[] = {
		{ "!", 128, 128, 128, 1, .0938,
		  1u << MARK_RUN | 1u << MARK_FEW_DISTINCT | 1u << MARK_COMPRESSIBLE },
		{ "G", 96, 96, 96, 1, .125,
		  1u << MARK_RUN | 1u << MARK_FEW_DISTINCT | 1u << MARK_COMPRESSIBLE },
		{ "<unk>", 28, 140, 1, 5, .1143,
		  1u << MARK_FEW_DISTINCT | 1u << MARK_COMPRESSIBLE | 1u << MARK_SPECIAL_TOKEN },
		{ "I am, you, ", 24, 264, 1, 8, .0833,
		  1u << MARK_FEW_DISTINCT | 1u << MARK_COMPRESSIBLE | 1u << MARK_REPEATS },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		auto_free char *text = repeat(rows[i].piece, rows[i].times);
		struct surface s = measure(text, "Say something.");
		assert_int_equal(s.chars, rows[i].chars);
		assert_int_equal(s.max_run, rows[i].max_run);
		assert_int_equal(s.distinct, rows[i].distinct);
		assert_true(fabs(s.zlib_ratio - rows[i].zlib) < 5e-5);
		assert_int_equal(s.marks, rows[i].marks);
	}
}

static void repetition_of_word_4_grams(void **state)
{
	auto_free char *loop = repeat("I am, you, ", 24);
	assert_true(fabs(measure(loop, "a").rep4 - .9565) < 5e-5);
	assert_true(isnan(measure("three words only", "a").rep4));
	assert_true(fabs(measure("one two three four five", "a").rep4) < 1e-12);
}

static void one_stray_han_letter_in_69_characters(void **state)
{
	const char *text = "The capital of France is Paris, it lies on the \xe6\xb2\xb3 Seine, 105 km2 now.";
	struct surface s = measure(text, "What is the capital of France?");
	assert_int_equal(s.foreign_letters, 1);
	assert_int_equal(s.foreign, 0x6cb3);
	assert_int_equal(s.marks, 1u << MARK_FOREIGN_SCRIPT);
	assert_int_equal(measure(text, "\xe4\xbd\xa0\xe5\xa5\xbd hello").marks, 0);
	assert_int_equal(measure(text, "2 + 2 = ?").marks, 0); // no letter asked, none foreign
}

static void kana_brings_han(void **state)
{
	assert_int_equal(measure("\xe6\xb2\xb3", "\xe3\x81\x8b").marks, 0);
	assert_int_equal(measure("\xd0\xb6", "\xe3\x81\x8b").marks, 1u << MARK_FOREIGN_SCRIPT);
}

static void fluent_nonsense_and_good_answers_pass_the_surface(void **state)
{
	assert_int_equal(
		measure("The marble ferry counts lantern soup beyond nine quiet engines, because purple "
	                "harbours whisper ladders to the copper moon and nobody folds the river twice.",
	                "Why?")
			.marks,
		0);
	assert_int_equal(measure("4", "2+2?").marks, 0);
	assert_int_equal(measure("a < b && c > d, x[1] <b>bold</b> [link]", "a").marks, 0);
}

static void runs_start_at_24_and_few_distinct_at_64(void **state)
{
	assert_int_equal(measure("abc aaaaaaaaaaaaaaaaaaaaaaab xyz", "a").marks & 1u << MARK_RUN, 0);
	assert_int_equal(measure("abc aaaaaaaaaaaaaaaaaaaaaaaab xyz", "a").marks & 1u << MARK_RUN,
	                 1u << MARK_RUN);
	auto_free char *short_one = repeat("abcdefg", 9), *long_one = repeat("abcdefgh", 8);
	assert_int_equal(measure(short_one, "a").marks & 1u << MARK_FEW_DISTINCT, 0);
	assert_int_equal(measure(long_one, "a").marks & 1u << MARK_FEW_DISTINCT, 1u << MARK_FEW_DISTINCT);
}

static void special_tokens_as_text(void **state)
{
	static const char *const texts[] = { "ok <|im_end|>",
		                             "<unk>",
		                             "x</s>",
		                             "[PAD]",
		                             "<0x0A>",
		                             "<reserved_106>",
		                             "<extra_id_0>",
		                             ("<\xef\xbd\x9c"
		                              "end\xef\xbd\x9c>"),
		                             "<|reserved|>" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_int_equal(measure(texts[i], "a").marks, 1u << MARK_SPECIAL_TOKEN);
	assert_string_equal(measure("ok <|im_end|> more", "a").special, "<|im_end|>");
}

static void bad_characters_and_bytes(void **state)
{
	assert_int_equal(measure("a\xef\xbf\xbd", "a").marks, 1u << MARK_BAD_CHARS);
	assert_int_equal(measure("a\x07", "a").marks, 1u << MARK_BAD_CHARS);
	assert_int_equal(measure("a\tb\r\nc", "a").marks, 0);
	assert_int_equal(measure("a\xff", "a").marks, 1u << MARK_NOT_UTF8 | 1u << MARK_BAD_CHARS);
	assert_int_equal(measure("a\xed\xa0\x80", "a").marks, 1u << MARK_NOT_UTF8 | 1u << MARK_BAD_CHARS);
	assert_int_equal(measure("", "a").marks, 1u << MARK_EMPTY);
	assert_int_equal(measure(" \n\t", "a").marks, 1u << MARK_EMPTY);
}

#define BASE .prompt = (char[]){ "What is the capital of France?" }, .min_tok = -1, .answer_max_tok = -1

static struct check_result answer(const struct plan_control *c, const char *text)
{
	struct check_answer a = { .outcome = OUTCOME_OK, .text = text, .len = strlen(text), .output_tok = 5 };
	return check_control(c, &a);
}

static void patterns_decide(void **state)
{
	char *must[] = { (char[]){ "\\bParis\\b" } }, *must_not[] = { (char[]){ "(?i)london" } };
	struct plan_control c = { BASE, .n_must_match = 1, .must_match = must, .n_must_not_match = 1,
		                  .must_not_match = must_not };
	assert_int_equal(answer(&c, "It is Paris.").state, CHECK_PASSED);
	assert_string_equal(answer(&c, "It is Paris.").reason, "as expected");
	struct check_result r = answer(&c, "It is Rome.");
	assert_int_equal(r.state, CHECK_FAILED);
	assert_string_equal(r.reason, "must_match /\\bParis\\b/ is not in \"It is Rome.\"");
	r = answer(&c, "Paris, not London.");
	assert_int_equal(r.state, CHECK_FAILED);
	assert_non_null(strstr(r.reason, "must_not_match"));
}

static void a_pattern_over_its_limits_is_unclear_and_never_hangs(void **state)
{
	char *must[] = { (char[]){ "^(a+)+$" } };
	struct plan_control c = { BASE, .n_must_match = 1, .must_match = must };
	struct check_result r = answer(&c, "aaaaaaaaaaaaaaaaaaaaaab");
	assert_int_equal(r.state, CHECK_UNCLEAR);
	must[0] = (char[]){ "^(\\w+\\s?)+$" };
	r = answer(&c, "several ordinary words that are long enough to explode here and there you know!");
	assert_int_equal(r.state, CHECK_UNCLEAR);
	assert_non_null(strstr(r.reason, "limits"));
	must[0] = (char[]){ "(" };
	assert_int_equal(answer(&c, "x").state, CHECK_UNCLEAR);
}

static void exact_is_exact_and_overrules_the_surface(void **state)
{
	auto_free char *dashes = repeat("-", 40);
	struct plan_control c = { BASE, .exact = dashes };
	assert_int_equal(answer(&c, dashes).state, CHECK_PASSED);
	c.exact = (char[]){ "4" };
	assert_int_equal(answer(&c, "4 ").state, CHECK_FAILED);
	assert_string_equal(answer(&c, "four").reason, "\"four\" is not \"4\"");
}

static void json_with_and_without_a_fence(void **state)
{
	struct plan_control c = { BASE, .json = true };
	assert_int_equal(answer(&c, "{\"capital\": \"Paris\"}").state, CHECK_PASSED);
	assert_int_equal(answer(&c, "```json\n{\"capital\": \"Paris\"}\n```\n").state, CHECK_PASSED);
	assert_int_equal(answer(&c, "Here you are: {}").state, CHECK_FAILED);
	assert_int_equal(answer(&c, "{\"capital\": ").state, CHECK_FAILED);
	assert_int_equal(answer(&c, "``````").state, CHECK_FAILED);
	assert_int_equal(answer(&c, "```\n```").state, CHECK_FAILED);
}

static void token_counts_told_and_not_told(void **state)
{
	struct plan_control c = { BASE };
	c.min_tok = 3;
	c.answer_max_tok = 8;
	struct check_answer a = { .outcome = OUTCOME_OK, .text = "It is so.", .len = 9, .output_tok = 3 };
	assert_int_equal(check_control(&c, &a).state, CHECK_PASSED);
	a.output_tok = 2;
	assert_int_equal(check_control(&c, &a).state, CHECK_FAILED);
	a.output_tok = 9;
	assert_string_equal(check_control(&c, &a).reason, "9 tokens, want at most 8");
	a.output_tok = REC_NONE;
	assert_int_equal(check_control(&c, &a).state, CHECK_UNCLEAR);
}

static void same_as_reference_names_the_place(void **state)
{
	struct plan_control c = { BASE, .same_as_reference = true };
	struct check_answer a = { .outcome = OUTCOME_OK, .text = "It is Paris", .len = 11, .output_tok = 3 };
	assert_int_equal(check_control(&c, &a).state, CHECK_PASSED);
	a.reference = "It is Paris";
	a.reference_len = 11;
	assert_int_equal(check_control(&c, &a).state, CHECK_PASSED);
	a.reference = "It is Parma";
	assert_string_equal(check_control(&c, &a).reason, "differs from the first repetition from byte 9 on");
}

static void a_failed_request_is_unclear_and_an_empty_answer_fails(void **state)
{
	struct plan_control c = { BASE };
	struct check_answer a = { .outcome = OUTCOME_RESET, .text = "", .output_tok = REC_NONE };
	assert_int_equal(check_control(&c, &a).state, CHECK_UNCLEAR);
	assert_string_equal(check_control(&c, &a).reason, "the request ended with reset");
	a.outcome = OUTCOME_EMPTY;
	assert_int_equal(check_control(&c, &a).state, CHECK_FAILED);
	assert_string_equal(check_control(&c, &a).reason, "empty answer");
}

static void corruption_fails_although_the_pattern_matches(void **state)
{
	char *must[] = { (char[]){ "Paris" } };
	struct plan_control c = { BASE, .n_must_match = 1, .must_match = must };
	assert_int_equal(answer(&c, "Paris <unk>").state, CHECK_FAILED);
	assert_string_equal(answer(&c, "Paris <unk>").reason, "corrupt: special token <unk> in the text");
	assert_int_equal(answer(&c, "Paris \xe6\xb2\xb3").state, CHECK_FAILED);
	must[0] = (char[]){ "\\p{Han}" };
	assert_int_equal(answer(&c, "Paris \xe6\xb2\xb3").state, CHECK_PASSED);
}

static void reasons_stay_one_line_of_whole_characters(void **state)
{
	auto_free char *text = repeat("\xc3\xa4\n\x01", 200);
	struct plan_control c = { BASE, .exact = (char[]){ "x" } };
	struct check_answer a = { .outcome = OUTCOME_OK, .text = text, .len = strlen(text), .output_tok = 1 };
	struct check_result r = check_control(&c, &a);
	for (size_t i = 0, n; r.reason[i]; i += n) {
		uint32_t cp = 0;
		n = utf8_get(r.reason + i, strlen(r.reason + i), &cp);
		assert_true(n > 0 && cp >= 0x20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(surface_of_worked_examples),
		cmocka_unit_test(repetition_of_word_4_grams),
		cmocka_unit_test(one_stray_han_letter_in_69_characters),
		cmocka_unit_test(kana_brings_han),
		cmocka_unit_test(fluent_nonsense_and_good_answers_pass_the_surface),
		cmocka_unit_test(runs_start_at_24_and_few_distinct_at_64),
		cmocka_unit_test(special_tokens_as_text),
		cmocka_unit_test(bad_characters_and_bytes),
		cmocka_unit_test(patterns_decide),
		cmocka_unit_test(a_pattern_over_its_limits_is_unclear_and_never_hangs),
		cmocka_unit_test(exact_is_exact_and_overrules_the_surface),
		cmocka_unit_test(json_with_and_without_a_fence),
		cmocka_unit_test(token_counts_told_and_not_told),
		cmocka_unit_test(same_as_reference_names_the_place),
		cmocka_unit_test(a_failed_request_is_unclear_and_an_empty_answer_fails),
		cmocka_unit_test(corruption_fails_although_the_pattern_matches),
		cmocka_unit_test(reasons_stay_one_line_of_whole_characters),
	};
	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
