/* SPDX-License-Identifier: Apache-2.0 */
/* One cell: outcomes, distributions, speeds, and whether its measurement is sound. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"

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

bool cell_is_open_loop(const struct cell *c)
{
	return c->wl->arrival.kind != ARRIVAL_CLOSED;
}

bool cell_can_saturate(const struct cell *c)
{
	enum arrival kind = c->wl->arrival.kind;
	return kind == ARRIVAL_CONSTANT || kind == ARRIVAL_POISSON || kind == ARRIVAL_GAMMA;
}

uint64_t cell_failures(const struct cell_result *c)
{
	return c->n_failed + c->n_unasked;
}

uint64_t turns_behind(const struct cell *c, const struct record *r)
{
	uint64_t turns = c->wl->conversation.turns;
	return r->turn < turns ? turns - 1 - r->turn : 0; /* no turn is REC_NONE */
}

static int by_conversation(const void *a, const void *b)
{
	const struct record *const *x = a, *const *y = b;
	if ((*x)->conv != (*y)->conv)
		return (*x)->conv < (*y)->conv ? -1 : 1;
	if ((*x)->turn != (*y)->turn)
		return (*x)->turn < (*y)->turn ? -1 : 1;
	return (*x)->i < (*y)->i ? -1 : (*x)->i > (*y)->i;
}

/* The last row of each conversation, where it failed. */
static void find_ends(struct judge *j, size_t cell)
{
	struct cell_rows *c = &j->rows[cell];
	const struct cell *of = &j->ev->cells[cell];
	if (!of->wl->conversation.turns || !c->n)
		return;
	c->ends = malloc(c->n * sizeof(struct record *));
	if (!c->ends) {
		j->no_memory = true;
		return;
	}
	memcpy(c->ends, c->rows, c->n * sizeof(struct record *));
	qsort(c->ends, c->n, sizeof(struct record *), by_conversation);
	for (size_t i = 0; i < c->n; i++) {
		const struct record *r = c->ends[i];
		bool last = i + 1 == c->n || c->ends[i + 1]->conv != r->conv;
		if (last && r->conv != REC_NONE && outcome_failed(r->outcome) && turns_behind(of, r))
			c->ends[c->n_ends++] = r;
	}
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
	for (size_t i = 0; i < ev->n_cells && !j->no_memory; i++)
		find_ends(j, i);
	free(caps);
}

void judge_rows_done(struct judge *j)
{
	for (size_t i = 0; j->rows && i < j->ev->n_cells; i++) {
		free(j->rows[i].rows);
		free(j->rows[i].ends);
	}
	free(j->rows);
}

/* --- distributions ----------------------------------------------------------------------------------------
 */

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
	dist_fill(&c->spacing, j, LAT_SPACING, cell);
}

/* --- counts and speeds ------------------------------------------------------------------------------------
 */

static void count_completed(struct cell_result *c, const struct record *r, uint64_t *events)
{
	sum_known(&c->output_tok, r->usage_output_tok);
	sum_known(&c->prompt_tok, r->usage_prompt_tok);
	sum_known(&c->cached_tok, r->usage_cached_tok);
	*events += r->tok_n;
	if (c->cell->wl->force_output && r->usage_output_tok != REC_NONE &&
	    r->usage_output_tok != r->want_output_tok)
		c->n_length_mismatch++;
	if (r->usage_prompt_tok != REC_NONE && r->prompt_tok != REC_NONE &&
	    r->usage_prompt_tok != r->prompt_tok)
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
		c->n_retries += r->attempts > 1 ? r->attempts - 1 : 0;
		c->n_retried += r->attempts > 1 && r->outcome != OUTCOME_CANCELLED;
		if (r->due_ns < first_due)
			first_due = r->due_ns;
		if (r->end_ns != REC_NONE && r->end_ns > last_end)
			last_end = r->end_ns;
		if (r->outcome == OUTCOME_OK)
			count_completed(c, r, &events);
	}
	for (size_t i = 0; i < rows->n_ends; i++)
		c->n_unasked += turns_behind(c->cell, rows->ends[i]);
	if (first_due < last_end)
		c->window_ns = last_end - first_due;
	if (!c->n_completed)
		c->output_tok = c->prompt_tok = c->cached_tok = REC_NONE;
	if (c->output_tok != REC_NONE && c->output_tok > 0)
		c->events_per_tok = (double)events / (double)c->output_tok;
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
	if (!c->cell->wl->stream)
		return; /* the first token cannot be told from the last */
	c->prefill_tok_s = median_speed(j, &j->rows[cell], prefill_speed);
	c->decode_tok_s = median_speed(j, &j->rows[cell], decode_speed);
}

/* --- the whole cell ---------------------------------------------------------------------------------------
 */

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
	bool complete = strcmp(st->stopped_by, "complete") == 0,
	     time_up = complete || strcmp(st->stopped_by, "duration") == 0, all;
	uint64_t sent = st->scheduled + j->v->cells[cell].n_unasked;
	if (cell_is_open_loop(c))
		all = time_up && sent == st->load.n;
	else if (c->requests)
		all = complete && sent == c->requests;
	else
		all = time_up && (double)st->load_wall_ns >= 0.99e9 * c->duration_s;
	if (!all)
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
	judge_buffered(j, cell);
	c->itl_measurable = c->cell->wl->stream && !c->buffered.yes && c->events_per_tok >= 0.8;
	fill_distributions(j, cell);
	fill_speeds(j, cell);
	judge_delivered(j, cell);
	judge_cache_and_queue(j, cell);
	judge_parts_and_turns(j, cell);
	judge_soundness(j, cell);
}
