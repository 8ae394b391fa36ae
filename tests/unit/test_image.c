/* SPDX-License-Identifier: Apache-2.0 */
/* Whole images: from a registry of our own (also one that lies), from layouts and archives (also hostile
 * ones), with signatures; and from a real registry where its program is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "cosign_sign.h"
#include "image_maker.h"
#include "pin/cosign.h"
#include "pin/pin_image.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64];
static char kept_manifest[OCI_DIGEST_BYTES]; /* that the real registry has stored */
static pid_t real_pid;                       /* of the real registry, 0 = none */

static void real_end(void)
{
	if (real_pid > 0) {
		kill(real_pid, SIGTERM);
		waitpid(real_pid, NULL, 0);
	}
	real_pid = 0;
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/image-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	real_end();
	auto_free char *rm = str_fmt("rm -rf %s", folder);
	return system(rm);
}

/* --- a registry with two platforms and an attestation ----------------------------------------------------
 */

struct shop {
	struct fake f;
	struct made_image amd64, arm64;
	struct made_blob index;
	char name[64];
};

static void shop_open(struct shop *s)
{
	static const char attestation[] =
		"{\"mediaType\":\"" OCI_TYPE_MANIFEST "\",\"digest\":\"sha256:"
		"bcde106c21bc94adf2f40d39a6bbba768c50da75fa6f7860974d1f36e0066ef0\",\"size\":566,"
		"\"annotations\":{\"vnd.docker.reference.type\":\"attestation-manifest\"},"
		"\"platform\":" PLATFORM_UNKNOWN "}";
	fake_start(&s->f);
	make_image(&s->amd64, "amd64", NULL, "one");
	make_image(&s->arm64, "arm64", NULL, "one");
	auto_free char *a = made_entry(&s->amd64.manifest, OCI_TYPE_MANIFEST, PLATFORM_AMD64);
	auto_free char *b = made_entry(&s->arm64.manifest, OCI_TYPE_MANIFEST, PLATFORM_ARM64);
	blob_take(&s->index, str_fmt("{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_INDEX
	                             "\",\"manifests\":[%s,%s,%s]}",
	                             attestation, b, a));
	snprintf(s->name, sizeof(s->name), "127.0.0.1:%u/x:t", s->f.port);
}

/* Routes are searched in order: a lie is added before this. */
static void shop_fill(struct shop *s)
{
	serve_doc(&s->f, "t", &s->index, OCI_TYPE_INDEX);
	serve_doc(&s->f, NULL, &s->index, OCI_TYPE_INDEX);
	serve_image(&s->f, &s->amd64);
	serve_image(&s->f, &s->arm64);
}

static void shop_close(struct shop *s)
{
	fake_stop(&s->f);
	made_done(&s->amd64);
	made_done(&s->arm64);
	free(s->index.bytes);
}

static struct image_spec spec_of(const char *reference, const char *platform)
{
	return (struct image_spec){ .reference = reference,
		                    .platform = platform,
		                    .config_file = "",
		                    .deadline_ns = clock_now_ns() + 20 * NS_PER_S,
		                    .backoff_factor = .001 };
}

static void must_resolve(struct image_pin *p, const struct image_spec *spec)
{
	struct err err;
	if (image_resolve(p, spec, &err))
		fail_msg("%s", err.msg);
}

static void must_not_resolve(const struct image_spec *spec, enum err_class cls, const char *says)
{
	struct err err;
	struct image_pin p;
	if (image_resolve(&p, spec, &err) == 0)
		fail_msg("came, wanted '%s'", says);
	if (!strstr(err.msg, says))
		fail_msg("'%s' does not say '%s'", err.msg, says);
	assert_int_equal(err.cls, cls);
}

static void check_amd64(const struct image_pin *p, const struct made_image *m)
{
	assert_string_equal(p->manifest.digest, m->manifest.digest);
	assert_string_equal(p->manifest.media_type, OCI_TYPE_MANIFEST);
	assert_int_equal(p->manifest.size_bytes, m->manifest.len);
	assert_string_equal(p->config.digest, m->config.digest);
	assert_int_equal(p->config.size_bytes, m->config.len);
	assert_string_equal(p->platform.architecture, "amd64");
	assert_string_equal(p->created, "2026-11-30T20:02:57.642Z");
	assert_string_equal(p->revision, "one");
	assert_int_equal(p->n_layers, 2);
	assert_string_equal(p->layers[1].digest, m->layers[1].digest);
	assert_int_equal(p->size_bytes, m->config.len + m->layers[0].len + m->layers[1].len);
}

static void resolves_a_tag_to_three_digests_in_three_round_trips(void **state)
{
	struct shop s;
	struct image_pin p;
	(void)state;
	shop_open(&s);
	shop_fill(&s);
	struct image_spec spec = spec_of(s.name, "linux/x86_64");
	must_resolve(&p, &spec);
	check_amd64(&p, &s.amd64);
	assert_string_equal(p.index.digest, s.index.digest);
	assert_true(p.n_platforms == 2 && p.n_attestations == 1 && !p.tag_implied && !p.layers_checked);
	assert_int_equal(s.f.n_requests, 3);
	assert_true(image_pin_has(&p, s.index.digest) && image_pin_has(&p, s.amd64.manifest.digest) &&
	            image_pin_has(&p, s.amd64.config.digest));
	assert_false(image_pin_has(&p, s.arm64.manifest.digest) || image_pin_has(&p, ""));
	image_pin_done(&p);
	shop_close(&s);
}

static void other_ways_to_name_the_same(void **state)
{
	struct shop s;
	struct image_pin p;
	(void)state;
	shop_open(&s);
	shop_fill(&s);
	serve_doc(&s.f, "latest", &s.arm64.manifest, OCI_TYPE_MANIFEST);
	auto_free char *by_index = str_fmt("127.0.0.1:%u/x@%s", s.f.port, s.index.digest);
	auto_free char *by_manifest = str_fmt("127.0.0.1:%u/x:t@%s", s.f.port, s.amd64.manifest.digest);
	auto_free char *no_tag = str_fmt("127.0.0.1:%u/x", s.f.port);
	struct image_spec spec = spec_of(by_index, "linux/arm64");
	must_resolve(&p, &spec);
	assert_string_equal(p.manifest.digest, s.arm64.manifest.digest);
	assert_string_equal(p.platform.variant, "v8");
	image_pin_done(&p);
	spec.reference = by_manifest;
	spec.platform = "linux/amd64";
	spec.check_layers = true;
	must_resolve(&p, &spec);
	check_amd64(&p, &s.amd64);
	assert_true(!p.index.digest[0] && p.layers_checked);
	image_pin_done(&p);
	spec.reference = no_tag;
	spec.platform = "linux/arm64";
	must_resolve(&p, &spec);
	assert_true(p.tag_implied);
	image_pin_done(&p);
	shop_close(&s);
}

static void says_what_platforms_there_are(void **state)
{
	struct shop s;
	(void)state;
	shop_open(&s);
	shop_fill(&s);
	serve_doc(&s.f, "single", &s.arm64.manifest, OCI_TYPE_MANIFEST);
	struct image_spec spec = spec_of(s.name, "linux/s390x");
	must_not_resolve(&spec, ERR_PLAN, "no image for linux/s390x; there is linux/arm64/v8, linux/amd64");
	spec.platform = "nonsense";
	must_not_resolve(&spec, ERR_PLAN, "platform");
	auto_free char *single = str_fmt("127.0.0.1:%u/x:single", s.f.port);
	spec = spec_of(single, "linux/amd64");
	must_not_resolve(&spec, ERR_PLAN, "there is linux/arm64");
	shop_close(&s);
}

static void a_session_goes_on_with_its_connection(void **state)
{
	struct shop s;
	struct image_pin p;
	(void)state;
	for (int with = 0; with < 2; with++) {
		shop_open(&s);
		shop_fill(&s);
		struct image_session *session = with ? image_session_new() : NULL;
		for (int i = 0; i < 10; i++) {
			struct image_spec spec = spec_of(s.name, i % 2 ? "linux/amd64" : "linux/arm64");
			spec.session = session;
			must_resolve(&p, &spec);
			image_pin_done(&p);
		}
		assert_int_equal(s.f.n_requests, 30);
		assert_int_equal(s.f.n_connections, with ? 1 : 10);
		image_session_free(session);
		shop_close(&s);
	}
}

/* --- lies ------------------------------------------------------------------------------------------------
 */

enum lie {
	LIE_MANIFEST_BYTES,
	LIE_MANIFEST_HEADER,
	LIE_CONFIG_BYTES,
	LIE_CONFIG_TYPE,
	LIE_MANIFEST_TYPE,
	LIE_LAYER,
	LIE_ABSENT_MANIFEST,
	LIE_ABSENT_CONFIG,
};

static const struct {
	enum lie lie;
	const char *says;
} lies[] = {
	{ LIE_MANIFEST_BYTES, "the bytes that came are" },
	{ LIE_MANIFEST_HEADER, "header digest differs from the body" },
	{ LIE_CONFIG_BYTES, "the bytes that came are" },
	{ LIE_CONFIG_TYPE, "artifact of type application/vnd.cncf.helm.config.v1+json" },
	{ LIE_MANIFEST_TYPE, "it came as" },
	{ LIE_LAYER, "the bytes that came are" },
	{ LIE_ABSENT_MANIFEST, "not found" },
	{ LIE_ABSENT_CONFIG, "not found" },
};

static void add_lie(struct shop *s, enum lie lie)
{
	auto_free char *manifest = str_fmt("/v2/x/manifests/%s", s->amd64.manifest.digest);
	auto_free char *config = str_fmt("/v2/x/blobs/%s", s->amd64.config.digest);
	auto_free char *layer = str_fmt("/v2/x/blobs/%s", s->amd64.layers[1].digest);
	auto_free char *docker = str_fmt(
		"{\"schemaVersion\":2,\"config\":{\"mediaType\":\"a\",\"digest\":\"%s\",\"size\":%zu},"
		"\"layers\":[]}",
		s->amd64.config.digest, s->amd64.config.len);
	const struct made_blob *m = &s->amd64.manifest, *c = &s->amd64.config, *l = &s->amd64.layers[1];
	if (lie == LIE_MANIFEST_BYTES)
		fake_add(&s->f, manifest, 200, NULL, docker, strlen(docker));
	if (lie == LIE_MANIFEST_HEADER) {
		auto_free char *h = str_fmt("Docker-Content-Digest: %s\r\n", c->digest);
		fake_add(&s->f, manifest, 200, h, m->bytes, m->len);
	}
	if (lie == LIE_CONFIG_BYTES || lie == LIE_LAYER) {
		const struct made_blob *b = lie == LIE_LAYER ? l : c;
		struct route *r =
			fake_add(&s->f, lie == LIE_LAYER ? layer : config, 200, NULL, b->bytes, b->len);
		r->body[b->len / 2] ^= 1;
	}
	if (lie == LIE_ABSENT_MANIFEST || lie == LIE_ABSENT_CONFIG)
		fake_add(&s->f, lie == LIE_ABSENT_CONFIG ? config : manifest, 404, NULL, "", 0);
}

static void tells_every_lie_of_a_registry(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		struct shop s;
		shop_open(&s);
		if (lies[i].lie == LIE_CONFIG_TYPE || lies[i].lie == LIE_MANIFEST_TYPE) {
			if (lies[i].lie == LIE_CONFIG_TYPE)
				make_manifest(&s.amd64, "application/vnd.cncf.helm.config.v1+json");
			auto_free char *e = made_entry(
				&s.amd64.manifest,
				lies[i].lie == LIE_CONFIG_TYPE ? OCI_TYPE_MANIFEST : OCI_TYPE_DOCKER_MANIFEST,
				PLATFORM_AMD64);
			free(s.index.bytes);
			blob_take(&s.index, str_fmt("{\"schemaVersion\":2,\"manifests\":[%s]}", e));
		}
		add_lie(&s, lies[i].lie);
		shop_fill(&s);
		struct image_spec spec = spec_of(s.name, "linux/amd64");
		spec.check_layers = true;
		must_not_resolve(&spec, ERR_ENV, lies[i].says);
		shop_close(&s);
	}
}

/* An index with these entries, and what comes of it. */
static void resolve_index(struct shop *s, char *index_text, const char *says)
{
	struct made_blob index;
	blob_take(&index, index_text);
	serve_doc(&s->f, "own", &index, OCI_TYPE_INDEX);
	auto_free char *name = str_fmt("127.0.0.1:%u/x:own", s->f.port);
	struct image_spec spec = spec_of(name, "linux/amd64");
	must_not_resolve(&spec, ERR_ENV, says);
	free(index.bytes);
}

static void holds_the_index_to_its_word(void **state)
{
	static const char *const platforms[] = { "{\"os\":\"linux\",\"architecture\":\"amd64\"}" };
	struct shop s;
	(void)state;
	shop_open(&s);
	serve_image(&s.f, &s.arm64); /* sold as amd64 */
	auto_free char *e = made_entry(&s.arm64.manifest, OCI_TYPE_MANIFEST, platforms[0]);
	resolve_index(&s, str_fmt("{\"schemaVersion\":2,\"manifests\":[%s]}", e),
	              "the index says it is for linux/amd64, its configuration linux/arm64");
	shop_close(&s);
	shop_open(&s);
	serve_image(&s.f, &s.amd64);
	s.amd64.manifest.len++; /* a size that is none */
	auto_free char *f = made_entry(&s.amd64.manifest, OCI_TYPE_MANIFEST, platforms[0]);
	resolve_index(&s, str_fmt("{\"schemaVersion\":2,\"manifests\":[%s]}", f), "its index says");
	shop_close(&s);
}

static void looks_into_nested_indexes_but_not_for_ever(void **state)
{
	struct shop s;
	struct image_pin p;
	struct made_blob level[6] = { { 0 } };
	(void)state;
	shop_open(&s);
	shop_fill(&s);
	for (size_t i = 0; i < ARRAY_LEN(level); i++) {
		auto_free char *e = made_entry(i ? &level[i - 1] : &s.index, OCI_TYPE_INDEX, NULL);
		char tag[8];
		snprintf(tag, sizeof(tag), "n%zu", i);
		blob_take(&level[i], str_fmt("{\"schemaVersion\":2,\"manifests\":[%s]}", e));
		serve_doc(&s.f, tag, &level[i], OCI_TYPE_INDEX);
		serve_doc(&s.f, NULL, &level[i], OCI_TYPE_INDEX);
	}
	auto_free char *one = str_fmt("127.0.0.1:%u/x:n0", s.f.port);
	auto_free char *deep = str_fmt("127.0.0.1:%u/x:n5", s.f.port);
	struct image_spec spec = spec_of(one, "linux/amd64");
	must_resolve(&p, &spec);
	assert_string_equal(p.index.digest, level[0].digest);
	check_amd64(&p, &s.amd64);
	image_pin_done(&p);
	spec = spec_of(deep, "linux/amd64");
	must_not_resolve(&spec, ERR_ENV, "indexes in indexes");
	for (size_t i = 0; i < ARRAY_LEN(level); i++)
		free(level[i].bytes);
	shop_close(&s);
}

/* --- comparing, writing ----------------------------------------------------------------------------------
 */

static void compares_like_with_like(void **state)
{
	struct image_pin a = { .index = { .digest = "i" },
		               .manifest = { .digest = "m" },
		               .config = { .digest = "c" } };
	struct image_pin b = a;
	struct image_moved m;
	(void)state;
	image_pin_compare(&m, &a, &b);
	assert_false(m.moved);
	b.index.digest[0] = '\0'; /* pinned by index, now seen by its manifest: nothing has moved */
	image_pin_compare(&m, &a, &b);
	assert_true(!m.moved && strcmp(m.index, "unknown") == 0 && strcmp(m.manifest, "same") == 0);
	strcpy(b.manifest.digest, "other");
	image_pin_compare(&m, &a, &b);
	assert_true(m.moved && strcmp(m.manifest, "changed") == 0);
}

static void writes_one_object_with_null_for_unknown(void **state)
{
	struct shop s;
	struct image_pin p;
	auto_buf text = BUF_INIT(1u << 20);
	auto_json doc = NULL;
	struct json_out o;
	struct err err;
	(void)state;
	shop_open(&s);
	shop_fill(&s);
	struct image_spec spec = spec_of(s.name, "linux/amd64");
	must_resolve(&p, &spec);
	p.created[0] = '\0';
	jo_init(&o, &text, 0);
	image_pin_json(&o, NULL, &p);
	assert_int_equal(json_parse(&doc, text.p, text.len, "x", JSON_STRICT, NULL, &err), 0);
	assert_true(cJSON_IsNull(json_get(doc, "created")) && cJSON_IsNull(json_get(doc, "signature")) &&
	            cJSON_IsNull(json_get(doc, "pull_limit")));
	assert_string_equal(json_str(json_get(doc, "config"), "digest"), s.amd64.config.digest);
	assert_string_equal(json_str(doc, "platform"), "linux/amd64");
	image_pin_done(&p);
	shop_close(&s);
}

/* --- layouts and archives --------------------------------------------------------------------------------
 */

struct tree { /* an image as files */
	struct made_image m;
	struct made_file files[16];
	size_t n;
	char *paths[8], *index;
};

static void tree_make(struct tree *t, const char *name)
{
	const struct made_blob *blobs[] = { &t->m.config, &t->m.layers[0], &t->m.layers[1], &t->m.manifest };
	*t = (struct tree){ 0 };
	make_image(&t->m, "amd64", NULL, "one");
	t->index = str_fmt("{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" OCI_TYPE_MANIFEST
	                   "\",\"digest\":\"%s\","
	                   "\"size\":%zu,\"annotations\":{\"org.opencontainers.image.ref.name\":\"%s\"}}]}",
	                   t->m.manifest.digest, t->m.manifest.len, name);
	t->files[t->n++] =
		(struct made_file){ .path = "oci-layout", .text = "{\"imageLayoutVersion\": \"1.0.0\"}" };
	t->files[t->n++] = (struct made_file){ .path = "index.json", .text = t->index };
	for (size_t i = 0; i < 4; i++) {
		t->paths[i] = str_fmt("blobs/sha256/%s", blobs[i]->digest + 7);
		t->files[t->n++] = (struct made_file){ .path = t->paths[i], .text = blobs[i]->bytes };
	}
}

static void tree_done(struct tree *t)
{
	made_done(&t->m);
	free(t->index);
	for (size_t i = 0; i < ARRAY_LEN(t->paths); i++)
		free(t->paths[i]);
}

static void reads_a_layout_as_folder_tar_and_gzipped_tar(void **state)
{
	struct tree t;
	struct image_pin p;
	auto_free char *dir = fs_join(folder, "layout");
	auto_free char *tar = fs_join(folder, "layout.tar");
	auto_free char *gz = fs_join(folder, "layout.tar.gz");
	const char *const paths[] = { dir, tar, gz };
	(void)state;
	tree_make(&t, "v1");
	write_folder(dir, t.files, t.n);
	write_tar(tar, t.files, t.n, false);
	write_tar(gz, t.files, t.n, true);
	for (size_t i = 0; i < 6; i++) {
		struct image_spec spec = { .path = paths[i / 2],
			                   .platform = "linux/amd64",
			                   .name = i % 2 ? "v1" : NULL,
			                   .check_layers = true };
		must_resolve(&p, &spec);
		check_amd64(&p, &t.m);
		assert_true(p.layers_checked && !p.index.digest[0]);
		assert_int_equal(p.from, i / 2 ? IMAGE_OCI_ARCHIVE : IMAGE_OCI_LAYOUT);
		image_pin_done(&p);
		spec.name = "v2";
		must_not_resolve(&spec, ERR_PLAN, "there is v1");
		spec.name = NULL;
		spec.platform = "linux/arm64";
		must_not_resolve(&spec, ERR_PLAN, "there is linux/amd64");
	}
	tree_done(&t);
}

struct bad_tree {
	const char *name, *says;
	struct made_file change; /* replaces the file of that path, or is added */
	int drop;                /* index of a file that is left out; 0 = none */
	bool tar_only;
};

static void refuses_layouts_that_lie_or_leave_the_folder(void **state)
{
	struct tree t;
	(void)state;
	tree_make(&t, "v1");
	auto_free char *flipped = strdup(t.m.layers[1].bytes);
	flipped[3] ^= 1;
	auto_free char *flipped_config = strdup(t.m.config.bytes);
	flipped_config[30] ^= 1;
	struct bad_tree bad[] = {
		{ "layer", "has other bytes", { .path = t.paths[2], .text = flipped }, 0, false },
		{ "layer size", "its descriptor says", { .path = t.paths[2], .text = "x" }, 0, false },
		{ "config", "has other bytes", { .path = t.paths[0], .text = flipped_config }, 0, false },
		{ "link", "blobs/", { .path = t.paths[2], .link = "../../index.json" }, 0, false },
		{ "blob absent", "blobs/", { .path = "note", .text = "x" }, 5, false },
		{ "version", "imageLayoutVersion", { .path = "oci-layout", .text = "{}" }, 0, false },
		{ "index",
		  "index.json",
		  { .path = "index.json", .text = "{\"schemaVersion\":2,\"manifests\":5}" },
		  0,
		  false },
		{ "index a manifest", "no image", { .path = "index.json", .text = "[]" }, 0, false },
		{ "up", "leaves the archive", { .path = "../evil", .text = "x" }, 0, true },
		{ "root", "leaves the archive", { .path = "/etc/evil", .text = "x" }, 0, true },
		{ "inside up", "leaves the archive", { .path = "a/../../b", .text = "x" }, 0, true },
		{ "link out",
		  "link out of the archive",
		  { .path = "l", .link = "../../etc/passwd" },
		  0,
		  true },
		{ "link root", "link out of the archive", { .path = "l", .link = "/etc/passwd" }, 0, true },
		{ "hard link out",
		  "link out of the archive",
		  { .path = "l", .link = "../x", .hard = true },
		  0,
		  true },
		{ "device", "neither file, folder nor link", { .path = "dev", .type = AE_IFIFO }, 0, true },
		{ "twice", "is there twice", { .path = "./index.json", .text = "{}" }, 0, true },
	};
	for (size_t i = 0; i < 2 * ARRAY_LEN(bad); i++) {
		struct bad_tree *b = &bad[i / 2];
		struct made_file files[17];
		size_t n = 0;
		bool replaced = false;
		auto_free char *path = str_fmt("%s/bad%zu%s", folder, i, i % 2 ? ".tar" : "");
		if (b->tar_only && i % 2 == 0)
			continue;
		for (size_t f = 0; f < t.n; f++) {
			bool same = strcmp(t.files[f].path, b->change.path) == 0;
			replaced = replaced || same;
			if (same || !b->drop || f != (size_t)b->drop)
				files[n++] = same ? b->change : t.files[f];
		}
		if (!replaced)
			files[n++] = b->change;
		if (i % 2)
			write_tar(path, files, n, false);
		else
			write_folder(path, files, n);
		struct image_spec spec = { .path = path, .platform = "linux/amd64", .check_layers = true };
		struct image_pin p;
		struct err err;
		if (image_resolve(&p, &spec, &err) == 0)
			fail_msg("%s (%s) was taken", b->name, path);
		if (!strstr(err.msg, b->says))
			fail_msg("%s: '%s' does not say '%s'", b->name, err.msg, b->says);
	}
	tree_done(&t);
}

static void refuses_paths_that_are_no_image(void **state)
{
	static const char *const says[] = { "no OCI layout", "no archive", "No such file",
		                            "neither oci-layout" };
	auto_free char *text = fs_join(folder, "text");
	auto_free char *absent = fs_join(folder, "absent");
	auto_free char *plain = fs_join(folder, "plain.tar");
	const char *const paths[] = { folder, text, absent, plain };
	struct made_file f = { .path = "x", .text = "y" };
	struct err err;
	(void)state;
	assert_int_equal(fs_write(text, "hello, this is no archive\n", 26, &err), 0);
	write_tar(plain, &f, 1, false);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct image_spec spec = { .path = paths[i], .platform = "linux/amd64" };
		must_not_resolve(&spec, ERR_PLAN, says[i]);
	}
	struct image_spec none = { .platform = "linux/amd64" };
	must_not_resolve(&none, ERR_PLAN, "either a reference or a path");
}

static void archives_that_are_cut_short_never_crash(void **state)
{
	struct tree t;
	auto_buf bytes = BUF_INIT(1u << 20);
	struct err err;
	struct image_pin p;
	auto_free char *tar = fs_join(folder, "cut.tar");
	auto_free char *part = fs_join(folder, "part.tar");
	(void)state;
	tree_make(&t, "v1");
	write_tar(tar, t.files, t.n, false);
	assert_int_equal(fs_read(&bytes, tar, 1u << 20, &err), 0);
	size_t step = bytes.len / 40;
	for (size_t len = 0; len + 2048 < bytes.len; len += step) {
		struct image_spec spec = { .path = part, .platform = "linux/amd64" };
		assert_int_equal(fs_write(part, bytes.p, len, &err), 0);
		if (image_resolve(&p, &spec, &err) ==
		    0) { /* only what comes behind the last blob may be gone */
			image_pin_done(&p);
			assert_true(len > bytes.len / 2);
		}
	}
	tree_done(&t);
}

static void computes_what_a_docker_archive_holds(void **state)
{
	struct tree t;
	struct image_pin p;
	auto_free char *tar = fs_join(folder, "saved.tar");
	auto_free char *bad = fs_join(folder, "saved-bad.tar");
	(void)state;
	tree_make(&t, "v1");
	auto_free char *config = str_fmt("%s.json", t.m.config.digest + 7);
	auto_free char *layer0 = str_fmt("%s.tar", t.m.layers[0].digest + 7);
	auto_free char *manifest = str_fmt(
		"[{\"Config\":\"%s\",\"RepoTags\":[\"pilot:v1\"],\"Layers\":[\"%s\",\"abc/layer.tar\"]}]",
		config, layer0);
	struct made_file files[] = { { .path = "manifest.json", .text = manifest },
		                     { .path = config, .text = t.m.config.bytes },
		                     { .path = layer0, .text = t.m.layers[0].bytes },
		                     { .path = "def/layer.tar", .text = t.m.layers[1].bytes },
		                     { .path = "abc/layer.tar", .link = "../def/layer.tar" } };
	write_tar(tar, files, ARRAY_LEN(files), false);
	struct image_spec spec = { .path = tar, .platform = "linux/amd64" };
	for (int i = 0; i < 2; i++) {
		spec.name = i ? "docker.io/library/pilot:v1" : NULL;
		must_resolve(&p, &spec);
		assert_int_equal(p.from, IMAGE_DOCKER_ARCHIVE);
		assert_string_equal(p.config.digest, t.m.config.digest);
		assert_true(!p.manifest.digest[0] && p.layers_checked && p.n_layers == 2);
		assert_string_equal(p.layers[1].digest, t.m.layers[1].digest);
		image_pin_done(&p);
	}
	spec.name = "pilot:v2";
	must_not_resolve(&spec, ERR_PLAN, "pilot:v1");
	spec.name = NULL;
	spec.path = bad;
	files[3].text = "other";
	write_tar(bad, files, ARRAY_LEN(files), false);
	must_not_resolve(&spec, ERR_ENV, "the configuration names");
	files[3].text = t.m.layers[1].bytes;
	files[1].text = "{}";
	write_tar(bad, files, ARRAY_LEN(files), false);
	must_not_resolve(&spec, ERR_ENV, "has other bytes");
	files[1].text = t.m.config.bytes;
	files[4].link = "../gone";
	write_tar(bad, files, ARRAY_LEN(files), false);
	must_not_resolve(&spec, ERR_ENV, "layer 1 is not there");
	tree_done(&t);
}

/* --- signatures ------------------------------------------------------------------------------------------
 */

static char *key_file(const struct test_key *k, const char *name)
{
	struct err err;
	char *path = fs_join(folder, name);
	assert_int_equal(fs_write(path, k->pem, strlen(k->pem), &err), 0);
	return path;
}

/* A manifest with one signature layer; `sig` NULL = a bundle. */
static void serve_signature(struct fake *f, const char *name, char *payload, const char *sig,
                            struct made_blob *out)
{
	struct made_blob body;
	blob_take(&body, payload);
	serve_blob(f, &body);
	blob_take(out,
	          str_fmt("{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_MANIFEST
	                  "\",\"config\":{\"mediaType\":"
	                  "\"application/vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":2},\"layers\":[{"
	                  "\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu%s%s%s}]}",
	                  body.digest, sig ? COSIGN_TYPE_PAYLOAD : COSIGN_TYPE_BUNDLE ".v0.3+json",
	                  body.digest, body.len,
	                  sig ? ",\"annotations\":{\"dev.cosignproject.cosign/signature\":\"" : "",
	                  sig ? sig : "", sig ? "\"}" : ""));
	serve_doc(f, name, out, OCI_TYPE_MANIFEST);
	free(body.bytes);
}

enum sign_how {
	SIGN_NOT,
	SIGN_TAG_INDEX,
	SIGN_TAG_MANIFEST,
	SIGN_OTHER_KEY,
	SIGN_OTHER_DIGEST,
	SIGN_REFERRERS,
	SIGN_FALLBACK,
	SIGN_BUNDLE,
	SIGN_N
};

static void sign_shop(struct shop *s, enum sign_how how, const struct test_key *mine,
                      const struct test_key *other)
{
	const char *over = how == SIGN_TAG_MANIFEST ? s->amd64.manifest.digest : s->index.digest;
	const char *named = how == SIGN_OTHER_DIGEST ? s->arm64.config.digest : over;
	char tag[OCI_DIGEST_BYTES + 8];
	struct made_blob doc, list;
	char *payload = how == SIGN_BUNDLE ? cosign_bundle(mine, over + 7, COSIGN_PREDICATE, 1)
	                                   : cosign_payload(named, COSIGN_IMAGE_TYPE);
	auto_free char *sig = test_key_sign(how == SIGN_OTHER_KEY ? other : mine, payload, strlen(payload));
	bool by_tag = how < SIGN_REFERRERS;
	cosign_tag(tag, over);
	serve_signature(&s->f, by_tag ? tag : NULL, payload, how == SIGN_BUNDLE ? NULL : sig, &doc);
	if (!by_tag) {
		auto_free char *e = made_entry(&doc, OCI_TYPE_MANIFEST, NULL);
		e[strlen(e) - 1] = '\0';
		blob_take(
			&list,
			str_fmt("{\"schemaVersion\":2,\"manifests\":[%s,\"artifactType\":\"%s\"}]}", e,
		                how == SIGN_BUNDLE ? COSIGN_TYPE_BUNDLE ".v0.3+json" : COSIGN_TYPE_ARTIFACT));
		auto_free char *path = str_fmt("/v2/x/referrers/%s", over);
		tag[strlen(tag) - 4] = '\0';
		if (how == SIGN_FALLBACK)
			serve_doc(&s->f, tag, &list, OCI_TYPE_INDEX);
		else
			fake_add(&s->f, path, 200, "Content-Type: " OCI_TYPE_INDEX "\r\n", list.bytes,
			         list.len);
		free(list.bytes);
	}
	free(doc.bytes);
}

static void wants_the_signature_that_the_plan_requires(void **state)
{
	static const char *const says[SIGN_N] = { [SIGN_NOT] = "is not signed",
		                                  [SIGN_OTHER_KEY] = "not by the required key",
		                                  [SIGN_OTHER_DIGEST] = "names another digest" };
	static const char *const kinds[] = { "P-256", "ED25519" };
	(void)state;
	for (size_t i = 0; i < SIGN_N * ARRAY_LEN(kinds); i++) {
		enum sign_how how = (enum sign_how)(i % SIGN_N);
		struct test_key mine, other;
		struct shop s;
		struct image_pin p;
		test_key_make(&mine, kinds[i / SIGN_N]);
		test_key_make(&other, kinds[i / SIGN_N]);
		auto_free char *key = key_file(&mine, "key.pub");
		shop_open(&s);
		shop_fill(&s);
		if (how != SIGN_NOT)
			sign_shop(&s, how, &mine, &other);
		struct image_spec spec = spec_of(s.name, "linux/amd64");
		spec.required_key = key;
		if (says[how]) {
			must_not_resolve(&spec, ERR_ENV, says[how]);
		} else {
			must_resolve(&p, &spec);
			assert_int_equal(p.signature, IMAGE_SIGNATURE_GOOD);
			assert_string_equal(p.signed_digest,
			                    how == SIGN_TAG_MANIFEST ? p.manifest.digest : p.index.digest);
			assert_int_equal(strlen(p.key_id), 64);
			image_pin_done(&p);
		}
		spec.required_key = "/nonexistent.pub";
		must_not_resolve(&spec, ERR_PLAN, "nonexistent");
		shop_close(&s);
		test_key_done(&mine);
		test_key_done(&other);
	}
}

/* --- a real registry -------------------------------------------------------------------------------------
 */

static size_t drop_body(char *p, size_t size, size_t n, void *ctx)
{
	(void)p;
	(void)ctx;
	return size * n;
}

static size_t take_location(char *line, size_t size, size_t n, void *ctx)
{
	size_t len = size * n;
	if (len > 10 && strncasecmp(line, "Location: ", 10) == 0)
		snprintf(ctx, 2048, "%.*s", (int)strcspn(line + 10, "\r\n"), line + 10);
	return len;
}

/* 0 when nobody answers. */
static long send_to(const char *method, const char *url, const char *type, const char *body, size_t len,
                    char *location)
{
	CURL *e = curl_easy_init();
	auto_free char *line = str_fmt("Content-Type: %s", type ? type : "application/octet-stream");
	struct curl_slist *headers = curl_slist_append(NULL, line);
	long status = 0;
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, drop_body);
	curl_easy_setopt(e, CURLOPT_TIMEOUT, 20L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	if (body) {
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
	}
	if (location) {
		curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_location);
		curl_easy_setopt(e, CURLOPT_HEADERDATA, location);
	}
	curl_easy_perform(e);
	curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(e);
	return status;
}

struct real {
	unsigned port;
};

static void push_blob(const struct real *r, const struct made_blob *b)
{
	char location[2048] = "";
	auto_free char *url = str_fmt("http://127.0.0.1:%u/v2/x/blobs/uploads/", r->port);
	assert_int_equal(send_to("POST", url, NULL, "", 0, location), 202);
	auto_free char *put =
		str_fmt("%s%cdigest=%s", location, strchr(location, '?') ? '&' : '?', b->digest);
	assert_int_equal(send_to("PUT", put, NULL, b->bytes, b->len, NULL), 201);
}

static void push_doc(const struct real *r, const char *name, const struct made_blob *b, const char *type)
{
	auto_free char *url =
		str_fmt("http://127.0.0.1:%u/v2/x/manifests/%s", r->port, name ? name : b->digest);
	assert_int_equal(send_to("PUT", url, type, b->bytes, b->len, NULL), 201);
}

static void push_image(const struct real *r, const struct made_image *m)
{
	push_blob(r, &m->config);
	push_blob(r, &m->layers[0]);
	push_blob(r, &m->layers[1]);
	push_doc(r, NULL, &m->manifest, OCI_TYPE_MANIFEST);
}

static unsigned free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)) &&
	       !getsockname(fd, (struct sockaddr *)&a, &len));
	close(fd);
	return ntohs(a.sin_port);
}

/* A certificate for 127.0.0.1 that is its own authority: real.crt, real.key. */
static void make_certificate(void)
{
	EVP_PKEY *k = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
	X509 *x = X509_new();
	auto_free char *crt = fs_join(folder, "real.crt");
	auto_free char *key = fs_join(folder, "real.key");
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_set_pubkey(x, k);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
	                           (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
	X509_add_ext(x, san, -1);
	X509_EXTENSION_free(san);
	assert_true(X509_sign(x, k, EVP_sha256()) > 0);
	FILE *c = fopen(crt, "w"), *f = fopen(key, "w");
	assert_true(c && f && PEM_write_X509(c, x) == 1 &&
	            PEM_write_PrivateKey(f, k, NULL, NULL, 0, NULL, NULL) == 1);
	fclose(c);
	fclose(f);
	X509_free(x);
	EVP_PKEY_free(k);
}

/* Debian's docker-registry. False when it is not there. */
static bool real_start(struct real *r, bool tls)
{
	struct err err;
	auto_free char *config = fs_join(folder, "registry.yml");
	auto_free char *log = fs_join(folder, "registry.log");
	r->port = free_port();
	auto_free char *text = str_fmt(
		"version: 0.1\nlog: { level: error, accesslog: { disabled: true } }\nstorage: { "
		"filesystem: { rootdirectory: %s/reg } }\nhttp: { addr: \"127.0.0.1:%u\"%s%s%s%s%s }\n",
		folder, r->port, tls ? ", tls: { certificate: " : "", tls ? folder : "",
		tls ? "/real.crt, key: " : "", tls ? folder : "", tls ? "/real.key }" : "");
	char program[] = "docker-registry", serve[] = "serve";
	char *argv[] = { program, serve, config, NULL };
	posix_spawn_file_actions_t fa;
	assert_int_equal(fs_write(config, text, strlen(text), &err), 0);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 1, log, O_WRONLY | O_CREAT, 0600);
	posix_spawn_file_actions_adddup2(&fa, 1, 2);
	int rc = posix_spawnp(&real_pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	if (rc) {
		real_pid = 0;
		return false;
	}
	auto_free char *url = str_fmt("http://127.0.0.1:%u/v2/", r->port);
	for (int i = 0; i < 300 && send_to("GET", url, NULL, NULL, 0, NULL) != (tls ? 400 : 200); i++)
		usleep(100000);
	return true;
}

/* The stored bytes of a blob change behind the registry's back. */
static void damage(const struct made_blob *b, long back)
{
	auto_free char *path = str_fmt("%s/reg/docker/registry/v2/blobs/sha256/%.2s/%s/data", folder,
	                               b->digest + 7, b->digest + 7);
	FILE *f = fopen(path, "r+");
	assert_non_null(f);
	fseek(f, (long)b->len - back, SEEK_SET);
	fputc(' ', f);
	fclose(f);
}

static void a_real_registry_gives_the_same_digests(void **state)
{
	struct real r;
	struct shop s;
	struct image_pin p;
	struct test_key key;
	struct made_blob sig_doc;
	char tag[OCI_DIGEST_BYTES + 8];
	(void)state;
	if (!real_start(&r, false)) {
		print_message("# no docker-registry here: the real registry was not asked\n");
		skip();
	}
	shop_open(&s);
	push_image(&r, &s.amd64);
	push_image(&r, &s.arm64);
	strcpy(kept_manifest, s.arm64.manifest.digest);
	auto_free char *a = made_entry(&s.amd64.manifest, OCI_TYPE_MANIFEST, PLATFORM_AMD64);
	auto_free char *b = made_entry(&s.arm64.manifest, OCI_TYPE_MANIFEST, PLATFORM_ARM64);
	free(s.index.bytes);
	blob_take(&s.index,
	          str_fmt("{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_INDEX "\",\"manifests\":[%s,%s]}",
	                  b, a));
	push_doc(&r, "t", &s.index, OCI_TYPE_INDEX);
	auto_free char *name = str_fmt("127.0.0.1:%u/x:t", r.port);
	struct image_spec spec = spec_of(name, "linux/amd64");
	spec.check_layers = true;
	must_resolve(&p, &spec);
	check_amd64(&p, &s.amd64);
	assert_string_equal(p.index.digest, s.index.digest);
	image_pin_done(&p);

	test_key_make(&key, "P-256");
	auto_free char *pub = key_file(&key, "real.pub");
	spec.required_key = pub;
	must_not_resolve(&spec, ERR_ENV, "is not signed"); /* /referrers/ is unknown to it */
	struct made_blob body;
	blob_take(&body, cosign_payload(s.index.digest, COSIGN_IMAGE_TYPE));
	auto_free char *sig = test_key_sign(&key, body.bytes, body.len);
	push_blob(&r, &body);
	blob_take(
		&sig_doc,
		str_fmt("{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_MANIFEST
	                "\",\"config\":{\"mediaType\":\"" OCI_TYPE_CONFIG
	                "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":\"" COSIGN_TYPE_PAYLOAD
	                "\",\"digest\":\"%s\",\"size\":%zu,\"annotations\":{"
	                "\"dev.cosignproject.cosign/signature\":\"%s\"}}]}",
	                s.amd64.config.digest, s.amd64.config.len, body.digest, body.len, sig));
	cosign_tag(tag, s.index.digest);
	push_doc(&r, tag, &sig_doc, OCI_TYPE_MANIFEST);
	must_resolve(&p, &spec);
	assert_int_equal(p.signature, IMAGE_SIGNATURE_GOOD);
	image_pin_done(&p);

	spec.required_key = NULL;
	damage(&s.amd64.layers[0], 1);
	must_not_resolve(&spec, ERR_ENV, "the bytes that came are");
	spec.check_layers = false;
	damage(&s.index, 0); /* one blank more; its digest header stays the old one */
	must_not_resolve(&spec, ERR_ENV, s.index.digest);
	real_end();
	free(body.bytes);
	free(sig_doc.bytes);
	test_key_done(&key);
	shop_close(&s);
}

/* The store is the one that the test before filled. */
static void tls_is_checked_and_found_on_loopback(void **state)
{
	struct real r;
	struct image_pin p;
	(void)state;
	make_certificate();
	if (!real_start(&r, true)) {
		print_message("# no docker-registry here: the real registry was not asked\n");
		skip();
	}
	auto_free char *ca = fs_join(folder, "real.crt");
	auto_free char *name = str_fmt("127.0.0.1:%u/x@%s", r.port, kept_manifest);
	struct image_spec spec = spec_of(name, "linux/arm64");
	spec.ca_file = ca;
	must_resolve(&p, &spec);
	assert_string_equal(p.manifest.digest, kept_manifest);
	image_pin_done(&p);
	spec.ca_file = NULL;
	must_not_resolve(&spec, ERR_ENV, "certificate");
	spec.tls = REGISTRY_TLS_ONLY;
	must_not_resolve(&spec, ERR_ENV, "certificate");
	spec.tls = REGISTRY_PLAIN_HTTP;
	must_not_resolve(&spec, ERR_ENV, "status 400");
	real_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolves_a_tag_to_three_digests_in_three_round_trips),
		cmocka_unit_test(other_ways_to_name_the_same),
		cmocka_unit_test(says_what_platforms_there_are),
		cmocka_unit_test(a_session_goes_on_with_its_connection),
		cmocka_unit_test(tells_every_lie_of_a_registry),
		cmocka_unit_test(holds_the_index_to_its_word),
		cmocka_unit_test(looks_into_nested_indexes_but_not_for_ever),
		cmocka_unit_test(compares_like_with_like),
		cmocka_unit_test(writes_one_object_with_null_for_unknown),
		cmocka_unit_test(reads_a_layout_as_folder_tar_and_gzipped_tar),
		cmocka_unit_test(refuses_layouts_that_lie_or_leave_the_folder),
		cmocka_unit_test(refuses_paths_that_are_no_image),
		cmocka_unit_test(archives_that_are_cut_short_never_crash),
		cmocka_unit_test(computes_what_a_docker_archive_holds),
		cmocka_unit_test(wants_the_signature_that_the_plan_requires),
		cmocka_unit_test(a_real_registry_gives_the_same_digests),
		cmocka_unit_test(tls_is_checked_and_found_on_loopback),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
