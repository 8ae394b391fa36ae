/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan.h"

#include "base/hash.h"
#include "model/plan_parts.h"

#include <string.h>

const char *const backend_words[] = { "cuda", "rocm", "vulkan", "cpu", NULL };
const char *const engine_kind_words[] = { "llamacpp", "attach", "scripted", "vllm",     "sglang",
	                                  "tgi",      "trtllm", "ollama",   "torchjob", NULL };
const char *const launch_kind_words[] = { "process", "container", "attach", NULL };
const char *const class_words[] = { "interactive", "batch", "training", "serving", "compact", NULL };
const char *const api_words[] = {
	"chat", "completions", "llamacpp", "tgi", "ollama", "sglang", "triton", NULL
};
const char *const arrival_words[] = { "closed", "constant", "poisson", "trace", "gamma", "ramp", NULL };
const char *const severity_words[] = { "must", "should", "info", NULL };
const char *const comparator_words[] = { "<=", "<", ">=", ">", "==", NULL };

static int refuse(const struct problems *problems, const char *name, struct err *err)
{
	return err_set(err, ERR_PLAN, "%s: %zu error%s, %zu warning%s", name, problems->n_errors,
	               problems->n_errors == 1 ? "" : "s", problems->n_warnings,
	               problems->n_warnings == 1 ? "" : "s");
}

int plan_parse(struct plan **out, const char *text, size_t len, const char *name, struct problems *problems,
               struct err *err)
{
	auto_json doc = NULL;
	auto_plan p = NULL;
	size_t before = problems->n_errors;

	if (len > PLAN_BYTES_MAX)
		return err_set(err, ERR_PLAN, "%s: larger than %u bytes, the most a plan may have", name,
		               PLAN_BYTES_MAX);
	if (json_parse(&doc, text, len, name, JSON_STRICT, problems, err) < 0)
		return -1;
	plan_secrets(doc, problems);
	size_t n_secrets = problems->n_errors - before;
	jshape_check(doc, &plan_shape, problems);
	if (problems->n_errors > before + n_secrets)
		return refuse(problems, name, err);

	p = calloc(1, sizeof(*p));
	if (!p || plan_fill(p, doc) < 0)
		return err_set(err, ERR_ENV, "%s: out of memory", name);
	p->doc = steal_ptr(&doc);
	sha256_hex_of(text, len, p->sha256);
	plan_lint(p, problems);
	if (problems->n_errors > before)
		return refuse(problems, name, err);
	*out = steal_ptr(&p);
	return 0;
}

const struct plan_candidate *plan_candidate_find(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_candidates; i++)
		if (strcmp(p->candidates[i].name, name) == 0)
			return &p->candidates[i];
	return NULL;
}

const struct plan_workload *plan_critical(const struct plan *p)
{
	for (size_t i = 0; i < p->n_workloads; i++)
		if (p->workloads[i].critical)
			return &p->workloads[i];
	return NULL;
}

/* --- release -----------------------------------------------------------------------------------------------
 */

static void free_strings(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

static void candidate_done(struct plan_candidate *c)
{
	free(c->name);
	free(c->arch);
	free(c->engine_version);
	free(c->engine_commit);
	free(c->launch.program);
	free(c->launch.cwd);
	free(c->launch.url);
	free(c->launch.api_key_env);
	free(c->launch.api_key_file);
	free(c->launch.ca_file);
	free(c->launch.image);
	free_strings(c->args, c->n_args);
	for (size_t i = 0; c->env && i < c->n_env; i++) {
		free(c->env[i].name);
		free(c->env[i].value);
		free(c->env[i].from_env);
		free(c->env[i].from_file);
	}
	free(c->env);
	free(c->engine_cpus);
	free(c->client_cpus);
}

static void workload_done(struct plan_workload *w)
{
	free(w->name);
	free(w->corpus);
	free(w->prompt_tok);
	free(w->concurrency);
	free(w->arrival.trace);
	free(w->arrival.rates_rps);
	for (size_t i = 0; i < w->n_mix; i++)
		free(w->mix[i].name);
	free(w->mix);
}

static void control_done(struct plan_control *c)
{
	free(c->id);
	free(c->prompt);
	free_strings(c->must_match, c->n_must_match);
	free_strings(c->must_not_match, c->n_must_not_match);
	free(c->exact);
}

static void criterion_done(struct plan_criterion *c)
{
	free(c->id);
	free(c->sentence);
	free(c->metric);
	free(c->where.workload);
	free(c->statistic);
	free(c->limit_unit);
}

static void waiver_done(struct plan_waiver *w)
{
	free(w->criterion);
	free(w->reason);
	free(w->owner);
	free(w->expires);
}

static void model_done(struct plan *p)
{
	free(p->model.id);
	free(p->model.revision);
	free(p->model.format);
	free(p->model.quantization);
	free(p->model.dtype);
	for (size_t i = 0; p->model.files && i < p->model.n_files; i++) {
		free(p->model.files[i].path);
		free(p->model.files[i].sha256);
	}
	free(p->model.files);
}

#define FREE_EACH(list, n, done)                                                                             \
	do {                                                                                                 \
		for (size_t i_ = 0; (list) && i_ < (n); i_++)                                                \
			done(&(list)[i_]);                                                                   \
		free(list);                                                                                  \
	} while (0)

void plan_free(struct plan *p)
{
	if (!p)
		return;
	FREE_EACH(p->candidates, p->n_candidates, candidate_done);
	FREE_EACH(p->workloads, p->n_workloads, workload_done);
	FREE_EACH(p->controls, p->n_controls, control_done);
	FREE_EACH(p->criteria, p->n_criteria, criterion_done);
	FREE_EACH(p->waivers, p->n_waivers, waiver_done);
	model_done(p);
	free(p->id);
	free(p->title);
	free(p->owner);
	free(p->valid_from);
	free(p->valid_until);
	free(p->not_before);
	free(p->challenge);
	cJSON_Delete(p->doc);
	free(p);
}
