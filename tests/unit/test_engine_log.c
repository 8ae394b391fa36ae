/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/engine_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNKNOWN ((double)NAN)
#define LEN(a) (sizeof(a) / sizeof *(a))
#define NONE ENGINE_LOG_NONE

static const struct {
	const char *log;
	uint64_t blocks, tokens, max_len, capacity;
	double concurrency, gib, bytes;
	enum engine_log_from from;
	enum engine_log_agree agree;
	const char *model;
} rows[] = {
	{ "INFO x.py:1] # GPU blocks: 500, # CPU blocks: 2048\nMaximum concurrency for 4000 tokens per "
	  "request: 2.00x",
	  500, 8000, 4000, 8000, 2, UNKNOWN, UNKNOWN, LOG_TOKENS_BLOCKS_DEFAULT, LOG_AGREE_YES, "" },
	{ "args: {'block_size': 32}\n# cuda blocks: 500, # CPU blocks: 2048\n", 500, 16000, NONE, 16000,
	  UNKNOWN, UNKNOWN, UNKNOWN, LOG_TOKENS_BLOCKS, LOG_AGREE_UNKNOWN, "" },
	{ "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m INFO GPU KV cache size: \x1b[1m1,000,000\x1b[0m tokens\r\n"
	  "Maximum concurrency for 100,000 tokens per request: 10.05x\n",
	  NONE, 1000000, 100000, 1000000, 10.05, UNKNOWN, UNKNOWN, LOG_TOKENS_TOLD, LOG_AGREE_YES, "" },
	{ "GPU KV cache size: 1,000,000 tokens, Maximum concurrency for 100,000 tokens per request: 10.20x\n"
	  "Available KV cache memory: 12.5 GiB",
	  NONE, 1000000, 100000, NONE, 10.2, 12.5, UNKNOWN, LOG_TOKENS_TOLD, LOG_AGREE_NO, "" },
	/* 0.12 may be anything from .115 to .125 */
	{ "GPU KV cache size: 12,400 tokens\nMaximum concurrency for 100,000 tokens per request: 0.12x", NONE,
	  12400, 100000, 12400, .12, UNKNOWN, UNKNOWN, LOG_TOKENS_TOLD, LOG_AGREE_YES, "" },
	{ "Available KV cache memory: 2.00 GiB\nGPU KV cache size: 16,384 tokens\n", NONE, 16384, NONE, 16384,
	  UNKNOWN, 2, 131072, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "Available KV cache memory: 1 GiB\nGPU KV cache size: 16,384 tokens\n", NONE, 16384, NONE, 16384,
	  UNKNOWN, 1, 65536, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN, "Llama-8B, 65536 bytes per token in 8 bit" },
	{ "(Worker_TP0 pid=1) Available KV cache memory: 1.00 GiB\n(Worker_TP1 pid=2) Available KV cache "
	  "memory: 1.00 GiB\n"
	  "(Worker_TP0 pid=1) GPU KV cache size: 16,400 tokens\n(Worker_TP1 pid=2) GPU KV cache size: 16,384 "
	  "tokens\n",
	  NONE, 16384, NONE, 16384, UNKNOWN, 2, 131072, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "INFO the rest of the memory reserved for KV Cache is 0.50GiB.\n(VllmWorkerProcess pid=2) the rest "
	  "of the memory "
	  "reserved for KV Cache is 0.50GiB.\n(VllmWorker rank=2 pid=3) Available KV cache memory: 1 GiB\n# "
	  "GPU blocks: "
	  "1024\n",
	  1024, 16384, NONE, 16384, UNKNOWN, 2, 131072, LOG_TOKENS_BLOCKS_DEFAULT, LOG_AGREE_UNKNOWN,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 64, tokens per block=64, primary "
	  "blocks=256\n"
	  "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 2.00 GiB for max tokens in paged KV cache "
	  "(16384).\n",
	  256, 16384, NONE, 16384, UNKNOWN, 2, 131072, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "[2026-01-01 10:00:00 TP0] KV Cache is allocated. #tokens: 8192, K size: 0.50 GB, V size: 0.50 GB\n"
	  "[2026-01-01 10:00:01 TP0] KV Cache is allocated. #tokens: 8192, K size: 0.03 GB, V size: 0.03 GB\n"
	  "[2026-01-01 10:00:02 TP0] max_total_num_tokens=8192, chunked_prefill_size=8192, context_len=2048, "
	  "available_gpu_mem=8.27 GB\n",
	  NONE, 8192, 2048, 8192, UNKNOWN, 1, 131072, LOG_TOKENS_TOLD, LOG_AGREE_YES,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "KV Cache is allocated. #tokens: 9000, KV size: 1.00 GB\nmax_total_num_tokens=8192, "
	  "context_len=2048",
	  NONE, 8192, 2048, NONE, UNKNOWN, 1, UNKNOWN, LOG_TOKENS_TOLD, LOG_AGREE_NO, "" },
	{ "llama_context: n_ctx         = 8192\nllama_context: n_ctx_per_seq = 2048\n"
	  "llama_kv_cache: size = 1024.00 MiB (  2048 cells,  32 layers,  4/4 seqs), K (f16): 512.00 MiB, V "
	  "(f16): 512.00 "
	  "MiB",
	  NONE, 8192, 2048, 8192, UNKNOWN, 1, 131072, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN,
	  "Llama-8B, 131072 bytes per token in 16 bit" },
	{ "0.00.1 I init: kv_size = 512, offload = 1\n0.00.2 I llama_context: KV self size  =    9.00 MiB, K "
	  "(f16):    4.50",
	  NONE, 512, NONE, 512, UNKNOWN, 9. / 1024, 18432, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN, "" },
	/* two caches of different lengths: no bytes per token */
	{ "llama_kv_cache: size = 100.00 MiB ( 4096 cells, 6 layers, 1/1 seqs)\nllama_kv_cache: size = 50.00 "
	  "MiB ( 512 "
	  "cells, 20 layers, 1/1 seqs)\n",
	  NONE, 4096, NONE, 4096, UNKNOWN, 50. / 1024, UNKNOWN, LOG_TOKENS_TOLD, LOG_AGREE_UNKNOWN, "" },
	{ "nothing of the kind\n# GPU blocks: many\nGPU KV cache size: tokens\n", NONE, NONE, NONE, NONE,
	  UNKNOWN, UNKNOWN, UNKNOWN, LOG_TOKENS_UNKNOWN, LOG_AGREE_UNKNOWN, "" },
	{ "GPU KV cache size: 99999999999999999999999 tokens\n# GPU blocks: "
	  "18446744073709551616\nllama_kv_cache: size = "
	  "1.00 MiB ( 0 cells, 1 layers, 1/1 seqs)",
	  NONE, NONE, NONE, NONE, UNKNOWN, UNKNOWN, UNKNOWN, LOG_TOKENS_UNKNOWN, LOG_AGREE_UNKNOWN, "" },
};

static void same(double want, double got)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(fabs(want - got) <= 1e-9 * fabs(want));
}

static void a_log_is_read_in_the_forms_engines_write(void **state)
{
	for (size_t i = 0; i < LEN(rows); i++) {
		struct engine_log_kv kv;
		assert_int_equal(engine_log_kv_read(&kv, 1, rows[i].log, strlen(rows[i].log)), 1);
		if (kv.gpu_blocks != rows[i].blocks || kv.tokens != rows[i].tokens ||
		    kv.max_len_tok != rows[i].max_len || kv.capacity_tok != rows[i].capacity ||
		    kv.tokens_from != rows[i].from || kv.consistent != rows[i].agree ||
		    strcmp(kv.matches_model, rows[i].model) != 0)
			fail_msg("row %zu: %s", i, rows[i].log);
		same(rows[i].concurrency, kv.concurrency);
		same(rows[i].gib, kv.available_gib);
		same(rows[i].bytes, kv.bytes_per_tok);
	}
}

static void lines_of_dashes_part_sections(void **state)
{
	static const char log[] = "---\n# GPU blocks: 1\n ---- \nx\n---\n\n---\nGPU KV cache size: 7 tokens";
	struct engine_log_kv kv[2] = { 0 };
	assert_int_equal(engine_log_kv_read(kv, 2, log, sizeof log - 1), 3);
	assert_int_equal(kv[0].tokens, 16);
	assert_int_equal(kv[1].tokens, NONE);
	assert_int_equal(engine_log_kv_read(kv, 2, "", 0), 0);
	assert_int_equal(engine_log_kv_read(kv, 0, log, sizeof log - 1), 3);
}

static void any_bytes_are_read_in_time_that_grows_with_them(void **state)
{
	enum { N = 4 << 20 };
	static const char *const fill[] = { "(",  "\x1b[",       " pid=", "block_size", "n_ctx_per_seq ",
		                            "1,", "\xff\x00\x1b" };
	char *text = malloc(N);
	assert_non_null(text);
	for (size_t f = 0; f < LEN(fill); f++) {
		size_t n = strlen(fill[f]);
		for (size_t i = 0; i < N; i++)
			text[i] = i % 5000 == 0 ? '\n' : fill[f][i % n];
		struct engine_log_kv kv;
		clock_t from = clock();
		engine_log_kv_read(&kv, 1, text, N);
		assert_true((double)(clock() - from) / CLOCKS_PER_SEC < 20);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_is_read_in_the_forms_engines_write),
		cmocka_unit_test(lines_of_dashes_part_sections),
		cmocka_unit_test(any_bytes_are_read_in_time_that_grows_with_them),
	};
	return cmocka_run_group_tests_name("engine_log", tests, NULL, NULL);
}
