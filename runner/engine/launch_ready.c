/* SPDX-License-Identifier: Apache-2.0 */
/* Ready is: the health endpoint says so, and a first completion came back. */
#include "engine/ask.h"
#include "engine/launch_parts.h"

#include "base/clock.h"
#include "model/record.h"

#include <poll.h>
#include <string.h>

#define POLL_FIRST_NS (5 * NS_PER_MS)
#define POLL_MAX_NS (50 * NS_PER_MS)
#define CALL_FIRST_NS (1 * NS_PER_S)
#define CALL_MAX_NS (10 * NS_PER_S)
#define COMPLETION_NS (300 * NS_PER_S)
#define ATTACH_SILENT_NS (10 * NS_PER_S) /* an attached server that nobody answers for */

struct poll_state {
	uint64_t pause_ns, call_ns, since_ns;
	bool answered; /* any HTTP at all */
	char last[ERR_MSG_BYTES];
};

static int check_alive(const struct launch_wait *w, struct err *err)
{
	if (w->spec->stop && *w->spec->stop)
		return err_set(err, ERR_INTERRUPTED, "interrupted while the engine started");
	if (w->proc && proc_ended(w->proc, NULL))
		return err_set(err, ERR_ENV, "it ended before it was ready");
	return 0;
}

/* Ends early when the process does. */
static void pause_a_little(const struct launch_wait *w, struct poll_state *s)
{
	struct pollfd pfd = { .fd = w->proc ? proc_pidfd(w->proc) : -1, .events = POLLIN };
	struct timespec t = { .tv_nsec = (long)s->pause_ns };
	ppoll(&pfd, 1, &t, NULL);
	s->pause_ns = s->pause_ns * 2 < POLL_MAX_NS ? s->pause_ns * 2 : POLL_MAX_NS;
}

static uint64_t call_deadline(const struct launch_wait *w, uint64_t call_ns)
{
	uint64_t until = clock_now_ns() + call_ns;
	return until < w->deadline_ns ? until : w->deadline_ns;
}

/* A server behind a plain OpenAI URL need not have a health endpoint. */
static bool healthy(const struct launch_wait *w, int status)
{
	return status == 200 || (w->spec->ops->kind == ENGINE_ATTACH && status == 404);
}

static void remember(struct poll_state *s, const char *path, int status, const struct cJSON *answer)
{
	struct err e;
	ask_error(&e, path, status, answer);
	memcpy(s->last, e.msg, sizeof(s->last));
	s->answered = true;
}

static int over(const struct launch_wait *w, const struct poll_state *s, const char *step, struct err *err)
{
	uint64_t now = clock_now_ns();
	if (now >= w->deadline_ns)
		return err_set(err, ERR_ENV, "not ready within %llu s: %s%s%s",
		               (unsigned long long)w->spec->cand->ready_deadline_s, step,
		               s->last[0] ? ": " : "", s->last);
	if (!w->proc && !s->answered && now - s->since_ns >= ATTACH_SILENT_NS)
		return err_set(err, ERR_ENV, "nobody answers at its URL: %s", s->last);
	return 0;
}

static int wait_health(struct engine_times *times, const struct launch_wait *w, struct err *err)
{
	struct poll_state s = { .pause_ns = POLL_FIRST_NS,
		                .call_ns = CALL_FIRST_NS,
		                .since_ns = clock_now_ns() };
	const char *path = w->spec->ops->health_path;
	for (;;) {
		auto_json answer = NULL;
		int status = 0;
		struct err refused;
		if (check_alive(w, err))
			return -1;
		bool got = !ask(&answer, &status, w->http, path, NULL, call_deadline(w, s.call_ns), &refused);
		if (got && healthy(w, status)) {
			times->health_ns = clock_now_ns();
			return 0;
		}
		if (got)
			remember(&s, path, status, answer);
		else if (!s.last[0] || clock_now_ns() < w->deadline_ns) /* "no time left" tells nothing */
			memcpy(s.last, refused.msg, sizeof(s.last));
		s.call_ns = s.call_ns * 2 < CALL_MAX_NS ? s.call_ns * 2 : CALL_MAX_NS;
		if (check_alive(w, err) || over(w, &s, "health", err))
			return -1;
		pause_a_little(w, &s);
	}
}

/* --- the first completion --- */

/* The name that the server gives its model: some answer 404 to any other. NULL = not told. */
static char *served_model(const struct launch_wait *w)
{
	static const struct {
		const char *path, *list, *name;
	} places[] = { { "/v1/models", "data", "id" }, { "/api/tags", "models", "name" } };
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		auto_json answer = NULL;
		int status = 0;
		struct err none;
		if (ask(&answer, &status, w->http, places[i].path, NULL, call_deadline(w, CALL_MAX_NS),
		        &none) ||
		    status != 200)
			continue;
		const struct cJSON *list = json_get(answer, places[i].list);
		char *name = ask_copy(cJSON_IsArray(list) ? list->child : NULL, places[i].name);
		if (name)
			return name;
	}
	return NULL;
}

/* What the first completion asks for; the same bodies as those of the load. */
struct question {
	const struct proto *proto;
	struct buf path, body;
};

static void question_done(struct question *q)
{
	buf_done(&q->path);
	buf_done(&q->body);
}

static int question_make(struct question *q, const struct launch_wait *w, struct err *err)
{
	auto_free char *told = served_model(w);
	const char *model = told ? told : w->spec->model_id;
	enum api api = w->spec->api;
	struct plan_sampling greedy = { .seed = 1, .top_p = -1, .top_k = -1 };
	q->proto = proto_of(w->spec->cand->engine, api);
	if (!q->proto)
		return err_set(err, ERR_PLAN, "engine %s has no %s endpoint",
		               engine_kind_words[w->spec->cand->engine], api_words[api]);
	struct proto_request r = {
		.model = model, .prompt = "Say yes.", .max_tok = 1, .whole = true, .sampling = &greedy
	};
	if (proto_path(&q->path, q->proto, model, true))
		return err_set(err, ERR_PLAN, "first completion: its path needs a model name");
	if (proto_body(&q->body, q->proto, &r))
		return err_set(err, ERR_ENV, "first completion: the server's model name is too long");
	return 0;
}

/* The text is not looked at: one token may be empty. */
static bool is_completion(const struct cJSON *answer, enum wire wire)
{
	const struct cJSON *choices = json_get(answer, "choices");
	switch (wire) {
	case WIRE_OPENAI_CHAT:
	case WIRE_OPENAI_COMPLETIONS:
		return cJSON_IsArray(choices) && choices->child;
	case WIRE_LLAMACPP:
		return json_str(answer, "content") != NULL;
	case WIRE_TGI: /* an object, of some versions in an array of one */
		return json_str(cJSON_IsArray(answer) ? answer->child : answer, "generated_text") != NULL;
	case WIRE_OLLAMA:
		return json_get(answer, "message") != NULL;
	case WIRE_SGLANG:
		return json_get(answer, "text") != NULL;
	case WIRE_TRITON:
		return json_get(answer, "text_output") != NULL;
	case N_WIRES:
		break;
	}
	return false;
}

/* 503 while loading and 429 while busy pass; every other refusal stays. */
static bool may_pass(int status)
{
	return status == 503 || status == 429;
}

/* No HTTP answer: the process died, the time is over, or the server refuses to talk. */
static int no_completion(const struct launch_wait *w, struct poll_state *s, const struct err *refused,
                         struct err *err)
{
	s->pause_ns = 200 * NS_PER_MS; /* a dying process closes its sockets before it is gone */
	pause_a_little(w, s);
	if (!s->last[0])
		memcpy(s->last, refused->msg, sizeof(s->last));
	if (check_alive(w, err) || over(w, s, "first completion", err))
		return -1;
	*err = *refused;
	return err_wrap(err, "first completion");
}

static int ask_first(struct engine_times *times, const struct launch_wait *w, const struct question *q,
                     struct err *err)
{
	struct poll_state s = { .pause_ns = POLL_FIRST_NS, .since_ns = clock_now_ns(), .answered = true };
	for (;;) {
		auto_json answer = NULL;
		int status = 0;
		if (check_alive(w, err))
			return -1;
		struct err refused;
		if (ask(&answer, &status, w->http, q->path.p, q->body.p, call_deadline(w, COMPLETION_NS),
		        &refused))
			return no_completion(w, &s, &refused, err);
		if (status == 200 && is_completion(answer, q->proto->wire)) {
			times->first_completion_ns = clock_now_ns();
			return 0;
		}
		if (!may_pass(status)) {
			ask_error(err, q->path.p, status, answer);
			return err_wrap(err, "first completion");
		}
		remember(&s, q->path.p, status, answer);
		if (over(w, &s, "first completion", err))
			return -1;
		pause_a_little(w, &s);
	}
}

static int first_completion(struct engine_times *times, const struct launch_wait *w, struct err *err)
{
	struct question q = { .path = BUF_INIT(4096), .body = BUF_INIT(65536) };
	int rc = question_make(&q, w, err);
	if (!rc)
		rc = ask_first(times, w, &q, err);
	question_done(&q);
	return rc;
}

/* Somebody else's server on the same port would be measured instead. */
static int check_owner(const struct launch_wait *w, struct err *err)
{
	char who[LAUNCH_TEXT_BYTES];
	if (w->proc && launch_port_owner(w->port, proc_pid(w->proc), who) == OWNER_OTHER)
		return err_set(err, ERR_ENV, "port %u answers, but it belongs to %s", w->port, who);
	return 0;
}

int launch_wait_ready(struct engine_times *times, const struct launch_wait *w, struct err *err)
{
	if (wait_health(times, w, err) || check_owner(w, err))
		return -1;
	return first_completion(times, w, err);
}
