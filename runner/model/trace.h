/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded load, replayed. Two forms, told apart by the first character:
 *   JSON lines: one object a line with `timestamp_ms` or `timestamp` (both ms), `input_length`,
 *     `output_length` and optionally `hash_ids` (at most one for each 512 prompt tokens begun; equal ids =
 * equal text); other members are not looked at. CSV (RFC 4180; quotes, CRLF and line breaks in quotes
 * allowed) with a header line; the names are compared without regard to case, other columns are not looked
 * at: time     timestamp_ms (ms); timestamp, arrived_at (s, or "YYYY-MM-DD HH:MM:SS.fff" with up to 9 digits,
 *              T for the blank, and Z or +hh:mm behind it)
 *     prompt   input_length, ContextTokens, num_prefill_tokens, Request tokens
 *     answer   output_length, GeneratedTokens, num_decode_tokens, Response tokens
 * A byte order mark and empty lines are skipped. Times count from the earliest row. Text from outside:
 * bounded, every fault names its line. */
#ifndef MODEL_TRACE_H
#define MODEL_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_BYTES_MAX (1u << 30)
#define TRACE_ROWS_MAX 5000000
#define TRACE_HASHES_MAX 50000000
#define TRACE_TOK_MAX 10000000 /* of a prompt, of an answer */
#define TRACE_DAYS_MAX 366     /* between any row and the first one */
#define TRACE_BLOCK_TOK 512

struct trace_row {
	uint64_t at_ns; /* after the earliest row; ascending, equal times in the order of the file */
	uint64_t prompt_tok, output_tok;
	size_t hash_at, n_hash; /* into trace.hashes */
};
struct trace {
	size_t n; /* 1 or more */
	struct trace_row *rows;
	size_t n_hashes;
	uint64_t *hashes;
	bool sorted_by_us; /* rows were not in order of time */
};
/* ERR_PLAN as "name:line: what". `text` need not end with NUL. */
warn_unused int trace_parse(struct trace *out, const char *text, size_t len, const char *name,
                            struct err *err);
void trace_done(struct trace *t); /* accepts zeroed */

static inline void cleanup_trace(struct trace *t)
{
	trace_done(t);
}
#define auto_trace __attribute__((cleanup(cleanup_trace))) struct trace

#endif
