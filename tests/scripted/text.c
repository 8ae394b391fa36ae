/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- growing text --- */

static void sb_room(struct sb *b, size_t more)
{
	if (b->len + more + 1 <= b->cap)
		return;
	size_t cap = b->cap ? b->cap : 256;
	while (cap < b->len + more + 1)
		cap *= 2;
	char *p = realloc(b->p, cap);
	if (!p)
		abort();
	b->p = p;
	b->cap = cap;
}

void sb_add(struct sb *b, const void *data, size_t len)
{
	sb_room(b, len);
	if (len)
		memcpy(b->p + b->len, data, len);
	b->len += len;
	b->p[b->len] = '\0';
}

void sb_adds(struct sb *b, const char *s)
{
	sb_add(b, s, strlen(s));
}

void sb_addf(struct sb *b, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		abort();
	sb_add(b, text, (size_t)n);
}

void sb_json(struct sb *b, const char *s, size_t len)
{
	sb_add(b, "\"", 1);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == '"' || c == '\\')
			sb_addf(b, "\\%c", c);
		else if (c == '\n')
			sb_adds(b, "\\n");
		else if (c < 0x20)
			sb_addf(b, "\\u%04x", c);
		else
			sb_add(b, &s[i], 1);
	}
	sb_add(b, "\"", 1);
}

/* --- JSON, read in place --- */

static size_t skip_blank(struct span s, size_t i)
{
	while (i < s.len && strchr(" \t\r\n", s.p[i]) && s.p[i])
		i++;
	return i;
}

static size_t skip_string(struct span s, size_t i)
{
	for (i++; i < s.len && s.p[i] != '"'; i++)
		if (s.p[i] == '\\')
			i++;
	return i < s.len ? i + 1 : s.len;
}

static size_t skip_value(struct span s, size_t i)
{
	size_t depth = 0;
	while (i < s.len) {
		char c = s.p[i];
		if (c == '"') {
			i = skip_string(s, i);
		} else if (c == '{' || c == '[') {
			depth++;
			i++;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return i;
			depth--;
			i++;
		} else if (depth == 0 && (c == ',' || c == ':')) {
			return i;
		} else {
			i++;
			continue;
		}
		if (depth == 0)
			return i;
	}
	return i;
}

struct span json_member(struct span obj, const char *key)
{
	size_t i = obj.p ? skip_blank(obj, 0) : 0;
	if (!obj.p || i >= obj.len || obj.p[i] != '{')
		return (struct span){ 0 };
	i++;
	while ((i = skip_blank(obj, i)) < obj.len && obj.p[i] == '"') {
		size_t name = i + 1, end = skip_string(obj, i);
		bool hit = end - 1 - name == strlen(key) && !memcmp(obj.p + name, key, end - 1 - name);
		i = skip_blank(obj, end);
		if (i >= obj.len || obj.p[i] != ':')
			break;
		i = skip_blank(obj, i + 1);
		size_t start = i;
		i = skip_value(obj, i);
		if (hit)
			return (struct span){ obj.p + start, i - start };
		i = skip_blank(obj, i);
		if (i < obj.len && obj.p[i] == ',')
			i++;
	}
	return (struct span){ 0 };
}

bool json_elem(struct span *rest, struct span *elem)
{
	struct span s = *rest;
	size_t i = s.p ? skip_blank(s, 0) : 0;
	if (!s.p || i >= s.len || !strchr("[,", s.p[i]))
		return false;
	i = skip_blank(s, i + 1);
	if (i >= s.len || s.p[i] == ']')
		return false;
	size_t end = skip_value(s, i);
	*elem = (struct span){ s.p + i, end - i };
	*rest = (struct span){ s.p + end, s.len - end };
	return end > i;
}

bool json_valid_shape(struct span s)
{
	size_t i = skip_blank(s, 0), depth = 0;
	if (i >= s.len || s.p[i] != '{')
		return false;
	while (i < s.len) {
		char c = s.p[i];
		if (c == '"') {
			size_t end = skip_string(s, i);
			if (end - i < 2 || s.p[end - 1] != '"')
				return false;
			i = end;
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		if ((c == '}' || c == ']') && depth-- == 0)
			return false;
		i++;
		if (depth == 0)
			break;
	}
	return depth == 0 && skip_blank(s, i) == s.len;
}

static unsigned hex4(const char *p)
{
	char t[5] = { p[0], p[1], p[2], p[3], 0 };
	return (unsigned)strtoul(t, NULL, 16);
}

static void add_utf8(struct sb *b, unsigned cp)
{
	char u[4];
	size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n; i > 1; i--, cp >>= 6)
		u[i - 1] = (char)(0x80 | (cp & 0x3f));
	u[0] = (char)(lead[n] | cp);
	sb_add(b, u, n);
}

char *json_text(struct span v, size_t *len)
{
	struct sb b = { 0 };
	if (!v.p || v.len < 2 || v.p[0] != '"')
		return NULL;
	sb_add(&b, "", 0);
	size_t end = v.len - 1;
	for (size_t i = 1; i < end; i++) {
		if (v.p[i] != '\\') {
			sb_add(&b, v.p + i, 1);
			continue;
		}
		i++;
		static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
		const char *at = i < end && v.p[i] ? strchr(from, v.p[i]) : NULL;
		if (at) {
			sb_add(&b, &to[at - from], 1);
		} else if (i + 4 < end && v.p[i] == 'u') {
			unsigned cp = hex4(v.p + i + 1);
			i += 4;
			if (cp >> 10 == 0x36 && i + 6 < end && v.p[i + 1] == '\\') {
				cp = 0x10000 + ((cp & 0x3ff) << 10) + (hex4(v.p + i + 3) & 0x3ff);
				i += 6;
			}
			add_utf8(&b, cp);
		} else if (i < end) {
			sb_add(&b, v.p + i, 1);
		}
	}
	if (len)
		*len = b.len;
	return b.p;
}

bool json_true(struct span v)
{
	return v.p && v.len >= 4 && !memcmp(v.p, "true", 4);
}

double json_number(struct span v, double otherwise)
{
	char text[40];
	if (!v.p || v.len == 0 || v.len >= sizeof(text) || !strchr("-0123456789", v.p[0]))
		return otherwise;
	memcpy(text, v.p, v.len);
	text[v.len] = '\0';
	return strtod(text, NULL);
}

/* --- tokens --- */

static bool blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

size_t next_piece(const char *text, size_t len, size_t at)
{
	while (at < len && blank(text[at]))
		at++;
	while (at < len && !blank(text[at]))
		at++;
	return at;
}

size_t count_pieces(const char *text, size_t len)
{
	size_t n = 0;
	for (size_t at = 0; at < len; at = next_piece(text, len, at))
		n++;
	return n;
}

uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325ull ^ seed;
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return mix64(h);
}

#define SEEN_MAX 65536u
static struct seen {
	uint32_t id;
	char *piece;
	size_t len;
} seen[SEEN_MAX];

uint32_t piece_id(const char *p, size_t len)
{
	uint32_t id = 16 + (uint32_t)(hash64(p, len, 0) % 0x3ffffff0u);
	struct seen *s = &seen[id % SEEN_MAX]; /* a later piece in the same place wins: bounded */
	if (s->id != id) {
		free(s->piece);
		s->piece = malloc(len + 1);
		if (!s->piece)
			abort();
		memcpy(s->piece, p, len);
		s->piece[len] = '\0';
		s->len = len;
		s->id = id;
	}
	return id;
}

const char *piece_of(uint32_t id, size_t *len)
{
	const struct seen *s = &seen[id % SEEN_MAX];
	if (s->id != id || !s->piece)
		return NULL;
	*len = s->len;
	return s->piece;
}

static const char *const words[] = {
	"river",  "stone",  "window", "garden", "letter", "winter", "bridge",  "copper",
	"meadow", "signal", "harbor", "silver", "engine", "paper",  "forest",  "candle",
	"mirror", "valley", "thread", "summer", "anchor", "basket", "orchard", "lantern",
	"marble", "needle", "oyster", "pepper", "quarry", "ribbon", "saddle",  "timber",
};

void add_word(struct sb *out, uint64_t key, size_t k)
{
	sb_adds(out, " ");
	sb_adds(out, words[mix64(key + k) % (sizeof(words) / sizeof(words[0]))]);
}

/* --- known answers --- */

#define ANSWERS_MAX 256
static struct {
	char *needle, *answer;
} table[ANSWERS_MAX];
static size_t n_table;

static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (s[0] == '\\' && (s[1] == 'n' || s[1] == 't' || s[1] == '\\')) {
			*to++ = s[1] == 'n' ? '\n' : s[1] == 't' ? '\t' : '\\';
			s++;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

void answers_load(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	if (!f) {
		perror(path);
		exit(1);
	}
	while (n_table < ANSWERS_MAX && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		char *tab = strchr(line, '\t');
		if (!tab)
			continue;
		*tab = '\0';
		table[n_table].needle = strdup(line);
		table[n_table].answer = strdup(tab + 1);
		unescape(table[n_table++].answer);
	}
	free(line);
	fclose(f);
}

const char *answer_for(const char *prompt)
{
	static const char *const built_in[][2] = {
		{ "capital of France", "Paris" },
		{ "2+2", "4" },
		{ "2 + 2", "4" },
		{ "JSON", "{\"name\": \"proof\", \"value\": 7}" },
	};
	for (size_t i = 0; i < n_table; i++)
		if (strstr(prompt, table[i].needle))
			return table[i].answer;
	for (size_t i = 0; i < sizeof(built_in) / sizeof(built_in[0]); i++)
		if (strstr(prompt, built_in[i][0]))
			return built_in[i][1];
	return NULL;
}
