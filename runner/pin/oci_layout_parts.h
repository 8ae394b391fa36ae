/* SPDX-License-Identifier: Apache-2.0 */
/* Between oci_layout.c and oci_saved.c. */
#ifndef PIN_OCI_LAYOUT_PARTS_H
#define PIN_OCI_LAYOUT_PARTS_H

#include "pin/oci_archive.h"
#include "pin/oci_layout.h"

struct oci_layout {
	enum oci_layout_kind kind;
	char *name; /* the path, for messages */
	int dir_fd; /* folder; -1 = archive */
	uint64_t deadline_ns;
	struct oci_archive archive;
	struct oci_doc index;
};

#endif
