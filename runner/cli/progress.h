/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells its user while it goes on, on standard error and never on standard output. On a terminal
 * one line is drawn again and again (at most 4 times a second, cut to the width); elsewhere a line comes with
 * each phase, with each finished cell, and every 30 s. One display a process, one thread; without
 * progress_open nothing is shown. Trouble of the terminal is nobody's error and is not reported. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "load/load.h"

#include <stdbool.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_PLAIN, PROGRESS_JSON, PROGRESS_NONE };

extern const char *const progress_words[]; /* "auto" "plain" "json" "none": the words of --progress */
/* NULL (option not given) and unknown words are AUTO: a terminal gets the redrawn line, all else plain. */
enum progress_mode progress_mode_of(const char *word);

void progress_open(enum progress_mode mode);
void progress_phase(const char *name); /* "load"; copied */
/* Called as often as the caller likes; `p` is read before it returns. Fits load_spec.tick with a small
 * wrapper. */
void progress_load(const char *cell_id, const struct load_progress *p);
/* A line that stays: "control \"capital\" before: ok". Without newline. */
void progress_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_close(void); /* leaves the cursor on a fresh line */

/* The texts alone, for tests. `p` may be NULL before the first request. */
#define PROGRESS_TEXT_BYTES 512
void progress_text(char out[PROGRESS_TEXT_BYTES], const char *phase, const char *cell_id,
                   const struct load_progress *p);
/* Cuts UTF-8 `text` to `columns` characters, the last one "…" when something went. */
void progress_cut(char *text, size_t columns);
/* Colours only where a person looks: a terminal that is not dumb, and NO_COLOR not set. */
bool progress_colour(int fd);

#endif
