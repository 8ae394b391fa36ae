/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of the usual decoder (attention with four projections, gated MLP or a mixture of such), and
 * their bytes under the quantisation. Only for classes that are built so. */
#include "base/cleanup.h"
#include "pin/hf_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct shape_rule {
	const char *model_type;
	unsigned norms;  /* of hidden_size, a layer */
	bool head_norms; /* two of head_dim */
	bool biases;     /* of query, key and value */
	bool tied;       /* by default */
} rules[] = {
	{ "llama", 2, false, false, false },     { "mistral", 2, false, false, false },
	{ "mixtral", 2, false, false, false },   { "qwen2", 2, false, true, false },
	{ "qwen3", 2, true, false, false },      { "qwen3_moe", 2, true, false, false },
	{ "gemma", 2, false, false, true },      { "gemma2", 4, false, false, true },
	{ "gemma3_text", 4, true, false, true }, { "phi3", 2, false, false, false },
	{ "granite", 2, false, false, true },
};

static const struct shape_rule *find_rule(const char *model_type)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (strcmp(rules[i].model_type, model_type) == 0)
			return &rules[i];
	return NULL;
}

enum { N_MODULES = 7 };
struct module {
	const char *name; /* behind "model.layers.N." */
	double n;         /* parameters; exact: below 2^53 */
	bool is_expert;
};

/* The product of numbers that are all below 2^24, so that a double is exact up to 2^53. */
static double area(uint64_t rows, uint64_t columns)
{
	return (double)rows * (double)columns;
}

static void list_modules(struct module m[N_MODULES], const struct hf_config *c, uint64_t inner, bool moe)
{
	static const char *const dense[] = { "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj" };
	static const char *const experts[] = { "mlp.experts.0.gate_proj", "mlp.experts.0.up_proj",
		                               "mlp.experts.0.down_proj" };
	double q = area(c->hidden, c->n_heads * c->head_dim),
	       k = area(c->hidden, c->n_kv_heads * c->head_dim);
	double mlp = area(c->hidden, inner) * (moe ? (double)c->n_experts : 1.0);
	m[0] = (struct module){ "self_attn.q_proj", q, false };
	m[1] = (struct module){ "self_attn.k_proj", k, false };
	m[2] = (struct module){ "self_attn.v_proj", k, false };
	m[3] = (struct module){ "self_attn.o_proj", q, false };
	for (int i = 0; i < 3; i++)
		m[4 + i] = (struct module){ moe ? experts[i] : dense[i], mlp, moe };
}

static bool is_sane(uint64_t v)
{
	return v > 0 && v < 1u << 24; /* HF_NONE is not */
}

/* --- what stays as it is ------------------------------------------------------------------------------- */

/* '*' and '?'; goes back to the last star only, so that no pattern takes long. */
static bool glob_matches(const char *p, const char *s)
{
	const char *star = NULL, *from = NULL;
	while (*s) {
		if (*p == '*') {
			star = p++;
			from = s;
		} else if (*p == '?' || *p == *s) {
			p++;
			s++;
		} else if (star) {
			p = star + 1;
			s = ++from;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return *p == '\0';
}

/* Names, or whole parts of names between dots, with '*' and '?'. Of "re:" expressions: those with nothing
 * special but ^, $, "\." and ".*", which are the usual ones. */
static bool matches(const char *pattern, const char *module)
{
	static const char *const before[] = { "", "", "*.", "*." }, *const after[] = { "", ".*", "", ".*" };
	char plain[256], glob[300];
	size_t n = 0;
	bool is_re = strncmp(pattern, "re:", 3) == 0;
	for (const char *p = is_re ? pattern + 3 : pattern; *p && n < sizeof(plain) - 1; p++) {
		if (is_re && (*p == '^' || *p == '$' || *p == '\\' || (p[0] == '.' && p[1] == '*')))
			continue;
		plain[n++] = *p;
	}
	plain[n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(before); i++) {
		snprintf(glob, sizeof(glob), "%s%s%s", before[i], plain, after[i]);
		if (glob_matches(glob, module))
			return true;
	}
	return false;
}

static bool is_ignored(const struct hf_quant *q, const char *module)
{
	for (size_t i = 0; i < q->n_ignored; i++)
		if (q->ignored[i][0] && matches(q->ignored[i], module))
			return true;
	return false;
}

enum { LOOKUPS_MAX = 2000000 };

/* Parameters of the layers that are quantised. */
static double quantised(const struct hf_config *c, const struct module m[N_MODULES])
{
	const struct hf_quant *q = &c->quant;
	bool has_experts = m[4].is_expert;
	double sum = 0;
	for (uint64_t layer = 0; layer < c->n_layers; layer++)
		for (size_t i = 0; i < N_MODULES; i++) {
			char name[128];
			snprintf(name, sizeof(name), "model.layers.%u.%s", (unsigned)layer, m[i].name);
			if (q->experts_only && has_experts && !m[i].is_expert)
				continue;
			if (q->n_ignored == 0 || !is_ignored(q, name))
				sum += m[i].n;
		}
	return sum;
}

/* --- sums ---------------------------------------------------------------------------------------------- */

static uint64_t whole(double v)
{
	return isfinite(v) && v >= 0 && v < 9e15 ? (uint64_t)llround(v) : HF_NONE;
}

static void count_bytes(struct hf_config *c, const struct module m[N_MODULES], double all, double embed_head)
{
	double full = 8.0 * hf_dtype_bytes(c->dtype), bits = c->quant.effective_bits;
	double narrow;
	if (full < 1 || isnan(bits) || c->quant.n_ignored * c->n_layers * N_MODULES > LOOKUPS_MAX)
		return;
	if (!c->quant.method[0]) {
		c->weight_bytes = whole(all * full / 8);
		return;
	}
	narrow = quantised(c, m);
	if (c->quant.head_too && c->tied != 1 && !is_ignored(&c->quant, "lm_head"))
		narrow += embed_head / 2;
	c->weight_bytes = whole(narrow * bits / 8 + (all - narrow) * full / 8);
}

void hf_count(struct hf_config *c, const struct cJSON *cfg)
{
	const struct shape_rule *r = find_rule(c->model_type);
	struct module m[N_MODULES];
	uint64_t inner = c->intermediate, moe_inner;
	bool moe = c->n_experts != HF_NONE && c->n_experts > 0, bias = false;
	if (r && moe && strcmp(c->model_type, "mixtral") != 0 && strcmp(c->model_type, "qwen3_moe") != 0)
		moe = false; /* a number that the class does not use */
	if (moe && json_u64(cfg, "moe_intermediate_size", &moe_inner))
		inner = moe_inner;
	if (!r || !is_sane(c->hidden) || !is_sane(inner) || !is_sane(c->n_heads) || !is_sane(c->n_kv_heads) ||
	    !is_sane(c->head_dim) || !is_sane(c->vocab_tok) || !is_sane(c->n_layers) ||
	    c->n_layers > KV_LAYERS_MAX || (moe && !is_sane(c->n_experts)))
		return;
	if (c->tied < 0)
		c->tied = r->tied;
	list_modules(m, c, inner, moe);
	double layer = 0, layers = (double)c->n_layers;
	for (size_t i = 0; i < N_MODULES; i++)
		layer += m[i].n;
	json_bool(cfg, "attention_bias", &bias);
	double q = (double)(c->n_heads * c->head_dim), kv = (double)(c->n_kv_heads * c->head_dim);
	double small = r->norms * (double)c->hidden + (r->head_norms ? 2.0 * (double)c->head_dim : 0) +
	               (r->biases ? q + 2 * kv : 0) +
	               (bias && !r->biases ? q + 2 * kv + (double)c->hidden : 0) +
	               (moe ? area(c->hidden, c->n_experts) : 0); /* the router */
	double embed_head = area(c->vocab_tok, c->hidden) * (c->tied == 1 ? 1 : 2);
	double all = layers * (layer + small) + embed_head + (double)c->hidden;
	c->n_linear = whole(layers * layer);
	c->n_embed_head = whole(embed_head);
	c->n_parameters = whole(all);
	c->n_active = !moe ? c->n_parameters : HF_NONE;
	if (moe && is_sane(c->n_experts_used) && c->n_experts_used <= c->n_experts)
		c->n_active = whole(all - layers * 3 * area(c->hidden, inner) *
		                                  (double)(c->n_experts - c->n_experts_used));
	count_bytes(c, m, all, embed_head);
}
