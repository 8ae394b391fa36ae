/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded schedules: the same plan gives the same times, here and in any other program (statistics.md 4, 5).
 */
#ifndef MODEL_SCHEDULE_H
#define MODEL_SCHEDULE_H

#include "model/plan.h"

struct splitmix64 {
	uint64_t state;
};
uint64_t splitmix64_next(struct splitmix64 *s);
double splitmix64_unit(struct splitmix64 *s); /* (x >> 11) / 2^53, in [0, 1) */

struct schedule { /* open loop */
	enum arrival kind;
	double rate_rps;
	struct splitmix64 rng;
	double next_s;
	uint64_t k;
};
void schedule_init(struct schedule *s, enum arrival kind, double rate_rps, uint64_t seed);
/* Due time of the next request, ns after the cell's start. Constant: k/rate. Poisson: gaps -ln(1-u)/rate, the
 * first request after the first gap. */
uint64_t schedule_next_ns(struct schedule *s);

#endif
