/* SPDX-License-Identifier: Apache-2.0 */
#include "host/host_facts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "host/host_parts.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

/* --- reading ------------------------------------------------------------------------------------------- */

char *host_path(const struct host_spec *spec, const char *path)
{
	return str_fmt("%s%s", spec->sysroot ? spec->sysroot : "", path);
}

bool host_is_live(const struct host_spec *spec)
{
	return !spec->sysroot || !*spec->sysroot;
}

bool host_read(const struct host_spec *spec, const char *path, char *out, size_t size)
{
	auto_free char *full = host_path(spec, path);
	auto_fd fd = full ? open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	size_t used = 0;
	if (fd < 0)
		return false;
	while (used + 1 < size) {
		ssize_t n = read(fd, out + used, size - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	out[used] = '\0';
	return true;
}

bool host_line(const struct host_spec *spec, const char *path, char out[HOST_LINE_BYTES])
{
	char text[HOST_LINE_BYTES];
	if (!host_read(spec, path, text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	const char *p = text + strspn(text, " \t\r");
	size_t n = strlen(p);
	while (n > 0 && strchr(" \t\r", p[n - 1]))
		n--;
	memcpy(out, p, n);
	out[n] = '\0';
	return n > 0;
}

/* --- facts --------------------------------------------------------------------------------------------- */

void fact_str(struct json_out *o, const char *key, const char *value, const char *source)
{
	jo_obj(o, key);
	jo_str(o, "value", value);
	jo_str(o, "source", source);
	jo_end(o);
}

void fact_u64(struct json_out *o, const char *key, bool known, uint64_t value, const char *source)
{
	jo_obj(o, key);
	if (known)
		jo_u64(o, "value", value);
	else
		jo_null(o, "value");
	jo_str(o, "source", source);
	jo_end(o);
}

void fact_bool(struct json_out *o, const char *key, bool known, bool value, const char *source)
{
	jo_obj(o, key);
	if (known)
		jo_bool(o, "value", value);
	else
		jo_null(o, "value");
	jo_str(o, "source", source);
	jo_end(o);
}

void fact_line(struct json_out *o, const struct host_spec *spec, const char *key, const char *path)
{
	char line[HOST_LINE_BYTES];
	fact_str(o, key, host_line(spec, path, line) ? line : NULL, path);
}

/* --- operating system ---------------------------------------------------------------------------------- */

/* NAME="value" or NAME=value of os-release, into `out`. */
static const char *release_value(char *text, const char *name, char out[HOST_LINE_BYTES])
{
	size_t n = strlen(name);
	for (char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) != 0 || line[n] != '=')
			continue;
		char quote = line[n + 1] == '"' || line[n + 1] == '\'' ? line[n + 1] : '\n';
		const char *from = line + n + 1 + (quote != '\n');
		const char stops[] = { quote, '\n', '\0' };
		size_t len = strcspn(from, stops);
		if (len == 0 || len >= HOST_LINE_BYTES)
			return NULL;
		memcpy(out, from, len);
		out[len] = '\0';
		return out;
	}
	return NULL;
}

static void write_os(struct json_out *o, const struct host_spec *spec)
{
	char text[HOST_TEXT_BYTES], value[HOST_LINE_BYTES];
	static const char source[] = "/etc/os-release";
	if (!host_read(spec, source, text, sizeof(text)))
		text[0] = '\0';
	jo_obj(o, "os");
	fact_str(o, "name", release_value(text, "PRETTY_NAME", value), source);
	fact_str(o, "id", release_value(text, "ID", value), source);
	fact_str(o, "version_id", release_value(text, "VERSION_ID", value), source);
	jo_end(o);
}

/* Boot parameters that change speed, memory or devices. All others are only counted: they may carry
 * passwords. */
static const char *const boot_names[] = {
	"mitigations",
	"isolcpus",
	"nohz",
	"nohz_full",
	"rcu_nocbs",
	"nosmt",
	"maxcpus",
	"nr_cpus",
	"mem",
	"hugepages",
	"hugepagesz",
	"default_hugepagesz",
	"transparent_hugepage",
	"numa_balancing",
	"numa",
	"clocksource",
	"tsc",
	"hpet",
	"idle",
	"cpuidle.off",
	"intel_pstate",
	"amd_pstate",
	"intel_iommu",
	"amd_iommu",
	"iommu",
	"pci",
	"pcie_aspm",
	"swiotlb",
	"preempt",
	"threadirqs",
	"skew_tick",
	"nowatchdog",
	"cgroup_enable",
	"cgroup_disable",
	"systemd.unified_cgroup_hierarchy",
	"psi",
	"audit",
	"nomodeset",
	"split_lock_detect",
	"spectre_v2",
	"retbleed",
	"init_on_alloc",
	"init_on_free",
	"modprobe.blacklist",
	"module_blacklist",
};
static const char *const boot_modules[] = { "nvidia.",  "nvidia-drm.", "nvidia_drm.", "nvidia_uvm.",
	                                    "amdgpu.",  "amdkfd.",     "intel_idle.", "processor.",
	                                    "cpufreq.", "vfio_pci.",   "vfio-pci.",   "kvm." };

static bool is_boot_name(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(boot_names); i++)
		if (strlen(boot_names[i]) == len && memcmp(boot_names[i], word, len) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(boot_modules); i++)
		if (strncmp(boot_modules[i], word, strlen(boot_modules[i])) == 0)
			return true;
	return false;
}

static void write_cmdline(struct json_out *o, const struct host_spec *spec)
{
	char line[4096];
	uint64_t n_others = 0;
	auto_buf shown = BUF_INIT(sizeof(line) + 1);
	static const char source[] = "/proc/cmdline";
	bool there = host_read(spec, source, line, sizeof(line));
	char *rest = there ? line : NULL, *word;
	buf_adds(&shown, "");
	while ((word = strsep(&rest, " \n")) && strcmp(word, "--") != 0) {
		if (is_boot_name(word, strcspn(word, "=")))
			buf_addf(&shown, "%s%s", shown.len ? " " : "", word);
		else
			n_others += *word != '\0';
	}
	fact_str(o, "boot_parameters", there ? shown.p : NULL, source);
	fact_u64(o, "boot_parameters_left_out", there, n_others, source);
}

static void write_kernel(struct json_out *o, const struct host_spec *spec)
{
	jo_obj(o, "kernel");
	fact_line(o, spec, "release", "/proc/sys/kernel/osrelease");
	fact_line(o, spec, "version", "/proc/sys/kernel/version");
	fact_line(o, spec, "architecture", "/proc/sys/kernel/arch");
	write_cmdline(o, spec);
	fact_line(o, spec, "numa_balancing", "/proc/sys/kernel/numa_balancing");
	fact_line(o, spec, "overcommit_memory", "/proc/sys/vm/overcommit_memory");
	fact_line(o, spec, "swappiness", "/proc/sys/vm/swappiness");
	jo_end(o);
}

/* --- clock, identity, libraries ------------------------------------------------------------------------ */

static void write_clock(struct json_out *o, const struct host_spec *spec)
{
	struct timex tx = { 0 };
	int state = host_is_live(spec) ? adjtimex(&tx) : -1;
	jo_obj(o, "clock");
	fact_line(o, spec, "source", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	fact_bool(o, "synchronised", state >= 0,
	          state >= 0 && state != TIME_ERROR && !(tx.status & STA_UNSYNC), "adjtimex");
	struct timespec res;
	bool known = host_is_live(spec) && clock_getres(CLOCK_MONOTONIC, &res) == 0;
	fact_u64(o, "monotonic_resolution_ns", known,
	         known ? (uint64_t)res.tv_sec * NS_PER_S + (uint64_t)res.tv_nsec : 0, "clock_getres");
	jo_end(o);
}

/* Two runs can be seen to be of one machine without telling its name. */
static void write_hashed(struct json_out *o, const struct host_spec *spec, const char *key, const char *path)
{
	char line[HOST_LINE_BYTES], hex[SHA256_HEX_BYTES], text[HOST_LINE_BYTES + 64];
	bool known = host_line(spec, path, line);
	if (known) {
		int n = snprintf(text, sizeof(text), "proofmark %s %s", key, line);
		sha256_hex_of(text, (size_t)n, hex);
	}
	fact_str(o, key, known ? hex : NULL, path);
}

static void write_identity(struct json_out *o, const struct host_spec *spec)
{
	jo_obj(o, "identity");
	write_hashed(o, spec, "hostname_sha256", "/proc/sys/kernel/hostname");
	write_hashed(o, spec, "machine_id_sha256", "/etc/machine-id");
	jo_end(o);
}

static void write_libraries(struct json_out *o, const struct host_spec *spec)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	jo_obj(o, "libraries");
	fact_str(o, "libcurl", curl ? curl->version : NULL, "curl_version_info");
	fact_str(o, "libcurl_tls", curl ? curl->ssl_version : NULL, "curl_version_info");
	fact_str(o, "openssl", OpenSSL_version(OPENSSL_VERSION), "OpenSSL_version");
	fact_str(o, "cjson", cJSON_Version(), "cJSON_Version");
	fact_str(o, "libc", gnu_get_libc_version(), "gnu_get_libc_version");
	jo_end(o);
}

void host_facts_write(struct json_out *o, const char *key, const struct host_spec *spec)
{
	jo_obj(o, key);
	write_os(o, spec);
	write_kernel(o, spec);
	host_write_cpu(o, spec);
	host_write_memory(o, spec);
	write_clock(o, spec);
	host_write_cgroup(o, spec);
	host_write_virtual(o, spec);
	host_write_disk(o, spec);
	host_write_devices(o, spec);
	write_identity(o, spec);
	write_libraries(o, spec);
	jo_end(o);
}
