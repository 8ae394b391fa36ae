/* SPDX-License-Identifier: Apache-2.0 */
/* Time. Everything measured is CLOCK_MONOTONIC in ns; files hold ns since the run's start and one RFC 3339
 * anchor (design.md). Take time where the event is; never pass a stale `now` around. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

uint64_t clock_now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t clock_cpu_self_ns(void); /* CPU time of this process, all threads */
int64_t clock_wall_ns(void);      /* CLOCK_REALTIME, ns since 1970 */
/* "2026-01-02T03:04:05.678Z", UTC, with milliseconds. `out` holds at least 32 bytes. */
#define RFC3339_BYTES 32
void clock_rfc3339(int64_t wall_ns, char out[RFC3339_BYTES]);
/* Strict RFC 3339 with 'Z' (date-time, or a bare date = its midnight UTC). 0, or -1 when it is not one, or
 * outside 1970..2261 (what an int64_t of ns holds). */
int clock_parse_rfc3339(const char *text, int64_t *wall_ns);
/* Name of the kernel's clock source ("tsc"), or "unknown". */
void clock_source(char out[64]);

#endif
