/* SPDX-License-Identifier: Apache-2.0 */
/* KV layers from GGUF metadata, as llama.cpp reads it (llama-hparams, llama-model): per-layer lists, head
 * sizes of windowed layers, latent attention, layers without attention. */
#include "base/cleanup.h"
#include "model/kv_size.h"
#include "pin/gguf.h"

#include <inttypes.h>
#include <string.h>

/* Where the windowed layers lie when the file only tells the window: every n-th layer is full, the last of
 * each n (or the first). Of other architectures llama.cpp does not use the window. */
static const struct window_rule {
	const char *arch;
	unsigned every;
	bool first_is_full;
	uint64_t default_window_tok; /* 0 = none */
} window_rules[] = {
	{ "gpt-oss", 2, false, 0 },      { "gemma2", 2, false, 4096 },       { "gemma3", 6, false, 0 },
	{ "gemma3n", 5, false, 0 },      { "gemma-embedding", 6, false, 0 }, { "cohere2", 4, false, 0 },
	{ "exaone4", 4, false, 0 },      { "olmo2", 4, false, 0 },           { "mellum", 4, false, 0 },
	{ "exaone-moe", 4, false, 128 }, { "afmoe", 4, false, 0 },           { "plamo3", 8, false, 0 },
	{ "llama4", 4, false, 8192 },    { "smallthinker", 4, true, 4096 },  { "cohere2moe", 4, true, 0 },
	{ "laguna", 4, true, 0 },
};

struct shape {
	const struct gguf *g;
	const char *arch;
	uint64_t n_layers, embedding, window, interval;
	uint64_t key_dim, value_dim, key_dim_window, value_dim_window;
	uint64_t lora_rank, rope_dim, shared, extra; /* extra: layers behind the last that keep nothing */
	uint64_t state_values;
	const struct gguf_value *heads, *kv_heads, *pattern;
	const struct window_rule *rule;
	bool is_latent;
};

static uint64_t number_or(const struct gguf *g, const char *key, uint64_t other)
{
	uint64_t v;
	return gguf_number(gguf_find_arch(g, key), &v) ? v : other;
}

/* Of a scalar, or of a list with one value a layer. */
static bool of_layer(const struct gguf_value *v, uint64_t layer, uint64_t *out)
{
	if (v && v->is_array) {
		if (layer >= v->n_kept)
			return false;
		*out = v->list[layer];
		return true;
	}
	return gguf_number(v, out);
}

static uint64_t recurrent_state(const struct gguf *g)
{
	uint64_t conv = number_or(g, "ssm.conv_kernel", 0), inner = number_or(g, "ssm.inner_size", 0);
	uint64_t state = number_or(g, "ssm.state_size", 0), groups = number_or(g, "ssm.group_count", 0);
	uint64_t cache = number_or(g, "shortconv.l_cache", 0), embd = number_or(g, "embedding_length", 0);
	if (cache > 0 && cache < 1024 && embd < UINT32_MAX)
		return (cache - 1) * embd;
	if (conv == 0 || conv > 1024 || inner > UINT32_MAX || state > 65536 || groups > 65536)
		return KV_UNKNOWN;
	return (conv - 1) * (inner + 2 * groups * state) + state * inner;
}

static const struct window_rule *find_rule(const char *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(window_rules); i++)
		if (strcmp(window_rules[i].arch, arch) == 0)
			return &window_rules[i];
	return NULL;
}

static int unknown(struct err *err, const char *what)
{
	return err_set(err, ERR_PLAN, "KV size unknown: %s", what);
}

static int read_shape(struct shape *s, const struct gguf *g, struct err *err)
{
	uint64_t first_heads = 0;
	*s = (struct shape){ .g = g, .arch = gguf_text(g, "general.architecture") };
	if (!s->arch)
		return unknown(err, "the header has no general.architecture");
	if (strcmp(s->arch, "t5") == 0)
		return unknown(err, "a decoder that looks at an encoder's output keeps a second cache");
	s->n_layers = number_or(g, "block_count", 0);
	if (s->n_layers == 0 || s->n_layers > KV_LAYERS_MAX)
		return unknown(err, "the header has no sensible block_count");
	s->embedding = number_or(g, "embedding_length", 0);
	s->heads = gguf_find_arch(g, "attention.head_count");
	s->kv_heads = gguf_find_arch(g, "attention.head_count_kv");
	for (uint64_t i = 0; i < s->n_layers && first_heads == 0; i++)
		if (!of_layer(s->heads, i, &first_heads))
			break;
	uint64_t plain = first_heads ? s->embedding / first_heads : 0;
	s->key_dim = number_or(g, "attention.key_length", plain);
	s->value_dim = number_or(g, "attention.value_length", plain);
	s->key_dim_window = number_or(g, "attention.key_length_swa", s->key_dim);
	s->value_dim_window = number_or(g, "attention.value_length_swa", s->value_dim);
	s->rule = find_rule(s->arch);
	s->window = number_or(g, "attention.sliding_window", s->rule ? s->rule->default_window_tok : 0);
	s->pattern = gguf_find_arch(g, "attention.sliding_window_pattern");
	s->interval = number_or(g, "full_attention_interval", 0);
	s->shared = number_or(g, "attention.shared_kv_layers", 0);
	s->extra = number_or(g, "nextn_predict_layers", 0);
	s->lora_rank = number_or(g, "attention.kv_lora_rank", 0);
	s->rope_dim = number_or(g, "rope.dimension_count", 0);
	/* Older files of such models hold expanded heads, and their cache is one of full heads. */
	s->is_latent = s->lora_rank && gguf_find_arch(g, "attention.key_length_mla");
	s->state_values = recurrent_state(g);
	return 0;
}

static bool is_window(const struct shape *s, uint64_t i)
{
	uint64_t every = s->rule ? s->rule->every : 0;
	if (s->window == 0)
		return false;
	if (s->pattern && s->pattern->is_array)
		return i < s->pattern->n_kept && s->pattern->list[i] != 0;
	if (s->pattern && !gguf_number(s->pattern, &every))
		return false;
	if (every == 0)
		return s->pattern != NULL; /* 0: all of them */
	return s->rule && s->rule->first_is_full ? i % every != 0 : i % every < every - 1;
}

static int fits(struct kv_layer *l, uint64_t heads, uint64_t key, uint64_t value, struct err *err)
{
	if (heads > 65536 || key == 0 || key > 1u << 20 || value > 1u << 20)
		return unknown(err, "the header does not tell the heads or their size");
	l->heads = (uint32_t)heads;
	l->key_dim = (uint32_t)key;
	l->value_dim = (uint32_t)value;
	return 0;
}

static bool has_ssm(const struct shape *s)
{
	return gguf_find_arch(s->g, "ssm.conv_kernel") || gguf_find_arch(s->g, "shortconv.l_cache") ||
	       gguf_find_arch(s->g, "wkv.head_size");
}

static bool is_state_layer(const struct shape *s, uint64_t i, uint64_t kv_heads)
{
	if (s->interval)
		return (i + 1) % s->interval != 0;
	return kv_heads == 0;
}

static int read_layer(struct kv_layer *l, const struct shape *s, uint64_t i, struct err *err)
{
	uint64_t heads = 0, kv_heads;
	of_layer(s->heads, i, &heads);
	if (!of_layer(s->kv_heads, i, &kv_heads)) {
		if (s->kv_heads || (!s->heads && !has_ssm(s)))
			return unknown(err, "head_count_kv has not one value a layer");
		kv_heads = heads;
	}
	if (i + s->shared + s->extra >= s->n_layers) {
		l->kind = KV_LAYER_NONE;
		return 0;
	}
	if (is_state_layer(s, i, kv_heads)) {
		l->kind = has_ssm(s) ? KV_LAYER_STATE : KV_LAYER_NONE;
		l->state_values = has_ssm(s) ? s->state_values : 0;
		return 0;
	}
	if (s->is_latent) {
		l->kind = KV_LAYER_LATENT;
		return fits(l, 1, s->lora_rank + s->rope_dim, 0, err);
	}
	if (has_ssm(s) && !s->interval && !(s->kv_heads && s->kv_heads->is_array))
		l->state_values = s->state_values; /* both in one layer (falcon-h1) */
	l->kind = is_window(s, i) ? KV_LAYER_WINDOW : KV_LAYER_FULL;
	l->window_tok = l->kind == KV_LAYER_WINDOW ? s->window : 0;
	return l->kind == KV_LAYER_WINDOW ? fits(l, kv_heads, s->key_dim_window, s->value_dim_window, err)
	                                  : fits(l, kv_heads, s->key_dim, s->value_dim, err);
}

int gguf_kv_model(struct kv_model *out, const struct gguf *g, struct err *err)
{
	struct shape s;
	if (read_shape(&s, g, err))
		return -1;
	struct kv_model m = { (size_t)s.n_layers, calloc((size_t)s.n_layers, sizeof(*m.layers)) };
	if (!m.layers)
		return err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; i < m.n_layers; i++)
		if (read_layer(&m.layers[i], &s, i, err)) {
			kv_model_done(&m);
			return -1;
		}
	*out = m;
	return 0;
}
