#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a plan can ask of the load, each in a small run on the scripted engine: what is on disk afterwards is what
the plan says, and a stranger recomputes it."""

import collections
import hashlib
import json
import os
import re
import signal
import subprocess
import time

import helper
from helper import check
from trial import ENGINE, Trial

NONCE = re.compile("PMK[A-Z2-7]{13}")


def short(edit=None):
    """Calibrations of a fifth of a second; criteria that name no length or load: the critical cell is theirs."""
    def change(plan):
        plan["instrument"]["calibration_s"] = 0.2
        plan["instrument"].update(max_ttft_error_ms=1000, max_itl_error_ms=1000, max_runq_wait_pct=100,
                                  min_delivered_share=0.1)
        for criterion in plan["criteria"]:
            for key in ("prompt_tok", "concurrency"):
                criterion.get("where", {}).pop(key, None)
        if edit:
            edit(plan, plan["workloads"][0])
    return change


def open_loop(workload, **arrival):
    workload.pop("concurrency")
    workload["arrival"] = arrival


def rows(t, name):
    with open(t.path("out", name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def finished(t, *codes):
    """Runs, verifies, and gives the rows by kind. A scripted engine is never accepted: 3, or what a test allows."""
    r = t.lock().run()
    check(r.code in (codes or (3,)), "run: %r" % r)
    v = t.verify()
    check(v.code == 0 and "genuine" in v.out and "agree with verdict.json" in v.out, "verify: %r" % v)
    by_kind = collections.defaultdict(list)
    for row in rows(t, "requests.jsonl"):
        by_kind[row["kind"]].append(row)
    check_files(t, by_kind)
    return by_kind


def check_files(t, by_kind):
    """Each request sent is planned and has its body's hash; each cell has two calibrations and two pages."""
    planned = {(s["cell"], s["kind"], s["k"]): s for s in rows(t, "schedule.jsonl")}
    sent = [(r["cell"], r["kind"], r["k"]) for kind in ("warmup", "load") for r in by_kind[kind]]
    check(len(sent) == len(set(sent)) and set(sent) <= set(planned), "sent, but not planned, or twice")
    for key, row in zip(sent, by_kind["warmup"] + by_kind["load"]):
        for name in ("conv", "turn", "part"):
            check(row[name] == planned[key][name], "%s differs: %r %r" % (name, row, planned[key]))
        check(row["want_output_tok"] == planned[key]["output_tok"], "another output length: %r" % row)
    prompts = [(p["cell"], p["kind"], p["k"]) for p in rows(t, "prompts.jsonl")]
    check(sorted(prompts) == sorted(sent), "bodies listed: %d, sent: %d" % (len(prompts), len(sent)))
    check(len({p["body_sha256"] for p in rows(t, "prompts.jsonl")}) == len(prompts), "two bodies are the same")
    cells = {r["cell"] for r in by_kind["load"]}
    calibrations = [(e["load"], e["when"]) for e in t.events() if e["ev"] == "calibration"]
    for load in {cell.rsplit("/", 1)[1] for cell in cells}:
        check(calibrations.count((load, "before")) == calibrations.count((load, "after")) == 1,
              "calibrations of %s: %r" % (load, calibrations))
    pages = sorted((m["cell"], m["when"]) for m in rows(t, "engine_metrics.jsonl"))
    check(pages == sorted((c, w) for c in cells for w in ("before", "after")), "pages: %r" % pages)


def exact(by_kind):
    """The server's own count is the planned one."""
    for row in by_kind["load"]:
        if row["turn"] in (None, 0) and row["outcome"] == "ok":
            check(row["usage_prompt_tok"] == row["prompt_tok"], "prompt length: %r" % row)


def test_a_mix_draws_its_parts_and_each_has_its_length():
    def edit(plan, w):
        del w["prompt_tok"], w["output_tok"]
        w["mix"] = [{"name": "short", "weight": 3, "prompt_tok": 24, "output_tok": 4},
                    {"name": "long", "weight": 1, "prompt_tok": 700, "output_tok": 9}]
    with Trial(short(edit)) as t:
        load = finished(t)
        exact(load)
        parts = collections.Counter((r["part"], r["prompt_tok"], r["usage_output_tok"]) for r in load["load"])
        check(set(parts) == {(0, 24, 4), (1, 700, 9)} and sum(parts.values()) == 40, "parts: %r" % parts)


def test_conversations_carry_their_history():
    def edit(plan, w):
        w.update(conversation={"turns": 3, "turn_prompt_tok": 10, "think_s": 0.01}, requests=30)
    with Trial(short(edit)) as t:
        load = finished(t)
        exact(load)
        by_conv = collections.defaultdict(list)
        for r in load["load"]:
            by_conv[r["conv"]].append(r)
        check(sorted(by_conv) == list(range(10)), "conversations: %r" % sorted(by_conv))
        for turns in by_conv.values():
            turns.sort(key=lambda r: r["turn"])
            check([r["turn"] for r in turns] == [0, 1, 2], "turns: %r" % turns)
            for before, after in zip(turns, turns[1:]):
                more = after["usage_prompt_tok"] - before["usage_prompt_tok"]
                check(more >= 10 + before["usage_output_tok"], "the history is not carried: %d more" % more)
                check(after["due_ns"] - before["end_ns"] >= 10e6, "no pause to think")


def test_a_failed_turn_ends_its_conversation():
    def edit(plan, w):
        w.update(conversation={"turns": 4}, requests=40)
    with Trial(short(edit)) as t:
        t.faults("--fault cut:every=9:tok=2")
        load = finished(t, 1, 3)
        for r in load["load"]:
            later = [x for x in load["load"] if x["conv"] == r["conv"] and x["turn"] > r["turn"]]
            check(not later or r["outcome"] == "ok", "it went on behind a failure")
        check(any(r["outcome"] != "ok" for r in load["load"]), "nothing failed")


def test_a_trace_is_replayed_row_by_row():
    trace = [(0, 1100, 4, [7, 8, 9]), (50, 1200, 5, [7, 8, 10]), (120, 30, 6, [11]), (400, 512, 7, [7])]
    text = "".join(json.dumps({"timestamp": ms, "input_length": n, "output_length": m, "hash_ids": ids}) + "\n"
                   for ms, n, m, ids in trace)

    def edit(plan, w):
        for key in ("prompt_tok", "output_tok", "requests"):
            del w[key]
        open_loop(w, kind="trace", trace="rows.jsonl", speed=2)
        plan["candidates"][0]["engine"]["args"] += ["-c", "32768", "--metrics"]
    with Trial(short(edit)) as t:
        t.write("rows.jsonl", text.encode())
        load = finished(t)
        exact(load)
        start_ns = [e["start_ns"] for e in t.events() if e["ev"] == "soundness"][0]
        got = sorted((r["due_ns"] - start_ns, r["prompt_tok"], r["usage_output_tok"]) for r in load["load"])
        check(got == [(ms * 500000, n, m) for ms, n, m, _ in trace], "rows: %r" % got)
        locked = [f for f in helper.load_json(t.path("out", "plan.lock.json"))["files"] if f["role"] == "corpus"]
        check([f["sha256"] for f in locked] == [hashlib.sha256(text.encode()).hexdigest()], "lock: %r" % locked)
        check(all(m["status"] == 200 and "prompt_tokens_total" in m["page"] for m in rows(t, "engine_metrics.jsonl")),
              "no page of metrics")
        t.write("rows.jsonl", text.replace("1100", "1101").encode())
        r = t.run("again")
        check(r.code == 5 and "rows.jsonl" in r.err, "another trace was taken: %r" % r)


def test_open_loops_keep_to_their_schedule():
    def edit(plan, w):
        open_loop(w, kind="gamma", rates_rps=[60, 120], burstiness=0.5)
        ramp = json.loads(json.dumps(w))
        ramp.update(name="ramp", critical=False, duration_s=1,
                    arrival={"kind": "ramp", "rate_rps": 10, "rate_end_rps": 100})
        del ramp["requests"]
        plan["workloads"].append(ramp)
    with Trial(short(edit)) as t:
        load = finished(t)
        due = {(s["cell"], s["k"]): s["due_ns"] for s in rows(t, "schedule.jsonl") if s["kind"] == "load"}
        starts = {e["cell"]: e["start_ns"] for e in t.events() if e["ev"] == "soundness"}
        check(len(starts) == 3 and len(load["load"]) == len(due), "cells: %r" % starts)
        for r in load["load"]:
            check(r["due_ns"] == starts[r["cell"]] + due[r["cell"], r["k"]], "not when it was due: %r" % r)


def test_a_sweep_stops_behind_the_cell_that_brings_no_more():
    """Two slots: three streams bring as much as two, so the cell behind three is left out."""
    def edit(plan, w):
        w.update(concurrency=[1, 2, 4, 8], requests=24, critical_concurrency=1)
        w["arrival"]["stop_when_saturated"] = True
        plan["candidates"][0]["engine"]["args"] += ["-np", "2", "--ttft-ms", "10", "--itl-us", "2000"]
    with Trial(short(edit)) as t:
        load = finished(t)
        cells = {r["cell"].rsplit("/", 1)[1] for r in load["load"]}
        left = [(e["what"], e["reason"]) for e in t.events() if e["ev"] == "not_tested"]
        check({"c1", "c2"} <= cells and "c8" not in cells, "cells: %r" % cells)
        check(any(w.endswith("/c8") and "over-saturated at chat/16in/8out/c4: " in why for w, why in left),
              "not tested: %r" % left)


def test_a_sweep_of_rates_stops_behind_the_over_saturated_one():
    """One slot of 20 ms serves 50 a second."""
    def edit(plan, w):
        open_loop(w, kind="poisson", rates_rps=[20, 200, 400], stop_when_saturated=True)
        w.update(requests=150, other_requests=150, critical_rate_rps=20)
        plan["candidates"][0]["engine"]["args"] += ["-np", "1", "--ttft-ms", "13", "--itl-us", "1000"]
    with Trial(short(edit)) as t:
        load = finished(t)
        cells = {r["cell"].rsplit("/", 1)[1] for r in load["load"]}
        left = [(e["what"], e["reason"]) for e in t.events() if e["ev"] == "not_tested"]
        check(cells == {"poisson20", "poisson200"}, "cells: %r" % cells)
        check(any(w.endswith("/poisson400") and "over-saturated at chat/16in/8out/poisson200: " in why
                  for w, why in left), "not tested: %r" % left)


def test_retries_are_recorded_as_such():
    def edit(plan, w):
        w["retry"] = {"max": 2, "on": ["status"], "backoff_s": 0.02}
    with Trial(short(edit)) as t:
        t.faults("--fault http503:every=4:from=3")
        load = finished(t, 1, 3)
        again = [r for r in load["load"] if r["attempts"] > 1]
        told = sum(e["retries"] for e in t.events() if e["ev"] == "soundness")
        check(again and told == sum(r["attempts"] - 1 for r in load["load"]), "retries: %d told" % told)
        for r in again:
            check(r["sent_ns"] - r["first_sent_ns"] >= 20e6, "no pause before a retry: %r" % r)


def test_whole_answers_are_read_whole():
    def edit(plan, w):
        w["stream"] = False
        plan["criteria"][0].update(id="e2e", metric="e2e", sentence="Half of the answers are there within 2 seconds")
    with Trial(short(edit)) as t:
        load = finished(t)
        for r in load["load"]:
            check(r["outcome"] == "ok" and r["first_token_ns"] is None, "a whole answer has a first token: %r" % r)
            check(r["usage_output_tok"] == 8, "output: %r" % r)


def canaries(plan, w):
    w.update(canary_share=0.5, prompt_tok=[96], output_tok=32, requests=40, text_counters=False)


def test_canaries_repeat_their_nonce():
    with Trial(short(canaries)) as t:
        load = finished(t)
        exact(load)
        planned = {s["k"] for s in rows(t, "schedule.jsonl") if s["kind"] == "load" and s["canary"]}
        answers = rows(t, "answers.jsonl")
        check(planned and {a["k"] for a in answers} == planned, "answers: %r of %r" % (len(answers), planned))
        for a in answers:
            seed = "proofmark nonce 1\n%s\nload\n%d\n1" % (a["cell"], a["k"])
            digest = int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big") >> (256 - 65)
            letters = "".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[digest >> 5 * i & 31] for i in reversed(range(13)))
            check(a["nonce"] == "PMK" + letters and a["nonce"] in a["text"], "nonce: %r" % a)
            check(a["chars"] is None and a["zlib_share"] is None, "counters that were not asked for: %r" % a)


def test_a_nonce_of_another_request_rejects_the_run():
    with Trial(short(canaries)) as t:
        t.faults("--fault nonce-leak:every=5:from=3")
        finished(t, 1)
        check("security: " in json.dumps(t.verdict()), "the leak is not called one")
        mine = {a["nonce"] for a in rows(t, "answers.jsonl")}
        leaked = [a for a in rows(t, "answers.jsonl")
                  if a["text"] and set(NONCE.findall(a["text"])) & (mine - {a["nonce"]})]
        check(leaked, "no answer holds another's nonce")


def test_texts_of_answers_are_counted():
    with Trial(short()) as t:
        load = finished(t)
        answers = rows(t, "answers.jsonl")
        check([a["i"] for a in answers] == [r["i"] for r in load["load"]], "not a line for each answer")
        for a, r in zip(answers, load["load"]):
            check(a["chars"] == r["text_chars"] and a["text"] is None and a["foreign_share"] == 0, "%r" % a)
        check(all(a["zlib_share"] > 0 and a["special"] == 0 for a in answers), "counters: %r" % answers[:3])


def test_several_threads_send_the_same_requests():
    hashes = []
    for threads in (2, 1):
        def change(plan, w, threads=threads):
            w.update(concurrency=[6], requests=90)
            plan["instrument"]["client_threads"] = threads
            plan["candidates"][0]["engine"]["args"] += ["--alias", "tiny"]
        with Trial(short(change)) as t:
            load = finished(t)
            check(sorted(r["k"] for r in load["load"]) == list(range(90)), "not each once")
            check([e["threads"] for e in t.events() if e["ev"] == "soundness"] == [threads], "threads")
            hashes.append({(p["kind"], p["k"]): p["body_sha256"] for p in rows(t, "prompts.jsonl")})
    check(hashes[0] == hashes[1], "other bodies")


def test_a_closed_loop_by_time_writes_what_it_made():
    def edit(plan, w):
        del w["requests"]
        w["duration_s"] = 0.6
    with Trial(short(edit)) as t:
        load = finished(t)
        made = [s["k"] for s in rows(t, "schedule.jsonl") if s["kind"] == "load"]
        check(made == list(range(len(made))) and len(made) >= len(load["load"]) > 10, "made: %d" % len(made))


class Server:
    """A scripted engine that is not ours to start, on a socket file."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.process = subprocess.Popen([ENGINE, "--unix", self.path, "--ttft-ms", "5", "--itl-us", "500", "--metrics"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while not os.path.exists(self.path) and time.monotonic() < end:
            time.sleep(0.01)
        check(os.path.exists(self.path), "the engine has no socket")
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()


def attached(api):
    def edit(plan, w):
        c = plan["candidates"][0]
        c["engine"] = {"kind": "attach", "launch": {"attach": {"url": "unix://" + plan["x-socket"]}}}
        del plan["x-socket"]
        w.update(api=api, requests=20)
    return edit


def test_every_api_is_driven_over_a_socket_file():
    for api in ("chat", "completions", "llamacpp", "tgi", "ollama", "sglang", "triton"):
        with helper.Folder() as folder, Server(os.path.join(folder, "s")) as server:
            def change(plan, w, api=api, path=server.path):
                plan["x-socket"] = path
                attached(api)(plan, w)
                w["force_output"] = False
            with Trial(short(change)) as t:
                load = finished(t, 1, 3)
                bad = [r for r in load["load"] if r["outcome"] != "ok"]
                check(len(load["load"]) == 20 and not bad, "%s: %r" % (api, bad[:2]))
                for r in load["load"]:
                    check(r["usage_prompt_tok"] in (None, r["prompt_tok"]), "%s: prompt length %r" % (api, r))


def test_a_client_that_is_stopped_again_and_again_is_no_measurement():
    def edit(plan, workload):
        plan["instrument"].update(max_loop_lag_ms=60, calibration_s=0)
        workload.update(requests=240, output_tok=12)
        plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "15", "--itl-us", "1000"]
    with Trial(short(edit)) as t:
        p = helper.start(*t.lock().run_args())
        end = time.monotonic() + 30
        while not (os.path.exists(t.path("out", "events.jsonl")) and any(e["ev"] == "cell_begin" for e in t.events())):
            check(time.monotonic() < end, "no load")
            time.sleep(0.02)
        while p.poll() is None and time.monotonic() < end and not any(e["ev"] == "cell_end" for e in t.events()):
            p.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            p.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        r = helper.finish(p)
        check(r.code == 4, "want exit 4: %r" % r)
        verdict = t.verdict()
        cell = verdict["cells"][0]
        check(verdict["verdict"] == "invalid" and not cell["valid"], verdict["verdict"])
        check("lag" in cell["invalid_reason"], cell["invalid_reason"])
        check(all(c["state"] == "invalid" for c in verdict["criteria"] if c["metric"] == "ttft"), "ttft was judged")


if __name__ == "__main__":
    helper.main(globals())
