/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire_int.h"
#include "model/record.h"

#include <string.h>

/* True when the bytes before `at` are whole characters and whole escapes. The string was checked by the
 * scanner as it is; cut elsewhere, what is left could end inside an escape. */
static bool is_cut(const struct jstr *t, size_t at)
{
	size_t back = 0, run = 0;
	if (at >= t->len)
		return true;
	if (((unsigned char)t->p[at] & 0xC0) == 0x80)
		return false;
	while (back < 6 && back < at && t->p[at - 1 - back] != '\\')
		back++;
	if (back == 6 || back == at)
		return true;
	while (run < at - back && t->p[at - 1 - back - run] == '\\')
		run++;
	if (run % 2 == 0)
		return true;
	/* an escape begins back + 1 bytes before the cut */
	return back > 0 && back + 1 >= (t->p[at - back] == 'u' ? 6u : 2u);
}

static bool goes_on(const struct wire_growth *g, const struct jstr *t)
{
	return t->len >= g->len && is_cut(t, g->len) &&
	       memcmp(t->p + g->len - g->tail_len, g->tail, g->tail_len) == 0;
}

static void remember(struct wire_growth *g, const struct jstr *t)
{
	g->len = t->len;
	g->tail_len = t->len < sizeof g->tail ? t->len : sizeof g->tail;
	memcpy(g->tail, t->p + t->len - g->tail_len, g->tail_len);
}

/* A text that only repeats the first one decides nothing where ids are missing. */
static void decide(struct wire_growth *g, const struct event_fields *f, const struct jstr *t)
{
	if (f->n_ids != REC_NONE && f->n_ids && f->usage.output_tok != REC_NONE)
		g->form = f->n_ids >= f->usage.output_tok ? GROWTH_CUMULATIVE : GROWTH_INCREMENTAL;
	else if (!goes_on(g, t))
		g->form = GROWTH_INCREMENTAL;
	else if (t->len > g->len)
		g->form = GROWTH_GUESSED;
}

void wire_cut_seen(struct wire_reader *w, struct event_fields *f)
{
	struct wire_growth *g = &w->growth;
	struct jstr *t = &f->pieces[0].text;
	if (f->n_pieces != 1)
		return;
	if (g->len == 0) {
		remember(g, t);
		return;
	}
	if (g->form == GROWTH_UNKNOWN)
		decide(g, f, t);
	if (g->form == GROWTH_GUESSED && !goes_on(g, t) && !f->finish.p) {
		g->form = GROWTH_INCREMENTAL;
		w->n_rewrites++;
	}
	if (g->form == GROWTH_INCREMENTAL)
		return;
	w->n_rewrites += !goes_on(g, t);
	size_t at = g->len;
	while (at < t->len && !is_cut(t, at))
		at++;
	if (at >= t->len) {
		f->n_pieces = 0;
		if (t->len > g->len)
			remember(g, t);
		return;
	}
	remember(g, t);
	t->p += at;
	t->len -= at;
}
