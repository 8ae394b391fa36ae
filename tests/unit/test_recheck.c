/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json_in.h"
#include "cli/recheck.h"

#include <string.h>

static const struct {
	const char *name, *stated, *found;
	bool with_sentences, without; /* same, sentences compared or not */
} rows[] = {
	{ "equal", "{\"a\":1,\"reason\":\"x\"}", "{\"a\":1,\"reason\":\"x\"}", true, true },
	{ "a_figure_in_its_last_digit", "{\"a\":0.123456789}", "{\"a\":0.12345679}", true, true },
	{ "another_figure", "{\"a\":0.1234}", "{\"a\":0.1235}", false, false },
	{ "another_count", "{\"n\":3}", "{\"n\":4}", false, false },
	{ "another_state", "{\"state\":\"pass\"}", "{\"state\":\"fail\"}", false, false },
	{ "a_sentence_worded_otherwise", "{\"c\":[{\"reason\":\"late\",\"n\":1}]}",
	  "{\"c\":[{\"reason\":\"too late\",\"n\":1}]}", false, true },
	{ "another_list_of_sentences", "{\"reasons\":[\"a\",\"b\"]}", "{\"reasons\":[\"c\"]}", false, true },
	{ "no_sentence_where_there_was_one", "{\"invalid_reason\":null}", "{\"invalid_reason\":\"late\"}",
	  false, false },
	{ "nothing_missing_where_there_was", "{\"missing\":[]}", "{\"missing\":[\"x\"]}", false, false },
	{ "a_member_less", "{\"a\":1,\"b\":2}", "{\"a\":1}", false, false },
	{ "another_member", "{\"a\":1}", "{\"b\":1}", false, false },
};

static void compares_sentences_only_of_the_same_version(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_json s = NULL;
		auto_json f = NULL;
		struct err err;
		char where[300];
		size_t n = 0;
		assert_int_equal(
			json_parse(&s, rows[i].stated, strlen(rows[i].stated), "s", JSON_STRICT, NULL, &err),
			0);
		assert_int_equal(
			json_parse(&f, rows[i].found, strlen(rows[i].found), "f", JSON_STRICT, NULL, &err),
			0);
		bool with = json_same(s, f, true, &n, where), without = json_same(s, f, false, &n, where);
		if (with != rows[i].with_sentences || without != rows[i].without)
			fail_msg("%s: %d %d, %s", rows[i].name, with, without, where);
		assert_true(without || where[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(compares_sentences_only_of_the_same_version) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
