/* SPDX-License-Identifier: Apache-2.0 */
#include "model/saturation.h"

#include "model/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct window {
	uint64_t first_ns, last_ns; /* due times */
	double part_ns;
};

/* One TTFT and the part it belongs to. */
struct sample {
	size_t part;
	uint64_t ttft_ns;
};

static struct window window_of(const struct record *const *rows, size_t n)
{
	struct window w = { .first_ns = UINT64_MAX };

	for (size_t i = 0; i < n; i++) {
		if (rows[i]->due_ns < w.first_ns)
			w.first_ns = rows[i]->due_ns;
		if (rows[i]->due_ns > w.last_ns)
			w.last_ns = rows[i]->due_ns;
	}
	w.part_ns = (double)(w.last_ns - w.first_ns) / SATURATION_PARTS;
	return w;
}

static size_t part_of(const struct window *w, uint64_t t_ns)
{
	double part = (double)(t_ns - w->first_ns) / w->part_ns;
	return part < SATURATION_PARTS ? (size_t)part : SATURATION_PARTS - 1;
}

/* Adds the time that one request is in flight to each part, as a share of the part. */
static void add_in_flight(double *in_flight, const struct window *w, const struct record *r)
{
	double from = (double)(r->due_ns - w->first_ns), to = (double)(w->last_ns - w->first_ns);

	if (r->end_ns != REC_NONE && r->end_ns < w->last_ns)
		to = r->end_ns > w->first_ns ? (double)(r->end_ns - w->first_ns) : 0;
	for (size_t i = part_of(w, r->due_ns); i < SATURATION_PARTS; i++) {
		double a = fmax(from, (double)i * w->part_ns), b = fmin(to, (double)(i + 1) * w->part_ns);
		if (b <= a)
			break;
		in_flight[i] += (b - a) / w->part_ns;
	}
}

static bool ttft_of(const struct record *r, uint64_t *out)
{
	uint64_t at = r->first_token_ns;
	bool at_least = r->outcome == OUTCOME_OK || r->outcome == OUTCOME_TIMEOUT ||
	                r->outcome == OUTCOME_STALLED || r->outcome == OUTCOME_CANCELLED;

	if (at == REC_NONE && at_least)
		at = r->end_ns;
	if (at == REC_NONE || at < r->due_ns)
		return false;
	*out = at - r->due_ns;
	return true;
}

static int by_part_and_ttft(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return (x->ttft_ns > y->ttft_ns) - (x->ttft_ns < y->ttft_ns);
}

/* Medians of the parts that have one, in ms, with the middle of the part in s. Their number. */
static size_t medians(double *t_s, double *ttft_ms, struct sample *samples, size_t n, const struct window *w)
{
	size_t k = 0;

	qsort(samples, n, sizeof(*samples), by_part_and_ttft);
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i; j < n && samples[j].part == samples[i].part; j++)
			;
		t_s[k] = ((double)samples[i].part + 0.5) * w->part_ns / 1e9;
		ttft_ms[k++] = (double)samples[i + (j - i - 1) / 2].ttft_ns / 1e6;
	}
	return k;
}

static int by_value(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static double median_of_parts(const double in_flight[SATURATION_PARTS])
{
	double sorted[SATURATION_PARTS];

	memcpy(sorted, in_flight, sizeof(sorted));
	qsort(sorted, SATURATION_PARTS, sizeof(*sorted), by_value);
	return (sorted[SATURATION_PARTS / 2 - 1] + sorted[SATURATION_PARTS / 2]) / 2;
}

static void judge(struct saturation_result *out, const struct window *w,
                  const double in_flight[SATURATION_PARTS], struct sample *samples, size_t n_samples)
{
	double t_s[SATURATION_PARTS], ttft_t_s[SATURATION_PARTS], ttft_ms[SATURATION_PARTS];
	struct stat_trend load, ttft;

	for (size_t i = 0; i < SATURATION_PARTS; i++)
		t_s[i] = ((double)i + 0.5) * w->part_ns / 1e9;
	out->n_parts = medians(ttft_t_s, ttft_ms, samples, n_samples, w);
	if (!stat_trend(t_s, in_flight, SATURATION_PARTS, 0.95, &load))
		return;
	out->p_in_flight = load.p_up;
	out->in_flight_slope_per_s = load.slope;
	out->in_flight_growth = load.slope * w->part_ns * SATURATION_PARTS / 1e9 / median_of_parts(in_flight);
	if (out->n_parts < SATURATION_PARTS_MIN || !stat_trend(ttft_t_s, ttft_ms, out->n_parts, 0.95, &ttft))
		return;
	out->p_ttft = ttft.p_up;
	out->ttft_slope_ms_per_s = ttft.slope;
	bool rises = load.p_up < SATURATION_P && ttft.p_up < SATURATION_P && out->in_flight_growth > 0.5;
	out->state = rises ? SATURATION_YES : SATURATION_NO;
}

struct saturation_result saturation_of(const struct record *const *rows, size_t n)
{
	const double none = (double)NAN;
	struct saturation_result out = { SATURATION_UNKNOWN, none, none, none, none, none, 0 };
	double in_flight[SATURATION_PARTS] = { 0 };
	size_t n_samples = 0;

	if (n < SATURATION_REQUESTS_MIN)
		return out;
	struct window w = window_of(rows, n);
	struct sample *samples = calloc(n, sizeof(*samples));
	if (!samples || w.last_ns <= w.first_ns) {
		free(samples);
		return out;
	}
	for (size_t i = 0; i < n; i++) {
		struct sample *s = &samples[n_samples];
		add_in_flight(in_flight, &w, rows[i]);
		if (ttft_of(rows[i], &s->ttft_ns)) {
			s->part = part_of(&w, rows[i]->due_ns);
			n_samples++;
		}
	}
	judge(&out, &w, in_flight, samples, n_samples);
	free(samples);
	return out;
}
