/* SPDX-License-Identifier: Apache-2.0 */
/* Reads sources at a fixed period in a thread of its own and hands each reading over as a line of
 * telemetry.jsonl. One const table a source, listed in sampler.c. Unknown is null, never 0. */
#ifndef TELEMETRY_SAMPLER_H
#define TELEMETRY_SAMPLER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct telemetry_reading {
	const char *name; /* "engine_pss_bytes" */
	bool known;
	double value;
};
struct telemetry_target {
	pid_t engine_pid; /* 0 = attached or not running: engine figures are unknown */
};
struct telemetry_source {
	const char *name;                           /* "proc" "cgroup" "meminfo" "cpu" */
	int (*open)(void **state, struct err *err); /* NULL = nothing to open */
	/* Fills up to `max` readings, returns how many. */
	size_t (*read)(void *state, const struct telemetry_target *t, struct telemetry_reading *out,
	               size_t max);
	void (*close)(void *state);
};
extern const struct telemetry_source *const telemetry_sources[]; /* NULL-ended */

struct sampler;
struct sampler_spec {
	uint64_t period_ns, origin_ns;
	/* One line without newline; called from the sampler's thread. */
	void (*line)(void *ctx, const char *line, size_t len);
	void *ctx;
	const char *cpus; /* where the sampler thread runs; NULL = not bound */
};
warn_unused int sampler_start(struct sampler **out, const struct sampler_spec *spec, struct err *err);
void sampler_target(struct sampler *s, const struct telemetry_target *t); /* thread-safe */
void sampler_phase(struct sampler *s, const char *phase);                 /* thread-safe; copied */
void sampler_stop(struct sampler *s);                                     /* takes a last reading */

#endif
