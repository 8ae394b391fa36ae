/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "cli/interrupt.h"
#include "cli/opt.h"
#include "cli/plan_file.h"
#include "cli/progress.h"
#include "cli/reports.h"
#include "trial/trial.h"

#include <stdio.h>
#include <string.h>

enum { O_CANDIDATE, O_LOCK, O_OUTPUT, O_KEY, O_PASSPHRASE, O_NO_CACHE, O_PROGRESS, O_JSON };

static const struct opt run_opts[] = {
	[O_CANDIDATE] = { "candidate", 0, OPT_STR, "NAME",
	                  "the candidate to try (needed when there are several)", NULL },
	[O_LOCK] = { "lock", 0, OPT_STR, "FILE", "lock to run by (default: PLAN with .lock.json)", NULL },
	[O_OUTPUT] = { "output", 'o', OPT_STR, "DIR", "run directory to create (default: runs/ID-TIME)",
	               NULL },
	[O_KEY] = { "key", 0, OPT_STR, "FILE", "private key: seal the run as DIR.proofmark", NULL },
	[O_PASSPHRASE] = { "passphrase-file", 0, OPT_STR, "FILE", "file with the key's passphrase", NULL },
	[O_NO_CACHE] = { "no-cache", 0, OPT_FLAG, NULL, "hash every file anew", NULL },
	[O_PROGRESS] = { "progress", 0, OPT_CHOICE, "HOW", "auto, plain, json or none", progress_words },
	[O_JSON] = { "json", 0, OPT_FLAG, NULL, "print the result as JSON", NULL },
	{ 0 },
};

static void ui_phase(void *ctx, const char *phase)
{
	progress_phase(phase);
}

static void ui_load(void *ctx, const char *cell, const struct load_progress *p)
{
	progress_load(cell, p);
}

static void ui_text(void *ctx, const char *text)
{
	progress_line("%s", text);
}

static char *default_dir(const struct plan *plan)
{
	char now[RFC3339_BYTES];
	clock_rfc3339(clock_wall_ns(), now);
	for (char *c = now; *c; c++)
		if (*c == ':')
			*c = '-';
	now[19] = '\0';
	return str_fmt("runs/%s-%s", plan->id, now);
}

/* Reasons that only repeat a criterion's own line are left out. */
static void print_because(const struct verdict *v)
{
	for (size_t i = 0; i < v->n_reasons; i++) {
		bool told = false;
		for (size_t k = 0; k < v->n_criteria && !told; k++) {
			const char *id = v->criteria[k].crit->id;
			size_t len = strlen(id);
			told = strncmp(v->reasons[i], id, len) == 0 && v->reasons[i][len] == ':';
		}
		if (!told)
			printf("because      %s\n", v->reasons[i]);
	}
}

static void print_verdict(const struct verdict *v, const char *run_dir, const char *bundle)
{
	for (size_t i = 0; i < v->n_criteria; i++) {
		bool again = i && strcmp(v->criteria[i].reason, v->criteria[i - 1].reason) == 0;
		printf("%-12s %s: %s\n", state_words[v->criteria[i].state], v->criteria[i].crit->id,
		       again ? "the same" : v->criteria[i].reason);
	}
	print_because(v);
	printf("report       %s/report.html\n", run_dir);
	if (bundle)
		printf("bundle       %s\n", bundle);
	printf("verdict      %s\n", verdict_words[v->run]);
}

/* A run exists on disk: judge it, write its reports, seal it. Failures here leave the run directory as it is.
 */
static int finish(const struct parsed *p, const char *run_dir, const struct sign_key *key, struct err *err)
{
	struct judged j;
	char root[65];
	if (judged_load(&j, run_dir, err))
		return -1;
	auto_free char *bundle = key ? str_fmt("%s.proofmark", run_dir) : NULL;
	int rc = reports_write(&j, run_dir, err);
	if (!rc && key)
		rc = seal_run(&j, run_dir, bundle, key, root, err);
	int code = verdict_exit_code(j.verdict.run);
	if (!rc && p->v[O_JSON].given)
		print_result_json(&j.verdict, run_dir, bundle);
	else if (!rc)
		print_verdict(&j.verdict, run_dir, bundle);
	judged_done(&j);
	return rc ? -1 : code;
}

static int load_key(struct sign_key **key, const struct parsed *p, struct err *err)
{
	auto_free char *passphrase = NULL;
	if (!p->v[O_KEY].given)
		return 0;
	if (passphrase_read(&passphrase, p->v[O_PASSPHRASE].str, err))
		return -1;
	return key_load_private(key, p->v[O_KEY].str, passphrase, err);
}

static int make_parent(const char *run_dir, struct err *err)
{
	auto_free char *parent = fs_dirname(run_dir);
	return parent ? fs_mkdir_p(parent, err) : err_set(err, ERR_ENV, "no memory");
}

static int run_with(const struct parsed *p, const struct plan *plan, const struct buf *plan_text,
                    struct sign_key *key, struct err *err)
{
	const char *path = p->args[0];
	struct lock lock = { 0 };
	struct trial_facts facts;
	auto_buf lock_text = BUF_INIT(LOCK_BYTES_MAX);
	auto_free char *lock_path =
		p->v[O_LOCK].given ? strdup(p->v[O_LOCK].str) : plan_sibling(path, ".lock.json");
	auto_free char *run_dir = p->v[O_OUTPUT].given ? strdup(p->v[O_OUTPUT].str) : default_dir(plan);
	struct trial_spec spec = {
		.plan = plan,
		.plan_path = path,
		.plan_text = plan_text->p,
		.plan_len = plan_text->len,
		.run_dir = run_dir,
		.no_cache = p->v[O_NO_CACHE].given,
		.drain = &interrupt_drain,
		.abort = &interrupt_abort,
		.ui = { ui_phase, ui_load, ui_text, NULL },
	};
	if (candidate_choose(&spec.cand, plan, p->v[O_CANDIDATE].str, err) ||
	    lock_file_load(&lock, &lock_text, lock_path, err))
		return -1;
	auto_free char *attempts = plan_sibling(lock_path, ".attempts.jsonl");
	spec.lock = &lock;
	spec.lock_text = lock_text.p;
	spec.lock_len = lock_text.len;
	spec.attempts_path = attempts;
	interrupt_catch();
	int rc = proc_init(err) || make_parent(run_dir, err) ? -1 : 0;
	if (!rc) {
		progress_open(progress_mode_of(p->v[O_PROGRESS].str));
		rc = trial_run(&facts, &spec, err);
		progress_close();
	}
	lock_done(&lock);
	return rc ? -1 : finish(p, run_dir, key, err);
}

static int run_run(const struct parsed *p, struct err *err)
{
	auto_plan plan = NULL;
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	struct sign_key *key = NULL;
	if (load_key(&key, p, err))
		return -1;
	int rc = plan_file_load(&plan, &text, p->args[0], err);
	if (!rc)
		rc = run_with(p, plan, &text, key, err);
	key_free(key);
	return rc;
}

const struct command cmd_run = {
	.name = "run",
	.args = "PLAN",
	.min_args = 1,
	.max_args = 1,
	.says = "run a locked plan on one candidate, judge it, seal it",
	.examples = "  proofmark run plans/pilot.json --candidate cuda --key site.key\n"
		    "  proofmark run plans/pilot.json -o runs/first --progress=plain --json\n",
	.opts = run_opts,
	.run = run_run,
};
