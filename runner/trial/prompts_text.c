/* SPDX-License-Identifier: Apache-2.0 */
/* The text of one request, from seed and number alone. */
#include "base/fs.h"
#include "base/hash.h"
#include "model/canary.h"
#include "trial/prompts_parts.h"

#include <string.h>

#define CORPUS_BYTES_MAX (256u << 20)
#define CORPUS_WORDS_MIN 100
#define GOLDEN 0x9e3779b97f4a7c15ull

static const char lead[] = "Continue";

static uint64_t seed_of(const struct cell *cell, bool warmup)
{
	uint8_t raw[SHA256_BYTES];
	uint64_t seed;
	auto_free char *text =
		str_fmt("%s\n%s\n%s\n%llu", PROMPTS_RECIPE, cell->id, warmup ? "warmup" : "load",
	                (unsigned long long)cell->wl->arrival.seed);
	sha256_of(text, strlen(text), raw);
	memcpy(&seed, raw, sizeof(seed));
	return seed;
}

static int read_corpus(struct texts *t, struct err *err)
{
	static const char blanks[] = " \t\r\n";
	auto_free char *path = fs_join(t->p->spec.plan_dir, t->cell->wl->corpus);
	if (fs_read(&t->corpus, path, CORPUS_BYTES_MAX, err))
		return err_wrap(err, "corpus of workload %s", t->cell->wl->name);
	t->corpus_words = calloc(t->corpus.len / 2 + 1, sizeof(*t->corpus_words));
	if (!t->corpus_words)
		return err_set(err, ERR_ENV, "no memory");
	for (char *s = t->corpus.p; s && *(s += strspn(s, blanks));) {
		size_t len = strcspn(s, blanks);
		t->corpus_words[t->n_corpus_words++] = (struct word){ s, len };
		s += len;
	}
	if (t->n_corpus_words < CORPUS_WORDS_MIN)
		return err_set(err, ERR_PLAN, "%s: a corpus needs at least %d words, has %zu", path,
		               CORPUS_WORDS_MIN, t->n_corpus_words);
	return 0;
}

int texts_open(struct texts *t, const struct prompts *p, const struct cell *cell, bool warmup,
               struct err *err)
{
	*t = (struct texts){ .p = p, .cell = cell, .warmup = warmup, .seed = seed_of(cell, warmup) };
	buf_init(&t->corpus, CORPUS_BYTES_MAX);
	if (!cell->wl->corpus || !read_corpus(t, err))
		return 0;
	texts_done(t);
	return -1;
}

void texts_done(struct texts *t)
{
	free(t->corpus_words);
	buf_done(&t->corpus);
	*t = (struct texts){ 0 };
}

static void add_word(struct buf *out, const struct prompts *p, struct splitmix64 *rng)
{
	const struct word *w = &p->words[splitmix64_next(rng) % p->n_words];
	buf_add(out, w->text, w->len);
}

static void add_random_words(struct buf *out, const struct prompts *p, struct splitmix64 *rng, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		add_word(out, p, rng);
}

static void add_corpus_words(struct buf *out, const struct texts *t, struct splitmix64 *rng, uint64_t n)
{
	size_t at = (size_t)(splitmix64_next(rng) % t->n_corpus_words);
	for (uint64_t i = 0; i < n; i++, at = (at + 1) % t->n_corpus_words) {
		buf_addc(out, ' ');
		buf_add(out, t->corpus_words[at].text, t->corpus_words[at].len);
	}
}

/* Corpus prompts begin with two random words, so that two cut at the same place still differ from the start.
 */
static void add_own_words(struct buf *out, const struct texts *t, uint64_t k, uint64_t n)
{
	struct splitmix64 own = { t->seed + (k + 1) * GOLDEN };
	uint64_t n_random = !t->n_corpus_words ? n : n > 4 ? 2 : 0;
	add_random_words(out, t->p, &own, n_random);
	if (t->n_corpus_words)
		add_corpus_words(out, t, &own, n - n_random);
}

/* Blocks of a trace: words `from` to `to` of the block with that id. The same id gives the same words in the
 * whole cell; what stands before the first word (lead, chat template) is taken to lie inside the first block,
 * so that blocks begin where the recorded ones began. */
static void add_block(struct buf *out, const struct texts *t, uint64_t id, uint64_t from, uint64_t to)
{
	struct splitmix64 mix = { t->seed ^ (id + 1) * GOLDEN }, rng = { splitmix64_next(&mix) };
	for (uint64_t i = 0; i < from; i++)
		splitmix64_next(&rng);
	add_random_words(out, t->p, &rng, to - from);
}

static uint64_t add_blocks(struct buf *out, const struct texts *t, const struct sched_item *i,
                           uint64_t n_fill)
{
	uint64_t whole = i->prompt_tok / TRACE_BLOCK_TOK, at = t->overhead_tok, end = at + n_fill;
	if (whole > i->n_hashes)
		whole = i->n_hashes;
	if (end > whole * TRACE_BLOCK_TOK)
		end = whole * TRACE_BLOCK_TOK;
	uint64_t begin = at;
	while (at < end) {
		uint64_t block = at / TRACE_BLOCK_TOK, from = at % TRACE_BLOCK_TOK,
			 left = end - block * TRACE_BLOCK_TOK,
			 to = left < TRACE_BLOCK_TOK ? left : TRACE_BLOCK_TOK;
		add_block(out, t, i->hashes[block], from, to);
		at = block * TRACE_BLOCK_TOK + to;
	}
	return at - begin;
}

static void add_canary(struct buf *out, const struct texts *t, const struct sched_item *i)
{
	char nonce[CANARY_NONCE_BYTES];
	if (!i->canary)
		return;
	canary_nonce(nonce, t->cell->id, rec_kind_words[t->warmup ? REC_WARMUP : REC_LOAD], i->k,
	             t->cell->wl->arrival.seed);
	canary_text(out, nonce, i->k);
}

void texts_prompt(struct buf *out, const struct texts *t, const struct sched_item *i, struct fill fill)
{
	struct splitmix64 pad = { t->seed + (i->k + 1) * GOLDEN + (fill.pad ^ fill.words << 20) };
	struct splitmix64 shared = { t->seed ^ 0x5ca1ab1e };
	uint64_t n_before = 0;
	buf_adds(out, lead);
	if (i->n_hashes) {
		n_before = add_blocks(out, t, i, fill.words);
	} else {
		n_before = (uint64_t)(t->cell->wl->shared_prefix_share * (double)fill.words);
		add_random_words(out, t->p, &shared, n_before);
	}
	add_own_words(out, t, i->k, fill.words - n_before);
	add_random_words(out, t->p, &pad, fill.pad);
	add_canary(out, t, i);
}

void texts_turn(struct buf *out, const struct texts *t, const struct sched_item *i, bool chat)
{
	uint64_t n = t->cell->wl->conversation.turn_prompt_tok;
	if (chat) {
		buf_adds(out, lead);
		n -= n > 0;
	}
	add_own_words(out, t, i->k, n);
	add_canary(out, t, i);
}
