/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const colours[] = { "red", "green", "blue", NULL };

enum { O_CANDIDATE, O_OUT, O_KEY, O_QUIET, O_VERBOSE, O_COUNT, O_SHARE, O_COLOUR };

static const struct opt opts[] = {
	[O_CANDIDATE] = { "candidate", 0, OPT_STR, "NAME", "which one", NULL },
	[O_OUT] = { "out", 'o', OPT_STR, "DIR", "where to", NULL },
	[O_KEY] = { "key", 0, OPT_MULTI, "FILE", "a key", NULL },
	[O_QUIET] = { "quiet", 'q', OPT_FLAG, NULL, "say less", NULL },
	[O_VERBOSE] = { "verbose", 'v', OPT_FLAG, NULL, "say more", NULL },
	[O_COUNT] = { "count", 'n', OPT_U64, "N", "how many", NULL },
	[O_SHARE] = { "share", 0, OPT_NUM, "X", "how much", NULL },
	[O_COLOUR] = { "colour", 0, OPT_CHOICE, "COLOUR",
	               "a help text that is far too long for one line of eighty columns and must wrap",
	               colours },
	{ 0 },
};

static int run_nothing(const struct parsed *p, struct err *err)
{
	(void)p;
	(void)err;
	return 0;
}

static const struct command cmd = {
	.name = "paint",
	.args = "PLAN",
	.min_args = 1,
	.max_args = 2,
	.says = "paint a plan",
	.examples = "  proofmark paint a.json\nproofmark paint -o x b.json\n",
	.opts = opts,
	.run = run_nothing,
};

#define WORDS_MAX 48

static int parse(struct parsed *p, const char *const *words, struct err *err)
{
	char *argv[WORDS_MAX];
	int n = 0;
	for (; words[n]; n++)
		argv[n] = strdup(words[n]);
	int rc = opt_parse(p, &cmd, n, argv, err);
	/* The values point into argv: leave it alive until the caller is done with it. */
	static char *kept[WORDS_MAX];
	for (int i = 0; i < WORDS_MAX; i++) {
		free(kept[i]);
		kept[i] = i < n ? argv[i] : NULL;
	}
	return rc;
}

static void reads_every_way_of_giving_a_value(void **state)
{
	(void)state;
	static const char *const ways[][4] = {
		{ "--out=d", "p", NULL }, { "--out", "d", "p", NULL }, { "-o", "d", "p", NULL },
		{ "-od", "p", NULL },     { "p", "--out", "d", NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct parsed p;
		struct err err = { 0 };
		assert_int_equal(parse(&p, ways[i], &err), 0);
		assert_true(p.v[O_OUT].given);
		assert_string_equal(p.v[O_OUT].str, "d");
		assert_int_equal(p.n_args, 1);
		assert_string_equal(p.args[0], "p");
		assert_false(p.v[O_QUIET].given);
	}
}

static void takes_letters_together_numbers_and_repetitions(void **state)
{
	(void)state;
	static const char *const words[] = { "-qvn12",   "--share=-0.5", "--key",  "a", "--key=b",
		                             "--colour", "blue",         "--out=", "p", NULL };
	struct parsed p;
	struct err err = { 0 };
	assert_int_equal(parse(&p, words, &err), 0);
	assert_true(p.v[O_QUIET].given && p.v[O_VERBOSE].given);
	assert_int_equal(p.v[O_COUNT].u64, 12);
	assert_true(p.v[O_SHARE].num < -0.49 && p.v[O_SHARE].num > -0.51);
	assert_int_equal(p.v[O_KEY].n, 2);
	assert_string_equal(p.v[O_KEY].list[0], "a");
	assert_string_equal(p.v[O_KEY].list[1], "b");
	assert_string_equal(p.v[O_COLOUR].str, "blue");
	assert_string_equal(p.v[O_OUT].str, "");
}

static void ends_options_at_two_dashes_and_takes_one_dash_as_argument(void **state)
{
	(void)state;
	static const char *const words[] = { "-", "--", "--out", NULL };
	struct parsed p;
	struct err err = { 0 };
	assert_int_equal(parse(&p, words, &err), 0);
	assert_int_equal(p.n_args, 2);
	assert_string_equal(p.args[0], "-");
	assert_string_equal(p.args[1], "--out");
}

static const struct {
	const char *words[4];
	const char *says;
} refused[] = {
	{ { "--candidat", "x", "p" }, "did you mean --candidate?" },
	{ { "--hepl", "p" }, "did you mean --help?" },
	{ { "--zzzzzzzz", "p" }, "no option --zzzzzzzz; see `proofmark help paint`" },
	{ { "--cand=x", "p" }, "no option --cand" },
	{ { "-x", "p" }, "no option -x" },
	{ { "-qx", "p" }, "no option -x" },
	{ { "--quiet=yes", "p" }, "--quiet takes no value" },
	{ { "p", "--out" }, "--out: want a value: --out=DIR" },
	{ { "--out", "--quiet", "p" }, "--out: want a value" },
	{ { "--count=-1", "p" }, "--count: want a whole number from 0, got \"-1\"" },
	{ { "--count=1.5", "p" }, "want a whole number" },
	{ { "--count=", "p" }, "want a whole number" },
	{ { "--count= 1", "p" }, "want a whole number" },
	{ { "--count=99999999999999999999", "p" }, "want a whole number" },
	{ { "--share=nan", "p" }, "want a number" },
	{ { "--share=1e999", "p" }, "want a number" },
	{ { "--share=0x10", "p" }, "want a number" },
	{ { "--share=1 ", "p" }, "want a number" },
	{ { "--colour=gren", "p" }, "want one of red, green, blue, got \"gren\"; did you mean green?" },
	{ { "--colour=", "p" }, "want one of red, green, blue" },
	{ { "--quiet" }, "want PLAN" },
	{ { "a", "b", "c" }, "too many arguments: \"c\"; usage: proofmark paint PLAN" },
};

static void refuses_with_one_line_that_says_what(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct parsed p;
		struct err err = { 0 };
		memset(&p, 0x5a, sizeof(p));
		assert_int_equal(parse(&p, refused[i].words, &err), -1);
		assert_int_equal(err.cls, ERR_USAGE);
		if (!strstr(err.msg, refused[i].says))
			fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.msg, refused[i].says);
		assert_null(strchr(err.msg, '\n'));
		for (size_t k = 0; k < sizeof(p); k++)
			assert_int_equal(((const unsigned char *)&p)[k], 0x5a);
	}
}

static void bounds_repeated_options(void **state)
{
	(void)state;
	const char *words[WORDS_MAX];
	struct parsed p;
	struct err err = { 0 };
	size_t n = 0;
	for (; n < 33; n++)
		words[n] = "--key=k";
	words[n++] = "p";
	words[n] = NULL;
	assert_int_equal(parse(&p, words, &err), -1);
	assert_non_null(strstr(err.msg, "more than 32 times"));
	assert_int_equal(parse(&p, words + 1, &err), 0);
	assert_int_equal(p.v[O_KEY].n, 32);
}

static void helps_with_examples_first_and_never_past_80_columns(void **state)
{
	(void)state;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	opt_help(f, &cmd);
	fclose(f);
	static const char *const wanted[] = {
		"Examples:\n  proofmark paint a.json\n  proofmark paint -o x b.json\n",
		"Usage: proofmark paint [options] PLAN\n",
		"Paint a plan.\n",
		"  -o, --out DIR ",
		"one of: red green blue\n",
		"  -h, --help "
	};
	const char *at = text;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		at = strstr(at, wanted[i]);
		assert_non_null(at);
	}
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 80);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_way_of_giving_a_value),
		cmocka_unit_test(takes_letters_together_numbers_and_repetitions),
		cmocka_unit_test(ends_options_at_two_dashes_and_takes_one_dash_as_argument),
		cmocka_unit_test(refuses_with_one_line_that_says_what),
		cmocka_unit_test(bounds_repeated_options),
		cmocka_unit_test(helps_with_examples_first_and_never_past_80_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
