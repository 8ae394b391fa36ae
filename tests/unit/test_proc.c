/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const path_only[] = { "PATH=/usr/bin:/bin", NULL };

static struct proc_spec sh_spec(const char *argv[4], const char *script, int out_fd)
{
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = script;
	argv[3] = NULL;
	return (struct proc_spec){
		.argv = argv, .envp = path_only, .out_fd = out_fd, .die_with_parent = true
	};
}

static int new_output(void)
{
	int fd = memfd_create("out", MFD_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static struct proc *start(const struct proc_spec *spec)
{
	struct err err = { 0 };
	struct proc *p = NULL;
	int rc = proc_spawn(&p, spec, &err);
	if (rc)
		print_message("%s\n", err.msg);
	assert_int_equal(rc, 0);
	return p;
}

static int test_pid;

/* "71717.N" marks the processes of a test; on a machine with other runs of it they carry our pid too. */
static void own_marks(char *out, size_t size, const char *text)
{
	size_t n = 0;
	for (const char *at; (at = strstr(text, "71717.")) && n < size; text = at + 6)
		n += (size_t)snprintf(out + n, size - n, "%.*s71717%d.", (int)(at - text), text, test_pid);
	assert_true(n < size);
	snprintf(out + n, size - n, "%s", text);
}

static struct proc *start_sh(const char *script, int out_fd)
{
	const char *argv[4];
	char own[1024];
	own_marks(own, sizeof(own), script);
	struct proc_spec spec = sh_spec(argv, own, out_fd);
	return start(&spec);
}

/* Waits by pidfd, at most 10 s. */
static int wait_end(struct proc *p)
{
	struct pollfd pfd = { .fd = proc_pidfd(p), .events = POLLIN };
	int status = -1;
	assert_int_equal(poll(&pfd, 1, 10000), 1);
	assert_true(proc_ended(p, &status));
	return status;
}

static void read_output(int fd, char *text, size_t size)
{
	ssize_t n = pread(fd, text, size - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
}

static void output_of(const struct proc_spec *spec, char *text, size_t size)
{
	struct proc *p = start(spec);
	wait_end(p);
	proc_free(p);
	read_output(spec->out_fd, text, size);
}

static void wait_for_output(int fd, const char *want)
{
	char text[4096];
	for (int i = 0; i < 1000; i++) {
		read_output(fd, text, sizeof(text));
		if (strstr(text, want))
			return;
		usleep(10000);
	}
	fail_msg("no \"%s\" in the output", want);
}

static bool cmdline_has(const char *pid, const char *mark)
{
	char path[300], text[4096], own[64];
	own_marks(own, sizeof(own), mark);
	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
	if (fd >= 0)
		close(fd);
	return n > 0 && memmem(text, (size_t)n, own, strlen(own));
}

/* Live processes whose command line holds `mark`. */
static int count_marked(const char *mark)
{
	struct dirent *d;
	int n = 0;
	DIR *dir = opendir("/proc");
	assert_non_null(dir);
	while ((d = readdir(dir)))
		n += isdigit((unsigned char)d->d_name[0]) && atoi(d->d_name) != getpid() &&
		     cmdline_has(d->d_name, mark);
	closedir(dir);
	return n;
}

static void wait_marked(const char *mark, int n)
{
	for (int i = 0; i < 1000 && count_marked(mark) != n; i++)
		usleep(10000);
	assert_int_equal(count_marked(mark), n);
}

/* --- the child's world --- */

static void child_gets_exactly_the_environment_given(void **state)
{
	const char *const argv[] = { "/usr/bin/env", NULL }, *const envp[] = { "A=1", "B=two words", NULL };
	char text[4096];
	auto_fd out = new_output();
	struct proc_spec spec = { .argv = argv, .envp = envp, .out_fd = out };
	setenv("SECRET_OF_OURS", "x", 1);
	output_of(&spec, text, sizeof(text));
	assert_string_equal(text, "A=1\nB=two words\n");
}

static void both_outputs_go_to_the_file_and_stdin_is_empty(void **state)
{
	const char *argv[4];
	char text[4096];
	auto_fd out = new_output();
	struct proc_spec spec = sh_spec(argv, "echo one; echo two >&2; cat; echo three", out);
	output_of(&spec, text, sizeof(text));
	assert_string_equal(text, "one\ntwo\nthree\n");
}

static void no_descriptor_of_ours_is_inherited(void **state)
{
	const char *argv[4];
	char text[4096];
	auto_fd out = new_output();
	int leak = dup2(out, 57); /* without O_CLOEXEC on purpose */
	assert_int_equal(leak, 57);
	struct proc_spec spec = sh_spec(argv, "for f in /proc/$$/fd/*; do echo ${f##*/}; done", out);
	output_of(&spec, text, sizeof(text));
	close(leak);
	assert_int_equal(strncmp(text, "0\n1\n2\n", 6), 0);
	assert_null(strstr(text, "57\n"));
}

static void signal_settings_of_ours_do_not_reach_the_child(void **state)
{
	const char *argv[4];
	char text[4096];
	auto_fd out = new_output();
	sigset_t block, before;
	void (*old)(int) = signal(SIGPIPE, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &before);
	struct proc_spec spec = sh_spec(argv, "grep -E 'SigIgn|SigBlk' /proc/self/status", out);
	output_of(&spec, text, sizeof(text));
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, old);
	assert_string_equal(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static void child_leads_its_own_group_in_the_folder_asked_for(void **state)
{
	const char *argv[4];
	char text[4096], want[64];
	auto_fd out = new_output();
	struct proc_spec spec = sh_spec(argv, "pwd; cut -d' ' -f5 /proc/$$/stat", out);
	spec.cwd = "/usr";
	struct proc *p = start(&spec);
	snprintf(want, sizeof(want), "/usr\n%d\n", (int)proc_pid(p));
	wait_end(p);
	proc_free(p);
	read_output(out, text, sizeof(text));
	assert_string_equal(text, want);
}

static void program_without_slash_is_found_on_the_childs_path(void **state)
{
	const char *const argv[] = { "true", NULL }, *const envp[] = { "PATH=/nowhere::/usr/bin:/bin", NULL };
	auto_fd out = new_output();
	struct proc_spec spec = { .argv = argv, .envp = envp, .out_fd = out };
	struct proc *p = start(&spec);
	assert_int_equal(wait_end(p), 0);
	proc_free(p);
}

static void failed_start_says_why(void **state)
{
	static const struct {
		const char *program, *path, *cwd, *cpus, *want;
		enum err_class cls;
	} cases[] = {
		{ "no-such-program", "PATH=/usr/bin", NULL, NULL, "no-such-program: not found on the PATH",
		  ERR_ENV },
		{ "/no/such/program", "PATH=", NULL, NULL, "No such file or directory", ERR_ENV },
		{ "/usr", "PATH=", NULL, NULL, "Permission denied", ERR_ENV },
		{ "/etc/passwd", "PATH=", NULL, NULL, "Permission denied", ERR_ENV },
		{ "/bin/true", "PATH=", "/no/such/folder", NULL, "cannot enter its folder /no/such/folder",
		  ERR_ENV },
		{ "/bin/true", "PATH=", NULL, "1000", "does not offer all of them", ERR_ENV },
		{ "/bin/true", "PATH=", NULL, "0,1000", "does not offer all of them", ERR_ENV },
		{ "/bin/true", "PATH=", NULL, "0-", "want a CPU list", ERR_PLAN },
	};
	auto_fd out = new_output();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const argv[] = { cases[i].program, NULL }, *const envp[] = { cases[i].path,
			                                                                 NULL };
		struct proc_spec spec = {
			.argv = argv, .envp = envp, .cwd = cases[i].cwd, .cpus = cases[i].cpus, .out_fd = out
		};
		struct err err = { 0 };
		struct proc *p = NULL;
		assert_int_equal(proc_spawn(&p, &spec, &err), -1);
		assert_null(p);
		assert_int_equal(err.cls, cases[i].cls);
		if (!strstr(err.msg, cases[i].want))
			fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.msg, cases[i].want);
	}
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie left */
}

static void file_that_is_no_program_is_named_so(void **state)
{
	char path[] = "/tmp/test_proc_XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd,
	                       "\x7f"
	                       "ELFxx",
	                       6),
	                 6);
	fchmod(fd, 0755);
	close(fd);
	const char *const argv[] = { path, NULL };
	auto_fd out = new_output();
	struct proc_spec spec = { .argv = argv, .envp = path_only, .out_fd = out };
	struct err err = { 0 };
	struct proc *p = NULL;
	assert_int_equal(proc_spawn(&p, &spec, &err), -1);
	assert_non_null(strstr(err.msg, "built for another machine"));
	unlink(path);
}

static void status_is_that_of_waitpid(void **state)
{
	static const struct {
		const char *script;
		int exit, sig;
	} cases[] = {
		{ "exit 0", 0, 0 }, { "exit 7", 7, 0 }, { "kill -9 $$", 0, 9 }, { "kill -ILL $$", 0, SIGILL }
	};
	auto_fd out = new_output();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proc *p = start_sh(cases[i].script, out);
		int status = wait_end(p);
		assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, cases[i].sig);
		assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : 0, cases[i].exit);
		proc_free(p);
	}
}

/* --- CPUs --- */

static void cpu_lists_are_counted_or_refused(void **state)
{
	static const struct {
		const char *text;
		int n;
	} cases[] = { { "0", 1 },     { "0,2-3", 3 }, { "0-1023", 1024 },
		      { "3,3,3", 1 }, { "", -1 },     { "a", -1 },
		      { "1,", -1 },   { ",1", -1 },   { "2-1", -1 },
		      { "1-", -1 },   { "1024", -1 }, { "0 1", -1 },
		      { "-1", -1 },   { "0--1", -1 }, { "99999999999999999999", -1 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (proc_cpus_count(cases[i].text) != cases[i].n)
			fail_msg("\"%s\": got %d", cases[i].text, proc_cpus_count(cases[i].text));
}

static int first_cpu(void)
{
	cpu_set_t set;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET(c, &set))
			return c;
	return -1;
}

static void allowed_of_child(char *text, size_t size, const char *cpus)
{
	const char *argv[4];
	auto_fd out = new_output();
	struct proc_spec spec = sh_spec(argv, "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status", out);
	spec.cpus = cpus;
	output_of(&spec, text, size);
}

static void child_runs_on_the_cpus_asked_for(void **state)
{
	char cpu[16], text[256], want[32];
	snprintf(cpu, sizeof(cpu), "%d", first_cpu());
	snprintf(want, sizeof(want), "%s\n", cpu);
	allowed_of_child(text, sizeof(text), cpu);
	assert_string_equal(text, want);
}

static void binding_ourselves_does_not_bind_the_child(void **state)
{
	cpu_set_t before, after;
	char cpu[16], unbound[256], text[256];
	struct err err = { 0 };
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	allowed_of_child(unbound, sizeof(unbound), NULL);
	snprintf(cpu, sizeof(cpu), "%d", first_cpu());
	assert_int_equal(proc_bind_self(cpu, &err), 0);
	allowed_of_child(text, sizeof(text), NULL);
	assert_string_equal(text, unbound);
	assert_int_equal(proc_bind_self("0,1023", &err), -1);
	assert_int_equal(err.cls, ERR_ENV);
	assert_int_equal(proc_bind_self("x", &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	sched_setaffinity(0, sizeof(before), &before);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
}

/* --- the end of a tree --- */

static void child_that_obeys_is_not_killed(void **state)
{
	auto_fd out = new_output();
	int status = 0;
	struct proc *p = start_sh("trap 'kill $!; exit 5' TERM; sleep 1000 & echo up; wait", out);
	wait_for_output(out, "up");
	uint64_t t = clock_now_ns();
	assert_int_equal(proc_end_tree(p, 8 * NS_PER_S, &status), 0);
	assert_true(clock_now_ns() - t < 4 * NS_PER_S);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 5);
	assert_int_equal(proc_end_tree(p, NS_PER_S, &status), 0); /* again: nothing left to do */
	proc_free(p);
}

static void child_that_ignores_sigterm_is_killed_after_its_grace(void **state)
{
	auto_fd out = new_output();
	int status = 0;
	struct proc *p = start_sh("trap '' TERM; sleep 71717.1 & sleep 71717.1 & echo up; wait", out);
	wait_for_output(out, "up");
	wait_marked("71717.1", 3);
	uint64_t t = clock_now_ns();
	assert_int_equal(proc_end_tree(p, 300 * NS_PER_MS, &status), 3);
	assert_true(clock_now_ns() - t >= 300 * NS_PER_MS);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(count_marked("71717.1"), 0);
	proc_free(p);
}

static void stopped_child_is_ended(void **state)
{
	auto_fd out = new_output();
	struct proc *p = start_sh("echo up; kill -STOP $$; sleep 1000", out);
	wait_for_output(out, "up");
	assert_true(proc_end_tree(p, 200 * NS_PER_MS, NULL) >= 0);
	assert_true(proc_ended(p, NULL));
	proc_free(p);
}

#define DAEMON "(setsid sh -c '(trap \"\" TERM; sleep 71717.2) & exit' &); "

static void daemon_in_its_own_session_is_in_the_tree_and_ended(void **state)
{
	auto_fd out = new_output();
	struct proc *p = start_sh(DAEMON "sleep 1000 & echo up; wait", out);
	size_t n = 0, in_tree = 0;
	wait_for_output(out, "up");
	for (int i = 0; i < 500 && count_marked("71717.2") < 2; i++)
		usleep(10000);
	usleep(100000);
	pid_t *tree = proc_tree(proc_pid(p), &n);
	assert_non_null(tree);
	for (size_t i = 0; i < n; i++) {
		char pid[16];
		snprintf(pid, sizeof(pid), "%d", (int)tree[i]);
		in_tree += cmdline_has(pid, "71717.2");
	}
	assert_int_equal(in_tree, count_marked("71717.2"));
	free(tree);
	assert_true(proc_end_tree(p, 200 * NS_PER_MS, NULL) >= 1);
	assert_int_equal(count_marked("71717.2"), 0);
	proc_free(p);
}

static void daemon_outlives_its_starter_but_not_the_end(void **state)
{
	auto_fd out = new_output();
	struct proc *p = start_sh(DAEMON "sleep 0.3; exit 3", out);
	int status = 0;
	assert_int_equal(WEXITSTATUS(wait_end(p)), 3);
	assert_true(count_marked("71717.2") > 0);
	assert_true(proc_end_tree(p, 100 * NS_PER_MS, &status) >= 1);
	assert_int_equal(count_marked("71717.2"), 0);
	assert_int_equal(WEXITSTATUS(status), 3); /* still the child's own */
	proc_free(p);
}

static void processes_that_are_not_below_are_spared(void **state)
{
	auto_fd out = new_output();
	pid_t before = fork();
	if (before == 0)
		for (;;)
			pause();
	struct proc *p = start_sh("trap '' TERM; sleep 1000 & wait", out);
	struct proc *other = start_sh("echo other; sleep 1000", out);
	pid_t after = fork();
	if (after == 0)
		for (;;)
			pause();
	wait_for_output(out, "other");
	assert_true(proc_end_tree(p, 50 * NS_PER_MS, NULL) >= 0);
	assert_int_equal(waitpid(before, NULL, WNOHANG), 0);
	assert_int_equal(waitpid(after, NULL, WNOHANG), 0);
	assert_false(proc_ended(other, NULL));
	proc_free(p);
	proc_free(other);
	kill(before, SIGKILL);
	kill(after, SIGKILL);
	assert_int_equal(waitpid(before, NULL, 0), before);
	assert_int_equal(waitpid(after, NULL, 0), after);
}

static void freeing_ends_what_still_runs(void **state)
{
	auto_fd out = new_output();
	struct proc *p = start_sh("sleep 71717.3 & sleep 71717.3", out);
	wait_marked("71717.3", 3);
	proc_free(p);
	assert_int_equal(count_marked("71717.3"), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void child_dies_with_a_runner_that_is_killed(void **state)
{
	auto_fd out = new_output();
	pid_t runner = fork();
	if (runner == 0) {
		start_sh("echo up; exec sleep 71717.4", out);
		for (;;)
			pause();
	}
	wait_for_output(out, "up");
	wait_marked("71717.4", 1);
	kill(runner, SIGKILL);
	assert_int_equal(waitpid(runner, NULL, 0), runner);
	wait_marked("71717.4", 0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(child_gets_exactly_the_environment_given),
		cmocka_unit_test(both_outputs_go_to_the_file_and_stdin_is_empty),
		cmocka_unit_test(no_descriptor_of_ours_is_inherited),
		cmocka_unit_test(signal_settings_of_ours_do_not_reach_the_child),
		cmocka_unit_test(child_leads_its_own_group_in_the_folder_asked_for),
		cmocka_unit_test(program_without_slash_is_found_on_the_childs_path),
		cmocka_unit_test(failed_start_says_why),
		cmocka_unit_test(file_that_is_no_program_is_named_so),
		cmocka_unit_test(status_is_that_of_waitpid),
		cmocka_unit_test(cpu_lists_are_counted_or_refused),
		cmocka_unit_test(child_runs_on_the_cpus_asked_for),
		cmocka_unit_test(binding_ourselves_does_not_bind_the_child),
		cmocka_unit_test(child_that_obeys_is_not_killed),
		cmocka_unit_test(child_that_ignores_sigterm_is_killed_after_its_grace),
		cmocka_unit_test(stopped_child_is_ended),
		cmocka_unit_test(daemon_in_its_own_session_is_in_the_tree_and_ended),
		cmocka_unit_test(daemon_outlives_its_starter_but_not_the_end),
		cmocka_unit_test(processes_that_are_not_below_are_spared),
		cmocka_unit_test(freeing_ends_what_still_runs),
		cmocka_unit_test(child_dies_with_a_runner_that_is_killed),
	};
	test_pid = (int)getpid();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
