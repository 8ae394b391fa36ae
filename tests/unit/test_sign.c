/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/pubkey.h"
#include "store/sign.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TYPE "http://example.com/HelloWorld"
#define BODY "hello world"
#define KEYS "fixtures/keys/"
#define VECTOR_SIG "4DHX3Zn4qpBKvEj7maE8O9u9bjXEnPLLnyXVUJ2PXJR8DSLcL3QDpFvfJOj3pB/SPHsl6Jg4boxsMb6KvuYABw=="
#define VECTOR_KEYID "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9"
#define OWN                                                                                                  \
	"{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE                                          \
	"\",\"signatures\":[{\"keyid\":\"" VECTOR_KEYID "\",\"sig\":\"" VECTOR_SIG "\"}]}\n"

static struct sign_key *private_key(const char *path)
{
	struct sign_key *k = NULL;
	struct err err = { 0 };
	if (key_load_private(&k, path, NULL, &err))
		fail_msg("%s", err.msg);
	return k;
}

static struct sign_key *public_key(const char *path)
{
	struct sign_key *k = NULL;
	struct err err = { 0 };
	if (key_load_public(&k, path, &err))
		fail_msg("%s", err.msg);
	return k;
}

static void pae_is_that_of_the_specification(void **state)
{
	auto_buf pae = BUF_INIT(1000);
	char hex[SHA256_HEX_BYTES];
	assert_int_equal(dsse_pae(&pae, TYPE, BODY, strlen(BODY)), 0);
	assert_string_equal(pae.p, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
	sha256_hex_of(pae.p, pae.len, hex);
	assert_string_equal(hex, "217751fac2c4f14edb2c9297fbc34abcb016ba88e74757e875ec4ac16fb6b6a1");
}

static void signs_as_the_published_vector(void **state)
{
	auto_buf out = BUF_INIT(10000);
	struct err err;
	struct sign_key *k = private_key(KEYS "rfc8032-1-test-only.key");
	assert_string_equal(key_id(k), VECTOR_KEYID);
	assert_int_equal(dsse_sign(&out, TYPE, BODY, strlen(BODY), k, &err), 0);
	assert_string_equal(out.p, OWN);
	key_free(k);
}

/* --- strict and lenient ----------------------------------------------------------------------------------
 */

static int verify_with(const char *key, const char *text, size_t len, bool strict, struct buf *payload,
                       struct err *err)
{
	struct sign_key *k = public_key(key);
	size_t which = 99;
	const struct sign_key *keys[] = { k };
	int rc = dsse_verify(payload, &which, text, len, TYPE, strict, keys, 1, err);
	if (rc == 0)
		assert_int_equal(which, 0);
	key_free(k);
	return rc;
}

static int verify(const char *text, bool strict, struct err *err)
{
	auto_buf payload = BUF_INIT(10000);
	int rc = verify_with(KEYS "rfc8032-1-test-only.key.pub", text, strlen(text), strict, &payload, err);
	if (rc == 0)
		assert_string_equal(payload.p, BODY);
	else
		assert_int_equal(payload.len, 0);
	return rc;
}

#define SIGS(list)                                                                                           \
	"{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE "\",\"signatures\":[" list "]}\n"
#define GOOD_SIG "{\"keyid\":\"" VECTOR_KEYID "\",\"sig\":\"" VECTOR_SIG "\"}"
#define ZERO_SIG                                                                                             \
	"{\"sig\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" \
	"=\"}"

static const struct {
	const char *rule, *text;
	bool strict_ok, lenient_ok;
} envelopes[] = {
	{ "our own form", OWN, true, true },
	{ "no newline at the end",
	  "{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE "\",\"signatures\":[" GOOD_SIG "]}",
	  false, true },
	{ "a blank more", " " OWN, false, true },
	{ "an unknown member",
	  "{\"x\":1,\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE "\",\"signatures\":[" GOOD_SIG
	  "]}\n",
	  false, true },
	{ "base64 for URLs",
	  "{\"payload\":\"aGVsbG8gd29ybGQ\",\"payloadType\":\"" TYPE
	  "\",\"signatures\":[{\"keyid\":\"" VECTOR_KEYID
	  "\",\"sig\":\"4DHX3Zn4qpBKvEj7maE8O9u9bjXEnPLLnyXVUJ2PXJR8DSLcL3QDpFvfJOj3pB_"
	  "SPHsl6Jg4boxsMb6KvuYABw==\"}]}\n",
	  false, true },
	{ "an escape in the payload",
	  "{\"payload\":\"\\u0061GVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE "\",\"signatures\":[" GOOD_SIG
	  "]}\n",
	  false, true },
	{ "no keyid", SIGS("{\"sig\":\"" VECTOR_SIG "\"}"), false, true },
	{ "another keyid, only a hint", SIGS("{\"keyid\":\"me\",\"sig\":\"" VECTOR_SIG "\"}"), false, true },
	{ "a foreign signature beside ours", SIGS(ZERO_SIG "," GOOD_SIG), false, true },
	{ "our signature twice", SIGS(GOOD_SIG "," GOOD_SIG), false, true },
	{ "only a foreign signature", SIGS(ZERO_SIG), false, false },
	{ "no signature", SIGS(""), false, false },
	{ "a signature that is no base64", SIGS("{\"sig\":\"%%%\"}"), false, false },
	{ "a signature without sig", SIGS("{\"keyid\":\"" VECTOR_KEYID "\"}"), false, false },
	{ "another payload",
	  "{\"payload\":\"aGVsbG8gd29ybGE=\",\"payloadType\":\"" TYPE "\",\"signatures\":[" GOOD_SIG "]}\n",
	  false, false },
	{ "another type",
	  "{\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"text/plain\",\"signatures\":[" GOOD_SIG "]}\n",
	  false, false },
	{ "payload twice",
	  "{\"payload\":\"aGVsbG8gd29ybGE=\",\"payload\":\"aGVsbG8gd29ybGQ=\",\"payloadType\":\"" TYPE
	  "\",\"signatures\":[" GOOD_SIG "]}\n",
	  false, false },
	{ "no JSON", "hello", false, false },
	{ "an array", "[]", false, false },
	{ "empty", "", false, false },
};

static void own_form_is_strict_and_foreign_is_lenient(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(envelopes); i++) {
		struct err err = { 0 };
		bool strict = verify(envelopes[i].text, true, &err) == 0;
		if (!strict && err.cls != ERR_NOT_GENUINE)
			fail_msg("%s: class %d", envelopes[i].rule, err.cls);
		bool lenient = verify(envelopes[i].text, false, &err) == 0;
		if (strict != envelopes[i].strict_ok || lenient != envelopes[i].lenient_ok)
			fail_msg("%s: strict %d lenient %d (%s)", envelopes[i].rule, strict, lenient,
			         err.msg);
	}
}

static void every_flipped_bit_of_our_form_is_refused(void **state)
{
	char text[] = OWN;
	for (size_t bit = 0; bit < (sizeof(text) - 1) * 8; bit++) {
		auto_buf payload = BUF_INIT(10000);
		struct err err;
		text[bit / 8] ^= (char)(1 << bit % 8);
		if (verify_with(KEYS "rfc8032-1-test-only.key.pub", text, sizeof(text) - 1, true, &payload,
		                &err) == 0)
			fail_msg("bit %zu", bit);
		text[bit / 8] ^= (char)(1 << bit % 8);
	}
}

static void another_key_does_not_verify(void **state)
{
	auto_buf payload = BUF_INIT(10000);
	struct err err;
	assert_int_equal(verify_with(KEYS "other-test-only.key.pub", OWN, strlen(OWN), true, &payload, &err),
	                 -1);
	assert_int_equal(err.cls, ERR_NOT_GENUINE);
	assert_non_null(strstr(err.msg, "signed by another"));
}

static void verifies_p256_of_another_program(void **state)
{
	auto_buf text = BUF_INIT(10000);
	auto_buf payload = BUF_INIT(10000);
	struct err err = { 0 };
	assert_int_equal(fs_read(&text, KEYS "p256-test-only.dsse.json", 9999, &err), 0);
	if (verify_with(KEYS "p256-test-only.key.pub", text.p, text.len, false, &payload, &err))
		fail_msg("%s", err.msg);
	assert_string_equal(payload.p, BODY);
	text.p[text.len / 2] ^= 1;
	assert_int_equal(verify_with(KEYS "p256-test-only.key.pub", text.p, text.len, false, &payload, &err),
	                 -1);
}

/* --- key files -------------------------------------------------------------------------------------------
 */

static char folder[] = "/tmp/test_sign.XXXXXX";

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
	static const char *const names[] = {
		"a.key", "a.key.pub", "b.key", "b.key.pub", "c.key", "c.key.pub"
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = fs_join(folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void new_key_signs_and_is_never_overwritten(void **state)
{
	auto_free char *path = fs_join(folder, "a.key");
	auto_free char *pub = fs_join(folder, "a.key.pub");
	struct err err = { 0 };
	struct stat st;
	assert_int_equal(key_new(path, NULL, false, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	struct sign_key *k = private_key(path), *p = public_key(pub);
	assert_string_equal(key_id(k), key_id(p));
	assert_false(key_is_test(k));
	assert_int_equal(key_new(path, NULL, false, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	auto_buf out = BUF_INIT(1000);
	assert_int_equal(dsse_sign(&out, TYPE, BODY, strlen(BODY), p, &err), -1);
	key_free(k);
	key_free(p);
}

static void passphrase_is_wanted_and_must_be_right(void **state)
{
	auto_free char *path = fs_join(folder, "b.key");
	struct sign_key *k = NULL;
	struct err err = { 0 };
	assert_int_equal(key_new(path, "", false, &err), -1);
	assert_int_equal(key_new(path, "correct horse", false, &err), 0);
	assert_int_equal(key_load_private(&k, path, NULL, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	assert_non_null(strstr(err.msg, "--passphrase-file"));
	assert_int_equal(key_load_private(&k, path, "battery", &err), -1);
	assert_null(strstr(err.msg, "battery"));
	assert_null(k);
	assert_int_equal(key_load_private(&k, path, "correct horse", &err), 0);
	key_free(k);
}

static void test_keys_are_known_by_mark_and_by_keyid(void **state)
{
	auto_free char *path = fs_join(folder, "c.key");
	auto_free char *pub = fs_join(folder, "c.key.pub");
	struct err err = { 0 };
	assert_int_equal(key_new(path, NULL, true, &err), 0);
	struct sign_key *k = private_key(path), *p = public_key(pub);
	struct sign_key *known = public_key(KEYS "rfc8032-1-test-only.key.pub");
	assert_true(key_is_test(k));
	assert_true(key_is_test(p));
	assert_true(key_is_test(known));
	key_free(k);
	key_free(p);
	key_free(known);
}

static const struct {
	const char *rule, *path, *says;
	bool is_private;
} bad_keys[] = {
	{ "a private key is no public key", KEYS "rfc8032-1-test-only.key", ".pub", false },
	{ "a public key is no private key", KEYS "rfc8032-1-test-only.key.pub", "public key", true },
	{ "RSA is not taken", KEYS "rsa-test-only.key.pub", "Ed25519", false },
	{ "another curve is not taken", KEYS "p384-test-only.key.pub", "Ed25519", false },
	{ "no PEM", KEYS "README.md", "no public key", false },
	{ "no file", KEYS "none", "cannot open", false },
};

static void refuses_other_keys_and_says_what_to_give(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_keys); i++) {
		struct sign_key *k = NULL;
		struct err err = { 0 };
		int rc = bad_keys[i].is_private ? key_load_private(&k, bad_keys[i].path, NULL, &err)
		                                : key_load_public(&k, bad_keys[i].path, &err);
		if (rc == 0 || k || !strstr(err.msg, bad_keys[i].says))
			fail_msg("%s: %s", bad_keys[i].rule, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pae_is_that_of_the_specification),
		cmocka_unit_test(signs_as_the_published_vector),
		cmocka_unit_test(own_form_is_strict_and_foreign_is_lenient),
		cmocka_unit_test(every_flipped_bit_of_our_form_is_refused),
		cmocka_unit_test(another_key_does_not_verify),
		cmocka_unit_test(verifies_p256_of_another_program),
		cmocka_unit_test(new_key_signs_and_is_never_overwritten),
		cmocka_unit_test(passphrase_is_wanted_and_must_be_right),
		cmocka_unit_test(test_keys_are_known_by_mark_and_by_keyid),
		cmocka_unit_test(refuses_other_keys_and_says_what_to_give),
	};
	return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
