/* SPDX-License-Identifier: Apache-2.0 */
/* Kind model-config. Every input.NAME/ holds config.json and its side files; what all of them have in common
 * (counts of parameters) is told at the top too. An input.NAME.json is a config.json alone. */
#include "model_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void put_quant(struct json_out *o, const struct hf_config *c)
{
	const struct hf_quant *q = &c->quant;
	char kv[40];
	unsigned dtype = hf_dtype_bytes(c->dtype);
	uint64_t bits = q->method[0] ? q->weight_bits : 8 * dtype;
	jo_str(o, "method", q->method[0] ? q->method : NULL);
	put_known(o, "weight_bits", bits ? bits : UINT64_MAX);
	put_known(o, "group_size", q->group_size ? q->group_size : UINT64_MAX);
	jo_num(o, "effective_bits", q->effective_bits);
	jo_str(o, "found_in", q->method[0] ? q->found_in : NULL);
	if (q->act_order < 0)
		jo_null(o, "act_order");
	else
		jo_bool(o, "act_order", q->act_order);
	if (q->block_rows) {
		jo_arr(o, "block");
		jo_u64(o, NULL, q->block_rows);
		jo_u64(o, NULL, q->block_columns);
		jo_end_arr(o);
	}
	jo_arr(o, "not_quantized");
	for (size_t i = 0; i < q->n_ignored; i++)
		jo_str(o, NULL, q->ignored[i]);
	jo_end_arr(o);
	hf_kv_dtype_words(kv, sizeof(kv), c);
	jo_str(o, "kv_dtype", kv);
}

static void put_counts(struct json_out *o, const struct hf_config *c)
{
	put_known(o, "parameters", c->n_parameters);
	put_known(o, "active_parameters", c->n_active);
	put_known(o, "linear_parameters", c->n_linear);
	put_known(o, "embed_plus_head_parameters", c->n_embed_head);
}

static void put_shape(struct json_out *o, const struct hf_config *c)
{
	jo_str(o, "model_type", c->model_type[0] ? c->model_type : NULL);
	jo_str(o, "architecture", c->architecture[0] ? c->architecture : NULL);
	jo_str(o, "dtype", c->dtype[0] ? c->dtype : NULL);
	put_known(o, "layers", c->n_layers);
	put_known(o, "hidden_size", c->hidden);
	put_known(o, "heads", c->n_heads);
	put_known(o, "vocab_size", c->vocab_tok);
	put_known(o, "context_length", c->context_tok);
	put_known(o, "experts", c->n_experts);
	jo_num(o, "rope_theta", c->rope_theta);
	jo_str(o, "rope_scaling", c->rope_type[0] ? c->rope_type : NULL);
	jo_num(o, "rope_factor", c->rope_factor);
	if (c->tied < 0)
		jo_null(o, "tied_embeddings");
	else
		jo_bool(o, "tied_embeddings", c->tied);
}

static void put_problems(struct json_out *o, const struct hf_config *c)
{
	jo_arr(o, "contradictions");
	for (size_t i = 0; i < c->problems.n; i++) {
		auto_free char *text =
			str_fmt("%s: %s", c->problems.list[i].pointer, c->problems.list[i].text);
		jo_str(o, NULL, text);
	}
	jo_end_arr(o);
}

static void put_config(struct json_out *o, const struct hf_config *c)
{
	jo_str(o, "status", c->problems.n_errors ? "error" : "ok");
	if (c->problems.n_errors)
		jo_str(o, "reason", c->problems.list[0].text);
	put_quant(o, c);
	put_counts(o, c);
	put_known(o, "weight_bytes", c->weight_bytes);
	jo_num(o, "weight_gib",
	       c->weight_bytes == HF_NONE ? (double)NAN
	                                  : round((double)c->weight_bytes / (1 << 30) * 100) / 100);
	put_shape(o, c);
	put_problems(o, c);
	jo_obj(o, "kv");
	put_config_kv(o, c);
	jo_end(o);
}

static int read_input(struct hf_config *out, const struct case_dir *c, const struct case_input *in,
                      struct err *err)
{
	struct stat st;
	auto_free char *path = case_path(c, in);
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_json doc = NULL;
	if (!path || stat(path, &st))
		return err_set(err, ERR_ENV, "%s: is not there", in->file);
	if (S_ISDIR(st.st_mode))
		return hf_config_read(out, path, err);
	if (case_read_file(&text, c, in, err) ||
	    json_parse(&doc, text.p ? text.p : "", text.len, in->file, JSON_ENGINE, NULL, err))
		return -1;
	return hf_config_parse(out, doc, NULL, NULL, err);
}

int read_model_config_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	bool same = true, first = true, plain = false;
	struct hf_config common = { 0 };
	for (size_t i = 0; i < c->n_inputs; i++) {
		const char *name = case_name(c, &c->inputs[i]);
		struct hf_config one;
		struct err why = { 0 };
		if (name[0])
			jo_obj(o, name);
		plain = plain || !name[0];
		if (read_input(&one, c, &c->inputs[i], &why)) {
			case_put_error(o, &why);
		} else {
			put_config(o, &one);
			same = same && (first || one.n_parameters == common.n_parameters);
			if (first)
				common = (struct hf_config){ .n_parameters = one.n_parameters,
					                     .n_active = one.n_active,
					                     .n_linear = one.n_linear,
					                     .n_embed_head = one.n_embed_head };
			first = false;
			hf_config_done(&one);
		}
		if (name[0])
			jo_end(o);
	}
	if (same && !first && !plain)
		put_counts(o, &common);
	return 0;
}
