/* SPDX-License-Identifier: Apache-2.0 */
/* What `proofmark init` can learn by itself: from a model on disk and from a server that runs. */
#ifndef CLI_INIT_FACTS_H
#define CLI_INIT_FACTS_H

#include "base/err.h"
#include "model/plan.h"
#include "pin/pin_model.h"

struct init_facts { /* each NULL or 0 = not known. Owned (init_facts_done). */
	char *id, *dtype, *quantization;
	const char *format; /* "gguf", "safetensors"; static */
	uint64_t context_tok;
	struct pin_files files;
	char *url; /* of the running server */
	char *engine_version, *engine_commit;
	uint64_t slots;
};
void init_facts_done(struct init_facts *f);

/* `path`: a GGUF file (also the first of a split set) or a folder with config.json and safetensors. Hashes
 * every file. ERR_PLAN when it is no model we can read, ERR_ENV when a file cannot be read. */
warn_unused int init_from_model(struct init_facts *f, const char *path, struct err *err);
/* Asks the server (llama.cpp's /props, /v1/models). When it names a model file that is on this machine and
 * none is known yet, that file is read as by init_from_model. ERR_ENV when nobody answers. */
warn_unused int init_from_url(struct init_facts *f, const char *url, struct err *err);

struct gguf_facts { /* each NULL or 0 = not told; owned by the caller */
	char *name, *architecture;
	const char *quantization; /* static */
	uint64_t context_tok;
};
/* The metadata of a GGUF file, versions 1 to 3, either byte order; tensors are not read. ERR_PLAN when it is
 * none. */
warn_unused int init_read_gguf(struct gguf_facts *out, const char *path, struct err *err);

#endif
