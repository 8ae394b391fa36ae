/* SPDX-License-Identifier: Apache-2.0 */
/* One whole made run with knobs: what the table of the verdict test turns, and the golden run as it stands.
 */
#ifndef TESTS_MADE_RUN_H
#define TESTS_MADE_RUN_H

#include "made_more.h"

#include <math.h>

/* A plan wants one criterion on the speed of the critical cell; this one always holds. */
#define MADE_FILLER                                                                                          \
	"{\"id\": \"filler\", \"sentence\": \"Half of the first tokens come within 900 ms\", \"metric\": "   \
	"\"ttft\", "                                                                                         \
	"\"statistic\": \"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 900, \"unit\": \"ms\"}}"
#define MADE_CELL "chat/32in/16out/c1"

struct made_run {
	/* plan */
	uint64_t looks;              /* 0 = not given */
	uint64_t requests;           /* of the critical cell; 0 = by duration of 10 s */
	const char *criteria;        /* JSON list without brackets */
	const char *plan_extra;      /* members behind "criteria", each with a comma in front */
	const char *about_extra;     /* members of "plan", each with a comma in front */
	const char *filler;          /* NULL = MADE_FILLER */
	const char *chat_extra;      /* members of the workload, each with a comma in front */
	const char *workloads_extra; /* further workloads, each with a comma in front */
	/* run */
	const char *wall, *label, *status, *stopped_by;
	uint64_t n, n_slow, n_bad; /* requests sent; of them over 250 ms; of them with outcome `bad` */
	enum outcome bad;
	uint64_t lag_ns;
	struct made_soundness soundness; /* zeroed = sound */
	bool no_soundness, no_cell, no_engine, never_ready, interrupted, died, cancelled_one, no_usage, waves;
	bool unknown_memory, no_telemetry, second_start_fails, no_recovery;
	bool no_calibration;
	bool more; /* with the two workloads of made_more.h */
	struct made_more with;
	uint64_t ttft_error_ns, itl_error_ns; /* of the calibration after the load; 0 = small */
	uint64_t reads;                       /* of an answer; 0 = one an event */
	uint64_t events;                      /* token events a request; 0 = one a token */
	const char *difference;
	const char *control_answer; /* NULL = right */
	bool control_fails, no_controls_after;
};

static inline char *made_plan(const struct made_run *r)
{
	char amount[96];
	if (r->requests)
		snprintf(amount, sizeof(amount), "\"requests\": %" PRIu64, r->requests);
	else
		snprintf(amount, sizeof(amount), "\"duration_s\": 10");
	if (r->looks)
		snprintf(amount + strlen(amount), 32, ", \"looks\": %" PRIu64, r->looks);
	return str_fmt("{\n\"schema_version\": 1,\n"
	               "\"plan\": {\"id\": \"made\", \"title\": \"A made run\", \"owner\": \"tests\"%s},\n"
	               "\"model\": {\"id\": \"tiny\", \"revision\": \"file-hashes\", \"format\": \"gguf\", "
	               "\"quantization\": \"Q4_1\", \"context_tok\": 1024,"
	               " \"files\": [{\"path\": \"tiny.gguf\", \"sha256\": "
	               "\"b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\"}]},\n"
	               "\"candidates\": [{\"name\": \"cpu\", \"backend\": \"cpu\", \"arch\": \"x86-64\", "
	               "\"engine\": {\"kind\": \"llamacpp\","
	               " \"version\": \"b1\", \"launch\": {\"process\": {\"program\": \"llama-server\"}}, "
	               "\"args\": [\"-m\", \"{model}\", \"--port\", \"{port}\"]}}],\n"
	               "\"workloads\": [{\"name\": \"chat\", \"class\": \"interactive\", \"prompt_tok\": "
	               "[32], \"output_tok\": 16, \"concurrency\": [1], "
	               "\"warmup_requests\": 1,"
	               " \"arrival\": {\"kind\": \"closed\"}, %s, \"critical\": true%s}%s%s],\n"
	               "\"controls\": [{\"id\": \"france\", \"prompt\": \"What is the capital of France?\", "
	               "\"must_match\": [\"Paris\"]}],\n"
	               "\"recovery\": {\"second_cold_start\": {\"limit_s\": 60}},\n"
	               "\"criteria\": [%s, %s]%s\n}\n",
	               r->about_extra ? r->about_extra : "", amount, r->chat_extra ? r->chat_extra : "",
	               r->workloads_extra ? r->workloads_extra : "", r->more ? MADE_MORE_WORKLOADS : "",
	               r->criteria, r->filler ? r->filler : MADE_FILLER, r->plan_extra ? r->plan_extra : "");
}

static inline struct made_request made_nth(struct maker *m, const struct made_run *r, uint64_t k)
{
	struct made_request q = {
		.ttft_ns = 100 * MAKER_MS + maker_random(m) % (50 * MAKER_MS),
		.gap_ns = 5 * MAKER_MS + maker_random(m) % MAKER_MS,
		.out_tok = 16,
		.lag_ns = r->lag_ns ? r->lag_ns : 20 * NS_PER_US,
		.events = r->events,
		.reads = r->reads,
		.usage_output_tok = r->no_usage ? REC_NONE : 0,
	};
	if (r->waves) /* long stretches of slow and fast requests: they depend on each other */
		q.ttft_ns = (k / 25 % 2 ? 100 : 200) * MAKER_MS + maker_random(m) % MAKER_MS;
	/* spread evenly, so that they do not look dependent */
	if (r->n_slow && k % (r->n / r->n_slow) == 3 && k / (r->n / r->n_slow) < r->n_slow)
		q.ttft_ns = 400 * MAKER_MS;
	else if (r->n_bad && k % (r->n / r->n_bad) == 5 && k / (r->n / r->n_bad) < r->n_bad)
		q.outcome = r->bad;
	if (r->cancelled_one && k + 1 == r->n)
		q.outcome = OUTCOME_CANCELLED;
	return q;
}

static inline void made_load(struct maker *m, const struct made_run *r)
{
	struct made_soundness s = r->soundness;
	struct made_request warm = { .ttft_ns = 300 * MAKER_MS, .gap_ns = 5 * MAKER_MS, .out_tok = 16 };
	maker_request(m, MADE_CELL, REC_WARMUP, &warm);
	maker_cell_begin(m, MADE_CELL, r->requests);
	uint64_t begin_ns = m->t_ns;
	for (uint64_t k = 0; k < r->n; k++) {
		struct made_request q = made_nth(m, r, k);
		if (!r->no_telemetry && k % 50 == 0)
			maker_reading(m, "engine_pss_bytes",
			              r->unknown_memory ? (double)NAN : 1e9 + (double)k * 1e6, "load");
		maker_request(m, MADE_CELL, REC_LOAD, &q);
	}
	uint64_t wall_ns = m->t_ns - begin_ns;
	if (!r->requests && wall_ns < 10 * NS_PER_S) {
		wall_ns = 10 * NS_PER_S;
		m->t_ns = begin_ns + wall_ns;
	}
	s.send_lag_ns = s.send_lag_ns ? s.send_lag_ns : 20 * NS_PER_US;
	s.loop_lag_ns = s.loop_lag_ns ? s.loop_lag_ns : 30 * NS_PER_US;
	s.client_cpu_ns = s.client_cpu_ns ? s.client_cpu_ns : wall_ns / 20;
	s.total_ticks = s.total_ticks ? s.total_ticks : wall_ns / (10 * MAKER_MS) + 1;
	s.max_in_flight = s.max_in_flight ? s.max_in_flight : 1;
	if (!r->no_soundness)
		maker_soundness(m, MADE_CELL, wall_ns, &s);
	maker_cell_end(m, MADE_CELL, r->n, r->n,
	               r->stopped_by ? r->stopped_by
	               : r->requests ? "complete"
	                             : "duration",
	               wall_ns);
}

static inline void made_recover(struct maker *m, const struct made_run *r)
{
	struct json_out *o;
	maker_exit(m, 1, true);
	m->t_ns += 100 * MAKER_MS;
	maker_start(m, 2, "second_cold", r->second_start_fails ? REC_NONE : 1900 * MAKER_MS);
	if (!r->second_start_fails) {
		maker_exit(m, 2, true);
		return;
	}
	o = maker_event(m, "error");
	jo_u64(o, "class", ERR_ENV);
	jo_str(o, "message", "second_cold: exit status 1");
	maker_event_end(m);
}

static inline void made_body(struct maker *m, const struct made_run *r)
{
	const char *answer = r->control_fails ? NULL : r->control_answer ? r->control_answer : "It is Paris.";
	maker_control(m, "france", "before", answer);
	if (!r->no_calibration)
		maker_calibration(m, "c1", "before", 200 * NS_PER_US, 50 * NS_PER_US);
	if (r->more)
		made_more_calibrations(m, "before");
	if (!r->no_cell)
		made_load(m, r);
	if (r->more) {
		made_talk(m, &r->with);
		made_open(m, &r->with);
		made_more_calibrations(m, "after");
	}
	if (!r->no_calibration)
		maker_calibration(m, "c1", "after", r->ttft_error_ns ? r->ttft_error_ns : 300 * NS_PER_US,
		                  r->itl_error_ns ? r->itl_error_ns : 40 * NS_PER_US);
	if (r->died) {
		struct json_out *o;
		maker_exit(m, 1, false);
		o = maker_event(m, "error");
		jo_u64(o, "class", ERR_ENV);
		jo_str(o, "message", "the engine ended by itself");
		maker_event_end(m);
		return;
	}
	if (r->interrupted) {
		struct json_out *o = maker_event(m, "interrupt");
		jo_str(o, "signal", "first");
		maker_event_end(m);
		return;
	}
	if (!r->no_controls_after)
		maker_control(m, "france", "after", answer);
	if (!r->no_recovery)
		made_recover(m, r);
}

static inline void make_run(struct maker *m, const struct made_run *r)
{
	char *plan = made_plan(r);
	maker_init(m);
	maker_plan(m, plan);
	free(plan);
	maker_begin(m, r->wall ? r->wall : "2026-03-01T12:00:00.000Z", r->label);
	m->t_ns += MAKER_MS;
	maker_phase(m, "phase_begin", "load");
	if (r->difference) {
		struct json_out *o = maker_event(m, "difference");
		jo_str(o, "what", r->difference);
		jo_str(o, "locked", "aaaa");
		jo_str(o, "found", "bbbb");
		maker_event_end(m);
	} else if (r->never_ready) {
		struct json_out *o;
		maker_start(m, 1, "first", REC_NONE);
		o = maker_event(m, "error");
		jo_u64(o, "class", ERR_ENV);
		jo_str(o, "message", "start: exit status 1");
		maker_event_end(m);
	} else if (!r->no_engine) {
		maker_start(m, 1, "first", 2000 * MAKER_MS);
		made_body(m, r);
	}
	maker_phase(m, "phase_end", "load");
	maker_end(m, r->status                                                             ? r->status
	             : r->interrupted                                                      ? "interrupted"
	             : r->difference || r->never_ready || r->died || r->second_start_fails ? "incomplete"
	                                                                                   : "complete");
}

#endif
