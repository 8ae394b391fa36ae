/* SPDX-License-Identifier: Apache-2.0 */
/* A cell: one workload at one context length and one concurrency. Derived from the plan alone and always in
 * the same order, so that the run, the report and a stranger name the same thing. */
#ifndef MODEL_CELL_H
#define MODEL_CELL_H

#include "model/plan.h"

#define CELL_ID_BYTES 160

struct cell {
	char id[CELL_ID_BYTES]; /* "chat/32in/16out/c1"; open loop "chat/32in/16out/poisson2.5" */
	const struct plan_workload *wl;
	uint64_t prompt_tok, output_tok;
	uint64_t concurrency; /* open loop: most in flight, 0 = unbounded */
	uint64_t requests;    /* 0 = by duration */
	double duration_s;    /* 0 = by requests */
	bool critical;        /* the one cell that decides the purchase */
};

/* All cells of the plan: workloads in plan order, contexts ascending, concurrencies ascending, the critical
 * cell where it falls. Returns malloc'd array (free) and count; NULL only without memory. */
struct cell *cells_of_plan(const struct plan *p, size_t *n);

#endif
