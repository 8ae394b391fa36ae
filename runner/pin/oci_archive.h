/* SPDX-License-Identifier: Apache-2.0 */
/* A tar read once from front to back: names, sizes, digests; small JSON files are kept. For oci_layout.c and
 * oci_saved.c. */
#ifndef PIN_OCI_ARCHIVE_H
#define PIN_OCI_ARCHIVE_H

#include "base/buf.h"
#include "pin/oci.h"

#define OCI_ARCHIVE_ENTRIES_MAX 20000u
#define OCI_ARCHIVE_PATH_BYTES_MAX 512u
#define OCI_ARCHIVE_KEPT_BYTES_MAX (64u << 20) /* of all small files together */
#define OCI_ARCHIVE_BYTES_MAX (512ull << 30)   /* unpacked */

struct oci_entry {
	char *path; /* clean: relative, no "." or ".." */
	char *link; /* where a link points, clean and from the archive's root; NULL = a file or folder */
	bool is_dir;
	uint64_t size_bytes;
	char digest[OCI_DIGEST_BYTES]; /* of its bytes; sha512 below blobs/sha512, else sha256 */
	struct buf bytes;              /* kept when small and JSON by its first byte */
	bool kept;
};

struct oci_archive {
	size_t n, cap;
	struct oci_entry *list; /* by path */
	uint64_t kept_bytes, total_bytes;
};
void oci_archive_done(struct oci_archive *a);
warn_unused int oci_archive_read(struct oci_archive *out, int fd, const char *name, uint64_t deadline_ns,
                                 struct err *err);
/* The file of that path, through at most one link when `follow`. NULL when there is none. */
const struct oci_entry *oci_archive_find(const struct oci_archive *a, const char *path, bool follow);

#endif
