/* SPDX-License-Identifier: Apache-2.0 */
/* What a path inside an archive may be: relative, UTF-8, without anything that two readers understand in two
 * ways or that leaves the folder. */
#ifndef STORE_PATH_RULE_H
#define STORE_PATH_RULE_H

#include <stdbool.h>
#include <stddef.h>

#define PATH_BYTES_MAX 4096u
#define PATH_PART_BYTES_MAX 255u

/* NULL when good, else why not: static text. A '/' at the end is one fault of them. */
const char *path_fault(const char *path, size_t len);

/* The names seen so far, to find those that some system takes for the same: byte for byte, after Unicode
 * normalisation (NFD), or but for case. Folders on the way count as names. */
struct name_set;
struct name_set *name_set_new(void); /* NULL without memory */
void name_set_free(struct name_set *s);
/* NULL when the path is new and meets no other, else why not. `is_dir`: a folder may have been implied by a
 * file below it before, a file may not. Paths are good by path_fault. */
const char *name_set_add(struct name_set *s, const char *path, size_t len, bool is_dir);

#endif
