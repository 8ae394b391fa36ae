/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images: [HOST[:PORT]/]PATH[:TAG][@DIGEST], as Docker reads them (distribution/reference). Pure. */
#ifndef PIN_REGISTRY_REF_H
#define PIN_REGISTRY_REF_H

#include "pin/oci.h"

#define REF_HOST_BYTES 264
#define REF_PATH_BYTES 256
#define REF_TAG_BYTES 129

struct registry_ref {
	char host[REF_HOST_BYTES]; /* "docker.io", "registry.example:5000", "[::1]:5000" */
	char path[REF_PATH_BYTES]; /* "library/debian" */
	char tag[REF_TAG_BYTES];   /* "latest" when neither tag nor digest was given; "" with a digest only */
	char digest[OCI_DIGEST_BYTES]; /* "" = none; counts before the tag */
	bool tag_implied;              /* nobody wrote "latest" */
};

/* ERR_PLAN with what is wrong; the text is shown only by its start. */
warn_unused int registry_ref_parse(struct registry_ref *out, const char *text, struct err *err);
bool registry_tag_ok(const char *tag);
/* "docker.io/library/debian:12@sha256:…": always with host. */
#define REF_TEXT_BYTES 800
void registry_ref_text(const struct registry_ref *r, char out[REF_TEXT_BYTES]);
/* The host to ask: registry-1.docker.io for docker.io, else `host` itself. */
const char *registry_ref_api_host(const struct registry_ref *r);
/* True for 127.0.0.0/8, [::1] and localhost, with or without port; never for names that begin like them. */
bool registry_host_is_loopback(const char *host);

#endif
