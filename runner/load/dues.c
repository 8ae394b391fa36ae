/* SPDX-License-Identifier: Apache-2.0 */
#include "load/dues.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

int dues_init(struct dues *d, size_t max)
{
	*d = (struct dues){ .max = max, .heap = calloc(max, sizeof *d->heap) };
	return d->heap ? 0 : -1;
}

void dues_done(struct dues *d)
{
	free(d->heap);
	d->heap = NULL;
	d->n = 0;
}

static bool before(const struct due *a, const struct due *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->seq < b->seq;
}

void dues_push(struct dues *d, struct slot *s, uint64_t due_ns)
{
	struct due new = { due_ns, d->seq++, s };
	size_t at = d->n++;
	assert(d->n <= d->max);
	for (; at > 0 && before(&new, &d->heap[(at - 1) / 2]); at = (at - 1) / 2)
		d->heap[at] = d->heap[(at - 1) / 2];
	d->heap[at] = new;
}

struct slot *dues_pop(struct dues *d)
{
	struct slot *s = d->heap[0].slot;
	struct due last = d->heap[--d->n];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < d->n; at = child) {
		if (child + 1 < d->n && before(&d->heap[child + 1], &d->heap[child]))
			child++;
		if (!before(&d->heap[child], &last))
			break;
		d->heap[at] = d->heap[child];
	}
	d->heap[at] = last;
	return s;
}
