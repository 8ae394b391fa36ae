/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cards that buyers ask about. The number is the vendor's own; on these cards its "GB" are powers
 * of two, and what a driver shows is less: a card with error correction in ordinary memory loses up to 7 %,
 * others up to 3 %. Bytes that the driver shows are always the better input. */
#ifndef MODEL_GPU_TABLE_H
#define MODEL_GPU_TABLE_H

#include <stdint.h>

struct gpu_card {
	const char *name;   /* "H100"; NULL ends the table */
	const char *vendor; /* "NVIDIA" */
	uint64_t memory_bytes;
	const char *source; /* where the vendor says so */
	const char *date;   /* of its announcement, YYYY-MM-DD */
};
extern const struct gpu_card gpu_cards[];

/* By its name, in any case, with or without vendor, blanks and hyphens ("nvidia rtx4090"). NULL: not there.
 */
const struct gpu_card *gpu_card_find(const char *name);

#endif
