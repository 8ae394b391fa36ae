/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded answers: .sse and .ndjson (or .jsonl) are the body of a stream after transfer decoding, .json that
 * of an answer that is not streamed, with the reads that brought it in .reads.json; .http is what came over
 * the connection. All go through the product's answer; a body is read three times (by its reads, whole, byte
 * by byte), and all three must say the same. */
#include "stream_out.h"

#include "load/scan.h"

#include <math.h>
#include <string.h>

#define READS_MAX 1000000

struct reads {
	size_t n;
	uint64_t *at_ns;
	size_t *len;
};

static void free_reads(struct reads *r)
{
	free(r->at_ns);
	free(r->len);
}

static int parse_reads(struct reads *out, const struct buf *text, size_t body_len, const char *name,
                       struct err *err)
{
	auto_json doc = NULL;
	const struct cJSON *pair;
	size_t sum = 0;
	if (json_parse(&doc, text->p, text->len, name, JSON_ENGINE, NULL, err) < 0)
		return -1;
	const struct cJSON *list = json_get(doc, "reads");
	int n = cJSON_GetArraySize(list);
	if (n < 0 || n > READS_MAX)
		return err_set(err, ERR_PLAN, "%s: want at most %d reads", name, READS_MAX);
	out->at_ns = calloc((size_t)n + 1, sizeof *out->at_ns);
	out->len = calloc((size_t)n + 1, sizeof *out->len);
	if (!out->at_ns || !out->len)
		return err_set(err, ERR_ENV, "no memory");
	cJSON_ArrayForEach(pair, list)
	{
		double ms = cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 0));
		double len = cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 1));
		if (!(ms >= 0 && ms < 1e12 && len >= 0 && len <= (double)(body_len - sum)))
			return err_set(err, ERR_PLAN, "%s: read %zu is not within the body", name, out->n);
		out->at_ns[out->n] = (uint64_t)llround(ms * 1e6);
		out->len[out->n++] = (size_t)len;
		sum += (size_t)len;
	}
	if (sum != body_len)
		return err_set(err, ERR_PLAN, "%s: reads hold %zu of %zu bytes", name, sum, body_len);
	return 0;
}

/* Length of the longest start of a character at a place where no whole one is. */
static size_t bad_part(const unsigned char *u, size_t len)
{
	size_t need = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2, k = 2;
	unsigned char lo = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
	unsigned char hi = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
	if (u[0] < 0xC2 || u[0] > 0xF4 || len < 2 || u[1] < lo || u[1] > hi)
		return 1;
	while (k < need && k < len && (u[k] & 0xC0) == 0x80)
		k++;
	return k;
}

/* How many U+FFFD a client makes that decodes each read alone. */
static uint64_t replacements(const char *p, size_t len)
{
	uint64_t n = 0;
	for (size_t at = 0; at < len;) {
		size_t good = utf8_len(p + at, len - at);
		n += good == 0;
		at += good ? good : bad_part((const unsigned char *)p + at, len - at);
	}
	return n;
}

enum cut { BY_READS, WHOLE, BY_BYTES };

static void feed(struct reading *r, const struct buf *body, const struct reads *reads, enum cut cut)
{
	size_t n = cut == BY_READS ? reads->n : cut == WHOLE ? 1 : body->len, at = 0;
	for (size_t i = 0; i < n; i++) {
		size_t len = cut == BY_READS ? reads->len[i] : cut == WHOLE ? body->len : 1;
		r->read_no = i;
		/* a copy of its own: reading past it is seen by the sanitizers */
		char *piece = malloc(len ? len : 1);
		if (!piece)
			return;
		memcpy(piece, body->p + at, len);
		int rc = answer_body(&r->ans, cut == BY_READS ? reads->at_ns[i] : 0, i, piece, len);
		free(piece);
		if (rc < 0)
			break;
		at += len;
	}
	answer_end(&r->ans, TRANSPORT_COMPLETE, "");
}

static bool same(const struct reading *a, const struct reading *b)
{
	for (int i = 0; i < N_CHANNELS; i++) {
		if (a->text[i].len != b->text[i].len ||
		    memcmp(a->text[i].p, b->text[i].p, a->text[i].len) != 0)
			return false;
	}
	return a->rec.outcome == b->rec.outcome && a->rec.tok_n == b->rec.tok_n &&
	       strcmp(a->rec.finish, b->rec.finish) == 0 && strcmp(a->rec.detail, b->rec.detail) == 0 &&
	       a->rec.warnings == b->rec.warnings && a->ans.sse.n_events == b->ans.sse.n_events &&
	       a->ans.sse.n_comments == b->ans.sse.n_comments &&
	       a->ans.lines.n_lines == b->ans.lines.n_lines &&
	       a->rec.usage_output_tok == b->rec.usage_output_tok;
}

static void put_body(struct json_out *o, const struct buf *body, const struct reads *reads)
{
	uint64_t naive = 0;
	for (size_t i = 0, at = 0; i < reads->n; at += reads->len[i++])
		naive += replacements(body->p + at, reads->len[i]);
	jo_u64(o, "naive_per_read_decode_has_U+FFFD", naive);
	jo_u64(o, "body_bytes", body->len);
	put_sha256(o, "body_sha256", body->p, body->len);
}

static int read_body(struct json_out *o, const struct buf *body, const struct reads *reads, bool timed,
                     bool whole, struct err *err)
{
	struct reading by[3];
	for (int i = 0; i < 3; i++) {
		reading_init_whole(&by[i], reading_proto(body->p, body->len), whole);
		feed(&by[i], body, reads, (enum cut)i);
	}
	int rc = same(&by[BY_READS], &by[WHOLE]) && same(&by[WHOLE], &by[BY_BYTES])
	                 ? 0
	                 : err_set(err, ERR_BUG, "the answer depends on how its bytes were cut into reads");
	if (rc == 0) {
		reading_put(o, &by[BY_READS], timed);
		put_body(o, body, reads);
	}
	for (int i = 0; i < 3; i++)
		reading_done(&by[i]);
	return rc;
}

static int read_recorded(const struct case_dir *c, const struct case_input *in, struct json_out *o,
                         struct err *err)
{
	auto_buf body = BUF_INIT(CASE_FILE_BYTES_MAX), text = BUF_INIT(CASE_FILE_BYTES_MAX);
	auto_free char *name = str_fmt("%s%sreads", in->name, in->name[0] ? "." : "");
	const struct case_input *times = name ? case_find(c, name, "json") : NULL;
	struct reads reads = { 0 };
	uint64_t no_time = 0;
	if (buf_adds(&body, "") < 0 || case_read_file(&body, c, in, err) < 0)
		return -1;
	struct reads one = { 1, &no_time, &body.len };
	if (times && (case_read_file(&text, c, times, err) < 0 ||
	              parse_reads(&reads, &text, body.len, times->file, err) < 0)) {
		free_reads(&reads);
		return -1;
	}
	int rc = read_body(o, &body, times ? &reads : &one, times != NULL, strcmp(in->ext, "json") == 0, err);
	free_reads(&reads);
	return rc;
}

static bool is_body(const struct case_input *in)
{
	size_t n = strlen(in->name);
	bool reads = n >= 5 && strcmp(in->name + n - 5, "reads") == 0;
	return strcmp(in->ext, "sse") == 0 || strcmp(in->ext, "ndjson") == 0 ||
	       strcmp(in->ext, "jsonl") == 0 || (strcmp(in->ext, "json") == 0 && !reads);
}

int read_stream_kind(const struct case_dir *c, struct json_out *o, struct err *err)
{
	size_t n = 0;
	jo_u64(o, "http_status_of_all", 200); /* a body is that of a 200 */
	for (size_t i = 0; i < c->n_inputs; i++) {
		const struct case_input *in = &c->inputs[i];
		bool body = is_body(in), http = strcmp(in->ext, "http") == 0;
		if (!body && !http)
			continue;
		n++;
		if (in->name[0])
			jo_obj(o, in->name);
		int rc = body ? read_recorded(c, in, o, err) : read_http(c, in, o, err);
		if (rc < 0)
			return -1;
		if (in->name[0])
			jo_end(o);
	}
	if (n == 0)
		return err_set(err, ERR_PLAN, "no .sse, .ndjson, .json or .http input");
	return 0;
}
