/* SPDX-License-Identifier: Apache-2.0 */
/* Kind bench-metrics. A .jsonl holds one request a line, either with all its token times ("token_event_ms")
 * or with usage and a tokenizer's count ("retokenised"); a .prom is a metrics page, a .log an engine's
 * start-up log. */
#include "readcase.h"

#include "model/engine_log.h"
#include "model/metrics_calc.h"
#include "model/prom.h"
#include "model/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SECTIONS_MAX = 1000, LINES_MAX = 10000, TIMES_MAX = 100000 };

static uint64_t ns_of_ms(double ms)
{
	return isfinite(ms) && ms >= 0 && ms < 1e12 ? (uint64_t)llround(ms * 1e6) : REC_NONE;
}

static void put_ms(struct json_out *o, const char *key, double ns)
{
	jo_num(o, key, ns / 1e6);
}

static void put_ms_u64(struct json_out *o, const char *key, uint64_t ns)
{
	put_ms(o, key, ns == REC_NONE ? (double)NAN : (double)ns);
}

static uint64_t count_or_none(const struct cJSON *obj, const char *key)
{
	uint64_t v;
	return json_u64(obj, key, &v) ? v : REC_NONE;
}

static uint64_t time_or_none(const struct cJSON *obj, const char *key)
{
	double ms;
	return json_num(obj, key, &ms) ? ns_of_ms(ms) : REC_NONE;
}

/* --- requests with all token times --------------------------------------------------------------------- */

struct pool {
	uint64_t *gaps, *ttft;
	size_t n_gaps, n_ttft;
	double tpot_sum;
	uint64_t n_tpot, completed, failed, output_tok;
};

static size_t token_times(const struct cJSON *req, uint64_t *times)
{
	size_t n = 0;
	const struct cJSON *t;
	cJSON_ArrayForEach(t, json_get(req, "token_event_ms"))
	{
		if (cJSON_IsNumber(t) && n < TIMES_MAX)
			times[n++] = ns_of_ms(t->valuedouble);
	}
	return n;
}

static void put_timed(struct json_out *o, const struct cJSON *req, struct pool *pool, uint64_t *times)
{
	bool ok = false;
	json_bool(req, "ok", &ok);
	size_t n = ok ? token_times(req, times) : 0;
	uint64_t first = n ? times[0] : REC_NONE, last = n ? times[n - 1] : REC_NONE;
	uint64_t start = time_or_none(req, "start_ms"), tok = count_or_none(req, "completion_tokens");
	uint64_t *gaps = pool->gaps + pool->n_gaps, ttft = span_ns(start, first);
	size_t n_gaps = pool->n_gaps + n <= TIMES_MAX ? gaps_of_times(times, n, gaps) : 0;
	double tpot = tpot_ns(first, last, tok);
	jo_obj(o, json_str(req, "id"));
	put_ms_u64(o, "ttft_ms", ttft);
	jo_arr(o, "gaps_ms");
	for (size_t i = 0; i < n_gaps; i++)
		put_ms_u64(o, NULL, gaps[i]);
	jo_end_arr(o);
	put_ms(o, "tpot_ms", tpot);
	put_ms_u64(o, "e2e_ms", span_ns(start, last));
	jo_bool(o, "counted", ok && n);
	jo_end(o);
	pool->n_gaps += n_gaps;
	if (ttft != REC_NONE)
		pool->ttft[pool->n_ttft++] = ttft;
	if (!isnan(tpot)) {
		pool->tpot_sum += tpot;
		pool->n_tpot++;
	}
	if (ok && n) {
		pool->completed++;
		pool->output_tok += tok == REC_NONE ? 0 : tok;
	} else {
		pool->failed++;
	}
}

static void put_pool(struct json_out *o, struct pool *p)
{
	jo_obj(o, "pooled");
	jo_u64(o, "gap_count", p->n_gaps);
	put_ms(o, "mean_gap_ms", mean_u64(p->gaps, p->n_gaps));
	put_ms(o, "median_gap_ms", median_u64(p->gaps, p->n_gaps));
	put_ms(o, "mean_tpot_ms", p->n_tpot ? p->tpot_sum / (double)p->n_tpot : (double)NAN);
	jo_u64(o, "ttft_count", p->n_ttft);
	put_ms(o, "mean_ttft_ms", mean_u64(p->ttft, p->n_ttft));
	put_ms(o, "median_ttft_ms", median_u64(p->ttft, p->n_ttft));
	jo_u64(o, "completed", p->completed);
	jo_u64(o, "failed", p->failed);
	jo_u64(o, "output_tokens", p->output_tok);
	jo_end(o);
}

/* --- requests with usage -------------------------------------------------------------------------------- */

static void put_counted(struct json_out *o, const struct cJSON *req)
{
	static const char *const sources[] = { NULL, "usage", "tokenizer" };
	const struct cJSON *usage = json_get(req, "usage");
	uint64_t told = count_or_none(usage, "completion_tokens");
	uint64_t reasoning = count_or_none(json_get(usage, "completion_tokens_details"), "reasoning_tokens");
	struct tok_count c = output_tokens(told, reasoning, count_or_none(req, "retokenised"));
	jo_obj(o, json_str(req, "id"));
	if (c.output_tok == REC_NONE)
		jo_null(o, "output_tokens");
	else
		jo_u64(o, "output_tokens", c.output_tok);
	if (c.reasoning_tok == REC_NONE)
		jo_null(o, "reasoning_tokens");
	else
		jo_u64(o, "reasoning_tokens", c.reasoning_tok);
	jo_str(o, "source", sources[c.source]);
	if (c.source == TOK_TOKENIZER)
		jo_bool(o, "estimated", true);
	if (c.reasoning_contradicts) {
		auto_free char *says = str_fmt("reasoning_tokens %llu exceed completion_tokens %llu",
		                               (unsigned long long)reasoning, (unsigned long long)told);
		jo_str(o, "warning", says);
	}
	put_ms(o, "tpot_ms",
	       tpot_ns(time_or_none(req, "ttft_ms"), time_or_none(req, "last_token_ms"), c.output_tok));
	jo_end(o);
}

static int put_requests(struct json_out *o, const struct buf *text, const char *name, struct err *err)
{
	auto_free uint64_t *times = calloc(TIMES_MAX, sizeof(*times));
	auto_free uint64_t *gaps = calloc(TIMES_MAX, sizeof(*gaps)), *ttft = calloc(LINES_MAX, sizeof(*ttft));
	struct pool pool = { .gaps = gaps, .ttft = ttft };
	size_t n_timed = 0, n_lines = 0;
	if (!times || !gaps || !ttft)
		return err_set(err, ERR_ENV, "no memory");
	for (const char *p = text->p, *end = p + text->len; p < end && n_lines < LINES_MAX;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		if (len) {
			auto_json req = NULL;
			if (json_parse(&req, p, len, name, JSON_ENGINE, NULL, err))
				return -1;
			n_lines++;
			if (json_get(req, "token_event_ms")) {
				n_timed++;
				put_timed(o, req, &pool, times);
			} else {
				put_counted(o, req);
			}
		}
		p += len + 1;
	}
	if (n_timed)
		put_pool(o, &pool);
	return 0;
}

/* --- a metrics page --------------------------------------------------------------------------------------
 */

static void put_float(struct json_out *o, const char *key, double v)
{
	if (isfinite(v))
		jo_num(o, key, v);
	else
		jo_str(o, key, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
}

static const char *short_name(const char *name)
{
	const char *colon = strrchr(name, ':');
	return colon ? colon + 1 : name;
}

static void put_sample_details(struct json_out *o, const struct prom_sample *s)
{
	auto_free char *labels = str_fmt("label_of_%s", short_name(s->name));
	auto_free char *stamp = str_fmt("timestamp_ms_of_%s", short_name(s->name));
	jo_obj(o, labels);
	for (size_t i = 0; i < s->n_labels; i++)
		jo_str(o, s->labels[i].name, s->labels[i].value);
	jo_end(o);
	if (s->has_timestamp)
		jo_i64(o, stamp, s->timestamp_ms);
}

static void put_quantile(struct json_out *o, const struct prom_histogram *h, unsigned percent)
{
	double lower, upper;
	if (!prom_quantile_range(h, percent, 100, &lower, &upper))
		return;
	auto_free char *in = str_fmt("p%u_lies_in", percent), *above = str_fmt("p%u_lies_above", percent);
	if (!isfinite(upper)) {
		jo_num(o, above, lower);
		return;
	}
	jo_arr(o, in);
	jo_num(o, NULL, lower);
	jo_num(o, NULL, upper);
	jo_end_arr(o);
}

static void put_histogram(struct json_out *o, const struct prom_page *p, const char *key, const char *base)
{
	struct prom_histogram h;
	if (!prom_histogram(p, base, &h))
		return;
	jo_obj(o, key);
	jo_num(o, "count", h.count);
	jo_num(o, "sum", h.sum);
	jo_num(o, "mean", h.count > 0 ? h.sum / h.count : (double)NAN);
	jo_arr(o, "buckets");
	for (size_t i = 0; i < h.n; i++) {
		jo_arr(o, NULL);
		put_float(o, NULL, h.buckets[i].le);
		jo_num(o, NULL, h.buckets[i].count);
		jo_end_arr(o);
	}
	jo_end_arr(o);
	put_quantile(o, &h, 50);
	put_quantile(o, &h, 99);
	jo_end(o);
	free(h.buckets);
}

/* Names that engines had or have for what we look for; a page holds some of them at most. */
static const char *const looked_for[] = { "vllm:kv_cache_usage_perc",   "vllm:gpu_cache_usage_perc",
	                                  "vllm:num_requests_running",  "vllm:num_requests_waiting",
	                                  "vllm:prompt_tokens_total",   "sglang:token_usage",
	                                  "sglang:num_running_reqs",    "llamacpp:requests_processing",
	                                  "llamacpp:requests_deferred", "llamacpp:predicted_tokens_seconds" };

static void put_page(struct json_out *o, const struct buf *text)
{
	struct prom_page page;
	prom_read(&page, text->p, text->len);
	jo_u64(o, "samples", page.n);
	jo_u64(o, "odd_lines", page.n_odd_lines);
	jo_obj(o, "values");
	for (size_t i = 0; i < page.n; i++)
		if (prom_find(&page, page.list[i].name) == &page.list[i])
			put_float(o, page.list[i].name, page.list[i].value);
	jo_end(o);
	for (size_t i = 0; i < page.n; i++)
		if (prom_find(&page, page.list[i].name) == &page.list[i])
			put_sample_details(o, &page.list[i]);
	put_histogram(o, &page, "ttft_histogram", "vllm:time_to_first_token_seconds");
	jo_obj(o, "absent");
	for (size_t i = 0; i < ARRAY_LEN(looked_for); i++)
		if (!prom_find(&page, looked_for[i]))
			jo_str(o, looked_for[i], "unknown, not 0");
	jo_end(o);
	prom_done(&page);
}

/* --- a start-up log --------------------------------------------------------------------------------------
 */

static void put_count(struct json_out *o, const char *key, uint64_t n)
{
	if (n == ENGINE_LOG_NONE)
		jo_null(o, key);
	else
		jo_u64(o, key, n);
}

static void put_tokens_from(struct json_out *o, const struct engine_log_kv *kv)
{
	auto_free char *blocks = str_fmt("blocks x block size %llu", (unsigned long long)kv->block_tok);
	const char *words[] = { NULL, "told", blocks, "blocks x block size 16 (the default; say so)" };
	jo_str(o, "tokens_from", words[kv->tokens_from]);
}

static void put_section(struct json_out *o, const struct engine_log_kv *kv)
{
	jo_obj(o, NULL);
	put_count(o, "gpu_blocks", kv->gpu_blocks);
	put_count(o, "block_size", kv->block_tok);
	put_count(o, "tokens", kv->tokens);
	put_tokens_from(o, kv);
	put_count(o, "max_len", kv->max_len_tok);
	jo_num(o, "concurrency", kv->concurrency);
	jo_num(o, "available_gib", kv->available_gib);
	jo_num(o, "bytes_per_token", round(kv->bytes_per_tok * 10) / 10);
	jo_str(o, "matches_model", kv->matches_model[0] ? kv->matches_model : NULL);
	put_count(o, "tokens_by_concurrency", kv->tokens_by_concurrency);
	put_count(o, "capacity_tokens", kv->capacity_tok);
	if (kv->consistent == LOG_AGREE_UNKNOWN)
		jo_null(o, "consistent");
	else
		jo_bool(o, "consistent", kv->consistent == LOG_AGREE_YES);
	jo_end(o);
}

static int put_log(struct json_out *o, const struct buf *text, struct err *err)
{
	auto_free struct engine_log_kv *list = calloc(SECTIONS_MAX, sizeof(*list));
	if (!list)
		return err_set(err, ERR_ENV, "no memory");
	size_t n = engine_log_kv_read(list, SECTIONS_MAX, text->p, text->len);
	jo_arr(o, "sections");
	for (size_t i = 0; i < n && i < SECTIONS_MAX; i++)
		put_section(o, &list[i]);
	jo_end_arr(o);
	return 0;
}

int read_bench_metrics_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
		int rc = 0;
		if (case_read_file(&text, c, in, err))
			return -1;
		if (!strcmp(in->ext, "prom"))
			put_page(o, &text);
		else if (!strcmp(in->ext, "log"))
			rc = put_log(o, &text, err);
		else if (strcmp(in->ext, "jsonl"))
			rc = err_set(err, ERR_PLAN, "%s: no reader for this file", in->file);
		else if (text.p)
			rc = put_requests(o, &text, in->file, err);
		if (rc)
			return -1;
	}
	return 0;
}
