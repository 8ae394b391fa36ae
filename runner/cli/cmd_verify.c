/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "cli/opt.h"
#include "cli/recheck.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { O_KEY, O_TEST_KEY, O_PLAN, O_CHALLENGE, O_MAX_AGE, O_REQUIRE, O_UNPACK, O_JSON };

static const char *const require_words[] = { "accepted", NULL };

static const struct opt verify_opts[] = {
	[O_KEY] = { "key", 0, OPT_MULTI, "FILE", "public key of the signer; one of several is enough", NULL },
	[O_TEST_KEY] = { "allow-test-key", 0, OPT_FLAG, NULL, "let a TEST ONLY key count", NULL },
	[O_PLAN] = { "plan", 0, OPT_STR, "FILE", "the bundle must hold exactly this plan", NULL },
	[O_CHALLENGE] = { "challenge", 0, OPT_STR, "TEXT", "the plan must carry this challenge of yours",
	                  NULL },
	[O_MAX_AGE] = { "max-age", 0, OPT_STR, "AGE", "the run ended at most this long ago: 30d, 12h", NULL },
	[O_REQUIRE] = { "require", 0, OPT_CHOICE, "VERDICT", "exit with the verdict's code instead",
	                require_words },
	[O_UNPACK] = { "unpack", 0, OPT_STR, "DIR", "then unpack the run directory here", NULL },
	[O_JSON] = { "json", 0, OPT_FLAG, NULL, "print the result as JSON", NULL },
	{ 0 },
};

struct keys {
	size_t n;
	struct sign_key *list[32];
};

static void keys_done(struct keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		key_free(k->list[i]);
}

static int keys_load(struct keys *k, const struct opt_value *v, struct err *err)
{
	if (!v->n)
		return err_set(err, ERR_USAGE,
		               "verify: needs --key FILE, the signer's public key from a source you trust "
		               "(never from the bundle)");
	for (; k->n < v->n; k->n++)
		if (key_load_public(&k->list[k->n], v->list[k->n], err))
			return -1;
	return 0;
}

/* "30d" "12h" "90m" "45s" -> ns; 0 = malformed. */
static int64_t age_ns(const char *text)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	uint64_t unit_s = *end == 'd' ? 86400 : *end == 'h' ? 3600 : *end == 'm' ? 60 : *end == 's' ? 1 : 0;
	bool ok = text[0] >= '0' && text[0] <= '9' && !errno && unit_s && !end[1] && n > 0 && n < 100000000;
	return ok ? (int64_t)(n * unit_s * NS_PER_S) : 0;
}

static int check_age(const char *text, const struct cJSON *statement, struct err *err)
{
	const char *finished = json_str(json_get(statement, "predicate"), "finished");
	int64_t then, limit = age_ns(text), now = clock_wall_ns();
	if (!limit)
		return err_set(err, ERR_USAGE, "--max-age %s: want a number and d, h, m or s (30d)", text);
	if (!finished || clock_parse_rfc3339(finished, &then))
		return err_set(err, ERR_NOT_GENUINE,
		               "--max-age: the statement does not say when the run ended");
	if (then > now + (int64_t)NS_PER_S * 300)
		return err_set(err, ERR_NOT_GENUINE, "--max-age: the run claims to end in the future, at %s",
		               finished);
	if (now - then > limit)
		return err_set(err, ERR_NOT_GENUINE, "--max-age %s: the run ended at %s, too long ago", text,
		               finished);
	return 0;
}

static int check_plan(const char *path, const struct evidence *ev, struct err *err)
{
	char hex[65];
	if (sha256_file(hex, NULL, path, err))
		return -1;
	if (strcmp(hex, ev->plan->sha256) != 0)
		return err_set(err, ERR_NOT_GENUINE,
		               "--plan %s: is %.16s…, the bundle was run by plan %.16s…", path, hex,
		               ev->plan->sha256);
	return 0;
}

static int check_wishes(const struct parsed *p, const struct bundle_proof *proof, const struct recheck *r,
                        struct err *err)
{
	const struct evidence *ev = &r->judged.ev;
	if (p->v[O_PLAN].given && check_plan(p->v[O_PLAN].str, ev, err))
		return -1;
	if (p->v[O_CHALLENGE].given &&
	    (!ev->plan->challenge || strcmp(ev->plan->challenge, p->v[O_CHALLENGE].str) != 0))
		return err_set(err, ERR_NOT_GENUINE, "--challenge: the plan carries %s challenge",
		               ev->plan->challenge ? "another" : "no");
	return p->v[O_MAX_AGE].given ? check_age(p->v[O_MAX_AGE].str, proof->statement, err) : 0;
}

static const char *const self_declared[] = {
	"when the plan was frozen: only a time stamp from outside proves it was before the load",
	"the attempt number and the attempt before: numbered and chained, but by the machine itself",
	"start and end times, and every fact about the machine: read by the machine itself",
	"what the engine says of itself beyond the files that were hashed",
};

static void print_text(const struct bundle_proof *proof, const struct recheck *r)
{
	const struct verdict *v = &r->judged.verdict;
	const struct evidence *ev = &r->judged.ev;
	const struct cJSON *pred = json_get(proof->statement, "predicate");
	printf("signature    genuine, key %s%s\n", proof->keyid, proof->test_key ? " (TEST ONLY key)" : "");
	printf("members      %llu, all as listed; evidence root %s\n", (unsigned long long)proof->n_members,
	       proof->evidence_root);
	printf("plan         %s, %s\n", ev->plan->id, ev->plan->sha256);
	printf("candidate    %s\n", ev->candidate);
	printf("run          %s, %s to %s, attempt %llu\n", ev->run_id, ev->wall,
	       json_str(pred, "finished") ? json_str(pred, "finished") : "unknown",
	       (unsigned long long)ev->attempt);
	printf("recomputed   %zu values from %zu requests; all agree with verdict.json\n", r->n_compared,
	       ev->n_records);
	if (r->not_checked[0])
		printf("not checked  %s: rendered by version %s, this is %s\n", r->not_checked, ev->version,
		       PROOFMARK_VERSION);
	for (size_t i = 0; i < v->n_criteria; i++)
		printf("%-12s %s: %s\n", state_words[v->criteria[i].state], v->criteria[i].crit->id,
		       v->criteria[i].reason);
	for (size_t i = 0; i < ARRAY_LEN(self_declared); i++)
		printf("%s %s\n", i ? "            " : "self-declared", self_declared[i]);
	printf("verdict      %s\n", verdict_words[v->run]);
}

static void print_json(const struct bundle_proof *proof, const struct recheck *r)
{
	auto_buf b = BUF_INIT(1u << 20);
	struct json_out o;
	jo_init(&o, &b, 1);
	jo_obj(&o, NULL);
	jo_bool(&o, "genuine", true);
	jo_str(&o, "verdict", verdict_words[r->judged.verdict.run]);
	jo_str(&o, "keyid", proof->keyid);
	jo_bool(&o, "test_key", proof->test_key);
	jo_str(&o, "evidence_root", proof->evidence_root);
	jo_str(&o, "bundle_sha256", proof->bundle_sha256);
	jo_str(&o, "plan_sha256", r->judged.ev.plan->sha256);
	jo_u64(&o, "values_compared", r->n_compared);
	jo_u64(&o, "requests", r->judged.ev.n_records);
	jo_str(&o, "not_checked", r->not_checked[0] ? r->not_checked : NULL);
	jo_arr(&o, "self_declared");
	for (size_t i = 0; i < ARRAY_LEN(self_declared); i++)
		jo_str(&o, NULL, self_declared[i]);
	jo_end_arr(&o);
	jo_end(&o);
	fputs(b.p, stdout);
}

static int verify_opened(const struct parsed *p, const struct bundle *b, const struct bundle_proof *proof,
                         struct err *err)
{
	struct recheck r;
	if (proof->test_key && !p->v[O_TEST_KEY].given)
		return err_set(err, ERR_NOT_GENUINE,
		               "signed with a TEST ONLY key, which proves nothing; --allow-test-key to look "
		               "at it all the same");
	if (recheck_bundle(&r, b, proof, err))
		return -1;
	int rc = check_wishes(p, proof, &r, err);
	if (!rc && p->v[O_UNPACK].given)
		rc = bundle_unpack(b, p->v[O_UNPACK].str, err);
	if (!rc && p->v[O_JSON].given)
		print_json(proof, &r);
	else if (!rc)
		print_text(proof, &r);
	int code = p->v[O_REQUIRE].given ? verdict_exit_code(r.judged.verdict.run) : 0;
	recheck_done(&r);
	return rc ? -1 : code;
}

static int run_verify(const struct parsed *p, struct err *err)
{
	struct keys keys = { 0 };
	struct bundle *b = NULL;
	struct bundle_proof proof;
	int rc = keys_load(&keys, &p->v[O_KEY], err);
	if (!rc)
		rc = bundle_open(&b, &proof, p->args[0], (const struct sign_key *const *)keys.list, keys.n,
		                 err);
	if (!rc) {
		rc = verify_opened(p, b, &proof, err);
		if (rc < 0)
			err_wrap(err, "%s", p->args[0]);
		bundle_close(b);
	}
	keys_done(&keys);
	return rc;
}

const struct command cmd_verify = {
	.name = "verify",
	.args = "BUNDLE",
	.min_args = 1,
	.max_args = 1,
	.says = "check signature and hashes, recompute every verdict",
	.examples = "  proofmark verify pilot.proofmark --key vendor.pub\n"
		    "  proofmark verify pilot.proofmark --key vendor.pub --plan my-plan.json \\\n"
		    "            --max-age 30d --require accepted\n",
	.opts = verify_opts,
	.run = run_verify,
};
