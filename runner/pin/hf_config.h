/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON files of a Hugging Face model folder say: shape, quantisation, KV layers. They are read
 * leniently (NaN, Infinity, unknown members), and nothing that they leave out is guessed: a default of the
 * model's class is used only where it is known here, and told. Numbers: HF_NONE = not told. */
#ifndef PIN_HF_CONFIG_H
#define PIN_HF_CONFIG_H

#include "base/err.h"
#include "base/problems.h"
#include "model/kv_size.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

#define HF_NONE UINT64_MAX
enum { HF_DEFAULTS_MAX = 16 };

struct hf_quant {
	char method[64];      /* "awq", "modelopt NVFP4"; "" = not quantised */
	char found_in[32];    /* "config.json", "quantize_config.json", "hf_quant_config.json" */
	uint32_t weight_bits; /* 0 = not told, or several */
	uint64_t group_size;  /* values a scale; 0 = none or not told */
	uint64_t block_rows, block_columns; /* 0 = no blocks */
	double effective_bits;              /* a weight, with scales and zero points; NaN = unknown */
	int act_order;                      /* 1, 0, -1 = not told */
	char kv_dtype[16];                  /* "fp8"; "" = as the model */
	bool head_too;                      /* the output layer is quantised */
	bool experts_only;                  /* of a mixture of experts */
	size_t n_ignored;
	char **ignored; /* modules that stay as they are: names, globs, or "re:" expressions */
};

struct hf_default { /* of the model's class */
	const char *key;
	uint64_t value;
};

struct hf_config {
	char model_type[64], architecture[96];
	char dtype[16]; /* "bfloat16"; of what is not quantised */
	uint64_t n_layers, hidden, intermediate, n_heads, n_kv_heads, head_dim, vocab_tok, context_tok;
	uint64_t n_experts, n_experts_used;
	uint64_t window_tok;            /* in use; HF_NONE = none */
	double rope_theta, rope_factor; /* NaN = not told */
	char rope_type[24];             /* of a scaling; "" = none */
	int tied;                       /* output layer = embedding; 1, 0, -1 = not told */
	struct hf_quant quant;
	size_t n_defaults;
	struct hf_default defaults[HF_DEFAULTS_MAX];
	struct kv_model kv; /* no layers: unknown, see kv_unknown */
	char kv_unknown[256];
	/* Counted from the shape, for classes known here; HF_NONE else. `linear`: inside of the layers. */
	uint64_t n_parameters, n_linear, n_embed_head;
	uint64_t n_active;        /* parameters that one token uses: all, or those of its experts */
	uint64_t weight_bytes;    /* with the quantisation, without padding and index data */
	struct problems problems; /* contradictions; pointer = file name */
};

/* `side`: the parsed quantize_config.json, quant_config.json or hf_quant_config.json, or NULL. */
warn_unused int hf_config_parse(struct hf_config *out, const struct cJSON *doc, const struct cJSON *side,
                                const char *side_name, struct err *err);
/* config.json of a folder, with its side files. ERR_ENV when it cannot be read, ERR_PLAN when it is no JSON
 * object. */
warn_unused int hf_config_read(struct hf_config *out, const char *dir, struct err *err);
void hf_config_done(struct hf_config *c);

/* A JSON file of a folder as such files are written; *out NULL when there is none. */
warn_unused int hf_json_read(struct cJSON **out, const char *dir, const char *file, struct err *err);

/* Bytes of a value of that dtype, 0 = not known. */
unsigned hf_dtype_bytes(const char *dtype);
/* "as the model (16 bit)" or the dtype of the KV cache that the quantisation asks for. */
void hf_kv_dtype_words(char *out, size_t size, const struct hf_config *c);

#endif
