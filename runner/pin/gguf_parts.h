/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of gguf. */
#ifndef PIN_GGUF_PARTS_H
#define PIN_GGUF_PARTS_H

#include "pin/gguf.h"
#include "pin/gguf_bytes.h"

/* Appends room for one more element to a list that grows by halves; -1 without memory. */
int gguf_grow(void *list_ptr, size_t n, size_t *room, size_t elem_bytes);
/* The infos of `n` tensors, and where their data lies. */
int gguf_read_tensors(struct gguf *g, struct gguf_bytes *r, uint64_t n);
/* Offsets follow each other and the file holds them all. */
int gguf_check_layout(struct gguf *g, struct gguf_bytes *r);

#endif
