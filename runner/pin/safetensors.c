/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/safetensors.h"

#include "base/cleanup.h"
#include "pin/lfs.h"
#include "pin/st_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { LENGTH_BYTES = 8 };

static const struct {
	const char *name;
	unsigned bits;
} dtypes[ST_N_DTYPES] = {
	[ST_BOOL] = { "BOOL", 8 },
	[ST_F4] = { "F4", 4 },
	[ST_F6_E2M3] = { "F6_E2M3", 6 },
	[ST_F6_E3M2] = { "F6_E3M2", 6 },
	[ST_U8] = { "U8", 8 },
	[ST_I8] = { "I8", 8 },
	[ST_F8_E5M2] = { "F8_E5M2", 8 },
	[ST_F8_E4M3] = { "F8_E4M3", 8 },
	[ST_F8_E8M0] = { "F8_E8M0", 8 },
	[ST_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8 },
	[ST_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8 },
	[ST_I16] = { "I16", 16 },
	[ST_U16] = { "U16", 16 },
	[ST_F16] = { "F16", 16 },
	[ST_BF16] = { "BF16", 16 },
	[ST_I32] = { "I32", 32 },
	[ST_U32] = { "U32", 32 },
	[ST_F32] = { "F32", 32 },
	[ST_C64] = { "C64", 64 },
	[ST_F64] = { "F64", 64 },
	[ST_I64] = { "I64", 64 },
	[ST_U64] = { "U64", 64 },
};

const char *st_dtype_name(enum st_dtype t)
{
	return t < ST_N_DTYPES ? dtypes[t].name : NULL;
}

unsigned st_dtype_bits(enum st_dtype t)
{
	return t < ST_N_DTYPES ? dtypes[t].bits : 0;
}

/* --- tensors ------------------------------------------------------------------------------------------- */

struct info { /* which members were there */
	bool has_dtype, has_shape, has_offsets;
};

static int take_dtype(struct st_text *s, struct st_tensor *t)
{
	auto_free char *text = NULL;
	if (st_take_string(s, &text))
		return -1;
	for (unsigned i = 0; i < ST_N_DTYPES; i++)
		if (strcmp(dtypes[i].name, text) == 0) {
			t->dtype = (enum st_dtype)i;
			return 0;
		}
	return err_set(s->err, ERR_PLAN, "%s: tensor %s: dtype '%.32s' is not known", s->name, t->name, text);
}

static int take_shape(struct st_text *s, struct st_tensor *t)
{
	uint64_t dim;
	bool overflow = false, empty = false;
	t->n_elements = 1;
	if (!st_take_char(s, '['))
		return st_bad(s, "want a list for shape");
	if (st_take_char(s, ']'))
		return 0;
	do {
		if (st_take_uint(s, &dim))
			return -1;
		if (t->n_dims++ == ST_DIMS_MAX)
			return st_bad(s, "a shape has too many dimensions");
		if (t->n_dims == 1)
			t->first_dim = dim;
		t->last_dim = dim;
		empty = empty || dim == 0;
		overflow = __builtin_mul_overflow(t->n_elements, dim, &t->n_elements) || overflow;
	} while (st_take_char(s, ','));
	if (overflow)
		return err_set(s->err, ERR_PLAN, "%s: tensor %s: the product of its shape overflows%s",
		               s->name, t->name, empty ? " before a 0" : "");
	return st_take_char(s, ']') ? 0 : st_bad(s, "a shape has no end");
}

static int take_offsets(struct st_text *s, struct st_tensor *t)
{
	if (!st_take_char(s, '[') || st_take_uint(s, &t->begin) || !st_take_char(s, ',') ||
	    st_take_uint(s, &t->end) || !st_take_char(s, ']'))
		return s->err->msg[0] ? -1 : st_bad(s, "want [begin, end] for data_offsets");
	return 0;
}

static int take_info_member(struct st_text *s, struct st_tensor *t, struct info *has)
{
	auto_free char *key = NULL;
	if (st_take_string(s, &key) || (!st_take_char(s, ':') && st_bad(s, "want ':'")))
		return -1;
	bool *seen = strcmp(key, "dtype") == 0          ? &has->has_dtype
	             : strcmp(key, "shape") == 0        ? &has->has_shape
	             : strcmp(key, "data_offsets") == 0 ? &has->has_offsets
	                                                : NULL;
	if (!seen)
		return st_skip_value(s, 0);
	if (*seen)
		return err_set(s->err, ERR_PLAN, "%s: tensor %s: %s is given twice", s->name, t->name, key);
	*seen = true;
	if (seen == &has->has_dtype)
		return take_dtype(s, t);
	return seen == &has->has_shape ? take_shape(s, t) : take_offsets(s, t);
}

static int check_size(struct st_text *s, const struct st_tensor *t)
{
	uint64_t bits;
	if (t->begin > t->end)
		return err_set(s->err, ERR_PLAN, "%s: tensor %s: its data_offsets are reversed", s->name,
		               t->name);
	if (__builtin_mul_overflow(t->n_elements, dtypes[t->dtype].bits, &bits) || bits % 8 ||
	    bits / 8 != t->end - t->begin)
		return err_set(s->err, ERR_PLAN,
		               "%s: tensor %s: its shape of %" PRIu64 " %s does not fill its %" PRIu64
		               " bytes",
		               s->name, t->name, t->n_elements, dtypes[t->dtype].name, t->end - t->begin);
	return 0;
}

static int take_info(struct st_text *s, struct st_tensor *t)
{
	struct info has = { 0 };
	if (!st_take_char(s, '{'))
		return st_bad(s, "want an object for a tensor");
	if (!st_take_char(s, '}')) {
		do
			if (take_info_member(s, t, &has))
				return -1;
		while (st_take_char(s, ','));
		if (!st_take_char(s, '}'))
			return st_bad(s, "a tensor's object has no end");
	}
	if (!has.has_dtype || !has.has_shape || !has.has_offsets)
		return err_set(s->err, ERR_PLAN, "%s: tensor %s: dtype, shape or data_offsets is missing",
		               s->name, t->name);
	return check_size(s, t);
}

static int take_metadata(struct st_text *s, struct safetensors *out)
{
	if (s->end - s->p >= 4 && memcmp(s->p, "null", 4) == 0) {
		s->p += 4;
		return 0;
	}
	if (!st_take_char(s, '{'))
		return st_bad(s, "want an object for __metadata__");
	if (st_take_char(s, '}'))
		return 0;
	do {
		auto_free char *key = NULL;
		auto_free char *value = NULL;
		if (st_take_string(s, &key) || (!st_take_char(s, ':') && st_bad(s, "want ':'")))
			return -1;
		if (s->p == s->end || *s->p != '"')
			return st_bad(s, "values of __metadata__ have to be strings");
		if (st_take_string(s, &value))
			return -1;
		if (strcmp(key, "format") == 0 && strlen(value) < sizeof(out->format))
			strcpy(out->format, value);
	} while (st_take_char(s, ','));
	return st_take_char(s, '}') ? 0 : st_bad(s, "__metadata__ has no end");
}

/* --- the header ---------------------------------------------------------------------------------------- */

struct tensors {
	size_t n, room;
	struct st_tensor *list;
};

static int take_member(struct st_text *s, struct safetensors *out, struct tensors *ts, bool *has_metadata)
{
	char *key = NULL;
	if (st_take_string(s, &key))
		return -1;
	if (ts->n == ts->room) {
		size_t room = ts->room ? ts->room + ts->room / 2 : 64;
		struct st_tensor *p = realloc(ts->list, room * sizeof(*p));
		if (!p) {
			free(key);
			return err_set(s->err, ERR_ENV, "%s: no memory", s->name);
		}
		ts->list = p;
		ts->room = room;
	}
	bool is_metadata = strcmp(key, "__metadata__") == 0;
	ts->list[ts->n] = (struct st_tensor){ .name = key };
	ts->n++;
	if (!st_take_char(s, ':'))
		return st_bad(s, "want ':'");
	if (!is_metadata)
		return take_info(s, &ts->list[ts->n - 1]);
	ts->n--;
	free(key);
	if (*has_metadata)
		return st_bad(s, "__metadata__ is given twice");
	*has_metadata = true;
	return take_metadata(s, out);
}

static int take_members(struct st_text *s, struct safetensors *out, struct tensors *ts)
{
	bool has_metadata = false;
	if (!st_take_char(s, '{'))
		return st_bad(s, "the header is no JSON object");
	if (!st_take_char(s, '}')) {
		do
			if (take_member(s, out, ts, &has_metadata))
				return -1;
		while (st_take_char(s, ','));
		if (!st_take_char(s, '}'))
			return st_bad(s, "want ',' or the end of the header's object");
	}
	return s->p == s->end ? 0 : st_bad(s, "text behind the header's object");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
	const struct st_tensor *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

static int check_layout(const struct tensors *ts, uint64_t data_bytes, const char *name, struct err *err)
{
	uint64_t at = 0;
	for (size_t i = 0; i < ts->n; i++) {
		const struct st_tensor *t = &ts->list[i];
		if (t->begin != at)
			return err_set(err, ERR_PLAN,
			               "%s: tensor %s: its data begins at %" PRIu64 ", not at %" PRIu64
			               " where the one before ends: they %s",
			               name, t->name, t->begin, at,
			               t->begin < at ? "overlap" : "leave a hole");
		at = t->end;
	}
	if (at > data_bytes)
		return err_set(err, ERR_PLAN,
		               "%s: the file is shorter than the header says (%" PRIu64 " of %" PRIu64
		               " data bytes): interrupted download",
		               name, data_bytes, at);
	if (at < data_bytes)
		return err_set(err, ERR_PLAN, "%s: %" PRIu64 " bytes after the last tensor", name,
		               data_bytes - at);
	return 0;
}

static int check_tensors(struct tensors *ts, uint64_t data_bytes, const char *name, struct err *err)
{
	if (ts->n)
		qsort(ts->list, ts->n, sizeof(*ts->list), by_name);
	for (size_t i = 1; i < ts->n; i++)
		if (by_name(&ts->list[i - 1], &ts->list[i]) == 0)
			return err_set(err, ERR_PLAN, "%s: tensor %s: the name is given twice", name,
			               ts->list[i].name);
	if (ts->n)
		qsort(ts->list, ts->n, sizeof(*ts->list), by_place);
	if (check_layout(ts, data_bytes, name, err))
		return -1;
	if (ts->n)
		qsort(ts->list, ts->n, sizeof(*ts->list), by_name);
	return 0;
}

int safetensors_parse(struct safetensors *out, const char *text, size_t len, uint64_t data_bytes,
                      const char *name, struct err *err)
{
	struct safetensors s = { .header_bytes = len, .tensor_bytes = data_bytes };
	struct tensors ts = { 0 };
	struct err why = { 0 };
	struct st_text p = { text, text, text + len, name, &why };
	int rc = take_members(&p, &s, &ts) || check_tensors(&ts, data_bytes, name, &why) ? -1 : 0;
	s.tensors = ts.list;
	s.n_tensors = ts.n;
	for (size_t i = 0; i < ts.n && rc == 0; i++)
		if (__builtin_add_overflow(s.n_elements, ts.list[i].n_elements, &s.n_elements))
			rc = err_set(&why, ERR_PLAN, "%s: the sizes overflow", name);
	if (rc) {
		safetensors_done(&s);
		*err = why;
		return -1;
	}
	*out = s;
	return 0;
}

/* --- files --------------------------------------------------------------------------------------------- */

static int read_all(int fd, char *to, size_t n, off_t from, const char *name, struct err *err)
{
	while (n > 0) {
		ssize_t got = pread(fd, to, n, from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, ERR_ENV, errno, "%s: cannot read", name);
		if (got == 0)
			return err_set(err, ERR_ENV, "%s: became shorter while it was read", name);
		to += got;
		from += got;
		n -= (size_t)got;
	}
	return 0;
}

static int header_length(uint64_t *out, int fd, uint64_t size, const char *name, struct err *err)
{
	uint8_t b[LENGTH_BYTES];
	uint64_t len = 0;
	if (weights_not_a_stand_in(fd, size, name, err))
		return -1;
	if (size < LENGTH_BYTES)
		return err_set(err, ERR_PLAN, "%s: only %" PRIu64 " bytes: no room for a header", name, size);
	if (read_all(fd, (char *)b, sizeof(b), 0, name, err))
		return -1;
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		len |= (uint64_t)b[i] << 8 * i;
	if (len > ST_HEADER_BYTES_MAX)
		return err_set(err, ERR_PLAN,
		               "%s: its first 8 bytes tell a header of %" PRIu64
		               " bytes (at most %u): is it a safetensors file?",
		               name, len, ST_HEADER_BYTES_MAX);
	if (len > size - LENGTH_BYTES)
		return err_set(err, ERR_PLAN,
		               "%s: its header of %" PRIu64 " bytes goes past the end of the file (%" PRIu64
		               " bytes): interrupted download",
		               name, len, size);
	*out = len;
	return 0;
}

int safetensors_read(struct safetensors *out, const char *path, struct err *err)
{
	struct stat st;
	uint64_t len = 0;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s: is not a regular file", path);
	if (header_length(&len, fd, (uint64_t)st.st_size, path, err))
		return -1;
	auto_free char *text = malloc((size_t)len + 1);
	if (!text)
		return err_set(err, ERR_ENV, "%s: no memory", path);
	if (read_all(fd, text, (size_t)len, LENGTH_BYTES, path, err) ||
	    safetensors_parse(out, text, (size_t)len, (uint64_t)st.st_size - LENGTH_BYTES - len, path, err))
		return -1;
	out->file_bytes = (uint64_t)st.st_size;
	return 0;
}

void safetensors_done(struct safetensors *s)
{
	for (size_t i = 0; i < s->n_tensors; i++)
		free(s->tensors[i].name);
	free(s->tensors);
	*s = (struct safetensors){ 0 };
}

static int name_order(const void *key, const void *tensor)
{
	return strcmp(key, ((const struct st_tensor *)tensor)->name);
}

const struct st_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	return s->n_tensors ? bsearch(name, s->tensors, s->n_tensors, sizeof(*s->tensors), name_order) : NULL;
}
