/* SPDX-License-Identifier: Apache-2.0 */
/* Exact lengths. Words of the list are one token each in the list's own test; next to one another, or out of
 * a corpus, they may not be. So the server's count decides. */
#include "trial/prompts_parts.h"

#include <string.h>

#define TRIES_MAX 40
#define STEPS_MAX 6    /* of them without padding */
#define SCAN_MAX 65536 /* requests looked at for examples of a length */
#define CHECKS_MAX 48  /* lengths of a trace that are counted; the others follow the same rule */
#define EXAMPLES 4     /* requests of one length that are counted */

static int too_short(const struct fits *f, uint64_t want, uint64_t n, struct err *err)
{
	return err_set(
		err, ERR_PLAN,
		"%s: a context of %llu tokens cannot be made: chat template and fixed words alone take "
		"%llu; ask for more tokens or use the completions api",
		f->t->cell->id, (unsigned long long)want, (unsigned long long)n);
}

static int count_prompt(uint64_t *n, const struct fits *f, const struct sched_item *i, struct fill fill,
                        struct err *err)
{
	auto_buf text = BUF_INIT(BODY_BYTES_MAX);
	texts_prompt(&text, f->t, i, fill);
	if (text.failed)
		return err_set(err, ERR_ENV, "%s: prompt over %u bytes", f->t->cell->id, BODY_BYTES_MAX);
	if (prompts_count(f->t->p, f->t->cell->wl->api, text.p, n, err))
		return err_wrap(err, "%s: counting tokens", f->t->cell->id);
	return 0;
}

static struct fill fewer(struct fill fill, uint64_t step)
{
	if (step <= fill.words)
		return (struct fill){ fill.words - step, fill.pad };
	step -= fill.words;
	return (struct fill){ 0, fill.pad > step ? fill.pad - step : 0 };
}

/* Steps by the difference until it fits. Where the last words are several tokens long that may never end:
 * then fewer words, and list words to pad, so that each try is a new text. */
static int fit(struct fill *out, const struct fits *f, const struct sched_item *i, uint64_t guess,
               struct err *err)
{
	uint64_t want = i->prompt_tok, n = 0;
	struct fill fill = { .words = guess };
	for (int tries = 0; tries < TRIES_MAX; tries++) {
		if (count_prompt(&n, f, i, fill, err))
			return -1;
		if (n == want) {
			*out = fill;
			return 0;
		}
		if (n > want && fill.words == 0 && fill.pad == 0)
			return too_short(f, want, n, err);
		if (n > want)
			fill = fewer(fill, n - want);
		else if (tries < STEPS_MAX)
			fill.words += want - n;
		else
			fill.pad += want - n;
	}
	return err_set(
		err, ERR_ENV, "%s: no prompt of exactly %llu tokens found for request %llu (last try %llu)",
		f->t->cell->id, (unsigned long long)want, (unsigned long long)i->k, (unsigned long long)n);
}

/* --- lengths ----------------------------------------------------------------------------------------------
 */

static int by_length(const void *a, const void *b)
{
	uint64_t x = ((const struct fit_length *)a)->prompt_tok,
		 y = ((const struct fit_length *)b)->prompt_tok;
	return x < y ? -1 : x > y;
}

static struct fit_length *find(const struct fits *f, uint64_t prompt_tok)
{
	struct fit_length key = { .prompt_tok = prompt_tok };
	return f->n ? bsearch(&key, f->list, f->n, sizeof(key), by_length) : NULL;
}

static int list_lengths(struct fits *f, const struct trace *trace, struct err *err)
{
	const struct plan_workload *wl = f->t->cell->wl;
	size_t n = trace ? trace->n : wl->n_mix ? wl->n_mix : 1, kept = 0;
	f->list = calloc(n + 1, sizeof(*f->list));
	if (!f->list)
		return err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; i < n; i++)
		f->list[i].prompt_tok = trace       ? trace->rows[i].prompt_tok
		                        : wl->n_mix ? wl->mix[i].prompt_tok
		                                    : f->t->cell->prompt_tok;
	qsort(f->list, n, sizeof(*f->list), by_length);
	for (size_t i = 0; i < n; i++)
		if (!kept || f->list[kept - 1].prompt_tok != f->list[i].prompt_tok)
			f->list[kept++] = f->list[i];
	f->n = kept;
	return 0;
}

/* Requests of one length, without their canaries; the first, and others spread over the schedule. */
struct examples {
	size_t n;
	uint64_t seen;
	struct sched_item list[EXAMPLES];
};

static void see(struct examples *e, const struct sched_item *i)
{
	struct sched_item plain = *i;
	plain.canary = false;
	/* Of those behind the first, the later ones push out the earlier ones at ever wider steps. */
	if (e->n < EXAMPLES)
		e->list[e->n++] = plain;
	else if ((e->seen & (e->seen - 1)) == 0)
		e->list[1 + e->seen % (EXAMPLES - 1)] = plain;
	e->seen++;
}

static struct examples *find_examples(const struct fits *f, const struct sched *s)
{
	struct examples *e = calloc(f->n, sizeof(*e));
	uint64_t turns =
		f->t->cell->wl->conversation.turns && !f->t->warmup ? f->t->cell->wl->conversation.turns : 1;
	struct sched_item i;
	for (uint64_t g = 0; e && g < SCAN_MAX && sched_item_at(s, g * turns, &i); g++) {
		const struct fit_length *l = find(f, i.prompt_tok);
		if (l)
			see(&e[l - f->list], &i);
	}
	for (size_t l = 0; e && l < f->n; l++) /* a part that none of them drew */
		if (!e[l].n)
			see(&e[l], &(struct sched_item){ .k = l, .prompt_tok = f->list[l].prompt_tok });
	return e;
}

/* The first example is fitted, the others must have the same count. */
static int fit_one_length(struct fits *f, size_t l, const struct examples *e, struct err *err)
{
	uint64_t want = f->list[l].prompt_tok, n = 0, o = f->t->overhead_tok;
	if (fit(&f->list[l].fill, f, &e->list[0], want > o ? want - o : 0, err))
		return -1;
	for (size_t i = 1; i < e->n && !f->each; i++) {
		if (count_prompt(&n, f, &e->list[i], f->list[l].fill, err))
			return -1;
		f->each = n != want;
	}
	return 0;
}

/* List words: the overhead is the same for all lengths where the first, the last and those in between that
 * are counted have it; then the rest need no question. */
static int fit_all_lengths(struct fits *f, const struct examples *e, struct err *err)
{
	size_t step = f->n > CHECKS_MAX ? f->n / CHECKS_MAX + 1 : 1;
	bool same = true;
	f->t->overhead_tok = 1;
	for (size_t l = 0; l < f->n && !f->each; l++) {
		uint64_t want = f->list[l].prompt_tok, o = f->t->overhead_tok, own;
		bool ask = l == 0 || l + 1 == f->n || l % step == 0 || !same;
		if (!ask) {
			f->list[l].fill.words = want - o;
			continue;
		}
		if (fit_one_length(f, l, &e[l], err))
			return -1;
		own = f->list[l].fill.words + f->list[l].fill.pad;
		own = want > own ? want - own : 0;
		if (l == 0) {
			f->t->overhead_tok = own;
		} else if (own != o && same) {
			same = false;
			l = 0; /* those in between were guesses: ask for all */
		}
	}
	return 0;
}

/* Words instead of tokens: the server shows no tokenizer. */
static void take_words(struct fits *f)
{
	f->t->overhead_tok = 1;
	for (size_t l = 0; l < f->n; l++)
		f->list[l].fill.words = f->list[l].prompt_tok ? f->list[l].prompt_tok - 1 : 0;
}

int fits_open(struct fits *f, struct texts *t, const struct sched *s, const struct trace *trace,
              struct err *err)
{
	*f = (struct fits){ .t = t };
	if (list_lengths(f, trace, err))
		return -1;
	if (!t->p->exact) {
		take_words(f);
		return 0;
	}
	auto_free struct examples *e = find_examples(f, s);
	int rc = e ? fit_all_lengths(f, e, err) : err_set(err, ERR_ENV, "no memory");
	if (t->n_corpus_words)
		f->each = true;
	if (rc)
		fits_done(f);
	return rc;
}

void fits_done(struct fits *f)
{
	free(f->list);
	*f = (struct fits){ 0 };
}

bool fits_must_ask(const struct fits *f, const struct sched_item *i)
{
	return f->t->p->exact && (f->each || i->canary) && i->prompt_tok != REC_NONE;
}

struct fill fits_known(const struct fits *f, const struct sched_item *i)
{
	const struct fit_length *l = find(f, i->prompt_tok);
	uint64_t o = f->t->overhead_tok;
	if (l && l->fill.words)
		return l->fill;
	return (struct fill){ .words = i->prompt_tok > o ? i->prompt_tok - o : 0 };
}

int fits_one(struct fill *fill, struct fits *f, const struct sched_item *i, struct err *err)
{
	uint64_t plain = fits_known(f, i).words;
	uint64_t guess = !i->canary ? plain : plain > f->canary_tok ? plain - f->canary_tok : 0;
	struct fill found;
	if (fit(&found, f, i, guess, err))
		return -1;
	if (i->canary)
		f->canary_tok = plain > found.words ? plain - found.words : 0;
	*fill = found;
	return 0;
}
