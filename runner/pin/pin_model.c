/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/pin_model.h"

#include "base/fs.h"
#include "base/hash.h"
#include "pin/hash_cache.h"
#include "pin/pin_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

enum { THREADS_MAX = 8, CHUNK_BYTES = 1 << 20 };

/* One call's work, shared by its threads: each takes the next job until none is left or one failed. */
struct work {
	const struct pin_jobs *jobs;
	struct pin_file *files;
	const bool *stop;
	struct hash_cache *cache; /* NULL = not used */
	pthread_mutex_t lock;     /* next, failed, err, cache's fresh entries */
	size_t next;
	bool failed;
	struct err err;
};

void pin_files_done(struct pin_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->list[i].path);
	free(f->list);
	*f = (struct pin_files){ 0 };
}

/* --- one file ------------------------------------------------------------------------------------------ */

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_state(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(a->st_mtim, b->st_mtim) && same_time(a->st_ctim, b->st_ctim);
}

static bool must_stop(const struct work *w)
{
	return (w->stop && __atomic_load_n(w->stop, __ATOMIC_RELAXED)) ||
	       __atomic_load_n(&w->failed, __ATOMIC_RELAXED);
}

static int open_regular(const char *name, const char *path, struct stat *st, struct err *err)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", name);
	if (fstat(fd, st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot look at it", name);
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_ENV, "%s: is not a regular file", name);
	return steal_fd(&fd);
}

static int stream(struct sha256 *h, uint64_t *n_bytes, int fd, const char *name, const struct work *w,
                  struct err *err)
{
	auto_free char *chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	for (*n_bytes = 0;;) {
		ssize_t n = read(fd, chunk, CHUNK_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, ERR_ENV, errno, "%s: cannot read at byte %llu", name,
			               (unsigned long long)*n_bytes);
		if (n == 0)
			return 0;
		if (must_stop(w))
			return err_set(err, ERR_INTERRUPTED, "%s: stopped while hashing", name);
		sha256_add(h, chunk, (size_t)n);
		*n_bytes += (uint64_t)n;
	}
}

static int hash_fd(struct pin_file *f, int fd, const struct stat *before, const struct work *w,
                   struct err *err)
{
	uint8_t raw[SHA256_BYTES];
	uint64_t n_bytes = 0;
	struct stat after;
	struct sha256 *h = sha256_new();
	int rc = stream(h, &n_bytes, fd, f->path, w, err);
	sha256_end(h, raw);
	sha256_free(h);
	if (rc)
		return -1;
	if (fstat(fd, &after) || !same_state(before, &after) || n_bytes != (uint64_t)after.st_size)
		return err_set(err, ERR_ENV, "%s: changed while it was hashed: wait until nobody writes it",
		               f->path);
	hex_encode(raw, sizeof(raw), f->sha256);
	f->bytes = n_bytes;
	return 0;
}

static int hash_job(struct work *w, size_t i, struct err *err)
{
	const struct pin_job *job = &w->jobs->list[i];
	struct pin_file *f = &w->files[i];
	struct stat st;
	f->deleted = job->deleted;
	if (!(f->path = strdup(job->name)))
		return err_set(err, ERR_ENV, "%s: no memory", job->name);
	auto_fd fd = open_regular(job->name, job->open_path ? job->open_path : job->name, &st, err);
	if (fd < 0)
		return -1;
	if (w->cache && hash_cache_find(w->cache, &st, f->sha256)) {
		f->from_cache = true;
		f->bytes = (uint64_t)st.st_size;
		return 0;
	}
	if (hash_fd(f, fd, &st, w, err))
		return -1;
	if (w->cache) {
		pthread_mutex_lock(&w->lock);
		hash_cache_add(w->cache, &st, f->sha256);
		pthread_mutex_unlock(&w->lock);
	}
	return 0;
}

/* --- many ---------------------------------------------------------------------------------------------- */

static void *take_jobs(void *arg)
{
	struct work *w = arg;
	for (;;) {
		struct err err = { 0 };
		pthread_mutex_lock(&w->lock);
		size_t i = w->failed ? w->jobs->n : w->next++;
		pthread_mutex_unlock(&w->lock);
		if (i >= w->jobs->n)
			return NULL;
		if (hash_job(w, i, &err) == 0)
			continue;
		pthread_mutex_lock(&w->lock);
		if (!w->failed)
			w->err = err;
		__atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&w->lock);
	}
}

static size_t n_threads(size_t n_files)
{
	cpu_set_t set;
	size_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
	size_t n = n_files < cpus ? n_files : cpus;
	return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

static void run_threads(struct work *w)
{
	pthread_t threads[THREADS_MAX];
	size_t started = 0, want = n_threads(w->jobs->n) - 1; /* this thread is one of them */
	while (started < want && pthread_create(&threads[started], NULL, take_jobs, w) == 0)
		started++;
	take_jobs(w);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

int pin_jobs_hash(struct pin_files *out, const struct pin_jobs *jobs, bool cache, const bool *stop,
                  struct err *err)
{
	struct hash_cache known = { 0 };
	struct work w = { .jobs = jobs, .stop = stop, .lock = PTHREAD_MUTEX_INITIALIZER };
	w.files = calloc(jobs->n + 1, sizeof(*w.files));
	if (!w.files)
		return err_set(err, ERR_ENV, "no memory for %zu files", jobs->n);
	if (cache) {
		hash_cache_load(&known);
		w.cache = &known;
	}
	run_threads(&w);
	struct pin_files files = { jobs->n, w.files };
	if (cache)
		hash_cache_save(&known);
	hash_cache_done(&known);
	pthread_mutex_destroy(&w.lock);
	if (w.failed) {
		pin_files_done(&files);
		*err = w.err;
		return -1;
	}
	*out = files;
	return 0;
}

int pin_hash_files(struct pin_files *out, const char *const *paths, size_t n, bool cache, const bool *stop,
                   struct err *err)
{
	struct pin_jobs jobs = { 0 };
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		if (pin_job_add(&jobs, strdup(paths[i]), NULL, false))
			rc = err_set(err, ERR_ENV, "%s: no memory", paths[i]);
	if (rc == 0)
		rc = pin_jobs_hash(out, &jobs, cache, stop, err);
	pin_jobs_done(&jobs);
	return rc;
}

/* --- lists of jobs ------------------------------------------------------------------------------------- */

int pin_job_add(struct pin_jobs *jobs, char *name, char *open_path, bool deleted)
{
	if (jobs->n == jobs->room) {
		size_t room = jobs->room ? 2 * jobs->room : 16;
		struct pin_job *p = realloc(jobs->list, room * sizeof(*p));
		if (!p) {
			free(name);
			free(open_path);
			return -1;
		}
		jobs->list = p;
		jobs->room = room;
	}
	if (!name) {
		free(open_path);
		return -1;
	}
	jobs->list[jobs->n++] = (struct pin_job){ name, open_path, deleted };
	return 0;
}

static void job_done(struct pin_job *j)
{
	free(j->name);
	free(j->open_path);
}

void pin_jobs_done(struct pin_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++)
		job_done(&jobs->list[i]);
	free(jobs->list);
	*jobs = (struct pin_jobs){ 0 };
}

static int by_name(const void *a, const void *b)
{
	const struct pin_job *x = a, *y = b;
	int d = strcmp(x->name, y->name);
	return d ? d : (int)x->deleted - (int)y->deleted;
}

void pin_jobs_sort_unique(struct pin_jobs *jobs)
{
	size_t kept = 0;
	if (jobs->n == 0)
		return;
	qsort(jobs->list, jobs->n, sizeof(*jobs->list), by_name);
	for (size_t i = 1; i < jobs->n; i++) {
		if (by_name(&jobs->list[kept], &jobs->list[i]) == 0)
			job_done(&jobs->list[i]);
		else
			jobs->list[++kept] = jobs->list[i];
	}
	jobs->n = kept + 1;
}
