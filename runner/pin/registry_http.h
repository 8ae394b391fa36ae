/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request to a registry or to what it names: bounded, redirects by hand, header fields kept. For the
 * registry*.c files only. */
#ifndef PIN_REGISTRY_HTTP_H
#define PIN_REGISTRY_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define REGISTRY_REDIRECTS_MAX 5
#define REGISTRY_URL_BYTES_MAX 8192u
#define REGISTRY_REFUSAL_BYTES_MAX (64u << 10) /* the body of an answer other than 2xx */

struct registry_http; /* a libcurl handle: keeps its connections */
struct registry_http_spec {
	const char *ca_file; /* NULL = the system's */
	bool plain_allowed;  /* HTTP without TLS to other hosts than loopback */
};
warn_unused int registry_http_open(struct registry_http **out, const struct registry_http_spec *spec,
                                   struct err *err);
void registry_http_close(struct registry_http *h);

struct registry_request {
	const char *url;
	const char *authorization;    /* secret or NULL; goes to that scheme, host and port only */
	const char *accept;           /* NULL = none */
	const char *range, *if_range; /* "bytes=100-" */
	const char *form;             /* NULL = GET, else POST of a form; secret */
	uint64_t deadline_ns, max_bytes;
	const bool *stop; /* NULL = never */
	/* Gets the body of a 2xx; not 0 ends the transfer. NULL = into the answer's body. */
	int (*sink)(void *ctx, long status, const char *content_range, const char *data, size_t len);
	void *sink_ctx;
};

struct registry_answer {
	long status;
	bool elsewhere;  /* answered by another host than was asked */
	const char *cut; /* why the body is not whole; NULL = it is */
	bool stopped;    /* the sink ended it */
	struct buf body, challenges;
	char type[192], digest[256], etag[256], content_range[96];
	char retry_after[64], rate_limit[64], rate_remaining[64];
};
void registry_answer_init(struct registry_answer *a);
void registry_answer_done(struct registry_answer *a);

/* 0 for any HTTP answer (also one whose body broke off: `cut`), -1 when there is none, or a redirect is not
 * to be followed. Messages show URLs without their query. `a` is started anew. */
warn_unused int registry_http_do(struct registry_answer *a, struct registry_http *h,
                                 const struct registry_request *rq, struct err *err);
/* "https://host/path" of a URL, for messages. */
void registry_url_shown(const char *url, char *out, size_t out_bytes);

#endif
