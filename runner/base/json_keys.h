/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of all objects of one document, found again in constant time also when somebody chose them to
 * collide (keyed hash). An object is a number, so that a freed one is never mistaken for a new one. */
#ifndef BASE_JSON_KEYS_H
#define BASE_JSON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

struct json_key {
	uint64_t hash, object; /* object 0 = free slot */
	const char *key;       /* borrowed */
	size_t key_len;
	struct cJSON *node; /* the value, for the caller */
	bool escaped;       /* written with a backslash */
};

struct json_keys {
	struct json_key *slots;
	size_t n_slots, n;
	bool fold; /* ASCII upper and lower case are one */
};

void json_keys_done(struct json_keys *k);
/* The slot of that key: with `object` set when it was there (`*found`), else new and filled but for `node`
 * and `escaped`. Valid until the next call. NULL without memory. */
struct json_key *json_keys_put(struct json_keys *k, uint64_t object, const char *key, size_t len,
                               bool *found);

#endif
