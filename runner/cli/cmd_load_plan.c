/* SPDX-License-Identifier: Apache-2.0 */
/* Options -> a plan of one candidate, one workload and one cell, as a document, so that every default and
 * every rule of plans holds here as well. What the plan has to say and nobody reads here (owner, criteria)
 * says so. */
#include "cli/cmd_load.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define CONTEXT_TOK_MAX 100000000u

static void add_model(struct json_out *o)
{
	jo_obj(o, "model");
	jo_str(o, "id", "unknown");
	jo_str(o, "revision", "0000000000000000000000000000000000000000");
	jo_str(o, "format", "other");
	jo_u64(o, "context_tok", CONTEXT_TOK_MAX);
	jo_end(o);
}

static void add_candidate(struct json_out *o)
{
	jo_arr(o, "candidates");
	jo_obj(o, NULL);
	jo_str(o, "name", "server");
	jo_str(o, "backend", "cpu");
	jo_obj(o, "engine");
	jo_str(o, "kind", "attach");
	jo_obj(o, "launch");
	jo_obj(o, "attach");
	jo_str(o, "url", "http://localhost"); /* no one connects to it: the URL is no part of the load */
	jo_end(o);
	jo_end(o);
	jo_end(o);
	jo_end(o);
	jo_end_arr(o);
}

static int add_trace(struct json_out *o, const struct load_opts *opts, struct err *err)
{
	auto_free char *path = realpath(opts->trace, NULL);
	if (!path)
		return err_set(err, ERR_USAGE, "load: --trace: %.512s: no such file", opts->trace);
	jo_str(o, "trace", path);
	jo_num(o, "speed", opts->speed);
	return 0;
}

static int add_arrival(struct json_out *o, const struct load_opts *opts, struct err *err)
{
	int rc = 0;
	jo_obj(o, "arrival");
	jo_str(o, "kind", arrival_words[opts->arrival]);
	if (opts->rate_rps > 0)
		jo_num(o, "rate_rps", opts->rate_rps);
	if (opts->arrival == ARRIVAL_GAMMA)
		jo_num(o, "burstiness", opts->burstiness);
	jo_u64(o, "seed", opts->seed);
	if (opts->trace)
		rc = add_trace(o, opts, err);
	jo_end(o);
	return rc;
}

static void add_lengths(struct json_out *o, const struct load_opts *opts)
{
	if (opts->trace)
		return;
	if (!opts->n_mix) {
		jo_arr(o, "prompt_tok");
		jo_u64(o, NULL, opts->prompt_tok);
		jo_end_arr(o);
		jo_u64(o, "output_tok", opts->output_tok);
		return;
	}
	jo_arr(o, "mix");
	for (size_t i = 0; i < opts->n_mix; i++) {
		char name[32];
		snprintf(name, sizeof(name), "m%zu", i);
		jo_obj(o, NULL);
		jo_str(o, "name", name);
		jo_num(o, "weight", opts->mix[i].weight);
		jo_u64(o, "prompt_tok", opts->mix[i].prompt_tok);
		jo_u64(o, "output_tok", opts->output_tok);
		jo_end(o);
	}
	jo_end_arr(o);
}

static int add_workload(struct json_out *o, const struct load_opts *opts, struct err *err)
{
	jo_obj(o, NULL);
	jo_str(o, "name", "load");
	jo_str(o, "class", "serving");
	jo_str(o, "api", api_words[opts->api]);
	add_lengths(o, opts);
	if (opts->shared_prefix_share > 0)
		jo_num(o, "shared_prefix_share", opts->shared_prefix_share);
	if (!opts->force_output)
		jo_bool(o, "force_output", false);
	if (!opts->stream)
		jo_bool(o, "stream", false);
	if (opts->concurrency) {
		jo_arr(o, "concurrency");
		jo_u64(o, NULL, opts->concurrency);
		jo_end_arr(o);
	}
	if (add_arrival(o, opts, err))
		return -1;
	if (opts->turns) {
		jo_obj(o, "conversation");
		jo_u64(o, "turns", opts->turns);
		jo_end(o);
	}
	if (opts->requests)
		jo_u64(o, "requests", opts->requests);
	if (opts->duration_s > 0)
		jo_num(o, "duration_s", opts->duration_s);
	jo_u64(o, "warmup_requests", opts->warmup);
	jo_num(o, "connect_timeout_s", opts->connect_s);
	jo_num(o, "first_byte_timeout_s", opts->first_byte_s);
	jo_num(o, "stall_timeout_s", opts->stall_s);
	jo_num(o, "deadline_s", opts->deadline_s);
	jo_bool(o, "critical", true);
	jo_end(o);
	return 0;
}

static void add_instrument(struct json_out *o, const struct load_opts *opts)
{
	static const char *const bounds[] = { "max_send_lag_ms", "max_loop_lag_ms", "max_ttft_error_ms",
		                              "max_itl_error_ms" };
	jo_obj(o, "instrument");
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++)
		jo_num(o, bounds[i], opts->max_lag_ms);
	jo_u64(o, "client_threads", opts->threads);
	jo_bool(o, "busy_poll", opts->busy_poll);
	jo_end(o);
}

static void add_criterion(struct json_out *o)
{
	jo_arr(o, "criteria");
	jo_obj(o, NULL);
	jo_str(o, "id", "none");
	jo_str(o, "sentence", "Nothing is judged here");
	jo_str(o, "metric", "request_s");
	jo_str(o, "statistic", "value");
	jo_str(o, "comparator", ">=");
	jo_obj(o, "limit");
	jo_u64(o, "value", 0);
	jo_str(o, "unit", "requests/s");
	jo_end(o);
	jo_end(o);
	jo_end_arr(o);
}

static int write_document(struct buf *doc, const struct load_opts *opts, struct err *err)
{
	struct json_out o;
	jo_init(&o, doc, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", PLAN_SCHEMA_VERSION);
	jo_obj(&o, "plan");
	jo_str(&o, "id", "load");
	jo_str(&o, "title", "proofmark load");
	jo_end(&o);
	add_model(&o);
	add_candidate(&o);
	jo_arr(&o, "workloads");
	if (add_workload(&o, opts, err))
		return -1;
	jo_end_arr(&o);
	add_instrument(&o, opts);
	add_criterion(&o);
	jo_end(&o);
	return doc->failed ? err_set(err, ERR_ENV, "load: no memory") : 0;
}

int load_plan_make(struct plan **out, struct buf *doc, const struct load_opts *opts, struct err *err)
{
	auto_problems problems = { 0 };
	if (write_document(doc, opts, err))
		return -1;
	if (plan_parse(out, doc->p, doc->len, "load", &problems, err) == 0)
		return 0;
	for (size_t i = 0; i < problems.n; i++)
		if (problems.list[i].kind == PROBLEM_ERROR)
			return err_set(err, ERR_USAGE, "load: these options do not go together: %s: %s",
			               problems.list[i].pointer, problems.list[i].text);
	return -1;
}
