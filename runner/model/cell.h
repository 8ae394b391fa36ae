/* SPDX-License-Identifier: Apache-2.0 */
/* A cell: one workload at one context length and one load. Derived from the plan alone and always in the same
 * order, so that the run, the report and a stranger name the same thing. */
#ifndef MODEL_CELL_H
#define MODEL_CELL_H

#include "model/plan.h"

#define CELL_ID_BYTES 160

/* Name: WORKLOAD/LENGTHS/LOAD, the load always last.
 *   lengths  "32in/16out"; several turns "32in/16out/4turns"; a mix "mix" ("mix/4turns"); a trace has none
 *   load     closed loop "c8"; "constant2", "poisson2.5", "gamma2.5-b0.5", "ramp1-20"; "trace", at another
 *            speed "trace-x2" */
struct cell {
	char id[CELL_ID_BYTES]; /* "chat/32in/16out/c1"; open loop "chat/32in/16out/poisson2.5" */
	const struct plan_workload *wl;
	uint64_t prompt_tok, output_tok; /* 0 = of the mix or the trace */
	uint64_t concurrency;            /* open loop: most in flight, 0 = unbounded */
	double rate_rps;   /* open loop: of its arrivals, with conversations of their first turns; a ramp's at
	                      its start; 0 = closed loop or trace */
	uint64_t requests; /* 0 = by duration; trace: most rows, 0 = all */
	double duration_s; /* 0 = by requests; trace: of the schedule, 0 = the whole */
	bool critical;     /* the one cell that decides the purchase */
};

/* All cells of the plan: workloads in plan order, contexts ascending, then rates or concurrencies ascending,
 * the critical cell where it falls. Returns malloc'd array (free) and count; NULL only without memory. */
struct cell *cells_of_plan(const struct plan *p, size_t *n);
/* Of one workload: how many. */
size_t cells_of_workload(const struct plan_workload *w);

#endif
