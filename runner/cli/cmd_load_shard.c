/* SPDX-License-Identifier: Apache-2.0 */
/* shard.json, beside requests.jsonl and tokens.bin: the load that was asked for, when the records' time 0
 * was, how the clock stands to shard 0's, and the client's own lags. */
#include "cli/cmd_load.h"

#include <math.h>
#include <string.h>

#define NS 1000000000

/* One table for both directions. Unknown is null. */
#define RESULT(f)                                                                                            \
	{                                                                                                    \
#f, offsetof(struct load_result, f)                                                          \
	}
#define CAL(f)                                                                                               \
	{                                                                                                    \
#f, offsetof(struct calibration, f)                                                          \
	}
static const struct member {
	const char *key;
	size_t at;
} result_members[] = {
	RESULT(scheduled),       RESULT(done),	     RESULT(wall_ns),	      RESULT(send_lag_p50_ns),
	RESULT(send_lag_p99_ns), RESULT(send_lag_max_ns), RESULT(loop_lag_p50_ns), RESULT(loop_lag_p99_ns),
	RESULT(loop_lag_max_ns), RESULT(loop_lag_n), RESULT(client_cpu_ns),   RESULT(steal_ticks),
	RESULT(total_ticks),     RESULT(max_in_flight), RESULT(start_ns),     RESULT(runq_wait_ns),
	RESULT(n_retries),
}, calibration_members[] = {
	CAL(n_requests),	CAL(n_failed),		CAL(n_gaps),
	CAL(ttft_error_p50_ns), CAL(ttft_error_p99_ns), CAL(ttft_error_max_ns),
	CAL(itl_error_p50_ns),	CAL(itl_error_p99_ns),	CAL(itl_error_max_ns),
};

static void add_members(struct json_out *o, const char *key, const void *from, const struct member *m,
                        size_t n)
{
	jo_obj(o, key);
	for (size_t i = 0; i < n; i++) {
		uint64_t v;
		memcpy(&v, (const char *)from + m[i].at, sizeof(v));
		jo_opt_u64(o, m[i].key, v);
	}
	jo_end(o);
}

static void add_slo(struct json_out *o, const struct load_slo *slo)
{
	jo_obj(o, "slo_ns");
	for (size_t i = 0; i < N_SLOS; i++)
		if (slo->limit_ns[i] != REC_NONE)
			jo_u64(o, slo_words[i], slo->limit_ns[i]);
	jo_end(o);
	jo_num(o, "required_share", slo->required_share);
}

void load_shard_write(struct buf *out, const struct load_shard *s)
{
	const struct load_part *p = &s->part;
	struct json_out o;
	jo_init(&o, out, 1);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", 1);
	jo_u64(&o, "shard", p->shard);
	jo_u64(&o, "shards", s->n_shards);
	jo_str(&o, "host", p->host);
	jo_str(&o, "boot_id", p->boot_id);
	jo_str(&o, "url", s->url);
	jo_str(&o, "engine", s->engine_word);
	jo_str(&o, "model", s->model);
	jo_bool(&o, "prompt_tokens_exact", s->exact);
	jo_bool(&o, "interrupted", s->interrupted);
	jo_i64(&o, "origin_unix_s", s->origin_wall_ns / NS);
	jo_i64(&o, "origin_unix_ns", s->origin_wall_ns % NS);
	if (p->offset_known)
		jo_i64(&o, "clock_offset_ns", p->offset_ns);
	else
		jo_null(&o, "clock_offset_ns");
	jo_u64(&o, "clock_uncertainty_ns", p->uncertainty_ns);
	jo_i64(&o, "wall_clock_step_ns", p->wall_step_ns);
	jo_str(&o, "stopped_by", p->r.stopped_by);
	jo_u64(&o, "threads", p->r.threads);
	add_members(&o, "result", &p->r, result_members, ARRAY_LEN(result_members));
	if (p->calibrated)
		add_members(&o, "calibration", &p->cal, calibration_members, ARRAY_LEN(calibration_members));
	else
		jo_null(&o, "calibration");
	jo_str(&o, "not_calibrated", p->cal_why);
	add_slo(&o, &s->slo);
	jo_raw(&o, "plan", s->plan.p, s->plan.len);
	jo_end(&o);
	buf_addc(out, '\n');
}

/* --- reading ----------------------------------------------------------------------------------------------
 */

static int read_members(void *into, const struct cJSON *obj, const struct member *m, size_t n,
                        const char *key, const char *name, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct cJSON *e = json_get(obj, m[i].key);
		uint64_t v = REC_NONE;
		if (!e || (!cJSON_IsNull(e) && !json_u64(obj, m[i].key, &v)))
			return err_set(err, ERR_PLAN, "%s: /%s/%s: want a whole number from 0, or null", name,
			               key, m[i].key);
		memcpy((char *)into + m[i].at, &v, sizeof(v));
	}
	return 0;
}

static void read_text(char *out, size_t size, const struct cJSON *doc, const char *key)
{
	const char *text = json_str(doc, key);
	snprintf(out, size, "%.*s", (int)size - 1, text ? text : "");
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
}

/* A static text again, as load_result has it. */
static const char *stop_word(const char *word)
{
	static const char *const words[] = { "complete", "duration", "interrupt", "engine_died",
		                             "disk_full" };
	for (size_t i = 0; word && i < ARRAY_LEN(words); i++)
		if (strcmp(word, words[i]) == 0)
			return words[i];
	return "complete";
}

static int read_clock(struct load_shard *s, const struct cJSON *doc, const char *name, struct err *err)
{
	struct load_part *p = &s->part;
	int64_t origin_s, origin_ns;
	const struct cJSON *offset = json_get(doc, "clock_offset_ns");
	if (!json_i64(doc, "origin_unix_s", &origin_s) || !json_i64(doc, "origin_unix_ns", &origin_ns) ||
	    origin_s < 0 || origin_s > 9000000000 || origin_ns < 0 || origin_ns >= NS)
		return err_set(err, ERR_PLAN, "%s: /origin_unix_s, /origin_unix_ns: want a time since 1970",
		               name);
	s->origin_wall_ns = origin_s * NS + origin_ns;
	p->offset_known = offset && !cJSON_IsNull(offset);
	if ((p->offset_known && !json_i64(doc, "clock_offset_ns", &p->offset_ns)) ||
	    !json_u64(doc, "clock_uncertainty_ns", &p->uncertainty_ns) ||
	    !json_i64(doc, "wall_clock_step_ns", &p->wall_step_ns))
		return err_set(err, ERR_PLAN, "%s: the clock's members are not as written by proofmark load",
		               name);
	return 0;
}

static void read_slo(struct load_slo *slo, const struct cJSON *doc)
{
	const struct cJSON *limits = json_get(doc, "slo_ns");
	slo->any = false;
	for (size_t i = 0; i < N_SLOS; i++) {
		slo->limit_ns[i] = REC_NONE;
		slo->any |= json_u64(limits, slo_words[i], &slo->limit_ns[i]);
	}
	if (!json_num(doc, "required_share", &slo->required_share))
		slo->required_share = (double)NAN;
}

static int read_all(struct load_shard *s, const struct cJSON *doc, const char *name, struct err *err)
{
	struct load_part *p = &s->part;
	uint64_t threads, version;
	const struct cJSON *plan = json_get(doc, "plan"), *cal = json_get(doc, "calibration");
	const char *url = json_str(doc, "url"), *model = json_str(doc, "model");
	struct json_out o;
	if (!json_u64(doc, "schema_version", &version) || version != 1 ||
	    !json_u64(doc, "shard", &p->shard) || !json_u64(doc, "shards", &s->n_shards) || s->n_shards < 1 ||
	    s->n_shards > LOAD_SHARDS_MAX || p->shard >= s->n_shards || !json_u64(doc, "threads", &threads) ||
	    !threads || threads > 1024 || !url || !cJSON_IsObject(plan) ||
	    !json_bool(doc, "prompt_tokens_exact", &s->exact) ||
	    !json_bool(doc, "interrupted", &s->interrupted))
		return err_set(err, ERR_PLAN, "%s: not a shard.json of proofmark load", name);
	p->r.threads = (unsigned)threads;
	p->r.stopped_by = stop_word(json_str(doc, "stopped_by"));
	p->calibrated = cJSON_IsObject(cal);
	s->url = strdup(url);
	s->model = model ? strdup(model) : NULL;
	read_text(p->host, sizeof(p->host), doc, "host");
	read_text(p->boot_id, sizeof(p->boot_id), doc, "boot_id");
	read_text(s->engine_word, sizeof(s->engine_word), doc, "engine");
	read_text(p->cal_why, sizeof(p->cal_why), doc, "not_calibrated");
	read_slo(&s->slo, doc);
	jo_init(&o, &s->plan, 0);
	jo_tree(&o, NULL, plan);
	if (!s->url || s->plan.failed)
		return err_set(err, ERR_ENV, "load: no memory");
	if (read_clock(s, doc, name, err) || read_members(&p->r, json_get(doc, "result"), result_members,
	                                                  ARRAY_LEN(result_members), "result", name, err))
		return -1;
	return p->calibrated ? read_members(&p->cal, cal, calibration_members, ARRAY_LEN(calibration_members),
	                                    "calibration", name, err)
	                     : 0;
}

int load_shard_read(struct load_shard *out, const char *text, size_t len, const char *name, struct err *err)
{
	struct load_shard s = { .n_shards = 0 };
	auto_json doc = NULL;
	buf_init(&s.plan, PLAN_BYTES_MAX);
	if (json_parse(&doc, text, len, name, JSON_STRICT, NULL, err))
		return -1;
	if (read_all(&s, doc, name, err)) {
		load_shard_done(&s);
		return -1;
	}
	*out = s;
	return 0;
}

void load_shard_done(struct load_shard *s)
{
	free(s->url);
	free(s->model);
	buf_done(&s->plan);
}
