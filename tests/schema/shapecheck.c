/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's shape as the product knows it, for tests.
 *   shapecheck            reads one JSON document a line, prints "ok" or "bad POINTER: TEXT" for each
 *   shapecheck --schema   prints the shape as JSON Schema 2020-12 (plans/schema/plan-1.schema.json) */
#include "base/json_out.h"
#include "model/plan_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHAPES_MAX 64
#define ID "https://proofmark.invalid/plans/schema/plan-1.schema.json"

static struct {
	const struct jshape *list[SHAPES_MAX];
	size_t n;
} shapes;

/* "cost of a candidate" -> "cost_of_a_candidate" */
static const char *def_name(const struct jshape *s)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s", s->name);
	for (char *c = name; *c; c++)
		if (*c == ' ')
			*c = '_';
	return name;
}

static void collect(const struct jshape *s);

static void collect_field(const struct jfield *f)
{
	if (f->shape)
		collect(f->shape);
	if (f->elem)
		collect_field(f->elem);
}

static void collect(const struct jshape *s)
{
	for (size_t i = 0; i < shapes.n; i++)
		if (shapes.list[i] == s)
			return;
	if (shapes.n == SHAPES_MAX)
		abort();
	shapes.list[shapes.n++] = s;
	for (const struct jfield *f = s->fields; f->key; f++)
		collect_field(f);
}

static void write_string(struct json_out *o, const struct jfield *f)
{
	jo_str(o, "type", "string");
	if (f->words) {
		jo_arr(o, "enum");
		for (const char *const *w = f->words; *w; w++)
			jo_str(o, NULL, *w);
		jo_end_arr(o);
	}
	if (f->min_len)
		jo_u64(o, "minLength", f->min_len);
	if (f->max_len)
		abort(); /* we count bytes, a schema characters */
	if (f->pattern) {
		auto_free char *anchored = str_fmt("^(?:%s)$", f->pattern);
		jo_str(o, "pattern", anchored);
		jo_str(o, "description", f->pattern_says);
	}
}

/* Bounds that are whole are printed as such: 1000, not 1e3. */
static void write_bound(struct json_out *o, const char *key, double x)
{
	if (x >= -1e18 && x <= 1e18 && floor(x) >= x)
		jo_i64(o, key, (int64_t)x);
	else
		jo_num(o, key, x);
}

static void write_number(struct json_out *o, const struct jfield *f)
{
	jo_str(o, "type", f->type == J_INT ? "integer" : "number");
	write_bound(o, f->exclusive_min ? "exclusiveMinimum" : "minimum", f->min);
	write_bound(o, "maximum", f->max);
}

static void write_value(struct json_out *o, const char *key, const struct jfield *f)
{
	jo_obj(o, key);
	switch (f->type) {
	case J_STR:
		write_string(o, f);
		break;
	case J_INT:
	case J_NUM:
		write_number(o, f);
		break;
	case J_BOOL:
		jo_str(o, "type", "boolean");
		break;
	case J_OBJ: {
		auto_free char *ref = str_fmt("#/$defs/%s", def_name(f->shape));
		jo_str(o, "$ref", ref);
		break;
	}
	case J_ARR:
		jo_str(o, "type", "array");
		write_value(o, "items", f->elem);
		if (f->min_len)
			jo_u64(o, "minItems", f->min_len);
		if (f->max_len)
			jo_u64(o, "maxItems", f->max_len);
		if (f->unique)
			jo_bool(o, "uniqueItems", true);
		break;
	case J_MAP:
	case J_ANY:
		abort(); /* the plan has none */
	}
	jo_end(o);
}

static void write_shape(struct json_out *o, const struct jshape *s, bool top)
{
	jo_str(o, "type", "object");
	jo_bool(o, "additionalProperties", false);
	jo_obj(o, "properties");
	if (top) {
		jo_obj(o, "$schema");
		jo_str(o, "type", "string");
		jo_end(o);
	}
	jo_obj(o, "note");
	jo_str(o, "description", "free text for the reader, or any JSON; nothing looks at it");
	jo_end(o);
	for (const struct jfield *f = s->fields; f->key; f++)
		write_value(o, f->key, f);
	jo_end(o);
	bool any = false;
	for (const struct jfield *f = s->fields; f->key; f++)
		any |= f->required;
	if (any)
		jo_arr(o, "required");
	for (const struct jfield *f = s->fields; f->key; f++)
		if (f->required)
			jo_str(o, NULL, f->key);
	if (any)
		jo_end_arr(o);
	if (!s->one_of)
		return;
	jo_arr(o, "oneOf");
	for (const char *const *k = s->one_of; *k; k++) {
		jo_obj(o, NULL);
		jo_arr(o, "required");
		jo_str(o, NULL, *k);
		jo_end_arr(o);
		jo_end(o);
	}
	jo_end_arr(o);
}

static int print_schema(void)
{
	auto_buf b = BUF_INIT(1 << 20);
	struct json_out o;

	collect(&plan_shape);
	jo_init(&o, &b, 2);
	jo_obj(&o, NULL);
	jo_str(&o, "$schema", "https://json-schema.org/draft/2020-12/schema");
	jo_str(&o, "$id", ID);
	jo_str(&o, "title", "proofmark plan, schema version 1");
	jo_str(&o, "$comment",
	       "Printed by build/tests/schema/shapecheck --schema from runner/model/plan_shape.c. What "
	       "members mean, and "
	       "the rules that a schema cannot say, stand in proofmark-plan(5).");
	write_shape(&o, &plan_shape, true);
	jo_obj(&o, "$defs");
	for (size_t i = 1; i < shapes.n; i++) {
		jo_obj(&o, def_name(shapes.list[i]));
		write_shape(&o, shapes.list[i], false);
		jo_end(&o);
	}
	jo_end(&o);
	jo_end(&o);
	if (b.failed)
		return 1;
	puts(b.p);
	return 0;
}

static void check_line(const char *line, size_t len)
{
	auto_problems problems = { 0 };
	auto_json doc = NULL;
	struct err err;

	if (json_parse(&doc, line, len, "line", JSON_STRICT, &problems, &err)) {
		printf("bad : %s\n", err.msg);
		return;
	}
	jshape_check(doc, &plan_shape, &problems);
	for (size_t i = 0; i < problems.n; i++)
		if (problems.list[i].kind == PROBLEM_ERROR) {
			printf("bad %s: %s\n", problems.list[i].pointer, problems.list[i].text);
			return;
		}
	puts("ok");
}

int main(int argc, char **argv)
{
	auto_free char *line = NULL;
	size_t size = 0;
	ssize_t len;

	if (argc > 1 && strcmp(argv[1], "--schema") == 0)
		return print_schema();
	while ((len = getline(&line, &size, stdin)) > 0)
		check_line(line, (size_t)len - (line[len - 1] == '\n'));
	return 0;
}
