/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine's start-up log says about its KV cache, in the forms that vLLM, SGLang, TensorRT-LLM and
 * llama.cpp had and have: blocks, tokens with or without thousands commas, the most requests at full length,
 * memory. Colours, process prefixes and time stamps in front do not matter. A line "---" begins a new
 * section, as between two starts. Pure, linear in the text; lines are read up to ENGINE_LOG_LINE_BYTES, the
 * rest of a line is passed over.
 *
 * Lines of the same process: the last counts. Tokens told by several processes: the fewest, for the least of
 * them bounds the engine. Memory told by workers of one engine (tensor parallel): their sum, so that bytes
 * per token are the whole model's.
 */
#ifndef MODEL_ENGINE_LOG_H
#define MODEL_ENGINE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_LOG_LINE_BYTES 16384
#define ENGINE_LOG_NONE UINT64_MAX      /* not in the log */
#define ENGINE_LOG_BLOCK_TOK_DEFAULT 16 /* vLLM's block size where the log names none */
#define ENGINE_LOG_AGREE_SHARE .01      /* tokens against concurrency x length; or what rounding explains */

enum engine_log_from {
	LOG_TOKENS_UNKNOWN,
	LOG_TOKENS_TOLD,
	LOG_TOKENS_BLOCKS,         /* blocks x the block size in the log */
	LOG_TOKENS_BLOCKS_DEFAULT, /* blocks x the default block size, which is an assumption */
};

enum engine_log_agree { LOG_AGREE_UNKNOWN, LOG_AGREE_YES, LOG_AGREE_NO };

struct engine_log_kv {
	uint64_t gpu_blocks, block_tok;
	uint64_t tokens; /* as the log has it, also when that contradicts itself */
	enum engine_log_from tokens_from;
	uint64_t max_len_tok;   /* of one request */
	double concurrency;     /* requests of that length that fit; NAN = not told */
	double concurrency_ulp; /* half of its last digit */
	double available_gib;   /* memory of the cache; NAN = not told */
	uint64_t tokens_by_concurrency;
	/* YES: what the log tells twice agrees. NO: the capacity is unknown, and bytes_per_tok is not
	 * derived. */
	enum engine_log_agree consistent;
	uint64_t capacity_tok;  /* `tokens` unless that is contradicted */
	double bytes_per_tok;   /* NAN = unknown */
	char matches_model[64]; /* a well-known model with that size of cache, "" = none; a hint for readers,
	                           no fact */
};

/* Fills at most `max` sections; returns how many the text has. */
size_t engine_log_kv_read(struct engine_log_kv *out, size_t max, const char *text, size_t len);

#endif
