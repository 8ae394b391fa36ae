/* SPDX-License-Identifier: Apache-2.0 */
/* The run directory while it is written: everything by openat from one descriptor; a reserve file keeps room
 * so that a full disk still ends in a sealed file; requests and tokens spill through buffers off the hot
 * path. */
#ifndef STORE_RUNDIR_H
#define STORE_RUNDIR_H

#include "base/err.h"
#include "base/json_out.h"
#include "model/evidence.h"
#include "model/record.h"

#define RUNDIR_RESERVE_BYTES (8u << 20)

struct rundir;
/* Creates the folder (it must not exist or be empty: ERR_USAGE otherwise), the reserve and the journal. */
warn_unused int rundir_create(struct rundir **out, const char *path, uint64_t origin_ns, struct err *err);
int rundir_fd(const struct rundir *d);
const char *rundir_path(const struct rundir *d);
/* Whole small files: plan.json, plan.lock.json, facts.json. */
warn_unused int rundir_write(struct rundir *d, const char *name, const void *data, size_t len,
                             struct err *err);
/* Journal: begins a line {"seq","t_ns","ev"}; the caller adds members with jo_* and calls event_end, which
 * writes the line and syncs it. Errors of the disk are remembered (rundir_full), never lost, never fatal
 * here. */
struct json_out *rundir_event(struct rundir *d, const char *ev);
void rundir_event_end(struct rundir *d);
/* requests.jsonl + tokens.bin: sets rec->i, tok_off, tok_bytes. With the disk full, rows stay in memory,
 * whole (some 4 MiB), and are written once the reserve is used: watch rundir_full; -1 = the row was not
 * taken. The journal gets its disk_full by itself. */
int rundir_record(struct rundir *d, struct record *rec, const uint8_t *tokens, size_t len);
/* A line of one of the files of lines but requests.jsonl and events.jsonl (without newline). Any thread; all
 * else here is for one thread. */
int rundir_line(struct rundir *d, const char *name, const char *line, size_t len);
/* Hands the spill to the kernel (flush) and syncs; call between cells and before the end. */
int rundir_flush(struct rundir *d);
bool rundir_full(const struct rundir *d); /* a write failed for want of space (or short write) */
/* Frees the reserve so that the end of the run can be written. */
void rundir_use_reserve(struct rundir *d);
int rundir_log_fd(struct rundir *d); /* engine.log, O_APPEND */
void rundir_close(struct rundir *d);

/* --- reading ----------------------------------------------------------------------------------------------
 */
/* The evidence members of a folder, mapped (design.md's list, as far as there). Refuses links and odd files.
 */
warn_unused int rundir_load(struct member_set *out, const char *path, struct err *err);
/* Names of evidence members (raw: hashed into the evidence root) and of derived ones, NULL-ended. */
extern const char *const evidence_member_names[], *const derived_member_names[];

/* Test hook: environment PROOFMARK_FAULT="kill:N" SIGKILLs ourselves at the N-th write boundary of the store,
 * "enospc:N" lets every write from the N-th on fail with ENOSPC until the reserve is used, "short:N" makes
 * the N-th write short and the rest ENOSPC. Compiled in always, so that what is tested is what ships; the
 * journal says that it was set and such a run is never accepted. */
const char *rundir_fault(void); /* what is set ("kill:7"), NULL = nothing: a label of run_begin */

#endif
