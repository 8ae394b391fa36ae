/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "pin/oci.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static bool word_ok(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("_.-", p[i]))
			return false;
	return len > 0;
}

/* The part up to the next '/' into `out`; NULL when it is none or too long, else what is behind it. */
static const char *take_part(const char *text, char *out, size_t out_bytes)
{
	size_t len = strcspn(text, "/");
	if (!word_ok(text, len) || len >= out_bytes)
		return NULL;
	memcpy(out, text, len);
	out[len] = '\0';
	return text + len;
}

int oci_platform_parse(struct oci_platform *out, const char *text, struct err *err)
{
	struct oci_platform p = { 0 };
	const char *rest = take_part(text, p.os, sizeof(p.os));
	if (rest && *rest == '/')
		rest = take_part(rest + 1, p.architecture, sizeof(p.architecture));
	else
		rest = NULL;
	if (rest && *rest == '/')
		rest = take_part(rest + 1, p.variant, sizeof(p.variant));
	if (!rest || *rest)
		return err_set(err, ERR_PLAN,
		               "platform '%.80s': want os/architecture or os/architecture/variant", text);
	*out = p;
	return 0;
}

void oci_platform_here(struct oci_platform *out)
{
	struct utsname u;
	*out = (struct oci_platform){ .os = "linux" };
	if (uname(&u) == 0)
		snprintf(out->architecture, sizeof(out->architecture), "%.31s", u.machine);
	oci_platform_normal(out);
}

void oci_platform_text(const struct oci_platform *p, char out[OCI_PLATFORM_BYTES])
{
	snprintf(out, OCI_PLATFORM_BYTES, "%s/%s%s%s", p->os, p->architecture, p->variant[0] ? "/" : "",
	         p->variant);
}

static void lower(char *s)
{
	for (; *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

struct alias {
	const char *from, *from_variant, *to, *to_variant; /* from_variant NULL = any, kept */
};
static const struct alias aliases[] = {
	{ "x86_64", NULL, "amd64", NULL }, { "x86-64", NULL, "amd64", NULL },  { "i386", "", "386", "" },
	{ "i686", "", "386", "" },         { "aarch64", NULL, "arm64", NULL }, { "armhf", "", "arm", "v7" },
	{ "armv7l", "", "arm", "v7" },     { "armel", "", "arm", "v6" },       { "armv6l", "", "arm", "v6" },
	{ "arm64", "v8", "arm64", "" },    { "arm64", "8", "arm64", "" },      { "arm", "", "arm", "v7" },
	{ "arm", "7", "arm", "v7" },       { "arm", "6", "arm", "v6" },        { "arm", "5", "arm", "v5" },
	{ "amd64", "v1", "amd64", "" },
};

void oci_platform_normal(struct oci_platform *p)
{
	lower(p->os);
	lower(p->architecture);
	lower(p->variant);
	for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
		const struct alias *a = &aliases[i];
		if (strcmp(p->architecture, a->from) != 0 ||
		    (a->from_variant && strcmp(p->variant, a->from_variant) != 0))
			continue;
		snprintf(p->architecture, sizeof(p->architecture), "%s", a->to);
		if (a->to_variant)
			snprintf(p->variant, sizeof(p->variant), "%s", a->to_variant);
	}
}

bool oci_platform_same(const struct oci_platform *a, const struct oci_platform *b)
{
	struct oci_platform x = *a, y = *b;
	oci_platform_normal(&x);
	oci_platform_normal(&y);
	return strcmp(x.os, y.os) == 0 && strcmp(x.architecture, y.architecture) == 0 &&
	       strcmp(x.variant, y.variant) == 0;
}
