/* SPDX-License-Identifier: Apache-2.0 */
/* The plain path: HTTP/1.1 over TCP or a unix socket without TLS and without a proxy, on the load's epoll.
 * Each slot has a connection of its own, kept from request to request. */
#ifndef LOAD_HTTP1_CONN_H
#define LOAD_HTTP1_CONN_H

#include "load/http1.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conn_state {
	CONN_CLOSED,
	CONN_CONNECTING,
	CONN_IDLE, /* open, no request on it */
	CONN_BUSY, /* a request is written or its answer read */
};

struct http1_conn {
	int fd;
	enum conn_state state;
	bool reused;       /* the request found the connection open */
	bool got_bytes;    /* anything at all came for this request */
	bool watching_out; /* EPOLLOUT is asked for: connecting, or a body is larger than the socket takes */
	bool peer_closed;
	size_t n_sent; /* of head and body */
	char length_line[40];
	size_t length_len;
	const char *body; /* borrowed until the request's end */
	size_t body_len;
	size_t addr;         /* index of the address tried */
	unsigned n_tried;    /* addresses tried for this request */
	size_t slow;         /* 1 + index of one that was given up while silent, 0 = none */
	uint64_t next_at_ns; /* when to give the next address a try, UINT64_MAX = never */
	struct http1_inflate *inflate;
};

#endif
