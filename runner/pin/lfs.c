/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/lfs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const first_lines[] = { "version https://git-lfs.github.com/spec/v1\n",
	                                   "version https://git-lfs.github.com/spec/v1\r\n",
	                                   "version https://hawser.github.com/spec/v1\n" };

static bool take_number(uint64_t *out, const char *p, const char *end)
{
	uint64_t v = 0;
	if (p == end)
		return false;
	for (; p < end && *p != '\r'; p++)
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*out = v;
	return true;
}

static void take_line(struct lfs_pointer *out, const char *p, const char *end)
{
	static const char oid[] = "oid sha256:", size[] = "size ";
	size_t len = (size_t)(end - p);
	if (len >= sizeof(oid) - 1 + 64 && memcmp(p, oid, sizeof(oid) - 1) == 0) {
		memcpy(out->oid_sha256, p + sizeof(oid) - 1, 64);
		out->oid_sha256[64] = '\0';
		if (strspn(out->oid_sha256, "0123456789abcdef") != 64)
			out->oid_sha256[0] = '\0';
	} else if (len >= sizeof(size) && memcmp(p, size, sizeof(size) - 1) == 0) {
		take_number(&out->bytes, p + sizeof(size) - 1, end);
	}
}

bool lfs_pointer_parse(struct lfs_pointer *out, const char *text, size_t len)
{
	struct lfs_pointer p = { .bytes = UINT64_MAX };
	size_t start = 0;
	for (size_t i = 0; i < sizeof(first_lines) / sizeof(first_lines[0]) && start == 0; i++) {
		size_t n = strlen(first_lines[i]);
		if (len >= n && memcmp(text, first_lines[i], n) == 0)
			start = n;
	}
	if (start == 0 || len > LFS_POINTER_BYTES_MAX)
		return false;
	for (const char *at = text + start, *end = text + len; at < end;) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		take_line(&p, at, nl ? nl : end);
		at = nl ? nl + 1 : end;
	}
	*out = p;
	return true;
}

static ssize_t read_start(int fd, char *text, size_t n)
{
	ssize_t got;
	do
		got = pread(fd, text, n, 0);
	while (got < 0 && errno == EINTR);
	return got;
}

bool lfs_pointer_read(struct lfs_pointer *out, int fd, uint64_t file_bytes)
{
	char text[LFS_POINTER_BYTES_MAX];
	if (file_bytes > sizeof(text))
		return false;
	ssize_t n = read_start(fd, text, sizeof(text));
	return n > 0 && lfs_pointer_parse(out, text, (size_t)n);
}

static bool starts_with(const char *text, size_t len, const char *word)
{
	size_t n = strlen(word);
	return len >= n && strncasecmp(text, word, n) == 0;
}

int weights_not_a_stand_in(int fd, uint64_t file_bytes, const char *name, struct err *err)
{
	struct lfs_pointer p;
	char text[64];
	if (file_bytes == 0)
		return err_set(err, ERR_PLAN, "%s: the file is empty: fetch it again", name);
	if (lfs_pointer_read(&p, fd, file_bytes)) {
		if (p.bytes == UINT64_MAX)
			return err_set(err, ERR_PLAN,
			               "%s: a Git LFS pointer text, the real file was not fetched", name);
		return err_set(err, ERR_PLAN,
		               "%s: a Git LFS pointer text, the real file was not fetched (%" PRIu64
		               " bytes wanted): git lfs pull",
		               name, p.bytes);
	}
	ssize_t n = read_start(fd, text, sizeof(text));
	if (n < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot read", name);
	if (starts_with(text, (size_t)n, "<!doctype html") || starts_with(text, (size_t)n, "<html"))
		return err_set(err, ERR_PLAN, "%s: an HTML page was saved in place of the weights", name);
	if (starts_with(text, (size_t)n, "{\"error\""))
		return err_set(err, ERR_PLAN, "%s: a server's error was saved in place of the weights", name);
	return 0;
}
