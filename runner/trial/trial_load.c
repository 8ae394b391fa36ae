/* SPDX-License-Identifier: Apache-2.0 */
/* Controls, and the order of the load phase. */
#include "base/clock.h"
#include "trial/trial_parts.h"

#include <math.h>
#include <string.h>

struct sink {
	struct trial *t;
	const struct plan_control *control;
	const char *round;
	uint64_t rep;
};

static int keep_control(struct sink *s, const struct record *rec, const char *text, size_t text_len)
{
	auto_buf line = BUF_INIT(64u << 20);
	auto_free char *shown = calloc(1, text_len + 1);
	struct json_out o;
	if (!shown)
		return -1;
	if (text && text_len)
		memcpy(shown, text, text_len);
	blank_answer(shown, text_len, s->t->engine);
	jo_init(&o, &line, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "i", s->t->n_control_answers);
	jo_str(&o, "id", s->control->id);
	jo_str(&o, "round", s->round);
	jo_u64(&o, "rep", s->rep);
	jo_u64(&o, "start", s->t->start);
	jo_u64(&o, "request", rec->i);
	jo_str(&o, "outcome", outcome_words[rec->outcome]);
	jo_str(&o, "finish", rec->finish);
	jo_opt_u64(&o, "output_tok", rec->usage_output_tok);
	jo_strn(&o, "text", shown, text ? text_len : 0);
	jo_end(&o);
	if (line.failed || rundir_line(s->t->dir, "controls.jsonl", line.p, line.len))
		return -1;
	s->t->n_control_answers++;
	return 0;
}

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len, const char *text,
                size_t text_len)
{
	struct sink *s = ctx;
	engine_text_blank(rec->detail, s->t->engine); /* a server may echo the key that it refused */
	if (rundir_record(s->t->dir, rec, tokens, tokens_len))
		return -1;
	return keep_control(s, rec, text, text_len);
}

void trial_tick(void *ctx, const struct load_progress *p)
{
	const struct ticker *k = ctx;
	if (k->t->spec->ui.load)
		k->t->spec->ui.load(k->t->spec->ui.ctx, k->cell, p);
}

uint64_t ns_of_s(double s)
{
	return s <= 0 ? 0 : (uint64_t)llround(s * 1e9);
}

struct load_spec trial_load_spec(const struct trial *t, const char *cell_id, enum rec_kind kind)
{
	const char *url = t->spec->cand->launch.url;
	const struct engine_run *e = t->engine; /* NULL in preflight: then for its limits only */
	return (struct load_spec){
		.url = e     ? engine_url(e)
		       : url ? url
		             : "http://127.0.0.1",
		.bearer = e ? engine_bearer(e) : NULL,
		.ca_file = e ? engine_ca_file(e) : NULL,
		.cell_id = cell_id,
		.kind = kind,
		.start = t->start,
		.origin_ns = t->origin_ns,
		.drain = t->spec->drain,
		.abort = t->spec->abort,
		.watch_fd = e ? engine_pidfd(e) : -1,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 120 * NS_PER_S,
		.stall_timeout_ns = 60 * NS_PER_S,
		.deadline_ns = 300 * NS_PER_S,
	};
}

/* --- controls ---------------------------------------------------------------------------------------------
 */

static const struct load_request *same_request(void *ctx, uint64_t k)
{
	return ctx;
}

static int run_control(struct trial *t, const struct plan_control *c, const char *round, uint64_t rep,
                       struct err *err)
{
	auto_buf body = BUF_INIT(PLAN_BYTES_MAX * 2);
	struct load_result result;
	char id[160];
	if (control_body(&body, &t->prompts_spec, c, err))
		return -1;
	snprintf(id, sizeof(id), "control/%s", c->id);
	struct load_request request = {
		.body = body.p,
		.body_len = body.len,
		.prompt_tok = REC_NONE,
		.want_output_tok = c->max_tok,
		.conv = REC_NONE,
		.turn = REC_NONE,
		.part = REC_NONE,
		.due_ns = REC_NONE,
	};
	struct sink sink = { t, c, round, rep };
	struct load_spec spec = trial_load_spec(t, id, REC_CONTROL);
	spec.proto = proto_of(t->spec->cand->engine, c->api);
	spec.arrival = ARRIVAL_CLOSED;
	spec.concurrency = 1;
	spec.n_requests = 1;
	spec.keep_text = true;
	spec.source = (struct load_source){ .get = same_request, .ctx = &request };
	spec.sink = (struct load_sink){ take, &sink };
	auto_buf path = BUF_INIT(4096);
	if (proto_path(&path, spec.proto, t->prompts_spec.model_name, false))
		return err_set(err, ERR_PLAN, "its path needs a model name");
	spec.path = path.p;
	return load_run(&result, &spec, err);
}

int run_controls(struct trial *t, const char *round, struct err *err)
{
	const struct plan *p = t->spec->plan;
	for (size_t i = 0; i < p->n_controls; i++)
		for (uint64_t rep = 0; rep < p->control_repeats && !stopped(t); rep++)
			if (run_control(t, &p->controls[i], round, rep, err))
				return err_wrap(err, "control %s", p->controls[i].id);
	return 0;
}

int phase_controls_before(struct trial *t, struct err *err)
{
	return run_controls(t, "before", err);
}

int phase_controls_after(struct trial *t, struct err *err)
{
	return run_controls(t, "after", err);
}

/* --- cells ------------------------------------------------------------------------------------------------
 */

bool is_driven(const struct cell *cell)
{
	return cell->wl->cls != CLASS_TRAINING;
}

const struct trace *trace_of(const struct trial *t, const struct cell *cell)
{
	size_t i = (size_t)(cell->wl - t->spec->plan->workloads);
	return cell->wl->arrival.kind == ARRIVAL_TRACE && t->traces ? &t->traces[i] : NULL;
}

static int run_cells(struct trial *t, struct err *err)
{
	bool first = true;
	for (size_t i = 0; i < t->n_cells && !stopped(t); i++) {
		const struct cell *cell = &t->cells[i];
		const char *why = stop_rule_leaves_out(t->stop_rule, cell);
		if (!is_driven(cell))
			continue;
		if (why) {
			say_not_tested(t, cell->id, why);
			ui_line(t, "%s is left out: %s", cell->id, why);
			continue;
		}
		if (!first && run_controls(t, "between", err))
			return -1;
		first = false;
		t->cell_ran[i] = true;
		if (run_cell(t, cell, err))
			return -1;
	}
	return 0;
}

int phase_load(struct trial *t, struct err *err)
{
	calibrate_loads(t, "before");
	if (run_cells(t, err))
		return -1;
	calibrate_loads(t, "after");
	return 0;
}
