/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: new requests by the schedule, the next turn of a conversation, a request once more. A
 * slot that waits for one of the last two is taken: nobody else gets it. */
#include "load/shard.h"

#include "base/clock.h"

/* A closed loop opens one stream after the other: a connection costs about half of this, and a burst that no
 * client can send at once would only show up as a late client. */
#define OPENING_STEP_NS (200 * NS_PER_US)

bool turns_closed_loop(const struct shard *r)
{
	return r->ld.spec->arrival == ARRIVAL_CLOSED;
}

/* --- source -------------------------------------------------------------------------------------------- */

static void lock_source(struct shard *r)
{
	if (r->cell->n_shards > 1)
		pthread_mutex_lock(&r->cell->source_lock);
}

static void unlock_source(struct shard *r)
{
	if (r->cell->n_shards > 1)
		pthread_mutex_unlock(&r->cell->source_lock);
}

static const struct load_request *source_get(struct shard *r, uint64_t g)
{
	const struct load_source *src = &r->ld.spec->source;
	lock_source(r);
	const struct load_request *rq = src->get(src->ctx, g);
	unlock_source(r);
	return rq;
}

static void source_done(struct shard *r, const struct load_request *rq)
{
	const struct load_source *src = &r->ld.spec->source;
	if (!src->done || !rq)
		return;
	lock_source(r);
	src->done(src->ctx, rq);
	unlock_source(r);
}

static const struct load_request *source_follow(struct shard *r, struct slot *s, const char *text)
{
	const struct load_source *src = &r->ld.spec->source;
	lock_source(r);
	const struct load_request *rq = src->follow(src->ctx, s->turn.rq, &s->rec, text, s->text.len);
	unlock_source(r);
	return rq;
}

/* --- sending ------------------------------------------------------------------------------------------- */

static void send_turn(struct shard *r, struct slot *s, const struct load_request *rq, uint64_t due_ns)
{
	struct load *ld = &r->ld;
	struct slot_turn *t = &s->turn;
	bool again = t->n_sent > 0;
	t->rq = rq;
	if (again)
		ld->result.n_retries++;
	else
		ld->result.scheduled++;
	slot_send(s, rq, due_ns);
	if (!again) {
		t->first_due_ns = due_ns;
		t->first_sent_ns = s->sent_ns;
		hist_add(&ld->send_lag, s->sent_ns > due_ns ? s->sent_ns - due_ns : 0);
	}
	s->rec.attempts = ++t->n_sent;
	s->rec.due_ns = transfer_rel(ld, t->first_due_ns);
	s->rec.first_sent_ns = transfer_rel(ld, t->first_sent_ns);
	uint64_t in_flight = ld->result.scheduled - ld->result.done;
	if (in_flight > ld->result.max_in_flight)
		ld->result.max_in_flight = in_flight;
}

static uint64_t wanted(const struct shard *r)
{
	uint64_t n = r->ld.spec->n_requests;
	return n ? n : UINT64_MAX;
}

/* Open loop: every n-th request of the schedule is this shard's. */
static void get_next(struct shard *r)
{
	uint64_t g = r->index + r->cell->n_shards * r->n_got++;
	r->next = g < wanted(r) ? source_get(r, g) : NULL;
	r->open_due_ns = r->next ? r->cell->start_ns + r->next->due_ns : UINT64_MAX;
	if (!r->next)
		turns_close(r, "complete");
}

static struct slot *free_slot(struct shard *r)
{
	struct load *ld = &r->ld;
	if (ld->n_free)
		return ld->free_slots[--ld->n_free];
	struct slot *s = slot_new(ld);
	if (s) {
		s->index = r->index + ld->n_slots * r->cell->n_shards;
		ld->slots[ld->n_slots++] = s;
	}
	return s;
}

static void send_open(struct shard *r)
{
	struct slot *s = free_slot(r);
	const struct load_request *rq = r->next;
	uint64_t due = r->open_due_ns;
	if (!s) {
		r->ld.oom = true;
		turns_close(r, "no_memory");
		return;
	}
	r->next = NULL;
	s->turn.n_sent = 0;
	send_turn(r, s, rq, due);
	get_next(r);
}

/* Closed loop: whichever slot of whichever shard is free first takes the next request. */
static void send_new(struct shard *r, struct slot *s, uint64_t due_ns)
{
	uint64_t *end = &r->cell->end_g, g = __atomic_fetch_add(&r->cell->next_g, 1, __ATOMIC_RELAXED);
	const struct load_request *rq = NULL;
	if (g < __atomic_load_n(end, __ATOMIC_RELAXED) && !(rq = source_get(r, g)))
		__atomic_store_n(end, g, __ATOMIC_RELAXED);
	if (!rq) {
		turns_close(r, "complete");
		return;
	}
	s->turn.n_sent = 0;
	send_turn(r, s, rq, due_ns);
}

static void send_waiting(struct shard *r)
{
	uint64_t due = r->dues.heap[0].due_ns;
	struct slot *s = dues_pop(&r->dues);
	switch (s->turn.waits_for) {
	case TURN_NEW:
		send_new(r, s, due);
		return;
	case TURN_FOLLOW:
		s->turn.n_sent = 0;
		break;
	case TURN_RETRY:
		break;
	}
	r->n_waiting--;
	send_turn(r, s, s->turn.rq, due);
}

static bool can_send_open(const struct shard *r)
{
	return r->next && !r->closed_by && (r->ld.n_free || r->ld.n_slots < r->ld.max_slots);
}

uint64_t turns_next_due(struct shard *r)
{
	while (r->closed_by && r->dues.n && r->dues.heap[0].slot->turn.waits_for == TURN_NEW)
		dues_pop(&r->dues);
	uint64_t due = r->dues.n ? r->dues.heap[0].due_ns : UINT64_MAX;
	return can_send_open(r) && r->open_due_ns < due ? r->open_due_ns : due;
}

void turns_send_due(struct shard *r, uint64_t now_ns)
{
	uint64_t due;
	while ((due = turns_next_due(r)) <= now_ns) {
		if (due >= r->cell->until_ns)
			turns_stop(r, "duration", false); /* everything that waits is due even later */
		else if (r->dues.n && r->dues.heap[0].due_ns == due)
			send_waiting(r);
		else
			send_open(r);
	}
}

/* --- what has ended ------------------------------------------------------------------------------------ */

static void wait_for(struct shard *r, struct slot *s, int what, uint64_t due_ns)
{
	s->turn.waits_for = what;
	r->n_waiting += what != TURN_NEW;
	dues_push(&r->dues, s, due_ns);
}

static void keep(struct shard *r, struct slot *s, const char *text)
{
	struct load *ld = &r->ld;
	const struct load_sink *sink = &ld->spec->sink;
	if (ld->sink_failed)
		return;
	int rc = r->spool ? spool_put(r->spool, &s->rec, s->ans.tokens, s->ans.tokens_len, text, s->text.len)
	                  : sink->take(sink->ctx, &s->rec, s->ans.tokens, s->ans.tokens_len, text,
	                               s->text.len);
	if (rc != 0) {
		ld->sink_failed = true;
		r->closed_by = "disk_full";
		__atomic_store_n(&r->cell->failed, true, __ATOMIC_RELAXED);
	}
}

static void count(struct shard *r, const struct record *rec)
{
	struct load *ld = &r->ld;
	ld->result.done++;
	ld->n_failed += rec->outcome != OUTCOME_OK && rec->outcome != OUTCOME_CANCELLED;
	if (rec->first_token_ns != REC_NONE)
		hist_add(&ld->ttft,
		         rec->first_token_ns > rec->due_ns ? rec->first_token_ns - rec->due_ns : 0);
}

/* The request of this slot has its record. */
static void settle(struct shard *r, struct slot *s, uint64_t end_ns)
{
	struct load *ld = &r->ld;
	const struct load_spec *spec = ld->spec;
	const char *text = spec->keep_text ? (s->text.p ? s->text.p : "") : NULL;
	const struct load_request *ended = s->turn.rq, *more = NULL;
	uint64_t follow_ns = end_ns + spec->follow_pause_ns;
	count(r, &s->rec);
	keep(r, s, text);
	if (spec->source.follow && !r->stopped && !ld->sink_failed && end_ns < r->cell->until_ns)
		more = source_follow(r, s, text);
	source_done(r, ended);
	s->turn.rq = more;
	if (more)
		wait_for(r, s, TURN_FOLLOW, follow_ns);
	else if (!turns_closed_loop(r))
		ld->free_slots[ld->n_free++] = s;
	else if (!r->closed_by)
		wait_for(r, s, TURN_NEW, end_ns + spec->think_ns);
}

void turns_take_finished(struct load *ld, struct slot *s)
{
	struct shard *r = (struct shard *)(void *)ld;
	uint64_t end_ns = ld->spec->origin_ns + s->rec.end_ns;
	uint64_t again_ns = r->stopped ? UINT64_MAX : retry_due_ns(s, end_ns);
	if (again_ns < r->cell->until_ns && again_ns != UINT64_MAX)
		wait_for(r, s, TURN_RETRY, again_ns);
	else
		settle(r, s, end_ns);
}

/* --- begin and end ------------------------------------------------------------------------------------- */

void turns_begin(struct shard *r)
{
	struct load *ld = &r->ld;
	if (!turns_closed_loop(r)) {
		get_next(r);
		return;
	}
	for (size_t i = 0; i < ld->n_slots; i++)
		wait_for(r, ld->slots[i], TURN_NEW,
		         r->cell->start_ns + ld->slots[i]->index * OPENING_STEP_NS);
}

void turns_close(struct shard *r, const char *why)
{
	if (!r->closed_by)
		r->closed_by = why;
	source_done(r, r->next);
	r->next = NULL;
}

/* A schedule that was sent whole is complete, unless this takes something away from it. */
void turns_stop(struct shard *r, const char *why, bool cuts)
{
	struct load *ld = &r->ld;
	bool takes = r->n_waiting > 0 || (ld->n_busy && (cuts || ld->spec->source.follow));
	if (r->stopped)
		return;
	if (takes)
		r->closed_by = why;
	turns_close(r, why);
	r->stopped = true;
	size_t n = r->dues.n;
	r->dues.n = r->n_waiting = 0;
	for (size_t i = 0; i < n; i++) {
		struct slot *s = r->dues.heap[i].slot;
		if (s->turn.waits_for == TURN_RETRY) {
			settle(r, s, ld->spec->origin_ns + s->rec.end_ns);
		} else if (s->turn.waits_for == TURN_FOLLOW) {
			source_done(r, s->turn.rq);
			s->turn.rq = NULL;
		}
	}
}
