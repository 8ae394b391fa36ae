/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the plan reader share: shape (plan_shape.c), reading (plan.c, plan_fill.c), meaning
 * (plan_lint.c, plan_candidates.c, plan_workloads.c, plan_criteria.c) and secrets (plan_secret.c). For other
 * modules only plan_shape and PLAN_FILL_IN.
 */
#ifndef MODEL_PLAN_PARTS_H
#define MODEL_PLAN_PARTS_H

#include "model/cell.h"
#include "model/plan.h"

#define PLAN_POINTER_BYTES 256
#define PLAN_CELLS_MAX 4096
#define PLAN_FILL_IN "FILL IN" /* what `init` leaves where only the user knows */

extern const struct jshape plan_shape; /* plans/schema/plan-1.schema.json is printed from it */

/* A document that has the shape -> plan. 0, or -1 without memory. Takes no ownership of `doc`. */
int plan_fill(struct plan *p, const struct cJSON *doc);

/* Meaning and lint: everything that a shape cannot say. */
void plan_lint(const struct plan *p, struct problems *out);
void plan_lint_model(const struct plan *p, struct problems *out);
void plan_lint_candidates(const struct plan *p, struct problems *out);
void plan_lint_workloads(const struct plan *p, struct problems *out);
void plan_lint_lengths(const struct plan *p, const struct plan_workload *w, const char *at,
                       const struct cJSON *o, struct problems *out);
/* Tells when a candidate's engine has no such endpoint. */
void plan_lint_api(const struct plan *p, enum api api, const char *at, struct problems *out);
void plan_lint_criteria(const struct plan *p, struct problems *out);

/* Reports every literal secret of the document and blanks it in the tree, so that no later message can
 * repeat it; reports every PLAN_FILL_IN too. Works on any tree, whether or not it has the shape. */
void plan_secrets(struct cJSON *doc, struct problems *out);

/* "2026-01-31" or a full RFC 3339 time stamp that exists in the calendar. */
bool plan_date_ok(const char *text);
/* "0,2-3": CPU numbers below 4096, ranges ascending, none twice. `set` (4096 bits) may be NULL. */
bool plan_cpus_ok(const char *text, uint64_t set[64]);
/* Words that name something that moves: "latest", "main", "nightly-2026", … */
bool plan_floating(const char *revision);
bool plan_hex(const char *text, size_t digits);

#endif
