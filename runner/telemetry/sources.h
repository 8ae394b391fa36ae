/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in sources, and what they share. Each is listed in sampler.c. */
#ifndef TELEMETRY_SOURCES_H
#define TELEMETRY_SOURCES_H

#include "telemetry/sampler.h"

#include <stddef.h>

extern const struct telemetry_source telemetry_proc, telemetry_meminfo, telemetry_cgroup, telemetry_cpu;

/* Reads a small file of /proc or /sys whole into `out`, NUL-terminated. -1 when it cannot be read or fills
 * `size`. */
int telemetry_slurp(const char *path, char *out, size_t size);
/* The number behind `key` ("Pss:") in `text` made of lines, times 1024 as such files count KiB. */
bool telemetry_kib(const char *text, const char *key, uint64_t *bytes);

#endif
