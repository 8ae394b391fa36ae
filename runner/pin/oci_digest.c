/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "pin/oci.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct algorithm {
	const char *prefix;
	size_t n_hex;
};
static const struct algorithm algorithms[] = { { "sha256:", 64 }, { "sha512:", 128 } };

static const char *hex_fault(const char *hex, size_t want)
{
	size_t n = strlen(hex);
	for (size_t i = 0; i < n; i++)
		if (hex[i] >= 'A' && hex[i] <= 'F')
			return "not in canonical form (hex must be lower case)";
	if (n != want)
		return "has the wrong length";
	return strspn(hex, "0123456789abcdef") == n ? NULL : "holds other than hex digits";
}

const char *oci_digest_fault(const char *text)
{
	if (!text || !text[0])
		return "is empty";
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		size_t n = strlen(algorithms[i].prefix);
		if (strncmp(text, algorithms[i].prefix, n) == 0)
			return hex_fault(text + n, algorithms[i].n_hex);
	}
	return strchr(text, ':') ? "is of an algorithm that is not supported (want sha256 or sha512)"
	                         : "has no algorithm in front";
}

struct oci_hash {
	struct sha256 *sha256;
	EVP_MD_CTX *sha512; /* NULL = not asked for */
};

struct oci_hash *oci_hash_new(bool also_sha512)
{
	struct oci_hash *h = calloc(1, sizeof(*h));
	if (!h)
		abort();
	h->sha256 = sha256_new();
	if (!also_sha512)
		return h;
	h->sha512 = EVP_MD_CTX_new();
	if (!h->sha512 || EVP_DigestInit_ex(h->sha512, EVP_sha512(), NULL) != 1)
		abort();
	return h;
}

void oci_hash_free(struct oci_hash *h)
{
	if (!h)
		return;
	sha256_free(h->sha256);
	EVP_MD_CTX_free(h->sha512);
	free(h);
}

void oci_hash_add(struct oci_hash *h, const void *data, size_t len)
{
	sha256_add(h->sha256, data, len);
	if (h->sha512 && EVP_DigestUpdate(h->sha512, data, len) != 1)
		abort();
}

void oci_hash_end(struct oci_hash *h, const char *like, char out[OCI_DIGEST_BYTES])
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	unsigned n = SHA256_BYTES;
	bool is_512 = h->sha512 && like && strncmp(like, "sha512:", 7) == 0;
	if (!is_512)
		sha256_end(h->sha256, sum);
	else if (EVP_DigestFinal_ex(h->sha512, sum, &n) != 1)
		abort();
	memcpy(out, is_512 ? "sha512:" : "sha256:", 7);
	hex_encode(sum, n, out + 7);
}

void oci_digest_of(char out[OCI_DIGEST_BYTES], const void *data, size_t len, const char *like)
{
	struct oci_hash *h = oci_hash_new(like && strncmp(like, "sha512:", 7) == 0);
	oci_hash_add(h, data, len);
	oci_hash_end(h, like, out);
	oci_hash_free(h);
}
