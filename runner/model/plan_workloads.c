/* SPDX-License-Identifier: Apache-2.0 */
/* What a workload means: arrivals, how many requests, time-outs, the critical cell. Lengths, mixes,
 * conversations and canaries: plan_lengths.c. Every rule here is a row of proofmark-plan(5). */
#include "model/cell.h"
#include "model/plan_parts.h"
#include "model/proto.h"
#include "model/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ERROR(at, ...) problem_add(out, PROBLEM_ERROR, at, __VA_ARGS__)
#define WARN(at, ...) problem_add(out, PROBLEM_WARNING, at, __VA_ARGS__)

static void list_counts(char *out, size_t size, const uint64_t *list, size_t n)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < n && used + 24 < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? ", " : "", list[i]);
}

static bool in_list(const uint64_t *list, size_t n, uint64_t v)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == v)
			return true;
	return false;
}

static void lint_training(const struct plan_workload *w, const char *at, const struct cJSON *o,
                          struct problems *out)
{
	if (!json_get(o, "training"))
		ERROR(at, "class \"training\" wants a 'training' object");
	if (json_get(o, "prompt_tok") || w->output_tok)
		ERROR(at, "class \"training\" sends no prompts: take 'prompt_tok' and 'output_tok' away");
	WARN(at, "training jobs are not executed yet: the criteria on this workload come out not_tested");
}

/* --- arrivals --------------------------------------------------------------------------------------------
 */

static bool is_paced(enum arrival kind)
{
	return kind == ARRIVAL_CONSTANT || kind == ARRIVAL_POISSON || kind == ARRIVAL_GAMMA;
}

static void lint_rates(const struct plan_arrival *a, const char *at, struct problems *out)
{
	const char *kind = arrival_words[a->kind];
	char near[2][32];

	if (is_paced(a->kind) && a->rate_rps <= 0 && a->n_rates == 0)
		ERROR(at, "arrival \"%s\" wants 'rate_rps' above 0, or a list 'rates_rps'", kind);
	if (is_paced(a->kind) && a->rate_rps > 0 && a->n_rates)
		ERROR(at, "'rate_rps' and 'rates_rps' contradict each other: want one of them");
	if (a->kind == ARRIVAL_RAMP && (a->rate_rps <= 0 || a->rate_end_rps <= 0))
		ERROR(at,
		      "arrival \"ramp\" wants 'rate_rps' and 'rate_end_rps', the rates at its start and end");
	if (a->kind == ARRIVAL_RAMP && a->n_rates)
		ERROR(at, "'rates_rps' is a sweep of cells, and a ramp is one cell: want one of them");
	if ((a->kind == ARRIVAL_CLOSED || a->kind == ARRIVAL_TRACE) && (a->rate_rps > 0 || a->n_rates))
		ERROR(at, "arrival \"%s\" has no '%s': use \"constant\", \"poisson\" or \"gamma\"", kind,
		      a->n_rates ? "rates_rps" : "rate_rps");
	for (size_t i = 1; i < a->n_rates; i++) {
		snprintf(near[0], sizeof(near[0]), "%.9g", a->rates_rps[i - 1]);
		snprintf(near[1], sizeof(near[1]), "%.9g", a->rates_rps[i]);
		if (strcmp(near[0], near[1]) == 0)
			ERROR(at, "two of 'rates_rps' are both %s: their cells would have the same name",
			      near[0]);
	}
}

/* Members that belong to one kind of arrival. */
static void lint_members(const struct plan_arrival *a, const char *at, const struct cJSON *o,
                         struct problems *out)
{
	static const struct {
		const char *key;
		enum arrival kind;
	} rows[] = {
		{ "think_s", ARRIVAL_CLOSED },   { "rate_end_rps", ARRIVAL_RAMP },
		{ "burstiness", ARRIVAL_GAMMA }, { "trace", ARRIVAL_TRACE },
		{ "speed", ARRIVAL_TRACE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (a->kind != rows[i].kind && json_get(o, rows[i].key))
			ERROR(at, "'%s' belongs to arrival \"%s\"", rows[i].key, arrival_words[rows[i].kind]);
	if (a->kind == ARRIVAL_TRACE && !a->trace)
		ERROR(at, "arrival \"trace\" wants 'trace', the path of the file");
}

static void lint_stop(const struct plan_workload *w, const char *at, struct problems *out)
{
	const struct plan_arrival *a = &w->arrival;
	bool closed = a->kind == ARRIVAL_CLOSED && w->n_concurrency > 1;

	if (a->stop_when_saturated && a->n_rates < 2 && !closed)
		ERROR(at, "'stop_when_saturated' wants a sweep: several of 'rates_rps' or of 'concurrency'");
}

static void lint_arrival(const struct plan_workload *w, const char *at, const struct cJSON *o,
                         struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/arrival", at);
	lint_rates(&w->arrival, deep, out);
	lint_members(&w->arrival, deep, json_get(o, "arrival"), out);
	lint_stop(w, deep, out);
}

static void lint_concurrency(const struct plan_workload *w, const char *at, struct problems *out)
{
	if (w->arrival.kind == ARRIVAL_CLOSED && w->n_concurrency == 0)
		ERROR(at, "key 'concurrency' is missing (want a list such as [1, 4])");
	if (w->arrival.kind == ARRIVAL_CLOSED && in_list(w->concurrency, w->n_concurrency, 0))
		ERROR(at, "'concurrency' 0 sends nothing in a closed loop: want 1 or more");
	if (w->arrival.kind != ARRIVAL_CLOSED && w->n_concurrency > 1)
		ERROR(at, "in an open loop 'concurrency' is one number, the most requests in flight (0 = no "
		          "bound)");
}

/* --- how many --------------------------------------------------------------------------------------------
 */

/* Requests that an open loop plans over its time, on average; `largest`: at its highest rate. */
static double planned(const struct plan_workload *w, bool largest)
{
	const struct plan_arrival *a = &w->arrival;
	double rate = a->kind == ARRIVAL_RAMP ? (a->rate_rps + a->rate_end_rps) / 2 : a->rate_rps;

	if (a->n_rates)
		rate = a->rates_rps[largest ? a->n_rates - 1 : 0];
	return rate * w->duration_s * (double)(w->conversation.turns ? w->conversation.turns : 1);
}

static void lint_planned(const struct plan_workload *w, const char *at, struct problems *out)
{
	bool by_time = w->duration_s > 0 && (w->requests == 0 || w->other_requests == 0);

	if (!by_time || w->arrival.kind == ARRIVAL_CLOSED || w->arrival.kind == ARRIVAL_TRACE)
		return;
	if (planned(w, true) > SCHED_REQUESTS_MAX)
		ERROR(at,
		      "%.3g requests are planned in one cell, at most %d are: lower 'duration_s' or the rate",
		      planned(w, true), SCHED_REQUESTS_MAX);
	else if (planned(w, true) > 0 && planned(w, false) < 1)
		ERROR(at, "%g s at %g requests/s plan less than one request", w->duration_s,
		      planned(w, false) / w->duration_s);
}

static void lint_turns(const struct plan_workload *w, const char *at, struct problems *out)
{
	uint64_t turns = w->conversation.turns;

	if (turns < 2)
		return;
	if (w->requests % turns)
		ERROR(at,
		      "'requests' %" PRIu64 " is not a multiple of the %" PRIu64 " turns of a conversation",
		      w->requests, turns);
	else if (w->other_requests % turns)
		ERROR(at,
		      "'other_requests' %" PRIu64 " is not a multiple of the %" PRIu64
		      " turns of a conversation",
		      w->other_requests, turns);
}

static void lint_amount(const struct plan_workload *w, const char *at, struct problems *out)
{
	lint_planned(w, at, out);
	lint_turns(w, at, out);
	if (w->duration_s > 0 || w->arrival.kind == ARRIVAL_TRACE)
		return;
	if (w->arrival.kind == ARRIVAL_RAMP)
		ERROR(at, "arrival \"ramp\" wants 'duration_s', the length of the ramp");
	else if (w->requests == 0)
		ERROR(at, "'requests' and 'duration_s' are both 0: nothing would be sent");
	else if (w->other_requests == 0)
		ERROR(at,
		      "'other_requests' and 'duration_s' are both 0: nothing would be sent in the cells that "
		      "are not critical");
}

static void lint_timeouts(const struct plan_workload *w, const char *at, struct problems *out)
{
	if (w->deadline_s < w->first_byte_timeout_s)
		ERROR(at, "'deadline_s' %g is shorter than 'first_byte_timeout_s' %g", w->deadline_s,
		      w->first_byte_timeout_s);
	else if (w->deadline_s < w->stall_timeout_s)
		WARN(at, "'deadline_s' %g is shorter than 'stall_timeout_s' %g: no stall would be seen",
		     w->deadline_s, w->stall_timeout_s);
}

/* --- the critical cell, the endpoint, all of them
 * -----------------------------------------------------------
 */

static void lint_critical_rate(const struct plan_workload *w, const char *at, struct problems *out)
{
	const struct plan_arrival *a = &w->arrival;
	char list[512] = "";
	size_t used = 0;

	if (a->n_rates == 0 && w->critical_rate_rps > 0)
		ERROR(at, "'critical_rate_rps' belongs to 'rates_rps'");
	for (size_t i = 0; i < a->n_rates; i++) {
		if (a->rates_rps[i] >= w->critical_rate_rps && a->rates_rps[i] <= w->critical_rate_rps)
			return;
		if (used + 24 < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%.9g", i ? ", " : "",
			                         a->rates_rps[i]);
	}
	if (a->n_rates)
		ERROR(at, "'critical_rate_rps' %.9g is not in 'rates_rps' (%s)", w->critical_rate_rps, list);
}

static void lint_critical_cell(const struct plan_workload *w, const char *at, struct problems *out)
{
	char list[512];

	if (!w->critical)
		return;
	if (w->n_prompt_tok && !in_list(w->prompt_tok, w->n_prompt_tok, w->critical_prompt_tok)) {
		list_counts(list, sizeof(list), w->prompt_tok, w->n_prompt_tok);
		ERROR(at, "'critical_prompt_tok' %" PRIu64 " is not in 'prompt_tok' (%s)",
		      w->critical_prompt_tok, w->prompt_tok[0] ? list : "the mix or trace gives the lengths");
	}
	if (w->n_concurrency && !in_list(w->concurrency, w->n_concurrency, w->critical_concurrency)) {
		list_counts(list, sizeof(list), w->concurrency, w->n_concurrency);
		ERROR(at, "'critical_concurrency' %" PRIu64 " is not in 'concurrency' (%s)",
		      w->critical_concurrency, list);
	}
	lint_critical_rate(w, at, out);
}

void plan_lint_api(const struct plan *p, enum api api, const char *at, struct problems *out)
{
	char list[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < p->n_candidates; i++) {
		enum engine_kind kind = p->candidates[i].engine;
		if (proto_of(kind, api))
			continue;
		for (unsigned other = 0; other < N_APIS; other++)
			if (proto_of(kind, (enum api)other))
				used += (size_t)snprintf(list + used, sizeof(list) - used, "%s\"%s\"",
				                         used ? ", " : "", api_words[other]);
		ERROR(at, "api \"%s\" does not exist on candidate \"%s\" (%s)%s%s", api_words[api],
		      p->candidates[i].name, engine_kind_words[kind],
		      used ? ": use " : ", which answers no requests", list);
		return;
	}
}

static void lint_workload(const struct plan *p, size_t i, const struct cJSON *o, struct problems *out)
{
	const struct plan_workload *w = &p->workloads[i];
	char at[64];

	snprintf(at, sizeof(at), "/workloads/%zu", i);
	for (size_t j = 0; j < i; j++)
		if (strcmp(w->name, p->workloads[j].name) == 0)
			ERROR(at, "name \"%s\" is taken by /workloads/%zu", w->name, j);
	if (w->cls == CLASS_TRAINING) {
		lint_training(w, at, o, out);
		return;
	}
	if (json_get(o, "training"))
		ERROR(at, "a 'training' object belongs to class \"training\"");
	lint_arrival(w, at, o, out);
	lint_concurrency(w, at, out);
	lint_amount(w, at, out);
	plan_lint_lengths(p, w, at, o, out);
	lint_timeouts(w, at, out);
	lint_critical_cell(w, at, out);
	plan_lint_api(p, w->api, at, out);
}

void plan_lint_workloads(const struct plan *p, struct problems *out)
{
	const struct cJSON *array = json_get(p->doc, "workloads"), *o;
	size_t i = 0, n_critical = 0, n_cells = 0;

	cJSON_ArrayForEach(o, array)
	{
		n_critical += p->workloads[i].critical;
		n_cells += cells_of_workload(&p->workloads[i]);
		lint_workload(p, i++, o, out);
	}
	if (n_critical != 1)
		ERROR("/workloads",
		      "want \"critical\": true on exactly one workload, the performance-critical "
		      "load; got %zu",
		      n_critical);
	if (n_cells > PLAN_CELLS_MAX)
		ERROR("/workloads", "%zu cells (contexts x rates x concurrencies), at most %d are run",
		      n_cells, PLAN_CELLS_MAX);
}
