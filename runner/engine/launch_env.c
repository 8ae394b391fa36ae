/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's environment and the API key. Values from outside are read here, go into the child and the
 * Authorization header, and are wiped; no message names them. */
#include "engine/launch_parts.h"

#include "base/fs.h"

#include <string.h>

#define SECRET_BYTES_MAX 65536u

/* First line of a file. */
static char *value_from_file(const char *plan_dir, const char *path, const char *what, struct err *err)
{
	auto_free char *full = launch_path(plan_dir, path);
	auto_buf text = BUF_INIT(SECRET_BYTES_MAX);
	if (!full || fs_read(&text, full, SECRET_BYTES_MAX, err)) {
		if (!full)
			err_set(err, ERR_ENV, "out of memory");
		err_wrap(err, "%s", what);
		return NULL;
	}
	size_t len = text.p ? strcspn(text.p, "\r\n") : 0;
	char *value = len ? strndup(text.p, len) : NULL;
	if (text.p)
		explicit_bzero(text.p, text.len);
	if (!value)
		err_set(err, ERR_ENV, "%s: %s: its first line is empty", what, full);
	return value;
}

static char *value_from_env(const char *name, const char *what, struct err *err)
{
	const char *value = getenv(name);
	if (!value || !*value) {
		err_set(err, ERR_ENV, "%s: the environment variable %s is not set", what, name);
		return NULL;
	}
	return strdup(value);
}

static void wipe_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++) {
		explicit_bzero(list[i], strlen(list[i]));
		free(list[i]);
	}
	free(list);
}

void launch_env_done(struct launch_env *env)
{
	wipe_list(env->vars);
	wipe_list(env->secrets);
	if (env->bearer)
		explicit_bzero(env->bearer, strlen(env->bearer));
	free(env->bearer);
	*env = (struct launch_env){ 0 };
}

static bool plan_names(const struct plan_candidate *cand, const char *name)
{
	for (size_t i = 0; i < cand->n_env; i++)
		if (!strcmp(cand->env[i].name, name))
			return true;
	return false;
}

/* What a program needs to run at all; everything else comes from the plan. */
static int add_defaults(char **vars, const struct plan_candidate *cand)
{
	static const struct {
		const char *name, *otherwise;
		bool ours;
	} defaults[] = {
		{ "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", true },
		{ "HOME", "/", true },
		{ "LANG", "C.UTF-8", false },
	};
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		const char *own = defaults[i].ours ? getenv(defaults[i].name) : NULL;
		if (plan_names(cand, defaults[i].name))
			continue;
		vars[n] = str_fmt("%s=%s", defaults[i].name, own ? own : defaults[i].otherwise);
		if (!vars[n++])
			return -1;
	}
	return (int)n;
}

static int add_var(char **var, char **secret, const struct plan_env *e, const struct engine_start_spec *spec,
                   struct err *err)
{
	char what[200];
	snprintf(what, sizeof(what), "candidate %.60s: env %.100s", spec->cand->name, e->name);
	if (e->value) {
		*var = str_fmt("%s=%s", e->name, e->value);
		return *var ? 0 : err_set(err, ERR_ENV, "%s: out of memory", what);
	}
	char *value = e->from_env ? value_from_env(e->from_env, what, err)
	                          : value_from_file(spec->plan_dir, e->from_file, what, err);
	if (!value)
		return -1;
	*secret = value;
	*var = str_fmt("%s=%s", e->name, value);
	return *var ? 0 : err_set(err, ERR_ENV, "%s: out of memory", what);
}

int launch_env_make(struct launch_env *out, const struct engine_start_spec *spec, struct err *err)
{
	const struct plan_candidate *cand = spec->cand;
	struct launch_env env = { .vars = calloc(cand->n_env + 4, sizeof(char *)),
		                  .secrets = calloc(cand->n_env + 1, sizeof(char *)) };
	int n = env.vars && env.secrets ? add_defaults(env.vars, cand) : -1;
	size_t n_secrets = 0;
	if (n < 0) {
		err_set(err, ERR_ENV, "candidate %s: out of memory", cand->name);
		goto fail;
	}
	for (size_t i = 0; i < cand->n_env; i++) {
		if (add_var(&env.vars[n], &env.secrets[n_secrets], &cand->env[i], spec, err))
			goto fail;
		n++;
		n_secrets += env.secrets[n_secrets] != NULL;
	}
	if (cand->launch.api_key_env)
		env.bearer = value_from_env(cand->launch.api_key_env, "API key", err);
	else if (cand->launch.api_key_file)
		env.bearer = value_from_file(spec->plan_dir, cand->launch.api_key_file, "API key", err);
	if (!env.bearer && (cand->launch.api_key_env || cand->launch.api_key_file))
		goto fail;
	*out = env;
	return 0;
fail:
	launch_env_done(&env);
	return -1;
}

static uint64_t blank_one(char *data, size_t data_len, const char *secret)
{
	size_t len = secret ? strlen(secret) : 0;
	uint64_t n = 0;
	if (len < 4) /* "1" is no secret, and would blank every digit */
		return 0;
	char *end = data + data_len;
	for (char *at = data; (at = memmem(at, (size_t)(end - at), secret, len)); at += len, n++)
		memset(at, '*', len);
	return n;
}

uint64_t launch_blank_bytes(char *data, size_t len, const struct launch_env *env)
{
	uint64_t n = blank_one(data, len, env->bearer);
	for (size_t i = 0; env->secrets && env->secrets[i]; i++)
		n += blank_one(data, len, env->secrets[i]);
	return n;
}

void launch_blank_secrets(char *line, const struct launch_env *env)
{
	launch_blank_bytes(line, strlen(line), env);
}
