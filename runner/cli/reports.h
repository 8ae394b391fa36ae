/* SPDX-License-Identifier: Apache-2.0 */
/* From a run directory to its reports and its sealed bundle: what run, report and seal share. */
#ifndef CLI_REPORTS_H
#define CLI_REPORTS_H

#include "model/verdict.h"
#include "store/sign.h"
#include "trial/trial.h"

struct judged { /* a run directory, read and judged */
	struct member_set members;
	struct evidence ev;
	struct verdict verdict;
};
warn_unused int judged_load(struct judged *out, const char *run_dir, struct err *err);
void judged_done(struct judged *j);
/* Writes verdict.json, report.html, junit.xml, summary.txt into the folder. */
warn_unused int reports_write(const struct judged *j, const char *run_dir, struct err *err);
/* One signed file. */
warn_unused int seal_run(const struct judged *j, const char *run_dir, const char *out_path,
                         const struct sign_key *key, char evidence_root[65], struct err *err);
/* Passphrase: the first line of `file`, else PROOFMARK_KEY_PASSPHRASE, else NULL. malloc'd. */
warn_unused int passphrase_read(char **out, const char *file, struct err *err);
/* {"verdict","bundle","run_dir","criteria":[…]} on stdout. */
void print_result_json(const struct verdict *v, const char *run_dir, const char *bundle);

#endif
