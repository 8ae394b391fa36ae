/* SPDX-License-Identifier: Apache-2.0 */
/* Two more workloads for a made run: conversations of a mix with canaries over two streams, and a sweep of an
 * open loop. */
#ifndef TESTS_MADE_MORE_H
#define TESTS_MADE_MORE_H

#include "rundir_maker.h"

#define MADE_MORE_WORKLOADS                                                                                  \
	", {\"name\": \"talk\", \"class\": \"interactive\", \"mix\": [{\"name\": \"short\", \"weight\": 3, " \
	"\"prompt_tok\": 32, \"output_tok\": 24}, {\"name\": \"long\", \"weight\": 1, \"prompt_tok\": 96, "  \
	"\"output_tok\": 32}], \"conversation\": {\"turns\": 2, \"turn_prompt_tok\": 8}, "                   \
	"\"concurrency\": [2], \"arrival\": {\"kind\": \"closed\", \"seed\": 7}, \"requests\": 80, "         \
	"\"warmup_requests\": 0, \"canary_share\": 0.25, \"retry\": {\"max\": 2}}, "                         \
	"{\"name\": \"open\", \"class\": \"serving\", \"prompt_tok\": [32], \"output_tok\": 16, "            \
	"\"arrival\": {\"kind\": \"poisson\", \"rates_rps\": [4, 8], \"seed\": 3, \"stop_when_saturated\": " \
	"true}, "                                                                                            \
	"\"requests\": 70, \"warmup_requests\": 0}"
#define MADE_TALK "talk/mix/2turns/c2"
#define MADE_OPEN "open/32in/16out/poisson4"
#define MADE_OPEN_NEXT "open/32in/16out/poisson8"

struct made_more {
	bool leak;      /* one answer holds the nonce of another request */
	bool deaf;      /* one canary without its own nonce */
	bool repeats;   /* one answer runs in a circle */
	bool cut;       /* the first turn of one conversation fails */
	bool all_fail;  /* every request of the open loop */
	bool slow_send; /* the open loop sends late, more and more */
};

static inline void made_page(struct maker *m, const char *cell, const char *when, unsigned hits,
                             unsigned queries)
{
	char *page = str_fmt("# TYPE vllm:prefix_cache_queries_total counter\n"
	                     "vllm:prefix_cache_queries_total{engine=\"0\"} %u\n"
	                     "vllm:prefix_cache_hits_total{engine=\"0\"} %u\n"
	                     "vllm:request_queue_time_seconds_sum{engine=\"0\"} %u.5\n"
	                     "vllm:request_queue_time_seconds_count{engine=\"0\"} %u\n",
	                     queries, hits, queries / 1000, queries / 10);
	maker_page(m, cell, when, page);
	free(page);
}

static inline void made_whole_cell(struct maker *m, const char *cell, uint64_t begin_ns, uint64_t made,
                                   uint64_t in_flight)
{
	uint64_t wall_ns = m->t_ns - begin_ns;
	struct made_soundness s = { .send_lag_ns = 20 * NS_PER_US,
		                    .loop_lag_ns = 30 * NS_PER_US,
		                    .client_cpu_ns = wall_ns / 20,
		                    .total_ticks = wall_ns / (10 * MAKER_MS) + 1,
		                    .max_in_flight = in_flight,
		                    .runq_wait_ns = wall_ns / 100 };
	maker_soundness(m, cell, wall_ns, &s);
	maker_cell_end(m, cell, made, made, "complete", wall_ns);
}

/* The nonce of the first canary of a cell, and its number. */
static inline uint64_t made_nonce(const struct maker *m, const char *cell, char out[CANARY_NONCE_BYTES])
{
	struct sched *s;
	struct sched_item item = { 0 };
	struct err err;
	const struct cell *c = &m->cells[maker_find_cell(m, cell)];
	int rc = sched_make(&s, c, NULL, false, &err);
	assert(rc == 0);
	(void)rc;
	while (sched_item_at(s, item.k, &item) && !item.canary)
		item.k++;
	canary_nonce(out, cell, "load", item.k, c->wl->arrival.seed);
	sched_free(s);
	return item.k;
}

/* Conversations of two turns, one after the other in each of two streams. */
static inline void made_talk(struct maker *m, const struct made_more *w)
{
	char foreign[100];
	uint64_t begin_ns = m->t_ns, free_ns[2] = { begin_ns, begin_ns + 200000 }, made = 0, canary;
	maker_cell_begin(m, MADE_TALK, 80);
	made_page(m, MADE_TALK, "before", 100, 1000);
	strcpy(foreign, "Of course. ");
	canary = made_nonce(m, MADE_TALK, foreign + strlen(foreign));
	for (uint64_t conv = 0, skip = 0; conv < 40; conv++) {
		uint64_t *slot = &free_ns[free_ns[1] < free_ns[0]];
		bool cut = w->cut && conv == 20;
		for (uint64_t turn = 0; turn < 2 && !(cut && turn); turn++, made++) {
			struct made_request q = { .ttft_ns = (100 + 20 * turn) * MAKER_MS +
				                             maker_random(m) % (30 * MAKER_MS),
				                  .gap_ns = 4 * MAKER_MS,
				                  .lag_ns = 20 * NS_PER_US,
				                  .cached_tok = turn ? 20 : 1,
				                  .attempts = conv == 7 ? 2 : 1,
				                  .outcome = cut ? OUTCOME_RESET : OUTCOME_OK,
				                  .skip_k = skip,
				                  .free_ns = *slot };
			if (w->leak && conv == 30)
				q.text = foreign;
			else if (w->repeats && conv == 31)
				q.text =
					"I am, you, I am, you, I am, you, I am, you, I am, you, I am, you, I "
					"am, you, I am, you, I am, you, I am, you, I am, you, I am, you,";
			else if (w->deaf && conv * 2 + turn == canary)
				q.text = "I do not know.";
			skip = 0;
			maker_request(m, MADE_TALK, REC_LOAD, &q);
			*slot = m->last_end_ns;
		}
		skip = cut ? 1 : 0;
	}
	made_page(m, MADE_TALK, "after", 700, 2000);
	made_whole_cell(m, MADE_TALK, begin_ns, made, 2);
}

static inline void made_open(struct maker *m, const struct made_more *w)
{
	struct json_out *o;
	uint64_t begin_ns = m->t_ns;
	maker_cell_begin(m, MADE_OPEN, 70);
	maker_page(m, MADE_OPEN, "before", NULL);
	for (uint64_t k = 0; k < 70; k++) {
		struct made_request q = { .ttft_ns = 90 * MAKER_MS + maker_random(m) % (20 * MAKER_MS),
			                  .gap_ns = 4 * MAKER_MS,
			                  .out_tok = 16,
			                  .lag_ns = (w->slow_send ? k * 5 * MAKER_MS : 0) + 15 * NS_PER_US,
			                  .outcome = w->all_fail ? OUTCOME_HTTP_STATUS : OUTCOME_OK };
		maker_request(m, MADE_OPEN, REC_LOAD, &q);
	}
	maker_page(m, MADE_OPEN, "after", NULL);
	made_whole_cell(m, MADE_OPEN, begin_ns, 70, 5);
	o = maker_event(m, "not_tested");
	jo_str(o, "what", MADE_OPEN_NEXT);
	jo_str(o, "reason", "over-saturated at " MADE_OPEN);
	maker_event_end(m);
}

static inline void made_more_calibrations(struct maker *m, const char *when)
{
	maker_calibration(m, "c2", when, 400 * NS_PER_US, 60 * NS_PER_US);
	maker_calibration(m, "poisson4", when, 250 * NS_PER_US, 45 * NS_PER_US);
}

#endif
