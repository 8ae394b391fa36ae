/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fit.h"
#include "model/gpu_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GIB (1ull << 30)

enum { LAYERS = 80 };
static struct kv_layer layers[LAYERS];
static const struct kv_model kv = { LAYERS, layers };

/* 80 layers of 8 key-value heads with 128 values each, as in the worked example of the formulas. */
static int fill(void **state)
{
	for (size_t i = 0; i < LAYERS; i++)
		layers[i] = (struct kv_layer){ KV_LAYER_FULL, 8, 128, 128, 0, 0 };
	return 0;
}

static struct fit_setup plain(void)
{
	return (struct fit_setup){ .tensor = 1,
		                   .pipeline = 1,
		                   .data = 1,
		                   .keys = { 1, 2 },
		                   .values = { 1, 2 },
		                   .state_bytes = 4,
		                   .device_layers = FIT_UNKNOWN,
		                   .block_tok = 1,
		                   .ahead_sequences = 1,
		                   .usable_share = 1 };
}

/* 1 GiB of matrices and 1000 bytes of vectors a layer, an embedding and an output of 2 GiB each. */
static void weigh(struct fit_weights *w, bool output)
{
	char name[64];

	assert_true(fit_weights_init(w, LAYERS));
	for (int i = 0; i < LAYERS; i++) {
		snprintf(name, sizeof(name), "blk.%d.ffn_up.weight", i);
		fit_weights_add(w, name, 2, GIB);
		snprintf(name, sizeof(name), "blk.%d.attn_norm.weight", i);
		fit_weights_add(w, name, 1, 1000);
	}
	fit_weights_add(w, "token_embd.weight", 2, 2 * GIB);
	fit_weights_add(w, "output_norm.weight", 1, 1000);
	if (output)
		fit_weights_add(w, "output.weight", 2, 2 * GIB);
}

static void worked_values_of_the_kv_cache(void **state)
{
	struct fit_weights w;
	struct fit_setup s = plain();
	struct fit_need need;
	uint64_t token = 0;

	assert_true(fit_weights_init(&w, LAYERS));
	assert_true(fit_token_bytes(&token, &kv, &s));
	assert_int_equal(token, 327680);
	assert_true(fit_need(&need, &w, &kv, &s, 32768, 8));
	assert_int_equal(need.kv_bytes, 80 * GIB);
	assert_int_equal(need.weights_bytes, 0);
	fit_weights_done(&w);
}

static void ranks_divide_matrices_and_keep_vectors(void **state)
{
	static const struct {
		uint32_t tensor, pipeline, data;
		bool output;
		uint64_t weights, kv; /* of the fullest device, 1024 tokens x 8 */
	} rows[] = {
		{ 1, 1, 1, true, 84 * GIB + 81000, 327680ull * 8192 },
		{ 8, 1, 1, true, 84 * GIB / 8 + 81000, 327680ull * 8192 / 8 },
		/* ranks beyond the heads keep one head each */
		{ 16, 1, 1, true, 84 * GIB / 16 + 81000, 327680ull * 8192 / 8 },
		/* the stage with the output */
		{ 1, 4, 1, true, 22 * GIB + 21000, 327680ull * 8192 / 4 },
		/* an embedding that serves as output too is kept by both ends */
		{ 1, 4, 1, false, 22 * GIB + 21000, 327680ull * 8192 / 4 },
		{ 1, 1, 1, false, 82 * GIB + 81000, 327680ull * 8192 },
		{ 1, 1, 4, true, 84 * GIB + 81000, 327680ull * 8192 / 4 },
		{ 2, 2, 3, true, 21 * GIB + 41000, 327680ull * 1024 * 3 / 4 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fit_weights w;
		struct fit_setup s = plain();
		struct fit_need need;
		uint64_t alone = 0;
		s.tensor = rows[i].tensor;
		s.pipeline = rows[i].pipeline;
		s.data = rows[i].data;
		weigh(&w, rows[i].output);
		assert_true(fit_need(&need, &w, &kv, &s, 1024, 8));
		assert_true(fit_device_weights(&alone, &w, &s));
		if (need.weights_bytes != rows[i].weights || need.kv_bytes != rows[i].kv)
			fail_msg("row %zu: %llu and %llu", i, (unsigned long long)need.weights_bytes,
			         (unsigned long long)need.kv_bytes);
		assert_int_equal(alone, rows[i].weights);
		fit_weights_done(&w);
	}
}

/* 10 of 80 layers: 10 layers, no output; 81: all and the output, the embedding only where it is the output.
 */
static void layers_left_on_the_host_are_not_counted(void **state)
{
	static const struct {
		uint64_t device_layers;
		bool output;
		uint64_t weights, kv;
	} rows[] = {
		{ 10, true, 10 * GIB + 10000, 10 * 4096 },  { 80, true, 80 * GIB + 80000, 80 * 4096 },
		{ 81, true, 82 * GIB + 81000, 80 * 4096 },  { 999, true, 82 * GIB + 81000, 80 * 4096 },
		{ 81, false, 82 * GIB + 81000, 80 * 4096 }, { 0, true, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fit_weights w;
		struct fit_setup s = plain();
		struct fit_need need;
		s.embedding_on_host = true;
		s.device_layers = rows[i].device_layers;
		weigh(&w, rows[i].output);
		assert_true(fit_need(&need, &w, &kv, &s, 1, 1));
		assert_int_equal(need.weights_bytes, rows[i].weights);
		assert_int_equal(need.kv_bytes, rows[i].kv);
		s.kv_on_host = true;
		assert_true(fit_need(&need, &w, &kv, &s, 1, 1));
		assert_int_equal(need.kv_bytes, 0);
		fit_weights_done(&w);
	}
}

static void what_is_taken_ahead_does_not_depend_on_the_load(void **state)
{
	struct fit_weights w;
	struct fit_setup s = plain();
	struct fit_need a, b;

	weigh(&w, true);
	s.ahead_tok = 4096;
	s.ahead_sequences = 4;
	assert_true(fit_need(&a, &w, &kv, &s, 1, 1));
	assert_true(fit_need(&b, &w, &kv, &s, 100000, 64));
	assert_int_equal(a.kv_bytes, 327680ull * 4096);
	assert_int_equal(b.kv_bytes, a.kv_bytes);
	fit_weights_done(&w);
}

static void answers_follow_the_overhead_and_the_room(void **state)
{
	static const struct {
		uint64_t least, most, memory;
		double share;
		enum fit_answer want;
	} rows[] = {
		{ 50, 90, 100, 1, FIT_FITS },
		{ 50, 91, 100, 1, FIT_TIGHT }, /* less than a tenth is left */
		{ 50, 101, 100, 1, FIT_TIGHT },
		{ 100, 110, 100, 1, FIT_TIGHT },
		{ 101, 110, 100, 1, FIT_NO },
		{ 40, 50, 100, 0.5, FIT_FITS },
		{ 40, 51, 100, 0.5, FIT_TIGHT },
		{ 51, 60, 100, 0.5, FIT_NO },
		{ 1, 1, FIT_UNKNOWN, 1, FIT_NOT_KNOWN },
		{ 1, 1, 0, 1, FIT_NOT_KNOWN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fit_need need = { .least_bytes = rows[i].least, .most_bytes = rows[i].most };
		assert_int_equal(fit_judge(&need, rows[i].memory, rows[i].share), rows[i].want);
	}
}

static void the_largest_that_fits_fits_and_one_more_does_not(void **state)
{
	struct fit_weights w;
	struct fit_setup s = plain();

	assert_true(fit_weights_init(&w, LAYERS));
	fit_weights_add(&w, "output.weight", 2, 10 * GIB);
	s.overhead_most_bytes = GIB;
	/* 0.9 x 100 GiB - 11 GiB = 79 GiB for the cache */
	uint64_t tokens = fit_largest_context(&w, &kv, &s, 8, 100 * GIB, 1 << 20);
	assert_int_equal(tokens, 79 * GIB / 8 / 327680);
	uint64_t sequences = fit_largest_concurrency(&w, &kv, &s, 32768, 100 * GIB, 1 << 20);
	assert_int_equal(sequences, 7);
	assert_int_equal(fit_largest_context(&w, &kv, &s, 8, 100 * GIB, 4096), 4096);
	assert_int_equal(fit_largest_context(&w, &kv, &s, 8, 10 * GIB, 4096), 0);
	assert_true(fit_largest_context(&w, &kv, &s, 8, FIT_UNKNOWN, 4096) == FIT_UNKNOWN);
	s.block_tok = 1000;
	assert_int_equal(fit_largest_context(&w, &kv, &s, 8, 100 * GIB, 1 << 20), 32000);
	fit_weights_done(&w);
}

static void what_cannot_be_counted_is_unknown(void **state)
{
	struct fit_weights w;
	struct fit_setup s = plain();
	struct fit_need need;

	weigh(&w, true);
	assert_false(fit_need(&need, &w, &kv, &s, UINT64_MAX / 2, 8));
	assert_false(fit_need(&need, &w, &kv, &s, 1 << 20, UINT64_MAX / 8));
	assert_false(fit_need(&need, &w, &kv, &s, 0, 1));
	assert_false(fit_need(&need, &w, &kv, &s, 1, 0));
	layers[3] = (struct kv_layer){ KV_LAYER_STATE, 0, 0, 0, 0, KV_UNKNOWN };
	assert_false(fit_need(&need, &w, &kv, &s, 16, 1));
	assert_true(fit_largest_context(&w, &kv, &s, 1, 900 * GIB, 4096) == FIT_UNKNOWN);
	layers[3].state_values = 1000;
	assert_true(fit_need(&need, &w, &kv, &s, 16, 3));
	assert_int_equal(need.kv_bytes, 3 * (79ull * 4096 * 16 + 4000));
	fit_weights_done(&w);
	fill(state);
}

static void tensors_are_sorted_by_name(void **state)
{
	static const struct {
		const char *name;
		int layer; /* -1 = last, -2 = first */
	} rows[] = {
		{ "blk.7.attn_q.weight", 7 },
		{ "model.layers.7.mlp.up_proj.weight", 7 },
		{ "transformer.h.79.attn.weight", 79 },
		{ "model.layers.80.mtp.weight", -1 }, /* behind the layers of the model */
		{ "model.layers.x.weight", -1 },
		{ "model.layers.99999999999999999999999.weight", -1 },
		{ "lm_head.weight", -1 },
		{ "output.weight", -1 },
		{ "vision_model.encoder.layers.3.weight", -1 },
		{ "model.embed_tokens.weight", -2 },
		{ "token_embd.weight", -2 },
		{ "", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fit_weights w;
		assert_true(fit_weights_init(&w, LAYERS));
		fit_weights_add(&w, rows[i].name, 2, 5);
		const struct fit_part *p = rows[i].layer == -1   ? &w.last
		                           : rows[i].layer == -2 ? &w.first
		                                                 : &w.layers[rows[i].layer];
		if (p->split_bytes != 5)
			fail_msg("%s went elsewhere", rows[i].name);
		fit_weights_done(&w);
	}
}

static void sizes_are_read_with_their_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes; /* 0 = refused */
	} rows[] = {
		{ "80GiB", 80 * GIB },
		{ "80 GB", 80000000000 },
		{ "85899345920", 80 * GIB },
		{ "1.5GiB", 3 * GIB / 2 },
		{ "512MiB", GIB / 2 },
		{ "7B", 7 },
		{ "0", 0 },
		{ "", 0 },
		{ "-1", 0 },
		{ "1e9", 0 },
		{ "80G", 0 },
		{ "80gib", 0 },
		{ "1.5", 0 },
		{ "nan", 0 },
		{ "80GiBx", 0 },
		{ "9999999999999999999", 0 },
		{ "999999999TiB", 0 },
		{ "1.GiB", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 0;
		bool ok = fit_bytes_read(&bytes, rows[i].text);
		if (ok != (rows[i].bytes != 0) || bytes != rows[i].bytes)
			fail_msg("\"%s\": %llu", rows[i].text, (unsigned long long)bytes);
	}
}

static void cards_are_found_by_the_names_people_use(void **state)
{
	static const struct {
		const char *name;
		unsigned gib; /* 0 = not there */
	} rows[] = {
		{ "H100", 80 },
		{ "h100-80gb", 80 },
		{ "NVIDIA H100 80GB", 80 },
		{ "H200", 141 },
		{ "A100", 0 },
		{ "a100 40gb", 40 },
		{ "A100-80GB", 80 },
		{ "rtx4090", 24 },
		{ "GeForce RTX 5090", 32 },
		{ "AMD Instinct MI300X", 192 },
		{ "RX 7900 XTX", 24 },
		{ "Radeon PRO W7900", 48 },
		{ "H1000", 0 },
		{ "H100 NVL", 0 },
		{ "", 0 },
		{ "nvidia", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct gpu_card *c = gpu_card_find(rows[i].name);
		if ((c ? c->memory_bytes >> 30 : 0) != rows[i].gib)
			fail_msg("%s", rows[i].name);
	}
	for (const struct gpu_card *c = gpu_cards; c->name; c++) {
		assert_non_null(strstr(c->source, c->vendor));
		assert_int_equal(strlen(c->date), 10);
		assert_ptr_equal(gpu_card_find(c->name), c);
	}
}

static void the_error_of_a_prediction_is_in_percent_of_the_measurement(void **state)
{
	assert_float_equal(fit_error(110, 100), 10, 1e-9);
	assert_float_equal(fit_error(75, 100), -25, 1e-9);
	assert_true(isnan(fit_error(1, 0)));
	assert_true(isnan(fit_error(FIT_UNKNOWN, 1)));
	assert_true(isnan(fit_error(1, FIT_UNKNOWN)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worked_values_of_the_kv_cache),
		cmocka_unit_test(ranks_divide_matrices_and_keep_vectors),
		cmocka_unit_test(layers_left_on_the_host_are_not_counted),
		cmocka_unit_test(what_is_taken_ahead_does_not_depend_on_the_load),
		cmocka_unit_test(answers_follow_the_overhead_and_the_room),
		cmocka_unit_test(the_largest_that_fits_fits_and_one_more_does_not),
		cmocka_unit_test(what_cannot_be_counted_is_unknown),
		cmocka_unit_test(tensors_are_sorted_by_name),
		cmocka_unit_test(sizes_are_read_with_their_unit),
		cmocka_unit_test(cards_are_found_by_the_names_people_use),
		cmocka_unit_test(the_error_of_a_prediction_is_in_percent_of_the_measurement),
	};
	return cmocka_run_group_tests_name("fit", tests, fill, NULL);
}
