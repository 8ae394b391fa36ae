/* SPDX-License-Identifier: Apache-2.0 */
/* The ruler measured: load_run against the scripted engine, whose times are known twice, as scripted and as
 * it stamped them itself. Bounds are shares of the scripted value and medians, so that a busy machine does
 * not fail them; a systematic error does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine.h"
#include "load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MAX 512
#define TTFT_MS 100.0
#define ITL_MS 10.0
#define OUT_TOK 16
#define MEDIAN_SHARE_TTFT 0.05
#define MEDIAN_SHARE_ITL 0.10
#define MEDIAN_SHARE_E2E 0.05

static const char *program;

static const struct proto chat = { .wire = WIRE_OPENAI_CHAT,
	                           .path = "/v1/chat/completions",
	                           .needs_done = true };

struct trial {
	struct engine engine;
	struct load_spec spec;
	struct load_result res;
	double rate_rps; /* 0 = closed loop */
	size_t n;
	char *bodies[N_MAX];
	struct load_request rq[N_MAX];
	struct record recs[N_MAX];
	double gaps_ms[N_MAX][OUT_TOK]; /* by k; [0] is from sending to the first token */
	double max_gap_ms;
};

/* Request k has a prompt of its own length, by which the engine's account is found again. */
static const struct load_request *get_request(void *ctx, uint64_t k)
{
	struct trial *c = ctx;
	if (k >= N_MAX)
		return NULL;
	if (!c->bodies[k]) {
		struct buf b = BUF_INIT(1 << 20);
		buf_adds(&b,
		         "{\"stream\":true,\"ignore_eos\":true,\"stream_options\":{\"include_usage\":true},");
		buf_addf(&b, "\"max_tokens\":%d,\"messages\":[{\"role\":\"user\",\"content\":\"", OUT_TOK);
		for (uint64_t i = 0; i <= k; i++)
			buf_adds(&b, "w ");
		buf_adds(&b, "\"}]}");
		c->rq[k] = (struct load_request){
			.body = b.p,
			.body_len = b.len,
			.prompt_tok = k + 1,
			.want_output_tok = OUT_TOK,
			.k = k,
			.conv = REC_NONE,
			.turn = REC_NONE,
			.part = REC_NONE,
			.due_ns = c->rate_rps > 0 ? (uint64_t)((double)k / c->rate_rps * 1e9) : REC_NONE,
		};
		c->bodies[k] = b.p;
	}
	return &c->rq[k];
}

static int take_record(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                       size_t text_len)
{
	struct trial *c = ctx;
	uint64_t v;
	for (size_t at = 0, used, k = 0; at < len; at += used, k++) {
		used = leb128_get(tokens + at, len - at, &v);
		if (!used)
			return -1;
		double gap = (double)v / 1e6;
		if (rec->k < N_MAX && k < OUT_TOK)
			c->gaps_ms[rec->k][k] = gap;
		if (k && gap > c->max_gap_ms)
			c->max_gap_ms = gap;
	}
	if (c->n < N_MAX)
		c->recs[c->n++] = *rec;
	return 0;
}

static struct trial *run_cell(const char *options, uint64_t concurrency, uint64_t n, double rate_rps)
{
	struct trial *c = calloc(1, sizeof *c);
	struct err err;
	assert_non_null(c);
	if (engine_start(&c->engine, program, options) < 0)
		fail_msg("%s %s: does not serve", program, options);
	c->rate_rps = rate_rps;
	c->spec = (struct load_spec){
		.url = c->engine.url,
		.proto = &chat,
		.cell_id = "truth",
		.start = 1,
		.arrival = rate_rps > 0 ? ARRIVAL_CONSTANT : ARRIVAL_CLOSED,
		.concurrency = concurrency,
		.n_requests = n,
		.watch_fd = -1,
		.connect_timeout_ns = 5 * NS_PER_S,
		.first_byte_timeout_ns = 10 * NS_PER_S,
		.stall_timeout_ns = 10 * NS_PER_S,
		.deadline_ns = 30 * NS_PER_S,
		.source = { .get = get_request, .ctx = c },
		.sink = { take_record, c },
	};
	if (load_run(&c->res, &c->spec, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(engine_stop(&c->engine), 0);
	assert_int_equal(c->n, n); /* nothing is lost */
	return c;
}

static void free_cell(struct trial *c)
{
	engine_free(&c->engine);
	for (size_t i = 0; i < N_MAX; i++)
		free(c->bodies[i]);
	free(c);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double p)
{
	qsort(v, n, sizeof *v, by_value);
	return n ? v[(size_t)((double)(n - 1) * p)] : -1;
}

static double distance(double a, double b)
{
	return a > b ? a - b : b - a;
}

static size_t count(const struct trial *c, enum outcome o)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++)
		n += c->recs[i].outcome == o;
	return n;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void check_shares(struct trial *c, const char *name)
{
	static double itl[N_MAX * OUT_TOK];
	double ttft[N_MAX], e2e[N_MAX];
	size_t n_itl = 0;
	double want_e2e = TTFT_MS + ITL_MS * (OUT_TOK - 1);
	for (size_t i = 0; i < c->n; i++) {
		const struct record *r = &c->recs[i];
		assert_int_equal(r->outcome, OUTCOME_OK);
		assert_int_equal(r->tok_n, OUT_TOK);
		assert_int_equal(r->usage_output_tok, OUT_TOK);
		ttft[i] = distance(ms(r->first_token_ns - r->sent_ns), TTFT_MS) / TTFT_MS;
		e2e[i] = distance(ms(r->last_token_ns - r->sent_ns), want_e2e) / want_e2e;
	}
	for (size_t i = 0; i < c->n; i++) {
		const struct record *r = &c->recs[i];
		const struct truth *t = engine_truth(&c->engine, r->usage_prompt_tok);
		for (size_t j = 1; t && j < t->n_tok && j < OUT_TOK; j++)
			itl[n_itl++] =
				distance(c->gaps_ms[r->k][j], ms(t->tok_ns[j] - t->tok_ns[j - 1])) / ITL_MS;
	}
	double t = quantile(ttft, c->n, 0.5), g = quantile(itl, n_itl, 0.5), e = quantile(e2e, c->n, 0.5);
	print_message("# %s: error as a share of the scripted value, median / p90: TTFT %.4f / %.4f, "
	              "ITL against the engine's stamps %.4f / %.4f, end to end %.4f / %.4f (%zu requests)\n",
	              name, t, quantile(ttft, c->n, 0.9), g, quantile(itl, n_itl, 0.9), e,
	              quantile(e2e, c->n, 0.9), c->n);
	assert_true(t <= MEDIAN_SHARE_TTFT);
	assert_true(g <= MEDIAN_SHARE_ITL);
	assert_true(e <= MEDIAN_SHARE_E2E);
}

/* Receive time against the engine's own stamp just before its write: what the client adds. */
static void check_receipt(const struct trial *c, const char *name)
{
	double late[N_MAX];
	size_t n = 0, early = 0;
	for (size_t i = 0; i < c->n; i++) {
		const struct record *r = &c->recs[i];
		const struct truth *t = engine_truth(&c->engine, r->usage_prompt_tok);
		if (!t || t->n_tok != OUT_TOK)
			fail_msg("no account of a prompt of %d tokens", (int)r->usage_prompt_tok);
		early += r->first_token_ns < t->tok_ns[0] || r->last_token_ns < t->tok_ns[OUT_TOK - 1] ||
		         r->sent_ns > t->recv_ns;
		late[n++] = ms(r->first_token_ns - t->tok_ns[0]);
	}
	assert_int_equal(early, 0); /* nothing is received before it was sent */
	double p50 = quantile(late, n, 0.5);
	print_message("# %s: first token received after its write, ms: p50 %.3f p90 %.3f\n", name, p50,
	              quantile(late, n, 0.9));
	assert_true(p50 <= TTFT_MS * MEDIAN_SHARE_TTFT);
}

static void one_stream_at_a_time(void **state)
{
	struct trial *c = run_cell("--slots 1 --ttft-ms 100 --itl-us 10000", 1, 10, 0);
	check_shares(c, "closed loop, 1");
	check_receipt(c, "closed loop, 1");
	free_cell(c);
}

static void sixteen_streams(void **state)
{
	struct trial *c = run_cell("--slots 16 --ttft-ms 100 --itl-us 10000 -c 65536", 16, 64, 0);
	check_shares(c, "closed loop, 16");
	check_receipt(c, "closed loop, 16");
	assert_int_equal(c->res.max_in_flight, 16);
	free_cell(c);
}

static void constant_rate(void **state)
{
	struct trial *c = run_cell("--slots 64 --ttft-ms 100 --itl-us 10000 -c 262144", 0, 100, 50);
	double gap[N_MAX];
	uint64_t due[N_MAX] = { 0 };
	check_shares(c, "50 requests/s");
	for (size_t i = 0; i < c->n; i++)
		due[c->recs[i].prompt_tok - 1] =
			engine_truth(&c->engine, c->recs[i].usage_prompt_tok)->recv_ns;
	for (size_t i = 1; i < c->n; i++)
		gap[i - 1] = distance(ms(due[i] - due[i - 1]), 20) / 20;
	print_message(
		"# 50 requests/s: spacing seen by the engine, error share p50 %.4f p90 %.4f; send lag us p50 "
		"%.0f p99 %.0f\n",
		quantile(gap, c->n - 1, 0.5), quantile(gap, c->n - 1, 0.9),
		(double)c->res.send_lag_p50_ns / 1e3, (double)c->res.send_lag_p99_ns / 1e3);
	assert_true(quantile(gap, c->n - 1, 0.5) <= 0.25);
	double took = ms(due[c->n - 1] - due[0]);
	assert_true(distance(took, 99 * 20) <= 99 * 20 * 0.05);
	free_cell(c);
}

static double median_ttft_ms(const struct trial *c)
{
	double v[N_MAX];
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (c->recs[i].first_token_ns != REC_NONE)
			v[n++] = ms(c->recs[i].first_token_ns - c->recs[i].sent_ns);
	}
	return quantile(v, n, 0.5);
}

static void errors_inside_streams_are_no_successes(void **state)
{
	struct trial *c =
		run_cell("--slots 8 --ttft-ms 5 --itl-us 1000 --fault error-in-stream:every=4", 8, 32, 0);
	assert_int_equal(count(c, OUTCOME_STREAM_ERROR), 8);
	assert_int_equal(count(c, OUTCOME_OK), 24);
	free_cell(c);
}

static void an_early_role_is_no_first_token(void **state)
{
	struct trial *c = run_cell("--slots 4 --ttft-ms 300 --itl-us 1000 --early-headers", 4, 4, 0);
	double ttft = median_ttft_ms(c);
	assert_true(ttft >= 299 && ttft <= 390);
	for (size_t i = 0; i < c->n; i++)
		assert_true(c->recs[i].first_byte_ns - c->recs[i].sent_ns < 250 * NS_PER_MS);
	free_cell(c);
}

static void four_tokens_an_event_are_told_apart(void **state)
{
	struct trial *c =
		run_cell("--slots 4 --ttft-ms 20 --itl-us 5000 --group 4 --fault multi-tok", 4, 8, 0);
	for (size_t i = 0; i < c->n; i++) {
		assert_int_equal(c->recs[i].tok_n, OUT_TOK / 4);
		assert_int_equal(c->recs[i].usage_output_tok, OUT_TOK);
	}
	free_cell(c);
}

static void events_collected_into_one_write_show(void **state)
{
	struct trial *c =
		run_cell("--slots 4 --ttft-ms 20 --itl-us 5000 --group 4 --fault multi-event", 4, 8, 0);
	for (size_t i = 0; i < c->n; i++) {
		assert_int_equal(c->recs[i].tok_n, OUT_TOK);
		assert_true(c->recs[i].reads <= OUT_TOK / 2);
		assert_true(c->recs[i].max_events_per_read >= 4);
	}
	free_cell(c);
}

static void cut_and_reset_streams_are_told_apart(void **state)
{
	struct trial *c = run_cell(
		"--slots 4 --ttft-ms 5 --itl-us 1000 --fault cut:every=4 --fault rst:at=2,6", 1, 16, 0);
	assert_int_equal(count(c, OUTCOME_TRUNCATED), 4);
	assert_int_equal(count(c, OUTCOME_RESET), 2);
	assert_int_equal(count(c, OUTCOME_OK), 10);
	free_cell(c);
}

static void one_long_gap_is_kept(void **state)
{
	struct trial *c =
		run_cell("--slots 1 --ttft-ms 5 --itl-us 1000 --slow-ms 400 --fault spike:at=3", 1, 5, 0);
	assert_int_equal(count(c, OUTCOME_OK), 5);
	assert_true(c->max_gap_ms >= 350 && c->max_gap_ms <= 800); /* the token before it may be late */
	free_cell(c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_stream_at_a_time),
		cmocka_unit_test(sixteen_streams),
		cmocka_unit_test(constant_rate),
		cmocka_unit_test(errors_inside_streams_are_no_successes),
		cmocka_unit_test(an_early_role_is_no_first_token),
		cmocka_unit_test(four_tokens_an_event_are_told_apart),
		cmocka_unit_test(events_collected_into_one_write_show),
		cmocka_unit_test(cut_and_reset_streams_are_told_apart),
		cmocka_unit_test(one_long_gap_is_kept),
	};
	if (argc != 2) {
		fputs("usage: test_truth SCRIPTED_ENGINE\n", stderr);
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
