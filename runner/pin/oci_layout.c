/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/oci_layout.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_in.h"
#include "pin/oci_layout_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define SMALL_BYTES_MAX 4096u

void oci_layout_close(struct oci_layout *l)
{
	if (!l)
		return;
	if (l->dir_fd >= 0)
		close(l->dir_fd);
	oci_archive_done(&l->archive);
	oci_doc_done(&l->index);
	free(l->name);
	free(l);
}

enum oci_layout_kind oci_layout_kind(const struct oci_layout *l)
{
	return l->kind;
}

const struct oci_doc *oci_layout_index(const struct oci_layout *l)
{
	return &l->index;
}

/* --- files of a folder ---------------------------------------------------------------------------------- */

/* Step by step and through no link, so that it stays below the folder. */
static int open_below(int dir_fd, const char *path)
{
	auto_fd at = dup(dir_fd);
	char part[OCI_DIGEST_BYTES];
	for (const char *p = path;;) {
		size_t n = strcspn(p, "/");
		if (n == 0 || n >= sizeof(part) || at < 0)
			return -1;
		memcpy(part, p, n);
		part[n] = '\0';
		bool last = !p[n];
		int fd = openat(at, part,
		                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY));
		if (fd < 0 || last)
			return fd;
		close(at);
		at = fd;
		p += n + 1;
	}
}

static int open_regular(int *out, uint64_t *size_bytes, struct oci_layout *l, const char *path,
                        struct err *err)
{
	struct stat st;
	auto_fd fd = open_below(l->dir_fd, path);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: %s", l->name, path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s: %s: is no regular file", l->name, path);
	*size_bytes = (uint64_t)st.st_size;
	*out = steal_fd(&fd);
	return 0;
}

/* Hashes a file of the folder, and keeps it with `bytes`. */
static int read_folder_file(char digest[OCI_DIGEST_BYTES], struct buf *bytes, struct oci_layout *l, int fd,
                            const char *path, const char *like, struct err *err)
{
	size_t cap = 256u << 10;
	auto_free char *block = malloc(cap);
	struct oci_hash *h = oci_hash_new(like && strncmp(like, "sha512:", 7) == 0);
	int rc = block ? 0 : err_set(err, ERR_ENV, "%s: no memory", l->name);
	while (rc == 0) {
		ssize_t n = read(fd, block, cap);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = err_sys(err, ERR_ENV, errno, "%s: %s", l->name, path);
		if (n <= 0)
			break;
		oci_hash_add(h, block, (size_t)n);
		if (bytes && buf_add(bytes, block, (size_t)n))
			rc = err_set(err, ERR_ENV, "%s: %s: is longer than %zu bytes", l->name, path,
			             bytes->max_bytes);
		else if (clock_now_ns() > l->deadline_ns)
			rc = err_set(err, ERR_ENV, "%s: %s: could not be read in time", l->name, path);
	}
	oci_hash_end(h, like, digest);
	oci_hash_free(h);
	return rc;
}

/* --- both ------------------------------------------------------------------------------------------------
 */

/* A small file by its name (index.json). */
static int read_named(struct buf *bytes, struct oci_layout *l, const char *path, struct err *err)
{
	char digest[OCI_DIGEST_BYTES];
	uint64_t size_bytes;
	if (l->kind == OCI_LAYOUT_FOLDER) {
		auto_fd fd = -1;
		if (open_regular(&fd, &size_bytes, l, path, err))
			return -1;
		return read_folder_file(digest, bytes, l, fd, path, NULL, err);
	}
	const struct oci_entry *e = oci_archive_find(&l->archive, path, false);
	if (!e || !e->kept)
		return err_set(err, ERR_ENV, "%s: %s: %s", l->name, path,
		               e ? "is no JSON file" : "is not there");
	return buf_add(bytes, e->bytes.p ? e->bytes.p : "", e->bytes.len)
	               ? err_set(err, ERR_ENV, "%s: %s: is too long", l->name, path)
	               : 0;
}

static void blob_path(char out[OCI_DIGEST_BYTES + 8], const char *digest)
{
	snprintf(out, OCI_DIGEST_BYTES + 8, "blobs/%s", digest);
	*strchr(out, ':') = '/';
}

static int wrong_size(const struct oci_layout *l, const struct oci_desc *d, uint64_t got, struct err *err)
{
	return err_set(err, ERR_ENV, "%s: %s: is %llu bytes long, its descriptor says %llu", l->name,
	               d->digest, (unsigned long long)got, (unsigned long long)d->size_bytes);
}

static int wrong_digest(const struct oci_layout *l, const struct oci_desc *d, const char *got,
                        struct err *err)
{
	return err_set(err, ERR_ENV, "%s: the blob named %s has other bytes: %s", l->name, d->digest, got);
}

static int blob_in_folder(struct buf *bytes, struct oci_layout *l, const struct oci_desc *d, bool hash,
                          struct err *err)
{
	char path[OCI_DIGEST_BYTES + 8], got[OCI_DIGEST_BYTES];
	uint64_t size_bytes = 0;
	auto_fd fd = -1;
	blob_path(path, d->digest);
	if (open_regular(&fd, &size_bytes, l, path, err))
		return -1;
	if (size_bytes != d->size_bytes)
		return wrong_size(l, d, size_bytes, err);
	if (!hash)
		return 0;
	if (read_folder_file(got, bytes, l, fd, path, d->digest, err))
		return -1;
	return strcmp(got, d->digest) == 0 ? 0 : wrong_digest(l, d, got, err);
}

static int blob_in_archive(struct buf *bytes, struct oci_layout *l, const struct oci_desc *d, struct err *err)
{
	char path[OCI_DIGEST_BYTES + 8];
	blob_path(path, d->digest);
	const struct oci_entry *e = oci_archive_find(&l->archive, path, false);
	if (!e)
		return err_set(err, ERR_ENV, "%s: %s: is not there", l->name, path);
	if (e->size_bytes != d->size_bytes)
		return wrong_size(l, d, e->size_bytes, err);
	if (strcmp(e->digest, d->digest) != 0)
		return wrong_digest(l, d, e->digest, err);
	if (!bytes)
		return 0;
	if (!e->kept)
		return err_set(err, ERR_ENV, "%s: %s: is no JSON file of at most %u bytes", l->name, path,
		               OCI_CONFIG_BYTES_MAX);
	return buf_add(bytes, e->bytes.p ? e->bytes.p : "", e->bytes.len)
	               ? err_set(err, ERR_ENV, "%s: %s: is too long", l->name, path)
	               : 0;
}

int oci_layout_read(struct buf *bytes, struct oci_layout *l, const struct oci_desc *d, size_t max_bytes,
                    struct err *err)
{
	auto_buf got = BUF_INIT(max_bytes);
	if (d->size_bytes > max_bytes)
		return err_set(err, ERR_ENV, "%s: %s: %llu bytes, at most %zu are read", l->name, d->digest,
		               (unsigned long long)d->size_bytes, max_bytes);
	if (l->kind == OCI_LAYOUT_FOLDER ? blob_in_folder(&got, l, d, true, err)
	                                 : blob_in_archive(&got, l, d, err))
		return -1;
	return buf_add(bytes, got.p ? got.p : "", got.len) ? err_set(err, ERR_ENV, "%s: no memory", l->name)
	                                                   : 0;
}

int oci_layout_check(struct oci_layout *l, const struct oci_desc *d, bool hash, struct err *err)
{
	return l->kind == OCI_LAYOUT_FOLDER ? blob_in_folder(NULL, l, d, hash, err)
	                                    : blob_in_archive(NULL, l, d, err);
}

/* --- opening ---------------------------------------------------------------------------------------------
 */

static int read_index(struct oci_layout *l, struct err *err)
{
	auto_buf mark = BUF_INIT(SMALL_BYTES_MAX);
	auto_buf text = BUF_INIT(OCI_DOC_BYTES_MAX);
	auto_json doc = NULL;
	struct err hidden;
	if (read_named(&mark, l, "oci-layout", err) || read_named(&text, l, "index.json", err))
		return -1;
	const char *version =
		json_parse(&doc, mark.p ? mark.p : "", mark.len, "oci-layout", JSON_STRICT, NULL, &hidden)
			? NULL
			: json_str(doc, "imageLayoutVersion");
	if (!version || strncmp(version, "1.", 2) != 0)
		return err_set(err, ERR_ENV, "%s: oci-layout: want imageLayoutVersion 1.x", l->name);
	auto_free char *at = str_fmt("%s: index.json", l->name);
	if (!at)
		return err_set(err, ERR_ENV, "%s: no memory", l->name);
	if (oci_doc_parse(&l->index, text.p ? text.p : "", text.len, OCI_TYPE_INDEX, at, err))
		return -1;
	return l->index.kind == OCI_INDEX ? 0 : err_set(err, ERR_ENV, "%s: is no index", at);
}

static int find_archive_kind(struct oci_layout *l, struct err *err)
{
	if (oci_archive_find(&l->archive, "oci-layout", false)) {
		l->kind = OCI_LAYOUT_ARCHIVE;
		return read_index(l, err);
	}
	l->kind = OCI_DOCKER_ARCHIVE;
	if (oci_archive_find(&l->archive, "manifest.json", false))
		return 0;
	return err_set(err, ERR_PLAN, "%s: is no image archive (has neither oci-layout nor manifest.json)",
	               l->name);
}

static int open_kind(struct oci_layout *l, const char *path, struct err *err)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_PLAN, errno, "%s", path);
	if (S_ISREG(st.st_mode)) {
		if (oci_archive_read(&l->archive, fd, l->name, l->deadline_ns, err))
			return -1;
		return find_archive_kind(l, err);
	}
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_PLAN, "%s: want a folder or an archive", path);
	l->dir_fd = steal_fd(&fd);
	l->kind = OCI_LAYOUT_FOLDER;
	if (faccessat(l->dir_fd, "oci-layout", F_OK, 0))
		return err_set(err, ERR_PLAN, "%s: is no OCI layout (has no oci-layout file)", path);
	return read_index(l, err);
}

int oci_layout_open(struct oci_layout **out, const char *path, uint64_t deadline_ns, struct err *err)
{
	struct oci_layout *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	l->dir_fd = -1;
	l->deadline_ns = deadline_ns;
	l->name = strdup(path);
	if (!l->name || open_kind(l, path, err)) {
		if (!l->name)
			err_set(err, ERR_ENV, "%s: no memory", path);
		oci_layout_close(l);
		return -1;
	}
	*out = l;
	return 0;
}
