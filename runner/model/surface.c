// SPDX-License-Identifier: Apache-2.0
#include "model/surface.h"

#include "base/cleanup.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

#define RUN_MIN 24
#define DISTINCT_MAX 8
#define DISTINCT_CHARS_MIN 64
#define ZLIB_MIN .20
#define REP4_MAX .5

const char *const surface_mark_words[] = {
	"empty",   "not_utf8",       "run",       "few_distinct",  "compressible",
	"repeats", "foreign_script", "bad_chars", "special_token", NULL
};

size_t utf8_get(const char *p, size_t left, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *u = (const unsigned char *)p;
	if (!left)
		return 0;
	if (u[0] < 0x80) {
		*cp = u[0];
		return 1;
	}
	size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
	if (u[0] < 0xc2 || u[0] > 0xf4 || n > left)
		return 0;
	uint32_t v = u[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (u[i] & 0x3f);
	}
	if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return 0;
	*cp = v;
	return n;
}

// Letters by block, close enough to Unicode's Script property for text that a model writes.
static const struct {
	uint32_t first, last;
	unsigned char script; // bit number
} letters[] = {
	{ 0x41, 0x5a, 0 },        { 0x61, 0x7a, 0 },      { 0xaa, 0xaa, 0 },        { 0xba, 0xba, 0 },
	{ 0xc0, 0xd6, 0 },        { 0xd8, 0xf6, 0 },      { 0xf8, 0x2b8, 0 },       { 0x370, 0x373, 1 },
	{ 0x376, 0x377, 1 },      { 0x37b, 0x37d, 1 },    { 0x386, 0x386, 1 },      { 0x388, 0x3ff, 1 },
	{ 0x400, 0x481, 2 },      { 0x48a, 0x52f, 2 },    { 0x531, 0x556, 3 },      { 0x561, 0x587, 3 },
	{ 0x5d0, 0x5ea, 4 },      { 0x620, 0x64a, 5 },    { 0x66e, 0x6d3, 5 },      { 0x710, 0x72f, 6 },
	{ 0x750, 0x77f, 5 },      { 0x780, 0x7a5, 7 },    { 0x904, 0x939, 8 },      { 0x958, 0x961, 8 },
	{ 0x985, 0x9b9, 9 },      { 0xa05, 0xa39, 10 },   { 0xa85, 0xab9, 11 },     { 0xb05, 0xb39, 12 },
	{ 0xb85, 0xbb9, 13 },     { 0xc05, 0xc39, 14 },   { 0xc85, 0xcb9, 15 },     { 0xd05, 0xd3a, 16 },
	{ 0xd85, 0xdc6, 17 },     { 0xe01, 0xe30, 18 },   { 0xe81, 0xeb0, 19 },     { 0xf40, 0xf6c, 20 },
	{ 0x1000, 0x102a, 21 },   { 0x10a0, 0x10ff, 22 }, { 0x1100, 0x11ff, 23 },   { 0x1200, 0x135a, 24 },
	{ 0x1780, 0x17b3, 25 },   { 0x1820, 0x1878, 26 }, { 0x1c80, 0x1c88, 2 },    { 0x1c90, 0x1cbf, 22 },
	{ 0x1e00, 0x1eff, 0 },    { 0x1f00, 0x1ffc, 1 },  { 0x2c60, 0x2c7f, 0 },    { 0x2de0, 0x2dff, 2 },
	{ 0x3005, 0x3007, 27 },   { 0x3041, 0x3096, 28 }, { 0x30a1, 0x30fa, 28 },   { 0x3105, 0x312f, 29 },
	{ 0x3131, 0x318e, 23 },   { 0x3400, 0x4dbf, 27 }, { 0x4e00, 0x9fff, 27 },   { 0xa640, 0xa66e, 2 },
	{ 0xa722, 0xa7ff, 0 },    { 0xac00, 0xd7a3, 23 }, { 0xf900, 0xfaff, 27 },   { 0xfb00, 0xfb06, 0 },
	{ 0xfb1d, 0xfb4f, 4 },    { 0xfb50, 0xfdfb, 5 },  { 0xfe70, 0xfefc, 5 },    { 0xff21, 0xff3a, 0 },
	{ 0xff41, 0xff5a, 0 },    { 0xff66, 0xff9d, 28 }, { 0x10000, 0x1d3ff, 30 }, { 0x1e000, 0x1efff, 30 },
	{ 0x20000, 0x3ffff, 27 },
};
#define SCRIPT_HAN (1u << 27)
#define SCRIPT_KANA (1u << 28)

static const char *const script_names[] = {
	"Latin",      "Greek",   "Cyrillic",  "Armenian", "Hebrew",   "Arabic",   "Syriac",   "Thaana",
	"Devanagari", "Bengali", "Gurmukhi",  "Gujarati", "Oriya",    "Tamil",    "Telugu",   "Kannada",
	"Malayalam",  "Sinhala", "Thai",      "Lao",      "Tibetan",  "Myanmar",  "Georgian", "Hangul",
	"Ethiopic",   "Khmer",   "Mongolian", "Han",      "Hiragana", "Bopomofo",
};

static script_set script_of(uint32_t cp)
{
	size_t low = 0, high = ARRAY_LEN(letters);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (cp > letters[mid].last)
			low = mid + 1;
		else
			high = mid;
	}
	return low < ARRAY_LEN(letters) && cp >= letters[low].first ? 1u << letters[low].script : 0;
}

script_set scripts_of(const char *text, size_t len)
{
	script_set set = 0;
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		uint32_t cp = 0;
		n = utf8_get(text + i, len - i, &cp);
		if (n)
			set |= script_of(cp);
	}
	return set & SCRIPT_KANA ? set | SCRIPT_HAN : set;
}

script_set scripts_named(const char *pattern)
{
	script_set set = 0;
	for (const char *p = strstr(pattern, "\\p{"); p; p = strstr(p + 1, "\\p{")) {
		const char *name = p + 3;
		size_t n = strcspn(name, "}");
		if (n && name[0] == 'L' && n <= 2)
			set = UINT32_MAX;
		if (n == 8 && !memcmp(name, "Katakana", n))
			set |= SCRIPT_KANA;
		for (size_t i = 0; i < ARRAY_LEN(script_names); i++)
			if (n == strlen(script_names[i]) && !memcmp(name, script_names[i], n))
				set |= 1u << i;
	}
	return set & SCRIPT_KANA ? set | SCRIPT_HAN : set;
}

static bool bad_char(uint32_t cp)
{
	return cp == 0xfffd || (cp < 0x20 && cp != '\n' && cp != '\r' && cp != '\t') ||
	       (cp >= 0x7f && cp < 0xa0);
}

static bool blank_char(uint32_t cp)
{
	return cp == ' ' || (cp >= 9 && cp <= 13) || cp == 0xa0 || cp == 0x3000;
}

// One pass over the characters. `seen` is a bit map over all code points.
static void count_chars(struct surface *s, const char *text, size_t len, script_set expected, uint8_t *seen)
{
	uint64_t run = 0;
	uint32_t last = UINT32_MAX;
	bool blank = true;
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp = 0xfffd;
		n = utf8_get(text + i, len - i, &cp);
		if (!n) {
			s->marks |= 1u << MARK_NOT_UTF8;
			n = 1;
		}
		s->chars++;
		run = cp == last ? run + 1 : 1;
		last = cp;
		if (run > s->max_run)
			s->max_run = run;
		if (!(seen[cp >> 3] & 1u << (cp & 7))) {
			seen[cp >> 3] |= (uint8_t)(1u << (cp & 7));
			s->distinct++;
		}
		script_set script = script_of(cp);
		s->letters += script != 0;
		if (script && expected && !(script & expected)) {
			s->foreign_letters++;
			if (!s->foreign)
				s->foreign = cp;
		}
		s->bad_chars += bad_char(cp);
		blank = blank && blank_char(cp);
	}
	if (blank)
		s->marks |= 1u << MARK_EMPTY;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static uint64_t hash_word(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
	return h;
}

static bool ascii_blank(char c)
{
	return c == ' ' || (c >= 9 && c <= 13);
}

static size_t word_hashes(const char *text, size_t len, uint64_t *out)
{
	size_t n = 0;
	for (size_t i = 0; i < len;) {
		while (i < len && ascii_blank(text[i]))
			i++;
		size_t start = i;
		while (i < len && !ascii_blank(text[i]))
			i++;
		if (i > start)
			out[n++] = hash_word(text + start, i - start);
	}
	return n;
}

static double share_repeated(uint64_t *words, size_t n_words)
{
	if (n_words < 4)
		return (double)NAN;
	size_t n = n_words - 3, distinct = 1;
	for (size_t i = 0; i < n; i++) {
		uint64_t h = 0;
		for (size_t k = 0; k < 4; k++)
			h = (h ^ words[i + k]) * 0x9e3779b97f4a7c15u + (h >> 29);
		words[i] = h;
	}
	qsort(words, n, sizeof *words, by_value);
	for (size_t i = 1; i < n; i++)
		distinct += words[i] != words[i - 1];
	return 1 - (double)distinct / (double)n;
}

// Length of a special token written out at `p`, 0 when there is none.
static size_t special_token(const char *p, size_t left)
{
	static const char *const fixed[] = { "<unk>",        "<s>",     "</s>",    "<pad>",
		                             "<bos>",        "<eos>",   "<mask>",  "[UNK]",
		                             "[PAD]",        "[CLS]",   "[SEP]",   "[MASK]",
		                             "[INST]",       "[/INST]", "<<SYS>>", "<start_of_turn>",
		                             "<end_of_turn>" };
	static const char *const begins[] = { "<reserved", "<unused",   "<extra_id_", "<0x",
		                              "[control_", "<SPECIAL_", "<special_" };
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		size_t n = strlen(fixed[i]);
		if (left >= n && !memcmp(p, fixed[i], n))
			return n;
	}
	size_t span = 0;
	while (span < left && span < 64 && p[span] != '>' && p[span] != ']' && (unsigned char)p[span] > ' ')
		span++;
	if (span < 3 || span >= left || span >= 64 || p[span] != (*p == '<' ? '>' : ']'))
		return 0;
	// <|im_end|>, and the same with full-width bars.
	if (p[0] == '<' &&
	    ((p[1] == '|' && p[span - 1] == '|' && span > 3) ||
	     (span > 7 && !memcmp(p + 1, "\xef\xbd\x9c", 3) && !memcmp(p + span - 3, "\xef\xbd\x9c", 3))))
		return span + 1;
	for (size_t i = 0; i < ARRAY_LEN(begins); i++)
		if (span > strlen(begins[i]) && !memcmp(p, begins[i], strlen(begins[i])))
			return span + 1;
	return 0;
}

static void find_special(struct surface *s, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '<' && text[i] != '[')
			continue;
		size_t n = special_token(text + i, len - i);
		if (!n)
			continue;
		if (n >= sizeof s->special)
			n = sizeof s->special - 1;
		memcpy(s->special, text + i, n);
		s->special[n] = 0;
		s->marks |= 1u << MARK_SPECIAL_TOKEN;
		return;
	}
}

static int zlib_ratio(double *out, const char *text, size_t len)
{
	uLongf n = compressBound(len);
	auto_free unsigned char *packed = malloc(n);
	if (!packed || compress2(packed, &n, (const Bytef *)text, len, 6) != Z_OK)
		return -1;
	*out = (double)n / (double)len;
	return 0;
}

static void apply_rules(struct surface *s)
{
	const struct {
		bool hit;
		enum surface_mark mark;
	} rules[] = {
		{ s->max_run >= RUN_MIN, MARK_RUN },
		{ s->distinct <= DISTINCT_MAX && s->chars >= DISTINCT_CHARS_MIN, MARK_FEW_DISTINCT },
		{ s->zlib_ratio < ZLIB_MIN, MARK_COMPRESSIBLE },
		{ s->rep4 > REP4_MAX, MARK_REPEATS },
		{ s->foreign_letters > 0, MARK_FOREIGN_SCRIPT },
		{ s->bad_chars > 0, MARK_BAD_CHARS },
	};
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (rules[i].hit)
			s->marks |= 1u << rules[i].mark;
}

int surface_measure(struct surface *out, const char *text, size_t len, script_set expected)
{
	struct surface s = { .bytes = len, .zlib_ratio = (double)NAN, .rep4 = (double)NAN };
	auto_free uint8_t *seen = calloc(0x110000 / 8, 1);
	auto_free uint64_t *words = malloc((len / 2 + 1) * sizeof *words);
	if (!seen || !words)
		return -1;
	count_chars(&s, text, len, expected, seen);
	if (len && zlib_ratio(&s.zlib_ratio, text, len) < 0)
		return -1;
	s.rep4 = share_repeated(words, word_hashes(text, len, words));
	find_special(&s, text, len);
	apply_rules(&s);
	*out = s;
	return 0;
}
