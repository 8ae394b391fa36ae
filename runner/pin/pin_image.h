/* SPDX-License-Identifier: Apache-2.0 */
/* What an image is, byte by byte: a reference in a registry, an OCI layout folder, an oci-archive or a
 * docker-archive becomes the digests of its index, of the manifest for one platform and of its configuration.
 * Everything that is taken was hashed here. */
#ifndef PIN_PIN_IMAGE_H
#define PIN_PIN_IMAGE_H

#include "pin/oci.h"
#include "pin/registry.h"

enum image_from { IMAGE_REGISTRY, IMAGE_OCI_LAYOUT, IMAGE_OCI_ARCHIVE, IMAGE_DOCKER_ARCHIVE };

/* Connections that several image_resolve calls, one after the other, go on with: one round trip an object. */
struct image_session;
struct image_session *image_session_new(void);    /* NULL without memory: then each call has its own */
void image_session_free(struct image_session *s); /* accepts NULL */

struct image_spec {            /* strings are borrowed */
	const char *reference; /* "[HOST/]PATH[:TAG][@DIGEST]", or NULL and: */
	const char *path;      /* a layout folder or an archive (by content) */
	const char *name;     /* which image of `path`: ref.name, image name or digest; NULL = the only one */
	const char *platform; /* "linux/amd64", "linux/arm/v7"; NULL = this machine's */
	const char *config_file; /* credentials: registry_creds_find; NULL = the usual places, "" = none */
	const char *ca_file;     /* PEM; NULL = the system's */
	enum registry_tls tls;
	const char *required_key; /* public key in PEM: a cosign signature by it has to be there; NULL = not
	                             asked */
	struct image_session *session; /* NULL = own connection */
	const bool *stop;     /* set by another thread or a signal: ends with ERR_INTERRUPTED; NULL = never */
	bool check_layers;    /* fetch or read every layer and hash it (archives: always done) */
	uint64_t deadline_ns; /* monotonic; 0 = 5 minutes from now */
	double wait_max_s, backoff_factor; /* registry.h; 0 = default */
};

struct image_object {                  /* digest "" = there is none */
	char digest[OCI_SHA256_BYTES]; /* sha256 of the bytes as received */
	char media_type[OCI_TYPE_BYTES];
	uint64_t size_bytes;
};

struct image_layer {
	char digest[OCI_DIGEST_BYTES];
	char media_type[OCI_TYPE_BYTES];
	uint64_t size_bytes;
};

enum image_signature {
	IMAGE_SIGNATURE_NOT_ASKED,
	IMAGE_SIGNATURE_GOOD, /* by the required key, over the index or the manifest */
};

struct image_pin {
	enum image_from from;
	char reference[REF_TEXT_BYTES];   /* as asked, in full ("docker.io/library/x:latest"); a path: that
	                                     path, cut */
	bool tag_implied;                 /* "latest" was not written by anybody */
	struct image_object index;        /* what the reference led to, when that is an index */
	struct image_object manifest;     /* of the platform; none for a docker-archive */
	struct image_object config;       /* an older engine's image Id */
	struct oci_platform platform;     /* as the configuration says */
	char created[OCI_CREATED_BYTES];  /* "" = unknown */
	char version[128], revision[128]; /* labels of the image's maker, unchecked; "" = none */
	size_t n_layers;
	struct image_layer *layers; /* from the base up */
	uint64_t size_bytes;        /* manifest's configuration and layers: what a pull transfers; for a
	                               docker-archive        what it unpacks to */
	bool layers_checked;        /* every layer's bytes were hashed */
	size_t n_attestations;      /* entries of the index that are no platform's */
	size_t n_platforms;
	struct oci_platform *platforms; /* runnable ones of the index, as it tells them */
	enum image_signature signature;
	char signed_digest[OCI_SHA256_BYTES], key_id[65]; /* SHA-256 of the key's DER form */
	struct registry_stats registry;                   /* requests, waits, pull limits as told */
};
void image_pin_done(struct image_pin *p); /* accepts zeroed */

/* ERR_PLAN: the name, path, platform or key is not acceptable, or the image has no such platform (the message
 * lists those there are). ERR_ENV: it could not be fetched, or what came is not what it claims to be: digests
 * that differ (both are named), two readings, schema 1, sizes, no good signature. No secret is in a message.
 */
warn_unused int image_resolve(struct image_pin *out, const struct image_spec *spec, struct err *err);

/* An engine's own name for what it has (image Id, RepoDigests entry behind the '@'): true when it is the
 * index, manifest or configuration of the pin. */
bool image_pin_has(const struct image_pin *p, const char *digest);

/* The same image? "same", "changed" or "unknown" (one side has none) for each. */
struct image_moved {
	bool moved; /* something that both sides know differs */
	const char *index, *manifest, *config;
};
void image_pin_compare(struct image_moved *out, const struct image_pin *pinned, const struct image_pin *now);

/* One object: reference, index, manifest, config (digest, media_type, size_bytes; null = none), platform,
 * created (null = unknown), layers, size_bytes, signature, rate limit. `key` NULL inside an array or at the
 * top. */
struct json_out;
void image_pin_json(struct json_out *o, const char *key, const struct image_pin *p);

#endif
