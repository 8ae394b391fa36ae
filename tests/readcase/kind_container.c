/* SPDX-License-Identifier: Apache-2.0 */
/* Kind container. By what the files are: NAME.get.http is the answer of a registry to a manifest request,
 * over a socket; lines of a .jsonl hold WWW-Authenticate fields, refusals with Retry-After, or image names;
 * index.json with plan.json is an index that is pinned and looked at again (later.index.json); a .tar or
 * folder is an image archive. */
#include "readcase.h"

#include "base/clock.h"
#include "pin/pin_image.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ASSUMED_REGISTRY "registry.example.test" /* with TLS: challenges do not say whose they are */
#define ANSWER_TIME_S 20

/* --- recorded answers ------------------------------------------------------------------------------------
 */

struct answerer { /* sends the recorded bytes to whoever asks, then closes */
	int fd;
	unsigned port;
	pthread_t thread;
	const struct buf *bytes;
};

static void answer_one(const struct answerer *a, int fd)
{
	char head[4096];
	size_t n = 0;
	ssize_t got;
	while (n < sizeof(head) - 1 && (got = recv(fd, head + n, sizeof(head) - 1 - n, 0)) > 0) {
		n += (size_t)got;
		head[n] = '\0';
		if (strstr(head, "\r\n\r\n"))
			break;
	}
	for (size_t sent = 0; sent < a->bytes->len; sent += (size_t)got)
		if ((got = send(fd, a->bytes->p + sent, a->bytes->len - sent, MSG_NOSIGNAL)) <= 0)
			break;
	close(fd);
}

static void *answer_all(void *ctx)
{
	const struct answerer *a = ctx;
	int fd;
	while ((fd = accept(a->fd, NULL, NULL)) >= 0)
		answer_one(a, fd);
	return NULL;
}

static int answerer_start(struct answerer *a, const struct buf *bytes, struct err *err)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	a->bytes = bytes;
	a->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a->fd < 0 || bind(a->fd, (struct sockaddr *)&at, sizeof(at)) || listen(a->fd, 4) ||
	    getsockname(a->fd, (struct sockaddr *)&at, &len) ||
	    pthread_create(&a->thread, NULL, answer_all, a))
		return err_set(err, ERR_ENV, "no socket to answer from");
	a->port = ntohs(at.sin_port);
	return 0;
}

static void answerer_stop(struct answerer *a)
{
	shutdown(a->fd, SHUT_RDWR);
	pthread_join(a->thread, NULL);
	close(a->fd);
}

/* Body and header digest as they stand, to be named beside an error. */
static void put_both(struct json_out *o, const struct buf *bytes)
{
	static const char field[] = "\nDocker-Content-Digest:";
	char digest[OCI_DIGEST_BYTES], header[256];
	const char *end = memmem(bytes->p, bytes->len, "\r\n\r\n", 4);
	const char *f = strcasestr(bytes->p, field);
	if (!end)
		return;
	const char *body = end + 4;
	oci_digest_of(digest, body, (size_t)(bytes->p + bytes->len - body), NULL);
	jo_str(o, "body", digest);
	if (f && f < end && sscanf(f + sizeof(field) - 1, " %255[^\r\n ]", header) == 1)
		jo_str(o, "header", header);
}

static int put_answer(struct json_out *o, const struct buf *bytes, struct err *err)
{
	struct answerer a;
	struct registry_ref ref;
	struct registry *r;
	struct err why;
	char type[OCI_TYPE_BYTES], digest[OCI_DIGEST_BYTES];
	auto_buf got = BUF_INIT(OCI_DOC_BYTES_MAX);
	if (answerer_start(&a, bytes, err))
		return -1;
	auto_free char *name = str_fmt("127.0.0.1:%u/image:tag", a.port);
	struct registry_spec spec = { .ref = &ref,
		                      .config_file = "",
		                      .deadline_ns = clock_now_ns() + ANSWER_TIME_S * NS_PER_S };
	int rc = registry_ref_parse(&ref, name, err) || registry_open(&r, &spec, err) ? -1 : 0;
	if (rc == 0) {
		bool there = registry_manifest(&got, type, r, "tag", NULL, &why) == 0;
		registry_close(r);
		if (there) {
			oci_digest_of(digest, got.p ? got.p : "", got.len, NULL);
			jo_str(o, "status", "ok");
			jo_str(o, "digest", digest);
			jo_str(o, "how", "GET and hash the body");
		} else {
			case_put_error(o, &why);
			put_both(o, bytes);
		}
	}
	answerer_stop(&a);
	return rc;
}

/* HEAD says less than GET and is not asked: its files are left alone. */
static int put_answers(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		auto_buf bytes = BUF_INIT(CASE_FILE_BYTES_MAX);
		size_t n = strlen(in->name);
		bool get = n > 4 && strcmp(in->name + n - 4, ".get") == 0;
		if (strcmp(in->ext, "http") != 0 || (!get && strstr(in->name, "head")))
			continue;
		if (case_read_file(&bytes, c, in, err))
			return -1;
		auto_free char *key = strndup(in->name, get ? n - 4 : n);
		jo_obj(o, key);
		int rc = bytes.len ? put_answer(o, &bytes, err) : 0;
		jo_end(o);
		if (rc)
			return -1;
	}
	return 0;
}

/* --- lines ------------------------------------------------------------------------------------------------
 */

static void put_challenge(struct json_out *o, const char *header)
{
	struct registry_challenge c;
	struct err why;
	if (registry_challenge_parse(&c, header, &why)) {
		case_put_error(o, &why);
		return;
	}
	const char *fault = c.scheme == CHALLENGE_BEARER
	                            ? registry_realm_fault(c.realm, true, ASSUMED_REGISTRY, false)
	                            : NULL;
	if (fault) {
		jo_str(o, "status", "error");
		jo_str(o, "reason", fault);
		return;
	}
	jo_str(o, "scheme", c.scheme == CHALLENGE_BASIC ? "Basic" : "Bearer");
	jo_str(o, "realm", c.realm);
	jo_str(o, "service", c.has_service ? c.service : NULL);
	jo_str(o, "scope", c.has_scope ? c.scope : NULL);
	if (c.has_error)
		jo_str(o, "error", c.error);
}

static void put_reference(struct json_out *o, const char *text)
{
	struct registry_ref r;
	struct err why;
	char full[REF_TEXT_BYTES];
	if (registry_ref_parse(&r, text, &why)) {
		case_put_error(o, &why);
		return;
	}
	registry_ref_text(&r, full);
	jo_str(o, "status", "ok");
	jo_str(o, "registry", r.host);
	jo_str(o, "repository", r.path);
	jo_str(o, "tag", r.tag[0] ? r.tag : NULL);
	jo_str(o, "digest", r.digest[0] ? r.digest : NULL);
	jo_str(o, "full", full);
}

static const char *field_of(const struct cJSON *headers, const char *name)
{
	const struct cJSON *h;
	cJSON_ArrayForEach(h, headers) if (strcasecmp(h->string, name) == 0 &&
	                                   cJSON_IsString(h)) return h->valuestring;
	return NULL;
}

static bool is_refusal(const struct cJSON *line)
{
	int64_t status;
	return json_i64(line, "status", &status) && (status == 429 || status >= 500);
}

static void put_wait(struct json_out *o, const char *key, const struct cJSON *line, int64_t now_s)
{
	const char *value = field_of(json_get(line, "headers"), "Retry-After");
	char text[100];
	double wait_s;
	if (!is_refusal(line))
		return;
	if (!value) {
		snprintf(text, sizeof(text), "own back-off, first between %d and %d", 1, 10);
		jo_str(o, key,
		       registry_backoff_s(0) >= 1 && registry_backoff_s(0) <= 10 ? text : "own back-off");
	} else if (!registry_retry_after(&wait_s, value, now_s)) {
		jo_str(o, key, "own back-off");
	} else if (wait_s > REGISTRY_WAIT_MAX_S) {
		snprintf(text, sizeof(text), "give up when above the limit of the plan (say %.0f)",
		         REGISTRY_WAIT_MAX_S);
		jo_str(o, key, text);
	} else {
		jo_num(o, key, wait_s);
	}
}

static void put_limit(struct json_out *o, const char *key, const struct cJSON *line)
{
	const struct cJSON *headers = json_get(line, "headers");
	struct registry_limit l;
	registry_limit_parse(&l, field_of(headers, "RateLimit-Limit"),
	                     field_of(headers, "RateLimit-Remaining"));
	if (!l.has_limit && !l.has_remaining)
		return;
	jo_obj(o, key);
	if (l.has_limit)
		jo_u64(o, "limit", l.limit);
	if (l.has_window)
		jo_u64(o, "window_s", l.window_s);
	if (l.has_remaining)
		jo_u64(o, "remaining", l.remaining);
	jo_end(o);
}

struct lines {
	size_t n;
	struct cJSON *list[1000];
};

static void lines_done(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		cJSON_Delete(l->list[i]);
	l->n = 0;
}

static int read_lines(struct lines *l, char *text, struct err *err)
{
	char *line;
	while ((line = strsep(&text, "\n")) && l->n < ARRAY_LEN(l->list)) {
		if (!line[strspn(line, " \r\t")])
			continue;
		if (json_parse(&l->list[l->n], line, strlen(line), "input.jsonl", JSON_ENGINE, NULL, err))
			return -1;
		l->n++;
	}
	return 0;
}

static void key_of(const struct cJSON *line, size_t i, char key[24])
{
	uint64_t n = i;
	(void)json_u64(line, "i", &n);
	snprintf(key, 24, "%llu", (unsigned long long)n);
}

static bool any_has(const struct lines *l, const char *member)
{
	for (size_t i = 0; i < l->n; i++)
		if (json_get(l->list[i], member))
			return true;
	return false;
}

static const char *reference_of(const struct cJSON *line)
{
	static const char *const names[] = { "reference", "ref", "image", "name", "text" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_str(line, names[i]))
			return json_str(line, names[i]);
	return NULL;
}

static void put_by_i(struct json_out *o, const struct lines *l)
{
	jo_obj(o, "by_i");
	for (size_t i = 0; i < l->n; i++) {
		char key[24];
		const char *header = json_str(l->list[i], "www_authenticate"),
			   *ref = reference_of(l->list[i]);
		key_of(l->list[i], i, key);
		if (!header && !ref)
			continue;
		jo_obj(o, key);
		if (header)
			put_challenge(o, header);
		else
			put_reference(o, ref);
		jo_end(o);
	}
	jo_end(o);
}

static void put_refusals(struct json_out *o, const struct lines *l, int64_t now_s)
{
	char key[24];
	jo_obj(o, "wait_s");
	for (size_t i = 0; i < l->n; i++) {
		key_of(l->list[i], i, key);
		put_wait(o, key, l->list[i], now_s);
	}
	jo_end(o);
	jo_obj(o, "limit");
	for (size_t i = 0; i < l->n; i++) {
		key_of(l->list[i], i, key);
		put_limit(o, key, l->list[i]);
	}
	jo_end(o);
}

/* input.now: when the answers came; without it, now. */
static int read_now(int64_t *now_s, const struct case_dir *c, struct err *err)
{
	int64_t wall_ns = clock_wall_ns();
	for (size_t i = 0; i < c->n_inputs; i++) {
		auto_buf text = BUF_INIT(1000);
		char time[40];
		if (strcmp(c->inputs[i].file, "input.now") != 0)
			continue;
		if (case_read_file(&text, c, &c->inputs[i], err))
			return -1;
		if (sscanf(text.p ? text.p : "", "%39s", time) != 1 || clock_parse_rfc3339(time, &wall_ns))
			return err_set(err, ERR_PLAN, "input.now: is no time");
	}
	*now_s = wall_ns / (int64_t)NS_PER_S;
	return 0;
}

static int put_lines(const struct case_dir *c, const struct case_input *in, struct json_out *o,
                     struct err *err)
{
	static struct lines l;
	int64_t now_s = 0;
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	if (case_read_file(&text, c, in, err) || read_now(&now_s, c, err))
		return -1;
	int rc = text.p ? read_lines(&l, text.p, err) : 0;
	if (rc == 0 && any_has(&l, "headers"))
		put_refusals(o, &l, now_s);
	else if (rc == 0)
		put_by_i(o, &l);
	if (rc == 0 && any_has(&l, "www_authenticate"))
		jo_str(o, "registry_of_all", "https://" ASSUMED_REGISTRY);
	lines_done(&l);
	return rc;
}

/* --- an index and its pin ---------------------------------------------------------------------------------
 */

struct seen { /* an index file */
	struct oci_doc doc;
	char digest[OCI_DIGEST_BYTES];
};

static int read_index(struct seen *s, const struct case_dir *c, const struct case_input *in, struct err *err)
{
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	if (case_read_file(&text, c, in, err) ||
	    oci_doc_parse(&s->doc, text.p ? text.p : "", text.len, NULL, in->file, err))
		return -1;
	oci_digest_of(s->digest, text.p ? text.p : "", text.len, NULL);
	return 0;
}

static void pin_of(struct image_pin *p, const struct seen *s, const struct oci_platform *want)
{
	const struct oci_desc *d = NULL;
	struct err ignored;
	*p = (struct image_pin){ 0 };
	snprintf(p->index.digest, sizeof(p->index.digest), "%.71s", s->digest);
	if (oci_doc_pick(&d, &s->doc, want, "index", &ignored) == 0 && d)
		snprintf(p->manifest.digest, sizeof(p->manifest.digest), "%.71s", d->digest);
}

static void put_platforms(struct json_out *o, const struct seen *s)
{
	char text[OCI_PLATFORM_BYTES];
	uint64_t n_attestations = 0;
	jo_obj(o, "platform_digest");
	for (size_t i = 0; i < s->doc.n; i++) {
		struct oci_platform p = s->doc.list[i].platform;
		oci_platform_normal(&p);
		oci_platform_text(&p, text);
		if (oci_desc_runnable(&s->doc.list[i]))
			jo_str(o, text, s->doc.list[i].digest);
	}
	jo_end(o);
	jo_arr(o, "runnable_platforms");
	for (size_t i = 0; i < s->doc.n; i++) {
		oci_platform_text(&s->doc.list[i].platform, text);
		if (oci_desc_runnable(&s->doc.list[i]))
			jo_str(o, NULL, text);
		n_attestations += s->doc.list[i].attestation;
	}
	jo_end_arr(o);
	jo_u64(o, "attestations", n_attestations);
}

static void put_later(struct json_out *o, const struct seen *first, const struct seen *later)
{
	char text[OCI_PLATFORM_BYTES];
	struct image_pin a, b;
	struct image_moved m;
	bool moved = false;
	jo_obj(o, "later_check");
	for (size_t i = 0; i < first->doc.n; i++) {
		struct oci_platform p = first->doc.list[i].platform;
		if (!oci_desc_runnable(&first->doc.list[i]))
			continue;
		oci_platform_normal(&p);
		pin_of(&a, first, &p);
		pin_of(&b, later, &p);
		image_pin_compare(&m, &a, &b);
		moved = moved || m.moved;
		oci_platform_text(&p, text);
		jo_str(o, text, m.manifest);
	}
	jo_str(o, "index", strcmp(first->digest, later->digest) == 0 ? "same" : "changed");
	jo_str(o, "status", moved ? "moved" : "pinned");
	jo_end(o);
	jo_str(o, "later_index_digest", later->digest);
}

static int put_recorded(struct json_out *o, const struct case_dir *c, const struct case_input *in,
                        const struct seen *now, struct err *err)
{
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_json plan = NULL;
	struct oci_platform want;
	struct image_pin a = { 0 }, b;
	struct image_moved m;
	if (case_read_file(&text, c, in, err) ||
	    json_parse(&plan, text.p ? text.p : "", text.len, in->file, JSON_STRICT, NULL, err))
		return -1;
	const char *platform = json_str(plan, "platform");
	const char *index = json_str(json_get(plan, "recorded"), "index"),
		   *manifest = json_str(json_get(plan, "recorded"), "platform");
	if (!platform || !index || !manifest || oci_platform_parse(&want, platform, err))
		return err_set(err, ERR_PLAN, "%s: want platform and recorded", in->file);
	oci_platform_normal(&want);
	snprintf(a.index.digest, sizeof(a.index.digest), "%.71s", index);
	snprintf(a.manifest.digest, sizeof(a.manifest.digest), "%.71s", manifest);
	pin_of(&b, now, &want);
	image_pin_compare(&m, &a, &b);
	jo_str(o, "same_day_check", m.moved ? "moved" : "pinned");
	if (image_pin_has(&b, index) && image_pin_has(&b, manifest))
		jo_str(o, "running_image_reports",
		       "an engine may report either digest: equal to the index digest or to the platform "
		       "digest both "
		       "count as a match");
	return 0;
}

static int put_index(const struct case_dir *c, struct json_out *o, struct err *err)
{
	struct seen first = { 0 }, later = { 0 };
	const struct case_input *in = case_find(c, "index", "json"),
				*next = case_find(c, "later.index", "json"),
				*plan = case_find(c, "plan", "json");
	int rc = 0;
	struct err why;
	if (!in)
		return 0;
	if (read_index(&first, c, in, &why)) {
		case_put_error(o, &why);
		return 0;
	}
	jo_str(o, "index_digest", first.digest);
	put_platforms(o, &first);
	if (plan)
		rc = put_recorded(o, c, plan, &first, err);
	if (rc == 0 && next) {
		rc = read_index(&later, c, next, err);
		if (rc == 0)
			put_later(o, &first, &later);
	}
	oci_doc_done(&first.doc);
	oci_doc_done(&later.doc);
	return rc;
}

/* --- archives ---------------------------------------------------------------------------------------------
 */

static void put_archive(const struct case_dir *c, const struct case_input *in, struct json_out *o)
{
	struct image_pin pin;
	struct err why;
	auto_free char *path = case_path(c, in);
	struct image_spec spec = { .path = path, .platform = "linux/amd64", .check_layers = true };
	if (in->name[0])
		jo_obj(o, in->name);
	if (image_resolve(&pin, &spec, &why)) {
		case_put_error(o, &why);
	} else {
		jo_str(o, "status", "ok");
		image_pin_json(o, "image", &pin);
		image_pin_done(&pin);
	}
	if (in->name[0])
		jo_end(o);
}

static bool is_archive(const struct case_dir *c, const struct case_input *in)
{
	struct stat st;
	auto_free char *path = case_path(c, in);
	return strcmp(in->ext, "tar") == 0 || (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

int read_container_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	if (put_answers(c, o, err) || put_index(c, o, err))
		return -1;
	for (size_t i = 0; i < c->n_inputs; i++) {
		if (strcmp(c->inputs[i].ext, "jsonl") == 0 && put_lines(c, &c->inputs[i], o, err))
			return -1;
		if (is_archive(c, &c->inputs[i]))
			put_archive(c, &c->inputs[i], o);
	}
	return 0;
}
