/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks of telemetry series and the judgement of control answers. */
#include "model/verdict_parts.h"

#include "model/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_RESULTS_MAX 256u

/* --- memory -----------------------------------------------------------------------------------------------
 */

struct span {
	uint64_t from_ns, to_ns;
};

/* From the first due to the last end of each cell's load. */
static struct span load_span(const struct evidence *ev)
{
	struct span s = { .from_ns = REC_NONE };
	for (size_t i = 0; i < ev->n_records; i++) {
		const struct record *r = &ev->records[i];
		if (r->kind != REC_LOAD)
			continue;
		s.from_ns = r->due_ns < s.from_ns ? r->due_ns : s.from_ns;
		if (r->end_ns != REC_NONE && r->end_ns > s.to_ns)
			s.to_ns = r->end_ns;
	}
	return s;
}

double telemetry_peak(const struct evidence *ev, const char *name, uint64_t *n_known, uint64_t *n_unknown,
                      uint64_t *n_under_load)
{
	double peak = (double)NAN;
	uint64_t known = 0, unknown = 0, under_load = 0;
	struct span load = load_span(ev);
	for (size_t i = 0; i < ev->n_readings; i++) {
		const struct ev_reading *r = &ev->readings[i];
		if (strcmp(r->name, name) != 0)
			continue;
		if (isnan(r->value)) {
			unknown++;
			continue;
		}
		known++;
		under_load += r->t_ns >= load.from_ns && r->t_ns <= load.to_ns;
		peak = isnan(peak) || r->value > peak ? r->value : peak;
	}
	*n_known = known;
	*n_unknown = unknown;
	*n_under_load = under_load;
	return peak;
}

static bool is_bytes(const char *name)
{
	size_t n = strlen(name);
	return n > 6 && strcmp(name + n - 6, "_bytes") == 0;
}

/* Names and phases are interned: the same text is the same pointer. */
static struct memory_result *memory_slot(struct judge *j, const char *name, const char *phase)
{
	struct verdict *v = j->v;
	for (size_t i = 0; i < v->n_memory; i++)
		if (v->memory[i].name == name && v->memory[i].phase == phase)
			return &v->memory[i];
	if (v->n_memory == MEMORY_RESULTS_MAX)
		return NULL;
	v->memory[v->n_memory] = (struct memory_result){
		.name = name, .phase = phase, .peak = (double)NAN, .last = (double)NAN
	};
	return &v->memory[v->n_memory++];
}

static void add_reading(struct memory_result *m, double value)
{
	if (!m)
		return;
	if (isnan(value)) {
		m->n_unknown++;
		return;
	}
	m->n++;
	m->last = value;
	m->peak = isnan(m->peak) || value > m->peak ? value : m->peak;
}

void judge_memory(struct judge *j)
{
	j->v->memory = calloc(MEMORY_RESULTS_MAX, sizeof(*j->v->memory));
	if (!j->v->memory) {
		j->no_memory = true;
		return;
	}
	for (size_t i = 0; i < j->ev->n_readings; i++) {
		const struct ev_reading *r = &j->ev->readings[i];
		if (!is_bytes(r->name))
			continue;
		add_reading(memory_slot(j, r->name, NULL), r->value);
		if (r->phase)
			add_reading(memory_slot(j, r->name, r->phase), r->value);
	}
}

/* --- controls ---------------------------------------------------------------------------------------------
 */

static const struct ev_control *reference_of(const struct evidence *ev, const char *id)
{
	for (size_t i = 0; i < ev->n_controls; i++)
		if (ev->controls[i].outcome == OUTCOME_OK && strcmp(ev->controls[i].id, id) == 0)
			return &ev->controls[i];
	return NULL;
}

static void judge_answer(struct control_result *c, const struct ev_control *a,
                         const struct ev_control *reference)
{
	struct check_answer answer = {
		.outcome = a->outcome,
		.text = a->text,
		.len = a->text_len,
		.output_tok = a->output_tok,
		.reference = reference && reference != a ? reference->text : NULL,
		.reference_len = reference && reference != a ? reference->text_len : 0,
	};
	struct check_result got = check_control(c->control, &answer);
	c->n++;
	c->n_passed += got.state == CHECK_PASSED;
	c->n_unclear += got.state == CHECK_UNCLEAR;
	if (got.state != CHECK_PASSED && !c->first_failure[0])
		snprintf(c->first_failure, sizeof(c->first_failure), "round %s, repetition %" PRIu64 ": %s",
		         a->round, a->rep, got.reason);
}

void judge_controls(struct judge *j)
{
	const struct evidence *ev = j->ev;
	j->v->n_controls = ev->plan->n_controls;
	j->v->controls = calloc(j->v->n_controls + 1, sizeof(*j->v->controls));
	if (!j->v->controls) {
		j->v->n_controls = 0;
		j->no_memory = true;
		return;
	}
	for (size_t i = 0; i < j->v->n_controls; i++) {
		struct control_result *c = &j->v->controls[i];
		c->control = &ev->plan->controls[i];
		const struct ev_control *reference = reference_of(ev, c->control->id);
		for (size_t k = 0; k < ev->n_controls; k++)
			if (strcmp(ev->controls[k].id, c->control->id) == 0)
				judge_answer(c, &ev->controls[k], reference);
	}
}

static uint64_t answers_in_round(const struct evidence *ev, const char *id, const char *round)
{
	uint64_t n = 0;
	for (size_t i = 0; i < ev->n_controls; i++)
		n += strcmp(ev->controls[i].id, id) == 0 && strcmp(ev->controls[i].round, round) == 0;
	return n;
}

const char *controls_gap(const struct judge *j)
{
	const struct plan *p = j->ev->plan;
	for (size_t i = 0; i < p->n_controls; i++) {
		if (answers_in_round(j->ev, p->controls[i].id, "before") < p->control_repeats)
			return "a control was not answered as often as planned before the load";
		if (answers_in_round(j->ev, p->controls[i].id, "after") < p->control_repeats)
			return "a control was not answered as often as planned after the load";
	}
	return NULL;
}
