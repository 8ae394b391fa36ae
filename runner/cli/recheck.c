/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/recheck.h"

#include "base/hash.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DERIVED_MAX 8
#define COMPARE_DEPTH_MAX 40

/* --- two JSON values --------------------------------------------------------------------------------------
 */

static bool same_number(double a, double b)
{
	bool whole = fabs(a) < 9007199254740992.0 && fabs(b) < 9007199254740992.0 && a >= floor(a) &&
	             a <= floor(a) && b >= floor(b) && b <= floor(b);
	double scale = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
	/* one unit of the last of 9 digits: where another machine's last bit tips the rounding */
	return whole ? !(a < b) && !(a > b) : fabs(a - b) <= 1.01e-8 * scale;
}

static bool differs(char where[300], const char *path, const struct cJSON *stated, const struct cJSON *found)
{
	char *s = stated ? cJSON_PrintUnformatted(stated) : NULL,
	     *f = found ? cJSON_PrintUnformatted(found) : NULL;
	snprintf(where, 300, "%.150s: the bundle states %.50s, recomputed %.50s", path, s ? s : "nothing",
	         f ? f : "nothing");
	cJSON_free(s);
	cJSON_free(f);
	return false;
}

struct comparison {
	bool sentences;
	size_t n;
	char *where;
};

static bool is_sentence(const char *key)
{
	static const char *const keys[] = { "reason",        "reasons",    "where",       "invalid_reason",
		                            "first_failure", "rule",       "error",       "not_ready",
		                            "self_declared", "not_tested", "differences", "missing" };
	for (size_t i = 0; key && i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

/* Worded by another version: only whether there is something to say. */
static bool same_presence(const struct cJSON *s, const struct cJSON *f)
{
	if (cJSON_IsArray(s) && cJSON_IsArray(f))
		return (s->child == NULL) == (f->child == NULL);
	return cJSON_IsNull(s) == cJSON_IsNull(f);
}

static bool same_at(const struct cJSON *s, const struct cJSON *f, const char *path, unsigned depth,
                    struct comparison *c);

static bool same_members(const struct cJSON *s, const struct cJSON *f, const char *path, unsigned depth,
                         struct comparison *c)
{
	const struct cJSON *a = s->child, *b = f->child;
	for (size_t i = 0; a && b; a = a->next, b = b->next, i++) {
		char at[200];
		if (a->string)
			snprintf(at, sizeof(at), "%.120s/%.60s", path, a->string);
		else
			snprintf(at, sizeof(at), "%.120s/%zu", path, i);
		if (a->string && (!b->string || strcmp(a->string, b->string) != 0))
			return differs(c->where, at, a, b);
		if (!c->sentences && is_sentence(a->string)) {
			if (!same_presence(a, b))
				return differs(c->where, at, a, b);
			continue;
		}
		if (!same_at(a, b, at, depth + 1, c))
			return false;
	}
	return a || b ? differs(c->where, path, a, b) : true;
}

static bool same_at(const struct cJSON *s, const struct cJSON *f, const char *path, unsigned depth,
                    struct comparison *c)
{
	if ((s->type & 0xff) != (f->type & 0xff) || depth > COMPARE_DEPTH_MAX)
		return differs(c->where, path, s, f);
	if (cJSON_IsObject(s) || cJSON_IsArray(s))
		return same_members(s, f, path, depth, c);
	c->n++;
	if (cJSON_IsNumber(s) && !same_number(s->valuedouble, f->valuedouble))
		return differs(c->where, path, s, f);
	if (cJSON_IsString(s) && strcmp(s->valuestring, f->valuestring) != 0)
		return differs(c->where, path, s, f);
	return true;
}

bool json_same(const struct cJSON *stated, const struct cJSON *found, bool sentences, size_t *n,
               char where[300])
{
	struct comparison c = { .sentences = sentences, .where = where };
	where[0] = '\0';
	bool same = same_at(stated, found, "", 0, &c);
	*n += c.n;
	return same;
}

/* --- the bundle -------------------------------------------------------------------------------------------
 */

static void add_not_checked(struct recheck *r, const char *what)
{
	size_t used = strlen(r->not_checked);
	snprintf(r->not_checked + used, sizeof(r->not_checked) - used, "%s%s", used ? ", " : "", what);
}

static int compare_verdict(struct recheck *r, const struct buf *found, bool same_version, struct err *err)
{
	const struct member *m = member_find(&r->judged.members, "verdict.json");
	auto_json stated = NULL;
	auto_json again = NULL;
	char where[300];
	if (!m)
		return err_set(err, ERR_NOT_GENUINE, "verdict.json: not in the bundle");
	r->verdict_bytes_equal = m->len == found->len && memcmp(m->data, found->p, m->len) == 0;
	if (json_parse(&stated, (const char *)m->data, m->len, "verdict.json", JSON_STRICT, NULL, err)) {
		err->cls = ERR_NOT_GENUINE;
		return -1;
	}
	if (json_parse(&again, found->p, found->len, "recomputed verdict", JSON_STRICT, NULL, err))
		return -1;
	if (!json_same(stated, again, same_version, &r->n_compared, where))
		return err_set(err, ERR_NOT_GENUINE, "verdict.json%s", where);
	if (!same_version)
		add_not_checked(r, "sentences of verdict.json");
	return 0;
}

/* HTML, JUnit and text: byte for byte when this version rendered them, else said to be not checked. */
static int compare_derived(struct recheck *r, const struct buf *texts, bool same_version, struct err *err)
{
	for (size_t i = 0; report_kinds[i].file; i++) {
		const struct member *m = member_find(&r->judged.members, report_kinds[i].file);
		if (!m || strcmp(report_kinds[i].file, "verdict.json") == 0)
			continue;
		if (m->len == texts[i].len && memcmp(m->data, texts[i].p, m->len) == 0)
			r->n_derived_equal++;
		else if (same_version)
			return err_set(err, ERR_NOT_GENUINE, "%s: is not what these records give",
			               report_kinds[i].file);
		else
			add_not_checked(r, report_kinds[i].file);
	}
	return 0;
}

static int same_text(const struct cJSON *predicate, const char *key, const char *found, struct err *err)
{
	const char *stated = json_str(predicate, key);
	if ((!stated && !found) || (stated && found && strcmp(stated, found) == 0))
		return 0;
	return err_set(err, ERR_NOT_GENUINE, "signed statement: %s is %.80s, the records say %.80s", key,
	               stated ? stated : "absent", found ? found : "nothing");
}

static int same_digest(const struct recheck *r, const struct cJSON *predicate, const char *key,
                       const char *name, struct err *err)
{
	const struct member *m = member_find(&r->judged.members, name);
	char hex[65];
	if (!m)
		return 0;
	sha256_hex_of(m->data, m->len, hex);
	return same_text(predicate, key, hex, err);
}

static int compare_statement(const struct recheck *r, const struct cJSON *statement, struct err *err)
{
	const struct cJSON *p = json_get(statement, "predicate");
	const struct evidence *ev = &r->judged.ev;
	if (same_text(p, "verdict", verdict_words[r->judged.verdict.run], err) ||
	    same_text(p, "run_id", ev->run_id[0] ? ev->run_id : NULL, err) ||
	    same_text(p, "candidate", ev->candidate[0] ? ev->candidate : NULL, err) ||
	    same_text(p, "challenge", ev->plan->challenge, err) ||
	    same_digest(r, p, "plan_sha256", "plan.json", err) ||
	    same_digest(r, p, "lock_sha256", "plan.lock.json", err) ||
	    same_digest(r, p, "verdict_sha256", "verdict.json", err))
		return -1;
	return 0;
}

static int rules_known(const struct cJSON *statement, struct err *err)
{
	uint64_t rules = 0;
	if (json_u64(json_get(statement, "predicate"), "rules", &rules) && rules == RULES_CURRENT)
		return 0;
	return err_set(
		err, ERR_RECOMPUTE,
		"genuine, but its statistics rule set %llu is not known here; verify with a newer proofmark",
		(unsigned long long)rules);
}

static int judge(struct judged *j, const struct member_set *members, struct err *err)
{
	j->members = *members;
	if (evidence_load(&j->ev, &j->members, err) == 0) {
		if (evidence_root_of(j->ev.evidence_root, &j->members, err) == 0 &&
		    verdict_compute(&j->verdict, &j->ev, err) == 0)
			return 0;
		evidence_done(&j->ev);
	}
	err->cls = ERR_RECOMPUTE;
	return err_wrap(err, "genuine, but cannot be recomputed here");
}

int recheck_bundle(struct recheck *out, const struct bundle *b, const struct bundle_proof *proof,
                   struct err *err)
{
	struct recheck r = { 0 };
	struct buf texts[DERIVED_MAX] = { 0 };
	if (rules_known(proof->statement, err) || judge(&r.judged, bundle_members(b), err))
		return -1;
	bool same_version = strcmp(r.judged.ev.version, PROOFMARK_VERSION) == 0;
	int rc = report_render_all(texts, &r.judged.verdict, err);
	for (size_t i = 0; !rc && report_kinds[i].file; i++)
		if (strcmp(report_kinds[i].file, "verdict.json") == 0)
			rc = compare_verdict(&r, &texts[i], same_version, err);
	if (!rc)
		rc = compare_statement(&r, proof->statement, err);
	if (!rc)
		rc = compare_derived(&r, texts, same_version, err);
	for (size_t i = 0; i < DERIVED_MAX; i++)
		buf_done(&texts[i]);
	if (rc)
		recheck_done(&r);
	else
		*out = r;
	return rc;
}

void recheck_done(struct recheck *r)
{
	verdict_done(&r->judged.verdict);
	evidence_done(&r->judged.ev);
}
