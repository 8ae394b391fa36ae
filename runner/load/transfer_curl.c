/* SPDX-License-Identifier: Apache-2.0 */
/* The path through libcurl: TLS, and what else the plain path leaves to it. */
#include "load/load_int.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define NO_LIMIT_MS (24L * 3600 * 1000)

static uint64_t stamp_anew(struct load *ld)
{
	ld->stamped = true;
	ld->read_end = 0;
	ld->read_no++;
	return ld->stamp_ns = clock_now_ns();
}

/* Header lines lie in a buffer of their own, so they tell nothing of reads. */
static uint64_t stamp_header(struct load *ld)
{
	return ld->stamped ? ld->stamp_ns : stamp_anew(ld);
}

static uint64_t stamp_body(struct load *ld, const char *bytes, size_t len)
{
	uintptr_t at = (uintptr_t)bytes;
	if (!ld->stamped || at < ld->read_end)
		stamp_anew(ld);
	ld->read_end = at + len;
	return ld->stamp_ns;
}

/* --- callbacks of one transfer ------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct slot *s = ctx;
	struct http1_head *head = &s->http.head;
	bool trailer = head->ended && n > 2;
	if (http1_head_line(head, line, size * n) == HTTP1_LINE_BAD)
		n = 0; /* ends the transfer */
	transfer_head_seen(s, stamp_header(s->ld));
	if (trailer && s->tap && s->tap->trailer)
		s->tap->trailer(s->tap->ctx, line, size * n);
	return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct slot *s = ctx;
	return transfer_body(s, stamp_body(s->ld, bytes, size * n), bytes, size * n) < 0 ? 0 : size * n;
}

static int on_connected(void *ctx, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
	struct slot *s = ctx;
	s->connected = true;
	s->n_sends++;
	s->conn_ns = clock_now_ns();
	return CURL_PREREQFUNC_OK;
}

/* --- libcurl on epoll ---------------------------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	struct load *ld = ctx;
	struct epoll_event ev = { .data.fd = fd };
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(ld->epfd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	ev.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
	            (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
	if (epoll_ctl(ld->epfd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) < 0)
		epoll_ctl(ld->epfd, errno == EEXIST ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev);
	if (!known)
		curl_multi_assign(ld->multi, fd, ld);
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
	struct load *ld = ctx;
	ld->curl_due_ns = timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	return 0;
}

static void ready(struct load *ld, int fd, uint32_t epoll_events)
{
	int mask = 0, running;
	if (epoll_events & EPOLLIN)
		mask |= CURL_CSELECT_IN;
	if (epoll_events & EPOLLOUT)
		mask |= CURL_CSELECT_OUT;
	if (epoll_events & (EPOLLERR | EPOLLHUP))
		mask |= CURL_CSELECT_IN | CURL_CSELECT_OUT;
	curl_multi_socket_action(ld->multi, fd, mask, &running);
}

static void timeout(struct load *ld)
{
	int running;
	curl_multi_socket_action(ld->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* --- slots --------------------------------------------------------------------------------------------- */

/* "identity": a measured stream must not wait in a compressor. What comes compressed all the same is undone.
 */
static int slot_open(struct slot *s)
{
	const struct load_spec *spec = s->ld->spec;
	CURL *e = s->easy = curl_easy_init();
	CURLcode bad = e ? CURLE_OK : CURLE_OUT_OF_MEMORY;
#define SET(option, value) bad = bad ? bad : curl_easy_setopt(e, option, value)
	SET(CURLOPT_URL, s->ld->url);
	SET(CURLOPT_PRIVATE, s);
	SET(CURLOPT_ERRORBUFFER, s->errbuf);
	SET(CURLOPT_HTTPHEADER, s->ld->headers);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_ACCEPT_ENCODING, "identity");
	SET(CURLOPT_USERAGENT, "proofmark/" PROOFMARK_VERSION);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
	SET(CURLOPT_DNS_CACHE_TIMEOUT, -1L);
	SET(CURLOPT_MAXAGE_CONN, 24L * 3600);
	SET(CURLOPT_CONNECTTIMEOUT_MS, NO_LIMIT_MS); /* ours: deadlines.c */
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, s);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, s);
	SET(CURLOPT_PREREQFUNCTION, on_connected);
	SET(CURLOPT_PREREQDATA, s);
	if (spec->ca_file)
		SET(CURLOPT_CAINFO, spec->ca_file);
	if (strncmp(spec->url, "unix://", 7) == 0)
		SET(CURLOPT_UNIX_SOCKET_PATH, spec->url + 7);
#undef SET
	return bad == CURLE_OK ? 0 : -1;
}

static void slot_close(struct slot *s)
{
	curl_easy_cleanup(s->easy);
}

static void send_request(struct slot *s, const struct load_request *rq)
{
	s->errbuf[0] = '\0';
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rq->body_len);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, rq->body);
	curl_multi_add_handle(s->ld->multi, s->easy);
	transfer_timeout(s->ld);
}

static void drop(struct slot *s, bool whole)
{
	long n_connects = 0;
	curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &n_connects);
	if (n_connects == 0)
		s->conn_ns = 0;
	curl_multi_remove_handle(s->ld->multi, s->easy);
}

/* --- the end of one ------------------------------------------------------------------------------------ */

static enum transport kind_of(const struct slot *s, CURLcode code, long os_errno)
{
	switch ((int)code) {
	case CURLE_OK:
		return TRANSPORT_COMPLETE;
	case CURLE_PARTIAL_FILE:
		return TRANSPORT_CUT;
	case CURLE_OPERATION_TIMEDOUT:
		return TRANSPORT_TIMEOUT;
	case CURLE_RECV_ERROR: /* also what libcurl says of chunks that are none */
		return os_errno || !strstr(s->errbuf, "chunk") ? TRANSPORT_RESET : TRANSPORT_BAD;
	case CURLE_OUT_OF_MEMORY: /* also what libcurl says of a head over its bounds */
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_WRITE_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
		return TRANSPORT_BAD;
	default:
		return TRANSPORT_RESET;
	}
}

static void finish_by_code(struct slot *s, CURLcode code)
{
	char why[CURL_ERROR_SIZE + 128];
	long os_errno = 0;
	enum transport how;
	curl_easy_getinfo(s->easy, CURLINFO_OS_ERRNO, &os_errno);
	how = kind_of(s, code, os_errno);
	const char *says = s->errbuf[0] ? s->errbuf : curl_easy_strerror(code);
	if (s->http.head.why[0]) {
		how = TRANSPORT_BAD;
		snprintf(why, sizeof why, "%s", s->http.head.why);
	} else if (code == CURLE_OK && !s->http.head.ended) {
		how = TRANSPORT_CUT;
		snprintf(why, sizeof why, "closed inside the head");
	} else if (code == CURLE_COULDNT_CONNECT && os_errno) {
		snprintf(why, sizeof why, "connect: %s", strerror((int)os_errno));
	} else if (code == CURLE_PARTIAL_FILE) {
		snprintf(why, sizeof why, "closed inside the body: %s", says);
	} else if (code == CURLE_GOT_NOTHING) {
		snprintf(why, sizeof why, "closed without an answer");
	} else if (code == CURLE_RECV_ERROR && os_errno) {
		snprintf(why, sizeof why, "%s: %s", s->rec.http ? "inside the answer" : "before the answer",
		         strerror((int)os_errno));
	} else {
		snprintf(why, sizeof why, "%s", says);
	}
	transfer_end(s, how, why);
}

static size_t reap(struct load *ld)
{
	CURLMsg *m;
	int left;
	size_t n = 0;
	while ((m = curl_multi_info_read(ld->multi, &left))) {
		struct slot *s = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &s);
		finish_by_code(s, m->data.result);
		n++;
	}
	return n;
}

/* --- set-up -------------------------------------------------------------------------------------------- */

static int add_header(struct load *ld, const char *line)
{
	struct curl_slist *l = line ? curl_slist_append(ld->headers, line) : NULL;
	if (!l)
		return -1;
	ld->headers = l;
	return 0;
}

static int set_headers(struct load *ld)
{
	const char *accept =
		ld->spec->whole_answer ? "Accept: application/json" : "Accept: text/event-stream";
	int bad = add_header(ld, "Content-Type: application/json") | add_header(ld, accept) |
	          add_header(ld, "Expect:");
	if (ld->spec->bearer && !bad) {
		char *line = str_fmt("Authorization: Bearer %s", ld->spec->bearer);
		bad = add_header(ld, line);
		if (line)
			explicit_bzero(line, strlen(line));
		free(line);
	}
	return bad;
}

static int open_multi(struct load *ld, struct err *err)
{
	ld->multi = curl_multi_init();
	if (!ld->multi || set_headers(ld) < 0)
		return err_set(err, ERR_ENV, "load: no memory");
	curl_multi_setopt(ld->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(ld->multi, CURLMOPT_SOCKETDATA, ld);
	curl_multi_setopt(ld->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(ld->multi, CURLMOPT_TIMERDATA, ld);
	curl_multi_setopt(ld->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	curl_multi_setopt(ld->multi, CURLMOPT_MAXCONNECTS, (long)ld->max_slots + 8);
	return 0;
}

static void close_multi(struct load *ld)
{
	if (ld->multi)
		curl_multi_cleanup(ld->multi);
	for (struct curl_slist *l = ld->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(ld->headers);
}

const struct transfer_path transfer_curl = {
	.open = open_multi,
	.close = close_multi,
	.slot_open = slot_open,
	.slot_close = slot_close,
	.send = send_request,
	.drop = drop,
	.ready = ready,
	.timeout = timeout,
	.reap = reap,
};
