/* SPDX-License-Identifier: Apache-2.0 */
/* Prove, then parse: the envelope's bounds and signature first, then the manifest it names, then every byte
 * of the archive against what the manifest implies. Nothing here looks for members; it knows where each must
 * be. */
#include "base/fs.h"
#include "base/json_in.h"
#include "store/bundle.h"
#include "store/manifest.h"
#include "store/pack.h"
#include "store/statement.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENVELOPE_NAME "attestation.dsse.json"
#define MANIFEST_NAME "manifest.json"
#define ENVELOPE_BYTES_MAX (4u << 20)
#define BUNDLE_BYTES_MAX (20ull << 30)
/* Up to here the file is copied, so that nobody changes it between the check and the use. */
#define COPY_BYTES_MAX (1ull << 30)

struct bundle {
	const uint8_t *bytes;
	size_t len;
	void *map; /* ours, NULL = borrowed */
	struct cJSON *statement;
	struct manifest manifest;
	struct member_set members;
};

void bundle_close(struct bundle *b)
{
	if (!b)
		return;
	member_set_done(&b->members);
	manifest_done(&b->manifest);
	cJSON_Delete(b->statement);
	if (b->map)
		munmap(b->map, b->len);
	free(b);
}

const struct member_set *bundle_members(const struct bundle *b)
{
	return &b->members;
}

/* --- layout ----------------------------------------------------------------------------------------------
 */

static bool all_zero(const uint8_t *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

/* The member that must begin at *at: its header byte for byte, its data within the file, zeros behind it. */
static int expect_member(const uint8_t **data, size_t *at, const struct bundle *b, const char *name,
                         uint64_t size, struct err *err)
{
	uint8_t want[USTAR_BLOCK_BYTES];
	size_t left = b->len - *at;
	if (ustar_header(want, name, size))
		return err_set(err, ERR_NOT_GENUINE, "%s: name or size cannot stand in an archive", name);
	if (left < USTAR_BLOCK_BYTES)
		return err_set(err, ERR_NOT_GENUINE, "%s: archive ends before it (truncated)", name);
	const uint8_t *header = b->bytes + *at;
	if (memcmp(header, want, USTAR_BLOCK_BYTES) != 0)
		return err_set(err, ERR_NOT_GENUINE, "%s: header at byte %zu has %s", name, *at,
		               ustar_difference(header, want));
	left -= USTAR_BLOCK_BYTES;
	size_t padding = ustar_padding(size);
	if (size > left || padding > left - size)
		return err_set(err, ERR_NOT_GENUINE, "%s: archive ends inside it (truncated)", name);
	if (!all_zero(header + USTAR_BLOCK_BYTES + size, padding))
		return err_set(err, ERR_NOT_GENUINE, "%s: padding behind it is not zero", name);
	*data = header + USTAR_BLOCK_BYTES;
	*at += USTAR_BLOCK_BYTES + size + padding;
	return 0;
}

/* A member whose size is only known from its own header: bounded, then the same check. */
static int expect_sized(const uint8_t **data, size_t *len, size_t *at, const struct bundle *b,
                        const char *name, uint64_t max_bytes, struct err *err)
{
	uint64_t size = 0;
	if (b->len - *at < USTAR_BLOCK_BYTES)
		return err_set(err, ERR_NOT_GENUINE, "%s: archive ends before it (truncated)", name);
	if (ustar_size(&size, b->bytes + *at))
		return err_set(err, ERR_NOT_GENUINE, "%s: no header in our form at byte %zu", name, *at);
	if (size == 0 || size > max_bytes)
		return err_set(err, ERR_NOT_GENUINE, "%s: size %" PRIu64 ", want 1 to %" PRIu64 " bytes",
		               name, size, max_bytes);
	if (expect_member(data, at, b, name, size, err))
		return -1;
	*len = (size_t)size;
	return 0;
}

static int expect_end(size_t at, const struct bundle *b, struct err *err)
{
	size_t left = b->len - at;
	if (left < (size_t)2 * USTAR_BLOCK_BYTES)
		return err_set(err, ERR_NOT_GENUINE, "archive: no end mark of two zero blocks (truncated)");
	if (!all_zero(b->bytes + at, (size_t)2 * USTAR_BLOCK_BYTES))
		return err_set(err, ERR_NOT_GENUINE,
		               "archive: holds more at byte %zu than the manifest lists (a member added?)",
		               at);
	if (left > (size_t)2 * USTAR_BLOCK_BYTES)
		return err_set(err, ERR_NOT_GENUINE, "archive: %zu bytes behind its end",
		               left - (size_t)2 * USTAR_BLOCK_BYTES);
	return 0;
}

/* --- members ---------------------------------------------------------------------------------------------
 */

static int check_hash(const void *data, size_t len, const char *want, const char *name, struct err *err)
{
	char got[SHA256_HEX_BYTES];
	sha256_hex_of(data, len, got);
	return strcmp(got, want) == 0
	               ? 0
	               : err_set(err, ERR_NOT_GENUINE, "%s: sha256 is %s, want %s", name, got, want);
}

static int take_member(struct bundle *b, const struct manifest_member *m, const uint8_t *data,
                       struct err *err)
{
	char raw_name[USTAR_NAME_BYTES_MAX + 1];
	uint8_t *raw = NULL;
	manifest_raw_name(raw_name, m);
	if (m->zst) {
		if (unpack_zst(&raw, data, (size_t)m->bytes, (size_t)m->raw_bytes, m->path, err))
			return -1;
		if (check_hash(raw, (size_t)m->raw_bytes, m->raw_sha256, raw_name, err)) {
			free(raw);
			return -1;
		}
	}
	if (member_add(&b->members, raw_name, raw ? raw : data, (size_t)m->raw_bytes, raw)) {
		free(raw);
		return err_set(err, ERR_ENV, "%s: no memory", m->path);
	}
	return 0;
}

/* Where each member's data lies; the whole layout is proven before any member is looked at, and every hash
 * before anything is unpacked. */
static int check_layout(const uint8_t **data, size_t at, const struct bundle *b, struct err *err)
{
	for (size_t i = 0; i < b->manifest.n; i++)
		if (expect_member(&data[i], &at, b, b->manifest.list[i].path, b->manifest.list[i].bytes, err))
			return -1;
	return expect_end(at, b, err);
}

static int take_members(struct bundle *b, struct bundle_proof *proof, size_t at, struct err *err)
{
	const uint8_t **data = calloc(b->manifest.n + 1, sizeof(const uint8_t *));
	if (!data)
		return err_set(err, ERR_ENV, "bundle: no memory");
	int rc = check_layout(data, at, b, err);
	proof->layout_verified = rc == 0;
	for (size_t i = 0; i < b->manifest.n && rc == 0; i++)
		rc = check_hash(data[i], (size_t)b->manifest.list[i].bytes, b->manifest.list[i].sha256,
		                b->manifest.list[i].path, err);
	for (size_t i = 0; i < b->manifest.n && rc == 0; i++)
		rc = take_member(b, &b->manifest.list[i], data[i], err);
	free(data);
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------------------
 */

static int open_envelope(struct bundle *b, struct bundle_proof *proof, char manifest_sha256[SHA256_HEX_BYTES],
                         size_t *at, const struct sign_key *const *keys, size_t n_keys, struct err *err)
{
	const uint8_t *text;
	size_t len, which;
	auto_buf payload = BUF_INIT(ENVELOPE_BYTES_MAX);
	if (expect_sized(&text, &len, at, b, ENVELOPE_NAME, ENVELOPE_BYTES_MAX, err) ||
	    dsse_verify(&payload, &which, (const char *)text, len, STATEMENT_PAYLOAD_TYPE, true, keys, n_keys,
	                err))
		return -1;
	proof->signature_verified = true;
	proof->test_key = key_is_test(keys[which]);
	memcpy(proof->keyid, key_id(keys[which]), SHA256_HEX_BYTES);
	return statement_read(&b->statement, manifest_sha256, proof->evidence_root, payload.p, payload.len,
	                      err);
}

static int open_manifest(struct bundle *b, struct bundle_proof *proof,
                         const char manifest_sha256[SHA256_HEX_BYTES], size_t *at, struct err *err)
{
	const uint8_t *text;
	size_t len;
	if (expect_sized(&text, &len, at, b, MANIFEST_NAME, MANIFEST_BYTES_MAX, err) ||
	    check_hash(text, len, manifest_sha256, MANIFEST_NAME, err) ||
	    manifest_read(&b->manifest, (const char *)text, len, err))
		return -1;
	memcpy(proof->manifest_sha256, manifest_sha256, SHA256_HEX_BYTES);
	proof->manifest_verified = true;
	if (strcmp(proof->evidence_root, b->manifest.evidence_root) != 0)
		return err_set(err, ERR_NOT_GENUINE,
		               "statement: subject evidence-root is not the manifest's evidence_root");
	return statement_check(b->statement, &b->manifest, err);
}

static int check_whole(struct bundle *b, struct bundle_proof *proof, const struct sign_key *const *keys,
                       size_t n_keys, struct err *err)
{
	char manifest_sha256[SHA256_HEX_BYTES];
	size_t at = 0;
	if (n_keys == 0)
		return err_set(err, ERR_USAGE, "no key to check the signature with (--key FILE)");
	if (open_envelope(b, proof, manifest_sha256, &at, keys, n_keys, err) ||
	    open_manifest(b, proof, manifest_sha256, &at, err) || take_members(b, proof, at, err))
		return -1;
	sha256_hex_of(b->bytes, b->len, proof->bundle_sha256);
	proof->statement = b->statement;
	proof->n_members = b->manifest.n;
	proof->bytes = b->len;
	return 0;
}

/* Takes `b` over. */
static int open_filled(struct bundle **out, struct bundle_proof *proof, struct bundle *b,
                       const struct sign_key *const *keys, size_t n_keys, struct err *err)
{
	struct bundle_proof p = { 0 };
	if (check_whole(b, &p, keys, n_keys, err)) {
		bundle_close(b);
		return -1;
	}
	*proof = p;
	*out = b;
	return 0;
}

int bundle_open_bytes(struct bundle **out, struct bundle_proof *proof, const void *data, size_t len,
                      const struct sign_key *const *keys, size_t n_keys, struct err *err)
{
	struct bundle *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, ERR_ENV, "bundle: no memory");
	b->bytes = data;
	b->len = len;
	return open_filled(out, proof, b, keys, n_keys, err);
}

static int read_into(void *to, int fd, size_t len)
{
	size_t have = 0;
	while (have < len) {
		ssize_t n = read(fd, (char *)to + have, len - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		have += (size_t)n;
	}
	return 0;
}

static int load_file(struct bundle *b, const char *path, struct err *err)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s: is not a regular file", path);
	if (st.st_size == 0 || (uint64_t)st.st_size > BUNDLE_BYTES_MAX)
		return err_set(err, ERR_NOT_GENUINE, "%s: %s", path,
		               st.st_size ? "larger than any bundle may be" : "is empty");
	b->len = (size_t)st.st_size;
	bool copy = b->len <= COPY_BYTES_MAX;
	void *map = copy ? mmap(NULL, b->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
	                 : mmap(NULL, b->len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(err, ERR_ENV, errno, "%s: cannot map", path);
	b->map = map;
	b->bytes = map;
	if (copy && read_into(map, fd, b->len))
		return err_set(err, ERR_ENV, "%s: cannot read", path);
	return 0;
}

int bundle_open(struct bundle **out, struct bundle_proof *proof, const char *path,
                const struct sign_key *const *keys, size_t n_keys, struct err *err)
{
	struct bundle *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	if (load_file(b, path, err)) {
		bundle_close(b);
		return -1;
	}
	return open_filled(out, proof, b, keys, n_keys, err) ? err_wrap(err, "%s", path) : 0;
}

/* --- unpack ----------------------------------------------------------------------------------------------
 */

static int unpack_one(int dir_fd, const struct member *m, struct err *err)
{
	auto_fd fd = openat(dir_fd, m->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", m->name);
	return fs_write_all(fd, m->data, m->len) ? err_sys(err, ERR_ENV, errno, "%s: cannot write", m->name)
	                                         : 0;
}

int bundle_unpack(const struct bundle *b, const char *dir, struct err *err)
{
	if (mkdir(dir, 0777))
		return err_sys(err, errno == EEXIST ? ERR_USAGE : ERR_ENV, errno,
		               "%s: cannot create the folder", dir);
	auto_fd dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", dir);
	for (size_t i = 0; i < b->members.n; i++)
		if (unpack_one(dir_fd, &b->members.list[i], err))
			return err_wrap(err, "%s", dir);
	return 0;
}
