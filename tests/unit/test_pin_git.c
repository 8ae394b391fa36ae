/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json_in.h"
#include "base/json_out.h"
#include "pin/pin_git.h"
#include "pin/pin_git_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <openssl/evp.h>

#include <zlib.h>

#include <cmocka.h>

#define NO_ID "1111111111111111111111111111111111111111"

static char dir[64];

/* --- repositories ----------------------------------------------------------------------------------------
 */

static char *in_dir(const char *name)
{
	char *path = fs_join(dir, name);
	assert_non_null(path);
	return path;
}

static void put(const char *name, const char *text)
{
	struct err err = { 0 };
	auto_free char *path = in_dir(name);
	auto_free char *parent = fs_dirname(path);
	if (fs_mkdir_p(parent, &err) || fs_write(path, text, strlen(text), &err))
		fail_msg("%s", err.msg);
}

static void good(int rc)
{
	if (rc < 0)
		fail_msg("libgit2: %s", git_error_last() ? git_error_last()->message : "?");
}

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/proofmark-git-XXXXXX");
	return git_libgit2_init() > 0 && mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static git_repository *new_repo(const char *name, bool bare)
{
	git_repository *repo = NULL;
	auto_free char *path = in_dir(name);
	good(git_repository_init(&repo, path, bare));
	if (!bare)
		good(git_repository_set_head(repo, "refs/heads/main"));
	return repo;
}

/* A commit of `tree` upon HEAD. */
static git_oid commit_tree(git_repository *repo, const git_oid *tree_id)
{
	git_oid id, parent_id;
	git_tree *tree = NULL;
	git_commit *parent = NULL;
	git_signature *who = NULL;
	good(git_tree_lookup(&tree, repo, tree_id));
	if (git_reference_name_to_id(&parent_id, repo, "HEAD") == 0)
		good(git_commit_lookup(&parent, repo, &parent_id));
	const git_commit *parents[] = { parent };
	good(git_signature_new(&who, "T", "t@example.org", 1700000000, 90));
	good(git_commit_create(&id, repo, "HEAD", who, who, NULL, "message\n", tree, parent ? 1 : 0,
	                       parents));
	git_signature_free(who);
	git_commit_free(parent);
	git_tree_free(tree);
	return id;
}

/* Everything in the working tree, and a submodule entry when `link` is given. */
static git_oid commit_all(git_repository *repo, const char *link, const git_oid *to)
{
	git_index *index = NULL;
	git_oid tree;
	good(git_repository_index(&index, repo));
	if (link) {
		git_index_entry e = { .mode = GIT_FILEMODE_COMMIT, .path = link, .id = *to };
		good(git_index_add(index, &e));
	} else {
		good(git_index_add_all(index, NULL, GIT_INDEX_ADD_DEFAULT, NULL, NULL));
	}
	good(git_index_write(index));
	good(git_index_write_tree(&tree, index));
	git_index_free(index);
	return commit_tree(repo, &tree);
}

/* `name` with one commit that holds a.c, run.sh (executable), sub/b.c and a link. */
static git_oid small_repo(const char *name, git_repository **out)
{
	auto_free char *a = str_fmt("%s/a.c", name), *run = str_fmt("%s/run.sh", name);
	auto_free char *b = str_fmt("%s/sub/b.c", name), *ln = str_fmt("%s/%s/ln", dir, name);
	auto_free char *ignore = str_fmt("%s/.gitignore", name), *run_path = in_dir(run);
	git_repository *repo = new_repo(name, false);
	put(a, "int a;\n");
	put(run, "#!/bin/sh\n");
	put(b, "int b;\n");
	put(ignore, "*.o\n");
	assert_int_equal(symlink("a.c", ln), 0);
	assert_int_equal(chmod(run_path, 0755), 0);
	git_oid id = commit_all(repo, NULL, NULL);
	if (out)
		*out = repo;
	else
		git_repository_free(repo);
	return id;
}

static const char *id_text(const git_oid *id)
{
	static char text[4][GIT_ID_BYTES];
	static unsigned at;
	git_id_text(text[++at % 4], id);
	return text[at % 4];
}

static struct git_pin read_pin(const char *name, const char *ref, const char *commit)
{
	struct git_pin p;
	struct err err = { 0 };
	auto_free char *path = in_dir(name);
	struct git_spec spec = { .path = path, .ref = ref, .commit = commit };
	if (git_pin_read(&p, &spec, &err))
		fail_msg("%s", err.msg);
	return p;
}

static void refuses(const char *name, const char *ref, const char *commit, enum err_class cls,
                    const char *says)
{
	struct git_pin p = { .commit = "untouched" };
	struct err err = { 0 };
	auto_free char *path = in_dir(name);
	struct git_spec spec = { .path = path, .ref = ref, .commit = commit, .timeout_s = 60 };
	assert_int_equal(git_pin_read(&p, &spec, &err), -1);
	print_message("%s\n", err.msg);
	assert_int_equal(err.cls, cls);
	assert_non_null(strstr(err.msg, says));
	assert_string_equal(p.commit, "untouched");
}

/* --- what is checked out -----------------------------------------------------------------------------------
 */

static void a_clean_checkout_is_told_in_full(void **state)
{
	git_oid id = small_repo("clean", NULL);
	struct git_pin p = read_pin("clean", NULL, NULL);
	assert_string_equal(p.commit, id_text(&id));
	assert_int_equal(strlen(p.tree), 40);
	assert_string_equal(p.ref, "HEAD");
	assert_string_equal(p.head, p.commit);
	assert_string_equal(p.head_ref, "refs/heads/main");
	assert_string_equal(p.author_date, "2023-11-14T23:43:20+01:30");
	assert_int_equal(p.state.clean, GIT_CLEAN);
	assert_int_equal(p.state.n_files, 5);
	assert_int_equal(p.signature.kind, GIT_SIG_NONE);
	assert_int_equal(p.owner_uid, geteuid());
	assert_false(p.bare || p.shallow || p.is_worktree || p.owner_is_other);
	assert_true(git_pin_is_exact(&p));
	git_pin_done(&p);
	p = read_pin("clean/.git", "main", NULL); /* its .git folder will do */
	assert_string_equal(p.ref, "refs/heads/main");
	assert_int_equal(p.state.clean, GIT_CLEAN);
	git_pin_done(&p);
}

static void keep_time(const char *name, const char *text)
{
	auto_free char *path = in_dir(name);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	auto_file f = fopen(path, "r+");
	assert_true(f && fputs(text, f) >= 0 && fflush(f) == 0);
	const struct timespec t[] = { st.st_atim, st.st_mtim };
	assert_int_equal(futimens(fileno(f), t), 0);
}

static void stage(const char *repo_name, const char *file, bool remove_it, uint16_t flags, uint16_t extended)
{
	git_repository *repo = NULL;
	git_index *index = NULL;
	auto_free char *path = in_dir(repo_name);
	good(git_repository_open(&repo, path));
	good(git_repository_index(&index, repo));
	if (remove_it) {
		good(git_index_remove_bypath(index, file));
	} else if (flags || extended) {
		git_index_entry e = *git_index_get_bypath(index, file, 0);
		e.flags |= flags;
		e.flags_extended |= extended;
		good(git_index_add(index, &e));
	} else {
		good(git_index_add_bypath(index, file));
	}
	good(git_index_write(index));
	git_index_free(index);
	git_repository_free(repo);
}

enum change {
	C_CONTENT,
	C_SAME_TIME,
	C_MODE,
	C_GONE,
	C_FOLDER_GONE,
	C_LINKED,
	C_PIPE,
	C_LINK_TO,
	C_UNTRACKED,
	C_IGNORED,
	C_STAGED,
	C_UNSTAGED,
	C_ASSUMED,
	C_SKIPPED,
	C_FOLDER_IS_LINK,
};

static void change(const char *r, enum change what)
{
	auto_free char *a = str_fmt("%s/a.c", r), *path = in_dir(a), *top = in_dir(r),
		       *sub = fs_join(top, "sub");
	auto_free char *b = fs_join(sub, "b.c"), *ln = fs_join(top, "ln"), *extra = str_fmt("%s/extra.c", r);
	auto_free char *object = str_fmt("%s/a.o", r), *elsewhere = fs_join(top, ".git/sub");
	switch (what) {
	case C_CONTENT:
		put(a, "int c;\n");
		break;
	case C_SAME_TIME:
		keep_time(a, "int c;\n");
		break;
	case C_MODE:
		assert_int_equal(chmod(path, 0755), 0);
		break;
	case C_GONE:
		assert_int_equal(unlink(path), 0);
		break;
	case C_FOLDER_GONE:
		assert_int_equal(unlink(b) || rmdir(sub), 0);
		break;
	case C_LINKED:
		assert_int_equal(unlink(path) || symlink("sub/b.c", path), 0);
		break;
	case C_PIPE:
		assert_int_equal(unlink(path) || mkfifo(path, 0600), 0);
		break;
	case C_LINK_TO:
		assert_int_equal(unlink(ln) || symlink("b.c", ln), 0);
		break;
	case C_UNTRACKED:
		put(extra, "x");
		break;
	case C_IGNORED:
		put(object, "x");
		break;
	case C_STAGED:
		put(a, "int c;\n");
		stage(r, "a.c", false, 0, 0);
		put(a, "int a;\n");
		break;
	case C_UNSTAGED:
		stage(r, "a.c", true, 0, 0);
		break;
	case C_ASSUMED:
		stage(r, "a.c", false, GIT_INDEX_ENTRY_VALID, 0);
		put(a, "int c;\n");
		break;
	case C_SKIPPED:
		stage(r, "a.c", false, GIT_INDEX_ENTRY_EXTENDED, GIT_INDEX_ENTRY_SKIP_WORKTREE);
		put(a, "int c;\n");
		break;
	case C_FOLDER_IS_LINK:
		assert_int_equal(rename(sub, elsewhere) || symlink(".git/sub", sub), 0);
		break;
	}
}

static void every_difference_from_the_commit_is_counted(void **state)
{
	static const struct {
		enum change change;
		enum git_clean clean;
		unsigned changed, missing, staged, hidden, untracked;
		const char *first;
	} cases[] = {
		{ C_CONTENT, GIT_DIRTY, 1, 0, 0, 0, 0, "a.c" },
		{ C_SAME_TIME, GIT_DIRTY, 1, 0, 0, 0, 0, "a.c" },
		{ C_MODE, GIT_DIRTY, 1, 0, 0, 0, 0, "a.c" },
		{ C_GONE, GIT_DIRTY, 0, 1, 0, 0, 0, "a.c" },
		{ C_FOLDER_GONE, GIT_DIRTY, 0, 1, 0, 0, 0, "sub/b.c" },
		{ C_LINKED, GIT_DIRTY, 1, 0, 0, 0, 0, "a.c" },
		{ C_PIPE, GIT_DIRTY, 1, 0, 0, 0, 0, "a.c" },
		{ C_LINK_TO, GIT_DIRTY, 1, 0, 0, 0, 0, "ln" },
		{ C_UNTRACKED, GIT_UNTRACKED_TOO, 0, 0, 0, 0, 1, "" },
		{ C_IGNORED, GIT_CLEAN, 0, 0, 0, 0, 0, "" },
		{ C_STAGED, GIT_DIRTY, 0, 0, 1, 0, 0, "" },
		{ C_UNSTAGED, GIT_DIRTY, 0, 0, 1, 0, 1, "" },
		{ C_ASSUMED, GIT_DIRTY, 1, 0, 0, 1, 0, "a.c" },
		{ C_SKIPPED, GIT_DIRTY, 1, 0, 0, 1, 0, "a.c" },
		{ C_FOLDER_IS_LINK, GIT_DIRTY, 0, 1, 0, 0, 1, "sub/b.c" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char name[32];
		snprintf(name, sizeof(name), "change%zu", i);
		small_repo(name, NULL);
		change(name, cases[i].change);
		struct git_pin p = read_pin(name, NULL, NULL);
		print_message("change %zu\n", i);
		assert_int_equal(p.state.clean, cases[i].clean);
		assert_int_equal(p.state.n_changed, cases[i].changed);
		assert_int_equal(p.state.n_missing, cases[i].missing);
		assert_int_equal(p.state.n_staged, cases[i].staged);
		assert_int_equal(p.state.n_hidden, cases[i].hidden);
		assert_int_equal(p.state.n_untracked, cases[i].untracked);
		assert_string_equal(p.state.first_changed, cases[i].first);
		assert_int_equal(git_pin_is_exact(&p), cases[i].clean == GIT_CLEAN);
		git_pin_done(&p);
	}
}

static void line_ends_are_no_change_and_a_filter_cannot_be_told(void **state)
{
	git_repository *repo = new_repo("filter", false);
	put("filter/.gitattributes", "*.txt text eol=crlf\n*.bin filter=lfs\n");
	put("filter/t.txt", "a\r\nb\r\n");
	put("filter/w.bin", "version https://git-lfs.github.com/spec/v1\n");
	commit_all(repo, NULL, NULL);
	git_repository_free(repo);
	struct git_pin p = read_pin("filter", NULL, NULL);
	assert_int_equal(p.state.clean, GIT_CLEAN);
	git_pin_done(&p);
	put("filter/w.bin", "the content itself");
	p = read_pin("filter", NULL, NULL);
	assert_int_equal(p.state.clean, GIT_CANNOT_SAY);
	assert_int_equal(p.state.n_filtered, 1);
	git_pin_done(&p);
	put("filter/t.txt", "a\r\nc\r\n");
	p = read_pin("filter", NULL, NULL);
	assert_int_equal(p.state.clean, GIT_DIRTY);
	git_pin_done(&p);
}

static void what_lies_there_is_compared_with_the_pin_not_with_head(void **state)
{
	git_repository *repo = NULL;
	git_oid one = small_repo("other", &repo);
	put("other/a.c", "int c;\n");
	git_oid two = commit_all(repo, NULL, NULL);
	git_repository_free(repo);
	struct git_pin p = read_pin("other", NULL, id_text(&one));
	assert_string_equal(p.head, id_text(&two));
	assert_int_equal(p.state.clean, GIT_DIRTY);
	assert_int_equal(p.state.n_changed, 1);
	git_pin_done(&p);
}

/* --- names ------------------------------------------------------------------------------------------------
 */

static void ref_to(git_repository *repo, const char *name, const git_oid *id)
{
	git_reference *ref = NULL;
	good(git_reference_create(&ref, repo, name, id, 1, NULL));
	git_reference_free(ref);
}

static void names_lead_to_one_commit_or_are_refused(void **state)
{
	git_repository *repo = NULL;
	git_oid one = small_repo("names", &repo);
	put("names/a.c", "int c;\n");
	git_oid two = commit_all(repo, NULL, NULL);
	git_commit *commit = NULL;
	good(git_commit_lookup(&commit, repo, &one));
	git_oid tree = *git_commit_tree_id(commit);
	git_commit_free(commit);
	ref_to(repo, "refs/tags/v1", &one);
	ref_to(repo, "refs/heads/both", &one);
	ref_to(repo, "refs/tags/both", &two);
	ref_to(repo, "refs/heads/agree", &one);
	ref_to(repo, "refs/tags/agree", &one);
	ref_to(repo, "refs/remotes/origin/x", &one);
	ref_to(repo, "refs/heads/sp\xc3\xa4t/a'b\"$(c)", &one);
	ref_to(repo, "refs/heads/deadbeef", &one);
	ref_to(repo, "refs/tags/a-tree", &tree);
	git_repository_free(repo);
	char upper[GIT_ID_BYTES], shorter[GIT_ID_BYTES], full[2 * GIT_ID_BYTES], tree_text[GIT_ID_BYTES];
	git_id_text(tree_text, &tree);
	snprintf(upper, sizeof(upper), "%s", id_text(&one));
	for (char *c = upper; *c; c++)
		*c = *c >= 'a' ? (char)(*c - 32) : *c;
	snprintf(shorter, sizeof(shorter), "%.10s", id_text(&one));
	snprintf(full, sizeof(full), "write %s", id_text(&one));
	const struct {
		const char *ref, *full; /* NULL = refused, with: */
		const char *says;
	} cases[] = {
		{ "v1", "refs/tags/v1", NULL },
		{ "agree", "refs/tags/agree", NULL },
		{ "refs/heads/both", "refs/heads/both", NULL },
		{ "origin/x", "refs/remotes/origin/x", NULL },
		{ "sp\xc3\xa4t/a'b\"$(c)", "refs/heads/sp\xc3\xa4t/a'b\"$(c)", NULL },
		{ "deadbeef", "refs/heads/deadbeef", NULL },
		{ upper, "", NULL },
		{ "both", NULL, "is both refs/tags/both and refs/heads/both" },
		{ shorter, NULL, full },
		{ "a-tree", NULL, "is a tree, want a commit" },
		{ tree_text, NULL, "is a tree, want a commit" },
		{ NO_ID, NULL, "is not in the repository" },
		{ NO_ID "111111111111111111111111", NULL, "SHA-256" },
		{ "nothing", NULL, "there is no tag" },
		{ "main^", NULL, "there is no tag" },
		{ "HEAD~1", NULL, "there is no tag" },
		{ "main@{1}", NULL, "there is no tag" },
		{ "../../HEAD", NULL, "there is no tag" },
		{ "refs/../HEAD", NULL, "there is no tag" },
		{ "", NULL, "there is no tag" },
		{ "-x", NULL, "there is no tag" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		print_message("%s\n", cases[i].ref);
		if (!cases[i].full) {
			refuses("names", cases[i].ref, NULL,
			        strcmp(cases[i].says, "is not in the repository") ? ERR_PLAN : ERR_ENV,
			        cases[i].says);
			continue;
		}
		struct git_pin p = read_pin("names", cases[i].ref, NULL);
		assert_string_equal(p.commit, id_text(&one));
		assert_string_equal(p.ref, cases[i].full);
		git_pin_done(&p);
	}
	refuses("names", "main", shorter, ERR_PLAN, full);
}

static void a_ref_that_moved_is_told_with_both_ids(void **state)
{
	git_repository *repo = NULL;
	git_oid one = small_repo("moved", &repo), aside;
	put("moved/a.c", "int c;\n");
	git_oid two = commit_all(repo, NULL, NULL);
	git_commit *commit = NULL;
	good(git_commit_lookup(&commit, repo, &two));
	good(git_commit_amend(&aside, commit, NULL, NULL, NULL, NULL, "another message", NULL));
	git_commit_free(commit);
	ref_to(repo, "refs/tags/aside", &aside);
	git_repository_free(repo);
	const struct {
		const char *ref;
		const git_oid *pinned, *now;
		enum git_ref_state state;
	} cases[] = {
		{ "main", &two, &two, GIT_REF_SAME },         { "main", &one, &two, GIT_REF_AHEAD },
		{ "aside", &two, &aside, GIT_REF_REWRITTEN }, { "gone", &two, NULL, GIT_REF_GONE },
		{ NULL, &two, NULL, GIT_REF_NOT_ASKED },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct git_pin p = read_pin("moved", cases[i].ref, id_text(cases[i].pinned));
		assert_int_equal(p.ref_state, cases[i].state);
		assert_string_equal(p.commit, id_text(cases[i].pinned));
		assert_string_equal(p.ref_now, cases[i].now ? id_text(cases[i].now) : "");
		git_pin_done(&p);
	}
}

/* --- signatures ------------------------------------------------------------------------------------------
 */

static void add_part(struct buf *b, const void *data, size_t len)
{
	const char head[4] = { 0, 0, (char)(len >> 8), (char)len };
	buf_add(b, head, 4);
	buf_add(b, data, len);
}

/* As ssh-keygen -Y sign does; `line` gets the public key. */
static char *ssh_sign(const char *msg, const char *ns, uint8_t seed, char line[256])
{
	uint8_t secret[32], raw[32], digest[64], sig[64];
	size_t n_raw = sizeof(raw), n_sig = sizeof(sig);
	unsigned n = 0;
	auto_buf pub = BUF_INIT(4096), data = BUF_INIT(4096), blob = BUF_INIT(4096), part = BUF_INIT(4096);
	memset(secret, seed, sizeof(secret));
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, sizeof(secret));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	assert_int_equal(EVP_PKEY_get_raw_public_key(key, raw, &n_raw), 1);
	add_part(&pub, "ssh-ed25519", 11);
	add_part(&pub, raw, n_raw);
	assert_int_equal(EVP_Digest(msg, strlen(msg), digest, &n, EVP_sha512(), NULL), 1);
	buf_add(&data, "SSHSIG", 6);
	add_part(&data, ns, strlen(ns));
	add_part(&data, "", 0);
	add_part(&data, "sha512", 6);
	add_part(&data, digest, n);
	assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
	assert_int_equal(EVP_DigestSign(ctx, sig, &n_sig, (uint8_t *)data.p, data.len), 1);
	add_part(&part, "ssh-ed25519", 11);
	add_part(&part, sig, n_sig);
	buf_add(&blob, "SSHSIG\0\0\0\1", 10);
	add_part(&blob, pub.p, pub.len);
	add_part(&blob, ns, strlen(ns));
	add_part(&blob, "", 0);
	add_part(&blob, "sha512", 6);
	add_part(&blob, part.p, part.len);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	auto_free char *pub64 = base64_encode(pub.p, pub.len), *text = base64_encode(blob.p, blob.len);
	snprintf(line, 256, "ssh-ed25519 %s someone", pub64);
	return str_fmt("-----BEGIN SSH SIGNATURE-----\n%s\n-----END SSH SIGNATURE-----\n", text);
}

/* Made by OpenSSH itself. */
static void a_signature_of_ssh_keygen_is_verified(void **state)
{
	static const char key_line[] =
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO+/ta9jtO7ubeLJvu/BpeQ8o1bbkS0cWFzH63kN6Gc0 test";
	static const char tag[] = "object 1111111111111111111111111111111111111111\ntype commit\ntag v1\n"
				  "tagger T <t@example.org> 1000000000 +0000\n\nrelease\n"
				  "-----BEGIN SSH SIGNATURE-----\n"
				  "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg77+1r2O07u5t4sm+78Gl5DyjVt\n"
				  "uRLRxYXMfreQ3oZzQAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5\n"
				  "AAAAQIOJ9rgEqsMUFA87ex5XeaWo1Ws5+Y4i8F8c6kCQfQFtqBOAdw4NyGgdEYEKfKRxl1\n"
				  "kCVt9ph5suPwkbp0R05AU=\n"
				  "-----END SSH SIGNATURE-----\n";
	struct git_ssh_key key = { 0 };
	struct git_signature_seen seen;
	struct err err = { 0 };
	assert_int_equal(git_ssh_key_parse(&key, key_line, &err), 0);
	git_signature_tag(&seen, tag, strlen(tag), &key);
	assert_int_equal(seen.kind, GIT_SIG_SSH);
	assert_int_equal(seen.state, GIT_SIG_GOOD);
	for (size_t i = 0; i < strlen(tag); i++) {
		auto_free char *copy = strdup(tag);
		copy[i] ^= 1;
		git_signature_tag(&seen, copy, strlen(copy), &key);
		bool in_blanks = strchr("\n\v", copy[i]) || tag[i] == '\n' || i > strlen(tag) - 30;
		if (!in_blanks)
			assert_int_not_equal(seen.state, GIT_SIG_GOOD);
		auto_free char *cut = malloc(i + 1);
		memcpy(cut, tag, i);
		git_signature_tag(&seen, cut, i, &key);
		assert_true(seen.state != GIT_SIG_GOOD || i >= strlen(tag) - 1);
	}
	free(key.blob);
	assert_int_equal(git_ssh_key_parse(&key, "ssh-rsa AAAA", &err), -1);
	assert_int_equal(git_ssh_key_parse(&key, "ssh-ed25519 AAAA", &err), -1);
	assert_int_equal(git_ssh_key_parse(&key, "ssh-ed25519 ", &err), -1);
}

static git_oid annotate(git_repository *repo, const char *name, const git_oid *to, const char *ns,
                        uint8_t seed, const char *plain_sig, char line[256])
{
	git_oid id;
	auto_free char *text =
		str_fmt("object %s\ntype commit\ntag %s\ntagger T <t@example.org> 1000000000 +0000\n\n"
	                "release\n",
	                id_text(to), name);
	auto_free char *sig = ns ? ssh_sign(text, ns, seed, line) : strdup(plain_sig);
	auto_free char *all = str_fmt("%s%s", text, sig);
	good(git_tag_create_from_buffer(&id, repo, all, 0));
	return id;
}

static void tags_of_the_commit_and_their_signatures_are_told(void **state)
{
	static const struct {
		const char *name;
		bool annotated;
		enum git_signature_kind kind;
		enum git_signature_state state;
	} want[] = {
		{ "a-light", false, GIT_SIG_NONE, GIT_SIG_ABSENT },
		{ "b-plain", true, GIT_SIG_NONE, GIT_SIG_ABSENT },
		{ "c-gpg", true, GIT_SIG_GPG, GIT_SIG_NOT_VERIFIED },
		{ "d-good", true, GIT_SIG_SSH, GIT_SIG_GOOD },
		{ "e-other", true, GIT_SIG_SSH, GIT_SIG_BAD },
		{ "f-file", true, GIT_SIG_SSH, GIT_SIG_BAD },
	};
	git_repository *repo = NULL;
	git_oid one = small_repo("tags", &repo);
	char line[256], other[256];
	ref_to(repo, "refs/tags/a-light", &one);
	annotate(repo, "b-plain", &one, NULL, 0, "", NULL);
	annotate(repo, "c-gpg", &one, NULL, 0,
	         "-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n", NULL);
	annotate(repo, "d-good", &one, "git", 7, NULL, line);
	annotate(repo, "e-other", &one, "git", 8, NULL, other);
	annotate(repo, "f-file", &one, "file", 7, NULL, other);
	put("tags/a.c", "int c;\n");
	git_oid two = commit_all(repo, NULL, NULL);
	ref_to(repo, "refs/tags/later", &two);
	git_repository_free(repo);
	struct git_pin p;
	struct err err = { 0 };
	auto_free char *path = in_dir("tags");
	struct git_spec spec = { .path = path, .ref = "d-good", .ssh_key = line };
	assert_int_equal(git_pin_read(&p, &spec, &err), 0);
	assert_string_equal(p.commit, id_text(&one));
	assert_int_equal(p.n_tags, ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_string_equal(p.tags[i].name, want[i].name);
		assert_int_equal(p.tags[i].id[0] != '\0', want[i].annotated);
		assert_int_equal(p.tags[i].signature.kind, want[i].kind);
		assert_int_equal(p.tags[i].signature.state, want[i].state);
	}
	git_pin_done(&p);
	p = read_pin("tags", "d-good", NULL); /* without a key nothing is verified */
	assert_int_equal(p.tags[3].signature.state, GIT_SIG_NOT_VERIFIED);
	git_pin_done(&p);
}

static void a_commit_s_signature_is_verified(void **state)
{
	git_repository *repo = NULL;
	git_oid one = small_repo("signed", &repo), id;
	git_commit *commit = NULL;
	char line[256];
	git_buf text = { 0 };
	git_tree *tree = NULL;
	good(git_commit_lookup(&commit, repo, &one));
	good(git_commit_tree(&tree, commit));
	good(git_commit_create_buffer(&text, repo, git_commit_author(commit), git_commit_author(commit), NULL,
	                              "m\n", tree, 0, NULL));
	auto_free char *sig = ssh_sign(text.ptr, "git", 7, line);
	sig[strlen(sig) - 1] = '\0';
	good(git_commit_create_with_signature(&id, repo, text.ptr, sig, NULL));
	git_buf_dispose(&text);
	git_tree_free(tree);
	git_commit_free(commit);
	git_repository_free(repo);
	struct git_pin p;
	struct err err = { 0 };
	auto_free char *path = in_dir("signed");
	struct git_spec spec = { .path = path, .commit = id_text(&id), .ssh_key = line };
	assert_int_equal(git_pin_read(&p, &spec, &err), 0);
	assert_int_equal(p.signature.kind, GIT_SIG_SSH);
	assert_int_equal(p.signature.state, GIT_SIG_GOOD);
	git_pin_done(&p);
}

/* --- kinds of repositories -------------------------------------------------------------------------------
 */

static void bare_shallow_linked_and_borrowing_repositories_are_told(void **state)
{
	git_repository *repo = NULL, *bare = NULL;
	git_oid one = small_repo("kinds", &repo);
	git_worktree *wt = NULL;
	auto_free char *wt_path = in_dir("linked"), *objects = str_fmt("%s/kinds/.git/objects\n", dir);
	good(git_worktree_add(&wt, repo, "linked", wt_path, NULL));
	git_worktree_free(wt);
	struct git_pin p = read_pin("linked", NULL, NULL);
	assert_true(p.is_worktree);
	assert_int_equal(p.state.clean, GIT_CLEAN);
	assert_string_equal(p.head_ref, "refs/heads/linked");
	git_pin_done(&p);
	git_repository_free(repo);

	bare = new_repo("bare.git", true);
	git_repository_free(bare);
	put("bare.git/objects/info/alternates", objects);
	auto_free char *ref = str_fmt("%s\n", id_text(&one));
	put("bare.git/refs/heads/main", ref);
	put("bare.git/HEAD", "ref: refs/heads/main\n");
	p = read_pin("bare.git", "main", NULL);
	assert_true(p.bare);
	assert_int_equal(p.n_alternates, 1);
	assert_int_equal(p.state.clean, GIT_NO_WORKTREE);
	assert_string_equal(p.commit, id_text(&one));
	assert_false(git_pin_is_exact(&p));
	git_pin_done(&p);

	put("kinds/.git/shallow", ref);
	p = read_pin("kinds", NULL, NULL);
	assert_true(p.shallow);
	git_pin_done(&p);
	refuses("kinds", NULL, NO_ID, ERR_ENV, "shallow clone");
}

static void submodules_are_told_as_wanted_and_as_present(void **state)
{
	git_repository *top = NULL, *sub = NULL, *deep = NULL;
	small_repo("mods", &top);
	git_oid sub_one = small_repo("mods/third/sub", &sub);
	git_oid deep_one = small_repo("mods/third/sub/deep", &deep);
	git_oid sub_two = commit_all(sub, "deep", &deep_one);
	git_oid other;
	good(git_oid_fromstr(&other, NO_ID));
	commit_all(top, "third/sub", &sub_two);
	commit_all(top, "not-here", &other);
	git_repository_free(top);
	struct git_pin p = read_pin("mods", NULL, NULL);
	assert_int_equal(p.n_submodules, 3);
	assert_string_equal(p.submodules[0].path, "not-here");
	assert_string_equal(p.submodules[0].wanted, NO_ID);
	assert_string_equal(p.submodules[0].present, "");
	assert_int_equal(p.submodules[0].state.clean, GIT_NO_WORKTREE);
	assert_string_equal(p.submodules[1].path, "third/sub");
	assert_string_equal(p.submodules[1].present, id_text(&sub_two));
	assert_int_equal(p.submodules[1].state.clean, GIT_CLEAN);
	assert_string_equal(p.submodules[2].path, "third/sub/deep");
	assert_int_equal(p.submodules[2].depth, 2);
	assert_int_equal(p.submodules[2].state.clean, GIT_CLEAN);
	assert_int_equal(p.state.clean, GIT_CLEAN);
	assert_false(git_pin_is_exact(&p)); /* one is not checked out */
	git_pin_done(&p);

	put("mods/third/sub/deep/a.c", "int c;\n");
	good(git_repository_set_head_detached(sub, &sub_one));
	git_repository_free(sub);
	git_repository_free(deep);
	p = read_pin("mods", NULL, NULL);
	assert_true(p.submodules[1].moved);
	assert_string_equal(p.submodules[1].present, id_text(&sub_one));
	assert_int_equal(p.submodules[2].state.clean, GIT_DIRTY);
	assert_string_equal(p.submodules[2].state.first_changed, "a.c");
	git_pin_done(&p);

	put("mods/third/sub/deep/.git/config", "[[[");
	p = read_pin("mods", NULL, NULL);
	assert_int_equal(p.submodules[2].state.clean, GIT_CANNOT_SAY);
	assert_true(p.submodules[2].fault[0]);
	git_pin_done(&p);
}

/* --- hostile ---------------------------------------------------------------------------------------------
 */

static git_oid tree_of(git_repository *repo, const char *name, const git_oid *id, git_filemode_t mode,
                       int copies)
{
	git_oid out;
	auto_buf raw = BUF_INIT(1 << 20);
	git_odb *odb = NULL;
	for (int i = 0; i < copies; i++) {
		if (copies > 1)
			buf_addf(&raw, "%o %s%02d", mode, name, i);
		else
			buf_addf(&raw, "%o %s", mode, name);
		buf_addc(&raw, '\0');
		buf_add(&raw, id->id, sizeof(id->id));
	}
	good(git_repository_odb(&odb, repo));
	good(git_odb_write(&out, odb, raw.p, raw.len, GIT_OBJECT_TREE));
	git_odb_free(odb);
	return out;
}

static git_oid blob_of(git_repository *repo, const char *text)
{
	git_oid id;
	good(git_blob_create_from_buffer(&id, repo, text, strlen(text)));
	return id;
}

static void trees_are_bounded_and_their_names_are_looked_at(void **state)
{
	static const struct {
		const char *repo, *name;
		int copies, levels;
		const char *says;
	} cases[] = {
		{ "bomb", "d", 30, 8, "more than" },
		{ "deep", "d", 1, 200, "deep" },
		{ "dots", "..", 1, 1, "no checkout may have" },
		{ "dot-git", ".GIT", 1, 1, "no checkout may have" },
		{ "slash", "a/b", 1, 1, "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		git_repository *repo = new_repo(cases[i].repo, true);
		git_oid id = blob_of(repo, "x");
		id = tree_of(repo, "f", &id, GIT_FILEMODE_BLOB, 1);
		for (int n = 0; n < cases[i].levels; n++)
			id = tree_of(repo, cases[i].name, &id, GIT_FILEMODE_TREE, cases[i].copies);
		auto_free char *text = str_fmt(
			"tree %s\nauthor T <t@x> 1 +0000\ncommitter T <t@x> 1 +0000\n\nm\n", id_text(&id));
		git_odb *odb = NULL;
		git_oid commit;
		good(git_repository_odb(&odb, repo));
		good(git_odb_write(&commit, odb, text, strlen(text), GIT_OBJECT_COMMIT));
		git_odb_free(odb);
		git_repository_free(repo);
		refuses(cases[i].repo, NULL, id_text(&commit), ERR_PLAN, cases[i].says);
	}
}

static void flip(const char *path)
{
	auto_file f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, 8, SEEK_SET), 0);
	int c = fgetc(f);
	assert_int_equal(fseek(f, 8, SEEK_SET), 0);
	fputc(c ^ 0x55, f);
}

static void write_packed(const char *path, const char *head, size_t head_len, size_t n_content)
{
	uint8_t plain[256] = { 0 }, packed[512];
	uLongf n = sizeof(packed);
	memcpy(plain, head, head_len);
	memset(plain + head_len, 'x', n_content);
	assert_int_equal(compress(packed, &n, plain, head_len + n_content), Z_OK);
	auto_file f = fopen(path, "w");
	assert_true(f && fwrite(packed, 1, n, f) == n);
}

static void damaged_objects_are_no_commit(void **state)
{
	static const struct {
		const char *head; /* with its NUL */
		size_t n_content;
		const char *says;
	} cases[] = {
		{ "tree 3", 40, "longer than it says" },
		{ "tree 3", 200, "longer than it says" },
		{ "tree 100", 120, "longer than it says" },
		{ "tree 100", 40, "shorter than it says" },
		{ "tree 0", 0, "" },
		{ "tree 99999999999", 40, "more than the" },
		{ "tree 9999999999999", 40, "has no size" },
		{ "tree -1", 40, "has no size" },
		{ "tree ", 40, "has no size" },
		{ "tree", 0, "no header" },
		{ "blob 3", 3, "is a blob, want a tree" },
		{ "twig 3", 3, "no type" },
		{ "tree 40", 40, "" },
	};
	git_repository *repo = NULL;
	git_oid id = small_repo("damaged", &repo);
	git_commit *commit = NULL;
	good(git_commit_lookup(&commit, repo, &id));
	git_oid tree = *git_commit_tree_id(commit);
	git_commit_free(commit);
	git_repository_free(repo);
	const git_oid *const ids[] = { &id, &tree };
	char *path = NULL;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		free(path);
		path = str_fmt("%s/damaged/.git/objects/%.2s/%s", dir, id_text(ids[i]), id_text(ids[i]) + 2);
		assert_int_equal(chmod(path, 0600), 0);
		flip(path);
		refuses("damaged", NULL, id_text(&id), ERR_ENV, "loose object");
		flip(path);
		struct git_pin p = read_pin("damaged", NULL, NULL);
		git_pin_done(&p);
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		write_packed(path, cases[i].head, strlen(cases[i].head) + 1, cases[i].n_content);
		bool plan = strstr(cases[i].says, "want a") || strstr(cases[i].says, "more than the");
		refuses("damaged", NULL, id_text(&id), plan ? ERR_PLAN : ERR_ENV, cases[i].says);
	}
	assert_int_equal(truncate(path, 5), 0);
	refuses("damaged", NULL, id_text(&id), ERR_ENV, "loose object");
	assert_int_equal(unlink(path) || mkfifo(path, 0600), 0);
	refuses("damaged", NULL, id_text(&id), ERR_ENV, "no regular file");
	assert_int_equal(unlink(path), 0);
	refuses("damaged", NULL, id_text(&id), ERR_ENV, "is not in the repository");
	free(path);
}

static void files_of_the_repository_are_looked_at_before_they_are_opened(void **state)
{
	static const struct {
		const char *file, *text; /* NULL = a pipe */
		enum err_class cls;
		const char *says;
	} cases[] = {
		{ ".git/HEAD", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/index", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/packed-refs", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/config", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/commondir", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/objects/info/alternates", NULL, ERR_PLAN, "want a regular file" },
		{ ".git/config", "[include]\n\tpath = /dev/zero\n", ERR_PLAN, "want a regular file" },
		{ ".git/config", "[include]\n\tpath = config\n", ERR_PLAN, "includes deep" },
		{ ".git/config",
		  "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n", ERR_PLAN,
		  "sha256; only SHA-1" },
		{ ".git/config", "[extensions] refstorage = \"reftable\"\n", ERR_PLAN,
		  "reftable; only files" },
		{ ".git/config", "[core]\n\tworktree = /\n", ERR_PLAN, "working tree is /" },
		{ ".git/config", "[[[", ERR_ENV, "" },
		{ ".git/HEAD", "", ERR_ENV, "" },
		{ ".git/index", "DIRC\0\0\0\2", ERR_ENV, "" },
		{ ".git/HEAD", "ref: refs/heads/loop\n", ERR_PLAN, "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char name[32];
		snprintf(name, sizeof(name), "before%zu", i);
		small_repo(name, NULL);
		auto_free char *file = str_fmt("%s/%s", name, cases[i].file), *path = in_dir(file);
		print_message("%zu %s\n", i, cases[i].file);
		if (cases[i].text) {
			put(file, cases[i].text);
		} else {
			unlink(path);
			assert_int_equal(mkfifo(path, 0600), 0);
		}
		refuses(name, NULL, NULL, cases[i].cls, cases[i].says);
	}
	small_repo("elsewhere", NULL);
	put("pointer/.git", "gitdir: ../elsewhere/.git\n");
	auto_free char *loop = in_dir("loop.git"), *empty = in_dir("empty");
	struct git_pin p =
		read_pin("pointer", NULL, NULL); /* it is told as what it is: nothing of it is there */
	assert_int_equal(p.state.n_missing, 5);
	git_pin_done(&p);
	put("pointer/.git", "nonsense");
	refuses("pointer", NULL, NULL, ERR_PLAN, "gitdir");
	put("pointer/.git", "gitdir: .git\n");
	refuses("pointer", NULL, NULL, ERR_ENV, "");
	assert_int_equal(symlink("loop.git", loop) || mkdir(empty, 0700), 0);
	refuses("loop.git", NULL, NULL, ERR_ENV, "symbolic");
	refuses("empty", NULL, NULL, ERR_ENV, "");
	refuses("nowhere", NULL, NULL, ERR_ENV, "No such file");
}

static void loops_of_links_alternates_and_refs_end(void **state)
{
	small_repo("loops", NULL);
	auto_free char *self = in_dir("loops/sub/self"), *up = in_dir("loops/sub/up");
	auto_free char *own = str_fmt("%s/loops/.git/objects\n", dir);
	assert_int_equal(symlink("self", self) || symlink("..", up), 0);
	put("loops/.git/objects/info/alternates", own);
	put("loops/.git/refs/heads/x", "ref: refs/heads/y\n");
	put("loops/.git/refs/heads/y", "ref: refs/heads/x\n");
	struct git_pin p = read_pin("loops", "main", NULL);
	assert_int_equal(p.state.clean, GIT_UNTRACKED_TOO);
	assert_int_equal(p.state.n_untracked, 2);
	assert_int_equal(p.n_alternates, 1);
	git_pin_done(&p);
	refuses("loops", "x", NULL, ERR_ENV, "");
	bool stop = true;
	struct err err = { 0 };
	auto_free char *path = in_dir("loops");
	struct git_spec spec = { .path = path, .stop = &stop };
	assert_int_equal(git_pin_read(&p, &spec, &err), -1);
	assert_int_equal(err.cls, ERR_INTERRUPTED);
}

static void more_untracked_files_than_are_counted_is_said(void **state)
{
	small_repo("many", NULL);
	for (unsigned i = 0; i < GIT_UNTRACKED_MAX + 5; i++) {
		auto_free char *path = str_fmt("%s/many/u%u", dir, i);
		auto_file f = fopen(path, "w");
		assert_non_null(f);
	}
	struct git_pin p = read_pin("many", NULL, NULL);
	assert_int_equal(p.state.n_untracked, GIT_UNTRACKED_MAX);
	assert_true(p.state.untracked_capped);
	git_pin_done(&p);
}

static void json_is_whole_also_with_odd_names(void **state)
{
	git_repository *repo = NULL;
	git_oid one = small_repo("json", &repo), none;
	good(git_oid_fromstr(&none, NO_ID));
	ref_to(repo, "refs/tags/q\"\xc3\xa4", &one);
	commit_all(repo, "mod\"\x01", &none);
	git_repository_free(repo);
	struct git_pin p = read_pin("json", NULL, id_text(&one));
	auto_buf b = BUF_INIT(1 << 16);
	auto_json doc = NULL;
	struct json_out o;
	struct err err = { 0 };
	jo_init(&o, &b, 0);
	git_pin_json(&o, NULL, &p);
	assert_int_equal(json_parse(&doc, b.p, b.len, "pin", JSON_STRICT, NULL, &err), 0);
	assert_string_equal(json_str(doc, "commit"), id_text(&one));
	assert_string_equal(json_str(json_get(doc, "worktree"), "state"), "dirty");
	assert_non_null(strstr(b.p, "\"ref\":null"));
	assert_non_null(strstr(b.p, "q\\\"\xc3\xa4"));
	git_pin_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clean_checkout_is_told_in_full),
		cmocka_unit_test(every_difference_from_the_commit_is_counted),
		cmocka_unit_test(line_ends_are_no_change_and_a_filter_cannot_be_told),
		cmocka_unit_test(what_lies_there_is_compared_with_the_pin_not_with_head),
		cmocka_unit_test(names_lead_to_one_commit_or_are_refused),
		cmocka_unit_test(a_ref_that_moved_is_told_with_both_ids),
		cmocka_unit_test(a_signature_of_ssh_keygen_is_verified),
		cmocka_unit_test(tags_of_the_commit_and_their_signatures_are_told),
		cmocka_unit_test(a_commit_s_signature_is_verified),
		cmocka_unit_test(bare_shallow_linked_and_borrowing_repositories_are_told),
		cmocka_unit_test(submodules_are_told_as_wanted_and_as_present),
		cmocka_unit_test(trees_are_bounded_and_their_names_are_looked_at),
		cmocka_unit_test(damaged_objects_are_no_commit),
		cmocka_unit_test(files_of_the_repository_are_looked_at_before_they_are_opened),
		cmocka_unit_test(loops_of_links_alternates_and_refs_end),
		cmocka_unit_test(more_untracked_files_than_are_counted_is_said),
		cmocka_unit_test(json_is_whole_also_with_odd_names),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
