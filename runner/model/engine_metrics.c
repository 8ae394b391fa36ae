/* SPDX-License-Identifier: Apache-2.0 */
#include "model/engine_metrics.h"

#include "base/cleanup.h"
#include "model/prom.h"

#include <math.h>
#include <string.h>

enum formula {
	PART_OF_WHOLE,     /* a / b */
	PART_AND_THE_REST, /* a / (a + b) */
	MEAN_OF_SECONDS,   /* 1000 a / b, ms */
};

/* The last-batch gauges of some engines (sglang:cache_hit_rate) are no figures of a cell. */
static const struct source {
	enum formula formula;
	const char *a, *b;
} sources[] = {
	{ PART_OF_WHOLE, "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total" },
	{ PART_OF_WHOLE, "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total" },
	{ PART_OF_WHOLE, "sglang:cached_tokens_total", "sglang:prompt_tokens_total" },
	{ PART_AND_THE_REST, "llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens_total" },
	{ MEAN_OF_SECONDS, "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count" },
	{ MEAN_OF_SECONDS, "sglang:queue_time_seconds_sum", "sglang:queue_time_seconds_count" },
};

/* Over all label sets; NAN = not on the page. */
static double value_of(const struct prom_page *p, const char *name)
{
	double sum = 0;
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->list[i].name, name) == 0)
			sum += p->list[i].value;
	return prom_find(p, name) ? sum : (double)NAN;
}

/* A counter appears with its first increment: absent before and there after is a count from 0. */
static double difference(const struct prom_page *before, const struct prom_page *after, const char *name)
{
	double b = prom_find(before, name) ? value_of(before, name) : 0, d = value_of(after, name) - b;
	return isfinite(d) && d >= 0 ? d : (double)NAN;
}

static double figure(const struct source *s, double a, double b)
{
	double whole = s->formula == PART_AND_THE_REST ? a + b : b;
	if (!(whole > 0))
		return (double)NAN;
	if (s->formula == MEAN_OF_SECONDS)
		return 1000 * a / whole;
	return a / whole <= 1 ? a / whole : (double)NAN;
}

struct engine_figures engine_figures_between(const char *before, size_t before_len, const char *after,
                                             size_t after_len)
{
	struct engine_figures out = { (double)NAN, (double)NAN };
	struct prom_page from, to;
	bool share = false, queue = false;
	prom_read(&from, before, before_len);
	prom_read(&to, after, after_len);
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const struct source *s = &sources[i];
		bool *used = s->formula == MEAN_OF_SECONDS ? &queue : &share;
		double a = difference(&from, &to, s->a), b = difference(&from, &to, s->b);
		if (*used || isnan(a) || isnan(b))
			continue;
		*used = true;
		*(s->formula == MEAN_OF_SECONDS ? &out.queue_time_mean_ms : &out.prefix_cache_hit_share) =
			figure(s, a, b);
	}
	prom_done(&from);
	prom_done(&to);
	return out;
}
