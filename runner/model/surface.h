/* SPDX-License-Identifier: Apache-2.0 */
/* What the surface of a text tells about a broken model or kernel (statistics rule set 1, output corruption).
 * For known-answer controls these are rules; on free traffic only counters, since tables, rulers and code
 * have long runs too. A fluent but senseless answer passes all of them: only the expectations catch it. */
#ifndef MODEL_SURFACE_H
#define MODEL_SURFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum surface_mark {
	MARK_EMPTY,          /* nothing but white space */
	MARK_NOT_UTF8,       /* bytes that are no UTF-8 */
	MARK_RUN,            /* one character 24 times or more in a row */
	MARK_FEW_DISTINCT,   /* at most 8 different characters in 64 or more */
	MARK_COMPRESSIBLE,   /* zlib level 6 below .20 of its bytes */
	MARK_REPEATS,        /* more than half of its word 4-grams were there before */
	MARK_FOREIGN_SCRIPT, /* a letter of a script that was not expected */
	MARK_BAD_CHARS,      /* U+FFFD or control characters other than \n \r \t */
	MARK_SPECIAL_TOKEN,  /* <unk> <|im_end|> [PAD] <0x0A> … as text */
	N_SURFACE_MARKS
};
extern const char *const surface_mark_words[]; /* "empty" "not_utf8" "run" … NULL-ended, enum order */

struct surface {
	uint64_t bytes, chars, max_run, distinct, letters, foreign_letters, bad_chars;
	double zlib_ratio; /* compressed bytes / bytes; NAN for no text */
	double rep4;       /* 1 - different word 4-grams / all; NAN for under 4 words */
	uint32_t foreign;  /* first foreign letter, 0 = none */
	char special[40];  /* first special token, "" = none */
	uint32_t marks;    /* bit per surface_mark */
};

/* Scripts as a bit set. 0 = no letter, so nothing can be foreign. Kana brings Han with it. */
typedef uint32_t script_set;
script_set scripts_of(const char *text, size_t len);
/* Scripts that a pattern names by property: "\p{Han}" "\p{L}" (every one). */
script_set scripts_named(const char *pattern);

/* `expected` 0 = no letter is foreign. -1 without memory (out untouched). */
int surface_measure(struct surface *out, const char *text, size_t len, script_set expected);

/* Length of the well-formed UTF-8 sequence at `p` and its code point; 0 when there is none. */
size_t utf8_get(const char *p, size_t left, uint32_t *cp);

#endif
