/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded connections: the product's own transfer against a listening socket of our own that sends the
 * recorded bytes, in the pieces in which a server would have flushed them. A second response is only sent
 * when a second request has come over the same connection. Everything is done twice, over the plain path and
 * over libcurl, and both must say the same. */
#include "stream_out.h"

#include "base/clock.h"
#include "load/load_int.h"
#include "load/scan.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define PIECES_MAX 4096
#define RESPONSES_MAX 8
#define WAIT_MS 20
#define LONGEST_NS (20 * NS_PER_S)
#define TRAILERS_MAX 16

struct response { /* [from, to) of the file; ends of the pieces to send */
	size_t from, n_pieces, piece_end[PIECES_MAX];
	bool whole; /* the file holds its end */
};

struct trailer {
	char name[64], value[256];
};

struct connection {
	struct load ld;
	struct load_spec spec;
	struct transfer_tap tap;
	struct reading reading; /* the first response */
	struct slot *slot;
	struct buf body, second;
	char url[64];
	int listener, theirs; /* only one connection is ever taken */
	bool closed, flushed;
	uint64_t n_done, n_http;
	enum http1_coding coding;
	struct trailer trailers[TRAILERS_MAX];
	size_t n_trailers;
};

/* --- framing of the recorded bytes --------------------------------------------------------------------- */

static const char *find_in(const char *p, const char *end, const char *word)
{
	return p < end ? memmem(p, (size_t)(end - p), word, strlen(word)) : NULL;
}

static bool head_says(const char *head, const char *end, const char *name, const char *value, size_t *number)
{
	for (const char *l = head; l < end;) {
		const char *e = find_in(l, end, "\r\n");
		if (!e)
			return false;
		size_t n = strlen(name);
		if ((size_t)(e - l) > n && strncasecmp(l, name, n) == 0 && l[n] == ':') {
			if (number)
				*number = strtoul(l + n + 1, NULL, 10);
			return !value || find_in(l + n + 1, e, value) != NULL;
		}
		l = e + 2;
	}
	return false;
}

static void add_piece(struct response *r, size_t end)
{
	if (r->n_pieces < PIECES_MAX)
		r->piece_end[r->n_pieces++] = end;
	else
		r->piece_end[PIECES_MAX - 1] = end;
}

/* One piece a chunk, the trailer section with the last. Returns where the response ends. */
static const char *split_chunks(struct response *r, const char *file, const char *p, const char *end)
{
	for (;;) {
		const char *line = find_in(p, end, "\r\n");
		size_t len = line ? strtoul(p, NULL, 16) : 0;
		if (!line || len > (size_t)(end - line)) {
			add_piece(r, (size_t)(end - file));
			return end;
		}
		if (len == 0) {
			const char *last =
				memcmp(line, "\r\n\r\n", 4) == 0 ? line : find_in(line, end, "\r\n\r\n");
			r->whole = last != NULL;
			p = last ? last + 4 : end;
			add_piece(r, (size_t)(p - file));
			return p;
		}
		p = line + 2 + len + 2;
		if (p > end)
			p = end;
		add_piece(r, (size_t)(p - file));
	}
}

static const char *split_response(struct response *r, const char *file, const char *p, const char *end)
{
	const char *head_end = find_in(p, end, "\r\n\r\n");
	size_t len = 0;
	*r = (struct response){ .from = (size_t)(p - file) };
	if (!head_end) {
		add_piece(r, (size_t)(end - file));
		return end;
	}
	head_end += 4;
	if (head_says(p, head_end, "transfer-encoding", "chunked", NULL))
		return split_chunks(r, file, head_end, end);
	bool told = head_says(p, head_end, "content-length", NULL, &len);
	r->whole = told && len <= (size_t)(end - head_end);
	p = r->whole ? head_end + len : end;
	add_piece(r, (size_t)(p - file));
	return p;
}

static size_t split_file(struct response *r, const struct buf *file)
{
	size_t n = 0;
	const char *p = file->p, *end = file->p + file->len;
	while (p < end && n < RESPONSES_MAX)
		p = split_response(&r[n++], file->p, p, end);
	return n;
}

/* --- the product's end --------------------------------------------------------------------------------- */

static void on_body(void *ctx, const char *bytes, size_t len)
{
	struct connection *c = ctx;
	buf_add(c->n_done ? &c->second : &c->body, bytes, len);
}

static void on_trailer(void *ctx, const char *line, size_t len)
{
	struct connection *c = ctx;
	struct trailer *t = &c->trailers[c->n_trailers];
	const char *colon = memchr(line, ':', len);
	if (!colon || c->n_trailers == TRAILERS_MAX)
		return;
	const char *v = colon + 1, *end = line + len;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (end > v && strchr(" \t\r\n", end[-1]))
		end--;
	snprintf(t->name, sizeof t->name, "%.*s", (int)(colon - line), line);
	snprintf(t->value, sizeof t->value, "%.*s", (int)(end - v), v);
	c->n_trailers++;
}

static void on_finished(struct load *ld, struct slot *s)
{
	struct connection *c = (struct connection *)(void *)ld;
	if (c->n_done++ == 0) {
		c->reading.rec = s->rec;
		c->coding = s->http.head.coding;
	}
	c->n_http += s->rec.http != 0;
}

/* Lets the transfer take what is there. False when nothing came for a while. */
static bool pump(struct connection *c, int wait_ms)
{
	struct epoll_event ev[8];
	char sink[4096];
	if (c->ld.curl_due_ns <= clock_now_ns())
		transfer_timeout(&c->ld);
	int n = epoll_wait(c->ld.epfd, ev, 8, wait_ms);
	if (c->theirs < 0)
		c->theirs = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	for (int i = 0; i < n; i++)
		transfer_ready(&c->ld, ev[i].data.fd, ev[i].events);
	transfer_reap(&c->ld);
	while (!c->closed && c->theirs >= 0 && recv(c->theirs, sink, sizeof sink, MSG_DONTWAIT) > 0)
		n = n > 0 ? n : 1;
	return n > 0;
}

static void send_bytes(struct connection *c, const char *p, size_t len)
{
	while (len && c->ld.n_busy) {
		ssize_t n = send(c->theirs, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
		if (!pump(c, WAIT_MS) && n <= 0)
			return;
	}
}

/* Notes whether each piece brought text of its own, until all of it was there. */
static void serve(struct connection *c, const struct response *r, const char *file)
{
	size_t at = r->from, before = 0, empty = 0;
	uint64_t done = c->n_done, until = clock_now_ns() + LONGEST_NS;
	for (size_t i = 0; i < r->n_pieces && c->n_done == done; i++) {
		send_bytes(c, file + at, r->piece_end[i] - at);
		at = r->piece_end[i];
		while (pump(c, WAIT_MS))
			;
		if (c->body.len > before && empty)
			c->flushed = false;
		empty = c->body.len > before ? 0 : empty + 1;
		before = c->body.len;
	}
	if (!r->whole) {
		close(c->theirs);
		c->closed = true;
	}
	while (c->n_done == done && clock_now_ns() < until)
		pump(c, WAIT_MS);
}

static int listen_somewhere(struct connection *c)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	struct sockaddr *addr = (struct sockaddr *)(void *)&at;
	c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->listener < 0 || bind(c->listener, addr, len) < 0 || listen(c->listener, 4) < 0 ||
	    getsockname(c->listener, addr, &len) < 0)
		return -1;
	snprintf(c->url, sizeof c->url, "http://127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static int open_connection(struct connection *c, const struct buf *file, bool libcurl, struct err *err)
{
	if (listen_somewhere(c) < 0)
		return err_set(err, ERR_ENV, "no listening socket on 127.0.0.1");
	c->spec = (struct load_spec){
		.url = c->url,
		.cell_id = "case",
		.start = 1,
		.proto = reading_proto(file->p, file->len),
		.use_libcurl = libcurl,
	};
	c->ld.spec = &c->spec;
	c->ld.max_slots = 1;
	c->ld.curl_due_ns = UINT64_MAX;
	c->ld.finished = on_finished;
	c->ld.epfd = epoll_create1(EPOLL_CLOEXEC);
	c->ld.busy = calloc(1, sizeof *c->ld.busy);
	c->ld.slots = calloc(1, sizeof *c->ld.slots);
	if (c->ld.epfd < 0 || !c->ld.busy || !c->ld.slots || transfer_setup(&c->ld, err) < 0 ||
	    !(c->slot = slot_new(&c->ld)))
		return err_set(err, ERR_ENV, "no memory");
	c->ld.slots[c->ld.n_slots++] = c->slot;
	c->tap = (struct transfer_tap){ on_body, on_trailer, c };
	c->slot->tap = &c->tap;
	return 0;
}

static void close_connection(struct connection *c)
{
	transfer_teardown(&c->ld);
	free(c->ld.busy);
	free(c->ld.slots);
	if (c->ld.epfd >= 0)
		close(c->ld.epfd);
	if (!c->closed && c->theirs >= 0)
		close(c->theirs);
	if (c->listener >= 0)
		close(c->listener);
	buf_done(&c->body);
	buf_done(&c->second);
	reading_done(&c->reading);
}

/* The answer is read twice: by the transfer for its outcome, and here for its text. */
static void reread(struct connection *c)
{
	struct record transfer = c->reading.rec;
	reading_init(&c->reading, c->spec.proto);
	c->reading.rec.http = transfer.http;
	answer_body(&c->reading.ans, 0, 0, c->body.p ? c->body.p : "", c->body.len);
	answer_end(&c->reading.ans, TRANSPORT_COMPLETE, "");
	c->reading.rec.outcome = transfer.outcome;
	memcpy(c->reading.rec.detail, transfer.detail, sizeof transfer.detail);
}

static void put_connection(const struct connection *c, struct json_out *o)
{
	static const char *const codings[] = { NULL, "gzip", "deflate", "br" };
	const char *coding = codings[c->coding];
	const char *body = c->body.p ? c->body.p : "";
	reading_put(o, &c->reading, false);
	jo_i64(o, "http_status", c->reading.rec.http);
	jo_u64(o, "responses", c->n_http);
	jo_u64(o, "body_bytes", c->body.len);
	jo_u64(o, "body_bytes_received", c->body.len);
	put_sha256(o, "body_sha256", body, c->body.len);
	jo_strn(o, "second_body", c->second.p ? c->second.p : "", c->second.len);
	jo_bool(o, "events_available_after_each_chunk", c->flushed);
	jo_str(o, "content_encoding", coding);
	if (coding && !c->reading.rec.detail[0]) {
		auto_free char *why = str_fmt("content encoding %s undone", coding);
		jo_str(o, "reason", why);
	}
	jo_obj(o, "trailers");
	for (size_t i = 0; i < c->n_trailers; i++)
		jo_str(o, c->trailers[i].name, c->trailers[i].value);
	jo_end(o);
}

static int run_connection(struct connection *c, const struct buf *file, const struct response *r, size_t n,
                          struct err *err)
{
	static const struct load_request rq = {
		.body = "{}", .body_len = 2, .conv = REC_NONE, .turn = REC_NONE, .part = REC_NONE
	};
	c->flushed = true;
	for (size_t i = 0; i < n && !c->closed; i++) {
		slot_send(c->slot, &rq, clock_now_ns());
		for (int k = 0; k < 3; k++)
			pump(c, WAIT_MS);
		if (c->ld.n_busy == 0)
			break; /* the connection could not be used again */
		serve(c, &r[i], file->p);
	}
	if (c->ld.n_busy)
		return err_set(err, ERR_BUG, "the transfer does not end");
	reread(c);
	return 0;
}

static void init_connection(struct connection *c)
{
	memset(c, 0, sizeof *c);
	c->listener = c->theirs = c->ld.epfd = -1;
	buf_init(&c->body, CASE_FILE_BYTES_MAX);
	buf_init(&c->second, CASE_FILE_BYTES_MAX);
}

static bool same_bytes(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

/* What both paths must agree on; of the reason, the words before its first colon. */
static const char *difference(const struct connection *a, const struct connection *b)
{
	const struct record *x = &a->reading.rec, *y = &b->reading.rec;
	if (x->outcome != y->outcome || x->http != y->http)
		return "outcome or status";
	if (!same_bytes(&a->body, &b->body) || !same_bytes(&a->second, &b->second) || x->bytes != y->bytes)
		return "body";
	if (x->tok_n != y->tok_n || strcmp(x->finish, y->finish) != 0 || x->warnings != y->warnings)
		return "tokens, finish reason or warnings";
	size_t n = strcspn(x->detail, ":");
	if (x->outcome != OUTCOME_CORRUPT &&
	    (n != strcspn(y->detail, ":") || strncmp(x->detail, y->detail, n) != 0))
		return "reason";
	if (a->n_http != b->n_http || a->coding != b->coding || a->flushed != b->flushed)
		return "responses, coding or flush";
	if (a->n_trailers != b->n_trailers || memcmp(a->trailers, b->trailers, sizeof a->trailers) != 0)
		return "trailers";
	return NULL;
}

static int run_both(struct connection c[2], struct json_out *o, const struct case_dir *cd,
                    const struct case_input *in, struct err *err)
{
	auto_buf file = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_free struct response *r = calloc(RESPONSES_MAX, sizeof *r);
	if (!r || buf_adds(&file, "") < 0)
		return err_set(err, ERR_ENV, "no memory");
	if (case_read_file(&file, cd, in, err) < 0)
		return -1;
	size_t n = split_file(r, &file);
	for (int i = 0; i < 2; i++) {
		if (open_connection(&c[i], &file, i == 1, err) < 0 ||
		    run_connection(&c[i], &file, r, n, err) < 0)
			return -1;
	}
	const char *what = difference(&c[0], &c[1]);
	if (what)
		return err_set(err, ERR_BUG,
		               "the plain path and libcurl's do not agree: %s (%s: %s / %s: %s)", what,
		               outcome_words[c[0].reading.rec.outcome], c[0].reading.rec.detail,
		               outcome_words[c[1].reading.rec.outcome], c[1].reading.rec.detail);
	put_connection(&c[0], o);
	return 0;
}

int read_http(const struct case_dir *cd, const struct case_input *in, struct json_out *o, struct err *err)
{
	struct connection *c = calloc(2, sizeof *c);
	if (!c)
		return err_set(err, ERR_ENV, "no memory");
	init_connection(&c[0]);
	init_connection(&c[1]);
	int rc = run_both(c, o, cd, in, err);
	close_connection(&c[0]);
	close_connection(&c[1]);
	free(c);
	return rc;
}
