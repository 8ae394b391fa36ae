/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_parts.h"

#include "base/clock.h"
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct proc {
	pid_t pid;
	int pidfd;
	bool ended; /* and reaped: from here on the pid may be somebody else's */
	int status;
	uint64_t start_ticks;
	struct proc *next; /* in the list of all */
};

static struct proc *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static void register_proc(struct proc *p)
{
	pthread_mutex_lock(&all_lock);
	p->next = all;
	all = p;
	pthread_mutex_unlock(&all_lock);
}

static void unregister_proc(const struct proc *p)
{
	pthread_mutex_lock(&all_lock);
	for (struct proc **at = &all; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	pthread_mutex_unlock(&all_lock);
}

bool proc_registered(pid_t pid, uint64_t *since_ticks)
{
	bool found = false;
	pthread_mutex_lock(&all_lock);
	for (const struct proc *p = all; p && !found; p = p->next) {
		found = p->pid == pid;
		if (found && since_ticks)
			*since_ticks = p->start_ticks;
	}
	pthread_mutex_unlock(&all_lock);
	return found;
}

int proc_init(struct err *err)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L))
		return err_sys(err, ERR_ENV, errno, "cannot become the reaper of the engine's processes");
	return 0;
}

/* --- spawn --- */

enum spawn_step { STEP_NONE, STEP_CWD, STEP_OUTPUT, STEP_CPUS, STEP_EXEC };
struct spawn_report {
	enum spawn_step step;
	int errnum;
};
struct spawn { /* all that the child needs, made before the fork: it may not allocate */
	const struct proc_spec *spec;
	char *path;
	cpu_set_t cpus;
	int report_fd;
	pid_t parent;
};

static const char *path_of_env(const char *const *envp)
{
	for (size_t i = 0; envp[i]; i++)
		if (!strncmp(envp[i], "PATH=", 5))
			return envp[i] + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *search_path(const char *name, const char *path)
{
	while (*path) {
		size_t len = strcspn(path, ":");
		char *full = len ? str_fmt("%.*s/%s", (int)len, path, name) : NULL;
		if (full && is_program(full))
			return full;
		free(full);
		path += len + (path[len] == ':');
	}
	return NULL;
}

/* malloc'd absolute path: the child changes its folder before exec. */
static char *find_program(const struct proc_spec *spec, struct err *err)
{
	const char *name = spec->argv[0], *path = path_of_env(spec->envp);
	auto_free char *here = NULL;
	if (!strchr(name, '/')) {
		char *full = search_path(name, path);
		if (!full)
			err_set(err, ERR_ENV,
			        "%s: not found on the PATH of the engine (%s): install it or give its path",
			        name, path);
		return full;
	}
	here = getcwd(NULL, 0);
	char *full = here ? fs_join(here, name) : NULL;
	if (!full)
		err_sys(err, ERR_ENV, errno, "%s", name);
	return full;
}

static void child_signals(void)
{
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* stdin from /dev/null, the log as 1 and 2, the report as 3 (closed by exec), nothing else. */
static bool child_files(struct spawn *s)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int in_high = fcntl(in, F_DUPFD_CLOEXEC, 10), out_high = fcntl(s->spec->out_fd, F_DUPFD_CLOEXEC, 10);
	int report_high = fcntl(s->report_fd, F_DUPFD_CLOEXEC, 10);
	if (report_high < 0)
		return false;
	s->report_fd = report_high;
	if (in_high < 0 || out_high < 0 || dup2(in_high, 0) < 0 || dup2(out_high, 1) < 0 ||
	    dup2(out_high, 2) < 0 || dup3(report_high, 3, O_CLOEXEC) < 0)
		return false;
	s->report_fd = 3;
	return close_range(4, ~0u, 0) == 0;
}

static bool child_cpus(const struct spawn *s)
{
	cpu_set_t got;
	if (sched_setaffinity(0, sizeof(s->cpus), &s->cpus))
		return !s->spec->cpus; /* giving back what was ours needs no success */
	if (!s->spec->cpus)
		return true;
	errno = EINVAL;
	return sched_getaffinity(0, sizeof(got), &got) == 0 && CPU_EQUAL(&got, &s->cpus);
}

static void __attribute__((noreturn)) child_fails(const struct spawn *s, enum spawn_step step)
{
	struct spawn_report r = { .step = step, .errnum = errno };
	ssize_t n = write(s->report_fd, &r, sizeof(r));
	_exit(n == sizeof(r) ? 127 : 126);
}

static void __attribute__((noreturn)) child_main(struct spawn *s)
{
	const struct proc_spec *spec = s->spec;
	setpgid(0, 0);
	if (spec->die_with_parent) {
		prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL);
		if (getppid() != s->parent)
			_exit(126);
	}
	if (!child_files(s))
		child_fails(s, STEP_OUTPUT);
	if (!child_cpus(s))
		child_fails(s, STEP_CPUS);
	if (spec->cwd && chdir(spec->cwd))
		child_fails(s, STEP_CWD);
	child_signals();
	/* execve's argv is not const for historical reasons; it changes nothing. */
	union {
		const char *const *in;
		char *const *out;
	} argv = { .in = spec->argv }, envp = { .in = spec->envp };
	execve(s->path, argv.out, envp.out);
	child_fails(s, STEP_EXEC);
}

static int report_error(const struct spawn *s, const struct spawn_report *r, struct err *err)
{
	switch (r->step) {
	case STEP_CWD:
		return err_sys(err, ERR_ENV, r->errnum, "%s: cannot enter its folder %s", s->path,
		               s->spec->cwd);
	case STEP_CPUS:
		return err_set(err, ERR_ENV,
		               "%s: cannot be bound to CPUs %s: this machine does not offer all of them",
		               s->path, s->spec->cpus);
	case STEP_OUTPUT:
		return err_sys(err, ERR_ENV, r->errnum, "%s: cannot set up its output", s->path);
	case STEP_EXEC:
		if (r->errnum == ENOEXEC)
			return err_set(
				err, ERR_ENV,
				"%s: cannot be run: built for another machine, or a script without #! line",
				s->path);
		return err_sys(err, ERR_ENV, r->errnum, "%s: cannot be run", s->path);
	case STEP_NONE:
		break;
	}
	return err_set(err, ERR_BUG, "%s: start failed at an unknown step", s->path);
}

/* Signals wait during the fork, so that no handler of ours runs in the child. */
static pid_t fork_child(struct spawn *s)
{
	sigset_t every, before;
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &before);
	pid_t pid = fork();
	if (pid == 0)
		child_main(s);
	int keep = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = keep;
	return pid;
}

/* Waits for exec: the pipe closes then. False when the child reported a failure instead. */
static bool exec_done(int fd, struct spawn_report *r)
{
	ssize_t n;
	do
		n = read(fd, r, sizeof(*r));
	while (n < 0 && errno == EINTR);
	return n != sizeof(*r);
}

int proc_spawn(struct proc **out, const struct proc_spec *spec, struct err *err)
{
	struct spawn s = { .spec = spec, .parent = getpid() };
	struct spawn_report report = { 0 };
	struct proc_row row = { 0 };
	int fds[2];
	if (spec->cpus ? proc_cpus_parse(&s.cpus, spec->cpus) : (proc_cpus_original(&s.cpus), 0))
		return err_set(err, ERR_PLAN, "want a CPU list like \"0,2-3\", got \"%s\"", spec->cpus);
	if (proc_init(err))
		return -1;
	auto_free char *path = find_program(spec, err);
	if (!path)
		return -1;
	s.path = path;
	auto_free struct proc *p = calloc(1, sizeof(*p));
	if (!p || pipe2(fds, O_CLOEXEC))
		return err_sys(err, ERR_ENV, errno, "%s: cannot be started", path);
	auto_fd report_fd = fds[0];
	s.report_fd = fds[1];
	p->pid = fork_child(&s);
	int fork_errno = errno;
	close(fds[1]);
	if (p->pid < 0)
		return err_sys(err, ERR_ENV, fork_errno, "%s: cannot be started", path);
	setpgid(p->pid, p->pid); /* also here: whoever comes first; after exec it fails without harm */
	if (!exec_done(report_fd, &report)) {
		waitpid(p->pid, NULL, 0);
		return report_error(&s, &report, err);
	}
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0) {
		int errnum = errno;
		kill(-p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
		return err_sys(err, ERR_ENV, errnum, "%s: cannot be watched (needs Linux 5.4 or later)",
		               path);
	}
	fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
	if (proc_row_read(&row, p->pid))
		p->start_ticks = row.start_ticks;
	register_proc(p);
	*out = steal_ptr(&p);
	return 0;
}

pid_t proc_pid(const struct proc *p)
{
	return p->pid;
}

int proc_pidfd(const struct proc *p)
{
	return p->pidfd;
}

/* --- the end --- */

static int wait_status(const siginfo_t *si)
{
	if (si->si_code == CLD_EXITED)
		return (si->si_status & 0xff) << 8;
	return (si->si_status & 0x7f) | (si->si_code == CLD_DUMPED ? 0x80 : 0);
}

bool proc_ended(struct proc *p, int *status)
{
	siginfo_t si = { 0 };
	if (!p->ended && waitid(P_PIDFD, (id_t)p->pidfd, &si, WEXITED | WNOHANG) == 0 &&
	    si.si_pid == p->pid) {
		p->ended = true;
		p->status = wait_status(&si);
	}
	if (p->ended && status)
		*status = p->status;
	return p->ended;
}

/* A zombie of ours that cannot be reaped yet still has threads that run. */
static bool row_alive(const struct proc *p, const struct proc_row *row)
{
	if (row->state == 'X')
		return false;
	if (row->state != 'Z')
		return true;
	if (row->ppid != getpid())
		return false; /* its parent is in the tree too, or it will be ours in a moment */
	if (row->pid == p->pid || proc_registered(row->pid, NULL))
		return !p->ended;
	return waitpid(row->pid, NULL, WNOHANG) == 0;
}

/* The live processes of the tree. -1 = cannot be told. */
static int tree_alive(const struct proc *p, struct proc_table *t)
{
	size_t n = 0;
	if (proc_table_read(t))
		return -1;
	for (size_t i = 0; i < t->n; i++)
		t->rows[i].in_tree = !p->ended && t->rows[i].pid == p->pid;
	proc_table_mark_orphans(t, p->start_ticks);
	proc_table_mark_below(t);
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].in_tree && row_alive(p, &t->rows[i]))
			t->rows[n++] = t->rows[i];
	t->n = n;
	return n > INT32_MAX ? -1 : (int)n;
}

static void wait_a_little(const struct proc *p, uint64_t ns)
{
	struct pollfd pfd = { .fd = p->ended ? -1 : p->pidfd, .events = POLLIN };
	struct timespec t = { .tv_sec = 0, .tv_nsec = (long)ns };
	ppoll(&pfd, 1, &t, NULL);
}

#define KILL_NS (10 * NS_PER_S)
#define LOOK_NS (10 * NS_PER_MS)

/* Looks until the tree is gone or the time is over. `kill_each`: signals everything seen with SIGKILL, and
 * counts each process once. Returns how many are left (-1 = cannot be told). */
static int see_it_end(struct proc *p, uint64_t until_ns, bool kill_each, int *n_killed)
{
	struct proc_table seen = { 0 };
	int left;
	for (;;) {
		struct proc_table t = { 0 };
		proc_ended(p, NULL);
		left = tree_alive(p, &t);
		for (size_t i = 0; kill_each && i < t.n; i++) {
			const struct proc_row *before = proc_table_find(&seen, t.rows[i].pid);
			bool again = before && before->start_ticks == t.rows[i].start_ticks;
			if (proc_row_signal(&t.rows[i], SIGKILL) && !again)
				++*n_killed;
		}
		if (kill_each) {
			proc_table_done(&seen);
			seen = t;
		} else {
			proc_table_done(&t);
		}
		if (left == 0 || clock_now_ns() >= until_ns)
			break;
		wait_a_little(p, LOOK_NS);
	}
	proc_table_done(&seen);
	if (left < 0)
		return -1;
	return left + !p->ended;
}

static void ask_to_end(struct proc *p)
{
	struct proc_table t = { 0 };
	if (!p->ended)
		kill(-p->pid, SIGTERM); /* not reaped: the group is still ours */
	if (tree_alive(p, &t) > 0)
		for (size_t i = 0; i < t.n; i++)
			if (p->ended || t.rows[i].pgrp != p->pid)
				proc_row_signal(&t.rows[i], SIGTERM);
	proc_table_done(&t);
}

int proc_end_tree(struct proc *p, uint64_t grace_ns, int *status)
{
	int n_killed = 0, left;
	proc_ended(p, NULL);
	ask_to_end(p);
	left = see_it_end(p, clock_now_ns() + grace_ns, false, NULL);
	if (left != 0)
		left = see_it_end(p, clock_now_ns() + KILL_NS, true, &n_killed);
	proc_ended(p, status);
	return left == 0 ? n_killed : -1;
}

void proc_free(struct proc *p)
{
	if (!p)
		return;
	if (proc_end_tree(p, 0, NULL) < 0 && !p->ended)
		proc_row_signal(&(struct proc_row){ .pid = p->pid, .start_ticks = p->start_ticks }, SIGKILL);
	unregister_proc(p);
	close(p->pidfd);
	free(p);
}
