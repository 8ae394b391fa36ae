/* SPDX-License-Identifier: Apache-2.0 */
/* The floor with libcurl: curl_multi_socket_action on an epoll of our own, a write callback that counts ends
 * of events and, where asked, takes the time of each. Closed loop. */
#include "client.h"

#include "base/clock.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct stream {
	struct bare *bare;
	CURL *easy;
	uint64_t k, sent_ns, n_ends, *at_ns;
	char last;
};

struct bare {
	const struct job *job;
	CURLM *multi;
	struct stream *streams;
	int epfd, timer;
	uint64_t start_ns, n_open, due_ns, n_sent, n_done, n_ends, n_failed;
};

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct stream *s = ctx;
	uint64_t now = s->at_ns ? clock_now_ns() : 0;
	for (char *end = p + size * n, *q = p; (q = memchr(q, '\n', (size_t)(end - q))); q++) {
		if ((q > p ? q[-1] : s->last) != '\n')
			continue;
		if (s->at_ns)
			s->at_ns[s->n_ends] = now;
		s->n_ends++;
	}
	if (n)
		s->last = p[size * n - 1];
	return size * n;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	struct bare *b = ctx;
	struct epoll_event ev = { .data.fd = fd };
	ev.events =
		((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0u) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0u);
	if (what == CURL_POLL_REMOVE)
		epoll_ctl(b->epfd, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(b->epfd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) < 0)
		epoll_ctl(b->epfd, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev);
	if (what != CURL_POLL_REMOVE && !known)
		curl_multi_assign(b->multi, fd, b);
	return 0;
}

static int on_timer(CURLM *m, long ms, void *ctx)
{
	((struct bare *)ctx)->due_ns = ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)ms * NS_PER_MS;
	return 0;
}

static void open_handle(struct bare *b, struct stream *s, struct curl_slist *headers)
{
	char url[256];
	snprintf(url, sizeof url, "%s/v1/chat/completions", b->job->url);
	s->bare = b;
	s->easy = curl_easy_init();
	s->at_ns = b->job->times ? calloc(b->job->tokens + 8, sizeof *s->at_ns) : NULL;
	curl_easy_setopt(s->easy, CURLOPT_URL, url);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(s->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(s->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
}

static void send_next(struct bare *b, struct stream *s)
{
	int running;
	if (b->n_sent == b->job->requests)
		return;
	s->k = b->n_sent++;
	s->n_ends = 0;
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, job_body(b->job, s->k));
	s->sent_ns = clock_now_ns();
	curl_multi_add_handle(b->multi, s->easy);
	curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

static void reap(struct bare *b)
{
	CURLMsg *m;
	int left;
	while ((m = curl_multi_info_read(b->multi, &left))) {
		struct stream *s = NULL;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &s);
		b->n_done++;
		b->n_failed += m->data.result != CURLE_OK;
		b->n_ends += s->n_ends;
		if (s->at_ns)
			job_times(b->job, s->k, s->sent_ns, s->at_ns + 1, b->job->tokens);
		curl_multi_remove_handle(b->multi, s->easy);
		send_next(b, s);
	}
}

static void open_streams(struct bare *b)
{
	const struct job *j = b->job;
	while (b->n_open < j->streams &&
	       (b->timer < 0 || clock_now_ns() >= b->start_ns + b->n_open * j->step_us * NS_PER_US))
		send_next(b, &b->streams[b->n_open++]);
	if (b->n_open < j->streams)
		job_open_at(j, b->timer, b->start_ns, b->n_open);
	else if (b->timer >= 0)
		epoll_ctl(b->epfd, EPOLL_CTL_DEL, b->timer, NULL);
}

static void loop(struct bare *b)
{
	struct epoll_event ev[128];
	int running;
	while (b->n_done < b->job->requests) {
		uint64_t now = clock_now_ns();
		int n = epoll_wait(b->epfd, ev, 128, b->due_ns <= now ? 0 : 20);
		for (int i = 0; i < n; i++) {
			if (ev[i].data.fd == b->timer) {
				open_streams(b);
				continue;
			}
			int mask = (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
			           (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0);
			curl_multi_socket_action(b->multi, ev[i].data.fd, mask, &running);
			reap(b);
		}
		if (b->due_ns <= clock_now_ns()) {
			b->due_ns = UINT64_MAX;
			curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
			reap(b);
		}
	}
}

struct cost client_curl(const struct job *j)
{
	struct bare b = { .job = j, .due_ns = UINT64_MAX };
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	b.multi = curl_multi_init();
	b.epfd = epoll_create1(0);
	b.streams = calloc(j->streams, sizeof *b.streams);
	if (!b.streams || !b.multi)
		die("curl");
	job_body(j, 0);
	curl_multi_setopt(b.multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(b.multi, CURLMOPT_SOCKETDATA, &b);
	curl_multi_setopt(b.multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(b.multi, CURLMOPT_TIMERDATA, &b);
	curl_multi_setopt(b.multi, CURLMOPT_MAXCONNECTS, (long)j->streams + 8);
	for (uint64_t i = 0; i < j->streams; i++)
		open_handle(&b, &b.streams[i], headers);
	uint64_t cpu = clock_cpu_self_ns(), wall = clock_now_ns();
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = b.timer = job_opening(j) };
	if (b.timer >= 0)
		epoll_ctl(b.epfd, EPOLL_CTL_ADD, b.timer, &ev);
	b.start_ns = wall;
	open_streams(&b);
	loop(&b);
	struct cost c = { .cpu_ns = clock_cpu_self_ns() - cpu,
		          .wall_ns = clock_now_ns() - wall,
		          .n_events = b.n_ends,
		          .n_done = b.n_done,
		          .n_failed = b.n_failed,
		          .max_in_flight = j->streams,
		          .send_lag_p50_ns = UINT64_MAX,
		          .send_lag_p99_ns = UINT64_MAX,
		          .send_lag_max_ns = UINT64_MAX,
		          .loop_lag_p99_ns = UINT64_MAX };
	for (uint64_t i = 0; i < j->streams; i++) {
		curl_easy_cleanup(b.streams[i].easy);
		free(b.streams[i].at_ns);
	}
	curl_multi_cleanup(b.multi);
	curl_slist_free_all(headers);
	free(b.streams);
	return c;
}
