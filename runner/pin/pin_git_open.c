/* SPDX-License-Identifier: Apache-2.0 */
/* A repository is opened: looked over first, since libgit2 waits for ever on a pipe in a file's place. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "pin/pin_git_parts.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_BYTES_MAX = 1 << 20, LINK_BYTES_MAX = 4096, INCLUDES_MAX = 10 };

static bool library_works;

static void start_library(void)
{
	static const char *const extensions[] = { "partialclone", "worktreeconfig", "preciousobjects",
		                                  "relativeworktrees" };
	const char *list[ARRAY_LEN(extensions)];
	memcpy(list, extensions, sizeof(list));
	library_works = git_libgit2_init() >= 0 && git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0) == 0 &&
	                git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, list, ARRAY_LEN(list)) == 0 &&
	                git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECT_SIZE, (size_t)1 << 30) == 0;
	for (int level = GIT_CONFIG_LEVEL_PROGRAMDATA; level <= GIT_CONFIG_LEVEL_GLOBAL; level++)
		library_works = library_works && git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, level, "") == 0;
}

int git_fail(struct err *err, const char *what)
{
	const git_error *e = git_error_last();
	return err_set(err, ERR_ENV, "%s: %s", what,
	               e && e->message ? e->message : "unknown error of libgit2");
}

/* --- a look before ------------------------------------------------------------------------------------- */

static int regular_or_absent(const char *path, uint64_t max_bytes, struct err *err)
{
	struct stat st;
	if (stat(path, &st))
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, ERR_ENV, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_PLAN, "%s: want a regular file", path);
	if ((uint64_t)st.st_size > max_bytes)
		return err_set(err, ERR_PLAN, "%s: larger than the %llu bytes that may be", path,
		               (unsigned long long)max_bytes);
	return 0;
}

/* First line of a file that holds a path ("gitdir: …", commondir), made absolute or relative to here; NULL in
 * `*out` when there is no such file. */
static int read_link_file(char **out, const char *dir, const char *name, const char *prefix, struct err *err)
{
	auto_buf text = BUF_INIT(LINK_BYTES_MAX);
	auto_free char *path = fs_join(dir, name);
	*out = NULL;
	if (!path || access(path, F_OK))
		return 0;
	if (regular_or_absent(path, LINK_BYTES_MAX, err) || fs_read(&text, path, LINK_BYTES_MAX, err))
		return -1;
	size_t skip = strlen(prefix);
	if (!text.p || strncmp(text.p, prefix, skip) != 0)
		return err_set(err, ERR_PLAN, "%s: does not begin with \"%s\"", path, prefix);
	text.p[strcspn(text.p, "\r\n")] = '\0';
	const char *to = text.p + skip;
	*out = to[0] == '/' ? strdup(to) : fs_join(dir, to);
	return *out ? 0 : err_set(err, ERR_ENV, "no memory");
}

static int look_at_config(const char *dir, const char *path, unsigned depth, struct err *err);

/* `line` begins behind its blanks. */
static int look_at_line(const char *line, const char *dir, const char *path, bool in_include, unsigned depth,
                        struct err *err)
{
	size_t name = strcspn(line, " \t=");
	const char *value = line + name + strspn(line + name, " \t=\"");
	size_t len = strcspn(value, " \t\";#");
	if (name == 12 && strncasecmp(line, "objectformat", name) == 0 && strncasecmp(value, "sha1", 4) != 0)
		return err_set(err, ERR_PLAN,
		               "%s: the repository's ids are %.*s; only SHA-1 repositories can be read", path,
		               (int)len, value);
	if (name == 10 && strncasecmp(line, "refstorage", name) == 0 && strncasecmp(value, "files", 5) != 0)
		return err_set(err, ERR_PLAN, "%s: refs are stored as %.*s; only files can be read", path,
		               (int)len, value);
	if (!in_include || name != 4 || strncasecmp(line, "path", 4) != 0)
		return 0;
	len = strcspn(value, "\"");
	if (depth >= INCLUDES_MAX)
		return err_set(err, ERR_PLAN, "%s: more than %d includes deep", path, INCLUDES_MAX);
	auto_free char *rel = strndup(value, len);
	auto_free char *to = !rel ? NULL : rel[0] == '/' ? strdup(rel) : fs_join(dir, rel);
	auto_free char *to_dir = to ? fs_dirname(to) : NULL;
	if (!to_dir)
		return err_set(err, ERR_ENV, "no memory");
	return rel[0] == '~' ? 0 : look_at_config(to_dir, to, depth + 1, err);
}

static int look_at_config(const char *dir, const char *path, unsigned depth, struct err *err)
{
	auto_buf text = BUF_INIT(CONFIG_BYTES_MAX);
	bool in_include = false;
	if (access(path, F_OK))
		return 0;
	if (regular_or_absent(path, CONFIG_BYTES_MAX, err) || fs_read(&text, path, CONFIG_BYTES_MAX, err))
		return -1;
	char *rest = text.p, *line;
	while (rest && (line = strsep(&rest, "\n"))) {
		line[strcspn(line, "\r")] = '\0';
		line += strspn(line, " \t");
		if (line[0] == '[') {
			in_include = strncasecmp(line, "[include", 8) == 0;
			line += strcspn(line, "]");
			line += strspn(line, "] \t");
		}
		if (look_at_line(line, dir, path, in_include, depth, err))
			return -1;
	}
	return 0;
}

static int look_in(const char *git_dir, const char *common, struct err *err)
{
	static const struct {
		const char *name;
		bool common;
		uint64_t max_bytes;
	} files[] = {
		{ "HEAD", false, LINK_BYTES_MAX },
		{ "index", false, 512u << 20 },
		{ "packed-refs", true, 256u << 20 },
		{ "shallow", true, 64u << 20 },
		{ "info/exclude", true, 1u << 20 },
		{ "info/attributes", true, 1u << 20 },
		{ "objects/info/alternates", true, 1u << 20 },
		{ "config.worktree", false, 1u << 20 },
		{ "objects/info/commit-graph", true, 1u << 30 },
	};
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = fs_join(files[i].common ? common : git_dir, files[i].name);
		if (!path || regular_or_absent(path, files[i].max_bytes, err))
			return path ? -1 : err_set(err, ERR_ENV, "no memory");
	}
	auto_free char *config = fs_join(common, "config");
	return config ? look_at_config(common, config, 0, err) : err_set(err, ERR_ENV, "no memory");
}

static int look_before(const char *path, struct err *err)
{
	auto_free char *dot_git = fs_join(path, ".git");
	auto_free char *git_dir = NULL, *common = NULL;
	struct stat st;
	if (!dot_git)
		return err_set(err, ERR_ENV, "no memory");
	if (stat(path, &st))
		return err_sys(err, ERR_ENV, errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_PLAN, "%s: want the folder of a git repository", path);
	if (stat(dot_git, &st))
		git_dir = strdup(path);
	else if (S_ISDIR(st.st_mode))
		git_dir = strdup(dot_git);
	else if (read_link_file(&git_dir, path, ".git", "gitdir: ", err))
		return -1;
	if (!git_dir)
		return err_set(err, ERR_ENV, "%s: no git repository", path);
	if (read_link_file(&common, git_dir, "commondir", "", err))
		return -1;
	return look_in(git_dir, common ? common : git_dir, err);
}

/* --- opening ------------------------------------------------------------------------------------------- */

/* core.worktree may send every comparison to any folder: it has to be the one that was asked for. */
static int same_folder(const struct git_store *s, const char *path, struct err *err)
{
	const char *work = git_repository_workdir(s->repo), *git_dir = git_repository_path(s->repo);
	struct stat asked, is;
	if (!work || stat(path, &asked))
		return 0;
	if (stat(git_dir, &is) == 0 && is.st_dev == asked.st_dev && is.st_ino == asked.st_ino)
		return 0;
	if (stat(work, &is) == 0 && is.st_dev == asked.st_dev && is.st_ino == asked.st_ino)
		return 0;
	return err_set(err, ERR_PLAN,
	               "%s: its configuration says that the working tree is %s; give that folder", path,
	               work);
}

int git_store_open(struct git_store *out, const char *path, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct git_store s = { 0 };
	pthread_once(&once, start_library);
	if (!library_works)
		return git_fail(err, "libgit2");
	if (look_before(path, err))
		return -1;
	if (git_repository_open_ext(&s.repo, path, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL))
		return git_fail(err, path);
	if (same_folder(&s, path, err) || git_store_objects(&s, err)) {
		git_store_done(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void git_store_done(struct git_store *s)
{
	git_odb_free(s->odb);
	git_repository_free(s->repo);
	*s = (struct git_store){ 0 };
}

/* --- objects ------------------------------------------------------------------------------------------- */

void git_id_text(char out[GIT_ID_BYTES], const git_oid *id)
{
	git_oid_tostr(out, GIT_ID_BYTES, id);
}

int git_object_fits(const struct git_store *s, const git_oid *id, git_object_t type, size_t max_bytes,
                    struct err *err)
{
	char text[GIT_ID_BYTES];
	size_t len;
	git_object_t is;
	git_id_text(text, id);
	int rc = git_odb_read_header(&len, &is, s->odb, id);
	if (rc == GIT_ENOTFOUND)
		return err_set(err, ERR_ENV, "object %s is not in the repository%s", text,
		               git_repository_is_shallow(s->repo) == 1 ? " (a shallow clone)" : "");
	if (rc)
		return git_fail(err, text);
	if (is != type)
		return err_set(err, ERR_PLAN, "object %s is a %s, want a %s", text,
		               git_object_type2string(is), git_object_type2string(type));
	if (len > max_bytes)
		return err_set(err, ERR_PLAN, "object %s has %zu bytes, more than the %zu that may be", text,
		               len, max_bytes);
	return 0;
}

int git_peel(git_oid *id, const struct git_store *s, struct err *err)
{
	git_oid at = *id;
	size_t len;
	git_object_t type;
	for (int i = 0; i < 10; i++) {
		git_tag *tag = NULL;
		if (git_odb_read_header(&len, &type, s->odb, &at) || type != GIT_OBJECT_TAG) {
			if (git_object_fits(s, &at, GIT_OBJECT_COMMIT, GIT_COMMIT_BYTES_MAX, err))
				return -1;
			*id = at;
			return 0;
		}
		if (git_object_fits(s, &at, GIT_OBJECT_TAG, GIT_COMMIT_BYTES_MAX, err))
			return -1;
		if (git_tag_lookup(&tag, s->repo, &at))
			return git_fail(err, "a tag object");
		at = *git_tag_target_id(tag);
		git_tag_free(tag);
	}
	return err_set(err, ERR_PLAN, "tags of tags, more than ten deep");
}
