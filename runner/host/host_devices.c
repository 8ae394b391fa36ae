/* SPDX-License-Identifier: Apache-2.0 */
/* Accelerators and firmware by sysfs and proc alone: what is plugged in, and which kernel driver has it. What
 * a device itself says (memory, power, health) is telemetry's. */
#include "base/cleanup.h"
#include "host/host_parts.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PCI_DIR "/sys/bus/pci/devices"
enum { DEVICES_MAX = 64, ADDRESS_BYTES = 32 };

static bool exists(const struct host_spec *spec, const char *path)
{
	auto_free char *full = host_path(spec, path);
	return full && access(full, F_OK) == 0;
}

/* Displays (0x03), processing accelerators (0x12). */
static bool is_accelerator(const struct host_spec *spec, const char *address)
{
	char path[128], line[HOST_LINE_BYTES];
	snprintf(path, sizeof(path), PCI_DIR "/%.31s/class", address);
	return host_line(spec, path, line) &&
	       (strncmp(line, "0x03", 4) == 0 || strncmp(line, "0x12", 4) == 0);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static size_t find_accelerators(const struct host_spec *spec, char list[DEVICES_MAX][ADDRESS_BYTES])
{
	auto_free char *path = host_path(spec, PCI_DIR);
	DIR *d = path ? opendir(path) : NULL;
	size_t n = 0;
	for (struct dirent *e; d && n < DEVICES_MAX && (e = readdir(d));) {
		if (e->d_name[0] == '.' || strlen(e->d_name) >= ADDRESS_BYTES ||
		    !is_accelerator(spec, e->d_name))
			continue;
		memcpy(list[n++], e->d_name, strlen(e->d_name) + 1);
	}
	if (d)
		closedir(d);
	qsort(list, n, sizeof(list[0]), by_text);
	return n;
}

static void write_driver(struct json_out *o, const struct host_spec *spec, const char *address)
{
	char relative[128], target[256];
	snprintf(relative, sizeof(relative), PCI_DIR "/%.31s/driver", address);
	auto_free char *path = host_path(spec, relative);
	ssize_t n = path ? readlink(path, target, sizeof(target) - 1) : -1;
	const char *name = NULL;
	if (n > 0) {
		target[n] = '\0';
		name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	}
	jo_str(o, "driver", name);
}

static void write_device(struct json_out *o, const struct host_spec *spec, const char *address)
{
	static const char *const files[] = { "class",
		                             "vendor",
		                             "device",
		                             "subsystem_vendor",
		                             "subsystem_device",
		                             "revision",
		                             "numa_node",
		                             "current_link_speed",
		                             "current_link_width",
		                             "max_link_speed",
		                             "max_link_width",
		                             "vbios_version" };
	jo_obj(o, NULL);
	jo_str(o, "pci", address);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char path[160], line[HOST_LINE_BYTES];
		snprintf(path, sizeof(path), PCI_DIR "/%.31s/%s", address, files[i]);
		jo_str(o, files[i], host_line(spec, path, line) ? line : NULL);
	}
	write_driver(o, spec, address);
	jo_str(o, "source", PCI_DIR);
	jo_end(o);
}

void host_write_devices(struct json_out *o, const struct host_spec *spec)
{
	char list[DEVICES_MAX][ADDRESS_BYTES];
	size_t n = find_accelerators(spec, list);
	jo_arr(o, "accelerators");
	for (size_t i = 0; i < n; i++)
		write_device(o, spec, list[i]);
	jo_end_arr(o);
	jo_obj(o, "drivers");
	fact_line(o, spec, "nvidia", "/sys/module/nvidia/version");
	fact_line(o, spec, "nvidia_text", "/proc/driver/nvidia/version");
	fact_line(o, spec, "amdgpu", "/sys/module/amdgpu/version");
	fact_line(o, spec, "amdgpu_source", "/sys/module/amdgpu/srcversion");
	fact_bool(o, "kfd_present", true, exists(spec, "/sys/class/kfd/kfd"), "/sys/class/kfd/kfd");
	jo_end(o);
}

/* --- firmware and virtualisation ----------------------------------------------------------------------- */

static const char *container_hint(const struct host_spec *spec)
{
	static const char *const marks[] = { "/.dockerenv", "/run/.containerenv", "/run/systemd/container" };
	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (exists(spec, marks[i]))
			return marks[i];
	return NULL;
}

void host_write_virtual(struct json_out *o, const struct host_spec *spec)
{
	const char *container = container_hint(spec);
	jo_obj(o, "firmware");
	fact_line(o, spec, "system_vendor", "/sys/class/dmi/id/sys_vendor");
	fact_line(o, spec, "product", "/sys/class/dmi/id/product_name");
	fact_line(o, spec, "board", "/sys/class/dmi/id/board_name");
	fact_line(o, spec, "bios_version", "/sys/class/dmi/id/bios_version");
	fact_line(o, spec, "bios_date", "/sys/class/dmi/id/bios_date");
	fact_line(o, spec, "hypervisor", "/sys/hypervisor/type");
	/* No mark is no proof of bare metal: then it is unknown. */
	fact_bool(o, "container", container != NULL, true,
	          container ? container : "/.dockerenv and the like");
	jo_end(o);
}
