/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_in.h"
#include "cli/opt.h"

#include <string.h>

static void list_commands(void)
{
	puts("Examples:\n"
	     "  proofmark check plan.json                 is the plan sound?\n"
	     "  proofmark lock plan.json                  write the hashes of what it names\n"
	     "  proofmark run plan.json --candidate NAME -o DIR --key KEYFILE\n"
	     "  proofmark verify DIR.proofmark --key PUB  somebody else's result\n"
	     "  proofmark load http://127.0.0.1:8080      load a server, without a plan\n"
	     "\n"
	     "Usage: proofmark COMMAND [options] ...\n"
	     "\n"
	     "Acceptance tests of local-AI servers, with a signed result.\n"
	     "\n"
	     "Commands:");
	for (size_t i = 0; commands[i]; i++)
		printf("  %-12s%s\n", commands[i]->name, commands[i]->says);
	puts("\n"
	     "`proofmark help COMMAND` shows its options. Results go to standard output,\n"
	     "everything else to standard error.\n"
	     "\n"
	     "Exit codes: 0 accepted, genuine, equal; 1 rejected, not genuine, different;\n"
	     "2 usage or plan error; 3 inconclusive, cannot be recomputed; 4 measurement not\n"
	     "sound; 5 environment (file, disk, network, engine, not as locked); 70 our own\n"
	     "bug; 130 interrupted.");
}

static int run(const struct parsed *p, struct err *err)
{
	const char *names[64];
	size_t n = 0;
	if (!p->n_args) {
		list_commands();
		return 0;
	}
	for (; commands[n] && n + 1 < ARRAY_LEN(names); n++) {
		names[n] = commands[n]->name;
		if (!strcmp(names[n], p->args[0])) {
			opt_help(stdout, commands[n]);
			return 0;
		}
	}
	names[n] = NULL;
	const char *near = near_match(p->args[0], names);
	if (near)
		return err_set(err, ERR_USAGE, "help: no command \"%s\"; did you mean %s?", p->args[0], near);
	return err_set(err, ERR_USAGE, "help: no command \"%s\"; `proofmark help` lists them", p->args[0]);
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.max_args = 1,
	.says = "list the commands, or explain one",
	.examples = "proofmark help\nproofmark help run\n",
	.run = run,
};
