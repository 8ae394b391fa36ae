/* SPDX-License-Identifier: Apache-2.0 */
/* A metrics page and a start-up log of any bytes (a page, when the first byte is even): nothing is read that
 * is not there, and every figure that comes out is one. */
#include "fuzz.h"
#include "model/engine_log.h"
#include "model/prom.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_histogram(const struct prom_page *page, const char *base)
{
	struct prom_histogram h;
	double lower, upper;
	if (!prom_histogram(page, base, &h))
		return;
	for (size_t i = 1; i < h.n; i++)
		assert(!(h.buckets[i].le < h.buckets[i - 1].le));
	if (prom_quantile_range(&h, 99, 100, &lower, &upper))
		assert(lower <= upper);
	free(h.buckets);
}

static void read_page(const char *text, size_t len)
{
	struct prom_page page;
	prom_read(&page, text, len);
	for (size_t i = 0; i < page.n; i++) {
		const struct prom_sample *s = &page.list[i];
		assert(s->name && strlen(s->name) && prom_find(&page, s->name));
		for (size_t k = 0; k < s->n_labels; k++)
			assert(prom_label(s, s->labels[k].name));
	}
	check_histogram(&page, "vllm:time_to_first_token_seconds");
	check_histogram(&page, "a");
	prom_done(&page);
}

static void read_log(const char *text, size_t len)
{
	struct engine_log_kv kv[4];
	size_t n = engine_log_kv_read(kv, 4, text, len);
	for (size_t i = 0; i < n && i < 4; i++) {
		assert((kv[i].tokens == ENGINE_LOG_NONE) == (kv[i].tokens_from == LOG_TOKENS_UNKNOWN));
		assert(kv[i].consistent != LOG_AGREE_NO ||
		       (kv[i].capacity_tok == ENGINE_LOG_NONE && isnan(kv[i].bytes_per_tok)));
		assert(isnan(kv[i].bytes_per_tok) || kv[i].bytes_per_tok >= 0);
		assert(strlen(kv[i].matches_model) < sizeof kv[i].matches_model);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	char *text = malloc(size);
	assert(text);
	memcpy(text, data + 1, size - 1);
	if (data[0] & 1)
		read_log(text, size - 1);
	else
		read_page(text, size - 1);
	free(text);
	return 0;
}
