/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pubkey.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <string.h>

bool pubkey_is_p256(EVP_PKEY *key)
{
	char group[64] = "";
	size_t len = 0;
	return EVP_PKEY_is_a(key, "EC") &&
	       EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), &len) ==
	               1 &&
	       (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
}

bool pubkey_id(EVP_PKEY *key, char hex[SHA256_HEX_BYTES])
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(key, &der);
	if (len <= 0)
		return false;
	sha256_hex_of(der, (size_t)len, hex);
	OPENSSL_free(der);
	return true;
}

bool pubkey_verify(EVP_PKEY *key, const EVP_MD *md, const uint8_t *sig, size_t sig_len, const void *data,
                   size_t len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, md, NULL, key) == 1 &&
	            EVP_DigestVerify(ctx, sig, sig_len, data, len) == 1;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return good;
}

int dsse_pae(struct buf *out, const char *type, const void *body, size_t len)
{
	buf_addf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, len);
	return buf_add(out, body, len);
}
