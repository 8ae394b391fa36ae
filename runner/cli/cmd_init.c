/* SPDX-License-Identifier: Apache-2.0 */
/* A plan to start from. What we know stands in it; what only the user can know is left as "FILL IN", which
 * `proofmark check` then tells one by one. */
#include "base/fs.h"
#include "base/json_out.h"
#include "cli/init_facts.h"
#include "cli/opt.h"
#include "model/plan_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLAN_TEXT_BYTES (1u << 20)
#define FILL_IN PLAN_FILL_IN
#define CONTEXT_GUESS_TOK 4096
#define CRITICAL_REQUESTS 300 /* a p99 at confidence .95 needs 299 */

enum { O_MODEL, O_URL, O_OUTPUT };
static const struct opt init_opts[] = {
	[O_MODEL] = { "model", 0, OPT_STR, "FILE|DIR", "GGUF file, or folder with safetensors", NULL },
	[O_URL] = { "url", 0, OPT_STR, "URL", "a server that runs already", NULL },
	[O_OUTPUT] = { "output", 'o', OPT_STR, "FILE", "write here (default: standard output)", NULL },
	{ 0 },
};

static void note(struct json_out *o, const char *text)
{
	jo_str(o, "note", text);
}

static void write_about(struct json_out *o)
{
	jo_obj(o, "plan");
	note(o, "Who wants to know what, and until when the answer counts. 'challenge' may hold a text of "
	        "the buyer's, "
	        "so that an old result cannot be shown again.");
	jo_str(o, "id", "pilot");
	jo_str(o, "title", "Acceptance pilot");
	jo_str(o, "owner", FILL_IN);
	jo_end(o);
}

static void write_files(struct json_out *o, const struct init_facts *f)
{
	jo_arr(o, "files");
	for (size_t i = 0; i < f->files.n; i++) {
		jo_obj(o, NULL);
		jo_str(o, "path", f->files.list[i].path);
		jo_str(o, "sha256", f->files.list[i].sha256);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void write_model(struct json_out *o, const struct init_facts *f)
{
	jo_obj(o, "model");
	note(o, "The exact weights. 'revision' is a commit of 40 hex digits, sha256:…, or \"file-hashes\" "
	        "when every "
	        "file has its SHA-256. 'context_tok' is what one request may use, not what the model could.");
	jo_str(o, "id", f->id ? f->id : FILL_IN);
	jo_str(o, "revision", f->files.n ? "file-hashes" : FILL_IN);
	if (f->files.n)
		write_files(o, f);
	jo_str(o, "format", f->format ? f->format : "other");
	if (f->quantization)
		jo_str(o, "quantization", f->quantization);
	if (f->dtype)
		jo_str(o, "dtype", f->dtype);
	jo_u64(o, "context_tok", f->context_tok ? f->context_tok : CONTEXT_GUESS_TOK);
	jo_end(o);
}

static bool is_folder(const struct init_facts *f)
{
	return f->format && strcmp(f->format, "safetensors") == 0;
}

static void write_launch(struct json_out *o, const struct init_facts *f)
{
	jo_obj(o, "launch");
	jo_obj(o, f->url ? "attach" : "process");
	if (f->url)
		jo_str(o, "url", f->url);
	else
		jo_str(o, "program", is_folder(f) ? "vllm" : "llama-server");
	jo_end(o);
	jo_end(o);
}

/* {model} is a file; vLLM wants the folder. */
static void write_args(struct json_out *o, const struct init_facts *f)
{
	static const char *const llama[] = { "-m", "{model}", "--metrics", NULL };
	static const char *const common[] = { "--host", "{host}", "--port", "{port}", NULL };
	auto_free char *folder = is_folder(f) && f->files.n ? fs_dirname(f->files.list[0].path) : NULL;

	jo_arr(o, "args");
	if (is_folder(f)) {
		jo_str(o, NULL, "serve");
		jo_str(o, NULL, folder ? folder : FILL_IN);
	}
	for (const char *const *a = llama; *a && !is_folder(f); a++)
		jo_str(o, NULL, *a);
	for (const char *const *a = common; *a; a++)
		jo_str(o, NULL, *a);
	jo_str(o, NULL, is_folder(f) ? "--served-model-name" : "--alias");
	jo_str(o, NULL, "{alias}");
	jo_end_arr(o);
}

static void write_candidate(struct json_out *o, const struct init_facts *f)
{
	jo_arr(o, "candidates");
	jo_obj(o, NULL);
	note(o,
	     f->url ? "One server to be tried; list every candidate of the comparison here and run one at "
	              "a time. On cuda and rocm 'arch' is wanted (sm_90, gfx942). A key goes beside 'url': "
	              "\"api_key\": {\"env\": \"NAME\"}. An engine of kind 'attach' is not asked for answers "
	              "of exact length; with kind 'llamacpp' a llama.cpp server is."
	            : "One machine and engine to be tried; list every candidate of the comparison here and "
	              "run one at a time. On cuda and rocm 'arch' is wanted (sm_90, gfx942). {port}, "
	              "{host}, {model} and {alias} in 'args' are replaced; secrets come by name through "
	              "'env' with from_env or from_file.");
	jo_str(o, "name", "candidate");
	jo_str(o, "backend", is_folder(f) && !f->url ? "cuda" : "cpu");
	jo_obj(o, "engine");
	jo_str(o, "kind", f->url ? "attach" : is_folder(f) ? "vllm" : "llamacpp");
	if (f->engine_version)
		jo_str(o, "version", f->engine_version);
	if (f->engine_commit)
		jo_str(o, "commit", f->engine_commit);
	write_launch(o, f);
	if (!f->url)
		write_args(o, f);
	jo_end(o);
	jo_end(o);
	jo_end_arr(o);
}

struct lengths {
	size_t n;
	uint64_t prompt_tok[3], output_tok, normal;
};

/* Short, normal and long, inside the context and with room for a chat template. */
static struct lengths choose_lengths(uint64_t context)
{
	struct lengths l = { .output_tok = context / 8 < 128 ? context / 8 : 128 };
	if (l.output_tok == 0)
		l.output_tok = 1;
	uint64_t room = context > l.output_tok + context / 16 ? context - l.output_tok - context / 16 : 1;
	uint64_t want[3] = { 64, context / 4 < 1024 ? context / 4 : 1024, 8192 };

	for (size_t i = 0; i < 3; i++) {
		uint64_t v = want[i] < room ? want[i] : room;
		if (v > (l.n ? l.prompt_tok[l.n - 1] : 0))
			l.prompt_tok[l.n++] = v;
	}
	l.normal = l.prompt_tok[l.n > 1 ? 1 : 0];
	return l;
}

static void write_workload(struct json_out *o, const struct init_facts *f, const struct lengths *l)
{
	jo_arr(o, "workloads");
	jo_obj(o, NULL);
	note(o, "The load: shortest, normal and longest context, and how many requests at a time. One cell "
	        "is critical: "
	        "it has the requests that the statistics need. The others are shown.");
	jo_str(o, "name", "chat");
	jo_str(o, "class", is_folder(f) ? "serving" : "compact");
	jo_str(o, "api", "chat");
	jo_arr(o, "prompt_tok");
	for (size_t i = 0; i < l->n; i++)
		jo_u64(o, NULL, l->prompt_tok[i]);
	jo_end_arr(o);
	jo_u64(o, "output_tok", l->output_tok);
	jo_arr(o, "concurrency");
	jo_u64(o, NULL, 1);
	if (f->slots > 1 || !f->slots)
		jo_u64(o, NULL, f->slots && f->slots < 4 ? f->slots : 4);
	jo_end_arr(o);
	jo_u64(o, "requests", CRITICAL_REQUESTS);
	jo_u64(o, "other_requests", 30);
	jo_bool(o, "critical", true);
	jo_u64(o, "critical_prompt_tok", l->normal);
	jo_u64(o, "critical_concurrency", 1);
	jo_end(o);
	jo_end_arr(o);
}

static void write_control(struct json_out *o, const char *id, const char *prompt, const char *must_match)
{
	jo_obj(o, NULL);
	jo_str(o, "id", id);
	jo_str(o, "prompt", prompt);
	jo_u64(o, "max_tok", 32);
	jo_arr(o, "must_match");
	jo_str(o, NULL, must_match);
	jo_end_arr(o);
	jo_bool(o, "same_as_reference", true);
	jo_end(o);
}

static void write_controls(struct json_out *o)
{
	jo_arr(o, "controls");
	write_control(o, "capital", "What is the capital of France? Answer with the name of the city.",
	              "(?i)paris");
	write_control(o, "sum", "What is 17 + 25? Answer with the number only.", "\\b42\\b");
	jo_end_arr(o);
	jo_u64(o, "control_repeats", 2);
}

static void write_recovery(struct json_out *o, const struct init_facts *f)
{
	if (f->url)
		return; /* not ours to stop */
	jo_obj(o, "recovery");
	note(o,
	     "What the on-call has to be able to do at night. 'rollback' wants a 'previous' release on each "
	     "candidate.");
	jo_obj(o, "restart");
	jo_end(o);
	jo_obj(o, "second_cold_start");
	jo_end(o);
	jo_end(o);
}

struct starter {
	const char *id, *sentence, *metric, *statistic, *comparator;
	double limit;
	const char *unit, *note;
	bool needs_start;
};

static const struct starter starters[] = {
	{ "ttft-p99", "99 of 100 requests show their first token within 5 seconds", "ttft", "p99", "<=", 5,
	  "s", "Each limit is a guess until you set it: what does the service need?", false },
	{ "failed-share", "At most 2 of 100 requests fail", "failed_share", "share", "<=", 2, "%", NULL,
	  false },
	{ "controls", "No answer to a control prompt is wrong or damaged", "controls_failed", "count",
	  "<=", 0, "count", NULL, false },
	{ "host-memory", "The machine never uses more than 64 GiB of memory", "host_used_peak", "max",
	  "<=", 64, "GiB", NULL, false },
	{ "second-cold-start", "After a full stop the engine answers again within 10 minutes",
	  "second_cold_start", "value", "<=", 10, "min", NULL, true },
};

static void write_criteria(struct json_out *o, const struct init_facts *f)
{
	jo_arr(o, "criteria");
	for (size_t i = 0; i < ARRAY_LEN(starters); i++) {
		const struct starter *s = &starters[i];
		if (s->needs_start && f->url)
			continue;
		jo_obj(o, NULL);
		if (s->note)
			note(o, s->note);
		else if (f->url && strcmp(s->metric, "host_used_peak") == 0)
			note(o, "Of the machine that proofmark runs on: leave this out when the server is on "
			        "another.");
		jo_str(o, "id", s->id);
		jo_str(o, "sentence", s->sentence);
		jo_str(o, "metric", s->metric);
		jo_str(o, "statistic", s->statistic);
		jo_str(o, "comparator", s->comparator);
		jo_obj(o, "limit");
		jo_num(o, "value", s->limit);
		jo_str(o, "unit", s->unit);
		jo_end(o);
		jo_num(o, "confidence", 0.95);
		jo_end(o);
	}
	jo_end_arr(o);
}

static void write_plan(struct buf *b, const struct init_facts *f)
{
	struct lengths l = choose_lengths(f->context_tok ? f->context_tok : CONTEXT_GUESS_TOK);
	struct json_out o;

	jo_init(&o, b, 2);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", PLAN_SCHEMA_VERSION);
	note(&o, "A plan to start from. Fill in what it asks for, set the limits, then: proofmark check, "
	         "lock, run. "
	         "proofmark-plan(5) explains every member; every object takes a 'note'.");
	write_about(&o);
	write_model(&o, f);
	write_candidate(&o, f);
	write_workload(&o, f, &l);
	write_controls(&o);
	write_recovery(&o, f);
	write_criteria(&o, f);
	jo_end(&o);
	buf_addc(b, '\n');
}

static int learn(struct init_facts *f, const struct parsed *p, struct err *err)
{
	if (p->v[O_URL].given && init_from_url(f, p->v[O_URL].str, err))
		return -1;
	if (p->v[O_MODEL].given && init_from_model(f, p->v[O_MODEL].str, err))
		return -1;
	return 0;
}

static int put_out(const struct parsed *p, const struct buf *b, struct err *err)
{
	const char *to = p->v[O_OUTPUT].given ? p->v[O_OUTPUT].str : "-";

	if (strcmp(to, "-") == 0) {
		fwrite(b->p, 1, b->len, stdout);
		return 0;
	}
	if (access(to, F_OK) == 0)
		return err_set(err, ERR_USAGE, "%s exists already: remove it or choose another name with -o",
		               to);
	if (fs_write(to, b->p, b->len, err))
		return -1;
	printf("%s\n", to);
	fprintf(stderr, "next: proofmark check %s\n", to);
	return 0;
}

static int run_init(const struct parsed *p, struct err *err)
{
	__attribute__((cleanup(init_facts_done))) struct init_facts facts = { 0 };
	auto_buf b = BUF_INIT(PLAN_TEXT_BYTES);

	if (learn(&facts, p, err))
		return -1;
	write_plan(&b, &facts);
	if (b.failed)
		return err_set(err, ERR_ENV, "the plan would be too long, or there is no memory for it");
	return put_out(p, &b, err);
}

const struct command cmd_init = {
	.name = "init",
	.says = "write a plan to start from",
	.examples = "proofmark init --model model.gguf -o plan.json\n"
		    "proofmark init --url http://127.0.0.1:8080 -o plan.json\n",
	.opts = init_opts,
	.run = run_init,
};
