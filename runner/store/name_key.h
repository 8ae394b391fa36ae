/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode keys of a name: equal keys mean that some file system takes the names for the same. */
#ifndef STORE_NAME_KEY_H
#define STORE_NAME_KEY_H

#include "base/buf.h"

/* Next code point at *at (moved on), or -1 when the bytes are not UTF-8. */
int32_t utf8_next(const char *text, size_t len, size_t *at);
/* Appends 4 bytes a code point. The text is UTF-8. */
int name_key_nfd(struct buf *out, const char *text, size_t len);
int name_key_folded(struct buf *out, const char *text, size_t len); /* NFD of case folding of NFD */

#endif
