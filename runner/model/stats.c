// SPDX-License-Identifier: Apache-2.0
// Normal quantile, Wilson, nearest rank, dependence, trend.
#include "model/stats.h"

#include <math.h>
#include <stdlib.h>

double stat_normal_upper(double z)
{
	return erfc(z * M_SQRT1_2) / 2;
}

// Bisection on the exact tail: slow (some 60 erfc) and right to the last digits.
double stat_normal_quantile(double p)
{
	if (!(p > 0 && p < 1))
		return (double)NAN;
	double tail = p < .5 ? p : 1 - p, low = 0, high = 39;
	for (int i = 0; i < 200; i++) {
		double mid = low + (high - low) / 2;
		if (mid <= low || mid >= high)
			break;
		if (stat_normal_upper(mid) > tail)
			low = mid;
		else
			high = mid;
	}
	return p < .5 ? -low : low;
}

void stat_wilson(uint64_t n, uint64_t x, double confidence, double *lower, double *upper)
{
	if (!n) {
		*lower = *upper = (double)NAN;
		return;
	}
	double z = stat_normal_quantile(1 - (1 - confidence) / 2), dn = (double)n;
	double share = (double)(x > n ? n : x) / dn, z2 = z * z / dn;
	double mid = (share + z2 / 2) / (1 + z2);
	double half = z / (1 + z2) * sqrt(share * (1 - share) / dn + z2 / (4 * dn));
	*lower = fmax(0, mid - half);
	*upper = fmin(1, mid + half);
}

uint64_t stat_nearest_rank(uint64_t n, unsigned num, unsigned den)
{
	if (!n || !den)
		return STAT_NONE;
	// n = whole * den + rest keeps the product inside 64 bit.
	uint64_t whole = n / den, rest = n % den;
	uint64_t rank = whole * num + (rest * num + den - 1) / den;
	return rank < 1 ? 1 : rank > n ? n : rank;
}

static double mean_of(const double *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += x[i];
	return sum / (double)n;
}

static double product_sum(const double *x, size_t n, size_t k, double mean)
{
	double sum = 0;
	for (size_t i = 0; i + k < n; i++)
		sum += (x[i] - mean) * (x[i + k] - mean);
	return sum;
}

double stat_autocorrelation(const double *x, size_t n, size_t k)
{
	if (k >= n)
		return (double)NAN;
	double mean = mean_of(x, n), var = product_sum(x, n, 0, mean);
	return var > 0 ? product_sum(x, n, k, mean) / var : (double)NAN;
}

#define LAGS_MAX 2000
#define LAG_WORK_MAX 200000000u // multiplications: keeps 10^6 values under a second

static bool all_equal(const double *x, size_t n)
{
	size_t i = 1;
	while (i < n && !(x[i] < x[0]) && !(x[i] > x[0]))
		i++;
	return i == n;
}

double stat_n_eff(const double *x, size_t n)
{
	if (n < 2)
		return (double)n;
	double mean = mean_of(x, n), var = product_sum(x, n, 0, mean), sum = 0;
	if (!(var > 0) || all_equal(x, n)) /* the mean of equal values may miss them by its last bit */
		return (double)n;
	for (size_t k = 1; k < n && k <= LAGS_MAX && k <= LAG_WORK_MAX / n; k++) {
		double rho = product_sum(x, n, k, mean) / var;
		if (!(rho > 0))
			break;
		sum += rho;
	}
	return (double)n / (1 + 2 * sum);
}

bool stat_scale_to_n_eff(uint64_t n, uint64_t t, double n_eff, uint64_t *n_out, uint64_t *t_out)
{
	*n_out = n;
	*t_out = t;
	if (!(n_eff > 0) || n_eff >= (double)n / 2)
		return false;
	double eff = floor(n_eff);
	*n_out = (uint64_t)eff;
	double scaled = ceil((double)t * eff / (double)n);
	*t_out = t && scaled < 1 ? 1 : (uint64_t)scaled;
	if (*t_out > *n_out)
		*t_out = *n_out;
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// Variance of S with equal values grouped; `sorted` ascending.
static double variance_of_s(const double *sorted, size_t n)
{
	double dn = (double)n, v = dn * (dn - 1) * (2 * dn + 5);
	for (size_t i = 0; i < n;) {
		size_t j = i + 1;
		while (j < n && !(sorted[j] > sorted[i]))
			j++;
		double g = (double)(j - i);
		v -= g * (g - 1) * (2 * g + 5);
		i = j;
	}
	return v / 18;
}

static double median_of(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static uint64_t clamp_rank(double rank, size_t n)
{
	return rank < 1 ? 1 : rank > (double)n ? n : (uint64_t)rank;
}

bool stat_trend(const double *t, const double *x, size_t n, double confidence, struct stat_trend *out)
{
	if (n < 3 || n > STAT_TREND_MAX)
		return false;
	size_t n_pairs = n * (n - 1) / 2, k = 0;
	double *slopes = malloc(n_pairs * sizeof *slopes), *sorted = malloc(n * sizeof *sorted);
	if (!slopes || !sorted) {
		free(slopes);
		free(sorted);
		return false;
	}
	struct stat_trend r = { .n_pairs = n_pairs };
	for (size_t i = 0; i < n; i++) {
		sorted[i] = x[i];
		for (size_t j = i + 1; j < n; j++) {
			r.s += (x[j] > x[i]) - (x[j] < x[i]);
			slopes[k++] = (x[j] - x[i]) / (t[j] - t[i]);
		}
	}
	qsort(sorted, n, sizeof *sorted, by_value);
	qsort(slopes, n_pairs, sizeof *slopes, by_value);
	r.var = variance_of_s(sorted, n);
	int sign = (r.s > 0) - (r.s < 0);
	r.z = r.var > 0 ? (double)(r.s - sign) / sqrt(r.var) : 0;
	r.p_up = stat_normal_upper(r.z);
	r.slope = median_of(slopes, n_pairs);
	double c = stat_normal_quantile(1 - (1 - confidence) / 2) * sqrt(fmax(0, r.var));
	// M1 = (N - C)/2 and M2 + 1 = (N + C)/2 + 1, to the nearest whole rank.
	r.rank_lower = clamp_rank(round(((double)n_pairs - c) / 2), n_pairs);
	r.rank_upper = clamp_rank(round(((double)n_pairs + c) / 2 + 1), n_pairs);
	r.slope_lower = slopes[r.rank_lower - 1];
	r.slope_upper = slopes[r.rank_upper - 1];
	free(slopes);
	free(sorted);
	*out = r;
	return true;
}
