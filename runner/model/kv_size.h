/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a model keeps for each token of context (KV cache), from its layers. Pure arithmetic on what the
 * model needs: engines round up to blocks, may keep a window plus a batch, or the whole context in windowed
 * layers.
 *
 *   full layer:    tokens              x heads x (key_dim + value_dim) values
 *   window layer:  min(tokens, window) x heads x (key_dim + value_dim) values
 *   latent layer:  tokens              x key_dim values, once for keys and values and for all heads (MLA:
 *                  kv_lora_rank + qk_rope_head_dim)
 *   state layer:   state_values a sequence, whatever its length (linear attention, SSM, convolution)
 *
 * Tensor parallel: a rank keeps ceil(heads / ranks) heads, at least one; a latent is kept whole by every
 * rank. */
#ifndef MODEL_KV_SIZE_H
#define MODEL_KV_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_LAYERS_MAX 4096
#define KV_UNKNOWN UINT64_MAX

enum kv_layer_kind {
	KV_LAYER_FULL,
	KV_LAYER_WINDOW,
	KV_LAYER_LATENT,
	KV_LAYER_STATE, /* nothing a token */
	KV_LAYER_NONE,  /* nothing of its own: no attention, or it uses the cache of an earlier layer */
};

struct kv_layer {
	enum kv_layer_kind kind;
	uint32_t heads; /* that keep keys and values; latent: 1 */
	uint32_t key_dim, value_dim;
	uint64_t window_tok;   /* window layers */
	uint64_t state_values; /* a sequence, also beside attention; 0 = none, KV_UNKNOWN */
};

struct kv_model {
	size_t n_layers;
	struct kv_layer *layers;
};
void kv_model_done(struct kv_model *m); /* accepts zeroed */

/* Bytes of a block of values: 16 bit = { 1, 2 }, ggml's Q8_0 = { 32, 34 }. */
struct kv_width {
	uint32_t n_values, n_bytes;
};
/* "f16", "bf16", "fp8", "q8_0" …, as engines name them; false when not known. */
bool kv_width_find(struct kv_width *out, const char *name);

/* Of the keys and values of one sequence of `tokens` tokens, on each of `ranks` ranks (1 = the whole model);
 * without states. Rows of a head are whole blocks. False: overflow, or a count of 0. */
bool kv_bytes(uint64_t *out, const struct kv_model *m, uint64_t tokens, struct kv_width keys,
              struct kv_width values, uint32_t ranks);
/* kv_bytes as if no layer had a window: an engine whose windowed cache is off. */
bool kv_bytes_all_full(uint64_t *out, const struct kv_model *m, uint64_t tokens, struct kv_width keys,
                       struct kv_width values, uint32_t ranks);
/* What one more token adds once every window is filled. */
bool kv_growth_bytes(uint64_t *out, const struct kv_model *m, struct kv_width keys, struct kv_width values,
                     uint32_t ranks);
/* Fixed values a sequence; false when one layer's are not known. */
bool kv_state_values(uint64_t *out, const struct kv_model *m);

size_t kv_count(const struct kv_model *m, enum kv_layer_kind kind);
/* The one value that all layers with keys and values share; KV_UNKNOWN when they differ or there is none. */
uint64_t kv_common_heads(const struct kv_model *m);
uint64_t kv_common_key_dim(const struct kv_model *m);
uint64_t kv_common_window(const struct kv_model *m);

#endif
