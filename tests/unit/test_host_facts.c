/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/json_in.h"
#include "host/host_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char root[64];

static void put(const char *path, const char *text)
{
	struct err err = { 0 };
	auto_free char *full = str_fmt("%s%s", root, path);
	auto_free char *dir = fs_dirname(full);
	if (fs_mkdir_p(dir, &err) || fs_write(full, text, strlen(text), &err))
		fail_msg("%s", err.msg);
}

/* A machine with two sockets, one accelerator and a control group of version 2. */
static int make_root(void **state)
{
	snprintf(root, sizeof(root), "/tmp/proofmark-host-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Example OS 7\"\nID=example\nVERSION_ID='7.1'\n");
	put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
	put("/proc/sys/kernel/hostname", "secret-hostname\n");
	put("/proc/sys/kernel/osrelease", "6.1.0-9\n");
	put("/proc/cmdline",
	    "root=UUID=1 mitigations=off db_password=hunter2 amdgpu.runpm=0 quiet -- token=abc iommu=pt\n");
	put("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: "
	                     "Example 9\nmicrocode\t: 0xa1\n"
	                     "physical id\t: 0\nflags\t\t: fpu sse avx512f\n\nprocessor\t: 1\nmodel name\t: "
	                     "Other\nphysical id\t: 1\n"
	                     "flags\t\t: fpu sse hypervisor\n");
	put("/sys/devices/system/cpu/online", "0-1\n");
	put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
	put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
	put("/sys/devices/system/node/online", "0-1,4\n");
	put("/proc/meminfo",
	    "MemTotal:       1000 kB\nMemFree: 1 kB\nSwapTotal:      0 kB\nHugePages_Total:       3\n");
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
	put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
	put("/proc/self/cgroup", "0::/a.slice/b\n");
	put("/sys/fs/cgroup/a.slice/b/memory.max", "123456\n");
	put("/sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n");
	put("/sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n");
	put("/sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n");
	put("/sys/bus/pci/devices/0000:41:00.0/device", "0x2330\n");
	put("/sys/bus/pci/devices/0000:01:00.0/class", "0x120000\n");
	put("/sys/bus/pci/devices/0000:02:00.0/class", "0x020000\n");
	put("/sys/module/nvidia/version", "580.10\n");
	return 0;
}

static int remove_root(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", root, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct cJSON *facts_of(const struct host_spec *spec, struct buf *text)
{
	struct cJSON *doc = NULL;
	struct json_out o;
	struct err err = { 0 };
	jo_init(&o, text, 1);
	jo_obj(&o, NULL);
	host_facts_write(&o, "host", spec);
	jo_end(&o);
	assert_false(text->failed);
	if (json_parse(&doc, text->p, text->len, "facts", JSON_STRICT, NULL, &err))
		fail_msg("%s", err.msg);
	return doc;
}

static const struct cJSON *fact(const struct cJSON *doc, const char *group, const char *name)
{
	const struct cJSON *f = json_get(json_get(json_get(doc, "host"), group), name);
	if (!f)
		fail_msg("%s.%s is missing", group, name);
	assert_non_null(json_str(f, "source"));
	return json_get(f, "value");
}

static void reads_a_recorded_machine(void **state)
{
	static const struct {
		const char *group, *name, *text; /* NULL = `number` */
		double number;                   /* NAN-free: -1 = null */
	} want[] = {
		{ "os", "name", "Example OS 7", 0 },
		{ "os", "id", "example", 0 },
		{ "os", "version_id", "7.1", 0 },
		{ "kernel", "release", "6.1.0-9", 0 },
		{ "kernel", "version", NULL, -1 },
		{ "kernel", "boot_parameters", "mitigations=off amdgpu.runpm=0", 0 },
		{ "kernel", "boot_parameters_left_out", NULL, 3 },
		{ "cpu", "model", "Example 9", 0 },
		{ "cpu", "vendor", "AuthenticAMD", 0 },
		{ "cpu", "microcode", "0xa1", 0 },
		{ "cpu", "flags", NULL, 3 },
		{ "cpu", "logical", NULL, 2 },
		{ "cpu", "sockets", NULL, 2 },
		{ "cpu", "online", NULL, 2 },
		{ "cpu", "usable", NULL, -1 },
		{ "cpu", "governor", "mixed", 0 },
		{ "cpu", "smt", NULL, -1 },
		{ "cpu", "numa_nodes", NULL, 3 },
		{ "memory", "total_bytes", NULL, 1024000 },
		{ "memory", "available_bytes", NULL, -1 },
		{ "memory", "swap_bytes", NULL, 0 },
		{ "memory", "huge_pages", NULL, 3 },
		{ "clock", "source", "hpet", 0 },
		{ "clock", "synchronised", NULL, -1 },
		{ "cgroup", "version", NULL, 2 },
		{ "cgroup", "memory_limit_bytes", NULL, 123456 },
		{ "cgroup", "cpu_limit", "max 100000", 0 },
		{ "firmware", "bios_version", NULL, -1 },
		{ "firmware", "container", NULL, -1 },
		{ "run_disk", "free_bytes", NULL, -1 },
		{ "drivers", "nvidia", "580.10", 0 },
		{ "drivers", "amdgpu", NULL, -1 },
	};
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = facts_of(&(struct host_spec){ .sysroot = root, .run_dir = "/tmp" }, &text);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct cJSON *v = fact(doc, want[i].group, want[i].name);
		bool ok = want[i].text ? cJSON_IsString(v) && strcmp(v->valuestring, want[i].text) == 0
		          : want[i].number < 0 ? cJSON_IsNull(v)
		                               : cJSON_IsNumber(v) && !(v->valuedouble < want[i].number) &&
		                                         !(v->valuedouble > want[i].number);
		if (!ok)
			fail_msg("%s.%s: got %s", want[i].group, want[i].name, cJSON_PrintUnformatted(v));
	}
}

static void lists_accelerators_by_address(void **state)
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = facts_of(&(struct host_spec){ .sysroot = root }, &text);
	const struct cJSON *list = json_get(json_get(doc, "host"), "accelerators");
	assert_int_equal(cJSON_GetArraySize(list), 2);
	assert_string_equal(json_str(list->child, "pci"), "0000:01:00.0");
	assert_true(cJSON_IsNull(json_get(list->child, "vendor")));
	assert_string_equal(json_str(list->child->next, "vendor"), "0x10de");
	assert_string_equal(json_str(list->child->next, "device"), "0x2330");
}

static void tells_no_name_and_no_secret(void **state)
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = facts_of(&(struct host_spec){ .sysroot = root }, &text);
	static const char *const words[] = { "secret-hostname", "hunter2", "token", "0123456789abcdef0123",
		                             "UUID" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		assert_null(strstr(text.p, words[i]));
	assert_int_equal(strlen(fact(doc, "identity", "hostname_sha256")->valuestring), 64);
}

static void an_empty_machine_is_unknown_not_zero(void **state)
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = facts_of(&(struct host_spec){ .sysroot = "/nowhere" }, &text);
	assert_true(cJSON_IsNull(fact(doc, "memory", "total_bytes")));
	assert_true(cJSON_IsNull(fact(doc, "cpu", "logical")));
	assert_true(cJSON_IsNull(fact(doc, "cpu", "hypervisor")));
	assert_true(cJSON_IsNull(fact(doc, "cgroup", "version")));
	assert_true(cJSON_IsNull(fact(doc, "identity", "machine_id_sha256")));
}

static void reads_the_machine_itself(void **state)
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = facts_of(&(struct host_spec){ .sysroot = "", .run_dir = "/tmp" }, &text);
	uint64_t free_bytes = 0;
	assert_true(cJSON_IsNumber(fact(doc, "cpu", "usable")));
	assert_true(cJSON_IsNumber(fact(doc, "memory", "total_bytes")));
	assert_true(cJSON_IsNumber(fact(doc, "run_disk", "total_bytes")));
	assert_true(cJSON_IsString(fact(doc, "libraries", "openssl")));
	assert_true(host_disk_free_bytes("/tmp", &free_bytes) && free_bytes > 0);
	assert_false(host_disk_free_bytes("/nowhere", &free_bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_recorded_machine),
		cmocka_unit_test(lists_accelerators_by_address),
		cmocka_unit_test(tells_no_name_and_no_secret),
		cmocka_unit_test(an_empty_machine_is_unknown_not_zero),
		cmocka_unit_test(reads_the_machine_itself),
	};
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
