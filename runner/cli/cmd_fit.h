/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `proofmark fit` share: one candidate as the arithmetic of model/fit.h wants it, with the
 * source of every number. */
#ifndef CLI_CMD_FIT_H
#define CLI_CMD_FIT_H

#include "model/fit.h"
#include "model/plan.h"
#include "pin/model_facts.h"

#include <stdio.h>

enum { FIT_NOTES_MAX = 12, FIT_LINE = 240 };

/* From the command line. */
struct fit_asked {
	uint64_t gpu_bytes, memory_bytes; /* FIT_UNKNOWN = not given */
	char gpu_source[FIT_LINE];
	uint64_t gpus; /* 0 = not given */
};

struct fit_row {
	const struct plan_workload *wl;
	uint64_t context_tok, concurrency; /* FIT_UNKNOWN = the plan does not tell */
	uint64_t kv_asked_bytes;           /* for these tokens alone; FIT_UNKNOWN */
	bool has_need;
	struct fit_need need;
	enum fit_answer answer;
	char reason[FIT_LINE]; /* of an answer "no" or "unknown"; "" = the numbers say it */
	uint64_t largest_context_tok, largest_concurrency; /* FIT_UNKNOWN */
};

struct fit_case {
	const struct plan_candidate *c;
	const struct model_facts *facts;
	bool is_cpu;
	struct fit_setup setup;
	struct fit_weights weights;
	struct kv_model kv; /* as the engine keeps it; no layers = unknown */
	uint64_t device_weights_bytes, token_bytes, memory_bytes; /* FIT_UNKNOWN */
	uint64_t gpus, slots;                                     /* slots 0 = not told */
	bool has_numbers; /* the needs can be computed; the memory may still be unknown */
	bool unified;     /* the slots share what is taken at the start */
	char key_type[32], value_type[32], kv_source[FIT_LINE];
	char memory_source[FIT_LINE], usable_source[FIT_LINE], ahead_source[FIT_LINE];
	const char *overhead_source;
	char unknown[FIT_LINE]; /* why nothing can be said */
	char adds[FIT_LINE];    /* what takes memory that is not counted: "no" stays, all else is unknown */
	char refused[FIT_LINE]; /* why it cannot fit whatever the numbers are */
	size_t n_notes;
	char notes[FIT_NOTES_MAX][FIT_LINE];
	size_t n_rows;
	struct fit_row *rows;
	enum fit_answer answer; /* the worst row: no, unknown, tight, fits */
};

/* Everything but the rows. False without memory. */
bool fit_case_read(struct fit_case *out, const struct plan *p, const struct plan_candidate *c,
                   const struct model_facts *facts, const struct fit_asked *asked);
void fit_case_done(struct fit_case *k);
/* The loads of the plan, each once, and their answers. False without memory. */
bool fit_case_judge(struct fit_case *k, const struct plan *p);

void fit_print(const struct fit_case *k);
struct json_out;
void fit_write(struct json_out *o, const struct fit_case *k);

#endif
