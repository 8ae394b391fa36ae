/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/registry.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_in.h"
#include "pin/registry_parts.h"

#include <string.h>
#include <time.h>

#define SLICE_NS (100 * NS_PER_MS)

int registry_open(struct registry **out, const struct registry_spec *spec, struct err *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, ERR_ENV, "%s: no memory", spec->ref->host);
	struct registry_http_spec http = { .ca_file = spec->ca_file,
		                           .plain_allowed = spec->tls == REGISTRY_PLAIN_HTTP };
	r->ref = *spec->ref;
	r->tls = spec->tls;
	r->plain = spec->tls == REGISTRY_PLAIN_HTTP || (spec->tls == REGISTRY_TLS_AUTO && !spec->ca_file &&
	                                                registry_host_is_loopback(r->ref.host));
	r->deadline_ns = spec->deadline_ns;
	r->stop = spec->stop;
	r->wait_max_s = spec->wait_max_s > 0 ? spec->wait_max_s : REGISTRY_WAIT_MAX_S;
	r->backoff_factor = spec->backoff_factor > 0 ? spec->backoff_factor : 1;
	r->config_file = spec->config_file ? strdup(spec->config_file) : NULL;
	r->http = spec->http;
	r->owns_http = !spec->http;
	if ((r->owns_http && registry_http_open(&r->http, &http, err)) ||
	    (spec->config_file && !r->config_file)) {
		registry_close(r);
		return err_set(err, ERR_ENV, "%s: no memory", spec->ref->host);
	}
	*out = r;
	return 0;
}

void registry_close(struct registry *r)
{
	if (!r)
		return;
	if (r->owns_http)
		registry_http_close(r->http);
	registry_creds_done(&r->creds);
	if (r->authorization)
		explicit_bzero(r->authorization, strlen(r->authorization));
	free(r->authorization);
	free(r->config_file);
	free(r);
}

const struct registry_stats *registry_stats(const struct registry *r)
{
	return &r->stats;
}

/* --- what a refusal says -------------------------------------------------------------------------------- */

/* A registry could send our own secret back to have it printed. */
static bool holds_secret(const struct registry *r, const char *text)
{
	const char *const secrets[] = { r->creds.password, r->creds.identity_token, r->creds.registry_token };
	const char *blank = r->authorization ? strchr(r->authorization, ' ') : NULL;
	for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
		if (secrets[i] && secrets[i][0] && strstr(text, secrets[i]))
			return true;
	return blank && blank[1] && strstr(text, blank + 1);
}

/* " (CODE: message)" of the errors in the body, or "". */
static void detail_of(const struct registry *r, const struct registry_answer *a, char *out, size_t out_bytes)
{
	auto_json doc = NULL;
	struct err hidden;
	out[0] = '\0';
	if (!a->body.len || json_parse(&doc, a->body.p, a->body.len, "", JSON_ENGINE, NULL, &hidden))
		return;
	const struct cJSON *errors = json_get(doc, "errors");
	const struct cJSON *e = cJSON_IsArray(errors) ? errors->child : NULL;
	const char *code = json_str(e, "code"), *message = json_str(e, "message");
	if (!code || holds_secret(r, code))
		return;
	snprintf(out, out_bytes, " (%.60s%s%.160s)", code, message ? ": " : "", message ? message : "");
	if (holds_secret(r, message ? message : "") || holds_secret(r, out))
		snprintf(out, out_bytes, " (%.60s)", code);
}

int registry_say_status(const struct registry *r, const struct registry_answer *a, const char *rest,
                        struct err *err)
{
	char detail[256];
	detail_of(r, a, detail, sizeof(detail));
	const char *what = a->status == 404   ? "not found"
	                   : a->status == 401 ? "access refused"
	                   : a->status == 403 ? "access forbidden"
	                                      : "answered";
	return err_set(err, ERR_ENV, "%s/%s: %s: %s%s, status %ld%s", r->ref.host, r->ref.path, rest, what,
	               detail, a->status, a->elsewhere ? " from the place it redirects to" : "");
}

/* --- waiting -------------------------------------------------------------------------------------------- */

static void limit_text(const struct registry_limit *l, char *out, size_t out_bytes)
{
	size_t n = 0;
	out[0] = '\0';
	if (l->has_limit)
		n = (size_t)snprintf(out, out_bytes, "; limit %llu", (unsigned long long)l->limit);
	if (l->has_limit && l->has_window)
		n += (size_t)snprintf(out + n, out_bytes - n, " per %llu s", (unsigned long long)l->window_s);
	if (l->has_remaining)
		snprintf(out + n, out_bytes - n, "%s %llu left", n ? "," : ";",
		         (unsigned long long)l->remaining);
}

/* False when it was stopped. */
static bool sleep_s(double s, const bool *stop)
{
	uint64_t until = clock_now_ns() + (uint64_t)(s * (double)NS_PER_S), now;
	while ((now = clock_now_ns()) < until) {
		uint64_t slice = until - now < SLICE_NS ? until - now : SLICE_NS;
		struct timespec t = { .tv_nsec = (long)slice };
		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
			return false;
		nanosleep(&t, NULL);
	}
	return true;
}

/* Keeps the wait that was asked for, or our own. */
int registry_wait(struct registry *r, const struct registry_answer *a, unsigned n, struct err *err)
{
	char limits[128];
	double wait_s;
	uint64_t now = clock_now_ns();
	double left_s = now < r->deadline_ns ? (double)(r->deadline_ns - now) / (double)NS_PER_S : 0;
	bool asked = registry_retry_after(&wait_s, a->retry_after, clock_wall_ns() / (int64_t)NS_PER_S);
	limit_text(&r->stats.limit, limits, sizeof(limits));
	if (!asked)
		wait_s = registry_backoff_s(n) * r->backoff_factor;
	if (n + 1 >= REGISTRY_TRIES_MAX)
		return err_set(
			err, ERR_ENV, "%s/%s: could not fetch: status %ld, %d times, after waiting %.0f s%s",
			r->ref.host, r->ref.path, a->status, REGISTRY_TRIES_MAX, r->stats.waited_s, limits);
	if (wait_s > r->wait_max_s || wait_s >= left_s)
		return err_set(err, ERR_ENV,
		               "%s/%s: could not fetch: status %ld, asks to wait %.0f s, at most %.0f s are "
		               "waited%s",
		               r->ref.host, r->ref.path, a->status, wait_s,
		               wait_s > r->wait_max_s ? r->wait_max_s : left_s, limits);
	if (!sleep_s(wait_s, r->stop))
		return err_set(err, ERR_INTERRUPTED, "%s/%s: interrupted", r->ref.host, r->ref.path);
	r->stats.waited_s += wait_s;
	return 0;
}

/* --- asking --------------------------------------------------------------------------------------------- */

static void note_limits(struct registry *r, const struct registry_answer *a)
{
	if (a->rate_limit[0] || a->rate_remaining[0])
		registry_limit_parse(&r->stats.limit, a->rate_limit[0] ? a->rate_limit : NULL,
		                     a->rate_remaining[0] ? a->rate_remaining : NULL);
}

static int ask_once(struct registry_answer *a, struct registry *r, const char *rest,
                    struct registry_request *rq, uint64_t longest_ns, struct err *err)
{
	uint64_t latest = clock_now_ns() + longest_ns;
	auto_free char *url = str_fmt("%s://%s/v2/%s/%s", r->plain ? "http" : "https",
	                              registry_ref_api_host(&r->ref), r->ref.path, rest);
	if (!url)
		return err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
	rq->url = url;
	rq->authorization = r->authorization;
	rq->stop = r->stop;
	rq->deadline_ns = latest < r->deadline_ns ? latest : r->deadline_ns;
	r->stats.n_requests++;
	int rc = registry_http_do(a, r->http, rq, err);
	rq->url = rq->authorization = NULL;
	if (rc == 0)
		note_limits(r, a);
	return rc;
}

/* On loopback nobody says whether TLS is spoken: the first answer does. */
static int ask_found(struct registry_answer *a, struct registry *r, const char *rest,
                     struct registry_request *rq, uint64_t longest_ns, struct err *err)
{
	struct err second;
	int rc = ask_once(a, r, rest, rq, longest_ns, err);
	bool maybe_tls = !r->reached && r->plain && r->tls == REGISTRY_TLS_AUTO &&
	                 ((rc && a->status == 0) || a->status == 400);
	if (maybe_tls) {
		struct registry_answer other;
		registry_answer_init(&other);
		r->plain = false;
		if (ask_once(&other, r, rest, rq, longest_ns, &second) == 0) {
			registry_answer_done(a);
			*a = other;
			rc = 0;
		} else {
			bool it_is = rc == 0 && a->body.len && strstr(a->body.p, "HTTPS");
			registry_answer_done(&other);
			r->plain = !it_is;
			if (it_is) { /* "Client sent an HTTP request to an HTTPS server." */
				*err = second;
				rc = -1;
			}
		}
	}
	r->reached = r->reached || rc == 0;
	return rc;
}

bool registry_wants_wait(long status)
{
	return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

int registry_ask(struct registry_answer *a, struct registry *r, const char *rest, struct registry_request *rq,
                 struct err *err)
{
	uint64_t longest_ns = rq->sink ? UINT64_MAX / 4 : REGISTRY_SMALL_NS;
	unsigned n_waits = 0, n_logins = 0;
	for (;;) {
		if (registry_renew(r, err) || ask_found(a, r, rest, rq, longest_ns, err))
			return -1;
		if (registry_wants_wait(a->status)) {
			if (registry_wait(r, a, n_waits++, err))
				return -1;
			continue;
		}
		/* Logged in once a request: also when a token that was good before no longer is. */
		if (a->status != 401 || a->elsewhere || n_logins++ > 0)
			return 0;
		if (!a->challenges.len || a->challenges.failed)
			return registry_say_status(r, a, rest, err);
		if (registry_login(r, a->challenges.p, err))
			return -1;
	}
}

/* --- manifests ------------------------------------------------------------------------------------------ */

int registry_digest_check(char digest[OCI_DIGEST_BYTES], const void *body, size_t len, const char *header,
                          const char *asked, const char *name, struct err *err)
{
	char got[OCI_DIGEST_BYTES], got_like[OCI_DIGEST_BYTES];
	oci_digest_of(got, body, len, NULL);
	const char *fault = header[0] ? oci_digest_fault(header) : NULL;
	if (fault)
		return err_set(err, ERR_ENV, "%s: Docker-Content-Digest '%.140s': digest %s", name, header,
		               fault);
	if (header[0]) {
		oci_digest_of(got_like, body, len, header);
		if (strcmp(got_like, header) != 0)
			return err_set(
				err, ERR_ENV,
				"%s: header digest differs from the body: Docker-Content-Digest says %s, the "
				"bytes are %s",
				name, header, got_like);
	}
	if (!oci_digest_fault(asked)) {
		oci_digest_of(got_like, body, len, asked);
		if (strcmp(got_like, asked) != 0)
			return err_set(err, ERR_ENV, "%s: asked for %s, the bytes that came are %s", name,
			               asked, got_like);
	}
	memcpy(digest, got, sizeof(got));
	return 0;
}

int registry_manifest(struct buf *bytes, char type[OCI_TYPE_BYTES], struct registry *r,
                      const char *tag_or_digest, bool *found, struct err *err)
{
	struct registry_answer a;
	struct registry_request rq = { .accept = REGISTRY_ACCEPT, .max_bytes = OCI_DOC_BYTES_MAX };
	char digest[OCI_DIGEST_BYTES];
	auto_free char *rest = str_fmt("manifests/%s", tag_or_digest);
	auto_free char *name = str_fmt("%s/%s: %s", r->ref.host, r->ref.path, tag_or_digest);
	if (!rest || !name)
		return err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
	registry_answer_init(&a);
	int rc = registry_ask(&a, r, rest, &rq, err);
	const char *body = a.body.p ? a.body.p : "";
	bool there = rc == 0 && a.status == 200;
	if (there && a.cut)
		rc = err_set(err, ERR_ENV, "%s: %s", name, a.cut);
	else if (there)
		rc = registry_digest_check(digest, body, a.body.len, a.digest, tag_or_digest, name, err);
	else if (rc == 0 && (!found || a.status != 404))
		rc = registry_say_status(r, &a, rest, err);
	if (rc == 0 && there && buf_add(bytes, body, a.body.len))
		rc = err_set(err, ERR_ENV, "%s: no memory", name);
	if (rc == 0 && there)
		snprintf(type, OCI_TYPE_BYTES, "%.*s", (int)strcspn(a.type, ";"), a.type);
	if (rc == 0 && found)
		*found = there;
	registry_answer_done(&a);
	return rc;
}

int registry_referrers(struct buf *bytes, struct registry *r, const char *digest, bool *found,
                       struct err *err)
{
	struct registry_answer a;
	struct registry_request rq = { .accept = OCI_TYPE_INDEX, .max_bytes = OCI_DOC_BYTES_MAX };
	char type[OCI_TYPE_BYTES], tag[OCI_DIGEST_BYTES];
	auto_free char *rest = str_fmt("referrers/%s", digest);
	if (!rest)
		return err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
	registry_answer_init(&a);
	int rc = registry_ask(&a, r, rest, &rq, err);
	bool there =
		rc == 0 && a.status == 200 && strncmp(a.type, OCI_TYPE_INDEX, strlen(OCI_TYPE_INDEX)) == 0;
	if (there && a.cut)
		rc = err_set(err, ERR_ENV, "%s/%s: %s: %s", r->ref.host, r->ref.path, rest, a.cut);
	else if (there && buf_add(bytes, a.body.p ? a.body.p : "", a.body.len))
		rc = err_set(err, ERR_ENV, "%s: no memory", r->ref.host);
	registry_answer_done(&a);
	if (rc || there) {
		*found = rc == 0;
		return rc;
	}
	snprintf(tag, sizeof(tag), "%s", digest);
	*strchr(tag, ':') = '-';
	tag[128] =
		'\0'; /* the longest tag there is: sha512 is cut (distribution-spec, referrers tag schema) */
	if (strncmp(tag, "sha512-", 7) == 0)
		tag[7 + 64] = '\0';
	return registry_manifest(bytes, type, r, tag, found, err);
}
