/* SPDX-License-Identifier: Apache-2.0 */
/* Members as single zstd frames. */
#ifndef STORE_PACK_H
#define STORE_PACK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* *out = NULL when packing is not smaller, or would look like a bomb to a reader: the member stays plain. */
warn_unused int pack_zst(uint8_t **out, size_t *out_len, const void *data, size_t len, struct err *err);
/* Exactly one frame without dictionary that says and holds `raw_len` bytes. ERR_NOT_GENUINE. */
warn_unused int unpack_zst(uint8_t **out, const void *data, size_t len, size_t raw_len, const char *name,
                           struct err *err);

#endif
