/* SPDX-License-Identifier: Apache-2.0 */
/* Before the load: facts, a look at the machine, the engine's start, warm-up of what prompts need. */
#include "base/clock.h"
#include "host/host_facts.h"
#include "trial/trial_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#define FACTS_BYTES_MAX (16u << 20)
#define DISK_NEEDED_BYTES (64ull << 20)

static void write_found_files(struct json_out *o, const struct lock_candidate *c)
{
	jo_arr(o, "files");
	for (size_t i = 0; i < c->n_files; i++) {
		jo_obj(o, NULL);
		jo_str(o, "role", lock_role_words[c->files[i].role]);
		jo_str(o, "path", c->files[i].path);
		jo_u64(o, "bytes", c->files[i].bytes);
		jo_str(o, "sha256", c->files[i].sha256);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void known_u64(struct json_out *o, const char *key, uint64_t v)
{
	if (v)
		jo_u64(o, key, v);
	else
		jo_null(o, key);
}

static void write_engine(struct json_out *o, const struct trial *t)
{
	jo_obj(o, "engine");
	jo_str(o, "kind", engine_kind_words[t->spec->cand->engine]);
	jo_str(o, "launch", launch_kind_words[t->spec->cand->launch.kind]);
	jo_arr(o, "argv");
	for (size_t i = 0; i < t->n_argv; i++)
		jo_str(o, NULL, t->argv[i]);
	jo_end_arr(o);
	jo_arr(o, "env_names");
	for (size_t i = 0; i < t->spec->cand->n_env; i++)
		jo_str(o, NULL, t->spec->cand->env[i].name);
	jo_end_arr(o);
	jo_str(o, "version_told", t->identity.version);
	jo_str(o, "build_told", t->identity.build);
	jo_str(o, "commit_told", t->identity.commit);
	jo_str(o, "model_name_told", t->identity.model_name);
	jo_str(o, "model_path_told", t->identity.model_path);
	known_u64(o, "context_tok_told", t->identity.context_tok);
	known_u64(o, "slots_told", t->identity.slots);
	write_found_files(o, &t->found);
	jo_end(o);
}

int write_facts(struct trial *t, struct err *err)
{
	auto_buf b = BUF_INIT(FACTS_BYTES_MAX);
	struct json_out o;
	struct host_spec host = { .sysroot = "", .run_dir = t->spec->run_dir };
	jo_init(&o, &b, 1);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", 1);
	jo_str(&o, "candidate", t->spec->cand->name);
	host_facts_write(&o, "host", &host);
	write_engine(&o, t);
	jo_obj(&o, "prompts");
	if (t->prompts) {
		jo_bool(&o, "exact", prompts_exact(t->prompts));
		jo_u64(&o, "words", prompts_n_words(t->prompts));
	}
	jo_end(&o);
	jo_end(&o);
	return b.failed ? err_set(err, ERR_ENV, "facts.json: over %u bytes", FACTS_BYTES_MAX)
	                : rundir_write(t->dir, "facts.json", b.p, b.len, err);
}

int phase_probe(struct trial *t, struct err *err)
{
	return write_facts(t, err);
}

static int need_device(enum backend backend, struct err *err)
{
	static const struct {
		enum backend backend;
		const char *node, *next;
	} nodes[] = {
		{ BACKEND_CUDA, "/dev/nvidiactl",
		  "load the NVIDIA kernel driver, or give the container its devices" },
		{ BACKEND_ROCM, "/dev/kfd",
		  "load amdgpu with KFD, or give the container /dev/kfd and /dev/dri" },
	};
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		if (nodes[i].backend == backend && access(nodes[i].node, R_OK | W_OK))
			return err_sys(err, ERR_ENV, errno, "backend %s needs %s (%s)",
			               backend_words[backend], nodes[i].node, nodes[i].next);
	return 0;
}

static void say_parts_not_driven(struct trial *t)
{
	const struct plan *p = t->spec->plan;
	if (p->power)
		say_not_tested(t, "power", "power meters are not read by this version");
	if (p->telemetry && json_get(p->telemetry, "sources"))
		say_not_tested(
			t, "telemetry.sources",
			"only the built-in sources (process, memory, cgroup, CPU) are read by this version");
	if (p->cost)
		say_not_tested(
			t, "cost",
			"cost inputs are kept in the plan; no figure is computed from them by this version");
	for (size_t i = 0; i < t->n_cells; i++)
		if (!is_driven(&t->cells[i]))
			say_not_tested(t, t->cells[i].id, "training jobs are not run by this version");
}

int phase_preflight(struct trial *t, struct err *err)
{
	const struct plan_candidate *c = t->spec->cand;
	uint64_t free_bytes = 0;
	if (!t->ops || c->launch.kind == LAUNCH_CONTAINER) {
		t->nothing_runs = true;
		auto_free char *why = str_fmt(
			"this version drives llamacpp, attach and scripted engines as processes, not %s %s",
			engine_kind_words[c->engine],
			c->launch.kind == LAUNCH_CONTAINER ? "in a container" : "");
		say_not_tested(t, "engine", why);
		return err_set(err, ERR_ENV, "%s", why);
	}
	say_parts_not_driven(t);
	if (host_disk_free_bytes(t->spec->run_dir, &free_bytes) && free_bytes < DISK_NEEDED_BYTES)
		return err_set(
			err, ERR_ENV, "%s: %llu MiB free, a run needs at least %llu MiB: make room first",
			t->spec->run_dir, (unsigned long long)(free_bytes >> 20), DISK_NEEDED_BYTES >> 20);
	if (read_traces(t, err) || check_limits(t, err))
		return -1;
	return c->launch.kind == LAUNCH_ATTACH ? 0 : need_device(c->backend, err);
}

static uint64_t since_origin(const struct trial *t, uint64_t ns)
{
	return ns == REC_NONE || ns < t->origin_ns ? REC_NONE : ns - t->origin_ns;
}

enum api critical_api(const struct plan *p)
{
	const struct plan_workload *wl = plan_critical(p);
	return wl ? wl->api : API_CHAT;
}

static struct engine_start_spec engine_spec(const struct trial *t)
{
	return (struct engine_start_spec){
		.cand = t->spec->cand,
		.ops = t->ops,
		.plan_dir = t->plan_dir,
		.model_file = t->model_file,
		.model_id = t->spec->plan->model.id,
		.api = critical_api(t->spec->plan),
		.run_dir = t->spec->run_dir,
		.log_fd = rundir_log_fd(t->dir),
		.stop = t->spec->drain,
	};
}

/* An engine may print the secrets that it was given; the run directory may not hold them. */
void blank_engine_log(struct trial *t)
{
	struct err err = { 0 };
	struct engine_start_spec spec = engine_spec(t);
	int64_t n = t->ops ? engine_log_blank(&spec, &err) : 0;
	if (n < 0)
		ui_line(t, "engine.log may hold secrets, look at it before you pass it on: %s", err.msg);
	else if (n > 0)
		ui_line(t, "engine.log: %lld secret values were overwritten with '*'", (long long)n);
}

/* Starts, waits, tells the journal and the sampler. */
int start_engine(struct trial *t, const char *why, struct err *err)
{
	const struct trial_spec *s = t->spec;
	struct engine_times times = { REC_NONE, REC_NONE, REC_NONE };
	struct engine_start_spec spec = engine_spec(t);
	struct json_out *o;
	t->start++;
	if (s->cand->launch.kind != LAUNCH_ATTACH) {
		o = rundir_event(t->dir, "engine_spawn");
		jo_u64(o, "start", t->start);
		jo_str(o, "why", why);
		rundir_event_end(t->dir);
	}
	/* The engine gets the CPUs that we were given, not those that the client binds itself to. */
	if (proc_bind_self(t->own_cpus, err))
		return -1;
	int rc = engine_start(&t->engine, &times, &spec, err);
	if (!rc && s->cand->client_cpus)
		rc = proc_bind_self(s->cand->client_cpus, err);
	o = rundir_event(t->dir, rc ? "engine_not_ready" : "engine_ready");
	jo_u64(o, "start", t->start);
	jo_str(o, "why", why);
	jo_opt_u64(o, "spawn_ns", since_origin(t, times.spawn_ns));
	jo_opt_u64(o, "health_ns", since_origin(t, times.health_ns));
	jo_opt_u64(o, "first_completion_ns", since_origin(t, times.first_completion_ns));
	if (rc)
		jo_str(o, "message", err->msg);
	else
		jo_u64(o, "pid", (uint64_t)engine_pid(t->engine));
	rundir_event_end(t->dir);
	if (rc)
		return -1;
	struct telemetry_target target = { .engine_pid = engine_pid(t->engine) };
	sampler_target(t->sampler, &target);
	return 0;
}

void stop_engine(struct trial *t, bool killed_by_us)
{
	int status = 0;
	if (!t->engine)
		return;
	bool ours = engine_pid(t->engine) > 0;
	bool died = engine_ended(t->engine, &status);
	struct telemetry_target nobody = { 0 };
	sampler_target(t->sampler, &nobody);
	engine_stop(t->engine, &status);
	engine_free(t->engine);
	t->engine = NULL;
	if (!ours)
		return;
	struct json_out *o = rundir_event(t->dir, "engine_exit");
	jo_u64(o, "start", t->start);
	if (WIFEXITED(status))
		jo_u64(o, "status", (uint64_t)WEXITSTATUS(status));
	else
		jo_null(o, "status");
	if (WIFSIGNALED(status))
		jo_u64(o, "signal", (uint64_t)WTERMSIG(status));
	else
		jo_null(o, "signal");
	jo_bool(o, "expected", killed_by_us || !died);
	rundir_event_end(t->dir);
}

static void keep_argv(struct trial *t)
{
	struct err ignored = { 0 };
	struct engine_start_spec spec = engine_spec(t);
	if (t->spec->cand->launch.kind == LAUNCH_PROCESS &&
	    engine_argv(&t->argv, &t->n_argv, &spec, 0, &ignored))
		t->n_argv = 0;
}

/* A scripted engine behind a URL is still no engine: it names itself in its build. */
static void say_what_it_is(struct trial *t)
{
	if (t->ops->label || !t->identity.build || strncmp(t->identity.build, "scripted", 8) != 0)
		return;
	struct json_out *o = rundir_event(t->dir, "label");
	jo_str(o, "label", "scripted engine");
	rundir_event_end(t->dir);
}

int phase_start(struct trial *t, struct err *err)
{
	struct err ignored = { 0 };
	keep_argv(t);
	if (start_engine(t, "first", err))
		return -1;
	if (t->ops->identity && t->ops->identity(engine_http(t->engine), &t->identity, &ignored))
		ui_line(t, "the server does not say what it is: %s", ignored.msg);
	blank_identity(&t->identity, t->engine);
	say_what_it_is(t);
	if (pin_started_engine(t, err))
		return -1;
	return write_facts(t, err);
}

/* Fits prompts to the server's tokenizer. */
int phase_warm(struct trial *t, struct err *err)
{
	t->prompts_spec = (struct prompts_spec){
		.plan = t->spec->plan,
		.cand = t->spec->cand,
		.ops = t->ops,
		.http = engine_http(t->engine),
		.model_name = t->identity.model_name ? t->identity.model_name : t->spec->plan->model.id,
		.plan_dir = t->plan_dir,
	};
	if (prompts_open(&t->prompts, &t->prompts_spec, err))
		return -1;
	if (!prompts_exact(t->prompts))
		say_not_tested(t, "exact prompt lengths",
		               "the server shows no tokenizer: lengths are words, not tokens; usage tells "
		               "the real ones");
	return write_facts(t, err);
}
