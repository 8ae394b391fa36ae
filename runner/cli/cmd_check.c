/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/json_out.h"
#include "cli/opt.h"
#include "cli/plan_file.h"
#include "model/cell.h"
#include "model/metric.h"
#include "model/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_BYTES_MAX (1u << 20)

enum { O_JSON };
static const struct opt check_opts[] = {
	[O_JSON] = { "json", 0, OPT_FLAG, NULL, "print the result as one JSON object", NULL },
	{ 0 },
};

struct totals {
	size_t n_cells;
	uint64_t n_requests, n_warmup;
	bool by_duration; /* some cells end by the clock: n_requests counts the others only */
	bool by_trace;    /* some by the last row of a trace */
	char critical[CELL_ID_BYTES];
	uint64_t critical_n;  /* 0 = by duration */
	uint64_t needed_n;    /* the most that a quantile on the critical cell needs, if all are in time */
	const char *needs_it; /* id of that criterion, or NULL */
};

static bool is_on_critical(const struct plan *p, const struct plan_criterion *c)
{
	const struct plan_workload *w = plan_critical(p);

	return w && (!c->where.workload || strcmp(c->where.workload, w->name) == 0) && !c->where.all_cells &&
	       (c->where.prompt_tok == 0 || c->where.prompt_tok == w->critical_prompt_tok) &&
	       (c->where.concurrency == 0 || c->where.concurrency == w->critical_concurrency) &&
	       (c->where.rate_rps <= 0 ||
	        !(c->where.rate_rps < w->critical_rate_rps || c->where.rate_rps > w->critical_rate_rps));
}

static void find_needed(struct totals *t, const struct plan *p)
{
	for (size_t i = 0; i < p->n_criteria; i++) {
		const struct plan_criterion *c = &p->criteria[i];
		const struct metric *m = metric_find(c->metric);
		unsigned num, den;
		if (!m || m->kind != METRIC_LATENCY || !is_on_critical(p, c) ||
		    !statistic_quantile(c->statistic, &num, &den))
			continue;
		uint64_t n =
			stat_n_min(0, num, den, stat_look_confidence(c->confidence, plan_critical(p)->looks));
		if (n > t->needed_n) {
			t->needed_n = n;
			t->needs_it = c->id;
		}
	}
}

static int sum_up(struct totals *out, const struct plan *p, struct err *err)
{
	struct totals t = { 0 };
	auto_free struct cell *cells = cells_of_plan(p, &t.n_cells);

	if (!cells)
		return err_set(err, ERR_ENV, "out of memory");
	for (size_t i = 0; i < t.n_cells; i++) {
		t.n_requests += cells[i].requests;
		t.n_warmup += cells[i].wl->warmup_requests;
		t.by_duration |= cells[i].requests == 0;
		t.by_trace |= cells[i].requests == 0 && cells[i].wl->arrival.kind == ARRIVAL_TRACE;
		if (!cells[i].critical)
			continue;
		memcpy(t.critical, cells[i].id, sizeof(t.critical));
		t.critical_n = cells[i].requests;
	}
	find_needed(&t, p);
	*out = t;
	return 0;
}

static void say_requests(const struct totals *t)
{
	const char *by = t->by_trace ? "by duration or trace" : "by duration";

	if (t->by_duration && t->n_requests == 0)
		printf("requests %s", by);
	else
		printf("%" PRIu64 " requests%s%s", t->n_requests, t->by_duration ? " and more " : "",
		       t->by_duration ? by : "");
	printf(" + %" PRIu64 " warm-up", t->n_warmup);
}

static void say_critical(const struct totals *t)
{
	if (!t->critical[0])
		return;
	printf("; critical %s", t->critical);
	if (t->critical_n)
		printf(" n=%" PRIu64, t->critical_n);
	else
		printf(" n by duration");
	if (t->needs_it)
		printf(" (%s needs %" PRIu64 ")", t->needs_it, t->needed_n);
}

static void print_line(const struct plan *p, const struct totals *t)
{
	printf("%s: ok, %zu cell%s, ", p->id, t->n_cells, t->n_cells == 1 ? "" : "s");
	say_requests(t);
	say_critical(t);
	printf("; %zu control%s, %zu criteri%s, %zu candidate%s\n", p->n_controls,
	       p->n_controls == 1 ? "" : "s", p->n_criteria, p->n_criteria == 1 ? "on" : "a", p->n_candidates,
	       p->n_candidates == 1 ? "" : "s");
}

static void write_problems(struct json_out *o, const struct problems *problems)
{
	jo_u64(o, "errors", problems->n_errors);
	jo_u64(o, "warnings", problems->n_warnings);
	jo_arr(o, "problems");
	for (int kind = PROBLEM_ERROR; kind <= PROBLEM_WARNING; kind++)
		for (size_t i = 0; i < problems->n; i++) {
			if ((int)problems->list[i].kind != kind)
				continue;
			jo_obj(o, NULL);
			jo_str(o, "kind", kind == PROBLEM_ERROR ? "error" : "warning");
			jo_str(o, "pointer", problems->list[i].pointer);
			jo_str(o, "text", problems->list[i].text);
			jo_end(o);
		}
	jo_end_arr(o);
}

static void write_plan(struct json_out *o, const struct plan *p, const struct totals *t)
{
	jo_obj(o, "plan");
	jo_str(o, "id", p->id);
	jo_str(o, "sha256", p->sha256);
	jo_u64(o, "cells", t->n_cells);
	if (t->n_requests || !t->by_duration)
		jo_u64(o, "requests", t->n_requests);
	else
		jo_null(o, "requests");
	jo_u64(o, "warmup_requests", t->n_warmup);
	jo_bool(o, "by_duration", t->by_duration);
	jo_str(o, "critical_cell", t->critical[0] ? t->critical : NULL);
	if (t->critical_n)
		jo_u64(o, "critical_requests", t->critical_n);
	else
		jo_null(o, "critical_requests");
	if (t->needs_it)
		jo_u64(o, "critical_requests_needed", t->needed_n);
	else
		jo_null(o, "critical_requests_needed");
	jo_end(o);
}

/* `p` NULL: the plan is not acceptable; `syntax` then tells why when no problem does. */
static int print_json(const char *path, const struct problems *problems, const struct plan *p,
                      const struct totals *t, const char *syntax, struct err *err)
{
	auto_buf b = BUF_INIT(ANSWER_BYTES_MAX);
	struct json_out o;

	jo_init(&o, &b, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "file", path);
	jo_bool(&o, "ok", p != NULL);
	write_problems(&o, problems);
	if (p)
		write_plan(&o, p, t);
	else
		jo_null(&o, "plan");
	jo_str(&o, "error", syntax);
	jo_end(&o);
	if (b.failed)
		return err_set(err, ERR_ENV, "out of memory");
	printf("%s\n", b.p);
	return 0;
}

static int check_json(const char *path, struct err *err)
{
	auto_problems problems = { 0 };
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	auto_plan plan = NULL;
	struct err why = { 0 };
	struct totals totals = { 0 };
	int code = 0;

	if (fs_read(&text, path, PLAN_BYTES_MAX, &why)) {
		why.cls = ERR_PLAN;
		code = err_exit_code(why.cls);
	} else if (plan_parse(&plan, text.p, text.len, path, &problems, &why)) {
		code = err_exit_code(why.cls);
	} else if (sum_up(&totals, plan, err)) {
		return -1;
	}
	if (print_json(path, &problems, plan, &totals, code ? why.msg : NULL, err))
		return -1;
	return code;
}

static int run_check(const struct parsed *p, struct err *err)
{
	auto_plan plan = NULL;
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	struct totals totals;

	if (p->v[O_JSON].given)
		return check_json(p->args[0], err);
	if (plan_file_load(&plan, &text, p->args[0], err) || sum_up(&totals, plan, err))
		return -1;
	print_line(plan, &totals);
	return 0;
}

const struct command cmd_check = {
	.name = "check",
	.args = "PLAN",
	.min_args = 1,
	.max_args = 1,
	.says = "tell everything that is wrong with a plan",
	.examples = "proofmark check plans/quickstart.json\nyq -o=json plan.yaml | proofmark check -\n",
	.opts = check_opts,
	.run = run_check,
};
