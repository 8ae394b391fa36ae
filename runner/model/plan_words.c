/* SPDX-License-Identifier: Apache-2.0 */
/* Small grammars inside the strings of a plan. */
#include "model/plan_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CPUS_MAX 4096

static bool digits(const char *s, size_t n, unsigned *out)
{
	unsigned v = 0;

	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]))
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*out = v;
	return true;
}

static unsigned month_days(unsigned y, unsigned m)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	return m == 2 && leap ? 29 : days[m - 1];
}

static bool day_ok(const char *s)
{
	unsigned y, m, d;

	return strlen(s) >= 10 && digits(s, 4, &y) && s[4] == '-' && digits(s + 5, 2, &m) && s[7] == '-' &&
	       digits(s + 8, 2, &d) && m >= 1 && m <= 12 && d >= 1 && d <= month_days(y, m);
}

static bool zone_ok(const char *s)
{
	unsigned h, m;

	if (*s == 'Z' || *s == 'z')
		return s[1] == '\0';
	return (*s == '+' || *s == '-') && strlen(s) == 6 && digits(s + 1, 2, &h) && s[3] == ':' &&
	       digits(s + 4, 2, &m) && h <= 23 && m <= 59;
}

bool plan_date_ok(const char *text)
{
	unsigned h, m, s;

	if (!day_ok(text))
		return false;
	if (text[10] == '\0')
		return true;
	const char *t = text + 11;
	if ((text[10] != 'T' && text[10] != 't') || strlen(t) < 9 || !digits(t, 2, &h) || t[2] != ':' ||
	    !digits(t + 3, 2, &m) || t[5] != ':' || !digits(t + 6, 2, &s) || h > 23 || m > 59 || s > 60)
		return false;
	t += 8;
	if (*t == '.')
		t += 1 + strspn(t + 1, "0123456789");
	return zone_ok(t);
}

/* "12" or "12-15" at *at; moves *at behind it. */
static bool cpu_range(const char **at, unsigned *first, unsigned *last)
{
	size_t n = strspn(*at, "0123456789");

	if (n == 0 || n > 4 || !digits(*at, n, first))
		return false;
	*at += n;
	*last = *first;
	if (**at == '-') {
		n = strspn(++*at, "0123456789");
		if (n == 0 || n > 4 || !digits(*at, n, last))
			return false;
		*at += n;
	}
	return *first <= *last && *last < CPUS_MAX;
}

bool plan_cpus_ok(const char *text, uint64_t set[64])
{
	uint64_t seen[CPUS_MAX / 64] = { 0 };
	unsigned first, last;

	for (;;) {
		if (!cpu_range(&text, &first, &last))
			return false;
		for (unsigned c = first; c <= last; c++) {
			if (seen[c / 64] >> (c % 64) & 1)
				return false;
			seen[c / 64] |= UINT64_C(1) << (c % 64);
		}
		if (*text != ',')
			break;
		text++;
	}
	if (*text)
		return false;
	if (set)
		memcpy(set, seen, sizeof(seen));
	return true;
}

bool plan_hex(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

bool plan_floating(const char *revision)
{
	static const char *const words[] = { "main",    "master",  "latest", "nightly",  "head", "trunk",
		                             "develop", "dev",     "devel",  "stable",   "edge", "current",
		                             "newest",  "rolling", "tip",    "unstable", NULL };
	char part[32];

	/* any whole word between the usual separators: "nightly-2026-01-02", "v1-latest", "refs/heads/main"
	 */
	for (const char *s = revision; *s;) {
		size_t n = strcspn(s, "-_./:+@ ");
		if (n > 0 && n < sizeof(part)) {
			snprintf(part, sizeof(part), "%.*s", (int)n, s);
			for (const char *const *w = words; *w; w++)
				if (strcasecmp(part, *w) == 0)
					return true;
		}
		s += n;
		s += strspn(s, "-_./:+@ ");
	}
	return false;
}
