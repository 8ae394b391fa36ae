/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the load engine: load.c (schedule and loop), transfer.c (one request on libcurl), limits.c (file
 * descriptors, steal). One thread; every structure belongs to one load_run. */
#ifndef LOAD_LOAD_INT_H
#define LOAD_LOAD_INT_H

#include "load/answer.h"
#include "load/hist.h"
#include "load/load.h"

#include <curl/curl.h>

#define AFTER_DONE_NS (500ull * 1000 * 1000) /* for the HTTP message to end behind the end mark */

struct load;

struct slot { /* one request at a time; its handle and buffers are used again */
	struct load *ld;
	CURL *easy;
	struct answer ans;
	struct record rec;
	struct buf text; /* content, with keep_text */
	uint64_t index;
	size_t busy_at;                         /* place in ld->busy */
	uint64_t sent_ns, last_rx_ns, whole_ns; /* CLOCK_MONOTONIC; last two 0 = not yet */
	uint64_t conn_ns;
	unsigned n_sends; /* over 1: libcurl sent again, a kept connection had been closed */
	bool connected;
	char errbuf[CURL_ERROR_SIZE];
};

struct load {
	const struct load_spec *spec;
	struct load_result result;
	CURLM *multi;
	struct curl_slist *headers;
	char *url;
	int epfd, due_fd, tick_fd;
	uint64_t curl_due_ns; /* when libcurl wants to be called, UINT64_MAX = never */

	/* A read's time is taken once, when libcurl hands over its first byte. One call of socket_action may
	 * hold many reads: each fills libcurl's buffer from its start, so bytes that do not lie behind the
	 * ones before them came in a new read. */
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
warn_unused int transfer_setup(struct load *ld, struct err *err); /* multi, URL, headers */
void transfer_teardown(struct load *ld);
struct slot *slot_new(struct load *ld); /* NULL without memory */
void slot_free(struct slot *s);
void slot_send(struct slot *s, const struct load_request *rq, uint64_t due_ns);
/* Finishes what libcurl says is done. Returns how many. */
size_t transfer_reap(struct load *ld);
/* Ends one that is under way. */
void slot_stop(struct slot *s, enum transport how, const char *why);
void transfer_ready(struct load *ld, int fd, uint32_t epoll_events);
void transfer_timeout(struct load *ld);
size_t transfer_body(char *bytes, size_t size, size_t n, void *slot); /* libcurl's write callback */

/* deadlines.c: ends what is over its time. */
void deadlines_check(struct load *ld, uint64_t now_ns);

/* limits.c */
warn_unused int limits_streams(size_t *max_streams, uint64_t wanted, struct err *err);
void limits_steal(uint64_t *steal_ticks, uint64_t *total_ticks); /* both 0 = cannot be known */

#endif
