/* SPDX-License-Identifier: Apache-2.0 */
/* Between the oci*.c files. */
#ifndef PIN_OCI_PARTS_H
#define PIN_OCI_PARTS_H

#include "pin/oci.h"

#define OCI_SIGNATURE_BYTES_MAX 4096

struct cJSON;
/* A member that may be absent (then `out` stays as it is). `at` stands in front of messages. */
warn_unused int oci_take_text(char *out, size_t out_bytes, const struct cJSON *obj, const char *key,
                              const char *at, struct err *err);
warn_unused int oci_take_platform(struct oci_platform *out, const struct cJSON *obj, const char *at,
                                  struct err *err);

#endif
