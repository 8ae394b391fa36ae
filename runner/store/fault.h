/* SPDX-License-Identifier: Apache-2.0 */
/* Every write of the store goes through here, so that a test can end us, or fill the disk, at any of them
 * (PROOFMARK_FAULT, store/rundir.h). Boundaries are counted over the whole process, from 1: a write has two
 * (half of it out, all of it out), a sync, rename, truncation or removal has one (before it). Any thread. */
#ifndef STORE_FAULT_H
#define STORE_FAULT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* All of `data`, through EINTR and short writes. 0, or -1 with errno; part of it may be out then. */
warn_unused int store_write(int fd, const void *data, size_t len);
warn_unused int store_sync(int fd); /* fdatasync */
warn_unused int store_rename(int dir_fd, const char *from, const char *to);
warn_unused int store_truncate(int fd, uint64_t len);
/* NAME.tmp, sync, rename: whole or not there. */
warn_unused int store_put(int dir_fd, const char *name, const void *data, size_t len, struct err *err);
void store_reserve_used(void); /* "enospc" and "short" end here */
void store_fault_reset(void);  /* reads PROOFMARK_FAULT again and counts from 1: for tests in one process */

#endif
