/* SPDX-License-Identifier: Apache-2.0 */
/* What tells whether the client itself was the limit. */
#ifndef LOAD_SOUNDNESS_H
#define LOAD_SOUNDNESS_H

#include <stdint.h>

/* CPU time of the calling thread. */
uint64_t soundness_cpu_ns(void);
/* Time the calling thread was runnable but not on a CPU, since it began (/proc/thread-self/schedstat);
 * UINT64_MAX = the kernel does not say. */
uint64_t soundness_runq_wait_ns(void);
/* Of all CPUs since boot, in clock ticks (/proc/stat); both 0 = cannot be known. */
void soundness_steal(uint64_t *steal_ticks, uint64_t *total_ticks);

#endif
