/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of latency metrics, one place for all who use them. Times are ns on one clock; REC_NONE
 * (UINT64_MAX) in or out means unknown, never 0. A request ends at its last token event: neither the usage
 * event nor the close counts. The first token makes TTFT and no gap. */
#ifndef MODEL_METRICS_CALC_H
#define MODEL_METRICS_CALC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* later - earlier; REC_NONE when either is unknown or the order is wrong. */
uint64_t span_ns(uint64_t earlier_ns, uint64_t later_ns);
/* (last token - first token) / (output tokens - 1); NAN for unknown times or counts and for one token. */
double tpot_ns(uint64_t first_token_ns, uint64_t last_token_ns, uint64_t output_tok);
/* The same in whole ns, halves away from 0; REC_NONE for unknown. */
uint64_t tpot_whole_ns(uint64_t first_token_ns, uint64_t last_token_ns, uint64_t output_tok);
/* From the due time to the last token event, or to the end of an answer that has none (not streamed). */
uint64_t e2e_ns(uint64_t due_ns, uint64_t last_token_ns, uint64_t end_ns);
/* Adds to a sum that one unknown value, or one too many, makes unknown for good. */
void sum_known(uint64_t *sum, uint64_t v);
/* Gaps between token events: times[0..n) -> gaps[0..n-1). Returns how many (0 for n < 2). */
size_t gaps_of_times(const uint64_t *times_ns, size_t n, uint64_t *gaps_ns);

/* Output length: by the server's usage; the tokenizer's count only where usage is missing, and then marked.
 * Reasoning tokens are part of the output; more of them than output is a contradiction and unknown. */
enum tok_source { TOK_UNKNOWN, TOK_USAGE, TOK_TOKENIZER };
struct tok_count {
	enum tok_source source;
	uint64_t output_tok, reasoning_tok; /* REC_NONE = unknown */
	bool reasoning_contradicts;
};
struct tok_count output_tokens(uint64_t usage_output_tok, uint64_t usage_reasoning_tok, uint64_t retokenised);

/* Mean and median (mean of the two in the middle) of values; NAN for none. Sorts in place. */
double mean_u64(const uint64_t *v, size_t n);
double median_u64(uint64_t *v, size_t n);
void sort_u64(uint64_t *v, size_t n);

#endif
