# SPDX-License-Identifier: Apache-2.0
"""A small trial on the scripted engine: a folder with model, engine, plan and key, and what one does with it."""

import copy
import glob
import hashlib
import json
import os
import shutil

import helper
from helper import check, run

ENGINE = os.path.abspath(os.environ.get("SCRIPTED_ENGINE", "build/tests/scripted-engine"))

# The engine's faults change between lock and run: the wrapper reads them from a file that no hash covers.
WRAPPER = """#!/bin/sh
here=${0%%/*}
faults=
[ ! -e "$here/faults" ] || faults=$(/bin/cat "$here/faults")
# shellcheck disable=SC2086
exec %s "$@" $faults
"""

PLAN = {
    "schema_version": 1,
    "plan": {"id": "small", "title": "A small trial", "owner": "tests"},
    "model": {"id": "tiny", "revision": "file-hashes", "files": [{"path": "tiny.gguf", "sha256": None}],
              "format": "gguf", "quantization": "Q4_1", "context_tok": 2048},
    "candidates": [{
        "name": "cpu", "backend": "cpu", "arch": "x86-64",
        "engine": {"kind": "scripted", "launch": {"process": {"program": "./engine.sh"}},
                   "args": ["-m", "{model}", "--host", "{host}", "--port", "{port}", "--ttft-ms", "5", "--itl-us", "500"],
                   "ready_deadline_s": 10},
    }],
    "workloads": [{
        "name": "chat", "class": "interactive", "api": "chat", "prompt_tok": [16], "output_tok": 8,
        "concurrency": [2], "arrival": {"kind": "closed"}, "requests": 40, "warmup_requests": 1,
        "first_byte_timeout_s": 5, "stall_timeout_s": 5, "deadline_s": 20, "critical": True,
    }],
    "controls": [{"id": "capital", "prompt": "What is the capital of France?", "must_match": ["Paris"],
                  "same_as_reference": True}],
    "criteria": [
        {"id": "ttft", "sentence": "Half of the requests show a token within 2 seconds", "metric": "ttft",
         "where": {"workload": "chat", "prompt_tok": 16, "concurrency": 2}, "statistic": "p50", "comparator": "<=",
         "limit": {"value": 2, "unit": "s"}, "confidence": 0.95},
        {"id": "failed", "sentence": "At most 20 of 100 requests fail", "metric": "failed_share",
         "where": {"workload": "chat", "prompt_tok": 16, "concurrency": 2}, "statistic": "share", "comparator": "<=",
         "limit": {"value": 20, "unit": "%"}, "confidence": 0.95},
        {"id": "controls", "sentence": "No control answer is wrong", "metric": "controls_failed", "statistic": "count",
         "comparator": "<=", "limit": {"value": 0, "unit": "count"}},
    ],
    "instrument": {"max_send_lag_ms": 500, "max_loop_lag_ms": 500, "max_client_cpu_pct": 100, "max_steal_pct": 90,
                   "max_runq_wait_pct": 100, "max_ttft_error_ms": 500, "max_itl_error_ms": 500,
                   "min_delivered_share": 0.5, "calibration_s": 0.1},
}


class Trial:
    """`edit(plan)` may change the plan before it is written. `with Trial() as t:`"""

    def __init__(self, edit=None):
        self.folder = helper.Folder()
        self.edit = edit

    def __enter__(self):
        self.dir = self.folder.__enter__()
        model = b"not a real model"
        plan = copy.deepcopy(PLAN)
        plan["model"]["files"][0]["sha256"] = hashlib.sha256(model).hexdigest()
        if self.edit:
            self.edit(plan)
        self.write("tiny.gguf", model)
        self.write("engine.sh", (WRAPPER % ENGINE).encode(), 0o755)
        self.write("plan.json", json.dumps(plan, indent=1).encode())
        self.key = self.path("key")
        check(run("key", "new", self.key, "--test-only").code == 0, "no key")
        return self

    def __exit__(self, *exc):
        self.folder.__exit__(*exc)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, data, mode=0o644):
        with open(self.path(name), "wb") as f:
            f.write(data)
        os.chmod(self.path(name), mode)

    def faults(self, text):
        self.write("faults", text.encode())

    def lock(self, *args):
        r = run("lock", self.path("plan.json"), *args)
        check(r.code == 0, "lock: %r" % r)
        return self

    def run_args(self, name="out"):
        return ["run", self.path("plan.json"), "-o", self.path(name), "--key", self.key, "--progress=plain"]

    def run(self, name="out", env=None, args=(), timeout_s=120):
        """A run that was invalid only because this machine was too busy for the client is tried again."""
        for _ in range(4):
            r = run(*self.run_args(name), *args, env=env, timeout_s=timeout_s)
            if r.code != 4 or not ("instrument's own error" in r.out or "lagged" in r.out):
                break
            print("# busy machine, once more: " + r.out.replace("\n", "\n# "), flush=True)
            shutil.rmtree(self.path(name))
            if os.path.exists(self.path(name + ".proofmark")):
                os.unlink(self.path(name + ".proofmark"))
        return r

    def verdict(self, name="out"):
        return helper.load_json(self.path(name, "verdict.json"))

    def report(self, name="out"):
        return run("report", self.path(name))

    def verify(self, *args, name="out"):
        return run("verify", self.path(name + ".proofmark"), "--key", self.key + ".pub", "--allow-test-key", *args)

    def events(self, name="out"):
        with open(self.path(name, "events.jsonl"), encoding="utf-8", errors="replace") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def nothing_left_running(self):
        """No process has this folder in its arguments: the engine is gone."""
        left = []
        for cmdline in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(cmdline, "rb") as f:
                    words = f.read()
                with open(os.path.dirname(cmdline) + "/environ", "rb") as f:
                    environ = f.read()
            except OSError:
                continue
            if self.dir.encode() in words or self.dir.encode() in environ:
                left.append(cmdline + " " + words.decode("utf-8", "replace"))
        return not left
