/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fs.h"
#include "base/hash.h"
#include "pin/model_sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cmocka.h>

static char dir[64];

static char *in_dir(const char *name)
{
	char *path = fs_join(dir, name);
	assert_non_null(path);
	return path;
}

static void put(const char *name, const char *text)
{
	struct err err = { 0 };
	auto_free char *path = in_dir(name);
	auto_free char *parent = fs_dirname(path);
	if (fs_mkdir_p(parent, &err) || fs_write(path, text, strlen(text), &err))
		fail_msg("%s", err.msg);
}

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/proofmark-sig-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct model_identity identity(const char *name)
{
	struct model_identity id;
	struct err err = { 0 };
	auto_free char *path = in_dir(name);
	if (model_identity(&id, path, false, NULL, &err))
		fail_msg("%s", err.msg);
	return id;
}

/* --- identity ------------------------------------------------------------------------------------------ */

static void the_root_is_the_hash_of_the_hashes_in_order_of_names(void **state)
{
	uint8_t raw[3 * SHA256_BYTES];
	char want[65];
	put("order/b.txt", "bb");
	put("order/a/z.txt", "z");
	put("order/a.txt", "a"); /* before "a/z.txt": '.' is below '/' */
	put("order/model.sig", "left out");
	put("order/.git/HEAD", "left out");
	put("order/.gitattributes", "left out");
	put("order/.cache/x", "left out");
	struct model_identity id = identity("order");
	assert_int_equal(id.n, 3);
	assert_string_equal(id.list[0].name, "a.txt");
	assert_string_equal(id.list[1].name, "a/z.txt");
	assert_string_equal(id.list[2].name, "b.txt");
	sha256_of("a", 1, raw);
	sha256_of("z", 1, raw + 32);
	sha256_of("bb", 2, raw + 64);
	sha256_hex_of(raw, sizeof(raw), want);
	assert_string_equal(id.root_sha256, want);
	assert_int_equal(id.bytes, 4);
	assert_false(id.has_links);
	model_identity_done(&id);
}

static void any_change_changes_the_root(void **state)
{
	put("change/w", "12345");
	put("change/sub/.git/x", "only the one at the top is left out");
	struct model_identity a = identity("change");
	assert_int_equal(a.n, 2);
	put("change/w", "12346");
	struct model_identity b = identity("change");
	assert_string_not_equal(a.root_sha256, b.root_sha256);
	model_identity_done(&a);
	model_identity_done(&b);
}

static void a_blob_with_a_false_name_is_told(void **state)
{
	char good[65], path[256];
	sha256_hex_of("abc", 3, good);
	put("hub/blobs/x", "abc");
	for (int i = 0; i < 2; i++) {
		auto_free char *from = in_dir("hub/blobs/x");
		snprintf(path, sizeof(path), "%s/hub/blobs/%s", dir, good);
		assert_int_equal(link(from, path), 0);
		snprintf(path, sizeof(path), "../blobs/%s", good);
		auto_free char *snapshot = str_fmt("%s/hub/s%d", dir, i);
		auto_free char *to = str_fmt("%s/w", snapshot);
		struct err err = { 0 };
		assert_int_equal(fs_mkdir_p(snapshot, &err), 0);
		assert_int_equal(symlink(path, to), 0);
		auto_free char *name = str_fmt("hub/s%d", i);
		struct model_identity id = identity(name);
		assert_true(id.has_links);
		assert_int_equal(id.n_wrong_blobs, i);
		model_identity_done(&id);
		good[0] = good[0] == '0' ? '1' : '0'; /* the second blob lies */
	}
}

static void refuses_what_it_cannot_hash(void **state)
{
	struct model_identity id = { .n = 5 };
	struct err err = { 0 };
	auto_free char *empty = in_dir("nothing");
	auto_free char *dangling = in_dir("dangling/x");
	auto_free char *folder = in_dir("dangling");
	assert_int_equal(fs_mkdir_p(empty, &err), 0);
	assert_int_equal(model_identity(&id, empty, false, NULL, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_int_equal(fs_mkdir_p(folder, &err), 0);
	assert_int_equal(symlink("/nowhere/at/all", dangling), 0);
	assert_int_equal(model_identity(&id, folder, false, NULL, &err), -1);
	assert_non_null(strstr(err.msg, "leads nowhere"));
	assert_int_equal(unlink(dangling), 0);
	assert_int_equal(symlink("/dev", dangling), 0);
	assert_int_equal(model_identity(&id, folder, false, NULL, &err), -1);
	assert_int_equal(id.n, 5);
}

/* --- signatures ---------------------------------------------------------------------------------------- */

static EVP_PKEY *new_key(const char *kind)
{
	EVP_PKEY *k =
		strcmp(kind, "ED25519") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") : EVP_EC_gen(kind);
	assert_non_null(k);
	return k;
}

static void put_key(EVP_PKEY *k, const char *name)
{
	auto_free char *path = in_dir(name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(PEM_write_PUBKEY(f, k), 1);
	fclose(f);
}

static char *sign(EVP_PKEY *k, const char *type, const char *payload)
{
	uint8_t sig[512];
	size_t len = sizeof(sig);
	int bits = EVP_PKEY_get_bits(k);
	const EVP_MD *md = EVP_PKEY_is_a(k, "ED25519") ? NULL
	                   : bits > 384                ? EVP_sha512()
	                   : bits > 256                ? EVP_sha384()
	                                               : EVP_sha256();
	auto_free char *pae = str_fmt("DSSEv1 %zu %s %zu %s", strlen(type), type, strlen(payload), payload);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	assert_int_equal(EVP_DigestSignInit(c, NULL, md, NULL, k), 1);
	assert_int_equal(EVP_DigestSign(c, sig, &len, (uint8_t *)pae, strlen(pae)), 1);
	EVP_MD_CTX_free(c);
	return base64_encode(sig, len);
}

static char *statement(const struct model_identity *id, const char *extra_resource, const char *ignore)
{
	auto_buf b = BUF_INIT(1 << 16);
	buf_addf(&b,
	         "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"m\",\"digest\":"
	         "{\"sha256\":\"%s\"}}],\"predicateType\":\"https://model_signing/signature/v1.0\","
	         "\"predicate\":{\"serialization\":{\"method\":\"files\",\"hash_type\":\"sha256\","
	         "\"allow_symlinks\":false,\"ignore_paths\":[%s]},\"resources\":[",
	         id->root_sha256, ignore);
	for (size_t i = 0; i < id->n; i++)
		buf_addf(&b, "%s{\"name\":\"%s\",\"algorithm\":\"sha256\",\"digest\":\"%s\"}", i ? "," : "",
		         id->list[i].name, id->list[i].sha256);
	buf_addf(&b, "%s]}}", extra_resource);
	return buf_steal(&b);
}

static void put_bundle(const char *name, EVP_PKEY *k, const char *payload, const char *material)
{
	static const char type[] = "application/vnd.in-toto+json";
	auto_free char *sig = sign(k, type, payload);
	auto_free char *body = base64_encode(payload, strlen(payload));
	auto_free char *text = str_fmt("{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\","
	                               "\"verificationMaterial\":{%s},\"dsseEnvelope\":{\"payload\":\"%s\","
	                               "\"payloadType\":\"%s\",\"signatures\":[{\"sig\":\"%s\"}]}}",
	                               material, body, type, sig);
	put(name, text);
}

static struct model_sig check(const struct model_identity *id, const char *sig, const char *key)
{
	struct model_sig s;
	struct err err = { 0 };
	auto_free char *sig_path = in_dir(sig);
	auto_free char *key_path = key ? in_dir(key) : NULL;
	if (model_sig_check(&s, id, sig_path, key_path, &err))
		fail_msg("%s", err.msg);
	return s;
}

static const char by_key[] = "\"publicKey\":{\"hint\":\"x\"}";

static void a_signature_by_the_given_key_is_good(void **state)
{
	static const char *const kinds[] = { "ED25519", "P-256", "P-384", "P-521" };
	put("signed/w", "weights");
	put("signed/config.json", "{}");
	struct model_identity id = identity("signed");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		EVP_PKEY *k = new_key(kinds[i]), *other = new_key(kinds[i]);
		auto_free char *text = statement(&id, "", "");
		put_key(k, "pub.pem");
		put_key(other, "other.pem");
		put_bundle("model.sig", k, text, by_key);
		struct model_sig s = check(&id, "model.sig", "pub.pem");
		if (s.state != MODEL_SIG_GOOD)
			fail_msg("%s: %s", kinds[i], s.text);
		assert_string_equal(s.signed_root, id.root_sha256);
		assert_true(sha256_hex_ok(s.key_sha256));
		s = check(&id, "model.sig", "other.pem");
		assert_int_equal(s.state, MODEL_SIG_BAD);
		assert_string_equal(s.signed_root, ""); /* nothing unverified comes out */
		s = check(&id, "model.sig", NULL);
		assert_int_equal(s.state, MODEL_SIG_NOT_CHECKED);
		EVP_PKEY_free(k);
		EVP_PKEY_free(other);
	}
	struct model_sig s = check(&id, "no-such.sig", "pub.pem");
	assert_int_equal(s.state, MODEL_SIG_NONE);
	model_identity_done(&id);
}

static void a_certificate_is_said_to_be_not_verified(void **state)
{
	put("keyless/w", "weights");
	struct model_identity id = identity("keyless");
	EVP_PKEY *k = new_key("P-256");
	auto_free char *text = statement(&id, "", "");
	put_key(k, "pub.pem");
	put_bundle("model.sig", k, text, "\"certificate\":{\"rawBytes\":\"AAAA\"}");
	assert_int_equal(check(&id, "model.sig", "pub.pem").state, MODEL_SIG_KEYLESS);
	assert_int_equal(check(&id, "model.sig", NULL).state, MODEL_SIG_KEYLESS);
	EVP_PKEY_free(k);
	model_identity_done(&id);
}

static void files_have_to_be_those_that_were_signed(void **state)
{
	EVP_PKEY *k = new_key("ED25519");
	put_key(k, "pub.pem");
	put("files/w", "weights");
	struct model_identity signed_id = identity("files");
	auto_free char *text = statement(&signed_id, "", "");
	auto_free char *ignoring = statement(&signed_id, "", "\"more\"");
	static const char gone[] = ",{\"name\":\"gone\",\"algorithm\":\"sha256\",\"digest\":"
				   "\"9a1b7f0c4d2e6f83b5c0a7d9e1f24c68aa02be5573d4c19e8f60b71325ad94ce\"}";
	auto_free char *with_gone = statement(&signed_id, gone, "");
	put_bundle("model.sig", k, with_gone, by_key);
	struct model_sig s = check(&signed_id, "model.sig", "pub.pem");
	assert_int_equal(s.state, MODEL_SIG_BAD);
	assert_non_null(strstr(s.text, "gone is signed, and is not there"));
	put_bundle("model.sig", k, text, by_key);
	put("files/more/x", "unsigned");
	struct model_identity id = identity("files");
	s = check(&id, "model.sig", "pub.pem");
	assert_int_equal(s.state, MODEL_SIG_BAD);
	assert_non_null(strstr(s.text, "more/x is there, and is not signed"));
	put_bundle("model.sig", k, ignoring, by_key);
	assert_int_equal(check(&id, "model.sig", "pub.pem").state, MODEL_SIG_GOOD);
	model_identity_done(&id);
	put("files/w", "weightz");
	id = identity("files");
	s = check(&id, "model.sig", "pub.pem");
	assert_int_equal(s.state, MODEL_SIG_BAD);
	assert_non_null(strstr(s.text, "w is not the file that was signed"));
	model_identity_done(&id);
	model_identity_done(&signed_id);
	EVP_PKEY_free(k);
}

/* Every byte of the bundle may be damaged: never good with other files, never a crash. */
static void a_damaged_bundle_is_never_good(void **state)
{
	EVP_PKEY *k = new_key("ED25519");
	struct err err = { 0 };
	put_key(k, "pub.pem");
	put("bits/w", "weights");
	struct model_identity id = identity("bits");
	auto_free char *text = statement(&id, "", "");
	auto_buf bundle = BUF_INIT(1 << 20);
	auto_free char *path = in_dir("model.sig");
	put_bundle("model.sig", k, text, by_key);
	assert_int_equal(fs_read(&bundle, path, 1 << 20, &err), 0);
	const char *payload = strstr(bundle.p, "\"payload\":\"");
	size_t from = (size_t)(payload - bundle.p) + 11;
	for (size_t i = from; bundle.p[i] != '"'; i += 7) {
		char was = bundle.p[i];
		bundle.p[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(fs_write(path, bundle.p, bundle.len, &err), 0);
		assert_int_equal(check(&id, "model.sig", "pub.pem").state, MODEL_SIG_BAD);
		bundle.p[i] = was;
	}
	static const char *const texts[] = { "", "{}", "[]", "{\"mediaType\":1}", "not json" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		put("model.sig", texts[i]);
		assert_int_equal(check(&id, "model.sig", "pub.pem").state, MODEL_SIG_BAD);
	}
	struct model_sig s;
	auto_free char *no_key = in_dir("bits/w");
	assert_int_equal(model_sig_check(&s, &id, path, no_key, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	model_identity_done(&id);
	EVP_PKEY_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_root_is_the_hash_of_the_hashes_in_order_of_names),
		cmocka_unit_test(any_change_changes_the_root),
		cmocka_unit_test(a_blob_with_a_false_name_is_told),
		cmocka_unit_test(refuses_what_it_cannot_hash),
		cmocka_unit_test(a_signature_by_the_given_key_is_good),
		cmocka_unit_test(a_certificate_is_said_to_be_not_verified),
		cmocka_unit_test(files_have_to_be_those_that_were_signed),
		cmocka_unit_test(a_damaged_bundle_is_never_good),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
