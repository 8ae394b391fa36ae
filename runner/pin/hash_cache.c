/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/hash_cache.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CACHE_NAME "hashes.jsonl"
#define CACHE_BYTES_MAX (16u << 20)
#define ENTRIES_MAX 20000
#define CHECK_HEX 16
#define SETTLED_NS (1 * (int64_t)NS_PER_S) /* coarsest time stamps of common file systems */

static char *cache_dir(void)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (xdg && xdg[0] == '/')
		return str_fmt("%s/proofmark", xdg);
	return home && home[0] == '/' ? str_fmt("%s/.cache/proofmark", home) : NULL;
}

static void key_of(const struct stat *st, char key[HASH_CACHE_KEY_BYTES])
{
	snprintf(key, HASH_CACHE_KEY_BYTES, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld", (uintmax_t)st->st_dev,
	         (uintmax_t)st->st_ino, (intmax_t)st->st_size, (intmax_t)st->st_mtim.tv_sec,
	         st->st_mtim.tv_nsec, (intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

/* Two writers at once may tear a line: the check keeps a key from meeting another file's hash. */
static void check_of(const struct hash_cache_entry *e, char hex[CHECK_HEX + 1])
{
	char both[HASH_CACHE_KEY_BYTES + 70], full[SHA256_HEX_BYTES];
	int n = snprintf(both, sizeof(both), "%s %s", e->key, e->sha256);
	sha256_hex_of(both, (size_t)n, full);
	memcpy(hex, full, CHECK_HEX);
	hex[CHECK_HEX] = '\0';
}

static bool parse_line(struct hash_cache_entry *e, const char *line, size_t len)
{
	char text[320], told[CHECK_HEX + 1] = "", right[CHECK_HEX + 1];
	int end = -1;
	if (len >= sizeof(text))
		return false;
	memcpy(text, line, len);
	text[len] = '\0';
	if (sscanf(text, "{\"key\":\"%127[0-9:.-]\",\"sha256\":\"%64[0-9a-f]\",\"check\":\"%16[0-9a-f]\"}%n",
	           e->key, e->sha256, told, &end) != 3 ||
	    end != (int)len || !sha256_hex_ok(e->sha256))
		return false;
	check_of(e, right);
	return strcmp(told, right) == 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct hash_cache_entry *)a)->key, ((const struct hash_cache_entry *)b)->key);
}

/* Ours alone: another user who may write it could choose what our files hash to. */
static int open_ours(const char *dir)
{
	auto_free char *path = fs_join(dir, CACHE_NAME);
	auto_fd fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022) || st.st_size > (off_t)CACHE_BYTES_MAX)
		return -1;
	return steal_fd(&fd);
}

static int read_ours(struct buf *out)
{
	enum { CHUNK_BYTES = 1 << 16 };
	auto_free char *dir = cache_dir();
	auto_free char *chunk = malloc(CHUNK_BYTES);
	auto_fd fd = dir && chunk ? open_ours(dir) : -1;
	ssize_t n;
	if (fd < 0)
		return -1;
	while ((n = read(fd, chunk, CHUNK_BYTES)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || buf_add(out, chunk, (size_t)n))
			return -1;
	}
	return out->p ? 0 : -1;
}

void hash_cache_load(struct hash_cache *c)
{
	auto_buf text = BUF_INIT(CACHE_BYTES_MAX);
	*c = (struct hash_cache){ 0 };
	if (read_ours(&text) || !(c->old = calloc(ENTRIES_MAX, sizeof(*c->old))))
		return;
	for (const char *p = text.p, *end = text.p + text.len; p < end && c->n_old < ENTRIES_MAX;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			break;
		c->n_old += parse_line(&c->old[c->n_old], p, (size_t)(nl - p));
		p = nl + 1;
	}
	qsort(c->old, c->n_old, sizeof(*c->old), by_key);
}

bool hash_cache_find(const struct hash_cache *c, const struct stat *st, char sha256[65])
{
	struct hash_cache_entry want;
	key_of(st, want.key);
	const struct hash_cache_entry *e =
		c->n_old ? bsearch(&want, c->old, c->n_old, sizeof(*c->old), by_key) : NULL;
	if (e)
		memcpy(sha256, e->sha256, 65);
	return e != NULL;
}

void hash_cache_add(struct hash_cache *c, const struct stat *st, const char sha256[65])
{
	int64_t changed = (int64_t)st->st_ctim.tv_sec * (int64_t)NS_PER_S + st->st_ctim.tv_nsec;
	if (clock_wall_ns() - changed < SETTLED_NS || c->n_fresh >= ENTRIES_MAX / 2)
		return;
	struct hash_cache_entry *p = realloc(c->fresh, (c->n_fresh + 1) * sizeof(*p));
	if (!p)
		return;
	c->fresh = p;
	key_of(st, p[c->n_fresh].key);
	memcpy(p[c->n_fresh++].sha256, sha256, 65);
}

static void put_entries(struct buf *out, const struct hash_cache_entry *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char check[CHECK_HEX + 1];
		check_of(&list[i], check);
		buf_addf(out, "{\"key\":\"%s\",\"sha256\":\"%s\",\"check\":\"%s\"}\n", list[i].key,
		         list[i].sha256, check);
	}
}

void hash_cache_save(struct hash_cache *c)
{
	struct err ignored = { 0 };
	auto_buf out = BUF_INIT(CACHE_BYTES_MAX);
	auto_free char *dir = cache_dir();
	if (!c->n_fresh || !dir || fs_mkdir_p(dir, &ignored))
		return;
	size_t room = ENTRIES_MAX - c->n_fresh, kept = c->n_old < room ? c->n_old : room;
	put_entries(&out, c->old, kept);
	put_entries(&out, c->fresh, c->n_fresh);
	auto_fd dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd >= 0 && !out.failed && fs_write_at(dir_fd, CACHE_NAME, out.p, out.len, true, &ignored))
		return; /* the next run hashes again */
	c->n_fresh = 0;
}

void hash_cache_done(struct hash_cache *c)
{
	free(c->old);
	free(c->fresh);
	*c = (struct hash_cache){ 0 };
}
