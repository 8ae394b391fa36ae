/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/engine_commit.h"

#include "base/cleanup.h"
#include "base/json_in.h"
#include "base/json_out.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COMMIT_DIGITS_MIN = 7, WORD_BYTES = 256 };

static const char too_short[] = "the commit it tells has fewer than 7 hex digits";
static const char disagree[] = "its sha and its docker label name different commits";

const char *told_engine_name(enum told_engine engine)
{
	static const char *const names[TOLD_N] = { "llama.cpp", "vllm", "sglang",
		                                   "ollama",    "tgi",  "tensorrt-llm" };
	return engine < TOLD_N ? names[engine] : "unknown";
}

/* --- pieces ----------------------------------------------------------------------------------------------
 */

static size_t hex_run(const char *s)
{
	return strspn(s, "0123456789abcdefABCDEF");
}

/* Takes `n` hex digits as the commit, where a commit may stand. */
static bool take_commit(char out[TOLD_COMMIT_BYTES], const char **fault, const char *s, size_t n)
{
	if (n == 0 || n >= TOLD_COMMIT_BYTES)
		return false;
	if (n < COMMIT_DIGITS_MIN) {
		*fault = too_short;
		return false;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)s[i]);
	out[n] = '\0';
	return true;
}

static bool take_number(uint64_t *out, const char *s, size_t *n_digits)
{
	size_t n = strspn(s, "0123456789");
	uint64_t v = 0;
	*n_digits = n;
	if (n == 0 || n > 12)
		return false;
	for (size_t i = 0; i < n; i++)
		v = v * 10 + (uint64_t)(s[i] - '0');
	*out = v;
	return v > 0; /* 0 is what a build without git says */
}

static bool is_version(const char *s)
{
	size_t n = strlen(s);
	return n > 0 && n < TOLD_TEXT_BYTES &&
	       strspn(s, "0123456789abcdefghijklmnopqrstuvwxyz"
	                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_!") == n &&
	       (isdigit((unsigned char)s[0]) || (s[0] == 'v' && isdigit((unsigned char)s[1])));
}

static bool take_version(struct engine_told *t, const char *s)
{
	if (!is_version(s))
		return false;
	s += s[0] == 'v';
	memcpy(t->version, s, strlen(s) + 1);
	return true;
}

static bool ends_word(char c)
{
	return !isalnum((unsigned char)c) && c != '_';
}

/* --- llama.cpp -------------------------------------------------------------------------------------------
 */

/* "b4567-abcdef12", also with "-dirty" behind it */
static bool build_info(struct engine_told *t, const char *s)
{
	size_t digits, hex;
	if (s[0] != 'b' || !isdigit((unsigned char)s[1]))
		return false;
	t->has_build = take_number(&t->build, s + 1, &digits);
	s += 1 + digits;
	if (*s != '-')
		return ends_word(*s);
	hex = hex_run(++s);
	if (hex && ends_word(s[hex]))
		take_commit(t->commit, &t->fault, s, hex);
	t->dirty = strncmp(s + hex, "-dirty", 6) == 0;
	return true;
}

/* Behind "version: ": "4567 (abcdef12)" or "0.6.0-dev (build 4567, commit abcdef12)" */
static bool llama_line(struct engine_told *t, const char *s)
{
	char word[WORD_BYTES];
	size_t digits, n = strcspn(s, " (\r\n");
	const char *open = s + strcspn(s, "(\r\n");
	if (n == 0 || n >= sizeof(word))
		return false;
	snprintf(word, sizeof(word), "%.*s", (int)n, s);
	if (strspn(word, "0123456789") == n)
		t->has_build = take_number(&t->build, word, &digits);
	else if (!take_version(t, word))
		return false;
	if (*open != '(')
		return true;
	open++;
	if (strncmp(open, "build ", 6) == 0) {
		t->has_build = take_number(&t->build, open + 6, &digits);
		open += 6 + digits;
		open += strspn(open, ", ");
	}
	if (strncmp(open, "commit ", 7) == 0)
		open += 7;
	n = hex_run(open);
	if (n && ends_word(open[n]))
		take_commit(t->commit, &t->fault, open, n);
	t->dirty = strncmp(open + n, "-dirty", 6) == 0;
	return true;
}

static bool llama_text(struct engine_told *t, const char *text)
{
	for (const char *p = text; *p;) {
		if (strncmp(p, "version: ", 9) == 0 && llama_line(t, p + 9))
			return true;
		if (build_info(t, p))
			return true;
		const char *build = strstr(p, "build: "), *end = p + strcspn(p, "\n");
		if (build && build < end && llama_line(t, build + 7))
			return true;
		p = *end ? end + 1 : end;
	}
	return false;
}

static bool llama_json(struct engine_told *t, const struct cJSON *doc)
{
	const char *info = json_str(doc, "build_info");
	if (!info)
		info = json_str(doc, "system_fingerprint");
	if (info)
		return build_info(t, info);
	const char *commit = json_str(doc, "build_commit");
	if (!commit)
		return false;
	t->has_build = json_u64(doc, "build_number", &t->build) && t->build > 0;
	size_t n = hex_run(commit);
	if (!commit[n])
		take_commit(t->commit, &t->fault, commit, n);
	return true;
}

/* --- versions of Python packages and of git describe
 * --------------------------------------------------------- */

/* setuptools-scm: "+gHEX.dDATE"; git describe: "-N-gHEX-dirty" */
static bool scm_version(struct engine_told *t, const char *version)
{
	if (!take_version(t, version))
		return false;
	const char *p = t->version + strcspn(t->version, "+-");
	while (*p) {
		p++;
		size_t n = strcspn(p, ".-+_");
		if (p[0] == 'g' && n > 1 && hex_run(p + 1) == n - 1)
			take_commit(t->commit, &t->fault, p + 1, n - 1);
		else if ((p[0] == 'd' && n == 9 && strspn(p + 1, "0123456789") == 8) ||
		         (n == 5 && strncmp(p, "dirty", 5) == 0))
			t->dirty = true;
		p += n;
	}
	return true;
}

static bool version_json(struct engine_told *t, const struct cJSON *doc)
{
	const char *version = json_str(doc, "version");
	return version && scm_version(t, version);
}

/* The last word of the text that is a version: warnings of imports stand in front of it. */
static bool version_text(struct engine_told *t, const char *text)
{
	char word[WORD_BYTES], last[WORD_BYTES] = "";
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, " \t\r\n,;()");
		if (n && n < sizeof(word)) {
			memcpy(word, p, n);
			word[n] = '\0';
			if (is_version(word) && (strchr(word, '.') || n == strlen(text)))
				memcpy(last, word, n + 1);
		}
		p += n;
		p += *p != '\0';
	}
	return last[0] && scm_version(t, last);
}

/* --- TGI
 * ----------------------------------------------------------------------------------------------------- */

static void tgi_commit(struct engine_told *t, const char *sha, const char *label)
{
	char from_label[TOLD_COMMIT_BYTES] = "";
	const char *ignored = NULL;
	if (label && strlen(label) < sizeof(t->label))
		memcpy(t->label, label, strlen(label) + 1);
	if (label && strncmp(label, "sha-", 4) == 0 && ends_word(label[4 + hex_run(label + 4)]))
		take_commit(from_label, &ignored, label + 4, hex_run(label + 4));
	if (sha && hex_run(sha) == strlen(sha))
		take_commit(t->commit, &t->fault, sha, strlen(sha));
	if (!t->commit[0]) {
		memcpy(t->commit, from_label, sizeof(from_label));
		return;
	}
	size_t a = strlen(t->commit), b = strlen(from_label);
	if (strncmp(t->commit, from_label, a < b ? a : b) != 0) {
		t->commit[0] = '\0';
		t->fault = disagree;
	}
}

static bool tgi_json(struct engine_told *t, const struct cJSON *doc)
{
	const char *version = json_str(doc, "version"), *sha = json_str(doc, "sha");
	const char *label = json_str(doc, "docker_label");
	bool any = version && take_version(t, version);
	tgi_commit(t, sha, label);
	return any || sha || label;
}

static bool line_value(char out[WORD_BYTES], const char *text, const char *name)
{
	const char *p = strstr(text, name);
	if (!p)
		return false;
	p += strlen(name);
	p += strspn(p, " \t");
	size_t n = strcspn(p, " \t\r\n");
	if (n == 0 || n >= WORD_BYTES)
		return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

static bool tgi_text(struct engine_told *t, const char *text)
{
	char sha[WORD_BYTES], label[WORD_BYTES], cli[WORD_BYTES];
	bool has_sha = line_value(sha, text, "Commit sha:"),
	     has_label = line_value(label, text, "Docker label:");
	bool has_version = line_value(cli, text, "text-generation-launcher ") && take_version(t, cli);
	tgi_commit(t, has_sha ? sha : NULL, has_label ? label : NULL);
	return has_sha || has_label || has_version;
}

/* --- all -------------------------------------------------------------------------------------------------
 */

typedef bool told_json(struct engine_told *t, const struct cJSON *doc);
typedef bool told_text(struct engine_told *t, const char *text);

static const struct {
	told_json *json;
	told_text *text;
} readers[TOLD_N] = {
	[TOLD_LLAMA_CPP] = { llama_json, llama_text },
	[TOLD_VLLM] = { version_json, version_text },
	[TOLD_SGLANG] = { version_json, version_text },
	[TOLD_OLLAMA] = { version_json, version_text },
	[TOLD_TGI] = { tgi_json, tgi_text },
	[TOLD_TENSORRT_LLM] = { version_json, version_text },
};

/* NUL-ended copy without blanks at its ends, or NULL. */
static char *trimmed(const char *text, size_t len)
{
	if (!text || len > TOLD_INPUT_BYTES_MAX || memchr(text, '\0', len))
		return NULL;
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	while (len && isspace((unsigned char)*text))
		text++, len--;
	return strndup(text, len);
}

bool engine_told_parse(struct engine_told *out, enum told_engine engine, const char *text, size_t len)
{
	struct engine_told t = { .engine = engine };
	struct err ignored = { 0 };
	auto_json doc = NULL;
	auto_free char *copy = trimmed(text, len);
	if (!copy || engine >= TOLD_N)
		return false;
	if (copy[0] == '{') {
		if (json_parse(&doc, copy, strlen(copy), told_engine_name(engine), JSON_ENGINE, NULL,
		               &ignored) ||
		    !readers[engine].json(&t, doc))
			return false;
	} else if (!readers[engine].text(&t, copy)) {
		return false;
	}
	if (t.commit[0])
		t.fault = NULL;
	*out = t;
	return true;
}

/* A C string or a make variable that holds a commit: NAME, then anything but a line end, then the digits. */
static bool named_commit(struct engine_told *t, const char *text, const char *name)
{
	const char *p = strstr(text, name);
	if (!p)
		return false;
	p += strlen(name);
	p += strspn(p, " \t=:\"");
	size_t n = hex_run(p);
	return n && ends_word(p[n]) && take_commit(t->commit, &t->fault, p, n);
}

bool engine_told_nested(struct engine_told *told, const char *text, size_t len)
{
	struct engine_told t = { .engine = TOLD_LLAMA_CPP };
	auto_free char *copy = trimmed(text, len);
	if (!copy)
		return false;
	if (!named_commit(&t, copy, "LLAMA_COMMIT") && !named_commit(&t, copy, "FETCH_HEAD") &&
	    !engine_told_parse(&t, TOLD_LLAMA_CPP, copy, strlen(copy)))
		return false;
	if (!t.commit[0] && !t.has_build)
		return false;
	memcpy(told->nested_commit, t.commit, sizeof(t.commit));
	told->has_nested_build = t.has_build;
	told->nested_build = t.build;
	return true;
}

/* --- against a pin -----------------------------------------------------------------------------------------
 */

static void say(struct engine_compared *c, enum engine_match match, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct engine_compared *c, enum engine_match match, const char *fmt, ...)
{
	va_list ap;
	c->match = match;
	va_start(ap, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
}

static bool full_commit(const char *s)
{
	size_t n = strlen(s);
	return (n == 40 || n == 64) && hex_run(s) == n;
}

static void compare_commit(struct engine_compared *c, const struct engine_told *t, const char *pinned)
{
	size_t n = strlen(t->commit);
	if (!full_commit(pinned))
		say(c, ENGINE_NOT_TOLD, "the pin holds no full commit id (40 or 64 hex digits)");
	else if (!n)
		say(c, ENGINE_NOT_TOLD, "%s", t->fault ? t->fault : "the engine tells no commit");
	else if (n > strlen(pinned) || strncasecmp(t->commit, pinned, n) != 0)
		say(c, ENGINE_DIFFERENT, "the engine tells commit %s, the pin is %s", t->commit, pinned);
	else if (t->dirty)
		say(c, ENGINE_DIFFERENT, "the engine tells commit %s as pinned, but built with changes",
		    t->commit);
	else
		say(c, ENGINE_SAME, "the engine tells commit %s, a prefix of the pin", t->commit);
}

/* Equal, or the pin is the public part of what is told. */
static bool version_agrees(const char *told, const char *pinned)
{
	size_t n = strlen(pinned);
	return strncmp(told, pinned, n) == 0 && (!told[n] || (told[n] == '+' && !strchr(pinned, '+')));
}

static void compare_version(struct engine_compared *c, const struct engine_told *t, const char *pinned)
{
	if (pinned[0] == 'v')
		pinned++;
	if (!t->version[0])
		say(c, ENGINE_NOT_TOLD, "the engine tells no version");
	else if (version_agrees(t->version, pinned))
		say(c, ENGINE_SAME, "the engine tells version %s as pinned", t->version);
	else
		say(c, ENGINE_DIFFERENT, "the engine tells version %s, the pin is %.120s", t->version,
		    pinned);
}

void engine_told_compare(struct engine_compared *out, const struct engine_told *told,
                         const struct engine_pin *pin)
{
	struct engine_compared commit = { ENGINE_NOT_TOLD, "" }, version = { ENGINE_NOT_TOLD, "" };
	if (pin->commit)
		compare_commit(&commit, told, pin->commit);
	if (pin->version)
		compare_version(&version, told, pin->version);
	if (!pin->commit && !pin->version)
		say(&commit, ENGINE_NOT_TOLD, "the pin names neither commit nor version");
	bool by_version =
		!pin->commit || (version.match == ENGINE_DIFFERENT && commit.match != ENGINE_DIFFERENT);
	*out = pin->version && by_version ? version : commit;
}

const char *engine_match_word(enum engine_match match)
{
	static const char *const words[] = { "same", "different", "not told" };
	return words[match];
}

/* --- JSON ------------------------------------------------------------------------------------------------
 */

static void put_text(struct json_out *o, const char *key, const char *s)
{
	jo_str(o, key, s[0] ? s : NULL);
}

static void put_build(struct json_out *o, bool has, uint64_t build)
{
	if (has)
		jo_u64(o, "build", build);
	else
		jo_null(o, "build");
}

void engine_told_json(struct json_out *o, const char *key, const struct engine_told *t)
{
	jo_obj(o, key);
	jo_str(o, "engine", told_engine_name(t->engine));
	put_text(o, "version", t->version);
	put_text(o, "commit", t->commit);
	put_text(o, "label", t->label);
	put_build(o, t->has_build, t->build);
	if (t->dirty)
		jo_bool(o, "dirty", true);
	else
		jo_null(o, "dirty");
	jo_str(o, "fault", t->fault);
	if (t->nested_commit[0] || t->has_nested_build) {
		jo_obj(o, "nested");
		jo_str(o, "engine", told_engine_name(TOLD_LLAMA_CPP));
		put_text(o, "commit", t->nested_commit);
		put_build(o, t->has_nested_build, t->nested_build);
		jo_end(o);
	} else {
		jo_null(o, "nested");
	}
	jo_end(o);
}

void engine_compared_json(struct json_out *o, const char *key, const struct engine_compared *c)
{
	jo_obj(o, key);
	jo_str(o, "match", engine_match_word(c->match));
	jo_str(o, "reason", c->reason);
	jo_end(o);
}
