/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures by a key: what counts as good, and that nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cosign_sign.h"
#include "pin/cosign.h"

#define HEX "2a895a05a74fa9f9f1328ccb4eac4fa887efac0b188c3ca090818ebdbacfda77"
#define HEX2 "a381a25197fb57785699d39eae4e89ddd215d881be917b5706a8eed954f3b06a"
#define DIGEST "sha256:" HEX

static const char *const kinds[] = { "P-256", "ED25519" };

/* Made by openssl over a payload in cosign's form. */
static void takes_a_signature_that_openssl_made(void **state)
{
	static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
				  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpR84k1WKXxryEpeSmXUk542vAl/F\n"
				  "mEVBebH46112vxWRW8DUdo/bYwGAJSw0FHvPUh3tBu0sBvU1nBRT3Bw6vA==\n"
				  "-----END PUBLIC KEY-----\n";
	static const char payload[] =
		"{\"critical\":{\"identity\":{\"docker-reference\":\"127.0.0.1:5050/signed\"},"
		"\"image\":{\"docker-manifest-digest\":\"" DIGEST "\"},\"type\":\"cosign "
		"container image signature\"},\"optional\":null}";
	static const char sig[] =
		"MEUCIQD2jhb+eO7S59P4zMq1HXgf/Mw64L2sPwS0Ks7Wj/OLlAIgfqBts1/E8XZay4xwUdLrdooa64veYU9LG40/"
		"d3VfSXo=";
	struct cosign_key *k;
	struct err err;
	(void)state;
	assert_int_equal(cosign_key_parse(&k, pem, strlen(pem), "x", &err), 0);
	assert_null(cosign_payload_fault(k, sig, payload, strlen(payload), DIGEST));
	assert_non_null(cosign_payload_fault(k, sig, payload, strlen(payload), "sha256:" HEX2));
	cosign_key_free(k);
}

static void takes_only_its_own_payloads(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct test_key mine, other;
		struct cosign_key *k;
		struct err err;
		test_key_make(&mine, kinds[i]);
		test_key_make(&other, kinds[i]);
		assert_int_equal(cosign_key_parse(&k, mine.pem, strlen(mine.pem), "x", &err), 0);
		auto_free char *payload = cosign_payload(DIGEST, COSIGN_IMAGE_TYPE);
		auto_free char *wrong_type = cosign_payload(DIGEST, "atomic container signature");
		auto_free char *sig = test_key_sign(&mine, payload, strlen(payload));
		auto_free char *foreign = test_key_sign(&other, payload, strlen(payload));
		auto_free char *sig_type = test_key_sign(&mine, wrong_type, strlen(wrong_type));
		auto_free char *sig_text = test_key_sign(&mine, "hello", 5);
		assert_null(cosign_payload_fault(k, sig, payload, strlen(payload), DIGEST));
		assert_non_null(cosign_payload_fault(k, foreign, payload, strlen(payload), DIGEST));
		assert_non_null(cosign_payload_fault(k, sig, payload, strlen(payload) - 1, DIGEST));
		assert_non_null(cosign_payload_fault(k, sig, payload, strlen(payload), "sha256:" HEX2));
		assert_non_null(cosign_payload_fault(k, sig_type, wrong_type, strlen(wrong_type), DIGEST));
		assert_non_null(cosign_payload_fault(k, sig_text, "hello", 5, DIGEST));
		assert_non_null(cosign_payload_fault(k, "", payload, strlen(payload), DIGEST));
		assert_non_null(cosign_payload_fault(k, "!!!", payload, strlen(payload), DIGEST));
		for (size_t at = 0; at < strlen(payload); at += 7) {
			payload[at] ^= 1;
			assert_non_null(cosign_payload_fault(k, sig, payload, strlen(payload), DIGEST));
			payload[at] ^= 1;
		}
		cosign_key_free(k);
		test_key_done(&mine);
		test_key_done(&other);
	}
}

static void takes_bundles_with_one_signature_over_the_digest(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct test_key mine, other;
		struct cosign_key *k;
		struct err err;
		test_key_make(&mine, kinds[i]);
		test_key_make(&other, kinds[i]);
		assert_int_equal(cosign_key_parse(&k, mine.pem, strlen(mine.pem), "x", &err), 0);
		auto_free char *good = cosign_bundle(&mine, HEX, COSIGN_PREDICATE, 1);
		auto_free char *foreign = cosign_bundle(&other, HEX, COSIGN_PREDICATE, 1);
		auto_free char *two = cosign_bundle(&mine, HEX, COSIGN_PREDICATE, 2);
		auto_free char *provenance = cosign_bundle(&mine, HEX, "https://slsa.dev/provenance/v1", 1);
		assert_null(cosign_bundle_fault(k, good, strlen(good), DIGEST));
		assert_non_null(cosign_bundle_fault(k, good, strlen(good), "sha256:" HEX2));
		assert_non_null(cosign_bundle_fault(k, foreign, strlen(foreign), DIGEST));
		assert_non_null(cosign_bundle_fault(k, two, strlen(two), DIGEST));
		assert_non_null(cosign_bundle_fault(k, provenance, strlen(provenance), DIGEST));
		assert_non_null(cosign_bundle_fault(k, "{}", 2, DIGEST));
		cosign_key_free(k);
		test_key_done(&mine);
		test_key_done(&other);
	}
}

static void refuses_other_keys(void **state)
{
	static const char *const others[] = { "P-384", "RSA" };
	struct cosign_key *k;
	struct err err;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct test_key key;
		test_key_make(&key, others[i]);
		assert_int_equal(cosign_key_parse(&k, key.pem, strlen(key.pem), "x", &err), -1);
		assert_int_equal(err.cls, ERR_PLAN);
		test_key_done(&key);
	}
	assert_int_equal(cosign_key_parse(&k, "nonsense", 8, "x", &err), -1);
	assert_int_equal(cosign_key_load(&k, "/nonexistent/key.pub", &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
}

static void tags_are_made_of_the_digest(void **state)
{
	char tag[OCI_DIGEST_BYTES + 8];
	(void)state;
	cosign_tag(tag, DIGEST);
	assert_string_equal(tag, "sha256-" HEX ".sig");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_a_signature_that_openssl_made),
		cmocka_unit_test(takes_only_its_own_payloads),
		cmocka_unit_test(takes_bundles_with_one_signature_over_the_digest),
		cmocka_unit_test(refuses_other_keys),
		cmocka_unit_test(tags_are_made_of_the_digest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
