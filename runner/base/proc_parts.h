/* SPDX-License-Identifier: Apache-2.0 */
/* Between the proc*.c files. */
#ifndef BASE_PROC_PARTS_H
#define BASE_PROC_PARTS_H

#include "base/proc.h"

#include <sched.h>

struct proc_row { /* one line of the process table */
	pid_t pid, ppid, pgrp;
	char state;
	uint64_t start_ticks; /* since boot; with the pid it names a process for good */
	bool in_tree;
};
struct proc_table {
	size_t n;
	struct proc_row *rows;
};
/* The processes that can be seen in /proc. 0, or -1 without memory or /proc. */
int proc_table_read(struct proc_table *t);
void proc_table_done(struct proc_table *t);
/* Marks `root`, and everything below a marked row. */
void proc_table_mark_below(struct proc_table *t);
/* Marks what was reparented to this process, started at or after `since_ticks`, and is no child that
 * proc_spawn or this program's own group knows. */
void proc_table_mark_orphans(struct proc_table *t, uint64_t since_ticks);
const struct proc_row *proc_table_find(const struct proc_table *t, pid_t pid);
bool proc_row_read(struct proc_row *row, pid_t pid);
/* Signals exactly that process, not one that got its pid later. False when it is gone. */
bool proc_row_signal(const struct proc_row *row, int sig);

/* Children of proc_spawn that have not been freed. `since_ticks` may be NULL. */
bool proc_registered(pid_t pid, uint64_t *since_ticks);

/* "0,2-3" -> set. 0, or -1 when malformed. */
int proc_cpus_parse(cpu_set_t *set, const char *cpus);
/* The CPUs this process had before proc_bind_self; what a child that is not bound gets back. */
void proc_cpus_original(cpu_set_t *set);

#endif
