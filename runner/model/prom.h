/* SPDX-License-Identifier: Apache-2.0 */
/* A metrics page in the Prometheus text format (0.0.4), as engines serve it at /metrics. A name that is not
 * on the page is absent: prom_find gives NULL, never 0. Odd lines are counted and skipped; nothing here
 * fails on text from outside. */
#ifndef MODEL_PROM_H
#define MODEL_PROM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROM_SAMPLES_MAX 100000
#define PROM_LABELS_MAX 64

struct prom_label {
	char *name, *value; /* value unescaped */
};
struct prom_sample {
	char *name;
	size_t n_labels;
	struct prom_label *labels; /* in page order */
	double value;              /* NAN, +-INFINITY as told */
	bool has_timestamp;
	int64_t timestamp_ms;
};
struct prom_page {
	size_t n;
	struct prom_sample *list; /* page order */
	uint64_t n_odd_lines;     /* not read, of any reason */
	bool cut;                 /* more than PROM_SAMPLES_MAX, or no memory: the rest was not read */
};

void prom_read(struct prom_page *out, const char *text, size_t len);
void prom_done(struct prom_page *p);
/* First sample of that name; NULL = not on the page. */
const struct prom_sample *prom_find(const struct prom_page *p, const char *name);
const char *prom_label(const struct prom_sample *s, const char *name); /* NULL = none */

/* A histogram by its base name, buckets of the first label set met (le apart), cumulative, ascending. */
struct prom_bucket {
	double le; /* INFINITY = +Inf */
	double count;
};
struct prom_histogram {
	double count, sum; /* NAN = not on the page */
	size_t n;
	struct prom_bucket *buckets; /* owned: free */
};
bool prom_histogram(const struct prom_page *p, const char *base, struct prom_histogram *out);
/* The bucket in which quantile num/den lies: (lower, upper]; false without observations. upper = INFINITY: it
 * lies above lower, that is all that is known. */
bool prom_quantile_range(const struct prom_histogram *h, unsigned num, unsigned den, double *lower,
                         double *upper);

#endif
