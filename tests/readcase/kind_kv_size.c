/* SPDX-License-Identifier: Apache-2.0 */
/* Kind kv-size. A .gguf gives its sizes at the top (or under NAME); a .json holds one config, or a list of
 * configs with names ("models"); a folder holds a config.json. */
#include "model_out.h"

#include "pin/gguf.h"

#include <string.h>
#include <sys/stat.h>

static void put_gguf(struct json_out *o, const char *path)
{
	struct gguf g;
	struct kv_model m;
	struct err why = { 0 };
	if (gguf_read(&g, path, &why)) {
		case_put_error(o, &why);
		return;
	}
	if (gguf_kv_model(&m, &g, &why)) {
		case_put_error(o, &why);
	} else {
		put_kv_members(o, &m, NULL);
		kv_model_done(&m);
	}
	gguf_done(&g);
}

static void put_config(struct json_out *o, const struct cJSON *doc)
{
	struct hf_config c;
	struct err why = { 0 };
	if (hf_config_parse(&c, doc, NULL, NULL, &why)) {
		case_put_error(o, &why);
		return;
	}
	put_config_kv(o, &c);
	hf_config_done(&c);
}

static void put_folder(struct json_out *o, const char *path)
{
	struct hf_config c;
	struct err why = { 0 };
	if (hf_config_read(&c, path, &why)) {
		case_put_error(o, &why);
		return;
	}
	put_config_kv(o, &c);
	hf_config_done(&c);
}

static const struct cJSON *models_in(const struct cJSON *doc)
{
	const struct cJSON *list = cJSON_IsArray(doc) ? doc : json_get(doc, "models");
	return list && (cJSON_IsArray(list) || cJSON_IsObject(list)) ? list : NULL;
}

static void put_models(struct json_out *o, const struct cJSON *list)
{
	const struct cJSON *m;
	jo_obj(o, "models");
	cJSON_ArrayForEach(m, list)
	{
		const char *name = json_str(m, "name");
		jo_obj(o, name ? name : m->string ? m->string : "?");
		put_config(o, json_get(m, "config") ? json_get(m, "config") : m);
		jo_end(o);
	}
	jo_end(o);
}

static int put_json(struct json_out *o, const struct case_dir *c, const struct case_input *in,
                    struct err *err)
{
	auto_buf text = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_json doc = NULL;
	struct err why = { 0 };
	if (case_read_file(&text, c, in, err))
		return -1;
	if (json_parse(&doc, text.p ? text.p : "", text.len, in->file, JSON_ENGINE, NULL, &why))
		case_put_error(o, &why);
	else if (models_in(doc))
		put_models(o, models_in(doc));
	else
		put_config(o, doc);
	return 0;
}

static int put_input(struct json_out *o, const struct case_dir *c, const struct case_input *in,
                     struct err *err)
{
	struct stat st;
	auto_free char *path = case_path(c, in);
	if (!path || stat(path, &st))
		return err_set(err, ERR_ENV, "%s: is not there", in->file);
	if (S_ISDIR(st.st_mode))
		put_folder(o, path);
	else if (strcmp(in->ext, "gguf") == 0)
		put_gguf(o, path);
	else
		return put_json(o, c, in, err);
	return 0;
}

int read_kv_size_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		const char *name = case_name(c, in);
		bool is_list = strcmp(name, "models") == 0; /* its object is called so by its content */
		if (name[0] && !is_list)
			jo_obj(o, name);
		if (put_input(o, c, in, err))
			return -1;
		if (name[0] && !is_list)
			jo_end(o);
	}
	return 0;
}
