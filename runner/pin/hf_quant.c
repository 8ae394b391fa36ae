/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation as it is written down: quantization_config (or compression_config) in config.json, and side
 * files. Bits a weight: the weight itself, plus scale and zero point of its group. */
#include "base/cleanup.h"
#include "pin/hf_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { IGNORED_MAX = 20000 };

static bool is_true(const struct cJSON *obj, const char *key)
{
	bool b = false;
	return json_bool(obj, key, &b) && b;
}

static double scaled(double bits, double per_group, uint64_t group)
{
	return group ? bits + per_group / (double)group : bits;
}

/* -1 stands for a whole row: its scale weighs next to nothing. */
static uint64_t group_of(const struct cJSON *q)
{
	static const char *const names[] = { "group_size", "q_group_size", NULL };
	uint64_t g = hf_first(q, names);
	return g == HF_NONE ? 0 : g;
}

static void set_bits(struct hf_quant *q, const struct cJSON *doc)
{
	static const char *const names[] = { "bits", "w_bit", "wbits", "nbits", "weight_bits", NULL };
	uint64_t bits = hf_first(doc, names);
	q->weight_bits = bits == HF_NONE || bits > 64 ? 0 : (uint32_t)bits;
	q->group_size = group_of(doc);
}

static int add_ignored(struct hf_quant *q, const struct cJSON *list)
{
	const struct cJSON *s;
	size_t n = 0;
	if (!list || !cJSON_IsArray(list) || q->n_ignored)
		return 0;
	cJSON_ArrayForEach(s, list) n += cJSON_IsString(s) != 0;
	if (n > IGNORED_MAX)
		n = IGNORED_MAX;
	q->ignored = calloc(n + 1, sizeof(*q->ignored));
	if (!q->ignored)
		return -1;
	cJSON_ArrayForEach(s, list)
	{
		if (!cJSON_IsString(s) || q->n_ignored == n)
			continue;
		q->ignored[q->n_ignored] = strdup(s->valuestring);
		if (!q->ignored[q->n_ignored++])
			return -1;
	}
	return 0;
}

/* --- one method each ----------------------------------------------------------------------------------- */

static void read_gptq_awq(struct hf_quant *q, const struct cJSON *doc)
{
	bool b;
	set_bits(q, doc);
	if (q->weight_bits)
		q->effective_bits = scaled(q->weight_bits, 16.0 + q->weight_bits, q->group_size);
	if (json_bool(doc, "desc_act", &b))
		q->act_order = b;
}

static void read_block(struct hf_quant *q, const struct cJSON *block, double scale_bits)
{
	const struct cJSON *rows = cJSON_GetArrayItem(block, 0), *columns = cJSON_GetArrayItem(block, 1);
	if (!cJSON_IsNumber(rows) || !cJSON_IsNumber(columns) || rows->valuedouble < 1 ||
	    columns->valuedouble < 1 || rows->valuedouble > 65536 || columns->valuedouble > 65536)
		return;
	q->block_rows = (uint64_t)rows->valuedouble;
	q->block_columns = (uint64_t)columns->valuedouble;
	q->effective_bits = scaled(q->weight_bits, scale_bits, q->block_rows * q->block_columns);
}

static void read_fp8(struct hf_quant *q, const struct cJSON *doc)
{
	q->weight_bits = 8;
	q->effective_bits = 8;
	read_block(q, json_get(doc, "weight_block_size"), 32);
}

static void read_bitsandbytes(struct hf_config *c, const struct cJSON *doc)
{
	struct hf_quant *q = &c->quant;
	bool four = is_true(doc, "load_in_4bit") || is_true(doc, "_load_in_4bit");
	bool eight = is_true(doc, "load_in_8bit") || is_true(doc, "_load_in_8bit");
	if (four && eight)
		hf_contradiction(c, q->found_in, "load_in_4bit and load_in_8bit are both set");
	q->weight_bits = four ? 4 : eight ? 8 : 0;
	if (four) {
		/* one scale for 64 weights: 32 bit, or 8 bit with a 32-bit one for 256 of them */
		q->effective_bits = is_true(doc, "bnb_4bit_use_double_quant")
		                            ? 4 + 8.0 / 64 + 32.0 / (64 * 256)
		                            : 4 + 32.0 / 64;
		q->group_size = 64;
	} else if (eight) {
		q->effective_bits = 8;
	}
}

static void kv_from_scheme(struct hf_quant *q, const struct cJSON *scheme)
{
	uint64_t bits;
	const char *type = json_str(scheme, "type");
	if (json_u64(scheme, "num_bits", &bits) && bits < 100)
		snprintf(q->kv_dtype, sizeof(q->kv_dtype), "%s%u",
		         type && strcmp(type, "int") == 0 ? "int" : "fp", (unsigned)bits);
}

static void read_ct_group(struct hf_quant *q, const struct cJSON *w)
{
	const char *strategy = json_str(w, "strategy");
	uint64_t bits = 0;
	bool symmetric = true;
	json_u64(w, "num_bits", &bits);
	json_bool(w, "symmetric", &symmetric);
	q->weight_bits = bits <= 64 ? (uint32_t)bits : 0;
	q->group_size = group_of(w);
	q->effective_bits = bits && bits <= 64 ? (double)bits : (double)NAN;
	if (strategy && strcmp(strategy, "block") == 0)
		read_block(q, json_get(w, "block_structure"), 16);
	else if (strategy && strcmp(strategy, "tensor_group") == 0) /* NVFP4: an 8-bit scale */
		q->effective_bits = scaled((double)bits, 8, q->group_size);
	else if (q->group_size)
		q->effective_bits =
			scaled((double)bits, 16 + (symmetric ? 0.0 : (double)bits), q->group_size);
}

static bool names_linear(const struct cJSON *targets)
{
	const struct cJSON *t;
	cJSON_ArrayForEach(t, targets) if (cJSON_IsString(t) &&
	                                   strcmp(t->valuestring, "Linear") == 0) return true;
	return false;
}

static void read_compressed_tensors(struct hf_quant *q, const struct cJSON *doc)
{
	const struct cJSON *g, *groups = json_get(doc, "config_groups");
	bool first = true;
	cJSON_ArrayForEach(g, groups)
	{
		struct hf_quant one = { .effective_bits = (double)NAN };
		const struct cJSON *w = json_get(g, "weights");
		if (!w || !cJSON_IsObject(w))
			continue;
		read_ct_group(&one, w);
		q->head_too = q->head_too || names_linear(json_get(g, "targets"));
		if (first) {
			q->weight_bits = one.weight_bits;
			q->group_size = one.group_size;
			q->block_rows = one.block_rows;
			q->block_columns = one.block_columns;
			q->effective_bits = one.effective_bits;
		} else if (q->weight_bits != one.weight_bits) {
			q->weight_bits = 0; /* several widths: no one figure */
			q->effective_bits = (double)NAN;
		}
		first = false;
	}
	kv_from_scheme(q, json_get(doc, "kv_cache_scheme"));
}

static const struct {
	const char *algo;
	uint32_t bits;
	double scale_bits;
	uint64_t group; /* when the file does not tell */
} modelopt_algos[] = {
	{ "NVFP4", 4, 8, 16 },
	{ "NVFP4_AWQ", 4, 8, 16 },
	{ "W4A16_NVFP4", 4, 8, 16 },
	{ "FP8", 8, 0, 0 },
	{ "FP8_PER_CHANNEL_PER_TOKEN", 8, 0, 0 },
	{ "FP8_PB_WO", 8, 32, 16384 },
	{ "W4A8_AWQ", 4, 16, 128 },
	{ "W4A16_AWQ", 4, 16, 128 },
	{ "INT4_AWQ", 4, 16, 128 },
	{ "W8A16", 8, 0, 0 },
	{ "W8A8_SQ_PER_CHANNEL", 8, 0, 0 },
	{ "INT8_SQ", 8, 0, 0 },
	{ "MXFP4", 4, 8, 32 },
	{ "W4A8_MXFP4_FP8", 4, 8, 32 },
	{ "MXFP8", 8, 8, 32 },
};

static void lower(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text);
	for (char *p = out; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
}

static void read_modelopt(struct hf_quant *q, const struct cJSON *doc)
{
	const char *algo = json_str(doc, "quant_algo"), *kv = json_str(doc, "kv_cache_quant_algo");
	snprintf(q->method, sizeof(q->method), "modelopt%s%.40s", algo ? " " : "", algo ? algo : "");
	q->group_size = group_of(doc);
	for (size_t i = 0; algo && i < ARRAY_LEN(modelopt_algos); i++) {
		if (strcasecmp(modelopt_algos[i].algo, algo) != 0)
			continue;
		q->weight_bits = modelopt_algos[i].bits;
		if (!q->group_size && modelopt_algos[i].group != 16384)
			q->group_size = modelopt_algos[i].group;
		q->effective_bits = scaled(q->weight_bits, modelopt_algos[i].scale_bits,
		                           q->group_size ? q->group_size : modelopt_algos[i].group);
	}
	if (kv && strcasecmp(kv, "none") != 0 && kv[0])
		lower(q->kv_dtype, sizeof(q->kv_dtype), kv);
	kv_from_scheme(q, json_get(doc, "kv_cache_scheme"));
}

static void read_quark(struct hf_quant *q, const struct cJSON *doc)
{
	static const struct {
		const char *word;
		uint32_t bits;
		double scale_bits;
		uint64_t group;
	} types[] = { { "fp8", 8, 0, 0 },  { "int8", 8, 0, 0 },     { "uint8", 8, 0, 0 },
		      { "fp4", 4, 8, 32 }, { "uint4", 4, 20, 128 }, { "int4", 4, 16, 128 },
		      { "fp6", 6, 8, 32 }, { "mx", 4, 8, 32 } };
	const struct cJSON *w = json_get(json_get(doc, "global_quant_config"), "weight");
	if (w && cJSON_IsArray(w))
		w = cJSON_GetArrayItem(w, 0);
	const char *dtype = json_str(w, "dtype");
	const char *kv = json_str(json_get(doc, "kv_cache_config"), "dtype");
	for (size_t i = 0; dtype && i < ARRAY_LEN(types); i++) {
		if (strncmp(dtype, types[i].word, strlen(types[i].word)) != 0)
			continue;
		q->weight_bits = types[i].bits;
		q->group_size = group_of(w) ? group_of(w) : types[i].group;
		q->effective_bits = scaled(types[i].bits, types[i].scale_bits, q->group_size);
		break;
	}
	if (kv)
		lower(q->kv_dtype, sizeof(q->kv_dtype), kv);
}

static void read_mx(struct hf_quant *q, uint32_t bits)
{
	q->weight_bits = bits;
	q->group_size = 32;
	q->effective_bits = bits + 8.0 / 32;
	q->experts_only = true;
}

/* --- which method -------------------------------------------------------------------------------------- */

static const char *method_of(const struct cJSON *doc, const char *side_name)
{
	const char *m = json_str(doc, "quant_method");
	if (m)
		return m;
	if (json_get(doc, "load_in_8bit") || json_get(doc, "load_in_4bit"))
		return "bitsandbytes"; /* before quant_method was written */
	if (json_get(doc, "config_groups"))
		return "compressed-tensors";
	if (json_get(doc, "quant_algo"))
		return "modelopt";
	if (json_get(doc, "w_bit") || (json_str(doc, "version") && json_get(doc, "zero_point")))
		return "awq";
	if (json_get(doc, "desc_act") || (side_name && strcmp(side_name, "quantize_config.json") == 0))
		return "gptq";
	return side_name && strcmp(side_name, "quant_config.json") == 0 ? "awq" : "unknown";
}

static bool is_method(const char *m, const char *const *names)
{
	for (; *names; names++)
		if (strcasecmp(m, *names) == 0)
			return true;
	return false;
}

static int read_one(struct hf_config *c, const struct cJSON *doc, const char *file, const char *side_name)
{
	static const char *const gptq_like[] = { "gptq",        "awq",        "awq_marlin",
		                                 "gptq_marlin", "auto-round", "intel/auto-round",
		                                 "auto_round",  NULL };
	static const char *const fp8_like[] = { "fp8", "fbgemm_fp8", "ptpc_fp8", NULL };
	static const char *const lists[] = { "ignore",         "modules_to_not_convert",
		                             "ignored_layers", "exclude_modules",
		                             "exclude",        "llm_int8_skip_modules" };
	struct hf_quant *q = &c->quant;
	const char *method = method_of(doc, side_name);
	snprintf(q->method, sizeof(q->method), "%s", method);
	snprintf(q->found_in, sizeof(q->found_in), "%s", file);
	if (is_method(method, gptq_like))
		read_gptq_awq(q, doc);
	else if (is_method(method, fp8_like))
		read_fp8(q, doc);
	else if (strcmp(method, "bitsandbytes") == 0)
		read_bitsandbytes(c, doc);
	else if (strcmp(method, "compressed-tensors") == 0 || strcmp(method, "compressed_tensors") == 0)
		read_compressed_tensors(q, doc);
	else if (strncmp(method, "modelopt", 8) == 0)
		read_modelopt(q, doc);
	else if (strcmp(method, "quark") == 0)
		read_quark(q, doc);
	else if (strcmp(method, "mxfp4") == 0)
		read_mx(q, 4);
	else if (strcmp(method, "mxfp8") == 0)
		read_mx(q, 8);
	else
		set_bits(q, doc);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (add_ignored(q, json_get(doc, lists[i])))
			return -1;
	return 0;
}

static void compare_sides(struct hf_config *c, const struct cJSON *side, const char *side_name)
{
	struct hf_config other = { .quant = { .effective_bits = (double)NAN, .act_order = -1 } };
	const struct hf_quant *a = &c->quant, *b = &other.quant;
	if (read_one(&other, side, side_name, side_name) == 0) {
		if (strcmp(a->method, b->method) != 0 && strncmp(a->method, b->method, 8) != 0)
			hf_contradiction(c, side_name, "says %s, config.json says %s", b->method, a->method);
		else if (b->weight_bits && a->weight_bits && a->weight_bits != b->weight_bits)
			hf_contradiction(c, side_name, "says %u bits, config.json says %u", b->weight_bits,
			                 a->weight_bits);
		else if (b->group_size && a->group_size && a->group_size != b->group_size)
			hf_contradiction(c, side_name,
			                 "says groups of %" PRIu64 ", config.json says %" PRIu64,
			                 b->group_size, a->group_size);
		else if (a->act_order >= 0 && b->act_order >= 0 && a->act_order != b->act_order)
			hf_contradiction(c, side_name, "desc_act is not the same as in config.json");
		if (!a->kv_dtype[0] && b->kv_dtype[0])
			memcpy(c->quant.kv_dtype, b->kv_dtype, sizeof(b->kv_dtype));
	}
	hf_config_done(&other);
}

static const struct cJSON *object_at(const struct cJSON *doc, const char *key)
{
	const struct cJSON *q = json_get(doc, key);
	return q && cJSON_IsObject(q) && q->child ? q : NULL;
}

int hf_read_quant(struct hf_config *c, const struct cJSON *doc, const struct cJSON *text,
                  const struct cJSON *side, const char *side_name, struct err *err)
{
	const struct cJSON *q = object_at(doc, "quantization_config");
	if (!q)
		q = object_at(text, "quantization_config");
	if (!q)
		q = object_at(doc, "compression_config");
	const struct cJSON *inner = object_at(side, "quantization");
	if (inner)
		side = inner;
	if (q && read_one(c, q, "config.json", NULL))
		return err_set(err, ERR_ENV, "no memory");
	if (q && side)
		compare_sides(c, side, side_name);
	if (!q && side && read_one(c, side, side_name, side_name))
		return err_set(err, ERR_ENV, "no memory");
	if (!c->quant.method[0] && hf_dtype_bytes(c->dtype))
		c->quant.effective_bits = 8.0 * hf_dtype_bytes(c->dtype);
	return 0;
}
