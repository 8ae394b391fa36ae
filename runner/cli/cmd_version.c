/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"
#include "model/plan.h"

static int run(const struct parsed *p, struct err *err)
{
	(void)p;
	(void)err;
	printf("proofmark %s\nplan schema %d, statistics rules 1 to %d\n", PROOFMARK_VERSION,
	       PLAN_SCHEMA_VERSION, RULES_CURRENT);
	return 0;
}

const struct command cmd_version = {
	.name = "version",
	.says = "print version, plan schema and statistics rules",
	.examples = "proofmark version\n",
	.run = run,
};
