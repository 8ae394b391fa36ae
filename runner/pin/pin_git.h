/* SPDX-License-Identifier: Apache-2.0 */
/* Which source an engine was built from: a repository on this disk and a branch, tag or full commit id become
 * the commit, its tree, what differs in the working tree, submodules, tags and signatures. Read by libgit2:
 * nothing is fetched, written or run (no hooks, filters, fsmonitor, credential helpers), and no configuration
 * but the repository's own is read. Source that belongs to another user is normal (root's /opt, a container's
 * volume), so libgit2's check of the owner is off for the whole process, and the owner is told instead: that
 * check guards against commands in a foreign configuration, and none is ever run here.
 *
 * Tracked files are read and hashed, whatever the index says of them (assume-unchanged, time stamps). Files
 * that ignore rules hide are not counted. libgit2 checks the hash of each object it reads. Bounds: GIT_*_MAX
 * below. Not supported, and said so: repositories with SHA-256 ids, reftable. */
#ifndef PIN_PIN_GIT_H
#define PIN_PIN_GIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GIT_ID_BYTES 65
#define GIT_NAME_BYTES 256
#define GIT_TREES_MAX 200000u
#define GIT_ENTRIES_MAX 2000000u
#define GIT_DEPTH_MAX 96u /* folders in folders */
#define GIT_SUBMODULES_MAX 256u
#define GIT_SUBMODULE_DEPTH_MAX 8u
#define GIT_TAGS_SEEN_MAX 100000u
#define GIT_TAGS_KEPT_MAX 64u
#define GIT_UNTRACKED_MAX 10000u
#define GIT_TIMEOUT_S 300

enum git_signature_kind { GIT_SIG_NONE, GIT_SIG_GPG, GIT_SIG_SSH, GIT_SIG_X509, GIT_SIG_OTHER };
enum git_signature_state {
	GIT_SIG_ABSENT,
	GIT_SIG_NOT_VERIFIED, /* there, but of a kind that is not verified here, or no key was given */
	GIT_SIG_GOOD,         /* SSH, Ed25519, by the given key */
	GIT_SIG_BAD,          /* SSH, and not by the given key, or damaged */
};
struct git_signature_seen {
	enum git_signature_kind kind;
	enum git_signature_state state;
	const char *why; /* static text for NOT_VERIFIED and BAD, else NULL */
};

enum git_clean {
	GIT_NO_WORKTREE,   /* bare, or the submodule is not checked out */
	GIT_CLEAN,         /* index and files are the commit's, nothing beside them */
	GIT_UNTRACKED_TOO, /* index and files are the commit's, other files lie beside them */
	GIT_DIRTY,
	GIT_CANNOT_SAY, /* a filter that is not run here (LFS) stands between files and commit, or no commit
	                 */
};
struct git_worktree_state { /* all of it against the commit that is pinned, not against HEAD */
	enum git_clean clean;
	uint64_t n_files;   /* files and symbolic links of the commit */
	uint64_t n_changed; /* content, type or executable bit */
	uint64_t n_missing;
	uint64_t n_filtered;   /* differ, with a filter attribute */
	uint64_t n_staged;     /* entries of the index that are not the commit's */
	uint64_t n_hidden;     /* entries told to be left out of comparisons; compared here all the same */
	uint64_t n_untracked;  /* a folder of only such files counts once */
	bool untracked_capped; /* there are more than GIT_UNTRACKED_MAX */
	char first_changed[GIT_NAME_BYTES]; /* changed or missing; "" = none */
};

struct git_submodule_pin {
	char *path;                      /* from the top */
	char wanted[GIT_ID_BYTES];       /* as the commit above says */
	char present[GIT_ID_BYTES];      /* HEAD of what is checked out; "" = nothing is */
	bool moved;                      /* both are known and differ */
	unsigned depth;                  /* 1 = in the top repository */
	struct git_worktree_state state; /* against `wanted` */
	char fault[GIT_NAME_BYTES];      /* why it could not be read; "" = it was */
};

struct git_tag_pin {
	char name[GIT_NAME_BYTES]; /* without refs/tags/ */
	char id[GIT_ID_BYTES];     /* of the tag object; "" = a lightweight tag */
	struct git_signature_seen signature;
};

enum git_ref_state {
	GIT_REF_NOT_ASKED, /* only a ref, or only a commit was given */
	GIT_REF_SAME,
	GIT_REF_AHEAD,     /* moved: the pinned commit is among its ancestors */
	GIT_REF_REWRITTEN, /* moved: it is not */
	GIT_REF_MOVED,     /* moved, and the history here doesn't tell which of the two */
	GIT_REF_GONE,
};

struct git_spec {         /* strings are borrowed */
	const char *path; /* working tree, .git folder or bare repository; not searched upwards */
	const char *ref; /* "HEAD", "main", "v1.2", "refs/…", or a full id; NULL = HEAD, or `commit` alone */
	const char *commit;  /* full id pinned earlier; NULL = what `ref` leads to now */
	const char *ssh_key; /* "ssh-ed25519 AAAA… [comment]": verifies SSH signatures by it; NULL = none */
	const bool *stop;    /* set by a signal: ends with ERR_INTERRUPTED; NULL = never */
	unsigned timeout_s;  /* 0 = GIT_TIMEOUT_S */
};

struct git_pin {
	char ref[GIT_NAME_BYTES]; /* full name of the ref that was followed; "" = an id was given */
	char commit[GIT_ID_BYTES];
	char tree[GIT_ID_BYTES];
	char ref_now[GIT_ID_BYTES]; /* commit that `ref` leads to now; "" = none, or no ref */
	enum git_ref_state ref_state;
	char head[GIT_ID_BYTES];             /* what is checked out; "" = unborn */
	char head_ref[GIT_NAME_BYTES];       /* its branch; "" = detached */
	char author_date[32];                /* "2026-11-30T12:00:00+01:00"; "" = not sensible */
	struct git_signature_seen signature; /* of the commit */
	struct git_worktree_state state;
	bool bare, shallow, is_worktree; /* is_worktree: linked to another repository's folder */
	size_t n_alternates;             /* other object stores that it borrows from, first level */
	uint32_t owner_uid;
	bool owner_is_other; /* neither this user nor root */
	size_t n_submodules;
	struct git_submodule_pin *submodules; /* parents before children */
	size_t n_tags; /* that lead to the commit; `tags` keeps GIT_TAGS_KEPT_MAX at most */
	size_t n_tags_kept;
	struct git_tag_pin *tags; /* by name */
};

/* ERR_PLAN: the spec is not acceptable (an abbreviated id: the full one is named; a name that is both tag and
 * branch; no such ref), or the repository is too large or of a kind that can't be read. ERR_ENV: there is no
 * repository, objects are missing or damaged, time is up. A ref that moved or is gone is no error when
 * `commit` is given. */
warn_unused int git_pin_read(struct git_pin *out, const struct git_spec *spec, struct err *err);
void git_pin_done(struct git_pin *p); /* accepts zeroed */

/* Nothing but the commit is in what was checked out: clean, also in all submodules, and each at its commit.
 */
bool git_pin_is_exact(const struct git_pin *p);

const char *git_clean_word(enum git_clean c); /* "no-worktree", "clean", "untracked", "dirty", "unknown" */
const char *git_ref_state_word(enum git_ref_state s); /* NULL = not asked, "same", "ahead", "rewritten", … */
const char *
git_signature_kind_word(enum git_signature_kind k); /* NULL = none, "gpg", "ssh", "x509", "other" */
const char *git_signature_state_word(enum git_signature_state s);

/* One object: object_format ("sha1"), ref, commit, tree, ref_now, ref_state, head, head_ref, author_date,
 * signature, worktree, bare, shallow, linked_worktree, alternates, owner_uid, owner_is_other, exact,
 * tags_total, tags [{name, id, signature}], submodules [{path, wanted, present, moved, worktree, fault}].
 * signature: null = none, else {kind, state, why}. worktree: {state, files, changed, missing, filtered,
 * staged, hidden, untracked, untracked_capped, first_changed}, counts null without a working tree. Unknown
 * ids and names are null. `key` NULL inside an array or at the top. */
struct json_out;
void git_pin_json(struct json_out *o, const char *key, const struct git_pin *p);

#endif
