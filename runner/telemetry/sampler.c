/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/sampler.h"

#include "base/clock.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "telemetry/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

const struct telemetry_source *const telemetry_sources[] = {
	&telemetry_proc, &telemetry_meminfo, &telemetry_cgroup, &telemetry_cpu, NULL,
};

enum { N_SOURCES = ARRAY_LEN(telemetry_sources) - 1, READINGS_MAX = 16, PHASE_BYTES = 32, LINE_BYTES = 512 };

struct sampler {
	struct sampler_spec spec;
	char *cpus;
	void *states[N_SOURCES];
	pthread_t thread;
	pthread_mutex_t lock; /* target, phase, stop */
	pthread_cond_t wake;
	struct telemetry_target target;
	char phase[PHASE_BYTES]; /* "" = none yet */
	bool stop;
};

int telemetry_slurp(const char *path, char *out, size_t size)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	if (fd < 0)
		return -1;
	while (used + 1 < size) {
		ssize_t n = read(fd, out + used, size - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0) {
			out[used] = '\0';
			return 0;
		}
		used += (size_t)n;
	}
	return -1;
}

bool telemetry_kib(const char *text, const char *key, uint64_t *bytes)
{
	uint64_t kib;
	size_t n = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) != 0)
			continue;
		if (sscanf(line + n, "%" SCNu64, &kib) != 1 || kib > UINT64_MAX / 1024)
			return false;
		*bytes = kib * 1024;
		return true;
	}
	return false;
}

static void give_line(const struct sampler *s, const char *source, const char *phase, uint64_t t_ns,
                      const struct telemetry_reading *r)
{
	auto_buf line = BUF_INIT(LINE_BYTES);
	struct json_out o;
	jo_init(&o, &line, 0);
	jo_obj(&o, NULL);
	jo_u64(&o, "t_ns", t_ns);
	jo_str(&o, "name", r->name);
	if (r->known)
		jo_num(&o, "value", r->value);
	else
		jo_null(&o, "value");
	jo_str(&o, "source", source);
	jo_str(&o, "phase", *phase ? phase : NULL);
	jo_end(&o);
	if (!line.failed)
		s->spec.line(s->spec.ctx, line.p, line.len);
}

static void read_all(struct sampler *s, const struct telemetry_target *target, const char *phase)
{
	for (size_t i = 0; i < N_SOURCES; i++) {
		struct telemetry_reading readings[READINGS_MAX];
		uint64_t t_ns = clock_now_ns() - s->spec.origin_ns;
		size_t n = telemetry_sources[i]->read(s->states[i], target, readings, READINGS_MAX);
		for (size_t k = 0; k < n; k++)
			give_line(s, telemetry_sources[i]->name, phase, t_ns, &readings[k]);
	}
}

/* Due times are multiples of the period: a late reading moves none of the later ones, missed ones are left
 * out. */
static uint64_t next_due(uint64_t due, uint64_t period_ns)
{
	uint64_t now = clock_now_ns();
	due += period_ns;
	if (due <= now)
		due += ((now - due) / period_ns + 1) * period_ns;
	return due;
}

/* Waits with the lock held; true when it is time to stop. */
static bool wait_until(struct sampler *s, uint64_t due)
{
	struct timespec at = { .tv_sec = (time_t)(due / NS_PER_S), .tv_nsec = (long)(due % NS_PER_S) };
	int rc = 0;
	while (!s->stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&s->wake, &s->lock, &at);
	return s->stop;
}

static void *sample(void *arg)
{
	struct sampler *s = arg;
	struct err ignored = { 0 };
	if (s->cpus)
		(void)!proc_bind_self(s->cpus, &ignored); /* of this thread; refused: it runs anywhere */
	for (uint64_t due = clock_now_ns();; due = next_due(due, s->spec.period_ns)) {
		pthread_mutex_lock(&s->lock);
		bool stop = wait_until(s, due);
		struct telemetry_target target = s->target;
		char phase[PHASE_BYTES];
		memcpy(phase, s->phase, sizeof(phase));
		pthread_mutex_unlock(&s->lock);
		read_all(s, &target, phase);
		if (stop)
			return NULL;
	}
}

static void free_sampler(struct sampler *s)
{
	for (size_t i = 0; i < N_SOURCES; i++)
		if (s->states[i] && telemetry_sources[i]->close)
			telemetry_sources[i]->close(s->states[i]);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s->cpus);
	free(s);
}

static void init_wake(pthread_cond_t *wake)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(wake, &attr);
	pthread_condattr_destroy(&attr);
}

/* Signals belong to the main thread. */
static int start_thread(struct sampler *s)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int rc = pthread_create(&s->thread, NULL, sample, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int sampler_start(struct sampler **out, const struct sampler_spec *spec, struct err *err)
{
	if (spec->period_ns == 0 || !spec->line)
		return err_set(err, ERR_BUG, "telemetry: no period or nowhere to go");
	struct sampler *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ERR_ENV, "telemetry: no memory");
	s->spec = *spec;
	s->spec.cpus = NULL;
	pthread_mutex_init(&s->lock, NULL);
	init_wake(&s->wake);
	int rc = spec->cpus && !(s->cpus = strdup(spec->cpus)) ? err_set(err, ERR_ENV, "telemetry: no memory")
	                                                       : 0;
	for (size_t i = 0; i < N_SOURCES && rc == 0; i++)
		if (telemetry_sources[i]->open && telemetry_sources[i]->open(&s->states[i], err))
			rc = err_wrap(err, "telemetry source %s", telemetry_sources[i]->name);
	int why = rc ? 0 : start_thread(s);
	if (why)
		rc = err_sys(err, ERR_ENV, why, "telemetry: cannot start a thread");
	if (rc) {
		free_sampler(s);
		return -1;
	}
	*out = s;
	return 0;
}

void sampler_target(struct sampler *s, const struct telemetry_target *t)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->target = *t;
	pthread_mutex_unlock(&s->lock);
}

void sampler_phase(struct sampler *s, const char *phase)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	snprintf(s->phase, sizeof(s->phase), "%s", phase ? phase : "");
	pthread_mutex_unlock(&s->lock);
}

void sampler_stop(struct sampler *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	free_sampler(s);
}
