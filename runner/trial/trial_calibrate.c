/* SPDX-License-Identifier: Apache-2.0 */
/* The instrument against a server whose times are known, on the CPUs of the run, once for each load. */
#include "base/clock.h"
#include "base/json_out.h"
#include "load/calibrate.h"
#include "trial/trial_parts.h"

#include <string.h>

#define TTFT_NS (50 * NS_PER_MS)
#define ITL_NS (20 * NS_PER_MS)
#define OUTPUT_TOK 32
#define DUES_MAX 200000

const char *load_name(const struct cell *cell)
{
	return strrchr(cell->id, '/') + 1;
}

static void write_event(struct trial *t, const char *load, const char *when, const struct calibration *c)
{
	struct json_out *o = rundir_event(t->dir, "calibration");
	jo_str(o, "load", load);
	jo_str(o, "when", when);
	jo_u64(o, "n_requests", c->n_requests);
	jo_u64(o, "n_failed", c->n_failed);
	jo_u64(o, "n_gaps", c->n_gaps);
	jo_opt_u64(o, "ttft_error_p50_ns", c->ttft_error_p50_ns);
	jo_opt_u64(o, "ttft_error_p99_ns", c->ttft_error_p99_ns);
	jo_opt_u64(o, "ttft_error_max_ns", c->ttft_error_max_ns);
	jo_opt_u64(o, "itl_error_p50_ns", c->itl_error_p50_ns);
	jo_opt_u64(o, "itl_error_p99_ns", c->itl_error_p99_ns);
	jo_opt_u64(o, "itl_error_max_ns", c->itl_error_max_ns);
	jo_opt_u64(o, "send_lag_p50_ns", c->send_lag_p50_ns);
	jo_opt_u64(o, "send_lag_p99_ns", c->send_lag_p99_ns);
	jo_opt_u64(o, "send_lag_max_ns", c->send_lag_max_ns);
	jo_opt_u64(o, "loop_lag_p99_ns", c->loop_lag_p99_ns);
	jo_u64(o, "client_cpu_ns", c->client_cpu_ns);
	jo_u64(o, "wall_ns", c->wall_ns);
	jo_u64(o, "n_tokens", c->n_tokens);
	jo_u64(o, "max_in_flight", c->max_in_flight);
	jo_opt_u64(o, "server_late_p99_ns", c->server_late_p99_ns);
	rundir_event_end(t->dir);
}

/* Due times of the cell's first requests; malloc'd. */
static int first_dues(uint64_t **out, size_t *n, const struct trial *t, const struct cell *cell,
                      uint64_t duration_ns, struct err *err)
{
	auto_sched s = NULL;
	struct sched_item i;
	size_t count = 0;
	if (sched_make(&s, cell, trace_of(t, cell), false, err))
		return -1;
	auto_free uint64_t *dues = calloc(DUES_MAX, sizeof(*dues));
	if (!dues)
		return err_set(err, ERR_ENV, "no memory");
	for (uint64_t k = 0; count < DUES_MAX && sched_item_at(s, k, &i); k++) {
		if (i.due_ns == REC_NONE)
			continue; /* waits for the turn before */
		if (i.due_ns > duration_ns && count)
			break;
		dues[count++] = i.due_ns;
	}
	*out = steal_ptr(&dues);
	*n = count;
	return 0;
}

static int calibrate_cell(struct calibration *out, const struct trial *t, const struct cell *cell,
                          struct err *err)
{
	const struct plan_instrument *in = &t->spec->plan->instrument;
	auto_free uint64_t *dues = NULL;
	struct calibration_spec s = {
		.arrival = cell->wl->arrival.kind,
		.concurrency = cell->concurrency,
		.duration_ns = ns_of_s(in->calibration_s),
		.body_bytes = cell_body_bytes(t->prompts, cell, trace_of(t, cell)),
		.ttft_ns = TTFT_NS,
		.itl_ns = ITL_NS,
		.output_tok = OUTPUT_TOK,
		.server_cpus = t->spec->cand->engine_cpus,
		.threads = (unsigned)in->client_threads,
		.busy_poll = in->busy_poll,
		.abort = t->spec->abort,
	};
	if (s.arrival != ARRIVAL_CLOSED && first_dues(&dues, &s.n_due, t, cell, s.duration_ns, err))
		return -1;
	s.due_ns = dues;
	return calibrate(out, &s, err);
}

static bool seen_before(const struct trial *t, size_t cell, bool ran_only)
{
	for (size_t i = 0; i < cell; i++)
		if (is_driven(&t->cells[i]) && (!ran_only || t->cell_ran[i]) &&
		    strcmp(load_name(&t->cells[i]), load_name(&t->cells[cell])) == 0)
			return true;
	return false;
}

void calibrate_loads(struct trial *t, const char *when)
{
	bool after = strcmp(when, "after") == 0;
	if (t->spec->plan->instrument.calibration_s <= 0)
		return;
	for (size_t i = 0; i < t->n_cells && !stopped(t); i++) {
		const struct cell *cell = &t->cells[i];
		struct calibration c;
		struct err why = { 0 };
		if (!is_driven(cell) || (after && !t->cell_ran[i]) || seen_before(t, i, after))
			continue;
		if (calibrate_cell(&c, t, cell, &why) == 0) {
			write_event(t, load_name(cell), when, &c);
			continue;
		}
		auto_free char *reason = str_fmt("%s, %s the load: %s", load_name(cell), when, why.msg);
		say_not_tested(t, "calibration", reason ? reason : why.msg);
	}
}
