/* SPDX-License-Identifier: Apache-2.0 */
/* Over-saturation of an open loop: more comes than is served, so what waits grows as long as the load lasts
 * and every latency is a figure of the test's length. */
#ifndef MODEL_SATURATION_H
#define MODEL_SATURATION_H

#include "model/record.h"

#define SATURATION_PARTS 20
#define SATURATION_REQUESTS_MIN 60
#define SATURATION_PARTS_MIN 8 /* that have a TTFT */
#define SATURATION_P 0.01

/* The window from the first to the last due time is cut into 20 parts of equal time. Of each part:
 *   in flight: mean number of requests that are due and have not ended, over the part's time;
 *   TTFT: median (nearest rank) of first_token_ns - due_ns of the requests due in it. Without a token end_ns
 *     counts for outcomes ok (answer not streamed), timeout, stalled and cancelled, whose TTFT is at least
 *     that; other failures are left out.
 * Over-saturated = by Mann-Kendall (one-sided p < .01 each, statistics.md 6) both rise over the parts, and
 * Sen's slope of the number in flight over the window is more than half of the median of the 20 numbers.
 * Fewer than 60 requests or 8 parts with a TTFT: not known. Not for ramps and traces, whose rate changes by
 * itself: there a rise says nothing. */
enum saturation { SATURATION_UNKNOWN, SATURATION_NO, SATURATION_YES };
struct saturation_result {
	enum saturation state;
	double p_in_flight, p_ttft; /* NAN = not computed */
	double in_flight_slope_per_s, ttft_slope_ms_per_s;
	double in_flight_growth; /* slope x window / median; NAN = not computed */
	size_t n_parts;          /* with a TTFT */
};
/* `rows` in any order; load records of one cell. Cancelled ones count as in flight until they ended. Without
 * memory: not known. */
struct saturation_result saturation_of(const struct record *const *rows, size_t n);

#endif
