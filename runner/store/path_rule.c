/* SPDX-License-Identifier: Apache-2.0 */
#include "store/path_rule.h"

#include "base/cleanup.h"
#include "store/name_key.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX (1u << 17)
#define KEY_BYTES_MAX (PATH_BYTES_MAX * 16)

/* Characters that a terminal or a reader does not show as they are: an eye takes two names for one. */
static bool is_unseen(int32_t c)
{
	return c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe007f);
}

static const char *part_fault(const char *part, size_t len)
{
	if (len == 0)
		return "empty segment in a path";
	if (len == 1 && part[0] == '.')
		return "'.' segment in a path";
	if (len == 2 && part[0] == '.' && part[1] == '.')
		return "'..' in a path";
	if (len > PATH_PART_BYTES_MAX)
		return "path segment over 255 bytes";
	return NULL;
}

static const char *text_fault(const char *path, size_t len)
{
	const char *fault = NULL;
	for (size_t at = 0; at < len;) {
		int32_t c = utf8_next(path, len, &at);
		if (c < 0)
			return "path is not UTF-8";
		if (c < 0x20 || (c >= 0x7f && c <= 0x9f))
			fault = "control character in a path";
		else if (c == '\\' && !fault)
			fault = "backslash in a path";
		else if (is_unseen(c) && !fault)
			fault = "invisible or direction-changing character in a path";
	}
	return fault;
}

const char *path_fault(const char *path, size_t len)
{
	if (len == 0)
		return "empty path";
	if (len > PATH_BYTES_MAX)
		return "path over 4096 bytes";
	const char *fault = text_fault(path, len);
	if (fault)
		return fault;
	if (path[0] == '/' || (len >= 3 && path[1] == ':' && path[2] == '/'))
		return "absolute path";
	for (const char *part = path, *end = path + len; part <= end;) {
		const char *slash = memchr(part, '/', (size_t)(end - part));
		size_t n = (size_t)((slash ? slash : end) - part);
		if ((fault = part_fault(part, n)))
			return fault;
		part += n + 1;
	}
	return NULL;
}

/* --- names that meet -------------------------------------------------------------------------------------
 */

/* One table a kind of key; open addressing, as big as needed. */
struct slot {
	char *key; /* NULL = free */
	size_t key_len;
	char *path; /* borrowed from the first table for the others */
	size_t path_len;
	bool is_dir, is_told; /* told: has an entry of its own, not only implied */
};

struct table {
	struct slot *slots;
	size_t n, cap; /* cap a power of two */
};

enum { BY_BYTES, BY_NFD, BY_FOLDED, N_TABLES };
struct name_set {
	struct table tables[N_TABLES];
};

struct name_set *name_set_new(void)
{
	return calloc(1, sizeof(struct name_set));
}

void name_set_free(struct name_set *s)
{
	if (!s)
		return;
	for (size_t t = 0; t < N_TABLES; t++) {
		for (size_t i = 0; i < s->tables[t].cap; i++) {
			free(s->tables[t].slots[i].key);
			free(s->tables[t].slots[i].path);
		}
		free(s->tables[t].slots);
	}
	free(s);
}

static size_t hash_of(const char *key, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
	return (size_t)(h ^ h >> 32);
}

static struct slot *table_at(const struct table *t, const char *key, size_t len)
{
	size_t i = hash_of(key, len) & (t->cap - 1);
	while (t->slots[i].key && (t->slots[i].key_len != len || memcmp(t->slots[i].key, key, len) != 0))
		i = (i + 1) & (t->cap - 1);
	return &t->slots[i];
}

static int table_grow(struct table *t)
{
	if (t->n * 2 < t->cap)
		return 0;
	struct table wide = { .n = t->n, .cap = t->cap ? t->cap * 2 : 256 };
	if (t->n >= NAMES_MAX || !(wide.slots = calloc(wide.cap, sizeof(*wide.slots))))
		return -1;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slots[i].key)
			*table_at(&wide, t->slots[i].key, t->slots[i].key_len) = t->slots[i];
	free(t->slots);
	*t = wide;
	return 0;
}

static int slot_fill(struct table *t, struct slot *s, const struct buf *key, const char *path, size_t len,
                     bool is_dir)
{
	s->key = malloc(key->len + 1);
	s->path = malloc(len + 1);
	if (!s->key || !s->path) {
		free(s->key);
		free(s->path);
		*s = (struct slot){ 0 };
		return -1;
	}
	memcpy(s->key, key->p, key->len);
	memcpy(s->path, path, len);
	s->key_len = key->len;
	s->path_len = len;
	s->is_dir = is_dir;
	t->n++;
	return 0;
}

static const char *no_room = "too many names";

/* One name or folder on the way. `told` false: only implied by a path below it. */
static const char *add_one(struct name_set *s, const char *path, size_t len, bool is_dir, bool told)
{
	static const char *const meets[] = { "name twice", "names equal after Unicode normalisation",
		                             "names that differ in case only" };
	for (size_t t = 0; t < N_TABLES; t++) {
		auto_buf key = BUF_INIT(KEY_BYTES_MAX);
		int rc = t == BY_BYTES ? buf_add(&key, path, len)
		         : t == BY_NFD ? name_key_nfd(&key, path, len)
		                       : name_key_folded(&key, path, len);
		if (rc || table_grow(&s->tables[t]))
			return no_room;
		struct slot *slot = table_at(&s->tables[t], key.p, key.len);
		if (!slot->key) {
			if (slot_fill(&s->tables[t], slot, &key, path, len, is_dir))
				return no_room;
			slot->is_told = told;
			continue;
		}
		if (slot->path_len != len || memcmp(slot->path, path, len) != 0)
			return meets[t];
		if (t != BY_BYTES)
			continue;
		if (!told)
			return slot->is_dir ? NULL : "a path through a file";
		if (slot->is_told)
			return slot->is_dir == is_dir ? "name twice"
			                              : "name twice, as a file and as a folder";
		if (!is_dir)
			return "name twice, as a file and as a folder";
		slot->is_told = true;
	}
	return NULL;
}

const char *name_set_add(struct name_set *s, const char *path, size_t len, bool is_dir)
{
	for (size_t i = 1; i < len; i++) {
		const char *fault = path[i] == '/' ? add_one(s, path, i, true, false) : NULL;
		if (fault)
			return fault;
	}
	return add_one(s, path, len, is_dir, true);
}
