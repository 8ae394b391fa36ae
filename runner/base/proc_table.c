/* SPDX-License-Identifier: Apache-2.0 */
/* The process table by a scan of /proc. proofmark is a subreaper, so whoever descends from a child of ours
 * leads up to us over the ppids for as long as it lives, also after its parent died. */
#include "base/proc_parts.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define TABLE_MAX (4u << 20) /* pid_max of 64-bit Linux */

/* The name in brackets may hold anything, so the fields are counted from the last ')'. */
static bool row_parse(struct proc_row *row, const char *stat)
{
	unsigned long long start;
	int ppid, pgrp;
	char state;
	const char *p = strrchr(stat, ')');
	if (!p ||
	    sscanf(p + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
	           &state, &ppid, &pgrp, &start) != 4)
		return false;
	row->state = state;
	row->ppid = ppid;
	row->pgrp = pgrp;
	row->start_ticks = start;
	row->in_tree = false;
	return true;
}

bool proc_row_read(struct proc_row *row, pid_t pid)
{
	char path[40], stat[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, stat, sizeof(stat) - 1);
	if (n <= 0)
		return false;
	stat[n] = '\0';
	row->pid = pid;
	return row_parse(row, stat);
}

static bool table_add(struct proc_table *t, const struct proc_row *row)
{
	if (t->n >= TABLE_MAX)
		return false;
	if ((t->n & (t->n - 1)) == 0) { /* full at each power of two */
		size_t cap = t->n ? 2 * t->n : 1;
		struct proc_row *rows = reallocarray(t->rows, cap, sizeof(*rows));
		if (!rows)
			return false;
		t->rows = rows;
	}
	t->rows[t->n++] = *row;
	return true;
}

int proc_table_read(struct proc_table *t)
{
	struct proc_row row = { 0 };
	struct dirent *d;
	DIR *dir = opendir("/proc");
	*t = (struct proc_table){ 0 };
	if (!dir)
		return -1;
	while ((d = readdir(dir))) {
		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		if (proc_row_read(&row, (pid_t)strtol(d->d_name, NULL, 10)) && !table_add(t, &row)) {
			closedir(dir);
			proc_table_done(t);
			return -1;
		}
	}
	closedir(dir);
	return 0;
}

void proc_table_done(struct proc_table *t)
{
	free(t->rows);
	*t = (struct proc_table){ 0 };
}

const struct proc_row *proc_table_find(const struct proc_table *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].pid == pid)
			return &t->rows[i];
	return NULL;
}

void proc_table_mark_below(struct proc_table *t)
{
	for (bool again = true; again;) {
		again = false;
		for (size_t i = 0; i < t->n; i++) {
			struct proc_row *row = &t->rows[i];
			const struct proc_row *parent =
				row->in_tree || row->ppid <= 1 ? NULL : proc_table_find(t, row->ppid);
			if (parent && parent->in_tree) {
				row->in_tree = true;
				again = true;
			}
		}
	}
}

/* A child that this program forked itself stays in our process group; a child of proc_spawn has a group of
 * its own and everything below it inherits that, or made yet another. */
void proc_table_mark_orphans(struct proc_table *t, uint64_t since_ticks)
{
	pid_t self = getpid(), group = getpgrp();
	for (size_t i = 0; i < t->n; i++) {
		struct proc_row *row = &t->rows[i];
		if (row->ppid == self && row->pgrp != group && row->start_ticks >= since_ticks &&
		    !proc_registered(row->pid, NULL))
			row->in_tree = true;
	}
}

bool proc_row_signal(const struct proc_row *row, int sig)
{
	struct proc_row now;
	auto_fd fd = (int)syscall(SYS_pidfd_open, row->pid, 0);
	if (fd < 0 || !proc_row_read(&now, row->pid) || now.start_ticks != row->start_ticks)
		return false;
	return syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0;
}

pid_t *proc_tree(pid_t root, size_t *n)
{
	struct proc_table t;
	uint64_t since;
	pid_t *pids = NULL;
	*n = 0;
	if (proc_table_read(&t))
		return NULL;
	for (size_t i = 0; i < t.n; i++)
		t.rows[i].in_tree = t.rows[i].pid == root;
	if (proc_registered(root, &since))
		proc_table_mark_orphans(&t, since);
	proc_table_mark_below(&t);
	pids = calloc(t.n ? t.n : 1, sizeof(pids[0]));
	for (size_t i = 0; pids && i < t.n; i++)
		if (t.rows[i].in_tree)
			pids[(*n)++] = t.rows[i].pid;
	proc_table_done(&t);
	return pids;
}
