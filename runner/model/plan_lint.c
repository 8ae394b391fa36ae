/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan means as a whole: dates, model, workloads, controls, recovery, waivers. Candidates and criteria
 * have files of their own. Every rule here is a row of the table in proofmark-plan(5). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/plan_parts.h"

#include <inttypes.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#define ERROR(at, ...) problem_add(out, PROBLEM_ERROR, at, __VA_ARGS__)
#define WARN(at, ...) problem_add(out, PROBLEM_WARNING, at, __VA_ARGS__)

#define AT(buffer, ...)                                                                                      \
	__extension__({                                                                                      \
		snprintf(buffer, sizeof(buffer), __VA_ARGS__);                                               \
		(const char *)(buffer);                                                                      \
	})

static void check_date(const char *text, const char *at, struct problems *out)
{
	if (text && !plan_date_ok(text))
		ERROR(at, "no such day or time: \"%s\" (want for example 2026-01-31 or 2026-01-31T12:00:00Z)",
		      text);
}

static void lint_about(const struct plan *p, struct problems *out)
{
	check_date(p->valid_from, "/plan/valid_from", out);
	check_date(p->valid_until, "/plan/valid_until", out);
	check_date(p->not_before, "/plan/not_before", out);
	if (!p->valid_until)
		WARN("/plan", "no 'valid_until': a result without a date of expiry is soon a claim about "
		              "software nobody runs any more");
	/* of equal length and form these compare as text; other forms only by the day */
	if (p->valid_from && p->valid_until && strncmp(p->valid_from, p->valid_until, 10) > 0)
		ERROR("/plan/valid_until", "lies before 'valid_from' (%.10s)", p->valid_from);
	if (p->rules != RULES_CURRENT)
		ERROR("/plan/rules", "statistics rule set %" PRIu64 " is not known here, %d is", p->rules,
		      RULES_CURRENT);
}

/* --- model -----------------------------------------------------------------------------------------------
 */

static size_t files_without_hash(const struct plan *p, struct problems *out)
{
	char at[PLAN_POINTER_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < p->model.n_files; i++)
		if (!p->model.files[i].sha256) {
			ERROR(AT(at, "/model/files/%zu", i), "no 'sha256': without it the file can change "
			                                     "and nobody would know; take it from "
			                                     "sha256sum");
			n++;
		}
	return n;
}

static void lint_revision(const struct plan *p, size_t n_unhashed, struct problems *out)
{
	const char *r = p->model.revision;
	bool by_files = strcmp(r, "file-hashes") == 0;

	if (strcmp(r, PLAN_FILL_IN) == 0)
		return; /* told already */
	if (by_files && p->model.n_files == 0)
		ERROR("/model/revision", "\"file-hashes\" wants 'files', each with its 'sha256'");
	else if (by_files && n_unhashed)
		ERROR("/model/revision", "\"file-hashes\" wants a 'sha256' on every file, %zu have none",
		      n_unhashed);
	else if (by_files || plan_hex(r, 40) || (strncmp(r, "sha256:", 7) == 0 && plan_hex(r + 7, 64)))
		return;
	else
		ERROR("/model/revision",
		      "\"%.80s\" %s: want a commit of 40 hex digits, sha256:…, or \"file-hashes\" with a "
		      "'sha256' on every file",
		      r, plan_floating(r) ? "is a name that moves" : "does not fix the weights");
}

void plan_lint_model(const struct plan *p, struct problems *out)
{
	char at[PLAN_POINTER_BYTES];

	lint_revision(p, files_without_hash(p, out), out);
	for (size_t i = 0; i < p->model.n_files; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(p->model.files[i].path, p->model.files[j].path) == 0)
				ERROR(AT(at, "/model/files/%zu/path", i), "the same file as /model/files/%zu",
				      j);
	if (!p->model.quantization && !p->model.dtype)
		WARN("/model", "neither 'quantization' nor 'dtype' is given: speed and quality depend on it");
}

/* --- workloads ---------------------------------------------------------------------------------------------
 */

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
	if (w->n_prompt_tok || w->output_tok)
		ERROR(at, "class \"training\" sends no prompts: take 'prompt_tok' and 'output_tok' away");
	WARN(at, "training jobs are not executed yet: the criteria on this workload come out not_tested");
}

static void lint_arrival(const struct plan_workload *w, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];
	bool paced = w->arrival.kind == ARRIVAL_CONSTANT || w->arrival.kind == ARRIVAL_POISSON;
	bool rate = w->arrival.rate_rps > 0;

	AT(deep, "%s/arrival", at);
	if (paced && !rate)
		ERROR(deep, "arrival \"%s\" wants 'rate_rps' above 0", arrival_words[w->arrival.kind]);
	if (!paced && rate)
		ERROR(deep, "arrival \"%s\" has no 'rate_rps': use \"constant\" or \"poisson\"",
		      arrival_words[w->arrival.kind]);
	if (w->arrival.kind != ARRIVAL_CLOSED && w->arrival.think_s > 0)
		ERROR(deep, "'think_s' belongs to arrival \"closed\"");
	if (w->arrival.kind == ARRIVAL_TRACE && !w->arrival.trace)
		ERROR(deep, "arrival \"trace\" wants 'trace', the path of the file");
	if (w->arrival.kind != ARRIVAL_TRACE && w->arrival.trace)
		ERROR(deep, "'trace' belongs to arrival \"trace\"");
	if (w->arrival.kind == ARRIVAL_TRACE)
		WARN(deep, "traces are not executed yet: the criteria on this workload come out not_tested");
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

static void lint_amount(const struct plan_workload *w, const char *at, struct problems *out)
{
	if (w->duration_s > 0)
		return;
	if (w->requests == 0)
		ERROR(at, "'requests' and 'duration_s' are both 0: nothing would be sent");
	else if (w->other_requests == 0)
		ERROR(at,
		      "'other_requests' and 'duration_s' are both 0: nothing would be sent in the cells that "
		      "are not critical");
}

static void lint_lengths(const struct plan *p, const struct plan_workload *w, const char *at,
                         struct problems *out)
{
	if (w->n_prompt_tok == 0)
		ERROR(at, "key 'prompt_tok' is missing (want a list of context lengths such as [512, 8192])");
	if (w->output_tok == 0)
		ERROR(at, "key 'output_tok' is missing (want the length of an answer in tokens)");
	if (w->n_prompt_tok == 0 || w->output_tok == 0)
		return;
	uint64_t longest = w->prompt_tok[w->n_prompt_tok - 1];
	if (longest + w->output_tok > p->model.context_tok)
		ERROR(at,
		      "%" PRIu64 " prompt + %" PRIu64 " output tokens are more than the context of %" PRIu64
		      " (/model/context_tok)",
		      longest, w->output_tok, p->model.context_tok);
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

static void lint_critical_cell(const struct plan_workload *w, const char *at, struct problems *out)
{
	char list[512];

	if (!w->critical)
		return;
	if (w->n_prompt_tok && !in_list(w->prompt_tok, w->n_prompt_tok, w->critical_prompt_tok)) {
		list_counts(list, sizeof(list), w->prompt_tok, w->n_prompt_tok);
		ERROR(at, "'critical_prompt_tok' %" PRIu64 " is not in 'prompt_tok' (%s)",
		      w->critical_prompt_tok, list);
	}
	if (w->n_concurrency && !in_list(w->concurrency, w->n_concurrency, w->critical_concurrency)) {
		list_counts(list, sizeof(list), w->concurrency, w->n_concurrency);
		ERROR(at, "'critical_concurrency' %" PRIu64 " is not in 'concurrency' (%s)",
		      w->critical_concurrency, list);
	}
}

/* llama.cpp's own endpoint exists only there. */
static void lint_api(const struct plan *p, enum api api, const char *at, struct problems *out)
{
	for (size_t i = 0; api == API_LLAMACPP && i < p->n_candidates; i++) {
		enum engine_kind kind = p->candidates[i].engine;
		if (kind == ENGINE_LLAMACPP || kind == ENGINE_SCRIPTED || kind == ENGINE_ATTACH)
			continue;
		ERROR(at,
		      "api \"llamacpp\" does not exist on candidate \"%s\" (%s): use \"chat\" or "
		      "\"completions\"",
		      p->candidates[i].name, engine_kind_words[kind]);
		return;
	}
}

static void lint_workload(const struct plan *p, size_t i, const struct cJSON *o, struct problems *out)
{
	const struct plan_workload *w = &p->workloads[i];
	char at[64];

	AT(at, "/workloads/%zu", i);
	for (size_t j = 0; j < i; j++)
		if (strcmp(w->name, p->workloads[j].name) == 0)
			ERROR(at, "name \"%s\" is taken by /workloads/%zu", w->name, j);
	if (w->cls == CLASS_TRAINING) {
		lint_training(w, at, o, out);
		return;
	}
	if (json_get(o, "training"))
		ERROR(at, "a 'training' object belongs to class \"training\"");
	lint_arrival(w, at, out);
	lint_concurrency(w, at, out);
	lint_amount(w, at, out);
	lint_lengths(p, w, at, out);
	lint_timeouts(w, at, out);
	lint_critical_cell(w, at, out);
	lint_api(p, w->api, at, out);
}

static void lint_workloads(const struct plan *p, struct problems *out)
{
	const struct cJSON *array = json_get(p->doc, "workloads"), *o;
	size_t i = 0, n_critical = 0, n_cells = 0;

	cJSON_ArrayForEach(o, array)
	{
		n_critical += p->workloads[i].critical;
		n_cells += p->workloads[i].n_prompt_tok * p->workloads[i].n_concurrency;
		lint_workload(p, i++, o, out);
	}
	if (n_critical != 1)
		ERROR("/workloads",
		      "want \"critical\": true on exactly one workload, the performance-critical "
		      "load; got %zu",
		      n_critical);
	if (n_cells > PLAN_CELLS_MAX)
		ERROR("/workloads", "%zu cells (contexts x concurrencies), at most %d are run", n_cells,
		      PLAN_CELLS_MAX);
}

/* --- controls
 * ------------------------------------------------------------------------------------------------ */

static void lint_regexes(char *const *list, size_t n, const char *at, const char *key, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	for (size_t i = 0; i < n; i++) {
		int number;
		PCRE2_SIZE offset;
		PCRE2_UCHAR says[128];
		pcre2_code *code = pcre2_compile((PCRE2_SPTR)list[i], PCRE2_ZERO_TERMINATED,
		                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &number,
		                                 &offset, NULL);
		if (!code) {
			pcre2_get_error_message(number, says, sizeof(says));
			ERROR(AT(deep, "%s/%s/%zu", at, key, i), "not a PCRE2 pattern: %s at offset %zu",
			      (const char *)says, (size_t)offset);
		}
		pcre2_code_free(code);
	}
}

static bool expects_something(const struct plan_control *c)
{
	return c->n_must_match || c->n_must_not_match || c->exact || c->json || c->min_tok >= 0 ||
	       c->answer_max_tok >= 0 || c->same_as_reference;
}

static void lint_control(const struct plan *p, size_t i, struct problems *out)
{
	const struct plan_control *c = &p->controls[i];
	char at[64];

	AT(at, "/controls/%zu", i);
	for (size_t j = 0; j < i; j++)
		if (strcmp(c->id, p->controls[j].id) == 0)
			ERROR(at, "id \"%s\" is taken by /controls/%zu", c->id, j);
	if (!expects_something(c))
		ERROR(at, "expects nothing: want at least one of must_match, must_not_match, exact, json, "
		          "min_tok, answer_max_tok, same_as_reference");
	lint_regexes(c->must_match, c->n_must_match, at, "must_match", out);
	lint_regexes(c->must_not_match, c->n_must_not_match, at, "must_not_match", out);
	if (c->min_tok >= 0 && c->answer_max_tok >= 0 && c->min_tok > c->answer_max_tok)
		ERROR(at, "'min_tok' %" PRId64 " is above 'answer_max_tok' %" PRId64, c->min_tok,
		      c->answer_max_tok);
	if (c->min_tok > 0 && (uint64_t)c->min_tok > c->max_tok)
		ERROR(at, "'min_tok' %" PRId64 " can never be reached with 'max_tok' %" PRIu64, c->min_tok,
		      c->max_tok);
	if (c->messages && c->api != API_CHAT)
		ERROR(at, "'messages' need api \"chat\"");
	if (c->max_tok > p->model.context_tok)
		ERROR(at,
		      "'max_tok' %" PRIu64 " is more than the context of %" PRIu64 " (/model/context_tok)",
		      c->max_tok, p->model.context_tok);
	if (c->same_as_reference && c->sampling.temperature > 0)
		WARN(at,
		     "'same_as_reference' at temperature %g: only temperature 0 gives the same text again",
		     c->sampling.temperature);
	lint_api(p, c->api, at, out);
}

/* --- recovery, waivers, whole ------------------------------------------------------------------------------
 */

/* A plan of training jobs alone has no answers to control and no server to start again. */
static bool sends_requests(const struct plan *p)
{
	for (size_t i = 0; i < p->n_workloads; i++)
		if (p->workloads[i].cls != CLASS_TRAINING)
			return true;
	return false;
}

static void lint_recovery(const struct plan *p, struct problems *out)
{
	char at[PLAN_POINTER_BYTES];

	if (sends_requests(p) && !p->recovery.restart && !p->recovery.second_cold_start &&
	    !p->recovery.rollback)
		WARN("/recovery",
		     "no recovery is tried: a restart and a second cold start show more than any "
		     "speed");
	for (size_t i = 0; p->recovery.rollback && i < p->n_candidates; i++)
		if (!p->candidates[i].previous)
			ERROR(AT(at, "/candidates/%zu", i),
			      "a rollback is asked for, and 'previous' names no release to go back to");
}

static void lint_waiver(const struct plan *p, size_t i, struct problems *out)
{
	const struct plan_waiver *w = &p->waivers[i];
	char at[64], deep[PLAN_POINTER_BYTES];
	const char *ids[257];
	size_t n = 0;

	AT(at, "/waivers/%zu", i);
	for (; n < p->n_criteria && n < 256; n++) {
		if (strcmp(w->criterion, p->criteria[n].id) == 0)
			break;
		ids[n] = p->criteria[n].id;
	}
	if (n == p->n_criteria) {
		ids[n] = NULL;
		const char *near = near_match(w->criterion, ids);
		ERROR(AT(deep, "%s/criterion", at), "no criterion has the id \"%.64s\"%s%s%s", w->criterion,
		      near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
	}
	if (!w->expires)
		ERROR(at, "no 'expires': a waiver without an end is a change of the criterion");
	else
		check_date(w->expires, AT(deep, "%s/expires", at), out);
	for (size_t j = 0; j < i; j++)
		if (strcmp(w->criterion, p->waivers[j].criterion) == 0)
			ERROR(at, "the criterion has a waiver already, /waivers/%zu", j);
}

static void lint_later_parts(const struct plan *p, struct problems *out)
{
	if (p->power)
		WARN("/power", "power is not measured yet: criteria on it come out not_tested");
	if (p->cost)
		WARN("/cost", "costs are not computed yet: the inputs are kept");
}

void plan_lint(const struct plan *p, struct problems *out)
{
	lint_about(p, out);
	plan_lint_model(p, out);
	plan_lint_candidates(p, out);
	lint_workloads(p, out);
	if (p->n_controls == 0 && sends_requests(p))
		WARN("/controls", "no controls: a fast engine that answers nonsense would pass");
	for (size_t i = 0; i < p->n_controls; i++)
		lint_control(p, i, out);
	lint_recovery(p, out);
	plan_lint_criteria(p, out);
	for (size_t i = 0; i < p->n_waivers; i++)
		lint_waiver(p, i, out);
	lint_later_parts(p, out);
}
