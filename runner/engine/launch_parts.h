/* SPDX-License-Identifier: Apache-2.0 */
/* Between the launch_*.c files. */
#ifndef ENGINE_LAUNCH_PARTS_H
#define ENGINE_LAUNCH_PARTS_H

#include "engine/engine.h"

#define LAUNCH_LOCAL "127.0.0.1"
#define LAUNCH_TEXT_BYTES 256

/* --- launch_args.c --- */

/* The port that args name: `*free_port` when they use {port}, else `*port`. ERR_PLAN when they name none. */
warn_unused int launch_port_of(bool *free_port, unsigned *port, const struct plan_candidate *cand,
                               struct err *err);
/* The host to ask: what --host says, 127.0.0.1 for none and for "all addresses". Borrowed. */
const char *launch_host_of(const struct plan_candidate *cand);
/* malloc'd path: relative ones start at `plan_dir`; absolute in any case. NULL without memory. */
char *launch_path(const char *plan_dir, const char *path);

/* --- launch_env.c: what may hold secrets --- */

struct launch_env {
	char **vars;    /* NULL-ended "NAME=value" */
	char **secrets; /* NULL-ended values that came from outside; they are blanked in log lines */
	char *bearer;   /* or NULL */
};
warn_unused int launch_env_make(struct launch_env *env, const struct engine_start_spec *spec,
                                struct err *err);
void launch_env_done(struct launch_env *env); /* wipes */
void launch_blank_secrets(char *line, const struct launch_env *env);
/* Any bytes; returns how many places. */
uint64_t launch_blank_bytes(char *data, size_t len, const struct launch_env *env);

/* --- launch_port.c --- */

warn_unused int launch_free_port(unsigned *port, struct err *err);
/* ERR_ENV when somebody listens there: "port 8080 is taken by pid 12 (nginx)". */
warn_unused int launch_port_check(const char *host, unsigned port, struct err *err);
enum port_owner { OWNER_UNKNOWN, OWNER_TREE, OWNER_OTHER };
/* Who listens on `port`: a process of the tree below `root`, or another (`who` then says "pid 12 (nginx)").
 */
enum port_owner launch_port_owner(unsigned port, pid_t root, char who[LAUNCH_TEXT_BYTES]);

/* --- launch_log.c --- */

/* Last line that says something, from byte `from` of the log on, cleaned of control characters and secrets;
 * "" when there is none. `*hint` is what to do about well-known lines, or NULL. */
void launch_last_line(char line[LAUNCH_TEXT_BYTES], const char **hint, int log_fd, uint64_t from,
                      const struct launch_env *env);
/* "exit status 1", "signal 9 (KILL)"; `*hint` as above. */
void launch_say_status(char text[LAUNCH_TEXT_BYTES], const char **hint, int status);

/* --- launch_ready.c --- */

struct launch_wait {
	const struct engine_start_spec *spec;
	struct http_client *http;
	struct proc *proc; /* NULL = attached */
	unsigned port;     /* of the process; 0 = attached */
	uint64_t deadline_ns;
};
/* ERR_ENV on a deadline, an end of the process, a refusal; ERR_INTERRUPTED on stop. */
warn_unused int launch_wait_ready(struct engine_times *times, const struct launch_wait *w, struct err *err);

#endif
