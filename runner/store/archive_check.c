/* SPDX-License-Identifier: Apache-2.0 */
#include "store/archive_check.h"

#include "base/cleanup.h"
#include "store/path_rule.h"
#include "store/tar_pax.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512u
#define EXTENSION_BYTES_MAX (1u << 20)
#define COMMENT_HEADERS_MAX 1024u

/* Fields of a header, by their place (POSIX.1 pax, "ustar interchange format"). */
enum {
	AT_NAME = 0,
	AT_SIZE = 124,
	AT_CHECKSUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
	AT_DEV = 329,
	AT_PREFIX = 345
};
enum { LEN_NAME = 100, LEN_SIZE = 12, LEN_CHECKSUM = 8, LEN_LINK = 100, LEN_PREFIX = 155 };

enum magic { MAGIC_USTAR, MAGIC_GNU, MAGIC_OLD, MAGIC_NONE };

struct walk {
	const uint8_t *data;
	size_t len, at;
	struct archive_list list;
	size_t cap;
	struct name_set *names;
	/* of the extension headers before the next entry */
	struct pax_records pax;
	const char *gnu_name;
	size_t gnu_name_len, n_extensions, n_globals;
	bool has_pax, has_gnu_name;
};

static const char *no_memory = "no memory";

void archive_list_done(struct archive_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->files[i].path);
	free(l->files);
	*l = (struct archive_list){ 0 };
}

/* --- one header ------------------------------------------------------------------------------------------
 */

static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

/* Octal digits, then only NULs and blanks; leading blanks as some writers have them. */
static int octal(uint64_t *out, const uint8_t *p, size_t len)
{
	uint64_t value = 0;
	size_t i = 0, n_digits = 0;
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++, n_digits++)
		value = value << 3 | (uint64_t)(p[i] - '0');
	for (; i < len; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return -1;
	*out = value;
	return n_digits ? 0 : -1;
}

static const char *size_fault(uint64_t *size, const uint8_t *h)
{
	const uint8_t *p = h + AT_SIZE;
	if (p[0] == 0xff || (p[0] >= 0xc0 && p[0] & 0x80) || p[0] == '-')
		return "negative size";
	if (p[0] & 0x80)
		return "size in base 256, want octal digits";
	return octal(size, p, LEN_SIZE) ? "size is not in octal digits" : NULL;
}

static const char *checksum_fault(const uint8_t *h)
{
	uint64_t want, sum = 0;
	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= AT_CHECKSUM && i < AT_CHECKSUM + LEN_CHECKSUM ? ' ' : h[i];
	return octal(&want, h + AT_CHECKSUM, LEN_CHECKSUM) || want != sum ? "header checksum" : NULL;
}

static enum magic magic_of(const uint8_t *h)
{
	if (memcmp(h + AT_MAGIC, "ustar\00000", 8) == 0)
		return MAGIC_USTAR;
	if (memcmp(h + AT_MAGIC, "ustar  ", 8) == 0)
		return MAGIC_GNU;
	return is_zero(h + AT_MAGIC, 8) ? MAGIC_OLD : MAGIC_NONE;
}

static const char *type_fault(uint8_t type)
{
	switch (type) {
	case '0':
	case '\0':
	case '5':
		return NULL;
	case '1':
		return "hard link";
	case '2':
		return "symbolic link";
	case '3':
	case '4':
	case '6':
		return "device or fifo: not a regular file or directory";
	case 'S':
		return "sparse file";
	default:
		return "entry type is not a regular file or directory";
	}
}

/* Text up to its NUL; what stands behind that must be zero, or two readers see two names. */
static const char *field_text(size_t *len, const uint8_t *p, size_t max)
{
	const uint8_t *end = memchr(p, '\0', max);
	*len = end ? (size_t)(end - p) : max;
	return is_zero(p + *len, max - *len) ? NULL : "control character in a path (bytes behind a NUL)";
}

/* Prefix and name joined; malloc'd. */
static const char *header_name(char **out, size_t *out_len, const uint8_t *h, enum magic magic)
{
	size_t name_len, prefix_len = 0;
	const char *fault = field_text(&name_len, h + AT_NAME, LEN_NAME);
	if (!fault && magic == MAGIC_USTAR)
		fault = field_text(&prefix_len, h + AT_PREFIX, LEN_PREFIX);
	else if (!fault && !is_zero(h + AT_PREFIX, BLOCK - AT_PREFIX))
		fault = "bytes in fields that this kind of header has not";
	if (fault)
		return fault;
	char *name = malloc(prefix_len + name_len + 2);
	if (!name)
		return no_memory;
	size_t n = 0;
	if (prefix_len) {
		memcpy(name, h + AT_PREFIX, prefix_len);
		name[prefix_len] = '/';
		n = prefix_len + 1;
	}
	memcpy(name + n, h + AT_NAME, name_len);
	name[n + name_len] = '\0';
	*out = name;
	*out_len = n + name_len;
	return NULL;
}

/* --- extension headers -----------------------------------------------------------------------------------
 */

static const char *take_gnu_name(struct walk *w, const uint8_t *data, size_t size)
{
	if (w->has_gnu_name || (w->has_pax && w->pax.path))
		return "two long names for one entry";
	const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
	size_t len = end ? (size_t)(end - data) : size;
	if (!is_zero(data + len, size - len))
		return "control character in a path (bytes behind a NUL)";
	w->has_gnu_name = true;
	w->gnu_name = (const char *)data;
	w->gnu_name_len = len;
	w->n_extensions++;
	return NULL;
}

static const char *take_pax(struct walk *w, const uint8_t *data, size_t size, bool global)
{
	struct pax_records ignored = { 0 };
	if (global) {
		if (w->n_extensions)
			return "global header between an extension header and its entry";
		if (++w->n_globals > COMMENT_HEADERS_MAX)
			return "too many global headers";
		return pax_read(&ignored, (const char *)data, size, true);
	}
	if (w->has_pax)
		return "two pax headers for one entry";
	w->has_pax = true;
	w->n_extensions++;
	const char *fault = pax_read(&w->pax, (const char *)data, size, false);
	if (!fault && w->pax.path && w->has_gnu_name)
		return "two long names for one entry";
	return fault;
}

/* Data of an extension is bounded by its own header, never by a size record. */
static const char *take_extension(struct walk *w, const uint8_t *h, uint64_t size, const uint8_t *data)
{
	if (w->has_pax && w->pax.has_size)
		return "size record before an extension header";
	switch (h[AT_TYPE]) {
	case 'L':
		return take_gnu_name(w, data, (size_t)size);
	case 'K':
		return "long name of a link";
	default:
		return take_pax(w, data, (size_t)size, h[AT_TYPE] == 'g');
	}
}

/* --- entries ---------------------------------------------------------------------------------------------
 */

static const char *entry_add(struct walk *w, const char *path, size_t len, uint64_t size, bool is_dir)
{
	const char *fault = path_fault(path, len);
	if (!fault)
		fault = name_set_add(w->names, path, len, is_dir);
	if (fault)
		return fault;
	if (w->list.n == ARCHIVE_ENTRIES_MAX)
		return "more than 65536 entries";
	if (w->list.n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct archive_file *files = realloc(w->list.files, cap * sizeof(*files));
		if (!files)
			return no_memory;
		w->list.files = files;
		w->cap = cap;
	}
	char *copy = strndup(path, len);
	if (!copy)
		return no_memory;
	w->list.files[w->list.n++] = (struct archive_file){ copy, w->at + BLOCK, size, is_dir };
	return NULL;
}

/* The one name of the entry: long one or the header's own. A folder's '/' at the end is taken off. */
static const char *entry_named(struct walk *w, const char *own, size_t own_len, uint64_t size, bool is_dir)
{
	const char *path = w->pax.path ? w->pax.path : w->has_gnu_name ? w->gnu_name : own;
	size_t len = w->pax.path ? w->pax.path_len : w->has_gnu_name ? w->gnu_name_len : own_len;
	if (len > 1 && path[len - 1] == '/' && path[len - 2] != '/') {
		if (!is_dir)
			return "name of a file ends with '/'";
		len--;
	}
	return entry_add(w, path, len, size, is_dir);
}

static const char *take_entry(struct walk *w, const uint8_t *h, enum magic magic, uint64_t size)
{
	bool is_dir = h[AT_TYPE] == '5';
	size_t own_len = 0;
	auto_free char *own = NULL;
	const char *fault = type_fault(h[AT_TYPE]);
	if (fault)
		return fault;
	if (!is_zero(h + AT_LINK, LEN_LINK))
		return "link target on an entry that is no link";
	if (is_dir && size)
		return "folder with data";
	if (w->pax.has_size && w->pax.size_bytes != size)
		return "size record differs from the header";
	if ((fault = header_name(&own, &own_len, h, magic)))
		return fault;
	if ((fault = entry_named(w, own, own_len, size, is_dir)))
		return fault;
	w->pax = (struct pax_records){ 0 };
	w->has_pax = w->has_gnu_name = false;
	w->n_extensions = 0;
	return NULL;
}

static bool is_extension(uint8_t type)
{
	return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

static const char *take_header(struct walk *w)
{
	const uint8_t *h = w->data + w->at;
	uint64_t size = 0;
	enum magic magic = magic_of(h);
	const char *fault = checksum_fault(h);
	if (fault)
		return w->at == 0 && magic == MAGIC_NONE ? "is not a plain tar archive (header checksum)"
		                                         : fault;
	if (magic == MAGIC_NONE)
		return "unknown kind of header";
	if ((fault = size_fault(&size, h)))
		return fault;
	size_t left = w->len - w->at - BLOCK;
	/* A bad type is told before its data is looked for: devices and links may carry any size. */
	if (!is_extension(h[AT_TYPE]) && (fault = type_fault(h[AT_TYPE])))
		return fault;
	if (is_extension(h[AT_TYPE]) && size > EXTENSION_BYTES_MAX)
		return "extension header over 1 MiB";
	if (size > left || (BLOCK - size % BLOCK) % BLOCK > left - size)
		return "ends inside an entry (truncated)";
	fault = is_extension(h[AT_TYPE]) ? take_extension(w, h, size, h + BLOCK)
	                                 : take_entry(w, h, magic, size);
	if (!fault)
		w->at += BLOCK + size + (BLOCK - size % BLOCK) % BLOCK;
	return fault;
}

/* At a zero block: the second must follow, then only zeros. */
static const char *take_end(struct walk *w)
{
	size_t left = w->len - w->at;
	if (w->n_extensions)
		return "extension header without its entry";
	if (left < (size_t)2 * BLOCK)
		return "no end mark of two zero blocks (truncated)";
	if (!is_zero(w->data + w->at + BLOCK, BLOCK))
		return "data after the end of the archive (behind a single zero block)";
	if (!is_zero(w->data + w->at, left))
		return "data after the end of the archive";
	if (left % BLOCK)
		return "ends inside a block";
	return w->list.n ? NULL : "archive is empty";
}

static const char *walk_all(struct walk *w)
{
	if (w->len == 0)
		return "archive is empty";
	for (;;) {
		if (w->len - w->at < BLOCK)
			return w->len == w->at ? "no end mark of two zero blocks (truncated)"
			                       : "ends inside a header (truncated)";
		if (is_zero(w->data + w->at, BLOCK))
			return take_end(w);
		const char *fault = take_header(w);
		if (fault)
			return fault;
	}
}

/* --- the second reader -----------------------------------------------------------------------------------
 */

static bool same_entry(struct archive_entry *e, const struct archive_file *f)
{
	const char *path = archive_entry_pathname_utf8(e);
	if (!path)
		path = archive_entry_pathname(e);
	size_t len = path ? strlen(path) : 0;
	if (len && f->is_dir && path[len - 1] == '/')
		len--;
	return path && len == strlen(f->path) && memcmp(path, f->path, len) == 0 &&
	       archive_entry_filetype(e) == (f->is_dir ? AE_IFDIR : AE_IFREG) &&
	       (f->is_dir || archive_entry_size(e) == (la_int64_t)f->size_bytes);
}

/* libarchive must see the same files: what it reads otherwise has two readings. */
static const char *second_reading(const struct walk *w)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	size_t n = 0;
	bool same = a && archive_read_support_format_tar(a) == ARCHIVE_OK &&
	            archive_read_open_memory(a, w->data, w->len) == ARCHIVE_OK;
	while (same) {
		int rc = archive_read_next_header(a, &e);
		if (rc == ARCHIVE_EOF)
			break;
		same = (rc == ARCHIVE_OK || rc == ARCHIVE_WARN) && n < w->list.n &&
		       same_entry(e, &w->list.files[n]);
		n++;
	}
	same = same && n == w->list.n;
	archive_read_free(a);
	return same ? NULL : "libarchive reads other files from it";
}

int archive_check(struct archive_list *out, const void *data, size_t len, struct err *err)
{
	struct walk w = { .data = data, .len = len, .names = name_set_new() };
	const char *fault = w.names ? walk_all(&w) : no_memory;
	if (!fault)
		fault = second_reading(&w);
	name_set_free(w.names);
	if (!fault) {
		*out = w.list;
		return 0;
	}
	archive_list_done(&w.list);
	if (fault == no_memory)
		return err_set(err, ERR_ENV, "archive: no memory");
	return err_set(err, ERR_PLAN, "archive: at byte %zu: %s", w.at, fault);
}
