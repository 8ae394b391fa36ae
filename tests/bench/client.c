/* SPDX-License-Identifier: Apache-2.0 */
/* bench_client: one run of one client against 127.0.0.1:PORT, its cost as one JSON line. */
#include "client.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

void die(const char *what)
{
	perror(what);
	exit(1);
}

static char *make_body(const struct job *j, uint64_t n_words)
{
	struct buf b = BUF_INIT(1u << 20);
	buf_addf(&b,
	         "{\"stream\":true,\"ignore_eos\":true,\"stream_options\":{\"include_usage\":true},"
	         "\"max_tokens\":%llu,\"messages\":[{\"role\":\"user\",\"content\":\"",
	         (unsigned long long)j->tokens);
	for (uint64_t i = 0; i < n_words; i++)
		buf_adds(&b, "w ");
	buf_adds(&b, "\"}]}");
	return buf_steal(&b);
}

const char *job_body(const struct job *j, uint64_t k)
{
	static char **bodies;
	uint64_t n = j->keyed ? j->requests : 1;
	if (!bodies) {
		bodies = calloc(n, sizeof *bodies);
		for (uint64_t i = 0; bodies && i < n; i++)
			bodies[i] = make_body(j, i + 1);
	}
	if (!bodies || !bodies[k % n])
		die("no memory");
	return bodies[k % n];
}

void job_times(const struct job *j, uint64_t k, uint64_t sent_ns, const uint64_t *at_ns, uint64_t n)
{
	if (!j->times)
		return;
	fprintf(j->times, "%llu %llu", (unsigned long long)k, (unsigned long long)sent_ns);
	for (uint64_t i = 0; i < n; i++)
		fprintf(j->times, " %llu", (unsigned long long)at_ns[i]);
	fputc('\n', j->times);
}

int job_opening(const struct job *j)
{
	return j->step_us ? timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK) : -1;
}

void job_open_at(const struct job *j, int timer, uint64_t start_ns, uint64_t n)
{
	uint64_t at = start_ns + n * j->step_us * NS_PER_US;
	struct itimerspec its = { .it_value = { (time_t)(at / NS_PER_S), (long)(at % NS_PER_S) } };
	if (timer >= 0)
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &its, NULL);
}

static const struct kind {
	const char *name;
	struct cost (*run)(const struct job *j);
} kinds[] = {
	{ "raw", client_raw },
	{ "curl", client_curl },
	{ "load", client_load },
	{ "timer", client_timer },
};

static bool take_key(struct job *j, const char *arg)
{
	const char *eq = strchr(arg, '=');
	if (!eq)
		return false;
	const struct {
		const char *name;
		uint64_t *number;
		bool *flag;
	} keys[] = {
		{ "streams", &j->streams, NULL },      { "requests", &j->requests, NULL },
		{ "tokens", &j->tokens, NULL },        { "step", &j->step_us, NULL },
		{ "pre", NULL, &j->preconnect },       { "busy", NULL, &j->busy_poll },
		{ "keyed", NULL, &j->keyed },          { "libcurl", NULL, &j->use_libcurl },
		{ "stamps", NULL, &j->kernel_stamps },
	};
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (strlen(keys[i].name) != (size_t)(eq - arg) ||
		    strncmp(arg, keys[i].name, (size_t)(eq - arg)) != 0)
			continue;
		if (keys[i].number)
			*keys[i].number = strtoull(eq + 1, NULL, 10);
		else
			*keys[i].flag = eq[1] == '1';
		return true;
	}
	if (strncmp(arg, "rate=", 5) == 0)
		j->rate_rps = strtod(eq + 1, NULL);
	else if (strncmp(arg, "times=", 6) == 0 && !(j->times = fopen(eq + 1, "w")))
		die(eq + 1);
	return strncmp(arg, "rate=", 5) == 0 || strncmp(arg, "times=", 6) == 0;
}

static void put(const char *name, uint64_t v, const char *end)
{
	if (v == UINT64_MAX)
		printf("\"%s\":null%s", name, end);
	else
		printf("\"%s\":%llu%s", name, (unsigned long long)v, end);
}

/* Not getrusage: that counts what the process was before it became this program. */
static uint64_t peak_rss_kb(void)
{
	char line[256];
	uint64_t kb = UINT64_MAX;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f)) {
		if (strncmp(line, "VmHWM:", 6) == 0)
			kb = strtoull(line + 6, NULL, 10);
	}
	if (f)
		fclose(f);
	return kb;
}

static void put_cost(const struct cost *c)
{
	putchar('{');
	put("cpu_ns", c->cpu_ns, ",");
	put("wall_ns", c->wall_ns, ",");
	put("n_events", c->n_events, ",");
	put("n_done", c->n_done, ",");
	put("n_failed", c->n_failed, ",");
	put("max_in_flight", c->max_in_flight, ",");
	put("send_lag_p50_ns", c->send_lag_p50_ns, ",");
	put("send_lag_p99_ns", c->send_lag_p99_ns, ",");
	put("send_lag_max_ns", c->send_lag_max_ns, ",");
	put("loop_lag_p99_ns", c->loop_lag_p99_ns, ",");
	put("max_rss_kb", peak_rss_kb(), "}\n");
}

int main(int argc, char **argv)
{
	struct job j = { .host = "127.0.0.1", .streams = 1, .requests = 1, .tokens = 1 };
	struct rlimit rl;
	bool good = argc >= 3 && (j.port = atoi(argv[2])) >= 0;
	for (int i = 3; good && i < argc; i++)
		good = take_key(&j, argv[i]);
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	snprintf(j.url, sizeof j.url, "http://%s:%d", j.host, j.port);
	for (size_t i = 0; good && i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i].name, argv[1]) != 0)
			continue;
		struct cost c = kinds[i].run(&j);
		put_cost(&c);
		if (j.times)
			fclose(j.times);
		return 0;
	}
	fputs("usage: bench_client KIND PORT [key=value ...]\n"
	      "  raw    epoll and recv, nothing is parsed: the floor\n"
	      "  curl   libcurl with a callback that only counts ends of events\n"
	      "  load   load_run: parses, records, writes the record's line\n"
	      "  timer  a timerfd and a clock, no network: how late this machine wakes\n"
	      "numbers: streams requests tokens rate step; 0 or 1: pre busy libcurl keyed stamps; a file: "
	      "times\n",
	      stderr);
	return 2;
}
