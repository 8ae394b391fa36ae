/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON text a line (NDJSON, JSON Lines), by bytes: lines end at LF, a CR before it belongs to the end,
 * blank lines say nothing. A line that lies in one read is given out where it lies, without a copy. The last
 * line may lack its LF: nd_rest gives it once the body has ended.
 *
 *   nd_feed(&n, bytes, len);
 *   while (nd_next(&n, &line, &line_len) == ND_LINE) …      `bytes` must stay until nd_next says ND_MORE
 */
#ifndef LOAD_NDJSON_H
#define LOAD_NDJSON_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ND_LINE_BYTES_MAX (1u << 20) /* default bound of one line */

enum nd_step {
	ND_MORE, /* feed again */
	ND_LINE, /* *line is filled, never blank; valid until the next call of nd_next or nd_feed */
	ND_LONG, /* a line is over the bound: the stream cannot be read on */
};

struct ndjson {
	const char *p, *end; /* what is left of the read */
	struct buf line;     /* a line whose end has not come */
	bool clear_line;     /* `line` was given out */
	bool too_long;
	uint64_t n_lines, n_blank;
	size_t max_line_bytes;
};

void nd_init(struct ndjson *n, size_t max_line_bytes);
void nd_done(struct ndjson *n);
void nd_reset(struct ndjson *n); /* a new stream; keeps the buffer */
void nd_feed(struct ndjson *n, const char *bytes, size_t len);
enum nd_step nd_next(struct ndjson *n, const char **line, size_t *len);
/* What came behind the last LF. False when that is nothing, or blank. */
bool nd_rest(const struct ndjson *n, const char **line, size_t *len);

#endif
