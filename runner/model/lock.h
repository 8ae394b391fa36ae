/* SPDX-License-Identifier: Apache-2.0 */
/* The lock: what the world was when the plan was frozen, byte by byte. `lock` writes it, `run` looks again
 * and refuses when anything differs, naming each difference. Form: plan.lock.json of proofmark-bundle(5). */
#ifndef MODEL_LOCK_H
#define MODEL_LOCK_H

#include "base/buf.h"
#include "model/plan.h"

#define LOCK_BYTES_MAX (16u << 20)
#define LOCK_SCHEMA_VERSION 1

enum lock_role {
	LOCK_MODEL,
	LOCK_PROGRAM,
	LOCK_INTERPRETER,
	LOCK_ARGUMENT,
	LOCK_MAPPED,
	LOCK_CORPUS,
	N_LOCK_ROLES
};
extern const char *const lock_role_words[]; /* "model" "program" "interpreter" "argument" "mapped" "corpus" */

struct lock_file {
	enum lock_role role;
	char *path; /* as found; model files and corpora: as the plan writes them */
	char sha256[65];
	uint64_t bytes;
};

struct lock_candidate {
	char *name;
	char *engine_commit; /* as the plan states it, NULL = none */
	char *engine_version_told,
		*engine_build_told; /* what the server said of itself; NULL = not asked or not told */
	bool started;               /* the engine served once, so mapped and argument files are known */
	size_t n_files;
	struct lock_file *files;
};

struct lock {
	uint64_t rules;
	char plan_sha256[65];
	char prompts_sha256[65];             /* of the recipe: controls, corpora, word list, seeds */
	char version[32], binary_sha256[65]; /* of the proofmark that wrote it: told, not compared */
	size_t n_files;                      /* model files and corpora */
	struct lock_file *files;
	size_t n_candidates;
	struct lock_candidate *candidates;
};

void lock_done(struct lock *l);
int lock_add_file(struct lock_file **list, size_t *n, enum lock_role role, const char *path,
                  const char *sha256, uint64_t bytes);
/* Canonical text: fixed key order, files sorted by role and path, indent 1. */
int lock_write(struct buf *out, const struct lock *l);
/* Strict. ERR_PLAN with pointer; ERR_RECOMPUTE for rules we do not know. */
warn_unused int lock_read(struct lock *out, const char *text, size_t len, const char *name, struct err *err);
const struct lock_candidate *lock_candidate_find(const struct lock *l, const char *name);

/* What differs between locked and found, in words, one call of `say` for each. Files of role model, corpus
 * and program are compared by path; interpreter, argument and mapped files by base name, so that the same
 * engine in another folder is the same engine. Roles not in `roles` (bit 1 << role) are left out. Returns the
 * count. */
typedef void lock_say_fn(void *ctx, const char *what, const char *locked, const char *found);
size_t lock_compare_files(const struct lock_file *locked, size_t n_locked, const struct lock_file *found,
                          size_t n_found, unsigned roles, lock_say_fn *say, void *ctx);

#endif
