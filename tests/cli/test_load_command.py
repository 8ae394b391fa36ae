#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`proofmark load URL`: options, exit codes, table, JSON, records, shards, against the scripted engine."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import helper
from helper import check, expect_error, finish, run, start

ENGINE = os.path.abspath(os.environ.get("SCRIPTED_ENGINE", "build/tests/scripted-engine"))
# Long enough that the client's own turn-round stays below a hundredth of it.
QUICK = ("--ttft-ms", 60, "--itl-us", 1000)
KEY = "s3cr3t-key-0123456789"
SHORT = ["--prompt-tokens", "16", "--output-tokens", "8", "--no-calibrate", "--max-lag", "2s", "--quiet"]


class Engine:
    """A scripted engine on a free port, or on a socket."""

    def __init__(self, *args):
        self.args = args

    def __enter__(self):
        where = [] if "--unix" in self.args else ["--port", "0"]
        self.process = subprocess.Popen([ENGINE, *where, *map(str, self.args)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        self.url = re.search(r"(http|unix)://\S+", line).group(0)
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def busy(result):
    """The client was disturbed by this machine: no answer about the rule under test."""
    return result.code == 4


def load(url, *args, env=None, timeout_s=60):
    for _ in range(4):
        r = run("load", url, *SHORT, *args, env=env, timeout_s=timeout_s)
        if not busy(r):
            break
        print("# busy machine, once more: " + r.out.replace("\n", "\n# "), flush=True)
        if "--records" in args:
            shutil.rmtree(args[args.index("--records") + 1])
    return r


def load_json(url, *args, code=0, **more):
    r = load(url, "--json", *args, **more)
    check(r.code == code, "want exit %d: %r" % (code, r))
    return json.loads(r.out)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- options -------------------------------------------------------------------------------------------------

NOWHERE = "http://127.0.0.1:9"


def test_wrong_options_are_one_line_and_exit_2():
    cases = [
        ([], "want URL"),
        (["localhost:8080"], "want a URL http://"),
        (["ftp://h/"], "want a URL"),
        (["http://"], "want a URL"),
        (["http://u:hunter2@h/"], "without user"),
        (["http://h/?a=1"], "without user, query"),
        (["unix://relative"], "unix:///PATH"),
        (["http://h/v1"], "ends in /v1"),
        ([NOWHERE, NOWHERE], "too many arguments"),
        ([NOWHERE, "--api", "chta"], "did you mean chat?"),
        ([NOWHERE, "--api", "triton"], "wants --model"),
        ([NOWHERE, "--engine", "tgi", "--api", "ollama"], "has no api ollama"),
        ([NOWHERE, "--model", ""], "--model"),
        ([NOWHERE, "--concurrency", "0"], "want 1 to"),
        ([NOWHERE, "--concurrency", "65537"], "want 1 to 65536"),
        ([NOWHERE, "--rate", "0"], "above 0"),
        ([NOWHERE, "--rate", "-1"], "above 0"),
        ([NOWHERE, "--rate", "nan"], "want a number"),
        ([NOWHERE, "--arrival", "poisson"], "--arrival wants --rate"),
        ([NOWHERE, "--rate", "1", "--burstiness", "2"], "wants --arrival gamma"),
        ([NOWHERE, "--requests", "0"], "want 1 to"),
        ([NOWHERE, "--requests", "1.5"], "whole number"),
        ([NOWHERE, "--duration", "0"], "above 0"),
        ([NOWHERE, "--duration", "5 parsecs"], "want a time such as"),
        ([NOWHERE, "--duration", "1e3s"], "want a time such as"),
        ([NOWHERE, "--duration", "90d"], "want a time such as"),
        ([NOWHERE, "--prompt-tokens", "0"], "want a length"),
        ([NOWHERE, "--prompt-tokens", "128:"], "want a length"),
        ([NOWHERE, "--prompt-tokens", "128:0"], "want a length"),
        ([NOWHERE, "--prompt-tokens", "128:3,"], "want a length"),
        ([NOWHERE, "--prompt-tokens", ",".join(["1"] * 17)], "at most 16"),
        ([NOWHERE, "--output-tokens", "0"], "want 1 to"),
        ([NOWHERE, "--turns", "1"], "want 2 to"),
        ([NOWHERE, "--turns", "2", "--rate", "1"], "do not go together"),
        ([NOWHERE, "--turns", "2", "--prompt-tokens", "1,2"], "do not go together"),
        ([NOWHERE, "--shared-prefix", "1.5"], "at most 1"),
        ([NOWHERE, "--trace", "/nowhere/t.jsonl"], "no such file"),
        ([NOWHERE, "--trace", "t", "--rate", "1"], "do not go together"),
        ([NOWHERE, "--speed", "2"], "--speed wants --trace"),
        ([NOWHERE, "--slo", "ttfb=1s"], "want ttft=TIME"),
        ([NOWHERE, "--slo", "ttft"], "want ttft=TIME"),
        ([NOWHERE, "--slo", "ttft=soon"], "want a time"),
        ([NOWHERE, "--slo", "ttft=1s,ttft=2s"], "given twice"),
        ([NOWHERE, "--slo", "ttft=0"], "above 0"),
        ([NOWHERE, "--slo", "ttft=1s", "--no-stream"], "only e2e"),
        ([NOWHERE, "--require-slo", "0.9"], "wants --slo"),
        ([NOWHERE, "--slo", "e2e=1s", "--require-slo", "90"], "at most 1"),
        ([NOWHERE, "--key-env", "PM_NO_SUCH_VARIABLE"], "not set"),
        ([NOWHERE, "--key-file", "/nowhere/key"], "--key-file"),
        ([NOWHERE, "--key-env", "A", "--key-file", "B"], "do not go together"),
        ([NOWHERE, "--stall", "0"], "above 0"),
        ([NOWHERE, "--threads", "0"], "want 1 to"),
        ([NOWHERE, "--shard", "2/2", "--records", "r"], "want I/N"),
        ([NOWHERE, "--shard", "-1/2", "--records", "r"], "want I/N"),
        ([NOWHERE, "--shard", "0/2/3", "--records", "r"], "want I/N"),
        ([NOWHERE, "--shard", "0/2"], "--shard wants --records"),
        ([NOWHERE, "--shard", "0/2", "--records", "r"], "leave nothing for some"),
        ([NOWHERE, "--sync", "h:1"], "--sync wants --shard"),
        ([NOWHERE, "--start-at", "2001-01-01T00:00:00Z"], "within the next 24 hours"),
        ([NOWHERE, "--start-at", "soon"], "want a time such as"),
        ([NOWHERE, "--max-offset", "1ms"], "belongs to --merge"),
        (["--merge", "/nowhere/a"], "shard.json"),
        (["--merge", "a", "--rate", "1"], "--rate and --merge do not go together"),
    ]
    for args, text in cases:
        r = run("load", *args)
        expect_error(r, 2, text)
        check(r.err.count("\n") == 1 and "hunter2" not in r.err, "%s: %r" % (args, r))


def test_no_server_is_exit_5():
    expect_error(run("load", "http://127.0.0.1:%d" % free_port(), "--requests", "1", "--quiet"), 5, "no server answers")
    expect_error(run("load", "unix:///nowhere/x.sock", "--requests", "1", "--quiet"), 5, "no server answers")


# --- results -------------------------------------------------------------------------------------------------

def check_dist(d, where):
    keys = {"not_measurable", "n", "n_failed", "n_eff", "mean_ms", "p50_ms", "p50_upper_ms", "p90_ms", "p90_upper_ms",
            "p99_ms", "p99_upper_ms", "max_ms"}
    check(set(d) == keys, "%s: %s" % (where, sorted(d)))
    order = [d[k] for k in ("p50_ms", "p90_ms", "p99_ms", "max_ms") if d[k] is not None]
    check(order == sorted(order), "%s: %s" % (where, order))
    for q in ("p50", "p90", "p99"):
        if d[q + "_upper_ms"] is not None:
            check(d[q + "_upper_ms"] >= d[q + "_ms"], "%s: the bound of %s lies below it" % (where, q))


def check_schema(j):
    want = {"schema_version": int, "proofmark": str, "url": str, "api": str, "engine": str, "cell": str, "exit_code": int,
            "valid": bool, "invalid_because": list, "client_bound": bool, "interrupted": bool, "load": dict, "n_requests": int, "n_ok": int,
            "n_failed": int, "n_unasked": int, "n_cancelled": int, "n_retries": int, "failures": list, "latency": dict,
            "throughput": dict, "usage": dict, "delivered": dict, "clients": list}
    for key, kind in want.items():
        check(isinstance(j.get(key), kind), "%s: want %s, got %r" % (key, kind.__name__, j.get(key)))
    check({"model", "window_s", "goodput"} <= set(j), sorted(j))
    check(set(j) == set(want) | {"model", "window_s", "goodput"}, sorted(j))
    check(j["n_requests"] == j["n_ok"] + j["n_failed"] + j["n_cancelled"], "counts do not add up")
    check(sum(f["n"] for f in j["failures"]) + j["n_unasked"] == j["n_failed"], "failures do not add up")
    for name in ("ttft", "ttft_sent", "itl", "tpot", "e2e"):
        check_dist(j["latency"][name], name)
    for c in j["clients"]:
        check({"send_lag_p99_ms", "loop_lag_p99_ms", "cpu_pct", "steal_pct", "runq_wait_pct", "max_in_flight", "stopped_by",
               "calibration", "not_calibrated"} <= set(c), sorted(c))


def test_a_good_load_is_exit_0_and_its_json_is_whole():
    with Engine("--ttft-ms", 20, "--itl-us", 4000, "-np", 4) as e:
        j = load_json(e.url, "--requests", 60, "--concurrency", 2)
        check_schema(j)
        check(j["n_ok"] == 60 and j["n_failed"] == 0 and j["exit_code"] == 0 and j["valid"], j)
        check(j["load"]["prompt_tokens_exact"] and j["usage"]["prompt_tok_mean"] == 16, j["usage"])
        check(j["usage"]["output_tok_mean"] == 8 and j["usage"]["n_output_mismatch"] == 0, j["usage"])
        ttft, itl = j["latency"]["ttft"], j["latency"]["itl"]
        check(ttft["n"] == 60 and itl["n"] == 60 * 7, (ttft["n"], itl["n"]))
        check(20 <= ttft["p50_ms"] < 200 and 3 < itl["p50_ms"] < 100, (ttft, itl))
        check(ttft["p99_upper_ms"] is None, "60 requests bound no p99")
        check(ttft["n_eff"] < 30 or ttft["p90_upper_ms"] is not None, "60 independent requests bound p90: %r" % ttft)
        check(j["delivered"]["planned"] == 2 and j["delivered"]["unit"] == "in flight", j["delivered"])


def test_the_table_is_one_screen_of_80_columns():
    with Engine(*QUICK) as e:
        r = load(e.url, "--requests", 5, "--slo", "ttft=800ms,itl=60ms")
        check(r.code == 0, repr(r))
        lines = r.out.rstrip("\n").split("\n")
        check(len(lines) <= 24 and all(len(line) <= 80 for line in lines[1:]), repr(r))
        for word in ("TTFT", "TTFT sent", "ITL", "TPOT", "E2E", "requests", "5 ok, 0 failed", "goodput", "client", "n/e"):
            check(word in r.out, "no %r in %r" % (word, r))


def test_some_failed_is_exit_1_with_their_kind_and_reason():
    with Engine(*QUICK, "--fault", "http503:at 3,5", "--fault", "cut:at 7:tok 3") as e:
        j = load_json(e.url, "--requests", 20, code=1)
        check_schema(j)
        kinds = {f["outcome"]: f for f in j["failures"]}
        check(j["n_ok"] == 17 and j["n_failed"] == 3, j)
        check(kinds["http_status"]["n"] == 2 and kinds["http_status"]["http"] == 503, kinds)
        check(kinds["truncated"]["n"] == 1 and kinds["truncated"]["first_detail"], kinds)
        check(j["latency"]["ttft"]["n_failed"] == 3 and j["latency"]["ttft"]["p99_ms"] is None, j["latency"]["ttft"])


def test_zero_successes_never_look_like_success():
    with Engine("--fault", "http500:every 1") as e:
        r = load(e.url, "--requests", 5)
        check(r.code == 1 and "no request succeeded" in r.out and "0 ok, 5 failed" in r.out, repr(r))
        j = load_json(e.url, "--requests", 5, code=1)
        check(j["throughput"]["requests_rps"] in (0, None) and j["latency"]["ttft"]["p50_ms"] is None, j)
        check(j["usage"]["output_tok_mean"] is None, j["usage"])


def test_goodput_counts_what_meets_every_limit():
    with Engine("--ttft-ms", 20, "--itl-us", 2000, "--fault", "spike:every 4:tok 3", "--slow-ms", 600) as e:
        j = load_json(e.url, "--requests", 40, "--concurrency", 2, "--slo", "ttft=15s,itl=400ms")
        g = j["goodput"]
        check(g["n"] == 40 and g["n_good"] == 30 and abs(g["share"] - 0.75) < 1e-9, g)
        check(abs(g["share_lower"] - 0.6132) < 0.002, "Clopper-Pearson of 30 of 40: %r" % g)
        check(load_json(e.url, "--requests", 40, "--concurrency", 2, "--slo", "ttft=1ms", "--require-slo", "0.5", code=1)
              ["goodput"]["state"] == "fail", "every TTFT is over 1 ms")
        check(load_json(e.url, "--requests", 3, "--slo", "e2e=30s", "--require-slo", "0.99", code=3)
              ["goodput"]["state"] == "inconclusive", "3 requests do not tell")
        check(load_json(e.url, "--requests", 30, "--concurrency", 2, "--slo", "e2e=30s", "--require-slo", "0.9")
              ["goodput"]["state"] == "pass", "30 of 30")


def test_an_open_loop_sends_at_its_rate():
    with Engine("--ttft-ms", 5, "--itl-us", 500, "-np", 64) as e:
        for more in ([], ["--arrival", "constant"], ["--arrival", "gamma", "--burstiness", "0.5"]):
            j = load_json(e.url, "--rate", 100, "--requests", 100, *more)
            check(j["n_ok"] == 100 and j["delivered"]["unit"] == "requests/s", (more, j))
            check(60 < j["delivered"]["planned"] < 170, (more, j["delivered"]))


def test_a_duration_ends_the_load():
    with Engine(*QUICK) as e:
        begun = time.monotonic()
        j = load_json(e.url, "--duration", "600ms")
        check(j["n_ok"] > 3 and j["clients"][0]["stopped_by"] == "duration", j)
        check(0.5 < j["window_s"] and time.monotonic() - begun < 50, j["window_s"])


def test_a_mix_of_lengths_is_kept():
    with Engine(*QUICK) as e:
        j = load_json(e.url, "--prompt-tokens", "16:3,64:1", "--requests", 80, "--concurrency", 2)
        check(j["load"]["prompt_tok"] == [16, 64] and 16 < j["usage"]["prompt_tok_mean"] < 64, j["usage"])
        check(j["usage"]["n_prompt_mismatch"] == 0, j["usage"])


def test_conversations_carry_their_history():
    with Engine(*QUICK) as e:
        j = load_json(e.url, "--turns", 3, "--requests", 12, "--concurrency", 2)
        check(j["n_ok"] == 12 and j["load"]["turns"] == 3 and j["usage"]["prompt_tok_mean"] > 20, j)


def test_an_answer_in_one_piece_has_no_first_token():
    with Engine(*QUICK) as e:
        j = load_json(e.url, "--no-stream", "--requests", 5)
        check(j["n_ok"] == 5 and j["latency"]["ttft"]["not_measurable"] and j["latency"]["e2e"]["p50_ms"] > 5, j)


def test_every_api_is_spoken():
    with Engine(*QUICK) as e:
        for api in ("chat", "completions", "llamacpp", "tgi", "ollama", "sglang", "triton"):
            more = ["--model", "m"] if api == "triton" else []
            j = load_json(e.url, "--api", api, "--requests", 4, *more)
            check(j["n_ok"] == 4 and j["api"] == api, "%s: %r" % (api, j))


def test_a_trace_is_replayed():
    with Engine(*QUICK) as e, helper.Folder() as folder:
        path = os.path.join(folder, "t.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            for i in range(10):
                f.write(json.dumps({"timestamp_ms": i * 100, "input_length": 20 + i, "output_length": 4}) + "\n")
        args = [a for a in SHORT if a not in ("--prompt-tokens", "16", "--output-tokens", "8")]
        for _ in range(4):
            r = run("load", e.url, *args, "--trace", path, "--speed", "4", "--json")
            if not busy(r):
                break
        check(r.code == 0, repr(r))
        j = json.loads(r.out)
        check(j["n_ok"] == 10 and j["usage"]["output_tok_mean"] == 4 and 0.1 < j["window_s"] < 5, j)


def test_a_unix_socket_is_a_server():
    with helper.Folder() as folder:
        with Engine("--unix", os.path.join(folder, "s.sock"), *QUICK) as e:
            j = load_json(e.url, "--requests", 3)
            check(j["n_ok"] == 3 and j["url"].startswith("unix:///") and j["load"]["prompt_tokens_exact"], j)


def test_threads_give_every_request_once():
    with Engine(*QUICK, "-np", 16) as e:
        j = load_json(e.url, "--requests", 40, "--concurrency", 8, "--threads", 2)
        check(j["n_ok"] == 40, j)


def test_the_clients_own_error_stands_beside_the_figures():
    with Engine("--ttft-ms", 5, "--itl-us", 2000) as e:
        args = [a for a in SHORT if a != "--no-calibrate"]
        for _ in range(4):
            r = run("load", e.url, *args, "--requests", "10", "--json")
            if not busy(r):
                break
        check(r.code == 0, repr(r))
        c = json.loads(r.out)["clients"][0]
        check(c["calibration"] and c["calibration"]["n_gaps"] > 0, c)
        check(c["calibration"]["itl_error_p99_ms"] is not None, c)


def test_a_bound_that_is_passed_marks_the_figures_and_is_exit_4():
    with Engine(*QUICK) as e:
        r = run("load", e.url, *[a for a in SHORT if a not in ("--max-lag", "2s")], "--max-lag", "0.1us", "--requests", "20")
        check(r.code == 4 and "client-bound" in r.out and "invalid" in r.out, repr(r))


# --- interruption --------------------------------------------------------------------------------------------

def interrupted(url, *args, presses=1):
    p = start("load", url, *SHORT, *args)
    time.sleep(1.5)
    for _ in range(presses):
        p.send_signal(signal.SIGINT)
        time.sleep(0.3)
    return finish(p)


def test_ctrl_c_drains_and_prints_what_was_measured():
    with Engine("--ttft-ms", 20, "--itl-us", 2000) as e:
        r = interrupted(e.url, "--duration", "60s", "--json")
        check(r.code == 130, repr(r))
        j = json.loads(r.out)
        check_schema(j)
        check(j["interrupted"] and j["n_ok"] > 3 and j["n_cancelled"] == 0, j)


def test_a_second_ctrl_c_ends_what_is_under_way():
    with Engine("--ttft-ms", 20, "--itl-us", 2000, "--fault", "stall:from 4:tok 2") as e:
        r = interrupted(e.url, "--duration", "60s", "--json", presses=2)
        check(r.code == 130, repr(r))
        j = json.loads(r.out)
        check(j["n_ok"] == 3 and j["n_cancelled"] == 1 and j["n_failed"] == 0, j)


# --- secrets -------------------------------------------------------------------------------------------------

def test_a_key_is_sent_and_never_shown():
    with Engine("--api-key", KEY, *QUICK) as e, helper.Folder() as folder:
        path = os.path.join(folder, "key")
        with open(path, "w", encoding="utf-8") as f:
            f.write(KEY + "\n")
        records = os.path.join(folder, "records")
        for r in (load(e.url, "--requests", 3, "--key-file", path, "--records", records),
                  load(e.url, "--requests", 3, "--key-env", "PM_KEY", "--json", env={"PM_KEY": KEY})):
            check(r.code == 0 and KEY not in r.out + r.err, repr(r))
        for name in os.listdir(records):
            with open(os.path.join(records, name), "rb") as f:
                check(KEY.encode() not in f.read(), "the key stands in " + name)
        r = load(e.url, "--requests", 3)
        check(r.code == 1 and "401" in r.out, repr(r))


class Echo:
    """A server that throws the caller's own header back at it."""

    def __enter__(self):
        code = ("import http.server\n"
                "class H(http.server.BaseHTTPRequestHandler):\n"
                "    protocol_version = 'HTTP/1.1'\n"
                "    def do_POST(self):\n"
                "        self.rfile.read(int(self.headers.get('Content-Length', 0)))\n"
                "        self.do_GET()\n"
                "    def do_GET(self):\n"
                "        body = ('{\"error\":{\"message\":\"bad key %s\"}}' % self.headers.get('Authorization')).encode()\n"
                "        self.send_response(401)\n"
                "        self.send_header('Content-Type', 'application/json')\n"
                "        self.send_header('Content-Length', str(len(body)))\n"
                "        self.end_headers()\n"
                "        self.wfile.write(body)\n"
                "    def log_message(self, *a): pass\n"
                "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
                "print(s.server_port, flush=True)\n"
                "s.serve_forever()\n")
        self.process = subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE)
        self.url = "http://127.0.0.1:%d" % int(self.process.stdout.readline())
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_a_server_that_echoes_the_key_does_not_get_it_shown():
    with Echo() as e, helper.Folder() as folder:
        records = os.path.join(folder, "r")
        r = load(e.url, "--requests", 2, "--key-env", "PM_KEY", "--records", records, env={"PM_KEY": KEY})
        check(r.code == 1 and KEY not in r.out + r.err and "401" in r.out, repr(r))
        check("words" in r.out, "a server without a tokenizer: %r" % r)
        for name in os.listdir(records):
            with open(os.path.join(records, name), "rb") as f:
                check(KEY.encode() not in f.read(), "the key stands in " + name)


# --- records and shards --------------------------------------------------------------------------------------

def test_records_are_those_of_a_run_directory():
    with Engine(*QUICK) as e, helper.Folder() as folder:
        records = os.path.join(folder, "r")
        check(load(e.url, "--requests", 7, "--records", records).code == 0, "load")
        with open(os.path.join(records, "requests.jsonl"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        check(len(rows) == 7 and all(r["outcome"] == "ok" and r["tok_n"] == 8 for r in rows), rows)
        check(sum(r["tok_bytes"] for r in rows) == os.path.getsize(os.path.join(records, "tokens.bin")), "tokens.bin")
        with open(os.path.join(records, "prompts.jsonl"), encoding="utf-8") as f:
            check(len(f.readlines()) == 7, "prompts.jsonl")
        check(helper.load_json(os.path.join(records, "load.json"))["n_ok"] == 7, "load.json")
        r = run("load", e.url, *SHORT, "--requests", "1", "--records", records)
        expect_error(r, 2, records)


def shards(url, folder, *args, sync=None, ahead_s=4):
    at = "%.3f" % (time.time() + ahead_s)
    names = [os.path.join(folder, "s%d" % i) for i in range(2)]
    more = ["--sync", sync] if sync else []
    ps = [start("load", url, *SHORT, "--shard", "%d/2" % i, "--records", names[i], "--start-at", at, *more, *args)
          for i in range(2)]
    results = [finish(p) for p in ps]
    for r in results:
        check(r.code in (0, 4), repr(r))
    return names


def edit_shard(folder, **members):
    path = os.path.join(folder, "shard.json")
    j = helper.load_json(path)
    j.update(members)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(j, f)


def merge(*args):
    return run("load", "--merge", *args)


def test_shards_are_merged_into_the_one_load_they_are():
    with Engine("--ttft-ms", 10, "--itl-us", 1000, "-np", 16) as e, helper.Folder() as folder:
        names = shards(e.url, folder, "--rate", "40", "--requests", "60", sync="127.0.0.1:%d" % free_port())
        ks = []
        for name in names:
            with open(os.path.join(name, "requests.jsonl"), encoding="utf-8") as f:
                ks.append([json.loads(line)["k"] for line in f])
        check(sorted(ks[0] + ks[1]) == list(range(60)) and all(k % 2 == 0 for k in ks[0]), ks)
        clock = helper.load_json(os.path.join(names[1], "shard.json"))
        check(clock["clock_offset_ns"] is not None and clock["clock_uncertainty_ns"] < 1e9, clock)
        r = merge("--json", "--max-offset", "2s", *names)
        check(r.code in (0, 4), repr(r))
        j = json.loads(r.out)
        check_schema(j)
        check(j["n_ok"] == 60 and len(j["clients"]) == 2 and j["clients"][1]["clock_offset_ms"] is not None, j)
        check(25 < j["delivered"]["planned"] < 65, j["delivered"])
        one = helper.load_json(os.path.join(names[0], "load.json"))
        check(one["n_ok"] == 30 and 10 < one["delivered"]["planned"] < 35, one["delivered"])
        r = merge("--max-offset", "2s", *names)
        check("60 ok" in r.out, repr(r))

        edit_shard(names[1], clock_offset_ns=50_000_000)
        r = merge("--json", *names)
        check(r.code == 4 and any("clock is off" in t for t in json.loads(r.out)["invalid_because"]), repr(r))
        edit_shard(names[1], clock_offset_ns=None, boot_id="another")
        r = merge("--json", *names)
        check(r.code == 4 and any("not compared" in t for t in json.loads(r.out)["invalid_because"]), repr(r))
        r = merge("--json", names[0])
        check(r.code == 4 and any("shard 1 of 2 is missing" in t for t in json.loads(r.out)["invalid_because"]), repr(r))


def test_a_merge_takes_only_shards_of_one_load():
    with Engine(*QUICK, "-np", 16) as e, helper.Folder() as folder:
        names = shards(e.url, folder, "--concurrency", "2", "--requests", "8", ahead_s=2)
        expect_error(merge(names[0], names[0]), 2, "both shard 0")
        plan = helper.load_json(os.path.join(names[1], "shard.json"))["plan"]
        plan["workloads"][0]["output_tok"] = 9
        edit_shard(names[1], plan=plan)
        expect_error(merge(*names), 2, "not shards of the same load")
        for member, value in (("origin_unix_s", -1), ("shard", 7), ("threads", 0), ("result", {}), ("plan", 3)):
            good = helper.load_json(os.path.join(names[0], "shard.json"))
            edit_shard(names[0], **{member: value})
            expect_error(merge(names[0]), 2, "shard.json")
            edit_shard(names[0], **good)
        with open(os.path.join(names[0], "requests.jsonl"), "a", encoding="utf-8") as f:
            f.write("{}\n")
        expect_error(merge(names[0]), 2, "requests.jsonl:5")


# --- cost ----------------------------------------------------------------------------------------------------

def test_one_request_is_quick():
    """The figure itself is a matter of the bench; here only that nothing waits for its own sake."""
    with Engine("--ttft-ms", 1, "--itl-us", 100) as e:
        best = 9.0
        for _ in range(5):
            begun = time.monotonic()
            r = run("load", e.url, *SHORT, "--requests", "1")
            best = min(best, time.monotonic() - begun)
            check(r.code in (0, 4), repr(r))
        print("# one request: %.0f ms" % (best * 1e3), flush=True)
        check(best < 2, "one request took %.3f s" % best)


helper.main(globals())
