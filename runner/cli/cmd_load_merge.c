/* SPDX-License-Identifier: Apache-2.0 */
/* Records of several shards, on one clock, into one summary. */
#include "base/clock.h"
#include "base/fs.h"
#include "cli/cmd_load.h"
#include "model/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SHARD_BYTES_MAX (8u << 20)
#define JSON_BYTES_MAX (4u << 20)
#define LINE_BYTES_MAX (1u << 20)

struct merge {
	const struct load_opts *o;
	size_t n;
	struct load_shard *shards;
	const char **dirs;
	struct load_part *parts;
	struct plan *plan;
	struct cell *cells;
	struct load_rows rows;
	int64_t zero_ns; /* wall clock of shard 0 at time 0 of the merged rows */
};

/* --- the shards -------------------------------------------------------------------------------------------
 */

static int read_shard(struct load_shard *s, const char *dir, struct err *err)
{
	auto_buf text = BUF_INIT(SHARD_BYTES_MAX);
	auto_free char *path = fs_join(dir, "shard.json");
	if (!path)
		return err_set(err, ERR_ENV, "load: no memory");
	if (fs_read(&text, path, SHARD_BYTES_MAX, err)) {
		err->cls = ERR_USAGE;
		return err_wrap(err, "load: --merge");
	}
	return load_shard_read(s, text.p ? text.p : "", text.len, path, err);
}

static bool same_load(const struct load_shard *a, const struct load_shard *b)
{
	return a->n_shards == b->n_shards && a->plan.len == b->plan.len &&
	       memcmp(a->plan.p, b->plan.p, a->plan.len) == 0 &&
	       strcmp(a->engine_word, b->engine_word) == 0 && a->exact == b->exact;
}

static int check_set(const struct merge *m, struct err *err)
{
	for (size_t i = 1; i < m->n; i++) {
		if (!same_load(&m->shards[0], &m->shards[i]))
			return err_set(err, ERR_USAGE,
			               "load: --merge: %.256s and %.256s are not shards of the same load",
			               m->dirs[0], m->dirs[i]);
		for (size_t k = 0; k < i; k++)
			if (m->shards[k].part.shard == m->shards[i].part.shard)
				return err_set(err, ERR_USAGE,
				               "load: --merge: %.256s and %.256s are both shard %" PRIu64,
				               m->dirs[k], m->dirs[i], m->shards[i].part.shard);
	}
	return 0;
}

static struct load_shard *find_shard(const struct merge *m, uint64_t shard)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->shards[i].part.shard == shard)
			return &m->shards[i];
	return NULL;
}

/* Shards of one boot of one machine have one clock. */
static void settle_clocks(struct merge *m)
{
	const struct load_shard *first = find_shard(m, 0);
	for (size_t i = 0; i < m->n; i++) {
		struct load_part *p = &m->shards[i].part;
		bool same = first && p->boot_id[0] && strcmp(p->boot_id, first->part.boot_id) == 0;
		if (!p->offset_known && same) {
			p->offset_known = true;
			p->offset_ns = 0;
			p->uncertainty_ns = 0;
		}
	}
}

static int64_t origin_of(const struct load_shard *s)
{
	return s->origin_wall_ns + (s->part.offset_known ? s->part.offset_ns : 0);
}

/* --- rows -------------------------------------------------------------------------------------------------
 */

struct map {
	const uint8_t *p;
	size_t len;
};

static void map_done(struct map *m)
{
	if (m->len)
		munmap((void *)(uintptr_t)m->p, m->len);
}
#define auto_map __attribute__((cleanup(map_done))) struct map

static int map_file(struct map *out, const char *dir, const char *name, struct err *err)
{
	auto_free char *path = fs_join(dir, name);
	struct stat st;
	auto_fd fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, ERR_ENV, errno, "%s/%s: cannot read", dir, name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_ENV, "%s/%s: not a regular file", dir, name);
	if (!st.st_size)
		return 0;
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return err_sys(err, ERR_ENV, errno, "%s/%s: cannot map", dir, name);
	*out = (struct map){ at, (size_t)st.st_size };
	return 0;
}

static int take_line(struct merge *m, const char *line, size_t len, const struct map *tokens,
                     uint64_t shift_ns, const char *name, uint64_t line_no, struct err *err)
{
	struct record rec;
	if (record_read(&rec, line, len, name, line_no, err))
		return -1;
	if (rec.tok_bytes > tokens->len || rec.tok_off > tokens->len - rec.tok_bytes)
		return err_set(err, ERR_PLAN, "%s:%" PRIu64 ": its tokens lie behind the end of tokens.bin",
		               name, line_no);
	if (rec.kind != REC_LOAD)
		return 0;
	if (load_rows_take(&m->rows, &rec, tokens->p + rec.tok_off, (size_t)rec.tok_bytes, shift_ns))
		return err_set(err, ERR_ENV, "load: no memory");
	return 0;
}

static int take_rows(struct merge *m, size_t i, struct err *err)
{
	auto_map lines = { 0 }, tokens = { 0 };
	auto_free char *name = fs_join(m->dirs[i], "requests.jsonl");
	uint64_t shift_ns = (uint64_t)(origin_of(&m->shards[i]) - m->zero_ns), line_no = 1;
	if (!name || map_file(&lines, m->dirs[i], "requests.jsonl", err) ||
	    map_file(&tokens, m->dirs[i], "tokens.bin", err))
		return name ? -1 : err_set(err, ERR_ENV, "load: no memory");
	const char *at = (const char *)lines.p, *end = at + lines.len;
	for (; at < end; line_no++) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		if (!nl || nl - at > LINE_BYTES_MAX)
			return err_set(err, ERR_PLAN, "%s:%" PRIu64 ": the line is cut or too long", name,
			               line_no);
		if (take_line(m, at, (size_t)(nl - at), &tokens, shift_ns, name, line_no, err))
			return -1;
		at = nl + 1;
	}
	return 0;
}

/* --- checks -----------------------------------------------------------------------------------------------
 */

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
}

static void check_clocks(struct load_sum *s, const struct merge *m)
{
	double bound_ms = (double)m->o->max_offset_ns / 1e6;
	int64_t first = INT64_MAX, last = INT64_MIN;
	for (size_t i = 0; i < m->n; i++) {
		const struct load_part *p = &m->shards[i].part;
		int64_t begun = origin_of(&m->shards[i]) + (int64_t)p->r.start_ns;
		uint64_t off = magnitude(p->offset_ns), step = magnitude(p->wall_step_ns);
		first = begun < first ? begun : first;
		last = begun > last ? begun : last;
		if (m->n > 1 && !p->offset_known)
			load_sum_invalid(s,
			                 "shard %" PRIu64
			                 ": its clock was not compared with shard 0's: give --sync",
			                 p->shard);
		else if (off + p->uncertainty_ns > m->o->max_offset_ns)
			load_sum_invalid(
				s, "shard %" PRIu64 ": its clock is off by %.3f ms (+-%.3f), over %g ms",
				p->shard, (double)p->offset_ns / 1e6, (double)p->uncertainty_ns / 1e6,
				bound_ms);
		if (step > m->o->max_offset_ns)
			load_sum_invalid(s,
			                 "shard %" PRIu64 ": its wall clock moved by %.3f ms during the load",
			                 p->shard, (double)p->wall_step_ns / 1e6);
	}
	if (m->n > 1 && (uint64_t)(last - first) > m->o->max_offset_ns)
		load_sum_invalid(s,
		                 "the shards began %.3f ms apart, over %g ms: give all the same --start-at",
		                 (double)(last - first) / 1e6, bound_ms);
	for (uint64_t i = 0; i < m->shards[0].n_shards; i++)
		if (!find_shard(m, i))
			load_sum_invalid(s, "shard %" PRIu64 " of %" PRIu64 " is missing", i,
			                 m->shards[0].n_shards);
}

/* --- whole ------------------------------------------------------------------------------------------------
 */

static int load_all(struct merge *m, struct err *err)
{
	auto_problems problems = { 0 };
	size_t n_cells = 0;
	for (size_t i = 0; i < m->n; i++)
		if (read_shard(&m->shards[i], m->dirs[i], err))
			return -1;
	if (check_set(m, err) || load_rows_init(&m->rows, err))
		return -1;
	settle_clocks(m);
	const struct buf *doc = &m->shards[0].plan;
	if (plan_parse(&m->plan, doc->p, doc->len, m->dirs[0], &problems, err))
		return -1;
	m->cells = cells_of_plan(m->plan, &n_cells);
	if (!m->cells || n_cells != 1)
		return err_set(err, ERR_PLAN, "%s/shard.json: its plan is not one of proofmark load",
		               m->dirs[0]);
	m->zero_ns = INT64_MAX;
	for (size_t i = 0; i < m->n; i++)
		m->zero_ns = origin_of(&m->shards[i]) < m->zero_ns ? origin_of(&m->shards[i]) : m->zero_ns;
	for (size_t i = 0; i < m->n; i++)
		if (take_rows(m, i, err))
			return -1;
	return 0;
}

static int tell(struct merge *m, struct err *err)
{
	const struct load_shard *first = &m->shards[0];
	struct load_slo slo = first->slo;
	struct load_sum s = {
		.plan = m->plan,
		.cell = m->cells,
		.engine_word = first->engine_word,
		.model = first->model,
		.exact = first->exact,
		.slo = &slo,
		.n_parts = m->n,
		.parts = m->parts,
		.n_shards = first->n_shards,
	};
	if (m->o->slo.any)
		slo = m->o->slo;
	if (!isnan(m->o->slo.required_share))
		slo.required_share = m->o->slo.required_share;
	if (!isnan(slo.required_share) && !slo.any)
		return err_set(err, ERR_USAGE, "load: --require-slo wants --slo");
	for (size_t i = 0; i < m->n; i++) {
		m->parts[i] = m->shards[i].part;
		s.interrupted |= m->shards[i].interrupted;
	}
	check_clocks(&s, m);
	if (load_sum_make(&s, &m->rows, err))
		return -1;
	auto_buf json = BUF_INIT(JSON_BYTES_MAX);
	if (m->o->json && load_json(&json, &s, first->url, err))
		return -1;
	if (m->o->json)
		fwrite(json.p, 1, json.len, stdout);
	else
		load_table(stdout, &s, first->url);
	return load_exit_code(&s);
}

int load_merge(const struct load_opts *o, const struct parsed *p, struct err *err)
{
	struct merge m = { .o = o, .n = p->n_args };
	m.shards = calloc(m.n, sizeof(*m.shards));
	m.parts = calloc(m.n, sizeof(*m.parts));
	m.dirs = calloc(m.n, sizeof(*m.dirs));
	int rc = m.shards && m.parts && m.dirs ? 0 : err_set(err, ERR_ENV, "load: no memory");
	for (size_t i = 0; rc == 0 && i < m.n; i++)
		m.dirs[i] = p->args[i];
	if (rc == 0)
		rc = load_all(&m, err) ? -1 : tell(&m, err);
	for (size_t i = 0; m.shards && i < m.n; i++)
		load_shard_done(&m.shards[i]);
	load_rows_done(&m.rows);
	free(m.cells);
	plan_free(m.plan);
	free(m.dirs);
	free(m.parts);
	free(m.shards);
	return rc;
}
