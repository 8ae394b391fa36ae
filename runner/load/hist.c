/* SPDX-License-Identifier: Apache-2.0 */
#include "load/hist.h"

#include <math.h>

#define STEPS (1u << HIST_STEP_BITS)

static unsigned cell_of(uint64_t ns)
{
	if (ns < STEPS)
		return (unsigned)ns;
	unsigned octave = 63 - (unsigned)__builtin_clzll(ns) - HIST_STEP_BITS;
	if (octave >= HIST_OCTAVES)
		return HIST_CELLS - 1;
	return ((octave + 1) << HIST_STEP_BITS) + (unsigned)(ns >> octave) - STEPS;
}

static uint64_t middle_of(unsigned cell)
{
	if (cell < STEPS)
		return cell;
	unsigned octave = (cell >> HIST_STEP_BITS) - 1;
	uint64_t low = (uint64_t)((cell & (STEPS - 1)) + STEPS) << octave;
	return low + ((1ull << octave) >> 1);
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->n++;
	h->cells[cell_of(ns)]++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	into->n += from->n;
	for (unsigned i = 0; i < HIST_CELLS; i++)
		into->cells[i] += from->cells[i];
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
}

uint64_t hist_quantile_ns(const struct hist *h, double p)
{
	uint64_t rank = (uint64_t)ceil((double)h->n * p), seen = 0;
	if (h->n == 0)
		return UINT64_MAX;
	if (rank < 1)
		rank = 1;
	if (rank >= h->n)
		return h->max_ns;
	for (unsigned i = 0; i < HIST_CELLS; i++) {
		seen += h->cells[i];
		if (seen >= rank)
			return middle_of(i) < h->max_ns ? middle_of(i) : h->max_ns;
	}
	return h->max_ns;
}
