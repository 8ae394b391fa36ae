/* SPDX-License-Identifier: Apache-2.0 */
/* rundir_load for any list of names: for the store's own use. */
#ifndef STORE_RUNDIR_LOAD_H
#define STORE_RUNDIR_LOAD_H

#include "store/rundir.h"

warn_unused int rundir_load_names(struct member_set *out, const char *path, const char *const names[],
                                  struct err *err);

#endif
