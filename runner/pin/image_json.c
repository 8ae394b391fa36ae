/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/json_out.h"
#include "pin/pin_image.h"

#include <string.h>

bool image_pin_has(const struct image_pin *p, const char *digest)
{
	const char *const ours[] = { p->index.digest, p->manifest.digest, p->config.digest };
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (ours[i][0] && strcmp(ours[i], digest) == 0)
			return true;
	return false;
}

static const char *compare(bool *moved, const struct image_object *a, const struct image_object *b)
{
	if (!a->digest[0] || !b->digest[0])
		return "unknown";
	bool same = strcmp(a->digest, b->digest) == 0;
	*moved = *moved || !same;
	return same ? "same" : "changed";
}

void image_pin_compare(struct image_moved *out, const struct image_pin *pinned, const struct image_pin *now)
{
	struct image_moved m = { 0 };
	m.index = compare(&m.moved, &pinned->index, &now->index);
	m.manifest = compare(&m.moved, &pinned->manifest, &now->manifest);
	m.config = compare(&m.moved, &pinned->config, &now->config);
	*out = m;
}

static void put_object(struct json_out *o, const char *key, const struct image_object *v)
{
	if (!v->digest[0]) {
		jo_null(o, key);
		return;
	}
	jo_obj(o, key);
	jo_str(o, "digest", v->digest);
	jo_str(o, "media_type", v->media_type);
	jo_u64(o, "size_bytes", v->size_bytes);
	jo_end(o);
}

static void put_signature(struct json_out *o, const struct image_pin *p)
{
	if (p->signature != IMAGE_SIGNATURE_GOOD) {
		jo_null(o, "signature");
		return;
	}
	jo_obj(o, "signature");
	jo_str(o, "signed_digest", p->signed_digest);
	jo_str(o, "key_sha256", p->key_id);
	jo_end(o);
}

static void put_limit(struct json_out *o, const struct registry_limit *l)
{
	if (!l->has_limit && !l->has_remaining) {
		jo_null(o, "pull_limit");
		return;
	}
	jo_obj(o, "pull_limit");
	if (l->has_limit)
		jo_u64(o, "limit", l->limit);
	if (l->has_remaining)
		jo_u64(o, "remaining", l->remaining);
	if (l->has_window)
		jo_u64(o, "window_s", l->window_s);
	jo_end(o);
}

static const char *or_null(const char *s)
{
	return s[0] ? s : NULL;
}

void image_pin_json(struct json_out *o, const char *key, const struct image_pin *p)
{
	static const char *const from[] = { [IMAGE_REGISTRY] = "registry",
		                            [IMAGE_OCI_LAYOUT] = "oci-layout",
		                            [IMAGE_OCI_ARCHIVE] = "oci-archive",
		                            [IMAGE_DOCKER_ARCHIVE] = "docker-archive" };
	char platform[OCI_PLATFORM_BYTES];
	oci_platform_text(&p->platform, platform);
	jo_obj(o, key);
	jo_str(o, "from", from[p->from]);
	jo_str(o, "reference", p->reference);
	jo_bool(o, "tag_implied", p->tag_implied);
	put_object(o, "index", &p->index);
	put_object(o, "manifest", &p->manifest);
	put_object(o, "config", &p->config);
	jo_str(o, "platform", platform);
	jo_str(o, "created", or_null(p->created));
	jo_str(o, "version", or_null(p->version));
	jo_str(o, "revision", or_null(p->revision));
	jo_u64(o, "size_bytes", p->size_bytes);
	jo_arr(o, "layers");
	for (size_t i = 0; i < p->n_layers; i++) {
		jo_obj(o, NULL);
		jo_str(o, "digest", p->layers[i].digest);
		jo_str(o, "media_type", p->layers[i].media_type);
		jo_u64(o, "size_bytes", p->layers[i].size_bytes);
		jo_end(o);
	}
	jo_end_arr(o);
	jo_bool(o, "layers_checked", p->layers_checked);
	put_signature(o, p);
	put_limit(o, &p->registry.limit);
	jo_end(o);
}
