/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/lock.h"

#include <string.h>

static char digest[3][65];

static void make_digests(void)
{
	for (size_t i = 0; i < ARRAY_LEN(digest); i++)
		memset(digest[i], 'a' + (int)i, 64);
}

static void lock_of_two_files(struct lock *l)
{
	*l = (struct lock){ .rules = RULES_CURRENT };
	memcpy(l->plan_sha256, digest[0], 65);
	memcpy(l->prompts_sha256, digest[1], 65);
	strcpy(l->version, "9.9");
	l->candidates = calloc(1, sizeof(*l->candidates));
	assert_non_null(l->candidates);
	l->n_candidates = 1;
	l->candidates[0].name = strdup("cpu");
	l->candidates[0].started = true;
	assert_int_equal(lock_add_file(&l->files, &l->n_files, LOCK_MODEL, "z.gguf", digest[2], 7), 0);
	assert_int_equal(lock_add_file(&l->files, &l->n_files, LOCK_MODEL, "a.gguf", digest[1], 8), 0);
}

static void what_is_written_is_read_and_sorted(void **state)
{
	struct lock l, back;
	struct err err = { 0 };
	auto_buf text = BUF_INIT(LOCK_BYTES_MAX);
	lock_of_two_files(&l);
	assert_int_equal(lock_write(&text, &l), 0);
	assert_int_equal(lock_read(&back, text.p, text.len, "lock", &err), 0);
	assert_int_equal(back.n_files, 2);
	assert_string_equal(back.files[0].path, "a.gguf");
	assert_int_equal(back.files[1].bytes, 7);
	assert_true(lock_candidate_find(&back, "cpu")->started);
	assert_null(lock_candidate_find(&back, "gpu"));
	lock_done(&l);
	lock_done(&back);
}

static void rules_that_are_not_known_cannot_be_recomputed(void **state)
{
	struct lock l, back;
	struct err err = { 0 };
	auto_buf text = BUF_INIT(LOCK_BYTES_MAX);
	lock_of_two_files(&l);
	l.rules = 2;
	assert_int_equal(lock_write(&text, &l), 0);
	assert_int_equal(lock_read(&back, text.p, text.len, "lock", &err), -1);
	assert_int_equal(err.cls, ERR_RECOMPUTE);
	assert_non_null(strstr(err.msg, "rule set 2"));
	lock_done(&l);
}

struct said {
	size_t n;
	char what[200];
	bool locked, found;
};

static void say(void *ctx, const char *what, const char *locked, const char *found)
{
	struct said *s = ctx;
	s->n++;
	snprintf(s->what, sizeof(s->what), "%s", what);
	s->locked = locked != NULL;
	s->found = found != NULL;
}

static void each_difference_is_named_once(void **state)
{
	static const struct {
		const char *rule, *locked_path, *found_path;
		enum lock_role role;
		int locked, found; /* digest; -1 = no such file */
		size_t n;
	} cases[] = {
		{ "same bytes", "a", "a", LOCK_MODEL, 0, 0, 0 },
		{ "other bytes", "a", "a", LOCK_MODEL, 0, 1, 1 },
		{ "gone", "a", "a", LOCK_MODEL, 0, -1, 1 },
		{ "come", "a", "a", LOCK_MODEL, -1, 0, 1 },
		{ "a model by another path is another model", "x/a", "y/a", LOCK_MODEL, 0, 0, 2 },
		{ "an engine in another folder is the same engine", "/x/lib.so", "/y/lib.so", LOCK_MAPPED, 0,
		  0, 0 },
		{ "but not with other bytes", "/x/lib.so", "/y/lib.so", LOCK_MAPPED, 0, 1, 1 },
		{ "a role that is not asked for", "a", "a", LOCK_CORPUS, 0, 1, 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lock_file *locked = NULL, *found = NULL;
		size_t n_locked = 0, n_found = 0;
		struct said s = { 0 };
		if (cases[i].locked >= 0)
			assert_int_equal(lock_add_file(&locked, &n_locked, cases[i].role,
			                               cases[i].locked_path, digest[cases[i].locked], 1),
			                 0);
		if (cases[i].found >= 0)
			assert_int_equal(lock_add_file(&found, &n_found, cases[i].role, cases[i].found_path,
			                               digest[cases[i].found], 1),
			                 0);
		size_t n = lock_compare_files(locked, n_locked, found, n_found,
		                              1u << LOCK_MODEL | 1u << LOCK_MAPPED, say, &s);
		if (n != cases[i].n || s.n != n)
			fail_msg("%s: %zu differences, want %zu", cases[i].rule, n, cases[i].n);
		struct lock both = { .files = locked, .n_files = n_locked };
		lock_done(&both);
		both = (struct lock){ .files = found, .n_files = n_found };
		lock_done(&both);
	}
}

int main(void)
{
	make_digests();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_and_sorted),
		cmocka_unit_test(rules_that_are_not_known_cannot_be_recomputed),
		cmocka_unit_test(each_difference_is_named_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
