/* SPDX-License-Identifier: Apache-2.0 */
/* Controls and load: what is sent, and where its records go. */
#include "base/clock.h"
#include "base/hash.h"
#include "trial/trial_parts.h"

#include <math.h>
#include <string.h>

struct sink {
	struct trial *t;
	const struct plan_control *control; /* NULL for load */
	const char *round;
	uint64_t rep;
};

static void opt_u64(struct json_out *o, const char *key, uint64_t v)
{
	if (v == REC_NONE)
		jo_null(o, key);
	else
		jo_u64(o, key, v);
}

static int keep_control(struct sink *s, const struct record *rec, const char *text, size_t text_len)
{
	auto_buf line = BUF_INIT(64u << 20);
	struct json_out o;
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
	opt_u64(&o, "output_tok", rec->usage_output_tok);
	jo_strn(&o, "text", text ? text : "", text ? text_len : 0);
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
	return s->control ? keep_control(s, rec, text, text_len) : 0;
}

struct ticker {
	const struct trial *t;
	const char *cell;
};

static void tick(void *ctx, const struct load_progress *p)
{
	const struct ticker *k = ctx;
	if (k->t->spec->ui.load)
		k->t->spec->ui.load(k->t->spec->ui.ctx, k->cell, p);
}

static uint64_t ns_of_s(double s)
{
	return s <= 0 ? 0 : (uint64_t)llround(s * 1e9);
}

/* Everything of a load_spec that comes from the trial and not from one cell. */
static struct load_spec base_spec(const struct trial *t, const char *cell_id, enum rec_kind kind)
{
	return (struct load_spec){
		.url = engine_url(t->engine),
		.bearer = engine_bearer(t->engine),
		.ca_file = engine_ca_file(t->engine),
		.cell_id = cell_id,
		.kind = kind,
		.start = t->start,
		.origin_ns = t->origin_ns,
		.drain = t->spec->drain,
		.abort = t->spec->abort,
		.watch_fd = engine_pidfd(t->engine),
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
	struct load_request request = { body.p, body.len, REC_NONE, c->max_tok };
	struct sink sink = { t, c, round, rep };
	struct load_spec spec = base_spec(t, id, REC_CONTROL);
	spec.proto = proto_of(t->spec->cand->engine, c->api);
	spec.arrival = ARRIVAL_CLOSED;
	spec.concurrency = 1;
	spec.n_requests = 1;
	spec.keep_text = true;
	spec.source = (struct load_source){ same_request, &request };
	spec.sink = (struct load_sink){ take, &sink };
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

static struct load_spec cell_spec(const struct trial *t, const struct cell *cell, enum rec_kind kind)
{
	const struct plan_workload *wl = cell->wl;
	struct load_spec s = base_spec(t, cell->id, kind);
	s.proto = proto_of(t->spec->cand->engine, wl->api);
	s.arrival = kind == REC_WARMUP ? ARRIVAL_CLOSED : wl->arrival.kind;
	s.concurrency = cell->concurrency;
	s.n_requests = kind == REC_WARMUP ? wl->warmup_requests : cell->requests;
	s.duration_ns = kind == REC_WARMUP ? 0 : ns_of_s(cell->duration_s);
	s.rate_rps = wl->arrival.rate_rps;
	s.seed = wl->arrival.seed;
	s.think_ns = ns_of_s(wl->arrival.think_s);
	s.connect_timeout_ns = ns_of_s(wl->connect_timeout_s);
	s.first_byte_timeout_ns = ns_of_s(wl->first_byte_timeout_s);
	s.stall_timeout_ns = ns_of_s(wl->stall_timeout_s);
	s.deadline_ns = ns_of_s(wl->deadline_s);
	if (kind == REC_WARMUP && (!s.concurrency || s.concurrency > s.n_requests))
		s.concurrency = s.n_requests;
	return s;
}

static void write_result(struct trial *t, const struct cell *cell, const struct load_result *r)
{
	struct json_out *o = rundir_event(t->dir, "soundness");
	jo_str(o, "cell", cell->id);
	opt_u64(o, "send_lag_p50_ns", r->send_lag_p50_ns);
	opt_u64(o, "send_lag_p99_ns", r->send_lag_p99_ns);
	opt_u64(o, "send_lag_max_ns", r->send_lag_max_ns);
	opt_u64(o, "loop_lag_p50_ns", r->loop_lag_p50_ns);
	opt_u64(o, "loop_lag_p99_ns", r->loop_lag_p99_ns);
	opt_u64(o, "loop_lag_max_ns", r->loop_lag_max_ns);
	jo_u64(o, "loop_lag_n", r->loop_lag_n);
	jo_u64(o, "client_cpu_ns", r->client_cpu_ns);
	jo_u64(o, "wall_ns", r->wall_ns);
	jo_u64(o, "steal_ticks", r->steal_ticks);
	jo_u64(o, "total_ticks", r->total_ticks);
	jo_u64(o, "max_in_flight", r->max_in_flight);
	rundir_event_end(t->dir);
	o = rundir_event(t->dir, "cell_end");
	jo_str(o, "cell", cell->id);
	jo_u64(o, "scheduled", r->scheduled);
	jo_u64(o, "done", r->done);
	jo_str(o, "stopped_by", r->stopped_by);
	jo_u64(o, "wall_ns", r->wall_ns);
	rundir_event_end(t->dir);
}

/* The request set as hashed lines: what was really sent can be compared with what the plan would make again.
 */
static int write_prompts(struct trial *t, const struct cell *cell, struct cell_bodies *b, bool warmup)
{
	for (uint64_t k = 0; k < cell_bodies_count(b); k++) {
		const struct load_request *r = cell_bodies_get(b, k);
		char hex[65];
		auto_buf line = BUF_INIT(4096);
		struct json_out o;
		sha256_hex_of(r->body, r->body_len, hex);
		jo_init(&o, &line, 0);
		jo_obj(&o, NULL);
		jo_str(&o, "cell", cell->id);
		jo_str(&o, "kind", rec_kind_words[warmup ? REC_WARMUP : REC_LOAD]);
		jo_u64(&o, "k", k);
		jo_u64(&o, "body_bytes", r->body_len);
		jo_str(&o, "body_sha256", hex);
		jo_end(&o);
		if (line.failed || rundir_line(t->dir, "prompts.jsonl", line.p, line.len))
			return -1;
	}
	return 0;
}

static int drive(struct trial *t, const struct cell *cell, enum rec_kind kind, struct load_result *r,
                 struct err *err)
{
	struct cell_bodies *bodies = NULL;
	struct sink sink = { .t = t };
	struct ticker ticker = { t, cell->id };
	if (cell_bodies_open(&bodies, t->prompts, cell, kind == REC_WARMUP, err))
		return -1;
	struct load_spec spec = cell_spec(t, cell, kind);
	spec.source = (struct load_source){ cell_bodies_get, bodies };
	spec.sink = (struct load_sink){ take, &sink };
	spec.tick = tick;
	spec.tick_ctx = &ticker;
	int rc = load_run(r, &spec, err);
	write_prompts(t, cell, bodies, kind == REC_WARMUP);
	cell_bodies_free(bodies);
	return rc;
}

static int run_cell(struct trial *t, const struct cell *cell, struct err *err)
{
	struct load_result r = { 0 };
	if (cell->wl->warmup_requests && drive(t, cell, REC_WARMUP, &r, err))
		return -1;
	if (stopped(t))
		return 0;
	struct json_out *o = rundir_event(t->dir, "cell_begin");
	jo_str(o, "cell", cell->id);
	jo_u64(o, "planned", cell->requests);
	rundir_event_end(t->dir);
	if (drive(t, cell, REC_LOAD, &r, err))
		return -1;
	rundir_flush(t->dir);
	write_result(t, cell, &r);
	int status = 0;
	if (rundir_full(t->dir))
		return err_set(err, ERR_ENV,
		               "%s: disk full: the load was stopped at %s; make room and run again",
		               t->spec->run_dir, cell->id);
	if (strcmp(r.stopped_by, "engine_died") == 0 || engine_ended(t->engine, &status))
		return err_set(err, ERR_ENV,
		               "the engine ended by itself during %s; its last words are in engine.log",
		               cell->id);
	return 0;
}

static bool driven(const struct cell *c)
{
	return c->wl->cls != CLASS_TRAINING && c->wl->arrival.kind != ARRIVAL_TRACE;
}

int phase_load(struct trial *t, struct err *err)
{
	bool first = true;
	for (size_t i = 0; i < t->n_cells && !stopped(t); i++) {
		if (!driven(&t->cells[i]))
			continue;
		if (!first && run_controls(t, "between", err))
			return -1;
		first = false;
		if (run_cell(t, &t->cells[i], err))
			return -1;
	}
	return 0;
}
