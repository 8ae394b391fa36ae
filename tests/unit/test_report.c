// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include "base/cleanup.h"
#include "model/surface.h"
#include "report/format.h"
#include "report/svg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HTML_MAX (8u << 20)
#define N_CRITERIA 9
#define UNLIKELY "\"'><script>alert(1)</script>&amp; ]]> <!-- \x01\x7f\xff \xe2\x80\xae \xef\xbf\xbe"

/* --- a verdict made by hand ------------------------------------------------------------------------------
 */

struct made {
	struct plan plan;
	struct plan_workload wl[2];
	struct plan_candidate cand;
	struct plan_criterion crit[N_CRITERIA];
	struct plan_waiver waiver;
	struct plan_control control;
	struct cell cells[3];
	struct ev_cell_state cell_states[3];
	struct ev_phase phases[2];
	struct ev_start starts[2];
	struct ev_reading *readings;
	struct record *records;
	char *lists[1];
	struct evidence ev;
	struct crit_result results[N_CRITERIA];
	struct cell_result cell_results[3];
	struct control_result control_results[1];
	struct memory_result memory[2];
	uint64_t *sorted;
	struct verdict v;
};

static const enum crit_state states[N_CRITERIA] = {
	STATE_PASS,    STATE_FAIL,       STATE_INCONCLUSIVE,   STATE_INVALID, STATE_ERROR,
	STATE_BLOCKED, STATE_NOT_TESTED, STATE_NOT_APPLICABLE, STATE_FAIL
};
static const char *const ids[N_CRITERIA] = { "pass",    "fail",       "open",  "invalid", "error",
	                                     "blocked", "not-tested", "not-a", "waived" };

static void make_criteria(struct made *m, char *text)
{
	for (size_t i = 0; i < N_CRITERIA; i++) {
		char id[16];
		snprintf(id, sizeof id, "%s", ids[i]);
		m->crit[i] =
			(struct plan_criterion){ .id = strdup(id),
			                         .sentence = text ? text : strdup("Sentence of a criterion"),
			                         .metric = strdup("ttft"),
			                         .statistic = strdup("p90"),
			                         .cmp = CMP_LE,
			                         .limit = 250,
			                         .limit_unit = strdup("ms"),
			                         .confidence = .95 };
		struct crit_result *r = &m->results[i];
		*r = (struct crit_result){ .crit = &m->crit[i],
			                   .metric = metric_find("ttft"),
			                   .state = states[i],
			                   .value = { true, 123, "ms" },
			                   .bound = { true, 140, "ms" },
			                   .worst = { true, 400, "ms" },
			                   .limit = { true, 250, "ms" },
			                   .n = 120,
			                   .t = 3,
			                   .n_more = states[i] == STATE_INCONCLUSIVE ? 49 : 0,
			                   .rule = "exact binomial, one-sided",
			                   .p_pass = .01,
			                   .p_fail = .9 };
		snprintf(r->reason, sizeof r->reason, "%s", text ? text : "the reason");
		snprintf(r->where, sizeof r->where, "%s", m->cells[0].id);
	}
	m->results[N_CRITERIA - 1].waiver = &m->waiver;
}

static void make_values(struct made *m, size_t n)
{
	m->sorted = calloc(n, sizeof *m->sorted);
	m->records = calloc(n, sizeof *m->records);
	m->readings = calloc(n, sizeof *m->readings);
	assert_true(m->sorted && m->records && m->readings);
	for (size_t i = 0; i < n; i++) {
		m->sorted[i] = 100000000 + i * 1000;
		record_init(&m->records[i]);
		m->records[i].i = i;
		m->records[i].end_ns = (uint64_t)((double)i / (double)n * 60e9);
		m->records[i].outcome = i % 10 ? OUTCOME_OK : OUTCOME_STALLED;
		m->readings[i] = (struct ev_reading){ .t_ns = m->records[i].end_ns,
			                              .name = "engine_pss_bytes",
			                              .value = i % 7 == 3 ? (double)NAN
			                                                  : 1e9 + (double)(i % 100) * 1e6 };
	}
	struct dist *d = &m->cell_results[0].ttft;
	*d = (struct dist){ .n = n,
		            .n_failed = 5,
		            .mean_ns = 1.2e8,
		            .min_ns = m->sorted[0],
		            .p50_ns = m->sorted[n / 2],
		            .p90_ns = m->sorted[n * 9 / 10],
		            .p95_ns = m->sorted[n - 1],
		            .p99_ns = REC_NONE,
		            .max_ns = m->sorted[n - 1],
		            .p50_ub_ns = m->sorted[n * 6 / 10],
		            .p90_ub_ns = m->sorted[n - 1],
		            .p95_ub_ns = REC_NONE,
		            .p99_ub_ns = REC_NONE,
		            .sorted = m->sorted };
	m->ev.n_records = m->ev.n_readings = n;
	m->ev.records = m->records;
	m->ev.readings = m->readings;
}

static void make_cells(struct made *m)
{
	static const uint64_t conc[] = { 1, 4, 1 };
	for (size_t i = 0; i < 3; i++) {
		m->cells[i] = (struct cell){ .wl = &m->wl[i == 2],
			                     .prompt_tok = 32,
			                     .output_tok = 16,
			                     .concurrency = conc[i],
			                     .critical = i == 0 };
		snprintf(m->cells[i].id, sizeof m->cells[i].id, "%s/32in/16out/c%d", i == 2 ? "bulk" : "chat",
		         (int)conc[i]);
		struct cell_result *c = &m->cell_results[i];
		struct dist none = { .mean_ns = (double)NAN,
			             .min_ns = REC_NONE,
			             .p50_ns = REC_NONE,
			             .p90_ns = REC_NONE,
			             .p95_ns = REC_NONE,
			             .p99_ns = REC_NONE,
			             .max_ns = REC_NONE,
			             .p50_ub_ns = REC_NONE,
			             .p90_ub_ns = REC_NONE,
			             .p95_ub_ns = REC_NONE,
			             .p99_ub_ns = REC_NONE };
		*c = (struct cell_result){ .cell = &m->cells[i],
			                   .st = &m->cell_states[i],
			                   .valid = true,
			                   .events_per_tok = (double)NAN,
			                   .output_tok_s = (double)NAN,
			                   .request_s = (double)NAN,
			                   .prefill_tok_s = 777,
			                   .decode_tok_s = 55.5,
			                   .loop_error_ns = REC_NONE };
		c->ttft = c->ttft_content = c->ttft_sent = c->itl = c->tpot = c->e2e = c->send_lag = none;
	}
	m->cell_results[0].n_scheduled = 125;
	m->cell_results[0].n_completed = 120;
	m->cell_results[0].n_failed = 5;
	m->cell_results[0].n_outcome[OUTCOME_OK] = 120;
	m->cell_results[0].n_outcome[OUTCOME_STALLED] = 5;
	m->cell_states[0] =
		(struct ev_cell_state){ .has_soundness = true, .wall_ns = 1000000000, .total_ticks = 0 };
}

// `text` in every place where text comes from outside, NULL = ordinary words.
static struct made *make(char *text, size_t n_values)
{
	struct made *m = calloc(1, sizeof *m);
	assert_non_null(m);
#define T(ordinary) (text ? text : strdup(ordinary))
	m->plan = (struct plan){ .id = T("plan-1"), .title = T("A trial"), .owner = T("buyer"), .rules = 1 };
	m->plan.model.id = T("model");
	m->plan.challenge = text;
	m->wl[0] = (struct plan_workload){ .name = T("chat"), .cls = CLASS_INTERACTIVE, .critical = true };
	m->wl[1] = (struct plan_workload){ .name = T("bulk"), .cls = CLASS_BATCH };
	m->cand = (struct plan_candidate){ .name = T("cpu"), .arch = T("x86-64"), .engine = ENGINE_LLAMACPP };
	m->waiver = (struct plan_waiver){ .criterion = T("waived"),
		                          .reason = T("known until the next driver"),
		                          .owner = T("lead"),
		                          .expires = T("2027-01-01") };
	m->control = (struct plan_control){ .id = T("france"), .prompt = T("Capital of France?") };
	m->plan.n_workloads = 2;
	m->plan.workloads = m->wl;
	m->plan.n_candidates = 1;
	m->plan.candidates = &m->cand;
	m->lists[0] = T("something is missing");
	m->ev = (struct evidence){ .plan = &m->plan,
		                   .n_phases = 2,
		                   .phases = m->phases,
		                   .n_starts = 2,
		                   .starts = m->starts,
		                   .attempt = 1,
		                   .end_ns = 60000000000,
		                   .n_missing = 1,
		                   .missing = m->lists,
		                   .n_not_tested = 1,
		                   .not_tested = m->lists,
		                   .n_labels = 1,
		                   .labels = m->lists };
	snprintf(m->ev.run_id, sizeof m->ev.run_id, "%s", text ? text : "run-7");
	snprintf(m->ev.candidate, sizeof m->ev.candidate, "%s", m->cand.name);
	snprintf(m->ev.error, sizeof m->ev.error, "%s", text ? text : "");
	for (size_t i = 0; i < 2; i++) {
		m->phases[i] = (struct ev_phase){ .begin_ns = i * 30000000000, .end_ns = REC_NONE };
		snprintf(m->phases[i].name, sizeof m->phases[i].name, "%s", text ? text : "load");
		m->starts[i] = (struct ev_start){ .number = i + 1,
			                          .spawn_ns = 5,
			                          .health_ns = i ? REC_NONE : 900000000,
			                          .first_completion_ns = i ? REC_NONE : 1200000000,
			                          .killed_ns = REC_NONE };
		snprintf(m->starts[i].why, sizeof m->starts[i].why, "%s", i ? "second_cold" : "first");
		snprintf(m->starts[i].not_ready, sizeof m->starts[i].not_ready, "%s",
		         text ? text : "no answer in 10 s");
	}
	m->ev.facts = cJSON_CreateObject();
	struct cJSON *host = cJSON_AddObjectToObject(m->ev.facts, "host");
	cJSON_AddStringToObject(host, "cpu_model", text ? text : "A processor");
	cJSON_AddNullToObject(host, "bios");
	make_cells(m);
	make_criteria(m, text);
	if (n_values)
		make_values(m, n_values);
	m->control_results[0] = (struct control_result){ .control = &m->control, .n = 3, .n_passed = 2 };
	snprintf(m->control_results[0].first_failure, sizeof m->control_results[0].first_failure, "%s",
	         text ? text : "\"Rome\" is not \"Paris\"");
	m->memory[0] = (struct memory_result){ "engine_pss_bytes", NULL, 9, 1, 1.1e9, 1e9 };
	m->memory[1] = (struct memory_result){ "engine_pss_bytes", text ? text : "load", 9, 1, 1.1e9, 1e9 };
	m->v = (struct verdict){ .run = VERDICT_REJECTED,
		                 .n_reasons = 1,
		                 .n_criteria = N_CRITERIA,
		                 .criteria = m->results,
		                 .n_cells = 3,
		                 .cells = m->cell_results,
		                 .n_controls = 1,
		                 .controls = m->control_results,
		                 .n_memory = 2,
		                 .memory = m->memory,
		                 .ev = &m->ev };
	snprintf(m->v.reasons[0], sizeof m->v.reasons[0], "%s", text ? text : "fail: the first reason");
	m->v.classes[CLASS_INTERACTIVE].present = true;
	m->v.classes[CLASS_INTERACTIVE].verdict = VERDICT_REJECTED;
	return m;
}

static void drop(struct made *m, char *text)
{
	char *ours[] = { m->plan.id,          m->plan.title,     m->plan.owner,   m->plan.model.id,
		         m->wl[0].name,       m->wl[1].name,     m->cand.name,    m->cand.arch,
		         m->waiver.criterion, m->waiver.reason,  m->waiver.owner, m->waiver.expires,
		         m->control.id,       m->control.prompt, m->lists[0] };
	for (size_t i = 0; i < ARRAY_LEN(ours) && !text; i++)
		free(ours[i]);
	for (size_t i = 0; i < N_CRITERIA; i++) {
		free(m->crit[i].id);
		free(m->crit[i].metric);
		free(m->crit[i].statistic);
		free(m->crit[i].limit_unit);
		if (!text)
			free(m->crit[i].sentence);
	}
	cJSON_Delete(m->ev.facts);
	free(m->sorted);
	free(m->records);
	free(m->readings);
	free(m);
}

static char *render(int (*f)(struct buf *, const struct verdict *), const struct verdict *v)
{
	struct buf b = BUF_INIT(HTML_MAX);
	assert_int_equal(f(&b, v), 0);
	return buf_steal(&b);
}

/* --- checks -----------------------------------------------------------------------------------------------
 */

// Every tag is closed in its order, attribute values are quoted and hold no '<'.
static void assert_balanced(const char *text)
{
	static const char *const alone[] = { "meta", "!DOCTYPE", "?xml" };
	char stack[64][24];
	size_t depth = 0;
	for (const char *p = strchr(text, '<'); p; p = strchr(p, '<')) {
		bool close = p[1] == '/', single = false;
		const char *name = p + 1 + close;
		size_t n = strcspn(name, " >/\n");
		const char *q = name + n;
		for (bool quoted = false; *q && (quoted || *q != '>'); q++) {
			quoted ^= *q == '"';
			if (*q == '<')
				fail_msg("'<' inside a tag: %.80s", p);
			single = !quoted && *q == '/' && q[1] == '>';
		}
		for (size_t i = 0; i < ARRAY_LEN(alone); i++)
			single |= n == strlen(alone[i]) && !strncmp(name, alone[i], n);
		assert_true(*q == '>' && n > 0 && n < 24);
		if (close) {
			if (!depth || strncmp(stack[depth - 1], name, n) || stack[depth - 1][n])
				fail_msg("closes what is not open: %.60s", p);
			depth--;
		} else if (!single) {
			assert_true(depth < 64);
			memcpy(stack[depth], name, n);
			stack[depth++][n] = 0;
		}
		p = q;
	}
	assert_int_equal(depth, 0);
}

static void assert_clean_text(const char *text)
{
	for (size_t i = 0, n, len = strlen(text); i < len; i += n) {
		uint32_t cp = 0;
		n = utf8_get(text + i, len - i, &cp);
		if (!n || (cp < 0x20 && cp != '\n') || cp == 0x7f || cp == 0x202e || cp == 0xfffe)
			fail_msg("byte %zu: %.40s", i, text + i);
	}
}

static void assert_holds(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("does not hold \"%s\"", part);
}

static void assert_lacks(const char *text, const char *part)
{
	const char *at = strstr(text, part);
	if (at)
		fail_msg("holds \"%s\": %.80s", part, at);
}

/* --- HTML -------------------------------------------------------------------------------------------------
 */

static void html_is_one_file_that_asks_for_nothing(void **state)
{
	static const char *const never[] = { "<script", "http://", "https://", "src=",
		                             "url(",    "@import", "<link",    "<img",
		                             "<iframe", "<object", "onload",   "javascript:" };
	struct made *m = make(NULL, 300);
	auto_free char *html = render(report_html, &m->v);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		assert_lacks(html, never[i]);
	for (const char *p = strstr(html, "href="); p; p = strstr(p + 1, "href="))
		assert_memory_equal(p, "href=\"#i-", 9);
	assert_balanced(html);
	drop(m, NULL);
}

static void html_tells_the_verdict_first_and_every_criterion(void **state)
{
	struct made *m = make(NULL, 300);
	auto_free char *html = render(report_html, &m->v);
	const char *word = strstr(html, "<b>Rejected</b>"), *table = strstr(html, "class=\"criteria\"");
	assert_true(word && table && word < table);
	size_t n = 0;
	for (const char *p = strstr(html, "Sentence of a criterion"); p;
	     p = strstr(p + 1, "Sentence of a criterion"))
		n++;
	assert_int_equal(n, N_CRITERIA);
	for (size_t i = 0; i < N_CRITERIA; i++)
		assert_holds(table, ids[i]);
	assert_true(strstr(table, "Not met (1)") < strstr(table, "Not decided (1)"));
	assert_true(strstr(table, "Not decided (1)") < strstr(table, "Met (1)"));
	assert_holds(table, "123 ms");
	assert_holds(table, "140 ms");
	assert_holds(table, "worst 400 ms");
	assert_holds(table, "≤ 250 ms");
	assert_holds(table, "49 more needed");
	assert_holds(table, "Waived by lead until 2027-01-01");
	drop(m, NULL);
}

static void html_shows_inconclusive_neutral_and_each_state_with_its_own_shape(void **state)
{
	struct made *m = make(NULL, 0);
	auto_free char *html = render(report_html, &m->v);
	assert_holds(
		html,
		"<td class=\"mark open\"><svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-open\"/>");
	assert_holds(
		html,
		"<td class=\"mark fail\"><svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-fail\"/>");
	assert_holds(
		html,
		"<td class=\"mark pass\"><svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-pass\"/>");
	assert_holds(html, "<use href=\"#i-waived\"/>");
	assert_holds(html, "<use href=\"#i-skipped\"/>");
	m->v.run = VERDICT_INCONCLUSIVE;
	auto_free char *open = render(report_html, &m->v);
	assert_holds(open, "<div class=\"verdict open\"");
	drop(m, NULL);
}

static void html_keeps_prefill_and_decode_apart(void **state)
{
	struct made *m = make(NULL, 300);
	auto_free char *html = render(report_html, &m->v);
	assert_holds(html, "<dt>Prefill</dt><dd>777 tok/s");
	assert_holds(html, "<dt>Decode</dt><dd>55.5 tok/s");
	drop(m, NULL);
}

static void html_escapes_every_text_from_outside(void **state)
{
	char hostile[] = UNLIKELY;
	struct made *m = make(hostile, 50);
	snprintf(m->records[0].detail, sizeof m->records[0].detail, "%s", hostile);
	snprintf(m->records[0].cell, sizeof m->records[0].cell, "%s", hostile);
	snprintf(m->cells[0].id, sizeof m->cells[0].id, "%s", hostile);
	auto_free char *html = render(report_html, &m->v);
	assert_lacks(html, "<script");
	assert_holds(html, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;");
	assert_balanced(html);
	assert_clean_text(html);
	drop(m, hostile);
}

static void an_empty_run_still_has_a_report(void **state)
{
	struct plan plan = { .id = (char[]){ "p" } };
	struct evidence ev = { .plan = &plan, .end_ns = 0 };
	struct verdict v = { .run = VERDICT_INCONCLUSIVE, .ev = &ev };
	for (size_t i = 1; report_kinds[i].file; i++) {
		auto_free char *text = render(report_kinds[i].render, &v);
		assert_non_null(text);
		if (i < 3)
			assert_balanced(text);
		assert_clean_text(text);
	}
	auto_free char *html = render(report_html, &v);
	assert_holds(html, "No request was recorded.");
	assert_holds(html, "The plan has no criteria");
	assert_lacks(html, "nan");
}

static void the_same_evidence_gives_the_same_bytes(void **state)
{
	struct made *m = make(NULL, 5000);
	for (size_t i = 1; report_kinds[i].file; i++) {
		auto_free char *a = render(report_kinds[i].render, &m->v);
		auto_free char *b = render(report_kinds[i].render, &m->v);
		assert_string_equal(a, b);
	}
	drop(m, NULL);
}

static void many_values_stay_a_small_file(void **state)
{
	struct made *m = make(NULL, 200000);
	auto_free char *html = render(report_html, &m->v);
	assert_true(strlen(html) < 300000);
	assert_balanced(html);
	assert_holds(html, "The first 25 of 20000; all are in requests.jsonl.");
	drop(m, NULL);
}

static void a_report_over_its_maximum_is_an_error_not_a_torn_file(void **state)
{
	struct made *m = make(NULL, 10);
	struct buf b = BUF_INIT(1000);
	assert_int_equal(report_html(&b, &m->v), -1);
	buf_done(&b);
	drop(m, NULL);
}

/* --- JUnit ------------------------------------------------------------------------------------------------
 */

static void assert_well_formed(const char *xml)
{
	char name[] = "/tmp/proofmark-junit-XXXXXX";
	auto_fd fd = mkstemp(name);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, xml, strlen(xml)), strlen(xml));
	auto_free char *command =
		str_fmt("command -v xmllint >/dev/null || exit 0; xmllint --noout %s", name);
	int rc = system(command);
	unlink(name);
	assert_int_equal(rc, 0);
}

static void junit_maps_states_fail_closed(void **state)
{
	struct made *m = make(NULL, 0);
	auto_free char *xml = render(report_junit, &m->v);
	assert_balanced(xml);
	assert_well_formed(xml);
	// Nine criteria and the run itself.
	assert_holds(xml,
	             "<testsuites name=\"A trial\" tests=\"10\" failures=\"2\" errors=\"4\" skipped=\"2\"");
	assert_holds(xml, "<testsuite name=\"chat\" tests=\"9\" failures=\"1\" errors=\"4\" skipped=\"2\"");
	assert_holds(xml, "<testsuite name=\"bulk\" tests=\"0\"");
	assert_holds(xml, "<testsuite name=\"run\" tests=\"1\" failures=\"1\" errors=\"0\"");
	assert_holds(xml, "<error message=\"the reason\" type=\"inconclusive\"/>");
	assert_holds(xml, "<error message=\"the reason\" type=\"invalid\"/>");
	assert_holds(xml, "<error message=\"the reason\" type=\"blocked\"/>");
	assert_holds(xml, "<failure message=\"the reason\" type=\"fail\"/>");
	assert_holds(xml, "<skipped message=\"the reason\"/>");
	const char *waived = strstr(xml, "classname=\"chat.waived\"");
	assert_non_null(waived);
	const char *end = strstr(waived, "</testcase>");
	assert_true(strstr(waived, "waiver_expires") < end);
	const char *failure = strstr(waived, "<failure");
	assert_true(!failure || failure > end);
	drop(m, NULL);
}

static void junit_of_an_accepted_run_is_green_only_then(void **state)
{
	struct made *m = make(NULL, 0);
	m->v.n_criteria = 1;
	m->v.run = VERDICT_ACCEPTED;
	auto_free char *green = render(report_junit, &m->v);
	assert_holds(green, "tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\"");
	m->v.run = VERDICT_INCONCLUSIVE;
	auto_free char *open = render(report_junit, &m->v);
	assert_holds(open, "tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"0\"");
	drop(m, NULL);
}

static void junit_escapes_every_text_from_outside(void **state)
{
	char hostile[] = UNLIKELY;
	struct made *m = make(hostile, 0);
	auto_free char *xml = render(report_junit, &m->v);
	assert_balanced(xml);
	assert_clean_text(xml);
	assert_well_formed(xml);
	drop(m, hostile);
}

/* --- summary ----------------------------------------------------------------------------------------------
 */

static void summary_keeps_to_80_columns(void **state)
{
	char hostile[] = UNLIKELY " averylongwordwithoutanyblankinitthatdoesnotfitintoasinglelineofeightycolu"
				  "mnswhateveryoudo äöü äöü äöü";
	char *texts[] = { NULL, hostile };
	for (size_t i = 0; i < 2; i++) {
		struct made *m = make(texts[i], 20);
		auto_free char *text = render(report_summary, &m->v);
		assert_memory_equal(text, "verdict: REJECTED\n", 18);
		assert_clean_text(text);
		size_t columns = 0;
		for (const char *p = text; *p; p++) {
			columns = *p == '\n' ? 0 : columns + (((unsigned char)*p & 0xc0) != 0x80);
			if (columns > 80)
				fail_msg("over 80 columns: %.100s", p - 90);
		}
		drop(m, texts[i]);
	}
}

/* --- figures and charts ------------------------------------------------------------------------------------
 */

static void figures_have_their_unit_and_unknown_is_no_zero(void **state)
{
	static const struct {
		uint64_t ns;
		const char *says;
	} times[] = { { 0, "0 ns" },
		      { 830, "830 ns" },
		      { 12345, "12.3 µs" },
		      { 244000000, "244 ms" },
		      { 999400000, "999 ms" },
		      { 1046000000, "1.05 s" },
		      { 59500000000, "59.5 s" },
		      { 725000000000, "12 min 5 s" },
		      { REC_NONE, "unknown" } };
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		assert_string_equal(fmt_ns(times[i].ns).s, times[i].says);
	assert_string_equal(fmt_bytes(455801856).s, "435 MiB");
	assert_string_equal(fmt_bytes((double)NAN).s, "unknown");
	assert_string_equal(fmt_share(1, 120).s, "0.833 %");
	assert_string_equal(fmt_share(0, 0).s, "unknown");
	assert_string_equal(fmt_count(1234567).s, "1\u202f234\u202f567");
	assert_string_equal(fmt_count(1800).s, "1800");
	struct figure share = { true, .0083, "share" }, gb = { true, 1.05, "GB" }, none = { false, 0, "ms" };
	assert_string_equal(fmt_figure(&share).s, "0.83 %");
	assert_string_equal(fmt_figure(&gb).s, "1.05 GB");
	assert_string_equal(fmt_figure(&none).s, "–");
}

static void thinning_keeps_ends_extremes_and_gaps(void **state)
{
	enum { N = 100000 };
	struct point *p = calloc(N, sizeof *p);
	assert_non_null(p);
	for (size_t i = 0; i < N; i++)
		p[i] = (struct point){ (double)i, (double)(i % 50) };
	p[31337].y = 999;
	p[77777].y = -5;
	p[50000].y = (double)NAN;
	size_t n = thin_points(p, N, 500), gaps = 0;
	double low = 0, high = 0;
	assert_true(n <= 2500);
	for (size_t i = 0; i < n; i++) {
		gaps += isnan(p[i].y);
		low = p[i].y < low ? p[i].y : low;
		high = p[i].y > high ? p[i].y : high;
		assert_true(!i || p[i].x > p[i - 1].x);
	}
	assert_int_equal(gaps, 1);
	assert_true(low < -4 && high > 998);
	assert_true(p[0].x < .5 && p[n - 1].x > N - 1.5);
	free(p);
}

static void ticks_are_round_and_inside(void **state)
{
	static const struct axis axes[] = { { 0, 97, 0, 100, false },
		                            { 0, 1, 0, 100, false },
		                            { 0, 1e12, 0, 100, false },
		                            { 8e6, 2e10, 0, 100, true },
		                            { 1, 1e15, 0, 100, true } };
	for (size_t i = 0; i < ARRAY_LEN(axes); i++) {
		double ticks[TICKS_MAX];
		size_t n = axis_ticks(&axes[i], 8, ticks);
		assert_true(n >= 2 && n <= TICKS_MAX);
		for (size_t k = 0; k < n; k++) {
			assert_true(ticks[k] >= axes[i].lo * .99 && ticks[k] <= axes[i].hi * 1.01);
			assert_true(!k || ticks[k] > ticks[k - 1]);
			assert_false(signbit(ticks[k]));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(html_is_one_file_that_asks_for_nothing),
		cmocka_unit_test(html_tells_the_verdict_first_and_every_criterion),
		cmocka_unit_test(html_shows_inconclusive_neutral_and_each_state_with_its_own_shape),
		cmocka_unit_test(html_keeps_prefill_and_decode_apart),
		cmocka_unit_test(html_escapes_every_text_from_outside),
		cmocka_unit_test(an_empty_run_still_has_a_report),
		cmocka_unit_test(the_same_evidence_gives_the_same_bytes),
		cmocka_unit_test(many_values_stay_a_small_file),
		cmocka_unit_test(a_report_over_its_maximum_is_an_error_not_a_torn_file),
		cmocka_unit_test(junit_maps_states_fail_closed),
		cmocka_unit_test(junit_of_an_accepted_run_is_green_only_then),
		cmocka_unit_test(junit_escapes_every_text_from_outside),
		cmocka_unit_test(summary_keeps_to_80_columns),
		cmocka_unit_test(figures_have_their_unit_and_unknown_is_no_zero),
		cmocka_unit_test(thinning_keeps_ends_extremes_and_gaps),
		cmocka_unit_test(ticks_are_round_and_inside),
	};
	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
