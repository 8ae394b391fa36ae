/* SPDX-License-Identifier: Apache-2.0 */
/* The one form of an archive header in our bundles (proofmark-bundle(5)): a name and a size give all 512
 * bytes, so reading is comparing. */
#ifndef STORE_USTAR_H
#define STORE_USTAR_H

#include <stddef.h>
#include <stdint.h>

#define USTAR_BLOCK_BYTES 512u
#define USTAR_NAME_BYTES_MAX 100u
#define USTAR_SIZE_MAX 077777777777ull

/* 0, or -1 when the name is empty or over 100 bytes, or the size needs more than 11 octal digits. */
int ustar_header(uint8_t out[USTAR_BLOCK_BYTES], const char *name, uint64_t size_bytes);
/* The size as written, -1 when it is not 11 octal digits and a blank. Proves nothing else. */
int ustar_size(uint64_t *size_bytes, const uint8_t header[USTAR_BLOCK_BYTES]);
/* Bytes of padding behind `size_bytes` of data. */
size_t ustar_padding(uint64_t size_bytes);
/* In words which field of `got` is not as in `want` (which must differ). Static text. */
const char *ustar_difference(const uint8_t got[USTAR_BLOCK_BYTES], const uint8_t want[USTAR_BLOCK_BYTES]);

#endif
