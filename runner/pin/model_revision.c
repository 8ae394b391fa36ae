/* SPDX-License-Identifier: Apache-2.0 */
/* The commit that a model folder was fetched from: the hub's cache (models--ORG--NAME/snapshots/COMMIT), the
 * hub's local downloads (.cache/huggingface/download/FILE.metadata), or a git checkout (HEAD, read plainly).
 */
#include "base/fs.h"
#include "pin/model_facts.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_BYTES = 512, FILES_MAX = 2000 };

static bool is_commit(const char *s, size_t len)
{
	return (len == 40 || len == 64) && strspn(s, "0123456789abcdef") >= len;
}

static void set_commit(struct model_revision *r, const char *source, const char *commit, size_t len)
{
	snprintf(r->source, sizeof(r->source), "%s", source);
	snprintf(r->commit, sizeof(r->commit), "%.*s", (int)len, commit);
}

/* First line of a small file, without its end. */
static bool first_line(char out[LINE_BYTES], const char *dir, const char *file)
{
	auto_buf text = BUF_INIT(1 << 20);
	struct err ignored = { 0 };
	auto_free char *path = fs_join(dir, file);
	struct stat st;
	if (!path || stat(path, &st) || !S_ISREG(st.st_mode) || fs_read(&text, path, 1 << 20, &ignored) ||
	    !text.p)
		return false;
	size_t n = strcspn(text.p, "\r\n");
	if (n == 0 || n >= LINE_BYTES)
		return false;
	memcpy(out, text.p, n);
	out[n] = '\0';
	return true;
}

/* --- the hub's cache ----------------------------------------------------------------------------------- */

static bool from_snapshot(struct model_revision *r, const char *full)
{
	static const char mark[] = "/models--", inner[] = "/snapshots/";
	const char *model = NULL;
	for (const char *p = full; (p = strstr(p, mark)); p++)
		model = p + sizeof(mark) - 1;
	const char *snap = model ? strstr(model, inner) : NULL;
	if (!snap || memchr(model, '/', (size_t)(snap - model)))
		return false;
	const char *commit = snap + sizeof(inner) - 1;
	size_t len = strcspn(commit, "/"), n = 0;
	if (!is_commit(commit, len))
		return false;
	for (const char *p = model; p < snap && n + 1 < sizeof(r->repository); p++) {
		if (p[0] == '-' && p[1] == '-' && p + 1 < snap) {
			r->repository[n++] = '/';
			p++;
		} else {
			r->repository[n++] = *p;
		}
	}
	r->repository[n] = '\0';
	set_commit(r, "hub snapshot", commit, len);
	return true;
}

/* --- the hub's downloads into a folder ----------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

static bool from_download(struct model_revision *r, const char *dir, struct problems *problems)
{
	bool found = false;
	size_t seen = 0;
	auto_free char *meta = fs_join(dir, ".cache/huggingface/download");
	DIR *d = meta ? opendir(meta) : NULL;
	if (!d)
		return false;
	for (struct dirent *e; (e = readdir(d)) && seen++ < FILES_MAX;) {
		char line[LINE_BYTES];
		if (!ends_with(e->d_name, ".metadata") || !first_line(line, meta, e->d_name) ||
		    !is_commit(line, strlen(line)))
			continue;
		if (found && strcmp(line, r->commit) != 0) {
			problem_add(problems, PROBLEM_ERROR, e->d_name,
			            "was fetched from commit %s, others from %s", line, r->commit);
			break;
		}
		set_commit(r, "hub download", line, strlen(line));
		found = true;
	}
	closedir(d);
	return found;
}

/* --- git ----------------------------------------------------------------------------------------------- */

static bool packed_ref(char out[LINE_BYTES], const char *git, const char *ref)
{
	auto_buf text = BUF_INIT(16 << 20);
	struct err ignored = { 0 };
	auto_free char *path = fs_join(git, "packed-refs");
	if (!path || access(path, R_OK) || fs_read(&text, path, 16 << 20, &ignored) || !text.p)
		return false;
	size_t want = strlen(ref);
	for (const char *p = text.p; *p;) {
		size_t n = strcspn(p, "\n"), id = strcspn(p, " \n");
		if (is_commit(p, id) && n == id + 1 + want && memcmp(p + id + 1, ref, want) == 0) {
			snprintf(out, LINE_BYTES, "%.*s", (int)id, p);
			return true;
		}
		p += n + (p[n] == '\n');
	}
	return false;
}

/* "../.." inside of a reference would leave the folder. */
static bool is_ref_name(const char *ref)
{
	return strncmp(ref, "refs/", 5) == 0 && !strstr(ref, "..") && strlen(ref) < 300;
}

static bool from_git(struct model_revision *r, const char *dir)
{
	char line[LINE_BYTES];
	struct stat st;
	auto_free char *git = fs_join(dir, ".git");
	if (!git || stat(git, &st))
		return false;
	if (S_ISREG(st.st_mode)) { /* a worktree or submodule */
		if (!first_line(line, dir, ".git") || strncmp(line, "gitdir: ", 8) != 0)
			return false;
		char *there = fs_join(dir, line + 8);
		free(git);
		git = there;
	}
	if (!git || !first_line(line, git, "HEAD"))
		return false;
	if (strncmp(line, "ref: ", 5) == 0) {
		char ref[LINE_BYTES];
		snprintf(ref, sizeof(ref), "%s", line + 5);
		if (!is_ref_name(ref) || (!first_line(line, git, ref) && !packed_ref(line, git, ref)))
			return false;
	}
	if (!is_commit(line, strlen(line)))
		return false;
	set_commit(r, "git checkout", line, strlen(line));
	return true;
}

void model_revision_read(struct model_revision *out, const char *dir, struct problems *problems)
{
	auto_free char *full = realpath(dir, NULL);
	*out = (struct model_revision){ 0 };
	if (full && !from_snapshot(out, full) && !from_download(out, full, problems))
		from_git(out, full);
}
