// SPDX-License-Identifier: Apache-2.0
// summary.txt: 80 columns, for a terminal, a mail or a ticket.
#include "report/report.h"

#include "model/surface.h"
#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 80

// Columns of the text: characters; combining and wide ones are rare here and only shift an edge.
static size_t columns(const char *s, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

static size_t bytes_of(const char *s, size_t len, size_t want_columns)
{
	size_t i = 0;
	while (i < len && (columns(s, i + 1) <= want_columns || ((unsigned char)s[i] & 0xc0) == 0x80))
		i++;
	return i;
}

// Words of `text` behind `first` on the first line and `indent` blanks on the others.
static void wrap(struct buf *b, const char *first, size_t indent, const char *text)
{
	auto_buf clean = BUF_INIT(16384);
	plain_n(&clean, text, 2000);
	size_t at = columns(first, strlen(first));
	bool fresh = true;
	buf_adds(b, first);
	for (const char *p = clean.p ? clean.p : ""; *p;) {
		size_t word = strcspn(p, " "), room = COLUMNS - indent;
		if (!word) {
			p++;
			continue;
		}
		size_t take = bytes_of(p, word, room), wide = columns(p, take);
		if (at + (fresh ? 0 : 1) + wide > COLUMNS) {
			buf_addf(b, "\n%*s", (int)indent, "");
			at = indent;
			fresh = true;
		}
		if (!fresh)
			buf_addc(b, ' ');
		buf_add(b, p, take);
		at += wide + (fresh ? 0 : 1);
		fresh = false;
		p += take;
	}
	buf_addc(b, '\n');
}

static const char *tag(const struct crit_result *r)
{
	static const char *const tags[] = { "PASS ", "FAIL ", "OPEN ", "INVAL",
		                            "ERROR", "BLOCK", "SKIP ", "N/A  " };
	return r->state == STATE_FAIL && r->waiver ? "WAIVE"
	       : (unsigned)r->state < N_STATES     ? tags[r->state]
	                                           : "ERROR";
}

static void add_criterion(struct buf *b, const struct crit_result *r)
{
	auto_buf head = BUF_INIT(64), line = BUF_INIT(4096);
	buf_addf(&head, "%s  ", tag(r));
	wrap(b, head.p, 7, r->crit->sentence ? r->crit->sentence : r->crit->id);
	buf_addf(&line, "%s, limit %s", fmt_figure(&r->value).s, fmt_limit(r).s);
	if (r->bound.known)
		buf_addf(&line, ", bound %s", fmt_figure(&r->bound).s);
	if (r->worst.known)
		buf_addf(&line, ", worst %s", fmt_figure(&r->worst).s);
	buf_addf(&line, ", n %" PRIu64 ", %s", r->n, r->where[0] ? r->where : "run");
	wrap(b, "       ", 7, line.p);
	if (r->state != STATE_PASS)
		wrap(b, "       ", 7, r->reason);
}

static void add_notes(struct buf *line, const struct cell_result *c)
{
	if (isfinite(c->delivered.share))
		buf_addf(line, ", delivered %s of %s %s", fmt_num(c->delivered.value).s,
		         fmt_num(c->delivered.planned).s, c->delivered.unit);
	if (c->saturation.state == SATURATION_YES)
		buf_adds(line, ", OVER-SATURATED");
	if (c->buffered.yes)
		buf_adds(line, ", tokens come in bursts");
	for (size_t k = 0; k < N_OUTCOMES; k++)
		if (k != OUTCOME_OK && k != OUTCOME_CANCELLED && c->n_outcome[k])
			buf_addf(line, ", %" PRIu64 " %s", c->n_outcome[k], outcome_words[k]);
	if (c->n_length_mismatch)
		buf_addf(line, ", %" PRIu64 " answers not of the length asked", c->n_length_mismatch);
	if (c->n_retried)
		buf_addf(line, ", %" PRIu64 " sent again", c->n_retried);
	if (c->n_unasked)
		buf_addf(line, ", %" PRIu64 " turns never asked", c->n_unasked);
	if (c->canaries.n)
		buf_addf(line, ", %" PRIu64 " of %" PRIu64 " canaries failed", c->canaries.n_failed,
		         c->canaries.n);
	if (isfinite(c->prefix_cache_hit_share))
		buf_addf(line, ", prefix cache hits %.3g %%", c->prefix_cache_hit_share * 100);
}

static void add_cells(struct buf *b, const struct verdict *v)
{
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		auto_buf line = BUF_INIT(2048);
		wrap(b, c->cell->critical ? "* " : "  ", 4, c->cell->id);
		if (!c->n_scheduled) {
			buf_adds(b, "    not run\n");
			continue;
		}
		buf_addf(&line, "%" PRIu64 "/%" PRIu64 " completed", c->n_completed, c->n_scheduled);
		if (c->cell->wl->stream)
			buf_addf(&line, ", TTFT p50 %s p90 %s ± %s", fmt_ns(c->ttft.p50_ns).s,
			         fmt_ns(c->ttft.p90_ns).s, fmt_ns(c->instrument.ttft_error_ns).s);
		else
			buf_addf(&line, ", end to end p50 %s p90 %s ± %s", fmt_ns(c->e2e.p50_ns).s,
			         fmt_ns(c->e2e.p90_ns).s, fmt_ns(c->instrument.ttft_error_ns).s);
		if (c->itl_measurable)
			buf_addf(&line, ", ITL p50 %s ± %s", fmt_ns(c->itl.p50_ns).s,
			         fmt_ns(c->instrument.itl_error_ns).s);
		if (c->cell->wl->stream)
			buf_addf(&line, ", prefill %s, decode %s", fmt_rate(c->prefill_tok_s, "tok/s").s,
			         fmt_rate(c->decode_tok_s, "tok/s").s);
		add_notes(&line, c);
		wrap(b, "    ", 4, line.p);
		if (!c->valid)
			wrap(b, "    invalid: ", 4, c->invalid_reason);
		if (!c->valid && advice_for(c->cause))
			wrap(b, "    what to change: ", 4, advice_for(c->cause));
	}
}

int report_summary(struct buf *out, const struct verdict *v)
{
	const struct evidence *ev = v->ev;
	const struct plan *p = ev->plan;
	auto_buf line = BUF_INIT(2048);
	const char *word = verdict_says(v->run);
	buf_adds(out, "verdict: ");
	for (const char *c = word; *c; c++)
		buf_addc(out, (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c));
	buf_addc(out, '\n');
	for (size_t i = 0; i < v->n_reasons; i++)
		wrap(out, "  - ", 4, v->reasons[i]);
	wrap(out, "plan: ", 6, p->title ? p->title : p->id);
	buf_addf(&line, "%s, run %s, attempt %" PRIu64 ", %s", ev->candidate[0] ? ev->candidate : "not told",
	         ev->run_id[0] ? ev->run_id : "not told", ev->attempt,
	         ev->wall[0] ? ev->wall : "date not told");
	wrap(out, "candidate: ", 11, line.p);
	buf_adds(out, "\ncriteria\n");
	for (size_t i = 0; i < v->n_criteria; i++)
		add_criterion(out, &v->criteria[i]);
	if (!v->n_criteria)
		buf_adds(out, "none\n");
	buf_adds(out, "\ncells (* critical)\n");
	add_cells(out, v);
	for (size_t i = 0; i < ev->n_missing; i++)
		wrap(out, i ? "  - " : "\nmissing\n  - ", 4, ev->missing[i]);
	for (size_t i = 0; i < ev->n_not_tested; i++)
		wrap(out, i ? "  - " : "\nnot tested\n  - ", 4, ev->not_tested[i]);
	return out->failed ? -1 : 0;
}
