/* SPDX-License-Identifier: Apache-2.0 */
/* NAME.proofmark: an uncompressed canonical ustar (proofmark-bundle(5)). First attestation.dsse.json, then
 * manifest.json, then run/… sorted by bytes; members over 1 MiB as single-frame .zst when that is smaller. */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

#include "base/err.h"
#include "model/evidence.h"
#include "store/sign.h"

struct seal_facts { /* what the predicate binds beside the files; NULL = not known */
	const char *run_id, *started, *finished, *candidate, *verdict, *challenge, *previous_attempt_sha256;
	uint64_t rules, attempt;
	const char *version, *binary_sha256;
	/* further subjects, each optional */
	const char *model_name, *model_sha256, *image_name, *image_sha256, *machine_name, *machine_sha256;
};

/* Packs the folder's evidence and derived members, signs, writes `out_path` (tmp + rename). `evidence_root`
 * may be NULL. */
warn_unused int bundle_seal(const char *run_dir, const char *out_path, const struct sign_key *key,
                            const struct seal_facts *facts, char evidence_root[65], struct err *err);

/* The evidence root of a run directory's raw members, as the bundle will have it (others are passed over). */
warn_unused int evidence_root_of(char out[65], const struct member_set *set, struct err *err);

struct bundle; /* an opened, proven bundle */
struct bundle_proof {
	bool signature_verified, manifest_verified, layout_verified, test_key;
	char keyid[65], evidence_root[65], manifest_sha256[65], bundle_sha256[65];
	struct cJSON *statement; /* the signed in-toto Statement; owned by the bundle */
	uint64_t n_members;
	uint64_t bytes;
};
/* Reads and bounds the envelope, checks the signature with one of `keys`, only then the manifest, then
 * requires headers, padding, order and length to be exactly what the manifest implies, then every member's
 * hash. -1 with ERR_NOT_GENUINE and what exactly was wrong; ERR_ENV when the file cannot be read. */
warn_unused int bundle_open(struct bundle **out, struct bundle_proof *proof, const char *path,
                            const struct sign_key *const *keys, size_t n_keys, struct err *err);
/* The same on bytes in memory, which must outlive the bundle; bundle_sha256 and all else as above. */
warn_unused int bundle_open_bytes(struct bundle **out, struct bundle_proof *proof, const void *data,
                                  size_t len, const struct sign_key *const *keys, size_t n_keys,
                                  struct err *err);
/* The members (decompressed), derived ones too, named as in a run directory. Borrowed from the bundle. */
const struct member_set *bundle_members(const struct bundle *b);
void bundle_close(struct bundle *b);
/* Unpacks a proven bundle's run/ into a new folder (for people who want to look). */
warn_unused int bundle_unpack(const struct bundle *b, const char *dir, struct err *err);

#endif
