/* SPDX-License-Identifier: Apache-2.0 */
#include "load/null_engine_int.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define START_TIMEOUT_MS 10000
#define BACKLOG 4096
#define STOP_SIGNAL SIGUSR1

enum step { STEP_READY, STEP_FILES, STEP_CPUS, STEP_SERVE };
static const char *const step_words[] = { "", "its files", "its CPUs", "its sockets" };

struct report { /* from the child, once */
	enum step step;
	int errnum;
};

struct null_engine {
	struct null_engine_spec spec; /* cpus is not kept */
	pid_t pid;                    /* 0 = stopped */
	bool ready, died;
	int pidfd;
	uint64_t cpu_ns;
	char url[40], path[NULL_PATH_BYTES];
	uint64_t *notes; /* arrivals, then sent times; shared */
	size_t notes_bytes;
};

struct birth { /* all that the child needs, made before the fork */
	struct null_serve serve;
	bool bound;
	cpu_set_t cpus;
	int report_fd;
	pid_t parent;
	sigset_t signals; /* mask to give back */
};

/* --- child --------------------------------------------------------------------------------------------- */

static void close_from_to(unsigned from, unsigned to)
{
	if (from > to || close_range(from, to, 0) == 0)
		return;
	struct rlimit rl;
	unsigned last =
		getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < 65536 ? (unsigned)rl.rlim_cur : 65536;
	for (unsigned fd = from; fd <= to && fd < last; fd++)
		close((int)fd);
}

/* /dev/null as 0 and 1, our stderr (a sanitizer speaks there), the socket as 3, the report as 4. */
static bool child_files(struct birth *b)
{
	int sock = fcntl(b->serve.listen_fd, F_DUPFD_CLOEXEC, 10),
	    report = fcntl(b->report_fd, F_DUPFD_CLOEXEC, 10);
	if (report >= 0)
		b->report_fd = report;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (sock < 0 || report < 0 || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
	    dup3(sock, 3, O_CLOEXEC) < 0 || dup3(report, 4, O_CLOEXEC) < 0)
		return false;
	b->serve.listen_fd = 3;
	b->report_fd = 4;
	close_from_to(5, ~0u);
	return true;
}

/* A Ctrl-C goes to the whole foreground group, a service manager's SIGTERM to all of a service; when this
 * process ends is its parent's decision. */
static void child_signals(void)
{
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool child_cpus(const struct birth *b)
{
	cpu_set_t got;
	if (sched_setaffinity(0, sizeof b->cpus, &b->cpus))
		return !b->bound; /* giving back what was ours needs no success */
	if (!b->bound)
		return true;
	errno = EINVAL;
	return sched_getaffinity(0, sizeof got, &got) == 0 && CPU_EQUAL(&got, &b->cpus);
}

static void tell(const struct birth *b, enum step step, int errnum)
{
	struct report r = { step, errnum };
	ssize_t n = write(b->report_fd, &r, sizeof r);
	if (n != (ssize_t)sizeof r)
		_exit(126);
}

static void child_ready(void *ctx)
{
	struct birth *b = ctx;
	tell(b, STEP_READY, 0);
	close(b->report_fd);
	b->report_fd = -1;
}

static void __attribute__((noreturn)) child_main(struct birth *b)
{
	struct rlimit rl;
	prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL);
	if (getppid() != b->parent)
		_exit(126);
	child_signals();
	prctl(PR_SET_NAME, "null-engine");
	enum step step = STEP_FILES;
	if (child_files(b)) {
		step = STEP_CPUS;
		if (child_cpus(b)) {
			step = STEP_SERVE;
			if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
				rl.rlim_cur = rl.rlim_max;
				setrlimit(RLIMIT_NOFILE, &rl);
			}
			errno = null_engine_serve(&b->serve, child_ready, b);
		}
	}
	if (b->report_fd >= 0)
		tell(b, step, errno);
	_exit(1);
}

/* --- parent -------------------------------------------------------------------------------------------- */

static int make_path(struct null_engine *ne, struct err *err)
{
	unsigned char r[16];
	char word[2 * sizeof r + 1];
	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		return err_sys(err, ERR_ENV, errno, "null engine: no random word");
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(word + 2 * i, 3, "%02x", r[i]);
	snprintf(ne->path, sizeof ne->path, "/%s/v1/completions", word);
	return 0;
}

static int open_port(struct null_engine *ne, int *fd, struct err *err)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	auto_fd s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0 || bind(s, (struct sockaddr *)(void *)&at, len) < 0 || listen(s, BACKLOG) < 0 ||
	    getsockname(s, (struct sockaddr *)(void *)&at, &len) < 0)
		return err_sys(err, ERR_ENV, errno, "null engine: no port on 127.0.0.1");
	snprintf(ne->url, sizeof ne->url, "http://127.0.0.1:%u", ntohs(at.sin_port));
	*fd = steal_fd(&s);
	return 0;
}

static int make_notes(struct null_engine *ne, struct err *err)
{
	size_t n = (size_t)(ne->spec.n_requests * (1 + ne->spec.output_tok));
	void *p =
		mmap(NULL, n * sizeof *ne->notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return err_sys(err, ERR_ENV, errno, "null engine: no memory for %zu notes", n);
	ne->notes = p;
	ne->notes_bytes = n * sizeof *ne->notes;
	return 0;
}

static int choose_cpus(struct birth *b, const char *cpus, struct err *err)
{
	b->bound = cpus != NULL;
	if (!cpus)
		proc_cpus_original(&b->cpus);
	else if (proc_cpus_parse(&b->cpus, cpus) < 0)
		return err_set(err, ERR_PLAN, "null engine: want a CPU list like \"0,2-3\", got \"%s\"",
		               cpus);
	return 0;
}

/* No handler of ours may run in the child, so signals wait until it has reset them. */
static int give_birth(struct null_engine *ne, struct birth *b, struct err *err)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &b->signals);
	b->parent = getpid();
	pid_t pid = fork();
	int errnum = errno;
	if (pid == 0)
		child_main(b);
	pthread_sigmask(SIG_SETMASK, &b->signals, NULL);
	if (pid < 0)
		return err_sys(err, ERR_ENV, errnum, "null engine: no process");
	ne->pid = pid;
	ne->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (ne->pidfd < 0)
		return err_sys(err, ERR_ENV, errno, "null engine: pidfd");
	return 0;
}

/* The pipe closes without a word when the child died. */
static int await_ready(int fd, struct err *err)
{
	struct report r;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t until = clock_now_ns() + START_TIMEOUT_MS * NS_PER_MS;
	int n;
	do {
		uint64_t now = clock_now_ns();
		n = poll(&p, 1, now < until ? (int)((until - now) / NS_PER_MS) + 1 : 0);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(err, ERR_ENV, "null engine: not ready within %d s", START_TIMEOUT_MS / 1000);
	if (n < 0 || read(fd, &r, sizeof r) != (ssize_t)sizeof r)
		return err_set(err, ERR_ENV, "null engine: ended before it was ready");
	if (r.step != STEP_READY)
		return err_sys(err, ERR_ENV, r.errnum, "null engine: %s", step_words[r.step]);
	return 0;
}

static int start(struct null_engine *ne, const char *cpus, struct err *err)
{
	struct birth b = { 0 };
	int ends[2];
	if (choose_cpus(&b, cpus, err) < 0 || make_path(ne, err) < 0 || make_notes(ne, err) < 0)
		return -1;
	auto_fd listen_fd = -1;
	if (open_port(ne, &listen_fd, err) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, ERR_ENV, errno, "null engine: pipe");
	auto_fd from_child = ends[0];
	b.report_fd = ends[1];
	b.serve = (struct null_serve){ &ne->spec, ne->path, listen_fd, ne->notes,
		                       ne->notes + ne->spec.n_requests };
	int rc = give_birth(ne, &b, err);
	close(ends[1]);
	if (rc < 0 || await_ready(from_child, err) < 0)
		return -1;
	ne->ready = true;
	return 0;
}

static bool spec_is_sound(const struct null_engine_spec *s)
{
	return s->output_tok && s->n_requests && s->max_conns && s->output_tok <= NULL_ENGINE_TOK_MAX &&
	       s->n_requests <= NULL_ENGINE_TOK_MAX / s->output_tok && s->max_conns <= 1u << 17 &&
	       s->body_bytes >= NULL_ENGINE_BODY_BYTES_MIN && s->body_bytes <= NULL_ENGINE_BODY_BYTES_MAX;
}

int null_engine_start(struct null_engine **out, const struct null_engine_spec *spec, struct err *err)
{
	if (!spec_is_sound(spec))
		return err_set(err, ERR_BUG, "null engine: out of bounds");
	struct null_engine *ne = calloc(1, sizeof *ne);
	if (!ne)
		return err_set(err, ERR_ENV, "null engine: no memory");
	ne->spec = *spec;
	ne->spec.cpus = NULL;
	ne->pidfd = -1;
	if (start(ne, spec->cpus, err) < 0) {
		null_engine_free(ne);
		return -1;
	}
	*out = ne;
	return 0;
}

/* Ended by a signal that nothing else sends, so that whoever died of another cause is known. */
void null_engine_stop(struct null_engine *ne)
{
	struct rusage use = { 0 };
	int status = 0;
	if (!ne || !ne->pid)
		return;
	kill(ne->pid, ne->ready ? STOP_SIGNAL : SIGKILL);
	kill(ne->pid, SIGCONT); /* a stopped process takes no other signal */
	while (wait4(ne->pid, &status, 0, &use) < 0 && errno == EINTR)
		;
	ne->died = ne->ready && !(WIFSIGNALED(status) && WTERMSIG(status) == STOP_SIGNAL);
	ne->cpu_ns = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * NS_PER_S +
	             (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * NS_PER_US;
	ne->pid = 0;
	if (ne->pidfd >= 0)
		close(ne->pidfd);
	ne->pidfd = -1;
}

void null_engine_free(struct null_engine *ne)
{
	if (!ne)
		return;
	null_engine_stop(ne);
	if (ne->notes)
		munmap(ne->notes, ne->notes_bytes);
	free(ne);
}

const char *null_engine_url(const struct null_engine *ne)
{
	return ne->url;
}

const char *null_engine_path(const struct null_engine *ne)
{
	return ne->path;
}

int null_engine_pidfd(const struct null_engine *ne)
{
	return ne->pidfd;
}

bool null_engine_died(const struct null_engine *ne)
{
	return ne->died;
}

uint64_t null_engine_cpu_ns(const struct null_engine *ne)
{
	return ne->cpu_ns;
}

uint64_t null_engine_arrival_ns(const struct null_engine *ne, uint64_t k)
{
	return __atomic_load_n(&ne->notes[k], __ATOMIC_ACQUIRE);
}

const uint64_t *null_engine_sent_ns(const struct null_engine *ne, uint64_t k)
{
	return ne->notes + ne->spec.n_requests + k * ne->spec.output_tok;
}

uint64_t null_engine_due_ns(const struct null_engine *ne, uint64_t k, uint64_t i)
{
	return null_engine_arrival_ns(ne, k) + ne->spec.ttft_ns + i * ne->spec.itl_ns;
}

/* --- bodies -------------------------------------------------------------------------------------------- */

char *null_engine_tape(uint64_t n_requests, uint64_t body_bytes)
{
	char tag[NULL_TAG_BYTES + 16];
	char *tape = malloc((size_t)(n_requests * NULL_TAG_BYTES + body_bytes));
	if (!tape)
		return NULL;
	for (uint64_t k = 0; k < n_requests; k++) {
		snprintf(tag, sizeof tag, "{\"k\":%0*" PRIu64 ",\"p\":\"xxxxxxxxxxxxx", NULL_TAG_DIGITS, k);
		memcpy(tape + k * NULL_TAG_BYTES, tag, NULL_TAG_BYTES);
	}
	memset(tape + n_requests * NULL_TAG_BYTES, 'x', (size_t)body_bytes);
	return tape;
}

const char *null_engine_body(const char *tape, uint64_t k)
{
	return tape + k * NULL_TAG_BYTES;
}
