# SPDX-License-Identifier: Apache-2.0
"""Every figure and every verdict anew, from the raw members alone, as proofmark-bundle(5) says."""

import datetime
import json
import math
import re
import zlib

import rules

ORDER = ["interrupted", "rejected", "invalid", "blocked", "error", "inconclusive", "accepted_with_waivers", "accepted"]
LATENCY = ("ttft", "ttft_content", "itl", "tpot", "e2e", "send_lag")
FUNCTIONAL = ("failed_share", "controls_failed", "engine_exits", "completed_requests", "output_length_mismatch",
              "train_loss_deviation", "train_bad_steps", "train_resume")
PEAKS = {"engine_pss_peak": "engine_pss_bytes", "engine_rss_peak": "engine_rss_bytes",
         "host_used_peak": "host_used_bytes"}
TIMES = {"cold_start": "first", "second_cold_start": "second_cold", "restart": "restart", "rollback": "rollback"}
DIMENSIONS = {"ns": "time", "us": "time", "ms": "time", "s": "time", "min": "time", "h": "time", "tok/s": "tok/s",
              "requests/s": "req", "requests/min": "req", "share": "share", "%": "share", "count": "count",
              "ratio": "ratio"}


def dimension(metric):
    if metric in LATENCY or metric in TIMES:
        return "time"
    return {"request_s": "req", "failed_share": "share", "second_to_first_cold_start": "ratio"}.get(
        metric, "tok/s" if metric.endswith("tok_s") else "bytes" if metric in PEAKS else "count")


def leb128(data):
    out, value, shift = [], 0, 0
    for b in data:
        value |= (b & 127) << shift
        shift += 7
        if not b & 128:
            out.append(value)
            value = shift = 0
    return out


def wall_ns(text):
    if len(text) == 10:
        text += "T00:00:00Z"
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def nearest(n, num, den):
    return max(1, -(-n * num // den))


class Series:
    """Values in the order of rows, and how many rows have none."""

    def __init__(self):
        self.values, self.failed, self.unknown = [], 0, 0

    @property
    def n(self):
        return len(self.values) + self.failed

    def at_rank(self, rank, small_is_good=True):
        ordered = sorted(self.values)
        at = rank - 1 if small_is_good else rank - 1 - self.failed
        return ordered[at] if rank and 0 <= at < len(ordered) else None


class Cell:
    def __init__(self, run, workload, prompt_tok, concurrency):
        self.run, self.wl, self.prompt_tok, self.concurrency = run, workload, prompt_tok, concurrency
        kind = workload.get("arrival", {}).get("kind", "closed")
        self.closed = kind == "closed"
        tail = "c%d" % concurrency if self.closed else kind + "%.9g" % workload["arrival"].get("rate_rps", 0)
        if not self.closed and len(workload.get("concurrency", [0])) > 1:
            tail += "-c%d" % concurrency
        self.id = "/".join([workload["name"], f"{prompt_tok}in", f"{workload['output_tok']}out", tail])
        wanted = (workload.get("critical_prompt_tok", workload["prompt_tok"][-1]),
                  workload.get("critical_concurrency", workload.get("concurrency", [0])[-1]))
        self.critical = bool(workload.get("critical")) and wanted == (prompt_tok, concurrency)
        requests = workload.get("requests", 0)
        self.requests = requests if self.critical else workload.get("other_requests", requests)
        rows = [r for r in run.records if r["kind"] == "load" and r["cell"] == self.id]
        self.rows = sorted(rows, key=lambda r: (r["due_ns"], r["i"]))
        self.completed = [r for r in self.rows if r["outcome"] == "ok"]
        self.cancelled = [r for r in self.rows if r["outcome"] == "cancelled"]
        self.n_failed = len(self.rows) - len(self.completed) - len(self.cancelled)
        events = {e["ev"]: e for e in run.events if e.get("cell") == self.id}
        self.begin, self.end, self.sound = (events.get(k) for k in ("cell_begin", "cell_end", "soundness"))
        self.series = {name: self.latencies(name) for name in LATENCY + ("ttft_sent",)}
        self.window = (max(r["end_ns"] for r in self.rows) - self.rows[0]["due_ns"]) if self.rows else None
        self.whole = self.wholeness()
        self.lag = self.own_lag()
        self.valid = self.soundness()

    def latencies(self, name):
        s = Series()
        for r in self.rows:
            if r["outcome"] == "cancelled":
                continue
            if name == "send_lag":
                self.add(s, r, r["due_ns"], r["sent_ns"], 1)
            elif r["outcome"] != "ok":
                want = r["want_output_tok"] or 0
                s.failed += (want - 1 if 1 <= want - 1 and want < 1e8 else 1) if name == "itl" else 1
            elif name == "itl":
                s.values += self.run.gaps(r)
            elif name == "tpot":
                tok = r["usage_output_tok"]
                if tok is None:
                    s.unknown += 1
                elif tok > 1:
                    s.values.append(math.floor((r["last_token_ns"] - r["first_token_ns"]) / (tok - 1) + 0.5))
            else:
                first = {"ttft": "first_token_ns", "ttft_sent": "first_token_ns", "ttft_content": "first_content_ns",
                         "e2e": "last_token_ns"}[name]
                self.add(s, r, r["sent_ns"] if name == "ttft_sent" else r["due_ns"], r[first], 1)
        return s

    @staticmethod
    def add(s, r, start, end, n):
        if start is None or end is None or end < start:
            s.failed += n
        else:
            s.values.append(end - start)

    def wholeness(self):
        if not self.begin:
            return "not run"
        if not self.end:
            return "stopped" if self.run.interrupted else "cut"
        by = self.end["stopped_by"]
        if by in ("engine_died", "interrupt"):
            return "died" if by == "engine_died" else "stopped"
        if self.requests:
            good = by == "complete" and self.end["scheduled"] == self.requests
        else:
            good = by in ("duration", "complete") and self.end["wall_ns"] >= 0.99e9 * self.wl["duration_s"]
        return "cut" if not good else "stopped" if self.cancelled else "whole"

    def own_lag(self):
        """(S, L), None = unknown."""
        lag = self.series["send_lag"]
        s = lag.at_rank(nearest(lag.n, 99, 100)) if lag.n else None
        told = self.sound and self.sound["send_lag_p99_ns"]
        loop = self.sound["loop_lag_p99_ns"] if self.sound and self.sound["loop_lag_n"] else None
        return (max(s, told) if s is not None and told else s), loop

    @property
    def error_ns(self):
        s, loop = self.lag
        return None if s is None else max(s, loop or 0)

    def soundness(self):
        limit, (s, loop), so = self.run.plan.get("instrument", {}), self.lag, self.sound
        if not so or s is None or s > limit.get("max_send_lag_ms", 10) * 1e6:
            return False
        if loop is not None and loop > limit.get("max_loop_lag_ms", 10) * 1e6:
            return False
        if not so["wall_ns"] or so["client_cpu_ns"] is None or \
                100 * so["client_cpu_ns"] / so["wall_ns"] > limit.get("max_client_cpu_pct", 90):
            return False
        if so["wall_ns"] >= 2e8 and (not so["total_ticks"] or so["steal_ticks"] is None
                                     or 100 * so["steal_ticks"] / so["total_ticks"] > limit.get("max_steal_pct", 10)):
            return False
        if self.closed and self.whole == "whole":
            want = min(self.concurrency, self.requests) if self.requests else self.concurrency
            return so["max_in_flight"] is not None and so["max_in_flight"] >= 0.99 * want
        return True

    def per_tok(self):
        tok = sum(r["usage_output_tok"] or 0 for r in self.completed)
        if not tok or any(r["usage_output_tok"] is None for r in self.completed):
            return None
        return sum(r["tok_n"] for r in self.completed) / tok

    def rate(self, name):
        done = self.completed
        if name == "request_s":
            return len(done) / (self.window / 1e9) if done and self.window else None
        if not done or any(r["usage_output_tok"] is None for r in done):
            return None
        if name == "output_tok_s":
            return sum(r["usage_output_tok"] for r in done) / (self.window / 1e9) if self.window else None
        got = []
        for r in done:
            if r["usage_prompt_tok"] is None:
                return None
            if name == "prefill_tok_s":
                work, ns = r["usage_prompt_tok"] - (r["usage_cached_tok"] or 0), r["first_token_ns"] - r["sent_ns"]
            else:
                work, ns = r["usage_output_tok"] - 1, r["last_token_ns"] - r["first_token_ns"]
            if work > 0 and ns > 0:
                got.append(work / (ns / 1e9))
        got.sort()
        return None if not got else (got[(len(got) - 1) // 2] + got[len(got) // 2]) / 2


class Run:
    def __init__(self, files):
        self.files, self.missing = files, []
        self.plan = json.loads(files["plan.json"].decode("utf-8-sig"))
        self.lock, self.facts = self.document("plan.lock.json"), self.document("facts.json")
        self.events = self.lines("events.jsonl")
        self.records = self.lines("requests.jsonl")
        self.controls = self.lines("controls.jsonl")
        self.readings = self.lines("telemetry.jsonl")
        self.tokens = files.get("tokens.bin", b"")
        self.by = lambda ev: [e for e in self.events if e["ev"] == ev]
        self.begin = (self.by("run_begin") or [{}])[0]
        self.status = (self.by("run_end") or [{}])[-1].get("status")
        self.interrupted = bool(self.by("interrupt")) or self.status == "interrupted"
        self.starts = self.read_starts()
        ready = [s for s in self.starts if s["first"] is not None]
        self.never_ready = bool(self.begin) and not ready
        self.nothing = not self.starts and not self.by("error") and self.status == "complete"
        self.deaths = sum(1 for s in ready if s["exited"] and not s["expected"])
        self.cells = [Cell(self, wl, p, c) for wl in self.plan["workloads"] if wl["class"] != "training"
                      for p in wl["prompt_tok"] for c in wl.get("concurrency", [0])]
        self.check_complete()

    def document(self, name):
        try:
            return json.loads(self.files[name])
        except (KeyError, ValueError):
            self.missing.append(name)
            return None

    def lines(self, name):
        text, out = self.files.get(name, b""), []
        if text and not text.endswith(b"\n"):
            self.missing.append("%s: cut" % name)
        for line in text.split(b"\n")[:-1]:
            try:
                out.append(json.loads(line))
            except ValueError:
                self.missing.append("%s: no JSON" % name)
        return out

    def read_starts(self):
        out = {}
        for e in self.events:
            if e["ev"] in ("engine_spawn", "engine_ready", "engine_not_ready"):
                s = out.setdefault(e["start"], {"why": e["why"], "spawn": None, "first": None, "kill": None,
                                                "exited": False, "expected": None, "number": e["start"]})
                if e["ev"] == "engine_spawn":
                    s["spawn"] = e["t_ns"]
                elif e["ev"] == "engine_ready":
                    s["spawn"], s["first"] = e["spawn_ns"], e["first_completion_ns"]
            elif e["ev"] == "engine_exit":
                out[e["start"]].update(exited=True, expected=e["expected"])
            elif e["ev"] == "engine_killed":
                out[e["start"]]["kill"] = e["t_ns"]
        return list(out.values())

    def gaps(self, r):
        return leb128(self.tokens[r["tok_off"]:r["tok_off"] + r["tok_bytes"]])[1:]

    def check_complete(self):
        """The larger half of the page's list; the product's own tests hold the rest."""
        miss = self.missing.append
        if [e["seq"] for e in self.events] != list(range(len(self.events))):
            miss("seq")
        if not self.begin or not self.status:
            miss("no begin or end")
        if any(b["t_ns"] < a["t_ns"] for a, b in zip(self.events, self.events[1:])):
            miss("time runs back")
        if [r["i"] for r in self.records] != list(range(len(self.records))):
            miss("requests.jsonl: i")
        at = 0
        for r in self.records:
            times = [r[k] for k in ("due_ns", "sent_ns", "first_byte_ns", "first_token_ns", "last_token_ns", "end_ns")
                     if r[k] is not None]
            deltas = leb128(self.tokens[r["tok_off"]:r["tok_off"] + r["tok_bytes"]])
            good = times == sorted(times) and r["tok_off"] == at and len(deltas) == r["tok_n"]
            if deltas:
                good = good and r["sent_ns"] + deltas[0] == r["first_token_ns"] and \
                    r["sent_ns"] + sum(deltas) == r["last_token_ns"]
            if r["outcome"] == "ok":
                good = good and r["tok_n"] > 0 and r["http"] == 200
            if not good:
                miss("record %d" % r["i"])
            at += r["tok_bytes"]
        if at != len(self.tokens):
            miss("tokens.bin: length")
        asked = [r for r in self.records if r["kind"] == "control"]
        if [c["i"] for c in self.controls] != list(range(len(self.controls))) or len(asked) != len(self.controls):
            miss("controls.jsonl: count")
        for c in self.cells:
            if c.end and c.end["scheduled"] != len(c.rows):
                miss("%s: rows" % c.id)

    # --- controls ------------------------------------------------------------------------------------------

    def control_passes(self, answer):
        control = next(c for c in self.plan["controls"] if c["id"] == answer["id"])
        text = answer["text"]
        if answer["outcome"] not in ("ok", "empty"):
            return False
        if "exact" in control and text != control["exact"]:
            return False
        if not all(re.search(p, text) for p in control.get("must_match", [])):
            return False
        if any(re.search(p, text) for p in control.get("must_not_match", [])):
            return False
        if control.get("json"):
            try:
                json.loads(re.sub(r"^\s*```\w*\n(.*)\n```\s*$", r"\1", text, flags=re.S))
            except ValueError:
                return False
        tok = answer["output_tok"]
        for key, bad in (("min_tok", lambda n: tok < n), ("answer_max_tok", lambda n: tok > n)):
            if key in control and (tok is None or bad(control[key])):
                return False
        if control.get("same_as_reference"):
            first = next(c for c in self.controls if c["id"] == answer["id"] and c["outcome"] == "ok")
            if text != first["text"]:
                return False
        return text == control.get("exact") or self.surface_good(text)

    @staticmethod
    def surface_good(text):
        """The surface rules, but for scripts and special tokens: test answers have neither."""
        if not text.strip() or re.search(r"(.)\1{23}", text, re.S) or "\ufffd" in text:
            return False
        if len(text) >= 64 and len(set(text)) <= 8:
            return False
        raw, words = text.encode(), text.split()
        if len(zlib.compress(raw, 6)) / len(raw) < 0.2:
            return False
        grams = [tuple(words[i:i + 4]) for i in range(len(words) - 3)]
        return not grams or 1 - len(set(grams)) / len(grams) <= 0.5

    # --- criteria ------------------------------------------------------------------------------------------

    def picked(self, criterion):
        where = criterion.get("where", {})
        critical = next(w["name"] for w in self.plan["workloads"] if w.get("critical"))
        name = where.get("workload", critical)
        wl = next(w for w in self.plan["workloads"] if w["name"] == name)
        if where.get("cells") == "all":
            return [c for c in self.cells if c.wl is wl]
        p = where.get("prompt_tok", wl.get("critical_prompt_tok", wl["prompt_tok"][-1]))
        k = where.get("concurrency", wl.get("critical_concurrency", wl.get("concurrency", [0])[-1]))
        return [c for c in self.cells if c.wl is wl and (c.prompt_tok, c.concurrency) == (p, k)]

    def judge(self, criterion):
        c = Judged(self, criterion)
        c.decide()
        return c


class Judged:
    """One criterion: state, n, t, n_more, and value, bound, worst in base units."""

    def __init__(self, run, criterion):
        self.run, self.c, self.metric = run, criterion, criterion["metric"]
        self.state, self.n, self.t, self.n_more = None, 0, 0, 0
        self.value = self.bound = self.worst = self.p_pass = self.p_fail = None
        self.cmp = criterion["comparator"]
        self.unit = criterion["limit"]["unit"]
        self.limit = criterion["limit"]["value"] * rules.UNITS.get(self.unit, math.nan)
        self.confidence = criterion.get("confidence", 0.95)
        self.small = self.cmp in ("<=", "<")

    def decide(self):
        known = self.metric in LATENCY + FUNCTIONAL[:5] + tuple(PEAKS) + tuple(TIMES) + (
            "second_to_first_cold_start", "output_tok_s", "request_s", "prefill_tok_s", "decode_tok_s")
        if not known or DIMENSIONS.get(self.unit, "bytes") != dimension(self.metric):
            self.state = "not_tested"
        elif self.run.by("difference"):
            self.state = "blocked"
        elif self.run.never_ready and self.run.interrupted:
            self.state = "inconclusive"
        elif self.run.nothing:
            self.state = "not_tested"
        elif self.run.never_ready or not self.run.starts:
            self.state = "error"
        else:
            self.judge()

    def judge(self):
        of_cells = self.metric in LATENCY or self.metric == "failed_share" or self.metric.endswith("_s")
        needs = of_cells or self.metric in ("completed_requests", "output_length_mismatch")
        self.cells = self.run.picked(self.c) if of_cells else self.run.cells
        looks = self.cells[0].wl.get("looks", 1) if of_cells and self.cells else 1
        self.confidence = 1 - (1 - self.confidence) / looks
        if needs and self.cells_forbid():
            return
        if self.metric in LATENCY:
            self.latency()
        elif self.metric == "failed_share":
            self.share()
        elif self.metric.endswith("_s"):
            self.rate()
        elif self.metric in PEAKS:
            self.peak()
        elif self.metric in TIMES or self.metric == "second_to_first_cold_start":
            self.times()
        else:
            self.count()
        for cell in self.cells if needs else []:
            if cell.whole == "died":
                self.state = "fail"
                break
            if cell.whole in ("stopped", "cut") and self.state != "fail":
                self.state = "inconclusive" if cell.whole == "stopped" else "error"

    def cells_forbid(self):
        if not self.cells:
            self.state = "invalid"
        for cell in self.cells:
            if cell.whole == "not run":
                trace = cell.wl.get("arrival", {}).get("kind") == "trace"
                self.state = ("not_tested" if trace or self.run.deaths else "inconclusive" if self.run.interrupted
                              else "invalid" if self.run.status == "complete" else "error")
            elif cell.whole == "whole" and not cell.valid:
                self.state = "invalid"
            if self.state:
                break
        return self.state is not None

    def plain(self, value):
        self.value = value
        self.state = "not_tested" if value is None else "pass" if rules.holds(value, self.cmp, self.limit) else "fail"

    def latency(self):
        errors = [c.error_ns for c in self.cells if c.error_ns is not None]
        if self.metric != "send_lag" and any(self.limit < 10 * e for e in errors):
            self.state = "invalid"
            return
        s = Series()
        for cell in self.cells:
            one = cell.series[self.metric]
            s.values += one.values
            s.failed += one.failed
            s.unknown += one.unknown
        measurable = [c.per_tok() for c in self.cells if c.completed]
        if (self.metric == "itl" and any(m is None or m < 0.8 for m in measurable)) or s.unknown:
            self.state = "not_tested"
            return
        limit = math.floor(self.limit + 0.5)
        self.n, self.t = s.n, sum(1 for v in s.values if not rules.holds(v, self.cmp, limit)) + s.failed
        if s.values:
            self.worst = max(s.values) if self.small else min(s.values)
        if not s.n or not s.values:
            self.state = "fail" if s.n else "inconclusive"
            return
        q = rules.QUANTILES.get(self.c["statistic"])
        if q and self.cmp != "==":
            self.quantile(s, *q)
        else:
            self.statistic(s, q)

    def quantile(self, s, num, den):
        self.value = s.at_rank(nearest(s.n, num, den), self.small)
        limit = math.floor(self.limit + 0.5)
        near = [max(v, limit / 5) if self.small else min(v, limit * 5.0) for v in s.values]
        eff = rules.n_eff(near) * s.n / len(s.values) if len(s.values) >= 2 else float(s.n)
        n, t, scale = s.n, self.t, 1.0
        if 0 < eff < s.n / 2:
            n = math.floor(eff)
            t = min(n, max(math.ceil(self.t * n / s.n), 1 if self.t else 0))
            scale = s.n / n
        bad = (den - num) / den if self.small else num / den
        state, self.p_pass, self.p_fail, more = rules.gate(n, t, bad, self.confidence)
        self.state = state
        self.n_more = math.ceil(more * scale)
        rank = (rules.upper_rank if self.small else rules.lower_rank)(n, (den - num) / den, self.confidence)
        if rank is not None:
            rank = math.ceil(rank * scale - 1e-9) if self.small else math.floor(rank * scale + 1e-9)
            self.bound = s.at_rank(rank, self.small)

    def statistic(self, s, q):
        kind = self.c["statistic"]
        value = s.at_rank(nearest(s.n, *q), self.small) if q else {
            "mean": math.fsum(s.values) / len(s.values), "min": min(s.values), "max": max(s.values)}[kind]
        self.plain(value)
        if self.state == "pass" and s.failed:
            self.state = "fail"

    def share(self):
        x = sum(c.n_failed for c in self.cells)
        self.n, self.t = x + sum(len(c.completed) for c in self.cells), x
        if not self.n:
            self.state = "inconclusive"
            return
        if self.cmp == "==":
            self.plain(x / self.n)
        else:
            t, q = (x, self.limit) if self.small else (self.n - x, 1 - self.limit)
            self.state, self.p_pass, self.p_fail, self.n_more = rules.gate(self.n, t, q, self.confidence)
            self.value = x / self.n
            self.bound = rules.clopper_pearson(x, self.n, self.confidence, self.small)
        if self.state == "pass" and x == self.n:
            self.state = "inconclusive"

    def rate(self):
        got = [c.rate(self.metric) for c in self.cells]
        if None in got:
            cell = self.cells[got.index(None)]
            self.state = "fail" if cell.n_failed and not cell.completed else "not_tested"
            return
        self.plain(max(got) if self.small else min(got))

    def peak(self):
        name = PEAKS[self.metric]
        known = [r for r in self.run.readings if r["name"] == name and r["value"] is not None]
        rows = [r for c in self.run.cells for r in c.rows]
        due, end = min((r["due_ns"] for r in rows), default=0), max((r["end_ns"] for r in rows), default=-1)
        if not known or not any(due <= r["t_ns"] <= end for r in known):
            self.state = "not_tested"
            return
        self.plain(max(r["value"] for r in known))
        if self.state == "pass" and self.run.status != "complete":
            self.state = "inconclusive"

    def times(self):
        first = self.time_of(TIMES.get(self.metric, "second_cold"))
        if self.state:
            return
        if self.metric in TIMES:
            self.plain(first)
        else:
            other = self.time_of("first")
            if not self.state:
                self.plain(first / other)

    def time_of(self, why):
        ns, state = start_time(self.run, why)
        if ns is None:
            self.state = state
        return ns

    def count(self):
        run, m = self.run, self.metric
        if m == "controls_failed":
            self.controls()
            return
        done = [r for c in self.cells for r in c.completed]
        if m == "completed_requests":
            self.plain(len(done))
            if self.state == "pass" and not done:
                self.state = "inconclusive"
        elif m == "output_length_mismatch":
            done = [r for c in self.cells if c.wl.get("force_output", True) for r in c.completed]
            if any(r["usage_output_tok"] is None for r in done) or not done:
                self.state = "not_tested" if done else "inconclusive"
                return
            self.plain(sum(1 for r in done if r["usage_output_tok"] != r["want_output_tok"]))
        else:
            self.plain(run.deaths)
            if self.state == "pass" and run.status != "complete":
                self.state = "inconclusive"

    def controls(self):
        run = self.run
        if not run.plan.get("controls"):
            self.state = "not_tested"
            return
        self.n = len(run.controls)
        self.t = sum(1 for a in run.controls if not run.control_passes(a))
        self.plain(self.t)
        enough = all(sum(1 for a in run.controls if a["id"] == c["id"] and a["round"] == rnd)
                     >= run.plan.get("control_repeats", 1)
                     for c in run.plan["controls"] for rnd in ("before", "after"))
        if self.state != "fail" and (not self.n or not enough):
            self.state = "inconclusive"


def start_time(run, why):
    """(longest time or None, state when None)"""
    best, unknown = None, "inconclusive" if run.interrupted else "not_tested"
    for s in run.starts:
        if s["why"] != why:
            continue
        begin = s["spawn"]
        if why == "restart":
            before = next((o for o in run.starts if o["number"] == s["number"] - 1), None)
            begin = before["kill"] if before and before["kill"] is not None else begin
        if s["first"] is None:
            return None, "inconclusive" if run.interrupted else "fail"
        if begin is None:
            return None, unknown
        best = max(best or 0, s["first"] - begin)
    return best, unknown


# --- the verdict ----------------------------------------------------------------------------------------------


def waived(run, criterion):
    wall = wall_ns(run.begin["wall"])
    return any(w["criterion"] == criterion["id"] and wall_ns(w["expires"]) > wall for w in run.plan.get("waivers", []))


def by_criterion(run, j):
    if j.state == "fail":
        return "accepted_with_waivers" if waived(run, j.c) else "rejected"
    return {"pass": "accepted", "not_tested": "inconclusive"}.get(j.state, j.state)


def common(run):
    """Everything that does not come from criteria."""
    import hashlib
    out = ["accepted"]
    different = bool(run.by("difference"))
    plan_hash = hashlib.sha256(run.files["plan.json"]).hexdigest()
    if run.interrupted:
        out.append("interrupted")
    if different or (run.lock and run.lock["plan_sha256"] != plan_hash):
        out.append("blocked")
    if run.deaths:
        out.append("rejected")
    if run.nothing or (run.never_ready and not different):
        out.append("inconclusive" if run.nothing else "error")
    if run.by("error") or run.by("disk_full") or run.missing or (
            run.status != "complete" and not run.interrupted and not different):
        out.append("error")
    wall, about = wall_ns(run.begin["wall"]), run.plan["plan"]
    if run.begin.get("labels") or run.by("label") or any(k in about and wall < wall_ns(about[k]) for k in ("valid_from", "not_before")) \
            or ("valid_until" in about and wall > wall_ns(about["valid_until"])):
        out.append("inconclusive")
    cell = next((c for c in run.cells if c.critical), None)
    if not cell or not cell.completed or cell.whole != "whole":
        out.append("inconclusive")
    elif not cell.valid:
        out.append("invalid")
    for key, why in (("restart", "restart"), ("second_cold_start", "second_cold"), ("rollback", "rollback")):
        asked = run.plan.get("recovery", {}).get(key)
        if asked is None or run.never_ready:
            continue
        ns, state = start_time(run, why)
        if ns is None:
            out.append("rejected" if state == "fail" else "inconclusive")
        elif "limit_s" in asked and ns > asked["limit_s"] * 1e9:
            out.append("rejected")
    return out


def worst(verdicts):
    return min(verdicts, key=ORDER.index)


def verdict(run):
    """(run's verdict, {class: verdict}, [Judged])"""
    judged = [run.judge(c) for c in run.plan["criteria"]]
    must = [j for j in judged if j.c.get("severity", "must") == "must"]
    base = common(run)
    out = base + [by_criterion(run, j) for j in must]
    if any(j.metric in FUNCTIONAL and j.state != "pass" for j in must) and \
            any(j.metric not in FUNCTIONAL and j.state == "pass" for j in must):
        out.append("accepted_with_waivers")
    critical = next(w["name"] for w in run.plan["workloads"] if w.get("critical"))
    classes = {}
    for wl in run.plan["workloads"]:
        classes.setdefault(wl["class"], []).append(wl)
    result = {}
    for cls, workloads in classes.items():
        names = [w["name"] for w in workloads]
        speak = []
        for j in must:
            bound = j.metric in LATENCY or j.metric == "failed_share" or j.metric.endswith("_s")
            if not bound or j.c.get("where", {}).get("workload", critical) in names:
                speak.append(j)
        idle = any(not any(c.completed for c in run.cells if c.wl is w) for w in workloads)
        result[cls] = worst(base + [by_criterion(run, j) for j in speak] + (["inconclusive"] if not speak or idle else []))
        if not speak or idle:
            out.append("inconclusive")
    return worst(out), result, judged
