/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/json_in.h"
#include "pin/oci_parts.h"

#include <stdio.h>
#include <string.h>

void oci_config_done(struct oci_config *c)
{
	free(c->diff_ids);
	*c = (struct oci_config){ 0 };
}

/* "+02:00" -> seconds east; -1 when it is none. */
static int offset_s(const char *p, int64_t *out)
{
	unsigned h, m;
	int used = 0;
	if (strcmp(p, "Z") == 0 || strcmp(p, "z") == 0) {
		*out = 0;
		return 0;
	}
	if ((*p != '+' && *p != '-') || strlen(p) != 6 || sscanf(p + 1, "%2u:%2u%n", &h, &m, &used) != 2 ||
	    used != 5 || h > 23 || m > 59)
		return -1;
	*out = (int64_t)(h * 60 + m) * 60 * (*p == '-' ? -1 : 1);
	return 0;
}

int oci_time_utc(const char *text, char out[OCI_CREATED_BYTES])
{
	char as_utc[64];
	int64_t east_s, wall_ns;
	size_t len = strlen(text);
	if (len < 20 || len > 40)
		return -1;
	size_t n = strspn(text + 19, ".0123456789") + 19;
	if (offset_s(text + n, &east_s))
		return -1;
	snprintf(as_utc, sizeof(as_utc), "%.*sZ", (int)n, text);
	if (clock_parse_rfc3339(as_utc, &wall_ns))
		return -1;
	wall_ns -= east_s * (int64_t)NS_PER_S;
	if (wall_ns < 0)
		return -1;
	_Static_assert(OCI_CREATED_BYTES >= RFC3339_BYTES, "a time has to fit");
	clock_rfc3339(wall_ns, out);
	return 0;
}

static int take_diff_ids(struct oci_config *c, const struct cJSON *doc, const char *name, struct err *err)
{
	const struct cJSON *list = json_get(json_get(doc, "rootfs"), "diff_ids"), *e;
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	if (n > OCI_ENTRIES_MAX)
		return err_set(err, ERR_ENV, "%s: /rootfs/diff_ids: %d entries, at most %d are read", name, n,
		               OCI_ENTRIES_MAX);
	c->diff_ids = calloc((size_t)n + 1, sizeof(*c->diff_ids));
	if (!c->diff_ids)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	cJSON_ArrayForEach(e, list)
	{
		const char *text = cJSON_IsString(e) ? e->valuestring : NULL, *fault = oci_digest_fault(text);
		if (fault)
			return err_set(err, ERR_ENV, "%s: /rootfs/diff_ids/%zu: %s", name, c->n_diff_ids,
			               fault);
		strcpy(c->diff_ids[c->n_diff_ids++], text);
	}
	return 0;
}

/* Labels are the maker's free text: what does not fit or is odd counts as not told. */
static void take_label(char *out, size_t out_bytes, const struct cJSON *doc, const char *key)
{
	const char *v = json_str(json_get(json_get(doc, "config"), "Labels"), key);
	if (!v || strlen(v) >= out_bytes)
		return;
	for (const char *p = v; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return;
	strcpy(out, v);
}

static int fill(struct oci_config *c, const struct cJSON *doc, const char *name, struct err *err)
{
	if (!cJSON_IsObject(doc))
		return err_set(err, ERR_ENV, "%s: is no image configuration (want a JSON object)", name);
	if (oci_take_platform(&c->platform, doc, name, err))
		return -1;
	if (!c->platform.os[0] || !c->platform.architecture[0])
		return err_set(err, ERR_ENV, "%s: tells no os and architecture", name);
	const char *created = json_str(doc, "created");
	if (created)
		(void)oci_time_utc(created, c->created);
	take_label(c->version, sizeof(c->version), doc, "org.opencontainers.image.version");
	take_label(c->revision, sizeof(c->revision), doc, "org.opencontainers.image.revision");
	return take_diff_ids(c, doc, name, err);
}

int oci_config_parse(struct oci_config *out, const void *text, size_t len, const char *name, struct err *err)
{
	auto_json doc = NULL;
	struct oci_config c = { 0 };
	if (len > OCI_CONFIG_BYTES_MAX)
		return err_set(err, ERR_ENV, "%s: %zu bytes, at most %u are read", name, len,
		               OCI_CONFIG_BYTES_MAX);
	if (json_parse(&doc, text, len, name, JSON_STRICT, NULL, err)) {
		err->cls = ERR_ENV;
		return -1;
	}
	if (fill(&c, doc, name, err)) {
		oci_config_done(&c);
		return -1;
	}
	*out = c;
	return 0;
}
