/* SPDX-License-Identifier: Apache-2.0 */
/* A file that only grows, behind a buffer. What the file holds is always whole pieces: when a write fails it
 * is cut back to the last good length, and the pieces stay in memory for a later try. One lock a file, so
 * that the sampler's thread never waits for the load's disk. */
#ifndef STORE_SPILL_H
#define STORE_SPILL_H

#include "base/buf.h"
#include "base/err.h"

#include <pthread.h>

struct spill {
	int fd; /* -1 = not open */
	uint64_t file_len;
	uint64_t flushed_ns; /* CLOCK_MONOTONIC of the last flush */
	struct buf b;        /* whole pieces, not yet written */
	bool dirty;          /* the file may hold part of a piece behind file_len */
	pthread_mutex_t lock;
};

/* Creates `name` (must not be there). `keep_bytes` is allocated at once, `max_bytes` is where adding fails.
 */
warn_unused int spill_open(struct spill *s, int dir_fd, const char *name, size_t keep_bytes, size_t max_bytes,
                           struct err *err);
void spill_done(struct spill *s); /* accepts zeroed with fd -1; does not flush */
/* The caller holds `lock` for these. spill_write: 0, or -1 with errno, then all pieces are still in memory.
 */
int spill_add(struct spill *s, const void *data, size_t len);
int spill_write(struct spill *s);
int spill_sync(struct spill *s);

#endif
