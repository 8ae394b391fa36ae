/* SPDX-License-Identifier: Apache-2.0 */
/* registry: any text as an image's name, as WWW-Authenticate, Retry-After, RateLimit and as a token's address
 * (first byte: which). What is taken is within its bounds and, written out, reads the same again. */
#include "fuzz.h"
#include "pin/registry_auth.h"
#include "pin/registry_ref.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void as_name(const char *text)
{
	struct registry_ref a, b;
	struct err err = { 0 };
	char one[REF_TEXT_BYTES], two[REF_TEXT_BYTES];
	if (registry_ref_parse(&a, text, &err)) {
		assert(err.cls == ERR_PLAN && err.msg[0]);
		return;
	}
	assert(a.host[0] && a.path[0] && (a.tag[0] || a.digest[0]) && !strstr(a.path, "..") &&
	       !strchr(a.path, '?'));
	assert(!a.digest[0] || !oci_digest_fault(a.digest));
	registry_ref_text(&a, one);
	assert(registry_ref_parse(&b, one, &err) == 0);
	registry_ref_text(&b, two);
	assert(strcmp(one, two) == 0);
}

static void as_challenge(const char *text)
{
	struct registry_challenge c;
	struct err err = { 0 };
	if (registry_challenge_parse(&c, text, &err)) {
		assert(err.cls == ERR_ENV && err.msg[0]);
		return;
	}
	assert(strlen(c.realm) < sizeof(c.realm) && strlen(c.scope) < sizeof(c.scope));
	assert(c.scheme == CHALLENGE_BASIC || c.realm[0]);
	if (registry_realm_fault(c.realm, true, "registry.example", true) == NULL)
		assert(strncmp(c.realm, "http://", 7) != 0);
}

static void as_waits(const char *text)
{
	struct registry_limit l;
	double wait_s = -1;
	if (registry_retry_after(&wait_s, text, 1790924400))
		assert(wait_s >= 0);
	registry_limit_parse(&l, text, text);
	assert(!l.has_window || l.has_limit || l.has_remaining);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	char *text = malloc(size);
	assert(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 3) {
	case 0:
		as_name(text);
		break;
	case 1:
		as_challenge(text);
		break;
	default:
		as_waits(text);
	}
	free(text);
	return 0;
}
