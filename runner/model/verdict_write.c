/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.json. The order of calls is the order of the file; figures that were computed in floating point
 * are written with 9 digits, so that another machine's last bit does not make another file. */
#include "model/verdict_parts.h"

#include "base/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void verdict_put_num(struct json_out *o, const char *key, double value)
{
	char text[40];
	bool whole = fabs(value) < 9007199254740992.0 && !(trunc(value) < value) && !(trunc(value) > value);
	if (!isfinite(value)) {
		jo_null(o, key);
		return;
	}
	if (whole)
		snprintf(text, sizeof(text), "%" PRId64, (int64_t)value);
	else
		snprintf(text, sizeof(text), "%.9g", value);
	jo_raw(o, key, text, strlen(text));
}

void verdict_put_text(struct json_out *o, const char *key, const char *text)
{
	jo_str(o, key, text && *text ? text : NULL);
}

static void put_lines(struct json_out *o, const char *key, char *const *lines, size_t n)
{
	jo_arr(o, key);
	for (size_t i = 0; i < n; i++)
		jo_str(o, NULL, lines[i]);
	jo_end_arr(o);
}

static void put_figure(struct json_out *o, const char *key, const struct figure *f)
{
	jo_obj(o, key);
	verdict_put_num(o, "value", f->known ? f->value : (double)NAN);
	jo_str(o, "unit", f->unit);
	jo_end(o);
}

/* --- parts ------------------------------------------------------------------------------------------------
 */

static void put_run(struct json_out *o, const struct evidence *ev)
{
	jo_obj(o, "run");
	verdict_put_text(o, "run_id", ev->run_id);
	verdict_put_text(o, "wall", ev->wall);
	verdict_put_text(o, "candidate", ev->candidate);
	verdict_put_text(o, "status", ev->status);
	verdict_put_text(o, "version", ev->version);
	verdict_put_text(o, "binary_sha256", ev->binary_sha256);
	verdict_put_text(o, "clock_source", ev->clock_source);
	jo_opt_u64(o, "attempt", ev->attempt ? ev->attempt : REC_NONE);
	verdict_put_text(o, "previous_attempt_sha256", ev->previous_attempt_sha256);
	jo_u64(o, "end_ns", ev->end_ns);
	jo_bool(o, "interrupted", ev->interrupted);
	jo_bool(o, "disk_full", ev->disk_full);
	verdict_put_text(o, "error", ev->error);
	jo_end(o);
	jo_obj(o, "plan");
	jo_str(o, "id", ev->plan->id);
	jo_str(o, "title", ev->plan->title);
	jo_str(o, "sha256", ev->plan->sha256);
	jo_u64(o, "rules", ev->plan->rules);
	jo_str(o, "challenge", ev->plan->challenge);
	jo_end(o);
}

static void put_classes(struct json_out *o, const struct verdict *v)
{
	jo_obj(o, "classes");
	for (size_t k = 0; k < N_CLASSES; k++)
		if (v->classes[k].present)
			jo_str(o, class_words[k], verdict_words[v->classes[k].verdict]);
	jo_end(o);
}

static void put_waiver(struct json_out *o, const struct plan_waiver *w)
{
	if (!w) {
		jo_null(o, "waiver");
		return;
	}
	jo_obj(o, "waiver");
	jo_str(o, "reason", w->reason);
	jo_str(o, "owner", w->owner);
	jo_str(o, "expires", w->expires);
	jo_end(o);
}

static void put_criterion(struct json_out *o, const struct crit_result *r)
{
	jo_obj(o, NULL);
	jo_str(o, "id", r->crit->id);
	jo_str(o, "sentence", r->crit->sentence);
	jo_str(o, "metric", r->crit->metric);
	jo_str(o, "formula", r->metric ? r->metric->formula : NULL);
	jo_str(o, "where", r->where);
	jo_str(o, "statistic", r->crit->statistic);
	jo_str(o, "comparator", comparator_words[r->crit->cmp]);
	put_figure(o, "limit", &r->limit);
	verdict_put_num(o, "confidence", r->crit->confidence);
	jo_str(o, "severity", severity_words[r->crit->severity]);
	jo_str(o, "state", state_words[r->state]);
	jo_str(o, "reason", r->reason);
	put_figure(o, "value", &r->value);
	put_figure(o, "bound", &r->bound);
	put_figure(o, "worst", &r->worst);
	jo_u64(o, "n", r->n);
	jo_u64(o, "t", r->t);
	jo_u64(o, "n_failed", r->n_failed);
	jo_u64(o, "n_more", r->n_more);
	verdict_put_num(o, "n_eff", r->n_eff > 0 ? r->n_eff : (double)NAN);
	jo_str(o, "rule", r->rule);
	verdict_put_num(o, "p_pass", r->p_pass);
	verdict_put_num(o, "p_fail", r->p_fail);
	put_waiver(o, r->waiver);
	jo_end(o);
}

static void put_controls(struct json_out *o, const struct verdict *v)
{
	jo_arr(o, "controls");
	for (size_t i = 0; i < v->n_controls; i++) {
		const struct control_result *c = &v->controls[i];
		jo_obj(o, NULL);
		jo_str(o, "id", c->control->id);
		jo_u64(o, "n", c->n);
		jo_u64(o, "passed", c->n_passed);
		jo_u64(o, "unclear", c->n_unclear);
		verdict_put_text(o, "first_failure", c->first_failure);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_starts(struct json_out *o, const struct evidence *ev)
{
	jo_arr(o, "starts");
	for (size_t i = 0; i < ev->n_starts; i++) {
		const struct ev_start *s = &ev->starts[i];
		jo_obj(o, NULL);
		jo_u64(o, "number", s->number);
		jo_str(o, "why", s->why);
		jo_opt_u64(o, "spawn_ns", s->spawn_ns);
		jo_opt_u64(o, "health_ns", s->health_ns);
		jo_opt_u64(o, "first_completion_ns", s->first_completion_ns);
		jo_opt_u64(o, "killed_ns", s->killed_ns);
		verdict_put_text(o, "not_ready", s->not_ready);
		if (s->exited)
			jo_str(o, "exit", s->exit_expected ? "asked for" : "by itself");
		else
			jo_null(o, "exit");
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_calibrations(struct json_out *o, const struct evidence *ev)
{
	jo_arr(o, "calibrations");
	for (size_t i = 0; i < ev->n_calibrations; i++) {
		const struct ev_calibration *c = &ev->calibrations[i];
		jo_obj(o, NULL);
		jo_str(o, "load", c->load);
		jo_str(o, "when", c->after ? "after" : "before");
		jo_u64(o, "n_requests", c->n_requests);
		jo_u64(o, "n_failed", c->n_failed);
		jo_u64(o, "n_gaps", c->n_gaps);
		jo_opt_u64(o, "ttft_error_p50_ns", c->ttft_error_p50_ns);
		jo_opt_u64(o, "ttft_error_p99_ns", c->ttft_error_p99_ns);
		jo_opt_u64(o, "ttft_error_max_ns", c->ttft_error_max_ns);
		jo_opt_u64(o, "itl_error_p50_ns", c->itl_error_p50_ns);
		jo_opt_u64(o, "itl_error_p99_ns", c->itl_error_p99_ns);
		jo_opt_u64(o, "itl_error_max_ns", c->itl_error_max_ns);
		jo_opt_u64(o, "send_lag_p50_ns", c->send_lag_p50_ns);
		jo_opt_u64(o, "send_lag_p99_ns", c->send_lag_p99_ns);
		jo_opt_u64(o, "send_lag_max_ns", c->send_lag_max_ns);
		jo_opt_u64(o, "loop_lag_p99_ns", c->loop_lag_p99_ns);
		jo_opt_u64(o, "client_cpu_ns", c->client_cpu_ns);
		jo_opt_u64(o, "wall_ns", c->wall_ns);
		jo_opt_u64(o, "n_tokens", c->n_tokens);
		jo_opt_u64(o, "max_in_flight", c->max_in_flight);
		jo_opt_u64(o, "server_late_p99_ns", c->server_late_p99_ns);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_security(struct json_out *o, const struct verdict *v)
{
	jo_obj(o, "security");
	jo_u64(o, "foreign_nonces", v->n_foreign);
	jo_u64(o, "texts", v->n_texts);
	jo_end(o);
}

static void put_memory(struct json_out *o, const struct verdict *v)
{
	jo_arr(o, "memory");
	for (size_t i = 0; i < v->n_memory; i++) {
		const struct memory_result *m = &v->memory[i];
		jo_obj(o, NULL);
		jo_str(o, "name", m->name);
		jo_str(o, "phase", m->phase);
		jo_u64(o, "n", m->n);
		jo_u64(o, "n_unknown", m->n_unknown);
		verdict_put_num(o, "peak_bytes", m->peak);
		verdict_put_num(o, "last_bytes", m->last);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void put_self_declared(struct json_out *o)
{
	static const char *const lines[] = {
		"that the plan was frozen before the load is proven only by a time stamp of a third party",
		"attempts are numbered and chained, but by the machine itself",
		"facts about the machine were read by the machine itself",
		"times were taken by the machine's own clock",
		"what the engine is, beyond the files that were hashed, is the server's word",
		"token counts are the server's word",
	};
	jo_arr(o, "self_declared");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		jo_str(o, NULL, lines[i]);
	jo_end_arr(o);
}

int verdict_write(struct buf *out, const struct verdict *v)
{
	struct json_out o;
	jo_init(&o, out, 1);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", 1);
	jo_str(&o, "verdict", verdict_words[v->run]);
	jo_i64(&o, "exit_code", verdict_exit_code(v->run));
	jo_arr(&o, "reasons");
	for (size_t i = 0; i < v->n_reasons; i++)
		jo_str(&o, NULL, v->reasons[i]);
	jo_end_arr(&o);
	put_classes(&o, v);
	put_run(&o, v->ev);
	jo_arr(&o, "criteria");
	for (size_t i = 0; i < v->n_criteria; i++)
		put_criterion(&o, &v->criteria[i]);
	jo_end_arr(&o);
	jo_arr(&o, "cells");
	for (size_t i = 0; i < v->n_cells; i++)
		verdict_put_cell(&o, &v->cells[i]);
	jo_end_arr(&o);
	put_calibrations(&o, v->ev);
	put_security(&o, v);
	put_controls(&o, v);
	put_starts(&o, v->ev);
	put_memory(&o, v);
	put_lines(&o, "labels", v->ev->labels, v->ev->n_labels);
	put_lines(&o, "differences", v->ev->differences, v->ev->n_differences);
	put_lines(&o, "missing", v->ev->missing, v->ev->n_missing);
	put_lines(&o, "not_tested", v->ev->not_tested, v->ev->n_not_tested);
	put_self_declared(&o);
	jo_end(&o);
	buf_addc(out, '\n');
	return out->failed ? -1 : 0;
}
