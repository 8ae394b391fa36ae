/* SPDX-License-Identifier: Apache-2.0 */
#include "model/evidence.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const struct member *member_find(const struct member_set *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return &s->list[i];
	return NULL;
}

int member_add(struct member_set *s, const char *name, const void *data, size_t len, void *owned)
{
	struct member *list = realloc(s->list, (s->n + 1) * sizeof(*list));
	if (!list)
		return -1;
	s->list = list;
	char *copy = strdup(name);
	if (!copy)
		return -1;
	list[s->n++] = (struct member){ .name = copy, .data = data, .len = len, .owned = owned };
	return 0;
}

void member_set_done(struct member_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = &s->list[i];
		if (m->map_len) {
			void *at;
			memcpy(&at, &m->data, sizeof(at));
			munmap(at, m->map_len);
		}
		free(m->owned);
		free(m->name);
	}
	free(s->list);
	*s = (struct member_set){ 0 };
}
