/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.json, the part of one cell. */
#include "model/verdict_parts.h"

#include <math.h>

static void put_dist(struct json_out *o, const char *key, const struct dist *d)
{
	jo_obj(o, key);
	jo_u64(o, "n", d->n);
	jo_u64(o, "n_failed", d->n_failed);
	verdict_put_num(o, "mean_ns", d->mean_ns);
	jo_opt_u64(o, "min_ns", d->min_ns);
	jo_opt_u64(o, "p50_ns", d->p50_ns);
	jo_opt_u64(o, "p90_ns", d->p90_ns);
	jo_opt_u64(o, "p95_ns", d->p95_ns);
	jo_opt_u64(o, "p99_ns", d->p99_ns);
	jo_opt_u64(o, "max_ns", d->max_ns);
	jo_opt_u64(o, "p50_ub_ns", d->p50_ub_ns);
	jo_opt_u64(o, "p90_ub_ns", d->p90_ub_ns);
	jo_opt_u64(o, "p95_ub_ns", d->p95_ub_ns);
	jo_opt_u64(o, "p99_ub_ns", d->p99_ub_ns);
	jo_end(o);
}

static void put_instrument(struct json_out *o, const struct cell_result *c)
{
	const struct instrument_result *in = &c->instrument;
	const struct ev_cell_state *st = c->st;
	if (!st->has_soundness) {
		jo_null(o, "instrument");
		return;
	}
	jo_obj(o, "instrument");
	jo_opt_u64(o, "error_ns", c->loop_error_ns);
	jo_opt_u64(o, "ttft_error_ns", in->ttft_error_ns);
	jo_opt_u64(o, "itl_error_ns", in->itl_error_ns);
	jo_opt_u64(o, "calibration_ttft_p50_ns", in->cal_ttft_p50_ns);
	jo_opt_u64(o, "calibration_ttft_p99_ns", in->cal_ttft_p99_ns);
	jo_opt_u64(o, "calibration_itl_p50_ns", in->cal_itl_p50_ns);
	jo_opt_u64(o, "calibration_itl_p99_ns", in->cal_itl_p99_ns);
	jo_u64(o, "n_calibrations", in->n_calibrations);
	verdict_put_num(o, "client_cpu_pct", in->client_cpu_pct);
	verdict_put_num(o, "steal_pct", in->steal_pct);
	verdict_put_num(o, "runq_wait_pct", in->runq_wait_pct);
	jo_opt_u64(o, "send_lag_p50_ns", st->send_lag_p50_ns);
	jo_opt_u64(o, "send_lag_p99_ns", st->send_lag_p99_ns);
	jo_opt_u64(o, "send_lag_max_ns", st->send_lag_max_ns);
	jo_opt_u64(o, "loop_lag_p50_ns", st->loop_lag_p50_ns);
	jo_opt_u64(o, "loop_lag_p99_ns", st->loop_lag_p99_ns);
	jo_opt_u64(o, "loop_lag_max_ns", st->loop_lag_max_ns);
	jo_opt_u64(o, "loop_lag_n", st->loop_lag_n);
	jo_opt_u64(o, "client_cpu_ns", st->client_cpu_ns);
	jo_opt_u64(o, "wall_ns", st->wall_ns);
	jo_opt_u64(o, "steal_ticks", st->steal_ticks);
	jo_opt_u64(o, "total_ticks", st->total_ticks);
	jo_opt_u64(o, "max_in_flight", st->max_in_flight);
	jo_opt_u64(o, "start_ns", st->start_ns);
	jo_opt_u64(o, "runq_wait_ns", st->runq_wait_ns);
	jo_opt_u64(o, "threads", st->threads);
	jo_opt_u64(o, "retries", st->retries);
	jo_end(o);
}

static void put_cell_counts(struct json_out *o, const struct cell_result *c)
{
	jo_u64(o, "planned", c->cell->requests);
	jo_u64(o, "scheduled", c->n_scheduled);
	jo_u64(o, "completed", c->n_completed);
	jo_u64(o, "failed", c->n_failed);
	jo_u64(o, "cancelled", c->n_cancelled);
	jo_u64(o, "n_unasked", c->n_unasked);
	jo_u64(o, "n_retries", c->n_retries);
	jo_u64(o, "n_retried", c->n_retried);
	jo_obj(o, "outcomes");
	for (size_t k = 0; k < N_OUTCOMES; k++)
		jo_u64(o, outcome_words[k], c->n_outcome[k]);
	jo_end(o);
	jo_opt_u64(o, "prompt_tok", c->prompt_tok);
	jo_opt_u64(o, "output_tok", c->output_tok);
	jo_opt_u64(o, "cached_tok", c->cached_tok);
	jo_u64(o, "length_mismatch", c->n_length_mismatch);
	jo_u64(o, "prompt_mismatch", c->n_prompt_mismatch);
	verdict_put_num(o, "events_per_output_tok", c->events_per_tok);
	jo_bool(o, "itl_measurable", c->itl_measurable);
	jo_obj(o, "buffered");
	jo_u64(o, "n", c->buffered.n);
	verdict_put_num(o, "share", c->buffered.share);
	jo_bool(o, "yes", c->buffered.yes);
	jo_end(o);
}

static void put_delivered(struct json_out *o, const struct cell_result *c)
{
	const struct saturation_result *s = &c->saturation;
	jo_obj(o, "delivered");
	verdict_put_num(o, "planned", c->delivered.planned);
	verdict_put_num(o, "value", c->delivered.value);
	jo_str(o, "unit", c->delivered.unit);
	verdict_put_num(o, "share", c->delivered.share);
	jo_end(o);
	if (!cell_can_saturate(c->cell)) {
		jo_null(o, "saturation");
		return;
	}
	jo_obj(o, "saturation");
	jo_str(o, "state", s->state == SATURATION_YES ? "yes" : s->state == SATURATION_NO ? "no" : "unknown");
	verdict_put_num(o, "p_in_flight", s->p_in_flight);
	verdict_put_num(o, "p_ttft", s->p_ttft);
	verdict_put_num(o, "in_flight_slope_per_s", s->in_flight_slope_per_s);
	verdict_put_num(o, "ttft_slope_ms_per_s", s->ttft_slope_ms_per_s);
	verdict_put_num(o, "in_flight_growth", s->in_flight_growth);
	jo_u64(o, "n_parts", s->n_parts);
	jo_end(o);
}

static void put_texts_and_cache(struct json_out *o, const struct cell_result *c)
{
	jo_obj(o, "canaries");
	jo_u64(o, "n", c->canaries.n);
	jo_u64(o, "n_failed", c->canaries.n_failed);
	jo_u64(o, "n_foreign", c->canaries.n_foreign);
	jo_end(o);
	jo_obj(o, "answers");
	jo_u64(o, "n_counted", c->answers.n_counted);
	jo_u64(o, "n_suspicious", c->answers.n_suspicious);
	jo_u64(o, "n_foreign_script", c->answers.n_foreign_script);
	jo_end(o);
	verdict_put_num(o, "prefix_cache_hit_share", c->prefix_cache_hit_share);
	jo_str(o, "prefix_cache_source", c->prefix_cache_source);
	verdict_put_num(o, "queue_time_mean_ms", c->queue_time_mean_ms);
}

static void put_groups(struct json_out *o, const char *key, const struct group_result *list, size_t n)
{
	jo_arr(o, key);
	for (size_t i = 0; i < n; i++) {
		const struct group_result *g = &list[i];
		jo_obj(o, NULL);
		if (g->name)
			jo_str(o, "name", g->name);
		else
			jo_u64(o, "turn", g->turn);
		jo_u64(o, "n", g->n);
		jo_u64(o, "n_failed", g->n_failed);
		jo_opt_u64(o, "ttft_p50_ns", g->ttft_p50_ns);
		jo_opt_u64(o, "ttft_p99_ns", g->ttft_p99_ns);
		jo_opt_u64(o, "itl_p50_ns", g->itl_p50_ns);
		jo_opt_u64(o, "itl_p99_ns", g->itl_p99_ns);
		jo_opt_u64(o, "e2e_p50_ns", g->e2e_p50_ns);
		jo_opt_u64(o, "e2e_p99_ns", g->e2e_p99_ns);
		jo_end(o);
	}
	jo_end_arr(o);
}

void verdict_put_cell(struct json_out *o, const struct cell_result *c)
{
	jo_obj(o, NULL);
	jo_str(o, "id", c->cell->id);
	jo_str(o, "workload", c->cell->wl->name);
	jo_str(o, "class", class_words[c->cell->wl->cls]);
	jo_bool(o, "critical", c->cell->critical);
	jo_opt_u64(o, "planned_prompt_tok", c->cell->prompt_tok ? c->cell->prompt_tok : REC_NONE);
	jo_opt_u64(o, "planned_output_tok", c->cell->output_tok ? c->cell->output_tok : REC_NONE);
	jo_u64(o, "concurrency", c->cell->concurrency);
	verdict_put_num(o, "rate_rps", c->cell->rate_rps > 0 ? c->cell->rate_rps : (double)NAN);
	jo_bool(o, "valid", c->valid);
	verdict_put_text(o, "invalid_reason", c->invalid_reason);
	verdict_put_text(o, "stopped_by", c->st->stopped_by);
	put_cell_counts(o, c);
	jo_opt_u64(o, "window_ns", c->window_ns ? c->window_ns : REC_NONE);
	verdict_put_num(o, "prefill_tok_s", c->prefill_tok_s);
	verdict_put_num(o, "decode_tok_s", c->decode_tok_s);
	verdict_put_num(o, "output_tok_s", c->output_tok_s);
	verdict_put_num(o, "request_s", c->request_s);
	put_delivered(o, c);
	put_texts_and_cache(o, c);
	put_dist(o, "ttft", &c->ttft);
	put_dist(o, "ttft_sent", &c->ttft_sent);
	put_dist(o, "ttft_content", &c->ttft_content);
	put_dist(o, "itl", &c->itl);
	put_dist(o, "tpot", &c->tpot);
	put_dist(o, "e2e", &c->e2e);
	put_dist(o, "send_lag", &c->send_lag);
	put_dist(o, "spacing_error", &c->spacing);
	put_groups(o, "parts", c->parts, c->n_parts);
	put_groups(o, "turns", c->turns, c->n_turns);
	put_instrument(o, c);
	jo_end(o);
}
