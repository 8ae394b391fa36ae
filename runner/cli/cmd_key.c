/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"
#include "cli/reports.h"
#include "store/sign.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_PASSPHRASE_FILE, OPT_TEST_ONLY };
static const struct opt opts[] = {
	[OPT_PASSPHRASE_FILE] = { "passphrase-file", 0, OPT_STR, "FILE",
	                          "first line protects the key (or PROOFMARK_KEY_PASSPHRASE)", NULL },
	[OPT_TEST_ONLY] = { "test-only", 0, OPT_FLAG, NULL, "mark the key so that verify refuses it", NULL },
	{ 0 },
};

static int show_key(const struct sign_key *k)
{
	auto_buf pem = BUF_INIT(4096);
	if (key_public_pem(&pem, k))
		return 70;
	printf("keyid      %s\nalgorithm  %s\n", key_id(k), key_algorithm(k));
	if (key_is_test(k))
		printf("note       TEST ONLY key\n");
	fputs(pem.p, stdout);
	return 0;
}

static int load_any(struct sign_key **out, const char *path, const char *passphrase, struct err *err)
{
	struct err first;
	if (key_load_public(out, path, &first) == 0)
		return 0;
	if (key_load_private(out, path, passphrase, err) == 0)
		return 0;
	if (!strstr(first.msg, "holds a private key"))
		*err = first;
	return -1;
}

static int key_new_here(const char *path, const char *passphrase, bool test_only, struct err *err)
{
	struct sign_key *k = NULL;
	if (key_new(path, passphrase, test_only, err) || key_load_private(&k, path, passphrase, err))
		return -1;
	printf("%s       private, keep it\n%s.pub   give this one away\nkeyid  %s\n", path, path, key_id(k));
	key_free(k);
	return 0;
}

static int run_key(const struct parsed *p, struct err *err)
{
	const char *verb = p->args[0], *path = p->args[1];
	bool is_new = strcmp(verb, "new") == 0;
	if (!is_new && strcmp(verb, "show") != 0)
		return err_set(err, ERR_USAGE, "key: want \"new\" or \"show\", got \"%s\"", verb);
	auto_free char *passphrase = NULL;
	if (passphrase_read(&passphrase, p->v[OPT_PASSPHRASE_FILE].str, err))
		return -1;
	int code;
	if (is_new) {
		code = key_new_here(path, passphrase, p->v[OPT_TEST_ONLY].given, err);
	} else {
		struct sign_key *k = NULL;
		code = load_any(&k, path, passphrase, err);
		if (code == 0)
			code = show_key(k);
		key_free(k);
	}
	if (passphrase)
		OPENSSL_cleanse(passphrase, strlen(passphrase));
	return code;
}

const struct command cmd_key = {
	.name = "key",
	.args = "new|show PATH",
	.min_args = 2,
	.max_args = 2,
	.says = "make a signing key, or show one",
	.examples = "  proofmark key new acceptance.key --passphrase-file pass.txt\n"
		    "  proofmark key show acceptance.key.pub\n",
	.opts = opts,
	.run = run_key,
};
