/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/model_facts.h"

#include "base/fs.h"
#include "base/hash.h"
#include "pin/hf_parts.h"
#include "pin/lfs.h"
#include "pin/model_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define HASHED_BYTES_MAX (64u << 20)
enum { FILES_MAX = 20000 };

/* --- files --------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

enum model_role model_role_of(const char *file)
{
	static const struct {
		const char *end;
		enum model_role role;
	} ends[] = {
		{ ".gguf", MODEL_WEIGHTS },
		{ ".safetensors", MODEL_WEIGHTS },
		{ ".bin", MODEL_WEIGHTS },
		{ ".pt", MODEL_WEIGHTS },
		{ ".pth", MODEL_WEIGHTS },
		{ "tokenizer.json", MODEL_TOKENIZER },
		{ "tokenizer_config.json", MODEL_TOKENIZER },
		{ "special_tokens_map.json", MODEL_TOKENIZER },
		{ "added_tokens.json", MODEL_TOKENIZER },
		{ "vocab.json", MODEL_TOKENIZER },
		{ "merges.txt", MODEL_TOKENIZER },
		{ "vocab.txt", MODEL_TOKENIZER },
		{ ".tiktoken", MODEL_TOKENIZER },
		{ "tokenizer.model", MODEL_TOKENIZER },
		{ "spiece.model", MODEL_TOKENIZER },
		{ "tekken.json", MODEL_TOKENIZER },
		{ ".jinja", MODEL_TOKENIZER },
		{ "chat_template.json", MODEL_TOKENIZER },
		{ "model.sig", MODEL_SIGNATURE },
		{ ".sigstore", MODEL_SIGNATURE },
		{ ".json", MODEL_CONFIG },
	};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ends_with(file, ends[i].end))
			return ends[i].role;
	return MODEL_OTHER;
}

const char *model_role_word(enum model_role role)
{
	static const char *const words[] = { "weights", "config", "tokenizer", "signature", "other" };
	return (size_t)role < ARRAY_LEN(words) ? words[role] : "other";
}

static int add_file(struct model_facts *f, const char *dir, const char *name, struct err *err)
{
	struct lfs_pointer lfs;
	struct stat st;
	auto_free char *path = fs_join(dir, name);
	if (!path)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	struct model_file *list = realloc(f->files, (f->n_files + 1) * sizeof(*list));
	if (!list)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	f->files = list;
	struct model_file *m = &list[f->n_files];
	*m = (struct model_file){ .role = model_role_of(name), .bytes = (uint64_t)st.st_size };
	m->name = strdup(name);
	if (!m->name)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	f->n_files++;
	m->is_lfs_pointer = lfs_pointer_read(&lfs, fd, m->bytes);
	if (m->is_lfs_pointer && m->role != MODEL_WEIGHTS)
		problem_add(&f->problems, PROBLEM_ERROR, name,
		            "a Git LFS pointer text, the real file was not fetched: git lfs pull");
	if ((m->role == MODEL_CONFIG || m->role == MODEL_TOKENIZER) && m->bytes <= HASHED_BYTES_MAX)
		return sha256_fd(m->sha256, NULL, fd, path, err);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct model_file *)a)->name, ((const struct model_file *)b)->name);
}

static int list_files(struct model_facts *f, struct err *err)
{
	int rc = 0;
	DIR *d = opendir(f->dir);
	if (!d)
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", f->dir);
	for (struct dirent *e; rc == 0 && (e = readdir(d));) {
		if (f->n_files > FILES_MAX)
			rc = err_set(err, ERR_PLAN, "%s: more than %d files", f->dir, FILES_MAX);
		else if (e->d_name[0] != '.')
			rc = add_file(f, f->dir, e->d_name, err);
	}
	closedir(d);
	if (f->n_files)
		qsort(f->files, f->n_files, sizeof(*f->files), by_name);
	return rc;
}

static bool has_file(const struct model_facts *f, const char *name)
{
	for (size_t i = 0; i < f->n_files; i++)
		if (strcmp(f->files[i].name, name) == 0)
			return true;
	return false;
}

/* --- which model a folder holds ------------------------------------------------------------------------ */

static bool is_projector(const char *file)
{
	return strstr(file, "mmproj") != NULL;
}

/* The first file of the one GGUF model; NULL when there is none. */
static int choose_gguf(const char **out, const struct model_facts *f, struct err *err)
{
	const char *found = NULL;
	for (size_t i = 0; i < f->n_files; i++) {
		const char *name = f->files[i].name;
		if (!ends_with(name, ".gguf") || is_projector(name) || (found && gguf_same_set(found, name)))
			continue;
		if (found)
			return err_set(err, ERR_PLAN,
			               "%s: holds several models (%.80s, %.80s): name one file", f->path,
			               found, name);
		found = name;
	}
	*out = found;
	return 0;
}

static bool holds(const struct model_facts *f, const char *end)
{
	for (size_t i = 0; i < f->n_files; i++)
		if (ends_with(f->files[i].name, end))
			return true;
	return false;
}

static int open_folder(struct model_facts *f, struct err *err)
{
	const char *gguf = NULL;
	if (list_files(f, err) || choose_gguf(&gguf, f, err))
		return -1;
	bool st = holds(f, ".safetensors") || holds(f, ".safetensors.index.json");
	if (st) {
		f->format = MODEL_SAFETENSORS;
		if (gguf)
			problem_add(&f->problems, PROBLEM_WARNING, gguf,
			            "lies beside safetensors: not counted");
		return st_set_read(&f->st, f->dir, err);
	}
	if (!gguf) {
		bool pickled = holds(f, ".bin") || holds(f, ".pt") || holds(f, ".pth");
		return err_set(err, ERR_PLAN,
		               pickled ? "%s: holds pickled weights only: those are not read (they can run "
		                         "code); convert them to safetensors"
		                       : "%s: holds no GGUF and no safetensors file",
		               f->path);
	}
	auto_free char *path = fs_join(f->dir, gguf);
	f->format = MODEL_GGUF;
	return path ? gguf_set_read(&f->gguf, path, err) : err_set(err, ERR_ENV, "no memory");
}

static int open_file(struct model_facts *f, struct err *err)
{
	const char *slash = strrchr(f->path, '/');
	if (ends_with(f->path, ".safetensors")) {
		f->format = MODEL_SAFETENSORS;
		return st_set_of_file(&f->st, f->path, err) ||
		                       add_file(f, f->dir, slash ? slash + 1 : f->path, err)
		               ? -1
		               : 0;
	}
	f->format = MODEL_GGUF;
	if (gguf_set_read(&f->gguf, f->path, err))
		return -1;
	for (size_t i = 0; i < f->gguf.n_parts; i++)
		if (f->gguf.parts[i].is_read && add_file(f, f->dir, f->gguf.parts[i].file, err))
			return -1;
	return 0;
}

/* --- config files -------------------------------------------------------------------------------------- */

static void hash_text(char out[65], const char *text)
{
	sha256_hex_of(text, strlen(text), out);
}

static void read_template(struct model_facts *f)
{
	auto_json doc = NULL;
	struct err ignored = { 0 };
	for (size_t i = 0; i < f->n_files; i++)
		if (strcmp(f->files[i].name, "chat_template.jinja") == 0) {
			memcpy(f->chat_template_sha256, f->files[i].sha256, sizeof(f->chat_template_sha256));
			return;
		}
	if (hf_json_read(&doc, f->dir, "tokenizer_config.json", &ignored))
		problem_add(&f->problems, PROBLEM_ERROR, "tokenizer_config.json", "%s", ignored.msg);
	const char *text = json_str(doc, "chat_template");
	if (text)
		hash_text(f->chat_template_sha256, text);
}

static int read_configs(struct model_facts *f, struct err *err)
{
	if (!has_file(f, "config.json")) {
		problem_add(&f->problems, PROBLEM_WARNING, "config.json",
		            "is not there: shape and KV size are not known");
		return 0;
	}
	if (hf_config_read(&f->config, f->dir, err))
		return -1;
	f->has_config = true;
	if (!has_file(f, "tokenizer.json") && !has_file(f, "tokenizer.model") && !has_file(f, "vocab.json") &&
	    !has_file(f, "tekken.json") && !has_file(f, "vocab.txt") && !holds(f, ".tiktoken"))
		problem_add(&f->problems, PROBLEM_WARNING, "tokenizer.json",
		            "is not there, nor another tokenizer that is known");
	read_template(f);
	return 0;
}

static void take_problems(struct problems *to, struct problems *from)
{
	for (size_t i = 0; i < from->n; i++)
		problem_add(to, from->list[i].kind, from->list[i].pointer, "%s", from->list[i].text);
	to->n_errors += from->n_errors;
	to->n_warnings += from->n_warnings;
	for (size_t i = 0; i < from->n; i++) { /* counted twice above */
		if (from->list[i].kind == PROBLEM_ERROR)
			to->n_errors--;
		else
			to->n_warnings--;
	}
}

/* --- all together -------------------------------------------------------------------------------------- */

static int inspect(struct model_facts *f, struct err *err)
{
	struct stat st;
	if (stat(f->path, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", f->path);
	bool folder = S_ISDIR(st.st_mode);
	f->dir = folder ? strdup(f->path) : fs_dirname(f->path);
	if (!f->dir)
		return err_set(err, ERR_ENV, "no memory");
	if (folder ? open_folder(f, err) : open_file(f, err))
		return -1;
	if (folder && f->format == MODEL_SAFETENSORS && read_configs(f, err))
		return -1;
	if (f->format == MODEL_GGUF)
		model_facts_from_gguf(f);
	else
		model_facts_from_st(f);
	take_problems(&f->problems, &f->gguf.problems);
	take_problems(&f->problems, &f->st.problems);
	take_problems(&f->problems, &f->config.problems);
	model_revision_read(&f->revision, f->dir, &f->problems);
	return 0;
}

int model_inspect(struct model_facts *out, const char *path, struct err *err)
{
	auto_free struct model_facts *f = calloc(1, sizeof(*f));
	if (!f || !(f->path = strdup(path)))
		return err_set(err, ERR_ENV, "no memory");
	f->n_parameters = f->n_layers = f->embedding = f->n_heads = f->context_tok = f->vocab_tok =
		MODEL_NONE;
	f->n_experts = f->n_experts_used = MODEL_NONE;
	f->bits_per_weight = f->rope_theta = f->rope_factor = (double)NAN;
	if (inspect(f, err)) {
		model_facts_done(f);
		return -1;
	}
	*out = *f;
	return 0;
}

const struct kv_model *model_kv(const struct model_facts *f)
{
	if (f->gguf_kv.n_layers)
		return &f->gguf_kv;
	return f->config.kv.n_layers ? &f->config.kv : NULL;
}

void model_facts_done(struct model_facts *f)
{
	for (size_t i = 0; i < f->n_files; i++)
		free(f->files[i].name);
	free(f->files);
	free(f->path);
	free(f->dir);
	gguf_set_done(&f->gguf);
	st_set_done(&f->st);
	hf_config_done(&f->config);
	kv_model_done(&f->gguf_kv);
	problems_done(&f->problems);
	*f = (struct model_facts){ 0 };
}
