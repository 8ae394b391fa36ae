/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tar_pax.h"

#include <string.h>

#define RECORDS_MAX 256u

struct record_text {
	const char *key, *value;
	size_t key_len, value_len;
};

/* "LEN KEY=VALUE\n", LEN counting itself. Bytes used, 0 when malformed. */
static size_t cut_record(struct record_text *r, const char *data, size_t len)
{
	size_t n = 0, i = 0;
	while (i < len && i < 8 && data[i] >= '0' && data[i] <= '9')
		n = n * 10 + (size_t)(data[i++] - '0');
	if (i == 0 || data[0] == '0' || i >= len || data[i] != ' ' || n > len || n < i + 4 ||
	    data[n - 1] != '\n')
		return 0;
	r->key = data + i + 1;
	const char *equal = memchr(r->key, '=', n - i - 2);
	if (!equal || equal == r->key)
		return 0;
	r->key_len = (size_t)(equal - r->key);
	r->value = equal + 1;
	r->value_len = (size_t)(data + n - 1 - r->value);
	return n;
}

static bool is_key(const struct record_text *r, const char *key)
{
	return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

static bool begins(const struct record_text *r, const char *prefix)
{
	return r->key_len > strlen(prefix) && memcmp(r->key, prefix, strlen(prefix)) == 0;
}

static bool is_harmless(const struct record_text *r)
{
	static const char *const keys[] = { "mtime", "atime", "ctime", "uid",
		                            "gid",   "uname", "gname", "comment" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (is_key(r, keys[i]))
			return true;
	return begins(r, "SCHILY.") || begins(r, "LIBARCHIVE.") || begins(r, "MSWINDOWS.") ||
	       begins(r, "RHT.");
}

static const char *take_size(struct pax_records *out, const struct record_text *r)
{
	uint64_t size = 0;
	if (r->value_len == 0 || r->value_len > 18)
		return "size record is no number";
	for (size_t i = 0; i < r->value_len; i++) {
		if (i == 0 && r->value[i] == '-')
			return "negative size";
		if (r->value[i] < '0' || r->value[i] > '9')
			return "size record is no number";
		size = size * 10 + (uint64_t)(r->value[i] - '0');
	}
	out->has_size = true;
	out->size_bytes = size;
	return NULL;
}

static const char *take_path(struct pax_records *out, const struct record_text *r)
{
	if (r->value_len == 0)
		return "empty path in a pax record";
	if (memchr(r->value, '\0', r->value_len))
		return "control character in a path";
	out->path = r->value;
	out->path_len = r->value_len;
	return NULL;
}

static const char *take_record(struct pax_records *out, const struct record_text *r, bool global)
{
	if (begins(r, "GNU.sparse."))
		return "sparse file";
	if (is_key(r, "path"))
		return global ? "path in a global header" : take_path(out, r);
	if (is_key(r, "size"))
		return global ? "size in a global header" : take_size(out, r);
	if (is_key(r, "linkpath"))
		return global ? "link target in a global header" : "link target in a pax record";
	if (is_key(r, "hdrcharset") || is_key(r, "charset"))
		return "a pax record sets another character set than UTF-8";
	return is_harmless(r) ? NULL : "unknown record in a pax header";
}

static bool seen_before(const struct record_text *seen, size_t n, const struct record_text *r)
{
	for (size_t i = 0; i < n; i++)
		if (seen[i].key_len == r->key_len && memcmp(seen[i].key, r->key, r->key_len) == 0)
			return true;
	return false;
}

const char *pax_read(struct pax_records *out, const char *data, size_t len, bool global)
{
	struct record_text seen[RECORDS_MAX];
	size_t n = 0;
	if (len == 0)
		return "empty pax header";
	for (size_t at = 0; at < len; n++) {
		if (n == RECORDS_MAX)
			return "too many records in one pax header";
		size_t used = cut_record(&seen[n], data + at, len - at);
		if (!used)
			return "malformed pax record";
		if (seen_before(seen, n, &seen[n]))
			return "record twice in one pax header";
		const char *fault = take_record(out, &seen[n], global);
		if (fault)
			return fault;
		at += used;
	}
	return NULL;
}
