/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

bool interrupt_drain, interrupt_abort;

static void on_signal(int sig)
{
	if (__atomic_load_n(&interrupt_drain, __ATOMIC_RELAXED))
		__atomic_store_n(&interrupt_abort, true, __ATOMIC_RELAXED);
	__atomic_store_n(&interrupt_drain, true, __ATOMIC_RELAXED);
}

void interrupt_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act;
	memset(&act, 0, sizeof(act));
	act.sa_handler = on_signal; /* no SA_RESTART: what waits shall wake up */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &act, NULL);
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
}
