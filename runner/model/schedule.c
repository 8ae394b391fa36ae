// SPDX-License-Identifier: Apache-2.0
#include "model/schedule.h"

#include "base/clock.h"

#include <math.h>

uint64_t splitmix64_next(struct splitmix64 *s)
{
	uint64_t z = (s->state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

double splitmix64_unit(struct splitmix64 *s)
{
	return (double)(splitmix64_next(s) >> 11) * 0x1p-53;
}

void schedule_init(struct schedule *s, enum arrival kind, double rate_rps, uint64_t seed)
{
	*s = (struct schedule){ .kind = kind, .rate_rps = rate_rps, .rng = { .state = seed } };
}

// Past 584 years the schedule has ended; the caller's own end comes long before.
static uint64_t to_ns(double s)
{
	return s < 1.8e10 ? (uint64_t)llround(s * (double)NS_PER_S) : UINT64_MAX;
}

uint64_t schedule_next_ns(struct schedule *s)
{
	if (s->kind == ARRIVAL_POISSON) {
		s->next_s += -log1p(-splitmix64_unit(&s->rng)) / s->rate_rps;
		s->k++;
		return to_ns(s->next_s);
	}
	return to_ns((double)s->k++ / s->rate_rps);
}
