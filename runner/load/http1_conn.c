/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers on the plain path. A socket is registered once for reading; writing is watched only
 * while it connects or does not take a body whole. */
#include "load/http1_plain.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* --- ends ---------------------------------------------------------------------------------------------- */

static void list_put(struct plain *p, size_t at, struct slot *s)
{
	p->ended[at] = s;
	s->ended_at = at;
}

/* Told at the next reap: the caller may be in the middle of something. */
void plain_end(struct slot *s, enum transport how, const char *why)
{
	struct plain *p = s->ld->plain;
	if (s->has_ended)
		return;
	s->has_ended = true;
	s->ended_how = how;
	snprintf(s->ended_why, sizeof s->ended_why, "%s", why);
	list_put(p, p->n_ended++, s);
	s->ld->curl_due_ns = 0; /* no waiting before the reap */
}

static void forget_end(struct slot *s)
{
	struct plain *p = s->ld->plain;
	if (!s->has_ended)
		return;
	s->has_ended = false;
	list_put(p, s->ended_at, p->ended[--p->n_ended]);
}

static size_t reap(struct load *ld)
{
	struct plain *p = ld->plain;
	size_t n = 0;
	for (; p->n_ended; n++) {
		struct slot *s = p->ended[0];
		transfer_end(s, s->ended_how, s->ended_why);
	}
	if (n)
		ld->curl_due_ns = p->n_ended ? 0 : p->next_ns;
	return n;
}

/* May the connection serve another request? */
static bool is_clean(const struct slot *s)
{
	const struct http1_conn *c = &s->conn;
	size_t request_len = s->ld->plain->head.len + c->length_len + c->body_len;
	return c->state == CONN_BUSY && !c->peer_closed && c->n_sent == request_len && http1_keeps(&s->http);
}

static void drop(struct slot *s, bool whole)
{
	struct http1_conn *c = &s->conn;
	forget_end(s);
	if (whole && is_clean(s))
		c->state = CONN_IDLE;
	else
		plain_close(s);
	http1_inflate_free(c->inflate);
	c->inflate = NULL;
	c->body = NULL;
	c->body_len = 0;
}

/* --- writing ------------------------------------------------------------------------------------------- */

static void begin_request(struct slot *s)
{
	s->conn.n_sent = 0;
	s->conn.got_bytes = false;
	http1_start(&s->http);
}

/* Servers close kept connections without a word, llama.cpp's after each answer: the next request may then be
 * on its way already. When nothing at all comes back it is sent once more, over a new connection, as every
 * HTTP client does, and counts as a warning. On a new connection the same end is what the server did. */
static bool send_again(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	if (!c->reused || c->got_bytes)
		return false;
	plain_close(s);
	begin_request(s);
	s->connected = false;
	plain_connect(s);
	return true;
}

static size_t fill_iov(const struct slot *s, struct iovec iov[3])
{
	const struct http1_conn *c = &s->conn;
	const struct buf *head = &s->ld->plain->head;
	const struct iovec parts[3] = {
		{ head->p, head->len },
		{ (void *)(uintptr_t)c->length_line, c->length_len },
		{ (void *)(uintptr_t)c->body, c->body_len },
	};
	size_t skip = c->n_sent, n = 0;
	for (size_t i = 0; i < 3; i++) {
		size_t cut = skip < parts[i].iov_len ? skip : parts[i].iov_len;
		skip -= cut;
		if (cut < parts[i].iov_len)
			iov[n++] = (struct iovec){ (char *)parts[i].iov_base + cut, parts[i].iov_len - cut };
	}
	return n;
}

static void fail_before_answer(struct slot *s, int errnum)
{
	char why[128];
	snprintf(why, sizeof why, "%s: %s", s->rec.http ? "inside the answer" : "before the answer",
	         strerror(errnum));
	plain_end(s, TRANSPORT_RESET, why);
}

/* 0 = written, or waiting for room; errno when the socket takes no more. */
static int write_some(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	struct iovec iov[3];
	struct msghdr m = { .msg_iov = iov };
	while ((m.msg_iovlen = fill_iov(s, iov)) > 0) {
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return errno;
		if (n < 0) {
			plain_watch(s, true);
			return 0;
		}
		c->n_sent += (size_t)n;
	}
	plain_watch(s, false);
	return 0;
}

static void read_some(struct slot *s);

static void write_request(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	unsigned n_sends = s->n_sends;
	int errnum = write_some(s);
	if (errnum == 0)
		return;
	/* a server may answer before it has read everything, and close: the answer counts */
	plain_watch(s, false);
	c->peer_closed = true;
	read_some(s);
	bool undecided = !s->has_ended && c->state == CONN_BUSY && !c->got_bytes && s->n_sends == n_sends;
	if (undecided && !send_again(s))
		fail_before_answer(s, errnum);
}

void plain_connected(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	s->connected = true;
	s->conn_ns = clock_now_ns();
	s->n_sends++;
	c->state = CONN_BUSY;
	write_request(s);
}

/* Looked at before it is used again: the end of a connection may wait to be read. */
static bool is_alive(const struct http1_conn *c)
{
	char byte;
	return c->state == CONN_IDLE && !c->peer_closed &&
	       recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void send_request(struct slot *s, const struct load_request *rq)
{
	struct http1_conn *c = &s->conn;
	c->body = rq->body;
	c->body_len = rq->body_len;
	c->length_len = (size_t)snprintf(c->length_line, sizeof c->length_line, "%zu\r\n\r\n", rq->body_len);
	s->http.on_trailer = s->tap ? s->tap->trailer : NULL;
	s->http.on_trailer_ctx = s->tap ? s->tap->ctx : NULL;
	begin_request(s);
	c->reused = is_alive(c);
	if (!c->reused) {
		plain_close(s);
		plain_connect(s);
		return;
	}
	s->connected = true;
	s->n_sends++;
	c->state = CONN_BUSY;
	write_request(s);
}

/* --- reading ------------------------------------------------------------------------------------------- */

static int take_plain(void *ctx, const char *bytes, size_t len)
{
	struct slot *s = ctx;
	return transfer_body(s, s->ld->plain->rx_ns, bytes, len);
}

/* False when the request has ended by it. */
static bool take_body(struct slot *s, const char *bytes, size_t len)
{
	struct http1_conn *c = &s->conn;
	enum http1_coding coding = s->http.head.coding;
	int rc;
	if (coding == HTTP1_IDENTITY) {
		rc = take_plain(s, bytes, len) < 0 ? 1 : 0;
	} else {
		if (!c->inflate)
			c->inflate = http1_inflate_new(coding);
		rc = c->inflate ? http1_inflate_feed(c->inflate, bytes, len, take_plain, s) : -1;
	}
	if (rc == 1)
		plain_end(s, TRANSPORT_BAD, "the answer is over its bounds");
	else if (rc < 0 && !c->inflate)
		plain_end(s, TRANSPORT_BAD, "content encoding: it cannot be undone here");
	else if (rc < 0)
		plain_end(s, TRANSPORT_BAD, "content encoding: the body is not of it");
	return rc == 0;
}

static void take_bytes(struct slot *s, char *bytes, size_t len)
{
	uint64_t n_lines = s->http.n_lines;
	size_t body_len, n_used;
	char *body;
	enum http1_step step = http1_feed(&s->http, bytes, len, &body, &body_len, &n_used);
	s->conn.got_bytes = true;
	if (s->http.n_lines != n_lines)
		transfer_head_seen(s, s->ld->plain->rx_ns);
	if (body_len && !take_body(s, body, body_len))
		return;
	if (step == HTTP1_BAD) {
		plain_end(s, TRANSPORT_BAD, s->http.head.why);
	} else if (step == HTTP1_DONE) {
		s->conn.peer_closed |= n_used < len; /* bytes nobody asked for: not to be used again */
		plain_end(s, TRANSPORT_COMPLETE, "");
	}
}

static void take_close(struct slot *s)
{
	char why[128];
	switch (http1_closed(&s->http)) {
	case HTTP1_END_OK:
		s->conn.peer_closed = true;
		plain_end(s, TRANSPORT_COMPLETE, "");
		return;
	case HTTP1_END_NOTHING:
		if (!send_again(s))
			plain_end(s, TRANSPORT_RESET, "closed without an answer");
		return;
	case HTTP1_END_HEAD:
		plain_end(s, TRANSPORT_CUT, "closed inside the head");
		return;
	case HTTP1_END_LENGTH:
		snprintf(why, sizeof why, "closed inside the body: %llu bytes are missing",
		         (unsigned long long)s->http.left);
		plain_end(s, TRANSPORT_CUT, why);
		return;
	case HTTP1_END_CHUNK:
		plain_end(s, TRANSPORT_CUT, "closed inside the body: before its last chunk");
		return;
	}
}

/* One read a call: what is left keeps the socket readable, and others get their turn. */
static void read_some(struct slot *s)
{
	struct load *ld = s->ld;
	ssize_t n = plain_recv(s, &ld->plain->rx_ns, &ld->stamp_ns);
	if (n < 0 && errno == EAGAIN)
		return;
	ld->stamped = true;
	ld->read_no++;
	if (n > 0)
		take_bytes(s, ld->plain->in, (size_t)n);
	else if (n == 0)
		take_close(s);
	else if (!send_again(s))
		fail_before_answer(s, errno);
}

static void ready(struct load *ld, int fd, uint32_t events)
{
	struct plain *p = ld->plain;
	struct slot *s = (size_t)fd < p->n_by_fd ? p->by_fd[fd] : NULL;
	if (!s || s->has_ended)
		return;
	struct http1_conn *c = &s->conn;
	switch (c->state) {
	case CONN_CLOSED:
		break;
	case CONN_CONNECTING:
		if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			plain_connect_ready(s);
		break;
	case CONN_IDLE: /* closed by the server, or bytes nobody asked for */
		plain_close(s);
		break;
	case CONN_BUSY:
		c->peer_closed |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
		if (events & EPOLLOUT && c->watching_out)
			write_request(s);
		if (events & ~(uint32_t)EPOLLOUT && !s->has_ended && c->state == CONN_BUSY && c->fd == fd)
			read_some(s);
		break;
	}
}

/* --- table --------------------------------------------------------------------------------------------- */

static int slot_open(struct slot *s)
{
	s->conn.next_at_ns = UINT64_MAX;
	return 0;
}

static void slot_close(struct slot *s)
{
	plain_close(s);
	http1_inflate_free(s->conn.inflate);
}

const struct transfer_path transfer_plain = {
	.open = plain_open,
	.close = plain_done,
	.slot_open = slot_open,
	.slot_close = slot_close,
	.send = send_request,
	.drop = drop,
	.ready = ready,
	.timeout = plain_timeout,
	.reap = reap,
};
