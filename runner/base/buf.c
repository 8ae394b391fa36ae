/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = (struct buf){ .max_bytes = max_bytes };
}

void buf_done(struct buf *b)
{
	free(b->p);
	b->p = NULL;
	b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->p)
		b->p[0] = '\0';
}

static int make_room(struct buf *b, size_t add)
{
	if (b->failed || add > b->max_bytes || b->len > b->max_bytes - add)
		return -1;
	size_t want = b->len + add + 1;
	if (want <= b->cap)
		return 0;
	size_t cap = b->cap ? b->cap : 256;
	while (cap < want)
		cap += cap / 2 + 64;
	char *p = realloc(b->p, cap);
	if (!p)
		return -1;
	b->p = p;
	b->cap = cap;
	return 0;
}

int buf_add(struct buf *b, const void *data, size_t len)
{
	if (make_room(b, len)) {
		b->failed = true;
		return -1;
	}
	if (len)
		memcpy(b->p + b->len, data, len);
	b->len += len;
	b->p[b->len] = '\0';
	return 0;
}

int buf_adds(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_addc(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
	char small[512];
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	int rc = -1;
	if (n >= 0 && (size_t)n < sizeof(small)) {
		rc = buf_add(b, small, (size_t)n);
	} else if (n >= 0 && !make_room(b, (size_t)n)) {
		vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
		rc = 0;
	} else {
		b->failed = true;
	}
	va_end(again);
	return rc;
}

char *buf_steal(struct buf *b)
{
	if (b->failed || (!b->p && buf_add(b, "", 0)))
		return NULL;
	char *p = b->p;
	*b = (struct buf){ .max_bytes = b->max_bytes };
	return p;
}

char *str_fmt(const char *fmt, ...)
{
	char *out = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&out, fmt, ap) < 0)
		out = NULL;
	va_end(ap);
	return out;
}
