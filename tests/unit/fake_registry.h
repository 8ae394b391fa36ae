/* SPDX-License-Identifier: Apache-2.0 */
/* A registry, token service or blob store of one thread for tests: answers from a table, also wrong ones, and
 * keeps what it was asked. One connection at a time, which is what a registry client holds. */
#ifndef TESTS_FAKE_REGISTRY_H
#define TESTS_FAKE_REGISTRY_H

#include "base/buf.h"
#include "base/cleanup.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct route {
	char *path;  /* with query */
	char *needs; /* the request's head has to hold this; NULL = anything */
	int status;
	char *headers; /* with CRLF behind each; NULL = none */
	char *body;
	size_t len;
	unsigned uses; /* how often it answers; 0 = always */
	size_t cut;    /* ends the connection after so many bytes of the body; 0 = does not */
	size_t length; /* Content-Length told; 0 = the true one */
	char *etag;    /* with quotes: Range and If-Range are understood */
	bool endless;  /* a chunked body without end */
	bool silent;   /* no answer until the client goes */
	unsigned n_used;
};

enum { FAKE_ROUTES_MAX = 64 };

struct fake {
	int fd;
	unsigned port;
	pthread_t thread;
	pthread_mutex_t lock;
	struct route routes[FAKE_ROUTES_MAX];
	size_t n;
	struct buf log; /* heads of all requests */
	unsigned n_requests, n_connections;
};

static inline void fake_send(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

static inline struct route *fake_find(struct fake *f, const char *path, const char *head)
{
	for (size_t i = 0; i < f->n; i++) {
		struct route *r = &f->routes[i];
		if (strcmp(r->path, path) == 0 && (!r->uses || r->n_used < r->uses) &&
		    (!r->needs || strstr(head, r->needs))) {
			r->n_used++;
			return r;
		}
	}
	return NULL;
}

/* False when the connection ends with the answer. */
static inline bool fake_reply(int fd, const struct route *r, const char *head)
{
	size_t from = 0, cut;
	int status = r->status;
	char range[128] = "";
	const char *asked = strcasestr(head, "\r\nRange: bytes="),
		   *only_if = strcasestr(head, "\r\nIf-Range: ");
	if (r->etag && asked && (!only_if || strncmp(only_if + 12, r->etag, strlen(r->etag)) == 0)) {
		from = strtoul(asked + 15, NULL, 10);
		status = from < r->len ? 206 : 416;
		if (status == 206)
			snprintf(range, sizeof(range), "Content-Range: bytes %zu-%zu/%zu\r\n", from,
			         r->len - 1, r->len);
	}
	if (status == 416) { /* as real registries do it: the whole length and another body */
		auto_free char *bad =
			str_fmt("HTTP/1.1 416 Range\r\nContent-Length: %zu\r\n\r\ninvalid range", r->len);
		fake_send(fd, bad, strlen(bad));
		return true;
	}
	if (r->endless) {
		auto_free char *h = str_fmt("HTTP/1.1 %d X\r\n%sTransfer-Encoding: chunked\r\n\r\n", status,
		                            r->headers ? r->headers : "");
		static char piece[4096 + 16];
		size_t n = (size_t)snprintf(piece, sizeof(piece), "1000\r\n");
		memset(piece + n, ' ', 4096);
		memcpy(piece + n + 4096, "\r\n", 2);
		fake_send(fd, h, strlen(h));
		while (send(fd, piece, n + 4098, MSG_NOSIGNAL) > 0)
			;
		return false;
	}
	auto_free char *h =
		str_fmt("HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s%s%s%s%s\r\n", status,
	                r->length ? r->length : r->len - from, r->etag ? "ETag: " : "",
	                r->etag ? r->etag : "", r->etag ? "\r\n" : "", range, r->headers ? r->headers : "");
	fake_send(fd, h, strlen(h));
	cut = r->cut && r->cut < r->len - from ? r->cut : r->len - from;
	if (r->len)
		fake_send(fd, r->body + from, cut);
	return cut == r->len - from && !r->length;
}

static inline bool fake_serve_one(struct fake *f, int fd)
{
	char head[16384], path[8192];
	size_t len = 0;
	while (len < sizeof(head) - 1) {
		ssize_t n = recv(fd, head + len, sizeof(head) - 1 - len, 0);
		if (n <= 0)
			return false;
		len += (size_t)n;
		head[len] = '\0';
		const char *end = strstr(head, "\r\n\r\n"), *cl = strcasestr(head, "Content-Length: ");
		if (end && strlen(end + 4) >= (cl ? strtoul(cl + 16, NULL, 10) : 0))
			break;
	}
	if (sscanf(head, "%*s %8191s", path) != 1)
		return false;
	pthread_mutex_lock(&f->lock);
	buf_adds(&f->log, head);
	f->n_requests++;
	struct route *r = fake_find(f, path, head);
	struct route copy = r ? *r : (struct route){ .status = 404 };
	pthread_mutex_unlock(&f->lock);
	if (copy.silent) {
		while (recv(fd, head, sizeof(head), 0) > 0)
			;
		return false;
	}
	return fake_reply(fd, &copy, head);
}

static inline void *fake_run(void *ctx)
{
	struct fake *f = ctx;
	for (;;) {
		int fd = accept(f->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		f->n_connections++;
		while (fake_serve_one(f, fd))
			;
		close(fd);
	}
}

static inline void fake_start(struct fake *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	*f = (struct fake){ .log = BUF_INIT(4u << 20) };
	pthread_mutex_init(&f->lock, NULL);
	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(f->fd >= 0 && !bind(f->fd, (struct sockaddr *)&a, sizeof(a)) && !listen(f->fd, 8) &&
	       !getsockname(f->fd, (struct sockaddr *)&a, &len));
	f->port = ntohs(a.sin_port);
	assert(pthread_create(&f->thread, NULL, fake_run, f) == 0);
}

static inline void fake_stop(struct fake *f)
{
	shutdown(f->fd, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->fd);
	for (size_t i = 0; i < f->n; i++) {
		free(f->routes[i].path);
		free(f->routes[i].needs);
		free(f->routes[i].headers);
		free(f->routes[i].body);
		free(f->routes[i].etag);
	}
	buf_done(&f->log);
	pthread_mutex_destroy(&f->lock);
}

static inline char *fake_dup(const char *s)
{
	return s ? strdup(s) : NULL;
}

/* Copies everything. The route can be changed until a request comes. */
static inline struct route *fake_add(struct fake *f, const char *path, int status, const char *headers,
                                     const void *body, size_t len)
{
	pthread_mutex_lock(&f->lock);
	assert(f->n < FAKE_ROUTES_MAX);
	struct route *r = &f->routes[f->n++];
	*r = (struct route){
		.path = strdup(path), .status = status, .headers = fake_dup(headers), .len = len
	};
	r->body = malloc(len + 1);
	assert(r->path && r->body);
	memcpy(r->body, body ? body : "", len);
	pthread_mutex_unlock(&f->lock);
	return r;
}

#endif
