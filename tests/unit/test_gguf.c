/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fs.h"
#include "pin/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { U8 = 0, U32 = 4, I32 = 5, F32 = 6, STRING = 8, ARRAY = 9, U64 = 10 };

static char path[64];

static int make_file(void **state)
{
	snprintf(path, sizeof(path), "/tmp/proofmark-gguf-XXXXXX");
	auto_fd fd = mkstemp(path);
	return fd < 0 ? -1 : 0;
}

static int remove_file(void **state)
{
	return unlink(path);
}

/* A header under construction. */
struct made {
	struct buf b;
	uint32_t version;
	bool big;
};

static void add_uint(struct made *m, size_t n, uint64_t v)
{
	for (size_t i = 0; i < n; i++)
		buf_addc(&m->b, (char)(v >> 8 * (m->big ? n - 1 - i : i)));
}

static void add_text(struct made *m, const char *s)
{
	add_uint(m, 8, strlen(s));
	buf_adds(&m->b, s);
}

static void begin(struct made *m, uint32_t version, bool big, uint64_t n_tensors, uint64_t n_metadata)
{
	*m = (struct made){ .b = BUF_INIT(1 << 24), .version = version, .big = big };
	buf_add(&m->b, "GGUF", 4);
	add_uint(m, 4, version);
	add_uint(m, 8, n_tensors);
	add_uint(m, 8, n_metadata);
}

static void add_string(struct made *m, const char *key, const char *value)
{
	add_text(m, key);
	add_uint(m, 4, STRING);
	add_text(m, value);
}

static void add_number(struct made *m, const char *key, uint32_t type, size_t n, uint64_t value)
{
	add_text(m, key);
	add_uint(m, 4, type);
	add_uint(m, n, value);
}

static void add_model(struct made *m)
{
	add_string(m, "general.architecture", "example");
	add_text(m, "tokenizer.ggml.tokens");
	add_uint(m, 4, ARRAY);
	add_uint(m, 4, STRING);
	add_uint(m, 8, 30000);
	for (unsigned i = 0; i < 30000; i++)
		add_text(m, "token");
	add_text(m, "some.floats");
	add_uint(m, 4, ARRAY);
	add_uint(m, 4, F32);
	add_uint(m, 8, 3);
	add_uint(m, 4, 0), add_uint(m, 4, 1), add_uint(m, 4, 2);
	add_number(m, "other.context_length", U32, 4, 7);
	add_number(m, "example.context_length", U32, 4, 8192);
	add_number(m, "general.file_type", U32, 4, 3);
	add_string(m, "general.name", "Example 1B");
	add_number(m, "split.count", U8, 1, 2);
}

enum { MODEL_MEMBERS = 8 };

static int read_made(struct gguf *g, const struct made *m, size_t len, struct err *err)
{
	struct err e = { 0 };
	if (fs_write(path, m->b.p, len, &e))
		fail_msg("%s", e.msg);
	return gguf_read(g, path, err);
}

/* One tensor of 32 x 2 values in F32, and its data. */
static void add_tensor(struct made *m)
{
	add_text(m, "token_embd.weight");
	add_uint(m, 4, 2);
	add_uint(m, 8, 32), add_uint(m, 8, 2);
	add_uint(m, 4, 0), add_uint(m, 8, 0);
	while (m->b.len % 32)
		buf_addc(&m->b, 0);
	for (unsigned i = 0; i < 256; i++)
		buf_addc(&m->b, 1);
}

static void reads_all_versions_and_byte_orders(void **state)
{
	static const struct {
		uint32_t version;
		bool big;
	} kinds[] = { { 2, false }, { 2, true }, { 3, false }, { 3, true } };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct made m;
		struct gguf g = { 0 };
		struct err err = { 0 };
		uint64_t n;
		begin(&m, kinds[i].version, kinds[i].big, 1, MODEL_MEMBERS);
		add_model(&m);
		add_tensor(&m);
		if (read_made(&g, &m, m.b.len, &err))
			fail_msg("version %u: %s", kinds[i].version, err.msg);
		assert_int_equal(g.version, kinds[i].version);
		assert_int_equal(g.big_endian, kinds[i].big);
		assert_int_equal(g.n_tensors, 1);
		assert_int_equal(g.tensor_bytes, 256);
		assert_int_equal(g.n_elements, 64);
		assert_int_equal(g.file_bytes, m.b.len);
		assert_string_equal(gguf_text(&g, "general.architecture"), "example");
		assert_string_equal(gguf_text(&g, "general.name"), "Example 1B");
		assert_true(gguf_number(gguf_find_arch(&g, "context_length"), &n) && n == 8192);
		assert_true(gguf_number(gguf_find(&g, "split.count"), &n) && n == 2);
		assert_int_equal(gguf_find(&g, "tokenizer.ggml.tokens")->n, 30000);
		assert_null(gguf_find(&g, "tokenizer.ggml.tokens")->list); /* texts are not kept */
		gguf_done(&g);
		buf_done(&m.b);
	}
}

static void numbers_are_what_they_say(void **state)
{
	struct made m;
	struct gguf g = { 0 };
	struct err err = { 0 };
	uint64_t n = 7;
	begin(&m, 3, false, 0, 3);
	add_number(&m, "minus", I32, 4, (uint32_t)-1);
	add_number(&m, "real", F32, 4, 0x3fc00000);
	add_number(&m, "wide", U64, 8, UINT64_MAX);
	assert_int_equal(read_made(&g, &m, m.b.len, &err), 0);
	assert_false(gguf_number(gguf_find(&g, "minus"), &n)); /* not 4294967295 */
	assert_false(gguf_number(gguf_find(&g, "real"), &n));
	assert_false(gguf_number(gguf_find(&g, "absent"), &n));
	assert_int_equal(n, 7);
	assert_true(gguf_find(&g, "real")->real > 1.49 && gguf_find(&g, "real")->real < 1.51);
	assert_true(gguf_number(gguf_find(&g, "wide"), &n) && n == UINT64_MAX);
	assert_null(gguf_find_arch(&g, "context_length")); /* no architecture */
	gguf_done(&g);
	buf_done(&m.b);
}

static void refuses_every_cut(void **state)
{
	struct err err = { 0 };
	struct gguf g = { 0 };
	struct made m;
	begin(&m, 3, false, 1, 3);
	add_string(&m, "general.architecture", "example");
	add_number(&m, "x", U64, 8, 1);
	add_string(&m, "general.name", "y");
	add_tensor(&m);
	for (size_t n = 0; n < m.b.len; n++)
		assert_int_equal(read_made(&g, &m, n, &err), -1);
	assert_int_equal(g.n_values, 0); /* untouched */
	assert_int_equal(read_made(&g, &m, m.b.len, &err), 0);
	gguf_done(&g);
	buf_done(&m.b);
}

static void refuses_counts_that_claim_the_impossible(void **state)
{
	static const struct {
		uint32_t array_type;
		uint64_t count;
	} lies[] = { { STRING, UINT64_MAX },
		     { F32, UINT64_MAX / 4 + 2 },
		     { F32, (uint64_t)1 << 62 },
		     { 13, 1 },
		     { ARRAY, 1 } };
	struct err err = { 0 };
	struct gguf g = { 0 };
	struct made m;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		begin(&m, 3, false, 0, 1);
		add_text(&m, "a");
		add_uint(&m, 4, ARRAY);
		add_uint(&m, 4, lies[i].array_type);
		add_uint(&m, 8, lies[i].count);
		for (unsigned k = 0; k < 64; k++)
			add_uint(&m, 4, ARRAY), add_uint(&m, 8, 1);
		err.cls = ERR_NONE;
		assert_int_equal(read_made(&g, &m, m.b.len, &err), -1);
		assert_int_equal(err.cls, ERR_PLAN);
		buf_done(&m.b);
	}
	static const uint64_t counts[][2] = { { 0, UINT64_MAX }, { UINT64_MAX, 0 }, { 2, 0 }, { 0, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		begin(&m, 3, false, counts[i][0], counts[i][1]);
		assert_int_equal(read_made(&g, &m, m.b.len, &err), -1);
		buf_done(&m.b);
	}
}

static void names_what_it_cannot_read(void **state)
{
	static const struct {
		const char *start, *says;
	} files[] = { { "GGUF\1\0\0\0", "version 1 is not supported" },
		      { "GGUF\4\0\0\0", "unknown GGUF version 4" },
		      { "GGUF\0\0\0\4", "unknown GGUF version 4" },
		      { "GGUF\0\0\0\0", "bad version" },
		      { "FUGG\3\0\0\0", "not adopted" },
		      { "tjgg\3\0\0\0", "old GGJT file" },
		      { "gguf\3\0\0\0", "bad magic 67 67 75 66" } };
	struct err err = { 0 };
	struct gguf g = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char bytes[64] = { 0 };
		memcpy(bytes, files[i].start, 8);
		assert_int_equal(fs_write(path, bytes, sizeof(bytes), &err), 0);
		assert_int_equal(gguf_read(&g, path, &err), -1);
		if (err.cls != ERR_PLAN || !strstr(err.msg, files[i].says))
			fail_msg("want \"%s\", got \"%s\"", files[i].says, err.msg);
	}
	assert_int_equal(gguf_read(&g, "/nowhere", &err), -1);
	assert_int_equal(err.cls, ERR_ENV);
	assert_int_equal(gguf_read(&g, "/dev", &err), -1);
}

static void set_names_belong_together(void **state)
{
	assert_true(gguf_same_set("m-00001-of-00003.gguf", "m-00003-of-00003.gguf"));
	assert_false(gguf_same_set("m-00001-of-00003.gguf", "m-00001-of-00002.gguf"));
	assert_false(gguf_same_set("m-00001-of-00003.gguf", "n-00002-of-00003.gguf"));
	assert_false(gguf_same_set("m.gguf", "m.gguf"));
	assert_false(gguf_same_set("-00001-of-00003.gguf", "-00002-of-00003.gguf"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_all_versions_and_byte_orders),
		cmocka_unit_test(numbers_are_what_they_say),
		cmocka_unit_test(refuses_every_cut),
		cmocka_unit_test(refuses_counts_that_claim_the_impossible),
		cmocka_unit_test(names_what_it_cannot_read),
		cmocka_unit_test(set_names_belong_together),
	};
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
