/* SPDX-License-Identifier: Apache-2.0 */
/* A commit's tree against what lies on the disk, file by file, and its submodules. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "pin/pin_git_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/evp.h>

enum {
	DIR_NONE = -2,
	DIR_MISSING = -1,
	READ_BYTES = 1 << 16,
	FILTERED_BYTES_MAX = 64 << 20,
	ID_RAW_BYTES = 20
};

struct link_list { /* submodules of one tree */
	size_t n;
	struct {
		char *path;
		git_oid wanted;
	} * list;
};

struct scan {
	const struct git_store *store;
	struct git_worktree_state *state;
	struct git_budget *budget;
	struct link_list links;
	size_t n_links_max;
	size_t len;
	char path[PATH_MAX]; /* from the repository's top */
	char buffer[READ_BYTES];
};

int git_budget_check(const struct git_budget *b, struct err *err)
{
	if (b->stop && *b->stop)
		return err_set(err, ERR_INTERRUPTED, "interrupted");
	if (clock_now_ns() > b->deadline_ns)
		return err_set(err, ERR_ENV, "reading the repository took longer than it may");
	if (b->n_trees > GIT_TREES_MAX || b->n_entries > GIT_ENTRIES_MAX)
		return err_set(err, ERR_PLAN, "the commit holds more than %u folders or %u files",
		               GIT_TREES_MAX, GIT_ENTRIES_MAX);
	return 0;
}

/* --- one file ------------------------------------------------------------------------------------------ */

static void is_changed(struct scan *s, uint64_t *count)
{
	if (!s->state->first_changed[0])
		snprintf(s->state->first_changed, sizeof(s->state->first_changed), "%.*s", GIT_NAME_BYTES - 1,
		         s->path);
	++*count;
}

/* The id of a blob with these bytes; false when the file changes its size meanwhile or can't be read. */
static bool hash_fd(git_oid *out, struct scan *s, int fd, uint64_t size)
{
	char head[32];
	uint64_t got = 0;
	ssize_t n = 0;
	int head_len = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)size) + 1;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct err ignored = { 0 };
	bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) &&
	          EVP_DigestUpdate(ctx, head, (size_t)head_len);
	while (ok && (n = read(fd, s->buffer, sizeof(s->buffer))) > 0) {
		got += (uint64_t)n;
		ok = EVP_DigestUpdate(ctx, s->buffer, (size_t)n) &&
		     git_budget_check(s->budget, &ignored) == 0;
	}
	ok = ok && n == 0 && got == size && EVP_DigestFinal_ex(ctx, out->id, NULL);
	EVP_MD_CTX_free(ctx);
	return ok;
}

static bool has_filter(const struct scan *s)
{
	const char *value = NULL;
	return git_attr_get(&value, s->store->repo, GIT_ATTR_CHECK_FILE_THEN_INDEX, s->path, "filter") == 0 &&
	       git_attr_value(value) == GIT_ATTR_VALUE_STRING;
}

/* The same once line ends are as they are stored (eol, ident: libgit2's own filters). */
static bool same_when_stored(const struct scan *s, const git_oid *want, uint64_t size)
{
	git_oid id;
	return size <= FILTERED_BYTES_MAX &&
	       git_repository_hashfile(&id, s->store->repo, s->path, GIT_OBJECT_BLOB, NULL) == 0 &&
	       git_oid_equal(&id, want);
}

static void check_file(struct scan *s, int dir, const char *name, const git_oid *want, bool executable)
{
	struct stat st;
	git_oid id;
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		is_changed(s, &s->state->n_missing);
	else if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || executable != !!(st.st_mode & S_IXUSR))
		is_changed(s, &s->state->n_changed);
	else if (hash_fd(&id, s, fd, (uint64_t)st.st_size) && git_oid_equal(&id, want))
		return;
	else if (same_when_stored(s, want, (uint64_t)st.st_size))
		return;
	else if (has_filter(s))
		s->state->n_filtered++;
	else
		is_changed(s, &s->state->n_changed);
}

static void check_symlink(struct scan *s, int dir, const char *name, const git_oid *want)
{
	char to[PATH_MAX];
	git_oid id;
	ssize_t n = readlinkat(dir, name, to, sizeof(to));
	if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
		is_changed(s, &s->state->n_missing);
	else if (n < 0 || git_odb_hash(&id, to, (size_t)n, GIT_OBJECT_BLOB) || !git_oid_equal(&id, want))
		is_changed(s, &s->state->n_changed);
}

/* --- the tree ------------------------------------------------------------------------------------------ */

static int add_link(struct scan *s, const git_oid *wanted, struct err *err)
{
	struct link_list *l = &s->links;
	if (l->n >= s->n_links_max)
		return err_set(err, ERR_PLAN, "the commit has more than %u submodules", GIT_SUBMODULES_MAX);
	void *grown = realloc(l->list, (l->n + 1) * sizeof(*l->list));
	if (!grown)
		return err_set(err, ERR_ENV, "no memory");
	l->list = grown;
	l->list[l->n].path = strdup(s->path);
	l->list[l->n].wanted = *wanted;
	return l->list[l->n++].path ? 0 : err_set(err, ERR_ENV, "no memory");
}

static bool name_may_be(const char *name)
{
	return name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	       strcasecmp(name, ".git") != 0;
}

static int scan_tree(struct scan *s, const git_oid *id, int dir, unsigned depth, struct err *err);

static int scan_folder(struct scan *s, const git_tree_entry *e, int dir, unsigned depth, struct err *err)
{
	auto_fd fd = -1;
	if (dir >= 0)
		fd = openat(dir, git_tree_entry_name(e), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return scan_tree(s, git_tree_entry_id(e), dir == DIR_NONE ? DIR_NONE : fd, depth + 1, err);
}

static int scan_entry(struct scan *s, const git_tree_entry *e, int dir, unsigned depth, struct err *err)
{
	const char *name = git_tree_entry_name(e);
	git_filemode_t mode = git_tree_entry_filemode(e);
	if (mode == GIT_FILEMODE_TREE)
		return scan_folder(s, e, dir, depth, err);
	if (mode == GIT_FILEMODE_COMMIT)
		return add_link(s, git_tree_entry_id(e), err);
	s->state->n_files++;
	if (dir == DIR_MISSING)
		is_changed(s, &s->state->n_missing);
	else if (dir >= 0 && mode == GIT_FILEMODE_LINK)
		check_symlink(s, dir, name, git_tree_entry_id(e));
	else if (dir >= 0)
		check_file(s, dir, name, git_tree_entry_id(e), mode == GIT_FILEMODE_BLOB_EXECUTABLE);
	return 0;
}

static int scan_entries(struct scan *s, const git_tree *tree, int dir, unsigned depth, struct err *err)
{
	size_t n = git_tree_entrycount(tree), before = s->len;
	for (size_t i = 0; i < n; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(tree, i);
		const char *name = git_tree_entry_name(e);
		size_t len = strlen(name);
		s->budget->n_entries++;
		if (git_budget_check(s->budget, err))
			return -1;
		if (!name_may_be(name) || before + len + 2 > sizeof(s->path))
			return err_set(err, ERR_PLAN,
			               "the commit holds a name that no checkout may have: %.60s", name);
		if (before)
			s->path[before] = '/';
		memcpy(s->path + before + !!before, name, len + 1);
		s->len = before + !!before + len;
		if (scan_entry(s, e, dir, depth, err))
			return -1;
	}
	s->len = before;
	s->path[before] = '\0';
	return 0;
}

static int scan_tree(struct scan *s, const git_oid *id, int dir, unsigned depth, struct err *err)
{
	git_tree *tree = NULL;
	s->budget->n_trees++;
	if (depth > GIT_DEPTH_MAX)
		return err_set(err, ERR_PLAN, "the commit's folders are more than %u deep", GIT_DEPTH_MAX);
	if (git_budget_check(s->budget, err) ||
	    git_object_fits(s->store, id, GIT_OBJECT_TREE, GIT_TREE_BYTES_MAX, err))
		return -1;
	if (git_tree_lookup(&tree, s->store->repo, id))
		return git_fail(err, "a folder of the commit");
	int rc = scan_entries(s, tree, dir, depth, err);
	git_tree_free(tree);
	return rc;
}

/* --- index and untracked files ---------------------------------------------------------------------------
 */

struct count {
	uint64_t n, max;
	git_delta_t only; /* GIT_DELTA_UNMODIFIED = all */
	struct git_budget *budget;
	struct err *err;
	bool capped;
};

/* 1: not kept in the list, so that memory stays bounded. */
static int count_delta(const git_diff *so_far, const git_diff_delta *d, const char *match, void *arg)
{
	struct count *c = arg;
	if (c->only != GIT_DELTA_UNMODIFIED && d->status != c->only)
		return 1;
	c->capped = c->n >= c->max;
	c->n += !c->capped;
	return c->capped ? -1 : 1;
}

static int still_time(const git_diff *so_far, const char *before, const char *after, void *arg)
{
	struct count *c = arg;
	return git_budget_check(c->budget, c->err);
}

static int count_index(struct scan *s, git_tree *tree, git_index *index, struct err *err)
{
	git_diff *diff = NULL;
	git_diff_options opts;
	struct count c = { .max = GIT_ENTRIES_MAX, .budget = s->budget, .err = err };
	git_diff_options_init(&opts, GIT_DIFF_OPTIONS_VERSION);
	opts.notify_cb = count_delta;
	opts.progress_cb = still_time;
	opts.payload = &c;
	opts.ignore_submodules = GIT_SUBMODULE_IGNORE_NONE;
	int rc = git_diff_tree_to_index(&diff, s->store->repo, tree, index, &opts);
	git_diff_free(diff);
	if (rc && !c.capped)
		return err->cls ? -1 : git_fail(err, "the index");
	s->state->n_staged = c.n;
	return 0;
}

static int count_untracked(struct scan *s, git_index *index, struct err *err)
{
	git_diff *diff = NULL;
	git_diff_options opts;
	struct count c = {
		.max = GIT_UNTRACKED_MAX, .only = GIT_DELTA_UNTRACKED, .budget = s->budget, .err = err
	};
	git_diff_options_init(&opts, GIT_DIFF_OPTIONS_VERSION);
	opts.flags = GIT_DIFF_INCLUDE_UNTRACKED | GIT_DIFF_IGNORE_SUBMODULES;
	opts.notify_cb = count_delta;
	opts.progress_cb = still_time;
	opts.payload = &c;
	int rc = git_diff_index_to_workdir(&diff, s->store->repo, index, &opts);
	git_diff_free(diff);
	if (rc && !c.capped)
		return err->cls ? -1 : git_fail(err, "the working tree");
	s->state->n_untracked = c.n;
	s->state->untracked_capped = c.capped;
	return 0;
}

static void count_hidden(struct scan *s, git_index *index)
{
	for (size_t i = 0; i < git_index_entrycount(index); i++) {
		const git_index_entry *e = git_index_get_byindex(index, i);
		s->state->n_hidden += (e->flags & GIT_INDEX_ENTRY_VALID) ||
		                      (e->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE);
	}
}

static int compare_index(struct scan *s, const git_oid *tree_id, struct err *err)
{
	git_index *index = NULL;
	git_tree *tree = NULL;
	int rc = -1;
	if (git_repository_index(&index, s->store->repo) || git_tree_lookup(&tree, s->store->repo, tree_id))
		git_fail(err, "the index");
	else if (count_index(s, tree, index, err) == 0 && count_untracked(s, index, err) == 0)
		rc = 0;
	if (rc == 0)
		count_hidden(s, index);
	git_tree_free(tree);
	git_index_free(index);
	return rc;
}

static enum git_clean sum_up(const struct git_worktree_state *w)
{
	if (w->n_changed || w->n_missing || w->n_staged)
		return GIT_DIRTY;
	if (w->n_filtered)
		return GIT_CANNOT_SAY;
	return w->n_untracked ? GIT_UNTRACKED_TOO : GIT_CLEAN;
}

/* --- submodules ---------------------------------------------------------------------------------------- */

static struct git_submodule_pin *new_submodule(struct git_pin *p, struct err *err)
{
	struct git_submodule_pin *grown = realloc(p->submodules, (p->n_submodules + 1) * sizeof(*grown));
	if (!grown) {
		err_set(err, ERR_ENV, "no memory");
		return NULL;
	}
	p->submodules = grown;
	grown += p->n_submodules++;
	*grown = (struct git_submodule_pin){ 0 };
	return grown;
}

static bool is_checked_out(const char *folder)
{
	auto_free char *dot_git = fs_join(folder, ".git");
	return dot_git && access(dot_git, F_OK) == 0;
}

/* The list may move while deeper ones are added, so `at` is a place in it. */
static int read_submodule(struct git_pin *p, size_t at, const char *folder, const git_oid *wanted,
                          unsigned depth, struct git_budget *b, struct err *err)
{
	struct git_store sub = { 0 };
	struct git_worktree_state state = { 0 };
	git_oid head;
	auto_free char *prefix = str_fmt("%s/", p->submodules[at].path);
	if (git_store_open(&sub, folder, err))
		return -1;
	if (git_reference_name_to_id(&head, sub.repo, "HEAD") == 0) {
		git_id_text(p->submodules[at].present, &head);
		p->submodules[at].moved = !git_oid_equal(&head, wanted);
	}
	int rc = prefix ? git_scan(&state, p, &sub, wanted, prefix, depth, b, err)
	                : err_set(err, ERR_ENV, "no memory");
	p->submodules[at].state = state;
	git_store_done(&sub);
	return rc;
}

static int add_submodule(struct git_pin *p, const struct git_store *s, const char *path,
                         const git_oid *wanted, const char *prefix, unsigned depth, struct git_budget *b,
                         struct err *err)
{
	const char *work = git_repository_workdir(s->repo);
	auto_free char *folder = work ? fs_join(work, path) : NULL;
	struct git_submodule_pin *m = new_submodule(p, err);
	struct err own = { 0 };
	size_t at = p->n_submodules - 1;
	if (!m)
		return -1;
	m->depth = depth;
	m->path = str_fmt("%s%s", prefix, path);
	git_id_text(m->wanted, wanted);
	if (!m->path)
		return err_set(err, ERR_ENV, "no memory");
	if (!folder || !is_checked_out(folder) || read_submodule(p, at, folder, wanted, depth, b, &own) == 0)
		return 0;
	if (own.cls == ERR_INTERRUPTED || git_budget_check(b, &own)) {
		*err = own;
		return -1;
	}
	m = &p->submodules[at];
	m->state.clean = GIT_CANNOT_SAY;
	snprintf(m->fault, sizeof(m->fault), "%.*s", GIT_NAME_BYTES - 1, own.msg);
	return 0;
}

static int add_submodules(struct git_pin *p, const struct scan *s, const char *prefix, unsigned depth,
                          struct err *err)
{
	if (s->links.n && depth >= GIT_SUBMODULE_DEPTH_MAX)
		return err_set(err, ERR_PLAN, "submodules are more than %u deep", GIT_SUBMODULE_DEPTH_MAX);
	for (size_t i = 0; i < s->links.n; i++) {
		if (p->n_submodules >= GIT_SUBMODULES_MAX)
			return err_set(err, ERR_PLAN, "more than %u submodules", GIT_SUBMODULES_MAX);
		if (add_submodule(p, s->store, s->links.list[i].path, &s->links.list[i].wanted, prefix,
		                  depth + 1, s->budget, err))
			return -1;
	}
	return 0;
}

static void scan_free(struct scan **s)
{
	for (size_t i = 0; *s && i < (*s)->links.n; i++)
		free((*s)->links.list[i].path);
	if (*s)
		free((*s)->links.list);
	free(*s);
}

int git_scan(struct git_worktree_state *state, struct git_pin *p, const struct git_store *store,
             const git_oid *commit_id, const char *prefix, unsigned depth, struct git_budget *b,
             struct err *err)
{
	const char *work = git_repository_workdir(store->repo);
	struct git_worktree_state w = { 0 };
	git_commit *commit = NULL;
	__attribute__((cleanup(scan_free))) struct scan *s = calloc(1, sizeof(*s));
	auto_fd dir = work ? open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (!s)
		return err_set(err, ERR_ENV, "no memory");
	if (work && dir < 0)
		return err_sys(err, ERR_ENV, errno, "%s", work);
	if (git_object_fits(store, commit_id, GIT_OBJECT_COMMIT, GIT_COMMIT_BYTES_MAX, err))
		return -1;
	if (git_commit_lookup(&commit, store->repo, commit_id))
		return git_fail(err, "the commit");
	git_oid tree = *git_commit_tree_id(commit);
	git_commit_free(commit);
	s->store = store, s->state = &w, s->budget = b, s->n_links_max = GIT_SUBMODULES_MAX;
	if (scan_tree(s, &tree, work ? dir : DIR_NONE, 0, err) || (work && compare_index(s, &tree, err)))
		return -1;
	w.clean = work ? sum_up(&w) : GIT_NO_WORKTREE;
	*state = w;
	return add_submodules(p, s, prefix, depth, err);
}
