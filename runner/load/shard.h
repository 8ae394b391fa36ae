/* SPDX-License-Identifier: Apache-2.0 */
/* One thread's part of a cell: a loop, an epoll, slots of its own. Shards share no lock on their hot path:
 * each keeps its records to itself (spool.h) and shows its progress four times a second. With one shard all
 * of it runs in the caller's thread and records go straight to the sink. */
#ifndef LOAD_SHARD_H
#define LOAD_SHARD_H

#include "load/dues.h"
#include "load/load_int.h"
#include "load/spool.h"

#include <pthread.h>

#define PROGRESS_NS (250ull * 1000 * 1000)

struct shard;

struct cell_run { /* what the shards of one load_run have in common */
	const struct load_spec *spec;
	unsigned n_shards;
	struct shard **shards;
	uint64_t next_g, end_g;      /* closed loop: next to be taken, first that is not there; atomic */
	uint64_t start_ns, until_ns; /* set before the gate opens */
	bool failed;                 /* a shard cannot go on: all end; atomic */
	pthread_mutex_t source_lock; /* more than one shard */
	pthread_mutex_t gate_lock;   /* for what follows */
	pthread_cond_t gate;
	unsigned n_ready, n_ended;
	bool open;
};

struct shard {
	struct load ld; /* first: take_finished finds the shard by it */
	struct cell_run *cell;
	unsigned index;
	pthread_t thread;
	struct dues dues;                /* slots that wait for a due time */
	size_t n_waiting;                /* those of them with a follow-up or a retry */
	const struct load_request *next; /* open loop: the one to send next, NULL = none */
	uint64_t open_due_ns;            /* its due time */
	uint64_t n_got;                  /* open loop */
	uint64_t armed_ns;               /* what due_fd is set to, 0 = nothing */
	uint64_t next_tick_ns, next_progress_ns;
	uint64_t died_ns; /* when the engine ended, 0 = it lives */
	uint64_t spun_ns; /* busy_poll: time spent looking in vain */
	uint64_t end_ns;
	bool watching;
	const char *closed_by; /* why no new request is sent, NULL = they still are */
	bool stopped;          /* nothing is sent any more, no follow-up and no retry either */
	struct spool *spool;   /* NULL: straight to the sink */
	int rc;
	struct err err;
	pthread_mutex_t shown_lock; /* more than one shard: what the caller's tick may read */
	struct load_progress shown;
	struct hist shown_ttft;
};

static inline bool load_flag(const bool *flag)
{
	return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

/* shard.c */
struct shard *shard_new(struct cell_run *cell, unsigned index, struct err *err); /* NULL with err */
warn_unused int shard_setup(struct shard *r, size_t max_slots, struct err *err);
void shard_run(struct shard *r); /* rc, err and ld.result tell how it went */
void shard_free(struct shard *r);
void shard_progress(const struct shard *r, struct load_progress *p);

/* turns.c: whose turn it is */
bool turns_closed_loop(const struct shard *r);
void turns_begin(struct shard *r);
/* When something is to be sent, UINT64_MAX = not before something ends. */
uint64_t turns_next_due(struct shard *r);
void turns_send_due(struct shard *r, uint64_t now_ns);
/* No new request any more; what waits for a follow-up or a retry goes on. */
void turns_close(struct shard *r, const char *why);
/* Nothing at all any more: what waited for a retry gets its record. `cuts`: what is in flight is cut too. */
void turns_stop(struct shard *r, const char *why, bool cuts);
void turns_take_finished(struct load *ld, struct slot *s);

#endif
