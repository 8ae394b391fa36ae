/* SPDX-License-Identifier: Apache-2.0 */
#include "load/sse.h"

#include <string.h>

#define BOM "\xEF\xBB\xBF"
#define BOM_DECIDED 4

void sse_init(struct sse *s, size_t max_event_bytes)
{
	memset(s, 0, sizeof *s);
	s->max_event_bytes = max_event_bytes;
	buf_init(&s->line, max_event_bytes);
	buf_init(&s->acc, max_event_bytes);
	sse_reset(s);
}

void sse_done(struct sse *s)
{
	buf_done(&s->line);
	buf_done(&s->acc);
}

void sse_reset(struct sse *s)
{
	struct buf line = s->line, acc = s->acc;
	size_t max = s->max_event_bytes;
	memset(s, 0, sizeof *s);
	s->line = line;
	s->acc = acc;
	s->max_event_bytes = max;
	s->retry_ms = UINT64_MAX;
	buf_clear(&s->line);
	buf_clear(&s->acc);
	s->line.failed = s->acc.failed = false;
}

static void keep(struct sse *s, struct buf *b, const char *p, size_t len)
{
	if (len && buf_add(b, p, len) < 0)
		s->too_long = true;
}

/* The mark may come byte by byte; bytes that only looked like its start belong to the first line. */
static void skip_bom(struct sse *s)
{
	while (s->bom < BOM_DECIDED && s->p < s->end) {
		if (s->bom < 3 && *s->p == BOM[s->bom]) {
			s->p++;
			if (++s->bom == 3) {
				s->had_bom = true;
				s->bom = BOM_DECIDED;
			}
			continue;
		}
		keep(s, &s->line, BOM, s->bom);
		s->bom = BOM_DECIDED;
	}
}

void sse_feed(struct sse *s, const char *bytes, size_t len)
{
	s->p = bytes;
	s->end = bytes + len;
	s->lf = s->cr = NULL;
	if (s->bom < BOM_DECIDED)
		skip_bom(s);
}

static void add_data(struct sse *s, const char *v, size_t len, bool stays)
{
	if (len > s->max_event_bytes) {
		s->too_long = true;
		return;
	}
	if (!s->has_data && stays) {
		s->data = v;
		s->data_len = len;
		s->in_acc = false;
	} else {
		if (!s->has_data) {
			buf_clear(&s->acc);
		} else {
			if (!s->in_acc) {
				buf_clear(&s->acc);
				keep(s, &s->acc, s->data, s->data_len);
			}
			keep(s, &s->acc, "\n", 1);
		}
		keep(s, &s->acc, v, len);
		s->in_acc = true;
	}
	s->has_data = true;
}

static void copy_cut(char *out, size_t size, const char *v, size_t len)
{
	size_t n = len < size - 1 ? len : size - 1;
	memcpy(out, v, n);
	out[n] = '\0';
}

static void set_retry(struct sse *s, const char *v, size_t len)
{
	uint64_t n = 0;
	if (len == 0 || len > 15)
		return;
	for (size_t i = 0; i < len; i++) {
		if (v[i] < '0' || v[i] > '9')
			return;
		n = n * 10 + (uint64_t)(v[i] - '0');
	}
	s->retry_ms = n;
}

static bool is_name(const char *name, size_t len, const char *want, size_t want_len)
{
	return len == want_len && memcmp(name, want, len) == 0;
}
#define IS(word) is_name(l, name_len, word, sizeof(word) - 1)

/* One line, not empty, without its end. `stays`: it lies in the caller's read. */
static void take_line(struct sse *s, const char *l, size_t len, bool stays)
{
	if (l[0] == ':') {
		s->n_comments++;
		return;
	}
	const char *colon = memchr(l, ':', len);
	size_t name_len = colon ? (size_t)(colon - l) : len;
	const char *v = l + name_len + (colon ? 1 : 0);
	size_t v_len = (size_t)(l + len - v);
	if (v_len && *v == ' ') {
		v++;
		v_len--;
	}
	if (IS("data")) {
		add_data(s, v, v_len, stays);
	} else if (IS("event")) {
		copy_cut(s->type, sizeof s->type, v, v_len);
	} else if (IS("id")) {
		if (!memchr(v, '\0', v_len)) {
			copy_cut(s->id_next, sizeof s->id_next, v, v_len);
			s->id_new = true;
		}
	} else if (IS("retry")) {
		set_retry(s, v, v_len);
	} else if (IS("error")) {
		add_data(s, v, v_len, stays);
		s->error_field = true;
		s->n_unknown_fields++;
	} else {
		s->n_unknown_fields++;
	}
}

/* At a blank line. True when there is an event to give out. */
static bool dispatch(struct sse *s, struct sse_event *ev)
{
	bool had = s->has_data;
	size_t len = s->in_acc ? s->acc.len : s->data_len;
	if (s->id_new) {
		memcpy(s->last_id, s->id_next, sizeof s->last_id);
		s->id_new = false;
	}
	if (had && len) {
		ev->data = s->in_acc ? s->acc.p : s->data;
		ev->len = len;
		ev->error_field = s->error_field;
		memcpy(s->type_out, s->type, sizeof s->type_out);
		ev->type = s->type_out;
		s->n_events++;
	} else if (had) {
		s->n_empty_events++;
	}
	s->has_data = s->in_acc = s->error_field = false;
	s->type[0] = '\0';
	return had && len;
}

static const char *next_of(const char *known, const char *p, const char *end, int c)
{
	if (known >= p && known)
		return known;
	const char *q = memchr(p, c, (size_t)(end - p));
	return q ? q : end;
}

/* The next whole line. False when the read holds no further end of line: the rest is kept. */
static bool next_line(struct sse *s, const char **l, size_t *len, bool *stays)
{
	if (s->skip_lf && s->p < s->end) {
		s->p += *s->p == '\n';
		s->skip_lf = false;
	}
	if (s->p == s->end)
		return false;
	s->lf = next_of(s->lf, s->p, s->end, '\n');
	s->cr = next_of(s->cr, s->p, s->end, '\r');
	const char *e = s->lf < s->cr ? s->lf : s->cr;
	*l = s->p;
	*len = (size_t)(e - s->p);
	*stays = s->line.len == 0;
	if (e == s->end) {
		keep(s, &s->line, *l, *len);
		s->p = e;
		return false;
	}
	s->p = e + 1;
	s->skip_lf = *e == '\r';
	if (!*stays) {
		keep(s, &s->line, *l, *len);
		*l = s->line.p;
		*len = s->line.len;
	}
	return true;
}

enum sse_step sse_next(struct sse *s, struct sse_event *ev)
{
	const char *l;
	size_t len;
	bool stays;
	while (!s->too_long && next_line(s, &l, &len, &stays)) {
		if (len) {
			take_line(s, l, len, stays);
			if (!stays)
				buf_clear(&s->line);
			continue;
		}
		if (dispatch(s, ev))
			return SSE_EVENT;
	}
	if (s->has_data && !s->in_acc && !s->too_long) {
		buf_clear(&s->acc);
		keep(s, &s->acc, s->data, s->data_len);
		s->in_acc = true;
	}
	return s->too_long ? SSE_LONG : SSE_MORE;
}

bool sse_inside_event(const struct sse *s)
{
	return s->has_data || (s->line.len && s->line.p[0] != ':');
}
