/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, limits of the control group, the disk of the run directory. */
#include "base/cleanup.h"
#include "host/host_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#define MEMINFO "/proc/meminfo"

static bool number_behind(const char *text, const char *key, uint64_t *out)
{
	const char *at = text;
	size_t n = strlen(key);
	for (; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, key, n) == 0)
			return sscanf(at + n, "%" SCNu64, out) == 1;
	}
	return false;
}

static void fact_kib(struct json_out *o, const char *key, const char *text, const char *name)
{
	uint64_t kib = 0;
	bool known = number_behind(text, name, &kib) && kib <= UINT64_MAX / 1024;
	fact_u64(o, key, known, kib * 1024, MEMINFO);
}

void host_write_memory(struct json_out *o, const struct host_spec *spec)
{
	char text[HOST_TEXT_BYTES];
	uint64_t pages = 0;
	if (!host_read(spec, MEMINFO, text, sizeof(text)))
		text[0] = '\0';
	jo_obj(o, "memory");
	fact_kib(o, "total_bytes", text, "MemTotal:");
	fact_kib(o, "available_bytes", text, "MemAvailable:");
	fact_kib(o, "swap_bytes", text, "SwapTotal:");
	bool known = number_behind(text, "HugePages_Total:", &pages);
	fact_u64(o, "huge_pages", known, pages, MEMINFO);
	fact_kib(o, "huge_page_bytes", text, "Hugepagesize:");
	fact_line(o, spec, "transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled");
	jo_end(o);
}

/* --- control group ------------------------------------------------------------------------------------- */

/* Our path in the hierarchy of the line that holds `marker`; "" for the root. */
static bool group_of(const char *text, const char *marker, char out[HOST_LINE_BYTES])
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t len = strcspn(line, "\n");
		const char *at = memmem(line, len, marker, strlen(marker));
		if (!at || (marker[0] == '0' && at != line))
			continue;
		at += strlen(marker);
		size_t n = (size_t)(line + len - at);
		if (n >= HOST_LINE_BYTES || at[0] != '/')
			return false;
		memcpy(out, at, n);
		out[n == 1 ? 0 : n] = '\0';
		return true;
	}
	return false;
}

/* "max" and v1's huge number are no limit: value null, and the text beside it. */
static void fact_limit(struct json_out *o, const struct host_spec *spec, const char *key, const char *base,
                       const char *group, const char *file)
{
	char line[HOST_LINE_BYTES] = "";
	uint64_t bytes = 0;
	auto_free char *path = str_fmt("%s%s/%s", base, group, file);
	bool there = path && host_line(spec, path, line);
	bool limit = there && sscanf(line, "%" SCNu64, &bytes) == 1 && bytes < (uint64_t)1 << 60;
	jo_obj(o, key);
	if (limit)
		jo_u64(o, "value", bytes);
	else
		jo_null(o, "value");
	jo_str(o, "source", path);
	if (there && !limit)
		jo_str(o, "note", "no limit");
	jo_end(o);
}

static void fact_group_line(struct json_out *o, const struct host_spec *spec, const char *key,
                            const char *base, const char *group, const char *file)
{
	auto_free char *path = str_fmt("%s%s/%s", base, group, file);
	fact_line(o, spec, key, path ? path : file);
}

void host_write_cgroup(struct json_out *o, const struct host_spec *spec)
{
	char text[HOST_TEXT_BYTES], group[HOST_LINE_BYTES] = "", line[HOST_LINE_BYTES];
	static const char source[] = "/proc/self/cgroup";
	bool there = host_read(spec, source, text, sizeof(text));
	bool v2 = host_line(spec, "/sys/fs/cgroup/cgroup.controllers", line);
	bool v1 = !v2 && there && group_of(text, ":memory:", group);
	jo_obj(o, "cgroup");
	fact_u64(o, "version", v1 || v2, v2 ? 2 : 1, "/sys/fs/cgroup");
	if (v2 && there && group_of(text, "0::", group)) {
		fact_limit(o, spec, "memory_limit_bytes", "/sys/fs/cgroup", group, "memory.max");
		fact_group_line(o, spec, "cpu_limit", "/sys/fs/cgroup", group, "cpu.max");
		fact_group_line(o, spec, "cpus", "/sys/fs/cgroup", group, "cpuset.cpus.effective");
	} else if (v1) {
		fact_limit(o, spec, "memory_limit_bytes", "/sys/fs/cgroup/memory", group,
		           "memory.limit_in_bytes");
		if (group_of(text, ":cpu,cpuacct:", group) || group_of(text, ":cpu:", group))
			fact_group_line(o, spec, "cpu_limit", "/sys/fs/cgroup/cpu", group,
			                "cpu.cfs_quota_us");
	}
	jo_end(o);
}

/* --- disk ---------------------------------------------------------------------------------------------- */

bool host_disk_free_bytes(const char *path, uint64_t *bytes)
{
	struct statvfs fs;
	if (statvfs(path, &fs) || fs.f_frsize == 0)
		return false;
	*bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

/* File system type and source of the mount that holds device maj:min, from mountinfo. */
static bool find_mount(const struct host_spec *spec, dev_t dev, char type[64], char from[256])
{
	auto_free char *path = host_path(spec, "/proc/self/mountinfo");
	auto_file f = path ? fopen(path, "re") : NULL;
	auto_free char *line = NULL;
	size_t room = 0;
	while (f && getline(&line, &room, f) > 0) {
		unsigned maj, min;
		const char *dash = strstr(line, " - ");
		if (dash && sscanf(line, "%*d %*d %u:%u", &maj, &min) == 2 && maj == major(dev) &&
		    min == minor(dev) && sscanf(dash, " - %63s %255s", type, from) == 2)
			return true;
	}
	return false;
}

void host_write_disk(struct json_out *o, const struct host_spec *spec)
{
	struct stat st;
	struct statvfs fs;
	char type[64] = "", from[256] = "", path[128];
	uint64_t free_bytes = 0;
	bool live = spec->run_dir && host_is_live(spec) && stat(spec->run_dir, &st) == 0;
	bool sized = live && statvfs(spec->run_dir, &fs) == 0;
	bool mount = live && find_mount(spec, st.st_dev, type, from);
	jo_obj(o, "run_disk");
	fact_str(o, "file_system", mount ? type : NULL, "/proc/self/mountinfo");
	fact_str(o, "device", mount ? from : NULL, "/proc/self/mountinfo");
	fact_u64(o, "total_bytes", sized, sized ? (uint64_t)fs.f_blocks * fs.f_frsize : 0, "statvfs");
	bool known = live && host_disk_free_bytes(spec->run_dir, &free_bytes);
	fact_u64(o, "free_bytes", known, free_bytes, "statvfs");
	if (live) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/rotational", major(st.st_dev),
		         minor(st.st_dev));
		fact_line(o, spec, "rotational", path);
	}
	jo_end(o);
}
