/* SPDX-License-Identifier: Apache-2.0 */
/* Meaning of the candidates: what is started, whether its identity is fixed, and whether it can be told apart
 * from something else later. */
#include "model/plan_parts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ERROR(at, ...) problem_add(out, PROBLEM_ERROR, at, __VA_ARGS__)
#define WARN(at, ...) problem_add(out, PROBLEM_WARNING, at, __VA_ARGS__)

static bool image_ok(const char *image)
{
	const char *digest = strstr(image, "@sha256:");

	return digest && digest != image && plan_hex(digest + 8, 64) && !strpbrk(image, " \t");
}

static bool url_ok(const char *url)
{
	size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;

	if (strncmp(url, "unix:///", 8) == 0) /* HTTP over that socket */
		return url[8] && !strpbrk(url, " ?#\\\"<>");
	return scheme && url[scheme] && url[scheme] != '/' && url[scheme] != ':' &&
	       !strpbrk(url, " ?#\\\"<>@");
}

static void lint_args(const struct plan_candidate *c, const char *at, struct problems *out)
{
	static const char *const known[] = { "{port}", "{host}", "{model}", "{alias}", NULL };
	bool port = false;

	for (size_t i = 0; i < c->n_args; i++) {
		const char *a = c->args[i];
		size_t n = strlen(a);
		port |= strstr(a, "{port}") != NULL;
		if (n < 3 || a[0] != '{' || strspn(a + 1, "abcdefghijklmnopqrstuvwxyz_") != n - 2 ||
		    a[n - 1] != '}')
			continue;
		bool is_known = false;
		for (const char *const *k = known; *k; k++)
			is_known |= strcmp(a, *k) == 0;
		if (!is_known)
			problem_add(out, PROBLEM_WARNING, at,
			            "args[%zu] %.40s is passed on as it stands: {port}, {host}, {model} and "
			            "{alias} are replaced",
			            i, a);
	}
	if (c->launch.kind == LAUNCH_PROCESS && c->engine != ENGINE_TORCHJOB && !port)
		WARN(at, "no {port} in 'args': the engine has to listen on the port that it is given");
}

static void lint_env(const struct plan_candidate *c, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	for (size_t i = 0; i < c->n_env; i++) {
		snprintf(deep, sizeof(deep), "%s/env/%zu", at, i);
		for (size_t j = 0; j < i; j++)
			if (strcmp(c->env[i].name, c->env[j].name) == 0)
				ERROR(deep, "variable %s is set by %s/env/%zu too", c->env[i].name, at, j);
		if (strcmp(c->env[i].name, "HSA_OVERRIDE_GFX_VERSION") == 0)
			WARN(deep,
			     "HSA_OVERRIDE_GFX_VERSION runs code of another architecture: for a lab, not "
			     "for a service");
	}
}

/* An attached server is not ours to start: nothing about its start can be asked. */
static void lint_attach(const struct plan_candidate *c, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/launch/attach/url", at);
	if (!url_ok(c->launch.url))
		ERROR(deep, "want http://HOST:PORT or https://HOST[:PORT][/PREFIX], without user, query and "
		            "fragment, or unix:///PATH");
	if (c->n_args)
		ERROR(at, "'args' and launch 'attach': a server that runs already takes no arguments");
	if (c->n_env)
		ERROR(at, "'env' and launch 'attach': a server that runs already takes no environment");
	if (c->engine_cpus)
		ERROR(at, "'cpus' and launch 'attach': a server that runs already is not bound by us");
}

static void lint_launch(const struct plan *p, const struct plan_candidate *c, const char *at,
                        struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	if (c->engine == ENGINE_ATTACH && c->launch.kind != LAUNCH_ATTACH)
		ERROR(at,
		      "engine \"attach\" is a server that runs already: want launch 'attach', or name the "
		      "engine");
	if (c->launch.kind == LAUNCH_ATTACH)
		lint_attach(c, at, out);
	if (c->launch.kind == LAUNCH_ATTACH && (p->recovery.restart || p->recovery.second_cold_start))
		WARN(at, "an attached server cannot be restarted by us: recovery comes out not_tested");
	if (c->launch.kind != LAUNCH_CONTAINER)
		return;
	snprintf(deep, sizeof(deep), "%s/launch/container/image", at);
	if (!image_ok(c->launch.image))
		ERROR(deep, "want an immutable reference NAME@sha256:… (64 hex digits); a tag can be moved");
}

static void lint_identity(const struct plan_candidate *c, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	if (c->engine_version && plan_floating(c->engine_version) && !c->engine_commit) {
		snprintf(deep, sizeof(deep), "%s/version", at);
		ERROR(deep,
		      "\"%.64s\" is a name that moves: want a version that can be installed again, or a "
		      "'commit'",
		      c->engine_version);
	}
	if (!c->engine_version && !c->engine_commit && c->launch.kind == LAUNCH_PROCESS &&
	    c->engine != ENGINE_SCRIPTED)
		WARN(at, "neither 'version' nor 'commit' is given: nobody can install this engine again");
	if (c->engine != ENGINE_LLAMACPP && c->engine != ENGINE_ATTACH && c->engine != ENGINE_SCRIPTED)
		WARN(at,
		     "engine \"%s\" has no adapter yet: a run on it is refused; attach to it by URL "
		     "meanwhile",
		     engine_kind_words[c->engine]);
	else if (c->launch.kind == LAUNCH_CONTAINER)
		WARN(at, "containers are not started yet: a run on this candidate is refused");
}

static bool arch_of_backend(const struct plan_candidate *c)
{
	if (c->backend == BACKEND_CUDA) {
		size_t n = strspn(c->arch + 3 * (strncmp(c->arch, "sm_", 3) == 0), "0123456789");
		const char *rest = c->arch + 3 + n;
		return strncmp(c->arch, "sm_", 3) == 0 && n >= 2 && n <= 3 &&
		       (*rest == '\0' || ((*rest == 'a' || *rest == 'f') && rest[1] == '\0'));
	}
	return strncmp(c->arch, "gfx", 3) == 0 && strlen(c->arch) >= 6;
}

/* gfx1100 is not gfx90a: what runs on one says nothing about the other. */
static void lint_arch(const struct plan_candidate *c, const char *at, struct problems *out)
{
	char deep[PLAN_POINTER_BYTES];

	if (c->backend != BACKEND_CUDA && c->backend != BACKEND_ROCM)
		return;
	const char *example = c->backend == BACKEND_CUDA ? "sm_90" : "gfx942";
	snprintf(deep, sizeof(deep), "%s/arch", at);
	if (!c->arch)
		ERROR(at, "key 'arch' is missing: backend \"%s\" wants the architecture, such as %s",
		      backend_words[c->backend], example);
	else if (!arch_of_backend(c))
		ERROR(deep, "\"%.32s\" is no %s architecture: want for example %s", c->arch,
		      backend_words[c->backend], example);
}

static void lint_cpus(const struct plan_candidate *c, const char *at, struct problems *out)
{
	static const char want[] = "want CPU numbers such as \"0\" or \"0,2-3\", none twice";
	uint64_t engine[64] = { 0 }, client[64] = { 0 };
	char deep[PLAN_POINTER_BYTES];
	bool both = c->engine_cpus && c->client_cpus;

	if (c->engine_cpus && !plan_cpus_ok(c->engine_cpus, engine)) {
		snprintf(deep, sizeof(deep), "%s/engine/cpus", at);
		ERROR(deep, "\"%.64s\": %s", c->engine_cpus, want);
		both = false;
	}
	if (c->client_cpus && !plan_cpus_ok(c->client_cpus, client)) {
		snprintf(deep, sizeof(deep), "%s/client_cpus", at);
		ERROR(deep, "\"%.64s\": %s", c->client_cpus, want);
		both = false;
	}
	for (size_t i = 0; both && i < 64; i++)
		if (engine[i] & client[i]) {
			WARN(at, "engine and client share CPUs: the client would slow what it measures");
			break;
		}
}

static void lint_support(const struct plan_candidate *c, const char *at, struct problems *out)
{
	const struct cJSON *e;
	char deep[PLAN_POINTER_BYTES];
	size_t i = 0;

	cJSON_ArrayForEach(e, c->support)
	{
		const char *date = json_str(e, "date"), *cls = json_str(e, "class");
		snprintf(deep, sizeof(deep), "%s/support/%zu", at, i++);
		if (date && !plan_date_ok(date))
			ERROR(deep, "no such day: \"%s\"", date);
		if (cls && strcmp(cls, "official") != 0)
			WARN(deep, "support of class \"%s\": a reason to pause the purchase", cls);
	}
}

/* The release to go back to has to be as fixed as the candidate itself. */
static void lint_previous(const struct plan_candidate *c, const char *at, struct problems *out)
{
	const struct cJSON *launch = json_get(c->previous, "launch");
	const char *image = json_str(json_get(launch, "container"), "image");
	const char *version = json_str(c->previous, "version");
	char deep[PLAN_POINTER_BYTES];

	snprintf(deep, sizeof(deep), "%s/previous", at);
	if (image && !image_ok(image))
		ERROR(deep, "want an immutable image NAME@sha256:… (64 hex digits); a tag can be moved");
	if (version && plan_floating(version) && !json_get(c->previous, "commit"))
		ERROR(deep, "version \"%.64s\" is a name that moves", version);
	if (json_get(launch, "attach"))
		ERROR(deep, "a rollback has to start the release: want launch 'process' or 'container'");
}

static void lint_candidate(const struct plan *p, size_t i, struct problems *out)
{
	const struct plan_candidate *c = &p->candidates[i];
	char at[64], engine[80];

	snprintf(at, sizeof(at), "/candidates/%zu", i);
	snprintf(engine, sizeof(engine), "%s/engine", at);
	for (size_t j = 0; j < i; j++)
		if (strcmp(c->name, p->candidates[j].name) == 0)
			ERROR(at, "name \"%s\" is taken by /candidates/%zu", c->name, j);
	lint_launch(p, c, engine, out);
	if (c->launch.kind != LAUNCH_ATTACH)
		lint_args(c, engine, out);
	lint_env(c, engine, out);
	lint_identity(c, engine, out);
	lint_arch(c, at, out);
	lint_cpus(c, at, out);
	lint_support(c, at, out);
	if (c->previous)
		lint_previous(c, at, out);
}

void plan_lint_candidates(const struct plan *p, struct problems *out)
{
	for (size_t i = 0; i < p->n_candidates; i++)
		lint_candidate(p, i, out);
}
