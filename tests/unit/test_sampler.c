/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/json_in.h"
#include "telemetry/sampler.h"
#include "telemetry/sources.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { READINGS_MAX = 16, CHILD_BYTES = 64 << 20 };

static const struct telemetry_reading *named(const struct telemetry_reading *r, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(r[i].name, name) == 0)
			return &r[i];
	static const struct telemetry_reading none;
	fail_msg("no reading %s", name);
	return &none;
}

/* A parent and its child, which holds CHILD_BYTES and burns some CPU. */
static pid_t start_engine(void)
{
	int ready[2];
	char byte = 0;
	assert_int_equal(pipe2(ready, 0), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			volatile char *p = malloc(CHILD_BYTES);
			for (size_t i = 0; p && i < CHILD_BYTES; i += 512)
				p[i] = (char)(i | 1);
			while (clock_cpu_self_ns() < 30 * NS_PER_MS)
				p[0]++;
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
		}
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* The child dies by its own parent's group. */
static void end_engine(pid_t pid)
{
	char path[64], text[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	telemetry_slurp(path, text, sizeof(text));
	pid_t child = (pid_t)strtol(text, NULL, 10);
	if (child > 1)
		kill(child, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void sums_memory_and_cpu_over_the_process_tree(void **state)
{
	struct telemetry_reading r[READINGS_MAX];
	void *cpu = NULL;
	struct err err = { 0 };
	struct telemetry_target t = { .engine_pid = start_engine() };
	size_t n = telemetry_proc.read(NULL, &t, r, READINGS_MAX);
	const struct telemetry_reading *pss = named(r, n, "engine_pss_bytes"),
				       *rss = named(r, n, "engine_rss_bytes"),
				       *processes = named(r, n, "engine_processes");
	bool memory_ok = pss->known && pss->value >= CHILD_BYTES && rss->known && rss->value >= pss->value &&
	                 rss->value < 10.0 * CHILD_BYTES && processes->known && processes->value > 1.5 &&
	                 processes->value < 2.5;
	assert_int_equal(telemetry_cpu.open(&cpu, &err), 0);
	n = telemetry_cpu.read(cpu, &t, r, READINGS_MAX);
	const struct telemetry_reading *ns = named(r, n, "engine_cpu_ns");
	bool cpu_ok = ns->known && ns->value >= 10.0 * NS_PER_MS && ns->value < 100.0 * NS_PER_S;
	bool first_unknown = !named(r, n, "host_cpu_busy_share")->known;
	telemetry_cpu.close(cpu);
	end_engine(t.engine_pid);
	assert_true(memory_ok);
	assert_true(cpu_ok);
	assert_true(first_unknown);
}

static void an_engine_that_is_not_there_is_unknown(void **state)
{
	static const char *const engine_names[] = { "engine_pss_bytes", "engine_rss_bytes",
		                                    "engine_processes", "cgroup_memory_bytes",
		                                    "engine_cpu_ns" };
	pid_t gone = fork();
	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	pid_t pids[] = { 0, gone };
	for (size_t k = 0; k < ARRAY_LEN(pids); k++) {
		struct telemetry_target t = { .engine_pid = pids[k] };
		size_t seen = 0;
		for (const struct telemetry_source *const *s = telemetry_sources; *s; s++) {
			struct telemetry_reading r[READINGS_MAX];
			void *st = NULL;
			struct err err = { 0 };
			assert_int_equal((*s)->open ? (*s)->open(&st, &err) : 0, 0);
			size_t n = (*s)->read(st, &t, r, READINGS_MAX);
			for (size_t i = 0; i < n; i++)
				for (size_t j = 0; j < ARRAY_LEN(engine_names); j++)
					if (strcmp(r[i].name, engine_names[j]) == 0) {
						assert_false(r[i].known);
						seen++;
					}
			if (st)
				(*s)->close(st);
		}
		assert_int_equal(seen, ARRAY_LEN(engine_names));
	}
}

static void machine_memory_adds_up(void **state)
{
	struct telemetry_reading r[READINGS_MAX];
	struct telemetry_target t = { 0 };
	size_t n = telemetry_meminfo.read(NULL, &t, r, READINGS_MAX);
	const struct telemetry_reading *available = named(r, n, "host_available_bytes"),
				       *used = named(r, n, "host_used_bytes");
	double total = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	assert_true(available->known && used->known && available->value > 0 && used->value > 0);
	assert_true(available->value + used->value > 0.5 * total &&
	            available->value + used->value < 1.5 * total);
}

static void finds_a_size_only_by_its_whole_key(void **state)
{
	uint64_t bytes = 0;
	static const char text[] = "Head\nSwapPss: 7 kB\nPss:     12 kB\nPss_Dirty: 3 kB\n";
	assert_true(telemetry_kib(text, "Pss:", &bytes));
	assert_int_equal(bytes, 12 * 1024);
	assert_false(telemetry_kib(text, "Rss:", &bytes));
	assert_false(telemetry_kib("Pss: x", "Pss:", &bytes));
	assert_false(telemetry_kib("Pss: 99999999999999999999", "Pss:", &bytes));
}

/* --- the thread ---------------------------------------------------------------------------------------- */

struct seen {
	pthread_mutex_t lock;
	pthread_t thread;
	size_t n_lines, n_rounds, n_bad, n_in_load, n_no_phase;
	uint64_t t_ns[1000]; /* of each round */
};

static void take_line(void *ctx, const char *line, size_t len)
{
	struct seen *s = ctx;
	auto_json doc = NULL;
	struct err err = { 0 };
	uint64_t t = 0;
	bool ok = json_parse(&doc, line, len, "line", JSON_STRICT, NULL, &err) == 0 &&
	          json_u64(doc, "t_ns", &t) && json_str(doc, "name") && json_str(doc, "source") &&
	          json_get(doc, "value") && !memchr(line, '\n', len);
	const char *phase = json_str(doc, "phase"), *name = json_str(doc, "name");
	pthread_mutex_lock(&s->lock);
	s->thread = pthread_self();
	s->n_bad += !ok;
	s->n_lines++;
	s->n_in_load += phase && strcmp(phase, "load") == 0;
	s->n_no_phase += !phase;
	if (ok && strcmp(name, "host_used_bytes") == 0 && s->n_rounds < ARRAY_LEN(s->t_ns))
		s->t_ns[s->n_rounds++] = t;
	pthread_mutex_unlock(&s->lock);
}

static size_t rounds(struct seen *s)
{
	pthread_mutex_lock(&s->lock);
	size_t n = s->n_rounds;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void wait_for_rounds(struct seen *s, size_t n)
{
	for (unsigned i = 0; rounds(s) < n && i < 10000; i++)
		usleep(1000);
	assert_true(rounds(s) >= n);
}

static void reads_at_the_period_and_tells_the_phase(void **state)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct sampler *s = NULL;
	struct err err = { 0 };
	struct telemetry_target t = { .engine_pid = getpid() };
	struct sampler_spec spec = { .period_ns = 10 * NS_PER_MS,
		                     .origin_ns = clock_now_ns(),
		                     .line = take_line,
		                     .ctx = &seen,
		                     .cpus = "0" };
	if (sampler_start(&s, &spec, &err))
		fail_msg("%s", err.msg);
	wait_for_rounds(&seen, 3);
	sampler_target(s, &t);
	sampler_phase(s, "load");
	wait_for_rounds(&seen, 12);
	sampler_stop(s);
	assert_int_equal(seen.n_bad, 0);
	assert_true(seen.n_in_load > 0 && seen.n_no_phase > 0);
	for (size_t i = 1; i < seen.n_rounds; i++)
		assert_true(seen.t_ns[i] > seen.t_ns[i - 1]);
	assert_false(pthread_equal(seen.thread, pthread_self()));
}

static void stops_at_once_with_a_last_reading(void **state)
{
	struct seen seen = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct sampler *s = NULL;
	struct err err = { 0 };
	struct sampler_spec spec = { .period_ns = 3600 * NS_PER_S, .line = take_line, .ctx = &seen };
	uint64_t begun = clock_now_ns();
	assert_int_equal(sampler_start(&s, &spec, &err), 0);
	wait_for_rounds(&seen, 1);
	sampler_stop(s);
	assert_int_equal(seen.n_rounds, 2);
	assert_true(clock_now_ns() - begun < 60 * NS_PER_S);
	sampler_stop(NULL);
	assert_int_equal(sampler_start(&s, &(struct sampler_spec){ .line = take_line }, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_memory_and_cpu_over_the_process_tree),
		cmocka_unit_test(an_engine_that_is_not_there_is_unknown),
		cmocka_unit_test(machine_memory_adds_up),
		cmocka_unit_test(finds_a_size_only_by_its_whole_key),
		cmocka_unit_test(reads_at_the_period_and_tells_the_phase),
		cmocka_unit_test(stops_at_once_with_a_last_reading),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
