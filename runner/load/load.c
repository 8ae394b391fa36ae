/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: what is due is sent, what comes is read, what ends is recorded. Due times come from a timerfd of
 * our own (libcurl counts in ms); a second one ticks for deadlines and measures how late the loop is.
 */
#include "load/load_int.h"

#include "base/clock.h"
#include "model/schedule.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

/* A closed loop opens one stream after the other: a connection costs about half of this, and a burst that no
 * client can send at once would only show up as a late client. */
#define OPENING_STEP_NS (200 * NS_PER_US)
#define TICK_NS (20 * NS_PER_MS)
#define PROGRESS_NS (250 * NS_PER_MS)
#define DEATH_GRACE_NS (2 * NS_PER_S)
#define END_GRACE_NS (60 * NS_PER_S) /* a timed cell without a deadline or stall limit of its own */
#define EVENTS_PER_WAIT 128

/* Closed loop: slots that wait for their next due time. The pause is the same for all, so they come due in
 * the order in which they were put in. */
struct waiting {
	size_t head, n;
	struct {
		struct slot *slot;
		uint64_t due_ns;
	} * ring;
};

struct cell_run {
	struct load ld; /* first: take_finished finds the run by it */
	struct waiting waiting;
	struct schedule open;
	uint64_t open_due_ns; /* next due time of the open loop */
	uint64_t start_ns, until_ns;
	uint64_t armed_ns; /* what due_fd is set to, 0 = nothing */
	uint64_t next_tick_ns, next_progress_ns;
	uint64_t died_ns; /* when the engine ended, 0 = it lives */
	bool watching;
	const char *closed_by; /* why no more is scheduled, NULL = it still is */
};

static bool is_set(const bool *flag)
{
	return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static bool is_closed_loop(const struct cell_run *r)
{
	return r->ld.spec->arrival == ARRIVAL_CLOSED;
}

static void close_schedule(struct cell_run *r, const char *why)
{
	if (!r->closed_by)
		r->closed_by = why;
}

/* --- schedule ------------------------------------------------------------------------------------------ */

/* In order of due time: nearly always at the end; during the opening a quick answer may come due before slots
 * that have not had their first turn. */
static void wait_push(struct cell_run *r, struct slot *s, uint64_t due_ns)
{
	struct waiting *w = &r->waiting;
	size_t max = r->ld.max_slots, at = (w->head + w->n++) % max;
	for (size_t i = w->n - 1; i > 0; i--) {
		size_t before = (w->head + i - 1) % max;
		if (w->ring[before].due_ns <= due_ns)
			break;
		w->ring[at] = w->ring[before];
		at = before;
	}
	w->ring[at].slot = s;
	w->ring[at].due_ns = due_ns;
}

/* Next due time, UINT64_MAX when nothing can be sent before something ends. */
static uint64_t next_due(const struct cell_run *r)
{
	const struct load *ld = &r->ld;
	if (r->closed_by)
		return UINT64_MAX;
	if (is_closed_loop(r))
		return r->waiting.n ? r->waiting.ring[r->waiting.head].due_ns : UINT64_MAX;
	return ld->n_free || ld->n_slots < ld->max_slots ? r->open_due_ns : UINT64_MAX;
}

static struct slot *take_slot(struct cell_run *r)
{
	struct load *ld = &r->ld;
	if (is_closed_loop(r)) {
		struct slot *s = r->waiting.ring[r->waiting.head].slot;
		r->waiting.head = (r->waiting.head + 1) % ld->max_slots;
		r->waiting.n--;
		return s;
	}
	if (ld->n_free)
		return ld->free_slots[--ld->n_free];
	struct slot *s = slot_new(ld);
	if (s) {
		s->index = ld->n_slots;
		ld->slots[ld->n_slots++] = s;
	}
	return s;
}

static void send_one(struct cell_run *r, uint64_t due_ns)
{
	struct load *ld = &r->ld;
	const struct load_request *rq = ld->spec->source.get(ld->spec->source.ctx, ld->result.scheduled);
	struct slot *s = rq ? take_slot(r) : NULL;
	if (!s) {
		close_schedule(r, rq ? "no_memory" : "complete");
		ld->oom |= rq != NULL;
		return;
	}
	ld->result.scheduled++;
	if (!is_closed_loop(r))
		r->open_due_ns = r->start_ns + schedule_next_ns(&r->open);
	slot_send(s, rq, due_ns);
	if (ld->n_busy > ld->result.max_in_flight)
		ld->result.max_in_flight = ld->n_busy;
	if (ld->spec->n_requests && ld->result.scheduled >= ld->spec->n_requests)
		close_schedule(r, "complete");
}

static void send_due(struct cell_run *r, uint64_t now_ns)
{
	uint64_t due;
	while ((due = next_due(r)) <= now_ns) {
		if (due >= r->until_ns) {
			close_schedule(r, "duration");
			return;
		}
		send_one(r, due);
	}
}

static void arm_due(struct cell_run *r)
{
	uint64_t due = next_due(r);
	if (due > r->until_ns)
		due = r->closed_by ? UINT64_MAX : r->until_ns;
	uint64_t at = due == UINT64_MAX ? 0 : due;
	if (at == r->armed_ns)
		return;
	struct itimerspec its = { .it_value = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) } };
	timerfd_settime(r->ld.due_fd, TFD_TIMER_ABSTIME, &its, NULL);
	r->armed_ns = at;
}

static void take_finished(struct load *ld, struct slot *s)
{
	struct cell_run *r = (struct cell_run *)(void *)ld;
	const struct load_spec *spec = ld->spec;
	struct record *rec = &s->rec;
	ld->result.done++;
	ld->n_failed += rec->outcome != OUTCOME_OK && rec->outcome != OUTCOME_CANCELLED;
	if (rec->first_token_ns != REC_NONE)
		hist_add(&ld->ttft,
		         rec->first_token_ns > rec->due_ns ? rec->first_token_ns - rec->due_ns : 0);
	const char *text = spec->keep_text ? (s->text.p ? s->text.p : "") : NULL;
	if (!ld->sink_failed &&
	    spec->sink.take(spec->sink.ctx, rec, s->ans.tokens, s->ans.tokens_len, text, s->text.len) != 0) {
		ld->sink_failed = true;
		close_schedule(r, "disk_full");
	}
	if (is_closed_loop(r))
		wait_push(r, s, clock_now_ns() + spec->think_ns);
	else
		ld->free_slots[ld->n_free++] = s;
}

static void stop_all(struct cell_run *r, enum transport how, const char *why)
{
	while (r->ld.n_busy)
		slot_stop(r->ld.busy[r->ld.n_busy - 1], how, why);
}

/* --- ticks --------------------------------------------------------------------------------------------- */

static void report_progress(struct cell_run *r, uint64_t now_ns)
{
	const struct load *ld = &r->ld;
	if (!ld->spec->tick || now_ns < r->next_progress_ns)
		return;
	r->next_progress_ns = now_ns + PROGRESS_NS;
	struct load_progress p = {
		.scheduled = ld->result.scheduled,
		.done = ld->result.done,
		.failed = ld->n_failed,
		.in_flight = ld->n_busy,
		.planned = ld->spec->n_requests,
		.tokens = ld->n_tokens,
		.ttft_p50_ns = hist_quantile_ns(&ld->ttft, 0.5),
		.ttft_p99_ns = hist_quantile_ns(&ld->ttft, 0.99),
		.ttft_max_ns = ld->ttft.n ? ld->ttft.max_ns : REC_NONE,
		.elapsed_ns = now_ns - r->start_ns,
	};
	ld->spec->tick(ld->spec->tick_ctx, &p);
}

/* Every tick that should have come counts, also those a blocked loop slept through. */
static void take_tick(struct cell_run *r)
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

/* Flags and ends that are not tied to a request. False = the cell is over. */
static bool look_around(struct cell_run *r, uint64_t now_ns)
{
	struct load *ld = &r->ld;
	const struct load_spec *spec = ld->spec;
	if (is_set(spec->abort)) {
		close_schedule(r, "interrupt");
		stop_all(r, TRANSPORT_CANCELLED, "ended by the user");
	} else if (is_set(spec->drain)) {
		close_schedule(r, "interrupt");
	}
	if (r->died_ns)
		close_schedule(r, "engine_died");
	if (now_ns >= r->until_ns)
		close_schedule(r, "duration");
	if (r->died_ns && now_ns - r->died_ns > DEATH_GRACE_NS)
		stop_all(r, TRANSPORT_RESET, "the engine process ended");
	if (ld->sink_failed || ld->oom)
		stop_all(r, TRANSPORT_CANCELLED, "the record could not be kept");
	bool endless = !spec->deadline_ns && !spec->stall_timeout_ns;
	if (endless && now_ns >= r->until_ns && now_ns - r->until_ns > END_GRACE_NS)
		stop_all(r, TRANSPORT_CANCELLED, "end of the timed cell");
	return ld->n_busy > 0 || !r->closed_by;
}

/* --- loop ---------------------------------------------------------------------------------------------- */

static int wait_ms(const struct cell_run *r)
{
	uint64_t now = clock_now_ns(), due = r->ld.curl_due_ns;
	if (due <= now)
		return 0;
	uint64_t ms = (due - now) / NS_PER_MS + 1;
	return ms < 100 ? (int)ms : 100;
}

static void take_event(struct cell_run *r, const struct epoll_event *ev)
{
	struct load *ld = &r->ld;
	int fd = ev->data.fd;
	uint64_t n;
	if (fd == ld->due_fd) {
		r->armed_ns = 0;
		if (read(fd, &n, sizeof n) == sizeof n)
			send_due(r, clock_now_ns());
	} else if (fd == ld->tick_fd) {
		take_tick(r);
	} else if (r->watching && fd == ld->spec->watch_fd) {
		r->died_ns = clock_now_ns();
		r->watching = false;
		epoll_ctl(ld->epfd, EPOLL_CTL_DEL, fd, NULL);
	} else {
		transfer_ready(ld, fd, ev->events);
		bool ended = transfer_reap(ld) > 0;
		if (ended)
			send_due(r, clock_now_ns());
		else if (ld->stamped)
			send_due(r, ld->stamp_ns); /* a long batch must not make the next send late */
	}
}

static int loop(struct cell_run *r, struct err *err)
{
	struct load *ld = &r->ld;
	struct epoll_event evs[EVENTS_PER_WAIT];
	uint64_t now = clock_now_ns();
	send_due(r, now);
	while (look_around(r, now)) {
		arm_due(r);
		int n = epoll_wait(ld->epfd, evs, EVENTS_PER_WAIT, wait_ms(r));
		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_BUG, errno, "load: epoll_wait");
		for (int i = 0; i < n; i++)
			take_event(r, &evs[i]);
		now = clock_now_ns();
		if (ld->curl_due_ns <= now)
			transfer_timeout(ld);
		transfer_reap(ld);
		send_due(r, now);
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

static int open_fds(struct cell_run *r, struct err *err)
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

static int make_slots(struct cell_run *r, struct err *err)
{
	struct load *ld = &r->ld;
	size_t n = ld->max_slots;
	ld->slots = calloc(n, sizeof *ld->slots);
	ld->free_slots = calloc(n, sizeof *ld->free_slots);
	ld->busy = calloc(n, sizeof *ld->busy);
	r->waiting.ring = calloc(n, sizeof *r->waiting.ring);
	if (!ld->slots || !ld->free_slots || !ld->busy || !r->waiting.ring)
		return err_set(err, ERR_ENV, "load: no memory");
	size_t first = is_closed_loop(r) || n < 64 ? n : 64;
	for (size_t i = 0; i < first; i++) {
		struct slot *s = slot_new(ld);
		if (!s)
			return err_set(err, ERR_ENV, "load: no memory for %zu streams", n);
		s->index = i;
		ld->slots[ld->n_slots++] = s;
		ld->free_slots[ld->n_free++] = s;
	}
	return 0;
}

static int check_spec(const struct load_spec *spec, struct err *err)
{
	if (!spec->n_requests && !spec->duration_ns)
		return err_set(err, ERR_BUG, "load: %s: neither requests nor duration", spec->cell_id);
	if (spec->arrival == ARRIVAL_CLOSED && !spec->concurrency)
		return err_set(err, ERR_BUG, "load: %s: closed loop without concurrency", spec->cell_id);
	if (spec->arrival == ARRIVAL_TRACE)
		return err_set(err, ERR_PLAN, "load: %s: traces cannot be replayed yet", spec->cell_id);
	if (spec->arrival != ARRIVAL_CLOSED && !(spec->rate_rps > 0 && spec->rate_rps <= 1e6))
		return err_set(err, ERR_PLAN, "load: %s: want a rate above 0 and at most 1e6 requests/s",
		               spec->cell_id);
	return 0;
}

static int setup(struct cell_run *r, struct err *err)
{
	struct load *ld = &r->ld;
	const struct load_spec *spec = ld->spec;
	uint64_t wanted = spec->concurrency;
	if (spec->n_requests && wanted > spec->n_requests)
		wanted = spec->n_requests;
	if (check_spec(spec, err) < 0 || limits_streams(&ld->max_slots, wanted, err) < 0 ||
	    transfer_setup(ld, err) < 0 || open_fds(r, err) < 0 || make_slots(r, err) < 0)
		return -1;
	return 0;
}

/* From here on time counts. */
static void begin(struct cell_run *r)
{
	struct load *ld = &r->ld;
	const struct load_spec *spec = ld->spec;
	r->start_ns = clock_now_ns();
	r->until_ns = spec->duration_ns ? r->start_ns + spec->duration_ns : UINT64_MAX;
	r->next_tick_ns = r->start_ns + TICK_NS;
	r->next_progress_ns = r->start_ns;
	struct itimerspec tick = {
		.it_value = { (time_t)(r->next_tick_ns / NS_PER_S), (long)(r->next_tick_ns % NS_PER_S) },
		.it_interval = { 0, (long)TICK_NS },
	};
	timerfd_settime(ld->tick_fd, TFD_TIMER_ABSTIME, &tick, NULL);
	if (is_closed_loop(r)) {
		for (size_t i = 0; i < ld->n_slots; i++)
			wait_push(r, ld->slots[i], r->start_ns + i * OPENING_STEP_NS);
	} else {
		schedule_init(&r->open, spec->arrival, spec->rate_rps, spec->seed);
		r->open_due_ns = r->start_ns + schedule_next_ns(&r->open);
	}
}

static void fill_result(struct cell_run *r, uint64_t cpu_ns, uint64_t steal, uint64_t total)
{
	struct load *ld = &r->ld;
	struct load_result *res = &ld->result;
	uint64_t steal_now, total_now;
	res->wall_ns = clock_now_ns() - r->start_ns;
	res->stopped_by = r->closed_by ? r->closed_by : "complete";
	res->send_lag_p50_ns = hist_quantile_ns(&ld->send_lag, 0.5);
	res->send_lag_p99_ns = hist_quantile_ns(&ld->send_lag, 0.99);
	res->send_lag_max_ns = ld->send_lag.n ? ld->send_lag.max_ns : REC_NONE;
	res->loop_lag_p50_ns = hist_quantile_ns(&ld->loop_lag, 0.5);
	res->loop_lag_p99_ns = hist_quantile_ns(&ld->loop_lag, 0.99);
	res->loop_lag_max_ns = ld->loop_lag.n ? ld->loop_lag.max_ns : REC_NONE;
	res->loop_lag_n = ld->loop_lag.n;
	res->client_cpu_ns = clock_cpu_self_ns() - cpu_ns;
	limits_steal(&steal_now, &total_now);
	bool known = total && total_now >= total && steal_now >= steal;
	res->steal_ticks = known ? steal_now - steal : 0;
	res->total_ticks = known ? total_now - total : 0;
}

static void teardown(struct cell_run *r)
{
	struct load *ld = &r->ld;
	transfer_teardown(ld);
	free(ld->slots);
	free(ld->free_slots);
	free(ld->busy);
	free(r->waiting.ring);
	int fds[] = { ld->epfd, ld->due_fd, ld->tick_fd };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(r);
}

int load_run(struct load_result *out, const struct load_spec *spec, struct err *err)
{
	struct cell_run *r = calloc(1, sizeof *r);
	uint64_t steal, total;
	if (!r)
		return err_set(err, ERR_ENV, "load: no memory");
	r->ld.spec = spec;
	r->ld.finished = take_finished;
	r->ld.epfd = r->ld.due_fd = r->ld.tick_fd = -1;
	r->ld.curl_due_ns = UINT64_MAX;
	int rc = setup(r, err);
	if (rc == 0) {
		uint64_t cpu = clock_cpu_self_ns();
		limits_steal(&steal, &total);
		begin(r);
		rc = loop(r, err);
		fill_result(r, cpu, steal, total);
	}
	if (rc == 0)
		*out = r->ld.result;
	teardown(r);
	return rc;
}
