/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: own process group, cleared environment, output to a file, watched by pidfd, ended as a
 * tree. proc_init makes proofmark the subreaper, so that a grandchild whose parent dies still is ours to end.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc; /* one child and everything below it */

struct proc_spec {
	const char *const
		*argv; /* NULL-ended; argv[0] is looked up on the PATH of `env` when it has no slash */
	const char *const *envp; /* NULL-ended "NAME=value"; the child gets exactly these */
	const char *cwd;         /* NULL = ours */
	const char *cpus;        /* "0,2-3"; NULL = not bound */
	int out_fd;              /* stdout and stderr (appended); not taken over */
	bool die_with_parent;    /* PR_SET_PDEATHSIG SIGKILL: ends also when proofmark is killed */
};

warn_unused int proc_init(struct err *err); /* once, at start: PR_SET_CHILD_SUBREAPER */
warn_unused int proc_spawn(struct proc **out, const struct proc_spec *spec,
                           struct err *err); /* ERR_ENV; also when exec fails */
pid_t proc_pid(const struct proc *p);
int proc_pidfd(const struct proc *p); /* borrowed; readable when it ended */
/* True when it ended (then *status as of waitpid). Never blocks. */
bool proc_ended(struct proc *p, int *status);
/* SIGTERM to the group, up to `grace_ns`, then SIGKILL to every process of the tree (group, and descendants
 * by /proc that left the group); waits until all are gone (at most 10 s more). Returns how many had to be
 * killed, -1 when some could not be ended. Safe to call again. */
int proc_end_tree(struct proc *p, uint64_t grace_ns, int *status);
void proc_free(struct proc *p); /* ends the tree when still there */

/* Pids of the tree below and including `root` (by /proc/PID/task/TID/children or ppid scan), malloc'd; count
 * in *n. */
pid_t *proc_tree(pid_t root, size_t *n);
/* Binds this process (all threads to come) to a CPU list. ERR_PLAN on a bad list, ERR_ENV when refused. */
warn_unused int proc_bind_self(const char *cpus, struct err *err);
/* "0,2-3" -> count of CPUs, -1 when malformed. */
int proc_cpus_count(const char *cpus);

#endif
