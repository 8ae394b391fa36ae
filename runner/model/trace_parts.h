/* SPDX-License-Identifier: Apache-2.0 */
/* What the two readers of traces share. */
#ifndef MODEL_TRACE_PARTS_H
#define MODEL_TRACE_PARTS_H

#include "model/trace.h"

struct trace_reader {
	const char *text, *name;
	size_t len, at, line; /* line from 1: the one a message names */
	struct err *err;
	struct trace t;
	size_t rows_cap, hashes_cap;
	int64_t first_ns; /* time of the first row, from an epoch of its own */
};

/* "name:line: …", ERR_PLAN, -1. */
int trace_bad(struct trace_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whole and fraction of a number of ms or s -> ns. false = not finite, below 0 or above 10^13. */
bool trace_ns_of(double number, int64_t unit_ns, int64_t *out);
/* A length from outside, `what` for the message. */
int trace_tok_of(struct trace_reader *r, const char *what, double number, uint64_t *out);
int trace_add_row(struct trace_reader *r, int64_t at_ns, uint64_t prompt_tok, uint64_t output_tok);

int trace_read_csv(struct trace_reader *r);

#endif
