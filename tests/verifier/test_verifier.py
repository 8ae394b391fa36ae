# SPDX-License-Identifier: Apache-2.0
"""Two verifiers that share no line of code reach the same verdict; neither lets a signed lie pass."""

import copy
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]

import bundle  # noqa: E402
import helper  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from helper import check  # noqa: E402
from trial import Trial  # noqa: E402


def second_opinion(t, name="out"):
    return subprocess.run([sys.executable, os.path.join(HERE, "verify.py"), t.path(name + ".proofmark"),
                           t.key + ".pub"], capture_output=True, text=True, timeout=120)


def agree(t, name="out", verdict=None):
    """Both verifiers call the bundle genuine, and with the same verdict."""
    first, second = t.verify(name=name), second_opinion(t, name)
    check(first.code == 0, "verify: %r" % first)
    check(second.returncode == 0, "second verifier: %s%s" % (second.stdout, second.stderr))
    stated = t.verdict(name)["verdict"]
    check(("verdict %s " % stated) in second.stdout, second.stdout)
    check(verdict in (None, stated), "want %s, got %s" % (verdict, stated))


def add_criteria(plan):
    """Every kind of metric and comparator that one cell can carry."""
    where = {"workload": "chat", "prompt_tok": 16, "concurrency": 2}
    for i, (metric, stat, cmp, value, unit) in enumerate([
            ("ttft", "p90", "<=", 2000, "ms"), ("ttft", "max", "<", 2, "s"), ("e2e", "mean", "<=", 5, "s"),
            ("tpot", "p50", "<=", 200, "ms"), ("itl", "p95", "<=", 900, "ms"), ("send_lag", "p90", "<=", 400, "ms"),
            ("e2e", "p50", ">=", 100, "ms"), ("ttft", "min", ">", 80, "ms"), ("output_tok_s", "value", ">=", 1, "tok/s"),
            ("request_s", "value", ">=", 0.1, "requests/s"), ("prefill_tok_s", "value", ">=", 1, "tok/s"),
            ("decode_tok_s", "value", ">=", 100000, "tok/s")]):
        plan["criteria"].append({"id": "more%d" % i, "sentence": "More %d" % i, "metric": metric, "where": where,
                                 "statistic": stat, "comparator": cmp, "limit": {"value": value, "unit": unit},
                                 "severity": "should" if metric == "decode_tok_s" else "must"})
    for i, (metric, stat, cmp, value, unit) in enumerate([
            ("completed_requests", "count", ">=", 40, "count"), ("engine_exits", "count", "==", 0, "count"),
            ("output_length_mismatch", "count", "<=", 0, "count"), ("engine_pss_peak", "max", "<=", 1, "GiB"),
            ("cold_start", "value", "<=", 20, "s"), ("second_cold_start", "value", "<=", 20, "s"),
            ("second_to_first_cold_start", "value", "<=", 50, "ratio"), ("restart", "value", "<=", 20, "s"),
            ("wall_power_mean", "mean", "<=", 100, "W")]):
        plan["criteria"].append({"id": "run%d" % i, "sentence": "Run %d" % i, "metric": metric, "statistic": stat,
                                 "comparator": cmp, "limit": {"value": value, "unit": unit}})
    plan["recovery"] = {"restart": {"limit_s": 20}, "second_cold_start": {"limit_s": 20}}


def test_every_metric_of_a_whole_run():
    def edit(plan):
        add_criteria(plan)
        plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "150", "--jitter-us", "30000"]
    with Trial(edit) as t:
        t.lock().run()
        agree(t)


def test_failed_requests_and_a_limit_that_is_not_met():
    def edit(plan):
        plan["waivers"] = [{"criterion": "failed", "reason": "known", "owner": "tests", "expires": "2200-01-01"}]
    with Trial(edit) as t:
        t.lock().faults("--fault http500:every=2 --fault cut:every=3")
        t.run()
        agree(t)


def test_damaged_answers_and_an_engine_that_dies():
    with Trial() as t:
        t.lock().faults("--fault corrupt-text:match=capital")
        t.run("damaged")
        agree(t, "damaged", "rejected")
        t.faults("--fault die:from=20")
        t.run("died")
        agree(t, "died", "rejected")


def test_open_loop_and_two_workloads():
    def edit(plan):
        more = copy.deepcopy(plan["workloads"][0])
        more.update(name="open", concurrency=[0], requests=60, critical=False, looks=2)
        more["class"] = "serving"
        more["arrival"] = {"kind": "poisson", "rate_rps": 50, "seed": 7}
        plan["workloads"].append(more)
        plan["criteria"].append({"id": "open", "sentence": "Open loop", "metric": "ttft",
                                 "where": {"workload": "open", "cells": "all"}, "statistic": "p50",
                                 "comparator": "<=", "limit": {"value": 2, "unit": "s"}})
    with Trial(edit) as t:
        t.lock().run()
        agree(t)


def workload(plan, name, **changes):
    """One more workload like the first; None takes a member away."""
    more = copy.deepcopy(plan["workloads"][0])
    more.update(name=name, critical=False, **changes)
    plan["workloads"].append({k: v for k, v in more.items() if v is not None})


def criterion(plan, metric, statistic, comparator, value, unit, **where):
    plan["criteria"].append({"id": "c%d" % len(plan["criteria"]), "sentence": metric, "metric": metric,
                             "where": where, "statistic": statistic, "comparator": comparator,
                             "limit": {"value": value, "unit": unit}})


def test_arrivals_of_every_kind():
    def edit(plan):
        kinds = {"constant": {"rates_rps": [40, 80]}, "gamma": {"rate_rps": 60, "burstiness": 0.5},
                 "ramp": {"rate_rps": 10, "rate_end_rps": 90}}
        for kind, more in kinds.items():
            limit = {"requests": 0, "duration_s": 1.5} if kind == "ramp" else {"requests": 70}
            workload(plan, kind, concurrency=[0], arrival={"kind": kind, "seed": 7, **more}, **limit)
            criterion(plan, "spacing_error", "p90", "<=", 900, "ms", workload=kind, cells="all")
            criterion(plan, "delivered_share", "value", ">=", 0.2, "share", workload=kind, cells="all")
    with Trial(edit) as t:
        t.lock().faults("--slots 64")
        t.run()
        agree(t)
        check(len(t.verdict()["cells"]) == 5, "cells")


def test_a_mix_conversations_that_break_and_answers_in_one_piece():
    def edit(plan):
        workload(plan, "mix", prompt_tok=None, output_tok=None, requests=60, concurrency=[1, 3],
                 mix=[{"name": "short", "weight": 2, "prompt_tok": 12, "output_tok": 4},
                      {"name": "long", "weight": 1, "prompt_tok": 40, "output_tok": 12}])
        workload(plan, "talk", requests=48, conversation={"turns": 4, "turn_prompt_tok": 8})
        workload(plan, "whole", stream=False)
        for name in ("mix", "talk"):
            criterion(plan, "ttft", "p50", "<=", 4, "s", workload=name, cells="all")
            criterion(plan, "itl", "p50", "<=", 4, "s", workload=name, cells="all")
            criterion(plan, "failed_share", "share", "<=", 50, "%", workload=name, cells="all")
        criterion(plan, "e2e", "p50", "<=", 4, "s", workload="whole")
    with Trial(edit) as t:
        t.lock().faults("--fault http500:every=11")
        t.run()
        agree(t)
        talk = next(c for c in t.verdict()["cells"] if c["workload"] == "talk")
        check(talk["n_unasked"] > 0 and len(talk["turns"]) == 4, talk["n_unasked"])


def test_canaries_retries_and_engine_metrics():
    def edit(plan):
        workload(plan, "canary", prompt_tok=[96], output_tok=32, requests=60, canary_share=0.4, api="completions")
        workload(plan, "again", retry={"max": 2, "on": ["status"], "backoff_s": 0.01})
        plan["candidates"][0]["engine"]["args"] += ["--metrics"]
        for metric, value in (("canary_failed_share", 1), ("suspicious_answer_share", 1), ("retried_share", 1)):
            criterion(plan, metric, "share", "<=", value, "share", workload="canary" if "re" not in metric[:2] else "again",
                      cells="all")
        criterion(plan, "prefix_cache_hit_share", "share", ">=", 0, "share", workload="canary", cells="all")
        plan["criteria"].append({"id": "nonces", "sentence": "No secret of another request", "metric": "foreign_nonces",
                                 "statistic": "count", "comparator": "<=", "limit": {"value": 0, "unit": "count"}})
    with Trial(edit) as t:
        t.lock().faults("--fault http503:every=9")
        t.run()
        agree(t)
        cells = {c["workload"]: c for c in t.verdict()["cells"]}
        check(cells["canary"]["canaries"]["n"] > 5, cells["canary"]["canaries"])
        check(cells["canary"]["prefix_cache_source"] == "engine metrics", cells["canary"]["prefix_cache_source"])
        check(cells["again"]["n_retries"] > 0, "retries")
        t.faults("--fault nonce-leak:every=5")
        t.run("leak")
        agree(t, "leak", "rejected")
        check(t.verdict("leak")["security"]["foreign_nonces"] > 0, t.verdict("leak")["security"])


def test_a_trace():
    def edit(plan):
        workload(plan, "trace", prompt_tok=None, output_tok=None, requests=None, concurrency=None,
                 arrival={"kind": "trace", "trace": "trace.jsonl", "speed": 2})
        criterion(plan, "ttft", "p50", "<=", 4, "s", workload="trace", cells="all")
    with Trial(edit) as t:
        t.write("trace.jsonl", b"".join(b'{"timestamp_ms": %d, "input_length": %d, "output_length": %d}\n' %
                                        (i * 40, 10 + i % 5, 3 + i % 3) for i in range(40)))
        t.lock().run()
        agree(t)


def test_lists_in_any_order_and_all_cells_of_a_workload():
    def edit(plan):
        plan["workloads"][0].update(prompt_tok=[64, 16], concurrency=[3, 1], requests=40, other_requests=30)
        for c in plan["criteria"]:
            c.pop("where", None)
        for i, (metric, stat, cmp, value, unit) in enumerate([
                ("ttft", "p50", ">=", 1, "ms"), ("failed_share", "share", ">=", 30, "%"), ("itl", "p90", "<", 1, "s"),
                ("request_s", "value", ">", 1, "requests/min"), ("ttft", "p90", "<=", 8.123456, "ms")]):
            plan["criteria"].append({"id": "all%d" % i, "sentence": "All %d" % i, "metric": metric,
                                     "where": {"workload": "chat", "cells": "all"}, "statistic": stat,
                                     "comparator": cmp, "limit": {"value": value, "unit": unit}})
    with Trial(edit) as t:
        t.lock().faults("--fault http500:every=9")
        t.run()
        agree(t)


def test_a_client_that_was_late_an_engine_that_never_starts_and_an_interrupt():
    def late(plan):
        add_criteria(plan)
        plan["instrument"] = {"max_send_lag_ms": 0.0001}
    with Trial(late) as t:
        helper.run(*t.lock().run_args())
        agree(t, verdict="invalid")

    def slow(plan):
        add_criteria(plan)
        plan["workloads"][0]["requests"] = 4000
        plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "50"]
    with Trial(slow) as t:
        p = helper.start(*t.lock().run_args())
        end = time.monotonic() + 30
        while not (os.path.exists(t.path("out", "events.jsonl")) and any(e["ev"] == "cell_begin" for e in t.events())):
            check(time.monotonic() < end, "no load")
            time.sleep(0.05)
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        helper.finish(p)
        agree(t, verdict="interrupted")
        t.faults("--fault load-fail")
        t.run("never")
        agree(t, "never", "error")


def load_bundle(t):
    with open(t.path("out.proofmark"), "rb") as f, open(t.key + ".pub", "rb") as k:
        return bundle.read(f.read(), k.read())


def write_bundle(t, files, statement):
    with open(t.key, "rb") as f:
        key = serialization.load_pem_private_key(f.read(), None)
    t.write("out.proofmark", bundle.write(files, statement, key))


def test_a_bundle_that_the_second_program_wrote_is_genuine():
    with Trial() as t:
        t.lock().run()
        statement, files = load_bundle(t)
        write_bundle(t, files, statement)
        agree(t)


def test_a_wrong_verdict_under_a_valid_signature_is_refused_by_both():
    with Trial() as t:
        t.lock().faults("--fault http500:every=2")
        t.run()
        check(t.verdict()["verdict"] == "rejected", t.verdict()["verdict"])
        statement, files = load_bundle(t)
        lie = json.loads(files["verdict.json"])
        lie["verdict"] = statement["predicate"]["verdict"] = "accepted"
        lie["criteria"][1]["state"] = "pass"
        files["verdict.json"] = (json.dumps(lie, indent=1) + "\n").encode()
        write_bundle(t, files, statement)
        first, second = t.verify(), second_opinion(t)
        check(first.code == 1 and "verdict.json" in first.err, "verify: %r" % first)
        check(second.returncode == 1 and "differs: verdict" in second.stdout, second.stdout)


def test_each_wrong_figure_under_a_valid_signature_is_refused_by_both():
    """A counter, a probability, a bound, a quantile and a peak, each by itself."""
    with Trial(add_criteria) as t:
        t.lock().run()
        statement, files = load_bundle(t)
        true = json.loads(files["verdict.json"])
        for path, wrong in ((("criteria", 3, "n"), lambda x: x + 1), (("criteria", 3, "p_pass"), lambda x: x * 1.0001),
                            (("criteria", 3, "bound", "value"), lambda x: x * 1.0001),
                            (("cells", 0, "itl", "p90_ns"), lambda x: x + 1), (("exit_code",), lambda x: 0),
                            (("memory", 0, "peak_bytes"), lambda x: (x or 0) + 4096),
                            (("starts", 0, "spawn_ns"), lambda x: x - 1), (("run", "attempt"), lambda x: x + 1)):
            lie = copy.deepcopy(true)
            at = lie
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = wrong(at[path[-1]])
            write_bundle(t, {**files, "verdict.json": (json.dumps(lie, indent=1) + "\n").encode()}, statement)
            first, second = t.verify(), second_opinion(t)
            check(first.code == 1, "%s: verify: %r" % (path, first))
            check(second.returncode == 1 and "differs: " in second.stdout, "%s: %r" % (path, second.stdout))


def test_wrong_rows_under_a_valid_signature_are_recomputed():
    """Who signs can lie about what happened; the verdict still has to be the one that the rows give."""
    with Trial() as t:
        t.lock().run()
        path = t.path("out", "requests.jsonl")
        with open(path, encoding="utf-8") as f:
            rows = f.read().replace('"http":200,"outcome":"ok","finish":"length"',
                                    '"http":200,"outcome":"truncated","finish":"length"')
        t.write(os.path.join("out", "requests.jsonl"), rows.encode())
        r = helper.run("seal", t.path("out"), "--key", t.key)
        check(r.code == 0, "seal: %r" % r)
        check(t.verdict()["verdict"] == "rejected", t.verdict()["verdict"])
        agree(t)


helper.main(globals())
