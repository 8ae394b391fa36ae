/* SPDX-License-Identifier: Apache-2.0 */
/* The body's framing: which bytes of a read belong to the body, and where the message ends. */
#include "load/http1.h"

#include <stdio.h>
#include <string.h>

#define SIZE_DIGITS_MAX (UINT64_MAX >> 5) /* one more hexadecimal digit and room to spare */

enum state {
	IN_HEAD,
	IN_LENGTH, /* `left` bytes to go */
	IN_REST,   /* until the connection closes */
	IN_SIZE,   /* hexadecimal digits of a chunk's size */
	IN_EXTENSION,
	IN_SIZE_LF, /* behind the CR of the size line */
	IN_CHUNK,
	IN_CHUNK_END, /* CR or LF behind the data */
	IN_CHUNK_LF,
	IN_TRAILER,
	AT_END,
	AT_FAULT,
};

struct feed { /* one call of http1_feed */
	char *p, *end;
	char *body;
	size_t body_len;
};

void http1_init(struct http1 *h)
{
	memset(h, 0, sizeof *h);
	buf_init(&h->line, HTTP1_HEAD_BYTES_MAX + 1);
}

void http1_done(struct http1 *h)
{
	buf_done(&h->line);
}

void http1_start(struct http1 *h)
{
	http1_head_init(&h->head);
	h->state = IN_HEAD;
	h->left = 0;
	h->chunk_line_bytes = 0;
	h->any_digit = false;
	h->n_lines = 0;
	h->line.failed = false;
	h->line.len = 0;
}

static void refuse(struct http1 *h, const char *why)
{
	snprintf(h->head.why, sizeof h->head.why, "%s", why);
	h->state = AT_FAULT;
}

static void next_size(struct http1 *h)
{
	h->state = IN_SIZE;
	h->left = 0;
	h->chunk_line_bytes = 0;
	h->any_digit = false;
}

/* RFC 9112, 6.3. */
static void begin_body(struct http1 *h)
{
	const struct http1_head *head = &h->head;
	if (head->status == 204 || head->status == 304) {
		h->state = AT_END;
	} else if (head->chunked) {
		next_size(h);
	} else if (head->has_length) {
		h->left = head->length;
		h->state = h->left ? IN_LENGTH : AT_END;
	} else {
		h->state = IN_REST;
	}
}

/* --- lines --------------------------------------------------------------------------------------------- */

static void take_line(struct http1 *h, const char *line, size_t len)
{
	bool trailer = h->state == IN_TRAILER;
	if (trailer && h->on_trailer && line[0] != '\r' && line[0] != '\n')
		h->on_trailer(h->on_trailer_ctx, line, len);
	h->n_lines++;
	switch (http1_head_line(&h->head, line, len)) {
	case HTTP1_LINE_MORE:
	case HTTP1_LINE_INTERIM:
		break;
	case HTTP1_LINE_END:
		if (trailer)
			h->state = AT_END;
		else
			begin_body(h);
		break;
	case HTTP1_LINE_BAD:
		h->state = AT_FAULT;
		break;
	}
}

/* Something that cannot become a status line is told at once, not when its line ends. */
static bool looks_like_http(const struct http1 *h, const char *more, size_t len)
{
	const char *want = "HTTP/";
	size_t had = h->line.len < 5 ? h->line.len : 5, n = len < 5 - had ? len : 5 - had;
	return (had == 0 || memcmp(h->line.p, want, had) == 0) && memcmp(more, want + had, n) == 0;
}

static void take_head(struct http1 *h, struct feed *f)
{
	const char *lf = memchr(f->p, '\n', (size_t)(f->end - f->p));
	size_t len = lf ? (size_t)(lf + 1 - f->p) : (size_t)(f->end - f->p);
	if (h->head.status == 0 && !looks_like_http(h, f->p, len)) {
		refuse(h, "Received HTTP/0.9 when not allowed");
		return;
	}
	if (h->head.n_bytes + h->line.len + len > HTTP1_HEAD_BYTES_MAX) {
		refuse(h, "the head is over 64 KiB");
		return;
	}
	if (lf && h->line.len == 0) {
		take_line(h, f->p, len);
	} else if (buf_add(&h->line, f->p, len) < 0) {
		refuse(h, "no memory for the head");
	} else if (lf) {
		take_line(h, h->line.p, h->line.len);
		h->line.len = 0;
	}
	f->p += len;
}

/* --- chunks -------------------------------------------------------------------------------------------- */

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void end_size_line(struct http1 *h)
{
	h->state = h->left ? IN_CHUNK : IN_TRAILER;
}

static void take_size(struct http1 *h, struct feed *f)
{
	while (f->p < f->end && h->state == IN_SIZE) {
		char c = *f->p++;
		int digit = hex_of(c);
		if (++h->chunk_line_bytes > HTTP1_CHUNK_LINE_BYTES_MAX)
			refuse(h, "a chunk's size line is over 4096 bytes");
		else if (digit >= 0 && h->left <= SIZE_DIGITS_MAX)
			h->left = h->left << 4 | (uint64_t)digit;
		else if (digit >= 0)
			refuse(h, "a chunk's size is over 63 bit");
		else if (!h->any_digit)
			refuse(h, "a chunk has no size");
		else if (c == '\r')
			h->state = IN_SIZE_LF;
		else if (c == '\n')
			end_size_line(h);
		else if (c == ';' || c == ' ' || c == '\t')
			h->state = IN_EXTENSION;
		else
			refuse(h, "a chunk's size is no number");
		h->any_digit = true;
	}
}

static void take_extension(struct http1 *h, struct feed *f)
{
	while (f->p < f->end && h->state == IN_EXTENSION) {
		char c = *f->p++;
		if (++h->chunk_line_bytes > HTTP1_CHUNK_LINE_BYTES_MAX)
			refuse(h, "a chunk's size line is over 4096 bytes");
		else if (c == '\r')
			h->state = IN_SIZE_LF;
		else if (c == '\n')
			end_size_line(h);
	}
}

static void take_body(struct http1 *h, struct feed *f)
{
	size_t n = (size_t)(f->end - f->p);
	if (h->state != IN_REST && n > h->left)
		n = (size_t)h->left;
	if (f->body_len == 0)
		f->body = f->p;
	else if (f->body + f->body_len != f->p)
		memmove(f->body + f->body_len, f->p, n);
	f->body_len += n;
	f->p += n;
	if (h->state == IN_REST)
		return;
	h->left -= n;
	if (h->left == 0)
		h->state = h->state == IN_CHUNK ? IN_CHUNK_END : AT_END;
}

static void take_byte(struct http1 *h, struct feed *f)
{
	char c = *f->p++;
	if (h->state == IN_CHUNK_END && c == '\r')
		h->state = IN_CHUNK_LF;
	else if (c != '\n')
		refuse(h, h->state == IN_SIZE_LF ? "a chunk's size line ends at a bare CR"
		                                 : "a chunk is longer than its size");
	else if (h->state == IN_SIZE_LF)
		end_size_line(h);
	else
		next_size(h);
}

/* From the end of a chunk's data into the next one's, where all of that lies in the read and looks as it
 * nearly always does; anything else is left to the states above. */
static bool take_next_chunk(struct http1 *h, struct feed *f)
{
	const char *p = f->p + 2;
	uint64_t size = 0;
	int digit;
	if (f->end - f->p < 2 + 8 + 2 || f->p[0] != '\r' || f->p[1] != '\n')
		return false;
	while (p < f->p + 2 + 8 && (digit = hex_of(*p)) >= 0) {
		size = size << 4 | (uint64_t)digit;
		p++;
	}
	if (size == 0 || p[0] != '\r' || p[1] != '\n')
		return false;
	f->p += p + 2 - f->p;
	h->left = size;
	h->state = IN_CHUNK;
	return true;
}

enum http1_step http1_feed(struct http1 *h, char *bytes, size_t len, char **body, size_t *body_len,
                           size_t *n_used)
{
	struct feed f = { .p = bytes, .end = bytes + len, .body = bytes };
	while (f.p < f.end && h->state != AT_END && h->state != AT_FAULT) {
		switch ((enum state)h->state) {
		case IN_HEAD:
		case IN_TRAILER:
			take_head(h, &f);
			break;
		case IN_SIZE:
			take_size(h, &f);
			break;
		case IN_EXTENSION:
			take_extension(h, &f);
			break;
		case IN_LENGTH:
		case IN_REST:
		case IN_CHUNK:
			take_body(h, &f);
			break;
		case IN_CHUNK_END:
			if (!take_next_chunk(h, &f))
				take_byte(h, &f);
			break;
		case IN_SIZE_LF:
		case IN_CHUNK_LF:
			take_byte(h, &f);
			break;
		case AT_END:
		case AT_FAULT:
			break;
		}
	}
	*body = f.body;
	*body_len = f.body_len;
	*n_used = (size_t)(f.p - bytes);
	return h->state == AT_END ? HTTP1_DONE : h->state == AT_FAULT ? HTTP1_BAD : HTTP1_MORE;
}

/* --- the end ------------------------------------------------------------------------------------------- */

enum http1_end http1_closed(const struct http1 *h)
{
	if (h->state == IN_REST)
		return HTTP1_END_OK;
	if (h->state == IN_HEAD)
		return h->head.status >= 200 ? HTTP1_END_HEAD : HTTP1_END_NOTHING;
	return h->state == IN_LENGTH ? HTTP1_END_LENGTH : HTTP1_END_CHUNK;
}

bool http1_keeps(const struct http1 *h)
{
	const struct http1_head *head = &h->head;
	return h->state == AT_END && !head->close &&
	       (head->minor >= 1 || (head->keep_alive && !head->chunked));
}
