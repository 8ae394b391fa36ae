/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation of a proven bundle: every figure and every verdict anew from the raw members, then the
 * comparison with what the bundle states. */
#ifndef CLI_RECHECK_H
#define CLI_RECHECK_H

#include "cli/reports.h"
#include "store/bundle.h"

struct recheck {
	struct judged judged; /* `members` is borrowed from the bundle */
	size_t n_compared;    /* values of verdict.json that agree */
	bool verdict_bytes_equal;
	size_t n_derived_equal;
	char not_checked[512]; /* what another version rendered: sentences, derived members; "" = none */
};

/* -1: ERR_NOT_GENUINE with the first difference, ERR_RECOMPUTE when this program cannot recompute it. */
warn_unused int recheck_bundle(struct recheck *out, const struct bundle *b, const struct bundle_proof *proof,
                               struct err *err);
void recheck_done(struct recheck *r);

/* Two JSON values: integers exactly, other numbers to 1e-8 relative, texts and structure exactly. Counts
 * equal leaves into *n. False: `where` names the first difference. `sentences` false: members of verdict.json
 * that hold sentences, which each version words for itself, are left out (of lists of them it still counts
 * whether they are empty). */
bool json_same(const struct cJSON *stated, const struct cJSON *found, bool sentences, size_t *n,
               char where[300]);

#endif
