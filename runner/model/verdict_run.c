/* SPDX-License-Identifier: Apache-2.0 */
/* From criteria to the verdict of the run and of each workload class: the worst of what decides, and why. */
#include "model/verdict_parts.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASONS_MAX 64u

struct reason {
	enum run_verdict at_best;
	char text[256];
};

struct reasons { /* what keeps the run from a better verdict, in the order found */
	size_t n;
	struct reason list[REASONS_MAX];
	enum run_verdict run; /* worst so far */
};

static void __attribute__((format(printf, 3, 4)))
hold_back(struct reasons *rs, enum run_verdict at_best, const char *fmt, ...)
{
	char text[400];
	struct err clean;
	va_list ap;
	if (at_best < rs->run)
		rs->run = at_best;
	if (rs->n == REASONS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&clean, ERR_NONE, "%s", text);
	struct reason *r = &rs->list[rs->n++];
	size_t len = strnlen(clean.msg, sizeof(r->text) - 1);
	while (len && ((unsigned char)clean.msg[len] & 0xc0) == 0x80)
		len--;
	r->at_best = at_best;
	memcpy(r->text, clean.msg, len);
	r->text[len] = '\0';
}

/* --- times of the plan ------------------------------------------------------------------------------------
 */

/* ns since 1970 of an RFC 3339 text; a year that 64 bits do not reach is the end of time. */
static bool wall_time(const char *text, int64_t *out)
{
	if (!text || strlen(text) < 10)
		return false;
	if (strncmp(text, "2262", 4) >= 0 && strspn(text, "0123456789") == 4) {
		*out = INT64_MAX;
		return true;
	}
	return clock_parse_rfc3339(text, out) == 0;
}

static void check_dates(struct reasons *rs, const struct evidence *ev)
{
	const struct plan *p = ev->plan;
	int64_t run, at;
	if (!wall_time(ev->wall, &run)) {
		if (p->valid_from || p->valid_until || p->not_before)
			hold_back(rs, VERDICT_INCONCLUSIVE,
			          "the run's date is not known, and the plan bounds it");
		return;
	}
	if (p->valid_from && (!wall_time(p->valid_from, &at) || run < at))
		hold_back(rs, VERDICT_INCONCLUSIVE, "run at %s, before the plan was valid (from %s)",
		          ev->wall, p->valid_from);
	if (p->not_before && (!wall_time(p->not_before, &at) || run < at))
		hold_back(rs, VERDICT_INCONCLUSIVE, "run at %s, the buyer asked for not before %s", ev->wall,
		          p->not_before);
	if (p->valid_until && (!wall_time(p->valid_until, &at) || run > at))
		hold_back(rs, VERDICT_INCONCLUSIVE, "run at %s, the plan was valid until %s", ev->wall,
		          p->valid_until);
}

static const struct plan_waiver *valid_waiver(const struct evidence *ev, const char *criterion)
{
	int64_t run, until;
	for (size_t i = 0; i < ev->plan->n_waivers; i++) {
		const struct plan_waiver *w = &ev->plan->waivers[i];
		if (strcmp(w->criterion, criterion) == 0 && wall_time(ev->wall, &run) &&
		    wall_time(w->expires, &until) && until > run)
			return w;
	}
	return NULL;
}

/* --- the evidence as a whole ------------------------------------------------------------------------------
 */

static void check_lock(struct reasons *rs, const struct evidence *ev)
{
	uint64_t rules = 0;
	if (!ev->lock)
		return; /* told as missing */
	const char *plan = json_str(ev->lock, "plan_sha256");
	if (!plan || strcmp(plan, ev->plan->sha256) != 0)
		hold_back(rs, VERDICT_BLOCKED,
		          "the lock is of another plan (sha256 %.64s, plan.json has %.64s)",
		          plan ? plan : "not given", ev->plan->sha256);
	if (!json_u64(ev->lock, "rules", &rules) || rules != RULES_CURRENT)
		hold_back(rs, VERDICT_INCONCLUSIVE,
		          "statistics rules %" PRIu64 " of the lock are not known here", rules);
	else if (rules != ev->plan->rules)
		hold_back(rs, VERDICT_BLOCKED, "the lock has statistics rules %" PRIu64 ", the plan %" PRIu64,
		          rules, ev->plan->rules);
}

static void check_evidence(struct reasons *rs, const struct judge *j)
{
	const struct evidence *ev = j->ev;
	if (ev->interrupted)
		hold_back(rs, VERDICT_INTERRUPTED, "the run was interrupted");
	for (size_t i = 0; i < ev->n_differences && i < 3; i++)
		hold_back(rs, VERDICT_BLOCKED, "not as locked: %.200s", ev->differences[i]);
	uint64_t deaths = engine_deaths(ev);
	if (deaths)
		hold_back(rs, VERDICT_REJECTED, "the engine ended by itself %" PRIu64 " time%s", deaths,
		          deaths == 1 ? "" : "s");
	if (j->v->n_foreign)
		hold_back(rs, VERDICT_REJECTED,
		          "security: %" PRIu64
		          " nonce%s of other requests in the answers: requests leak into "
		          "each other",
		          j->v->n_foreign, j->v->n_foreign == 1 ? "" : "s");
	if (nothing_was_started(ev))
		hold_back(rs, VERDICT_INCONCLUSIVE, "no engine was started");
	else if (ev->engine_never_ready && !ev->n_differences)
		hold_back(rs, VERDICT_ERROR, "the engine never got ready");
	if (ev->error[0])
		hold_back(rs, VERDICT_ERROR, "%.240s", ev->error);
	if (ev->disk_full)
		hold_back(rs, VERDICT_ERROR, "the disk was full");
	if (ev->n_missing)
		hold_back(rs, VERDICT_ERROR, "evidence missing or inconsistent: %.180s%s", ev->missing[0],
		          ev->n_missing > 1 ? " (and more)" : "");
	if (strcmp(ev->status, "complete") != 0 && !ev->interrupted && !ev->n_differences)
		hold_back(rs, VERDICT_ERROR, "the run did not reach its end");
	for (size_t i = 0; i < ev->n_labels; i++)
		hold_back(rs, VERDICT_INCONCLUSIVE, "cannot be accepted: %.200s", ev->labels[i]);
}

static void check_work(struct reasons *rs, const struct judge *j)
{
	const struct verdict *v = j->v;
	uint64_t completed = 0;
	for (size_t i = 0; i < v->n_cells; i++) {
		const struct cell_result *c = &v->cells[i];
		completed += c->n_completed;
		if (c->cell->critical && !c->n_completed)
			hold_back(rs, VERDICT_INCONCLUSIVE, "no request completed in the critical cell %s",
			          c->cell->id);
		else if (c->cell->critical && cell_whole(j, i) != CELL_WHOLE)
			hold_back(rs, VERDICT_INCONCLUSIVE, "the critical cell %s was not run to its end",
			          c->cell->id);
		else if (c->cell->critical && !c->valid)
			hold_back(rs, VERDICT_INVALID, "critical cell %.100s: %.120s", c->cell->id,
			          c->invalid_reason);
	}
	if (!completed && !v->n_cells)
		hold_back(rs, VERDICT_INCONCLUSIVE, "the plan has no cell: nothing was measured");
}

/* --- criteria ---------------------------------------------------------------------------------------------
 */

static enum run_verdict verdict_of_state(const struct crit_result *r)
{
	switch (r->state) {
	case STATE_PASS:
		return VERDICT_ACCEPTED;
	case STATE_FAIL:
		return r->waiver ? VERDICT_ACCEPTED_WITH_WAIVERS : VERDICT_REJECTED;
	case STATE_INVALID:
		return VERDICT_INVALID;
	case STATE_ERROR:
		return VERDICT_ERROR;
	case STATE_BLOCKED:
		return VERDICT_BLOCKED;
	case STATE_INCONCLUSIVE:
	case STATE_NOT_TESTED:
	case STATE_NOT_APPLICABLE:
	case N_STATES:
		break;
	}
	return VERDICT_INCONCLUSIVE;
}

static bool decides(const struct crit_result *r)
{
	return r->crit->severity == SEVERITY_MUST;
}

static void check_criteria(struct reasons *rs, const struct verdict *v)
{
	const struct crit_result *gate = NULL;
	bool speed = false;
	for (size_t i = 0; i < v->n_criteria; i++) {
		const struct crit_result *r = &v->criteria[i];
		if (!decides(r))
			continue;
		bool functional = r->metric && r->metric->functional;
		if (functional && r->state != STATE_PASS && !gate)
			gate = r;
		speed |= !functional && r->state == STATE_PASS;
		if (r->state == STATE_FAIL && r->waiver)
			hold_back(rs, VERDICT_ACCEPTED_WITH_WAIVERS,
			          "%s failed, waived by %.64s until %.32s: %.90s", r->crit->id,
			          r->waiver->owner, r->waiver->expires, r->waiver->reason);
		else if (r->state != STATE_PASS)
			hold_back(rs, verdict_of_state(r), "%s: %s: %.150s", r->crit->id,
			          state_words[r->state], r->reason);
	}
	if (gate && speed)
		hold_back(rs, VERDICT_ACCEPTED_WITH_WAIVERS,
		          "%s is %s: what works must be known first, so speed does not count", gate->crit->id,
		          state_words[gate->state]);
}

/* What was asked for and not rehearsed holds the run back, as does a limit that was not kept. */
static void check_recovery(struct reasons *rs, const struct evidence *ev)
{
	const struct plan_recovery *p = &ev->plan->recovery;
	const struct {
		bool asked;
		const char *why, *says;
		double limit_s;
	} list[] = {
		{ p->second_cold_start, "second_cold", "second cold start", p->second_cold_start_limit_s },
		{ p->restart, "restart", "restart", p->restart_limit_s },
		{ p->rollback, "rollback", "rollback", p->rollback_limit_s },
	};
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		double ns = 0;
		bool failed = false;
		uint64_t n = 0;
		if (!list[i].asked || ev->engine_never_ready)
			continue;
		const char *missing = time_of_starts(ev, list[i].why, &n, &failed, &ns);
		if (missing)
			hold_back(rs, failed ? VERDICT_REJECTED : VERDICT_INCONCLUSIVE, "%s %s: %.180s",
			          list[i].says, failed ? "failed" : "was asked for and not tested", missing);
		else if (list[i].limit_s > 0 && !(ns <= list[i].limit_s * 1e9))
			hold_back(rs, VERDICT_REJECTED, "%s took %.3f s, the plan allows %.3f s",
			          list[i].says, ns / 1e9, list[i].limit_s);
	}
}

static bool workload_ran(const struct verdict *v, const struct plan_workload *wl)
{
	for (size_t i = 0; i < v->n_cells; i++)
		if (v->cells[i].cell->wl == wl && v->cells[i].n_completed)
			return true;
	return false;
}

static void class_at_best(struct verdict *v, size_t k, enum run_verdict at_best)
{
	if (at_best < v->classes[k].verdict)
		v->classes[k].verdict = at_best;
}

static void check_workloads(struct reasons *rs, struct verdict *v)
{
	const struct plan *p = v->ev->plan;
	for (size_t i = 0; i < p->n_workloads; i++) {
		const struct plan_workload *wl = &p->workloads[i];
		if (workload_ran(v, wl))
			continue;
		hold_back(rs, VERDICT_INCONCLUSIVE, "workload %.100s: no request completed", wl->name);
		if ((unsigned)wl->cls < N_CLASSES)
			class_at_best(v, wl->cls, VERDICT_INCONCLUSIVE);
	}
}

static void check_classes(struct reasons *rs, struct verdict *v, enum run_verdict common)
{
	const struct plan *p = v->ev->plan;
	for (size_t i = 0; i < p->n_workloads; i++)
		if ((unsigned)p->workloads[i].cls < N_CLASSES) {
			v->classes[p->workloads[i].cls].present = true;
			v->classes[p->workloads[i].cls].verdict = common;
		}
	for (size_t k = 0; k < N_CLASSES; k++) {
		size_t n = 0;
		for (size_t i = 0; i < v->n_criteria; i++) {
			const struct crit_result *r = &v->criteria[i];
			const struct plan_workload *wl = workload_of_criterion(v->ev, r->crit, r->metric);
			if (!decides(r) || (wl && (size_t)wl->cls != k))
				continue;
			n++;
			class_at_best(v, k, verdict_of_state(r));
		}
		if (v->classes[k].present && !n) {
			hold_back(rs, VERDICT_INCONCLUSIVE, "class %s: no criterion of the plan decides",
			          class_words[k]);
			class_at_best(v, k, VERDICT_INCONCLUSIVE);
		}
	}
	check_workloads(rs, v);
}

/* Worst first; what is equally bad stays in the order found. */
static void keep_reasons(struct verdict *v, const struct reasons *rs)
{
	for (int level = 0; level < N_VERDICTS; level++)
		for (size_t i = 0; i < rs->n && v->n_reasons < ARRAY_LEN(v->reasons); i++)
			if ((int)rs->list[i].at_best == level)
				memcpy(v->reasons[v->n_reasons++], rs->list[i].text, sizeof(v->reasons[0]));
}

void judge_run(struct judge *j)
{
	struct verdict *v = j->v;
	struct reasons *rs = calloc(1, sizeof(*rs));
	if (!rs) {
		j->no_memory = true;
		return;
	}
	rs->run = VERDICT_ACCEPTED;
	for (size_t i = 0; i < v->n_criteria; i++)
		if (v->criteria[i].state == STATE_FAIL)
			v->criteria[i].waiver = valid_waiver(j->ev, v->criteria[i].crit->id);
	check_evidence(rs, j);
	check_lock(rs, j->ev);
	check_dates(rs, j->ev);
	check_work(rs, j);
	check_recovery(rs, j->ev);
	enum run_verdict common = rs->run;
	check_criteria(rs, v);
	check_classes(rs, v, common);
	v->run = rs->run;
	keep_reasons(v, rs);
	free(rs);
}
