/* SPDX-License-Identifier: Apache-2.0 */
/* The stop rule of a sweep: when a cell is over-saturated, the heavier ones behind it would only measure how
 * long they last. Open loop: model/saturation.h. Closed loop: more streams no longer bring more output. */
#include "model/saturation.h"
#include "trial/trial_parts.h"

#include <string.h>

#define KEPT_MAX 400000 /* records of one cell; past that its state is not known */
#define RISE_MIN 0.02   /* of the output rate, from one concurrency to the next */

struct stop_rule {
	struct record *kept; /* open loop */
	size_t n_kept, cap;
	bool too_many;
	uint64_t first_sent_ns, last_end_ns, output_tok; /* closed loop */
	/* the cell before, of the same workload and context */
	const struct cell *before;
	double before_tok_s;
	/* the cell that was too much, NULL = none yet */
	const struct cell *at;
	char why[600];
};

struct stop_rule *stop_rule_new(void)
{
	return calloc(1, sizeof(struct stop_rule));
}

void stop_rule_free(struct stop_rule *s)
{
	if (s)
		free(s->kept);
	free(s);
}

static bool same_sweep(const struct cell *a, const struct cell *b)
{
	bool open = a->wl->arrival.kind != ARRIVAL_CLOSED;
	return a->wl == b->wl && a->prompt_tok == b->prompt_tok &&
	       (!open || a->concurrency == b->concurrency);
}

const char *stop_rule_leaves_out(const struct stop_rule *s, const struct cell *cell)
{
	return s->at && same_sweep(s->at, cell) ? s->why : NULL;
}

void stop_rule_begin(struct stop_rule *s, const struct cell *cell)
{
	s->n_kept = 0;
	s->too_many = false;
	s->first_sent_ns = UINT64_MAX;
	s->last_end_ns = s->output_tok = 0;
}

static void keep(struct stop_rule *s, const struct record *rec)
{
	if (s->n_kept == s->cap && s->cap < KEPT_MAX) {
		size_t want = s->cap ? s->cap * 2 : 1024;
		struct record *grown = realloc(s->kept, want * sizeof(*grown));
		if (grown) {
			s->kept = grown;
			s->cap = want;
		}
	}
	if (s->n_kept == s->cap)
		s->too_many = true;
	else
		s->kept[s->n_kept++] = *rec;
}

void stop_rule_take(struct stop_rule *s, const struct cell *cell, const struct record *rec)
{
	if (!cell->wl->arrival.stop_when_saturated)
		return;
	if (cell->wl->arrival.kind != ARRIVAL_CLOSED) {
		keep(s, rec);
		return;
	}
	if (rec->first_sent_ns < s->first_sent_ns)
		s->first_sent_ns = rec->first_sent_ns;
	if (rec->end_ns != REC_NONE && rec->end_ns > s->last_end_ns)
		s->last_end_ns = rec->end_ns;
	if (rec->outcome == OUTCOME_OK)
		s->output_tok += rec->usage_output_tok != REC_NONE ? rec->usage_output_tok : rec->tok_n;
}

static void judge_open(struct stop_rule *s, const struct cell *cell)
{
	const struct record **rows = calloc(s->n_kept + 1, sizeof(*rows));
	if (!rows || s->too_many) {
		free(rows);
		return;
	}
	for (size_t i = 0; i < s->n_kept; i++)
		rows[i] = &s->kept[i];
	struct saturation_result r = saturation_of(rows, s->n_kept);
	free(rows);
	if (r.state != SATURATION_YES)
		return;
	s->at = cell;
	snprintf(s->why, sizeof(s->why),
	         "over-saturated at %s: requests in flight rise by %.3g a second and TTFT by %.3g ms a "
	         "second as "
	         "long as it lasts",
	         cell->id, r.in_flight_slope_per_s, r.ttft_slope_ms_per_s);
}

static void judge_closed(struct stop_rule *s, const struct cell *cell)
{
	double window_s =
		s->last_end_ns > s->first_sent_ns ? (double)(s->last_end_ns - s->first_sent_ns) / 1e9 : 0;
	double tok_s = window_s > 0 ? (double)s->output_tok / window_s : 0;
	bool second = s->before && same_sweep(s->before, cell) && s->before_tok_s > 0;
	double rise = second ? tok_s / s->before_tok_s - 1 : 1;
	if (second && rise < RISE_MIN) {
		s->at = cell;
		snprintf(s->why, sizeof(s->why),
		         "over-saturated at %s: %.4g output tok/s are %.1f %% more than at %s, less than "
		         "%.0f %%",
		         cell->id, tok_s, rise * 100, s->before->id, RISE_MIN * 100);
	}
	s->before = cell;
	s->before_tok_s = tok_s;
}

void stop_rule_end(struct stop_rule *s, const struct cell *cell)
{
	if (!cell->wl->arrival.stop_when_saturated)
		return;
	if (cell->wl->arrival.kind == ARRIVAL_CLOSED)
		judge_closed(s, cell);
	else
		judge_open(s, cell);
}
