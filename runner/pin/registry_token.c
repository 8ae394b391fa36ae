/* SPDX-License-Identifier: Apache-2.0 */
/* Basic and Bearer (Docker's "Token Authentication Specification"): where a token comes from and how long it
 * is good. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "pin/registry_parts.h"

#include <curl/curl.h>
#include <string.h>

#define TOKEN_BYTES_MAX (64u << 10)
#define TOKEN_DEFAULT_S 60
#define TOKEN_LONGEST_S 86400
#define TOKEN_EARLY_S 5 /* renewed that long before its end */

static void wipe(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

/* "Basic dXNlcjpwYXNz", malloc'd. */
static char *basic_of(const struct registry_creds *c)
{
	char *pair = str_fmt("%s:%s", c->user, c->password);
	char *b64 = pair ? base64_encode(pair, strlen(pair)) : NULL;
	char *out = b64 ? str_fmt("Basic %s", b64) : NULL;
	wipe(&pair);
	wipe(&b64);
	return out;
}

static int know_creds(struct registry *r, struct err *err)
{
	if (r->creds_known)
		return 0;
	if (registry_creds_find(&r->creds, r->ref.host, r->ref.path, r->config_file, r->deadline_ns, err))
		return -1;
	r->creds_known = true;
	return 0;
}

/* --- the request --------------------------------------------------------------------------------------- */

static bool add_query(CURLU *u, const char *name, const char *value)
{
	auto_free char *part = str_fmt("%s=%s", name, value);
	return part &&
	       curl_url_set(u, CURLUPART_QUERY, part, CURLU_APPENDQUERY | CURLU_URLENCODE) == CURLUE_OK;
}

static void wanted_scope(const struct registry *r, char *out, size_t out_bytes)
{
	if (r->challenge.has_scope && r->challenge.scope[0])
		snprintf(out, out_bytes, "%s", r->challenge.scope);
	else
		snprintf(out, out_bytes, "repository:%s:pull", r->ref.path);
}

/* The realm with service and scope behind what query it has, malloc'd. */
static char *token_url(const struct registry *r)
{
	const struct registry_challenge *c = &r->challenge;
	char scope[CHALLENGE_TEXT_BYTES], *text = NULL, *out = NULL;
	CURLU *u = curl_url();
	wanted_scope(r, scope, sizeof(scope));
	bool ok = u && curl_url_set(u, CURLUPART_URL, c->realm, 0) == CURLUE_OK &&
	          (!c->has_service || add_query(u, "service", c->service));
	char *save = NULL;
	for (char *one = strtok_r(scope, " ", &save); ok && one; one = strtok_r(NULL, " ", &save))
		ok = add_query(u, "scope", one);
	if (ok && curl_url_get(u, CURLUPART_URL, &text, 0) == CURLUE_OK)
		out = strdup(text);
	curl_free(text);
	curl_url_cleanup(u);
	return out;
}

static bool add_form(struct buf *b, const char *name, const char *value)
{
	char *e = curl_easy_escape(NULL, value, (int)strlen(value));
	if (e) {
		buf_addf(b, "%s%s=%s", b->len ? "&" : "", name, e);
		explicit_bzero(e, strlen(e));
	}
	bool ok = e && !b->failed;
	curl_free(e);
	return ok;
}

/* OAuth 2 with the identity token as refresh token. */
static bool make_form(struct buf *b, const struct registry *r)
{
	char scope[CHALLENGE_TEXT_BYTES];
	wanted_scope(r, scope, sizeof(scope));
	return add_form(b, "grant_type", "refresh_token") &&
	       (!r->challenge.has_service || add_form(b, "service", r->challenge.service)) &&
	       add_form(b, "client_id", "proofmark") && add_form(b, "scope", scope) &&
	       add_form(b, "refresh_token", r->creds.identity_token);
}

/* --- the answer ---------------------------------------------------------------------------------------- */

static bool token_ok(const char *t)
{
	size_t n = t ? strlen(t) : 0;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)t[i] <= 0x20 || (unsigned char)t[i] >= 0x7f)
			return false;
	return n > 0 && n < TOKEN_BYTES_MAX;
}

static int take_token(struct registry *r, const struct cJSON *doc, const char *shown, struct err *err)
{
	const char *t = json_str(doc, "token");
	double life_s = TOKEN_DEFAULT_S;
	if (!t || !t[0])
		t = json_str(doc, "access_token");
	if (!token_ok(t))
		return err_set(err, ERR_ENV, "%s: its answer holds no token", shown);
	if (!json_num(doc, "expires_in", &life_s) || !(life_s > 0))
		life_s = TOKEN_DEFAULT_S;
	if (life_s > TOKEN_LONGEST_S)
		life_s = TOKEN_LONGEST_S;
	double use_s = life_s > 2 * TOKEN_EARLY_S ? life_s - TOKEN_EARLY_S : life_s / 2;
	char *auth = str_fmt("Bearer %s", t);
	if (!auth)
		return err_set(err, ERR_ENV, "%s: no memory", shown);
	wipe(&r->authorization);
	r->authorization = auth;
	r->token_expires_ns = clock_now_ns() + (uint64_t)(use_s * (double)NS_PER_S);
	return 0;
}

static int read_answer(struct registry *r, struct registry_answer *a, const char *shown, struct err *err)
{
	struct cJSON *doc = NULL;
	struct err hidden;
	if (a->status == 401 || a->status == 403)
		return err_set(err, ERR_ENV, "%s: the token service refuses %s (status %ld)", shown,
		               r->creds.user || r->creds.identity_token
		                       ? "the stored credentials"
		                       : "to give a token without credentials",
		               a->status);
	if (a->status != 200)
		return err_set(err, ERR_ENV, "%s: the token service answered status %ld", shown, a->status);
	if (a->cut)
		return err_set(err, ERR_ENV, "%s: %s", shown, a->cut);
	if (json_parse(&doc, a->body.p ? a->body.p : "", a->body.len, shown, JSON_ENGINE, NULL, &hidden))
		return err_set(err, ERR_ENV, "%s: the token service's answer is no JSON", shown);
	int rc = take_token(r, doc, shown, err);
	for (struct cJSON *v = doc->child; v; v = v->next)
		if (cJSON_IsString(v))
			explicit_bzero(v->valuestring, strlen(v->valuestring));
	cJSON_Delete(doc);
	return rc;
}

static int fetch_token(struct registry *r, struct err *err)
{
	struct registry_answer a;
	char shown[300];
	auto_buf form = BUF_INIT(TOKEN_BYTES_MAX * 4);
	bool oauth = r->creds.identity_token != NULL;
	registry_url_shown(r->challenge.realm, shown, sizeof(shown));
	char *url = oauth ? strdup(r->challenge.realm) : token_url(r);
	char *basic = !oauth && r->creds.user ? basic_of(&r->creds) : NULL;
	struct registry_request rq = { .url = url,
		                       .authorization = basic,
		                       .accept = "application/json",
		                       .deadline_ns = r->deadline_ns,
		                       .stop = r->stop,
		                       .max_bytes = TOKEN_BYTES_MAX };
	registry_answer_init(&a);
	int rc = -1;
	if (!url || (!oauth && r->creds.user && !basic) || (oauth && !make_form(&form, r))) {
		err_set(err, ERR_ENV, "%s: no memory", shown);
	} else {
		rq.form = oauth ? form.p : NULL;
		r->stats.n_tokens++;
		rc = registry_http_do(&a, r->http, &rq, err);
		for (unsigned n = 0; rc == 0 && registry_wants_wait(a.status); n++) {
			rc = registry_wait(r, &a, n, err);
			if (rc == 0)
				rc = registry_http_do(&a, r->http, &rq, err);
		}
	}
	if (rc == 0)
		rc = read_answer(r, &a, shown, err);
	if (a.body.p)
		explicit_bzero(a.body.p, a.body.cap);
	if (form.p)
		explicit_bzero(form.p, form.cap);
	registry_answer_done(&a);
	wipe(&basic);
	free(url);
	return rc;
}

static int login_basic(struct registry *r, struct err *err)
{
	if (!r->creds.user)
		return err_set(err, ERR_ENV,
		               "%s: wants credentials and none are stored for it (log in with docker "
		               "or podman)",
		               r->ref.host);
	wipe(&r->authorization);
	r->authorization = basic_of(&r->creds);
	r->token_expires_ns = 0;
	return r->authorization ? 0 : err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
}

static int login_bearer(struct registry *r, struct err *err)
{
	const char *fault = registry_realm_fault(
		r->challenge.realm, !r->plain, registry_ref_api_host(&r->ref), r->tls == REGISTRY_PLAIN_HTTP);
	char shown[300];
	registry_url_shown(r->challenge.realm, shown, sizeof(shown));
	if (fault)
		return err_set(err, ERR_ENV, "%s: %s (%s)", r->ref.host, fault, shown);
	if (!r->creds.registry_token)
		return fetch_token(r, err);
	wipe(&r->authorization);
	r->authorization = str_fmt("Bearer %s", r->creds.registry_token);
	return r->authorization ? 0 : err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
}

int registry_login(struct registry *r, const char *challenges, struct err *err)
{
	struct registry_challenge c;
	if (registry_challenge_parse(&c, challenges, err))
		return err_wrap(err, "%s", r->ref.host);
	if (know_creds(r, err))
		return -1;
	r->challenge = c;
	r->has_challenge = true;
	return c.scheme == CHALLENGE_BASIC ? login_basic(r, err) : login_bearer(r, err);
}

int registry_renew(struct registry *r, struct err *err)
{
	if (!r->authorization || !r->token_expires_ns || clock_now_ns() < r->token_expires_ns)
		return 0;
	return login_bearer(r, err);
}
