/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of safetensors files, and sets of them with an index. The header is read by a parser of its own
 * that keeps no tree: memory follows the tensors that are really there. The rules are those of the reference
 * library (offsets follow each other without gap or overlap and fill the file), and stricter in one: a name
 * given twice is an error. */
#ifndef PIN_SAFETENSORS_H
#define PIN_SAFETENSORS_H

#include "base/err.h"
#include "base/problems.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ST_HEADER_BYTES_MAX 100000000u
#define ST_DIMS_MAX 32

enum st_dtype {
	ST_BOOL,
	ST_F4,
	ST_F6_E2M3,
	ST_F6_E3M2,
	ST_U8,
	ST_I8,
	ST_F8_E5M2,
	ST_F8_E4M3,
	ST_F8_E8M0,
	ST_F8_E4M3FNUZ,
	ST_F8_E5M2FNUZ,
	ST_I16,
	ST_U16,
	ST_F16,
	ST_BF16,
	ST_I32,
	ST_U32,
	ST_F32,
	ST_C64,
	ST_F64,
	ST_I64,
	ST_U64,
	ST_N_DTYPES
};
const char *st_dtype_name(enum st_dtype t);
unsigned st_dtype_bits(enum st_dtype t);

struct st_tensor {
	char *name;
	enum st_dtype dtype;
	uint32_t n_dims;
	uint64_t n_elements;
	uint64_t begin, end;          /* bytes of the data part */
	uint64_t first_dim, last_dim; /* 0 for a scalar */
};

struct safetensors {
	uint64_t file_bytes, header_bytes; /* header: without its length field */
	uint64_t n_elements, tensor_bytes;
	size_t n_tensors;
	struct st_tensor *tensors; /* sorted by name */
	char format[16];           /* __metadata__.format: "pt"; "" = not told */
};

/* ERR_ENV when the file cannot be read, ERR_PLAN when it is damaged, cut off or no safetensors file. */
warn_unused int safetensors_read(struct safetensors *out, const char *path, struct err *err);
/* The header alone (`text` of `len` bytes) of a file with `data_bytes` behind it. */
warn_unused int safetensors_parse(struct safetensors *out, const char *text, size_t len, uint64_t data_bytes,
                                  const char *name, struct err *err);
void safetensors_done(struct safetensors *s); /* accepts zeroed */
const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name);

/* --- sets ---------------------------------------------------------------------------------------------- */

struct st_names {
	size_t n, room;
	char **list;
};

struct st_shard {
	char *file; /* relative to the folder */
	bool is_read;
	struct safetensors head;
};

/* Lists are sorted; each entry is told in `problems` too. */
struct st_set {
	bool has_index;
	size_t n_shards;
	struct st_shard *shards; /* that count: named by the index, in the folder and there; sorted by file */
	uint64_t n_tensors, n_elements, tensor_bytes, file_bytes; /* of the shards that were read */
	uint64_t index_total_bytes; /* metadata.total_size; UINT64_MAX = not told */
	struct st_names missing_files;
	struct st_names misplaced_tensors; /* in the index, not in their shard */
	struct st_names outside_files;     /* named by the index, outside of the folder: never opened */
	struct st_names unindexed_files;   /* in the folder, not in the index: not counted */
	struct st_names unindexed_tensors; /* in a shard, not in the index */
	struct problems problems; /* pointer = file name; an error: not the model that was published */
};

/* The weights of a model folder: model.safetensors.index.json (or another *.safetensors.index.json) with its
 * shards, else model.safetensors, else every *.safetensors that is there. -1 with ERR_PLAN when there is
 * none, ERR_ENV when the folder cannot be read. Damaged files are problems. */
warn_unused int st_set_read(struct st_set *out, const char *dir, struct err *err);
/* One file as a set. */
warn_unused int st_set_of_file(struct st_set *out, const char *path, struct err *err);
void st_set_done(struct st_set *s);

#endif
