/* SPDX-License-Identifier: Apache-2.0 */
/* Head lines, one at a time. */
#include "load/http1.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LENGTH_MAX (INT64_MAX / 10 - 1)

struct text {
	const char *p;
	size_t len;
};

void http1_head_init(struct http1_head *h)
{
	memset(h, 0, sizeof *h);
}

static enum http1_line refuse(struct http1_head *h, const char *why)
{
	snprintf(h->why, sizeof h->why, "%s", why);
	return HTTP1_LINE_BAD;
}

static bool is(struct text t, const char *word)
{
	return t.len == strlen(word) && strncasecmp(t.p, word, t.len) == 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct text trimmed(const char *p, size_t len)
{
	while (len && is_blank(*p)) {
		p++;
		len--;
	}
	while (len && is_blank(p[len - 1]))
		len--;
	return (struct text){ p, len };
}

/* The next member of a comma list; false at its end. Empty members are passed over. */
static bool next_member(struct text *list, struct text *member)
{
	while (list->len) {
		const char *comma = memchr(list->p, ',', list->len);
		size_t n = comma ? (size_t)(comma - list->p) : list->len;
		*member = trimmed(list->p, n);
		list->p += comma ? n + 1 : n;
		list->len -= comma ? n + 1 : n;
		if (member->len)
			return true;
	}
	return false;
}

/* --- fields -------------------------------------------------------------------------------------------- */

static enum http1_line take_length(struct http1_head *h, struct text v)
{
	uint64_t n = 0;
	if (v.len == 0)
		return refuse(h, "Content-Length is empty");
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return refuse(h, "Content-Length is no number");
		if (n > LENGTH_MAX)
			return refuse(h, "Content-Length is over 63 bit");
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	if (h->has_length && h->length != n)
		return refuse(h, "two Content-Length values");
	h->has_length = true;
	h->length = n;
	return HTTP1_LINE_MORE;
}

static enum http1_line take_transfer_coding(struct http1_head *h, struct text v)
{
	struct text member;
	while (next_member(&v, &member)) {
		if (is(member, "identity"))
			continue;
		if (!is(member, "chunked") || h->chunked)
			return refuse(h, "Transfer-Encoding is other than one 'chunked'");
		h->chunked = true;
	}
	return HTTP1_LINE_MORE;
}

static enum http1_line take_content_coding(struct http1_head *h, struct text v)
{
	struct text member;
	while (next_member(&v, &member)) {
		if (is(member, "identity") || is(member, "none"))
			continue;
		bool gzip = is(member, "gzip") || is(member, "x-gzip");
		if (h->coding != HTTP1_IDENTITY)
			return refuse(h, "content encoding: more than one");
		if (!gzip && !is(member, "deflate") && !is(member, "br")) {
			snprintf(h->why, sizeof h->why, "content encoding %.*s cannot be undone",
			         member.len < 24 ? (int)member.len : 24, member.p);
			return HTTP1_LINE_BAD;
		}
		h->coding = gzip ? HTTP1_GZIP : is(member, "br") ? HTTP1_BROTLI : HTTP1_DEFLATE;
	}
	return HTTP1_LINE_MORE;
}

static void take_connection(struct http1_head *h, struct text v)
{
	struct text member;
	while (next_member(&v, &member)) {
		h->close |= is(member, "close");
		h->keep_alive |= is(member, "keep-alive");
	}
}

static enum http1_line take_field(struct http1_head *h, struct text name, struct text value)
{
	if (is(name, "content-length"))
		return take_length(h, value);
	if (is(name, "transfer-encoding"))
		return take_transfer_coding(h, value);
	if (is(name, "content-encoding"))
		return take_content_coding(h, value);
	if (is(name, "connection"))
		take_connection(h, value);
	else if (is(name, "content-type"))
		snprintf(h->content_type, sizeof h->content_type, "%.*s",
		         value.len < sizeof h->content_type ? (int)value.len : (int)sizeof h->content_type,
		         value.p);
	else if (is(name, "retry-after") && value.len < sizeof h->retry_after)
		snprintf(h->retry_after, sizeof h->retry_after, "%.*s", (int)value.len, value.p);
	return HTTP1_LINE_MORE;
}

/* --- lines --------------------------------------------------------------------------------------------- */

static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static enum http1_line field_line(struct http1_head *h, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	if (is_blank(line[0]))
		return refuse(h, "a head line goes on in the next");
	if (!colon || colon == line)
		return refuse(h, "a head line without a name");
	for (const char *p = line; p < colon; p++) {
		if (!is_token_char(*p))
			return refuse(h, "a head line whose name is no name");
	}
	struct text name = { line, (size_t)(colon - line) };
	/* trailers say nothing of framing, whatever they are named */
	return h->ended ? HTTP1_LINE_MORE
	                : take_field(h, name, trimmed(colon + 1, (size_t)(line + len - colon - 1)));
}

/* "HTTP/1.1 200" and what the server likes to add. */
static enum http1_line status_line(struct http1_head *h, const char *line, size_t len)
{
	if (len < 5 || memcmp(line, "HTTP/", 5) != 0)
		return refuse(h, "Received HTTP/0.9 when not allowed");
	if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
	    line[8] != ' ')
		return refuse(h, "the status line is not of HTTP/1.1");
	int status = 0;
	for (int i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9')
			return refuse(h, "the status line has no status");
		status = status * 10 + (line[i] - '0');
	}
	if (status < 100 || (len > 12 && line[12] != ' '))
		return refuse(h, "the status line has no status");
	size_t n_bytes = h->n_bytes;
	http1_head_init(h);
	h->n_bytes = n_bytes;
	h->status = status;
	h->minor = line[7] - '0';
	return HTTP1_LINE_MORE;
}

static enum http1_line head_end(struct http1_head *h)
{
	if (h->ended)
		return HTTP1_LINE_END; /* of the trailers */
	if (h->status == 101)
		return refuse(h, "switches to a protocol that was not asked for");
	if (h->status < 200) {
		h->status = 0;
		return HTTP1_LINE_INTERIM;
	}
	if (h->chunked && h->has_length)
		return refuse(h, "both Transfer-Encoding and Content-Length");
	h->ended = true;
	return HTTP1_LINE_END;
}

enum http1_line http1_head_line(struct http1_head *h, const char *line, size_t len)
{
	h->n_bytes += len;
	if (h->n_bytes > HTTP1_HEAD_BYTES_MAX)
		return refuse(h, "the head is over 64 KiB");
	if (len && line[len - 1] == '\n')
		len--;
	if (len && line[len - 1] == '\r')
		len--;
	if (memchr(line, '\0', len) || memchr(line, '\r', len))
		return refuse(h, "a NUL or a bare CR in the head");
	if (h->status == 0)
		return status_line(h, line, len);
	return len ? field_line(h, line, len) : head_end(h);
}
