/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry says in its headers: who may ask (WWW-Authenticate, RFC 9110 and 6750), when to ask again
 * (Retry-After) and how often (RateLimit-*, as Docker Hub sends them). Pure. */
#ifndef PIN_REGISTRY_AUTH_H
#define PIN_REGISTRY_AUTH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHALLENGE_TEXT_BYTES 1024
#define CHALLENGE_HEADER_BYTES_MAX 8192

enum challenge_scheme { CHALLENGE_BASIC, CHALLENGE_BEARER };
struct registry_challenge {
	enum challenge_scheme scheme;
	char realm[CHALLENGE_TEXT_BYTES];
	bool has_service, has_scope, has_error;
	char service[CHALLENGE_TEXT_BYTES], scope[CHALLENGE_TEXT_BYTES], error[CHALLENGE_TEXT_BYTES];
};

/* The challenge to answer out of all that the header holds (several lines are joined by ", "): Bearer before
 * Basic. Commas and scheme words inside quotes stay there. ERR_ENV. */
warn_unused int registry_challenge_parse(struct registry_challenge *out, const char *header, struct err *err);

/* Why no password goes to that Bearer realm; NULL = it may. A registry with TLS has its tokens from a place
 * with TLS; one without may name loopback, or its own host where the user allowed plain HTTP. */
const char *registry_realm_fault(const char *realm, bool registry_has_tls, const char *registry_host,
                                 bool plain_allowed);

/* Retry-After: seconds or an HTTP date, at `now_s` (since 1970). False when it says nothing that can be used
 * (then it is the asker's own back-off). A date gone by is 0. */
bool registry_retry_after(double *wait_s, const char *value, int64_t now_s);

struct registry_limit { /* of pulls */
	bool has_limit, has_remaining, has_window;
	uint64_t limit, remaining, window_s;
};
/* RateLimit-Limit "100;w=21600" and RateLimit-Remaining "76;w=21600"; either may be NULL. */
void registry_limit_parse(struct registry_limit *out, const char *limit, const char *remaining);

#define REGISTRY_BACKOFF_FIRST_S 2.0
#define REGISTRY_WAIT_MAX_S 900.0
/* The n-th wait (from 0) of our own: 2, 4, 8 s, … at most 60. */
double registry_backoff_s(unsigned n);

#endif
