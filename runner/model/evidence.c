/* SPDX-License-Identifier: Apache-2.0 */
#include "model/evidence_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_FILE_BYTES_MAX (64u << 20)
#define WORDS_MAX 4096u
#define ARENA_CHUNK_BYTES 65536u

/* --- memory: one arena for every string ------------------------------------------------------------------
 */

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, cap;
	char bytes[];
};

char *ev_keep(struct ev_loader *l, const char *text, size_t len)
{
	struct arena_chunk *c = l->e->arena;
	if (!c || c->cap - c->used < len + 1) {
		size_t cap = len + 1 > ARENA_CHUNK_BYTES ? len + 1 : ARENA_CHUNK_BYTES;
		struct arena_chunk *fresh = malloc(sizeof(*fresh) + cap);
		if (!fresh) {
			l->failed = true;
			return NULL;
		}
		*fresh = (struct arena_chunk){ .next = c, .cap = cap };
		l->e->arena = c = fresh;
	}
	char *at = c->bytes + c->used;
	memcpy(at, text, len);
	at[len] = '\0';
	c->used += len + 1;
	return at;
}

const char *ev_word(struct ev_loader *l, const char *text)
{
	for (size_t i = l->n_words; i-- > 0;)
		if (strcmp(l->words[i], text) == 0)
			return l->words[i];
	if (l->n_words >= WORDS_MAX || !ev_room(l, &l->words, l->n_words, &l->cap_words, sizeof(*l->words)))
		return NULL;
	const char *kept = ev_keep(l, text, strlen(text));
	if (kept)
		l->words[l->n_words++] = kept;
	return kept;
}

bool ev_room(struct ev_loader *l, void *list, size_t n, size_t *cap, size_t elem_bytes)
{
	if (n < *cap)
		return true;
	size_t want = *cap ? *cap * 2 : 16;
	void *old, *fresh;
	memcpy(&old, list, sizeof(old));
	if (want > SIZE_MAX / 2 / elem_bytes || !(fresh = realloc(old, want * elem_bytes))) {
		l->failed = true;
		return false;
	}
	memcpy(list, &fresh, sizeof(fresh));
	*cap = want;
	return true;
}

void ev_add_line(struct ev_loader *l, char ***list, size_t *n, size_t *cap, const char *text)
{
	if (*n >= MISSING_MAX || !ev_room(l, list, *n, cap, sizeof(**list)))
		return;
	char *kept = ev_keep(l, text, strlen(text));
	if (kept)
		(*list)[(*n)++] = kept;
}

void ev_miss(struct ev_loader *l, const char *fmt, ...)
{
	char text[700];
	struct err line;
	va_list ap;
	if (l->e->n_missing >= MISSING_MAX) {
		l->n_left_out++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* err_set makes it one clean line: text from outside may stand in it */
	if (l->line_no)
		(void)err_set(&line, ERR_NONE, "%s:%" PRIu64 ": %s", l->file, l->line_no, text);
	else
		(void)err_set(&line, ERR_NONE, "%s: %s", l->file, text);
	ev_add_line(l, &l->e->missing, &l->e->n_missing, &l->cap_missing, line.msg);
}

/* --- lines ------------------------------------------------------------------------------------------------
 */

bool ev_each_line(struct ev_loader *l, const char *file, size_t max_line_bytes,
                  void (*take)(struct ev_loader *l, const char *line, size_t len))
{
	const struct member *m = member_find(l->set, file);
	l->file = file;
	l->line_no = 0;
	if (!m)
		return false;
	const char *p = (const char *)m->data, *end = m->len ? p + m->len : p;
	while (p < end && !l->failed) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		l->line_no++;
		if (!nl)
			ev_miss(l, "cut: the last line has %zu bytes and no newline; left out", len);
		else if (len > max_line_bytes)
			ev_miss(l, "line of %zu bytes, at most %zu are read; left out", len, max_line_bytes);
		else
			take(l, p, len);
		p += len + 1;
	}
	l->line_no = 0;
	return true;
}

static void line_to_object(struct ev_loader *l, const char *line, size_t len)
{
	auto_json doc = NULL;
	struct err err;
	if (json_parse(&doc, line, len, "line", JSON_STRICT, NULL, &err))
		ev_miss(l, "cannot be read, left out: %.300s", err.msg);
	else if (!cJSON_IsObject(doc))
		ev_miss(l, "no JSON object; left out");
	else
		l->take(l, doc);
}

bool ev_each_object(struct ev_loader *l, const char *file, size_t max_line_bytes,
                    void (*take)(struct ev_loader *l, const struct cJSON *obj))
{
	l->take = take;
	return ev_each_line(l, file, max_line_bytes, line_to_object);
}

/* --- members of a line ------------------------------------------------------------------------------------
 */

bool ev_u64(struct ev_loader *l, const struct cJSON *obj, const char *key, uint64_t *out)
{
	if (json_u64(obj, key, out))
		return true;
	ev_miss(l, "want a whole number in \"%s\"", key);
	return false;
}

bool ev_u64_or_none(struct ev_loader *l, const struct cJSON *obj, const char *key, uint64_t *out)
{
	const struct cJSON *v = json_get(obj, key);
	if (v && cJSON_IsNull(v)) {
		*out = REC_NONE;
		return true;
	}
	return ev_u64(l, obj, key, out);
}

bool ev_str(struct ev_loader *l, const struct cJSON *obj, const char *key, char *out, size_t out_bytes)
{
	const char *s = json_str(obj, key);
	if (!s) {
		ev_miss(l, "want a text in \"%s\"", key);
		return false;
	}
	size_t len = strlen(s);
	if (len >= out_bytes) {
		ev_miss(l, "text in \"%s\" has %zu bytes, at most %zu", key, len, out_bytes - 1);
		return false;
	}
	memcpy(out, s, len + 1);
	return true;
}

bool ev_text_or_null(struct ev_loader *l, const struct cJSON *obj, const char *key, const char **out,
                     size_t *len)
{
	const struct cJSON *v = json_get(obj, key);
	const char *s = json_str(obj, key);
	if (!s && !cJSON_IsNull(v)) {
		ev_miss(l, "want a text or null in \"%s\"", key);
		return false;
	}
	*len = s ? strlen(s) : 0;
	*out = s ? ev_keep(l, s, *len) : NULL;
	return !s || *out;
}

bool ev_bool(struct ev_loader *l, const struct cJSON *obj, const char *key, bool *out)
{
	if (json_bool(obj, key, out))
		return true;
	ev_miss(l, "want true or false in \"%s\"", key);
	return false;
}

size_t ev_cell(struct ev_loader *l, const char *id)
{
	const struct evidence *e = l->e;
	if (l->last_cell < e->n_cells && strcmp(e->cells[l->last_cell].id, id) == 0)
		return l->last_cell;
	for (size_t i = 0; i < e->n_cells; i++)
		if (strcmp(e->cells[i].id, id) == 0)
			return l->last_cell = i;
	return e->n_cells;
}

/* --- the whole --------------------------------------------------------------------------------------------
 */

static int load_plan(struct evidence *e, const struct member_set *set, struct err *err)
{
	auto_problems problems = { 0 };
	const struct member *m = member_find(set, "plan.json");
	if (!m)
		return err_set(err, ERR_PLAN, "plan.json: not there, so there is nothing to report on");
	if (m->len > PLAN_BYTES_MAX)
		return err_set(err, ERR_PLAN, "plan.json: %zu bytes, at most %u", m->len, PLAN_BYTES_MAX);
	if (plan_parse(&e->plan, m->len ? (const char *)m->data : "", m->len, "plan.json", &problems, err))
		return -1;
	e->cells = cells_of_plan(e->plan, &e->n_cells);
	e->cell_states = calloc(e->n_cells + 1, sizeof(*e->cell_states));
	if (!e->cells || !e->cell_states)
		return err_set(err, ERR_ENV, "no memory for the cells of the plan");
	for (size_t i = 0; i < e->n_cells; i++)
		e->cell_states[i].cell = &e->cells[i];
	return 0;
}

static void load_json(struct ev_loader *l, struct cJSON **out, const char *file)
{
	struct err err;
	const struct member *m = member_find(l->set, file);
	l->file = file;
	l->line_no = 0;
	if (!m)
		ev_miss(l, "not there");
	else if (m->len > SMALL_FILE_BYTES_MAX)
		ev_miss(l, "%zu bytes, at most %u are read", m->len, SMALL_FILE_BYTES_MAX);
	else if (json_parse(out, m->len ? (const char *)m->data : "", m->len, file, JSON_STRICT, NULL, &err))
		ev_miss(l, "cannot be read: %.300s", err.msg);
}

static bool any_start_ready(const struct evidence *e)
{
	for (size_t i = 0; i < e->n_starts; i++)
		if (e->starts[i].first_completion_ns != REC_NONE)
			return true;
	return false;
}

/* The journal counts what the load engine started; each of them has a record, or rows were lost. */
static void check_counts(struct ev_loader *l)
{
	l->file = "requests.jsonl";
	l->line_no = 0;
	for (size_t i = 0; i < l->e->n_cells; i++) {
		const struct ev_cell_state *st = &l->e->cell_states[i];
		uint64_t n = l->n_load[i];
		if (st->ended && st->scheduled != n)
			ev_miss(l,
			        "inconsistent: %" PRIu64
			        " load records of cell %s, the journal counts %" PRIu64,
			        n, st->cell->id, st->scheduled);
		else if (!st->begun && n)
			ev_miss(l, "inconsistent: %" PRIu64 " load records of cell %s, which never began", n,
			        st->cell->id);
	}
}

static void finish(struct ev_loader *l)
{
	struct evidence *e = l->e;
	check_counts(l);
	e->engine_never_ready = l->began && !any_start_ready(e);
	l->line_no = 0;
	if (!l->n_left_out)
		return;
	char text[80];
	snprintf(text, sizeof(text), "and %zu more, not listed", l->n_left_out);
	if (!ev_room(l, &e->missing, e->n_missing, &l->cap_missing, sizeof(*e->missing)))
		return;
	char *kept = ev_keep(l, text, strlen(text));
	if (kept)
		e->missing[e->n_missing++] = kept;
}

int evidence_load(struct evidence *out, const struct member_set *set, struct err *err)
{
	struct evidence e = { 0 };
	if (load_plan(&e, set, err)) {
		evidence_done(&e);
		return -1;
	}
	struct ev_loader l = { .e = &e, .set = set, .n_load = calloc(e.n_cells + 1, sizeof(uint64_t)) };
	l.failed = !l.n_load;
	load_json(&l, &e.lock, "plan.lock.json");
	load_json(&l, &e.facts, "facts.json");
	if (!l.failed) {
		ev_read_events(&l);
		ev_read_requests(&l);
		ev_read_schedule(&l);
		ev_read_answers(&l);
		ev_read_engine_metrics(&l);
		ev_read_controls(&l);
		ev_read_telemetry(&l);
		finish(&l);
	}
	free(l.words);
	free(l.n_load);
	if (l.failed) {
		evidence_done(&e);
		return err_set(err, ERR_ENV, "no memory for the evidence of this run");
	}
	*out = e;
	return 0;
}

void evidence_done(struct evidence *e)
{
	struct arena_chunk *next;
	for (struct arena_chunk *c = e->arena; c; c = next) {
		next = c->next;
		free(c);
	}
	for (size_t i = 0; e->cell_states && i < e->n_cells; i++) {
		struct ev_cell_state *st = &e->cell_states[i];
		sched_free(st->load.made);
		sched_free(st->warmup.made);
		free(st->load.items);
		free(st->warmup.items);
	}
	plan_free(e->plan);
	cJSON_Delete(e->lock);
	cJSON_Delete(e->facts);
	free(e->cells);
	free(e->cell_states);
	free(e->records);
	free(e->answers);
	free(e->calibrations);
	free(e->controls);
	free(e->readings);
	free(e->starts);
	free(e->phases);
	free(e->labels);
	free(e->differences);
	free(e->missing);
	free(e->not_tested);
	*e = (struct evidence){ 0 };
}
