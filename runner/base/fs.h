/* SPDX-License-Identifier: Apache-2.0 */
/* Files. All descriptors are O_CLOEXEC; every read has its maximum. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Whole file into `*out` (appended; out's own max and `max_bytes` both hold). "-" is stdin. */
warn_unused int fs_read(struct buf *out, const char *path, size_t max_bytes, struct err *err);
warn_unused int fs_read_at(struct buf *out, int dir_fd, const char *name, size_t max_bytes, struct err *err);
/* Writes NAME.tmp, syncs, renames: the file is whole or it is not there. Mode 0644 (0600 with `secret`). */
warn_unused int fs_write_at(int dir_fd, const char *name, const void *data, size_t len, bool secret,
                            struct err *err);
warn_unused int fs_write(const char *path, const void *data, size_t len, struct err *err);
/* All of `len`, through EINTR and short writes. 0, or -1 with errno. */
warn_unused int fs_write_all(int fd, const void *data, size_t len);
warn_unused int fs_mkdir_p(const char *path, struct err *err);
/* malloc'd "dir/name"; an absolute `name` stands alone. */
char *fs_join(const char *dir, const char *name);
/* malloc'd folder part of a path ("." when it has none). */
char *fs_dirname(const char *path);

#endif
