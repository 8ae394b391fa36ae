// SPDX-License-Identifier: Apache-2.0
#include "model/schedule.h"

#include "base/clock.h"
#include "base/json_out.h"
#include "model/canary.h"
#include "model/record.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN 0x9e3779b97f4a7c15u
#define TAG_MIX_LOAD 0x6d69782f6c6f6164u /* "mix/load" */
#define TAG_MIX_WARM 0x6d69782f7761726du /* "mix/warm" */
#define TAG_CANARY 0x63616e2f6c6f6164u   /* "can/load" */

// --- draws ---------------------------------------------------------------------------------------------

uint64_t splitmix64_next(struct splitmix64 *s)
{
	uint64_t z = (s->state += GOLDEN);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

double splitmix64_unit(struct splitmix64 *s)
{
	return (double)(splitmix64_next(s) >> 11) * 0x1p-53;
}

static uint64_t stream_of(uint64_t seed, uint64_t tag)
{
	struct splitmix64 s = { seed ^ tag };
	return splitmix64_next(&s);
}

/* The state of the generator is a counter, so any draw is one step away. */
static double draw_at(uint64_t stream, uint64_t k)
{
	struct splitmix64 s = { stream + k * GOLDEN };
	return splitmix64_unit(&s);
}

double sched_ln(double y)
{
	int e;
	double m = frexp(y, &e);

	if (m < 0.7071067811865476) {
		m *= 2;
		e--;
	}
	double s = (m - 1) / (m + 1), z = s * s, p = 1.0 / 21;
	for (int j = 19; j >= 1; j -= 2)
		p = p * z + 1.0 / j;
	return e * 0.6931471805599453 + 2 * s * p;
}

double sched_exp(double x)
{
	if (x < -700)
		return 0;
	double n = floor(x / 0.6931471805599453 + 0.5), p = 1;
	double r = x - n * 0.6931471803691238 - n * 1.9082149292705877e-10;
	for (int j = 14; j >= 1; j--)
		p = 1 + p * r / j;
	return ldexp(p, (int)n);
}

static double draw_exponential(struct splitmix64 *rng)
{
	return -sched_ln(1 - splitmix64_unit(rng));
}

static double draw_normal(struct splitmix64 *rng)
{
	for (;;) {
		double p = 2 * splitmix64_unit(rng) - 1;
		double q = 2 * splitmix64_unit(rng) - 1;
		double s = p * p + q * q;
		if (s > 0 && s < 1)
			return p * sqrt(-2 * sched_ln(s) / s);
	}
}

static double draw_gamma_of_1_or_more(struct splitmix64 *rng, double shape)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

	for (;;) {
		double x = draw_normal(rng), h = 1 + c * x;
		if (h <= 0)
			continue;
		double v = h * h * h, u = splitmix64_unit(rng);
		if (sched_ln(1 - u) < 0.5 * x * x + d * (1 - v + sched_ln(v)))
			return d * v;
	}
}

static double draw_gamma(struct splitmix64 *rng, double shape)
{
	if (shape >= 1)
		return draw_gamma_of_1_or_more(rng, shape);
	double g = draw_gamma_of_1_or_more(rng, shape + 1), u = splitmix64_unit(rng);
	return g * sched_exp(sched_ln(1 - u) / shape);
}

// --- arrivals ------------------------------------------------------------------------------------------

void arrivals_init(struct arrivals *s, const struct plan_arrival *a, double rate_rps, double duration_s)
{
	*s = (struct arrivals){ .kind = a->kind,
		                .rate_rps = rate_rps,
		                .rate_end_rps = a->rate_end_rps,
		                .ramp_s = duration_s,
		                .burstiness = a->burstiness,
		                .rng = { .state = a->seed } };
}

// Past 570 years the schedule has ended; the caller's own end comes long before.
static uint64_t to_ns(double s)
{
	return s < 1.8e10 ? (uint64_t)round(s * (double)NS_PER_S) : UINT64_MAX;
}

static uint64_t ramp_next_ns(struct arrivals *s)
{
	double r = s->rate_rps, e = s->next_s += draw_exponential(&s->rng);
	double square = r * r + 2 * (s->rate_end_rps - r) * e / s->ramp_s;

	if (square < 0)
		return UINT64_MAX;
	double due = 2 * e / (r + sqrt(square));
	return due < s->ramp_s ? to_ns(due) : UINT64_MAX;
}

uint64_t arrivals_next_ns(struct arrivals *s)
{
	s->k++;
	switch (s->kind) {
	case ARRIVAL_POISSON:
		return to_ns(s->next_s += draw_exponential(&s->rng) / s->rate_rps);
	case ARRIVAL_GAMMA:
		return to_ns(s->next_s += draw_gamma(&s->rng, s->burstiness) / (s->burstiness * s->rate_rps));
	case ARRIVAL_RAMP:
		return ramp_next_ns(s);
	case ARRIVAL_CONSTANT:
		return to_ns((double)(s->k - 1) / s->rate_rps);
	case ARRIVAL_CLOSED:
	case ARRIVAL_TRACE:
		break;
	}
	return UINT64_MAX;
}

// --- the schedule of a cell ----------------------------------------------------------------------------

struct sched {
	const struct cell *cell;
	const struct trace *trace; /* NULL = none */
	bool warmup;
	uint64_t count;
	uint64_t turns;   /* 1 = no conversations */
	uint64_t *due_ns; /* of each conversation, or request; NULL = closed loop */
	uint64_t mix_stream, canary_stream;
	double weights;
};

static uint64_t end_of(const struct cell *cell)
{
	return cell->duration_s > 0 ? to_ns(cell->duration_s) : UINT64_MAX;
}

static int too_many(const struct cell *cell, struct err *err)
{
	return err_set(err, ERR_PLAN, "%s: more than %d requests are planned", cell->id, SCHED_REQUESTS_MAX);
}

/* Room for one more; doubles. */
static int grow(uint64_t **list, uint64_t n, uint64_t *cap, struct err *err)
{
	if (n < *cap)
		return 0;
	uint64_t want = *cap ? *cap * 2 : 1024;
	uint64_t *more = realloc(*list, want * sizeof(*more));
	if (!more)
		return err_set(err, ERR_ENV, "no memory for a schedule of more than %llu requests",
		               (unsigned long long)n);
	*list = more;
	*cap = want;
	return 0;
}

static uint64_t trace_due_ns(const struct sched *s, uint64_t k)
{
	double due = (double)s->trace->rows[k].at_ns / s->cell->wl->arrival.speed;
	return due < 1.8e19 ? (uint64_t)round(due) : UINT64_MAX;
}

/* Due times of what does not wait for another: `most` of them, or those before the end. */
static int make_due(struct sched *s, uint64_t most, struct err *err)
{
	struct arrivals a;
	uint64_t n = 0, cap = 0, due, end = end_of(s->cell);

	arrivals_init(&a, &s->cell->wl->arrival, s->cell->rate_rps, s->cell->duration_s);
	for (; n < most; n++) {
		if (s->trace)
			due = n < s->trace->n ? trace_due_ns(s, n) : UINT64_MAX;
		else
			due = arrivals_next_ns(&a);
		if (due >= end)
			break;
		if ((n + 1) * s->turns > SCHED_REQUESTS_MAX)
			return too_many(s->cell, err);
		if (grow(&s->due_ns, n, &cap, err))
			return -1;
		s->due_ns[n] = due;
	}
	s->count = n * s->turns;
	return 0;
}

static int fill_sched(struct sched *s, struct err *err)
{
	const struct plan_workload *wl = s->cell->wl;
	uint64_t requests = s->warmup ? wl->warmup_requests : s->cell->requests;

	if (requests > SCHED_REQUESTS_MAX)
		return too_many(s->cell, err);
	if (wl->arrival.kind == ARRIVAL_TRACE && (!s->trace || s->trace->n == 0))
		return err_set(err, ERR_PLAN, "%s: no trace to take the requests from", s->cell->id);
	if (!s->warmup && wl->arrival.kind != ARRIVAL_CLOSED)
		return make_due(s, requests ? requests / s->turns : UINT64_MAX, err);
	s->count = requests || s->warmup ? requests : UINT64_MAX;
	return 0;
}

int sched_make(struct sched **out, const struct cell *cell, const struct trace *trace, bool warmup,
               struct err *err)
{
	const struct plan_workload *wl = cell->wl;
	auto_sched s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, ERR_ENV, "no memory");
	*s = (struct sched){ .cell = cell,
		             .trace = wl->arrival.kind == ARRIVAL_TRACE ? trace : NULL,
		             .warmup = warmup,
		             .turns = !warmup && wl->conversation.turns > 1 ? wl->conversation.turns : 1 };
	s->mix_stream = stream_of(wl->arrival.seed, warmup ? TAG_MIX_WARM : TAG_MIX_LOAD);
	s->canary_stream = stream_of(wl->arrival.seed, TAG_CANARY);
	for (size_t i = 0; i < wl->n_mix; i++)
		s->weights += wl->mix[i].weight;
	if (fill_sched(s, err))
		return -1;
	*out = steal_ptr(&s);
	return 0;
}

void sched_free(struct sched *s)
{
	if (s)
		free(s->due_ns);
	free(s);
}

uint64_t sched_count(const struct sched *s)
{
	return s->count;
}

static uint64_t part_at(const struct sched *s, uint64_t k)
{
	const struct plan_workload *wl = s->cell->wl;
	double at = draw_at(s->mix_stream, k) * s->weights, sum = 0;

	for (size_t i = 0; i + 1 < wl->n_mix; i++) {
		sum += wl->mix[i].weight;
		if (at < sum)
			return i;
	}
	return wl->n_mix - 1;
}

static void take_lengths(const struct sched *s, uint64_t first_k, struct sched_item *i)
{
	const struct plan_workload *wl = s->cell->wl;

	i->prompt_tok = s->cell->prompt_tok;
	i->output_tok = s->cell->output_tok;
	if (s->trace) {
		const struct trace_row *row = &s->trace->rows[i->k % s->trace->n];
		i->prompt_tok = row->prompt_tok;
		i->output_tok = row->output_tok;
		i->n_hashes = s->warmup ? 0 : row->n_hash;
		i->hashes = i->n_hashes ? s->trace->hashes + row->hash_at : NULL;
	} else if (wl->n_mix) {
		i->part = part_at(s, first_k);
		i->prompt_tok = wl->mix[i->part].prompt_tok;
		i->output_tok = wl->mix[i->part].output_tok;
	}
}

static bool is_canary(const struct sched *s, const struct sched_item *i)
{
	double share = s->cell->wl->canary_share * (double)s->turns;

	if (s->warmup || share <= 0 || i->output_tok < CANARY_OUTPUT_TOK_MIN)
		return false;
	if (s->turns > 1 && i->turn + 1 != s->turns)
		return false;
	return draw_at(s->canary_stream, i->k) < share;
}

bool sched_item_at(const struct sched *s, uint64_t k, struct sched_item *out)
{
	uint64_t conv = k / s->turns, turn = k % s->turns;

	if (k >= s->count)
		return false;
	struct sched_item i = {
		.k = k, .due_ns = REC_NONE, .conv = REC_NONE, .turn = REC_NONE, .part = REC_NONE
	};
	if (s->turns > 1) {
		i.conv = conv;
		i.turn = turn;
	}
	take_lengths(s, k - turn, &i);
	if (turn)
		i.prompt_tok = REC_NONE;
	if (s->due_ns && turn == 0)
		i.due_ns = s->due_ns[conv];
	i.canary = is_canary(s, &i);
	*out = i;
	return true;
}

void sched_line(struct buf *out, const char *cell_id, const char *kind, const struct sched_item *i)
{
	struct json_out o;

	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "cell", cell_id);
	jo_str(&o, "kind", kind);
	jo_u64(&o, "k", i->k);
	jo_opt_u64(&o, "due_ns", i->due_ns);
	jo_opt_u64(&o, "prompt_tok", i->prompt_tok);
	jo_opt_u64(&o, "output_tok", i->output_tok);
	jo_opt_u64(&o, "conv", i->conv);
	jo_opt_u64(&o, "turn", i->turn);
	jo_opt_u64(&o, "part", i->part);
	jo_bool(&o, "canary", i->canary);
	jo_end(&o);
}
