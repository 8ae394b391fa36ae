/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "cli/opt.h"
#include "cli/reports.h"

#include <stdio.h>
#include <string.h>

enum { O_KEY, O_PASSPHRASE, O_OUTPUT };

static const struct opt seal_opts[] = {
	[O_KEY] = { "key", 0, OPT_STR, "FILE", "private key (PEM)", NULL },
	[O_PASSPHRASE] = { "passphrase-file", 0, OPT_STR, "FILE", "file with the key's passphrase", NULL },
	[O_OUTPUT] = { "output", 'o', OPT_STR, "FILE", "bundle to write (default: DIR.proofmark)", NULL },
	{ 0 },
};

static char *bundle_name(const struct parsed *p)
{
	size_t len = strlen(p->args[0]);
	if (p->v[O_OUTPUT].given)
		return strdup(p->v[O_OUTPUT].str);
	while (len > 1 && p->args[0][len - 1] == '/')
		len--;
	return str_fmt("%.*s.proofmark", (int)len, p->args[0]);
}

static int run_seal(const struct parsed *p, struct err *err)
{
	struct sign_key *key = NULL;
	struct judged j;
	char root[65];
	auto_free char *passphrase = NULL, *out = bundle_name(p);
	if (!p->v[O_KEY].given)
		return err_set(err, ERR_USAGE,
		               "seal: needs --key FILE (make one with 'proofmark key new FILE')");
	if (passphrase_read(&passphrase, p->v[O_PASSPHRASE].str, err) ||
	    key_load_private(&key, p->v[O_KEY].str, passphrase, err))
		return -1;
	int rc = judged_load(&j, p->args[0], err);
	if (!rc) {
		rc = reports_write(&j, p->args[0], err);
		if (!rc)
			rc = seal_run(&j, p->args[0], out, key, root, err);
		if (!rc)
			printf("%s\nevidence root %s\nkey %s\nverdict %s\n", out, root, key_id(key),
			       verdict_words[j.verdict.run]);
		judged_done(&j);
	}
	key_free(key);
	return rc;
}

const struct command cmd_seal = {
	.name = "seal",
	.args = "DIR",
	.min_args = 1,
	.max_args = 1,
	.says = "sign a run directory into one file",
	.examples = "  proofmark seal runs/first --key site.key\n",
	.opts = seal_opts,
	.run = run_seal,
};
