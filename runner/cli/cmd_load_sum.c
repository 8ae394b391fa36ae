/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, speeds and goodput of a load. */
#include "cli/cmd_load.h"
#include "model/metrics_calc.h"
#include "model/stats.h"

#include <math.h>
#include <string.h>

#define BUFFERED_EVENTS 8
#define BUFFERED_READS 2

static int by_due(const void *a, const void *b)
{
	const struct load_row *x = a, *y = b;
	if (x->due_ns != y->due_ns)
		return x->due_ns < y->due_ns ? -1 : 1;
	return (x->k > y->k) - (x->k < y->k);
}

/* --- counts -----------------------------------------------------------------------------------------------
 */

struct tally {
	uint64_t events, told_prompt, told_output, n_long, n_buffered;
	uint64_t first_due, last_end;
};

static void count_completed(struct load_sum *s, struct tally *t, const struct load_row *r)
{
	bool told = r->usage_output_tok != REC_NONE && r->usage_prompt_tok != REC_NONE;
	sum_known(&s->output_tok, r->usage_output_tok);
	sum_known(&s->prompt_tok, r->usage_prompt_tok);
	sum_known(&s->cached_tok, r->usage_cached_tok);
	t->events += r->tok_n;
	if (r->tok_n >= BUFFERED_EVENTS) {
		t->n_long++;
		t->n_buffered += r->n_reads <= BUFFERED_READS;
	}
	if (!told)
		return;
	s->n_usage_told++;
	t->told_prompt += r->usage_prompt_tok;
	t->told_output += r->usage_output_tok;
	s->n_length_mismatch += s->cell->wl->force_output && r->usage_output_tok != r->want_output_tok;
	s->n_prompt_mismatch += s->exact && r->prompt_tok != REC_NONE && r->usage_prompt_tok != r->prompt_tok;
}

static void count_row(struct load_sum *s, struct tally *t, const struct load_row *r)
{
	uint64_t turns = s->cell->wl->conversation.turns;
	bool failed = r->outcome != OUTCOME_OK && r->outcome != OUTCOME_CANCELLED;
	s->n_outcome[r->outcome]++;
	s->n_ok += r->outcome == OUTCOME_OK;
	s->n_cancelled += r->outcome == OUTCOME_CANCELLED;
	s->n_failed += failed;
	if (r->attempts != REC_NONE && r->attempts > 1)
		s->n_retries += r->attempts - 1;
	if (failed && turns && r->turn != REC_NONE && r->turn + 1 < turns)
		s->n_unasked += turns - 1 - r->turn;
	if (r->due_ns < t->first_due)
		t->first_due = r->due_ns;
	if (r->end_ns != REC_NONE && r->end_ns > t->last_end)
		t->last_end = r->end_ns;
	if (r->outcome == OUTCOME_OK)
		count_completed(s, t, r);
}

static double rate(uint64_t n, uint64_t window_ns)
{
	return n == REC_NONE || !window_ns ? (double)NAN : (double)n * 1e9 / (double)window_ns;
}

static double share(double part, double of)
{
	return of > 0 ? part / of : (double)NAN;
}

static void count_rows(struct load_sum *s, const struct load_rows *rows)
{
	struct tally t = { .first_due = REC_NONE };
	for (size_t i = 0; i < rows->n; i++)
		count_row(s, &t, &rows->v[i]);
	s->n_rows = rows->n;
	s->window_ns = t.first_due < t.last_end ? t.last_end - t.first_due : 0;
	if (!s->n_ok)
		s->output_tok = s->prompt_tok = s->cached_tok = REC_NONE;
	s->events_per_tok =
		s->output_tok == REC_NONE ? (double)NAN : share((double)t.events, (double)s->output_tok);
	s->buffered_share = share((double)t.n_buffered, (double)t.n_long);
	s->prompt_tok_mean = share((double)t.told_prompt, (double)s->n_usage_told);
	s->output_tok_mean = share((double)t.told_output, (double)s->n_usage_told);
	s->requests_rps = rate(s->n_ok, s->window_ns);
	s->output_tok_s = rate(s->output_tok, s->window_ns);
	s->prompt_tok_s = rate(s->prompt_tok, s->window_ns);
	s->events_s = rate(t.events, s->window_ns);
	s->n_failures = rows->n_failures;
	s->failures = rows->failures;
}

/* --- goodput ----------------------------------------------------------------------------------------------
 */

static const char *why_unknown(const struct load_sum *s)
{
	static const enum load_figure figures[N_SLOS] = { FIG_TTFT, FIG_ITL, FIG_TPOT, FIG_E2E };
	for (size_t i = 0; i < N_SLOS; i++)
		if (s->slo->limit_ns[i] != REC_NONE && s->dist[figures[i]].why)
			return s->dist[figures[i]].why;
	return NULL;
}

static bool is_good(const struct load_row *r, const struct load_slo *slo)
{
	double tpot = tpot_ns(r->first_token_ns, r->last_token_ns, r->usage_output_tok);
	uint64_t end = r->last_token_ns != REC_NONE ? r->last_token_ns : r->end_ns;
	if (r->outcome != OUTCOME_OK)
		return false;
	/* a limit that is not asked is REC_NONE, the largest number; one token has no gap to be too long */
	if (slo->limit_ns[SLO_TTFT] != REC_NONE &&
	    span_ns(r->due_ns, r->first_token_ns) > slo->limit_ns[SLO_TTFT])
		return false;
	if (slo->limit_ns[SLO_E2E] != REC_NONE && span_ns(r->due_ns, end) > slo->limit_ns[SLO_E2E])
		return false;
	if (r->max_gap_ns != REC_NONE && r->max_gap_ns > slo->limit_ns[SLO_ITL])
		return false;
	return slo->limit_ns[SLO_TPOT] == REC_NONE || !isfinite(tpot) ||
	       tpot <= (double)slo->limit_ns[SLO_TPOT];
}

static int gate_of(struct load_goodput *g, double required)
{
	struct tail_detail d = { 0 };
	if (isnan(required))
		return -1;
	if (!(required < 1)) /* all of them: a count, not a share */
		return g->n && g->n_good == g->n ? TAIL_PASS : TAIL_FAIL;
	enum tail t = stat_share_gate(g->n, g->n - g->n_good, 1 - required, LOAD_CONFIDENCE, &d);
	g->n_more = t == TAIL_INCONCLUSIVE && d.n_more != STAT_NONE ? d.n_more : 0;
	return (int)t;
}

static void judge_goodput(struct load_sum *s, const struct load_rows *rows)
{
	struct load_goodput *g = &s->goodput;
	*g = (struct load_goodput){
		.share = (double)NAN, .share_lower = (double)NAN, .rps = (double)NAN, .gate = -1
	};
	if (!s->slo->any)
		return;
	g->why = why_unknown(s);
	g->state = g->why ? GOODPUT_UNKNOWN : GOODPUT_JUDGED;
	if (g->why) {
		g->gate = isnan(s->slo->required_share) ? -1 : TAIL_INCONCLUSIVE;
		return;
	}
	g->n = s->n_ok + s->n_failed + s->n_unasked;
	for (size_t i = 0; i < rows->n; i++)
		g->n_good += is_good(&rows->v[i], s->slo);
	g->share = share((double)g->n_good, (double)g->n);
	g->share_lower = g->n ? stat_cp_lower(g->n, g->n_good, LOAD_CONFIDENCE) : (double)NAN;
	g->rps = rate(g->n_good, s->window_ns);
	g->gate = gate_of(g, s->slo->required_share);
}

/* --- whole ------------------------------------------------------------------------------------------------
 */

int load_sum_make(struct load_sum *s, struct load_rows *rows, struct err *err)
{
	if (rows->n)
		qsort(rows->v, rows->n, sizeof(*rows->v), by_due);
	count_rows(s, rows);
	if (load_dists_make(s, rows, err))
		return -1;
	judge_goodput(s, rows);
	load_sum_sound(s, rows);
	return 0;
}

int load_exit_code(const struct load_sum *s)
{
	if (s->interrupted)
		return err_exit_code(ERR_INTERRUPTED);
	if (s->n_failed || !s->n_ok)
		return 1;
	if (s->n_reasons)
		return err_exit_code(ERR_INVALID);
	if (s->goodput.gate == TAIL_FAIL)
		return 1;
	return s->goodput.gate == TAIL_INCONCLUSIVE ? err_exit_code(ERR_RECOMPUTE) : 0;
}
