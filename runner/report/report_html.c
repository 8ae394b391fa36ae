// SPDX-License-Identifier: Apache-2.0
// report.html: one file that needs nothing else. No script, no request, the same bytes for the same evidence.
#include "report/report.h"
#include "report/report_parts.h"

#include "report/format.h"

#include <string.h>

const struct cell_result *critical_cell(const struct verdict *v)
{
	for (size_t i = 0; i < v->n_cells; i++)
		if (v->cells[i].cell->critical)
			return &v->cells[i];
	return NULL;
}

const char *state_icon(enum crit_state s, bool waived)
{
	static const char *const icons[] = { "i-pass",    "i-fail",    "i-open",    "i-invalid",
		                             "i-invalid", "i-blocked", "i-skipped", "i-skipped" };
	return waived ? "i-waived" : (unsigned)s < N_STATES ? icons[s] : "i-invalid";
}

const char *state_class(enum crit_state s, bool waived)
{
	static const char *const classes[] = { "pass",    "fail",    "open", "invalid",
		                               "invalid", "invalid", "open", "open" };
	return waived ? "invalid" : (unsigned)s < N_STATES ? classes[s] : "invalid";
}

void add_icon(struct buf *b, const char *id)
{
	buf_addf(b, "<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#%s\"/></svg>", id);
}

void section_open(struct buf *b, const char *id, const char *title, const char *lead)
{
	buf_addf(b, "<section id=\"%s\" aria-labelledby=\"h-%s\">\n<h2 id=\"h-%s\">%s</h2>\n", id, id, id,
	         title);
	if (lead)
		buf_addf(b, "<p class=\"lead\">%s</p>\n", lead);
}

void section_close(struct buf *b)
{
	buf_adds(b, "</section>\n");
}

void note(struct buf *b, const char *text)
{
	buf_addf(b, "<p class=\"note\">%s</p>\n", text);
}

void row_kv(struct buf *b, const char *key, const char *value, bool mono)
{
	bool told = value && *value;
	buf_addf(b, "<tr><th scope=\"row\">%s</th><td%s>", key, mono && told ? " class=\"mono\"" : "");
	esc_n(b, told ? value : "not told", 600);
	buf_adds(b, "</td></tr>\n");
}

void td_num(struct buf *b, const char *text)
{
	buf_adds(b, "<td class=\"n\">");
	esc(b, text);
	buf_adds(b, "</td>");
}

void td_text(struct buf *b, const char *text)
{
	buf_adds(b, "<td>");
	esc_n(b, text, 600);
	buf_adds(b, "</td>");
}

uint64_t run_end_ns(const struct evidence *ev)
{
	uint64_t end = ev->end_ns == REC_NONE ? 0 : ev->end_ns;
	for (size_t i = 0; i < ev->n_phases; i++)
		if (ev->phases[i].end_ns != REC_NONE && ev->phases[i].end_ns > end)
			end = ev->phases[i].end_ns;
	return end ? end : 1;
}

static void open_page(struct buf *b, const struct verdict *v)
{
	const struct plan *p = v->ev->plan;
	buf_adds(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
	            "'unsafe-inline'\">\n"
	            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	            "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	buf_addf(b, "%s: ", verdict_says(v->run));
	esc_n(b, p->title ? p->title : p->id, 200);
	buf_adds(b, "</title>\n<style>\n");
	for (size_t i = 0; html_style[i]; i++)
		buf_adds(b, html_style[i]);
	buf_adds(b, "</style></head>\n<body>\n");
	buf_adds(b, html_symbols);
	buf_adds(b, "<main>\n");
}

static void close_page(struct buf *b, const struct verdict *v)
{
	buf_adds(b, "<footer>Made by proofmark ");
	esc_n(b, PROOFMARK_VERSION, 40);
	buf_adds(b, " from the records of run ");
	esc_n(b, v->ev->run_id[0] ? v->ev->run_id : "not told", 80);
	buf_adds(b, ". Every figure can be recomputed from them.</footer>\n</main>\n</body></html>\n");
}

int report_html(struct buf *out, const struct verdict *v)
{
	static void (*const parts[])(struct buf *, const struct verdict *) = {
		part_front,  part_ttft,       part_grid,   part_cells,    part_load,
		part_groups, part_errors,     part_memory, part_canaries, part_controls,
		part_starts, part_instrument, part_pins,   part_trust,
	};
	open_page(out, v);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		parts[i](out, v);
	close_page(out, v);
	return out->failed ? -1 : 0;
}
