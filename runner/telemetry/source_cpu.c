/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time: of the machine as shares since the reading before (the first one is unknown), of the engine's
 * process tree as a sum that only grows while its processes live. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc.h"
#include "telemetry/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STAT_BYTES = 4096, LINE_BYTES = 1024 };

struct ticks {
	uint64_t total, idle, steal;
};

struct cpu_state {
	bool has_last;
	struct ticks last;
};

/* /proc/stat grows with CPUs and interrupts; its first line is enough. */
static bool read_machine(struct ticks *out)
{
	char line[LINE_BYTES];
	uint64_t v[8];
	auto_file f = fopen("/proc/stat", "re");
	if (!f || !fgets(line, sizeof(line), f) ||
	    sscanf(line,
	           "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	           " %" SCNu64,
	           &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
		return false;
	*out = (struct ticks){ .idle = v[3] + v[4], .steal = v[7] };
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		out->total += v[i];
	return true;
}

/* User and system time of one process, its ended and waited-for children included. */
static bool read_process(pid_t pid, uint64_t *ns)
{
	char path[64], text[STAT_BYTES];
	uint64_t t[4];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (telemetry_slurp(path, text, sizeof(text)))
		return false;
	const char *p = strrchr(text, ')'); /* the name may hold anything */
	if (!p || sscanf(p + 1,
	                 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64
	                 " %" SCNu64,
	                 &t[0], &t[1], &t[2], &t[3]) != 4)
		return false;
	*ns = (t[0] + t[1] + t[2] + t[3]) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return true;
}

static bool read_tree(pid_t root, uint64_t *ns)
{
	size_t n = 0;
	uint64_t one = 0;
	auto_free pid_t *pids = root > 0 ? proc_tree(root, &n) : NULL;
	if (!pids || n == 0 || !read_process(root, &one))
		return false;
	for (size_t i = 0; i < n; i++)
		*ns += read_process(pids[i], &one) ? one : 0; /* a child that just ended */
	return true;
}

static int open_cpu(void **state, struct err *err)
{
	*state = calloc(1, sizeof(struct cpu_state));
	return *state ? 0 : err_set(err, ERR_ENV, "no memory");
}

static size_t read_cpu(void *state, const struct telemetry_target *t, struct telemetry_reading *out,
                       size_t max)
{
	struct cpu_state *s = state;
	struct ticks now;
	uint64_t ns = 0;
	double busy = 0, steal = 0;
	if (max < 3)
		return 0;
	bool has_now = read_machine(&now);
	bool known = has_now && s->has_last && now.total > s->last.total && now.idle >= s->last.idle &&
	             now.steal >= s->last.steal && now.total - s->last.total >= now.idle - s->last.idle;
	if (known) {
		double span = (double)(now.total - s->last.total);
		busy = 1 - (double)(now.idle - s->last.idle) / span;
		steal = (double)(now.steal - s->last.steal) / span;
	}
	s->has_last = has_now;
	if (has_now)
		s->last = now;
	bool has_engine = read_tree(t->engine_pid, &ns);
	out[0] = (struct telemetry_reading){ "host_cpu_busy_share", known, busy };
	out[1] = (struct telemetry_reading){ "host_cpu_steal_share", known, steal };
	out[2] = (struct telemetry_reading){ "engine_cpu_ns", has_engine, (double)ns };
	return 3;
}

const struct telemetry_source telemetry_cpu = {
	.name = "cpu",
	.open = open_cpu,
	.read = read_cpu,
	.close = free,
};
