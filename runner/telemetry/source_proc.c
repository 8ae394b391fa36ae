/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the engine: PSS and RSS summed over its process tree. PSS shares out what processes have in
 * common; RSS counts it for each. A sum that misses a process is no sum: then it is unknown. */
#include "base/cleanup.h"
#include "base/proc.h"
#include "telemetry/sources.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH_BYTES = 64, TEXT_BYTES = 4096 };

struct sum {
	bool known;
	uint64_t bytes;
};

static bool is_gone(pid_t pid)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	return access(path, F_OK) != 0;
}

static bool read_pss(pid_t pid, uint64_t *bytes)
{
	char path[PATH_BYTES], text[TEXT_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	return telemetry_slurp(path, text, sizeof(text)) == 0 && telemetry_kib(text, "Pss:", bytes);
}

static bool read_rss(pid_t pid, uint64_t *bytes)
{
	char path[PATH_BYTES], text[TEXT_BYTES];
	uint64_t pages;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (telemetry_slurp(path, text, sizeof(text)) || sscanf(text, "%*s %" SCNu64, &pages) != 1)
		return false;
	*bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

/* A zombie has no memory map and needs none: its smaps_rollup cannot be read, its statm is all zeros. */
static void add(struct sum *sum, pid_t pid, bool (*read_bytes)(pid_t, uint64_t *))
{
	uint64_t bytes = 0, rss = 0;
	if (read_bytes(pid, &bytes))
		sum->bytes += bytes;
	else if (!is_gone(pid) && !(read_rss(pid, &rss) && rss == 0))
		sum->known = false;
}

static size_t read_tree(void *state, const struct telemetry_target *t, struct telemetry_reading *out,
                        size_t max)
{
	size_t n = 0;
	auto_free pid_t *pids = t->engine_pid > 0 ? proc_tree(t->engine_pid, &n) : NULL;
	bool there = pids && n > 0 && !is_gone(t->engine_pid);
	struct sum pss = { .known = there }, rss = { .known = there };
	if (max < 3)
		return 0;
	for (size_t i = 0; there && i < n; i++) {
		add(&pss, pids[i], read_pss);
		add(&rss, pids[i], read_rss);
	}
	out[0] = (struct telemetry_reading){ "engine_pss_bytes", pss.known, (double)pss.bytes };
	out[1] = (struct telemetry_reading){ "engine_rss_bytes", rss.known, (double)rss.bytes };
	out[2] = (struct telemetry_reading){ "engine_processes", there, (double)n };
	return 3;
}

const struct telemetry_source telemetry_proc = { .name = "proc", .read = read_tree };
