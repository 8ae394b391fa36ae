/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: what is due is sent, what comes is read, what ends is recorded. Due times come from a timerfd of
 * our own (libcurl counts in ms), or, with busy_poll, from a look at the clock; a second one ticks for
 * deadlines and measures how late the loop is.
 */
#include "load/shard.h"

#include "base/clock.h"
#include "load/soundness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define TICK_NS (20 * NS_PER_MS)
#define DEATH_GRACE_NS (2 * NS_PER_S)
#define END_GRACE_NS (60 * NS_PER_S) /* a timed cell without a deadline or stall limit of its own */
#define EVENTS_PER_WAIT 128

static void stop_all(struct shard *r, enum transport how, const char *why)
{
	while (r->ld.n_busy)
		slot_stop(r->ld.busy[r->ld.n_busy - 1], how, why);
}

/* --- ticks --------------------------------------------------------------------------------------------- */

void shard_progress(const struct shard *r, struct load_progress *p)
{
	const struct load *ld = &r->ld;
	const struct load_spec *spec = ld->spec;
	uint64_t now = clock_now_ns(), start = r->cell->start_ns;
	*p = (struct load_progress){
		.scheduled = ld->result.scheduled,
		.done = ld->result.done,
		.failed = ld->n_failed,
		.in_flight = ld->result.scheduled - ld->result.done,
		.planned = spec->n_planned ? spec->n_planned : spec->n_requests,
		.tokens = ld->n_tokens,
		.ttft_p50_ns = hist_quantile_ns(&ld->ttft, 0.5),
		.ttft_p99_ns = hist_quantile_ns(&ld->ttft, 0.99),
		.ttft_max_ns = ld->ttft.n ? ld->ttft.max_ns : REC_NONE,
		.elapsed_ns = now > start ? now - start : 0,
	};
}

static void report_progress(struct shard *r, uint64_t now_ns)
{
	const struct load_spec *spec = r->ld.spec;
	struct load_progress p;
	if (!spec->tick || now_ns < r->next_progress_ns)
		return;
	r->next_progress_ns = now_ns + PROGRESS_NS;
	if (r->cell->n_shards == 1) {
		shard_progress(r, &p);
		spec->tick(spec->tick_ctx, &p);
	} else if (pthread_mutex_trylock(&r->shown_lock) == 0) {
		shard_progress(r, &r->shown);
		r->shown_ttft = r->ld.ttft;
		pthread_mutex_unlock(&r->shown_lock);
	}
}

/* Every tick that should have come counts, also those a blocked loop slept through. */
static void take_tick(struct shard *r)
{
	uint64_t n = 0;
	if (read(r->ld.tick_fd, &n, sizeof n) != sizeof n)
		return;
	uint64_t now = clock_now_ns();
	for (; r->next_tick_ns <= now; r->next_tick_ns += TICK_NS)
		hist_add(&r->ld.loop_lag, now - r->next_tick_ns);
	deadlines_check(&r->ld, now);
	report_progress(r, now);
}

static bool all_taken(const struct shard *r)
{
	return turns_closed_loop(r) && __atomic_load_n(&r->cell->next_g, __ATOMIC_RELAXED) >=
	                                       __atomic_load_n(&r->cell->end_g, __ATOMIC_RELAXED);
}

/* Ends that cut what is in flight. */
static void look_for_cuts(struct shard *r, uint64_t now_ns)
{
	const struct load_spec *spec = r->ld.spec;
	uint64_t until = r->cell->until_ns;
	bool endless = !spec->deadline_ns && !spec->stall_timeout_ns;
	if (load_flag(spec->abort)) {
		turns_stop(r, "interrupt", true);
		stop_all(r, TRANSPORT_CANCELLED, "ended by the user");
	}
	if (r->died_ns && now_ns - r->died_ns > DEATH_GRACE_NS)
		stop_all(r, TRANSPORT_RESET, "the engine process ended");
	if (load_flag(&r->cell->failed) || r->ld.oom) {
		turns_stop(r, r->ld.oom ? "no_memory" : "disk_full", true);
		stop_all(r, TRANSPORT_CANCELLED, "the record could not be kept");
	}
	if (endless && now_ns >= until && now_ns - until > END_GRACE_NS)
		stop_all(r, TRANSPORT_CANCELLED, "end of the timed cell");
}

/* Flags and ends that are not tied to a request. False = the cell is over. */
static bool look_around(struct shard *r, uint64_t now_ns)
{
	look_for_cuts(r, now_ns);
	if (load_flag(r->ld.spec->drain))
		turns_stop(r, "interrupt", false);
	if (r->died_ns)
		turns_stop(r, "engine_died", true);
	if (all_taken(r))
		turns_close(r, "complete");
	if (now_ns >= r->cell->until_ns)
		turns_stop(r, "duration", false);
	return r->ld.n_busy > 0 || r->n_waiting > 0 || !r->closed_by;
}

/* --- loop ---------------------------------------------------------------------------------------------- */

static void arm_due(struct shard *r)
{
	uint64_t due = turns_next_due(r);
	if (due > r->cell->until_ns)
		due = r->closed_by ? UINT64_MAX : r->cell->until_ns;
	uint64_t at = due == UINT64_MAX ? 0 : due;
	if (at == r->armed_ns)
		return;
	struct itimerspec its = { .it_value = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) } };
	timerfd_settime(r->ld.due_fd, TFD_TIMER_ABSTIME, &its, NULL);
	r->armed_ns = at;
}

static int wait_ms(const struct shard *r)
{
	uint64_t now, due = r->ld.curl_due_ns;
	if (r->ld.spec->busy_poll)
		return 0;
	if (due == UINT64_MAX)
		return 100;
	now = clock_now_ns();
	if (due <= now)
		return 0;
	uint64_t ms = (due - now) / NS_PER_MS + 1;
	return ms < 100 ? (int)ms : 100;
}

static void take_event(struct shard *r, const struct epoll_event *ev)
{
	struct load *ld = &r->ld;
	int fd = ev->data.fd;
	uint64_t n;
	if (fd == ld->due_fd) {
		if (read(fd, &n, sizeof n) == sizeof n)
			r->armed_ns = 0;
	} else if (fd == ld->tick_fd) {
		take_tick(r);
	} else if (r->watching && fd == ld->spec->watch_fd) {
		r->died_ns = clock_now_ns();
		r->watching = false;
		epoll_ctl(ld->epfd, EPOLL_CTL_DEL, fd, NULL);
	} else {
		transfer_ready(ld, fd, ev->events);
		transfer_reap(ld);
		if (turns_next_due(r) != UINT64_MAX) /* a long batch must not make the next send late */
			turns_send_due(r, clock_now_ns());
	}
}

static int loop(struct shard *r, struct err *err)
{
	struct load *ld = &r->ld;
	struct epoll_event evs[EVENTS_PER_WAIT];
	uint64_t now = clock_now_ns();
	turns_send_due(r, now);
	while (look_around(r, now)) {
		uint64_t before = 0;
		if (ld->spec->busy_poll)
			before = clock_now_ns();
		else
			arm_due(r);
		int n = epoll_wait(ld->epfd, evs, EVENTS_PER_WAIT, wait_ms(r));
		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_BUG, errno, "load: epoll_wait");
		now = clock_now_ns();
		turns_send_due(r, now); /* before a long batch is read */
		for (int i = 0; i < n; i++)
			take_event(r, &evs[i]);
		if (n > 0)
			now = clock_now_ns();
		else if (ld->spec->busy_poll)
			r->spun_ns += now - before;
		if (ld->curl_due_ns <= now)
			transfer_timeout(ld);
		if (transfer_reap(ld) > 0)
			now = clock_now_ns();
		turns_send_due(r, now);
	}
	if (ld->oom)
		return err_set(err, ERR_ENV, "load: no memory");
	return 0;
}

/* --- set-up -------------------------------------------------------------------------------------------- */

static int watch(int epfd, int fd, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
	if (fd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_sys(err, ERR_ENV, errno, "load: epoll");
	return 0;
}

static int open_fds(struct shard *r, struct err *err)
{
	struct load *ld = &r->ld;
	ld->epfd = epoll_create1(EPOLL_CLOEXEC);
	ld->due_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	ld->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ld->epfd < 0 || ld->due_fd < 0 || ld->tick_fd < 0)
		return err_sys(err, ERR_ENV, errno, "load: timers");
	if (watch(ld->epfd, ld->due_fd, err) < 0 || watch(ld->epfd, ld->tick_fd, err) < 0)
		return -1;
	r->watching = ld->spec->watch_fd >= 0;
	return r->watching ? watch(ld->epfd, ld->spec->watch_fd, err) : 0;
}

static int make_slots(struct shard *r, struct err *err)
{
	struct load *ld = &r->ld;
	size_t n = ld->max_slots;
	ld->slots = calloc(n, sizeof *ld->slots);
	ld->free_slots = calloc(n, sizeof *ld->free_slots);
	ld->busy = calloc(n, sizeof *ld->busy);
	if (!ld->slots || !ld->free_slots || !ld->busy || dues_init(&r->dues, n) < 0)
		return err_set(err, ERR_ENV, "load: no memory");
	size_t first = turns_closed_loop(r) || n < 64 ? n : 64;
	for (size_t i = 0; i < first; i++) {
		struct slot *s = slot_new(ld);
		if (!s)
			return err_set(err, ERR_ENV, "load: no memory for %zu streams", n);
		s->index = r->index + i * r->cell->n_shards;
		ld->slots[ld->n_slots++] = s;
		ld->free_slots[ld->n_free++] = s;
	}
	return 0;
}

struct shard *shard_new(struct cell_run *cell, unsigned index, struct err *err)
{
	struct shard *r = calloc(1, sizeof *r);
	if (!r || (cell->n_shards > 1 && !(r->spool = spool_new(SPOOL_MEMORY_BYTES)))) {
		free(r);
		err_set(err, ERR_ENV, "load: no memory");
		return NULL;
	}
	r->cell = cell;
	r->index = index;
	r->ld.spec = cell->spec;
	r->ld.finished = turns_take_finished;
	r->ld.epfd = r->ld.due_fd = r->ld.tick_fd = -1;
	r->ld.curl_due_ns = UINT64_MAX;
	pthread_mutex_init(&r->shown_lock, NULL);
	return r;
}

int shard_setup(struct shard *r, size_t max_slots, struct err *err)
{
	r->ld.max_slots = max_slots;
	if (transfer_setup(&r->ld, err) < 0 || open_fds(r, err) < 0)
		return -1;
	return make_slots(r, err);
}

void shard_free(struct shard *r)
{
	if (!r)
		return;
	struct load *ld = &r->ld;
	int fds[] = { ld->epfd, ld->due_fd, ld->tick_fd };
	transfer_teardown(ld);
	free(ld->slots);
	free(ld->free_slots);
	free(ld->busy);
	dues_done(&r->dues);
	spool_free(r->spool);
	pthread_mutex_destroy(&r->shown_lock);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(r);
}

/* --- run ----------------------------------------------------------------------------------------------- */

static void begin(struct shard *r)
{
	r->next_tick_ns = r->cell->start_ns + TICK_NS;
	struct itimerspec tick = {
		.it_value = { (time_t)(r->next_tick_ns / NS_PER_S), (long)(r->next_tick_ns % NS_PER_S) },
		.it_interval = { 0, (long)TICK_NS },
	};
	timerfd_settime(r->ld.tick_fd, TFD_TIMER_ABSTIME, &tick, NULL);
	turns_begin(r);
}

/* Spinning is no work; what of it was no CPU time either, because others had the CPU, is not taken off. */
static void fill_cpu(struct shard *r, uint64_t cpu_ns, uint64_t runq_before_ns, uint64_t runq_ns)
{
	struct load_result *res = &r->ld.result;
	bool known = runq_before_ns != REC_NONE && runq_ns != REC_NONE;
	uint64_t waited = known ? runq_ns - runq_before_ns : 0;
	uint64_t spun = r->spun_ns > waited ? r->spun_ns - waited : 0;
	res->client_cpu_ns = cpu_ns > spun ? cpu_ns - spun : 0;
	res->runq_wait_ns = known ? waited : REC_NONE;
}

void shard_run(struct shard *r)
{
	uint64_t cpu = soundness_cpu_ns(), runq = soundness_runq_wait_ns();
	begin(r);
	r->rc = loop(r, &r->err);
	if (r->rc < 0)
		__atomic_store_n(&r->cell->failed, true, __ATOMIC_RELAXED);
	r->end_ns = clock_now_ns();
	fill_cpu(r, soundness_cpu_ns() - cpu, runq, soundness_runq_wait_ns());
}
