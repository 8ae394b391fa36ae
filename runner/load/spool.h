/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a thread until the cell has ended: the first 64 MiB stay in memory, what comes behind them goes
 * in small writes to a file without a name. One writer; read only when all writers have ended. */
#ifndef LOAD_SPOOL_H
#define LOAD_SPOOL_H

#include "load/load.h"

#define SPOOL_MEMORY_BYTES (64u << 20)

struct spool;
struct spool *spool_new(size_t memory_bytes); /* NULL without memory */
void spool_free(struct spool *sp);
/* -1: not kept, errno says why (ENOSPC, ENOMEM …). `text` may be NULL. */
warn_unused int spool_put(struct spool *sp, const struct record *rec, const uint8_t *tokens,
                          size_t tokens_len, const char *text, size_t text_len);
/* Gives the records of all to the sink, ordered by (end_ns, k). -1: the sink, the file or memory failed; the
 * sink got those before. */
warn_unused int spool_merge(struct spool *const *all, size_t n, const struct load_sink *sink);

#endif
