// SPDX-License-Identifier: Apache-2.0
#include "model/metrics_calc.h"

#include "model/record.h"

#include <math.h>
#include <stdlib.h>

uint64_t span_ns(uint64_t earlier_ns, uint64_t later_ns)
{
	if (earlier_ns == REC_NONE || later_ns == REC_NONE || later_ns < earlier_ns)
		return REC_NONE;
	return later_ns - earlier_ns;
}

double tpot_ns(uint64_t first_token_ns, uint64_t last_token_ns, uint64_t output_tok)
{
	uint64_t span = span_ns(first_token_ns, last_token_ns);
	if (span == REC_NONE || output_tok == REC_NONE || output_tok < 2)
		return (double)NAN;
	return (double)span / (double)(output_tok - 1);
}

uint64_t tpot_whole_ns(uint64_t first_token_ns, uint64_t last_token_ns, uint64_t output_tok)
{
	double t = tpot_ns(first_token_ns, last_token_ns, output_tok);
	return isfinite(t) && t >= 0 ? (uint64_t)llround(t) : REC_NONE;
}

uint64_t e2e_ns(uint64_t due_ns, uint64_t last_token_ns, uint64_t end_ns)
{
	return span_ns(due_ns, last_token_ns != REC_NONE ? last_token_ns : end_ns);
}

void sum_known(uint64_t *sum, uint64_t v)
{
	if (*sum != REC_NONE && (v == REC_NONE || __builtin_add_overflow(*sum, v, sum)))
		*sum = REC_NONE;
}

size_t gaps_of_times(const uint64_t *times_ns, size_t n, uint64_t *gaps_ns)
{
	for (size_t i = 1; i < n; i++)
		gaps_ns[i - 1] = times_ns[i] - times_ns[i - 1];
	return n < 2 ? 0 : n - 1;
}

struct tok_count output_tokens(uint64_t usage_output_tok, uint64_t usage_reasoning_tok, uint64_t retokenised)
{
	struct tok_count c = { .output_tok = REC_NONE, .reasoning_tok = REC_NONE };
	if (usage_output_tok != REC_NONE) {
		c.source = TOK_USAGE;
		c.output_tok = usage_output_tok;
		c.reasoning_contradicts =
			usage_reasoning_tok != REC_NONE && usage_reasoning_tok > usage_output_tok;
		if (!c.reasoning_contradicts)
			c.reasoning_tok = usage_reasoning_tok;
	} else if (retokenised != REC_NONE) {
		c.source = TOK_TOKENIZER;
		c.output_tok = retokenised;
	}
	return c;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void sort_u64(uint64_t *v, size_t n)
{
	if (n)
		qsort(v, n, sizeof *v, by_value);
}

double mean_u64(const uint64_t *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)v[i];
	return n ? sum / (double)n : (double)NAN;
}

double median_u64(uint64_t *v, size_t n)
{
	if (!n)
		return (double)NAN;
	sort_u64(v, n);
	return n % 2 ? (double)v[n / 2] : ((double)v[n / 2 - 1] + (double)v[n / 2]) / 2;
}
