/* SPDX-License-Identifier: Apache-2.0 */
#include "store/statement.h"

#include "base/json_in.h"
#include "base/json_out.h"

#include <string.h>

/* Files that the predicate names by digest. */
static const struct {
	const char *key, *name;
} bound_files[] = {
	{ "lock_sha256", "plan.lock.json" },
	{ "plan_sha256", "plan.json" },
	{ "verdict_sha256", "verdict.json" },
};

/* What only the machine that ran says: nothing in the bundle can prove it. */
static const char *const self_declared[] = {
	"attempt", "binary_sha256", "candidate", "finished", "previous_attempt_sha256",
	"run_id",  "started",       "version"
};

/* Digest of the file `name` in the run directory, NULL = not in the bundle. */
static const char *digest_of(const struct manifest *m, const char *name)
{
	char raw_name[USTAR_NAME_BYTES_MAX + 1];
	for (size_t i = 0; i < m->n; i++) {
		manifest_raw_name(raw_name, &m->list[i]);
		if (strcmp(raw_name, name) == 0)
			return m->list[i].raw_sha256;
	}
	return NULL;
}

static void write_subject(struct json_out *o, const char *role, const char *name, const char *sha256)
{
	if (!sha256)
		return;
	jo_obj(o, NULL);
	jo_obj(o, "annotations");
	jo_str(o, "role", role);
	jo_end(o);
	jo_obj(o, "digest");
	jo_str(o, "sha256", sha256);
	jo_end(o);
	jo_str(o, "name", name ? name : role);
	jo_end(o);
}

static void write_predicate(struct json_out *o, const struct seal_facts *f, const struct manifest *m)
{
	jo_obj(o, "predicate");
	jo_u64(o, "attempt", f->attempt);
	jo_str(o, "binary_sha256", f->binary_sha256);
	jo_str(o, "candidate", f->candidate);
	jo_str(o, "challenge", f->challenge);
	jo_str(o, "evidence_root", m->evidence_root);
	jo_str(o, "finished", f->finished);
	jo_str(o, "lock_sha256", digest_of(m, "plan.lock.json"));
	jo_str(o, "plan_sha256", digest_of(m, "plan.json"));
	jo_str(o, "previous_attempt_sha256", f->previous_attempt_sha256);
	jo_u64(o, "rules", f->rules);
	jo_str(o, "run_id", f->run_id);
	jo_arr(o, "self_declared");
	for (size_t i = 0; i < ARRAY_LEN(self_declared); i++)
		jo_str(o, NULL, self_declared[i]);
	jo_end_arr(o);
	jo_str(o, "started", f->started);
	jo_str(o, "verdict", f->verdict);
	jo_str(o, "verdict_sha256", digest_of(m, "verdict.json"));
	jo_str(o, "version", f->version);
	jo_end(o);
}

int statement_write(struct buf *out, const struct seal_facts *f, const struct manifest *m,
                    const char manifest_sha256[SHA256_HEX_BYTES])
{
	struct json_out o;
	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "_type", STATEMENT_TYPE);
	write_predicate(&o, f, m);
	jo_str(&o, "predicateType", STATEMENT_PREDICATE_TYPE);
	jo_arr(&o, "subject");
	write_subject(&o, "manifest", "manifest.json", manifest_sha256);
	write_subject(&o, "evidence-root", "evidence-root", m->evidence_root);
	write_subject(&o, "model", f->model_name, f->model_sha256);
	write_subject(&o, "image", f->image_name, f->image_sha256);
	write_subject(&o, "machine", f->machine_name, f->machine_sha256);
	jo_end_arr(&o);
	jo_end(&o);
	return out->failed ? -1 : 0;
}

/* The digest of the one subject with this role, NULL when there is none or more than one. */
static const char *subject_of(const struct cJSON *doc, const char *role)
{
	const struct cJSON *s;
	const char *found = NULL;
	size_t n = 0;
	cJSON_ArrayForEach(s, json_get(doc, "subject"))
	{
		const char *got = json_str(json_get(s, "annotations"), "role");
		if (!got || strcmp(got, role) != 0)
			continue;
		found = json_str(json_get(s, "digest"), "sha256");
		n++;
	}
	return n == 1 && found && sha256_hex_ok(found) ? found : NULL;
}

static bool says(const struct cJSON *doc, const char *key, const char *want)
{
	const char *got = json_str(doc, key);
	return got && strcmp(got, want) == 0;
}

int statement_read(struct cJSON **out, char manifest_sha256[SHA256_HEX_BYTES],
                   char evidence_root[SHA256_HEX_BYTES], const char *text, size_t len, struct err *err)
{
	auto_json doc = NULL;
	if (json_parse(&doc, text, len, "statement", JSON_STRICT, NULL, err)) {
		err->cls = ERR_NOT_GENUINE;
		return -1;
	}
	if (!says(doc, "_type", STATEMENT_TYPE))
		return err_set(err, ERR_NOT_GENUINE, "statement: _type is not " STATEMENT_TYPE);
	if (!says(doc, "predicateType", STATEMENT_PREDICATE_TYPE))
		return err_set(err, ERR_NOT_GENUINE,
		               "statement: predicateType is not " STATEMENT_PREDICATE_TYPE
		               " (is it the envelope of something else?)");
	if (!cJSON_IsObject(json_get(doc, "predicate")) || !cJSON_IsArray(json_get(doc, "subject")))
		return err_set(err, ERR_NOT_GENUINE, "statement: wants subject and predicate");
	const char *manifest = subject_of(doc, "manifest"), *root = subject_of(doc, "evidence-root");
	if (!manifest || !root)
		return err_set(err, ERR_NOT_GENUINE,
		               "statement: wants one subject manifest and one evidence-root with a sha256");
	memcpy(manifest_sha256, manifest, SHA256_HEX_BYTES);
	memcpy(evidence_root, root, SHA256_HEX_BYTES);
	*out = steal_ptr(&doc);
	return 0;
}

int statement_check(const struct cJSON *statement, const struct manifest *m, struct err *err)
{
	const struct cJSON *p = json_get(statement, "predicate");
	for (size_t i = 0; i < ARRAY_LEN(bound_files); i++) {
		const char *signed_one = json_str(p, bound_files[i].key);
		const char *listed = digest_of(m, bound_files[i].name);
		if (!signed_one != !listed || (listed && strcmp(signed_one, listed) != 0))
			return err_set(err, ERR_NOT_GENUINE,
			               "statement: %s is not that of the %s in the bundle",
			               bound_files[i].key, bound_files[i].name);
	}
	if (!says(p, "evidence_root", m->evidence_root))
		return err_set(err, ERR_NOT_GENUINE, "statement: evidence_root is not the manifest's");
	return 0;
}
