/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the HTML report share; nobody else includes it. Each part writes one section, or nothing
 * where it has nothing to say. */
#ifndef REPORT_REPORT_PARTS_H
#define REPORT_REPORT_PARTS_H

#include "base/buf.h"
#include "model/verdict.h"

#include <stdbool.h>

extern const char *const html_style[]; /* the style sheet in pieces, NULL-ended */
extern const char
	html_symbols[]; /* <svg> with one <symbol> a state: shape and mark differ, not only colour */

void part_front(struct buf *b, const struct verdict *v);    /* verdict, why, figures, criteria, identity */
void part_criteria(struct buf *b, const struct verdict *v); /* all of them, worst first; part of the front */
void part_identity(struct buf *b,
                   const struct verdict *v);              /* run, plan, what was signed; part of the front */
void part_ttft(struct buf *b, const struct verdict *v);   /* ECDF of the critical cell */
void part_grid(struct buf *b, const struct verdict *v);   /* TTFT and ITL by context and concurrency */
void part_cells(struct buf *b, const struct verdict *v);  /* requests and speeds of each cell */
void part_load(struct buf *b, const struct verdict *v);   /* retries, saturation, bursts, cache, queue */
void part_groups(struct buf *b, const struct verdict *v); /* turns of conversations, parts of a mix */
void part_canaries(struct buf *b, const struct verdict *v); /* and the counters of free text */
void part_errors(struct buf *b, const struct verdict *v);   /* when what failed */
void part_memory(struct buf *b, const struct verdict *v);
void part_controls(struct buf *b, const struct verdict *v);
void part_starts(struct buf *b, const struct verdict *v);
void part_instrument(struct buf *b, const struct verdict *v);
void part_pins(struct buf *b, const struct verdict *v);
void part_trust(struct buf *b, const struct verdict *v); /* self-declared, missing, not tested */

/* --- helpers ------------------------------------------------------------------------------------------- */
const struct cell_result *critical_cell(const struct verdict *v); /* NULL = none */
const char *state_icon(enum crit_state s, bool waived);           /* id of a symbol: "i-pass" */
const char *state_class(enum crit_state s, bool waived);          /* "pass" "fail" "open" "invalid" */
void add_icon(struct buf *b, const char *id);
void section_open(struct buf *b, const char *id, const char *title, const char *lead); /* lead may be NULL */
void section_close(struct buf *b);
void note(struct buf *b, const char *text); /* a muted paragraph; text is ours, not escaped */
/* <tr><th>key</th><td>value</td></tr>; NULL or "" value writes "not told". Escaped. */
void row_kv(struct buf *b, const char *key, const char *value, bool mono);
void td_num(struct buf *b, const char *text); /* right-aligned cell; escaped */
void td_text(struct buf *b, const char *text);
/* Last time seen in the journal or a phase: right edge of the time charts. */
uint64_t run_end_ns(const struct evidence *ev); /* at least 1 */

#endif
