// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/check.h"

#include <pcre2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MATCH_LIMIT 1000000u
#define DEPTH_LIMIT 20000u
#define HEAP_LIMIT_KIB 20000u
#define EXCERPT_BYTES 64

// The first finding decides the reason; a failure outranks what is merely unclear.
__attribute__((format(printf, 3, 4))) static void note(struct check_result *r, enum check_state state,
                                                       const char *fmt, ...)
{
	if (r->state == CHECK_FAILED || r->state == state)
		return;
	r->state = state;
	va_list args;
	va_start(args, fmt);
	vsnprintf(r->reason, sizeof r->reason, fmt, args);
	va_end(args);
}

struct excerpt {
	char text[EXCERPT_BYTES + 8];
};

// One line of the text, whole characters, control bytes as '?'.
static struct excerpt excerpt_of(const char *text, size_t len)
{
	struct excerpt e = { "" };
	size_t n = 0;
	for (size_t i = 0, k; i < len; i += k) {
		uint32_t cp = '?';
		k = utf8_get(text + i, len - i, &cp);
		if (n + (k ? k : 1) > EXCERPT_BYTES) {
			memcpy(e.text + n, "…", sizeof "…");
			return e;
		}
		if (!k || cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) {
			e.text[n++] = cp == '\n' ? ' ' : '?';
			k = k ? k : 1;
		} else {
			memcpy(e.text + n, text + i, k);
			n += k;
		}
	}
	e.text[n] = 0;
	return e;
}

enum found { FOUND_YES, FOUND_NO, FOUND_UNCLEAR };

static enum found match_bounded(const pcre2_code *code, const char *text, size_t len)
{
	enum found found = FOUND_UNCLEAR;
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	pcre2_match_context *limits = pcre2_match_context_create(NULL);
	if (data && limits) {
		pcre2_set_match_limit(limits, MATCH_LIMIT);
		pcre2_set_depth_limit(limits, DEPTH_LIMIT);
		pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
		// NO_JIT also where the pattern itself asks for it.
		int rc = pcre2_match(code, (PCRE2_SPTR)text, len, 0, PCRE2_NO_JIT, data, limits);
		found = rc >= 0 ? FOUND_YES : rc == PCRE2_ERROR_NOMATCH ? FOUND_NO : FOUND_UNCLEAR;
	}
	pcre2_match_context_free(limits);
	pcre2_match_data_free(data);
	return found;
}

static enum found find_pattern(const char *pattern, const char *text, size_t len)
{
	int code_err;
	PCRE2_SIZE at;
	pcre2_code *code =
		pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code_err, &at, NULL);
	if (!code)
		return FOUND_UNCLEAR;
	enum found found = match_bounded(code, text, len);
	pcre2_code_free(code);
	return found;
}

static void check_patterns(struct check_result *r, const struct plan_control *c, const struct check_answer *a)
{
	for (size_t i = 0; i < c->n_must_match + c->n_must_not_match; i++) {
		bool must = i < c->n_must_match;
		const char *pattern = must ? c->must_match[i] : c->must_not_match[i - c->n_must_match];
		const char *key = must ? "must_match" : "must_not_match";
		enum found found = find_pattern(pattern, a->text, a->len);
		struct excerpt shown = excerpt_of(pattern, strlen(pattern)),
			       got = excerpt_of(a->text, a->len);
		if (found == FOUND_UNCLEAR)
			note(r, CHECK_UNCLEAR, "%s /%s/ ran into the limits of matching", key, shown.text);
		else if ((found == FOUND_YES) != must)
			note(r, CHECK_FAILED, "%s /%s/ is %s \"%s\"", key, shown.text, must ? "not in" : "in",
			     got.text);
	}
}

// The text inside a ``` fence when the whole answer is one.
static void strip_fence(const char **text, size_t *len)
{
	const char *p = *text, *end = p + *len;
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	while (end > p && strchr(" \t\r\n", end[-1]) && end[-1])
		end--;
	if (end - p > 6 && !memcmp(p, "```", 3) && !memcmp(end - 3, "```", 3)) {
		const char *line_end = memchr(p, '\n', (size_t)(end - 3 - p));
		if (line_end) {
			p = line_end + 1;
			end -= 3;
		}
	}
	*text = p;
	*len = (size_t)(end - p);
}

static void check_json(struct check_result *r, const struct check_answer *a)
{
	const char *text = a->text;
	size_t len = a->len;
	struct err err = { 0 };
	auto_json tree = NULL;
	strip_fence(&text, &len);
	if (json_parse(&tree, text, len, "answer", JSON_STRICT, NULL, &err) < 0)
		note(r, CHECK_FAILED, "not one JSON text: %s", excerpt_of(err.msg, strlen(err.msg)).text);
}

static void check_lengths(struct check_result *r, const struct plan_control *c, const struct check_answer *a)
{
	if (c->min_tok < 0 && c->answer_max_tok < 0)
		return;
	unsigned long long n = a->output_tok;
	if (a->output_tok == REC_NONE)
		note(r, CHECK_UNCLEAR, "the server told no token count");
	else if (c->min_tok >= 0 && a->output_tok < (uint64_t)c->min_tok)
		note(r, CHECK_FAILED, "%llu tokens, want at least %lld", n, (long long)c->min_tok);
	else if (c->answer_max_tok >= 0 && a->output_tok > (uint64_t)c->answer_max_tok)
		note(r, CHECK_FAILED, "%llu tokens, want at most %lld", n, (long long)c->answer_max_tok);
}

static bool same(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a_len == b_len && (!a_len || !memcmp(a, b, a_len));
}

static void check_reference(struct check_result *r, const struct plan_control *c,
                            const struct check_answer *a)
{
	if (!c->same_as_reference || !a->reference || same(a->text, a->len, a->reference, a->reference_len))
		return;
	size_t at = 0;
	while (at < a->len && at < a->reference_len && a->text[at] == a->reference[at])
		at++;
	note(r, CHECK_FAILED, "differs from the first repetition from byte %zu on", at);
}

static script_set expected_scripts(const struct plan_control *c)
{
	script_set set = c->prompt ? scripts_of(c->prompt, strlen(c->prompt)) : 0;
	const struct cJSON *m;
	cJSON_ArrayForEach(m, c->messages)
	{
		const char *content = json_str(m, "content");
		if (content)
			set |= scripts_of(content, strlen(content));
	}
	if (!set)
		return 0;
	if (c->exact)
		set |= scripts_of(c->exact, strlen(c->exact));
	for (size_t i = 0; i < c->n_must_match; i++)
		set |= scripts_of(c->must_match[i], strlen(c->must_match[i])) |
		       scripts_named(c->must_match[i]);
	return set;
}

static void say_surface(struct check_result *r)
{
	const struct surface *s = &r->surface;
	char foreign[16];
	snprintf(foreign, sizeof foreign, "U+%04X", (unsigned)s->foreign);
#define LLU (unsigned long long)
	static const enum surface_mark order[] = { MARK_EMPTY,     MARK_NOT_UTF8,       MARK_SPECIAL_TOKEN,
		                                   MARK_RUN,       MARK_FEW_DISTINCT,   MARK_REPEATS,
		                                   MARK_BAD_CHARS, MARK_FOREIGN_SCRIPT, MARK_COMPRESSIBLE };
	for (size_t i = 0; i < ARRAY_LEN(order) && r->state != CHECK_FAILED; i++) {
		if (!(s->marks & 1u << order[i]))
			continue;
		switch (order[i]) {
		case MARK_EMPTY:
			note(r, CHECK_FAILED, "empty answer");
			break;
		case MARK_NOT_UTF8:
			note(r, CHECK_FAILED, "corrupt: bytes that are no UTF-8");
			break;
		case MARK_SPECIAL_TOKEN:
			note(r, CHECK_FAILED, "corrupt: special token %s in the text", s->special);
			break;
		case MARK_RUN:
			note(r, CHECK_FAILED, "corrupt: one character %llu times in a row", LLU s->max_run);
			break;
		case MARK_FEW_DISTINCT:
			note(r, CHECK_FAILED, "corrupt: only %llu different characters in %llu",
			     LLU s->distinct, LLU s->chars);
			break;
		case MARK_REPEATS:
			note(r, CHECK_FAILED, "corrupt: %.1f %% of its word 4-grams are repeated",
			     s->rep4 * 100);
			break;
		case MARK_BAD_CHARS:
			note(r, CHECK_FAILED, "corrupt: %llu control or replacement characters",
			     LLU s->bad_chars);
			break;
		case MARK_FOREIGN_SCRIPT:
			note(r, CHECK_FAILED, "corrupt: %llu of %llu letters of another script, first %s",
			     LLU s->foreign_letters, LLU s->letters, foreign);
			break;
		case MARK_COMPRESSIBLE:
			note(r, CHECK_FAILED, "corrupt: compresses to %.1f %% of its size",
			     s->zlib_ratio * 100);
			break;
		case N_SURFACE_MARKS:
			break;
		}
	}
#undef LLU
}

static void judge(struct check_result *r, const struct plan_control *c, const struct check_answer *a)
{
	bool exact = c->exact && same(a->text, a->len, c->exact, strlen(c->exact));
	if (surface_measure(&r->surface, a->text, a->len, expected_scripts(c)) < 0)
		note(r, CHECK_UNCLEAR, "no memory to judge the answer");
	if (!exact)
		say_surface(r);
	if (c->exact && !exact)
		note(r, CHECK_FAILED, "\"%s\" is not \"%s\"", excerpt_of(a->text, a->len).text,
		     excerpt_of(c->exact, strlen(c->exact)).text);
	if (r->surface.marks & 1u << MARK_NOT_UTF8)
		return; // patterns and JSON are for text
	check_patterns(r, c, a);
	if (c->json)
		check_json(r, a);
	check_lengths(r, c, a);
	check_reference(r, c, a);
}

struct check_result check_control(const struct plan_control *control, const struct check_answer *answer)
{
	struct check_result r = { .state = CHECK_PASSED };
	if (answer->outcome != OUTCOME_OK && answer->outcome != OUTCOME_EMPTY)
		note(&r, CHECK_UNCLEAR, "the request ended with %s", outcome_words[answer->outcome]);
	else if (answer->len > CHECK_TEXT_MAX)
		note(&r, CHECK_UNCLEAR, "the answer has %zu bytes, more than %u are not judged", answer->len,
		     CHECK_TEXT_MAX);
	else
		judge(&r, control, answer);
	if (r.state == CHECK_PASSED)
		memcpy(r.reason, "as expected", sizeof "as expected");
	return r;
}
