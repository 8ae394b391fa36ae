/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/oci_archive.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#define READ_BYTES (256u << 10)

void oci_archive_done(struct oci_archive *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->list[i].path);
		free(a->list[i].link);
		buf_done(&a->list[i].bytes);
	}
	free(a->list);
	*a = (struct oci_archive){ 0 };
}

/* --- names ---------------------------------------------------------------------------------------------- */

/* `path` seen from the folder of `from` (NULL = the root), without "." and with ".." taken back; malloc'd.
 * NULL when it leaves the root, is absolute or odd. "" is the root itself. */
static char *clean(const char *path, const char *from)
{
	char out[OCI_ARCHIVE_PATH_BYTES_MAX * 2 + 2];
	const char *slash = from ? strrchr(from, '/') : NULL;
	size_t n = slash ? (size_t)(slash - from) : 0, len = strlen(path);
	if (path[0] == '/' || len == 0 || len > OCI_ARCHIVE_PATH_BYTES_MAX)
		return NULL;
	memcpy(out, from ? from : "", n);
	for (const char *p = path; *p;) {
		size_t part = strcspn(p, "/");
		for (size_t i = 0; i < part; i++)
			if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f || p[i] == '\\')
				return NULL;
		if (part == 2 && memcmp(p, "..", 2) == 0) {
			if (!from || n == 0)
				return NULL;
			while (n && out[n - 1] != '/')
				n--;
			n -= n > 0;
		} else if (part && !(part == 1 && *p == '.')) {
			if (n)
				out[n++] = '/';
			memcpy(out + n, p, part);
			n += part;
		}
		p += part;
		p += *p == '/';
	}
	out[n] = '\0';
	return strdup(out);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct oci_entry *)a)->path, ((const struct oci_entry *)b)->path);
}

const struct oci_entry *oci_archive_find(const struct oci_archive *a, const char *path, bool follow)
{
	auto_free char *key = clean(path, NULL);
	struct oci_entry want = { .path = key };
	if (!key || !a->n)
		return NULL;
	const struct oci_entry *e = bsearch(&want, a->list, a->n, sizeof(*a->list), by_path);
	if (e && e->link) {
		want.path = e->link;
		e = follow ? bsearch(&want, a->list, a->n, sizeof(*a->list), by_path) : NULL;
	}
	return e && !e->is_dir && !e->link ? e : NULL;
}

/* --- one entry ------------------------------------------------------------------------------------------ */

struct walk {
	struct oci_archive *out;
	struct archive *a;
	const char *name;
	uint64_t deadline_ns;
	char *block;
};

static bool looks_like_json(const char *p, size_t len)
{
	size_t i = 0;
	while (i < len && (p[i] == ' ' || p[i] == '\n' || p[i] == '\t' || p[i] == '\r'))
		i++;
	return i < len && (p[i] == '{' || p[i] == '[');
}

static bool wanted(const struct oci_archive *a, const struct oci_entry *e, const char *start, size_t len)
{
	return e->size_bytes <= OCI_CONFIG_BYTES_MAX && looks_like_json(start, len) &&
	       a->kept_bytes + e->size_bytes <= OCI_ARCHIVE_KEPT_BYTES_MAX;
}

static int take_piece(struct walk *w, struct oci_entry *e, struct oci_hash *h, size_t len, uint64_t at,
                      struct err *err)
{
	if (at == 0 && wanted(w->out, e, w->block, len)) {
		e->kept = true;
		buf_init(&e->bytes, OCI_CONFIG_BYTES_MAX);
	}
	oci_hash_add(h, w->block, len);
	w->out->total_bytes += len;
	if (w->out->total_bytes > OCI_ARCHIVE_BYTES_MAX)
		return err_set(err, ERR_ENV, "%s: unpacks to more than %llu GiB", w->name,
		               OCI_ARCHIVE_BYTES_MAX >> 30);
	if (clock_now_ns() > w->deadline_ns)
		return err_set(err, ERR_ENV, "%s: could not be read in time", w->name);
	if (e->kept) {
		w->out->kept_bytes += len;
		if (buf_add(&e->bytes, w->block, len))
			return err_set(err, ERR_ENV, "%s: %s: is too long", w->name, e->path);
	}
	return 0;
}

static int take_data(struct walk *w, struct oci_entry *e, struct err *err)
{
	bool is_512 = strncmp(e->path, "blobs/sha512/", 13) == 0;
	struct oci_hash *h = oci_hash_new(is_512);
	uint64_t at = 0;
	int rc = 0;
	while (rc == 0) {
		la_ssize_t n = archive_read_data(w->a, w->block, READ_BYTES);
		if (n == ARCHIVE_RETRY)
			continue;
		if (n < 0)
			rc = err_set(err, ERR_ENV, "%s: %s: damaged or cut short (%.120s)", w->name, e->path,
			             archive_error_string(w->a) ? archive_error_string(w->a) : "no reason");
		if (n <= 0)
			break;
		rc = take_piece(w, e, h, (size_t)n, at, err);
		at += (uint64_t)n;
	}
	if (rc == 0 && at != e->size_bytes)
		rc = err_set(err, ERR_ENV, "%s: %s: is shorter than its header says", w->name, e->path);
	oci_hash_end(h, is_512 ? "sha512:" : NULL, e->digest);
	oci_hash_free(h);
	return rc;
}

static struct oci_entry *add_entry(struct oci_archive *a)
{
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 64;
		struct oci_entry *list = realloc(a->list, cap * sizeof(*list));
		if (!list)
			return NULL;
		a->list = list;
		a->cap = cap;
	}
	a->list[a->n] = (struct oci_entry){ 0 };
	return &a->list[a->n++];
}

/* Links are kept by where they point; nothing is ever opened through them. */
static int take_link(struct oci_entry *e, const char *target, bool hard, const char *name, struct err *err)
{
	e->link = target ? clean(target, hard ? NULL : e->path) : NULL;
	if (e->link)
		return 0;
	return err_set(err, ERR_ENV, "%s: %s: a link out of the archive", name, e->path);
}

static int take_entry(struct walk *w, struct archive_entry *ae, struct err *err)
{
	const char *path = archive_entry_pathname(ae), *hard = archive_entry_hardlink(ae);
	auto_free char *p = path ? clean(path, NULL) : NULL;
	if (!p)
		return err_set(err, ERR_ENV,
		               "%s: holds a name that leaves the archive or cannot be read: '%.80s'", w->name,
		               path ? path : "");
	if (!p[0])
		return 0; /* "./" */
	if (w->out->n >= OCI_ARCHIVE_ENTRIES_MAX)
		return err_set(err, ERR_ENV, "%s: more than %u entries", w->name, OCI_ARCHIVE_ENTRIES_MAX);
	struct oci_entry *e = add_entry(w->out);
	if (!e)
		return err_set(err, ERR_ENV, "%s: no memory", w->name);
	e->path = steal_ptr(&p);
	if (hard)
		return take_link(e, hard, true, w->name, err);
	switch (archive_entry_filetype(ae)) {
	case AE_IFDIR:
		e->is_dir = true;
		return 0;
	case AE_IFLNK:
		return take_link(e, archive_entry_symlink(ae), false, w->name, err);
	case AE_IFREG:
		if (archive_entry_size(ae) < 0)
			return err_set(err, ERR_ENV, "%s: %s: has no size", w->name, e->path);
		e->size_bytes = (uint64_t)archive_entry_size(ae);
		return take_data(w, e, err);
	default:
		return err_set(err, ERR_ENV, "%s: %s: is neither file, folder nor link", w->name, e->path);
	}
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* The filter by its magic: libarchive would otherwise start programs for those it cannot read itself. */
static int open_filter(struct archive *a, int fd, const char *name, struct err *err)
{
	unsigned char magic[4] = { 0 };
	int rc = ARCHIVE_OK;
	ssize_t n = pread(fd, magic, sizeof(magic), 0);
	if (n < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot be read", name);
	if (memcmp(magic, "\x1f\x8b", 2) == 0)
		rc = archive_read_support_filter_gzip(a);
	else if (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		rc = archive_read_support_filter_zstd(a);
	if (rc != ARCHIVE_OK)
		return err_set(err, ERR_ENV, "%s: this compression is not supported here", name);
	return 0;
}

static int walk_all(struct walk *w, struct err *err)
{
	struct archive_entry *e;
	for (;;) {
		int rc = archive_read_next_header(w->a, &e);
		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc == ARCHIVE_RETRY)
			continue;
		if (rc != ARCHIVE_OK)
			return err_set(err, w->out->n ? ERR_ENV : ERR_PLAN,
			               "%s: is no archive that can be read (%.120s)", w->name,
			               archive_error_string(w->a) ? archive_error_string(w->a) : "no reason");
		if (take_entry(w, e, err))
			return -1;
	}
}

static int check_names(struct oci_archive *a, const char *name, struct err *err)
{
	if (a->n)
		qsort(a->list, a->n, sizeof(*a->list), by_path);
	for (size_t i = 1; i < a->n; i++)
		if (strcmp(a->list[i].path, a->list[i - 1].path) == 0 &&
		    !(a->list[i].is_dir && a->list[i - 1].is_dir))
			return err_set(err, ERR_ENV, "%s: %s: is there twice", name, a->list[i].path);
	return 0;
}

int oci_archive_read(struct oci_archive *out, int fd, const char *name, uint64_t deadline_ns, struct err *err)
{
	struct oci_archive list = { 0 };
	struct walk w = { .out = &list, .name = name, .deadline_ns = deadline_ns };
	w.a = archive_read_new();
	w.block = malloc(READ_BYTES);
	int rc = -1;
	if (!w.a || !w.block)
		err_set(err, ERR_ENV, "%s: no memory", name);
	else if (archive_read_support_format_tar(w.a) != ARCHIVE_OK)
		err_set(err, ERR_ENV, "%s: libarchive reads no tar here", name);
	else if (open_filter(w.a, fd, name, err) == 0) {
		if (archive_read_open_fd(w.a, fd, 64u << 10) != ARCHIVE_OK)
			err_set(err, ERR_PLAN, "%s: is no archive that can be read", name);
		else
			rc = walk_all(&w, err);
	}
	archive_read_free(w.a);
	free(w.block);
	if (rc == 0)
		rc = check_names(&list, name, err);
	if (rc) {
		oci_archive_done(&list);
		return -1;
	}
	*out = list;
	return 0;
}
