/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/hf_config.h"

#include "base/fs.h"
#include "pin/hf_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_BYTES_MAX (16u << 20)

/* --- defaults of classes (transformers' configuration_*.py), where published configs leave them out ------
 */

static const struct class_default {
	const char *model_type, *key;
	uint64_t value;
} class_defaults[] = {
	{ "gemma3_text", "num_attention_heads", 8 },
	{ "gemma3_text", "num_key_value_heads", 4 },
	{ "gemma3_text", "head_dim", 256 },
	{ "gemma3_text", "sliding_window", 4096 },
	{ "gemma3_text", "sliding_window_pattern", 6 },
	{ "gemma3_text", "hidden_size", 2304 },
	{ "gemma3_text", "num_hidden_layers", 26 },
	{ "gemma3_text", "vocab_size", 262208 },
	{ "gemma3n_text", "num_attention_heads", 8 },
	{ "gemma3n_text", "num_key_value_heads", 2 },
	{ "gemma3n_text", "head_dim", 256 },
	{ "gemma3n_text", "sliding_window", 512 },
	{ "gemma3n_text", "num_kv_shared_layers", 15 },
	{ "gemma2", "num_attention_heads", 8 },
	{ "gemma2", "num_key_value_heads", 4 },
	{ "gemma2", "head_dim", 256 },
	{ "gemma2", "sliding_window", 4096 },
	{ "gemma2", "hidden_size", 2304 },
	{ "gemma2", "num_hidden_layers", 26 },
	{ "gemma", "num_attention_heads", 16 },
	{ "gemma", "num_key_value_heads", 16 },
	{ "gemma", "head_dim", 256 },
	{ "mistral", "num_attention_heads", 32 },
	{ "mistral", "num_key_value_heads", 8 },
	{ "mistral", "sliding_window", 4096 },
	{ "mistral", "hidden_size", 4096 },
	{ "mistral", "num_hidden_layers", 32 },
	{ "mixtral", "num_attention_heads", 32 },
	{ "mixtral", "num_key_value_heads", 8 },
	{ "llama", "num_attention_heads", 32 },
	{ "llama", "hidden_size", 4096 },
	{ "llama", "num_hidden_layers", 32 },
	{ "qwen2", "num_attention_heads", 32 },
	{ "qwen2", "num_key_value_heads", 32 },
	{ "qwen2", "max_window_layers", 28 },
	{ "qwen2", "sliding_window", 4096 },
	{ "qwen3", "num_attention_heads", 32 },
	{ "qwen3", "num_key_value_heads", 32 },
	{ "qwen3", "head_dim", 128 },
	{ "qwen3", "max_window_layers", 28 },
	{ "qwen3_next", "num_attention_heads", 16 },
	{ "qwen3_next", "num_key_value_heads", 2 },
	{ "qwen3_next", "head_dim", 256 },
	{ "qwen3_next", "full_attention_interval", 4 },
	{ "cohere2", "num_attention_heads", 64 },
	{ "cohere2", "sliding_window", 4096 },
	{ "cohere2", "sliding_window_pattern", 4 },
	{ "gpt_oss", "num_attention_heads", 64 },
	{ "gpt_oss", "num_key_value_heads", 8 },
	{ "gpt_oss", "head_dim", 64 },
	{ "gpt_oss", "sliding_window", 128 },
	{ "deepseek_v2", "kv_lora_rank", 512 },
	{ "deepseek_v2", "qk_rope_head_dim", 64 },
	{ "deepseek_v3", "kv_lora_rank", 512 },
	{ "deepseek_v3", "qk_rope_head_dim", 64 },
};

bool hf_has_default(const struct hf_config *c, const char *key, uint64_t *out)
{
	for (size_t i = 0; i < ARRAY_LEN(class_defaults); i++)
		if (strcmp(class_defaults[i].model_type, c->model_type) == 0 &&
		    strcmp(class_defaults[i].key, key) == 0) {
			*out = class_defaults[i].value;
			return true;
		}
	return false;
}

static void note_default(struct hf_config *c, const char *key, uint64_t value)
{
	for (size_t i = 0; i < c->n_defaults; i++)
		if (strcmp(c->defaults[i].key, key) == 0)
			return;
	if (c->n_defaults < HF_DEFAULTS_MAX)
		c->defaults[c->n_defaults++] = (struct hf_default){ key, value };
}

uint64_t hf_number(struct hf_config *c, const struct cJSON *cfg, const char *key)
{
	uint64_t v;
	if (json_u64(cfg, key, &v))
		return v;
	if (json_get(cfg, key) || !hf_has_default(c, key, &v))
		return HF_NONE;
	note_default(c, key, v);
	return v;
}

uint64_t hf_first(const struct cJSON *cfg, const char *const *keys)
{
	uint64_t v;
	for (; *keys; keys++)
		if (json_u64(cfg, *keys, &v))
			return v;
	return HF_NONE;
}

bool hf_is_null(const struct cJSON *cfg, const char *key)
{
	const struct cJSON *v = json_get(cfg, key);
	return v && cJSON_IsNull(v);
}

void hf_contradiction(struct hf_config *c, const char *file, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	problem_add(&c->problems, PROBLEM_ERROR, file, "%s", text);
}

/* --- files --------------------------------------------------------------------------------------------- */

/* Python's json writes NaN and Infinity: outside of strings they become null. */
static int null_for_not_finite(struct buf *out, const char *p, size_t len)
{
	static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
	bool in_string = false;
	size_t from = 0;
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '\\' && in_string) {
			i++;
			continue;
		}
		in_string = p[i] == '"' ? !in_string : in_string;
		for (size_t w = 0; w < ARRAY_LEN(words) && !in_string; w++) {
			size_t n = strlen(words[w]);
			if (len - i < n || memcmp(p + i, words[w], n) != 0)
				continue;
			buf_add(out, p + from, i - from);
			buf_adds(out, "null");
			from = i + n;
			i = from - 1;
			break;
		}
	}
	return buf_add(out, p + from, len - from);
}

int hf_json_read(struct cJSON **out, const char *dir, const char *file, struct err *err)
{
	auto_buf raw = BUF_INIT(CONFIG_BYTES_MAX);
	auto_buf text = BUF_INIT(2 * CONFIG_BYTES_MAX);
	auto_json doc = NULL;
	auto_free char *path = fs_join(dir, file);
	*out = NULL;
	if (!path)
		return err_set(err, ERR_ENV, "%s: no memory", file);
	if (access(path, F_OK))
		return 0;
	if (fs_read(&raw, path, CONFIG_BYTES_MAX, err))
		return -1;
	if (null_for_not_finite(&text, raw.p ? raw.p : "", raw.len))
		return err_set(err, ERR_ENV, "%s: no memory", path);
	if (json_parse(&doc, text.p ? text.p : "", text.len, path, JSON_ENGINE, NULL, err))
		return -1;
	if (!cJSON_IsObject(doc))
		return err_set(err, ERR_PLAN, "%s: want a JSON object", path);
	*out = steal_ptr(&doc);
	return 0;
}

/* --- shape --------------------------------------------------------------------------------------------- */

static void copy_text(char *out, size_t size, const char *text)
{
	size_t n = text ? strnlen(text, size - 1) : 0; /* longer ones are cut */
	memcpy(out, text ? text : "", n);
	out[n] = '\0';
}

/* The language model of a model with several. */
static const struct cJSON *text_part(const struct cJSON *doc)
{
	static const char *const names[] = { "text_config", "llm_config", "language_config", "thinker_config",
		                             "language_model" };
	for (int depth = 0; depth < 3; depth++) {
		const struct cJSON *inner = NULL;
		for (size_t i = 0; i < ARRAY_LEN(names) && !inner; i++)
			inner = json_get(doc, names[i]);
		if (!inner || !cJSON_IsObject(inner))
			return doc;
		doc = inner;
	}
	return doc;
}

static void read_dtype(struct hf_config *c, const struct cJSON *doc, const struct cJSON *cfg)
{
	const char *old = json_str(cfg, "torch_dtype"), *now = json_str(cfg, "dtype");
	if (!old && !now) {
		old = json_str(doc, "torch_dtype");
		now = json_str(doc, "dtype");
	}
	if (old && now && strcmp(old, now) != 0)
		hf_contradiction(c, "config.json", "dtype is %.32s, torch_dtype is %.32s", now, old);
	const char *dtype = now ? now : old;
	if (dtype && strncmp(dtype, "torch.", 6) == 0)
		dtype += 6;
	copy_text(c->dtype, sizeof(c->dtype), dtype);
}

static void read_rope(struct hf_config *c, const struct cJSON *cfg)
{
	const struct cJSON *s = json_get(cfg, "rope_scaling");
	const struct cJSON *p = json_get(cfg, "rope_parameters");
	if (!s || cJSON_IsNull(s))
		s = p;
	if (!json_num(cfg, "rope_theta", &c->rope_theta))
		json_num(p, "rope_theta", &c->rope_theta);
	const char *type = json_str(s, "rope_type") ? json_str(s, "rope_type") : json_str(s, "type");
	if (type && strcmp(type, "default") != 0)
		copy_text(c->rope_type, sizeof(c->rope_type), type);
	json_num(s, "factor", &c->rope_factor);
}

static void read_kv_heads(struct hf_config *c, const struct cJSON *cfg)
{
	static const char *const names[] = { "num_kv_heads", "n_head_kv", "multi_query_group_num",
		                             "kv_n_heads", NULL };
	bool multi_query = false, grouped = false;
	c->n_kv_heads = hf_number(c, cfg, "num_key_value_heads");
	if (c->n_kv_heads == HF_NONE)
		c->n_kv_heads = hf_first(cfg, names);
	if (c->n_kv_heads == HF_NONE)
		c->n_kv_heads = hf_first(json_get(cfg, "attn_config"), names);
	json_bool(cfg, "multi_query", &multi_query);
	json_bool(cfg, "new_decoder_architecture", &grouped);
	if (multi_query && !grouped && !json_get(cfg, "multi_query_group_num"))
		c->n_kv_heads = 1;
	if (c->n_kv_heads == HF_NONE)
		c->n_kv_heads = c->n_heads;
}

static uint64_t number_or(struct hf_config *c, const struct cJSON *cfg, const char *key,
                          const char *const *others)
{
	uint64_t v;
	if (json_u64(cfg, key, &v) || (v = hf_first(cfg, others)) != HF_NONE)
		return v;
	return hf_number(c, cfg, key);
}

static void read_shape(struct hf_config *c, const struct cJSON *cfg)
{
	static const char *const layers[] = { "n_layer", "n_layers", "num_layers", NULL },
				 *const heads[] = { "n_head", "n_heads", "num_heads", NULL },
				 *const hidden[] = { "n_embd", "d_model", NULL },
				 *const dims[] = { "kv_channels", "d_kv", NULL },
				 *const inner[] = { "n_inner", "ffn_hidden_size", NULL },
				 *const vocab[] = { "padded_vocab_size", NULL },
				 *const context[] = { "n_positions", "seq_length",       "max_seq_len",
		                                      "n_ctx",       "model_max_length", NULL },
				 *const experts[] = { "num_local_experts", "n_routed_experts", NULL },
				 *const used[] = { "moe_topk", NULL };
	c->n_layers = number_or(c, cfg, "num_hidden_layers", layers);
	c->hidden = number_or(c, cfg, "hidden_size", hidden);
	c->intermediate = number_or(c, cfg, "intermediate_size", inner);
	c->n_heads = number_or(c, cfg, "num_attention_heads", heads);
	read_kv_heads(c, cfg);
	c->head_dim = number_or(c, cfg, "head_dim", dims);
	if (c->head_dim == HF_NONE && c->hidden != HF_NONE && c->n_heads != HF_NONE && c->n_heads) {
		if (c->hidden % c->n_heads && json_get(cfg, "kv_lora_rank") == NULL)
			hf_contradiction(c, "config.json",
			                 "hidden_size %" PRIu64 " is no multiple of the %" PRIu64
			                 " heads, and head_dim is not told",
			                 c->hidden, c->n_heads);
		else
			c->head_dim = c->hidden / c->n_heads;
	}
	c->vocab_tok = number_or(c, cfg, "vocab_size", vocab);
	c->context_tok = number_or(c, cfg, "max_position_embeddings", context);
	c->n_experts = number_or(c, cfg, "num_experts", experts);
	c->n_experts_used = number_or(c, cfg, "num_experts_per_tok", used);
	if (c->n_heads != HF_NONE && c->n_kv_heads != HF_NONE && c->n_kv_heads && c->n_heads % c->n_kv_heads)
		hf_contradiction(c, "config.json",
		                 "%" PRIu64 " heads do not share %" PRIu64 " KV heads evenly", c->n_heads,
		                 c->n_kv_heads);
}

static int read_all(struct hf_config *c, const struct cJSON *doc, const struct cJSON *side,
                    const char *side_name, struct err *err)
{
	const struct cJSON *cfg = text_part(doc);
	const struct cJSON *arch = json_get(doc, "architectures");
	const char *type = json_str(cfg, "model_type");
	bool tied;
	copy_text(c->model_type, sizeof(c->model_type), type ? type : json_str(doc, "model_type"));
	if (arch && cJSON_IsArray(arch) && cJSON_IsString(cJSON_GetArrayItem(arch, 0)))
		copy_text(c->architecture, sizeof(c->architecture), cJSON_GetArrayItem(arch, 0)->valuestring);
	read_dtype(c, doc, cfg);
	read_rope(c, cfg);
	read_shape(c, cfg);
	if (json_bool(cfg, "tie_word_embeddings", &tied) || json_bool(doc, "tie_word_embeddings", &tied))
		c->tied = tied;
	if (hf_read_quant(c, doc, cfg, side, side_name, err) || hf_read_layers(c, cfg, err))
		return -1;
	hf_count(c, cfg);
	return 0;
}

int hf_config_parse(struct hf_config *out, const struct cJSON *doc, const struct cJSON *side,
                    const char *side_name, struct err *err)
{
	auto_free struct hf_config *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, ERR_ENV, "no memory");
	c->rope_theta = c->rope_factor = c->quant.effective_bits = (double)NAN;
	c->tied = c->quant.act_order = -1;
	c->window_tok = c->n_parameters = c->n_linear = c->n_embed_head = HF_NONE;
	c->n_active = c->weight_bytes = HF_NONE;
	if (read_all(c, doc, side, side_name, err)) {
		hf_config_done(c);
		return -1;
	}
	*out = *c;
	return 0;
}

int hf_config_read(struct hf_config *out, const char *dir, struct err *err)
{
	static const char *const sides[] = { "hf_quant_config.json", "quantize_config.json",
		                             "quant_config.json" };
	auto_json doc = NULL;
	auto_json side = NULL;
	const char *side_name = NULL;
	if (hf_json_read(&doc, dir, "config.json", err))
		return -1;
	if (!doc)
		return err_set(err, ERR_ENV, "%s: holds no config.json", dir);
	for (size_t i = 0; i < ARRAY_LEN(sides) && !side; i++) {
		if (hf_json_read(&side, dir, sides[i], err))
			return -1;
		side_name = sides[i];
	}
	return hf_config_parse(out, doc, side, side_name, err);
}

void hf_config_done(struct hf_config *c)
{
	for (size_t i = 0; i < c->quant.n_ignored; i++)
		free(c->quant.ignored[i]);
	free(c->quant.ignored);
	kv_model_done(&c->kv);
	problems_done(&c->problems);
	*c = (struct hf_config){ 0 };
}

unsigned hf_dtype_bytes(const char *dtype)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} known[] = { { "float32", 4 }, { "float", 4 },   { "bfloat16", 2 },     { "float16", 2 },
		      { "half", 2 },    { "float64", 8 }, { "float8_e4m3fn", 1 } };
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].name, dtype) == 0)
			return known[i].bytes;
	return 0;
}

void hf_kv_dtype_words(char *out, size_t size, const struct hf_config *c)
{
	unsigned bytes = hf_dtype_bytes(c->dtype);
	if (c->quant.kv_dtype[0])
		copy_text(out, size, c->quant.kv_dtype);
	else if (bytes)
		snprintf(out, size, "as the model (%u bit)", 8 * bytes);
	else
		copy_text(out, size, "as the model");
}
