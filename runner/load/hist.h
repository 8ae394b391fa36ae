/* SPDX-License-Identifier: Apache-2.0 */
/* A fixed log-linear histogram of ns: 128 steps an octave, so a quantile read from it is within 0.4 % (the
 * largest value is exact). For lags and for progress; what decides is computed from the records. */
#ifndef LOAD_HIST_H
#define LOAD_HIST_H

#include <stdint.h>

#define HIST_STEP_BITS 7
#define HIST_OCTAVES 44 /* up to 2^(44+7-1) ns = 13 days; more counts as that */
#define HIST_CELLS ((HIST_OCTAVES + 1) << HIST_STEP_BITS)

struct hist {
	uint64_t n, max_ns;
	uint32_t cells[HIST_CELLS];
};

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *from);
/* Nearest rank; UINT64_MAX when empty. */
uint64_t hist_quantile_ns(const struct hist *h, double p);

#endif
