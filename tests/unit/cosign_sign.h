/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and signatures as cosign makes them, for tests. */
#ifndef TESTS_COSIGN_SIGN_H
#define TESTS_COSIGN_SIGN_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

struct test_key {
	EVP_PKEY *pkey;
	bool plain; /* Ed25519: no digest of its own */
	char *pem;  /* public half */
};

/* "P-256", "P-384", "ED25519", "RSA" */
static inline void test_key_make(struct test_key *k, const char *kind)
{
	k->plain = strcmp(kind, "ED25519") == 0;
	k->pkey = k->plain                   ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")
	          : strcmp(kind, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048)
	                                     : EVP_PKEY_Q_keygen(NULL, NULL, "EC", kind);
	BIO *b = BIO_new(BIO_s_mem());
	char *data;
	assert(k->pkey && b && PEM_write_bio_PUBKEY(b, k->pkey) == 1);
	long len = BIO_get_mem_data(b, &data);
	k->pem = strndup(data, (size_t)len);
	BIO_free(b);
}

static inline void test_key_done(struct test_key *k)
{
	EVP_PKEY_free(k->pkey);
	free(k->pem);
}

/* Base64, malloc'd. */
static inline char *test_key_sign(const struct test_key *k, const void *data, size_t len)
{
	uint8_t sig[512];
	size_t n = sizeof(sig);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	assert(EVP_DigestSignInit(ctx, NULL, k->plain ? NULL : EVP_sha256(), NULL, k->pkey) == 1 &&
	       EVP_DigestSign(ctx, sig, &n, data, len) == 1);
	EVP_MD_CTX_free(ctx);
	return base64_encode(sig, n);
}

static inline char *cosign_payload(const char *digest, const char *type)
{
	return str_fmt("{\"critical\":{\"identity\":{\"docker-reference\":\"x\"},\"image\":{\"docker-"
	               "manifest-digest\":"
	               "\"%s\"},\"type\":\"%s\"},\"optional\":null}",
	               digest, type);
}
#define COSIGN_IMAGE_TYPE "cosign container image signature"

/* A bundle as cosign 3 writes it with a key. `n_signatures` 1 is right. */
static inline char *cosign_bundle(const struct test_key *k, const char *hex, const char *predicate,
                                  int n_signatures)
{
	char *statement =
		str_fmt("{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"digest\":{\"sha256\":"
	                "\"%s\"}}],\"predicateType\":\"%s\",\"predicate\":{}}",
	                hex, predicate);
	char *pae = str_fmt("DSSEv1 28 application/vnd.in-toto+json %zu %s", strlen(statement), statement);
	char *sig = test_key_sign(k, pae, strlen(pae)),
	     *payload = base64_encode(statement, strlen(statement));
	char *one = str_fmt("{\"sig\":\"%s\"}", sig);
	char *out = str_fmt(
		"{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\",\"verificationMaterial\":"
		"{},\"dsseEnvelope\":{\"payload\":\"%s\",\"payloadType\":"
		"\"application/vnd.in-toto+json\",\"signatures\":[%s%s%s]}}",
		payload, one, n_signatures > 1 ? "," : "", n_signatures > 1 ? one : "");
	free(statement);
	free(pae);
	free(sig);
	free(payload);
	free(one);
	return out;
}
#define COSIGN_PREDICATE "https://sigstore.dev/cosign/sign/v1"

#endif
