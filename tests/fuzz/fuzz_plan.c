/* SPDX-License-Identifier: Apache-2.0 */
/* plan_parse: any bytes. What is refused has at least one problem told; what is accepted can be laid out in
 * cells. */
#include "fuzz.h"
#include "model/cell.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_plan plan = NULL;
	auto_problems problems = { 0 };
	struct err err = { 0 };
	size_t n = 0;
	int rc = plan_parse(&plan, (const char *)data, size, "fuzz", &problems, &err);
	assert((rc == 0) == (plan != NULL));
	assert(rc == 0 || err.msg[0]);
	if (rc == 0) {
		assert(problems.n_errors == 0);
		struct cell *cells = cells_of_plan(plan, &n);
		assert(cells);
		free(cells);
	}
	return 0;
}
