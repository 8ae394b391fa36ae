/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of shards against each other. Shard 0 listens; each other one sends SYNC_EXCHANGES questions and
 * gets, for each, the wall clock of shard 0 at its arrival and at the answer. Offset = half of the sum of
 * both one-way differences, of the exchange with the smallest round trip; it is wrong by half of that round
 * trip at most. Numbers are big-endian. What comes from the network is bounded in size and time. */
#include "base/clock.h"
#include "base/fs.h"
#include "cli/cmd_load.h"

#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define SYNC_WAIT_NS (60 * NS_PER_S) /* for the others to come */
#define SYNC_STEP_MS 2000            /* for one message */
#define RETRY_MS 50

static const char magic[8] = "PMSYNC1";

struct question {
	char magic[8];
	uint32_t shard, n_shards;
};
struct reply {
	char magic[8];
	uint64_t came_ns, left_ns; /* wall clock of shard 0, ns since 1970 */
};

static bool is_stopped(const bool *stop)
{
	return __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* --- messages ---------------------------------------------------------------------------------------------
 */

static int wait_for(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	return poll(&p, 1, timeout_ms) == 1 ? 0 : -1;
}

static int read_whole(int fd, void *data, size_t len)
{
	char *at = data;
	while (len) {
		if (wait_for(fd, POLLIN, SYNC_STEP_MS))
			return -1;
		ssize_t n = recv(fd, at, len, 0);
		if (n <= 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int send_whole(int fd, const void *data, size_t len)
{
	return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

static void no_delay(int fd)
{
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* --- addresses --------------------------------------------------------------------------------------------
 */

static int resolve(struct addrinfo **out, const char *where, bool listens, struct err *err)
{
	const char *colon = strrchr(where, ':');
	auto_free char *host = colon ? strndup(where, (size_t)(colon - where)) : NULL;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = listens ? AI_PASSIVE : 0 };
	if (!colon || !host || !*host || !colon[1])
		return err_set(err, ERR_USAGE, "load: --sync: want HOST:PORT, got \"%.64s\"", where);
	size_t len = strlen(host);
	if (host[0] == '[' && host[len - 1] == ']') { /* IPv6 */
		memmove(host, host + 1, len - 2);
		host[len - 2] = '\0';
	}
	int rc = getaddrinfo(host, colon + 1, &hints, out);
	return rc ? err_set(err, ERR_ENV, "load: --sync %.128s: %s", where, gai_strerror(rc)) : 0;
}

static int listen_at(const char *where, struct err *err)
{
	struct addrinfo *a = NULL;
	int on = 1;
	if (resolve(&a, where, true, err))
		return -1;
	auto_fd fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	bool ok = fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, LOAD_SHARDS_MAX) == 0;
	int why = errno;
	freeaddrinfo(a);
	return ok ? steal_fd(&fd) : err_sys(err, ERR_ENV, why, "load: --sync %.128s: cannot listen", where);
}

/* --- shard 0 ----------------------------------------------------------------------------------------------
 */

static void answer(int fd, const struct load_opts *o, bool seen[LOAD_SHARDS_MAX])
{
	struct question q;
	uint32_t shard = 0;
	no_delay(fd);
	for (int i = 0; i < SYNC_EXCHANGES; i++) {
		struct reply r = { { 0 }, 0, 0 };
		if (read_whole(fd, &q, sizeof(q)))
			return;
		r.came_ns = htobe64((uint64_t)clock_wall_ns());
		shard = be32toh(q.shard);
		if (memcmp(q.magic, magic, sizeof(magic)) != 0 || be32toh(q.n_shards) != o->n_shards ||
		    shard == 0 || shard >= o->n_shards)
			return;
		memcpy(r.magic, magic, sizeof(magic));
		r.left_ns = htobe64((uint64_t)clock_wall_ns());
		if (send_whole(fd, &r, sizeof(r)))
			return;
	}
	seen[shard] = true;
}

static size_t count_seen(const bool seen[LOAD_SHARDS_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < LOAD_SHARDS_MAX; i++)
		n += seen[i];
	return n;
}

static int serve(const struct load_opts *o, const bool *stop, struct err *err)
{
	bool seen[LOAD_SHARDS_MAX] = { false };
	uint64_t until_ns = clock_now_ns() + SYNC_WAIT_NS;
	auto_fd fd = listen_at(o->sync, err);
	if (fd < 0)
		return -1;
	while (count_seen(seen) + 1 < o->n_shards && !is_stopped(stop)) {
		if (clock_now_ns() > until_ns)
			return err_set(err, ERR_ENV,
			               "load: --sync: %zu of %llu other shards came within %llu s",
			               count_seen(seen), (unsigned long long)o->n_shards - 1,
			               SYNC_WAIT_NS / NS_PER_S);
		if (wait_for(fd, POLLIN, 200))
			continue;
		auto_fd client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0)
			answer(client, o, seen);
	}
	return 0;
}

/* --- the others -------------------------------------------------------------------------------------------
 */

static int connect_to(const struct addrinfo *list)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		auto_fd fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		int why = 0;
		socklen_t len = sizeof(why);
		if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) ||
		    wait_for(fd, POLLOUT, SYNC_STEP_MS) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) ||
		    why)
			continue;
		return steal_fd(&fd);
	}
	return -1;
}

static int exchange(struct load_clock *best, int fd, const struct load_opts *o)
{
	struct question q = { .shard = htobe32((uint32_t)o->shard),
		              .n_shards = htobe32((uint32_t)o->n_shards) };
	struct reply r;
	memcpy(q.magic, magic, sizeof(magic));
	int64_t left = clock_wall_ns();
	uint64_t left_mono = clock_now_ns();
	if (send_whole(fd, &q, sizeof(q)) || read_whole(fd, &r, sizeof(r)) ||
	    memcmp(r.magic, magic, sizeof(magic)) != 0)
		return -1;
	uint64_t trip = clock_now_ns() - left_mono;
	int64_t there = (int64_t)be64toh(r.came_ns), back = (int64_t)be64toh(r.left_ns),
		came = left + (int64_t)trip;
	/* clocks of another century would overflow below */
	if (there <= 0 || back < there || back > INT64_MAX / 4 || came > INT64_MAX / 4)
		return -1;
	uint64_t inside = (uint64_t)(back - there), half = (trip > inside ? trip - inside : 0) / 2;
	if (!best->known || half < best->uncertainty_ns) {
		best->offset_ns = ((there - left) + (back - came)) / 2;
		best->uncertainty_ns = half;
		best->known = true;
	}
	best->n_exchanges++;
	return 0;
}

static int ask_clock(struct load_clock *out, const struct load_opts *o, const bool *stop, struct err *err)
{
	struct addrinfo *list = NULL;
	struct load_clock best = { 0 };
	uint64_t until_ns = clock_now_ns() + SYNC_WAIT_NS;
	int fd;
	if (resolve(&list, o->sync, false, err))
		return -1;
	while ((fd = connect_to(list)) < 0 && clock_now_ns() < until_ns && !is_stopped(stop))
		poll(NULL, 0, RETRY_MS);
	freeaddrinfo(list);
	if (fd < 0 && is_stopped(stop))
		return 0;
	if (fd < 0)
		return err_set(err, ERR_ENV, "load: --sync %.128s: shard 0 does not answer", o->sync);
	auto_fd held = fd;
	no_delay(held);
	for (int i = 0; i < SYNC_EXCHANGES; i++)
		if (exchange(&best, held, o))
			return err_set(err, ERR_ENV,
			               "load: --sync %.128s: shard 0 broke off (is it given the same N?)",
			               o->sync);
	*out = best;
	return 0;
}

int load_sync(struct load_clock *out, const struct load_opts *o, const bool *stop, struct err *err)
{
	if (o->shard)
		return ask_clock(out, o, stop, err);
	if (serve(o, stop, err))
		return -1;
	*out = (struct load_clock){ .known = true };
	return 0;
}
