/* SPDX-License-Identifier: Apache-2.0 */
#include "model_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct kv_width two_bytes = { 1, 2 }, one_byte = { 1, 1 };
static const uint64_t contexts[] = { 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576 };

void put_known(struct json_out *o, const char *key, uint64_t n)
{
	if (n == UINT64_MAX)
		jo_null(o, key);
	else
		jo_u64(o, key, n);
}

static void put_numbered(struct json_out *o, const char *before, uint64_t number, const char *behind,
                         uint64_t value)
{
	auto_free char *key = str_fmt("%s%" PRIu64 "%s", before, number, behind);
	put_known(o, key, value);
}

static bool keeps_tokens(const struct kv_layer *l)
{
	return l->kind == KV_LAYER_FULL || l->kind == KV_LAYER_WINDOW || l->kind == KV_LAYER_LATENT;
}

static uint64_t bytes_at(const struct kv_model *m, uint64_t tokens, struct kv_width w, uint32_t ranks)
{
	uint64_t n;
	return kv_bytes(&n, m, tokens, w, w, ranks) ? n : UINT64_MAX;
}

static void put_contexts(struct json_out *o, const struct kv_model *m, const char *key, struct kv_width w)
{
	jo_obj(o, key);
	for (size_t i = 0; i < ARRAY_LEN(contexts); i++)
		put_numbered(o, "", contexts[i], "", bytes_at(m, contexts[i], w, 1));
	jo_end(o);
}

static void put_all_full(struct json_out *o, const struct kv_model *m)
{
	for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
		uint64_t n;
		bool ok = kv_bytes_all_full(&n, m, contexts[i], two_bytes, two_bytes, 1);
		put_numbered(o, "all_layers_full_bytes_", contexts[i], "", ok ? n : UINT64_MAX);
		put_numbered(o, "bytes_at_", contexts[i], "", bytes_at(m, contexts[i], two_bytes, 1));
	}
}

static void put_ranks(struct json_out *o, const struct kv_model *m)
{
	static const uint32_t ranks[] = { 2, 4, 8, 16 };
	for (size_t i = 0; i < ARRAY_LEN(ranks); i++)
		put_numbered(o, "per_rank_bytes_per_token_tp", ranks[i], "",
		             bytes_at(m, 1, two_bytes, ranks[i]));
}

/* A scalar when all layers agree, else a list. */
static void put_of_layers(struct json_out *o, const char *key, const struct kv_model *m, uint64_t common)
{
	if (common != KV_UNKNOWN) {
		jo_u64(o, key, common);
		return;
	}
	jo_arr(o, key);
	for (size_t i = 0; i < m->n_layers; i++)
		jo_u64(o, NULL, keeps_tokens(&m->layers[i]) ? m->layers[i].heads : 0);
	jo_end_arr(o);
}

/* Of the layers of one kind; UINT64_MAX when there are none. */
static uint64_t dim_of(const struct kv_model *m, enum kv_layer_kind kind, bool value)
{
	for (size_t i = 0; i < m->n_layers; i++)
		if (m->layers[i].kind == kind)
			return value ? m->layers[i].value_dim : m->layers[i].key_dim;
	return UINT64_MAX;
}

static bool is_every(const struct kv_model *m, size_t every)
{
	for (size_t i = 0; i < m->n_layers; i++)
		if ((m->layers[i].kind == KV_LAYER_FULL) != ((i + 1) % every == 0))
			return false;
	return true;
}

/* In words, as a rule when there is one. */
static void put_which_full(struct json_out *o, const struct kv_model *m)
{
	for (size_t every = 2; every <= 12; every++) {
		if (!is_every(m, every))
			continue;
		auto_free char *words = every == 2
		                                ? strdup("odd layers (from 0)")
		                                : str_fmt("layer i (from 0) with (i + 1) mod %zu = 0", every);
		jo_str(o, "which_layers_are_full", words);
		return;
	}
	jo_arr(o, "which_layers_are_full");
	for (size_t i = 0; i < m->n_layers; i++)
		if (m->layers[i].kind == KV_LAYER_FULL || m->layers[i].kind == KV_LAYER_LATENT)
			jo_u64(o, NULL, i);
	jo_end_arr(o);
}

static void put_counts(struct json_out *o, const struct kv_model *m)
{
	size_t full = kv_count(m, KV_LAYER_FULL), latent = kv_count(m, KV_LAYER_LATENT);
	size_t window = kv_count(m, KV_LAYER_WINDOW), none = kv_count(m, KV_LAYER_NONE);
	uint64_t n;
	jo_u64(o, "layers", m->n_layers);
	jo_u64(o, "full_layers", full + latent);
	jo_u64(o, "sliding_layers", window);
	jo_u64(o, "latent_layers", latent);
	jo_u64(o, "state_layers", kv_count(m, KV_LAYER_STATE));
	jo_u64(o, "layers_without_cache", none);
	jo_u64(o, "layers_with_kv", full + latent + window);
	put_known(o, "window", kv_common_window(m));
	put_known(o, "sliding_window", kv_common_window(m));
	put_known(o, "state_values_per_sequence", kv_state_values(&n, m) ? n : UINT64_MAX);
}

static void put_heads(struct json_out *o, const struct kv_model *m, const struct hf_config *c)
{
	uint64_t heads = kv_common_heads(m), full = dim_of(m, KV_LAYER_FULL, false);
	uint64_t window = dim_of(m, KV_LAYER_WINDOW, false);
	uint64_t head = full != UINT64_MAX ? full : window;
	bool is_latent = kv_count(m, KV_LAYER_LATENT) > 0;
	put_of_layers(o, "kv_heads", m, heads);
	put_of_layers(o, "head_count_kv", m, heads);
	put_known(o, "head_dim", is_latent && c ? c->head_dim : head);
	put_known(o, "key_length", head);
	put_known(o, "value_length", dim_of(m, full != UINT64_MAX ? KV_LAYER_FULL : KV_LAYER_WINDOW, true));
	put_known(o, "key_length_swa", window);
	put_known(o, "value_length_swa", dim_of(m, KV_LAYER_WINDOW, true));
	if (is_latent)
		jo_u64(o, "values_per_token_per_layer", dim_of(m, KV_LAYER_LATENT, false));
}

void put_kv_members(struct json_out *o, const struct kv_model *m, const struct hf_config *c)
{
	uint64_t n, window = kv_common_window(m);
	put_counts(o, m);
	put_heads(o, m, c);
	put_which_full(o, m);
	jo_str(o, "attention",
	       kv_count(m, KV_LAYER_LATENT)       ? "MLA"
	       : !c || c->n_heads == HF_NONE      ? NULL
	       : kv_common_heads(m) == 1          ? "MQA"
	       : kv_common_heads(m) == c->n_heads ? "MHA"
	                                          : "GQA");
	put_known(o, "bytes_per_token_16bit", bytes_at(m, 1, two_bytes, 1));
	put_known(o, "bytes_per_token_8bit", bytes_at(m, 1, one_byte, 1));
	put_contexts(o, m, "kv_bytes_16bit", two_bytes);
	put_contexts(o, m, "kv_bytes_8bit", one_byte);
	put_all_full(o, m);
	put_ranks(o, m);
	if (window != KV_UNKNOWN)
		put_numbered(o, "growth_bytes_per_token_beyond_", window, "",
		             kv_growth_bytes(&n, m, two_bytes, two_bytes, 1) ? n : UINT64_MAX);
}

void put_config_kv(struct json_out *o, const struct hf_config *c)
{
	if (c->kv.n_layers == 0) {
		jo_str(o, "status", "unknown");
		jo_str(o, "reason", c->kv_unknown);
		jo_null(o, "bytes_per_token_16bit");
		return;
	}
	put_kv_members(o, &c->kv, c);
	jo_obj(o, "class_defaults_needed");
	for (size_t i = 0; i < c->n_defaults; i++)
		jo_u64(o, c->defaults[i].key, c->defaults[i].value);
	jo_end(o);
}
