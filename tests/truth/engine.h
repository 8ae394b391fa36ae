/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted engine as a child of a test, and what it says it did. */
#ifndef TESTS_TRUTH_ENGINE_H
#define TESTS_TRUTH_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TRUTH_TOK_MAX 512

struct truth { /* one completion; CLOCK_MONOTONIC ns, 0 = did not happen */
	uint64_t prompt_tok, recv_ns, start_ns, n_tok, tok_ns[TRUTH_TOK_MAX];
};

struct engine {
	pid_t pid;
	char url[64];
	char truth_file[64];
	size_t n_truth;
	struct truth *truth;
};

/* `args` are its options, split at blanks. -1 when it does not serve within 10 s. */
int engine_start(struct engine *e, const char *program, const char *args);
/* Ends it and reads its account. */
int engine_stop(struct engine *e);
void engine_free(struct engine *e);
/* The completion whose prompt has that many tokens, or NULL. */
const struct truth *engine_truth(const struct engine *e, uint64_t prompt_tok);

#endif
