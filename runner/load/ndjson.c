/* SPDX-License-Identifier: Apache-2.0 */
#include "load/ndjson.h"

#include <string.h>

void nd_init(struct ndjson *n, size_t max_line_bytes)
{
	memset(n, 0, sizeof *n);
	n->max_line_bytes = max_line_bytes;
	buf_init(&n->line, max_line_bytes + 1); /* a CR in front of the LF does not count */
}

void nd_done(struct ndjson *n)
{
	buf_done(&n->line);
}

void nd_reset(struct ndjson *n)
{
	struct buf line = n->line;
	size_t max = n->max_line_bytes;
	memset(n, 0, sizeof *n);
	n->line = line;
	n->max_line_bytes = max;
	buf_clear(&n->line);
}

void nd_feed(struct ndjson *n, const char *bytes, size_t len)
{
	n->p = bytes;
	n->end = bytes + len;
}

static void keep(struct ndjson *n, const char *p, size_t len)
{
	if (len && buf_add(&n->line, p, len) < 0)
		n->too_long = true;
}

static bool is_blank(const char *p, size_t len)
{
	while (len && (*p == ' ' || *p == '\t' || *p == '\r')) {
		p++;
		len--;
	}
	return len == 0;
}

/* The next whole line without its end. False when the read holds none: the rest is kept. */
static bool next_line(struct ndjson *n, const char **line, size_t *len)
{
	if (n->clear_line) {
		buf_clear(&n->line);
		n->clear_line = false;
	}
	if (n->p == n->end)
		return false;
	const char *lf = memchr(n->p, '\n', (size_t)(n->end - n->p));
	*line = n->p;
	*len = (size_t)((lf ? lf : n->end) - n->p);
	n->p = lf ? lf + 1 : n->end;
	if (!lf || n->line.len) {
		keep(n, *line, *len);
		*line = n->line.p;
		*len = n->line.len;
		n->clear_line = lf != NULL;
	}
	if (!lf)
		return false;
	if (*len && (*line)[*len - 1] == '\r')
		--*len;
	n->too_long |= *len > n->max_line_bytes;
	return true;
}

enum nd_step nd_next(struct ndjson *n, const char **line, size_t *len)
{
	while (!n->too_long && next_line(n, line, len) && !n->too_long) {
		if (!is_blank(*line, *len)) {
			n->n_lines++;
			return ND_LINE;
		}
		n->n_blank++;
	}
	return n->too_long ? ND_LONG : ND_MORE;
}

bool nd_rest(const struct ndjson *n, const char **line, size_t *len)
{
	if (n->clear_line || is_blank(n->line.p, n->line.len))
		return false;
	*line = n->line.p;
	*len = n->line.len;
	return true;
}
