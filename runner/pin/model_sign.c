/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/model_sign.h"

#include "base/fs.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "pin/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 16, FILES_MAX = 20000 };

struct walk {
	size_t n, room;
	struct item {
		char *name, *path;
	} * list;
	bool has_links;
	struct err *err;
};

static void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->list[i].name);
		free(w->list[i].path);
	}
	free(w->list);
}

static bool is_utf8(const char *s)
{
	for (size_t left = strlen(s), n; left > 0; left -= n, s += n)
		if ((n = text_utf8_len(s, left)) == 0)
			return false;
	return true;
}

static int add_item(struct walk *w, const char *name, const char *path)
{
	if (w->n == FILES_MAX)
		return err_set(w->err, ERR_PLAN, "%s: more than %d files", path, FILES_MAX);
	if (!is_utf8(name))
		return err_set(w->err, ERR_PLAN, "%s: its name is no UTF-8", path);
	if (w->n == w->room) {
		size_t room = w->room ? 2 * w->room : 32;
		struct item *p = realloc(w->list, room * sizeof(*p));
		if (!p)
			return err_set(w->err, ERR_ENV, "%s: no memory", path);
		w->list = p;
		w->room = room;
	}
	struct item *it = &w->list[w->n];
	it->name = strdup(name);
	it->path = strdup(path);
	w->n++;
	return it->name && it->path ? 0 : err_set(w->err, ERR_ENV, "%s: no memory", path);
}

static bool is_left_out(const char *name)
{
	static const char *const names[] = { MODEL_SIG_FILE, ".git",    ".gitattributes",
		                             ".gitignore",   ".github", ".cache" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int walk_folder(struct walk *w, const char *dir, const char *below, unsigned depth);

static int walk_entry(struct walk *w, const char *dir, const char *below, const char *entry, unsigned depth)
{
	struct stat st, target;
	auto_free char *path = fs_join(dir, entry);
	auto_free char *name = below[0] ? fs_join(below, entry) : strdup(entry);
	if (!path || !name)
		return err_set(w->err, ERR_ENV, "%s: no memory", dir);
	if (lstat(path, &st))
		return err_sys(w->err, ERR_ENV, errno, "%s: cannot look at it", path);
	if (S_ISDIR(st.st_mode))
		return walk_folder(w, path, name, depth + 1);
	if (S_ISLNK(st.st_mode)) {
		if (stat(path, &target))
			return err_sys(w->err, ERR_ENV, errno, "%s: a link that leads nowhere", path);
		w->has_links = true;
		st = target;
	}
	if (!S_ISREG(st.st_mode))
		return err_set(w->err, ERR_PLAN, "%s: is no regular file, nor a link to one", path);
	return add_item(w, name, path);
}

static int walk_folder(struct walk *w, const char *dir, const char *below, unsigned depth)
{
	int rc = 0;
	DIR *d = depth > DEPTH_MAX ? NULL : opendir(dir);
	if (depth > DEPTH_MAX)
		return err_set(w->err, ERR_PLAN, "%s: folders nested too deep", dir);
	if (!d)
		return err_sys(w->err, ERR_ENV, errno, "%s: cannot open", dir);
	for (struct dirent *e; rc == 0 && (errno = 0, e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (depth == 0 && is_left_out(e->d_name)))
			continue;
		rc = walk_entry(w, dir, below, e->d_name, depth);
	}
	closedir(d);
	return rc;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

/* All parts of a GGUF set, not the one that was named. */
static int add_file(struct walk *w, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct gguf_set s = { 0 };
	int rc = 0;
	if (!ends_with(path, ".gguf"))
		return add_item(w, slash ? slash + 1 : path, path);
	if (gguf_set_read(&s, path, w->err))
		return -1;
	for (size_t i = 0; i < s.n_parts && rc == 0; i++) {
		if (s.parts[i].is_missing)
			rc = err_set(w->err, ERR_PLAN, "%s: part %s is missing", path, s.parts[i].file);
		else
			rc = add_item(w, s.parts[i].file, s.parts[i].path);
	}
	gguf_set_done(&s);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

/* --- hashing ------------------------------------------------------------------------------------------- */

/* The hub's cache names a large file by its SHA-256. */
static void check_blob(struct model_identity *id, const char *path, const char *sha256)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	const char *slash = strrchr(target, '/');
	if (!slash || !sha256_hex_ok(slash + 1) || strcmp(slash + 1, sha256) == 0)
		return;
	if (id->n_wrong_blobs++ == 0) {
		size_t len = strnlen(path, sizeof(id->first_wrong_blob) - 1);
		memcpy(id->first_wrong_blob, path, len);
	}
}

static void add_root(struct sha256 *h, const char *hex)
{
	uint8_t raw[SHA256_BYTES];
	for (size_t i = 0; i < sizeof(raw); i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], '\0' };
		raw[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	sha256_add(h, raw, sizeof(raw));
}

static int fill(struct model_identity *id, struct walk *w, const struct pin_files *files)
{
	uint8_t raw[SHA256_BYTES];
	id->list = calloc(w->n, sizeof(*id->list));
	if (!id->list)
		return -1;
	struct sha256 *root = sha256_new();
	for (size_t i = 0; i < w->n; i++) {
		struct model_resource *r = &id->list[id->n++];
		memcpy(r->sha256, files->list[i].sha256, sizeof(r->sha256));
		r->bytes = files->list[i].bytes;
		r->name = steal_ptr(&w->list[i].name);
		id->bytes += r->bytes;
		add_root(root, r->sha256);
		check_blob(id, w->list[i].path, r->sha256);
	}
	sha256_end(root, raw);
	sha256_free(root);
	hex_encode(raw, sizeof(raw), id->root_sha256);
	id->has_links = w->has_links;
	return 0;
}

static int hash_all(struct model_identity *id, struct walk *w, bool cache, const bool *stop)
{
	struct pin_files files = { 0 };
	auto_free const char **paths = calloc(w->n, sizeof(*paths));
	if (!paths)
		return err_set(w->err, ERR_ENV, "no memory");
	for (size_t i = 0; i < w->n; i++)
		paths[i] = w->list[i].path;
	if (pin_hash_files(&files, paths, w->n, cache, stop, w->err))
		return -1;
	int rc = fill(id, w, &files) ? err_set(w->err, ERR_ENV, "no memory") : 0;
	pin_files_done(&files);
	return rc;
}

int model_identity(struct model_identity *out, const char *path, bool cache, const bool *stop,
                   struct err *err)
{
	struct walk w = { .err = err };
	struct model_identity id = { 0 };
	struct stat st;
	if (stat(path, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	int rc = S_ISDIR(st.st_mode) ? walk_folder(&w, path, "", 0) : add_file(&w, path);
	if (rc == 0 && w.n == 0)
		rc = err_set(err, ERR_PLAN, "%s: holds no file", path);
	if (rc == 0) {
		qsort(w.list, w.n, sizeof(*w.list), by_name);
		rc = hash_all(&id, &w, cache, stop);
	}
	walk_done(&w);
	if (rc) {
		model_identity_done(&id);
		return -1;
	}
	*out = id;
	return 0;
}

void model_identity_done(struct model_identity *id)
{
	for (size_t i = 0; i < id->n; i++)
		free(id->list[i].name);
	free(id->list);
	*id = (struct model_identity){ 0 };
}
