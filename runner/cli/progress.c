/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include "base/clock.h"
#include "base/json_out.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define REDRAW_NS (250 * NS_PER_MS)
#define JSON_NS NS_PER_S
#define PLAIN_NS (30 * NS_PER_S)

enum shown { SHOWN_NOTHING, SHOWN_TTY, SHOWN_PLAIN, SHOWN_JSON };

static struct {
	enum shown shown;
	bool colour, drawn; /* drawn: the redrawn line is on the screen */
	uint64_t opened_ns, told_ns;
	char phase[64];
	char cell[CELL_ID_BYTES]; /* "" = none */
	struct load_progress last;
} state;

const char *const progress_words[] = { "auto", "plain", "json", "none", NULL };

enum progress_mode progress_mode_of(const char *word)
{
	for (size_t i = 0; word && progress_words[i]; i++)
		if (!strcmp(progress_words[i], word))
			return (enum progress_mode)i;
	return PROGRESS_AUTO;
}

bool progress_colour(int fd)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(fd) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

/* ---- texts -------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(char out[PROGRESS_TEXT_BYTES], const char *fmt, ...)
{
	size_t len = strlen(out);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(out + len, PROGRESS_TEXT_BYTES - len, fmt, ap);
	va_end(ap);
}

static void add_duration(char out[PROGRESS_TEXT_BYTES], double s)
{
	if (s < 90)
		add(out, "%.0f s", s);
	else if (s < 90 * 60)
		add(out, "%.0f min", s / 60);
	else
		add(out, "%.1f h", s / 3600);
}

static void add_ms(char out[PROGRESS_TEXT_BYTES], const char *name, uint64_t ns)
{
	double ms = (double)ns / (double)NS_PER_MS;
	add(out, " %s %.*f ms", name, ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

static void add_needed(char out[PROGRESS_TEXT_BYTES], const struct load_progress *p)
{
	if (!p->planned || p->done >= p->planned)
		return;
	uint64_t left = p->planned - p->done;
	add(out, ", %" PRIu64 " needed", left);
	if (p->done && p->elapsed_ns) {
		add(out, ", about ");
		add_duration(out, (double)p->elapsed_ns / (double)NS_PER_S / (double)p->done * (double)left);
	}
}

static void add_load(char out[PROGRESS_TEXT_BYTES], const struct load_progress *p)
{
	add(out, " %" PRIu64, p->done);
	if (p->planned)
		add(out, "/%" PRIu64, p->planned);
	add(out, " requests");
	if (p->ttft_p50_ns != REC_NONE) {
		add(out, ", TTFT");
		add_ms(out, "p50", p->ttft_p50_ns);
	}
	if (p->ttft_p99_ns != REC_NONE)
		add_ms(out, "p99", p->ttft_p99_ns);
	if (p->tokens && p->elapsed_ns)
		add(out, ", %.1f tok/s", (double)p->tokens / ((double)p->elapsed_ns / (double)NS_PER_S));
	add(out, ", %" PRIu64 " failed", p->failed);
	add_needed(out, p);
}

void progress_text(char out[PROGRESS_TEXT_BYTES], const char *phase, const char *cell_id,
                   const struct load_progress *p)
{
	out[0] = '\0';
	add(out, "%s", phase);
	if (cell_id && *cell_id)
		add(out, "%s%s:", *phase ? " " : "", cell_id);
	if (p)
		add_load(out, p);
}

void progress_cut(char *text, size_t columns)
{
	static const char dots[] = "\xe2\x80\xa6";
	size_t seen = 0;
	char *last = text; /* where the last character that fits begins */
	for (char *c = text; *c; c++) {
		if (((unsigned char)*c & 0xc0) == 0x80)
			continue;
		if (seen == columns) {
			/* Both the text behind `last` and its new end are inside the old text or one dot
			 * long. */
			size_t room = strlen(last);
			if (columns && room >= sizeof(dots) - 1)
				memcpy(last, dots, sizeof(dots));
			else
				*last = '\0';
			return;
		}
		last = c;
		seen++;
	}
}

/* ---- the three ways of showing ------------------------------------------------------------------------ */

static size_t columns(void)
{
	struct winsize w = { 0 };
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col > 1)
		return w.ws_col - 1u;
	return 79;
}

static void tty_clear(void)
{
	if (state.drawn)
		fputs("\r\033[K", stderr);
	state.drawn = false;
}

static void tty_draw(const struct load_progress *p)
{
	char text[PROGRESS_TEXT_BYTES];
	size_t bold = strlen(state.phase), len;
	progress_text(text, state.phase, state.cell, p);
	progress_cut(text, columns());
	len = strlen(text);
	bold = state.colour && bold < len ? bold : 0;
	fprintf(stderr, "\r\033[K%s%.*s%s%s", bold ? "\033[1m" : "", (int)bold, text, bold ? "\033[0m" : "",
	        text + bold);
	fflush(stderr);
	state.drawn = true;
}

static void plain_load(const struct load_progress *p)
{
	char text[PROGRESS_TEXT_BYTES];
	progress_text(text, state.phase, state.cell, p);
	fprintf(stderr, "%s\n", text);
}

static void json_begin(struct json_out *o, struct buf *b)
{
	jo_init(o, b, 0);
	jo_obj(o, NULL);
	jo_u64(o, "elapsed_ns", clock_now_ns() - state.opened_ns);
	jo_str(o, "phase", state.phase);
}

static void json_end(struct json_out *o)
{
	jo_end(o);
	if (!o->b->failed)
		fprintf(stderr, "%s\n", o->b->p);
	buf_done(o->b);
}

static void json_load(const struct load_progress *p)
{
	struct buf b = BUF_INIT(4096);
	struct json_out o;
	json_begin(&o, &b);
	jo_str(&o, "cell", state.cell);
	jo_u64(&o, "n_done", p->done);
	if (p->planned)
		jo_u64(&o, "n_planned", p->planned);
	else
		jo_null(&o, "n_planned");
	jo_u64(&o, "n_failed", p->failed);
	jo_u64(&o, "n_in_flight", p->in_flight);
	jo_u64(&o, "n_tokens", p->tokens);
	jo_opt_u64(&o, "ttft_p50_ns", p->ttft_p50_ns);
	jo_opt_u64(&o, "ttft_p99_ns", p->ttft_p99_ns);
	jo_u64(&o, "cell_elapsed_ns", p->elapsed_ns);
	json_end(&o);
}

static void show_load(const struct load_progress *p)
{
	state.told_ns = clock_now_ns();
	if (state.shown == SHOWN_TTY)
		tty_draw(p);
	else if (state.shown == SHOWN_PLAIN)
		plain_load(p);
	else if (state.shown == SHOWN_JSON)
		json_load(p);
}

/* A finished cell leaves its last figures on the screen or in the log. */
static void end_cell(void)
{
	if (!state.cell[0])
		return;
	show_load(&state.last);
	if (state.shown == SHOWN_TTY)
		fputc('\n', stderr);
	state.drawn = false;
	state.cell[0] = '\0';
}

/* ---- for callers -------------------------------------------------------------------------------------- */

void progress_open(enum progress_mode mode)
{
	const char *term = getenv("TERM");
	bool tty = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
	memset(&state, 0, sizeof(state));
	state.opened_ns = clock_now_ns();
	state.colour = progress_colour(STDERR_FILENO);
	switch (mode) {
	case PROGRESS_AUTO:
		state.shown = tty ? SHOWN_TTY : SHOWN_PLAIN;
		break;
	case PROGRESS_PLAIN:
		state.shown = SHOWN_PLAIN;
		break;
	case PROGRESS_JSON:
		state.shown = SHOWN_JSON;
		break;
	case PROGRESS_NONE:
		break;
	}
}

void progress_phase(const char *name)
{
	end_cell();
	snprintf(state.phase, sizeof(state.phase), "%s", name);
	if (state.shown == SHOWN_TTY) {
		tty_draw(NULL);
	} else if (state.shown == SHOWN_PLAIN) {
		fprintf(stderr, "%s\n", state.phase);
	} else if (state.shown == SHOWN_JSON) {
		struct buf b = BUF_INIT(1024);
		struct json_out o;
		json_begin(&o, &b);
		json_end(&o);
	}
	state.told_ns = clock_now_ns();
}

static uint64_t period_ns(void)
{
	return state.shown == SHOWN_TTY ? REDRAW_NS : state.shown == SHOWN_JSON ? JSON_NS : PLAIN_NS;
}

void progress_load(const char *cell_id, const struct load_progress *p)
{
	if (state.shown == SHOWN_NOTHING)
		return;
	bool other = strcmp(state.cell, cell_id) != 0;
	if (other) {
		end_cell();
		snprintf(state.cell, sizeof(state.cell), "%s", cell_id);
	}
	state.last = *p;
	if ((other && state.shown == SHOWN_TTY) || clock_now_ns() - state.told_ns >= period_ns())
		show_load(p);
}

void progress_line(const char *fmt, ...)
{
	char text[PROGRESS_TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	if (state.shown == SHOWN_TTY) {
		tty_clear();
		fprintf(stderr, "%s\n", text);
		tty_draw(state.cell[0] ? &state.last : NULL);
	} else if (state.shown == SHOWN_PLAIN) {
		fprintf(stderr, "%s\n", text);
	} else if (state.shown == SHOWN_JSON) {
		struct buf b = BUF_INIT(8192);
		struct json_out o;
		json_begin(&o, &b);
		jo_str(&o, "text", text);
		json_end(&o);
	}
}

void progress_close(void)
{
	end_cell();
	if (state.shown == SHOWN_TTY)
		tty_clear();
	memset(&state, 0, sizeof(state));
}
