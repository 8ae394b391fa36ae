/* SPDX-License-Identifier: Apache-2.0 */
#include "store/spill.h"

#include "base/clock.h"
#include "store/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int spill_open(struct spill *s, int dir_fd, const char *name, size_t keep_bytes, size_t max_bytes,
               struct err *err)
{
	*s = (struct spill){ .fd = -1, .flushed_ns = clock_now_ns() };
	pthread_mutex_init(&s->lock, NULL);
	buf_init(&s->b, max_bytes);
	static const char blank[4096];
	for (size_t n = 0; n < keep_bytes; n += sizeof(blank))
		if (buf_add(&s->b, blank, sizeof(blank)))
			return err_set(err, ERR_ENV, "%s: no memory", name);
	buf_clear(&s->b);
	s->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	if (s->fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", name);
	return 0;
}

void spill_done(struct spill *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	buf_done(&s->b);
}

int spill_add(struct spill *s, const void *data, size_t len)
{
	if (len > s->b.max_bytes - s->b.len) {
		errno = ENOSPC;
		return -1;
	}
	if (len == 0 || buf_add(&s->b, data, len) == 0)
		return 0;
	s->b.failed = false; /* what is there stays, and later pieces may fit again */
	errno = ENOMEM;
	return -1;
}

int spill_write(struct spill *s)
{
	s->flushed_ns = clock_now_ns();
	if (s->b.len == 0)
		return 0;
	if (s->dirty && store_truncate(s->fd, s->file_len))
		return -1;
	s->dirty = true;
	if (store_write(s->fd, s->b.p, s->b.len)) {
		int why = errno;
		s->dirty = store_truncate(s->fd, s->file_len) != 0;
		errno = why;
		return -1;
	}
	s->dirty = false;
	s->file_len += s->b.len;
	buf_clear(&s->b);
	return 0;
}

int spill_sync(struct spill *s)
{
	return store_sync(s->fd);
}
