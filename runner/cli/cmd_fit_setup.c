/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate's arguments, its machine and the model's files -> the numbers that decide whether it fits. */
#include "cli/cmd_fit.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json_in.h"
#include "model/gpu_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#define MIB(n) ((uint64_t)(n) << 20)

/* Assumed, and said so wherever they are shown: nothing here is measured on the candidate, and only the CPU
 * range of llama.cpp has met a measurement (one small model, idle). Work buffers grow with the batch and the
 * vocabulary, graphs with the number of captured sizes. */
static const struct overhead {
	enum engine_kind kind;
	bool is_cpu;
	uint64_t least_bytes, most_bytes;
	const char *source;
} overheads[] = {
	{ ENGINE_LLAMACPP, true, MIB(32), MIB(1024), "assumed: program and work buffers of a batch" },
	{ ENGINE_LLAMACPP, false, MIB(400), MIB(1792),
	  "assumed: device context and work buffers of a batch" },
	{ ENGINE_OLLAMA, true, MIB(128), MIB(1024), "assumed: program and work buffers of a batch" },
	{ ENGINE_OLLAMA, false, MIB(400), MIB(2048), "assumed: device context and work buffers of a batch" },
	{ ENGINE_VLLM, false, MIB(1536), MIB(6144),
	  "assumed: device context, activations of a batch, graphs" },
	{ ENGINE_SGLANG, false, MIB(1536), MIB(6144),
	  "assumed: device context, activations of a batch, graphs" },
	{ ENGINE_TGI, false, MIB(1536), MIB(6144),
	  "assumed: device context, activations of a batch, graphs" },
	{ ENGINE_TRTLLM, false, MIB(1536), MIB(8192),
	  "assumed: device context, activations of a batch, graphs" },
	{ ENGINE_ATTACH, false, MIB(400), MIB(8192),
	  "assumed: no engine is named, the range of all of them" },
};
static const struct overhead other_cpu = { ENGINE_ATTACH, true, MIB(64), MIB(8192),
	                                   "assumed: the range of all engines on a CPU" };

static void put(char out[FIT_LINE], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(char out[FIT_LINE], const char *fmt, ...)
{
	va_list ap;

	if (out[0]) /* the first reason is told */
		return;
	va_start(ap, fmt);
	vsnprintf(out, FIT_LINE, fmt, ap);
	va_end(ap);
}

#define NOTE(k, ...)                                                                                         \
	do {                                                                                                 \
		if ((k)->n_notes < FIT_NOTES_MAX)                                                            \
			put((k)->notes[(k)->n_notes++], __VA_ARGS__);                                        \
	} while (0)

/* --- arguments ----------------------------------------------------------------------------------------- */

/* `names`: "-c --ctx-size". The last one given counts, as with all these engines. "" = a flag without value
 * at the end; NULL = not given. */
static const char *arg(const struct plan_candidate *c, const char *names)
{
	const char *found = NULL;

	for (size_t i = 0; i < c->n_args; i++) {
		const char *a = c->args[i];
		for (const char *n = names; *n;) {
			size_t len = strcspn(n, " ");
			if (strncmp(a, n, len) == 0 && a[len] == '\0')
				found = i + 1 < c->n_args ? c->args[i + 1] : "";
			else if (strncmp(a, n, len) == 0 && a[len] == '=' && len > 2)
				found = a + len + 1;
			n += len + (n[len] == ' ');
		}
	}
	return found;
}

/* False when not given, or not a whole number (then the answer is unknown). */
static bool arg_number(struct fit_case *k, const char *names, uint64_t *out)
{
	const char *text = arg(k->c, names);
	char *end = NULL;

	if (!text)
		return false;
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > 12 || text[digits]) {
		put(k->unknown, "%.*s %.40s is not read as a number", (int)strcspn(names, " "), names, text);
		return false;
	}
	*out = strtoull(text, &end, 10);
	return true;
}

static void arg_share(struct fit_case *k, const char *names, double assumed)
{
	const char *text = arg(k->c, names);
	char *end = NULL;
	double share = text ? strtod(text, &end) : assumed;

	if (text && (end == text || *end || !(share > 0 && share <= 1))) {
		put(k->unknown, "%.60s %.40s is not a share of the memory", names, text);
		share = assumed;
	}
	k->setup.usable_share = share;
	if (text)
		put(k->usable_source, "%.*s", (int)strcspn(names, " "), names);
	else
		put(k->usable_source, "assumed: the engine's default");
}

/* --- machine ------------------------------------------------------------------------------------------- */

static uint64_t memory_available(void)
{
	auto_buf b = BUF_INIT(1 << 16);
	struct err err = { 0 };
	uint64_t kib = 0;

	if (fs_read(&b, "/proc/meminfo", 1 << 16, &err))
		return FIT_UNKNOWN;
	const char *at = strstr(b.p, "MemAvailable:");
	return at && sscanf(at + 13, "%" SCNu64, &kib) == 1 && kib > 0 && kib < UINT64_MAX / 1024
	               ? kib * 1024
	               : FIT_UNKNOWN;
}

static void read_memory(struct fit_case *k, const struct cJSON *expect, const struct fit_asked *asked)
{
	double gib = 0;
	const char *gpu = json_str(expect, "gpu");

	k->memory_bytes = FIT_UNKNOWN;
	if (k->is_cpu) {
		k->memory_bytes =
			asked->memory_bytes != FIT_UNKNOWN ? asked->memory_bytes : memory_available();
		put(k->memory_source, "%s",
		    asked->memory_bytes != FIT_UNKNOWN ? "--memory" : "MemAvailable of this machine");
	} else if (asked->gpu_bytes != FIT_UNKNOWN) {
		k->memory_bytes = asked->gpu_bytes;
		put(k->memory_source, "%s", asked->gpu_source);
	} else if (json_num(expect, "gpu_memory_gib", &gib) && gib > 0 && gib < 1e6) {
		k->memory_bytes = (uint64_t)(gib * 1073741824.0);
		put(k->memory_source, "expect.gpu_memory_gib of the plan");
	} else if (gpu && gpu_card_find(gpu)) {
		const struct gpu_card *card = gpu_card_find(gpu);
		k->memory_bytes = card->memory_bytes;
		put(k->memory_source, "expect.gpu of the plan; %s, %s", card->source, card->date);
	}
}

static uint64_t ranks(const struct cJSON *parallel, const char *key, uint64_t otherwise)
{
	uint64_t n = 0;

	return json_u64(parallel, key, &n) && n >= 1 && n <= 65536 ? n : otherwise;
}

/* An argument is what the engine does; the plan's words come second. */
static uint32_t ranks_of(struct fit_case *k, const char *names, uint64_t planned)
{
	uint64_t n = planned;

	if (arg_number(k, names, &n) && (n < 1 || n > 65536)) {
		put(k->unknown, "%.60s %" PRIu64 ": want 1 to 65536", names, n);
		n = 1;
	}
	return (uint32_t)n;
}

static void read_ranks(struct fit_case *k, const struct cJSON *engine, const struct cJSON *expect,
                       const struct fit_asked *asked)
{
	const struct cJSON *parallel = json_get(engine, "parallel");
	struct fit_setup *s = &k->setup;
	uint64_t expert = ranks(parallel, "expert", 1), gpus = 0;

	s->tensor = ranks_of(k, "--tensor-parallel-size -tp --tp-size --tp --num-shard --tp_size",
	                     ranks(parallel, "tensor", 1));
	s->pipeline = ranks_of(k, "--pipeline-parallel-size -pp --pp-size --pp_size",
	                       ranks(parallel, "pipeline", 1));
	s->data = ranks_of(k, "--data-parallel-size -dp --dp-size", ranks(parallel, "data", 1));
	uint64_t all = (uint64_t)s->tensor * s->pipeline;
	bool too_many = __builtin_mul_overflow(all, s->data, &all);
	bool told = asked->gpus != 0 || json_u64(expect, "gpu_count", &gpus);
	gpus = asked->gpus ? asked->gpus : gpus;
	k->gpus = k->is_cpu ? 1 : told ? gpus : all;
	if (s->pipeline > 4096)
		put(k->unknown, "more than 4096 pipeline stages");
	if (k->is_cpu && all > 1)
		put(k->unknown, "several ranks on CPUs: how they share the memory is not modelled");
	if (!k->is_cpu && (too_many || all > k->gpus))
		put(k->refused, "%" PRIu64 " ranks (tensor %u, pipeline %u, data %u) on %" PRIu64 " GPUs",
		    all, s->tensor, s->pipeline, s->data, k->gpus);
	if (expert > 1 && expert != s->tensor)
		put(k->unknown, "expert parallelism over %" PRIu64 " ranks is not modelled", expert);
}

/* --- engines ------------------------------------------------------------------------------------------- */

static void kv_type(struct fit_case *k, const char *name, char out[32], struct kv_width *width)
{
	snprintf(out, 32, "%.31s", name);
	if (kv_width_find(width, name))
		return;
	*width = (struct kv_width){ 1, 2 };
	put(k->unknown, "the size of a value of type \"%.31s\" in the KV cache is not known", name);
}

static void llamacpp_devices(struct fit_case *k)
{
	struct fit_setup *s = &k->setup;
	const char *split = arg(k->c, "-sm --split-mode"),
		   *layers = arg(k->c, "-ngl --gpu-layers --n-gpu-layers");
	uint64_t n = 0;

	if (k->is_cpu)
		return;
	s->embedding_on_host = true;
	s->kv_on_host = arg(k->c, "-nkvo --no-kv-offload") != NULL;
	if (split && strcmp(split, "none") != 0 && strcmp(split, "layer") != 0)
		put(k->unknown, "-sm %.20s: how rows are divided is not modelled", split);
	else if (k->gpus > 1 && k->gpus <= 4096 && !(split && strcmp(split, "none") == 0)) {
		s->pipeline = (uint32_t)k->gpus;
		NOTE(k, "layers go to %" PRIu64 " GPUs as evenly as it goes", k->gpus);
	}
	if (k->gpus > 4096)
		put(k->unknown, "more than 4096 GPUs");
	if (k->gpus > 1 && arg(k->c, "-ts --tensor-split"))
		put(k->unknown, "-ts: an uneven split is not modelled");
	if (!layers || strcmp(layers, "all") == 0 || strcmp(layers, "auto") == 0 ||
	    strcmp(layers, "-1") == 0) {
		NOTE(k, "%s: all layers are taken to be on the GPU", layers ? "-ngl" : "no -ngl, assumed");
	} else if (arg_number(k, "-ngl --gpu-layers --n-gpu-layers", &n)) {
		s->device_layers = n;
		if (n <= k->weights.n_layers)
			NOTE(k,
			     "-ngl %" PRIu64 " of %zu layers: the rest needs the host's memory, which is not "
			     "judged here",
			     n, k->weights.n_layers);
	}
	if (arg(k->c, "-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe"))
		put(k->unknown, "tensors are moved by name (-ot, --cpu-moe): not modelled");
}

/* llama.cpp gives each sequence a window that a whole work batch still fits behind, in steps of 256. */
static void llamacpp_windows(struct fit_case *k)
{
	uint64_t batch = 512;

	arg_number(k, "-ub --ubatch-size", &batch);
	k->setup.all_full = arg(k->c, "--swa-full") != NULL;
	for (size_t i = 0; i < k->kv.n_layers; i++)
		if (k->kv.layers[i].kind == KV_LAYER_WINDOW) {
			uint64_t tokens = k->kv.layers[i].window_tok + batch;
			k->kv.layers[i].window_tok = (tokens + 255) / 256 * 256;
		}
}

static void llamacpp(struct fit_case *k)
{
	struct fit_setup *s = &k->setup;
	const char *keys = arg(k->c, "-ctk --cache-type-k"), *values = arg(k->c, "-ctv --cache-type-v");
	uint64_t ahead = 0, slots = 0;
	bool told = arg_number(k, "-c --ctx-size", &ahead) && ahead != 0;

	kv_type(k, keys ? keys : "f16", k->key_type, &s->keys);
	kv_type(k, values ? values : "f16", k->value_type, &s->values);
	put(k->kv_source, "%s", keys || values ? "-ctk, -ctv; f16 where not given" : "the engine's default");
	if (!told && k->facts->context_tok != MODEL_NONE && k->facts->context_tok)
		ahead = k->facts->context_tok;
	if (ahead == 0) {
		put(k->unknown,
		    "no -c, and the model does not tell its context: how much is taken at the start is "
		    "not known");
		ahead = 1;
	}
	s->block_tok = 256;
	s->ahead_tok = ahead;
	put(k->ahead_source, "%s", told ? "-c" : "no -c: the model's own context, assumed");
	if (arg_number(k, "-np --parallel", &slots) && slots >= 1)
		k->slots = slots;
	k->unified = arg(k->c, "-kvu --kv-unified") != NULL || k->slots == 0;
	s->ahead_sequences = k->slots && !k->unified ? k->slots : 1;
	if (s->ahead_sequences > ahead)
		s->ahead_sequences = 1;
	if (k->slots == 0)
		NOTE(k,
		     "no -np: the slots are the engine's choice; the cache is taken as one that all share");
	if (arg(k->c, "-md --model-draft --mmproj -mm --lora -hfd -mv --control-vector"))
		put(k->adds, "a second model (draft, projector, adapter) takes memory that is not counted");
	llamacpp_devices(k);
	llamacpp_windows(k);
	for (size_t i = 0; i < k->c->n_env; i++)
		if (strncmp(k->c->env[i].name, "LLAMA_ARG_", 10) == 0)
			put(k->unknown, "the environment sets %.60s: give it as an argument",
			    k->c->env[i].name);
}

static void paged(struct fit_case *k, const char *share_names, double share)
{
	const char *type = arg(k->c, "--kv-cache-dtype --kv_cache_dtype"), *dtype = arg(k->c, "--dtype");
	const struct hf_config *config = k->facts->has_config ? &k->facts->config : NULL;
	const char *from = "--kv-cache-dtype";

	arg_share(k, share_names, share);
	if (!type || strcmp(type, "auto") == 0) {
		bool own = config && config->quant.kv_dtype[0];
		type = own ? config->quant.kv_dtype
		       : dtype && strcmp(dtype, "auto") != 0 && strcmp(dtype, "half") != 0 ? dtype
		       : dtype && strcmp(dtype, "half") == 0                               ? "f16"
		       : config && config->dtype[0]                                        ? config->dtype
		                                                                           : "f16";
		from = own ? "the model's quantisation config"
		       : type == dtype || (dtype && strcmp(dtype, "half") == 0) ? "--dtype"
		       : config && config->dtype[0]                             ? "as the model's dtype"
		                                                                : "assumed: 16 bit";
	}
	kv_type(k, type, k->key_type, &k->setup.keys);
	kv_type(k, type, k->value_type, &k->setup.values);
	put(k->kv_source, "%s", from);
	k->setup.block_tok = k->c->engine == ENGINE_VLLM ? 16 : 1;
	if (k->c->engine == ENGINE_VLLM && arg_number(k, "--block-size", &k->setup.block_tok) &&
	    k->setup.block_tok == 0)
		k->setup.block_tok = 16;
	if (k->c->engine == ENGINE_TRTLLM)
		put(k->unknown, "a built engine decides the KV type and what is taken at the start");
	if (arg(k->c, "--cpu-offload-gb"))
		put(k->unknown, "--cpu-offload-gb: weights in the host's memory are not modelled");
	if (arg(k->c,
	        "--speculative-config --speculative-model --speculative-draft-model-path --enable-lora"))
		put(k->adds, "a second model (draft, adapter) takes memory that is not counted");
	if (arg(k->c, "--quantization -q"))
		NOTE(k, "--quantization: weights are counted as they lie in the files");
}

static void read_engine(struct fit_case *k)
{
	struct fit_setup *s = &k->setup;
	const struct overhead *o = &other_cpu;

	for (size_t i = 0; i < ARRAY_LEN(overheads); i++)
		if (overheads[i].kind == k->c->engine && overheads[i].is_cpu == k->is_cpu)
			o = &overheads[i];
	if (o == &other_cpu && !k->is_cpu)
		o = &overheads[ARRAY_LEN(overheads) - 1];
	s->overhead_least_bytes = o->least_bytes;
	s->overhead_most_bytes = o->most_bytes;
	k->overhead_source = o->source;
	if (k->c->engine == ENGINE_LLAMACPP) {
		llamacpp(k);
	} else if (k->c->engine == ENGINE_VLLM) {
		paged(k, "--gpu-memory-utilization", k->is_cpu ? 1 : 0.9);
	} else if (k->c->engine == ENGINE_SGLANG) {
		paged(k, "--mem-fraction-static", 0.88);
	} else {
		paged(k, "--cuda-memory-fraction", k->is_cpu ? 1 : 0.9);
		if (k->c->engine == ENGINE_ATTACH)
			put(k->unknown,
			    "a server that runs already: its KV type and what it takes are not in the plan");
		else if (k->c->engine == ENGINE_OLLAMA)
			put(k->unknown, "Ollama decides about layers and context by itself");
		else if (k->c->engine != ENGINE_TGI && k->c->engine != ENGINE_TRTLLM)
			put(k->unknown, "engine \"%s\" is not modelled", engine_kind_words[k->c->engine]);
	}
}

/* --- model --------------------------------------------------------------------------------------------- */

static bool read_model(struct fit_case *k)
{
	const struct model_facts *f = k->facts;
	const struct kv_model *kv = model_kv(f);
	size_t n = kv ? kv->n_layers : f->n_layers < KV_LAYERS_MAX ? (size_t)f->n_layers : 0;

	if (!fit_weights_init(&k->weights, n))
		return false;
	for (size_t i = 0; f->format == MODEL_GGUF && i < f->gguf.n_parts; i++)
		for (size_t j = 0; f->gguf.parts[i].is_read && j < f->gguf.parts[i].head.n_tensors; j++) {
			const struct gguf_tensor *t = &f->gguf.parts[i].head.tensors[j];
			fit_weights_add(&k->weights, t->name, t->n_dims, t->bytes);
		}
	for (size_t i = 0; f->format == MODEL_SAFETENSORS && i < f->st.n_shards; i++)
		for (size_t j = 0; f->st.shards[i].is_read && j < f->st.shards[i].head.n_tensors; j++) {
			const struct st_tensor *t = &f->st.shards[i].head.tensors[j];
			fit_weights_add(&k->weights, t->name, t->n_dims, t->end - t->begin);
		}
	if (f->problems.n_errors)
		for (size_t i = 0; i < f->problems.n; i++)
			if (f->problems.list[i].kind == PROBLEM_ERROR)
				put(k->unknown, "%.60s: %.160s", f->problems.list[i].pointer,
				    f->problems.list[i].text);
	if (!kv) {
		put(k->unknown, "KV cache: %.200s",
		    f->kv_unknown[0] ? f->kv_unknown : "not told by the model");
		return true;
	}
	k->kv.layers = calloc(n ? n : 1, sizeof(*k->kv.layers));
	if (!k->kv.layers)
		return false;
	memcpy(k->kv.layers, kv->layers, n * sizeof(*kv->layers));
	k->kv.n_layers = n;
	return true;
}

bool fit_case_read(struct fit_case *out, const struct plan *p, const struct plan_candidate *c,
                   const struct model_facts *facts, const struct fit_asked *asked)
{
	const struct cJSON *doc =
		cJSON_GetArrayItem(json_get(p->doc, "candidates"), (int)(c - p->candidates));
	struct fit_case *k = out;
	uint64_t values = 0;

	*k = (struct fit_case){ .c = c, .facts = facts, .is_cpu = c->backend == BACKEND_CPU };
	k->setup = (struct fit_setup){ .state_bytes = 4,
		                       .device_layers = FIT_UNKNOWN,
		                       .block_tok = 1,
		                       .ahead_sequences = 1,
		                       .usable_share = 1 };
	k->device_weights_bytes = k->token_bytes = FIT_UNKNOWN;
	if (!read_model(k))
		return false;
	read_ranks(k, json_get(doc, "engine"), json_get(doc, "expect"), asked);
	read_engine(k);
	if (k->kv.n_layers && !kv_state_values(&values, &k->kv))
		put(k->unknown, "the size of the model's states is not known");
	else if (k->kv.n_layers && values)
		NOTE(k, "states of sequences are counted with 4 bytes a value, assumed");
	k->has_numbers = !k->unknown[0];
	if (!k->has_numbers || !fit_device_weights(&k->device_weights_bytes, &k->weights, &k->setup))
		k->device_weights_bytes = FIT_UNKNOWN;
	if (!k->has_numbers || !fit_token_bytes(&k->token_bytes, &k->kv, &k->setup))
		k->token_bytes = FIT_UNKNOWN;
	read_memory(k, json_get(doc, "expect"), asked);
	if (k->memory_bytes == FIT_UNKNOWN)
		put(k->unknown, "the memory is not known: give %s", k->is_cpu ? "--memory" : "--gpu");
	return true;
}

void fit_case_done(struct fit_case *k)
{
	fit_weights_done(&k->weights);
	kv_model_done(&k->kv);
	free(k->rows);
	*k = (struct fit_case){ 0 };
}
