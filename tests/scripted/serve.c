/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, HTTP framing, slots and the one timer: a heap of absolute due times behind a timerfd, so that one
 * late wake-up never moves the next token. */
#include "conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 65536u
#define BODY_MAX (64u << 20)

uint64_t slots_used, slots_queued;
static int epoll_fd, timer_fd, listener;
static struct conn *live, *dead, *queue_head, *queue_tail;

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* --- due times --- */

static struct conn **heap; /* from 1 */
static size_t heap_n, heap_cap;

static void heap_put(size_t at, struct conn *c)
{
	heap[at] = c;
	c->heap_at = at;
}

static void heap_sift(size_t at, struct conn *c)
{
	while (at > 1 && heap[at / 2]->due_ns > c->due_ns) {
		heap_put(at, heap[at / 2]);
		at /= 2;
	}
	for (;;) {
		size_t kid = 2 * at;
		if (kid + 1 <= heap_n && heap[kid + 1]->due_ns < heap[kid]->due_ns)
			kid++;
		if (kid > heap_n || heap[kid]->due_ns >= c->due_ns)
			break;
		heap_put(at, heap[kid]);
		at = kid;
	}
	heap_put(at, c);
}

static void heap_remove(struct conn *c)
{
	size_t at = c->heap_at;
	struct conn *last = heap[heap_n--];
	c->heap_at = 0;
	if (last != c)
		heap_sift(at, last);
}

void conn_due(struct conn *c, uint64_t due_ns)
{
	if (c->heap_at)
		heap_remove(c);
	if (due_ns == NO_DUE)
		return;
	if (heap_n + 2 > heap_cap) {
		heap_cap = heap_cap ? 2 * heap_cap : 64;
		heap = realloc(heap, heap_cap * sizeof(struct conn *));
		if (!heap)
			abort();
	}
	c->due_ns = due_ns;
	heap_sift(++heap_n, c);
}

static void timer_arm(void)
{
	static uint64_t armed;
	uint64_t due = heap_n ? heap[1]->due_ns : 0;
	if (due == armed)
		return;
	struct itimerspec t = { .it_value = { (time_t)(due / 1000000000ull), (long)(due % 1000000000ull) } };
	timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
	armed = due;
}

/* --- slots --- */

bool slot_take(struct conn *c)
{
	if (slots_used < opt.slots) {
		slots_used++;
		c->rq.in_slot = true;
		return true;
	}
	slots_queued++;
	c->next = NULL;
	if (queue_tail)
		queue_tail->next = c;
	else
		queue_head = c;
	queue_tail = c;
	return false;
}

static void queue_remove(struct conn *c)
{
	struct conn *before = NULL;
	for (struct conn *q = queue_head; q; before = q, q = q->next) {
		if (q != c)
			continue;
		if (before)
			before->next = q->next;
		else
			queue_head = q->next;
		if (queue_tail == q)
			queue_tail = before;
		slots_queued--;
		return;
	}
}

static void slot_give(struct conn *c)
{
	if (!c->rq.in_slot) {
		queue_remove(c);
		return;
	}
	c->rq.in_slot = false;
	slots_used--;
	struct conn *next = queue_head;
	if (!next)
		return;
	queue_remove(next);
	slots_used++;
	next->rq.in_slot = true;
	request_start(next);
}

/* --- connections --- */

static void conn_interest(struct conn *c)
{
	bool want = c->out_off < c->out.len;
	if (want == c->want_out || c->dead)
		return;
	struct epoll_event ev = { .events = EPOLLIN | (want ? EPOLLOUT : 0), .data.ptr = c };
	epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
	c->want_out = want;
}

/* Memory goes at the end of the loop's round: events of the same round may still point here. */
void conn_drop(struct conn *c, bool reset)
{
	if (c->dead)
		return;
	c->dead = true;
	if (reset) {
		struct linger hard = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	}
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); /* a child may still hold the socket */
	close(c->fd);
	conn_due(c, NO_DUE);
	if (c->busy)
		slot_give(c);
	request_clear(&c->rq);
	if (c->prev_live)
		c->prev_live->next_live = c->next_live;
	else
		live = c->next_live;
	if (c->next_live)
		c->next_live->prev_live = c->prev_live;
	c->next = dead;
	dead = c;
}

static void bury(void)
{
	while (dead) {
		struct conn *c = dead;
		dead = c->next;
		free(c->in.p);
		free(c->out.p);
		free(c);
	}
}

static void conn_flush(struct conn *c)
{
	while (c->out_off < c->out.len) {
		ssize_t n = write(c->fd, c->out.p + c->out_off, c->out.len - c->out_off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			conn_drop(c, false);
			return;
		}
		c->out_off += (size_t)n;
	}
	if (c->out_off == c->out.len)
		c->out.len = c->out_off = 0;
	if (c->out.len == 0 && c->close_after && !c->busy)
		conn_drop(c, false);
	else
		conn_interest(c);
}

void conn_send(struct conn *c, const void *data, size_t len)
{
	if (c->dead)
		return;
	sb_add(&c->out, data, len);
	conn_flush(c);
}

static void accept_all(int listen_fd)
{
	int one = 1;
	for (;;) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct conn *c = calloc(1, sizeof(*c));
		if (!c)
			abort();
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		c->fd = fd;
		c->accept_ns = now_ns();
		c->next_live = live;
		if (live)
			live->prev_live = c;
		live = c;
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
	}
}

/* --- HTTP --- */

static bool header_is(const char *line, const char *name, const char **value)
{
	size_t n = strlen(name);
	if (strncasecmp(line, name, n) != 0 || line[n] != ':')
		return false;
	*value = line + n + 1 + strspn(line + n + 1, " \t");
	return true;
}

static bool bearer_ok(const char *value, const char *end)
{
	size_t n = strlen(opt.api_key);
	return end - value == (ptrdiff_t)(7 + n) && !strncmp(value, "Bearer ", 7) &&
	       !memcmp(value + 7, opt.api_key, n);
}

/* Reads the head; false when it is none of ours to answer (the connection is closed then). */
static bool read_head(struct http_in *in, const char *head, size_t *body_len, bool *expect)
{
	unsigned long long len = 0;
	if (sscanf(head, "%7s %199[^ ?]", in->method, in->path) != 2)
		return false;
	in->authorised = !opt.api_key;
	for (const char *line = strstr(head, "\r\n"); line && line[2] != '\r';
	     line = strstr(line + 2, "\r\n")) {
		const char *v, *end = strstr(line + 2, "\r\n");
		if (header_is(line + 2, "Content-Length", &v))
			len = strtoull(v, NULL, 10);
		else if (header_is(line + 2, "Connection", &v))
			in->close = !strncasecmp(v, "close", 5);
		else if (header_is(line + 2, "Expect", &v))
			*expect = true;
		else if (header_is(line + 2, "Transfer-Encoding", &v))
			return false;
		else if (opt.api_key && end && header_is(line + 2, "Authorization", &v))
			in->authorised = bearer_ok(v, end);
	}
	if (len > BODY_MAX)
		return false;
	*body_len = (size_t)len;
	return true;
}

/* Answers the requests that have arrived whole, one at a time. */
static void read_requests(struct conn *c)
{
	while (!c->busy && !c->dead && !c->close_after && c->in.len) {
		char *end = memmem(c->in.p, c->in.len, "\r\n\r\n", 4);
		struct http_in in = { 0 };
		size_t body_len = 0;
		bool expect = false;
		if (!end && c->in.len <= HEAD_MAX)
			return;
		if (!end || memchr(c->in.p, 0, (size_t)(end - c->in.p)) ||
		    !read_head(&in, c->in.p, &body_len, &expect)) {
			conn_drop(c, false);
			return;
		}
		size_t head_len = (size_t)(end - c->in.p) + 4;
		if (c->in.len < head_len + body_len) {
			if (expect && c->in.len == head_len)
				conn_send(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
			return;
		}
		struct sb request = c->in;
		c->in = (struct sb){ 0 };
		sb_add(&c->in, request.p + head_len + body_len, request.len - head_len - body_len);
		in.body = (struct span){ request.p + head_len, body_len };
		c->busy = true;
		c->close_after = in.close;
		c->rq = (struct request){ .recv_ns = now_ns(), .status = 200 };
		answer(c, &in);
		free(request.p);
	}
}

void request_finished(struct conn *c)
{
	if (c->dead)
		return;
	conn_due(c, NO_DUE);
	slot_give(c);
	request_clear(&c->rq);
	c->busy = false;
	conn_flush(c);
}

static void conn_read(struct conn *c)
{
	char chunk[65536];
	while (!c->dead) {
		ssize_t n = read(c->fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0 || c->in.len + (size_t)n > HEAD_MAX + BODY_MAX) {
			conn_drop(c, false);
			return;
		}
		sb_add(&c->in, chunk, (size_t)n);
	}
	read_requests(c);
}

/* --- the loop --- */

static void run_due(void)
{
	while (heap_n && heap[1]->due_ns <= now_ns()) {
		struct conn *c = heap[1];
		heap_remove(c);
		request_step(c);
		if (!c->dead && !c->busy)
			read_requests(c);
	}
	timer_arm();
}

/* As a server that is started anew: whoever waits is cut off, nobody gets in, then all is as before. */
void serve_restart(void)
{
	struct timespec away = { (time_t)(opt.slow_ns / 1000000000ull), (long)(opt.slow_ns % 1000000000ull) };
	close(listener);
	while (live)
		conn_drop(live, true);
	nanosleep(&away, NULL);
	listener = listen_again();
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &epoll_fd };
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &ev);
}

void serve(int listen_fd)
{
	listener = listen_fd;
	static struct epoll_event events[256];
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &epoll_fd };
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &ev);
	ev.data.ptr = &timer_fd;
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &ev);
	for (;;) {
		int n = epoll_wait(epoll_fd, events, 256, -1);
		run_due(); /* tokens before new work */
		for (int i = 0; i < n; i++) {
			void *p = events[i].data.ptr;
			uint64_t ticks;
			if (p == &epoll_fd) {
				accept_all(listener);
			} else if (p == &timer_fd) {
				if (read(timer_fd, &ticks, sizeof(ticks)) < 0)
					continue;
			} else {
				struct conn *c = p;
				if (!c->dead && (events[i].events & EPOLLOUT))
					conn_flush(c);
				if (!c->dead)
					conn_read(c);
			}
		}
		run_due();
		bury();
	}
}
