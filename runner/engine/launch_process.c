/* SPDX-License-Identifier: Apache-2.0 */
/* One start of an engine, or an attachment to one that runs. */
#include "engine/launch_parts.h"

#include "base/clock.h"
#include "model/record.h"

#include <string.h>
#include <sys/stat.h>

#define END_GRACE_NS (10 * NS_PER_S)
#define FAIL_GRACE_NS (3 * NS_PER_S)

struct engine_run {
	char *url, *ca_file;
	struct launch_env env; /* wiped at the end; the bearer is in it */
	struct http_client *http;
	struct proc *proc; /* NULL = attached */
	unsigned port;
	int status;
	bool stopped;
};

void engine_text_blank(char *text, const struct engine_run *r)
{
	launch_blank_secrets(text, &r->env);
}

void engine_free(struct engine_run *r)
{
	if (!r)
		return;
	proc_free(r->proc);
	http_close(r->http);
	launch_env_done(&r->env);
	free(r->url);
	free(r->ca_file);
	free(r);
}

static void cleanup_run(struct engine_run **r)
{
	engine_free(*r);
}

/* --- the parts of a start --- */

static char *url_without_end_slash(const char *url)
{
	size_t len = strlen(url);
	while (len && url[len - 1] == '/')
		len--;
	return strndup(url, len);
}

static int open_http(struct engine_run *r, const struct engine_start_spec *spec, struct err *err)
{
	const char *ca = spec->cand->launch.ca_file;
	if (ca)
		r->ca_file = launch_path(spec->plan_dir, ca);
	if (!r->url || (ca && !r->ca_file))
		return err_set(err, ERR_ENV, "out of memory");
	struct http_spec http = { .base_url = r->url, .bearer = r->env.bearer, .ca_file = r->ca_file };
	return http_open(&r->http, &http, err);
}

static int pick_port(unsigned *port, const struct plan_candidate *cand, struct err *err)
{
	bool free_port;
	if (launch_port_of(&free_port, port, cand, err))
		return -1;
	return free_port ? launch_free_port(port, err) : launch_port_check(launch_host_of(cand), *port, err);
}

static int spawn(struct engine_run *r, struct engine_times *times, const struct engine_start_spec *spec,
                 struct err *err)
{
	const struct plan_candidate *cand = spec->cand;
	const char *cwd = cand->launch.cwd;
	auto_free char *folder = cwd ? launch_path(spec->plan_dir, cwd) : launch_path(".", spec->run_dir);
	char **argv;
	size_t n;
	if (!folder)
		return err_set(err, ERR_ENV, "out of memory");
	if (engine_argv(&argv, &n, spec, r->port, err))
		return -1;
	struct proc_spec p = {
		.argv = (const char *const *)argv,
		.envp = (const char *const *)r->env.vars,
		.cwd = folder,
		.cpus = cand->engine_cpus,
		.out_fd = spec->log_fd,
		.die_with_parent = true,
	};
	times->spawn_ns = clock_now_ns();
	int rc = proc_spawn(&r->proc, &p, err);
	if (rc)
		times->spawn_ns = REC_NONE;
	engine_argv_free(argv);
	return rc;
}

static uint64_t log_size(int log_fd)
{
	struct stat st;
	return fstat(log_fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* Adds to the reason what the process left: its exit status, its last line, what is known about either. */
static int explain(struct engine_run *r, const struct engine_start_spec *spec, uint64_t log_from,
                   bool by_itself, struct err *err)
{
	char status[LAUNCH_TEXT_BYTES] = "", line[LAUNCH_TEXT_BYTES];
	const char *hint = NULL;
	launch_last_line(line, &hint, spec->log_fd, log_from, &r->env);
	if (by_itself)
		launch_say_status(status, &hint, r->status);
	struct err why = *err;
	return err_set(err, why.cls, "%.500s%s%s%s%s%s%s%s", why.msg, status[0] ? ", " : "", status,
	               line[0] ? "; its last log line: \"" : "; it wrote no log", line, line[0] ? "\"" : "",
	               hint ? "; " : "", hint ? hint : "");
}

static uint64_t deadline_of(const struct plan_candidate *cand)
{
	uint64_t s = cand->ready_deadline_s ? cand->ready_deadline_s : 600;
	return clock_now_ns() + (s < 86400 ? s : 86400) * NS_PER_S;
}

static int start_process(struct engine_run *r, struct engine_times *times,
                         const struct engine_start_spec *spec, struct err *err)
{
	uint64_t log_from = log_size(spec->log_fd);
	if (pick_port(&r->port, spec->cand, err))
		return -1;
	r->url = str_fmt("http://%s:%u", launch_host_of(spec->cand), r->port);
	if (open_http(r, spec, err) || spawn(r, times, spec, err))
		return -1;
	struct launch_wait w = {
		.spec = spec,
		.http = r->http,
		.proc = r->proc,
		.port = r->port,
		.deadline_ns = deadline_of(spec->cand),
	};
	if (!launch_wait_ready(times, &w, err))
		return 0;
	bool by_itself = proc_ended(r->proc, &r->status);
	proc_end_tree(r->proc, FAIL_GRACE_NS, &r->status);
	return err->cls == ERR_INTERRUPTED ? -1 : explain(r, spec, log_from, by_itself, err);
}

static int start_attached(struct engine_run *r, struct engine_times *times,
                          const struct engine_start_spec *spec, struct err *err)
{
	const char *url = spec->cand->launch.url;
	if (!url)
		return err_set(err, ERR_PLAN, "launch names no url to attach to");
	r->url = url_without_end_slash(url);
	if (open_http(r, spec, err))
		return -1;
	struct launch_wait w = { .spec = spec, .http = r->http, .deadline_ns = deadline_of(spec->cand) };
	return launch_wait_ready(times, &w, err);
}

int engine_start(struct engine_run **out, struct engine_times *times, const struct engine_start_spec *spec,
                 struct err *err)
{
	const struct plan_candidate *cand = spec->cand;
	__attribute__((cleanup(cleanup_run))) struct engine_run *r = calloc(1, sizeof(*r));
	*times = (struct engine_times){ .spawn_ns = REC_NONE,
		                        .health_ns = REC_NONE,
		                        .first_completion_ns = REC_NONE };
	if (!r)
		return err_set(err, ERR_ENV, "candidate %s: out of memory", cand->name);
	if (launch_env_make(&r->env, spec, err))
		return -1;
	int rc = -1;
	switch (cand->launch.kind) {
	case LAUNCH_PROCESS:
		rc = start_process(r, times, spec, err);
		break;
	case LAUNCH_ATTACH:
		rc = start_attached(r, times, spec, err);
		break;
	case LAUNCH_CONTAINER:
		rc = err_set(err, ERR_ENV, "this version cannot launch containers yet");
		break;
	}
	if (rc)
		return err_wrap(err, "engine of candidate %s", cand->name);
	*out = steal_ptr(&r);
	return 0;
}

/* --- a running one --- */

const char *engine_url(const struct engine_run *r)
{
	return r->url;
}

const char *engine_bearer(const struct engine_run *r)
{
	return r->env.bearer;
}

const char *engine_ca_file(const struct engine_run *r)
{
	return r->ca_file;
}

pid_t engine_pid(const struct engine_run *r)
{
	return r->proc ? proc_pid(r->proc) : 0;
}

int engine_pidfd(const struct engine_run *r)
{
	return r->proc ? proc_pidfd(r->proc) : -1;
}

struct http_client *engine_http(struct engine_run *r)
{
	return r->http;
}

bool engine_ended(struct engine_run *r, int *status)
{
	return r->proc && proc_ended(r->proc, status);
}

void engine_stop(struct engine_run *r, int *status)
{
	if (r->proc && !r->stopped) {
		proc_end_tree(r->proc, END_GRACE_NS, &r->status);
		r->stopped = true;
	}
	if (status)
		*status = r->status;
}
