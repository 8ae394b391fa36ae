#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""server_timings.py RUNS_DIR: the newest run in that folder, of the quickstart: does what the
client measured agree with the server's own timings?

llama-server logs, for each request, the time of the prompt and of the generation. At concurrency 1 nothing waits,
so the client's time to the first token and from the first to the last token have to be the same figures: the median
of at least 30 requests within 2 % or 2 ms, whichever is larger. TAP on stdout; exit 1 when they differ."""
import json
import pathlib
import re
import statistics
import sys

PROMPT = re.compile(r"prompt eval time =\s+([0-9.]+) ms /\s+(\d+) tokens")
GENERATION = re.compile(r"\|\s+eval time =\s+([0-9.]+) ms /\s+(\d+) tokens")
NEW_PROCESS = re.compile(r"init: initializing")


def server_side(text):
    """One list for each start of the server: (prompt ms, generation ms) in the order in which requests ended."""
    starts, prompt = [], None
    for line in text.splitlines():
        if NEW_PROCESS.search(line) or not starts:
            starts.append([])
        elif m := PROMPT.search(line):
            prompt = float(m[1])
        elif (m := GENERATION.search(line)) and prompt is not None:
            starts[-1].append((prompt, float(m[1])))
            prompt = None
    return [s for s in starts if s]


def pairs(run):
    """[(client ms, server ms)] of prompt and of generation, for completed load requests of cells at concurrency 1."""
    records = [json.loads(line) for line in (run / "requests.jsonl").open(encoding="utf-8")]
    prompt, generation = [], []
    for number, served in enumerate(server_side((run / "engine.log").read_text(errors="replace")), 1):
        mine = sorted((r for r in records if r["start"] == number), key=lambda r: r["end_ns"])
        served = served[len(served) - len(mine):]  # the first ones are readiness requests
        if len(served) != len(mine):
            raise SystemExit(f"start {number}: {len(mine)} requests, {len(served)} timings in the log")
        for r, (prompt_ms, generation_ms) in zip(mine, served):
            if r["kind"] == "load" and r["outcome"] == "ok" and r["cell"].endswith("/c1"):
                prompt.append(((r["first_token_ns"] - r["sent_ns"]) / 1e6, prompt_ms))
                generation.append(((r["last_token_ns"] - r["first_token_ns"]) / 1e6, generation_ms))
    return prompt, generation


def main():
    runs = sorted(p.parent for p in pathlib.Path(sys.argv[1]).glob("*/requests.jsonl"))
    if not runs:
        print("1..0 # SKIP no quickstart was run here")
        return 0
    prompt, generation = pairs(runs[-1])
    failed = 0
    print("1..2")
    for number, (name, got) in enumerate((("prompt", prompt), ("generation", generation)), 1):
        client = statistics.median(c for c, _ in got) if got else 0
        server = statistics.median(s for _, s in got) if got else 0
        ok = len(got) >= 30 and abs(client - server) <= max(2, 0.02 * server)
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} {number} - {name}: client {client:.2f} ms, server {server:.2f} ms, "
              f"n {len(got)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
