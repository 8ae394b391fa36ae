/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and locks from files, with everything that is wrong with them told on standard error. */
#ifndef CLI_PLAN_FILE_H
#define CLI_PLAN_FILE_H

#include "base/buf.h"
#include "base/err.h"
#include "model/lock.h"
#include "model/plan.h"

/* Prints "FILE: /pointer: text" for each problem, errors before warnings ("warning: " in front). */
void problems_print(const struct problems *p, const char *file);
/* Reads and parses; `text` keeps the bytes (for the run directory). Problems go to standard error. */
warn_unused int plan_file_load(struct plan **out, struct buf *text, const char *path, struct err *err);
/* "plans/x.json" -> malloc'd "plans/x.lock.json" (and with ".attempts.jsonl" the list of attempts). */
char *plan_sibling(const char *plan_path, const char *ending);
warn_unused int lock_file_load(struct lock *out, struct buf *text, const char *path, struct err *err);
/* The candidate named, or the only one; else ERR_USAGE with the names. */
warn_unused int candidate_choose(const struct plan_candidate **out, const struct plan *p, const char *name,
                                 struct err *err);

#endif
