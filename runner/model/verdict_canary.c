/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries: did each answer repeat its own nonce and know the answer, and did anybody get another one's. And
 * the corruption counters of free text. */
#include "model/verdict_parts.h"

#include "model/canary.h"

#include <stdlib.h>
#include <string.h>

struct nonces { /* of all planned canaries of the run */
	size_t n, cap;
	char (*list)[CANARY_NONCE_BYTES]; /* ascending */
	size_t *seen_in;                  /* number of the text that held it last */
};

static int by_text(const void *a, const void *b)
{
	return memcmp(a, b, CANARY_NONCE_CHARS);
}

/* A trace's lines are read as they stand. */
static bool may_have_canaries(const struct cell *c)
{
	return c->wl->canary_share > 0 || c->wl->arrival.kind == ARRIVAL_TRACE;
}

static bool nonce_of(const struct evidence *ev, size_t cell, uint64_t k, char out[CANARY_NONCE_BYTES])
{
	struct sched_item item;
	if (!ev_schedule_at(&ev->cell_states[cell].load, k, &item) || !item.canary)
		return false;
	canary_nonce(out, ev->cells[cell].id, rec_kind_words[REC_LOAD], k, ev->cells[cell].wl->arrival.seed);
	return true;
}

static void add_nonce(struct judge *j, struct nonces *all, const char nonce[CANARY_NONCE_BYTES])
{
	if (all->n == all->cap) {
		size_t want = all->cap ? all->cap * 2 : 256;
		void *fresh = realloc(all->list, want * sizeof(*all->list));
		if (!fresh) {
			j->no_memory = true;
			return;
		}
		all->list = fresh;
		all->cap = want;
	}
	memcpy(all->list[all->n++], nonce, CANARY_NONCE_BYTES);
}

static void collect(struct judge *j, struct nonces *all)
{
	const struct evidence *ev = j->ev;
	char nonce[CANARY_NONCE_BYTES];
	for (size_t c = 0; c < ev->n_cells; c++)
		for (uint64_t k = 0; may_have_canaries(&ev->cells[c]) && k < ev->cell_states[c].load.n; k++)
			if (!j->no_memory && nonce_of(ev, c, k, nonce))
				add_nonce(j, all, nonce);
	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_text);
	all->seen_in = calloc(all->n + 1, sizeof(*all->seen_in));
	j->no_memory |= !all->seen_in;
}

static bool has_form(const char *p)
{
	for (size_t i = 3; i < CANARY_NONCE_CHARS; i++)
		if (!((p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= '2' && p[i] <= '7')))
			return false;
	return memcmp(p, "PMK", 3) == 0;
}

/* Different nonces in the text but its own. At any place: a model may glue words to one. */
static uint64_t foreign_in(struct nonces *all, size_t number, const char *text, size_t len, const char *own)
{
	uint64_t n = 0;
	const char *p = text, *end = text + len;
	while (end - p >= CANARY_NONCE_CHARS &&
	       (p = memchr(p, 'P', (size_t)(end - p) - CANARY_NONCE_CHARS + 1))) {
		const char(*hit)[CANARY_NONCE_BYTES] =
			all->n && has_form(p) ? bsearch(p, all->list, all->n, sizeof(*all->list), by_text)
					      : NULL;
		size_t at = hit ? (size_t)(hit - (const char(*)[CANARY_NONCE_BYTES])all->list) : 0;
		bool mine = hit && own && memcmp(*hit, own, CANARY_NONCE_CHARS) == 0;
		if (hit && !mine && all->seen_in[at] != number) {
			all->seen_in[at] = number;
			n++;
		}
		p++;
	}
	return n;
}

static void look_for_foreign(struct judge *j, struct nonces *all)
{
	const struct evidence *ev = j->ev;
	struct verdict *v = j->v;
	char own[CANARY_NONCE_BYTES];
	for (size_t i = 0; i < ev->n_answers; i++) {
		const struct ev_answer *a = &ev->answers[i];
		if (!a->text_len)
			continue;
		const char *mine = nonce_of(ev, a->cell, a->k, own) ? own : NULL;
		uint64_t n = foreign_in(all, (size_t)++v->n_texts, a->text, a->text_len, mine);
		v->cells[a->cell].canaries.n_foreign += n;
		v->n_foreign += n;
	}
	for (size_t i = 0; i < ev->n_controls; i++)
		if (ev->controls[i].text_len)
			v->n_foreign += foreign_in(all, (size_t)++v->n_texts, ev->controls[i].text,
			                           ev->controls[i].text_len, NULL);
}

static bool canary_holds(const struct record *r, const struct ev_answer *a, const char *nonce)
{
	if (r->outcome != OUTCOME_OK || !a || !a->text)
		return false;
	struct canary_result c =
		canary_judge(a->text, a->text_len, nonce, canary_question_of(r->k)->answer, NULL, 0);
	return c.has_nonce && c.has_expected;
}

static void judge_own(struct judge *j, size_t cell)
{
	struct cell_result *c = &j->v->cells[cell];
	char nonce[CANARY_NONCE_BYTES];
	if (!may_have_canaries(c->cell))
		return;
	for (size_t i = 0; i < j->rows[cell].n; i++) {
		const struct record *r = j->rows[cell].rows[i];
		if (r->outcome == OUTCOME_CANCELLED || !nonce_of(j->ev, cell, r->k, nonce))
			continue;
		c->canaries.n++;
		c->canaries.n_failed += !canary_holds(r, ev_answer_of(j->ev, r->i), nonce);
	}
}

static bool is_suspicious(const struct ev_answer *a)
{
	return (a->max_run != REC_NONE && a->max_run >= 24) ||
	       (a->distinct != REC_NONE && a->distinct <= 8 && a->chars >= 64) || a->zlib_share < 0.20 ||
	       a->rep4_share > 0.5 || (a->special != REC_NONE && a->special > 0);
}

static void count_answers(struct judge *j)
{
	const struct evidence *ev = j->ev;
	for (size_t i = 0; i < ev->n_answers; i++) {
		const struct ev_answer *a = &ev->answers[i];
		const struct record *r = ev_record(ev, a->i);
		struct cell_result *c = &j->v->cells[a->cell];
		if (!r || r->outcome != OUTCOME_OK || a->chars == REC_NONE)
			continue;
		c->answers.n_counted++;
		c->answers.n_suspicious += is_suspicious(a);
		c->answers.n_foreign_script += a->foreign_share > 0;
	}
}

void judge_canaries(struct judge *j)
{
	struct nonces all = { 0 };
	collect(j, &all);
	if (!j->no_memory)
		look_for_foreign(j, &all);
	for (size_t i = 0; i < j->v->n_cells; i++)
		judge_own(j, i);
	count_answers(j);
	free(all.list);
	free(all.seen_in);
}
