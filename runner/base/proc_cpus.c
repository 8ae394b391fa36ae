/* SPDX-License-Identifier: Apache-2.0 */
/* CPU lists and binding. */
#include "base/proc_parts.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static cpu_set_t original;
static pthread_once_t original_once = PTHREAD_ONCE_INIT;

static void read_original(void)
{
	if (sched_getaffinity(0, sizeof(original), &original))
		memset(&original, 0xff, sizeof(original));
}

void proc_cpus_original(cpu_set_t *set)
{
	pthread_once(&original_once, read_original);
	*set = original;
}

static bool read_cpu(const char **p, unsigned *cpu)
{
	unsigned v = 0;
	const char *start = *p;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		v = 10 * v + (unsigned)(**p - '0');
		if (v >= CPU_SETSIZE)
			return false;
	}
	*cpu = v;
	return *p > start;
}

int proc_cpus_parse(cpu_set_t *set, const char *cpus)
{
	cpu_set_t out;
	unsigned from, to;
	CPU_ZERO(&out);
	for (const char *p = cpus;; p++) {
		if (!read_cpu(&p, &from))
			return -1;
		to = from;
		if (*p == '-') {
			p++;
			if (!read_cpu(&p, &to) || to < from)
				return -1;
		}
		for (unsigned c = from; c <= to; c++)
			CPU_SET(c, &out);
		if (*p == '\0')
			break;
		if (*p != ',')
			return -1;
	}
	*set = out;
	return 0;
}

int proc_cpus_count(const char *cpus)
{
	cpu_set_t set;
	return proc_cpus_parse(&set, cpus) ? -1 : CPU_COUNT(&set);
}

int proc_bind_self(const char *cpus, struct err *err)
{
	cpu_set_t want, got;
	pthread_once(&original_once, read_original);
	if (proc_cpus_parse(&want, cpus))
		return err_set(err, ERR_PLAN, "want a CPU list like \"0,2-3\", got \"%s\"", cpus);
	/* The kernel keeps only those CPUs of the list that exist here; a part of the list is not the list.
	 */
	if (sched_setaffinity(0, sizeof(want), &want) || sched_getaffinity(0, sizeof(got), &got))
		return err_sys(err, ERR_ENV, errno, "cannot bind the client to CPUs %s of this machine",
		               cpus);
	if (!CPU_EQUAL(&want, &got)) {
		sched_setaffinity(0, sizeof(original), &original);
		return err_set(err, ERR_ENV,
		               "cannot bind the client to CPUs %s: this machine has fewer of them", cpus);
	}
	return 0;
}
