/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "cli/cmd_load.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define MEMORY_BYTES (16u << 20) /* some 4 million gaps */
#define DIGIT_BITS 16
#define DIGITS 3 /* 48 bits of ns: 78 hours; longer counts as that */
#define N_DIGIT (1u << DIGIT_BITS)
#define GAP_MAX_NS ((1ull << (DIGIT_BITS * DIGITS)) - 1)

struct gaps {
	uint64_t n;
	int fd; /* -1 = all in memory */
	uint64_t file_len;
	struct buf b; /* whole numbers; behind those in the file */
};

struct gaps *gaps_new(void)
{
	struct gaps *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->fd = -1;
	buf_init(&g->b, MEMORY_BYTES + 16);
	return g;
}

void gaps_free(struct gaps *g)
{
	if (!g)
		return;
	if (g->fd >= 0)
		close(g->fd);
	buf_done(&g->b);
	free(g);
}

static int open_nameless(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : P_tmpdir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) { /* a file system without O_TMPFILE */
		FILE *f = tmpfile();
		fd = f ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 3) : -1;
		if (f)
			fclose(f);
	}
	return fd;
}

static int spill(struct gaps *g)
{
	if (g->fd < 0)
		g->fd = open_nameless();
	if (g->fd < 0 || fs_write_all(g->fd, g->b.p, g->b.len))
		return -1;
	g->file_len += g->b.len;
	buf_clear(&g->b);
	return 0;
}

int gaps_add(struct gaps *g, uint64_t gap_ns)
{
	uint8_t bytes[10];
	size_t len = leb128_put(bytes, gap_ns < GAP_MAX_NS ? gap_ns : GAP_MAX_NS);
	if (g->b.len + len > MEMORY_BYTES && spill(g))
		return -1;
	g->n++;
	return buf_add(&g->b, bytes, len);
}

uint64_t gaps_n(const struct gaps *g)
{
	return g->n;
}

/* --- reading ----------------------------------------------------------------------------------------------
 */

struct walk {
	void (*each)(void *ctx, uint64_t gap_ns);
	void *ctx;
};

/* The whole numbers at the front. Returns the bytes used. */
static size_t walk_bytes(const struct walk *w, const char *bytes, size_t len)
{
	size_t at = 0, used;
	uint64_t v;
	while ((used = leb128_get((const uint8_t *)bytes + at, len - at, &v))) {
		w->each(w->ctx, v);
		at += used;
	}
	return at;
}

static int walk(struct gaps *g, const struct walk *w)
{
	enum { CHUNK = 1 << 18 };
	auto_free char *chunk = g->file_len ? malloc(CHUNK) : NULL;
	if (g->file_len && !chunk)
		return -1;
	for (uint64_t at = 0; at < g->file_len;) {
		ssize_t got = pread(g->fd, chunk, CHUNK, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		size_t used = got > 0 ? walk_bytes(w, chunk, (size_t)got) : 0;
		if (!used)
			return -1;
		at += used;
	}
	if (g->b.len)
		walk_bytes(w, g->b.p, g->b.len);
	return 0;
}

/* The value of a rank, found digit by digit: count the values that begin as the one sought so far, by their
 * next digit, and see in which the rank falls. */
struct search {
	uint64_t rank, prefix; /* rank among the values with that prefix */
	uint64_t *counts;      /* N_DIGIT */
};

struct pass {
	unsigned shift; /* of this digit */
	size_t n;
	struct search *s;
};

static void count_digit(void *ctx, uint64_t v)
{
	struct pass *p = ctx;
	uint64_t prefix = v >> (p->shift + DIGIT_BITS);
	for (size_t i = 0; i < p->n; i++)
		if (p->s[i].prefix == prefix)
			p->s[i].counts[(v >> p->shift) & (N_DIGIT - 1)]++;
}

static void take_digit(struct search *s)
{
	uint64_t digit = 0;
	while (digit + 1 < N_DIGIT && s->rank > s->counts[digit])
		s->rank -= s->counts[digit++];
	s->prefix = s->prefix << DIGIT_BITS | digit;
	memset(s->counts, 0, N_DIGIT * sizeof(*s->counts));
}

int gaps_at(struct gaps *g, const uint64_t *ranks, size_t n, uint64_t *out)
{
	struct search searches[GAPS_RANKS_MAX];
	size_t at[GAPS_RANKS_MAX], n_searches = 0;
	auto_free uint64_t *counts = calloc(GAPS_RANKS_MAX * (size_t)N_DIGIT, sizeof(*counts));
	if (!counts || n > GAPS_RANKS_MAX)
		return -1;
	for (size_t i = 0; i < n; i++) {
		out[i] = REC_NONE;
		if (ranks[i] < 1 || ranks[i] > g->n)
			continue;
		at[n_searches] = i;
		searches[n_searches] = (struct search){ ranks[i], 0, counts + n_searches * N_DIGIT };
		n_searches++;
	}
	for (unsigned digit = DIGITS; digit-- > 0 && n_searches;) {
		struct pass p = { digit * DIGIT_BITS, n_searches, searches };
		if (walk(g, &(struct walk){ count_digit, &p }))
			return -1;
		for (size_t i = 0; i < n_searches; i++)
			take_digit(&searches[i]);
	}
	for (size_t i = 0; i < n_searches; i++)
		out[at[i]] = searches[i].prefix;
	return 0;
}

struct head {
	size_t n, max;
	double *v, sum;
};

static void take_head(void *ctx, uint64_t v)
{
	struct head *h = ctx;
	h->sum += (double)v;
	if (h->n < h->max)
		h->v[h->n++] = (double)v;
}

int gaps_head(struct gaps *g, double *out, size_t n_head, double *sum_ns)
{
	struct head h = { .max = n_head, .v = out };
	if (walk(g, &(struct walk){ take_head, &h }))
		return -1;
	*sum_ns = h.sum;
	return 0;
}
