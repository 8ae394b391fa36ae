/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the plain path: http1_conn.c (requests and answers), http1_connect.c (addresses, sockets),
 * http1_stamp.c (when bytes came). One `struct plain` a thread. */
#ifndef LOAD_HTTP1_PLAIN_H
#define LOAD_HTTP1_PLAIN_H

#include "load/load_int.h"

#include <sys/socket.h>

#define PLAIN_READ_BYTES (128u << 10)
#define PLAIN_HEAD_BYTES_MAX (64u << 10)
#define PLAIN_ADDRS_MAX 8

struct plain_addr {
	struct sockaddr_storage to;
	socklen_t len;
};

struct plain {
	struct buf head; /* of every request, up to the number behind "Content-Length: "; holds the key */
	size_t n_addrs;
	struct plain_addr addrs[PLAIN_ADDRS_MAX];
	size_t good;          /* the address that answered last */
	char unresolved[128]; /* why there are none */
	struct slot **by_fd;
	size_t n_by_fd;
	struct slot **ended; /* max_slots */
	size_t n_ended;
	/* CLOCK_REALTIME minus CLOCK_MONOTONIC, when it was last looked at, and until when the kernel's
	 * stamps are not used because it had jumped. */
	uint64_t wall_offset_ns, offset_at_ns, jumped_until_ns;
	uint64_t rx_ns;   /* when what is being read came */
	uint64_t next_ns; /* the earliest next_at_ns, UINT64_MAX = none */
	char in[PLAIN_READ_BYTES];
};

/* http1_conn.c */
void plain_end(struct slot *s, enum transport how, const char *why);
void plain_connected(struct slot *s); /* sends the request */

/* http1_connect.c */
warn_unused int plain_open(struct load *ld, struct err *err);
void plain_done(struct load *ld);
void plain_connect(struct slot *s); /* begins; ends the request when no address can be had */
void plain_connect_ready(struct slot *s);
void plain_timeout(struct load *ld);
void plain_close(struct slot *s); /* also when there is no socket */
void plain_watch(struct slot *s, bool out);

/* http1_stamp.c */
void plain_ask_for_stamps(int fd);
/* As recv. *at_ns: when the last of it came, by the kernel if it says so, by *now_ns (behind the read) if
 * not. */
ssize_t plain_recv(struct slot *s, uint64_t *at_ns, uint64_t *now_ns);

#endif
