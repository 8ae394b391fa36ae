/* SPDX-License-Identifier: Apache-2.0 */
/* Between prompts_cell.c (what the load asks), prompts_body.c (making one body) and prompts_ahead.c (the
 * thread that makes them ahead of need). */
#ifndef TRIAL_PROMPTS_BODIES_H
#define TRIAL_PROMPTS_BODIES_H

#include "base/hash.h"
#include "trial/prompts_parts.h"

#include <pthread.h>

#define BODIES_BLOCK 1024
#define EARLY_BYTES_MAX (256u << 20)
#define AHEAD_MAX 4096 /* of a schedule without end */

struct digest {
	uint64_t k, len;
	uint8_t sha256[SHA256_BYTES];
};

/* One request: what the load sees comes first. */
struct body {
	struct load_request rq;
	char *bytes;
	struct talk *talk; /* the conversation up to and with this turn; moves to the next one */
	const struct talk_form *form;
	bool hashed, ended;
	size_t weight_bytes;
	struct body *next;          /* in one of the lists below */
	struct body *older, *newer; /* out with the load */
};

struct list {
	struct body *first, *last;
};

struct cell_bodies {
	struct texts texts;
	struct fits fits;
	const struct sched *sched;
	const struct proto *proto;
	struct talk_form *forms;
	uint64_t turns, n_first; /* requests that wait for no other; UINT64_MAX = no last one */
	struct fill *fill;       /* what needed the tokenizer, by g; NULL = nothing did */
	uint64_t n_fill;
	struct buf text, body; /* of the one being made: used again, since long ones cost more to allocate */

	pthread_t thread;
	bool running, stop, idle;
	pthread_mutex_t lock;
	pthread_cond_t made, work;
	/* under the lock from here on */
	uint64_t n_made, n_asked; /* n_asked: one more than the largest g taken */
	struct body ***blocks;    /* bodies by g, NULL once taken */
	struct digest **digests;  /* by g */
	size_t n_blocks;
	uint64_t held_bytes, dead_bytes;
	struct list to_hash, dead;
	struct body *out;     /* with the load; those that it never gives back are freed at the end */
	struct digest *later; /* of later turns */
	size_t n_later, cap_later;
	uint64_t *sent; /* k of what has a record */
	size_t n_sent, cap_sent;
	bool failed;
	struct err why;
};

/* --- prompts_body.c --------------------------------------------------------------------------------------
 */

void body_free(struct body *b);
/* Makes number n_made. One thread at a time, without the lock. */
warn_unused int bodies_make_next(struct cell_bodies *c, struct err *err);
/* The turn behind `ended`, whose conversation it takes over; NULL = too long, or no memory. */
struct body *body_next_turn(struct cell_bodies *c, struct body *ended, const struct sched_item *i,
                            const char *text, size_t text_len);
/* Room for one more in a list that doubles; 0, or -1 without memory. */
int bodies_room(void **list, size_t n, size_t *cap, size_t size);
void body_push(struct list *l, struct body *b);

/* --- prompts_ahead.c: under the lock ----------------------------------------------------------------------
 */

/* Wakes the thread when there is something to hash, or much to free, or little left to take. */
void bodies_wake(struct cell_bodies *c);
void bodies_free_all(struct body *first); /* a list; needs no lock */

#endif
