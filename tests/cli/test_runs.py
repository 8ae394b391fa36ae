#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole trials against the scripted engine: each way of going wrong gives its verdict and its exit code."""

import glob
import json
import os
import re
import signal
import subprocess
import time

import helper
from helper import check, expect_error, run, start, finish
import trial
from trial import Trial


def states(verdict):
    return {c["id"]: c["state"] for c in verdict["criteria"]}


def expect_run(t, r, code, verdict, name="out"):
    check(r.code == code, "want exit %d: %r" % (code, r))
    got = t.verdict(name)["verdict"]
    check(got == verdict, "want verdict %s, got %s: %r" % (verdict, got, r))
    check(t.nothing_left_running(), "the engine is still there")
    again = t.report(name)
    check(again.code == code, "report says %r" % again)
    v = t.verify(name=name)
    check(v.code == 0, "verify: %r" % v)


def wait_for(what, condition, timeout_s=30):
    end = time.monotonic() + timeout_s
    while not condition():
        check(time.monotonic() < end, "timed out: " + what)
        time.sleep(0.02)


def in_load(t, name="out"):
    """True once requests of the load are recorded or under way."""
    try:
        return any(e.get("ev") == "cell_begin" for e in t.events(name))
    except OSError:
        return False


def slow_load(plan):
    plan["workloads"][0]["requests"] = 4000
    plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "50"]


def test_a_sound_run_on_the_scripted_engine_passes_but_is_never_accepted():
    with Trial() as t:
        r = t.lock().run()
        expect_run(t, r, 3, "inconclusive")
        check(set(states(t.verdict()).values()) == {"pass"}, states(t.verdict()))
        check("scripted engine" in json.dumps(t.verdict()), "the label is missing")
        check(t.verify("--require", "accepted").code == 3, "--require accepted")
        for name in ("report.html", "junit.xml", "summary.txt", "requests.jsonl", "tokens.bin", "plan.lock.json"):
            check(os.path.getsize(t.path("out", name)) > 0, name)


def test_json_result_is_one_object_on_stdout():
    with Trial() as t:
        r = t.lock().run(args=["--json"])
        o = json.loads(r.out)
        check(r.code == 3 and o["verdict"] == "inconclusive", repr(r))
        check(o["bundle"] == t.path("out.proofmark") and o["run_dir"] == t.path("out"), repr(o))
        check([c["id"] for c in o["criteria"]] == ["ttft", "failed", "controls"], repr(o))
        for c in o["criteria"]:
            check({"id", "state", "value", "unit", "n", "limit"} <= set(c), repr(c))


def test_report_and_show_give_the_same_bytes_as_the_run():
    with Trial() as t:
        t.lock().run()
        before = {}
        for name in ("verdict.json", "report.html", "junit.xml", "summary.txt"):
            with open(t.path("out", name), "rb") as f:
                before[name] = f.read()
            os.unlink(t.path("out", name))
        shown = run("show", t.path("out"))
        check(shown.code == 0 and shown.out.encode() == before["summary.txt"], repr(shown))
        check(not os.path.exists(t.path("out", "verdict.json")), "show wrote something")
        check(t.report().code == 3, "report")
        for name, data in before.items():
            with open(t.path("out", name), "rb") as f:
                check(f.read() == data, name + " differs")


def test_a_limit_that_is_not_met_rejects():
    def edit(plan):
        plan["workloads"][0]["requests"] = 20
        plan["criteria"][0]["limit"] = {"value": 600, "unit": "ms"}
        plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "700", "--jitter-us", "60000"]
    with Trial(edit) as t:
        expect_run(t, t.lock().run(), 1, "rejected")
        check(states(t.verdict())["ttft"] == "fail", states(t.verdict()))


def test_a_figure_too_near_its_limit_is_inconclusive():
    def edit(plan):
        plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "100", "--jitter-us", "800000"]
        plan["criteria"][0]["limit"] = {"value": 570, "unit": "ms"}
    with Trial(edit) as t:
        expect_run(t, t.lock().run(), 3, "inconclusive")
        check(states(t.verdict())["ttft"] == "inconclusive", states(t.verdict()))


def test_too_few_requests_for_a_quantile_are_refused_with_the_number_needed():
    def edit(plan):
        plan["workloads"][0]["requests"] = 20
        plan["criteria"][0]["statistic"] = "p90"
    with Trial(edit) as t:
        r = run("check", t.path("plan.json"))
        check(r.code == 2 and "29" in r.out + r.err, repr(r))


def test_a_corrupted_control_answer_rejects():
    with Trial() as t:
        t.lock().faults("--fault corrupt-text:match=capital")
        expect_run(t, t.run(), 1, "rejected")
        check(states(t.verdict())["controls"] == "fail", states(t.verdict()))


def test_an_engine_that_dies_under_load_is_a_finding():
    with Trial() as t:
        t.lock().faults("--fault kill9:at=20")
        expect_run(t, t.run(), 1, "rejected")


def test_an_engine_that_never_starts_is_an_error_of_the_run():
    for fault in ("load-fail", "sigill", "oom-exit", "never-ready"):
        def edit(plan):
            plan["candidates"][0]["engine"]["ready_deadline_s"] = 2
        with Trial(edit) as t:
            t.lock().faults("--fault " + fault)
            expect_run(t, t.run(), 5, "error")
            check("pass" not in states(t.verdict()).values(), states(t.verdict()))


def test_failed_requests_count_against_the_candidate():
    with Trial() as t:
        t.lock().faults("--fault http500:every=2")
        expect_run(t, t.run(), 1, "rejected")
        check(states(t.verdict())["failed"] == "fail", states(t.verdict()))


def test_a_plan_error_is_told_with_its_place_and_runs_nothing():
    def edit(plan):
        plan["workloads"][0]["requests"] = -3
        plan["workloads"][0]["clas"] = "batch"
    with Trial(edit) as t:
        for args in (["check", t.path("plan.json")], ["lock", t.path("plan.json")], t.run_args()):
            r = run(*args)
            check(r.code == 2, "%s: %r" % (args[0], r))
            check("/workloads/0/requests" in r.out + r.err and "class" in r.out + r.err, "%s: %r" % (args[0], r))
        check(not os.path.exists(t.path("out")), "a run directory was made")


def test_a_syntax_error_has_line_and_column():
    with Trial() as t:
        t.write("plan.json", b'{\n  "schema_version": 1,\n  "plan": {,}\n}\n')
        r = run("check", t.path("plan.json"))
        check(r.code == 2 and "3" in r.err and "column" in r.err or ":3:" in r.err, repr(r))


def test_a_run_without_a_lock_says_how_to_make_one():
    with Trial() as t:
        r = t.run()
        check(r.code in (2, 5) and "lock" in r.err, repr(r))
        check(not os.path.exists(t.path("out.proofmark")), "sealed without a lock")


def test_a_model_that_is_not_the_plans_cannot_be_locked():
    with Trial() as t:
        t.write("tiny.gguf", b"another model")
        r = run("lock", t.path("plan.json"))
        check(r.code in (2, 5) and "tiny.gguf" in r.err, repr(r))


def test_a_world_that_is_not_as_locked_is_refused_with_each_difference():
    with Trial() as t:
        t.lock()
        t.write("tiny.gguf", b"another model")
        r = t.run()
        check(r.code == 5, repr(r))
        check("tiny.gguf" in r.err + r.out, repr(r))
        if os.path.exists(t.path("out", "verdict.json")):
            check(t.verdict()["verdict"] == "blocked", t.verdict()["verdict"])
    with Trial() as t:
        t.lock()
        with open(t.path("engine.sh"), "ab") as f:
            f.write(b"# another engine\n")
        r = t.run()
        check(r.code == 5 and "engine.sh" in r.err + r.out, repr(r))


def test_a_plan_changed_after_the_lock_is_refused():
    with Trial() as t:
        t.lock()
        with open(t.path("plan.json"), "ab") as f:
            f.write(b"\n")
        r = t.run()
        check(r.code in (2, 5) and "plan" in r.err, repr(r))


def test_the_first_interrupt_drains_judges_and_seals():
    with Trial(slow_load) as t:
        t.lock()
        p = start(*t.run_args())
        wait_for("load", lambda: in_load(t))
        time.sleep(0.3)
        began = time.monotonic()
        p.send_signal(signal.SIGINT)
        expect_run(t, finish(p), 130, "interrupted")
        check(time.monotonic() - began < 20, "took too long")


def test_the_second_interrupt_ends_at_once_and_leaves_a_readable_run():
    def edit(plan):
        slow_load(plan)
        plan["candidates"][0]["engine"]["args"] += ["--itl-us", "2000000"]
        plan["workloads"][0]["stall_timeout_s"] = 30
        plan["workloads"][0]["deadline_s"] = 60
    with Trial(edit) as t:
        t.lock("--no-start")
        p = start(*t.run_args())
        wait_for("load", lambda: in_load(t), 60)
        p.send_signal(signal.SIGINT)
        time.sleep(0.5)
        began = time.monotonic()
        p.send_signal(signal.SIGINT)
        r = finish(p, 30)
        check(r.code == 130, repr(r))
        check(time.monotonic() - began < 8, "took %.1f s" % (time.monotonic() - began))
        check(t.nothing_left_running(), "the engine is still there")
        check(t.report().code == 130, repr(t.report()))


def test_a_run_directory_is_never_overwritten():
    with Trial() as t:
        t.lock().run()
        before = sorted(os.listdir(t.path("out")))
        expect = t.run()
        check(expect.code in (2, 5) and "out" in expect.err, repr(expect))
        check(sorted(os.listdir(t.path("out"))) == before, "files changed")


def test_a_full_disk_in_the_run_still_ends_in_a_sealed_file():
    for fault in ("enospc:12", "enospc:20", "short:16", "enospc:30"):
        with Trial() as t:
            r = t.lock().run(env={"PROOFMARK_FAULT": fault})
            check(r.code not in (0, 70) and r.code > 0, "%s: %r" % (fault, r))
            check(t.nothing_left_running(), "the engine is still there")
            check(os.path.exists(t.path("out.proofmark")), "%s: no bundle: %r" % (fault, r))
            check(t.verify().code == 0, "%s: %r" % (fault, t.verify()))
            check(t.verdict()["verdict"] not in ("accepted", "accepted_with_waivers"), fault)
            check("fault injection" in json.dumps(t.verdict()), fault)


def test_a_full_disk_while_sealing_leaves_the_run_and_no_half_bundle():
    with Trial() as t:
        t.lock()
        for n in range(40, 200, 20):
            name = "out%d" % n
            r = t.run(name, env={"PROOFMARK_FAULT": "enospc:%d" % n})
            check(r.code not in (0, 70) and r.code > 0, "%d: %r" % (n, r))
            if os.path.exists(t.path(name + ".proofmark")):
                check(t.verify(name=name).code == 0, "%d: half a bundle" % n)
            else:
                check(r.code == 5 and "No space left" in r.err, "%d: %r" % (n, r))
            check(t.report(name).code in (3, 5), "%d: %r" % (n, t.report(name)))


def test_the_engine_ends_when_the_runner_is_killed():
    with Trial(slow_load) as t:
        t.lock()
        p = start(*t.run_args())
        wait_for("load", lambda: in_load(t))
        p.kill()
        finish(p)
        wait_for("end of the engine", t.nothing_left_running, 15)
        r = t.report()
        check(r.code not in (0, 70) and r.code > 0, repr(r))


def test_an_engine_that_ignores_sigterm_and_leaves_daemons_is_ended():
    def edit(plan):
        plan["candidates"][0]["engine"]["args"] += ["--ignore-term", "--children", "2", "--daemons", "1"]
    with Trial(edit) as t:
        r = t.lock().run()
        check(r.code == 3, repr(r))
        check(t.nothing_left_running(), "something of the engine is still there")


def test_no_secret_reaches_a_file_or_the_screen():
    secret = "squeamish-ossifrage-1234567890"
    def edit(plan):
        plan["candidates"][0]["engine"]["env"] = [{"name": "ENGINE_KEY", "from_env": "MY_KEY"}]
    with Trial(edit) as t:
        with open(t.path("engine.sh"), encoding="utf-8") as f:
            talkative = f.read().replace("exec ", 'echo "my key is $ENGINE_KEY, yes $ENGINE_KEY"\nexec ')
        t.write("engine.sh", talkative.encode(), 0o755)
        check(run("lock", t.path("plan.json"), env={"MY_KEY": secret}).code == 0, "lock")
        r = t.run(env={"MY_KEY": secret})
        check(r.code == 3, repr(r))
        check(secret not in r.out + r.err, "on the screen")
        with open(t.path("out", "engine.log"), encoding="utf-8") as f:
            check("my key is ***" in f.read(), "the engine's own output is not there")
        for path in glob.glob(t.path("**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    check(secret.encode() not in f.read(), path)


ECHO = """import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self, kind, text):
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        key = self.headers.get('Authorization')
        if self.path == '/v1/models':
            self.answer('application/json', json.dumps({'data': [{'id': 'm ' + key, 'owned_by': key}]}))
        else:
            self.answer('text/plain', '# ' + key)
    def do_POST(self):
        key = self.headers.get('Authorization')
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if 'completions' not in self.path:
            return self.send_error(404)
        usage = {'prompt_tokens': 9, 'completion_tokens': 2}
        choice = {'index': 0, 'finish_reason': key, 'message': {'content': 'Paris PMKAAAAAAAAAAAAA ' + key}}
        if b'"stream":true' not in body:
            return self.answer('application/json', json.dumps({'model': key, 'choices': [choice], 'usage': usage}))
        choice['delta'] = choice.pop('message')
        event = json.dumps({'choices': [choice], 'usage': usage})
        self.answer('text/event-stream', 'data: %s\\n\\ndata: [DONE]\\n\\n' % event)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
print(s.server_port, flush=True)
s.serve_forever()
"""


def test_a_server_that_repeats_its_key_gets_it_into_no_file():
    secret = "s3cr3t-key-0123456789"
    server = subprocess.Popen(["python3", "-c", ECHO], stdout=subprocess.PIPE, text=True)
    try:
        url = "http://127.0.0.1:%d" % int(server.stdout.readline())

        def edit(plan):
            attach = {"url": url, "api_key": {"env": "PM_KEY"}}
            plan["candidates"][0]["engine"] = {"kind": "attach", "launch": {"attach": attach}}
            plan["workloads"][0].update(force_output=False, text_counters=True, canary_share=0.5, prompt_tok=[96],
                                        output_tok=32)
            for criterion in plan["criteria"]:
                if "where" in criterion:
                    criterion["where"]["prompt_tok"] = 96
        with Trial(edit) as t:
            r = run("lock", t.path("plan.json"), env={"PM_KEY": secret})
            check(r.code == 0, repr(r))
            r = t.run(env={"PM_KEY": secret})
            with open(t.path("out", "answers.jsonl"), encoding="utf-8") as f:
                check("Bearer ***" in f.read(), "no text of the server is there: %r" % r)
            check("s3cr3t" not in r.out + r.err, "on the screen: %r" % r)
            for path in glob.glob(t.path("**"), recursive=True):
                if os.path.isfile(path):
                    with open(path, "rb") as f:
                        check(b"s3cr3t" not in f.read(), path)
    finally:
        server.kill()
        server.wait()


def test_a_scripted_engine_behind_a_url_is_still_no_engine():
    server = subprocess.Popen([trial.ENGINE, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", server.stdout.readline()).group()

        def edit(plan):
            plan["candidates"][0]["engine"] = {"kind": "attach", "launch": {"attach": {"url": url}}}
        with Trial(edit) as t:
            r = t.lock().run()
            check(r.code == 3 and "scripted engine" in r.out, repr(r))
            check(t.verdict()["labels"] == ["scripted engine"], t.verdict()["labels"])
            server.kill()
            check(t.run("gone").code == 5, "a server that is gone")
    finally:
        server.kill()
        server.wait()


def test_verify_needs_a_key_and_refuses_a_test_key():
    with Trial() as t:
        t.lock().run()
        bundle = t.path("out.proofmark")
        expect_error(run("verify", bundle), 2, "key")
        r = run("verify", bundle, "--key", t.key + ".pub")
        check(r.code == 1 and "test" in (r.out + r.err).lower(), repr(r))
        other = t.path("other")
        run("key", "new", other)
        r = run("verify", bundle, "--key", other + ".pub")
        check(r.code == 1, repr(r))


helper.main(globals())
