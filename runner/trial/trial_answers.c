/* SPDX-License-Identifier: Apache-2.0 */
/* answers.jsonl: what the texts of a cell's answers tell. The counters compress each text, which is no work
 * for the load's loop: it copies the text, a thread of low priority does the rest. */
#include "base/json_out.h"
#include "model/canary.h"
#include "model/surface.h"
#include "trial/trial_parts.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define WAITING_BYTES_MAX (256u << 20)   /* then the load waits, and its lag shows it */
#define LINE_BYTES_MAX ((16u << 20) - 1) /* what a reader takes */
#define SHOWN_BYTES_MAX (2u << 20)       /* of a text: as JSON it is up to 6 times as long */
#define HELPER_NICE 10

struct text {
	struct text *next;
	uint64_t i, k;
	bool canary;
	size_t len;
	char bytes[];
};

struct answers {
	struct trial *t;
	const struct cell *cell;
	const struct sched *sched;
	script_set scripts; /* of the prompts */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work, room;
	struct text *first, *last;
	size_t waiting_bytes;
	bool stop, failed;
};

static void counters(struct json_out *o, const struct answers *a, const struct text *x)
{
	static const char *const keys[] = { "chars",      "distinct",      "max_run", "zlib_share",
		                            "rep4_share", "foreign_share", "special" };
	struct surface s;
	if (!a->cell->wl->text_counters || surface_measure(&s, x->bytes, x->len, a->scripts)) {
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			jo_null(o, keys[i]);
		return;
	}
	jo_u64(o, "chars", s.chars);
	jo_u64(o, "distinct", s.distinct);
	jo_u64(o, "max_run", s.max_run);
	jo_num(o, "zlib_share", s.zlib_ratio);
	jo_num(o, "rep4_share", s.rep4);
	jo_num(o, "foreign_share", s.letters ? (double)s.foreign_letters / (double)s.letters : (double)NAN);
	jo_u64(o, "special", s.special[0] != '\0');
}

static int write_line(struct answers *a, const struct text *x)
{
	size_t at = 0;
	bool show = canary_find(x->bytes, x->len, &at) || x->canary;
	char nonce[CANARY_NONCE_BYTES];
	struct json_out o;
	if (!show && (!a->cell->wl->text_counters || x->len == 0))
		return 0;
	auto_buf line = BUF_INIT(LINE_BYTES_MAX);
	canary_nonce(nonce, a->cell->id, rec_kind_words[REC_LOAD], x->k, a->cell->wl->arrival.seed);
	jo_init(&o, &line, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "i", x->i);
	jo_str(&o, "cell", a->cell->id);
	jo_u64(&o, "k", x->k);
	counters(&o, a, x);
	jo_str(&o, "nonce", x->canary ? nonce : NULL);
	jo_str(&o, "expected", x->canary ? canary_question_of(x->k)->answer : NULL);
	if (show)
		jo_strn(&o, "text", x->bytes, x->len < SHOWN_BYTES_MAX ? x->len : SHOWN_BYTES_MAX);
	else
		jo_null(&o, "text");
	jo_end(&o);
	return line.failed || rundir_line(a->t->dir, "answers.jsonl", line.p, line.len) ? -1 : 0;
}

static void *work(void *ctx)
{
	struct answers *a = ctx;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HELPER_NICE);
	pthread_mutex_lock(&a->lock);
	while (a->first || !a->stop) {
		struct text *x = a->first;
		if (!x) {
			pthread_cond_wait(&a->work, &a->lock);
			continue;
		}
		a->first = x->next;
		if (!a->first)
			a->last = NULL;
		pthread_mutex_unlock(&a->lock);
		int rc = write_line(a, x);
		pthread_mutex_lock(&a->lock);
		a->waiting_bytes -= x->len;
		a->failed |= rc != 0;
		pthread_cond_signal(&a->room);
		free(x);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int answers_open(struct answers **out, struct trial *t, const struct cell *cell, const struct sched *sched,
                 script_set scripts, struct err *err)
{
	struct answers *a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, ERR_ENV, "no memory");
	*a = (struct answers){ .t = t, .cell = cell, .sched = sched, .scripts = scripts };
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->work, NULL);
	pthread_cond_init(&a->room, NULL);
	int why = pthread_create(&a->thread, NULL, work, a);
	if (why) {
		free(a);
		return err_sys(err, ERR_ENV, why, "%s: no thread for its answers", cell->id);
	}
	*out = a;
	return 0;
}

int answers_add(struct answers *a, const struct record *rec, const char *text, size_t len)
{
	struct sched_item i = { 0 };
	struct text *x = malloc(sizeof(*x) + len + 1);
	if (!x)
		return -1;
	*x = (struct text){ .i = rec->i, .k = rec->k, .len = len };
	x->canary = sched_item_at(a->sched, rec->k, &i) && i.canary;
	if (len)
		memcpy(x->bytes, text, len);
	x->bytes[len] = '\0';
	blank_answer(x->bytes, len, a->t->engine);
	pthread_mutex_lock(&a->lock);
	while (a->waiting_bytes > WAITING_BYTES_MAX)
		pthread_cond_wait(&a->room, &a->lock);
	if (a->last)
		a->last->next = x;
	else
		a->first = x;
	a->last = x;
	a->waiting_bytes += len;
	int rc = a->failed ? -1 : 0;
	pthread_cond_signal(&a->work);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int answers_close(struct answers *a)
{
	if (!a)
		return 0;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->work);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	int rc = a->failed ? -1 : 0;
	pthread_cond_destroy(&a->work);
	pthread_cond_destroy(&a->room);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return rc;
}
