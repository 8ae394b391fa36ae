/* SPDX-License-Identifier: Apache-2.0 */
/* One cell: its schedule, its warm-up, its load, and what is kept of it. */
#include "base/clock.h"
#include "base/json_out.h"
#include "load/limits.h"
#include "model/schedule.h"
#include "trial/trial_parts.h"

#include <string.h>

/* One drive of a cell: warm-up or load. */
struct drive {
	struct trial *t;
	const struct cell *cell;
	enum rec_kind kind;
	struct sched *sched;
	struct cell_bodies *bodies;
	struct answers *answers; /* load only, NULL = texts are not kept */
	struct buf path;
};

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len, const char *text,
                size_t text_len)
{
	struct drive *d = ctx;
	engine_text_blank(rec->detail, d->t->engine); /* a server may echo the key that it refused */
	if (rundir_record(d->t->dir, rec, tokens, tokens_len) || cell_bodies_sent(d->bodies, rec->k))
		return -1;
	if (d->kind == REC_LOAD)
		stop_rule_take(d->t->stop_rule, d->cell, rec);
	return d->answers ? answers_add(d->answers, rec, text ? text : "", text ? text_len : 0) : 0;
}

static bool keeps_text(const struct plan_workload *wl)
{
	return wl->text_counters || wl->canary_share > 0;
}

/* --- what the load engine is told ------------------------------------------------------------------------
 */

static struct load_retry retry_of(const struct plan_workload *wl)
{
	return (struct load_retry){
		.max = wl->retry.max,
		.on_status = wl->retry.on_status,
		.on_reset = wl->retry.on_reset,
		.on_timeout = wl->retry.on_timeout,
		.backoff_ns = ns_of_s(wl->retry.backoff_s),
	};
}

/* A warm-up is a closed loop of plain requests, whatever the cell is. */
static void as_warmup(struct load_spec *s)
{
	s->arrival = ARRIVAL_CLOSED;
	s->duration_ns = s->follow_pause_ns = 0;
	if (!s->concurrency || s->concurrency > s->n_requests)
		s->concurrency = s->n_requests;
}

struct load_spec cell_load_spec(const struct trial *t, const struct cell *cell, enum rec_kind kind,
                                uint64_t n_planned)
{
	const struct plan_workload *wl = cell->wl;
	const struct plan_instrument *in = &t->spec->plan->instrument;
	uint64_t turns = kind == REC_LOAD && wl->conversation.turns ? wl->conversation.turns : 1;
	struct load_spec s = trial_load_spec(t, cell->id, kind);
	s.proto = proto_of(t->spec->cand->engine, wl->api);
	s.arrival = wl->arrival.kind;
	s.concurrency = cell->concurrency;
	s.n_planned = n_planned == UINT64_MAX ? 0 : n_planned;
	s.n_requests = (s.n_planned + turns - 1) / turns;
	s.duration_ns = ns_of_s(cell->duration_s);
	s.think_ns = ns_of_s(wl->arrival.think_s);
	s.follow_pause_ns = ns_of_s(wl->conversation.think_s);
	s.retry = retry_of(wl);
	s.whole_answer = !wl->stream;
	s.threads = (unsigned)in->client_threads;
	s.busy_poll = in->busy_poll;
	s.connect_timeout_ns = ns_of_s(wl->connect_timeout_s);
	s.first_byte_timeout_ns = ns_of_s(wl->first_byte_timeout_s);
	s.stall_timeout_ns = ns_of_s(wl->stall_timeout_s);
	s.deadline_ns = ns_of_s(wl->deadline_s);
	s.keep_text = kind == REC_LOAD && (keeps_text(wl) || turns > 1);
	if (kind == REC_WARMUP)
		as_warmup(&s);
	return s;
}

/* Enough descriptors, ports and addresses for every cell, before anything is started. */
int check_limits(struct trial *t, struct err *err)
{
	for (size_t i = 0; i < t->n_cells; i++) {
		const struct cell *cell = &t->cells[i];
		struct load_limits limits;
		auto_sched s = NULL;
		if (!is_driven(cell))
			continue;
		if (sched_make(&s, cell, trace_of(t, cell), false, err))
			return -1;
		struct load_spec spec = cell_load_spec(t, cell, REC_LOAD, sched_count(s));
		if (limits_check(&limits, &spec, err))
			return err_wrap(err, "%s", cell->id);
	}
	return 0;
}

/* --- files ------------------------------------------------------------------------------------------------
 */

/* With a schedule without end, those that were made. */
static int write_schedule(const struct drive *d, uint64_t n)
{
	auto_buf line = BUF_INIT(4096);
	struct sched_item i;
	for (uint64_t k = 0; k < n && sched_item_at(d->sched, k, &i); k++) {
		buf_clear(&line);
		sched_line(&line, d->cell->id, rec_kind_words[d->kind], &i);
		if (line.failed || rundir_line(d->t->dir, "schedule.jsonl", line.p, line.len))
			return -1;
	}
	return 0;
}

static int put_prompt(void *ctx, const char *line, size_t len)
{
	const struct drive *d = ctx;
	return rundir_line(d->t->dir, "prompts.jsonl", line, len);
}

static void write_result(struct trial *t, const struct cell *cell, const struct load_result *r)
{
	struct json_out *o = rundir_event(t->dir, "soundness");
	jo_str(o, "cell", cell->id);
	jo_opt_u64(o, "send_lag_p50_ns", r->send_lag_p50_ns);
	jo_opt_u64(o, "send_lag_p99_ns", r->send_lag_p99_ns);
	jo_opt_u64(o, "send_lag_max_ns", r->send_lag_max_ns);
	jo_opt_u64(o, "loop_lag_p50_ns", r->loop_lag_p50_ns);
	jo_opt_u64(o, "loop_lag_p99_ns", r->loop_lag_p99_ns);
	jo_opt_u64(o, "loop_lag_max_ns", r->loop_lag_max_ns);
	jo_u64(o, "loop_lag_n", r->loop_lag_n);
	jo_u64(o, "client_cpu_ns", r->client_cpu_ns);
	jo_u64(o, "wall_ns", r->wall_ns);
	jo_u64(o, "steal_ticks", r->steal_ticks);
	jo_u64(o, "total_ticks", r->total_ticks);
	jo_u64(o, "max_in_flight", r->max_in_flight);
	jo_u64(o, "start_ns", r->start_ns);
	jo_opt_u64(o, "runq_wait_ns", r->runq_wait_ns);
	jo_u64(o, "threads", r->threads);
	jo_u64(o, "retries", r->n_retries);
	rundir_event_end(t->dir);
	o = rundir_event(t->dir, "cell_end");
	jo_str(o, "cell", cell->id);
	jo_u64(o, "scheduled", r->scheduled);
	jo_u64(o, "done", r->done);
	jo_str(o, "stopped_by", r->stopped_by);
	jo_u64(o, "wall_ns", r->wall_ns);
	rundir_event_end(t->dir);
}

static void begin_cell(const struct drive *d)
{
	struct json_out *o = rundir_event(d->t->dir, "cell_begin");
	jo_str(o, "cell", d->cell->id);
	jo_u64(o, "planned", d->cell->requests);
	rundir_event_end(d->t->dir);
}

/* --- driving ----------------------------------------------------------------------------------------------
 */

static int prepare(struct drive *d, struct load_spec *spec, struct err *err)
{
	struct trial *t = d->t;
	bool warmup = d->kind == REC_WARMUP;
	if (sched_make(&d->sched, d->cell, trace_of(t, d->cell), warmup, err))
		return -1;
	struct cell_bodies_spec b = { t->prompts, d->cell, d->sched, trace_of(t, d->cell), warmup };
	if (cell_bodies_open(&d->bodies, &b, err))
		return -1;
	*spec = cell_load_spec(t, d->cell, d->kind, sched_count(d->sched));
	buf_init(&d->path, 4096);
	if (proto_path(&d->path, spec->proto, t->prompts_spec.model_name, spec->whole_answer))
		return err_set(err, ERR_PLAN, "%s: its path needs a model name", d->cell->id);
	spec->path = d->path.p;
	spec->source =
		(struct load_source){ .get = cell_bodies_get,
		                      .follow = d->cell->wl->conversation.turns ? cell_bodies_follow : NULL,
		                      .done = cell_bodies_done,
		                      .ctx = d->bodies };
	spec->sink = (struct load_sink){ take, d };
	if (!warmup && keeps_text(d->cell->wl))
		return answers_open(&d->answers, t, d->cell, d->sched, cell_bodies_scripts(d->bodies), err);
	return 0;
}

/* Everything that is in memory goes to its file, also after a failed load. */
static int finish(struct drive *d, struct err *err)
{
	int rc = answers_close(steal_ptr(&d->answers))
	                 ? err_set(err, ERR_ENV, "%s: an answer could not be kept", d->cell->id)
	                 : 0;
	if (sched_count(d->sched) == UINT64_MAX && write_schedule(d, cell_bodies_begun(d->bodies)))
		rc = err_set(err, ERR_ENV, "%s: the schedule could not be kept", d->cell->id);
	if (cell_bodies_list(d->bodies, put_prompt, d))
		rc = err_set(err, ERR_ENV, "%s: the list of requests could not be kept", d->cell->id);
	return rundir_full(d->t->dir) ? 0 : rc; /* a full disk is told by the caller */
}

static int run_load(struct load_result *r, struct drive *d, const struct load_spec *spec, struct err *err)
{
	struct err load_err = { 0 };
	if (d->kind == REC_LOAD) {
		begin_cell(d);
		keep_engine_metrics(d->t, d->cell, "before");
	}
	if (cell_bodies_begin(d->bodies, err))
		return -1;
	int load_rc = load_run(r, spec, &load_err);
	int rc = cell_bodies_end(d->bodies, err);
	if (d->kind == REC_LOAD)
		keep_engine_metrics(d->t, d->cell, "after");
	if (finish(d, rc ? &load_err : err))
		rc = -1;
	if (load_rc) {
		*err = load_err;
		rc = -1;
	}
	return rc;
}

static int drive(struct trial *t, const struct cell *cell, enum rec_kind kind, struct load_result *r,
                 struct err *err)
{
	struct drive d = { .t = t, .cell = cell, .kind = kind };
	struct ticker ticker = { t, cell->id };
	struct load_spec spec;
	int rc = prepare(&d, &spec, err);
	if (!rc && sched_count(d.sched) != UINT64_MAX && write_schedule(&d, sched_count(d.sched)))
		rc = rundir_full(t->dir)
		             ? 0
		             : err_set(err, ERR_ENV, "%s: the schedule could not be kept", cell->id);
	if (!rc) {
		spec.tick = trial_tick;
		spec.tick_ctx = &ticker;
		rc = run_load(r, &d, &spec, err);
	}
	(void)!answers_close(d.answers);
	cell_bodies_free(d.bodies);
	sched_free(d.sched);
	buf_done(&d.path);
	return rc;
}

int run_cell(struct trial *t, const struct cell *cell, struct err *err)
{
	struct load_result r = { 0 };
	int status = 0;
	if (cell->wl->warmup_requests && drive(t, cell, REC_WARMUP, &r, err))
		return -1;
	if (stopped(t))
		return 0;
	stop_rule_begin(t->stop_rule, cell);
	if (drive(t, cell, REC_LOAD, &r, err))
		return -1;
	rundir_flush(t->dir);
	write_result(t, cell, &r);
	if (rundir_full(t->dir))
		return err_set(err, ERR_ENV,
		               "%s: disk full: the load was stopped at %s; make room and run again",
		               t->spec->run_dir, cell->id);
	if (strcmp(r.stopped_by, "engine_died") == 0 || engine_ended(t->engine, &status))
		return err_set(err, ERR_ENV,
		               "the engine ended by itself during %s; its last words are in engine.log",
		               cell->id);
	stop_rule_end(t->stop_rule, cell);
	return 0;
}
