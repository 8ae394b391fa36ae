/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a text something is and what stands there, in words: for the messages of json_in. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define TEXT_FOUND_BYTES 160

/* Walks forward only, so that many positions of one text cost one pass. Zeroed = at the start. */
struct text_cursor {
	size_t at, line, column; /* line and column less 1; columns count characters, not bytes */
};
void text_seek(struct text_cursor *c, const char *text, size_t len, size_t at);

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none. */
size_t text_utf8_len(const char *p, size_t left);
/* What stands at `at`, with advice for the usual mistakes: "'True' (write true, false and null in lower
 * case)". `out` holds TEXT_FOUND_BYTES. */
void text_found(char *out, const char *text, size_t len, size_t at);
/* Says what the whole text is when it cannot be JSON at all ("UTF-16 …", "an HTML page …"), else NULL. */
const char *text_is_not_json(const char *text, size_t len);
/* True when the line that holds `at` is a mark left by a merge conflict. */
enum { TEXT_MARK_BYTES = 7 };
bool text_conflict_mark(const char *text, size_t len, size_t at);

#endif
