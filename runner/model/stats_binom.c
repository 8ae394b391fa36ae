// SPDX-License-Identifier: Apache-2.0
// The binomial distribution and everything that inverts it.
#include "model/stats.h"

#include <math.h>

#define TIE 1e-12

// n! against Stirling: ln(n!) - ln(sqrt(2 pi n) (n/e)^n).
static double stirling_error(double n)
{
	static const double half_ln_2pi = 0.918938533204672741780329736406;
	if (n < 16) {
		int sign;
		return lgamma_r(n + 1, &sign) - (n + .5) * log(n) + n - half_ln_2pi;
	}
	double nn = n * n;
	return (1. / 12 - (1. / 360 - (1. / 1260 - (1. / 1680 - 1. / 1188 / nn) / nn) / nn) / nn) / n;
}

// x ln(x/m) + m - x without cancellation where x is near m.
static double deviance(double x, double m)
{
	if (fabs(x - m) >= .1 * (x + m))
		return x * log(x / m) + m - x;
	double v = (x - m) / (x + m), s = (x - m) * v, ej = 2 * x * v;
	for (int j = 1; j < 1000; j++) {
		ej *= v * v;
		double next = s + ej / (2 * j + 1);
		if (!(fabs(next - s) > 0))
			return next;
		s = next;
	}
	return s;
}

// P(Bin(n, q) = x), 0 < q < 1, x <= n.
static double mass(uint64_t n, uint64_t x, double q, double p)
{
	double dn = (double)n, dx = (double)x, dy = (double)(n - x);
	if (!x)
		return exp(dn * (q < .5 ? log1p(-q) : log(p)));
	if (x == n)
		return exp(dn * (p < .5 ? log1p(-p) : log(q)));
	double e = stirling_error(dn) - stirling_error(dx) - stirling_error(dy) - deviance(dx, dn * q) -
	           deviance(dy, dn * p);
	return exp(e) * sqrt(dn / (2 * M_PI * dx * dy));
}

// Sum of masses from t downwards; quick when t is at or below the mean, where terms fall geometrically.
static double sum_down(uint64_t n, uint64_t t, double q, double p)
{
	double term = 1, sum = 1;
	for (uint64_t x = t; x; x--) {
		term *= (double)x * p / ((double)(n - x + 1) * q);
		sum += term;
		if (term < sum * 1e-18)
			break;
	}
	return fmin(1, mass(n, t, q, p) * sum);
}

static double sum_up(uint64_t n, uint64_t t, double q, double p)
{
	return sum_down(n, n - t, p, q);
}

// q and p = 1 - q apart, so that neither loses digits.
static double le(uint64_t n, uint64_t t, double q, double p)
{
	if (t >= n || q <= 0)
		return 1;
	if (p <= 0)
		return 0;
	if ((double)t <= (double)n * q)
		return sum_down(n, t, q, p);
	return fmax(0, 1 - sum_up(n, t + 1, q, p));
}

static double ge(uint64_t n, uint64_t t, double q, double p)
{
	if (t > n)
		return 0;
	return le(n, n - t, p, q);
}

double stat_binom_le(uint64_t n, uint64_t t, double q)
{
	return le(n, t, q, 1 - q);
}

double stat_binom_ge(uint64_t n, uint64_t t, double q)
{
	return ge(n, t, q, 1 - q);
}

static bool at_most(double prob, double alpha)
{
	return prob <= alpha * (1 + TIE);
}

#define N_MAX (1ull << 52)

// Smallest n >= t with P(Bin(n, q) <= t) <= alpha.
static uint64_t n_min(uint64_t t, double q, double p, double alpha)
{
	if (q <= 0 || alpha <= 0 || t >= N_MAX)
		return STAT_NONE;
	uint64_t low = t, high = t + 1; // low never passes: P(Bin(t, q) <= t) = 1
	while (!at_most(le(high, t, q, p), alpha)) {
		low = high;
		high = t + 2 * (high - t);
		if (high > N_MAX)
			return STAT_NONE;
	}
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		if (at_most(le(mid, t, q, p), alpha))
			high = mid;
		else
			low = mid;
	}
	return high;
}

static enum tail gate(uint64_t n, uint64_t t, double q, double p, double confidence, struct tail_detail *d)
{
	double alpha = 1 - confidence;
	if (t > n)
		t = n;
	struct tail_detail r = { .p_pass = le(n, t, q, p), .p_fail = ge(n, t, q, p) };
	enum tail answer = at_most(r.p_pass, alpha)   ? TAIL_PASS
	                   : at_most(r.p_fail, alpha) ? TAIL_FAIL
	                                              : TAIL_INCONCLUSIVE;
	if (d) {
		if (answer == TAIL_INCONCLUSIVE) {
			uint64_t need = n_min(t, q, p, alpha);
			r.n_more = need == STAT_NONE ? STAT_NONE : need - n;
		}
		*d = r;
	}
	return answer;
}

static double share_over(unsigned num, unsigned den)
{
	return (double)(den - num) / (double)den;
}

static double share_in(unsigned num, unsigned den)
{
	return (double)num / (double)den;
}

enum tail stat_tail_gate(uint64_t n, uint64_t t, unsigned num, unsigned den, double confidence,
                         struct tail_detail *d)
{
	return gate(n, t, share_over(num, den), share_in(num, den), confidence, d);
}

enum tail stat_share_gate(uint64_t n, uint64_t x, double limit, double confidence, struct tail_detail *d)
{
	return gate(n, x, limit, 1 - limit, confidence, d);
}

uint64_t stat_n_min(uint64_t t, unsigned num, unsigned den, double confidence)
{
	return n_min(t, share_over(num, den), share_in(num, den), 1 - confidence);
}

uint64_t stat_allowed_t(uint64_t n, unsigned num, unsigned den, double confidence)
{
	double q = share_over(num, den), p = share_in(num, den), alpha = 1 - confidence;
	if (!n || !at_most(le(n, 0, q, p), alpha))
		return STAT_NONE;
	uint64_t low = 0, high = n; // low passes, high (everything over) never does
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		if (at_most(le(n, mid, q, p), alpha))
			low = mid;
		else
			high = mid;
	}
	return low;
}

uint64_t stat_fail_from(uint64_t n, unsigned num, unsigned den, double confidence)
{
	double q = share_over(num, den), p = share_in(num, den), alpha = 1 - confidence;
	if (!n || !at_most(ge(n, n, q, p), alpha))
		return STAT_NONE;
	uint64_t low = 0, high = n; // high fails, low (nothing over) never does
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		if (at_most(ge(n, mid, q, p), alpha))
			high = mid;
		else
			low = mid;
	}
	return high;
}

uint64_t stat_rank_upper(uint64_t n, unsigned num, unsigned den, double confidence)
{
	uint64_t t = stat_allowed_t(n, num, den, confidence);
	return t == STAT_NONE ? STAT_NONE : n - t;
}

uint64_t stat_rank_lower(uint64_t n, unsigned num, unsigned den, double confidence)
{
	uint64_t t = stat_fail_from(n, num, den, confidence);
	return t == STAT_NONE ? STAT_NONE : n - t + 1;
}

bool stat_median_ranks(uint64_t n, double confidence, uint64_t *lower, uint64_t *upper)
{
	double side = 1 - (1 - confidence) / 2;
	uint64_t low = stat_rank_lower(n, 1, 2, side), high = stat_rank_upper(n, 1, 2, side);
	if (low == STAT_NONE || high == STAT_NONE)
		return false;
	*lower = low;
	*upper = high;
	return true;
}

double stat_look_confidence(double confidence, uint64_t looks)
{
	return 1 - (1 - confidence) / (double)(looks ? looks : 1);
}

// The share at which P(Bin(n, share) <= x) = alpha; falling in the share.
double stat_cp_upper(uint64_t n, uint64_t x, double confidence)
{
	if (x >= n)
		return 1;
	double alpha = 1 - confidence, low = (double)x / (double)n, high = 1;
	for (int i = 0; i < 1100; i++) {
		double mid = low + (high - low) / 2;
		if (mid <= low || mid >= high)
			break;
		if (le(n, x, mid, 1 - mid) > alpha)
			low = mid;
		else
			high = mid;
	}
	return high;
}

double stat_cp_lower(uint64_t n, uint64_t x, double confidence)
{
	if (!x || !n)
		return 0;
	double alpha = 1 - confidence, low = 0, high = x >= n ? 1 : (double)x / (double)n;
	for (int i = 0; i < 1100; i++) {
		double mid = low + (high - low) / 2;
		if (mid <= low || mid >= high)
			break;
		if (ge(n, x, mid, 1 - mid) > alpha)
			high = mid;
		else
			low = mid;
	}
	return low;
}

void stat_cp_two_sided(uint64_t n, uint64_t x, double confidence, double *lower, double *upper)
{
	double side = 1 - (1 - confidence) / 2;
	*lower = stat_cp_lower(n, x, side);
	*upper = stat_cp_upper(n, x, side);
}
