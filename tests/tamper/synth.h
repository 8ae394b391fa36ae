/* SPDX-License-Identifier: Apache-2.0 */
/* A small synthetic run directory, and facts to seal it with: enough for the store, not a run. */
#ifndef TESTS_TAMPER_SYNTH_H
#define TESTS_TAMPER_SYNTH_H

#include "base/clock.h"
#include "store/bundle.h"
#include "store/rundir.h"

#include <stdio.h>
#include <string.h>

#define SYNTH_KEY "fixtures/keys/rfc8032-1-test-only.key"
#define SYNTH_OTHER_KEY "fixtures/keys/other-test-only.key"

static inline struct seal_facts synth_facts(void)
{
	return (struct seal_facts){
		.run_id = "00000000-0000-4000-8000-000000000001",
		.started = "2026-01-02T03:04:05.000Z",
		.finished = "2026-01-02T03:09:05.000Z",
		.candidate = "cpu",
		.verdict = "inconclusive",
		.challenge = NULL,
		.rules = 1,
		.attempt = 1,
		.version = "0.1.0",
		.model_name = "some-model",
		.model_sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
}

/* `n_rows` requests; from about 4000 on requests.jsonl is over 1 MiB and gets packed. 0, or -1 with err. */
static inline int synth_run_dir(const char *path, unsigned n_rows, struct err *err)
{
	struct rundir *d = NULL;
	static const char plan[] = "{\"schema_version\":1,\"plan\":{\"id\":\"synthetic\"}}\n";
	static const char verdict[] = "{\"verdict\":\"inconclusive\"}\n";
	if (rundir_create(&d, path, clock_now_ns(), err))
		return -1;
	int rc = rundir_write(d, "plan.json", plan, sizeof(plan) - 1, err);
	rc = rc ? rc : rundir_write(d, "plan.lock.json", "{\"rules\":1}\n", 12, err);
	rc = rc ? rc : rundir_write(d, "facts.json", "{}\n", 3, err);
	rc = rc ? rc : rundir_write(d, "verdict.json", verdict, sizeof(verdict) - 1, err);
	for (unsigned n = 0; n < n_rows && rc == 0; n++) {
		struct record r;
		uint8_t tokens[32];
		size_t len = 0;
		record_init(&r);
		snprintf(r.cell, sizeof(r.cell), "chat/32in/16out/c1");
		r.due_ns = r.sent_ns = n * 1000ull;
		r.tok_n = 3;
		for (unsigned t = 0; t < 3; t++)
			len += leb128_put(tokens + len, n * 31ull + t);
		rc = rundir_record(d, &r, tokens, len);
	}
	rundir_close(d);
	return rc;
}

#endif
