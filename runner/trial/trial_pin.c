/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: what the lock freezes, and the comparison of the world with it. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "trial/trial_parts.h"

#include <string.h>
#include <unistd.h>

#define ARGUMENT_BYTES_MAX (64u << 20)

void own_binary_sha256(char hex[65])
{
	struct err ignored = { 0 };
	if (sha256_file(hex, NULL, "/proc/self/exe", &ignored))
		hex[0] = '\0';
}

char *model_path(const char *plan_dir, const struct plan_file *f)
{
	return fs_join(plan_dir, f->path);
}

static int add_all(struct lock_file **list, size_t *n, enum lock_role role, const struct pin_files *files,
                   struct err *err)
{
	for (size_t i = 0; i < files->n; i++)
		if (lock_add_file(list, n, role, files->list[i].path, files->list[i].sha256,
		                  files->list[i].bytes))
			return err_set(err, ERR_ENV, "no memory");
	return 0;
}

/* Hashes `n` paths written relative to the plan and adds them under the names the plan gives them. */
static int pin_named(struct lock_file **list, size_t *n_list, enum lock_role role, const char *const *names,
                     size_t n, const char *plan_dir, bool cache, const bool *stop, struct err *err)
{
	struct pin_files files = { 0 };
	char **paths = calloc(n + 1, sizeof(*paths));
	int rc = paths ? 0 : err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; !rc && i < n; i++)
		if (!(paths[i] = fs_join(plan_dir, names[i])))
			rc = err_set(err, ERR_ENV, "no memory");
	if (!rc)
		rc = pin_hash_files(&files, (const char *const *)paths, n, cache, stop, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (lock_add_file(list, n_list, role, names[i], files.list[i].sha256, files.list[i].bytes))
			rc = err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; paths && i < n; i++)
		free(paths[i]);
	free(paths);
	pin_files_done(&files);
	return rc;
}

static void add_once(const char **names, size_t *n, const char *name)
{
	for (size_t i = 0; name && i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return;
	if (name)
		names[(*n)++] = name;
}

int pin_model_files(struct lock_file **list, size_t *n, const struct plan *p, const char *plan_dir,
                    bool cache, const bool *stop, struct err *err)
{
	size_t n_model = p->model.n_files, n_corpora = 0;
	const char **names = calloc(n_model + 2 * p->n_workloads + 1, sizeof(*names));
	if (!names)
		return err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; i < n_model; i++)
		names[i] = p->model.files[i].path;
	for (size_t i = 0; i < p->n_workloads; i++) {
		add_once(names + n_model, &n_corpora, p->workloads[i].corpus);
		if (p->workloads[i].arrival.kind == ARRIVAL_TRACE)
			add_once(names + n_model, &n_corpora, p->workloads[i].arrival.trace);
	}
	int rc = pin_named(list, n, LOCK_MODEL, names, n_model, plan_dir, cache, stop, err) ||
	                         pin_named(list, n, LOCK_CORPUS, names + n_model, n_corpora, plan_dir, cache,
	                                   stop, err)
	                 ? -1
	                 : 0;
	free(names);
	return rc;
}

static const char *program_of(const struct plan_candidate *cand)
{
	const struct engine_ops *ops = engine_find(cand->engine);
	return cand->launch.program ? cand->launch.program : ops ? ops->default_program : NULL;
}

int pin_engine_program(struct lock_candidate *c, const struct plan_candidate *cand, const char *plan_dir,
                       bool cache, struct err *err)
{
	struct pin_files files = { 0 };
	const char *program = program_of(cand);
	if (cand->launch.kind != LAUNCH_PROCESS || !program)
		return 0;
	auto_free char *path = strchr(program, '/') ? fs_join(plan_dir, program) : strdup(program);
	if (pin_program(&files, path, getenv("PATH"), cache, err))
		return -1;
	int rc = 0;
	for (size_t i = 0; !rc && i < files.n; i++)
		if (lock_add_file(&c->files, &c->n_files, i == 0 ? LOCK_PROGRAM : LOCK_INTERPRETER,
		                  files.list[i].path, files.list[i].sha256, files.list[i].bytes))
			rc = err_set(err, ERR_ENV, "no memory");
	pin_files_done(&files);
	return rc;
}

int pin_engine_running(struct lock_candidate *c, pid_t pid, const struct plan *p, const char *plan_dir,
                       bool cache, struct err *err)
{
	struct pin_files mapped = { 0 }, args = { 0 };
	size_t n_pids = 0;
	pid_t *pids = proc_tree(pid, &n_pids);
	char **except = calloc(p->model.n_files + 1, sizeof(*except));
	int rc = pids && except ? 0 : err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; !rc && i < p->model.n_files; i++)
		except[i] = model_path(plan_dir, &p->model.files[i]);
	if (!rc)
		rc = pin_mapped_files(&mapped, pids, n_pids, cache, err);
	if (!rc)
		rc = pin_argument_files(&args, pids, n_pids, (const char *const *)except, p->model.n_files,
		                        ARGUMENT_BYTES_MAX, cache, err);
	if (!rc)
		rc = add_all(&c->files, &c->n_files, LOCK_MAPPED, &mapped, err);
	if (!rc)
		rc = add_all(&c->files, &c->n_files, LOCK_ARGUMENT, &args, err);
	for (size_t i = 0; except && i < p->model.n_files; i++)
		free(except[i]);
	free(except);
	free(pids);
	pin_files_done(&mapped);
	pin_files_done(&args);
	c->started = rc == 0;
	return rc;
}

/* --- lock -------------------------------------------------------------------------------------------------
 */

static int check_stated_hashes(const struct lock *l, const struct plan *p, struct err *err)
{
	for (size_t i = 0; i < p->model.n_files; i++) {
		const struct plan_file *want = &p->model.files[i];
		for (size_t j = 0; j < l->n_files; j++)
			if (l->files[j].role == LOCK_MODEL && strcmp(l->files[j].path, want->path) == 0 &&
			    want->sha256 && strcmp(l->files[j].sha256, want->sha256) != 0)
				return err_set(
					err, ERR_ENV,
					"%s: SHA-256 is %s, the plan says %s: not the file that was planned",
					want->path, l->files[j].sha256, want->sha256);
	}
	return 0;
}

static int lock_start_once(struct lock_candidate *c, const struct lock_spec *spec,
                           const struct plan_candidate *cand, const char *plan_dir, struct err *err)
{
	const struct engine_ops *ops = engine_find(cand->engine);
	struct engine_run *run = NULL;
	struct engine_times times;
	struct engine_identity id = { 0 };
	struct err ignored = { 0 };
	char work_dir[] = "/tmp/proofmark-lock-XXXXXX";
	if (!mkdtemp(work_dir))
		return err_set(err, ERR_ENV, "%s: cannot create a folder for the engine", work_dir);
	auto_free char *file =
		spec->plan->model.n_files ? model_path(plan_dir, &spec->plan->model.files[0]) : NULL;
	struct engine_start_spec start = {
		.cand = cand,
		.ops = ops,
		.plan_dir = plan_dir,
		.model_file = file,
		.model_id = spec->plan->model.id,
		.api = critical_api(spec->plan),
		.run_dir = work_dir,
		.log_fd = spec->log_fd,
		.stop = spec->stop,
	};
	int rc = engine_start(&run, &times, &start, err);
	if (!rc && engine_pid(run) > 0)
		rc = pin_engine_running(c, engine_pid(run), spec->plan, plan_dir, !spec->no_cache, err);
	if (!rc && ops->identity && !ops->identity(engine_http(run), &id, &ignored)) {
		blank_identity(&id, run);
		c->engine_version_told = steal_ptr(&id.version);
		c->engine_build_told = steal_ptr(&id.build);
		engine_identity_done(&id);
	}
	engine_free(run);
	rmdir(work_dir);
	return rc;
}

static int lock_candidate_make(struct lock_candidate *c, const struct lock_spec *spec,
                               const struct plan_candidate *cand, const char *plan_dir, struct err *err)
{
	c->name = strdup(cand->name);
	c->engine_commit = cand->engine_commit ? strdup(cand->engine_commit) : NULL;
	bool driven = engine_find(cand->engine) && cand->launch.kind != LAUNCH_CONTAINER;
	if (pin_engine_program(c, cand, plan_dir, !spec->no_cache, err))
		return err_wrap(err, "candidate %s", cand->name);
	if (!spec->start || !driven)
		return 0;
	if (spec->line && cand->launch.kind == LAUNCH_PROCESS)
		spec->line(spec->ctx, "starting the engine once, to hash the files that it really loads");
	return lock_start_once(c, spec, cand, plan_dir, err) ? err_wrap(err, "candidate %s", cand->name) : 0;
}

int lock_make(struct lock *out, const struct lock_spec *spec, struct err *err)
{
	const struct plan *p = spec->plan;
	struct lock l = { .rules = p->rules };
	auto_free char *plan_dir = fs_dirname(spec->plan_path);
	memcpy(l.plan_sha256, p->sha256, sizeof(l.plan_sha256));
	prompts_recipe_sha256(p, l.prompts_sha256);
	memcpy(l.version, PROOFMARK_VERSION, sizeof(PROOFMARK_VERSION));
	own_binary_sha256(l.binary_sha256);
	l.candidates = calloc(p->n_candidates + 1, sizeof(*l.candidates));
	int rc = l.candidates && plan_dir ? 0 : err_set(err, ERR_ENV, "no memory");
	if (!rc)
		rc = pin_model_files(&l.files, &l.n_files, p, plan_dir, !spec->no_cache, spec->stop, err);
	if (!rc)
		rc = check_stated_hashes(&l, p, err);
	for (size_t i = 0; !rc && i < p->n_candidates; i++)
		if (!spec->only || spec->only == &p->candidates[i])
			rc = lock_candidate_make(&l.candidates[l.n_candidates++], spec, &p->candidates[i],
			                         plan_dir, err);
	if (rc)
		lock_done(&l);
	else
		*out = l;
	return rc;
}

/* --- the run's own look -----------------------------------------------------------------------------------
 */

struct differ {
	struct trial *t;
	size_t n;
	char first[400];
};

static void say_difference(void *ctx, const char *what, const char *locked, const char *found)
{
	struct differ *d = ctx;
	if (!d->n++)
		snprintf(d->first, sizeof(d->first), "%s: locked %.16s…, found %.16s…", what,
		         locked ? locked : "nothing", found ? found : "nothing");
	struct json_out *o = rundir_event(d->t->dir, "difference");
	jo_str(o, "what", what);
	jo_str(o, "locked", locked);
	jo_str(o, "found", found);
	rundir_event_end(d->t->dir);
	ui_line(d->t, "not as locked: %s: locked %s, found %s", what, locked ? locked : "nothing",
	        found ? found : "nothing");
}

static int refuse(const struct differ *d, struct err *err)
{
	if (!d->n)
		return 0;
	return err_set(err, ERR_ENV, "not as locked (%zu difference%s): %s; restore it, or lock again", d->n,
	               d->n == 1 ? "" : "s", d->first);
}

int phase_pin(struct trial *t, struct err *err)
{
	const struct trial_spec *s = t->spec;
	struct differ d = { .t = t };
	struct lock_file *files = NULL;
	size_t n_files = 0;
	char recipe[65];
	const struct lock_candidate *locked = lock_candidate_find(s->lock, s->cand->name);
	if (strcmp(s->lock->plan_sha256, s->plan->sha256) != 0)
		say_difference(&d, "plan", s->lock->plan_sha256, s->plan->sha256);
	prompts_recipe_sha256(s->plan, recipe);
	if (strcmp(s->lock->prompts_sha256, recipe) != 0)
		say_difference(&d, "prompts", s->lock->prompts_sha256, recipe);
	if (!locked)
		say_difference(&d, "candidate", NULL, s->cand->name);
	int rc = pin_model_files(&files, &n_files, s->plan, t->plan_dir, !s->no_cache, s->drain, err);
	if (!rc)
		lock_compare_files(s->lock->files, s->lock->n_files, files, n_files,
		                   1u << LOCK_MODEL | 1u << LOCK_CORPUS, say_difference, &d);
	if (!rc)
		rc = pin_engine_program(&t->found, s->cand, t->plan_dir, !s->no_cache, err);
	if (!rc && locked)
		lock_compare_files(locked->files, locked->n_files, t->found.files, t->found.n_files,
		                   1u << LOCK_PROGRAM | 1u << LOCK_INTERPRETER, say_difference, &d);
	for (size_t i = 0; i < n_files; i++)
		free(files[i].path);
	free(files);
	return rc ? rc : refuse(&d, err);
}

static void compare_told(struct differ *d, const char *what, const char *locked, const char *found)
{
	if (locked && (!found || strcmp(locked, found) != 0))
		say_difference(d, what, locked, found);
}

/* Once it serves: what it says of itself and what its processes have mapped, against the lock. */
int pin_started_engine(struct trial *t, struct err *err)
{
	const struct trial_spec *s = t->spec;
	struct differ d = { .t = t };
	const struct lock_candidate *locked = lock_candidate_find(s->lock, s->cand->name);
	if (locked) {
		compare_told(&d, "engine version told", locked->engine_version_told, t->identity.version);
		compare_told(&d, "engine build told", locked->engine_build_told, t->identity.build);
	}
	if (engine_pid(t->engine) <= 0)
		return refuse(&d, err);
	if (pin_engine_running(&t->found, engine_pid(t->engine), s->plan, t->plan_dir, !s->no_cache, err))
		return -1;
	if (!locked || !locked->started) {
		say_not_tested(t, "engine files against the lock",
		               "the lock was made without starting the engine, so it does not name the files "
		               "it loads");
		return refuse(&d, err);
	}
	lock_compare_files(locked->files, locked->n_files, t->found.files, t->found.n_files,
	                   1u << LOCK_MAPPED | 1u << LOCK_ARGUMENT, say_difference, &d);
	return refuse(&d, err);
}
