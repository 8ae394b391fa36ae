/* SPDX-License-Identifier: Apache-2.0 */
#include "store/pack.h"

#include "base/cleanup.h"
#include "store/manifest.h"

#include <string.h>
#include <zstd.h>

#define PACK_LEVEL 6

static void free_cctx(ZSTD_CCtx **c)
{
	ZSTD_freeCCtx(*c);
}

int pack_zst(uint8_t **out, size_t *out_len, const void *data, size_t len, struct err *err)
{
	size_t room = ZSTD_compressBound(len);
	auto_free uint8_t *packed = malloc(room);
	__attribute__((cleanup(free_cctx))) ZSTD_CCtx *c = ZSTD_createCCtx();
	if (!packed || !c)
		return err_set(err, ERR_ENV, "bundle: no memory to pack %zu bytes", len);
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, PACK_LEVEL);
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	size_t n = ZSTD_compress2(c, packed, room, data, len);
	if (ZSTD_isError(n))
		return err_set(err, ERR_ENV, "bundle: cannot pack: %s", ZSTD_getErrorName(n));
	*out = NULL;
	*out_len = len;
	if (n >= len || len / PACK_RATIO_MAX > n)
		return 0;
	uint8_t *fit = realloc(packed, n);
	*out = fit ? fit : packed;
	*out_len = n;
	packed = NULL;
	return 0;
}

int unpack_zst(uint8_t **out, const void *data, size_t len, size_t raw_len, const char *name, struct err *err)
{
	static const uint8_t magic[] = { 0x28, 0xb5, 0x2f, 0xfd }; /* not a skippable frame */
	if (len < sizeof(magic) || memcmp(data, magic, sizeof(magic)) != 0 ||
	    ZSTD_findFrameCompressedSize(data, len) != len || ZSTD_getDictID_fromFrame(data, len))
		return err_set(err, ERR_NOT_GENUINE, "%s: is not one zstd frame", name);
	if (ZSTD_getFrameContentSize(data, len) != raw_len)
		return err_set(err, ERR_NOT_GENUINE, "%s: frame does not say the size of the manifest", name);
	auto_free uint8_t *raw = malloc(raw_len + 1);
	if (!raw)
		return err_set(err, ERR_ENV, "%s: no memory for %zu bytes", name, raw_len);
	size_t n = ZSTD_decompress(raw, raw_len, data, len);
	if (ZSTD_isError(n) || n != raw_len)
		return err_set(err, ERR_NOT_GENUINE, "%s: cannot unpack: %s", name,
		               ZSTD_isError(n) ? ZSTD_getErrorName(n) : "too short");
	*out = steal_ptr(&raw);
	return 0;
}
