/* SPDX-License-Identifier: Apache-2.0 */
/* Where the objects of an image come from: a registry or a layout, behind one table. For image*.c. */
#ifndef PIN_IMAGE_SOURCE_H
#define PIN_IMAGE_SOURCE_H

#include "base/buf.h"
#include "pin/cosign.h"
#include "pin/oci_layout.h"
#include "pin/pin_image.h"

struct image_doc { /* an index or manifest with its bytes */
	struct buf bytes;
	struct oci_doc doc;
	char digest[OCI_SHA256_BYTES];
	char name[REF_TEXT_BYTES + OCI_DIGEST_BYTES]; /* for messages */
};
void image_doc_done(struct image_doc *d);
/* Parses and hashes what is in d->bytes. */
warn_unused int image_doc_take(struct image_doc *d, const char *type, const char *name, struct err *err);

struct image_source {
	const struct image_source_ops *ops;
	const char *name; /* for messages */
	struct registry_ref ref;
	struct registry *registry; /* or */
	struct oci_layout *layout;
};

struct image_source_ops {
	/* By what was asked for. */
	int (*root)(struct image_doc *out, struct image_source *s, const char *name, struct err *err);
	/* By a descriptor of an index; digest and size are those. */
	int (*doc)(struct image_doc *out, struct image_source *s, const struct oci_desc *d, struct err *err);
	/* A configuration or other small blob, at most `max_bytes`. */
	int (*small)(struct buf *out, struct image_source *s, const struct oci_desc *d, size_t max_bytes,
	             struct err *err);
	/* A layer; `hash`: all its bytes. */
	int (*layer)(struct image_source *s, const struct oci_desc *d, bool hash, struct err *err);
	/* By a tag that may not be there, and what refers to a digest (an index). */
	int (*tagged)(struct image_doc *out, bool *found, struct image_source *s, const char *tag,
	              struct err *err);
	int (*referrers)(struct image_doc *out, bool *found, struct image_source *s, const char *digest,
	                 struct err *err);
};
extern const struct image_source_ops image_from_registry, image_from_layout;

/* A cosign signature by the key over one of the digests ("" = none). ERR_ENV when there is none that is good.
 */
warn_unused int image_check_signature(struct image_pin *pin, struct image_source *s,
                                      const struct cosign_key *key, struct err *err);

#endif
