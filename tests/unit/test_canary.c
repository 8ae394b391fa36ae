// SPDX-License-Identifier: Apache-2.0
#include "model/canary.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OWN "PMKEXWUVU5HEJ5K3"
#define OTHER "PMK4ERPGKG332SUH"

static void nonces_are_those_of_the_formula(void **state)
{
	char n[CANARY_NONCE_BYTES];
	canary_nonce(n, "chat/512in/64out/c8", "load", 0, 1);
	assert_string_equal(n, OWN);
	canary_nonce(n, "chat/512in/64out/c8", "load", 17, 42);
	assert_string_equal(n, OTHER);
}

static void questions_are_enough_and_do_not_tell_their_answers(void **state)
{
	assert_true(canary_questions_n() >= 16);
	for (size_t i = 0; i < canary_questions_n(); i++) {
		const char *answer = canary_questions[i].answer;
		for (const char *c = answer; *c; c++)
			assert_true(isalpha((unsigned char)*c));
		for (size_t k = 0; k < canary_questions_n(); k++) {
			assert_null(strcasestr(canary_questions[k].question, answer));
			assert_true(i == k || !strcasestr(canary_questions[k].answer, answer));
		}
	}
	assert_ptr_equal(canary_question_of(canary_questions_n() + 2), &canary_questions[2]);
}

static void the_text_holds_nonce_and_question_but_not_the_answer(void **state)
{
	for (uint64_t k = 0; k < 40; k++) {
		auto_buf b = BUF_INIT(1000);
		canary_text(&b, OWN, k);
		assert_non_null(strstr(b.p, OWN));
		assert_non_null(strstr(b.p, canary_question_of(k)->question));
		assert_null(strcasestr(b.p, canary_question_of(k)->answer));
		assert_memory_equal(b.p, "\n\n", 2);
	}
}

static void finds_what_has_the_form_of_a_nonce(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} rows[] = {
		{ "", 0 },
		{ OWN, 1 },
		{ "PMKEXWUVU5HEJ5K", 0 },  /* one short */
		{ "PMKEXWUVU5HEJ5K1", 0 }, /* 1 is no base32 */
		{ "PMKEXWUVU5HEj5K3", 0 }, /* lower case */
		{ "the" OWN "PARIS", 1 },  /* words glued to it */
		{ "PMPMPM" OWN, 1 },       /* starts that lead nowhere */
		{ OWN OTHER, 2 },          /* back to back */
		{ OWN " and " OTHER ".", 2 },
		{ "PMKPMKPMKPMKPMKP", 1 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t at = 0, n = 0, len = strlen(rows[i].text);
		while (canary_find(rows[i].text, len, &at))
			n++;
		assert_int_equal(n, rows[i].n);
		assert_int_equal(at, len);
	}
}

static void judges_own_expected_and_foreign(void **state)
{
	static const char others[][CANARY_NONCE_BYTES] = { OTHER, OWN }; /* ascending */
	static const struct {
		const char *text, *own;
		bool nonce, expected;
		size_t n_foreign;
	} rows[] = {
		{ OWN "\nParis", OWN, true, true, 0 },
		{ OWN "\nPARIS.", OWN, true, true, 0 },
		{ "Paris", OWN, false, true, 0 },
		{ OWN " Par", OWN, true, false, 0 },
		{ OTHER " paris", OWN, false, true, 1 },
		{ OWN OTHER OTHER, OWN, true, false, 2 },
		{ "PMKAAAAAAAAAAAAA", OWN, false, false, 0 }, /* made up by the model: nobody's */
		{ "text " OWN, NULL, false, false, 1 },       /* not a canary itself */
		{ "", OWN, false, false, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct canary_result r = canary_judge(rows[i].text, strlen(rows[i].text), rows[i].own,
		                                      rows[i].own ? "Paris" : NULL, others, 2);
		assert_int_equal(r.has_nonce, rows[i].nonce);
		assert_int_equal(r.has_expected, rows[i].expected);
		assert_int_equal(r.n_foreign, rows[i].n_foreign);
	}
	assert_int_equal(canary_judge(OTHER, 16, OWN, "Paris", NULL, 0).n_foreign, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nonces_are_those_of_the_formula),
		cmocka_unit_test(questions_are_enough_and_do_not_tell_their_answers),
		cmocka_unit_test(the_text_holds_nonce_and_question_but_not_the_answer),
		cmocka_unit_test(finds_what_has_the_form_of_a_nonce),
		cmocka_unit_test(judges_own_expected_and_foreign),
	};
	return cmocka_run_group_tests_name("canary", tests, NULL, NULL);
}
