/* SPDX-License-Identifier: Apache-2.0 */
/* How exactly an open loop keeps its due times, asleep and with busy polling. The figures are printed; what
 * must hold on any machine is the schedule itself and the rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_SHARE 0.05 /* of one second on a busy machine */

static const char *program;

static void keep_rate(uint64_t rate_rps, bool busy_poll, unsigned threads)
{
	struct engine e;
	uint64_t n = rate_rps, first = UINT64_MAX, last = 0;
	if (engine_start(&e, program, "--ttft-ms 1 --itl-us 100 --slots 512 -c 4000000") < 0)
		fail_msg("does not serve");
	struct drive *d = drive_new(&e, n, 0, 0);
	assert_non_null(d);
	d->output_tok = 1;
	d->step_ns = NS_PER_S / rate_rps;
	d->spec.arrival = ARRIVAL_CONSTANT;
	d->spec.busy_poll = busy_poll;
	d->spec.threads = threads;
	if (drive_run(d) < 0)
		fail_msg("%s", d->err.msg);
	assert_int_equal(d->n, n);
	for (size_t i = 0; i < d->n; i++) {
		const struct record *r = &d->rows[i];
		assert_int_equal(r->outcome, OUTCOME_OK);
		assert_int_equal(r->due_ns, d->res.start_ns + r->k * d->step_ns);
		assert_true(r->first_sent_ns >= r->due_ns);
		first = r->first_sent_ns < first ? r->first_sent_ns : first;
		last = r->first_sent_ns > last ? r->first_sent_ns : last;
	}
	double rate = (double)(n - 1) * 1e9 / (double)(last - first);
	print_message("# %d requests/s%s, %u thread(s): sent %.1f/s, send lag us p50 %.0f p99 %.0f max %.0f, "
	              "CPU %.2f\n",
	              (int)rate_rps, busy_poll ? ", busy polling" : "", threads, rate,
	              (double)d->res.send_lag_p50_ns / 1e3, (double)d->res.send_lag_p99_ns / 1e3,
	              (double)d->res.send_lag_max_ns / 1e3,
	              (double)d->res.client_cpu_ns / (double)d->res.wall_ns);
	assert_true(rate > (double)rate_rps * (1 - RATE_SHARE) && rate < (double)rate_rps * (1 + RATE_SHARE));
	drive_free(d);
	engine_stop(&e);
	engine_free(&e);
}

static void a_thousand_a_second(void **state)
{
	keep_rate(1000, false, 1);
}

static void two_thousand_a_second(void **state)
{
	keep_rate(2000, false, 1);
}

static void two_thousand_a_second_on_two_threads(void **state)
{
	keep_rate(2000, false, 2);
}

static void two_thousand_a_second_busy_polling(void **state)
{
	keep_rate(2000, true, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_a_second),
		cmocka_unit_test(two_thousand_a_second),
		cmocka_unit_test(two_thousand_a_second_on_two_threads),
		cmocka_unit_test(two_thousand_a_second_busy_polling),
	};
	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests_name("exact", tests, NULL, NULL);
}
