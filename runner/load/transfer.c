/* SPDX-License-Identifier: Apache-2.0 */
/* One request, whatever carries it: its record, from the moment it is sent to its one outcome. */
#include "load/load_int.h"

#include "base/clock.h"

#include <string.h>

#define KEEP_TEXT_BYTES_MAX (4u << 20)

uint64_t transfer_rel(const struct load *ld, uint64_t now_ns)
{
	return now_ns > ld->spec->origin_ns ? now_ns - ld->spec->origin_ns : 0;
}

/* --- what comes ---------------------------------------------------------------------------------------- */

/* An interim answer (100 Continue) is neither a status nor the first byte of the answer. */
void transfer_head_seen(struct slot *s, uint64_t now_ns)
{
	int status = s->http.head.status;
	s->last_rx_ns = now_ns;
	if (status < 200 && status != 101)
		return;
	s->rec.http = status;
	if (s->rec.first_byte_ns == REC_NONE)
		s->rec.first_byte_ns = transfer_rel(s->ld, now_ns);
}

int transfer_body(struct slot *s, uint64_t now_ns, const char *bytes, size_t len)
{
	uint64_t tok_before = s->rec.tok_n;
	s->last_rx_ns = now_ns;
	if (s->tap && s->tap->body)
		s->tap->body(s->tap->ctx, bytes, len);
	int rc = answer_body(&s->ans, transfer_rel(s->ld, now_ns), s->ld->read_no, bytes, len);
	s->ld->n_tokens += s->rec.tok_n - tok_before;
	if (s->whole_ns == 0 && s->ans.wire.done)
		s->whole_ns = now_ns;
	return rc;
}

/* --- slots --------------------------------------------------------------------------------------------- */

struct slot *slot_new(struct load *ld)
{
	struct slot *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->ld = ld;
	s->conn.fd = -1;
	http1_init(&s->http);
	answer_init(&s->ans, ld->spec->proto, ld->spec->bearer);
	s->ans.whole = ld->spec->whole_answer;
	buf_init(&s->text, KEEP_TEXT_BYTES_MAX);
	if (ld->spec->keep_text)
		s->ans.wire.text[CHANNEL_CONTENT].keep = &s->text;
	if (ld->path->slot_open(s) < 0) {
		slot_free(s);
		return NULL;
	}
	return s;
}

void slot_free(struct slot *s)
{
	if (!s)
		return;
	s->ld->path->slot_close(s);
	http1_done(&s->http);
	answer_done(&s->ans);
	buf_done(&s->text);
	free(s);
}

static void fill_record(struct slot *s, const struct load_request *rq, uint64_t due_ns)
{
	const struct load_spec *spec = s->ld->spec;
	size_t cell_len = strnlen(spec->cell_id, sizeof s->rec.cell - 1);
	record_init(&s->rec);
	memcpy(s->rec.cell, spec->cell_id, cell_len);
	s->rec.cell[cell_len] = '\0';
	s->rec.kind = spec->kind;
	s->rec.start = spec->start;
	s->rec.slot = spec->arrival == ARRIVAL_CLOSED ? s->index : 0;
	s->rec.due_ns = transfer_rel(s->ld, due_ns);
	s->rec.k = rq->k;
	s->rec.conv = rq->conv;
	s->rec.turn = rq->turn;
	s->rec.part = rq->part;
	s->rec.attempts = 1;
	s->rec.prompt_tok = rq->prompt_tok;
	s->rec.want_output_tok = rq->want_output_tok;
	s->rec.http = 0;
	s->last_rx_ns = s->whole_ns = s->conn_ns = 0;
	s->n_sends = 0;
	s->connected = false;
	buf_clear(&s->text);
}

void slot_send(struct slot *s, const struct load_request *rq, uint64_t due_ns)
{
	struct load *ld = s->ld;
	fill_record(s, rq, due_ns);
	http1_start(&s->http);
	s->busy_at = ld->n_busy;
	ld->busy[ld->n_busy++] = s;
	s->sent_ns = clock_now_ns();
	s->rec.sent_ns = s->rec.first_sent_ns = transfer_rel(ld, s->sent_ns);
	answer_start(&s->ans, &s->rec);
	ld->path->send(s, rq);
}

/* --- the end of one ------------------------------------------------------------------------------------ */

static void finish(struct slot *s, enum transport how, const char *why, bool whole)
{
	struct load *ld = s->ld;
	s->rec.end_ns = transfer_rel(ld, clock_now_ns());
	ld->path->drop(s, whole);
	memcpy(s->ans.content_type, s->http.head.content_type, sizeof s->ans.content_type);
	if (s->conn_ns)
		s->rec.conn_ns = transfer_rel(ld, s->conn_ns);
	s->rec.warnings += s->n_sends > 1;
	answer_end(&s->ans, how, why);
	ld->busy[s->busy_at] = ld->busy[--ld->n_busy];
	ld->busy[s->busy_at]->busy_at = s->busy_at;
	ld->finished(ld, s);
}

void transfer_end(struct slot *s, enum transport how, const char *why)
{
	finish(s, how, why, how == TRANSPORT_COMPLETE);
}

void slot_stop(struct slot *s, enum transport how, const char *why)
{
	finish(s, how, why, false);
}

void transfer_ready(struct load *ld, int fd, uint32_t epoll_events)
{
	ld->stamped = false;
	ld->path->ready(ld, fd, epoll_events);
}

void transfer_timeout(struct load *ld)
{
	ld->stamped = false;
	ld->curl_due_ns = UINT64_MAX;
	ld->path->timeout(ld);
}

size_t transfer_reap(struct load *ld)
{
	return ld->path->reap(ld);
}

/* --- set-up -------------------------------------------------------------------------------------------- */

static bool is_unix(const struct load_spec *spec)
{
	return strncmp(spec->url, "unix:///", 8) == 0;
}

/* What the plain path leaves to libcurl: TLS, and URLs that hold more than host and port. */
static bool is_plain(CURLU *u, const char *scheme)
{
	char *user = NULL, *zone = NULL, *host = NULL;
	bool plain = strcmp(scheme, "http") == 0 &&
	             curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER &&
	             curl_url_get(u, CURLUPART_ZONEID, &zone, 0) == CURLUE_NO_ZONEID &&
	             curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK;
	for (const char *p = plain ? host : ""; *p; p++)
		plain = plain && *p > ' ' && *p < 0x7F;
	curl_free(user);
	curl_free(zone);
	curl_free(host);
	return plain;
}

static int choose_path(struct load *ld, struct err *err)
{
	CURLU *u = curl_url();
	char *scheme = NULL;
	bool ok = u && curl_url_set(u, CURLUPART_URL, ld->url, 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	          (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
	if (ok && !ld->spec->use_libcurl && is_plain(u, scheme))
		ld->path = &transfer_plain;
	curl_free(scheme);
	curl_url_cleanup(u);
	if (!ok)
		return err_set(err, ERR_PLAN, "load: '%s' is no http, https or unix URL", ld->spec->url);
	return 0;
}

int transfer_setup(struct load *ld, struct err *err)
{
	const struct load_spec *spec = ld->spec;
	const char *path = spec->path ? spec->path : spec->proto->path;
	ld->path = &transfer_curl;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ERR_ENV, "load: libcurl does not start");
	if (spec->bearer && strpbrk(spec->bearer, "\r\n"))
		return err_set(err, ERR_USAGE, "load: the bearer key holds a line break");
	ld->url = str_fmt("%s%s", is_unix(spec) ? "http://localhost" : spec->url, path);
	if (!ld->url)
		return err_set(err, ERR_ENV, "load: no memory");
	if (choose_path(ld, err) < 0)
		return -1;
	return ld->path->open(ld, err);
}

void transfer_teardown(struct load *ld)
{
	if (!ld->path)
		return;
	for (size_t i = 0; i < ld->n_busy; i++)
		ld->path->drop(ld->busy[i], false);
	for (size_t i = 0; i < ld->n_slots; i++)
		slot_free(ld->slots[i]);
	ld->path->close(ld);
	free(ld->url);
}
