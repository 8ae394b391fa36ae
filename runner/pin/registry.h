/* SPDX-License-Identifier: Apache-2.0 */
/* A registry (OCI distribution-spec 1.1, Docker registry API v2): manifests, blobs and referrers of one
 * repository. Blocking, one request at a time, over one kept connection. Every byte is hashed here; what the
 * registry says about digests is only compared. Waits asked for by 429 and 503 are kept, within bounds. */
#ifndef PIN_REGISTRY_H
#define PIN_REGISTRY_H

#include "base/buf.h"
#include "pin/registry_auth.h"
#include "pin/registry_ref.h"

#define REGISTRY_ACCEPT                                                                                      \
	OCI_TYPE_INDEX ", " OCI_TYPE_MANIFEST ", " OCI_TYPE_DOCKER_LIST ", " OCI_TYPE_DOCKER_MANIFEST

enum registry_tls {
	REGISTRY_TLS_AUTO, /* TLS; on loopback plain HTTP first (unless there is a ca_file), then TLS */
	REGISTRY_TLS_ONLY,
	REGISTRY_PLAIN_HTTP, /* the user said so */
};

struct registry_http;
struct registry_spec {
	const struct registry_ref *ref; /* host and path count */
	const char *config_file;        /* credentials, as registry_creds_find takes it */
	const char *ca_file;            /* NULL = the system's */
	enum registry_tls tls;
	const bool *stop;           /* ends everything with ERR_INTERRUPTED; NULL = never */
	struct registry_http *http; /* connections to go on with, borrowed; NULL = own */
	uint64_t deadline_ns;       /* for everything; monotonic */
	double wait_max_s;          /* the longest single wait that is kept; 0 = REGISTRY_WAIT_MAX_S */
	double backoff_factor;      /* of our own back-off; 0 = 1 (tests) */
};

struct registry_stats {
	unsigned n_requests;         /* to the registry itself, redirects not counted */
	unsigned n_tokens;           /* asked for */
	double waited_s;             /* because it asked for it */
	struct registry_limit limit; /* as last told */
};

struct registry;
warn_unused int registry_open(struct registry **out, const struct registry_spec *spec, struct err *err);
void registry_close(struct registry *r); /* accepts NULL */
const struct registry_stats *registry_stats(const struct registry *r);

/* The bytes behind a tag or a digest, and the Content-Type they came with. A digest that was asked for has to
 * be that of the bytes; so has a Docker-Content-Digest. With `found` a manifest that is not there is no error
 * (0, *found false). Waits, credentials and redirects are dealt with inside. `bytes` is appended to. ERR_ENV.
 */
warn_unused int registry_manifest(struct buf *bytes, char type[OCI_TYPE_BYTES], struct registry *r,
                                  const char *tag_or_digest, bool *found, struct err *err);

/* The index of what refers to `digest`: by /referrers/, else by the tag sha256-HEX. */
warn_unused int registry_referrers(struct buf *bytes, struct registry *r, const char *digest, bool *found,
                                   struct err *err);

/* A blob of exactly that digest and size, in pieces to `sink` (NULL = only checked; not 0 = stop, an error).
 * What has come before a connection broke is kept and the rest asked for (Range with If-Range, only while
 * bytes are missing); gives up after three tries without a byte. The sink may have got bytes although the
 * digest then is another: the result counts. */
typedef int registry_sink(void *ctx, const void *data, size_t len);
warn_unused int registry_blob(struct registry *r, const char *digest, uint64_t size_bytes,
                              registry_sink *sink, void *ctx, struct err *err);

/* What a whole answer to a manifest request says, for registry_manifest: NULL when body and header fit, else
 * -1 with the reason. `asked`: a digest, or anything else. `header`: Docker-Content-Digest, "" = not sent. */
warn_unused int registry_digest_check(char digest[OCI_DIGEST_BYTES], const void *body, size_t len,
                                      const char *header, const char *asked, const char *name,
                                      struct err *err);

#endif
