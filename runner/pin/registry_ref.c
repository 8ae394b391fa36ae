/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/registry_ref.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* [a-z0-9]+ joined by '.', '_', '__' or any number of '-'. */
static bool component_ok(const char *p, size_t len)
{
	size_t i = 0;
	while (i < len) {
		size_t word = i;
		while (i < len && lower_alnum(p[i]))
			i++;
		if (i == word)
			return false;
		if (i == len)
			return true;
		size_t sep = i;
		while (i < len && p[i] == p[sep] && strchr("._-", p[i]))
			i++;
		size_t n = i - sep;
		if (n == 0 || (p[sep] == '.' && n > 1) || (p[sep] == '_' && n > 2))
			return false;
	}
	return false; /* ends with a separator, or empty */
}

static bool path_ok(const char *path)
{
	for (const char *p = path;;) {
		size_t len = strcspn(p, "/");
		if (!component_ok(p, len))
			return false;
		if (!p[len])
			return true;
		p += len + 1;
	}
}

bool registry_tag_ok(const char *tag)
{
	size_t n = strlen(tag);
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)tag[i]) && tag[i] != '_' && (i == 0 || !strchr(".-", tag[i])))
			return false;
	return n > 0 && n < REF_TAG_BYTES;
}

static bool port_ok(const char *p)
{
	size_t n = strspn(p, "0123456789");
	unsigned long v = n && n < 6 ? strtoul(p, NULL, 10) : 0;
	return p[n] == '\0' && v >= 1 && v <= 65535;
}

static bool ip6_ok(const char *p, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;
	if (len >= sizeof(text))
		return false;
	memcpy(text, p, len);
	text[len] = '\0';
	return inet_pton(AF_INET6, text, &a) == 1;
}

/* Labels of letters, digits and inner '-', joined by single dots. */
static bool name_ok(const char *p, size_t len)
{
	size_t label = 0;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && p[i] != '.') {
			if (!isalnum((unsigned char)p[i]) && p[i] != '-')
				return false;
			continue;
		}
		if (i == label || i - label > 63 || p[label] == '-' || p[i - 1] == '-')
			return false;
		label = i + 1;
	}
	return len > 0;
}

static bool host_ok(const char *host)
{
	if (host[0] == '[') {
		const char *end = strchr(host, ']');
		return end && ip6_ok(host + 1, (size_t)(end - host - 1)) &&
		       (!end[1] || (end[1] == ':' && port_ok(end + 2)));
	}
	size_t len = strcspn(host, ":");
	return name_ok(host, len) && (!host[len] || port_ok(host + len + 1));
}

bool registry_host_is_loopback(const char *host)
{
	char name[REF_HOST_BYTES];
	struct in_addr a;
	size_t len = strcspn(host, ":");
	if (strncmp(host, "[::1]", 5) == 0)
		return host[5] == '\0' || host[5] == ':';
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	if (strcasecmp(name, "localhost") == 0)
		return true;
	return inet_pton(AF_INET, name, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}

/* Docker's rule: the first part is a host when it looks like one, else it belongs to the path. */
static bool first_is_host(const char *text, size_t len)
{
	if (len == 9 && memcmp(text, "localhost", 9) == 0)
		return true;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '.' || text[i] == ':' || text[i] == '[' || isupper((unsigned char)text[i]))
			return true;
	return false;
}

/* What stands before an '@' that no digest follows may be a password. */
static const char *shown(const char *text)
{
	const char *at = strchr(text, '@');
	return !at || strncmp(at + 1, "sha", 3) == 0 ? text : "(not shown)";
}

static int bad(const char *text, const char *why, struct err *err)
{
	return err_set(err, ERR_PLAN, "image name '%.100s': %s", shown(text), why);
}

static int take_digest(struct registry_ref *r, char *rest, const char *text, struct err *err)
{
	char *at = strchr(rest, '@');
	if (!at)
		return 0;
	*at = '\0';
	if (strchr(at + 1, '@'))
		return bad(text, "holds '@' twice (user names and passwords do not belong here)", err);
	const char *fault = oci_digest_fault(at + 1);
	if (fault)
		return err_set(err, ERR_PLAN, "image name '%.100s': the digest %s", shown(text), fault);
	strcpy(r->digest, at + 1);
	return 0;
}

static int take_tag(struct registry_ref *r, char *rest, const char *text, struct err *err)
{
	char *slash = strrchr(rest, '/'), *colon = strchr(slash ? slash : rest, ':');
	if (!colon)
		return 0;
	*colon = '\0';
	if (!registry_tag_ok(colon + 1))
		return bad(text, "the tag is none (letters, digits, '_', '.', '-', at most 128)", err);
	strcpy(r->tag, colon + 1);
	return 0;
}

static int take_host(struct registry_ref *r, char **rest, const char *text, struct err *err)
{
	char *slash = strchr(*rest, '/');
	if (!slash || !first_is_host(*rest, (size_t)(slash - *rest))) {
		strcpy(r->host, "docker.io");
		return 0;
	}
	*slash = '\0';
	if (strlen(*rest) >= sizeof(r->host) || !host_ok(*rest))
		return bad(text, "the host is none (want NAME or NAME:PORT)", err);
	strcpy(r->host, *rest);
	if (strcasecmp(r->host, "index.docker.io") == 0 || strcasecmp(r->host, "registry-1.docker.io") == 0)
		strcpy(r->host, "docker.io");
	*rest = slash + 1;
	return 0;
}

static int take_path(struct registry_ref *r, const char *rest, const char *text, struct err *err)
{
	bool official = strcmp(r->host, "docker.io") == 0 && !strchr(rest, '/');
	const char *prefix = official ? "library/" : "";
	if (strlen(prefix) + strlen(rest) >= sizeof(r->path))
		return bad(text, "the name is longer than 255 characters", err);
	if (!path_ok(rest))
		return bad(
			text,
			"want lower-case letters, digits and single separators ('.', '_', '__', '-') between "
			"slashes",
			err);
	if (official && strlen(rest) == 64 && strspn(rest, "0123456789abcdef") == 64)
		return bad(text, "is 64 hex digits: an image id, or a name? Write HOST/NAME or NAME@sha256:…",
		           err);
	strcat(strcpy(r->path, prefix), rest);
	return 0;
}

int registry_ref_parse(struct registry_ref *out, const char *text, struct err *err)
{
	struct registry_ref r = { 0 };
	char copy[REF_TEXT_BYTES];
	if (strlen(text) >= sizeof(copy))
		return bad(text, "is too long", err);
	strcpy(copy, text);
	char *rest = copy;
	for (const char *p = copy; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			return bad("(not shown)", "holds blanks, control or non-ASCII characters", err);
	if (strstr(copy, "://"))
		return bad(text, "is a URL; want HOST/PATH:TAG without a scheme", err);
	if (take_digest(&r, rest, text, err) || take_tag(&r, rest, text, err) ||
	    take_host(&r, &rest, text, err) || take_path(&r, rest, text, err))
		return -1;
	if (!r.tag[0] && !r.digest[0]) {
		strcpy(r.tag, "latest");
		r.tag_implied = true;
	}
	*out = r;
	return 0;
}

void registry_ref_text(const struct registry_ref *r, char out[REF_TEXT_BYTES])
{
	snprintf(out, REF_TEXT_BYTES, "%s/%s%s%s%s%s", r->host, r->path, r->tag[0] ? ":" : "", r->tag,
	         r->digest[0] ? "@" : "", r->digest);
}

const char *registry_ref_api_host(const struct registry_ref *r)
{
	return strcmp(r->host, "docker.io") == 0 ? "registry-1.docker.io" : r->host;
}
