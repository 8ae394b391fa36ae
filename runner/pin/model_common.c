/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/hash.h"
#include "pin/model_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_type(struct model_facts *f, const char *name, uint64_t elements, uint64_t bytes)
{
	size_t i = 0;
	while (i < f->n_types && strcmp(f->types[i].name, name) != 0)
		i++;
	if (i == MODEL_TYPES_MAX)
		return; /* there are fewer names than that */
	if (i == f->n_types)
		f->types[f->n_types++] = (struct model_type_count){ .name = name };
	f->types[i].n_tensors++;
	f->types[i].n_elements += elements;
	f->types[i].bytes += bytes;
}

static int by_bytes(const void *a, const void *b)
{
	const struct model_type_count *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void wrong(struct model_facts *f, const char *file, const char *what, uint64_t a, uint64_t b)
{
	problem_add(&f->problems, PROBLEM_ERROR, file, "%s: %" PRIu64 " and %" PRIu64, what, a, b);
}

/* "model.layers.12.mlp" with "layers." -> 12. */
static bool layer_number(const char *name, const char *mark, uint64_t *out)
{
	const char *p = strstr(name, mark);
	uint64_t v = 0;
	size_t n = 0;
	if (!p || (p != name && p[-1] != '.'))
		return false;
	for (p += strlen(mark); *p >= '0' && *p <= '9' && n < 9; p++, n++)
		v = 10 * v + (uint64_t)(*p - '0');
	*out = v;
	return n > 0 && *p == '.';
}

/* --- GGUF ---------------------------------------------------------------------------------------------- */

static uint64_t arch_number(const struct gguf *g, const char *key)
{
	uint64_t v;
	return gguf_number(gguf_find_arch(g, key), &v) ? v : MODEL_NONE;
}

static double arch_real(const struct gguf *g, const char *key)
{
	const struct gguf_value *v = gguf_find_arch(g, key);
	return v && !v->is_array && (v->type == GGUF_F32 || v->type == GGUF_F64) ? v->real : (double)NAN;
}

static void text_into(char *out, size_t size, const char *text)
{
	size_t n = text ? strnlen(text, size - 1) : 0; /* longer ones are cut */
	memcpy(out, text ? text : "", n);
	out[n] = '\0';
}

static void name_gguf_type(struct model_facts *f, const struct gguf *g)
{
	uint64_t number;
	if (!gguf_number(gguf_find(g, "general.file_type"), &number))
		return;
	const char *name = gguf_file_type_name(number);
	if (name)
		text_into(f->quantisation, sizeof(f->quantisation), name);
	else
		snprintf(f->quantisation, sizeof(f->quantisation), "type %" PRIu64, number);
}

static void read_shape(struct model_facts *f, const struct gguf *g)
{
	const struct gguf_value *heads = gguf_find_arch(g, "attention.head_count");
	const struct gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
	const char *scaling =
		gguf_find_arch(g, "rope.scaling.type") ? gguf_find_arch(g, "rope.scaling.type")->text : NULL;
	const char *template = gguf_text(g, "tokenizer.chat_template");
	f->n_layers = arch_number(g, "block_count");
	f->embedding = arch_number(g, "embedding_length");
	f->context_tok = arch_number(g, "context_length");
	f->n_experts = arch_number(g, "expert_count");
	f->n_experts_used = arch_number(g, "expert_used_count");
	if (!gguf_number(heads, &f->n_heads))
		f->n_heads = MODEL_NONE;
	f->vocab_tok = tokens && tokens->is_array ? tokens->n : arch_number(g, "vocab_size");
	f->rope_theta = arch_real(g, "rope.freq_base");
	f->rope_factor = arch_real(g, "rope.scaling.factor");
	if (scaling && strcmp(scaling, "none") != 0)
		text_into(f->rope_type, sizeof(f->rope_type), scaling);
	if (template)
		sha256_hex_of(template, strlen(template), f->chat_template_sha256);
}

static void check_gguf(struct model_facts *f, const struct gguf *g, const struct gguf_tensor *t)
{
	uint64_t layer;
	const char *file = f->gguf.parts[0].file;
	if (f->n_layers != MODEL_NONE && layer_number(t->name, "blk.", &layer) && layer >= f->n_layers)
		wrong(f, file, "a tensor is of a layer behind the last (layer, block_count)", layer,
		      f->n_layers);
	if (strcmp(t->name, "token_embd.weight") == 0 && gguf_find(g, "tokenizer.ggml.tokens") &&
	    f->vocab_tok != MODEL_NONE && t->dims[1] != f->vocab_tok)
		wrong(f, file, "tokens in the vocabulary and in the embedding differ", f->vocab_tok,
		      t->dims[1]);
}

void model_facts_from_gguf(struct model_facts *f)
{
	const struct gguf_set *s = &f->gguf;
	const struct gguf *g = &s->parts[0].head;
	struct err why = { 0 };
	bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	f->n_tensors = s->n_tensors;
	f->n_elements = s->n_elements;
	f->tensor_bytes = s->tensor_bytes;
	f->file_bytes = s->file_bytes;
	if (s->parts[0].is_read) {
		text_into(f->architecture, sizeof(f->architecture), gguf_text(g, "general.architecture"));
		text_into(f->name, sizeof(f->name), gguf_text(g, "general.name"));
		name_gguf_type(f, g);
		read_shape(f, g);
		if (gguf_kv_model(&f->gguf_kv, g, &why))
			text_into(f->kv_unknown, sizeof(f->kv_unknown), why.msg);
	} else {
		text_into(f->kv_unknown, sizeof(f->kv_unknown), "the first part was not read");
	}
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct gguf *h = &s->parts[i].head;
		f->usable_here = s->parts[i].is_read ? h->big_endian == host_is_big : f->usable_here;
		for (size_t k = 0; k < h->n_tensors; k++) {
			add_type(f, gguf_type_name(h->tensors[k].type), h->tensors[k].n_elements,
			         h->tensors[k].bytes);
			check_gguf(f, g, &h->tensors[k]);
		}
	}
	qsort(f->types, f->n_types, sizeof(*f->types), by_bytes);
	if (!f->usable_here)
		problem_add(&f->problems, PROBLEM_ERROR, s->parts[0].file,
		            "is in the other byte order (%s-endian): no engine on this machine loads it",
		            host_is_big ? "little" : "big");
	text_into(f->kv_dtype, sizeof(f->kv_dtype), "as the model (16 bit)");
	if (f->n_elements && s->problems.n_errors == 0) {
		f->n_parameters = f->n_elements;
		f->bits_per_weight = 8.0 * (double)f->tensor_bytes / (double)f->n_elements;
	}
}

/* --- safetensors --------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

static bool is_quantised(const struct st_tensor *t)
{
	static const char *const ends[] = { ".qweight", ".weight_packed", "_blocks", ".weight_scale_inv" };
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ends_with(t->name, ends[i]))
			return true;
	return ends_with(t->name, ".weight") && t->n_dims >= 2 && st_dtype_bits(t->dtype) <= 8;
}

struct seen {
	uint64_t n_quantised, layers; /* 1 + the highest number */
};

static void check_tensor(struct model_facts *f, const struct st_tensor *t, struct seen *seen)
{
	uint64_t layer;
	seen->n_quantised += is_quantised(t);
	if (strncmp(t->name, "model.layers.", 13) == 0 && layer_number(t->name, "layers.", &layer) &&
	    layer >= seen->layers)
		seen->layers = layer + 1;
	if (strcmp(t->name, "model.embed_tokens.weight") == 0 && f->config.vocab_tok != HF_NONE &&
	    t->n_dims == 2 && t->first_dim != f->config.vocab_tok)
		wrong(f, "config.json", "vocab_size and the rows of the embedding differ",
		      f->config.vocab_tok, t->first_dim);
}

static void check_against_config(struct model_facts *f, const struct seen *seen)
{
	const struct hf_config *c = &f->config;
	bool whole = f->st.problems.n_errors == 0, quantised = c->quant.method[0] != '\0';
	if (!quantised && seen->n_quantised)
		problem_add(&f->problems, PROBLEM_ERROR, "config.json",
		            "names no quantisation, but %" PRIu64 " tensors are quantised",
		            seen->n_quantised);
	if (quantised && whole && f->n_tensors && !seen->n_quantised &&
	    strcmp(c->quant.method, "bitsandbytes") != 0)
		problem_add(&f->problems, PROBLEM_ERROR, c->quant.found_in,
		            "says %s, but no tensor is quantised", c->quant.method);
	if (whole && seen->layers && c->n_layers != HF_NONE && seen->layers < c->n_layers)
		wrong(f, "config.json", "num_hidden_layers and the layers in the tensors differ", c->n_layers,
		      seen->layers);
	if (!quantised && whole && c->n_parameters != HF_NONE &&
	    fabs((double)c->n_parameters - (double)f->n_elements) > .02 * (double)c->n_parameters)
		problem_add(&f->problems, PROBLEM_WARNING, "config.json",
		            "makes %" PRIu64 " parameters, the tensors hold %" PRIu64, c->n_parameters,
		            f->n_elements);
}

static void from_config(struct model_facts *f)
{
	const struct hf_config *c = &f->config;
	text_into(f->architecture, sizeof(f->architecture),
	          c->architecture[0] ? c->architecture : c->model_type);
	text_into(f->quantisation, sizeof(f->quantisation), c->quant.method[0] ? c->quant.method : c->dtype);
	hf_kv_dtype_words(f->kv_dtype, sizeof(f->kv_dtype), c);
	f->n_layers = c->n_layers;
	f->embedding = c->hidden;
	f->n_heads = c->n_heads;
	f->context_tok = c->context_tok;
	f->vocab_tok = c->vocab_tok;
	f->n_experts = c->n_experts;
	f->n_experts_used = c->n_experts_used;
	f->rope_theta = c->rope_theta;
	f->rope_factor = c->rope_factor;
	memcpy(f->rope_type, c->rope_type, sizeof(f->rope_type));
	memcpy(f->kv_unknown, c->kv_unknown, sizeof(f->kv_unknown));
	f->n_parameters = c->n_parameters;
}

void model_facts_from_st(struct model_facts *f)
{
	const struct st_set *s = &f->st;
	struct seen seen = { 0 };
	f->usable_here = true; /* engines swap bytes where they have to */
	f->n_tensors = s->n_tensors;
	f->n_elements = s->n_elements;
	f->tensor_bytes = s->tensor_bytes;
	f->file_bytes = s->file_bytes;
	if (f->has_config)
		from_config(f);
	else
		text_into(f->kv_unknown, sizeof(f->kv_unknown), "there is no config.json");
	for (size_t i = 0; i < s->n_shards; i++)
		for (size_t k = 0; k < s->shards[i].head.n_tensors; k++) {
			const struct st_tensor *t = &s->shards[i].head.tensors[k];
			add_type(f, st_dtype_name(t->dtype), t->n_elements, t->end - t->begin);
			if (f->has_config)
				check_tensor(f, t, &seen);
		}
	qsort(f->types, f->n_types, sizeof(*f->types), by_bytes);
	if (f->has_config)
		check_against_config(f, &seen);
	if (f->n_parameters == MODEL_NONE && f->has_config && !f->config.quant.method[0] && !seen.n_quantised)
		f->n_parameters = f->n_elements;
	if (f->n_parameters != MODEL_NONE && f->n_parameters && s->problems.n_errors == 0)
		f->bits_per_weight = 8.0 * (double)f->tensor_bytes / (double)f->n_parameters;
}
