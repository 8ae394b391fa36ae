/* SPDX-License-Identifier: Apache-2.0 */
/* A list of what is wrong with a document, so that all of it can be told in one go. Each entry is a JSON
 * Pointer and one sentence. Bounded: past PROBLEMS_MAX only the count grows. */
#ifndef BASE_PROBLEMS_H
#define BASE_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#define PROBLEMS_MAX 200

enum problem_kind { PROBLEM_ERROR, PROBLEM_WARNING };

struct problem {
	enum problem_kind kind;
	char *pointer; /* "/workloads/1/rate_rps"; "" is the whole document */
	char *text;    /* "want a number above 0, got -3" */
};

struct problems {
	size_t n_errors, n_warnings; /* all, also past the limit */
	size_t n;                    /* kept in `list` */
	struct problem *list;
};

void problems_done(struct problems *p);
void problem_add(struct problems *p, enum problem_kind kind, const char *pointer, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define auto_problems __attribute__((cleanup(problems_done))) struct problems

#endif
