# SPDX-License-Identifier: Apache-2.0
"""The raw members of proofmark-bundle(5) and what makes them incomplete."""

import json
from fractions import Fraction

import plan_check

WHOLE, TEXT, BOOL, LIST, ANY, NUMBER = "whole", "text", "bool", "list", "any", "number"
OUTCOMES = ("ok", "http_status", "stream_error", "timeout", "stalled", "reset", "truncated", "empty", "corrupt",
            "cancelled")
# A type with "?" may be null; a tuple names the words that are allowed. Members that only explain are not here.
EVENTS = {
    "run_begin": {"run_id": TEXT, "wall": TEXT, "candidate": TEXT, "attempt": WHOLE, "version": TEXT, "labels": LIST},
    "label": {"label": TEXT},
    "phase_begin": {"phase": TEXT}, "phase_end": {"phase": TEXT, "ok": BOOL},
    "engine_spawn": {"start": WHOLE, "why": TEXT},
    "engine_ready": {"start": WHOLE, "spawn_ns": "whole?", "health_ns": "whole?", "first_completion_ns": WHOLE},
    "engine_not_ready": {"start": WHOLE},
    "engine_killed": {"start": WHOLE},
    "engine_exit": {"start": WHOLE, "expected": BOOL},
    "cell_begin": {"cell": TEXT, "planned": WHOLE},
    "soundness": {"cell": TEXT, **{k: "whole?" for k in (
        "send_lag_p50_ns send_lag_p99_ns send_lag_max_ns loop_lag_p50_ns loop_lag_p99_ns loop_lag_max_ns loop_lag_n "
        "client_cpu_ns wall_ns steal_ticks total_ticks max_in_flight start_ns runq_wait_ns threads retries").split()}},
    "calibration": {"load": TEXT, "when": TEXT, "n_requests": WHOLE, "n_failed": WHOLE, "n_gaps": WHOLE,
                    **{k: "whole?" for k in (
                        "ttft_error_p50_ns ttft_error_p99_ns ttft_error_max_ns itl_error_p50_ns itl_error_p99_ns "
                        "itl_error_max_ns send_lag_p50_ns send_lag_p99_ns send_lag_max_ns loop_lag_p99_ns client_cpu_ns "
                        "wall_ns n_tokens max_in_flight server_late_p99_ns").split()}},
    "cell_end": {"cell": TEXT, "scheduled": WHOLE, "done": WHOLE, "stopped_by": TEXT, "wall_ns": WHOLE},
    "not_tested": {}, "difference": {}, "disk_full": {}, "interrupt": {}, "error": {}, "run_end": {"status": TEXT},
}
RECORD = {"i": WHOLE, "k": WHOLE, "cell": TEXT, "kind": ("load", "warmup", "control", "probe"), "start": WHOLE,
          "slot": WHOLE, "conv": "whole?", "turn": "whole?", "part": "whole?", "attempts": WHOLE,
          **{k: "whole?" for k in ("first_sent_ns due_ns sent_ns conn_ns first_byte_ns first_token_ns first_content_ns last_token_ns "
                                   "end_ns http").split()},
          "outcome": OUTCOMES, "finish": "text?", "prompt_tok": "whole?", "want_output_tok": "whole?",
          **{k: "whole?" for k in "usage_prompt_tok usage_output_tok usage_cached_tok usage_reasoning_tok".split()},
          **{k: WHOLE for k in "tok_n tok_off tok_bytes bytes reads max_events_per_read".split()},
          **{k: WHOLE for k in "text_chars bad_chars max_same_run warnings".split()}, "detail": "text?"}
CONTROL = {"i": WHOLE, "id": TEXT, "round": TEXT, "rep": WHOLE, "start": WHOLE, "request": WHOLE, "outcome": OUTCOMES,
           "output_tok": "whole?", "text": "text?"}
READING = {"t_ns": WHOLE, "name": TEXT, "value": "number?", "source": TEXT, "phase": "text?"}
PLANNED = {"cell": TEXT, "kind": TEXT, "k": WHOLE, "canary": BOOL,
           **{k: "whole?" for k in "due_ns prompt_tok output_tok conv turn part".split()}}
ANSWER = {"i": WHOLE, "cell": TEXT, "k": WHOLE, "nonce": "text?", "expected": "text?", "text": "text?",
          **{k: "whole?" for k in "chars distinct max_run special".split()},
          **{k: "number?" for k in "zlib_share rep4_share foreign_share".split()}}
PAGE = {"t_ns": WHOLE, "cell": TEXT, "when": TEXT, "status": "whole?", "page": "text?"}
LONGEST = {"schedule.jsonl": 4 << 10, "answers.jsonl": 16 << 20, "engine_metrics.jsonl": 16 << 20,
           "events.jsonl": 256 << 10, "requests.jsonl": 64 << 10, "controls.jsonl": 16 << 20,
           "telemetry.jsonl": 16 << 10}


def strict(text):
    """RFC 8259: no key twice, no NaN; fractions stay exact."""
    def pairs(items):
        if len({k for k, _ in items}) != len(items):
            raise ValueError("a key twice")
        return dict(items)

    def no(word):
        raise ValueError(word)
    return json.loads(text, object_pairs_hook=pairs, parse_constant=no, parse_float=Fraction)


def is_of(value, kind):
    if isinstance(kind, tuple):
        return value in kind
    if kind.endswith("?"):
        return value is None or is_of(value, kind[:-1])
    if kind == WHOLE:
        return type(value) is int and 0 <= value < 2**53
    if kind == NUMBER:
        return type(value) is int or isinstance(value, Fraction)
    return kind == ANY or isinstance(value, {TEXT: str, BOOL: bool, LIST: list}[kind])


def leb128(data):
    """(numbers of at most 64 bits in their shortest form, whether that was all)"""
    out, value, shift = [], 0, 0
    for b in data:
        value |= (b & 127) << shift
        shift += 7
        if not b & 128:
            if (b == 0 and shift > 7) or value >= 2**64:
                return out, False
            out.append(value)
            value = shift = 0
        elif shift > 63:
            return out, False
    return out, not shift


def demand(o, shape):
    for key, kind in shape.items():
        if key not in o or not is_of(o[key], kind):
            raise ValueError(key)


def has_event(events, ev):
    return any(e["ev"] == ev for e in events)


class Evidence:
    def __init__(self, files):
        self.files, self.problems = files, []
        self.latest_ns = 0
        self.plan = strict(files["plan.json"].decode("utf-8"))
        self.lock, self.facts = self.document("plan.lock.json"), self.document("facts.json")
        self.events = self.lines("events.jsonl", None)
        self.records = self.lines("requests.jsonl", RECORD)
        self.answers = self.lines("controls.jsonl", CONTROL)
        self.readings = self.lines("telemetry.jsonl", READING)
        self.planned = self.lines("schedule.jsonl", PLANNED, raw=True)
        self.texts = self.lines("answers.jsonl", ANSWER)
        self.pages = self.lines("engine_metrics.jsonl", PAGE)
        self.tokens = files.get("tokens.bin", b"")

    def bad(self, text):
        self.problems.append(text)

    def document(self, name):
        try:
            return strict(self.files[name].decode("utf-8"))
        except (KeyError, ValueError):
            self.bad(name + ": not there or no JSON")
            return None

    def lines(self, name, shape, raw=False):
        text, out = self.files.get(name, b""), []
        *whole, rest = text.split(b"\n")
        if rest:
            self.bad(name + ": last line without newline")
        for number, line in enumerate(whole, 1):
            try:
                if len(line) > LONGEST[name]:
                    raise ValueError("too long")
                o = strict(line.decode("utf-8"))
                if not isinstance(o, dict):
                    raise ValueError("no object")
                if shape is None:
                    self.event(o, out)
                else:
                    demand(o, shape)
                    out.append({**o, "raw": line.decode("utf-8")} if raw else o)
            except ValueError as e:
                self.bad("%s:%d: %s" % (name, number, e))
        return out

    def event(self, o, out):
        """What can be read of the first run_begin counts; any other line counts whole or not at all."""
        demand(o, {"seq": WHOLE, "t_ns": WHOLE, "ev": TEXT})
        self.latest_ns = max(self.latest_ns, o["t_ns"])
        shape = EVENTS.get(o["ev"])
        if shape is None:
            raise ValueError("unknown event")
        if o["ev"] == "run_begin" and not has_event(out, "run_begin"):
            for key, kind in shape.items():
                if not is_of(o.get(key), kind):
                    self.bad("run_begin: " + key)
                    o[key] = [] if kind == LIST else None
            if not all(isinstance(x, str) for x in o["labels"]):
                self.bad("run_begin: labels")
        demand(o, {} if o["ev"] == "run_begin" else shape)
        out.append(o)

    def status(self):
        end = next(iter(self.of("run_end")), None)
        return end and end["status"]

    def of(self, ev):
        return [e for e in self.events if e["ev"] == ev]

    def gaps(self, r):
        """As many as can be read."""
        if r["sent_ns"] is None or r["tok_off"] + r["tok_bytes"] > len(self.tokens):
            return []
        return leb128(self.tokens[r["tok_off"]:r["tok_off"] + r["tok_bytes"]])[0][1:]

    def check(self, run):
        """The list of RECOMPUTING: COMPLETENESS."""
        self.check_journal()
        self.check_starts(run)
        self.check_cells(run)
        self.check_records(run)
        self.check_answers(run)
        plan_check.check(self, run)
        if run.starts and "telemetry.jsonl" not in self.files:
            self.bad("telemetry.jsonl is not there")

    def check_journal(self):
        ev = [e["ev"] for e in self.events]
        if "events.jsonl" not in self.files or ev.count("run_begin") != 1 or ev[0] != "run_begin":
            self.bad("events.jsonl: run_begin")
        if "run_end" not in ev or ev.index("run_end") != len(ev) - 1:
            self.bad("events.jsonl: run_end")
        seq = [e["seq"] for e in self.events]
        if seq and (seq[0] > 1 or seq != list(range(seq[0], seq[0] + len(seq)))):
            self.bad("events.jsonl: seq")
        if any(b["t_ns"] < a["t_ns"] for a, b in zip(self.events, self.events[1:])):
            self.bad("events.jsonl: t_ns goes back")
        begun = []
        for e in self.events:
            if e["ev"] == "phase_begin":
                begun.append(e["phase"])
            elif e["ev"] == "phase_end":
                if e["phase"] in begun:
                    begun.remove(e["phase"])
                else:
                    self.bad("phase_end of %s" % e["phase"])

    def check_starts(self, run):
        spawned, ready, exited = set(), set(), set()
        for e in self.events:
            n = e.get("start")
            if e["ev"] == "engine_spawn":
                if n in spawned:
                    self.bad("start %d spawned twice" % n)
                spawned.add(n)
            elif e["ev"] in ("engine_ready", "engine_not_ready"):
                if e["ev"] == "engine_ready":
                    if n in ready:
                        self.bad("start %d ready twice" % n)
                    ready.add(n)
                spawned.add(n)
                times = [e.get(k) for k in ("spawn_ns", "health_ns", "first_completion_ns", "t_ns")]
                times = [t for t in times if t is not None]
                if times != sorted(times):
                    self.bad("start %d: order of times" % n)
            elif e["ev"] in ("engine_exit", "engine_killed"):
                if n not in spawned or (e["ev"] == "engine_exit" and n in exited):
                    self.bad("start %d: exit or kill" % n)
                if e["ev"] == "engine_exit":
                    exited.add(n)

    def check_cells(self, run):
        cells = {c.id: c for c in run.cells}
        begun, ended, sound = set(), set(), set()
        for e in self.events:
            if e["ev"] not in ("cell_begin", "cell_end", "soundness"):
                continue
            cell = cells.get(e["cell"])
            if cell is None:
                self.bad("cell %s is not of the plan" % e["cell"])
            elif e["ev"] == "cell_begin":
                if cell.id in begun or e["planned"] != cell.requests:
                    self.bad("cell %s: begin" % cell.id)
                begun.add(cell.id)
            elif e["ev"] == "cell_end":
                if cell.id not in begun or e["scheduled"] != len(cell.rows) or cell.id in ended:
                    self.bad("cell %s: end" % cell.id)
                ended.add(cell.id)
            elif cell.id in sound:
                self.bad("cell %s: second soundness" % cell.id)
            else:
                sound.add(cell.id)
        if begun and not {"requests.jsonl", "tokens.bin"} <= set(self.files):
            self.bad("requests.jsonl or tokens.bin is not there")
        for cell in run.cells:
            if cell.rows and cell.id not in begun:
                self.bad("rows of cell %s that never began" % cell.id)

    def check_records(self, run):
        ids, end = {c.id for c in run.cells}, self.events[-1]["t_ns"] if self.of("run_end") else None
        at = 0
        for k, r in enumerate(self.records):
            if r["i"] != k or (r["kind"] in ("load", "warmup") and r["cell"] not in ids) or \
                    (r["tok_bytes"] and r["tok_off"] != at):
                self.bad("record %d: place" % k)
            at = r["tok_off"] + r["tok_bytes"] if r["tok_bytes"] else at
            if end is not None and r["end_ns"] is not None and r["end_ns"] > end:
                self.bad("record %d ends after the run" % k)
            if not self.record_is_sound(r):
                self.bad("record %d: does not fit together" % k)
        if at != len(self.tokens):
            self.bad("tokens.bin: length")

    def workload(self, r):
        name = r["cell"].split("/")[0]
        return next((w for w in self.plan["workloads"] if w["name"] == name), {})

    def streams(self, r):
        return r["kind"] not in ("load", "warmup") or self.workload(r).get("stream", True)

    def attempts_are_sound(self, r):
        more = self.workload(r).get("retry", {}).get("max", 0) if r["kind"] in ("load", "warmup") else 0
        if not 1 <= r["attempts"] <= 1 + more or (r["sent_ns"] is not None and r["first_sent_ns"] is None):
            return False
        return r["attempts"] > 1 or r["sent_ns"] == r["first_sent_ns"]

    def record_is_sound(self, r):
        times = [r[k] for k in ("due_ns", "first_sent_ns", "sent_ns", "first_byte_ns", "first_token_ns", "last_token_ns", "end_ns")]
        known = [t for t in times if t is not None]
        first, last, content, conn = (r[k] for k in ("first_token_ns", "last_token_ns", "first_content_ns", "conn_ns"))
        if known != sorted(known) or r["due_ns"] is None or r["end_ns"] is None:
            return False
        if not self.attempts_are_sound(r) or (r["conv"] is None) != (r["turn"] is None):
            return False
        if conn is not None and (r["sent_ns"] is None or conn < r["sent_ns"]):
            return False
        if content is not None and (first is None or last is None or not first <= content <= last):
            return False
        if r["tok_n"]:
            if None in (first, last, r["sent_ns"], r["first_byte_ns"]):
                return False
            deltas, whole = leb128(self.tokens[r["tok_off"]:r["tok_off"] + r["tok_bytes"]])
            if not whole or len(deltas) != r["tok_n"] or r["sent_ns"] + deltas[0] != first \
                    or r["sent_ns"] + sum(deltas) != last:
                return False
        elif first is not None or last is not None or r["tok_bytes"]:
            return False
        if r["outcome"] == "ok" and ((not r["tok_n"] and self.streams(r)) or r["http"] != 200):
            return False
        if (r["outcome"] == "empty" and r["tok_n"]) or (r["outcome"] == "http_status" and r["http"] == 200):
            return False
        return not any((r[k] or 0) > 10**9 for k in ("usage_prompt_tok", "usage_output_tok"))

    def check_answers(self, run):
        asked = [r for r in self.records if r["kind"] == "control"]
        if asked and "controls.jsonl" not in self.files:
            self.bad("controls.jsonl is not there")
        if len(asked) != len(self.answers) or [a["i"] for a in self.answers] != list(range(len(self.answers))):
            self.bad("controls.jsonl: count")
        by_i = {r["i"]: r for r in asked}
        ids = {c["id"] for c in self.plan.get("controls", [])}
        for a in self.answers:
            r = by_i.get(a["request"])
            if a["id"] not in ids or not r or (r["outcome"], r["start"]) != (a["outcome"], a["start"]) \
                    or (a["outcome"] == "ok" and a["text"] is None):
                self.bad("answer %d does not fit" % a["i"])
