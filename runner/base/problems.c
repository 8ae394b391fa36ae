/* SPDX-License-Identifier: Apache-2.0 */
#include "base/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void problems_done(struct problems *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->list[i].pointer);
		free(p->list[i].text);
	}
	free(p->list);
	*p = (struct problems){ 0 };
}

void problem_add(struct problems *p, enum problem_kind kind, const char *pointer, const char *fmt, ...)
{
	if (kind == PROBLEM_ERROR)
		p->n_errors++;
	else
		p->n_warnings++;
	if (p->n >= PROBLEMS_MAX)
		return;
	if (!p->list && !(p->list = calloc(PROBLEMS_MAX, sizeof(*p->list))))
		return;
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int rc = vasprintf(&text, fmt, ap);
	va_end(ap);
	char *where = strdup(pointer);
	if (rc < 0 || !where) {
		free(where);
		return;
	}
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
	p->list[p->n++] = (struct problem){ kind, where, text };
}
