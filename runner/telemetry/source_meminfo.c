/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the machine by /proc/meminfo. "Used" is what is not available, so that page cache does not count.
 */
#include "telemetry/sources.h"

enum { TEXT_BYTES = 16384 };

static size_t read_meminfo(void *state, const struct telemetry_target *t, struct telemetry_reading *out,
                           size_t max)
{
	char text[TEXT_BYTES];
	uint64_t total = 0, available = 0, swap = 0, swap_free = 0;
	if (max < 3)
		return 0;
	if (telemetry_slurp("/proc/meminfo", text, sizeof(text)))
		text[0] = '\0';
	bool has_available = telemetry_kib(text, "MemAvailable:", &available);
	bool has_used = has_available && telemetry_kib(text, "MemTotal:", &total) && total >= available;
	bool has_swap = telemetry_kib(text, "SwapTotal:", &swap) &&
	                telemetry_kib(text, "SwapFree:", &swap_free) && swap >= swap_free;
	out[0] = (struct telemetry_reading){ "host_available_bytes", has_available, (double)available };
	out[1] = (struct telemetry_reading){ "host_used_bytes", has_used, (double)(total - available) };
	out[2] = (struct telemetry_reading){ "host_swap_used_bytes", has_swap, (double)(swap - swap_free) };
	return 3;
}

const struct telemetry_source telemetry_meminfo = { .name = "meminfo", .read = read_meminfo };
