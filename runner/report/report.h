/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: each turns a verdict (computed from the evidence) into one text, the same bytes for the same
 * input. No clock, no locale, no path of this machine in any of them. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "model/verdict.h"

int report_html(struct buf *out, const struct verdict *v);
int report_junit(struct buf *out, const struct verdict *v);
int report_summary(struct buf *out, const struct verdict *v); /* summary.txt, 80 columns */

struct report_kind {
	const char *file; /* "report.html" */
	int (*render)(struct buf *out, const struct verdict *v);
};
extern const struct report_kind
	report_kinds[]; /* verdict.json report.html junit.xml summary.txt; NULL-ended */

/* Renders every kind from a loaded member set; `out` (report_kinds order) is the caller's to buf_done. */
warn_unused int report_render_all(struct buf *out, const struct verdict *v, struct err *err);

#endif
