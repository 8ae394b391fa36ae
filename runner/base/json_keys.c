/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_keys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

static uint64_t secret[2];

static void draw_secret(void)
{
	if (getrandom(secret, sizeof(secret), GRND_NONBLOCK) != (ssize_t)sizeof(secret))
		secret[0] ^=
			(uint64_t)(uintptr_t)&secret * 0x9e3779b97f4a7c15u; /* early boot: address only */
}

static uint64_t rotl(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	v[0] ^= m;
}

/* SipHash-1-3 over the object's number and the key. */
static uint64_t hash_of(uint64_t object, const char *key, size_t len, bool fold)
{
	uint64_t v[4] = { secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du,
		          secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u };
	absorb(v, object);
	for (size_t i = 0; i < len; i += 8) {
		uint64_t m = 0;
		for (size_t j = 0; j < 8 && i + j < len; j++) {
			unsigned char c = (unsigned char)key[i + j];
			if (fold && c >= 'A' && c <= 'Z')
				c = (unsigned char)(c | 0x20);
			m |= (uint64_t)c << 8 * j;
		}
		absorb(v, m);
	}
	absorb(v, len);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void json_keys_done(struct json_keys *k)
{
	free(k->slots);
	k->slots = NULL;
	k->n_slots = k->n = 0;
}

static bool same_key(const struct json_keys *k, const struct json_key *s, const char *key, size_t len)
{
	if (s->key_len != len)
		return false;
	return k->fold ? strncasecmp(s->key, key, len) == 0 : memcmp(s->key, key, len) == 0;
}

static struct json_key *slot_for(const struct json_keys *k, uint64_t hash, uint64_t object, const char *key,
                                 size_t len)
{
	for (size_t i = hash & (k->n_slots - 1);; i = (i + 1) & (k->n_slots - 1)) {
		struct json_key *s = &k->slots[i];
		if (!s->object || (s->hash == hash && s->object == object && same_key(k, s, key, len)))
			return s;
	}
}

static int grow(struct json_keys *k)
{
	struct json_keys wider = { .n_slots = k->n_slots ? 2 * k->n_slots : 32, .n = k->n, .fold = k->fold };
	wider.slots = calloc(wider.n_slots, sizeof(*wider.slots));
	if (!wider.slots)
		return -1;
	for (size_t i = 0; i < k->n_slots; i++) {
		const struct json_key *s = &k->slots[i];
		if (!s->object)
			continue;
		size_t j = s->hash & (wider.n_slots - 1);
		while (wider.slots[j].object)
			j = (j + 1) & (wider.n_slots - 1);
		wider.slots[j] = *s;
	}
	free(k->slots);
	*k = wider;
	return 0;
}

struct json_key *json_keys_put(struct json_keys *k, uint64_t object, const char *key, size_t len, bool *found)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, draw_secret);
	if (2 * (k->n + 1) > k->n_slots && grow(k))
		return NULL;
	uint64_t hash = hash_of(object, key, len, k->fold);
	struct json_key *s = slot_for(k, hash, object, key, len);
	*found = s->object != 0;
	if (!*found) {
		*s = (struct json_key){ .hash = hash, .object = object, .key = key, .key_len = len };
		k->n++;
	}
	return s;
}
