/* SPDX-License-Identifier: Apache-2.0 */
/* Slots that wait for a due time: a heap by (due time, order of coming), so that the same waits come out in
 * the same order. Memory is taken once, for every slot. */
#ifndef LOAD_DUES_H
#define LOAD_DUES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct slot;

struct due {
	uint64_t due_ns, seq;
	struct slot *slot;
};

struct dues {
	size_t n, max;
	uint64_t seq;
	struct due *heap; /* heap[0] is the first one */
};

warn_unused int dues_init(struct dues *d, size_t max); /* -1 without memory */
void dues_done(struct dues *d);
void dues_push(struct dues *d, struct slot *s, uint64_t due_ns); /* each slot at most once */
struct slot *dues_pop(struct dues *d);                           /* not when empty */

#endif
