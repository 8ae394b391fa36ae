/* SPDX-License-Identifier: Apache-2.0 */
/* The signed in-toto Statement of a bundle. */
#ifndef STORE_STATEMENT_H
#define STORE_STATEMENT_H

#include "store/bundle.h"
#include "store/manifest.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define STATEMENT_PAYLOAD_TYPE "application/vnd.in-toto+json"
#define STATEMENT_PREDICATE_TYPE "https://proofmark.dev/acceptance/v1"

int statement_write(struct buf *out, const struct seal_facts *f, const struct manifest *m,
                    const char manifest_sha256[SHA256_HEX_BYTES]);
/* Parses the verified bytes; `manifest_sha256` and `evidence_root` are what its subjects say.
 * ERR_NOT_GENUINE. */
warn_unused int statement_read(struct cJSON **out, char manifest_sha256[SHA256_HEX_BYTES],
                               char evidence_root[SHA256_HEX_BYTES], const char *text, size_t len,
                               struct err *err);
/* The predicate's digests of plan, lock and verdict against the manifest. */
warn_unused int statement_check(const struct cJSON *statement, const struct manifest *m, struct err *err);

#endif
