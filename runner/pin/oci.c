/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/oci.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json_in.h"
#include "pin/oci_parts.h"

#include <string.h>
#include <strings.h>

#define TYPE_SCHEMA1 "application/vnd.docker.distribution.manifest.v1+"
#define SCHEMA1_WHY                                                                                          \
	"is a schema 1 manifest: it names no configuration and its signature, not its bytes, makes its "     \
	"digest; push the image again in a format of today"

static void desc_done(struct oci_desc *d)
{
	free(d->signature);
}

void oci_doc_done(struct oci_doc *d)
{
	for (size_t i = 0; d->list && i < d->n; i++)
		desc_done(&d->list[i]);
	desc_done(&d->config);
	free(d->list);
	*d = (struct oci_doc){ 0 };
}

/* --- members ------------------------------------------------------------------------------------------- */

int oci_take_text(char *out, size_t out_bytes, const struct cJSON *obj, const char *key, const char *at,
                  struct err *err)
{
	const struct cJSON *v = json_get(obj, key);
	if (!v || cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsString(v) || json_string_len(v) != strlen(v->valuestring))
		return err_set(err, ERR_ENV, "%s/%s: want a string", at, key);
	if (strlen(v->valuestring) >= out_bytes)
		return err_set(err, ERR_ENV, "%s/%s: is longer than %zu bytes", at, key, out_bytes - 1);
	for (const char *p = v->valuestring; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(err, ERR_ENV, "%s/%s: holds control characters", at, key);
	strcpy(out, v->valuestring);
	return 0;
}

int oci_take_platform(struct oci_platform *out, const struct cJSON *obj, const char *at, struct err *err)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	if (oci_take_text(out->os, sizeof(out->os), obj, "os", at, err) ||
	    oci_take_text(out->architecture, sizeof(out->architecture), obj, "architecture", at, err) ||
	    oci_take_text(out->variant, sizeof(out->variant), obj, "variant", at, err))
		return -1;
	if (out->os[strspn(out->os, word)] || out->architecture[strspn(out->architecture, word)] ||
	    out->variant[strspn(out->variant, word)])
		return err_set(err, ERR_ENV, "%s: os, architecture or variant is no plain word", at);
	return 0;
}

/* What we do not use is not held to our bounds. */
static void take_annotation(char *out, size_t out_bytes, const struct cJSON *annotations, const char *key)
{
	const char *v = json_str(annotations, key);
	if (v && strlen(v) < out_bytes)
		strcpy(out, v);
}

static int take_annotations(struct oci_desc *d, const struct cJSON *obj, const char *at, struct err *err)
{
	const struct cJSON *a = json_get(obj, "annotations");
	const char *type = json_str(a, "vnd.docker.reference.type");
	const char *sig = json_str(a, "dev.cosignproject.cosign/signature");
	d->attestation = type && type[0];
	take_annotation(d->ref_name, sizeof(d->ref_name), a, "org.opencontainers.image.ref.name");
	take_annotation(d->image_name, sizeof(d->image_name), a, "io.containerd.image.name");
	if (sig && strlen(sig) < OCI_SIGNATURE_BYTES_MAX && !(d->signature = strdup(sig)))
		return err_set(err, ERR_ENV, "%s: no memory", at);
	return 0;
}

static int take_desc(struct oci_desc *d, const struct cJSON *obj, const char *at, struct err *err)
{
	const struct cJSON *platform = json_get(obj, "platform");
	if (!cJSON_IsObject(obj))
		return err_set(err, ERR_ENV, "%s: want a descriptor (an object)", at);
	if (oci_take_text(d->media_type, sizeof(d->media_type), obj, "mediaType", at, err) ||
	    oci_take_text(d->artifact_type, sizeof(d->artifact_type), obj, "artifactType", at, err) ||
	    oci_take_text(d->digest, sizeof(d->digest), obj, "digest", at, err))
		return -1;
	const char *fault = oci_digest_fault(d->digest);
	if (fault)
		return err_set(err, ERR_ENV, "%s/digest: '%.80s' %s", at, d->digest, fault);
	if (!json_u64(obj, "size", &d->size_bytes))
		return err_set(err, ERR_ENV, "%s/size: want a whole number of bytes", at);
	if (cJSON_IsObject(platform)) {
		d->has_platform = true;
		if (oci_take_platform(&d->platform, platform, at, err))
			return -1;
	}
	return take_annotations(d, obj, at, err);
}

static int take_list(struct oci_doc *d, const struct cJSON *list, const char *key, const char *name,
                     struct err *err)
{
	const struct cJSON *e;
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
	if (n < 0)
		return err_set(err, ERR_ENV, "%s: /%s: want an array", name, key);
	if (n > OCI_ENTRIES_MAX)
		return err_set(err, ERR_ENV, "%s: /%s: %d entries, at most %d are read", name, key, n,
		               OCI_ENTRIES_MAX);
	d->list = calloc((size_t)n + 1, sizeof(*d->list));
	if (!d->list)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	cJSON_ArrayForEach(e, list)
	{
		auto_free char *at = str_fmt("%s: /%s/%zu", name, key, d->n);
		if (!at)
			return err_set(err, ERR_ENV, "%s: no memory", name);
		if (take_desc(&d->list[d->n++], e, at, err))
			return -1;
	}
	return 0;
}

/* --- which kind ---------------------------------------------------------------------------------------- */

static const struct {
	const char *type;
	enum oci_kind kind;
} known_types[] = {
	{ OCI_TYPE_INDEX, OCI_INDEX },
	{ OCI_TYPE_DOCKER_LIST, OCI_INDEX },
	{ OCI_TYPE_MANIFEST, OCI_MANIFEST },
	{ OCI_TYPE_DOCKER_MANIFEST, OCI_MANIFEST },
};

/* 0 with *kind when the type is one of ours. */
static int kind_of(const char *type, enum oci_kind *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(known_types); i++)
		if (strcmp(known_types[i].type, type) == 0) {
			*kind = known_types[i].kind;
			return 0;
		}
	return -1;
}

/* "application/json; charset=utf-8" -> "application/json". Lower case: media types are compared so. */
static void bare_type(char out[OCI_TYPE_BYTES], const char *carrier)
{
	size_t n = 0;
	for (const char *p = carrier ? carrier : ""; *p && *p != ';' && n + 1 < OCI_TYPE_BYTES; p++)
		out[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	while (n && (out[n - 1] == ' ' || out[n - 1] == '\t'))
		n--;
	out[n] = '\0';
}

/* Types that say nothing about what is inside. */
static bool is_general(const char *type)
{
	static const char *const general[] = { "", "application/json", "application/octet-stream",
		                               "text/plain", "binary/octet-stream" };
	for (size_t i = 0; i < ARRAY_LEN(general); i++)
		if (strcmp(type, general[i]) == 0)
			return true;
	return false;
}

static bool has(const struct cJSON *doc, const char *key)
{
	const struct cJSON *v = json_get(doc, key);
	return v && !cJSON_IsNull(v);
}

static int check_schema(const struct cJSON *doc, const char *carrier, const char *name, struct err *err)
{
	int64_t version = 0;
	if (!cJSON_IsObject(doc))
		return err_set(err, ERR_ENV, "%s: is no image document (want a JSON object)", name);
	bool told = json_i64(doc, "schemaVersion", &version);
	if (strncmp(carrier, TYPE_SCHEMA1, sizeof(TYPE_SCHEMA1) - 1) == 0 || (told && version == 1) ||
	    has(doc, "fsLayers"))
		return err_set(err, ERR_ENV, "%s: " SCHEMA1_WHY, name);
	if (!told || version != 2)
		return err_set(err, ERR_ENV, "%s: /schemaVersion: want 2", name);
	return 0;
}

static int find_kind(struct oci_doc *d, const struct cJSON *doc, const char *carrier, const char *name,
                     struct err *err)
{
	bool index = has(doc, "manifests"), manifest = has(doc, "layers") || has(doc, "config");
	enum oci_kind said;
	if (index && manifest)
		return err_set(
			err, ERR_ENV,
			"%s: is an index and a manifest at once (has manifests and %s): two readers would "
			"run two images (CVE-2021-41190)",
			name, has(doc, "layers") ? "layers" : "config");
	if (!index && !manifest)
		return err_set(err, ERR_ENV, "%s: is no image document (has no manifests, config or layers)",
		               name);
	d->kind = index ? OCI_INDEX : OCI_MANIFEST;
	if (oci_take_text(d->media_type, sizeof(d->media_type), doc, "mediaType", name, err))
		return -1;
	if (d->media_type[0] && !is_general(carrier) && strcmp(carrier, d->media_type) != 0)
		return err_set(err, ERR_ENV, "%s: came as %s but says it is %s (CVE-2021-41190)", name,
		               carrier, d->media_type);
	if (!d->media_type[0])
		strcpy(d->media_type, !is_general(carrier) ? carrier
		                      : index              ? OCI_TYPE_INDEX
		                                           : OCI_TYPE_MANIFEST);
	if (kind_of(d->media_type, &said))
		return err_set(err, ERR_ENV, "%s: is of type %s, which is no image", name, d->media_type);
	if (said != d->kind)
		return err_set(err, ERR_ENV, "%s: is of type %s but has %s (CVE-2021-41190)", name,
		               d->media_type, index ? "manifests" : "layers or config");
	return 0;
}

static int fill(struct oci_doc *d, const struct cJSON *doc, const char *carrier, const char *name,
                struct err *err)
{
	char type[OCI_TYPE_BYTES];
	bare_type(type, carrier);
	if (check_schema(doc, type, name, err) || find_kind(d, doc, type, name, err) ||
	    oci_take_text(d->artifact_type, sizeof(d->artifact_type), doc, "artifactType", name, err))
		return -1;
	if (d->kind == OCI_INDEX)
		return take_list(d, json_get(doc, "manifests"), "manifests", name, err);
	auto_free char *at = str_fmt("%s: /config", name);
	if (!at)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	if (take_desc(&d->config, json_get(doc, "config"), at, err))
		return -1;
	return take_list(d, json_get(doc, "layers"), "layers", name, err);
}

int oci_doc_parse(struct oci_doc *out, const void *text, size_t len, const char *carrier_type,
                  const char *name, struct err *err)
{
	auto_json doc = NULL;
	struct oci_doc d = { 0 };
	if (len > OCI_DOC_BYTES_MAX)
		return err_set(err, ERR_ENV, "%s: %zu bytes, at most %u are read", name, len,
		               OCI_DOC_BYTES_MAX);
	if (json_parse(&doc, text, len, name, JSON_STRICT, NULL, err)) {
		err->cls = ERR_ENV;
		return -1;
	}
	if (fill(&d, doc, carrier_type, name, err)) {
		oci_doc_done(&d);
		return -1;
	}
	*out = d;
	return 0;
}

/* --- choosing ------------------------------------------------------------------------------------------ */

bool oci_desc_is_index(const struct oci_desc *d)
{
	enum oci_kind kind;
	return kind_of(d->media_type, &kind) == 0 && kind == OCI_INDEX && !d->attestation &&
	       !d->artifact_type[0];
}

bool oci_desc_runnable(const struct oci_desc *d)
{
	enum oci_kind kind;
	return kind_of(d->media_type, &kind) == 0 && kind == OCI_MANIFEST && !d->attestation &&
	       !d->artifact_type[0] && d->has_platform && d->platform.os[0] && d->platform.architecture[0] &&
	       strcasecmp(d->platform.os, "unknown") != 0 &&
	       strcasecmp(d->platform.architecture, "unknown") != 0;
}

int oci_doc_pick(const struct oci_desc **out, const struct oci_doc *index, const struct oci_platform *want,
                 const char *name, struct err *err)
{
	const struct oci_desc *found = NULL;
	char text[OCI_PLATFORM_BYTES];
	for (size_t i = 0; i < index->n; i++) {
		const struct oci_desc *d = &index->list[i];
		if (!oci_desc_runnable(d) || !oci_platform_same(&d->platform, want))
			continue;
		oci_platform_text(want, text);
		if (found && strcmp(found->digest, d->digest) != 0)
			return err_set(err, ERR_PLAN,
			               "%s: has two images for %s, %s and %s: name one by its digest", name,
			               text, found->digest, d->digest);
		found = d;
	}
	*out = found;
	return 0;
}

void oci_doc_platforms(const struct oci_doc *index, char *out, size_t out_bytes)
{
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i < index->n; i++) {
		char text[OCI_PLATFORM_BYTES];
		if (!oci_desc_runnable(&index->list[i]))
			continue;
		oci_platform_text(&index->list[i].platform, text);
		size_t len = strlen(text);
		if (n + len + 8 > out_bytes) {
			strcpy(out + n, ", \xe2\x80\xa6");
			return;
		}
		memcpy(out + n, ", ", n ? 2 : 0);
		n += n ? 2 : 0;
		memcpy(out + n, text, len + 1);
		n += len;
	}
}
