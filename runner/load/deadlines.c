/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines by our own clock, looked at every tick: libcurl's timers know neither the first byte nor a stall.
 */
#include "load/load_int.h"

#include "base/clock.h"

#include <stdio.h>

static bool over(uint64_t limit_ns, uint64_t since_ns, uint64_t now_ns)
{
	return limit_ns && now_ns > since_ns && now_ns - since_ns > limit_ns;
}

/* TRANSPORT_COMPLETE = within its time. */
static enum transport late(const struct slot *s, const struct load_spec *spec, uint64_t now_ns, char why[128])
{
	double s_of = 1.0 / (double)NS_PER_S;
	if (over(spec->deadline_ns, s->turn.first_sent_ns, now_ns)) {
		snprintf(why, 128, "deadline: not ended within %g s", (double)spec->deadline_ns * s_of);
		return TRANSPORT_TIMEOUT;
	}
	if (!s->connected && over(spec->connect_timeout_ns, s->sent_ns, now_ns)) {
		snprintf(why, 128, "connect: no connection within %g s",
		         (double)spec->connect_timeout_ns * s_of);
		return TRANSPORT_TIMEOUT;
	}
	if (s->last_rx_ns == 0 && over(spec->first_byte_timeout_ns, s->sent_ns, now_ns)) {
		snprintf(why, 128, "first byte: none within %g s",
		         (double)spec->first_byte_timeout_ns * s_of);
		return TRANSPORT_TIMEOUT;
	}
	if (s->last_rx_ns && over(spec->stall_timeout_ns, s->last_rx_ns, now_ns)) {
		snprintf(why, 128, "no byte for %g s, after %llu token events",
		         (double)spec->stall_timeout_ns * s_of, (unsigned long long)s->rec.tok_n);
		return TRANSPORT_STALLED;
	}
	return TRANSPORT_COMPLETE;
}

void deadlines_check(struct load *ld, uint64_t now_ns)
{
	char why[128];
	for (size_t i = ld->n_busy; i-- > 0;) {
		struct slot *s = ld->busy[i];
		if (answer_whole(&s->ans) && over(AFTER_DONE_NS, s->last_rx_ns, now_ns)) {
			s->rec.warnings++; /* the server keeps an answer open that is complete */
			slot_stop(s, TRANSPORT_COMPLETE, "");
			continue;
		}
		enum transport how = late(s, ld->spec, now_ns, why);
		if (how != TRANSPORT_COMPLETE)
			slot_stop(s, how, why);
	}
}
