/* SPDX-License-Identifier: Apache-2.0 */
/* OCI and Docker image documents: digests, platforms, indexes, manifests, configurations. Pure: bytes in,
 * plain records out, no file and no network. What could be read in two ways is refused.
 * Sources: OCI image-spec 1.1 (descriptor.md, image-index.md, manifest.md, config.md), Docker's "Image
 * Manifest Version 2, Schema 2", CVE-2021-41190. */
#ifndef PIN_OCI_H
#define PIN_OCI_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- digests ------------------------------------------------------------------------------------------- */

#define OCI_DIGEST_BYTES 136 /* "sha512:", 128 hex digits, NUL */
#define OCI_SHA256_BYTES 72  /* "sha256:", 64 hex digits, NUL */

/* NULL when `text` is a digest in canonical form that can be checked here (sha256 or sha512, lower case),
 * else why not: static text. */
const char *oci_digest_fault(const char *text);

struct oci_hash; /* SHA-256 and SHA-512 of the same bytes, running */
/* `also_sha512`: needed to check digests of that algorithm. Aborts without memory. */
struct oci_hash *oci_hash_new(bool also_sha512);
void oci_hash_free(struct oci_hash *h); /* accepts NULL */
void oci_hash_add(struct oci_hash *h, const void *data, size_t len);
/* What the digest of all bytes so far is, in the algorithm of `like` (a digest without fault). Ends the hash.
 */
void oci_hash_end(struct oci_hash *h, const char *like, char out[OCI_DIGEST_BYTES]);
/* The digest of `data` in the algorithm of `like`; NULL = sha256. */
void oci_digest_of(char out[OCI_DIGEST_BYTES], const void *data, size_t len, const char *like);

/* --- platforms ----------------------------------------------------------------------------------------- */

struct oci_platform { /* "" = not told */
	char os[32], architecture[32], variant[16];
};
#define OCI_PLATFORM_BYTES 96
/* "linux/arm/v7", "linux/amd64". ERR_PLAN. */
warn_unused int oci_platform_parse(struct oci_platform *out, const char *text, struct err *err);
/* The machine this runs on. */
void oci_platform_here(struct oci_platform *out);
/* As told: "linux/arm64/v8". */
void oci_platform_text(const struct oci_platform *p, char out[OCI_PLATFORM_BYTES]);
/* Other names of the same thing become one: x86_64 = amd64, aarch64 = arm64; arm64 without variant equals v8,
 * arm without variant v7. The text of the result is "linux/arm64", "linux/arm/v7", "linux/amd64". */
void oci_platform_normal(struct oci_platform *p);
bool oci_platform_same(const struct oci_platform *a, const struct oci_platform *b);

/* --- documents ----------------------------------------------------------------------------------------- */

#define OCI_DOC_BYTES_MAX (4u << 20)    /* an index or manifest */
#define OCI_CONFIG_BYTES_MAX (8u << 20) /* an image's configuration */
#define OCI_ENTRIES_MAX 1000            /* manifests of an index, layers of a manifest */
#define OCI_TYPE_BYTES 128

#define OCI_TYPE_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_TYPE_CONFIG "application/vnd.oci.image.config.v1+json"
#define OCI_TYPE_DOCKER_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define OCI_TYPE_DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define OCI_TYPE_DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"

struct oci_desc {
	char media_type[OCI_TYPE_BYTES];
	char artifact_type[OCI_TYPE_BYTES]; /* "" = none */
	char digest[OCI_DIGEST_BYTES];
	uint64_t size_bytes;
	struct oci_platform platform;
	bool has_platform;
	bool attestation;     /* annotated as vnd.docker.reference.type */
	char ref_name[256];   /* annotation org.opencontainers.image.ref.name; "" = none */
	char image_name[256]; /* annotation io.containerd.image.name; "" = none */
	char *signature;      /* annotation dev.cosignproject.cosign/signature, malloc'd; NULL = none */
};

enum oci_kind { OCI_INDEX, OCI_MANIFEST };

struct oci_doc {
	enum oci_kind kind;
	char media_type[OCI_TYPE_BYTES]; /* as the document, else its carrier, says; never "" */
	char artifact_type[OCI_TYPE_BYTES];
	struct oci_desc config; /* manifest only */
	size_t n;
	struct oci_desc *list; /* manifests of an index, layers of a manifest */
};
void oci_doc_done(struct oci_doc *d); /* accepts zeroed */

/* Reads an index or manifest. `carrier_type`: the Content-Type it came with or the media type of the
 * descriptor that named it (parameters are cut); NULL or "" = unknown. It has to agree with the document's
 * own mediaType and members. Refused with its reason: schema 1, documents that are both index and manifest,
 * keys given twice, digests and sizes that are none. `name` stands in front of messages. ERR_ENV. */
warn_unused int oci_doc_parse(struct oci_doc *out, const void *text, size_t len, const char *carrier_type,
                              const char *name, struct err *err);

/* True for entries of an index that can be an image for a platform: no attestation, no artifact, no unknown
 * platform, a media type of a manifest. */
bool oci_desc_runnable(const struct oci_desc *d);
bool oci_desc_is_index(const struct oci_desc *d); /* a nested index */

/* The runnable entry for `want` (normal form). *out NULL when there is none. Two different manifests for the
 * same platform are an error (ERR_PLAN): which one an engine takes depends on the engine. */
warn_unused int oci_doc_pick(const struct oci_desc **out, const struct oci_doc *index,
                             const struct oci_platform *want, const char *name, struct err *err);
/* The platforms there are, "linux/amd64, linux/arm64/v8", cut to the size. */
void oci_doc_platforms(const struct oci_doc *index, char *out, size_t out_bytes);

#define OCI_CREATED_BYTES 32
struct oci_config {
	struct oci_platform platform;
	char created[OCI_CREATED_BYTES]; /* RFC 3339, UTC, ms; "" = unknown (also Go's zero time) */
	size_t n_diff_ids;
	char (*diff_ids)[OCI_DIGEST_BYTES]; /* digests of the unpacked layers */
	char version[128], revision[128];   /* labels org.opencontainers.image.*; "" = none */
};
void oci_config_done(struct oci_config *c);
warn_unused int oci_config_parse(struct oci_config *out, const void *text, size_t len, const char *name,
                                 struct err *err);
/* RFC 3339 with any offset and fraction -> UTC with ms. 0, or -1 when it is none or before 1970. */
int oci_time_utc(const char *text, char out[OCI_CREATED_BYTES]);

#endif
