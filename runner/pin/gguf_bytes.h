/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of gguf: a bounded reader of one file, forward only, through a window. */
#ifndef PIN_GGUF_BYTES_H
#define PIN_GGUF_BYTES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GGUF_WINDOW_BYTES = 1 << 16 };

struct gguf_bytes {
	int fd;
	const char *name;
	struct err *err;
	uint64_t at, size; /* of the next byte, of the file */
	uint64_t window_at;
	size_t window_len;
	uint64_t steps;
	bool big_endian;
	uint8_t window[GGUF_WINDOW_BYTES];
};

/* All return -1 with *err filled. */
int gguf_damaged(struct gguf_bytes *r, const char *what);
int gguf_skip(struct gguf_bytes *r, uint64_t n);
int gguf_take(struct gguf_bytes *r, void *out, size_t n);
int gguf_take_uint(struct gguf_bytes *r, size_t n, uint64_t *out);
/* malloc'd, NUL-terminated; a length above `max` or a NUL inside is damage. */
int gguf_take_text(struct gguf_bytes *r, char **out, size_t max);
uint64_t gguf_left(const struct gguf_bytes *r);

#endif
