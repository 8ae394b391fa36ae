/* SPDX-License-Identifier: Apache-2.0 */
/* One request on libcurl: its options, its callbacks, and what its end means. */
#include "load/load_int.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define KEEP_TEXT_BYTES_MAX (4u << 20)
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

static uint64_t rel(const struct load *ld, uint64_t now_ns)
{
	return now_ns > ld->spec->origin_ns ? now_ns - ld->spec->origin_ns : 0;
}

/* --- callbacks of one transfer ------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct slot *s = ctx;
	size_t len = size * n;
	uint64_t now = stamp_header(s->ld);
	s->last_rx_ns = now;
	if (len > 5 && memcmp(line, "HTTP/", 5) == 0) {
		const char *sp = memchr(line, ' ', len);
		int status = 0;
		for (const char *p = sp ? sp + 1 : line + len; p < line + len && *p >= '0' && *p <= '9'; p++)
			status = status < 1000 ? status * 10 + (*p - '0') : status;
		s->rec.http = status;
		s->rec.first_byte_ns = REC_NONE;
	}
	/* an interim answer (100 Continue) is no first byte of the answer */
	if (s->rec.first_byte_ns == REC_NONE && s->rec.http >= 200)
		s->rec.first_byte_ns = rel(s->ld, now);
	return len;
}

size_t transfer_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct slot *s = ctx;
	uint64_t now = stamp_body(s->ld, bytes, size * n);
	s->last_rx_ns = now;
	uint64_t tok_before = s->rec.tok_n;
	int rc = answer_body(&s->ans, rel(s->ld, now), s->ld->read_no, bytes, size * n);
	s->ld->n_tokens += s->rec.tok_n - tok_before;
	if (s->whole_ns == 0 && s->ans.wire.done)
		s->whole_ns = now;
	return rc < 0 ? 0 : size * n;
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

void transfer_ready(struct load *ld, int fd, uint32_t epoll_events)
{
	int mask = 0, running;
	if (epoll_events & EPOLLIN)
		mask |= CURL_CSELECT_IN;
	if (epoll_events & EPOLLOUT)
		mask |= CURL_CSELECT_OUT;
	if (epoll_events & (EPOLLERR | EPOLLHUP))
		mask |= CURL_CSELECT_IN | CURL_CSELECT_OUT;
	ld->stamped = false;
	curl_multi_socket_action(ld->multi, fd, mask, &running);
}

void transfer_timeout(struct load *ld)
{
	int running;
	ld->stamped = false;
	ld->curl_due_ns = UINT64_MAX;
	curl_multi_socket_action(ld->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* --- slots --------------------------------------------------------------------------------------------- */

/* "identity": a measured stream must not wait in a compressor. What comes compressed all the same is undone.
 */
static bool set_options(struct slot *s)
{
	const struct load_spec *spec = s->ld->spec;
	CURL *e = s->easy;
	CURLcode bad = CURLE_OK;
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
	SET(CURLOPT_WRITEFUNCTION, transfer_body);
	SET(CURLOPT_WRITEDATA, s);
	SET(CURLOPT_PREREQFUNCTION, on_connected);
	SET(CURLOPT_PREREQDATA, s);
	if (spec->ca_file)
		SET(CURLOPT_CAINFO, spec->ca_file);
#undef SET
	return bad == CURLE_OK;
}

struct slot *slot_new(struct load *ld)
{
	struct slot *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->ld = ld;
	s->easy = curl_easy_init();
	answer_init(&s->ans, ld->spec->proto, ld->spec->bearer);
	buf_init(&s->text, KEEP_TEXT_BYTES_MAX);
	if (ld->spec->keep_text)
		s->ans.wire.text[CHANNEL_CONTENT].keep = &s->text;
	if (!s->easy || !set_options(s)) {
		slot_free(s);
		return NULL;
	}
	return s;
}

void slot_free(struct slot *s)
{
	if (!s)
		return;
	curl_easy_cleanup(s->easy);
	answer_done(&s->ans);
	buf_done(&s->text);
	free(s);
}

static void fill_record(struct slot *s, const struct load_request *rq, uint64_t due_ns)
{
	const struct load_spec *spec = s->ld->spec;
	record_init(&s->rec);
	snprintf(s->rec.cell, sizeof s->rec.cell, "%s", spec->cell_id);
	s->rec.kind = spec->kind;
	s->rec.start = spec->start;
	s->rec.slot = spec->arrival == ARRIVAL_CLOSED ? s->index : 0;
	s->rec.due_ns = rel(s->ld, due_ns);
	s->rec.prompt_tok = rq->prompt_tok;
	s->rec.want_output_tok = rq->want_output_tok;
	s->rec.http = 0;
	s->last_rx_ns = s->whole_ns = s->conn_ns = 0;
	s->n_sends = 0;
	s->connected = false;
	s->errbuf[0] = '\0';
	buf_clear(&s->text);
}

void slot_send(struct slot *s, const struct load_request *rq, uint64_t due_ns)
{
	struct load *ld = s->ld;
	fill_record(s, rq, due_ns);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rq->body_len);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, rq->body);
	s->busy_at = ld->n_busy;
	ld->busy[ld->n_busy++] = s;
	s->sent_ns = clock_now_ns();
	s->rec.sent_ns = rel(ld, s->sent_ns);
	answer_start(&s->ans, &s->rec);
	hist_add(&ld->send_lag, s->sent_ns > due_ns ? s->sent_ns - due_ns : 0);
	curl_multi_add_handle(ld->multi, s->easy);
	transfer_timeout(ld);
}

/* --- the end of one ------------------------------------------------------------------------------------ */

static void finish(struct slot *s, enum transport how, const char *why)
{
	struct load *ld = s->ld;
	long n_connects = 0;
	char *type = NULL;
	s->rec.end_ns = rel(ld, clock_now_ns());
	curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &n_connects);
	curl_easy_getinfo(s->easy, CURLINFO_CONTENT_TYPE, &type);
	if (type)
		snprintf(s->ans.content_type, sizeof s->ans.content_type, "%s", type);
	if (n_connects > 0 && s->conn_ns)
		s->rec.conn_ns = rel(ld, s->conn_ns);
	s->rec.warnings += s->n_sends > 1;
	curl_multi_remove_handle(ld->multi, s->easy);
	answer_end(&s->ans, how, why);
	ld->busy[s->busy_at] = ld->busy[--ld->n_busy];
	ld->busy[s->busy_at]->busy_at = s->busy_at;
	ld->finished(ld, s);
}

void slot_stop(struct slot *s, enum transport how, const char *why)
{
	finish(s, how, why);
}

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
	curl_easy_getinfo(s->easy, CURLINFO_OS_ERRNO, &os_errno);
	const char *says = s->errbuf[0] ? s->errbuf : curl_easy_strerror(code);
	if (code == CURLE_OUT_OF_MEMORY)
		s->ld->oom = true;
	if (code == CURLE_COULDNT_CONNECT && os_errno)
		snprintf(why, sizeof why, "connect: %s", strerror((int)os_errno));
	else if (code == CURLE_PARTIAL_FILE)
		snprintf(why, sizeof why, "closed inside the body: %s", says);
	else if (code == CURLE_GOT_NOTHING)
		snprintf(why, sizeof why, "closed without an answer");
	else if (code == CURLE_RECV_ERROR && os_errno)
		snprintf(why, sizeof why, "%s: %s", s->rec.http ? "inside the answer" : "before the answer",
		         strerror((int)os_errno));
	else
		snprintf(why, sizeof why, "%s", says);
	finish(s, kind_of(s, code, os_errno), why);
}

size_t transfer_reap(struct load *ld)
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
	int bad = add_header(ld, "Content-Type: application/json") |
	          add_header(ld, "Accept: text/event-stream") | add_header(ld, "Expect:");
	if (ld->spec->bearer && !bad) {
		char *line = str_fmt("Authorization: Bearer %s", ld->spec->bearer);
		bad = add_header(ld, line);
		if (line)
			explicit_bzero(line, strlen(line));
		free(line);
	}
	return bad;
}

static int check_url(const struct load *ld, struct err *err)
{
	CURLU *u = curl_url();
	char *scheme = NULL;
	bool ok = u && curl_url_set(u, CURLUPART_URL, ld->url, 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	          (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
	curl_free(scheme);
	curl_url_cleanup(u);
	if (!ok)
		return err_set(err, ERR_PLAN, "load: '%s' is no http or https URL", ld->spec->url);
	return 0;
}

int transfer_setup(struct load *ld, struct err *err)
{
	const struct load_spec *spec = ld->spec;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ERR_ENV, "load: libcurl does not start");
	if (spec->bearer && strpbrk(spec->bearer, "\r\n"))
		return err_set(err, ERR_USAGE, "load: the bearer key holds a line break");
	ld->url = str_fmt("%s%s", spec->url, spec->proto->path);
	ld->multi = curl_multi_init();
	if (!ld->url || !ld->multi || set_headers(ld) < 0)
		return err_set(err, ERR_ENV, "load: no memory");
	if (check_url(ld, err) < 0)
		return -1;
	curl_multi_setopt(ld->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(ld->multi, CURLMOPT_SOCKETDATA, ld);
	curl_multi_setopt(ld->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(ld->multi, CURLMOPT_TIMERDATA, ld);
	curl_multi_setopt(ld->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	curl_multi_setopt(ld->multi, CURLMOPT_MAXCONNECTS, (long)ld->max_slots + 8);
	return 0;
}

void transfer_teardown(struct load *ld)
{
	for (size_t i = 0; i < ld->n_busy; i++)
		curl_multi_remove_handle(ld->multi, ld->busy[i]->easy);
	for (size_t i = 0; i < ld->n_slots; i++)
		slot_free(ld->slots[i]);
	if (ld->multi)
		curl_multi_cleanup(ld->multi);
	for (struct curl_slist *l = ld->headers; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(ld->headers);
	free(ld->url);
}
