/* SPDX-License-Identifier: Apache-2.0 */
/* Memory charged to the engine's control group (page cache included), where it has one of its own: the root
 * group is the machine, and says nothing about the engine. */
#include "base/cleanup.h"
#include "telemetry/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1400, GROUP_BYTES = 1024, TEXT_BYTES = 8192 };

/* The path of the process in the hierarchy whose line holds `marker`: "0::" or ":memory:". */
static bool group_of(const char *text, const char *marker, char out[GROUP_BYTES])
{
	char *copy = strdup(text), *rest = copy, *line;
	bool found = false;
	while (copy && !found && (line = strsep(&rest, "\n"))) {
		const char *at = strstr(line, marker);
		if (!at || (marker[0] == '0' && at != line))
			continue;
		at += strlen(marker);
		found = at[0] == '/' && at[1] && strlen(at) < GROUP_BYTES && !strstr(at, "/..");
		if (found)
			memcpy(out, at, strlen(at) + 1);
	}
	free(copy);
	return found;
}

static bool read_number(const char *path, uint64_t *out)
{
	char text[64];
	return telemetry_slurp(path, text, sizeof(text)) == 0 && sscanf(text, "%" SCNu64, out) == 1;
}

static bool read_group(pid_t pid, uint64_t *bytes)
{
	static const struct {
		const char *marker, *format;
	} ways[] = {
		{ "0::", "/sys/fs/cgroup%s/memory.current" },
		{ "0::", "/sys/fs/cgroup/unified%s/memory.current" },
		{ ":memory:", "/sys/fs/cgroup/memory%s/memory.usage_in_bytes" },
	};
	char path[PATH_BYTES], text[TEXT_BYTES], group[GROUP_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (telemetry_slurp(path, text, sizeof(text)))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		if (!group_of(text, ways[i].marker, group))
			continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), ways[i].format, group);
#pragma GCC diagnostic pop
		if (read_number(path, bytes))
			return true;
	}
	return false;
}

static size_t read_cgroup(void *state, const struct telemetry_target *t, struct telemetry_reading *out,
                          size_t max)
{
	uint64_t bytes = 0;
	if (max < 1)
		return 0;
	bool known = t->engine_pid > 0 && read_group(t->engine_pid, &bytes);
	out[0] = (struct telemetry_reading){ "cgroup_memory_bytes", known, (double)bytes };
	return 1;
}

const struct telemetry_source telemetry_cgroup = { .name = "cgroup", .read = read_cgroup };
