/* SPDX-License-Identifier: Apache-2.0 */
/* One cell: outcomes, distributions, speeds, and whether its measurement is sound. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"
#include "model/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool outcome_failed(enum outcome o)
{
	return o != OUTCOME_OK && o != OUTCOME_CANCELLED;
}

/* --- rows of each cell ------------------------------------------------------------------------------------
 */

static int by_due(const void *a, const void *b)
{
	const struct record *const *x = a, *const *y = b;
	if ((*x)->due_ns != (*y)->due_ns)
		return (*x)->due_ns < (*y)->due_ns ? -1 : 1;
	return (*x)->i < (*y)->i ? -1 : (*x)->i > (*y)->i;
}

static size_t cell_index(const struct evidence *ev, const char *id, size_t last)
{
	if (last < ev->n_cells && strcmp(ev->cells[last].id, id) == 0)
		return last;
	for (size_t i = 0; i < ev->n_cells; i++)
		if (strcmp(ev->cells[i].id, id) == 0)
			return i;
	return ev->n_cells;
}

void judge_rows(struct judge *j)
{
	const struct evidence *ev = j->ev;
	size_t *caps = calloc(ev->n_cells + 1, sizeof(*caps)), last = 0;
	j->rows = calloc(ev->n_cells + 1, sizeof(*j->rows));
	j->no_memory |= !caps || !j->rows;
	for (size_t i = 0; i < ev->n_records && !j->no_memory; i++) {
		const struct record *r = &ev->records[i];
		if (r->kind != REC_LOAD || (last = cell_index(ev, r->cell, last)) == ev->n_cells)
			continue;
		struct cell_rows *c = &j->rows[last];
		if (c->n == caps[last]) {
			size_t want = caps[last] ? caps[last] * 2 : 64;
			const struct record **rows = realloc(c->rows, want * sizeof(struct record *));
			if (!rows) {
				j->no_memory = true;
				break;
			}
			c->rows = rows;
			caps[last] = want;
		}
		c->rows[c->n++] = r;
	}
	for (size_t i = 0; i < ev->n_cells && !j->no_memory; i++)
		if (j->rows[i].n)
			qsort(j->rows[i].rows, j->rows[i].n, sizeof(struct record *), by_due);
	free(caps);
}

void judge_rows_done(struct judge *j)
{
	for (size_t i = 0; j->rows && i < j->ev->n_cells; i++)
		free(j->rows[i].rows);
	free(j->rows);
}

/* --- series -----------------------------------------------------------------------------------------------
 */

static void series_push(struct series *s, struct judge *j, uint64_t v)
{
	if (s->n == s->cap) {
		size_t want = s->cap ? s->cap * 2 : 256;
		uint64_t *fresh = realloc(s->v, want * sizeof(*fresh));
		if (!fresh) {
			j->no_memory = true;
			return;
		}
		s->v = fresh;
		s->cap = want;
	}
	s->v[s->n++] = v;
}

static void add_gaps(struct series *s, struct judge *j, const struct record *r)
{
	uint64_t at, before = REC_NONE;
	struct tok_iter it = tok_begin(j->ev, r);
	while (tok_next(&it, &at)) {
		if (before != REC_NONE)
			series_push(s, j, at - before);
		before = at;
	}
}

/* A failed request counts with every gap it was to have, so that its share stays what it was. */
static uint64_t planned_gaps(const struct record *r)
{
	return r->want_output_tok > 1 && r->want_output_tok < 100000000u ? r->want_output_tok - 1 : 1;
}

static uint64_t latency_of(const struct record *r, enum latency what)
{
	switch (what) {
	case LAT_TTFT:
		return span_ns(r->due_ns, r->first_token_ns);
	case LAT_TTFT_CONTENT:
		return span_ns(r->due_ns, r->first_content_ns);
	case LAT_TTFT_SENT:
		return span_ns(r->sent_ns, r->first_token_ns);
	case LAT_TPOT: {
		double t = tpot_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
		return isfinite(t) && t >= 0 ? (uint64_t)llround(t) : REC_NONE;
	}
	case LAT_E2E:
		return span_ns(r->due_ns, r->last_token_ns);
	case LAT_SEND_LAG:
		return span_ns(r->due_ns, r->sent_ns);
	case LAT_ITL:
		break;
	}
	return REC_NONE;
}

static void add_request(struct series *s, struct judge *j, enum latency what, const struct record *r)
{
	bool failed = outcome_failed(r->outcome);
	if (what == LAT_ITL && !failed) {
		add_gaps(s, j, r);
		return;
	}
	if (what == LAT_TPOT && !failed && r->usage_output_tok <= 1)
		return; /* one token has no time per further token */
	if (what == LAT_TPOT && !failed && r->usage_output_tok == REC_NONE) {
		s->n_unknown++;
		return;
	}
	uint64_t v = failed && what != LAT_SEND_LAG ? REC_NONE : latency_of(r, what);
	if (v != REC_NONE)
		series_push(s, j, v);
	else
		s->n_failed += what == LAT_ITL ? planned_gaps(r) : 1;
}

void series_add(struct series *s, struct judge *j, enum latency what, size_t cell)
{
	const struct cell_rows *c = &j->rows[cell];
	for (size_t i = 0; i < c->n && !j->no_memory; i++)
		if (c->rows[i]->outcome != OUTCOME_CANCELLED)
			add_request(s, j, what, c->rows[i]);
}

/* --- distributions ----------------------------------------------------------------------------------------
 */

static uint64_t at_rank(const struct dist *d, uint64_t rank)
{
	return rank != STAT_NONE && rank >= 1 && rank <= d->n ? d->sorted[rank - 1] : REC_NONE;
}

static void dist_fill(struct dist *d, struct judge *j, enum latency what, size_t cell)
{
	struct series s = { 0 };
	series_add(&s, j, what, cell);
	sort_u64(s.v, s.n);
	*d = (struct dist){ .n = s.n,
		            .n_failed = s.n_failed,
		            .sorted = s.v,
		            .mean_ns = (double)NAN,
		            .min_ns = REC_NONE,
		            .max_ns = REC_NONE };
	if (s.n) {
		d->mean_ns = mean_u64(s.v, s.n);
		d->min_ns = s.v[0];
		d->max_ns = s.v[s.n - 1];
	}
	const struct {
		unsigned num;
		uint64_t *value, *upper;
	} quantiles[] = { { 50, &d->p50_ns, &d->p50_ub_ns },
		          { 90, &d->p90_ns, &d->p90_ub_ns },
		          { 95, &d->p95_ns, &d->p95_ub_ns },
		          { 99, &d->p99_ns, &d->p99_ub_ns } };
	uint64_t all = d->n + d->n_failed;
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
		*quantiles[i].value = at_rank(d, stat_nearest_rank(all, quantiles[i].num, 100));
		*quantiles[i].upper = at_rank(d, stat_rank_upper(all, quantiles[i].num, 100, 0.95));
	}
}

static void fill_distributions(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	dist_fill(&c->ttft, j, LAT_TTFT, cell);
	dist_fill(&c->ttft_content, j, LAT_TTFT_CONTENT, cell);
	dist_fill(&c->ttft_sent, j, LAT_TTFT_SENT, cell);
	dist_fill(&c->itl, j, LAT_ITL, cell);
	dist_fill(&c->tpot, j, LAT_TPOT, cell);
	dist_fill(&c->e2e, j, LAT_E2E, cell);
	dist_fill(&c->send_lag, j, LAT_SEND_LAG, cell);
}

/* --- counts and speeds ------------------------------------------------------------------------------------
 */

static void add_known(uint64_t *sum, uint64_t v)
{
	if (*sum != REC_NONE && (v == REC_NONE || __builtin_add_overflow(*sum, v, sum)))
		*sum = REC_NONE;
}

static void count_completed(struct cell_result *c, const struct record *r, uint64_t *events)
{
	add_known(&c->output_tok, r->usage_output_tok);
	add_known(&c->prompt_tok, r->usage_prompt_tok);
	*events += r->tok_n;
	if (c->cell->wl->force_output && r->usage_output_tok != REC_NONE &&
	    r->usage_output_tok != r->want_output_tok)
		c->n_length_mismatch++;
	if (r->usage_prompt_tok != REC_NONE && r->usage_prompt_tok != r->prompt_tok)
		c->n_prompt_mismatch++;
}

static void count_rows(struct cell_result *c, const struct cell_rows *rows)
{
	uint64_t first_due = REC_NONE, last_end = 0, events = 0;
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = rows->rows[i];
		c->n_outcome[r->outcome]++;
		c->n_completed += r->outcome == OUTCOME_OK;
		c->n_failed += outcome_failed(r->outcome);
		c->n_cancelled += r->outcome == OUTCOME_CANCELLED;
		if (r->due_ns < first_due)
			first_due = r->due_ns;
		if (r->end_ns != REC_NONE && r->end_ns > last_end)
			last_end = r->end_ns;
		if (r->outcome == OUTCOME_OK)
			count_completed(c, r, &events);
	}
	if (first_due < last_end)
		c->window_ns = last_end - first_due;
	if (!c->n_completed)
		c->output_tok = c->prompt_tok = REC_NONE;
	if (c->output_tok != REC_NONE && c->output_tok > 0)
		c->events_per_tok = (double)events / (double)c->output_tok;
	c->itl_measurable = c->events_per_tok >= 0.8;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median_of(double *v, size_t n)
{
	if (!n)
		return (double)NAN;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Tokens the server had to prefill for this request, by its own usage. */
static double prefill_speed(const struct record *r)
{
	uint64_t tok = r->usage_prompt_tok,
		 cached = r->usage_cached_tok == REC_NONE ? 0 : r->usage_cached_tok,
		 ns = span_ns(r->sent_ns, r->first_token_ns);
	if (tok == REC_NONE || cached >= tok || ns == REC_NONE || !ns)
		return (double)NAN;
	return (double)(tok - cached) * 1e9 / (double)ns;
}

static double decode_speed(const struct record *r)
{
	uint64_t tok = r->usage_output_tok, ns = span_ns(r->first_token_ns, r->last_token_ns);
	if (tok == REC_NONE || tok < 2 || ns == REC_NONE || !ns)
		return (double)NAN;
	return (double)(tok - 1) * 1e9 / (double)ns;
}

/* The middle request: unknown when a completed one told no usage. */
static double median_speed(struct judge *j, const struct cell_rows *rows,
                           double (*speed)(const struct record *))
{
	auto_free double *v = malloc((rows->n + 1) * sizeof(double));
	size_t n = 0;
	if (!v) {
		j->no_memory = true;
		return (double)NAN;
	}
	for (size_t i = 0; i < rows->n; i++) {
		const struct record *r = rows->rows[i];
		if (r->outcome != OUTCOME_OK)
			continue;
		if (r->usage_prompt_tok == REC_NONE || r->usage_output_tok == REC_NONE)
			return (double)NAN;
		double s = speed(r);
		if (isfinite(s))
			v[n++] = s;
	}
	return median_of(v, n);
}

static void fill_speeds(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	if (c->window_ns && c->n_completed) {
		c->request_s = (double)c->n_completed * 1e9 / (double)c->window_ns;
		if (c->output_tok != REC_NONE)
			c->output_tok_s = (double)c->output_tok * 1e9 / (double)c->window_ns;
	}
	c->prefill_tok_s = median_speed(j, &j->rows[cell], prefill_speed);
	c->decode_tok_s = median_speed(j, &j->rows[cell], decode_speed);
}

/* --- soundness --------------------------------------------------------------------------------------------
 */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static bool unsound(struct cell_result *c, const struct plan_instrument *limits, uint64_t send_ns,
                    uint64_t loop_ns)
{
	const struct ev_cell_state *st = c->st;
	char *why = c->invalid_reason;
	const size_t room = sizeof(c->invalid_reason);
	if (!st->has_soundness) {
		snprintf(why, room, "%s",
		         st->begun ? "the client's own lag was not recorded" : "the cell was not run");
		return true;
	}
	if (send_ns == REC_NONE || ms(send_ns) > limits->max_send_lag_ms) {
		snprintf(why, room,
		         "requests left late: p99 of sent - due is %.3f ms, the plan bounds it by %.3f ms",
		         send_ns == REC_NONE ? (double)NAN : ms(send_ns), limits->max_send_lag_ms);
		return true;
	}
	if (loop_ns != REC_NONE && ms(loop_ns) > limits->max_loop_lag_ms) {
		snprintf(why, room,
		         "the client's event loop lagged: p99 %.3f ms, the plan bounds it by %.3f ms",
		         ms(loop_ns), limits->max_loop_lag_ms);
		return true;
	}
	double cpu_pct = st->client_cpu_ns == REC_NONE || st->wall_ns == REC_NONE || !st->wall_ns
	                         ? (double)NAN
	                         : 100.0 * (double)st->client_cpu_ns / (double)st->wall_ns;
	if (!(cpu_pct <= limits->max_client_cpu_pct)) {
		snprintf(why, room,
		         "the client was the limit: %.1f %% of one CPU, the plan bounds it by %.1f %%",
		         cpu_pct, limits->max_client_cpu_pct);
		return true;
	}
	bool too_short = st->wall_ns < 200000000u; /* a clock tick is 10 ms: nothing to divide by */
	double steal_pct = st->steal_ticks == REC_NONE || st->total_ticks == REC_NONE || !st->total_ticks
	                           ? (double)NAN
	                           : 100.0 * (double)st->steal_ticks / (double)st->total_ticks;
	if (!too_short && !(steal_pct <= limits->max_steal_pct)) {
		snprintf(why, room,
		         "the machine was taken away: %.1f %% CPU steal, the plan bounds it by %.1f %%",
		         steal_pct, limits->max_steal_pct);
		return true;
	}
	return false;
}

/* A closed loop that never had its streams in flight measured a lighter load than the plan's. */
static bool light(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	uint64_t want = c->cell->concurrency;
	if (c->cell->wl->arrival.kind != ARRIVAL_CLOSED || !want || cell_whole(j, cell) != CELL_WHOLE)
		return false;
	if (c->cell->requests && c->cell->requests < want)
		want = c->cell->requests;
	if (c->st->max_in_flight != REC_NONE && (double)c->st->max_in_flight >= 0.99 * (double)want)
		return false;
	if (c->st->max_in_flight == REC_NONE)
		snprintf(c->invalid_reason, sizeof(c->invalid_reason), "streams in flight were not recorded");
	else
		snprintf(c->invalid_reason, sizeof(c->invalid_reason),
		         "the load was lighter than planned: at most %" PRIu64 " of %" PRIu64
		         " streams in flight",
		         c->st->max_in_flight, want);
	return true;
}

static void judge_soundness(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	const struct ev_cell_state *st = c->st;
	/* our own records decide; the journal's figure counts only where it is worse */
	uint64_t send_ns = c->send_lag.p99_ns, loop_ns = st->has_soundness ? st->loop_lag_p99_ns : REC_NONE;
	if (send_ns != REC_NONE && st->has_soundness && st->send_lag_p99_ns != REC_NONE &&
	    st->send_lag_p99_ns > send_ns)
		send_ns = st->send_lag_p99_ns;
	c->loop_error_ns = send_ns;
	if (loop_ns != REC_NONE && send_ns != REC_NONE && loop_ns > send_ns)
		c->loop_error_ns = loop_ns;
	c->valid = !unsound(c, &j->ev->plan->instrument, send_ns, loop_ns) && !light(j, cell);
}

enum whole cell_whole(const struct judge *j, size_t cell)
{
	const struct ev_cell_state *st = &j->ev->cell_states[cell];
	const struct cell *c = st->cell;
	if (!st->begun)
		return CELL_NOT_RUN;
	if (!st->ended)
		return j->ev->interrupted ? CELL_STOPPED : CELL_CUT;
	if (strcmp(st->stopped_by, "engine_died") == 0)
		return CELL_DIED;
	if (strcmp(st->stopped_by, "interrupt") == 0)
		return CELL_STOPPED;
	bool all_sent =
		c->requests && strcmp(st->stopped_by, "complete") == 0 && st->scheduled == c->requests;
	bool time_up = !c->requests &&
	               (strcmp(st->stopped_by, "duration") == 0 || strcmp(st->stopped_by, "complete") == 0) &&
	               (double)st->load_wall_ns >= 0.99e9 * c->duration_s;
	if (!all_sent && !time_up)
		return CELL_CUT;
	return j->v->cells[cell].n_cancelled ? CELL_STOPPED : CELL_WHOLE;
}

void judge_cell(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	c->cell = &j->ev->cells[cell];
	c->st = &j->ev->cell_states[cell];
	c->events_per_tok = c->output_tok_s = c->request_s = c->prefill_tok_s = c->decode_tok_s = (double)NAN;
	c->n_scheduled =
		c->st->ended && c->st->scheduled > j->rows[cell].n ? c->st->scheduled : j->rows[cell].n;
	count_rows(c, &j->rows[cell]);
	fill_distributions(j, cell);
	fill_speeds(j, cell);
	judge_soundness(j, cell);
}
