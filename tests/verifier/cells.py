# SPDX-License-Identifier: Apache-2.0
"""The cells of a plan and their figures, after RECOMPUTING: CELLS of proofmark-bundle(5)."""

from fractions import Fraction

from rules import Series, nearest, upper_rank

LATENCIES = ("ttft", "ttft_sent", "ttft_content", "itl", "tpot", "e2e", "send_lag")
RATES = ("prefill_tok_s", "decode_tok_s", "output_tok_s", "request_s")
FIRST = {"ttft": "first_token_ns", "ttft_sent": "first_token_ns", "ttft_content": "first_content_ns",
         "e2e": "last_token_ns"}


def cells_of(ev, interrupted):
    out = []
    for wl in ev.plan["workloads"]:
        for p in sorted(wl.get("prompt_tok", [])):
            out += [Cell(ev, wl, p, c, interrupted) for c in sorted(wl.get("concurrency", [0]))]
    return out


def critical_point(wl):
    return (wl.get("critical_prompt_tok", max(wl["prompt_tok"])),
            wl.get("critical_concurrency", max(wl.get("concurrency", [0]))))


class Cell:
    def __init__(self, ev, wl, prompt_tok, concurrency, interrupted):
        self.ev, self.wl, self.prompt_tok, self.concurrency = ev, wl, prompt_tok, concurrency
        self.kind = wl.get("arrival", {}).get("kind", "closed")
        self.closed = self.kind == "closed"
        self.id = "/".join([wl["name"], f"{prompt_tok}in", f"{wl['output_tok']}out", self.load_name()])
        self.critical = bool(wl.get("critical")) and critical_point(wl) == (prompt_tok, concurrency)
        requests = wl.get("requests", 0)
        self.requests = requests if self.critical else wl.get("other_requests", requests)
        rows = [r for r in ev.records if r["kind"] == "load" and r["cell"] == self.id]
        self.rows = sorted(rows, key=lambda r: (2**64 if r["due_ns"] is None else r["due_ns"], r["i"]))
        self.completed = [r for r in self.rows if r["outcome"] == "ok"]
        self.cancelled = [r for r in self.rows if r["outcome"] == "cancelled"]
        self.failed = [r for r in self.rows if r["outcome"] not in ("ok", "cancelled")]
        self.begin, self.end, self.sound = (self.event(k) for k in ("cell_begin", "cell_end", "soundness"))
        ends = [r["end_ns"] for r in self.rows if r["end_ns"] is not None]
        begin = self.rows[0]["due_ns"] if self.rows else None
        self.window = max(ends) - begin if ends and begin is not None and max(ends) > begin else None
        self.series = {name: self.latencies(name) for name in LATENCIES}
        self.whole = self.wholeness(interrupted)
        self.valid = self.is_valid()

    def load_name(self):
        if self.closed:
            return "c%d" % self.concurrency
        if self.kind == "trace":
            return "trace"
        several = len(self.wl.get("concurrency", [0])) > 1
        return "%s%.9g" % (self.kind, float(self.wl["arrival"]["rate_rps"])) + "-c%d" % self.concurrency * several

    def event(self, kind):
        return next((e for e in self.ev.of(kind) if e["cell"] == self.id), None)

    def latencies(self, name):
        s = Series()
        for r in self.rows:
            if r["outcome"] == "cancelled":
                continue
            got = self.value(name, r)
            if got is None:
                want = (r["want_output_tok"] or 0) - 1
                s.failed += want if name == "itl" and 1 <= want < 10**8 - 1 else 1
            elif got == "unknown":
                s.unknown += 1
            else:
                s.values += got
        return s

    def value(self, name, r):
        """A list of 0 or more values, None = failed, or "unknown"."""
        def span(a, b):
            return None if r[a] is None or r[b] is None or r[b] < r[a] else [r[b] - r[a]]
        if name == "send_lag":
            return span("due_ns", "sent_ns")
        if r["outcome"] != "ok":
            return None
        if name == "itl":
            return self.ev.gaps(r)
        if name == "tpot":
            tok, length = r["usage_output_tok"], span("first_token_ns", "last_token_ns")
            if tok is None:
                return "unknown"
            if tok <= 1 or length is None:
                return [] if tok <= 1 else None
            return [(2 * length[0] + tok - 1) // (2 * (tok - 1))]
        return span("sent_ns" if name == "ttft_sent" else "due_ns", FIRST[name])

    def wholeness(self, interrupted):
        if not self.begin:
            return "not run"
        if not self.end:
            return "stopped" if interrupted else "cut"
        by = self.end["stopped_by"]
        if by in ("engine_died", "interrupt"):
            return "died" if by == "engine_died" else "stopped"
        if self.requests:
            good = by == "complete" and self.end["scheduled"] == self.requests
        else:
            good = by in ("duration", "complete") and \
                100 * self.end["wall_ns"] >= 99 * 10**9 * self.wl.get("duration_s", 0)
        return "cut" if not good else "stopped" if self.cancelled else "whole"

    def lags(self):
        """(S, L) in ns, None = unknown"""
        series, so = self.series["send_lag"], self.sound or {}
        s = series.at_rank(nearest(series.n, 99, 100)) if series.n else None
        if s is not None and so.get("send_lag_p99_ns") is not None:
            s = max(s, so["send_lag_p99_ns"])
        return s, so.get("loop_lag_p99_ns") if (so.get("loop_lag_n") or 0) > 0 else None

    @property
    def error_ns(self):
        s, loop = self.lags()
        return None if s is None else max(s, loop or 0)

    def is_valid(self):
        bound, (s, loop), so = self.ev.plan.get("instrument", {}), self.lags(), self.sound
        def share(part, whole, limit):
            return bool(so[whole]) and so[part] is not None and 100 * Fraction(so[part], so[whole]) <= limit
        if not so or s is None or s > 10**6 * bound.get("max_send_lag_ms", 10):
            return False
        if loop is not None and loop > 10**6 * bound.get("max_loop_lag_ms", 10):
            return False
        if not share("client_cpu_ns", "wall_ns", bound.get("max_client_cpu_pct", 90)):
            return False
        if so["wall_ns"] >= 2 * 10**8 and not share("steal_ticks", "total_ticks", bound.get("max_steal_pct", 10)):
            return False
        if self.closed and self.whole == "whole":
            want = min(self.concurrency, self.requests) if self.requests else self.concurrency
            return so["max_in_flight"] is not None and 100 * so["max_in_flight"] >= 99 * want
        return True

    def usage(self, key, rows=None):
        """Sum over completed rows, None when one told none."""
        got = [r[key] for r in (self.completed if rows is None else rows)]
        return sum(got) if got and None not in got else None

    def length_mismatch(self):
        if not self.wl.get("force_output", True):
            return 0
        return sum(r["usage_output_tok"] not in (None, r["want_output_tok"]) for r in self.completed)

    def events_per_tok(self):
        tok = self.usage("usage_output_tok")
        return Fraction(sum(r["tok_n"] for r in self.completed), tok) if tok else None

    def measurable(self):
        per = self.events_per_tok()
        return per is not None and per >= Fraction(8, 10)

    def rate(self, name):
        done, tok = self.completed, self.usage("usage_output_tok")
        if not done:
            return None
        if name == "request_s":
            return Fraction(len(done) * 10**9, self.window) if self.window else None
        if name == "output_tok_s":
            return Fraction(tok * 10**9, self.window) if self.window and tok is not None else None
        if tok is None or self.usage("usage_prompt_tok") is None:
            return None
        got = []
        for r in done:
            if name == "prefill_tok_s":
                work, a, b = r["usage_prompt_tok"] - (r["usage_cached_tok"] or 0), r["sent_ns"], r["first_token_ns"]
            else:
                work, a, b = r["usage_output_tok"] - 1, r["first_token_ns"], r["last_token_ns"]
            if work > 0 and None not in (a, b) and b > a:
                got.append(Fraction(work * 10**9, b - a))
        got.sort()
        return (got[(len(got) - 1) // 2] + got[len(got) // 2]) / 2 if got else None

    def distribution(self, name):
        s = self.series[name]
        mean = Fraction(sum(s.values), len(s.values)) if s.values else None
        out = {"n": len(s.values), "n_failed": s.failed, "mean_ns": mean,
               "min_ns": min(s.values, default=None), "max_ns": max(s.values, default=None)}
        for q, num in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
            out[q + "_ns"] = s.at_rank(nearest(s.n, num, 100)) if s.n else None
            rank = upper_rank(s.n, num, 100, Fraction(95, 100)) if s.n else None
            out[q + "_ub_ns"] = s.at_rank(rank) if rank else None
        return out
