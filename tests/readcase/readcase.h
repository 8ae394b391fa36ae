/* SPDX-License-Identifier: Apache-2.0 */
/* readcase CASE_DIR: prints what the product reads from an input case, as one JSON object. One file a kind;
 * adding one = kind_x.c here, a line in `kinds` (readcase.c) and one in tests/meson.build. A kind decides by
 * file names and content what to read, never by the case's id, and cannot see what is expected. */
#ifndef TESTS_READCASE_H
#define TESTS_READCASE_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_in.h"
#include "base/json_out.h"

#define CASE_FILE_BYTES_MAX (64u << 20)

struct case_input {
	char *file; /* "input.a.reads.json", as in case.json; a folder of files has no slash at its end */
	char *name; /* between "input." and the last dot: "a.reads"; "" for input.json */
	char *ext;  /* behind the last dot: "json" */
};

struct case_dir {
	char *path;
	char *kind;
	size_t n_inputs;
	struct case_input *inputs; /* in the order of case.json */
};

struct case_kind {
	const char *kind;
	/* Adds members to the object that is open in `o`. -1 when the case itself cannot be read. */
	int (*read)(const struct case_dir *c, struct json_out *o, struct err *err);
};

/* The input with that name and extension, or NULL. */
const struct case_input *case_find(const struct case_dir *c, const char *name, const char *ext);
/* malloc'd path of an input. */
char *case_path(const struct case_dir *c, const struct case_input *in);
warn_unused int case_read_file(struct buf *out, const struct case_dir *c, const struct case_input *in,
                               struct err *err);
/* What an input is called in the answer: "input.fp8/" (a folder) is "fp8", "input.d/" and input.gguf are "".
 */
const char *case_name(const struct case_dir *c, const struct case_input *in);
/* "status": "error" and "reason" from a struct err. */
void case_put_error(struct json_out *o, const struct err *e);

int read_json_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_archive_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_container_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_stream_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_bench_metrics_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_model_file_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_model_config_kind(const struct case_dir *c, struct json_out *o, struct err *err);
int read_kv_size_kind(const struct case_dir *c, struct json_out *o, struct err *err);

#endif
