/* SPDX-License-Identifier: Apache-2.0 */
/* A run directory made by hand, in memory: a closed loop of one stream on a pretended clock. Shared by the
 * unit tests of evidence and verdict and by the program that makes the golden run. Nothing in it is measured.
 */
#ifndef TESTS_RUNDIR_MAKER_H
#define TESTS_RUNDIR_MAKER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "model/evidence.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAKER_MS NS_PER_MS
#define MAKER_FILE_BYTES (2048u << 20)

enum maker_file {
	MF_PLAN,
	MF_LOCK,
	MF_FACTS,
	MF_EVENTS,
	MF_REQUESTS,
	MF_TOKENS,
	MF_CONTROLS,
	MF_TELEMETRY,
	MF_N
};
static const char *const maker_names[MF_N] = { "plan.json",      "plan.lock.json", "facts.json",
	                                       "events.jsonl",   "requests.jsonl", "tokens.bin",
	                                       "controls.jsonl", "telemetry.jsonl" };

struct maker {
	struct buf file[MF_N];
	bool absent[MF_N];
	uint64_t seq, t_ns, n_records, n_controls, seed;
	struct json_out event;
};

/* What happens to a load request. */
struct made_request {
	uint64_t ttft_ns, gap_ns, out_tok;
	uint64_t lag_ns; /* sent - due */
	enum outcome outcome;
	uint64_t events;           /* token events; 0 = out_tok */
	uint64_t usage_output_tok; /* 0 = out_tok; REC_NONE = not told */
};

static inline uint64_t maker_random(struct maker *m)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return m->seed >> 33;
}

static inline void maker_init(struct maker *m)
{
	*m = (struct maker){ .seed = 7 };
	for (int i = 0; i < MF_N; i++)
		buf_init(&m->file[i], MAKER_FILE_BYTES);
}

static inline void maker_done(struct maker *m)
{
	for (int i = 0; i < MF_N; i++)
		buf_done(&m->file[i]);
}

static inline void maker_put(struct maker *m, enum maker_file f, const char *text)
{
	buf_clear(&m->file[f]);
	buf_adds(&m->file[f], text);
}

/* Plan, its lock, and facts. */
static inline void maker_plan(struct maker *m, const char *plan)
{
	char hex[SHA256_HEX_BYTES];
	maker_put(m, MF_PLAN, plan);
	sha256_hex_of(plan, strlen(plan), hex);
	buf_clear(&m->file[MF_LOCK]);
	buf_addf(&m->file[MF_LOCK], "{\"schema_version\": 1, \"rules\": 1, \"plan_sha256\": \"%s\"}\n", hex);
	maker_put(m, MF_FACTS, "{\"schema_version\": 1}\n");
}

/* --- journal
 * ------------------------------------------------------------------------------------------------- */

static inline struct json_out *maker_event(struct maker *m, const char *ev)
{
	jo_init(&m->event, &m->file[MF_EVENTS], 0);
	jo_obj(&m->event, NULL);
	jo_u64(&m->event, "seq", m->seq++);
	jo_u64(&m->event, "t_ns", m->t_ns);
	jo_str(&m->event, "ev", ev);
	return &m->event;
}

static inline void maker_event_end(struct maker *m)
{
	jo_end(&m->event);
	buf_addc(&m->file[MF_EVENTS], '\n');
}

static inline void maker_begin(struct maker *m, const char *wall, const char *label)
{
	struct json_out *o = maker_event(m, "run_begin");
	jo_str(o, "run_id", "00112233445566778899aabbccddeeff");
	jo_str(o, "wall", wall);
	jo_str(o, "candidate", "cpu");
	jo_u64(o, "attempt", 1);
	jo_null(o, "previous_attempt_sha256");
	jo_str(o, "version", "0.1.0");
	jo_null(o, "binary_sha256");
	jo_str(o, "clock_source", "tsc");
	jo_arr(o, "labels");
	if (label)
		jo_str(o, NULL, label);
	jo_end_arr(o);
	maker_event_end(m);
}

static inline void maker_phase(struct maker *m, const char *ev, const char *phase)
{
	struct json_out *o = maker_event(m, ev);
	jo_str(o, "phase", phase);
	if (strcmp(ev, "phase_end") == 0) {
		jo_bool(o, "ok", true);
		jo_null(o, "reason");
	}
	maker_event_end(m);
}

/* took_ns REC_NONE: it never gets ready. */
static inline void maker_start(struct maker *m, uint64_t number, const char *why, uint64_t took_ns)
{
	uint64_t spawn_ns = m->t_ns;
	struct json_out *o = maker_event(m, "engine_spawn");
	jo_u64(o, "start", number);
	jo_str(o, "why", why);
	maker_event_end(m);
	m->t_ns += took_ns == REC_NONE ? 1000 * MAKER_MS : took_ns + MAKER_MS;
	o = maker_event(m, took_ns == REC_NONE ? "engine_not_ready" : "engine_ready");
	jo_u64(o, "start", number);
	jo_str(o, "why", why);
	jo_u64(o, "spawn_ns", spawn_ns);
	if (took_ns == REC_NONE) {
		jo_null(o, "health_ns");
		jo_null(o, "first_completion_ns");
		jo_str(o, "message", "exit status 1");
	} else {
		jo_u64(o, "health_ns", spawn_ns + took_ns / 2);
		jo_u64(o, "first_completion_ns", spawn_ns + took_ns);
	}
	maker_event_end(m);
}

static inline void maker_exit(struct maker *m, uint64_t number, bool expected)
{
	struct json_out *o = maker_event(m, "engine_exit");
	jo_u64(o, "start", number);
	jo_u64(o, "status", expected ? 0 : 139);
	jo_null(o, "signal");
	jo_bool(o, "expected", expected);
	maker_event_end(m);
}

static inline void maker_cell_begin(struct maker *m, const char *cell, uint64_t planned)
{
	struct json_out *o = maker_event(m, "cell_begin");
	jo_str(o, "cell", cell);
	jo_u64(o, "planned", planned);
	maker_event_end(m);
}

struct made_soundness {
	uint64_t send_lag_ns, loop_lag_ns, client_cpu_ns, steal_ticks, total_ticks, max_in_flight;
};

static inline void maker_soundness(struct maker *m, const char *cell, uint64_t wall_ns,
                                   const struct made_soundness *s)
{
	struct json_out *o = maker_event(m, "soundness");
	jo_str(o, "cell", cell);
	jo_u64(o, "send_lag_p50_ns", s->send_lag_ns / 2);
	jo_u64(o, "send_lag_p99_ns", s->send_lag_ns);
	jo_u64(o, "send_lag_max_ns", s->send_lag_ns);
	jo_u64(o, "loop_lag_p50_ns", s->loop_lag_ns / 2);
	jo_u64(o, "loop_lag_p99_ns", s->loop_lag_ns);
	jo_u64(o, "loop_lag_max_ns", s->loop_lag_ns);
	jo_u64(o, "loop_lag_n", 100);
	jo_u64(o, "client_cpu_ns", s->client_cpu_ns);
	jo_u64(o, "wall_ns", wall_ns);
	jo_u64(o, "steal_ticks", s->steal_ticks);
	jo_u64(o, "total_ticks", s->total_ticks);
	jo_u64(o, "max_in_flight", s->max_in_flight);
	maker_event_end(m);
}

static inline void maker_cell_end(struct maker *m, const char *cell, uint64_t scheduled, uint64_t done,
                                  const char *stopped_by, uint64_t wall_ns)
{
	struct json_out *o = maker_event(m, "cell_end");
	jo_str(o, "cell", cell);
	jo_u64(o, "scheduled", scheduled);
	jo_u64(o, "done", done);
	jo_str(o, "stopped_by", stopped_by);
	jo_u64(o, "wall_ns", wall_ns);
	maker_event_end(m);
}

static inline void maker_end(struct maker *m, const char *status)
{
	struct json_out *o = maker_event(m, "run_end");
	jo_str(o, "status", status);
	maker_event_end(m);
}

/* --- requests
 * ------------------------------------------------------------------------------------------------ */

static inline void maker_tokens(struct maker *m, struct record *r, const struct made_request *q)
{
	uint64_t n = q->events ? q->events : q->out_tok, at = r->first_token_ns;
	uint8_t leb[10];
	r->tok_off = m->file[MF_TOKENS].len;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t delta = k ? q->gap_ns : r->first_token_ns - r->sent_ns;
		at += k ? q->gap_ns : 0;
		buf_add(&m->file[MF_TOKENS], leb, leb128_put(leb, delta));
	}
	r->tok_bytes = m->file[MF_TOKENS].len - r->tok_off;
	r->tok_n = r->reads = n;
	r->last_token_ns = at;
}

static inline void maker_request(struct maker *m, const char *cell, enum rec_kind kind,
                                 const struct made_request *q)
{
	struct record r;
	record_init(&r);
	r.i = m->n_records++;
	snprintf(r.cell, sizeof(r.cell), "%s", cell);
	r.kind = kind;
	r.start = 1;
	r.slot = 0;
	r.due_ns = m->t_ns;
	r.sent_ns = r.due_ns + q->lag_ns;
	r.prompt_tok = 32;
	r.want_output_tok = 16;
	r.outcome = q->outcome;
	r.tok_off = m->file[MF_TOKENS].len;
	r.tok_n = r.tok_bytes = r.bytes = r.reads = r.max_events_per_read = 0;
	r.text_chars = r.bad_chars = r.max_same_run = r.warnings = 0;
	r.http = q->outcome == OUTCOME_HTTP_STATUS ? 503 : 200;
	r.end_ns = r.sent_ns + q->ttft_ns;
	if (q->outcome == OUTCOME_OK || q->outcome == OUTCOME_TRUNCATED || q->outcome == OUTCOME_STALLED) {
		r.first_token_ns = r.due_ns + (q->ttft_ns > q->lag_ns ? q->ttft_ns : q->lag_ns);
		r.first_byte_ns = r.first_content_ns = r.first_token_ns;
		maker_tokens(m, &r, q);
		r.max_events_per_read = 1;
		r.bytes = r.tok_n * 200;
		r.end_ns = r.last_token_ns + MAKER_MS;
	}
	if (q->outcome == OUTCOME_OK) {
		snprintf(r.finish, sizeof(r.finish), "length");
		r.usage_prompt_tok = q->usage_output_tok == REC_NONE ? REC_NONE : 32;
		r.usage_output_tok = q->usage_output_tok ? q->usage_output_tok : q->out_tok;
	}
	record_write(&m->file[MF_REQUESTS], &r);
	m->t_ns = r.end_ns;
}

static inline void maker_control(struct maker *m, const char *id, const char *round, const char *text)
{
	char cell[100];
	struct json_out o;
	struct buf *b = &m->file[MF_CONTROLS];
	struct made_request q = { .ttft_ns = 50 * MAKER_MS,
		                  .gap_ns = MAKER_MS,
		                  .out_tok = 4,
		                  .outcome = text ? OUTCOME_OK : OUTCOME_RESET };
	snprintf(cell, sizeof(cell), "control/%s", id);
	maker_request(m, cell, REC_CONTROL, &q);
	jo_init(&o, b, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "i", m->n_controls++);
	jo_str(&o, "id", id);
	jo_str(&o, "round", round);
	jo_u64(&o, "rep", 0);
	jo_u64(&o, "start", 1);
	jo_u64(&o, "request", m->n_records - 1);
	jo_str(&o, "outcome", text ? "ok" : "reset");
	jo_str(&o, "finish", text ? "stop" : NULL);
	if (text)
		jo_u64(&o, "output_tok", 4);
	else
		jo_null(&o, "output_tok");
	jo_str(&o, "text", text);
	jo_end(&o);
	buf_addc(b, '\n');
}

static inline void maker_reading(struct maker *m, const char *name, double value, const char *phase)
{
	struct json_out o;
	struct buf *b = &m->file[MF_TELEMETRY];
	jo_init(&o, b, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "t_ns", m->t_ns);
	jo_str(&o, "name", name);
	jo_num(&o, "value", value);
	jo_str(&o, "source", "proc");
	jo_str(&o, "phase", phase);
	jo_end(&o);
	buf_addc(b, '\n');
}

/* The members as `store` would give them; borrowed from the maker. */
static inline void maker_members(struct maker *m, struct member_set *set)
{
	*set = (struct member_set){ 0 };
	for (int i = 0; i < MF_N; i++)
		if (!m->absent[i]) {
			int rc = member_add(set, maker_names[i], m->file[i].p, m->file[i].len, NULL);
			assert(rc == 0);
			(void)rc;
		}
}

#endif
