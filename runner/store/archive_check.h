/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign tar archives (imports, OCI layouts), read strictly: what two readers could take in two ways is
 * refused, whole, with the reason, and nothing is unpacked before all of it is known to be good. Accepted:
 * plain tar with regular files and folders; ustar, old and GNU headers; one pax or GNU long name an entry;
 * pax times, owners and comments. */
#ifndef STORE_ARCHIVE_CHECK_H
#define STORE_ARCHIVE_CHECK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_ENTRIES_MAX 65536u

struct archive_file {
	char *path; /* relative, UTF-8, no folder fault (store/path_rule.h); a folder has no '/' at its end */
	uint64_t offset, size_bytes; /* of the data in the archive */
	bool is_dir;
};

struct archive_list {
	size_t n;
	struct archive_file *files; /* in the order of the archive */
};

/* ERR_PLAN with the reason on the first fault; `data` may be mapped. Files get mode 0644, folders 0755,
 * whatever the archive says. */
warn_unused int archive_check(struct archive_list *out, const void *data, size_t len, struct err *err);
void archive_list_done(struct archive_list *l);

#endif
