/* SPDX-License-Identifier: Apache-2.0 */
/* Text from an engine: an answer before the checks of a control, and a metrics page. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "model/check.h"
#include "model/prom.h"

#include <assert.h>
#include <string.h>

static void judge(const char *text, size_t len)
{
	char *must[] = { (char[]){ "(?i)paris" } }, *must_not[] = { (char[]){ "^(\\w+\\s?)+$" } };
	const struct plan_control c = { .prompt = (char[]){ "What is the capital of France?" },
		                        .n_must_match = 1,
		                        .must_match = must,
		                        .n_must_not_match = 1,
		                        .must_not_match = must_not,
		                        .json = len % 2,
		                        .min_tok = -1,
		                        .answer_max_tok = -1 };
	const struct check_answer a = {
		.outcome = OUTCOME_OK, .text = text, .len = len, .output_tok = REC_NONE
	};
	struct check_result r = check_control(&c, &a);
	assert(r.reason[0] && !strchr(r.reason, '\n'));
	assert(r.state != CHECK_PASSED || !r.surface.marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct prom_page page;
	struct prom_histogram h;
	auto_free char *text = malloc(size + 1);
	if (!text || size > 1u << 16)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	judge(text, size);
	prom_read(&page, text, size);
	if (page.n && prom_histogram(&page, page.list[0].name, &h))
		free(h.buckets);
	if (prom_histogram(&page, "h", &h)) {
		double low, high;
		if (prom_quantile_range(&h, 99, 100, &low, &high))
			assert(high >= low);
		free(h.buckets);
	}
	prom_done(&page);
	return 0;
}
