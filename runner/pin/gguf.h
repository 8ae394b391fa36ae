/* SPDX-License-Identifier: Apache-2.0 */
/* What the header of a GGUF file says about the model, for `proofmark init`. Versions 1 to 3, both byte
 * orders. Reads the metadata only, never a tensor; bounded in bytes and steps whatever the counts claim. */
#ifndef PIN_GGUF_H
#define PIN_GGUF_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct gguf_info {
	uint32_t version;
	bool big_endian;
	uint64_t n_tensors, n_metadata;
	char architecture[64]; /* general.architecture; "" = not told, as below */
	char name[256];        /* general.name */
	char file_type[16];    /* general.file_type in words: "Q4_1"; "type 99" for one we do not know */
	bool has_context;
	uint64_t context_tok; /* ARCHITECTURE.context_length */
	bool has_split;
	uint64_t split_count; /* split.count: more than 1 = a part of a set */
};

/* ERR_ENV when the file cannot be read, ERR_PLAN when it is no GGUF file or its header is damaged. */
warn_unused int gguf_read(struct gguf_info *out, const char *path, struct err *err);

#endif
