/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded loads: read once, before anything is started. */
#include "base/fs.h"
#include "trial/trial_parts.h"

#define TRACE_BYTES_MAX (1u << 30)

static int read_trace(struct trace *out, const struct trial *t, const struct plan_workload *wl,
                      struct err *err)
{
	auto_buf text = BUF_INIT(TRACE_BYTES_MAX);
	auto_free char *path = fs_join(t->plan_dir, wl->arrival.trace);
	if (!path)
		return err_set(err, ERR_ENV, "no memory");
	if (fs_read(&text, path, TRACE_BYTES_MAX, err) ||
	    trace_parse(out, text.p ? text.p : "", text.len, wl->arrival.trace, err))
		return err_wrap(err, "trace of workload %s", wl->name);
	return 0;
}

int read_traces(struct trial *t, struct err *err)
{
	const struct plan *p = t->spec->plan;
	t->traces = calloc(p->n_workloads + 1, sizeof(*t->traces));
	if (!t->traces)
		return err_set(err, ERR_ENV, "no memory");
	for (size_t i = 0; i < p->n_workloads; i++) {
		const struct plan_workload *wl = &p->workloads[i];
		if (wl->arrival.kind != ARRIVAL_TRACE || wl->cls == CLASS_TRAINING)
			continue;
		if (read_trace(&t->traces[i], t, wl, err))
			return -1;
		if (t->traces[i].sorted_by_us)
			ui_line(t, "%s: rows were not in order of time; they are replayed in it",
			        wl->arrival.trace);
	}
	return 0;
}

void free_traces(struct trial *t)
{
	for (size_t i = 0; t->traces && i < t->spec->plan->n_workloads; i++)
		trace_done(&t->traces[i]);
	free(t->traces);
	t->traces = NULL;
}
