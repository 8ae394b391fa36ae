/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF metadata, streamed: strings and arrays that we do not want are skipped, nothing is held that the file
 * does not really contain. */
#include "base/cleanup.h"
#include "cli/init_facts.h"

#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEYS_MAX 65536
#define KEY_BYTES 256
#define NAME_BYTES 1024
#define ARRAY_MAX (UINT64_C(1) << 28)

enum gguf_type { U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64, N_TYPES };
static const uint8_t type_bytes[N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

struct gguf {
	FILE *f;
	uint64_t size; /* of the file */
	bool big_endian;
	bool short_lengths; /* version 1: lengths of 32 bits */
	bool bad;           /* ended early or does not make sense */
};

static uint64_t get(struct gguf *g, unsigned bytes)
{
	unsigned char b[8] = { 0 };
	uint64_t v = 0;

	if (g->bad || fread(b, 1, bytes, g->f) != bytes) {
		g->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)b[i] << 8 * (g->big_endian ? bytes - 1 - i : i);
	return v;
}

static uint64_t get_length(struct gguf *g)
{
	return get(g, g->short_lengths ? 4 : 8);
}

static void skip(struct gguf *g, uint64_t bytes)
{
	off_t at = ftello(g->f);

	if (g->bad || at < 0 || bytes > g->size || (uint64_t)at > g->size - bytes ||
	    fseeko(g->f, (off_t)bytes, SEEK_CUR) < 0)
		g->bad = true;
}

/* The first `size` - 1 bytes of a string; what is longer is skipped. */
static void get_string(struct gguf *g, char *out, size_t size)
{
	uint64_t len = get_length(g);
	size_t take = len < size - 1 ? (size_t)len : size - 1;

	out[0] = '\0';
	if (g->bad || fread(out, 1, take, g->f) != take) {
		g->bad = true;
		return;
	}
	out[take] = '\0';
	skip(g, len - take);
}

static void skip_array(struct gguf *g)
{
	uint64_t type = get(g, 4), n = get_length(g);

	if (type >= N_TYPES || type == ARR || n > ARRAY_MAX) {
		g->bad = true;
	} else if (type != STR) {
		skip(g, n * type_bytes[type]);
	} else {
		for (uint64_t i = 0; i < n && !g->bad; i++)
			skip(g, get_length(g));
	}
}

static void skip_value(struct gguf *g, uint64_t type)
{
	if (type >= N_TYPES)
		g->bad = true;
	else if (type == STR)
		skip(g, get_length(g));
	else if (type == ARR)
		skip_array(g);
	else
		skip(g, type_bytes[type]);
}

static const char *file_type_name(uint64_t type)
{
	static const char *const names[] = {
		[0] = "F32",      [1] = "F16",      [2] = "Q4_0",       [3] = "Q4_1",    [7] = "Q8_0",
		[8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",      [11] = "Q3_K_S", [12] = "Q3_K_M",
		[13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M",    [16] = "Q5_K_S", [17] = "Q5_K_M",
		[18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS",    [21] = "Q2_K_S", [22] = "IQ3_XS",
		[23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL",    [26] = "IQ3_S",  [27] = "IQ3_M",
		[28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS",    [31] = "IQ1_M",  [32] = "BF16",
		[36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4_MOE",
	};
	type &= ~UINT64_C(1024); /* "guessed" flag */
	return type < ARRAY_LEN(names) ? names[type] : NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_count(uint64_t type)
{
	return type == U32 || type == I32 || type == U64 || type == I64 || type == U16;
}

static void read_pair(struct gguf *g, struct gguf_facts *out)
{
	char key[KEY_BYTES], text[NAME_BYTES];

	get_string(g, key, sizeof(key));
	uint64_t type = get(g, 4);
	if (type == STR && (strcmp(key, "general.name") == 0 || strcmp(key, "general.architecture") == 0)) {
		char **slot = key[8] == 'n' ? &out->name : &out->architecture;
		get_string(g, text, sizeof(text));
		if (!*slot && text[0])
			*slot = strdup(text);
	} else if (is_count(type) && strcmp(key, "general.file_type") == 0) {
		out->quantization = file_type_name(get(g, type_bytes[type]));
	} else if (is_count(type) && ends_with(key, ".context_length") && !strstr(key, "rope")) {
		out->context_tok = get(g, type_bytes[type]);
	} else {
		skip_value(g, type);
	}
}

static int read_head(struct gguf *g, uint64_t *n_pairs, const char *path, struct err *err)
{
	char magic[4];

	if (fread(magic, 1, 4, g->f) != 4 || memcmp(magic, "GGUF", 4) != 0)
		return err_set(err, ERR_PLAN, "%s: not a GGUF file (it does not begin with GGUF)", path);
	uint64_t version = get(g, 4);
	g->big_endian = version && (version & 0xffff) == 0;
	if (g->big_endian)
		version = bswap_32((uint32_t)version);
	if (g->bad || version < 1 || version > 3)
		return err_set(err, ERR_PLAN, "%s: GGUF version %" PRIu64 " is not known here, 1 to 3 are",
		               path, version);
	g->short_lengths = version == 1;
	get_length(g); /* tensors */
	*n_pairs = get_length(g);
	if (g->bad || *n_pairs > KEYS_MAX)
		return err_set(err, ERR_PLAN, "%s: the head of the GGUF file is damaged", path);
	return 0;
}

int init_read_gguf(struct gguf_facts *out, const char *path, struct err *err)
{
	auto_file f = fopen(path, "rbe");
	struct gguf g = { .f = f };
	struct gguf_facts facts = { 0 };
	uint64_t n_pairs = 0;

	if (!f)
		return err_sys(err, ERR_ENV, errno, "%s", path);
	if (fseeko(f, 0, SEEK_END) < 0 || ftello(f) < 0)
		return err_sys(err, ERR_ENV, errno, "%s", path);
	g.size = (uint64_t)ftello(f);
	rewind(f);
	if (read_head(&g, &n_pairs, path, err))
		return -1;
	for (uint64_t i = 0; i < n_pairs && !g.bad; i++)
		read_pair(&g, &facts);
	if (g.bad) {
		free(facts.name);
		free(facts.architecture);
		return err_set(err, ERR_PLAN, "%s: the metadata of the GGUF file is damaged or cut off",
		               path);
	}
	*out = facts;
	return 0;
}
