/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/trial.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "trial/trial_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>

#define ATTEMPTS_BYTES_MAX (16u << 20)

struct phase {
	const char *name;
	int (*run)(struct trial *t, struct err *err);
	bool needs_engine;
};

/* The table of contents of a run. A phase that fails, or Ctrl-C, skips to stop. */
static const struct phase phases[] = {
	{ "pin", phase_pin, false },
	{ "probe", phase_probe, false },
	{ "preflight", phase_preflight, false },
	{ "start", phase_start, false },
	{ "warm", phase_warm, true },
	{ "controls_before", phase_controls_before, true },
	{ "load", phase_load, true },
	{ "controls_after", phase_controls_after, true },
	{ "recover", phase_recover, true },
};

bool stopped(const struct trial *t)
{
	return *t->spec->drain || *t->spec->abort;
}

void ui_line(const struct trial *t, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (t->spec->ui.line)
		t->spec->ui.line(t->spec->ui.ctx, text);
}

void say_not_tested(struct trial *t, const char *what, const char *reason)
{
	struct json_out *o = rundir_event(t->dir, "not_tested");
	jo_str(o, "what", what);
	jo_str(o, "reason", reason);
	rundir_event_end(t->dir);
}

/* --- recovery ---------------------------------------------------------------------------------------------
 */

static int start_again(struct trial *t, const char *why, struct err *err)
{
	if (start_engine(t, why, err))
		return err_wrap(err, "%s", why);
	t->prompts_spec.http = engine_http(t->engine);
	return run_controls(t, why, err);
}

int phase_recover(struct trial *t, struct err *err)
{
	const struct plan_recovery *r = &t->spec->plan->recovery;
	if (r->rollback)
		say_not_tested(t, "rollback",
		               "rolling back to the previous release needs container launch, which this "
		               "version does not do");
	if (t->spec->cand->launch.kind == LAUNCH_ATTACH) {
		if (r->restart || r->second_cold_start)
			say_not_tested(t, "recovery", "an attached server is not ours to stop and start");
		return 0;
	}
	if (r->second_cold_start && !stopped(t)) {
		stop_engine(t, false);
		if (start_again(t, "second_cold", err))
			return -1;
	}
	if (r->restart && !stopped(t)) {
		/* The hard case: the process is gone without a word, then started again. */
		kill(engine_pid(t->engine), SIGKILL);
		struct json_out *o = rundir_event(t->dir, "engine_killed");
		jo_u64(o, "start", t->start);
		jo_str(o, "why", "restart test");
		rundir_event_end(t->dir);
		stop_engine(t, true);
		if (start_again(t, "restart", err))
			return -1;
	}
	return 0;
}

int phase_stop(struct trial *t, struct err *err)
{
	stop_engine(t, false);
	blank_engine_log(t);
	return 0;
}

/* --- beginning and end ------------------------------------------------------------------------------------
 */

static void make_run_id(char out[40])
{
	uint8_t r[16];
	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		abort();
	hex_encode(r, sizeof(r), out);
}

/* The last line of the attempts file is the attempt before; the new line holds its digest. The chain is the
 * machine's own word, and the report calls it so. */
static int count_attempt(struct trial_facts *f, const char *path, struct err *err)
{
	auto_buf old = BUF_INIT(ATTEMPTS_BYTES_MAX), line = BUF_INIT(4096);
	struct err missing = { 0 };
	f->attempt = 1;
	f->previous_attempt_sha256[0] = '\0';
	if (!path)
		return 0;
	if (access(path, F_OK) == 0) {
		if (fs_read(&old, path, ATTEMPTS_BYTES_MAX, &missing))
			return err_set(err, ERR_ENV, "%s", missing.msg);
		size_t end = old.len, begin;
		while (end > 0 && old.p[end - 1] == '\n')
			end--;
		for (begin = end; begin > 0 && old.p[begin - 1] != '\n';)
			begin--;
		for (size_t i = 0; i < old.len; i++)
			f->attempt += old.p[i] == '\n';
		if (end > begin)
			sha256_hex_of(old.p + begin, end - begin, f->previous_attempt_sha256);
	}
	struct json_out o;
	jo_init(&o, &line, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "attempt", f->attempt);
	jo_str(&o, "run_id", f->run_id);
	jo_str(&o, "started", f->started);
	jo_str(&o, "previous_sha256", f->previous_attempt_sha256[0] ? f->previous_attempt_sha256 : NULL);
	jo_end(&o);
	buf_addc(&line, '\n');
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || fs_write_all(fd, line.p, line.len) || fsync(fd))
		return err_sys(err, ERR_ENV, errno, "%s: cannot note this attempt", path);
	return 0;
}

static void begin_run(struct trial *t)
{
	char clock[64], binary[65];
	const struct trial_facts *f = t->facts;
	clock_source(clock);
	own_binary_sha256(binary);
	struct json_out *o = rundir_event(t->dir, "run_begin");
	jo_str(o, "run_id", f->run_id);
	jo_str(o, "wall", f->started);
	jo_str(o, "candidate", t->spec->cand->name);
	jo_u64(o, "attempt", f->attempt);
	jo_str(o, "previous_attempt_sha256",
	       f->previous_attempt_sha256[0] ? f->previous_attempt_sha256 : NULL);
	jo_str(o, "version", PROOFMARK_VERSION);
	jo_str(o, "binary_sha256", binary[0] ? binary : NULL);
	jo_str(o, "clock_source", clock);
	jo_arr(o, "labels");
	if (t->ops && t->ops->label)
		jo_str(o, NULL, t->ops->label);
	if (getenv("PROOFMARK_FAULT"))
		jo_str(o, NULL, "fault injection");
	jo_end_arr(o);
	rundir_event_end(t->dir);
}

static void end_run(struct trial *t, bool complete)
{
	if (rundir_full(t->dir))
		rundir_use_reserve(t->dir);
	rundir_flush(t->dir);
	if (rundir_full(t->dir)) {
		struct json_out *o = rundir_event(t->dir, "disk_full");
		jo_str(o, "where", t->phase);
		rundir_event_end(t->dir);
	}
	if (stopped(t)) {
		struct json_out *o = rundir_event(t->dir, "interrupt");
		jo_str(o, "signal", *t->spec->abort ? "second" : "first");
		rundir_event_end(t->dir);
	}
	struct json_out *o = rundir_event(t->dir, "run_end");
	jo_str(o, "status", stopped(t) ? "interrupted" : complete ? "complete" : "incomplete");
	rundir_event_end(t->dir);
	clock_rfc3339(clock_wall_ns(), t->facts->finished);
}

static int run_phase(struct trial *t, const struct phase *ph, struct err *err)
{
	t->phase = ph->name;
	if (t->sampler)
		sampler_phase(t->sampler, ph->name);
	if (t->spec->ui.phase)
		t->spec->ui.phase(t->spec->ui.ctx, ph->name);
	struct json_out *o = rundir_event(t->dir, "phase_begin");
	jo_str(o, "phase", ph->name);
	rundir_event_end(t->dir);
	int rc = ph->run(t, err);
	o = rundir_event(t->dir, "phase_end");
	jo_str(o, "phase", ph->name);
	jo_bool(o, "ok", rc == 0);
	jo_str(o, "reason", rc ? err->msg : NULL);
	rundir_event_end(t->dir);
	return rc;
}

static bool run_phases(struct trial *t)
{
	static const struct phase stop = { "stop", phase_stop, false };
	struct err why = { 0 }, ignored = { 0 };
	bool complete = true;
	for (size_t i = 0; complete && i < ARRAY_LEN(phases) && !stopped(t); i++)
		complete = run_phase(t, &phases[i], &why) == 0;
	if (!complete && !stopped(t)) {
		struct json_out *o = rundir_event(t->dir, "error");
		jo_u64(o, "class", (uint64_t)why.cls);
		jo_str(o, "phase", t->phase);
		jo_str(o, "message", why.msg);
		rundir_event_end(t->dir);
		ui_line(t, "%s: %s", t->phase, why.msg);
	}
	if (run_phase(t, &stop, &ignored))
		complete = false;
	return complete;
}

static void telemetry_line(void *ctx, const char *line, size_t len)
{
	struct trial *t = ctx;
	rundir_line(t->dir, "telemetry.jsonl", line, len);
}

/* "0-3" of this process, so that binding the client does not bind the engine. */
static char *own_cpu_list(void)
{
	cpu_set_t set;
	auto_buf b = BUF_INIT(8192);
	if (sched_getaffinity(0, sizeof(set), &set))
		return NULL;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			buf_addf(&b, "%s%d", b.len ? "," : "", i);
	return buf_steal(&b);
}

static int open_trial(struct trial *t, struct err *err)
{
	const struct trial_spec *s = t->spec;
	struct sampler_spec sampling = {
		.period_ns = s->plan->telemetry_period_ms * NS_PER_MS,
		.origin_ns = t->origin_ns,
		.line = telemetry_line,
		.ctx = t,
		.cpus = s->cand->client_cpus,
	};
	make_run_id(t->facts->run_id);
	clock_rfc3339(t->wall_ns, t->facts->started);
	t->plan_dir = fs_dirname(s->plan_path);
	t->own_cpus = own_cpu_list();
	t->ops = engine_find(s->cand->engine);
	t->cells = cells_of_plan(s->plan, &t->n_cells);
	t->cell_ran = calloc(t->n_cells + 1, sizeof(*t->cell_ran));
	t->stop_rule = stop_rule_new();
	t->model_file = s->plan->model.n_files ? model_path(t->plan_dir, &s->plan->model.files[0]) : NULL;
	if (!t->plan_dir || !t->cells || !t->own_cpus || !t->cell_ran || !t->stop_rule)
		return err_set(err, ERR_ENV, "no memory");
	if (rundir_create(&t->dir, s->run_dir, t->origin_ns, err) ||
	    rundir_write(t->dir, "plan.json", s->plan_text, s->plan_len, err) ||
	    rundir_write(t->dir, "plan.lock.json", s->lock_text, s->lock_len, err) ||
	    count_attempt(t->facts, s->attempts_path, err))
		return -1;
	begin_run(t);
	return sampler_start(&t->sampler, &sampling, err);
}

static void close_trial(struct trial *t)
{
	for (size_t i = 0; i < t->n_argv; i++)
		free(t->argv[i]);
	free(t->argv);
	struct lock found = { .n_candidates = 1, .candidates = malloc(sizeof(t->found)) };
	if (found.candidates) {
		found.candidates[0] = t->found;
		lock_done(&found);
	}
	engine_identity_done(&t->identity);
	prompts_free(t->prompts);
	rundir_close(t->dir);
	free_traces(t);
	stop_rule_free(t->stop_rule);
	free(t->cell_ran);
	free(t->cells);
	free(t->own_cpus);
	free(t->model_file);
	free(t->plan_dir);
}

int trial_run(struct trial_facts *facts, const struct trial_spec *spec, struct err *err)
{
	struct trial t = {
		.spec = spec, .facts = facts, .origin_ns = clock_now_ns(), .wall_ns = clock_wall_ns()
	};
	*facts = (struct trial_facts){ 0 };
	int rc = open_trial(&t, err);
	if (rc == 0) {
		bool complete = run_phases(&t);
		sampler_stop(t.sampler);
		end_run(&t, complete);
	}
	close_trial(&t);
	return rc;
}
