/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan means as a whole: dates, model, controls, recovery, instrument, waivers. Candidates, workloads
 * and criteria have files of their own. Every rule here is a row of the table in proofmark-plan(5). */
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
	plan_lint_api(p, c->api, at, out);
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

/* Servers that run already are not ours to start again. */
static bool all_attached(const struct plan *p)
{
	for (size_t i = 0; i < p->n_candidates; i++)
		if (p->candidates[i].launch.kind != LAUNCH_ATTACH)
			return false;
	return true;
}

static void lint_recovery(const struct plan *p, struct problems *out)
{
	char at[PLAN_POINTER_BYTES];

	if (sends_requests(p) && !all_attached(p) && !p->recovery.restart && !p->recovery.second_cold_start &&
	    !p->recovery.rollback)
		WARN("/recovery",
		     "no recovery is tried: a restart and a second cold start show more than any "
		     "speed");
	for (size_t i = 0; p->recovery.rollback && i < p->n_candidates; i++)
		if (!p->candidates[i].previous)
			ERROR(AT(at, "/candidates/%zu", i),
			      "a rollback is asked for, and 'previous' names no release to go back to");
}

static size_t cpus_in(const char *list)
{
	uint64_t set[64];
	size_t n = 0;

	if (!list || !plan_cpus_ok(list, set))
		return 0;
	for (size_t i = 0; i < 64; i++)
		n += (size_t)__builtin_popcountll(set[i]);
	return n;
}

static void lint_instrument(const struct plan *p, struct problems *out)
{
	const struct plan_instrument *t = &p->instrument;

	for (size_t i = 0; i < p->n_candidates; i++) {
		size_t cpus = cpus_in(p->candidates[i].client_cpus);
		if (cpus && cpus < t->client_threads)
			WARN("/instrument/client_threads",
			     "%" PRIu64 " threads on the %zu CPUs of 'client_cpus' of candidate \"%s\": they "
			     "wait for each other",
			     t->client_threads, cpus, p->candidates[i].name);
	}
	if (t->calibration_s <= 0)
		WARN("/instrument/calibration_s", "no calibration: the client's own error is not shown");
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
	plan_lint_workloads(p, out);
	lint_instrument(p, out);
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
