/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../tamper/synth.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "store/archive_check.h"
#include "store/fault.h"
#include "store/ustar.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void empty_folder(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
			auto_free char *below = fs_join(path, e->d_name);
			if (e->d_type == DT_DIR) {
				empty_folder(below);
				rmdir(below);
			} else {
				unlink(below);
			}
		}
	if (dir)
		closedir(dir);
}

static int make_folder(void **state)
{
	char *path = strdup("/tmp/test_bundle.XXXXXX");
	*state = path ? mkdtemp(path) : NULL;
	return *state ? 0 : -1;
}

static int drop_folder(void **state)
{
	empty_folder(*state);
	int rc = rmdir(*state);
	free(*state);
	return rc;
}

static struct sign_key *the_key(void)
{
	struct sign_key *k = NULL;
	struct err err = { 0 };
	if (key_load_private(&k, SYNTH_KEY, NULL, &err))
		fail_msg("%s", err.msg);
	return k;
}

static char *seal_new(const char *folder, const char *name, unsigned n_rows, char root[65])
{
	struct err err = { 0 };
	struct seal_facts facts = synth_facts();
	auto_free char *dir = fs_join(folder, "run");
	char *out = fs_join(folder, name);
	struct sign_key *k = the_key();
	if (access(dir, F_OK) && synth_run_dir(dir, n_rows, &err))
		fail_msg("%s", err.msg);
	if (bundle_seal(dir, out, k, &facts, root, &err))
		fail_msg("%s", err.msg);
	key_free(k);
	return out;
}

static struct bundle *open_it(struct bundle_proof *proof, const char *path)
{
	struct bundle *b = NULL;
	struct err err = { 0 };
	struct sign_key *k = the_key();
	const struct sign_key *keys[] = { k };
	if (bundle_open(&b, proof, path, keys, 1, &err))
		fail_msg("%s", err.msg);
	key_free(k);
	return b;
}

/* --- tests -----------------------------------------------------------------------------------------------
 */

static void header_is_what_libarchive_writes(void **state)
{
	static const struct {
		const char *name;
		size_t size;
	} cases[] = { { "a", 0 }, { "run/plan.json", 12345 }, { "run/requests.jsonl.zst", 077777 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t got[4096 * 16], want[USTAR_BLOCK_BYTES];
		size_t used = 0;
		struct archive *a = archive_write_new();
		struct archive_entry *e = archive_entry_new();
		archive_write_set_format_ustar(a);
		archive_write_set_bytes_per_block(a, 0);
		assert_int_equal(archive_write_open_memory(a, got, sizeof(got), &used), ARCHIVE_OK);
		archive_entry_set_pathname(e, cases[i].name);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_mtime(e, 0, 0);
		archive_entry_set_size(e, (la_int64_t)cases[i].size);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
		assert_int_equal(ustar_header(want, cases[i].name, cases[i].size), 0);
		assert_memory_equal(got, want, sizeof(want));
		archive_entry_free(e);
		archive_write_free(a);
	}
	uint8_t header[USTAR_BLOCK_BYTES];
	char long_name[102];
	memset(long_name, 'a', 101);
	long_name[101] = '\0';
	assert_int_equal(ustar_header(header, long_name, 1), -1);
	assert_int_equal(ustar_header(header, long_name + 1, 1), 0);
	assert_int_equal(ustar_header(header, "", 1), -1);
	assert_int_equal(ustar_header(header, "a", USTAR_SIZE_MAX + 1), -1);
}

static void sealed_files_come_back(void **state)
{
	struct bundle_proof proof;
	struct member_set set = { 0 };
	struct err err = { 0 };
	char root[65], root_of_dir[65];
	auto_free char *path = seal_new(*state, "a.proofmark", 8000, root);
	auto_free char *dir = fs_join(*state, "run");
	struct bundle *b = open_it(&proof, path);
	assert_true(proof.signature_verified && proof.manifest_verified && proof.layout_verified &&
	            proof.test_key);
	assert_string_equal(proof.evidence_root, root);
	assert_int_equal(rundir_load(&set, dir, &err), 0);
	assert_int_equal(evidence_root_of(root_of_dir, &set, &err), 0);
	assert_string_equal(root_of_dir, root);
	assert_int_equal(proof.n_members, set.n + 1); /* and verdict.json */
	for (size_t i = 0; i < set.n; i++) {
		const struct member *m = member_find(bundle_members(b), set.list[i].name);
		assert_non_null(m);
		assert_int_equal(m->len, set.list[i].len);
		if (m->len)
			assert_memory_equal(m->data, set.list[i].data, m->len);
	}
	assert_non_null(member_find(bundle_members(b), "verdict.json"));
	assert_string_equal(json_str(json_get(proof.statement, "predicate"), "candidate"), "cpu");
	member_set_done(&set);
	bundle_close(b);
}

static void large_members_are_packed(void **state)
{
	struct bundle_proof proof;
	struct stat whole, rows;
	auto_free char *path = seal_new(*state, "a.proofmark", 8000, NULL);
	auto_free char *rows_path = fs_join(*state, "run/requests.jsonl");
	assert_int_equal(stat(path, &whole), 0);
	assert_int_equal(stat(rows_path, &rows), 0);
	assert_true(rows.st_size > 1 << 20);
	assert_true(whole.st_size < rows.st_size / 2);
	bundle_close(open_it(&proof, path));
}

static void same_input_and_key_give_the_same_bytes(void **state)
{
	struct bundle_proof a, b;
	auto_free char *first = seal_new(*state, "a.proofmark", 8000, NULL);
	auto_free char *second = seal_new(*state, "b.proofmark", 8000, NULL);
	bundle_close(open_it(&a, first));
	bundle_close(open_it(&b, second));
	assert_string_equal(a.bundle_sha256, b.bundle_sha256);
}

/* The stored bundle is what this version still reads, and still writes. */
static void the_stored_bundle_is_written_again_byte_for_byte(void **state)
{
	struct bundle_proof proof, again;
	struct err err = { 0 };
	struct seal_facts facts = synth_facts();
	struct sign_key *k = the_key();
	auto_free char *dir = fs_join(*state, "run");
	auto_free char *path = fs_join(*state, "again.proofmark");
	struct bundle *b = open_it(&proof, "fixtures/bundles/small-test-only.proofmark");
	if (bundle_unpack(b, dir, &err) || bundle_seal(dir, path, k, &facts, NULL, &err))
		fail_msg("%s", err.msg);
	bundle_close(b);
	bundle_close(open_it(&again, path));
	assert_string_equal(proof.bundle_sha256, again.bundle_sha256);
	key_free(k);
}

static void unpacks_into_a_new_folder_only(void **state)
{
	struct bundle_proof proof;
	struct err err = { 0 };
	auto_free char *path = seal_new(*state, "a.proofmark", 10, NULL);
	auto_free char *dir = fs_join(*state, "unpacked");
	struct bundle *b = open_it(&proof, path);
	assert_int_equal(bundle_unpack(b, dir, &err), 0);
	assert_int_equal(bundle_unpack(b, dir, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	auto_free char *run = fs_join(*state, "run");
	auto_free char *command = str_fmt("diff -r %s %s >/dev/null", run, dir);
	assert_int_equal(system(command), 0);
	bundle_close(b);
}

static void a_bundle_is_a_tar_for_everybody(void **state)
{
	auto_buf bytes = BUF_INIT(64u << 20);
	struct archive_list list;
	struct err err = { 0 };
	auto_free char *path = seal_new(*state, "a.proofmark", 10, NULL);
	assert_int_equal(fs_read(&bytes, path, 64u << 20, &err), 0);
	if (archive_check(&list, bytes.p, bytes.len, &err))
		fail_msg("%s", err.msg);
	assert_string_equal(list.files[0].path, "attestation.dsse.json");
	assert_string_equal(list.files[1].path, "manifest.json");
	for (size_t i = 3; i < list.n; i++)
		assert_true(strcmp(list.files[i - 1].path, list.files[i].path) < 0);
	archive_list_done(&list);
}

static void cannot_read_is_not_the_same_as_not_genuine(void **state)
{
	struct bundle *b = NULL;
	struct bundle_proof proof;
	struct sign_key *k = the_key();
	const struct sign_key *keys[] = { k };
	static const struct {
		const char *path;
		enum err_class cls;
	} cases[] = { { "/nonexistent", ERR_ENV },
		      { "/tmp", ERR_ENV },
		      { "/dev/null", ERR_ENV },
		      { "fixtures/keys/README.md", ERR_NOT_GENUINE } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		assert_int_equal(bundle_open(&b, &proof, cases[i].path, keys, 1, &err), -1);
		assert_int_equal(err.cls, cases[i].cls);
		assert_non_null(strstr(err.msg, cases[i].path));
	}
	key_free(k);
}

/* Whatever happens while sealing: no file of that name, or a whole one. */
static void a_failed_seal_leaves_no_bundle(void **state)
{
	struct seal_facts facts = synth_facts();
	struct err err = { 0 };
	struct sign_key *k = the_key();
	auto_free char *dir = fs_join(*state, "run");
	auto_free char *out = fs_join(*state, "a.proofmark");
	auto_free char *tmp = fs_join(*state, "a.proofmark.tmp");
	assert_int_equal(synth_run_dir(dir, 10, &err), 0);
	for (unsigned n = 1; n < 1000; n++) {
		char text[32];
		snprintf(text, sizeof(text), "enospc:%u", n);
		setenv("PROOFMARK_FAULT", text, 1);
		store_fault_reset();
		int rc = bundle_seal(dir, out, k, &facts, NULL, &err);
		unsetenv("PROOFMARK_FAULT");
		store_fault_reset();
		assert_int_equal(access(tmp, F_OK), -1);
		if (rc == 0) {
			assert_true(n > 20);
			break;
		}
		assert_int_equal(err.cls, ERR_ENV);
		assert_int_equal(access(out, F_OK), -1);
	}
	assert_int_equal(access(out, F_OK), 0);
	key_free(k);
}

static void seal_wants_a_run_directory(void **state)
{
	struct seal_facts facts = synth_facts();
	struct err err = { 0 };
	struct sign_key *k = the_key();
	auto_free char *out = fs_join(*state, "a.proofmark");
	assert_int_equal(bundle_seal(*state, out, k, &facts, NULL, &err), -1);
	assert_int_equal(err.cls, ERR_USAGE);
	assert_non_null(strstr(err.msg, "plan.json"));
	key_free(k);
}

int main(void)
{
#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_is_what_libarchive_writes),
		IN_A_FOLDER(sealed_files_come_back),
		IN_A_FOLDER(large_members_are_packed),
		IN_A_FOLDER(same_input_and_key_give_the_same_bytes),
		IN_A_FOLDER(the_stored_bundle_is_written_again_byte_for_byte),
		IN_A_FOLDER(unpacks_into_a_new_folder_only),
		IN_A_FOLDER(a_bundle_is_a_tar_for_everybody),
		cmocka_unit_test(cannot_read_is_not_the_same_as_not_genuine),
		IN_A_FOLDER(a_failed_seal_leaves_no_bundle),
		IN_A_FOLDER(seal_wants_a_run_directory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
