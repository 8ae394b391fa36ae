/* SPDX-License-Identifier: Apache-2.0 */
#include "load/calibrate.h"

#include "base/clock.h"
#include "load/null_engine.h"
#include "model/metrics_calc.h"
#include "model/stats.h"

#include <string.h>

#define SPARE_CONNS 64
#define CONNS_MAX 65536
#define REQUESTS_MAX (1u << 18) /* made ahead; more than a client sends in the seconds this takes */
#define LEB128_BYTES_MAX 10
#define DEADLINE_NS (10 * NS_PER_S) /* of one answer, over the time it takes */
#define CONNECT_NS (5 * NS_PER_S)

struct taken { /* what the client said of request k */
	bool done, ok;
	uint64_t first_token_ns, n_tokens; /* on CLOCK_MONOTONIC */
	size_t off, len;                   /* of its token times */
};

struct calib {
	const struct calibration_spec *spec;
	struct null_engine_spec plan;
	struct null_engine *ne;
	uint64_t origin_ns;
	char *tape;
	struct load_request *requests;
	struct taken *taken;
	uint8_t *tokens;
	size_t tokens_len, tokens_cap;
	struct buf line;
	uint64_t n_records, n_failed, n_tokens;
	bool no_room;
};

/* --- what to run --------------------------------------------------------------------------------------- */

static uint64_t at_least(uint64_t v, uint64_t low)
{
	return v < low ? low : v;
}

static uint64_t at_most(uint64_t v, uint64_t high)
{
	return v > high ? high : v;
}

static uint64_t count_due(const struct calibration_spec *s)
{
	uint64_t n = 0;
	while (n < s->n_due && s->due_ns[n] < s->duration_ns)
		n++;
	return at_least(n, 1);
}

/* An answer is made to end within the calibration's time, and the notes within their bound: first by shorter
 * answers, so that the streams stay as many as in the cell, then by fewer requests. */
static void choose(struct null_engine_spec *p, const struct calibration_spec *s)
{
	bool closed = s->arrival == ARRIVAL_CLOSED;
	uint64_t streams = closed ? at_least(s->concurrency, 1) : count_due(s);
	*p = (struct null_engine_spec){ .cpus = s->server_cpus, .itl_ns = s->itl_ns };
	p->ttft_ns = at_most(s->ttft_ns, s->duration_ns / 2);
	p->output_tok = at_most(at_least(s->output_tok, 1), at_least(NULL_ENGINE_TOK_MAX / streams, 1));
	if (p->itl_ns)
		p->output_tok = at_most(p->output_tok, (s->duration_ns - p->ttft_ns) / p->itl_ns + 1);
	uint64_t answer_ns = p->ttft_ns + (p->output_tok - 1) * p->itl_ns;
	uint64_t most = at_most(NULL_ENGINE_TOK_MAX / p->output_tok, REQUESTS_MAX);
	/* no slot can send more often: no answer is shorter */
	uint64_t rounds = closed && answer_ns ? s->duration_ns / answer_ns + 1 : closed ? most : 1;
	p->n_requests = streams > most / rounds ? most : streams * rounds;
	p->body_bytes =
		at_most(at_least(s->body_bytes, NULL_ENGINE_BODY_BYTES_MIN), NULL_ENGINE_BODY_BYTES_MAX);
	p->max_conns = at_most(streams, CONNS_MAX) + SPARE_CONNS;
}

static int prepare(struct calib *c, struct err *err)
{
	uint64_t n = c->plan.n_requests;
	c->tape = null_engine_tape(n, c->plan.body_bytes);
	c->requests = calloc(n, sizeof *c->requests);
	c->taken = calloc(n, sizeof *c->taken);
	c->tokens_cap = (size_t)(n * c->plan.output_tok * LEB128_BYTES_MAX);
	c->tokens = malloc(c->tokens_cap);
	buf_init(&c->line, 1u << 16);
	if (!c->tape || !c->requests || !c->taken || !c->tokens)
		return err_set(err, ERR_ENV, "no memory for %llu requests", (unsigned long long)n);
	bool closed = c->spec->arrival == ARRIVAL_CLOSED;
	for (uint64_t k = 0; k < n; k++) {
		uint64_t due = closed ? REC_NONE : k < c->spec->n_due ? c->spec->due_ns[k] : 0;
		c->requests[k] = (struct load_request){
			.body = null_engine_body(c->tape, k),
			.body_len = (size_t)c->plan.body_bytes,
			.want_output_tok = c->plan.output_tok,
			.k = k,
			.conv = REC_NONE,
			.turn = REC_NONE,
			.part = REC_NONE,
			/* the first one stands in for a schedule that begins later */
			.due_ns = closed || due < c->spec->duration_ns ? due : 0,
		};
	}
	return 0;
}

/* --- the load ------------------------------------------------------------------------------------------ */

static const struct load_request *get(void *ctx, uint64_t g)
{
	struct calib *c = ctx;
	return g < c->plan.n_requests ? &c->requests[g] : NULL;
}

/* The line is made as for a real record, and dropped: what that costs belongs to the client. */
static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                size_t text_len)
{
	struct calib *c = ctx;
	if (rec->k >= c->plan.n_requests || len > c->tokens_cap - c->tokens_len) {
		c->no_room = true;
		return -1;
	}
	struct taken *t = &c->taken[rec->k];
	t->done = true;
	t->ok = rec->outcome == OUTCOME_OK && rec->tok_n == c->plan.output_tok;
	t->n_tokens = rec->tok_n;
	t->first_token_ns = rec->first_token_ns == REC_NONE ? REC_NONE : c->origin_ns + rec->first_token_ns;
	t->off = c->tokens_len;
	t->len = len;
	if (len)
		memcpy(c->tokens + c->tokens_len, tokens, len);
	c->tokens_len += len;
	c->n_records++;
	c->n_tokens += rec->tok_n;
	buf_clear(&c->line);
	record_write(&c->line, rec);
	return 0;
}

static int drive(struct calib *c, struct load_result *res, struct err *err)
{
	const struct calibration_spec *s = c->spec;
	const struct proto proto = { .wire = WIRE_OPENAI_COMPLETIONS,
		                     .path = null_engine_path(c->ne),
		                     .needs_done = true };
	uint64_t answer_ns = c->plan.ttft_ns + c->plan.output_tok * c->plan.itl_ns;
	c->origin_ns = clock_now_ns();
	struct load_spec spec = {
		.url = null_engine_url(c->ne),
		.proto = &proto,
		.cell_id = "calibration",
		.kind = REC_PROBE,
		.arrival = s->arrival,
		.concurrency = s->arrival == ARRIVAL_CLOSED ? at_least(s->concurrency, 1) : s->concurrency,
		.n_requests = c->plan.n_requests,
		.duration_ns = s->duration_ns,
		.threads = s->threads,
		.busy_poll = s->busy_poll,
		.connect_timeout_ns = CONNECT_NS,
		.deadline_ns = 2 * answer_ns + DEADLINE_NS,
		.origin_ns = c->origin_ns,
		.source = { .get = get, .ctx = c },
		.sink = { take, c },
		.abort = s->abort,
		.watch_fd = null_engine_pidfd(c->ne),
	};
	if (load_run(res, &spec, err) < 0)
		return -1;
	null_engine_stop(c->ne);
	bool aborted = s->abort && __atomic_load_n(s->abort, __ATOMIC_RELAXED);
	if (null_engine_died(c->ne) && !aborted)
		return err_set(err, ERR_ENV, "the null engine ended during the load");
	if (c->no_room)
		return err_set(err, ERR_BUG, "the null engine's answer holds more tokens than it was told");
	return 0;
}

/* --- errors -------------------------------------------------------------------------------------------- */

struct samples {
	uint64_t *v;
	size_t n;
};

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The n-th token event the client saw is the n-th token sent: one connection, in order. A request that broke
 * off still tells of the tokens it has. */
static void compare_one(const struct calib *c, uint64_t k, struct samples *ttft, struct samples *itl)
{
	const struct taken *t = &c->taken[k];
	const uint64_t *sent = null_engine_sent_ns(c->ne, k);
	const uint8_t *p = c->tokens + t->off;
	size_t left = t->len;
	uint64_t n = at_most(t->n_tokens, c->plan.output_tok), gap;
	if (n && sent[0] && t->first_token_ns != REC_NONE)
		ttft->v[ttft->n++] = apart(t->first_token_ns, sent[0]);
	for (uint64_t i = 0; i < n && sent[i]; i++) {
		size_t used = leb128_get(p, left, &gap);
		if (!used)
			return;
		p += used;
		left -= used;
		if (i)
			itl->v[itl->n++] = apart(gap, sent[i] - sent[i - 1]);
	}
}

static void lateness_of(const struct calib *c, uint64_t k, struct samples *late)
{
	const uint64_t *sent = null_engine_sent_ns(c->ne, k);
	for (uint64_t i = 0; i < c->plan.output_tok && sent[i]; i++)
		late->v[late->n++] = sent[i] - null_engine_due_ns(c->ne, k, i);
}

static uint64_t rank_of(const struct samples *s, unsigned num)
{
	return s->n ? s->v[stat_nearest_rank(s->n, num, 100) - 1] : REC_NONE;
}

static int compare(struct calib *c, struct calibration *out, struct err *err)
{
	uint64_t n = c->plan.n_requests;
	auto_free uint64_t *firsts = malloc(n * sizeof *firsts);
	auto_free uint64_t *all = malloc(n * c->plan.output_tok * sizeof *all);
	if (!firsts || !all)
		return err_set(err, ERR_ENV, "no memory for the errors of %llu requests",
		               (unsigned long long)n);
	struct samples ttft = { firsts, 0 }, itl = { all, 0 };
	for (uint64_t k = 0; k < n; k++) {
		const uint64_t *sent = null_engine_sent_ns(c->ne, k);
		if (!c->taken[k].done)
			continue;
		c->n_failed += !c->taken[k].ok || !sent[c->plan.output_tok - 1];
		compare_one(c, k, &ttft, &itl);
	}
	sort_u64(ttft.v, ttft.n);
	sort_u64(itl.v, itl.n);
	out->n_gaps = itl.n;
	out->ttft_error_p50_ns = rank_of(&ttft, 50);
	out->ttft_error_p99_ns = rank_of(&ttft, 99);
	out->ttft_error_max_ns = rank_of(&ttft, 100);
	out->itl_error_p50_ns = rank_of(&itl, 50);
	out->itl_error_p99_ns = rank_of(&itl, 99);
	out->itl_error_max_ns = rank_of(&itl, 100);
	struct samples late = { all, 0 };
	for (uint64_t k = 0; k < n; k++)
		lateness_of(c, k, &late);
	sort_u64(late.v, late.n);
	out->server_late_p99_ns = rank_of(&late, 99);
	return 0;
}

static int measure(struct calib *c, struct calibration *out, struct err *err)
{
	struct load_result res = { 0 };
	struct calibration cal = { 0 };
	if (prepare(c, err) < 0 || null_engine_start(&c->ne, &c->plan, err) < 0 || drive(c, &res, err) < 0)
		return -1;
	if (compare(c, &cal, err) < 0)
		return -1;
	cal.n_requests = c->n_records;
	cal.n_failed = c->n_failed;
	cal.n_tokens = c->n_tokens;
	cal.send_lag_p50_ns = res.send_lag_p50_ns;
	cal.send_lag_p99_ns = res.send_lag_p99_ns;
	cal.send_lag_max_ns = res.send_lag_max_ns;
	cal.loop_lag_p99_ns = res.loop_lag_p99_ns;
	cal.client_cpu_ns = res.client_cpu_ns;
	cal.wall_ns = res.wall_ns;
	cal.max_in_flight = res.max_in_flight;
	*out = cal;
	return 0;
}

int calibrate(struct calibration *out, const struct calibration_spec *spec, struct err *err)
{
	struct calib c = { .spec = spec };
	if (!spec->duration_ns)
		return err_set(err, ERR_BUG, "calibration: no duration");
	choose(&c.plan, spec);
	int rc = measure(&c, out, err);
	null_engine_free(c.ne);
	free(c.tape);
	free(c.requests);
	free(c.taken);
	free(c.tokens);
	buf_done(&c.line);
	return rc < 0 ? err_wrap(err, "calibration") : 0;
}
