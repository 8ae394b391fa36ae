/* SPDX-License-Identifier: Apache-2.0 */
/* DSSE 1.0.2 envelopes. Our own have one serialisation, so a flipped bit anywhere is seen; foreign ones are
 * read as the specification asks. Either way the caller gets exactly the bytes that were verified. */
#include "base/hash.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "base/pubkey.h"
#include "store/key.h"

#include <string.h>

#define ENVELOPE_BYTES_MAX (8u << 20)
#define SIGNATURES_MAX 64

static int compose(struct buf *out, const char *payload, const char *type, const char *keyid, const char *sig)
{
	struct json_out o;
	jo_init(&o, out, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "payload", payload);
	jo_str(&o, "payloadType", type);
	jo_arr(&o, "signatures");
	jo_obj(&o, NULL);
	jo_str(&o, "keyid", keyid);
	jo_str(&o, "sig", sig);
	jo_end(&o);
	jo_end_arr(&o);
	jo_end(&o);
	return buf_addc(out, '\n');
}

int dsse_sign(struct buf *out, const char *type, const void *body, size_t len, const struct sign_key *k,
              struct err *err)
{
	auto_buf pae = BUF_INIT(ENVELOPE_BYTES_MAX);
	uint8_t sig[SIG_BYTES_MAX];
	size_t sig_len = 0;
	if (dsse_pae(&pae, type, body, len))
		return err_set(err, ERR_ENV, "envelope: statement is larger than %u bytes",
		               ENVELOPE_BYTES_MAX);
	if (key_sign(sig, &sig_len, k, pae.p, pae.len, err))
		return err_wrap(err, "envelope");
	auto_free char *payload64 = base64_encode(body, len);
	auto_free char *sig64 = base64_encode(sig, sig_len);
	if (!payload64 || !sig64 || compose(out, payload64, type, k->id, sig64))
		return err_set(err, ERR_ENV, "envelope: no memory");
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------------------
 */

/* Which key made `sig`: the hinted one first, then all others. n_keys = none. */
static size_t find_signer(const struct sign_key *const *keys, size_t n_keys, const char *hint,
                          const uint8_t *sig, size_t sig_len, const struct buf *pae)
{
	for (size_t i = 0; i < n_keys; i++)
		if (hint && strcmp(keys[i]->id, hint) == 0 &&
		    key_verify(keys[i], sig, sig_len, pae->p, pae->len))
			return i;
	for (size_t i = 0; i < n_keys; i++)
		if ((!hint || strcmp(keys[i]->id, hint) != 0) &&
		    key_verify(keys[i], sig, sig_len, pae->p, pae->len))
			return i;
	return n_keys;
}

struct envelope { /* borrowed from the parsed document */
	const char *payload, *type;
	size_t n_signatures;
	struct {
		const char *keyid, *sig;
	} signatures[SIGNATURES_MAX];
};

static int take_apart(struct envelope *e, const struct cJSON *doc, struct err *err)
{
	e->payload = json_str(doc, "payload");
	e->type = json_str(doc, "payloadType");
	const struct cJSON *list = json_get(doc, "signatures"), *s;
	if (!e->payload || !e->type || !cJSON_IsArray(list))
		return err_set(
			err, ERR_NOT_GENUINE,
			"envelope: wants payload, payloadType and signatures (is it a DSSE envelope?)");
	cJSON_ArrayForEach(s, list)
	{
		if (e->n_signatures == SIGNATURES_MAX)
			return err_set(err, ERR_NOT_GENUINE, "envelope: more than %d signatures",
			               SIGNATURES_MAX);
		const char *sig = json_str(s, "sig");
		if (!sig)
			return err_set(err, ERR_NOT_GENUINE, "envelope: a signature without \"sig\"");
		e->signatures[e->n_signatures].keyid = json_str(s, "keyid");
		e->signatures[e->n_signatures++].sig = sig;
	}
	if (e->n_signatures == 0)
		return err_set(err, ERR_NOT_GENUINE, "envelope: not signed");
	return 0;
}

/* One text for one meaning: written again, the envelope must come out as it is, with the keyid of the key
 * that verified. */
static int check_own_form(const struct envelope *e, const char *text, size_t len, const char *keyid,
                          struct err *err)
{
	if (e->n_signatures != 1)
		return err_set(err, ERR_NOT_GENUINE, "envelope: %zu signatures, ours have one",
		               e->n_signatures);
	if (!e->signatures[0].keyid || strcmp(e->signatures[0].keyid, keyid) != 0)
		return err_set(err, ERR_NOT_GENUINE, "envelope: keyid is not that of the key that signed");
	auto_buf again = BUF_INIT(ENVELOPE_BYTES_MAX);
	if (compose(&again, e->payload, e->type, keyid, e->signatures[0].sig) || again.len != len ||
	    memcmp(again.p, text, len) != 0)
		return err_set(err, ERR_NOT_GENUINE,
		               "envelope: is not in our one serialisation (blanks, order, escapes or unknown "
		               "members)");
	return 0;
}

static int check_signatures(size_t *which, size_t *n_unreadable, const struct envelope *e,
                            const struct buf *pae, bool strict, const struct sign_key *const *keys,
                            size_t n_keys)
{
	for (size_t i = 0; i < e->n_signatures; i++) {
		size_t sig_len = 0;
		const char *text = e->signatures[i].sig;
		auto_free uint8_t *sig = base64_decode(text, strlen(text), !strict, &sig_len);
		if (!sig) {
			++*n_unreadable;
			continue;
		}
		size_t k = find_signer(keys, n_keys, e->signatures[i].keyid, sig, sig_len, pae);
		if (k < n_keys) {
			*which = k;
			return 0;
		}
	}
	return -1;
}

static int read_envelope(struct buf *payload, size_t *which, const struct cJSON *doc, const char *text,
                         size_t len, const char *type, bool strict, const struct sign_key *const *keys,
                         size_t n_keys, struct err *err)
{
	struct envelope e = { 0 };
	if (take_apart(&e, doc, err))
		return -1;
	if (strcmp(e.type, type) != 0)
		return err_set(err, ERR_NOT_GENUINE, "envelope: payloadType is not %s", type);
	size_t body_len = 0, k = 0, n_unreadable = 0;
	auto_free uint8_t *body = base64_decode(e.payload, strlen(e.payload), !strict, &body_len);
	if (!body)
		return err_set(err, ERR_NOT_GENUINE, "envelope: payload is not base64");
	auto_buf pae = BUF_INIT(ENVELOPE_BYTES_MAX);
	if (dsse_pae(&pae, type, body, body_len))
		return err_set(err, ERR_ENV, "envelope: no memory");
	if (check_signatures(&k, &n_unreadable, &e, &pae, strict, keys, n_keys)) {
		if (n_unreadable == e.n_signatures)
			return err_set(err, ERR_NOT_GENUINE, "envelope: signature is not base64");
		return err_set(err, ERR_NOT_GENUINE,
		               "envelope: no signature by the given key%s (changed, or signed by another)",
		               n_keys > 1 ? "s" : "");
	}
	if (strict && check_own_form(&e, text, len, keys[k]->id, err))
		return -1;
	if (buf_add(payload, body, body_len))
		return err_set(err, ERR_ENV, "envelope: no memory");
	*which = k;
	return 0;
}

int dsse_verify(struct buf *payload, size_t *which, const char *text, size_t len, const char *type,
                bool strict, const struct sign_key *const *keys, size_t n_keys, struct err *err)
{
	if (n_keys == 0)
		return err_set(err, ERR_USAGE, "envelope: no key given to check it with");
	if (len > ENVELOPE_BYTES_MAX)
		return err_set(err, ERR_NOT_GENUINE, "envelope: larger than %u bytes", ENVELOPE_BYTES_MAX);
	auto_json doc = NULL;
	if (json_parse(&doc, text, len, "envelope", JSON_STRICT, NULL, err)) {
		err->cls = ERR_NOT_GENUINE;
		return -1;
	}
	return read_envelope(payload, which, doc, text, len, type, strict, keys, n_keys, err);
}
