/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/image_source.h"

#include <string.h>

#define NAMES_SHOWN_BYTES 300

static int doc(struct image_doc *out, struct image_source *s, const struct oci_desc *d, struct err *err)
{
	struct image_doc got = { .bytes = BUF_INIT(OCI_DOC_BYTES_MAX) };
	auto_free char *name = str_fmt("%s: %s", s->name, d->digest);
	if (!name)
		return err_set(err, ERR_ENV, "%s: no memory", s->name);
	if (oci_layout_read(&got.bytes, s->layout, d, OCI_DOC_BYTES_MAX, err) ||
	    image_doc_take(&got, d->media_type, name, err)) {
		image_doc_done(&got);
		return -1;
	}
	*out = got;
	return 0;
}

static bool is_called(const struct oci_desc *d, const char *name)
{
	struct registry_ref a, b;
	char ta[REF_TEXT_BYTES], tb[REF_TEXT_BYTES];
	struct err hidden;
	if (strcmp(d->ref_name, name) == 0 || strcmp(d->image_name, name) == 0 ||
	    strcmp(d->digest, name) == 0)
		return true;
	if (!d->image_name[0] || registry_ref_parse(&a, d->image_name, &hidden) ||
	    registry_ref_parse(&b, name, &hidden))
		return false;
	registry_ref_text(&a, ta);
	registry_ref_text(&b, tb);
	return strcmp(ta, tb) == 0;
}

static bool is_image(const struct oci_desc *d)
{
	size_t n = strlen(d->ref_name);
	return !d->attestation && !d->artifact_type[0] &&
	       !(n > 4 && strncmp(d->ref_name, "sha256-", 7) == 0 &&
	         strcmp(d->ref_name + n - 4, ".sig") == 0);
}

static void list_names(const struct oci_doc *index, char *out)
{
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i < index->n; i++) {
		const struct oci_desc *d = &index->list[i];
		const char *name = d->ref_name[0]     ? d->ref_name
		                   : d->image_name[0] ? d->image_name
		                                      : d->digest;
		size_t len = strlen(name);
		if (!is_image(d) || n + len + 3 >= NAMES_SHOWN_BYTES)
			continue;
		memcpy(out + n, ", ", n ? 2 : 0);
		n += n ? 2 : 0;
		memcpy(out + n, name, len + 1);
		n += len;
	}
}

/* The image that was asked for; several entries may be one and the same. */
static int root(struct image_doc *out, struct image_source *s, const char *name, struct err *err)
{
	const struct oci_doc *index = oci_layout_index(s->layout);
	const struct oci_desc *found = NULL;
	char names[NAMES_SHOWN_BYTES];
	bool several = false;
	for (size_t i = 0; i < index->n; i++) {
		const struct oci_desc *d = &index->list[i];
		if (name ? !is_called(d, name) : !is_image(d))
			continue;
		several = several || (found && strcmp(found->digest, d->digest) != 0);
		found = found ? found : d;
	}
	list_names(index, names);
	if (!found)
		return err_set(err, ERR_PLAN, "%s: holds no image%s%.100s: there is %s", s->name,
		               name ? " of the name " : "", name ? name : "", names[0] ? names : "none");
	if (several)
		return err_set(err, ERR_PLAN, "%s: holds several images%s: name one of %s", s->name,
		               name ? " of that name" : "", names);
	return doc(out, s, found, err);
}

static int small(struct buf *out, struct image_source *s, const struct oci_desc *d, size_t max_bytes,
                 struct err *err)
{
	return oci_layout_read(out, s->layout, d, max_bytes, err);
}

static int layer(struct image_source *s, const struct oci_desc *d, bool hash, struct err *err)
{
	return oci_layout_check(s->layout, d, hash, err);
}

static int tagged(struct image_doc *out, bool *found, struct image_source *s, const char *tag,
                  struct err *err)
{
	const struct oci_doc *index = oci_layout_index(s->layout);
	for (size_t i = 0; i < index->n; i++) {
		if (strcmp(index->list[i].ref_name, tag) != 0)
			continue;
		if (doc(out, s, &index->list[i], err))
			return -1;
		*found = true;
		return 0;
	}
	*found = false;
	return 0;
}

/* A layout has no list of them; its index may name some, as registries do by tag. */
static int referrers(struct image_doc *out, bool *found, struct image_source *s, const char *digest,
                     struct err *err)
{
	char tag[OCI_DIGEST_BYTES];
	snprintf(tag, sizeof(tag), "%s", digest);
	*strchr(tag, ':') = '-';
	return tagged(out, found, s, tag, err);
}

const struct image_source_ops image_from_layout = {
	.root = root,
	.doc = doc,
	.small = small,
	.layer = layer,
	.tagged = tagged,
	.referrers = referrers,
};
