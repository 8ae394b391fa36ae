/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of models: a sigstore bundle v0.x that holds a DSSE envelope over an in-toto statement. */
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "base/pubkey.h"
#include "pin/model_sign.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUNDLE_BYTES_MAX (64u << 20)
#define KEY_BYTES_MAX (64u << 10)
static const char predicate_type[] = "https://model_signing/signature/v1.0";
static const char media_types[] = "application/vnd.dev.sigstore.bundle";

const char *model_sig_word(enum model_sig_state state)
{
	static const char *const words[] = { "none", "not checked", "keyless: not verified", "good", "bad" };
	return (size_t)state < ARRAY_LEN(words) ? words[state] : "bad";
}

static void say(struct model_sig *s, enum model_sig_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct model_sig *s, enum model_sig_state state, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->text, sizeof(s->text), fmt, ap);
	va_end(ap);
	for (unsigned char *p = (unsigned char *)s->text; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
	s->state = state;
}

/* --- the key ------------------------------------------------------------------------------------------- */

static const EVP_MD *digest_for(EVP_PKEY *key)
{
	if (EVP_PKEY_is_a(key, "ED25519"))
		return NULL;
	int bits = EVP_PKEY_get_bits(key);
	return bits > 384 ? EVP_sha512() : bits > 256 ? EVP_sha384() : EVP_sha256();
}

static int no_password(char *buf, int size, int rwflag, void *data)
{
	return -1;
}

static int read_key(EVP_PKEY **out, char id[65], const char *path, struct err *err)
{
	auto_buf pem = BUF_INIT(KEY_BYTES_MAX);
	if (fs_read(&pem, path, KEY_BYTES_MAX, err))
		return -1;
	BIO *bio = BIO_new_mem_buf(pem.p ? pem.p : "", (int)pem.len);
	EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL) : NULL;
	BIO_free(bio);
	if (!key || (!EVP_PKEY_is_a(key, "ED25519") && !EVP_PKEY_is_a(key, "EC"))) {
		EVP_PKEY_free(key);
		return err_set(err, ERR_USAGE,
		               "%s: want a PEM public key, Ed25519 or ECDSA (-----BEGIN PUBLIC KEY-----)",
		               path);
	}
	pubkey_id(key, id);
	*out = key;
	return 0;
}

/* --- the envelope -------------------------------------------------------------------------------------- */

struct envelope { /* borrowed from the document */
	const char *payload, *type, *sig;
	bool has_key, has_certificate;
};

static int take_envelope(struct envelope *e, const struct cJSON *doc, struct model_sig *s)
{
	const char *media = json_str(doc, "mediaType");
	const struct cJSON *material = json_get(doc, "verificationMaterial");
	const struct cJSON *dsse = json_get(doc, "dsseEnvelope");
	const struct cJSON *sigs = json_get(dsse, "signatures");
	if (!media || strncmp(media, media_types, sizeof(media_types) - 1) != 0 || !dsse) {
		say(s, MODEL_SIG_BAD, "is no sigstore bundle with a DSSE envelope");
		return -1;
	}
	e->payload = json_str(dsse, "payload");
	e->type = json_str(dsse, "payloadType");
	e->sig = cJSON_GetArraySize(sigs) == 1 ? json_str(cJSON_GetArrayItem(sigs, 0), "sig") : NULL;
	e->has_key = json_get(material, "publicKey") != NULL;
	e->has_certificate = json_get(material, "certificate") || json_get(material, "x509CertificateChain");
	if (!e->payload || !e->type || !e->sig) {
		say(s, MODEL_SIG_BAD, "its envelope wants a payload, its type and exactly one signature");
		return -1;
	}
	if (strcmp(e->type, "application/vnd.in-toto+json") != 0) {
		say(s, MODEL_SIG_BAD, "its payload is of type %.80s, not an in-toto statement", e->type);
		return -1;
	}
	return 0;
}

/* Fills `body` with the very bytes that were verified. */
static int check_envelope(struct buf *body, const struct envelope *e, EVP_PKEY *key, struct model_sig *s)
{
	size_t len = 0, sig_len = 0;
	auto_buf pae = BUF_INIT(2 * BUNDLE_BYTES_MAX);
	auto_free uint8_t *raw = base64_decode(e->payload, strlen(e->payload), true, &len);
	auto_free uint8_t *sig = base64_decode(e->sig, strlen(e->sig), true, &sig_len);
	if (!raw || !sig) {
		say(s, MODEL_SIG_BAD, "its payload or signature is no base64");
		return -1;
	}
	if (dsse_pae(&pae, e->type, raw, len) || buf_add(body, raw, len)) {
		say(s, MODEL_SIG_BAD, "is too large");
		return -1;
	}
	if (!pubkey_verify(key, digest_for(key), sig, sig_len, pae.p, pae.len)) {
		say(s, MODEL_SIG_BAD, "was not made by the given key, or was changed");
		return -1;
	}
	return 0;
}

/* --- the statement ------------------------------------------------------------------------------------- */

static int by_resource(const void *name, const void *resource)
{
	return strcmp(name, ((const struct model_resource *)resource)->name);
}

static const struct model_resource *find(const struct model_identity *id, const char *name)
{
	return bsearch(name, id->list, id->n, sizeof(*id->list), by_resource);
}

/* The entry itself or what lies below it. */
static bool is_ignored(const struct cJSON *ignore, const char *name)
{
	const struct cJSON *i;
	cJSON_ArrayForEach(i, ignore)
	{
		size_t n = cJSON_IsString(i) ? strlen(i->valuestring) : 0;
		if (n && strncmp(i->valuestring, name, n) == 0 && (name[n] == '\0' || name[n] == '/'))
			return true;
	}
	return false;
}

static int check_resource(const struct cJSON *r, const struct model_identity *id, bool *seen,
                          struct model_sig *s)
{
	const char *name = json_str(r, "name"), *digest = json_str(r, "digest");
	const char *algorithm = json_str(r, "algorithm");
	const struct model_resource *mine = name ? find(id, name) : NULL;
	if (!name || !digest || !algorithm || strcmp(algorithm, "sha256") != 0 || !sha256_hex_ok(digest)) {
		say(s, MODEL_SIG_BAD, "a resource of its statement is not a name with a sha256");
		return -1;
	}
	if (!mine) {
		say(s, MODEL_SIG_BAD, "%.200s is signed, and is not there", name);
		return -1;
	}
	if (seen[mine - id->list]) {
		say(s, MODEL_SIG_BAD, "%.200s is in its statement twice", name);
		return -1;
	}
	seen[mine - id->list] = true;
	if (strcmp(mine->sha256, digest) != 0) {
		say(s, MODEL_SIG_BAD, "%.200s is not the file that was signed", name);
		return -1;
	}
	return 0;
}

static int check_resources(const struct cJSON *doc, const struct model_identity *id, struct model_sig *s)
{
	const struct cJSON *predicate = json_get(doc, "predicate"), *r;
	const struct cJSON *list = json_get(predicate, "resources");
	const struct cJSON *how = json_get(predicate, "serialization");
	const char *method = json_str(how, "method"), *hash = json_str(how, "hash_type");
	auto_free bool *seen = calloc(id->n + 1, sizeof(*seen));
	if (!seen || !cJSON_IsArray(list)) {
		say(s, MODEL_SIG_BAD, "its statement has no list of resources");
		return -1;
	}
	if (!method || strcmp(method, "files") != 0 || !hash || strcmp(hash, "sha256") != 0) {
		say(s, MODEL_SIG_NOT_CHECKED,
		    "signed by the given key, but over '%.40s' with '%.20s': only whole files with sha256 "
		    "are "
		    "compared",
		    method ? method : "?", hash ? hash : "?");
		return -1;
	}
	cJSON_ArrayForEach(r, list) if (check_resource(r, id, seen, s)) return -1;
	for (size_t i = 0; i < id->n; i++)
		if (!seen[i] && !is_ignored(json_get(how, "ignore_paths"), id->list[i].name)) {
			say(s, MODEL_SIG_BAD, "%.200s is there, and is not signed", id->list[i].name);
			return -1;
		}
	return 0;
}

/* SHA-256 over the raw digests, in the order of the list. */
static void root_of(const struct cJSON *list, char hex[65])
{
	uint8_t raw[SHA256_BYTES] = { 0 };
	const struct cJSON *r;
	struct sha256 *h = sha256_new();
	cJSON_ArrayForEach(r, list)
	{
		const char *digest = json_str(r, "digest");
		for (size_t i = 0; digest && sha256_hex_ok(digest) && i < sizeof(raw); i++) {
			char two[3] = { digest[2 * i], digest[2 * i + 1], '\0' };
			raw[i] = (uint8_t)strtoul(two, NULL, 16);
		}
		sha256_add(h, raw, sizeof(raw));
	}
	sha256_end(h, raw);
	sha256_free(h);
	hex_encode(raw, sizeof(raw), hex);
}

static void check_statement(const struct cJSON *doc, const struct model_identity *id, struct model_sig *s)
{
	const char *type = json_str(doc, "_type"), *predicate = json_str(doc, "predicateType");
	const struct cJSON *subjects = json_get(doc, "subject");
	const struct cJSON *subject =
		cJSON_GetArraySize(subjects) == 1 ? cJSON_GetArrayItem(subjects, 0) : NULL;
	const char *root = json_str(json_get(subject, "digest"), "sha256"), *name = json_str(subject, "name");
	char want[65];
	if (!type || strcmp(type, "https://in-toto.io/Statement/v1") != 0 || !predicate ||
	    strcmp(predicate, predicate_type) != 0 || !root || !sha256_hex_ok(root)) {
		say(s, MODEL_SIG_BAD, "what is signed is no model signature v1.0 (predicate %.80s)",
		    predicate ? predicate : "?");
		return;
	}
	memcpy(s->signed_root, root, sizeof(s->signed_root));
	if (name)
		snprintf(s->name, sizeof(s->name), "%.255s", name);
	if (check_resources(doc, id, s))
		return;
	root_of(json_get(json_get(doc, "predicate"), "resources"), want);
	if (strcmp(want, root) != 0)
		say(s, MODEL_SIG_BAD, "its root is not that of its own list");
	else
		s->state = MODEL_SIG_GOOD;
}

static void check_bundle(const struct cJSON *doc, const struct model_identity *id, EVP_PKEY *key,
                         struct model_sig *s)
{
	struct envelope e = { 0 };
	auto_buf body = BUF_INIT(BUNDLE_BYTES_MAX);
	auto_json statement = NULL;
	struct err why = { 0 };
	if (take_envelope(&e, doc, s))
		return;
	if (e.has_certificate && !e.has_key) {
		say(s, MODEL_SIG_KEYLESS,
		    "rests on a certificate (sigstore): its issuer and log are not verified here");
		return;
	}
	if (!key) {
		say(s, MODEL_SIG_NOT_CHECKED, "no key was given to check it with");
		return;
	}
	if (check_envelope(&body, &e, key, s))
		return;
	if (json_parse(&statement, body.p ? body.p : "", body.len, "statement", JSON_STRICT, NULL, &why))
		say(s, MODEL_SIG_BAD, "%.300s", why.msg);
	else
		check_statement(statement, id, s);
}

int model_sig_check(struct model_sig *out, const struct model_identity *id, const char *sig_path,
                    const char *key_path, struct err *err)
{
	struct model_sig s = { 0 };
	struct err why = { 0 };
	EVP_PKEY *key = NULL;
	auto_buf text = BUF_INIT(BUNDLE_BYTES_MAX);
	auto_json doc = NULL;
	if (key_path && read_key(&key, s.key_sha256, key_path, err))
		return -1;
	if (access(sig_path, F_OK) == 0) {
		if (fs_read(&text, sig_path, BUNDLE_BYTES_MAX, err)) {
			EVP_PKEY_free(key);
			return -1;
		}
		if (json_parse(&doc, text.p ? text.p : "", text.len, sig_path, JSON_STRICT, NULL, &why))
			say(&s, MODEL_SIG_BAD, "%.400s", why.msg);
		else
			check_bundle(doc, id, key, &s);
	}
	EVP_PKEY_free(key);
	*out = s;
	return 0;
}
