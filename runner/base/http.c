/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

struct http_client {
	CURL *easy;
	char *base_url, *ca_file;
	const char *socket_path;                       /* into base_url; NULL = TCP */
	struct curl_slist *get_headers, *post_headers; /* they hold the secret; it is in no message */
	char curl_error[CURL_ERROR_SIZE];
};

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* An owned copy of `list` with one header more; NULL without memory (then the list is freed). */
static struct curl_slist *add_header(struct curl_slist *list, const char *header)
{
	struct curl_slist *more = curl_slist_append(list, header);
	if (!more)
		curl_slist_free_all(list);
	return more;
}

static struct curl_slist *make_headers(const char *bearer, bool post)
{
	struct curl_slist *list = add_header(NULL, "Accept: application/json");
	if (list && post)
		list = add_header(list, "Content-Type: application/json");
	if (list && post)
		list = add_header(list, "Expect:"); /* no pause before bigger bodies */
	if (list && bearer) {
		char *auth = str_fmt("Authorization: Bearer %s", bearer);
		list = auth ? add_header(list, auth) : (curl_slist_free_all(list), NULL);
		if (auth) {
			explicit_bzero(auth, strlen(auth));
			free(auth);
		}
	}
	return list;
}

/* A header break inside the secret would let it write headers of its own. */
static bool bearer_ok(const char *bearer)
{
	for (const char *p = bearer; p && *p; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return false;
	return !bearer || *bearer;
}

#define UNIX_SCHEME "unix://"

/* The socket of "unix:///run/x.sock", NULL for any other URL. */
static const char *socket_of(const char *url)
{
	const char *path = url + sizeof(UNIX_SCHEME) - 1;
	return strncmp(url, UNIX_SCHEME, sizeof(UNIX_SCHEME) - 1) == 0 && path[0] == '/' && path[1] ? path
	                                                                                            : NULL;
}

static bool url_ok(const char *url)
{
	if (socket_of(url))
		return true;
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *user = NULL;
	bool ok = u && !curl_url_set(u, CURLUPART_URL, url, 0) &&
	          !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
	          !curl_url_get(u, CURLUPART_HOST, &host, 0) &&
	          (!strcmp(scheme, "http") || !strcmp(scheme, "https")) &&
	          curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER;
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	curl_url_cleanup(u);
	return ok;
}

int http_open(struct http_client **out, const struct http_spec *spec, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, global_init);
	if (!url_ok(spec->base_url)) /* a URL with a user name may hold a password: it is not echoed */
		return err_set(err, ERR_PLAN,
		               "the server's URL: want http://host:port, https://host:port or unix:///path, "
		               "without user name");
	if (!bearer_ok(spec->bearer))
		return err_set(err, ERR_ENV, "the API key is empty or holds blanks or control characters");
	struct http_client *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, ERR_ENV, "%s: out of memory", spec->base_url);
	c->base_url = strdup(spec->base_url);
	c->socket_path = c->base_url ? socket_of(c->base_url) : NULL;
	c->ca_file = spec->ca_file ? strdup(spec->ca_file) : NULL;
	c->get_headers = make_headers(spec->bearer, false);
	c->post_headers = make_headers(spec->bearer, true);
	c->easy = curl_easy_init();
	if (!c->base_url || !c->get_headers || !c->post_headers || !c->easy ||
	    (spec->ca_file && !c->ca_file)) {
		http_close(c);
		return err_set(err, ERR_ENV, "%s: out of memory", spec->base_url);
	}
	*out = c;
	return 0;
}

void http_close(struct http_client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->easy);
	for (struct curl_slist *h = c->get_headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	for (struct curl_slist *h = c->post_headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(c->get_headers);
	curl_slist_free_all(c->post_headers);
	free(c->base_url);
	free(c->ca_file);
	free(c);
}

static size_t take_body(char *data, size_t size, size_t n, void *ctx)
{
	return buf_add(ctx, data, size * n) ? 0 : size * n;
}

static bool is_loopback(const char *url)
{
	static const char *const hosts[] = { "127.", "localhost", "[::1]" };
	const char *host = strstr(url, "://");
	for (size_t i = 0; host && i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (!strncasecmp(host + 3, hosts[i], strlen(hosts[i])))
			return true;
	return false;
}

static void prepare(struct http_client *c, const char *url, const char *body, long timeout_ms,
                    struct buf *answer)
{
	CURL *e = c->easy;
	curl_easy_reset(e); /* keeps connections */
	c->curl_error[0] = '\0';
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, timeout_ms);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms < 10000 ? timeout_ms : 10000L);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->curl_error);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, body ? c->post_headers : c->get_headers);
	if (body) {
		curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
	}
	if (c->ca_file)
		curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
	if (c->socket_path)
		curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->socket_path);
	if (is_loopback(url))
		curl_easy_setopt(e, CURLOPT_PROXY, "");
}

static long ms_left(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns();
	uint64_t ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	return ms < 86400000 ? (long)ms : 86400000L;
}

static int say_failure(const struct http_client *c, CURLcode rc, const char *url, const struct buf *got,
                       size_t max_bytes, struct err *err)
{
	if (rc == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, ERR_ENV, "%s: no answer within its time", url);
	if (rc == CURLE_WRITE_ERROR && got->failed)
		return err_set(err, ERR_ENV, "%s: the answer is longer than %zu bytes", url, max_bytes);
	return err_set(err, ERR_ENV, "%s: %s", url,
	               c->curl_error[0] ? c->curl_error : curl_easy_strerror(rc));
}

int http_call(struct http_client *c, const char *path, const char *body, uint64_t deadline_ns,
              size_t max_bytes, int *status, struct buf *answer, struct err *err)
{
	auto_buf got = BUF_INIT(max_bytes);
	auto_free char *url = str_fmt("%s%s", c->socket_path ? "http://localhost" : c->base_url, path);
	long code = 0, timeout_ms = ms_left(deadline_ns);
	if (!url)
		return err_set(err, ERR_ENV, "%s: out of memory", c->base_url);
	if (timeout_ms == 0)
		return err_set(err, ERR_ENV, "%s: no time left to ask", url);
	prepare(c, url, body, timeout_ms, &got);
	CURLcode rc = curl_easy_perform(c->easy);
	if (rc != CURLE_OK)
		return say_failure(c, rc, c->socket_path ? c->base_url : url, &got, max_bytes, err);
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &code);
	if (buf_add(answer, got.p ? got.p : "", got.len))
		return err_set(err, ERR_ENV, "%s: the answer is longer than %zu bytes", url,
		               answer->max_bytes);
	*status = (int)code;
	return 0;
}
