/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded schedules: the same plan gives the same requests at the same times, here and in any other program
 * (statistics.md 4, 5; proofmark-bundle(5), schedule.jsonl). Numbers are IEEE 754 doubles; only + - * / and
 * square roots are used, each rounded by itself, so that every machine gets the same bits. Logarithm and
 * exponential are therefore our own (sched_ln, sched_exp): those of C libraries differ in the last bit.
 *
 * A stream is a splitmix64 generator that starts from a seed; draw() is its next output x as (x >> 11) /
 * 2^53.
 *
 * Arrival times: the stream that starts from arrival.seed. T and E begin at 0; k counts from 0.
 *   constant  due = k / rate
 *   Poisson   T += -ln(1 - draw()) / rate; due = T
 *   gamma     T += g / (b rate) with b = burstiness; due = T. g of Marsaglia and Tsang (2000): a = b, or b +
 * 1 where b < 1; d = a - 1/3; c = 1 / sqrt(9 d);
 *             1. normal x by the polar method: p = 2 draw() - 1, then q = 2 draw() - 1, s = p p + q q, again
 *                unless 0 < s < 1; x = p sqrt(-2 ln(s) / s)
 *             2. h = 1 + c x; again from 1 unless h > 0; v = h h h; u = draw(); again from 1 unless
 *                ln(1 - u) < 0.5 x x + d (1 - v + ln v)
 *             3. g = d v; where b < 1, u = draw() and g = g exp(ln(1 - u) / b)
 *   ramp      E += -ln(1 - draw()); due = 2 E / (r + sqrt(r r + 2 (R - r) E / D)), where the rate goes from r
 *             to R over D seconds: the inverse of its integral. No request where the root is not real or due
 * is not below D. trace     the time of row k / speed due in ns = due in s x 10^9, rounded to the nearest,
 * half away from 0 (a trace: the row's ns / speed). A cell that runs by time has the requests due before its
 * end.
 *
 * Draws of one request: draw k (from 0) of the stream that starts from the first output of the splitmix64
 * generator whose seed is arrival.seed XOR a tag of 8 ASCII bytes, read big-endian: "mix/load" and "mix/warm"
 * for the part of a mix, "can/load" for canaries. Part = the first one at which draw x (sum of all weights)
 * is below the sum of the weights so far, added up in the order of the plan. Canary = draw below
 * canary_share. In a conversation the part is that of its first turn's k, and only the last turn may be a
 * canary: below canary_share x turns. An answer of fewer than 24 tokens cannot hold a canary's. Warm-up
 * requests have no canaries and no conversations; with a trace they have the lengths of its rows, again from
 * the first behind the last, and none of its hashes. */
#ifndef MODEL_SCHEDULE_H
#define MODEL_SCHEDULE_H

#include "base/buf.h"
#include "base/err.h"
#include "model/cell.h"
#include "model/trace.h"

#define SCHED_REQUESTS_MAX 20000000

struct splitmix64 {
	uint64_t state;
};
uint64_t splitmix64_next(struct splitmix64 *s);
double splitmix64_unit(struct splitmix64 *s); /* (x >> 11) / 2^53, in [0, 1) */

/* ln y of a finite y > 0: y = m 2^e with m from 0.7071067811865476 up to twice that; s = (m - 1) / (m + 1),
 * z = s s; p = 1/21, then p = p z + 1/j for j = 19, 17, … 3, 1; e x 0.6931471805599453 + 2 s p. */
double sched_ln(double y);
/* exp x of x <= 0: below -700 it is 0. n = floor(x / 0.6931471805599453 + 0.5),
 * r = x - n x 0.6931471803691238 - n x 1.9082149292705877e-10; p = 1, then p = 1 + p r / j for j = 14, 13, …
 * 1; p 2^n. */
double sched_exp(double x);

struct arrivals { /* due times of an open loop */
	enum arrival kind;
	double rate_rps, rate_end_rps, ramp_s, burstiness;
	struct splitmix64 rng;
	double next_s; /* ramp: E, which has no unit */
	uint64_t k;
};
/* `duration_s` is the length of a ramp; the others do not end by it. */
void arrivals_init(struct arrivals *s, const struct plan_arrival *a, double rate_rps, double duration_s);
/* Due time of the next request, ns after the cell's start; UINT64_MAX = there is none (end of a ramp, past
 * 570 years). Not for traces. */
uint64_t arrivals_next_ns(struct arrivals *s);

struct sched_item {
	uint64_t k;      /* conversations: conv x turns + turn */
	uint64_t due_ns; /* after the cell's start; REC_NONE = when its slot, or the turn before, has ended */
	uint64_t prompt_tok,
		output_tok;        /* later turns of a conversation: prompt_tok REC_NONE, it holds answers */
	uint64_t conv, turn, part; /* REC_NONE = none */
	bool canary;
	const uint64_t *hashes; /* of the trace, borrowed */
	size_t n_hashes;
};

/* Every request of a cell that can be told beforehand. A closed loop that runs by time has no last one. */
struct sched;
/* `cell` and `trace` (for ARRIVAL_TRACE, else NULL) are borrowed. `warmup`: the warm-up requests, a closed
 * loop of other draws. ERR_PLAN: more than SCHED_REQUESTS_MAX requests. */
warn_unused int sched_make(struct sched **out, const struct cell *cell, const struct trace *trace,
                           bool warmup, struct err *err);
void sched_free(struct sched *s);
uint64_t sched_count(const struct sched *s); /* UINT64_MAX = no last one */
/* The k-th; false behind the end. Any k in any order. */
bool sched_item_at(const struct sched *s, uint64_t k, struct sched_item *out);
/* Its line of schedule.jsonl, without the newline:
 * {"cell","kind","k","due_ns","prompt_tok","output_tok","conv","turn","part","canary"} */
void sched_line(struct buf *out, const char *cell_id, const char *kind, const struct sched_item *i);

static inline void cleanup_sched(struct sched **s)
{
	sched_free(*s);
}
#define auto_sched __attribute__((cleanup(cleanup_sched))) struct sched *

#endif
