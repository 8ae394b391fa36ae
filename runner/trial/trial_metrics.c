/* SPDX-License-Identifier: Apache-2.0 */
/* engine_metrics.jsonl: the engine's own page of metrics around the load of each cell. What is not there
 * leaves a line that says so; it never fails a run. */
#include "base/clock.h"
#include "base/json_out.h"
#include "trial/trial_parts.h"

#define PAGE_BYTES_MAX (4u << 20)
#define LINE_BYTES_MAX ((16u << 20) - 1) /* what a reader takes */
#define DEADLINE_NS (5 * NS_PER_S)

/* `page` NULL = none; then `status` is what it was, 0 = no answer. */
static int write_page(struct trial *t, const struct cell *cell, const char *when, uint64_t t_ns, int status,
                      const struct buf *page)
{
	auto_buf line = BUF_INIT(LINE_BYTES_MAX);
	struct json_out o;
	jo_init(&o, &line, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "t_ns", t_ns);
	jo_str(&o, "cell", cell->id);
	jo_str(&o, "when", when);
	if (status)
		jo_u64(&o, "status", (uint64_t)status);
	else
		jo_null(&o, "status");
	if (page)
		jo_strn(&o, "page", page->p, page->len);
	else
		jo_null(&o, "page");
	jo_end(&o);
	return line.failed ? -1 : rundir_line(t->dir, "engine_metrics.jsonl", line.p, line.len);
}

void keep_engine_metrics(struct trial *t, const struct cell *cell, const char *when)
{
	const char *path = t->ops->metrics_path;
	auto_buf page = BUF_INIT(PAGE_BYTES_MAX);
	struct err ignored = { 0 };
	int status = 0;
	if (!path || !t->engine)
		return;
	uint64_t now_ns = clock_now_ns();
	if (http_call(engine_http(t->engine), path, NULL, now_ns + DEADLINE_NS, PAGE_BYTES_MAX, &status,
	              &page, &ignored))
		status = 0;
	bool there = status == 200 && page.p && !page.failed;
	if (there)
		engine_text_blank(page.p, t->engine);
	else if (status == 200)
		status = 0; /* it answered with nothing */
	if (write_page(t, cell, when, now_ns - t->origin_ns, status, there ? &page : NULL) && there)
		(void)write_page(t, cell, when, now_ns - t->origin_ns, 0, NULL); /* too long as JSON */
}
