/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/registry_creds.h"

#include "base/fs.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "pin/registry_ref.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define CONFIG_BYTES_MAX (1u << 20)
#define DOCKER_HUB_KEY "https://index.docker.io/v1/"

static void wipe(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

void registry_creds_done(struct registry_creds *c)
{
	wipe(&c->user);
	wipe(&c->password);
	wipe(&c->identity_token);
	wipe(&c->registry_token);
}

/* --- which entry --------------------------------------------------------------------------------------- */

/* How well a key of auths fits: 0 = not, else its length. Keys are hosts, hosts with a part of the path
 * (podman), or URLs (docker). */
static size_t key_fit(const char *key, const char *host, const char *path)
{
	const char *k = key, *scheme = strstr(key, "://");
	size_t n_host = strlen(host);
	if (scheme)
		k = scheme + 3;
	if (strcmp(host, "docker.io") == 0 &&
	    (strcasecmp(key, DOCKER_HUB_KEY) == 0 || strcasecmp(k, "index.docker.io") == 0 ||
	     strcasecmp(k, "registry-1.docker.io") == 0))
		return n_host;
	if (strncasecmp(k, host, n_host) != 0)
		return 0;
	const char *rest = k + n_host;
	if (!*rest || strcmp(rest, "/") == 0 || strcmp(rest, "/v1/") == 0 || strcmp(rest, "/v2/") == 0 ||
	    strcmp(rest, "/v1") == 0 || strcmp(rest, "/v2") == 0)
		return n_host;
	size_t n_path = strlen(rest + 1);
	if (*rest != '/' || scheme || strncmp(path, rest + 1, n_path) != 0 ||
	    (path[n_path] && path[n_path] != '/'))
		return 0;
	return n_host + 1 + n_path;
}

static const struct cJSON *best_of(const struct cJSON *map, const char *host, const char *path)
{
	const struct cJSON *e, *best = NULL;
	size_t fit = 0;
	cJSON_ArrayForEach(e, map)
	{
		size_t n = key_fit(e->string ? e->string : "", host, path);
		if (n > fit) {
			fit = n;
			best = e;
		}
	}
	return best;
}

/* --- an entry of auths --------------------------------------------------------------------------------- */

static int take_auth(struct registry_creds *c, const char *auth, const char *file, struct err *err)
{
	size_t n = 0;
	uint8_t *raw = base64_decode(auth, strlen(auth), true, &n);
	char *text = raw ? calloc(1, n + 1) : NULL;
	if (text)
		memcpy(text, raw, n);
	while (text && n && text[n - 1] == '\0') /* old versions wrote them */
		n--;
	char *colon = text ? memchr(text, ':', n) : NULL;
	bool ok = colon && colon > text && strlen(text) == n;
	if (ok) {
		c->user = strndup(text, (size_t)(colon - text));
		c->password = strdup(colon + 1);
	}
	if (raw)
		explicit_bzero(raw, n);
	free(raw);
	wipe(&text);
	if (!ok)
		return err_set(err, ERR_ENV, "%s: an entry of auths is not base64 of USER:PASSWORD", file);
	return c->user && c->password ? 0 : err_set(err, ERR_ENV, "%s: no memory", file);
}

static char *dup_some(const char *s)
{
	return s && s[0] ? strdup(s) : NULL;
}

static int take_entry(struct registry_creds *out, bool *found, const struct cJSON *entry, const char *file,
                      struct err *err)
{
	struct registry_creds c = { 0 };
	const char *auth = json_str(entry, "auth"), *user = json_str(entry, "username"),
		   *password = json_str(entry, "password");
	if (auth && auth[0]) {
		if (take_auth(&c, auth, file, err)) {
			registry_creds_done(&c);
			return -1;
		}
	} else if (user && user[0] && password) {
		c.user = strdup(user);
		c.password = strdup(password);
	}
	c.identity_token = dup_some(json_str(entry, "identitytoken"));
	c.registry_token = dup_some(json_str(entry, "registrytoken"));
	*found = c.user || c.identity_token || c.registry_token;
	*out = c;
	return 0;
}

/* --- a file -------------------------------------------------------------------------------------------- */

static int ask_helper(struct registry_creds *out, bool *found, const struct cJSON *doc, const char *host,
                      const char *path, uint64_t deadline_ns, struct err *err)
{
	const struct cJSON *own = best_of(json_get(doc, "credHelpers"), host, path);
	const char *store = json_str(doc, "credsStore");
	const char *name = cJSON_IsString(own) && own->valuestring[0] ? own->valuestring : store;
	const char *server = strcmp(host, "docker.io") == 0 ? DOCKER_HUB_KEY : host;
	if (!name || !name[0])
		return 0;
	return registry_helper_get(out, found, name, server, deadline_ns, err);
}

static void wipe_strings(struct cJSON *doc)
{
	for (struct cJSON *v = doc ? doc->child : NULL; v; v = v->next) {
		if (cJSON_IsString(v))
			explicit_bzero(v->valuestring, strlen(v->valuestring));
		wipe_strings(v);
	}
}

static int look_in(struct registry_creds *out, bool *found, const char *file, const struct buf *text,
                   const char *host, const char *path, uint64_t deadline_ns, struct err *err)
{
	struct cJSON *doc = NULL;
	struct err hidden;
	if (json_parse(&doc, text->p ? text->p : "", text->len, file, JSON_ENGINE, NULL, &hidden) ||
	    !cJSON_IsObject(doc)) {
		cJSON_Delete(doc);
		return err_set(err, ERR_ENV, "%s: is no JSON object", file);
	}
	int rc = ask_helper(out, found, doc, host, path, deadline_ns, err);
	if (rc == 0 && !*found) {
		const struct cJSON *entry = best_of(json_get(doc, "auths"), host, path);
		if (cJSON_IsObject(entry))
			rc = take_entry(out, found, entry, file, err);
	}
	wipe_strings(doc);
	cJSON_Delete(doc);
	return rc;
}

static int try_file(struct registry_creds *out, bool *found, const char *file, bool must_be, const char *host,
                    const char *path, uint64_t deadline_ns, struct err *err)
{
	auto_buf text = BUF_INIT(CONFIG_BYTES_MAX);
	if (!must_be && access(file, R_OK) != 0)
		return 0;
	int rc = fs_read(&text, file, CONFIG_BYTES_MAX, err);
	if (rc)
		return err_wrap(err, "credentials");
	rc = look_in(out, found, file, &text, host, path, deadline_ns, err);
	if (text.p)
		explicit_bzero(text.p, text.cap);
	return rc ? err_wrap(err, "credentials") : 0;
}

static const struct {
	const char *env, *below; /* below NULL: the variable names the file itself */
} places[] = {
	{ "REGISTRY_AUTH_FILE", NULL },
	{ "DOCKER_CONFIG", "config.json" },
	{ "XDG_RUNTIME_DIR", "containers/auth.json" },
	{ "HOME", ".docker/config.json" },
};

int registry_creds_find(struct registry_creds *out, const char *host, const char *path,
                        const char *config_file, uint64_t deadline_ns, struct err *err)
{
	struct registry_creds c = { 0 };
	bool found = false;
	if (config_file && config_file[0] &&
	    try_file(&c, &found, config_file, true, host, path, deadline_ns, err))
		return -1;
	for (size_t i = 0; !config_file && !found && i < ARRAY_LEN(places); i++) {
		const char *base = getenv(places[i].env);
		if (!base || !base[0] || (strcmp(places[i].env, "HOME") == 0 && getenv("DOCKER_CONFIG")))
			continue;
		auto_free char *file = places[i].below ? fs_join(base, places[i].below) : strdup(base);
		if (!file)
			return err_set(err, ERR_ENV, "credentials: no memory");
		if (try_file(&c, &found, file, false, host, path, deadline_ns, err))
			return -1;
	}
	*out = c;
	return 0;
}
