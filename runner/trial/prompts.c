/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/prompts.h"

#include "base/hash.h"
#include "base/json_out.h"
#include "trial/prompts_parts.h"

#include <string.h>

#define BODY_REST_BYTES 400 /* of a request body, around the prompt */

/* --- the recipe -------------------------------------------------------------------------------------------
 */

static void add_text(struct sha256 *h, const char *s)
{
	sha256_add(h, s ? s : "\x01", s ? strlen(s) + 1 : 1);
}

static void add_tree(struct sha256 *h, const struct cJSON *tree)
{
	auto_buf b = BUF_INIT(PLAN_BYTES_MAX * 8);
	struct json_out o;
	jo_init(&o, &b, 0);
	jo_tree(&o, NULL, tree);
	sha256_add(h, b.p, b.len);
}

void prompts_recipe_sha256(const struct plan *p, char hex[65])
{
	uint8_t raw[SHA256_BYTES];
	struct sha256 *h = sha256_new();
	add_text(h, PROMPTS_RECIPE);
	for (size_t i = 0; i < ARRAY_LEN(prompt_words); i++)
		add_text(h, prompt_words[i]);
	add_tree(h, json_get(p->doc, "controls"));
	const struct cJSON *wl;
	cJSON_ArrayForEach(wl, json_get(p->doc, "workloads"))
	{
		static const char *const keys[] = {
			"name",       "api",          "corpus",       "shared_prefix_share",
			"prompt_tok", "output_tok",   "mix",          "conversation",
			"arrival",    "canary_share", "force_output", "stream",
			"sampling"
		};
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			add_tree(h, json_get(wl, keys[i]));
	}
	sha256_end(h, raw);
	sha256_free(h);
	hex_encode(raw, sizeof(raw), hex);
}

/* --- fitting the word list to a tokenizer -----------------------------------------------------------------
 */

int prompts_count(const struct prompts *p, enum api api, const char *text, uint64_t *n, struct err *err)
{
	return p->spec.ops->count_tokens(p->spec.http, api, text, n, err);
}

static const char lead[] = "Continue";

/* Words [from, to) of the list, each between blanks behind the lead: do they take one token each? */
static int all_single(const struct prompts *p, enum api api, size_t from, size_t to, uint64_t base, bool *yes,
                      struct err *err)
{
	auto_buf text = BUF_INIT(1u << 20);
	uint64_t n = 0;
	buf_adds(&text, lead);
	for (size_t i = from; i < to; i++)
		buf_addf(&text, " %s", prompt_words[i]);
	if (text.failed)
		return err_set(err, ERR_ENV, "no memory");
	if (prompts_count(p, api, text.p, &n, err))
		return -1;
	*yes = n == base + (to - from);
	return 0;
}

static void keep_word(struct prompts *p, size_t i)
{
	char *spaced = p->spaced[p->n_words];
	int len = snprintf(spaced, WORD_BYTES, " %s", prompt_words[i]);
	p->words[p->n_words++] = (struct word){ spaced, (size_t)len };
}

static int keep_single_words(struct prompts *p, enum api api, size_t from, size_t to, uint64_t base,
                             struct err *err)
{
	bool yes = false;
	if (all_single(p, api, from, to, base, &yes, err))
		return -1;
	if (!yes && to - from > 1) {
		size_t mid = from + (to - from) / 2;
		return keep_single_words(p, api, from, mid, base, err) ||
		                       keep_single_words(p, api, mid, to, base, err)
		               ? -1
		               : 0;
	}
	for (size_t i = from; yes && i < to; i++)
		keep_word(p, i);
	return 0;
}

int prompts_open(struct prompts **out, const struct prompts_spec *spec, struct err *err)
{
	struct prompts *p = calloc(1, sizeof(*p));
	struct err why = { 0 };
	uint64_t base = 0;
	if (!p)
		return err_set(err, ERR_ENV, "no memory");
	p->spec = *spec;
	const struct plan_workload *wl = plan_critical(spec->plan);
	enum api api = wl ? wl->api : API_CHAT;
	p->exact = spec->ops->count_tokens && prompts_count(p, api, lead, &base, &why) == 0;
	for (size_t i = 0; !p->exact && i < ARRAY_LEN(prompt_words); i++)
		keep_word(p, i);
	if (p->exact && keep_single_words(p, api, 0, ARRAY_LEN(prompt_words), base, err)) {
		free(p);
		return err_wrap(err, "fitting prompts to the server's tokenizer");
	}
	if (p->n_words < 16) {
		size_t n = p->n_words;
		free(p);
		return err_set(err, ERR_ENV,
		               "the server's tokenizer takes only %zu of %zu common words as one token each: "
		               "exact prompt "
		               "lengths cannot be made from the built-in list; give the workload a corpus",
		               n, ARRAY_LEN(prompt_words));
	}
	for (size_t i = 0; i < p->n_words; i++)
		p->word_bytes += (double)p->words[i].len / (double)p->n_words;
	*out = p;
	return 0;
}

void prompts_free(struct prompts *p)
{
	free(p);
}

bool prompts_exact(const struct prompts *p)
{
	return p->exact;
}

size_t prompts_n_words(const struct prompts *p)
{
	return p->n_words;
}

static uint64_t mean_prompt_tok(const struct cell *cell, const struct trace *trace)
{
	const struct plan_workload *wl = cell->wl;
	double sum = 0, weights = 0;
	for (size_t i = 0; trace && i < trace->n; i++)
		sum += (double)trace->rows[i].prompt_tok;
	if (trace)
		return trace->n ? (uint64_t)(sum / (double)trace->n) : 0;
	for (size_t i = 0; i < wl->n_mix; i++) {
		sum += wl->mix[i].weight * (double)wl->mix[i].prompt_tok;
		weights += wl->mix[i].weight;
	}
	return wl->n_mix ? (uint64_t)(sum / weights) : cell->prompt_tok;
}

uint64_t cell_body_bytes(const struct prompts *p, const struct cell *cell, const struct trace *trace)
{
	return (uint64_t)((double)mean_prompt_tok(cell, trace) * p->word_bytes) + BODY_REST_BYTES;
}

/* --- controls ---------------------------------------------------------------------------------------------
 */

int control_body(struct buf *out, const struct prompts_spec *spec, const struct plan_control *c,
                 struct err *err)
{
	const struct proto *proto = proto_of(spec->cand->engine, c->api);
	auto_buf messages = BUF_INIT(PLAN_BYTES_MAX * 2);
	if (!proto)
		return err_set(err, ERR_PLAN, "control %s: engine %s has no %s endpoint", c->id,
		               engine_kind_words[spec->cand->engine], api_words[c->api]);
	if (c->messages) {
		struct json_out o;
		jo_init(&o, &messages, 0);
		jo_tree(&o, NULL, c->messages);
	}
	struct proto_request r = {
		.model = spec->model_name,
		.prompt = c->prompt,
		.messages = c->messages ? messages.p : NULL,
		.max_tok = c->max_tok,
		.sampling = &c->sampling,
	};
	if (messages.failed || proto_body(out, proto, &r))
		return err_set(err, ERR_ENV, "control %s: no memory", c->id);
	return 0;
}
