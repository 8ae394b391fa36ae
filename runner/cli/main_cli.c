/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_in.h"
#include "cli/opt.h"

#include <errno.h>
#include <string.h>

#define COMMANDS_MAX 64

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int refuse_command(const char *got, struct err *err)
{
	const char *names[COMMANDS_MAX + 1];
	size_t n = 0;
	for (; commands[n] && n < COMMANDS_MAX; n++)
		names[n] = commands[n]->name;
	names[n] = NULL;
	const char *near = near_match(got, names);
	if (near)
		return err_set(err, ERR_USAGE, "no command \"%s\"; did you mean %s?", got, near);
	return err_set(err, ERR_USAGE, "no command \"%s\"; `proofmark help` lists them", got);
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

static int tell(const struct err *err)
{
	bool known = err->cls != ERR_NONE && err->msg[0];
	fflush(stdout);
	fprintf(stderr, "proofmark: %s\n",
	        known ? err->msg : "internal error: a command failed without a reason");
	return known ? err_exit_code(err->cls) : err_exit_code(ERR_BUG);
}

/* Output that did not arrive (full disk, closed pipe) is no success. */
static int close_stdout(int code, struct err *err)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	err_sys(err, ERR_ENV, errno ? errno : EIO, "cannot write standard output");
	return code ? code : tell(err);
}

static int run_command(const struct command *cmd, int argc, char **argv, struct err *err)
{
	struct parsed p;
	if (wants_help(argc, argv)) {
		opt_help(stdout, cmd);
		return 0;
	}
	if (opt_parse(&p, cmd, argc, argv, err))
		return -1;
	return cmd->run(&p, err);
}

/* "proofmark --help" and "proofmark --version" are what everybody tries first. */
static const char *as_command(const char *word)
{
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return "help";
	if (!strcmp(word, "--version") || !strcmp(word, "-V"))
		return "version";
	return word;
}

int cli_main(int argc, char **argv)
{
	struct err err = { 0 };
	if (argc < 2) {
		err_set(&err, ERR_USAGE, "want a command; `proofmark help` lists them");
		return tell(&err);
	}
	const char *name = as_command(argv[1]);
	const struct command *cmd = find_command(name);
	if (!cmd && name[0] == '-')
		err_set(&err, ERR_USAGE,
		        "want a command before options, got \"%s\"; `proofmark help` lists them", name);
	else if (!cmd)
		refuse_command(name, &err);
	if (!cmd)
		return tell(&err);
	errno = 0;
	int code = run_command(cmd, argc - 2, argv + 2, &err);
	if (code < 0)
		return tell(&err);
	return close_stdout(code, &err);
}
