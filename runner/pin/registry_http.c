/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/registry_http.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "pin/registry_auth.h"
#include "pin/registry_ref.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define STALL_S 30L

struct registry_http {
	CURL *easy;
	char *ca_file;
	bool plain_allowed;
	char curl_error[CURL_ERROR_SIZE];
};

struct transfer { /* one request on its way */
	struct registry_http *h;
	const struct registry_request *rq;
	struct registry_answer *a;
	bool too_long, head_only, loopback_only, off_loopback;
	uint64_t n_body;
};

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

int registry_http_open(struct registry_http **out, const struct registry_http_spec *spec, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, global_init);
	struct registry_http *h = calloc(1, sizeof(*h));
	if (!h)
		return err_set(err, ERR_ENV, "registry: no memory");
	h->easy = curl_easy_init();
	h->ca_file = spec->ca_file ? strdup(spec->ca_file) : NULL;
	h->plain_allowed = spec->plain_allowed;
	if (!h->easy || (spec->ca_file && !h->ca_file)) {
		registry_http_close(h);
		return err_set(err, ERR_ENV, "registry: no memory");
	}
	*out = h;
	return 0;
}

void registry_http_close(struct registry_http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->easy);
	free(h->ca_file);
	free(h);
}

void registry_answer_init(struct registry_answer *a)
{
	*a = (struct registry_answer){ 0 };
	buf_init(&a->challenges, CHALLENGE_HEADER_BYTES_MAX);
}

void registry_answer_done(struct registry_answer *a)
{
	buf_done(&a->body);
	buf_done(&a->challenges);
}

static void restart(struct registry_answer *a, uint64_t max_bytes)
{
	registry_answer_done(a);
	registry_answer_init(a);
	buf_init(&a->body, max_bytes > REGISTRY_REFUSAL_BYTES_MAX ? max_bytes : REGISTRY_REFUSAL_BYTES_MAX);
}

void registry_url_shown(const char *url, char *out, size_t out_bytes)
{
	size_t n = strcspn(url, "?#");
	const char *slashes = strstr(url, "://"), *at = slashes ? strchr(slashes + 3, '@') : NULL;
	const char *path = slashes ? strchr(slashes + 3, '/') : NULL;
	if (at && (!path || at < path)) { /* never with a password */
		url = at + 1;
		n = strcspn(url, "?#");
	}
	n = n < out_bytes ? n : out_bytes - 1;
	memcpy(out, url, n);
	out[n] = '\0';
}

/* --- what curl hands us -------------------------------------------------------------------------------- */

/* A field that comes twice is both, so that it is seen not to be one value. */
static void keep(char *to, size_t to_bytes, const char *value, size_t len)
{
	size_t n = strlen(to);
	if (n && n + 2 < to_bytes) {
		memcpy(to + n, ", ", 3);
		n += 2;
	}
	if (len > to_bytes - 1 - n)
		len = to_bytes - 1 - n;
	memcpy(to + n, value, len);
	to[n + len] = '\0';
}

static void take_field(struct registry_answer *a, const char *name, size_t n_name, const char *value,
                       size_t len)
{
	struct {
		const char *name;
		char *to;
		size_t bytes;
	} fields[] = {
		{ "Content-Type", a->type, sizeof(a->type) },
		{ "Docker-Content-Digest", a->digest, sizeof(a->digest) },
		{ "ETag", a->etag, sizeof(a->etag) },
		{ "Content-Range", a->content_range, sizeof(a->content_range) },
		{ "Retry-After", a->retry_after, sizeof(a->retry_after) },
		{ "RateLimit-Limit", a->rate_limit, sizeof(a->rate_limit) },
		{ "RateLimit-Remaining", a->rate_remaining, sizeof(a->rate_remaining) },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strlen(fields[i].name) == n_name && strncasecmp(fields[i].name, name, n_name) == 0)
			keep(fields[i].to, fields[i].bytes, value, len);
	if (n_name == 16 && strncasecmp(name, "WWW-Authenticate", 16) == 0) {
		buf_adds(&a->challenges, a->challenges.len ? ", " : "");
		buf_add(&a->challenges, value, len);
	}
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n, used = len;
	while (len && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' ' ||
	               line[len - 1] == '\t'))
		len--;
	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* also behind an interim answer */
		restart(t->a, t->rq->max_bytes);
		return used;
	}
	if (len == 0) {
		curl_easy_getinfo(t->h->easy, CURLINFO_RESPONSE_CODE, &t->a->status);
		/* Real registries send 416 with the blob's length and another body: nothing of it is wanted.
		 */
		t->head_only = t->a->status == 416;
		return t->head_only ? 0 : used;
	}
	const char *colon = memchr(line, ':', len);
	if (!colon)
		return used;
	const char *value = colon + 1;
	while (value < line + len && (*value == ' ' || *value == '\t'))
		value++;
	take_field(t->a, line, (size_t)(colon - line), value, (size_t)(line + len - value));
	return used;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n;
	bool good = t->a->status >= 200 && t->a->status < 300;
	t->n_body += len;
	if (t->n_body > (good ? t->rq->max_bytes : REGISTRY_REFUSAL_BYTES_MAX)) {
		t->too_long = true;
		return 0;
	}
	if (good && t->rq->sink) {
		t->a->stopped =
			t->rq->sink(t->rq->sink_ctx, t->a->status, t->a->content_range, data, len) != 0;
		return t->a->stopped ? 0 : len;
	}
	return buf_add(&t->a->body, data, len) ? 0 : len;
}

/* Names can be made to point anywhere: what may only be loopback is looked at by its address. */
static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *sa)
{
	struct transfer *t = ctx;
	(void)purpose;
	if (t->loopback_only) {
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
		bool ok = false;
		if (sa->family == AF_INET && sa->addrlen >= sizeof(in4)) {
			memcpy(&in4, &sa->addr, sizeof(in4));
			ok = (ntohl(in4.sin_addr.s_addr) >> 24) == 127;
		} else if (sa->family == AF_INET6 && sa->addrlen >= sizeof(in6)) {
			const void *addr = &sa->addr;
			memcpy(&in6, addr, sizeof(in6));
			ok = IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
		}
		if (!ok) {
			t->off_loopback = true;
			return CURL_SOCKET_BAD;
		}
	}
	return socket(sa->family, sa->socktype | SOCK_CLOEXEC, sa->protocol);
}

static int on_progress(void *ctx, curl_off_t dl_total, curl_off_t dl_now, curl_off_t ul_total,
                       curl_off_t ul_now)
{
	const struct transfer *t = ctx;
	return t->rq->stop && __atomic_load_n(t->rq->stop, __ATOMIC_RELAXED);
}

/* --- one hop ------------------------------------------------------------------------------------------- */

static struct curl_slist *add_line(struct curl_slist *list, bool *ok, const char *name, const char *value)
{
	char *line = str_fmt("%s%s", name, value);
	struct curl_slist *more = line ? curl_slist_append(list, line) : NULL;
	if (line)
		explicit_bzero(line, strlen(line));
	free(line);
	*ok = *ok && more;
	return more ? more : list;
}

static struct curl_slist *make_headers(const struct registry_request *rq, bool with_auth, bool *ok)
{
	struct curl_slist *l = add_line(NULL, ok, "User-Agent: proofmark/", PROOFMARK_VERSION);
	l = add_line(l, ok, "Accept:", rq->accept ? rq->accept : ""); /* "" = curl sends none */
	l = add_line(l, ok, "Expect:", "");
	if (with_auth && rq->authorization)
		l = add_line(l, ok, "Authorization: ", rq->authorization);
	if (rq->range)
		l = add_line(l, ok, "Range: ", rq->range);
	if (rq->if_range)
		l = add_line(l, ok, "If-Range: ", rq->if_range);
	return l;
}

static void free_headers(struct curl_slist *list)
{
	for (struct curl_slist *l = list; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(list);
}

static long ms_left(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns();
	uint64_t ms = deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0;
	return ms < 86400000 ? (long)ms : 86400000L;
}

static void prepare(struct transfer *t, const char *url, bool loopback, struct curl_slist *headers,
                    long time_ms)
{
	CURL *e = t->h->easy;
	curl_easy_reset(e); /* keeps connections */
	t->h->curl_error[0] = '\0';
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, time_ms);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, time_ms < 15000 ? time_ms : 15000L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, STALL_S);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->h->curl_error);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(e, CURLOPT_XFERINFODATA, t);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
	if (t->rq->form) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(t->rq->form));
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->rq->form);
	}
	if (t->h->ca_file)
		curl_easy_setopt(e, CURLOPT_CAINFO, t->h->ca_file);
	if (loopback)
		curl_easy_setopt(e, CURLOPT_PROXY, "");
}

/* How a transfer ended, once there was a head. */
static int judge(struct transfer *t, CURLcode rc, const char *shown, struct err *err)
{
	struct registry_answer *a = t->a;
	bool good = a->status >= 200 && a->status < 300;
	if (rc == CURLE_OK || t->head_only || a->stopped)
		return 0;
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return err_set(err, ERR_INTERRUPTED, "%s: interrupted", shown);
	if (a->status == 0) {
		if (rc == CURLE_OPERATION_TIMEDOUT)
			return err_set(err, ERR_ENV, "%s: no answer within its time", shown);
		if (t->off_loopback)
			return err_set(err, ERR_ENV,
			               "%s: is not on this machine, and plain HTTP is for loopback only",
			               shown);
		return err_set(err, ERR_ENV, "%s: %s", shown,
		               t->h->curl_error[0] ? t->h->curl_error : curl_easy_strerror(rc));
	}
	if (t->too_long && good)
		return err_set(err, ERR_ENV, "%s: the answer is longer than %llu bytes", shown,
		               (unsigned long long)t->rq->max_bytes);
	if (good)
		a->cut = rc == CURLE_PARTIAL_FILE         ? "body shorter than Content-Length"
		         : rc == CURLE_OPERATION_TIMEDOUT ? "stalled or ran out of time"
		                                          : "the connection broke off";
	return 0;
}

static int hop(struct transfer *t, const char *url, bool with_auth, struct err *err)
{
	char shown[300], host[REF_HOST_BYTES];
	long time_ms = ms_left(t->rq->deadline_ns);
	bool plain = strncmp(url, "http://", 7) == 0, ok = true;
	const char *after = strstr(url, "://");
	registry_url_shown(url, shown, sizeof(shown));
	if (time_ms == 0)
		return err_set(err, ERR_ENV, "%s: no time left to ask", shown);
	size_t n_host = after ? strcspn(after + 3, "/?#") : 0;
	if (n_host == 0 || n_host >= sizeof(host))
		return err_set(err, ERR_ENV, "%s: is no URL", shown);
	memcpy(host, after + 3, n_host);
	host[n_host] = '\0';
	bool loopback = registry_host_is_loopback(host);
	if (plain && !loopback && !t->h->plain_allowed)
		return err_set(err, ERR_ENV, "%s: plain HTTP is for loopback only, unless told otherwise",
		               shown);
	t->loopback_only = plain && !t->h->plain_allowed;
	t->too_long = t->head_only = t->off_loopback = false;
	t->n_body = 0;
	restart(t->a, t->rq->max_bytes);
	struct curl_slist *headers = make_headers(t->rq, with_auth, &ok);
	if (!ok) {
		free_headers(headers);
		return err_set(err, ERR_ENV, "%s: no memory", shown);
	}
	prepare(t, url, loopback, headers, time_ms);
	CURLcode rc = curl_easy_perform(t->h->easy);
	free_headers(headers);
	return judge(t, rc, shown, err);
}

/* --- redirects ----------------------------------------------------------------------------------------- */

/* "https://host:443" in one form, malloc'd; NULL when the URL is none or holds a user name. */
static char *origin_of(const char *url)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL, *out = NULL;
	if (u && !curl_url_set(u, CURLUPART_URL, url, 0) && !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
	    !curl_url_get(u, CURLUPART_HOST, &host, 0) &&
	    !curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
	    curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER)
		out = str_fmt("%s://%s:%s", scheme, host, port);
	for (char *p = out; p && *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_free(user);
	curl_url_cleanup(u);
	return out;
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* The next URL, malloc'd, and its origin; -1 when it may not be followed. */
static int next_url(char **url, char **origin, struct registry_http *h, const char *from, struct err *err)
{
	char shown[300], to[300];
	char *location = NULL;
	registry_url_shown(from, shown, sizeof(shown));
	curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &location);
	if (!location || strlen(location) > REGISTRY_URL_BYTES_MAX)
		return err_set(err, ERR_ENV, "%s: redirects to nowhere", shown);
	registry_url_shown(location, to, sizeof(to));
	char *o = origin_of(location);
	if (!o)
		return err_set(err, ERR_ENV, "%s: redirects to %s, which is no URL to follow", shown, to);
	if (strncmp(from, "https://", 8) == 0 && strncmp(o, "https://", 8) != 0) {
		free(o);
		return err_set(err, ERR_ENV, "%s: redirects to %s, without TLS", shown, to);
	}
	char *copy = strdup(location);
	if (!copy) {
		free(o);
		return err_set(err, ERR_ENV, "%s: no memory", shown);
	}
	free(*url);
	free(*origin);
	*url = copy;
	*origin = o;
	return 0;
}

int registry_http_do(struct registry_answer *a, struct registry_http *h, const struct registry_request *rq,
                     struct err *err)
{
	struct transfer t = { .h = h, .rq = rq, .a = a };
	char shown[300];
	auto_free char *url = strdup(rq->url);
	auto_free char *first = origin_of(rq->url);
	auto_free char *origin = first ? strdup(first) : NULL;
	registry_url_shown(rq->url, shown, sizeof(shown));
	if (!url || !origin)
		return err_set(err, ERR_ENV, "%s: is no URL that can be asked", shown);
	for (unsigned n = 0; n <= REGISTRY_REDIRECTS_MAX; n++) {
		bool same = strcmp(first, origin) == 0;
		if (hop(&t, url, same, err))
			return -1;
		a->elsewhere = !same;
		if (!is_redirect(a->status) || rq->form)
			return 0;
		if (next_url(&url, &origin, h, url, err))
			return -1;
	}
	return err_set(err, ERR_ENV, "%s: more than %d redirects", shown, REGISTRY_REDIRECTS_MAX);
}
