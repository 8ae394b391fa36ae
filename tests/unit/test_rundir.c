/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_in.h"
#include "store/fault.h"
#include "store/rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- a folder a test -------------------------------------------------------------------------------------
 */

static int empty_folder(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
			unlinkat(dirfd(dir), e->d_name, 0);
	return dir ? closedir(dir) : -1;
}

static int make_folder(void **state)
{
	char *path = strdup("/tmp/test_rundir.XXXXXX");
	*state = path ? mkdtemp(path) : NULL;
	unsetenv("PROOFMARK_FAULT");
	store_fault_reset();
	return *state ? 0 : -1;
}

static int drop_folder(void **state)
{
	empty_folder(*state);
	int rc = rmdir(*state);
	free(*state);
	return rc;
}

static void set_fault(const char *text)
{
	if (text)
		setenv("PROOFMARK_FAULT", text, 1);
	else
		unsetenv("PROOFMARK_FAULT");
	store_fault_reset();
}

static struct rundir *create(const char *path)
{
	struct rundir *d = NULL;
	struct err err = { 0 };
	if (rundir_create(&d, path, clock_now_ns(), &err))
		fail_msg("%s", err.msg);
	return d;
}

static void add_event(struct rundir *d, const char *ev, uint64_t n)
{
	struct json_out *o = rundir_event(d, ev);
	jo_u64(o, "n", n);
	rundir_event_end(d);
}

static int add_row(struct rundir *d, uint64_t n, uint64_t *i)
{
	struct record r;
	uint8_t tokens[64];
	size_t len = 0;
	record_init(&r);
	snprintf(r.cell, sizeof(r.cell), "chat/32in/16out/c1");
	r.kind = REC_LOAD;
	r.outcome = OUTCOME_OK;
	r.http = 200;
	r.due_ns = r.sent_ns = n * 1000;
	r.tok_n = n % 5 + 1;
	for (uint64_t t = 0; t < r.tok_n; t++)
		len += leb128_put(tokens + len, n * 7 + t);
	int rc = rundir_record(d, &r, tokens, len);
	*i = r.i;
	return rc;
}

/* --- reading back ----------------------------------------------------------------------------------------
 */

struct seen {
	uint64_t n_events, n_rows, n_telemetry, n_controls;
	bool disk_full, run_end;
};

static uint64_t whole_lines(const struct member_set *set, const char *name,
                            void (*take)(struct seen *s, const struct member_set *set, const char *line,
                                         size_t len, uint64_t i),
                            struct seen *s)
{
	const struct member *m = member_find(set, name);
	uint64_t n = 0;
	if (!m)
		return 0;
	const char *p = (const char *)m->data, *end = p + m->len;
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl) /* a kill inside a write leaves a cut line, which a reader leaves out */
			return n;
		if (take)
			take(s, set, p, (size_t)(nl - p), n);
		n++;
		p = nl + 1;
	}
	return n;
}

static void take_row(struct seen *s, const struct member_set *set, const char *line, size_t len, uint64_t i)
{
	struct record r;
	struct err err = { 0 };
	const struct member *t = member_find(set, "tokens.bin");
	if (record_read(&r, line, len, "requests.jsonl", i + 1, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(r.i, i);
	assert_true(r.tok_off + r.tok_bytes <= t->len); /* never a line without its bytes */
	const uint8_t *p = t->data + r.tok_off;
	for (uint64_t k = 0, left = r.tok_bytes; k < r.tok_n; k++) {
		uint64_t v;
		size_t used = leb128_get(p, left, &v);
		assert_true(used > 0);
		assert_int_equal(v, r.sent_ns / 1000 * 7 + k);
		p += used;
		left -= used;
	}
}

static void take_event(struct seen *s, const struct member_set *set, const char *line, size_t len, uint64_t i)
{
	auto_json doc = NULL;
	struct err err = { 0 };
	uint64_t seq;
	if (json_parse(&doc, line, len, "events.jsonl", JSON_STRICT, NULL, &err))
		fail_msg("%s", err.msg);
	assert_true(json_u64(doc, "seq", &seq));
	assert_int_equal(seq, i);
	s->disk_full |= strcmp(json_str(doc, "ev"), "disk_full") == 0;
	s->run_end |= strcmp(json_str(doc, "ev"), "run_end") == 0;
}

static void look(struct seen *s, const char *path)
{
	struct member_set set = { 0 };
	struct err err = { 0 };
	*s = (struct seen){ 0 };
	if (rundir_load(&set, path, &err))
		fail_msg("%s", err.msg);
	s->n_events = whole_lines(&set, "events.jsonl", take_event, s);
	s->n_rows = whole_lines(&set, "requests.jsonl", take_row, s);
	s->n_telemetry = whole_lines(&set, "telemetry.jsonl", NULL, s);
	s->n_controls = whole_lines(&set, "controls.jsonl", NULL, s);
	member_set_done(&set);
}

/* --- tests -----------------------------------------------------------------------------------------------
 */

static void writes_what_it_was_given(void **state)
{
	struct seen s;
	struct err err = { 0 };
	struct stat st;
	struct rundir *d = create(*state);
	assert_int_equal(fstatat(rundir_fd(d), ".reserve", &st, 0), 0);
	assert_int_equal(st.st_size, RUNDIR_RESERVE_BYTES);
	assert_true(st.st_blocks * 512 >= RUNDIR_RESERVE_BYTES);
	assert_int_equal(rundir_write(d, "plan.json", "{}", 2, &err), 0);
	add_event(d, "run_begin", 1);
	for (uint64_t n = 0, i = 0; n < 20000; n++) {
		assert_int_equal(add_row(d, n, &i), 0);
		assert_int_equal(i, n);
	}
	assert_int_equal(rundir_line(d, "controls.jsonl", "{\"i\":0}", 7), 0);
	look(&s, *state);
	assert_int_equal(s.n_controls, 1); /* at once */
	assert_int_equal(rundir_line(d, "telemetry.jsonl", "{}", 2), 0);
	assert_int_equal(write(rundir_log_fd(d), "x\n", 2), 2);
	add_event(d, "run_end", 2);
	assert_false(rundir_full(d));
	rundir_close(d);
	look(&s, *state);
	assert_int_equal(s.n_rows, 20000);
	assert_int_equal(s.n_events, 2);
	assert_int_equal(s.n_telemetry, 1);
	auto_free char *reserve = fs_join(*state, ".reserve");
	assert_int_equal(access(reserve, F_OK), -1);
}

static void refuses_a_folder_that_is_not_empty(void **state)
{
	struct rundir *d = create(*state);
	struct err err = { 0 };
	rundir_close(d);
	d = NULL;
	assert_int_equal(rundir_create(&d, *state, 0, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	assert_null(d);
}

static void refuses_links_and_odd_files(void **state)
{
	struct member_set set = { 0 };
	struct err err = { 0 };
	auto_free char *link_path = fs_join(*state, "facts.json");
	auto_free char *fifo = fs_join(*state, "engine.log");
	assert_int_equal(symlink("/etc/hostname", link_path), 0);
	assert_int_equal(rundir_load(&set, *state, &err), -1);
	assert_non_null(strstr(err.msg, "is a link"));
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(rundir_load(&set, *state, &err), -1);
	assert_non_null(strstr(err.msg, "not a regular file"));
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(rundir_load(&set, *state, &err), 0);
	assert_int_equal(set.n, 0);
	assert_int_equal(rundir_load(&set, "/nonexistent", &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
}

static void *sample_all_the_time(void *arg)
{
	for (int i = 0; i < 5000; i++)
		if (rundir_line(arg, "telemetry.jsonl", "{\"name\":\"engine_pss_bytes\"}", 27))
			return arg;
	return NULL;
}

static void sampler_writes_beside_the_load(void **state)
{
	struct seen s;
	pthread_t thread;
	void *failed;
	struct rundir *d = create(*state);
	add_event(d, "run_begin", 1);
	assert_int_equal(pthread_create(&thread, NULL, sample_all_the_time, d), 0);
	for (uint64_t n = 0, i; n < 5000; n++) {
		assert_int_equal(add_row(d, n, &i), 0);
		if (n % 1000 == 0)
			assert_int_equal(rundir_flush(d), 0);
	}
	pthread_join(thread, &failed);
	assert_null(failed);
	rundir_close(d);
	look(&s, *state);
	assert_int_equal(s.n_rows, 5000);
	assert_int_equal(s.n_telemetry, 5000);
}

/* A run in small, as the trial drives it. */
static void small_run(struct rundir *d)
{
	struct err err;
	uint64_t i;
	int rc = rundir_write(d, "plan.json", "{\"a\":1}", 7, &err);
	add_event(d, "run_begin", 1);
	rc |= rundir_write(d, "facts.json", "{\"b\":1}", 7, &err);
	assert_true(rc == 0 || rundir_full(d));
	for (uint64_t cell = 0; cell < 4; cell++) {
		add_event(d, "cell_begin", cell);
		for (uint64_t n = 0; n < 25 && !rundir_full(d); n++) {
			(void)add_row(d, cell * 25 + n, &i);
			(void)rundir_line(d, "telemetry.jsonl", "{\"t_ns\":1}", 10);
		}
		(void)rundir_line(d, "controls.jsonl", "{\"i\":1}", 7);
		(void)rundir_flush(d);
		add_event(d, "cell_end", cell);
	}
	if (rundir_full(d))
		rundir_use_reserve(d);
	add_event(d, "run_end", 0);
}

static void a_full_disk_leaves_whole_lines_and_an_end(void **state)
{
	static const char *const kinds[] = { "enospc", "short" };
	for (size_t k = 0; k < 2; k++)
		for (unsigned n = 2; n < 40; n++) {
			struct seen s;
			char text[32];
			snprintf(text, sizeof(text), "%s:%u", kinds[k], n);
			set_fault(text);
			assert_string_equal(rundir_fault(), text);
			struct rundir *d = create(*state);
			small_run(d);
			bool full = rundir_full(d);
			rundir_close(d);
			look(&s, *state);
			bool told = s.disk_full || (full && s.n_rows == 100); /* run_end itself met it */
			if (full != told || !s.run_end)
				fail_msg("%s: full %d told %d end %d", text, full, told, s.run_end);
			assert_true(full || s.n_rows == 100);
			empty_folder(*state);
		}
	set_fault(NULL);
}

/* Each boundary once: what was flushed is there, every whole line reads, nothing is named without its bytes.
 */
static void a_kill_at_any_boundary_leaves_it_readable(void **state)
{
	unsigned n_killed = 0;
	for (unsigned n = 1; n < 400; n++) {
		char text[32];
		struct seen s;
		int status;
		snprintf(text, sizeof(text), "kill:%u", n);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct rundir *d = NULL;
			struct err err;
			set_fault(text);
			if (rundir_create(&d, *state, clock_now_ns(), &err))
				_exit(3);
			small_run(d);
			rundir_close(d);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		look(&s, *state);
		empty_folder(*state);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			assert_true(s.run_end);
			assert_int_equal(s.n_rows, 100);
			break;
		}
		assert_int_equal(WTERMSIG(status), SIGKILL);
		n_killed++;
	}
	assert_true(n_killed > 50);
}

static void rows_wait_in_memory_until_the_reserve_is_used(void **state)
{
	struct seen s;
	uint64_t i;
	set_fault("enospc:2"); /* only the first event gets out */
	struct rundir *d = create(*state);
	add_event(d, "run_begin", 1);
	uint64_t taken = 0;
	while (taken < 100000 && add_row(d, taken, &i) == 0)
		taken++;
	assert_int_equal(rundir_flush(d), -1);
	assert_true(rundir_full(d));
	assert_true(taken > 1000 && taken < 100000); /* bounded, and then told */
	look(&s, *state);
	assert_int_equal(s.n_rows, 0);
	rundir_use_reserve(d);
	rundir_close(d);
	look(&s, *state);
	assert_int_equal(s.n_rows, taken);
	set_fault(NULL);
}

int main(void)
{
#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(writes_what_it_was_given),
		IN_A_FOLDER(refuses_a_folder_that_is_not_empty),
		IN_A_FOLDER(refuses_links_and_odd_files),
		IN_A_FOLDER(sampler_writes_beside_the_load),
		IN_A_FOLDER(a_full_disk_leaves_whole_lines_and_an_end),
		IN_A_FOLDER(a_kill_at_any_boundary_leaves_it_readable),
		IN_A_FOLDER(rows_wait_in_memory_until_the_reserve_is_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
