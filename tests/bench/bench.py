#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench.py CLIENT FLOOD ENGINE [--rounds N] [--write RESULTS.md] [--program PROOFMARK] [--short] [--only WORDS]

Runs proofmark's load beside a bare epoll reader, a bare libcurl reader and a bare timer loop, in turns against the
same server, and prints each target with the ratio that was measured (the median of the rounds). --short: the few
ratios that a busy machine can hold, with wide bounds; the exit code says whether they held."""
import argparse
import atexit
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

median = statistics.median
CPUS = sorted(os.sched_getaffinity(0))
CLIENT_CPU, SERVER_CPUS = CPUS[:1], CPUS[1:2] or CPUS[:1]
# Measured apart, on another day, against the same kind of server: sgl-rust = SGLang's native bench client.
SGL_RUST_PACED_CPU = 1.28  # x bare libcurl
SGL_RUST_BURST_TTFT = 1.26  # x bare libcurl
SGL_RUST_RSS_MB = 146


def pinned(cpus):
    return lambda: os.sched_setaffinity(0, cpus)


def quantile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))] if values else float("nan")


class Server:
    """A child that prints the port it listens on."""

    def __init__(self, argv):
        self.child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                      preexec_fn=pinned(SERVER_CPUS))
        line = self.child.stdout.readline()
        self.port = re.search(r"(\d+)\s*$", line).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.child.terminate()
        self.child.wait()
        self.child.stdout.close()


class Bench:
    def __init__(self, args):
        self.args = args
        self.rounds = args.rounds
        self.rows = []
        self.mark = ""  # in front of lines that are no TAP
        self.dir = tempfile.mkdtemp(prefix="proofmark-bench-")
        atexit.register(shutil.rmtree, self.dir, ignore_errors=True)

    def engine(self, *options):
        self.truth = os.path.join(self.dir, "truth.jsonl")
        if os.path.exists(self.truth):
            os.unlink(self.truth)
        return Server([self.args.engine, "--host", "127.0.0.1", "--port", "0", "--truth", self.truth, *options])

    def flood(self, events):
        return Server([self.args.flood, str(events)])

    def client(self, kind, port, cpus=None, **keys):
        argv = [self.args.client, kind, str(port)] + [f"{k}={v}" for k, v in keys.items()]
        run = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=300, check=True,
                             preexec_fn=pinned(cpus or CLIENT_CPU))
        got = json.loads(run.stdout)
        if got["n_failed"] or (kind != "timer" and got["n_done"] != int(keys["requests"])):
            raise SystemExit(f"{kind}: {got['n_failed']} of {got['n_done']} requests failed")
        return got

    def row(self, name, value, target, met, absolute):
        self.rows.append((name, value, target, "yes" if met else "NO", absolute))
        print(f"{self.mark}{name:<50} {value:<28} target {target:<34} {'met' if met else 'NOT MET'}\n"
              f"{self.mark}    {absolute}", flush=True)

    # --- cost

    def paired(self, port, clients, **keys):
        """{name: [cost of each round]}, in turns."""
        got = {name: [] for name in clients}
        for _ in range(self.rounds):
            for name, (kind, more) in clients.items():
                got[name].append(self.client(kind, port, **keys, **more))
        return got

    CLIENTS = {"raw": ("raw", {}), "curl": ("curl", {}), "load": ("load", {}), "load-curl": ("load", {"libcurl": 1})}

    def ratio(self, got, a, b, figure):
        return median([figure(x) / figure(y) for x, y in zip(got[a], got[b])])

    def paced(self, streams=256, tokens=150, bound=1.25):
        with self.engine("--slots", str(streams), "-c", "2000000", "--ttft-ms", "50", "--itl-us", "20000") as s:
            got = self.paired(s.port, self.CLIENTS, streams=streams, requests=streams, tokens=tokens, step=200)
        cpu = lambda c: c["cpu_ns"]
        per_1000 = {n: median([c["cpu_ns"] / 1e6 / (streams * tokens / 1000) for c in v]) for n, v in got.items()}
        r = self.ratio(got, "load", "curl", cpu)
        self.row(f"CPU, {streams} streams x 50 tokens/s", f"{r:.2f} x bare libcurl",
                 f"<= {bound} x (0.9 x sgl-rust: {0.9 * SGL_RUST_PACED_CPU:.2f} x)", r <= bound,
                 "CPU ms per 1,000 tokens: " + ", ".join(f"{n} {v:.1f}" for n, v in per_1000.items()))
        return r

    def flooded(self, requests=64, bound=0.75):
        with self.flood(20000) as s:
            got = self.paired(s.port, self.CLIENTS, streams=8, requests=requests)
        rate = lambda c: requests * 20000 / c["cpu_ns"]
        r = self.ratio(got, "load", "curl", rate)
        self.row("flood: events per CPU second", f"{r:.2f} x bare libcurl", f">= {bound} x", r >= bound,
                 "million events per CPU second: " +
                 ", ".join(f"{n} {median([rate(c) * 1e3 for c in v]):.2f}" for n, v in got.items()))
        return r

    def short(self, requests=20000, bound=0.8):
        with self.flood(1) as s:
            got = self.paired(s.port, self.CLIENTS, streams=64, requests=requests)
        rate = lambda c: requests / c["cpu_ns"]  # of a core that does nothing else
        r = self.ratio(got, "load", "curl", rate)
        self.row("short requests/s on one core", f"{r:.2f} x bare libcurl", f">= {bound} x", r >= bound,
                 "requests per CPU second: " + ", ".join(f"{n} {median([rate(c) * 1e9 for c in v]):,.0f}" for n, v in got.items()))
        return r

    # --- error

    def accounts(self):
        """The server's truth in order of prompt length: request k is the k-th."""
        rows = [json.loads(line) for line in open(self.truth, encoding="utf-8")]
        return sorted((r for r in rows if r["n"]), key=lambda r: r["prompt_tok"])

    def errors(self, kind, streams, tokens, **keys):
        """TTFT errors, ITL errors, receive lags in us, of one run against an engine of its own."""
        times = os.path.join(self.dir, "times")
        with self.engine("--slots", str(streams), "-c", "4000000", "--ttft-ms", "60", "--itl-us", "20000") as s:
            self.client(kind, s.port, streams=streams, requests=streams, tokens=tokens, keyed=1, times=times,
                        **{"step": 200, **keys})
        ttft, itl, lag = [], [], []
        truth = self.accounts()
        for line in open(times, encoding="utf-8"):
            k, sent, *at = map(int, line.split())
            t = truth[k]
            if len(at) != len(t["tok_ns"]):
                raise SystemExit(f"{kind}: request {k}: {len(at)} of {len(t['tok_ns'])} token events")
            ttft.append(((at[0] - sent) - (t["tok_ns"][0] - t["recv_ns"])) / 1e3)
            lag += [(a - b) / 1e3 for a, b in zip(at, t["tok_ns"])]
            itl += [abs((at[i] - at[i - 1]) - (t["tok_ns"][i] - t["tok_ns"][i - 1])) / 1e3 for i in range(1, len(at))]
        return {"ttft50": quantile(ttft, .5), "ttft99": quantile(ttft, .99), "itl99": quantile(itl, .99),
                "lag50": quantile(lag, .5), "lag99": quantile(lag, .99)}

    ERROR_CLIENTS = {
        "raw": ("raw", {}),
        "raw, kernel stamps": ("raw", {"stamps": 1}),
        "curl, connect burst": ("curl", {}),
        "curl, all at once": ("curl", {"step": 0}),
        "load, opened ahead": ("load", {"pre": 1}),
        "load, connect burst": ("load", {}),
        "load, busy poll": ("load", {"pre": 1, "busy": 1}),
    }

    def exactness(self, streams=256, tokens=100):
        got = {name: [] for name in self.ERROR_CLIENTS}
        for _ in range(self.rounds):
            for name, (kind, keys) in self.ERROR_CLIENTS.items():
                got[name].append(self.errors(kind, streams, tokens, **keys))
        mid = {n: {f: median([e[f] for e in v]) for f in v[0]} for n, v in got.items()}
        ratio = lambda a, b, f: median([x[f] / y[f] for x, y in zip(got[a], got[b])])
        ahead, burst, raw = "load, opened ahead", "load, connect burst", "raw"
        show = lambda f: "us: " + ", ".join(f"{n} {m[f]:,.0f}" for n, m in mid.items())
        r = ratio(ahead, raw, "ttft50")
        self.row("TTFT error p50, opened ahead", f"{r:.2f} x raw", "<= 1.5 x", r <= 1.5, show("ttft50"))
        r = ratio(ahead, raw, "ttft99")
        self.row("TTFT error p99, opened ahead", f"{r:.2f} x raw", "<= 2 x", r <= 2, show("ttft99"))
        r, bound = ratio(burst, "curl, all at once", "ttft99"), 0.3 * SGL_RUST_BURST_TTFT
        self.row("TTFT error p99, connect burst", f"{r:.2f} x bare libcurl", f"<= {bound:.2f} x (0.3 x sgl-rust)",
                 r <= bound, show("ttft99"))
        r, more = ratio(ahead, raw, "itl99"), median([x["itl99"] - y["itl99"] for x, y in zip(got[ahead], got[raw])])
        self.row("ITL error p99", f"{r:.2f} x raw, {more:+.0f} us", "<= 1.2 x or + 50 us", r <= 1.2 or more <= 50,
                 show("itl99"))
        r = ratio(ahead, raw, "lag99")
        self.row("receive lag p99 (the kernel's stamps)", f"{r:.3f} x raw asleep", "<= 0.5 x (asked of busy poll)",
                 r <= 0.5, show("lag99"))
        r = ratio(ahead, raw, "lag50")
        self.row("receive lag p50", f"{r:.2f} x raw asleep", "<= 1 x", r <= 1, show("lag50"))

    # --- load delivered

    def delivered(self, streams=256, tokens=60):
        times, n = os.path.join(self.dir, "times"), 3 * streams
        with self.engine("--slots", str(streams), "-c", "4000000", "--ttft-ms", "60", "--itl-us", "20000") as s:
            self.client("load", s.port, streams=streams, requests=n, tokens=tokens, keyed=1, times=times)
        spans = []
        for line in open(times, encoding="utf-8"):
            _, sent, *at = map(int, line.split())
            spans.append((sent, at[-1]))
        starts = sorted(a for a, _ in spans)
        t0, t1 = starts[streams - 1], starts[-1]
        held = sum(max(0, min(b, t1) - max(a, t0)) for a, b in spans) / (t1 - t0) / streams
        self.row(f"streams delivered of {streams}", f"{held:.4f} of the plan", ">= 0.99", held >= .99,
                 f"time-weighted mean {held * streams:.1f} streams")

    def open_loop(self, rate, seconds=4):
        n = int(rate * seconds)
        lag, bare, got = [], [], []
        with self.engine("--slots", "512", "-c", "4000000", "--ttft-ms", "20", "--itl-us", "5000") as s:
            for _ in range(self.rounds):
                bare.append(self.client("timer", s.port, requests=n, rate=rate)["send_lag_p99_ns"] / 1e6)
                times = os.path.join(self.dir, "times")
                lag.append(self.client("load", s.port, requests=n, rate=rate, tokens=2, times=times)
                           ["send_lag_p99_ns"] / 1e6)
                sent = sorted(int(line.split()[1]) for line in open(times, encoding="utf-8"))
                got.append((n - 1) * 1e9 / (sent[-1] - sent[0]))
        off, late = median([abs(g / rate - 1) for g in got]), median(lag)
        r = median([a / b for a, b in zip(lag, bare)])
        self.row(f"open loop, {rate} requests/s: achieved", f"{median(got):,.1f}/s ({off:.3%} off)", "within 0.5 %",
                 off <= .005, f"{n} requests")
        self.row(f"open loop, {rate} requests/s: send lag p99", f"{late:.2f} ms, {r:.1f} x bare timer",
                 "<= 1 ms, or 1.5 x", late <= 1 or r <= 1.5,
                 f"bare timerfd loop p99 {median(bare):.2f} ms; rounds " + " ".join(f"{v:.2f}" for v in lag))

    def one_request(self):
        wall = []
        program = self.args.program
        with self.engine("--slots", "1", "--ttft-ms", "1", "--itl-us", "100") as s:
            argv = [self.args.client, "load", s.port, "requests=1", "tokens=4"]
            if program:
                argv = [program, "load", f"http://127.0.0.1:{s.port}", "--requests", "1", "--output-tokens", "4",
                        "--prompt-tokens", "8", "--progress", "none"]
            for _ in range(self.rounds + 2):
                t = time.monotonic()
                subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
                wall.append((time.monotonic() - t) * 1e3)
        self.row("one-request run, wall", f"{median(wall):.1f} ms", "<= 50 ms", median(wall) <= 50,
                 ("`proofmark load`" if program else "load_run in a program of its own") + ", TTFT 1 ms")

    def memory(self, streams, tokens=40):
        with self.engine("--slots", str(streams), "-c", "8000000", "--ttft-ms", "50", "--itl-us", "40000") as s:
            got = {k: self.client(k, s.port, streams=streams, requests=2 * streams, tokens=tokens)
                   for k in ("load", "curl", "raw")}
        mb = {k: c["max_rss_kb"] / 1024 for k, c in got.items()}
        bound = 0.3 * SGL_RUST_RSS_MB
        self.row(f"RSS at {streams} streams", f"{mb['load']:.1f} MB", f"<= {bound:.0f} MB (0.3 x sgl-rust at 256)",
                 mb["load"] <= bound, ", ".join(f"{k} {v:.1f} MB" for k, v in mb.items()))

    def many(self, streams=4096):
        with self.engine("--slots", str(streams), "-c", "16000000", "--ttft-ms", "2000", "--itl-us", "1000000") as s:
            c = self.client("load", s.port, cpus=CLIENT_CPU, streams=streams, requests=streams, tokens=6)
        good = c["max_in_flight"] == streams and c["n_events"] == 6 * streams
        self.row(f"{streams} streams at once, without loss", f"{c['n_done']} of {streams}", "all", good,
                 f"{c['max_in_flight']} in flight, {c['n_events']} tokens, RSS {c['max_rss_kb'] / 1024:.0f} MB")

    # --- the whole

    def full(self, only):
        steps = [("paced", self.paced), ("flood", self.flooded), ("short", self.short), ("exact", self.exactness),
                 ("delivered", self.delivered)]
        steps += [(f"open{r}", lambda r=r: self.open_loop(r)) for r in (200, 1000, 2000)]
        steps += [("one", self.one_request), ("rss256", lambda: self.memory(256)), ("rss1024", lambda: self.memory(1024)),
                  ("many", self.many)]
        for name, step in steps:
            if not only or name in only.split(","):
                step()

    def write(self, path):
        shape = f"{len(CPUS)} CPUs ({cpu_model()}), Linux {platform.release().split('-')[0]}"
        text = [
            "# What proofmark's load costs, and how exact it is", "",
            f"{datetime.date.today().isoformat()}, {shape}. The table is written by `bench.py --write`, what stands below it by hand.",
            f"Client and server are pinned to one CPU each; medians of {self.rounds} rounds in turns. Ratios are what "
            "counts; the absolute values belong to this machine and this hour.", "",
            "`raw` is a bare epoll reader, `curl` a bare libcurl reader, `load` proofmark's load_run on its plain path, "
            "`load-curl` the same through libcurl (TLS, proxies).", "",
            "| figure | measured | target | met | beside it |", "| --- | --- | --- | --- | --- |"]
        text += ["| " + " | ".join(row) + " |" for row in self.rows]
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        keep = old[old.index("\n## "):] if "\n## " in old else "\n"
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(text) + "\n" + keep)


def cpu_model():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def short_form(bench):
    """Wide bounds: a regression of half is seen, a busy machine is not."""
    bench.rounds, bench.mark = 3, "# "
    ok = [bench.paced(64, 60, 1.8) <= 1.8, bench.flooded(16, 0.45) >= 0.45, bench.short(4000, 0.8) >= 0.8]
    print("\n".join(f"{'ok' if good else 'not ok'} {i + 1} - {name}" for i, (good, name) in enumerate(
        zip(ok, ["paced CPU within 1.8 x bare libcurl", "flood at least 0.45 x bare libcurl",
                 "short requests at least 0.8 x bare libcurl"]))))
    print("1..3")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("client", "flood", "engine"):
        p.add_argument(name)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--write", metavar="FILE")
    p.add_argument("--program")
    p.add_argument("--short", action="store_true")
    p.add_argument("--only", metavar="WORDS")
    bench = Bench(p.parse_args())
    if bench.args.short:
        short_form(bench)
        return 0
    bench.full(bench.args.only)
    if bench.args.write:
        bench.write(bench.args.write)
    return 0 if all(row[3] == "yes" for row in bench.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
