/* SPDX-License-Identifier: Apache-2.0 */
#include "model/kv_size.h"

#include "base/cleanup.h"

#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	struct kv_width width;
} widths[] = {
	{ "f32", { 1, 4 } },      { "float32", { 1, 4 } },  { "f16", { 1, 2 } },      { "fp16", { 1, 2 } },
	{ "float16", { 1, 2 } },  { "bf16", { 1, 2 } },     { "bfloat16", { 1, 2 } }, { "fp8", { 1, 1 } },
	{ "fp8_e4m3", { 1, 1 } }, { "fp8_e5m2", { 1, 1 } }, { "int8", { 1, 1 } },     { "q8_0", { 32, 34 } },
	{ "q5_1", { 32, 24 } },   { "q5_0", { 32, 22 } },   { "q4_1", { 32, 20 } },   { "q4_0", { 32, 18 } },
	{ "iq4_nl", { 32, 18 } }, { "int4", { 2, 1 } },     { "fp4", { 2, 1 } },      { "nvfp4", { 16, 9 } },
};

bool kv_width_find(struct kv_width *out, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(widths); i++)
		if (strcasecmp(widths[i].name, name) == 0) {
			*out = widths[i].width;
			return true;
		}
	return false;
}

void kv_model_done(struct kv_model *m)
{
	free(m->layers);
	*m = (struct kv_model){ 0 };
}

static bool mul(uint64_t *v, uint64_t by)
{
	return !__builtin_mul_overflow(*v, by, v);
}

static uint64_t row_bytes(uint32_t n_values, struct kv_width w)
{
	return ((uint64_t)n_values + w.n_values - 1) / w.n_values * w.n_bytes;
}

static bool has_tokens(const struct kv_layer *l)
{
	return l->kind == KV_LAYER_FULL || l->kind == KV_LAYER_WINDOW || l->kind == KV_LAYER_LATENT;
}

/* Of one token. */
static bool layer_bytes(uint64_t *out, const struct kv_layer *l, struct kv_width k, struct kv_width v,
                        uint32_t ranks)
{
	uint64_t n = row_bytes(l->key_dim, k);
	if (l->kind != KV_LAYER_LATENT) {
		uint64_t heads = ((uint64_t)l->heads + ranks - 1) / ranks;
		n += row_bytes(l->value_dim, v);
		if (!mul(&n, heads))
			return false;
	}
	*out = n;
	return true;
}

static bool usable(const struct kv_model *m, struct kv_width k, struct kv_width v, uint32_t ranks)
{
	return m->layers && k.n_values && v.n_values && ranks;
}

static bool sum_bytes(uint64_t *out, const struct kv_model *m, uint64_t tokens, struct kv_width k,
                      struct kv_width v, uint32_t ranks, bool windows)
{
	uint64_t sum = 0;
	if (!usable(m, k, v, ranks))
		return false;
	for (size_t i = 0; i < m->n_layers; i++) {
		const struct kv_layer *l = &m->layers[i];
		bool cut = windows && l->kind == KV_LAYER_WINDOW && l->window_tok < tokens;
		uint64_t n;
		if (!has_tokens(l))
			continue;
		if (!layer_bytes(&n, l, k, v, ranks) || !mul(&n, cut ? l->window_tok : tokens) ||
		    __builtin_add_overflow(sum, n, &sum))
			return false;
	}
	*out = sum;
	return true;
}

bool kv_bytes(uint64_t *out, const struct kv_model *m, uint64_t tokens, struct kv_width keys,
              struct kv_width values, uint32_t ranks)
{
	return sum_bytes(out, m, tokens, keys, values, ranks, true);
}

bool kv_bytes_all_full(uint64_t *out, const struct kv_model *m, uint64_t tokens, struct kv_width keys,
                       struct kv_width values, uint32_t ranks)
{
	return sum_bytes(out, m, tokens, keys, values, ranks, false);
}

bool kv_growth_bytes(uint64_t *out, const struct kv_model *m, struct kv_width keys, struct kv_width values,
                     uint32_t ranks)
{
	uint64_t sum = 0;
	if (!usable(m, keys, values, ranks))
		return false;
	for (size_t i = 0; i < m->n_layers; i++) {
		uint64_t n;
		if (!has_tokens(&m->layers[i]) || m->layers[i].kind == KV_LAYER_WINDOW)
			continue;
		if (!layer_bytes(&n, &m->layers[i], keys, values, ranks) ||
		    __builtin_add_overflow(sum, n, &sum))
			return false;
	}
	*out = sum;
	return true;
}

bool kv_state_values(uint64_t *out, const struct kv_model *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->n_layers; i++)
		if (m->layers[i].state_values == KV_UNKNOWN ||
		    __builtin_add_overflow(sum, m->layers[i].state_values, &sum))
			return false;
	*out = sum;
	return true;
}

size_t kv_count(const struct kv_model *m, enum kv_layer_kind kind)
{
	size_t n = 0;
	for (size_t i = 0; i < m->n_layers; i++)
		n += m->layers[i].kind == kind;
	return n;
}

static uint64_t common(const struct kv_model *m, uint64_t (*of)(const struct kv_layer *),
                       bool (*counts)(const struct kv_layer *))
{
	uint64_t one = KV_UNKNOWN;
	for (size_t i = 0; i < m->n_layers; i++) {
		if (!counts(&m->layers[i]))
			continue;
		if (one != KV_UNKNOWN && one != of(&m->layers[i]))
			return KV_UNKNOWN;
		one = of(&m->layers[i]);
	}
	return one;
}

static uint64_t heads_of(const struct kv_layer *l)
{
	return l->heads;
}

static uint64_t key_dim_of(const struct kv_layer *l)
{
	return l->key_dim;
}

static uint64_t window_of(const struct kv_layer *l)
{
	return l->window_tok;
}

static bool is_window(const struct kv_layer *l)
{
	return l->kind == KV_LAYER_WINDOW;
}

uint64_t kv_common_heads(const struct kv_model *m)
{
	return common(m, heads_of, has_tokens);
}

uint64_t kv_common_key_dim(const struct kv_model *m)
{
	return common(m, key_dim_of, has_tokens);
}

uint64_t kv_common_window(const struct kv_model *m)
{
	return common(m, window_of, is_window);
}
