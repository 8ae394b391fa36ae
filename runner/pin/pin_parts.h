/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of pin/: files to be hashed under one name and opened under another. */
#ifndef PIN_PIN_PARTS_H
#define PIN_PIN_PARTS_H

#include "pin/pin_model.h"

struct pin_job {
	char *name;      /* told */
	char *open_path; /* opened; NULL = name */
	bool deleted;
};
struct pin_jobs {
	size_t n, room;
	struct pin_job *list;
};
/* Takes both strings over, also when it fails (no memory). */
warn_unused int pin_job_add(struct pin_jobs *jobs, char *name, char *open_path, bool deleted);
void pin_jobs_done(struct pin_jobs *jobs);
void pin_jobs_sort_unique(struct pin_jobs *jobs); /* by name */
/* Hashes all of them, in order. */
warn_unused int pin_jobs_hash(struct pin_files *out, const struct pin_jobs *jobs, bool cache,
                              const bool *stop, struct err *err);

#endif
