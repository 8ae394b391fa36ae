/* SPDX-License-Identifier: Apache-2.0 */
/* The product: load_run with a sink that writes each record's line and tokens as a run directory would get
 * them.
 */
#include "client.h"

#include "base/clock.h"
#include "load/load.h"

#include <stdlib.h>
#include <string.h>

#define SINK_BYTES (4u << 20)
#define TOKENS_MAX 65536

struct sink {
	const struct job *job;
	struct load_request *rq;
	struct buf lines, tokens; /* kept in memory and thrown away */
	uint64_t n_tok, n_bad, *at_ns;
};

static const struct load_request *get_request(void *ctx, uint64_t k)
{
	struct sink *s = ctx;
	return k < s->job->requests ? &s->rq[k] : NULL;
}

static void put_times(struct sink *s, const struct record *rec, const uint8_t *tokens, size_t len)
{
	uint64_t at = rec->sent_ns, n = 0, v;
	for (size_t i = 0, used; i < len && n < TOKENS_MAX; i += used) {
		used = leb128_get(tokens + i, len - i, &v);
		if (!used)
			die("load: tokens");
		s->at_ns[n++] = at += v;
	}
	job_times(s->job, rec->k, rec->sent_ns, s->at_ns, n);
}

static int take_record(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                       size_t text_len)
{
	struct sink *s = ctx;
	if (s->lines.len > SINK_BYTES)
		buf_clear(&s->lines);
	if (s->tokens.len > SINK_BYTES)
		buf_clear(&s->tokens);
	buf_add(&s->tokens, tokens, len);
	record_write(&s->lines, rec);
	s->n_tok += rec->tok_n;
	s->n_bad += rec->outcome != OUTCOME_OK;
	if (rec->outcome != OUTCOME_OK && s->n_bad <= 3)
		fprintf(stderr, "load: %s: %s\n", outcome_words[rec->outcome], rec->detail);
	if (s->job->times)
		put_times(s, rec, tokens, len);
	return 0;
}

static void fill_requests(struct sink *s)
{
	const struct job *j = s->job;
	for (uint64_t k = 0; k < j->requests; k++) {
		const char *body = job_body(j, k);
		s->rq[k] = (struct load_request){ .body = body,
			                          .body_len = strlen(body),
			                          .want_output_tok = j->tokens,
			                          .k = k,
			                          .conv = REC_NONE,
			                          .turn = REC_NONE,
			                          .part = REC_NONE,
			                          .due_ns = REC_NONE };
		if (j->rate_rps > 0)
			s->rq[k].due_ns = (uint64_t)((double)(k + 1) * 1e9 / j->rate_rps);
	}
}

struct cost client_load(const struct job *j)
{
	static const struct proto chat = { .wire = WIRE_OPENAI_CHAT,
		                           .path = "/v1/chat/completions",
		                           .needs_done = true };
	struct sink s = { .job = j };
	struct load_result res;
	struct err err;
	buf_init(&s.lines, 4 * SINK_BYTES);
	buf_init(&s.tokens, 4 * SINK_BYTES);
	s.rq = calloc(j->requests, sizeof *s.rq);
	s.at_ns = j->times ? calloc(TOKENS_MAX, sizeof *s.at_ns) : NULL;
	if (!s.rq)
		die("load");
	fill_requests(&s);
	struct load_spec spec = {
		.url = j->url,
		.proto = &chat,
		.cell_id = "bench",
		.start = 1,
		.arrival = j->rate_rps > 0 ? ARRIVAL_CONSTANT : ARRIVAL_CLOSED,
		.concurrency = j->rate_rps > 0 ? 0 : j->streams,
		.n_requests = j->requests,
		.preconnect = j->preconnect,
		.busy_poll = j->busy_poll,
		.use_libcurl = j->use_libcurl,
		.watch_fd = -1,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 30 * NS_PER_S,
		.stall_timeout_ns = 20 * NS_PER_S,
		.source = { .get = get_request, .ctx = &s },
		.sink = { take_record, &s },
	};
	if (load_run(&res, &spec, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	buf_done(&s.lines);
	buf_done(&s.tokens);
	free(s.rq);
	free(s.at_ns);
	return (struct cost){ res.client_cpu_ns,
		              res.wall_ns,
		              s.n_tok,
		              res.done,
		              s.n_bad,
		              res.max_in_flight,
		              res.send_lag_p50_ns,
		              res.send_lag_p99_ns,
		              res.send_lag_max_ns,
		              res.loop_lag_p99_ns };
}
