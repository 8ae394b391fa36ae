/* SPDX-License-Identifier: Apache-2.0 */
/* load_run against a small server of its own: what a request asks for stands in its body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "load/hist.h"
#include "load/load.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROLE "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
#define TOK "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"}}]}\n\n"
#define FIN "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define ERR "data: {\"error\":{\"message\":\"key-0123 refused\",\"code\":500}}\n\n"
#define OK_BODY ROLE TOK TOK FIN DONE
#define SLOW_MS 300

enum { PLAIN, WAIT_FIRST = 1, STALL_AFTER = 2, NO_END = 4, RST = 8, CLOSE = 16, LENGTH = 32, SILENT = 64 };

static const struct kind {
	const char *name, *status, *body;
	int how;
	enum outcome want;
	const char *detail; /* its start */
} kinds[] = {
	{ "ok", "200 OK", OK_BODY, PLAIN, OUTCOME_OK, "" },
	{ "slow", "200 OK", OK_BODY, WAIT_FIRST, OUTCOME_OK, "" },
	{ "close", "200 OK", OK_BODY, CLOSE, OUTCOME_OK, "" },
	{ "busy", "503 Busy", "{\"error\":\"key-0123 busy\"}", LENGTH, OUTCOME_HTTP_STATUS,
	  "503: {\"error\":\"*** busy\"}" },
	{ "error", "200 OK", ROLE TOK ERR DONE, PLAIN, OUTCOME_STREAM_ERROR, "500: *** refused" },
	{ "cut", "200 OK", ROLE TOK, NO_END, OUTCOME_TRUNCATED, "closed inside the body" },
	{ "rst", "200 OK", ROLE TOK, NO_END | RST, OUTCOME_RESET, "inside the answer: " },
	{ "nodone", "200 OK", ROLE TOK FIN, PLAIN, OUTCOME_TRUNCATED, "ended without the end mark" },
	{ "empty", "200 OK", ROLE FIN DONE, PLAIN, OUTCOME_EMPTY, "ended without a token" },
	{ "nobody", "200 OK", "", LENGTH, OUTCOME_EMPTY, "no event" },
	{ "corrupt", "200 OK", ROLE "data: {\"cho\n\n" TOK FIN DONE, PLAIN, OUTCOME_CORRUPT,
	  "1 of 5 events" },
	{ "stall", "200 OK", ROLE TOK, STALL_AFTER, OUTCOME_STALLED, "no byte for 0.15 s" },
	{ "silent", "", "", SILENT, OUTCOME_TIMEOUT, "first byte: none within 0.15 s" },
	{ "hangup", "", "", SILENT | CLOSE, OUTCOME_RESET, "" },
	{ "open", "200 OK", OK_BODY, STALL_AFTER, OUTCOME_OK, "" },
	{ "nohttp", "what", "", NO_END, OUTCOME_CORRUPT, "" },
};

/* --- server -------------------------------------------------------------------------------------------- */

static struct {
	int fd;
	char url[64];
	atomic_int connections, in_flight, max_in_flight, bad_requests;
} server;

static void pause_ms(unsigned ms)
{
	usleep(ms * 1000);
}

static bool send_text(int fd, const char *text)
{
	return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* One request, head and body. False at the end of the connection. */
static bool receive(int fd, char *out, size_t size)
{
	size_t n = 0;
	for (;;) {
		ssize_t got = recv(fd, out + n, size - 1 - n, 0);
		if (got <= 0)
			return false;
		n += (size_t)got;
		out[n] = '\0';
		char *end = strstr(out, "\r\n\r\n"), *len = strstr(out, "Content-Length: ");
		if (end && len && (size_t)(out + n - end - 4) >= strtoul(len + 16, NULL, 10))
			return true;
	}
}

static void check_request(const char *text)
{
	if (strncmp(text, "POST /v1/chat/completions HTTP/1.1\r\n", 36) != 0 ||
	    !strstr(text, "\r\nAccept-Encoding: identity\r\n") || strstr(text, "\r\nExpect") ||
	    !strstr(text, "\r\nAuthorization: Bearer key-0123\r\n") ||
	    !strstr(text, "\r\nContent-Type: application/json\r\n"))
		server.bad_requests++;
}

/* False when the connection ends with this answer. */
static bool answer(int fd, const struct kind *k)
{
	char head[8192];
	if (k->how & SILENT) {
		pause_ms(k->how & CLOSE ? 1 : SLOW_MS);
		return false;
	}
	if (k->how & WAIT_FIRST)
		pause_ms(SLOW_MS);
	if (strcmp(k->status, "what") == 0)
		return send_text(fd, "no HTTP at all\r\n\r\n") && false;
	if (k->how & LENGTH)
		snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", k->status,
		         strlen(k->body), k->body);
	else
		snprintf(head, sizeof head,
		         "HTTP/1.1 %s\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
		         "chunked\r\n%s\r\n"
		         "%zx\r\n%s\r\n",
		         k->status, k->how & CLOSE ? "Connection: close\r\n" : "", strlen(k->body), k->body);
	send_text(fd, head);
	if (k->how & RST) {
		struct linger l = { 1, 0 };
		pause_ms(20);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
	}
	if (k->how & STALL_AFTER)
		pause_ms(4 * SLOW_MS);
	if (k->how & (NO_END | STALL_AFTER))
		return false;
	if (!(k->how & LENGTH))
		send_text(fd, "0\r\n\r\n");
	return !(k->how & CLOSE);
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char text[4096];
	bool again = true;
	while (again && receive(fd, text, sizeof text)) {
		int now = ++server.in_flight;
		if (now > server.max_in_flight)
			server.max_in_flight = now;
		check_request(text);
		const struct kind *k = &kinds[0];
		for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
			char want[64];
			snprintf(want, sizeof want, "\"%s\"", kinds[i].name);
			if (strstr(text, want))
				k = &kinds[i];
		}
		again = answer(fd, k);
		server.in_flight--;
	}
	close(fd);
	return NULL;
}

static void *serve_all(void *arg)
{
	for (;;) {
		int fd = accept(server.fd, NULL, NULL);
		pthread_t t;
		if (fd < 0)
			return NULL;
		server.connections++;
		if (pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	}
}

static int start_server(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	pthread_t t;
	server.fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(server.fd, (struct sockaddr *)(void *)&at, len) < 0 || listen(server.fd, 64) < 0 ||
	    getsockname(server.fd, (struct sockaddr *)(void *)&at, &len) < 0 ||
	    pthread_create(&t, NULL, serve_all, NULL) != 0)
		return -1;
	pthread_detach(t);
	snprintf(server.url, sizeof server.url, "http://127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

/* --- client -------------------------------------------------------------------------------------------- */

#define RECORDS_MAX 2000

struct run {
	struct load_spec spec;
	struct load_result res;
	struct err err;
	struct load_request rqs[RECORDS_MAX];
	uint64_t step_ns; /* open loop: between due times */
	char body[64];
	struct record recs[RECORDS_MAX];
	size_t n;
	size_t fail_at, stop_at; /* the sink refuses / the flag is set at that record; 0 = never */
	bool drain, abort;
	uint64_t n_ticks;
	struct load_progress last;
	char text[64];
};

static const struct proto chat = { .wire = WIRE_OPENAI_CHAT,
	                           .path = "/v1/chat/completions",
	                           .needs_done = true };

static const struct load_request *get_request(void *ctx, uint64_t g)
{
	struct run *r = ctx;
	struct load_request *rq = &r->rqs[g % RECORDS_MAX];
	*rq = (struct load_request){
		.body = r->body,
		.body_len = strlen(r->body),
		.prompt_tok = 7,
		.want_output_tok = 2,
		.k = g,
		.conv = REC_NONE,
		.turn = REC_NONE,
		.part = REC_NONE,
		.due_ns = g * r->step_ns,
	};
	return rq;
}

static int take_record(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len,
                       const char *text, size_t text_len)
{
	struct run *r = ctx;
	uint64_t sum = rec->sent_ns, v;
	for (size_t at = 0, used; at < tokens_len; at += used) {
		used = leb128_get(tokens + at, tokens_len - at, &v);
		if (!used)
			return -1;
		sum += v;
	}
	if (rec->tok_n && sum != rec->last_token_ns)
		return -1;
	snprintf(r->text, sizeof r->text, "%.*s", (int)text_len, text ? text : "(none)");
	r->recs[r->n++ % RECORDS_MAX] = *rec;
	if (r->n == r->stop_at)
		r->drain = true;
	return r->fail_at && r->n >= r->fail_at ? -1 : 0;
}

static void on_tick(void *ctx, const struct load_progress *p)
{
	struct run *r = ctx;
	r->n_ticks++;
	r->last = *p;
	assert_true(p->done + p->in_flight == p->scheduled);
}

static struct run *new_run(const char *kind, uint64_t concurrency, uint64_t n_requests)
{
	struct run *r = calloc(1, sizeof *r);
	assert_non_null(r);
	snprintf(r->body, sizeof r->body, "{\"k\":\"%s\"}", kind);
	r->spec = (struct load_spec){
		.url = server.url,
		.bearer = "key-0123",
		.proto = &chat,
		.cell_id = "t/c",
		.start = 3,
		.concurrency = concurrency,
		.n_requests = n_requests,
		.watch_fd = -1,
		.connect_timeout_ns = NS_PER_S,
		.first_byte_timeout_ns = 2 * NS_PER_S,
		.stall_timeout_ns = 2 * NS_PER_S,
		.deadline_ns = 10 * NS_PER_S,
		.origin_ns = clock_now_ns(),
		.source = { .get = get_request, .ctx = r },
		.sink = { take_record, r },
		.drain = &r->drain,
		.abort = &r->abort,
		.tick = on_tick,
		.tick_ctx = r,
	};
	return r;
}

static void run(struct run *r)
{
	if (load_run(&r->res, &r->spec, &r->err) != 0)
		fail_msg("load_run: %s", r->err.msg);
	assert_int_equal(r->res.done, r->res.scheduled);
	if (!r->fail_at)
		assert_int_equal(r->n, r->res.scheduled);
}

static size_t count(const struct run *r, enum outcome o)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		n += r->recs[i].outcome == o;
	return n;
}

static void closed_loop_sends_each_request_once(void **state)
{
	struct run *r = new_run("ok", 4, 50);
	int before = server.connections;
	r->spec.keep_text = true;
	run(r);
	assert_int_equal(count(r, OUTCOME_OK), 50);
	assert_string_equal(r->res.stopped_by, "complete");
	assert_int_equal(r->res.max_in_flight, 4);
	assert_int_equal(server.connections - before, 4);
	size_t fresh = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct record *rec = &r->recs[i];
		fresh += rec->conn_ns != REC_NONE;
		assert_true(rec->due_ns <= rec->sent_ns && rec->sent_ns <= rec->first_byte_ns);
		assert_true(rec->first_byte_ns <= rec->first_token_ns && rec->last_token_ns <= rec->end_ns);
		assert_int_equal(rec->tok_n, 2);
		assert_int_equal(rec->start, 3);
		assert_int_equal(rec->prompt_tok, 7);
		assert_true(rec->slot < 4);
		assert_string_equal(rec->cell, "t/c");
	}
	assert_int_equal(fresh, 4);
	assert_string_equal(r->text, "ww");
	assert_true(r->res.client_cpu_ns > 0);
	assert_int_equal(server.bad_requests, 0);
	free(r);
}

static void each_fault_has_its_outcome(void **state)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct run *r = new_run(kinds[i].name, 1, 2);
		if (strcmp(kinds[i].name, "slow") != 0)
			r->spec.first_byte_timeout_ns = r->spec.stall_timeout_ns = 150 * NS_PER_MS;
		if (strcmp(kinds[i].name, "open") == 0)
			r->spec.stall_timeout_ns = 0;
		run(r);
		assert_int_equal(r->n, 2);
		for (size_t k = 0; k < 2; k++) {
			const struct record *rec = &r->recs[k];
			if (rec->outcome != kinds[i].want ||
			    strncmp(rec->detail, kinds[i].detail, strlen(kinds[i].detail)) != 0 ||
			    strstr(rec->detail, "key-0123"))
				fail_msg("%s: %s: %s", kinds[i].name, outcome_words[rec->outcome],
				         rec->detail);
		}
		free(r);
	}
}

static void refused_connection_is_a_reset(void **state)
{
	struct run *r = new_run("ok", 1, 3);
	r->spec.url = "http://127.0.0.1:1";
	run(r);
	assert_int_equal(count(r, OUTCOME_RESET), 3);
	assert_string_equal(r->recs[0].detail, "connect: Connection refused");
	assert_int_equal(r->recs[0].http, 0);
	assert_true(r->recs[0].first_byte_ns == REC_NONE);
	free(r);
}

static void deadline_ends_a_request(void **state)
{
	struct run *r = new_run("slow", 1, 1);
	r->spec.deadline_ns = 100 * NS_PER_MS;
	run(r);
	assert_int_equal(count(r, OUTCOME_TIMEOUT), 1);
	assert_string_equal(r->recs[0].detail, "deadline: not ended within 0.1 s");
	assert_true(r->recs[0].end_ns - r->recs[0].sent_ns < SLOW_MS * NS_PER_MS);
	free(r);
}

static void open_loop_never_waits_for_answers(void **state)
{
	struct run *r = new_run("slow", 0, 20);
	r->spec.arrival = ARRIVAL_CONSTANT;
	r->step_ns = 20 * NS_PER_MS;
	run(r);
	assert_int_equal(count(r, OUTCOME_OK), 20);
	assert_true(r->res.max_in_flight >= 10);
	uint64_t min = UINT64_MAX, max = 0;
	for (size_t i = 0; i < r->n; i++) {
		min = r->recs[i].due_ns < min ? r->recs[i].due_ns : min;
		max = r->recs[i].due_ns > max ? r->recs[i].due_ns : max;
		assert_true(r->recs[i].sent_ns >= r->recs[i].due_ns);
	}
	assert_int_equal(max - min, 19 * 20 * NS_PER_MS);
	free(r);
}

static void open_loop_keeps_due_times_behind_its_bound(void **state)
{
	struct run *r = new_run("slow", 1, 3);
	r->spec.arrival = ARRIVAL_POISSON;
	r->step_ns = NS_PER_MS;
	run(r);
	assert_int_equal(r->res.max_in_flight, 1);
	assert_true(r->recs[2].sent_ns - r->recs[2].due_ns > SLOW_MS * NS_PER_MS);
	assert_true(r->res.send_lag_max_ns > SLOW_MS * NS_PER_MS);
	free(r);
}

static void think_time_moves_the_due_time(void **state)
{
	struct run *r = new_run("ok", 1, 3);
	r->spec.think_ns = 30 * NS_PER_MS;
	run(r);
	for (size_t i = 1; i < 3; i++) {
		assert_true(r->recs[i].due_ns >= r->recs[i - 1].end_ns + 30 * NS_PER_MS);
		assert_true(r->recs[i].sent_ns >= r->recs[i].due_ns);
	}
	free(r);
}

static void a_timed_cell_lets_what_is_in_flight_end(void **state)
{
	struct run *r = new_run("slow", 2, 0);
	r->spec.duration_ns = 100 * NS_PER_MS;
	run(r);
	assert_string_equal(r->res.stopped_by, "duration");
	assert_int_equal(r->n, 2);
	assert_int_equal(count(r, OUTCOME_OK), 2);
	free(r);
}

static void drain_schedules_no_more(void **state)
{
	struct run *r = new_run("ok", 2, 1000);
	r->stop_at = 5;
	run(r);
	assert_string_equal(r->res.stopped_by, "interrupt");
	assert_true(r->n >= 5 && r->n <= 8);
	assert_int_equal(count(r, OUTCOME_OK), r->n);
	free(r);
}

static void *set_after_100_ms(void *flag)
{
	pause_ms(100);
	__atomic_store_n((bool *)flag, true, __ATOMIC_RELAXED);
	return NULL;
}

static void abort_cancels_what_is_in_flight(void **state)
{
	struct run *r = new_run("slow", 3, 0);
	pthread_t t;
	r->spec.duration_ns = 60 * NS_PER_S;
	assert_int_equal(pthread_create(&t, NULL, set_after_100_ms, &r->abort), 0);
	run(r);
	pthread_join(t, NULL);
	assert_string_equal(r->res.stopped_by, "interrupt");
	assert_int_equal(r->n, 3);
	assert_int_equal(count(r, OUTCOME_CANCELLED), 3);
	assert_true(r->res.wall_ns < SLOW_MS * NS_PER_MS);
	free(r);
}

static void engine_death_stops_the_cell(void **state)
{
	struct run *r = new_run("slow", 1, 100);
	int p[2];
	assert_int_equal(pipe(p), 0);
	close(p[1]); /* readable at once, as a pidfd of an ended process */
	r->spec.watch_fd = p[0];
	run(r);
	close(p[0]);
	assert_string_equal(r->res.stopped_by, "engine_died");
	assert_int_equal(r->n, 1);
	free(r);
}

static void a_sink_that_fails_stops_the_cell(void **state)
{
	struct run *r = new_run("ok", 2, 100);
	r->fail_at = 3;
	run(r);
	assert_string_equal(r->res.stopped_by, "disk_full");
	assert_int_equal(r->n, 3);
	free(r);
}

static void what_cannot_run_says_why(void **state)
{
	static const struct {
		const char *url;
		uint64_t concurrency;
		enum err_class cls;
		const char *says;
	} t[] = {
		{ "ftp://127.0.0.1", 1, ERR_PLAN, "is no http" },
		{ "http://127.0.0.1:99999999", 1, ERR_PLAN, "is no http" },
		{ NULL, 100000000, ERR_ENV, "file descriptors" },
	};
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		struct run *r = new_run("ok", t[i].concurrency, t[i].concurrency);
		if (t[i].url)
			r->spec.url = t[i].url;
		r->res.stopped_by = "untouched";
		assert_int_equal(load_run(&r->res, &r->spec, &r->err), -1);
		assert_int_equal(r->err.cls, t[i].cls);
		assert_non_null(strstr(r->err.msg, t[i].says));
		assert_string_equal(r->res.stopped_by, "untouched");
		free(r);
	}
}

static void progress_comes_four_times_a_second_and_at_the_end(void **state)
{
	struct run *r = new_run("slow", 1, 3);
	run(r);
	assert_true(r->n_ticks >= 3 && r->n_ticks <= 3 + 4 * r->res.wall_ns / NS_PER_S);
	assert_int_equal(r->last.done, 3);
	assert_int_equal(r->last.planned, 3);
	assert_int_equal(r->last.in_flight, 0);
	free(r);
}

static void quantiles_of_the_histogram_are_within_one_percent(void **state)
{
	struct hist *h = calloc(1, sizeof *h);
	assert_non_null(h);
	assert_true(hist_quantile_ns(h, 0.5) == UINT64_MAX);
	for (uint64_t i = 1; i <= 10000; i++)
		hist_add(h, i * i * 1000);
	for (int pct = 1; pct < 100; pct++) {
		double k = 100.0 * pct, want = k * k * 1000, got = (double)hist_quantile_ns(h, pct / 100.0);
		assert_true(got > want * 0.99 && got < want * 1.01);
	}
	hist_add(h, UINT64_MAX);
	assert_true(hist_quantile_ns(h, 1.0) == UINT64_MAX);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_loop_sends_each_request_once),
		cmocka_unit_test(each_fault_has_its_outcome),
		cmocka_unit_test(refused_connection_is_a_reset),
		cmocka_unit_test(deadline_ends_a_request),
		cmocka_unit_test(open_loop_never_waits_for_answers),
		cmocka_unit_test(open_loop_keeps_due_times_behind_its_bound),
		cmocka_unit_test(think_time_moves_the_due_time),
		cmocka_unit_test(a_timed_cell_lets_what_is_in_flight_end),
		cmocka_unit_test(drain_schedules_no_more),
		cmocka_unit_test(abort_cancels_what_is_in_flight),
		cmocka_unit_test(engine_death_stops_the_cell),
		cmocka_unit_test(a_sink_that_fails_stops_the_cell),
		cmocka_unit_test(what_cannot_run_says_why),
		cmocka_unit_test(progress_comes_four_times_a_second_and_at_the_end),
		cmocka_unit_test(quantiles_of_the_histogram_are_within_one_percent),
	};
	return cmocka_run_group_tests(tests, start_server, NULL);
}
