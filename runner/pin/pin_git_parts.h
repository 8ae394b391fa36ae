/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of pin_git. */
#ifndef PIN_PIN_GIT_PARTS_H
#define PIN_PIN_GIT_PARTS_H

#include "pin/pin_git.h"

#include <git2.h>

#define GIT_COMMIT_BYTES_MAX (4u << 20) /* a commit or a tag */
#define GIT_TREE_BYTES_MAX (64u << 20)

struct git_budget {
	uint64_t deadline_ns; /* monotonic */
	const bool *stop;
	uint64_t n_trees, n_entries;
};
warn_unused int git_budget_check(const struct git_budget *b, struct err *err);

struct git_store { /* an open repository */
	git_repository *repo;
	git_odb *odb;
};
/* Opens exactly `path`. Files that libgit2 would open and wait on for ever, and formats that it can't read,
 * are refused before. */
warn_unused int git_store_open(struct git_store *out, const char *path, struct err *err);
/* Step of it: sets the objects' store, with all it borrows from. */
warn_unused int git_store_objects(struct git_store *s, struct err *err);
void git_store_done(struct git_store *s);

int git_fail(struct err *err, const char *what); /* libgit2's last error, ERR_ENV; -1 */
void git_id_text(char out[GIT_ID_BYTES], const git_oid *id);
/* The object is there, of this type, and not larger than may be. */
warn_unused int git_object_fits(const struct git_store *s, const git_oid *id, git_object_t type,
                                size_t max_bytes, struct err *err);
/* Through tag objects to a commit. */
warn_unused int git_peel(git_oid *id, const struct git_store *s, struct err *err);

/* Fills `state` against `commit`, and adds the submodules to `p`. `prefix` is the path from the top ("" or
 * "a/b/"), `depth` 0 at the top. */
warn_unused int git_scan(struct git_worktree_state *state, struct git_pin *p, const struct git_store *s,
                         const git_oid *commit, const char *prefix, unsigned depth, struct git_budget *b,
                         struct err *err);

/* `key`: the wire form of the allowed key, or NULL. */
struct git_ssh_key {
	uint8_t *blob;
	size_t len;
};
warn_unused int git_ssh_key_parse(struct git_ssh_key *out, const char *line, struct err *err);
void git_signature_commit(struct git_signature_seen *out, const struct git_store *s, const git_oid *commit,
                          const struct git_ssh_key *key);
/* `raw`: a tag object as it is stored. */
void git_signature_tag(struct git_signature_seen *out, const char *raw, size_t len,
                       const struct git_ssh_key *key);

#endif
