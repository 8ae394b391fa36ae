/* SPDX-License-Identifier: Apache-2.0 */
/* The summary for programs: one object. Unknown is null, never 0. */
#include "cli/cmd_load.h"
#include "model/stats.h"

#include <math.h>
#include <string.h>

static void add_ms(struct json_out *o, const char *key, uint64_t ns)
{
	jo_num(o, key, ns == REC_NONE ? (double)NAN : (double)ns / 1e6);
}

static void add_asked(struct json_out *o, const struct load_sum *s)
{
	const struct cell *c = s->cell;
	const struct plan_workload *wl = c->wl;
	bool open = wl->arrival.rate_rps > 0;
	jo_obj(o, "load");
	jo_str(o, "arrival", arrival_words[wl->arrival.kind]);
	jo_num(o, "rate_rps", open ? wl->arrival.rate_rps : (double)NAN);
	jo_opt_u64(o, "concurrency", c->concurrency ? c->concurrency : REC_NONE);
	jo_opt_u64(o, "requests", c->requests ? c->requests : REC_NONE);
	jo_num(o, "duration_s", c->duration_s > 0 ? c->duration_s : (double)NAN);
	jo_arr(o, "prompt_tok");
	for (size_t i = 0; i < wl->n_mix; i++)
		jo_u64(o, NULL, wl->mix[i].prompt_tok);
	for (size_t i = 0; !wl->n_mix && i < wl->n_prompt_tok; i++)
		jo_u64(o, NULL, wl->prompt_tok[i]);
	jo_end_arr(o);
	uint64_t out = wl->n_mix ? wl->mix[0].output_tok : c->output_tok;
	jo_opt_u64(o, "output_tok", out ? out : REC_NONE);
	jo_bool(o, "prompt_tokens_exact", s->exact);
	jo_bool(o, "stream", wl->stream);
	jo_opt_u64(o, "turns", wl->conversation.turns ? wl->conversation.turns : REC_NONE);
	jo_u64(o, "seed", wl->arrival.seed);
	jo_end(o);
}

static void add_counts(struct json_out *o, const struct load_sum *s)
{
	jo_u64(o, "n_requests", s->n_rows + s->n_unasked);
	jo_u64(o, "n_ok", s->n_ok);
	jo_u64(o, "n_failed", s->n_failed + s->n_unasked);
	jo_u64(o, "n_unasked", s->n_unasked);
	jo_u64(o, "n_cancelled", s->n_cancelled);
	jo_u64(o, "n_retries", s->n_retries);
	jo_num(o, "window_s", s->window_ns ? (double)s->window_ns / 1e9 : (double)NAN);
	jo_arr(o, "failures");
	for (size_t i = 0; i < s->n_failures; i++) {
		const struct load_failure *f = &s->failures[i];
		jo_obj(o, NULL);
		jo_str(o, "outcome", outcome_words[f->outcome]);
		jo_opt_u64(o, "http", f->http ? (uint64_t)f->http : REC_NONE);
		jo_u64(o, "n", f->n);
		jo_strn(o, "first_detail", f->detail, strnlen(f->detail, sizeof(f->detail)));
		jo_end(o);
	}
	jo_end_arr(o);
}

static void add_quantiles(struct json_out *o, const struct load_dist *d)
{
	static const char *const keys[N_LOAD_QUANTILES][2] = { { "p50_ms", "p50_upper_ms" },
		                                               { "p90_ms", "p90_upper_ms" },
		                                               { "p99_ms", "p99_upper_ms" } };
	for (size_t q = 0; q < N_LOAD_QUANTILES; q++) {
		add_ms(o, keys[q][0], d->value_ns[q]);
		add_ms(o, keys[q][1], d->upper_ns[q]);
	}
}

static void add_latencies(struct json_out *o, const struct load_sum *s)
{
	jo_obj(o, "latency");
	jo_num(o, "upper_confidence", LOAD_CONFIDENCE);
	for (int i = 0; i < N_FIGURES; i++) {
		const struct load_dist *d = &s->dist[i];
		jo_obj(o, load_figure_words[i]);
		jo_str(o, "not_measurable", d->why);
		jo_u64(o, "n", d->n);
		jo_u64(o, "n_failed", d->n_failed);
		jo_num(o, "n_eff", d->n_eff);
		jo_num(o, "mean_ms", d->mean_ns / 1e6);
		add_quantiles(o, d);
		add_ms(o, "max_ms", d->max_ns);
		jo_end(o);
	}
	jo_end(o);
}

static void add_speeds(struct json_out *o, const struct load_sum *s)
{
	jo_obj(o, "throughput");
	jo_num(o, "requests_rps", s->requests_rps);
	jo_num(o, "output_tok_s", s->output_tok_s);
	jo_num(o, "prompt_tok_s", s->prompt_tok_s);
	jo_num(o, "token_events_s", s->events_s);
	jo_end(o);
	jo_obj(o, "usage");
	jo_u64(o, "n_told", s->n_usage_told);
	jo_num(o, "prompt_tok_mean", s->prompt_tok_mean);
	jo_num(o, "output_tok_mean", s->output_tok_mean);
	jo_opt_u64(o, "cached_tok", s->cached_tok);
	jo_u64(o, "n_prompt_mismatch", s->n_prompt_mismatch);
	jo_u64(o, "n_output_mismatch", s->n_length_mismatch);
	jo_num(o, "token_events_per_tok", s->events_per_tok);
	jo_num(o, "buffered_share", s->buffered_share);
	jo_end(o);
}

static void add_goodput(struct json_out *o, const struct load_sum *s)
{
	static const char *const keys[N_SLOS] = { "ttft_ms", "itl_ms", "tpot_ms", "e2e_ms" };
	static const char *const gates[] = {
		[TAIL_PASS] = "pass", [TAIL_FAIL] = "fail", [TAIL_INCONCLUSIVE] = "inconclusive"
	};
	const struct load_goodput *g = &s->goodput;
	bool known = g->state == GOODPUT_JUDGED;
	if (g->state == GOODPUT_NONE) {
		jo_null(o, "goodput");
		return;
	}
	jo_obj(o, "goodput");
	jo_obj(o, "slo");
	for (size_t i = 0; i < N_SLOS; i++)
		if (s->slo->limit_ns[i] != REC_NONE)
			add_ms(o, keys[i], s->slo->limit_ns[i]);
	jo_end(o);
	jo_str(o, "not_measurable", g->why);
	jo_opt_u64(o, "n", known ? g->n : REC_NONE);
	jo_opt_u64(o, "n_good", known ? g->n_good : REC_NONE);
	jo_num(o, "share", g->share);
	jo_num(o, "share_lower", g->share_lower);
	jo_num(o, "requests_rps", g->rps);
	jo_num(o, "required_share", s->slo->required_share);
	jo_str(o, "state", g->gate < 0 ? NULL : gates[g->gate]);
	jo_end(o);
}

static void add_calibration(struct json_out *o, const struct load_part *p)
{
	if (!p->calibrated) {
		jo_null(o, "calibration");
		jo_str(o, "not_calibrated", p->cal_why);
		return;
	}
	jo_obj(o, "calibration");
	jo_u64(o, "n_requests", p->cal.n_requests);
	jo_u64(o, "n_failed", p->cal.n_failed);
	jo_u64(o, "n_gaps", p->cal.n_gaps);
	add_ms(o, "ttft_error_p50_ms", p->cal.ttft_error_p50_ns);
	add_ms(o, "ttft_error_p99_ms", p->cal.ttft_error_p99_ns);
	add_ms(o, "ttft_error_max_ms", p->cal.ttft_error_max_ns);
	add_ms(o, "itl_error_p50_ms", p->cal.itl_error_p50_ns);
	add_ms(o, "itl_error_p99_ms", p->cal.itl_error_p99_ns);
	add_ms(o, "itl_error_max_ms", p->cal.itl_error_max_ns);
	jo_end(o);
	jo_null(o, "not_calibrated");
}

static void add_part(struct json_out *o, const struct load_part *p)
{
	const struct load_result *r = &p->r;
	jo_obj(o, NULL);
	jo_u64(o, "shard", p->shard);
	jo_str(o, "host", p->host[0] ? p->host : NULL);
	jo_num(o, "clock_offset_ms", p->offset_known ? (double)p->offset_ns / 1e6 : (double)NAN);
	jo_num(o, "clock_uncertainty_ms", p->offset_known ? (double)p->uncertainty_ns / 1e6 : (double)NAN);
	jo_str(o, "stopped_by", r->stopped_by);
	jo_u64(o, "n_scheduled", r->scheduled);
	jo_num(o, "wall_s", (double)r->wall_ns / 1e9);
	jo_u64(o, "threads", r->threads);
	add_ms(o, "send_lag_p50_ms", r->send_lag_p50_ns);
	add_ms(o, "send_lag_p99_ms", r->send_lag_p99_ns);
	add_ms(o, "send_lag_max_ms", r->send_lag_max_ns);
	add_ms(o, "loop_lag_p50_ms", r->loop_lag_p50_ns);
	add_ms(o, "loop_lag_p99_ms", r->loop_lag_p99_ns);
	add_ms(o, "loop_lag_max_ms", r->loop_lag_max_ns);
	jo_num(o, "cpu_pct", load_cpu_pct(p));
	jo_num(o, "steal_pct", load_steal_pct(p));
	jo_num(o, "runq_wait_pct", load_runq_pct(p));
	jo_u64(o, "max_in_flight", r->max_in_flight);
	add_calibration(o, p);
	jo_end(o);
}

static void add_instrument(struct json_out *o, const struct load_sum *s)
{
	jo_obj(o, "delivered");
	jo_str(o, "unit", s->delivered_known ? s->delivered_unit : NULL);
	jo_num(o, "planned", s->delivered_planned);
	jo_num(o, "value", s->delivered_value);
	jo_num(o, "share", s->delivered_share);
	jo_end(o);
	jo_arr(o, "clients");
	for (size_t i = 0; i < s->n_parts; i++)
		add_part(o, &s->parts[i]);
	jo_end_arr(o);
}

int load_json(struct buf *out, const struct load_sum *s, const char *url, struct err *err)
{
	struct json_out o;
	jo_init(&o, out, 1);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", 1);
	jo_str(&o, "proofmark", PROOFMARK_VERSION);
	jo_str(&o, "url", url);
	jo_str(&o, "api", api_words[s->cell->wl->api]);
	jo_str(&o, "engine", s->engine_word);
	jo_str(&o, "model", s->model);
	jo_str(&o, "cell", s->cell->id);
	jo_u64(&o, "exit_code", (uint64_t)load_exit_code(s));
	jo_bool(&o, "valid", !s->n_reasons);
	jo_arr(&o, "invalid_because");
	for (size_t i = 0; i < s->n_reasons; i++)
		jo_str(&o, NULL, s->reasons[i]);
	jo_end_arr(&o);
	jo_bool(&o, "client_bound", s->client_bound);
	jo_bool(&o, "interrupted", s->interrupted);
	add_asked(&o, s);
	add_counts(&o, s);
	add_latencies(&o, s);
	add_speeds(&o, s);
	add_goodput(&o, s);
	add_instrument(&o, s);
	jo_end(&o);
	buf_addc(out, '\n');
	return out->failed ? err_set(err, ERR_ENV, "load: no memory") : 0;
}
