/* SPDX-License-Identifier: Apache-2.0 */
#include "load/scrub.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of `text` that spell the byte `c`, plain or as JSON may: "\/", "\u002f". 0 = another one. */
static size_t spells(const char *text, char c)
{
	char digits[5] = "";
	if (text[0] == '\\' && text[1] == 'u' && strspn(text + 2, "0123456789abcdefABCDEF") >= 4) {
		memcpy(digits, text + 2, 4);
		return strtoul(digits, NULL, 16) == (unsigned char)c ? 6 : 0;
	}
	if (text[0] == '\\' && text[1] == c && !isalnum((unsigned char)c))
		return 2;
	return text[0] == c;
}

/* Bytes of `text` that repeat the secret, or its beginning; 0 = too little of it. */
static size_t repeats(const char *text, const char *secret, size_t enough)
{
	size_t at = 0, n = 0, step;
	while (secret[n] && (step = spells(text + at, secret[n]))) {
		at += step;
		n++;
	}
	return n >= enough ? at : 0;
}

void scrub(char *text, const char *secret)
{
	size_t len = secret ? strlen(secret) : 0;
	size_t enough = len < SCRUB_PREFIX_BYTES ? len : SCRUB_PREFIX_BYTES;
	char *to = text;
	if (!len)
		return;
	while (*text) {
		size_t n = repeats(text, secret, enough);
		size_t stars = n < 3 ? n : 3;
		if (!n) {
			*to++ = *text++;
			continue;
		}
		memset(to, '*', stars);
		to += stars;
		text += n;
	}
	*to = '\0';
}
