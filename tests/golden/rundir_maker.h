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
#include "model/canary.h"
#include "model/evidence.h"
#include "model/surface.h"

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
	MF_SCHEDULE,
	MF_ANSWERS,
	MF_METRICS, /* the one that need not be there */
	MF_N
};
static const char *const maker_names[MF_N] = { "plan.json",      "plan.lock.json",      "facts.json",
	                                       "events.jsonl",   "requests.jsonl",      "tokens.bin",
	                                       "controls.jsonl", "telemetry.jsonl",     "schedule.jsonl",
	                                       "answers.jsonl",  "engine_metrics.jsonl" };

struct maker_cell {
	uint64_t begin_ns, n[2]; /* start of its schedule; requests made: load, warm-up */
};

struct maker {
	struct plan *plan; /* NULL = the text is none */
	struct cell *cells;
	struct maker_cell *made;
	size_t n_cells;
	struct buf file[MF_N];
	bool absent[MF_N];
	uint64_t seq, t_ns, last_end_ns, n_records, n_controls, seed;
	struct json_out event;
};

/* What happens to a load request. */
struct made_request {
	uint64_t ttft_ns, gap_ns;
	uint64_t out_tok; /* 0 = as planned */
	uint64_t lag_ns;  /* sent - due */
	enum outcome outcome;
	uint64_t events;           /* token events; 0 = out_tok */
	uint64_t usage_output_tok; /* 0 = out_tok; REC_NONE = not told */
	uint64_t cached_tok;       /* 0 = not told */
	uint64_t attempts;         /* 0 = 1 */
	uint64_t skip_k;           /* numbers of the schedule that are left out before it */
	uint64_t reads;            /* 0 = one an event */
	uint64_t free_ns;          /* closed loop, several streams: when the slot was free; 0 = now */
	const char *text;          /* NULL = "word word …"; canaries: the right answer */
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
	plan_free(m->plan);
	free(m->cells);
	free(m->made);
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
	auto_problems problems = { 0 };
	struct err err;
	maker_put(m, MF_PLAN, plan);
	if (plan_parse(&m->plan, plan, strlen(plan), "plan.json", &problems, &err) == 0)
		m->cells = cells_of_plan(m->plan, &m->n_cells);
	m->made = calloc(m->n_cells + 1, sizeof(*m->made));
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

static inline size_t maker_find_cell(const struct maker *m, const char *id)
{
	size_t i = 0;
	while (i < m->n_cells && strcmp(m->cells[i].id, id) != 0)
		i++;
	return i;
}

static inline void maker_cell_begin(struct maker *m, const char *cell, uint64_t planned)
{
	m->made[maker_find_cell(m, cell)].begin_ns = m->t_ns;
	struct json_out *o = maker_event(m, "cell_begin");
	jo_str(o, "cell", cell);
	jo_u64(o, "planned", planned);
	maker_event_end(m);
}

struct made_soundness {
	uint64_t send_lag_ns, loop_lag_ns, client_cpu_ns, steal_ticks, total_ticks, max_in_flight;
	uint64_t runq_wait_ns, threads;
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
	jo_u64(o, "start_ns", m->made[maker_find_cell(m, cell)].begin_ns);
	jo_u64(o, "runq_wait_ns", s->runq_wait_ns);
	jo_u64(o, "threads", s->threads ? s->threads : 1);
	jo_u64(o, "retries", 0);
	maker_event_end(m);
}

static inline void maker_calibration(struct maker *m, const char *load, const char *when,
                                     uint64_t ttft_error_ns, uint64_t itl_error_ns)
{
	struct json_out *o = maker_event(m, "calibration");
	jo_str(o, "load", load);
	jo_str(o, "when", when);
	jo_u64(o, "n_requests", 200);
	jo_u64(o, "n_failed", 0);
	jo_u64(o, "n_gaps", 3000);
	jo_u64(o, "ttft_error_p50_ns", ttft_error_ns / 4);
	jo_u64(o, "ttft_error_p99_ns", ttft_error_ns);
	jo_u64(o, "ttft_error_max_ns", ttft_error_ns * 2);
	jo_u64(o, "itl_error_p50_ns", itl_error_ns / 4);
	jo_u64(o, "itl_error_p99_ns", itl_error_ns);
	jo_u64(o, "itl_error_max_ns", itl_error_ns * 2);
	jo_u64(o, "send_lag_p50_ns", 9000);
	jo_u64(o, "send_lag_p99_ns", 40000);
	jo_u64(o, "send_lag_max_ns", 90000);
	jo_null(o, "loop_lag_p99_ns");
	jo_u64(o, "client_cpu_ns", 60 * MAKER_MS);
	jo_u64(o, "wall_ns", 2000 * MAKER_MS);
	jo_u64(o, "n_tokens", 3200);
	jo_u64(o, "max_in_flight", 1);
	jo_u64(o, "server_late_p99_ns", 12000);
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

static inline void maker_schedule(struct maker *m);
static inline void maker_end(struct maker *m, const char *status)
{
	struct json_out *o = maker_event(m, "run_end");
	jo_str(o, "status", status);
	maker_event_end(m);
	maker_schedule(m);
}

/* --- requests
 * ------------------------------------------------------------------------------------------------ */

static inline void maker_tokens(struct maker *m, struct record *r, const struct made_request *q)
{
	uint64_t n = q->events    ? q->events
	             : q->out_tok ? q->out_tok
	                          : r->want_output_tok,
		 at = r->first_token_ns;
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

/* What the schedule says of the next request of this cell and kind. */
static inline void maker_planned(struct maker *m, size_t cell, const struct made_request *q, struct record *r,
                                 struct sched_item *item)
{
	struct sched *s;
	struct err err;
	bool warmup = r->kind == REC_WARMUP;
	*item = (struct sched_item){ .due_ns = REC_NONE,
		                     .prompt_tok = 32,
		                     .output_tok = 16,
		                     .conv = REC_NONE,
		                     .turn = REC_NONE,
		                     .part = REC_NONE };
	m->made[cell].n[warmup] += q->skip_k;
	r->k = m->made[cell].n[warmup]++;
	if (cell < m->n_cells && sched_make(&s, &m->cells[cell], NULL, warmup, &err) == 0) {
		(void)sched_item_at(s, r->k, item);
		sched_free(s);
	}
	r->conv = item->conv;
	r->turn = item->turn;
	r->part = item->part;
	r->prompt_tok = item->prompt_tok;
	r->want_output_tok = item->output_tok;
	if (!warmup && item->due_ns != REC_NONE)
		r->due_ns = m->made[cell].begin_ns + item->due_ns;
}

static inline void maker_share(struct json_out *o, const char *key, double v)
{
	if (v >= 0)
		jo_num(o, key, v);
	else
		jo_null(o, key);
}

static inline void maker_answer(struct maker *m, size_t cell, const struct record *r, bool canary,
                                const char *text)
{
	char nonce[CANARY_NONCE_BYTES], right[200];
	struct surface f;
	struct json_out o;
	const char *answer = canary_question_of(r->k)->answer;
	canary_nonce(nonce, r->cell, "load", r->k, m->cells[cell].wl->arrival.seed);
	snprintf(right, sizeof(right), "%s, and the answer is %s. So much for this one.", nonce, answer);
	if (!text)
		text = canary ? right : "The first of them came in late, the next one did not come at all.";
	int rc = surface_measure(&f, text, strlen(text), 0);
	assert(rc == 0);
	(void)rc;
	size_t at = 0;
	bool keep = canary || canary_find(text, strlen(text), &at);
	jo_init(&o, &m->file[MF_ANSWERS], 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "i", r->i);
	jo_str(&o, "cell", r->cell);
	jo_u64(&o, "k", r->k);
	jo_u64(&o, "chars", f.chars);
	jo_u64(&o, "distinct", f.distinct);
	jo_u64(&o, "max_run", f.max_run);
	maker_share(&o, "zlib_share", f.zlib_ratio);
	maker_share(&o, "rep4_share", f.rep4);
	maker_share(&o, "foreign_share", f.letters ? (double)f.foreign_letters / (double)f.letters : -1);
	jo_u64(&o, "special", f.special[0] != '\0');
	jo_str(&o, "nonce", canary ? nonce : NULL);
	jo_str(&o, "expected", canary ? answer : NULL);
	jo_str(&o, "text", keep ? text : NULL);
	jo_end(&o);
	buf_addc(&m->file[MF_ANSWERS], '\n');
}

static inline void maker_page(struct maker *m, const char *cell, const char *when, const char *page)
{
	struct json_out o;
	jo_init(&o, &m->file[MF_METRICS], 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "t_ns", m->t_ns);
	jo_str(&o, "cell", cell);
	jo_str(&o, "when", when);
	if (page)
		jo_u64(&o, "status", 200);
	else
		jo_null(&o, "status");
	jo_str(&o, "page", page);
	jo_end(&o);
	buf_addc(&m->file[MF_METRICS], '\n');
}

/* A closed loop by time: what was made; else all that is planned. */
static inline void maker_schedule(struct maker *m)
{
	for (size_t i = 0; i < m->n_cells; i++)
		for (int warmup = 1; warmup >= 0; warmup--) {
			struct sched *s;
			struct sched_item item;
			struct err err;
			if (!m->made[i].n[warmup] || sched_make(&s, &m->cells[i], NULL, warmup, &err))
				continue;
			uint64_t n = sched_count(s) == UINT64_MAX ? m->made[i].n[warmup] : sched_count(s);
			for (uint64_t k = 0; k < n && sched_item_at(s, k, &item); k++) {
				sched_line(&m->file[MF_SCHEDULE], m->cells[i].id, warmup ? "warmup" : "load",
				           &item);
				buf_addc(&m->file[MF_SCHEDULE], '\n');
			}
			sched_free(s);
		}
}

static inline void maker_request(struct maker *m, const char *cell, enum rec_kind kind,
                                 const struct made_request *q)
{
	struct record r;
	struct sched_item item = { 0 };
	size_t c = maker_find_cell(m, cell);
	record_init(&r);
	r.i = m->n_records++;
	snprintf(r.cell, sizeof(r.cell), "%s", cell);
	r.kind = kind;
	r.start = 1;
	r.slot = 0;
	r.k = 0;
	r.due_ns = q->free_ns ? q->free_ns : m->t_ns;
	r.prompt_tok = 32;
	r.want_output_tok = 16;
	if (kind == REC_LOAD || kind == REC_WARMUP)
		maker_planned(m, c, q, &r, &item);
	r.attempts = q->attempts ? q->attempts : 1;
	r.first_sent_ns = r.due_ns + q->lag_ns;
	r.sent_ns = r.first_sent_ns + (r.attempts - 1) * MAKER_MS;
	r.outcome = q->outcome;
	r.tok_off = m->file[MF_TOKENS].len;
	r.tok_n = r.tok_bytes = r.bytes = r.reads = r.max_events_per_read = 0;
	r.text_chars = r.bad_chars = r.max_same_run = r.warnings = 0;
	r.http = q->outcome == OUTCOME_HTTP_STATUS ? 503 : 200;
	r.end_ns = r.sent_ns + q->ttft_ns;
	if (q->outcome == OUTCOME_OK || q->outcome == OUTCOME_TRUNCATED || q->outcome == OUTCOME_STALLED) {
		r.first_token_ns = r.sent_ns + (q->ttft_ns > q->lag_ns ? q->ttft_ns - q->lag_ns : 0);
		r.first_byte_ns = r.first_content_ns = r.first_token_ns;
		maker_tokens(m, &r, q);
		r.max_events_per_read = 1;
		r.reads = q->reads ? q->reads : r.tok_n;
		r.text_chars = 60;
		r.bytes = r.tok_n * 200;
		r.end_ns = r.last_token_ns + MAKER_MS;
	}
	if (q->outcome == OUTCOME_OK) {
		snprintf(r.finish, sizeof(r.finish), "length");
		uint64_t prompt_tok = r.prompt_tok != REC_NONE ? r.prompt_tok : 80;
		r.usage_prompt_tok = q->usage_output_tok == REC_NONE ? REC_NONE : prompt_tok;
		r.usage_output_tok = q->usage_output_tok ? q->usage_output_tok
		                     : q->out_tok        ? q->out_tok
		                                         : r.want_output_tok;
		r.usage_cached_tok = q->cached_tok ? q->cached_tok : REC_NONE;
		if (kind == REC_LOAD && c < m->n_cells)
			maker_answer(m, c, &r, item.canary, q->text);
	}
	record_write(&m->file[MF_REQUESTS], &r);
	m->last_end_ns = r.end_ns;
	m->t_ns = r.end_ns > m->t_ns ? r.end_ns : m->t_ns;
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
