/* SPDX-License-Identifier: Apache-2.0 */
/* The values of each latency, and their distribution. */
#include "model/verdict_parts.h"

#include "model/metrics_calc.h"
#include "model/stats.h"

#include <math.h>
#include <stdlib.h>

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
	case LAT_TPOT:
		return tpot_whole_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
	case LAT_E2E:
		return e2e_ns(r->due_ns, r->last_token_ns, r->end_ns);
	case LAT_SEND_LAG:
		return span_ns(r->due_ns, r->first_sent_ns);
	case LAT_ITL:
	case LAT_SPACING:
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

bool latency_needs_stream(enum latency what)
{
	return what != LAT_E2E && what != LAT_SEND_LAG && what != LAT_SPACING;
}

static bool row_is(const struct record *r, const struct row_filter *which)
{
	return (which->part == REC_NONE || which->part == r->part) &&
	       (which->turn == REC_NONE || which->turn == r->turn);
}

/* Distance of two sends against the distance they were due in: what the server sees of the schedule. */
static void add_spacing(struct series *s, struct judge *j, const struct cell_rows *c)
{
	const struct record *before = NULL;
	for (size_t i = 0; i < c->n && !j->no_memory; i++) {
		const struct record *r = c->rows[i];
		if ((r->turn != REC_NONE && r->turn) || r->first_sent_ns == REC_NONE || r->due_ns == REC_NONE)
			continue;
		if (before) {
			int64_t real = (int64_t)(r->first_sent_ns - before->first_sent_ns),
				planned = (int64_t)(r->due_ns - before->due_ns);
			series_push(s, j, (uint64_t)(real > planned ? real - planned : planned - real));
		}
		before = r;
	}
}

/* Turns that were never asked, because the one before failed. */
static void add_unasked(struct series *s, enum latency what, const struct cell *cell,
                        const struct record *end, const struct row_filter *which)
{
	uint64_t n = turns_behind(cell, end);
	if (which->part != REC_NONE && which->part != end->part)
		return;
	if (which->turn != REC_NONE)
		n = which->turn > end->turn && which->turn <= end->turn + n;
	s->n_failed += n * (what == LAT_ITL ? planned_gaps(end) : 1);
}

void series_add(struct series *s, struct judge *j, enum latency what, size_t cell,
                const struct row_filter *which)
{
	const struct cell_rows *c = &j->rows[cell];
	const struct cell *of = &j->ev->cells[cell];
	if (latency_needs_stream(what) && !of->wl->stream)
		return;
	if (what == LAT_SPACING) {
		if (cell_is_open_loop(of))
			add_spacing(s, j, c);
		return;
	}
	for (size_t i = 0; i < c->n && !j->no_memory; i++)
		if (c->rows[i]->outcome != OUTCOME_CANCELLED && row_is(c->rows[i], which))
			add_request(s, j, what, c->rows[i]);
	for (size_t i = 0; i < c->n_ends && what != LAT_SEND_LAG; i++)
		add_unasked(s, what, of, c->ends[i], which);
}

uint64_t series_quantile(const struct series *s, unsigned num, unsigned den)
{
	uint64_t rank = stat_nearest_rank(s->n + s->n_failed, num, den);
	return rank != STAT_NONE && rank >= 1 && rank <= s->n ? s->v[rank - 1] : REC_NONE;
}

/* --- distributions ----------------------------------------------------------------------------------------
 */

static uint64_t at_rank(const struct dist *d, uint64_t rank)
{
	return rank != STAT_NONE && rank >= 1 && rank <= d->n ? d->sorted[rank - 1] : REC_NONE;
}

void dist_fill(struct dist *d, struct judge *j, enum latency what, size_t cell)
{
	struct series s = { 0 };
	series_add(&s, j, what, cell, &EVERY_ROW);
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
