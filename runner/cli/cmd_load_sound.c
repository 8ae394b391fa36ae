/* SPDX-License-Identifier: Apache-2.0 */
/* Was the client the limit? The same bounds as a plan's `instrument` section, and the load that was delivered
 * against the load that was asked for (proofmark-bundle(5), "delivered"). */
#include "cli/cmd_load.h"
#include "model/metrics_calc.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define TOO_SHORT_NS 200000000u /* a clock tick is 10 ms: nothing to divide by */

void load_sum_invalid(struct load_sum *s, const char *fmt, ...)
{
	va_list ap;
	if (s->n_reasons == LOAD_REASONS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(s->reasons[s->n_reasons++], LOAD_REASON_BYTES, fmt, ap);
	va_end(ap);
}

static double pct(uint64_t part, uint64_t of)
{
	return part == REC_NONE || !of ? (double)NAN : 100.0 * (double)part / (double)of;
}

static unsigned threads_of(const struct load_result *r)
{
	return r->threads ? r->threads : 1;
}

double load_cpu_pct(const struct load_part *p)
{
	return p->r.wall_ns < TOO_SHORT_NS ? (double)NAN
	                                   : pct(p->r.client_cpu_ns, p->r.wall_ns * threads_of(&p->r));
}

double load_steal_pct(const struct load_part *p)
{
	return p->r.wall_ns < TOO_SHORT_NS ? (double)NAN : pct(p->r.steal_ticks, p->r.total_ticks);
}

double load_runq_pct(const struct load_part *p)
{
	return p->r.wall_ns < TOO_SHORT_NS ? (double)NAN : pct(p->r.runq_wait_ns, p->r.wall_ns);
}

static double ms(uint64_t ns)
{
	return ns == REC_NONE ? (double)NAN : (double)ns / 1e6;
}

/* A value that is not known (NAN) is over no bound here: what must be known is a plan's business. */
static void bound(struct load_sum *s, const struct load_part *p, double v, double limit, const char *unit,
                  const char *what)
{
	char who[32] = "";
	if (s->n_shards > 1)
		snprintf(who, sizeof(who), "shard %" PRIu64 ": ", p->shard);
	s->client_bound |= v > limit;
	if (v > limit)
		load_sum_invalid(s, "%s%s %.3g %s, over the bound of %g %s", who, what, v, unit, limit, unit);
}

static void judge_part(struct load_sum *s, const struct load_part *p)
{
	const struct plan_instrument *i = &s->plan->instrument;
	bound(s, p, ms(p->r.send_lag_p99_ns), i->max_send_lag_ms, "ms", "requests left late: p99");
	bound(s, p, ms(p->r.loop_lag_p99_ns), i->max_loop_lag_ms, "ms",
	      "the client's event loop lagged: p99");
	if (!i->busy_poll) /* which takes its core on purpose */
		bound(s, p, load_cpu_pct(p), i->max_client_cpu_pct, "%", "the client's CPU was busy:");
	bound(s, p, load_steal_pct(p), i->max_steal_pct, "%", "the machine was taken away: CPU steal");
	bound(s, p, load_runq_pct(p), i->max_runq_wait_pct, "%", "the client waited for a CPU:");
	if (!p->calibrated)
		return;
	bound(s, p, ms(p->cal.ttft_error_p99_ns), i->max_ttft_error_ms, "ms",
	      "the client's own TTFT error: p99");
	bound(s, p, ms(p->cal.itl_error_p99_ns), i->max_itl_error_ms, "ms",
	      "the client's own ITL error: p99");
}

/* --- delivered --------------------------------------------------------------------------------------------
 */

static uint64_t sent_of(const struct load_row *r)
{
	return r->first_sent_ns;
}

/* Mean number in flight from the N-th first sending to the last one. */
static void delivered_closed(struct load_sum *s, const struct load_rows *rows)
{
	uint64_t n = s->cell->concurrency, last = 0, busy = 0;
	auto_free uint64_t *sent = malloc((rows->n + 1) * sizeof(*sent));
	size_t n_sent = 0;
	for (size_t i = 0; sent && i < rows->n; i++)
		if (sent_of(&rows->v[i]) != REC_NONE)
			sent[n_sent++] = sent_of(&rows->v[i]);
	if (!sent || n_sent < n + 1)
		return;
	sort_u64(sent, n_sent);
	uint64_t from = sent[n - 1];
	last = sent[n_sent - 1];
	if (last <= from)
		return;
	for (size_t i = 0; i < rows->n; i++) {
		uint64_t a = sent_of(&rows->v[i]), b = rows->v[i].end_ns;
		if (a == REC_NONE || b == REC_NONE)
			continue;
		a = a > from ? a : from;
		b = b < last ? b : last;
		busy += b > a ? b - a : 0;
	}
	s->delivered_known = true;
	s->delivered_planned = (double)n;
	s->delivered_value = (double)busy / (double)(last - from);
	s->delivered_share = s->delivered_value / (double)n;
	s->delivered_unit = "in flight";
}

/* Rows lie in the order of their due times. */
static void delivered_open(struct load_sum *s, const struct load_rows *rows)
{
	uint64_t first = REC_NONE, last = 0;
	if (rows->n < 2)
		return;
	for (size_t i = 0; i < rows->n; i++) {
		uint64_t at = sent_of(&rows->v[i]);
		if (at == REC_NONE)
			continue;
		first = at < first ? at : first;
		last = at > last ? at : last;
	}
	uint64_t due = rows->v[rows->n - 1].due_ns - rows->v[0].due_ns;
	if (first >= last || !due)
		return;
	s->delivered_known = true;
	s->delivered_planned = (double)(rows->n - 1) * 1e9 / (double)due;
	s->delivered_value = (double)(rows->n - 1) * 1e9 / (double)(last - first);
	s->delivered_share = fmin(1, (double)due / (double)(last - first));
	s->delivered_unit = "requests/s";
}

static void judge_delivered(struct load_sum *s, const struct load_rows *rows)
{
	const struct plan_workload *wl = s->cell->wl;
	s->delivered_planned = s->delivered_value = s->delivered_share = (double)NAN;
	if (wl->arrival.kind != ARRIVAL_CLOSED)
		delivered_open(s, rows);
	else if (!(wl->arrival.think_s > 0) && !(wl->conversation.think_s > 0))
		delivered_closed(s, rows);
	bool light = s->delivered_known && s->delivered_share < s->plan->instrument.min_delivered_share &&
	             !s->interrupted;
	s->client_bound |= light;
	if (light)
		load_sum_invalid(s, "the load was lighter than asked: %.4g of %.4g %s", s->delivered_value,
		                 s->delivered_planned, s->delivered_unit);
}

/* --- shards -----------------------------------------------------------------------------------------------
 */

void load_sum_sound(struct load_sum *s, const struct load_rows *rows)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		judge_part(s, &s->parts[i]);
		if (strcmp(s->parts[i].r.stopped_by, "disk_full") == 0)
			load_sum_invalid(s, "the records could not be kept: the load was stopped");
	}
	judge_delivered(s, rows);
}
