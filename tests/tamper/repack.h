/* SPDX-License-Identifier: Apache-2.0 */
/* Puts bundles together by hand, right or wrong, and signs them with a valid key. */
#ifndef TESTS_TAMPER_REPACK_H
#define TESTS_TAMPER_REPACK_H

#include "base/buf.h"
#include "store/manifest.h"
#include "store/sign.h"
#include "store/statement.h"
#include "store/ustar.h"
#include "synth.h"

#define BUNDLE_MAX (64u << 20)

/* One member as it will stand in the archive. */
struct piece {
	const char *name; /* of the header; NULL = the manifest's path */
	const void *data;
	size_t len;
	struct manifest_member listed;
	bool not_in_archive, not_in_manifest;
};

static inline void put_piece(struct buf *out, const char *name, const void *data, size_t len)
{
	static const char zeros[USTAR_BLOCK_BYTES];
	uint8_t header[USTAR_BLOCK_BYTES];
	if (ustar_header(header, name, len))
		memset(header, 'x', sizeof(header));
	buf_add(out, header, sizeof(header));
	buf_add(out, data, len);
	buf_add(out, zeros, ustar_padding(len));
}

static inline void put_end(struct buf *out)
{
	static const char zeros[2 * USTAR_BLOCK_BYTES];
	buf_add(out, zeros, sizeof(zeros));
}

/* `path` plain, listed as what it is. */
static inline struct piece piece_of(const char *path, const void *data, size_t len)
{
	struct piece p = { .data = data, .len = len };
	snprintf(p.listed.path, sizeof(p.listed.path), "%s", path);
	p.listed.bytes = p.listed.raw_bytes = len;
	sha256_hex_of(data, len, p.listed.sha256);
	memcpy(p.listed.raw_sha256, p.listed.sha256, SHA256_HEX_BYTES);
	p.listed.derived = strncmp(path, "run/", 4) == 0 && manifest_is_derived(path + 4);
	return p;
}

/* Envelope over `manifest` as it stands, whatever it says. */
static inline void sign_manifest(struct buf *envelope, const struct buf *manifest_text,
                                 const struct manifest *m, const struct sign_key *key)
{
	auto_buf statement = BUF_INIT(1u << 20);
	struct seal_facts facts = synth_facts();
	struct err err;
	char sha256[SHA256_HEX_BYTES];
	sha256_hex_of(manifest_text->p, manifest_text->len, sha256);
	if (statement_write(&statement, &facts, m, sha256) ||
	    dsse_sign(envelope, STATEMENT_PAYLOAD_TYPE, statement.p, statement.len, key, &err))
		envelope->failed = true;
}

/* The whole bundle of these pieces in this order. */
static inline void repack(struct buf *out, const struct piece *pieces, size_t n, const struct sign_key *key)
{
	struct manifest_member list[32];
	struct manifest m = { .list = list };
	auto_buf text = BUF_INIT(1u << 20);
	auto_buf envelope = BUF_INIT(1u << 20);
	for (size_t i = 0; i < n; i++)
		if (!pieces[i].not_in_manifest)
			list[m.n++] = pieces[i].listed;
	if (manifest_root(m.evidence_root, &m) || manifest_write(&text, &m))
		out->failed = true;
	sign_manifest(&envelope, &text, &m, key);
	put_piece(out, "attestation.dsse.json", envelope.p, envelope.len);
	put_piece(out, "manifest.json", text.p, text.len);
	for (size_t i = 0; i < n; i++)
		if (!pieces[i].not_in_archive)
			put_piece(out, pieces[i].name ? pieces[i].name : pieces[i].listed.path,
			          pieces[i].data, pieces[i].len);
	put_end(out);
}

#endif
