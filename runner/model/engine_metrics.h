/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine's own metrics say of a time between two of its pages: the names of each engine in one table
 * (proofmark-bundle(5), Engine metrics). Pages are text from outside; nothing here fails on them. */
#ifndef MODEL_ENGINE_METRICS_H
#define MODEL_ENGINE_METRICS_H

#include <stddef.h>

struct engine_figures { /* NAN = the pages do not say */
	double prefix_cache_hit_share;
	double queue_time_mean_ms; /* from arrival to the begin of the prefill, of requests that began in
	                              between */
};
struct engine_figures engine_figures_between(const char *before, size_t before_len, const char *after,
                                             size_t after_len);

#endif
