/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of files that were hashed before, by device, inode, size, mtime and ctime. A convenience of this
 * machine, never evidence: a cache that is not ours, too large or damaged is not used, line by line. */
#ifndef PIN_HASH_CACHE_H
#define PIN_HASH_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define HASH_CACHE_KEY_BYTES 128

struct hash_cache_entry {
	char key[HASH_CACHE_KEY_BYTES];
	char sha256[65];
};

struct hash_cache {
	struct hash_cache_entry *old; /* sorted by key */
	size_t n_old;
	struct hash_cache_entry *fresh; /* to be written */
	size_t n_fresh;
};

/* Never fails: what cannot be read is empty. */
void hash_cache_load(struct hash_cache *c);
bool hash_cache_find(const struct hash_cache *c, const struct stat *st, char sha256[65]);
/* Keeps it for hash_cache_save, unless the file changed so shortly ago that a second change could hide behind
 * the same times. */
void hash_cache_add(struct hash_cache *c, const struct stat *st, const char sha256[65]);
/* Writes old and fresh entries; a failure leaves the old file. */
void hash_cache_save(struct hash_cache *c);
void hash_cache_done(struct hash_cache *c);

#endif
