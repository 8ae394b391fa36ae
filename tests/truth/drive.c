/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct proto completions = { .wire = WIRE_OPENAI_COMPLETIONS,
	                                  .path = "/v1/completions",
	                                  .needs_done = true };

static const struct load_request *make(struct drive *d, uint64_t k, uint64_t conv, uint64_t turn)
{
	if (k >= d->max)
		return NULL;
	struct drive_request *q = &d->requests[k];
	int n = snprintf(q->body, sizeof q->body,
	                 "{\"prompt\":\"conv %d turn %d\",\"max_tokens\":%d,\"ignore_eos\":true,"
	                 "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
	                 (int)conv, (int)turn, (int)d->output_tok);
	q->rq = (struct load_request){
		.body = q->body,
		.body_len = (size_t)n,
		.prompt_tok = 4,
		.want_output_tok = d->output_tok,
		.k = k,
		.conv = d->turns ? conv : REC_NONE,
		.turn = d->turns ? turn : REC_NONE,
		.part = REC_NONE,
		.due_ns = d->spec.arrival == ARRIVAL_CLOSED || turn ? REC_NONE : conv * d->step_ns,
	};
	return &q->rq;
}

static const struct load_request *get(void *ctx, uint64_t g)
{
	struct drive *d = ctx;
	return make(d, d->turns ? g * d->turns : g, g, 0);
}

static const struct load_request *follow(void *ctx, const struct load_request *ended,
                                         const struct record *rec, const char *text, size_t text_len)
{
	struct drive *d = ctx;
	d->n_follow_calls++;
	if (d->follow_sleep_us)
		usleep(d->follow_sleep_us);
	if (rec->outcome != OUTCOME_OK || ended->turn + 1 >= d->turns)
		return NULL;
	return make(d, ended->k + 1, ended->conv, ended->turn + 1);
}

static void done(void *ctx, const struct load_request *ended)
{
	struct drive *d = ctx;
	struct drive_request *q = &d->requests[ended->k];
	d->n_done_calls++;
	d->n_early_done += q->is_done || (d->spec.threads <= 1 && !d->seen[ended->k] && !d->drain &&
	                                  !d->abort && !d->spec.duration_ns);
	q->is_done = true;
}

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t tokens_len, const char *text,
                size_t text_len)
{
	struct drive *d = ctx;
	uint64_t sum = rec->sent_ns, v;
	for (size_t at = 0, used; at < tokens_len; at += used) {
		used = leb128_get(tokens + at, tokens_len - at, &v);
		if (!used)
			return -1;
		sum += v;
	}
	if ((rec->tok_n && sum != rec->last_token_ns) || d->n >= d->max || rec->k >= d->max)
		return -1;
	d->n_unordered += d->n && rec->end_ns < d->rows[d->n - 1].end_ns;
	d->seen[rec->k]++;
	d->rows[d->n++] = *rec;
	if (d->drain_at && d->n >= d->drain_at)
		d->drain = true;
	return 0;
}

static void tick(void *ctx, const struct load_progress *p)
{
	struct drive *d = ctx;
	d->n_ticks++;
	d->last_tick = *p;
}

struct drive *drive_new(const struct engine *e, uint64_t n, uint64_t concurrency, uint64_t turns)
{
	struct drive *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->max = (size_t)(turns ? n * turns : n);
	d->turns = turns;
	d->output_tok = 4;
	d->requests = calloc(d->max, sizeof *d->requests);
	d->rows = calloc(d->max, sizeof *d->rows);
	d->seen = calloc(d->max, sizeof *d->seen);
	d->spec = (struct load_spec){
		.url = e->url,
		.proto = &completions,
		.cell_id = "t/c",
		.concurrency = concurrency,
		.n_requests = n,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 20 * NS_PER_S,
		.stall_timeout_ns = 20 * NS_PER_S,
		.deadline_ns = 60 * NS_PER_S,
		.origin_ns = clock_now_ns() - NS_PER_S,
		.source = { .get = get, .follow = turns ? follow : NULL, .done = done, .ctx = d },
		.sink = { take, d },
		.drain = &d->drain,
		.abort = &d->abort,
		.watch_fd = -1,
		.tick = tick,
		.tick_ctx = d,
	};
	if (!d->requests || !d->rows || !d->seen) {
		drive_free(d);
		return NULL;
	}
	return d;
}

void drive_free(struct drive *d)
{
	if (!d)
		return;
	free(d->requests);
	free(d->rows);
	free(d->seen);
	free(d);
}

void drive_cell_free(struct drive_cell *c)
{
	if (!c)
		return;
	engine_stop(&c->engine);
	engine_free(&c->engine);
	drive_free(c->d);
	free(c);
}

struct drive_cell *drive_cell_new(const char *program, const char *args, uint64_t n, uint64_t concurrency,
                                  uint64_t turns)
{
	struct drive_cell *c = calloc(1, sizeof *c);
	if (!c || engine_start(&c->engine, program, args) < 0 ||
	    !(c->d = drive_new(&c->engine, n, concurrency, turns))) {
		drive_cell_free(c);
		return NULL;
	}
	return c;
}

int drive_run(struct drive *d)
{
	return load_run(&d->res, &d->spec, &d->err);
}

size_t drive_count(const struct drive *d, enum outcome o)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n; i++)
		n += d->rows[i].outcome == o;
	return n;
}

const struct record *drive_row(const struct drive *d, uint64_t k)
{
	if (k >= d->max || d->seen[k] != 1)
		return NULL;
	for (size_t i = 0; i < d->n; i++) {
		if (d->rows[i].k == k)
			return &d->rows[i];
	}
	return NULL;
}
