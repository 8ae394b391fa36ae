/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of one cell. Bodies are made before the cell as far as they fit into memory, the rest ahead of
 * need by a thread, so that the load's loop only takes and gives pointers. */
#include "base/json_out.h"
#include "trial/prompts_bodies.h"

#include <string.h>

static void lend(struct cell_bodies *c, struct body *b)
{
	b->older = c->out;
	b->newer = NULL;
	if (c->out)
		c->out->newer = b;
	c->out = b;
}

static void take_back(struct cell_bodies *c, struct body *b)
{
	if (b->older)
		b->older->newer = b->newer;
	if (b->newer)
		b->newer->older = b->older;
	else
		c->out = b->older;
}

/* --- before the cell --------------------------------------------------------------------------------------
 */

/* Word counts that only the tokenizer knows, for the whole schedule where it has an end. */
static int fill_all(struct cell_bodies *c, struct err *err)
{
	const struct plan_workload *wl = c->texts.cell->wl;
	bool any = c->texts.p->exact && (c->fits.each || (wl->canary_share > 0 && c->turns == 1));
	if (!any || c->n_first == UINT64_MAX)
		return 0;
	c->fill = malloc((c->n_first + 1) * sizeof(*c->fill));
	if (!c->fill)
		return err_set(err, ERR_ENV, "no memory");
	for (; c->n_fill < c->n_first; c->n_fill++) {
		struct sched_item i;
		c->fill[c->n_fill].words = UINT64_MAX;
		if (sched_item_at(c->sched, c->n_fill * c->turns, &i) && fits_must_ask(&c->fits, &i) &&
		    fits_one(&c->fill[c->n_fill], &c->fits, &i, err))
			return -1;
	}
	return 0;
}

static int make_early(struct cell_bodies *c, struct err *err)
{
	uint64_t n = c->n_first;
	if (n == UINT64_MAX)
		n = c->texts.cell->concurrency * 16 < AHEAD_MAX ? c->texts.cell->concurrency * 16 : AHEAD_MAX;
	while (c->n_made < n && c->held_bytes < EARLY_BYTES_MAX)
		if (bodies_make_next(c, err))
			return -1;
	return 0;
}

static int open_cell(struct cell_bodies *c, const struct cell_bodies_spec *s, struct err *err)
{
	const struct prompts_spec *spec = &s->prompts->spec;
	const struct plan_workload *wl = s->cell->wl;
	c->proto = proto_of(spec->cand->engine, wl->api);
	if (!c->proto)
		return err_set(err, ERR_PLAN, "%s: engine %s has no %s endpoint", s->cell->id,
		               engine_kind_words[spec->cand->engine], api_words[wl->api]);
	if (texts_open(&c->texts, s->prompts, s->cell, s->warmup, err) ||
	    fits_open(&c->fits, &c->texts, s->sched, s->trace, err) || fill_all(c, err))
		return -1;
	return make_early(c, err);
}

int cell_bodies_open(struct cell_bodies **out, const struct cell_bodies_spec *s, struct err *err)
{
	struct cell_bodies *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, ERR_ENV, "no memory");
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->made, NULL);
	pthread_cond_init(&c->work, NULL);
	buf_init(&c->text, BODY_BYTES_MAX);
	buf_init(&c->body, BODY_BYTES_MAX);
	c->sched = s->sched;
	c->turns = !s->warmup && s->cell->wl->conversation.turns ? s->cell->wl->conversation.turns : 1;
	c->n_first = sched_count(s->sched);
	if (c->n_first != UINT64_MAX)
		c->n_first = (c->n_first + c->turns - 1) / c->turns;
	if (open_cell(c, s, err)) {
		cell_bodies_free(c);
		return -1;
	}
	*out = c;
	return 0;
}

void cell_bodies_free(struct cell_bodies *c)
{
	struct err ignored;
	if (!c)
		return;
	(void)!cell_bodies_end(c, &ignored);
	bodies_free_all(c->dead.first);
	for (struct body *b = c->out, *older; b; b = older) {
		older = b->older;
		body_free(b);
	}
	for (uint64_t g = 0; g < c->n_made; g++)
		body_free(c->blocks[g / BODIES_BLOCK][g % BODIES_BLOCK]);
	for (size_t i = 0; i < c->n_blocks; i++) {
		free(c->blocks[i]);
		free(c->digests[i]);
	}
	free(c->blocks);
	free(c->digests);
	free(c->later);
	free(c->sent);
	free(c->fill);
	buf_done(&c->text);
	buf_done(&c->body);
	talk_forms_done(c->forms);
	fits_done(&c->fits);
	texts_done(&c->texts);
	pthread_cond_destroy(&c->made);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* --- what the load asks -----------------------------------------------------------------------------------
 */

const struct load_request *cell_bodies_get(void *ctx, uint64_t g)
{
	struct cell_bodies *c = ctx;
	struct body *b = NULL;
	if (g >= c->n_first)
		return NULL;
	pthread_mutex_lock(&c->lock);
	if (g >= c->n_asked)
		c->n_asked = g + 1;
	while (g >= c->n_made && !c->failed && c->running) {
		pthread_cond_signal(&c->work);
		pthread_cond_wait(&c->made, &c->lock);
	}
	if (g < c->n_made) {
		b = c->blocks[g / BODIES_BLOCK][g % BODIES_BLOCK];
		c->blocks[g / BODIES_BLOCK][g % BODIES_BLOCK] = NULL;
		if (b)
			lend(c, b);
	}
	bodies_wake(c);
	pthread_mutex_unlock(&c->lock);
	return b ? &b->rq : NULL;
}

static struct body *of_request(const struct load_request *rq)
{
	struct body *b;
	memcpy(&b, &rq, sizeof(b)); /* its first member */
	return b;
}

const struct load_request *cell_bodies_follow(void *ctx, const struct load_request *rq,
                                              const struct record *rec, const char *text, size_t text_len)
{
	struct cell_bodies *c = ctx;
	struct body *ended = of_request(rq), *b = NULL;
	struct sched_item i;
	if (!ended->talk || rec->outcome != OUTCOME_OK || rq->turn + 1 >= c->turns ||
	    !sched_item_at(c->sched, rq->k + 1, &i))
		return NULL;
	b = body_next_turn(c, ended, &i, text ? text : "", text_len);
	if (!b)
		return NULL;
	pthread_mutex_lock(&c->lock);
	body_push(&c->to_hash, b);
	lend(c, b);
	c->held_bytes += b->weight_bytes;
	bodies_wake(c);
	pthread_mutex_unlock(&c->lock);
	return &b->rq;
}

void cell_bodies_done(void *ctx, const struct load_request *rq)
{
	struct cell_bodies *c = ctx;
	struct body *b = of_request(rq);
	pthread_mutex_lock(&c->lock);
	b->ended = true;
	c->held_bytes -= b->weight_bytes;
	take_back(c, b);
	if (b->hashed) {
		body_push(&c->dead, b);
		c->dead_bytes += b->weight_bytes;
	}
	bodies_wake(c);
	pthread_mutex_unlock(&c->lock);
}

int cell_bodies_sent(struct cell_bodies *c, uint64_t k)
{
	if (bodies_room((void **)&c->sent, c->n_sent, &c->cap_sent, sizeof(*c->sent)))
		return -1;
	c->sent[c->n_sent++] = k;
	return 0;
}

/* --- what was sent ----------------------------------------------------------------------------------------
 */

uint64_t cell_bodies_begun(const struct cell_bodies *c)
{
	return c->n_asked * c->turns;
}

script_set cell_bodies_scripts(const struct cell_bodies *c)
{
	static const char latin[] = "a"; /* the word list, canaries */
	script_set s = scripts_of(latin, 1);
	return c->texts.corpus.len ? s | scripts_of(c->texts.corpus.p, c->texts.corpus.len) : s;
}

static int by_k(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static const struct digest *digest_of(const struct cell_bodies *c, uint64_t k)
{
	uint64_t g = k / c->turns;
	if (k % c->turns == 0)
		return g < c->n_made ? &c->digests[g / BODIES_BLOCK][g % BODIES_BLOCK] : NULL;
	return c->n_later ? bsearch(&k, c->later, c->n_later, sizeof(*c->later), by_k) : NULL;
}

static int digest_line(struct buf *line, const struct cell_bodies *c, const struct digest *d)
{
	char hex[SHA256_HEX_BYTES];
	struct json_out o;
	hex_encode(d->sha256, sizeof(d->sha256), hex);
	buf_clear(line);
	jo_init(&o, line, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "cell", c->texts.cell->id);
	jo_str(&o, "kind", rec_kind_words[c->texts.warmup ? REC_WARMUP : REC_LOAD]);
	jo_u64(&o, "k", d->k);
	jo_u64(&o, "body_bytes", d->len);
	jo_str(&o, "body_sha256", hex);
	jo_end(&o);
	return line->failed ? -1 : 0;
}

int cell_bodies_list(struct cell_bodies *c, int (*put)(void *ctx, const char *line, size_t len), void *ctx)
{
	auto_buf line = BUF_INIT(4096);
	if (c->n_sent)
		qsort(c->sent, c->n_sent, sizeof(*c->sent), by_k);
	if (c->n_later)
		qsort(c->later, c->n_later, sizeof(*c->later), by_k);
	for (size_t i = 0; i < c->n_sent; i++) {
		const struct digest *d = digest_of(c, c->sent[i]);
		if (d && (digest_line(&line, c, d) || put(ctx, line.p, line.len)))
			return -1;
	}
	return 0;
}
