/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void text_seek(struct text_cursor *c, const char *text, size_t len, size_t at)
{
	for (; c->at < at && c->at < len; c->at++) {
		unsigned char b = (unsigned char)text[c->at];
		bool cr_alone = b == '\r' && !(c->at + 1 < len && text[c->at + 1] == '\n');
		if (b == '\n' || cr_alone) {
			c->line++;
			c->column = 0;
		} else if ((b & 0xc0) != 0x80) {
			c->column++;
		}
	}
}

size_t text_utf8_len(const char *text, size_t left)
{
	const unsigned char *p = (const unsigned char *)text;
	if (left == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2
	           : (p[0] & 0xf0) == 0xe0      ? 3
	           : (p[0] & 0xf8) == 0xf0      ? 4
	                                        : 0;
	if (n == 0 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, above U+10FFFF */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f) || p[0] > 0xf4)
		return 0;
	return n;
}

static const struct {
	const char *words, *advice;
} word_advice[] = {
	{ "nan inf infinity -nan -inf -infinity", "JSON has neither NaN nor infinity; unknown is null" },
	{ "true false null", "write true, false and null in lower case" },
	{ "none nil undefined", "unknown is null" },
	{ "yes no on off", "write true or false" },
};

static const struct {
	char first;
	const char *advice;
} char_advice[] = {
	{ '\'', "strings and keys take double quotes" },
	{ '/', "JSON has no comments; use a \"note\" member" },
	{ '#', "JSON has no comments; use a \"note\" member" },
	{ '+', "a number starts with a digit or '-'" },
	{ '.', "a number starts with a digit or '-'" },
	{ '\\', "an escape stands only inside a string" },
};

static bool word_in_list(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
		if (strcspn(p, " ") == n && strncasecmp(p, word, n) == 0)
			return true;
	return false;
}

static const char *advice_for_word(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(word_advice); i++)
		if (word_in_list(word_advice[i].words, word))
			return word_advice[i].advice;
	return NULL;
}

static const char *advice_for_char(char c)
{
	for (size_t i = 0; i < ARRAY_LEN(char_advice); i++)
		if (char_advice[i].first == c)
			return char_advice[i].advice;
	return NULL;
}

static size_t word_len(const char *p, size_t left)
{
	size_t n = left > 0 && p[0] == '-';
	while (n < left && (isalnum((unsigned char)p[n]) || p[n] == '_'))
		n++;
	return n;
}

static unsigned code_point(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	if (n == 2)
		return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	if (n == 3)
		return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

void text_found(char *out, const char *text, size_t len, size_t at)
{
	if (at >= len) {
		snprintf(out, TEXT_FOUND_BYTES, "the end of the text");
		return;
	}
	const char *p = text + at;
	unsigned char c = (unsigned char)*p;
	size_t n_utf8 = text_utf8_len(p, len - at), n_word = word_len(p, len - at);
	if (c == 0)
		snprintf(out, TEXT_FOUND_BYTES, "a NUL byte");
	else if (c < 0x20 || c == 0x7f)
		snprintf(out, TEXT_FOUND_BYTES, "control byte 0x%02x", c);
	else if (n_utf8 == 0)
		snprintf(out, TEXT_FOUND_BYTES, "byte 0x%02x, which is not UTF-8", c);
	else if (n_utf8 > 1)
		snprintf(out, TEXT_FOUND_BYTES, "'%.*s' (U+%04X%s)", (int)n_utf8, p, code_point(p, n_utf8),
		         code_point(p, n_utf8) == 0xa0 ? ", a no-break space" : "");
	else if (n_word > 0) {
		char word[33];
		size_t n = n_word < sizeof(word) - 1 ? n_word : sizeof(word) - 1;
		memcpy(word, p, n);
		word[n] = '\0';
		const char *advice = n == n_word ? advice_for_word(word) : NULL;
		snprintf(out, TEXT_FOUND_BYTES, "'%s%s'%s%s%s", word, n < n_word ? "…" : "",
		         advice ? " (" : "", advice ? advice : "", advice ? ")" : "");
	} else {
		const char *advice = advice_for_char(*p);
		snprintf(out, TEXT_FOUND_BYTES, "'%c'%s%s%s", c, advice ? " (" : "", advice ? advice : "",
		         advice ? ")" : "");
	}
}

static bool starts(const char *text, size_t len, const char *with, size_t n)
{
	return len >= n && memcmp(text, with, n) == 0;
}

const char *text_is_not_json(const char *text, size_t len)
{
	if (starts(text, len, "\xff\xfe\0\0", 4) || starts(text, len, "\0\0\xfe\xff", 4))
		return "UTF-32 text, want UTF-8";
	if (starts(text, len, "\xff\xfe", 2) || starts(text, len, "\xfe\xff", 2) ||
	    (len >= 4 && (!text[0] != !text[1]) && (!text[2] != !text[3]) && !text[0] == !text[2]))
		return "UTF-16 text, want UTF-8";
	size_t i = 0;
	if (starts(text, len, "\xef\xbb\xbf", 3))
		i = 3;
	while (i < len && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	if (i + 1 < len && text[i] == '<' && (isalpha((unsigned char)text[i + 1]) || text[i + 1] == '!'))
		return "an HTML page: a proxy answered instead of the server, or the address is wrong";
	if (i + 1 < len && text[i] == '<' && text[i + 1] == '?')
		return "an XML text";
	return NULL;
}

bool text_conflict_mark(const char *text, size_t len, size_t at)
{
	static const char marks[][TEXT_MARK_BYTES + 1] = { "<<<<<<<", "=======", ">>>>>>>", "|||||||" };
	if (at > len)
		return 0;
	while (at > 0 && text[at - 1] != '\n')
		at--;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (starts(text + at, len - at, marks[i], TEXT_MARK_BYTES) &&
		    (len - at == TEXT_MARK_BYTES || text[at + TEXT_MARK_BYTES] != marks[i][0]))
			return 1;
	return 0;
}
