/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rundir.h"

#include "base/clock.h"
#include "base/fs.h"
#include "store/fault.h"
#include "store/spill.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define EVENT_BYTES_MAX (256u << 10)
#define PENDING_EVENTS_BYTES_MAX (4u << 20)
#define SPILL_BYTES (2u << 20)
#define SPILL_FLUSH_BYTES (SPILL_BYTES / 4 * 3)
#define SPILL_BYTES_MAX (64u << 20)
#define LINES_BYTES (64u << 10)
#define LINES_BYTES_MAX (4u << 20)
#define TEXTS_BYTES_MAX (64u << 20) /* lines that hold what a server said */
/* So long can a row stay in memory alone: what a kill costs at most. */
#define SPILL_AGE_NS NS_PER_S
/* With the disk full, rows of requests in flight still find room in memory, half as much as the reserve. */
#define FULL_ROWS_BYTES_MAX (RUNDIR_RESERVE_BYTES / 2)

enum { EVENTS, REQUESTS, TOKENS, TELEMETRY, CONTROLS, PROMPTS, SCHEDULE, ANSWERS, METRICS, N_FILES };
static const struct {
	const char *name;
	size_t keep_bytes, max_bytes, flush_bytes;
	bool lines; /* rundir_line may write it */
} files[N_FILES] = {
	[EVENTS] = { "events.jsonl", EVENT_BYTES_MAX, PENDING_EVENTS_BYTES_MAX, 0, false },
	[REQUESTS] = { "requests.jsonl", SPILL_BYTES, SPILL_BYTES_MAX, SPILL_FLUSH_BYTES, false },
	[TOKENS] = { "tokens.bin", SPILL_BYTES, SPILL_BYTES_MAX, SPILL_FLUSH_BYTES, false },
	[TELEMETRY] = { "telemetry.jsonl", LINES_BYTES, LINES_BYTES_MAX, LINES_BYTES / 4 * 3, true },
	[CONTROLS] = { "controls.jsonl", LINES_BYTES, LINES_BYTES_MAX, 0, true },
	[PROMPTS] = { "prompts.jsonl", LINES_BYTES, LINES_BYTES_MAX, LINES_BYTES / 4 * 3, true },
	[SCHEDULE] = { "schedule.jsonl", LINES_BYTES, LINES_BYTES_MAX, LINES_BYTES / 4 * 3, true },
	[ANSWERS] = { "answers.jsonl", LINES_BYTES, TEXTS_BYTES_MAX, LINES_BYTES / 4 * 3, true },
	[METRICS] = { "engine_metrics.jsonl", LINES_BYTES, TEXTS_BYTES_MAX, 0, true },
};

struct rundir {
	int fd, log_fd;
	char *path;
	uint64_t origin_ns;
	struct spill files[N_FILES];
	uint64_t n_events, n_records, tokens_bytes;
	struct buf event, row;
	struct json_out out;
	_Atomic(const char *) full_where; /* file that met the full disk first */
	bool full_told, reserve_used;
};

/* --- begin and end ---------------------------------------------------------------------------------------
 */

static int refuse_filled(int dir_fd, const char *path, struct err *err)
{
	int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	if (!dir) {
		int why = errno;
		if (copy >= 0)
			close(copy);
		return err_sys(err, ERR_ENV, why, "%s: cannot list", path);
	}
	const struct dirent *e;
	bool filled = false;
	while ((e = readdir(dir)))
		filled |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(dir);
	return filled ? err_set(err, ERR_USAGE, "%s: is not empty; a run wants a folder of its own", path)
	              : 0;
}

static int make_reserve(int dir_fd, const char *path, struct err *err)
{
	auto_fd fd = openat(dir_fd, ".reserve", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create a file", path);
	int why = posix_fallocate(fd, 0, RUNDIR_RESERVE_BYTES);
	if (why == 0)
		return 0;
	unlinkat(dir_fd, ".reserve", 0);
	return err_sys(err, ERR_ENV, why, "%s: cannot reserve %u MiB for the end of the run", path,
	               RUNDIR_RESERVE_BYTES >> 20);
}

static int open_files(struct rundir *d, struct err *err)
{
	for (size_t i = 0; i < N_FILES; i++)
		if (spill_open(&d->files[i], d->fd, files[i].name, files[i].keep_bytes, files[i].max_bytes,
		               err))
			return err_wrap(err, "%s", d->path);
	d->log_fd = openat(d->fd, "engine.log", O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	return d->log_fd < 0 ? err_sys(err, ERR_ENV, errno, "%s/engine.log: cannot create", d->path) : 0;
}

static int fill(struct rundir *d, const char *path, struct err *err)
{
	if (!d->path)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	if (fs_mkdir_p(path, err))
		return -1;
	d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	if (refuse_filled(d->fd, path, err) || make_reserve(d->fd, path, err) || open_files(d, err))
		return -1;
	return 0;
}

int rundir_create(struct rundir **out, const char *path, uint64_t origin_ns, struct err *err)
{
	struct rundir *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	d->fd = d->log_fd = -1;
	for (size_t i = 0; i < N_FILES; i++)
		d->files[i].fd = -1;
	d->origin_ns = origin_ns;
	d->path = strdup(path);
	buf_init(&d->event, EVENT_BYTES_MAX);
	buf_init(&d->row, EVENT_BYTES_MAX);
	if (fill(d, path, err)) {
		rundir_close(d);
		return -1;
	}
	*out = d;
	return 0;
}

void rundir_close(struct rundir *d)
{
	if (!d)
		return;
	if (d->files[EVENTS].fd >= 0 && rundir_flush(d))
		rundir_use_reserve(d); /* what waits in memory gets its last try */
	for (size_t i = 0; i < N_FILES; i++)
		spill_done(&d->files[i]);
	if (d->log_fd >= 0)
		close(d->log_fd);
	if (d->fd >= 0) {
		unlinkat(d->fd, ".reserve", 0);
		close(d->fd);
	}
	buf_done(&d->event);
	buf_done(&d->row);
	free(d->path);
	free(d);
}

int rundir_fd(const struct rundir *d)
{
	return d->fd;
}

const char *rundir_path(const struct rundir *d)
{
	return d->path;
}

int rundir_log_fd(struct rundir *d)
{
	return d->log_fd;
}

/* --- a full disk -----------------------------------------------------------------------------------------
 */

/* Any failed write counts: a disk that does not take our rows is full for us, whatever errno says. */
static void note_full(struct rundir *d, const char *where)
{
	const char *none = NULL;
	atomic_compare_exchange_strong(&d->full_where, &none, where);
}

bool rundir_full(const struct rundir *d)
{
	return atomic_load(&d->full_where) != NULL;
}

static int write_file(struct rundir *d, size_t which)
{
	if (spill_write(&d->files[which]) == 0)
		return 0;
	note_full(d, files[which].name);
	return -1;
}

void rundir_use_reserve(struct rundir *d)
{
	if (d->reserve_used)
		return;
	d->reserve_used = true;
	unlinkat(d->fd, ".reserve", 0);
	store_reserve_used();
	(void)rundir_flush(d);
}

int rundir_write(struct rundir *d, const char *name, const void *data, size_t len, struct err *err)
{
	if (store_put(d->fd, name, data, len, err) == 0)
		return 0;
	note_full(d, name);
	return err_wrap(err, "%s", d->path);
}

/* --- journal ---------------------------------------------------------------------------------------------
 */

static void event_begin(struct rundir *d, const char *ev)
{
	uint64_t now_ns = clock_now_ns();
	buf_clear(&d->event);
	d->event.failed = false;
	jo_init(&d->out, &d->event, 0);
	jo_obj(&d->out, NULL);
	jo_u64(&d->out, "seq", d->n_events);
	jo_u64(&d->out, "t_ns", now_ns > d->origin_ns ? now_ns - d->origin_ns : 0);
	jo_str(&d->out, "ev", ev);
}

static void event_write(struct rundir *d)
{
	struct spill *s = &d->files[EVENTS];
	jo_end(&d->out);
	buf_addc(&d->event, '\n');
	pthread_mutex_lock(&s->lock);
	/* An event that is too long for the journal leaves a gap in seq, which a reader sees. */
	d->n_events++;
	if (!d->event.failed && spill_add(s, d->event.p, d->event.len))
		note_full(d, files[EVENTS].name);
	if (write_file(d, EVENTS) == 0 && spill_sync(s))
		note_full(d, files[EVENTS].name);
	pthread_mutex_unlock(&s->lock);
}

/* The journal tells by itself that rows met a full disk. */
static void tell_full(struct rundir *d)
{
	const char *where = atomic_load(&d->full_where);
	if (!where || d->full_told)
		return;
	d->full_told = true;
	event_begin(d, "disk_full");
	jo_str(&d->out, "where", where);
	event_write(d);
}

struct json_out *rundir_event(struct rundir *d, const char *ev)
{
	if (d->n_events > 0)
		tell_full(d);
	event_begin(d, ev);
	return &d->out;
}

void rundir_event_end(struct rundir *d)
{
	event_write(d);
}

/* --- rows ------------------------------------------------------------------------------------------------
 */

static void lock_rows(struct rundir *d)
{
	pthread_mutex_lock(&d->files[TOKENS].lock);
	pthread_mutex_lock(&d->files[REQUESTS].lock);
}

static void unlock_rows(struct rundir *d)
{
	pthread_mutex_unlock(&d->files[REQUESTS].lock);
	pthread_mutex_unlock(&d->files[TOKENS].lock);
}

/* Bytes before the line that names them: a reader never meets a line without its bytes. */
static int write_rows(struct rundir *d)
{
	if (write_file(d, TOKENS) || write_file(d, REQUESTS))
		return -1;
	return 0;
}

static bool rows_are_due(const struct rundir *d)
{
	const struct spill *t = &d->files[TOKENS], *r = &d->files[REQUESTS];
	return t->b.len >= files[TOKENS].flush_bytes || r->b.len >= files[REQUESTS].flush_bytes ||
	       clock_now_ns() - r->flushed_ns >= SPILL_AGE_NS;
}

static int add_row(struct rundir *d, struct record *rec, const uint8_t *tokens, size_t len)
{
	struct spill *t = &d->files[TOKENS], *r = &d->files[REQUESTS];
	if (rundir_full(d) && t->b.len + r->b.len + len > FULL_ROWS_BYTES_MAX)
		return -1;
	rec->i = d->n_records;
	rec->tok_off = d->tokens_bytes;
	rec->tok_bytes = len;
	buf_clear(&d->row);
	d->row.failed = false;
	record_write(&d->row, rec);
	if (d->row.failed)
		return -1;
	size_t tokens_before = t->b.len;
	if (spill_add(t, tokens, len))
		return -1;
	if (spill_add(r, d->row.p, d->row.len)) {
		t->b.len = tokens_before;
		return -1;
	}
	d->n_records++;
	d->tokens_bytes += len;
	return 0;
}

int rundir_record(struct rundir *d, struct record *rec, const uint8_t *tokens, size_t len)
{
	lock_rows(d);
	int rc = add_row(d, rec, tokens, len);
	if (rc)
		note_full(d, files[REQUESTS].name);
	else if (rows_are_due(d))
		(void)write_rows(d); /* a failure is noted, and the row stays in memory, whole */
	unlock_rows(d);
	return rc;
}

int rundir_line(struct rundir *d, const char *name, const char *line, size_t len)
{
	size_t i = 0;
	while (i < N_FILES && (!files[i].lines || strcmp(files[i].name, name) != 0))
		i++;
	assert(i < N_FILES);
	struct spill *s = &d->files[i];
	pthread_mutex_lock(&s->lock);
	size_t before = s->b.len;
	int rc = spill_add(s, line, len) || spill_add(s, "\n", 1) ? -1 : 0;
	if (rc) {
		s->b.len = before;
		note_full(d, files[i].name);
	} else if (s->b.len >= files[i].flush_bytes || clock_now_ns() - s->flushed_ns >= SPILL_AGE_NS) {
		(void)write_file(d, i);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int flush_one(struct rundir *d, size_t which)
{
	struct spill *s = &d->files[which];
	if (write_file(d, which) || spill_sync(s)) {
		note_full(d, files[which].name);
		return -1;
	}
	return 0;
}

int rundir_flush(struct rundir *d)
{
	int rc = 0;
	lock_rows(d);
	if (flush_one(d, TOKENS) || flush_one(d, REQUESTS))
		rc = -1;
	unlock_rows(d);
	for (size_t i = TELEMETRY; i < N_FILES; i++) {
		pthread_mutex_lock(&d->files[i].lock);
		rc |= flush_one(d, i);
		pthread_mutex_unlock(&d->files[i].lock);
	}
	pthread_mutex_lock(&d->files[EVENTS].lock);
	rc |= flush_one(d, EVENTS);
	pthread_mutex_unlock(&d->files[EVENTS].lock);
	return rc;
}
