/* SPDX-License-Identifier: Apache-2.0 */
/* `proofmark load URL`: see cmd_load.h. */
#include "cli/cmd_load.h"
#include "load/scrub.h"

static int run(const struct parsed *p, struct err *err)
{
	struct load_opts o = { 0 };
	bool merge = load_opts_merge(p);
	int rc = merge ? load_opts_read_merge(&o, p, err) : load_opts_read(&o, p, err);
	if (rc == 0)
		rc = merge ? load_merge(&o, p, err) : load_drive(&o, err);
	if (rc < 0)
		scrub(err->msg, o.key);
	load_opts_done(&o);
	return rc;
}

const struct command cmd_load = {
	.name = "load",
	.args = "URL",
	.min_args = 1,
	.max_args = LOAD_SHARDS_MAX,
	.says = "load a server by URL, without a plan",
	.examples = "  proofmark load http://127.0.0.1:8080 --concurrency 8 --duration 30s\n"
		    "  proofmark load http://127.0.0.1:8080 --rate 4 --slo ttft=800ms,itl=60ms\n"
		    "  proofmark load --merge shard0 shard1 --json\n",
	.opts = load_opt_table,
	.run = run,
};
