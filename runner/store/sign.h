/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and DSSE envelopes: Ed25519 (ours), ECDSA P-256 accepted for verification, PEM, OpenSSL 3. keyid =
 * SHA-256 of the SubjectPublicKeyInfo (DER), hex. */
#ifndef STORE_SIGN_H
#define STORE_SIGN_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>

struct sign_key;
/* A new Ed25519 key: `path` (private PKCS#8 PEM, 0600, encrypted when passphrase != NULL) and `path`.pub
 * (SPKI PEM). Refuses to overwrite. `test_only` writes a PEM header comment "proofmark TEST ONLY key" that
 * marks it as such. */
warn_unused int key_new(const char *path, const char *passphrase, bool test_only, struct err *err);
/* Private key. Passphrase NULL = none; a protected key without one is ERR_USAGE that names the option. */
warn_unused int key_load_private(struct sign_key **out, const char *path, const char *passphrase,
                                 struct err *err);
warn_unused int key_load_public(struct sign_key **out, const char *path, struct err *err);
void key_free(struct sign_key *k);
const char *key_id(const struct sign_key *k);
const char *key_algorithm(const struct sign_key *k);           /* "Ed25519" or "ECDSA P-256" */
int key_public_pem(struct buf *out, const struct sign_key *k); /* SPKI PEM */
bool key_is_test(const struct sign_key *k); /* a TEST ONLY key of ours: by comment or by well-known keyid */

/* Our one serialisation: {"payload":…,"payloadType":…,"signatures":[{"keyid":…,"sig":…}]} and a newline. */
warn_unused int dsse_sign(struct buf *out, const char *type, const void *body, size_t len,
                          const struct sign_key *k, struct err *err);
/* Verifies that at least one signature is by one of `keys`; keyid is only a hint. *payload = exactly the
 * verified bytes. `strict`: ours, one serialisation, byte for byte; else foreign (URL-safe base64, unknown
 * fields allowed). ERR_NOT_GENUINE. `*which` = index of the key that verified. */
warn_unused int dsse_verify(struct buf *payload, size_t *which, const char *text, size_t len,
                            const char *type, bool strict, const struct sign_key *const *keys, size_t n_keys,
                            struct err *err);

#endif
