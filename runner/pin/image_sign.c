/* SPDX-License-Identifier: Apache-2.0 */
/* Finding cosign signatures: under the tag sha256-HEX.sig, then among the referrers. */
#include "base/cleanup.h"
#include "pin/image_source.h"

#include <string.h>

struct search {
	struct image_source *s;
	const struct cosign_key *key;
	const char *digest; /* that has to be signed */
	unsigned n_seen;
	const char *fault; /* of the last one */
	bool good;
};

static void note(struct search *q, const char *fault)
{
	q->n_seen++;
	q->good = q->good || !fault;
	if (fault)
		q->fault = fault;
}

static bool is_bundle(const char *type)
{
	return strncmp(type, COSIGN_TYPE_BUNDLE, strlen(COSIGN_TYPE_BUNDLE)) == 0;
}

static int check_layer(struct search *q, const struct oci_desc *l, struct err *err)
{
	bool bundle = is_bundle(l->media_type);
	size_t max_bytes = bundle ? COSIGN_BUNDLE_BYTES_MAX : COSIGN_PAYLOAD_BYTES_MAX;
	auto_buf bytes = BUF_INIT(max_bytes);
	if (!bundle && (strcmp(l->media_type, COSIGN_TYPE_PAYLOAD) != 0 || !l->signature))
		return 0;
	if (q->n_seen >= COSIGN_SIGNATURES_MAX || l->size_bytes > max_bytes) {
		note(q, "there are more signatures, or longer ones, than are read");
		return 0;
	}
	if (q->s->ops->small(&bytes, q->s, l, max_bytes, err))
		return -1;
	const char *p = bytes.p ? bytes.p : "";
	note(q, bundle ? cosign_bundle_fault(q->key, p, bytes.len, q->digest)
	               : cosign_payload_fault(q->key, l->signature, p, bytes.len, q->digest));
	return 0;
}

static int check_manifest(struct search *q, const struct oci_doc *d, struct err *err)
{
	for (size_t i = 0; d->kind == OCI_MANIFEST && i < d->n && !q->good; i++)
		if (check_layer(q, &d->list[i], err))
			return -1;
	return 0;
}

static int by_tag(struct search *q, struct err *err)
{
	struct image_doc d;
	char tag[OCI_DIGEST_BYTES + 8];
	bool found = false;
	cosign_tag(tag, q->digest);
	if (q->s->ops->tagged(&d, &found, q->s, tag, err))
		return -1;
	if (!found)
		return 0;
	int rc = check_manifest(q, &d.doc, err);
	image_doc_done(&d);
	return rc;
}

static int by_referrers(struct search *q, struct err *err)
{
	struct image_doc list, d;
	bool found = false;
	int rc = 0;
	if (q->s->ops->referrers(&list, &found, q->s, q->digest, err))
		return -1;
	for (size_t i = 0; found && rc == 0 && !q->good && i < list.doc.n && i < COSIGN_SIGNATURES_MAX; i++) {
		const struct oci_desc *e = &list.doc.list[i];
		if (list.doc.kind != OCI_INDEX ||
		    (strcmp(e->artifact_type, COSIGN_TYPE_ARTIFACT) != 0 && !is_bundle(e->artifact_type)))
			continue;
		rc = q->s->ops->doc(&d, q->s, e, err);
		if (rc == 0) {
			rc = check_manifest(q, &d.doc, err);
			image_doc_done(&d);
		}
	}
	if (found)
		image_doc_done(&list);
	return rc;
}

static int search_all(struct image_pin *pin, struct search *q, struct err *err)
{
	const char *const digests[] = { pin->index.digest, pin->manifest.digest };
	for (size_t i = 0; i < ARRAY_LEN(digests); i++) {
		q->digest = digests[i];
		if (!q->digest[0])
			continue;
		if (by_tag(q, err) || (!q->good && by_referrers(q, err)))
			return -1;
		if (q->good) {
			strcpy(pin->signed_digest, q->digest);
			strcpy(pin->key_id, cosign_key_id(q->key));
			pin->signature = IMAGE_SIGNATURE_GOOD;
			return 0;
		}
	}
	if (q->n_seen)
		return err_set(err, ERR_ENV, "%s: %u signatures, none is good: %s", q->s->name, q->n_seen,
		               q->fault);
	return err_set(
		err, ERR_ENV,
		"%s: is not signed (no sha256-….sig tag and no signature among the referrers), and the "
		"plan requires a key",
		q->s->name);
}

int image_check_signature(struct image_pin *pin, struct image_source *s, const struct cosign_key *key,
                          struct err *err)
{
	struct search q = { .s = s, .key = key, .fault = "" };
	return search_all(pin, &q, err);
}
