/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the machine, read only. Every value is there or null (unknown, never 0), with its source beside
 * it. */
#ifndef HOST_HOST_FACTS_H
#define HOST_HOST_FACTS_H

#include "base/json_out.h"

struct host_spec {
	const char *sysroot; /* "" = the machine itself; a recorded machine's root otherwise */
	const char *run_dir; /* whose disk is told; NULL = none */
};
/* Writes one object under `key`. */
void host_facts_write(struct json_out *o, const char *key, const struct host_spec *spec);
/* Free bytes for us on the disk that holds `path`; false = unknown. */
bool host_disk_free_bytes(const char *path, uint64_t *bytes);

#endif
