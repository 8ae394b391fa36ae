/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fs.h"
#include "base/json_in.h"
#include "pin/model_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
static const char other_commit[] = "fedcba9876543210fedcba9876543210fedcba98";

static char dir[64];

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/proofmark-facts-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
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

static void put(const char *name, const void *data, size_t len)
{
	struct err err = { 0 };
	auto_free char *path = fs_join(dir, name);
	auto_free char *parent = fs_dirname(path);
	if (fs_mkdir_p(parent, &err) || fs_write(path, data, len, &err))
		fail_msg("%s", err.msg);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

/* A model of two layers with one tensor each, all of dtype U8 or F16. */
static void put_model(const char *folder, const char *dtype, unsigned bytes_each)
{
	auto_buf b = BUF_INIT(4096);
	auto_free char *weights = str_fmt("%s/model.safetensors", folder);
	auto_free char *config = str_fmt("%s/config.json", folder);
	auto_free char *tokenizer = str_fmt("%s/tokenizer.json", folder);
	char header[512];
	int n = snprintf(
		header, sizeof(header),
		"{\"model.layers.0.q.weight\":{\"dtype\":\"%s\",\"shape\":[4,4],\"data_offsets\":[0,%u]},"
		"\"model.layers.1.q.weight\":{\"dtype\":\"%s\",\"shape\":[4,4],\"data_offsets\":[%u,%u]}}",
		dtype, bytes_each, dtype, bytes_each, 2 * bytes_each);
	uint64_t len = (uint64_t)n;
	buf_add(&b, &len, 8);
	buf_add(&b, header, (size_t)n);
	for (unsigned i = 0; i < 2 * bytes_each; i++)
		buf_addc(&b, 1);
	put(weights, b.p, b.len);
	put_text(config, "{\"architectures\":[\"TinyModel\"],\"model_type\":\"tiny\",\"hidden_size\":64,"
	                 "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"torch_dtype\":\"float16\"}");
	put_text(tokenizer, "{}");
}

static struct model_facts inspect(const char *name)
{
	struct model_facts f;
	struct err err = { 0 };
	auto_free char *path = fs_join(dir, name);
	if (model_inspect(&f, path, &err))
		fail_msg("%s", err.msg);
	return f;
}

static bool says(const struct model_facts *f, enum problem_kind kind, const char *text)
{
	for (size_t i = 0; i < f->problems.n; i++)
		if (f->problems.list[i].kind == kind && strstr(f->problems.list[i].text, text))
			return true;
	return false;
}

static void tells_a_folder_in_one_answer(void **state)
{
	put_model("good", "F16", 32);
	struct model_facts f = inspect("good");
	assert_int_equal(f.format, MODEL_SAFETENSORS);
	assert_string_equal(f.architecture, "TinyModel");
	assert_int_equal(f.n_tensors, 2);
	assert_int_equal(f.tensor_bytes, 64);
	assert_int_equal(f.n_parameters, 32);
	assert_true(f.bits_per_weight > 15.99 && f.bits_per_weight < 16.01);
	assert_int_equal(f.problems.n_errors, 0);
	assert_int_equal(f.n_files, 3);
	assert_string_equal(f.files[0].name, "config.json");
	assert_int_equal(f.files[1].role, MODEL_WEIGHTS);
	assert_string_equal(f.files[1].sha256, ""); /* weights are not hashed here */
	assert_string_equal(f.files[2].sha256,
	                    "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
	assert_non_null(model_kv(&f));
	assert_int_equal(model_kv(&f)->n_layers, 2);
	assert_string_equal(f.revision.source, "");
	model_facts_done(&f);
}

static void json_is_json_and_unknown_is_null(void **state)
{
	struct json_out o;
	struct err err = { 0 };
	auto_buf text = BUF_INIT(1 << 20);
	auto_json doc = NULL;
	put_model("json", "F16", 32);
	struct model_facts f = inspect("json");
	jo_init(&o, &text, 2);
	model_facts_json(&o, NULL, &f);
	if (json_parse(&doc, text.p, text.len, "facts", JSON_STRICT, NULL, &err))
		fail_msg("%s", err.msg);
	assert_true(cJSON_IsNull(json_get(doc, "vocab_tok")));
	assert_true(cJSON_IsNull(json_get(doc, "revision")));
	assert_true(cJSON_IsNull(json_get(doc, "quantisation")));
	assert_true(cJSON_IsObject(json_get(doc, "kv")));
	assert_int_equal(cJSON_GetArraySize(json_get(doc, "files")), 3);
	model_facts_done(&f);
}

static void tensors_and_config_have_to_agree(void **state)
{
	put_model("quant", "F8_E4M3", 16);
	struct model_facts f = inspect("quant");
	assert_true(says(&f, PROBLEM_ERROR, "names no quantisation"));
	model_facts_done(&f);
	put_model("plain", "F16", 32);
	put_text("plain/quantize_config.json", "{\"bits\":4,\"group_size\":128}");
	f = inspect("plain");
	assert_true(says(&f, PROBLEM_ERROR, "no tensor is quantised"));
	model_facts_done(&f);
	put_model("layers", "F16", 32);
	put_text("layers/config.json",
	         "{\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":4}");
	f = inspect("layers");
	assert_true(says(&f, PROBLEM_ERROR, "num_hidden_layers and the layers in the tensors differ"));
	model_facts_done(&f);
}

static void a_pointer_is_never_a_tokenizer(void **state)
{
	put_model("lfs", "F16", 32);
	put_text("lfs/tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:"
	                               "9a1b7f0c4d2e6f83b5c0a7d9e1f24c68aa02be5573d4c19e8f60b71325ad94ce\n"
	                               "size 7\n");
	struct model_facts f = inspect("lfs");
	assert_true(says(&f, PROBLEM_ERROR, "Git LFS pointer"));
	model_facts_done(&f);
}

static void finds_the_revision(void **state)
{
	static const struct {
		const char *folder, *file, *text, *source, *repository;
	} cases[] = {
		{ "hub/models--some-org--a-model/snapshots/" COMMIT, NULL, NULL, "hub snapshot",
		  "some-org/a-model" },
		{ "local", ".cache/huggingface/download/config.json.metadata", COMMIT "\netag\n1.5\n",
		  "hub download", "" },
		{ "detached", ".git/HEAD", COMMIT "\n", "git checkout", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put_model(cases[i].folder, "F16", 32);
		auto_free char *file = cases[i].file ? fs_join(cases[i].folder, cases[i].file) : NULL;
		if (file)
			put_text(file, cases[i].text);
		struct model_facts f = inspect(cases[i].folder);
		assert_string_equal(f.revision.source, cases[i].source);
		assert_string_equal(f.revision.repository, cases[i].repository);
		assert_string_equal(f.revision.commit, COMMIT);
		model_facts_done(&f);
	}
}

static void reads_git_references(void **state)
{
	put_model("git", "F16", 32);
	put_text("git/.git/HEAD", "ref: refs/heads/main\n");
	struct model_facts f = inspect("git");
	assert_string_equal(f.revision.commit, ""); /* no commit yet */
	model_facts_done(&f);
	put_text("git/.git/packed-refs", "# pack-refs\n" COMMIT " refs/heads/main\n");
	f = inspect("git");
	assert_string_equal(f.revision.commit, COMMIT);
	model_facts_done(&f);
	put_text("git/.git/refs/heads/main", other_commit);
	f = inspect("git");
	assert_string_equal(f.revision.commit, other_commit);
	model_facts_done(&f);
	put_text("git/.git/HEAD", "ref: refs/../../../good/config.json\n");
	f = inspect("git");
	assert_string_equal(f.revision.commit, "");
	model_facts_done(&f);
}

static void files_of_two_downloads_are_a_contradiction(void **state)
{
	put_model("two", "F16", 32);
	put_text("two/.cache/huggingface/download/a.metadata", COMMIT "\n");
	put_text("two/.cache/huggingface/download/b.metadata", other_commit);
	struct model_facts f = inspect("two");
	assert_true(says(&f, PROBLEM_ERROR, "was fetched from commit"));
	model_facts_done(&f);
}

static void refuses_what_is_no_model(void **state)
{
	static const struct {
		const char *name, *says;
		enum err_class cls;
	} cases[] = { { "nowhere", "cannot open", ERR_ENV },
		      { "empty", "holds no GGUF and no safetensors", ERR_PLAN },
		      { "text.gguf", "bad magic", ERR_PLAN },
		      { "both", "holds several models", ERR_PLAN } };
	put_text("empty/README.md", "x");
	put_text("text.gguf", "this is a text, and not a model");
	put_text("both/a.gguf", "x");
	put_text("both/b.gguf", "x");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_facts f = { .n_tensors = 77 };
		struct err err = { 0 };
		auto_free char *path = fs_join(dir, cases[i].name);
		assert_int_equal(model_inspect(&f, path, &err), -1);
		assert_int_equal(err.cls, cases[i].cls);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("want \"%s\", got \"%s\"", cases[i].says, err.msg);
		assert_int_equal(f.n_tensors, 77); /* untouched */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_a_folder_in_one_answer),
		cmocka_unit_test(json_is_json_and_unknown_is_null),
		cmocka_unit_test(tensors_and_config_have_to_agree),
		cmocka_unit_test(a_pointer_is_never_a_tokenizer),
		cmocka_unit_test(finds_the_revision),
		cmocka_unit_test(reads_git_references),
		cmocka_unit_test(files_of_two_downloads_are_a_contradiction),
		cmocka_unit_test(refuses_what_is_no_model),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
