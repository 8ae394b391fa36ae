/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of files: SHA-256 of model files, and of everything an engine is made of. */
#ifndef PIN_PIN_MODEL_H
#define PIN_PIN_MODEL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pin_file {
	char *path;
	char sha256[65];
	uint64_t bytes;
	bool from_cache;
	bool deleted; /* mapped, but no longer there under this name: sha256 is of what /proc/PID/map_files
	                 still shows */
};
struct pin_files {
	size_t n;
	struct pin_file *list;
};
void pin_files_done(struct pin_files *f);

/* Hashes regular files, several at once, streamed. `cache`: use and renew the cache keyed by device, inode,
 * size, mtime and ctime ($XDG_CACHE_HOME or ~/.cache, proofmark/hashes.jsonl). Same order as `paths`. A file
 * that changes while it is read is an error (ERR_ENV); so is one that is not there or not a regular file.
 * `stop` may be NULL. */
warn_unused int pin_hash_files(struct pin_files *out, const char *const *paths, size_t n, bool cache,
                               const bool *stop, struct err *err);

/* What `program` is before it runs: the file itself (looked up on `path_env` when it has no slash; links
 * followed) and, for a script, its interpreter. list[0] is the program, list[1] the interpreter when there is
 * one. */
warn_unused int pin_program(struct pin_files *out, const char *program, const char *path_env, bool cache,
                            struct err *err);

/* Every regular file that the given processes have mapped executable, sorted by path, each once. */
warn_unused int pin_mapped_files(struct pin_files *out, const pid_t *pids, size_t n_pids, bool cache,
                                 struct err *err);

/* Regular files of at most `max_bytes` named in the arguments of these processes (a Python launcher's
 * script), without those in `except` (model files), sorted by path, each once. */
warn_unused int pin_argument_files(struct pin_files *out, const pid_t *pids, size_t n_pids,
                                   const char *const *except, size_t n_except, uint64_t max_bytes, bool cache,
                                   struct err *err);

#endif
