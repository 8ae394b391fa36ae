/* SPDX-License-Identifier: Apache-2.0 */
/* The journal, one handler a kind of event. Order matters: an event that is missing in the middle is seen by
 * its number. */
#include "model/evidence_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX (256u << 10)
#define STARTS_MAX 10000u
#define PHASES_MAX 100000u

static void on_run_begin(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct evidence *e = l->e;
	const struct cJSON *label;
	if (l->began) {
		ev_miss(l, "inconsistent: a second run_begin");
		return;
	}
	l->began = true;
	ev_str(l, o, "run_id", e->run_id, sizeof(e->run_id));
	ev_str(l, o, "wall", e->wall, sizeof(e->wall));
	ev_str(l, o, "candidate", e->candidate, sizeof(e->candidate));
	ev_str(l, o, "version", e->version, sizeof(e->version));
	ev_u64(l, o, "attempt", &e->attempt);
	if (json_str(o, "previous_attempt_sha256"))
		ev_str(l, o, "previous_attempt_sha256", e->previous_attempt_sha256,
		       sizeof(e->previous_attempt_sha256));
	if (json_str(o, "binary_sha256"))
		ev_str(l, o, "binary_sha256", e->binary_sha256, sizeof(e->binary_sha256));
	if (json_str(o, "clock_source"))
		ev_str(l, o, "clock_source", e->clock_source, sizeof(e->clock_source));
	const struct cJSON *labels = json_get(o, "labels");
	if (!cJSON_IsArray(labels))
		ev_miss(l, "want a list in \"labels\"");
	cJSON_ArrayForEach(label, labels)
	{
		if (cJSON_IsString(label))
			ev_add_line(l, &e->labels, &e->n_labels, &l->cap_labels, label->valuestring);
		else
			ev_miss(l, "want texts in \"labels\"");
	}
}

/* What turned out to be no real engine only after it had answered. */
static void on_label(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	if (json_str(o, "label"))
		ev_add_line(l, &l->e->labels, &l->e->n_labels, &l->cap_labels, json_str(o, "label"));
	else
		ev_miss(l, "want a text in \"label\"");
}

static void on_phase_begin(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct evidence *e = l->e;
	struct ev_phase p = { .begin_ns = t_ns, .end_ns = REC_NONE };
	if (!ev_str(l, o, "phase", p.name, sizeof(p.name)))
		return;
	if (e->n_phases >= PHASES_MAX)
		ev_miss(l, "more than %u phases", PHASES_MAX);
	else if (ev_room(l, &e->phases, e->n_phases, &l->cap_phases, sizeof(p)))
		e->phases[e->n_phases++] = p;
}

static void copy_cut(char *out, size_t out_bytes, const char *text)
{
	struct err clean;
	(void)err_set(&clean, ERR_NONE, "%s", text);
	size_t len = strnlen(clean.msg, out_bytes - 1);
	while (len && ((unsigned char)clean.msg[len] & 0xc0) == 0x80)
		len--; /* not inside a character */
	memcpy(out, clean.msg, len);
	out[len] = '\0';
}

static void on_phase_end(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct evidence *e = l->e;
	char name[sizeof(e->phases->name)];
	bool ok;
	if (!ev_str(l, o, "phase", name, sizeof(name)) || !ev_bool(l, o, "ok", &ok))
		return;
	for (size_t i = e->n_phases; i-- > 0;) {
		struct ev_phase *p = &e->phases[i];
		if (p->end_ns != REC_NONE || strcmp(p->name, name) != 0)
			continue;
		p->end_ns = t_ns;
		p->ok = ok;
		if (json_str(o, "reason"))
			copy_cut(p->reason, sizeof(p->reason), json_str(o, "reason"));
		return;
	}
	ev_miss(l, "inconsistent: end of phase %.31s, which never began", name);
}

static struct ev_start *find_start(struct evidence *e, uint64_t number)
{
	for (size_t i = 0; i < e->n_starts; i++)
		if (e->starts[i].number == number)
			return &e->starts[i];
	return NULL;
}

static struct ev_start *add_start(struct ev_loader *l, const struct cJSON *o)
{
	struct evidence *e = l->e;
	struct ev_start s = { .spawn_ns = REC_NONE,
		              .health_ns = REC_NONE,
		              .first_completion_ns = REC_NONE,
		              .killed_ns = REC_NONE };
	if (!ev_u64(l, o, "start", &s.number) || !ev_str(l, o, "why", s.why, sizeof(s.why)))
		return NULL;
	if (e->n_starts >= STARTS_MAX) {
		ev_miss(l, "more than %u starts", STARTS_MAX);
		return NULL;
	}
	if (!ev_room(l, &e->starts, e->n_starts, &l->cap_starts, sizeof(s)))
		return NULL;
	e->starts[e->n_starts] = s;
	return &e->starts[e->n_starts++];
}

static void on_engine_spawn(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	uint64_t number;
	if (json_u64(o, "start", &number) && find_start(l->e, number)) {
		ev_miss(l, "inconsistent: start %" PRIu64 " was spawned before", number);
		return;
	}
	struct ev_start *s = add_start(l, o);
	if (s)
		s->spawn_ns = t_ns;
}

static void on_engine_ready(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	uint64_t number, spawn, health, first;
	if (!ev_u64(l, o, "start", &number) || !ev_u64_or_none(l, o, "spawn_ns", &spawn) ||
	    !ev_u64_or_none(l, o, "health_ns", &health) || !ev_u64(l, o, "first_completion_ns", &first))
		return;
	struct ev_start *s = find_start(l->e, number);
	if (!s)
		s = add_start(l, o); /* attached: nothing was spawned */
	if (!s)
		return;
	if (s->first_completion_ns != REC_NONE)
		ev_miss(l, "inconsistent: start %" PRIu64 " was ready before", number);
	else if (first > t_ns || (health != REC_NONE && health > first) ||
	         (spawn != REC_NONE && spawn > (health != REC_NONE ? health : first)))
		ev_miss(l, "inconsistent: times of start %" PRIu64 " are not in order", number);
	else {
		s->spawn_ns = spawn;
		s->health_ns = health;
		s->first_completion_ns = first;
	}
}

static void on_engine_not_ready(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	uint64_t number;
	if (!ev_u64(l, o, "start", &number))
		return;
	struct ev_start *s = find_start(l->e, number);
	if (!s)
		s = add_start(l, o);
	const char *message = json_str(o, "message");
	if (s)
		copy_cut(s->not_ready, sizeof(s->not_ready),
		         message && *message ? message : "no reason told");
}

static void on_engine_killed(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	uint64_t number;
	if (!ev_u64(l, o, "start", &number))
		return;
	struct ev_start *s = find_start(l->e, number);
	if (s)
		s->killed_ns = t_ns;
	else
		ev_miss(l, "inconsistent: start %" PRIu64 ", which was never spawned, was killed", number);
}

static void on_engine_exit(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	uint64_t number;
	bool expected;
	int64_t status = -1, sig = 0;
	if (!ev_u64(l, o, "start", &number) || !ev_bool(l, o, "expected", &expected))
		return;
	struct ev_start *s = find_start(l->e, number);
	if (!s) {
		ev_miss(l, "inconsistent: exit of start %" PRIu64 ", which was never spawned", number);
		return;
	}
	if (s->exited) {
		ev_miss(l, "inconsistent: start %" PRIu64 " exited before", number);
		return;
	}
	json_i64(o, "status", &status);
	json_i64(o, "signal", &sig);
	s->exited = true;
	s->exit_expected = expected;
	s->exit_status = (int)status;
	s->exit_signal = (int)sig;
}

static struct ev_cell_state *cell_of(struct ev_loader *l, const struct cJSON *o)
{
	char id[CELL_ID_BYTES];
	if (!ev_str(l, o, "cell", id, sizeof(id)))
		return NULL;
	size_t i = ev_cell(l, id);
	if (i < l->e->n_cells)
		return &l->e->cell_states[i];
	ev_miss(l, "inconsistent: the plan has no cell %.159s", id);
	return NULL;
}

static void on_cell_begin(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct ev_cell_state *st = cell_of(l, o);
	if (!st)
		return;
	if (st->begun)
		ev_miss(l, "inconsistent: cell %s began before", st->cell->id);
	if (!ev_u64(l, o, "planned", &st->planned))
		return;
	st->begun = true;
	if (st->planned != st->cell->requests)
		ev_miss(l, "inconsistent: cell %s of %" PRIu64 " requests, the plan says %" PRIu64,
		        st->cell->id, st->planned, st->cell->requests);
}

static void on_cell_end(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct ev_cell_state *st = cell_of(l, o), told;
	if (!st)
		return;
	if (!st->begun || st->ended)
		ev_miss(l, "inconsistent: cell %s ended without a begin", st->cell->id);
	told = *st;
	told.ended = true;
	if (!st->ended && ev_u64(l, o, "scheduled", &told.scheduled) && ev_u64(l, o, "done", &told.done) &&
	    ev_str(l, o, "stopped_by", told.stopped_by, sizeof(told.stopped_by)) &&
	    ev_u64(l, o, "wall_ns", &told.load_wall_ns))
		*st = told;
}

static void on_soundness(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct ev_cell_state *st = cell_of(l, o);
	if (!st)
		return;
	if (st->has_soundness) {
		ev_miss(l, "inconsistent: soundness of cell %s told before", st->cell->id);
		return;
	}
	const struct {
		const char *key;
		uint64_t *at;
	} wanted[] = {
		{ "send_lag_p50_ns", &st->send_lag_p50_ns },
		{ "send_lag_p99_ns", &st->send_lag_p99_ns },
		{ "send_lag_max_ns", &st->send_lag_max_ns },
		{ "loop_lag_p50_ns", &st->loop_lag_p50_ns },
		{ "loop_lag_p99_ns", &st->loop_lag_p99_ns },
		{ "loop_lag_max_ns", &st->loop_lag_max_ns },
		{ "loop_lag_n", &st->loop_lag_n },
		{ "client_cpu_ns", &st->client_cpu_ns },
		{ "wall_ns", &st->wall_ns },
		{ "steal_ticks", &st->steal_ticks },
		{ "total_ticks", &st->total_ticks },
		{ "max_in_flight", &st->max_in_flight },
		{ "start_ns", &st->start_ns },
		{ "runq_wait_ns", &st->runq_wait_ns },
		{ "threads", &st->threads },
		{ "retries", &st->retries },
	};
	bool all = true;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		all &= ev_u64_or_none(l, o, wanted[i].key, wanted[i].at);
	st->has_soundness = all;
	if (!st->loop_lag_n || st->loop_lag_n == REC_NONE)
		st->loop_lag_p50_ns = st->loop_lag_p99_ns = st->loop_lag_max_ns = REC_NONE;
}

static bool is_load_of_a_cell(const struct evidence *e, const char *load)
{
	for (size_t i = 0; i < e->n_cells; i++)
		if (strcmp(ev_load_of_cell(&e->cells[i]), load) == 0)
			return true;
	return false;
}

static bool calibrated_before(const struct evidence *e, const struct ev_calibration *c)
{
	for (size_t i = 0; i < e->n_calibrations; i++)
		if (e->calibrations[i].after == c->after && strcmp(e->calibrations[i].load, c->load) == 0)
			return true;
	return false;
}

static bool read_calibration(struct ev_loader *l, const struct cJSON *o, struct ev_calibration *c)
{
	const struct {
		const char *key;
		uint64_t *at;
	} wanted[] = {
		{ "ttft_error_p50_ns", &c->ttft_error_p50_ns },
		{ "ttft_error_p99_ns", &c->ttft_error_p99_ns },
		{ "ttft_error_max_ns", &c->ttft_error_max_ns },
		{ "itl_error_p50_ns", &c->itl_error_p50_ns },
		{ "itl_error_p99_ns", &c->itl_error_p99_ns },
		{ "itl_error_max_ns", &c->itl_error_max_ns },
		{ "send_lag_p50_ns", &c->send_lag_p50_ns },
		{ "send_lag_p99_ns", &c->send_lag_p99_ns },
		{ "send_lag_max_ns", &c->send_lag_max_ns },
		{ "loop_lag_p99_ns", &c->loop_lag_p99_ns },
		{ "client_cpu_ns", &c->client_cpu_ns },
		{ "wall_ns", &c->wall_ns },
		{ "n_tokens", &c->n_tokens },
		{ "max_in_flight", &c->max_in_flight },
		{ "server_late_p99_ns", &c->server_late_p99_ns },
	};
	bool all = ev_u64(l, o, "n_requests", &c->n_requests) && ev_u64(l, o, "n_failed", &c->n_failed) &&
	           ev_u64(l, o, "n_gaps", &c->n_gaps);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		all &= ev_u64_or_none(l, o, wanted[i].key, wanted[i].at);
	return all;
}

static void on_calibration(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct evidence *e = l->e;
	struct ev_calibration c = { 0 };
	char when[8];
	if (!ev_str(l, o, "load", c.load, sizeof(c.load)) || !ev_str(l, o, "when", when, sizeof(when)) ||
	    !read_calibration(l, o, &c))
		return;
	c.after = strcmp(when, "after") == 0;
	if (!c.after && strcmp(when, "before") != 0)
		ev_miss(l, "unknown \"when\": %s", when);
	else if (!is_load_of_a_cell(e, c.load))
		ev_miss(l, "inconsistent: the plan has no cell with the load %.159s", c.load);
	else if (calibrated_before(e, &c))
		ev_miss(l, "inconsistent: calibration of %.140s %s the load told before", c.load, when);
	else if (ev_room(l, &e->calibrations, e->n_calibrations, &l->cap_calibrations, sizeof(c)))
		e->calibrations[e->n_calibrations++] = c;
}

static void on_not_tested(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct err line;
	const char *what = json_str(o, "what"), *reason = json_str(o, "reason");
	size_t cell = what ? ev_cell(l, what) : l->e->n_cells;
	(void)err_set(&line, ERR_NONE, "%.200s: %.700s", what ? what : "?",
	              reason ? reason : "no reason told");
	ev_add_line(l, &l->e->not_tested, &l->e->n_not_tested, &l->cap_not_tested, line.msg);
	if (cell < l->e->n_cells) {
		(void)err_set(&line, ERR_NONE, "%.200s", reason && *reason ? reason : "no reason told");
		l->e->cell_states[cell].left_out = ev_keep(l, line.msg, strlen(line.msg));
	}
}

static void on_difference(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct err line;
	const char *what = json_str(o, "what"), *locked = json_str(o, "locked"),
		   *found = json_str(o, "found");
	(void)err_set(&line, ERR_NONE, "%.300s: locked %.300s, found %.300s", what ? what : "?",
	              locked ? locked : "nothing", found ? found : "nothing");
	ev_add_line(l, &l->e->differences, &l->e->n_differences, &l->cap_differences, line.msg);
}

static void on_disk_full(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	l->e->disk_full = true;
}

static void on_interrupt(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	l->e->interrupted = true;
}

static void on_error(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	struct evidence *e = l->e;
	uint64_t cls;
	const char *message = json_str(o, "message");
	if (e->error[0]) /* the first is the cause */
		return;
	copy_cut(e->error, sizeof(e->error), message && *message ? message : "no message told");
	e->error_class = json_u64(o, "class", &cls) && cls > 0 && cls < ERR_N_CLASSES ? (int)cls : ERR_ENV;
}

static void on_run_end(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns)
{
	if (ev_str(l, o, "status", l->e->status, sizeof(l->e->status)) &&
	    strcmp(l->e->status, "interrupted") == 0)
		l->e->interrupted = true;
}

static const struct {
	const char *ev;
	void (*take)(struct ev_loader *l, const struct cJSON *o, uint64_t t_ns);
} kinds[] = {
	{ "run_begin", on_run_begin },
	{ "phase_begin", on_phase_begin },
	{ "phase_end", on_phase_end },
	{ "engine_spawn", on_engine_spawn },
	{ "engine_ready", on_engine_ready },
	{ "engine_not_ready", on_engine_not_ready },
	{ "engine_killed", on_engine_killed },
	{ "engine_exit", on_engine_exit },
	{ "cell_begin", on_cell_begin },
	{ "cell_end", on_cell_end },
	{ "soundness", on_soundness },
	{ "calibration", on_calibration },
	{ "not_tested", on_not_tested },
	{ "difference", on_difference },
	{ "disk_full", on_disk_full },
	{ "interrupt", on_interrupt },
	{ "error", on_error },
	{ "run_end", on_run_end },
	{ "label", on_label },
};

static void take_event(struct ev_loader *l, const struct cJSON *o)
{
	uint64_t seq, t_ns;
	char ev[32];
	struct evidence *e = l->e;
	if (!ev_u64(l, o, "seq", &seq) || !ev_u64(l, o, "t_ns", &t_ns) || !ev_str(l, o, "ev", ev, sizeof(ev)))
		return;
	if (l->n_events ? seq != l->next_seq : seq > 1)
		ev_miss(l, "inconsistent: event number %" PRIu64 ", want %" PRIu64, seq, l->next_seq);
	l->n_events++;
	l->next_seq = seq + 1;
	if (t_ns < e->end_ns)
		ev_miss(l, "inconsistent: time runs backwards");
	if (e->status[0])
		ev_miss(l, "inconsistent: %s behind run_end", ev);
	if (!l->began && strcmp(ev, "run_begin") != 0)
		ev_miss(l, "inconsistent: %s before run_begin", ev);
	e->end_ns = t_ns > e->end_ns ? t_ns : e->end_ns;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].ev, ev) == 0) {
			kinds[i].take(l, o, t_ns);
			return;
		}
	ev_miss(l, "unknown event %s", ev);
}

void ev_read_events(struct ev_loader *l)
{
	if (!ev_each_object(l, "events.jsonl", LINE_BYTES_MAX, take_event))
		ev_miss(l, "not there");
	else if (!l->began)
		ev_miss(l, "no run_begin");
	else if (!l->e->status[0])
		ev_miss(l, "no run_end: the run was cut off");
}
