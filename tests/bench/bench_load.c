/* SPDX-License-Identifier: Apache-2.0 */
/* bench_load SCRIPTED_ENGINE [ROUNDS [flood|short|paced]]: CPU of load_run (parse and record) against a bare
 * libcurl reader on the same epoll loop that only counts ends of events, in turns within one run. Ratios are
 * what to look at; absolute figures belong to this machine and this minute. flood   many events a read, 8
 * streams       paced 256 streams x 50 events/s short   answers of one token, 64 connections
 */
#include "../truth/engine.h"
#include "base/clock.h"
#include "load/load.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAMS_MAX 1024
#define TOK                                                                                                  \
	"data: "                                                                                             \
	"{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1790000000," \
	"\"model\":\"bench-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" "                     \
	"word\"},\"logprobs\":null,"                                                                         \
	"\"finish_reason\":null}]}\n\n"
#define TAIL                                                                                                 \
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"

struct job {
	const char *name, *url, *body;
	uint64_t streams, requests, events; /* events a request */
};

struct cost {
	uint64_t cpu_ns, wall_ns, n;
};

/* --- bare reader --------------------------------------------------------------------------------------- */

struct bare {
	const struct job *job;
	CURLM *multi;
	int epfd;
	uint64_t due_ns, sent, done, ends;
	char last;
};

static size_t count_ends(char *p, size_t size, size_t n, void *ctx)
{
	struct bare *b = ctx;
	for (char *end = p + size * n, *q = p; (q = memchr(q, '\n', (size_t)(end - q))); q++)
		b->ends += q > p ? q[-1] == '\n' : b->last == '\n';
	if (n)
		b->last = p[size * n - 1];
	return size * n;
}

static int bare_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
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

static int bare_timer(CURLM *m, long ms, void *ctx)
{
	((struct bare *)ctx)->due_ns = ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)ms * NS_PER_MS;
	return 0;
}

static CURL *bare_handle(struct bare *b, struct curl_slist *headers)
{
	CURL *e = curl_easy_init();
	char url[256];
	snprintf(url, sizeof url, "%s/v1/chat/completions", b->job->url);
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, b->job->body);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, count_ends);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, b);
	return e;
}

static void bare_reap(struct bare *b)
{
	CURLMsg *m;
	int left, running;
	while ((m = curl_multi_info_read(b->multi, &left))) {
		CURL *e = m->easy_handle;
		b->done++;
		curl_multi_remove_handle(b->multi, e);
		if (b->sent == b->job->requests)
			continue;
		b->sent++;
		curl_multi_add_handle(b->multi, e);
		curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
}

static void bare_loop(struct bare *b)
{
	struct epoll_event ev[128];
	int running;
	while (b->done < b->job->requests) {
		uint64_t now = clock_now_ns();
		int n = epoll_wait(b->epfd, ev, 128, b->due_ns <= now ? 0 : 20);
		for (int i = 0; i < n; i++) {
			int mask = (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
			           (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0);
			curl_multi_socket_action(b->multi, ev[i].data.fd, mask, &running);
			bare_reap(b);
		}
		if (b->due_ns <= clock_now_ns()) {
			b->due_ns = UINT64_MAX;
			curl_multi_socket_action(b->multi, CURL_SOCKET_TIMEOUT, 0, &running);
			bare_reap(b);
		}
	}
}

static struct cost run_bare(const struct job *j)
{
	struct bare b = {
		.job = j, .multi = curl_multi_init(), .epfd = epoll_create1(0), .due_ns = UINT64_MAX
	};
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	CURL *e[STREAMS_MAX] = { NULL };
	curl_multi_setopt(b.multi, CURLMOPT_SOCKETFUNCTION, bare_socket);
	curl_multi_setopt(b.multi, CURLMOPT_SOCKETDATA, &b);
	curl_multi_setopt(b.multi, CURLMOPT_TIMERFUNCTION, bare_timer);
	curl_multi_setopt(b.multi, CURLMOPT_TIMERDATA, &b);
	curl_multi_setopt(b.multi, CURLMOPT_MAXCONNECTS, (long)j->streams + 8);
	for (uint64_t i = 0; i < j->streams; i++)
		e[i] = bare_handle(&b, headers);
	uint64_t cpu = clock_cpu_self_ns(), wall = clock_now_ns();
	for (uint64_t i = 0; i < j->streams && b.sent < j->requests; i++, b.sent++)
		curl_multi_add_handle(b.multi, e[i]);
	bare_loop(&b);
	struct cost c = { clock_cpu_self_ns() - cpu, clock_now_ns() - wall, b.ends };
	for (uint64_t i = 0; i < j->streams; i++)
		curl_easy_cleanup(e[i]);
	curl_multi_cleanup(b.multi);
	curl_slist_free_all(headers);
	close(b.epfd);
	return c;
}

/* --- product ------------------------------------------------------------------------------------------- */

struct sink {
	struct load_request rq;
	struct buf lines, tokens; /* what the run directory would get, kept in memory and thrown away */
	uint64_t n_tok, n_bad;
};

static const struct load_request *get_request(void *ctx, uint64_t k)
{
	return &((struct sink *)ctx)->rq;
}

static int take_record(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                       size_t text_len)
{
	struct sink *s = ctx;
	if (s->lines.len > 4u << 20)
		buf_clear(&s->lines);
	if (s->tokens.len > 4u << 20)
		buf_clear(&s->tokens);
	buf_add(&s->tokens, tokens, len);
	record_write(&s->lines, rec);
	s->n_tok += rec->tok_n;
	s->n_bad += rec->outcome != OUTCOME_OK;
	return 0;
}

static struct cost run_product(const struct job *j, struct load_result *res)
{
	static const struct proto chat = { .wire = WIRE_OPENAI_CHAT,
		                           .path = "/v1/chat/completions",
		                           .needs_done = true };
	struct sink s = { .rq = { j->body, strlen(j->body), 0, 0 } };
	struct err err;
	buf_init(&s.lines, 64u << 20);
	buf_init(&s.tokens, 64u << 20);
	struct load_spec spec = {
		.url = j->url,
		.proto = &chat,
		.cell_id = "bench",
		.start = 1,
		.concurrency = j->streams,
		.n_requests = j->requests,
		.watch_fd = -1,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 20 * NS_PER_S,
		.stall_timeout_ns = 20 * NS_PER_S,
		.source = { get_request, &s },
		.sink = { take_record, &s },
	};
	if (load_run(res, &spec, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	if (s.n_bad) {
		fprintf(stderr, "%s: %llu of %llu requests failed\n", j->name, (unsigned long long)s.n_bad,
		        (unsigned long long)res->done);
		exit(1);
	}
	buf_done(&s.lines);
	buf_done(&s.tokens);
	return (struct cost){ res->client_cpu_ns, res->wall_ns, s.n_tok };
}

/* --- flood server: each connection has a thread that writes whole answers ------------------------------- */

static int flood_fd;
static size_t flood_len;
static char *flood_bytes;

static void *flood_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char in[8192];
	while (recv(fd, in, sizeof in, 0) > 0) {
		for (size_t at = 0; at < flood_len;) {
			ssize_t n = send(fd, flood_bytes + at, flood_len - at, MSG_NOSIGNAL);
			if (n <= 0) {
				close(fd);
				return NULL;
			}
			at += (size_t)n;
		}
	}
	close(fd);
	return NULL;
}

static void flood_main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = accept(flood_fd, NULL, NULL);
		pthread_t t;
		if (fd >= 0 && pthread_create(&t, NULL, flood_one, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	}
}

static pid_t flood_start(char url[64], uint64_t events)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	struct buf body = BUF_INIT(256u << 20), all = BUF_INIT(256u << 20);
	for (uint64_t i = 0; i < events; i++)
		buf_addf(&body, "%zx\r\n" TOK "\r\n", sizeof TOK - 1);
	buf_addf(&body, "%zx\r\n" TAIL "\r\n0\r\n\r\n", sizeof TAIL - 1);
	buf_addf(&all,
	         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
	buf_add(&all, body.p, body.len);
	flood_bytes = all.p;
	flood_len = all.len;
	buf_done(&body);
	flood_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(flood_fd, (struct sockaddr *)(void *)&at, len) < 0 || listen(flood_fd, 1024) < 0 ||
	    getsockname(flood_fd, (struct sockaddr *)(void *)&at, &len) < 0) {
		perror("bench_load: listen");
		exit(1);
	}
	snprintf(url, 64, "http://127.0.0.1:%u", ntohs(at.sin_port));
	pid_t pid = fork();
	if (pid == 0)
		flood_main();
	close(flood_fd);
	free(flood_bytes);
	return pid;
}

static void flood_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* --- table --------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return v[n / 2];
}

static double us_a_unit(struct cost c, uint64_t units)
{
	return (double)c.cpu_ns / 1e3 / (double)units;
}

static void compare(const struct job *j, int rounds, bool by_request)
{
	double bare[32], ours[32], ratio[32], wall[32];
	struct load_result res;
	uint64_t units = by_request ? j->requests : j->requests * j->events;
	for (int i = 0; i < rounds && i < 32; i++) {
		struct cost b = run_bare(j), p = run_product(j, &res);
		bare[i] = us_a_unit(b, units);
		ours[i] = us_a_unit(p, units);
		ratio[i] = ours[i] / bare[i];
		wall[i] = (double)p.wall_ns / (double)b.wall_ns;
	}
	printf("%-6s CPU us a %s: bare libcurl %.3f, proofmark %.3f, ratio %.2f (speed %.2f); wall ratio "
	       "%.2f; loop lag "
	       "p99 %.0f us\n",
	       j->name, by_request ? "request" : "event", median(bare, rounds), median(ours, rounds),
	       median(ratio, rounds), 1 / median(ratio, rounds), median(wall, rounds),
	       (double)res.loop_lag_p99_ns / 1e3);
	fflush(stdout);
}

static void bench_flood(int rounds, const char *name, uint64_t streams, uint64_t requests, uint64_t events,
                        bool by_request)
{
	char url[64];
	pid_t pid = flood_start(url, events);
	struct job j = { name, url, "{}", streams, requests, events };
	compare(&j, rounds, by_request);
	flood_stop(pid);
}

static void bench_paced(int rounds, const char *engine)
{
	struct engine e;
	if (engine_start(&e, engine, "--slots 256 -c 2000000 --ttft-ms 50 --itl-us 20000") < 0) {
		fprintf(stderr, "%s does not serve\n", engine);
		exit(1);
	}
	struct job j = { "paced",
		         e.url,
		         "{\"stream\":true,\"ignore_eos\":true,\"max_tokens\":150,"
		         "\"messages\":[{\"role\":\"user\",\"content\":\"w\"}]}",
		         256,
		         256,
		         150 };
	compare(&j, rounds, false);
	engine_free(&e);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	struct rlimit rl;
	if (argc < 2 || rounds < 1 || rounds > 32) {
		fputs("usage: bench_load SCRIPTED_ENGINE [ROUNDS [flood|short|paced]]\n", stderr);
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	const char *only = argc > 3 ? argv[3] : "flood short paced";
	if (strstr(only, "flood"))
		bench_flood(rounds, "flood", 8, 32, 20000, false);
	if (strstr(only, "short"))
		bench_flood(rounds, "short", 64, 20000, 1, true);
	if (strstr(only, "paced"))
		bench_paced(rounds, argv[1]);
	return 0;
}
