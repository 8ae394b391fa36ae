/* SPDX-License-Identifier: Apache-2.0 */
/* What every reader of signatures needs: which key it is, whether a signature is by it, and the bytes that a
 * DSSE envelope signs. Whose keys and which envelopes are trusted is the caller's business. */
#ifndef BASE_PUBKEY_H
#define BASE_PUBKEY_H

#include "base/buf.h"
#include "base/hash.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool pubkey_is_p256(EVP_PKEY *key);
/* SHA-256 of the DER SubjectPublicKeyInfo; false when the key cannot be encoded. */
bool pubkey_id(EVP_PKEY *key, char hex[SHA256_HEX_BYTES]);
/* `md` NULL for Ed25519. Leaves nothing in OpenSSL's error queue. */
bool pubkey_verify(EVP_PKEY *key, const EVP_MD *md, const uint8_t *sig, size_t sig_len, const void *data,
                   size_t len);
/* DSSE 1.0.2, pre-authentication encoding: "DSSEv1" SP len(type) SP type SP len(body) SP body. Nonzero
 * without memory or over the bound of `out`. */
int dsse_pae(struct buf *out, const char *type, const void *body, size_t len);

#endif
