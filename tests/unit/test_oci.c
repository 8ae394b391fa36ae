/* SPDX-License-Identifier: Apache-2.0 */
/* Documents as bytes: digests, platforms, indexes, manifests, configurations, times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "pin/oci.h"

#include <string.h>

#define HEX "25b6651895ba233d0572b9605830fb1cbc1b33b2f1d64cd934da4b0c7c69bb94"
#define HEX2 "a381a25197fb57785699d39eae4e89ddd215d881be917b5706a8eed954f3b06a"
#define D "\"sha256:" HEX "\""
#define D2 "\"sha256:" HEX2 "\""
#define CONFIG "{\"mediaType\":\"" OCI_TYPE_CONFIG "\",\"digest\":" D ",\"size\":2}"
#define LAYER "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":" D ",\"size\":9}"
#define ENTRY(d, os, arch, more)                                                                             \
	"{\"mediaType\":\"" OCI_TYPE_MANIFEST "\",\"digest\":" d ",\"size\":7,\"platform\":{\"os\":\"" os    \
	"\",\"architecture\":\"" arch "\"" more "}}"
#define INDEX(entries) "{\"schemaVersion\":2,\"manifests\":[" entries "]}"

static void digests_have_one_form(void **state)
{
	static const char *const bad[] = {
		"",
		"sha256:",
		HEX,
		"sha256:" HEX "0",
		"SHA256:" HEX,
		"md5:00",
		"sha256:25B6651895BA233D0572B9605830FB1CBC1B33B2F1D64CD934DA4B0C7C69BB94",
		"sha512:" HEX,
		"sha256:zz",
		"sha256: " HEX
	};
	char d[OCI_DIGEST_BYTES];
	(void)state;
	assert_null(oci_digest_fault("sha256:" HEX));
	assert_null(oci_digest_fault("sha512:" HEX HEX2));
	assert_non_null(oci_digest_fault(NULL));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (!oci_digest_fault(bad[i]))
			fail_msg("'%s' was taken", bad[i]);
	oci_digest_of(d, "abc", 3, NULL);
	assert_string_equal(d, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	oci_digest_of(d, "abc", 3, "sha512:" HEX HEX2);
	assert_string_equal(d, "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
	                       "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
}

static void platforms_have_one_normal_form(void **state)
{
	static const struct {
		const char *text, *normal; /* NULL = refused */
	} t[] = { { "linux/amd64", "linux/amd64" },
		  { "linux/x86_64", "linux/amd64" },
		  { "Linux/AArch64", "linux/arm64" },
		  { "linux/arm64/v8", "linux/arm64" },
		  { "linux/arm", "linux/arm/v7" },
		  { "linux/arm/7", "linux/arm/v7" },
		  { "linux/armhf", "linux/arm/v7" },
		  { "linux/arm/v6", "linux/arm/v6" },
		  { "linux/amd64/v3", "linux/amd64/v3" },
		  { "linux/amd64/v1", "linux/amd64" },
		  { "linux", NULL },
		  { "", NULL },
		  { "linux/", NULL },
		  { "/amd64", NULL },
		  { "a/b/c/d", NULL },
		  { "linux/a b", NULL },
		  { "linux/amd64/", NULL },
		  { "linux/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct oci_platform p;
		struct err err;
		char text[OCI_PLATFORM_BYTES];
		int rc = oci_platform_parse(&p, t[i].text, &err);
		assert_int_equal(rc, t[i].normal ? 0 : -1);
		if (rc)
			continue;
		oci_platform_normal(&p);
		oci_platform_text(&p, text);
		assert_string_equal(text, t[i].normal);
	}
}

struct refusal {
	const char *text, *type, *says;
};

static void refuses_documents_with_two_readings_or_none(void **state)
{
	static const struct refusal t[] = {
		{ "{\"schemaVersion\":2,\"manifests\":[],\"layers\":[],\"config\":" CONFIG "}", NULL,
		  "CVE-2021-41190" },
		{ "{\"schemaVersion\":2,\"manifests\":[],\"config\":" CONFIG "}", OCI_TYPE_INDEX,
		  "CVE-2021-41190" },
		{ INDEX(""), OCI_TYPE_MANIFEST, "CVE-2021-41190" },
		{ "{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_INDEX "\",\"layers\":[],\"config\":" CONFIG
		  "}",
		  "application/json", "CVE-2021-41190" },
		{ "{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_MANIFEST
		  "\",\"layers\":[],\"config\":" CONFIG "}",
		  OCI_TYPE_DOCKER_MANIFEST, "CVE-2021-41190" },
		{ "{\"schemaVersion\":1,\"name\":\"x\",\"fsLayers\":[]}", NULL, "schema 1" },
		{ INDEX(""), "application/vnd.docker.distribution.manifest.v1+prettyjws", "schema 1" },
		{ "{\"schemaVersion\":2,\"fsLayers\":[]}", NULL, "schema 1" },
		{ "{\"schemaVersion\":2,\"manifests\":[],\"manifests\":[]}", NULL, "twice" },
		{ "{\"manifests\":[]}", NULL, "schemaVersion" },
		{ "{\"schemaVersion\":\"2\",\"manifests\":[]}", NULL, "schemaVersion" },
		{ "{\"schemaVersion\":2}", NULL, "no image document" },
		{ "[]", NULL, "no image document" },
		{ "", NULL, "" },
		{ "<html>", "text/html", "" },
		{ INDEX(""), "text/html", "no image" },
		{ "{\"schemaVersion\":2,\"manifests\":{}}", NULL, "array" },
		{ INDEX("5"), NULL, "descriptor" },
		{ INDEX("{\"digest\":\"sha256:00\",\"size\":1}"), NULL, "/manifests/0/digest" },
		{ INDEX("{\"digest\":" D ",\"size\":-1}"), NULL, "size" },
		{ INDEX("{\"digest\":" D ",\"size\":1.5}"), NULL, "size" },
		{ INDEX("{\"digest\":" D ",\"size\":1e300}"), NULL, "size" },
		{ INDEX("{\"digest\":" D "}"), NULL, "size" },
		{ INDEX("{\"digest\":5,\"size\":1}"), NULL, "digest" },
		{ INDEX(ENTRY(D, "lin\\u0000ux", "amd64", "")), NULL, "" },
		{ INDEX(ENTRY(D, "linux", "am d", "")), NULL, "plain word" },
		{ "{\"schemaVersion\":2,\"config\":" CONFIG "}", NULL, "layers" },
		{ "{\"schemaVersion\":2,\"layers\":[" LAYER "]}", NULL, "config" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct oci_doc d;
		struct err err;
		if (oci_doc_parse(&d, t[i].text, strlen(t[i].text), t[i].type, "x", &err) == 0)
			fail_msg("%zu was taken: %s", i, t[i].text);
		if (!strstr(err.msg, t[i].says))
			fail_msg("%zu: '%s' does not say '%s'", i, err.msg, t[i].says);
		assert_int_equal(err.cls, ERR_ENV);
	}
}

static void bounds_documents(void **state)
{
	struct oci_doc d;
	struct err err;
	auto_buf b = BUF_INIT(8u << 20);
	(void)state;
	buf_adds(&b, "{\"schemaVersion\":2,\"manifests\":[");
	for (int i = 0; i <= OCI_ENTRIES_MAX; i++)
		buf_addf(&b, "%s{\"digest\":" D ",\"size\":1}", i ? "," : "");
	buf_adds(&b, "]}");
	assert_int_equal(oci_doc_parse(&d, b.p, b.len, NULL, "x", &err), -1);
	assert_non_null(strstr(err.msg, "at most 1000"));
	while (b.len <= OCI_DOC_BYTES_MAX)
		buf_adds(&b, "          ");
	assert_int_equal(oci_doc_parse(&d, b.p, b.len, NULL, "x", &err), -1);
	assert_non_null(strstr(err.msg, "bytes, at most"));
}

static void takes_the_types_that_carry_nothing(void **state)
{
	static const char *const types[] = { NULL,
		                             "",
		                             "application/json; charset=utf-8",
		                             "text/plain",
		                             OCI_TYPE_INDEX "; charset=utf-8",
		                             "APPLICATION/vnd.oci.image.index.v1+JSON" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct oci_doc d;
		struct err err;
		if (oci_doc_parse(&d, INDEX(""), strlen(INDEX("")), types[i], "x", &err))
			fail_msg("%s: %s", types[i], err.msg);
		assert_int_equal(d.kind, OCI_INDEX);
		assert_string_equal(d.media_type, OCI_TYPE_INDEX);
		oci_doc_done(&d);
	}
}

#define ATTESTATION                                                                                          \
	"{\"mediaType\":\"" OCI_TYPE_MANIFEST "\",\"digest\":" D2 ",\"size\":5,\"annotations\":{"            \
	"\"vnd.docker.reference.type\":\"attestation-manifest\"},\"platform\":{\"os\":\"linux\","            \
	"\"architecture\":\"amd64\"}}"

static void picks_by_platform_and_never_an_attestation(void **state)
{
	static const struct {
		const char *entries, *want, *digest; /* NULL = none */
	} t[] = {
		{ ATTESTATION "," ENTRY(D, "linux", "amd64", ""), "linux/amd64", "sha256:" HEX },
		{ ATTESTATION, "linux/amd64", NULL },
		{ ENTRY(D2, "unknown", "unknown", "") "," ENTRY(D, "linux", "amd64", ""), "linux/amd64",
		  "sha256:" HEX },
		{ ENTRY(D2, "unknown", "unknown", ""), "unknown/unknown", NULL },
		{ ENTRY(D, "linux", "arm64", ",\"variant\":\"v8\""), "linux/arm64", "sha256:" HEX },
		{ ENTRY(D, "linux", "arm64", ""), "linux/arm64/v8", "sha256:" HEX },
		{ ENTRY(D, "linux", "arm", ",\"variant\":\"v6\""), "linux/arm/v7", NULL },
		{ ENTRY(D, "windows", "amd64", ""), "linux/amd64", NULL },
		{ ENTRY(D, "linux", "amd64", ",\"variant\":\"v3\""), "linux/amd64", NULL },
		{ ENTRY(D, "linux", "amd64", "") "," ENTRY(D, "linux", "amd64", ""), "linux/amd64",
		  "sha256:" HEX },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct oci_doc doc;
		struct oci_platform want;
		struct err err;
		const struct oci_desc *d;
		auto_free char *text = str_fmt("{\"schemaVersion\":2,\"manifests\":[%s]}", t[i].entries);
		assert_int_equal(oci_doc_parse(&doc, text, strlen(text), NULL, "x", &err), 0);
		assert_int_equal(oci_platform_parse(&want, t[i].want, &err), 0);
		assert_int_equal(oci_doc_pick(&d, &doc, &want, "x", &err), 0);
		if (!d != !t[i].digest)
			fail_msg("%zu: %s", i, d ? d->digest : "none");
		if (d)
			assert_string_equal(d->digest, t[i].digest);
		oci_doc_done(&doc);
	}
}

static void two_images_for_a_platform_are_not_chosen_from(void **state)
{
	static const char text[] = INDEX(ENTRY(D, "linux", "amd64", "") "," ENTRY(D2, "linux", "x86_64", ""));
	struct oci_doc doc;
	struct oci_platform want = { .os = "linux", .architecture = "amd64" };
	struct err err;
	const struct oci_desc *d;
	char list[40];
	(void)state;
	assert_int_equal(oci_doc_parse(&doc, text, strlen(text), NULL, "x", &err), 0);
	assert_int_equal(oci_doc_pick(&d, &doc, &want, "x", &err), -1);
	assert_true(strstr(err.msg, HEX) && strstr(err.msg, HEX2));
	oci_doc_platforms(&doc, list, sizeof(list));
	assert_string_equal(list, "linux/amd64, linux/x86_64");
	oci_doc_platforms(&doc, list, 24);
	assert_non_null(strstr(list, "\xe2\x80\xa6"));
	oci_doc_done(&doc);
}

static void times_come_out_in_utc(void **state)
{
	static const struct {
		const char *text, *utc; /* NULL = none */
	} t[] = { { "2026-11-30T20:02:57.642077491Z", "2026-11-30T20:02:57.642Z" },
		  { "2026-11-30T20:02:57Z", "2026-11-30T20:02:57.000Z" },
		  { "2026-11-30T20:02:57.5+02:00", "2026-11-30T18:02:57.500Z" },
		  { "2026-12-31T23:30:00-01:00", "2027-01-01T00:30:00.000Z" },
		  { "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z" },
		  { "0001-01-01T00:00:00Z", NULL },
		  { "1970-01-01T00:00:00+01:00", NULL },
		  { "2026-11-30T20:02:57", NULL },
		  { "2026-11-30T20:02:57+99:00", NULL },
		  { "2026-13-30T20:02:57Z", NULL },
		  { "yesterday", NULL },
		  { "", NULL },
		  { "2026-11-30T20:02:57.Z", NULL },
		  { "2026-11-30T20:02:57+2:00 ", NULL } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		char out[OCI_CREATED_BYTES] = "";
		if (oci_time_utc(t[i].text, out) != (t[i].utc ? 0 : -1))
			fail_msg("'%s' -> '%s'", t[i].text, out);
		assert_string_equal(out, t[i].utc ? t[i].utc : "");
	}
}

static void reads_configurations(void **state)
{
	static const char good[] =
		"{\"created\":\"2026-11-30T20:02:57Z\",\"architecture\":\"arm\",\"os\":\"linux\","
		"\"variant\":\"v7\",\"config\":{\"Labels\":{\"org.opencontainers.image.revision\":"
		"\"abc\",\"org.opencontainers.image.version\":\"1\\n2\"}},\"rootfs\":{\"type\":"
		"\"layers\",\"diff_ids\":[" D "," D2 "]}}";
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"os\":\"linux\"}",
		"{\"os\":\"linux\",\"architecture\":7}",
		"{\"os\":\"linux\",\"architecture\":\"a\",\"rootfs\":{\"diff_ids\":[\"x\"]}}",
		"{\"os\":\"linux\",\"os\":\"linux\",\"architecture\":\"amd64\"}"
	};
	struct oci_config c;
	struct err err;
	(void)state;
	assert_int_equal(oci_config_parse(&c, good, strlen(good), "x", &err), 0);
	assert_string_equal(c.created, "2026-11-30T20:02:57.000Z");
	assert_string_equal(c.revision, "abc");
	assert_string_equal(c.version, "");
	assert_true(c.n_diff_ids == 2 && strcmp(c.diff_ids[1], "sha256:" HEX2) == 0);
	assert_string_equal(c.platform.variant, "v7");
	oci_config_done(&c);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (oci_config_parse(&c, bad[i], strlen(bad[i]), "x", &err) == 0)
			fail_msg("%s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_have_one_form),
		cmocka_unit_test(platforms_have_one_normal_form),
		cmocka_unit_test(refuses_documents_with_two_readings_or_none),
		cmocka_unit_test(bounds_documents),
		cmocka_unit_test(takes_the_types_that_carry_nothing),
		cmocka_unit_test(picks_by_platform_and_never_an_attestation),
		cmocka_unit_test(two_images_for_a_platform_are_not_chosen_from),
		cmocka_unit_test(times_come_out_in_utc),
		cmocka_unit_test(reads_configurations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
