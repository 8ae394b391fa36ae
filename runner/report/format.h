/* SPDX-License-Identifier: Apache-2.0 */
/* Figures and times as people read them: three significant digits or more, always with the unit, "unknown"
 * for what is not known. Bytes, shares and times choose their own unit. Locale-free. */
#ifndef REPORT_FORMAT_H
#define REPORT_FORMAT_H

#include "base/buf.h"
#include "model/verdict.h"

#define FMT_BYTES 64
struct fmt {
	char s[FMT_BYTES];
};

struct fmt fmt_num(double v);     /* "0.0083" "12.3" "1240"; NAN "unknown" */
struct fmt fmt_count(uint64_t n); /* "12 345" (narrow no-break space); REC_NONE "unknown" */
struct fmt fmt_ns(uint64_t ns);   /* "830 µs" "12.3 ms" "1.25 s" "12 min 5 s"; REC_NONE "unknown" */
struct fmt fmt_ns_or(uint64_t ns, const char *unknown);
struct fmt fmt_bytes(double bytes);                  /* "812 MiB"; NAN "unknown" */
struct fmt fmt_rate(double per_s, const char *unit); /* "41.5 tok/s"; NAN "unknown" */
struct fmt fmt_share(uint64_t x, uint64_t n);        /* "0.83 %"; n 0 "unknown" */
struct fmt fmt_figure(const struct figure *f);       /* share as %, bytes as MiB/GiB, count without unit */
/* "p90 of ttft" of a criterion with its comparator: "≤ 250 ms". */
struct fmt fmt_limit(const struct crit_result *r);

/* What to change so that the measurement is sound next time; NULL = nothing to say. */
const char *advice_for(enum invalid_cause cause);
const char *cmp_symbol(enum comparator c); /* "≤" */
/* What a state or verdict is called in running text: "not tested", "accepted with waivers". */
const char *state_says(enum crit_state s);
const char *verdict_says(enum run_verdict v);

/* Text from outside into markup: & < > " ' escaped, what is not UTF-8, control characters and bidirectional
 * overrides as U+FFFD, at most `max_bytes` of it (then "…"). Good in HTML and XML, in text and attributes. */
void esc_n(struct buf *b, const char *s, size_t max_bytes);
void esc(struct buf *b, const char *s); /* 4000 bytes; NULL writes nothing */
/* Plain text: the same replacements, nothing escaped, line breaks as blanks. */
void plain_n(struct buf *b, const char *s, size_t max_bytes);

#endif
