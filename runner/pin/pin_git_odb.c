/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a repository. Loose ones are read here: libgit2 1.5 writes past the end of its memory when a
 * loose object says a size below its first bytes, waits on pipes, and allocates whatever size a header says.
 * Packs, and the check of each object's hash, are libgit2's. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "pin/pin_git_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <git2/sys/odb_backend.h>
#include <git2/sys/repository.h>
#include <zlib.h>

enum { HEAD_BYTES = 64, ALTERNATES_DEPTH_MAX = 5, ALTERNATES_MAX = 32, ALTERNATES_BYTES_MAX = 1 << 20 };

struct loose {
	git_odb_backend parent;
	git_odb_backend *inner; /* libgit2's own, asked only for which ids there are */
	char *dir;
};

static int odb_fail(const char *why)
{
	git_error_set_str(GIT_ERROR_ODB, why);
	return GIT_ERROR;
}

/* --- one loose object ------------------------------------------------------------------------------------
 */

struct unpacked {
	struct buf file;
	z_stream z;
	char head[HEAD_BYTES]; /* its first bytes: "TYPE SIZE\0" and content */
	size_t n_head;         /* unpacked of them */
	size_t n_type_size;    /* up to and with the NUL */
	git_object_t type;
	size_t size;
	bool ended;
};

static void unpacked_done(struct unpacked *u)
{
	inflateEnd(&u->z);
	buf_done(&u->file);
}

static int read_file(struct buf *out, const char *path)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? GIT_ENOTFOUND
		                                           : odb_fail("a loose object can't be opened");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > GIT_TREE_BYTES_MAX)
		return odb_fail("a loose object is no regular file, or too large");
	char part[16384];
	for (ssize_t n; (n = read(fd, part, sizeof(part))) != 0;)
		if (n < 0 || buf_add(out, part, (size_t)n))
			return odb_fail("a loose object can't be read");
	return out->p ? 0 : odb_fail("a loose object is empty");
}

static int parse_head(struct unpacked *u)
{
	const char *nul = memchr(u->head, '\0', u->n_head), *p = memchr(u->head, ' ', u->n_head);
	char type[16];
	if (!nul || !p || p > nul || (size_t)(p - u->head) >= sizeof(type))
		return odb_fail("a loose object has no header");
	memcpy(type, u->head, (size_t)(p - u->head));
	type[p - u->head] = '\0';
	size_t n = strspn(++p, "0123456789");
	if (n == 0 || n > 12 || p + n != nul)
		return odb_fail("a loose object's header has no size");
	for (u->size = 0; p < nul; p++)
		u->size = u->size * 10 + (size_t)(*p - '0');
	u->type = git_object_string2type(type);
	u->n_type_size = (size_t)(nul - u->head) + 1;
	if (!git_object_typeisloose(u->type))
		return odb_fail("a loose object is of no type that is known");
	return u->n_head - u->n_type_size <= u->size ? 0 : odb_fail("a loose object is longer than it says");
}

/* Unpacks the first bytes. `u` has to be done, also after failure. */
static int unpack_head(struct unpacked *u, const struct loose *l, const git_oid *id)
{
	char text[GIT_ID_BYTES];
	git_id_text(text, id);
	*u = (struct unpacked){ .file = BUF_INIT(GIT_TREE_BYTES_MAX + 1) };
	auto_free char *path = str_fmt("%s/%.2s/%s", l->dir, text, text + 2);
	int rc = path ? read_file(&u->file, path) : odb_fail("no memory");
	if (rc)
		return rc;
	if (inflateInit(&u->z) != Z_OK)
		return odb_fail("no memory");
	u->z.next_in = (Bytef *)u->file.p;
	u->z.avail_in = (uInt)u->file.len;
	u->z.next_out = (Bytef *)u->head;
	u->z.avail_out = sizeof(u->head);
	rc = inflate(&u->z, Z_SYNC_FLUSH);
	if (rc != Z_OK && rc != Z_STREAM_END)
		return odb_fail("a loose object is damaged");
	u->ended = rc == Z_STREAM_END;
	u->n_head = sizeof(u->head) - u->z.avail_out;
	return parse_head(u);
}

/* The content, `size` bytes into `out`. */
static int unpack_rest(struct unpacked *u, char *out)
{
	size_t have = u->n_head - u->n_type_size;
	char behind[1];
	memcpy(out, u->head + u->n_type_size, have);
	u->z.next_out = (Bytef *)out + have;
	u->z.avail_out = (uInt)(u->size - have);
	if (!u->ended && u->z.avail_out && inflate(&u->z, Z_SYNC_FLUSH) == Z_STREAM_END)
		u->ended = true;
	if (u->z.avail_out)
		return odb_fail("a loose object is shorter than it says");
	u->z.next_out = (Bytef *)behind;
	u->z.avail_out = sizeof(behind);
	if (!u->ended && (inflate(&u->z, Z_FINISH) != Z_STREAM_END || u->z.avail_out == 0))
		return odb_fail("a loose object is longer than it says, or cut");
	return 0;
}

static int loose_header(size_t *len, git_object_t *type, git_odb_backend *b, const git_oid *id)
{
	struct unpacked u;
	int rc = unpack_head(&u, (const struct loose *)b, id);
	if (rc == 0) {
		*len = u.size;
		*type = u.type;
	}
	unpacked_done(&u);
	return rc;
}

static int loose_read(void **data, size_t *len, git_object_t *type, git_odb_backend *b, const git_oid *id)
{
	struct unpacked u;
	void *out = NULL;
	int rc = unpack_head(&u, (const struct loose *)b, id);
	if (rc == 0 && u.size > GIT_TREE_BYTES_MAX)
		rc = odb_fail("a loose object is larger than may be");
	if (rc == 0 && !(out = git_odb_backend_data_alloc(b, u.size + 1)))
		rc = GIT_ERROR;
	if (rc == 0 && (rc = unpack_rest(&u, out)) == 0) {
		((char *)out)[u.size] = '\0';
		*data = out;
		*len = u.size;
		*type = u.type;
	} else if (out) {
		git_odb_backend_data_free(b, out);
	}
	unpacked_done(&u);
	return rc;
}

/* --- which there are ---------------------------------------------------------------------------------------
 */

static int loose_exists(git_odb_backend *b, const git_oid *id)
{
	struct loose *l = (struct loose *)b;
	return l->inner->exists(l->inner, id);
}

static int loose_exists_prefix(git_oid *out, git_odb_backend *b, const git_oid *part, size_t len)
{
	struct loose *l = (struct loose *)b;
	return l->inner->exists_prefix(out, l->inner, part, len);
}

static void loose_free(git_odb_backend *b)
{
	struct loose *l = (struct loose *)b;
	if (l->inner)
		l->inner->free(l->inner);
	free(l->dir);
	free(l);
}

static int new_loose(git_odb_backend **out, const char *dir)
{
	struct loose *l = calloc(1, sizeof(*l));
	if (!l || git_odb_init_backend(&l->parent, GIT_ODB_BACKEND_VERSION) || !(l->dir = strdup(dir)) ||
	    git_odb_backend_loose(&l->inner, dir, -1, 0, 0, 0)) {
		if (l)
			loose_free(&l->parent);
		return GIT_ERROR;
	}
	l->parent.read = loose_read;
	l->parent.read_header = loose_header;
	l->parent.exists = loose_exists;
	l->parent.exists_prefix = loose_exists_prefix;
	l->parent.free = loose_free;
	*out = &l->parent;
	return 0;
}

/* --- a repository's stores ---------------------------------------------------------------------------------
 */

static int add_backend(git_odb *odb, git_odb_backend *b, bool alternate, int priority)
{
	int rc = alternate ? git_odb_add_alternate(odb, b, priority) : git_odb_add_backend(odb, b, priority);
	if (rc)
		b->free(b);
	return rc;
}

static int add_dir(git_odb *odb, const char *dir, unsigned depth, unsigned *n, struct err *err);

static int add_alternates(git_odb *odb, const char *dir, unsigned depth, unsigned *n, struct err *err)
{
	struct stat st;
	auto_buf text = BUF_INIT(ALTERNATES_BYTES_MAX);
	auto_free char *list = fs_join(dir, "info/alternates");
	if (!list)
		return err_set(err, ERR_ENV, "no memory");
	if (stat(list, &st))
		return 0;
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_PLAN, "%s: want a regular file", list);
	if (fs_read(&text, list, ALTERNATES_BYTES_MAX, err))
		return -1;
	char *rest = text.p, *line;
	while (rest && (line = strsep(&rest, "\n"))) {
		if (!line[0] || line[0] == '#')
			continue;
		auto_free char *to = line[0] == '/' ? strdup(line) : fs_join(dir, line);
		if (!to || add_dir(odb, to, depth + 1, n, err))
			return to ? -1 : err_set(err, ERR_ENV, "no memory");
	}
	return 0;
}

/* A store that is named again, or too deep, is left out, as git does: loops end, and what is missing is told
 * when it is asked for. */
static int add_dir(git_odb *odb, const char *dir, unsigned depth, unsigned *n, struct err *err)
{
	git_odb_backend *b = NULL;
	if (depth > ALTERNATES_DEPTH_MAX || *n >= ALTERNATES_MAX)
		return 0;
	++*n;
	if (new_loose(&b, dir) || add_backend(odb, b, depth > 0, 1))
		return git_fail(err, dir);
	if (git_odb_backend_pack(&b, dir) || add_backend(odb, b, depth > 0, 2))
		return git_fail(err, dir);
	return add_alternates(odb, dir, depth, n, err);
}

int git_store_objects(struct git_store *s, struct err *err)
{
	unsigned n = 0;
	git_odb *odb = NULL;
	auto_free char *dir = str_fmt("%sobjects", git_repository_commondir(s->repo));
	if (!dir)
		return err_set(err, ERR_ENV, "no memory");
	if (git_odb_new(&odb))
		return git_fail(err, dir);
	if (add_dir(odb, dir, 0, &n, err) || git_repository_set_odb(s->repo, odb)) {
		git_odb_free(odb);
		return err->cls ? -1 : git_fail(err, dir);
	}
	s->odb = odb;
	return 0;
}
