/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this machine lets one process drive a cell at all: file descriptors, local ports, memory. Looked at
 * before each load, and by a preflight without one. */
#ifndef LOAD_LIMITS_H
#define LOAD_LIMITS_H

#include "load/load.h"

#define LOAD_THREADS_MAX 256
#define LOAD_STREAMS_MAX 65536

struct load_limits { /* UINT64_MAX = cannot be known here, or no bound */
	uint64_t threads;
	uint64_t streams;               /* most in flight that the cell asks for; 0 = unbounded */
	uint64_t max_streams;           /* what file descriptors and ports allow, at most LOAD_STREAMS_MAX */
	uint64_t fds_needed, fds_limit; /* of the process; the soft limit is raised to the hard one first */
	uint64_t ports_needed, ports;   /* local ports towards one address; a unix socket needs none */
	uint64_t memory_needed_bytes, memory_bytes; /* for the streams, without bodies and records */
};

/* What is needed and what there is, without a verdict. */
void limits_read(struct load_limits *out, const struct load_spec *spec);
/* ERR_ENV (ERR_PLAN: more than any machine could) when something is short; the line says what, how much is
 * needed, and what to change. */
warn_unused int limits_judge(const struct load_limits *l, struct err *err);
/* Both. */
warn_unused int limits_check(struct load_limits *out, const struct load_spec *spec, struct err *err);

#endif
