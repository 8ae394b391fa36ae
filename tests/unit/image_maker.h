/* SPDX-License-Identifier: Apache-2.0 */
/* Small images for tests, as objects by digest, and ways to publish them: routes of a fake registry, a layout
 * folder, a tar. */
#ifndef TESTS_IMAGE_MAKER_H
#define TESTS_IMAGE_MAKER_H

#include "base/fs.h"
#include "base/hash.h"
#include "fake_registry.h"
#include "pin/oci.h"

#include <archive.h>
#include <archive_entry.h>

struct made_blob {
	char *bytes;
	size_t len;
	char digest[OCI_DIGEST_BYTES];
};

struct made_image {
	struct made_blob config, layers[2], manifest;
};

static inline void blob_take(struct made_blob *b, char *text)
{
	assert(text);
	b->bytes = text;
	b->len = strlen(text);
	oci_digest_of(b->digest, text, b->len, NULL);
}

static inline void made_done(struct made_image *m)
{
	free(m->config.bytes);
	free(m->layers[0].bytes);
	free(m->layers[1].bytes);
	free(m->manifest.bytes);
}

static inline void make_manifest(struct made_image *m, const char *config_type)
{
	free(m->manifest.bytes);
	blob_take(&m->manifest,
	          str_fmt("{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_MANIFEST
	                  "\",\"config\":{\"mediaType\":\"%s\","
	                  "\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":"
	                  "\"application/"
	                  "vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\",\"size\":%zu},{\"mediaType\":"
	                  "\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\",\"size\":%zu}]}",
	                  config_type, m->config.digest, m->config.len, m->layers[0].digest, m->layers[0].len,
	                  m->layers[1].digest, m->layers[1].len));
}

/* `variant` may be NULL. Two layers of plain bytes; their digests are their diff_ids. */
static inline void make_image(struct made_image *m, const char *arch, const char *variant, const char *salt)
{
	*m = (struct made_image){ 0 };
	blob_take(&m->layers[0], str_fmt("layer 0 %s %s", arch, salt));
	blob_take(&m->layers[1], str_fmt("layer 1 %s %s", arch, salt));
	blob_take(&m->config, str_fmt("{\"created\":\"2026-11-30T20:02:57.642077491Z\",\"architecture\":\"%"
	                              "s\",\"os\":\"linux\"%s%s%s,"
	                              "\"config\":{\"Labels\":{\"org.opencontainers.image.revision\":\"%s\"}}"
	                              ",\"rootfs\":{\"type\":"
	                              "\"layers\",\"diff_ids\":[\"%s\",\"%s\"]}}",
	                              arch, variant ? ",\"variant\":\"" : "", variant ? variant : "",
	                              variant ? "\"" : "", salt, m->layers[0].digest, m->layers[1].digest));
	make_manifest(m, OCI_TYPE_CONFIG);
}

/* One entry of an index. */
static inline char *made_entry(const struct made_blob *b, const char *type, const char *platform)
{
	return str_fmt("{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu%s%s}", type, b->digest, b->len,
	               platform ? ",\"platform\":" : "", platform ? platform : "");
}
#define PLATFORM_AMD64 "{\"os\":\"linux\",\"architecture\":\"amd64\"}"
#define PLATFORM_ARM64 "{\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\"}"
#define PLATFORM_UNKNOWN "{\"os\":\"unknown\",\"architecture\":\"unknown\"}"

static inline void serve_blob(struct fake *f, const struct made_blob *b)
{
	auto_free char *path = str_fmt("/v2/x/blobs/%s", b->digest);
	fake_add(f, path, 200, NULL, b->bytes, b->len);
}

static inline void serve_doc(struct fake *f, const char *name, const struct made_blob *b, const char *type)
{
	auto_free char *path = str_fmt("/v2/x/manifests/%s", name ? name : b->digest);
	auto_free char *head = str_fmt("Content-Type: %s\r\n", type);
	fake_add(f, path, 200, head, b->bytes, b->len);
}

static inline void serve_image(struct fake *f, const struct made_image *m)
{
	serve_doc(f, NULL, &m->manifest, OCI_TYPE_MANIFEST);
	serve_blob(f, &m->config);
	serve_blob(f, &m->layers[0]);
	serve_blob(f, &m->layers[1]);
}

/* --- files -----------------------------------------------------------------------------------------------
 */

struct made_file {
	const char *path, *text; /* text NULL = a folder */
	size_t len;              /* 0 = strlen */
	const char *link;        /* a symbolic link there */
	bool hard;               /* a hard link */
	int type;                /* another file type, 0 = none */
};

static inline void write_tar(const char *path, const struct made_file *files, size_t n, bool gzip)
{
	struct archive *a = archive_write_new();
	archive_write_set_format_pax_restricted(a);
	if (gzip)
		archive_write_add_filter_gzip(a);
	assert(archive_write_open_filename(a, path) == ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		const struct made_file *f = &files[i];
		struct archive_entry *e = archive_entry_new();
		size_t len = f->text ? f->len ? f->len : strlen(f->text) : 0;
		archive_entry_set_pathname(e, f->path);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_filetype(e, f->type               ? (unsigned)f->type
		                              : f->link && !f->hard ? AE_IFLNK
		                              : f->text || f->link  ? AE_IFREG
		                                                    : AE_IFDIR);
		if (f->link && f->hard)
			archive_entry_set_hardlink(e, f->link);
		else if (f->link)
			archive_entry_set_symlink(e, f->link);
		archive_entry_set_size(e, f->link ? 0 : (la_int64_t)len);
		assert(archive_write_header(a, e) >= ARCHIVE_WARN);
		if (len && !f->link)
			assert(archive_write_data(a, f->text, len) == (la_ssize_t)len);
		archive_entry_free(e);
	}
	assert(archive_write_close(a) == ARCHIVE_OK);
	archive_write_free(a);
}

static inline void write_folder(const char *folder, const struct made_file *files, size_t n)
{
	struct err err;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = fs_join(folder, files[i].path);
		auto_free char *dir = fs_dirname(path);
		assert(fs_mkdir_p(dir, &err) == 0);
		if (files[i].link)
			assert(symlink(files[i].link, path) == 0);
		else if (files[i].text)
			assert(fs_write(path, files[i].text,
			                files[i].len ? files[i].len : strlen(files[i].text), &err) == 0);
	}
}

#endif
