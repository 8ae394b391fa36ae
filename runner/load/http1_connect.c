/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the plain path: names looked up once a cell, addresses tried in turn, connections opened ahead.
 */
#include "load/http1_plain.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#define NEXT_ADDR_NS (250 * NS_PER_MS) /* RFC 8305: a silent address is given that long before the next */
#define BACKLOG_PAUSE_NS (1 * NS_PER_MS)
#define AHEAD_AT_ONCE 64 /* within a listening socket's queue */
#define AHEAD_NS (10 * NS_PER_S)

/* --- sockets ------------------------------------------------------------------------------------------- */

void plain_close(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	if (c->fd >= 0) {
		s->ld->plain->by_fd[c->fd] = NULL;
		close(c->fd); /* and with it its place in epoll */
	}
	c->fd = -1;
	c->state = CONN_CLOSED;
	c->watching_out = c->peer_closed = false;
	c->next_at_ns = UINT64_MAX;
}

static int watch(struct slot *s, int op, bool out)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | (out ? (uint32_t)EPOLLOUT : 0),
		                  .data.fd = s->conn.fd };
	s->conn.watching_out = out;
	return epoll_ctl(s->ld->epfd, op, s->conn.fd, &ev);
}

void plain_watch(struct slot *s, bool out)
{
	if (s->conn.watching_out != out)
		watch(s, EPOLL_CTL_MOD, out);
}

static int remember_fd(struct plain *p, int fd, struct slot *s)
{
	if ((size_t)fd >= p->n_by_fd) {
		size_t n = (size_t)fd + 256;
		struct slot **more = realloc(p->by_fd, n * sizeof(struct slot *));
		if (!more)
			return -1;
		memset(more + p->n_by_fd, 0, (n - p->n_by_fd) * sizeof(struct slot *));
		p->by_fd = more;
		p->n_by_fd = n;
	}
	p->by_fd[fd] = s;
	return 0;
}

/* errno, or 0 = connected, or EINPROGRESS. */
static int begin_connect(struct slot *s)
{
	const struct plain_addr *a = &s->ld->plain->addrs[s->conn.addr];
	int on = 1, fd = socket(a->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (remember_fd(s->ld->plain, fd, s) < 0) {
		close(fd);
		return ENOMEM;
	}
	s->conn.fd = fd;
	s->conn.state = CONN_CONNECTING;
	if (a->to.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	plain_ask_for_stamps(fd);
	return connect(fd, (const struct sockaddr *)(const void *)&a->to, a->len) < 0 ? errno : 0;
}

/* --- addresses in turn --------------------------------------------------------------------------------- */

static void connect_here(struct slot *s);

static void call_at(struct slot *s, uint64_t at_ns)
{
	s->conn.next_at_ns = at_ns;
	if (at_ns < s->ld->plain->next_ns)
		s->ld->plain->next_ns = at_ns;
	if (at_ns < s->ld->curl_due_ns)
		s->ld->curl_due_ns = at_ns;
}

/* The address does not do: the next one, or one that had only been slow. */
static void connect_failed(struct slot *s, int errnum)
{
	struct plain *p = s->ld->plain;
	struct http1_conn *c = &s->conn;
	char why[128];
	plain_close(s);
	if (++c->n_tried < p->n_addrs || c->slow) {
		c->addr = c->n_tried < p->n_addrs ? (c->addr + 1) % p->n_addrs : c->slow - 1;
		c->slow = c->n_tried < p->n_addrs ? c->slow : 0;
		connect_here(s);
		return;
	}
	snprintf(why, sizeof why, "connect: %s", strerror(errnum));
	plain_end(s, TRANSPORT_RESET, why);
}

static void connected(struct slot *s)
{
	s->conn.next_at_ns = UINT64_MAX;
	s->ld->plain->good = s->conn.addr;
	plain_connected(s);
}

static void connect_here(struct slot *s)
{
	struct http1_conn *c = &s->conn;
	struct sockaddr_storage peer;
	socklen_t len = sizeof peer;
	int errnum = begin_connect(s);
	if (errnum == EAGAIN) { /* a unix socket whose queue is full */
		plain_close(s);
		c->state = CONN_CONNECTING;
		call_at(s, clock_now_ns() + BACKLOG_PAUSE_NS);
		return;
	}
	/* on this machine the other end has often answered already */
	bool here = errnum == 0 || (errnum == EINPROGRESS &&
	                            getpeername(c->fd, (struct sockaddr *)(void *)&peer, &len) == 0);
	if (!here && errnum != EINPROGRESS) {
		connect_failed(s, errnum);
	} else if (watch(s, EPOLL_CTL_ADD, !here) < 0) {
		connect_failed(s, errno);
	} else if (here) {
		connected(s);
	} else if (c->n_tried + 1 < s->ld->plain->n_addrs) {
		call_at(s, clock_now_ns() + NEXT_ADDR_NS);
	}
}

void plain_connect(struct slot *s)
{
	struct plain *p = s->ld->plain;
	s->conn.reused = false;
	s->conn.n_tried = 0;
	s->conn.slow = 0;
	s->conn.addr = p->good;
	if (p->n_addrs)
		connect_here(s);
	else
		plain_end(s, TRANSPORT_RESET, p->unresolved);
}

static int socket_error(int fd)
{
	int errnum = 0;
	socklen_t len = sizeof errnum;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 ? errno : errnum;
}

void plain_connect_ready(struct slot *s)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof peer;
	int errnum = socket_error(s->conn.fd);
	if (errnum)
		connect_failed(s, errnum);
	else if (getpeername(s->conn.fd, (struct sockaddr *)(void *)&peer, &len) == 0)
		connected(s); /* else the event was of a socket that had this number before */
}

static void give_next_a_try(struct slot *s)
{
	struct plain *p = s->ld->plain;
	if (s->conn.fd < 0) { /* the same again: its queue was full */
		connect_here(s);
		return;
	}
	s->conn.slow = s->conn.addr + 1;
	plain_close(s);
	s->conn.n_tried++;
	s->conn.addr = (s->conn.addr + 1) % p->n_addrs;
	connect_here(s);
}

void plain_timeout(struct load *ld)
{
	struct plain *p = ld->plain;
	uint64_t now = clock_now_ns(), next = UINT64_MAX;
	for (size_t i = 0; p->next_ns != UINT64_MAX && i < ld->n_busy; i++) {
		struct slot *s = ld->busy[i];
		if (s->conn.next_at_ns <= now) {
			s->conn.next_at_ns = UINT64_MAX;
			if (!s->has_ended && s->conn.state == CONN_CONNECTING)
				give_next_a_try(s);
		}
		if (s->conn.next_at_ns < next)
			next = s->conn.next_at_ns;
	}
	p->next_ns = next;
	ld->curl_due_ns = p->n_ended ? 0 : next;
}

/* --- connections opened ahead -------------------------------------------------------------------------- */

static void now_idle(struct slot *s)
{
	if (watch(s, EPOLL_CTL_ADD, false) < 0) {
		plain_close(s);
		return;
	}
	s->ld->plain->good = s->conn.addr;
	s->conn.state = CONN_IDLE;
}

static void begin_ahead(struct slot *s)
{
	s->conn.addr = s->ld->plain->good;
	int errnum = begin_connect(s);
	if (errnum == 0)
		now_idle(s);
	else if (errnum != EINPROGRESS)
		plain_close(s);
}

/* Up to AHEAD_AT_ONCE slots from `from` on. */
static void open_some(struct load *ld, size_t from, uint64_t until_ns)
{
	struct pollfd fds[AHEAD_AT_ONCE];
	size_t n = ld->n_slots - from < AHEAD_AT_ONCE ? ld->n_slots - from : AHEAD_AT_ONCE, n_open = n;
	for (size_t i = 0; i < n; i++)
		begin_ahead(ld->slots[from + i]);
	while (n_open && clock_now_ns() < until_ns) {
		n_open = 0;
		for (size_t i = 0; i < n; i++) {
			struct http1_conn *c = &ld->slots[from + i]->conn;
			fds[i] = (struct pollfd){ c->state == CONN_CONNECTING ? c->fd : -1, POLLOUT, 0 };
			n_open += c->state == CONN_CONNECTING;
		}
		if (n_open)
			poll(fds, n, 100);
		for (size_t i = 0; i < n; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (socket_error(fds[i].fd) == 0)
				now_idle(ld->slots[from + i]);
			else
				plain_close(ld->slots[from + i]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (ld->slots[from + i]->conn.state == CONN_CONNECTING)
			plain_close(ld->slots[from + i]);
	}
}

void transfer_open_ahead(struct load *ld)
{
	uint64_t limit = ld->spec->connect_timeout_ns;
	uint64_t until = clock_now_ns() + (limit && limit < AHEAD_NS ? limit : AHEAD_NS);
	if (!ld->spec->preconnect || ld->path != &transfer_plain || !ld->plain->n_addrs)
		return;
	for (size_t from = 0; from < ld->n_slots; from += AHEAD_AT_ONCE)
		open_some(ld, from, until);
}

/* --- set-up -------------------------------------------------------------------------------------------- */

static int take_unix(struct plain *p, const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof un.sun_path)
		return -1;
	memcpy(un.sun_path, path, strlen(path) + 1);
	memcpy(&p->addrs[0].to, &un, sizeof un);
	p->addrs[0].len = sizeof un;
	p->n_addrs = 1;
	return 0;
}

static void look_up(struct plain *p, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list = NULL;
	char name[256] = "";
	size_t n = strlen(host);
	if (n > 2 && host[0] == '[') { /* an IPv6 address, as URLs write it */
		host++;
		n -= 2;
		hints.ai_flags = AI_NUMERICHOST;
	}
	if (n < sizeof name)
		memcpy(name, host, n);
	int rc = name[0] ? getaddrinfo(name, port, &hints, &list) : EAI_NONAME;
	for (struct addrinfo *a = rc == 0 ? list : NULL; a && p->n_addrs < PLAIN_ADDRS_MAX; a = a->ai_next) {
		memcpy(&p->addrs[p->n_addrs].to, a->ai_addr, a->ai_addrlen);
		p->addrs[p->n_addrs++].len = a->ai_addrlen;
	}
	if (list)
		freeaddrinfo(list);
	if (p->n_addrs == 0)
		snprintf(p->unresolved, sizeof p->unresolved, "Could not resolve host: %.80s", name);
}

struct target {
	char *host, *port, *path, *query;
};

static void free_target(struct target *t)
{
	curl_free(t->host);
	curl_free(t->port);
	curl_free(t->path);
	curl_free(t->query);
}

/* The same bytes that libcurl sends. */
static void write_head(struct plain *p, const struct load_spec *spec, const struct target *t)
{
	bool port = strcmp(t->port, "80") != 0;
	buf_addf(&p->head, "POST %s%s%s HTTP/1.1\r\nHost: %s%s%s\r\n", t->path, t->query ? "?" : "",
	         t->query ? t->query : "", t->host, port ? ":" : "", port ? t->port : "");
	buf_addf(&p->head,
	         "User-Agent: proofmark/" PROOFMARK_VERSION
	         "\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\nAccept: %s\r\n",
	         spec->whole_answer ? "application/json" : "text/event-stream");
	if (spec->bearer)
		buf_addf(&p->head, "Authorization: Bearer %s\r\n", spec->bearer);
	buf_adds(&p->head, "Content-Length: ");
}

static bool parse_target(struct target *t, const char *url)
{
	CURLU *u = curl_url();
	bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_HOST, &t->host, 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_PORT, &t->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_PATH, &t->path, 0) == CURLUE_OK;
	if (ok && curl_url_get(u, CURLUPART_QUERY, &t->query, 0) != CURLUE_OK)
		t->query = NULL;
	curl_url_cleanup(u);
	return ok;
}

int plain_open(struct load *ld, struct err *err)
{
	const struct load_spec *spec = ld->spec;
	struct target t = { NULL, NULL, NULL, NULL };
	struct plain *p = ld->plain = calloc(1, sizeof *p);
	bool ok = p && (p->ended = calloc(ld->max_slots, sizeof(struct slot *))) && parse_target(&t, ld->url);
	int rc = 0;
	if (ok) {
		p->next_ns = UINT64_MAX;
		buf_init(&p->head, PLAIN_HEAD_BYTES_MAX);
		write_head(p, spec, &t);
		if (strncmp(spec->url, "unix://", 7) != 0)
			look_up(p, t.host, t.port);
		else if (take_unix(p, spec->url + 7) < 0)
			rc = err_set(err, ERR_PLAN, "load: '%s': longer than a unix socket's name can be",
			             spec->url);
	}
	free_target(&t);
	if (!ok || p->head.failed)
		return err_set(err, ERR_ENV, "load: no memory, or a path or key over 64 KiB");
	return rc;
}

void plain_done(struct load *ld)
{
	struct plain *p = ld->plain;
	if (!p)
		return;
	if (p->head.p)
		explicit_bzero(p->head.p, p->head.len);
	buf_done(&p->head);
	free(p->by_fd);
	free(p->ended);
	free(p);
	ld->plain = NULL;
}
