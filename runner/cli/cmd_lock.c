/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/proc.h"
#include "cli/interrupt.h"
#include "cli/opt.h"
#include "cli/plan_file.h"
#include "trial/trial.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { O_CANDIDATE, O_OUTPUT, O_NO_CACHE, O_NO_START };

static const struct opt lock_opts[] = {
	[O_CANDIDATE] = { "candidate", 0, OPT_STR, "NAME", "lock this candidate only (default: all)", NULL },
	[O_OUTPUT] = { "output", 'o', OPT_STR, "FILE", "write here (default: PLAN with .lock.json)", NULL },
	[O_NO_CACHE] = { "no-cache", 0, OPT_FLAG, NULL, "hash every file anew", NULL },
	[O_NO_START] = { "no-start", 0, OPT_FLAG, NULL, "do not start the engine to learn what it loads",
	                 NULL },
	{ 0 },
};

static void to_stderr(void *ctx, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

/* The engine's output while it is started for the lock: kept only when something goes wrong. */
static int scratch_log(void)
{
	char path[] = "/tmp/proofmark-lock-log-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static int run_lock(const struct parsed *p, struct err *err)
{
	const char *path = p->args[0];
	auto_plan plan = NULL;
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX), out = BUF_INIT(LOCK_BYTES_MAX);
	struct lock lock = { 0 };
	const struct plan_candidate *only = NULL;
	if (plan_file_load(&plan, &text, path, err))
		return -1;
	if (p->v[O_CANDIDATE].given && candidate_choose(&only, plan, p->v[O_CANDIDATE].str, err))
		return -1;
	auto_fd log_fd = scratch_log();
	if (log_fd < 0)
		return err_set(err, ERR_ENV, "/tmp: cannot create a file for the engine's output");
	interrupt_catch();
	if (proc_init(err))
		return -1;
	struct lock_spec spec = {
		.plan = plan,
		.only = only,
		.plan_path = path,
		.start = !p->v[O_NO_START].given,
		.no_cache = p->v[O_NO_CACHE].given,
		.stop = &interrupt_drain,
		.log_fd = log_fd,
		.line = to_stderr,
	};
	if (lock_make(&lock, &spec, err))
		return -1;
	auto_free char *to =
		p->v[O_OUTPUT].given ? strdup(p->v[O_OUTPUT].str) : plan_sibling(path, ".lock.json");
	size_t n_files = lock.n_files;
	for (size_t i = 0; i < lock.n_candidates; i++)
		n_files += lock.candidates[i].n_files;
	int rc = lock_write(&out, &lock) ? err_set(err, ERR_ENV, "no memory")
	                                 : fs_write(to, out.p, out.len, err);
	lock_done(&lock);
	if (rc)
		return -1;
	printf("%s: %zu files of model and engine locked, plan %.16s\n", to, n_files, plan->sha256);
	return 0;
}

const struct command cmd_lock = {
	.name = "lock",
	.args = "PLAN",
	.min_args = 1,
	.max_args = 1,
	.says = "freeze plan, model and engine by their hashes",
	.examples = "  proofmark lock plans/pilot.json\n  proofmark lock --no-start plans/pilot.json -o "
		    "pilot.lock.json\n",
	.opts = lock_opts,
	.run = run_lock,
};
