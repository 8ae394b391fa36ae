/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "pin/hash_cache.h"
#include "pin/pin_model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char dir[64];

static char *in_dir(const char *name)
{
	char *path = fs_join(dir, name);
	assert_non_null(path);
	return path;
}

static void put(const char *path, const void *data, size_t len)
{
	struct err err = { 0 };
	if (fs_write(path, data, len, &err))
		fail_msg("%s", err.msg);
}

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/proofmark-pin-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	return setenv("XDG_CACHE_HOME", dir, 1);
}

static int remove_dir(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void hashes_many_files_in_the_order_given(void **state)
{
	enum { N = 40 };
	char *paths[N];
	char want[N][SHA256_HEX_BYTES];
	struct pin_files files = { 0 };
	struct err err = { 0 };
	for (size_t i = 0; i < N; i++) {
		char name[32];
		auto_free char *data = calloc(1, 3000 * i + 1);
		memset(data, (int)i, 3000 * i);
		snprintf(name, sizeof(name), "many-%zu", i);
		paths[i] = in_dir(name);
		put(paths[i], data, 3000 * i);
		sha256_hex_of(data, 3000 * i, want[i]);
	}
	if (pin_hash_files(&files, (const char *const *)paths, N, false, NULL, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(files.n, N);
	for (size_t i = 0; i < N; i++) {
		assert_string_equal(files.list[i].path, paths[i]);
		assert_string_equal(files.list[i].sha256, want[i]);
		assert_int_equal(files.list[i].bytes, 3000 * i);
		assert_false(files.list[i].from_cache);
		free(paths[i]);
	}
	pin_files_done(&files);
}

static void refuses_what_is_no_regular_file(void **state)
{
	auto_free char *fifo = in_dir("fifo"), *good = in_dir("many-1");
	const char *const lists[][2] = {
		{ good, "/dev/null" }, { dir, good }, { good, "/nowhere/model" }, { fifo, good }
	};
	static const char *const says[] = { "not a regular file", "not a regular file", "cannot open",
		                            "not a regular file" };
	assert_int_equal(mkfifo(fifo, 0600), 0);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct pin_files files = { 0 };
		struct err err = { 0 };
		assert_int_equal(pin_hash_files(&files, lists[i], 2, true, NULL, &err), -1);
		assert_int_equal(err.cls, ERR_ENV);
		if (!strstr(err.msg, says[i]))
			fail_msg("want \"%s\", got \"%s\"", says[i], err.msg);
		assert_null(files.list);
	}
}

/* A file whose ctime lies in the past, so that the cache may keep it. */
static const char settled[] = "/proc/self/exe";

static struct pin_file hash_one(const char *path, bool cache)
{
	struct pin_files files = { 0 };
	struct err err = { 0 };
	if (pin_hash_files(&files, &path, 1, cache, NULL, &err))
		fail_msg("%s", err.msg);
	struct pin_file f = files.list[0];
	f.path = NULL;
	pin_files_done(&files);
	return f;
}

static void wait_until_settled(void)
{
	struct stat st;
	assert_int_equal(stat(settled, &st), 0);
	while (clock_wall_ns() - ((int64_t)st.st_ctim.tv_sec + 1) * (int64_t)NS_PER_S - st.st_ctim.tv_nsec <=
	       0)
		usleep(20000); /* only right after a build */
}

static void takes_an_unchanged_file_from_the_cache(void **state)
{
	wait_until_settled();
	struct pin_file first = hash_one(settled, true), again = hash_one(settled, true),
			without = hash_one(settled, false);
	assert_false(first.from_cache);
	assert_true(again.from_cache);
	assert_false(without.from_cache);
	assert_string_equal(first.sha256, again.sha256);
	assert_string_equal(first.sha256, without.sha256);
	assert_int_equal(first.bytes, again.bytes);
}

static void does_not_cache_a_file_changed_just_now(void **state)
{
	auto_free char *path = in_dir("fresh");
	put(path, "one", 3);
	struct pin_file one = hash_one(path, true);
	put(path, "two", 3);
	struct pin_file two = hash_one(path, true);
	assert_false(two.from_cache);
	assert_string_not_equal(one.sha256, two.sha256);
}

static void damage_cache(const char *cache, const char *from, const char *to)
{
	auto_buf text = BUF_INIT(1 << 20);
	struct err err = { 0 };
	assert_int_equal(fs_read(&text, cache, 1 << 20, &err), 0);
	char *at = strstr(text.p, from);
	assert_non_null(at);
	memcpy(at, to, strlen(to));
	assert_int_equal(fs_write_at(AT_FDCWD, cache, text.p, text.len, true, &err), 0);
}

static void ignores_a_cache_that_is_damaged_or_not_ours_alone(void **state)
{
	auto_free char *cache = in_dir("proofmark/hashes.jsonl");
	struct pin_file right = hash_one(settled, true);
	damage_cache(cache, "\"sha256\":\"", "\"sha256\":\"0000"); /* a false hash */
	struct pin_file f = hash_one(settled, true);
	assert_false(f.from_cache);
	assert_string_equal(f.sha256, right.sha256);
	assert_true(hash_one(settled, true).from_cache); /* written again */
	assert_int_equal(chmod(cache, 0622), 0);
	assert_false(hash_one(settled, true).from_cache);
	static const char noise[] = "{\"key\":\"\0\n{}\n[[[[[\nkey sha256";
	assert_int_equal(unlink(cache), 0);
	put(cache, noise, sizeof(noise));
	assert_int_equal(chmod(cache, 0600), 0);
	assert_false(hash_one(settled, true).from_cache);
	assert_int_equal(unlink(cache), 0);
	assert_int_equal(symlink("/etc/passwd", cache), 0);
	assert_false(hash_one(settled, true).from_cache);
	assert_int_equal(unlink(cache), 0);
}

static void cache_entries_depend_on_every_part_of_the_key(void **state)
{
	struct stat st = { .st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = { 4, 5 }, .st_ctim = { 6, 7 } };
	struct hash_cache c = { 0 };
	char hex[65], got[65];
	memset(hex, 'a', 64);
	hex[64] = '\0';
	hash_cache_add(&c, &st, hex);
	hash_cache_save(&c);
	hash_cache_done(&c);
	hash_cache_load(&c);
	assert_true(hash_cache_find(&c, &st, got));
	assert_string_equal(got, hex);
	struct stat others[6];
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		others[i] = st;
	others[0].st_dev++;
	others[1].st_ino++;
	others[2].st_size++;
	others[3].st_mtim.tv_nsec++;
	others[4].st_ctim.tv_nsec++;
	others[5].st_ctim.tv_sec++;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(hash_cache_find(&c, &others[i], got));
	hash_cache_done(&c);
}

static void stops_when_told(void **state)
{
	const char *path = settled;
	struct pin_files files = { 0 };
	struct err err = { 0 };
	bool stop = true;
	assert_int_equal(pin_hash_files(&files, &path, 1, false, &stop, &err), -1);
	assert_int_equal(err.cls, ERR_INTERRUPTED);
}

/* Grows the file while it is read, until told to end. */
static pid_t start_writer(const char *path)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	for (;;)
		if (write(fd, "x", 1) != 1)
			_exit(1);
}

static void refuses_a_file_that_changes_while_it_is_hashed(void **state)
{
	auto_free char *path = in_dir("growing");
	auto_free char *data = calloc(1, 8 << 20);
	struct pin_files files = { 0 };
	struct err err = { 0 };
	put(path, data, 8 << 20);
	pid_t writer = start_writer(path);
	struct stat before, now;
	assert_int_equal(stat(path, &before), 0);
	do
		assert_int_equal(stat(path, &now), 0);
	while (now.st_size == before.st_size);
	const char *list = path;
	int rc = pin_hash_files(&files, &list, 1, true, NULL, &err);
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	assert_int_equal(rc, -1);
	assert_non_null(strstr(err.msg, "changed while it was hashed"));
}

static void put_program(const char *path, const char *text)
{
	put(path, text, strlen(text));
	assert_int_equal(chmod(path, 0755), 0);
}

static void finds_the_program_and_its_interpreter(void **state)
{
	auto_free char *script = in_dir("engine"), *link = in_dir("alias"), *by_env = in_dir("by-env"),
		       *lost = in_dir("lost");
	auto_free char *path_env = str_fmt("/nowhere::%s:/usr/bin:/bin", dir);
	auto_free char *real_sh = realpath("/bin/sh", NULL);
	put_program(script, "#! /bin/sh -e\nexit 0\n");
	put_program(by_env, "#!/usr/bin/env -S A=1 sh\n");
	put_program(lost, "#!/nowhere/python\n");
	assert_int_equal(symlink("engine", link), 0);
	const char *const names[] = { "engine", "alias", script, "by-env" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct pin_files files = { 0 };
		struct err err = { 0 };
		if (pin_program(&files, names[i], path_env, false, &err))
			fail_msg("%s: %s", names[i], err.msg);
		assert_int_equal(files.n, 2);
		assert_string_equal(files.list[0].path, i == 3 ? by_env : script);
		assert_string_equal(files.list[1].path, real_sh);
		assert_true(sha256_hex_ok(files.list[1].sha256));
		pin_files_done(&files);
	}
	struct pin_files files = { 0 };
	struct err err = { 0 };
	assert_int_equal(pin_program(&files, "sh", NULL, false, &err), 0);
	assert_int_equal(files.n, 1);
	pin_files_done(&files);
	assert_int_equal(pin_program(&files, "no-such-program", path_env, false, &err), -1);
	assert_non_null(strstr(err.msg, "no-such-program: no such program on the PATH"));
	assert_int_equal(pin_program(&files, lost, path_env, false, &err), -1);
	assert_non_null(strstr(err.msg, "interpreter"));
}

static void tells_each_mapped_file_once_and_sorted(void **state)
{
	pid_t pids[] = { getpid(), getpid() };
	struct pin_files files = { 0 };
	struct err err = { 0 };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = '\0';
	if (pin_mapped_files(&files, pids, 2, false, &err))
		fail_msg("%s", err.msg);
	bool has_self = false, has_libc = false;
	for (size_t i = 0; i < files.n; i++) {
		assert_true(i == 0 || strcmp(files.list[i - 1].path, files.list[i].path) < 0);
		assert_true(files.list[i].path[0] == '/' && files.list[i].bytes > 0);
		has_self = has_self || strcmp(files.list[i].path, self) == 0;
		has_libc = has_libc || strstr(files.list[i].path, "/libc.so") != NULL;
	}
	assert_true(has_self && has_libc);
	pin_files_done(&files);
	pid_t gone = fork();
	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	assert_int_equal(pin_mapped_files(&files, &gone, 1, false, &err), -1);
}

static void tells_a_mapped_file_that_was_deleted(void **state)
{
	auto_free char *path = in_dir("lib-deleted.so");
	auto_free char *data = calloc(1, 8192);
	data[100] = 'x';
	put(path, data, 8192);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	void *map = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(unlink(path), 0);
	pid_t self = getpid();
	struct pin_files files = { 0 };
	struct err err = { 0 };
	char want[SHA256_HEX_BYTES];
	sha256_hex_of(data, 8192, want);
	if (pin_mapped_files(&files, &self, 1, false,
	                     &err)) { /* without the right to look: refused, and says so */
		assert_non_null(strstr(err.msg, "lib-deleted.so: mapped by process"));
	} else {
		bool told = false;
		for (size_t i = 0; i < files.n; i++)
			told = told || (files.list[i].deleted && strcmp(files.list[i].path, path) == 0 &&
			                strcmp(files.list[i].sha256, want) == 0);
		assert_true(told);
		pin_files_done(&files);
	}
	munmap(map, 8192);
}

/* A child with these arguments in our folder, asleep. */
static pid_t start_child(const char *const *argv, int log_fd)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (chdir(dir) || fcntl(log_fd, F_SETFD, 0))
			_exit(1);
		execv("/bin/sh", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0); /* closed by exec */
	close(ready[0]);
	return pid;
}

static void finds_files_that_arguments_name(void **state)
{
	auto_free char *script = in_dir("serve.sh"), *config = in_dir("a.conf"), *log = in_dir("log.txt"),
		       *model = in_dir("model.bin"), *large = in_dir("large.bin");
	auto_free char *zeros = calloc(1, 100000);
	auto_free char *by_option = str_fmt("--config=%s", config);
	put(script, "read x < \"$5\"\n", strlen("read x < \"$5\"\n"));
	put(config, "a", 1);
	put(log, "l", 1);
	put(model, "m", 1);
	put(large, zeros, 100000);
	auto_free char *fifo = in_dir("wait");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	auto_fd log_fd = open(log, O_WRONLY | O_CLOEXEC);
	const char *const argv[] = { "sh",        "serve.sh", by_option, "log.txt", "model.bin",
		                     "large.bin", "wait",     "--x",     NULL };
	pid_t pid = start_child(argv, log_fd);
	struct pin_files files = { 0 };
	struct err err = { 0 };
	const char *except[] = { model, "/nowhere" };
	int rc = pin_argument_files(&files, &pid, 1, except, 2, 50000, false, &err);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (rc)
		fail_msg("%s", err.msg);
	assert_int_equal(files.n, 2); /* neither log, model, large file nor fifo */
	assert_string_equal(files.list[0].path, config);
	assert_string_equal(files.list[1].path, script);
	pin_files_done(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_many_files_in_the_order_given),
		cmocka_unit_test(refuses_what_is_no_regular_file),
		cmocka_unit_test(takes_an_unchanged_file_from_the_cache),
		cmocka_unit_test(does_not_cache_a_file_changed_just_now),
		cmocka_unit_test(ignores_a_cache_that_is_damaged_or_not_ours_alone),
		cmocka_unit_test(cache_entries_depend_on_every_part_of_the_key),
		cmocka_unit_test(stops_when_told),
		cmocka_unit_test(refuses_a_file_that_changes_while_it_is_hashed),
		cmocka_unit_test(finds_the_program_and_its_interpreter),
		cmocka_unit_test(tells_each_mapped_file_once_and_sorted),
		cmocka_unit_test(tells_a_mapped_file_that_was_deleted),
		cmocka_unit_test(finds_files_that_arguments_name),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
