/* SPDX-License-Identifier: Apache-2.0 */
/* What the texts of load answers told, and the engine's own metrics around each cell. */
#include "model/canary.h"
#include "model/evidence_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LINE_BYTES_MAX (16u << 20)

const struct ev_answer *ev_answer_of(const struct evidence *e, uint64_t i)
{
	size_t lo = 0, hi = e->n_answers;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (e->answers[mid].i < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < e->n_answers && e->answers[lo].i == i ? &e->answers[lo] : NULL;
}

/* --- answers.jsonl ----------------------------------------------------------------------------------------
 */

static bool share_or_none(struct ev_loader *l, const struct cJSON *o, const char *key, double *out)
{
	const struct cJSON *v = json_get(o, key);
	*out = (double)NAN;
	if (cJSON_IsNull(v) || (json_num(o, key, out) && *out >= 0))
		return true;
	ev_miss(l, "want a share or null in \"%s\"", key);
	return false;
}

static bool read_answer(struct ev_loader *l, const struct cJSON *o, struct ev_answer *a, char *cell,
                        size_t cell_bytes)
{
	size_t len;
	return ev_u64(l, o, "i", &a->i) && ev_str(l, o, "cell", cell, cell_bytes) &&
	       ev_u64(l, o, "k", &a->k) && ev_u64_or_none(l, o, "chars", &a->chars) &&
	       ev_u64_or_none(l, o, "distinct", &a->distinct) &&
	       ev_u64_or_none(l, o, "max_run", &a->max_run) &&
	       share_or_none(l, o, "zlib_share", &a->zlib_share) &&
	       share_or_none(l, o, "rep4_share", &a->rep4_share) &&
	       share_or_none(l, o, "foreign_share", &a->foreign_share) &&
	       ev_u64_or_none(l, o, "special", &a->special) &&
	       ev_text_or_null(l, o, "nonce", &a->nonce, &len) &&
	       ev_text_or_null(l, o, "expected", &a->expected, &len) &&
	       ev_text_or_null(l, o, "text", &a->text, &a->text_len);
}

static bool is_canary(const struct evidence *e, size_t cell, uint64_t k)
{
	struct sched_item item;
	return ev_schedule_at(&e->cell_states[cell].load, k, &item) && item.canary;
}

/* The counters are of one text: all of them are there or none, and none of a part is above the whole. */
static const char *counters_contradict(const struct ev_answer *a)
{
	bool none = a->chars == REC_NONE;
	if (none != (a->distinct == REC_NONE) || none != (a->max_run == REC_NONE))
		return "some of its counters are missing";
	if (!none && (a->distinct > a->chars || a->max_run > a->chars))
		return "more characters of a kind than characters";
	if (a->rep4_share > 1 || a->foreign_share > 1)
		return "a share above 1";
	return NULL;
}

static const char *answer_contradicts(const struct evidence *e, const struct ev_answer *a)
{
	const char *why = counters_contradict(a);
	if (why)
		return why;
	char nonce[CANARY_NONCE_BYTES];
	if (!is_canary(e, a->cell, a->k))
		return a->nonce || a->expected ? "the schedule has no canary of this number" : NULL;
	canary_nonce(nonce, e->cells[a->cell].id, rec_kind_words[REC_LOAD], a->k,
	             e->cells[a->cell].wl->arrival.seed);
	if (!a->nonce || strcmp(a->nonce, nonce) != 0)
		return "not the nonce of this canary";
	if (!a->expected || strcmp(a->expected, canary_question_of(a->k)->answer) != 0)
		return "not the answer expected of this canary";
	return a->text ? NULL : "a canary without its text";
}

static void take_answer(struct ev_loader *l, const struct cJSON *o)
{
	struct evidence *e = l->e;
	struct ev_answer a = { 0 };
	char id[CELL_ID_BYTES];
	if (!read_answer(l, o, &a, id, sizeof(id)))
		return;
	const struct record *r = ev_record(e, a.i);
	a.cell = ev_cell(l, id);
	if (e->n_answers && a.i <= e->answers[e->n_answers - 1].i) {
		ev_miss(l, "inconsistent: answer %" PRIu64 " is out of order; left out", a.i);
		return;
	}
	if (a.cell == e->n_cells || !r || r->kind != REC_LOAD || strcmp(r->cell, id) != 0 || r->k != a.k) {
		ev_miss(l, "inconsistent: no load record %" PRIu64 " of this cell and number; left out", a.i);
		return;
	}
	const char *why = answer_contradicts(e, &a);
	if (why)
		ev_miss(l, "inconsistent: answer %" PRIu64 ": %s", a.i, why);
	if (ev_room(l, &e->answers, e->n_answers, &l->cap_answers, sizeof(a)))
		e->answers[e->n_answers++] = a;
}

/* Which line an ok record must have: NULL = none is needed, or it is there. */
static const char *answer_missing(struct ev_loader *l, const struct record *r)
{
	const struct evidence *e = l->e;
	size_t cell = r->kind == REC_LOAD && r->outcome == OUTCOME_OK ? ev_cell(l, r->cell) : e->n_cells;
	if (cell == e->n_cells)
		return NULL;
	bool counters = e->cells[cell].wl->text_counters && r->text_chars > 0;
	if (!counters && !is_canary(e, cell, r->k))
		return NULL;
	const struct ev_answer *a = ev_answer_of(e, r->i);
	if (!a)
		return "no line for it";
	return counters && a->chars == REC_NONE ? "its text was not counted" : NULL;
}

void ev_read_answers(struct ev_loader *l)
{
	const struct evidence *e = l->e;
	bool there = ev_each_object(l, "answers.jsonl", LINE_BYTES_MAX, take_answer);
	for (size_t i = 0; i < e->n_records && !l->failed; i++) {
		const char *why = answer_missing(l, &e->records[i]);
		if (!why)
			continue;
		if (!there) {
			ev_miss(l, "not there");
			return;
		}
		ev_miss(l, "inconsistent: record %" PRIu64 ": %s", e->records[i].i, why);
	}
}

/* --- engine_metrics.jsonl ---------------------------------------------------------------------------------
 */

static void take_page(struct ev_loader *l, const struct cJSON *o)
{
	struct evidence *e = l->e;
	struct ev_page p = { .there = true };
	char id[CELL_ID_BYTES], when[8];
	uint64_t t_ns;
	if (!ev_u64(l, o, "t_ns", &t_ns) || !ev_str(l, o, "cell", id, sizeof(id)) ||
	    !ev_str(l, o, "when", when, sizeof(when)) || !ev_u64_or_none(l, o, "status", &p.status) ||
	    !ev_text_or_null(l, o, "page", &p.text, &p.len))
		return;
	size_t cell = ev_cell(l, id);
	bool after = strcmp(when, "after") == 0;
	if (cell == e->n_cells || (!after && strcmp(when, "before") != 0)) {
		ev_miss(l, "inconsistent: no time %s a cell %.159s", when, id);
		return;
	}
	struct ev_page *at = after ? &e->cell_states[cell].after : &e->cell_states[cell].before;
	if (at->there)
		ev_miss(l, "inconsistent: page %s cell %.140s told before", when, id);
	else if ((p.status == 200) != (p.text != NULL))
		ev_miss(l, "inconsistent: a page belongs to status 200 and to no other");
	else
		*at = p;
}

void ev_read_engine_metrics(struct ev_loader *l)
{
	(void)ev_each_object(l, "engine_metrics.jsonl", LINE_BYTES_MAX, take_page);
}
