// SPDX-License-Identifier: Apache-2.0
#include "model/prom.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <math.h>
#include <string.h>

struct scan {
	const char *p, *end;
};

static bool at_end(const struct scan *s)
{
	return s->p >= s->end;
}

static void skip_blanks(struct scan *s)
{
	while (!at_end(s) && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
}

static bool name_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
	       (!first && c >= '0' && c <= '9');
}

static char *take_name(struct scan *s)
{
	const char *start = s->p;
	while (!at_end(s) && name_char(*s->p, s->p == start))
		s->p++;
	return s->p > start ? strndup(start, (size_t)(s->p - start)) : NULL;
}

static char *take_quoted(struct scan *s)
{
	if (at_end(s) || *s->p != '"')
		return NULL;
	auto_free char *out = malloc((size_t)(s->end - s->p));
	size_t n = 0;
	if (!out)
		return NULL;
	for (s->p++; !at_end(s) && *s->p != '"'; s->p++) {
		char c = *s->p;
		if (c == '\\' && s->p + 1 < s->end) {
			c = *++s->p;
			if (c == 'n')
				c = '\n';
			else if (c != '\\' && c != '"')
				out[n++] = '\\';
		}
		out[n++] = c;
	}
	if (at_end(s))
		return NULL;
	s->p++;
	out[n] = 0;
	return steal_ptr(&out);
}

static bool take_label(struct scan *s, struct prom_sample *out)
{
	struct prom_label l = { .name = take_name(s) };
	skip_blanks(s);
	if (l.name && !at_end(s) && *s->p == '=') {
		s->p++;
		skip_blanks(s);
		l.value = take_quoted(s);
	}
	struct prom_label *more = l.value && out->n_labels < PROM_LABELS_MAX
	                                  ? realloc(out->labels, (out->n_labels + 1) * sizeof l)
	                                  : NULL;
	if (!more) {
		free(l.name);
		free(l.value);
		return false;
	}
	out->labels = more;
	more[out->n_labels++] = l;
	return true;
}

static bool take_labels(struct scan *s, struct prom_sample *out)
{
	skip_blanks(s);
	if (at_end(s) || *s->p != '{')
		return true;
	for (s->p++;;) {
		skip_blanks(s);
		if (!at_end(s) && *s->p == '}') {
			s->p++;
			return true;
		}
		if (!take_label(s, out))
			return false;
		skip_blanks(s);
		if (!at_end(s) && *s->p == ',')
			s->p++;
		else if (at_end(s) || *s->p != '}')
			return false;
	}
}

static size_t take_word(struct scan *s, char *out, size_t size)
{
	size_t n = 0;
	skip_blanks(s);
	while (!at_end(s) && *s->p != ' ' && *s->p != '\t' && *s->p != '\r') {
		if (n + 1 >= size)
			return 0;
		out[n++] = *s->p++;
	}
	out[n] = 0;
	return n;
}

// A value: decimal number, NaN, +Inf, -Inf. strtod alone would also take hex.
static bool take_value(struct scan *s, double *value)
{
	char word[64], *end;
	size_t n = take_word(s, word, sizeof word);
	if (!n || strpbrk(word, "xX(p"))
		return false;
	*value = strtod(word, &end);
	return end == word + n;
}

static bool take_timestamp(struct scan *s, struct prom_sample *out)
{
	char word[32], *end;
	size_t n = take_word(s, word, sizeof word);
	if (!n)
		return at_end(s);
	out->timestamp_ms = strtoll(word, &end, 10);
	out->has_timestamp = true;
	skip_blanks(s);
	return end == word + n && at_end(s);
}

static void sample_done(struct prom_sample *s)
{
	for (size_t i = 0; i < s->n_labels; i++) {
		free(s->labels[i].name);
		free(s->labels[i].value);
	}
	free(s->labels);
	free(s->name);
}

static void read_line(struct prom_page *page, size_t *cap, struct scan s)
{
	skip_blanks(&s);
	if (at_end(&s) || *s.p == '#')
		return;
	struct prom_sample one = { 0 };
	one.name = take_name(&s);
	if (!one.name || !take_labels(&s, &one) || !take_value(&s, &one.value) || !take_timestamp(&s, &one)) {
		page->n_odd_lines++;
		sample_done(&one);
		return;
	}
	if (page->n == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		void *p = page->n < PROM_SAMPLES_MAX ? realloc(page->list, more * sizeof one) : NULL;
		if (!p) {
			page->cut = true;
			sample_done(&one);
			return;
		}
		page->list = p;
		*cap = more;
	}
	page->list[page->n++] = one;
}

void prom_read(struct prom_page *out, const char *text, size_t len)
{
	struct prom_page page = { 0 };
	size_t cap = 0;
	for (const char *p = text, *end = text + len; p < end && !page.cut;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *line_end = nl ? nl : end;
		read_line(&page, &cap, (struct scan){ p, line_end });
		p = line_end + 1;
	}
	*out = page;
}

void prom_done(struct prom_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		sample_done(&p->list[i]);
	free(p->list);
	*p = (struct prom_page){ 0 };
}

const struct prom_sample *prom_find(const struct prom_page *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->list[i].name, name))
			return &p->list[i];
	return NULL;
}

const char *prom_label(const struct prom_sample *s, const char *name)
{
	for (size_t i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].name, name))
			return s->labels[i].value;
	return NULL;
}

// Every label but le is the same.
static bool same_series(const struct prom_sample *a, const struct prom_sample *b)
{
	if (a->n_labels != b->n_labels)
		return false;
	for (size_t i = 0; i < a->n_labels; i++) {
		const char *other = prom_label(b, a->labels[i].name);
		if (!other || (strcmp(a->labels[i].name, "le") && strcmp(a->labels[i].value, other)))
			return false;
	}
	return true;
}

static int by_le(const void *a, const void *b)
{
	double x = ((const struct prom_bucket *)a)->le, y = ((const struct prom_bucket *)b)->le;
	return (x > y) - (x < y);
}

static double value_of(const struct prom_page *p, const char *base, const char *suffix)
{
	auto_free char *name = str_fmt("%s%s", base, suffix);
	const struct prom_sample *s = name ? prom_find(p, name) : NULL;
	return s ? s->value : (double)NAN;
}

bool prom_histogram(const struct prom_page *p, const char *base, struct prom_histogram *out)
{
	auto_free char *name = str_fmt("%s_bucket", base);
	const struct prom_sample *first = name ? prom_find(p, name) : NULL;
	if (!first)
		return false;
	struct prom_histogram h = { .count = value_of(p, base, "_count"), .sum = value_of(p, base, "_sum") };
	h.buckets = malloc(p->n * sizeof *h.buckets);
	if (!h.buckets)
		return false;
	for (const struct prom_sample *s = first; s < p->list + p->n; s++) {
		const char *le = prom_label(s, "le");
		char *end = NULL;
		if (!le || strcmp(s->name, name) || !same_series(first, s))
			continue;
		struct prom_bucket b = { strtod(le, &end), s->value };
		if (end > le && !*end && !isnan(b.le) && !isnan(b.count))
			h.buckets[h.n++] = b;
	}
	qsort(h.buckets, h.n, sizeof *h.buckets, by_le);
	*out = h;
	return true;
}

bool prom_quantile_range(const struct prom_histogram *h, unsigned num, unsigned den, double *lower,
                         double *upper)
{
	double total = h->n ? h->buckets[h->n - 1].count : 0;
	double below = h->n && h->buckets[0].le > 0 ? 0 : -(double)INFINITY;
	if (!(total > 0))
		return false;
	double rank = ceil(total * num / den);
	for (size_t i = 0; i < h->n; i++) {
		if (h->buckets[i].count >= rank) {
			*lower = below;
			*upper = h->buckets[i].le;
			return true;
		}
		below = h->buckets[i].le;
	}
	return false;
}
