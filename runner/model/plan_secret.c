/* SPDX-License-Identifier: Apache-2.0 */
/* Literal secrets. A plan is stored, hashed and published byte for byte, so a key in it is a key lost. Keys
 * of known form are refused anywhere in the file, also in a note; what only looks like one is refused where
 * commands, variables and URLs stand. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/plan_parts.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ADVICE                                                                                               \
	"; give it by name (from_env, from_file, api_key), and replace the key: it has been written down"
#define REMOVED "[removed]"
#define ENTROPY_BYTES_MIN 20
#define ENTROPY_BITS_MIN 3.0

struct pattern {
	const char *regex, *says;
	bool anywhere; /* also in notes, titles, prompts; else only in args, env and URLs */
};

/* No quantifier may run over what the start of another match could be: time stays linear in hostile text. */
static const struct pattern patterns[] = {
	{ "\\bsk-[A-Za-z0-9_-]{16,}", "an API key (sk-…)", true },
	{ "\\bhf_[A-Za-z0-9]{16,}", "a Hugging Face token (hf_…)", true },
	{ "\\b(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})", "a GitHub token", true },
	{ "\\bglpat-[A-Za-z0-9_-]{16,}", "a GitLab token (glpat-…)", true },
	{ "\\b(?:AKIA|ASIA)[0-9A-Z]{16}\\b", "an AWS key id (AKIA…)", true },
	{ "\\bnvapi-[A-Za-z0-9_-]{16,}", "an NVIDIA API key (nvapi-…)", true },
	{ "\\bxox[abeoprs]-[A-Za-z0-9-]{10,}", "a Slack token", true },
	{ "\\beyJ[A-Za-z0-9_-]{8,1000}\\.[A-Za-z0-9_-]{8,1000}\\.[A-Za-z0-9_-]{8}", "a JSON Web Token",
	  true },
	{ "-----BEGIN [A-Z ]*PRIVATE KEY", "a private key", true },
	{ "(?i)\\bbearer\\s+(?![<{$])[A-Za-z0-9._~+/-]{8,}=*", "an Authorization value (Bearer …)", true },
	{ "://[^/@\\s\"'?#]*@", "a user name or password in a URL", true },
	{ "(?i)[?&](?:api[_-]?key|key|access_token|auth|token|password|passwd|secret|sig|signature)=[^&\\s{]"
	  "+",
	  "a key in the query of a URL", true },
	{ "(?i)(?:api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|hf[_-]?token|secret|password|"
	  "passwd"
	  "|(?:^|[\\s\"'{,;-])token)[\"']?\\s*[=:]\\s*[\"']?(?!\\d{1,6}\\b|true|false|null)[^\\s\"'{<$,;]{4,"
	  "}",
	  "a password or key behind its name", false },
};
#define N_PATTERNS ARRAY_LEN(patterns)

/* Options whose next argument is a secret. */
static const char *const secret_options[] = { "api-key",      "api_key",          "hf-token", "hf_token",
	                                      "token",        "password",         "passwd",   "auth-token",
	                                      "access-token", "ssl-key-password", "secret",   NULL };

struct scan {
	struct problems *out;
	pcre2_code *code[N_PATTERNS];
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

static bool hits(const struct scan *s, size_t i, const char *text)
{
	return s->code[i] &&
	       pcre2_match(s->code[i], (PCRE2_SPTR)text, strlen(text), 0, 0, s->match, s->limits) > 0;
}

/* Says what `text` is, or NULL. */
static const char *known_form(const struct scan *s, const char *text, bool technical)
{
	for (size_t i = 0; i < N_PATTERNS; i++)
		if ((patterns[i].anywhere || technical) && hits(s, i, text))
			return patterns[i].says;
	return NULL;
}

static double bits_per_byte(const char *text, size_t len)
{
	size_t count[256] = { 0 };
	double bits = 0;

	for (size_t i = 0; i < len; i++)
		count[(unsigned char)text[i]]++;
	for (size_t i = 0; i < 256; i++)
		if (count[i])
			bits -= (double)count[i] / (double)len * log2((double)count[i] / (double)len);
	return bits;
}

static bool looks_random(const char *text)
{
	size_t len = strlen(text);
	bool digit = strpbrk(text, "0123456789") != NULL, plain = strpbrk(text, " \t/{}<>$") == NULL;

	return len >= ENTROPY_BYTES_MIN && digit && plain && bits_per_byte(text, len) >= ENTROPY_BITS_MIN;
}

static bool has_word(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(name, *words))
			return true;
	return false;
}

/* A variable whose name says that its value is secret. Names such as TOKENIZERS_PARALLELISM or KEYMAP are
 * only suspect when the value looks like a key. */
static bool variable_is_secret(const char *name, const char *value)
{
	static const char *const sure[] = { "PASSWORD", "PASSWD", "SECRET", "API_KEY", "APIKEY", NULL };
	static const char *const maybe[] = { "KEY", "TOKEN", "CREDENTIAL", "AUTH", NULL };

	if (has_word(name, sure))
		return *value && value[0] != '/' && strcasecmp(value, "true") && strcasecmp(value, "false");
	return has_word(name, maybe) && looks_random(value);
}

static bool option_takes_secret(const char *arg)
{
	if (arg[0] != '-')
		return false;
	arg += strspn(arg, "-");
	for (const char *const *o = secret_options; *o; o++)
		if (strcasecmp(arg, *o) == 0)
			return true;
	return false;
}

static void report(const struct scan *s, const char *at, struct cJSON *value, const char *what)
{
	problem_add(s->out, PROBLEM_ERROR, at, "holds %s%s", what, ADVICE);
	if (strlen(value->valuestring) >= sizeof(REMOVED) - 1)
		strcpy(value->valuestring, REMOVED);
	else
		value->valuestring[0] = '\0';
	value->valuedouble = (double)strlen(value->valuestring); /* json_string_len */
}

static bool is_placeholder(const char *text)
{
	return text[0] == '{' || text[0] == '<' || text[0] == '$' || text[0] == '-' || text[0] == '\0';
}

static void scan_string(const struct scan *s, const char *at, struct cJSON *value, const struct cJSON *parent,
                        bool technical)
{
	const char *what = known_form(s, value->valuestring, technical);
	const struct cJSON *before = cJSON_IsArray(parent) && parent->child != value ? value->prev : NULL;
	const char *name = cJSON_IsObject(parent) ? json_str(parent, "name") : NULL;

	if (!what && before && cJSON_IsString(before) && option_takes_secret(before->valuestring) &&
	    !is_placeholder(value->valuestring))
		what = "the literal value of a secret option";
	if (!what && name && value->string && strcmp(value->string, "value") == 0 &&
	    variable_is_secret(name, value->valuestring))
		what = "the literal value of a variable whose name says that it is secret";
	if (what)
		report(s, at, value, what);
	else if (strcmp(value->valuestring, PLAN_FILL_IN) == 0)
		problem_add(s->out, PROBLEM_ERROR, at, "still says \"" PLAN_FILL_IN "\"");
}

/* A key that is itself a secret would be quoted by the message about unknown keys. */
static void scan_key(const struct scan *s, const char *at, struct cJSON *value)
{
	const char *what = value->string ? known_form(s, value->string, true) : NULL;

	if (!what)
		return;
	problem_add(s->out, PROBLEM_ERROR, at, "a key of this object is %s%s", what, ADVICE);
	if (strlen(value->string) >= sizeof(REMOVED) - 1)
		strcpy(value->string, REMOVED);
}

static bool is_technical(const char *key)
{
	static const char *const keys[] = { "args", "env", "launch", "url", "entrypoint", "previous", NULL };

	for (const char *const *k = keys; key && *k; k++)
		if (strcmp(key, *k) == 0)
			return true;
	return false;
}

static void pointer_add(char at[PLAN_POINTER_BYTES], size_t len, const struct cJSON *value, size_t index)
{
	if (len + 2 >= PLAN_POINTER_BYTES)
		return;
	if (!value->string) {
		snprintf(at + len, PLAN_POINTER_BYTES - len, "/%zu", index);
		return;
	}
	at[len++] = '/';
	for (const char *c = value->string; *c && len + 3 < PLAN_POINTER_BYTES; c++) {
		if (*c == '~' || *c == '/') {
			at[len++] = '~';
			at[len++] = *c == '~' ? '0' : '1';
		} else {
			at[len++] = *c;
		}
	}
	at[len] = '\0';
}

/* As deep as the reader allows (JSON_DEPTH_MAX). */
static void scan_tree(const struct scan *s, char at[PLAN_POINTER_BYTES], struct cJSON *parent, bool technical)
{
	size_t len = strlen(at), index = 0;
	struct cJSON *value;

	cJSON_ArrayForEach(value, parent)
	{
		bool inner = technical || is_technical(value->string);
		scan_key(s, at, value);
		pointer_add(at, len, value, index++);
		if (cJSON_IsString(value))
			scan_string(s, at, value, parent, inner);
		else
			scan_tree(s, at, value, inner);
		at[len] = '\0';
	}
}

void plan_secrets(struct cJSON *doc, struct problems *out)
{
	struct scan s = { .out = out,
		          .match = pcre2_match_data_create(1, NULL),
		          .limits = pcre2_match_context_create(NULL) };
	char at[PLAN_POINTER_BYTES] = "";
	int number;
	PCRE2_SIZE offset;

	for (size_t i = 0; i < N_PATTERNS; i++) {
		s.code[i] = pcre2_compile((PCRE2_SPTR)patterns[i].regex, PCRE2_ZERO_TERMINATED, 0, &number,
		                          &offset, NULL);
		if (!s.code[i])
			abort();                                  /* our own table holds a bad pattern */
		pcre2_jit_compile(s.code[i], PCRE2_JIT_COMPLETE); /* without it only slower */
	}
	if (s.match && s.limits) {
		pcre2_set_match_limit(s.limits, 50000000);
		scan_tree(&s, at, doc, false);
	}
	for (size_t i = 0; i < N_PATTERNS; i++)
		pcre2_code_free(s.code[i]);
	pcre2_match_data_free(s.match);
	pcre2_match_context_free(s.limits);
}
