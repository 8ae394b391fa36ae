/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from outside. Our own reader holds the text to RFC 8259 without exceptions, bounds its depth (never
 * the stack), finds what cJSON's would hide (keys given twice, also after unescaping; bytes that are not
 * UTF-8; \u0000; text behind the document) and builds a cJSON tree in linear time. Every error names line and
 * column (from 1) and what was found. */
#ifndef BASE_JSON_IN_H
#define BASE_JSON_IN_H

#include "base/cleanup.h"
#include "base/err.h"
#include "base/problems.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 512

enum json_mode {
	JSON_STRICT, /* plans, locks, reports, bundles: a key twice is an error */
	JSON_ENGINE, /* an engine's answer: the last of two equal keys counts, with a warning */
};

/* `name` stands in front of messages ("plans/x.json"). A leading byte order mark is skipped with a warning.
 * `warnings` may be NULL; strict keys given twice are all added to it as errors, before -1 tells the first.
 * Half of a surrogate pair is an error when strict, else U+FFFD with a warning. A key with \u0000 is always
 * an error; a value may hold it (json_string_len). The tree is the caller's (cJSON_Delete, auto_json).
 * ERR_PLAN on bad text. */
warn_unused int json_parse(struct cJSON **out, const char *text, size_t len, const char *name,
                           enum json_mode mode, struct problems *warnings, struct err *err);

/* Case-sensitive look-ups that never abort. NULL when absent (or, for json_str, not a string). */
const struct cJSON *json_get(const struct cJSON *obj, const char *key);
const char *json_str(const struct cJSON *obj, const char *key);
/* Bytes of a string's value, also when it holds NULs (valuestring alone then looks shorter). */
size_t json_string_len(const struct cJSON *string);
/* A whole number within ±(2^53 - 1), so that it is exact; false when absent, null, a fraction, or out of
 * range. */
bool json_i64(const struct cJSON *obj, const char *key, int64_t *out);
bool json_u64(const struct cJSON *obj, const char *key, uint64_t *out);
bool json_num(const struct cJSON *obj, const char *key, double *out);
bool json_bool(const struct cJSON *obj, const char *key, bool *out);

/* --- shapes: what a document of ours may hold, as const tables ---------------------------------------- */

enum jtype {
	J_STR,
	J_INT, /* whole number; min..max */
	J_NUM, /* any number; min..max; `exclusive_min` for "above" */
	J_BOOL,
	J_OBJ, /* `shape` */
	J_ARR, /* elements by `elem`; min_len..max_len elements */
	J_MAP, /* object with free keys (by `pattern`) and values by `elem` */
	J_ANY,
};

struct jshape;

struct jfield {
	const char *key; /* NULL ends the table */
	enum jtype type;
	bool required;
	bool nullable;
	bool exclusive_min;
	bool unique;     /* J_ARR of J_STR/J_INT/J_NUM: no value twice */
	double min, max; /* numbers; both 0 = no bound; max <= min = no upper bound; min 0 and exclusive_min =
	                    above 0 */
	size_t min_len,
		max_len; /* bytes of a string, elements of an array, members of a map; max 0 = no bound */
	const char *const *words;   /* J_STR: allowed values, NULL-ended */
	const char *pattern;        /* J_STR, or keys of a J_MAP: PCRE2, anchored */
	const char *pattern_says;   /* the pattern in words: "64 lower-case hex digits" */
	const struct jshape *shape; /* J_OBJ */
	const struct jfield *elem;  /* J_ARR, J_MAP */
};

struct jshape {
	const char *name;
	const struct jfield *fields;
	/* Exactly one of these keys must be there (NULL-ended), or NULL. */
	const char *const *one_of;
};

/* Checks `doc` against `shape` and adds every problem found (unknown keys with a near match, missing keys,
 * wrong types, allowed values). Each object may also hold "note" (any JSON) and, at the top, "$schema"
 * (string); a J_MAP holds its data only. A string with \u0000 is a problem. A value that broke a pattern is
 * shown only by its start: it may be a secret in the wrong place. */
void jshape_check(const struct cJSON *doc, const struct jshape *shape, struct problems *out);

/* The word of `words` nearest to `got`, or NULL when none is near (Damerau-Levenshtein <= 2 or a third). */
const char *near_match(const char *got, const char *const *words);

#endif
