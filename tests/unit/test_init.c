/* SPDX-License-Identifier: Apache-2.0 */
/* What `proofmark init` reads from GGUF files, made here byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"
#include "cli/init_facts.h"

struct maker {
	unsigned char bytes[4096];
	size_t len;
	bool big_endian, short_lengths;
};

static void put(struct maker *m, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		m->bytes[m->len++] = (unsigned char)(v >> 8 * (m->big_endian ? bytes - 1 - i : i));
}

static void put_length(struct maker *m, uint64_t v)
{
	put(m, v, m->short_lengths ? 4 : 8);
}

static void put_text(struct maker *m, const char *s)
{
	put_length(m, strlen(s));
	memcpy(m->bytes + m->len, s, strlen(s));
	m->len += strlen(s);
}

static void put_key(struct maker *m, const char *key, unsigned type)
{
	put_text(m, key);
	put(m, type, 4);
}

static struct maker make(unsigned version, bool big_endian)
{
	struct maker m = { .big_endian = big_endian, .short_lengths = version == 1 };

	memcpy(m.bytes, "GGUF", 4);
	m.len = 4;
	put(&m, version, 4);
	put_length(&m, 0);
	put_length(&m, 5);
	put_key(&m, "general.architecture", 8);
	put_text(&m, "llama");
	put_key(&m, "tokenizer.ggml.tokens", 9);
	put(&m, 8, 4);
	put_length(&m, 3);
	put_text(&m, "a");
	put_text(&m, "general.name");
	put_text(&m, "c");
	put_key(&m, "llama.context_length", 4);
	put(&m, 8192, 4);
	put_key(&m, "general.file_type", 4);
	put(&m, 15, 4);
	put_key(&m, "general.name", 8);
	put_text(&m, "Example 8B");
	return m;
}

static int read_back(struct gguf_facts *out, const struct maker *m, size_t len)
{
	char path[] = "/tmp/proofmark-test-init-XXXXXX";
	auto_fd fd = mkstemp(path);
	struct err err = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, m->bytes, len), 0);
	int rc = init_read_gguf(out, path, &err);
	unlink(path);
	if (rc)
		assert_int_equal(err.cls, ERR_PLAN);
	return rc;
}

static void facts_done(struct gguf_facts *g)
{
	free(g->name);
	free(g->architecture);
}

static void reads_every_version_and_byte_order(void **state)
{
	(void)state;
	for (unsigned version = 1; version <= 3; version++)
		for (int big = 0; big <= 1; big++) {
			struct maker m = make(version, big);
			struct gguf_facts g = { 0 };
			assert_int_equal(read_back(&g, &m, m.len), 0);
			assert_string_equal(g.name, "Example 8B");
			assert_string_equal(g.architecture, "llama");
			assert_string_equal(g.quantization, "Q4_K_M");
			assert_int_equal(g.context_tok, 8192);
			facts_done(&g);
		}
}

static void refuses_a_file_cut_off_anywhere(void **state)
{
	struct maker m = make(3, false);

	(void)state;
	for (size_t len = 0; len < m.len; len++) {
		struct gguf_facts g = { 0 };
		assert_int_equal(read_back(&g, &m, len), -1);
		assert_null(g.name);
	}
}

static void refuses_other_versions_and_files(void **state)
{
	struct maker m = make(9, false);
	struct gguf_facts g = { 0 };

	(void)state;
	assert_int_equal(read_back(&g, &m, m.len), -1);
	m = make(3, false);
	m.bytes[0] = 'F';
	assert_int_equal(read_back(&g, &m, m.len), -1);
}

/* Every byte of the head set to ff: lengths of 2^64 and counts past all sense. */
static void survives_absurd_numbers(void **state)
{
	struct maker m = make(3, false);

	(void)state;
	for (size_t at = 4; at < m.len; at++) {
		struct maker bad = m;
		struct gguf_facts g = { 0 };
		size_t n = m.len - at < 8 ? m.len - at : 8;
		memset(bad.bytes + at, 0xff, n);
		if (read_back(&g, &bad, bad.len) == 0)
			facts_done(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_version_and_byte_order),
		cmocka_unit_test(refuses_a_file_cut_off_anywhere),
		cmocka_unit_test(refuses_other_versions_and_files),
		cmocka_unit_test(survives_absurd_numbers),
	};
	return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
