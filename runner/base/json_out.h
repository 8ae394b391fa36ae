/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written straight into a buffer: no tree, the order of calls is the order of the text, so one value has
 * one text. With indent 0 everything is on one line without blanks. Errors are the buffer's `failed`. */
#ifndef BASE_JSON_OUT_H
#define BASE_JSON_OUT_H

#include "base/buf.h"

#include <stdint.h>

struct cJSON;

#define JSON_OUT_DEPTH 24

struct json_out {
	struct buf *b;
	unsigned indent; /* spaces a level; 0 = compact */
	unsigned depth;
	bool first[JSON_OUT_DEPTH];
};

void jo_init(struct json_out *o, struct buf *b, unsigned indent);
/* `key` NULL inside an array or at the top. */
void jo_obj(struct json_out *o, const char *key);
void jo_arr(struct json_out *o, const char *key);
void jo_end(struct json_out *o); /* closes what was opened last */
void jo_end_arr(struct json_out *o);
void jo_str(struct json_out *o, const char *key, const char *value); /* NULL value writes null */
void jo_strn(struct json_out *o, const char *key, const char *value,
             size_t len); /* bad UTF-8 becomes U+FFFD */
void jo_i64(struct json_out *o, const char *key, int64_t value);
void jo_u64(struct json_out *o, const char *key, uint64_t value);
void jo_opt_u64(struct json_out *o, const char *key, uint64_t value); /* UINT64_MAX, our "unknown", is null */
/* Shortest text that reads back as the same double; NaN and infinity write null (unknown, never 0). */
void jo_num(struct json_out *o, const char *key, double value);
void jo_bool(struct json_out *o, const char *key, bool value);
void jo_null(struct json_out *o, const char *key);
/* A ready JSON text, inserted as it is. */
void jo_raw(struct json_out *o, const char *key, const char *json, size_t len);
/* A cJSON tree with object keys in byte order, as deep as it goes. */
void jo_tree(struct json_out *o, const char *key, const struct cJSON *tree);

#endif
