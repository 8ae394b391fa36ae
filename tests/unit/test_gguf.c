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
	add_uint(m, m->version == 1 ? 4 : 8, strlen(s));
	buf_adds(&m->b, s);
}

static void begin(struct made *m, uint32_t version, bool big, uint64_t n_metadata)
{
	*m = (struct made){ .b = BUF_INIT(1 << 24), .version = version, .big = big };
	buf_add(&m->b, "GGUF", 4);
	add_uint(m, 4, version);
	add_uint(m, version == 1 ? 4 : 8, 272);
	add_uint(m, version == 1 ? 4 : 8, n_metadata);
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
	add_uint(m, m->version == 1 ? 4 : 8, 30000);
	for (unsigned i = 0; i < 30000; i++)
		add_text(m, "token");
	add_text(m, "some.floats");
	add_uint(m, 4, ARRAY);
	add_uint(m, 4, F32);
	add_uint(m, m->version == 1 ? 4 : 8, 3);
	add_uint(m, 4, 0), add_uint(m, 4, 1), add_uint(m, 4, 2);
	add_number(m, "other.context_length", U32, 4, 7);
	add_number(m, "example.context_length", U32, 4, 8192);
	add_number(m, "general.file_type", U32, 4, 3);
	add_string(m, "general.name", "Example 1B");
	add_number(m, "split.count", U8, 1, 2);
}

enum { MODEL_MEMBERS = 8 };

static int read_made(struct gguf_info *g, const struct made *m, size_t len, struct err *err)
{
	struct err e = { 0 };
	if (fs_write(path, m->b.p, len, &e))
		fail_msg("%s", e.msg);
	return gguf_read(g, path, err);
}

static void reads_all_versions_and_byte_orders(void **state)
{
	static const struct {
		uint32_t version;
		bool big;
	} kinds[] = { { 1, false }, { 2, false }, { 3, false }, { 3, true } };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct made m;
		struct gguf_info g = { 0 };
		struct err err = { 0 };
		begin(&m, kinds[i].version, kinds[i].big, MODEL_MEMBERS);
		add_model(&m);
		if (read_made(&g, &m, m.b.len, &err))
			fail_msg("version %u: %s", kinds[i].version, err.msg);
		assert_int_equal(g.version, kinds[i].version);
		assert_int_equal(g.big_endian, kinds[i].big);
		assert_int_equal(g.n_tensors, 272);
		assert_string_equal(g.architecture, "example");
		assert_string_equal(g.name, "Example 1B");
		assert_string_equal(g.file_type, "Q4_1");
		assert_true(g.has_context && g.context_tok == 8192);
		assert_true(g.has_split && g.split_count == 2);
		buf_done(&m.b);
	}
}

static void what_is_not_told_stays_unknown(void **state)
{
	struct made m;
	struct gguf_info g = { 0 };
	struct err err = { 0 };
	begin(&m, 3, false, 2);
	add_number(&m, "general.file_type", U32, 4, 99);
	add_number(&m, "example.context_length", I32, 4, (uint32_t)-1);
	assert_int_equal(read_made(&g, &m, m.b.len, &err), 0);
	assert_string_equal(g.architecture, "");
	assert_string_equal(g.file_type, "type 99");
	assert_false(g.has_context);
	assert_false(g.has_split);
	buf_done(&m.b);
}

static void refuses_a_damaged_header(void **state)
{
	struct err err = { 0 };
	struct gguf_info g = { 0 };
	struct made m;
	/* every place where a header can be cut */
	begin(&m, 3, false, 3);
	add_string(&m, "general.architecture", "example");
	add_number(&m, "x", U64, 8, 1);
	add_string(&m, "general.name", "y");
	for (size_t n = 0; n < m.b.len; n++)
		assert_int_equal(read_made(&g, &m, n, &err), -1);
	assert_int_equal(read_made(&g, &m, m.b.len, &err), 0);
	buf_done(&m.b);
	/* counts that claim the impossible */
	static const struct {
		uint32_t array_type;
		uint64_t count;
	} lies[] = { { STRING, UINT64_MAX },
		     { F32, UINT64_MAX / 4 + 2 },
		     { F32, (uint64_t)1 << 62 },
		     { 13, 1 },
		     { ARRAY, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		begin(&m, 3, false, 1);
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
	begin(&m, 3, false, UINT64_MAX);
	assert_int_equal(read_made(&g, &m, m.b.len, &err), -1);
	buf_done(&m.b);
	begin(&m, 4, false, 0);
	assert_int_equal(read_made(&g, &m, m.b.len, &err), -1);
	assert_non_null(strstr(err.msg, "version 4 is not known"));
	m.b.p[0] = 'g';
	assert_int_equal(read_made(&g, &m, m.b.len, &err), -1);
	assert_non_null(strstr(err.msg, "no GGUF file"));
	buf_done(&m.b);
	assert_int_equal(gguf_read(&g, "/nowhere", &err), -1);
	assert_int_equal(err.cls, ERR_ENV);
	assert_int_equal(gguf_read(&g, "/dev", &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_all_versions_and_byte_orders),
		cmocka_unit_test(what_is_not_told_stays_unknown),
		cmocka_unit_test(refuses_a_damaged_header),
	};
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
