// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include "report/format.h"

#include <math.h>
#include <string.h>

double axis_px(const struct axis *a, double v)
{
	double share =
		a->log ? log(fmax(v, a->lo) / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
	return a->px_lo + fmin(1, fmax(0, share)) * (a->px_hi - a->px_lo);
}

static double step_for(double span, size_t want)
{
	double raw = span / (double)(want ? want : 1), ten = pow(10, floor(log10(raw)));
	double m = raw / ten;
	return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * ten;
}

double round_up(double v)
{
	double step = step_for(v, 5);
	return ceil(v / step - 1e-9) * step;
}

static size_t log_ticks(const struct axis *a, double out[TICKS_MAX])
{
	static const double mantissas[] = { 1, 2, 5 };
	size_t n = 0;
	bool sparse = log10(a->hi / a->lo) > 4;
	for (double e = floor(log10(a->lo)); e <= ceil(log10(a->hi)); e++) {
		for (size_t i = 0; i < (sparse ? 1u : 3u); i++) {
			double v = mantissas[i] * pow(10, e);
			if (v >= a->lo * .999 && v <= a->hi * 1.001 && n < TICKS_MAX)
				out[n++] = v;
		}
	}
	return n;
}

size_t axis_ticks(const struct axis *a, size_t want, double out[TICKS_MAX])
{
	if (a->log)
		return log_ticks(a, out);
	double step = step_for(a->hi - a->lo, want);
	size_t n = 0;
	for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi + step * 1e-9 && n < TICKS_MAX; k++)
		out[n++] = k * step + 0.0; // no minus zero
	return n;
}

// Which points of one run of neighbours stay: in order, without doubles, one break for all its gaps.
static size_t keep_extremes(const struct point *p, size_t n, struct point out[5])
{
	size_t first = n, last = n, low = n, high = n, gap = n, kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (isnan(p[i].y)) {
			gap = gap == n ? i : gap;
			continue;
		}
		first = first == n ? i : first;
		last = i;
		low = low == n || p[i].y < p[low].y ? i : low;
		high = high == n || p[i].y > p[high].y ? i : high;
	}
	for (size_t i = 0; i < n; i++)
		if (i == first || i == last || i == low || i == high || i == gap)
			out[kept++] = p[i];
	return kept;
}

size_t thin_points(struct point *p, size_t n, size_t buckets)
{
	size_t kept = 0, size = buckets ? (n + buckets - 1) / buckets : n;
	if (n <= 5 * buckets)
		return n;
	for (size_t i = 0; i < n; i += size) {
		struct point few[5];
		size_t m = keep_extremes(p + i, i + size < n ? size : n - i, few);
		memcpy(p + kept, few, m * sizeof *few);
		kept += m;
	}
	return kept;
}

void svg_line(struct buf *b, const char *cls, const struct axis *x, const struct axis *y,
              const struct point *p, size_t n, bool steps)
{
	bool pen_down = false;
	buf_addf(b, "<path class=\"%s\" d=\"", cls);
	for (size_t i = 0; i < n; i++) {
		if (isnan(p[i].y)) {
			pen_down = false;
			continue;
		}
		double px = axis_px(x, p[i].x), py = axis_px(y, p[i].y);
		if (!pen_down)
			buf_addf(b, "M%.1f %.1f", px, py);
		else if (steps)
			buf_addf(b, "H%.1fV%.1f", px, py);
		else
			buf_addf(b, "L%.1f %.1f", px, py);
		pen_down = true;
	}
	buf_adds(b, "\"/>\n");
}

void svg_segment(struct buf *b, const char *cls, double x1, double y1, double x2, double y2)
{
	buf_addf(b, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", cls, x1, y1, x2,
	         y2);
}

void svg_text(struct buf *b, const char *cls, double x, double y, const char *anchor, const char *text)
{
	buf_addf(b, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", cls, x, y, anchor);
	esc_n(b, text, 160);
	buf_adds(b, "</text>\n");
}

void svg_open(struct buf *b, int width, int height, const char *label)
{
	buf_addf(b, "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", width, height);
	esc_n(b, label, 300);
	buf_adds(b, "\">\n");
}
