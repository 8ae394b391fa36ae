/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_out.h"
#include "pin/pin_git.h"

const char *git_clean_word(enum git_clean c)
{
	static const char *const words[] = { "no-worktree", "clean", "untracked", "dirty", "unknown" };
	return words[c];
}

const char *git_ref_state_word(enum git_ref_state s)
{
	static const char *const words[] = { NULL, "same", "ahead", "rewritten", "moved", "gone" };
	return words[s];
}

const char *git_signature_kind_word(enum git_signature_kind k)
{
	static const char *const words[] = { NULL, "gpg", "ssh", "x509", "other" };
	return words[k];
}

const char *git_signature_state_word(enum git_signature_state s)
{
	static const char *const words[] = { NULL, "not-verified", "good", "bad" };
	return words[s];
}

static void put_text(struct json_out *o, const char *key, const char *s)
{
	jo_str(o, key, s[0] ? s : NULL);
}

static void put_signature(struct json_out *o, const struct git_signature_seen *s)
{
	if (s->kind == GIT_SIG_NONE) {
		jo_null(o, "signature");
		return;
	}
	jo_obj(o, "signature");
	jo_str(o, "kind", git_signature_kind_word(s->kind));
	jo_str(o, "state", git_signature_state_word(s->state));
	jo_str(o, "why", s->why);
	jo_end(o);
}

static void put_worktree(struct json_out *o, const struct git_worktree_state *w)
{
	const struct {
		const char *key;
		uint64_t n;
	} counts[] = {
		{ "files", w->n_files },         { "changed", w->n_changed }, { "missing", w->n_missing },
		{ "filtered", w->n_filtered },   { "staged", w->n_staged },   { "hidden", w->n_hidden },
		{ "untracked", w->n_untracked },
	};
	bool counted = w->clean == GIT_CLEAN || w->clean == GIT_DIRTY || w->clean == GIT_UNTRACKED_TOO ||
	               w->n_filtered;
	jo_obj(o, "worktree");
	jo_str(o, "state", git_clean_word(w->clean));
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (counted)
			jo_u64(o, counts[i].key, counts[i].n);
		else
			jo_null(o, counts[i].key);
	jo_bool(o, "untracked_capped", w->untracked_capped);
	put_text(o, "first_changed", w->first_changed);
	jo_end(o);
}

static void put_tags(struct json_out *o, const struct git_pin *p)
{
	jo_u64(o, "tags_total", p->n_tags);
	jo_arr(o, "tags");
	for (size_t i = 0; i < p->n_tags_kept; i++) {
		jo_obj(o, NULL);
		jo_str(o, "name", p->tags[i].name);
		put_text(o, "id", p->tags[i].id);
		put_signature(o, &p->tags[i].signature);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_submodules(struct json_out *o, const struct git_pin *p)
{
	jo_arr(o, "submodules");
	for (size_t i = 0; i < p->n_submodules; i++) {
		const struct git_submodule_pin *m = &p->submodules[i];
		jo_obj(o, NULL);
		jo_str(o, "path", m->path);
		jo_str(o, "wanted", m->wanted);
		put_text(o, "present", m->present);
		jo_bool(o, "moved", m->moved);
		put_worktree(o, &m->state);
		put_text(o, "fault", m->fault);
		jo_end(o);
	}
	jo_end_arr(o);
}

void git_pin_json(struct json_out *o, const char *key, const struct git_pin *p)
{
	jo_obj(o, key);
	jo_str(o, "object_format", "sha1");
	put_text(o, "ref", p->ref);
	jo_str(o, "commit", p->commit);
	jo_str(o, "tree", p->tree);
	put_text(o, "ref_now", p->ref_now);
	jo_str(o, "ref_state", git_ref_state_word(p->ref_state));
	put_text(o, "head", p->head);
	put_text(o, "head_ref", p->head_ref);
	put_text(o, "author_date", p->author_date);
	put_signature(o, &p->signature);
	put_worktree(o, &p->state);
	jo_bool(o, "bare", p->bare);
	jo_bool(o, "shallow", p->shallow);
	jo_bool(o, "linked_worktree", p->is_worktree);
	jo_u64(o, "alternates", p->n_alternates);
	jo_u64(o, "owner_uid", p->owner_uid);
	jo_bool(o, "owner_is_other", p->owner_is_other);
	jo_bool(o, "exact", git_pin_is_exact(p));
	put_tags(o, p);
	put_submodules(o, p);
	jo_end(o);
}
