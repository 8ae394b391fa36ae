/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a run: exact prompt lengths by the server's own tokenizer, unique from the first word on
 * unless the plan wants a shared prefix, the same bytes for the same plan and tokenizer. */
#ifndef TRIAL_PROMPTS_H
#define TRIAL_PROMPTS_H

#include "engine/engine.h"
#include "load/load.h"
#include "model/cell.h"
#include "model/schedule.h"
#include "model/surface.h"

/* SHA-256 of everything in the plan that decides the requests: recipe number, word list, controls, lengths,
 * arrivals with their seeds, sampling. Needs no server and no file: corpora and traces are in the lock. */
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

struct cell_bodies;       /* the requests of one cell */
struct cell_bodies_spec { /* all borrowed as long as the bodies live */
	const struct prompts *prompts;
	const struct cell *cell;
	const struct sched *sched;
	const struct trace *trace; /* NULL = none */
	bool warmup;               /* draws from another stream, so that no measured prompt was seen before */
};
/* Fits the lengths and makes the first bodies (all, where they fit in 256 MiB). ERR_PLAN when the context
 * cannot be reached (template alone is longer). */
warn_unused int cell_bodies_open(struct cell_bodies **out, const struct cell_bodies_spec *spec,
                                 struct err *err);
/* Around the load: a thread of ours makes what is not there yet, and until `end` it may ask the tokenizer.
 * `end` fails when a body could not be made: then the load ended too early. */
warn_unused int cell_bodies_begin(struct cell_bodies *b, struct err *err);
warn_unused int cell_bodies_end(struct cell_bodies *b, struct err *err);
void cell_bodies_free(struct cell_bodies *b);
/* load_source. get NULL: the schedule ends, or the body could not be made (`end` says why). follow NULL: the
 * conversation ends: its last turn, or one that did not end well. */
const struct load_request *cell_bodies_get(void *ctx, uint64_t g);
const struct load_request *cell_bodies_follow(void *ctx, const struct load_request *ended,
                                              const struct record *rec, const char *text, size_t text_len);
void cell_bodies_done(void *ctx, const struct load_request *ended);
/* From the sink: request k has a record, so its body was sent. */
int cell_bodies_sent(struct cell_bodies *b, uint64_t k);
/* Requests of the schedule up to the last one that was asked for. */
uint64_t cell_bodies_begun(const struct cell_bodies *b);
/* Of the prompts' text. */
script_set cell_bodies_scripts(const struct cell_bodies *b);
/* After `end`: a line of prompts.jsonl for each body sent, in the order of k. -1 when `put` fails. */
int cell_bodies_list(struct cell_bodies *b, int (*put)(void *ctx, const char *line, size_t len), void *ctx);
/* About how long a body of this cell is, without asking anybody. */
uint64_t cell_body_bytes(const struct prompts *p, const struct cell *cell, const struct trace *trace);

/* One control's body. */
warn_unused int control_body(struct buf *out, const struct prompts_spec *spec, const struct plan_control *c,
                             struct err *err);

#endif
