/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/init_facts.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_in.h"
#include "engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_BYTES_MAX (16u << 20)
#define FILES_MAX 1024
#define WHY_BYTES (1u << 20)
#define WHY_NS (10 * NS_PER_S)

void init_facts_done(struct init_facts *f)
{
	free(f->id);
	free(f->dtype);
	free(f->quantization);
	pin_files_done(&f->files);
	free(f->url);
	free(f->engine_version);
	free(f->engine_commit);
	*f = (struct init_facts){ 0 };
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n > m && strcmp(s + n - m, end) == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

struct paths {
	size_t n;
	char *list[FILES_MAX];
};

static void paths_done(struct paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->list[i]);
}

/* Weights first, then by name: the first file is what {model} stands for. */
static int by_use(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	int other = ends_with(x, ".safetensors") ? 0 : 1, than = ends_with(y, ".safetensors") ? 0 : 1;

	return other != than ? other - than : strcmp(x, y);
}

/* --- GGUF ---------------------------------------------------------------------------------------------- */

/* "x-00001-of-00003.gguf" -> 3; 1 when the name is not of a split set. */
static unsigned split_count(const char *path, size_t *stem_len)
{
	size_t len = strlen(path), tail = strlen("-00001-of-00003.gguf");
	unsigned part, of;
	int used = 0;

	if (len <= tail || sscanf(path + len - tail, "-%5u-of-%5u.gguf%n", &part, &of, &used) != 2 ||
	    (size_t)used != tail || of < 1 || of > FILES_MAX)
		return 1;
	*stem_len = len - tail;
	return of;
}

static int gguf_paths(struct paths *out, const char *path, struct err *err)
{
	size_t stem = 0;
	unsigned n = split_count(path, &stem);

	for (unsigned i = 1; i <= n; i++) {
		char *p = n == 1 ? strdup(path) : str_fmt("%.*s-%05u-of-%05u.gguf", (int)stem, path, i, n);
		if (!p)
			return err_set(err, ERR_ENV, "out of memory");
		out->list[out->n++] = p;
	}
	return 0;
}

static int from_gguf(struct init_facts *f, struct paths *files, const char *path, struct err *err)
{
	struct gguf_facts g;

	if (init_read_gguf(&g, path, err) || gguf_paths(files, path, err))
		return -1;
	free(g.architecture);
	free(f->id);
	f->id = g.name ? g.name : strdup(base_name(path));
	f->format = "gguf";
	free(f->quantization);
	f->quantization = g.quantization ? strdup(g.quantization) : NULL;
	if (!f->context_tok) /* what a server gives one request is less than what the model could */
		f->context_tok = g.context_tok;
	return 0;
}

/* --- folders ------------------------------------------------------------------------------------------- */

static bool is_of_the_model(const char *name)
{
	static const char *const ends[] = { ".safetensors", ".safetensors.index.json", NULL };
	static const char *const names[] = { "config.json",
		                             "generation_config.json",
		                             "tokenizer.json",
		                             "tokenizer.model",
		                             "tokenizer_config.json",
		                             "chat_template.jinja",
		                             "special_tokens_map.json",
		                             NULL };
	for (const char *const *n = names; *n; n++)
		if (strcmp(name, *n) == 0)
			return true;
	for (const char *const *e = ends; *e; e++)
		if (ends_with(name, *e))
			return true;
	return false;
}

static int folder_paths(struct paths *out, const char *folder, struct err *err)
{
	DIR *d = opendir(folder);
	bool weights = false;

	if (!d)
		return err_sys(err, ERR_ENV, errno, "%s", folder);
	for (struct dirent *e; (e = readdir(d)) && out->n < FILES_MAX;) {
		if (!is_of_the_model(e->d_name))
			continue;
		weights |= ends_with(e->d_name, ".safetensors");
		char *p = fs_join(folder, e->d_name);
		if (p)
			out->list[out->n++] = p;
	}
	closedir(d);
	if (!weights)
		return err_set(err, ERR_PLAN, "%s: no .safetensors file in this folder", folder);
	qsort(out->list, out->n, sizeof(*out->list), by_use);
	return 0;
}

static void take_config(struct init_facts *f, const struct cJSON *config)
{
	static const char *const lengths[] = { "max_position_embeddings", "n_positions",
		                               "max_sequence_length", "seq_length", NULL };
	const struct cJSON *text = json_get(config, "text_config");
	const char *dtype = json_str(config, "torch_dtype"), *quant;

	for (const char *const *k = lengths; *k && !f->context_tok; k++)
		if (!json_u64(config, *k, &f->context_tok) && text)
			json_u64(text, *k, &f->context_tok);
	if (!dtype)
		dtype = json_str(config, "dtype");
	if (!dtype && text)
		dtype = json_str(text, "torch_dtype");
	f->dtype = dtype && !f->dtype ? strdup(dtype) : f->dtype;
	quant = json_str(json_get(config, "quantization_config"), "quant_method");
	f->quantization = quant && !f->quantization ? strdup(quant) : f->quantization;
}

static int from_folder(struct init_facts *f, struct paths *files, const char *folder, struct err *err)
{
	auto_free char *path = fs_join(folder, "config.json");
	auto_buf text = BUF_INIT(CONFIG_BYTES_MAX);
	auto_json config = NULL;

	if (!path)
		return err_set(err, ERR_ENV, "out of memory");
	if (fs_read(&text, path, CONFIG_BYTES_MAX, err) ||
	    json_parse(&config, text.p, text.len, path, JSON_ENGINE, NULL, err) ||
	    folder_paths(files, folder, err))
		return -1;
	take_config(f, config);
	f->format = "safetensors";
	if (!f->id)
		f->id = strdup(base_name(folder));
	return 0;
}

int init_from_model(struct init_facts *f, const char *path, struct err *err)
{
	__attribute__((cleanup(paths_done))) struct paths files = { 0 };
	auto_free char *full = realpath(path, NULL);
	struct pin_files pinned = { 0 };
	struct stat st;

	if (!full || stat(full, &st) < 0)
		return err_sys(err, ERR_ENV, errno, "%s", path);
	int rc = S_ISDIR(st.st_mode) ? from_folder(f, &files, full, err) : from_gguf(f, &files, full, err);
	if (rc || pin_hash_files(&pinned, (const char *const *)files.list, files.n, true, NULL, err))
		return -1;
	pin_files_done(&f->files);
	f->files = pinned;
	return 0;
}

/* --- a running server ---------------------------------------------------------------------------------- */

static void take_identity(struct init_facts *f, struct engine_identity *id)
{
	if (!f->id && id->model_name)
		f->id = strdup(base_name(id->model_name));
	if (id->context_tok)
		f->context_tok = id->context_tok;
	f->slots = id->slots;
	f->engine_version = steal_ptr(&id->version);
	if (!f->engine_version)
		f->engine_version = steal_ptr(&id->build);
	if (id->commit && (strlen(id->commit) == 40 || strlen(id->commit) == 64))
		f->engine_commit = steal_ptr(&id->commit);
}

/* Nothing told what the server is: nobody there, a key is wanted, or the path is another. */
static void say_why(struct http_client *c, const char *base, struct err *err)
{
	auto_buf answer = BUF_INIT(WHY_BYTES);
	int status = 0;
	if (http_call(c, "/v1/models", NULL, clock_now_ns() + WHY_NS, WHY_BYTES, &status, &answer, err))
		err_wrap(err, "no server answers");
	else if (status == 401 || status == 403)
		err_set(err, ERR_ENV,
		        "%s: HTTP %d: it wants a key, which init cannot give; write the plan by hand "
		        "('api_key' in proofmark-plan(5))",
		        base, status);
	else
		err_set(err, ERR_ENV,
		        "%s: HTTP %d for /v1/models, and no other place tells what it is; is the path right? "
		        "it has no /v1",
		        base, status);
}

int init_from_url(struct init_facts *f, const char *url, struct err *err)
{
	size_t len = strlen(url);
	while (len > 8 && url[len - 1] == '/')
		len--;
	auto_free char *base = strndup(url, len);
	struct http_spec spec = { .base_url = base };
	struct http_client *c = NULL;
	struct engine_identity id = { 0 };

	if (!base)
		return err_set(err, ERR_ENV, "out of memory");
	if (http_open(&c, &spec, err))
		return -1;
	int rc = engine_find(ENGINE_ATTACH)->identity(c, &id, err);
	if (rc)
		say_why(c, base, err);
	http_close(c);
	if (rc)
		return -1;
	take_identity(f, &id);
	f->url = steal_ptr(&base);
	/* its word for the file is only a hint: on another machine the path means nothing */
	struct err ignored;
	if (!f->files.n && id.model_path && init_from_model(f, id.model_path, &ignored))
		fprintf(stderr,
		        "proofmark: the model file that the server names cannot be read here: fill in "
		        "'revision' and 'format' by hand\n");
	engine_identity_done(&id);
	return 0;
}
