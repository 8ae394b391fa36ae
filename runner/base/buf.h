/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a maximum given at birth. Adding past the maximum (or without memory) sets
 * `failed`, keeps what was there, and every later add fails too, so one check at the end is enough.
 * `p` is always NUL-terminated once anything was added. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;
	size_t len;
	size_t cap;
	size_t max_bytes;
	bool failed;
};

#define BUF_INIT(max)                                                                                        \
	{                                                                                                    \
		.max_bytes = (max)                                                                           \
	}

void buf_init(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);  /* accepts zeroed */
void buf_clear(struct buf *b); /* keeps the memory */
int buf_add(struct buf *b, const void *data, size_t len);
int buf_adds(struct buf *b, const char *s);
int buf_addc(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text, owned by the caller (free); the buffer is empty afterwards. NULL when failed. */
char *buf_steal(struct buf *b);

/* malloc'd printf, NULL without memory. */
char *str_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
