/* SPDX-License-Identifier: Apache-2.0 */
/* golden make NAME DIR   writes the evidence of one made run into DIR
 * golden judge DIR OUT   judges the run directory DIR and writes every report into OUT */
#include "base/fs.h"
#include "made_run.h"
#include "model/verdict.h"
#include "report/report.h"
#include "store/rundir.h"

#define MORE(id, metric, statistic, cmp, value, unit, where)                                                 \
	", {\"id\": \"" id "\", \"sentence\": \"" id " as planned\", \"metric\": \"" metric                  \
	"\", \"statistic\": \"" statistic "\", \"comparator\": \"" cmp "\", \"limit\": {\"value\": " value   \
	", \"unit\": \"" unit "\"}" where ", \"severity\": \"should\"}"
#define IN_TALK ", \"where\": {\"workload\": \"talk\"}"
#define IN_OPEN ", \"where\": {\"workload\": \"open\", \"rate_rps\": 4}"

static const struct made_run golden = {
	.requests = 60,
	.n = 60,
	.n_slow = 2,
	.n_bad = 1,
	.bad = OUTCOME_STALLED,
	.label = "made by hand",
	.more = true,
	.with = { .deaf = true, .repeats = true, .cut = true },
	.about_extra = ", \"valid_from\": \"2026-01-01\", \"valid_until\": \"2026-12-31\"",
	.criteria =
		"{\"id\": \"ttft-p90\", \"sentence\": \"Nine of ten first tokens come within 250 ms\", "
		"\"metric\": "
		"\"ttft\", \"statistic\": \"p90\", \"comparator\": \"<=\", \"limit\": {\"value\": 250, "
		"\"unit\": \"ms\"}}, "
		"{\"id\": \"ttft-p95\", \"sentence\": \"19 of 20 first tokens come within 120 ms\", "
		"\"metric\": \"ttft\", "
		"\"statistic\": \"p95\", \"comparator\": \"<=\", \"limit\": {\"value\": 120, \"unit\": "
		"\"ms\"}}, "
		"{\"id\": \"gaps\", \"sentence\": \"Half of the gaps are below 20 ms\", \"metric\": \"itl\", "
		"\"statistic\": "
		"\"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 20, \"unit\": \"ms\"}}, "
		"{\"id\": \"failed\", \"sentence\": \"At most one request of ten fails\", \"metric\": "
		"\"failed_share\", "
		"\"statistic\": \"share\", \"comparator\": \"<=\", \"limit\": {\"value\": 10, \"unit\": "
		"\"%\"}}, "
		"{\"id\": \"controls\", \"sentence\": \"No control answer is wrong\", \"metric\": "
		"\"controls_failed\", "
		"\"statistic\": \"count\", \"comparator\": \"<=\", \"limit\": {\"value\": 0, \"unit\": "
		"\"count\"}}, "
		"{\"id\": \"memory\", \"sentence\": \"The engine stays below 2 GB\", \"metric\": "
		"\"engine_pss_peak\", "
		"\"statistic\": \"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 2, \"unit\": "
		"\"GB\"}}, "
		"{\"id\": \"again\", \"sentence\": \"The second cold start takes at most 5 s\", \"metric\": "
		"\"second_cold_start\", \"statistic\": \"value\", \"comparator\": \"<=\", \"limit\": "
		"{\"value\": 5, "
		"\"unit\": \"s\"}}, "
		"{\"id\": \"power\", \"sentence\": \"The devices draw at most 300 W\", \"metric\": "
		"\"device_power_mean\", "
		"\"statistic\": \"mean\", \"comparator\": \"<=\", \"limit\": {\"value\": 300, \"unit\": "
		"\"W\"}, "
		"\"severity\": \"info\"}"
	/* clang-format off */
		MORE("canaries", "canary_failed_share", "share", "<=", "20", "%", IN_TALK)
		MORE("no-leak", "foreign_nonces", "count", "<=", "0", "count", "")
		MORE("clean-text", "suspicious_answer_share", "share", "<=", "10", "%", IN_TALK)
		MORE("retries", "retried_share", "share", "<=", "10", "%", IN_TALK)
		MORE("talk-failed", "failed_share", "share", "<=", "10", "%", IN_TALK)
		MORE("talk-ttft", "ttft", "p90", "<=", "300", "ms", IN_TALK)
		MORE("talk-load", "delivered_share", "value", ">=", "0.99", "share", IN_TALK)
		MORE("talk-cache", "prefix_cache_hit_share", "share", ">=", "50", "%", IN_TALK)
		MORE("open-spacing", "spacing_error", "p90", "<=", "1", "ms", IN_OPEN)
		MORE("open-e2e", "e2e", "p90", "<=", "400", "ms", IN_OPEN),
	/* clang-format on */
	.plan_extra =
		", \"waivers\": [{\"criterion\": \"ttft-p95\", \"reason\": \"known until the next driver\", "
		"\"owner\": \"buyer\", \"expires\": \"2026-06-30\"}]",
};

/* An answer that holds another request's nonce: rejected, whatever the criteria say. */
static const struct made_run leak = {
	.requests = 60,
	.n = 60,
	.more = true,
	.with = { .leak = true },
	.criteria = "{\"id\": \"ttft-p90\", \"sentence\": \"Nine of ten first tokens come within 250 ms\", "
		    "\"metric\": \"ttft\", \"statistic\": \"p90\", \"comparator\": \"<=\", \"limit\": "
		    "{\"value\": 250, \"unit\": \"ms\"}}",
};

static int make(const char *name, const char *dir, struct err *err)
{
	struct maker m;
	int rc = fs_mkdir_p(dir, err);
	make_run(&m, strcmp(name, "leak") == 0 ? &leak : &golden);
	for (int f = 0; f < MF_N && !rc; f++) {
		auto_free char *path = fs_join(dir, maker_names[f]);
		rc = fs_write(path, m.file[f].p, m.file[f].len, err);
	}
	maker_done(&m);
	return rc;
}

static int write_reports(const struct verdict *v, const char *out, struct err *err)
{
	int rc = fs_mkdir_p(out, err);
	for (const struct report_kind *k = report_kinds; k->file && !rc; k++) {
		auto_buf text = BUF_INIT(64u << 20);
		auto_free char *path = fs_join(out, k->file);
		if (k->render(&text, v))
			return err_set(err, ERR_BUG, "%s cannot be rendered", k->file);
		rc = fs_write(path, text.p, text.len, err);
	}
	return rc;
}

static int judge(const char *dir, const char *out, struct err *err)
{
	struct member_set set = { 0 };
	struct evidence ev;
	struct verdict v;
	if (rundir_load(&set, dir, err))
		return -1;
	int rc = evidence_load(&ev, &set, err);
	if (!rc) {
		rc = verdict_compute(&v, &ev, err);
		if (!rc) {
			rc = write_reports(&v, out, err);
			verdict_done(&v);
		}
		evidence_done(&ev);
	}
	member_set_done(&set);
	return rc;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	int rc = argc == 4 && strcmp(argv[1], "make") == 0 ? make(argv[2], argv[3], &err)
	         : argc == 4 && strcmp(argv[1], "judge") == 0
	                 ? judge(argv[2], argv[3], &err)
	                 : err_set(&err, ERR_USAGE, "make NAME DIR | judge DIR OUT");
	if (rc)
		fprintf(stderr, "golden: %s\n", err.msg);
	return rc ? err_exit_code(err.cls) : 0;
}
