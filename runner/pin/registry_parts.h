/* SPDX-License-Identifier: Apache-2.0 */
/* Between the registry*.c files. */
#ifndef PIN_REGISTRY_PARTS_H
#define PIN_REGISTRY_PARTS_H

#include "pin/registry.h"
#include "pin/registry_creds.h"
#include "pin/registry_http.h"

#define REGISTRY_TRIES_MAX 5               /* of one request, when told to wait or answered 5xx */
#define REGISTRY_SMALL_NS (60000000000ull) /* the longest that a small answer may take */

struct registry {
	struct registry_ref ref;
	struct registry_http *http;
	bool owns_http;
	char *config_file;
	enum registry_tls tls;
	bool plain, reached; /* scheme in use; some answer has come over it */
	uint64_t deadline_ns;
	const bool *stop;
	double wait_max_s, backoff_factor;
	struct registry_creds creds;
	bool creds_known;
	struct registry_challenge challenge;
	bool has_challenge;
	char *authorization;       /* secret */
	uint64_t token_expires_ns; /* monotonic; 0 = does not */
	struct registry_stats stats;
};

/* Answers the challenge(s) of a 401: r->authorization is new afterwards. */
warn_unused int registry_login(struct registry *r, const char *challenges, struct err *err);
/* A token that has run out is renewed. */
warn_unused int registry_renew(struct registry *r, struct err *err);

/* GET of /v2/PATH/`rest`; `rq` holds everything but url, authorization, deadline. 401, 429 and 5xx are dealt
 * with; any other status is the caller's. */
warn_unused int registry_ask(struct registry_answer *a, struct registry *r, const char *rest,
                             struct registry_request *rq, struct err *err);
/* 429 and 5xx: asked again after a while. */
bool registry_wants_wait(long status);
/* Keeps the wait that was asked for, else our own; `n` waits were before. -1 when that is too often or too
 * long. */
warn_unused int registry_wait(struct registry *r, const struct registry_answer *a, unsigned n,
                              struct err *err);
/* The error for a status that is not wanted: "NAME: not found (MANIFEST_UNKNOWN)". */
int registry_say_status(const struct registry *r, const struct registry_answer *a, const char *rest,
                        struct err *err);

#endif
