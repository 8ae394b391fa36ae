/* SPDX-License-Identifier: Apache-2.0 */
/* One load from the first question to the summary. */
#include "base/clock.h"
#include "base/fs.h"
#include "cli/cmd_load.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "engine/engine.h"
#include "load/scrub.h"
#include "model/schedule.h"
#include "store/rundir.h"
#include "trial/prompts.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CALIBRATION_NS (NS_PER_S / 2)
#define CALIBRATION_TTFT_MAX_NS (100 * NS_PER_MS)
#define CALIBRATION_ITL_MAX_NS (50 * NS_PER_MS)
#define EARLY_NS (100 * NS_PER_MS) /* the load engine waits for the rest */
#define JSON_BYTES_MAX (1u << 20)
#define TRACE_BYTES_MAX (1u << 30)

struct drive {
	const struct load_opts *o;
	struct buf doc;
	struct plan *plan;
	struct cell *cells;
	struct load_server server;
	struct prompts *prompts;
	struct trace trace;
	struct sched *sched;
	struct cell_bodies *bodies;
	uint64_t n_taken; /* of the whole schedule */
	const struct proto *proto;
	char *path;
	struct rundir *dir; /* NULL = no records */
	struct load_rows rows;
	struct load_part part;
	struct load_clock clock;
	uint64_t origin_ns;
	int64_t origin_wall_ns;
	uint64_t body_bytes; /* of the last request */
};

static bool stopped(void)
{
	return __atomic_load_n(&interrupt_drain, __ATOMIC_RELAXED);
}

static uint64_t ns_of_s(double s)
{
	return s <= 0 ? 0 : (uint64_t)llround(s * 1e9);
}

/* --- before the load ---------------------------------------------------------------------------------------
 */

static int prepare_path(struct drive *d, struct err *err)
{
	auto_buf path = BUF_INIT(8192);
	d->proto = proto_of(d->server.engine, d->o->api);
	if (!d->proto)
		return err_set(err, ERR_USAGE, "load: this server has no api %s", api_words[d->o->api]);
	if (proto_path(&path, d->proto, d->server.model, !d->o->stream))
		return err_set(err, ERR_USAGE, "load: api %s wants --model, it is part of the path",
		               api_words[d->o->api]);
	d->path = buf_steal(&path);
	return d->path ? 0 : err_set(err, ERR_ENV, "load: no memory");
}

static int read_trace(struct drive *d, struct err *err)
{
	auto_buf text = BUF_INIT(TRACE_BYTES_MAX);
	if (!d->o->trace)
		return 0;
	if (fs_read(&text, d->o->trace, TRACE_BYTES_MAX, err))
		return -1;
	return trace_parse(&d->trace, text.p ? text.p : "", text.len, d->o->trace, err);
}

static int open_bodies(struct cell_bodies **bodies, struct sched **sched, struct drive *d, bool warmup,
                       struct err *err)
{
	const struct trace *trace = d->o->trace ? &d->trace : NULL;
	if (sched_make(sched, d->cells, trace, warmup, err))
		return -1;
	const struct cell_bodies_spec spec = { d->prompts, d->cells, *sched, trace, warmup };
	return cell_bodies_open(bodies, &spec, err);
}

static int prepare_prompts(struct drive *d, struct err *err)
{
	const struct prompts_spec spec = {
		.plan = d->plan,
		.cand = d->plan->candidates,
		.ops = engine_find(ENGINE_ATTACH),
		.http = d->server.http,
		.model_name = d->server.model,
		.plan_dir = ".",
	};
	if (prompts_open(&d->prompts, &spec, err) || read_trace(d, err))
		return -1;
	return open_bodies(&d->bodies, &d->sched, d, false, err);
}

static int prepare(struct drive *d, struct err *err)
{
	size_t n_cells = 0;
	if (load_plan_make(&d->plan, &d->doc, d->o, err) || load_rows_init(&d->rows, err))
		return -1;
	progress_phase("prompts");
	d->cells = cells_of_plan(d->plan, &n_cells);
	if (!d->cells || n_cells != 1)
		return err_set(err, d->cells ? ERR_BUG : ERR_ENV, "load: %zu cells", n_cells);
	if (load_server_open(&d->server, d->o, err))
		return -1;
	d->plan->candidates[0].engine = d->server.engine;
	if (prepare_path(d, err) || prepare_prompts(d, err))
		return -1;
	if (d->o->records && rundir_create(&d->dir, d->o->records, d->origin_ns, err))
		return -1;
	return 0;
}

static void done(struct drive *d)
{
	rundir_close(d->dir);
	load_rows_done(&d->rows);
	cell_bodies_free(d->bodies);
	sched_free(d->sched);
	trace_done(&d->trace);
	prompts_free(d->prompts);
	load_server_done(&d->server);
	free(d->path);
	free(d->cells);
	plan_free(d->plan);
	buf_done(&d->doc);
}

/* --- source and sink ---------------------------------------------------------------------------------------
 */

/* The i-th of n shards sends every n-th request of the one schedule; those between are made and dropped. */
static const struct load_request *get(void *ctx, uint64_t g)
{
	struct drive *d = ctx;
	const struct load_request *r;
	uint64_t mine = g * d->o->n_shards + d->o->shard;
	while ((r = cell_bodies_get(d->bodies, d->n_taken)) && d->n_taken++ < mine)
		cell_bodies_done(d->bodies, r);
	if (r)
		d->body_bytes = r->body_len;
	return r;
}

static const struct load_request *follow(void *ctx, const struct load_request *ended,
                                         const struct record *rec, const char *text, size_t text_len)
{
	struct drive *d = ctx;
	return cell_bodies_follow(d->bodies, ended, rec, text, text_len);
}

static void request_done(void *ctx, const struct load_request *ended)
{
	struct drive *d = ctx;
	cell_bodies_done(d->bodies, ended);
}

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                size_t text_len)
{
	struct drive *d = ctx;
	scrub(rec->detail, d->o->key);
	if (d->dir && (rundir_record(d->dir, rec, tokens, len) || cell_bodies_sent(d->bodies, rec->k)))
		return -1;
	return load_rows_take(&d->rows, rec, tokens, len, 0);
}

static int take_nothing(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                        size_t text_len)
{
	return 0;
}

static void tick(void *ctx, const struct load_progress *p)
{
	const struct drive *d = ctx;
	const char *slash = strchr(d->cells->id, '/'); /* the workload is called "load", as the phase is */
	struct load_progress shown = *p;
	if (d->o->turns) /* the load engine plans conversations */
		shown.planned = p->planned * d->o->turns;
	progress_load(slash ? slash + 1 : d->cells->id, &shown);
}

/* --- the load ----------------------------------------------------------------------------------------------
 */

/* This shard's part of n things: the first ones get one more. */
static uint64_t part_of(const struct load_opts *o, uint64_t n)
{
	return n / o->n_shards + (o->shard < n % o->n_shards);
}

static struct load_spec spec_of(struct drive *d)
{
	const struct load_opts *o = d->o;
	const struct cell *cell = d->cells;
	const struct plan_workload *wl = cell->wl;
	uint64_t turns = wl->conversation.turns ? wl->conversation.turns : 1;
	return (struct load_spec){
		.url = o->url,
		.path = d->path,
		.bearer = o->key,
		.ca_file = o->ca_file,
		.proto = d->proto,
		.cell_id = cell->id,
		.kind = REC_LOAD,
		.start = 1,
		.arrival = wl->arrival.kind,
		.concurrency = part_of(o, cell->concurrency),
		.n_requests = part_of(o, (cell->requests + turns - 1) / turns),
		.duration_ns = ns_of_s(cell->duration_s),
		.think_ns = ns_of_s(wl->arrival.think_s),
		.follow_pause_ns = ns_of_s(wl->conversation.think_s),
		.whole_answer = !wl->stream,
		.threads = (unsigned)o->threads,
		.busy_poll = o->busy_poll,
		.connect_timeout_ns = ns_of_s(wl->connect_timeout_s),
		.first_byte_timeout_ns = ns_of_s(wl->first_byte_timeout_s),
		.stall_timeout_ns = ns_of_s(wl->stall_timeout_s),
		.deadline_ns = ns_of_s(wl->deadline_s),
		.origin_ns = d->origin_ns,
		.drain = &interrupt_drain,
		.abort = &interrupt_abort,
		.watch_fd = -1,
	};
}

static int run_with(struct cell_bodies *bodies, struct load_result *r, const struct load_spec *spec,
                    struct err *err)
{
	struct err late = { 0 };
	if (cell_bodies_begin(bodies, err))
		return -1;
	int rc = load_run(r, spec, err);
	if (cell_bodies_end(bodies, &late) == 0 || rc)
		return rc;
	*err = late;
	return -1;
}

static int warm_up(struct drive *d, struct err *err)
{
	struct cell_bodies *bodies = NULL;
	auto_sched sched = NULL;
	struct load_result ignored;
	struct load_spec spec = spec_of(d);
	if (!d->o->warmup || stopped())
		return 0;
	progress_phase("warm-up");
	if (open_bodies(&bodies, &sched, d, true, err))
		return -1;
	spec.kind = REC_WARMUP;
	spec.arrival = ARRIVAL_CLOSED;
	spec.n_requests = d->o->warmup;
	spec.concurrency = d->cells->concurrency && d->cells->concurrency < d->o->warmup
	                           ? d->cells->concurrency
	                           : d->o->warmup;
	spec.duration_ns = 0;
	spec.source = (struct load_source){ .get = cell_bodies_get, .done = cell_bodies_done, .ctx = bodies };
	spec.sink = (struct load_sink){ take_nothing, NULL };
	int rc = run_with(bodies, &ignored, &spec, err);
	cell_bodies_free(bodies);
	return rc;
}

static void pause_until(uint64_t at_ns)
{
	while (!stopped() && clock_now_ns() + EARLY_NS < at_ns) {
		uint64_t left = at_ns - EARLY_NS - clock_now_ns();
		left = left < NS_PER_S ? left : NS_PER_S;
		nanosleep(&(struct timespec){ (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) }, NULL);
	}
}

/* The start time is meant on shard 0's clock. */
static int wait_for_start(struct drive *d, uint64_t *start_ns, struct err *err)
{
	if (!d->o->starts_at)
		return 0;
	int64_t left_ns = d->o->start_at_wall_ns - d->clock.offset_ns - clock_wall_ns();
	if (left_ns <= 0)
		return err_set(err, ERR_USAGE,
		               "load: --start-at: that time passed %.3f s ago, while prompts were made",
		               (double)-left_ns / 1e9);
	*start_ns = clock_now_ns() + (uint64_t)left_ns;
	progress_phase("waiting for the start");
	pause_until(*start_ns);
	return 0;
}

static int load(struct drive *d, struct err *err)
{
	struct load_spec spec = spec_of(d);
	if (wait_for_start(d, &spec.start_at_ns, err))
		return -1;
	spec.source = (struct load_source){ .get = get, .done = request_done, .ctx = d };
	if (d->o->turns)
		spec.source.follow = follow;
	spec.keep_text = d->o->turns > 0;
	spec.sink = (struct load_sink){ take, d };
	spec.tick = tick;
	spec.tick_ctx = d;
	progress_phase("load");
	return run_with(d->bodies, &d->part.r, &spec, err);
}

/* --- calibration -------------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *v, size_t n, uint64_t otherwise)
{
	if (!n)
		return otherwise;
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

/* What the load was like, within half a second. */
static void describe_load(const struct drive *d, struct calibration_spec *c, uint64_t *due, uint64_t *ttft,
                          uint64_t *itl)
{
	size_t n_ttft = 0, n_itl = 0;
	uint64_t start = d->part.r.start_ns;
	for (size_t i = 0; i < d->rows.n; i++) {
		const struct load_row *r = &d->rows.v[i];
		if (r->due_ns >= start && r->due_ns - start < CALIBRATION_NS)
			due[c->n_due++] = r->due_ns - start;
		if (r->outcome != OUTCOME_OK || r->first_token_ns == REC_NONE)
			continue;
		ttft[n_ttft++] = r->first_token_ns - r->sent_ns;
		if (r->tok_n > 1)
			itl[n_itl++] = (r->last_token_ns - r->first_token_ns) / (r->tok_n - 1);
	}
	qsort(due, c->n_due, sizeof(*due), by_value);
	c->due_ns = due;
	c->ttft_ns = median(ttft, n_ttft, CALIBRATION_TTFT_MAX_NS);
	c->itl_ns = median(itl, n_itl, CALIBRATION_ITL_MAX_NS);
	c->ttft_ns = c->ttft_ns < CALIBRATION_TTFT_MAX_NS ? c->ttft_ns : CALIBRATION_TTFT_MAX_NS;
	c->itl_ns = c->itl_ns < CALIBRATION_ITL_MAX_NS ? c->itl_ns : CALIBRATION_ITL_MAX_NS;
}

static void calibrate_client(struct drive *d)
{
	struct err err = { 0 };
	size_t room = d->rows.n + 1;
	auto_free uint64_t *due = malloc(room * sizeof(*due)), *ttft = malloc(room * sizeof(*ttft)),
			   *itl = malloc(room * sizeof(*itl));
	struct calibration_spec c = {
		.arrival = d->cells->wl->arrival.kind,
		.concurrency = part_of(d->o, d->cells->concurrency),
		.duration_ns = CALIBRATION_NS,
		.body_bytes = d->body_bytes,
		.output_tok = d->cells->output_tok ? d->cells->output_tok : d->o->output_tok,
		.threads = (unsigned)d->o->threads,
		.busy_poll = d->o->busy_poll,
		.abort = &interrupt_drain,
	};
	if (!d->o->calibrate || stopped() || !due || !ttft || !itl) {
		snprintf(d->part.cal_why, sizeof(d->part.cal_why), "%s",
		         d->o->calibrate ? "interrupted" : "not asked for");
		return;
	}
	progress_phase("calibration");
	describe_load(d, &c, due, ttft, itl);
	d->part.calibrated = calibrate(&d->part.cal, &c, &err) == 0;
	if (!d->part.calibrated)
		snprintf(d->part.cal_why, sizeof(d->part.cal_why), "%.*s", (int)sizeof(d->part.cal_why) - 1,
		         err.msg);
}

/* --- the result --------------------------------------------------------------------------------------------
 */

static void fill_part(struct drive *d)
{
	struct load_part *p = &d->part;
	auto_buf boot = BUF_INIT(64);
	struct err none = { 0 };
	p->shard = d->o->shard;
	p->offset_known = d->clock.known || d->o->shard == 0;
	p->offset_ns = d->clock.offset_ns;
	p->uncertainty_ns = d->clock.uncertainty_ns;
	p->wall_step_ns = (clock_wall_ns() - d->origin_wall_ns) - (int64_t)(clock_now_ns() - d->origin_ns);
	if (gethostname(p->host, sizeof(p->host) - 1))
		p->host[0] = '\0';
	if (fs_read(&boot, "/proc/sys/kernel/random/boot_id", 63, &none) == 0 && boot.p)
		snprintf(p->boot_id, sizeof(p->boot_id), "%.*s", (int)strcspn(boot.p, "\n"), boot.p);
	if (d->dir && rundir_full(d->dir))
		p->r.stopped_by = "disk_full";
}

static int put_prompt(void *ctx, const char *line, size_t len)
{
	struct drive *d = ctx;
	return rundir_line(d->dir, "prompts.jsonl", line, len);
}

static int write_records(struct drive *d, const struct load_sum *s, struct err *err)
{
	auto_buf shard = BUF_INIT(JSON_BYTES_MAX), json = BUF_INIT(JSON_BYTES_MAX);
	struct load_shard sh = {
		.part = d->part,
		.n_shards = d->o->n_shards,
		.origin_wall_ns = d->origin_wall_ns,
		.exact = s->exact,
		.interrupted = s->interrupted,
		.url = d->o->url,
		.model = d->server.model,
		.plan = d->doc,
		.slo = d->o->slo,
	};
	snprintf(sh.engine_word, sizeof(sh.engine_word), "%s", s->engine_word);
	load_shard_write(&shard, &sh);
	if (load_json(&json, s, d->o->url, err))
		return -1;
	if (cell_bodies_list(d->bodies, put_prompt, d))
		return err_set(err, ERR_ENV, "%s/prompts.jsonl: cannot write", d->o->records);
	rundir_flush(d->dir);
	if (shard.failed)
		return err_set(err, ERR_ENV, "load: no memory");
	return rundir_write(d->dir, "shard.json", shard.p, shard.len, err) ||
	                       rundir_write(d->dir, "load.json", json.p, json.len, err)
	               ? -1
	               : 0;
}

static int tell(struct drive *d, struct err *err)
{
	struct load_sum s = {
		.plan = d->plan,
		.cell = d->cells,
		.engine_word =
			d->server.engine == ENGINE_ATTACH ? "plain" : engine_kind_words[d->server.engine],
		.model = d->server.model,
		.exact = prompts_exact(d->prompts),
		.interrupted = stopped(),
		.slo = &d->o->slo,
		.n_parts = 1,
		.parts = &d->part,
		.n_shards = d->o->n_shards,
	};
	auto_buf json = BUF_INIT(JSON_BYTES_MAX);
	if (load_sum_make(&s, &d->rows, err) || (d->dir && write_records(d, &s, err)))
		return -1;
	if (d->o->json && load_json(&json, &s, d->o->url, err))
		return -1;
	progress_close();
	if (d->o->json)
		fwrite(json.p, 1, json.len, stdout);
	else
		load_table(stdout, &s, d->o->url);
	return load_exit_code(&s);
}

static int drive(struct drive *d, struct err *err)
{
	if (prepare(d, err) || warm_up(d, err))
		return -1;
	if (d->o->sync && load_sync(&d->clock, d->o, &interrupt_drain, err))
		return -1;
	if (stopped())
		return err_set(err, ERR_INTERRUPTED, "load: interrupted before the load");
	if (load(d, err))
		return -1;
	calibrate_client(d);
	fill_part(d);
	return tell(d, err);
}

int load_drive(const struct load_opts *o, struct err *err)
{
	struct drive d = { .o = o, .origin_ns = clock_now_ns(), .origin_wall_ns = clock_wall_ns() };
	buf_init(&d.doc, PLAN_BYTES_MAX);
	interrupt_catch();
	progress_open(o->quiet ? PROGRESS_NONE : PROGRESS_AUTO);
	int rc = drive(&d, err);
	progress_close();
	done(&d);
	return rc;
}
