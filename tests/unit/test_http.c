/* SPDX-License-Identifier: Apache-2.0 */
/* Against a server of one thread that says exactly the bytes a case gives it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct server {
	int fd;
	unsigned port;
	pthread_t thread;
	const char *reply; /* NULL = says nothing and keeps the connection until the client goes */
	char request[8192];
	unsigned n_connections;
};

static void read_request(struct server *s, int fd)
{
	size_t len = 0;
	while (len < sizeof(s->request) - 1) {
		ssize_t n = recv(fd, s->request + len, sizeof(s->request) - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		s->request[len] = '\0';
		const char *end = strstr(s->request, "\r\n\r\n"),
			   *cl = strcasestr(s->request, "Content-Length: ");
		if (end && strlen(end + 4) >= (cl ? strtoul(cl + 16, NULL, 10) : 0))
			break;
	}
}

static void *serve(void *ctx)
{
	struct server *s = ctx;
	for (;;) {
		char rest[64];
		int fd = accept(s->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		s->n_connections++;
		read_request(s, fd);
		if (s->reply)
			send(fd, s->reply, strlen(s->reply), MSG_NOSIGNAL);
		else
			while (recv(fd, rest, sizeof(rest), 0) > 0)
				;
		close(fd);
	}
}

static struct server server;

static int server_start(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(server.fd, (const struct sockaddr *)&a, sizeof(a)) || listen(server.fd, 16) ||
	    getsockname(server.fd, (struct sockaddr *)&a, &len))
		return -1;
	server.port = ntohs(a.sin_port);
	return pthread_create(&server.thread, NULL, serve, &server);
}

static int server_stop(void **state)
{
	shutdown(server.fd, SHUT_RDWR);
	close(server.fd);
	return pthread_join(server.thread, NULL);
}

static struct http_client *client(const char *bearer)
{
	struct err err = { 0 };
	struct http_client *c = NULL;
	char url[64];
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
	struct http_spec spec = { .base_url = url, .bearer = bearer };
	assert_int_equal(http_open(&c, &spec, &err), 0);
	return c;
}

static int call(const char *reply, const char *path, const char *body, uint64_t ns, size_t max, int *status,
                struct buf *answer, struct err *err)
{
	struct http_client *c = client("key-of-the-test");
	server.reply = reply;
	server.n_connections = 0;
	int rc = http_call(c, path, body, clock_now_ns() + ns, max, status, answer, err);
	http_close(c);
	return rc;
}

static void any_http_status_is_an_answer(void **state)
{
	static const struct {
		const char *reply, *body;
		int status;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200 },
		{ "HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end", 200 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
		  "abc", 200 },
		{ "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", "busy", 503 },
		{ "HTTP/1.1 204 None\r\n\r\n", "", 204 },
		{ "HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "",
		  302 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		auto_buf answer = BUF_INIT(1024);
		struct err err = { 0 };
		int status = -1;
		assert_int_equal(call(cases[i].reply, "/x", NULL, 5 * NS_PER_S, 1024, &status, &answer, &err),
		                 0);
		assert_int_equal(status, cases[i].status);
		assert_string_equal(answer.p, cases[i].body);
		assert_int_equal(server.n_connections, 1); /* no redirect was followed */
	}
}

static void no_http_answer_is_an_error_and_touches_nothing(void **state)
{
	static const struct {
		const char *reply, *want;
		size_t max;
	} cases[] = {
		{ NULL, "no answer within its time", 100 },
		{ "", "mpty reply", 100 },
		{ "hello\n", "/x: ", 100 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "/x: ", 100 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "/x: ", 100 },
		{ "HTTP/1.1 200 OK\r\n\r\n0123456789", "longer than 9 bytes", 9 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		auto_buf answer = BUF_INIT(1024);
		struct err err = { 0 };
		int status = -1;
		uint64_t t = clock_now_ns();
		assert_int_equal(call(cases[i].reply, "/x", NULL, 300 * NS_PER_MS, cases[i].max, &status,
		                      &answer, &err),
		                 -1);
		assert_true(clock_now_ns() - t < 2 * NS_PER_S);
		assert_int_equal(err.cls, ERR_ENV);
		if (!strstr(err.msg, cases[i].want))
			fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.msg, cases[i].want);
		assert_null(strstr(err.msg, "key-of-the-test"));
		assert_int_equal(status, -1);
		assert_int_equal(answer.len, 0);
	}
}

static void body_makes_it_a_json_post_with_the_key(void **state)
{
	auto_buf answer = BUF_INIT(1024);
	struct err err = { 0 };
	int status;
	const char *ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	assert_int_equal(call(ok, "/tokenize", "{\"a\":1}", NS_PER_S, 10, &status, &answer, &err), 0);
	assert_int_equal(strncmp(server.request, "POST /tokenize HTTP/1.1\r\n", 25), 0);
	assert_non_null(strstr(server.request, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(server.request, "\r\nAuthorization: Bearer key-of-the-test\r\n"));
	assert_non_null(strstr(server.request, "\r\n\r\n{\"a\":1}"));
	assert_int_equal(call(ok, "/health", NULL, NS_PER_S, 10, &status, &answer, &err), 0);
	assert_int_equal(strncmp(server.request, "GET /health HTTP/1.1\r\n", 22), 0);
}

static void proxy_of_the_environment_is_not_asked_for_loopback(void **state)
{
	auto_buf answer = BUF_INIT(1024);
	struct err err = { 0 };
	int status = 0;
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("all_proxy", "http://127.0.0.1:1", 1);
	int rc = call("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "/", NULL, NS_PER_S, 10, &status,
	              &answer, &err);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	assert_int_equal(rc, 0);
	assert_int_equal(status, 200);
}

static void a_socket_file_is_asked_like_a_port(void **state)
{
	char folder[] = "/tmp/test_http_XXXXXX", url[128];
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	auto_buf answer = BUF_INIT(100);
	struct err err = { 0 };
	struct http_client *c = NULL;
	struct server s = { .reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" };
	int status = 0;
	assert_non_null(mkdtemp(folder));
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", folder);
	snprintf(url, sizeof(url), "unix://%s", a.sun_path);
	s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s.fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s.fd, 4), 0);
	assert_int_equal(pthread_create(&s.thread, NULL, serve, &s), 0);
	struct http_spec spec = { .base_url = url };
	assert_int_equal(http_open(&c, &spec, &err), 0);
	int rc = http_call(c, "/health", NULL, clock_now_ns() + 5 * NS_PER_S, 100, &status, &answer, &err);
	http_close(c);
	shutdown(s.fd, SHUT_RDWR);
	close(s.fd);
	pthread_join(s.thread, NULL);
	unlink(a.sun_path);
	rmdir(folder);
	assert_int_equal(rc, 0);
	assert_int_equal(status, 200);
	assert_int_equal(strncmp(s.request, "GET /health HTTP/1.1\r\n", 22), 0);
}

static void deadline_in_the_past_asks_nobody(void **state)
{
	struct http_client *c = client(NULL);
	auto_buf answer = BUF_INIT(10);
	struct err err = { 0 };
	int status;
	server.n_connections = 0;
	assert_int_equal(http_call(c, "/", NULL, 1, 10, &status, &answer, &err), -1);
	assert_int_equal(server.n_connections, 0);
	http_close(c);
}

static void only_plain_http_urls_are_taken(void **state)
{
	static const char *const urls[] = { "ftp://127.0.0.1",
		                            "file:///etc/passwd",
		                            "127.0.0.1:80",
		                            "http://",
		                            "unix://",
		                            "unix:///",
		                            "unix://relative",
		                            "",
		                            "http://user:hunter2@127.0.0.1" };
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		struct http_spec spec = { .base_url = urls[i] };
		struct http_client *c = NULL;
		struct err err = { 0 };
		if (http_open(&c, &spec, &err) == 0)
			fail_msg("taken: %s", urls[i]);
		assert_null(c);
		assert_null(strstr(err.msg, "hunter2"));
	}
}

static void key_that_would_break_a_header_is_refused(void **state)
{
	static const char *const keys[] = { "", "a\r\nX: y", "a b", "a\n" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct http_spec spec = { .base_url = "http://127.0.0.1:1", .bearer = keys[i] };
		struct http_client *c = NULL;
		struct err err = { 0 };
		assert_int_equal(http_open(&c, &spec, &err), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_http_status_is_an_answer),
		cmocka_unit_test(no_http_answer_is_an_error_and_touches_nothing),
		cmocka_unit_test(body_makes_it_a_json_post_with_the_key),
		cmocka_unit_test(proxy_of_the_environment_is_not_asked_for_loopback),
		cmocka_unit_test(a_socket_file_is_asked_like_a_port),
		cmocka_unit_test(deadline_in_the_past_asks_nobody),
		cmocka_unit_test(only_plain_http_urls_are_taken),
		cmocka_unit_test(key_that_would_break_a_header_is_refused),
	};
	return cmocka_run_group_tests(tests, server_start, server_stop);
}
