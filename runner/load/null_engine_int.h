/* SPDX-License-Identifier: Apache-2.0 */
/* Between null_engine.c (the process) and null_engine_serve.c (what runs in it). */
#ifndef LOAD_NULL_ENGINE_INT_H
#define LOAD_NULL_ENGINE_INT_H

#include "load/null_engine.h"

#define NULL_PATH_BYTES 64
#define NULL_TAG_BYTES 32 /* one request on the tape: {"k":00000012,"p":"… */
#define NULL_TAG_DIGITS_AT 5
#define NULL_TAG_DIGITS 8
#define NULL_TAG_READ (NULL_TAG_DIGITS_AT + NULL_TAG_DIGITS) /* bytes that say k */

struct null_serve { /* made before the fork: the child allocates nothing of its own but its connections */
	const struct null_engine_spec *spec;
	const char *path;
	int listen_fd;                  /* non-blocking */
	uint64_t *arrival_ns, *sent_ns; /* shared with the parent */
};

/* Called once what serving needs is there. */
typedef void null_ready_fn(void *ctx);
/* Serves until the process is killed. Returns errno when it cannot begin or go on. */
int null_engine_serve(const struct null_serve *job, null_ready_fn *ready, void *ctx);

#endif
