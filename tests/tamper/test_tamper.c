/* SPDX-License-Identifier: Apache-2.0 */
/* A good bundle, and all the ways to spoil it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "repack.h"
#include "store/pack.h"

#include <stdlib.h>
#include <unistd.h>

static struct {
	char folder[32];
	struct buf bytes; /* the good bundle */
	struct sign_key *key, *other;
	size_t n_members;
} good = { .folder = "/tmp/test_tamper.XXXXXX", .bytes = BUF_INIT(BUNDLE_MAX) };

static const char *const dir_files[] = {
	"plan.json",    "plan.lock.json",  "facts.json",     "events.jsonl",         "requests.jsonl",
	"tokens.bin",   "telemetry.jsonl", "controls.jsonl", "prompts.jsonl",        "engine.log",
	"verdict.json", "schedule.jsonl",  "answers.jsonl",  "engine_metrics.jsonl",
};

static int make_good(void **state)
{
	struct err err = { 0 };
	struct seal_facts facts = synth_facts();
	if (!mkdtemp(good.folder))
		return -1;
	auto_free char *dir = fs_join(good.folder, "run");
	auto_free char *file = fs_join(good.folder, "good.proofmark");
	if (key_load_private(&good.key, SYNTH_KEY, NULL, &err) ||
	    key_load_private(&good.other, SYNTH_OTHER_KEY, NULL, &err) || synth_run_dir(dir, 5000, &err) ||
	    bundle_seal(dir, file, good.key, &facts, NULL, &err) ||
	    fs_read(&good.bytes, file, BUNDLE_MAX, &err)) {
		print_error("%s\n", err.msg);
		return -1;
	}
	return 0;
}

static int drop_good(void **state)
{
	auto_free char *dir = fs_join(good.folder, "run");
	auto_free char *file = fs_join(good.folder, "good.proofmark");
	for (size_t i = 0; i < ARRAY_LEN(dir_files); i++) {
		auto_free char *path = fs_join(dir, dir_files[i]);
		unlink(path);
	}
	unlink(file);
	rmdir(dir);
	rmdir(good.folder);
	buf_done(&good.bytes);
	key_free(good.key);
	key_free(good.other);
	return 0;
}

static int open_with(const struct sign_key *key, const void *data, size_t len, struct err *err)
{
	struct bundle *b = NULL;
	struct bundle_proof proof = { 0 };
	int rc = bundle_open_bytes(&b, &proof, data, len, &key, 1, err);
	if (rc == 0) {
		assert_true(proof.signature_verified && proof.manifest_verified && proof.layout_verified);
		good.n_members = proof.n_members;
		bundle_close(b);
	} else {
		assert_null(b);
		assert_false(proof.signature_verified);
		if (err->cls != ERR_NOT_GENUINE)
			fail_msg("class %d: %s", err->cls, err->msg);
	}
	return rc;
}

static void must_refuse(const void *data, size_t len, const char *says, const char *what)
{
	struct err err = { 0 };
	if (open_with(good.key, data, len, &err) == 0)
		fail_msg("%s: was taken for genuine", what);
	if (says && !strstr(err.msg, says))
		fail_msg("%s: want \"%s\", got \"%s\"", what, says, err.msg);
}

static void the_good_one_is_genuine(void **state)
{
	struct err err = { 0 };
	if (open_with(good.key, good.bytes.p, good.bytes.len, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(good.n_members, ARRAY_LEN(dir_files));
}

/* --- bits ------------------------------------------------------------------------------------------------
 */

static void must_refuse_bit(size_t byte, unsigned bit)
{
	char what[64];
	good.bytes.p[byte] ^= (char)(1 << bit);
	snprintf(what, sizeof(what), "bit %u of byte %zu", bit, byte);
	must_refuse(good.bytes.p, good.bytes.len, NULL, what);
	good.bytes.p[byte] ^= (char)(1 << bit);
}

/* Begin and size of member i (0 = envelope) by its own header. */
static size_t member_at(size_t i, uint64_t *size)
{
	size_t at = 0;
	for (size_t k = 0;; k++) {
		if (ustar_size(size, (const uint8_t *)good.bytes.p + at))
			fail_msg("no member %zu", k);
		if (k == i)
			return at;
		at += USTAR_BLOCK_BYTES + *size + ustar_padding(*size);
	}
}

static void flip_range(size_t from, size_t to)
{
	for (size_t byte = from; byte < to; byte++)
		for (unsigned bit = 0; bit < 8; bit++)
			must_refuse_bit(byte, bit);
}

static void every_bit_of_the_envelope(void **state)
{
	uint64_t size;
	size_t at = member_at(0, &size);
	flip_range(at, at + USTAR_BLOCK_BYTES + size + ustar_padding(size));
}

static void every_bit_of_the_manifest(void **state)
{
	uint64_t size;
	size_t at = member_at(1, &size);
	flip_range(at, at + USTAR_BLOCK_BYTES + size + ustar_padding(size));
}

static void every_bit_of_the_other_headers_and_paddings(void **state)
{
	for (size_t i = 2; i < good.n_members + 2; i++) {
		uint64_t size;
		size_t at = member_at(i, &size);
		flip_range(at, at + USTAR_BLOCK_BYTES);
		for (size_t k = 0; k < ustar_padding(size); k++)
			must_refuse_bit(at + USTAR_BLOCK_BYTES + size + k, (unsigned)k % 8);
	}
}

static void every_byte_of_the_end_mark(void **state)
{
	for (size_t k = 1; k <= (size_t)2 * USTAR_BLOCK_BYTES; k++)
		must_refuse_bit(good.bytes.len - k, (unsigned)k % 8);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

static void two_thousand_seeded_bits_anywhere_in_members(void **state)
{
	uint64_t seed = 20260102, size;
	size_t from = member_at(2, &size);
	for (int i = 0; i < 2000; i++) {
		uint64_t r = next_random(&seed);
		must_refuse_bit(from + (size_t)(r >> 3) % (good.bytes.len - from), (unsigned)r & 7);
	}
}

/* --- length ----------------------------------------------------------------------------------------------
 */

static void every_truncation_at_a_block(void **state)
{
	for (size_t len = 0; len < good.bytes.len; len += USTAR_BLOCK_BYTES) {
		must_refuse(good.bytes.p, len, len > 4096 ? "truncated" : NULL, "truncated");
		must_refuse(good.bytes.p, len + 1 + len % 511, NULL, "truncated inside a block");
	}
}

static void anything_behind_the_end(void **state)
{
	static const size_t more[] = { 1, 511, 512, 1024, 9216 };
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		auto_buf longer = BUF_INIT(BUNDLE_MAX);
		buf_add(&longer, good.bytes.p, good.bytes.len);
		for (size_t k = 0; k < more[i]; k++)
			buf_addc(&longer, i % 2 ? 'x' : '\0');
		must_refuse(longer.p, longer.len, "behind its end", "appended bytes");
	}
}

/* --- keys ------------------------------------------------------------------------------------------------
 */

static void another_key(void **state)
{
	struct err err = { 0 };
	struct bundle *b = NULL;
	struct bundle_proof proof;
	const struct sign_key *both[] = { good.other, good.key };
	assert_int_equal(open_with(good.other, good.bytes.p, good.bytes.len, &err), -1);
	assert_non_null(strstr(err.msg, "signed by another"));
	assert_int_equal(bundle_open_bytes(&b, &proof, good.bytes.p, good.bytes.len, both, 0, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	assert_int_equal(bundle_open_bytes(&b, &proof, good.bytes.p, good.bytes.len, both, 2, &err), 0);
	assert_string_equal(proof.keyid, key_id(good.key));
	assert_true(proof.test_key);
	bundle_close(b);
}

/* --- put together anew, with a valid signature -----------------------------------------------------------
 */

#define PLAN "{\"plan\":1}\n"
#define ROWS "{\"i\":0}\n"
enum { A_PLAN, A_ROWS, A_TOKENS, A_VERDICT, N_PIECES };

static void fill_pieces(struct piece p[N_PIECES])
{
	p[A_PLAN] = piece_of("run/plan.json", PLAN, strlen(PLAN));
	p[A_ROWS] = piece_of("run/requests.jsonl", ROWS, strlen(ROWS));
	p[A_TOKENS] = piece_of("run/tokens.bin", "\1\2\3", 3);
	p[A_VERDICT] = piece_of("run/verdict.json", "{}\n", 3);
}

static void refuse_pieces(const struct piece *p, size_t n, const char *says, const char *what)
{
	auto_buf b = BUF_INIT(BUNDLE_MAX);
	repack(&b, p, n, good.key);
	assert_false(b.failed);
	must_refuse(b.p, b.len, says, what);
}

static void put_together_right_is_genuine(void **state)
{
	struct piece p[N_PIECES];
	auto_buf b = BUF_INIT(BUNDLE_MAX);
	struct err err = { 0 };
	fill_pieces(p);
	repack(&b, p, N_PIECES, good.key);
	if (open_with(good.key, b.p, b.len, &err))
		fail_msg("%s", err.msg);
}

static void wrong_paths_in_a_signed_manifest(void **state)
{
	static const struct {
		const char *path, *says;
	} cases[] = {
		{ "run/../x", "'..'" },
		{ "../x", "'..'" },
		{ "/etc/x", "absolute" },
		{ "run//x", "empty segment" },
		{ "run/./x", "'.' segment" },
		{ "run/a\\b", "backslash" },
		{ "run/a\nb", "control character" },
		{ "run/a\xff", "other characters" }, /* JSON holds U+FFFD */
		{ "run/Plan.json", "capital letters" },
		{ "run/.hidden", "begins with" },
		{ "run/a b", "other characters" },
		{ "run/a/b", "other characters" },
		{ "other/x", "outside run/" },
		{ "attestation.dsse.json", "outside run/" },
		{ "", "empty path" },
		{ "run/", "empty segment" },
		{ "run/x.zst", "do not agree" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct piece p[N_PIECES + 1];
		fill_pieces(p);
		p[N_PIECES] = piece_of(cases[i].path, "x", 1);
		refuse_pieces(p, N_PIECES + 1, cases[i].says, cases[i].path);
	}
}

static void members_moved_added_left_out(void **state)
{
	struct piece p[N_PIECES + 1], swap;
	fill_pieces(p);
	swap = p[A_ROWS];
	p[A_ROWS] = p[A_TOKENS];
	p[A_TOKENS] = swap;
	refuse_pieces(p, N_PIECES, "out of order", "reordered in manifest and archive");
	fill_pieces(p);
	p[A_ROWS].name = "run/tokens.bin";
	p[A_TOKENS].name = "run/requests.jsonl";
	refuse_pieces(p, N_PIECES, "another name", "names swapped in the archive");
	fill_pieces(p);
	p[A_TOKENS].not_in_archive = true;
	refuse_pieces(p, N_PIECES, "header at byte", "left out of the archive");
	fill_pieces(p);
	p[A_VERDICT].not_in_archive = true;
	refuse_pieces(p, N_PIECES, "the end of the archive", "last one left out of the archive");
	fill_pieces(p);
	p[N_PIECES] = piece_of("run/zzz", "x", 1);
	p[N_PIECES].not_in_manifest = true;
	refuse_pieces(p, N_PIECES + 1, "than the manifest lists", "added to the archive");
	fill_pieces(p);
	p[N_PIECES] = p[A_VERDICT];
	refuse_pieces(p, N_PIECES + 1, "listed twice", "twice in both");
	p[N_PIECES].not_in_manifest = true;
	refuse_pieces(p, N_PIECES + 1, "than the manifest lists", "twice in the archive");
}

static void contents_and_listing_that_do_not_agree(void **state)
{
	struct piece p[N_PIECES];
	fill_pieces(p);
	p[A_ROWS].data = "{\"i\":1}\n";
	refuse_pieces(p, N_PIECES, "sha256 is", "other contents of the same length");
	fill_pieces(p);
	p[A_ROWS].len--;
	refuse_pieces(p, N_PIECES, "another size", "shorter contents");
	fill_pieces(p);
	p[A_ROWS].listed.raw_bytes++;
	refuse_pieces(p, N_PIECES, "two sizes", "a plain member with two sizes");
	fill_pieces(p);
	p[A_ROWS].listed.raw_sha256[0] ^= 1;
	refuse_pieces(p, N_PIECES, "two hashes", "a plain member with two hashes");
	fill_pieces(p);
	p[A_ROWS].listed.derived = true;
	refuse_pieces(p, N_PIECES, "class is not raw", "raw rows called derived");
	fill_pieces(p);
	p[A_VERDICT].listed.derived = false;
	refuse_pieces(p, N_PIECES, "class is not derived", "a derived file called raw");
	fill_pieces(p);
	p[A_TOKENS].listed.bytes = p[A_TOKENS].listed.raw_bytes = 5ull << 30;
	refuse_pieces(p, N_PIECES, "limit of 4 GiB", "over the limit");
}

/* --- packed members --------------------------------------------------------------------------------------
 */

static void refuse_packed(const void *packed, size_t packed_len, const void *raw, size_t raw_len,
                          const char *says, const char *what)
{
	struct piece p[N_PIECES];
	fill_pieces(p);
	p[A_ROWS] = piece_of("run/requests.jsonl.zst", packed, packed_len);
	p[A_ROWS].listed.zst = true;
	p[A_ROWS].listed.raw_bytes = raw_len;
	sha256_hex_of(raw, raw_len, p[A_ROWS].listed.raw_sha256);
	if (says) {
		refuse_pieces(p, N_PIECES, says, what);
		return;
	}
	auto_buf b = BUF_INIT(BUNDLE_MAX);
	struct err err = { 0 };
	repack(&b, p, N_PIECES, good.key);
	if (open_with(good.key, b.p, b.len, &err))
		fail_msg("%s: %s", what, err.msg);
}

static void packed_members_hold_to_their_limits(void **state)
{
	struct err err = { 0 };
	uint8_t *packed = NULL;
	size_t packed_len, raw_len = 3u << 20;
	auto_free char *raw = malloc(raw_len);
	for (size_t i = 0; i < raw_len; i++)
		raw[i] = (char)('a' + i / 97 * 31 % 23 + i % 3);
	assert_int_equal(pack_zst(&packed, &packed_len, raw, raw_len, &err), 0);
	assert_non_null(packed);
	refuse_packed(packed, packed_len, raw, raw_len, NULL, "good");
	refuse_packed(packed, packed_len, raw, raw_len - 1, "does not say the size", "a shorter size listed");
	raw[0] ^= 1;
	refuse_packed(packed, packed_len, raw, raw_len, "sha256 is", "other contents listed");
	raw[0] ^= 1;
	auto_buf twice = BUF_INIT(BUNDLE_MAX);
	buf_add(&twice, packed, packed_len);
	buf_add(&twice, packed, packed_len);
	refuse_packed(twice.p, twice.len, raw, raw_len, "not one zstd frame", "two frames");
	refuse_packed(packed, packed_len - 1, raw, raw_len, "not one zstd frame", "a cut frame");
	refuse_packed("\x50\x2a\x4d\x18\4\0\0\0abcd", 12, "", 0, "not one zstd frame", "a skippable frame");
	refuse_packed(raw, 1000, raw, 1000, "not one zstd frame", "no frame");
	refuse_packed("x", 1, raw, raw_len, "1000 times", "a bomb");
	free(packed);
}

static void a_file_plain_and_packed_at_once(void **state)
{
	struct piece p[N_PIECES + 1];
	fill_pieces(p);
	memmove(p + 2, p + 1, sizeof(*p) * (N_PIECES - 1));
	p[2] = piece_of("run/requests.jsonl.zst", "x", 1);
	p[2].listed.zst = true;
	refuse_pieces(p, N_PIECES, "plain and packed", "plain and packed");
}

/* --- envelope and manifest of two bundles ----------------------------------------------------------------
 */

static void envelope_of_another_bundle(void **state)
{
	auto_buf b = BUF_INIT(BUNDLE_MAX);
	struct piece p[N_PIECES];
	uint64_t size;
	fill_pieces(p);
	repack(&b, p, N_PIECES, good.key);
	member_at(0, &size);
	size_t first = USTAR_BLOCK_BYTES + size + ustar_padding(size);
	if (ustar_size(&size, (const uint8_t *)b.p))
		fail();
	size_t skip = USTAR_BLOCK_BYTES + size + ustar_padding(size);
	auto_buf mixed = BUF_INIT(BUNDLE_MAX);
	buf_add(&mixed, good.bytes.p, first);
	buf_add(&mixed, b.p + skip, b.len - skip);
	must_refuse(mixed.p, mixed.len, "manifest.json: sha256 is", "envelope swapped");
}

static void manifest_that_is_not_in_its_one_form(void **state)
{
	struct manifest_member list[N_PIECES];
	struct manifest m = { .list = list, .n = N_PIECES };
	struct piece p[N_PIECES];
	auto_buf text = BUF_INIT(1u << 20);
	fill_pieces(p);
	for (size_t i = 0; i < N_PIECES; i++)
		list[i] = p[i].listed;
	assert_int_equal(manifest_root(m.evidence_root, &m), 0);
	assert_int_equal(manifest_write(&text, &m), 0);
	for (int kind = 0; kind < 3; kind++) {
		auto_buf odd = BUF_INIT(1u << 20);
		auto_buf envelope = BUF_INIT(1u << 20);
		auto_buf b = BUF_INIT(BUNDLE_MAX);
		buf_adds(&odd, kind == 0 ? "{ " : kind == 1 ? "{\"x\":1," : "{");
		buf_add(&odd, text.p + 1, text.len - (kind == 2 ? 2 : 1));
		sign_manifest(&envelope, &odd, &m, good.key);
		put_piece(&b, "attestation.dsse.json", envelope.p, envelope.len);
		put_piece(&b, "manifest.json", odd.p, odd.len);
		must_refuse(b.p, b.len, "one form", "odd manifest");
	}
	m.evidence_root[0] ^= 1;
	auto_buf wrong = BUF_INIT(1u << 20);
	struct manifest out = { 0 };
	struct err err = { 0 };
	assert_int_equal(manifest_write(&wrong, &m), 0);
	assert_int_equal(manifest_read(&out, wrong.p, wrong.len, &err), -1);
	assert_non_null(strstr(err.msg, "evidence_root"));
}

static void statement_of_something_else(void **state)
{
	auto_buf envelope = BUF_INIT(1u << 20);
	auto_buf b = BUF_INIT(BUNDLE_MAX);
	struct err err;
	static const char *const statements[] = {
		"{}",
		"[]",
		"{\"_type\":\"" STATEMENT_TYPE "\",\"predicateType\":\"https://example.com/x\"}",
		"{\"_type\":\"" STATEMENT_TYPE "\",\"predicateType\":\"" STATEMENT_PREDICATE_TYPE "\"}",
		"{\"_type\":\"" STATEMENT_TYPE "\",\"predicateType\":\"" STATEMENT_PREDICATE_TYPE
		"\",\"predicate\":{},\"subject\":[]}",
		"no JSON",
	};
	for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
		buf_clear(&envelope);
		buf_clear(&b);
		assert_int_equal(dsse_sign(&envelope, STATEMENT_PAYLOAD_TYPE, statements[i],
		                           strlen(statements[i]), good.key, &err),
		                 0);
		put_piece(&b, "attestation.dsse.json", envelope.p, envelope.len);
		must_refuse(b.p, b.len, "statement", statements[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_good_one_is_genuine),
		cmocka_unit_test(every_bit_of_the_envelope),
		cmocka_unit_test(every_bit_of_the_manifest),
		cmocka_unit_test(every_bit_of_the_other_headers_and_paddings),
		cmocka_unit_test(every_byte_of_the_end_mark),
		cmocka_unit_test(two_thousand_seeded_bits_anywhere_in_members),
		cmocka_unit_test(every_truncation_at_a_block),
		cmocka_unit_test(anything_behind_the_end),
		cmocka_unit_test(another_key),
		cmocka_unit_test(put_together_right_is_genuine),
		cmocka_unit_test(wrong_paths_in_a_signed_manifest),
		cmocka_unit_test(members_moved_added_left_out),
		cmocka_unit_test(contents_and_listing_that_do_not_agree),
		cmocka_unit_test(packed_members_hold_to_their_limits),
		cmocka_unit_test(a_file_plain_and_packed_at_once),
		cmocka_unit_test(envelope_of_another_bundle),
		cmocka_unit_test(manifest_that_is_not_in_its_one_form),
		cmocka_unit_test(statement_of_something_else),
	};
	return cmocka_run_group_tests(tests, make_good, drop_good);
}
