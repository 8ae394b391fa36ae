/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of commits and tags. The SSH form is openssh's PROTOCOL.sshsig; only Ed25519 is verified. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/pubkey.h"
#include "pin/pin_git_parts.h"

#include <string.h>

#include <openssl/evp.h>

enum { KEY_BYTES = 32, SIG_BYTES = 64, ARMOR_BYTES_MAX = 64 << 10 };

#define SSH_BEGIN "-----BEGIN SSH SIGNATURE-----"
#define SSH_END "-----END SSH SIGNATURE-----"

static const struct {
	const char *begin;
	enum git_signature_kind kind;
} armors[] = {
	{ "-----BEGIN PGP SIGNATURE-----", GIT_SIG_GPG },
	{ "-----BEGIN PGP MESSAGE-----", GIT_SIG_GPG },
	{ SSH_BEGIN, GIT_SIG_SSH },
	{ "-----BEGIN SIGNED MESSAGE-----", GIT_SIG_X509 },
};

/* --- the wire form ------------------------------------------------------------------------------------- */

struct part {
	const uint8_t *p;
	size_t len;
};

static bool take_string(struct part *out, struct part *from)
{
	if (from->len < 4)
		return false;
	size_t n = (size_t)from->p[0] << 24 | (size_t)from->p[1] << 16 | (size_t)from->p[2] << 8 | from->p[3];
	if (n > from->len - 4)
		return false;
	*out = (struct part){ from->p + 4, n };
	from->p += 4 + n;
	from->len -= 4 + n;
	return true;
}

static bool is_text(struct part p, const char *text)
{
	return p.len == strlen(text) && memcmp(p.p, text, p.len) == 0;
}

/* "ssh-ed25519" and `len` bytes, and nothing behind: the form of keys and of signatures */
static bool ed25519_part(struct part *out, struct part from, size_t len)
{
	struct part kind;
	return take_string(&kind, &from) && is_text(kind, "ssh-ed25519") && take_string(out, &from) &&
	       out->len == len && from.len == 0;
}

static void add_string(struct buf *b, const void *data, size_t len)
{
	const char head[4] = { (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len };
	buf_add(b, head, sizeof(head));
	buf_add(b, data, len);
}

int git_ssh_key_parse(struct git_ssh_key *out, const char *line, struct err *err)
{
	static const char kind[] = "ssh-ed25519 ";
	struct part raw;
	line += strspn(line, " \t\r\n");
	if (strncmp(line, kind, sizeof(kind) - 1) != 0)
		return err_set(err, ERR_PLAN, "the key for SSH signatures: want \"ssh-ed25519 AAAA…\"");
	line += sizeof(kind) - 1;
	size_t len = 0;
	auto_free uint8_t *blob = base64_decode(line, strcspn(line, " \t\r\n"), false, &len);
	if (!blob || !ed25519_part(&raw, (struct part){ blob, len }, KEY_BYTES))
		return err_set(err, ERR_PLAN, "the key for SSH signatures is no Ed25519 key in base64");
	*out = (struct git_ssh_key){ steal_ptr(&blob), len };
	return 0;
}

/* --- verifying ----------------------------------------------------------------------------------------- */

/* The bytes between the armour's lines, decoded; NULL when damaged. */
static uint8_t *dearmor(const char *armor, size_t len, size_t *n_out)
{
	auto_buf b = BUF_INIT(ARMOR_BYTES_MAX);
	auto_free char *text = len <= ARMOR_BYTES_MAX ? strndup(armor, len) : NULL;
	char *p = text ? strstr(text, SSH_BEGIN) : NULL, *end = p ? strstr(p, SSH_END) : NULL;
	if (!end)
		return NULL;
	for (p += sizeof(SSH_BEGIN) - 1; p < end; p++)
		if (!strchr(" \t\r\n", *p))
			buf_addc(&b, *p);
	return b.failed || !b.p ? NULL : base64_decode(b.p, b.len, false, n_out);
}

static bool ed25519_good(struct part key, struct part sig, const void *data, size_t len)
{
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key.p, key.len);
	bool good = pkey && pubkey_verify(pkey, NULL, sig.p, sig.len, data, len);
	EVP_PKEY_free(pkey);
	return good;
}

/* What is signed: the magic, namespace, reserved, hash name, and the hash of the message. */
static bool signed_bytes(struct buf *out, struct part ns, struct part reserved, struct part hash,
                         const void *msg, size_t len)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	const EVP_MD *md = is_text(hash, "sha512")   ? EVP_sha512()
	                   : is_text(hash, "sha256") ? EVP_sha256()
	                                             : NULL;
	if (!md || !EVP_Digest(msg, len, digest, &n, md, NULL))
		return false;
	buf_add(out, "SSHSIG", 6);
	add_string(out, ns.p, ns.len);
	add_string(out, reserved.p, reserved.len);
	add_string(out, hash.p, hash.len);
	add_string(out, digest, n);
	return !out->failed;
}

/* NULL = good */
static const char *ssh_fault(const char *armor, size_t armor_len, const void *msg, size_t len,
                             const struct git_ssh_key *key)
{
	size_t n = 0;
	auto_buf data = BUF_INIT(4096);
	auto_free uint8_t *blob = dearmor(armor, armor_len, &n);
	struct part at = { blob, n }, pub, ns, reserved, hash, sig, raw_key, raw_sig;
	static const uint8_t head[] = { 'S', 'S', 'H', 'S', 'I', 'G', 0, 0, 0, 1 };
	if (!blob || n < sizeof(head) || memcmp(blob, head, sizeof(head)) != 0)
		return "the SSH signature is damaged";
	at.p += sizeof(head);
	at.len -= sizeof(head);
	if (!take_string(&pub, &at) || !take_string(&ns, &at) || !take_string(&reserved, &at) ||
	    !take_string(&hash, &at) || !take_string(&sig, &at) || at.len)
		return "the SSH signature is damaged";
	if (pub.len != key->len || memcmp(pub.p, key->blob, key->len) != 0)
		return "signed with another SSH key";
	if (!is_text(ns, "git"))
		return "the SSH signature was not made for git";
	if (!ed25519_part(&raw_key, pub, KEY_BYTES) || !ed25519_part(&raw_sig, sig, SIG_BYTES) ||
	    !signed_bytes(&data, ns, reserved, hash, msg, len))
		return "the SSH signature is of a form that is not known";
	return ed25519_good(raw_key, raw_sig, data.p, data.len)
	               ? NULL
	               : "the SSH signature is not over this content";
}

static void judge(struct git_signature_seen *out, const char *armor, size_t armor_len, const void *msg,
                  size_t len, const struct git_ssh_key *key)
{
	struct git_signature_seen seen = { GIT_SIG_OTHER, GIT_SIG_NOT_VERIFIED,
		                           "this kind is not verified here" };
	for (size_t i = 0; i < ARRAY_LEN(armors); i++)
		if (armor_len >= strlen(armors[i].begin) &&
		    memcmp(armor, armors[i].begin, strlen(armors[i].begin)) == 0)
			seen.kind = armors[i].kind;
	if (seen.kind == GIT_SIG_SSH && (!key || !key->blob))
		seen.why = "no key was given for SSH signatures";
	else if (seen.kind == GIT_SIG_SSH) {
		seen.why = ssh_fault(armor, armor_len, msg, len, key);
		seen.state = seen.why ? GIT_SIG_BAD : GIT_SIG_GOOD;
	}
	*out = seen;
}

void git_signature_commit(struct git_signature_seen *out, const struct git_store *s, const git_oid *commit,
                          const struct git_ssh_key *key)
{
	git_buf sig = { 0 }, data = { 0 };
	git_oid id = *commit;
	int rc = git_commit_extract_signature(&sig, &data, s->repo, &id, NULL);
	*out = (struct git_signature_seen){ 0 };
	if (rc == 0)
		judge(out, sig.ptr, sig.size, data.ptr, data.size, key);
	else if (rc != GIT_ENOTFOUND)
		*out = (struct git_signature_seen){ GIT_SIG_OTHER, GIT_SIG_NOT_VERIFIED, "it can't be read" };
	git_buf_dispose(&sig);
	git_buf_dispose(&data);
}

void git_signature_tag(struct git_signature_seen *out, const char *raw, size_t len,
                       const struct git_ssh_key *key)
{
	size_t last = len;
	*out = (struct git_signature_seen){ 0 };
	for (size_t at = 0; at < len;) {
		for (size_t i = 0; i < ARRAY_LEN(armors); i++)
			if (len - at >= strlen(armors[i].begin) &&
			    memcmp(raw + at, armors[i].begin, strlen(armors[i].begin)) == 0)
				last = at; /* the last one, as git does */
		const char *nl = memchr(raw + at, '\n', len - at);
		at = nl ? (size_t)(nl - raw) + 1 : len;
	}
	if (last < len)
		judge(out, raw + last, len - last, raw, last, key);
}
