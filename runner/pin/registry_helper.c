/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of docker-credential-helpers: "get" as argument, the server's name on stdin, JSON with
 * Username and Secret on stdout; on failure exit 1 with a text on stdout. */
#include "pin/registry_creds.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HELPER_TIME_NS (30 * NS_PER_S)
#define HELPER_BYTES_MAX (64u << 10)
#define HELPER_NAME_MAX 64
#define NOT_FOUND_TEXT "credentials not found in native keychain"

struct helper {
	pid_t pid; /* 0 = not running */
	int in, out;
};

static bool name_ok(const char *name)
{
	size_t n = strlen(name);
	return n > 0 && n <= HELPER_NAME_MAX && name[0] != '-' && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int spawn(struct helper *h, const char *program, int in_fd, int out_fd)
{
	char *argv[] = { strdup(program), strdup("get"), NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, defaults;
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	posix_spawn_file_actions_adddup2(&fa, in_fd, 0);
	posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&at, 0);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &defaults);
	int rc = argv[0] && argv[1] ? posix_spawnp(&h->pid, program, &fa, &at, argv, environ) : ENOMEM;
	if (rc)
		h->pid = 0;
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	free(argv[0]);
	free(argv[1]);
	return rc;
}

static int start(struct helper *h, const char *program, struct err *err)
{
	int to[2], from[2];
	if (pipe2(to, O_CLOEXEC))
		return err_sys(err, ERR_ENV, errno, "%s: cannot make a pipe", program);
	if (pipe2(from, O_CLOEXEC)) {
		int why = errno;
		close(to[0]);
		close(to[1]);
		return err_sys(err, ERR_ENV, why, "%s: cannot make a pipe", program);
	}
	int rc = spawn(h, program, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	h->in = to[1];
	h->out = from[0];
	fcntl(h->in, F_SETFL, O_NONBLOCK);
	fcntl(h->out, F_SETFL, O_NONBLOCK);
	if (rc)
		return err_sys(err, ERR_ENV, rc, "%s: cannot be started", program);
	return 0;
}

static void close_in(struct helper *h)
{
	if (h->in >= 0)
		close(h->in);
	h->in = -1;
}

static int ms_left(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns();
	return deadline_ns > now ? (int)((deadline_ns - now) / NS_PER_MS + 1) : 0;
}

/* Until it has ended, or the deadline; it stays a zombie, so that its group is still its own. */
static bool has_ended(pid_t pid, uint64_t deadline_ns)
{
	siginfo_t si = { 0 };
	auto_fd fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (fd >= 0 && poll(&p, 1, ms_left(deadline_ns)) < 0 && errno == EINTR)
		;
	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == pid;
}

/* It and what it started end here. -1 when it had to be ended. */
static int finish(struct helper *h, uint64_t deadline_ns)
{
	int status = 0;
	close_in(h);
	if (h->out >= 0)
		close(h->out);
	h->out = -1;
	if (!h->pid)
		return -1;
	bool ended = has_ended(h->pid, deadline_ns);
	kill(-h->pid, SIGKILL);
	while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
		;
	h->pid = 0;
	return ended ? status : -1;
}

/* write() to a helper that is gone would raise SIGPIPE in us: the mask of this thread holds it back. */
static ssize_t write_quietly(int fd, const void *p, size_t n)
{
	sigset_t pipe_only, old;
	struct timespec at_once = { 0, 0 };
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
	ssize_t rc = write(fd, p, n);
	int why = errno;
	if (rc < 0 && why == EPIPE && !sigismember(&old, SIGPIPE))
		sigtimedwait(&pipe_only, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = why;
	return rc;
}

static void feed(struct helper *h, const char *server, size_t *sent)
{
	size_t len = strlen(server);
	ssize_t n = write_quietly(h->in, server + *sent, len - *sent);
	if (n > 0)
		*sent += (size_t)n;
	if (*sent == len || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_in(h);
}

/* Until it closes its stdout. NULL, or why not. */
static const char *talk(struct helper *h, const char *server, struct buf *answer, uint64_t deadline_ns)
{
	size_t sent = 0;
	char piece[4096];
	const char *fault = NULL;
	for (;;) {
		struct pollfd p[2] = { { .fd = h->out, .events = POLLIN },
			               { .fd = h->in, .events = POLLOUT } };
		int wait_ms = ms_left(deadline_ns);
		int rc = wait_ms ? poll(p, h->in >= 0 ? 2 : 1, wait_ms) : 0;
		if (rc == 0 || (rc < 0 && errno != EINTR)) {
			fault = "gave no answer within its time";
			break;
		}
		if (rc < 0)
			continue;
		if (h->in >= 0 && p[1].revents)
			feed(h, server, &sent);
		if (!p[0].revents)
			continue;
		ssize_t n = read(h->out, piece, sizeof(piece));
		if (n == 0)
			break;
		if (n > 0 && buf_add(answer, piece, (size_t)n)) {
			fault = "gave an answer that is too long";
			break;
		}
	}
	explicit_bzero(piece, sizeof(piece));
	return fault;
}

static int take(struct registry_creds *out, const struct cJSON *doc, const char *program, struct err *err)
{
	const char *user = json_str(doc, "Username"), *secret = json_str(doc, "Secret");
	struct registry_creds c = { 0 };
	if (!user || !secret)
		return err_set(err, ERR_ENV, "%s: its answer has no Username and Secret", program);
	if (strcmp(user, "<token>") == 0) {
		c.identity_token = strdup(secret);
	} else {
		c.user = strdup(user);
		c.password = strdup(secret);
	}
	if (!c.identity_token && (!c.user || !c.password)) {
		registry_creds_done(&c);
		return err_set(err, ERR_ENV, "%s: no memory", program);
	}
	*out = c;
	return 0;
}

static void wipe_tree(struct cJSON *doc)
{
	for (struct cJSON *v = doc ? doc->child : NULL; v; v = v->next)
		if (cJSON_IsString(v))
			explicit_bzero(v->valuestring, strlen(v->valuestring));
	cJSON_Delete(doc);
}

static int read_answer(struct registry_creds *out, bool *found, const struct buf *answer, int status,
                       const char *program, struct err *err)
{
	struct cJSON *doc = NULL;
	struct err hidden;
	const char *text = answer->p ? answer->p : "";
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		if (strstr(text, NOT_FOUND_TEXT)) {
			*found = false;
			return 0;
		}
		return err_set(err, ERR_ENV, "%s: failed (%s %d)", program,
		               WIFEXITED(status) ? "exit" : "signal",
		               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	}
	if (json_parse(&doc, text, answer->len, program, JSON_ENGINE, NULL,
	               &hidden)) /* it would show the text */
		return err_set(err, ERR_ENV, "%s: its answer is no JSON", program);
	int rc = take(out, doc, program, err);
	wipe_tree(doc);
	*found = rc == 0;
	return rc;
}

int registry_helper_get(struct registry_creds *out, bool *found, const char *name, const char *server,
                        uint64_t deadline_ns, struct err *err)
{
	auto_buf answer = BUF_INIT(HELPER_BYTES_MAX);
	struct helper h = { .in = -1, .out = -1 };
	uint64_t latest = clock_now_ns() + HELPER_TIME_NS;
	latest = deadline_ns < latest ? deadline_ns : latest;
	if (!name_ok(name))
		return err_set(err, ERR_ENV, "the name of a credential helper is none: '%.20s'", name);
	auto_free char *program = str_fmt("docker-credential-%s", name);
	if (!program)
		return err_set(err, ERR_ENV, "docker-credential-%s: no memory", name);
	if (start(&h, program, err)) {
		finish(&h, 0);
		return -1;
	}
	const char *fault = talk(&h, server, &answer, latest);
	int status = finish(&h, fault ? 0 : latest);
	if (!fault && status < 0)
		fault = "does not end";
	int rc = fault ? err_set(err, ERR_ENV, "%s: %s", program, fault)
	               : read_answer(out, found, &answer, status, program, err);
	if (answer.p)
		explicit_bzero(answer.p, answer.cap);
	return rc;
}
