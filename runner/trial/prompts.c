/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/prompts.h"

#include "base/fs.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "model/schedule.h"
#include "trial/prompt_words.h"

#include <string.h>

#define BLOCK 256
#define RECIPE "proofmark prompts 1"
#define BODY_BYTES_MAX (64u << 20)
#define EARLY_BYTES_MAX (256u << 20)
#define CORPUS_BYTES_MAX (256u << 20)
static const char lead[] = "Continue";

struct word {
	const char *text;
	size_t len;
};

struct prompts {
	struct prompts_spec spec;
	bool exact;
	size_t n_words;
	struct word words[ARRAY_LEN(prompt_words)];
};

struct cell_bodies {
	const struct prompts *p;
	const struct cell *cell;
	const struct proto *proto;
	bool warmup;
	uint64_t n_fill_words; /* words behind the lead that give exactly the planned length */
	uint64_t seed;
	struct buf corpus; /* whole text, words cut at blanks */
	size_t n_corpus_words;
	struct word *corpus_words;
	uint64_t n_made;
	struct load_request *
		*blocks; /* of BLOCK requests: one in flight keeps its place while more are made */
};

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
	add_text(h, RECIPE);
	for (size_t i = 0; i < ARRAY_LEN(prompt_words); i++)
		add_text(h, prompt_words[i]);
	add_tree(h, json_get(p->doc, "controls"));
	const struct cJSON *wl;
	cJSON_ArrayForEach(wl, json_get(p->doc, "workloads"))
	{
		static const char *const keys[] = { "name",       "api",        "prompts",
			                            "prompt_tok", "output_tok", "sampling" };
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			add_tree(h, json_get(wl, keys[i]));
	}
	sha256_end(h, raw);
	sha256_free(h);
	hex_encode(raw, sizeof(raw), hex);
}

/* --- fitting the word list to a tokenizer -----------------------------------------------------------------
 */

static int count(const struct prompts *p, enum api api, const char *text, uint64_t *n, struct err *err)
{
	return p->spec.ops->count_tokens(p->spec.http, api, text, n, err);
}

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
	if (count(p, api, text.p, &n, err))
		return -1;
	*yes = n == base + (to - from);
	return 0;
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
		p->words[p->n_words++] = (struct word){ prompt_words[i], strlen(prompt_words[i]) };
	return 0;
}

static int keep_all_words(struct prompts *p)
{
	for (size_t i = 0; i < ARRAY_LEN(prompt_words); i++)
		p->words[p->n_words++] = (struct word){ prompt_words[i], strlen(prompt_words[i]) };
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
	p->exact = spec->ops->count_tokens && count(p, api, lead, &base, &why) == 0;
	if (!p->exact) {
		keep_all_words(p);
	} else if (keep_single_words(p, api, 0, ARRAY_LEN(prompt_words), base, err)) {
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

/* --- one cell's requests ----------------------------------------------------------------------------------
 */

static uint64_t seed_of(const struct cell *cell, bool warmup)
{
	uint8_t raw[SHA256_BYTES];
	uint64_t seed;
	auto_free char *text = str_fmt("%s\n%s\n%s\n%llu", RECIPE, cell->id, warmup ? "warmup" : "load",
	                               (unsigned long long)cell->wl->arrival.seed);
	sha256_of(text, strlen(text), raw);
	memcpy(&seed, raw, sizeof(seed));
	return seed;
}

static void add_random_words(struct buf *text, const struct prompts *p, struct splitmix64 *rng, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct word *w = &p->words[splitmix64_next(rng) % p->n_words];
		buf_addc(text, ' ');
		buf_add(text, w->text, w->len);
	}
}

static void add_corpus_words(struct buf *text, const struct cell_bodies *b, struct splitmix64 *rng,
                             uint64_t n)
{
	size_t at = (size_t)(splitmix64_next(rng) % b->n_corpus_words);
	for (uint64_t i = 0; i < n; i++, at = (at + 1) % b->n_corpus_words) {
		buf_addc(text, ' ');
		buf_add(text, b->corpus_words[at].text, b->corpus_words[at].len);
	}
}

/* The k-th prompt with `n_fill` words behind the lead. Corpus prompts begin with two random words, so that
 * two cut at the same place still differ from the start. */
static void prompt_text(struct buf *text, const struct cell_bodies *b, uint64_t k, uint64_t n_fill)
{
	struct splitmix64 shared = { b->seed ^ 0x5ca1ab1e },
			  own = { b->seed + (k + 1) * 0x9e3779b97f4a7c15ull };
	uint64_t n_shared = (uint64_t)(b->cell->wl->shared_prefix_share * (double)n_fill);
	uint64_t n_own = n_fill - n_shared, n_nonce = b->n_corpus_words && n_own > 4 ? 2 : 0;
	buf_adds(text, lead);
	add_random_words(text, b->p, &shared, n_shared);
	add_random_words(text, b->p, &own, b->n_corpus_words ? n_nonce : n_own);
	if (b->n_corpus_words)
		add_corpus_words(text, b, &own, n_own - n_nonce);
}

/* Words are one token each in the list's own test; next to one another, or out of a corpus, they may not be.
 * So the real count decides: step by the difference until it fits. */
static int fit_length(struct cell_bodies *b, uint64_t k, uint64_t *n_fill, struct err *err)
{
	uint64_t want = b->cell->prompt_tok, n = 0;
	auto_buf text = BUF_INIT(BODY_BYTES_MAX);
	for (int tries = 0; tries < 40; tries++) {
		buf_clear(&text);
		prompt_text(&text, b, k, *n_fill);
		if (text.failed)
			return err_set(err, ERR_ENV, "%s: prompt over %u bytes", b->cell->id, BODY_BYTES_MAX);
		if (count(b->p, b->cell->wl->api, text.p, &n, err))
			return err_wrap(err, "%s: counting tokens", b->cell->id);
		if (n == want)
			return 0;
		if (n > want && *n_fill == 0)
			return err_set(err, ERR_PLAN,
			               "%s: a context of %llu tokens cannot be made: the chat template alone "
			               "takes %llu; ask for "
			               "more tokens or use the completions api",
			               b->cell->id, (unsigned long long)want, (unsigned long long)n);
		uint64_t step = n > want ? n - want : want - n;
		*n_fill = n < want ? *n_fill + step : *n_fill > step ? *n_fill - step : 0;
	}
	return err_set(err, ERR_ENV,
	               "%s: no prompt of exactly %llu tokens found for request %llu (last try %llu)",
	               b->cell->id, (unsigned long long)want, (unsigned long long)k, (unsigned long long)n);
}

static int read_corpus(struct cell_bodies *b, struct err *err)
{
	auto_free char *path = fs_join(b->p->spec.plan_dir, b->cell->wl->corpus);
	buf_init(&b->corpus, CORPUS_BYTES_MAX);
	if (fs_read(&b->corpus, path, CORPUS_BYTES_MAX, err))
		return err_wrap(err, "corpus of workload %s", b->cell->wl->name);
	size_t cap = b->corpus.len / 2 + 1;
	b->corpus_words = calloc(cap, sizeof(*b->corpus_words));
	if (!b->corpus_words)
		return err_set(err, ERR_ENV, "no memory");
	static const char blanks[] = " \t\r\n";
	for (char *s = b->corpus.p; *(s += strspn(s, blanks));) {
		size_t len = strcspn(s, blanks);
		b->corpus_words[b->n_corpus_words++] = (struct word){ s, len };
		s += len;
	}
	if (b->n_corpus_words < 100)
		return err_set(err, ERR_PLAN, "%s: a corpus needs at least 100 words, has %zu", path,
		               b->n_corpus_words);
	return 0;
}

static struct load_request *request_at(const struct cell_bodies *b, uint64_t k)
{
	return &b->blocks[k / BLOCK][k % BLOCK];
}

static int make_room(struct cell_bodies *b, uint64_t k)
{
	if (k % BLOCK != 0)
		return 0;
	struct load_request **grown = realloc(b->blocks, (k / BLOCK + 1) * sizeof(*grown));
	if (!grown)
		return -1;
	b->blocks = grown;
	grown[k / BLOCK] = calloc(BLOCK, sizeof(**grown));
	return grown[k / BLOCK] ? 0 : -1;
}

static int make_next(struct cell_bodies *b, struct err *err)
{
	const struct prompts_spec *spec = &b->p->spec;
	uint64_t k = b->n_made, n_fill = b->n_fill_words;
	auto_buf text = BUF_INIT(BODY_BYTES_MAX), body = BUF_INIT(BODY_BYTES_MAX);
	if (b->n_corpus_words && b->p->exact && fit_length(b, k, &n_fill, err))
		return -1;
	if (make_room(b, k))
		return err_set(err, ERR_ENV, "no memory");
	prompt_text(&text, b, k, n_fill);
	struct proto_request r = {
		.model = spec->model_name,
		.prompt = text.p,
		.max_tok = b->cell->output_tok,
		.force_output = b->cell->wl->force_output,
		.sampling = &b->cell->wl->sampling,
	};
	if (text.failed || proto_body(&body, b->proto, &r))
		return err_set(err, ERR_ENV, "%s: request body over %u bytes", b->cell->id, BODY_BYTES_MAX);
	size_t len = body.len;
	*request_at(b, k) =
		(struct load_request){ buf_steal(&body), len, b->cell->prompt_tok, b->cell->output_tok };
	b->n_made++;
	return 0;
}

static int make_early(struct cell_bodies *b, struct err *err)
{
	uint64_t n = b->warmup ? b->cell->wl->warmup_requests : b->cell->requests, bytes = 0;
	if (!n && !b->warmup)
		n = b->cell->wl->arrival.kind == ARRIVAL_CLOSED
		            ? b->cell->concurrency * 16
		            : (uint64_t)(b->cell->duration_s * b->cell->wl->arrival.rate_rps * 1.2) + 16;
	while (b->n_made < n && bytes < EARLY_BYTES_MAX) {
		if (make_next(b, err))
			return -1;
		bytes += request_at(b, b->n_made - 1)->body_len;
	}
	return 0;
}

int cell_bodies_open(struct cell_bodies **out, const struct prompts *p, const struct cell *cell, bool warmup,
                     struct err *err)
{
	struct cell_bodies *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, ERR_ENV, "no memory");
	b->p = p;
	b->cell = cell;
	b->warmup = warmup;
	b->seed = seed_of(cell, warmup);
	b->proto = proto_of(p->spec.cand->engine, cell->wl->api);
	b->n_fill_words = cell->prompt_tok > 1 ? cell->prompt_tok - 1 : 0;
	if (!b->proto)
		err_set(err, ERR_PLAN, "%s: engine %s has no %s endpoint", cell->id,
		        engine_kind_words[p->spec.cand->engine], api_words[cell->wl->api]);
	else if ((!cell->wl->corpus || !read_corpus(b, err)) &&
	         (!p->exact || !fit_length(b, 0, &b->n_fill_words, err)) && !make_early(b, err)) {
		*out = b;
		return 0;
	}
	cell_bodies_free(b);
	return -1;
}

void cell_bodies_free(struct cell_bodies *b)
{
	if (!b)
		return;
	for (uint64_t i = 0; i < b->n_made; i++) {
		char *body;
		memcpy(&body, &request_at(b, i)->body, sizeof(body));
		free(body);
	}
	for (uint64_t i = 0; i * BLOCK < b->n_made; i++)
		free(b->blocks[i]);
	free(b->blocks);
	free(b->corpus_words);
	buf_done(&b->corpus);
	free(b);
}

const struct load_request *cell_bodies_get(void *ctx, uint64_t k)
{
	struct cell_bodies *b = ctx;
	struct err ignored = { 0 };
	while (b->n_made <= k)
		if (make_next(b, &ignored))
			return NULL;
	return request_at(b, k);
}

uint64_t cell_bodies_count(const struct cell_bodies *b)
{
	return b->n_made;
}

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
