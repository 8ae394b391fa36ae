/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/st_text.h"

#include "base/cleanup.h"
#include "base/json_text.h"

#include <string.h>

enum { DEPTH_MAX = 64 };

int st_bad(struct st_text *s, const char *what)
{
	return err_set(s->err, ERR_PLAN, "%s: safetensors header, byte %zu: %s", s->name,
	               (size_t)(s->p - s->start), what);
}

static void skip_blanks(struct st_text *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

bool st_take_char(struct st_text *s, char c)
{
	skip_blanks(s);
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	skip_blanks(s);
	return true;
}

static int hex4(struct st_text *s, unsigned *out)
{
	unsigned v = 0;
	if (s->end - s->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = *s->p++;
		unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
		             : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
		             : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
		                                    : 16;
		if (d > 15)
			return -1;
		v = v << 4 | d;
	}
	*out = v;
	return 0;
}

static size_t put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* Behind the backslash. At most as many bytes come out as went in. */
static int take_escape(struct st_text *s, char **to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	unsigned c, low;
	if (s->p == s->end)
		return -1;
	char e = *s->p++;
	const char *at = e ? strchr(from, e) : NULL;
	if (at) {
		*(*to)++ = into[at - from];
		return 0;
	}
	if (e != 'u' || hex4(s, &c) || c == 0)
		return -1;
	if (c >= 0xd800 && c < 0xdc00) {
		if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
			return -1;
		s->p += 2;
		if (hex4(s, &low) || low < 0xdc00 || low > 0xdfff)
			return -1;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c >= 0xdc00 && c < 0xe000) {
		return -1;
	}
	*to += put_utf8(*to, c);
	return 0;
}

static const char *closing_quote(const struct st_text *s)
{
	for (const char *p = s->p; p < s->end; p++) {
		if (*p == '"')
			return p;
		if (*p == '\\')
			p++;
	}
	return NULL;
}

int st_take_string(struct st_text *s, char **out)
{
	skip_blanks(s);
	if (s->p == s->end || *s->p != '"')
		return st_bad(s, "want a string");
	s->p++;
	const char *close = closing_quote(s);
	if (!close)
		return st_bad(s, "a string has no end");
	auto_free char *text = malloc((size_t)(close - s->p) + 1);
	char *to = text;
	if (!text)
		return err_set(s->err, ERR_ENV, "%s: no memory", s->name);
	while (s->p < close) {
		size_t n = text_utf8_len(s->p, (size_t)(close - s->p));
		if (n == 0 || (unsigned char)*s->p < 0x20)
			return st_bad(s, "a string is no UTF-8 or holds control bytes");
		if (*s->p == '\\') {
			s->p++;
			if (take_escape(s, &to))
				return st_bad(s, "a string holds a bad escape");
			continue;
		}
		memcpy(to, s->p, n);
		to += n;
		s->p += n;
	}
	*to = '\0';
	s->p = close + 1;
	*out = steal_ptr(&text);
	return 0;
}

int st_take_uint(struct st_text *s, uint64_t *out)
{
	uint64_t v = 0;
	skip_blanks(s);
	const char *from = s->p;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v))
			return st_bad(s, "a number overflows");
	if (s->p == from || (*from == '0' && s->p - from > 1) ||
	    (s->p < s->end && (*s->p == '.' || *s->p == 'e' || *s->p == 'E')))
		return st_bad(s, "want a whole number that is not negative");
	*out = v;
	return 0;
}

static int skip_list(struct st_text *s, unsigned depth, bool is_object)
{
	char close = is_object ? '}' : ']';
	if (depth > DEPTH_MAX)
		return st_bad(s, "nested too deep");
	if (st_take_char(s, close))
		return 0;
	do {
		auto_free char *key = NULL;
		if (is_object &&
		    (st_take_string(s, &key) || (!st_take_char(s, ':') && st_bad(s, "want ':'"))))
			return -1;
		if (st_skip_value(s, depth + 1))
			return -1;
	} while (st_take_char(s, ','));
	return st_take_char(s, close) ? 0 : st_bad(s, "a list has no end");
}

int st_skip_value(struct st_text *s, unsigned depth)
{
	skip_blanks(s);
	char c = s->p < s->end ? *s->p : '\0';
	if (c == '"') {
		auto_free char *text = NULL;
		return st_take_string(s, &text);
	}
	if (c == '{' || c == '[') {
		s->p++;
		return skip_list(s, depth, c == '{');
	}
	size_t n = 0;
	while (s->p + n < s->end && s->p[n] && strchr("+-.0123456789aeflnrstuE", s->p[n]))
		n++;
	if (n == 0)
		return st_bad(s, "want a value");
	s->p += n;
	return 0;
}
