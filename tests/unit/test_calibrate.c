/* SPDX-License-Identifier: Apache-2.0 */
/* The null engine over raw sockets, and calibrations against it. Times are compared with wide bounds: what
 * must hold on a busy machine is that nothing is lost and that a bad client is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "load/calibrate.h"
#include "load/null_engine.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MS NS_PER_MS

static unsigned count_fds_of(pid_t pid)
{
	unsigned n = 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static unsigned count_fds(void)
{
	return count_fds_of(getpid());
}

/* No child left, living or dead. */
static void assert_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* --- the null engine itself ---------------------------------------------------------------------------- */

#define BODY_BYTES 100
#define N_REQUESTS 4
#define OUT_TOK 3

static const struct null_engine_spec small = {
	.ttft_ns = 20 * MS,
	.itl_ns = 10 * MS,
	.output_tok = OUT_TOK,
	.n_requests = N_REQUESTS,
	.body_bytes = BODY_BYTES,
	.max_conns = 4,
};

static struct null_engine *begin(const struct null_engine_spec *spec)
{
	struct err err = { 0 };
	struct null_engine *ne = NULL;
	if (null_engine_start(&ne, spec, &err) < 0)
		fail_msg("%s", err.msg);
	return ne;
}

static pid_t pid_of(int pidfd)
{
	char path[64], line[128];
	int pid = -1;
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	auto_file f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "Pid: %d", &pid);
	return pid;
}

static int dial(const struct null_engine *ne)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	at.sin_port = htons((uint16_t)strtoul(strrchr(null_engine_url(ne), ':') + 1, NULL, 10));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)(void *)&at, sizeof at) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Until `last` has come, the peer closes, or 5 s are over. Returns the length. */
static size_t hear(int fd, char *out, size_t size, const char *last)
{
	size_t n = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	out[0] = '\0';
	while (n + 1 < size && !(last && strstr(out, last)) && poll(&p, 1, 5000) == 1) {
		ssize_t got = recv(fd, out + n, size - 1 - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
		out[n] = '\0';
	}
	return n;
}

static void say(int fd, const char *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void say_head(int fd, const char *path, size_t len)
{
	char head[512];
	int n = snprintf(head, sizeof head,
	                 "POST %s HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: %zu\r\nAccept: */*\r\n\r\n", path,
	                 len);
	say(fd, head, (size_t)n);
}

/* No strstr: under a sanitizer each call measures the whole text. */
static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;
	size_t len = strlen(what);
	for (const char *p = text; *p; p++)
		n += *p == *what && strncmp(p, what, len) == 0;
	return n;
}

#define END "\r\n0\r\n\r\n"

static void test_answers_a_request_with_its_tokens_in_time_and_keeps_the_connection(void **state)
{
	char text[8192];
	unsigned fds = count_fds();
	struct null_engine *ne = begin(&small);
	char *tape = null_engine_tape(N_REQUESTS, BODY_BYTES);
	int fd = dial(ne);
	for (uint64_t k = 0; k < N_REQUESTS; k++) {
		const char *body = null_engine_body(tape, k);
		say_head(fd, null_engine_path(ne), BODY_BYTES);
		/* the tag cut in two, and the rest late: the body may come in any pieces */
		say(fd, body, 8);
		usleep(2000);
		say(fd, body + 8, BODY_BYTES - 8);
		hear(fd, text, sizeof text, END);
		assert_int_equal(count(text, "HTTP/1.1 200 OK\r\n"), 1);
		assert_int_equal(count(text, "\"text\":\" word\""), OUT_TOK);
		assert_int_equal(count(text, "\"finish_reason\":\"length\""), 1);
		assert_int_equal(count(text, "\"completion_tokens\":3,"), 1);
		assert_int_equal(count(text, "data: [DONE]\n\n"), 1);
	}
	null_engine_stop(ne);
	for (uint64_t k = 0; k < N_REQUESTS; k++) {
		const uint64_t *sent = null_engine_sent_ns(ne, k);
		assert_int_equal(null_engine_due_ns(ne, k, 0), null_engine_arrival_ns(ne, k) + 20 * MS);
		for (uint64_t i = 0; i < OUT_TOK; i++)
			assert_true(sent[i] >= null_engine_due_ns(ne, k, i));
	}
	assert_true(null_engine_cpu_ns(ne) > 0);
	assert_int_equal(null_engine_pidfd(ne), -1);
	assert_int_equal(dial(ne), -1); /* nobody listens any more */
	close(fd);
	free(tape);
	null_engine_free(ne);
	null_engine_free(NULL);
	assert_no_child();
	assert_int_equal(count_fds(), fds);
}

static void test_refuses_what_is_not_ours_and_notes_nothing(void **state)
{
	char text[2048];
	struct null_engine *ne = begin(&small);
	char *tape = null_engine_tape(N_REQUESTS + 1, BODY_BYTES);
	const char *good = null_engine_body(tape, 0), *beyond = null_engine_body(tape, N_REQUESTS);
	char bad_tag[BODY_BYTES], long_head[4096];
	memset(bad_tag, 'x', sizeof bad_tag);
	memset(long_head, 'x', sizeof long_head);
	const struct {
		const char *path, *body;
		size_t len, told;
		const char *want;
	} cases[] = {
		{ "/v1/completions", good, BODY_BYTES, BODY_BYTES, "HTTP/1.1 404 " },
		{ "/00000000000000000000000000000000/v1/completions", good, BODY_BYTES, BODY_BYTES,
		  "HTTP/1.1 404 " },
		{ "", good, BODY_BYTES, BODY_BYTES, "HTTP/1.1 404 " },
		{ NULL, bad_tag, BODY_BYTES, BODY_BYTES, "HTTP/1.1 400 " },
		{ NULL, beyond, BODY_BYTES, BODY_BYTES, "HTTP/1.1 400 " },
		{ NULL, good, 1, 1, "HTTP/1.1 400 " },
		{ NULL, good, BODY_BYTES, BODY_BYTES + 1, "HTTP/1.1 400 " },
		{ long_head, NULL, 0, 0, "HTTP/1.1 431 " },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = dial(ne);
		if (cases[i].path == long_head)
			say(fd, long_head, sizeof long_head);
		else
			say_head(fd, cases[i].path ? cases[i].path : null_engine_path(ne), cases[i].told);
		if (cases[i].len)
			send(fd, cases[i].body, cases[i].len, MSG_NOSIGNAL);
		hear(fd, text, sizeof text, "\r\n\r\n");
		/* a close with bytes unread may overtake the words */
		assert_true(text[0] == '\0' || strncmp(text, cases[i].want, strlen(cases[i].want)) == 0);
		close(fd);
	}
	null_engine_stop(ne);
	for (uint64_t k = 0; k < N_REQUESTS; k++)
		assert_int_equal(null_engine_arrival_ns(ne, k), 0);
	free(tape);
	null_engine_free(ne);
}

static void test_tells_a_death_from_a_stop(void **state)
{
	static const struct {
		int sig;
		bool dies;
	} cases[] = { { SIGKILL, true },
		      { SIGUSR2, true },
		      { SIGINT, false },
		      { SIGTERM, false },
		      { SIGSTOP, false } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct null_engine *ne = begin(&small);
		struct pollfd gone = { .fd = null_engine_pidfd(ne), .events = POLLIN };
		kill(pid_of(gone.fd), cases[i].sig);
		if (cases[i].dies)
			assert_int_equal(poll(&gone, 1, 5000), 1);
		null_engine_stop(ne);
		assert_int_equal(null_engine_died(ne), cases[i].dies);
		null_engine_free(ne);
	}
}

static void test_answers_each_number_once(void **state)
{
	char text[8192];
	struct null_engine *ne = begin(&small);
	char *tape = null_engine_tape(N_REQUESTS, BODY_BYTES);
	for (int i = 0; i < 2; i++) {
		int fd = dial(ne);
		say_head(fd, null_engine_path(ne), BODY_BYTES);
		say(fd, null_engine_body(tape, 2), BODY_BYTES);
		hear(fd, text, sizeof text, i ? "\r\n\r\n" : END);
		assert_int_equal(count(text, "HTTP/1.1 200 OK"), i == 0);
		close(fd);
	}
	free(tape);
	null_engine_free(ne);
}

static void test_strangers_cannot_take_all_connections(void **state)
{
	char text[8192];
	int idle[16];
	struct null_engine *ne = begin(&small); /* 4 connections */
	char *tape = null_engine_tape(N_REQUESTS, BODY_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		idle[i] = dial(ne);
	int fd = dial(ne);
	say_head(fd, null_engine_path(ne), BODY_BYTES);
	say(fd, null_engine_body(tape, 0), BODY_BYTES);
	hear(fd, text, sizeof text, END);
	assert_int_equal(count(text, "HTTP/1.1 200 OK"), 1);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		close(idle[i]);
	free(tape);
	null_engine_free(ne);
}

static void test_a_client_that_does_not_read_gets_all_tokens_later(void **state)
{
	/* 40,000 tokens at once are more than the sockets hold */
	const struct null_engine_spec flood = {
		.output_tok = 40000, .n_requests = 1, .body_bytes = BODY_BYTES, .max_conns = 4
	};
	struct null_engine *ne = begin(&flood);
	char *tape = null_engine_tape(1, BODY_BYTES);
	size_t size = 16u << 20;
	char *text = malloc(size);
	int fd = dial(ne);
	say_head(fd, null_engine_path(ne), BODY_BYTES);
	say(fd, null_engine_body(tape, 0), BODY_BYTES);
	usleep(100 * 1000);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	while (n + 1 < size && !(n > 7 && memcmp(text + n - 7, END, 7) == 0) && poll(&p, 1, 5000) == 1) {
		ssize_t got = recv(fd, text + n, size - 1 - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	assert_int_equal(count(text, "\"text\":\" word\""), 40000);
	assert_int_equal(count(text, "data: [DONE]\n\n"), 1);
	close(fd);
	free(text);
	free(tape);
	null_engine_free(ne);
}

static void test_says_why_it_cannot_start(void **state)
{
	static const struct {
		const char *cpus;
		enum err_class cls;
		const char *says;
	} cases[] = {
		{ "1-0", ERR_PLAN, "null engine: want a CPU list like \"0,2-3\", got \"1-0\"" },
		{ "1023", ERR_ENV, "null engine: its CPUs: Invalid argument" },
	};
	unsigned fds = count_fds();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct null_engine_spec spec = small;
		struct null_engine *ne = NULL;
		struct err err = { 0 };
		spec.cpus = cases[i].cpus;
		assert_int_equal(null_engine_start(&ne, &spec, &err), -1);
		assert_null(ne);
		assert_int_equal(err.cls, cases[i].cls);
		assert_string_equal(err.msg, cases[i].says);
	}
	assert_no_child();
	assert_int_equal(count_fds(), fds);
}

static void test_holds_no_file_of_its_parent_and_runs_where_it_was_told(void **state)
{
	int mine[2];
	cpu_set_t here, there;
	assert_int_equal(pipe(mine), 0); /* inheritable */
	assert_int_equal(sched_getaffinity(0, sizeof here, &here), 0);
	char cpu[16] = "";
	for (int i = 0; i < CPU_SETSIZE && !cpu[0]; i++) {
		if (CPU_ISSET(i, &here))
			snprintf(cpu, sizeof cpu, "%d", i);
	}
	struct null_engine_spec spec = small;
	spec.cpus = cpu;
	struct null_engine *ne = begin(&spec);
	pid_t pid = pid_of(null_engine_pidfd(ne));
	assert_int_equal(sched_getaffinity(pid, sizeof there, &there), 0);
	assert_int_equal(CPU_COUNT(&there), 1);
	assert_true(CPU_ISSET(atoi(cpu), &there));
	/* stdin, stdout, stderr, listener, epoll, timer; where it reports from closes a moment after the
	 * report */
	for (int i = 0; i < 500 && count_fds_of(pid) != 6; i++)
		usleep(10000);
	assert_int_equal(count_fds_of(pid), 6);
	null_engine_free(ne);
	close(mine[0]);
	close(mine[1]);
}

static void test_dies_with_its_parent(void **state)
{
	int ends[2];
	pid_t pid;
	assert_int_equal(pipe(ends), 0);
	pid_t parent = fork();
	if (parent == 0) {
		struct null_engine *ne = NULL;
		struct err err;
		if (null_engine_start(&ne, &small, &err) < 0)
			_exit(1);
		pid = pid_of(null_engine_pidfd(ne));
		_exit(write(ends[1], &pid, sizeof pid) != sizeof pid);
	}
	int status;
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
	/* init, or whoever reaps here, may take a moment: gone or a zombie is dead */
	char path[64], state_of = 'R';
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 500 && state_of != 'Z'; i++) {
		auto_file f = fopen(path, "re");
		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state_of) != 1)
			state_of = 'Z';
		usleep(10000);
	}
	assert_int_equal(state_of, 'Z');
	close(ends[0]);
	close(ends[1]);
}

/* --- calibrations -------------------------------------------------------------------------------------- */

static struct calibration_spec closed_loop(uint64_t streams, uint64_t tok_per_s, uint64_t output_tok)
{
	return (struct calibration_spec){
		.arrival = ARRIVAL_CLOSED,
		.concurrency = streams,
		.duration_ns = 1000 * MS,
		.body_bytes = 2000,
		.ttft_ns = 50 * MS,
		.itl_ns = NS_PER_S / tok_per_s,
		.output_tok = output_tok,
		.threads = 1,
	};
}

static struct calibration measure(const struct calibration_spec *spec)
{
	struct calibration cal;
	struct err err = { 0 };
	unsigned fds = count_fds();
	if (calibrate(&cal, spec, &err) < 0)
		fail_msg("%s", err.msg);
	assert_no_child();
	assert_int_equal(count_fds(), fds);
	return cal;
}

static void assert_whole(const struct calibration *cal, uint64_t output_tok)
{
	assert_int_equal(cal->n_failed, 0);
	assert_int_equal(cal->n_tokens, cal->n_requests * output_tok);
	assert_int_equal(cal->n_gaps, cal->n_tokens - cal->n_requests);
	assert_true(cal->ttft_error_p50_ns <= cal->ttft_error_p99_ns);
	assert_true(cal->ttft_error_p99_ns <= cal->ttft_error_max_ns);
	assert_true(cal->ttft_error_max_ns != REC_NONE);
	assert_true(cal->itl_error_p50_ns <= cal->itl_error_p99_ns);
	assert_true(cal->itl_error_p99_ns <= cal->itl_error_max_ns);
	assert_true(cal->client_cpu_ns > 0 && cal->wall_ns > 0);
	assert_true(cal->server_late_p99_ns != REC_NONE && cal->send_lag_max_ns != REC_NONE);
}

static void test_closed_loop_knows_its_errors(void **state)
{
	struct calibration_spec spec = closed_loop(16, 50, 20);
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 20);
	assert_true(cal.itl_error_max_ns != REC_NONE);
	assert_true(cal.n_requests >= 2 * 16);
	assert_int_equal(cal.max_in_flight, 16);
	assert_true(cal.ttft_error_p50_ns < 20 * MS);
}

static void test_holds_512_streams(void **state)
{
	struct calibration_spec spec = closed_loop(512, 5, 1000);
	struct calibration cal = measure(&spec);
	/* 50 ms + 4 x 200 ms: what fits into one second */
	assert_whole(&cal, 5);
	assert_true(cal.n_requests >= 512);
	assert_true(cal.max_in_flight > 400);
}

static void test_open_loop_sends_what_is_due_within_the_time(void **state)
{
	uint64_t due[200];
	struct calibration_spec spec = closed_loop(0, 100, 10);
	for (size_t i = 0; i < ARRAY_LEN(due); i++)
		due[i] = (i <= 90 ? i * 10 : 1000 + i) * MS;
	spec.arrival = ARRIVAL_CONSTANT;
	spec.due_ns = due;
	spec.n_due = ARRAY_LEN(due);
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 10);
	assert_int_equal(cal.n_requests, 91);
}

static void test_open_loop_whose_first_request_comes_later_still_measures(void **state)
{
	const uint64_t due[] = { 5000 * MS, 6000 * MS };
	struct calibration_spec spec = closed_loop(0, 100, 10);
	spec.arrival = ARRIVAL_POISSON;
	spec.due_ns = due;
	spec.n_due = ARRAY_LEN(due);
	spec.duration_ns = 300 * MS;
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 10);
	assert_int_equal(cal.n_requests, 1);
}

static void test_one_token_an_answer_has_no_gap(void **state)
{
	struct calibration_spec spec = closed_loop(2, 50, 1);
	spec.duration_ns = 200 * MS;
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 1);
	assert_int_equal(cal.n_gaps, 0);
	assert_int_equal(cal.itl_error_p50_ns, REC_NONE);
	assert_int_equal(cal.itl_error_max_ns, REC_NONE);
}

static void test_no_pause_at_all_stays_within_its_bounds(void **state)
{
	struct calibration_spec spec = closed_loop(4, 50, 1000);
	spec.duration_ns = 100 * MS;
	spec.ttft_ns = spec.itl_ns = 0;
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 1000);
	assert_true(cal.n_tokens <= NULL_ENGINE_TOK_MAX);
}

static void *set_later(void *flag)
{
	usleep(200 * 1000);
	__atomic_store_n((bool *)flag, true, __ATOMIC_RELAXED);
	return NULL;
}

static void test_abort_ends_it_and_counts_what_was_under_way(void **state)
{
	bool abort_now = false;
	struct calibration_spec spec = closed_loop(8, 1, 100);
	spec.duration_ns = 30000 * MS;
	spec.abort = &abort_now;
	pthread_t t;
	uint64_t from = clock_now_ns();
	assert_int_equal(pthread_create(&t, NULL, set_later, &abort_now), 0);
	struct calibration cal = measure(&spec);
	pthread_join(t, NULL);
	assert_true(clock_now_ns() - from < 200 * MS + NS_PER_S);
	assert_int_equal(cal.n_requests, 8);
	assert_int_equal(cal.n_failed, 8);
}

/* Kills the only child of this process, which is the null engine. */
static void *kill_later(void *arg)
{
	int pid = 0;
	usleep(200 * 1000);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	auto_file f = fopen(path, "re");
	if (f && fscanf(f, "%d", &pid) == 1 && pid > 1)
		kill(pid, SIGKILL);
	return NULL;
}

static void test_a_null_engine_that_dies_is_an_error(void **state)
{
	struct calibration cal = { .n_requests = 77 };
	struct calibration_spec spec = closed_loop(8, 1, 100);
	struct err err = { 0 };
	pthread_t t;
	unsigned fds = count_fds();
	spec.duration_ns = 30000 * MS;
	assert_int_equal(pthread_create(&t, NULL, kill_later, NULL), 0);
	assert_int_equal(calibrate(&cal, &spec, &err), -1);
	pthread_join(t, NULL);
	assert_int_equal(err.cls, ERR_ENV);
	assert_string_equal(err.msg, "calibration: the null engine ended during the load");
	assert_int_equal(cal.n_requests, 77);
	assert_no_child();
	assert_int_equal(count_fds(), fds);
}

static void test_several_client_threads_lose_nothing(void **state)
{
	struct calibration_spec spec = closed_loop(16, 50, 20);
	spec.threads = 2;
	struct calibration cal = measure(&spec);
	assert_whole(&cal, 20);
	assert_true(cal.n_requests >= 2 * 16);
}

static void test_a_bad_cpu_list_is_named(void **state)
{
	struct calibration cal = { .n_requests = 77 };
	struct calibration_spec spec = closed_loop(1, 50, 1);
	struct err err = { 0 };
	spec.server_cpus = "x";
	assert_int_equal(calibrate(&cal, &spec, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_non_null(strstr(err.msg, "calibration: null engine: want a CPU list"));
	assert_int_equal(cal.n_requests, 77);
	assert_no_child();
}

#define STOP_MS 60
#define N_STOPS 4

/* A client that does not get to run: its clock would see tokens late, the kernel's receive stamps do not, and
 * then it shows in the lag of its loop. One of the two always says so. */
static void test_a_client_stopped_on_purpose_is_seen(void **state)
{
	int ends[2];
	struct calibration cal;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct calibration_spec spec = closed_loop(16, 50, 20);
		struct err err;
		if (calibrate(&cal, &spec, &err) < 0)
			_exit(1);
		_exit(write(ends[1], &cal, sizeof cal) != sizeof cal);
	}
	for (int i = 0; i < N_STOPS; i++) {
		usleep(150 * 1000);
		kill(pid, SIGSTOP);
		usleep(STOP_MS * 1000);
		kill(pid, SIGCONT);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &cal, sizeof cal), sizeof cal);
	close(ends[0]);
	close(ends[1]);
	assert_whole(&cal, 20);
	uint64_t worst =
		cal.ttft_error_max_ns > cal.itl_error_max_ns ? cal.ttft_error_max_ns : cal.itl_error_max_ns;
	assert_true(worst >= 50 * MS || (cal.loop_lag_p99_ns != REC_NONE && cal.loop_lag_p99_ns >= 40 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_a_request_with_its_tokens_in_time_and_keeps_the_connection),
		cmocka_unit_test(test_refuses_what_is_not_ours_and_notes_nothing),
		cmocka_unit_test(test_tells_a_death_from_a_stop),
		cmocka_unit_test(test_answers_each_number_once),
		cmocka_unit_test(test_strangers_cannot_take_all_connections),
		cmocka_unit_test(test_a_client_that_does_not_read_gets_all_tokens_later),
		cmocka_unit_test(test_says_why_it_cannot_start),
		cmocka_unit_test(test_holds_no_file_of_its_parent_and_runs_where_it_was_told),
		cmocka_unit_test(test_dies_with_its_parent),
		cmocka_unit_test(test_closed_loop_knows_its_errors),
		cmocka_unit_test(test_holds_512_streams),
		cmocka_unit_test(test_open_loop_sends_what_is_due_within_the_time),
		cmocka_unit_test(test_open_loop_whose_first_request_comes_later_still_measures),
		cmocka_unit_test(test_one_token_an_answer_has_no_gap),
		cmocka_unit_test(test_no_pause_at_all_stays_within_its_bounds),
		cmocka_unit_test(test_abort_ends_it_and_counts_what_was_under_way),
		cmocka_unit_test(test_a_null_engine_that_dies_is_an_error),
		cmocka_unit_test(test_several_client_threads_lose_nothing),
		cmocka_unit_test(test_a_bad_cpu_list_is_named),
		cmocka_unit_test(test_a_client_stopped_on_purpose_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
