/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 answer by bytes (RFC 9112): head, interim answers, Content-Length, chunks with extensions and
 * trailers, bodies that end with the connection. Pure: no socket, no clock. What could be read in two ways is
 * refused, not guessed at; everything is bounded. libcurl's answers go through http1_head_line too, so that
 * both paths refuse the same heads in the same words. */
#ifndef LOAD_HTTP1_H
#define LOAD_HTTP1_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP1_HEAD_BYTES_MAX                                                                                 \
	(64u << 10)                      /* all head and trailer lines of an answer, interim ones included   \
	                                  */
#define HTTP1_CHUNK_LINE_BYTES_MAX 4096u /* size and extensions */

enum http1_coding {
	HTTP1_IDENTITY,
	HTTP1_GZIP,
	HTTP1_DEFLATE,
	HTTP1_BROTLI, /* where its library can be loaded */
};

struct http1_head {
	int status; /* of the last status line, interim ones included; 0 = none yet */
	int minor;  /* HTTP/1.x */
	bool ended; /* the head of the final answer is whole; further lines are trailers */
	bool has_length, chunked, close, keep_alive;
	uint64_t length; /* Content-Length */
	enum http1_coding coding;
	size_t n_bytes; /* of all lines, for the bound */
	char content_type[64];
	char retry_after[40]; /* Retry-After as it came, "" = none; retry.c reads it */
	char why[96];         /* why it was refused; "" = it was not */
};

enum http1_line {
	HTTP1_LINE_MORE,
	HTTP1_LINE_INTERIM, /* a 1xx head ended: the next line is a status line again */
	HTTP1_LINE_END,     /* the final head ended */
	HTTP1_LINE_BAD,     /* head->why says it */
};

void http1_head_init(struct http1_head *h);
/* One line with its LF (or CRLF). Behind the final head: a trailer line. */
enum http1_line http1_head_line(struct http1_head *h, const char *line, size_t len);

enum http1_step {
	HTTP1_MORE,
	HTTP1_DONE, /* the message is whole */
	HTTP1_BAD,  /* head.why says it */
};

struct http1 {
	struct http1_head head;
	int state;
	uint64_t left; /* of the body or of the chunk */
	size_t chunk_line_bytes;
	bool any_digit;
	struct buf line;  /* a head or trailer line whose end has not come */
	uint64_t n_lines; /* whole head lines so far */
	/* Called for each trailer line; for tests. NULL = none. */
	void (*on_trailer)(void *ctx, const char *line, size_t len);
	void *on_trailer_ctx;
};

void http1_init(struct http1 *h);
void http1_done(struct http1 *h);
void http1_start(struct http1 *h); /* the next answer; keeps its memory and hooks */
/* Takes the bytes of one read. The body's are moved together within them: *body, *body_len (0 = none).
 * *n_used < len only at HTTP1_DONE and HTTP1_BAD: bytes behind the end of the message. */
enum http1_step http1_feed(struct http1 *h, char *bytes, size_t len, char **body, size_t *body_len,
                           size_t *n_used);

enum http1_end {
	HTTP1_END_OK,      /* the body was to end with the connection */
	HTTP1_END_NOTHING, /* before any final answer */
	HTTP1_END_HEAD,    /* inside the head */
	HTTP1_END_LENGTH,  /* `left` bytes are missing */
	HTTP1_END_CHUNK,   /* before the last chunk, or inside the trailers */
};
/* What it means that the connection was closed here (not behind HTTP1_DONE). */
enum http1_end http1_closed(const struct http1 *h);
/* May the connection be used for another request, once the message is whole? */
bool http1_keeps(const struct http1 *h);

/* Content coding undone piece by piece, whatever the pieces. */
struct http1_inflate;
/* NULL without memory, or where brotli's library is not there. */
struct http1_inflate *http1_inflate_new(enum http1_coding coding);
void http1_inflate_free(struct http1_inflate *z);
/* Gives what comes out to `take` in pieces of at most 64 KiB; take's nonzero answer ends it. 0, -1 = the
 * bytes are not of that coding (or no memory), 1 = `take` wants no more. */
int http1_inflate_feed(struct http1_inflate *z, const char *bytes, size_t len,
                       int (*take)(void *ctx, const char *bytes, size_t len), void *ctx);

#endif
