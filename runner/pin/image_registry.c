/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/image_source.h"

#include <string.h>

static int fetch(struct image_doc *out, bool *found, struct image_source *s, const char *tag_or_digest,
                 const char *carrier, struct err *err)
{
	struct image_doc d = { .bytes = BUF_INIT(OCI_DOC_BYTES_MAX) };
	char type[OCI_TYPE_BYTES] = "";
	auto_free char *name = str_fmt("%s: %s", s->name, tag_or_digest);
	bool there = true;
	if (!name)
		return err_set(err, ERR_ENV, "%s: no memory", s->name);
	int rc = registry_manifest(&d.bytes, type, s->registry, tag_or_digest, found ? &there : NULL, err);
	/* What the index says of it counts as much as the header: both have to agree with the bytes. */
	if (rc == 0 && there)
		rc = image_doc_take(&d, type, name, err);
	if (rc == 0 && there && carrier && strcmp(carrier, d.doc.media_type) != 0)
		rc = err_set(err, ERR_ENV, "%s: the index says %s, it came as %s", name, carrier,
		             d.doc.media_type);
	if (rc || !there) {
		image_doc_done(&d);
		if (rc == 0)
			*found = false;
		return rc;
	}
	if (found)
		*found = true;
	*out = d;
	return 0;
}

static int root(struct image_doc *out, struct image_source *s, const char *name, struct err *err)
{
	(void)name;
	return fetch(out, NULL, s, s->ref.digest[0] ? s->ref.digest : s->ref.tag, NULL, err);
}

static int doc(struct image_doc *out, struct image_source *s, const struct oci_desc *d, struct err *err)
{
	struct image_doc got;
	if (d->size_bytes > OCI_DOC_BYTES_MAX)
		return err_set(err, ERR_ENV, "%s: %s: %llu bytes, at most %u are read", s->name, d->digest,
		               (unsigned long long)d->size_bytes, OCI_DOC_BYTES_MAX);
	if (fetch(&got, NULL, s, d->digest, d->media_type, err))
		return -1;
	if (got.bytes.len != d->size_bytes) {
		err_set(err, ERR_ENV, "%s: is %zu bytes long, its index says %llu", got.name, got.bytes.len,
		        (unsigned long long)d->size_bytes);
		image_doc_done(&got);
		return -1;
	}
	*out = got;
	return 0;
}

static int keep(void *ctx, const void *data, size_t len)
{
	return buf_add(ctx, data, len);
}

static int small(struct buf *out, struct image_source *s, const struct oci_desc *d, size_t max_bytes,
                 struct err *err)
{
	if (d->size_bytes > max_bytes)
		return err_set(err, ERR_ENV, "%s: %s: %llu bytes, at most %zu are read", s->name, d->digest,
		               (unsigned long long)d->size_bytes, max_bytes);
	return registry_blob(s->registry, d->digest, d->size_bytes, keep, out, err);
}

static int layer(struct image_source *s, const struct oci_desc *d, bool hash, struct err *err)
{
	return hash ? registry_blob(s->registry, d->digest, d->size_bytes, NULL, NULL, err) : 0;
}

static int tagged(struct image_doc *out, bool *found, struct image_source *s, const char *tag,
                  struct err *err)
{
	return fetch(out, found, s, tag, NULL, err);
}

static int referrers(struct image_doc *out, bool *found, struct image_source *s, const char *digest,
                     struct err *err)
{
	struct image_doc d = { .bytes = BUF_INIT(OCI_DOC_BYTES_MAX) };
	auto_free char *name = str_fmt("%s: referrers of %s", s->name, digest);
	bool there = false;
	int rc = name ? registry_referrers(&d.bytes, s->registry, digest, &there, err)
	              : err_set(err, ERR_ENV, "%s: no memory", s->name);
	if (rc == 0 && there)
		rc = image_doc_take(&d, OCI_TYPE_INDEX, name, err);
	if (rc || !there) {
		image_doc_done(&d);
		if (rc == 0)
			*found = false;
		return rc;
	}
	*found = true;
	*out = d;
	return 0;
}

const struct image_source_ops image_from_registry = {
	.root = root,
	.doc = doc,
	.small = small,
	.layer = layer,
	.tagged = tagged,
	.referrers = referrers,
};
