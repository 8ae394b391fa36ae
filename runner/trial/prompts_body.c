/* SPDX-License-Identifier: Apache-2.0 */
/* One request body: its text, its bytes, its digest. */
#include "trial/prompts_bodies.h"

#include <string.h>

void body_push(struct list *l, struct body *b)
{
	b->next = NULL;
	if (l->last)
		l->last->next = b;
	else
		l->first = b;
	l->last = b;
}

void body_free(struct body *b)
{
	if (!b)
		return;
	talk_free(b->talk);
	free(b->bytes);
	free(b);
}

int bodies_room(void **list, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return 0;
	size_t want = *cap ? *cap * 2 : 1024;
	void *grown = realloc(*list, want * size);
	if (!grown)
		return -1;
	*list = grown;
	*cap = want;
	return 0;
}

/* --- making one -------------------------------------------------------------------------------------------
 */

static int give_bytes(struct body *b, struct cell_bodies *c, const char *prompt, struct err *err)
{
	const struct texts *t = &c->texts;
	if (b->talk) {
		b->bytes = talk_body(&b->rq.body_len, b->talk, b->form);
	} else {
		struct proto_request r = {
			.model = t->p->spec.model_name,
			.prompt = prompt,
			.max_tok = b->rq.want_output_tok,
			.force_output = t->cell->wl->force_output,
			.whole = !t->cell->wl->stream,
			.sampling = &t->cell->wl->sampling,
		};
		buf_clear(&c->body);
		if (proto_body(&c->body, c->proto, &r) == 0 && (b->bytes = malloc(c->body.len + 1))) {
			memcpy(b->bytes, c->body.p, c->body.len + 1);
			b->rq.body_len = c->body.len;
		}
	}
	if (!b->bytes)
		return err_set(err, ERR_ENV, "%s: request body over %u bytes", t->cell->id, BODY_BYTES_MAX);
	b->rq.body = b->bytes;
	b->weight_bytes = sizeof(*b) + b->rq.body_len + (b->talk ? b->talk->json.len : 0);
	return 0;
}

static struct body *body_of(const struct sched_item *i)
{
	struct body *b = calloc(1, sizeof(*b));
	if (b)
		b->rq = (struct load_request){
			.prompt_tok = i->prompt_tok,
			.want_output_tok = i->output_tok,
			.k = i->k,
			.conv = i->conv,
			.turn = i->turn,
			.part = i->part,
			.due_ns = i->due_ns,
		};
	return b;
}

static int words_of(struct fill *fill, struct cell_bodies *c, uint64_t g, const struct sched_item *i,
                    struct err *err)
{
	if (!fits_must_ask(&c->fits, i)) {
		*fill = fits_known(&c->fits, i);
		return 0;
	}
	if (c->fill && g < c->n_fill && c->fill[g].words != UINT64_MAX) {
		*fill = c->fill[g];
		return 0;
	}
	return fits_one(fill, &c->fits, i, err);
}

/* Without the lock: only one thread makes bodies at a time. */
static struct body *make(struct cell_bodies *c, uint64_t g, struct digest *d, struct err *err)
{
	struct sched_item i;
	struct fill fill = { 0 };
	struct buf *text = &c->text;
	buf_clear(text);
	if (!sched_item_at(c->sched, g * c->turns, &i)) {
		err_set(err, ERR_BUG, "%s: request %llu is not in the schedule", c->texts.cell->id,
		        (unsigned long long)g);
		return NULL;
	}
	if (words_of(&fill, c, g, &i, err))
		return NULL;
	texts_prompt(text, &c->texts, &i, fill);
	struct body *b = text->failed ? NULL : body_of(&i);
	if (!b) {
		err_set(err, ERR_ENV, "%s: no memory for request %llu", c->texts.cell->id,
		        (unsigned long long)g);
		return NULL;
	}
	int rc = 0;
	if (c->turns > 1) {
		rc = talk_form_of(&b->form, &c->forms, &c->texts, c->proto, i.output_tok, err);
		b->talk = rc ? NULL : talk_new(b->form, text->p);
		if (!rc && !b->talk)
			rc = err_set(err, ERR_ENV, "%s: no memory for a conversation", c->texts.cell->id);
	}
	if (rc || give_bytes(b, c, text->p, err)) {
		body_free(b);
		return NULL;
	}
	*d = (struct digest){ .k = i.k, .len = b->rq.body_len };
	sha256_of(b->bytes, b->rq.body_len, d->sha256);
	b->hashed = true;
	return b;
}

static int put_made(struct cell_bodies *c, struct body *b, const struct digest *d)
{
	uint64_t g = c->n_made;
	size_t at = g / BODIES_BLOCK;
	if (at == c->n_blocks) {
		struct body ***blocks = realloc(c->blocks, (at + 1) * sizeof(*blocks));
		if (blocks)
			c->blocks = blocks;
		struct digest **digests = realloc(c->digests, (at + 1) * sizeof(*digests));
		if (digests)
			c->digests = digests;
		if (!blocks || !digests)
			return -1;
		blocks[at] = calloc(BODIES_BLOCK, sizeof(**blocks));
		digests[at] = calloc(BODIES_BLOCK, sizeof(**digests));
		if (!blocks[at] || !digests[at]) {
			free(blocks[at]);
			free(digests[at]);
			return -1;
		}
		c->n_blocks++;
	}
	c->blocks[at][g % BODIES_BLOCK] = b;
	c->digests[at][g % BODIES_BLOCK] = *d;
	c->held_bytes += b->weight_bytes;
	c->n_made++;
	return 0;
}

int bodies_make_next(struct cell_bodies *c, struct err *err)
{
	struct digest d;
	struct body *b = make(c, c->n_made, &d, err);
	if (!b)
		return -1;
	pthread_mutex_lock(&c->lock);
	int rc = put_made(c, b, &d);
	pthread_cond_broadcast(&c->made);
	pthread_mutex_unlock(&c->lock);
	if (!rc)
		return 0;
	body_free(b);
	return err_set(err, ERR_ENV, "%s: no memory", c->texts.cell->id);
}

struct body *body_next_turn(struct cell_bodies *c, struct body *ended, const struct sched_item *i,
                            const char *text, size_t text_len)
{
	struct err ignored = { 0 };
	auto_buf prompt = BUF_INIT(BODY_BYTES_MAX);
	texts_turn(&prompt, &c->texts, i, ended->form->chat);
	struct talk *talk = steal_ptr(&ended->talk);
	struct body *b = NULL;
	if (!prompt.failed && talk_add(talk, ended->form, text, text_len, prompt.p) == 0)
		b = body_of(i);
	if (!b) {
		talk_free(talk);
		return NULL;
	}
	b->talk = talk;
	b->form = ended->form;
	if (!give_bytes(b, c, NULL, &ignored))
		return b;
	body_free(b);
	return NULL;
}
