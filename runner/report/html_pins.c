// SPDX-License-Identifier: Apache-2.0
// What was tried, byte for byte; on which machine; and what a reader has to take on trust.
#include "report/report_parts.h"

#include "model/lock.h"
#include "report/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILES_SHOWN 40
#define FACTS_SHOWN 120
#define LIST_SHOWN 40

static void add_file(struct buf *b, const struct cJSON *file, const char *role)
{
	uint64_t bytes;
	buf_adds(b, "<tr>");
	td_text(b, role);
	buf_adds(b, "<td>");
	esc_n(b, json_str(file, "path") ? json_str(file, "path") : "not told", 400);
	buf_adds(b, "<small class=\"mono\">");
	esc_n(b, json_str(file, "sha256") ? json_str(file, "sha256") : "not told", 80);
	buf_adds(b, "</small></td>");
	td_num(b, json_u64(file, "bytes", &bytes) ? fmt_bytes((double)bytes).s : "unknown");
	buf_adds(b, "</tr>\n");
}

static bool is_mapped(const struct cJSON *file)
{
	const char *role = json_str(file, "role");
	return role && !strcmp(role, lock_role_words[LOCK_MAPPED]);
}

// Mapped libraries are many: they are counted here and listed in the lock.
static void add_files(struct buf *b, const struct cJSON *files, size_t *shown, uint64_t *n_mapped)
{
	const struct cJSON *f;
	cJSON_ArrayForEach(f, files)
	{
		const char *role = json_str(f, "role");
		if (is_mapped(f))
			++*n_mapped;
		else if ((*shown)++ < FILES_SHOWN)
			add_file(b, f, role ? role : "not told");
	}
}

static void add_locked_files(struct buf *b, const struct evidence *ev)
{
	size_t shown = 0;
	uint64_t n_mapped = 0;
	const struct cJSON *c;
	buf_adds(b, "<h3>Locked files</h3><div class=\"scroll\"><table><thead><tr><th>Role</th><th>File and "
	            "SHA-256</th>"
	            "<th class=\"n\">Size</th></tr></thead><tbody>\n");
	add_files(b, json_get(ev->lock, "files"), &shown, &n_mapped);
	cJSON_ArrayForEach(c, json_get(ev->lock, "candidates"))
	{
		const char *name = json_str(c, "name");
		if (name && !strcmp(name, ev->candidate))
			add_files(b, json_get(c, "files"), &shown, &n_mapped);
	}
	buf_adds(b, "</tbody></table></div>\n");
	if (shown > FILES_SHOWN)
		buf_addf(b, "<p class=\"note\">%d of %zu shown.</p>\n", FILES_SHOWN, shown);
	buf_addf(b,
	         "<p class=\"note\">%s files that the engine's processes had mapped are locked too; "
	         "plan.lock.json lists "
	         "each with its hash.</p>\n",
	         fmt_count(n_mapped).s);
}

static void add_engine(struct buf *b, const struct evidence *ev)
{
	const struct plan_candidate *c = plan_candidate_find(ev->plan, ev->candidate);
	const struct cJSON *told = json_get(ev->facts, "engine");
	const struct plan *p = ev->plan;
	buf_adds(b, "<table class=\"kv\"><tbody>\n");
	row_kv(b, "Model", p->model.id, false);
	row_kv(b, "Model revision", p->model.revision, true);
	row_kv(b, "Quantization", p->model.quantization, false);
	row_kv(b, "Engine", c ? engine_kind_words[c->engine] : NULL, false);
	row_kv(b, "Engine version in the plan", c ? c->engine_version : NULL, false);
	row_kv(b, "Engine commit in the plan", c ? c->engine_commit : NULL, true);
	row_kv(b, "Version the server told", json_str(told, "version_told"), false);
	row_kv(b, "Build the server told", json_str(told, "build_told"), true);
	row_kv(b, "Lock is of plan", json_str(ev->lock, "plan_sha256"), true);
	row_kv(b, "proofmark binary, SHA-256", ev->binary_sha256, true);
	buf_adds(b, "</tbody></table>\n");
}

/* --- facts: any object, as rows of dotted names -----------------------------------------------------------
 */

struct rows {
	struct buf *b;
	size_t n;
};

static void add_scalar(struct rows *rows, const char *path, const struct cJSON *v, const char *source)
{
	char number[40] = "";
	if (rows->n++ >= FACTS_SHOWN)
		return;
	if (cJSON_IsNumber(v))
		snprintf(number, sizeof number, "%.15g", v->valuedouble);
	buf_adds(rows->b, "<tr><th scope=\"row\">");
	esc_n(rows->b, path, 120);
	buf_adds(rows->b, "</th><td>");
	esc_n(rows->b,
	      cJSON_IsString(v) ? v->valuestring
	      : cJSON_IsBool(v) ? (cJSON_IsTrue(v) ? "yes" : "no")
	      : *number         ? number
	                        : "unknown",
	      400);
	buf_adds(rows->b, "</td><td>");
	esc_n(rows->b, source, 120);
	buf_adds(rows->b, "</td></tr>\n");
}

static void add_facts(struct rows *rows, const char *path, const struct cJSON *v, unsigned depth)
{
	const struct cJSON *value = json_get(v, "value"), *c;
	if (depth > 6 || rows->n > FACTS_SHOWN)
		return;
	if (cJSON_IsObject(v) && value && !cJSON_IsObject(value) && !cJSON_IsArray(value)) {
		add_scalar(rows, path, value, json_str(v, "source"));
		return;
	}
	if (!cJSON_IsObject(v) && !cJSON_IsArray(v)) {
		add_scalar(rows, path, v, NULL);
		return;
	}
	unsigned i = 0;
	cJSON_ArrayForEach(c, v)
	{
		char name[200];
		if (c->string)
			snprintf(name, sizeof name, "%.120s%s%.60s", path, *path ? " " : "", c->string);
		else
			snprintf(name, sizeof name, "%.120s %u", path, ++i);
		for (char *p = name; *p; p++)
			*p = *p == '_' ? ' ' : *p;
		add_facts(rows, name, c, depth + 1);
	}
}

static void add_machine(struct buf *b, const struct evidence *ev)
{
	const struct cJSON *host = json_get(ev->facts, "host");
	struct rows rows = { b, 0 };
	buf_adds(b, "<h3>Machine</h3>\n");
	if (!host) {
		note(b, "Facts about the machine are missing.");
		return;
	}
	buf_adds(b, "<div class=\"scroll\"><table class=\"kv facts\"><thead><tr><th>Fact</th><th>Value</th>"
	            "<th>Source</th></tr></thead><tbody>\n");
	add_facts(&rows, "", host, 0);
	buf_adds(b, "</tbody></table></div>\n");
	if (rows.n > FACTS_SHOWN)
		buf_addf(b, "<p class=\"note\">The first %d facts; all are in facts.json.</p>\n",
		         FACTS_SHOWN);
}

void part_pins(struct buf *b, const struct verdict *v)
{
	section_open(b, "pins", "Machine and pins", "What was tried, by hash where there are bytes to hash.");
	add_engine(b, v->ev);
	if (v->ev->lock)
		add_locked_files(b, v->ev);
	else
		note(b, "There is no lock, so nothing says what the files were.");
	add_machine(b, v->ev);
	section_close(b);
}

/* --- trust ------------------------------------------------------------------------------------------------
 */

static void add_list(struct buf *b, const char *title, char *const *list, size_t n)
{
	if (!n)
		return;
	buf_addf(b, "<h3>%s</h3>\n<ul class=\"plain\">", title);
	for (size_t i = 0; i < n && i < LIST_SHOWN; i++) {
		buf_adds(b, "<li>");
		esc_n(b, list[i], 600);
		buf_adds(b, "</li>");
	}
	buf_adds(b, "</ul>\n");
	if (n > LIST_SHOWN)
		buf_addf(b, "<p class=\"note\">and %zu more.</p>\n", n - LIST_SHOWN);
}

static const char *const self_declared[] = {
	"The machine that ran the trial wrote these records itself. The signature proves that they were not "
	"changed "
	"afterwards and who sealed them; it does not prove that the machine told the truth.",
	"Dates and times come from the machine's own clock. That the plan was fixed before the load is "
	"proven only by a "
	"time stamp of somebody else, or by the buyer's challenge.",
	"The machine itself counts its attempts and chains them; an attempt may be missing.",
	"Token counts, engine version, build and model name are what the server told of itself.",
	"Facts about processor, memory, kernel and drivers are what the operating system told.",
};

void part_trust(struct buf *b, const struct verdict *v)
{
	const struct evidence *ev = v->ev;
	section_open(b, "trust", "What this report cannot show by itself", NULL);
	add_list(b, "Why this run can never be accepted", ev->labels, ev->n_labels);
	add_list(b, "Not as locked", ev->differences, ev->n_differences);
	add_list(b, "Missing, cut or unreadable evidence", ev->missing, ev->n_missing);
	if (ev->error[0]) {
		char *one[] = { (char[512]){ 0 } };
		snprintf(one[0], 512, "%.500s", ev->error);
		add_list(b, "Error that ended the run", one, 1);
	}
	add_list(b, "Parts of the plan that were not tested", ev->not_tested, ev->n_not_tested);
	buf_adds(b, "<h3>Self-declared</h3>\n<ul class=\"plain\">");
	for (size_t i = 0; i < ARRAY_LEN(self_declared); i++)
		buf_addf(b, "<li>%s</li>", self_declared[i]);
	buf_adds(b, "</ul>\n");
	section_close(b);
}
