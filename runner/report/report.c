// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include "model/record.h"

#include <stddef.h>

#define REPORT_BYTES_MAX (64u << 20)

const struct report_kind report_kinds[] = {
	{ "verdict.json", verdict_write },
	{ "report.html", report_html },
	{ "junit.xml", report_junit },
	{ "summary.txt", report_summary },
	{ NULL, NULL },
};

int report_render_all(struct buf *out, const struct verdict *v, struct err *err)
{
	for (size_t i = 0; report_kinds[i].file; i++) {
		buf_init(&out[i], REPORT_BYTES_MAX);
		if (!report_kinds[i].render(&out[i], v) && !out[i].failed)
			continue;
		for (size_t k = 0; k <= i; k++)
			buf_done(&out[k]);
		return err_set(err, ERR_ENV, "%s: over %u bytes, or no memory", report_kinds[i].file,
		               REPORT_BYTES_MAX);
	}
	return 0;
}
