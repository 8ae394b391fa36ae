/* SPDX-License-Identifier: Apache-2.0 */
/* A trace: what is accepted is in order, within its bounds, and gives a schedule. */
#include "fuzz.h"
#include "model/schedule.h"

#include <assert.h>

static void try_schedule(const struct trace *t)
{
	struct plan_workload wl = { .arrival = { .kind = ARRIVAL_TRACE, .speed = 3 }, .warmup_requests = 2 };
	struct cell cell = { .wl = &wl, .id = "fuzz" };
	struct err err = { 0 };
	struct sched_item i;
	auto_sched s = NULL;
	if (sched_make(&s, &cell, t, false, &err))
		return;
	assert(sched_count(s) == t->n && sched_item_at(s, t->n - 1, &i) && !sched_item_at(s, t->n, &i));
}

static void check_rows(const struct trace *t)
{
	assert(t->n > 0 && t->n <= TRACE_ROWS_MAX && t->n_hashes <= TRACE_HASHES_MAX);
	assert(t->rows[0].at_ns == 0);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_row *r = &t->rows[i];
		assert(i == 0 || r->at_ns >= t->rows[i - 1].at_ns);
		assert(r->prompt_tok >= 1 && r->prompt_tok <= TRACE_TOK_MAX);
		assert(r->output_tok >= 1 && r->output_tok <= TRACE_TOK_MAX);
		assert(r->hash_at + r->n_hash <= t->n_hashes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_trace t = { 0 };
	struct err err = { 0 };
	if (trace_parse(&t, (const char *)data, size, "fuzz", &err)) {
		assert(err.cls == ERR_PLAN && err.msg[0]);
		return 0;
	}
	check_rows(&t);
	try_schedule(&t);
	return 0;
}
