/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_in.h"

#include "base/json_keys.h"
#include "base/json_text.h"

#include <ctype.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER_BYTES 512

struct level {
	struct cJSON *node; /* object or array, owned by the tree */
	uint64_t object;    /* its number among the objects */
	size_t n;           /* members or elements so far */
};

/* One reading. Iterative: the nesting lives in `levels`, not on the stack. */
struct reader {
	const char *text, *name;
	size_t len, at;
	enum json_mode mode;
	struct problems *warnings;
	struct err *err;
	struct cJSON *root;
	struct level *levels;
	size_t depth, n_levels;
	struct json_keys keys, folded;
	uint64_t n_objects;
	struct text_cursor cursor;
	char *key;       /* waits for its value; owned */
	size_t key_slot; /* of `key` in keys.slots */
	size_t n_twice;  /* keys given twice (strict) */
	char twice[256]; /* the first of them */
	size_t n_lone_halves;
};

/* --- errors -------------------------------------------------------------------------------------------- */

static int no_memory(struct reader *r)
{
	return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
}

static void place(struct reader *r, size_t at, char out[64])
{
	if (r->cursor.at > at)
		r->cursor = (struct text_cursor){ 0 };
	text_seek(&r->cursor, r->text, r->len, at);
	snprintf(out, 64, "line %zu, column %zu", r->cursor.line + 1, r->cursor.column + 1);
}

static int bad(struct reader *r, size_t at, const char *what)
{
	char where[64];
	place(r, at, where);
	if (text_conflict_mark(r->text, r->len, at))
		return err_set(r->err, ERR_PLAN, "%s: %s: conflict mark on line %zu: finish the merge first",
		               r->name, where, r->cursor.line + 1);
	return err_set(r->err, ERR_PLAN, "%s: %s: %s", r->name, where, what);
}

static int bad_found(struct reader *r, size_t at, const char *want)
{
	char found[TEXT_FOUND_BYTES], what[2 * TEXT_FOUND_BYTES];
	text_found(found, r->text, r->len, at);
	snprintf(what, sizeof(what), "want %s, found %s", want, found);
	return bad(r, at, what);
}

/* --- where we are in the tree, as JSON Pointer (cut when it grows long) -------------------------------- */

static size_t pointer_add(char *out, size_t used, const char *key)
{
	if (used + 8 >= POINTER_BYTES)
		return used;
	out[used++] = '/';
	for (; *key && used + 8 < POINTER_BYTES; key++) {
		if (*key == '~' || *key == '/') {
			out[used++] = '~';
			out[used++] = *key == '~' ? '0' : '1';
		} else {
			out[used++] = *key;
		}
	}
	if (*key) { /* cut, and never inside a character */
		while (used > 0 && ((unsigned char)out[used - 1] & 0xc0) == 0x80)
			used--;
		used -= (unsigned char)out[used - 1] >= 0xc0;
		memcpy(out + used, "…", 3);
		used += 3;
	}
	return used;
}

static void pointer_here(const struct reader *r, const char *key, char out[POINTER_BYTES])
{
	size_t used = 0;
	for (size_t d = 1; d < r->depth; d++) {
		char index[24];
		snprintf(index, sizeof(index), "%zu", r->levels[d - 1].n - 1);
		used = pointer_add(out, used, r->levels[d].node->string ? r->levels[d].node->string : index);
	}
	used = pointer_add(out, used, key);
	out[used] = '\0';
}

static void warn(struct reader *r, const char *pointer, const char *text)
{
	if (r->warnings)
		problem_add(r->warnings, PROBLEM_WARNING, pointer, "%s", text);
}

/* --- tokens -------------------------------------------------------------------------------------------- */

static int peek(const struct reader *r)
{
	return r->at < r->len ? (unsigned char)r->text[r->at] : -1;
}

static void skip_space(struct reader *r)
{
	int c;
	while ((c = peek(r)) == ' ' || c == '\n' || c == '\t' || c == '\r')
		r->at++;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits at `at`, -1 when they are not there. */
static int hex4(const struct reader *r, size_t at)
{
	int v = 0;
	for (size_t i = 0; i < 4; i++) {
		int h = at + i < r->len ? hex_value(r->text[at + i]) : -1;
		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return v;
}

static int check_escape(struct reader *r, size_t at)
{
	if (at + 1 >= r->len)
		return bad_found(r, at + 1, "an escape");
	char c = r->text[at + 1];
	if (c == 'u' && hex4(r, at + 2) < 0)
		return bad(r, at, "want four hex digits behind \\u");
	if (!c || !strchr("\"\\/bfnrtu", c))
		return bad(
			r, at,
			"a backslash inside a string is written \\\\ (known escapes: \\\" \\\\ \\/ \\b \\f "
			"\\n \\r \\t \\uXXXX)");
	return 0;
}

/* From the opening quote to the closing one; its place goes to *end. */
static int check_string(struct reader *r, size_t *end, bool *escaped)
{
	size_t i = r->at + 1;
	*escaped = false;
	while (i < r->len && r->text[i] != '"') {
		unsigned char c = (unsigned char)r->text[i];
		size_t n = text_utf8_len(r->text + i, r->len - i);
		if (c == '\\') {
			if (check_escape(r, i))
				return -1;
			*escaped = true;
			n = 2;
		} else if (c < 0x20) {
			return bad_found(r, i,
			                 c == 0 ? "a closing '\"'" : "an escape such as \\n or \\u001f");
		} else if (n == 0) {
			return bad_found(r, i, "UTF-8");
		}
		i += n;
	}
	if (i >= r->len)
		return bad(r, r->at, "a string starts here and never ends");
	*end = i;
	return 0;
}

static size_t put_utf8(char *out, unsigned cp)
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

/* The \uXXXX at `at` (and its second half); *next = behind it. Code point, or -1 for half of a pair. */
static int unescape_u(const struct reader *r, size_t at, size_t *next)
{
	int high = hex4(r, at + 2), low;
	*next = at + 6;
	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high > 0xdbff || at + 7 >= r->len || r->text[at + 6] != '\\' || r->text[at + 7] != 'u')
		return -1;
	low = hex4(r, at + 8);
	if (low < 0xdc00 || low > 0xdfff)
		return -1;
	*next = at + 12;
	return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static int unescape(struct reader *r, size_t from, size_t end, char *out, size_t *n_out)
{
	size_t n = 0;
	for (size_t i = from; i < end;) {
		if (r->text[i] != '\\') {
			out[n++] = r->text[i++];
		} else if (r->text[i + 1] != 'u') {
			static const char from_c[] = "bfnrt", to_c[] = "\b\f\n\r\t";
			const char *p = strchr(from_c, r->text[i + 1]);
			out[n++] = p ? to_c[p - from_c] : r->text[i + 1];
			i += 2;
		} else {
			size_t at = i;
			int cp = unescape_u(r, i, &i);
			if (cp < 0 && r->mode == JSON_STRICT)
				return bad(r, at,
				           "half of a surrogate pair: \\ud800-\\udbff and "
				           "\\udc00-\\udfff stand only together");
			r->n_lone_halves += cp < 0;
			n += put_utf8(out + n, cp < 0 ? 0xfffd : (unsigned)cp);
		}
	}
	out[n] = '\0';
	*n_out = n;
	return 0;
}

/* malloc'd text of the string at r->at and its length; r->at moves behind it. */
static int read_string(struct reader *r, char **out, size_t *n_out, bool *escaped)
{
	size_t end = 0;
	if (check_string(r, &end, escaped))
		return -1;
	auto_free char *s = malloc(end - r->at); /* unescaping only shrinks; the quote makes room for NUL */
	if (!s)
		return no_memory(r);
	if (unescape(r, r->at + 1, end, s, n_out))
		return -1;
	r->at = end + 1;
	*out = steal_ptr(&s);
	return 0;
}

static size_t count_digits(const struct reader *r, size_t at)
{
	size_t n = 0;
	while (at + n < r->len && r->text[at + n] >= '0' && r->text[at + n] <= '9')
		n++;
	return n;
}

/* Length of the number at r->at by RFC 8259, or 0 with err. */
static size_t check_number(struct reader *r)
{
	size_t i = r->at + (peek(r) == '-'), n = count_digits(r, i);
	if (n == 0) {
		bool word = i > r->at && i < r->len && isalpha((unsigned char)r->text[i]);
		(void)bad_found(r, word ? r->at : i, "a digit");
		return 0;
	}
	if (n > 1 && r->text[i] == '0') {
		(void)bad(r, r->at, "a number has no leading zero");
		return 0;
	}
	i += n;
	if (i < r->len && r->text[i] == '.') {
		if ((n = count_digits(r, i + 1)) == 0) {
			(void)bad_found(r, i + 1, "a digit behind the decimal point");
			return 0;
		}
		i += 1 + n;
	}
	if (i < r->len && (r->text[i] == 'e' || r->text[i] == 'E')) {
		i++;
		i += i < r->len && (r->text[i] == '+' || r->text[i] == '-');
		if ((n = count_digits(r, i)) == 0) {
			(void)bad_found(r, i, "a digit in the exponent");
			return 0;
		}
		i += n;
	}
	if (i < r->len && (r->text[i] == 'x' || r->text[i] == 'X')) {
		(void)bad(r, r->at, "a number is decimal, not hexadecimal");
		return 0;
	}
	return i - r->at;
}

static locale_t c_locale(void)
{
	static locale_t c; /* a lost race costs one small object */
	locale_t now = __atomic_load_n(&c, __ATOMIC_ACQUIRE);
	if (!now) {
		now = newlocale(LC_ALL_MASK, "C", (locale_t)0);
		__atomic_store_n(&c, now, __ATOMIC_RELEASE);
	}
	return now;
}

static int read_number(struct reader *r, double *out)
{
	char small[64], *copy = small;
	size_t n = check_number(r);
	if (n == 0)
		return -1;
	auto_free char *large = n < sizeof(small) ? NULL : malloc(n + 1);
	if (n >= sizeof(small) && !(copy = large))
		return no_memory(r);
	memcpy(copy, r->text + r->at, n);
	copy[n] = '\0';
	double v = c_locale() ? strtod_l(copy, NULL, c_locale()) : strtod(copy, NULL);
	if (!isfinite(v))
		return bad(r, r->at, "a number past the range of a double (about 1.8e308)");
	r->at += n;
	*out = v;
	return 0;
}

/* --- the tree ------------------------------------------------------------------------------------------ */

static void set_number(struct cJSON *node, double v)
{
	node->valuedouble = v;
	node->valueint = v >= INT_MAX ? INT_MAX : v <= INT_MIN ? INT_MIN : (int)v;
}

/* Hangs `node` under the current object or array (with the key that waits). Takes it over. */
static void hang(struct reader *r, struct cJSON *node)
{
	if (r->depth == 0) {
		r->root = node;
		return;
	}
	struct level *parent = &r->levels[r->depth - 1];
	if (r->key) {
		node->string = steal_ptr(&r->key);
		struct json_key *slot = &r->keys.slots[r->key_slot];
		slot->node = node;
		slot->key = node->string;
	}
	parent->n++;
	cJSON_AddItemToArray(parent->node, node);
}

static int push(struct reader *r, struct cJSON *node)
{
	if (r->depth == r->n_levels) {
		size_t n = r->n_levels ? 2 * r->n_levels : 16;
		struct level *p = realloc(r->levels, n * sizeof(*p));
		if (!p)
			return no_memory(r);
		r->levels = p;
		r->n_levels = n;
	}
	r->levels[r->depth++] = (struct level){ .node = node, .object = ++r->n_objects };
	return 0;
}

static int key_twice(struct reader *r, struct json_key *slot, const char *key, bool escaped, size_t at)
{
	struct cJSON *parent = r->levels[r->depth - 1].node;
	const char *what = escaped || slot->escaped ? "key twice after unescaping" : "key twice";
	char pointer[POINTER_BYTES], where[64];
	bool told = r->warnings && r->warnings->n < PROBLEMS_MAX;
	if (told || r->n_twice == 0) {
		pointer_here(r, key, pointer);
		place(r, at, where);
	}
	if (r->mode == JSON_ENGINE) {
		if (told)
			problem_add(r->warnings, PROBLEM_WARNING, pointer, "%s: %s; the last one counts",
			            where, what);
		cJSON_Delete(cJSON_DetachItemViaPointer(parent, slot->node));
		slot->node = NULL;
		r->n_twice = 1;
		return 0;
	}
	if (r->n_twice++ == 0)
		snprintf(r->twice, sizeof(r->twice), "%s: %s: %.120s", where, what, pointer);
	if (told)
		problem_add(r->warnings, PROBLEM_ERROR, pointer, "%s: %s", where, what);
	return 0;
}

static int tell_twin(struct reader *r, uint64_t object, size_t len)
{
	bool found;
	const char *key = r->keys.slots[r->key_slot].key;
	struct json_key *twin = json_keys_put(&r->folded, object, key, len, &found);
	if (!twin)
		return no_memory(r);
	if (found && strcmp(twin->key, key) != 0 && r->warnings->n < PROBLEMS_MAX) {
		char pointer[POINTER_BYTES];
		pointer_here(r, key, pointer);
		problem_add(r->warnings, PROBLEM_WARNING, pointer,
		            "names are compared exactly: '%.64s' and '%.64s' are two keys", twin->key, key);
	}
	return 0;
}

/* The key at r->at and its colon; the key then waits in r->key. */
static int read_key(struct reader *r)
{
	size_t len, at = r->at;
	bool escaped, found;
	if (peek(r) != '"')
		return bad_found(r, r->at, "a key in double quotes");
	if (read_string(r, &r->key, &len, &escaped))
		return -1;
	if (memchr(r->key, '\0', len))
		return bad(r, at, "a key holds \\u0000");
	uint64_t object = r->levels[r->depth - 1].object;
	struct json_key *slot = json_keys_put(&r->keys, object, r->key, len, &found);
	if (!slot)
		return no_memory(r);
	r->key_slot = (size_t)(slot - r->keys.slots);
	if (found && key_twice(r, slot, r->key, escaped, at))
		return -1;
	slot->key = r->key;
	slot->escaped = escaped;
	if (r->mode == JSON_STRICT && r->warnings && !found && tell_twin(r, object, len))
		return -1;
	skip_space(r);
	if (peek(r) != ':')
		return bad_found(r, r->at, "':' behind a key");
	r->at++;
	return 0;
}

static int read_word(struct reader *r, struct cJSON *node)
{
	static const struct {
		const char *word;
		int type;
	} words[] = { { "true", cJSON_True }, { "false", cJSON_False }, { "null", cJSON_NULL } };
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t n = strlen(words[i].word);
		if (r->len - r->at >= n && memcmp(r->text + r->at, words[i].word, n) == 0) {
			node->type = words[i].type;
			r->at += n;
			return 0;
		}
	}
	return bad_found(r, r->at, "a value");
}

static int read_scalar(struct reader *r, struct cJSON *node)
{
	int c = peek(r);
	if (c == '"') {
		size_t len;
		bool escaped;
		if (read_string(r, &node->valuestring, &len, &escaped))
			return -1;
		node->type = cJSON_String;
		node->valuedouble = (double)len; /* json_string_len */
		return 0;
	}
	if (c == '-' || (c >= '0' && c <= '9')) {
		double v = 0;
		if (read_number(r, &v))
			return -1;
		node->type = cJSON_Number;
		set_number(node, v);
		return 0;
	}
	return read_word(r, node);
}

/* Reads a scalar, or opens an object or array: then *opened. */
static int read_value(struct reader *r, bool *opened)
{
	skip_space(r);
	int c = peek(r);
	*opened = c == '{' || c == '[';
	if (*opened && r->depth >= JSON_DEPTH_MAX)
		return bad(r, r->at, "nested deeper than 512 levels");
	struct cJSON *node = cJSON_CreateNull();
	if (!node)
		return no_memory(r);
	if (!*opened) {
		if (read_scalar(r, node)) {
			cJSON_Delete(node);
			return -1;
		}
		hang(r, node);
		return 0;
	}
	node->type = c == '{' ? cJSON_Object : cJSON_Array;
	r->at++;
	hang(r, node);
	return push(r, node);
}

/* Behind a value: closes what ends here and stops before the next value (*more) or the end of the document.
 */
static int after_value(struct reader *r, bool *more)
{
	while (r->depth > 0) {
		bool object = cJSON_IsObject(r->levels[r->depth - 1].node);
		skip_space(r);
		int c = peek(r);
		if (c == (object ? '}' : ']')) {
			r->at++;
			r->depth--;
			continue;
		}
		if (c != ',')
			return bad_found(r, r->at, object ? "',' or '}'" : "',' or ']'");
		size_t comma = r->at++;
		skip_space(r);
		if (peek(r) == (object ? '}' : ']'))
			return bad(r, comma,
			           object ? "trailing comma before '}'" : "trailing comma before ']'");
		*more = true;
		return object ? read_key(r) : 0;
	}
	*more = false;
	return 0;
}

static int read_document(struct reader *r)
{
	for (bool more = true; more;) {
		bool opened;
		if (read_value(r, &opened))
			return -1;
		if (opened) {
			bool object = cJSON_IsObject(r->levels[r->depth - 1].node);
			skip_space(r);
			if (peek(r) != (object ? '}' : ']')) {
				if (object && read_key(r))
					return -1;
				continue;
			}
		}
		if (after_value(r, &more))
			return -1;
	}
	skip_space(r);
	if (r->at < r->len)
		return bad_found(r, r->at, "the end of the text behind the document");
	if (r->mode == JSON_STRICT && r->n_twice > 0) {
		char rest[40] = "";
		if (r->n_twice > 1)
			snprintf(rest, sizeof(rest), " (and %zu more)", r->n_twice - 1);
		return err_set(r->err, ERR_PLAN, "%s: %s%s", r->name, r->twice, rest);
	}
	return 0;
}

static int check_start(struct reader *r)
{
	const char *other = text_is_not_json(r->text, r->len);
	if (other)
		return bad(r, 0, other);
	if (r->len >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) {
		r->at = 3;
		warn(r, "", "byte order mark at the start, skipped");
	}
	skip_space(r);
	if (r->at == r->len)
		return bad(r, r->at,
		           r->len ? "only white space, want a JSON document" : "empty, want a JSON document");
	return 0;
}

int json_parse(struct cJSON **out, const char *text, size_t len, const char *name, enum json_mode mode,
               struct problems *warnings, struct err *err)
{
	struct reader r = { .text = text,
		            .name = name ? name : "JSON",
		            .len = len,
		            .mode = mode,
		            .warnings = warnings,
		            .err = err,
		            .folded.fold = true };
	int rc = check_start(&r);
	if (rc == 0)
		rc = read_document(&r);
	if (rc == 0 && r.n_lone_halves > 0 && warnings)
		problem_add(warnings, PROBLEM_WARNING, "", "%zu halves of surrogate pairs replaced by U+FFFD",
		            r.n_lone_halves);
	if (rc == 0)
		*out = steal_ptr(&r.root);
	cJSON_Delete(r.root);
	free(r.key);
	free(r.levels);
	json_keys_done(&r.keys);
	json_keys_done(&r.folded);
	return rc;
}
