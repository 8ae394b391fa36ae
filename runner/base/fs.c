/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int read_fd(struct buf *out, int fd, const char *name, size_t max_bytes, struct err *err)
{
	enum { CHUNK_BYTES = 1 << 16 };
	auto_free char *chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	size_t total = 0;
	for (;;) {
		ssize_t n = read(fd, chunk, CHUNK_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, ERR_ENV, errno, "%s: cannot read", name);
		if (n == 0)
			return buf_add(out, "", 0) ? err_set(err, ERR_ENV, "%s: no memory", name) : 0;
		total += (size_t)n;
		if (total > max_bytes || buf_add(out, chunk, (size_t)n))
			return err_set(err, ERR_PLAN, "%s: larger than the limit of %zu bytes", name,
			               max_bytes);
	}
}

int fs_read_at(struct buf *out, int dir_fd, const char *name, size_t max_bytes, struct err *err)
{
	auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", name);
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, ERR_ENV, "%s: is a folder, want a file", name);
	return read_fd(out, fd, name, max_bytes, err);
}

int fs_read(struct buf *out, const char *path, size_t max_bytes, struct err *err)
{
	if (strcmp(path, "-") == 0)
		return read_fd(out, STDIN_FILENO, "(standard input)", max_bytes, err);
	return fs_read_at(out, AT_FDCWD, path, max_bytes, err);
}

int fs_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;
	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0) {
			errno = ENOSPC;
			return -1;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_write_at(int dir_fd, const char *name, const void *data, size_t len, bool secret, struct err *err)
{
	auto_free char *tmp = str_fmt("%s.tmp", name);
	if (!tmp)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	auto_fd fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, secret ? 0600 : 0644);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", tmp);
	if (fs_write_all(fd, data, len) || fsync(fd)) {
		int why = errno;
		unlinkat(dir_fd, tmp, 0);
		return err_sys(err, ERR_ENV, why, "%s: cannot write", name);
	}
	if (renameat(dir_fd, tmp, dir_fd, name))
		return err_sys(err, ERR_ENV, errno, "%s: cannot rename into place", name);
	return 0;
}

int fs_write(const char *path, const void *data, size_t len, struct err *err)
{
	return fs_write_at(AT_FDCWD, path, data, len, false, err);
}

int fs_mkdir_p(const char *path, struct err *err)
{
	auto_free char *p = strdup(path);
	if (!p)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	for (char *s = p + 1;; s++) {
		if (*s && *s != '/')
			continue;
		char keep = *s;
		*s = '\0';
		if (mkdir(p, 0777) && errno != EEXIST)
			return err_sys(err, ERR_ENV, errno, "%s: cannot create folder", p);
		if (!keep)
			return 0;
		*s = keep;
	}
}

char *fs_join(const char *dir, const char *name)
{
	return name[0] == '/' ? strdup(name) : str_fmt("%s/%s", dir, name);
}

char *fs_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}
