/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of low priority makes bodies ahead of need, hashes later turns and frees what was answered. */
#include "trial/prompts_bodies.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define AHEAD_MIN 16          /* made beyond the last one taken, whatever they weigh */
#define DEAD_BYTES (1u << 20) /* so much to free is worth waking the thread */
#define HELPER_NICE 10

static struct body *take_all(struct list *l)
{
	struct body *all = l->first;
	*l = (struct list){ 0 };
	return all;
}

static bool wants_more(const struct cell_bodies *c)
{
	uint64_t ahead = c->n_made > c->n_asked ? c->n_made - c->n_asked : 0;
	if (c->n_made >= c->n_first || c->failed)
		return false;
	if (ahead < AHEAD_MIN)
		return true;
	return c->held_bytes < EARLY_BYTES_MAX && (c->n_first != UINT64_MAX || ahead < AHEAD_MAX);
}

void bodies_wake(struct cell_bodies *c)
{
	uint64_t ahead = c->n_made > c->n_asked ? c->n_made - c->n_asked : 0;
	bool low = c->n_made < c->n_first && (ahead < AHEAD_MAX / 2 || c->held_bytes < EARLY_BYTES_MAX / 2);
	if (c->idle && (c->to_hash.first || c->dead_bytes >= DEAD_BYTES || (low && wants_more(c))))
		pthread_cond_signal(&c->work);
}

void bodies_free_all(struct body *b)
{
	while (b) {
		struct body *next = b->next;
		body_free(b);
		b = next;
	}
}

/* What was ended meanwhile can be freed now; the rest is with the load. */
static void hash_all(struct cell_bodies *c, struct body *b)
{
	while (b) {
		struct body *next = b->next;
		struct digest d = { .k = b->rq.k, .len = b->rq.body_len };
		sha256_of(b->bytes, b->rq.body_len, d.sha256);
		pthread_mutex_lock(&c->lock);
		if (bodies_room((void **)&c->later, c->n_later, &c->cap_later, sizeof(*c->later)))
			c->failed = true;
		else
			c->later[c->n_later++] = d;
		b->hashed = true;
		if (b->ended) {
			body_push(&c->dead, b);
			c->dead_bytes += b->weight_bytes;
		}
		pthread_mutex_unlock(&c->lock);
		b = next;
	}
}

static void work_once(struct cell_bodies *c)
{
	struct body *dead = take_all(&c->dead), *to_hash = take_all(&c->to_hash);
	bool more = wants_more(c);
	struct err why = { 0 };
	c->dead_bytes = 0;
	pthread_mutex_unlock(&c->lock);
	bodies_free_all(dead);
	hash_all(c, to_hash);
	int rc = more ? bodies_make_next(c, &why) : 0;
	pthread_mutex_lock(&c->lock);
	if (rc) {
		c->failed = true;
		c->why = why;
		pthread_cond_broadcast(&c->made);
	}
}

static void *help(void *ctx)
{
	struct cell_bodies *c = ctx;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HELPER_NICE);
	pthread_mutex_lock(&c->lock);
	for (;;) {
		bool busy = c->dead_bytes || c->to_hash.first || (wants_more(c) && !c->stop);
		if (busy) {
			work_once(c);
		} else if (c->stop) {
			break;
		} else {
			c->idle = true;
			pthread_cond_wait(&c->work, &c->lock);
			c->idle = false;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int cell_bodies_begin(struct cell_bodies *c, struct err *err)
{
	int why = pthread_create(&c->thread, NULL, help, c);
	if (why)
		return err_sys(err, ERR_ENV, why, "%s: no thread for its requests", c->texts.cell->id);
	c->running = true;
	return 0;
}

int cell_bodies_end(struct cell_bodies *c, struct err *err)
{
	if (!c->running)
		return 0;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->running = false;
	if (!c->failed)
		return 0;
	if (c->why.msg[0]) {
		*err = c->why;
		return -1;
	}
	return err_set(err, ERR_ENV, "%s: no memory for its requests", c->texts.cell->id);
}
