/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine said last, and what to do about it. */
#include "engine/launch_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TAIL_BYTES 16384u

static const struct {
	const char *text, *hint;
} known_lines[] = {
	{ "ddress already in use", "its port is taken" },
	{ "couldn't bind HTTP server socket", "its port is taken" },
	{ "error while loading shared libraries", "a library that it needs is not installed" },
	{ "out of memory", "not enough memory: less context, fewer slots or a smaller quantisation" },
	{ "OutOfMemory", "not enough memory: less context, fewer slots or a smaller quantisation" },
	{ "failed to allocate", "not enough memory: less context, fewer slots or a smaller quantisation" },
	{ "bad_alloc", "not enough memory: less context, fewer slots or a smaller quantisation" },
	{ "nvalid argument", "it does not take one of the args" },
	{ "nrecognized arguments", "it does not take one of the args" },
	{ "no CUDA-capable device", "the driver shows it no GPU" },
	{ "driver version is insufficient", "the GPU driver is too old for it" },
	{ "AMX is not ready", "it is built for another CPU" },
	{ "failed to load model", "it cannot read the model file: wrong path, damaged, or a newer format" },
	{ "error loading model", "it cannot read the model file: wrong path, damaged, or a newer format" },
	{ "failed to read magic", "it cannot read the model file: wrong path, damaged, or a newer format" },
};

static const struct {
	int sig;
	const char *hint;
} known_signals[] = {
	{ SIGILL, "it is built for another CPU: this one lacks an instruction" },
	{ SIGKILL, "killed from outside, most often by the kernel for lack of memory (see dmesg)" },
	{ SIGSEGV, "it crashed" },
	{ SIGABRT, "it gave up by itself" },
	{ SIGBUS, "it crashed: a mapped file was cut, or a disk or memory fault" },
};

void launch_say_status(char text[LAUNCH_TEXT_BYTES], const char **hint, int status)
{
	if (WIFEXITED(status)) {
		snprintf(text, LAUNCH_TEXT_BYTES, "exit status %d", WEXITSTATUS(status));
		return;
	}
	int sig = WTERMSIG(status);
	const char *name = sigabbrev_np(sig);
	snprintf(text, LAUNCH_TEXT_BYTES, "signal %d (%s)", sig, name ? name : "?");
	for (size_t i = 0; i < ARRAY_LEN(known_signals); i++)
		if (known_signals[i].sig == sig)
			*hint = known_signals[i].hint;
}

/* Our descriptor may be for writing only; /proc gives the file a second time. */
static size_t read_tail(char *tail, int log_fd, uint64_t from)
{
	char path[40];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", log_fd);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size <= from)
		return 0;
	uint64_t size = (uint64_t)st.st_size;
	uint64_t start = size - from > TAIL_BYTES ? size - TAIL_BYTES : from;
	ssize_t n = pread(fd, tail, TAIL_BYTES, (off_t)start);
	return n > 0 ? (size_t)n : 0;
}

/* In place: terminal sequences go, other control bytes and bytes above ASCII become '?' where they are no
 * whole UTF-8 (the caller's message must stay one readable line). Returns the new length. */
static size_t clean(char *s, size_t len)
{
	size_t to = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == 0x1b && i + 1 < len && s[i + 1] == '[') {
			for (i += 2; i < len && (s[i] < 0x40 || s[i] > 0x7e); i++)
				;
			continue;
		}
		s[to++] = (char)(c == '\t' ? ' ' : c < 0x20 || c >= 0x7f ? '?' : c);
	}
	while (to && s[to - 1] == ' ')
		to--;
	return to;
}

/* The last line of `text` that is not blank after cleaning; cuts `text` behind it. */
static char *last_line(char *text, size_t len)
{
	while (len) {
		char *nl = memrchr(text, '\n', len);
		char *start = nl ? nl + 1 : text;
		size_t n = (size_t)(text + len - start);
		if (n && start[n - 1] == '\r')
			n--;
		n = clean(start, n);
		if (n) {
			start[n] = '\0';
			return start;
		}
		len = nl ? (size_t)(nl - text) : 0;
	}
	return NULL;
}

void launch_last_line(char line[LAUNCH_TEXT_BYTES], const char **hint, int log_fd, uint64_t from,
                      const struct launch_env *env)
{
	auto_free char *tail = malloc(TAIL_BYTES + 1);
	size_t len = tail ? read_tail(tail, log_fd, from) : 0;
	line[0] = '\0';
	if (len == 0)
		return;
	tail[len] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(known_lines) && !*hint; i++)
		if (memmem(tail, len, known_lines[i].text, strlen(known_lines[i].text)))
			*hint = known_lines[i].hint;
	char *last = last_line(tail, len);
	if (!last)
		return;
	launch_blank_secrets(last, env);
	snprintf(line, LAUNCH_TEXT_BYTES, "%.240s", last);
}

int64_t engine_log_blank(const struct engine_start_spec *spec, struct err *err)
{
	struct launch_env env;
	struct stat st;
	char path[64];
	int64_t n = 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", spec->log_fd);
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "engine.log: cannot open");
	if (st.st_size == 0)
		return 0;
	if (launch_env_make(&env, spec, err))
		return -1;
	if ((env.secrets && env.secrets[0]) || env.bearer) {
		size_t len = (size_t)st.st_size;
		char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			n = err_sys(err, ERR_ENV, errno, "engine.log: cannot map");
		} else {
			n = (int64_t)launch_blank_bytes(map, len, &env);
			munmap(map, len);
		}
	}
	launch_env_done(&env);
	return n;
}
