/* SPDX-License-Identifier: Apache-2.0 */
#include "model/engine_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0
#define MIB_PER_GIB 1024.0
#define SOURCES_MAX 256
#define SOURCE_BYTES 48
#define COUNT_MAX 1000000000000000ull

/* One process that writes into the log. */
struct source {
	char name[SOURCE_BYTES]; /* "Worker_TP0 pid=7", "TP1"; "" = lines without a name */
	uint64_t tokens;
	double gib;
};

struct section {
	struct engine_log_kv kv;
	size_t n_sources;
	struct source sources[SOURCES_MAX];
	uint64_t tokens_again; /* SGLang tells them twice */
	uint64_t n_caches;     /* llama.cpp: a model may have two, of different lengths */
	bool any;
};

/* --- numbers ------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A whole number, with or without commas between groups of three. NULL when there is none, or it is too
 * large. */
static const char *whole(const char *p, uint64_t *out)
{
	uint64_t v = 0;
	if (!is_digit(*p))
		return NULL;
	while (is_digit(*p) ||
	       (*p == ',' && is_digit(p[1]) && is_digit(p[2]) && is_digit(p[3]) && !is_digit(p[4]))) {
		if (*p != ',')
			v = v * 10 + (uint64_t)(*p - '0');
		if (v > COUNT_MAX)
			return NULL;
		p++;
	}
	*out = v;
	return p;
}

/* A number with at most 9 decimals; *ulp is half of its last digit. */
static const char *decimal(const char *p, double *out, double *ulp)
{
	uint64_t v;
	double part = 0, unit = 1;
	p = whole(p, &v);
	if (!p)
		return NULL;
	if (*p == '.' && is_digit(p[1])) {
		for (p++; is_digit(*p); p++) {
			if (unit < 1e-8)
				continue;
			unit /= 10;
			part += unit * (*p - '0');
		}
	}
	*out = (double)v + part;
	*ulp = unit / 2;
	return p;
}

static const char *blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* Behind `words` and the blanks that follow; NULL = not in the line. */
static const char *behind(const char *line, const char *words)
{
	const char *p = strstr(line, words);
	return p ? blanks(p + strlen(words)) : NULL;
}

static bool count_behind(const char *line, const char *words, uint64_t *out)
{
	const char *p = behind(line, words);
	return p && whole(p, out);
}

/* "n_ctx         = 4096": the name as a word, blanks, an equals sign. */
static bool count_of_name(const char *line, const char *name, uint64_t *out)
{
	const char *p = line;
	size_t n = strlen(name);
	while ((p = strstr(p, name))) {
		bool word = p == line || strchr(" \t:,({", p[-1]);
		p += n;
		const char *q = blanks(p);
		if (word && *q == '=')
			return whole(blanks(q + 1), out) != NULL;
	}
	return false;
}

static double gib_of(double v, const char *unit)
{
	unit = blanks(unit);
	if (strncmp(unit, "GiB", 3) == 0 || strncmp(unit, "GB", 2) == 0)
		return v; /* engines that write GB here divide by 2^30 */
	if (strncmp(unit, "MiB", 3) == 0 || strncmp(unit, "MB", 2) == 0)
		return v / MIB_PER_GIB;
	return (double)NAN;
}

static bool gib_behind(const char *line, const char *words, double *out)
{
	double v, ulp;
	const char *p = behind(line, words);
	p = p ? decimal(p, &v, &ulp) : NULL;
	if (!p || isnan(gib_of(v, p)))
		return false;
	*out = gib_of(v, p);
	return true;
}

/* --- who says it --------------------------------------------------------------------------------------- */

static void source_name(char out[SOURCE_BYTES], const char *line)
{
	const char *pid = strstr(line, " pid="), *from = pid;
	out[0] = '\0';
	if (pid) {
		while (from > line && from[-1] != '(' && pid - from < SOURCE_BYTES / 2)
			from--;
		snprintf(out, SOURCE_BYTES, "%.*s", (int)strcspn(from, ")"), from);
	} else if (line[0] == '[') { /* "[2026-03-11 13:53:23 DP0 TP1] " */
		const char *close = strchr(line, ']'), *rank = strstr(line, " TP");
		if (close && rank && rank < close)
			snprintf(out, SOURCE_BYTES, "%.*s", (int)strspn(rank + 1, "TP0123456789"), rank + 1);
	}
}

static struct source *source_of(struct section *s, const char *line)
{
	char name[SOURCE_BYTES];
	source_name(name, line);
	for (size_t i = 0; i < s->n_sources; i++) {
		if (strcmp(s->sources[i].name, name) == 0)
			return &s->sources[i];
	}
	if (s->n_sources == SOURCES_MAX)
		return &s->sources[SOURCES_MAX - 1];
	struct source *src = &s->sources[s->n_sources++];
	*src = (struct source){ .tokens = ENGINE_LOG_NONE, .gib = (double)NAN };
	memcpy(src->name, name, sizeof name);
	return src;
}

/* --- the lines ----------------------------------------------------------------------------------------- */

static void vllm_line(struct section *s, const char *line)
{
	static const char *const blocks[] = { "# GPU blocks:", "# cuda blocks:", "# CUDA blocks:",
		                              "num_gpu_blocks:", "num_gpu_blocks is:" };
	static const char *const memory[] = { "Available KV cache memory:", "reserved for KV Cache is",
		                              "Reserved KV cache memory:" };
	struct engine_log_kv *kv = &s->kv;
	uint64_t n;
	double gib;
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
		count_behind(line, blocks[i], &kv->gpu_blocks);
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
		if (gib_behind(line, memory[i], &gib))
			source_of(s, line)->gib = gib;
	}
	if (count_behind(line, "KV cache size:", &n) && strstr(line, "tokens"))
		source_of(s, line)->tokens = n;
	const char *p = behind(line, "Maximum concurrency for");
	if (p && (p = whole(p, &n)) && (p = behind(p, "per request:"))) {
		kv->max_len_tok = n;
		decimal(p, &kv->concurrency, &kv->concurrency_ulp);
	}
	p = strstr(line, "block_size");
	if (p && whole(p + 10 + strspn(p + 10, "'\"=: "), &n) && n)
		kv->block_tok = n;
	if (count_behind(line, "attention block size to", &n) && n)
		kv->block_tok = n;
}

static void sglang_line(struct section *s, const char *line)
{
	uint64_t n;
	double k, v;
	const char *p = strstr(line, "KV Cache is allocated");
	if (p) {
		struct source *src = source_of(s, line);
		bool both = gib_behind(p, "K size:", &k) && gib_behind(p, ", V size:", &v);
		if (!both)
			both = gib_behind(p, "KV size:", &k) && (v = 0, true);
		/* a draft model's cache is the smaller one */
		if (count_behind(p, "#tokens:", &n) && both && !(src->gib >= k + v)) {
			src->gib = k + v;
			s->tokens_again = n;
		}
	}
	if (count_of_name(line, "max_total_num_tokens", &n)) {
		source_of(s, line)->tokens = n;
		count_of_name(line, "context_len", &s->kv.max_len_tok);
	}
}

/* "Allocated 12.50 GiB for max tokens in paged KV cache (102400)" */
static void trtllm_line(struct section *s, const char *line)
{
	uint64_t n;
	double gib;
	if (count_behind(line, "max tokens in paged KV cache (", &n) && gib_behind(line, "Allocated", &gib)) {
		source_of(s, line)->tokens = n;
		source_of(s, line)->gib = gib;
	}
	if (count_behind(line, "tokens per block=", &n) && n)
		s->kv.block_tok = n;
	count_behind(line, "primary blocks=", &s->kv.gpu_blocks);
}

/* "size = 512.00 MiB ( 4096 cells, 32 layers, 4/4 seqs), …": cells of each of the streams behind the slash.
 */
static void llamacpp_cache(struct section *s, const char *line, const char *size)
{
	uint64_t cells, streams = 1, ignored;
	double gib;
	const char *p = strchr(size, '(');
	if (!gib_behind(size, "size =", &gib) || !p || !(p = whole(blanks(p + 1), &cells)) ||
	    strncmp(p, " cells", 6) != 0 || cells == 0)
		return;
	const char *layers = behind(p, "layers,"), *slash = layers ? whole(layers, &ignored) : NULL;
	if (slash && *slash == '/' &&
	    (!whole(slash + 1, &streams) || streams == 0 || streams > COUNT_MAX / cells))
		return;
	struct source *src = source_of(s, line);
	src->tokens = src->tokens == ENGINE_LOG_NONE || src->tokens < cells * streams ? cells * streams
	                                                                              : src->tokens;
	src->gib = gib;
	s->n_caches++;
}

static void llamacpp_line(struct section *s, const char *line)
{
	struct engine_log_kv *kv = &s->kv;
	uint64_t n;
	double gib;
	const char *cache = strstr(line, "llama_kv_cache"), *size = cache ? strstr(cache, "size =") : NULL;
	if (size)
		llamacpp_cache(s, line, size);
	if (gib_behind(line, "KV self size  =", &gib) && s->n_caches == 0)
		source_of(s, line)->gib = gib;
	if (count_of_name(line, "kv_size", &n) && s->n_caches == 0)
		source_of(s, line)->tokens = n;
	if (count_of_name(line, "n_ctx_per_seq", &n) || count_of_name(line, "n_ctx_seq", &n))
		kv->max_len_tok = n;
}

static bool is_break(const char *line)
{
	line = blanks(line);
	return strncmp(line, "---", 3) == 0 && *blanks(line + 3 + strspn(line + 3, "-")) == '\0';
}

/* Without escape sequences of a terminal (CSI … final byte, or two bytes) and NULs. */
static void strip(char out[ENGINE_LOG_LINE_BYTES], const char *p, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len && n < ENGINE_LOG_LINE_BYTES - 1; i++) {
		if (p[i] != '\x1b') {
			if (p[i])
				out[n++] = p[i];
			continue;
		}
		if (++i < len && p[i] == '[') {
			for (i++; i < len && !(p[i] >= '@' && p[i] <= '~');)
				i++;
		}
	}
	out[n] = '\0';
}

/* --- what it comes to ---------------------------------------------------------------------------------- */

static void add_up(struct section *s)
{
	struct engine_log_kv *kv = &s->kv;
	bool workers = false;
	double sum = 0, last = (double)NAN;
	for (size_t i = 0; i < s->n_sources; i++) {
		const struct source *src = &s->sources[i];
		if (src->tokens != ENGINE_LOG_NONE &&
		    (kv->tokens == ENGINE_LOG_NONE || src->tokens < kv->tokens)) {
			kv->tokens = src->tokens;
			kv->tokens_from = LOG_TOKENS_TOLD;
		}
		if (isnan(src->gib))
			continue;
		last = src->gib;
		workers |= strstr(src->name, "Worker") || strstr(src->name, "TP");
		if (!strstr(src->name, "EngineCore"))
			sum += src->gib;
	}
	kv->available_gib = workers ? sum : last;
}

static void blocks_to_tokens(struct engine_log_kv *kv)
{
	if (kv->tokens != ENGINE_LOG_NONE || kv->gpu_blocks == ENGINE_LOG_NONE)
		return;
	bool told = kv->block_tok != ENGINE_LOG_NONE;
	uint64_t block = told ? kv->block_tok : ENGINE_LOG_BLOCK_TOK_DEFAULT;
	if (block > 1000000 || kv->gpu_blocks > COUNT_MAX / 1000000)
		return;
	kv->tokens = kv->gpu_blocks * block;
	kv->tokens_from = told ? LOG_TOKENS_BLOCKS : LOG_TOKENS_BLOCKS_DEFAULT;
}

static void compare(struct section *s)
{
	struct engine_log_kv *kv = &s->kv;
	if (kv->tokens == ENGINE_LOG_NONE)
		return;
	if (s->tokens_again != ENGINE_LOG_NONE)
		kv->consistent = s->tokens_again == kv->tokens ? LOG_AGREE_YES : LOG_AGREE_NO;
	if (kv->max_len_tok == ENGINE_LOG_NONE || isnan(kv->concurrency) || kv->concurrency <= 0)
		return;
	double len = (double)kv->max_len_tok, by = kv->concurrency * len, share = ENGINE_LOG_AGREE_SHARE;
	double off = fabs((double)kv->tokens - by), rounding = kv->concurrency_ulp * len;
	if (by < 1e15)
		kv->tokens_by_concurrency = (uint64_t)llround(by);
	if (off > share * by && off > rounding)
		kv->consistent = LOG_AGREE_NO;
	else if (kv->consistent == LOG_AGREE_UNKNOWN)
		kv->consistent = LOG_AGREE_YES;
}

/* Bytes per token in 16 bit = 2 (K and V) x layers x KV heads x head size x 2. Of models with the same size
 * the most common is named. */
static void match_model(struct engine_log_kv *kv)
{
	static const struct {
		const char *name;
		unsigned layers, kv_heads, head;
	} known[] = {
		{ "Llama-70B", 80, 8, 128 },     { "Llama-8B", 32, 8, 128 },
		{ "Llama-405B", 126, 8, 128 },   { "Llama-3.2-3B", 28, 8, 128 },
		{ "Llama-3.2-1B", 16, 8, 64 },   { "Llama-2-7B", 32, 32, 128 },
		{ "Llama-2-13B", 40, 40, 128 },  { "Qwen2.5-7B", 28, 4, 128 },
		{ "Qwen2.5-14B", 48, 8, 128 },   { "Qwen2.5-32B", 64, 8, 128 },
		{ "Qwen3-8B", 36, 8, 128 },      { "Qwen3-14B", 40, 8, 128 },
		{ "Qwen3-30B-A3B", 48, 4, 128 }, { "Mixtral-8x22B", 56, 8, 128 },
		{ "Qwen2.5-0.5B", 24, 2, 64 },
	};
	for (unsigned bits = 16; bits >= 8; bits /= 2) {
		for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
			unsigned bytes = 2 * known[i].layers * known[i].kv_heads * known[i].head * bits / 8;
			if (fabs(kv->bytes_per_tok / bytes - 1) > .001)
				continue;
			snprintf(kv->matches_model, sizeof kv->matches_model,
			         "%s, %u bytes per token in %u bit", known[i].name, bytes, bits);
			return;
		}
	}
}

static void finish(struct section *s)
{
	struct engine_log_kv *kv = &s->kv;
	add_up(s);
	blocks_to_tokens(kv);
	compare(s);
	if (kv->consistent == LOG_AGREE_NO || kv->tokens == ENGINE_LOG_NONE)
		return;
	kv->capacity_tok = kv->tokens;
	if (kv->tokens == 0 || isnan(kv->available_gib) || s->n_caches > 1)
		return;
	kv->bytes_per_tok = kv->available_gib * GIB / (double)kv->tokens;
	match_model(kv);
}

static void begin(struct section *s)
{
	s->kv = (struct engine_log_kv){ .gpu_blocks = ENGINE_LOG_NONE,
		                        .block_tok = ENGINE_LOG_NONE,
		                        .tokens = ENGINE_LOG_NONE,
		                        .max_len_tok = ENGINE_LOG_NONE,
		                        .tokens_by_concurrency = ENGINE_LOG_NONE,
		                        .capacity_tok = ENGINE_LOG_NONE,
		                        .concurrency = (double)NAN,
		                        .available_gib = (double)NAN,
		                        .bytes_per_tok = (double)NAN };
	s->n_sources = s->n_caches = 0;
	s->tokens_again = ENGINE_LOG_NONE;
	s->any = false;
}

static void end_section(struct section *s, struct engine_log_kv *out, size_t max, size_t *n)
{
	if (!s->any)
		return;
	finish(s);
	if (*n < max)
		out[*n] = s->kv;
	++*n;
	begin(s);
}

size_t engine_log_kv_read(struct engine_log_kv *out, size_t max, const char *text, size_t len)
{
	struct work {
		struct section section;
		char line[ENGINE_LOG_LINE_BYTES];
	} *w = calloc(1, sizeof *w);
	size_t n = 0;
	if (!w)
		return 0;
	begin(&w->section);
	for (size_t at = 0, stop; at < len; at = stop + 1) {
		for (stop = at; stop < len && text[stop] != '\n' && text[stop] != '\r';)
			stop++;
		strip(w->line, text + at, stop - at);
		if (is_break(w->line)) {
			end_section(&w->section, out, max, &n);
			continue;
		}
		w->section.any |= *blanks(w->line) != '\0';
		vllm_line(&w->section, w->line);
		sglang_line(&w->section, w->line);
		trtllm_line(&w->section, w->line);
		llamacpp_line(&w->section, w->line);
	}
	end_section(&w->section, out, max, &n);
	free(w);
	return n;
}
