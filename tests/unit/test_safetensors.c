/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "pin/lfs.h"
#include "pin/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static int parse(struct safetensors *s, const char *text, uint64_t data, struct err *err)
{
	return safetensors_parse(s, text, strlen(text), data, "file", err);
}

static void reads_tensors_by_name(void **state)
{
	static const char text[] = "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"1\"},"
				   "\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
				   "\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\"}}   ";
	struct safetensors s = { 0 };
	struct err err = { 0 };
	if (parse(&s, text, 16, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(s.n_tensors, 2);
	assert_int_equal(s.n_elements, 7);
	assert_string_equal(s.format, "pt");
	const struct st_tensor *b = safetensors_find(&s, "b");
	assert_non_null(b);
	assert_int_equal(b->dtype, ST_F16);
	assert_int_equal(b->first_dim, 2);
	assert_int_equal(b->last_dim, 3);
	assert_int_equal(safetensors_find(&s, "a")->n_elements, 1);
	assert_null(safetensors_find(&s, "c"));
	safetensors_done(&s);
}

static void refuses_every_cut_and_every_extra_byte(void **state)
{
	static const char text[] =
		"{\"__metadata__\":{\"k\":\"v\"},\"a\\u00e9\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],"
		"\"data_offsets\":[0,4],\"later\":[true,{\"x\":1.5}]}}";
	struct safetensors s = { 0 };
	struct err err = { 0 };
	for (size_t n = 0; n + 1 < sizeof(text) - 1; n++)
		assert_int_equal(safetensors_parse(&s, text, n, 4, "file", &err), -1);
	assert_null(s.tensors);
	assert_int_equal(parse(&s, text, 3, &err), -1);
	assert_non_null(strstr(err.msg, "interrupted download"));
	assert_int_equal(parse(&s, text, 5, &err), -1);
	assert_non_null(strstr(err.msg, "1 bytes after the last tensor"));
	assert_int_equal(parse(&s, text, 4, &err), 0);
	assert_string_equal(s.tensors[0].name, "a\xc3\xa9");
	safetensors_done(&s);
}

static void every_dtype_has_its_width(void **state)
{
	static const struct {
		enum st_dtype t;
		const char *name;
		unsigned bits;
	} some[] = { { ST_F4, "F4", 4 },          { ST_F6_E3M2, "F6_E3M2", 6 }, { ST_F8_E5M2, "F8_E5M2", 8 },
		     { ST_BF16, "BF16", 16 },     { ST_U32, "U32", 32 },        { ST_C64, "C64", 64 },
		     { ST_F8_E8M0, "F8_E8M0", 8 } };
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		assert_string_equal(st_dtype_name(some[i].t), some[i].name);
		assert_int_equal(st_dtype_bits(some[i].t), some[i].bits);
	}
	for (int t = 0; t < ST_N_DTYPES; t++)
		assert_true(st_dtype_name((enum st_dtype)t) && st_dtype_bits((enum st_dtype)t));
	assert_null(st_dtype_name(ST_N_DTYPES));
}

/* Also a bound against quadratic work. */
static void a_large_header_is_quick(void **state)
{
	enum { N = 100000 };
	auto_buf text = BUF_INIT(64u << 20);
	struct safetensors s = { 0 };
	struct err err = { 0 };
	struct timespec a, b;
	buf_addc(&text, '{');
	for (unsigned i = 0; i < N; i++)
		buf_addf(&text,
		         "%s\"model.layers.%u.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[%u,%u]}",
		         i ? "," : "", i, 2 * i, 2 * i + 2);
	buf_addc(&text, '}');
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(safetensors_parse(&s, text.p, text.len, 2 * N, "file", &err), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_int_equal(s.n_tensors, N);
	assert_true(b.tv_sec - a.tv_sec < 20);
	safetensors_done(&s);
}

static void tells_a_pointer_from_weights(void **state)
{
	static const char good[] =
		"version https://git-lfs.github.com/spec/v1\noid sha256:"
		"9a1b7f0c4d2e6f83b5c0a7d9e1f24c68aa02be5573d4c19e8f60b71325ad94ce\nsize 123\n";
	struct lfs_pointer p;
	assert_true(lfs_pointer_parse(&p, good, strlen(good)));
	assert_int_equal(p.bytes, 123);
	assert_memory_equal(p.oid_sha256, "9a1b7f0c", 8);
	static const char lies[] =
		"version https://git-lfs.github.com/spec/v1\nsize 99999999999999999999999\n";
	assert_true(lfs_pointer_parse(&p, lies, strlen(lies)));
	assert_int_equal(p.bytes, UINT64_MAX); /* not told, not wrapped */
	assert_false(lfs_pointer_parse(&p, good + 1, strlen(good) - 1));
	assert_false(lfs_pointer_parse(&p, good, 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_tensors_by_name),
		cmocka_unit_test(refuses_every_cut_and_every_extra_byte),
		cmocka_unit_test(every_dtype_has_its_width),
		cmocka_unit_test(a_large_header_is_quick),
		cmocka_unit_test(tells_a_pointer_from_weights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
