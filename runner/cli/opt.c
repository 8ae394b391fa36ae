/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"

#include "base/json_in.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ------------------------------------------------------------------------------------------ */

struct words {
	size_t i;
	size_t n;
	char **v;
};

static int refuse_name(const struct command *cmd, const char *got, struct err *err)
{
	const char *names[OPT_MAX + 2];
	size_t n = 0;
	for (const struct opt *o = cmd->opts; o && o->name && n < OPT_MAX; o++)
		names[n++] = o->name;
	names[n++] = "help";
	names[n] = NULL;
	const char *near = near_match(got, names);
	if (near)
		return err_set(err, ERR_USAGE, "%s: no option --%s; did you mean --%s?", cmd->name, got,
		               near);
	return err_set(err, ERR_USAGE, "%s: no option --%s; see `proofmark help %s`", cmd->name, got,
	               cmd->name);
}

/* NULL with *err filled when there is none. */
static const struct opt *find_long(const struct command *cmd, const char *name, size_t len, struct err *err)
{
	char got[64];
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	snprintf(got, sizeof(got), "%.*s", len < sizeof(got) ? (int)len : (int)sizeof(got) - 1, name);
	refuse_name(cmd, got, err);
	return NULL;
}

static const struct opt *find_letter(const struct command *cmd, char letter, struct err *err)
{
	for (const struct opt *o = cmd->opts; o && o->name; o++)
		if (o->letter == letter)
			return o;
	err_set(err, ERR_USAGE, "%s: no option -%c; see `proofmark help %s`", cmd->name, letter, cmd->name);
	return NULL;
}

static int set_u64(struct opt_value *v, const struct command *cmd, const struct opt *o, const char *text,
                   struct err *err)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return err_set(err, ERR_USAGE, "%s: --%s: want a whole number from 0, got \"%s\"", cmd->name,
		               o->name, text);
	v->u64 = n;
	return 0;
}

static int set_num(struct opt_value *v, const struct command *cmd, const struct opt *o, const char *text,
                   struct err *err)
{
	char *end;
	errno = 0;
	double n = strtod(text, &end);
	if (end == text || *end || errno || !isfinite(n) || strpbrk(text, " \txX"))
		return err_set(err, ERR_USAGE, "%s: --%s: want a number, got \"%s\"", cmd->name, o->name,
		               text);
	v->num = n;
	return 0;
}

static int check_choice(const struct command *cmd, const struct opt *o, const char *text, struct err *err)
{
	char all[256] = "";
	for (size_t i = 0; o->words[i]; i++) {
		if (!strcmp(o->words[i], text))
			return 0;
		size_t len = strlen(all);
		snprintf(all + len, sizeof(all) - len, "%s%s", i ? ", " : "", o->words[i]);
	}
	const char *near = near_match(text, o->words);
	if (near)
		return err_set(err, ERR_USAGE, "%s: --%s: want one of %s, got \"%s\"; did you mean %s?",
		               cmd->name, o->name, all, text, near);
	return err_set(err, ERR_USAGE, "%s: --%s: want one of %s, got \"%s\"", cmd->name, o->name, all, text);
}

static int add_multi(struct opt_value *v, const struct command *cmd, const struct opt *o, const char *text,
                     struct err *err)
{
	if (v->n == ARRAY_LEN(v->list))
		return err_set(err, ERR_USAGE, "%s: --%s: given more than %zu times", cmd->name, o->name,
		               ARRAY_LEN(v->list));
	v->list[v->n++] = text;
	return 0;
}

static int set_value(struct opt_value *v, const struct command *cmd, const struct opt *o, const char *text,
                     struct err *err)
{
	int rc = 0;
	switch (o->kind) {
	case OPT_FLAG:
	case OPT_STR:
		break;
	case OPT_MULTI:
		rc = add_multi(v, cmd, o, text, err);
		break;
	case OPT_U64:
		rc = set_u64(v, cmd, o, text, err);
		break;
	case OPT_NUM:
		rc = set_num(v, cmd, o, text, err);
		break;
	case OPT_CHOICE:
		rc = check_choice(cmd, o, text, err);
		break;
	}
	if (rc)
		return -1;
	v->given = true;
	v->str = text;
	return 0;
}

/* The value behind an option: its own part of the word, else the next word. A word that starts with "--" is
 * the next option and not a value; who means it writes --opt=--value. */
static const char *take_value(struct words *w, const char *inside)
{
	if (inside)
		return inside;
	if (w->i + 1 < w->n && strncmp(w->v[w->i + 1], "--", 2))
		return w->v[++w->i];
	return NULL;
}

static int take_option(struct parsed *p, const struct command *cmd, const struct opt *o, struct words *w,
                       const char *inside, struct err *err)
{
	struct opt_value *v = &p->v[o - cmd->opts];
	if (o->kind == OPT_FLAG) {
		if (inside)
			return err_set(err, ERR_USAGE, "%s: --%s takes no value", cmd->name, o->name);
		return set_value(v, cmd, o, NULL, err);
	}
	const char *value = take_value(w, inside);
	if (!value)
		return err_set(err, ERR_USAGE, "%s: --%s: want a value: --%s=%s", cmd->name, o->name, o->name,
		               o->arg);
	return set_value(v, cmd, o, value, err);
}

static int take_long(struct parsed *p, const struct command *cmd, struct words *w, struct err *err)
{
	const char *name = w->v[w->i] + 2, *eq = strchr(name, '=');
	const struct opt *o = find_long(cmd, name, eq ? (size_t)(eq - name) : strlen(name), err);
	return o ? take_option(p, cmd, o, w, eq ? eq + 1 : NULL, err) : -1;
}

/* "-o DIR" and "-oDIR"; letters without a value may stand together: "-qv". */
static int take_short(struct parsed *p, const struct command *cmd, struct words *w, struct err *err)
{
	for (const char *c = w->v[w->i] + 1; *c; c++) {
		const struct opt *o = find_letter(cmd, *c, err);
		if (!o)
			return -1;
		if (o->kind != OPT_FLAG)
			return take_option(p, cmd, o, w, c[1] ? c + 1 : NULL, err);
		if (take_option(p, cmd, o, w, NULL, err))
			return -1;
	}
	return 0;
}

static int take_arg(struct parsed *p, const struct command *cmd, const char *word, struct err *err)
{
	size_t max = cmd->max_args < ARG_MAX_N ? cmd->max_args : ARG_MAX_N;
	if (p->n_args == max)
		return err_set(err, ERR_USAGE, "%s: too many arguments: \"%s\"; usage: proofmark %s%s%s",
		               cmd->name, word, cmd->name, cmd->args ? " " : "", cmd->args ? cmd->args : "");
	p->args[p->n_args++] = word;
	return 0;
}

int opt_parse(struct parsed *out, const struct command *cmd, int argc, char **argv, struct err *err)
{
	struct parsed p = { 0 };
	struct words w = { .n = argc > 0 ? (size_t)argc : 0, .v = argv };
	bool options = true;
	for (; w.i < w.n; w.i++) {
		const char *word = w.v[w.i];
		int rc;
		if (options && !strcmp(word, "--")) {
			options = false;
			continue;
		}
		if (options && !strncmp(word, "--", 2))
			rc = take_long(&p, cmd, &w, err);
		else if (options && word[0] == '-' && word[1])
			rc = take_short(&p, cmd, &w, err);
		else
			rc = take_arg(&p, cmd, word, err);
		if (rc)
			return -1;
	}
	if (p.n_args < cmd->min_args)
		return err_set(err, ERR_USAGE, "%s: want %s; see `proofmark help %s`", cmd->name, cmd->args,
		               cmd->name);
	*out = p;
	return 0;
}

/* ---- help --------------------------------------------------------------------------------------------- */

#define HELP_COLUMNS 80
#define NAME_COLUMNS 28

/* Words of `text` from column `at` on; continued lines start at `indent`. */
static void put_wrapped(FILE *f, const char *text, size_t at, size_t indent)
{
	size_t column = at;
	bool first = true;
	while (*text) {
		size_t len = strcspn(text, " ");
		if (!first && column + 1 + len > HELP_COLUMNS) {
			fprintf(f, "\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		fprintf(f, "%s%.*s", first ? "" : " ", (int)len, text);
		column += len + (first ? 0 : 1);
		first = false;
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

static void put_words(FILE *f, const char *const *words)
{
	char all[512] = "one of:";
	for (size_t i = 0; words[i]; i++) {
		size_t len = strlen(all);
		snprintf(all + len, sizeof(all) - len, " %s", words[i]);
	}
	fprintf(f, "%*s", NAME_COLUMNS, "");
	put_wrapped(f, all, NAME_COLUMNS, NAME_COLUMNS);
}

static void put_option(FILE *f, char letter, const char *name, const char *arg, const char *help)
{
	char head[128], dash[8] = "    ";
	if (letter)
		snprintf(dash, sizeof(dash), "-%c, ", letter);
	int len = snprintf(head, sizeof(head), "  %s--%s%s%s", dash, name, arg ? " " : "", arg ? arg : "");
	fputs(head, f);
	if (len + 2 > NAME_COLUMNS)
		fprintf(f, "\n%*s", NAME_COLUMNS, "");
	else
		fprintf(f, "%*s", NAME_COLUMNS - len, "");
	put_wrapped(f, help, NAME_COLUMNS, NAME_COLUMNS);
}

static void put_examples(FILE *f, const char *text)
{
	if (!text)
		return;
	fputs("Examples:\n", f);
	while (*text) {
		text += strspn(text, " ");
		size_t len = strcspn(text, "\n");
		fprintf(f, "  %.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
	fputc('\n', f);
}

void opt_help(FILE *f, const struct command *cmd)
{
	bool any = cmd->opts && cmd->opts[0].name;
	put_examples(f, cmd->examples);
	fprintf(f, "Usage: proofmark %s%s%s%s\n\n", cmd->name, any ? " [options]" : "", cmd->args ? " " : "",
	        cmd->args ? cmd->args : "");
	fprintf(f, "%c%s.\n", toupper((unsigned char)cmd->says[0]), cmd->says + 1);
	fputs("\nOptions:\n", f);
	for (const struct opt *o = cmd->opts; o && o->name; o++) {
		put_option(f, o->letter, o->name, o->kind == OPT_FLAG ? NULL : o->arg, o->help);
		if (o->kind == OPT_CHOICE)
			put_words(f, o->words);
	}
	put_option(f, 'h', "help", NULL, "show this and exit");
}
