/* SPDX-License-Identifier: Apache-2.0 */
#include "readcase.h"

#include "base/fs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct case_kind kinds[] = {
	{ "archive", read_archive_kind },
	{ "container", read_container_kind },
	{ "json", read_json_kind },
	{ "bench-metrics", read_bench_metrics_kind },
	{ "model-file", read_model_file_kind },
	{ "model-config", read_model_config_kind },
	{ "kv-size", read_kv_size_kind },
	{ "stream", read_stream_kind },
};

enum { EXIT_NOT_READ = 3, MAX_INPUTS = 1000 };

const struct case_input *case_find(const struct case_dir *c, const char *name, const char *ext)
{
	for (size_t i = 0; i < c->n_inputs; i++)
		if (strcmp(c->inputs[i].name, name) == 0 && strcmp(c->inputs[i].ext, ext) == 0)
			return &c->inputs[i];
	return NULL;
}

char *case_path(const struct case_dir *c, const struct case_input *in)
{
	return fs_join(c->path, in->file);
}

int case_read_file(struct buf *out, const struct case_dir *c, const struct case_input *in, struct err *err)
{
	auto_free char *path = case_path(c, in);
	if (!path)
		return err_set(err, ERR_ENV, "%s: no memory", in->file);
	return fs_read(out, path, CASE_FILE_BYTES_MAX, err);
}

const char *case_name(const struct case_dir *c, const struct case_input *in)
{
	struct stat st;
	auto_free char *path = case_path(c, in);
	bool folder = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	bool is_plain = strcmp(in->ext, "d") == 0 || in->name[0];
	return folder && !is_plain ? in->ext : in->name;
}

void case_put_error(struct json_out *o, const struct err *e)
{
	jo_str(o, "status", "error");
	jo_str(o, "reason", e->msg);
}

static int add_input(struct case_dir *c, const char *told, struct err *err)
{
	char file[256] = "";
	size_t len = strlen(told);
	if (len > 0 && told[len - 1] == '/')
		len--; /* a folder */
	if (strncmp(told, "input", 5) != 0 || memchr(told, '/', len) || len >= sizeof(file) ||
	    c->n_inputs >= MAX_INPUTS)
		return err_set(err, ERR_PLAN, "case.json: '%s' is not the name of an input", told);
	memcpy(file, told, len);
	const char *dot = strrchr(file, '.');
	struct case_input *in = &c->inputs[c->n_inputs++];
	in->file = strdup(file);
	in->ext = strdup(dot ? dot + 1 : "");
	in->name = dot > file + 5 ? strndup(file + 6, (size_t)(dot - file - 6)) : strdup("");
	return in->file && in->ext && in->name ? 0 : err_set(err, ERR_ENV, "no memory");
}

static int fill(struct case_dir *c, const struct cJSON *doc, struct err *err)
{
	const char *kind = json_str(doc, "kind");
	const struct cJSON *inputs = json_get(doc, "input"), *in;
	if (!kind || !cJSON_IsObject(inputs))
		return err_set(err, ERR_PLAN, "case.json: want \"kind\" and \"input\"");
	c->kind = strdup(kind);
	c->inputs = calloc(MAX_INPUTS, sizeof(*c->inputs));
	if (!c->kind || !c->inputs)
		return err_set(err, ERR_ENV, "no memory");
	cJSON_ArrayForEach(in, inputs) if (add_input(c, in->string, err)) return -1;
	return 0;
}

static int open_case(struct case_dir *c, const char *path, struct err *err)
{
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_json doc = NULL;
	auto_free char *file = fs_join(path, "case.json");
	c->path = strdup(path);
	if (!file || !c->path)
		return err_set(err, ERR_ENV, "no memory");
	if (fs_read(&text, file, CASE_FILE_BYTES_MAX, err) ||
	    json_parse(&doc, text.p, text.len, "case.json", JSON_ENGINE, NULL, err))
		return -1;
	return fill(c, doc, err);
}

static void close_case(struct case_dir *c)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		free(c->inputs[i].file);
		free(c->inputs[i].name);
		free(c->inputs[i].ext);
	}
	free(c->inputs);
	free(c->kind);
	free(c->path);
}

static int read_case(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].kind, c->kind) == 0)
			return kinds[i].read(c, o, err);
	jo_str(o, "status", "not_read");
	auto_free char *reason = str_fmt("no reader for inputs of kind '%s'", c->kind);
	jo_str(o, "reason", reason);
	return EXIT_NOT_READ;
}

int main(int argc, char **argv)
{
	struct case_dir c = { 0 };
	struct err err = { 0 };
	auto_buf out = BUF_INIT(4u * CASE_FILE_BYTES_MAX);
	struct json_out o;
	if (argc != 2) {
		fputs("usage: readcase CASE_DIR\n", stderr);
		return err_exit_code(ERR_USAGE);
	}
	jo_init(&o, &out, 0);
	jo_obj(&o, NULL);
	int rc = open_case(&c, argv[1], &err);
	if (rc == 0)
		rc = read_case(&c, &o, &err);
	if (rc < 0) {
		buf_clear(&out);
		jo_init(&o, &out, 0);
		jo_obj(&o, NULL);
		case_put_error(&o, &err);
		rc = err_exit_code(err.cls);
	}
	jo_end(&o);
	close_case(&c);
	if (out.failed) {
		fputs("readcase: no memory\n", stderr);
		return err_exit_code(ERR_ENV);
	}
	puts(out.p);
	return rc;
}
