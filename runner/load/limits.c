/* SPDX-License-Identifier: Apache-2.0 */
#include "load/load_int.h"

#include "base/fs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SPARE_FDS 64 /* journal, telemetry, resolver, what the caller opens meanwhile */
#define STREAMS_MAX 65536

static uint64_t fds_open(void)
{
	uint64_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	if (!d)
		return 16;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

int limits_streams(size_t *max_streams, uint64_t wanted, struct err *err)
{
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		rl.rlim_cur = rl.rlim_max = 1024;
	if (rl.rlim_cur < rl.rlim_max) {
		struct rlimit up = { rl.rlim_max, rl.rlim_max };
		if (setrlimit(RLIMIT_NOFILE, &up) == 0)
			rl.rlim_cur = rl.rlim_max;
	}
	uint64_t used = fds_open() + SPARE_FDS, limit = rl.rlim_cur;
	uint64_t room = limit > used ? limit - used : 0;
	if (room == 0 || wanted > room)
		return err_set(err, ERR_ENV,
		               "load: %" PRIu64 " streams need %" PRIu64
		               " file descriptors, the limit is %" PRIu64
		               ": raise it (ulimit -n, LimitNOFILE)",
		               wanted, wanted + used, limit);
	if (wanted > STREAMS_MAX)
		return err_set(err, ERR_PLAN, "load: %" PRIu64 " streams from one process, at most %d",
		               wanted, STREAMS_MAX);
	*max_streams = (size_t)(wanted ? wanted : room < STREAMS_MAX ? room : STREAMS_MAX);
	return 0;
}

/* First line of /proc/stat: user nice system idle iowait irq softirq steal (guest is in user already). */
void limits_steal(uint64_t *steal_ticks, uint64_t *total_ticks)
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
