/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "host/host_parts.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define CPUINFO "/proc/cpuinfo"
#define CPU_DIR "/sys/devices/system/cpu"
enum { CPUS_MAX = 4096 };

/* What /proc/cpuinfo says: of the first processor, and the count of all. */
struct cpu_facts {
	bool there, hypervisor;
	char model[256], vendor[64], microcode[64], family[64];
	uint64_t n_logical, n_flags;
	uint64_t sockets[CPUS_MAX / 64]; /* bit set of physical ids */
};

static void keep(char *out, size_t size, const char *value)
{
	if (!*out)
		snprintf(out, size, "%s", value);
}

static void take_flags(struct cpu_facts *f, char *value)
{
	char *rest = value, *word;
	while (f->n_logical <= 1 && (word = strsep(&rest, " "))) {
		f->n_flags += *word != '\0';
		f->hypervisor = f->hypervisor || strcmp(word, "hypervisor") == 0;
	}
}

static void take_cpuinfo(struct cpu_facts *f, char *line)
{
	char *colon = strchr(line, ':');
	uint64_t id;
	if (!colon)
		return;
	char *end = colon;
	while (end > line && strchr("\t ", end[-1]))
		end--;
	*end = '\0';
	char *value = colon + 1 + strspn(colon + 1, " \t");
	value[strcspn(value, "\n")] = '\0';
	if (strcmp(line, "processor") == 0)
		f->n_logical++;
	else if (strcmp(line, "model name") == 0)
		keep(f->model, sizeof(f->model), value);
	else if (strcmp(line, "vendor_id") == 0 || strcmp(line, "CPU implementer") == 0)
		keep(f->vendor, sizeof(f->vendor), value);
	else if (strcmp(line, "microcode") == 0)
		keep(f->microcode, sizeof(f->microcode), value);
	else if (strcmp(line, "cpu family") == 0 || strcmp(line, "CPU part") == 0)
		keep(f->family, sizeof(f->family), value);
	else if (strcmp(line, "flags") == 0 || strcmp(line, "Features") == 0)
		take_flags(f, value);
	else if (strcmp(line, "physical id") == 0 && sscanf(value, "%" SCNu64, &id) == 1 && id < CPUS_MAX)
		f->sockets[id / 64] |= (uint64_t)1 << id % 64;
}

static void read_cpuinfo(struct cpu_facts *f, const struct host_spec *spec)
{
	auto_free char *path = host_path(spec, CPUINFO);
	auto_file file = path ? fopen(path, "re") : NULL;
	auto_free char *line = NULL;
	size_t room = 0, n_lines = 0;
	*f = (struct cpu_facts){ .there = file != NULL };
	while (file && n_lines++ < 40u * CPUS_MAX && getline(&line, &room, file) > 0)
		take_cpuinfo(f, line);
}

static uint64_t count_bits(const uint64_t *words, size_t n)
{
	uint64_t bits = 0;
	for (size_t i = 0; i < n; i++)
		bits += (uint64_t)__builtin_popcountll(words[i]);
	return bits;
}

static const char *or_null(const char *s)
{
	return *s ? s : NULL;
}

/* "0-3,8" -> 5; 0 when it is no such list. */
static uint64_t count_list(const char *list)
{
	uint64_t n = 0, from, to;
	for (const char *p = list; *p;) {
		int used = 0;
		if (sscanf(p, "%" SCNu64 "-%" SCNu64 "%n", &from, &to, &used) == 2 && used) {
			if (to < from || to > UINT32_MAX)
				return 0;
			n += to - from + 1;
		} else if (sscanf(p, "%" SCNu64 "%n", &from, &used) == 1 && used) {
			n++;
		} else {
			return 0;
		}
		p += used;
		p += *p == ',';
	}
	return n;
}

static void fact_list_count(struct json_out *o, const struct host_spec *spec, const char *key,
                            const char *path)
{
	char line[HOST_LINE_BYTES];
	uint64_t n = host_line(spec, path, line) ? count_list(line) : 0;
	fact_u64(o, key, n > 0, n, path);
}

/* One governor for all, or "mixed". */
static void write_governor(struct json_out *o, const struct host_spec *spec, uint64_t n_cpus)
{
	char all[HOST_LINE_BYTES] = "", one[HOST_LINE_BYTES], path[128];
	for (uint64_t i = 0; i < n_cpus && i < CPUS_MAX; i++) {
		snprintf(path, sizeof(path), CPU_DIR "/cpu%" PRIu64 "/cpufreq/scaling_governor", i);
		if (!host_line(spec, path, one))
			continue;
		if (!*all)
			memcpy(all, one, sizeof(all));
		else if (strcmp(all, one) != 0)
			memcpy(all, "mixed", 6);
	}
	fact_str(o, "governor", or_null(all), CPU_DIR "/cpu*/cpufreq/scaling_governor");
}

static void write_affinity(struct json_out *o, const struct host_spec *spec)
{
	cpu_set_t set;
	bool known = host_is_live(spec) && sched_getaffinity(0, sizeof(set), &set) == 0;
	fact_u64(o, "usable", known, known ? (uint64_t)CPU_COUNT(&set) : 0, "sched_getaffinity");
}

void host_write_cpu(struct json_out *o, const struct host_spec *spec)
{
	struct cpu_facts f;
	read_cpuinfo(&f, spec);
	uint64_t sockets = count_bits(f.sockets, ARRAY_LEN(f.sockets));
	jo_obj(o, "cpu");
	fact_str(o, "model", or_null(f.model), CPUINFO);
	fact_str(o, "vendor", or_null(f.vendor), CPUINFO);
	fact_str(o, "family", or_null(f.family), CPUINFO);
	fact_str(o, "microcode", or_null(f.microcode), CPUINFO);
	fact_u64(o, "flags", f.n_flags > 0, f.n_flags, CPUINFO);
	fact_u64(o, "logical", f.n_logical > 0, f.n_logical, CPUINFO);
	fact_u64(o, "sockets", sockets > 0, sockets, CPUINFO);
	fact_list_count(o, spec, "online", CPU_DIR "/online");
	write_affinity(o, spec);
	write_governor(o, spec, f.n_logical);
	fact_line(o, spec, "frequency_driver", CPU_DIR "/cpu0/cpufreq/scaling_driver");
	fact_line(o, spec, "max_frequency_khz", CPU_DIR "/cpu0/cpufreq/cpuinfo_max_freq");
	fact_line(o, spec, "smt", CPU_DIR "/smt/control");
	fact_line(o, spec, "isolated", CPU_DIR "/isolated");
	fact_list_count(o, spec, "numa_nodes", "/sys/devices/system/node/online");
	fact_bool(o, "hypervisor", f.there && f.n_flags > 0, f.hypervisor, CPUINFO);
	jo_end(o);
}
