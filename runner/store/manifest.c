/* SPDX-License-Identifier: Apache-2.0 */
#include "store/manifest.h"

#include "base/json_in.h"
#include "base/json_out.h"
#include "store/path_rule.h"
#include "store/rundir.h"

#include <inttypes.h>
#include <string.h>

#define RUN_PREFIX "run/"
#define ZST_SUFFIX ".zst"

void manifest_done(struct manifest *m)
{
	free(m->list);
	*m = (struct manifest){ 0 };
}

void manifest_raw_name(char *out, const struct manifest_member *m)
{
	size_t len = strlen(m->path), around = strlen(RUN_PREFIX) + (m->zst ? strlen(ZST_SUFFIX) : 0);
	len = len > around ? len - around : 0;
	memcpy(out, m->path + strlen(RUN_PREFIX), len);
	out[len] = '\0';
}

bool manifest_is_derived(const char *raw_name)
{
	for (size_t i = 0; derived_member_names[i]; i++)
		if (strcmp(derived_member_names[i], raw_name) == 0)
			return true;
	return false;
}

/* --- evidence root ---------------------------------------------------------------------------------------
 */

struct root_line {
	char name[USTAR_NAME_BYTES_MAX + 1];
	const char *sha256;
};

static int by_name(const void *a, const void *b)
{
	const struct root_line *x = a, *y = b;
	return strcmp(x->name, y->name);
}

int manifest_root(char out[SHA256_HEX_BYTES], const struct manifest *m)
{
	struct root_line *lines = calloc(m->n + 1, sizeof(*lines));
	size_t n = 0;
	if (!lines)
		return -1;
	for (size_t i = 0; i < m->n; i++) {
		if (m->list[i].derived)
			continue;
		manifest_raw_name(lines[n].name, &m->list[i]);
		lines[n++].sha256 = m->list[i].raw_sha256;
	}
	qsort(lines, n, sizeof(*lines), by_name);
	auto_buf text = BUF_INIT(MANIFEST_BYTES_MAX);
	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%s  %s\n", lines[i].sha256, lines[i].name);
	free(lines);
	if (text.failed)
		return -1;
	sha256_hex_of(text.len ? text.p : "", text.len, out);
	return 0;
}

/* --- text ------------------------------------------------------------------------------------------------
 */

static void write_member(struct json_out *o, const struct manifest_member *m)
{
	jo_obj(o, NULL);
	jo_u64(o, "bytes", m->bytes);
	jo_str(o, "class", m->derived ? "derived" : "raw");
	jo_str(o, "encoding", m->zst ? "zst" : NULL);
	jo_str(o, "path", m->path);
	jo_u64(o, "raw_bytes", m->raw_bytes);
	jo_str(o, "raw_sha256", m->raw_sha256);
	jo_str(o, "sha256", m->sha256);
	jo_end(o);
}

int manifest_write(struct buf *out, const struct manifest *m)
{
	struct json_out o;
	jo_init(&o, out, 1);
	jo_obj(&o, NULL);
	jo_str(&o, "evidence_root", m->evidence_root);
	jo_arr(&o, "members");
	for (size_t i = 0; i < m->n; i++)
		write_member(&o, &m->list[i]);
	jo_end_arr(&o);
	jo_u64(&o, "schema_version", 1);
	jo_end(&o);
	return out->failed ? -1 : 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);
	return n >= k && strcmp(text + n - k, end) == 0;
}

/* Narrower than path_fault: our own names, which no two systems read in two ways. */
static const char *member_path_fault(const char *path, bool zst)
{
	const char *fault = path_fault(path, strlen(path));
	if (fault)
		return fault;
	if (strlen(path) > USTAR_NAME_BYTES_MAX)
		return "path over 100 bytes";
	if (strncmp(path, RUN_PREFIX, strlen(RUN_PREFIX)) != 0)
		return "a path outside run/";
	const char *name = path + strlen(RUN_PREFIX);
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(name))
		return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		                       strlen(name)
		               ? "capital letters in a member's name"
		               : "a member's name has other characters than a-z 0-9 . _ -";
	if (name[0] == '.' || name[0] == '-')
		return "a member's name begins with . or -";
	if (zst != ends_with(name, ZST_SUFFIX) || strcmp(name, ZST_SUFFIX) == 0)
		return "encoding and name ending do not agree";
	return NULL;
}

static const char *limits_fault(const struct manifest_member *m)
{
	if (m->bytes > USTAR_SIZE_MAX || m->raw_bytes > MEMBER_RAW_BYTES_MAX)
		return "member is over the limit of 4 GiB";
	if (!m->zst && (m->bytes != m->raw_bytes || strcmp(m->sha256, m->raw_sha256) != 0))
		return "plain member with two sizes or two hashes";
	if (m->zst && m->raw_bytes > PACK_FROM_BYTES && m->raw_bytes / PACK_RATIO_MAX > m->bytes)
		return "unpacks to more than 1000 times its size";
	return NULL;
}

static bool copy_hash(char out[SHA256_HEX_BYTES], const struct cJSON *obj, const char *key)
{
	const char *hex = json_str(obj, key);
	if (!hex || !sha256_hex_ok(hex))
		return false;
	memcpy(out, hex, SHA256_HEX_BYTES);
	return true;
}

/* Values only; that there is nothing else is seen when the whole is written again. */
static int read_member(struct manifest_member *m, const struct cJSON *obj, size_t i, struct err *err)
{
	const char *path = json_str(obj, "path"), *encoding = json_str(obj, "encoding");
	const char *cls = json_str(obj, "class");
	if (!path || !cls || !json_u64(obj, "bytes", &m->bytes) ||
	    !json_u64(obj, "raw_bytes", &m->raw_bytes) || !copy_hash(m->sha256, obj, "sha256") ||
	    !copy_hash(m->raw_sha256, obj, "raw_sha256"))
		return err_set(
			err, ERR_NOT_GENUINE,
			"manifest: /members/%zu: wants path, class, bytes, raw_bytes, sha256, raw_sha256", i);
	m->zst = encoding && strcmp(encoding, "zst") == 0;
	const char *fault = member_path_fault(path, m->zst);
	if (fault)
		return err_set(err, ERR_NOT_GENUINE, "manifest: /members/%zu/path: %s", i, fault);
	memcpy(m->path, path, strlen(path) + 1);
	if ((fault = limits_fault(m)))
		return err_set(err, ERR_NOT_GENUINE, "manifest: %s: %s", m->path, fault);
	char raw_name[USTAR_NAME_BYTES_MAX + 1];
	manifest_raw_name(raw_name, m);
	m->derived = manifest_is_derived(raw_name);
	if (strcmp(cls, m->derived ? "derived" : "raw") != 0)
		return err_set(err, ERR_NOT_GENUINE, "manifest: %s: class is not %s", m->path,
		               m->derived ? "derived" : "raw");
	return 0;
}

static int check_order(const struct manifest *m, struct err *err)
{
	uint64_t total = 0;
	for (size_t i = 0; i < m->n; i++) {
		total += m->list[i].raw_bytes;
		int order = i ? strcmp(m->list[i - 1].path, m->list[i].path) : -1;
		if (order == 0)
			return err_set(err, ERR_NOT_GENUINE, "manifest: %s: listed twice", m->list[i].path);
		if (order > 0)
			return err_set(err, ERR_NOT_GENUINE, "manifest: %s: out of order", m->list[i].path);
		char plain[USTAR_NAME_BYTES_MAX + sizeof(RUN_PREFIX)];
		size_t len = strlen(m->list[i].path) - strlen(ZST_SUFFIX);
		if (!m->list[i].zst)
			continue;
		memcpy(plain, m->list[i].path, len);
		plain[len] = '\0';
		for (size_t k = i; k-- > 0 && strncmp(m->list[k].path, plain, len) == 0;)
			if (strcmp(m->list[k].path, plain) == 0)
				return err_set(err, ERR_NOT_GENUINE, "manifest: %s: plain and packed", plain);
	}
	if (total > BUNDLE_RAW_BYTES_MAX)
		return err_set(err, ERR_NOT_GENUINE, "manifest: members unpack to more than %llu GiB",
		               BUNDLE_RAW_BYTES_MAX >> 30);
	return 0;
}

static int read_members(struct manifest *m, const struct cJSON *doc, struct err *err)
{
	const struct cJSON *list = json_get(doc, "members"), *obj;
	size_t n = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
	if (n == 0 || !copy_hash(m->evidence_root, doc, "evidence_root"))
		return err_set(err, ERR_NOT_GENUINE, "manifest: wants members and evidence_root");
	if (n > MANIFEST_MEMBERS_MAX)
		return err_set(err, ERR_NOT_GENUINE, "manifest: %zu members, at most %u", n,
		               MANIFEST_MEMBERS_MAX);
	m->list = calloc(n, sizeof(*m->list));
	if (!m->list)
		return err_set(err, ERR_ENV, "manifest: no memory");
	cJSON_ArrayForEach(obj, list)
	{
		if (read_member(&m->list[m->n], obj, m->n, err))
			return -1;
		m->n++;
	}
	return check_order(m, err);
}

static int check_text(const struct manifest *m, const char *text, size_t len, struct err *err)
{
	auto_buf again = BUF_INIT(MANIFEST_BYTES_MAX);
	char root[SHA256_HEX_BYTES];
	if (manifest_write(&again, m) || manifest_root(root, m))
		return err_set(err, ERR_ENV, "manifest: no memory");
	if (again.len != len || memcmp(again.p, text, len) != 0)
		return err_set(
			err, ERR_NOT_GENUINE,
			"manifest: is not in its one form (blanks, order, unknown members or version)");
	if (strcmp(root, m->evidence_root) != 0)
		return err_set(err, ERR_NOT_GENUINE, "manifest: evidence_root is not that of its members");
	return 0;
}

int manifest_read(struct manifest *out, const char *text, size_t len, struct err *err)
{
	auto_json doc = NULL;
	struct manifest m = { 0 };
	if (len > MANIFEST_BYTES_MAX)
		return err_set(err, ERR_NOT_GENUINE, "manifest: larger than %u bytes", MANIFEST_BYTES_MAX);
	if (json_parse(&doc, text, len, "manifest", JSON_STRICT, NULL, err)) {
		err->cls = ERR_NOT_GENUINE;
		return -1;
	}
	if (read_members(&m, doc, err) || check_text(&m, text, len, err)) {
		manifest_done(&m);
		return -1;
	}
	*out = m;
	return 0;
}
