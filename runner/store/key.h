/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a key: for key.c and dsse.c only; everyone else sees store/sign.h. */
#ifndef STORE_KEY_H
#define STORE_KEY_H

#include "base/hash.h"
#include "store/sign.h"

#include <openssl/evp.h>

#define KEY_FILE_BYTES_MAX (64u << 10)
#define SIG_BYTES_MAX 256

struct sign_key {
	EVP_PKEY *pkey;
	char id[SHA256_HEX_BYTES];
	bool is_ed25519; /* else ECDSA P-256 with SHA-256, signatures in DER */
	bool has_private;
	bool is_test;
};

/* Raw signatures over `data`. `key_verify` is true only for a good one. */
warn_unused int key_sign(uint8_t sig[SIG_BYTES_MAX], size_t *sig_len, const struct sign_key *k,
                         const void *data, size_t len, struct err *err);
bool key_verify(const struct sign_key *k, const uint8_t *sig, size_t sig_len, const void *data, size_t len);

#endif
