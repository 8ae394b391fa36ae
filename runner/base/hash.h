/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by libcrypto. Hex is 64 lower-case digits plus NUL. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX_BYTES 65

struct sha256;                   /* a running hash */
struct sha256 *sha256_new(void); /* aborts without memory: nothing sensible is left to do */
void sha256_free(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t len);
void sha256_end(struct sha256 *h, uint8_t out[SHA256_BYTES]); /* the hash can be used again afterwards */

void sha256_of(const void *data, size_t len, uint8_t out[SHA256_BYTES]);
void sha256_hex_of(const void *data, size_t len, char hex[SHA256_HEX_BYTES]);
void hex_encode(const uint8_t *data, size_t len, char *out); /* 2*len+1 bytes */
bool sha256_hex_ok(const char *hex);                         /* exactly 64 lower-case hex digits */
/* Streams the file behind `fd` from its start. `*n_bytes` may be NULL. */
warn_unused int sha256_fd(char hex[SHA256_HEX_BYTES], uint64_t *n_bytes, int fd, const char *name,
                          struct err *err);
warn_unused int sha256_file(char hex[SHA256_HEX_BYTES], uint64_t *n_bytes, const char *path, struct err *err);

/* Strict standard base64 with padding and no line breaks. Encoders return malloc'd text. */
char *base64_encode(const void *data, size_t len);
/* Returns malloc'd bytes and their count, or NULL when the text is not strictly base64.
 * `url_safe_too`: also '-' '_' and missing padding (foreign DSSE envelopes). */
uint8_t *base64_decode(const char *text, size_t len, bool url_safe_too, size_t *n_out);

#endif
