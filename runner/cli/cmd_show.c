/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "cli/opt.h"
#include "cli/reports.h"
#include "report/report.h"

#include <stdio.h>

/* As report, but writes nothing and judges nothing by its exit code: for looking at runs of others. */
static int run_show(const struct parsed *p, struct err *err)
{
	struct judged j;
	auto_buf summary = BUF_INIT(4u << 20);
	if (judged_load(&j, p->args[0], err))
		return -1;
	int rc = report_summary(&summary, &j.verdict);
	judged_done(&j);
	if (rc)
		return err_set(err, ERR_ENV, "show: no memory");
	fputs(summary.p, stdout);
	return 0;
}

const struct command cmd_show = {
	.name = "show",
	.args = "DIR",
	.min_args = 1,
	.max_args = 1,
	.says = "print the verdict of a run directory, write nothing",
	.examples = "proofmark show runs/first\n",
	.run = run_show,
};
