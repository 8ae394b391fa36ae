/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts, printed from the option tables, so that they cannot fall behind. */
#include "cli/opt.h"

#include <string.h>

static const struct opt no_opts[] = { { 0 } };

static const struct opt *opts_of(const struct command *c)
{
	return c->opts ? c->opts : no_opts;
}

static void put_words(const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		printf("%s%s", i ? " " : "", words[i]);
}

static void put_command_names(void)
{
	for (size_t i = 0; commands[i]; i++)
		printf("%s%s", i ? " " : "", commands[i]->name);
}

/* Help text inside single quotes; `specials` get a backslash in front. */
static void put_quoted(const char *text, const char *specials)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			printf("%s%c", strchr(specials, *text) ? "\\" : "", *text);
	}
}

/* ---- bash --------------------------------------------------------------------------------------------- */

static void bash_values(const struct command *c)
{
	for (const struct opt *o = opts_of(c); o->name; o++) {
		if (o->kind == OPT_FLAG)
			continue;
		printf("\t%s:--%s", c->name, o->name);
		if (o->letter)
			printf(" | %s:-%c", c->name, o->letter);
		if (o->kind == OPT_CHOICE) {
			fputs(")\n\t\twords='", stdout);
			put_words(o->words);
			puts("' ;;");
		} else {
			puts(")\n\t\treturn ;;");
		}
	}
}

static void bash_names(const struct command *c)
{
	printf("\t%s) words='", c->name);
	for (const struct opt *o = opts_of(c); o->name; o++)
		printf("--%s ", o->name);
	puts("--help' ;;");
}

static void bash(void)
{
	puts("# bash completion for proofmark: . <(proofmark completion bash)\n"
	     "_proofmark() {\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
	     "\tCOMPREPLY=()\n"
	     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then");
	fputs("\t\tmapfile -t COMPREPLY < <(compgen -W '", stdout);
	put_command_names();
	puts("' -- \"$cur\")\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tif [ \"$cur\" = '=' ]; then\n"
	     "\t\tcur=\n"
	     "\telif [ \"$prev\" = '=' ]; then\n"
	     "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	     "\tfi\n"
	     "\tcase ${COMP_WORDS[1]}:$prev in");
	for (size_t i = 0; commands[i]; i++)
		bash_values(commands[i]);
	fputs("\thelp:help)\n\t\twords='", stdout);
	put_command_names();
	puts("' ;;\n\tcompletion:completion)\n\t\twords='bash zsh fish' ;;\n\tesac");
	puts("\tif [ -z \"$words\" ] && [ \"${cur#-}\" != \"$cur\" ]; then\n\t\tcase ${COMP_WORDS[1]} in");
	for (size_t i = 0; commands[i]; i++) {
		putchar('\t');
		bash_names(commands[i]);
	}
	puts("\t\tesac\n"
	     "\tfi\n"
	     "\t[ -z \"$words\" ] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	     "}\n"
	     "complete -o default -F _proofmark proofmark");
}

/* ---- zsh ---------------------------------------------------------------------------------------------- */

static void zsh_option(const struct opt *o)
{
	printf(" \\\n\t\t\t'%s--%s%s[", o->kind == OPT_MULTI ? "*" : "", o->name,
	       o->kind == OPT_FLAG ? "" : "=");
	put_quoted(o->help, "[]:\\");
	putchar(']');
	if (o->kind == OPT_CHOICE) {
		fputs(":value:(", stdout);
		put_words(o->words);
		putchar(')');
	} else if (o->kind != OPT_FLAG) {
		putchar(':');
		put_quoted(o->arg, ":\\");
		fputs(":_files", stdout);
	}
	putchar('\'');
}

static void zsh_command(const struct command *c)
{
	printf("\t%s)\n\t\t_arguments '--help[show help]'", c->name);
	for (const struct opt *o = opts_of(c); o->name; o++)
		zsh_option(o);
	if (c == &cmd_help) {
		fputs(" '*:command:(", stdout);
		put_command_names();
		puts(")' ;;");
	} else if (c == &cmd_completion) {
		puts(" '*:shell:(bash zsh fish)' ;;");
	} else {
		puts(" '*:file:_files' ;;");
	}
}

static void zsh(void)
{
	puts("#compdef proofmark\n"
	     "# zsh completion for proofmark: put it as _proofmark into a folder of $fpath\n"
	     "_proofmark() {\n"
	     "\tlocal -a names\n"
	     "\tnames=(");
	for (size_t i = 0; commands[i]; i++) {
		printf("\t\t'%s:", commands[i]->name);
		put_quoted(commands[i]->says, ":\\");
		puts("'");
	}
	puts("\t)\n"
	     "\tif (( CURRENT == 2 )); then\n"
	     "\t\t_describe command names\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tlocal name=$words[2]\n"
	     "\tshift words\n"
	     "\t(( CURRENT-- ))\n"
	     "\tcase $name in");
	for (size_t i = 0; commands[i]; i++)
		zsh_command(commands[i]);
	puts("\tesac\n"
	     "}\n"
	     "if [ \"$funcstack[1]\" = _proofmark ]; then\n"
	     "\t_proofmark \"$@\"\n"
	     "else\n"
	     "\tcompdef _proofmark proofmark\n"
	     "fi");
}

/* ---- fish --------------------------------------------------------------------------------------------- */

static void fish_option(const struct command *c, const struct opt *o)
{
	printf("complete -c proofmark -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (o->kind == OPT_CHOICE) {
		fputs(" -x -a '", stdout);
		put_words(o->words);
		putchar('\'');
	} else if (o->kind != OPT_FLAG) {
		fputs(" -r -F", stdout);
	}
	fputs(" -d '", stdout);
	put_quoted(o->help, "");
	puts("'");
}

static void fish(void)
{
	puts("# fish completion for proofmark: proofmark completion fish | source");
	for (size_t i = 0; commands[i]; i++) {
		printf("complete -c proofmark -n __fish_use_subcommand -f -a %s -d '", commands[i]->name);
		put_quoted(commands[i]->says, "");
		puts("'");
	}
	fputs("complete -c proofmark -n '__fish_seen_subcommand_from help' -f -a '", stdout);
	put_command_names();
	puts("'\ncomplete -c proofmark -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'");
	for (size_t i = 0; commands[i]; i++)
		for (const struct opt *o = opts_of(commands[i]); o->name; o++)
			fish_option(commands[i], o);
}

static int run(const struct parsed *p, struct err *err)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (!strcmp(p->args[0], shells[i].name)) {
			shells[i].print();
			return 0;
		}
	return err_set(err, ERR_USAGE, "completion: want bash, zsh or fish, got \"%s\"", p->args[0]);
}

const struct command cmd_completion = {
	.name = "completion",
	.args = "bash|zsh|fish",
	.min_args = 1,
	.max_args = 1,
	.says = "print a completion script for a shell",
	.examples = ". <(proofmark completion bash)\nproofmark completion fish | source\n",
	.run = run,
};
