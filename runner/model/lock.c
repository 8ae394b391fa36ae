/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lock.h"

#include "base/hash.h"
#include "base/json_out.h"

#include <string.h>

const char *const lock_role_words[] = { "model",  "program", "interpreter", "argument",
	                                "mapped", "corpus",  NULL };

static void files_done(struct lock_file *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].path);
	free(list);
}

void lock_done(struct lock *l)
{
	files_done(l->files, l->n_files);
	for (size_t i = 0; i < l->n_candidates; i++) {
		struct lock_candidate *c = &l->candidates[i];
		free(c->name);
		free(c->engine_commit);
		free(c->engine_version_told);
		free(c->engine_build_told);
		files_done(c->files, c->n_files);
	}
	free(l->candidates);
	*l = (struct lock){ 0 };
}

int lock_add_file(struct lock_file **list, size_t *n, enum lock_role role, const char *path,
                  const char *sha256, uint64_t bytes)
{
	struct lock_file *grown = realloc(*list, (*n + 1) * sizeof(**list));
	if (!grown)
		return -1;
	*list = grown;
	struct lock_file *f = &grown[*n];
	*f = (struct lock_file){ .role = role, .path = strdup(path), .bytes = bytes };
	if (!f->path)
		return -1;
	memcpy(f->sha256, sha256, sizeof(f->sha256));
	(*n)++;
	return 0;
}

static int by_role_and_path(const void *a, const void *b)
{
	const struct lock_file *const *x = a, *const *y = b;
	if ((*x)->role != (*y)->role)
		return (*x)->role < (*y)->role ? -1 : 1;
	return strcmp((*x)->path, (*y)->path);
}

static void write_files(struct json_out *o, const struct lock_file *list, size_t n)
{
	jo_arr(o, "files");
	const struct lock_file **sorted = calloc(n + 1, sizeof(*sorted));
	if (!sorted) {
		o->b->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = &list[i];
	qsort(sorted, n, sizeof(*sorted), by_role_and_path);
	for (size_t i = 0; i < n; i++) {
		jo_obj(o, NULL);
		jo_str(o, "role", lock_role_words[sorted[i]->role]);
		jo_str(o, "path", sorted[i]->path);
		jo_u64(o, "bytes", sorted[i]->bytes);
		jo_str(o, "sha256", sorted[i]->sha256);
		jo_end(o);
	}
	free(sorted);
	jo_end_arr(o);
}

int lock_write(struct buf *out, const struct lock *l)
{
	struct json_out o;
	jo_init(&o, out, 1);
	jo_obj(&o, NULL);
	jo_u64(&o, "schema_version", LOCK_SCHEMA_VERSION);
	jo_u64(&o, "rules", l->rules);
	jo_str(&o, "plan_sha256", l->plan_sha256);
	jo_str(&o, "prompts_sha256", l->prompts_sha256);
	jo_obj(&o, "proofmark");
	jo_str(&o, "version", l->version);
	jo_str(&o, "binary_sha256", l->binary_sha256[0] ? l->binary_sha256 : NULL);
	jo_end(&o);
	write_files(&o, l->files, l->n_files);
	jo_arr(&o, "candidates");
	for (size_t i = 0; i < l->n_candidates; i++) {
		const struct lock_candidate *c = &l->candidates[i];
		jo_obj(&o, NULL);
		jo_str(&o, "name", c->name);
		jo_str(&o, "engine_commit", c->engine_commit);
		jo_str(&o, "engine_version_told", c->engine_version_told);
		jo_str(&o, "engine_build_told", c->engine_build_told);
		jo_bool(&o, "started", c->started);
		write_files(&o, c->files, c->n_files);
		jo_end(&o);
	}
	jo_end_arr(&o);
	jo_end(&o);
	return out->failed ? -1 : 0;
}

#define HEX64 "[0-9a-f]{64}"

static const struct jfield file_fields[] = {
	{ .key = "role", .type = J_STR, .required = true, .words = lock_role_words },
	{ .key = "path", .type = J_STR, .required = true, .min_len = 1, .max_len = 4096 },
	{ .key = "bytes", .type = J_INT, .required = true, .min = 0, .max = 9007199254740992.0 },
	{ .key = "sha256",
	  .type = J_STR,
	  .required = true,
	  .pattern = HEX64,
	  .pattern_says = "64 lower-case hex digits" },
	{ 0 },
};
static const struct jshape file_shape = { .name = "file", .fields = file_fields };
static const struct jfield file_elem = { .type = J_OBJ, .shape = &file_shape };

static const struct jfield candidate_fields[] = {
	{ .key = "name", .type = J_STR, .required = true, .min_len = 1, .max_len = 120 },
	{ .key = "engine_commit", .type = J_STR, .nullable = true },
	{ .key = "engine_version_told", .type = J_STR, .nullable = true },
	{ .key = "engine_build_told", .type = J_STR, .nullable = true },
	{ .key = "started", .type = J_BOOL, .required = true },
	{ .key = "files", .type = J_ARR, .required = true, .elem = &file_elem, .max_len = 100000 },
	{ 0 },
};
static const struct jshape candidate_shape = { .name = "candidate", .fields = candidate_fields };
static const struct jfield candidate_elem = { .type = J_OBJ, .shape = &candidate_shape };

static const struct jfield proofmark_fields[] = {
	{ .key = "version", .type = J_STR, .required = true, .max_len = 31 },
	{ .key = "binary_sha256",
	  .type = J_STR,
	  .nullable = true,
	  .pattern = HEX64,
	  .pattern_says = "64 lower-case hex digits" },
	{ 0 },
};
static const struct jshape proofmark_shape = { .name = "proofmark", .fields = proofmark_fields };

static const struct jfield lock_fields[] = {
	{ .key = "schema_version", .type = J_INT, .required = true, .min = 1, .max = 1 },
	{ .key = "rules", .type = J_INT, .required = true, .min = 1, .max = 1e6 },
	{ .key = "plan_sha256",
	  .type = J_STR,
	  .required = true,
	  .pattern = HEX64,
	  .pattern_says = "64 lower-case hex digits" },
	{ .key = "prompts_sha256",
	  .type = J_STR,
	  .required = true,
	  .pattern = HEX64,
	  .pattern_says = "64 lower-case hex digits" },
	{ .key = "proofmark", .type = J_OBJ, .required = true, .shape = &proofmark_shape },
	{ .key = "files", .type = J_ARR, .required = true, .elem = &file_elem, .max_len = 100000 },
	{ .key = "candidates", .type = J_ARR, .required = true, .elem = &candidate_elem, .max_len = 64 },
	{ 0 },
};
static const struct jshape lock_shape = { .name = "lock", .fields = lock_fields };

static int read_files(struct lock_file **list, size_t *n, const cJSON *arr)
{
	const cJSON *f;
	cJSON_ArrayForEach(f, arr)
	{
		uint64_t bytes = 0;
		enum lock_role role = LOCK_MODEL;
		const char *word = json_str(f, "role");
		while (role < N_LOCK_ROLES && strcmp(lock_role_words[role], word) != 0)
			role++;
		json_u64(f, "bytes", &bytes);
		if (lock_add_file(list, n, role, json_str(f, "path"), json_str(f, "sha256"), bytes))
			return -1;
	}
	return 0;
}

static char *copy_or_null(const cJSON *obj, const char *key)
{
	const char *s = json_str(obj, key);
	return s ? strdup(s) : NULL;
}

static int read_candidates(struct lock *l, const cJSON *arr)
{
	const cJSON *c;
	l->candidates = calloc((size_t)cJSON_GetArraySize(arr) + 1, sizeof(*l->candidates));
	if (!l->candidates)
		return -1;
	cJSON_ArrayForEach(c, arr)
	{
		struct lock_candidate *to = &l->candidates[l->n_candidates++];
		to->name = copy_or_null(c, "name");
		to->engine_commit = copy_or_null(c, "engine_commit");
		to->engine_version_told = copy_or_null(c, "engine_version_told");
		to->engine_build_told = copy_or_null(c, "engine_build_told");
		json_bool(c, "started", &to->started);
		if (!to->name || read_files(&to->files, &to->n_files, json_get(c, "files")))
			return -1;
	}
	return 0;
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = from ? strnlen(from, size - 1) : 0;
	if (n)
		memcpy(to, from, n);
	to[n] = '\0';
}

int lock_read(struct lock *out, const char *text, size_t len, const char *name, struct err *err)
{
	auto_json doc = NULL;
	auto_problems problems = { 0 };
	if (json_parse(&doc, text, len, name, JSON_STRICT, NULL, err))
		return -1;
	jshape_check(doc, &lock_shape, &problems);
	if (problems.n_errors)
		return err_set(err, ERR_PLAN, "%s: %s: %s; write it anew with 'proofmark lock'", name,
		               problems.list[0].pointer, problems.list[0].text);
	struct lock l = { 0 };
	json_u64(doc, "rules", &l.rules);
	if (l.rules != RULES_CURRENT)
		return err_set(err, ERR_RECOMPUTE,
		               "%s: /rules: rule set %llu is not known here (this proofmark knows %d); use a "
		               "newer one",
		               name, (unsigned long long)l.rules, RULES_CURRENT);
	copy_text(l.plan_sha256, sizeof(l.plan_sha256), json_str(doc, "plan_sha256"));
	copy_text(l.prompts_sha256, sizeof(l.prompts_sha256), json_str(doc, "prompts_sha256"));
	copy_text(l.version, sizeof(l.version), json_str(json_get(doc, "proofmark"), "version"));
	copy_text(l.binary_sha256, sizeof(l.binary_sha256),
	          json_str(json_get(doc, "proofmark"), "binary_sha256"));
	if (read_files(&l.files, &l.n_files, json_get(doc, "files")) ||
	    read_candidates(&l, json_get(doc, "candidates"))) {
		lock_done(&l);
		return err_set(err, ERR_ENV, "%s: no memory", name);
	}
	*out = l;
	return 0;
}

const struct lock_candidate *lock_candidate_find(const struct lock *l, const char *name)
{
	for (size_t i = 0; i < l->n_candidates; i++)
		if (strcmp(l->candidates[i].name, name) == 0)
			return &l->candidates[i];
	return NULL;
}

static const char *name_of(const struct lock_file *f)
{
	bool by_path = f->role == LOCK_MODEL || f->role == LOCK_CORPUS;
	const char *slash = strrchr(f->path, '/');
	return by_path || !slash ? f->path : slash + 1;
}

/* The same file on the other side: same role and name, and the same bytes where several share a name. */
static const struct lock_file *counterpart(const struct lock_file *f, const struct lock_file *list, size_t n)
{
	const struct lock_file *near = NULL;
	for (size_t i = 0; i < n; i++) {
		if (list[i].role != f->role || strcmp(name_of(&list[i]), name_of(f)) != 0)
			continue;
		if (strcmp(list[i].sha256, f->sha256) == 0)
			return &list[i];
		near = &list[i];
	}
	return near;
}

size_t lock_compare_files(const struct lock_file *locked, size_t n_locked, const struct lock_file *found,
                          size_t n_found, unsigned roles, lock_say_fn *say, void *ctx)
{
	size_t n = 0;
	for (size_t i = 0; i < n_locked; i++) {
		const struct lock_file *l = &locked[i], *f = counterpart(l, found, n_found);
		if (!(roles & 1u << l->role) || (f && strcmp(f->sha256, l->sha256) == 0))
			continue;
		auto_free char *what = str_fmt("%s file %s", lock_role_words[l->role], f ? f->path : l->path);
		say(ctx, what ? what : l->path, l->sha256, f ? f->sha256 : NULL);
		n++;
	}
	for (size_t i = 0; i < n_found; i++) {
		const struct lock_file *f = &found[i];
		if (!(roles & 1u << f->role) || counterpart(f, locked, n_locked))
			continue;
		auto_free char *what = str_fmt("%s file %s", lock_role_words[f->role], f->path);
		say(ctx, what ? what : f->path, NULL, f->sha256);
		n++;
	}
	return n;
}
