/* SPDX-License-Identifier: Apache-2.0 */
/* A cell from its limits to its result: one shard in the caller's thread, or one a thread. */
#include "load/load.h"

#include "base/clock.h"
#include "load/limits.h"
#include "load/shard.h"
#include "load/soundness.h"

#include <signal.h>
#include <string.h>

#define START_AHEAD_NS (2 * NS_PER_MS) /* for all threads to be awake at time 0 */

static int check_spec(const struct load_spec *spec, struct err *err)
{
	if (spec->arrival == ARRIVAL_CLOSED && !spec->concurrency)
		return err_set(err, ERR_BUG, "load: %s: closed loop without concurrency", spec->cell_id);
	return 0;
}

/* --- set-up -------------------------------------------------------------------------------------------- */

/* Never more shards than streams or requests: each has something to do. */
static unsigned count_shards(const struct load_spec *spec)
{
	uint64_t n = spec->threads ? spec->threads : 1;
	if (spec->concurrency && n > spec->concurrency)
		n = spec->concurrency;
	if (spec->n_requests && n > spec->n_requests)
		n = spec->n_requests;
	return (unsigned)n;
}

/* Slots i, i + n, … of `total`. */
static size_t share(uint64_t total, unsigned i, unsigned n)
{
	return (size_t)((total - i + n - 1) / n);
}

static int setup(struct cell_run *c, struct err *err)
{
	struct load_limits limits;
	if (check_spec(c->spec, err) < 0 || limits_check(&limits, c->spec, err) < 0)
		return -1;
	uint64_t slots = limits.streams ? limits.streams : limits.max_streams;
	c->n_shards = count_shards(c->spec);
	if (slots < c->n_shards)
		return err_set(err, ERR_ENV, "load: %u threads for %llu streams: fewer threads", c->n_shards,
		               (unsigned long long)slots);
	c->end_g = c->spec->n_requests ? c->spec->n_requests : UINT64_MAX;
	c->shards = calloc(c->n_shards, sizeof(struct shard *));
	if (!c->shards)
		return err_set(err, ERR_ENV, "load: no memory");
	for (unsigned i = 0; i < c->n_shards; i++) {
		c->shards[i] = shard_new(c, i, err);
		if (!c->shards[i] || shard_setup(c->shards[i], share(slots, i, c->n_shards), err) < 0)
			return -1;
	}
	return 0;
}

static void set_start(struct cell_run *c, uint64_t ahead_ns)
{
	const struct load_spec *spec = c->spec;
	c->start_ns = spec->start_at_ns ? spec->start_at_ns : clock_now_ns() + ahead_ns;
	c->until_ns = spec->duration_ns ? c->start_ns + spec->duration_ns : UINT64_MAX;
}

static void teardown(struct cell_run *c)
{
	for (unsigned i = 0; c->shards && i < c->n_shards; i++)
		shard_free(c->shards[i]);
	free(c->shards);
	pthread_mutex_destroy(&c->source_lock);
	pthread_mutex_destroy(&c->gate_lock);
	pthread_cond_destroy(&c->gate);
}

static void init(struct cell_run *c, const struct load_spec *spec)
{
	pthread_condattr_t attr;
	*c = (struct cell_run){ .spec = spec };
	pthread_mutex_init(&c->source_lock, NULL);
	pthread_mutex_init(&c->gate_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->gate, &attr);
	pthread_condattr_destroy(&attr);
}

/* --- result -------------------------------------------------------------------------------------------- */

/* Of what ended the shards, what the cell is said to have ended by. */
static const char *worse(const char *a, const char *b)
{
	static const char *const order[] = { "no_memory", "disk_full", "engine_died", "interrupt",
		                             "duration" };
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (strcmp(a, order[i]) == 0 || strcmp(b, order[i]) == 0)
			return order[i];
	}
	return "complete";
}

static void add_shard(struct load_result *out, const struct shard *r, struct hist *send, struct hist *loop)
{
	const struct load_result *res = &r->ld.result;
	uint64_t start = r->cell->start_ns, wall = r->end_ns > start ? r->end_ns - start : 0;
	out->scheduled += res->scheduled;
	out->done += res->done;
	out->n_retries += res->n_retries;
	out->max_in_flight += res->max_in_flight;
	out->client_cpu_ns += res->client_cpu_ns;
	bool known = out->runq_wait_ns != REC_NONE && res->runq_wait_ns != REC_NONE;
	out->runq_wait_ns = known ? out->runq_wait_ns + res->runq_wait_ns : REC_NONE;
	out->wall_ns = wall > out->wall_ns ? wall : out->wall_ns;
	out->stopped_by = worse(out->stopped_by, r->closed_by ? r->closed_by : "complete");
	hist_merge(send, &r->ld.send_lag);
	hist_merge(loop, &r->ld.loop_lag);
}

static void fill_lags(struct load_result *out, const struct hist *send, const struct hist *loop)
{
	out->send_lag_p50_ns = hist_quantile_ns(send, 0.5);
	out->send_lag_p99_ns = hist_quantile_ns(send, 0.99);
	out->send_lag_max_ns = send->n ? send->max_ns : REC_NONE;
	out->loop_lag_p50_ns = hist_quantile_ns(loop, 0.5);
	out->loop_lag_p99_ns = hist_quantile_ns(loop, 0.99);
	out->loop_lag_max_ns = loop->n ? loop->max_ns : REC_NONE;
	out->loop_lag_n = loop->n;
}

/* -1 without memory for the histograms. */
static int sum_up(struct load_result *out, const struct cell_run *c)
{
	uint64_t origin = c->spec->origin_ns;
	struct load_result res = {
		.stopped_by = "complete",
		.start_ns = c->start_ns > origin ? c->start_ns - origin : 0,
		.threads = c->n_shards,
	};
	auto_free struct hist *send = calloc(2, sizeof *send);
	if (!send)
		return -1;
	for (unsigned i = 0; i < c->n_shards; i++)
		add_shard(&res, c->shards[i], &send[0], &send[1]);
	fill_lags(&res, &send[0], &send[1]);
	*out = res;
	return 0;
}

static void add_steal(struct load_result *out, uint64_t steal, uint64_t total)
{
	uint64_t steal_now, total_now;
	soundness_steal(&steal_now, &total_now);
	bool known = total && total_now >= total && steal_now >= steal;
	out->steal_ticks = known ? steal_now - steal : 0;
	out->total_ticks = known ? total_now - total : 0;
}

/* --- threads ------------------------------------------------------------------------------------------- */

static void *thread_main(void *ctx)
{
	struct shard *r = ctx;
	struct cell_run *c = r->cell;
	transfer_open_ahead(&r->ld);
	pthread_mutex_lock(&c->gate_lock);
	c->n_ready++;
	pthread_cond_broadcast(&c->gate);
	while (!c->open)
		pthread_cond_wait(&c->gate, &c->gate_lock);
	pthread_mutex_unlock(&c->gate_lock);
	shard_run(r);
	pthread_mutex_lock(&c->gate_lock);
	c->n_ended++;
	pthread_cond_broadcast(&c->gate);
	pthread_mutex_unlock(&c->gate_lock);
	return NULL;
}

/* Signals are for the caller's thread. Returns how many threads run. */
static unsigned start_threads(struct cell_run *c)
{
	sigset_t all, old;
	unsigned n = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (n < c->n_shards && pthread_create(&c->shards[n]->thread, NULL, thread_main, c->shards[n]) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return n;
}

static void open_gate(struct cell_run *c, unsigned n_threads)
{
	pthread_mutex_lock(&c->gate_lock);
	while (c->n_ready < n_threads)
		pthread_cond_wait(&c->gate, &c->gate_lock);
	set_start(c, START_AHEAD_NS);
	c->open = true;
	pthread_cond_broadcast(&c->gate);
	pthread_mutex_unlock(&c->gate_lock);
}

static void show_all(const struct cell_run *c)
{
	const struct load_spec *spec = c->spec;
	struct load_progress sum = { 0 };
	auto_free struct hist *ttft = calloc(1, sizeof *ttft);
	if (!spec->tick || !ttft)
		return;
	for (unsigned i = 0; i < c->n_shards; i++) {
		struct shard *r = c->shards[i];
		pthread_mutex_lock(&r->shown_lock);
		struct load_progress p = r->shown;
		hist_merge(ttft, &r->shown_ttft);
		pthread_mutex_unlock(&r->shown_lock);
		sum.scheduled += p.scheduled;
		sum.done += p.done;
		sum.failed += p.failed;
		sum.in_flight += p.in_flight;
		sum.tokens += p.tokens;
		sum.planned = p.planned;
		sum.elapsed_ns = p.elapsed_ns > sum.elapsed_ns ? p.elapsed_ns : sum.elapsed_ns;
	}
	sum.ttft_p50_ns = hist_quantile_ns(ttft, 0.5);
	sum.ttft_p99_ns = hist_quantile_ns(ttft, 0.99);
	sum.ttft_max_ns = ttft->n ? ttft->max_ns : REC_NONE;
	spec->tick(spec->tick_ctx, &sum);
}

static void wait_for_threads(struct cell_run *c, unsigned n_threads)
{
	pthread_mutex_lock(&c->gate_lock);
	while (c->n_ended < n_threads) {
		uint64_t at = clock_now_ns() + PROGRESS_NS;
		struct timespec ts = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) };
		int rc = 0;
		while (rc == 0 && c->n_ended < n_threads)
			rc = pthread_cond_timedwait(&c->gate, &c->gate_lock, &ts);
		if (c->n_ended == n_threads)
			break;
		pthread_mutex_unlock(&c->gate_lock);
		show_all(c);
		pthread_mutex_lock(&c->gate_lock);
	}
	pthread_mutex_unlock(&c->gate_lock);
	for (unsigned i = 0; i < n_threads; i++)
		pthread_join(c->shards[i]->thread, NULL);
}

static int merge_records(struct cell_run *c)
{
	auto_free struct spool **all = calloc(c->n_shards, sizeof *all);
	if (!all)
		return -1;
	for (unsigned i = 0; i < c->n_shards; i++)
		all[i] = c->shards[i]->spool;
	return spool_merge(all, c->n_shards, &c->spec->sink);
}

static void run_threads(struct cell_run *c)
{
	unsigned n = start_threads(c);
	if (n < c->n_shards) {
		struct shard *r = c->shards[n];
		__atomic_store_n(&c->failed, true, __ATOMIC_RELAXED);
		r->rc = err_set(&r->err, ERR_ENV, "load: the system gives no thread %u of %u: fewer threads",
		                n + 1, c->n_shards);
	}
	open_gate(c, n);
	wait_for_threads(c, n);
	if (merge_records(c) < 0)
		c->shards[0]->closed_by = "disk_full";
	for (unsigned i = 0; i < c->n_shards; i++) { /* the last tick shows the end */
		shard_progress(c->shards[i], &c->shards[i]->shown);
		c->shards[i]->shown_ttft = c->shards[i]->ld.ttft;
	}
	show_all(c);
}

static void run_here(struct cell_run *c)
{
	struct shard *r = c->shards[0];
	struct load_progress p;
	transfer_open_ahead(&r->ld);
	set_start(c, 0);
	shard_run(r);
	if (!c->spec->tick)
		return;
	shard_progress(r, &p);
	c->spec->tick(c->spec->tick_ctx, &p);
}

static int first_error(const struct cell_run *c, struct err *err)
{
	for (unsigned i = 0; i < c->n_shards; i++) {
		if (c->shards[i]->rc < 0) {
			*err = c->shards[i]->err;
			return -1;
		}
	}
	return 0;
}

int load_run(struct load_result *out, const struct load_spec *spec, struct err *err)
{
	struct load_result res;
	struct cell_run c;
	uint64_t steal = 0, total = 0;
	init(&c, spec);
	int rc = setup(&c, err);
	if (rc == 0) {
		soundness_steal(&steal, &total);
		if (c.n_shards > 1)
			run_threads(&c);
		else
			run_here(&c);
		rc = first_error(&c, err);
	}
	if (rc == 0 && sum_up(&res, &c) < 0)
		rc = err_set(err, ERR_ENV, "load: no memory");
	if (rc == 0) {
		add_steal(&res, steal, total);
		*out = res;
	}
	teardown(&c);
	return rc;
}
