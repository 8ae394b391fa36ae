/* SPDX-License-Identifier: Apache-2.0 */
/* The null engine's loop. All answers share one TTFT and one gap, so tokens come due in the order in which
 * they were planned: two lists (first tokens, further tokens) do what a heap would, and their two heads are
 * all there is to look at.
 */
#include "load/null_engine_int.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define HEAD_BYTES 2048
#define SCRATCH_BYTES 65536
#define EVENTS_PER_WAIT 128
#define TOKENS_PER_TURN 64 /* then sockets are looked at, however late the tokens are */
#define TEXT_BYTES 1024
#define NONE UINT32_MAX
#define LISTENER UINT64_MAX
#define TIMER (UINT64_MAX - 1)

enum phase { PHASE_HEAD, PHASE_BODY, PHASE_ANSWER };
enum text { TEXT_FIRST, TEXT_FURTHER, TEXT_LAST, TEXT_ONLY, N_TEXTS };
enum { LIST_FIRST, LIST_FURTHER, N_LISTS, NO_LIST = N_LISTS };

struct conn {
	int fd; /* -1 = free */
	uint32_t generation, prev, next;
	uint8_t list, phase;
	bool ours; /* has known the path once */
	uint8_t n_tag;
	uint32_t n_in, off; /* off: bytes of text `n_written` that are out */
	uint64_t body_left, k, due_ns, n_noted, n_written;
	char tag[NULL_TAG_READ];
	char in[HEAD_BYTES];
};

struct server {
	const struct null_serve *job;
	uint64_t ttft_ns, itl_ns, output_tok;
	int epfd, timer_fd;
	uint64_t armed_ns;
	bool accept_waits; /* connections are left in the queue for want of descriptors */
	uint32_t n_conns, n_used, free_head, hand;
	struct conn *conns;
	struct {
		uint32_t head, tail;
	} lists[N_LISTS];
	char request_line[NULL_PATH_BYTES + 32];
	size_t request_line_len;
	struct {
		size_t len;
		char bytes[TEXT_BYTES];
	} texts[N_TEXTS];
	char scratch[SCRATCH_BYTES];
};

/* --- answers ------------------------------------------------------------------------------------------- */

#define EVENT_HEAD                                                                                           \
	"data: {\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\","            \
	"\"created\":1750000000,\"model\":\"null\",\"choices\":["
#define TOKEN_EVENT                                                                                          \
	EVENT_HEAD "{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":null,"               \
		   "\"stop_reason\":null}],\"usage\":null}\n\n"
#define FINISH_EVENT                                                                                         \
	EVENT_HEAD "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\","              \
		   "\"stop_reason\":null}],\"usage\":null}\n\n"
#define ANSWER_HEAD                                                                                          \
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "           \
	"chunked\r\n\r\n"

static void add(struct server *s, enum text t, const char *bytes)
{
	size_t len = strlen(bytes);
	if (s->texts[t].len + len <= TEXT_BYTES)
		memcpy(s->texts[t].bytes + s->texts[t].len, bytes, len);
	s->texts[t].len += len;
}

static void add_chunk(struct server *s, enum text t, const char *event)
{
	char size[24];
	snprintf(size, sizeof size, "%zx\r\n", strlen(event));
	add(s, t, size);
	add(s, t, event);
	add(s, t, "\r\n");
}

/* False when a text does not fit. */
static bool make_texts(struct server *s)
{
	char usage[256];
	snprintf(usage, sizeof usage,
	         EVENT_HEAD "],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":%" PRIu64
	                    ",\"total_tokens\":%" PRIu64 "}}\n\n",
	         s->output_tok, s->output_tok + 1);
	for (int t = 0; t < N_TEXTS; t++) {
		if (t == TEXT_FIRST || t == TEXT_ONLY)
			add(s, t, ANSWER_HEAD);
		add_chunk(s, t, TOKEN_EVENT);
		if (t == TEXT_LAST || t == TEXT_ONLY) {
			add_chunk(s, t, FINISH_EVENT);
			add_chunk(s, t, usage);
			add_chunk(s, t, "data: [DONE]\n\n");
			add(s, t, "0\r\n\r\n");
		}
		if (s->texts[t].len > TEXT_BYTES)
			return false;
	}
	return true;
}

static enum text text_of(const struct server *s, uint64_t i)
{
	if (i + 1 == s->output_tok)
		return i == 0 ? TEXT_ONLY : TEXT_LAST;
	return i == 0 ? TEXT_FIRST : TEXT_FURTHER;
}

/* --- lists and connections ----------------------------------------------------------------------------- */

static void list_push(struct server *s, unsigned list, struct conn *c)
{
	uint32_t at = (uint32_t)(c - s->conns), tail = s->lists[list].tail;
	c->list = (uint8_t)list;
	c->prev = tail;
	c->next = NONE;
	*(tail == NONE ? &s->lists[list].head : &s->conns[tail].next) = at;
	s->lists[list].tail = at;
}

static void list_remove(struct server *s, struct conn *c)
{
	if (c->list == NO_LIST)
		return;
	*(c->prev == NONE ? &s->lists[c->list].head : &s->conns[c->prev].next) = c->next;
	*(c->next == NONE ? &s->lists[c->list].tail : &s->conns[c->next].prev) = c->prev;
	c->list = NO_LIST;
}

static struct conn *first_due(struct server *s)
{
	uint32_t a = s->lists[LIST_FIRST].head, b = s->lists[LIST_FURTHER].head;
	if (a == NONE || b == NONE)
		return a == NONE && b == NONE ? NULL : &s->conns[a == NONE ? b : a];
	return &s->conns[s->conns[b].due_ns < s->conns[a].due_ns ? b : a];
}

static void conn_close(struct server *s, struct conn *c)
{
	list_remove(s, c);
	close(c->fd);
	c->fd = -1;
	c->generation++;
	c->next = s->free_head;
	s->free_head = (uint32_t)(c - s->conns);
}

static struct conn *conn_take(struct server *s)
{
	if (s->free_head == NONE)
		return &s->conns[s->n_used++]; /* the caller knows of one */
	struct conn *c = &s->conns[s->free_head];
	s->free_head = c->next;
	return c;
}

/* Whoever holds connections without knowing the path loses one, the hand going round so that the newest has
 * its time. False when there is none of them. */
static bool evict_stranger(struct server *s)
{
	for (uint32_t i = 0; i < s->n_used; i++) {
		struct conn *c = &s->conns[s->hand];
		s->hand = (s->hand + 1) % s->n_used;
		if (c->fd >= 0 && !c->ours) {
			conn_close(s, c);
			return true;
		}
	}
	return false;
}

/* --- tokens -------------------------------------------------------------------------------------------- */

/* Sends what has come due and is not out. False: the connection is broken. */
static bool flush(struct server *s, struct conn *c)
{
	while (c->n_written < c->n_noted) {
		enum text t = text_of(s, c->n_written);
		ssize_t n = send(c->fd, s->texts[t].bytes + c->off, s->texts[t].len - c->off,
		                 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN;
		c->off += (uint32_t)n;
		if (c->off < s->texts[t].len)
			continue;
		c->off = 0;
		c->n_written++;
	}
	if (c->n_written == s->output_tok) {
		c->phase = PHASE_HEAD;
		c->n_in = 0;
	}
	return true;
}

/* The time is noted also when the client has let its socket fill up: that the token then waits is its fault.
 */
static void send_token(struct server *s, struct conn *c)
{
	uint64_t *sent = s->job->sent_ns + c->k * s->output_tok + c->n_noted;
	list_remove(s, c);
	c->due_ns += s->itl_ns;
	if (++c->n_noted < s->output_tok)
		list_push(s, LIST_FURTHER, c);
	*sent = clock_now_ns();
	if (!flush(s, c))
		conn_close(s, c);
}

static void send_due(struct server *s)
{
	uint64_t now = clock_now_ns();
	for (int n = 0; n < TOKENS_PER_TURN; n++) {
		struct conn *c = first_due(s);
		if (!c || c->due_ns > now)
			return;
		send_token(s, c);
	}
}

/* --- requests ------------------------------------------------------------------------------------------ */

static bool refuse(struct conn *c, const char *status)
{
	char text[128];
	int len = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	                   status);
	ssize_t n = send(c->fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)n;
	return false;
}

static bool begin_answer(struct server *s, struct conn *c)
{
	uint64_t k = 0;
	bool sound = memcmp(c->tag, "{\"k\":", NULL_TAG_DIGITS_AT) == 0;
	for (unsigned i = NULL_TAG_DIGITS_AT; i < NULL_TAG_READ; i++) {
		sound = sound && c->tag[i] >= '0' && c->tag[i] <= '9';
		k = k * 10 + (uint64_t)(c->tag[i] - '0');
	}
	if (!sound || k >= s->job->spec->n_requests || s->job->arrival_ns[k])
		return refuse(c, "400 Bad Request");
	uint64_t now = clock_now_ns();
	__atomic_store_n(&s->job->arrival_ns[k], now, __ATOMIC_RELEASE);
	c->phase = PHASE_ANSWER;
	c->k = k;
	c->due_ns = now + s->ttft_ns;
	c->n_noted = c->n_written = 0;
	c->off = 0;
	list_push(s, LIST_FIRST, c);
	return true;
}

static bool take_body(struct server *s, struct conn *c, const char *bytes, size_t len)
{
	if (len > c->body_left)
		return refuse(c, "400 Bad Request");
	for (size_t i = 0; i < len && c->n_tag < NULL_TAG_READ; i++)
		c->tag[c->n_tag++] = bytes[i];
	c->body_left -= len;
	return c->body_left || begin_answer(s, c);
}

/* `head` ends with an empty line. UINT64_MAX = no length, or none that can be. */
static uint64_t content_length(const char *head, const char *end)
{
	static const char name[] = "content-length:";
	for (const char *p = head; p < end; p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1) {
		if ((size_t)(end - p) < sizeof name || strncasecmp(p, name, sizeof name - 1) != 0)
			continue;
		p += sizeof name - 1;
		uint64_t v = 0;
		while (*p == ' ')
			p++;
		for (; *p >= '0' && *p <= '9' && v <= NULL_ENGINE_BODY_BYTES_MAX; p++)
			v = v * 10 + (uint64_t)(*p - '0');
		return *p == '\r' ? v : UINT64_MAX;
	}
	return UINT64_MAX;
}

static bool take_head(struct server *s, struct conn *c)
{
	char *end = memmem(c->in, c->n_in, "\r\n\r\n", 4);
	if (!end)
		return c->n_in < HEAD_BYTES || refuse(c, "431 Request Header Fields Too Large");
	end += 4;
	if (c->n_in < s->request_line_len || memcmp(c->in, s->request_line, s->request_line_len) != 0)
		return refuse(c, "404 Not Found");
	c->ours = true;
	c->body_left = content_length(c->in, end);
	if (c->body_left != s->job->spec->body_bytes)
		return refuse(c, "400 Bad Request");
	c->phase = PHASE_BODY;
	c->n_tag = 0;
	return take_body(s, c, end, (size_t)(c->in + c->n_in - end));
}

/* Everything there is (edge-triggered). Bytes while an answer is under way are none of a sane client. False:
 * close it. */
static bool take_bytes(struct server *s, struct conn *c)
{
	for (;;) {
		bool head = c->phase == PHASE_HEAD;
		char *to = head ? c->in + c->n_in : s->scratch;
		ssize_t n = recv(c->fd, to, head ? HEAD_BYTES - c->n_in : SCRATCH_BYTES, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		if (c->phase == PHASE_ANSWER)
			return false;
		c->n_in += head ? (uint32_t)n : 0;
		if (!(head ? take_head(s, c) : take_body(s, c, s->scratch, (size_t)n)))
			return false;
	}
}

static void conn_begin(struct server *s, struct conn *c, int fd)
{
	int one = 1;
	uint32_t generation = c->generation;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	memset(c, 0, offsetof(struct conn, in));
	c->fd = fd;
	c->generation = generation;
	c->list = NO_LIST;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	ev.data.u64 = (uint64_t)generation << 32 | (uint64_t)(c - s->conns);
	if (epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		conn_close(s, c);
}

static bool is_want_of_room(int errnum)
{
	return errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM || errnum == ENOBUFS;
}

static void accept_all(struct server *s)
{
	s->accept_waits = false;
	while (!s->accept_waits) {
		int fd = accept4(s->job->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			bool room = s->free_head != NONE || s->n_used < s->n_conns || evict_stranger(s);
			if (room)
				conn_begin(s, conn_take(s), fd);
			else
				close(fd);
		} else if (is_want_of_room(errno)) {
			s->accept_waits = !evict_stranger(s);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return;
		}
	}
}

/* --- loop ---------------------------------------------------------------------------------------------- */

static void take_event(struct server *s, const struct epoll_event *ev)
{
	if (ev->data.u64 == LISTENER) {
		accept_all(s);
		return;
	}
	if (ev->data.u64 == TIMER) {
		s->armed_ns = 0;
		return;
	}
	struct conn *c = &s->conns[(uint32_t)ev->data.u64];
	if (c->fd < 0 || c->generation != (uint32_t)(ev->data.u64 >> 32))
		return;
	bool ok = !(ev->events & (EPOLLERR | EPOLLHUP));
	if (ok && c->phase == PHASE_ANSWER && ev->events & EPOLLOUT)
		ok = flush(s, c);
	if (ok && ev->events & (EPOLLIN | EPOLLRDHUP))
		ok = take_bytes(s, c);
	if (!ok)
		conn_close(s, c);
}

/* Milliseconds for epoll_wait: 0 when something is due already, else the timer wakes. */
static int arm(struct server *s)
{
	const struct conn *c = first_due(s);
	if (!c || c->due_ns == s->armed_ns)
		return -1;
	if (c->due_ns <= clock_now_ns())
		return 0;
	struct itimerspec its = { .it_value = { (time_t)(c->due_ns / NS_PER_S),
		                                (long)(c->due_ns % NS_PER_S) } };
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
	s->armed_ns = c->due_ns;
	return -1;
}

static int loop(struct server *s)
{
	struct epoll_event evs[EVENTS_PER_WAIT];
	for (;;) {
		int n = epoll_wait(s->epfd, evs, EVENTS_PER_WAIT, arm(s));
		if (n < 0 && errno != EINTR)
			return errno;
		send_due(s);
		for (int i = 0; i < n; i++) {
			take_event(s, &evs[i]);
			send_due(s); /* long bodies must not make tokens late */
		}
		if (s->accept_waits)
			accept_all(s);
	}
}

/* Edge-triggered all: the timer need not be read, and what cannot be accepted yet does not spin. */
static bool watch(const struct server *s, int fd, uint64_t what)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = what };
	return fd >= 0 && epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool setup(struct server *s)
{
	int len = snprintf(s->request_line, sizeof s->request_line, "POST %s HTTP/1.1\r\n", s->job->path);
	s->request_line_len = (size_t)len;
	void *p = mmap(NULL, s->n_conns * sizeof *s->conns, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return false;
	s->conns = p;
	for (int i = 0; i < N_LISTS; i++)
		s->lists[i].head = s->lists[i].tail = NONE;
	errno = EMSGSIZE;
	if (!make_texts(s))
		return false;
	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return s->epfd >= 0 && watch(s, s->job->listen_fd, LISTENER) && watch(s, s->timer_fd, TIMER);
}

/* One in a process, which ends with it: nothing is given back. */
int null_engine_serve(const struct null_serve *job, null_ready_fn *ready, void *ctx)
{
	static struct server server;
	struct server *s = &server;
	s->job = job;
	s->ttft_ns = job->spec->ttft_ns;
	s->itl_ns = job->spec->itl_ns;
	s->output_tok = job->spec->output_tok;
	s->n_conns = (uint32_t)job->spec->max_conns;
	s->free_head = NONE;
	if (!setup(s))
		return errno;
	ready(ctx);
	return loop(s);
}
