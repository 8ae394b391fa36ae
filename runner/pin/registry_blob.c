/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/registry_parts.h"

#include <inttypes.h>
#include <string.h>

#define IDLE_TRIES_MAX 3
#define BLOB_TRIES_MAX 200 /* with progress */

struct reading {                /* one blob */
	uint64_t size_bytes, n; /* n: hashed and handed on */
	uint64_t skip;          /* of this answer: bytes that have come before */
	bool begun;             /* this answer's status was looked at */
	const char *fault;      /* final */
	bool sink_failed;
	struct oci_hash *hash;
	registry_sink *sink;
	void *ctx;
};

/* "bytes 100-199/200" has to begin where we are and end with the blob. */
static const char *range_fault(const struct reading *b, const char *text)
{
	uint64_t first, last;
	char total[32];
	int used = 0;
	if (sscanf(text, "bytes %20" SCNu64 "-%20" SCNu64 "/%31[0-9*]%n", &first, &last, total, &used) != 3 ||
	    text[used])
		return "answered 206 without a Content-Range that can be read";
	if (first != b->n || last < first || last >= b->size_bytes)
		return "answered another range than was asked for";
	if (strcmp(total, "*") != 0 && strtoull(total, NULL, 10) != b->size_bytes)
		return "has another size than the manifest says";
	return NULL;
}

static int on_piece(void *ctx, long status, const char *content_range, const char *data, size_t len)
{
	struct reading *b = ctx;
	if (!b->begun) {
		b->begun = true;
		b->skip = status == 206 ? 0 : b->n; /* 200: from the start again */
		if (status == 206)
			b->fault = range_fault(b, content_range);
		else if (status != 200)
			b->fault = "answered neither 200 nor 206";
		if (b->fault)
			return -1;
	}
	size_t old = b->skip < len ? (size_t)b->skip : len;
	b->skip -= old;
	data += old;
	len -= old;
	if (len > b->size_bytes - b->n) {
		b->fault = "is longer than the manifest says";
		return -1;
	}
	oci_hash_add(b->hash, data, len);
	b->n += len;
	if (len && b->sink && b->sink(b->ctx, data, len)) {
		b->sink_failed = true;
		return -1;
	}
	return 0;
}

struct validator { /* what If-Range may hold: a strong tag */
	char etag[256];
};

static void note_etag(struct validator *v, const struct registry_answer *a)
{
	size_t n = strlen(a->etag);
	bool strong = n > 2 && a->etag[0] == '"' && a->etag[n - 1] == '"' && !strchr(a->etag, ',');
	if (a->status == 200)
		snprintf(v->etag, sizeof(v->etag), "%s", strong ? a->etag : "");
}

/* One request for what is missing. -1 is final; 0 may have brought nothing (`why` then says so). */
static int one_try(struct reading *b, struct registry *r, const char *rest, struct validator *v,
                   struct err *why, struct err *err)
{
	char range[48];
	struct registry_answer a;
	snprintf(range, sizeof(range), "bytes=%" PRIu64 "-", b->n);
	struct registry_request rq = { .max_bytes = UINT64_MAX / 2, /* on_piece bounds it */
		                       .range = b->n ? range : NULL,
		                       .if_range = b->n && v->etag[0] ? v->etag : NULL,
		                       .sink = on_piece,
		                       .sink_ctx = b };
	b->begun = false;
	registry_answer_init(&a);
	int rc = registry_ask(&a, r, rest, &rq, why);
	if (rc) { /* no answer at all: asked again, as with one that broke off */
		*err = *why;
		rc = b->n > 0 && !b->fault && !b->sink_failed && why->cls != ERR_INTERRUPTED ? 0 : -1;
	} else if (b->fault) {
		rc = err_set(err, ERR_ENV, "%s/%s: %s: %s", r->ref.host, r->ref.path, rest, b->fault);
	} else if (b->sink_failed) {
		rc = err_set(err, ERR_ENV, "%s/%s: %s: could not be kept", r->ref.host, r->ref.path, rest);
	} else if (a.status == 416) {
		rc = err_set(err, ERR_ENV,
		             "%s/%s: %s: is shorter than the manifest says (%" PRIu64
		             " bytes): no bytes from %" PRIu64 " on",
		             r->ref.host, r->ref.path, rest, b->size_bytes, b->n);
	} else if (a.status != 200 && a.status != 206) {
		rc = registry_say_status(r, &a, rest, err);
	} else {
		note_etag(v, &a);
		err_set(why, ERR_ENV, "%s/%s: %s: %s after %" PRIu64 " of %" PRIu64 " bytes", r->ref.host,
		        r->ref.path, rest, a.cut ? a.cut : "ends", b->n, b->size_bytes);
		if (!a.cut && b->n < b->size_bytes) { /* whole, says HTTP: then the size is a lie */
			*err = *why;
			rc = -1;
		}
	}
	registry_answer_done(&a);
	return rc;
}

static int read_all(struct reading *b, struct registry *r, const char *rest, struct err *err)
{
	struct validator v = { { 0 } };
	struct err why = { 0 };
	unsigned idle = 0;
	for (unsigned n = 0; n < BLOB_TRIES_MAX && idle < IDLE_TRIES_MAX; n++) {
		uint64_t before = b->n;
		if (one_try(b, r, rest, &v, &why, err))
			return -1;
		if (b->n == b->size_bytes) /* never ask for bytes behind the end: that answer is a trap */
			return 0;
		idle = b->n > before ? 0 : idle + 1;
	}
	*err = why;
	return -1;
}

int registry_blob(struct registry *r, const char *digest, uint64_t size_bytes, registry_sink *sink, void *ctx,
                  struct err *err)
{
	struct reading b = { .size_bytes = size_bytes, .sink = sink, .ctx = ctx };
	char got[OCI_DIGEST_BYTES];
	auto_free char *rest = str_fmt("blobs/%s", digest);
	const char *fault = oci_digest_fault(digest);
	if (!rest || fault || size_bytes > UINT64_MAX / 2)
		return err_set(err, ERR_ENV, "%s/%s: blob: %s", r->ref.host, r->ref.path,
		               fault ? fault : "no memory, or a size that is none");
	b.hash = oci_hash_new(strncmp(digest, "sha512:", 7) == 0);
	int rc = read_all(&b, r, rest, err);
	oci_hash_end(b.hash, digest, got);
	oci_hash_free(b.hash);
	if (rc == 0 && strcmp(got, digest) != 0)
		return err_set(err, ERR_ENV, "%s/%s: blob: asked for %s, the bytes that came are %s",
		               r->ref.host, r->ref.path, digest, got);
	return rc;
}
