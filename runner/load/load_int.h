/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the load engine: load.c (a cell), shard.c (the loop of one thread), turns.c (what is sent when),
 * transfer.c (one request, whatever carries it) with the plain path (http1_conn.c) and libcurl's
 * (transfer_curl.c). Every structure here belongs to one thread. */
#ifndef LOAD_LOAD_INT_H
#define LOAD_LOAD_INT_H

#include "load/answer.h"
#include "load/hist.h"
#include "load/http1_conn.h"
#include "load/load.h"

#include <curl/curl.h>

#define AFTER_DONE_NS (500ull * 1000 * 1000) /* for the HTTP message to end behind the end mark */

struct load;
struct slot;
struct plain; /* http1_conn.c: addresses, the bytes of a head, the read buffer */

/* What carries requests. Ends are told by transfer_end, later and never from within `send`. */
struct transfer_path {
	int (*open)(struct load *ld, struct err *err);
	void (*close)(struct load *ld);
	int (*slot_open)(struct slot *s);
	void (*slot_close)(struct slot *s);
	void (*send)(struct slot *s, const struct load_request *rq);
	void (*drop)(struct slot *s, bool whole); /* the request is over; not whole: it was under way */
	void (*ready)(struct load *ld, int fd, uint32_t epoll_events);
	void (*timeout)(struct load *ld);
	size_t (*reap)(struct load *ld);
};
extern const struct transfer_path transfer_plain, transfer_curl;

struct transfer_tap { /* for tests: what the answer is made of */
	void (*body)(void *ctx, const char *bytes, size_t len);
	void (*trailer)(void *ctx, const char *line, size_t len);
	void *ctx;
};

/* The schedule's part of a slot (shard.c, retry.c). Its times are CLOCK_MONOTONIC. */
struct slot_turn {
	const struct load_request *rq; /* the request it has, or waits to send; NULL = none */
	enum { TURN_NEW, TURN_FOLLOW, TURN_RETRY } waits_for; /* while it waits for a due time */
	uint64_t first_due_ns, first_sent_ns;                 /* of the request's first attempt */
	uint64_t n_sent;                                      /* attempts of the request */
};

struct slot { /* one request at a time; its handle and buffers are used again */
	struct load *ld;
	struct slot_turn turn;
	CURL *easy;                     /* libcurl's path only */
	struct http1_conn conn;         /* the plain path only */
	struct http1 http;              /* libcurl's path: only its head */
	const struct transfer_tap *tap; /* NULL = none */
	struct answer ans;
	struct record rec;
	struct buf text; /* content, with keep_text */
	uint64_t index;
	size_t busy_at;                         /* place in ld->busy */
	uint64_t sent_ns, last_rx_ns, whole_ns; /* CLOCK_MONOTONIC; last two 0 = not yet */
	uint64_t conn_ns; /* this request's connection was made, 0 = it was kept from before */
	unsigned n_sends; /* over 1: sent again, a kept connection had been closed */
	bool connected;
	bool has_ended; /* on the plain path's list of ended ones */
	size_t ended_at;
	enum transport ended_how;
	char ended_why[128];
	char errbuf[CURL_ERROR_SIZE];
};

struct load {
	const struct load_spec *spec;
	struct load_result result;
	const struct transfer_path *path;
	struct plain *plain;
	CURLM *multi;
	struct curl_slist *headers;
	char *url;
	int epfd, due_fd, tick_fd;
	uint64_t curl_due_ns; /* when the path wants transfer_timeout, UINT64_MAX = never */

	/* A read's time is taken once, before any of it is read. libcurl: when it hands over the first byte.
	 * One call of socket_action may hold many reads: each fills libcurl's buffer from its start, so bytes
	 * that do not lie behind the ones before them came in a new read. */
	bool stamped;
	uintptr_t read_end;
	uint64_t stamp_ns, read_no;

	size_t n_slots, max_slots;
	struct slot **slots;
	size_t n_free, n_busy;
	struct slot **free_slots, **busy;
	void (*finished)(struct load *ld, struct slot *s); /* the slot's record is final */
	bool oom, sink_failed;
	uint64_t n_failed, n_tokens;
	struct hist ttft, send_lag, loop_lag;
};

/* transfer.c */
warn_unused int transfer_setup(struct load *ld, struct err *err); /* URL, headers; needs max_slots */
/* spec.preconnect: opens the connections of all slots, before time counts. What cannot be opened in time is
 * left to its first request. */
void transfer_open_ahead(struct load *ld);
void transfer_teardown(struct load *ld);
struct slot *slot_new(struct load *ld); /* NULL without memory */
void slot_free(struct slot *s);
void slot_send(struct slot *s, const struct load_request *rq, uint64_t due_ns);
/* Finishes what is done. Returns how many. */
size_t transfer_reap(struct load *ld);
/* Ends one that is under way. */
void slot_stop(struct slot *s, enum transport how, const char *why);
void transfer_ready(struct load *ld, int fd, uint32_t epoll_events);
void transfer_timeout(struct load *ld);

/* transfer.c, for the paths */
uint64_t transfer_rel(const struct load *ld, uint64_t now_ns);          /* on the record's time line */
void transfer_end(struct slot *s, enum transport how, const char *why); /* makes the record final */
void transfer_head_seen(struct slot *s, uint64_t now_ns);               /* after each head line */
/* Body bytes, all codings undone, from the read ld->read_no. -1: the rest cannot be used. */
int transfer_body(struct slot *s, uint64_t now_ns, const char *bytes, size_t len);

/* deadlines.c: ends what is over its time. */
void deadlines_check(struct load *ld, uint64_t now_ns);

/* retry.c */
/* When the request that ended at end_ns is to be sent again, UINT64_MAX = not at all. */
uint64_t retry_due_ns(const struct slot *s, uint64_t end_ns);
/* Of a Retry-After (delta seconds or HTTP date), at most 60 s; 0 when it is neither, or over. */
uint64_t retry_after_ns(const char *value, int64_t wall_ns);

#endif
