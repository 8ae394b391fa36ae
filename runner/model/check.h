/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a control against what the plan expects of it, and against the surface rules of corruption.
 * Pure: the same answer gives the same result in the run, in the report and in a verification.
 *
 * Expectations are judged first to last and all of them count; the reason names the first that is not met.
 * "Unclear" is never a pass: the request failed, a count the server did not tell is asked for, a pattern ran
 * into its limits. An answer that equals `exact` is what was asked for, however it looks, so the surface
 * rules do not apply to it. Letters are expected in the scripts of the prompt, of `exact`, of the patterns in
 * must_match, and of the scripts that these name (\p{Han}). */
#ifndef MODEL_CHECK_H
#define MODEL_CHECK_H

#include "model/plan.h"
#include "model/record.h"
#include "model/surface.h"

#define CHECK_TEXT_MAX (4u << 20) /* bytes of an answer; a longer one is unclear */

enum check_state { CHECK_PASSED, CHECK_FAILED, CHECK_UNCLEAR };

struct check_answer {
	enum outcome outcome; /* of its request; other than ok = unclear */
	const char *text;     /* borrowed */
	size_t len;
	uint64_t output_tok;   /* REC_NONE = not told */
	const char *reference; /* text of the first repetition, NULL = this is the first */
	size_t reference_len;
};

struct check_result {
	enum check_state state;
	char reason[256];       /* one line, always set: "as expected", or what is not */
	struct surface surface; /* surface.marks: what was found, also when it did not decide */
};

struct check_result check_control(const struct plan_control *control, const struct check_answer *answer);

#endif
