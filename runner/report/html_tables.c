// SPDX-License-Identifier: Apache-2.0
// Controls, and starts of the engine.
#include "report/report_parts.h"

#include "model/metrics_calc.h"
#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_control(struct buf *b, const struct control_result *c)
{
	bool pass = c->n && c->n_passed == c->n;
	enum crit_state s = !c->n ? STATE_NOT_TESTED : pass ? STATE_PASS : STATE_FAIL;
	buf_addf(b, "<tr><td class=\"mark %s\" style=\"width:34px\">", state_class(s, false));
	add_icon(b, state_icon(s, false));
	buf_adds(b, "</td><th scope=\"row\">");
	esc_n(b, c->control->id, 80);
	if (c->control->prompt) {
		buf_adds(b, "<small>");
		esc_n(b, c->control->prompt, 160);
		buf_adds(b, "</small>");
	}
	buf_adds(b, "</th>");
	td_num(b, c->n ? fmt_count(c->n_passed).s : "–");
	td_num(b, fmt_count(c->n).s);
	td_num(b, c->n ? fmt_count(c->n_unclear).s : "–");
	td_text(b, c->first_failure[0] ? c->first_failure : c->n ? "–" : "never asked in this run");
	buf_adds(b, "</tr>\n");
}

void part_controls(struct buf *b, const struct verdict *v)
{
	section_open(
		b, "controls", "Known-answer controls",
		"Asked before, between and after the load. A fast engine that answers wrongly is not fast.");
	if (!v->n_controls) {
		note(b, "The plan has no controls: whether the answers are right was not looked at.");
		section_close(b);
		return;
	}
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th></th><th>Control</th><th class=\"n\">As "
	            "expected</th>"
	            "<th class=\"n\">n</th><th class=\"n\">Unclear</th><th>First that was "
	            "not</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_controls; i++)
		add_control(b, &v->controls[i]);
	buf_adds(b, "</tbody></table></div>\n");
	section_close(b);
}

static const char *why_says(const char *why)
{
	static const char *const rows[][2] = { { "first", "cold start" },
		                               { "second_cold", "second cold start" },
		                               { "restart", "restart after a kill" } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i][0], why))
			return rows[i][1];
	return why;
}

static void say_exit(char out[320], const struct ev_start *s)
{
	if (s->killed_ns != REC_NONE)
		snprintf(out, 320, "killed by the restart test");
	else if (!s->exited)
		snprintf(out, 320, "%s", s->not_ready[0] ? s->not_ready : "no end recorded");
	else if (s->exit_expected)
		snprintf(out, 320, "stopped by the trial");
	else if (s->exit_signal)
		snprintf(out, 320, "died by itself, signal %d", s->exit_signal);
	else
		snprintf(out, 320, "ended by itself, status %d", s->exit_status);
}

void part_starts(struct buf *b, const struct verdict *v)
{
	const struct evidence *ev = v->ev;
	section_open(b, "starts", "Starts and recovery",
	             "From spawning the engine to the first whole answer.");
	if (!ev->n_starts) {
		note(b, "No start of the engine was recorded.");
		section_close(b);
		return;
	}
	buf_adds(b, "<div class=\"scroll\"><table><thead><tr><th class=\"n\">No.</th><th>Start</th>"
	            "<th class=\"n\">Health endpoint up</th><th class=\"n\">First "
	            "completion</th><th>End</th></tr></thead>"
	            "<tbody>\n");
	for (size_t i = 0; i < ev->n_starts; i++) {
		const struct ev_start *s = &ev->starts[i];
		char end[320];
		say_exit(end, s);
		buf_adds(b, "<tr>");
		td_num(b, fmt_count(s->number).s);
		td_text(b, why_says(s->why));
		td_num(b, fmt_ns_or(span_ns(s->spawn_ns, s->health_ns),
		                    s->spawn_ns == REC_NONE ? "ran already" : "never")
		                  .s);
		td_num(b, fmt_ns_or(span_ns(s->spawn_ns, s->first_completion_ns),
		                    s->spawn_ns == REC_NONE ? "ran already" : "never")
		                  .s);
		td_text(b, end);
		buf_adds(b, "</tr>\n");
	}
	buf_adds(b, "</tbody></table></div>\n");
	section_close(b);
}
