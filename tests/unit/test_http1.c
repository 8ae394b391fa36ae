/* SPDX-License-Identifier: Apache-2.0 */
/* The plain HTTP/1.1 path: framing by bytes, and the same server played against it and against libcurl: both
 * must make the same record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "load/http1.h"
#include "load/load.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#define TOK "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"}}]}\n\n"
#define FIN "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define BODY TOK TOK FIN DONE
#define OK "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define LENGTH "Content-Length: 197\r\n" /* of BODY; a test checks it */
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define CHUNKS "39\r\n" TOK "\r\n8c\r\n" TOK FIN DONE "\r\n"

/* --- framing by bytes ---------------------------------------------------------------------------------- */

struct framing {
	const char *name, *bytes, *body;
	enum http1_step step;
	const char *why; /* a part of it */
	bool keeps;
	size_t behind;      /* bytes behind the end of the message */
	enum http1_end end; /* of HTTP1_MORE */
};

#define H "HTTP/1.1 200 OK\r\n"
static const struct framing framings[] = {
	{ "length", H "Content-Length: 3\r\n\r\nabc", "abc", HTTP1_DONE, "", true, 0, 0 },
	{ "length 0", H "Content-Length: 0\r\n\r\n", "", HTTP1_DONE, "", true, 0, 0 },
	{ "length, too much", H "Content-Length: 3\r\n\r\nabcde", "abc", HTTP1_DONE, "", true, 2, 0 },
	{ "length, too little", H "Content-Length: 4\r\n\r\nabc", "abc", HTTP1_MORE, "", false, 0,
	  HTTP1_END_LENGTH },
	{ "length twice", H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "abc", HTTP1_DONE, "", true,
	  0, 0 },
	{ "two lengths", H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "", HTTP1_BAD, "two Content",
	  0, 0, 0 },
	{ "length list", H "Content-Length: 3, 3\r\n\r\nabc", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "length signed", H "Content-Length: +3\r\n\r\nabc", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "length negative", H "Content-Length: -3\r\n\r\nabc", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "length hex", H "Content-Length: 0x3\r\n\r\nabc", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "length empty", H "Content-Length:\r\n\r\nabc", "", HTTP1_BAD, "empty", 0, 0, 0 },
	{ "length huge", H "Content-Length: 99999999999999999999\r\n\r\n", "", HTTP1_BAD, "63 bit", 0, 0, 0 },
	{ "rest", H "\r\nabc", "abc", HTTP1_MORE, "", false, 0, HTTP1_END_OK },
	{ "1.0 rest", "HTTP/1.0 200 OK\r\n\r\nabc", "abc", HTTP1_MORE, "", false, 0, HTTP1_END_OK },
	{ "1.0 length closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a", HTTP1_DONE, "", false, 0,
	  0 },
	{ "1.0 keep-alive", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "a",
	  HTTP1_DONE, "", true, 0, 0 },
	{ "close", H "Connection: x, close\r\nContent-Length: 1\r\n\r\na", "a", HTTP1_DONE, "", false, 0, 0 },
	{ "chunks", H CHUNKED "\r\n1\r\na\r\n02\r\nbc\r\n0\r\n\r\n", "abc", HTTP1_DONE, "", true, 0, 0 },
	{ "chunks with LF", H CHUNKED "\n1\na\n2\nbc\n0\n\n", "abc", HTTP1_DONE, "", true, 0, 0 },
	{ "extensions", H CHUNKED "\r\n1;a=\"x;y\"\r\na\r\n0 ; z\r\n\r\n", "a", HTTP1_DONE, "", true, 0, 0 },
	{ "trailers", H CHUNKED "\r\n1\r\na\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n", "a", HTTP1_DONE, "",
	  true, 0, 0 },
	{ "bad trailer", H CHUNKED "\r\n1\r\na\r\n0\r\nno colon\r\n\r\n", "a", HTTP1_BAD, "without a name", 0,
	  0, 0 },
	{ "cut in a chunk", H CHUNKED "\r\n5\r\nab", "ab", HTTP1_MORE, "", false, 0, HTTP1_END_CHUNK },
	{ "cut before the last", H CHUNKED "\r\n2\r\nab\r\n", "ab", HTTP1_MORE, "", false, 0,
	  HTTP1_END_CHUNK },
	{ "cut in trailers", H CHUNKED "\r\n0\r\nX: y\r\n", "", HTTP1_MORE, "", false, 0, HTTP1_END_CHUNK },
	{ "chunk longer", H CHUNKED "\r\n1\r\nab\r\n0\r\n\r\n", "a", HTTP1_BAD, "longer than its size", 0, 0,
	  0 },
	{ "chunk no size", H CHUNKED "\r\n\r\nab", "", HTTP1_BAD, "no size", 0, 0, 0 },
	{ "chunk no hex", H CHUNKED "\r\nxyz\r\nab", "", HTTP1_BAD, "no size", 0, 0, 0 },
	{ "chunk half hex", H CHUNKED "\r\n1g\r\na\r\n", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "chunk signed", H CHUNKED "\r\n-1\r\na\r\n", "", HTTP1_BAD, "no size", 0, 0, 0 },
	{ "chunk 0x", H CHUNKED "\r\n0x1\r\na\r\n", "", HTTP1_BAD, "no number", 0, 0, 0 },
	{ "chunk huge", H CHUNKED "\r\nffffffffffffffffff\r\n", "", HTTP1_BAD, "63 bit", 0, 0, 0 },
	{ "chunk bare CR", H CHUNKED "\r\n1\ra\r\n", "", HTTP1_BAD, "bare CR", 0, 0, 0 },
	{ "both", H "Content-Length: 3\r\n" CHUNKED "\r\n0\r\n\r\n", "", HTTP1_BAD, "both", 0, 0, 0 },
	{ "both, other way", H CHUNKED "Content-Length: 3\r\n\r\n0\r\n\r\n", "", HTTP1_BAD, "both", 0, 0, 0 },
	{ "chunked twice", H CHUNKED CHUNKED "\r\n0\r\n\r\n", "", HTTP1_BAD, "other than one", 0, 0, 0 },
	{ "gzip, chunked", H "Transfer-Encoding: gzip, chunked\r\n\r\n", "", HTTP1_BAD, "other than one", 0,
	  0, 0 },
	{ "xchunked", H "Transfer-Encoding: xchunked\r\n\r\n", "", HTTP1_BAD, "other than one", 0, 0, 0 },
	{ "space before colon", H "Content-Length : 3\r\n\r\nabc", "", HTTP1_BAD, "no name", 0, 0, 0 },
	{ "folded", H "X: a\r\n Content-Length: 3\r\n\r\nabc", "", HTTP1_BAD, "goes on", 0, 0, 0 },
	{ "no colon", H "nothing\r\n\r\nabc", "", HTTP1_BAD, "without a name", 0, 0, 0 },
	{ "bare CR in head", H "X: a\rContent-Length: 3\r\n\r\nabc", "", HTTP1_BAD, "bare CR", 0, 0, 0 },
	{ "interim",
	  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\nContent-Length: 9\r\n\r\n" H
	  "Content-Length: 1\r\n\r\na",
	  "a", HTTP1_DONE, "", true, 0, 0 },
	{ "interim only", "HTTP/1.1 100 Continue\r\n\r\n", "", HTTP1_MORE, "", false, 0, HTTP1_END_NOTHING },
	{ "switch", "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n", "", HTTP1_BAD, "not asked for", 0, 0,
	  0 },
	{ "204", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", "", HTTP1_DONE, "", true, 3, 0 },
	{ "304", "HTTP/1.1 304 Not\r\n" CHUNKED "\r\n", "", HTTP1_DONE, "", true, 0, 0 },
	{ "empty", "", "", HTTP1_MORE, "", false, 0, HTTP1_END_NOTHING },
	{ "half a status line", "HTTP/1.1 20", "", HTTP1_MORE, "", false, 0, HTTP1_END_NOTHING },
	{ "half a head", H "Content-Le", "", HTTP1_MORE, "", false, 0, HTTP1_END_HEAD },
	{ "no HTTP", "SSH-2.0", "", HTTP1_BAD, "HTTP/0.9", 0, 0, 0 },
	{ "HTTP/2", "HTTP/2 200\r\n\r\n", "", HTTP1_BAD, "not of HTTP/1.1", 0, 0, 0 },
	{ "HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", "", HTTP1_BAD, "not of HTTP/1.1", 0, 0, 0 },
	{ "no status", "HTTP/1.1 OK okay\r\n\r\n", "", HTTP1_BAD, "no status", 0, 0, 0 },
	{ "long status", "HTTP/1.1 2000 OK\r\n\r\n", "", HTTP1_BAD, "no status", 0, 0, 0 },
	{ "small status", "HTTP/1.1 020 OK\r\n\r\n", "", HTTP1_BAD, "no status", 0, 0, 0 },
	{ "status alone", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", "a", HTTP1_DONE, "", true, 0, 0 },
	{ "coding", H "Content-Encoding: zstd\r\n\r\n", "", HTTP1_BAD, "zstd cannot be undone", 0, 0, 0 },
	{ "codings", H "Content-Encoding: gzip, gzip\r\n\r\n", "", HTTP1_BAD, "more than one", 0, 0, 0 },
};

static void read_framing(const struct framing *f, size_t step_bytes)
{
	struct http1 h;
	char body[64];
	size_t n_body = 0, len = strlen(f->bytes), at = 0, used = 0;
	enum http1_step step = HTTP1_MORE;
	http1_init(&h);
	http1_start(&h);
	while (at < len && step == HTTP1_MORE) {
		size_t n = len - at < step_bytes ? len - at : step_bytes, n_out;
		char *piece = malloc(n), *out;
		assert_non_null(piece);
		memcpy(piece, f->bytes + at, n);
		step = http1_feed(&h, piece, n, &out, &n_out, &used);
		assert_true(used <= n && n_body + n_out < sizeof body);
		assert_true(step != HTTP1_MORE || used == n);
		memcpy(body + n_body, out, n_out);
		n_body += n_out;
		free(piece);
		at += used;
	}
	body[n_body] = '\0';
	if (step != f->step || strcmp(body, f->body) != 0 || !strstr(h.head.why, f->why) ||
	    (step == HTTP1_DONE && (http1_keeps(&h) != f->keeps || len - at != f->behind)) ||
	    (step == HTTP1_MORE && http1_closed(&h) != f->end))
		fail_msg("%s, %zu bytes a read: step %d, body '%s', '%s', %zu behind", f->name, step_bytes,
		         step, body, h.head.why, len - at);
	http1_done(&h);
}

static void framing_is_the_same_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof framings / sizeof framings[0]; i++) {
		for (size_t n = 1; n <= 40; n++)
			read_framing(&framings[i], n);
		read_framing(&framings[i], 10000);
	}
}

static enum http1_step feed_text(struct http1 *h, const char *text)
{
	char *copy = strdup(text), *body;
	size_t n, used;
	assert_non_null(copy);
	enum http1_step step = http1_feed(h, copy, strlen(copy), &body, &n, &used);
	free(copy);
	return step;
}

static void heads_chunk_lines_and_trailers_are_bounded(void **state)
{
	static const struct {
		const char *start, *again, *why;
	} t[] = {
		{ H, "X: 0123456789\r\n", "64 KiB" },
		{ H "X: ", "0123456789", "64 KiB" },
		{ "", "HTTP/1.1 100 Continue\r\n\r\n", "64 KiB" },
		{ H CHUNKED "\r\n0\r\n", "X: 0123456789\r\n", "64 KiB" },
		{ H CHUNKED "\r\n1;", "0123456789", "4096" },
		{ H CHUNKED "\r\n", "00000000", "4096" },
	};
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct http1 h;
		http1_init(&h);
		http1_start(&h);
		enum http1_step step = feed_text(&h, t[i].start);
		size_t n = 0;
		for (; step == HTTP1_MORE && n < 100000; n++)
			step = feed_text(&h, t[i].again);
		assert_int_equal(step, HTTP1_BAD);
		assert_non_null(strstr(h.head.why, t[i].why));
		assert_true(n * strlen(t[i].again) < 70000);
		http1_done(&h);
	}
}

static void a_nul_in_the_head_is_refused(void **state)
{
	struct http1_head h;
	http1_head_init(&h);
	assert_int_equal(http1_head_line(&h, H, strlen(H)), HTTP1_LINE_MORE);
	assert_int_equal(http1_head_line(&h, "X: a\0b\r\n", 8), HTTP1_LINE_BAD);
}

/* --- codings ------------------------------------------------------------------------------------------- */

static size_t compress_text(char *out, size_t size, const char *text, size_t len, int window)
{
	z_stream z = { 0 };
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)text;
	z.avail_in = (uInt)len;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)size;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

struct plain {
	char text[256];
	size_t len, n_calls, stop_at;
};

static int take(void *ctx, const char *bytes, size_t len)
{
	struct plain *p = ctx;
	if (p->len + len < sizeof p->text)
		memcpy(p->text + p->len, bytes, len);
	p->len += len;
	return ++p->n_calls == p->stop_at;
}

static const struct {
	enum http1_coding coding;
	int window;
} codings[] = { { HTTP1_GZIP, 15 + 16 }, { HTTP1_DEFLATE, 15 }, { HTTP1_DEFLATE, -15 } };

static void codings_are_undone_however_they_are_cut(void **state)
{
	char packed[512];
	for (size_t i = 0; i < sizeof codings / sizeof codings[0]; i++) {
		size_t n = compress_text(packed, sizeof packed, BODY, strlen(BODY), codings[i].window);
		for (size_t step = 1; step <= n; step++) {
			struct plain p = { .len = 0 };
			struct http1_inflate *z = http1_inflate_new(codings[i].coding);
			for (size_t at = 0; at < n; at += step)
				assert_int_equal(http1_inflate_feed(z, packed + at,
				                                    n - at < step ? n - at : step, take, &p),
				                 0);
			assert_int_equal(p.len, strlen(BODY));
			assert_memory_equal(p.text, BODY, p.len);
			assert_int_equal(http1_inflate_feed(z, "x", 1, take, &p), -1); /* behind its end */
			http1_inflate_free(z);
		}
	}
}

static void what_is_not_compressed_is_refused(void **state)
{
	for (size_t i = 0; i < 2; i++) {
		struct plain p = { .len = 0 };
		struct http1_inflate *z = http1_inflate_new(codings[i].coding);
		int rc = 0;
		for (int n = 0; rc == 0 && n < 100; n++)
			rc = http1_inflate_feed(z, "\xff\xfe plain text", 13, take, &p);
		assert_int_equal(rc, -1);
		http1_inflate_free(z);
	}
}

static void a_bomb_comes_in_pieces_that_can_be_refused(void **state)
{
	size_t len = 8u << 20;
	char *zeros = calloc(1, len), *packed = malloc(len);
	struct plain p = { .stop_at = 3 };
	assert_true(zeros && packed);
	size_t n = compress_text(packed, len, zeros, len, 15 + 16);
	struct http1_inflate *z = http1_inflate_new(HTTP1_GZIP);
	assert_int_equal(http1_inflate_feed(z, packed, n, take, &p), 1);
	assert_true(p.len <= 3 * 65536);
	http1_inflate_free(z);
	free(zeros);
	free(packed);
}

/* --- a server that plays bytes ------------------------------------------------------------------------- */

enum how { KEEP, CLOSE, RESET, HOLD, HANG_UP_FIRST, READ_LATE, ANSWER_EARLY };

struct script {
	const char *name, *bytes;
	enum how how; /* what follows the bytes */
	enum outcome want;
	const char *detail; /* its start, before any colon */
	int http;
	bool curl_differs; /* libcurl lets pass what the plain path refuses */
};

static const struct script scripts[] = {
	{ "length", OK LENGTH "\r\n" BODY, KEEP, OUTCOME_OK, "", 200, false },
	{ "chunks", OK CHUNKED "\r\n" CHUNKS "0\r\n\r\n", KEEP, OUTCOME_OK, "", 200, false },
	{ "extensions and trailers",
	  OK CHUNKED "\r\n39;x=\"a;b\"\r\n" TOK "\r\n8c \r\n" TOK FIN DONE "\r\n0;z\r\nX: y\r\n\r\n", KEEP,
	  OUTCOME_OK, "", 200, false },
	{ "until close", OK "\r\n" BODY, CLOSE, OUTCOME_OK, "", 200, false },
	{ "close after", OK "Connection: close\r\n" LENGTH "\r\n" BODY, CLOSE, OUTCOME_OK, "", 200, false },
	{ "1.0", "HTTP/1.0 200 OK\r\n\r\n" BODY, CLOSE, OUTCOME_OK, "", 200, false },
	{ "1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" LENGTH "\r\n" BODY, KEEP, OUTCOME_OK,
	  "", 200, false },
	{ "interim", "HTTP/1.1 100 Continue\r\n\r\n" OK LENGTH "\r\n" BODY, KEEP, OUTCOME_OK, "", 200,
	  false },
	{ "early hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK LENGTH "\r\n" BODY, KEEP,
	  OUTCOME_OK, "", 200, false },
	{ "length twice", OK LENGTH LENGTH "\r\n" BODY, KEEP, OUTCOME_OK, "", 200, false },
	{ "excess", OK LENGTH "\r\n" BODY "more", KEEP, OUTCOME_OK, "", 200, false },
	{ "excess behind chunks", OK CHUNKED "\r\n" CHUNKS "0\r\n\r\nHTTP/1.1 500 No\r\n\r\n", KEEP,
	  OUTCOME_OK, "", 200, true /* uses the connection again */ },
	{ "204", "HTTP/1.1 204 No Content\r\n\r\n", KEEP, OUTCOME_HTTP_STATUS, "204", 204, false },
	{ "304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", KEEP, OUTCOME_HTTP_STATUS, "304",
	  304, false },
	{ "404", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", KEEP, OUTCOME_HTTP_STATUS, "404",
	  404, false },
	{ "429", "HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", KEEP,
	  OUTCOME_HTTP_STATUS, "429", 429, false },
	{ "moved", "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", KEEP,
	  OUTCOME_HTTP_STATUS, "301", 301, false },
	{ "no content type", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstrong", KEEP, OUTCOME_TRUNCATED,
	  "", 200, false },
	{ "short length", OK "Content-Length: 500\r\n\r\n" BODY, CLOSE, OUTCOME_TRUNCATED,
	  "closed inside the body", 200, false },
	{ "cut in a chunk", OK CHUNKED "\r\n39\r\n" TOK "\r\n8c\r\n" TOK, CLOSE, OUTCOME_TRUNCATED,
	  "closed inside the body", 200, false },
	{ "no last chunk", OK CHUNKED "\r\n" CHUNKS, CLOSE, OUTCOME_TRUNCATED, "closed inside the body", 200,
	  false },
	{ "reset in the body", OK CHUNKED "\r\n39\r\n" TOK "\r\n8c\r\n" TOK, RESET, OUTCOME_RESET,
	  "inside the answer", 200, false },
	{ "reset at once", "", RESET, OUTCOME_RESET, "", 0, true /* its words only */ },
	{ "closed at once", "", CLOSE, OUTCOME_RESET, "closed without an answer", 0, false },
	{ "interim, closed", "HTTP/1.1 100 Continue\r\n\r\n", CLOSE, OUTCOME_RESET,
	  "closed without an answer", 0, false },
	{ "half a status line", "HTTP/1.1 20", CLOSE, OUTCOME_RESET, "closed without an answer", 0, false },
	{ "half a head", OK "Content-Le", CLOSE, OUTCOME_TRUNCATED, "closed inside the head", 200, false },
	{ "silent", "", HOLD, OUTCOME_TIMEOUT, "first byte", 0, false },
	{ "half a status line, silent", "HTTP/1.1 20", HOLD, OUTCOME_TIMEOUT, "first byte", 0, false },
	{ "stall in the head", OK, HOLD, OUTCOME_STALLED, "no byte for 0.15 s, after 0 token events", 200,
	  false },
	{ "stall in the body", OK CHUNKED "\r\n39\r\n" TOK "\r\n", HOLD, OUTCOME_STALLED,
	  "no byte for 0.15 s, after 1 token events", 200, false },
	{ "no HTTP", "SSH-2.0-OpenSSH\r\n", HOLD, OUTCOME_CORRUPT, "Received HTTP/0.9 when not allowed", 0,
	  false },
	{ "HTTP/2", "HTTP/2 200 OK\r\n\r\n", HOLD, OUTCOME_CORRUPT, "", 0, true },
	{ "two lengths", OK LENGTH "Content-Length: 3\r\n\r\n" BODY, KEEP, OUTCOME_CORRUPT,
	  "two Content-Length values", 200, false },
	{ "length list", OK "Content-Length: 197, 197\r\n\r\n" BODY, KEEP, OUTCOME_CORRUPT, "", 200, false },
	{ "length negative", OK "Content-Length: -1\r\n\r\n" BODY, KEEP, OUTCOME_CORRUPT, "", 200, true },
	{ "both framings", OK LENGTH CHUNKED "\r\n" CHUNKS "0\r\n\r\n", KEEP, OUTCOME_CORRUPT,
	  "both Transfer-Encoding and Content-Length", 200, false },
	{ "chunked twice", OK CHUNKED CHUNKED "\r\n" CHUNKS "0\r\n\r\n", KEEP, OUTCOME_CORRUPT,
	  "Transfer-Encoding is other", 200, false },
	{ "folded line", OK "X: a\r\n b\r\n" LENGTH "\r\n" BODY, KEEP, OUTCOME_CORRUPT,
	  "a head line goes on in the next", 200, false },
	{ "space before colon", OK "Content-Length : 204\r\n\r\n" BODY, KEEP, OUTCOME_CORRUPT,
	  "a head line whose name is no name", 200, false },
	{ "switching", "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n", HOLD, OUTCOME_HTTP_STATUS, "101",
	  101, false },
	{ "unknown coding", OK "Content-Encoding: zstd\r\n" LENGTH "\r\n" BODY, KEEP, OUTCOME_CORRUPT,
	  "content encoding zstd cannot be undone", 200, false },
	{ "bad gzip", OK "Content-Encoding: gzip\r\n" LENGTH "\r\n" BODY, KEEP, OUTCOME_CORRUPT, "", 200,
	  false },
	{ "chunk longer", OK CHUNKED "\r\n5\r\n" TOK "\r\n0\r\n\r\n", KEEP, OUTCOME_CORRUPT, "", 200, false },
	{ "chunk no hex", OK CHUNKED "\r\nzz\r\n" TOK "\r\n0\r\n\r\n", KEEP, OUTCOME_CORRUPT, "", 200,
	  false },
	{ "chunk half hex", OK CHUNKED "\r\n39x\r\n" TOK "\r\n8c\r\n" TOK FIN DONE "\r\n0\r\n\r\n", KEEP,
	  OUTCOME_CORRUPT, "a chunk's size is no number", 200, true },
	{ "event cut", OK "Content-Length: 30\r\n\r\n" TOK, KEEP, OUTCOME_TRUNCATED, "ended inside an event",
	  200, false },
	{ "error status in chunks", "HTTP/1.1 500 No\r\n" CHUNKED "\r\n4\r\noops\r\n0\r\n\r\n", KEEP,
	  OUTCOME_HTTP_STATUS, "500", 500, false },
	{ "close unsaid", OK LENGTH "\r\n" BODY, CLOSE, OUTCOME_OK, "", 200, false },
	{ "hangs up on the second", OK LENGTH "\r\n" BODY, HANG_UP_FIRST, OUTCOME_OK, "", 200, false },
};

static struct {
	const struct script *script;
	atomic_int connections, requests;
	size_t last_body_len;
	uint64_t body_sum;
	char head[4096];
} server;

static bool receive(int fd, bool late)
{
	char text[65536 + 1];
	size_t n = 0, want = SIZE_MAX, body = 0;
	uint64_t sum = 0;
	if (late)
		usleep(50000);
	while (want == SIZE_MAX || body < want) {
		ssize_t got = recv(fd, text + n, want == SIZE_MAX ? sizeof text - 1 - n : sizeof text - 1, 0);
		if (got <= 0)
			return false;
		if (want != SIZE_MAX) {
			body += (size_t)got;
			for (ssize_t i = 0; i < got; i++)
				sum = sum * 31 + (unsigned char)text[i];
			continue;
		}
		n += (size_t)got;
		text[n] = '\0';
		char *end = strstr(text, "\r\n\r\n"), *len = strstr(text, "Content-Length: ");
		if (!end || !len)
			continue;
		want = strtoul(len + 16, NULL, 10);
		body = (size_t)(text + n - end - 4);
		for (size_t i = 0; i < body; i++)
			sum = sum * 31 + (unsigned char)end[4 + i];
		snprintf(server.head, sizeof server.head, "%.*s", (int)(end - text), text);
		n = 0;
	}
	server.last_body_len = body;
	server.body_sum = sum;
	return true;
}

static void finish(int fd, enum how how)
{
	struct linger l = { 1, 0 };
	char c;
	if (how == RESET) {
		usleep(30000);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
	} else if (how == HOLD) {
		struct pollfd p = { fd, POLLIN, 0 };
		while (poll(&p, 1, 2000) == 1 && recv(fd, &c, 1, 0) > 0)
			;
	}
	close(fd);
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	const struct script *s = server.script;
	size_t len = strlen(s->bytes);
	int n = ++server.connections;
	if (s->how == ANSWER_EARLY) {
		char some[100];
		if (recv(fd, some, sizeof some, 0) > 0 && send(fd, s->bytes, len, MSG_NOSIGNAL) > 0)
			usleep(50000);
		shutdown(fd, SHUT_WR);
		finish(fd, HOLD);
		return NULL;
	}
	for (int k = 0; receive(fd, s->how == READ_LATE); k++) {
		server.requests++;
		if (s->how == HANG_UP_FIRST && n == 1 && k == 1)
			break;
		if (len && send(fd, s->bytes, len, MSG_NOSIGNAL) < 0)
			break;
		if (s->how == CLOSE || s->how == RESET || s->how == HOLD)
			break;
	}
	finish(fd, s->how);
	return NULL;
}

static void *serve_all(void *arg)
{
	int listener = (int)(intptr_t)arg;
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t t;
		if (fd < 0)
			return NULL;
		if (pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	}
}

static void serve_on(int fd, const void *at, socklen_t len)
{
	pthread_t t;
	assert_true(fd >= 0 && bind(fd, at, len) == 0 && listen(fd, 256) == 0);
	assert_int_equal(pthread_create(&t, NULL, serve_all, (void *)(intptr_t)fd), 0);
	pthread_detach(t);
}

static char url[64], unix_url[128], unix_path[108];

static int start_server(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	serve_on(fd, &at, sizeof at);
	getsockname(fd, (struct sockaddr *)(void *)&at, &len);
	snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(at.sin_port));
	snprintf(un.sun_path, sizeof un.sun_path, "%s/test-http1-%d.sock",
	         getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
	snprintf(unix_path, sizeof unix_path, "%s", un.sun_path);
	snprintf(unix_url, sizeof unix_url, "unix://%s", un.sun_path);
	serve_on(socket(AF_UNIX, SOCK_STREAM, 0), &un, sizeof un);
	return 0;
}

static int stop_server(void **state)
{
	unlink(unix_path);
	return 0;
}

/* --- the client ---------------------------------------------------------------------------------------- */

#define RECORDS_MAX 64

struct run {
	struct load_spec spec;
	struct load_result res;
	struct load_request rq;
	struct record recs[RECORDS_MAX];
	size_t n;
	int connections, requests;
	char head[4096];
};

static const struct load_request *get_request(void *ctx, uint64_t k)
{
	return &((struct run *)ctx)->rq;
}

static int take_record(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len,
                       const char *text, size_t text_len)
{
	struct run *r = ctx;
	assert_true(r->n < RECORDS_MAX);
	r->recs[r->n++] = *rec;
	return 0;
}

static void prepare(struct run *r, bool libcurl)
{
	static const struct proto chat = { .wire = WIRE_OPENAI_CHAT,
		                           .path = "/v1/x?y=1",
		                           .needs_done = true };
	memset(r, 0, sizeof *r);
	r->rq = (struct load_request){
		.body = "{}", .body_len = 2, .conv = REC_NONE, .turn = REC_NONE, .part = REC_NONE
	};
	r->spec = (struct load_spec){
		.url = url,
		.bearer = "key-0123",
		.proto = &chat,
		.cell_id = "t/c",
		.start = 1,
		.concurrency = 1,
		.n_requests = 2,
		.use_libcurl = libcurl,
		.watch_fd = -1,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 5 * NS_PER_S,
		.stall_timeout_ns = 5 * NS_PER_S,
		.deadline_ns = 20 * NS_PER_S,
		.origin_ns = clock_now_ns(),
		.source = { .get = get_request, .ctx = r },
		.sink = { take_record, r },
	};
}

static void play(struct run *r, const struct script *s)
{
	struct err err;
	server.script = s;
	server.connections = server.requests = 0;
	if (load_run(&r->res, &r->spec, &err) < 0)
		fail_msg("%s: %s", s->name, err.msg);
	assert_int_equal(r->n, r->spec.n_requests);
	r->connections = server.connections;
	r->requests = server.requests;
	memcpy(r->head, server.head, sizeof r->head);
}

static bool same_record(const struct record *a, const struct record *b, bool words)
{
	size_t n = strcspn(a->detail, ":");
	return a->outcome == b->outcome && a->http == b->http && a->bytes == b->bytes &&
	       a->tok_n == b->tok_n && strcmp(a->finish, b->finish) == 0 && a->warnings == b->warnings &&
	       a->text_chars == b->text_chars &&
	       (a->first_byte_ns == REC_NONE) == (b->first_byte_ns == REC_NONE) &&
	       (a->conn_ns == REC_NONE) == (b->conn_ns == REC_NONE) &&
	       (!words || (n == strcspn(b->detail, ":") && strncmp(a->detail, b->detail, n) == 0));
}

static bool complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool complain(const char *fmt, ...)
{
	char text[10000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	print_error("%s\n", text);
	return false;
}

static bool check_script(const struct script *s)
{
	static struct run by[2]; /* plain, libcurl */
	bool good = true;
	for (int i = 0; i < 2; i++) {
		prepare(&by[i], i == 1);
		if (s->how == HOLD)
			by[i].spec.first_byte_timeout_ns = by[i].spec.stall_timeout_ns = 150 * NS_PER_MS;
		play(&by[i], s);
	}
	for (size_t k = 0; k < 2; k++) {
		const struct record *a = &by[0].recs[k], *b = &by[1].recs[k];
		if (a->outcome != s->want || a->http != s->http ||
		    strncmp(a->detail, s->detail, strlen(s->detail)) != 0)
			good = complain("%s, request %zu: %s (%d): %s", s->name, k, outcome_words[a->outcome],
			                a->http, a->detail);
		bool words = s->want != OUTCOME_CORRUPT || s->detail[0];
		if (s->how == CLOSE) /* whether the end is seen before the next request goes out is chance */
			by[0].recs[k].warnings = by[1].recs[k].warnings = 0;
		if (!s->curl_differs && !same_record(a, b, words))
			good = complain(
				"%s, request %zu: plain %s (%d): %s, %d bytes, %d warnings / libcurl %s "
				"(%d): %s, %d bytes, %d warnings",
				s->name, k, outcome_words[a->outcome], a->http, a->detail, (int)a->bytes,
				(int)a->warnings, outcome_words[b->outcome], b->http, b->detail,
				(int)b->bytes, (int)b->warnings);
	}
	if (!s->curl_differs && s->how != CLOSE && by[0].connections != by[1].connections)
		good = complain("%s: %d connections, with libcurl %d", s->name, by[0].connections,
		                by[1].connections);
	/* but for the version: libcurl asks a 1.0 server by 1.0 from then on */
	if (strcmp(strchr(by[0].head, '\n'), strchr(by[1].head, '\n')) != 0)
		good = complain("%s: the heads of the requests differ:\n%s\n--\n%s", s->name, by[0].head,
		                by[1].head);
	return good;
}

static void both_paths_make_the_same_record(void **state)
{
	assert_int_equal(strlen(BODY), 197);
	assert_int_equal(strlen(TOK), 0x39);
	bool good = true;
	for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
		good &= check_script(&scripts[i]) ||
		        check_script(&scripts[i]); /* a connection of the script before may
		                                     be counted late */
	assert_true(good);
}

static const struct script good = { "good", OK LENGTH "\r\n" BODY, KEEP, OUTCOME_OK, "", 200, false };

static void expect_ok(const struct run *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->recs[i].outcome != OUTCOME_OK)
			fail_msg("%s: %s", outcome_words[r->recs[i].outcome], r->recs[i].detail);
	}
}

static void a_closed_kept_connection_is_sent_over_once_more(void **state)
{
	static const struct script s = { "hang up", OK LENGTH "\r\n" BODY, HANG_UP_FIRST, OUTCOME_OK, "", 200,
		                         false };
	static struct run r;
	for (int libcurl = 0; libcurl < 2; libcurl++) {
		prepare(&r, libcurl);
		play(&r, &s);
		expect_ok(&r);
		assert_int_equal(r.connections, 2);
		assert_int_equal(r.requests, 3);
		assert_int_equal(r.recs[0].warnings, 0);
		assert_int_equal(r.recs[1].warnings, 1);
		assert_true(r.recs[1].conn_ns != REC_NONE && r.recs[1].conn_ns >= r.recs[1].sent_ns);
		assert_int_equal(r.recs[1].attempts, 1); /* no retry of ours */
	}
}

static void a_large_body_is_written_as_room_comes(void **state)
{
	static const struct script s = {
		"late", OK LENGTH "\r\n" BODY, READ_LATE, OUTCOME_OK, "", 200, false
	};
	size_t len = 8u << 20;
	char *body = malloc(len);
	uint64_t sum[2];
	assert_non_null(body);
	for (size_t i = 0; i < len; i++)
		body[i] = (char)('a' + i * i % 23);
	for (int i = 0; i < 2; i++) {
		static struct run r;
		prepare(&r, i == 1);
		r.rq.body = body;
		r.rq.body_len = len;
		play(&r, &s);
		expect_ok(&r);
		assert_int_equal(server.last_body_len, len);
		assert_int_equal(r.connections, 1);
		sum[i] = server.body_sum;
	}
	assert_int_equal(sum[0], sum[1]);
	free(body);
}

static void an_answer_before_the_body_was_read_counts(void **state)
{
	static const struct script s = {
		"early",      "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
		ANSWER_EARLY, OUTCOME_HTTP_STATUS,
		"413",        413,
		false
	};
	size_t len = 8u << 20;
	char *body = calloc(1, len);
	static struct run r;
	assert_non_null(body);
	prepare(&r, false);
	r.rq.body = body;
	r.rq.body_len = len;
	play(&r, &s);
	for (size_t i = 0; i < r.n; i++) {
		assert_int_equal(r.recs[i].outcome, OUTCOME_HTTP_STATUS);
		assert_string_equal(r.recs[i].detail, "413: big");
	}
	assert_int_equal(r.connections, 2);
	free(body);
}

static void a_unix_socket_is_a_server_too(void **state)
{
	for (int i = 0; i < 2; i++) {
		static struct run r;
		prepare(&r, i == 1);
		r.spec.url = unix_url;
		r.spec.concurrency = 8;
		r.spec.n_requests = 40;
		play(&r, &good);
		expect_ok(&r);
		assert_true(r.connections <= 8);
		assert_non_null(strstr(r.head, "\r\nHost: localhost\r\n"));
	}
	static struct run r;
	prepare(&r, false);
	r.spec.url = "unix:///nowhere/at/all.sock";
	play(&r, &good);
	assert_int_equal(r.recs[0].outcome, OUTCOME_RESET);
	assert_string_equal(r.recs[0].detail, "connect: No such file or directory");
}

static void connections_can_be_opened_ahead(void **state)
{
	static struct run r;
	prepare(&r, false);
	r.spec.preconnect = true;
	r.spec.concurrency = 16;
	r.spec.n_requests = 48;
	play(&r, &good);
	expect_ok(&r);
	for (int i = 0; i < 500 && server.connections < 16; i++) /* some may have had nothing to do yet */
		usleep(10000);
	assert_int_equal(server.connections, 16);
	for (size_t i = 0; i < r.n; i++)
		assert_true(r.recs[i].conn_ns == REC_NONE);
	prepare(&r, false); /* nobody there: each request says so itself */
	r.spec.preconnect = true;
	r.spec.url = "http://127.0.0.1:1";
	play(&r, &good);
	assert_string_equal(r.recs[0].detail, "connect: Connection refused");
}

static void names_are_looked_up_and_their_addresses_tried_in_turn(void **state)
{
	static struct run r;
	char text[64];
	snprintf(text, sizeof text, "http://localhost%s", strrchr(url, ':'));
	prepare(&r, false);
	r.spec.url = text;
	play(&r, &good);
	expect_ok(&r);
	for (int i = 0; i < 2; i++) {
		prepare(&r, i == 1);
		r.spec.url = "http://no-such-host.invalid:8080";
		play(&r, &good);
		assert_int_equal(r.recs[0].outcome, OUTCOME_RESET);
		assert_string_equal(r.recs[0].detail, "Could not resolve host: no-such-host.invalid");
	}
}

static void nothing_is_lost_when_every_connection_breaks(void **state)
{
	static const struct script s = {
		"rst", OK CHUNKED "\r\n39\r\n" TOK "\r\n", RESET, OUTCOME_RESET, "", 200, false
	};
	static struct run r;
	prepare(&r, false);
	r.spec.concurrency = 16;
	r.spec.n_requests = 64;
	play(&r, &s);
	for (size_t i = 0; i < r.n; i++)
		assert_int_equal(r.recs[i].outcome, OUTCOME_RESET);
}

static const struct load_request *get_late(void *ctx, uint64_t k)
{
	if (k == 1)
		usleep(1000000);
	return &((struct run *)ctx)->rq;
}

/* The kernel says when bytes came, however late the client looks. */
static void a_client_that_is_late_reports_when_bytes_came(void **state)
{
	static struct run r;
	bool was_late = false;
	for (int tries = 0; tries < 5 && !was_late; tries++) {
		prepare(&r, false);
		r.spec.concurrency = 2;
		r.spec.source.get = get_late;
		play(&r, &good);
		expect_ok(&r);
		for (size_t i = 0; i < r.n; i++) {
			assert_true(r.recs[i].first_token_ns - r.recs[i].sent_ns < 700 * NS_PER_MS);
			was_late |= r.recs[i].end_ns - r.recs[i].sent_ns > 900 * NS_PER_MS;
		}
	}
	assert_true(was_late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(framing_is_the_same_however_it_is_cut),
		cmocka_unit_test(heads_chunk_lines_and_trailers_are_bounded),
		cmocka_unit_test(a_nul_in_the_head_is_refused),
		cmocka_unit_test(codings_are_undone_however_they_are_cut),
		cmocka_unit_test(what_is_not_compressed_is_refused),
		cmocka_unit_test(a_bomb_comes_in_pieces_that_can_be_refused),
		cmocka_unit_test(both_paths_make_the_same_record),
		cmocka_unit_test(a_closed_kept_connection_is_sent_over_once_more),
		cmocka_unit_test(a_large_body_is_written_as_room_comes),
		cmocka_unit_test(an_answer_before_the_body_was_read_counts),
		cmocka_unit_test(a_unix_socket_is_a_server_too),
		cmocka_unit_test(connections_can_be_opened_ahead),
		cmocka_unit_test(names_are_looked_up_and_their_addresses_tried_in_turn),
		cmocka_unit_test(a_client_that_is_late_reports_when_bytes_came),
		cmocka_unit_test(nothing_is_lost_when_every_connection_breaks),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
