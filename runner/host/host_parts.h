/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of host/: one fact is {"value", "source"}; value null = unknown. */
#ifndef HOST_HOST_PARTS_H
#define HOST_HOST_PARTS_H

#include "base/json_out.h"
#include "host/host_facts.h"

#include <stdbool.h>

#define HOST_TEXT_BYTES 16384
#define HOST_LINE_BYTES 1024

/* malloc'd sysroot + path. */
char *host_path(const struct host_spec *spec, const char *path);
/* The file's text, cut at `size`; false when it cannot be read. */
bool host_read(const struct host_spec *spec, const char *path, char *out, size_t size);
/* Its first line, without blanks at the ends; false also when empty. */
bool host_line(const struct host_spec *spec, const char *path, char out[HOST_LINE_BYTES]);
/* True for the machine that we run on: only there system calls tell facts. */
bool host_is_live(const struct host_spec *spec);

void fact_str(struct json_out *o, const char *key, const char *value,
              const char *source); /* NULL = unknown */
void fact_u64(struct json_out *o, const char *key, bool known, uint64_t value, const char *source);
void fact_bool(struct json_out *o, const char *key, bool known, bool value, const char *source);
/* The first line of a file. */
void fact_line(struct json_out *o, const struct host_spec *spec, const char *key, const char *path);

void host_write_cpu(struct json_out *o, const struct host_spec *spec);
void host_write_memory(struct json_out *o, const struct host_spec *spec);
void host_write_cgroup(struct json_out *o, const struct host_spec *spec);
void host_write_virtual(struct json_out *o, const struct host_spec *spec);
void host_write_disk(struct json_out *o, const struct host_spec *spec);
void host_write_devices(struct json_out *o, const struct host_spec *spec);

#endif
