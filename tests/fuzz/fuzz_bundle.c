/* SPDX-License-Identifier: Apache-2.0 */
/* Everything of the store that reads bytes from outside: envelopes, statements, manifests, foreign archives,
 * bundles. An input "MANIFEST NUL REST" is also signed and opened as a bundle with REST as its members, so
 * that what lies behind the signature is reached too. */
#include "../tamper/repack.h"
#include "fuzz.h"
#include "store/archive_check.h"
#include "store/pack.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

static const struct sign_key *the_key(void)
{
	static struct sign_key *key;
	static char path[] = "/tmp/fuzz_bundle.XXXXXX";
	struct err err;
	if (key)
		return key;
	int rc = mkdtemp(path) ? 0 : -1;
	auto_free char *file = str_fmt("%s/key", path);
	auto_free char *pub = str_fmt("%s/key.pub", path);
	rc = rc || key_new(file, NULL, true, &err) || key_load_private(&key, file, NULL, &err);
	unlink(file);
	unlink(pub);
	rmdir(path);
	assert(rc == 0);
	return key;
}

static void must_be_told(int rc, const struct err *err)
{
	assert(rc == 0 || (err->cls != ERR_NONE && err->cls != ERR_BUG && err->msg[0]));
}

static void open_bytes(const void *data, size_t len)
{
	struct bundle *b = NULL;
	struct bundle_proof proof = { 0 };
	struct err err = { 0 };
	const struct sign_key *key = the_key();
	int rc = bundle_open_bytes(&b, &proof, data, len, &key, 1, &err);
	must_be_told(rc, &err);
	assert((rc == 0) == (b != NULL));
	assert(rc || (proof.layout_verified && bundle_members(b)->n == proof.n_members));
	bundle_close(b);
}

static void read_archive(const uint8_t *data, size_t len)
{
	struct archive_list list = { 0 };
	struct err err = { 0 };
	int rc = archive_check(&list, data, len, &err);
	must_be_told(rc, &err);
	for (size_t i = 0; i < list.n; i++) {
		assert(list.files[i].path[0] && list.files[i].path[0] != '/');
		assert(list.files[i].offset <= len && list.files[i].size_bytes <= len - list.files[i].offset);
	}
	archive_list_done(&list);
}

static void read_envelope(const char *text, size_t len)
{
	const struct sign_key *key = the_key();
	for (int strict = 0; strict < 2; strict++) {
		auto_buf payload = BUF_INIT(1u << 20);
		struct err err = { 0 };
		size_t which;
		int rc = dsse_verify(&payload, &which, text, len, STATEMENT_PAYLOAD_TYPE, strict, &key, 1,
		                     &err);
		must_be_told(rc, &err);
		assert(rc != 0); /* nobody has the key */
	}
	struct cJSON *doc = NULL;
	struct err err = { 0 };
	char manifest[SHA256_HEX_BYTES], root[SHA256_HEX_BYTES];
	must_be_told(statement_read(&doc, manifest, root, text, len, &err), &err);
	cJSON_Delete(doc);
}

static void sign_and_open(const char *text, size_t len, const void *rest, size_t rest_len)
{
	struct manifest m = { 0 };
	struct err err = { 0 };
	auto_buf manifest = BUF_INIT(1u << 21);
	auto_buf envelope = BUF_INIT(1u << 21);
	auto_buf bundle = BUF_INIT(1u << 23);
	int rc = manifest_read(&m, text, len, &err);
	must_be_told(rc, &err);
	if (rc)
		return;
	buf_add(&manifest, text, len);
	sign_manifest(&envelope, &manifest, &m, the_key());
	put_piece(&bundle, "attestation.dsse.json", envelope.p, envelope.len);
	put_piece(&bundle, "manifest.json", manifest.p, manifest.len);
	if (rest_len)
		buf_add(&bundle, rest, rest_len);
	open_bytes(bundle.p, bundle.len);
	manifest_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	uint8_t *raw = NULL;
	const char *text = (const char *)data;
	read_archive(data, size);
	read_envelope(text, size);
	open_bytes(data, size);
	const char *nul = size ? memchr(text, '\0', size) : NULL;
	size_t len = nul ? (size_t)(nul - text) : size;
	sign_and_open(text, len, nul ? nul + 1 : NULL, nul ? size - len - 1 : 0);
	if (unpack_zst(&raw, data, size, size * 3, "fuzz", &err) == 0)
		free(raw);
	return 0;
}
