# SPDX-License-Identifier: Apache-2.0
"""What was planned against what the rows, texts and pages say: part of RECOMPUTING: COMPLETENESS."""

import schedule


def check(ev, run):
    blocks = check_schedule(ev, run)
    check_rows(ev, run, blocks)
    check_texts(ev, run, blocks)
    check_pages(ev, run)
    check_calibrations(ev, run)


def blocks_of(ev, run):
    """{(cell id, kind): lines} in the order of the file"""
    out, last = {}, None
    ids = {c.id for c in run.cells}
    for line in ev.planned:
        key = line["cell"], line["kind"]
        if line["cell"] not in ids or line["kind"] not in ("load", "warmup"):
            ev.bad("schedule.jsonl: a line of %s %s" % key)
            continue
        if key != last and key in out:
            ev.bad("schedule.jsonl: %s %s stands twice" % key)
        if key != last and key[1] == "warmup" and (key[0], "load") in out:
            ev.bad("schedule.jsonl: warmup behind load of " + key[0])
        out.setdefault(key, []).append(line)
        last = key
    return out


def trace_is_sound(kind, lines):
    due = [x["due_ns"] for x in lines]
    if kind == "warmup":
        ok = not any(d is not None for d in due)
    else:
        ok = None not in due and due == sorted(due)
    return ok and all(x["prompt_tok"] is not None and x["output_tok"] is not None and x["conv"] is None
                      and x["turn"] is None and x["part"] is None for x in lines)


def check_schedule(ev, run):
    if ev.of("cell_begin") and "schedule.jsonl" not in ev.files:
        ev.bad("schedule.jsonl is not there")
    cells, blocks = {c.id: c for c in run.cells}, blocks_of(ev, run)
    for (name, kind), lines in blocks.items():
        cell = cells[name]
        if [x["k"] for x in lines] != list(range(len(lines))):
            ev.bad("schedule.jsonl: k of %s %s" % (name, kind))
        if cell.kind == "trace":
            if not trace_is_sound(kind, lines):
                ev.bad("schedule.jsonl: trace of %s %s" % (name, kind))
            continue
        made = cell.schedule(kind)
        if made.count is not None and made.count != len(lines):
            ev.bad("schedule.jsonl: %s %s has %d lines, want %d" % (name, kind, len(lines), made.count))
        limit = len(lines) if made.count is None else min(made.count, len(lines))
        if any(made.line(k) != lines[k]["raw"] for k in range(limit)):
            ev.bad("schedule.jsonl: %s %s is not that of the plan" % (name, kind))
    return blocks


def check_rows(ev, run, blocks):
    seen, start = set(), {e["cell"]: e["start_ns"] for e in reversed(ev.of("soundness"))}
    for r in ev.records:
        key = r["cell"], r["kind"]
        if r["kind"] not in ("load", "warmup"):
            continue
        lines = blocks.get(key, [])
        if r["k"] >= len(lines) or (key, r["k"]) in seen:
            ev.bad("record %d: k" % r["i"])
            continue
        seen.add((key, r["k"]))
        line = lines[r["k"]]
        same = all(r[k] == line[k] for k in ("conv", "turn", "part")) and r["want_output_tok"] == line["output_tok"]
        if line["prompt_tok"] is not None and not line["canary"]:
            same = same and r["prompt_tok"] == line["prompt_tok"]
        if r["kind"] == "load" and line["due_ns"] is not None:
            zero = start.get(r["cell"])
            same = same and zero is not None and r["due_ns"] == zero + line["due_ns"]
        if not same:
            ev.bad("record %d is not as planned" % r["i"])


def check_texts(ev, run, blocks):
    cells, needed = {c.id: c for c in run.cells}, {}
    canaries = {(name, x["k"]) for (name, kind), lines in blocks.items() if kind == "load" for x in lines if x["canary"]}
    loads = {r["i"]: r for r in ev.records if r["kind"] == "load"}
    for i, r in loads.items():
        cell = cells.get(r["cell"])
        counted = cell is not None and cell.wl.get("text_counters", True) and r["text_chars"] > 0
        if r["outcome"] == "ok" and (counted or (r["cell"], r["k"]) in canaries):
            needed[i] = counted
    if needed and "answers.jsonl" not in ev.files:
        ev.bad("answers.jsonl is not there")
    if needed.keys() - {a["i"] for a in ev.texts}:
        ev.bad("answers.jsonl: lines are missing")
    last = -1
    for a in ev.texts:
        r, canary = loads.get(a["i"]), (a["cell"], a["k"]) in canaries
        want = (None, None)
        if canary:
            seed = cells[a["cell"]].wl.get("arrival", {}).get("seed", 1)
            want = schedule.nonce(a["cell"], a["k"], seed), schedule.ANSWERS[a["k"] % 16]
        shares = [a[k] for k in ("zlib_share", "rep4_share", "foreign_share") if a[k] is not None]
        if a["i"] <= last or not r or (r["cell"], r["k"]) != (a["cell"], a["k"]) or (a["nonce"], a["expected"]) != want \
                or (canary and a["text"] is None) or (needed.get(a["i"]) and a["chars"] is None) \
                or any(s < 0 for s in shares):
            ev.bad("answers.jsonl: line of record %d" % a["i"])
        last = max(last, a["i"])


def check_pages(ev, run):
    ids, seen = {c.id for c in run.cells}, set()
    for p in ev.pages:
        key = p["cell"], p["when"]
        if p["cell"] not in ids or p["when"] not in ("before", "after") or key in seen or \
                (p["page"] is not None) != (p["status"] == 200):
            ev.bad("engine_metrics.jsonl: %s %s" % key)
        seen.add(key)


def check_calibrations(ev, run):
    loads, seen = {c.id.split("/")[-1] for c in run.cells}, set()
    for e in ev.of("calibration"):
        key = e["load"], e["when"]
        if e["load"] not in loads or e["when"] not in ("before", "after") or key in seen:
            ev.bad("calibration %s %s" % key)
        seen.add(key)
