/* SPDX-License-Identifier: Apache-2.0 */
/* cosign signatures made with a key: "simple signing" payloads (sigstore/cosign specs/SIGNATURE_SPEC.md), and
 * the sigstore bundle that cosign 3 writes (DSSE over an in-toto statement). Only keys: no certificates, no
 * transparency log. Pure but for the key's file. */
#ifndef PIN_COSIGN_H
#define PIN_COSIGN_H

#include "base/err.h"
#include "base/hash.h"
#include "pin/oci.h"

#define COSIGN_TYPE_PAYLOAD "application/vnd.dev.cosign.simplesigning.v1+json"
#define COSIGN_TYPE_ARTIFACT "application/vnd.dev.cosign.artifact.sig.v1+json"
#define COSIGN_TYPE_BUNDLE "application/vnd.dev.sigstore.bundle" /* and a version behind it */
#define COSIGN_PAYLOAD_BYTES_MAX (64u << 10)
#define COSIGN_BUNDLE_BYTES_MAX (1u << 20)
#define COSIGN_SIGNATURES_MAX 50

struct cosign_key;
/* A public key in PEM, ECDSA P-256 or Ed25519. ERR_PLAN. */
warn_unused int cosign_key_load(struct cosign_key **out, const char *path, struct err *err);
warn_unused int cosign_key_parse(struct cosign_key **out, const char *pem, size_t len, const char *name,
                                 struct err *err);
void cosign_key_free(struct cosign_key *k);            /* accepts NULL */
const char *cosign_key_id(const struct cosign_key *k); /* SHA-256 of the key's DER form, hex */

/* NULL when `signature` (base64) over `payload` is by the key and the payload names exactly `digest`; else
 * why not: static text. Nothing of a payload is read before its signature is known to be good. */
const char *cosign_payload_fault(const struct cosign_key *k, const char *signature, const void *payload,
                                 size_t len, const char *digest);
const char *cosign_bundle_fault(const struct cosign_key *k, const void *bundle, size_t len,
                                const char *digest);

/* "sha256-HEX.sig" */
void cosign_tag(char out[OCI_DIGEST_BYTES + 8], const char *digest);

#endif
