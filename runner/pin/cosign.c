/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/cosign.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/json_in.h"
#include "base/pubkey.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define KEY_BYTES_MAX (64u << 10)
#define SIGNATURE_BYTES_MAX 256
#define IN_TOTO "application/vnd.in-toto+json"

struct cosign_key {
	EVP_PKEY *pkey;
	bool is_ed25519;
	char id[SHA256_HEX_BYTES];
};

void cosign_key_free(struct cosign_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	free(k);
}

const char *cosign_key_id(const struct cosign_key *k)
{
	return k->id;
}

int cosign_key_parse(struct cosign_key **out, const char *pem, size_t len, const char *name, struct err *err)
{
	BIO *bio = len < KEY_BYTES_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
	EVP_PKEY *pkey = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	BIO_free_all(bio);
	ERR_clear_error();
	if (!pkey)
		return err_set(err, ERR_PLAN, "%s: holds no public key in PEM (\"BEGIN PUBLIC KEY\")", name);
	struct cosign_key *k = calloc(1, sizeof(*k));
	if (!k) {
		EVP_PKEY_free(pkey);
		return err_set(err, ERR_ENV, "%s: no memory", name);
	}
	k->pkey = pkey;
	k->is_ed25519 = EVP_PKEY_is_a(pkey, "ED25519");
	if ((k->is_ed25519 || pubkey_is_p256(pkey)) && pubkey_id(pkey, k->id)) {
		*out = k;
		return 0;
	}
	const char *got = EVP_PKEY_get0_type_name(pkey);
	err_set(err, ERR_PLAN, "%s: want an ECDSA P-256 or Ed25519 key, got %s", name, got ? got : "another");
	cosign_key_free(k);
	return -1;
}

int cosign_key_load(struct cosign_key **out, const char *path, struct err *err)
{
	auto_buf text = BUF_INIT(KEY_BYTES_MAX);
	if (fs_read(&text, path, KEY_BYTES_MAX, err)) {
		err->cls = ERR_PLAN;
		return -1;
	}
	bool is_private = text.p && strstr(text.p, "PRIVATE KEY-----");
	int rc = is_private ? err_set(err, ERR_PLAN, "%s: holds a private key; want its public half", path)
	                    : cosign_key_parse(out, text.p ? text.p : "", text.len, path, err);
	if (text.p)
		explicit_bzero(text.p, text.cap);
	return rc;
}

static bool good_signature(const struct cosign_key *k, const char *base64, const void *data, size_t len)
{
	size_t n = 0;
	auto_free uint8_t *sig = base64_decode(base64, strlen(base64), true, &n);
	return sig && n <= SIGNATURE_BYTES_MAX &&
	       pubkey_verify(k->pkey, k->is_ed25519 ? NULL : EVP_sha256(), sig, n, data, len);
}

/* --- simple signing ------------------------------------------------------------------------------------- */

static const char *payload_says(const struct cJSON *doc, const char *digest)
{
	const struct cJSON *critical = json_get(doc, "critical");
	const char *type = json_str(critical, "type");
	const char *named = json_str(json_get(critical, "image"), "docker-manifest-digest");
	if (!type || strcmp(type, "cosign container image signature") != 0)
		return "the signed payload is not for a container image";
	if (!named || strcmp(named, digest) != 0)
		return "the signed payload names another digest";
	return NULL;
}

const char *cosign_payload_fault(const struct cosign_key *k, const char *signature, const void *payload,
                                 size_t len, const char *digest)
{
	auto_json doc = NULL;
	struct err hidden;
	if (len > COSIGN_PAYLOAD_BYTES_MAX)
		return "the payload is too long";
	if (!good_signature(k, signature, payload, len))
		return "the signature is not by the required key";
	if (json_parse(&doc, payload, len, "payload", JSON_STRICT, NULL, &hidden))
		return "the signed payload is no JSON";
	return payload_says(doc, digest);
}

/* --- bundles -------------------------------------------------------------------------------------------- */

static const char *statement_says(const void *text, size_t len, const char *digest)
{
	auto_json doc = NULL;
	struct err hidden;
	const struct cJSON *s;
	if (json_parse(&doc, text, len, "statement", JSON_STRICT, NULL, &hidden))
		return "the signed statement is no JSON";
	const char *predicate = json_str(doc, "predicateType");
	if (!predicate || strcmp(predicate, "https://sigstore.dev/cosign/sign/v1") != 0)
		return "the signed statement is no signature of an image";
	cJSON_ArrayForEach(s, json_get(doc, "subject"))
	{
		const char *hex = json_str(json_get(s, "digest"), "sha256");
		if (hex && strncmp(digest, "sha256:", 7) == 0 && strcmp(hex, digest + 7) == 0)
			return NULL;
	}
	return "the signed statement names another digest";
}

static const char *envelope_fault(const struct cosign_key *k, const struct cJSON *env, const char *digest)
{
	auto_buf signed_bytes = BUF_INIT(COSIGN_BUNDLE_BYTES_MAX * 2);
	const struct cJSON *sigs = json_get(env, "signatures");
	const char *payload = json_str(env, "payload"), *type = json_str(env, "payloadType");
	if (!payload || !type || strcmp(type, IN_TOTO) != 0 || !cJSON_IsArray(sigs) ||
	    cJSON_GetArraySize(sigs) != 1)
		return "the bundle holds no in-toto statement with exactly one signature";
	const char *sig = json_str(sigs->child, "sig");
	size_t n = 0;
	uint8_t *raw = base64_decode(payload, strlen(payload), true, &n);
	const char *fault = "the signature is not by the required key";
	if (raw && sig) {
		dsse_pae(&signed_bytes, type, raw, n);
		if (!signed_bytes.failed && good_signature(k, sig, signed_bytes.p, signed_bytes.len))
			fault = statement_says(raw, n, digest);
	}
	free(raw);
	return fault;
}

const char *cosign_bundle_fault(const struct cosign_key *k, const void *bundle, size_t len,
                                const char *digest)
{
	auto_json doc = NULL;
	struct err hidden;
	if (len > COSIGN_BUNDLE_BYTES_MAX ||
	    json_parse(&doc, bundle, len, "bundle", JSON_STRICT, NULL, &hidden))
		return "the bundle is no JSON";
	const char *type = json_str(doc, "mediaType");
	if (!type || strncmp(type, COSIGN_TYPE_BUNDLE, strlen(COSIGN_TYPE_BUNDLE)) != 0)
		return "the bundle is of another type";
	return envelope_fault(k, json_get(doc, "dsseEnvelope"), digest);
}

void cosign_tag(char out[OCI_DIGEST_BYTES + 8], const char *digest)
{
	snprintf(out, OCI_DIGEST_BYTES + 8, "%s.sig", digest);
	char *colon = strchr(out, ':');
	if (colon)
		*colon = '-';
}
