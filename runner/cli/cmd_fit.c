/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_fit.h"

#include "base/fs.h"
#include "base/json_out.h"
#include "cli/opt.h"
#include "cli/plan_file.h"
#include "model/gpu_table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX (16u << 20)

enum { O_CANDIDATE, O_GPU, O_GPUS, O_JSON, O_MEMORY };
static const struct opt fit_opts[] = {
	[O_CANDIDATE] = { "candidate", 0, OPT_STR, "NAME", "this candidate only (default: all)", NULL },
	[O_GPU] = { "gpu", 0, OPT_STR, "CARD", "memory of each GPU: a name (H100) or bytes (80GiB)", NULL },
	[O_GPUS] = { "gpus", 0, OPT_U64, "N", "GPUs in the machine (default: as planned)", NULL },
	[O_JSON] = { "json", 0, OPT_FLAG, NULL, "print the result as one JSON object", NULL },
	[O_MEMORY] = { "memory", 0, OPT_STR, "BYTES", "memory for CPU candidates (default: this machine's)",
	               NULL },
	{ 0 },
};

static int read_gpu(struct fit_asked *out, const char *text, struct err *err)
{
	const struct gpu_card *card = gpu_card_find(text);
	auto_buf names = BUF_INIT(1024);

	if (card) {
		out->gpu_bytes = card->memory_bytes;
		snprintf(out->gpu_source, sizeof(out->gpu_source), "--gpu: %.90s, %s; usable is less",
		         card->source, card->date);
		return 0;
	}
	if (fit_bytes_read(&out->gpu_bytes, text)) {
		snprintf(out->gpu_source, sizeof(out->gpu_source), "--gpu");
		return 0;
	}
	for (const struct gpu_card *c = gpu_cards; c->name; c++)
		buf_addf(&names, "%s%s", c == gpu_cards ? "" : ", ", c->name);
	return err_set(err, ERR_USAGE, "--gpu %.40s: want bytes (80GiB) or one of %s", text,
	               names.p ? names.p : "none");
}

static int read_asked(struct fit_asked *out, const struct parsed *p, struct err *err)
{
	struct fit_asked a = { .gpu_bytes = FIT_UNKNOWN, .memory_bytes = FIT_UNKNOWN };

	if (p->v[O_GPU].given && read_gpu(&a, p->v[O_GPU].str, err))
		return -1;
	if (p->v[O_MEMORY].given && !fit_bytes_read(&a.memory_bytes, p->v[O_MEMORY].str))
		return err_set(err, ERR_USAGE, "--memory %.40s: want bytes, such as 32GiB",
		               p->v[O_MEMORY].str);
	if (p->v[O_GPUS].given) {
		a.gpus = p->v[O_GPUS].u64;
		if (a.gpus < 1 || a.gpus > 65536)
			return err_set(err, ERR_USAGE, "--gpus: want 1 to 65536");
	}
	*out = a;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* The first file of weights; of safetensors its folder, where the config is. */
static int find_model(char **out, const struct plan *p, const char *plan_path, struct err *err)
{
	auto_free char *folder = fs_dirname(plan_path);
	auto_free char *weights = NULL;
	bool is_gguf = false;

	for (size_t i = 0; i < p->model.n_files; i++) {
		const char *name = p->model.files[i].path;
		auto_free char *path = folder ? fs_join(folder, name) : NULL;
		bool gguf = ends_with(name, ".gguf");
		if (!path)
			return err_set(err, ERR_ENV, "out of memory");
		if (!gguf && !ends_with(name, ".safetensors"))
			continue;
		if (access(path, R_OK))
			return err_sys(err, ERR_ENV, errno,
			               "fit reads the tensors of the model's files: %.300s is not here",
			               path);
		if (!weights) {
			weights = steal_ptr(&path);
			is_gguf = gguf;
		}
	}
	if (!weights)
		return err_set(err, ERR_ENV, "the plan names no .gguf and no .safetensors file to read");
	*out = is_gguf ? steal_ptr(&weights) : fs_dirname(weights);
	return *out ? 0 : err_set(err, ERR_ENV, "out of memory");
}

static int exit_code(const struct fit_case *cases, size_t n)
{
	int code = 0;

	for (size_t i = 0; i < n; i++) {
		if (cases[i].answer == FIT_NO)
			return 1;
		if (cases[i].answer != FIT_FITS)
			code = 3;
	}
	return code;
}

static int print_json(const struct fit_case *cases, size_t n, const struct plan *p,
                      const struct model_facts *facts, struct err *err)
{
	auto_buf b = BUF_INIT(ANSWER_BYTES_MAX);
	struct json_out o;

	jo_init(&o, &b, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "plan", p->id);
	jo_str(&o, "plan_sha256", p->sha256);
	jo_str(&o, "model", p->model.id);
	if (facts->context_tok == MODEL_NONE)
		jo_null(&o, "model_context_tok");
	else
		jo_u64(&o, "model_context_tok", facts->context_tok);
	jo_arr(&o, "candidates");
	for (size_t i = 0; i < n; i++)
		fit_write(&o, &cases[i]);
	jo_end_arr(&o);
	jo_end(&o);
	if (b.failed)
		return err_set(err, ERR_ENV, "out of memory");
	printf("%s\n", b.p);
	return 0;
}

static int fit_all(const struct plan *p, const struct plan_candidate *only, const struct model_facts *facts,
                   const struct fit_asked *asked, bool json, struct err *err)
{
	auto_free struct fit_case *cases = calloc(p->n_candidates, sizeof(*cases));
	size_t n = 0;
	int code = cases ? 0 : -1;

	for (size_t i = 0; i < p->n_candidates && code == 0; i++) {
		if (only && only != &p->candidates[i])
			continue;
		n++;
		if (!fit_case_read(&cases[n - 1], p, &p->candidates[i], facts, asked) ||
		    !fit_case_judge(&cases[n - 1], p))
			code = -1;
	}
	if (code)
		err_set(err, ERR_ENV, "out of memory");
	else if (json)
		code = print_json(cases, n, p, facts, err);
	else
		for (size_t i = 0; i < n; i++)
			fit_print(&cases[i]);
	if (code == 0)
		code = exit_code(cases, n);
	for (size_t i = 0; i < n; i++)
		fit_case_done(&cases[i]);
	return code;
}

static int run_fit(const struct parsed *p, struct err *err)
{
	auto_plan plan = NULL;
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	auto_free char *path = NULL;
	const struct plan_candidate *only = NULL;
	struct fit_asked asked;
	struct model_facts facts;

	if (read_asked(&asked, p, err) || plan_file_load(&plan, &text, p->args[0], err))
		return -1;
	if (p->v[O_CANDIDATE].given && candidate_choose(&only, plan, p->v[O_CANDIDATE].str, err))
		return -1;
	if (find_model(&path, plan, p->args[0], err))
		return -1;
	if (model_inspect(&facts, path, err)) {
		err->cls = ERR_ENV;
		return err_wrap(err, "the model's files");
	}
	int code = fit_all(plan, only, &facts, &asked, p->v[O_JSON].given, err);
	model_facts_done(&facts);
	return code;
}

const struct command cmd_fit = {
	.name = "fit",
	.args = "PLAN",
	.min_args = 1,
	.max_args = 1,
	.says = "tell whether model and loads fit into the memory",
	.examples = "proofmark fit plans/interactive.json\nproofmark fit --gpu H100 --gpus 2 plan.json\n",
	.opts = fit_opts,
	.run = run_fit,
};
