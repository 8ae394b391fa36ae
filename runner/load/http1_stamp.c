/* SPDX-License-Identifier: Apache-2.0 */
/* When bytes came: the kernel stamps each segment as it arrives, so a client that is woken late still reports
 * when the server's bytes were there (tests/bench/RESULTS.md says by how much). The stamp of a read is that
 * of its last segment, never an earlier one. Stamps are CLOCK_REALTIME; where that clock jumps, and on unix
 * sockets, which have none, the time behind the read stands. */
#include "load/http1_plain.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

#define LOOK_AGAIN_NS (1 * NS_PER_MS) /* a clock that is slewed drifts half a microsecond meanwhile */
#define JUMP_NS (200 * NS_PER_US)
#define DISTRUST_NS (1 * NS_PER_S) /* for what was stamped before the jump to be read */
#define LOOKS 3

void plain_ask_for_stamps(int fd)
{
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on); /* without it there are just none */
}

/* Rounded so that a stamp never comes out early; the closest of a few looks. */
static uint64_t look_at_clocks(void)
{
	uint64_t best = UINT64_MAX, offset = 0;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t before = clock_now_ns(), wall = (uint64_t)clock_wall_ns(), after = clock_now_ns();
		if (after - before < best) {
			best = after - before;
			offset = wall - after;
		}
	}
	return offset;
}

static void refresh_offset(struct plain *p, uint64_t now_ns)
{
	if (p->offset_at_ns && now_ns - p->offset_at_ns < LOOK_AGAIN_NS)
		return;
	uint64_t offset = look_at_clocks(), jump = offset - p->wall_offset_ns + JUMP_NS;
	if (p->offset_at_ns && jump > 2 * JUMP_NS)
		p->jumped_until_ns = now_ns + DISTRUST_NS;
	p->wall_offset_ns = offset;
	p->offset_at_ns = now_ns;
}

static uint64_t stamp_of(struct slot *s, struct msghdr *m, uint64_t now_ns)
{
	struct plain *p = s->ld->plain;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct timespec t;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&t, CMSG_DATA(c), sizeof t);
		refresh_offset(p, now_ns);
		uint64_t at = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec - p->wall_offset_ns;
		if (now_ns < p->jumped_until_ns || at > now_ns || at < s->sent_ns)
			return now_ns;
		return at < s->last_rx_ns ? s->last_rx_ns : at;
	}
	return now_ns;
}

ssize_t plain_recv(struct slot *s, uint64_t *at_ns, uint64_t *now_ns)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { s->ld->plain->in, PLAIN_READ_BYTES };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	do {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		n = recvmsg(s->conn.fd, &m, 0);
	} while (n < 0 && errno == EINTR);
	int errnum = errno;
	*now_ns = clock_now_ns();
	*at_ns = n > 0 ? stamp_of(s, &m, *now_ns) : *now_ns;
	errno = errnum;
	return n;
}
