/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a run: exact prompt lengths by the server's own tokenizer, unique from the first word on
 * unless the plan wants a shared prefix, the same bytes for the same plan and tokenizer. */
#ifndef TRIAL_PROMPTS_H
#define TRIAL_PROMPTS_H

#include "engine/engine.h"
#include "load/load.h"
#include "model/cell.h"

/* SHA-256 of everything in the plan that decides the requests' text: recipe number, word list, controls,
 * seeds, sampling. Needs no server. */
void prompts_recipe_sha256(const struct plan *p, char hex[65]);

struct prompts; /* word list fitted to one server's tokenizer */
struct prompts_spec {
	const struct plan *plan;
	const struct plan_candidate *cand;
	const struct engine_ops *ops;
	struct http_client *http; /* borrowed; used while preparing only */
	const char *model_name;   /* to send, NULL = none */
	const char *plan_dir;
};
warn_unused int prompts_open(struct prompts **out, const struct prompts_spec *spec, struct err *err);
void prompts_free(struct prompts *p);
/* False: the server shows no tokenizer, so lengths are words, not tokens, and said to be so. */
bool prompts_exact(const struct prompts *p);
size_t prompts_n_words(const struct prompts *p);

struct cell_bodies; /* the requests of one cell */
/* Fits the length and makes the first bodies (all, where they fit in 256 MiB). `warmup` draws from another
 * stream, so that no measured prompt was seen before. ERR_PLAN when the context cannot be reached (template
 * alone is longer). */
warn_unused int cell_bodies_open(struct cell_bodies **out, const struct prompts *p, const struct cell *cell,
                                 bool warmup, struct err *err);
void cell_bodies_free(struct cell_bodies *b);
/* load_source.get: makes what is not there yet. NULL without memory. */
const struct load_request *cell_bodies_get(void *ctx, uint64_t k);
uint64_t cell_bodies_count(const struct cell_bodies *b); /* made so far */

/* One control's body. */
warn_unused int control_body(struct buf *out, const struct prompts_spec *spec, const struct plan_control *c,
                             struct err *err);

#endif
