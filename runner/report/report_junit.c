// SPDX-License-Identifier: Apache-2.0
// junit.xml: suite = workload, case = criterion. Foreign readers stay fail-closed: only "pass" is green.
#include "report/report.h"

#include "report/format.h"

#include <inttypes.h>
#include <string.h>

enum kind { KIND_PASS, KIND_FAILURE, KIND_ERROR, KIND_SKIPPED };

static enum kind kind_of(const struct crit_result *r)
{
	switch (r->state) {
	case STATE_PASS:
		return KIND_PASS;
	case STATE_FAIL:
		return r->waiver ? KIND_PASS : KIND_FAILURE;
	case STATE_NOT_TESTED:
	case STATE_NOT_APPLICABLE:
		return KIND_SKIPPED;
	case STATE_INCONCLUSIVE:
	case STATE_INVALID:
	case STATE_ERROR:
	case STATE_BLOCKED:
	case N_STATES:
		break;
	}
	return KIND_ERROR;
}

// The workload a criterion belongs to: what stands in front of the first slash of its cell, or the run.
static size_t suite_of(const struct verdict *v, const struct crit_result *r)
{
	const struct plan *p = v->ev->plan;
	const char *name = r->crit->where.workload;
	for (size_t i = 0; i < p->n_workloads; i++) {
		size_t n = strlen(p->workloads[i].name);
		if (name ? !strcmp(name, p->workloads[i].name)
		         : !strncmp(r->where, p->workloads[i].name, n) && r->where[n] == '/')
			return i;
		if (!name && r->metric && r->metric->needs_cell && p->workloads[i].critical)
			return i;
	}
	return p->n_workloads;
}

static void add_attr(struct buf *b, const char *name, const char *value)
{
	buf_addf(b, " %s=\"", name);
	// A line break inside an attribute reads back as a blank.
	esc_n(b, value, 1000);
	buf_addc(b, '"');
}

static void add_property(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, "<property");
	add_attr(b, "name", name);
	add_attr(b, "value", value);
	buf_adds(b, "/>");
}

static void add_count(struct buf *b, const char *name, uint64_t n)
{
	auto_buf text = BUF_INIT(32);
	buf_addf(&text, "%" PRIu64, n);
	add_property(b, name, text.p);
}

// The instrument of the one cell a criterion speaks of.
static void add_instrument(struct buf *b, const struct verdict *v, const struct crit_result *r)
{
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		if (strcmp(c->cell->id, r->where))
			continue;
		if (r->metric && r->metric->kind == METRIC_LATENCY) {
			bool gap = !strcmp(r->metric->name, "itl") || !strcmp(r->metric->name, "tpot");
			uint64_t ns = gap ? c->instrument.itl_error_ns : c->instrument.ttft_error_ns;
			add_property(b, "instrument_error", fmt_ns(ns).s);
		}
		if (r->state == STATE_INVALID && !c->valid && advice_for(c->cause))
			add_property(b, "what_to_change", advice_for(c->cause));
	}
}

static void add_properties(struct buf *b, const struct verdict *v, const struct crit_result *r)
{
	buf_adds(b, "<properties>");
	add_property(b, "state", state_words[r->state]);
	add_property(b, "metric", r->crit->metric);
	if (r->metric)
		add_property(b, "formula", r->metric->formula);
	add_property(b, "where", r->where);
	add_property(b, "limit", fmt_limit(r).s);
	if (r->value.known)
		add_property(b, "value", fmt_figure(&r->value).s);
	if (r->bound.known)
		add_property(b, "bound", fmt_figure(&r->bound).s);
	if (r->worst.known)
		add_property(b, "worst", fmt_figure(&r->worst).s);
	add_count(b, "n", r->n);
	add_count(b, "t", r->t);
	if (r->n_more && r->state == STATE_INCONCLUSIVE)
		add_count(b, "n_more", r->n_more);
	add_instrument(b, v, r);
	add_property(b, "severity", severity_words[r->crit->severity]);
	if (r->waiver) {
		add_property(b, "waiver", r->waiver->reason);
		add_property(b, "waiver_owner", r->waiver->owner);
		add_property(b, "waiver_expires", r->waiver->expires);
	}
	buf_adds(b, "</properties>");
}

static void add_case(struct buf *b, const struct verdict *v, const struct crit_result *r, const char *suite)
{
	static const char *const tags[] = { NULL, "failure", "error", "skipped" };
	enum kind kind = kind_of(r);
	buf_adds(b, "  <testcase");
	add_attr(b, "name", r->crit->sentence && *r->crit->sentence ? r->crit->sentence : r->crit->id);
	buf_addf(b, " classname=\"");
	esc_n(b, suite, 200);
	buf_addc(b, '.');
	esc_n(b, r->crit->id, 80);
	buf_adds(b, "\">");
	add_properties(b, v, r);
	if (tags[kind]) {
		buf_addf(b, "<%s", tags[kind]);
		add_attr(b, "message", r->reason);
		if (kind != KIND_SKIPPED)
			add_attr(b, "type", state_words[r->state]);
		buf_adds(b, "/>");
	}
	buf_adds(b, "</testcase>\n");
}

static void add_totals(struct buf *b, const struct verdict *v, size_t suite, bool all)
{
	size_t n[4] = { 0 }, tests = 0;
	for (size_t i = 0; i < v->n_criteria; i++) {
		if (!all && suite_of(v, &v->criteria[i]) != suite)
			continue;
		n[kind_of(&v->criteria[i])]++;
		tests++;
	}
	// The run as a whole is one case of its own: a run without criteria is no green suite.
	size_t extra = all || suite == v->ev->plan->n_workloads;
	bool run_ok = v->run == VERDICT_ACCEPTED || v->run == VERDICT_ACCEPTED_WITH_WAIVERS;
	bool rejected = v->run == VERDICT_REJECTED;
	buf_addf(b, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\"", tests + extra,
	         n[KIND_FAILURE] + (extra && rejected), n[KIND_ERROR] + (extra && !run_ok && !rejected),
	         n[KIND_SKIPPED]);
}

static void add_run_case(struct buf *b, const struct verdict *v)
{
	bool run_ok = v->run == VERDICT_ACCEPTED || v->run == VERDICT_ACCEPTED_WITH_WAIVERS;
	buf_adds(b, "  <testcase name=\"The run is accepted\" classname=\"run.verdict\"><properties>");
	add_property(b, "verdict", verdict_words[v->run]);
	buf_adds(b, "</properties>");
	if (!run_ok) {
		buf_adds(b, v->run == VERDICT_REJECTED ? "<failure" : "<error");
		add_attr(b, "message", v->n_reasons ? v->reasons[0] : verdict_says(v->run));
		add_attr(b, "type", verdict_words[v->run]);
		buf_adds(b, "/>");
	}
	buf_adds(b, "</testcase>\n");
}

static void add_suite(struct buf *b, const struct verdict *v, size_t suite)
{
	const struct plan *p = v->ev->plan;
	bool run = suite == p->n_workloads;
	const char *name = run ? "run" : p->workloads[suite].name;
	buf_adds(b, " <testsuite");
	add_attr(b, "name", name);
	add_totals(b, v, suite, false);
	buf_adds(b, ">\n");
	for (size_t i = 0; i < v->n_criteria; i++)
		if (suite_of(v, &v->criteria[i]) == suite)
			add_case(b, v, &v->criteria[i], name);
	if (run)
		add_run_case(b, v);
	buf_adds(b, " </testsuite>\n");
}

int report_junit(struct buf *out, const struct verdict *v)
{
	const struct plan *p = v->ev->plan;
	buf_adds(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
	add_attr(out, "name", p->title ? p->title : p->id);
	add_totals(out, v, 0, true);
	if (v->ev->wall[0])
		add_attr(out, "timestamp", v->ev->wall);
	buf_adds(out, ">\n");
	for (size_t i = 0; i <= p->n_workloads; i++)
		add_suite(out, v, i);
	buf_adds(out, "</testsuites>\n");
	return out->failed ? -1 : 0;
}
