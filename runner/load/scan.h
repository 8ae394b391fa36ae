/* SPDX-License-Identifier: Apache-2.0 */
/* A pull scanner over the bytes of one JSON text: no tree, no allocation, depth and numbers bounded, strings
 * held to RFC 8259 and UTF-8 as they are passed. The first fault sets `bad` for good, and from then on every
 * call says "nothing there"; so one look at scan_end decides. Nothing is read past `end`.
 */
#ifndef LOAD_SCAN_H
#define LOAD_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_DEPTH_MAX 128

struct scan {
	const char *p, *end;
	unsigned depth;
	bool first; /* no member or element of the innermost container was read yet */
	bool bad;
};

/* The inside of a string, between the quotes, escapes as they stand. p NULL = no string. */
struct jstr {
	const char *p;
	size_t len;
	bool esc; /* holds escapes: read it with jstr_next */
};

void scan_init(struct scan *s, const char *text, size_t len);
/* First byte of the next value ('{' '[' '"' '-' digit 't' 'f' 'n'), 0 when there is none. Skips blanks. */
static inline char scan_peek(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
	return s->p < s->end ? *s->p : '\0';
}
/* Enter the container that scan_peek told of, then ask for members until false: that closes it. After each
 * true the caller reads exactly one value. */
void scan_enter(struct scan *s);
bool scan_member(struct scan *s, struct jstr *key);
bool scan_element(struct scan *s);
/* Each of these reads one value. A value of another type is skipped and false returned. */
bool scan_str(struct scan *s, struct jstr *out);
bool scan_u64(struct scan *s, uint64_t *out); /* whole, 0 .. 2^53 */
bool scan_bool(struct scan *s, bool *out);
void scan_skip(struct scan *s);
/* Reads the string whose opening quote is at s->p. */
bool scan_string_here(struct scan *s, struct jstr *out);
/* True when the text was one whole JSON value and nothing but blanks follows. */
bool scan_end(struct scan *s);

/* The next character of a string: a code point, 0xD800..0xDFFF for an escaped surrogate half that has no
 * partner beside it, or -1 at the end. *at starts at 0. The string was checked by the scanner. */
int32_t jstr_next(const struct jstr *s, size_t *at);
bool jstr_is(const struct jstr *s, const char *word); /* also through escapes */
/* Decoded UTF-8, cut at a character so that it fits with its NUL; halves become U+FFFD, control characters
 * '?'. Returns bytes written. An absent string gives "". */
size_t jstr_copy(const struct jstr *s, char *out, size_t size);
size_t utf8_put(char out[4], uint32_t cp);
/* Bytes of the valid UTF-8 character at p (1..4), 0 when there is none within `len`. */
size_t utf8_len(const char *p, size_t len);

#endif
