/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/pin_git.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "pin/pin_git_parts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ID_DIGITS = 40, SHORT_DIGITS_MIN = 4, WALK_MAX = 50000 };

static size_t hex_run(const char *s)
{
	return strspn(s, "0123456789abcdefABCDEF");
}

/* --- names to commits ---------------------------------------------------------------------------------- */

/* 1 = no such ref */
static int follow(git_oid *out, const struct git_store *s, const char *full, struct err *err)
{
	git_oid id;
	int valid = 0;
	if (git_reference_name_is_valid(&valid, full) || !valid)
		return 1;
	int rc = git_reference_name_to_id(&id, s->repo, full);
	if (rc == GIT_ENOTFOUND || rc == GIT_EINVALIDSPEC)
		return 1;
	if (rc)
		return git_fail(err, full);
	if (git_peel(&id, s, err))
		return err_wrap(err, "%.120s", full);
	*out = id;
	return 0;
}

/* Tag, branch, remote branch; two that lead to different commits are refused. */
static int follow_name(git_oid *out, char full[GIT_NAME_BYTES], const struct git_store *s, const char *name,
                       struct err *err)
{
	static const char *const under[] = { "refs/tags/", "refs/heads/", "refs/remotes/" };
	bool direct = strncmp(name, "refs/", 5) == 0 || strcmp(name, "HEAD") == 0, found = false;
	for (size_t i = 0; i < (direct ? 1 : ARRAY_LEN(under)); i++) {
		char text[GIT_NAME_BYTES];
		git_oid id;
		if (snprintf(text, sizeof(text), "%s%s", direct ? "" : under[i], name) >= (int)sizeof(text))
			return 1;
		int rc = follow(&id, s, text, err);
		if (rc < 0)
			return -1;
		if (rc > 0)
			continue;
		if (found && !git_oid_equal(&id, out))
			return err_set(err, ERR_PLAN,
			               "\"%.100s\" is both %.120s and %.120s; write the one that is meant",
			               name, full, text);
		if (!found)
			memcpy(full, text, sizeof(text));
		*out = id;
		found = true;
	}
	return found ? 0 : 1;
}

static int refuse_short(const struct git_store *s, const char *text, struct err *err)
{
	git_oid part, id;
	size_t n = strlen(text);
	char full[GIT_ID_BYTES];
	if (n < SHORT_DIGITS_MIN || n >= ID_DIGITS || hex_run(text) != n || git_oid_fromstrn(&part, text, n))
		return 0;
	int rc = git_odb_exists_prefix(&id, s->odb, &part, n);
	if (rc == GIT_EAMBIGUOUS)
		return err_set(err, ERR_PLAN, "\"%s\" is an abbreviation of several ids; write all %d digits",
		               text, ID_DIGITS);
	if (rc)
		return 0;
	git_id_text(full, &id);
	return err_set(err, ERR_PLAN, "\"%s\" is an abbreviated id; write %s", text, full);
}

static int full_id(git_oid *out, const struct git_store *s, const char *text, struct err *err)
{
	size_t n = strlen(text);
	if (n == 64 && hex_run(text) == n)
		return err_set(err, ERR_PLAN, "%s is a SHA-256 id, the repository's ids are SHA-1", text);
	if (n != ID_DIGITS || hex_run(text) != n) {
		if (refuse_short(s, text, err))
			return -1;
		return err_set(err, ERR_PLAN, "\"%.100s\" is no full commit id (%d hex digits)", text,
		               ID_DIGITS);
	}
	return git_oid_fromstr(out, text) ? git_fail(err, text) : git_peel(out, s, err);
}

/* 1 = no such ref */
static int resolve(git_oid *out, struct git_pin *p, const struct git_store *s, const char *text,
                   struct err *err)
{
	size_t n = strlen(text);
	if (hex_run(text) == n && (n == ID_DIGITS || n == 64))
		return full_id(out, s, text, err);
	return refuse_short(s, text, err) ? -1 : follow_name(out, p->ref, s, text, err);
}

/* --- a ref that moved ------------------------------------------------------------------------------------
 */

static enum git_ref_state how_moved(const struct git_store *s, const git_oid *pinned, const git_oid *now)
{
	git_revwalk *walk = NULL;
	git_oid id;
	enum git_ref_state state = GIT_REF_MOVED;
	int rc = git_revwalk_new(&walk, s->repo);
	rc = rc ? rc : git_revwalk_push(walk, now);
	for (unsigned n = 0; rc == 0 && n < WALK_MAX && state == GIT_REF_MOVED; n++) {
		rc = git_revwalk_next(&id, walk);
		if (rc == 0 && git_oid_equal(&id, pinned))
			state = GIT_REF_AHEAD;
	}
	if (rc == GIT_ITEROVER && git_repository_is_shallow(s->repo) == 0)
		state = GIT_REF_REWRITTEN;
	git_revwalk_free(walk);
	return state;
}

static int choose_commit(git_oid *out, struct git_pin *p, const struct git_store *s,
                         const struct git_spec *spec, struct err *err)
{
	git_oid now = { 0 }, pinned = { 0 };
	const char *ref = spec->ref ? spec->ref : spec->commit ? NULL : "HEAD";
	int found = ref ? resolve(&now, p, s, ref, err) : 1;
	if (found < 0 || (spec->commit && full_id(&pinned, s, spec->commit, err)))
		return -1;
	if (!spec->commit && found > 0)
		return err_set(err, ERR_PLAN, "there is no tag, branch or remote branch \"%.100s\"", ref);
	*out = spec->commit ? pinned : now;
	if (found == 0)
		git_id_text(p->ref_now, &now);
	if (!ref || !spec->commit)
		return 0;
	p->ref_state = found > 0                      ? GIT_REF_GONE
	               : git_oid_equal(&now, &pinned) ? GIT_REF_SAME
	                                              : how_moved(s, &pinned, &now);
	return 0;
}

/* --- tags ---------------------------------------------------------------------------------------------- */

struct tag_search {
	const struct git_store *s;
	const struct git_ssh_key *key;
	const git_oid *commit;
	struct git_pin *p;
	const struct git_budget *budget;
	size_t n_seen;
	struct err *err;
};

static void tag_signature(struct git_signature_seen *out, const struct tag_search *t, const git_oid *id)
{
	git_odb_object *raw = NULL;
	if (git_odb_read(&raw, t->s->odb, id) == 0)
		git_signature_tag(out, git_odb_object_data(raw), git_odb_object_size(raw), t->key);
	git_odb_object_free(raw);
}

static int see_tag(const char *name, git_oid *id, void *arg)
{
	static const char under[] = "refs/tags/";
	struct tag_search *t = arg;
	struct err ignored = { 0 };
	git_oid to = *id;
	if (git_budget_check(t->budget, t->err))
		return -1;
	if (++t->n_seen > GIT_TAGS_SEEN_MAX)
		return err_set(t->err, ERR_PLAN, "the repository has more than %u tags", GIT_TAGS_SEEN_MAX);
	if (git_peel(&to, t->s, &ignored) || !git_oid_equal(&to, t->commit))
		return 0;
	if (t->p->n_tags++ >= GIT_TAGS_KEPT_MAX)
		return 0;
	struct git_tag_pin *tag = &t->p->tags[t->p->n_tags_kept++];
	name += strncmp(name, under, sizeof(under) - 1) == 0 ? sizeof(under) - 1 : 0;
	snprintf(tag->name, sizeof(tag->name), "%.*s", GIT_NAME_BYTES - 1, name);
	if (!git_oid_equal(id, &to)) {
		git_id_text(tag->id, id);
		tag_signature(&tag->signature, t, id);
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct git_tag_pin *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static int find_tags(struct git_pin *p, const struct git_store *s, const git_oid *commit,
                     const struct git_ssh_key *key, const struct git_budget *b, struct err *err)
{
	struct tag_search t = { .s = s, .key = key, .commit = commit, .p = p, .budget = b, .err = err };
	p->tags = calloc(GIT_TAGS_KEPT_MAX, sizeof(*p->tags));
	if (!p->tags)
		return err_set(err, ERR_ENV, "no memory");
	if (git_tag_foreach(s->repo, see_tag, &t))
		return err->cls ? -1 : git_fail(err, "tags");
	qsort(p->tags, p->n_tags_kept, sizeof(*p->tags), by_name);
	return 0;
}

/* --- facts --------------------------------------------------------------------------------------------- */

static void author_date(char out[32], const git_time *when)
{
	time_t local = (time_t)(when->time + (git_time_t)when->offset * 60);
	int offset = when->offset < 0 ? -when->offset : when->offset;
	struct tm tm;
	char text[32];
	if (when->time < 0 || when->time > 253402214400 || offset > 14 * 60 || !gmtime_r(&local, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		return;
	snprintf(out, 32, "%.19s%c%02d:%02d", text, when->offset < 0 ? '-' : '+', offset / 60 % 100,
	         offset % 60);
}

static int commit_facts(struct git_pin *p, const struct git_store *s, const git_oid *id, struct err *err)
{
	git_commit *commit = NULL;
	if (git_commit_lookup(&commit, s->repo, id))
		return git_fail(err, "the commit");
	git_id_text(p->commit, id);
	git_id_text(p->tree, git_commit_tree_id(commit));
	author_date(p->author_date, &git_commit_author(commit)->when);
	git_commit_free(commit);
	return 0;
}

static void head_facts(struct git_pin *p, const struct git_store *s)
{
	git_reference *head = NULL;
	if (git_repository_head(&head, s->repo) == 0) {
		const git_oid *id = git_reference_target(head);
		if (id)
			git_id_text(p->head, id);
		if (git_repository_head_detached(s->repo) == 0)
			snprintf(p->head_ref, sizeof(p->head_ref), "%.*s", GIT_NAME_BYTES - 1,
			         git_reference_name(head));
	}
	git_reference_free(head);
}

/* Lines of objects/info/alternates that are no comments. */
static size_t count_alternates(const struct git_store *s)
{
	auto_free char *path = str_fmt("%sobjects/info/alternates", git_repository_commondir(s->repo));
	auto_file f = path ? fopen(path, "re") : NULL;
	char line[4096];
	size_t n = 0;
	while (f && n < 1000 && fgets(line, sizeof(line), f))
		n += line[0] != '#' && line[0] != '\n';
	return n;
}

static void store_facts(struct git_pin *p, const struct git_store *s)
{
	struct stat st;
	p->bare = git_repository_is_bare(s->repo) == 1;
	p->shallow = git_repository_is_shallow(s->repo) == 1;
	p->is_worktree = git_repository_is_worktree(s->repo) == 1;
	p->n_alternates = count_alternates(s);
	if (stat(git_repository_path(s->repo), &st) == 0) {
		p->owner_uid = st.st_uid;
		p->owner_is_other = st.st_uid != geteuid() && st.st_uid != 0;
	}
}

static int read_all(struct git_pin *p, const struct git_store *s, const struct git_spec *spec,
                    const struct git_ssh_key *key, struct err *err)
{
	unsigned timeout_s = spec->timeout_s ? spec->timeout_s : GIT_TIMEOUT_S;
	struct git_budget b = { clock_now_ns() + timeout_s * UINT64_C(1000000000), spec->stop, 0, 0 };
	git_oid id;
	if (choose_commit(&id, p, s, spec, err) || commit_facts(p, s, &id, err))
		return -1;
	store_facts(p, s);
	head_facts(p, s);
	git_signature_commit(&p->signature, s, &id, key);
	if (find_tags(p, s, &id, key, &b, err))
		return -1;
	return git_scan(&p->state, p, s, &id, "", 0, &b, err);
}

int git_pin_read(struct git_pin *out, const struct git_spec *spec, struct err *err)
{
	struct git_pin p = { 0 };
	struct git_store s = { 0 };
	struct git_ssh_key key = { 0 };
	struct err own = { 0 };
	int rc = spec->ssh_key ? git_ssh_key_parse(&key, spec->ssh_key, &own) : 0;
	rc = rc ? rc : git_store_open(&s, spec->path, &own);
	if (rc == 0 && (rc = read_all(&p, &s, spec, &key, &own)) != 0)
		err_wrap(&own, "%.300s", spec->path);
	git_store_done(&s);
	free(key.blob);
	if (rc) {
		git_pin_done(&p);
		*err = own;
		return -1;
	}
	*out = p;
	return 0;
}

void git_pin_done(struct git_pin *p)
{
	for (size_t i = 0; i < p->n_submodules; i++)
		free(p->submodules[i].path);
	free(p->submodules);
	free(p->tags);
	*p = (struct git_pin){ 0 };
}

bool git_pin_is_exact(const struct git_pin *p)
{
	if (p->state.clean != GIT_CLEAN)
		return false;
	for (size_t i = 0; i < p->n_submodules; i++) {
		const struct git_submodule_pin *m = &p->submodules[i];
		if (m->state.clean != GIT_CLEAN || m->moved || !m->present[0])
			return false;
	}
	return true;
}
