/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "store/bundle.h"
#include "store/fault.h"
#include "store/manifest.h"
#include "store/pack.h"
#include "store/rundir_load.h"
#include "store/statement.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ENVELOPE_NAME "attestation.dsse.json"
#define MANIFEST_NAME "manifest.json"

/* A member on its way: what the manifest says of it, and its bytes in the archive. */
struct packing {
	struct manifest manifest;
	struct {
		const void *data;
		uint8_t *owned;
	} * bodies; /* as manifest.list */
	size_t n_bodies;
};

static void packing_done(struct packing *p)
{
	for (size_t i = 0; i < p->n_bodies; i++)
		free(p->bodies[i].owned);
	free(p->bodies);
	manifest_done(&p->manifest);
}

static int by_archive_path(const void *a, const void *b)
{
	const struct member *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

static int describe(struct manifest_member *m, const struct member *from, const char *suffix, struct err *err)
{
	int n = snprintf(m->path, sizeof(m->path), "run/%s%s", from->name, suffix);
	if (n < 0 || (size_t)n >= sizeof(m->path))
		return err_set(err, ERR_BUG, "bundle: member name of %zu bytes", strlen(from->name));
	m->raw_bytes = m->bytes = from->len;
	m->derived = manifest_is_derived(from->name);
	sha256_hex_of(from->len ? (const void *)from->data : "", from->len, m->raw_sha256);
	memcpy(m->sha256, m->raw_sha256, sizeof(m->sha256));
	return 0;
}

static int pack_member(struct packing *p, const struct member *from, bool may_pack, struct err *err)
{
	struct manifest_member *m = &p->manifest.list[p->manifest.n];
	if (describe(m, from, "", err))
		return -1;
	p->bodies[p->n_bodies].data = from->data;
	size_t packed_len = 0;
	uint8_t *packed = NULL;
	if (may_pack && from->len > PACK_FROM_BYTES &&
	    pack_zst(&packed, &packed_len, from->data, from->len, err))
		return -1;
	if (packed) {
		p->bodies[p->n_bodies].owned = packed;
		p->bodies[p->n_bodies].data = packed;
		if (describe(m, from, ".zst", err))
			return -1;
		m->zst = true;
		m->bytes = packed_len;
		sha256_hex_of(packed, packed_len, m->sha256);
	}
	p->n_bodies++;
	p->manifest.n++;
	return 0;
}

/* In the order of names. ".zst" behind a name keeps that order, since no name of ours is the beginning of
 * another; manifest_read would refuse it otherwise. */
static int pack_all(struct packing *p, const struct member_set *set, bool may_pack, struct err *err)
{
	const struct member **sorted = calloc(set->n + 1, sizeof(const struct member *));
	p->manifest.list = calloc(set->n + 1, sizeof(*p->manifest.list));
	p->bodies = calloc(set->n + 1, sizeof(*p->bodies));
	int rc = 0;
	if (!sorted || !p->manifest.list || !p->bodies)
		rc = err_set(err, ERR_ENV, "bundle: no memory");
	for (size_t i = 0; i < set->n && rc == 0; i++)
		sorted[i] = &set->list[i];
	if (rc == 0)
		qsort(sorted, set->n, sizeof(*sorted), by_archive_path);
	for (size_t i = 0; i < set->n && rc == 0; i++)
		rc = pack_member(p, sorted[i], may_pack, err);
	free(sorted);
	if (rc == 0 && manifest_root(p->manifest.evidence_root, &p->manifest))
		rc = err_set(err, ERR_ENV, "bundle: no memory");
	return rc;
}

int evidence_root_of(char out[65], const struct member_set *set, struct err *err)
{
	struct packing p = { 0 };
	int rc = pack_all(&p, set, false, err);
	if (rc == 0)
		memcpy(out, p.manifest.evidence_root, SHA256_HEX_BYTES);
	packing_done(&p);
	return rc;
}

/* --- the archive -----------------------------------------------------------------------------------------
 */

struct sink {
	int fd;
	int failed; /* errno of the first failed write, 0 = none */
};

/* Never tells libarchive of a failure: 3.6 leaks its buffer then. The sink remembers. */
static la_ssize_t write_some(struct archive *a, void *arg, const void *data, size_t len)
{
	struct sink *sink = arg;
	if (!sink->failed && store_write(sink->fd, data, len))
		sink->failed = errno;
	return (la_ssize_t)len;
}

static int put_member(struct archive *a, const char *name, const void *data, size_t len, struct err *err)
{
	struct archive_entry *e = archive_entry_new();
	if (!e)
		return err_set(err, ERR_ENV, "bundle: no memory");
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_mtime(e, 0, 0);
	archive_entry_set_size(e, (la_int64_t)len);
	bool ok = archive_write_header(a, e) == ARCHIVE_OK &&
	          (len == 0 || archive_write_data(a, data, len) == (la_ssize_t)len) &&
	          archive_write_finish_entry(a) == ARCHIVE_OK;
	archive_entry_free(e);
	if (ok)
		return 0;
	const char *why = archive_error_string(a);
	return err_set(err, ERR_ENV, "%s: cannot write: %s", name, why ? why : "unknown");
}

static int put_all(struct archive *a, const struct packing *p, const struct buf *envelope,
                   const struct buf *manifest, struct err *err)
{
	if (put_member(a, ENVELOPE_NAME, envelope->p, envelope->len, err) ||
	    put_member(a, MANIFEST_NAME, manifest->p, manifest->len, err))
		return -1;
	for (size_t i = 0; i < p->manifest.n; i++)
		if (put_member(a, p->manifest.list[i].path, p->bodies[i].data, p->manifest.list[i].bytes,
		               err))
			return -1;
	return archive_write_close(a) == ARCHIVE_OK ? 0 : err_set(err, ERR_ENV, "cannot write the end");
}

static int write_archive(int fd, const struct packing *p, const struct buf *envelope,
                         const struct buf *manifest, struct err *err)
{
	struct archive *a = archive_write_new();
	if (!a)
		return err_set(err, ERR_ENV, "bundle: no memory");
	archive_write_set_format_ustar(a);
	archive_write_set_bytes_per_block(a, 0);
	archive_write_set_bytes_in_last_block(a, 1);
	struct sink sink = { .fd = fd };
	int rc = archive_write_open(a, &sink, NULL, write_some, NULL) == ARCHIVE_OK
	                 ? put_all(a, p, envelope, manifest, err)
	                 : err_set(err, ERR_ENV, "bundle: libarchive refuses to begin");
	archive_write_free(a);
	if (sink.failed)
		return err_sys(err, ERR_ENV, sink.failed, "cannot write");
	return rc;
}

/* What was written is opened as a stranger would open it, before it gets its name. */
static int prove(const char *path, const struct sign_key *key, struct err *err)
{
	struct bundle *b = NULL;
	struct bundle_proof proof;
	if (bundle_open(&b, &proof, path, &key, 1, err))
		return err_wrap(err, "the bundle just written does not verify");
	bundle_close(b);
	return 0;
}

static int write_file(const char *out_path, const struct packing *p, const struct buf *envelope,
                      const struct buf *manifest, const struct sign_key *key, struct err *err)
{
	auto_free char *tmp = str_fmt("%s.tmp", out_path);
	if (!tmp)
		return err_set(err, ERR_ENV, "%s: no memory", out_path);
	auto_fd fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", tmp);
	int rc = write_archive(fd, p, envelope, manifest, err);
	if (rc == 0 && store_sync(fd))
		rc = err_sys(err, ERR_ENV, errno, "cannot write");
	if (rc == 0)
		rc = prove(tmp, key, err);
	if (rc == 0 && store_rename(AT_FDCWD, tmp, out_path))
		rc = err_sys(err, ERR_ENV, errno, "cannot rename into place");
	if (rc == 0)
		return 0;
	unlink(tmp);
	return err_wrap(err, "%s", out_path);
}

/* --- seal ------------------------------------------------------------------------------------------------
 */

static int seal_set(const char *out_path, const struct sign_key *key, const struct seal_facts *facts,
                    const struct member_set *set, char evidence_root[65], struct err *err)
{
	struct packing p = { 0 };
	auto_buf manifest = BUF_INIT(MANIFEST_BYTES_MAX);
	auto_buf statement = BUF_INIT(MANIFEST_BYTES_MAX);
	auto_buf envelope = BUF_INIT(MANIFEST_BYTES_MAX);
	char manifest_sha256[SHA256_HEX_BYTES];
	int rc = pack_all(&p, set, true, err);
	if (rc == 0 && manifest_write(&manifest, &p.manifest))
		rc = err_set(err, ERR_ENV, "bundle: no memory");
	if (rc == 0) {
		sha256_hex_of(manifest.p, manifest.len, manifest_sha256);
		if (statement_write(&statement, facts, &p.manifest, manifest_sha256))
			rc = err_set(err, ERR_ENV, "bundle: no memory");
	}
	if (rc == 0)
		rc = dsse_sign(&envelope, STATEMENT_PAYLOAD_TYPE, statement.p, statement.len, key, err);
	if (rc == 0)
		rc = write_file(out_path, &p, &envelope, &manifest, key, err);
	if (rc == 0 && evidence_root)
		memcpy(evidence_root, p.manifest.evidence_root, SHA256_HEX_BYTES);
	packing_done(&p);
	return rc;
}

int bundle_seal(const char *run_dir, const char *out_path, const struct sign_key *key,
                const struct seal_facts *facts, char evidence_root[65], struct err *err)
{
	const char *names[32];
	size_t n = 0;
	for (size_t i = 0; evidence_member_names[i]; i++)
		names[n++] = evidence_member_names[i];
	for (size_t i = 0; derived_member_names[i]; i++)
		names[n++] = derived_member_names[i];
	names[n] = NULL;
	struct member_set set = { 0 };
	if (rundir_load_names(&set, run_dir, names, err))
		return err_wrap(err, "seal");
	int rc = member_find(&set, "plan.json")
	                 ? seal_set(out_path, key, facts, &set, evidence_root, err)
	                 : err_set(err, ERR_USAGE, "%s: has no plan.json: is it a run directory?", run_dir);
	member_set_done(&set);
	return rc ? err_wrap(err, "seal") : 0;
}
