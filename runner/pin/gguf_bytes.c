/* SPDX-License-Identifier: Apache-2.0 */
#include "pin/gguf_bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_BYTES_MAX (256u << 20) /* tokenizer lists of large vocabularies are some 10 MiB */
#define STEPS_MAX 40000000u

int gguf_damaged(struct gguf_bytes *r, const char *what)
{
	return err_set(r->err, ERR_PLAN, "%s: GGUF header damaged at byte %" PRIu64 ": %s", r->name, r->at,
	               what);
}

uint64_t gguf_left(const struct gguf_bytes *r)
{
	return r->size - r->at;
}

static int fill(struct gguf_bytes *r)
{
	ssize_t n;
	do
		n = pread(r->fd, r->window, GGUF_WINDOW_BYTES, (off_t)r->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(r->err, ERR_ENV, errno, "%s: cannot read", r->name);
	r->window_at = r->at;
	r->window_len = (size_t)n;
	return 0;
}

int gguf_skip(struct gguf_bytes *r, uint64_t n)
{
	if (n > gguf_left(r))
		return gguf_damaged(r, "it ends too early");
	if (r->at + n > HEADER_BYTES_MAX || ++r->steps > STEPS_MAX)
		return gguf_damaged(r, "it is larger than any real one");
	r->at += n;
	return 0;
}

static bool in_window(const struct gguf_bytes *r, uint64_t at, size_t n)
{
	return at >= r->window_at && at - r->window_at <= r->window_len &&
	       n <= r->window_len - (size_t)(at - r->window_at);
}

/* At most one window. */
static int take_piece(struct gguf_bytes *r, uint8_t *out, size_t n)
{
	uint64_t from = r->at;
	if (gguf_skip(r, n))
		return -1;
	if (!in_window(r, from, n)) {
		r->at = from;
		if (fill(r))
			return -1;
		if (r->window_len < n)
			return gguf_damaged(r, "it ends too early");
		r->at = from + n;
	}
	memcpy(out, r->window + (from - r->window_at), n);
	return 0;
}

int gguf_take(struct gguf_bytes *r, void *out, size_t n)
{
	uint8_t *to = out;
	while (n > 0) {
		size_t piece = n < GGUF_WINDOW_BYTES ? n : GGUF_WINDOW_BYTES;
		if (take_piece(r, to, piece))
			return -1;
		to += piece;
		n -= piece;
	}
	return 0;
}

int gguf_take_uint(struct gguf_bytes *r, size_t n, uint64_t *out)
{
	uint8_t b[8];
	uint64_t v = 0;
	if (take_piece(r, b, n))
		return -1;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | b[r->big_endian ? i : n - 1 - i];
	*out = v;
	return 0;
}

int gguf_take_text(struct gguf_bytes *r, char **out, size_t max)
{
	uint64_t len;
	if (gguf_take_uint(r, 8, &len))
		return -1;
	if (len > gguf_left(r))
		return gguf_damaged(r, "a text is longer than the file");
	if (len > max)
		return gguf_damaged(r, "a name is too long");
	char *text = malloc((size_t)len + 1);
	if (!text)
		return err_set(r->err, ERR_ENV, "%s: no memory", r->name);
	if (gguf_take(r, text, (size_t)len)) {
		free(text);
		return -1;
	}
	text[len] = '\0';
	if (strlen(text) != len) {
		free(text);
		return gguf_damaged(r, "a NUL byte in a name");
	}
	*out = text;
	return 0;
}
