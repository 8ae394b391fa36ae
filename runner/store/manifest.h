/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a bundle: every member but the envelope and itself. One manifest has one text. */
#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "model/evidence.h"
#include "store/ustar.h"

#define MANIFEST_MEMBERS_MAX 4096u
#define MANIFEST_BYTES_MAX (4u << 20)
#define MEMBER_RAW_BYTES_MAX (4ull << 30)
#define BUNDLE_RAW_BYTES_MAX (16ull << 30)
/* A packed member over 1 MiB may be at most so many times smaller than its contents. */
#define PACK_RATIO_MAX 1000u
#define PACK_FROM_BYTES (1u << 20)

struct manifest_member {
	char path[USTAR_NAME_BYTES_MAX + 1]; /* as in the archive: "run/requests.jsonl.zst" */
	uint64_t bytes;                      /* in the archive */
	char sha256[SHA256_HEX_BYTES];
	uint64_t raw_bytes; /* of the file in the run directory */
	char raw_sha256[SHA256_HEX_BYTES];
	bool zst;
	bool derived;
};

struct manifest {
	size_t n;
	struct manifest_member *list; /* sorted by the bytes of path */
	char evidence_root[SHA256_HEX_BYTES];
};

void manifest_done(struct manifest *m);
/* Name in the run directory, without "run/" and ".zst". `out` holds USTAR_NAME_BYTES_MAX + 1. */
void manifest_raw_name(char *out, const struct manifest_member *m);
bool manifest_is_derived(const char *raw_name);
/* SHA-256 over "<sha256 hex>  <name>\n" of the raw members in the order of their names. */
int manifest_root(char out[SHA256_HEX_BYTES], const struct manifest *m);
int manifest_write(struct buf *out, const struct manifest *m);
/* ERR_NOT_GENUINE on anything that manifest_write would not have written, and on every limit. */
warn_unused int manifest_read(struct manifest *out, const char *text, size_t len, struct err *err);

#endif
