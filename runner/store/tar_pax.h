/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a pax extended header. */
#ifndef STORE_TAR_PAX_H
#define STORE_TAR_PAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pax_records {
	const char *path; /* borrowed from the data; NULL = none */
	size_t path_len;
	bool has_size;
	uint64_t size_bytes;
};

/* NULL when good, else why not (static text). `global`: of a 'g' header, which may name nothing of one entry.
 */
const char *pax_read(struct pax_records *out, const char *data, size_t len, bool global);

#endif
