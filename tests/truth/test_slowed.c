/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is slowed on purpose must show it: in its loop lag, its send lag or its wait for a CPU, past
 * the bounds that make a cell invalid. The client is a child that hands back its result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_NS (10 * NS_PER_MS) /* the plan's defaults: p99 of send lag and of loop lag */
#define BOUND_RUNQ_PCT 20.0
#define ENGINE "--ttft-ms 5 --itl-us 2000 --slots 256 -c 2000000"

static const char *program;

struct client {
	struct engine engine;
	struct load_result *res; /* shared with the child */
	pid_t pid;
};

static void drive_in_child(struct client *c, bool busy_poll)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct drive *d = drive_new(&c->engine, 600, 0, 0);
	if (!d)
		_exit(3);
	d->spec.arrival = ARRIVAL_CONSTANT;
	d->spec.busy_poll = busy_poll;
	d->step_ns = 2 * NS_PER_MS;
	int rc = drive_run(d);
	*c->res = d->res;
	_exit(rc == 0 && d->n == 600 ? 0 : 4);
}

static struct client *start(bool busy_poll)
{
	struct client *c = calloc(1, sizeof *c);
	assert_non_null(c);
	c->res = mmap(NULL, sizeof *c->res, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(c->res != MAP_FAILED);
	if (engine_start(&c->engine, program, ENGINE) < 0)
		fail_msg("does not serve");
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0)
		drive_in_child(c, busy_poll);
	return c;
}

static bool has_ended(struct client *c, int *status)
{
	return waitpid(c->pid, status, WNOHANG) == c->pid;
}

static void finish(struct client *c)
{
	munmap(c->res, sizeof *c->res);
	engine_stop(&c->engine);
	engine_free(&c->engine);
	free(c);
}

static double runq_pct(const struct load_result *r)
{
	return r->runq_wait_ns == REC_NONE ? -1 : 100.0 * (double)r->runq_wait_ns / (double)r->wall_ns;
}

static void show(const char *name, const struct load_result *r)
{
	print_message("# %s: loop lag p99 %.1f ms, send lag p99 %.1f ms, waited for a CPU %.1f %%\n", name,
	              (double)r->loop_lag_p99_ns / 1e6, (double)r->send_lag_p99_ns / 1e6, runq_pct(r));
}

static bool is_past_a_bound(const struct load_result *r)
{
	return r->loop_lag_p99_ns > BOUND_NS || r->send_lag_p99_ns > BOUND_NS || runq_pct(r) > BOUND_RUNQ_PCT;
}

static void stop_pulses_show_in_the_lags(void **state)
{
	struct client *c = start(false);
	int status = -1;
	usleep(100 * 1000);
	while (!has_ended(c, &status)) {
		kill(c->pid, SIGSTOP);
		usleep(60 * 1000);
		kill(c->pid, SIGCONT);
		usleep(60 * 1000);
	}
	assert_int_equal(status, 0);
	show("stopped half of the time", c->res);
	assert_true(c->res->loop_lag_p99_ns > BOUND_NS);
	assert_true(c->res->send_lag_p99_ns > BOUND_NS);
	finish(c);
}

/* --- a CPU shared with others -------------------------------------------------------------------------- */

static int bind_to(pid_t pid, int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(pid, sizeof set, &set);
}

static pid_t start_hog(int cpu)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bind_to(0, cpu);
	for (volatile uint64_t x = 0;; x++)
		;
}

static void a_shared_cpu_shows_in_the_wait_for_it(void **state)
{
	struct client *c = start(true);
	int cpu = sched_getcpu(), status = -1;
	pid_t hogs[3];
	bind_to(c->pid, cpu);
	for (size_t i = 0; i < 3; i++)
		hogs[i] = start_hog(cpu);
	waitpid(c->pid, &status, 0);
	for (size_t i = 0; i < 3; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	assert_int_equal(status, 0);
	show("one CPU with three others", c->res);
	bool known = c->res->runq_wait_ns != REC_NONE, past = runq_pct(c->res) > BOUND_RUNQ_PCT;
	finish(c);
	if (!known) {
		print_message("# skipped: this kernel does not count the wait for a CPU\n");
		skip();
	}
	assert_true(past);
}

/* --- a CPU quota --------------------------------------------------------------------------------------- */

static int write_text(const char *dir, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? write(fd, text, strlen(text)) : -1;
	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* 5 ms of each 100 ms. A group of our own under cgroup v2, or under the cpu controller of v1; "" = neither
 * can be made. */
static void make_group(char dir[128])
{
	snprintf(dir, 128, "/sys/fs/cgroup/proofmark-test-%d", (int)getpid());
	if (mkdir(dir, 0755) == 0 && write_text(dir, "cpu.max", "5000 100000") == 0)
		return;
	rmdir(dir);
	snprintf(dir, 128, "/sys/fs/cgroup/cpu/proofmark-test-%d", (int)getpid());
	if (mkdir(dir, 0755) == 0 && write_text(dir, "cpu.cfs_period_us", "100000") == 0 &&
	    write_text(dir, "cpu.cfs_quota_us", "5000") == 0)
		return;
	rmdir(dir);
	dir[0] = '\0';
}

static void a_cpu_quota_shows(void **state)
{
	char dir[128], pid[32];
	int status = -1;
	make_group(dir);
	if (!dir[0]) {
		print_message(
			"# skipped: no cgroup with a CPU quota can be made here (root, and a writable cpu "
			"controller)\n");
		skip();
	}
	struct client *c = start(true);
	snprintf(pid, sizeof pid, "%d", (int)c->pid);
	int rc = write_text(dir, "cgroup.procs", pid);
	waitpid(c->pid, &status, 0);
	rmdir(dir);
	assert_int_equal(rc, 0);
	assert_int_equal(status, 0);
	show("5 % of a CPU", c->res);
	assert_true(is_past_a_bound(c->res));
	finish(c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stop_pulses_show_in_the_lags),
		cmocka_unit_test(a_shared_cpu_shows_in_the_wait_for_it),
		cmocka_unit_test(a_cpu_quota_shows),
	};
	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests_name("slowed", tests, NULL, NULL);
}
