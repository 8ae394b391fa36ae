/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of safetensors: JSON, as much as a header has, taken piece by piece. */
#ifndef PIN_ST_TEXT_H
#define PIN_ST_TEXT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct st_text {
	const char *start, *p, *end;
	const char *name; /* of the file */
	struct err *err;
};

/* All return -1 with *err filled. */
int st_bad(struct st_text *s, const char *what);
/* Also skips the blanks around it. */
bool st_take_char(struct st_text *s, char c);
/* malloc'd */
int st_take_string(struct st_text *s, char **out);
int st_take_uint(struct st_text *s, uint64_t *out);
/* Of a member that the format does not know: the reference library skips them. */
int st_skip_value(struct st_text *s, unsigned depth);

#endif
