/* SPDX-License-Identifier: Apache-2.0 */
#include "store/key.h"

#include "base/fs.h"
#include "base/pubkey.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>

static const char test_marker[] = "proofmark TEST ONLY key";

/* Keys whose private half is published: the RFC 8032 test vectors 1 to 3. */
static const char *const well_known_test_keys[] = {
	"06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9",
	"deb2ded39dc26fce0e6085b6fc34bf6b5941913bbfe2ea614113cff9e004c170",
	"8d39ba50abe50f77b6bb8ae7b6927aff7ffbeba35ad2837c0e51e82bcbcc60d5",
};

static void free_bio(BIO **b)
{
	BIO_free_all(*b);
}
static void free_md_ctx(EVP_MD_CTX **c)
{
	EVP_MD_CTX_free(*c);
}
static void free_key(struct sign_key **k)
{
	key_free(*k);
}
#define auto_bio __attribute__((cleanup(free_bio))) BIO *
#define auto_md_ctx __attribute__((cleanup(free_md_ctx))) EVP_MD_CTX *
#define auto_key __attribute__((cleanup(free_key))) struct sign_key *

void key_free(struct sign_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	free(k);
}

const char *key_id(const struct sign_key *k)
{
	return k->id;
}

bool key_is_test(const struct sign_key *k)
{
	return k->is_test;
}

/* --- what a key is ---------------------------------------------------------------------------------------
 */

/* Takes `pkey` over, also on failure. */
static int key_wrap(struct sign_key **out, EVP_PKEY *pkey, bool has_private, bool marked, const char *name,
                    struct err *err)
{
	auto_key k = calloc(1, sizeof(*k));
	if (!k) {
		EVP_PKEY_free(pkey);
		return err_set(err, ERR_ENV, "%s: no memory", name);
	}
	k->pkey = pkey;
	k->has_private = has_private;
	k->is_ed25519 = EVP_PKEY_is_a(pkey, "ED25519");
	if (!k->is_ed25519 && !pubkey_is_p256(pkey))
		return err_set(err, ERR_USAGE, "%s: want an Ed25519 or ECDSA P-256 key, got %s", name,
		               EVP_PKEY_get0_type_name(pkey) ? EVP_PKEY_get0_type_name(pkey) : "another");
	if (!pubkey_id(k->pkey, k->id))
		return err_set(err, ERR_ENV, "%s: cannot encode the public key", name);
	k->is_test = marked;
	for (size_t i = 0; i < ARRAY_LEN(well_known_test_keys); i++)
		k->is_test |= strcmp(k->id, well_known_test_keys[i]) == 0;
	*out = steal_ptr(&k);
	return 0;
}

/* --- files -----------------------------------------------------------------------------------------------
 */

struct passphrase {
	const char *text;
	bool asked;
};

static int give_passphrase(char *to, int size, int writing, void *arg)
{
	struct passphrase *p = arg;
	p->asked = true;
	size_t len = p->text ? strlen(p->text) : 0;
	if (!p->text || size <= 0 || len > (size_t)size)
		return -1;
	memcpy(to, p->text, len);
	return (int)len;
}

/* Only the lines before the first PEM mark are a comment of ours. */
static bool is_marked(const char *pem)
{
	const char *mark = strstr(pem, test_marker), *begin = strstr(pem, "-----BEGIN ");
	return mark && (!begin || mark < begin);
}

static int read_pem(struct buf *text, const char *path, struct err *err)
{
	if (fs_read(text, path, KEY_FILE_BYTES_MAX, err))
		return err_wrap(err, "key");
	if (!text->p || strlen(text->p) != text->len)
		return err_set(err, ERR_USAGE, "%s: is no PEM file", path);
	return 0;
}

int key_load_private(struct sign_key **out, const char *path, const char *passphrase, struct err *err)
{
	auto_buf text = BUF_INIT(KEY_FILE_BYTES_MAX + 1);
	if (read_pem(&text, path, err))
		return -1;
	struct passphrase pass = { .text = passphrase };
	auto_bio bio = BIO_new_mem_buf(text.p, (int)text.len);
	EVP_PKEY *pkey = bio ? PEM_read_bio_PrivateKey(bio, NULL, give_passphrase, &pass) : NULL;
	bool marked = is_marked(text.p);
	bool is_public = strstr(text.p, "-----BEGIN PUBLIC KEY-----") != NULL;
	OPENSSL_cleanse(text.p, text.len);
	ERR_clear_error();
	if (pkey)
		return key_wrap(out, pkey, true, marked, path, err);
	if (pass.asked && !passphrase)
		return err_set(err, ERR_USAGE,
		               "%s: the key is protected: give --passphrase-file FILE or "
		               "PROOFMARK_KEY_PASSPHRASE",
		               path);
	if (pass.asked)
		return err_set(err, ERR_USAGE, "%s: wrong passphrase, or the key is damaged", path);
	if (is_public)
		return err_set(err, ERR_USAGE, "%s: holds a public key, want the private one", path);
	return err_set(err, ERR_USAGE, "%s: holds no private key in PEM", path);
}

int key_load_public(struct sign_key **out, const char *path, struct err *err)
{
	auto_buf text = BUF_INIT(KEY_FILE_BYTES_MAX + 1);
	if (read_pem(&text, path, err))
		return -1;
	bool is_private = strstr(text.p, "PRIVATE KEY-----") != NULL;
	auto_bio bio = BIO_new_mem_buf(text.p, (int)text.len);
	EVP_PKEY *pkey = bio && !is_private ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	bool marked = is_marked(text.p);
	OPENSSL_cleanse(text.p, text.len);
	ERR_clear_error();
	if (pkey)
		return key_wrap(out, pkey, false, marked, path, err);
	if (is_private)
		return err_set(err, ERR_USAGE, "%s: holds a private key; give its public half (%s.pub)", path,
		               path);
	return err_set(err, ERR_USAGE, "%s: holds no public key in PEM (\"BEGIN PUBLIC KEY\")", path);
}

/* --- new keys --------------------------------------------------------------------------------------------
 */

/* PKCS#8; protected by PBES2 with scrypt and AES-256 when there is a passphrase. */
static bool write_private(BIO *to, EVP_PKEY *pkey, const char *passphrase)
{
	PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(pkey);
	if (!info)
		return false;
	bool ok = false;
	if (!passphrase) {
		ok = PEM_write_bio_PKCS8_PRIV_KEY_INFO(to, info) == 1;
	} else {
		X509_ALGOR *how = PKCS5_pbe2_set_scrypt(EVP_aes_256_cbc(), NULL, 0, NULL, 16384, 8, 1);
		X509_SIG *sealed =
			how ? PKCS8_set0_pbe(passphrase, (int)strlen(passphrase), info, how) : NULL;
		if (how && !sealed)
			X509_ALGOR_free(how);
		ok = sealed && PEM_write_bio_PKCS8(to, sealed) == 1;
		X509_SIG_free(sealed);
	}
	PKCS8_PRIV_KEY_INFO_free(info);
	return ok;
}

static int write_new(const char *path, BIO *text, mode_t mode, struct err *err)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0 && errno == EEXIST)
		return err_set(err, ERR_USAGE, "%s: is already there; a key is never overwritten", path);
	if (fd < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot create", path);
	char *data = NULL;
	long len = BIO_get_mem_data(text, &data);
	if (len > 0 && fs_write_all(fd, data, (size_t)len) == 0 && fsync(fd) == 0)
		return 0;
	int why = errno;
	unlink(path);
	return err_sys(err, ERR_ENV, why, "%s: cannot write", path);
}

int key_new(const char *path, const char *passphrase, bool test_only, struct err *err)
{
	auto_free char *pub = str_fmt("%s.pub", path);
	if (!pub)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	if (access(pub, F_OK) == 0)
		return err_set(err, ERR_USAGE, "%s: is already there; a key is never overwritten", pub);
	if (passphrase && !passphrase[0])
		return err_set(err, ERR_USAGE, "%s: the passphrase is empty", path);
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	auto_bio secret = BIO_new(BIO_s_secmem());
	auto_bio open_half = BIO_new(BIO_s_mem());
	bool ok = pkey && secret && open_half;
	if (ok && test_only)
		ok = BIO_printf(secret, "%s\n", test_marker) > 0 &&
		     BIO_printf(open_half, "%s\n", test_marker) > 0;
	ok = ok && write_private(secret, pkey, passphrase) && PEM_write_bio_PUBKEY(open_half, pkey) == 1;
	EVP_PKEY_free(pkey);
	if (!ok)
		return err_set(err, ERR_ENV, "%s: libcrypto could not make a key", path);
	if (write_new(path, secret, 0600, err))
		return -1;
	if (write_new(pub, open_half, 0644, err) == 0)
		return 0;
	unlink(path);
	return -1;
}

int key_public_pem(struct buf *out, const struct sign_key *k)
{
	auto_bio bio = BIO_new(BIO_s_mem());
	char *data = NULL;
	long len = bio && PEM_write_bio_PUBKEY(bio, k->pkey) == 1 ? BIO_get_mem_data(bio, &data) : 0;
	return len > 0 ? buf_add(out, data, (size_t)len) : -1;
}

const char *key_algorithm(const struct sign_key *k)
{
	return k->is_ed25519 ? "Ed25519" : "ECDSA P-256";
}

/* --- signatures ------------------------------------------------------------------------------------------
 */

int key_sign(uint8_t sig[SIG_BYTES_MAX], size_t *sig_len, const struct sign_key *k, const void *data,
             size_t len, struct err *err)
{
	if (!k->has_private)
		return err_set(err, ERR_USAGE, "key %.16s: has no private half, cannot sign", k->id);
	if (!k->is_ed25519)
		return err_set(err, ERR_USAGE, "key %.16s: only Ed25519 keys sign here", k->id);
	auto_md_ctx ctx = EVP_MD_CTX_new();
	size_t n = SIG_BYTES_MAX;
	if (!ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pkey) != 1 ||
	    EVP_DigestSign(ctx, sig, &n, data, len) != 1) {
		ERR_clear_error();
		return err_set(err, ERR_ENV, "key %.16s: libcrypto could not sign", k->id);
	}
	*sig_len = n;
	return 0;
}

bool key_verify(const struct sign_key *k, const uint8_t *sig, size_t sig_len, const void *data, size_t len)
{
	return pubkey_verify(k->pkey, k->is_ed25519 ? NULL : EVP_sha256(), sig, sig_len, data, len);
}
