/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include "base/fs.h"
#include "base/json_in.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 40

static void run_program(const char *program, const char *args, const char *truth_file, int out)
{
	char text[1024], *argv[ARGS_MAX] = { NULL };
	int n = 0;
	snprintf(text, sizeof text, "engine --host 127.0.0.1 --port 0 --truth %s %s", truth_file, args);
	for (char *save, *w = strtok_r(text, " ", &save); w && n < ARGS_MAX - 1;
	     w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, 1);
	execv(program, argv);
	_exit(127);
}

/* "main: server is listening on http://127.0.0.1:P" */
static int read_url(struct engine *e, int fd)
{
	char text[512];
	size_t n = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (n < sizeof text - 1 && poll(&p, 1, 10000) > 0) {
		ssize_t got = read(fd, text + n, sizeof text - 1 - n);
		if (got <= 0)
			return -1;
		n += (size_t)got;
		text[n] = '\0';
		char *at = strstr(text, "http://");
		if (at && strchr(at, '\n')) {
			snprintf(e->url, sizeof e->url, "%.*s", (int)strcspn(at, " \r\n"), at);
			return 0;
		}
	}
	return -1;
}

int engine_start(struct engine *e, const char *program, const char *args)
{
	int out[2];
	*e = (struct engine){ .pid = -1 };
	snprintf(e->truth_file, sizeof e->truth_file, "/tmp/proofmark-truth-%d.jsonl", (int)getpid());
	unlink(e->truth_file);
	if (pipe(out) < 0)
		return -1;
	e->pid = fork();
	if (e->pid == 0)
		run_program(program, args, e->truth_file, out[1]);
	close(out[1]);
	int rc = e->pid > 0 ? read_url(e, out[0]) : -1;
	close(out[0]);
	return rc;
}

static int read_line(struct truth *t, const char *line, size_t len)
{
	struct err err;
	auto_json doc = NULL;
	const struct cJSON *at;
	if (json_parse(&doc, line, len, "truth", JSON_STRICT, NULL, &err) < 0)
		return -1;
	json_u64(doc, "prompt_tok", &t->prompt_tok);
	json_u64(doc, "recv_ns", &t->recv_ns);
	json_u64(doc, "start_ns", &t->start_ns);
	cJSON_ArrayForEach(at, json_get(doc, "tok_ns"))
	{
		if (t->n_tok < TRUTH_TOK_MAX)
			t->tok_ns[t->n_tok++] = (uint64_t)at->valuedouble;
	}
	return 0;
}

int engine_stop(struct engine *e)
{
	struct err err;
	auto_buf text = BUF_INIT(64u << 20);
	if (e->pid > 0) {
		usleep(200 * 1000); /* it writes its account of the last request behind the last byte */
		kill(e->pid, SIGTERM);
		waitpid(e->pid, NULL, 0);
		e->pid = -1;
	}
	int rc = fs_read(&text, e->truth_file, 64u << 20, &err);
	unlink(e->truth_file);
	if (rc < 0 || !text.p)
		return -1;
	for (const char *l = text.p, *end; (end = strchr(l, '\n')); l = end + 1) {
		struct truth *more = realloc(e->truth, (e->n_truth + 1) * sizeof *more);
		if (!more)
			return -1;
		e->truth = more;
		e->truth[e->n_truth] = (struct truth){ 0 };
		if (read_line(&e->truth[e->n_truth++], l, (size_t)(end - l)) < 0)
			return -1;
	}
	return 0;
}

void engine_free(struct engine *e)
{
	if (e->pid > 0) {
		kill(e->pid, SIGKILL);
		waitpid(e->pid, NULL, 0);
		unlink(e->truth_file);
	}
	free(e->truth);
}

const struct truth *engine_truth(const struct engine *e, uint64_t prompt_tok)
{
	for (size_t i = 0; i < e->n_truth; i++) {
		if (e->truth[i].prompt_tok == prompt_tok)
			return &e->truth[i];
	}
	return NULL;
}
