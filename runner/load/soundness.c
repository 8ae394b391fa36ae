/* SPDX-License-Identifier: Apache-2.0 */
#include "load/soundness.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

uint64_t soundness_cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* "on CPU, waiting, time slices"; a kernel that does not count writes three zeros. */
uint64_t soundness_runq_wait_ns(void)
{
	uint64_t cpu_ns, wait_ns;
	auto_file f = fopen("/proc/thread-self/schedstat", "re");
	if (!f || fscanf(f, "%" SCNu64 " %" SCNu64, &cpu_ns, &wait_ns) != 2 || cpu_ns == 0)
		return UINT64_MAX;
	return wait_ns;
}

/* First line of /proc/stat: user nice system idle iowait irq softirq steal (guest is in user already). */
void soundness_steal(uint64_t *steal_ticks, uint64_t *total_ticks)
{
	uint64_t v[8], total = 0;
	*steal_ticks = *total_ticks = 0;
	auto_file f = fopen("/proc/stat", "re");
	if (!f || fscanf(f,
	                 "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	                 " %" SCNu64 " %" SCNu64,
	                 &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
		return;
	for (int i = 0; i < 8; i++)
		total += v[i];
	*steal_ticks = v[7];
	*total_ticks = total;
}
