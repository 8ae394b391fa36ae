/* SPDX-License-Identifier: Apache-2.0 */
/* One entry point for everything that a model's files say about it: GGUF files and split sets, folders of
 * safetensors with Hugging Face configs. Reads headers and small files, never the weights: hashing them is
 * model_identity (model_sign.h). Numbers: MODEL_NONE or NaN = not told, never 0. */
#ifndef PIN_MODEL_FACTS_H
#define PIN_MODEL_FACTS_H

#include "base/err.h"
#include "base/json_out.h"
#include "base/problems.h"
#include "pin/gguf.h"
#include "pin/hf_config.h"
#include "pin/safetensors.h"

#define MODEL_NONE UINT64_MAX
enum { MODEL_TYPES_MAX = 64 };

enum model_format { MODEL_GGUF, MODEL_SAFETENSORS };

/* Tensors of one type. */
struct model_type_count {
	const char *name; /* "Q4_K", "BF16" */
	uint64_t n_tensors, n_elements, bytes;
};

enum model_role { MODEL_WEIGHTS, MODEL_CONFIG, MODEL_TOKENIZER, MODEL_SIGNATURE, MODEL_OTHER };

struct model_file {
	char *name; /* in the folder */
	enum model_role role;
	uint64_t bytes;
	char sha256[65]; /* of configs and tokenizer files up to 64 MiB; "" = not hashed */
	bool is_lfs_pointer;
};

/* Where the files come from, as the folder tells (nothing of it is proven; the hashes are). */
struct model_revision {
	char source[24];      /* "hub snapshot", "hub download", "git checkout"; "" = not told */
	char repository[256]; /* "org/name"; "" = not told */
	char commit[65];
};

struct model_facts {
	enum model_format format;
	char *path; /* as given */
	char *dir;
	/* One of both, as `format` says. */
	struct gguf_set gguf;
	struct st_set st;
	bool has_config; /* config.json was read */
	struct hf_config config;

	char name[256], architecture[96], quantisation[64]; /* "Q4_K_M", "awq", "bfloat16"; "" = not told */
	char kv_dtype[40];                                  /* "as the model (16 bit)" */
	uint64_t n_tensors, n_elements, tensor_bytes, file_bytes;
	size_t n_types;
	struct model_type_count types[MODEL_TYPES_MAX]; /* by bytes, largest first */
	double bits_per_weight; /* from the tensors that are there; NaN = the number of weights is not known
	                         */
	uint64_t n_parameters;  /* GGUF: elements; else by the config's shape or, unquantised, elements */
	uint64_t n_layers, embedding, n_heads, context_tok, vocab_tok, n_experts, n_experts_used;
	double rope_theta, rope_factor;
	char rope_type[24];
	char chat_template_sha256[65]; /* of the text; "" = none found */
	bool usable_here;              /* byte order of this machine */
	struct kv_model gguf_kv;       /* see model_kv */
	char kv_unknown[256];          /* why model_kv is NULL */

	size_t n_files;
	struct model_file *files; /* sorted by name; of a lone file, only it (or its set) */
	struct model_revision revision;
	struct problems problems; /* pointer = file; an error: these are not the weights that were published,
	                             or the files contradict each other */
};

/* `path`: a .gguf file (any part of a set), a .safetensors file, or a folder. ERR_ENV: cannot be read;
 * ERR_PLAN: no model in it, several, or the one file given is damaged. A folder with damaged or missing parts
 * is read as far as it goes, and `problems` has errors. */
warn_unused int model_inspect(struct model_facts *out, const char *path, struct err *err);
void model_facts_done(struct model_facts *f); /* accepts zeroed */
/* The model's KV layers, NULL = unknown. Lives as long as `f`. */
const struct kv_model *model_kv(const struct model_facts *f);
/* One object; `key` NULL at the top. */
void model_facts_json(struct json_out *o, const char *key, const struct model_facts *f);

const char *model_role_word(enum model_role role);
enum model_role model_role_of(const char *file);
/* From the place of the folder; leaves zeros when nothing tells. */
void model_revision_read(struct model_revision *out, const char *dir, struct problems *problems);

#endif
