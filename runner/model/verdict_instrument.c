/* SPDX-License-Identifier: Apache-2.0 */
/* The instrument: what it adds by itself, and whether it was the limit. */
#include "model/verdict_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TICKS_WALL_NS_MIN 200000000u /* a clock tick is 10 ms: nothing to divide by */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static uint64_t worse(uint64_t a, uint64_t b)
{
	if (a == REC_NONE || b == REC_NONE)
		return a == REC_NONE ? b : a;
	return a > b ? a : b;
}

/* --- what is known of it ----------------------------------------------------------------------------------
 */

static void take_calibrations(struct judge *j, struct cell_result *c)
{
	struct instrument_result *in = &c->instrument;
	in->cal_ttft_p50_ns = in->cal_ttft_p99_ns = in->cal_itl_p50_ns = in->cal_itl_p99_ns = REC_NONE;
	for (size_t i = 0; i < j->ev->n_calibrations; i++) {
		const struct ev_calibration *cal = &j->ev->calibrations[i];
		if (strcmp(cal->load, ev_load_of_cell(c->cell)) != 0)
			continue;
		in->n_calibrations += cal->ttft_error_p99_ns != REC_NONE;
		in->cal_ttft_p50_ns = worse(in->cal_ttft_p50_ns, cal->ttft_error_p50_ns);
		in->cal_ttft_p99_ns = worse(in->cal_ttft_p99_ns, cal->ttft_error_p99_ns);
		in->cal_itl_p50_ns = worse(in->cal_itl_p50_ns, cal->itl_error_p50_ns);
		in->cal_itl_p99_ns = worse(in->cal_itl_p99_ns, cal->itl_error_p99_ns);
	}
}

static double pct(uint64_t part, uint64_t whole, uint64_t times)
{
	if (part == REC_NONE || whole == REC_NONE || !whole)
		return (double)NAN;
	return 100.0 * (double)part / ((double)whole * (double)times);
}

static void take_shares(struct cell_result *c)
{
	const struct ev_cell_state *st = c->st;
	struct instrument_result *in = &c->instrument;
	uint64_t threads = st->has_soundness && st->threads && st->threads != REC_NONE ? st->threads : 1;
	in->client_cpu_pct = in->steal_pct = in->runq_wait_pct = (double)NAN;
	if (!st->has_soundness)
		return;
	in->client_cpu_pct = pct(st->client_cpu_ns, st->wall_ns, threads);
	in->steal_pct = pct(st->steal_ticks, st->total_ticks, 1);
	in->runq_wait_pct = pct(st->runq_wait_ns, st->wall_ns, threads);
}

/* Our own records decide; the journal's figure counts only where it is worse. */
static uint64_t send_lag_of(const struct cell_result *c)
{
	uint64_t ns = c->send_lag.p99_ns;
	return ns == REC_NONE || !c->st->has_soundness ? ns : worse(ns, c->st->send_lag_p99_ns);
}

/* --- was it the limit -------------------------------------------------------------------------------------
 */

static bool __attribute__((format(printf, 3, 4)))
invalid(struct cell_result *c, enum invalid_cause cause, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->invalid_reason, sizeof(c->invalid_reason), fmt, ap);
	va_end(ap);
	c->cause = cause;
	return true;
}

static bool lagged(struct cell_result *c, const struct plan_instrument *limits, uint64_t send_ns)
{
	const struct ev_cell_state *st = c->st;
	if (!st->has_soundness)
		return invalid(c, INVALID_NOT_RECORDED, "%s",
		               st->begun ? "the client's own lag was not recorded" : "the cell was not run");
	if (send_ns == REC_NONE)
		return invalid(c, INVALID_SEND_LAG, "when requests left is not known for enough of them");
	if (ms(send_ns) > limits->max_send_lag_ms)
		return invalid(
			c, INVALID_SEND_LAG,
			"requests left late: p99 of sent - due is %.3f ms, the plan bounds it by %.3f ms",
			ms(send_ns), limits->max_send_lag_ms);
	if (st->loop_lag_p99_ns != REC_NONE && ms(st->loop_lag_p99_ns) > limits->max_loop_lag_ms)
		return invalid(c, INVALID_LOOP_LAG,
		               "the client's event loop lagged: p99 %.3f ms, the plan bounds it by %.3f ms",
		               ms(st->loop_lag_p99_ns), limits->max_loop_lag_ms);
	return false;
}

static bool starved(struct cell_result *c, const struct plan_instrument *limits)
{
	const struct instrument_result *in = &c->instrument;
	if (isnan(in->client_cpu_pct))
		return invalid(c, INVALID_CPU, "the client's CPU time is not known");
	if (!limits->busy_poll && in->client_cpu_pct > limits->max_client_cpu_pct)
		return invalid(c, INVALID_CPU,
		               "the client was the limit: %.1f %% of one CPU a thread, the plan bounds it by "
		               "%.1f %%",
		               in->client_cpu_pct, limits->max_client_cpu_pct);
	if (c->st->wall_ns >= TICKS_WALL_NS_MIN && isnan(in->steal_pct))
		return invalid(c, INVALID_STEAL, "the machine's CPU steal is not known");
	if (c->st->wall_ns >= TICKS_WALL_NS_MIN && in->steal_pct > limits->max_steal_pct)
		return invalid(c, INVALID_STEAL,
		               "the machine was taken away: %.1f %% CPU steal, the plan bounds it by %.1f %%",
		               in->steal_pct, limits->max_steal_pct);
	if (in->runq_wait_pct > limits->max_runq_wait_pct)
		return invalid(c, INVALID_RUNQ,
		               "the client waited for a CPU: %.1f %% of the time, the plan bounds it by %.1f "
		               "%%",
		               in->runq_wait_pct, limits->max_runq_wait_pct);
	return false;
}

static bool uncalibrated(struct judge *j, struct cell_result *c, const struct plan_instrument *limits)
{
	const struct instrument_result *in = &c->instrument;
	const struct {
		const char *what;
		uint64_t ns;
		double limit_ms;
	} list[] = { { "first token", in->cal_ttft_p99_ns, limits->max_ttft_error_ms },
		     { "gaps", in->cal_itl_p99_ns, limits->max_itl_error_ms } };
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		if (list[i].ns != REC_NONE && ms(list[i].ns) > list[i].limit_ms)
			return invalid(
				c, INVALID_CALIBRATION,
				"the calibration was %.3f ms off (p99, %s), the plan bounds it by %.3f "
				"ms",
				ms(list[i].ns), list[i].what, list[i].limit_ms);
	if (limits->calibration_s > 0 && in->n_calibrations < 2 && strcmp(j->ev->status, "complete") == 0)
		return invalid(c, INVALID_NO_CALIBRATION,
		               "the plan asks for a calibration before and after the load; %" PRIu64
		               " gave a figure",
		               in->n_calibrations);
	return false;
}

/* A closed loop that never had its streams in flight measured a lighter load than the plan's. */
static bool light(struct cell_result *c)
{
	uint64_t want = c->cell->concurrency;
	if (cell_is_open_loop(c->cell) || !want)
		return false;
	if (c->cell->requests && c->cell->requests < want)
		want = c->cell->requests;
	if (c->st->max_in_flight == REC_NONE)
		return invalid(c, INVALID_LIGHT, "streams in flight were not recorded");
	if ((double)c->st->max_in_flight >= 0.99 * (double)want)
		return false;
	return invalid(c, INVALID_LIGHT,
	               "the load was lighter than planned: at most %" PRIu64 " of %" PRIu64
	               " streams in flight",
	               c->st->max_in_flight, want);
}

static bool undelivered(struct cell_result *c, const struct plan_instrument *limits)
{
	if (!(c->delivered.share < limits->min_delivered_share))
		return false;
	return invalid(c, INVALID_DELIVERED,
	               "less load than planned: %.6g of %.6g %s were delivered, the plan wants a share of "
	               "%.4g",
	               c->delivered.value, c->delivered.planned, c->delivered.unit,
	               limits->min_delivered_share);
}

void judge_soundness(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	const struct plan_instrument *limits = &j->ev->plan->instrument;
	uint64_t send_ns = send_lag_of(c);
	take_calibrations(j, c);
	take_shares(c);
	c->loop_error_ns = send_ns;
	if (send_ns != REC_NONE && c->st->has_soundness)
		c->loop_error_ns = worse(send_ns, c->st->loop_lag_p99_ns);
	c->instrument.ttft_error_ns = worse(c->loop_error_ns, c->instrument.cal_ttft_p99_ns);
	c->instrument.itl_error_ns = worse(c->loop_error_ns, c->instrument.cal_itl_p99_ns);
	/* requests that all fail at once are no load, and that is not the client's doing */
	bool loaded = cell_whole(j, cell) == CELL_WHOLE && c->n_completed;
	c->valid = !lagged(c, limits, send_ns) && !starved(c, limits) && !uncalibrated(j, c, limits) &&
	           !(loaded && (light(c) || undelivered(c, limits)));
}
