/* SPDX-License-Identifier: Apache-2.0 */
/* Sending again: only what the plan names, and only while it can still end in time. */
#include "load/load_int.h"

#include "base/clock.h"

#include <string.h>
#include <time.h>

#define RETRY_AFTER_MAX_S 60
#define HTTP_TOO_MANY 429
#define HTTP_UNAVAILABLE 503

uint64_t retry_after_ns(const char *value, int64_t wall_ns)
{
	size_t n_digits = strspn(value, "0123456789");
	uint64_t s = 0;
	if (n_digits && !value[n_digits]) {
		for (const char *p = value; *p && s <= RETRY_AFTER_MAX_S; p++)
			s = s * 10 + (uint64_t)(*p - '0');
		return (s < RETRY_AFTER_MAX_S ? s : RETRY_AFTER_MAX_S) * NS_PER_S;
	}
	time_t at = n_digits || !*value ? -1 : curl_getdate(value, NULL);
	int64_t now_s = wall_ns / (int64_t)NS_PER_S;
	if (at < 0 || at <= now_s)
		return 0;
	return (at - now_s < RETRY_AFTER_MAX_S ? (uint64_t)(at - now_s) : RETRY_AFTER_MAX_S) * NS_PER_S;
}

/* Deadlines that ended a request: those of the connection and of the first byte, since behind the total one
 * nothing is sent again. */
static bool is_asked(const struct load_retry *r, const struct record *rec)
{
	bool no_token = rec->first_token_ns == REC_NONE;
	switch (rec->outcome) {
	case OUTCOME_HTTP_STATUS:
		return r->on_status && (rec->http == HTTP_TOO_MANY || rec->http == HTTP_UNAVAILABLE);
	case OUTCOME_RESET:
	case OUTCOME_TRUNCATED:
		return r->on_reset && no_token;
	case OUTCOME_TIMEOUT:
		return r->on_timeout && no_token;
	case OUTCOME_OK:
	case OUTCOME_STREAM_ERROR:
	case OUTCOME_STALLED:
	case OUTCOME_EMPTY:
	case OUTCOME_CORRUPT:
	case OUTCOME_CANCELLED:
	case N_OUTCOMES:
		break;
	}
	return false;
}

uint64_t retry_due_ns(const struct slot *s, uint64_t end_ns)
{
	const struct load_spec *spec = s->ld->spec;
	const struct load_retry *r = &spec->retry;
	uint64_t pause, due;
	if (s->turn.n_sent > r->max || !is_asked(r, &s->rec) ||
	    __builtin_mul_overflow(s->turn.n_sent, r->backoff_ns, &pause))
		return UINT64_MAX;
	if (s->rec.outcome == OUTCOME_HTTP_STATUS) {
		uint64_t after = retry_after_ns(s->http.head.retry_after, clock_wall_ns());
		pause = after > pause ? after : pause;
	}
	if (__builtin_add_overflow(end_ns, pause, &due) ||
	    (spec->deadline_ns && due - s->turn.first_sent_ns >= spec->deadline_ns))
		return UINT64_MAX;
	return due;
}
