/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the run: requests with their tokens, control answers, telemetry. */
#include "model/evidence_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REQUEST_LINE_BYTES_MAX (64u << 10)
#define CONTROL_LINE_BYTES_MAX (16u << 20)
#define TELEMETRY_LINE_BYTES_MAX (16u << 10)

/* --- requests ---------------------------------------------------------------------------------------------
 */

static void count_load(struct ev_loader *l, const struct record *r)
{
	size_t cell = ev_cell(l, r->cell);
	if (r->kind != REC_LOAD && r->kind != REC_WARMUP)
		return;
	if (cell == l->e->n_cells)
		ev_miss(l, "inconsistent record %" PRIu64 ": the plan has no cell %s", r->i, r->cell);
	else if (r->kind == REC_LOAD)
		l->n_load[cell]++;
}

static void take_request(struct ev_loader *l, const char *line, size_t len)
{
	struct evidence *e = l->e;
	struct err err;
	if (!ev_room(l, &e->records, e->n_records, &l->cap_records, sizeof(*e->records)))
		return;
	struct record *r = &e->records[e->n_records];
	record_init(r);
	if (record_read(r, line, len, "line", l->line_no, &err)) {
		ev_miss(l, "cannot be read, left out: %.300s", err.msg);
		return;
	}
	if (r->i != l->next_record)
		ev_miss(l, "inconsistent record %" PRIu64 ": record %" PRIu64 " should stand here", r->i,
		        l->next_record);
	l->next_record = r->i + 1;
	ev_check_record(l, r, &l->tokens_used);
	count_load(l, r);
	if (r->end_ns != REC_NONE && r->end_ns > e->end_ns)
		e->end_ns = r->end_ns;
	e->n_records++;
}

static bool any_cell_begun(const struct evidence *e)
{
	for (size_t i = 0; i < e->n_cells; i++)
		if (e->cell_states[i].begun)
			return true;
	return false;
}

void ev_read_requests(struct ev_loader *l)
{
	struct evidence *e = l->e;
	const struct member *tokens = member_find(l->set, "tokens.bin");
	if (tokens) {
		e->tokens = tokens->data;
		e->tokens_len = tokens->len;
	}
	uint64_t journal_end_ns = e->end_ns;
	if (!ev_each_line(l, "requests.jsonl", REQUEST_LINE_BYTES_MAX, take_request) && any_cell_begun(e))
		ev_miss(l, "not there");
	if (e->status[0] && e->end_ns > journal_end_ns)
		ev_miss(l, "inconsistent: a record ends after the run's end");
	l->file = "tokens.bin";
	l->line_no = 0;
	if (!tokens && any_cell_begun(e))
		ev_miss(l, "not there");
	if (e->tokens_len > l->tokens_used)
		ev_miss(l, "inconsistent: %" PRIu64 " bytes belong to no record",
		        e->tokens_len - l->tokens_used);
}

/* --- controls ---------------------------------------------------------------------------------------------
 */

static bool find_outcome(const char *word, enum outcome *out)
{
	for (int i = 0; outcome_words[i]; i++)
		if (strcmp(outcome_words[i], word) == 0) {
			*out = (enum outcome)i;
			return true;
		}
	return false;
}

const struct record *ev_record(const struct evidence *e, uint64_t i)
{
	size_t lo = 0, hi = e->n_records;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (e->records[mid].i < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < e->n_records && e->records[lo].i == i ? &e->records[lo] : NULL;
}

static bool known_control(const struct evidence *e, const char *id)
{
	for (size_t i = 0; i < e->plan->n_controls; i++)
		if (strcmp(e->plan->controls[i].id, id) == 0)
			return true;
	return false;
}

static void check_control(struct ev_loader *l, const struct ev_control *c)
{
	const struct record *r = ev_record(l->e, c->request);
	if (!known_control(l->e, c->id))
		ev_miss(l, "inconsistent: the plan has no control %s", c->id);
	if (!r || r->kind != REC_CONTROL || r->outcome != c->outcome || r->start != c->start)
		ev_miss(l, "inconsistent: request %" PRIu64 " is not the record of this control", c->request);
}

static void take_control(struct ev_loader *l, const struct cJSON *o)
{
	struct evidence *e = l->e;
	struct ev_control c = { 0 };
	char outcome[24];
	uint64_t i;
	if (!ev_u64(l, o, "i", &i) || !ev_str(l, o, "id", c.id, sizeof(c.id)) ||
	    !ev_str(l, o, "round", c.round, sizeof(c.round)) || !ev_u64(l, o, "rep", &c.rep) ||
	    !ev_u64(l, o, "start", &c.start) || !ev_u64(l, o, "request", &c.request) ||
	    !ev_str(l, o, "outcome", outcome, sizeof(outcome)) ||
	    !ev_u64_or_none(l, o, "output_tok", &c.output_tok))
		return;
	if (!find_outcome(outcome, &c.outcome)) {
		ev_miss(l, "unknown outcome %s", outcome);
		return;
	}
	if (i != l->next_control)
		ev_miss(l, "inconsistent: control %" PRIu64 ", want %" PRIu64, i, l->next_control);
	l->next_control = i + 1;
	const char *text = json_str(o, "text");
	if (!text && !cJSON_IsNull(json_get(o, "text"))) {
		ev_miss(l, "want a text or null in \"text\"");
		return;
	}
	if (!text && c.outcome == OUTCOME_OK)
		ev_miss(l, "inconsistent: ok without a text");
	c.text_len = text ? strlen(text) : 0;
	c.text = ev_keep(l, text ? text : "", c.text_len);
	check_control(l, &c);
	if (c.text && ev_room(l, &e->controls, e->n_controls, &l->cap_controls, sizeof(c)))
		e->controls[e->n_controls++] = c;
}

void ev_read_controls(struct ev_loader *l)
{
	const struct evidence *e = l->e;
	uint64_t n = 0;
	bool there = ev_each_object(l, "controls.jsonl", CONTROL_LINE_BYTES_MAX, take_control);
	for (size_t i = 0; i < e->n_records; i++)
		n += e->records[i].kind == REC_CONTROL;
	if (!there && n)
		ev_miss(l, "not there");
	else if (there && n != e->n_controls)
		ev_miss(l, "inconsistent: %zu answers, %" PRIu64 " control requests", e->n_controls, n);
}

/* --- telemetry --------------------------------------------------------------------------------------------
 */

static void take_reading(struct ev_loader *l, const struct cJSON *o)
{
	struct evidence *e = l->e;
	struct ev_reading r = { .value = (double)NAN };
	const char *name = json_str(o, "name"), *source = json_str(o, "source"),
		   *phase = json_str(o, "phase");
	const struct cJSON *value = json_get(o, "value");
	if (!ev_u64(l, o, "t_ns", &r.t_ns))
		return;
	if (!name || !source) {
		ev_miss(l, "want texts in \"name\" and \"source\"");
		return;
	}
	if (!value || (!cJSON_IsNull(value) && !json_num(o, "value", &r.value))) {
		ev_miss(l, "want a number or null in \"value\"");
		return;
	}
	if (!phase && !cJSON_IsNull(json_get(o, "phase"))) {
		ev_miss(l, "want a text or null in \"phase\"");
		return;
	}
	r.name = ev_word(l, name);
	r.source = ev_word(l, source);
	r.phase = phase ? ev_word(l, phase) : NULL;
	if (!r.name || !r.source || (phase && !r.phase)) {
		ev_miss(l, "too many different names");
		return;
	}
	if (ev_room(l, &e->readings, e->n_readings, &l->cap_readings, sizeof(r)))
		e->readings[e->n_readings++] = r;
	e->end_ns = r.t_ns > e->end_ns ? r.t_ns : e->end_ns;
}

void ev_read_telemetry(struct ev_loader *l)
{
	if (!ev_each_object(l, "telemetry.jsonl", TELEMETRY_LINE_BYTES_MAX, take_reading) && l->e->n_starts)
		ev_miss(l, "not there");
}
