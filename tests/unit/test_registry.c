/* SPDX-License-Identifier: Apache-2.0 */
/* Names, challenges, waits, credentials; then the client against a registry of our own that lies, stalls,
 * redirects and breaks off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "fake_registry.h"
#include "pin/registry.h"
#include "pin/registry_creds.h"

#include <math.h>
#include <sys/stat.h>

#define HEX "25b6651895ba233d0572b9605830fb1cbc1b33b2f1d64cd934da4b0c7c69bb94"
#define DIGEST "sha256:" HEX

/* --- names -----------------------------------------------------------------------------------------------
 */

static void reads_names_as_docker_does(void **state)
{
	static const struct {
		const char *text, *full;
	} good[] = {
		{ "debian", "docker.io/library/debian:latest" },
		{ "debian:12", "docker.io/library/debian:12" },
		{ "vllm/vllm-openai:v0.9.1", "docker.io/vllm/vllm-openai:v0.9.1" },
		{ "index.docker.io/vllm/x", "docker.io/vllm/x:latest" },
		{ "docker.io/debian", "docker.io/library/debian:latest" },
		{ "ghcr.io/a/b__c/d--e:T_1.x-y", "ghcr.io/a/b__c/d--e:T_1.x-y" },
		{ "localhost/x", "localhost/x:latest" },
		{ "localhost:5000/x:y", "localhost:5000/x:y" },
		{ "127.0.0.1:5050/pilot@" DIGEST, "127.0.0.1:5050/pilot@" DIGEST },
		{ "[::1]:5000/x", "[::1]:5000/x:latest" },
		{ "reg.example/x:t@" DIGEST, "reg.example/x:t@" DIGEST },
		{ "HOST/x", "HOST/x:latest" },
		{ "x:65535", "docker.io/library/x:65535" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct registry_ref r;
		struct err err;
		char text[REF_TEXT_BYTES];
		if (registry_ref_parse(&r, good[i].text, &err))
			fail_msg("%s: %s", good[i].text, err.msg);
		registry_ref_text(&r, text);
		assert_string_equal(text, good[i].full);
	}
}

static void refuses_names_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",
		"/",
		"a//b",
		"A",
		"a/B",
		"-a",
		"a-",
		"a..b",
		"a___b",
		"a/",
		"/a",
		"a:",
		"a:b:c",
		"a:.b",
		"a@",
		"a@sha256:ab",
		"a@sha256:25B6651895BA233D0572B9605830FB1CBC1B33B2F1D64CD934DA4B0C7C69BB94",
		"a@md5:00",
		"https://reg.example/x",
		"docker://x",
		"user:pw@reg.example/x",
		"reg.example:0/x",
		"reg.example:65536/x",
		"reg.example:5x/x",
		"reg..example/x",
		"-reg.example/x",
		"[::1/x",
		"[zz]/x",
		"a b",
		"a\n",
		"a\x7f",
		"\xc3\xa4",
		"a/../b",
		"a/./b",
		HEX,
		"x@" DIGEST "@" DIGEST,
		"reg.example:5/",
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct registry_ref r;
		struct err err;
		if (registry_ref_parse(&r, bad[i], &err) == 0)
			fail_msg("'%s' was taken as %s/%s", bad[i], r.host, r.path);
		assert_int_equal(err.cls, ERR_PLAN);
		assert_null(strstr(err.msg, "pw@"));
	}
	char longer[700];
	struct registry_ref r;
	struct err err;
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(registry_ref_parse(&r, longer, &err), -1);
}

static void knows_loopback_by_the_whole_host(void **state)
{
	(void)state;
	assert_true(registry_host_is_loopback("127.0.0.1:5000") && registry_host_is_loopback("127.9.9.9") &&
	            registry_host_is_loopback("localhost:1") && registry_host_is_loopback("[::1]:5"));
	assert_false(registry_host_is_loopback("127.evil.example") ||
	             registry_host_is_loopback("127.0.0.1.x:5") ||
	             registry_host_is_loopback("localhost.example") || registry_host_is_loopback("[::1].x") ||
	             registry_host_is_loopback("10.0.0.1"));
}

/* --- headers ---------------------------------------------------------------------------------------------
 */

static void reads_challenges(void **state)
{
	static const struct {
		const char *header, *realm, *service, *scope;
		enum challenge_scheme scheme;
	} good[] = {
		{ "Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:o/r:pull,push\"",
		  "https://a/t", "s", "repository:o/r:pull,push", CHALLENGE_BEARER },
		{ "bEARER REALM = \"https://a/t?x=1,y=2\" ,\tservice = \"reg, one\"", "https://a/t?x=1,y=2",
		  "reg, one", NULL, CHALLENGE_BEARER },
		{ "Bearer realm=https://a/t,service=s", "https://a/t", "s", NULL, CHALLENGE_BEARER },
		{ "Basic realm=\"x, \\\"Bearer realm=y\\\"\", Bearer realm=\"https://a/t\"", "https://a/t",
		  NULL, NULL, CHALLENGE_BEARER },
		{ "Negotiate, Basic realm=\"r\"", "r", NULL, NULL, CHALLENGE_BASIC },
		{ "Negotiate YIIabc==, Bearer realm=\"https://a/t\"", "https://a/t", NULL, NULL,
		  CHALLENGE_BEARER },
		{ "Basic", "", NULL, NULL, CHALLENGE_BASIC },
		{ ", ,Basic realm=\"r\",,", "r", NULL, NULL, CHALLENGE_BASIC },
		{ "Bearer realm=\"https://a/t\",foo=\"bar\",error=\"invalid_token\"", "https://a/t", NULL,
		  NULL, CHALLENGE_BEARER },
	};
	static const char *const bad[] = { "",
		                           "Negotiate",
		                           "Bearer",
		                           "Bearer service=\"r\"",
		                           "Bearer realm=\"https://a",
		                           "Bearer realm=\"a\\",
		                           "realm=\"x\"",
		                           "Bearer realm=\"a\",realm=\"b\"",
		                           "=",
		                           "\"" };
	struct registry_challenge c;
	struct err err;
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (registry_challenge_parse(&c, good[i].header, &err))
			fail_msg("%s: %s", good[i].header, err.msg);
		assert_int_equal(c.scheme, good[i].scheme);
		assert_string_equal(c.realm, good[i].realm);
		assert_int_equal(c.has_service, good[i].service != NULL);
		assert_string_equal(c.service, good[i].service ? good[i].service : "");
		assert_string_equal(c.scope, good[i].scope ? good[i].scope : "");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (registry_challenge_parse(&c, bad[i], &err) == 0)
			fail_msg("'%s' was taken", bad[i]);
}

static void sends_no_password_to_a_realm_without_tls(void **state)
{
	static const struct {
		const char *realm, *host;
		bool tls, plain_allowed, ok;
	} t[] = {
		{ "https://auth/t", "reg", true, false, true },
		{ "http://auth/t", "reg", true, false, false },
		{ "http://127.0.0.1/t", "reg", true, true, false },
		{ "http://127.0.0.1:5/t", "127.0.0.1:6", false, false, true },
		{ "http://auth/t", "127.0.0.1:6", false, true, false },
		{ "http://reg:9/t", "reg:6", false, true, true },
		{ "http://reg:9/t", "reg:6", false, false, false },
		{ "https://u:p@auth/t", "reg", true, false, false },
		{ "ftp://auth/t", "reg", true, false, false },
		{ "nonsense", "reg", true, false, false },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if ((registry_realm_fault(t[i].realm, t[i].tls, t[i].host, t[i].plain_allowed) == NULL) !=
		    t[i].ok)
			fail_msg("%s", t[i].realm);
}

static void reads_how_long_to_wait(void **state)
{
	static const struct {
		const char *value;
		double want; /* below 0 = says nothing */
	} t[] = { { "30", 30 },
		  { " 120 ", 120 },
		  { "0", 0 },
		  { "99999999999999999999", 1e9 },
		  { "Fri, 02 Oct 2026 07:01:30 GMT", 90 },
		  { "Friday, 02-Oct-26 07:01:30 GMT", 90 },
		  { "Fri, 02 Oct 2026 06:00:00 GMT", 0 },
		  { "-5", -1 },
		  { "soon", -1 },
		  { "", -1 },
		  { "1.5", -1 },
		  { "30s", -1 },
		  { "Fri, 99 Oct 2026 99:99:99 GMT", -1 } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		double got = -1;
		bool said = registry_retry_after(&got, t[i].value, 1790924400); /* 2026-10-02T07:00:00Z */
		if (said != (t[i].want >= 0) || (said && fabs(got - t[i].want) > .5))
			fail_msg("'%s' gave %g", t[i].value, got);
	}
	assert_true(registry_backoff_s(0) >= 1 && registry_backoff_s(0) <= 10 &&
	            registry_backoff_s(3) <= 60 && registry_backoff_s(1) > registry_backoff_s(0) &&
	            registry_backoff_s(4000000000u) <= 60);
}

static void reads_pull_limits(void **state)
{
	struct registry_limit l;
	(void)state;
	registry_limit_parse(&l, "100;w=21600", "76;w=21600");
	assert_true(l.has_limit && l.has_remaining && l.has_window && l.limit == 100 && l.remaining == 76 &&
	            l.window_s == 21600);
	registry_limit_parse(&l, "many", NULL);
	assert_false(l.has_limit || l.has_remaining || l.has_window);
	registry_limit_parse(&l, "7", "3;w=x");
	assert_true(l.has_limit && l.limit == 7 && l.remaining == 3 && !l.has_window);
}

/* --- credentials ------------------------------------------------------------------------------------------
 */

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/registry-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	auto_free char *rm = str_fmt("rm -rf %s", folder);
	return system(rm);
}

static char *put_file(const char *name, const char *text, mode_t mode)
{
	struct err err;
	char *path = fs_join(folder, name);
	assert_int_equal(fs_write(path, text, strlen(text), &err), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static uint64_t in_s(double s)
{
	return clock_now_ns() + (uint64_t)(s * 1e9);
}

static void finds_entries_of_auths(void **state)
{
	static const char config[] =
		"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3MQ==\"},"
		"\"reg.example:5000\":{\"auth\":\"dTpwOnc=\"},\"https://old.example/v2/"
		"\":{\"auth\":\"bzpw\"},"
		"\"quay.io/org\":{\"auth\":\"b3JnOnA=\"},\"quay.io\":{\"auth\":\"YWxsOnA=\"},"
		"\"tok.example\":{\"auth\":\"\",\"identitytoken\":\"idt\"},\"up.example\":{\"username\":"
		"\"a\","
		"\"password\":\"b\"},\"empty.example\":{}}}";
	static const struct {
		const char *host, *path, *user, *password, *identity;
	} t[] = { { "docker.io", "library/x", "hub", "pw1", NULL },
		  { "reg.example:5000", "x", "u", "p:w", NULL },
		  { "reg.example", "x", NULL, NULL, NULL },
		  { "old.example", "x", "o", "p", NULL },
		  { "quay.io", "org/x", "org", "p", NULL },
		  { "quay.io", "organic/x", "all", "p", NULL },
		  { "tok.example", "x", NULL, NULL, "idt" },
		  { "up.example", "x", "a", "b", NULL },
		  { "empty.example", "x", NULL, NULL, NULL } };
	auto_free char *file = put_file("config.json", config, 0600);
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct registry_creds c;
		struct err err;
		if (registry_creds_find(&c, t[i].host, t[i].path, file, in_s(5), &err))
			fail_msg("%s: %s", t[i].host, err.msg);
		assert_true(!c.user == !t[i].user && !c.identity_token == !t[i].identity);
		if (t[i].user) {
			assert_string_equal(c.user, t[i].user);
			assert_string_equal(c.password, t[i].password);
		}
		registry_creds_done(&c);
	}
}

static void tells_no_secret_of_a_bad_file(void **state)
{
	static const char *const bad[] = { "{\"auths\":{\"r\":{\"auth\":\"!!hunter2\"}}}", "hunter2",
		                           "{\"auths\":{\"r\":{\"auth\":\"aHVudGVyMg==\"}}}",
		                           "{\"a\":\"hunter2", "[\"hunter2\"]" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *file = put_file("bad.json", bad[i], 0600);
		struct registry_creds c;
		struct err err;
		assert_int_equal(registry_creds_find(&c, "r", "x", file, in_s(5), &err), -1);
		assert_null(strstr(err.msg, "hunter2"));
		assert_null(strstr(err.msg, "aHVudGVyMg"));
	}
}

static void runs_the_helper_that_the_file_names(void **state)
{
	static const char script[] =
		"#!/bin/sh\n[ \"$1\" = get ] || exit 9\nread -r server\ncase $server in\n"
		"reg.example) echo '{\"ServerURL\":\"x\",\"Username\":\"hu\",\"Secret\":\"hs\"}';;\n"
		"tok.example) echo '{\"Username\":\"<token>\",\"Secret\":\"it\"}';;\n"
		"none.example) echo 'credentials not found in native keychain'; exit 1;;\n"
		"bad.example) echo 'hunter2'; echo hunter2 >&2; exit 1;;\n"
		"noise.example) echo 'hunter2';;\n"
		"big.example) yes hunter2;;\n"
		"slow.example) sleep 60;;\n"
		"stays.example) exec >&- 2>&-; sleep 60;;\n"
		"child.example) sleep 61 & echo '{\"Username\":\"c\",\"Secret\":\"s\"}';;\nesac\n";
	static const struct {
		const char *host, *user, *token, *says; /* says: of the error */
	} t[] = { { "reg.example", "hu", NULL, NULL },     { "tok.example", NULL, "it", NULL },
		  { "none.example", "fb", NULL, NULL },    { "bad.example", NULL, NULL, "failed" },
		  { "noise.example", NULL, NULL, "JSON" }, { "big.example", NULL, NULL, "too long" },
		  { "slow.example", NULL, NULL, "time" },  { "stays.example", NULL, NULL, "does not end" },
		  { "child.example", NULL, NULL, "time" } };
	auto_free char *helper = put_file("docker-credential-fake", script, 0755);
	auto_free char *config = put_file("store.json",
	                                  "{\"credsStore\":\"fake\",\"auths\":{\"none.example\":{\"auth\":"
	                                  "\"ZmI6cA==\"}}}",
	                                  0600);
	auto_free char *old_path = strdup(getenv("PATH"));
	auto_free char *path = str_fmt("%s:%s", folder, old_path);
	(void)state;
	assert_non_null(helper);
	setenv("PATH", path, 1);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct registry_creds c = { 0 };
		struct err err;
		int rc = registry_creds_find(&c, t[i].host, "x", config, in_s(t[i].says ? 2 : 60), &err);
		assert_int_equal(rc, t[i].says ? -1 : 0);
		if (t[i].says) {
			assert_non_null(strstr(err.msg, t[i].says));
			assert_null(strstr(err.msg, "hunter2"));
			continue;
		}
		assert_true(!c.user == !t[i].user && !c.identity_token == !t[i].token);
		if (t[i].user)
			assert_string_equal(c.user, t[i].user);
		registry_creds_done(&c);
	}
	setenv("PATH", old_path, 1);
}

static void refuses_helpers_with_odd_names(void **state)
{
	static const char *const bad[] = { "../evil", "a/b", "", "a b", "-x", "$(x)" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct registry_creds c;
		struct err err;
		bool found = false;
		assert_int_equal(registry_helper_get(&c, &found, bad[i], "r", in_s(5), &err), -1);
	}
	struct registry_creds c;
	struct err err;
	bool found = false;
	assert_int_equal(registry_helper_get(&c, &found, "not-there-at-all", "r", in_s(5), &err), -1);
	assert_non_null(strstr(err.msg, "docker-credential-not-there-at-all"));
}

/* --- the client -------------------------------------------------------------------------------------------
 */

static const char document[] = "{\"schemaVersion\":2,\"manifests\":[]}";
#define TEXT(s) s, sizeof(s) - 1
#define TYPE_LINE "Content-Type: application/vnd.oci.image.index.v1+json\r\n"

struct rig {
	struct fake reg, other;
	struct registry *r;
	struct registry_ref ref;
	char digest[OCI_DIGEST_BYTES];
};

static void rig_start(struct rig *g)
{
	fake_start(&g->reg);
	fake_start(&g->other);
	oci_digest_of(g->digest, document, strlen(document), NULL);
	g->r = NULL;
}

static void rig_open(struct rig *g, const char *config_file, double seconds)
{
	auto_free char *name = str_fmt("127.0.0.1:%u/org/x:t", g->reg.port);
	struct err err;
	assert_int_equal(registry_ref_parse(&g->ref, name, &err), 0);
	struct registry_spec spec = { .ref = &g->ref,
		                      .config_file = config_file,
		                      .deadline_ns = in_s(seconds),
		                      .wait_max_s = 10,
		                      .backoff_factor = .005 };
	assert_int_equal(registry_open(&g->r, &spec, &err), 0);
}

static void rig_stop(struct rig *g)
{
	registry_close(g->r);
	fake_stop(&g->reg);
	fake_stop(&g->other);
}

static int get(struct rig *g, const char *what, struct err *err)
{
	auto_buf bytes = BUF_INIT(OCI_DOC_BYTES_MAX);
	char type[OCI_TYPE_BYTES];
	int rc = registry_manifest(&bytes, type, g->r, what, NULL, err);
	if (rc == 0) {
		assert_int_equal(bytes.len, strlen(document));
		assert_memory_equal(bytes.p, document, bytes.len);
		assert_string_equal(type, OCI_TYPE_INDEX);
	}
	return rc;
}

static void add_document(struct rig *g, const char *headers)
{
	fake_add(&g->reg, "/v2/org/x/manifests/t", 200, headers, document, strlen(document));
}

static void must_get(struct rig *g, const char *what)
{
	struct err err;
	if (get(g, what, &err))
		fail_msg("%s", err.msg);
}

static void must_not_get(struct rig *g, const char *what, const char *says)
{
	struct err err;
	if (get(g, what, &err) == 0)
		fail_msg("got it, wanted '%s'", says);
	if (!strstr(err.msg, says))
		fail_msg("'%s' does not say '%s'", err.msg, says);
	assert_int_equal(err.cls, ERR_ENV);
}

static void asks_with_all_four_types_in_one_round_trip(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	add_document(&g, TYPE_LINE);
	rig_open(&g, "", 20);
	must_get(&g, "t");
	must_get(&g, "t");
	assert_int_equal(g.reg.n_requests, 2);
	assert_int_equal(registry_stats(g.r)->n_requests, 2);
	assert_non_null(strstr(g.reg.log.p, OCI_TYPE_INDEX));
	assert_non_null(strstr(g.reg.log.p, OCI_TYPE_MANIFEST));
	assert_non_null(strstr(g.reg.log.p, OCI_TYPE_DOCKER_LIST));
	assert_non_null(strstr(g.reg.log.p, OCI_TYPE_DOCKER_MANIFEST));
	assert_null(strstr(g.reg.log.p, "Authorization"));
	rig_stop(&g);
}

static void trusts_no_digest_but_its_own(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *good = str_fmt(TYPE_LINE "docker-content-digest:  %s \r\n", g.digest);
	auto_free char *twice = str_fmt(
		TYPE_LINE "Docker-Content-Digest: %s\r\nDocker-Content-Digest: " DIGEST "\r\n", g.digest);
	auto_free char *other = str_fmt("/v2/org/x/manifests/%s", DIGEST);
	auto_free char *mine = str_fmt("/v2/org/x/manifests/%s", g.digest);
	add_document(&g, good);
	fake_add(&g.reg, "/v2/org/x/manifests/lies", 200, TYPE_LINE "Docker-Content-Digest: " DIGEST "\r\n",
	         document, strlen(document));
	fake_add(&g.reg, "/v2/org/x/manifests/twice", 200, twice, document, strlen(document));
	fake_add(&g.reg, other, 200, TYPE_LINE, document, strlen(document));
	fake_add(&g.reg, mine, 200, TYPE_LINE, document, strlen(document));
	rig_open(&g, "", 20);
	must_get(&g, "t");
	must_get(&g, g.digest);
	must_not_get(&g, "lies", DIGEST);
	must_not_get(&g, "lies", g.digest);
	must_not_get(&g, "twice", "digest");
	must_not_get(&g, DIGEST, g.digest);
	must_not_get(&g, "absent", "not found");
	rig_stop(&g);
}

static void bounds_answers_and_their_time(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	fake_add(&g.reg, "/v2/org/x/manifests/endless", 200, TYPE_LINE, "", 0)->endless = true;
	fake_add(&g.reg, "/v2/org/x/manifests/refusal", 403, NULL, "", 0)->endless = true;
	fake_add(&g.reg, "/v2/org/x/manifests/short", 200, TYPE_LINE, document, strlen(document))->length =
		999;
	rig_open(&g, "", 20);
	must_not_get(&g, "endless", "longer than");
	must_not_get(&g, "refusal", "forbidden");
	must_not_get(&g, "short", "body shorter than Content-Length");
	registry_close(g.r);
	rig_open(&g, "", .3);
	fake_add(&g.reg, "/v2/org/x/manifests/silent", 200, NULL, "", 0)->silent = true;
	must_not_get(&g, "silent", "within its time");
	must_not_get(&g, "silent", "no time left");
	rig_stop(&g);
}

static void gets_a_token_keeps_it_and_renews_it_once(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *file =
		str_fmt("{\"auths\":{\"127.0.0.1:%u\":{\"auth\":\"cGlsb3Q6czNjcmV0\"}}}", g.reg.port);
	auto_free char *config = put_file("token.json", file, 0600);
	auto_free char *challenge =
		str_fmt("WWW-Authenticate: Bearer realm=\"http://127.0.0.1:%u/t?a=1,b=2\","
	                "service=\"reg, one\"\r\n",
	                g.other.port);
	struct route *r =
		fake_add(&g.reg, "/v2/org/x/manifests/t", 200, TYPE_LINE, document, strlen(document));
	r->needs = strdup("Authorization: Bearer tok1\r\n");
	r->uses = 2;
	fake_add(&g.reg, "/v2/org/x/manifests/t", 200, TYPE_LINE, document, strlen(document))->needs =
		strdup("Authorization: Bearer tok2\r\n");
	fake_add(&g.reg, "/v2/org/x/manifests/t", 401, challenge, "", 0);
	static const char query[] = "/t?a=1,b=2&service=reg%2c+one&scope=repository%3aorg%2fx%3apull";
	static const char query2[] = "/t?a=1,b=2&service=reg%2C+one&scope=repository%3Aorg%2Fx%3Apull";
	for (int i = 0; i < 2; i++) {
		fake_add(&g.other, i ? query : query2, 200, NULL,
		         TEXT("{\"token\":\"tok1\",\"expires_in\":300}"))
			->uses = 1;
		fake_add(&g.other, i ? query : query2, 200, NULL, TEXT("{\"access_token\":\"tok2\"}"));
	}
	rig_open(&g, config, 20);
	must_get(&g, "t");
	must_get(&g, "t");
	assert_int_equal(registry_stats(g.r)->n_tokens, 1);
	assert_int_equal(g.reg.n_requests, 3);
	must_get(&g, "t"); /* tok1 is no longer taken */
	assert_int_equal(registry_stats(g.r)->n_tokens, 2);
	assert_non_null(strstr(g.other.log.p, "Authorization: Basic cGlsb3Q6czNjcmV0\r\n"));
	assert_null(strstr(g.reg.log.p, "cGlsb3Q6czNjcmV0"));
	rig_stop(&g);
}

static void a_token_that_ran_out_is_renewed_before_it_is_used(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *challenge = str_fmt(
		"WWW-Authenticate: Bearer realm=\"http://127.0.0.1:%u/t\",scope=\"\"\r\n", g.other.port);
	fake_add(&g.reg, "/v2/org/x/manifests/t", 200, TYPE_LINE, document, strlen(document))->needs =
		strdup("Authorization: Bearer");
	fake_add(&g.reg, "/v2/org/x/manifests/t", 401, challenge, "", 0);
	static const char answer[] = "{\"token\":\"x\",\"expires_in\":0.02}";
	fake_add(&g.other, "/t?scope=repository%3aorg%2fx%3apull", 200, NULL, answer, strlen(answer));
	fake_add(&g.other, "/t?scope=repository%3Aorg%2Fx%3Apull", 200, NULL, answer, strlen(answer));
	rig_open(&g, "", 20);
	must_get(&g, "t");
	usleep(50000);
	must_get(&g, "t");
	assert_int_equal(registry_stats(g.r)->n_tokens, 2);
	assert_int_equal(g.reg.n_requests, 3); /* 401, 200, 200: no second 401 */
	rig_stop(&g);
}

static void basic_credentials_go_only_where_they_are_asked_for(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *file =
		str_fmt("{\"auths\":{\"127.0.0.1:%u\":{\"auth\":\"cGlsb3Q6czNjcmV0\"}}}", g.reg.port);
	auto_free char *config = put_file("basic.json", file, 0600);
	fake_add(&g.reg, "/v2/org/x/manifests/t", 200, TYPE_LINE, document, strlen(document))->needs =
		strdup("Authorization: Basic cGlsb3Q6czNjcmV0\r\n");
	fake_add(&g.reg, "/v2/org/x/manifests/t", 401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "", 0);
	fake_add(&g.reg, "/v2/org/x/manifests/no", 401, "WWW-Authenticate: Basic realm=\"r\"\r\n",
	         TEXT("{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"you said s3cret "
	              "cGlsb3Q6czNjcmV0\"}]}"));
	rig_open(&g, config, 20);
	must_get(&g, "t");
	struct err err;
	assert_int_equal(get(&g, "no", &err), -1);
	assert_non_null(strstr(err.msg, "UNAUTHORIZED"));
	assert_null(strstr(err.msg, "s3cret"));
	assert_null(strstr(err.msg, "cGlsb3Q6czNjcmV0"));
	registry_close(g.r);
	rig_open(&g, "", 20);
	must_not_get(&g, "t", "none are stored");
	rig_stop(&g);
}

static void an_identity_token_is_posted_to_the_token_service(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *file =
		str_fmt("{\"auths\":{\"127.0.0.1:%u\":{\"identitytoken\":\"id+tok\"}}}", g.reg.port);
	auto_free char *config = put_file("identity.json", file, 0600);
	auto_free char *challenge = str_fmt(
		"WWW-Authenticate: Bearer realm=\"http://127.0.0.1:%u/t\",service=\"s\"\r\n", g.other.port);
	fake_add(&g.reg, "/v2/org/x/manifests/t", 200, TYPE_LINE, document, strlen(document))->needs =
		strdup("Authorization: Bearer at\r\n");
	fake_add(&g.reg, "/v2/org/x/manifests/t", 401, challenge, "", 0);
	fake_add(&g.other, "/t", 200, NULL, TEXT("{\"access_token\":\"at\"}"))->needs = strdup(
		"grant_type=refresh_token&service=s&client_id=proofmark&scope=repository%3Aorg%2Fx%3Apull&"
		"refresh_token=id%2Btok");
	rig_open(&g, config, 20);
	must_get(&g, "t");
	rig_stop(&g);
}

static void token_services_that_are_no_good(void **state)
{
	static const struct {
		const char *realm, *says; /* %u = the other server's port */
		int status;
		const char *body;
	} t[] = {
		{ "http://auth.example/t", "without TLS on another host", 200, "" },
		{ "http://127.0.0.1:%u/t", "no token", 200, "{\"token\":\"a\\r\\nX-Evil: 1\"}" },
		{ "http://127.0.0.1:%u/t", "no token", 200, "{}" },
		{ "http://127.0.0.1:%u/t", "no JSON", 200, "<html>hunter2" },
		{ "http://127.0.0.1:%u/t", "refuses to give a token", 401, "hunter2" },
		{ "http://127.0.0.1:%u/t", "status 500", 500, "" },
		{ "http://127.0.0.1:1/t", "127.0.0.1:1", 200, "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct rig g;
		char realm[100];
		rig_start(&g);
		const char *port = strstr(t[i].realm, "%u");
		if (port)
			snprintf(realm, sizeof(realm), "%.*s%u%s", (int)(port - t[i].realm), t[i].realm,
			         g.other.port, port + 2);
		else
			snprintf(realm, sizeof(realm), "%s", t[i].realm);
		auto_free char *challenge = str_fmt("WWW-Authenticate: Bearer realm=\"%s\"\r\n", realm);
		fake_add(&g.reg, "/v2/org/x/manifests/t", 401, challenge, "", 0);
		fake_add(&g.other, "/t?scope=repository%3Aorg%2Fx%3Apull", t[i].status, NULL, t[i].body,
		         strlen(t[i].body));
		fake_add(&g.other, "/t?scope=repository%3aorg%2fx%3apull", t[i].status, NULL, t[i].body,
		         strlen(t[i].body));
		rig_open(&g, "", 20);
		must_not_get(&g, "t", t[i].says);
		rig_stop(&g);
	}
}

static void redirects_lose_the_authorization(void **state)
{
	struct rig g;
	(void)state;
	rig_start(&g);
	auto_free char *file =
		str_fmt("{\"auths\":{\"127.0.0.1:%u\":{\"auth\":\"cGlsb3Q6czNjcmV0\"}}}", g.reg.port);
	auto_free char *config = put_file("redirect.json", file, 0600);
	auto_free char *away = str_fmt("Location: http://127.0.0.1:%u/store?sig=SECRETSIG\r\n", g.other.port);
	auto_free char *digest = str_fmt("/v2/org/x/blobs/%s", g.digest);
	fake_add(&g.reg, digest, 307, away, "gone", 4)->needs = strdup("Authorization: Basic");
	fake_add(&g.reg, digest, 401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "", 0);
	fake_add(&g.other, "/store?sig=SECRETSIG", 200, NULL, document, strlen(document))->uses = 1;
	fake_add(&g.other, "/store?sig=SECRETSIG", 401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "", 0);
	rig_open(&g, config, 20);
	struct err err;
	if (registry_blob(g.r, g.digest, strlen(document), NULL, NULL, &err))
		fail_msg("%s", err.msg);
	assert_null(strstr(g.other.log.p, "Authorization"));
	assert_int_equal(registry_blob(g.r, g.digest, strlen(document), NULL, NULL, &err), -1);
	assert_null(strstr(g.other.log.p, "Authorization"));
	assert_null(strstr(err.msg, "SECRETSIG"));
	rig_stop(&g);
}

static void redirects_are_bounded_and_stay_safe(void **state)
{
	static const struct {
		const char *to, *says;
	} t[] = { { "/v2/org/x/manifests/t", "more than 5 redirects" },
		  { "http://registry.example/x", "plain HTTP" },
		  { "file:///etc/passwd", "no URL to follow" },
		  { "http://user:hunter2@127.0.0.1/x", "no URL to follow" } };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct rig g;
		struct err err;
		rig_start(&g);
		auto_free char *location = str_fmt("Location: %s\r\n", t[i].to);
		fake_add(&g.reg, "/v2/org/x/manifests/t", 302, location, "", 0);
		rig_open(&g, "", 20);
		must_not_get(&g, "t", t[i].says);
		assert_int_equal(get(&g, "t", &err), -1);
		assert_null(strstr(err.msg, "hunter2"));
		rig_stop(&g);
	}
}

static void waits_when_told_and_gives_up_in_the_end(void **state)
{
	struct rig g;
	struct err err;
	(void)state;
	rig_start(&g);
	fake_add(&g.reg, "/v2/org/x/manifests/t", 429, "Retry-After: 0\r\n", "", 0)->uses = 1;
	fake_add(&g.reg, "/v2/org/x/manifests/t", 503, NULL, "", 0)->uses = 1;
	add_document(&g, TYPE_LINE "RateLimit-Limit: 100;w=21600\r\nRateLimit-Remaining: 76;w=21600\r\n");
	fake_add(&g.reg, "/v2/org/x/manifests/storm", 429,
	         "RateLimit-Limit: 100;w=21600\r\nRateLimit-Remaining: 0;w=21600\r\n", "", 0);
	fake_add(&g.reg, "/v2/org/x/manifests/long", 429, "Retry-After: 86400\r\n", "", 0);
	fake_add(&g.reg, "/v2/org/x/manifests/later", 429, "Retry-After: 9\r\n", "", 0);
	rig_open(&g, "", 8);
	must_get(&g, "t");
	assert_int_equal(g.reg.n_requests, 3);
	assert_true(registry_stats(g.r)->limit.remaining == 76 && registry_stats(g.r)->waited_s > 0);
	must_not_get(&g, "storm", "could not fetch");
	assert_int_equal(g.reg.n_requests, 3 + 5);
	assert_int_equal(get(&g, "storm", &err), -1);
	assert_non_null(strstr(err.msg, "limit 100 per 21600 s, 0 left"));
	uint64_t before = clock_now_ns();
	must_not_get(&g, "long", "86400 s");
	must_not_get(&g, "later", "9 s"); /* more than is left */
	assert_true(clock_now_ns() - before < 6 * NS_PER_S);
	rig_stop(&g);
}

static void *set_soon(void *stop)
{
	usleep(300000);
	__atomic_store_n((bool *)stop, true, __ATOMIC_RELAXED);
	return NULL;
}

static void stops_when_told_to(void **state)
{
	struct rig g;
	struct err err;
	bool stop = false;
	pthread_t thread;
	(void)state;
	rig_start(&g);
	fake_add(&g.reg, "/v2/org/x/manifests/wait", 429, "Retry-After: 9\r\n", "", 0);
	fake_add(&g.reg, "/v2/org/x/manifests/silent", 200, NULL, "", 0)->silent = true;
	for (int i = 0; i < 2; i++) {
		auto_free char *name = str_fmt("127.0.0.1:%u/org/x:t", g.reg.port);
		assert_int_equal(registry_ref_parse(&g.ref, name, &err), 0);
		struct registry_spec spec = {
			.ref = &g.ref, .config_file = "", .deadline_ns = in_s(60), .stop = &stop
		};
		assert_int_equal(registry_open(&g.r, &spec, &err), 0);
		uint64_t before = clock_now_ns();
		stop = false;
		assert_int_equal(pthread_create(&thread, NULL, set_soon, &stop), 0);
		assert_int_equal(get(&g, i ? "silent" : "wait", &err), -1);
		assert_int_equal(err.cls, ERR_INTERRUPTED);
		assert_true(clock_now_ns() - before < 8 * NS_PER_S);
		pthread_join(thread, NULL);
		registry_close(g.r);
	}
	g.r = NULL;
	rig_stop(&g);
}

/* --- blobs ------------------------------------------------------------------------------------------------
 */

enum { BLOB_BYTES = 100000 };

static char *make_blob(char digest[OCI_DIGEST_BYTES])
{
	char *p = malloc(BLOB_BYTES);
	for (size_t i = 0; i < BLOB_BYTES; i++)
		p[i] = (char)(i * 7 + i / 251);
	oci_digest_of(digest, p, BLOB_BYTES, NULL);
	return p;
}

static int keep(void *ctx, const void *data, size_t len)
{
	return buf_add(ctx, data, len);
}

struct blob_case {
	const char *name;
	const char *etag1, *etag2; /* of the first answer, and of those that follow */
	size_t cut;                /* of the first answer */
	size_t told;               /* size in the manifest; 0 = the true one */
	bool always_cut, flip, stores_less;
	const char *says; /* NULL = it comes */
	unsigned n_requests;
};

static void blob_case_run(const struct blob_case *c)
{
	struct rig g;
	struct err err = { 0 };
	char digest[OCI_DIGEST_BYTES];
	auto_free char *blob = make_blob(digest);
	auto_buf got = BUF_INIT(BLOB_BYTES * 2);
	auto_free char *path = str_fmt("/v2/org/x/blobs/%s", digest);
	size_t len = c->stores_less ? 60000 : BLOB_BYTES;
	if (c->flip)
		blob[77777] ^= 1;
	rig_start(&g);
	struct route *r = fake_add(&g.reg, path, 200, NULL, blob, len);
	r->etag = fake_dup(c->etag1);
	r->cut = c->cut;
	r->length = c->stores_less ? BLOB_BYTES : 0;
	r->uses = c->cut && !c->always_cut ? 1 : 0;
	fake_add(&g.reg, path, 200, NULL, blob, len)->etag = fake_dup(c->etag2);
	rig_open(&g, "", 20);
	int rc = registry_blob(g.r, digest, c->told ? c->told : BLOB_BYTES, keep, &got, &err);
	if (rc != (c->says ? -1 : 0))
		fail_msg("%s: %s", c->name, rc ? err.msg : "came");
	if (c->says && !strstr(err.msg, c->says))
		fail_msg("%s: '%s' does not say '%s'", c->name, err.msg, c->says);
	if (!c->says) {
		assert_int_equal(got.len, BLOB_BYTES);
		assert_memory_equal(got.p, blob, BLOB_BYTES);
	}
	if (c->n_requests && g.reg.n_requests != c->n_requests)
		fail_msg("%s: %u requests", c->name, g.reg.n_requests);
	if (c->cut && !c->always_cut && c->etag1[0] != 'W')
		assert_non_null(strcasestr(g.reg.log.p, "\r\nIf-Range: \"a\""));
	rig_stop(&g);
}

static void resumes_blobs_and_believes_only_their_hash(void **state)
{
	static const struct blob_case cases[] = {
		{ "whole", "\"a\"", "\"a\"", 0, 0, false, false, false, NULL, 1 },
		{ "resumed", "\"a\"", "\"a\"", 30000, 0, false, false, false, NULL, 2 },
		{ "no ranges: from the start", "\"a\"", NULL, 30000, 0, false, false, false, NULL, 2 },
		{ "another entity: from the start", "\"a\"", "\"b\"", 30000, 0, false, false, false, NULL,
		  2 },
		{ "many breaks", "\"a\"", "\"a\"", 30000, 0, true, false, false, NULL, 4 },
		{ "damaged", "\"a\"", "\"a\"", 0, 0, false, true, false, "the bytes that came are", 1 },
		{ "damaged behind the break", "\"a\"", "\"a\"", 30000, 0, false, true, false,
		  "the bytes that came are", 2 },
		{ "longer than told", "\"a\"", "\"a\"", 0, 50000, false, false, false, "is longer than", 1 },
		{ "shorter than told", "\"a\"", "\"a\"", 0, 100001, false, false, false, "of 100001 bytes",
		  1 },
		{ "416 behind the end", "\"a\"", "\"a\"", 0, 0, false, false, true, "is shorter than", 2 },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		blob_case_run(&cases[i]);
}

static void gives_up_on_a_blob_that_never_comes(void **state)
{
	struct rig g;
	struct err err;
	char digest[OCI_DIGEST_BYTES];
	auto_free char *blob = make_blob(digest);
	auto_free char *path = str_fmt("/v2/org/x/blobs/%s", digest);
	(void)state;
	assert_non_null(blob);
	rig_start(&g);
	fake_add(&g.reg, path, 200, NULL, "", 0)->length = BLOB_BYTES; /* head, then nothing */
	rig_open(&g, "", 20);
	assert_int_equal(registry_blob(g.r, digest, BLOB_BYTES, NULL, NULL, &err), -1);
	assert_non_null(strstr(err.msg, "0 of 100000 bytes"));
	assert_true(g.reg.n_requests <= 4);
	assert_int_equal(registry_blob(g.r, "sha256:zz", 5, NULL, NULL, &err), -1);
	rig_stop(&g);
}

static void referrers_come_from_the_api_or_the_tag(void **state)
{
	struct rig g;
	struct err err;
	auto_buf bytes = BUF_INIT(OCI_DOC_BYTES_MAX);
	bool found = true;
	(void)state;
	rig_start(&g);
	rig_open(&g, "", 20);
	assert_int_equal(registry_referrers(&bytes, g.r, DIGEST, &found, &err), 0);
	assert_false(found);
	fake_add(&g.reg, "/v2/org/x/manifests/sha256-" HEX, 200, TYPE_LINE, document, strlen(document));
	assert_int_equal(registry_referrers(&bytes, g.r, DIGEST, &found, &err), 0);
	assert_true(found && bytes.len == strlen(document));
	fake_add(&g.reg, "/v2/org/x/referrers/" DIGEST, 200, TYPE_LINE, "{}", 2);
	buf_clear(&bytes);
	assert_int_equal(registry_referrers(&bytes, g.r, DIGEST, &found, &err), 0);
	assert_true(found && bytes.len == 2);
	rig_stop(&g);
}

static void plain_http_is_for_loopback_unless_told(void **state)
{
	struct registry_ref ref;
	struct err err;
	struct registry *r;
	auto_buf bytes = BUF_INIT(1000);
	char type[OCI_TYPE_BYTES];
	struct rig g;
	(void)state;
	rig_start(&g);
	add_document(&g, TYPE_LINE);
	auto_free char *name = str_fmt("127.0.0.1:%u/org/x:t", g.reg.port);
	assert_int_equal(registry_ref_parse(&ref, name, &err), 0);
	struct registry_spec spec = {
		.ref = &ref, .config_file = "", .tls = REGISTRY_TLS_ONLY, .deadline_ns = in_s(3)
	};
	assert_int_equal(registry_open(&r, &spec, &err), 0);
	assert_int_equal(registry_manifest(&bytes, type, r, "t", NULL, &err), -1);
	registry_close(r);
	rig_stop(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_names_as_docker_does),
		cmocka_unit_test(refuses_names_that_are_none),
		cmocka_unit_test(knows_loopback_by_the_whole_host),
		cmocka_unit_test(reads_challenges),
		cmocka_unit_test(sends_no_password_to_a_realm_without_tls),
		cmocka_unit_test(reads_how_long_to_wait),
		cmocka_unit_test(reads_pull_limits),
		cmocka_unit_test(finds_entries_of_auths),
		cmocka_unit_test(tells_no_secret_of_a_bad_file),
		cmocka_unit_test(runs_the_helper_that_the_file_names),
		cmocka_unit_test(refuses_helpers_with_odd_names),
		cmocka_unit_test(asks_with_all_four_types_in_one_round_trip),
		cmocka_unit_test(trusts_no_digest_but_its_own),
		cmocka_unit_test(bounds_answers_and_their_time),
		cmocka_unit_test(gets_a_token_keeps_it_and_renews_it_once),
		cmocka_unit_test(a_token_that_ran_out_is_renewed_before_it_is_used),
		cmocka_unit_test(basic_credentials_go_only_where_they_are_asked_for),
		cmocka_unit_test(an_identity_token_is_posted_to_the_token_service),
		cmocka_unit_test(token_services_that_are_no_good),
		cmocka_unit_test(redirects_lose_the_authorization),
		cmocka_unit_test(redirects_are_bounded_and_stay_safe),
		cmocka_unit_test(waits_when_told_and_gives_up_in_the_end),
		cmocka_unit_test(stops_when_told_to),
		cmocka_unit_test(resumes_blobs_and_believes_only_their_hash),
		cmocka_unit_test(gives_up_on_a_blob_that_never_comes),
		cmocka_unit_test(referrers_come_from_the_api_or_the_tag),
		cmocka_unit_test(plain_http_is_for_loopback_unless_told),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
