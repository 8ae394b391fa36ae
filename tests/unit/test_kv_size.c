/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "model/kv_size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct kv_width two = { 1, 2 }, one = { 1, 1 };

static uint64_t bytes(const struct kv_model *m, uint64_t tokens, uint32_t ranks)
{
	uint64_t n = 0;
	assert_true(kv_bytes(&n, m, tokens, two, two, ranks));
	return n;
}

static struct kv_layer full(uint32_t heads, uint32_t dim)
{
	return (struct kv_layer){ .kind = KV_LAYER_FULL, .heads = heads, .key_dim = dim, .value_dim = dim };
}

static void counts_heads_keys_and_values(void **state)
{
	struct kv_layer l[] = { full(8, 128), full(8, 128), full(1, 64) };
	struct kv_model m = { 3, l };
	assert_int_equal(bytes(&m, 1, 1), 2 * (2 * 8 * 128 * 2) + 2 * 64 * 2);
	assert_int_equal(bytes(&m, 1000, 1), 1000 * bytes(&m, 1, 1));
	assert_int_equal(kv_common_heads(&m), KV_UNKNOWN);
	m.n_layers = 2;
	assert_int_equal(kv_common_heads(&m), 8);
	assert_int_equal(kv_common_key_dim(&m), 128);
	assert_int_equal(kv_common_window(&m), KV_UNKNOWN);
}

static void a_window_stops_growing(void **state)
{
	struct kv_layer l[] = { full(2, 64), full(2, 64) };
	struct kv_model m = { 2, l };
	uint64_t all, more;
	l[1].kind = KV_LAYER_WINDOW;
	l[1].window_tok = 100;
	uint64_t row = 2 * 2 * 64 * 2;
	assert_int_equal(bytes(&m, 100, 1), row * 200);
	assert_int_equal(bytes(&m, 101, 1), row * 201);
	assert_true(kv_bytes_all_full(&all, &m, 101, two, two, 1) && all == row * 202);
	assert_true(kv_growth_bytes(&more, &m, two, two, 1) && more == row);
}

static void ranks_keep_at_least_one_head_and_every_latent(void **state)
{
	static const struct {
		uint32_t heads, ranks, kept;
	} cases[] = { { 8, 1, 8 }, { 8, 2, 4 }, { 8, 8, 1 }, { 4, 8, 1 }, { 1, 16, 1 }, { 6, 4, 2 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kv_layer l = full(cases[i].heads, 10);
		struct kv_model m = { 1, &l };
		assert_int_equal(bytes(&m, 1, cases[i].ranks), cases[i].kept * 2 * 10 * 2);
	}
	struct kv_layer l = { .kind = KV_LAYER_LATENT, .heads = 1, .key_dim = 576 };
	struct kv_model m = { 1, &l };
	assert_int_equal(bytes(&m, 1, 1), 1152);
	assert_int_equal(bytes(&m, 1, 8), 1152);
}

static void states_do_not_depend_on_the_context(void **state)
{
	struct kv_layer l[] = { { .kind = KV_LAYER_STATE, .state_values = 500 }, { .kind = KV_LAYER_NONE } };
	struct kv_model m = { 2, l };
	uint64_t n;
	assert_int_equal(bytes(&m, 100000, 1), 0);
	assert_true(kv_state_values(&n, &m) && n == 500);
	l[0].state_values = KV_UNKNOWN;
	assert_false(kv_state_values(&n, &m));
}

static void widths_are_those_of_blocks(void **state)
{
	static const struct {
		const char *name;
		uint64_t bytes; /* of a row of 64 values */
	} cases[] = { { "f32", 256 }, { "BF16", 128 }, { "fp8", 64 },   { "q8_0", 68 },
		      { "q5_1", 48 }, { "q4_0", 36 },  { "nvfp4", 36 }, { "iq4_nl", 36 } };
	struct kv_width w;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kv_layer l = full(1, 64);
		struct kv_model m = { 1, &l };
		uint64_t n;
		assert_true(kv_width_find(&w, cases[i].name));
		assert_true(kv_bytes(&n, &m, 1, w, w, 1));
		assert_int_equal(n, 2 * cases[i].bytes);
		assert_true(kv_bytes(&n, &m, 1, w, two, 1)); /* keys and values apart */
		assert_int_equal(n, cases[i].bytes + 128);
	}
	assert_false(kv_width_find(&w, "q3_9"));
}

static void refuses_overflow_and_nothing(void **state)
{
	struct kv_layer l = full(65536, 1 << 20);
	struct kv_model m = { 1, &l }, none = { 0 };
	struct kv_width zero = { 0, 2 };
	uint64_t n = 5;
	assert_false(kv_bytes(&n, &m, UINT64_MAX, two, two, 1));
	assert_false(kv_bytes(&n, &m, 1, zero, two, 1));
	assert_false(kv_bytes(&n, &m, 1, one, one, 0));
	assert_false(kv_bytes(&n, &none, 1, one, one, 1)); /* unknown is not 0 */
	assert_int_equal(n, 5);
	kv_model_done(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_heads_keys_and_values),
		cmocka_unit_test(a_window_stops_growing),
		cmocka_unit_test(ranks_keep_at_least_one_head_and_every_latent),
		cmocka_unit_test(states_do_not_depend_on_the_context),
		cmocka_unit_test(widths_are_those_of_blocks),
		cmocka_unit_test(refuses_overflow_and_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
