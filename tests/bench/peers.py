#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py DIR CLIENT FLOOD ENGINE: what peers.sh installed, in turns with our load against the same server."""
import json
import os
import statistics
import sys
import tempfile
import time

from bench import Bench, CLIENT_CPU, pinned

STREAMS, REQUESTS, TOKENS, ROUNDS = 256, 512, 50, 3
RS = "import sys; sys.path.insert(0, sys.argv.pop(1)); import _bench; _bench.run_argv(['sglang-bench'] + sys.argv[1:])"


class Args:
    def __init__(self, client, flood, engine):
        self.client, self.flood, self.engine, self.rounds = client, flood, engine, ROUNDS


def write_tokenizer(folder):
    """One word, one token: enough for prompts whose text does not matter."""
    os.makedirs(folder, exist_ok=True)
    vocab = {"[UNK]": 0, **{f"w{i}": i for i in range(1, 2000)}}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}, f)


def commands(home, client, port, streams, requests, tokens):
    url, tok, out = f"http://127.0.0.1:{port}", f"{home}/tokenizer", tempfile.mkdtemp(prefix="proofmark-peer-")
    yield "proofmark", [client, "load", str(port), f"streams={streams}", f"requests={requests}", f"tokens={tokens}"], out
    yield "bare libcurl", [client, "curl", str(port), f"streams={streams}", f"requests={requests}", f"tokens={tokens}",
                           "step=200"], out
    if os.path.exists(f"{home}/sglang/_bench.so"):
        yield "sgl-rust", [sys.executable, "-c", RS, f"{home}/sglang", "--backend", "vllm-chat", "--base-url", url,
                           "--dataset-name", "random-ids", "--model", "m", "--tokenizer", tok, "--num-prompts",
                           str(requests), "--random-input-len", "16", "--random-output-len", str(tokens),
                           "--random-range-ratio", "1", "--max-concurrency", str(streams), "--warmup-requests", "0",
                           "--disable-tqdm"], out
    if os.path.exists(f"{home}/aiperf/installed"):
        yield "aiperf", [f"{home}/aiperf/bin/aiperf", "profile", "--model", "m", "--url", url, "--endpoint-type", "chat",
                         "--streaming", "--concurrency", str(streams), "--request-count", str(requests),
                         "--synthetic-input-tokens-mean", "16", "--output-tokens-mean", str(tokens), "--extra-inputs",
                         "ignore_eos:true", "--tokenizer", tok, "--ui", "none", "--artifact-dir", out], out
    if os.path.exists(f"{home}/genai-bench/installed"):
        yield "genai-bench", [f"{home}/genai-bench/bin/genai-bench", "benchmark", "--api-backend", "openai", "--api-base",
                              url, "--api-key", "x", "--api-model-name", "m", "--model-tokenizer", tok, "--task",
                              "text-to-text", "--traffic-scenario", f"D(16,{tokens})", "--num-concurrency", str(streams),
                              "--max-requests-per-run", str(requests), "--max-time-per-run", "2",
                              "--experiment-base-dir", out], out


def run(argv, cwd):
    """CPU s of it and its children, wall s, largest RSS in MB; None when it fails."""
    t = time.monotonic()
    pid = os.fork()
    if pid == 0:
        pinned(CLIENT_CPU)()
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execv(argv[0], argv)
    _, status, ru = os.wait4(pid, 0)
    if status:
        return None
    return {"cpu": ru.ru_utime + ru.ru_stime, "wall": time.monotonic() - t, "rss": ru.ru_maxrss / 1024}


def held(bench):
    """Mean number of streams between the N-th start and the last, as the server saw them."""
    rows = [r for r in map(json.loads, open(bench.truth, encoding="utf-8")) if r["n"]]
    starts = sorted(r["recv_ns"] for r in rows)
    if len(rows) <= STREAMS:
        return float("nan")
    t0, t1 = starts[STREAMS - 1], starts[-1]
    if t1 <= t0:
        return float("nan")
    return sum(max(0, min(r["end_ns"], t1) - max(r["recv_ns"], t0)) for r in rows) / (t1 - t0)


def main():
    home, client, flood, engine = map(os.path.abspath, sys.argv[1:5])
    bench = Bench(Args(client, flood, engine))
    write_tokenizer(f"{home}/tokenizer")
    names = [name for name, _, _ in commands(home, client, 0, 1, 1, 1)]
    got = {name: [] for name in names}
    for _ in range(ROUNDS):
        for i, name in enumerate(names):
            options = ("--slots", str(STREAMS), "-c", "4000000", "--ttft-ms", "50", "--itl-us", "20000")
            with bench.engine(*options) as s:
                argv, out = list(commands(home, client, s.port, 1, 1, 4))[i][1:]
                one = run(argv, out)
            with bench.engine(*options) as s:
                argv, out = list(commands(home, client, s.port, STREAMS, REQUESTS, TOKENS))[i][1:]
                many = run(argv, out)
            if one and many:
                got[name].append({"one": one["wall"], "cpu": (many["cpu"] - one["cpu"]) * 1e6 / (REQUESTS * TOKENS),
                                  "rss": many["rss"], "held": held(bench)})
            else:
                print(f"{name}: failed", file=sys.stderr)
    print(f"\n| client | CPU ms per 1,000 tokens, paced {STREAMS} x 50/s (start-up taken off) | x proofmark | "
          f"streams held of {STREAMS} | one request, wall s | largest RSS MB |\n| --- | --- | --- | --- | --- | --- |")
    mid = lambda name, f: statistics.median([r[f] for r in got[name]])
    for name in names:
        if not got[name]:
            print(f"| {name} | failed | | | | |")
            continue
        times = statistics.median([r["cpu"] / o["cpu"] for r, o in zip(got[name], got["proofmark"])])
        print(f"| {name} | {mid(name, 'cpu'):.1f} | {times:.2f} | {mid(name, 'held'):.0f} | {mid(name, 'one'):.2f} | "
              f"{mid(name, 'rss'):.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
