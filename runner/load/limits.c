/* SPDX-License-Identifier: Apache-2.0 */
#include "load/limits.h"

#include "load/load_int.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SPARE_FDS 64       /* journal, telemetry, resolver, what the caller opens meanwhile */
#define FDS_A_THREAD 6     /* epoll, timers, the file of its records, libcurl's own */
#define STREAM_BYTES 24576 /* buffers of one, beside its slot; measured, rounded up */

/* --- what there is ------------------------------------------------------------------------------------- */

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

static uint64_t fds_limit(void)
{
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 1024;
	if (rl.rlim_cur < rl.rlim_max) {
		struct rlimit up = { rl.rlim_max, rl.rlim_max };
		if (setrlimit(RLIMIT_NOFILE, &up) == 0)
			rl.rlim_cur = rl.rlim_max;
	}
	return rl.rlim_cur;
}

/* Ports of ip_local_reserved_ports ("8080,9000-9010") inside low..high. */
static uint64_t reserved_ports(unsigned low, unsigned high)
{
	uint64_t n = 0;
	unsigned from, to;
	int c;
	auto_file f = fopen("/proc/sys/net/ipv4/ip_local_reserved_ports", "re");
	while (f && fscanf(f, "%u", &from) == 1) {
		to = from;
		if ((c = fgetc(f)) == '-' && fscanf(f, "%u", &to) == 1)
			c = fgetc(f);
		from = from > low ? from : low;
		to = to < high ? to : high;
		n += to >= from ? to - from + 1 : 0;
		if (c != ',')
			break;
	}
	return n;
}

static uint64_t local_ports(void)
{
	unsigned low, high;
	auto_file f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	if (!f || fscanf(f, "%u %u", &low, &high) != 2 || low > high || high > 65535)
		return UINT64_MAX;
	return high - low + 1 - reserved_ports(low, high);
}

static uint64_t read_number(const char *path)
{
	uint64_t v;
	auto_file f = fopen(path, "re");
	return f && fscanf(f, "%" SCNu64, &v) == 1 ? v : UINT64_MAX;
}

static uint64_t room_in(const char *limit_path, const char *used_path)
{
	uint64_t limit = read_number(limit_path), used = read_number(used_path);
	if (limit == UINT64_MAX || used == UINT64_MAX) /* "max" is no number */
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

static uint64_t memory_bytes(void)
{
	char line[128];
	uint64_t kib, room = UINT64_MAX, v;
	auto_file f = fopen("/proc/meminfo", "re");
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			room = kib * 1024;
	}
	v = room_in("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
	room = v < room ? v : room;
	v = room_in("/sys/fs/cgroup/memory/memory.limit_in_bytes",
	            "/sys/fs/cgroup/memory/memory.usage_in_bytes");
	return v < room ? v : room;
}

/* --- what a cell needs --------------------------------------------------------------------------------- */

static uint64_t streams_of(const struct load_spec *spec)
{
	uint64_t n = spec->concurrency;
	return spec->n_requests && n > spec->n_requests ? spec->n_requests : n;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void limits_read(struct load_limits *out, const struct load_spec *spec)
{
	bool is_unix = strncmp(spec->url, "unix:", 5) == 0;
	uint64_t threads = spec->threads ? spec->threads : 1;
	uint64_t used = fds_open() + SPARE_FDS + threads * FDS_A_THREAD;
	uint64_t streams = streams_of(spec);
	struct load_limits l = {
		.threads = threads,
		.streams = streams,
		.fds_needed = (streams ? streams : 1) + used,
		.fds_limit = fds_limit(),
		.ports_needed = is_unix ? 0 : streams,
		.ports = is_unix ? UINT64_MAX : local_ports(),
		.memory_needed_bytes = streams * (sizeof(struct slot) + STREAM_BYTES),
		.memory_bytes = memory_bytes(),
	};
	uint64_t room = less(l.fds_limit, used);
	room = room < l.ports ? room : l.ports;
	l.max_streams = room < LOAD_STREAMS_MAX ? room : LOAD_STREAMS_MAX;
	*out = l;
}

int limits_judge(const struct load_limits *l, struct err *err)
{
	if (l->threads > LOAD_THREADS_MAX)
		return err_set(err, ERR_PLAN, "load: %" PRIu64 " threads, at most %d", l->threads,
		               LOAD_THREADS_MAX);
	if (l->fds_needed > l->fds_limit)
		return err_set(err, ERR_ENV,
		               "load: %" PRIu64 " streams need %" PRIu64
		               " file descriptors, the limit is %" PRIu64
		               ": raise it (ulimit -n, LimitNOFILE)",
		               l->streams, l->fds_needed, l->fds_limit);
	if (l->ports_needed > l->ports)
		return err_set(err, ERR_ENV,
		               "load: %" PRIu64 " streams to one address need as many local ports, there are "
		               "%" PRIu64 ": widen net.ipv4.ip_local_port_range, or drive from more machines",
		               l->streams, l->ports);
	if (l->memory_needed_bytes > l->memory_bytes)
		return err_set(err, ERR_ENV,
		               "load: %" PRIu64 " streams need %" PRIu64 " MiB of memory, %" PRIu64
		               " MiB are free: fewer streams, or more machines",
		               l->streams, l->memory_needed_bytes >> 20, l->memory_bytes >> 20);
	if (l->streams > LOAD_STREAMS_MAX)
		return err_set(err, ERR_PLAN,
		               "load: %" PRIu64 " streams from one process, at most %d: use more machines",
		               l->streams, LOAD_STREAMS_MAX);
	return 0;
}

int limits_check(struct load_limits *out, const struct load_spec *spec, struct err *err)
{
	struct load_limits l;
	limits_read(&l, spec);
	if (limits_judge(&l, err) < 0)
		return -1;
	*out = l;
	return 0;
}
