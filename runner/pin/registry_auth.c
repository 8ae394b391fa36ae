/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/registry_auth.h"

#include "base/cleanup.h"
#include "pin/registry_ref.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

/* --- WWW-Authenticate ---------------------------------------------------------------------------------- */

struct reader {
	const char *p;
	const char *fault;
	char offered[128]; /* schemes that were named, for the message */
};

struct found { /* the challenge being read */
	struct registry_challenge c;
	bool usable, has_realm;
};

static bool token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_blanks(struct reader *r, const char *also)
{
	while (*r->p == ' ' || *r->p == '\t' || (*r->p && strchr(also, *r->p)))
		r->p++;
}

static size_t token_len(const char *p)
{
	size_t n = 0;
	while (token_char(p[n]))
		n++;
	return n;
}

static void put(char *out, size_t *n, char c, struct reader *r)
{
	if (*n + 1 >= CHALLENGE_TEXT_BYTES)
		r->fault = "a value is longer than 1023 characters";
	else
		out[(*n)++] = c;
}

static void quoted(struct reader *r, char out[CHALLENGE_TEXT_BYTES])
{
	size_t n = 0;
	for (r->p++; *r->p != '"' && !r->fault; r->p++) {
		if (*r->p == '\\' && r->p[1])
			r->p++;
		if (!*r->p) {
			r->fault = "quoted value not closed";
			break;
		}
		put(out, &n, *r->p, r);
	}
	out[n] = '\0';
	if (!r->fault)
		r->p++;
}

/* Unquoted values hold more than tokens in the wild (whole URLs): up to the next comma or blank. */
static void bare(struct reader *r, char out[CHALLENGE_TEXT_BYTES])
{
	size_t n = 0;
	for (; *r->p && *r->p != ',' && *r->p != ' ' && *r->p != '\t' && !r->fault; r->p++)
		put(out, &n, *r->p, r);
	out[n] = '\0';
}

static void keep(struct found *f, const char *name, size_t len, const char *value, struct reader *r)
{
	struct {
		const char *name;
		bool *has;
		char *to;
	} params[] = { { "realm", &f->has_realm, f->c.realm },
		       { "service", &f->c.has_service, f->c.service },
		       { "scope", &f->c.has_scope, f->c.scope },
		       { "error", &f->c.has_error, f->c.error } };
	for (size_t i = 0; i < ARRAY_LEN(params); i++) {
		if (strlen(params[i].name) != len || strncasecmp(params[i].name, name, len) != 0)
			continue;
		if (*params[i].has) {
			r->fault = "a parameter is given twice";
			return;
		}
		*params[i].has = true;
		strcpy(params[i].to, value);
	}
}

/* NAME BWS "=" BWS VALUE, or false with nothing taken: then it is a scheme or a token68. */
static bool param(struct reader *r, struct found *f)
{
	char value[CHALLENGE_TEXT_BYTES];
	const char *start = r->p, *name = r->p;
	size_t len = token_len(name);
	r->p += len;
	skip_blanks(r, "");
	if (!len || *r->p != '=' || r->p[1] == '=') {
		r->p = start;
		return false;
	}
	r->p++;
	skip_blanks(r, "");
	if (*r->p == '"')
		quoted(r, value);
	else
		bare(r, value);
	if (!r->fault && f)
		keep(f, name, len, value, r);
	return true;
}

static void begin(struct reader *r, struct found *f)
{
	size_t len = token_len(r->p), n = strlen(r->offered);
	*f = (struct found){ 0 };
	if (!len) {
		r->fault = "no authentication scheme";
		return;
	}
	f->usable = true;
	if (len == 6 && strncasecmp(r->p, "bearer", 6) == 0)
		f->c.scheme = CHALLENGE_BEARER;
	else if (len == 5 && strncasecmp(r->p, "basic", 5) == 0)
		f->c.scheme = CHALLENGE_BASIC;
	else
		f->usable = false;
	if (n + len + 3 < sizeof(r->offered)) {
		memcpy(r->offered + n, ", ", n ? 2 : 0);
		memcpy(r->offered + n + (n ? 2 : 0), r->p, len);
	}
	r->p += len;
	if (*r->p && *r->p != ' ' && *r->p != '\t' && *r->p != ',')
		r->fault = "a scheme is followed by neither blank nor comma";
	skip_blanks(r, "");
}

/* All parameters of one challenge; stops in front of the next scheme. */
static void one_challenge(struct reader *r, struct found *f)
{
	begin(r, f);
	if (!r->fault && token_char(*r->p) && !param(r, f)) { /* token68: Negotiate's blob */
		while (*r->p && *r->p != ',' && *r->p != ' ')
			r->p++;
	}
	while (!r->fault) {
		skip_blanks(r, ",");
		if (!*r->p || !param(r, f))
			break;
	}
}

static bool better(const struct found *best, const struct found *f)
{
	return f->usable &&
	       (!best->usable || (f->c.scheme == CHALLENGE_BEARER && best->c.scheme == CHALLENGE_BASIC));
}

int registry_challenge_parse(struct registry_challenge *out, const char *header, struct err *err)
{
	struct reader r = { .p = header };
	struct found best = { 0 };
	if (strlen(header) > CHALLENGE_HEADER_BYTES_MAX)
		return err_set(err, ERR_ENV, "WWW-Authenticate: is longer than %d bytes",
		               CHALLENGE_HEADER_BYTES_MAX);
	for (skip_blanks(&r, ","); *r.p && !r.fault; skip_blanks(&r, ",")) {
		struct found f;
		one_challenge(&r, &f);
		if (better(&best, &f))
			best = f;
	}
	if (r.fault)
		return err_set(err, ERR_ENV, "WWW-Authenticate: %s", r.fault);
	if (!best.usable)
		return err_set(err, ERR_ENV,
		               "WWW-Authenticate: no scheme that can be used (want Basic or Bearer, "
		               "got %s)",
		               r.offered[0] ? r.offered : "none");
	if (best.c.scheme == CHALLENGE_BEARER && !best.c.realm[0])
		return err_set(err, ERR_ENV,
		               "WWW-Authenticate: Bearer with no realm: no place to get a token");
	*out = best.c;
	return 0;
}

/* --- where tokens come from ---------------------------------------------------------------------------- */

static const char *plain_fault(const char *host, bool registry_has_tls, const char *registry_host,
                               bool plain_allowed)
{
	size_t len = strcspn(registry_host, ":");
	if (registry_has_tls)
		return "token address without TLS for a registry with TLS";
	if (registry_host_is_loopback(host))
		return NULL;
	if (plain_allowed && registry_host[0] != '[' && strlen(host) == len &&
	    strncasecmp(host, registry_host, len) == 0)
		return NULL;
	return "token address without TLS on another host";
}

const char *registry_realm_fault(const char *realm, bool registry_has_tls, const char *registry_host,
                                 bool plain_allowed)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *user = NULL;
	const char *fault = NULL;
	if (!u || curl_url_set(u, CURLUPART_URL, realm, 0) || curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
	    curl_url_get(u, CURLUPART_HOST, &host, 0))
		fault = "token address is no URL";
	else if (curl_url_get(u, CURLUPART_USER, &user, 0) != CURLUE_NO_USER)
		fault = "token address holds a user name";
	else if (strcmp(scheme, "http") == 0)
		fault = plain_fault(host, registry_has_tls, registry_host, plain_allowed);
	else if (strcmp(scheme, "https") != 0)
		fault = "token address is neither http nor https";
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	curl_url_cleanup(u);
	return fault;
}

/* --- waiting ------------------------------------------------------------------------------------------- */

static bool all_digits(const char *p, size_t len)
{
	return len > 0 && strspn(p, "0123456789") >= len;
}

bool registry_retry_after(double *wait_s, const char *value, int64_t now_s)
{
	size_t len;
	value += strspn(value, " \t");
	for (len = strlen(value); len && strchr(" \t\r\n", value[len - 1]); len--)
		;
	if (all_digits(value, len)) {
		*wait_s = len > 9 ? 1e9 : (double)strtoul(value, NULL, 10);
		return true;
	}
	if (len < 20 || len > 40 || !memmem(value, len, " GMT", 4))
		return false;
	time_t at = curl_getdate(value, NULL);
	if (at < 0)
		return false;
	*wait_s = at > now_s ? (double)(at - now_s) : 0;
	return true;
}

double registry_backoff_s(unsigned n)
{
	double s = REGISTRY_BACKOFF_FIRST_S;
	while (n-- && s < 60)
		s *= 2;
	return s < 60 ? s : 60;
}

static bool number_at(const char *p, uint64_t *out)
{
	size_t n = strspn(p, "0123456789");
	if (!n || n > 15)
		return false;
	*out = strtoull(p, NULL, 10);
	return true;
}

static void one_limit(const char *value, bool *has, uint64_t *n, struct registry_limit *l)
{
	const char *w = value ? strstr(value, "w=") : NULL;
	if (!value)
		return;
	*has = number_at(value + strspn(value, " \t"), n);
	if (*has && w && number_at(w + 2, &l->window_s))
		l->has_window = true;
}

void registry_limit_parse(struct registry_limit *out, const char *limit, const char *remaining)
{
	struct registry_limit l = { 0 };
	one_limit(remaining, &l.has_remaining, &l.remaining, &l);
	one_limit(limit, &l.has_limit, &l.limit, &l);
	*out = l;
}
