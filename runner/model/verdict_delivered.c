/* SPDX-License-Identifier: Apache-2.0 */
/* What load arrived, told from the rows alone: concurrency or rate, over-saturation, answers in bursts; and
 * what the engine says of its cache and queue. */
#include "model/verdict_parts.h"

#include "model/engine_metrics.h"
#include "model/metrics_calc.h"

#include <math.h>
#include <stdlib.h>

#define BUFFERED_EVENTS_MIN 8u
#define BUFFERED_READS_MAX 2u

/* --- concurrency ------------------------------------------------------------------------------------------
 */

static bool in_flight_known(const struct record *r)
{
	return r->first_sent_ns != REC_NONE && r->end_ns != REC_NONE && r->end_ns >= r->first_sent_ns;
}

/* Later turns come by themselves: a stream has work as long as there are requests that wait for nothing. */
static bool is_arrival(const struct record *r)
{
	return r->turn == REC_NONE || !r->turn;
}

/* Between the time all streams were open and the last arrival there is no reason for fewer than N. */
static void deliver_closed(struct judge *j, struct cell_result *c, const struct cell_rows *rows)
{
	const struct plan_workload *wl = c->cell->wl;
	uint64_t want = c->cell->concurrency;
	if (!want || wl->arrival.think_s > 0 || wl->conversation.think_s > 0 || rows->n <= want)
		return;
	auto_free uint64_t *sent = malloc(rows->n * sizeof(*sent));
	size_t n = 0;
	double busy_ns = 0;
	if (!sent) {
		j->no_memory = true;
		return;
	}
	for (size_t i = 0; i < rows->n; i++)
		if (in_flight_known(rows->rows[i]) && is_arrival(rows->rows[i]))
			sent[n++] = rows->rows[i]->first_sent_ns;
	sort_u64(sent, n);
	if (n <= want || sent[n - 1] <= sent[want - 1])
		return;
	uint64_t t0 = sent[want - 1], t1 = sent[n - 1];
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = rows->rows[i];
		if (!in_flight_known(r))
			continue;
		uint64_t from = r->first_sent_ns > t0 ? r->first_sent_ns : t0,
			 to = r->end_ns < t1 ? r->end_ns : t1;
		busy_ns += to > from ? (double)(to - from) : 0;
	}
	c->delivered.planned = (double)want;
	c->delivered.value = busy_ns / (double)(t1 - t0);
	c->delivered.share = c->delivered.value / c->delivered.planned;
	c->delivered.unit = "requests";
}

/* --- rate -------------------------------------------------------------------------------------------------
 */

static void deliver_open(struct cell_result *c, const struct cell_rows *rows)
{
	const struct record *first = NULL, *last = NULL;
	uint64_t n = 0;
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = rows->rows[i];
		if (!is_arrival(r) || r->first_sent_ns == REC_NONE || r->due_ns == REC_NONE)
			continue;
		first = first ? first : r;
		last = r;
		n++;
	}
	if (n < 2 || last->due_ns <= first->due_ns || last->first_sent_ns <= first->first_sent_ns)
		return;
	c->delivered.planned = (double)(n - 1) * 1e9 / (double)(last->due_ns - first->due_ns);
	c->delivered.value = (double)(n - 1) * 1e9 / (double)(last->first_sent_ns - first->first_sent_ns);
	c->delivered.share = fmin(c->delivered.value / c->delivered.planned, 1);
	c->delivered.unit = "requests/s";
}

void judge_delivered(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	const struct cell_rows *rows = &j->rows[cell];
	c->delivered.planned = c->delivered.value = c->delivered.share = (double)NAN;
	if (cell_is_open_loop(c->cell))
		deliver_open(c, rows);
	else
		deliver_closed(j, c, rows);
	if (cell_can_saturate(c->cell))
		c->saturation = saturation_of(rows->rows, rows->n);
}

void judge_buffered(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	const struct cell_rows *rows = &j->rows[cell];
	uint64_t bursts = 0;
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = rows->rows[i];
		if (r->outcome != OUTCOME_OK || r->tok_n < BUFFERED_EVENTS_MIN)
			continue;
		c->buffered.n++;
		bursts += r->reads <= BUFFERED_READS_MAX;
	}
	c->buffered.share = c->buffered.n ? (double)bursts / (double)c->buffered.n : (double)NAN;
	c->buffered.yes = c->buffered.share > 0.5;
}

/* --- cache and queue --------------------------------------------------------------------------------------
 */

void judge_cache_and_queue(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	const struct ev_page *before = &c->st->before, *after = &c->st->after;
	c->prefix_cache_hit_share = c->queue_time_mean_ms = (double)NAN;
	if (before->text && after->text) {
		struct engine_figures f =
			engine_figures_between(before->text, before->len, after->text, after->len);
		c->prefix_cache_hit_share = f.prefix_cache_hit_share;
		c->queue_time_mean_ms = f.queue_time_mean_ms;
	}
	if (!isnan(c->prefix_cache_hit_share)) {
		c->prefix_cache_source = "engine metrics";
	} else if (c->cached_tok != REC_NONE && c->prompt_tok != REC_NONE && c->prompt_tok &&
	           c->cached_tok <= c->prompt_tok) {
		c->prefix_cache_hit_share = (double)c->cached_tok / (double)c->prompt_tok;
		c->prefix_cache_source = "usage";
	}
}
