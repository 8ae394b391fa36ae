/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reports.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "report/report.h"
#include "store/bundle.h"
#include "store/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define N_KINDS_MAX 8

int judged_load(struct judged *out, const char *run_dir, struct err *err)
{
	*out = (struct judged){ 0 };
	if (rundir_load(&out->members, run_dir, err))
		return -1;
	if (evidence_load(&out->ev, &out->members, err)) {
		member_set_done(&out->members);
		return err_wrap(err, "%s", run_dir);
	}
	if (evidence_root_of(out->ev.evidence_root, &out->members, err) ||
	    verdict_compute(&out->verdict, &out->ev, err)) {
		evidence_done(&out->ev);
		member_set_done(&out->members);
		return err_wrap(err, "%s", run_dir);
	}
	return 0;
}

void judged_done(struct judged *j)
{
	verdict_done(&j->verdict);
	evidence_done(&j->ev);
	member_set_done(&j->members);
}

int reports_write(const struct judged *j, const char *run_dir, struct err *err)
{
	struct buf texts[N_KINDS_MAX] = { 0 };
	auto_fd dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", run_dir);
	int rc = report_render_all(texts, &j->verdict, err);
	for (size_t i = 0; !rc && report_kinds[i].file; i++)
		rc = fs_write_at(dir, report_kinds[i].file, texts[i].p, texts[i].len, false, err);
	for (size_t i = 0; i < N_KINDS_MAX; i++)
		buf_done(&texts[i]);
	return rc;
}

static void machine_digest(const struct evidence *ev, char hex[65])
{
	auto_buf b = BUF_INIT(16u << 20);
	struct json_out o;
	hex[0] = '\0';
	if (!json_get(ev->facts, "host"))
		return;
	jo_init(&o, &b, 0);
	jo_tree(&o, NULL, json_get(ev->facts, "host"));
	if (!b.failed)
		sha256_hex_of(b.p, b.len, hex);
}

/* Over the model files' digests in plan order, as text lines "sha256  path". */
static void model_digest(const struct plan *p, char hex[65])
{
	auto_buf b = BUF_INIT(16u << 20);
	hex[0] = '\0';
	for (size_t i = 0; i < p->model.n_files; i++)
		buf_addf(&b, "%s  %s\n", p->model.files[i].sha256 ? p->model.files[i].sha256 : "",
		         p->model.files[i].path);
	if (b.len && !b.failed)
		sha256_hex_of(b.p, b.len, hex);
}

int seal_run(const struct judged *j, const char *run_dir, const char *out_path, const struct sign_key *key,
             char evidence_root[65], struct err *err)
{
	const struct evidence *ev = &j->ev;
	char model[65], machine[65], binary[65];
	model_digest(ev->plan, model);
	machine_digest(ev, machine);
	own_binary_sha256(binary);
	struct seal_facts facts = {
		.run_id = ev->run_id[0] ? ev->run_id : NULL,
		.started = ev->wall[0] ? ev->wall : NULL,
		.candidate = ev->candidate[0] ? ev->candidate : NULL,
		.verdict = verdict_words[j->verdict.run],
		.challenge = ev->plan->challenge,
		.previous_attempt_sha256 =
			ev->previous_attempt_sha256[0] ? ev->previous_attempt_sha256 : NULL,
		.rules = ev->plan->rules,
		.attempt = ev->attempt,
		.version = PROOFMARK_VERSION,
		.binary_sha256 = binary[0] ? binary : NULL,
		.model_name = ev->plan->model.id,
		.model_sha256 = model[0] ? model : NULL,
		.machine_name = ev->candidate[0] ? ev->candidate : NULL,
		.machine_sha256 = machine[0] ? machine : NULL,
	};
	char finished[RFC3339_BYTES];
	int64_t wall_ns;
	if (ev->wall[0] && clock_parse_rfc3339(ev->wall, &wall_ns) == 0) {
		clock_rfc3339(wall_ns + (int64_t)ev->end_ns, finished);
		facts.finished = finished;
	}
	return bundle_seal(run_dir, out_path, key, &facts, evidence_root, err);
}

int passphrase_read(char **out, const char *file, struct err *err)
{
	const char *env = getenv("PROOFMARK_KEY_PASSPHRASE");
	auto_buf b = BUF_INIT(4096);
	if (!file) {
		*out = env ? strdup(env) : NULL;
		return 0;
	}
	if (fs_read(&b, file, 4096, err))
		return -1;
	b.p[strcspn(b.p, "\r\n")] = '\0';
	*out = buf_steal(&b);
	return 0;
}

static void figure_out(struct json_out *o, const char *key, const struct figure *f)
{
	if (f->known)
		jo_num(o, key, f->value);
	else
		jo_null(o, key);
}

void print_result_json(const struct verdict *v, const char *run_dir, const char *bundle)
{
	auto_buf b = BUF_INIT(16u << 20);
	struct json_out o;
	jo_init(&o, &b, 1);
	jo_obj(&o, NULL);
	jo_str(&o, "verdict", verdict_words[v->run]);
	jo_str(&o, "bundle", bundle);
	jo_str(&o, "run_dir", run_dir);
	jo_arr(&o, "criteria");
	for (size_t i = 0; i < v->n_criteria; i++) {
		const struct crit_result *c = &v->criteria[i];
		jo_obj(&o, NULL);
		jo_str(&o, "id", c->crit->id);
		jo_str(&o, "state", state_words[c->state]);
		figure_out(&o, "value", &c->value);
		jo_str(&o, "unit", c->value.unit ? c->value.unit : c->limit.unit);
		jo_u64(&o, "n", c->n);
		figure_out(&o, "limit", &c->limit);
		jo_end(&o);
	}
	jo_end_arr(&o);
	jo_end(&o);
	fputs(b.p ? b.p : "{}\n", stdout);
}
