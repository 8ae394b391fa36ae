/* SPDX-License-Identifier: Apache-2.0 */
/* Small control-plane requests (health, tokenize, props): one at a time, whole answer in memory, one
 * deadline. libcurl inside. The load engine has its own path; nothing measured goes through here. */
#ifndef BASE_HTTP_H
#define BASE_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct http_client; /* keeps its connection */
struct http_spec {
	const char *base_url; /* no slash at the end; "unix:///run/x.sock" = HTTP over that socket */
	const char *bearer;   /* secret or NULL; goes into no message */
	const char *ca_file;  /* NULL = system */
};
warn_unused int http_open(struct http_client **out, const struct http_spec *spec, struct err *err);
void http_close(struct http_client *c);
/* body NULL = GET, else POST application/json. 0 with *status set for any HTTP answer; -1 (ERR_ENV) for none.
 * Answers over `max_bytes` are an error. */
warn_unused int http_call(struct http_client *c, const char *path, const char *body, uint64_t deadline_ns,
                          size_t max_bytes, int *status, struct buf *answer, struct err *err);

#endif
