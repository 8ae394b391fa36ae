/* SPDX-License-Identifier: Apache-2.0 */
/* Images as files: an OCI layout folder (image-spec, image-layout.md), the same as a tar ("oci-archive"), and
 * what "docker save" writes ("docker-archive"). The kind is told by what is inside. Paths out of the folder,
 * links and names given twice are refused; an archive is read once, and everything in it is hashed on the
 * way. */
#ifndef PIN_OCI_LAYOUT_H
#define PIN_OCI_LAYOUT_H

#include "base/buf.h"
#include "pin/oci.h"

enum oci_layout_kind { OCI_LAYOUT_FOLDER, OCI_LAYOUT_ARCHIVE, OCI_DOCKER_ARCHIVE };

struct oci_layout;
/* ERR_PLAN when the path holds neither, ERR_ENV when it cannot be read. Archives may be compressed (gzip,
 * zstd); reading ends at `deadline_ns`. */
warn_unused int oci_layout_open(struct oci_layout **out, const char *path, uint64_t deadline_ns,
                                struct err *err);
void oci_layout_close(struct oci_layout *l); /* accepts NULL */
enum oci_layout_kind oci_layout_kind(const struct oci_layout *l);

/* index.json, parsed; borrowed. Not for OCI_DOCKER_ARCHIVE. */
const struct oci_doc *oci_layout_index(const struct oci_layout *l);

/* A blob in memory, at most `max_bytes`; size and digest have to be those of `d`. */
warn_unused int oci_layout_read(struct buf *bytes, struct oci_layout *l, const struct oci_desc *d,
                                size_t max_bytes, struct err *err);
/* A layer: is there, of that size; with `hash` (always for archives) of that digest. */
warn_unused int oci_layout_check(struct oci_layout *l, const struct oci_desc *d, bool hash, struct err *err);

/* One image of a docker-archive. Digest and size of its configuration and layers are of the bytes found;
 * layers are unpacked there, their digests the configuration's diff_ids. */
struct oci_saved {
	struct oci_desc config;
	size_t n_layers;
	struct oci_desc *layers;
	struct buf config_bytes;
};
void oci_saved_done(struct oci_saved *s);
/* `name`: which of several, "NAME:TAG" of RepoTags; NULL = the only one. */
warn_unused int oci_layout_saved(struct oci_saved *out, struct oci_layout *l, const char *name,
                                 struct err *err);

#endif
