# SPDX-License-Identifier: Apache-2.0
"""verdict.json anew from the raw members alone, but for its sentences, as proofmark-bundle(5) says."""

import datetime
import hashlib

import cells
import controls
import evidence
import judge
import rules
import schedule
import texts

ORDER = ("interrupted", "rejected", "invalid", "blocked", "error", "inconclusive", "accepted_with_waivers", "accepted")
EXIT = (130, 1, 4, 5, 5, 3, 0, 0)
LATER = ("device_memory_peak device_power_mean wall_power_mean energy_per_output_tok leak_slope scaling_efficiency "
         "train_step train_tok_s train_loss_deviation train_bad_steps train_resume").split()
RECOVERY = {"restart": "restart", "second_cold_start": "second_cold", "rollback": "rollback"}


def moment(text):
    t = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return t if t.tzinfo else t.replace(tzinfo=datetime.timezone.utc)


def in_order(ready):
    times = [t for t in (ready[k] for k in ("spawn_ns", "health_ns", "first_completion_ns", "t_ns")) if t is not None]
    return times == sorted(times)


def worst(verdicts):
    return min(verdicts, key=ORDER.index)


class Run:
    def __init__(self, files):
        self.ev = ev = evidence.Evidence(files)
        self.plan, self.plan_sha256 = ev.plan, hashlib.sha256(files["plan.json"]).hexdigest()
        self.begin, self.end = next(iter(ev.of("run_begin")), None), next(iter(ev.of("run_end")), None)
        self.status = self.end and self.end["status"]
        self.interrupted = bool(ev.of("interrupt")) or self.status == "interrupted"
        self.starts = self.read_starts()
        ready = [s for s in self.starts.values() if s["first_completion_ns"] is not None]
        self.never_ready = bool(self.begin) and not ready
        self.nothing_started = not self.starts and not ev.of("error") and self.status == "complete"
        self.deaths = sum(1 for s in ready if s["exit"] and not s["exit"]["expected"])
        self.labels = [x for e in ev.events for x in
                       (e["labels"] if e["ev"] == "run_begin" else [e["label"]] if e["ev"] == "label" else [])
                       if isinstance(x, str)]
        self.cells = cells.cells_of(ev, self.interrupted)
        self.answers = controls.results(ev)
        self.count_foreign()
        ev.check(self)

    def count_foreign(self):
        known = texts.nonces(self.ev, self)
        lines = [(a["text"], a["nonce"]) for a in self.ev.texts] + [(a["text"], None) for a in self.ev.answers]
        self.n_texts = sum(1 for text, _ in lines if text)
        self.foreign = sum(texts.foreign_in(text, own, known) for text, own in lines if text)
        self.foreign_of = {c.id: sum(texts.foreign_in(a["text"], a["nonce"], known) for a in self.ev.texts
                                     if a["cell"] == c.id and a["text"]) for c in self.cells}

    def read_starts(self):
        out = {}
        for e in self.ev.events:
            if not e["ev"].startswith("engine_"):
                continue
            if e["ev"] in ("engine_spawn", "engine_ready", "engine_not_ready"):
                if e["ev"] == "engine_spawn" and e["start"] in out:
                    continue
                if "why" not in e and e["start"] not in out:
                    continue
                s = out.setdefault(e["start"], {
                    "number": e["start"], "why": e.get("why"), "spawn_ns": None, "health_ns": None,
                    "first_completion_ns": None, "killed_ns": None, "exit": None})
                if e["ev"] == "engine_spawn":
                    s["spawn_ns"] = e["t_ns"]
                if e["ev"] == "engine_ready" and s["first_completion_ns"] is None and in_order(e):
                    s.update({k: e[k] for k in ("spawn_ns", "health_ns", "first_completion_ns")})
            elif e["start"] in out and e["ev"] == "engine_killed":
                out[e["start"]]["killed_ns"] = e["t_ns"]
            elif e["start"] in out:
                out[e["start"]]["exit"] = out[e["start"]]["exit"] or e
        return out

    def time_of(self, why):
        """(ns, None, starts looked at) or (None, state, ...)"""
        best, n = None, 0
        for s in self.starts.values():
            if s["why"] != why:
                continue
            n, begin = n + 1, s["spawn_ns"]
            before = max((k for k in self.starts if k < s["number"]), default=None)
            if why == "restart" and before is not None and self.starts[before]["killed_ns"] is not None:
                begin = self.starts[before]["killed_ns"]
            if s["first_completion_ns"] is None:
                return None, "inconclusive" if self.interrupted else "fail", n
            if begin is None or s["first_completion_ns"] < begin:
                return None, "inconclusive" if self.interrupted else "not_tested", n
            best = max(best or 0, s["first_completion_ns"] - begin)
        return best, None if best is not None else "inconclusive" if self.interrupted else "not_tested", n

    # --- the verdict ---------------------------------------------------------------------------------------

    def outside_criteria(self):
        ev, out = self.ev, ["accepted"]
        differs = bool(ev.of("difference"))
        lock = ev.lock if isinstance(ev.lock, dict) else {}
        plan_rules = self.plan["plan"].get("rules", 1)
        if self.interrupted:
            out.append("interrupted")
        if differs or (lock and lock.get("plan_sha256") != self.plan_sha256) \
                or (lock.get("rules") == 1 and plan_rules != 1):
            out.append("blocked")
        if self.deaths or self.foreign:
            out.append("rejected")
        if self.nothing_started:
            out.append("inconclusive")
        elif self.never_ready and not differs:
            out.append("error")
        if ev.of("error") or ev.of("disk_full") or ev.problems or \
                (self.status != "complete" and not self.interrupted and not differs):
            out.append("error")
        if self.labels or lock.get("rules", 1) != 1 or not self.in_time():
            out.append("inconclusive")
        critical = next((c for c in self.cells if c.critical), None)
        if not critical or not critical.completed or critical.whole != "whole":
            out.append("inconclusive")
        elif not critical.valid:
            out.append("invalid")
        return out + self.rehearsals()

    def in_time(self):
        about = self.plan["plan"]
        if not {"valid_from", "valid_until", "not_before"} & set(about):
            return True
        if not self.begin or not self.begin["wall"]:
            return False
        wall = moment(self.begin["wall"])
        return all(wall >= moment(about[k]) for k in ("valid_from", "not_before") if k in about) and \
            ("valid_until" not in about or wall <= moment(about["valid_until"]))

    def rehearsals(self):
        out = []
        for key, why in RECOVERY.items():
            asked = self.plan.get("recovery", {}).get(key)
            if asked is None or self.never_ready:
                continue
            ns, state, _ = self.time_of(why)
            if ns is None:
                out.append("rejected" if state == "fail" else "inconclusive")
            elif "limit_s" in asked and ns > asked["limit_s"] * 10**9:
                out.append("rejected")
        return out

    def waiver(self, criterion):
        for w in self.plan.get("waivers", []):
            if w["criterion"] == criterion["id"] and "expires" in w and self.begin and self.begin["wall"] \
                    and moment(w["expires"]) > moment(self.begin["wall"]):
                return w
        return None

    def of_criterion(self, j):
        if j.state == "fail":
            return "accepted_with_waivers" if self.waiver(j.c) else "rejected"
        return {"pass": "accepted", "not_tested": "inconclusive"}.get(j.state, j.state)

    def verdicts(self, judged):
        """(of the run, {class: verdict})"""
        must = [j for j in judged if j.c.get("severity", "must") == "must"]
        base = self.outside_criteria()
        whole, classes = base + [self.of_criterion(j) for j in must], {}
        for name in dict.fromkeys(w["class"] for w in self.plan["workloads"]):
            mine = [w for w in self.plan["workloads"] if w["class"] == name]
            speak = [j for j in must if not judge.of_cells(j.metric)
                     or judge.workload_of(self.plan, j.c)["class"] == name]
            open_ends = [] if speak and all(any(c.completed for c in self.cells if c.wl is w) for w in mine) \
                else ["inconclusive"]
            classes[name] = worst(base + [self.of_criterion(j) for j in speak] + open_ends)
            whole += open_ends
        return worst(whole), classes

    # --- the document --------------------------------------------------------------------------------------

    def document(self):
        judged = [judge.Judged(self, c) for c in self.plan["criteria"]]
        verdict, classes = self.verdicts(judged)
        return {"schema_version": 1, "verdict": verdict, "exit_code": EXIT[ORDER.index(verdict)], "classes": classes,
                "run": self.run_document(), "plan": self.plan_document(),
                "criteria": [self.criterion_document(j) for j in judged],
                "cells": [cell_document(self, c) for c in self.cells], "calibrations": self.calibrations_document(),
                "security": {"foreign_nonces": self.foreign, "texts": self.n_texts}, "controls": self.controls_document(),
                "starts": [self.start_document(s) for s in self.starts.values()], "memory": self.memory_document(),
                "labels": self.labels}

    def calibrations_document(self):
        return [{k: e[k] for k in evidence.EVENTS["calibration"]} for e in self.ev.of("calibration")]

    def run_document(self):
        keys = ("run_id", "wall", "candidate", "version", "binary_sha256", "clock_source", "attempt",
                "previous_attempt_sha256")
        begin = self.begin or {}
        told = {k: begin.get(k) if isinstance(begin.get(k), (str, int)) else None for k in keys}
        return {**told, "status": self.status,
                "end_ns": self.latest_ns(), "interrupted": self.interrupted,
                "disk_full": bool(self.ev.of("disk_full"))}

    def latest_ns(self):
        ends = [r["end_ns"] for r in self.ev.records if r["end_ns"] is not None]
        return max([self.ev.latest_ns] + ends + [r["t_ns"] for r in self.ev.readings])

    def plan_document(self):
        about = self.plan["plan"]
        return {"id": about["id"], "title": about["title"], "sha256": self.plan_sha256, "rules": about.get("rules", 1),
                "challenge": about.get("challenge")}

    def criterion_document(self, j):
        def figure(x):
            return {"value": None if x is None else x / rules.Fraction(j.factor or 1), "unit": j.unit}
        c = j.c
        return {**{k: c[k] for k in ("id", "sentence", "metric", "statistic", "comparator", "limit")},
                "formula": None if judge.dimension(j.metric) is None and not self.is_later(j.metric) else j.metric + "/1",
                "confidence": c.get("confidence", rules.Fraction(95, 100)), "state": j.state,
                "severity": c.get("severity", "must"),
                "waiver": self.waiver_document(c) if j.state == "fail" else None,
                "value": figure(j.value), "bound": figure(j.bound), "worst": figure(j.worst),
                **{k: getattr(j, k) for k in ("n", "t", "n_failed", "n_more", "n_eff", "p_pass", "p_fail")}}

    @staticmethod
    def is_later(metric):
        return metric in LATER

    def waiver_document(self, criterion):
        w = self.waiver(criterion)
        return w and {k: w[k] for k in ("reason", "owner", "expires")}

    def controls_document(self):
        return [{"id": c["id"], "n": sum(a["id"] == c["id"] for a, _ in self.answers),
                 "passed": sum(a["id"] == c["id"] and how == "pass" for a, how in self.answers),
                 "unclear": sum(a["id"] == c["id"] and how == "unclear" for a, how in self.answers)}
                for c in self.plan.get("controls", [])]

    @staticmethod
    def start_document(s):
        keys = ("number", "why", "spawn_ns", "health_ns", "first_completion_ns", "killed_ns")
        return {**{k: s[k] for k in keys},
                "exit": s["exit"] and ("asked for" if s["exit"]["expected"] else "by itself")}

    def memory_document(self):
        out = {}
        for r in self.ev.readings:
            if not r["name"].endswith("_bytes"):
                continue
            for phase in dict.fromkeys((None, r["phase"])):
                m = out.setdefault((r["name"], phase), {"name": r["name"], "phase": phase, "n": 0, "n_unknown": 0,
                                                        "peak_bytes": None, "last_bytes": None})
                if r["value"] is None:
                    m["n_unknown"] += 1
                    continue
                m["n"] += 1
                m["peak_bytes"], m["last_bytes"] = max(m["peak_bytes"] or 0, r["value"]), r["value"]
        return list(out.values())


def delivered_document(c):
    got = c.delivered()
    value, planned, share = got or (None, None, None)
    unit = None if got is None else "requests" if c.closed else "requests/s"
    return {"planned": planned, "value": value, "unit": unit, "share": share}


def texts_document(run, c):
    n, failed = c.canaries()
    counted, (share, source) = c.counted(), c.cache()
    return {"canaries": {"n": n, "n_failed": failed, "n_foreign": run.foreign_of[c.id]},
            "answers": {"n_counted": len(counted), "n_suspicious": sum(map(texts.suspicious, counted)),
                        "n_foreign_script": sum(bool(a["foreign_share"]) for a in counted)},
            "prefix_cache_hit_share": share, "prefix_cache_source": source,
            "queue_time_mean_ms": texts.engine_figures(c.pages())[1]}


def instrument_document(c):
    so = dict(c.sound)
    if not so["loop_lag_n"]:
        so.update(loop_lag_p50_ns=None, loop_lag_p99_ns=None, loop_lag_max_ns=None)
    return {"error_ns": c.error_ns, "ttft_error_ns": c.error_of("ttft"), "itl_error_ns": c.error_of("itl"),
            **{"calibration_%s_%s_ns" % k: c.calibrated("%s_error_%s_ns" % k)
               for k in (("ttft", "p50"), ("ttft", "p99"), ("itl", "p50"), ("itl", "p99"))},
            "n_calibrations": len(c.calibrations), "client_cpu_pct": c.pct("client_cpu_ns", "wall_ns"),
            "steal_pct": c.pct("steal_ticks", "total_ticks"), "runq_wait_pct": c.pct("runq_wait_ns", "wall_ns"),
            **{k: so[k] for k in evidence.EVENTS["soundness"] if k != "cell"}}


def cell_document(run, c):
    outcomes = {o: sum(r["outcome"] == o for r in c.rows) for o in evidence.OUTCOMES}
    n_long, share, buffered = c.buffered()
    return {"id": c.id, "workload": c.wl["name"], "class": c.wl["class"], "critical": c.critical,
            "planned_prompt_tok": c.prompt_tok,
            "planned_output_tok": None if c.prompt_tok is None else c.wl["output_tok"],
            "concurrency": c.concurrency, "rate_rps": None if c.closed or c.kind == "trace" else c.rate_rps, "valid": c.valid, "stopped_by": c.end and c.end["stopped_by"],
            "planned": c.requests, "scheduled": max(c.end["scheduled"] if c.end else 0, len(c.rows)),
            "completed": len(c.completed), "failed": len(c.failed), "cancelled": len(c.cancelled), "outcomes": outcomes,
            "n_unasked": len(c.unasked), "n_retries": sum(r["attempts"] - 1 for r in c.rows), "n_retried": c.retried(),
            "cached_tok": c.usage("usage_cached_tok"),
            "prompt_tok": c.usage("usage_prompt_tok"), "output_tok": c.usage("usage_output_tok"),
            "length_mismatch": c.length_mismatch(),
            "prompt_mismatch": sum(r["prompt_tok"] is not None and r["usage_prompt_tok"] not in (None, r["prompt_tok"])
                                   for r in c.completed),
            "events_per_output_tok": c.events_per_tok(), "itl_measurable": c.measurable(), "window_ns": c.window,
            "buffered": {"n": n_long, "share": share, "yes": buffered}, "delivered": delivered_document(c),
            "saturation": schedule.saturation(c.rows) if c.kind in ("constant", "poisson", "gamma") else None, **texts_document(run, c),
            "parts": [{"name": p["name"], **c.split("part", i)} for i, p in enumerate(c.wl.get("mix", []))],
            "turns": [{"turn": i, **c.split("turn", i)} for i in range(c.turns)],
            **{name: c.rate(name) for name in cells.RATES},
            **{name: c.distribution(name) for name in cells.LATENCIES},
            "instrument": c.sound and instrument_document(c)}
