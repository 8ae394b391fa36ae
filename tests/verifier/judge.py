# SPDX-License-Identifier: Apache-2.0
"""One criterion after RECOMPUTING: CRITERIA of proofmark-bundle(5)."""

import math
from fractions import Fraction

import rules
import texts
from cells import OF_TOKENS, critical_point
from rules import Series, nearest

LATENCY = ("ttft", "ttft_content", "itl", "tpot", "e2e", "send_lag", "spacing_error")
OWN = ("send_lag", "spacing_error")  # figures of the client, not of the engine
RATE = ("output_tok_s", "request_s", "prefill_tok_s", "decode_tok_s", "delivered_share", "prefix_cache_hit_share")
COUNT = ("controls_failed", "engine_exits", "completed_requests", "output_length_mismatch", "foreign_nonces")
SHARE = ("failed_share", "canary_failed_share", "suspicious_answer_share", "retried_share")
PEAK = {"engine_pss_peak": "engine_pss_bytes", "engine_rss_peak": "engine_rss_bytes",
        "host_used_peak": "host_used_bytes"}
TIME = {"cold_start": "first", "second_cold_start": "second_cold", "restart": "restart", "rollback": "rollback"}
FUNCTIONAL = ("failed_share", "canary_failed_share", "suspicious_answer_share", "train_loss_deviation", "train_bad_steps", "train_resume") + COUNT
UNITS = {"time": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9},
         "tok": {"tok/s": 1}, "req": {"requests/s": 1, "requests/min": Fraction(1, 60)},
         "share": {"share": 1, "%": Fraction(1, 100)}, "count": {"count": 1}, "ratio": {"ratio": 1},
         "bytes": {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}}


def dimension(metric):
    if metric in LATENCY or metric in TIME:
        return "time"
    if metric in SHARE or metric.endswith("_share") and metric in RATE:
        return "share"
    if metric in RATE:
        return "req" if metric == "request_s" else "tok"
    if metric in PEAK:
        return "bytes"
    if metric in COUNT:
        return "count"
    return {"second_to_first_cold_start": "ratio"}.get(metric)


def of_cells(metric):
    return metric in LATENCY or metric in RATE or metric in SHARE


def workload_of(plan, criterion):
    critical = next(w for w in plan["workloads"] if w.get("critical"))
    name = criterion.get("where", {}).get("workload", critical["name"])
    return next(w for w in plan["workloads"] if w["name"] == name)


class Judged:
    """state, n, t, n_failed, n_more, and value, bound, worst in base units"""

    def __init__(self, run, criterion):
        self.run, self.c, self.metric = run, criterion, criterion["metric"]
        self.cmp, self.unit = criterion["comparator"], criterion["limit"]["unit"]
        self.factor = UNITS.get(dimension(self.metric), {}).get(self.unit)
        self.limit = None if self.factor is None else Fraction(criterion["limit"]["value"]) * self.factor
        self.small = self.cmp in ("<=", "<")
        self.state, self.n, self.t, self.n_failed, self.n_more = None, 0, 0, 0, 0
        self.value = self.bound = self.worst = self.n_eff = self.p_pass = self.p_fail = None
        self.confidence = Fraction(criterion.get("confidence", Fraction(95, 100)))
        self.pick()
        self.decide()

    def pick(self):
        self.cells = self.run.cells
        if not of_cells(self.metric):
            return
        wl, where = workload_of(self.run.plan, self.c), self.c.get("where", {})
        looks = wl.get("looks", 1)
        self.confidence = 1 - (1 - self.confidence) / looks
        self.cells = [c for c in self.run.cells if c.wl is wl]
        if where.get("cells") != "all":
            p, rate, k = critical_point(wl)
            want = where.get("prompt_tok", p), where.get("rate_rps", rate), where.get("concurrency", k)
            self.cells = [c for c in self.cells if (c.prompt_tok, c.rate_rps, c.concurrency) == want]

    def decide(self):
        run = self.run
        if self.limit is None:
            self.state = "not_tested"
        elif run.ev.of("difference"):
            self.state = "blocked"
        elif run.never_ready and run.interrupted:
            self.state = "inconclusive"
        elif run.nothing_started:
            self.state = "not_tested"
        elif run.never_ready or not run.starts:
            self.state = "error"
        else:
            self.judge()

    def judge(self):
        gated = of_cells(self.metric) or self.metric in ("completed_requests", "output_length_mismatch")
        if gated and self.cells_forbid():
            return
        if self.metric in LATENCY:
            self.latency()
        elif self.metric in RATE:
            self.rate()
        elif self.metric in SHARE:
            self.share()
        elif self.metric in PEAK:
            self.peak()
        elif self.metric in TIME or self.metric == "second_to_first_cold_start":
            self.time()
        else:
            getattr(self, self.metric)()
        for cell in self.cells if gated else []:
            if cell.whole == "died":
                self.state = "fail"
                break
            if self.state != "fail" and cell.whole in ("stopped", "cut"):
                self.state = "inconclusive" if cell.whole == "stopped" else "error"

    def cells_forbid(self):
        run = self.run
        if not self.cells:
            self.state = "invalid"
        for cell in self.cells:
            if cell.whole == "not run":
                away = cell.wl["class"] == "training" or run.deaths > 0 or \
                    any(e.get("what") == cell.id for e in run.ev.of("not_tested"))
                self.state = ("not_tested" if away else "inconclusive" if run.interrupted else
                              "invalid" if run.status == "complete" else "error")
                break
            if cell.whole == "whole" and not cell.valid:
                self.state = "invalid"
                break
        return self.state is not None

    def plain(self, value):
        self.value = value
        self.state = "not_tested" if value is None else "pass" if rules.holds(value, self.cmp, self.limit) else "fail"

    def soften(self, condition):
        if condition and self.state == "pass":
            self.state = "inconclusive"

    def latency(self):
        closed = self.metric == "spacing_error" and any(c.closed for c in self.cells)
        if closed or (self.metric in OF_TOKENS and any(not c.stream for c in self.cells)):
            self.state = "not_tested"
            return
        empty = next((c for c in self.cells if c.failed and not c.completed), None)
        if empty and self.metric not in OWN:
            self.state = "fail"
            self.n = self.t = self.n_failed = empty.n_bad
            return
        errors = [c.error_of(self.metric) for c in self.cells]
        if self.metric not in OWN and any(e is not None and self.limit < 10 * e for e in errors):
            self.state = "invalid"
            return
        s = Series(*(c.series[self.metric] for c in self.cells))
        if s.unknown or (self.metric == "itl" and any(c.completed and not c.measurable() for c in self.cells)):
            self.state = "not_tested"
            return
        self.limit = limit = math.floor(self.limit + Fraction(1, 2))
        self.n, self.n_failed = s.n, s.failed
        self.t = sum(1 for v in s.values if not rules.holds(v, self.cmp, limit)) + s.failed
        if s.values:
            self.worst = max(s.values) if self.small else min(s.values)
        if not s.values:
            self.state = "fail" if s.n else "inconclusive"
            return
        name = self.c["statistic"]
        if name not in rules.QUANTILES:
            self.plain({"mean": Fraction(sum(s.values), len(s.values)), "min": min(s.values),
                        "max": max(s.values)}[name])
        elif self.cmp == "==":
            self.plain(s.at_rank(nearest(s.n, *rules.QUANTILES[name]), self.small))
        else:
            self.quantile(s, *rules.QUANTILES[name])
            return
        if self.state == "pass" and s.failed:
            self.state = "fail"

    def quantile(self, s, num, den):
        self.value = s.at_rank(nearest(s.n, num, den), self.small)
        fifth = Fraction(self.limit, 5)
        near = [max(v, fifth) if self.small else min(v, 5 * self.limit) for v in s.values]
        eff = rules.n_eff(near) * s.n / len(s.values) if len(s.values) >= 2 else Fraction(s.n)
        self.n_eff, n, t = eff, s.n, self.t
        if 0 < eff < Fraction(s.n, 2):
            n = math.floor(eff)
            t = min(n, max(-(-self.t * n // s.n), 1 if self.t else 0))
        p = Fraction(num, den) if self.small else 1 - Fraction(num, den)
        self.state, self.p_pass, self.p_fail, more = rules.gate(n, t, 1 - p, self.confidence)
        self.n_more = -(-more * s.n // n)
        if self.small:
            rank = rules.upper_rank(n, num, den, self.confidence)
            rank = rank and -(-rank * s.n // n)
        else:
            rank = rules.lower_rank(n, num, den, self.confidence)
            rank = rank and rank * s.n // n
        self.bound = s.at_rank(rank, self.small) if rank else None

    def count_share(self):
        """(x, n) of a cell"""
        def of(c):
            if self.metric == "failed_share":
                return c.n_bad, c.n_bad + len(c.completed)
            if self.metric == "canary_failed_share":
                n, bad = c.canaries()
                return bad, n
            if self.metric == "suspicious_answer_share":
                got = c.counted()
                return sum(map(texts.suspicious, got)), len(got)
            return c.retried(), len(c.rows) - len(c.cancelled)
        return [sum(v) for v in zip(*map(of, self.cells))]

    def share(self):
        wl = self.cells[0].wl
        if (self.metric == "canary_failed_share" and not wl.get("canary_share")) or \
                (self.metric == "suspicious_answer_share" and not wl.get("text_counters", True)):
            self.state = "not_tested"
            return
        x, self.n = self.count_share()
        self.t, self.n_failed = x, x if self.metric == "failed_share" else 0
        if not self.n:
            self.state = "inconclusive"
            return
        if self.cmp == "==":
            self.plain(Fraction(x, self.n))
        else:
            t, q = (x, self.limit) if self.small else (self.n - x, 1 - self.limit)
            self.state, self.p_pass, self.p_fail, self.n_more = rules.gate(self.n, t, q, self.confidence)
            self.value = Fraction(x, self.n)
            self.bound = rules.clopper_pearson(x, self.n, self.confidence, self.small)
        self.soften(not any(c.completed for c in self.cells))

    def rate(self):
        got = []
        for cell in self.cells:
            self.n, self.n_failed = self.n + len(cell.completed), self.n_failed + cell.n_bad
            got.append(cell.rate(self.metric))
            dead = cell.failed and not cell.completed
            if got[-1] is None or (dead and self.metric != "delivered_share"):
                self.state = "fail" if cell.failed and not cell.completed else "not_tested"
                return
        self.plain(max(got) if self.small else min(got))
        self.worst = self.value

    def peak(self):
        known = [r for r in self.run.ev.readings if r["name"] == PEAK[self.metric] and r["value"] is not None]
        rows = [r for r in self.run.ev.records if r["kind"] == "load"]
        due = min((r["due_ns"] for r in rows if r["due_ns"] is not None), default=2**64)
        end = max((r["end_ns"] for r in rows if r["end_ns"] is not None), default=-1)
        self.n = len(known)
        self.value = max((r["value"] for r in known), default=None)
        if not any(due <= r["t_ns"] <= end for r in known):
            self.state = "not_tested"
            return
        self.plain(self.value)
        self.worst = self.value
        self.soften(self.run.status != "complete")

    def time(self):
        ns, state, self.n = self.run.time_of(TIME.get(self.metric, "second_cold"))
        if ns is not None and self.metric not in TIME:
            first, state, more = self.run.time_of("first")
            ns, self.n = None if not first else Fraction(ns, first), self.n + more
        if ns is None:
            self.state = state or "not_tested"
        else:
            self.plain(ns)
            self.worst = self.value

    def completed_requests(self):
        self.n = sum(len(c.completed) for c in self.cells)
        self.n_failed = sum(c.n_bad for c in self.cells)
        self.plain(self.n)
        self.soften(self.value == 0)

    def output_length_mismatch(self):
        for cell in self.cells:
            if not cell.wl.get("force_output", True):
                continue
            self.n, self.t = self.n + len(cell.completed), self.t + cell.length_mismatch()
            if cell.completed and cell.usage("usage_output_tok") is None:
                self.state = "not_tested"
                return
        if self.n:
            self.plain(self.t)
        else:
            self.state = "inconclusive"

    def foreign_nonces(self):
        self.n, self.t = self.run.n_texts, self.run.foreign
        if not self.t and not any(w.get("canary_share") for w in self.run.plan["workloads"]):
            self.state = "not_tested"
            return
        self.plain(self.t)
        self.soften(not any(c.canaries()[0] for c in self.run.cells))

    def engine_exits(self):
        self.n, self.t = len(self.run.starts), self.run.deaths
        self.plain(self.t)
        self.soften(self.run.status != "complete")

    def controls_failed(self):
        plan, answers = self.run.plan, self.run.answers
        if not plan.get("controls"):
            self.state = "not_tested"
            return
        self.n, self.t = len(answers), sum(1 for _, how in answers if how != "pass")
        if self.n:
            self.plain(self.t)
        want = plan.get("control_repeats", 1)
        enough = self.n and all(
            sum(1 for a, _ in answers if (a["id"], a["round"]) == (c["id"], when)) >= want
            for c in plan["controls"] for when in ("before", "after"))
        if not enough and self.state != "fail":
            self.state = "inconclusive"
