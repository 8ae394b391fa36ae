/* SPDX-License-Identifier: Apache-2.0 */
/* mkbundle DIR OUT N_ROWS: a synthetic run directory and its bundle, signed with the TEST ONLY key. */
#include "synth.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct sign_key *key = NULL;
	struct seal_facts facts = synth_facts();
	if (argc != 4) {
		fputs("usage: mkbundle DIR OUT N_ROWS\n", stderr);
		return 2;
	}
	int rc = key_load_private(&key, SYNTH_KEY, NULL, &err);
	if (rc == 0)
		rc = synth_run_dir(argv[1], (unsigned)strtoul(argv[3], NULL, 10), &err);
	if (rc == 0)
		rc = bundle_seal(argv[1], argv[2], key, &facts, NULL, &err);
	if (rc)
		fprintf(stderr, "mkbundle: %s\n", err.msg);
	key_free(key);
	return rc ? 1 : 0;
}
