/* SPDX-License-Identifier: Apache-2.0 */
/* Kind json. Every input.NAME.json gets an object NAME (and the same under "each"): status, and what the
 * document holds, by dotted paths. Documents with a key twice are told by both readings that are about. An
 * input.sse is a stream of deltas whose text is put together. */
#include "stream_out.h"

#include "load/scan.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS_MAX = 2000, PATH_BYTES = 1024, RAW_BYTES_MAX = 4096 };

static const char *const our_words[] = { "status", "reason", "warning", "paths", "depth", "top", NULL };

static bool is_our_word(const char *path)
{
	for (const char *const *w = our_words; *w; w++)
		if (strcmp(path, *w) == 0)
			return true;
	return false;
}

static unsigned depth_of(const struct cJSON *v)
{
	unsigned deepest = 0;
	const struct cJSON *c;
	if (!cJSON_IsObject(v) && !cJSON_IsArray(v))
		return 0;
	cJSON_ArrayForEach(c, v)
	{
		unsigned d = depth_of(c);
		if (d > deepest)
			deepest = d;
	}
	return deepest + 1;
}

static void put_suffixed(struct json_out *o, const char *path, const char *suffix, const char *text,
                         uint64_t number)
{
	auto_free char *key = str_fmt("%s%s", path, suffix);
	if (text)
		jo_str(o, key, text);
	else
		jo_u64(o, key, number);
}

static void put_string(struct json_out *o, const char *path, const struct cJSON *v)
{
	size_t len = json_string_len(v);
	uint64_t chars = 0;
	bool plain = true;
	auto_buf hex = BUF_INIT(2u * CASE_FILE_BYTES_MAX + 1);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)v->valuestring[i];
		chars += (c & 0xc0) != 0x80;
		plain = plain && c >= 0x20 && c < 0x7f;
		buf_addf(&hex, "%02x", c);
	}
	jo_strn(o, path, v->valuestring, len);
	put_suffixed(o, path, "_len", NULL, chars);
	if (!plain)
		put_suffixed(o, path, "_utf8_hex", hex.p, 0);
}

static void put_array(struct json_out *o, const char *path, const struct cJSON *v)
{
	char *text = cJSON_PrintUnformatted(v);
	if (text && strlen(text) <= RAW_BYTES_MAX)
		jo_raw(o, path, text, strlen(text));
	cJSON_free(text);
}

static void put_value(struct json_out *o, const char *path, const struct cJSON *v)
{
	if (cJSON_IsString(v))
		put_string(o, path, v);
	else if (cJSON_IsNumber(v))
		jo_num(o, path, v->valuedouble);
	else if (cJSON_IsBool(v))
		jo_bool(o, path, cJSON_IsTrue(v));
	else if (cJSON_IsArray(v))
		put_array(o, path, v);
	else
		jo_null(o, path);
}

/* Objects are walked, everything else is told. */
static void put_members(struct json_out *o, const char *prefix, const struct cJSON *obj, unsigned *left)
{
	const struct cJSON *v;
	cJSON_ArrayForEach(v, obj)
	{
		char path[PATH_BYTES];
		int n = snprintf(path, sizeof(path), "%s%s%s", prefix ? prefix : "", prefix ? "." : "",
		                 v->string);
		if (n >= (int)sizeof(path) || !*left)
			continue;
		if (cJSON_IsObject(v)) {
			put_members(o, path, v, left);
		} else if (!is_our_word(path)) {
			--*left;
			put_value(o, path, v);
		}
	}
}

static void put_document(struct json_out *o, const struct cJSON *doc)
{
	unsigned left = MEMBERS_MAX;
	jo_u64(o, "depth", depth_of(doc));
	if (cJSON_IsObject(doc))
		put_members(o, NULL, doc, &left);
	else
		put_value(o, "top", doc);
}

/* "/limits/max~1x" -> "limits.max/x" */
static void dotted(const char *pointer, char out[PATH_BYTES])
{
	size_t n = 0;
	for (const char *p = *pointer == '/' ? pointer + 1 : pointer; *p && n + 1 < PATH_BYTES; p++) {
		if (*p == '~' && (p[1] == '0' || p[1] == '1'))
			out[n++] = *++p == '0' ? '~' : '/';
		else
			out[n++] = (char)(*p == '/' ? '.' : *p);
	}
	out[n] = '\0';
}

static void put_paths(struct json_out *o, const struct problems *p)
{
	jo_arr(o, "paths");
	for (size_t i = 0; i < p->n; i++) {
		char path[PATH_BYTES];
		bool told = false;
		for (size_t j = 0; j < i; j++)
			told = told || (p->list[j].kind == PROBLEM_ERROR &&
			                strcmp(p->list[j].pointer, p->list[i].pointer) == 0);
		if (told || p->list[i].kind != PROBLEM_ERROR)
			continue;
		dotted(p->list[i].pointer, path);
		jo_str(o, NULL, path);
	}
	jo_end_arr(o);
}

/* Names that differ only in upper and lower case: for a reader that knows the first, the second is unknown.
 */
static const struct problem *twin_of(const struct problems *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].kind == PROBLEM_WARNING &&
		    strncmp(p->list[i].text, "names are compared", 18) == 0)
			return &p->list[i];
	return NULL;
}

static void put_ok(struct json_out *o, const struct cJSON *doc, const struct problems *p)
{
	const struct problem *twin = twin_of(p);
	if (twin) {
		char path[PATH_BYTES];
		dotted(twin->pointer, path);
		auto_free char *reason = str_fmt("unknown key '%s' (%s)", path, twin->text);
		jo_str(o, "status", "error");
		jo_str(o, "reason", reason);
	} else {
		jo_str(o, "status", "ok");
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].kind == PROBLEM_WARNING && &p->list[i] != twin) {
			jo_str(o, "warning", p->list[i].text);
			break;
		}
	put_document(o, doc);
}

static void read_text(struct json_out *o, const struct buf *text, const struct case_input *in)
{
	auto_json doc = NULL;
	auto_problems p = { 0 };
	struct err bad = { 0 };
	if (json_parse(&doc, text->p, text->len, in->file, JSON_STRICT, &p, &bad) == 0) {
		put_ok(o, doc, &p);
		return;
	}
	case_put_error(o, &bad);
	if (p.n_errors)
		put_paths(o, &p);
}

static int read_texts(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
		if (strcmp(in->ext, "json") != 0)
			continue;
		if (case_read_file(&text, c, in, err))
			return -1;
		if (*in->name)
			jo_obj(o, in->name);
		read_text(o, &text, in);
		if (*in->name)
			jo_end(o);
	}
	return 0;
}

/* --- two readings of keys given twice ------------------------------------------------------------------- */

static const struct cJSON *step(const struct cJSON *at, const char *key)
{
	const struct cJSON *found = json_get(at, key);
	if (!found && cJSON_IsArray(at) && strspn(key, "0123456789") == strlen(key) && strlen(key) < 9)
		found = cJSON_GetArrayItem(at, (int)strtol(key, NULL, 10));
	return found;
}

static const struct cJSON *at_pointer(const struct cJSON *doc, const char *pointer)
{
	auto_free char *copy = strdup(pointer);
	char *rest = copy, *part;
	if (!copy)
		return NULL;
	strsep(&rest, "/");
	while (doc && (part = strsep(&rest, "/"))) {
		char key[PATH_BYTES];
		dotted(part, key);
		doc = step(doc, key);
	}
	return doc;
}

/* `last`: as the product reads an engine's answer; else as cJSON alone would. */
static void put_reading(struct json_out *o, const struct case_input *in, const struct buf *text, bool last)
{
	auto_json strict = NULL;
	auto_json doc = NULL;
	auto_problems p = { 0 };
	struct err ignored = { 0 };
	if (json_parse(&strict, text->p, text->len, in->file, JSON_STRICT, &p, &ignored) == 0 || !p.n_errors)
		return;
	if (!last)
		doc = cJSON_ParseWithLength(text->p, text->len);
	else if (json_parse(&doc, text->p, text->len, in->file, JSON_ENGINE, NULL, &ignored))
		return;
	const char *told = "";
	for (size_t i = 0; i < p.n; i++) {
		char path[PATH_BYTES], key[2 * PATH_BYTES];
		const struct cJSON *v = at_pointer(doc, p.list[i].pointer);
		if (p.list[i].kind != PROBLEM_ERROR || !v || strcmp(told, p.list[i].pointer) == 0)
			continue;
		told = p.list[i].pointer;
		dotted(told, path);
		snprintf(key, sizeof(key), "%s%s%s", in->name, *in->name ? "." : "", path);
		if (!cJSON_IsObject(v))
			put_value(o, key, v);
	}
}

static int put_readings(const struct case_dir *c, struct json_out *o, bool last, struct err *err)
{
	jo_obj(o, last ? "last_wins_reads" : "first_wins_reads");
	for (size_t i = 0; i < c->n_inputs; i++) {
		auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
		if (strcmp(c->inputs[i].ext, "json") != 0)
			continue;
		if (case_read_file(&text, c, &c->inputs[i], err))
			return -1;
		put_reading(o, &c->inputs[i], &text, last);
	}
	jo_end(o);
	return 0;
}

/* --- text put together from deltas ---------------------------------------------------------------------- */

static bool is_utf8(const struct buf *b)
{
	for (size_t at = 0, n; at < b->len; at += n)
		if ((n = utf8_len(b->p + at, b->len - at)) == 0)
			return false;
	return true;
}

static void put_deltas(struct json_out *o, const struct reading *r)
{
	const struct buf *text = &r->text[CHANNEL_CONTENT];
	const struct wire_reader *w = &r->ans.wire;
	/* The texts are judged here, not whether the stream came to its end. */
	bool ok = !w->n_malformed && !w->has_error && r->ans.sse.n_events > 0;
	jo_str(o, "status", !ok ? "error" : wire_warnings(w) ? "ok with warning" : "ok");
	if (!ok)
		jo_str(o, "reason", r->rec.detail[0] ? r->rec.detail : outcome_words[r->rec.outcome]);
	jo_strn(o, "text", text->p ? text->p : "", text->len);
	put_hex(o, "text_utf8_hex", text->p, text->len);
	jo_u64(o, "text_chars", r->rec.text_chars);
	jo_u64(o, "token_events", r->rec.tok_n);
	jo_u64(o, "pairs_joined_over_deltas", w->n_joined_halves);
	jo_u64(o, "lone_halves_replaced", w->n_lone_halves);
	jo_u64(o, "json_errors", w->n_malformed);
	jo_bool(o, "stored_text_is_valid_utf8", is_utf8(text));
}

static int read_deltas(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		auto_buf body = BUF_INIT(CASE_FILE_BYTES_MAX);
		struct reading r;
		if (strcmp(in->ext, "sse") != 0)
			continue;
		if (case_read_file(&body, c, in, err))
			return -1;
		reading_init(&r, reading_proto(body.p, body.len));
		answer_body(&r.ans, 0, 0, body.p, body.len);
		answer_end(&r.ans, TRANSPORT_COMPLETE, "");
		if (*in->name)
			jo_obj(o, in->name);
		put_deltas(o, &r);
		if (*in->name)
			jo_end(o);
		reading_done(&r);
	}
	return 0;
}

int read_json_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	if (read_texts(c, o, err) || read_deltas(c, o, err))
		return -1;
	jo_obj(o, "each");
	if (read_texts(c, o, err))
		return -1;
	jo_end(o);
	return put_readings(c, o, false, err) || put_readings(c, o, true, err) ? -1 : 0;
}
