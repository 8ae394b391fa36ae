/* SPDX-License-Identifier: Apache-2.0 */
/* What "docker save" of older engines writes: manifest.json with the paths of a configuration and of unpacked
 * layers. It holds no manifest, so no digest of one comes out. */
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "pin/oci_layout_parts.h"
#include "pin/registry_ref.h"

#include <string.h>

#define NAMES_SHOWN_BYTES 300

void oci_saved_done(struct oci_saved *s)
{
	free(s->layers);
	buf_done(&s->config_bytes);
	*s = (struct oci_saved){ 0 };
}

static bool same_name(const char *a, const char *b)
{
	struct registry_ref x, y;
	struct err hidden;
	char tx[REF_TEXT_BYTES], ty[REF_TEXT_BYTES];
	if (strcmp(a, b) == 0)
		return true;
	if (registry_ref_parse(&x, a, &hidden) || registry_ref_parse(&y, b, &hidden))
		return false;
	registry_ref_text(&x, tx);
	registry_ref_text(&y, ty);
	return strcmp(tx, ty) == 0;
}

static void add_name(char *names, const char *name)
{
	size_t n = strlen(names), len = strlen(name);
	if (n + len + 3 >= NAMES_SHOWN_BYTES)
		return;
	memcpy(names + n, ", ", n ? 2 : 0);
	memcpy(names + n + (n ? 2 : 0), name, len + 1);
}

/* The image of that name in manifest.json. */
static int pick(const struct cJSON **out, const struct cJSON *doc, const char *name, const char *at,
                struct err *err)
{
	const struct cJSON *image, *tag, *found = NULL;
	char names[NAMES_SHOWN_BYTES] = "";
	int n = cJSON_IsArray(doc) ? cJSON_GetArraySize(doc) : 0;
	if (n < 1 || n > OCI_ENTRIES_MAX)
		return err_set(err, ERR_ENV, "%s: manifest.json: want a list of images", at);
	cJSON_ArrayForEach(image, doc)
	{
		bool named = n == 1 && !name;
		cJSON_ArrayForEach(tag, json_get(image, "RepoTags"))
		{
			if (!cJSON_IsString(tag))
				continue;
			named = named || (name && same_name(tag->valuestring, name));
			add_name(names, tag->valuestring);
		}
		if (named && !found)
			found = image;
	}
	if (!found)
		return err_set(err, ERR_PLAN, "%s: holds %s: want one of %s", at,
		               name ? "no image of that name" : "several images and none is named",
		               names[0] ? names : "(no names)");
	*out = found;
	return 0;
}

static int take_config(struct oci_saved *s, const struct oci_archive *a, const struct cJSON *image,
                       const char *at, struct err *err)
{
	const char *path = json_str(image, "Config");
	const struct oci_entry *e = path ? oci_archive_find(a, path, true) : NULL;
	if (!e || !e->kept)
		return err_set(err, ERR_ENV, "%s: the image's configuration is not there", at);
	const char *slash = strrchr(e->path, '/'), *base = slash ? slash + 1 : e->path;
	char hex[SHA256_HEX_BYTES] = "";
	snprintf(hex, sizeof(hex), "%.*s", (int)strcspn(base, "."), base);
	if (sha256_hex_ok(hex) && strcmp(hex, e->digest + 7) != 0)
		return err_set(err, ERR_ENV, "%s: the configuration named sha256:%s has other bytes: %s", at,
		               hex, e->digest);
	strcpy(s->config.media_type, OCI_TYPE_DOCKER_CONFIG);
	strcpy(s->config.digest, e->digest);
	s->config.size_bytes = e->size_bytes;
	buf_init(&s->config_bytes, OCI_CONFIG_BYTES_MAX);
	return buf_add(&s->config_bytes, e->bytes.p ? e->bytes.p : "", e->bytes.len)
	               ? err_set(err, ERR_ENV, "%s: no memory", at)
	               : 0;
}

static int take_layers(struct oci_saved *s, const struct oci_archive *a, const struct cJSON *image,
                       const char *at, struct err *err)
{
	const struct cJSON *list = json_get(image, "Layers"), *l;
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
	if (n < 0 || n > OCI_ENTRIES_MAX)
		return err_set(err, ERR_ENV, "%s: manifest.json: want a list of Layers", at);
	s->layers = calloc((size_t)n + 1, sizeof(*s->layers));
	if (!s->layers)
		return err_set(err, ERR_ENV, "%s: no memory", at);
	cJSON_ArrayForEach(l, list)
	{
		const struct oci_entry *e =
			cJSON_IsString(l) ? oci_archive_find(a, l->valuestring, true) : NULL;
		if (!e)
			return err_set(err, ERR_ENV, "%s: layer %zu is not there", at, s->n_layers);
		struct oci_desc *d = &s->layers[s->n_layers++];
		strcpy(d->media_type, "application/vnd.docker.image.rootfs.diff.tar");
		strcpy(d->digest, e->digest);
		d->size_bytes = e->size_bytes;
	}
	return 0;
}

/* The layers that the configuration names are those that are there. */
static int check_layers(const struct oci_saved *s, const char *at, struct err *err)
{
	struct oci_config c;
	int rc = 0;
	if (oci_config_parse(&c, s->config_bytes.p ? s->config_bytes.p : "", s->config_bytes.len, at, err))
		return -1;
	if (c.n_diff_ids != s->n_layers)
		rc = err_set(err, ERR_ENV, "%s: %zu layers, the configuration names %zu", at, s->n_layers,
		             c.n_diff_ids);
	for (size_t i = 0; rc == 0 && i < c.n_diff_ids; i++)
		if (strcmp(c.diff_ids[i], s->layers[i].digest) != 0)
			rc = err_set(err, ERR_ENV, "%s: layer %zu is %s, the configuration names %s", at, i,
			             s->layers[i].digest, c.diff_ids[i]);
	oci_config_done(&c);
	return rc;
}

int oci_layout_saved(struct oci_saved *out, struct oci_layout *l, const char *name, struct err *err)
{
	auto_json doc = NULL;
	struct oci_saved s = { 0 };
	const struct cJSON *image = NULL;
	const struct oci_entry *e = oci_archive_find(&l->archive, "manifest.json", false);
	if (l->kind != OCI_DOCKER_ARCHIVE || !e || !e->kept)
		return err_set(err, ERR_ENV, "%s: manifest.json: is no JSON file", l->name);
	if (json_parse(&doc, e->bytes.p, e->bytes.len, "manifest.json", JSON_STRICT, NULL, err)) {
		err->cls = ERR_ENV;
		return err_wrap(err, "%s", l->name);
	}
	if (pick(&image, doc, name, l->name, err) || take_config(&s, &l->archive, image, l->name, err) ||
	    take_layers(&s, &l->archive, image, l->name, err) || check_layers(&s, l->name, err)) {
		oci_saved_done(&s);
		return -1;
	}
	*out = s;
	return 0;
}
