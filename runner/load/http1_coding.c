/* SPDX-License-Identifier: Apache-2.0 */
/* gzip, deflate and brotli undone. Asked for is identity; some proxies compress all the same. Brotli's
 * library is loaded when such an answer comes: where libcurl is, it mostly is too, and nothing else needs it.
 */
#include "load/http1.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

#define OUT_BYTES (64u << 10)
#define GZIP_WINDOW (MAX_WBITS + 16)
#define RAW_WINDOW (-MAX_WBITS)

enum step {
	STEP_BAD = -1,
	STEP_ON,  /* there may be more in it */
	STEP_END, /* of the compressed data */
};

struct http1_inflate {
	enum http1_coding coding;
	z_stream z;
	void *br;
	bool undecided; /* "deflate" may lack zlib's frame, as some servers send it: two bytes tell */
	size_t n_first;
	char first[2];
	bool ended;
	unsigned char out[OUT_BYTES];
};

/* --- brotli: the C interface of libbrotlidec 1.x ------------------------------------------------------- */

static struct {
	void *lib;
	void *(*create)(void *alloc, void *free, void *ctx);
	int (*step)(void *state, size_t *avail_in, const unsigned char **in, size_t *avail_out,
	            unsigned char **out, size_t *total);
	void (*destroy)(void *state);
	bool usable;
} brotli;
static pthread_once_t brotli_once = PTHREAD_ONCE_INIT;

static bool find_function(void *out, const char *name)
{
	void *f = dlsym(brotli.lib, name);
	*(void **)out = f;
	return f != NULL;
}

static void load_brotli(void)
{
	brotli.lib = dlopen("libbrotlidec.so.1", RTLD_NOW | RTLD_LOCAL);
	brotli.usable = brotli.lib && find_function(&brotli.create, "BrotliDecoderCreateInstance") &&
	                find_function(&brotli.step, "BrotliDecoderDecompressStream") &&
	                find_function(&brotli.destroy, "BrotliDecoderDestroyInstance");
}

static enum step step_brotli(struct http1_inflate *z)
{
	const unsigned char *in = z->z.next_in;
	unsigned char *out = z->out;
	size_t n_in = z->z.avail_in, n_out = OUT_BYTES;
	int rc = brotli.step(z->br, &n_in, &in, &n_out, &out, NULL);
	z->z.next_in = (Bytef *)(uintptr_t)in;
	z->z.avail_in = (uInt)n_in;
	z->z.avail_out = (uInt)n_out;
	return rc == 0 ? STEP_BAD : rc == 1 ? STEP_END : STEP_ON;
}

/* --- zlib ---------------------------------------------------------------------------------------------- */

static enum step step_zlib(struct http1_inflate *z)
{
	z->z.next_out = z->out;
	z->z.avail_out = OUT_BYTES;
	int rc = inflate(&z->z, Z_SYNC_FLUSH);
	return rc == Z_STREAM_END ? STEP_END : rc == Z_OK || rc == Z_BUF_ERROR ? STEP_ON : STEP_BAD;
}

static bool is_zlib(const char first[2])
{
	unsigned a = (unsigned char)first[0], b = (unsigned char)first[1];
	return (a & 0x0F) == Z_DEFLATED && a >> 4 <= 7 && (a << 8 | b) % 31 == 0;
}

/* --- both ---------------------------------------------------------------------------------------------- */

static bool open_coding(struct http1_inflate *z)
{
	if (z->coding == HTTP1_BROTLI)
		return pthread_once(&brotli_once, load_brotli) == 0 && brotli.usable &&
		       (z->br = brotli.create(NULL, NULL, NULL));
	z->undecided = z->coding == HTTP1_DEFLATE;
	return inflateInit2(&z->z, z->coding == HTTP1_GZIP ? GZIP_WINDOW : MAX_WBITS) == Z_OK;
}

struct http1_inflate *http1_inflate_new(enum http1_coding coding)
{
	struct http1_inflate *z = calloc(1, sizeof *z);
	if (!z)
		return NULL;
	z->coding = coding;
	if (!open_coding(z)) {
		free(z);
		return NULL;
	}
	return z;
}

void http1_inflate_free(struct http1_inflate *z)
{
	if (!z)
		return;
	if (z->br)
		brotli.destroy(z->br);
	else
		inflateEnd(&z->z);
	free(z);
}

static int feed(struct http1_inflate *z, const char *bytes, size_t len,
                int (*take)(void *ctx, const char *bytes, size_t len), void *ctx)
{
	if (len == 0)
		return 0;
	if (z->ended || len > UINT32_MAX)
		return -1; /* bytes behind the end of the compressed data */
	z->z.next_in = (Bytef *)(uintptr_t)bytes;
	z->z.avail_in = (uInt)len;
	do {
		enum step step = z->br ? step_brotli(z) : step_zlib(z);
		size_t n = OUT_BYTES - z->z.avail_out;
		if (step == STEP_BAD)
			return -1;
		if (n && take(ctx, (const char *)z->out, n) != 0)
			return 1;
		z->ended = step == STEP_END;
		if (z->ended)
			return z->z.avail_in ? -1 : 0;
	} while (z->z.avail_in || z->z.avail_out == 0);
	return 0;
}

int http1_inflate_feed(struct http1_inflate *z, const char *bytes, size_t len,
                       int (*take)(void *ctx, const char *bytes, size_t len), void *ctx)
{
	while (z->undecided && len) {
		z->first[z->n_first++] = *bytes++;
		len--;
		if (z->n_first < sizeof z->first)
			continue;
		z->undecided = false;
		if (!is_zlib(z->first) && inflateReset2(&z->z, RAW_WINDOW) != Z_OK)
			return -1;
		int rc = feed(z, z->first, sizeof z->first, take, ctx);
		if (rc != 0)
			return rc;
	}
	return feed(z, bytes, len, take, ctx);
}
