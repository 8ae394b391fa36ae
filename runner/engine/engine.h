/* SPDX-License-Identifier: Apache-2.0 */
/* Engines: the systems under test. One const table a file, listed in engine.c. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/http.h"
#include "base/proc.h"
#include "model/plan.h"
#include "model/proto.h"

struct engine_identity { /* what the server says of itself; each NULL = not told. Owned
	                    (engine_identity_done). */
	char *version, *build, *commit, *model_name, *model_path;
	uint64_t context_tok; /* per request; 0 = not told */
	uint64_t slots;       /* parallel requests; 0 = not told */
	struct cJSON *raw;    /* whole answer, for facts.json */
};

struct engine_ops {
	enum engine_kind kind;
	const char *label;           /* NULL, or why a run on it can never be accepted ("scripted engine") */
	const char *health_path;     /* GET; 200 = up */
	const char *metrics_path;    /* GET; Prometheus text, where the server has it */
	const char *default_program; /* "llama-server" */
	bool has_tokenizer;
	/* Exact token count of a prompt as the server will see it (chat: with its template applied). */
	int (*count_tokens)(struct http_client *c, enum api api, const char *prompt, uint64_t *n,
	                    struct err *err);
	/* Token ids of a text (no special tokens), malloc'd; NULL slot = cannot. */
	int (*tokenize)(struct http_client *c, const char *text, uint32_t **ids, size_t *n, struct err *err);
	int (*identity)(struct http_client *c, struct engine_identity *out, struct err *err);
};
/* NULL when no adapter of ours runs this engine yet. */
const struct engine_ops *engine_find(enum engine_kind kind);
void engine_identity_done(struct engine_identity *id);

/* --- launch_process --------------------------------------------------------------------------------------
 */
struct engine_run; /* one start of an engine (or an attachment to a running one) */
struct engine_start_spec {
	const struct plan_candidate *cand;
	const struct engine_ops *ops;
	const char *plan_dir;   /* relative programs, model files and from_file paths start here */
	const char *model_file; /* resolved path of the first model file, or NULL */
	const char *model_id;
	enum api api;        /* of the workload: the first completion uses it */
	const char *run_dir; /* cwd default */
	int log_fd;          /* engine.log */
	const bool *stop;    /* set by Ctrl-C: give up waiting */
};
struct engine_times {
	uint64_t spawn_ns, health_ns, first_completion_ns;
}; /* CLOCK_MONOTONIC; REC_NONE = not reached. Filled on failure too: how far it came. */

/* Spawns, waits for the health endpoint *and* a first completion, within cand->ready_deadline_s. On failure
 * the whole tree is ended and `err` says which step, exit status or last log line. ERR_ENV. A port taken by
 * somebody else is found before spawning, and the answer is checked to come from our process tree where that
 * can be told. */
warn_unused int engine_start(struct engine_run **out, struct engine_times *times,
                             const struct engine_start_spec *spec, struct err *err);
const char *engine_url(const struct engine_run *r);
const char *engine_bearer(const struct engine_run *r); /* secret or NULL */
const char *engine_ca_file(const struct engine_run *r);
pid_t engine_pid(const struct engine_run *r); /* 0 when attached */
int engine_pidfd(const struct engine_run *r); /* -1 when attached */
struct http_client *engine_http(struct engine_run *r);
bool engine_ended(struct engine_run *r, int *status); /* never blocks; attached: false */
/* Ends it and everything below it. *status as of waitpid. */
void engine_stop(struct engine_run *r, int *status);
void engine_free(struct engine_run *r);
/* The argv of the launch, for lock and facts; port 0 leaves {port} as it stands. No value of from_env or
 * from_file is in it. NULL-ended; the caller's (engine_argv_free). */
warn_unused int engine_argv(char ***argv, size_t *n, const struct engine_start_spec *spec, unsigned port,
                            struct err *err);
void engine_argv_free(char **argv); /* accepts NULL */

/* Overwrites with '*', byte for byte, every value that the plan takes from outside (from_env, from_file,
 * api_key) and that stands in the engine's output behind `spec->log_fd`: an engine may print its key, a
 * bundle may not hold it. Returns how many places, -1 with err when the file cannot be cleaned. Call when no
 * engine writes any more. */
warn_unused int64_t engine_log_blank(const struct engine_start_spec *spec, struct err *err);
/* The same for one text of ours, such as what a server answered. */
void engine_text_blank(char *text, const struct engine_run *r);

#endif
