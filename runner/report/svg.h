/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as inline SVG: axes, ticks, thinning. Colours come from the page's style by class, so that light,
 * dark and print need one drawing. Coordinates have one decimal: the same figures, the same bytes. */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct axis {
	double lo, hi; /* values, lo < hi; log: lo > 0 */
	double px_lo, px_hi;
	bool log;
};
double axis_px(const struct axis *a, double v); /* clamped to the axis */
#define TICKS_MAX 24
/* Round values (1, 2, 5 x 10^k) inside the axis, about `want` of them. */
size_t axis_ticks(const struct axis *a, size_t want, double out[TICKS_MAX]);
/* A round number at or above v > 0. */
double round_up(double v);

struct point {
	double x, y; /* y NAN breaks the line */
};
/* Keeps first, last, least and greatest of each of `buckets` runs of neighbours, and one break where a run
 * has gaps (y NAN); returns the new count, at most 5 x buckets. In place. */
size_t thin_points(struct point *p, size_t n, size_t buckets);
/* A polyline (or step line) of points given in values. */
void svg_line(struct buf *b, const char *cls, const struct axis *x, const struct axis *y,
              const struct point *p, size_t n, bool steps);
void svg_segment(struct buf *b, const char *cls, double x1, double y1, double x2, double y2);
/* anchor: "start" "middle" "end"; `text` is escaped. */
void svg_text(struct buf *b, const char *cls, double x, double y, const char *anchor, const char *text);
/* Opens <figure><svg>; `label` is what a screen reader says. Close with "</svg></figure>". */
void svg_open(struct buf *b, int width, int height, const char *label);

#endif
