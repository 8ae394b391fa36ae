/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/buf.h"
#include "base/json_in.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_PATTERNS 32
#define MAX_POINTER_BYTES 1024
#define WORDS_SHOWN 24
#define SAFE_INTEGER 9007199254740991.0

struct check {
	struct problems *out;
	struct buf at; /* JSON Pointer of what is looked at */
	struct {
		const char *text;
		pcre2_code *code;
	} patterns[MAX_PATTERNS];
	size_t n_patterns;
	pcre2_match_context *limits;
};

#define SAY(c, ...) problem_add((c)->out, PROBLEM_ERROR, (c)->at.p, __VA_ARGS__)

/* --- pointer ------------------------------------------------------------------------------------------- */

static size_t enter(struct check *c, const char *key)
{
	size_t back = c->at.len;
	if (back > MAX_POINTER_BYTES)
		return back;
	buf_addc(&c->at, '/');
	for (size_t n = 0; *key && n < MAX_POINTER_BYTES; key++, n++) {
		if (*key == '~' || *key == '/')
			buf_adds(&c->at, *key == '~' ? "~0" : "~1");
		else
			buf_addc(&c->at, *key);
	}
	return back;
}

static void leave(struct check *c, size_t back)
{
	c->at.len = back;
	c->at.p[back] = '\0';
}

/* --- near words ---------------------------------------------------------------------------------------- */

enum { NEAR_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;
	return m < c ? m : c;
}

/* Damerau-Levenshtein (adjacent swaps), both at most NEAR_MAX bytes. */
static size_t distance(const char *a, const char *b)
{
	size_t row[3][NEAR_MAX + 1], n = strlen(a), m = strlen(b);
	size_t *before = row[0], *last = row[1], *now = row[2];
	for (size_t j = 0; j <= m; j++)
		last[j] = j;
	memcpy(before, last, sizeof(row[0]));
	for (size_t i = 1; i <= n; i++) {
		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		size_t *free_row = before;
		before = last;
		last = now;
		now = free_row;
	}
	return last[m];
}

static size_t near_limit(size_t len)
{
	return len <= 3 ? 1 : len / 3 > 2 ? len / 3 : 2;
}

const char *near_match(const char *got, const char *const *words)
{
	const char *best = NULL;
	size_t best_distance = NEAR_MAX, n = strlen(got);
	if (n == 0 || n > NEAR_MAX)
		return NULL;
	for (; *words; words++) {
		if (strlen(*words) > NEAR_MAX)
			continue;
		size_t d = strcasecmp(got, *words) == 0 ? 0 : distance(got, *words);
		if (d <= near_limit(n) && d < best_distance) {
			best = *words;
			best_distance = d;
		}
	}
	return best;
}

/* --- what was found, in words -------------------------------------------------------------------------- */

enum { SHOW_BYTES = 160 };

/* Whole characters of `s` up to `max` bytes. */
static int cut(const char *s, size_t max)
{
	size_t n = strnlen(s, max + 1);
	if (n <= max)
		return (int)n;
	n = max;
	while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	return (int)n;
}

static void show(const struct cJSON *v, char out[SHOW_BYTES])
{
	if (cJSON_IsString(v)) {
		int n = cut(v->valuestring, 40);
		snprintf(out, SHOW_BYTES, "\"%.*s%s\"", n, v->valuestring, v->valuestring[n] ? "…" : "");
	} else if (cJSON_IsNumber(v)) {
		snprintf(out, SHOW_BYTES, "%.15g", v->valuedouble);
	} else {
		snprintf(out, SHOW_BYTES, "%s",
		         cJSON_IsObject(v)  ? "an object"
		         : cJSON_IsArray(v) ? "an array"
		         : cJSON_IsNull(v)  ? "null"
		         : cJSON_IsTrue(v)  ? "true"
		                            : "false");
	}
}

/* A string that broke a pattern may be a secret in the wrong place: only its start is shown. */
static void show_shy(const char *s, char out[SHOW_BYTES])
{
	size_t len = strlen(s);
	if (len <= 12)
		snprintf(out, SHOW_BYTES, "\"%s\"", s);
	else
		snprintf(out, SHOW_BYTES, "\"%.*s…\" (%zu bytes)", cut(s, 4), s, len);
}

static const char *type_words(enum jtype t)
{
	switch (t) {
	case J_STR:
		return "a string";
	case J_INT:
		return "a whole number";
	case J_NUM:
		return "a number";
	case J_BOOL:
		return "true or false";
	case J_OBJ:
	case J_MAP:
		return "an object";
	case J_ARR:
		return "an array";
	case J_ANY:
		break;
	}
	return "a value";
}

static void wrong_type(struct check *c, const struct jfield *f, const struct cJSON *v)
{
	char got[SHOW_BYTES];
	show(v, got);
	if (cJSON_IsString(v) && f->type != J_STR) /* the text itself says nothing here */
		snprintf(got, sizeof(got), "a string");
	SAY(c, "want %s%s, got %s", type_words(f->type), f->nullable ? " or null" : "", got);
}

/* --- numbers ------------------------------------------------------------------------------------------- */

static bool bound_given(double x)
{
	return x < 0 || x > 0;
}

static bool has_min(const struct jfield *f)
{
	return f->exclusive_min || bound_given(f->min) || bound_given(f->max);
}

static void want_number(const struct jfield *f, char out[SHOW_BYTES])
{
	const char *kind = type_words(f->type);
	if (!has_min(f))
		snprintf(out, SHOW_BYTES, "%s", kind);
	else if (f->max <= f->min)
		snprintf(out, SHOW_BYTES, "%s %s %.15g", kind, f->exclusive_min ? "above" : "of at least",
		         f->min);
	else
		snprintf(out, SHOW_BYTES,
		         f->exclusive_min ? "%s above %.15g and up to %.15g" : "%s from %.15g to %.15g", kind,
		         f->min, f->max);
}

static void check_number(struct check *c, const struct jfield *f, const struct cJSON *v)
{
	double x = v->valuedouble;
	bool ok = true;
	if (f->type == J_INT)
		ok = fabs(x) <= SAFE_INTEGER && floor(x) >= x;
	if (has_min(f))
		ok = ok && (f->exclusive_min ? x > f->min : x >= f->min) && (f->max <= f->min || x <= f->max);
	if (ok)
		return;
	char want[SHOW_BYTES];
	want_number(f, want);
	SAY(c, "want %s, got %.17g", want, x);
}

/* --- strings ------------------------------------------------------------------------------------------- */

static pcre2_code *compiled(struct check *c, const char *pattern)
{
	for (size_t i = 0; i < c->n_patterns; i++)
		if (c->patterns[i].text == pattern)
			return c->patterns[i].code;
	int number;
	PCRE2_SIZE offset;
	pcre2_code *code =
		pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	                      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF, &number,
	                      &offset, NULL);
	if (!code)
		abort(); /* our own table holds a bad pattern */
	if (c->n_patterns == MAX_PATTERNS)
		pcre2_code_free(c->patterns[--c->n_patterns].code);
	c->patterns[c->n_patterns].text = pattern;
	c->patterns[c->n_patterns++].code = code;
	return code;
}

static bool matches(struct check *c, const char *pattern, const char *s, size_t len)
{
	pcre2_code *code = compiled(c, pattern);
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	if (!data)
		return false;
	int rc = pcre2_match(code, (PCRE2_SPTR)s, len, 0, 0, data, c->limits);
	pcre2_match_data_free(data);
	return rc >= 0;
}

static void say_words(struct check *c, const char *got, const char *const *words)
{
	auto_buf list = BUF_INIT(4096);
	size_t n = 0;
	for (; words[n] && n < WORDS_SHOWN; n++)
		buf_addf(&list, "%s%s", n ? ", " : "", words[n]);
	if (words[n])
		buf_adds(&list, ", …");
	const char *near = near_match(got, words);
	int shown = cut(got, 40);
	SAY(c, "want one of %s; got \"%.*s%s\"%s%s%s", list.p ? list.p : "", shown, got,
	    got[shown] ? "…" : "", near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

static bool word_known(const char *got, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(got, *words) == 0)
			return true;
	return false;
}

static void check_string(struct check *c, const struct jfield *f, const struct cJSON *v)
{
	const char *s = v->valuestring;
	size_t len = json_string_len(v);
	char got[SHOW_BYTES];
	if (memchr(s, '\0', len))
		SAY(c, "the string holds \\u0000");
	else if (f->words && !word_known(s, f->words))
		say_words(c, s, f->words);
	else if (len < f->min_len && len == 0)
		SAY(c, "want a string that is not empty");
	else if (len < f->min_len || (f->max_len && len > f->max_len))
		SAY(c, "want a string of at %s %zu bytes, got %zu", len < f->min_len ? "least" : "most",
		    len < f->min_len ? f->min_len : f->max_len, len);
	else if (f->pattern && !matches(c, f->pattern, s, len)) {
		show_shy(s, got);
		SAY(c, "want %s, got %s", f->pattern_says ? f->pattern_says : f->pattern, got);
	}
}

/* --- arrays, maps, objects ----------------------------------------------------------------------------- */

static void check_value(struct check *c, const struct jfield *f, const struct cJSON *v);

static int by_value(const void *a, const void *b)
{
	const struct cJSON *x = *(const struct cJSON *const *)a, *y = *(const struct cJSON *const *)b;
	if (cJSON_IsString(x) && cJSON_IsString(y))
		return strcmp(x->valuestring, y->valuestring);
	return cJSON_IsString(x) != cJSON_IsString(y) ? cJSON_IsString(x) - cJSON_IsString(y)
	       : x->valuedouble < y->valuedouble      ? -1
	                                              : x->valuedouble > y->valuedouble;
}

static void check_unique(struct check *c, const struct cJSON *array, size_t n)
{
	auto_free const struct cJSON **list = calloc(n + 1, sizeof(*list));
	size_t kept = 0;
	const struct cJSON *v;
	if (!list) {
		SAY(c, "no memory to look for values given twice");
		return;
	}
	cJSON_ArrayForEach(v, array) if (cJSON_IsString(v) || cJSON_IsNumber(v)) list[kept++] = v;
	qsort(list, kept, sizeof(*list), by_value);
	for (size_t i = 1; i < kept; i++) {
		if (by_value(&list[i - 1], &list[i]) != 0 || (i > 1 && by_value(&list[i - 2], &list[i]) == 0))
			continue;
		char got[SHOW_BYTES];
		show(list[i], got);
		SAY(c, "%s stands here twice", got);
	}
}

static void check_count(struct check *c, const struct jfield *f, size_t n, const char *what)
{
	if (n >= f->min_len && (f->max_len == 0 || n <= f->max_len))
		return;
	if (n < f->min_len)
		SAY(c, "want at least %zu %s%s, got %zu", f->min_len, what, f->min_len == 1 ? "" : "s", n);
	else
		SAY(c, "want at most %zu %ss, got %zu", f->max_len, what, n);
}

static void check_array(struct check *c, const struct jfield *f, const struct cJSON *array)
{
	size_t n = 0;
	const struct cJSON *v;
	cJSON_ArrayForEach(v, array)
	{
		if (f->elem && c->out->n_errors < PROBLEMS_MAX) {
			char index[24];
			snprintf(index, sizeof(index), "%zu", n);
			size_t back = enter(c, index);
			check_value(c, f->elem, v);
			leave(c, back);
		}
		n++;
	}
	check_count(c, f, n, "element");
	if (f->unique)
		check_unique(c, array, n);
}

static void check_map(struct check *c, const struct jfield *f, const struct cJSON *map)
{
	size_t n = 0;
	const struct cJSON *v;
	cJSON_ArrayForEach(v, map)
	{
		size_t back = enter(c, v->string);
		if (f->pattern && !matches(c, f->pattern, v->string, strlen(v->string)))
			SAY(c, "as a name here, want %s", f->pattern_says ? f->pattern_says : f->pattern);
		if (f->elem)
			check_value(c, f->elem, v);
		leave(c, back);
		n++;
	}
	check_count(c, f, n, "member");
}

static const struct jfield *field_of(const struct jshape *shape, const char *key)
{
	for (const struct jfield *f = shape->fields; f->key; f++)
		if (strcmp(f->key, key) == 0)
			return f;
	return NULL;
}

static void say_unknown(struct check *c, const struct jshape *shape, const char *key)
{
	const char *names[128];
	size_t n = 0;
	for (const struct jfield *f = shape->fields; f->key && n < ARRAY_LEN(names) - 1; f++)
		names[n++] = f->key;
	names[n] = NULL;
	const char *near = near_match(key, names);
	int shown = cut(key, 64);
	if (near && strcasecmp(near, key) == 0)
		SAY(c, "unknown key '%.*s' (names are compared exactly: '%s' is known)", shown, key, near);
	else if (near)
		SAY(c, "unknown key '%.*s' (did you mean '%s'?)", shown, key, near);
	else
		SAY(c, "unknown key '%.*s'%s%s", shown, key, shape->name ? " in " : "",
		    shape->name ? shape->name : "");
}

static void check_members(struct check *c, const struct jshape *shape, const struct cJSON *obj)
{
	const struct cJSON *v;
	cJSON_ArrayForEach(v, obj)
	{
		const struct jfield *f = field_of(shape, v->string);
		if (!f && strcmp(v->string, "note") == 0)
			continue;
		size_t back = enter(c, v->string);
		if (f)
			check_value(c, f, v);
		else if (back != 0 || strcmp(v->string, "$schema") != 0)
			say_unknown(c, shape, v->string);
		else if (!cJSON_IsString(v))
			SAY(c, "want a string");
		leave(c, back);
	}
}

static void check_one_of(struct check *c, const char *const *keys, const struct cJSON *obj)
{
	auto_buf list = BUF_INIT(1024);
	size_t there = 0;
	for (size_t i = 0; keys[i]; i++) {
		buf_addf(&list, "%s'%s'", i ? ", " : "", keys[i]);
		there += json_get(obj, keys[i]) != NULL;
	}
	if (there != 1)
		SAY(c, "want exactly one of the keys %s, got %zu of them", list.p ? list.p : "", there);
}

static void check_object(struct check *c, const struct jshape *shape, const struct cJSON *obj)
{
	check_members(c, shape, obj);
	for (const struct jfield *f = shape->fields; f->key; f++)
		if (f->required && !json_get(obj, f->key))
			SAY(c, "key '%s' is missing (want %s)", f->key, type_words(f->type));
	if (shape->one_of)
		check_one_of(c, shape->one_of, obj);
}

static bool type_ok(enum jtype t, const struct cJSON *v)
{
	switch (t) {
	case J_STR:
		return cJSON_IsString(v);
	case J_INT:
	case J_NUM:
		return cJSON_IsNumber(v);
	case J_BOOL:
		return cJSON_IsBool(v);
	case J_OBJ:
	case J_MAP:
		return cJSON_IsObject(v);
	case J_ARR:
		return cJSON_IsArray(v);
	case J_ANY:
		break;
	}
	return true;
}

static void check_value(struct check *c, const struct jfield *f, const struct cJSON *v)
{
	if (cJSON_IsNull(v) && f->nullable)
		return;
	if (!type_ok(f->type, v)) {
		wrong_type(c, f, v);
		return;
	}
	switch (f->type) {
	case J_STR:
		check_string(c, f, v);
		break;
	case J_INT:
	case J_NUM:
		check_number(c, f, v);
		break;
	case J_OBJ:
		if (f->shape)
			check_object(c, f->shape, v);
		break;
	case J_ARR:
		check_array(c, f, v);
		break;
	case J_MAP:
		check_map(c, f, v);
		break;
	case J_BOOL:
	case J_ANY:
		break;
	}
}

void jshape_check(const struct cJSON *doc, const struct jshape *shape, struct problems *out)
{
	struct check c = { .out = out, .limits = pcre2_match_context_create(NULL) };
	buf_init(&c.at, 1 << 20);
	if (!c.limits || buf_add(&c.at, "", 0)) {
		problem_add(out, PROBLEM_ERROR, "", "no memory to check it");
	} else {
		pcre2_set_match_limit(c.limits, 100000);
		pcre2_set_depth_limit(c.limits, 1000);
		check_value(&c, &(struct jfield){ .type = J_OBJ, .shape = shape }, doc);
	}
	for (size_t i = 0; i < c.n_patterns; i++)
		pcre2_code_free(c.patterns[i].code);
	pcre2_match_context_free(c.limits);
	buf_done(&c.at);
}
