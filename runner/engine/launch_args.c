/* SPDX-License-Identifier: Apache-2.0 */
/* argv of an engine: program, placeholders, port and host. */
#include "engine/launch_parts.h"

#include "base/fs.h"

#include <string.h>

char *launch_path(const char *plan_dir, const char *path)
{
	auto_free char *joined = fs_join(plan_dir, path);
	if (!joined || joined[0] == '/')
		return steal_ptr(&joined);
	auto_free char *here = getcwd(NULL, 0);
	return here ? fs_join(here, joined) : NULL;
}

/* The value of "--name V" or "--name=V"; NULL = not there. The last one counts, as for the engines. */
static const char *arg_value(const struct plan_candidate *cand, const char *name)
{
	const char *value = NULL;
	size_t len = strlen(name);
	for (size_t i = 0; i < cand->n_args; i++) {
		const char *a = cand->args[i];
		if (!strcmp(a, name) && i + 1 < cand->n_args)
			value = cand->args[i + 1];
		else if (!strncmp(a, name, len) && a[len] == '=')
			value = a + len + 1;
	}
	return value;
}

int launch_port_of(bool *free_port, unsigned *port, const struct plan_candidate *cand, struct err *err)
{
	const char *value = arg_value(cand, "--port");
	char *end = NULL;
	bool placeholder = false;
	for (size_t i = 0; i < cand->n_args; i++)
		placeholder |= strstr(cand->args[i], "{port}") != NULL;
	if (placeholder) {
		*free_port = true;
		return 0;
	}
	if (!value)
		return err_set(err, ERR_PLAN,
		               "candidate %s: its args name no port: add \"--port\", \"{port}\"", cand->name);
	unsigned long n = strtoul(value, &end, 10);
	if (end == value || *end || n == 0 || n > 65535)
		return err_set(err, ERR_PLAN,
		               "candidate %s: args: want a port of 1-65535 or {port}, got \"%s\"", cand->name,
		               value);
	*free_port = false;
	*port = (unsigned)n;
	return 0;
}

const char *launch_host_of(const struct plan_candidate *cand)
{
	static const char *const any[] = { "0.0.0.0", "::", "{host}", "" };
	const char *host = arg_value(cand, "--host");
	for (size_t i = 0; host && i < ARRAY_LEN(any); i++)
		if (!strcmp(host, any[i]))
			return LAUNCH_LOCAL;
	return host ? host : LAUNCH_LOCAL;
}

struct placeholder {
	const char *name, *value; /* NULL value: the plan does not give it */
	const char *missing;
};

/* Braces that are no placeholder stay: args may hold JSON. */
static int expand(char **out, const char *arg, const struct placeholder *ph, size_t n_ph,
                  const struct plan_candidate *cand, struct err *err)
{
	auto_buf b = BUF_INIT(1u << 20);
	buf_adds(&b, "");
	for (const char *p = arg; *p;) {
		size_t i = 0;
		while (i < n_ph && strncmp(p, ph[i].name, strlen(ph[i].name)) != 0)
			i++;
		if (i == n_ph) {
			buf_addc(&b, *p++);
			continue;
		}
		if (!ph[i].value)
			return err_set(err, ERR_PLAN, "candidate %s: args use %s, but %s", cand->name,
			               ph[i].name, ph[i].missing);
		buf_adds(&b, ph[i].value);
		p += strlen(ph[i].name);
	}
	char *text = buf_steal(&b);
	if (!text)
		return err_set(err, ERR_PLAN, "candidate %s: args: too long", cand->name);
	*out = text;
	return 0;
}

static char *program_of(const struct engine_start_spec *spec)
{
	const char *program = spec->cand->launch.program;
	if (!program)
		program = spec->ops->default_program;
	if (!program)
		return NULL;
	return strchr(program, '/') ? launch_path(spec->plan_dir, program) : strdup(program);
}

void engine_argv_free(char **argv)
{
	for (size_t i = 0; argv && argv[i]; i++)
		free(argv[i]);
	free(argv);
}

int engine_argv(char ***argv, size_t *n, const struct engine_start_spec *spec, unsigned port, struct err *err)
{
	const struct plan_candidate *cand = spec->cand;
	char port_text[16];
	auto_free char *model = spec->model_file ? launch_path(".", spec->model_file) : NULL;
	snprintf(port_text, sizeof(port_text), "%u", port);
	const struct placeholder ph[] = {
		{ "{port}", port ? port_text : "{port}", "" },
		{ "{host}", LAUNCH_LOCAL, "" },
		{ "{model}", model, "the plan names no model file" },
		{ "{alias}", spec->model_id, "the plan names no model id" },
	};
	char **list = calloc(cand->n_args + 2, sizeof(list[0]));
	if (!list)
		return err_set(err, ERR_ENV, "candidate %s: out of memory", cand->name);
	list[0] = program_of(spec);
	if (!list[0]) {
		engine_argv_free(list);
		return err_set(err, ERR_PLAN, "candidate %s: launch names no program", cand->name);
	}
	for (size_t i = 0; i < cand->n_args; i++)
		if (expand(&list[i + 1], cand->args[i], ph, ARRAY_LEN(ph), cand, err)) {
			engine_argv_free(list);
			return -1;
		}
	*argv = list;
	*n = cand->n_args + 1;
	return 0;
}
