/* SPDX-License-Identifier: Apache-2.0 */
/* Kind model-file. Every file input.NAME.EXT gets an object NAME (and the same under "each"); a folder
 * input.d/ is told at the top, input.NAME.d/ under NAME and NAME_set. */
#include "model_out.h"

#include "base/fs.h"
#include "pin/model_facts.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static void put_names(struct json_out *o, const char *key, const struct st_names *l)
{
	jo_arr(o, key);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, NULL, l->list[i]);
	jo_end_arr(o);
}

static const char *first_error(const struct model_facts *f)
{
	for (size_t i = 0; i < f->problems.n; i++)
		if (f->problems.list[i].kind == PROBLEM_ERROR)
			return f->problems.list[i].text;
	return NULL;
}

static void put_status(struct json_out *o, const struct model_facts *f, bool ok)
{
	jo_str(o, "status", ok ? "ok" : "error");
	if (!ok)
		jo_str(o, "reason", first_error(f));
}

static void put_types(struct json_out *o, const struct model_facts *f)
{
	jo_obj(o, "types");
	for (size_t i = 0; i < f->n_types; i++)
		jo_u64(o, f->types[i].name, f->types[i].n_tensors);
	jo_end(o);
	jo_obj(o, "type_histogram");
	for (size_t i = 0; i < f->n_types; i++)
		jo_u64(o, f->types[i].name, f->types[i].n_tensors);
	jo_end(o);
	jo_obj(o, "type_bytes");
	for (size_t i = 0; i < f->n_types; i++)
		jo_u64(o, f->types[i].name, f->types[i].bytes);
	jo_end(o);
	jo_num(o, "bits_per_weight", f->bits_per_weight);
	jo_u64(o, "elements", f->n_elements);
	put_known(o, "parameters", f->n_parameters);
}

static void put_totals(struct json_out *o, const struct model_facts *f)
{
	jo_u64(o, "tensors", f->n_tensors);
	jo_u64(o, "tensors_total", f->n_tensors);
	jo_u64(o, "tensor_bytes", f->tensor_bytes);
	jo_u64(o, "tensor_bytes_total", f->tensor_bytes);
	jo_u64(o, "file_bytes", f->file_bytes);
	jo_u64(o, "file_bytes_total", f->file_bytes);
	put_types(o, f);
}

/* --- GGUF ---------------------------------------------------------------------------------------------- */

static uint64_t number(const struct gguf *g, const char *key)
{
	uint64_t v;
	return gguf_number(gguf_find(g, key), &v) ? v : UINT64_MAX;
}

static void put_list_or_number(struct json_out *o, const char *key, const struct gguf_value *v)
{
	uint64_t n;
	if (v && v->is_array) {
		jo_arr(o, key);
		for (size_t i = 0; i < v->n_kept; i++)
			jo_i64(o, NULL, (int64_t)v->list[i]);
		jo_end_arr(o);
	} else {
		put_known(o, key, gguf_number(v, &n) ? n : UINT64_MAX);
	}
}

static void put_header(struct json_out *o, const struct model_facts *f)
{
	const struct gguf *g = &f->gguf.parts[0].head;
	static const char *const keys[][2] = { { "head_count", "attention.head_count" },
		                               { "head_count_kv", "attention.head_count_kv" },
		                               { "key_length", "attention.key_length" },
		                               { "value_length", "attention.value_length" },
		                               { "sliding_window", "attention.sliding_window" },
		                               { "expert_count", "expert_count" } };
	jo_str(o, "architecture", f->architecture[0] ? f->architecture : NULL);
	jo_str(o, "name", f->name[0] ? f->name : NULL);
	jo_str(o, "file_type", f->quantisation[0] ? f->quantisation : NULL);
	put_known(o, "block_count", f->n_layers);
	put_known(o, "embedding_length", f->embedding);
	put_known(o, "context_length", f->context_tok);
	put_known(o, "vocab_size", f->vocab_tok);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		put_list_or_number(o, keys[i][0], gguf_find_arch(g, keys[i][1]));
	jo_u64(o, "version", g->version);
	jo_str(o, "byte_order", g->big_endian ? "big" : "little");
	jo_bool(o, "usable_on_little_endian_host", !g->big_endian);
	jo_u64(o, "alignment", g->alignment_bytes);
	jo_u64(o, "data_offset", g->data_offset);
	jo_u64(o, "header_bytes", g->header_bytes);
	jo_u64(o, "metadata", g->n_values);
	jo_u64(o, "trailing_bytes", g->trailing_bytes);
}

static void put_part(struct json_out *o, const struct gguf_part *p)
{
	const struct gguf *g = &p->head;
	jo_obj(o, NULL);
	jo_str(o, "file", p->file);
	jo_bool(o, "there", p->is_read);
	if (p->is_read) {
		put_known(o, "split.no", number(g, "split.no"));
		put_known(o, "split.count", number(g, "split.count"));
		put_known(o, "split.tensors.count", number(g, "split.tensors.count"));
		jo_u64(o, "tensors_here", g->n_tensors);
		jo_u64(o, "tensor_bytes", g->tensor_bytes);
		jo_u64(o, "file_bytes", g->file_bytes);
		jo_bool(o, "has_architecture", gguf_text(g, "general.architecture") != NULL);
		jo_bool(o, "has_block_count", gguf_find_arch(g, "block_count") != NULL);
	}
	jo_end(o);
}

static bool same_answer(const struct model_facts *a, const struct model_facts *b)
{
	return a->gguf.n_parts == b->gguf.n_parts && a->n_tensors == b->n_tensors &&
	       a->tensor_bytes == b->tensor_bytes && a->file_bytes == b->file_bytes &&
	       a->n_layers == b->n_layers && strcmp(a->architecture, b->architecture) == 0 &&
	       a->problems.n_errors == b->problems.n_errors;
}

static bool any_part_gives_it(const struct model_facts *f)
{
	bool same = true;
	for (size_t i = 0; i < f->gguf.n_parts && same; i++) {
		struct model_facts other = { 0 };
		struct err why = { 0 };
		if (!f->gguf.parts[i].is_read)
			continue;
		same = model_inspect(&other, f->gguf.parts[i].path, &why) == 0 && same_answer(f, &other);
		model_facts_done(&other);
	}
	return same;
}

static void put_set(struct json_out *o, const struct model_facts *f)
{
	const char *only = NULL;
	jo_u64(o, "parts", f->gguf.n_parts);
	jo_arr(o, "set");
	for (size_t i = 0; i < f->gguf.n_parts; i++)
		put_part(o, &f->gguf.parts[i]);
	jo_end_arr(o);
	jo_arr(o, "missing_files");
	for (size_t i = 0; i < f->gguf.n_parts; i++)
		if (f->gguf.parts[i].is_missing) {
			only = f->gguf.parts[i].file;
			jo_str(o, NULL, only);
		}
	jo_end_arr(o);
	if (f->gguf.n_missing == 1)
		jo_str(o, "missing", only);
	if (any_part_gives_it(f))
		jo_str(o, "any_part_given", "the whole set is found and the same answer comes out");
}

static void put_gguf(struct json_out *o, const struct model_facts *f)
{
	/* A file of the other byte order can be read, and is not usable: a fact of its own. */
	size_t order = f->usable_here ? 0 : 1;
	put_status(o, f, f->problems.n_errors <= order);
	if (f->gguf.parts[0].is_read)
		put_header(o, f);
	put_set(o, f);
	put_totals(o, f);
}

/* --- safetensors --------------------------------------------------------------------------------------- */

static void put_safetensors(struct json_out *o, const struct model_facts *f)
{
	const struct st_set *s = &f->st;
	put_status(o, f, f->problems.n_errors == 0);
	put_totals(o, f);
	jo_u64(o, "parts", s->n_shards);
	if (s->n_shards == 1)
		jo_u64(o, "header_bytes", s->shards[0].head.header_bytes);
	put_names(o, "missing_files", &s->missing_files);
	put_names(o, "tensors_not_in_their_shard", &s->misplaced_tensors);
	put_names(o, "files_outside_the_directory", &s->outside_files);
	put_names(o, "files_not_in_index", &s->unindexed_files);
	put_names(o, "tensors_not_in_index", &s->unindexed_tensors);
	jo_u64(o, "tensor_bytes_present", s->tensor_bytes);
	put_known(o, "index_total_size", s->index_total_bytes);
	if (s->index_total_bytes == UINT64_MAX)
		jo_null(o, "total_size_agrees");
	else
		jo_bool(o, "total_size_agrees", s->index_total_bytes == s->tensor_bytes);
}

static void put_magic(struct json_out *o, const struct case_dir *c, const struct case_input *in)
{
	auto_buf bytes = BUF_INIT(CASE_FILE_BYTES_MAX);
	struct err ignored = { 0 };
	if (case_read_file(&bytes, c, in, &ignored) || bytes.len < 8)
		return;
	const uint8_t *b = (const uint8_t *)bytes.p;
	auto_free char *hex = str_fmt("%02x %02x %02x %02x", b[0], b[1], b[2], b[3]);
	jo_str(o, "magic_bytes", hex);
	jo_u64(o, "version_field_as_le", (uint64_t)b[4] | b[5] << 8 | b[6] << 16 | (uint64_t)b[7] << 24);
}

static void put_model(struct json_out *o, const struct case_dir *c, const struct case_input *in)
{
	struct model_facts f = { 0 };
	struct err why = { 0 };
	auto_free char *path = case_path(c, in);
	if (model_inspect(&f, path, &why))
		case_put_error(o, &why);
	else if (f.format == MODEL_GGUF)
		put_gguf(o, &f);
	else
		put_safetensors(o, &f);
	model_facts_done(&f);
}

static void put_named(struct json_out *o, const struct case_dir *c, const char *suffix, bool files)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		const char *name = case_name(c, in);
		struct stat st;
		auto_free char *path = case_path(c, in);
		auto_free char *key = str_fmt("%s%s", name, suffix);
		if (!name[0] || !key || (!files && path && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)))
			continue;
		jo_obj(o, key);
		put_model(o, c, in);
		if (files)
			put_magic(o, c, in);
		jo_end(o);
	}
}

/* The marks of GGUF as the cases show them. */
static void put_marks(struct json_out *o, const struct case_dir *c)
{
	bool told = false, big = false;
	for (size_t i = 0; i < c->n_inputs; i++) {
		struct gguf g = { 0 };
		struct err ignored = { 0 };
		auto_free char *path = case_path(c, &c->inputs[i]);
		if (gguf_read(&g, path, &ignored))
			continue;
		if (!told)
			jo_str(o, "magic_bytes", "47 47 55 46");
		if (g.big_endian && !big)
			jo_u64(o, "version_field_be_read_as_le", __builtin_bswap32(g.version));
		told = true;
		big = big || g.big_endian;
		gguf_done(&g);
	}
}

static void put_pointer_length(struct json_out *o, const struct case_dir *c)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		auto_buf bytes = BUF_INIT(CASE_FILE_BYTES_MAX);
		struct err ignored = { 0 };
		uint64_t v = 0;
		if (strcmp(c->inputs[i].ext, "safetensors") != 0 ||
		    case_read_file(&bytes, c, &c->inputs[i], &ignored) || bytes.len < 8 ||
		    memcmp(bytes.p, "version ", 8) != 0)
			continue;
		for (int k = 7; k >= 0; k--)
			v = v << 8 | (uint8_t)bytes.p[k];
		jo_u64(o, "lfs_first_8_bytes_as_length", v);
		return;
	}
}

int read_model_file_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++)
		if (!case_name(c, &c->inputs[i])[0])
			put_model(o, c, &c->inputs[i]);
	put_named(o, c, "", true);
	put_named(o, c, "_set", false);
	put_marks(o, c);
	put_pointer_length(o, c);
	jo_u64(o, "header_limit_bytes", ST_HEADER_BYTES_MAX);
	jo_obj(o, "each");
	put_named(o, c, "", true);
	jo_end(o);
	return 0;
}
