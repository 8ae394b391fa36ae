/* SPDX-License-Identifier: Apache-2.0 */
#include "store/fault.h"

#include "base/buf.h"
#include "base/fs.h"
#include "store/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault_kind { FAULT_NONE, FAULT_KILL, FAULT_ENOSPC, FAULT_SHORT };

static const struct {
	const char *word;
	enum fault_kind kind;
} fault_words[] = { { "kill:", FAULT_KILL }, { "enospc:", FAULT_ENOSPC }, { "short:", FAULT_SHORT } };

/* The hook is of the process, as the environment is. */
static struct {
	enum fault_kind kind;
	unsigned long long at;
	char text[64];
	atomic_ullong n_boundaries, n_writes;
	atomic_bool room_again;
} fault;
static pthread_once_t fault_once = PTHREAD_ONCE_INIT;

static void read_hook(void)
{
	fault.kind = FAULT_NONE;
	fault.text[0] = '\0';
	atomic_store(&fault.n_boundaries, 0);
	atomic_store(&fault.n_writes, 0);
	atomic_store(&fault.room_again, false);
	const char *text = getenv("PROOFMARK_FAULT");
	for (size_t i = 0; text && i < ARRAY_LEN(fault_words); i++) {
		size_t len = strlen(fault_words[i].word);
		if (strncmp(text, fault_words[i].word, len) != 0)
			continue;
		fault.kind = fault_words[i].kind;
		fault.at = strtoull(text + len, NULL, 10);
		snprintf(fault.text, sizeof(fault.text), "%s%llu", fault_words[i].word, fault.at);
	}
}

const char *rundir_fault(void)
{
	pthread_once(&fault_once, read_hook);
	return fault.kind == FAULT_NONE ? NULL : fault.text;
}

void store_fault_reset(void)
{
	pthread_once(&fault_once, read_hook);
	read_hook();
}

void store_reserve_used(void)
{
	atomic_store(&fault.room_again, true);
}

static void boundary(void)
{
	if (rundir_fault() && atomic_fetch_add(&fault.n_boundaries, 1) + 1 == fault.at &&
	    fault.kind == FAULT_KILL)
		raise(SIGKILL);
}

static int write_on_full_disk(int fd, const char *p, size_t len, bool first)
{
	if (fault.kind == FAULT_SHORT && first && fs_write_all(fd, p, len / 2))
		return -1;
	errno = ENOSPC;
	return -1;
}

int store_write(int fd, const void *data, size_t len)
{
	if (!rundir_fault())
		return fs_write_all(fd, data, len);
	unsigned long long n = atomic_fetch_add(&fault.n_writes, 1) + 1;
	if (fault.kind != FAULT_KILL && n >= fault.at && !atomic_load(&fault.room_again))
		return write_on_full_disk(fd, data, len, n == fault.at);
	size_t half = len / 2;
	if (fs_write_all(fd, data, half))
		return -1;
	boundary();
	if (fs_write_all(fd, (const char *)data + half, len - half))
		return -1;
	boundary();
	return 0;
}

int store_sync(int fd)
{
	boundary();
	return fdatasync(fd);
}

int store_rename(int dir_fd, const char *from, const char *to)
{
	boundary();
	return renameat(dir_fd, from, dir_fd, to);
}

int store_truncate(int fd, uint64_t len)
{
	boundary();
	return ftruncate(fd, (off_t)len);
}

int store_put(int dir_fd, const char *name, const void *data, size_t len, struct err *err)
{
	auto_free char *tmp = str_fmt("%s.tmp", name);
	if (!tmp)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	auto_fd fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", tmp);
	if (store_write(fd, data, len) == 0 && store_sync(fd) == 0 && store_rename(dir_fd, tmp, name) == 0)
		return 0;
	int why = errno;
	unlinkat(dir_fd, tmp, 0);
	return err_sys(err, ERR_ENV, why, "%s: cannot write", name);
}
