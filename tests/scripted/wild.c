/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that break HTTP, framing or patience. A child process takes the connection and plays its script
 * with blocking writes; the server itself goes on. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DRIP_NS (100 * NS_US)

static void pause_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull) };
	nanosleep(&t, NULL);
}

/* Ends the child when the other side is gone. */
static void put(int fd, const void *data, size_t len)
{
	const char *p = data;
	while (len) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		p += n;
		len -= (size_t)n;
	}
}

static void puts_to(int fd, const char *s)
{
	put(fd, s, strlen(s));
}

static void drip(int fd, const struct sb *b)
{
	for (size_t i = 0; i < b->len; i++) {
		put(fd, b->p + i, 1);
		pause_ns(DRIP_NS);
	}
}

static void reset(int fd)
{
	struct linger hard = { .l_onoff = 1, .l_linger = 0 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(fd);
	_exit(0);
}

static void head(struct sb *b, const struct request *r, const char *more)
{
	sb_adds(b, "HTTP/1.1 200 OK\r\nContent-Type: ");
	sb_adds(b, wire_content_type(r));
	sb_adds(b, "\r\nConnection: close\r\n");
	sb_adds(b, more);
	sb_adds(b, "\r\n");
}

static void chunk(struct sb *b, struct span data, const char *extension)
{
	sb_addf(b, "%zx%s\r\n", data.len, extension);
	sb_add(b, data.p, data.len);
	sb_adds(b, "\r\n");
}

static uint32_t crc32_of(const char *p, size_t len)
{
	uint32_t c = ~0u;
	for (size_t i = 0; i < len; i++) {
		c ^= (unsigned char)p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? (c >> 1) ^ 0xedb88320u : c >> 1;
	}
	return ~c;
}

static void add_le(struct sb *b, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		char byte = (char)(v >> (8 * i));
		sb_add(b, &byte, 1);
	}
}

/* gzip with stored blocks: no compressor needed, and every reader takes it. */
static void gzip(struct sb *out, struct span data)
{
	sb_add(out, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", 10);
	for (size_t at = 0; at <= data.len;) {
		size_t n = data.len - at < 65535 ? data.len - at : 65535;
		bool last = at + n == data.len;
		sb_add(out, last ? "\x01" : "\x00", 1);
		add_le(out, (uint32_t)n, 2);
		add_le(out, (uint32_t)~n & 0xffff, 2);
		sb_add(out, data.p + at, n);
		at += n;
		if (last)
			break;
	}
	add_le(out, crc32_of(data.p, data.len), 4);
	add_le(out, (uint32_t)data.len, 4);
}

static void framed(int fd, const struct request *r, const struct sb *body, const char *ext,
                   const char *trailers)
{
	struct sb b = { 0 };
	size_t half = body->len / 2;
	head(&b, r, "Transfer-Encoding: chunked\r\n");
	chunk(&b, (struct span){ body->p, half }, ext);
	chunk(&b, (struct span){ body->p + half, body->len - half }, ext);
	sb_addf(&b, "0%s\r\n", ext);
	sb_adds(&b, trailers);
	sb_adds(&b, "\r\n");
	put(fd, b.p, b.len);
}

static void with_length(int fd, const struct request *r, const struct sb *body, size_t told)
{
	struct sb b = { 0 };
	char line[64];
	snprintf(line, sizeof(line), "Content-Length: %zu\r\n", told);
	head(&b, r, line);
	sb_add(&b, body->p, body->len);
	put(fd, b.p, b.len);
}

static void huge_event(int fd, const struct request *r)
{
	static char block[65536];
	struct sb b = { 0 };
	head(&b, r, "");
	sb_adds(&b, "data: {\"choices\":[{\"index\":0,\"text\":\"");
	put(fd, b.p, b.len);
	memset(block, 'x', sizeof(block));
	for (uint64_t sent = 0; sent < opt.huge_mib << 20; sent += sizeof(block))
		put(fd, block, sizeof(block));
	puts_to(fd, "\"}]}\n\ndata: [DONE]\n\n");
}

/* As many events as --tiny-events says, in writes of a MiB. */
static void tiny_events(int fd, const struct request *r, const struct sb *end)
{
	static const char event[] =
		"data:{\"choices\":[{\"index\":0,\"text\":\"a\",\"delta\":{\"content\":\"a\"}}]}\n\n";
	struct sb b = { 0 };
	head(&b, r, "");
	for (uint64_t i = 0; i < opt.tiny_events; i++) {
		sb_add(&b, event, sizeof(event) - 1);
		if (b.len < (1u << 20))
			continue;
		put(fd, b.p, b.len);
		b.len = 0;
	}
	put(fd, b.p, b.len);
	put(fd, end->p, end->len);
}

static void endless_head(int fd)
{
	puts_to(fd, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 1000000; i++)
		puts_to(fd,
		        "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
}

static void slow_end(int fd)
{
	pause_ns(opt.slow_ns);
	close(fd);
}

static void with_nul(int fd, const struct request *r, const struct sb *body)
{
	struct sb b = { 0 };
	sb_add(&b, "data: {\"choices\":[{\"text\":\"a\0b\"}]}\n\n", 36);
	sb_add(&b, body->p, body->len);
	framed(fd, r, &b, "", "");
}

static void plain(struct sb *b, const struct request *r, const char *more, const struct sb *body)
{
	head(b, r, more);
	sb_add(b, body->p, body->len);
}

static void play(int fd, const struct request *r, const struct sb *body, const struct sb *end)
{
	struct sb b = { 0 };
	switch ((int)r->fault->kind) {
	case F_DRIP:
		plain(&b, r, "", body);
		drip(fd, &b);
		break;
	case F_HALF_CLOSE:
		head(&b, r, "Transfer-Encoding: chunked\r\n");
		chunk(&b, (struct span){ body->p, body->len / 2 }, "");
		put(fd, b.p, b.len);
		shutdown(fd, SHUT_WR);
		slow_end(fd);
		break;
	case F_LONG_LENGTH:
		with_length(fd, r, body, body->len + 1000);
		break;
	case F_SHORT_LENGTH:
		with_length(fd, r, body, body->len - end->len - 1);
		break;
	case F_TRAILERS:
		framed(fd, r, body, ";name=\"value\"", "X-Checksum: abc\r\nX-Other: 1\r\n");
		break;
	case F_GZIP:
		gzip(&b, whole(body));
		{
			struct sb all = { 0 };
			plain(&all, r, "Content-Encoding: gzip\r\n", &b);
			put(fd, all.p, all.len);
		}
		break;
	case F_INTERIM:
		puts_to(fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
		framed(fd, r, body, "", "");
		break;
	case F_HUGE_EVENT:
		huge_event(fd, r);
		break;
	case F_TINY_EVENTS:
		tiny_events(fd, r, end);
		break;
	case F_NUL:
		with_nul(fd, r, body);
		break;
	case F_RST_HEAD:
		puts_to(fd, "HTTP/1.1 200 OK\r\nContent-Ty");
		reset(fd);
		break;
	case F_GARBAGE:
		puts_to(fd, "\x16\x03\x01 this is no HTTP\n\n");
		break;
	case F_ENDLESS_HEAD:
		endless_head(fd);
		break;
	case F_UNTIL_CLOSE:
		plain(&b, r, "", body);
		put(fd, b.p, b.len);
		break;
	case F_BAD_CHUNK:
		head(&b, r, "Transfer-Encoding: chunked\r\n");
		sb_adds(&b, "zz\r\nnot a chunk\r\n");
		put(fd, b.p, b.len);
		break;
	case F_AFTER_DONE:
		plain(&b, r, "", body);
		sb_adds(&b, "data: "
		            "{\"choices\":[{\"index\":0,\"text\":\"late\",\"delta\":{\"content\":\"late\"}}]}"
		            "\n\n");
		put(fd, b.p, b.len);
		break;
	case F_STAY_OPEN:
		head(&b, r, "Transfer-Encoding: chunked\r\n");
		chunk(&b, whole(body), "");
		put(fd, b.p, b.len);
		slow_end(fd);
		break;
	default:
		break;
	}
}

bool wild_fault(enum fault_kind kind)
{
	return kind >= F_DRIP && kind <= F_STAY_OPEN;
}

void wild_answer(struct conn *c)
{
	struct request *r = &c->rq;
	struct sb body = { 0 }, end = { 0 };
	answer_at_once(r, &body, &end);
	if (fork() == 0) {
		int flags = fcntl(c->fd, F_GETFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		fcntl(c->fd, F_SETFL, flags & ~O_NONBLOCK);
		play(c->fd, r, &body, &end);
		shutdown(c->fd, SHUT_WR);
		char rest[4096]; /* a close with unread bytes would reset what was sent */
		struct timeval wait = { .tv_sec = 1 };
		setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
		while (read(c->fd, rest, sizeof(rest)) > 0) {
		}
		_exit(0);
	}
	free(body.p);
	free(end.p);
	conn_drop(c, false);
}
