/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>

struct sha256 {
	EVP_MD_CTX *ctx;
};

static void must(int ok)
{
	if (ok != 1)
		abort();
}

struct sha256 *sha256_new(void)
{
	struct sha256 *h = calloc(1, sizeof(*h));
	must(h != NULL);
	h->ctx = EVP_MD_CTX_new();
	must(h->ctx != NULL);
	must(EVP_DigestInit_ex2(h->ctx, EVP_sha256(), NULL));
	return h;
}

void sha256_free(struct sha256 *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

void sha256_add(struct sha256 *h, const void *data, size_t len)
{
	must(EVP_DigestUpdate(h->ctx, data, len));
}

void sha256_end(struct sha256 *h, uint8_t out[SHA256_BYTES])
{
	must(EVP_DigestFinal_ex(h->ctx, out, NULL));
	must(EVP_DigestInit_ex2(h->ctx, EVP_sha256(), NULL));
}

void sha256_of(const void *data, size_t len, uint8_t out[SHA256_BYTES])
{
	must(EVP_Digest(data, len, out, NULL, EVP_sha256(), NULL));
}

void hex_encode(const uint8_t *data, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[data[i] >> 4];
		out[2 * i + 1] = digits[data[i] & 15];
	}
	out[2 * len] = '\0';
}

void sha256_hex_of(const void *data, size_t len, char hex[SHA256_HEX_BYTES])
{
	uint8_t raw[SHA256_BYTES];
	sha256_of(data, len, raw);
	hex_encode(raw, sizeof(raw), hex);
}

bool sha256_hex_ok(const char *hex)
{
	return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

int sha256_fd(char hex[SHA256_HEX_BYTES], uint64_t *n_bytes, int fd, const char *name, struct err *err)
{
	enum { CHUNK_BYTES = 1 << 20 };
	auto_free char *chunk = malloc(CHUNK_BYTES);
	must(chunk != NULL);
	struct sha256 *h = sha256_new();
	uint64_t at = 0;
	for (;;) {
		ssize_t n = pread(fd, chunk, CHUNK_BYTES, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			sha256_free(h);
			return err_sys(err, ERR_ENV, errno, "%s: cannot read at byte %llu", name,
			               (unsigned long long)at);
		}
		if (n == 0)
			break;
		sha256_add(h, chunk, (size_t)n);
		at += (uint64_t)n;
	}
	uint8_t raw[SHA256_BYTES];
	sha256_end(h, raw);
	sha256_free(h);
	hex_encode(raw, sizeof(raw), hex);
	if (n_bytes)
		*n_bytes = at;
	return 0;
}

int sha256_file(char hex[SHA256_HEX_BYTES], uint64_t *n_bytes, const char *path, struct err *err)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	return sha256_fd(hex, n_bytes, fd, path, err);
}

char *base64_encode(const void *data, size_t len)
{
	char *out = malloc((len + 2) / 3 * 4 + 1);
	must(out != NULL);
	EVP_EncodeBlock((unsigned char *)out, data, (int)len);
	return out;
}

static int digit_of(char c, bool url_safe_too)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || (url_safe_too && c == '-'))
		return 62;
	if (c == '/' || (url_safe_too && c == '_'))
		return 63;
	return -1;
}

uint8_t *base64_decode(const char *text, size_t len, bool url_safe_too, size_t *n_out)
{
	size_t n = len;
	while (n > 0 && len - n < 2 && text[n - 1] == '=')
		n--;
	bool padded = n != len;
	if (n % 4 == 1 || ((padded || !url_safe_too) && len % 4 != 0))
		return NULL;
	uint8_t *out = malloc(n / 4 * 3 + 3);
	must(out != NULL);
	uint32_t acc = 0;
	unsigned bits = 0;
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		int d = digit_of(text[i], url_safe_too);
		if (d < 0)
			goto bad;
		acc = (acc << 6 | (uint32_t)d) & 0xffffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[at++] = (uint8_t)(acc >> bits);
		}
	}
	if (acc & ((1u << bits) - 1)) /* spare bits must be zero: one text for one value */
		goto bad;
	*n_out = at;
	return out;
bad:
	free(out);
	return NULL;
}
