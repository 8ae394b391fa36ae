/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of GGUF files, versions 2 and 3, both byte orders: metadata and the list of tensors, never their
 * data. Everything a file says is hostile: what is kept was read from it byte by byte (a count alone never
 * allocates), and sizes are checked for overflow and against the file. The rules are those of ggml's own
 * reader: a file that we refuse is one that an engine refuses. */
#ifndef PIN_GGUF_H
#define PIN_GGUF_H

#include "base/err.h"
#include "base/problems.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64
};

#define GGUF_DIMS_MAX 4
#define GGUF_N_TYPES 42 /* numbers of tensor types are below */
#define GGUF_PARTS_MAX 4096

struct gguf_value {
	char *key;
	enum gguf_type type; /* of the elements, for an array */
	bool is_array;
	uint64_t n;      /* elements; 1 for a scalar */
	size_t n_kept;   /* whole numbers of an array in `list`: n, or 0 when it is long or of another type */
	uint64_t *list;  /* two's complement for signed types */
	uint64_t number; /* scalar whole number or bool */
	double real;     /* scalar F32, F64 */
	char *text;      /* scalar string, NUL-terminated, NULL when longer than 64 KiB or not a string */
	uint64_t text_bytes;
};

struct gguf_tensor {
	char *name;
	uint32_t type; /* ggml's number; gguf_type_name */
	uint32_t n_dims;
	uint64_t dims[GGUF_DIMS_MAX];
	uint64_t n_elements, bytes; /* without padding */
	uint64_t offset;            /* from data_offset */
};

struct gguf {
	uint32_t version;
	bool big_endian;
	uint64_t file_bytes, header_bytes; /* header: all before the padding in front of the data */
	uint64_t data_offset, alignment_bytes;
	uint64_t n_elements, tensor_bytes; /* sums */
	uint64_t trailing_bytes;           /* behind the last tensor and its padding */
	size_t n_values, n_tensors;
	struct gguf_value *values;   /* sorted by key */
	struct gguf_tensor *tensors; /* in the order of the file */
};

/* ERR_ENV when the file cannot be read, ERR_PLAN when it is no GGUF file, of a version we do not read,
 * damaged, or shorter than its header says. */
warn_unused int gguf_read(struct gguf *out, const char *path, struct err *err);
void gguf_done(struct gguf *g); /* accepts zeroed */

/* NULL when the file does not say. gguf_find_arch looks for "ARCHITECTURE.key". */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const struct gguf_value *gguf_find_arch(const struct gguf *g, const char *key);
const char *gguf_text(const struct gguf *g, const char *key);
/* A scalar whole number that is not negative (or bool), of any width. */
bool gguf_number(const struct gguf_value *v, uint64_t *out);

/* "Q4_K"; NULL for a number that we do not know. Values and bytes of a block; false when not known. */
const char *gguf_type_name(uint32_t type);
bool gguf_type_block(uint32_t type, uint32_t *n_values, uint32_t *n_bytes);
/* general.file_type in words: "Q4_K_M", NULL when not known. */
const char *gguf_file_type_name(uint64_t number);

/* --- sets: PREFIX-00001-of-00003.gguf ------------------------------------------------------------------ */

struct gguf_part {
	char *file; /* name without folder */
	char *path;
	bool is_read; /* head is filled; else missing or damaged: a problem says so */
	bool is_missing;
	struct gguf head;
};

/* A file alone is a set of one. Totals are of the parts that were read. */
struct gguf_set {
	size_t n_parts, n_missing;
	struct gguf_part *parts; /* in order; parts[0] has the metadata of the model */
	uint64_t n_tensors, n_elements, tensor_bytes, file_bytes;
	struct problems
		problems; /* pointer = file name; an error: no engine loads it, or loads only a piece */
};

/* Any part may be given: the set is found by its name. -1 only when the given file itself cannot be read or
 * has a damaged header. */
warn_unused int gguf_set_read(struct gguf_set *out, const char *path, struct err *err);
void gguf_set_done(struct gguf_set *s);
/* By their names alone. */
bool gguf_same_set(const char *file, const char *other);

struct kv_model;
/* The model's KV layers (kv_model_done). ERR_PLAN with the reason when the header does not tell enough. */
warn_unused int gguf_kv_model(struct kv_model *out, const struct gguf *g, struct err *err);

#endif
