/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is that ought to hold weights and does not: a Git LFS pointer, an error page, … */
#ifndef PIN_LFS_H
#define PIN_LFS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LFS_POINTER_BYTES_MAX 1024 /* the format's own limit */

struct lfs_pointer {
	char oid_sha256[65]; /* "" = not told */
	uint64_t bytes;      /* of the real file; UINT64_MAX = not told */
};

/* The text of a pointer file (https://git-lfs.github.com/spec/v1, or the name before it). */
bool lfs_pointer_parse(struct lfs_pointer *out, const char *text, size_t len);
/* False also for a file that cannot be read. */
bool lfs_pointer_read(struct lfs_pointer *out, int fd, uint64_t file_bytes);

/* 0, or -1 with ERR_PLAN when the file is empty, a Git LFS pointer, an HTML page or another text: the usual
 * reasons why a header "is damaged". */
warn_unused int weights_not_a_stand_in(int fd, uint64_t file_bytes, const char *name, struct err *err);

#endif
