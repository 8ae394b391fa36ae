/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/model_facts.h"

#include <math.h>
#include <string.h>

static void put_text(struct json_out *o, const char *key, const char *text)
{
	jo_str(o, key, text[0] ? text : NULL);
}

static void put_types(struct json_out *o, const struct model_facts *f)
{
	jo_arr(o, "types");
	for (size_t i = 0; i < f->n_types; i++) {
		jo_obj(o, NULL);
		jo_str(o, "type", f->types[i].name);
		jo_u64(o, "n_tensors", f->types[i].n_tensors);
		jo_u64(o, "n_values", f->types[i].n_elements);
		jo_u64(o, "bytes", f->types[i].bytes);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_quant(struct json_out *o, const struct hf_quant *q)
{
	if (!q->method[0]) {
		jo_null(o, "quantisation");
		return;
	}
	jo_obj(o, "quantisation");
	jo_str(o, "method", q->method);
	jo_str(o, "found_in", q->found_in);
	jo_opt_u64(o, "weight_bits", q->weight_bits ? q->weight_bits : MODEL_NONE);
	jo_opt_u64(o, "group_size", q->group_size ? q->group_size : MODEL_NONE);
	jo_num(o, "effective_bits", q->effective_bits);
	put_text(o, "kv_dtype", q->kv_dtype);
	jo_arr(o, "not_quantised");
	for (size_t i = 0; i < q->n_ignored; i++)
		jo_str(o, NULL, q->ignored[i]);
	jo_end_arr(o);
	jo_end(o);
}

static void put_kv(struct json_out *o, const struct model_facts *f)
{
	static const uint64_t contexts[] = { 1024, 8192, 131072 };
	const struct kv_width w = { 1, 2 };
	const struct kv_model *kv = model_kv(f);
	uint64_t n;
	if (!kv) {
		jo_null(o, "kv");
		put_text(o, "kv_unknown", f->kv_unknown);
		return;
	}
	jo_obj(o, "kv");
	jo_str(o, "dtype", f->kv_dtype);
	jo_u64(o, "n_full_layers", kv_count(kv, KV_LAYER_FULL));
	jo_u64(o, "n_window_layers", kv_count(kv, KV_LAYER_WINDOW));
	jo_u64(o, "n_latent_layers", kv_count(kv, KV_LAYER_LATENT));
	jo_u64(o, "n_state_layers", kv_count(kv, KV_LAYER_STATE));
	jo_opt_u64(o, "window_tok", kv_common_window(kv));
	jo_opt_u64(o, "bytes_per_tok_16bit", kv_bytes(&n, kv, 1, w, w, 1) ? n : MODEL_NONE);
	jo_opt_u64(o, "state_values_per_sequence", kv_state_values(&n, kv) ? n : MODEL_NONE);
	jo_arr(o, "bytes_16bit");
	for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
		jo_obj(o, NULL);
		jo_u64(o, "context_tok", contexts[i]);
		jo_opt_u64(o, "bytes", kv_bytes(&n, kv, contexts[i], w, w, 1) ? n : MODEL_NONE);
		jo_end(o);
	}
	jo_end_arr(o);
	jo_end(o);
}

static void put_files(struct json_out *o, const struct model_facts *f)
{
	jo_arr(o, "files");
	for (size_t i = 0; i < f->n_files; i++) {
		const struct model_file *m = &f->files[i];
		jo_obj(o, NULL);
		jo_str(o, "name", m->name);
		jo_str(o, "role", model_role_word(m->role));
		jo_u64(o, "bytes", m->bytes);
		put_text(o, "sha256", m->sha256);
		if (m->is_lfs_pointer)
			jo_bool(o, "lfs_pointer", true);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_revision(struct json_out *o, const struct model_revision *r)
{
	if (!r->source[0]) {
		jo_null(o, "revision");
		return;
	}
	jo_obj(o, "revision");
	jo_str(o, "source", r->source);
	put_text(o, "repository", r->repository);
	jo_str(o, "commit", r->commit);
	jo_end(o);
}

static void put_defaults(struct json_out *o, const struct hf_config *c)
{
	jo_obj(o, "class_defaults");
	for (size_t i = 0; i < c->n_defaults; i++)
		jo_u64(o, c->defaults[i].key, c->defaults[i].value);
	jo_end(o);
}

static void put_problems(struct json_out *o, const struct problems *p)
{
	jo_arr(o, "problems");
	for (size_t i = 0; i < p->n; i++) {
		jo_obj(o, NULL);
		jo_str(o, "kind", p->list[i].kind == PROBLEM_ERROR ? "error" : "warning");
		put_text(o, "file", p->list[i].pointer);
		jo_str(o, "text", p->list[i].text);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_shape(struct json_out *o, const struct model_facts *f)
{
	jo_opt_u64(o, "n_layers", f->n_layers);
	jo_opt_u64(o, "embedding_values", f->embedding);
	jo_opt_u64(o, "n_heads", f->n_heads);
	jo_opt_u64(o, "context_tok", f->context_tok);
	jo_opt_u64(o, "vocab_tok", f->vocab_tok);
	jo_opt_u64(o, "n_experts", f->n_experts);
	jo_opt_u64(o, "n_experts_used", f->n_experts_used);
	jo_num(o, "rope_theta", f->rope_theta);
	put_text(o, "rope_scaling", f->rope_type);
	jo_num(o, "rope_factor", f->rope_factor);
}

void model_facts_json(struct json_out *o, const char *key, const struct model_facts *f)
{
	const struct gguf *g = f->format == MODEL_GGUF && f->gguf.n_parts ? &f->gguf.parts[0].head : NULL;
	jo_obj(o, key);
	jo_str(o, "format", g ? "gguf" : "safetensors");
	if (g && g->version) {
		jo_u64(o, "gguf_version", g->version);
		jo_str(o, "byte_order", g->big_endian ? "big" : "little");
	}
	put_text(o, "name", f->name);
	put_text(o, "architecture", f->architecture);
	put_text(o, "type", f->quantisation);
	jo_u64(o, "n_tensors", f->n_tensors);
	jo_u64(o, "tensor_bytes", f->tensor_bytes);
	jo_u64(o, "file_bytes", f->file_bytes);
	jo_opt_u64(o, "n_parameters", f->n_parameters);
	jo_num(o, "bits_per_weight", f->bits_per_weight);
	put_types(o, f);
	put_shape(o, f);
	put_text(o, "chat_template_sha256", f->chat_template_sha256);
	if (f->has_config) {
		put_quant(o, &f->config.quant);
		jo_opt_u64(o, "n_active_parameters", f->config.n_active);
		jo_opt_u64(o, "config_weight_bytes", f->config.weight_bytes);
		put_defaults(o, &f->config);
	}
	put_kv(o, f);
	put_files(o, f);
	put_revision(o, &f->revision);
	jo_bool(o, "usable_here", f->usable_here);
	jo_u64(o, "n_errors", f->problems.n_errors);
	put_problems(o, &f->problems);
	jo_end(o);
}
