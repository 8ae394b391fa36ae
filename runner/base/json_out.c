/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_out.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jo_init(struct json_out *o, struct buf *b, unsigned indent)
{
	*o = (struct json_out){ .b = b, .indent = indent };
	o->first[0] = true;
}

static void new_line(struct json_out *o)
{
	if (!o->indent)
		return;
	buf_addc(o->b, '\n');
	for (unsigned i = 0; i < o->depth * o->indent; i++)
		buf_addc(o->b, ' ');
}

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	if (p[0] < 0x80)
		return 1;
	size_t n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
	           : (p[0] & 0xf0) == 0xe0        ? 3
	           : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
	                                          : 0;
	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* Bytes at p that stand for themselves: most of any text, taken in one piece. */
static size_t plain_len(const unsigned char *p, size_t left)
{
	size_t n = 0;
	while (n < left && p[n] >= 0x20 && p[n] < 0x7f && p[n] != '"' && p[n] != '\\')
		n++;
	return n;
}

static void add_quoted(struct buf *b, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	buf_addc(b, '"');
	for (size_t i = 0; i < len;) {
		size_t n = plain_len(p + i, len - i);
		if (n) {
			buf_add(b, p + i, n);
			i += n;
			continue;
		}
		n = utf8_len(p + i, len - i);
		if (n == 0) {
			buf_adds(b, "\xef\xbf\xbd");
			i++;
		} else if (p[i] == '"' || p[i] == '\\') {
			buf_addc(b, '\\');
			buf_addc(b, (char)p[i++]);
		} else if (p[i] == '\n') {
			buf_adds(b, "\\n");
			i++;
		} else if (p[i] < 0x20 || p[i] == 0x7f) {
			buf_addf(b, "\\u%04x", p[i++]);
		} else {
			buf_add(b, p + i, n);
			i += n;
		}
	}
	buf_addc(b, '"');
}

static void before_value(struct json_out *o, const char *key)
{
	if (o->depth > 0) {
		if (!o->first[o->depth])
			buf_addc(o->b, ',');
		new_line(o);
	}
	o->first[o->depth] = false;
	if (key) {
		add_quoted(o->b, key, strlen(key));
		buf_addc(o->b, ':');
		if (o->indent)
			buf_addc(o->b, ' ');
	}
}

static void open_level(struct json_out *o, const char *key, char c)
{
	before_value(o, key);
	buf_addc(o->b, c);
	o->depth++;
	assert(o->depth < JSON_OUT_DEPTH);
	o->first[o->depth] = true;
}

static void close_level(struct json_out *o, char c)
{
	assert(o->depth > 0);
	bool empty = o->first[o->depth];
	o->depth--;
	if (!empty)
		new_line(o);
	buf_addc(o->b, c);
	if (o->depth == 0 && o->indent)
		buf_addc(o->b, '\n');
}

void jo_obj(struct json_out *o, const char *key)
{
	open_level(o, key, '{');
}

void jo_arr(struct json_out *o, const char *key)
{
	open_level(o, key, '[');
}

void jo_end(struct json_out *o)
{
	close_level(o, '}');
}

void jo_end_arr(struct json_out *o)
{
	close_level(o, ']');
}

void jo_strn(struct json_out *o, const char *key, const char *value, size_t len)
{
	before_value(o, key);
	add_quoted(o->b, value, len);
}

void jo_str(struct json_out *o, const char *key, const char *value)
{
	if (value)
		jo_strn(o, key, value, strlen(value));
	else
		jo_null(o, key);
}

void jo_i64(struct json_out *o, const char *key, int64_t value)
{
	before_value(o, key);
	buf_addf(o->b, "%" PRId64, value);
}

void jo_u64(struct json_out *o, const char *key, uint64_t value)
{
	before_value(o, key);
	buf_addf(o->b, "%" PRIu64, value);
}

void jo_opt_u64(struct json_out *o, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		jo_null(o, key);
	else
		jo_u64(o, key, value);
}

static bool same_double(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

void jo_num(struct json_out *o, const char *key, double value)
{
	if (!isfinite(value)) {
		jo_null(o, key);
		return;
	}
	char text[40];
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (same_double(strtod(text, NULL), value))
			break;
	}
	before_value(o, key);
	buf_adds(o->b, text);
}

void jo_bool(struct json_out *o, const char *key, bool value)
{
	before_value(o, key);
	buf_adds(o->b, value ? "true" : "false");
}

void jo_null(struct json_out *o, const char *key)
{
	before_value(o, key);
	buf_adds(o->b, "null");
}

void jo_raw(struct json_out *o, const char *key, const char *json, size_t len)
{
	before_value(o, key);
	buf_add(o->b, json, len);
}

static int by_key(const void *a, const void *b)
{
	const struct cJSON *const *x = a, *const *y = b;
	return strcmp((*x)->string, (*y)->string);
}

static void sorted_members(struct json_out *o, const struct cJSON *obj)
{
	size_t n = (size_t)cJSON_GetArraySize(obj), i = 0;
	const struct cJSON **list = calloc(n + 1, sizeof(*list)), *c;
	if (!list) {
		o->b->failed = true;
		return;
	}
	cJSON_ArrayForEach(c, obj) list[i++] = c;
	qsort(list, n, sizeof(*list), by_key);
	for (i = 0; i < n; i++)
		jo_tree(o, list[i]->string, list[i]);
	free(list);
}

void jo_tree(struct json_out *o, const char *key, const struct cJSON *t)
{
	const struct cJSON *c;
	if (cJSON_IsObject(t)) {
		if (o->depth + 1 >= JSON_OUT_DEPTH) {
			o->b->failed = true;
			return;
		}
		jo_obj(o, key);
		sorted_members(o, t);
		jo_end(o);
	} else if (cJSON_IsArray(t)) {
		if (o->depth + 1 >= JSON_OUT_DEPTH) {
			o->b->failed = true;
			return;
		}
		jo_arr(o, key);
		cJSON_ArrayForEach(c, t) jo_tree(o, NULL, c);
		jo_end_arr(o);
	} else if (cJSON_IsString(t)) {
		jo_str(o, key, t->valuestring);
	} else if (cJSON_IsNumber(t)) {
		jo_num(o, key, t->valuedouble);
	} else if (cJSON_IsBool(t)) {
		jo_bool(o, key, cJSON_IsTrue(t));
	} else {
		jo_null(o, key);
	}
}
