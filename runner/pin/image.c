/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "pin/image_source.h"
#include "pin/registry_http.h"

#include <string.h>

#define DEFAULT_TIME_NS (300 * NS_PER_S)
#define NESTED_MAX 3       /* indexes below each other */
#define NESTED_DOCS_MAX 16 /* indexes looked into */
#define PLATFORMS_SHOWN_BYTES 400

void image_pin_done(struct image_pin *p)
{
	free(p->layers);
	free(p->platforms);
	*p = (struct image_pin){ 0 };
}

void image_doc_done(struct image_doc *d)
{
	buf_done(&d->bytes);
	oci_doc_done(&d->doc);
}

int image_doc_take(struct image_doc *d, const char *type, const char *name, struct err *err)
{
	char digest[OCI_DIGEST_BYTES];
	const char *p = d->bytes.p ? d->bytes.p : "";
	snprintf(d->name, sizeof(d->name), "%s", name);
	if (oci_doc_parse(&d->doc, p, d->bytes.len, type, name, err))
		return -1;
	oci_digest_of(digest, p, d->bytes.len, NULL);
	snprintf(d->digest, sizeof(d->digest), "%.71s", digest);
	return 0;
}

/* --- from the root to the manifest -----------------------------------------------------------------------
 */

struct resolving {
	struct image_source src;
	struct oci_platform want;
	unsigned n_indexes;
	struct cosign_key *key; /* NULL = none required */
	struct image_pin pin;
};

static void put_object(struct image_object *o, const struct image_doc *d)
{
	strcpy(o->digest, d->digest);
	strcpy(o->media_type, d->doc.media_type);
	o->size_bytes = d->bytes.len;
}

static int note_platforms(struct image_pin *pin, const struct oci_doc *index, const char *name,
                          struct err *err)
{
	struct oci_platform *list =
		realloc(pin->platforms, (pin->n_platforms + index->n + 1) * sizeof(*list));
	if (!list)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	pin->platforms = list;
	for (size_t i = 0; i < index->n; i++) {
		if (oci_desc_runnable(&index->list[i]))
			pin->platforms[pin->n_platforms++] = index->list[i].platform;
		else if (!oci_desc_is_index(&index->list[i]))
			pin->n_attestations++;
	}
	return 0;
}

static int no_platform(const struct resolving *r, struct err *err)
{
	char want[OCI_PLATFORM_BYTES], text[OCI_PLATFORM_BYTES], there[PLATFORMS_SHOWN_BYTES] = "";
	size_t n = 0;
	oci_platform_text(&r->want, want);
	for (size_t i = 0; i < r->pin.n_platforms && n + OCI_PLATFORM_BYTES + 3 < sizeof(there); i++) {
		oci_platform_text(&r->pin.platforms[i], text);
		n += (size_t)snprintf(there + n, sizeof(there) - n, "%s%s", n ? ", " : "", text);
	}
	return err_set(err, ERR_PLAN, "%s: has no image for %s; there is %s", r->src.name, want,
	               n ? there : "none for any platform");
}

/* Looks through an index and those nested in it, at most `depth` deep. *out is the manifest; `found` false
 * when there is none for the platform. */
static int find_manifest(struct image_doc *out, bool *found, struct resolving *r,
                         const struct image_doc *index, unsigned depth, struct oci_platform *told,
                         struct err *err)
{
	const struct oci_desc *d;
	if (note_platforms(&r->pin, &index->doc, index->name, err) ||
	    oci_doc_pick(&d, &index->doc, &r->want, index->name, err))
		return -1;
	if (d) {
		if (r->src.ops->doc(out, &r->src, d, err))
			return -1;
		*told = d->platform;
		*found = true;
		return 0;
	}
	for (size_t i = 0; i < index->doc.n; i++) {
		struct image_doc below;
		d = &index->doc.list[i];
		if (!oci_desc_is_index(d) || (d->has_platform && !oci_platform_same(&d->platform, &r->want)))
			continue;
		if (depth == 0 || r->n_indexes++ >= NESTED_DOCS_MAX)
			return err_set(err, ERR_ENV, "%s: indexes in indexes, more than are followed",
			               index->name);
		if (r->src.ops->doc(&below, &r->src, d, err))
			return -1;
		int rc = below.doc.kind == OCI_INDEX
		                 ? find_manifest(out, found, r, &below, depth - 1, told, err)
		                 : err_set(err, ERR_ENV, "%s: is named as an index and is none", below.name);
		image_doc_done(&below);
		if (rc || *found)
			return rc;
	}
	return 0;
}

/* --- the manifest ----------------------------------------------------------------------------------------
 */

static int check_platform(struct resolving *r, const struct oci_config *c, const struct oci_platform *told,
                          const char *name, struct err *err)
{
	char has[OCI_PLATFORM_BYTES], want[OCI_PLATFORM_BYTES];
	struct oci_platform a = c->platform, b = told ? *told : r->want;
	/* Many configurations leave the variant out. */
	if (!a.variant[0])
		memcpy(a.variant, b.variant, sizeof(a.variant));
	if (oci_platform_same(&a, &b))
		return 0;
	oci_platform_text(&c->platform, has);
	oci_platform_text(told ? told : &r->want, want);
	if (told)
		return err_set(err, ERR_ENV, "%s: the index says it is for %s, its configuration %s", name,
		               want, has);
	return err_set(err, ERR_PLAN, "%s: has no image for %s; there is %s", r->src.name, want, has);
}

static int take_config(struct resolving *r, const struct oci_desc *d, const struct buf *bytes,
                       const struct oci_platform *told, size_t n_layers, const char *name, struct err *err)
{
	struct oci_config c;
	char digest[OCI_DIGEST_BYTES];
	struct image_pin *pin = &r->pin;
	auto_free char *at = str_fmt("%s: configuration", name);
	const char *p = bytes->p ? bytes->p : "";
	if (!at)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	if (oci_config_parse(&c, p, bytes->len, at, err))
		return -1;
	int rc = check_platform(r, &c, told, name, err);
	if (rc == 0 && c.n_diff_ids != n_layers)
		rc = err_set(err, ERR_ENV, "%s: %zu layers, the configuration names %zu", name, n_layers,
		             c.n_diff_ids);
	oci_digest_of(digest, p, bytes->len, NULL);
	snprintf(pin->config.digest, sizeof(pin->config.digest), "%.71s", digest);
	strcpy(pin->config.media_type, d->media_type);
	pin->config.size_bytes = bytes->len;
	pin->platform = c.platform;
	if (!pin->platform.variant[0] && told)
		memcpy(pin->platform.variant, told->variant, sizeof(pin->platform.variant));
	strcpy(pin->created, c.created);
	strcpy(pin->version, c.version);
	strcpy(pin->revision, c.revision);
	oci_config_done(&c);
	return rc;
}

static int take_layers(struct image_pin *pin, const struct oci_desc *list, size_t n, const char *name,
                       struct err *err)
{
	pin->layers = calloc(n + 1, sizeof(*pin->layers));
	if (!pin->layers)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	pin->size_bytes = pin->config.size_bytes;
	for (size_t i = 0; i < n; i++) {
		struct image_layer *l = &pin->layers[pin->n_layers++];
		strcpy(l->digest, list[i].digest);
		strcpy(l->media_type, list[i].media_type);
		l->size_bytes = list[i].size_bytes;
		if (l->size_bytes > UINT64_MAX / 4 - pin->size_bytes)
			return err_set(err, ERR_ENV, "%s: the sizes of its layers are none", name);
		pin->size_bytes += l->size_bytes;
	}
	return 0;
}

static int take_manifest(struct resolving *r, const struct image_doc *m, const struct oci_platform *told,
                         const struct image_spec *spec, struct err *err)
{
	auto_buf bytes = BUF_INIT(OCI_CONFIG_BYTES_MAX);
	const struct oci_desc *c = &m->doc.config;
	if (strcmp(c->media_type, OCI_TYPE_CONFIG) != 0 && strcmp(c->media_type, OCI_TYPE_DOCKER_CONFIG) != 0)
		return err_set(err, ERR_ENV, "%s: is no container image but an artifact of type %s", m->name,
		               m->doc.artifact_type[0] ? m->doc.artifact_type
		               : c->media_type[0]      ? c->media_type
		                                       : "(none)");
	put_object(&r->pin.manifest, m);
	if (r->src.ops->small(&bytes, &r->src, c, OCI_CONFIG_BYTES_MAX, err) ||
	    take_config(r, c, &bytes, told, m->doc.n, m->name, err) ||
	    take_layers(&r->pin, m->doc.list, m->doc.n, m->name, err))
		return -1;
	for (size_t i = 0; i < m->doc.n; i++)
		if (r->src.ops->layer(&r->src, &m->doc.list[i], spec->check_layers, err))
			return -1;
	r->pin.layers_checked = spec->check_layers || r->pin.from == IMAGE_OCI_ARCHIVE;
	return 0;
}

/* --- all of it -------------------------------------------------------------------------------------------
 */

static int resolve_below(struct resolving *r, const struct image_doc *top, const struct image_spec *spec,
                         struct err *err)
{
	struct image_doc m;
	struct oci_platform told = { 0 };
	bool found = false;
	if (top->doc.kind == OCI_MANIFEST)
		return take_manifest(r, top, NULL, spec, err);
	put_object(&r->pin.index, top);
	if (find_manifest(&m, &found, r, top, NESTED_MAX, &told, err))
		return -1;
	if (!found)
		return no_platform(r, err);
	int rc = m.doc.kind == OCI_MANIFEST
	                 ? take_manifest(r, &m, &told, spec, err)
	                 : err_set(err, ERR_ENV, "%s: is named as a manifest and is an index", m.name);
	image_doc_done(&m);
	return rc;
}

static int resolve_docs(struct resolving *r, const struct image_spec *spec, struct err *err)
{
	struct image_doc top;
	if (r->src.ops->root(&top, &r->src, spec->name, err))
		return -1;
	int rc = resolve_below(r, &top, spec, err);
	image_doc_done(&top);
	if (rc == 0 && r->key)
		rc = image_check_signature(&r->pin, &r->src, r->key, err);
	return rc;
}

static int resolve_saved(struct resolving *r, const struct image_spec *spec, struct err *err)
{
	struct oci_saved s;
	if (spec->required_key)
		return err_set(err, ERR_ENV,
		               "%s: a docker-archive holds no manifest, so no signature can be for it",
		               spec->path);
	if (oci_layout_saved(&s, r->src.layout, spec->name, err))
		return -1;
	int rc = take_config(r, &s.config, &s.config_bytes, NULL, s.n_layers, spec->path, err);
	if (rc == 0)
		rc = take_layers(&r->pin, s.layers, s.n_layers, spec->path, err);
	r->pin.layers_checked = true;
	oci_saved_done(&s);
	return rc;
}

static int resolve_path(struct resolving *r, const struct image_spec *spec, uint64_t deadline_ns,
                        struct err *err)
{
	static const enum image_from from[] = { [OCI_LAYOUT_FOLDER] = IMAGE_OCI_LAYOUT,
		                                [OCI_LAYOUT_ARCHIVE] = IMAGE_OCI_ARCHIVE,
		                                [OCI_DOCKER_ARCHIVE] = IMAGE_DOCKER_ARCHIVE };
	if (oci_layout_open(&r->src.layout, spec->path, deadline_ns, err))
		return -1;
	r->src.ops = &image_from_layout;
	r->src.name = spec->path;
	r->pin.from = from[oci_layout_kind(r->src.layout)];
	snprintf(r->pin.reference, sizeof(r->pin.reference), "%s", spec->path);
	int rc = r->pin.from == IMAGE_DOCKER_ARCHIVE ? resolve_saved(r, spec, err)
	                                             : resolve_docs(r, spec, err);
	oci_layout_close(r->src.layout);
	return rc;
}

/* --- connections that stay --------------------------------------------------------------------------------
 */

struct image_session {
	struct registry_http *http; /* NULL = none yet */
	char *ca_file;
	bool plain_allowed;
};

struct image_session *image_session_new(void)
{
	return calloc(1, sizeof(struct image_session));
}

static void session_clear(struct image_session *s)
{
	registry_http_close(s->http);
	free(s->ca_file);
	*s = (struct image_session){ 0 };
}

void image_session_free(struct image_session *s)
{
	if (s)
		session_clear(s);
	free(s);
}

/* Those of before, unless other rules hold for them now. NULL = none. */
static struct registry_http *session_http(struct image_session *s, const struct image_spec *spec)
{
	struct registry_http_spec http = { .ca_file = spec->ca_file,
		                           .plain_allowed = spec->tls == REGISTRY_PLAIN_HTTP };
	struct err ignored;
	if (!s)
		return NULL;
	bool same_ca = s->ca_file && spec->ca_file ? strcmp(s->ca_file, spec->ca_file) == 0
	                                           : s->ca_file == spec->ca_file;
	if (s->http && same_ca && s->plain_allowed == http.plain_allowed)
		return s->http;
	session_clear(s);
	s->plain_allowed = http.plain_allowed;
	s->ca_file = spec->ca_file ? strdup(spec->ca_file) : NULL;
	if ((spec->ca_file && !s->ca_file) || registry_http_open(&s->http, &http, &ignored))
		session_clear(s);
	return s->http;
}

static int resolve_reference(struct resolving *r, const struct image_spec *spec, uint64_t deadline_ns,
                             struct err *err)
{
	struct registry_spec rs = { .ref = &r->src.ref,
		                    .config_file = spec->config_file,
		                    .ca_file = spec->ca_file,
		                    .tls = spec->tls,
		                    .stop = spec->stop,
		                    .http = session_http(spec->session, spec),
		                    .deadline_ns = deadline_ns,
		                    .wait_max_s = spec->wait_max_s,
		                    .backoff_factor = spec->backoff_factor };
	auto_free char *name = NULL;
	if (registry_ref_parse(&r->src.ref, spec->reference, err))
		return -1;
	name = str_fmt("%s/%s", r->src.ref.host, r->src.ref.path);
	if (!name)
		return err_set(err, ERR_ENV, "%s: no memory", spec->reference);
	registry_ref_text(&r->src.ref, r->pin.reference);
	r->pin.tag_implied = r->src.ref.tag_implied;
	r->pin.from = IMAGE_REGISTRY;
	r->src.ops = &image_from_registry;
	r->src.name = name;
	if (registry_open(&r->src.registry, &rs, err))
		return -1;
	int rc = resolve_docs(r, spec, err);
	r->pin.registry = *registry_stats(r->src.registry);
	registry_close(r->src.registry);
	return rc;
}

int image_resolve(struct image_pin *out, const struct image_spec *spec, struct err *err)
{
	struct resolving r = { 0 };
	uint64_t deadline_ns = spec->deadline_ns ? spec->deadline_ns : clock_now_ns() + DEFAULT_TIME_NS;
	if (spec->platform ? oci_platform_parse(&r.want, spec->platform, err)
	                   : (oci_platform_here(&r.want), 0))
		return -1;
	oci_platform_normal(&r.want);
	if (!spec->reference == !spec->path)
		return err_set(err, ERR_PLAN, "image: want either a reference or a path");
	if (spec->required_key && cosign_key_load(&r.key, spec->required_key, err))
		return -1;
	int rc = spec->reference ? resolve_reference(&r, spec, deadline_ns, err)
	                         : resolve_path(&r, spec, deadline_ns, err);
	cosign_key_free(r.key);
	if (rc) {
		image_pin_done(&r.pin);
		return -1;
	}
	*out = r.pin;
	return 0;
}
