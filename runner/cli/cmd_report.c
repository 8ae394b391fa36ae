/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "cli/opt.h"
#include "cli/reports.h"
#include "report/report.h"

#include <stdio.h>

enum { O_JSON };

static const struct opt report_opts[] = {
	[O_JSON] = { "json", 0, OPT_FLAG, NULL, "print the result as JSON", NULL },
	{ 0 },
};

static int run_report(const struct parsed *p, struct err *err)
{
	const char *dir = p->args[0];
	struct judged j;
	auto_buf summary = BUF_INIT(4u << 20);
	if (judged_load(&j, dir, err))
		return -1;
	int rc = reports_write(&j, dir, err);
	int code = verdict_exit_code(j.verdict.run);
	if (!rc && p->v[O_JSON].given)
		print_result_json(&j.verdict, dir, NULL);
	else if (!rc && !report_summary(&summary, &j.verdict))
		fputs(summary.p, stdout);
	judged_done(&j);
	return rc ? -1 : code;
}

const struct command cmd_report = {
	.name = "report",
	.args = "DIR",
	.min_args = 1,
	.max_args = 1,
	.says = "judge a run directory again and write its reports",
	.examples = "  proofmark report runs/first\n",
	.opts = report_opts,
	.run = run_report,
};
