// SPDX-License-Identifier: Apache-2.0
#include "report/format.h"

#include "base/clock.h"
#include "model/surface.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNKNOWN "unknown"

__attribute__((format(printf, 1, 2))) static struct fmt say(const char *fmt, ...)
{
	struct fmt f;
	va_list args;
	va_start(args, fmt);
	vsnprintf(f.s, sizeof f.s, fmt, args);
	va_end(args);
	return f;
}

struct fmt fmt_num(double v)
{
	if (!isfinite(v))
		return say(UNKNOWN);
	double a = fabs(v);
	if (a >= 1e15)
		return say("%.3g", v);
	if (a >= 99.95 || fabs(v - round(v)) < 1e-9)
		return say("%.0f", v);
	if (a >= 9.995)
		return say("%.1f", v);
	return a >= .995 ? say("%.2f", v) : say("%.3g", v);
}

struct fmt fmt_count(uint64_t n)
{
	char digits[24], out[FMT_BYTES];
	if (n == REC_NONE)
		return say(UNKNOWN);
	size_t len = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), k = 0;
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0 && len > 4) {
			memcpy(out + k, "\xe2\x80\xaf", 3);
			k += 3;
		}
		out[k++] = digits[i];
	}
	out[k] = 0;
	return say("%s", out);
}

struct fmt fmt_ns_or(uint64_t ns, const char *unknown)
{
	double v = (double)ns;
	if (ns == REC_NONE)
		return say("%s", unknown);
	if (v < 1e3)
		return say("%.0f ns", v);
	if (v < 999.5e3)
		return say("%s µs", fmt_num(v / 1e3).s);
	if (v < 999.5e6)
		return say("%s ms", fmt_num(v / 1e6).s);
	if (v < 600e9)
		return say("%s s", fmt_num(v / 1e9).s);
	return say("%.0f min %.0f s", floor(v / 60e9), floor(fmod(v, 60e9) / 1e9));
}

struct fmt fmt_ns(uint64_t ns)
{
	return fmt_ns_or(ns, UNKNOWN);
}

struct fmt fmt_bytes(double bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t u = 0;
	if (!isfinite(bytes))
		return say(UNKNOWN);
	while (fabs(bytes) >= 1024 && u + 1 < sizeof names / sizeof *names) {
		bytes /= 1024;
		u++;
	}
	return say("%s %s", fmt_num(bytes).s, names[u]);
}

struct fmt fmt_rate(double per_s, const char *unit)
{
	return isfinite(per_s) ? say("%s %s", fmt_num(per_s).s, unit) : say(UNKNOWN);
}

struct fmt fmt_share(uint64_t x, uint64_t n)
{
	return n ? say("%s %%", fmt_num(100 * (double)x / (double)n).s) : say(UNKNOWN);
}

static bool decimal_bytes(const char *unit)
{
	return strlen(unit) == 2 && unit[1] == 'B'; // "GB"; not "B", "GiB", "bytes"
}

// Times and bytes of a figure choose their own unit; a limit stays as the plan says it, and figures beside a
// decimal one too.
static struct fmt in_unit(double value, const char *unit, bool limit)
{
	const struct unit *u = unit ? unit_find(unit) : NULL;
	if (!u)
		return say("%s %.24s", fmt_num(value).s, unit ? unit : "");
	switch (u->dim) {
	case DIM_BYTES:
		if (!limit && !decimal_bytes(unit))
			return fmt_bytes(value * u->to_base);
		break;
	case DIM_SHARE:
		return say("%s %%", fmt_num(value * u->to_base * 100).s);
	case DIM_COUNT:
		return say("%s", fmt_num(value * u->to_base).s);
	case DIM_RATIO:
		return say("%s×", fmt_num(value * u->to_base).s);
	case DIM_TIME:
		if (!limit && value >= 0 && value * u->to_base < 1e18)
			return fmt_ns((uint64_t)llround(value * u->to_base));
		break;
	case DIM_TOK_RATE:
	case DIM_REQ_RATE:
	case DIM_POWER:
	case DIM_ENERGY_PER_TOK:
	case DIM_BYTE_RATE:
		break;
	}
	return say("%s %.24s", fmt_num(value).s, unit);
}

struct fmt fmt_figure(const struct figure *f)
{
	return f->known ? in_unit(f->value, f->unit, false) : say("–");
}

const char *advice_for(enum invalid_cause cause)
{
	switch (cause) {
	case INVALID_SEND_LAG:
	case INVALID_LOOP_LAG:
	case INVALID_CPU:
		return "fewer streams or a lower rate, more threads (client_threads), or another host for "
		       "the "
		       "client";
	case INVALID_RUNQ:
		return "a host with free CPUs for the client, or more threads (client_threads) where one CPU "
		       "is "
		       "full";
	case INVALID_STEAL:
		return "another host: its hypervisor takes CPU time away";
	case INVALID_CALIBRATION:
		return "fewer streams, more threads (client_threads), busy_poll, or another host for the "
		       "client";
	case INVALID_NO_CALIBRATION:
	case INVALID_NOT_RECORDED:
		return "run it again to its end";
	case INVALID_LIGHT:
	case INVALID_DELIVERED:
		return "more requests than streams, fewer streams or a lower rate, more threads "
		       "(client_threads), or another host for the client";
	case INVALID_NONE:
		break;
	}
	return NULL;
}

const char *cmp_symbol(enum comparator c)
{
	static const char *const symbols[] = { "≤", "<", "≥", ">", "=" };
	return (unsigned)c < 5 ? symbols[c] : "?";
}

struct fmt fmt_limit(const struct crit_result *r)
{
	return say("%s %s", cmp_symbol(r->crit->cmp), in_unit(r->crit->limit, r->crit->limit_unit, true).s);
}

const char *state_says(enum crit_state s)
{
	static const char *const says[] = { "pass",  "fail",    "inconclusive", "invalid",
		                            "error", "blocked", "not tested",   "not applicable" };
	return (unsigned)s < N_STATES ? says[s] : UNKNOWN;
}

const char *verdict_says(enum run_verdict v)
{
	static const char *const says[] = {
		"interrupted",           "rejected", "invalid", "blocked", "error", "inconclusive",
		"accepted with waivers", "accepted"
	};
	return (unsigned)v < N_VERDICTS ? says[v] : UNKNOWN;
}

static bool misleads(uint32_t cp)
{
	return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7f && cp < 0xa0) || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
	       cp == 0xfeff || (cp & 0xfffe) == 0xfffe;
}

static void add_escaped(struct buf *b, const char *s, size_t n)
{
	static const struct {
		char c;
		const char *as;
	} rows[] = {
		{ '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" }
	};
	for (size_t i = 0; n == 1 && i < sizeof rows / sizeof *rows; i++) {
		if (*s == rows[i].c) {
			buf_adds(b, rows[i].as);
			return;
		}
	}
	buf_add(b, s, n);
}

static void add_clean(struct buf *b, const char *s, size_t max_bytes, bool markup)
{
	size_t len = s ? strlen(s) : 0;
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp = 0;
		n = utf8_get(s + i, len - i, &cp);
		if (i + n > max_bytes) {
			buf_adds(b, "…");
			return;
		}
		if (!n || misleads(cp)) {
			buf_adds(b, "\xef\xbf\xbd");
			n = n ? n : 1;
		} else if (markup) {
			add_escaped(b, s + i, n);
		} else if (cp == '\n' || cp == '\t') {
			buf_addc(b, ' ');
		} else {
			buf_add(b, s + i, n);
		}
	}
}

void esc_n(struct buf *b, const char *s, size_t max_bytes)
{
	add_clean(b, s, max_bytes, true);
}

void esc(struct buf *b, const char *s)
{
	esc_n(b, s, 4000);
}

void plain_n(struct buf *b, const char *s, size_t max_bytes)
{
	add_clean(b, s, max_bytes, false);
}
