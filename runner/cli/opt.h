/* SPDX-License-Identifier: Apache-2.0 */
/* One option table a command: parsing, usage, help, completion and the man page check read the same table. */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum opt_kind { OPT_FLAG, OPT_STR, OPT_MULTI /* may repeat */, OPT_U64, OPT_NUM, OPT_CHOICE };

struct opt {
	const char *name; /* "candidate", without dashes; NULL ends the table */
	char letter;      /* 'o', or 0 */
	enum opt_kind kind;
	const char *arg;          /* "NAME" in help; NULL for flags */
	const char *help;         /* one line, fits 80 columns together with the name */
	const char *const *words; /* OPT_CHOICE, NULL-ended */
};

struct opt_value {
	bool given;
	size_t n;             /* OPT_MULTI */
	const char *str;      /* last value */
	const char *list[32]; /* OPT_MULTI */
	unsigned long long u64;
	double num;
};

#define OPT_MAX 48
#define ARG_MAX_N 64
struct parsed {
	struct opt_value v[OPT_MAX]; /* by index of the table */
	size_t n_args;
	const char *args[ARG_MAX_N];
};

struct command {
	const char *name; /* "check" */
	const char *args; /* "PLAN" in usage; NULL = none */
	size_t min_args, max_args;
	const char *says;     /* one line, <= 60 columns */
	const char *examples; /* whole lines, shown first in help */
	const struct opt *opts;
	/* Returns the exit code. On an error of its own it fills err and returns -1; main prints "proofmark:
	 * …" and takes the code from the class. */
	int (*run)(const struct parsed *p, struct err *err);
};
extern const struct command *const commands[]; /* NULL-ended, order of `help` */

/* "--opt=value", "--opt value", "-o value", "--" ends, "-" is an argument. ERR_USAGE: one line with a near
 * match. */
warn_unused int opt_parse(struct parsed *out, const struct command *cmd, int argc, char **argv,
                          struct err *err);
void opt_help(FILE *f, const struct command *cmd);
int cli_main(int argc, char **argv);

/* The commands, one cmd_X.c each. */
extern const struct command cmd_init, cmd_check, cmd_lock, cmd_fit, cmd_run, cmd_load, cmd_seal, cmd_report,
	cmd_show, cmd_verify, cmd_key, cmd_completion, cmd_help, cmd_version;

#endif
