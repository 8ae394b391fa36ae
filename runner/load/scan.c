/* SPDX-License-Identifier: Apache-2.0 */
#include "load/scan.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define U64_EXACT_MAX (1ull << 53)

void scan_init(struct scan *s, const char *text, size_t len)
{
	*s = (struct scan){ .p = text, .end = text + len };
}

static void fault(struct scan *s)
{
	s->bad = true;
	s->p = s->end;
}

size_t utf8_len(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;
	if (len == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	size_t n = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2;
	if (u[0] < 0xC2 || u[0] > 0xF4 || n > len)
		return 0;
	unsigned char lo = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
	unsigned char hi = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
	if (u[1] < lo || u[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((u[i] & 0xC0) != 0x80)
			return 0;
	}
	return n;
}

size_t utf8_put(char out[4], uint32_t cp)
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xC0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3F));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xE0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
		out[2] = (char)(0x80 | (cp & 0x3F));
		return 3;
	}
	out[0] = (char)(0xF0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
	out[3] = (char)(0x80 | (cp & 0x3F));
	return 4;
}

/* Passes plain bytes many at a time: stops at or before the first quote, backslash, control or non-ASCII.
 * Exactly there with SSE2; the portable form (no exact place, but none passed over) is for other machines. */
#ifdef __SSE2__
static inline const char *plain_run(const char *p, const char *end)
{
	const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\'), blank = _mm_set1_epi8(0x20);
	while (end - p >= 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, back)),
		                           _mm_cmplt_epi8(x, blank)); /* signed: also 0x80 and above */
		unsigned mask = (unsigned)_mm_movemask_epi8(hit);
		if (mask)
			return p + __builtin_ctz(mask);
		p += 16;
	}
	return p;
}
#else
#define ONES 0x0101010101010101ull
static inline const char *plain_run(const char *p, const char *end)
{
	while (end - p >= 8) {
		uint64_t x;
		memcpy(&x, p, 8);
		uint64_t quote = x ^ ONES * '"', back = x ^ ONES * '\\';
		uint64_t hit = ((quote - ONES) & ~quote) | ((back - ONES) & ~back) | (x - ONES * 0x20) | x;
		if (hit & ONES << 7)
			break;
		p += 8;
	}
	return p;
}
#endif

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* At a backslash. Bytes of the escape, 0 when it is none. */
static size_t escape_len(const char *p, const char *end)
{
	if (end - p < 2)
		return 0;
	if (p[1] != 'u')
		return p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
	if (end - p < 6)
		return 0;
	for (int i = 2; i < 6; i++) {
		if (hex_value(p[i]) < 0)
			return 0;
	}
	return 6;
}

/* At the opening quote. */
static bool string(struct scan *s, struct jstr *out)
{
	const char *p = s->p + 1, *end = s->end;
	bool esc = false;
	for (;;) {
		p = plain_run(p, end);
		size_t n = 0;
		if (p < end && *p == '"') {
			*out = (struct jstr){ .p = s->p + 1, .len = (size_t)(p - s->p - 1), .esc = esc };
			s->p = p + 1;
			return true;
		}
		if (p < end && *p == '\\') {
			esc = true;
			n = escape_len(p, end);
		} else if (p < end && (unsigned char)*p >= 0x20) {
			n = utf8_len(p, (size_t)(end - p));
		}
		if (n == 0) {
			fault(s);
			return false;
		}
		p += n;
	}
}

void scan_enter(struct scan *s)
{
	if (s->bad)
		return;
	if (++s->depth > SCAN_DEPTH_MAX) {
		fault(s);
		return;
	}
	s->p++;
	s->first = true;
}

static void leave(struct scan *s)
{
	s->p++;
	s->depth--;
	s->first = false;
}

/* True when a further member or element begins here. */
static bool more(struct scan *s, char close)
{
	char c = scan_peek(s);
	if (s->bad || c == '\0') {
		fault(s);
		return false;
	}
	if (c == close) {
		leave(s);
		return false;
	}
	if (s->first) {
		s->first = false;
		return true;
	}
	if (c != ',') {
		fault(s);
		return false;
	}
	s->p++;
	return true;
}

bool scan_member(struct scan *s, struct jstr *key)
{
	if (!more(s, '}'))
		return false;
	if (scan_peek(s) != '"' || !string(s, key) || scan_peek(s) != ':') {
		fault(s);
		return false;
	}
	s->p++;
	return true;
}

bool scan_element(struct scan *s)
{
	return more(s, ']');
}

static bool literal(struct scan *s, const char *word)
{
	size_t n = strlen(word);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) {
		fault(s);
		return false;
	}
	s->p += n;
	return true;
}

static size_t digits(const char *p, const char *end)
{
	const char *q = p;
	while (q < end && *q >= '0' && *q <= '9')
		q++;
	return (size_t)(q - p);
}

/* RFC 8259 grammar. *whole is the value of a plain whole number within the bound, else UINT64_MAX. */
static void number(struct scan *s, uint64_t *whole)
{
	const char *p = s->p;
	bool minus = p < s->end && *p == '-', plain = !minus;
	p += minus;
	size_t n = digits(p, s->end);
	uint64_t v = 0;
	if (n == 0 || (n > 1 && *p == '0')) {
		fault(s);
		return;
	}
	for (size_t i = 0; i < n; i++)
		v = v > U64_EXACT_MAX ? v : v * 10 + (uint64_t)(p[i] - '0');
	p += n;
	if (p < s->end && *p == '.') {
		plain = false;
		n = digits(++p, s->end);
		p += n;
	}
	if (n && p < s->end && (*p == 'e' || *p == 'E')) {
		plain = false;
		p++;
		p += p < s->end && (*p == '+' || *p == '-');
		n = digits(p, s->end);
		p += n;
	}
	if (n == 0) {
		fault(s);
		return;
	}
	s->p = p;
	*whole = plain && v <= U64_EXACT_MAX ? v : UINT64_MAX;
}

static void skip_scalar(struct scan *s, char c)
{
	struct jstr str;
	uint64_t n;
	if (c == '"')
		string(s, &str);
	else if (c == 't')
		literal(s, "true");
	else if (c == 'f')
		literal(s, "false");
	else if (c == 'n')
		literal(s, "null");
	else
		number(s, &n);
}

/* Containers without recursion: `kinds` remembers, one bit a level, which of the two is open. */
void scan_skip(struct scan *s)
{
	uint64_t kinds[SCAN_DEPTH_MAX / 64 + 1] = { 0 };
	unsigned base = s->depth;
	do {
		struct jstr key;
		if (s->depth > base) {
			bool obj = kinds[s->depth / 64] >> (s->depth % 64) & 1;
			if (!(obj ? scan_member(s, &key) : scan_element(s)))
				continue;
		}
		char c = scan_peek(s);
		if (c == '{' || c == '[') {
			scan_enter(s);
			if (s->bad)
				return;
			uint64_t bit = 1ull << (s->depth % 64);
			kinds[s->depth / 64] =
				c == '{' ? kinds[s->depth / 64] | bit : kinds[s->depth / 64] & ~bit;
		} else {
			skip_scalar(s, c);
		}
	} while (s->depth > base && !s->bad);
}

bool scan_string_here(struct scan *s, struct jstr *out)
{
	return string(s, out);
}

bool scan_str(struct scan *s, struct jstr *out)
{
	if (scan_peek(s) == '"')
		return string(s, out);
	scan_skip(s);
	return false;
}

bool scan_u64(struct scan *s, uint64_t *out)
{
	char c = scan_peek(s);
	uint64_t v = UINT64_MAX;
	if (c == '-' || (c >= '0' && c <= '9'))
		number(s, &v);
	else
		scan_skip(s);
	if (s->bad || v == UINT64_MAX)
		return false;
	*out = v;
	return true;
}

bool scan_bool(struct scan *s, bool *out)
{
	char c = scan_peek(s);
	scan_skip(s);
	if (s->bad || (c != 't' && c != 'f'))
		return false;
	*out = c == 't';
	return true;
}

bool scan_end(struct scan *s)
{
	return scan_peek(s) == '\0' && s->p == s->end && !s->bad && s->depth == 0;
}

static int32_t escaped_unit(const char *p)
{
	int32_t v = 0;
	for (int i = 2; i < 6; i++)
		v = v << 4 | hex_value(p[i]);
	return v;
}

static int32_t decode_escape(const struct jstr *s, size_t *at)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *p = s->p + *at;
	if (p[1] != 'u') {
		const char *f = strchr(from, p[1]);
		*at += 2;
		return f ? to[f - from] : p[1];
	}
	int32_t cp = escaped_unit(p);
	*at += 6;
	if (cp < 0xD800 || cp > 0xDBFF || s->len - *at < 6 || p[6] != '\\' || p[7] != 'u')
		return cp;
	int32_t low = escaped_unit(p + 6);
	if (low < 0xDC00 || low > 0xDFFF)
		return cp;
	*at += 6;
	return 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
}

int32_t jstr_next(const struct jstr *s, size_t *at)
{
	if (*at >= s->len)
		return -1;
	const unsigned char *u = (const unsigned char *)s->p + *at;
	if (u[0] == '\\')
		return decode_escape(s, at);
	if (u[0] < 0x80) {
		*at += 1;
		return u[0];
	}
	size_t n = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2;
	int32_t cp = u[0] & (0xFF >> (n + 1));
	for (size_t i = 1; i < n; i++)
		cp = cp << 6 | (u[i] & 0x3F);
	*at += n;
	return cp;
}

bool jstr_is(const struct jstr *s, const char *word)
{
	size_t n = strlen(word), at = 0;
	if (!s->p)
		return false;
	if (!s->esc)
		return s->len == n && memcmp(s->p, word, n) == 0;
	for (size_t i = 0; i < n; i++) {
		if (jstr_next(s, &at) != (unsigned char)word[i])
			return false;
	}
	return at == s->len;
}

size_t jstr_copy(const struct jstr *s, char *out, size_t size)
{
	size_t at = 0, n = 0;
	char ch[4];
	while (s->p && at < s->len) {
		int32_t cp = jstr_next(s, &at);
		if (cp >= 0xD800 && cp <= 0xDFFF)
			cp = 0xFFFD;
		else if (cp < 0x20 || cp == 0x7F)
			cp = '?';
		size_t len = utf8_put(ch, (uint32_t)cp);
		if (n + len >= size)
			break;
		memcpy(out + n, ch, len);
		n += len;
	}
	out[n] = '\0';
	return n;
}
