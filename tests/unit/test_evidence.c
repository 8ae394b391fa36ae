/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../golden/made_run.h"
#include "model/verdict.h"

#define P90                                                                                                  \
	"{\"id\": \"x\", \"sentence\": \"s\", \"metric\": \"ttft\", \"statistic\": \"p90\", "                \
	"\"comparator\": \"<=\", \"limit\": {\"value\": 250, \"unit\": \"ms\"}}"

static const struct made_run good = { .requests = 100, .criteria = P90, .n = 100 };

struct judged {
	enum run_verdict verdict;
	size_t n_missing, n_records;
	char first[400];
	char *json;
};

static struct judged judge(struct maker *m)
{
	struct judged got = { 0 };
	struct member_set set;
	struct evidence ev;
	struct verdict v;
	struct err err = { 0 };
	auto_buf out = BUF_INIT(8u << 20);
	maker_members(m, &set);
	if (evidence_load(&ev, &set, &err))
		fail_msg("evidence_load: %s", err.msg);
	assert_int_equal(verdict_compute(&v, &ev, &err), 0);
	assert_int_equal(verdict_write(&out, &v), 0);
	got.verdict = v.run;
	got.n_missing = ev.n_missing;
	got.n_records = ev.n_records;
	if (ev.n_missing)
		snprintf(got.first, sizeof(got.first), "%.390s", ev.missing[0]);
	got.json = buf_steal(&out);
	verdict_done(&v);
	evidence_done(&ev);
	member_set_done(&set);
	return got;
}

static void a_whole_run_is_read_without_complaint(void **state)
{
	struct maker m;
	make_run(&m, &good);
	struct judged got = judge(&m);
	if (got.n_missing)
		fail_msg("%s", got.first);
	assert_int_equal(got.verdict, VERDICT_ACCEPTED);
	assert_int_equal(got.n_records, 103);
	free(got.json);
	maker_done(&m);
}

static void the_same_bytes_give_the_same_verdict_file(void **state)
{
	struct maker m;
	make_run(&m, &good);
	struct judged a = judge(&m), b = judge(&m);
	assert_string_equal(a.json, b.json);
	free(a.json);
	free(b.json);
	maker_done(&m);
}

static void a_missing_file_is_told_and_never_accepted(void **state)
{
	for (int f = MF_LOCK; f < MF_METRICS; f++) {
		struct maker m;
		make_run(&m, &good);
		m.absent[f] = true;
		struct judged got = judge(&m);
		if (!got.n_missing || !strstr(got.first, maker_names[f]) ||
		    got.verdict >= VERDICT_INCONCLUSIVE)
			fail_msg("%s: %s, verdict %s", maker_names[f], got.first, verdict_words[got.verdict]);
		free(got.json);
		maker_done(&m);
	}
}

static void without_a_plan_there_is_nothing_to_report_on(void **state)
{
	struct maker m;
	struct member_set set;
	struct evidence ev;
	struct err err = { 0 };
	make_run(&m, &good);
	m.absent[MF_PLAN] = true;
	maker_members(&m, &set);
	assert_int_equal(evidence_load(&ev, &set, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	member_set_done(&set);
	maker_done(&m);
}

/* Every way of losing the end of a file: at each of 61 places, and right before the last newline. */
static void a_file_cut_anywhere_is_told_and_never_accepted(void **state)
{
	for (int f = MF_LOCK; f < MF_METRICS; f++) {
		for (unsigned k = 0; k <= 61; k++) {
			struct maker m;
			make_run(&m, &good);
			size_t whole = m.file[f].len;
			m.file[f].len = k == 61 ? whole - 1 : whole * k / 61;
			struct judged got = judge(&m);
			bool only_blank =
				f <= MF_FACTS &&
				m.file[f].len + 1 == whole; /* JSON without its last newline is whole */
			bool readings =
				f == MF_TELEMETRY; /* a line less is not seen when cut between lines */
			if (!only_blank && !readings &&
			    (!got.n_missing || got.verdict >= VERDICT_INCONCLUSIVE))
				fail_msg("%s cut at %zu of %zu: %s, verdict %s", maker_names[f],
				         m.file[f].len, whole, got.first, verdict_words[got.verdict]);
			free(got.json);
			maker_done(&m);
		}
	}
}

static void what_stands_before_a_cut_line_counts(void **state)
{
	struct maker m;
	make_run(&m, &good);
	m.file[MF_REQUESTS].len -= 20;
	struct judged got = judge(&m);
	assert_int_equal(got.n_records, 102);
	assert_non_null(strstr(got.first, "requests.jsonl:103: cut: the last line has"));
	free(got.json);
	maker_done(&m);
}

/* --- one thing changed
 * ---------------------------------------------------------------------------------------- */

static void put(struct buf *b, const char *from, const char *to, unsigned nth)
{
	char *at = b->p;
	for (unsigned i = 0; at && i <= nth; i++)
		at = strstr(i ? at + 1 : at, from);
	assert_non_null(at);
	size_t head = (size_t)(at - b->p), tail = b->len - head - strlen(from);
	char *text = malloc(b->len + strlen(to) + 1);
	memcpy(text, b->p, head);
	memcpy(text + head, to, strlen(to));
	memcpy(text + head + strlen(to), at + strlen(from), tail + 1);
	buf_clear(b);
	buf_add(b, text, head + strlen(to) + tail);
	free(text);
}

static const struct {
	const char *name;
	enum maker_file file;
	const char *from, *to;
	unsigned nth;
	const char *says;
} changes[] = {
	{ "an_event_left_out", MF_EVENTS, "{\"seq\":2,", "{\"seq\":3,", 0, "event number 3, want 2" },
	{ "an_event_we_do_not_know", MF_EVENTS, "\"phase_begin\"", "\"face_begin\"", 0,
	  "unknown event face_begin" },
	{ "time_that_runs_back", MF_EVENTS, "\"t_ns\":1000000,", "\"t_ns\":99000000000000,", 0,
	  "time runs backwards" },
	{ "a_bad_line_in_the_middle", MF_EVENTS, "{\"seq\":3,", "{\"seq\":3,,", 0,
	  "events.jsonl:4: cannot be read" },
	{ "a_key_twice", MF_EVENTS, "{\"seq\":3,", "{\"seq\":3,\"seq\":3,", 0,
	  "events.jsonl:4: cannot be read" },
	{ "a_number_that_is_a_text", MF_EVENTS, "{\"seq\":3,", "{\"seq\":\"3\",", 0,
	  "want a whole number in" },
	{ "an_unknown_cell", MF_EVENTS, "c1\",\"planned\"", "c9\",\"planned\"", 0, "the plan has no cell" },
	{ "another_count_of_requests_than_planned", MF_EVENTS, "\"planned\":100", "\"planned\":99", 0,
	  "the plan says 100" },
	{ "fewer_rows_than_the_journal_counts", MF_EVENTS, "\"scheduled\":100", "\"scheduled\":101", 0,
	  "the journal counts 101" },
	{ "ready_before_spawn", MF_EVENTS, "\"health_ns\":", "\"health_ns\":9", 0, "not in order" },
	{ "a_second_run_end", MF_EVENTS, "\"phase_end\",\"phase\":\"load\",\"ok\":true,\"reason\":null",
	  "\"run_end\",\"status\":\"complete\"", 0, "behind run_end" },
	{ "a_record_left_out", MF_REQUESTS, "{\"i\":50,", "{\"i\":51,", 0, "record 50 should stand here" },
	{ "a_failed_record_called_ok", MF_REQUESTS, "\"http\":200", "\"http\":503", 9,
	  "ok without a token or without" },
	{ "a_slow_first_token_called_fast", MF_REQUESTS, "\"first_token_ns\":3", "\"first_token_ns\":2", 0,
	  "inconsistent record" },
	{ "a_token_less", MF_REQUESTS, "\"tok_n\":16", "\"tok_n\":15", 9, "another count of tokens" },
	{ "tokens_of_another_record", MF_REQUESTS, "\"tok_off\":", "\"tok_off\":1", 9,
	  "inconsistent record" },
	{ "tokens_past_the_end", MF_REQUESTS, "\"tok_bytes\":", "\"tok_bytes\":99999", 9,
	  "not in tokens.bin" },
	{ "tokens_that_wrap_around", MF_REQUESTS, "\"tok_off\":", "\"tok_off\":1844674407370955", 4,
	  "inconsistent record" },
	{ "a_load_record_made_warm_up", MF_REQUESTS, "\"load\"", "\"warmup\"", 9, "the journal counts 100" },
	{ "a_record_of_no_cell", MF_REQUESTS, "16out/c1\"", "16out/c2\"", 9, "the plan has no cell" },
	{ "a_control_that_is_no_request", MF_CONTROLS, "\"request\":0", "\"request\":5", 0,
	  "not the record of this control" },
	{ "a_control_we_do_not_know", MF_CONTROLS, "\"france\"", "\"frence\"", 0, "no control frence" },
	{ "a_reading_without_a_value", MF_TELEMETRY, "\"value\":", "\"valeu\":", 0, "number or null" },
	{ "no_attempt", MF_REQUESTS, "\"attempts\":1", "\"attempts\":0", 9, "attempts that the plan" },
	{ "more_attempts_than_the_plan_allows", MF_REQUESTS, "\"attempts\":1", "\"attempts\":2", 9,
	  "attempts that the plan" },
	{ "first_sent_before_due", MF_REQUESTS, "\"first_sent_ns\":3", "\"first_sent_ns\":2", 0,
	  "inconsistent record" },
	{ "a_turn_without_a_conversation", MF_REQUESTS, "\"turn\":null", "\"turn\":1", 9,
	  "turn without conversation" },
	{ "a_request_of_the_schedule_twice", MF_REQUESTS, "\"k\":7,", "\"k\":8,", 0, "stands twice" },
	{ "a_request_the_schedule_has_not", MF_REQUESTS, "\"k\":7,", "\"k\":100,", 0,
	  "not in schedule.jsonl" },
	{ "another_output_length_than_planned", MF_REQUESTS, "\"want_output_tok\":16",
	  "\"want_output_tok\":17", 9, "another output length" },
	{ "a_changed_line_of_the_schedule", MF_SCHEDULE, "\"output_tok\":16", "\"output_tok\":17", 9,
	  "not what the plan gives" },
	{ "a_schedule_of_another_cell", MF_SCHEDULE, "16out/c1", "16out/c2", 9, "the plan has no load" },
	{ "a_canary_that_was_not_planned", MF_SCHEDULE, "\"canary\":false", "\"canary\":true", 9,
	  "not what the plan gives" },
	{ "an_answer_of_no_request", MF_ANSWERS, "\"k\":7,", "\"k\":8,", 0, "no load record" },
	{ "an_answer_that_was_not_counted", MF_ANSWERS, "\"chars\":65", "\"chars\":null", 9,
	  "its text was not counted" },
	{ "a_nonce_of_no_canary", MF_ANSWERS, "\"nonce\":null", "\"nonce\":\"PMKAAAAAAAAAAAAA\"", 9,
	  "no canary of this number" },
	{ "a_share_below_nothing", MF_ANSWERS, "\"foreign_share\":0", "\"foreign_share\":-1", 9,
	  "want a share" },
	{ "a_share_above_all", MF_ANSWERS, "\"foreign_share\":0", "\"foreign_share\":2", 9,
	  "a share above 1" },
	{ "more_kinds_than_characters", MF_ANSWERS, "\"chars\":65", "\"chars\":1", 9, "than characters" },
	{ "a_calibration_of_no_load", MF_EVENTS, "\"load\":\"c1\"", "\"load\":\"c7\"", 0,
	  "no cell with the load" },
	{ "a_calibration_twice", MF_EVENTS, "\"when\":\"after\"", "\"when\":\"before\"", 0, "told before" },
	{ "a_calibration_at_no_time", MF_EVENTS, "\"when\":\"after\"", "\"when\":\"then\"", 0, "unknown" },
	{ "soundness_without_a_start", MF_EVENTS, "\"start_ns\"", "\"begin_ns\"", 0,
	  "want a whole number in" },
	{ "a_lock_cut_to_nothing", MF_LOCK, "{", "[", 0, "plan.lock.json: cannot be read" },
};

static void one_thing_changed_is_told_and_never_accepted(void **state)
{
	size_t n_wrong = 0;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct maker m;
		make_run(&m, &good);
		put(&m.file[changes[i].file], changes[i].from, changes[i].to, changes[i].nth);
		struct judged got = judge(&m);
		if (!got.n_missing || !strstr(got.json, changes[i].says) ||
		    got.verdict >= VERDICT_INCONCLUSIVE) {
			print_error("%s: want \"%s\", got %zu: \"%s\", verdict %s\n", changes[i].name,
			            changes[i].says, got.n_missing, got.first, verdict_words[got.verdict]);
			n_wrong++;
		}
		free(got.json);
		maker_done(&m);
	}
	assert_int_equal(n_wrong, 0);
}

static const struct {
	const char *name;
	enum maker_file file;
	const char *from, *to;
	unsigned nth;
	const char *says;
} more_changes[] = {
	{ "a_due_time_moved", MF_EVENTS, "\"start_ns\":", "\"start_ns\":1", 2, "another due time" },
	{ "another_turn_than_planned", MF_REQUESTS, "\"conv\":5,\"turn\":1", "\"conv\":5,\"turn\":0", 0,
	  "another conversation or turn" },
	{ "another_part_than_planned", MF_REQUESTS, "\"turn\":1,\"part\":0", "\"turn\":1,\"part\":1", 2,
	  "another part of the mix" },
	{ "a_nonce_changed", MF_ANSWERS, "\"nonce\":\"PMK", "\"nonce\":\"QMK", 0, "not the nonce" },
	{ "another_answer_expected", MF_ANSWERS, "\"expected\":\"", "\"expected\":\"x", 0,
	  "not the answer expected" },
	{ "a_page_twice", MF_METRICS, "\"when\":\"after\"", "\"when\":\"before\"", 0, "told before" },
	{ "a_page_without_a_status", MF_METRICS, "\"status\":200", "\"status\":404", 0, "status 200" },
	{ "a_page_of_no_cell", MF_METRICS, "2turns/c2", "2turns/c3", 0, "no time before a cell" },
};

static void one_thing_changed_about_the_load_is_told(void **state)
{
	static const struct made_run run = { .requests = 100, .criteria = P90, .n = 100, .more = true };
	for (size_t i = 0; i < ARRAY_LEN(more_changes); i++) {
		struct maker m;
		make_run(&m, &run);
		put(&m.file[more_changes[i].file], more_changes[i].from, more_changes[i].to,
		    more_changes[i].nth);
		struct judged got = judge(&m);
		if (!got.n_missing || !strstr(got.json, more_changes[i].says))
			fail_msg("%s: want \"%s\", got %zu: \"%s\"", more_changes[i].name,
			         more_changes[i].says, got.n_missing, got.first);
		free(got.json);
		maker_done(&m);
	}
}

/* The trace is not in the evidence: its lines are believed, and the rows held against them. */
static void trace_run(struct maker *m, uint64_t due_step_ns)
{
	static const struct made_run run = {
		.requests = 100,
		.criteria = P90,
		.n = 100,
		.workloads_extra = ", {\"name\": \"replay\", \"class\": \"batch\", \"arrival\": {\"kind\": "
				   "\"trace\", \"trace\": \"day.jsonl\"}, \"warmup_requests\": 0}"
	};
	struct made_request q = { .ttft_ns = MAKER_MS, .gap_ns = MAKER_MS, .out_tok = 16 };
	make_run(m, &run);
	size_t end = m->file[MF_EVENTS].len; /* before the end of the journal */
	while (m->file[MF_EVENTS].p[end - 2] != '\n')
		end--;
	buf_clear(&m->file[MF_SCHEDULE]);
	m->file[MF_EVENTS].len = end - 1;
	m->seq--;
	maker_schedule(m);
	maker_calibration(m, "trace", "before", 1000, 1000);
	maker_calibration(m, "trace", "after", 1000, 1000);
	maker_cell_begin(m, "replay/trace", 0);
	uint64_t begin_ns = m->t_ns;
	for (uint64_t k = 0; k < 5; k++) {
		buf_addf(&m->file[MF_SCHEDULE],
		         "{\"cell\":\"replay/trace\",\"kind\":\"load\",\"k\":%" PRIu64 ",\"due_ns\":%" PRIu64
		         ",\"prompt_tok\":32,\"output_tok\":16,\"conv\":null,\"turn\":null,\"part\":null,"
		         "\"canary\":false}\n",
		         k, k * due_step_ns);
		q.free_ns = begin_ns + k * 100 * MAKER_MS;
		maker_request(m, "replay/trace", REC_LOAD, &q);
	}
	made_whole_cell(m, "replay/trace", begin_ns, 5, 1);
	struct json_out *o = maker_event(m, "run_end");
	jo_str(o, "status", "complete");
	maker_event_end(m);
}

static void a_trace_is_read_as_it_stands(void **state)
{
	struct maker m;
	trace_run(&m, 100 * MAKER_MS);
	struct judged got = judge(&m);
	if (got.n_missing)
		fail_msg("%s", got.first);
	assert_non_null(strstr(got.json, "\"id\": \"replay/trace\""));
	free(got.json);
	maker_done(&m);
	trace_run(&m, 99 * MAKER_MS);
	got = judge(&m);
	assert_int_equal(got.n_missing, 4);
	assert_non_null(strstr(got.first, "another due time than planned"));
	free(got.json);
	maker_done(&m);
}

static void a_changed_token_byte_is_told(void **state)
{
	struct maker m;
	make_run(&m, &good);
	for (size_t at = 0; at < m.file[MF_TOKENS].len; at += 97) {
		m.file[MF_TOKENS].p[at] ^= 1;
		struct judged got = judge(&m);
		if (!got.n_missing || got.verdict >= VERDICT_INCONCLUSIVE)
			fail_msg("byte %zu: verdict %s", at, verdict_words[got.verdict]);
		free(got.json);
		m.file[MF_TOKENS].p[at] ^= 1;
	}
	maker_done(&m);
}

static void a_lock_of_another_plan_blocks(void **state)
{
	struct maker m;
	make_run(&m, &good);
	put(&m.file[MF_PLAN], "A made run", "A MADE run", 0);
	struct judged got = judge(&m);
	assert_int_equal(got.verdict, VERDICT_BLOCKED);
	assert_non_null(strstr(got.json, "the lock is of another plan"));
	free(got.json);
	maker_done(&m);
}

static void rules_we_do_not_know_are_never_accepted(void **state)
{
	struct maker m;
	make_run(&m, &good);
	put(&m.file[MF_LOCK], "\"rules\": 1", "\"rules\": 2", 0);
	struct judged got = judge(&m);
	assert_int_equal(got.verdict, VERDICT_INCONCLUSIVE);
	free(got.json);
	maker_done(&m);
}

static void every_flipped_byte_is_survived(void **state)
{
	struct maker m;
	uint64_t x = 1;
	struct made_run small = { .requests = 30, .criteria = P90, .n = 30, .more = true };
	make_run(&m, &small);
	for (unsigned k = 0; k < 3000; k++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		struct buf *b = &m.file[1 + (x >> 33) % (MF_N - 1)];
		size_t at = (x >> 20) % b->len;
		char old = b->p[at];
		b->p[at] = (char)(old ^ (1 << (x >> 60) % 8));
		struct judged got = judge(&m);
		free(got.json);
		b->p[at] = old;
	}
	maker_done(&m);
}

static void too_many_complaints_are_counted(void **state)
{
	struct maker m;
	make_run(&m, &good);
	for (int i = 0; i < 5000; i++)
		buf_adds(&m.file[MF_REQUESTS], "rubbish\n");
	struct judged got = judge(&m);
	assert_int_equal(got.n_missing, 101);
	assert_non_null(strstr(got.json, "and 4900 more, not listed"));
	free(got.json);
	maker_done(&m);
}

static void finds_members_by_name_and_frees_what_it_owns(void **state)
{
	struct member_set set = { 0 };
	char *owned = strdup("abc");
	assert_int_equal(member_add(&set, "a", owned, 3, owned), 0);
	assert_int_equal(member_add(&set, "b", "xy", 2, NULL), 0);
	assert_int_equal(member_find(&set, "b")->len, 2);
	assert_null(member_find(&set, "c"));
	member_set_done(&set);
	assert_int_equal(set.n, 0);
	member_set_done(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_run_is_read_without_complaint),
		cmocka_unit_test(the_same_bytes_give_the_same_verdict_file),
		cmocka_unit_test(a_missing_file_is_told_and_never_accepted),
		cmocka_unit_test(without_a_plan_there_is_nothing_to_report_on),
		cmocka_unit_test(a_file_cut_anywhere_is_told_and_never_accepted),
		cmocka_unit_test(what_stands_before_a_cut_line_counts),
		cmocka_unit_test(one_thing_changed_is_told_and_never_accepted),
		cmocka_unit_test(one_thing_changed_about_the_load_is_told),
		cmocka_unit_test(a_trace_is_read_as_it_stands),
		cmocka_unit_test(a_changed_token_byte_is_told),
		cmocka_unit_test(a_lock_of_another_plan_blocks),
		cmocka_unit_test(rules_we_do_not_know_are_never_accepted),
		cmocka_unit_test(every_flipped_byte_is_survived),
		cmocka_unit_test(too_many_complaints_are_counted),
		cmocka_unit_test(finds_members_by_name_and_frees_what_it_owns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
