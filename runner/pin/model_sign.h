/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a model, as OpenSSF model signing v1.0 defines it: a SHA-256 for every file ("files"
 * serialisation), sorted by name; the root is the SHA-256 of the raw digests in that order. Used for unsigned
 * models too. (The reference implementation, up to 1.1.1, sorts part by part: "sub/z" before "sub.txt", the
 * specification by code points, as here. A signature is checked in the order of its own list.) A signature
 * (model.sig: a sigstore bundle with a DSSE envelope) is checked with a key that the caller trusts; one that
 * rests on a certificate (keyless) is recognised and said to be not verified. */
#ifndef PIN_MODEL_SIGN_H
#define PIN_MODEL_SIGN_H

#include "base/err.h"
#include "pin/pin_model.h"

#include <stdbool.h>
#include <stddef.h>

#define MODEL_SIG_FILE "model.sig"

struct model_resource {
	char *name; /* below the folder, with '/'; of a lone file its name */
	char sha256[65];
	uint64_t bytes;
};

struct model_identity {
	char root_sha256[65];
	bool has_links; /* symbolic links to files were followed (the hub's cache is made of them) */
	uint64_t bytes;
	size_t n;
	struct model_resource *list; /* sorted by name, byte order */
	size_t n_wrong_blobs; /* files of the hub's cache whose blob is named by a SHA-256 that is not theirs
	                       */
	char first_wrong_blob[256];
};

/* `path`: a file (all parts of a GGUF set), or a folder with everything below it but, at its top,
 * model.sig, .git, .gitattributes, .gitignore, .github (the specification's list) and .cache (the hub's
 * notes of a download, which change). `cache`, `stop`: pin_model.h. ERR_ENV when
 * something cannot be read or is missing, ERR_PLAN for a link that leads to no regular file, too many files,
 * or a set that is not whole. */
warn_unused int model_identity(struct model_identity *out, const char *path, bool cache, const bool *stop,
                               struct err *err);
void model_identity_done(struct model_identity *id); /* accepts zeroed */

enum model_sig_state {
	MODEL_SIG_NONE,        /* there is no model.sig */
	MODEL_SIG_NOT_CHECKED, /* signed with a key, but no key was given */
	MODEL_SIG_KEYLESS,     /* rests on a certificate: recognised, not verified */
	MODEL_SIG_GOOD,        /* by the given key, and every file is as signed */
	MODEL_SIG_BAD,         /* not by that key, damaged, or files differ: `text` says which */
};

struct model_sig {
	enum model_sig_state state;
	char text[512];       /* one line; "" for none and good */
	char signed_root[65]; /* the subject's digest, once the signature was verified; "" else */
	char key_sha256[65];  /* of the given key's SubjectPublicKeyInfo; "" = none given */
	char name[256];       /* the subject's name */
};

/* `sig_path`: the bundle; `key_path`: a PEM public key (Ed25519, ECDSA P-256, P-384 or P-521), or NULL.
 * -1 only when a file cannot be read or the key is none (ERR_ENV, ERR_USAGE); a bad signature is a state. */
warn_unused int model_sig_check(struct model_sig *out, const struct model_identity *id, const char *sig_path,
                                const char *key_path, struct err *err);
const char *model_sig_word(enum model_sig_state state);

#endif
