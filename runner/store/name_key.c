/* SPDX-License-Identifier: Apache-2.0 */
#include "store/name_key.h"

#include "base/cleanup.h"
#include "model/surface.h"
#include "store/unicode_table.h"

#include <string.h>

int32_t utf8_next(const char *text, size_t len, size_t *at)
{
	uint32_t code = 0;
	size_t n = utf8_get(text + *at, len - *at, &code);
	*at += n;
	return n ? (int32_t)code : -1;
}

static const struct code_map *find_code(const struct code_map *map, size_t n, uint32_t code)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (map[mid].code < code)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && map[low].code == code ? &map[low] : NULL;
}

static unsigned combining_class(uint32_t code)
{
	size_t low = 0, high = ARRAY_LEN(combining);
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (combining[mid].last < code)
			low = mid + 1;
		else
			high = mid;
	}
	return low < ARRAY_LEN(combining) && combining[low].first <= code ? combining[low].combining_class
	                                                                  : 0;
}

static int add_code(struct buf *out, uint32_t code)
{
	return buf_add(out, &code, sizeof(code));
}

static int add_decomposed(struct buf *out, uint32_t code)
{
	if (code >= 0xac00 && code <= 0xd7a3) { /* Hangul, by arithmetic */
		uint32_t s = code - 0xac00, t = s % 28;
		add_code(out, 0x1100 + s / 588);
		return add_code(out, 0x1161 + s % 588 / 28) || (t && add_code(out, 0x11a7 + t)) ? -1 : 0;
	}
	const struct code_map *m = find_code(nfd_map, ARRAY_LEN(nfd_map), code);
	return m ? buf_add(out, nfd_pool + m->at, m->n * sizeof(*nfd_pool)) : add_code(out, code);
}

/* Marks behind one letter, in the order of their classes; equal classes keep their order. */
static void order_marks(struct buf *b)
{
	size_t n = b->len / sizeof(uint32_t);
	for (size_t i = 1; i < n; i++) {
		uint32_t code, before;
		memcpy(&code, b->p + i * sizeof(code), sizeof(code));
		unsigned cls = combining_class(code);
		size_t at = i;
		while (cls && at > 0) {
			memcpy(&before, b->p + (at - 1) * sizeof(code), sizeof(code));
			if (combining_class(before) <= cls)
				break;
			memcpy(b->p + at * sizeof(code), &before, sizeof(code));
			at--;
		}
		memcpy(b->p + at * sizeof(code), &code, sizeof(code));
	}
}

int name_key_nfd(struct buf *out, const char *text, size_t len)
{
	auto_buf b = BUF_INIT(out->max_bytes);
	for (size_t at = 0; at < len;) {
		int32_t c = utf8_next(text, len, &at);
		if (c < 0 || add_decomposed(&b, (uint32_t)c))
			return -1;
	}
	order_marks(&b);
	return b.len ? buf_add(out, b.p, b.len) : 0;
}

int name_key_folded(struct buf *out, const char *text, size_t len)
{
	auto_buf nfd = BUF_INIT(out->max_bytes);
	auto_buf b = BUF_INIT(out->max_bytes);
	if (name_key_nfd(&nfd, text, len))
		return -1;
	for (size_t i = 0; i < nfd.len; i += sizeof(uint32_t)) {
		uint32_t code;
		memcpy(&code, nfd.p + i, sizeof(code));
		const struct code_map *m = find_code(fold_map, ARRAY_LEN(fold_map), code);
		for (size_t k = 0; m && k < m->n; k++)
			add_decomposed(&b, fold_pool[m->at + k]);
		if (!m)
			add_decomposed(&b, code);
	}
	order_marks(&b);
	return b.failed ? -1 : b.len ? buf_add(out, b.p, b.len) : 0;
}
