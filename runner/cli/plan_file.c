/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_file.h"

#include "base/fs.h"

#include <stdio.h>
#include <string.h>

void problems_print(const struct problems *p, const char *file)
{
	static const char *const marks[] = { "", "warning: " };
	for (int kind = PROBLEM_ERROR; kind <= PROBLEM_WARNING; kind++)
		for (size_t i = 0; i < p->n; i++)
			if ((int)p->list[i].kind == kind)
				fprintf(stderr, "%s: %s: %s%s\n", file,
				        p->list[i].pointer[0] ? p->list[i].pointer : "/", marks[kind],
				        p->list[i].text);
	if (p->n_errors + p->n_warnings > p->n)
		fprintf(stderr, "%s: … and %zu more\n", file, p->n_errors + p->n_warnings - p->n);
}

int plan_file_load(struct plan **out, struct buf *text, const char *path, struct err *err)
{
	auto_problems problems = { 0 };
	if (fs_read(text, path, PLAN_BYTES_MAX, err)) {
		err->cls = ERR_PLAN;
		return -1;
	}
	int rc = plan_parse(out, text->p, text->len, path, &problems, err);
	problems_print(&problems, path);
	return rc;
}

char *plan_sibling(const char *plan_path, const char *ending)
{
	size_t len = strlen(plan_path);
	if (len > 5 && strcmp(plan_path + len - 5, ".json") == 0)
		len -= 5;
	return str_fmt("%.*s%s", (int)len, plan_path, ending);
}

int lock_file_load(struct lock *out, struct buf *text, const char *path, struct err *err)
{
	if (fs_read(text, path, LOCK_BYTES_MAX, err)) {
		err->cls = ERR_PLAN;
		return err_wrap(err, "no lock to run by (write one with 'proofmark lock')");
	}
	return lock_read(out, text->p, text->len, path, err);
}

int candidate_choose(const struct plan_candidate **out, const struct plan *p, const char *name,
                     struct err *err)
{
	auto_buf names = BUF_INIT(1024);
	for (size_t i = 0; i < p->n_candidates; i++)
		buf_addf(&names, "%s%s", i ? ", " : "", p->candidates[i].name);
	const struct plan_candidate *c = name                   ? plan_candidate_find(p, name)
	                                 : p->n_candidates == 1 ? p->candidates
	                                                        : NULL;
	if (!c)
		return name ? err_set(err, ERR_USAGE, "--candidate %s: the plan has %s", name,
		                      names.p ? names.p : "none")
		            : err_set(err, ERR_USAGE,
		                      "one candidate a run: choose with --candidate; the plan has %s",
		                      names.p ? names.p : "none");
	*out = c;
	return 0;
}
