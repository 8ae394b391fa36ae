/* SPDX-License-Identifier: Apache-2.0 */
/* KV layers from a config.json: which layers keep keys and values, for how many tokens, of how many heads.
 * The layer rules are those of transformers' configuration and modeling files. */
#include "base/cleanup.h"
#include "pin/hf_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where windowed layers lie in models whose config gives only the window. */
static const struct window_rule {
	const char *model_type;
	unsigned every;     /* each n-th layer is full; 0: all have the window */
	bool only_if_asked; /* use_sliding_window is false by default; from max_window_layers on */
} window_rules[] = {
	{ "gemma2", 2, false },
	{ "gemma3_text", 6, false },
	{ "gemma3", 6, false },
	{ "gemma3n_text", 5, false },
	{ "gemma4_text", 6, false },
	{ "gpt_oss", 2, false },
	{ "cohere2", 4, false },
	{ "exaone4", 4, false },
	{ "olmo3", 4, false },
	{ "afmoe", 4, false },
	{ "mistral", 0, false },
	{ "mixtral", 0, false },
	{ "starcoder2", 0, false },
	{ "phi3", 0, false },
	{ "phimoe", 0, false },
	{ "phi4_multimodal", 0, false },
	{ "", 0, false },
	{ "qwen2", 0, true },
	{ "qwen2_moe", 0, true },
	{ "qwen2_vl", 0, true },
	{ "qwen2_vl_text", 0, true },
	{ "qwen2_5_vl", 0, true },
	{ "qwen2_5_vl_text", 0, true },
	{ "qwen2_5_omni_text", 0, true },
	{ "qwen3", 0, true },
	{ "qwen3_moe", 0, true },
	{ "smollm3", 0, true },
	{ "dream", 0, true },
};

struct source {
	struct hf_config *c;
	const struct cJSON *cfg;
	size_t n;
	uint64_t window;     /* HF_NONE = none */
	const char *why_not; /* set when the layers cannot be told */
	uint64_t state_values;
};

static int fail(struct source *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct source *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->c->kv_unknown, sizeof(s->c->kv_unknown), fmt, ap);
	va_end(ap);
	return -1;
}

static const struct cJSON *list_at(const struct cJSON *cfg, const char *key)
{
	const struct cJSON *l = json_get(cfg, key);
	return l && cJSON_IsArray(l) ? l : NULL;
}

static bool has_number(const struct cJSON *list, double want)
{
	const struct cJSON *n;
	cJSON_ArrayForEach(n, list) if (cJSON_IsNumber(n) && !(n->valuedouble < want) &&
	                                !(n->valuedouble > want)) return true;
	return false;
}

/* --- by a word or a mark for each layer ---------------------------------------------------------------- */

static const struct {
	const char *word;
	enum kv_layer_kind kind;
} layer_words[] = {
	{ "full_attention", KV_LAYER_FULL },
	{ "attention", KV_LAYER_FULL },
	{ "global", KV_LAYER_FULL },
	{ "sliding_attention", KV_LAYER_WINDOW },
	{ "chunked_attention", KV_LAYER_WINDOW },
	{ "local", KV_LAYER_WINDOW },
	{ "linear_attention", KV_LAYER_STATE },
	{ "mamba", KV_LAYER_STATE },
	{ "mamba2", KV_LAYER_STATE },
	{ "conv", KV_LAYER_STATE },
	{ "recurrent", KV_LAYER_STATE },
	{ "mlp", KV_LAYER_NONE },
	{ "moe", KV_LAYER_NONE },
};

static int kind_of_word(enum kv_layer_kind *out, const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(layer_words); i++)
		if (strcmp(layer_words[i].word, word) == 0) {
			*out = layer_words[i].kind;
			return 0;
		}
	return -1;
}

/* One word a layer, or (block_types) a row of words that repeats. */
static int by_words(struct source *s, struct kv_layer *l, const struct cJSON *list, const char *key,
                    bool repeats)
{
	size_t n = 0, i = 0;
	const struct cJSON *w, *at = list->child;
	cJSON_ArrayForEach(w, list) n++;
	if (n == 0 || (n != s->n && !repeats)) {
		hf_contradiction(s->c, "config.json", "%s has %zu entries for %zu layers", key, n, s->n);
		return fail(s, "%s has not one entry a layer", key);
	}
	for (; i < s->n; i++, at = at->next ? at->next : list->child)
		if (!cJSON_IsString(at) || kind_of_word(&l[i].kind, at->valuestring))
			return fail(s, "%s: layers of kind '%.60s' are not known", key,
			            cJSON_IsString(at) ? at->valuestring : "?");
	return 0;
}

static int by_letters(struct source *s, struct kv_layer *l, const char *letters, const char *key)
{
	if (strlen(letters) != s->n) {
		hf_contradiction(s->c, "config.json", "%s has %zu letters for %zu layers", key,
		                 strlen(letters), s->n);
		return fail(s, "%s has not one letter a layer", key);
	}
	for (size_t i = 0; i < s->n; i++) {
		if (!strchr("M*-E", letters[i]))
			return fail(s, "%s: letter '%c' is not known", key, letters[i]);
		l[i].kind = letters[i] == 'M'   ? KV_LAYER_STATE
		            : letters[i] == '*' ? KV_LAYER_FULL
		                                : KV_LAYER_NONE;
	}
	return 0;
}

/* Numbers of the layers with attention; `base`: how the first is called. */
static void by_numbers(struct source *s, struct kv_layer *l, const struct cJSON *full, unsigned base)
{
	for (size_t i = 0; i < s->n; i++)
		l[i].kind = has_number(full, (double)(i + base)) ? KV_LAYER_FULL : KV_LAYER_STATE;
}

/* A 0 or 1 for each layer. */
static int by_marks(struct source *s, struct kv_layer *l, const struct cJSON *marks, const char *key,
                    enum kv_layer_kind zero, enum kv_layer_kind one)
{
	size_t i = 0;
	const struct cJSON *m;
	cJSON_ArrayForEach(m, marks)
	{
		if (i < s->n)
			l[i].kind = cJSON_IsNumber(m) && m->valuedouble > 0 ? one : zero;
		i++;
	}
	return i == s->n ? 0 : fail(s, "%s has not one entry a layer", key);
}

static void by_interval(struct source *s, struct kv_layer *l, uint64_t every, uint64_t offset,
                        enum kv_layer_kind other)
{
	for (size_t i = 0; i < s->n; i++)
		l[i].kind = i % every == offset % every ? KV_LAYER_FULL : other;
}

/* nemotron-nas: each layer with a list of its own. */
static int by_blocks(struct source *s, struct kv_layer *l, const struct cJSON *blocks)
{
	size_t i = 0;
	const struct cJSON *b;
	cJSON_ArrayForEach(b, blocks)
	{
		const struct cJSON *a = json_get(b, "attention");
		bool gone = false, replaced = false;
		uint64_t in_group = 0;
		if (i == s->n)
			return fail(s, "block_configs has more entries than layers");
		json_bool(a, "no_op", &gone);
		json_bool(a, "replace_with_linear", &replaced);
		l[i].kind = gone || replaced ? KV_LAYER_NONE : KV_LAYER_FULL;
		if (json_u64(a, "n_heads_in_group", &in_group) && in_group && s->c->n_heads != HF_NONE)
			l[i].heads = (uint32_t)(s->c->n_heads / in_group);
		i++;
	}
	return i == s->n ? 0 : fail(s, "block_configs has not one entry a layer");
}

/* --- windows ------------------------------------------------------------------------------------------- */

static const struct window_rule *find_rule(const char *model_type)
{
	for (size_t i = 0; i < ARRAY_LEN(window_rules); i++)
		if (strcmp(window_rules[i].model_type, model_type) == 0)
			return &window_rules[i];
	return NULL;
}

static void read_window(struct source *s)
{
	static const char *const names[] = { "sliding_window_size", "attention_window_size", NULL };
	const struct window_rule *r = find_rule(s->c->model_type);
	bool use = !(r && r->only_if_asked);
	s->window = hf_number(s->c, s->cfg, "sliding_window");
	if (s->window == HF_NONE && !hf_is_null(s->cfg, "sliding_window"))
		s->window = hf_first(s->cfg, names);
	json_bool(s->cfg, "use_sliding_window", &use);
	if (!use || s->window == 0)
		s->window = HF_NONE;
}

/* exaone4: "LLLG" repeats, and the last layer is full. */
static void by_window_letters(struct source *s, struct kv_layer *l, const char *letters)
{
	size_t n = strlen(letters);
	for (size_t i = 0; i < s->n; i++)
		l[i].kind = letters[i % n] == 'L' && i + 1 < s->n ? KV_LAYER_WINDOW : KV_LAYER_FULL;
}

static int by_window(struct source *s, struct kv_layer *l)
{
	static const char *const names[] = { "_sliding_window_pattern", "global_attn_every_n_layers", NULL };
	const struct window_rule *r = find_rule(s->c->model_type);
	const char *letters = json_str(s->cfg, "sliding_window_pattern");
	uint64_t every = hf_first(s->cfg, names), from = 0;
	if (s->window == HF_NONE)
		return 0; /* all full */
	if (letters && letters[0]) {
		by_window_letters(s, l, letters);
		return 0;
	}
	if (every == HF_NONE)
		every = hf_number(s->c, s->cfg, "sliding_window_pattern");
	if (every == HF_NONE && r)
		every = r->every;
	if (every == HF_NONE) {
		if (s->c->context_tok != HF_NONE && s->window >= s->c->context_tok)
			return 0;
		return fail(s, "a sliding_window of %" PRIu64 " tokens, but not in which layers of a '%.40s'",
		            s->window, s->c->model_type);
	}
	if (r && r->only_if_asked)
		from = hf_number(s->c, s->cfg, "max_window_layers");
	for (size_t i = 0; i < s->n; i++)
		if ((from == HF_NONE || i >= from) && (every == 0 || (i + 1) % every != 0))
			l[i].kind = KV_LAYER_WINDOW;
	return 0;
}

/* llama4: chunks; no_rope_layers holds 1 for a layer with chunks (and rope). */
static int by_chunks(struct source *s, struct kv_layer *l, uint64_t chunk)
{
	const struct cJSON *marks = list_at(s->cfg, "no_rope_layers");
	s->window = chunk;
	if (marks && marks->child)
		return by_marks(s, l, marks, "no_rope_layers", KV_LAYER_FULL, KV_LAYER_WINDOW);
	by_interval(s, l, 4, 3, KV_LAYER_WINDOW);
	return 0;
}

/* --- the kind of every layer --------------------------------------------------------------------------- */

static int read_kinds(struct source *s, struct kv_layer *l)
{
	static const char *const state_models[] = { "mamba", "mamba2", "falcon_mamba", "rwkv",
		                                    "rwkv5", "rwkv6",  "rwkv7",        "xlstm" };
	const struct cJSON *v;
	const char *type = s->c->model_type, *letters = json_str(s->cfg, "hybrid_override_pattern");
	uint64_t n, offset = 0;
	for (size_t i = 0; i < ARRAY_LEN(state_models); i++)
		if (strcmp(type, state_models[i]) == 0) {
			by_numbers(s, l, NULL, 0);
			return 0;
		}
	if ((v = list_at(s->cfg, "layer_types")))
		return by_words(s, l, v, "layer_types", false);
	if ((v = list_at(s->cfg, "layers_block_type")))
		return by_words(s, l, v, "layers_block_type", false);
	if ((v = list_at(s->cfg, "block_types")) || (v = list_at(s->cfg, "_block_types")))
		return by_words(s, l, v, "block_types", true);
	if (letters)
		return by_letters(s, l, letters, "hybrid_override_pattern");
	if ((v = list_at(s->cfg, "attn_type_list")))
		return by_marks(s, l, v, "attn_type_list", KV_LAYER_STATE, KV_LAYER_FULL);
	if ((v = list_at(s->cfg, "hybrid_layer_pattern")))
		return by_marks(s, l, v, "hybrid_layer_pattern", KV_LAYER_FULL, KV_LAYER_WINDOW);
	if ((v = list_at(s->cfg, "block_configs")))
		return by_blocks(s, l, v);
	if ((v = list_at(json_get(s->cfg, "linear_attn_config"), "full_attn_layers"))) {
		by_numbers(s, l, v, 1);
		return 0;
	}
	if ((v = list_at(s->cfg, "attn_layer_indices")) || (v = list_at(s->cfg, "full_attn_idxs"))) {
		by_numbers(s, l, v, 0);
		return 0;
	}
	if (json_u64(s->cfg, "attn_layer_period", &n) && n) {
		json_u64(s->cfg, "attn_layer_offset", &offset);
		by_interval(s, l, n, offset, KV_LAYER_STATE);
		return 0;
	}
	n = hf_number(s->c, s->cfg, "full_attention_interval");
	if (n != HF_NONE && n) {
		by_interval(s, l, n, n - 1, KV_LAYER_STATE);
		return 0;
	}
	if (json_u64(s->cfg, "attention_chunk_size", &n) && n)
		return by_chunks(s, l, n);
	return by_window(s, l);
}

/* --- sizes --------------------------------------------------------------------------------------------- */

static uint64_t product(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t v;
	if (a == HF_NONE || b == HF_NONE || c == HF_NONE || __builtin_mul_overflow(a, b, &v) ||
	    __builtin_mul_overflow(v, c, &v) || v > UINT32_MAX)
		return KV_UNKNOWN;
	return v;
}

/* A sequence's state in one layer: convolution and recurrent part (gated delta net, mamba2, short conv). */
static uint64_t read_state(const struct cJSON *cfg)
{
	static const char *const heads[] = { "mamba_n_heads", "mamba_num_heads", NULL },
				 *const dim[] = { "mamba_d_head", "mamba_head_dim", NULL },
				 *const state[] = { "mamba_d_state", "ssm_state_size", NULL },
				 *const conv[] = { "mamba_d_conv", "conv_kernel", NULL },
				 *const groups[] = { "mamba_n_groups", "n_groups", NULL };
	uint64_t kh, vh, kd, vd, ck, cache, hidden;
	if (json_u64(cfg, "linear_num_key_heads", &kh) && json_u64(cfg, "linear_num_value_heads", &vh) &&
	    json_u64(cfg, "linear_key_head_dim", &kd) && json_u64(cfg, "linear_value_head_dim", &vd) &&
	    json_u64(cfg, "linear_conv_kernel_dim", &ck) && ck) {
		uint64_t keys = product(2, kh, kd), values = product(1, vh, vd), s = product(vh, kd, vd);
		if (keys == KV_UNKNOWN || values == KV_UNKNOWN || s == KV_UNKNOWN || ck > 1024)
			return KV_UNKNOWN;
		return (ck - 1) * (keys + values) + s;
	}
	if (json_u64(cfg, "conv_L_cache", &cache) && cache && json_u64(cfg, "hidden_size", &hidden))
		return product(cache - 1, hidden, 1);
	uint64_t h = hf_first(cfg, heads), d = hf_first(cfg, dim), n = hf_first(cfg, state);
	uint64_t c = hf_first(cfg, conv), g = hf_first(cfg, groups);
	uint64_t inner = product(1, h, d), bc = product(2, g, n), ssm = product(h, d, n);
	if (inner == KV_UNKNOWN || bc == KV_UNKNOWN || ssm == KV_UNKNOWN || c == HF_NONE || c == 0 ||
	    c > 1024)
		return KV_UNKNOWN;
	return (c - 1) * (inner + bc) + ssm;
}

struct sizes {
	uint64_t heads, key, value;
};

static uint64_t first_of(uint64_t a, uint64_t b)
{
	return a != HF_NONE ? a : b;
}

static uint64_t number_at(const struct cJSON *cfg, const char *key)
{
	uint64_t v;
	return json_u64(cfg, key, &v) ? v : HF_NONE;
}

/* Some models have other heads in windowed layers (mimo), or in full ones (gemma4). */
static struct sizes sizes_of(const struct source *s, enum kv_layer_kind kind)
{
	const struct cJSON *cfg = s->cfg;
	struct sizes z = { s->c->n_kv_heads, s->c->head_dim, HF_NONE };
	z.value = first_of(number_at(cfg, "v_head_dim"), z.key);
	if (kind == KV_LAYER_WINDOW) {
		z.heads = first_of(number_at(cfg, "swa_num_key_value_heads"), z.heads);
		z.key = first_of(number_at(cfg, "swa_head_dim"), z.key);
		z.value = first_of(number_at(cfg, "swa_v_head_dim"), z.value);
	} else if (number_at(cfg, "global_head_dim") != HF_NONE) {
		z.heads = first_of(number_at(cfg, "num_global_key_value_heads"), z.heads);
		z.key = z.value = number_at(cfg, "global_head_dim");
	}
	return z;
}

static bool heads_of_layer(const struct source *s, size_t i, uint64_t *out)
{
	const struct cJSON *l = list_at(s->cfg, "num_key_value_heads");
	if (!l)
		l = list_at(s->cfg, "num_kv_heads");
	const struct cJSON *n = l ? cJSON_GetArrayItem(l, (int)i) : NULL;
	if (!n || !cJSON_IsNumber(n) || n->valuedouble < 0 || n->valuedouble > 65536)
		return false;
	*out = (uint64_t)n->valuedouble;
	return true;
}

static int fill_attention(struct source *s, struct kv_layer *l, size_t i)
{
	struct sizes z = sizes_of(s, l->kind);
	if (l->heads)
		z.heads = l->heads;
	heads_of_layer(s, i, &z.heads);
	if (z.heads == HF_NONE || z.key == HF_NONE || z.value == HF_NONE)
		return fail(s,
		            "the config leaves out heads or head size, and the defaults of '%.40s' are not "
		            "known",
		            s->c->model_type);
	if (z.heads > 65536 || z.key > 1 << 20 || z.value > 1 << 20 || z.heads == 0 || z.key == 0)
		return fail(s, "heads or head size make no sense");
	l->heads = (uint32_t)z.heads;
	l->key_dim = (uint32_t)z.key;
	l->value_dim = (uint32_t)z.value;
	if (l->kind != KV_LAYER_WINDOW)
		return 0;
	if (s->window == HF_NONE || s->window == 0) {
		hf_contradiction(s->c, "config.json", "layers with a window, but no sliding_window");
		return fail(s, "layers with a window, but no sliding_window");
	}
	l->window_tok = s->window;
	return 0;
}

/* Multi-head latent attention: one compressed vector and the rotary part of the keys. */
static int fill_latent(struct source *s, struct kv_layer *l, uint64_t rank, uint64_t rope)
{
	if (rank == 0 || rank > 1 << 20 || rope > 1 << 20)
		return fail(s, "kv_lora_rank or qk_rope_head_dim make no sense");
	l->kind = KV_LAYER_LATENT;
	l->heads = 1;
	l->key_dim = (uint32_t)(rank + rope);
	l->value_dim = 0;
	return 0;
}

static int fill_layers(struct source *s, struct kv_layer *l)
{
	uint64_t rank = hf_number(s->c, s->cfg, "kv_lora_rank"), rope = HF_NONE, shared;
	if (rank != HF_NONE)
		rope = hf_number(s->c, s->cfg, "qk_rope_head_dim");
	shared = hf_number(s->c, s->cfg, "num_kv_shared_layers");
	bool beside = strcmp(s->c->model_type, "falcon_h1") == 0;
	for (size_t i = 0; i < s->n; i++) {
		if (shared != HF_NONE && i + shared >= s->n)
			l[i].kind = KV_LAYER_NONE;
		if (l[i].kind == KV_LAYER_STATE || beside)
			l[i].state_values = s->state_values;
		if (l[i].kind == KV_LAYER_STATE || l[i].kind == KV_LAYER_NONE)
			continue;
		if (rank != HF_NONE && rope != HF_NONE && l[i].kind == KV_LAYER_FULL
		            ? fill_latent(s, &l[i], rank, rope)
		            : fill_attention(s, &l[i], i))
			return -1;
	}
	return 0;
}

static int check_kind_of_model(struct source *s)
{
	static const char *const encoders[] = { "bert",       "roberta",    "xlm-roberta",
		                                "modernbert", "distilbert", "deberta-v2",
		                                "electra",    "mpnet",      "nomic_bert" };
	bool two = false;
	json_bool(s->cfg, "is_encoder_decoder", &two);
	if (two || strcmp(s->c->model_type, "t5") == 0)
		return fail(s, "a decoder that looks at an encoder's output keeps a second cache");
	for (size_t i = 0; i < ARRAY_LEN(encoders); i++)
		if (strcmp(s->c->model_type, encoders[i]) == 0)
			return fail(s, "an encoder keeps no cache");
	if (strcmp(s->c->model_type, "longcat_flash") == 0)
		return fail(s, "two attentions a layer are not counted yet");
	if (s->c->n_layers == HF_NONE || s->c->n_layers == 0 || s->c->n_layers > KV_LAYERS_MAX)
		return fail(s, "the config has no sensible number of layers");
	return 0;
}

int hf_read_layers(struct hf_config *c, const struct cJSON *cfg, struct err *err)
{
	struct source s = { .c = c, .cfg = cfg, .state_values = read_state(cfg) };
	if (check_kind_of_model(&s))
		return 0;
	s.n = (size_t)c->n_layers;
	struct kv_layer *l = calloc(s.n, sizeof(*l));
	if (!l)
		return err_set(err, ERR_ENV, "no memory");
	read_window(&s);
	if (read_kinds(&s, l) || fill_layers(&s, l)) {
		free(l);
		return 0;
	}
	c->kv = (struct kv_model){ s.n, l };
	if (kv_count(&c->kv, KV_LAYER_WINDOW))
		c->window_tok = kv_common_window(&c->kv);
	return 0;
}
