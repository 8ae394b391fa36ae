# SPDX-License-Identifier: Apache-2.0
"""The cells of a plan and their figures, after RECOMPUTING: CELLS of proofmark-bundle(5)."""

import itertools
from fractions import Fraction

import schedule
import texts
from rules import Series, nearest, upper_rank

LATENCIES = ("ttft", "ttft_sent", "ttft_content", "itl", "tpot", "e2e", "send_lag", "spacing_error")
OF_TOKENS = ("ttft", "ttft_sent", "ttft_content", "itl", "tpot")
RATES = ("prefill_tok_s", "decode_tok_s", "output_tok_s", "request_s")
FIRST = {"ttft": "first_token_ns", "ttft_sent": "first_token_ns", "ttft_content": "first_content_ns",
         "e2e": "last_token_ns"}


def cells_of(ev, interrupted):
    out = []
    for wl in ev.plan["workloads"]:
        if wl["class"] == "training" and "prompt_tok" not in wl:
            continue
        for p, rate, c in itertools.product(*axes(wl)):
            out.append(Cell(ev, wl, p, rate, c, interrupted))
    return out


def axes(wl):
    """Context lengths, rates, concurrencies"""
    arrival = wl.get("arrival", {"kind": "closed"})
    rates = sorted(arrival.get("rates_rps", [arrival.get("rate_rps")])) if arrival["kind"] != "closed" else [None]
    lengths = [None] if "mix" in wl or arrival["kind"] == "trace" else sorted(wl["prompt_tok"])
    return lengths, rates, sorted(wl.get("concurrency", [0]))


def critical_point(wl):
    lengths, rates, loads = axes(wl)
    return (wl.get("critical_prompt_tok", lengths[-1]), wl.get("critical_rate_rps", rates[-1]),
            wl.get("critical_concurrency", loads[-1]))


class Cell:
    def __init__(self, ev, wl, prompt_tok, rate_rps, concurrency, interrupted):
        self.ev, self.wl, self.prompt_tok, self.rate_rps, self.concurrency = ev, wl, prompt_tok, rate_rps, concurrency
        self.arrival = wl.get("arrival", {})
        self.kind = self.arrival.get("kind", "closed")
        self.closed, self.stream = self.kind == "closed", wl.get("stream", True)
        self.turns = wl.get("conversation", {}).get("turns", 0)
        self.id = "/".join([wl["name"], *self.lengths_name(), self.load_name()])
        self.critical = bool(wl.get("critical")) and critical_point(wl) == (prompt_tok, rate_rps, concurrency)
        requests = wl.get("requests", 0)
        self.requests = requests if self.critical else wl.get("other_requests", requests)
        rows = [r for r in ev.records if r["kind"] == "load" and r["cell"] == self.id]
        self.rows = sorted(rows, key=lambda r: (2**64 if r["due_ns"] is None else r["due_ns"], r["i"]))
        self.completed = [r for r in self.rows if r["outcome"] == "ok"]
        self.cancelled = [r for r in self.rows if r["outcome"] == "cancelled"]
        self.failed = [r for r in self.rows if r["outcome"] not in ("ok", "cancelled")]
        self.unasked = self.unasked_rows()
        self.n_bad = len(self.failed) + len(self.unasked)
        self.arrivals = [] if self.closed else [r for r in self.rows if not r["turn"]]
        load = self.id.split("/")[-1]
        self.calibrations = [e for e in ev.of("calibration") if e["load"] == load]
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
        several = "-c%d" % self.concurrency * (len(self.wl.get("concurrency", [0])) > 1)
        if self.kind == "trace":
            speed = self.arrival.get("speed", 1)
            return ("trace" if speed == 1 else "trace-x%.9g" % float(speed)) + several
        more = {"gamma": ("-b", self.arrival.get("burstiness", 1)), "ramp": ("-", self.arrival.get("rate_end_rps"))}
        mark, value = more.get(self.kind, ("", None))
        end = "" if value is None else mark + "%.9g" % float(value)
        return "%s%.9g" % (self.kind, float(self.rate_rps)) + end + several

    def lengths_name(self):
        if self.kind == "trace":
            out = []
        elif "mix" in self.wl:
            out = ["mix"]
        else:
            out = [f"{self.prompt_tok}in", f"{self.wl['output_tok']}out"]
        return out + ([f"{self.turns}turns"] if self.turns else [])

    def schedule(self, kind):
        return schedule.Schedule(self, kind)

    def planned_lines(self):
        return sum(x["cell"] == self.id and x["kind"] == "load" for x in self.ev.planned)

    def unasked_rows(self):
        """For each unasked turn the failed row before it."""
        last = {}
        for r in self.rows:
            if r["conv"] is not None and (r["conv"] not in last or r["turn"] > last[r["conv"]]["turn"]):
                last[r["conv"]] = r
        return [r for r in last.values() if r in self.failed for _ in range(self.turns - 1 - r["turn"])]

    def event(self, kind):
        return next((e for e in self.ev.of(kind) if e["cell"] == self.id), None)

    def latencies(self, name):
        if name == "spacing_error":
            return self.spacing()
        rows = self.rows if name == "send_lag" else self.rows + self.unasked
        return Series() if name in OF_TOKENS and not self.stream else self.latencies_of(name, rows)

    def spacing(self):
        s, sent = Series(), [r for r in self.arrivals if r["first_sent_ns"] is not None]
        s.values = [abs((b["first_sent_ns"] - a["first_sent_ns"]) - (b["due_ns"] - a["due_ns"]))
                    for a, b in zip(sent, sent[1:])]
        return s

    def latencies_of(self, name, rows):
        s = Series()
        for r in rows:
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
            return span("due_ns", "first_sent_ns")
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
        if name == "e2e" and not self.stream:
            return span("due_ns", "end_ns")
        return span("sent_ns" if name == "ttft_sent" else "due_ns", FIRST[name])

    def wholeness(self, interrupted):
        if not self.begin:
            return "not run"
        if not self.end:
            return "stopped" if interrupted else "cut"
        by = self.end["stopped_by"]
        if by in ("engine_died", "interrupt"):
            return "died" if by == "engine_died" else "stopped"
        asked = self.end["scheduled"] + len(self.unasked)
        if not self.closed:
            good = by in ("complete", "duration") and asked == self.planned_lines()
        elif self.requests:
            good = by == "complete" and asked == self.requests
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

    def calibrated(self, key):
        """The larger known one of the cell's calibrations."""
        return max((e[key] for e in self.calibrations if e[key] is not None), default=None)

    def error_of(self, name):
        """The instrument's own error of a latency, ns; None = unknown"""
        key = "itl_error_p99_ns" if name in ("itl", "tpot") else "ttft_error_p99_ns"
        return max((e for e in (self.error_ns, self.calibrated(key)) if e is not None), default=None)

    def pct(self, part, whole):
        """In per cent, of wall time over all threads or of all ticks; None = unknown"""
        so = self.sound
        if not so or so[part] is None or not so[whole]:
            return None
        return 100 * Fraction(so[part], so[whole] * ((so["threads"] or 1) if whole == "wall_ns" else 1))

    def delivered(self):
        """(value, planned, share), None = unknown"""
        rows = [r for r in self.rows if r["first_sent_ns"] is not None]
        if not self.closed:
            got = [r for r in self.arrivals if r["first_sent_ns"] is not None]
            if len(got) < 2:
                return None
            due, sent = (got[-1][k] - got[0][k] for k in ("due_ns", "first_sent_ns"))
            if due <= 0 or sent <= 0:
                return None
            return (Fraction(len(got) - 1, sent) * 10**9, Fraction(len(got) - 1, due) * 10**9,
                    min(Fraction(1), Fraction(due, sent)))
        rows = [r for r in rows if r["end_ns"] is not None]
        sent = sorted(r["first_sent_ns"] for r in rows if not r["turn"])
        if self.arrival.get("think_s") or self.wl.get("conversation", {}).get("think_s") or \
                len(sent) <= self.concurrency:
            return None
        t0, t1 = sent[self.concurrency - 1], sent[-1]
        if t1 <= t0:
            return None
        busy = sum(max(0, min(t1, r["end_ns"]) - max(t0, r["first_sent_ns"])) for r in rows)
        value = Fraction(busy, t1 - t0)
        return value, self.concurrency, value / self.concurrency

    def buffered(self):
        """(rows looked at, share or None, yes)"""
        rows = [r for r in self.completed if r["tok_n"] >= 8]
        share = Fraction(sum(r["reads"] <= 2 for r in rows), len(rows)) if rows else None
        return len(rows), share, share is not None and share > Fraction(1, 2)

    def badly_calibrated(self, bound):
        for key, limit in (("ttft_error_p99_ns", "max_ttft_error_ms"), ("itl_error_p99_ns", "max_itl_error_ms")):
            e = self.calibrated(key)
            if e is not None and e > 10**6 * bound.get(limit, 10):
                return True
        known = [e for e in self.calibrations if e["ttft_error_p99_ns"] is not None]
        return bound.get("calibration_s", 2) > 0 and self.ev.status() == "complete" and len(known) < 2

    def is_valid(self):
        bound, (s, loop), so = self.ev.plan.get("instrument", {}), self.lags(), self.sound
        if not so or s is None or s > 10**6 * bound.get("max_send_lag_ms", 10):
            return False
        if loop is not None and loop > 10**6 * bound.get("max_loop_lag_ms", 10):
            return False
        cpu, steal, waits = (self.pct(*k) for k in (("client_cpu_ns", "wall_ns"), ("steal_ticks", "total_ticks"),
                                                    ("runq_wait_ns", "wall_ns")))
        if cpu is None or (not bound.get("busy_poll", False) and cpu > bound.get("max_client_cpu_pct", 90)):
            return False
        if so["wall_ns"] >= 2 * 10**8 and (steal is None or steal > bound.get("max_steal_pct", 10)):
            return False
        if (waits is not None and waits > bound.get("max_runq_wait_pct", 20)) or self.badly_calibrated(bound):
            return False
        got = self.delivered()
        least = bound.get("min_delivered_share", Fraction(99, 100))
        if self.whole == "whole" and self.completed and got is not None and got[2] < least:
            return False
        if self.closed and self.whole == "whole" and self.completed:
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
        return per is not None and per >= Fraction(8, 10) and self.stream and not self.buffered()[2]

    def rate(self, name):
        done, tok = self.completed, self.usage("usage_output_tok")
        if name == "delivered_share":
            got = self.delivered()
            return got and got[2]
        if name == "prefix_cache_hit_share":
            return self.cache()[0]
        if not done:
            return None
        if name == "request_s":
            return Fraction(len(done) * 10**9, self.window) if self.window else None
        if name == "output_tok_s":
            return Fraction(tok * 10**9, self.window) if self.window and tok is not None else None
        if tok is None or self.usage("usage_prompt_tok") is None or not self.stream:
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

    def pages(self):
        def page(when):
            got = next((p for p in self.ev.pages if (p["cell"], p["when"]) == (self.id, when)), None)
            return texts.sums(got["page"]) if got and got["page"] is not None else None
        return page("before"), page("after")

    def cache(self):
        """(share, source)"""
        share = texts.engine_figures(self.pages())[0]
        if share is not None:
            return share, "engine metrics"
        hit, asked = self.usage("usage_cached_tok"), self.usage("usage_prompt_tok")
        if hit is None or not asked:
            return None, None
        return Fraction(hit, asked), "usage"

    def answers(self):
        """{number of the request: its line of answers.jsonl}"""
        mine = {r["i"] for r in self.rows}
        return {a["k"]: a for a in self.ev.texts if a["cell"] == self.id and a["i"] in mine}

    def canaries(self):
        """(rows, of them failed)"""
        planned = {x["k"] for x in self.ev.planned if x["cell"] == self.id and x["kind"] == "load" and x["canary"]}
        rows = [r for r in self.rows if r["k"] in planned and r["outcome"] != "cancelled"]
        answers = self.answers()
        return len(rows), sum(texts.canary_failed(r, answers.get(r["k"])) for r in rows)

    def counted(self):
        done = {r["i"] for r in self.completed}
        return [a for a in self.answers().values() if a["i"] in done and a["chars"] is not None]

    def retried(self):
        return sum(r["attempts"] > 1 for r in self.rows if r["outcome"] != "cancelled")

    def split(self, key, value):
        """Of the rows of one part or turn."""
        bad = [r for r in self.unasked if key == "part" and r[key] == value]
        if key == "turn":
            bad = [r for n, r in self.unasked_turns() if n == value]
        rows = [r for r in self.rows if r[key] == value and r["outcome"] != "cancelled"]
        out = {"n": len(rows) + len(bad), "n_failed": sum(r["outcome"] != "ok" for r in rows) + len(bad)}
        for name in ("ttft", "itl", "e2e"):
            s = Series() if name in OF_TOKENS and not self.stream else self.latencies_of(name, rows + bad)
            for q in (50, 99):
                out["%s_p%d_ns" % (name, q)] = s.at_rank(nearest(s.n, q, 100)) if s.n else None
        return out

    def unasked_turns(self):
        out, count = [], {}
        for r in self.unasked:
            count[r["conv"]] = count.get(r["conv"], r["turn"]) + 1
            out.append((count[r["conv"]], r))
        return out

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
