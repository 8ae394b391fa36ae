/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the load engine that need no server: due times, records kept for later, Retry-After, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "load/dues.h"
#include "load/limits.h"
#include "load/load_int.h"
#include "load/soundness.h"
#include "load/spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* --- due times ----------------------------------------------------------------------------------------- */

static void due_times_come_in_order_and_equal_ones_as_they_were_put(void **state)
{
	enum { N = 1000 };
	struct slot *slots = calloc(N, sizeof *slots);
	struct dues d;
	uint64_t x = 1, last_due = 0, last_put = 0;
	assert_non_null(slots);
	assert_int_equal(dues_init(&d, N), 0);
	for (size_t i = 0; i < N; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		slots[i].index = i;
		dues_push(&d, &slots[i], x >> 59);
	}
	for (size_t i = 0; i < N; i++) {
		uint64_t due = d.heap[0].due_ns, put = dues_pop(&d)->index;
		assert_true(due > last_due || (due == last_due && (i == 0 || put > last_put)));
		last_due = due;
		last_put = put;
	}
	assert_int_equal(d.n, 0);
	dues_done(&d);
	free(slots);
}

/* --- records kept for later ---------------------------------------------------------------------------- */

struct kept {
	size_t n, fail_at;
	uint64_t last_end_ns, last_k, sum;
};

static uint8_t byte_of(uint64_t k, size_t i)
{
	return (uint8_t)(k * 31 + i * 7);
}

static int take(void *ctx, struct record *rec, const uint8_t *tokens, size_t len, const char *text,
                size_t text_len)
{
	struct kept *kept = ctx;
	assert_true(rec->end_ns > kept->last_end_ns ||
	            (rec->end_ns == kept->last_end_ns && (kept->n == 0 || rec->k > kept->last_k)));
	assert_int_equal(len, rec->k % 3000);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(tokens[i], byte_of(rec->k, i));
	if (rec->k % 3 == 0) {
		assert_null(text);
	} else {
		assert_int_equal(text_len, rec->k % 5);
		assert_int_equal(strlen(text), text_len);
		assert_memory_equal(text, "abcde", text_len);
	}
	kept->last_end_ns = rec->end_ns;
	kept->last_k = rec->k;
	kept->sum += rec->k;
	kept->n++;
	return kept->n == kept->fail_at ? -1 : 0;
}

static void put(struct spool *sp, uint64_t k)
{
	static uint8_t tokens[3000];
	struct record rec;
	record_init(&rec);
	rec.k = k;
	rec.end_ns = k / 7; /* equal ones too */
	for (size_t i = 0; i < k % 3000; i++)
		tokens[i] = byte_of(k, i);
	assert_int_equal(
		spool_put(sp, &rec, tokens, (size_t)(k % 3000), k % 3 ? "abcde" : NULL, (size_t)(k % 5)), 0);
}

static void records_come_back_by_their_ends_from_memory_and_file(void **state)
{
	static const size_t memory[] = { 0, 1u << 20, SPOOL_MEMORY_BYTES };
	enum { N = 3000, SPOOLS = 3 };
	for (size_t m = 0; m < sizeof memory / sizeof *memory; m++) {
		struct spool *sp[SPOOLS];
		struct kept kept = { 0 };
		const struct load_sink sink = { take, &kept };
		for (size_t i = 0; i < SPOOLS; i++)
			sp[i] = spool_new(memory[m]);
		for (uint64_t k = 0; k < N; k++)
			put(sp[k * 13 % SPOOLS], k);
		assert_int_equal(spool_merge(sp, SPOOLS, &sink), 0);
		assert_int_equal(kept.n, N);
		assert_int_equal(kept.sum, (uint64_t)N * (N - 1) / 2);
		for (size_t i = 0; i < SPOOLS; i++)
			spool_free(sp[i]);
	}
}

static void a_sink_that_fails_ends_the_merge(void **state)
{
	struct spool *sp = spool_new(1u << 20);
	struct kept kept = { .fail_at = 3 };
	const struct load_sink sink = { take, &kept };
	for (uint64_t k = 0; k < 10; k++)
		put(sp, k);
	assert_int_equal(spool_merge(&sp, 1, &sink), -1);
	assert_int_equal(kept.n, 3);
	spool_free(sp);
}

static void what_cannot_be_kept_is_said(void **state)
{
	struct spool *sp = spool_new(0);
	struct record rec;
	record_init(&rec);
	setenv("TMPDIR", "/proc/nowhere", 1);
	assert_int_equal(spool_put(sp, &rec, NULL, 0, NULL, 0), -1);
	unsetenv("TMPDIR");
	spool_free(sp);
}

/* --- Retry-After --------------------------------------------------------------------------------------- */

static void retry_after_is_read_in_both_forms_and_bounded(void **state)
{
	/* 1994-11-06 08:49:37 UTC */
	const int64_t now = 784111777ll * (int64_t)NS_PER_S;
	static const struct {
		const char *value;
		uint64_t want_s;
	} t[] = {
		{ "0", 0 },
		{ "7", 7 },
		{ "60", 60 },
		{ "61", 60 },
		{ "99999999999999999999999999999999999999", 60 },
		{ "", 0 },
		{ "-3", 0 },
		{ "1.5", 0 },
		{ "3 s", 0 },
		{ "soon", 0 },
		{ "Sun, 06 Nov 1994 08:49:57 GMT", 20 },
		{ "Sunday, 06-Nov-94 08:49:57 GMT", 20 },
		{ "Sun Nov  6 08:49:57 1994", 20 },
		{ "Sun, 06 Nov 1994 08:49:37 GMT", 0 },
		{ "Sun, 06 Nov 1994 07:00:00 GMT", 0 },
		{ "Mon, 07 Nov 1994 08:49:37 GMT", 60 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		uint64_t got = retry_after_ns(t[i].value, now);
		if (got != t[i].want_s * NS_PER_S)
			fail_msg("%s: %llu ns", t[i].value, (unsigned long long)got);
	}
}

/* --- limits -------------------------------------------------------------------------------------------- */

static struct load_spec spec_of(uint64_t streams)
{
	return (struct load_spec){ .url = "http://127.0.0.1:1", .concurrency = streams };
}

static void limits_are_told_in_numbers(void **state)
{
	struct load_spec spec = spec_of(10);
	struct load_limits l, un;
	struct err err;
	assert_int_equal(limits_check(&l, &spec, &err), 0);
	assert_int_equal(l.streams, 10);
	assert_true(l.fds_needed > 10 && l.fds_needed <= l.fds_limit);
	assert_true(l.max_streams >= 10 && l.max_streams <= LOAD_STREAMS_MAX);
	assert_int_equal(l.ports_needed, 10);
	assert_true(l.ports >= l.max_streams);
	assert_true(l.memory_needed_bytes >= 10 * sizeof(struct slot));
	spec.n_requests = 4; /* no more in flight than there are */
	assert_int_equal(limits_check(&l, &spec, &err), 0);
	assert_int_equal(l.streams, 4);
	spec.url = "unix:///run/x.sock";
	limits_read(&un, &spec);
	assert_int_equal(un.ports_needed, 0);
	assert_true(un.ports == UINT64_MAX);
}

static void what_is_short_is_named_with_its_remedy(void **state)
{
	const struct load_limits fine = {
		.threads = 1,
		.streams = 100,
		.fds_needed = 200,
		.fds_limit = 200,
		.ports_needed = 100,
		.ports = 100,
		.memory_needed_bytes = 1u << 20,
		.memory_bytes = 1u << 20,
	};
	struct load_limits bad[5] = { fine, fine, fine, fine, fine };
	bad[0].fds_limit = 199;
	bad[1].ports = 99;
	bad[2].memory_bytes = 1000;
	bad[3].streams = LOAD_STREAMS_MAX + 1;
	bad[4].threads = LOAD_THREADS_MAX + 1;
	static const struct {
		enum err_class cls;
		const char *says, *remedy;
	} want[] = {
		{ ERR_ENV, "100 streams need 200 file descriptors, the limit is 199", "ulimit -n" },
		{ ERR_ENV, "need as many local ports, there are 99", "ip_local_port_range" },
		{ ERR_ENV, "need 1 MiB of memory, 0 MiB are free", "fewer streams" },
		{ ERR_PLAN, "65537 streams from one process", "more machines" },
		{ ERR_PLAN, "257 threads", "at most 256" },
	};
	struct err err;
	assert_int_equal(limits_judge(&fine, &err), 0);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		assert_int_equal(limits_judge(&bad[i], &err), -1);
		assert_int_equal(err.cls, want[i].cls);
		if (!strstr(err.msg, want[i].says) || !strstr(err.msg, want[i].remedy))
			fail_msg("%s", err.msg);
	}
}

static void a_low_soft_limit_of_descriptors_is_raised(void **state)
{
	struct rlimit before;
	struct load_limits l;
	struct err err;
	struct load_spec spec = spec_of(500);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	if (before.rlim_max < 1000) {
		print_message("# skipped: the hard limit is below 1000\n");
		skip();
	}
	struct rlimit low = { 300, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(limits_check(&l, &spec, &err), 0);
	assert_int_equal(l.fds_limit, before.rlim_max);
	l.streams = 42; /* untouched by a failure */
	spec.concurrency = 1u << 30;
	assert_int_equal(limits_check(&l, &spec, &err), -1);
	assert_int_equal(l.streams, 42);
}

/* --- soundness ----------------------------------------------------------------------------------------- */

static void cpu_time_grows_with_work(void **state)
{
	uint64_t before = soundness_cpu_ns(), runq = soundness_runq_wait_ns();
	volatile uint64_t x = 1;
	for (int i = 0; i < 3000000; i++)
		x = x * 3 + 1;
	assert_true(soundness_cpu_ns() > before);
	if (runq != UINT64_MAX)
		assert_true(soundness_runq_wait_ns() >= runq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(due_times_come_in_order_and_equal_ones_as_they_were_put),
		cmocka_unit_test(records_come_back_by_their_ends_from_memory_and_file),
		cmocka_unit_test(a_sink_that_fails_ends_the_merge),
		cmocka_unit_test(what_cannot_be_kept_is_said),
		cmocka_unit_test(retry_after_is_read_in_both_forms_and_bounded),
		cmocka_unit_test(limits_are_told_in_numbers),
		cmocka_unit_test(what_is_short_is_named_with_its_remedy),
		cmocka_unit_test(a_low_soft_limit_of_descriptors_is_raised),
		cmocka_unit_test(cpu_time_grows_with_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
