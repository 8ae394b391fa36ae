/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.jsonl: what was planned, made again from the plan and compared, and the rows held against it. */
#include "model/evidence_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (4u << 10)

const char *ev_load_of_cell(const struct cell *c)
{
	const char *slash = strrchr(c->id, '/');
	return slash ? slash + 1 : c->id;
}

bool ev_schedule_at(const struct ev_schedule *s, uint64_t k, struct sched_item *out)
{
	if (k >= s->n)
		return false;
	if (s->made)
		return sched_item_at(s->made, k, out);
	if (k >= s->n_items)
		return false;
	*out = s->items[k];
	return true;
}

/* --- blocks -----------------------------------------------------------------------------------------------
 */

static struct ev_schedule *block_of(const struct ev_loader *l)
{
	return l->block_warmup ? &l->block->warmup : &l->block->load;
}

static const char *kind_of(const struct ev_loader *l)
{
	return rec_kind_words[l->block_warmup ? REC_WARMUP : REC_LOAD];
}

static bool is_trace(const struct ev_cell_state *st)
{
	return st->cell->wl->arrival.kind == ARRIVAL_TRACE;
}

/* Once a block: what follows from one wrong line is not told again. */
static void tell_block(struct ev_loader *l, const char *what)
{
	if (!l->block_told)
		ev_miss(l, "inconsistent: %s of cell %s: %s", kind_of(l), l->block->cell->id, what);
	l->block_told = true;
}

static void end_block(struct ev_loader *l)
{
	const struct ev_schedule *s = l->block ? block_of(l) : NULL;
	if (!s || !s->made)
		return;
	uint64_t planned = sched_count(s->made);
	if (planned != UINT64_MAX && planned != s->n)
		tell_block(l, "another count of lines than the plan gives");
}

static void begin_block(struct ev_loader *l, struct ev_cell_state *st, bool warmup)
{
	struct err err;
	end_block(l);
	l->block = st;
	l->block_warmup = warmup;
	l->block_told = false;
	struct ev_schedule *s = block_of(l);
	if (s->there) {
		tell_block(l, "stands twice");
		return;
	}
	s->there = true;
	if (warmup && st->load.there)
		tell_block(l, "stands behind the load");
	if (!is_trace(st) && sched_make(&s->made, st->cell, NULL, warmup, &err))
		tell_block(l, "cannot be made again from the plan");
}

/* --- lines ------------------------------------------------------------------------------------------------
 */

static bool is_next_line(const struct ev_loader *l, const char *line, size_t len)
{
	auto_buf want = BUF_INIT(LINE_BYTES_MAX);
	struct sched_item item;
	const struct ev_schedule *s = block_of(l);
	if (!s->made || !sched_item_at(s->made, s->n, &item))
		return false;
	sched_line(&want, l->block->cell->id, kind_of(l), &item);
	return !want.failed && want.len == len && memcmp(want.p, line, len) == 0;
}

static bool read_item(struct ev_loader *l, const struct cJSON *o, struct sched_item *i)
{
	return ev_u64(l, o, "k", &i->k) && ev_u64_or_none(l, o, "due_ns", &i->due_ns) &&
	       ev_u64_or_none(l, o, "prompt_tok", &i->prompt_tok) &&
	       ev_u64_or_none(l, o, "output_tok", &i->output_tok) && ev_u64_or_none(l, o, "conv", &i->conv) &&
	       ev_u64_or_none(l, o, "turn", &i->turn) && ev_u64_or_none(l, o, "part", &i->part) &&
	       ev_bool(l, o, "canary", &i->canary);
}

static void take_of_trace(struct ev_loader *l, const struct cJSON *o)
{
	struct ev_schedule *s = block_of(l);
	struct sched_item i = { 0 };
	const struct sched_item *before = s->n_items ? &s->items[s->n_items - 1] : NULL;
	if (!read_item(l, o, &i))
		return;
	if (i.k != s->n_items)
		tell_block(l, "not numbered from 0 on");
	else if ((i.due_ns == REC_NONE) != l->block_warmup)
		tell_block(l, "due times of a trace are those of its load");
	else if (before && !l->block_warmup && i.due_ns < before->due_ns)
		tell_block(l, "due times go back");
	else if (i.prompt_tok == REC_NONE || i.output_tok == REC_NONE || i.conv != REC_NONE ||
	         i.turn != REC_NONE || i.part != REC_NONE)
		tell_block(l, "no line of a trace");
	else if (ev_room(l, &s->items, s->n_items, &s->cap_items, sizeof(i)))
		s->items[s->n_items++] = i;
	s->n = s->n_items;
}

/* A line that is not the next one of the block: the first of another block, or wrong. */
static void take_other(struct ev_loader *l, const char *line, size_t len)
{
	auto_json o = NULL;
	struct err err;
	char id[CELL_ID_BYTES], kind[16];
	if (json_parse(&o, line, len, "line", JSON_STRICT, NULL, &err) || !cJSON_IsObject(o)) {
		ev_miss(l, "no JSON object; left out");
		return;
	}
	if (!ev_str(l, o, "cell", id, sizeof(id)) || !ev_str(l, o, "kind", kind, sizeof(kind)))
		return;
	size_t cell = ev_cell(l, id);
	bool warmup = strcmp(kind, rec_kind_words[REC_WARMUP]) == 0;
	if (cell == l->e->n_cells || (!warmup && strcmp(kind, rec_kind_words[REC_LOAD]) != 0)) {
		ev_miss(l, "inconsistent: the plan has no %s of a cell %.159s", kind, id);
		return;
	}
	struct ev_cell_state *st = &l->e->cell_states[cell];
	if (st != l->block || warmup != l->block_warmup)
		begin_block(l, st, warmup);
	if (is_trace(st)) {
		take_of_trace(l, o);
		return;
	}
	if (!is_next_line(l, line, len))
		tell_block(l, "a line is not what the plan gives");
	block_of(l)->n++;
}

static void take_line(struct ev_loader *l, const char *line, size_t len)
{
	if (l->block && is_next_line(l, line, len))
		block_of(l)->n++;
	else
		take_other(l, line, len);
}

/* --- rows against it --------------------------------------------------------------------------------------
 */

static const char *row_contradicts(const struct ev_cell_state *st, const struct record *r,
                                   const struct sched_item *i)
{
	if (r->conv != i->conv || r->turn != i->turn)
		return "another conversation or turn than planned";
	if (r->part != i->part)
		return "another part of the mix than planned";
	if (r->want_output_tok != i->output_tok)
		return "another output length than planned";
	if (i->prompt_tok != REC_NONE && !i->canary && r->prompt_tok != i->prompt_tok)
		return "another prompt length than planned";
	if (r->kind != REC_LOAD || i->due_ns == REC_NONE)
		return NULL;
	if (!st->has_soundness || st->start_ns == REC_NONE)
		return "the start of its schedule is not known";
	return r->due_ns - st->start_ns != i->due_ns ? "another due time than planned" : NULL;
}

struct seen { /* a bit for each k of each block */
	uint8_t *load, *warmup;
};

static bool seen_before(struct ev_loader *l, uint8_t **bits, const struct ev_schedule *s, uint64_t k)
{
	if (!*bits && !(*bits = calloc(s->n / 8 + 1, 1))) {
		l->failed = true;
		return false;
	}
	bool was = (*bits)[k / 8] & (1u << (k % 8));
	(*bits)[k / 8] |= (uint8_t)(1u << (k % 8));
	return was;
}

static void check_row(struct ev_loader *l, struct seen *seen, const struct record *r)
{
	size_t cell = ev_cell(l, r->cell);
	bool warmup = r->kind == REC_WARMUP;
	struct sched_item item;
	if (cell == l->e->n_cells || (!warmup && r->kind != REC_LOAD))
		return;
	const struct ev_cell_state *st = &l->e->cell_states[cell];
	const struct ev_schedule *s = warmup ? &st->warmup : &st->load;
	const char *why = NULL;
	if (r->k >= s->n)
		why = "its number is not in schedule.jsonl";
	else if (seen_before(l, warmup ? &seen[cell].warmup : &seen[cell].load, s, r->k))
		why = "its number in the schedule stands twice";
	else if (ev_schedule_at(s, r->k, &item))
		why = row_contradicts(st, r, &item);
	if (why)
		ev_miss(l, "inconsistent record %" PRIu64 ": %s", r->i, why);
}

static void check_rows(struct ev_loader *l)
{
	const struct evidence *e = l->e;
	struct seen *seen = calloc(e->n_cells + 1, sizeof(*seen));
	l->failed |= !seen;
	l->file = "requests.jsonl";
	l->line_no = 0;
	for (size_t i = 0; i < e->n_records && !l->failed; i++)
		check_row(l, seen, &e->records[i]);
	for (size_t i = 0; seen && i < e->n_cells; i++) {
		free(seen[i].load);
		free(seen[i].warmup);
	}
	free(seen);
}

static bool any_cell_begun(const struct evidence *e)
{
	for (size_t i = 0; i < e->n_cells; i++)
		if (e->cell_states[i].begun)
			return true;
	return false;
}

void ev_read_schedule(struct ev_loader *l)
{
	bool there = ev_each_line(l, "schedule.jsonl", LINE_BYTES_MAX, take_line);
	end_block(l);
	if (there)
		check_rows(l);
	else if (any_cell_begun(l->e))
		ev_miss(l, "not there");
}
