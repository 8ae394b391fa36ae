/* SPDX-License-Identifier: Apache-2.0 */
/* Kind archive. Every input.NAME.tar gets an object NAME (and the same under "each"): status, and the files
 * in their order, or the reason. A single input.tar is told at the top. */
#include "readcase.h"

#include "store/archive_check.h"

#include <string.h>

static void put_files(struct json_out *o, const struct archive_list *l)
{
	const char *only = NULL;
	size_t n = 0;
	jo_str(o, "status", "ok");
	jo_arr(o, "files");
	for (size_t i = 0; i < l->n; i++) {
		if (l->files[i].is_dir)
			continue;
		only = l->files[i].path;
		n++;
		jo_str(o, NULL, only);
	}
	jo_end_arr(o);
	if (n == 1)
		jo_str(o, "name", only);
}

static void put_reading(struct json_out *o, const struct buf *bytes)
{
	struct archive_list list;
	struct err why;
	if (archive_check(&list, bytes->len ? bytes->p : "", bytes->len, &why)) {
		case_put_error(o, &why);
		return;
	}
	put_files(o, &list);
	archive_list_done(&list);
}

static int put_all(const struct case_dir *c, struct json_out *o, bool under_names, struct err *err)
{
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		auto_buf bytes = BUF_INIT(CASE_FILE_BYTES_MAX);
		if ((in->name[0] != '\0') != under_names)
			continue;
		if (case_read_file(&bytes, c, in, err))
			return -1;
		if (under_names)
			jo_obj(o, in->name);
		put_reading(o, &bytes);
		if (under_names)
			jo_end(o);
	}
	return 0;
}

int read_archive_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	if (put_all(c, o, false, err) || put_all(c, o, true, err))
		return -1;
	jo_obj(o, "each");
	int rc = put_all(c, o, true, err);
	jo_end(o);
	return rc;
}
