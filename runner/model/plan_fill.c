/* SPDX-License-Identifier: Apache-2.0 */
/* A document of the right shape -> struct plan, with the defaults of proofmark-plan(5). */
#include "model/plan_parts.h"

#include <stdlib.h>
#include <string.h>

/* Without memory the flag is set and filling goes on with NULLs; the caller throws the plan away. */
struct filler {
	bool no_memory;
};

static char *str_of(struct filler *f, const struct cJSON *o, const char *key)
{
	const char *s = json_str(o, key);
	char *copy = s ? strdup(s) : NULL;

	f->no_memory |= s && !copy;
	return copy;
}

static uint64_t u64_of(const struct cJSON *o, const char *key, uint64_t otherwise)
{
	uint64_t v;
	return json_u64(o, key, &v) ? v : otherwise;
}

static int64_t i64_of(const struct cJSON *o, const char *key, int64_t otherwise)
{
	int64_t v;
	return json_i64(o, key, &v) ? v : otherwise;
}

static double num_of(const struct cJSON *o, const char *key, double otherwise)
{
	double v;
	return json_num(o, key, &v) ? v : otherwise;
}

static bool bool_of(const struct cJSON *o, const char *key, bool otherwise)
{
	bool v;
	return json_bool(o, key, &v) ? v : otherwise;
}

/* The shape has made sure that the word is one of the list. */
static unsigned word_of(const struct cJSON *o, const char *key, const char *const *words, unsigned otherwise)
{
	const char *s = json_str(o, key);

	for (unsigned i = 0; s && words[i]; i++)
		if (strcmp(words[i], s) == 0)
			return i;
	return otherwise;
}

static size_t count_of(const struct cJSON *array)
{
	int n = array ? cJSON_GetArraySize(array) : 0;
	return n > 0 ? (size_t)n : 0;
}

/* `*n` is set only together with memory for it. */
static void *list_of(struct filler *f, const struct cJSON *array, size_t size, size_t *n)
{
	size_t want = count_of(array);
	void *list = want ? calloc(want, size) : NULL;

	f->no_memory |= want && !list;
	*n = list ? want : 0;
	return list;
}

static char **strings_of(struct filler *f, const struct cJSON *o, const char *key, size_t *n)
{
	const struct cJSON *array = json_get(o, key), *e;
	char **list = list_of(f, array, sizeof(*list), n);
	size_t i = 0;

	if (!list)
		return NULL;
	cJSON_ArrayForEach(e, array)
	{
		list[i] = strdup(e->valuestring);
		f->no_memory |= !list[i++];
	}
	return list;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static uint64_t *counts_of(struct filler *f, const struct cJSON *o, const char *key, size_t *n)
{
	const struct cJSON *array = json_get(o, key), *e;
	uint64_t *list = list_of(f, array, sizeof(*list), n);
	size_t i = 0;

	if (!list)
		return NULL;
	cJSON_ArrayForEach(e, array) list[i++] = (uint64_t)e->valuedouble;
	qsort(list, *n, sizeof(*list), by_value);
	return list;
}

#define FILL_EACH(f, p, doc, member, fill)                                                                   \
	do {                                                                                                 \
		const struct cJSON *array_ = json_get(doc, #member), *e_;                                    \
		size_t i_ = 0;                                                                               \
		(p)->member = list_of(f, array_, sizeof(*(p)->member), &(p)->n_##member);                    \
		if ((p)->member)                                                                             \
			cJSON_ArrayForEach(e_, array_) fill(f, &(p)->member[i_++], e_);                      \
	} while (0)

static void fill_about(struct filler *f, struct plan *p, const struct cJSON *o)
{
	p->id = str_of(f, o, "id");
	p->title = str_of(f, o, "title");
	p->owner = str_of(f, o, "owner");
	p->valid_from = str_of(f, o, "valid_from");
	p->valid_until = str_of(f, o, "valid_until");
	p->not_before = str_of(f, o, "not_before");
	p->challenge = str_of(f, o, "challenge");
	p->rules = u64_of(o, "rules", RULES_CURRENT);
}

static void fill_model(struct filler *f, struct plan *p, const struct cJSON *o)
{
	const struct cJSON *files = json_get(o, "files"), *e;
	size_t i = 0;

	p->model.id = str_of(f, o, "id");
	p->model.revision = str_of(f, o, "revision");
	p->model.format = str_of(f, o, "format");
	p->model.quantization = str_of(f, o, "quantization");
	p->model.dtype = str_of(f, o, "dtype");
	p->model.context_tok = u64_of(o, "context_tok", 0);
	p->model.files = list_of(f, files, sizeof(*p->model.files), &p->model.n_files);
	if (!p->model.files)
		return;
	cJSON_ArrayForEach(e, files)
	{
		p->model.files[i].path = str_of(f, e, "path");
		p->model.files[i++].sha256 = str_of(f, e, "sha256");
	}
}

static void fill_launch(struct filler *f, struct plan_launch *l, const struct cJSON *o)
{
	const struct cJSON *process = json_get(o, "process"), *attach = json_get(o, "attach");

	l->kind = process ? LAUNCH_PROCESS : attach ? LAUNCH_ATTACH : LAUNCH_CONTAINER;
	l->program = str_of(f, process, "program");
	l->cwd = str_of(f, process, "cwd");
	l->url = str_of(f, attach, "url");
	l->ca_file = str_of(f, attach, "ca_file");
	l->api_key_env = str_of(f, json_get(attach, "api_key"), "env");
	l->api_key_file = str_of(f, json_get(attach, "api_key"), "file");
	l->image = str_of(f, json_get(o, "container"), "image");
}

static struct plan_env *env_of(struct filler *f, const struct cJSON *array, size_t *n)
{
	struct plan_env *env = list_of(f, array, sizeof(*env), n);
	const struct cJSON *e;
	size_t i = 0;

	if (!env)
		return NULL;
	cJSON_ArrayForEach(e, array)
	{
		env[i++] = (struct plan_env){
			.name = str_of(f, e, "name"),
			.value = str_of(f, e, "value"),
			.from_env = str_of(f, e, "from_env"),
			.from_file = str_of(f, e, "from_file"),
		};
	}
	return env;
}

/* cJSON's tree is only read through these; the cast takes the const of the look-up away again. */
static struct cJSON *borrow(const struct cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static void fill_candidate(struct filler *f, struct plan_candidate *c, const struct cJSON *o)
{
	const struct cJSON *engine = json_get(o, "engine");

	c->name = str_of(f, o, "name");
	c->backend = (enum backend)word_of(o, "backend", backend_words, BACKEND_CPU);
	c->arch = str_of(f, o, "arch");
	c->engine = (enum engine_kind)word_of(engine, "kind", engine_kind_words, ENGINE_LLAMACPP);
	c->engine_version = str_of(f, engine, "version");
	c->engine_commit = str_of(f, engine, "commit");
	fill_launch(f, &c->launch, json_get(engine, "launch"));
	c->launch.raw = borrow(engine, "launch");
	c->args = strings_of(f, engine, "args", &c->n_args);
	c->env = env_of(f, json_get(engine, "env"), &c->n_env);
	c->engine_cpus = str_of(f, engine, "cpus");
	c->client_cpus = str_of(f, o, "client_cpus");
	c->ready_deadline_s = u64_of(engine, "ready_deadline_s", 600);
	c->previous = borrow(o, "previous");
	c->support = borrow(o, "support");
}

static struct plan_sampling sampling_of(const struct cJSON *o)
{
	return (struct plan_sampling){
		.temperature = num_of(o, "temperature", 0),
		.seed = u64_of(o, "seed", 1),
		.top_p = num_of(o, "top_p", -1),
		.top_k = i64_of(o, "top_k", -1),
	};
}

static int by_rate(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static double *rates_of(struct filler *f, const struct cJSON *o, const char *key, size_t *n)
{
	const struct cJSON *array = json_get(o, key), *e;
	double *list = list_of(f, array, sizeof(*list), n);
	size_t i = 0;

	if (!list)
		return NULL;
	cJSON_ArrayForEach(e, array) list[i++] = e->valuedouble;
	qsort(list, *n, sizeof(*list), by_rate);
	return list;
}

static void fill_arrival(struct filler *f, struct plan_arrival *a, const struct cJSON *o)
{
	a->kind = (enum arrival)word_of(o, "kind", arrival_words, ARRIVAL_CLOSED);
	a->rate_rps = num_of(o, "rate_rps", 0);
	a->seed = u64_of(o, "seed", 1);
	a->think_s = num_of(o, "think_s", 0);
	a->rate_end_rps = num_of(o, "rate_end_rps", 0);
	a->burstiness = num_of(o, "burstiness", 1);
	a->rates_rps = rates_of(f, o, "rates_rps", &a->n_rates);
	a->stop_when_saturated = bool_of(o, "stop_when_saturated", false);
	a->trace = str_of(f, o, "trace");
	a->speed = num_of(o, "speed", 1);
}

static void fill_mix_part(struct filler *f, struct plan_mix_part *m, const struct cJSON *o)
{
	m->name = str_of(f, o, "name");
	m->weight = num_of(o, "weight", 1);
	m->prompt_tok = u64_of(o, "prompt_tok", 0);
	m->output_tok = u64_of(o, "output_tok", 0);
}

static void fill_conversation(struct plan_conversation *c, const struct cJSON *o)
{
	c->turns = u64_of(o, "turns", 0);
	c->turn_prompt_tok = u64_of(o, "turn_prompt_tok", 32);
	c->think_s = num_of(o, "think_s", 0);
}

static bool lists_word(const struct cJSON *array, const char *word)
{
	const struct cJSON *e;

	cJSON_ArrayForEach(e, array) if (strcmp(e->valuestring, word) == 0) return true;
	return false;
}

static void fill_retry(struct plan_retry *r, const struct cJSON *o)
{
	const struct cJSON *on = json_get(o, "on");

	r->max = u64_of(o, "max", 0);
	r->on_status = o && (!on || lists_word(on, "status"));
	r->on_reset = lists_word(on, "reset");
	r->on_timeout = lists_word(on, "timeout");
	r->backoff_s = num_of(o, "backoff_s", 0.5);
}

static void fill_limits(struct plan_workload *w, const struct cJSON *o)
{
	w->requests = u64_of(o, "requests", 0);
	w->other_requests = u64_of(o, "other_requests", w->requests);
	w->duration_s = num_of(o, "duration_s", 0);
	w->warmup_requests = u64_of(o, "warmup_requests", 2);
	w->connect_timeout_s = num_of(o, "connect_timeout_s", 5);
	w->first_byte_timeout_s = num_of(o, "first_byte_timeout_s", 60);
	w->stall_timeout_s = num_of(o, "stall_timeout_s", 60);
	w->deadline_s = num_of(o, "deadline_s", 300);
	w->looks = u64_of(o, "looks", 1);
}

/* Open loop without a bound on what is in flight: one entry, 0. */
static void unbounded_when_open(struct filler *f, struct plan_workload *w)
{
	if (w->n_concurrency || w->arrival.kind == ARRIVAL_CLOSED || w->cls == CLASS_TRAINING)
		return;
	w->concurrency = calloc(1, sizeof(*w->concurrency));
	f->no_memory |= !w->concurrency;
	w->n_concurrency = w->concurrency ? 1 : 0;
}

/* Lengths that a mix or a trace gives: one entry, 0, so that there is one cell a load. */
static void lengths_from_elsewhere(struct filler *f, struct plan_workload *w)
{
	if (w->n_prompt_tok || (w->n_mix == 0 && w->arrival.kind != ARRIVAL_TRACE))
		return;
	w->prompt_tok = calloc(1, sizeof(*w->prompt_tok));
	f->no_memory |= !w->prompt_tok;
	w->n_prompt_tok = w->prompt_tok ? 1 : 0;
}

static void fill_critical(struct plan_workload *w, const struct cJSON *o)
{
	const struct plan_arrival *a = &w->arrival;

	w->critical = bool_of(o, "critical", false);
	w->critical_prompt_tok =
		u64_of(o, "critical_prompt_tok", w->n_prompt_tok ? w->prompt_tok[w->n_prompt_tok - 1] : 0);
	w->critical_concurrency = u64_of(o, "critical_concurrency",
	                                 w->n_concurrency ? w->concurrency[w->n_concurrency - 1] : 0);
	w->critical_rate_rps = num_of(o, "critical_rate_rps", a->n_rates ? a->rates_rps[a->n_rates - 1] : 0);
}

static void fill_workload(struct filler *f, struct plan_workload *w, const struct cJSON *o)
{
	w->name = str_of(f, o, "name");
	w->cls = (enum wl_class)word_of(o, "class", class_words, CLASS_SERVING);
	w->api = (enum api)word_of(o, "api", api_words, API_CHAT);
	w->corpus = str_of(f, o, "corpus");
	w->shared_prefix_share = num_of(o, "shared_prefix_share", 0);
	w->prompt_tok = counts_of(f, o, "prompt_tok", &w->n_prompt_tok);
	w->output_tok = u64_of(o, "output_tok", 0);
	w->force_output = bool_of(o, "force_output", true);
	w->concurrency = counts_of(f, o, "concurrency", &w->n_concurrency);
	fill_arrival(f, &w->arrival, json_get(o, "arrival"));
	FILL_EACH(f, w, o, mix, fill_mix_part);
	lengths_from_elsewhere(f, w);
	unbounded_when_open(f, w);
	fill_limits(w, o);
	w->sampling = sampling_of(json_get(o, "sampling"));
	w->stream = bool_of(o, "stream", true);
	fill_conversation(&w->conversation, json_get(o, "conversation"));
	w->canary_share = num_of(o, "canary_share", 0);
	w->text_counters = bool_of(o, "text_counters", true);
	fill_retry(&w->retry, json_get(o, "retry"));
	fill_critical(w, o);
}

static void fill_control(struct filler *f, struct plan_control *c, const struct cJSON *o)
{
	c->id = str_of(f, o, "id");
	c->prompt = str_of(f, o, "prompt");
	c->messages = borrow(o, "messages");
	c->api = (enum api)word_of(o, "api", api_words, API_CHAT);
	c->max_tok = u64_of(o, "max_tok", 64);
	c->sampling = sampling_of(json_get(o, "sampling"));
	c->must_match = strings_of(f, o, "must_match", &c->n_must_match);
	c->must_not_match = strings_of(f, o, "must_not_match", &c->n_must_not_match);
	c->exact = str_of(f, o, "exact");
	c->json = bool_of(o, "json", false);
	c->min_tok = i64_of(o, "min_tok", -1);
	c->answer_max_tok = i64_of(o, "answer_max_tok", -1);
	c->same_as_reference = bool_of(o, "same_as_reference", false);
}

static void fill_criterion(struct filler *f, struct plan_criterion *c, const struct cJSON *o)
{
	const struct cJSON *where = json_get(o, "where"), *limit = json_get(o, "limit");

	c->id = str_of(f, o, "id");
	c->sentence = str_of(f, o, "sentence");
	c->metric = str_of(f, o, "metric");
	c->where.workload = str_of(f, where, "workload");
	c->where.prompt_tok = u64_of(where, "prompt_tok", 0);
	c->where.concurrency = u64_of(where, "concurrency", 0);
	c->where.rate_rps = num_of(where, "rate_rps", 0);
	c->where.all_cells = json_get(where, "cells") != NULL;
	c->statistic = str_of(f, o, "statistic");
	c->cmp = (enum comparator)word_of(o, "comparator", comparator_words, CMP_LE);
	c->limit = num_of(limit, "value", 0);
	c->limit_unit = str_of(f, limit, "unit");
	c->confidence = num_of(o, "confidence", 0.95);
	c->severity = (enum severity)word_of(o, "severity", severity_words, SEVERITY_MUST);
}

static void fill_waiver(struct filler *f, struct plan_waiver *w, const struct cJSON *o)
{
	w->criterion = str_of(f, o, "criterion");
	w->reason = str_of(f, o, "reason");
	w->owner = str_of(f, o, "owner");
	w->expires = str_of(f, o, "expires");
}

static void fill_recovery(struct plan_recovery *r, const struct cJSON *o)
{
	const struct cJSON *restart = json_get(o, "restart"), *second = json_get(o, "second_cold_start"),
			   *rollback = json_get(o, "rollback");

	r->restart = restart != NULL;
	r->second_cold_start = second != NULL;
	r->rollback = rollback != NULL;
	r->restart_limit_s = num_of(restart, "limit_s", 0);
	r->second_cold_start_limit_s = num_of(second, "limit_s", 0);
	r->rollback_limit_s = num_of(rollback, "limit_s", 0);
}

static void fill_instrument(struct plan_instrument *i, const struct cJSON *o)
{
	i->max_send_lag_ms = num_of(o, "max_send_lag_ms", 10);
	i->max_loop_lag_ms = num_of(o, "max_loop_lag_ms", 10);
	i->max_client_cpu_pct = num_of(o, "max_client_cpu_pct", 90);
	i->max_steal_pct = num_of(o, "max_steal_pct", 10);
	i->max_runq_wait_pct = num_of(o, "max_runq_wait_pct", 20);
	i->max_ttft_error_ms = num_of(o, "max_ttft_error_ms", 10);
	i->max_itl_error_ms = num_of(o, "max_itl_error_ms", 10);
	i->min_delivered_share = num_of(o, "min_delivered_share", 0.99);
	i->calibration_s = num_of(o, "calibration_s", 2);
	i->client_threads = u64_of(o, "client_threads", 1);
	i->busy_poll = bool_of(o, "busy_poll", false);
}

int plan_fill(struct plan *p, const struct cJSON *doc)
{
	struct filler f = { 0 };

	fill_about(&f, p, json_get(doc, "plan"));
	fill_model(&f, p, json_get(doc, "model"));
	FILL_EACH(&f, p, doc, candidates, fill_candidate);
	FILL_EACH(&f, p, doc, workloads, fill_workload);
	FILL_EACH(&f, p, doc, controls, fill_control);
	FILL_EACH(&f, p, doc, criteria, fill_criterion);
	FILL_EACH(&f, p, doc, waivers, fill_waiver);
	p->control_repeats = u64_of(doc, "control_repeats", 1);
	fill_recovery(&p->recovery, json_get(doc, "recovery"));
	fill_instrument(&p->instrument, json_get(doc, "instrument"));
	p->telemetry_period_ms = u64_of(json_get(doc, "telemetry"), "period_ms", 200);
	p->telemetry = borrow(doc, "telemetry");
	p->power = borrow(doc, "power");
	p->cost = borrow(doc, "cost");
	return f.no_memory ? -1 : 0;
}
