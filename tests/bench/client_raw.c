/* SPDX-License-Identifier: Apache-2.0 */
/* The floors: a reader that looks at nothing but ends of events and of answers, and a bare timer. */
#include "client.h"

#include "base/clock.h"
#include "load/hist.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define READ_BYTES 65536
#define EVENTS_PER_WAIT 128

struct stream {
	int fd;
	uint64_t k, sent_ns, n_ends, *at_ns;
	char last, tail[5];
};

struct raw {
	const struct job *job;
	struct stream *streams;
	int epfd, timer;
	uint64_t start_ns, n_open, n_sent, n_done, n_ends;
	char in[READ_BYTES];
};

static int connect_to(const struct job *j)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)j->port) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, j->host, &at.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)(void *)&at, sizeof at) < 0)
		die("raw: connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void ask_for_stamps(int fd)
{
	int on = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0)
		die("raw: SO_TIMESTAMPNS");
}

/* The kernel's stamp of the last segment read, on the monotonic clock. */
static ssize_t recv_stamped(int fd, char *in, size_t size, uint64_t *at_ns)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { in, size };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	ssize_t n = recvmsg(fd, &m, 0);
	uint64_t now = clock_now_ns(), wall = (uint64_t)clock_wall_ns();
	*at_ns = now;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct timespec t;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&t, CMSG_DATA(c), sizeof t);
		*at_ns = now - (wall - ((uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec));
	}
	return n;
}

static void send_next(struct raw *r, struct stream *s)
{
	const struct job *j = r->job;
	char head[256];
	if (r->n_sent == j->requests)
		return;
	s->k = r->n_sent++;
	s->n_ends = 0;
	memset(s->tail, 0, sizeof s->tail);
	const char *body = job_body(j, s->k);
	size_t len = strlen(body);
	int n = snprintf(
		head, sizeof head,
		"POST /v1/chat/completions HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n",
		j->host, j->port, len);
	struct iovec iov[2] = { { head, (size_t)n }, { (void *)(uintptr_t)body, len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	s->sent_ns = clock_now_ns();
	if (sendmsg(s->fd, &m, MSG_NOSIGNAL) != (ssize_t)((size_t)n + len))
		die("raw: send");
}

static void count_ends(struct stream *s, const char *p, size_t n, uint64_t now_ns)
{
	for (const char *end = p + n, *q = p; (q = memchr(q, '\n', (size_t)(end - q))); q++) {
		if ((q > p ? q[-1] : s->last) != '\n')
			continue;
		if (s->at_ns)
			s->at_ns[s->n_ends] = now_ns;
		s->n_ends++;
	}
	s->last = p[n - 1];
}

static void read_one(struct raw *r, struct stream *s)
{
	uint64_t now;
	ssize_t n;
	if (r->job->kernel_stamps) {
		n = recv_stamped(s->fd, r->in, sizeof r->in, &now);
	} else {
		n = recv(s->fd, r->in, sizeof r->in, 0);
		now = clock_now_ns();
	}
	if (n <= 0)
		die("raw: the connection ended");
	count_ends(s, r->in, (size_t)n, now);
	size_t keep = n < 5 ? 5 - (size_t)n : 0;
	memmove(s->tail, s->tail + 5 - keep, keep);
	memcpy(s->tail + keep, r->in + n - (5 - keep), 5 - keep);
	if (memcmp(s->tail, "0\r\n\r\n", 5) != 0)
		return;
	r->n_done++;
	r->n_ends += s->n_ends;
	if (s->at_ns) /* the first event is the role's */
		job_times(r->job, s->k, s->sent_ns, s->at_ns + 1, r->job->tokens);
	send_next(r, s);
}

/* All at once without a timer; else as they come due. */
static void open_streams(struct raw *r)
{
	const struct job *j = r->job;
	while (r->n_open < j->streams &&
	       (r->timer < 0 || clock_now_ns() >= r->start_ns + r->n_open * j->step_us * NS_PER_US))
		send_next(r, &r->streams[r->n_open++]);
	if (r->n_open < j->streams)
		job_open_at(j, r->timer, r->start_ns, r->n_open);
	else if (r->timer >= 0)
		epoll_ctl(r->epfd, EPOLL_CTL_DEL, r->timer, NULL);
}

static void loop(struct raw *r)
{
	struct epoll_event ev[EVENTS_PER_WAIT];
	while (r->n_done < r->job->requests) {
		int n = epoll_wait(r->epfd, ev, EVENTS_PER_WAIT, r->job->busy_poll ? 0 : -1);
		for (int i = 0; i < n; i++) {
			if (ev[i].data.ptr)
				read_one(r, ev[i].data.ptr);
			else
				open_streams(r);
		}
	}
}

struct cost client_raw(const struct job *j)
{
	struct raw *r = calloc(1, sizeof *r);
	struct epoll_event ev = { .events = EPOLLIN };
	if (!r || !(r->streams = calloc(j->streams, sizeof *r->streams)))
		die("raw");
	r->job = j;
	r->epfd = epoll_create1(0);
	job_body(j, 0);
	uint64_t cpu = clock_cpu_self_ns(), wall = clock_now_ns();
	for (uint64_t i = 0; i < j->streams; i++) {
		struct stream *s = &r->streams[i];
		ev.data.ptr = s;
		s->fd = connect_to(j);
		if (j->kernel_stamps)
			ask_for_stamps(s->fd);
		s->at_ns = j->times ? calloc(j->tokens + 8, sizeof *s->at_ns) : NULL;
		epoll_ctl(r->epfd, EPOLL_CTL_ADD, s->fd, &ev);
	}
	r->timer = job_opening(j);
	ev.data.ptr = NULL;
	if (r->timer >= 0)
		epoll_ctl(r->epfd, EPOLL_CTL_ADD, r->timer, &ev);
	r->start_ns = clock_now_ns();
	open_streams(r);
	loop(r);
	return (struct cost){ .cpu_ns = clock_cpu_self_ns() - cpu,
		              .wall_ns = clock_now_ns() - wall,
		              .n_events = r->n_ends,
		              .n_done = r->n_done,
		              .max_in_flight = j->streams,
		              .send_lag_p50_ns = UINT64_MAX,
		              .send_lag_p99_ns = UINT64_MAX,
		              .send_lag_max_ns = UINT64_MAX,
		              .loop_lag_p99_ns = UINT64_MAX };
}

struct cost client_timer(const struct job *j)
{
	static struct hist lag;
	int epfd = epoll_create1(0), fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct epoll_event ev = { .events = EPOLLIN };
	epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev);
	uint64_t cpu = clock_cpu_self_ns(), wall = clock_now_ns();
	for (uint64_t k = 0; k < j->requests; k++) {
		uint64_t due = wall + (uint64_t)((double)(k + 1) * 1e9 / j->rate_rps), n;
		struct itimerspec its = { .it_value = { (time_t)(due / NS_PER_S), (long)(due % NS_PER_S) } };
		if (clock_now_ns() < due) {
			timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL);
			if (epoll_wait(epfd, &ev, 1, -1) == 1 && read(fd, &n, sizeof n) < 0)
				die("timer");
		}
		hist_add(&lag, clock_now_ns() - due);
	}
	return (struct cost){ .cpu_ns = clock_cpu_self_ns() - cpu,
		              .wall_ns = clock_now_ns() - wall,
		              .n_done = j->requests,
		              .send_lag_p50_ns = hist_quantile_ns(&lag, 0.5),
		              .send_lag_p99_ns = hist_quantile_ns(&lag, 0.99),
		              .send_lag_max_ns = lag.max_ns,
		              .loop_lag_p99_ns = UINT64_MAX };
}
