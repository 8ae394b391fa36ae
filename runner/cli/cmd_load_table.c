/* SPDX-License-Identifier: Apache-2.0 */
/* The summary for people: one screen, 80 columns. */
#include "cli/cmd_load.h"
#include "model/stats.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LABEL "%-11s"

/* --- numbers ----------------------------------------------------------------------------------------------
 */

#define NUM_BYTES 24

static const char *num(char out[NUM_BYTES], double v)
{
	double a = fabs(v);
	if (isnan(v))
		snprintf(out, NUM_BYTES, "?");
	else
		snprintf(out, NUM_BYTES, "%.*f", a < 10 ? 2 : a < 1000 ? 1 : 0, v);
	return out;
}

static double ms(uint64_t ns)
{
	return ns == REC_NONE ? (double)NAN : (double)ns / 1e6;
}

static double ms_known(uint64_t ns)
{
	return ns == REC_NONE ? 0 : (double)ns / 1e6;
}

/* --- the head ---------------------------------------------------------------------------------------------
 */

static void put_lengths(FILE *f, const struct load_sum *s)
{
	const struct plan_workload *wl = s->cell->wl;
	const char *unit = s->exact ? "tokens" : "words, not tokens";
	if (wl->arrival.kind == ARRIVAL_TRACE)
		fprintf(f, "lengths of the trace (%s)", unit);
	else if (wl->n_mix)
		for (size_t i = 0; i < wl->n_mix; i++)
			fprintf(f, "%s%" PRIu64 "%s", i ? "+" : "", wl->mix[i].prompt_tok,
			        i + 1 < wl->n_mix ? ""
			        : s->exact        ? " tokens in"
			                          : " words in");
	else
		fprintf(f, "%" PRIu64 " %s in", s->cell->prompt_tok, unit);
	if (wl->arrival.kind != ARRIVAL_TRACE)
		fprintf(f, ", %" PRIu64 " tokens out",
		        wl->n_mix ? wl->mix[0].output_tok : s->cell->output_tok);
	if (wl->conversation.turns)
		fprintf(f, ", %" PRIu64 " turns", wl->conversation.turns);
}

static void put_head(FILE *f, const struct load_sum *s, const char *url)
{
	const struct plan_arrival *a = &s->cell->wl->arrival;
	fprintf(f, "%s  %s, %s%s%s\n", url, api_words[s->cell->wl->api], s->engine_word, s->model ? ", " : "",
	        s->model ? s->model : "");
	if (a->kind == ARRIVAL_CLOSED)
		fprintf(f, "closed loop, %" PRIu64 " in flight; ", s->cell->concurrency);
	else if (a->kind == ARRIVAL_TRACE)
		fprintf(f, "trace, speed %g; ", a->speed);
	else
		fprintf(f, "%s, %g requests/s; ", arrival_words[a->kind], a->rate_rps);
	put_lengths(f, s);
	fprintf(f, "; %.1f s\n\n", (double)s->window_ns / 1e9);
}

/* --- latencies --------------------------------------------------------------------------------------------
 */

static const char *cell_text(char out[NUM_BYTES], const struct load_dist *d, uint64_t ns,
                             const char *otherwise)
{
	return ns == REC_NONE ? (d->n ? otherwise : "-") : num(out, ms(ns));
}

static void put_latencies(FILE *f, const struct load_sum *s)
{
	static const char *const names[N_FIGURES] = { "TTFT", "TTFT sent", "ITL", "TPOT", "E2E" };
	fprintf(f, LABEL "%8s%8s%9s%8s%9s%8s%9s%9s\n", "ms", "p50", "<=", "p90", "<=", "p99", "<=", "max",
	        "n");
	for (int i = 0; i < N_FIGURES; i++) {
		const struct load_dist *d = &s->dist[i];
		char v[N_LOAD_QUANTILES][NUM_BYTES], u[N_LOAD_QUANTILES][NUM_BYTES], max[NUM_BYTES];
		fprintf(f, LABEL, names[i]);
		if (d->why) {
			fprintf(f, "not measurable: %s\n", d->why);
			continue;
		}
		for (int q = 0; q < N_LOAD_QUANTILES; q++)
			fprintf(f, "%*s%8s", q ? 9 : 8, cell_text(v[q], d, d->value_ns[q], "failed"),
			        cell_text(u[q], d, d->upper_ns[q], "n/e"));
		fprintf(f, "%9s%9" PRIu64 "\n", cell_text(max, d, d->max_ns, "-"), d->n);
	}
	fputs("           (<=: upper bound of the true value at 95 %; n/e: too few to estimate)\n\n", f);
}

/* --- the rest ---------------------------------------------------------------------------------------------
 */

static void put_counts(FILE *f, const struct load_sum *s)
{
	char a[NUM_BYTES], b[NUM_BYTES], c[NUM_BYTES];
	fprintf(f, LABEL "%" PRIu64 " ok, %" PRIu64 " failed", "requests", s->n_ok,
	        s->n_failed + s->n_unasked);
	if (s->n_unasked)
		fprintf(f, " (%" PRIu64 " turns never asked)", s->n_unasked);
	if (s->n_cancelled)
		fprintf(f, ", %" PRIu64 " cancelled", s->n_cancelled);
	if (s->n_ok)
		fprintf(f, "; %s/s, tokens/s %s out, %s in", num(a, s->requests_rps), num(b, s->output_tok_s),
		        num(c, s->prompt_tok_s));
	fputc('\n', f);
	if (s->n_usage_told)
		fprintf(f, LABEL "%s tokens in, %s out a request (mean, by the server's count)\n", "usage",
		        num(a, s->prompt_tok_mean), num(b, s->output_tok_mean));
}

static void put_failures(FILE *f, const struct load_sum *s)
{
	for (size_t i = 0; i < s->n_failures; i++) {
		const struct load_failure *x = &s->failures[i];
		char code[16] = "";
		if (x->http && x->outcome == OUTCOME_HTTP_STATUS)
			snprintf(code, sizeof(code), " %d", x->http);
		fprintf(f, LABEL "%" PRIu64 " %s%s: %.*s\n", i ? "" : "failed", x->n,
		        outcome_words[x->outcome], code, 100, x->detail);
	}
}

static void put_slo(FILE *f, const struct load_slo *slo)
{
	for (size_t i = 0, n = 0; i < N_SLOS; i++)
		if (slo->limit_ns[i] != REC_NONE)
			fprintf(f, "%s%s<=%gms", n++ ? " " : "", slo_words[i],
			        (double)slo->limit_ns[i] / 1e6);
}

static void put_goodput(FILE *f, const struct load_sum *s)
{
	const struct load_goodput *g = &s->goodput;
	char a[NUM_BYTES];
	if (g->state == GOODPUT_NONE)
		return;
	if (g->state == GOODPUT_UNKNOWN) {
		fprintf(f, LABEL "not measurable: %s\n", "goodput", g->why);
		return;
	}
	fprintf(f, LABEL "%s requests/s; %" PRIu64 " of %" PRIu64 " = %.1f %%, at least %.1f %% at 95 %%\n",
	        "goodput", num(a, g->rps), g->n_good, g->n, 100 * g->share, 100 * g->share_lower);
	fprintf(f, LABEL "within ", "");
	put_slo(f, s->slo);
	fputc('\n', f);
	if (g->gate < 0)
		return;
	fprintf(f, LABEL "%.6g %% required: ", "", 100 * s->slo->required_share);
	if (g->gate == TAIL_INCONCLUSIVE && g->n_more)
		fprintf(f, "not decided, %" PRIu64 " more requests needed if all are good\n", g->n_more);
	else
		fprintf(f, "%s\n",
		        g->gate == TAIL_PASS   ? "met"
		        : g->gate == TAIL_FAIL ? "missed"
		                               : "not decided");
}

/* The worst of the shards. */
static const struct load_part *worst(const struct load_sum *s)
{
	const struct load_part *w = s->parts;
	for (size_t i = 1; i < s->n_parts; i++)
		if (ms_known(s->parts[i].r.send_lag_p99_ns) > ms_known(w->r.send_lag_p99_ns))
			w = &s->parts[i];
	return w;
}

static void put_client(FILE *f, const struct load_sum *s)
{
	const struct load_part *p = worst(s);
	char a[NUM_BYTES], b[NUM_BYTES], c[NUM_BYTES], d[NUM_BYTES];
	if (s->delivered_known)
		fprintf(f, LABEL "%s of %s %s\n", "delivered", num(a, s->delivered_value),
		        num(b, s->delivered_planned), s->delivered_unit);
	fprintf(f, LABEL "send lag p99 %s max %s ms, loop lag p99 %s ms, CPU %s %%", "client",
	        num(a, ms(p->r.send_lag_p99_ns)), num(b, ms(p->r.send_lag_max_ns)),
	        num(c, ms(p->r.loop_lag_p99_ns)), num(d, load_cpu_pct(p)));
	fprintf(f, "%s\n", s->n_parts > 1 ? " (worst shard)" : "");
	fprintf(f, LABEL, "own error");
	if (p->calibrated)
		fprintf(f, "TTFT p99 %s ms, ITL p99 %s ms (the same load on a null server)\n",
		        num(a, ms(p->cal.ttft_error_p99_ns)), num(b, ms(p->cal.itl_error_p99_ns)));
	else
		fprintf(f, "not calibrated: %s\n", p->cal_why);
}

static bool wants_key(const struct load_sum *s)
{
	for (size_t i = 0; i < s->n_failures; i++)
		if (s->failures[i].http == 401 || s->failures[i].http == 403)
			return true;
	return false;
}

static void put_end(FILE *f, const struct load_sum *s)
{
	for (size_t i = 0; i < s->n_reasons; i++)
		fprintf(f, LABEL "%s\n", i ? "" : "invalid", s->reasons[i]);
	if (s->interrupted)
		fprintf(f, LABEL "what was measured until then stands above\n", "interrupted");
	if (s->n_length_mismatch)
		fprintf(f, LABEL "%" PRIu64 " answers are not as long as asked\n", "note",
		        s->n_length_mismatch);
	if (s->n_prompt_mismatch)
		fprintf(f, LABEL "%" PRIu64 " prompts are not as long as the server's tokenizer said\n",
		        "note", s->n_prompt_mismatch);
	if (!s->exact)
		fprintf(f, LABEL "the server shows no tokenizer: prompt lengths are words\n", "note");
	if (!s->n_ok)
		fprintf(f, "no request succeeded%s\n",
		        wants_key(s) ? ": the server wants a key, see --key-env and --key-file" : "");
	if (s->client_bound)
		fputs("client-bound: the figures above are not the server's alone\n", f);
}

void load_table(FILE *f, const struct load_sum *s, const char *url)
{
	put_head(f, s, url);
	put_latencies(f, s);
	put_counts(f, s);
	put_failures(f, s);
	put_goodput(f, s);
	put_client(f, s);
	put_end(f, s);
}
